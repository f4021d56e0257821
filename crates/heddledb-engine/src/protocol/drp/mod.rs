//! Deferred runtime pipelining: transactions queue for what they write, in the order of ranks, and hand it over one by
//! one (DRP; Mu, Angel, Shasha, EuroSys 2019).
//!
//! **Mechanism.** A transaction's body reads as under Silo, and remembers stamps. Its commit:
//!
//! 1. *queue*: for each column group that is written, in the order of ranks, swap the tail of its queue ([`queue`]). Nobody
//!    is kept out by that: those behind queue for their next items at once. One that has read conflicts before it
//!    queues, if what it has read is outdated or somebody queues for it (we leave the paper here): it would fail in step 4,
//!    and give up item by item, each when its turn came, with others behind it.
//! 2. *order*: wait until all predecessors have decided, or have ended; and, for what was read, for its turn in each
//!    queue.
//! 3. read the epoch; this is the serialisation point;
//! 4. *certify*: every read is of what is there still, and nobody queues for it but this transaction; every gap seen has
//!    its version; what is written is there, or absent, as the body found it.
//! 5. *decide*: the time is above those of all predecessors, of all that is read and overwritten, and of this worker's
//!    last.
//! 6. run what was deferred ([`evaluate`]), and *install*, each row when its turn has come, and hand it over: the record is the hand-over place, so it never has
//!    anything but what is committed.
//! 7. *end*: the tails that still name it are freed.
//!
//! Two words for each column group: its stamp (`crate::stamp`), locked while its data change, and the tail of its queue
//! ([`slots`]).
//!
//! ```text
//! free --swap--> first --turn--> lock, install, publish --done--> the next one's turn ..  --freed by the last--> free
//! ```
//!
//! **Strictly serializable, in the order of decisions.** *Write after write:* the later has the earlier among its
//! predecessors, or behind one of them, and decides after it; or found the tail free, and it had ended. *Read after
//! write:* what is read is installed, so its writer has decided. *Write after read:* the reader certified, so at one
//! moment after its epoch the tail was free and, looked at after that, the stamp was what it had read. Whoever had queued
//! before that moment had ended by then, and what it installed would be in the stamp; so the writer has queued later, and
//! decides later. Were the stamp looked at first, a writer could install, and free the tail, between the two looks,
//! having decided before the reader. What a transaction reads and also writes it certifies when its turn has come: all
//! that was before it is installed, and what is behind it comes after it.
//!
//! **Epochs do not fall along dependencies**. A predecessor has read its epoch before it decided, and
//! that was awaited before this one reads its own. A reader's epoch is read before its look at the tail, a later
//! writer's after its swap: all SeqCst, so in one order.
//!
//! **Times rise along every queue**: a time is above those of the predecessors that live, and above the stamps of what
//! those that have ended have installed.
//!
//! **Deferred.** What a transaction only intends with a row ([`crate::intentions`]) it queues for like a write, and reads
//! when its turn has come. So it is not certified, and does not abort, but where the row's record is being reclaimed.
//!
//! **Made at the commit** ([`crate::intentions::Insert`]). Of a row to be inserted the key may be known only when what it rests on
//! has been read, as the number of an order is. Such a transaction runs what it has deferred *before* it decides, after step 2:
//! then all its predecessors have decided, and its turn comes in each queue without any other decision. Now the keys are known. Each
//! record is put into the index, and its queue *taken*: only if nobody is in it and there is no row, and nobody is waited
//! for. Steps 3 to 7 follow. So what it makes is in the index, and queued for, before its epoch and its decision: who looks
//! for such a row, or through such a gap, and certifies later, conflicts, and who has certified has decided earlier or
//! conflicts with nothing else of it. Whoever queues behind it there has it as a predecessor, as with any item. Were the rows made
//! after the decision, one that queues behind this transaction elsewhere could certify their absence, and come after it all the
//! same. If somebody is there, the attempt conflicts, and the next one does all at once. What steps find out before
//! the decision is not certified: a verdict or a panic is told only if what was read still stands.
//!
//! **Phantoms.** As under Silo: an insert puts an absent placeholder into the index while it executes, and queues for it
//! when it commits; a reader of absence reads the placeholder, or remembers the gap's version.
//!
//! **Opaque reads** ([`Options::opaque`]): each read, and each gap that is seen, certifies all those before it. At the moment
//! after its copy at which its tail was found free, whoever had decided to write anything that was read had installed it;
//! else the stamps that are looked at after that have changed. So a body sees the state of that moment.
//!
//! **Two-phase** ([`Options::pipelined`] is false): see [`queue`].
//!
//! **Reads** wait for a queue to empty, for some pauses, since what they would read is about to change; then they
//! conflict. Who waits, and why that ends: [`queue`].

