//! How the runs of a benchmark are made: what is the same in all of them.

use crate::clock::Clock;
use heddledb::protocol::Isolation;
use heddledb::{Compression, LogKind};
use heddledb_workloads::ReadOnly;
use std::path::PathBuf;
use std::time::Duration;

/// What is the same in all runs of a benchmark.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long workers run before the window.
    pub warmup: Duration,
    /// How long the window is.
    pub seconds: Duration,
    /// Sessions on each thread: one that spins while it waits, or several of which each goes on where another waits.
    pub crew: usize,
    /// Inputs drawn ahead by each worker; 0 draws each in the window.
    pub pool: usize,
    /// The seed of loading and drawing.
    pub seed: u64,
    /// How transactions that only read are run.
    pub read_only: ReadOnly,
    /// The isolation level.
    pub isolation: Isolation,
    /// How runs with a log write it.
    pub log: LogSettings,
    /// The cores for pinning, in order; workers are pinned if there are enough.
    pub cores: Vec<usize>,
    /// The clock.
    pub clock: Clock,
}

/// How a log is written.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Where runs make their folders.
    pub directory: PathBuf,
    /// Files at once.
    pub files: u8,
    /// Whether it is compressed.
    pub compression: Compression,
    /// What it says of a commit.
    pub kind: LogKind,
    /// Whether a checkpoint is taken of what was loaded.
    pub checkpoint: bool,
    /// Whether the database is opened again after the run, and checked.
    pub recover: bool,
    /// By how many threads; as many as there are cores unless told.
    pub recovery_threads: Option<usize>,
}
