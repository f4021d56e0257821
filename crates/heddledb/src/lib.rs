//! HeddleDB: an embeddable, in-memory, serializable transaction engine.

pub mod sync;

pub(crate) mod index;
pub(crate) mod record;
