//! Protocols with their options, as values, and what each promises.
//!
//! An engine has the mechanisms; here is what can be said of them without one.

use crate::isolation::Isolation;
use crate::procedure::Tracking;
use std::num::NonZeroU32;

/// How calls of registered procedures are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// Like closures.
    #[default]
    Whole,
    /// Piece by piece, by the protocol's own verbs.
    Pieces,
    /// Piece by piece, each of which commits on its own: transaction chopping (IC3 §6.4).
    ///
    /// The pieces are merged until no SC-cycle is left. What may abort is one piece too: of a procedure that
    /// nowhere says `#[no_abort]`, all. If a body gives up after a piece was committed, that piece stands,
    /// and the caller is told so ([`Misuse::PiecesStand`](crate::Misuse::PiecesStand)); likewise where the
    /// body panics. A closure is no part of the analysis, so it runs while no call does.
    Chopped,
    /// In the order in which they begin: what comes before the procedure's mark `#[later]` one call after
    /// another, and what comes behind it at once, except for what conflicts. Deterministic execution (IC3
    /// §6.4).
    ///
    /// From the mark on a body must not give up, as with [`Self::Chopped`], and must access no row that it
    /// would not access with other answers ([`Misuse::Unforeseen`](crate::Misuse::Unforeseen)). A closure
    /// runs while no call does.
    Sequenced,
    /// Whole, each after those before it that will access the same: a graph of dependencies (DGCC). What a call will
    /// access is found by executing its body once without effect; what that does not foresee is validated.
    Graph,
    /// As [`Self::Graph`], but calls are gathered into batches, whose graphs are executed one after another (DGCC).
    Batched,
}

impl Execution {
    /// Whether calls are ordered by what they will access, which they tell beforehand.
    pub fn is_announced(self) -> bool {
        matches!(self, Self::Graph | Self::Batched)
    }

    /// Whether a call commits in parts, so that what it has done may be there although it gives up.
    pub fn commits_pieces(self) -> bool {
        matches!(self, Self::Chopped | Self::Sequenced)
    }

    /// Whether a commit may be of the epoch in which something before it began, though the next has begun.
    pub fn commits_late(self) -> bool {
        self.commits_pieces() || self == Self::Batched
    }
}

/// What a protocol promises under its options.
pub trait Promises {
    /// The protocol's name.
    fn name(&self) -> &'static str;

    /// The most sessions that a database may have under it.
    fn sessions_max(&self) -> usize {
        1024
    }

    /// Whether the serial order always agrees with real time.
    fn strict(&self) -> bool {
        true
    }

    /// Whether whatever a body sees is of one moment, also where its attempt aborts.
    fn opaque(&self) -> bool {
        false
    }

    /// Whether what a deferring transaction writes down is carried out at its commit, and not at once.
    fn defers(&self) -> bool {
        false
    }

    /// Whether additions of calls that are marked as deferred take effect only when no call that may see them is under way.
    fn puts_off(&self) -> bool {
        false
    }

    /// Whether a call that commits in parts has the epoch of its piece that conflicts, not that of its begin.
    fn numbers_lazily(&self) -> bool {
        false
    }

    /// Whether calls that commit in parts are executed as one for as long as that meets hardly anybody.
    fn joins_pieces(&self) -> bool {
        false
    }

    /// The isolation levels that transactions may choose from, the strongest first.
    fn levels(&self) -> &'static [Isolation] {
        &[Isolation::Serializable]
    }

    /// How calls of procedures are executed.
    fn execution(&self) -> Execution {
        Execution::Whole
    }

    /// How calls are gathered, with [`Execution::Batched`].
    fn batching(&self) -> Batching {
        Batching::GRAPH
    }

    /// The same with commit times that rise along the serial order, of all commits: what a log of commands needs. `None` where they
    /// cannot.
    fn timed_in_order(self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Whether additions whose result nobody uses are analysed as commuting.
    fn commutes(&self) -> bool {
        true
    }

    /// Which conflicts between procedures are tracked.
    fn tracking(&self) -> Tracking {
        Tracking::Nothing
    }
}

