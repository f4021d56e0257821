//! The typed front: databases, sessions and transactions as users see them, compiled once for all protocols.
//!
//! It knows no protocol: every operation goes through [`crate::seam`] in words. It has no atomics and no unsafe code.

mod alter;
mod builder;
#[cfg(feature = "postcard")]
mod by_name;
#[cfg(feature = "suspend")]
mod crew;
mod database;
mod deferring;
mod entries;
mod erased;
mod intentions;
mod late;
mod nesting;
mod operations;
mod overdue;
mod owned;
mod pending;
mod replayer;
mod rows;
mod session;
mod snapshot;
mod submit;
mod tools;
mod txn;

pub use builder::Builder;
pub use database::Database;
pub use deferring::DeferringTxn;
pub use owned::OwnedTransaction;
pub use pending::{Pending, Priority};
pub use rows::{RowScan, RowTable, Rows};
pub use session::Session;
pub use snapshot::Snapshot;
pub use submit::Executor;
pub use tools::{BuilderInternals, DatabaseInternals, SessionInternals};
pub use txn::Txn;
