//! DTA: optimistic concurrency control that adjusts the place of a transaction in the serial order until it
//! commits.
//!
//! **Mechanism** (Boksenbaum et al., 1987; Lee and Son, Lam et al. for real-time systems; TicToc §2.2 and
//! appendix). A timestamp belongs to a transaction and is the last thing that it gets. Until then it has an
//! *interval* of them, which each conflict with one that has committed since it began narrows:
//!
//! | the other has | so this one comes | bound |
//! |---|---|---|
//! | committed before this one began | after it | low, at the beginning |
//! | written what this one has read, before that | after it | low |
//! | written what this one has read, since then | before it | high |
//! | read or written what this one writes | after it | low |
//! | looked for what this one inserts, maybe | after it: after all so far | low |
//!
//! If the interval is not empty, a time in it is chosen, and the transaction commits, though what it has read
//! may have been overwritten long since. Otherwise it aborts. Times are chosen with room between them
//! (`ROOM`): above all so far where nothing bounds it from above, in the middle where something does. Else a
//! transaction that has to come before another would find no time free.
//!
//! **The critical section.** To know all conflicts, a transaction must know what those that committed since
//! its begin have read and written. The records do not tell: they have the stamp of their last writer and
//! know no readers. So a *history* of the last commits is kept. A committing transaction takes the history's
//! lock, computes its interval, installs, and enters itself. All commits go one by one. That is the
//! original's design and its limit (TicToc's appendix: not beyond twenty cores), built here to be measured,
//! not to be fast.
//!
//! **Where we leave the originals.** There a validating transaction shrinks the intervals of those that run,
//! for which these must tell what they read as they read it. Here each transaction shrinks its own interval,
//! at its commit, from the history. The intervals are equal; the price is that a hopeless transaction learns
//! late that it is, the gain that reads share nothing. The history has a fixed length. A transaction that has
//! been running for longer than the history reaches back comes after all so far, and commits if its reads
//! still stand.
//!
//! **Phantoms.** Gaps that were seen must have their versions at the commit, and a transaction that fills an
//! absent record comes after all so far, so after every one that has seen the absence.
//!
//! A record's word is a stamp as under Silo (`crate::stamp`), locked while its data are installed. Only two
//! lock it: the holder of the history's lock, and reclamation, which either unlocks at once or never.
//!
//! Strictly serializable: everything committed before the beginning is below the interval. A reader waits for
//! an install, for a bounded time; a committer waits for the critical section, in which nobody waits for a
//! transaction.

use super::gaps::GapSet;
use super::reads::ReadSet;
use super::stamps::seal_stamps;
use super::{Env, Intent, Pieces, Protocol, Seal, Shared, Sighted, State};
use crate::access::{Groups, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Gap, Seen};
use crate::mutant::{Mutant, planted};
use crate::record::{ConcurrencyWords, RecordData, RecordRef};
use crate::stamp;
use crate::sync::{AtomicU64, Mutex, Ordering, Wait, Work, decided, fence, lock, point, work};
use crate::table::{GroupSet, Layout};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// The protocol. One word per column group: its stamp.
#[derive(Debug)]
pub struct Dta;

/// Between the times of two commits that nothing else bounds.
const ROOM: u64 = 64;
/// Commits that are remembered.
const REMEMBERED: usize = 1024;

/// A column group that a committed transaction has accessed.
#[derive(Clone, Copy, Debug)]
struct Accessed {
    record: RecordRef,
    group: u8,
}

/// What is remembered of a commit.
#[derive(Debug, Default)]
struct Committed {
    time: u64,
    reads: Vec<Accessed>,
    writes: Vec<Accessed>,
}

/// The last commits, in the order in which they were made.
#[derive(Debug, Default)]
struct History {
    /// How many commits there were.
    commits: u64,
    /// A ring: commit number n is at n modulo its length.
    ring: Vec<Committed>,
    /// The greatest time.
    last: u64,
}

/// What all workers share.
#[derive(Debug)]
pub struct Validation {
    /// Held while a transaction validates and installs.
    history: Mutex<History>,
    /// Copies for transactions that begin, written under the lock. `last` before `commits`.
    begun: CachePadded<Beginning>,
}

#[derive(Debug)]
struct Beginning {
    last: AtomicU64,
    commits: AtomicU64,
}

impl Shared for Validation {
    fn new(_: usize) -> Self {
        let begun = Beginning { last: AtomicU64::new(0), commits: AtomicU64::new(0) };
        Self { history: Mutex::new(History::default()), begun: CachePadded::new(begun) }
    }
}

impl History {
    /// The commits from number `from` on; `None` if not all are remembered.
    fn since(&self, from: u64) -> Option<impl Iterator<Item = &Committed>> {
        let known = self.ring.len() as u64;
        // A ring that is not full has all.
        (self.commits - from <= known)
            .then(|| (from..self.commits).map(|n| &self.ring[n as usize % REMEMBERED]))
    }

