//! Queueing for what a transaction writes.
//!
//! **A queue** is the tail word of a column group: it names the last that queued, who knows the one before it, and so
//! on (CLH). One swap of the tail is a transaction's whole lock: nothing is held, so nothing has to be let go, and those
//! behind it go on queueing for other items at once. A transaction's *predecessors* are those that lived when it found
//! them in a tail.
//!
//! **Order** (DRP §4.1). A transaction queues for its items in the order of their ranks. Before each it waits until all
//! its predecessors have *passed* its rank: have queued for all that they want up to there. Then it decides after them.
//!
//! **Why no circle of predecessors closes.** Of two items with one rank that of the lesser key comes first, so a
//! transaction's items have one full order. Suppose a circle of undecided transactions, T1 behind T2 on x1, T2 behind T3
//! on x2, .., Tn behind T1 on xn, with as few members as can be, and x1 its greatest item, of rank r. T2 queued for x2
//! before x1 (were they equal, T1 would be behind T3 there, and the circle smaller). So when it queued for x1, T3 had
//! passed r. Now let P be before T on x, and T have passed r. If T's last item is above x, T has waited until P passed
//! that item's rank, which is no less than r. If it is x, and of a rank above r, P has queued for x too, so for all its
//! items of rank r, and T's pass is no less. If it is x, and of rank r, either no other item has that rank, and P has
//! queued for x; or the rank may tie, and T has published its pass only after P had. In each case P has queued for all
//! its items up to r, and the same can be said of the one before P. So along the circle T1 had queued for x1 before T2
//! did. Contradiction. One that has decided passes every rank: all its predecessors have decided before.
//!
//! That last case is where it is not enough to have queued for all *own* items of the rank
//! (`heddledb-check/tests/drp_model`, `TieAlone`).
//!
//! **Taken** ([`Queued::take`]) is an item only when all predecessors have decided, and if nobody is in its queue. So it adds no
//! predecessor, and whoever finds it there is behind one that waits for nobody undecided any more: it is in no circle. The pass
//! does not tell of it. The model has the variants that fail: taken before the predecessors have decided, or waited for.
//!
//! **Why waits end.** Each is for a predecessor: to pass a rank, to decide, to install an item or to end. Along a chain of
//! them the last waits for none.
//!
//! **Two-phase** (not `pipelined`): a transaction also waits until whoever was before it in a queue has ended. So it has no
//! predecessors, and a queue is a lock. Locks are taken in the full order of items, so no circle of waits closes.
//!
//! **Held** ([`Group::held`](crate::table::Group::held), `#[table(held)]`: the paper's legacy items, whose locks are never relaxed): the
//! same for items of some tables. Whoever was before a transaction on such an item has ended before it passes the item's rank, and is no
//! predecessor of it. That is stronger than having queued for all up to there, so the argument above goes on along it: in a circle of
//! undecided transactions the only edge about a held item can be that of one that still waits there, at its greatest item so far. The
//! model holds some items, and finds the variant that does not wait.
//!
//! **Giving up.** Who has queued leaves no gap: an item without effect is done only when what was before it is done, and
//! only then the tail is freed, by an exchange, since another may have queued behind it. A transaction has ended when
//! all its items are done. So one that has ended stands for all that was before it. Nothing is done before its transaction has
//! decided, not even what was only looked at: else one behind it that gives up would end, and free the tail, while the looker
//! is undecided, and a writer would queue behind nobody (`drp_model`, `LookDoneAtEvaluation`).
//!
//! **Sealing.** A record that is absent may be sealed while its tails are free: the sealer locks the stamps and then
//! looks at the tails; one that queues swaps the tail and then looks at the stamp (Dekker; all SeqCst). So a locked,
//! absent stamp is waited for, for some instructions: it is a sealer's, or that of a writer who fills the row.

