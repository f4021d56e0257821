//! TicToc: optimistic concurrency control whose commit time is computed from the data.
//!
//! **Mechanism** (TicToc §3). Each version of a column group is valid from the logical time at
//! which it was written, `wts`, to at least `rts`. A transaction may commit at any time that lies
//! within the intervals of all versions that it read and after the `rts` of all versions that it
//! overwrites; it looks for the smallest. Where a read version's `rts` is too low, it is extended,
//! provided that the version is still the current one. Transactions that a commit order by physical
//! time would abort can so be ordered into the past.
//!
//! Two words per group, not the packed word of §3.6 (PITFALLS TT4-TT6): `tid` = lock, absent, wts
//! (`crate::stamp`) and `rts`.
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
//! **Phantoms** (TT8, TT9). Absence has a read time as well: each index gap's stamp word is one.
//! Whoever saw a gap raises its stamp to the commit time and then checks its version; whoever puts
//! a placeholder into a gap changes its version and then, under the latch, makes the gap's stamp the
//! placeholder's `rts`. The same two-variable story holds. A placeholder or deleted record met by a
//! reader is read like any other, absent.
//!
//! **Epoch floor** (TT7, TT10). A transaction that writes commits no earlier than the floor of the
//! epoch read after its locks. A deleted record is unlinked only three epochs after its deletion,
//! so whoever misses it then, reads nothing that is overwritten below the deletion's time.
//!
//! Serializable, not strictly: a transaction may be ordered before one that had finished when it
//! began (TT3).

use super::reads::GapSet;
use super::silo::seal_stamps;
use super::{Env, Intent, Protocol, Seal};
use crate::access::{Groups, Write, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Gap, Seen};
use crate::mutant::{Mutant, planted};
use crate::record::{ConcurrencyWords, RecordData, RecordRef, data_base};
use crate::stamp;
use crate::sync::{AtomicU64, Ordering, Wait, Work, decided, fence, point, spin, work};
use crate::table::{GroupSet, Layout};
use std::sync::Arc;

/// The protocol. Two words per column group: `tid` and `rts`.
#[derive(Debug)]
pub struct TicToc;

/// The optimisations of TicToc §5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// §5.1: when a write lock is taken, release all and restart the validation phase, instead of
    /// waiting for it in key order.
    pub no_wait: bool,
    /// §5.2: abort before locking when an approximate commit time shows that a read cannot be
    /// validated.
    pub preemptive_abort: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { no_wait: true, preemptive_abort: true }
    }
}

/// A group that was read: its version, and how far it was known to be valid.
struct Read {
    record: RecordRef,
    tid: u64,
    rts: u64,
    group: u8,
}

struct Lock {
    record: RecordRef,
    tid: u64,
    group: u8,
}

/// One worker's attempt.
#[derive(Default)]
pub struct Local {
    options: Options,
    reads: Vec<Read>,
    gaps: GapSet,
    locks: Vec<Lock>,
    /// The write set's numbers in key order, for the waiting variant.
    order: Vec<u32>,
}

/// Pauses on a locked record that is to be read (TT13: bounded, then abort).
const READ_PAUSES: u32 = 10;
/// Restarts of the validation phase under no-wait before the attempt gives up (TT15).
const RESTARTS: u32 = 8;
/// Spin hints between restarts, about the microsecond of §5.1.
const RESTART_SPINS: u64 = 32;

/// The `tid` word of a group.
macro_rules! tid {
    ($record:expr, $group:expr) => {
        $record.word(2 * $group as usize)
    };
}

/// The `rts` word of a group.
macro_rules! rts {
    ($record:expr, $group:expr) => {
        $record.word(2 * $group as usize + 1)
    };
}

/// The version of a group when it is not locked (Alg. 4, bounded).
#[inline(always)]
fn unlocked_tid(record: RecordRef, group: usize) -> Result<u64, Conflict> {
    // Acquire: pairs with the installing store of the version that we are about to copy.
    let tid = tid!(record, group).load(Ordering::Acquire);
    if stamp::is_locked(tid) { wait_unlocked(tid!(record, group)) } else { Ok(tid) }
}

