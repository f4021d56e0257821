//! Protocols whose transactions run in hardware regions, as values.

use super::options::{Execution, Promises};

/// Transactions, or pieces of them, in regions of hardware transactional memory, and in software where there are none (DBX-TC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Htm {
    /// Each piece of a call is a region, and commits on its own: transaction chopping. See [`Execution::Chopped`].
    pub chopped: bool,
    /// The pieces of a call are executed as one, in one region where it has room, for as long as that meets hardly anybody: what is
    /// cut commits several times, which is worth it only where calls meet. Only with [`Self::chopped`], and not with
    /// [`Self::lazy_numbers`]; elsewhere it says nothing. The paper cuts always.
    pub joins: bool,
    /// What a region reaches over.
    pub reach: Reach,
    /// What keeps regions away from what is executed in software.
    pub fallback: Fallback,
    /// How many regions of a transaction, or of a piece, may fail for want of room before it is executed in software. What
    /// failed so once will hardly ever succeed.
    pub capacity_tries: u32,
    /// Where regions come from.
    pub executor: Executor,
    /// Additions that are marked as deferred (`#[deferred]`) take effect at the end of their epoch, or earlier when no call is
    /// under way: whoever makes a call that reads such a column may not see what was added shortly before, though it was
    /// acknowledged, so the serial order does not always agree with real time. Closures and snapshots see all. Only with
    /// [`Self::chopped`]; elsewhere it says nothing. Procedures that could tell are refused at their registration
    /// (DBX-TC §3.2, publish and subscribe).
    pub defer: bool,
    /// A call has the epoch at which its piece that conflicts commits (a *lazy snapshot number*), not that of its begin, so it waits for no
    /// call of an earlier epoch. What it adds outside of that piece it adds at its end, also to rows that a call of the
    /// next epoch has added to: then to what a snapshot of its own epoch sees of them, too. Only with [`Self::chopped`], and not with
    /// [`Self::defer`]. The mark `#[causal]` says nothing (DBX-TC §4).
    pub lazy_numbers: bool,
}

/// What a region reaches over under [`Htm`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// From the first access to the commit: what was read is not remembered, the hardware watches it.
    #[default]
    Accesses,
    /// The commit alone: accesses are made in software, and what was read is checked in the region (DBX).
    Commit,
}

/// What keeps regions away from what is executed in software under [`Htm`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// The lock bit of each record, which a region looks at whenever it reads the record.
    #[default]
    Record,
    /// One lock for all, which each region looks at when it begins, and what is executed in software holds.
    Global,
    /// A lock for each partition: for all rows, of whatever relation, whose encoded keys begin with the same bits (64 locks
    /// stand for all partitions). A region looks at the lock of each partition that it comes to; what is executed in
    /// software holds those in which it writes, and validates what it reads in others.
    Partition {
        /// How many bits: those of a leading column of all keys, such as 16 for a `u16`; up to 64.
        leading_bits: u8,
    },
}

/// Where the regions of [`Htm`] come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Executor {
    /// The model's, on virtual cores. The processor's are asked for, with [`Self::Hardware`] or for the whole program with
    /// `HEDDLEDB_RTM=on` in its environment; else there are none.
    #[default]
    Auto,
    /// The processor's (Intel's RTM), or the model's. Where there are none, the database does not open.
    Hardware,
    /// None: everything is executed in software.
    Software,
}

impl Htm {
    /// Chopped transactions, a region for each piece: the paper's system.
    pub const CHOPPED: Self = Self {
        chopped: true,
        joins: true,
        reach: Reach::Accesses,
        fallback: Fallback::Record,
        capacity_tries: 1,
        executor: Executor::Auto,
        defer: false,
        lazy_numbers: false,
    };
    /// The same, with deferred additions.
    pub const DEFERRING: Self = Self { defer: true, ..Self::CHOPPED };
    /// The same as [`Self::CHOPPED`], with lazy snapshot numbers.
    pub const LAZY: Self = Self { lazy_numbers: true, ..Self::CHOPPED };
    /// A region for the commit only: DBX, which the paper extends.
    pub const COMMITS: Self = Self { chopped: false, reach: Reach::Commit, ..Self::CHOPPED };
    /// A region for the whole transaction, and one lock for those that do not fit: the paper's naive use of regions.
    pub const WHOLE: Self = Self { chopped: false, fallback: Fallback::Global, ..Self::CHOPPED };

    /// As [`Self::WHOLE`], with a lock for each partition: keys begin with a number of two bytes.
    pub const PARTITIONED: Self = Self { fallback: Fallback::Partition { leading_bits: 16 }, ..Self::WHOLE };

    /// These settings, with regions from there.
    #[must_use]
    pub const fn executed_by(self, executor: Executor) -> Self {
        Self { executor, ..self }
    }
}

impl Default for Htm {
    fn default() -> Self {
        Self::CHOPPED
    }
}

impl Promises for Htm {
    fn name(&self) -> &'static str {
        "htm"
    }

    fn execution(&self) -> Execution {
        if self.chopped { Execution::Chopped } else { Execution::Whole }
    }

    fn puts_off(&self) -> bool {
        self.defer && self.chopped
    }

    fn numbers_lazily(&self) -> bool {
        self.lazy_numbers && self.chopped
    }

    fn joins_pieces(&self) -> bool {
        self.joins && self.chopped && !self.lazy_numbers
    }

    fn strict(&self) -> bool {
        !self.puts_off()
    }
}
