//! A database's directory without the program that wrote it: judged, copied, and as text.

pub mod backup;
pub mod export;
pub mod import;
mod open;
mod overlay;
pub mod restore;
pub mod schema;
pub mod tables;
mod text;
pub mod verify;
