//! HeddleDB on virtual cores.
//!
//! - [`point`]: one point of a curve: a workload under a protocol on so many virtual cores.
//! - [`completion`]: an application that they run to its end.
//! - [`search`]: many small simulations, each from a seed, whose histories and invariants are judged; with
//!   delays, deaths and disks that lose power.
//! - [`shapes`]: counters and locks whose curves are known; [`budget`]: exact costs, kept in a file;
//!   [`calibration`]: how well the table of costs fits a real machine.
//! - [`regions`]: how much room hardware regions have in the model.
//! - [`dependencies`]: on how many others a transaction depends; [`working_set`]: how much shared memory it accesses.
//!
//! The engine is the same source, compiled behind the simulation backend of its `sync` door; databases that
//! [`builder`] opens run on it. Tables, procedures, workloads and checks are the same as elsewhere. See
//! [`simulation`] for the machine, and `docs/simulation.md` for what it leaves out.

#![forbid(unsafe_code)]

pub mod budget;
pub mod calibration;
pub mod completion;
pub mod dependencies;
pub mod point;
pub mod regions;
pub mod search;
pub mod shapes;
pub mod timeline;
pub mod working_set;

pub use heddledb_engine_simulated::sync::simulation;

use heddledb::internals::BuilderInternals;

/// Settings for a database on virtual cores.
pub fn builder() -> heddledb::Builder {
    heddledb::Database::builder().engine(heddledb_engine_simulated::open)
}