mod evaluate;
mod queue;
mod rank;
mod slots;

use super::gaps::GapSet;
use super::reads::ReadSet;
use super::stamps::seal_stamps;
use super::{Env, Intent, Pieces, Protocol, Seal, Shared, Sighted, State};
use crate::access::{Groups, Write, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Gap, Seen};
use crate::intentions::{Insert, Plan};
use crate::kind::Drp as Options;
use crate::mutant::{Mutant, planted};
use crate::record::{ConcurrencyWords, RecordData, RecordRef};
use crate::seam::Operators;
use crate::stamp;
use crate::sync::{Ordering, Suspender, Work, decided, fence, model_fence, point, work};
use crate::table::{GroupSet, Layout};
use evaluate::evaluate;
use queue::{Item, Queued, lock_stamp, stamp_of, tail_of};
use rank::last_of;
pub use slots::Slots;
use std::sync::Arc;

/// The protocol.
#[derive(Debug)]
pub struct Drp;

impl Shared for Slots {
    fn new(sessions: usize) -> Self {
        Self::with(sessions)
    }
}

/// One worker's attempt.
pub struct Local {
    options: Options,
    slots: Arc<Slots>,
    slot: usize,
    reads: ReadSet<Drp>,
    gaps: GapSet,
    /// Absent records that this attempt has added; see `silo`.
    own: Vec<RecordRef>,
    queued: Queued,
    /// The time of this worker's last commit.
    last: u64,
    suspender: Option<Suspender>,
    /// The time, where a planted bug has decided before rows were made.
    early: Option<u64>,
}

impl Local {
    /// Steps 1 and 2.
    fn queue(&mut self, writes: &WriteSet, plan: &Plan) -> Result<(), Conflict> {
        let first = writes.writes().len();
        for (number, write) in writes.writes().iter().enumerate() {
            for group in write.group_numbers() {
                let (relation, key) = (write.relation as usize, writes.key(write));
                self.queued.items.push(Item::new(write.layout, relation, key, write.record, group, number));
            }
        }
        for (number, row) in plan.rows().iter().enumerate() {
            for group in row.group_numbers() {
                let (relation, key) = (row.relation as usize, plan.key(row));
                self.queued.items.push(Item::new(
                    row.layout,
                    relation,
                    key,
                    row.record,
                    group,
                    first + number,
                ));
            }
        }
        self.queued.sort(|row| match (row as usize).checked_sub(first) {
            None => writes.key(&writes.writes()[row as usize]),
            Some(row) => plan.key(&plan.rows()[row]),
        });
        let suspender = self.suspender.as_ref();
        self.queued.acquire(&self.slots, self.slot, self.options.pipelined, suspender)?;
        point("ordered");
        self.queued.wait_decided(&self.slots, suspender)?;
        if !planted(Mutant::DrpTurnNotAwaited) {
            let was_read = |record: RecordRef| self.reads.groups().any(|read| read.0 == record);
            for (number, item) in self.queued.items.iter().enumerate() {
                // What is only deferred is not certified.
                if (item.row as usize) < first || !self.reads.is_empty() && was_read(item.record) {
                    self.queued.wait_turn(&self.slots, number, suspender)?;
                }
            }
        }
        Ok(())
    }

