//! Times, and how far each transaction is.
//!
//! **Times** are drawn from one counter, which is never below the floor of the epoch: each is drawn once, and
//! of two the later is the greater. So all begins and ends are in one order, and all cores contend for the
//! counter (TicToc §6.3). A stamp's epoch is thus that of the draw.
//!
//! A worker's *slot* has its transactions one after the other, each with a *generation*; a reference to a
//! transaction is both ([`Id`]), so that a transaction that meets a newer generation knows that the one it
//! looks for has ended. The paper finds a transaction's object in a table by its number.
//!
//! ```text
//!   status   63 ........ 2   1 .. 0
//!            generation      0 running, 1 preparing, 2 committed, 3 ended
//!   end      the end time; 0 until it is known, in preparing
//!   since    63: and later   61 .. 0 the time that it reads at       all ones: it reads nothing
//!   aborted  bit g modulo 64: generation g has aborted
//! ```
//!
//! Only the slot's worker writes these four words.
//!
//! **Preparing is announced before the end time is drawn.** A transaction that draws a later time (acquire,
//! in the counter's chain of exchanges) then sees the announcement, and every lock taken before it (release).
//! So from *running* it may conclude that the end will be later than its own time; for the few instructions
//! in between it waits. The paper sets both at once.
//!
//! **At which time a transaction reads.** `since` is published before the begin time is drawn, as a lower
//! bound, and made exact afterwards. Once it prepares, a transaction also looks at what is visible at its
//! end: then *and later* is set, before the end is drawn. So a transaction that has drawn a time finds in the
//! slots all that read at an earlier one; those that come later read later. That decides which old versions
//! are needed ([`Times::readers`]).
//!
//! **Aborted or committed.** Of its last 64 generations a slot keeps which have aborted. A transaction that
//! waits for an older one can no longer know and takes it for aborted, which costs an abort at most.

use crate::epoch::EpochClock;
use crate::mutant::{Mutant, planted};
use crate::stamp;
use crate::sync::{AtomicU64, Ordering, fence, point};
use crossbeam_utils::CachePadded;

/// A transaction: a slot and a generation. Never 0 and never all ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(u64);

const SLOT_BITS: u32 = 10;
/// The most slots.
pub(super) const SLOTS_MAX: usize = 1 << SLOT_BITS;

impl Id {
    fn new(slot: usize, generation: u64) -> Self {
        Self(generation << SLOT_BITS | slot as u64)
    }

    pub fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    fn generation(self) -> u64 {
        self.0 >> SLOT_BITS
    }

    /// As a word of a record.
    pub fn bits(self) -> u64 {
        self.0
    }

    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It runs: the asking transaction has drawn its time before this one draws its end.
    Running,
    /// It is about to know its end, in a few instructions.
    Ending,
    /// It will have ended at that time, if it commits.
    Preparing(u64),
    /// It has committed at that time, and puts its writes into the records.
    Committed(u64),
    /// It has ended: its writes are in the records, or will never be.
    Ended,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has not ended yet.
    Open,
    Committed,
    /// Aborted, or no longer known.
    Aborted,
}

/// One worker's line.
#[derive(Debug)]
struct Slot {
    status: AtomicU64,
    end: AtomicU64,
    since: AtomicU64,
    aborted: AtomicU64,
}

const RUNNING: u64 = 0;
const PREPARING: u64 = 1;
const COMMITTED: u64 = 2;
const ENDED: u64 = 3;
const STATE_BITS: u32 = 2;
const STATE: u64 = (1 << STATE_BITS) - 1;

/// Generations whose outcome is known.
const KNOWN: u64 = 64;

const AND_LATER: u64 = 1 << 63;
const NOBODY: u64 = u64::MAX;

/// The counter and the slots of all workers.
#[derive(Debug)]
pub(super) struct Times {
    /// The last time drawn. Every transaction that writes raises it twice, every other once.
    last: CachePadded<AtomicU64>,
    /// How many slots have ever been used. Written before the first draw of a slot.
    used: CachePadded<AtomicU64>,
    slots: Box<[CachePadded<Slot>]>,
}

impl Times {
    pub fn new(slots: usize) -> Self {
        let slot = || Slot {
            status: AtomicU64::new(ENDED),
            end: AtomicU64::new(0),
            since: AtomicU64::new(NOBODY),
            aborted: AtomicU64::new(0),
        };
        Self {
            last: CachePadded::new(AtomicU64::new(0)),
            used: CachePadded::new(AtomicU64::new(0)),
            slots: (0..slots).map(|_| CachePadded::new(slot())).collect(),
        }
    }

