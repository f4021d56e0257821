//! HeddleDB: an embeddable, in-memory, serializable transaction engine for multicore machines.
//!
//! Typed tables, ordinary Rust functions as transactions, and any of several concurrency controls below them: choose
//! the one that suits your load, or change it without touching a line of your transactions.
//!
//! ```
//! use heddledb::{Database, Error, ReadTransaction, Scan, Table, Text, Transaction, protocol::TicToc};
//!
//! #[derive(Table, Clone, Copy)]
//! #[table(index(ByOwner(owner)))]
//! struct Account {
//!     #[key]
//!     id: u64,
//!     owner: Text<24>,
//!     #[group(money)] // its own column group: readers of `owner` do not conflict with payments
//!     balance: i64,
//! }
//!
//! fn transfer(tx: &mut impl Transaction, from: u64, to: u64, amount: i64) -> heddledb::Result<i64> {
//!     let left = tx.update_columns(from, Account::balance, |balance| {
//!         *balance -= amount;
//!         *balance
//!     })?;
//!     if left < 0 {
//!         return Err(Error::user("insufficient funds")); // nothing has happened
//!     }
//!     tx.add(Account::balance, to, amount)?; // commutes with other adds
//!     Ok(left)
//! }
//!
//! let db = Database::builder().protocol(TicToc::default()).open()?;
//! let mut session = db.session()?; // one per thread
//! session.run(|tx| {
//!     tx.insert(Account { id: 1, owner: Text::truncated("Ada"), balance: 100 })?;
//!     tx.insert(Account { id: 2, owner: Text::truncated("Bo"), balance: 0 })
//! })?;
//! let left = session.run(|tx| transfer(tx, 1, 2, 30))?; // conflicts are retried
//! let bo = session.run(|tx| tx.find::<ByOwner>(Text::truncated("Bo")))?.expect("just inserted");
//! let rich = session.run(|tx| tx.collect(Scan::<Account>::range(1..).reverse().limit(10)))?;
//! assert_eq!((left, bo.balance, rich.len()), (70, 30, 2));
//! # Ok::<(), Error>(())
//! ```
//!
//! # What is guaranteed
//!
//! - Transactions are serializable, phantoms included, under every protocol; strictly so (in an order that agrees with
//!   real time) under all but plain `tictoc`. Weaker levels are by request: [`protocol::Isolation`].
//! - A transaction takes effect as a whole or not at all. Conflicts are retried by [`Session::run`]; a decision or a panic
//!   that rests on reads that do not stand never reaches you.
//! - With files, what survives is a prefix of the serial order, and what was acknowledged under [`Durability::Sync`] is
//!   in it.
//! - Snapshots see one moment, never conflict, and nobody waits for them.
//!
//! # Where to find what
//!
//! | to | see |
//! |---|---|
//! | open a database, in memory or in a directory | [`Database`], [`Builder`], [`Durability`] |
//! | choose a protocol, by value or by name | [`Builder::protocol`], [`Builder::protocol_named`], [`protocol`] |
//! | declare tables, keys, column groups, indexes | [`derive@Table`], [`table`] |
//! | put enums, newtypes, times and the like into columns and keys | [`table::ColumnValue`], [`table::Key`] |
//! | define tables at run time, and use rows of values | [`table::dynamic`], [`Database::define`], [`Rows`] |
//! | run transactions | [`Session`], [`Transaction`], [`ReadTransaction`], [`OwnedTransaction`] |
//! | read rows by ranges, by an index, page by page | [`Scan`], [`ReadTransaction::collect`], [`ReadTransaction::page`], [`Onward`] |
//! | defer what a transaction does, so that rows in demand are handed on | [`Session::defer`], [`Deferring`] |
//! | keep queues, maps, arrays, counters and the like in a database | [`objects`], [`derive@Objects`] |
//! | read without conflicts | [`Session::read`], [`Snapshot`] |
//! | name transactions, so that they can be analysed and pipelined | [`macro@procedure`], [`Session::call`], [`mod@procedure`] |
//! | have calls executed by other threads, and wait for them later, or in async code | [`Session::submit`], [`Pending`] |
//! | know what went on | [`Database::metrics`], [`Stats`], [`Conflict`] |
//! | know that indexes and files are right | [`Database::check`], [`CheckReport`] |
//! | change the schema of a directory | [`Migration`], [`Builder::migrate`], [`Builder::schema_change`] |
//! | take a copy that opens, beside writers, and continue it with the log | [`Database::backup`], [`Backup`] |
//! | go back to an earlier moment | [`Restore`] |
//! | keep files elsewhere than in a directory | [`storage`] |
//!
//! A body is compiled once, whatever protocols it runs under: operations go through one indirect call each, and the
//! protocol is static below it.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `lz4` (default) | compressed logs |
//! | `protocols` (default) | every protocol; without it Silo alone, and those that are named: `dta`, `drp`, `hekaton`, `htm`, `ic3`, `locking`, `tictoc`, `unprotected`. A name or options of another are refused when a database is opened |
//! | `postcard` | procedures called by name, with arguments and results as bytes; includes `serde` |
//! | `jiff`, `uuid`, `rust_decimal` | columns of these crates' times, dates and durations, UUIDs, and decimals |
//! | `serde` | `Serialize` and `Deserialize` of [`Text`], so that rows can derive them; `Serialize` of [`Page`] and of rows of values |
//! | `suspend` | several sessions on one thread, of which each goes on where another waits |
//! | `shuttle`, `mutants`, `example` | the project's own tests |

