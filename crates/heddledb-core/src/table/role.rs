//! What a relation is for, as far as storage has to know: rows that a program writes, or entries that are made of them.
//!
//! An index that is added to a table with rows is built from these, and one that is there can be compared with them.
//! Whoever does so has words and no types, so a relation says in words what its entries are.

use super::key::{KeyWords, decode_key, encode_key};
use super::{Definition, Index, IndexSet, IndexVisitor, Table};
use crate::error::Result;
use crate::values::{Longer, Short, Values, check_limits};
use crate::words::WithValues;
use std::fmt;
use std::marker::PhantomData;

/// What a relation is for.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    /// Nobody knows: it is loaded and stored, and belongs to nothing.
    Unknown,
    /// Rows that a program writes.
    Table(&'static dyn TableRole),
    /// One entry for each row of a table.
    Index(&'static dyn IndexRole),
}

/// What a table is besides its shape.
pub trait TableRole: fmt::Debug + Send + Sync {
    /// Its secondary indexes. Allocates the list.
    fn indexes(&self) -> Vec<&'static Definition>;
    /// A key for a person to read, from its words.
    fn key_text(&self, key: &[u64]) -> String;
}

/// What a secondary index is besides its shape. An entry's key is made of its row, and its row is the key of that.
pub trait IndexRole: fmt::Debug + Send + Sync {
    /// The table of the rows.
    fn table(&self) -> &'static Definition;
    /// Whether two rows may not have equal indexed columns.
    fn is_unique(&self) -> bool;
    /// Writes the entry's key of a row to `entry`, which has as many words as such keys. The row is given as all its data words,
    /// and who keeps its values.
    ///
    /// # Errors
    /// A value of the row that is longer than the index has room for.
    fn entry(&self, row: &[u64], values: &dyn Values, entry: &mut [u64]) -> Result<(), Longer>;
    /// An entry's key for a person to read, from its words.
    fn key_text(&self, entry: &[u64]) -> String;
}

impl Role {
    /// Of an index.
    pub fn index(self) -> Option<&'static dyn IndexRole> {
        match self {
            Self::Index(index) => Some(index),
            Self::Table(_) | Self::Unknown => None,
        }
    }

    /// Of a table.
    pub fn table(self) -> Option<&'static dyn TableRole> {
        match self {
            Self::Table(table) => Some(table),
            Self::Index(_) | Self::Unknown => None,
        }
    }
}

/// The role of a table that is a Rust type.
pub struct TypedTable<T>(PhantomData<fn() -> T>);

/// The role of an index that is a Rust type.
pub struct TypedIndex<I>(PhantomData<fn() -> I>);

impl<T> TypedTable<T> {
    /// The role.
    #[expect(clippy::new_without_default, reason = "only generated code makes one")]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<I> TypedIndex<I> {
    /// The role.
    #[expect(clippy::new_without_default, reason = "only generated code makes one")]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> fmt::Debug for TypedTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TypedTable")
    }
}

impl<I> fmt::Debug for TypedIndex<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TypedIndex")
    }
}

impl<T: Table> TableRole for TypedTable<T> {
    fn indexes(&self) -> Vec<&'static Definition> {
        struct Collect(Vec<&'static Definition>);
        impl<T: Table> IndexVisitor<T> for Collect {
            fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
                self.0.push(I::definition());
                Ok(())
            }
        }
        let mut indexes = Collect(Vec::new());
        T::Indexes::each(&mut indexes).expect("nothing fails there");
        indexes.0
    }

    fn key_text(&self, key: &[u64]) -> String {
        format!("{:?}", decode_key::<T::Key>(key))
    }
}

impl<I: Index> IndexRole for TypedIndex<I> {
    fn table(&self) -> &'static Definition {
        <I::Table as super::Relation>::definition()
    }

    fn is_unique(&self) -> bool {
        I::UNIQUE
    }

    fn entry(&self, row: &[u64], values: &dyn Values, entry: &mut [u64]) -> Result<(), Longer> {
        check_limits(I::KEY_LIMITS, &row)?;
        let row = I::Table::load(&WithValues { row, values: &Short(values) });
        let words: I::Words = encode_key(&I::entry(&row));
        entry.copy_from_slice(words.words());
        Ok(())
    }

    fn key_text(&self, entry: &[u64]) -> String {
        format!("{:?}", decode_key::<I::Key>(entry))
    }
}
