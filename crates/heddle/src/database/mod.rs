//! A database's directory without the program that wrote it: judged, and copied.

pub mod backup;
mod overlay;
pub mod schema;
mod tables;
pub mod verify;
