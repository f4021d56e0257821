//! What a database tells of itself: counts, sizes, what a recovery found, what a checkpoint wrote.

use crate::error::Conflict;
use crate::log::{Lost, Torn};
use crate::migration::SchemaChange;
use std::fmt;
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
    /// Accesses of calls that their announcement did not foresee, under a protocol that orders calls by what they
    /// announce. They are as safe as others, and may conflict.
    pub unforeseen: u64,
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
        self.unforeseen += other.unforeseen;
        self.conflicts.iter_mut().zip(other.conflicts).for_each(|(sum, more)| *sum += more);
    }
}

impl Sub for Stats {
    type Output = Self;
    fn sub(mut self, other: Self) -> Self {
        self.commits -= other.commits;
        self.user_aborts -= other.user_aborts;
        self.piece_retries -= other.piece_retries;
        self.unforeseen -= other.unforeseen;
        self.conflicts.iter_mut().zip(other.conflicts).for_each(|(rest, less)| *rest -= less);
        self
    }
}

/// In words: commits, aborts, and each reason that there was, the most frequent first.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} committed, {} given up, {} conflicts",
            self.commits,
            self.user_aborts,
            self.conflicts_total()
        )?;
        let mut reasons: Vec<Conflict> =
            Conflict::ALL.into_iter().filter(|reason| self.conflicts_by(*reason) != 0).collect();
        reasons.sort_by_key(|reason| std::cmp::Reverse(self.conflicts_by(*reason)));
        for (at, reason) in reasons.iter().enumerate() {
            write!(f, "{}{reason} {}", if at == 0 { " (" } else { ", " }, self.conflicts_by(*reason))?;
        }
        if !reasons.is_empty() {
            f.write_str(")")?;
        }
        if self.piece_retries != 0 {
            write!(f, ", {} pieces executed again", self.piece_retries)?;
        }
        if self.unforeseen != 0 {
            write!(f, ", {} unforeseen accesses", self.unforeseen)?;
        }
        Ok(())
    }
}

/// Bytes in a unit that fits.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 1 << 10 {
            return write!(f, "{} bytes", self.0);
        }
        let unit = ((self.0.ilog2() / 10) as usize).min(UNITS.len());
        write!(f, "{:.1} {}", self.0 as f64 / (1u64 << (10 * unit)) as f64, UNITS[unit - 1])
    }
}

/// Counts and sizes of a database.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Ended attempts of all workers.
    pub stats: Stats,
    /// The procedures of which calls, under a protocol that has them tell what they will access, have accessed something else,
    /// and how many calls; see [`Stats::unforeseen`].
    pub unforeseen: Vec<(String, u64)>,
    /// The epoch now.
    pub epoch: u64,
    /// Bytes of record memory, free blocks and old versions included.
    pub record_bytes: usize,
    /// Bytes of old versions that snapshots may need, or that wait for their reclamation.
    pub version_bytes: usize,
    /// Bytes of values that are not in their rows, those included that wait for their reclamation.
    pub value_bytes: usize,
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
    /// Batches of calls; `None` under a protocol that makes none.
    pub graph: Option<GraphMetrics>,
    /// Hardware regions; `None` under a protocol without any.
    pub regions: Option<RegionMetrics>,
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

/// A line for the transactions, one for memory, one for the log if there is one, one for a snapshot if one is open, and
/// one for each index.
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |bytes: usize| Bytes(bytes as u64);
        writeln!(f, "transactions: {}", self.stats)?;
        for (procedure, calls) in &self.unforeseen {
            writeln!(f, "unforeseen: in {calls} calls of {procedure}")?;
        }
        write!(f, "memory: {} of records, ", bytes(self.record_bytes))?;
        write!(
            f,
            "{} of old versions among them ({} kept so far), ",
            bytes(self.version_bytes),
            self.versions_kept
        )?;
        if self.value_bytes > 0 {
            write!(f, "{} of values outside of their rows, ", bytes(self.value_bytes))?;
        }
        write!(f, "{} steps of reclamation wait; epoch {}", self.garbage, self.epoch)?;
        if let Some(log) = &self.log {
            write!(f, "\nlog: {} rounds, {} written", log.rounds, Bytes(log.bytes))?;
            write!(f, " in {:?}, durable up to epoch {}", log.io_time, log.durable_epoch)?;
        }
        if let Some(graph) = self.graph {
            write!(f, "\n{graph}")?;
        }
        if let Some(regions) = self.regions {
            write!(f, "\nregions: {regions}")?;
        }
        if let Some(age) = self.oldest_snapshot {
            write!(f, "\nthe oldest snapshot has been open for {age:?}")?;
        }
        self.index_nodes.iter().try_for_each(|(name, nodes)| write!(f, "\nindex {name}: {nodes} nodes"))
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
    /// How many of the checkpoints that the database took by itself have failed in a row, or panicked: while it is not 0 the log keeps
    /// growing. A checkpoint that a program takes says why.
    pub checkpoints_failed: u64,
}