use super::rank::Rank;
use super::slots::{Holder, Id, Slots};
use crate::error::Conflict;
use crate::mutant::{Mutant, planted};
use crate::record::RecordRef;
use crate::stamp;
use crate::sync::{AtomicU64, Ordering, Suspender, Wait, model_fence, point, wait_out, wait_until};
use crate::table::{Group, Layout};

/// The stamp of a column group.
#[inline(always)]
pub(super) fn stamp_of(record: &RecordRef, group: usize) -> &AtomicU64 {
    record.word(2 * group)
}

/// The tail of its queue.
#[inline(always)]
pub(super) fn tail_of(record: &RecordRef, group: usize) -> &AtomicU64 {
    record.word(2 * group + 1)
}

/// A column group that a transaction queues for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub rank: Rank,
    pub record: RecordRef,
    pub group: u8,
    /// The number of the row that it is a part of.
    pub row: u32,
    /// Who was the tail, and lived.
    pub previous: Option<Holder>,
    pub done: bool,
    /// Who was before has to end before it is this one's.
    pub held: bool,
}

impl Item {
    /// A column group of a row of that relation, with that key, whose number is `row`.
    #[inline]
    pub fn new(
        layout: &Layout,
        relation: usize,
        key: &[u64],
        record: RecordRef,
        group: usize,
        row: usize,
    ) -> Self {
        let Group { rank, held, .. } = layout.groups[group];
        let rank = Rank::new(rank, relation, key, group);
        Self { rank, record, group: group as u8, row: row as u32, previous: None, done: false, held }
    }
}

/// What one transaction queues for.
#[derive(Debug, Default)]
pub(super) struct Queued {
    /// In the full order, once it is sorted.
    pub items: Vec<Item>,
    /// The first so many have been queued for.
    acquired: usize,
    /// Of the first so many in the order of ranks; those behind them were taken.
    known: usize,
    /// Those that had not decided when they were looked at last.
    predecessors: Vec<Id>,
    /// This transaction, from its first swap on.
    me: Option<Id>,
    /// The generation of the slot's last one.
    generation: u64,
}

impl Queued {
    /// Nothing is queued for.
    #[inline]
    pub fn clear(&mut self) {
        debug_assert!(self.me.is_none(), "the one before has ended");
        self.items.clear();
        self.acquired = 0;
        self.predecessors.clear();
    }

