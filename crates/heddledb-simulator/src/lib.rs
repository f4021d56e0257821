//! Workloads, and searches for bugs, on virtual cores.

pub mod point;