    /// The entry of the next commit, empty.
    fn next(&mut self) -> &mut Committed {
        let at = self.commits as usize % REMEMBERED;
        if self.ring.len() < REMEMBERED {
            self.ring.push(Committed::default());
        }
        self.commits += 1;
        let entry = &mut self.ring[at];
        entry.reads.clear();
        entry.writes.clear();
        entry
    }
}

struct Lock {
    record: RecordRef,
    stamp: u64,
    group: u8,
}

/// The times at which a transaction may commit.
#[derive(Debug)]
struct Interval {
    low: u64,
    /// Excluded; `u64::MAX` where nothing bounds it.
    high: u64,
}

/// A worker's state.
pub struct Local {
    validation: Arc<Validation>,
    attempt: Attempt,
}

/// One worker's attempt.
#[derive(Default)]
struct Attempt {
    reads: ReadSet<Dta>,
    gaps: GapSet,
    locks: Vec<Lock>,
    /// How many had committed when it began, and the greatest of their times.
    since: u64,
    low: u64,
}

impl Attempt {
    /// Locks a group that is to be written. Only reclamation may hold it, and it lets go without the critical
    /// section.
    fn lock(&mut self, record: RecordRef, group: usize, present: bool) -> Result<(), Conflict> {
        let word = record.word(group);
        let mut wait = Wait::new();
        loop {
            let old = word.load(Ordering::Relaxed);
            if old == stamp::SEALED {
                return Err(Conflict::Reclaimed);
            }
            if stamp::is_locked(old) {
                wait.pause();
                continue;
            }
            if stamp::is_absent(old) == present {
                // A blind write saw the row there, or a placeholder missing, without validating it.
                return Err(Conflict::ReadChanged);
            }
            // SeqCst: before the epoch is read, as under Silo.
            if word.compare_exchange(old, old | stamp::LOCK, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                self.locks.push(Lock { record, stamp: old, group: group as u8 });
                return Ok(());
            }
        }
    }

    fn unlock_all(&mut self) {
        for lock in self.locks.drain(..) {
            // Release: nothing was written, but the lock's critical section ends here.
            lock.record.word(lock.group as usize).store(lock.stamp, Ordering::Release);
        }
    }

    /// The times from `floor` on that the conflicts with committed transactions leave.
    fn interval(&self, history: &History, writes: &WriteSet, floor: u64) -> Result<Interval, Conflict> {
        let mut interval = Interval { low: floor.max(self.low), high: u64::MAX };
        let since = history.since(self.since);
        if since.is_none() || writes.writes().iter().any(|write| !write.was_present) {
            interval.low = interval.low.max(history.last);
        }
        if planted(Mutant::DtaInsertNotAfterAll) {
            interval.low = floor.max(self.low);
        }
        for lock in &self.locks {
            interval.low = interval.low.max(stamp::time(lock.stamp));
        }
        for (record, group, read) in self.reads.groups() {
            if !planted(Mutant::DtaReadVersionIgnored) {
                interval.low = interval.low.max(stamp::time(read));
            }
            // Relaxed: writers hold the lock that we hold; what reclamation seals stays sealed.
            let now = record.word(group).load(Ordering::Relaxed);
            if now & !stamp::LOCK == read && (now == read || writes.covers(record, group)) {
                continue;
            }
            // The commit that replaced the version that was read: the first one after it.
            let is_it = |by: &&Committed| {
                by.time > stamp::time(read)
                    && by.writes.iter().any(|w| w.record == record && usize::from(w.group) == group)
            };
            let by = history.since(self.since).and_then(|mut since| since.find(is_it));
            let by = by.ok_or(Conflict::ReadChanged)?;
            if !planted(Mutant::DtaOverwriterIgnored) {
                interval.high = interval.high.min(by.time);
            }
        }
        if let Some(since) = since.filter(|_| !writes.is_empty() && !planted(Mutant::DtaReadersIgnored)) {
            for other in since {
                work(Work::Checks(other.reads.len()));
                let met = |a: &Accessed| writes.covers(a.record, a.group.into());
                if other.reads.iter().any(met) {
                    interval.low = interval.low.max(other.time);
                }
            }
        }
        Ok(interval)
    }

    /// Validates and installs, while no other transaction does.
    fn commit_alone(
        &mut self,
        env: Env<'_>,
        commit: &mut Commit<'_>,
        history: &History,
    ) -> Result<u64, Conflict> {
        let writes = commit.writes();
        for write in writes.writes() {
            for group in write.group_numbers() {
                self.lock(write.record, group, write.was_present)?;
            }
        }
        point("locked");
        // A transaction that changes a gap that we have seen reads no earlier epoch, as under Silo.
        let epoch = env.commit_epoch();
        let floor = if writes.is_empty() { 0 } else { stamp::floor(epoch) };
        if !planted(Mutant::DtaGapsNotValidated) {
            self.gaps.validate()?;
        }
        let time = self.interval(history, writes, floor)?.choose(epoch)?;
        point("validated");
        if !writes.is_empty() {
            decided(time);
        }
        // Release fence, then relaxed data stores; pairs with the acquire fence of a read.
        fence(Ordering::Release);
        for write in writes.writes() {
            point("install");
            commit.install::<Dta>(write, time);
            for group in write.group_numbers() {
                // Release: publishes the data to readers of this stamp (Acquire).
                write.record.word(group).store(stamp::of(time, write.present), Ordering::Release);
            }
        }
        self.locks.clear();
        Ok(time)
    }

