//! HeddleDB on virtual cores: workloads, known shapes, searches for bugs.
//!
//! The engine is the same source, compiled behind the simulation backend of its `sync` door, and so are the
//! workloads: they are other types than those of the plain engine, and a program may have both. See
//! [`engine::simulation`] for the machine, and `docs/simulation.md` for what it leaves out.

#![forbid(unsafe_code)]

pub mod budget;
pub mod calibration;
pub mod point;
pub mod shapes;

pub use heddledb as engine;
pub use heddledb_workloads as workloads;
