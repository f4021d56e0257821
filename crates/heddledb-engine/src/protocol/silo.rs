//! Optimistic concurrency control with commit by read validation, after Silo.
//!
//! **Mechanism.** Reads copy a record between two equal readings of its stamp and remember the
//! stamp; nothing shared is written. Commit, in four steps:
//!
//! 1. lock every column group that is written (bounded spin, then abort: no waiting cycle lasts);
//! 2. read the epoch; this is the serialisation point;
//! 3. validate: every stamp read still stands and is not locked by another, every gap seen still
//!    has its version;
//! 4. install the data and publish a new stamp, greater than every stamp read or overwritten and
//!    than this worker's last, in the epoch of step 2; the same store unlocks.
//!
//! A record's word, with its transitions (`crate::stamp`):
//!
//! ```text
//! unlocked(stamp) --lock--> locked(stamp) --publish--> unlocked(new stamp)
//!       ^                        |
//!       '---- unlock on abort ---'          absent, unlocked --seal--> sealed, for ever
//! ```
//!
//! **Phantoms.** An insert puts an absent placeholder into the index while it executes and treats
//! it as read and to be written. A reader of absence either sees the placeholder and validates its
//! stamp, or saw the gap before and validates the gap's version.
//!
//! **Calls of procedures** are executed like closures, or as [`Calls`] says.
//!
//! **Times** are computed as in step 4, or drawn from a counter that all share ([`Allocation::Counter`]):
//! TS_ALLOC, the way of conventional timestamp ordering, against which TicToc §6.5 measures. A time is drawn
//! between steps 2 and 3. So times rise along all dependencies, anti-dependencies included: a transaction
//! that overwrites what was validated here has locked it after that, and draws later. The time's epoch may
//! then be later than that of step 2, where another has moved the counter on; that is as if step 2 had come
//! later.
//!
//! **Opaque reads** ([`Options::opaque`]; TL2). An attempt reads the counter when it begins, and reads nothing of a later
//! time. Who draws an earlier one has locked before all that it overwrites, so what is not locked, and of a time that is no
//! later, is what was committed at that moment; an absence too, since what is deleted later stays in its index while this
//! worker is pinned. So a body sees the state of that moment, and conflicts instead of seeing another.
//!
//! Strictly serializable: the serialisation point lies between begin and end of the transaction,
//! and all reads are current there.

use super::gaps::GapSet;
use super::nested::Nested;
use super::reads::{PAUSES, ReadSet, Repeats};
use super::stamps::seal_stamps;
use super::{Arrived, Env, Intent, Isolation, Pieces, Protocol, Seal, Shared, Sighted, State};
use crate::access::WriteSet;
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Gap, Seen};
use crate::kind::{Allocation, Calls, Silo as Options};
use crate::mutant::{Mutant, planted};
use crate::procedure::Plan;
use crate::record::{ConcurrencyWords, RecordData, RecordRef};
use crate::stamp;
use crate::sync::{AtomicU64, Ordering, Wait, Work, decided, fence, point, work};
use crate::table::{GroupSet, Layout};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// The protocol. One word per column group: its stamp.
#[derive(Debug)]
pub struct Silo;

/// The last time that was drawn.
#[derive(Debug)]
pub struct Counter(CachePadded<AtomicU64>);

impl Shared for Counter {
    fn new(_: usize) -> Self {
        Self(CachePadded::new(AtomicU64::new(0)))
    }
}

impl Counter {
    /// A time which every commit that draws later is above.
    #[inline]
    fn moment(&self, epoch: u64) -> u64 {
        // SeqCst: before all that is read, and in one order with `draw`, which follows the locks of its caller.
        let (now, floor) = (self.0.load(Ordering::SeqCst), stamp::floor(epoch));
        if now >= floor { now } else { self.0.fetch_max(floor, Ordering::SeqCst).max(floor) }
    }

