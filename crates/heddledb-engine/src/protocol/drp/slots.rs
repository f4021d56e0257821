//! How far each committing transaction is, for those that queue behind it.
//!
//! A worker's *slot* has its transactions one after the other, each with a *generation*. A *holder* is one item of one of
//! them: slot, generation, and the item's number among those that the transaction queues for. It fits a word, and the
//! tail of a queue is such a word. A newer generation in the slot says that the transaction has ended.
//!
//! ```text
//!   tail     63 ........... 19   18 .... 9   8 .. 0
//!            generation          slot        item; LATE from the 256th on         0: nobody
//!
//!   status   63 ............ 2   1         0
//!            generation          decided   ended
//! ```
//!
//! | word | written | read, and what for |
//! |---|---|---|
//! | status | at begin, when it decides, at its end (Release) | Acquire: its pass, its time, what it installed |
//! | pass | zero before the begin; after the last swap of each rank (Release) | Acquire: its swaps come before the reader's next |
//! | time | before it decides | after a status that says so; then the status again |
//! | done | when an item is installed, or is over without effect: its generation (Release) | Acquire: what is installed |
//!
//! All are written by the slot's worker alone, each rises, and none is ever taken back.

use crate::mutant::{Mutant, planted};
use crate::sync::{AtomicU64, MODEL, Ordering, name};
use crossbeam_utils::CachePadded;

const ITEM_BITS: u32 = 9;
const SLOT_BITS: u32 = 10;

/// Items whose end is told one by one. Of later ones it is known when their transaction has ended.
const TOLD: usize = if MODEL { 2 } else { 256 };

/// The number of an item that has no word of its own.
const LATE: u64 = 1 << (ITEM_BITS - 1);

const _: () = assert!(TOLD as u64 <= LATE, "numbers of items fit");

/// A transaction: a slot and a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(u64);

impl Id {
    pub fn new(slot: usize, generation: u64) -> Self {
        debug_assert!(slot < 1 << SLOT_BITS, "so many sessions are permitted");
        Self(generation << SLOT_BITS | slot as u64)
    }

    fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    fn generation(self) -> u64 {
        self.0 >> SLOT_BITS
    }

    /// Its item of that number.
    pub fn item(self, number: usize) -> Holder {
        let number = if number < TOLD { number as u64 } else { LATE };
        Holder(self.0 << ITEM_BITS | number)
    }
}

/// An item of a transaction: what stands in a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder(u64);

impl Holder {
    /// Whom a tail names; nobody, if it is free.
    pub fn of(tail: u64) -> Option<Self> {
        (tail != 0).then_some(Self(tail))
    }

    /// As a tail.
    pub fn tail(self) -> u64 {
        self.0
    }

    /// The transaction.
    pub fn id(self) -> Id {
        Id(self.0 >> ITEM_BITS)
    }

    fn number(self) -> usize {
        (self.0 & ((1 << ITEM_BITS) - 1)) as usize
    }
}

/// One worker's lines.
#[derive(Debug)]
#[repr(C)]
struct Slot {
    status: AtomicU64,
    pass: AtomicU64,
    time: AtomicU64,
    done: [AtomicU64; TOLD],
}

const ENDED: u64 = 1;
const DECIDED: u64 = 2;
const STATUS_GENERATION: u32 = 2;

/// The slots of all workers.
#[derive(Debug)]
pub struct Slots(Box<[CachePadded<Slot>]>);

