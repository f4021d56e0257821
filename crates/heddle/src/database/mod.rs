//! A database's directory without the program that wrote it: judged, and copied.

pub mod backup;
mod overlay;
mod tables;
pub mod verify;
