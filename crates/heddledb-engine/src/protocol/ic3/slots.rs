//! How far each transaction is, for those that wait for it.
//!
//! A worker's *slot* has its transactions one after the other, each with a *generation*; a reference to a
//! transaction is both ([`Id`]), so that a transaction that meets a newer generation knows that the one it
//! looks for has ended.
//!
//! ```text
//!   status   63 ........ 17   16        15 ....... 2   1      0
//!            generation       decided   rank done      parity   ended
//! ```
//!
//! The *parity* says which plan's ranks these are; it changes with each change of the plan
//! ([`super::transition`]).
//!
//! The rank is that of the last piece *executed*: never of the next, and never "all", because a transaction
//! whose own pieces are done may still depend on one that is not. So only a transaction that
//! has *decided* to commit, or has ended, counts as having passed every rank: all that it depended on have
//! decided before.
//!
//! **Decided.** The transaction has the locks of all that it writes and will commit: those that depend on it
//! need not wait until everything is installed.
//!
//! **Aborted or committed.** Of its last 64 generations a slot keeps how they ended, a bit each. A
//! transaction that waits for an older one can no longer know how that ended and takes it for aborted, which
//! costs an abort at most. (One generation alone would not do: where transactions abort, those that look late
//! would abort too, and take others along.)
//!
//! **Doomed.** An aborting transaction tells those that have read from it, as far as it finds them, that they
//! will abort too, so that they need not learn it from each other one after the other. They find out without
//! that, too.

use crate::sync::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use std::fmt;

/// A transaction: a slot and a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(u64);

const SLOT_BITS: u32 = 10;

impl Id {
    pub fn new(slot: usize, generation: u64) -> Self {
        Self(generation << SLOT_BITS | slot as u64)
    }

    pub fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    fn generation(self) -> u64 {
        self.0 >> SLOT_BITS
    }

    /// The bit that says whether it aborted.
    fn bit(self) -> u64 {
        1 << (self.generation() % KNOWN)
    }

    /// As a number of 58 bits.
    pub fn bits(self) -> u64 {
        self.0
    }

    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// The rank up to which a transaction has executed pieces, and in which plan's numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Executed(u16);

impl Executed {
    pub fn new(rank: u16, parity: u16) -> Self {
        Self(rank << 1 | parity)
    }

    pub fn rank(self) -> u16 {
        self.0 >> 1
    }

    pub fn parity(self) -> u16 {
        self.0 & 1
    }

    fn of(status: u64) -> Self {
        Self(((status & 0xFFFF) >> 1) as u16)
    }
}

impl fmt::Debug for Executed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of parity {}", self.rank(), self.parity())
    }
}

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It runs.
    Running(Executed),
    /// It commits: it has locked all that it writes, and is about to install it.
    Decided,
    /// It has committed.
    Committed,
    /// It has aborted, or its end is no longer known.
    Aborted,
}

impl Progress {
    /// Whether it runs no more: all that it did is installed, or undone.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Committed | Self::Aborted)
    }
}

/// One worker's line.
#[derive(Debug)]
struct Slot {
    /// Written by its worker, read by all.
    status: AtomicU64,
    /// Bit g modulo 64 is set where generation g aborted; written before the status that says that it ended.
    aborted: AtomicU64,
    /// The type of the present generation; written before the status that begins it.
    of_type: AtomicU64,
    /// The last generation that is known to abort because another has; written by that one.
    doomed: AtomicU64,
}

/// Generations whose end is known.
const KNOWN: u64 = 64;

const ENDED: u64 = 1;
const DECIDED: u64 = 1 << 16;
const GENERATION: u32 = 17;

/// The slots of all workers.
#[derive(Debug)]
pub(super) struct Slots(Box<[CachePadded<Slot>]>);

