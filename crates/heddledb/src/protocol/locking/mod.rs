//! Strict two-phase locking on records, with four answers to a conflict, and validated gaps.
//!
//! **Mechanism.** A read takes a shared lock on each column group, an update or write an exclusive
//! one, all held to the end. Writes are deferred like everywhere else, so the exclusive lock only
//! announces them; they are installed at commit, under the lock.
//!
//! **Deadlock.** NO_WAIT aborts on any conflict. WAIT_DIE lets a transaction wait only for younger
//! ones: it waits while its own timestamp is smaller than the smallest among the holders, and the
//! comparison is made again on every pause, so an edge of the wait graph always leads from older to
//! younger and no cycle lasts. A retried transaction keeps its timestamp and grows old. DL_DETECT waits
//! for whomever, and aborts the youngest of each circle of waits (`detect`). Ordered acquisition waits
//! only for locks above all that it holds (`order`).
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
//! The timestamp is packed into the word so that both change in one step. It may be that of a reader
//! who left; that only makes a requester die that could have waited. All ones = sealed. A second
//! word holds the stamp of the last writer (`crate::stamp`), which orders versions for logs, snapshots
//! and histories. Its lock bit is set only while data are installed, so that a snapshot's readers, who
//! take no locks, wait for no transaction.

/// The lock word of a group.
macro_rules! lock_word {
    ($record:expr, $group:expr) => {
        $record.word(2 * $group)
    };
}

/// The stamp word of a group.
macro_rules! stamp_word {
    ($record:expr, $group:expr) => {
        $record.word(2 * $group + 1)
    };
}
use {lock_word, stamp_word};

mod detect;
mod order;
mod repeatable;

use self::detect::{Search, Waits, Wanted};
use self::order::Order;
use self::repeatable::Versions;
use super::reads::GapSet;
use super::{Env, Execution, Intent, Isolation, Protocol, Seal};
use crate::access::{Groups, RecordMap, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Gap, Seen};
use crate::mutant::{Mutant, planted};
use crate::record::{ConcurrencyWords, RecordData, RecordRef, data_base};
use crate::stamp;
use crate::sync::{Ordering, Suspender, Wait, Work, decided, fence, point, wait_until, work};
use crate::table::{GroupSet, Layout};
use std::sync::Arc;

/// The protocol. Two words per column group: the lock and the last writer's stamp.
#[derive(Debug)]
pub struct Locking;

/// What happens on a lock conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Abort at once.
    #[default]
    NoWait,
    /// Wait for younger holders, abort for older ones.
    WaitDie,
    /// Wait; the youngest of a circle of waits aborts.
    Detect,
    /// Wait for a lock above all that are held, in the order of relations and keys; abort for others.
    Ordered,
}

/// Settings of two-phase locking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// What happens on a lock conflict.
    pub policy: Policy,
    /// Each piece of a call locks and commits on its own: transaction chopping. See [`Execution::Chopped`].
    pub chopped: bool,
}

impl Options {
    /// Settings with `policy`.
    pub const fn with_policy(policy: Policy) -> Self {
        Self { policy, chopped: false }
    }

    /// The same, with calls chopped.
    #[must_use]
    pub const fn chopped(self) -> Self {
        Self { chopped: true, ..self }
    }
}

const EXCLUSIVE: u64 = 1 << 63;
const ABSENT: u64 = 1 << 62;
const READER: u64 = 1 << 51;
const READERS: u64 = ((1 << 11) - 1) << 51;
const TIMESTAMP: u64 = READER - 1;
const SEALED: u64 = u64::MAX;

/// Timestamps: epoch (31 bits), sequence within the epoch (10, saturating), worker (10). Unique
/// among live transactions because the worker is, roughly in order of first start.
fn timestamp(epoch: u64, sequence: u64, worker: usize) -> u64 {
    ((epoch << 20) | (sequence.min(1023) << 10) | worker as u64) & TIMESTAMP
}

/// The worker in a timestamp.
fn worker_of(timestamp: u64) -> usize {
    (timestamp & 1023) as usize
}

/// The locks that an attempt holds on one record.
#[derive(Clone, Copy, Debug)]
struct Held {
    record: RecordRef,
    shared: GroupSet,
    exclusive: GroupSet,
}

/// A lock that is about to be taken.
#[derive(Clone, Copy)]
struct Want {
    record: RecordRef,
    group: usize,
    exclusive: bool,
    /// From our own shared lock.
    upgrade: bool,
}

impl Want {
    /// Whether it can be taken as the lock's word is.
    #[inline(always)]
    fn is_free(self, word: u64) -> bool {
        let own = if self.upgrade { READER } else { 0 };
        word & EXCLUSIVE == 0 && (!self.exclusive || word & READERS == own)
    }