/// No concurrency control, one session: the limit that the others are measured against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unprotected;

impl Promises for Unprotected {
    fn name(&self) -> &'static str {
        "unprotected"
    }

    fn sessions_max(&self) -> usize {
        1
    }

    fn opaque(&self) -> bool {
        true
    }
}

/// Optimistic concurrency control with commit by read validation, after Silo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silo {
    /// How calls are executed.
    pub calls: Calls,
    /// Where commit times come from.
    pub allocation: Allocation,
    /// Whatever an attempt sees is of the moment of its begin, also of one that aborts: a time from the counter, above which
    /// nothing is read (TL2). Only with [`Allocation::Counter`].
    pub opaque: bool,
}

/// How calls of registered procedures are executed under [`Silo`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// Like closures.
    #[default]
    Whole,
    /// In pieces that are validated, and executed again, one by one: nested OCC.
    Nested,
    /// In pieces each of which commits on its own: transaction chopping. See [`Execution::Chopped`].
    Chopped,
    /// In two phases, in the order in which they begin. See [`Execution::Sequenced`].
    Sequenced,
    /// After those before them that will access the same. See [`Execution::Graph`].
    Graph,
    /// The same, batch by batch. See [`Execution::Batched`].
    Batched(Batching),
}

/// How calls are gathered into batches ([`Execution::Batched`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Whether the calls of a batch begin level by level, as in DGCC's Algorithm 2: all that wait for none, and when these have
    /// ended, all that waited for them only. Else each begins when those have ended that it waits for.
    pub levels: bool,
    /// The most calls of a batch. If it is not given, it adapts itself between 32 and 20,000: it grows while calls queue up and
    /// that is faster, and shrinks while a batch takes longer than `target_us`.
    pub size: Option<NonZeroU32>,
    /// For how long a batch may take, from when its calls are taken from the queue to when the last of them has ended, before
    /// batches get smaller: microseconds.
    pub target_us: u32,
}

impl Batching {
    /// Call by call, in batches of a size that adapts itself.
    pub const GRAPH: Self = Self { levels: false, size: None, target_us: 5_000 };
    /// Level by level.
    pub const LEVELS: Self = Self { levels: true, ..Self::GRAPH };
}

/// Where the times of commits come from under [`Silo`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// The stamps that were read and overwritten, and the epoch.
    #[default]
    Computed,
    /// A counter that all commits add to: TS_ALLOC. A cache line goes from core to core for each.
    Counter,
}

impl Silo {
    /// Times from a counter, and bodies that see the moment of their begin (TL2).
    pub const TL2: Self = Self { calls: Calls::Whole, allocation: Allocation::Counter, opaque: true };

    /// Settings with `calls`.
    pub const fn with_calls(calls: Calls) -> Self {
        Self { calls, allocation: Allocation::Computed, opaque: false }
    }

    /// Settings with `allocation`.
    pub const fn with_allocation(allocation: Allocation) -> Self {
        Self { calls: Calls::Whole, allocation, opaque: false }
    }
}

impl Promises for Silo {
    fn name(&self) -> &'static str {
        "silo"
    }

    fn timed_in_order(self) -> Option<Self> {
        // Without the footprints of its calls nobody knows which of them may be made again side by side.
        self.execution().is_announced().then_some(Self { allocation: Allocation::Counter, ..self })
    }

    fn opaque(&self) -> bool {
        self.opaque
    }

    fn levels(&self) -> &'static [Isolation] {
        match self.calls {
            Calls::Whole if self.opaque => &[Isolation::Serializable],
            Calls::Whole => &[Isolation::Serializable, Isolation::RepeatableRead],
            Calls::Nested | Calls::Chopped | Calls::Sequenced | Calls::Graph | Calls::Batched(_) => {
                &[Isolation::Serializable]
            }
        }
    }

    fn execution(&self) -> Execution {
        match self.calls {
            Calls::Whole => Execution::Whole,
            Calls::Nested => Execution::Pieces,
            Calls::Chopped => Execution::Chopped,
            Calls::Sequenced => Execution::Sequenced,
            Calls::Graph => Execution::Graph,
            Calls::Batched(_) => Execution::Batched,
        }
    }

    fn batching(&self) -> Batching {
        match self.calls {
            Calls::Batched(batching) => batching,
            _ => Batching::GRAPH,
        }
    }
}