/// Waits for the committing writer that holds the lock; bounded, so it is in no cycle.
#[cold]
fn wait_unlocked(word: &AtomicU64) -> Result<u64, Conflict> {
    let mut wait = Wait::new();
    loop {
        let tid = word.load(Ordering::Acquire);
        if !stamp::is_locked(tid) {
            return Ok(tid);
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

impl Local {
    /// Tries to lock one group once; `Ok(false)` if another holds it.
    #[inline]
    fn try_lock(&mut self, record: RecordRef, group: usize, present: bool) -> Result<bool, Conflict> {
        let tid = tid!(record, group).load(Ordering::Relaxed);
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
        // SeqCst: before the load of rts in `commit_time`; see the module header.
        let locked = tid | stamp::LOCK;
        let taken =
            tid!(record, group).compare_exchange(tid, locked, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if taken {
            self.locks.push(Lock { record, tid, group: group as u8 });
        }
        Ok(taken)
    }

    fn unlock_all(&mut self) {
        for lock in self.locks.drain(..) {
            tid!(lock.record, lock.group).store(lock.tid, Ordering::Release);
        }
    }

    /// Locks the write set without waiting: `Ok(false)`, and nothing held, if a lock is taken.
    fn lock_no_wait(&mut self, writes: &WriteSet) -> Result<bool, Conflict> {
        for write in writes.writes() {
            for group in write.group_numbers() {
                if !self.try_lock(write.record, group, write.was_present)? {
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
                while !self.try_lock(write.record, group, write.was_present)? {
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
            if self.options.preemptive_abort {
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
                time = time.max(rts!(write.record, group).load(Ordering::Relaxed) + 1);
            }
        }
        let hopeless = |read: &Read| {
            read.rts < time
                && tid!(read.record, read.group).load(Ordering::Relaxed) & !stamp::LOCK != read.tid
        };
        if self.reads.iter().any(hopeless) { Err(Conflict::Preempted) } else { Ok(()) }
    }

    /// Alg. 2, second step: the smallest time that the read and locked versions and the epoch allow.
    fn commit_time(&self, env: Env<'_>, writes: &WriteSet) -> u64 {
        let mut time = 0;
        for read in &self.reads {
            time = time.max(stamp::time(read.tid));
        }
        if !writes.is_empty() {
            time = time.max(stamp::floor(env.commit_epoch()));
        }
        for lock in &self.locks {
            // SeqCst, after the lock: sees every extension that did not see the lock.
            let rts = rts!(lock.record, lock.group).load(Ordering::SeqCst);
            time = time.max(if planted(Mutant::TicTocWriteAtReadTime) { rts } else { rts + 1 });
        }
        time
    }

    /// Alg. 2, third step, and the gaps: every version read is valid at `time`, or is extended.
    fn validate_at(&self, time: u64, writes: &WriteSet) -> Result<(), Conflict> {
        for read in self.reads.iter().filter(|read| read.rts < time) {
            let (tid_word, rts_word) = (tid!(read.record, read.group), rts!(read.record, read.group));
            let own = writes.covers(read.record, read.group as usize);
            let mut rts = rts_word.load(Ordering::SeqCst);
            if !own && rts < time && !planted(Mutant::TicTocReadTimeNotRaised) {
                // TT14: never on a version that we are about to replace.
                rts = rts_word.fetch_max(time, Ordering::SeqCst);
            }
            let tid = tid_word.load(Ordering::SeqCst);
            if tid & !stamp::LOCK != read.tid && !planted(Mutant::TicTocVersionNotCompared) {
                return Err(Conflict::ReadChanged);
            }
            // The paper lets a foreign lock pass where rts has reached `time` by now (TT1). Here that proves
            // nothing: with two words, an extension that fails because of this very lock has raised rts all
            // the same, after the locker took its commit time from it. Only the rts that was read with the
            // unlocked version counts, and the filter above has let that pass.
            let safe = planted(Mutant::TicTocForeignLockIgnored)
                || (rts > time && planted(Mutant::TicTocFailedRaiseTrusted))
                || (rts >= time && planted(Mutant::TicTocSafeAtEqual));
            if stamp::is_locked(tid) && !own && !safe {
                return Err(Conflict::Locked);
            }
        }
        for gap in self.gaps.gaps() {
            if gap.stamp().load(Ordering::Relaxed) < time && !planted(Mutant::TicTocGapStampIgnored) {
                // SeqCst, before the version is checked; pairs with `place` under the latch.
                gap.stamp().fetch_max(time, Ordering::SeqCst);
            }
        }
        if planted(Mutant::TicTocGapsNotValidated) { Ok(()) } else { self.gaps.validate() }
    }
}

impl ConcurrencyWords for TicToc {
    const GROUP_WORDS: usize = 2;
    const NAMES: &'static [&'static str] = &["stamp", "rts"];

    #[inline(always)]
    fn stamp_word(group: usize) -> usize {
        2 * group
    }
}

impl Protocol for TicToc {
    const NAME: &'static str = "tictoc";
    const STRICT: bool = false;
    const SESSIONS_MAX: usize = 1024;
    type Options = Options;
    type Local = Local;
    type Shared = ();

    fn local(options: &Options, _: &Arc<()>, _: usize) -> Local {
        Local { options: *options, ..Local::default() }
    }

    #[inline]
    fn begin(local: &mut Local, _: Env<'_>, _: u32) {
        local.reads.clear();
        local.gaps.clear();
        local.locks.clear();
    }

    #[inline(always)]
    fn read<R>(
        local: &mut Local,
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
                let tid = unlocked_tid(record, group)?;
                absent |= stamp::is_absent(tid);
                // Between two equal readings of tid, so it belongs to that version; a later
                // extension only makes it an understatement (TT13).
                let rts = rts!(record, group).load(Ordering::Acquire);
                local.reads.push(Read { record, tid, rts, group: group as u8 });
            }
            let value = (!absent).then(|| copy(RecordData::new(record, data_base::<Self>(layout))));
            // Acquire fence, then relaxed loads: pairs with the release fence in `commit`.
            fence(Ordering::Acquire);
            if local.reads[start..].iter().all(|r| tid!(record, r.group).load(Ordering::Relaxed) == r.tid) {
                return Ok(value);
            }
            local.reads.truncate(start);
        }
    }

    #[inline]
    fn peek(_: &mut Local, record: RecordRef) -> bool {
        !stamp::is_absent(tid!(record, 0).load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn write(
        _: &mut Local,
        _: Env<'_>,
        _: RecordRef,
        _: &'static Layout,
        _: GroupSet,
        _: usize,
    ) -> Result<(), Conflict> {
        Ok(())
    }

    #[inline]
    fn seen(local: &mut Local, seen: Seen) {
        local.gaps.push(seen);
    }

    fn changed(local: &mut Local, change: Change) {
        local.gaps.follow(change);
    }

    fn place(record: RecordRef, layout: &'static Layout, gap: &Gap) {
        // SeqCst, after the latch changed the gap's version: sees the stamp of every reader of the
        // gap that did not see the change. The placeholder is absent since before that time, so
        // whoever fills it commits after it.
        let seen_until =
            if planted(Mutant::TicTocGapStampIgnored) { 0 } else { gap.stamp().load(Ordering::SeqCst) };
        for group in 0..layout.groups.len() {
            rts!(record, group).store(seen_until, Ordering::Relaxed);
            tid!(record, group).store(stamp::ABSENT, Ordering::Relaxed);
        }
    }

    #[inline]
    fn commit(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let writes = commit.writes();
        work(Work::Checks(local.reads.len() + writes.writes().len()));
        local.lock_writes(env, writes)?;
        point("locked");
        let time = local.commit_time(env, writes);
        local.validate_at(time, writes)?;
        point("validated");
        if !writes.is_empty() {
            decided(time);
        }

        // Release fence, then relaxed data stores; pairs with the acquire fence in `read`.
        fence(Ordering::Release);
        for write in writes.writes() {
            point("install");
            commit.install::<Self>(write, time);
            for group in write.group_numbers() {
                // TT16: rts first, so that no one sees a version whose rts lies below its wts.
                rts!(write.record, group).store(time, Ordering::SeqCst);
                point("between rts and tid");
                tid!(write.record, group).store(stamp::of(time, write.present), Ordering::Release);
            }
        }
        local.locks.clear();
        if writes.is_empty() && !local.gaps.is_empty() {
            // For who waits until all that was read is durable: absence may be as young as this epoch.
            return Ok(time.max(stamp::floor(env.clock.now())));
        }
        Ok(time)
    }

    fn validate(local: &mut Local, env: Env<'_>) -> Result<(), Conflict> {
        let nothing = WriteSet::default();
        let time = local.commit_time(env, &nothing);
        local.validate_at(time, &nothing)
    }

    fn abort(local: &mut Local, _: Env<'_>, _: &WriteSet) {
        local.unlock_all();
    }

    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        clock: &EpochClock,
        gap: &Gap,
        spare: impl FnOnce() -> bool,
    ) -> Seal {
        let now = clock.now();
        let sealed = seal_stamps(record, layout, 2, |tid| stamp::epoch(tid) + 3 <= now, spare);
        if sealed == Seal::Sealed {
            // TT10: what was known absent until some time stays so for whoever comes to the gap.
            let known = (0..layout.groups.len()).map(|group| rts!(record, group).load(Ordering::SeqCst));
            gap.stamp().fetch_max(known.max().unwrap_or(0), Ordering::SeqCst);
        }
        sealed
    }

    fn restore(record: RecordRef, group: usize, stamp: u64) {
        // Relaxed: whoever looks later was told of the record by a release.
        rts!(record, group).store(stamp::time(stamp), Ordering::Relaxed);
        tid!(record, group).store(stamp, Ordering::Relaxed);
    }
}