    /// Step 4: what the body found out still holds.
    fn certify(&self, writes: &WriteSet, plan: &Plan) -> Result<(), Conflict> {
        for Item { record, group, row, .. } in &self.queued.items {
            let Some(write) = writes.writes().get(*row as usize) else { continue };
            let stamp = stamp_of(record, usize::from(*group)).load(Ordering::Acquire);
            if stamp::is_absent(stamp) == write.was_present {
                // A blind write saw the row there, or a placeholder missing, without reading it.
                return Err(Conflict::ReadChanged);
            }
        }
        let mut is_written = writes.coverage();
        let is_planned = |record: RecordRef, group: usize| {
            let row = plan.find(record).map(|row| &plan.rows()[row]);
            row.is_some_and(|row| row.groups & (1 << group) != 0)
        };
        self.certify_reads(|record, group| is_written(record, group) || is_planned(record, group))?;
        if planted(Mutant::DrpGapsNotCertified) { Ok(()) } else { self.gaps.validate() }
    }

    /// Every read is of what is there; `own` says whether this transaction has queued for a group, and its turn has
    /// come.
    fn certify_reads(&self, mut own: impl FnMut(RecordRef, usize) -> bool) -> Result<(), Conflict> {
        for (record, group, read) in self.reads.groups() {
            let is_own = own(record, group);
            // SeqCst: after the epoch, and before the stamp; see the module.
            if !is_own
                && tail_of(&record, group).load(Ordering::SeqCst) != 0
                && !planted(Mutant::DrpTailNotCertified)
            {
                return Err(Conflict::Locked);
            }
            let stamp = stamp_of(&record, group).load(Ordering::SeqCst);
            // That of an own item may be a sealer's, who finds the tail.
            let stamp = if is_own && stamp != stamp::SEALED { stamp & !stamp::LOCK } else { stamp };
            if stamp != read && !planted(Mutant::DrpReadsNotCertified) {
                return Err(if stamp == read | stamp::LOCK {
                    Conflict::Locked
                } else {
                    Conflict::ReadChanged
                });
            }
        }
        Ok(())
    }

    /// What the body has read and seen still holds, of one that queues for nothing, or has not queued yet.
    #[inline]
    fn certify_unqueued(&self) -> Result<(), Conflict> {
        self.certify_reads(|_, _| false)?;
        self.gaps.validate()
    }

    /// Where reads are opaque: all that was read and seen is of this moment.
    #[inline(always)]
    fn keep_opaque(&self) -> Result<(), Conflict> {
        if !self.options.opaque || planted(Mutant::DrpReadsNotOpaque) {
            return Ok(());
        }
        self.certify_unqueued()
    }

    /// That no other transaction has filled what this one has added.
    fn validate_own(&self) -> Result<(), Conflict> {
        let is_free = |record: &RecordRef| {
            let queued = tail_of(record, 0).load(Ordering::SeqCst) != 0;
            let stamp = stamp_of(record, 0).load(Ordering::SeqCst);
            !queued && stamp::is_absent(stamp) && !stamp::is_locked(stamp)
        };
        if self.own.iter().all(is_free) { Ok(()) } else { Err(Conflict::ReadChanged) }
    }

    /// A time of no earlier epoch than anything read. Absence may be as young as the present epoch.
    fn newest_read(&self, clock: &EpochClock) -> u64 {
        self.reads.not_before(!self.gaps.is_empty(), clock)
    }

    /// Step 5: the time, which has to be of the epoch or of one before it.
    fn time(&self, env: Env<'_>, epoch: u64) -> Result<u64, Conflict> {
        let before = if planted(Mutant::DrpTimeFalls) { 0 } else { self.queued.newest(&self.slots) };
        let read = self.reads.newest();
        let time = read.max(before).max(self.last).max(env.after).max(stamp::floor(epoch)) + 1;
        if stamp::epoch(time) > epoch { Err(Conflict::EpochFull) } else { Ok(time) }
    }

