//! The reasons for which a concurrency control aborts an attempt.

use std::fmt;

/// Why a concurrency control aborted an attempt. Not an error of the caller: the attempt is
/// retried, by `Session::run` on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum Conflict {
    /// A record stayed locked by another transaction.
    Locked,
    /// A record that was read has changed.
    ReadChanged,
    /// A key has appeared in, or left, a range or place that was read.
    Phantom,
    /// The attempt was seen to be hopeless before it locked anything (TicToc §5.2).
    Preempted,
    /// Wait-die: the requester is younger than the holder of a lock.
    Died,
    /// A shared lock could not be upgraded.
    Upgrade,
    /// The record was being reclaimed.
    Reclaimed,
    /// The epoch has run out of stamps: a commit, or a call that commits in parts, has held it back for seconds.
    EpochFull,
    /// IC3, Hekaton: a transaction that this one had read from has aborted.
    Cascade,
    /// IC3: what is to be written is in use by calls that have not ended. A body may say so, too, where calls commit in parts: it has come to
    /// something of which another call has parts yet to commit, and is to be executed again (the mark `#[causal]` of procedures).
    Accessed,
    /// It has waited for longer than a transaction takes, maybe for one that waits for it (DATM).
    TimedOut,
    /// Two-phase locking with detection: it was the youngest of a circle of transactions that waited for each other.
    Deadlock,
    /// The hardware region in which it was executed was aborted: mostly another core has touched what it had.
    Region,
}

impl Conflict {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Locked,
        Self::ReadChanged,
        Self::Phantom,
        Self::Preempted,
        Self::Died,
        Self::Upgrade,
        Self::Reclaimed,
        Self::EpochFull,
        Self::Cascade,
        Self::Accessed,
        Self::TimedOut,
        Self::Deadlock,
        Self::Region,
    ];

    /// The name in tables and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::ReadChanged => "read changed",
            Self::Phantom => "phantom",
            Self::Preempted => "preempted",
            Self::Died => "died",
            Self::Upgrade => "upgrade",
            Self::Reclaimed => "reclaimed",
            Self::EpochFull => "epoch full",
            Self::Cascade => "cascade",
            Self::Accessed => "accessed",
            Self::TimedOut => "timed out",
            Self::Deadlock => "deadlock",
            Self::Region => "region",
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
