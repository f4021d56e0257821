//! What became of hardware regions.

use heddledb::RegionMetrics;
use serde::{Deserialize, Serialize};

/// Counts, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionFigures {
    /// Where they come from: none, the processor, the model.
    pub source: String,
    /// Those that took effect.
    pub committed: u64,
    /// Of these, those for the commit alone, of what was executed in software.
    #[serde(default)]
    pub commits_only: u64,
    /// Aborted ones, by reason.
    pub conflicts: u64,
    /// They had not room enough.
    pub capacity: u64,
    /// They met a lock.
    pub explicit: u64,
    /// An interrupt or a page fault.
    pub interrupted: u64,
    /// They came to what no region can do.
    pub unfriendly: u64,
    /// Transactions, or pieces, that were executed in software, their commits too.
    pub software: u64,
}

impl RegionFigures {
    /// The figures of a database.
    pub fn of(metrics: RegionMetrics) -> Self {
        Self {
            source: metrics.source.to_string(),
            committed: metrics.committed,
            commits_only: metrics.commits_only,
            conflicts: metrics.conflicts,
            capacity: metrics.capacity,
            explicit: metrics.explicit,
            interrupted: metrics.interrupted,
            unfriendly: metrics.unfriendly,
            software: metrics.software,
        }
    }

    /// Aborted regions by reason, with names.
    pub fn aborted(&self) -> [(&'static str, u64); 5] {
        [
            ("conflicts", self.conflicts),
            ("capacity", self.capacity),
            ("locks", self.explicit),
            ("interrupts", self.interrupted),
            ("unfriendly", self.unfriendly),
        ]
    }

    /// All regions.
    pub fn begun(&self) -> u64 {
        self.committed + self.aborted().iter().map(|(_, count)| count).sum::<u64>()
    }

    /// Aborted ones as a share of all, 0 to 1.
    pub fn abort_rate(&self) -> f64 {
        (self.begun() - self.committed) as f64 / self.begun().max(1) as f64
    }

    /// What was executed in software, its commit too, as a share of all that was executed to its end, 0 to 1.
    pub fn software_share(&self) -> f64 {
        self.share(self.software)
    }

    /// Of what only the commit was in a region, likewise.
    pub fn commits_only_share(&self) -> f64 {
        self.share(self.commits_only)
    }

    fn share(&self, count: u64) -> f64 {
        count as f64 / (self.software + self.committed).max(1) as f64
    }
}
