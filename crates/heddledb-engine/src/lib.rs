//! HeddleDB's engine: what shares memory. Programs use the crate `heddledb`.
//!
//! Concurrency controls, records, indexes, epochs, the log at work, recovery. It is reached by the seam alone:
//! [`open`] gives an [`Engine`](heddledb_core::seam::Engine). All its atomics, locks and clocks come through [`sync`],
//! whose backend makes it a plain engine, one under a model checker, or one on virtual cores (the package
//! `heddledb-engine-simulated`, with the same sources).
//!
//! **No promises**: anything in here may change in any version.

// Each room with unsafe code allows it; ARCHITECTURE lists them.
#![deny(unsafe_code)]
// Without some protocols there is much that nobody uses.
#![cfg_attr(not(feature = "protocols"), allow(dead_code, unused_imports))]

pub mod executors;
pub mod sync;

mod access;
mod arena;
mod batches;
mod commit;
mod db;
mod durability;
mod epoch;
mod footprint;
mod heap;
mod index;
mod intentions;
#[cfg(all(test, feature = "loom"))]
mod models;
mod open;
mod protocol;
mod rate;
mod record;
mod snapshot;
mod version;

pub use open::open;

// The rooms below the engine, by the names that they have in their crate.
use heddledb_core::{
    backup, check, copies, error, isolation, kind, log, metrics, migration, mutant, parallel, procedure,
    random, seam, settings, sight, stamp, storage, table, values, words,
};