    /// Whether it is worth another try.
    fn looks_free(self) -> bool {
        // Relaxed: whoever takes it orders.
        let word = lock_word!(self.record, self.group).load(Ordering::Relaxed);
        self.is_free(word) || word == SEALED
    }
}

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
    /// Where the policy has one.
    order: Order,
    /// Who waits for whom; none in a worker that was never made for a database.
    waits: Option<Arc<Waits>>,
    search: Search,
    /// What was read, at the level of repeatable read.
    versions: Versions,
    /// Lets others run while it waits for a lock.
    suspender: Option<Suspender>,
}

impl Local {
    /// The entry for a record's locks.
    #[inline]
    fn held(&mut self, record: RecordRef) -> usize {
        self.records.get(record).unwrap_or_else(|| {
            self.held.push(Held { record, shared: 0, exclusive: 0 });
            if self.policy == Policy::Ordered {
                self.order.push();
            }
            self.records.put(record, self.held.len() - 1);
            self.held.len() - 1
        })
    }

    /// Decides about a lock word that conflicts: `Ok` to look again, after a pause or a wait.
    fn conflict(&mut self, want: Want, word: u64, wait: &mut Wait) -> Result<(), Conflict> {
        if word == SEALED {
            return Err(Conflict::Reclaimed);
        }
        match self.policy {
            Policy::NoWait if want.upgrade => Err(Conflict::Upgrade),
            Policy::NoWait => Err(Conflict::Locked),
            // An upgrader is itself among the holders, so equality means that it is the oldest.
            Policy::WaitDie
                if self.timestamp < word & TIMESTAMP
                    || (want.upgrade && self.timestamp == word & TIMESTAMP) =>
            {
                wait.pause();
                Ok(())
            }
            Policy::WaitDie => Err(Conflict::Died),
            Policy::Detect => self.wait_in_graph(want),
            Policy::Ordered => self.wait_upwards(want),
        }
    }

    /// Waits until a lock looks free or this is the victim of a deadlock: then somebody in the circle has marked it,
    /// so of a circle one at least does not wait for ever. See [`detect`].
    #[cold]
    fn wait_in_graph(&mut self, want: Want) -> Result<(), Conflict> {
        let Some(waits) = &self.waits else { return Err(Conflict::Locked) };
        let Want { record, group, exclusive, .. } = want;
        waits.begin(self.worker, self.timestamp, Wanted { record, group, exclusive }, &self.held);
        waits.search(self.worker, &mut self.search);
        wait_until(self.suspender.as_ref(), || want.looks_free() || waits.is_victim(self.worker));
        match waits.end(self.worker) && !planted(Mutant::DetectVictimGoesOn) {
            true => Err(Conflict::Deadlock),
            false => Ok(()),
        }
    }

    /// Waits until a lock looks free, if it is above all that are held: so the waits of others for what is held
    /// end after this one, and none is part of a circle. See [`order`].
    #[cold]
    fn wait_upwards(&mut self, want: Want) -> Result<(), Conflict> {
        let upwards =
            self.records.get(want.record).is_some_and(|number| self.order.is_upwards(number, want.group));
        if want.upgrade && !planted(Mutant::OrderIgnored) {
            return Err(Conflict::Upgrade);
        }
        if !upwards {
            return Err(Conflict::Locked);
        }
        wait_until(self.suspender.as_ref(), || want.looks_free());
        Ok(())
    }

