//! Strict two-phase locking on records, with four answers to a conflict, and validated gaps.
//!
//! **Mechanism.** A read takes a shared lock on each column group, an update or write an exclusive one, all
//! held to the end. Writes are deferred as under every protocol, so the exclusive lock only announces them;
//! they are installed at commit, under the lock.
//!
//! **Deadlock.** NO_WAIT aborts on any conflict. WAIT_DIE lets a transaction wait only for younger ones: it
//! waits while its own timestamp is smaller than the smallest among the holders, and the comparison is made
//! again on every pause, so an edge of the wait graph always leads from older to younger and no cycle lasts.
//! A retried transaction keeps its timestamp and grows old. DL_DETECT waits for any holder, and aborts the
//! youngest of each circle of waits (`detect`). Ordered acquisition waits only for locks above all that it
//! holds (`order`).
//!
//! **Phantoms: where we leave textbook 2PL.** Absence is not locked but validated: each gap seen
//! must have its version at commit, when all record locks are still held. That instant is the
//! serialisation point, so the combination is serializable and strict. Next-key locks would make
//! every insert into a scanned leaf wait; validation makes the scanner retry instead. Conformance
//! tests: `phantom_*`.
//!
//! **Repeatable read**, the lower level, locks for the length of a read and compares versions (`repeatable`).
//!
//! The lock word of a group:
//!
//! ```text
//!   63         62      61 .. 51        50 ............ 0
//!   exclusive  absent  readers (11)    smallest timestamp of the holders (51)
//! ```
//!
//! The timestamp is packed into the word so that both change in one step. It may be that of a reader that
//! left; then a requester may die that could have waited. All ones = sealed. A second word holds the stamp of
//! the last writer (`crate::stamp`), which orders versions for logs, snapshots and histories. Its lock bit is
//! set only while data are installed, so that a snapshot's readers, which take no locks, wait for no
//! transaction.

mod acquire;
mod detect;
mod order;
mod repeatable;
mod words;

use self::detect::{Search, Waits};
use self::order::Order;
use self::repeatable::Versions;
use self::words::{ABSENT, EXCLUSIVE, Held, READER, READERS, SEALED, lock_word, stamp_word, timestamp};
use super::gaps::GapSet;
use super::{Env, Intent, Isolation, Pieces, Protocol, Seal, Sighted, State};
use crate::access::{Groups, RecordMap, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Gap, Seen};
use crate::kind::{Locking as Options, Policy};
use crate::mutant::{Mutant, planted};
use crate::record::{ConcurrencyWords, RecordData, RecordRef, data_base};
use crate::stamp;
use crate::sync::{Ordering, Suspender, Work, decided, fence, point, work};
use crate::table::{GroupSet, Layout};
use std::sync::Arc;

/// The protocol. Two words per column group: the lock and the last writer's stamp.
#[derive(Debug)]
pub struct Locking;

/// One worker's attempt.
#[derive(Default)]
pub struct Local {
    policy: Policy,
    records: RecordMap,
    held: Vec<Held>,
    gaps: GapSet,
    timestamp: u64,
    sequence_epoch: u64,
    sequence: u64,
    worker: usize,
    /// The order of locks, where the policy has one.
    order: Order,
    /// The waits-for graph; none in a worker that was never made for a database.
    waits: Option<Arc<Waits>>,
    search: Search,
    /// What was read, at the level of repeatable read.
    versions: Versions,
    /// Lets others run while it waits for a lock.
    suspender: Option<Suspender>,
}

impl Local {
    /// A time of no earlier epoch than anything read. Absence may be as young as the present epoch.
    fn newest_read(&self, epoch: u64) -> u64 {
        if !self.gaps.is_empty() {
            return stamp::floor(epoch);
        }
        let newest = self.versions.newest();
        let stamps = self.held.iter().flat_map(|held| {
            let stamp = |group| stamp_word!(held.record, group).load(Ordering::Relaxed);
            Groups(held.shared | held.exclusive).map(stamp)
        });
        stamps.map(stamp::time).max().unwrap_or(0).max(newest)
    }

    /// Checks that gaps that were seen still have their versions, where the level asks for it.
    #[inline]
    fn validate_gaps(&self, level: Isolation) -> Result<(), Conflict> {
        match level == Isolation::RepeatableRead || planted(Mutant::LockingGapsNotValidated) {
            true => Ok(()),
            false => self.gaps.validate(),
        }
    }

    /// A read that leaves no shared lock behind, and keeps the versions instead.
    fn read_repeatably<R>(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        intent: Intent,
        copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        let highest = self.order.highest();
        self.ensure(record, groups, intent == Intent::Update)?;
        let number = self.held(record);
        self.versions.repeat(number, &self.held[number], layout, groups, true)?;
        let value = copy_locked(record, layout, groups, copy);
        let shared = std::mem::take(&mut self.held[number].shared);
        for group in Groups(shared) {
            // Release: our reads come before the next writer's stores.
            lock_word!(record, group).fetch_sub(READER, Ordering::Release);
        }
        if intent == Intent::Read {
            self.order.back_to(highest);
        }
        Ok(value)
    }

