//! Procedures: transactions whose accesses are declared.

mod plan;

pub(crate) use plan::Declared;
pub use plan::Plan;