    /// Draws a time of `epoch` or later.
    #[inline]
    fn draw(&self, epoch: u64) -> u64 {
        let floor = stamp::floor(epoch);
        // Relaxed: too old a value costs an exchange. AcqRel below: see the module header.
        if self.last.load(Ordering::Relaxed) < floor {
            self.last.fetch_max(floor, Ordering::AcqRel);
        }
        self.last.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The last time that was drawn. A transaction that reads at it may conclude what the one that drew it
    /// may: acquire.
    #[inline]
    pub fn now(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Begins a slot's next transaction, which reads at its begin, and with `and_later` later too. Returns
    /// the transaction and its begin time.
    #[inline]
    pub fn begin(&self, slot: usize, clock: &EpochClock, and_later: bool) -> (Id, u64) {
        let place = &self.slots[slot];
        if self.used.load(Ordering::Relaxed) <= slot as u64 {
            self.used.fetch_max(slot as u64 + 1, Ordering::Relaxed);
        }
        // Relaxed: its own.
        let id = Id::new(slot, (place.status.load(Ordering::Relaxed) >> STATE_BITS) + 1);
        // Relaxed: published by the draw. No later than the time that is drawn.
        place.since.store(self.last.load(Ordering::Relaxed) | AND_LATER, Ordering::Relaxed);
        self.set(id, RUNNING);
        place.end.store(0, Ordering::Relaxed);
        let begin = self.draw(clock.now());
        if !and_later {
            // Release: until others see it, more versions are kept than need be.
            place.since.store(begin, Ordering::Release);
        }
        (id, begin)
    }

    /// Release: what the transaction has done so far.
    fn set(&self, id: Id, state: u64) {
        self.slots[id.slot()].status.store(id.generation() << STATE_BITS | state, Ordering::Release);
    }

    /// A transaction holds all its locks, shows its writes, and ends: draws its end time.
    #[inline]
    pub fn prepare(&self, id: Id, begin: u64, clock: &EpochClock) -> u64 {
        let place = &self.slots[id.slot()];
        let early =
            planted(Mutant::HekatonEndBeforePreparing).then(|| self.draw(clock.commit_epoch(id.slot())));
        if early.is_some() {
            point("end drawn too early");
        }
        // Relaxed: published by the draw.
        place.since.store(begin | AND_LATER, Ordering::Relaxed);
        self.set(id, PREPARING);
        point("preparing");
        let end = early.unwrap_or_else(|| self.draw(clock.commit_epoch(id.slot())));
        // Release: a reader that takes a later transaction's end for this one's sees the later one's status.
        place.end.store(end, Ordering::Release);
        end
    }

    /// It will commit.
    #[inline]
    pub fn commit(&self, id: Id) {
        self.set(id, COMMITTED);
    }

    /// It has ended: everything is in the records, or it has aborted.
    #[inline]
    pub fn end(&self, id: Id, committed: bool) {
        let place = &self.slots[id.slot()];
        let (bit, known) = (1 << (id.generation() % KNOWN), place.aborted.load(Ordering::Relaxed));
        let aborted = if committed { known & !bit } else { known | bit };
        if aborted != known {
            // Release: a reader that sees it sees the status that began this generation.
            place.aborted.store(aborted, Ordering::Release);
        }
        // Release, in there, too: publishes the bit, and what was installed.
        self.set(id, ENDED);
        // Release: its reads are over.
        place.since.store(NOBODY, Ordering::Release);
    }

    /// How far a transaction is, for a caller that has drawn a time before.
    #[inline]
    pub fn progress(&self, id: Id) -> Progress {
        let place = &self.slots[id.slot()];
        // Acquire: pairs with `set`.
        let status = place.status.load(Ordering::Acquire);
        if status >> STATE_BITS != id.generation() {
            return Progress::Ended;
        }
        let state = status & STATE;
        match state {
            RUNNING => return Progress::Running,
            ENDED => return Progress::Ended,
            _ => {}
        }
        // Acquire, then the generation again: a later transaction's end comes after its status. A zero is
        // read again.
        let end = place.end.load(Ordering::Acquire);
        if !self.is_current(id) {
            return Progress::Ended;
        }
        match end {
            0 => Progress::Ending,
            end if state == PREPARING => Progress::Preparing(end),
            end => Progress::Committed(end),
        }
    }

    /// Whether no later transaction has taken the slot. After an acquire fence: as far as what was read
    /// before tells.
    #[inline]
    pub fn is_current(&self, id: Id) -> bool {
        self.slots[id.slot()].status.load(Ordering::Relaxed) >> STATE_BITS == id.generation()
    }

    /// Whether a transaction that showed its writes still shows them, as far as words go that were read
    /// before.
    #[inline]
    pub fn still_shows(&self, id: Id) -> bool {
        // Acquire fence: had one of the words been a later transaction's, its status would be seen.
        fence(Ordering::Acquire);
        let status = self.slots[id.slot()].status.load(Ordering::Relaxed);
        status >> STATE_BITS == id.generation() && status & STATE != ENDED
    }

    /// How a transaction ended that was preparing when the caller met it.
    pub fn outcome(&self, id: Id) -> Outcome {
        let place = &self.slots[id.slot()];
        // Acquire: pairs with `set`, and with the bits below.
        let status = place.status.load(Ordering::Acquire);
        if status >> STATE_BITS == id.generation() && status & STATE != ENDED {
            return if status & STATE == COMMITTED { Outcome::Committed } else { Outcome::Open };
        }
        // Acquire, then the status again: had we read the bit of a generation that has taken this one's
        // place, we would see that it has begun.
        let aborted = place.aborted.load(Ordering::Acquire) & 1 << (id.generation() % KNOWN) != 0;
        let now = place.status.load(Ordering::Relaxed) >> STATE_BITS;
        if aborted || now - id.generation() >= KNOWN { Outcome::Aborted } else { Outcome::Committed }
    }

    /// Collects the times at which others read that have drawn a time before the caller drew its last.
    pub fn readers(&self, own: Id, readers: &mut Readers) {
        readers.0.clear();
        // Relaxed, here and in the slots: the caller's draw has acquired them.
        let used = self.used.load(Ordering::Relaxed) as usize;
        for (slot, place) in self.slots[..used].iter().enumerate() {
            let since = place.since.load(Ordering::Relaxed);
            if since != NOBODY && slot != own.slot() {
                readers.0.push(since);
            }
        }
    }
}

/// When transactions read.
#[derive(Debug, Default)]
pub(super) struct Readers(Vec<u64>);

impl Readers {
    /// Whether one of them may read a version that was current from `from` to just before `until`.
    pub fn need(&self, from: u64, until: u64) -> bool {
        self.0.iter().any(|since| match since & AND_LATER {
            0 => (from..until).contains(since),
            _ => since & !AND_LATER < until,
        })
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn times_rise_and_are_of_their_epoch() {
        let (clock, times) = (EpochClock::new(2), Times::new(2));
        let (first, begin) = times.begin(0, &clock, false);
        let (second, later) = times.begin(1, &clock, false);
        assert!(stamp::epoch(begin) == clock.now() && begin < later);
        clock.pin(0);
        clock.advance();
        let end = times.prepare(first, begin, &clock);
        assert!(stamp::epoch(end) == clock.now() && end > later);
        assert_eq!(times.progress(first), Progress::Preparing(end));
        assert_eq!(times.progress(second), Progress::Running);
        times.commit(first);
        assert_eq!(
            (times.progress(first), times.outcome(first)),
            (Progress::Committed(end), Outcome::Committed)
        );
        times.end(first, true);
        assert_eq!((times.progress(first), times.outcome(first)), (Progress::Ended, Outcome::Committed));
        assert!(!times.still_shows(first) && times.is_current(first));
        let (third, _) = times.begin(0, &clock, false);
        assert_eq!((times.progress(first), times.progress(third)), (Progress::Ended, Progress::Running));
    }

    #[test]
    fn outcomes_are_known_for_a_while() {
        let (clock, times) = (EpochClock::new(2), Times::new(2));
        clock.pin(1);
        let all: Vec<Id> = (0..200)
            .map(|round| {
                let (id, begin) = times.begin(1, &clock, false);
                times.prepare(id, begin, &clock);
                assert_eq!(times.outcome(id), Outcome::Open);
                times.end(id, round % 3 != 0);
                id
            })
            .collect();
        for (round, id) in all.into_iter().enumerate() {
            let known = 199 - round < KNOWN as usize;
            let expected = if known && round % 3 != 0 { Outcome::Committed } else { Outcome::Aborted };
            assert_eq!(times.outcome(id), expected, "{round}");
        }
    }

    #[test]
    fn readers_are_known_by_their_times() {
        let (clock, times) = (EpochClock::new(3), Times::new(3));
        let mut readers = Readers::default();
        let (own, begin) = times.begin(0, &clock, false);
        times.readers(own, &mut readers);
        assert!(!readers.need(0, u64::MAX >> 1), "nobody else reads");
        let (other, at) = times.begin(2, &clock, false);
        times.readers(own, &mut readers);
        assert!(readers.need(begin, at + 1) && readers.need(at, at + 1));
        assert!(!readers.need(begin, at) && !readers.need(at + 1, at + 9));
        clock.pin(2);
        times.prepare(other, at, &clock);
        times.readers(own, &mut readers);
        assert!(readers.need(at + 1, at + 9) && !readers.need(begin, at));
        times.end(other, false);
        times.readers(own, &mut readers);
        assert!(!readers.need(0, u64::MAX >> 1));
    }
}
