//! TicToc: optimistic concurrency control whose commit time is computed from the data.
//!
//! **Mechanism** (TicToc §3). Each version of a column group is valid from the logical time at which it was
//! written, `wts`, to at least `rts`. A transaction may commit at any time that lies within the intervals of
//! all versions that it read and after the `rts` of all versions that it overwrites; it looks for the
//! smallest. Where a read version's `rts` is too low, it is extended, provided that the version is still the
//! current one. So transactions that a commit order by physical time would abort can be ordered into the
//! past.
//!
//! Two words per group: `tid` = lock, absent, wts (`crate::stamp`) and `rts`. The packed word of §3.6 is
//! another layout ([`Packed`]), as is one with the history of §5.3 ([`WithHistory`]).
//!
//! ```text
//! unlocked(wts) --lock--> locked(wts) --install--> rts := commit_ts; tid := unlocked(commit_ts)
//!   |                        '------ unlock on abort
//!   '-- extend: rts := max(rts, commit_ts), then tid must still be (wts, not locked by another)
//! ```
//!
//! **Why extension is sound** (TT5). An extender raises `rts` and then reads `tid`; a writer locks
//! `tid` and then reads `rts`; all four are SeqCst. Either the extender sees the lock, and gives up
//! unless `rts` was high enough when the version was read, or the writer sees the extension and commits
//! after it. An `rts` found high under a foreign lock proves nothing: a failed extension raises it as well.
//! `rts` never decreases while a version stands (TT2): it is changed only by `fetch_max`, and by the
//! installing writer to a commit time above it.
//!
//! **Phantoms** (TT8, TT9). Absence has a read time as well: each index gap's stamp word is one. A
//! transaction that saw a gap raises the gap's stamp to its commit time and then checks the gap's version;
//! one that puts a placeholder into a gap changes the gap's version and then, under the latch, makes the
//! gap's stamp the placeholder's `rts`. This is sound by the two-variable argument above. A placeholder or
//! deleted record met by a reader is read like any other, absent.
//!
//! **Epoch floor** (TT7, TT10). A transaction that writes commits no earlier than the floor of the epoch read
//! after its locks. A deleted record is unlinked only three epochs after its deletion, so a transaction that
//! misses it then reads nothing that is overwritten below the deletion's time. The floor is also what §3.7
//! asks of parallel logging: an epoch is a batch, written to several files at once, its times lie above all
//! of the batch before, and it is durable as a whole. This needs no coordination: the epoch's number is in
//! the high bits of a time. Tests: crashes (`heddledb_check::crash`), which cut several files at any point.
//!
//! Serializable, not strictly: a transaction may be ordered before one that had finished when it began (TT3).
//! With [`Options::strict`] every read must also be current at the commit, as under Silo; then the order is
//! one of real time.
//!
//! **Opaque reads** ([`Options::opaque`], TT12). All that an attempt has read so far is valid at one time:
//! where a read shows a later one, the earlier reads are extended to it, or the attempt ends before its body
//! sees the value. So no body runs on a state that never was.
//!
//! **History** (§5.3). A read version that has been overwritten may still have been valid at the commit time.
//! With a third word, the tid of the version before, this can be checked: the version read must be that one,
//! and the present one must begin after the commit time (TT11).
//!
//! **Lower levels** (§5.4; [`Isolation`]). *Snapshot*: two commit times. All reads are valid at the one, and
//! what is overwritten existed by then; the writes take effect at the other. *Repeatable read*: no read is
//! validated, but what is written or was read twice must be as it was read.

mod packed;
mod times;

pub use packed::Packed;
pub use times::{Times, TwoWords, WithHistory};

use super::gaps::GapSet;
use super::reads::Repeats;
use super::{Env, Intent, Isolation, Pieces, Protocol, Seal, Sighted, State};
use crate::access::{Groups, Write, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Gap, Seen};
use crate::kind::TicToc as Options;
use crate::mutant::{Mutant, planted};
use crate::record::{ConcurrencyWords, RecordData, RecordRef, data_base};
use crate::stamp;
use crate::sync::{Ordering, Wait, Work, decided, fence, point, spin, work};
use crate::table::{GroupSet, Layout};
use std::marker::PhantomData;
use std::sync::Arc;
use times::Place;

/// The protocol, with its times in a layout `T`.
#[derive(Debug)]
pub struct TicToc<T = TwoWords>(PhantomData<T>);

/// A group that was read: its version, and how far it was known to be valid.
struct Read {
    at: Place,
    tid: u64,
    rts: u64,
}

