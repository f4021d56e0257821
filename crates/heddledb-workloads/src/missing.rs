//! Rows that the schema promises.

use heddledb::{Error, Result};
use std::fmt;

/// A row that the schema promises is not there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing(pub &'static str);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a row of {} that must exist is missing", self.0)
    }
}

impl std::error::Error for Missing {}

pub(crate) trait OrMissing<V> {
    /// The value, or an error that names the table.
    fn or_missing(self, table: &'static str) -> Result<V>;
}

impl<V> OrMissing<V> for Option<V> {
    #[inline]
    fn or_missing(self, table: &'static str) -> Result<V> {
        self.ok_or_else(|| Error::user(Missing(table)))
    }
}
