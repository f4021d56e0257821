//! What a figure was measured on.

use serde::{Deserialize, Serialize};

/// The machine, the system and the compiler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// How many hardware threads the process may use.
    pub cores: usize,
    /// Main memory.
    pub memory_gib: f64,
    /// The system and its kernel.
    pub os: String,
    /// True if the processor says that it is a guest's.
    pub virtual_machine: bool,
    /// The setting for transparent huge pages.
    pub huge_pages: String,
    /// The compiler that built this program.
    pub rustc: String,
    /// What it was built for.
    pub target: String,
    /// `release` or `debug`.
    pub profile: String,
    /// The version of this program.
    pub heddle: String,
}