/// What came of gathering calls into batches, since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphMetrics {
    /// Batches whose graphs were made.
    pub batches: u64,
    /// Their calls.
    pub calls: u64,
    /// Edges of these graphs: which call waits for which. Through many that read the same goes one for each of them.
    pub edges: u64,
    /// Calls that were executed in pieces: no edge leads to them.
    pub in_pieces: u64,
    /// Calls that waited for others of their batch before they began: those to which an edge leads.
    pub waited: u64,
    /// How many calls the longest chain of each graph has, summed up: so many were executed one after another. Those in pieces count as if
    /// they were whole.
    pub depth: u64,
    /// From when a batch was cut until all of its calls had told what they will access, summed up over the batches. Like
    /// [`GraphMetrics::linking`] it is time in which others may have been executed, or built.
    pub telling: Duration,
    /// How long it took one worker to make a batch's graph, summed up.
    pub linking: Duration,
    /// From when the first calls of a batch might begin until the last had ended, summed up. Batches are executed one after another.
    pub executing: Duration,
    /// Calls that wait to be taken into a batch.
    pub queued: usize,
    /// The most calls of the next batch.
    pub batch_size: usize,
}

/// A line.
impl fmt::Display for GraphMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batches, calls, edges, in_pieces, waited, queued, batch_size, .. } = self;
        let depth = self.depth as f64 / (*batches).max(1) as f64;
        write!(f, "graphs: {batches} batches with {calls} calls, {in_pieces} of them in pieces, ")?;
        write!(f, "{edges} edges to {waited} of them, and {depth:.1} in the longest chain of each; ")?;
        write!(f, "{:?} to tell, {:?} to link, ", self.telling, self.linking)?;
        write!(f, "{:?} to execute; the next takes up to {batch_size} calls, {queued} wait", self.executing)
    }
}

/// What became of hardware regions, since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionMetrics {
    /// Where they come from; what is executed without them is executed in software.
    pub source: RegionSource,
    /// Those that took effect.
    pub committed: u64,
    /// Of these, those that were for the commit alone: what they committed had been executed in software.
    pub commits_only: u64,
    /// Aborted: another core touched what they had.
    pub conflicts: u64,
    /// Aborted: more cache lines than there was room for.
    pub capacity: u64,
    /// Aborted by themselves: they met a lock, or, where only commits are regions, found that what was read has changed.
    pub explicit: u64,
    /// Aborted by an interrupt, a page fault, or a call of the system.
    pub interrupted: u64,
    /// Aborted: they came to something that no region can do, such as a wait.
    pub unfriendly: u64,
    /// Transactions, or pieces of them, that were executed in software, their commits too.
    pub software: u64,
}

/// Where hardware regions come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionSource {
    /// There are none.
    #[default]
    Nowhere,
    /// The processor.
    Processor,
    /// The model of them, on virtual cores.
    Model,
}

impl RegionMetrics {
    /// Those that were aborted.
    pub fn aborted(&self) -> u64 {
        self.conflicts + self.capacity + self.explicit + self.interrupted + self.unfriendly
    }

    /// Aborted ones as a share of all, 0 to 1.
    pub fn abort_rate(&self) -> f64 {
        self.aborted() as f64 / (self.committed + self.aborted()).max(1) as f64
    }
}

