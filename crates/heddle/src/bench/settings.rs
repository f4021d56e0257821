//! How the runs of a benchmark are made: what is the same in all of them.

use super::arrivals::Arrivals;
use crate::clock::Clock;
use heddledb::protocol::Isolation;
use heddledb::{Compression, LogKind};
use heddledb_workloads::ReadOnly;
use std::path::PathBuf;
use std::time::Duration;

/// What is the same in all runs of a benchmark.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What begins the transactions.
    pub driver: Driver,
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

/// What begins the transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Driver {
    /// Each worker executes its transactions itself, one after another: a closed loop.
    Closed,
    /// Clients submit calls, which executors of the database execute.
    Submitted(Submission),
}

/// How clients submit calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Submission {
    /// How many clients; as many as there are executors unless told.
    pub clients: Option<usize>,
    /// How many calls of each client are in flight at most.
    pub queue: usize,
    /// When calls arrive, in an open loop. Without, there are always as many in flight as may be: a window.
    pub arrivals: Option<Arrivals>,
}

impl Driver {
    /// How calls are submitted, if they are.
    pub fn submission(&self) -> Option<&Submission> {
        match self {
            Self::Closed => None,
            Self::Submitted(submission) => Some(submission),
        }
    }

    /// How many clients there are where so many threads execute; none in a closed loop.
    pub fn clients(&self, threads: usize) -> usize {
        self.submission().map_or(0, |submission| submission.clients.unwrap_or(threads))
    }
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