/// TicToc, with the optimisations of its §5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicToc {
    /// §5.1: when a write lock is taken, release all and restart the validation phase, instead of
    /// waiting for it in key order.
    pub no_wait: bool,
    /// §5.2: abort before locking when an approximate commit time shows that a read cannot be
    /// validated.
    pub preemptive_abort: bool,
    /// Whatever an attempt sees is of one moment, also of one that aborts.
    pub opaque: bool,
    /// What was read must be current at the commit.
    pub strict: bool,
    /// How a version's two times are kept.
    pub times: Times,
}

/// How the two times of a version are kept under [`TicToc`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// In a word each.
    #[default]
    TwoWords,
    /// With the time of the version before (TicToc §5.3, timestamp history).
    WithHistory,
    /// In one word, as in the paper (TicToc §3.6).
    Packed,
}

impl TicToc {
    /// Both optimisations of §5.
    pub const FULL: Self =
        Self { no_wait: true, preemptive_abort: true, opaque: false, strict: false, times: Times::TwoWords };
    /// No-wait alone.
    pub const NO_WAIT: Self = Self { preemptive_abort: false, ..Self::FULL };
    /// Neither.
    pub const SORTED: Self = Self { no_wait: false, preemptive_abort: false, ..Self::FULL };
    /// Opaque reads, in an order of real time.
    pub const OPAQUE: Self = Self { opaque: true, strict: true, ..Self::FULL };
    /// Timestamp history.
    pub const HISTORY: Self = Self { times: Times::WithHistory, ..Self::FULL };
    /// The paper's layout.
    pub const PACKED: Self = Self { times: Times::Packed, ..Self::FULL };
}

impl Default for TicToc {
    fn default() -> Self {
        Self::FULL
    }
}

impl Promises for TicToc {
    fn name(&self) -> &'static str {
        "tictoc"
    }

    fn strict(&self) -> bool {
        self.strict
    }

    fn opaque(&self) -> bool {
        self.opaque
    }

    /// A transaction whose reads must be current, or of one moment, gains little by a lower level.
    fn levels(&self) -> &'static [Isolation] {
        if self.strict || self.opaque { &[Isolation::Serializable] } else { &Isolation::ALL }
    }
}

/// Two-phase locking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locking {
    /// What happens on a lock conflict.
    pub policy: Policy,
    /// Each piece of a call locks and commits on its own: transaction chopping. See [`Execution::Chopped`].
    pub chopped: bool,
}

/// What happens on a lock conflict under [`Locking`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Abort at once.
    #[default]
    NoWait,
    /// Wait for younger holders, abort for older ones.
    WaitDie,
    /// Wait; the youngest of a circle of waits aborts.
    Detect,
    /// Wait for a lock above all that are held, in the order of relations and keys; abort for others.
    Ordered,
}

impl Locking {
    /// Settings with `policy`.
    pub const fn with_policy(policy: Policy) -> Self {
        Self { policy, chopped: false }
    }

    /// These settings, with calls chopped.
    #[must_use]
    pub const fn chopped(self) -> Self {
        Self { chopped: true, ..self }
    }
}

impl Promises for Locking {
    fn name(&self) -> &'static str {
        "locking"
    }

    fn levels(&self) -> &'static [Isolation] {
        match self.chopped {
            false => &[Isolation::Serializable, Isolation::RepeatableRead],
            true => &[Isolation::Serializable],
        }
    }

    fn execution(&self) -> Execution {
        if self.chopped { Execution::Chopped } else { Execution::Whole }
    }
}

/// Optimistic, commit time chosen from the interval that conflicts with recent commits leave (DTA).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dta;

impl Promises for Dta {
    fn name(&self) -> &'static str {
        "dta"
    }
}

