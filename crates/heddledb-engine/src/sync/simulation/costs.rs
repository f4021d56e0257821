//! What things cost on a virtual machine: its shape, and a table of cycles.
//!
//! The table is data: it is calibrated against a real machine by `heddle sim calibrate`, kept in a file, and
//! printed with every result, since no result means anything without it.

use crate::sync::Work;

/// How the cores of the machine lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Sockets, 1 to 8. Each has a shared cache.
    pub sockets: usize,
    /// Cores of a socket. Workers fill one socket after the other, and begin again at the first.
    pub cores_per_socket: usize,
}

impl Default for Topology {
    fn default() -> Self {
        Self { sockets: 1, cores_per_socket: 1024 }
    }
}

impl Topology {
    /// The socket of a core.
    pub fn socket(&self, core: usize) -> usize {
        core / self.cores_per_socket.max(1) % self.sockets.clamp(1, 8)
    }
}

// Sizes are those of one core of the machine of the calibration, and its socket's cache. What a core does by
// itself (`same`, `hit`, `fetch`, `memory`, `rmw`, and `attempt` to `fresh`) was fitted to real runs of TPC-C
// and YCSB under all protocols: the largest relative error is the least that whole cycles allow, with `same`
// at 1 or more, without which time would stand still in a spin. The comparison is in `calibration.txt` of the
// simulator. They are effective figures, not latencies: a real core overlaps what it can, and rows are read
// in streams, so a clean line that merely had left the own cache costs less than the average access around
// it. What cores cost each other, and waits, are usual figures of such machines.
macro_rules! costs {
    ($($(#[doc = $about:literal])+ $name:ident = $value:literal;)*) => {
        /// A table of costs; in cycles of a core unless said otherwise.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Costs {
            $($(#[doc = $about])+ pub $name: u64,)*
        }

        impl Default for Costs {
            fn default() -> Self {
                Self { $($name: $value,)* }
            }
        }

        impl Costs {
            /// Every entry: its name, what it is, its value.
            pub fn entries(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), concat!($($about),+).trim_ascii(), self.$name)),*]
            }

            /// Sets an entry by its name; false if there is none of that name.
            #[must_use]
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

costs! {
    /// Cycles in a microsecond.
    mhz = 2600;
    /// Lines of a core's own cache.
    cache_lines = 16384;
    /// Lines of a socket's shared cache.
    shared_cache_lines = 524288;
    /// An access to the line of the access before.
    same = 1;
    /// An access to another line in the own cache.
    hit = 7;
    /// A clean line from the socket's shared cache; an effective figure.
    fetch = 4;
    /// A clean line that another core of the socket wrote last.
    refetch = 60;
    /// A clean line from another socket.
    fetch_far = 260;
    /// A line from memory; an effective figure too.
    memory = 12;
    /// A line that another core of the socket has written; the line is busy meanwhile.
    transfer = 120;
    /// A line that another core has written, from another socket.
    transfer_far = 300;
    /// A write to a line of which other cores of the socket have copies; busy meanwhile.
    upgrade = 80;
    /// A write to a line of which cores of other sockets have copies.
    upgrade_far = 260;
    /// What an atomic read-modify-write adds.
    rmw = 12;
    /// A full fence.
    fence = 16;
    /// One spin hint.
    spin = 40;
    /// A yield where no other thread wants the core.
    yield_now = 800;
    /// From the wake of a parked core to its going on.
    wake = 5000;
    /// Beginning and ending an attempt of a transaction, reclamation included.
    attempt = 23;
    /// An operation of a transaction: its key, its bookkeeping, the body that called it.
    operation = 8;
    /// A visit of an index node: comparing keys.
    node = 2;
    /// A row that a scan goes by.
    row = 66;
    /// A column group's check in a validation, a lock or an install.
    check = 2;
    /// A word that is copied, decoded or encoded privately.
    word = 4;
    /// A word of memory that was never used, which a new row takes: faults, and pages that are cleared.
    fresh = 33;
    /// Sets of lines that a hardware transaction's stores may fill.
    htm_write_sets = 64;
    /// Lines in each.
    htm_write_ways = 8;
    /// Sets of lines that its loads may fill.
    htm_read_sets = 1024;
    /// Lines in each.
    htm_read_ways = 16;
    /// Loads for which a set has no room are remembered by spans of 64 lines, and one of so many spans ends the hardware transaction; 0: the first such load does.
    htm_read_spans = 0;
    /// Lines of its stack that a hardware transaction stores to whatever it does.
    htm_stack_lines = 0;
    /// Words of a core's private memory, told as work, that take a line of a hardware transaction's stores; 0: they take none.
    htm_private_words = 0;
    /// Cycles from its begin after which an interrupt comes.
    htm_interrupt = 2600000;
    /// Beginning a hardware transaction.
    htm_begin = 40;
    /// Committing one.
    htm_commit = 40;
    /// What an abort of one costs.
    htm_abort = 150;
}

impl Costs {
    /// The entries that [`Costs::scaled`] leaves alone: they are no times.
    const SIZES: [&'static str; 11] = [
        "mhz",
        "cache_lines",
        "shared_cache_lines",
        "htm_write_sets",
        "htm_write_ways",
        "htm_read_sets",
        "htm_read_ways",
        "htm_read_spans",
        "htm_stack_lines",
        "htm_private_words",
        "htm_interrupt",
    ];
    /// The sizes that may be nothing.
    const OPTIONAL: [&'static str; 3] = ["htm_read_spans", "htm_stack_lines", "htm_private_words"];
    /// What cores cost each other: the entries on which scalability rests, and of which the real values
    /// differ most between machines.
    const COHERENCE: [&'static str; 6] =
        ["refetch", "fetch_far", "transfer", "transfer_far", "upgrade", "upgrade_far"];

    /// This table with what cores cost each other times `numerator / denominator`, to see how much a
    /// conclusion depends on it.
    #[must_use]
    pub fn scaled(mut self, numerator: u64, denominator: u64) -> Self {
        for (name, _, value) in self.entries() {
            if Self::COHERENCE.contains(&name) {
                let _ = self.set(name, value * numerator / denominator.max(1));
            }
        }
        self
    }

    /// Whether an entry is a time, and may be fitted.
    pub fn is_time(name: &str) -> bool {
        !Self::SIZES.contains(&name)
    }

    /// The least value of an entry: a clock that stands still, and caches without lines, are no machine.
    pub fn least(name: &str) -> u64 {
        u64::from(!Self::is_time(name) && !Self::OPTIONAL.contains(&name))
    }

    /// Cycles in so many nanoseconds.
    #[must_use]
    pub fn cycles(&self, nanoseconds: u64) -> u64 {
        (u128::from(nanoseconds) * u128::from(self.mhz) / 1000) as u64
    }

    /// Nanoseconds of so many cycles.
    #[must_use]
    pub fn nanoseconds(&self, cycles: u64) -> u64 {
        (u128::from(cycles) * 1000 / u128::from(self.mhz.max(1))) as u64
    }
}

impl Costs {
    /// What work costs.
    #[inline]
    pub(super) fn of(&self, work: Work) -> u64 {
        match work {
            Work::Attempt => self.attempt,
            Work::Operation => self.operation,
            Work::Node => self.node,
            Work::Row => self.row,
            Work::Checks(count) => self.check * count as u64,
            Work::Words(count) => self.word * count as u64,
            Work::Fresh(count) => self.fresh * count as u64,
            Work::Cycles(cycles) => cycles,
        }
    }
}

/// What a core did and what it waited for, in cycles unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses to shared memory.
    pub accesses: u64,
    /// Of them, read-modify-writes.
    pub rmws: u64,
    /// Accesses to the line of the access before.
    pub same: u64,
    /// Accesses to other lines in the own cache.
    pub hits: u64,
    /// Clean lines fetched from shared caches.
    pub fetches: u64,
    /// Lines fetched from memory.
    pub memory: u64,
    /// Lines that another core had written.
    pub transfers: u64,
    /// Writes to lines of which others had copies.
    pub upgrades: u64,
    /// Of fetches, transfers and upgrades, those between sockets.
    pub far: u64,
    /// Waiting for lines that were busy.
    pub queueing_cycles: u64,
    /// Spinning, yielding, sleeping, and being parked.
    pub waiting_cycles: u64,
    /// Work that was charged explicitly.
    pub work_cycles: u64,
    /// Hardware regions that were aborted because another core came to a line that they had, and of these those whose line was
    /// one of an index, as they had come to it in [`Phase::Index`](crate::sync::Phase::Index) first.
    pub region_conflicts: u64,
    /// See above.
    pub index_conflicts: u64,
    /// Explicit work by kind: attempts, operations, nodes, rows, checks, words, fresh words.
    pub work: [u64; 7],
    /// Where the time of attempts went, as [`Counts::PHASES`] names it. What attempts took that did not
    /// commit is all under the last name.
    pub phases: [u64; 6],
}

impl Counts {
    /// Names of [`Counts::work`], as in [`Costs`].
    pub const WORK: [&'static str; 7] = ["attempt", "operation", "node", "row", "check", "word", "fresh"];

    /// Names of [`Counts::phases`]: the phases of attempts that committed, waiting in any of them, and all
    /// else.
    pub const PHASES: [&'static str; 6] = ["body", "index", "commit", "between", "wait", "abort"];
    pub(super) const WAITING: usize = 4;
    pub(super) const ABORTED: usize = 5;

    pub(super) fn add_work(&mut self, work: Work) {
        match work {
            Work::Attempt => self.work[0] += 1,
            Work::Operation => self.work[1] += 1,
            Work::Node => self.work[2] += 1,
            Work::Row => self.work[3] += 1,
            Work::Checks(count) => self.work[4] += count as u64,
            Work::Words(count) => self.work[5] += count as u64,
            Work::Fresh(count) => self.work[6] += count as u64,
            Work::Cycles(_) => {}
        }
    }

    fn each(&mut self) -> [&mut u64; 14] {
        let Self { accesses, rmws, same, hits, fetches, memory, transfers, upgrades, far, .. } = self;
        let Self { queueing_cycles, waiting_cycles, work_cycles, region_conflicts, index_conflicts, .. } =
            self;
        [
            accesses,
            rmws,
            same,
            hits,
            fetches,
            memory,
            transfers,
            upgrades,
            far,
            queueing_cycles,
            waiting_cycles,
            work_cycles,
            region_conflicts,
            index_conflicts,
        ]
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, mut other: Self) {
        self.each().into_iter().zip(other.each()).for_each(|(sum, more)| *sum += *more);
        self.work.iter_mut().zip(other.work).for_each(|(sum, more)| *sum += more);
        self.phases.iter_mut().zip(other.phases).for_each(|(sum, more)| *sum += more);
    }
}

impl std::ops::Sub for Counts {
    type Output = Self;
    fn sub(mut self, mut other: Self) -> Self {
        self.each().into_iter().zip(other.each()).for_each(|(rest, less)| *rest -= *less);
        self.work.iter_mut().zip(other.work).for_each(|(rest, less)| *rest -= less);
        self.phases.iter_mut().zip(other.phases).for_each(|(rest, less)| *rest -= less);
        self
    }
}