impl AddAssign for RegionMetrics {
    fn add_assign(&mut self, other: Self) {
        let Self { source: _, committed, commits_only, conflicts, capacity, .. } = other;
        let Self { explicit, interrupted, unfriendly, software, .. } = other;
        self.committed += committed;
        self.commits_only += commits_only;
        self.conflicts += conflicts;
        self.capacity += capacity;
        self.explicit += explicit;
        self.interrupted += interrupted;
        self.unfriendly += unfriendly;
        self.software += software;
    }
}

/// What became of those that ended since an earlier moment.
impl Sub for RegionMetrics {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self {
            source: self.source,
            committed: self.committed - other.committed,
            commits_only: self.commits_only - other.commits_only,
            conflicts: self.conflicts - other.conflicts,
            capacity: self.capacity - other.capacity,
            explicit: self.explicit - other.explicit,
            interrupted: self.interrupted - other.interrupted,
            unfriendly: self.unfriendly - other.unfriendly,
            software: self.software - other.software,
        }
    }
}

impl fmt::Display for RegionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nowhere => "none",
            Self::Processor => "of the processor",
            Self::Model => "of the model",
        })
    }
}

/// In words: where they come from, how many committed, and why others did not.
impl fmt::Display for RegionMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, committed, commits_only, conflicts, capacity, .. } = self;
        let Self { explicit, interrupted, unfriendly, software, .. } = self;
        write!(
            f,
            "{source}, {committed} committed ({commits_only} for a commit alone), {} aborted ({conflicts} by conflicts, ",
            self.aborted()
        )?;
        write!(f, "{capacity} for want of room, {explicit} at locks, {interrupted} interrupted, ")?;
        write!(f, "{unfriendly} at what regions cannot do); {software} executions in software")
    }
}

/// What opening a directory found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// Rows of the checkpoint.
    pub rows: u64,
    /// Transactions of the log that were replayed.
    pub transactions: u64,
    /// Their writes, but those of calls.
    pub writes: u64,
    /// How many of these transactions the log had as calls, which were made again.
    pub calls: u64,
    /// Bytes of the checkpoint and of the log.
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
    /// What became of tables that the program declares otherwise than the directory had them.
    pub schema: SchemaChange,
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

/// In words: what was read in which time, and, if there was such, what was cut off and what was lost.
impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows of a checkpoint, {} transactions", self.rows, self.transactions)?;
        write!(f, " of a log with {} writes, {}", self.writes, Bytes(self.bytes))?;
        if self.calls > 0 {
            write!(f, ", {} calls made again", self.calls)?;
        }
        write!(f, " in {:?}, durable up to epoch {}", self.elapsed, self.durable_epoch)?;
        if !self.torn.is_empty() {
            write!(f, "; {} rounds were being written at the end, and were cut off", self.torn.len())?;
        }
        if !self.lost.is_empty() {
            write!(f, "; {} parts are damaged, and were given up", self.lost.len())?;
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_by_name() {
        let mut stats = Stats { commits: 12, user_aborts: 1, ..Stats::default() };
        assert_eq!(stats.to_string(), "12 committed, 1 given up, 0 conflicts");
        stats.conflicts[Conflict::Locked as usize] = 2;
        stats.conflicts[Conflict::Phantom as usize] = 57;
        assert_eq!(stats.to_string(), "12 committed, 1 given up, 59 conflicts (phantom 57, locked 2)");
        let log = Some(LogMetrics { rounds: 3, bytes: 5 << 20, ..LogMetrics::default() });
        let metrics = Metrics { stats, log, index_nodes: vec![("a.ById", 7)], ..Metrics::default() };
        let text = metrics.to_string();
        assert!(text.contains("\nlog: 3 rounds, 5.0 MiB written"), "{text}");
        assert!(text.ends_with("\nindex a.ById: 7 nodes"), "{text}");
        let recovery = Recovery { transactions: 4, bytes: 300, ..Recovery::default() };
        assert!(
            recovery.to_string().contains("4 transactions of a log with 0 writes, 300 bytes"),
            "{recovery}"
        );
    }
}