impl Slots {
    pub fn new(slots: usize) -> Self {
        let slot = || Slot {
            status: AtomicU64::new(ENDED),
            aborted: AtomicU64::new(0),
            of_type: AtomicU64::new(0),
            doomed: AtomicU64::new(0),
        };
        Self((0..slots).map(|_| CachePadded::new(slot())).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Begins a transaction of the slot's owner, whose ranks are of that parity.
    pub fn begin(&self, id: Id, of_type: usize, parity: u16) {
        self.0[id.slot()].of_type.store(of_type as u64, Ordering::Relaxed);
        // Release in there: a reader that sees the generation sees its type.
        self.advance(id, Executed::new(0, parity));
    }

    /// It has executed a piece. Release: and what that piece put into lists.
    pub fn advance(&self, id: Id, executed: Executed) {
        let status = id.generation() << GENERATION | u64::from(executed.0) << 1;
        self.0[id.slot()].status.store(status, Ordering::Release);
    }

    /// It will commit. Release: a reader that sees this sees the locks of all that it writes, or what it has
    /// installed.
    pub fn decide(&self, id: Id) {
        let status = &self.0[id.slot()].status;
        let now = status.load(Ordering::Relaxed);
        debug_assert_eq!(now >> GENERATION, id.generation(), "another transaction decides");
        debug_assert_eq!(now & ENDED, 0, "it has ended");
        status.store(now | DECIDED, Ordering::Release);
    }

    /// It has ended: everything is installed, or it is out of all lists.
    pub fn end(&self, id: Id, committed: bool) {
        let slot = &self.0[id.slot()];
        let (bit, known) = (id.bit(), slot.aborted.load(Ordering::Relaxed));
        let aborted = if committed { known & !bit } else { known | bit };
        if aborted != known {
            // Release: a reader that sees it sees the status that began this generation.
            slot.aborted.store(aborted, Ordering::Release);
        }
        // Release: publishes what it installed, and the line before.
        slot.status.store(id.generation() << GENERATION | ENDED, Ordering::Release);
    }

    /// It will abort, because a transaction that it has read from aborts.
    #[cold]
    pub fn doom(&self, id: Id) {
        // Relaxed: a hint. The maximum, so that a generation that has ended does not hide the present one.
        self.0[id.slot()].doomed.fetch_max(id.generation(), Ordering::Relaxed);
    }

    /// Whether another transaction has said that it will abort.
    #[inline(always)]
    pub fn is_doomed(&self, id: Id) -> bool {
        self.0[id.slot()].doomed.load(Ordering::Relaxed) == id.generation()
    }

    /// How far a transaction is.
    #[inline]
    pub fn progress(&self, id: Id) -> Progress {
        let slot = &self.0[id.slot()];
        // Acquire: pairs with the stores above.
        let status = slot.status.load(Ordering::Acquire);
        if status >> GENERATION == id.generation() && status & ENDED == 0 {
            return if status & DECIDED == 0 {
                Progress::Running(Executed::of(status))
            } else {
                Progress::Decided
            };
        }
        // Acquire, then the status again: had we read the bit of a generation that has taken this one's
        // place, we would see that it has begun.
        let aborted = slot.aborted.load(Ordering::Acquire) & id.bit() != 0;
        let now = slot.status.load(Ordering::Relaxed) >> GENERATION;
        if aborted || now - id.generation() >= KNOWN { Progress::Aborted } else { Progress::Committed }
    }

    /// The transaction that runs in a slot, and what it has executed.
    #[inline]
    pub fn running(&self, slot: usize) -> Option<(Id, Executed)> {
        // Acquire: as above.
        let status = self.0[slot].status.load(Ordering::Acquire);
        let id = Id::new(slot, status >> GENERATION);
        (status & ENDED == 0).then_some((id, Executed::of(status)))
    }

    /// The type of a transaction that runs; of a later one, if it has ended meanwhile.
    pub fn of_type(&self, id: Id) -> usize {
        self.0[id.slot()].of_type.load(Ordering::Relaxed) as usize
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_is_doomed_is_known() {
        let slots = Slots::new(1);
        let id = |generation| Id::new(0, generation);
        slots.doom(id(5));
        slots.doom(id(3));
        assert!(slots.is_doomed(id(5)), "what is told late of one that has ended hides nothing");
        assert!(!slots.is_doomed(id(6)));
    }

    #[test]
    fn outcomes_are_known_for_a_while() {
        let slots = Slots::new(2);
        let id = |generation| Id::new(1, generation);
        slots.begin(id(1), 0, 1);
        assert_eq!(slots.progress(id(1)), Progress::Running(Executed::new(0, 1)));
        let executed = Executed::new(3, 1);
        slots.advance(id(1), executed);
        assert_eq!(slots.progress(id(1)), Progress::Running(executed));
        assert_eq!(slots.running(1), Some((id(1), executed)));
        assert_eq!((executed.rank(), executed.parity()), (3, 1));
        slots.decide(id(1));
        assert_eq!((slots.progress(id(1)), slots.running(1)), (Progress::Decided, Some((id(1), executed))));
        slots.end(id(1), true);
        assert_eq!((slots.progress(id(1)), slots.running(1)), (Progress::Committed, None));
        for generation in 2..200 {
            slots.begin(id(generation), 0, 0);
            assert_eq!(slots.progress(id(generation)), Progress::Running(Executed::new(0, 0)));
            slots.end(id(generation), generation % 3 != 0);
        }
        for generation in 1..200 {
            let expected = match 199 - generation < KNOWN && generation % 3 != 0 {
                true => Progress::Committed,
                false => Progress::Aborted,
            };
            assert_eq!(slots.progress(id(generation)), expected, "{generation}");
        }
    }
}
