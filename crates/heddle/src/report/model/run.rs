//! One run, and the figures that it consists of.

use super::driver::CallFigures;
use super::regions::RegionFigures;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One run: a fresh database, loaded, warmed up, measured, checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Counts from one.
    pub run: usize,
    /// Why the run ended early, if it did; its figures are then void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long loading took.
    pub load_seconds: f64,
    /// The measured window.
    pub seconds: f64,
    /// Transactions that committed in the window.
    pub committed: u64,
    /// Transactions that decided to abort.
    pub user_aborts: u64,
    /// By how many ticks logical time grew meanwhile, where times are logical.
    #[serde(default)]
    pub ticks: u64,
    /// Attempts that conflicted, by reason.
    pub conflicts: BTreeMap<String, u64>,
    /// Commits and user aborts by kind of transaction.
    pub kinds: BTreeMap<String, Outcomes>,
    /// Committed transactions in a second.
    pub throughput_tps: f64,
    /// Conflicts as a share of all attempts.
    pub abort_rate: f64,
    /// The share of the window that the workers ran on a core.
    pub core_share: f64,
    /// The share of that time that they spent in the system, most of it to get memory for new rows.
    #[serde(default)]
    pub system_share: f64,
    /// Bytes of records at the end of the window, those of old versions and of free blocks included.
    #[serde(default)]
    pub record_bytes: u64,
    /// Bytes of old versions at the end of the window, kept for snapshots.
    #[serde(default)]
    pub version_bytes: u64,
    /// From the first start of a transaction to its commit, or from what the driver says, retries included.
    pub latency_us: Latency,
    /// What came of submitted calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallFigures>,
    /// Latencies by kind of transaction, on virtual cores.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds_latency_us: BTreeMap<String, Latency>,
    /// What the log did, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogFigures>,
    /// What became of hardware regions, under a protocol that has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<RegionFigures>,
    /// The checks after this run.
    pub checks: Vec<CheckResult>,
}

/// What a log did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogFigures {
    /// From the first start of a transaction until it was durable; under `epoch` of one commit in 64.
    pub durable_latency_us: Latency,
    /// Bytes in the files for each committed transaction.
    pub bytes_per_transaction: f64,
    /// Megabytes written in a second, while the workers ran.
    pub mb_per_second: f64,
    /// How many times longer the entries are than the files.
    pub compression: f64,
    /// Rounds in a second: each is a write and a sync.
    pub rounds_per_second: f64,
    /// How long opening the directory took; 0 where it was not opened again, as for what follows.
    pub recovery_seconds: f64,
    /// Megabytes of log replayed in a second.
    pub recovery_mb_per_second: f64,
    /// Writes of records replayed in a second.
    pub recovery_writes_per_second: f64,
    /// How many times faster the log was replayed than it had been written.
    pub recovery_to_production: f64,
}

/// What became of the transactions of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcomes {
    /// How many committed.
    pub committed: u64,
    /// How many decided to abort.
    pub user_aborts: u64,
}

/// Latency of committed transactions in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// Half are faster.
    pub p50: f64,
    /// 95 % are faster.
    pub p95: f64,
    /// 99 % are faster.
    pub p99: f64,
    /// 99.9 % are faster.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

impl Latency {
    /// The percentiles with their names, from the lowest.
    pub fn percentiles(&self) -> [(&'static str, f64); 4] {
        [("p50", self.p50), ("p95", self.p95), ("p99", self.p99), ("p99.9", self.p999)]
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// What was checked.
    pub name: String,
    /// Whether it held.
    pub ok: bool,
    /// The figures that were compared.
    pub detail: String,
}

/// How many checks there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckCount {
    /// Those that were made.
    pub all: usize,
    /// Those that failed.
    pub failed: usize,
}

impl fmt::Display for CheckCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { all: 0, .. } => f.write_str("no check was made"),
            Self { all, failed: 0 } => write!(f, "all {all} checks held"),
            Self { all, failed } => write!(f, "{failed} of {all} checks failed"),
        }
    }
}

impl Run {
    /// A run that broke off.
    pub fn broken(run: usize, error: String) -> Self {
        let check = CheckResult { name: "the run completed".into(), ok: false, detail: error.clone() };
        Self { run, error: Some(error), checks: vec![check], ..Self::default() }
    }

    /// Commits, user aborts and conflicts.
    pub fn attempts(&self) -> u64 {
        self.committed + self.user_aborts + self.conflicts.values().sum::<u64>()
    }
}