    /// Brings the items into the full order; `key` knows the words of a row's key.
    #[inline]
    pub fn sort<'a>(&mut self, key: impl Fn(u32) -> &'a [u64]) {
        if self.items.len() > 1 {
            let ties = |one: &Item, other: &Item| key(one.row).cmp(key(other.row));
            self.items
                .sort_unstable_by(|one, other| one.rank.cmp(&other.rank).then_with(|| ties(one, other)));
        }
    }

    /// Queues for all items. After an error [`Self::give_up`] follows.
    pub fn acquire(
        &mut self,
        slots: &Slots,
        slot: usize,
        pipelined: bool,
        suspender: Option<&Suspender>,
    ) -> Result<(), Conflict> {
        self.generation += 1;
        let me = Id::new(slot, self.generation);
        slots.begin(me);
        self.me = Some(me);
        self.known = self.items.len();
        for number in 0..self.items.len() {
            let rank = self.items[number].rank;
            self.wait_passed(slots, rank, suspender)?;
            let is_last = self.items.get(number + 1).is_none_or(|next| next.rank != rank);
            if planted(Mutant::DrpPassedBeforeSwap) {
                slots.pass(me, rank.bits());
                point("passed");
            }
            let Item { record, group, held, .. } = self.items[number];
            // SeqCst: before the look at the stamp, and, through the epoch, in one order with the looks of readers at
            // this tail (see the module). Acquire: what the one before had begun, or what is installed.
            let tail = tail_of(&record, group.into()).swap(me.item(number).tail(), Ordering::SeqCst);
            self.acquired = number + 1;
            let previous = Holder::of(tail).filter(|holder| slots.lives(holder.id()));
            self.items[number].previous = previous;
            if let Some(id) = previous.map(Holder::id) {
                if !pipelined || held {
                    if !planted(Mutant::DrpHeldNotAwaited) && !wait_until(suspender, || !slots.lives(id)) {
                        return Err(Conflict::TimedOut);
                    }
                } else if !self.predecessors.contains(&id) {
                    self.predecessors.push(id);
                }
            }
            wait_unsealed(&record, group.into())?;
            if is_last && !planted(Mutant::DrpPassedBeforeSwap) {
                if rank.may_tie() {
                    self.wait_passed(slots, rank, suspender)?;
                }
                let is_end = planted(Mutant::DrpPassedAll) && number + 1 == self.items.len();
                slots.pass(me, if is_end { u64::MAX } else { rank.bits() });
            }
            point("queued");
        }
        Ok(())
    }

    /// The items that were queued for; those behind them were taken.
    pub fn queued_for(&self) -> usize {
        self.known
    }

    /// Takes an item that nobody queues for and whose row is absent, when all predecessors have decided. After an error
    /// [`Self::give_up`] follows.
    pub fn take(&mut self, slots: &Slots, item: Item) -> Result<(), Conflict> {
        let me = self.me.expect("it has queued");
        debug_assert!(
            self.predecessors.iter().all(|id| slots.has_decided(*id)),
            "what is behind this one is in no circle"
        );
        let (number, group) = (self.items.len(), usize::from(item.group));
        let (tail, own) = (tail_of(&item.record, group), me.item(number).tail());
        // SeqCst, Acquire: as the swap of one that queues.
        if planted(Mutant::DrpTakenFromOthers) {
            tail.swap(own, Ordering::SeqCst);
        } else if tail.compare_exchange(0, own, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return Err(Conflict::Locked);
        }
        self.items.push(item);
        self.acquired = number + 1;
        point("taken");
        wait_unsealed(&item.record, group)?;
        // Relaxed: whoever installed it was acquired with the free tail.
        let is_absent = stamp::is_absent(stamp_of(&item.record, group).load(Ordering::Relaxed));
        if is_absent || planted(Mutant::DrpPresentTaken) { Ok(()) } else { Err(Conflict::ReadChanged) }
    }

    /// Waits until all predecessors have passed a rank.
    #[inline]
    fn wait_passed(
        &mut self,
        slots: &Slots,
        rank: Rank,
        suspender: Option<&Suspender>,
    ) -> Result<(), Conflict> {
        let mut on_time = true;
        self.predecessors.retain(|id| {
            on_time = on_time && wait_until(suspender, || slots.has_passed(*id, rank.bits()));
            !slots.has_decided(*id)
        });
        if on_time { Ok(()) } else { Err(Conflict::TimedOut) }
    }

    /// Waits until all predecessors have decided, or have ended.
    #[inline]
    pub fn wait_decided(&mut self, slots: &Slots, suspender: Option<&Suspender>) -> Result<(), Conflict> {
        let decided = |id: &Id| wait_until(suspender, || slots.has_decided(*id));
        let all = planted(Mutant::DrpDecisionsNotAwaited) || self.predecessors.iter().all(decided);
        if all { Ok(()) } else { Err(Conflict::TimedOut) }
    }

    /// Waits until an item's turn has come: what was before it is done.
    #[inline]
    pub fn wait_turn(
        &self,
        slots: &Slots,
        number: usize,
        suspender: Option<&Suspender>,
    ) -> Result<(), Conflict> {
        let done = |previous| wait_until(suspender, || slots.is_done(previous));
        match self.items[number].previous {
            Some(previous) if !done(previous) => Err(Conflict::TimedOut),
            _ => Ok(()),
        }
    }

    /// The latest time before which a commit cannot be: of what is installed, or will be, before it.
    #[inline]
    pub fn newest(&self, slots: &Slots) -> u64 {
        let newest = |item: &Item| {
            let decided = item.previous.and_then(|previous| slots.time(previous.id()));
            // Relaxed: it was Acquire, when the turn came, or the swap that found a free tail.
            let installed = || stamp::time(stamp_of(&item.record, item.group.into()).load(Ordering::Relaxed));
            decided.unwrap_or_else(installed)
        };
        self.items.iter().map(newest).max().unwrap_or(0)
    }

    /// It commits at that time.
    #[inline]
    pub fn decide(&self, slots: &Slots, time: u64) {
        if let Some(me) = self.me {
            slots.decide(me, time);
        }
    }

    /// An item is installed.
    #[inline]
    pub fn done(&mut self, slots: &Slots, number: usize) {
        if let Some(me) = self.me {
            self.items[number].done = true;
            slots.done(me.item(number));
        }
    }

    /// Ends the transaction: every item that is not installed is without effect.
    pub fn end(&mut self, slots: &Slots, suspender: Option<&Suspender>) {
        let Some(me) = self.me.take() else { return };
        for number in 0..self.acquired {
            let Item { previous, done, .. } = self.items[number];
            if done {
                continue;
            }
            if let Some(previous) = previous
                && !planted(Mutant::DrpNullDoneEarly)
            {
                // For as long as it takes: others are behind it.
                wait_out(suspender, || slots.is_done(previous));
            }
            slots.done(me.item(number));
        }
        for (number, item) in self.items[..self.acquired].iter().enumerate() {
            let (tail, own) = (tail_of(&item.record, item.group.into()), me.item(number).tail());
            if planted(Mutant::DrpTailStored) {
                tail.store(0, Ordering::Release);
                continue;
            }
            // Relaxed: once it is not ours it is never again. Release: who finds it free sees what is installed.
            if tail.load(Ordering::Relaxed) == own {
                _ = tail.compare_exchange(own, 0, Ordering::SeqCst, Ordering::Relaxed);
            }
        }
        slots.end(me);
        self.acquired = 0;
    }
}