    /// Steps 1 to 5.
    fn decide(&mut self, env: Env<'_>, writes: &WriteSet, plan: &Plan) -> Result<u64, Conflict> {
        // One that is going to fail would hold up those behind it until its turn had come everywhere.
        if !self.reads.is_empty() {
            self.certify_unqueued()?;
        }
        let early = planted(Mutant::DrpEpochEarly).then(|| env.commit_epoch());
        self.queue(writes, plan)?;
        self.decide_now(env, writes, plan, early)
    }

    /// Steps 3 to 5.
    fn decide_now(
        &mut self,
        env: Env<'_>,
        writes: &WriteSet,
        plan: &Plan,
        early: Option<u64>,
    ) -> Result<u64, Conflict> {
        let epoch = early.unwrap_or_else(|| env.commit_epoch());
        self.certify(writes, plan)?;
        point("certified");
        let time = self.time(env, epoch)?;
        debug_assert!(cfg!(feature = "mutants") || time > self.last, "a worker's times fall");
        self.last = time;
        self.queued.decide(&self.slots, time);
        Ok(time)
    }

    /// Steps 6 and 7.
    fn hand_over(&mut self, commit: &mut Commit<'_>, plan: &Plan, time: u64) {
        decided(time);
        let writes = commit.writes();
        // The last in the order of ranks first: the turn of what everyone wants, if it has a high rank, came last, and those
        // behind this transaction have all else.
        // What was made at last is not waited for.
        let queued = 0..self.queued.queued_for();
        let made = queued.end..self.queued.items.len();
        for number in queued.rev().chain(made.rev()) {
            let Item { group, row, .. } = self.queued.items[number];
            let is_first = |layout, groups| last_of(layout, groups) == Some(usize::from(group));
            match (row as usize).checked_sub(writes.writes().len()) {
                None => {
                    let write = &writes.writes()[row as usize];
                    if is_first(write.layout, write.group_numbers()) {
                        self.install(write, time, |write| commit.install::<Drp>(write, time));
                    }
                }
                Some(row) => {
                    let row = &plan.rows()[row];
                    if row.has_effect() && is_first(row.layout, row.group_numbers()) {
                        let (key, words) = (plan.key(row), plan.words(row));
                        let write = row.write();
                        self.install(&write, time, |write| {
                            commit.install_row::<Drp>(write, key, words, time)
                        });
                    }
                }
            }
            self.queued.done(&self.slots, number);
        }
        self.queued.end(&self.slots, self.suspender.as_ref());
    }

    /// Step 6 for one row, whose turn has come in all its groups.
    fn install(&mut self, write: &Write, time: u64, put: impl FnOnce(&Write)) {
        for group in write.group_numbers() {
            let stamp = lock_stamp(&write.record, group);
            debug_assert!(cfg!(feature = "mutants") || stamp::time(stamp) < time, "times rise along a queue");
        }
        // Release fence, then relaxed data stores: a reader that copied one of them also finds the lock bit or a
        // newer stamp when it checks.
        fence(Ordering::Release);
        point("install");
        put(write);
        for group in write.group_numbers() {
            // Release: publishes the data to readers of this stamp.
            stamp_of(&write.record, group).store(stamp::of(time, write.present), Ordering::Release);
        }
    }
}

impl ConcurrencyWords for Drp {
    const GROUP_WORDS: usize = 2;
    const NAMES: &'static [&'static str] = &["stamp", "tail"];

    #[inline(always)]
    fn is_awaited(record: RecordRef, group: usize) -> bool {
        // Acquire: who finds it free sees what was installed before. It is only a hint all the same: the commit decides.
        tail_of(&record, group).load(Ordering::Acquire) != 0
    }
}