    #[inline]
    fn lock_shared(&mut self, record: RecordRef, group: usize) -> Result<(), Conflict> {
        let word = lock_word!(record, group);
        let mut wait = Wait::new();
        loop {
            let old = word.load(Ordering::Relaxed);
            if old & EXCLUSIVE != 0 {
                if planted(Mutant::LockingSharedDespiteWriter) && old != SEALED {
                    return Ok(());
                }
                self.conflict(Want { record, group, exclusive: false, upgrade: false }, old, &mut wait)?;
                continue;
            }
            let smallest = match old & READERS {
                0 => self.timestamp,
                _ => self.timestamp.min(old & TIMESTAMP),
            };
            let new = ((old & (ABSENT | READERS)) + READER) | smallest;
            // Acquire: pairs with the release of the last exclusive holder.
            if word.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Ok(());
            }
        }
    }

    /// Takes an exclusive lock, from nothing or (`upgrade`) from our own shared lock.
    #[inline]
    fn lock_exclusive(&mut self, record: RecordRef, group: usize, upgrade: bool) -> Result<(), Conflict> {
        let word = lock_word!(record, group);
        let want = Want { record, group, exclusive: true, upgrade };
        let mut wait = Wait::new();
        loop {
            let old = word.load(Ordering::Relaxed);
            if !want.is_free(old) {
                self.conflict(want, old, &mut wait)?;
                continue;
            }
            let new = EXCLUSIVE | (old & ABSENT) | self.timestamp;
            // Acquire: pairs with the release of earlier holders.
            if word.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Ok(());
            }
        }
    }

    /// Ensures locks on `groups` of a record, exclusive ones for updates.
    #[inline]
    fn ensure(&mut self, record: RecordRef, groups: GroupSet, exclusive: bool) -> Result<(), Conflict> {
        let index = self.held(record);
        for group in Groups(groups) {
            let (bit, held) = (1 << group, self.held[index]);
            let word = lock_word!(record, group);
            if held.exclusive & bit != 0 || (!exclusive && held.shared & bit != 0) {
                continue;
            }
            if !exclusive {
                self.lock_shared(record, group)?;
                if !(planted(Mutant::LockingSharedDespiteWriter)
                    && word.load(Ordering::Relaxed) & EXCLUSIVE != 0)
                {
                    self.held[index].shared |= bit;
                }
                if self.policy == Policy::Ordered {
                    self.order.locked(index, group);
                }
                continue;
            }
            let bug = planted(Mutant::LockingWriteLockNotTaken)
                || (planted(Mutant::LockingUpgradeNotTaken) && held.shared & bit != 0);
            if !bug {
                self.lock_exclusive(record, group, held.shared & bit != 0)?;
                self.held[index].shared &= !bit;
                self.held[index].exclusive |= bit;
                if self.policy == Policy::Ordered {
                    self.order.locked(index, group);
                }
            }
        }
        Ok(())
    }

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

    /// Gaps that were seen have their versions still, where the level asks for it.
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
    const NAMES: &'static [&'static str] = &["lock", "stamp"];

    #[inline(always)]
    fn stamp_word(group: usize) -> usize {
        2 * group + 1
    }
}

impl Protocol for Locking {
    const NAME: &'static str = "locking";
    const SESSIONS_MAX: usize = 1024;
    type Options = Options;
    type Local = Local;
    type Shared = Waits;
    const PIECES: bool = true;

    fn strict(_: &Options) -> bool {
        true
    }

    fn levels(options: &Options) -> &'static [Isolation] {
        match options.chopped {
            false => &[Isolation::Serializable, Isolation::RepeatableRead],
            true => &[Isolation::Serializable],
        }
    }

    fn execution(options: &Options) -> Execution {
        if options.chopped { Execution::Chopped } else { Execution::Whole }
    }

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
    fn comes_to(local: &mut Local, relation: usize, key: &[u64]) {
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

    #[inline]
    fn peek(_: &mut Local, record: RecordRef) -> bool {
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
    fn seen(local: &mut Local, seen: Seen) {
        local.gaps.push(seen);
    }

    fn changed(local: &mut Local, change: Change) {
        local.gaps.follow(change);
    }

    fn place(record: RecordRef, layout: &'static Layout, _: &Gap) {
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
        // Before the gaps are validated: whoever changes one later reads no earlier epoch.
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
                // Pairs with the acquire fence of a snapshot's reader: who has copied a word stored
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
        spare: impl FnOnce() -> bool,
    ) -> Seal {
        let (word, from) = (|group: usize| lock_word!(record, group), clock.commits_from());
        let release = |groups: usize| (0..groups).for_each(|g| word(g).store(ABSENT, Ordering::Release));
        for group in 0..layout.groups.len() {
            let old = word(group).load(Ordering::Acquire);
            let free = old & (EXCLUSIVE | READERS) == 0 && old & ABSENT != 0;
            let locked = EXCLUSIVE | ABSENT;
            let taken = free
                && word(group).compare_exchange(old, locked, Ordering::Acquire, Ordering::Relaxed).is_ok();
            // Of an epoch gone by, so that whoever writes the row next, from a placeholder without a
            // past, has a greater stamp. Looked at under the lock.
            if taken && stamp::epoch(stamp_word!(record, group).load(Ordering::Relaxed)) < from {
                continue;
            }
            release(group + usize::from(taken));
            return if old & ABSENT != 0 { Seal::Busy } else { Seal::Live };
        }
        if !spare() {
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
        // Relaxed: whoever looks later was told of the record by a release.
        let lock = if stamp::is_absent(stamp) { ABSENT } else { 0 };
        lock_word!(record, group).store(lock, Ordering::Relaxed);
        stamp_word!(record, group).store(stamp, Ordering::Relaxed);
    }
}