struct Lock {
    at: Place,
    tid: u64,
}

/// One worker's attempt.
pub struct Local<T> {
    options: Options,
    reads: Vec<Read>,
    gaps: GapSet,
    locks: Vec<Lock>,
    /// The write set's numbers in key order, for the waiting variant.
    order: Vec<u32>,
    repeats: Repeats,
    /// Of opaque reads: a time at which all of them are valid.
    valid_at: u64,
    layout: PhantomData<fn() -> T>,
}

/// Pauses on a locked record that is to be read (TT13: bounded, then abort).
const READ_PAUSES: u32 = 10;
/// Restarts of the validation phase under no-wait before the attempt gives up (TT15).
const RESTARTS: u32 = 8;
/// Spin hints between restarts, about the microsecond of §5.1.
const RESTART_SPINS: u64 = 32;

/// Waits for the committing writer that holds the lock; bounded, so it is in no cycle.
#[cold]
fn wait_unlocked<T: Times>(at: Place) -> Result<(u64, u64), Conflict> {
    let mut wait = Wait::new();
    loop {
        let (tid, rts) = T::look(at);
        if !stamp::is_locked(tid) {
            return Ok((tid, rts));
        }
        if tid == stamp::SEALED {
            return Err(Conflict::Reclaimed);
        }
        if wait.rounds() >= READ_PAUSES {
            return Err(Conflict::Locked);
        }
        wait.pause();
    }
}

impl<T: Times> Local<T> {
    /// Tries to lock one group once; `Ok(false)` if another holds it.
    #[inline]
    fn try_lock(&mut self, at: Place, present: bool) -> Result<bool, Conflict> {
        let tid = T::tid(at);
        if tid == stamp::SEALED {
            return Err(Conflict::Reclaimed);
        }
        if stamp::is_locked(tid) {
            return Ok(false);
        }
        if stamp::is_absent(tid) == present {
            // A blind write saw the row there without validating it.
            return Err(Conflict::ReadChanged);
        }
        let taken = T::lock(at, tid);
        if taken {
            self.locks.push(Lock { at, tid });
        }
        Ok(taken)
    }

    fn unlock_all(&mut self) {
        for lock in self.locks.drain(..) {
            T::unlock(lock.at, lock.tid);
        }
    }