    /// Enters a commit into the history, and publishes it to transactions that begin.
    fn remember(&self, history: &mut History, begun: &Beginning, writes: &WriteSet, time: u64) {
        history.last = history.last.max(time);
        let entry = history.next();
        entry.time = time;
        let accessed = |record, group| Accessed { record, group: group as u8 };
        entry.reads.extend(self.reads.groups().map(|(record, group, _)| accessed(record, group)));
        for write in writes.writes() {
            entry.writes.extend(Groups(write.groups).map(|group| accessed(write.record, group)));
        }
        // Relaxed, then release: see `begin`.
        begun.last.store(history.last, Ordering::Relaxed);
        begun.commits.store(history.commits, Ordering::Release);
    }
}

impl Interval {
    /// A time between the bounds, of an epoch up to `epoch`.
    fn choose(&self, epoch: u64) -> Result<u64, Conflict> {
        let end = stamp::floor(epoch + 1);
        let room = match self.high {
            u64::MAX => ROOM.min(end.saturating_sub(self.low) / 2),
            high => high.saturating_sub(self.low) / 2,
        };
        let time = self.low + room.max(1);
        if time >= self.high {
            return Err(Conflict::ReadChanged);
        }
        if time >= end { Err(Conflict::EpochFull) } else { Ok(time) }
    }
}

impl ConcurrencyWords for Dta {
    const GROUP_WORDS: usize = 1;
    const NAMES: &'static [&'static str] = &["stamp"];
}

impl State for Dta {
    type Options = crate::kind::Dta;
    type Local = Local;
    type Shared = Validation;
}

impl Pieces for Dta {}

impl Protocol for Dta {
    fn local(_: &crate::kind::Dta, validation: &Arc<Validation>, _: usize) -> Local {
        Local { validation: Arc::clone(validation), attempt: Attempt::default() }
    }

    #[inline]
    fn begin(local: &mut Local, _: Env<'_>, _: u32) {
        let Local { validation, attempt } = local;
        attempt.reads.clear();
        attempt.gaps.clear();
        attempt.locks.clear();
        // Acquire: then `last` is at least the time of each of them.
        attempt.since = validation.begun.commits.load(Ordering::Acquire);
        attempt.low = validation.begun.last.load(Ordering::Relaxed);
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
        local.attempt.reads.read(record, layout, groups, 0, copy)
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
        local.attempt.reads.sight(record, group, 0)
    }

    fn unsight(local: &mut Local) {
        local.attempt.reads.unsight();
    }

    #[inline]
    fn exists(_: &mut Local, record: RecordRef) -> bool {
        !stamp::is_absent(record.word(0).load(Ordering::Relaxed))
    }

    #[inline]
    fn observe_gap(local: &mut Local, seen: Seen) {
        local.attempt.gaps.push(seen);
    }

    fn own_gap_changed(local: &mut Local, change: Change, sought: bool) {
        local.attempt.gaps.follow(change, sought);
    }

    fn init_record(record: RecordRef, layout: &'static Layout, _: &Gap) {
        for group in 0..layout.groups.len() {
            // Relaxed: published by the index's release.
            record.word(group).store(stamp::ABSENT, Ordering::Relaxed);
        }
    }

    fn commit(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let (Local { validation, attempt }, writes) = (local, commit.writes());
        work(Work::Checks(attempt.reads.len() + writes.writes().len()));
        let mut history = lock(&validation.history);
        let outcome = attempt.commit_alone(env, commit, &history);
        match outcome {
            Ok(time) => attempt.remember(&mut history, &validation.begun, writes, time),
            // Unlocked here, so that the next committer finds nothing locked.
            Err(_) => attempt.unlock_all(),
        }
        drop(history);
        let time = outcome?;
        match writes.is_empty() && !attempt.gaps.is_empty() {
            // For a caller that waits until all that was read is durable: absence may be as young as this
            // epoch.
            true => Ok(time.max(stamp::floor(env.clock.now()))),
            false => Ok(time),
        }
    }

    fn validate(local: &mut Local, _: Env<'_>) -> Result<(), Conflict> {
        // Stricter than need be: all reads must be current, so a decision may conflict too often.
        fence(Ordering::SeqCst);
        local.attempt.reads.validate(|_, _| false)?;
        local.attempt.gaps.validate()
    }

    fn abort(local: &mut Local, _: Env<'_>, _: &WriteSet) {
        local.attempt.unlock_all();
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