/// Waits for a sealer's verdict, after the tail was swapped.
#[inline]
fn wait_unsealed(record: &RecordRef, group: usize) -> Result<(), Conflict> {
    model_fence();
    // SeqCst: after the swap, in one order with the sealer's lock and its look at the tail.
    let word = stamp_of(record, group).load(Ordering::SeqCst);
    let is_held = stamp::is_locked(word) && stamp::is_absent(word);
    if is_held && !planted(Mutant::DrpSealNotAwaited) { wait_verdict(record, group) } else { Ok(()) }
}

#[cold]
fn wait_verdict(record: &RecordRef, group: usize) -> Result<(), Conflict> {
    let mut wait = Wait::new();
    loop {
        let word = stamp_of(record, group).load(Ordering::SeqCst);
        if word == stamp::SEALED {
            return Err(Conflict::Reclaimed);
        }
        if !(stamp::is_locked(word) && stamp::is_absent(word)) {
            return Ok(());
        }
        wait.pause();
    }
}

/// Locks the stamp of a group whose turn has come, and returns it as it was. Only a sealer may have locked it, for some
/// instructions, and only while the row is absent.
#[inline]
pub(super) fn lock_stamp(record: &RecordRef, group: usize) -> u64 {
    let word = stamp_of(record, group);
    let mut wait = Wait::new();
    loop {
        // Relaxed: whoever stored it is done, and we have acquired that.
        let stamp = word.load(Ordering::Relaxed);
        debug_assert!(stamp != stamp::SEALED, "whoever queues keeps it from being sealed");
        if !stamp::is_absent(stamp) {
            debug_assert!(!stamp::is_locked(stamp), "only the first of the queue locks it");
            word.store(stamp | stamp::LOCK, Ordering::Relaxed);
            return stamp;
        }
        let locked = stamp | stamp::LOCK;
        if !stamp::is_locked(stamp)
            && word.compare_exchange(stamp, locked, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            return stamp;
        }
        wait.pause();
    }
}