/// Optimistic on several versions: reads as of the begin, checked again at the end (Hekaton).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hekaton;

impl Promises for Hekaton {
    fn name(&self) -> &'static str {
        "hekaton"
    }

    fn levels(&self) -> &'static [Isolation] {
        &Isolation::ALL
    }
}

/// Writers queue for what they write, in the order of ranks, and hand it over one by one: deferred runtime pipelining (DRP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drp {
    /// A transaction queues for its next row while those before it in its queues still run. If not, it first waits until each
    /// has ended, as if a queue were a lock: two-phase locking in the order of ranks (DRP §7.3).
    pub pipelined: bool,
    /// Whatever an attempt sees is of one moment, also of one that aborts: each read checks those before it again.
    pub opaque: bool,
}

impl Drp {
    /// Deferred runtime pipelining.
    pub const PIPELINED: Self = Self { pipelined: true, opaque: false };
    /// With waits for the end of each transaction that is ahead.
    pub const TWO_PHASE: Self = Self { pipelined: false, opaque: false };
    /// With opaque reads.
    pub const OPAQUE: Self = Self { pipelined: true, opaque: true };
}

impl Default for Drp {
    fn default() -> Self {
        Self::PIPELINED
    }
}

impl Promises for Drp {
    fn name(&self) -> &'static str {
        "drp"
    }

    fn opaque(&self) -> bool {
        self.opaque
    }

    fn defers(&self) -> bool {
        true
    }
}

/// Settings of IC3, as in the paper's factor analysis (§6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ic3 {
    /// A piece executes first and waits before it is entered, not before it executes (§4.1).
    pub optimistic_constraint: bool,
    /// A piece without a C-edge to a transaction that it depends on waits for a rendezvous piece of it, not
    /// for its end (§4.2).
    pub rendezvous: bool,
    /// Additions commute and are deferred to the commit (§4.3).
    pub commutative: bool,
    /// Which conflicts are tracked. In the paper all are, wherever the analysis does not exclude them.
    pub tracking: Tracking,
    /// Which interleavings are permitted.
    pub interleaving: Interleaving,
}

/// Which interleavings of the pieces of several transactions are permitted under [`Ic3`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interleaving {
    /// Those that keep dependencies free of cycles: IC3.
    #[default]
    Constrained,
    /// All; a transaction that has waited for too long aborts: DATM.
    Free,
}

impl Ic3 {
    /// All of it, where transactions contend.
    pub const CONTENDED: Self = Self { tracking: Tracking::Contended, ..Self::FULL };
    /// Every access that may conflict is shown at once, and no order is enforced (DATM).
    pub const DATM: Self = Self { tracking: Tracking::Each, interleaving: Interleaving::Free, ..Self::FULL };
    /// The paper's IC3 with all that its §4 adds.
    pub const FULL: Self = Self {
        optimistic_constraint: true,
        rendezvous: true,
        commutative: true,
        tracking: Tracking::Always,
        interleaving: Interleaving::Constrained,
    };
    /// Without what §4 adds.
    pub const BASIC: Self =
        Self { optimistic_constraint: false, rendezvous: false, commutative: false, ..Self::FULL };
    /// With the first of the three only.
    pub const OPTIMISTIC: Self = Self { optimistic_constraint: true, ..Self::BASIC };
    /// Without rendezvous pieces.
    pub const NO_RENDEZVOUS: Self = Self { rendezvous: false, ..Self::FULL };
}

impl Default for Ic3 {
    fn default() -> Self {
        Self::FULL
    }
}

impl Promises for Ic3 {
    fn name(&self) -> &'static str {
        "ic3"
    }

    fn execution(&self) -> Execution {
        Execution::Pieces
    }

    fn commutes(&self) -> bool {
        self.commutative
    }

    fn tracking(&self) -> Tracking {
        self.tracking
    }
}

/// An example: one transaction at a time.
#[cfg(feature = "example")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OneWriter;

#[cfg(feature = "example")]
impl Promises for OneWriter {
    fn name(&self) -> &'static str {
        "one-writer"
    }
}