    /// Draws a time that no other commit gets, greater than all before, of no earlier epoch than `epoch`.
    #[inline]
    fn draw(&self, epoch: u64) -> u64 {
        let floor = if planted(Mutant::AllocationBelowFloor) { 0 } else { stamp::floor(epoch) };
        // Relaxed: only a hint; the exchange decides.
        if self.0.load(Ordering::Relaxed) < floor {
            // Relaxed: the same word as below, so in one order with it.
            self.0.fetch_max(floor, Ordering::Relaxed);
        }
        // SeqCst: after our locks and before our validation, in one order with those of others.
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// A group that is locked, and its stamp before.
struct Lock {
    record: RecordRef,
    stamp: u64,
    group: u8,
}

/// One worker's attempt.
#[derive(Default)]
pub struct Local {
    reads: ReadSet<Silo>,
    gaps: GapSet,
    repeats: Repeats,
    /// Absent records that this attempt has added. They are not read, since the commit finds them absent under its
    /// locks, or gives up; but a decision rests on their absence too.
    own: Vec<RecordRef>,
    /// Calls are executed like closures.
    whole: bool,
    /// Pauses on a lock before it is given up.
    patience: u32,
    nested: Option<Nested>,
    /// In the order of the write set, groups ascending.
    locks: Vec<Lock>,
    /// The time of this worker's last commit.
    pub(super) last: u64,
    /// Where times are drawn from, unless they are computed.
    counter: Option<Arc<Counter>>,
    /// Of opaque reads: nothing is read of a later time.
    moment: Option<u64>,
    opaque: bool,
    /// A time that was drawn too early, by a planted bug.
    at_begin: Option<u64>,
}

impl Local {
    /// Locks a group, and returns its stamp.
    #[inline(always)]
    pub(super) fn lock(&mut self, record: RecordRef, group: usize, present: bool) -> Result<u64, Conflict> {
        let mut wait = Wait::new();
        loop {
            let word = record.word(group).load(Ordering::Relaxed);
            if stamp::is_locked(word) {
                if word == stamp::SEALED {
                    return Err(Conflict::Reclaimed);
                }
                if wait.rounds() >= self.patience {
                    return Err(Conflict::Locked);
                }
                wait.pause();
                continue;
            }
            if stamp::is_absent(word) == present {
                // A blind write saw the row there, or a placeholder missing, without validating it.
                return Err(Conflict::ReadChanged);
            }
            // Acquire: our stores to the data come after. SeqCst: in one order with the other
            // locks and with the epoch, so that of two transactions which each read what the
            // other writes at least one sees the other's lock.
            let locked = word | stamp::LOCK;
            if record.word(group).compare_exchange(word, locked, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            {
                self.locks.push(Lock { record, stamp: word, group: group as u8 });
                return Ok(word);
            }
        }
    }

    /// What a commit costs besides its accesses.
    #[inline(always)]
    pub(super) fn checks(&self, writes: &WriteSet) -> Work {
        Work::Checks(self.reads.len() + writes.writes().len())
    }

    /// A group was locked by other means, and had that stamp.
    pub(super) fn hold(&mut self, record: RecordRef, group: usize, stamp: u64) {
        self.locks.push(Lock { record, stamp, group: group as u8 });
    }

    /// Forgets the reads from number `first` on, since nobody can change what was read; their latest time, and whether one is
    /// of a place of which no row was ever committed.
    pub(super) fn forget_reads(&mut self, first: usize) -> (u64, bool) {
        let newest = self.reads.newest_from(first);
        let looked = self.reads.groups().skip(first).any(|(_, _, stamp)| stamp::is_placeholder(stamp));
        self.reads.truncate(first);
        (newest, looked)
    }

    /// How many groups were read.
    pub(super) fn reads(&self) -> usize {
        self.reads.len()
    }

    /// Its next time is later than that one.
    pub(super) fn be_after(&mut self, time: u64) {
        self.last = self.last.max(time);
    }

    /// What was locked is not.
    pub(super) fn forget_locks(&mut self) {
        self.locks.clear();
    }

    fn unlock_all(&mut self) {
        for lock in self.locks.drain(..) {
            // Release: nothing was written, but the lock's critical section ends here.
            lock.record.word(lock.group as usize).store(lock.stamp, Ordering::Release);
        }
    }

    /// A time of no earlier epoch than anything read. Absence may be as young as the present epoch.
    fn newest_read(&self, clock: &EpochClock) -> u64 {
        self.reads.not_before(!self.gaps.is_empty(), clock)
    }

    /// That what was read from number `first` on is of no later time than the begin, where reads are opaque.
    #[inline(always)]
    fn check_moment(&self, first: usize) -> Result<(), Conflict> {
        match self.moment {
            Some(moment) if self.reads.newest_from(first) > moment => Err(Conflict::ReadChanged),
            _ => Ok(()),
        }
    }

    /// A time from the counter, if there is one.
    #[inline]
    fn draw(&self, epoch: u64) -> Option<u64> {
        self.counter.as_ref().map(|counter| counter.draw(epoch))
    }

    /// Step 3, as far as the level asks for it. `own` says whether this transaction holds the lock of a
    /// group.
    #[inline(always)]
    fn validate_for(
        &mut self,
        level: Isolation,
        own: impl FnMut(RecordRef, usize) -> bool,
    ) -> Result<(), Conflict> {
        if level == Isolation::RepeatableRead {
            return self.reads.validate_repeats(own, &mut self.repeats);
        }
        self.reads.validate(own)?;
        self.validate_gaps()
    }

    /// As [`Self::validate_for`], with the locks in hand. Returns the latest time that was read, of what is not older
    /// than all that is locked.
    #[inline(always)]
    pub(super) fn validate_locked(&mut self, level: Isolation, writes: &WriteSet) -> Result<u64, Conflict> {
        if level == Isolation::RepeatableRead {
            self.validate_for(level, writes.coverage())?;
            return Ok(self.reads.newest());
        }
        // Rows are mostly locked in the order in which they were read.
        let mut next = 0;
        let held = |record, group, stamp| {
            let lock = self.locks.get(next);
            let is_next = lock.is_some_and(|lock| {
                lock.record == record && usize::from(lock.group) == group && lock.stamp == stamp
            });
            next += usize::from(is_next);
            is_next
        };
        let newest = self.reads.validate_holding(held, writes.coverage())?;
        self.validate_gaps()?;
        Ok(newest)
    }

    /// Steps 1 to 4. A function of its own, so that transactions that only read do without its stack.
    #[inline(never)]
    fn commit_writes(&mut self, env: &Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let writes = commit.writes();
        let early = planted(Mutant::SiloEpochBeforeLocks).then(|| env.commit_epoch());
        let at_begin = if planted(Mutant::AllocationAtBegin) { self.at_begin } else { None };
        let announced = env.announce_commit();
        let mut newest_write = 0;
        if !planted(Mutant::SiloWritesNotLocked) {
            for write in writes.writes() {
                for group in write.group_numbers() {
                    let stamp = self.lock(write.record, group, write.was_present)?;
                    newest_write = newest_write.max(stamp::time(stamp));
                }
            }
        }
        point("locked");
        let epoch = early.unwrap_or_else(|| match self.locks.is_empty() {
            true => env.commit_epoch(),
            false => env.announced_epoch(announced),
        });
        let drawn = at_begin.or_else(|| self.draw(epoch));
        let newest_read = self.validate_locked(env.isolation, writes)?;

        point("validated");
        if let Some(time) = drawn {
            return self.install(time, env.clock.now(), commit);
        }
        self.install_after(newest_read.max(newest_write), epoch, env, commit)
    }

    /// Step 4, with all locks held, at a time that is later than `newest`, of an epoch that was read before.
    #[inline(always)]
    pub(super) fn install_after(
        &mut self,
        newest: u64,
        epoch: u64,
        env: &Env<'_>,
        commit: &mut Commit<'_>,
    ) -> Result<u64, Conflict> {
        let time = newest.max(self.last).max(env.after).max(stamp::floor(epoch)) + 1;
        self.install(time, epoch, commit)
    }

    /// Step 4, at that time, unless it is of a later epoch than `latest`.
    #[inline(always)]
    fn install(&mut self, time: u64, latest: u64, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        if stamp::epoch(time) > latest {
            return Err(Conflict::EpochFull);
        }
        debug_assert!(cfg!(feature = "mutants") || time > self.last, "a worker's times fall");
        self.last = time;
        decided(time);

        // Release fence, then relaxed data stores: a reader that copied one of them also finds the
        // lock bit or a newer stamp when it checks (pairs with the acquire fence in `read`).
        fence(Ordering::Release);
        for write in commit.writes().writes() {
            let word = stamp::of(time, write.present);
            if planted(Mutant::SiloUnlockedBeforeInstall) {
                write.group_numbers().for_each(|g| write.record.word(g).store(word, Ordering::Release));
                crate::sync::yield_now();
            }
            point("install");
            commit.install::<Silo>(write, time);
            for group in write.group_numbers() {
                // Release: publishes the data to readers of this stamp (Acquire).
                write.record.word(group).store(word, Ordering::Release);
            }
        }
        self.locks.clear();
        Ok(time)
    }

    /// That no other transaction has filled what this one has added.
    fn validate_own(&self) -> Result<(), Conflict> {
        let is_free = |record: &RecordRef| {
            let stamp = record.word(0).load(Ordering::SeqCst);
            stamp::is_absent(stamp) && !stamp::is_locked(stamp)
        };
        if self.own.iter().all(is_free) { Ok(()) } else { Err(Conflict::ReadChanged) }
    }

    fn validate_gaps(&self) -> Result<(), Conflict> {
        if planted(Mutant::SiloGapsNotValidated) { Ok(()) } else { self.gaps.validate() }
    }
}

impl ConcurrencyWords for Silo {
    const GROUP_WORDS: usize = 1;
    const NAMES: &'static [&'static str] = &["stamp"];
}

impl State for Silo {
    type Options = Options;
    type Local = Local;
    type Shared = Counter;
}

impl Pieces for Silo {
    const PIECES: bool = true;

    fn call(local: &mut Local, plan: &Arc<Plan>, of_type: usize) -> bool {
        if let Some(nested) = &mut local.nested {
            nested.call(plan.of_type(of_type));
        }
        local.nested.is_some()
    }

    fn enter_piece(local: &mut Local, _: &mut WriteSet, site: u16) -> Result<Arrived, Conflict> {
        let another_piece = match &mut local.nested {
            Some(nested) => nested.enter_piece(site, &local.reads, &local.gaps)?,
            None => false,
        };
        Ok(Arrived { another_piece, remembered: true })
    }

    fn finish(local: &mut Local, _: &mut WriteSet) -> Result<(), Conflict> {
        local.nested.as_ref().map_or(Ok(()), |nested| nested.end_piece(&local.reads, &local.gaps))
    }

    fn retry_piece(local: &mut Local, _: Conflict) -> bool {
        local.nested.as_mut().is_some_and(|nested| nested.retry_piece(&mut local.reads, &mut local.gaps))
    }
}

impl Protocol for Silo {
    fn local(options: &Options, counter: &Arc<Counter>, _: usize) -> Local {
        let nested = (options.calls == Calls::Nested).then(Nested::default);
        let counter = (options.allocation == Allocation::Counter).then(|| Arc::clone(counter));
        assert!(counter.is_some() || !options.opaque, "opaque reads need times from the counter");
        let (whole, opaque) = (options.calls == Calls::Whole, options.opaque);
        // Calls that are told of each other meet at a lock only where both add to what it is of. What they do takes longer than a
        // pause, so it is worth waiting for several of them.
        let told = matches!(options.calls, Calls::Graph | Calls::Batched(_));
        let patience = if told { 8 * PAUSES } else { PAUSES };
        Local { nested, counter, whole, opaque, patience, ..Local::default() }
    }

    #[inline]
    fn begin(local: &mut Local, env: Env<'_>, _: u32) {
        if planted(Mutant::AllocationAtBegin) {
            local.at_begin = local.draw(env.clock.now());
        }
        if local.opaque && !planted(Mutant::SiloReadsNotOpaque) {
            local.moment = local.counter.as_ref().map(|counter| counter.moment(env.clock.now()));
        }
        local.reads.clear();
        local.gaps.clear();
        local.own.clear();
        local.locks.clear();
        if let Some(nested) = &mut local.nested {
            nested.begin();
        }
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
        let first = local.reads.len();
        let value = local.reads.read(record, layout, groups, 0, copy)?;
        local.check_moment(first).map(|()| value)
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
        let first = local.reads.len();
        let sighted = local.reads.sight(record, group, 0)?;
        local.check_moment(first).map(|()| sighted)
    }

    fn unsight(local: &mut Local) {
        local.reads.unsight();
    }

    #[inline]
    fn exists(local: &mut Local, record: RecordRef) -> bool {
        // What a body is told under opaque reads it reads.
        !local.opaque && !stamp::is_absent(record.word(0).load(Ordering::Relaxed))
    }

    #[inline]
    fn observe_gap(local: &mut Local, seen: Seen) {
        local.gaps.push(seen);
    }

    #[inline]
    fn own_insert(local: &mut Local, record: RecordRef, _: &'static Layout, _: usize) -> bool {
        // What commits in parts, or is executed again in parts, reads what it has added.
        let is_known = local.whole && !local.opaque;
        if is_known {
            local.own.push(record);
        }
        is_known
    }

    fn own_gap_changed(local: &mut Local, change: Change, sought: bool) {
        local.gaps.follow(change, sought);
    }

    fn init_record(record: RecordRef, layout: &'static Layout, _: &Gap) {
        for group in 0..layout.groups.len() {
            // Relaxed: published by the index's release.
            record.word(group).store(stamp::ABSENT, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn commit(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        work(local.checks(commit.writes()));
        if !commit.writes().is_empty() {
            return local.commit_writes(&env, commit);
        }
        let drawn = local.draw(env.clock.now());
        // There is no lock of ours to order before the validation; only the reads come first.
        fence(Ordering::Acquire);
        local.validate_for(env.isolation, |_, _| false)?;
        Ok(drawn.unwrap_or_else(|| local.newest_read(env.clock)))
    }

    fn validate(local: &mut Local, env: Env<'_>) -> Result<(), Conflict> {
        fence(Ordering::SeqCst);
        // Before the reads: what is free here, and what is still as it was read after that, was so at this moment. The
        // other way round a row could be filled and deleted again in between (found by the search: silo/8652).
        let outcome = local.validate_own().and_then(|()| local.validate_for(env.isolation, |_, _| false));
        if let (Err(_), Some(nested)) = (&outcome, &mut local.nested) {
            nested.failed(&local.reads, &local.gaps);
        }
        outcome
    }

    fn abort(local: &mut Local, _: Env<'_>, _: &WriteSet) {
        local.unlock_all();
    }

    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        clock: &EpochClock,
        _: &Gap,
        has_no_versions: impl FnOnce() -> bool,
    ) -> Seal {
        // Of an epoch gone by, so that the next writer of the row, from a placeholder without a past, has a
        // greater stamp.
        let from = clock.commits_from();
        seal_stamps(record, layout, 1, |stamp| stamp::epoch(stamp) < from, has_no_versions)
    }

    fn restore(record: RecordRef, group: usize, stamp: u64) {
        // Relaxed: later readers learn of the record by a release.
        record.word(group).store(stamp, Ordering::Relaxed);
    }
}