impl Slots {
    pub(super) fn with(slots: usize) -> Self {
        let slot = || Slot {
            status: AtomicU64::new(ENDED),
            pass: AtomicU64::new(0),
            time: AtomicU64::new(0),
            done: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        let slots = Self((0..slots).map(|_| CachePadded::new(slot())).collect());
        slots.name_words();
        slots
    }

    /// Tells the observer of a simulation what the words are.
    fn name_words(&self) {
        for (number, slot) in self.0.iter().enumerate() {
            let word = |word: &AtomicU64, what: &str| {
                name(std::ptr::from_ref(word).cast(), size_of::<AtomicU64>(), || {
                    format!("{what} of session {number}")
                });
            };
            word(&slot.status, "status");
            word(&slot.pass, "pass");
            word(&slot.time, "time");
        }
    }

    /// Begins a transaction of the slot's worker. The first swap of a tail publishes this.
    pub(super) fn begin(&self, id: Id) {
        let slot = &self.0[id.slot()];
        debug_assert!(slot.status.load(Ordering::Relaxed) & ENDED != 0, "the one before has ended");
        // Release, both: a reader that sees the new status takes the old transaction for ended, and one that sees
        // the new pass sees the end of the old one before it.
        slot.pass.store(0, Ordering::Release);
        slot.status.store(id.generation() << STATUS_GENERATION, Ordering::Release);
    }

    /// It has acquired every own item of this rank and below.
    pub(super) fn pass(&self, id: Id, rank: u64) {
        let pass = &self.0[id.slot()].pass;
        debug_assert!(pass.load(Ordering::Relaxed) <= rank, "a pass rises");
        pass.store(rank, Ordering::Release);
    }

    /// It commits at that time, unless it has no effect.
    pub(super) fn decide(&self, id: Id, time: u64) {
        let slot = &self.0[id.slot()];
        // Release: a reader that sees it sees the status that began this generation.
        slot.time.store(time, Ordering::Release);
        slot.status.store(id.generation() << STATUS_GENERATION | DECIDED, Ordering::Release);
    }

    /// An item is installed, or over without effect, and so is what was before it.
    pub(super) fn done(&self, item: Holder) {
        if let Some(word) = self.0[item.id().slot()].done.get(item.number()) {
            word.store(item.id().generation(), Ordering::Release);
        }
    }

    /// It has ended: all its items are done, and no tail names it.
    pub(super) fn end(&self, id: Id) {
        let status = &self.0[id.slot()].status;
        status.store(id.generation() << STATUS_GENERATION | ENDED, Ordering::Release);
    }

    /// The status, while the transaction lives.
    #[inline]
    fn living(&self, id: Id) -> Option<u64> {
        // Acquire: pairs with each of the stores above.
        let status = self.0[id.slot()].status.load(Ordering::Acquire);
        let same = status >> STATUS_GENERATION == id.generation();
        (same && status & ENDED == 0).then_some(status)
    }

    /// Whether it has not ended.
    #[inline]
    pub(super) fn lives(&self, id: Id) -> bool {
        self.living(id).is_some()
    }

    /// Whether it has decided, or has ended.
    #[inline]
    pub(super) fn has_decided(&self, id: Id) -> bool {
        self.living(id).is_none_or(|status| status & DECIDED != 0)
    }

    /// Whether it has acquired all that it wants up to this rank, or has decided, or has ended.
    #[inline]
    pub(super) fn has_passed(&self, id: Id, rank: u64) -> bool {
        // Of a newer transaction, if this one has ended meanwhile: then it has passed all the same.
        self.has_decided(id) || self.0[id.slot()].pass.load(Ordering::Acquire) >= rank
    }

    /// Whether an item is done.
    #[inline]
    pub(super) fn is_done(&self, item: Holder) -> bool {
        let id = item.id();
        let word = self.0[id.slot()].done.get(item.number());
        let is_its_own = |done| done == id.generation() || done != 0 && planted(Mutant::DrpGenerationIgnored);
        word.is_some_and(|word| is_its_own(word.load(Ordering::Acquire))) || !self.lives(id)
    }

    /// The time of one that has decided, and not ended.
    #[inline]
    pub(super) fn time(&self, id: Id) -> Option<u64> {
        let decided = |status| status & DECIDED != 0;
        self.living(id).filter(|status| decided(*status))?;
        // Acquire: before the second look.
        let time = self.0[id.slot()].time.load(Ordering::Acquire);
        // Had the next transaction decided, the status would say that this one has ended.
        self.lives(id).then_some(time)
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_known_by_its_generation() {
        let slots = Slots::with(2);
        let (first, second) = (Id::new(1, 1), Id::new(1, 2));
        slots.begin(first);
        assert!(slots.lives(first) && !slots.has_decided(first) && !slots.has_passed(first, 7));
        slots.pass(first, 7);
        assert!(slots.has_passed(first, 7) && !slots.has_passed(first, 8));
        assert_eq!(slots.time(first), None);
        slots.decide(first, 99);
        assert_eq!(slots.time(first), Some(99));
        assert!(slots.has_passed(first, 8) && !slots.is_done(first.item(3)));
        slots.done(first.item(3));
        assert!(slots.is_done(first.item(3)) && !slots.is_done(first.item(4)));
        slots.end(first);
        assert!(slots.is_done(first.item(4)) && slots.has_decided(first));
        slots.begin(second);
        assert!(slots.is_done(first.item(4)), "a newer one is there");
        assert!(!slots.is_done(second.item(3)) && !slots.has_passed(second, 1));
        assert_eq!(slots.time(first), None);
    }

    #[test]
    fn items_without_a_word_end_with_their_transaction() {
        let slots = Slots::with(1);
        let id = Id::new(0, 1);
        slots.begin(id);
        for number in [TOLD, TOLD + 1, 1_000_000] {
            let item = id.item(number);
            slots.done(item);
            assert!(!slots.is_done(item));
            assert_eq!(Holder::of(item.tail()).map(Holder::id), Some(id));
        }
        slots.end(id);
        assert!(slots.is_done(id.item(TOLD)));
    }
}
