//! check
pub mod conformance;