#![forbid(unsafe_code)]

mod front;

// The rooms below the front, by the names that they have in their crate.
use heddledb_core::{
    backup, check, deferred, error, isolation, kind, log, migration, mutant, reading, seam, settings, sight,
    stamp, transaction, values, words,
};

pub use front::{
    Builder, Database, DeferringTxn, OwnedTransaction, Pending, Priority, RowScan, RowTable, Rows, Session,
    Snapshot, Txn,
};
pub use heddledb_core::backup::{Backup, BackupProgress, BackupReport};
pub use heddledb_core::check::{CheckReport, IndexCheck};
pub use heddledb_core::copies::{Reach, Restore, RestoreProgress, RestoreReport};
pub use heddledb_core::deferred::{Deferred, Deferring, Inputs, Later, Operator, Outcome, Refusal};
pub use heddledb_core::error::{Conflict, Error, GaveUp, Met, Misuse, ObjectMisuse, Result};
pub use heddledb_core::isolation::Isolation;
pub use heddledb_core::log::{Compression, FileCheck, KeyTooLong, LogError, LogKind, NotUnique};
pub use heddledb_core::metrics::{
    CheckpointReport, GraphMetrics, IndexChange, IndexReason, LogMetrics, Metrics, OldestTransaction,
    Recovery, RecoveryProgress, RegionMetrics, RegionSource, Stats,
};
pub use heddledb_core::migration::{Migration, SchemaChange, TableChange};
pub use heddledb_core::objects::{self, Objects};
pub use heddledb_core::seam::{ProcedureInfo, Ticket};
pub use heddledb_core::settings::Durability;
pub use heddledb_core::stamp::LogicalTime;
pub use heddledb_core::storage;
pub use heddledb_core::table::{self, Column, Page, Row, Scan, Table, Text};
pub use heddledb_core::transaction::{Onward, ReadTransaction, Transaction};
pub use heddledb_macros::{Table, procedure};

/// Procedures: transactions whose accesses are known before they run.
///
/// A *site* is a place in a procedure's body that calls a table operation. The attribute
/// [`#[procedure]`](macro@crate::procedure) finds the sites of a Rust function, and gives a type that implements
/// [`Procedure`](procedure::Procedure); what it declares is a [`Declaration`](procedure::Declaration).
pub mod procedure {
    #[cfg(feature = "postcard")]
    pub use heddledb_core::procedure::NamedProcedure;
    pub use heddledb_core::procedure::{
        Announcement, Checked, Declaration, PlanChange, Procedure, ReadProcedure, Site, Tracking, text,
        workload,
    };
    #[doc(hidden)]
    pub use heddledb_core::procedure::{decode_arguments, encode_arguments, fingerprint};
}

/// Protocols, by value and by name.
///
/// | options | control | guarantee |
/// |---|---|---|
/// | [`Silo`](protocol::Silo) | optimistic, commit by read validation; commit times computed or from a counter | strictly serializable |
/// | [`TicToc`](protocol::TicToc) | optimistic, commit time computed from the data | serializable, not strict |
/// | [`Dta`](protocol::Dta) | optimistic, commit time chosen from the interval that conflicts with recent commits leave | strictly serializable |
/// | [`Hekaton`](protocol::Hekaton) | optimistic on several versions: reads as of the begin, checked again at the end | strictly serializable |
/// | [`Drp`](protocol::Drp) | writers queue in the order of ranks, commit in the order of the queues, hand over row by row | strictly serializable |
/// | [`Ic3`](protocol::Ic3) | pieces that show their writes, in an order that static analysis keeps free of cycles | strictly serializable |
/// | [`Locking`](protocol::Locking) | two-phase locking: NO_WAIT, WAIT_DIE, deadlock detection, ordered acquisition | strictly serializable |
/// | [`Unprotected`](protocol::Unprotected) | none, one session | serial |
///
/// [`Kind`](protocol::Kind) has a name for each that is worth comparing, with its options.
pub mod protocol {
    pub use heddledb_core::isolation::{Isolation, UnknownIsolation};
    pub use heddledb_core::kind::*;
}

/// What the project's own tools use: the door to shared memory, the log's format, the seam below the sessions, plans
/// and procedures that are made at run time.
/// **No promises**: anything in here may change in any version.
pub mod internals {
    pub use crate::front::{BuilderInternals, DatabaseInternals, Executor, SessionInternals};
    pub use heddledb_core::seam::{Registered, Savepoint};
    pub use heddledb_core::{copies, log, random, seam, shared};
    pub use heddledb_engine::sync;
}

#[cfg(feature = "mutants")]
pub use heddledb_core::mutant::{Mutant, plant};