    /// Ends all locks; `absent` decides the state bit of an exclusively locked record.
    fn release_all(&mut self, absent: impl Fn(RecordRef, u64) -> bool) {
        for held in self.held.drain(..) {
            for group in Groups(held.shared) {
                // Release: our reads come before the next writer's stores.
                lock_word!(held.record, group).fetch_sub(READER, Ordering::Release);
            }
            for group in Groups(held.exclusive) {
                let word = lock_word!(held.record, group);
                let old = word.load(Ordering::Relaxed);
                let state = if absent(held.record, old) { ABSENT } else { 0 };
                // Release: publishes the installed data.
                word.store(state, Ordering::Release);
            }
        }
        self.records.clear();
        self.versions.clear();
        if self.policy == Policy::Ordered {
            self.order.clear();
        }
    }
}

/// Reads what is locked; `None` where the row is absent.
#[inline(always)]
fn copy_locked<R>(
    record: RecordRef,
    layout: &'static Layout,
    groups: GroupSet,
    mut copy: impl FnMut(RecordData) -> R,
) -> Option<R> {
    let any = Groups(groups).next().unwrap_or(0);
    let absent = lock_word!(record, any).load(Ordering::Relaxed) & ABSENT != 0;
    (!absent).then(|| copy(RecordData::new(record, data_base::<Locking>(layout))))
}

impl ConcurrencyWords for Locking {
    const GROUP_WORDS: usize = 2;
    const STAMP: usize = 1;
    const NAMES: &'static [&'static str] = &["lock", "stamp"];
}

impl State for Locking {
    type Options = Options;
    type Local = Local;
    type Shared = Waits;
}

impl Pieces for Locking {
    const PIECES: bool = true;
}

impl Protocol for Locking {
    fn local(options: &Options, waits: &Arc<Waits>, worker: usize) -> Local {
        Local { policy: options.policy, worker, waits: Some(Arc::clone(waits)), ..Local::default() }
    }

    fn suspend_by(local: &mut Local, suspender: Option<Suspender>) {
        local.suspender = suspender;
    }

    #[inline]
    fn begin(local: &mut Local, env: Env<'_>, retry: u32) {
        local.gaps.clear();
        if retry == 0 && matches!(local.policy, Policy::WaitDie | Policy::Detect) {
            let epoch = env.clock.now();
            if epoch != local.sequence_epoch {
                (local.sequence_epoch, local.sequence) = (epoch, 0);
            }
            local.sequence += 1;
            local.timestamp = timestamp(epoch, local.sequence, env.worker);
        }
    }

    #[inline(always)]
    fn visit_key(local: &mut Local, relation: usize, key: &[u64]) {
        if local.policy == Policy::Ordered {
            local.order.come_to(relation, key);
        }
    }

    #[inline(always)]
    fn read<R>(
        local: &mut Local,
        env: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        intent: Intent,
        copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        if env.isolation == Isolation::RepeatableRead {
            return local.read_repeatably(record, layout, groups, intent, copy);
        }
        local.ensure(record, groups, intent == Intent::Update)?;
        let value = copy_locked(record, layout, groups, copy);
        if planted(Mutant::LockingReadLockReleasedEarly) && intent == Intent::Read {
            let index = local.held(record);
            let early = std::mem::take(&mut local.held[index].shared);
            Groups(early).for_each(|g| _ = lock_word!(record, g).fetch_sub(READER, Ordering::Release));
        }
        Ok(value)
    }

    #[inline(always)]
    fn sight(
        local: &mut Local,
        env: Env<'_>,
        record: RecordRef,
        _: &'static Layout,
        group: usize,
        intent: Intent,
    ) -> Result<Sighted, Conflict> {
        if env.isolation == Isolation::RepeatableRead || planted(Mutant::LockingReadLockReleasedEarly) {
            return Ok(Sighted::Hidden);
        }
        local.ensure(record, 1 << group, intent == Intent::Update)?;
        if lock_word!(record, group).load(Ordering::Relaxed) & ABSENT != 0 {
            return Ok(Sighted::Absent);
        }
        // Under the lock no other writes it, so this always holds.
        let was = stamp_word!(record, group).load(Ordering::Relaxed);
        Ok(Sighted::At { word: Self::stamp_word(group), was })
    }

    fn unsight(local: &mut Local) {
        unreachable!("what is locked stands, also for {} locks", local.held.len())
    }

    #[inline]
    fn exists(_: &mut Local, record: RecordRef) -> bool {
        lock_word!(record, 0).load(Ordering::Relaxed) & ABSENT == 0
    }

