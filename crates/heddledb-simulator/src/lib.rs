//! Workloads, and searches for bugs, on virtual cores.
//!
//! Everything here is about the engine behind the simulation backend of its `sync` door, and the workloads
//! compiled for it: they are other types than those of the plain engine, and a program may have both.

pub mod calibration;
pub mod point;

pub use heddledb as engine;
pub use heddledb_workloads as workloads;