impl State for Drp {
    type Options = Options;
    type Local = Local;
    type Shared = Slots;
}

impl Pieces for Drp {}

impl Protocol for Drp {
    const DEFERS: bool = true;

    fn local(options: &Options, slots: &Arc<Slots>, worker: usize) -> Local {
        Local {
            options: *options,
            slots: Arc::clone(slots),
            slot: worker,
            reads: ReadSet::default(),
            gaps: GapSet::default(),
            own: Vec::new(),
            queued: Queued::default(),
            last: 0,
            suspender: None,
            early: None,
        }
    }

    #[inline]
    fn begin(local: &mut Local, _: Env<'_>, _: u32) {
        local.reads.clear();
        local.gaps.clear();
        local.own.clear();
        local.queued.clear();
    }

    #[inline(always)]
    fn read<R>(
        local: &mut Local,
        _: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        _: Intent,
        copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        let value = local.reads.read(record, layout, groups, 0, copy)?;
        local.keep_opaque().map(|()| value)
    }

    #[inline(always)]
    fn sight(
        local: &mut Local,
        _: Env<'_>,
        record: RecordRef,
        _: &'static Layout,
        group: usize,
        _: Intent,
    ) -> Result<Sighted, Conflict> {
        if local.options.opaque { Ok(Sighted::Hidden) } else { local.reads.sight(record, group, 0) }
    }

    fn unsight(local: &mut Local) {
        local.reads.unsight();
    }

    #[inline]
    fn exists(local: &mut Local, record: RecordRef) -> bool {
        // What a body is told under opaque reads it reads.
        !local.options.opaque && !stamp::is_absent(stamp_of(&record, 0).load(Ordering::Relaxed))
    }

    #[inline]
    fn observe_gap(local: &mut Local, seen: Seen) {
        local.gaps.push(seen);
    }

    #[inline(always)]
    fn show_gap(local: &mut Local) -> Result<(), Conflict> {
        local.keep_opaque()
    }

    #[inline]
    fn own_insert(local: &mut Local, record: RecordRef, _: &'static Layout, _: usize) -> bool {
        if !local.options.opaque {
            local.own.push(record);
        }
        !local.options.opaque
    }

    fn own_intention(local: &mut Local, record: RecordRef) {
        // The gaps tell no more that there is no row: another transaction may fill the record before this one commits
        // (found by the search: drp/447).
        if !local.gaps.is_empty() && !planted(Mutant::DrpOwnRecordFilledUnseen) {
            local.reads.push_added(record);
        }
    }

    fn own_gap_changed(local: &mut Local, change: Change, sought: bool) {
        local.gaps.follow(change, sought);
    }

    fn init_record(record: RecordRef, layout: &'static Layout, _: &Gap) {
        for group in 0..layout.groups.len() {
            // Relaxed: published by the index's release.
            stamp_of(&record, group).store(stamp::ABSENT, Ordering::Relaxed);
            tail_of(&record, group).store(0, Ordering::Relaxed);
        }
    }

    fn commit(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let writes = commit.writes();
        work(Work::Checks(local.reads.len() + writes.writes().len()));
        if writes.is_empty() {
            // There is nothing of ours to order before the checks; only the reads come first.
            fence(Ordering::Acquire);
            local.certify_unqueued()?;
            return Ok(local.newest_read(env.clock));
        }
        let plan = Plan::default();
        let time = local.decide(env, writes, &plan)?;
        local.hand_over(commit, &plan, time);
        Ok(time)
    }

