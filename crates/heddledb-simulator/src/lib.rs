//! HeddleDB on virtual cores: workloads, known shapes, searches for bugs.
//!
//! The engine is the same source, compiled behind the simulation backend of its `sync` door; see
//! `heddledb::simulation` for the machine, and `docs/simulation.md` for what it leaves out.

#![forbid(unsafe_code)]

pub mod budget;
pub mod point;
pub mod shapes;
