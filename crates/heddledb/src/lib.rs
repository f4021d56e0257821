//! HeddleDB: an embeddable, in-memory, serializable transaction engine.

pub mod sync;

mod error;
pub(crate) mod index;
pub mod record;
pub mod table;
mod transaction;

pub use error::{Conflict, Error, Misuse, Result};
pub use table::{Column, Row, Scan, Text};
pub use table::Table;
pub use heddledb_macros::Table;
pub use transaction::Transaction;
