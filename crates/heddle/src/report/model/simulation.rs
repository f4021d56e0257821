//! What a point on virtual cores cost.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a point on virtual cores cost, and on what machine. `cycles` and all that follows it are means per
/// transaction, user aborts included, over the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// Sockets of the machine.
    pub sockets: usize,
    /// Cores of a socket.
    pub cores_per_socket: usize,
    /// Times what the table has for what cores cost each other (1, but for a sweep).
    pub coherence: f64,
    /// The table of costs, as it was used.
    pub costs: BTreeMap<String, u64>,
    /// What the table was calibrated on, and how well it fits.
    pub calibration: String,
    /// Throughput in relation to that of the same protocol on one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_up: Option<f64>,
    /// Accesses to shared memory by all cores, warm-up included.
    pub steps: u64,
    /// Transactions that the means are over.
    pub transactions: u64,
    /// Cycles.
    pub cycles: f64,
    /// Conflicts.
    pub conflicts: f64,
    /// Accesses to shared memory.
    pub accesses: f64,
    /// Of them, read-modify-writes.
    pub rmws: f64,
    /// Accesses to the line of the access before.
    pub same: f64,
    /// Accesses to other lines in the own cache.
    pub hits: f64,
    /// Clean lines from shared caches.
    pub fetches: f64,
    /// Lines from memory.
    pub memory: f64,
    /// Lines that another core had written.
    pub transfers: f64,
    /// Writes to lines of which others had copies.
    pub upgrades: f64,
    /// Of fetches, transfers and upgrades, those between sockets.
    pub far: f64,
    /// Cycles of waiting for lines that were busy.
    pub queueing_cycles: f64,
    /// Cycles of spinning, yielding, sleeping and being parked.
    pub waiting_cycles: f64,
    /// Cycles of work that is no access to shared memory.
    pub work_cycles: f64,
    /// That work by kind: how often.
    pub work: BTreeMap<String, f64>,
    /// Where the cycles of attempts went: in the body, in indexes, in validation and commit, in waiting; what
    /// attempts took that did not commit is all under `abort`.
    #[serde(default)]
    pub phases: BTreeMap<String, f64>,
    /// On how many others a transaction depended, where that was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<DependencyFigures>,
}

/// On how many others a transaction depended; means over those that committed piece by piece, warm-up
/// included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DependencyFigures {
    /// How many the means are over.
    pub transactions: u64,
    /// Others whose accesses it met while they ran.
    pub direct: f64,
    /// More others, which it depended on through these.
    pub transitive: f64,
}

impl Simulation {
    /// Waiting, of either kind, as a share of the cycles.
    pub fn waiting_share(&self) -> f64 {
        if self.cycles > 0.0 { (self.queueing_cycles + self.waiting_cycles) / self.cycles } else { 0.0 }
    }
}