    #[inline]
    fn write(
        local: &mut Local,
        env: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        _: usize,
    ) -> Result<(), Conflict> {
        local.ensure(record, groups, true)?;
        if env.isolation == Isolation::RepeatableRead && !planted(Mutant::LockingUpdateLost) {
            let number = local.held(record);
            local.versions.repeat(number, &local.held[number], layout, groups, false)?;
        }
        Ok(())
    }

    #[inline]
    fn observe_gap(local: &mut Local, seen: Seen) {
        local.gaps.push(seen);
    }

    fn own_gap_changed(local: &mut Local, change: Change, sought: bool) {
        local.gaps.follow(change, sought);
    }

    fn init_record(record: RecordRef, layout: &'static Layout, _: &Gap) {
        for group in 0..layout.groups.len() {
            stamp_word!(record, group).store(stamp::ABSENT, Ordering::Relaxed);
            // Relaxed: published by the index's release.
            lock_word!(record, group).store(ABSENT, Ordering::Relaxed);
        }
    }

    #[inline]
    fn commit(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let writes = commit.writes();
        work(Work::Checks(local.held.len() + writes.writes().len()));
        point("locked");
        // Before the gaps are validated: a transaction that changes one later reads no earlier epoch.
        let epoch = env.commit_epoch();
        local.validate_gaps(env.isolation)?;
        point("validated");
        let mut time = 0;
        if writes.is_empty() {
            time = local.newest_read(epoch);
        } else {
            for write in writes.writes() {
                for group in write.group_numbers() {
                    let absent = lock_word!(write.record, group).load(Ordering::Relaxed) & ABSENT != 0;
                    if absent == write.was_present {
                        // A blind write that saw the row before it had the lock.
                        return Err(Conflict::ReadChanged);
                    }
                    time = time.max(stamp::time(stamp_word!(write.record, group).load(Ordering::Relaxed)));
                }
            }
            time = time.max(stamp::floor(epoch)) + 1;
            if stamp::epoch(time) > epoch {
                return Err(Conflict::EpochFull);
            }
            decided(time);
            for write in writes.writes() {
                point("install");
                for group in write.group_numbers() {
                    let word = stamp_word!(write.record, group);
                    word.store(word.load(Ordering::Relaxed) | stamp::LOCK, Ordering::Relaxed);
                }
                // Pairs with the acquire fence of a snapshot's reader: one that has copied a word stored
                // after it also sees the lock bit, or the new stamp.
                fence(Ordering::Release);
                commit.install::<Self>(write, time);
                for group in write.group_numbers() {
                    // Release: publishes the data to a snapshot's readers.
                    let stamp = stamp::of(time, write.present);
                    stamp_word!(write.record, group).store(stamp, Ordering::Release);
                }
            }
        }
        local.release_all(|record, old| match writes.find(record) {
            Some(index) => !writes.writes()[index].present,
            None => old & ABSENT != 0,
        });
        Ok(time)
    }

    fn validate(local: &mut Local, env: Env<'_>) -> Result<(), Conflict> {
        match env.isolation {
            // Each version was compared when it was read again.
            Isolation::RepeatableRead => Ok(()),
            _ => local.gaps.validate(),
        }
    }

    fn abort(local: &mut Local, _: Env<'_>, _: &WriteSet) {
        local.release_all(|_, old| old & ABSENT != 0);
    }

    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        clock: &EpochClock,
        _: &Gap,
        has_no_versions: impl FnOnce() -> bool,
    ) -> Seal {
        let (word, from) = (|group: usize| lock_word!(record, group), clock.commits_from());
        let release = |groups: usize| (0..groups).for_each(|g| word(g).store(ABSENT, Ordering::Release));
        for group in 0..layout.groups.len() {
            let old = word(group).load(Ordering::Acquire);
            let free = old & (EXCLUSIVE | READERS) == 0 && old & ABSENT != 0;
            let locked = EXCLUSIVE | ABSENT;
            let taken = free
                && word(group).compare_exchange(old, locked, Ordering::Acquire, Ordering::Relaxed).is_ok();
            // Of an epoch gone by, so that the next writer of the row, from a placeholder without a past, has
            // a greater stamp. Looked at under the lock.
            if taken && stamp::epoch(stamp_word!(record, group).load(Ordering::Relaxed)) < from {
                continue;
            }
            release(group + usize::from(taken));
            return if old & ABSENT != 0 { Seal::Busy } else { Seal::Live };
        }
        if !has_no_versions() {
            release(layout.groups.len());
            return Seal::Busy;
        }
        for group in 0..layout.groups.len() {
            stamp_word!(record, group).store(stamp::SEALED, Ordering::Relaxed);
            word(group).store(SEALED, Ordering::Release);
        }
        Seal::Sealed
    }

    fn restore(record: RecordRef, group: usize, stamp: u64) {
        // Relaxed: later readers learn of the record by a release.
        let lock = if stamp::is_absent(stamp) { ABSENT } else { 0 };
        lock_word!(record, group).store(lock, Ordering::Relaxed);
        stamp_word!(record, group).store(stamp, Ordering::Relaxed);
    }
}
