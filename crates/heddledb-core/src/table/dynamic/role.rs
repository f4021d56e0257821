//! The roles of relations that are defined at run time: see [`Role`](crate::table::Role).

use super::relation::ColumnDefinition;
use super::value::Value;
use crate::table::key::{KeyReader, KeyWriter};
use crate::table::{Definition, IndexRole, TableRole};
use crate::values::{Limit, Longer, Values, check_limits};
use crate::words::WithValues;
use std::fmt;
use std::sync::OnceLock;

/// The role of a table.
pub(super) struct RowsRole {
    /// The parts of the key.
    pub key: Vec<ColumnDefinition>,
    /// Set when the indexes are defined, before anyone else has the definition.
    pub indexes: OnceLock<Vec<&'static Definition>>,
}

/// The role of an index.
pub(super) struct EntriesRole {
    pub table: &'static Definition,
    pub unique: bool,
    /// The parts of an entry's key.
    pub key: Vec<ColumnDefinition>,
    pub limits: Vec<Limit>,
}

impl fmt::Debug for RowsRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowsRole")
    }
}

impl fmt::Debug for EntriesRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntriesRole of {}", self.table.name())
    }
}

impl TableRole for RowsRole {
    fn indexes(&self) -> Vec<&'static Definition> {
        self.indexes.get().cloned().unwrap_or_default()
    }

    fn key_text(&self, key: &[u64]) -> String {
        text(&self.key, key)
    }
}

impl IndexRole for EntriesRole {
    fn table(&self) -> &'static Definition {
        self.table
    }

    fn is_unique(&self) -> bool {
        self.unique
    }

    fn entry(&self, row: &[u64], values: &dyn Values, entry: &mut [u64]) -> Result<(), Longer> {
        check_limits(&self.limits, &row)?;
        entry.fill(0);
        let mut writer = KeyWriter::new(entry);
        for column in &self.key {
            let written = column.write_key(&column.load(&WithValues { row, values }), &mut writer);
            assert!(written.is_ok(), "what a column loads fits it");
        }
        Ok(())
    }

    fn key_text(&self, entry: &[u64]) -> String {
        text(&self.key, entry)
    }
}

/// A key whose parts are these columns.
fn text(columns: &[ColumnDefinition], words: &[u64]) -> String {
    let mut reader = KeyReader::new(words);
    let values: Vec<String> = columns
        .iter()
        .map(|column| column.read_key(&mut reader))
        .map(|value: Value| value.to_string())
        .collect();
    match &values[..] {
        [value] => value.clone(),
        values => format!("({})", values.join(", ")),
    }
}
