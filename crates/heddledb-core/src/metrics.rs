//! What a database tells of itself: counts, sizes, what a recovery found, what a checkpoint wrote.

use crate::error::Conflict;
use crate::log::{Lost, Torn};
use std::ops::{AddAssign, Sub};
use std::sync::Arc;
use std::time::Duration;

/// Numbers of ended attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Committed transactions.
    pub commits: u64,
    /// Transactions that gave up by their own decision or by a misuse.
    pub user_aborts: u64,
    /// Attempts that the concurrency control aborted, by [`Conflict`] (`Conflict::ALL` has the order).
    pub conflicts: [u64; Conflict::ALL.len()],
    /// Pieces that were executed again, under a protocol that executes calls piece by piece. These are no
    /// aborts.
    pub piece_retries: u64,
}

impl Stats {
    /// Attempts that the concurrency control aborted.
    pub fn conflicts_total(&self) -> u64 {
        self.conflicts.iter().sum()
    }

    /// Aborted attempts for one reason.
    pub fn conflicts_by(&self, reason: Conflict) -> u64 {
        self.conflicts[reason as usize]
    }

    /// Aborted attempts as a share of all attempts, 0 to 1.
    pub fn abort_rate(&self) -> f64 {
        let aborts = self.conflicts_total() as f64;
        let attempts = aborts + (self.commits + self.user_aborts) as f64;
        if attempts == 0.0 { 0.0 } else { aborts / attempts }
    }
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.commits += other.commits;
        self.user_aborts += other.user_aborts;
        self.piece_retries += other.piece_retries;
        self.conflicts.iter_mut().zip(other.conflicts).for_each(|(sum, more)| *sum += more);
    }
}

impl Sub for Stats {
    type Output = Self;
    fn sub(mut self, other: Self) -> Self {
        self.commits -= other.commits;
        self.user_aborts -= other.user_aborts;
        self.piece_retries -= other.piece_retries;
        self.conflicts.iter_mut().zip(other.conflicts).for_each(|(rest, less)| *rest -= less);
        self
    }
}

/// Counts and sizes of a database.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Ended attempts of all workers.
    pub stats: Stats,
    /// The epoch now.
    pub epoch: u64,
    /// Bytes of record memory, free blocks and old versions included.
    pub record_bytes: usize,
    /// Bytes of old versions that snapshots may need, or that wait for their reclamation.
    pub version_bytes: usize,
    /// Old versions that were kept for snapshots since the database was opened.
    pub versions_kept: u64,
    /// Reclamation steps that wait for their epoch, or for a snapshot to end.
    pub garbage: usize,
    /// The transaction that has been open for the longest, if it began in an earlier epoch. It delays no commit
    /// and no snapshot, but while it is open nothing that was deleted or overwritten since is reclaimed.
    pub oldest_transaction: Option<OldestTransaction>,
    /// How long the oldest snapshot has been open. Old versions and deleted rows pile up while it is.
    pub oldest_snapshot: Option<Duration>,
    /// What the log has done; `None` where nothing is logged.
    pub log: Option<LogMetrics>,
    /// Nodes or buckets of each index.
    pub index_nodes: Vec<(&'static str, usize)>,
}

/// A transaction that has been open for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldestTransaction {
    /// The number of its session, as `Session::worker` tells it.
    pub session: usize,
    /// Since when it was found open: looked at when the epoch advances, and here.
    pub age: Duration,
    /// Epochs that have begun since it did.
    pub epochs: u64,
    /// Reclamation steps that wait for it, or, the last few epochs' worth, for their turn: each is the block of a
    /// row or of an old version.
    pub holds: usize,
}

impl OldestTransaction {
    /// A transaction of that session.
    #[doc(hidden)]
    pub fn new(session: usize, age: Duration, epochs: u64, holds: usize) -> Self {
        Self { session, age, epochs, holds }
    }
}

/// What a log has done since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogMetrics {
    /// The last epoch that is durable, with all before it.
    pub durable_epoch: u64,
    /// Rounds written.
    pub rounds: u64,
    /// Bytes written to the files.
    pub bytes: u64,
    /// Bytes of the entries before compression.
    pub entry_bytes: u64,
    /// Time spent in writing and syncing.
    pub io_time: Duration,
    /// Bytes of log since the last checkpoint, of earlier openings too: what opening the directory would replay.
    pub replay_bytes: u64,
    /// About how long that would take one thread. An estimate from the numbers of bytes, rounds and writes.
    pub replay_time: Duration,
}

/// What opening a directory found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// Rows of the checkpoint.
    pub rows: u64,
    /// Transactions of the log that were replayed.
    pub transactions: u64,
    /// Their writes.
    pub writes: u64,
    /// Bytes of the checkpoint and the log that were read.
    pub bytes: u64,
    /// Stretches of the log that one thread read and handed to the others, of a mebibyte or a frame each; 0 where one
    /// thread did all.
    pub handed_over: u64,
    /// The last durable epoch.
    pub durable_epoch: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Log rounds that were being written when the last opening ended, and were cut off. Nobody had been
    /// told that they are durable.
    pub torn: Vec<Torn>,
    /// What was given up because of damage; only when opened with salvage.
    pub lost: Vec<Lost>,
    /// Indexes that were built or removed, in the order of their names.
    pub indexes: Vec<IndexChange>,
}

/// What opening a directory did to an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexChange {
    /// Its name, behind that of its table and a dot.
    pub name: String,
    /// Why it was built, or that it was removed.
    pub reason: IndexReason,
    /// Entries that it was built with.
    pub entries: u64,
}

impl IndexChange {
    /// Of an index without entries.
    #[doc(hidden)]
    pub fn new(name: &str, reason: IndexReason) -> Self {
        Self { name: name.to_owned(), reason, entries: 0 }
    }
}

/// Why opening a directory changed an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexReason {
    /// Its table was there without it, or it was defined otherwise.
    Added,
    /// The directory was written by a release that did not say whether an index is whole.
    OldFormat,
    /// An opening that should have built it was cut off.
    CutOff,
    /// Its table is declared without it now.
    Removed,
}

/// How far opening a directory has come.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecoveryProgress {
    /// Bytes read so far.
    pub done: u64,
    /// Bytes to read in all: each file of the log is read twice.
    pub total: u64,
    /// Rows whose entries in added indexes were made so far, a row once for each index. It begins when all is read.
    pub rows_indexed: u64,
    /// Of how many in all; 0 until all is read, and where no index is to be built.
    pub rows_to_index: u64,
}

impl RecoveryProgress {
    /// So many bytes of so many.
    #[doc(hidden)]
    pub fn new(done: u64, total: u64) -> Self {
        Self { done, total, rows_indexed: 0, rows_to_index: 0 }
    }

    /// All has been read, and so many rows of so many are in added indexes.
    #[doc(hidden)]
    pub fn indexing(total: u64, rows_indexed: u64, rows_to_index: u64) -> Self {
        Self { done: total, total, rows_indexed, rows_to_index }
    }
}

/// Is told how far it is.
pub type Tell = Arc<dyn Fn(RecoveryProgress) + Send + Sync>;

/// What a checkpoint wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// The last epoch that it holds.
    pub epoch: u64,
    /// Rows of all tables and indexes.
    pub rows: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}
