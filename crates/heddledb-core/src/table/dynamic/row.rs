//! A row as values with names.

use super::definition::TableDefinition;
use super::key::EncodedKey;
use super::relation::check_count;
use super::value::{Value, WrongType};
use crate::error::{Misuse, Result};
use crate::words::Words;
use std::fmt;
use std::ops::Index;

/// A row of a table that is defined at run time: a value for each column.
#[derive(Clone)]
pub struct RowValues {
    definition: &'static TableDefinition,
    /// As many as the table has columns.
    values: Vec<Value>,
}

impl RowValues {
    /// `values` are as many as the table has columns.
    pub(super) fn new(definition: &'static TableDefinition, values: Vec<Value>) -> Self {
        assert_eq!(values.len(), definition.columns().len(), "a row has a value for each column");
        Self { definition, values }
    }

    /// The table.
    pub fn table(&self) -> &'static TableDefinition {
        self.definition
    }

    /// The values, by order of declaration.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The values, by order of declaration.
    pub fn into_values(self) -> Vec<Value> {
        self.values
    }

    /// The value of a column as a Rust type.
    ///
    /// # Errors
    /// [`Misuse::NoColumn`], and [`Misuse::WrongValue`] where the column's type is another.
    pub fn get<'a, V>(&'a self, column: &str) -> Result<V>
    where
        V: TryFrom<&'a Value, Error = WrongType>,
    {
        let column = self.definition.column(column)?;
        let value = &self.values[column.ordinal()];
        V::try_from(value).map_err(|WrongType { expected, given }| {
            let (table, column) = (self.definition.name(), column.name());
            Misuse::WrongValue { table, column, expected, given }.into()
        })
    }

    /// Gives a column another value, whose type is checked when the row is written.
    ///
    /// # Errors
    /// [`Misuse::NoColumn`].
    pub fn set(&mut self, column: &str, value: impl Into<Value>) -> Result<()> {
        let at = self.definition.column(column)?.ordinal();
        self.values[at] = value.into();
        Ok(())
    }

    /// The encoded primary key.
    ///
    /// # Errors
    /// [`Misuse::WrongValue`] where a part of it has another type than its column.
    pub fn key(&self) -> Result<EncodedKey> {
        self.definition.relation().key_of(&self.values)
    }

    /// Names and values, by order of declaration.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &Value)> {
        self.definition.column_names().iter().copied().zip(&self.values)
    }
}

/// The value of a column.
///
/// # Panics
/// When the table has no such column; [`RowValues::get`] returns an error instead.
impl Index<&str> for RowValues {
    type Output = Value;
    fn index(&self, column: &str) -> &Value {
        match self.definition.column(column) {
            Ok(column) => &self.values[column.ordinal()],
            Err(error) => panic!("{error}"),
        }
    }
}

/// Equal tables and equal values.
impl PartialEq for RowValues {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.definition, other.definition) && self.values == other.values
    }
}

/// `account { id: 7, owner: "ada" }`.
impl fmt::Debug for RowValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct(self.definition.name());
        for (name, value) in self.iter() {
            match value {
                Value::Text(text) => fields.field(name, text),
                value => fields.field(name, &format_args!("{value}")),
            };
        }
        fields.finish()
    }
}

impl TableDefinition {
    /// A row of these values, by order of declaration.
    ///
    /// # Errors
    /// [`Misuse::WrongCount`] when there are not as many as columns; their types are checked when they are
    /// written.
    pub fn row(&'static self, values: impl Into<Vec<Value>>) -> Result<RowValues> {
        let values = values.into();
        check_count(self.name(), "row", self.columns(), &values)?;
        Ok(RowValues::new(self, values))
    }

    /// Reads a row, as [`decode_row`](Self::decode_row) does.
    pub fn read(&'static self, source: &impl Words) -> RowValues {
        RowValues::new(self, self.decode_row(source))
    }
}
