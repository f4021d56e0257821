//! Workloads, and searches for bugs, on virtual cores.
//!
//! - [`point`]: one point of a curve: a workload under a protocol on so many virtual cores;
//! - [`search`]: many small simulations, each from a seed, whose histories and invariants are judged; with
//!   delays, deaths and disks that lose power.

#![forbid(unsafe_code)]

pub mod point;
pub mod search;