    fn apply_deferred(
        local: &mut Local,
        env: Env<'_>,
        writes: &WriteSet,
        plan: &mut Plan,
        operators: &mut dyn Operators,
    ) -> Result<bool, Conflict> {
        local.early = match planted(Mutant::DrpDecidedBeforeMade) {
            true => Some(local.decide(env, writes, plan)?),
            false => local.queue(writes, plan).map(|()| None)?,
        };
        if local.options.opaque {
            // Operators see one state, too: what was read, and what is found now that all turns have come.
            for number in 0..local.queued.items.len() {
                local.queued.wait_turn(&local.slots, number, local.suspender.as_ref())?;
            }
            fence(Ordering::SeqCst);
            local.certify(writes, plan)?;
        }
        let (suspender, first) = (local.suspender.as_ref(), writes.writes().len());
        evaluate(&local.queued, &local.slots, suspender, first, plan, operators)
    }

    fn validate_applied(local: &mut Local, writes: &WriteSet, plan: &Plan) -> Result<(), Conflict> {
        if planted(Mutant::DrpAppliedNotValidated) {
            return Ok(());
        }
        fence(Ordering::SeqCst);
        local.certify(writes, plan)
    }

    fn take_made(
        local: &mut Local,
        writes: &WriteSet,
        plan: &Plan,
        insert: &Insert,
        record: RecordRef,
    ) -> Result<(), Conflict> {
        let (layout, row) = (insert.relation.layout, writes.writes().len() + plan.rows().len());
        let last = last_of(layout, Groups(layout.all_groups()));
        // The one by which the row is installed is the last, as in the order of ranks.
        for group in (0..layout.groups.len()).filter(|group| Some(*group) != last).chain(last) {
            let item = Item::new(layout, insert.relation.number(), plan.key_of(insert), record, group, row);
            local.queued.take(&local.slots, item)?;
        }
        Ok(())
    }

    fn commit_deferred(
        local: &mut Local,
        env: Env<'_>,
        commit: &mut Commit<'_>,
        plan: &mut Plan,
        operators: &mut dyn Operators,
    ) -> Result<Option<u64>, Conflict> {
        let writes = commit.writes();
        work(Work::Checks(local.reads.len() + writes.writes().len() + plan.rows().len()));
        if !plan.inserts().is_empty() {
            // Queued and applied.
            let time = match local.early.take() {
                Some(time) => time,
                None => local.decide_now(env, writes, plan, None)?,
            };
            local.hand_over(commit, plan, time);
            return Ok(Some(time));
        }
        let time = local.decide(env, writes, plan)?;
        let (suspender, first) = (local.suspender.as_ref(), writes.writes().len());
        if !evaluate(&local.queued, &local.slots, suspender, first, plan, operators)? {
            return Ok(None);
        }
        local.hand_over(commit, plan, time);
        Ok(Some(time))
    }

    fn validate(local: &mut Local, _: Env<'_>) -> Result<(), Conflict> {
        fence(Ordering::SeqCst);
        // Before the reads, as under Silo.
        local.validate_own()?;
        local.certify_unqueued()
    }

    fn abort(local: &mut Local, _: Env<'_>, _: &WriteSet) {
        local.queued.end(&local.slots, local.suspender.as_ref());
    }

    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        clock: &EpochClock,
        _: &Gap,
        has_no_versions: impl FnOnce() -> bool,
    ) -> Seal {
        // As under Silo: of an epoch gone by.
        let from = clock.commits_from();
        // SeqCst: after the locks; pairs with the look at the stamp after a swap.
        let is_free = |group: usize| tail_of(&record, group).load(Ordering::SeqCst) == 0;
        let may_seal = || {
            model_fence();
            let are_free = (0..layout.groups.len()).all(is_free) || planted(Mutant::DrpSealedOverTail);
            are_free && has_no_versions()
        };
        seal_stamps(record, layout, 2, |stamp| stamp::epoch(stamp) < from, may_seal)
    }

    fn restore(record: RecordRef, group: usize, stamp: u64) {
        // Relaxed: later readers learn of the record by a release.
        stamp_of(&record, group).store(stamp, Ordering::Relaxed);
        tail_of(&record, group).store(0, Ordering::Relaxed);
    }

    fn suspend_by(local: &mut Local, suspender: Option<Suspender>) {
        local.suspender = suspender;
    }
}