    /// Locks the write set without waiting: `Ok(false)`, and nothing held, if a lock is taken.
    fn lock_no_wait(&mut self, writes: &WriteSet) -> Result<bool, Conflict> {
        for write in writes.writes() {
            for group in write.group_numbers() {
                if !self.try_lock(Place::new(write.record, group), write.was_present)? {
                    self.unlock_all();
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Locks the write set in the order of (relation, key), waiting for each holder. No cycle: all
    /// committing transactions lock in that order, and hold locks only while committing (X10: keys,
    /// not addresses).
    fn lock_sorted(&mut self, writes: &WriteSet) -> Result<(), Conflict> {
        let all = writes.writes();
        self.order.clear();
        self.order.extend(0..all.len() as u32);
        let rank = |write: &Write| (write.relation, write.key_words);
        self.order.sort_unstable_by(|a, b| {
            let (a, b) = (&all[*a as usize], &all[*b as usize]);
            rank(a).cmp(&rank(b)).then_with(|| writes.key(a).cmp(writes.key(b)))
        });
        for index in 0..self.order.len() {
            let write = &all[self.order[index] as usize];
            for group in write.group_numbers() {
                let mut wait = Wait::new();
                while !self.try_lock(Place::new(write.record, group), write.was_present)? {
                    wait.pause();
                }
            }
        }
        Ok(())
    }

    /// The locking part of the validation phase.
    fn lock_writes(&mut self, env: Env<'_>, writes: &WriteSet) -> Result<(), Conflict> {
        if writes.is_empty() {
            return Ok(());
        }
        for _ in 0..RESTARTS {
            if self.options.preemptive_abort && env.isolation == Isolation::Serializable {
                self.preempt(env, writes)?;
            }
            if !self.options.no_wait {
                return self.lock_sorted(writes);
            }
            if self.lock_no_wait(writes)? {
                return Ok(());
            }
            spin(RESTART_SPINS);
            crate::sync::model_yield();
        }
        Err(Conflict::Locked)
    }

    /// §5.2: an approximate commit time, never above the real one, that already rules out a read.
    fn preempt(&self, env: Env<'_>, writes: &WriteSet) -> Result<(), Conflict> {
        let mut time = stamp::floor(env.clock.now());
        for read in &self.reads {
            time = time.max(stamp::time(read.tid));
        }
        for write in writes.writes() {
            for group in write.group_numbers() {
                time = time.max(T::rts(Place::new(write.record, group)) + 1);
            }
        }
        let hopeless = |read: &Read| {
            let tid = T::tid(read.at) & !stamp::LOCK;
            read.rts < time && tid != read.tid && !self.was_valid(read, tid, time)
        };
        if self.reads.iter().any(hopeless) { Err(Conflict::Preempted) } else { Ok(()) }
    }

    /// The latest `wts` of what was read.
    fn newest_read(&self) -> u64 {
        self.reads.iter().map(|read| stamp::time(read.tid)).max().unwrap_or(0)
    }

    /// Alg. 2, second step: the smallest time that the read and locked versions and the epoch allow.
    fn commit_time(&self, env: Env<'_>, announced: Option<u64>) -> u64 {
        let mut time = self.newest_read();
        if let Some(announced) = announced {
            // Each write has locked something.
            time = time.max(stamp::floor(env.announced_epoch(announced)));
        }
        for lock in &self.locks {
            // After the lock: sees every extension that did not see the lock.
            let rts = T::rts(lock.at);
            time = time.max(if planted(Mutant::TicTocWriteAtReadTime) { rts } else { rts + 1 });
        }
        time
    }

    /// §5.4: the smallest time at which what was read, and what is overwritten, was there.
    fn snapshot_time(&self) -> u64 {
        if planted(Mutant::TicTocSnapshotOverwrites) {
            return self.newest_read();
        }
        self.locks.iter().fold(self.newest_read(), |time, lock| time.max(stamp::time(lock.tid)))
    }

    /// What the level of the transaction asks for, if it commits at `time`.
    #[inline(always)]
    fn validate_for(&mut self, level: Isolation, time: u64, writes: &WriteSet) -> Result<(), Conflict> {
        match level {
            Isolation::Serializable => self.validate_at(time, writes),
            Isolation::Snapshot => self.validate_at(self.snapshot_time(), writes),
            Isolation::RepeatableRead => self.validate_repeats(writes),
        }
    }

    /// Alg. 2, third step, and the gaps: every version read is valid at `time`, or is extended.
    fn validate_at(&self, time: u64, writes: &WriteSet) -> Result<(), Conflict> {
        let mut own = writes.coverage();
        for (number, read) in self.reads.iter().enumerate() {
            if read.rts < time || self.options.strict {
                self.validate_read(number, time, own(read.at.record, read.at.group as usize))?;
            }
        }
        self.validate_gaps(time)
    }

    /// The third step for one read; `own` says whether this transaction has locked the group.
    #[inline(always)]
    fn validate_read(&self, number: usize, time: u64, own: bool) -> Result<(), Conflict> {
        let read = &self.reads[number];
        // TT14: never on a version that we are about to replace.
        let extends = !own && read.rts < time && !planted(Mutant::TicTocReadTimeNotRaised);
        let (tid, rts) = match extends {
            true => T::extend(read.at, read.tid, time),
            false => T::found(read.at),
        };
        if tid & !stamp::LOCK != read.tid && !planted(Mutant::TicTocVersionNotCompared) {
            let was_valid = !self.options.strict && self.was_valid(read, tid & !stamp::LOCK, time);
            let valid = was_valid || (T::EXTENSION_MAY_MOVE && self.moved_by_us(number));
            return if valid { Ok(()) } else { Err(Conflict::ReadChanged) };
        }
        // The paper lets a foreign lock pass where rts has reached `time` by now (TT1). Where an extension
        // raises rts and looks at the lock only then, that proves nothing: one that fails because of this
        // very lock has raised rts all the same, after the locker took its commit time from it. Only the rts
        // that was read with the unlocked version counts, and `validate_at` has let that pass.
        let safe = (T::FAILED_EXTENSION_IS_NONE && rts >= time && !self.options.strict)
            || planted(Mutant::TicTocForeignLockIgnored)
            || (rts > time && planted(Mutant::TicTocFailedRaiseTrusted))
            || (rts >= time && planted(Mutant::TicTocSafeAtEqual));
        if stamp::is_locked(tid) && !own && !safe {
            return Err(Conflict::Locked);
        }
        Ok(())
    }

    /// §5.3: whether the version read is the one before that of `tid`, and was valid at `time` (TT11).
    #[inline(always)]
    fn was_valid(&self, read: &Read, tid: u64, time: u64) -> bool {
        let Some(before) = T::predecessor(read.at, tid) else { return false };
        let is_that = before == read.tid || planted(Mutant::TicTocHistoryNotCompared);
        is_that && time < stamp::time(tid)
    }

    /// TT4: whether an earlier read of the same version stands, whose extension has given it another `wts`.
    #[cold]
    fn moved_by_us(&self, number: usize) -> bool {
        let Read { at, tid, .. } = self.reads[number];
        self.reads[..number].iter().any(|read| (read.at, read.tid) == (at, tid))
    }

    /// Whether what was absent is so at `time`.
    fn validate_gaps(&self, time: u64) -> Result<(), Conflict> {
        for gap in self.gaps.gaps() {
            if gap.stamp().load(Ordering::Relaxed) < time && !planted(Mutant::TicTocGapStampIgnored) {
                // SeqCst, before the version is checked; pairs with `init_record` under the latch.
                gap.stamp().fetch_max(time, Ordering::SeqCst);
            }
        }
        if planted(Mutant::TicTocGapsNotValidated) { Ok(()) } else { self.gaps.validate() }
    }

    /// What repeatable read promises: what is written was not written by another since it was read, and what
    /// was read twice was equal both times.
    fn validate_repeats(&mut self, writes: &WriteSet) -> Result<(), Conflict> {
        for read in self.reads.iter().filter(|read| writes.covers(read.at.record, read.at.group as usize)) {
            let same = T::tid(read.at) & !stamp::LOCK == read.tid;
            if !same && !planted(Mutant::TicTocUpdateLost) {
                return Err(Conflict::ReadChanged);
            }
        }
        self.repeats.check(self.reads.iter().map(|read| (read.at.record, read.at.group, read.tid)))
    }

    /// TT12: makes all reads valid at one time, those from number `first` on being new.
    #[inline(never)]
    fn keep_opaque(&mut self, first: usize) -> Result<(), Conflict> {
        let newest = self.reads[first..].iter().map(|read| stamp::time(read.tid)).max().unwrap_or(0);
        let time = self.valid_at.max(newest);
        // The new reads may not have been valid at the time of the others, nor the others at theirs.
        let from = if time > self.valid_at { 0 } else { first };
        if !planted(Mutant::TicTocReadsNotOpaque) {
            for number in from..self.reads.len() {
                if self.reads[number].rts < time {
                    self.validate_read(number, time, false)?;
                    self.reads[number].rts = time;
                }
            }
            self.validate_gaps(time)?;
        }
        self.valid_at = time;
        Ok(())
    }
}

impl<T: Times> ConcurrencyWords for TicToc<T> {
    const GROUP_WORDS: usize = T::WORDS;
    const NAMES: &'static [&'static str] = T::NAMES;
}

impl<T: Times> State for TicToc<T> {
    type Options = Options;
    type Local = Local<T>;
    type Shared = ();
}

impl<T: Times> Pieces for TicToc<T> {}

impl<T: Times> Protocol for TicToc<T> {
    fn local(options: &Options, _: &Arc<()>, _: usize) -> Local<T> {
        Local {
            options: *options,
            reads: Vec::new(),
            gaps: GapSet::default(),
            locks: Vec::new(),
            order: Vec::new(),
            repeats: Repeats::default(),
            valid_at: 0,
            layout: PhantomData,
        }
    }

    #[inline]
    fn begin(local: &mut Local<T>, _: Env<'_>, _: u32) {
        local.reads.clear();
        local.gaps.clear();
        local.locks.clear();
        local.valid_at = 0;
    }

    #[inline(always)]
    fn read<R>(
        local: &mut Local<T>,
        _: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        _: Intent,
        mut copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        let start = local.reads.len();
        loop {
            let mut absent = false;
            for group in Groups(groups) {
                let at = Place::new(record, group);
                let (mut tid, mut rts) = T::look(at);
                if stamp::is_locked(tid) {
                    (tid, rts) = wait_unlocked::<T>(at)?;
                }
                absent |= stamp::is_absent(tid);
                local.reads.push(Read { at, tid, rts });
            }
            let value = (!absent).then(|| copy(RecordData::new(record, data_base::<Self>(layout))));
            // Acquire fence, then relaxed loads: pairs with the release fence in `commit`.
            fence(Ordering::Acquire);
            if local.reads[start..].iter().all(|read| T::tid(read.at) == read.tid) {
                if local.options.opaque {
                    local.keep_opaque(start)?;
                }
                return Ok(value);
            }
            local.reads.truncate(start);
        }
    }

    #[inline(always)]
    fn sight(
        local: &mut Local<T>,
        _: Env<'_>,
        record: RecordRef,
        _: &'static Layout,
        group: usize,
        _: Intent,
    ) -> Result<Sighted, Conflict> {
        if !T::TID_IS_A_WORD || local.options.opaque {
            return Ok(Sighted::Hidden);
        }
        let at = Place::new(record, group);
        let (mut tid, mut rts) = T::look(at);
        if stamp::is_locked(tid) {
            (tid, rts) = wait_unlocked::<T>(at)?;
        }
        if stamp::is_absent(tid) {
            // Of an absent row nothing is copied, so no later check would find whether `rts` belongs to it.
            fence(Ordering::Acquire);
            if T::tid(at) != tid {
                return Ok(Sighted::Hidden);
            }
            local.reads.push(Read { at, tid, rts });
            return Ok(Sighted::Absent);
        }
        local.reads.push(Read { at, tid, rts });
        Ok(Sighted::At { word: T::WORDS * group, was: tid })
    }

    fn unsight(local: &mut Local<T>) {
        local.reads.pop();
    }

    #[inline]
    fn exists(_: &mut Local<T>, record: RecordRef) -> bool {
        !stamp::is_absent(T::tid(Place::new(record, 0)))
    }

    #[inline]
    fn observe_gap(local: &mut Local<T>, seen: Seen) {
        local.gaps.push(seen);
    }

    fn own_gap_changed(local: &mut Local<T>, change: Change, sought: bool) {
        local.gaps.follow(change, sought);
    }

    fn init_record(record: RecordRef, layout: &'static Layout, gap: &Gap) {
        // SeqCst, after the latch changed the gap's version: sees the stamp of every reader of the gap that
        // did not see the change. The placeholder has been absent since before that time, so a transaction
        // that fills it commits after it.
        let seen_until =
            if planted(Mutant::TicTocGapStampIgnored) { 0 } else { gap.stamp().load(Ordering::SeqCst) };
        for group in 0..layout.groups.len() {
            T::reset(Place::new(record, group), stamp::ABSENT, seen_until);
        }
    }

    #[inline]
    fn commit(local: &mut Local<T>, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let writes = commit.writes();
        work(Work::Checks(local.reads.len() + writes.writes().len()));
        let announced = (!writes.is_empty()).then(|| env.announce_commit());
        local.lock_writes(env, writes)?;
        point("locked");
        let time = local.commit_time(env, announced);
        if !T::holds(time) {
            return Err(Conflict::EpochFull);
        }
        local.validate_for(env.isolation, time, writes)?;
        point("validated");
        if !writes.is_empty() {
            decided(time);
        }

        // Release fence, then relaxed data stores; pairs with the acquire fence in `read`.
        fence(Ordering::Release);
        for write in writes.writes() {
            point("install");
            write.group_numbers().for_each(|group| T::will_install(Place::new(write.record, group)));
            commit.install::<Self>(write, time);
            for group in write.group_numbers() {
                T::install(Place::new(write.record, group), time, write.present);
            }
        }
        local.locks.clear();
        let is_placeholder = |read: &Read| stamp::is_placeholder(read.tid);
        if writes.is_empty() && (!local.gaps.is_empty() || local.reads.iter().any(is_placeholder)) {
            // For a caller that waits until all that was read is durable: absence may be as young as this
            // epoch.
            return Ok(time.max(stamp::floor(env.clock.now())));
        }
        Ok(time)
    }

    fn validate(local: &mut Local<T>, env: Env<'_>) -> Result<(), Conflict> {
        let nothing = WriteSet::default();
        let time = local.commit_time(env, None);
        local.validate_for(env.isolation, time, &nothing)
    }

    fn abort(local: &mut Local<T>, _: Env<'_>, _: &WriteSet) {
        local.unlock_all();
    }

    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        clock: &EpochClock,
        gap: &Gap,
        has_no_versions: impl FnOnce() -> bool,
    ) -> Seal {
        let now = clock.reclaim_epoch();
        let sealed = T::seal(record, layout, |tid| stamp::epoch(tid) + 3 <= now, has_no_versions);
        if sealed == Seal::Sealed {
            // TT10: what was known absent until some time stays so for later readers of the gap.
            let known = (0..layout.groups.len()).map(|group| T::rts(Place::new(record, group)));
            gap.stamp().fetch_max(known.max().unwrap_or(0), Ordering::SeqCst);
        }
        sealed
    }

    fn restore(record: RecordRef, group: usize, stamp: u64) {
        T::reset(Place::new(record, group), stamp, stamp::time(stamp));
    }
}
