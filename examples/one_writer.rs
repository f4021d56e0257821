//! An example: a protocol made by CONTRIBUTING's "Adding a protocol", one transaction at a time.
//!
//! The feature `example` of `heddledb` compiles it into the engine, as any protocol is; the conformance suite
//! runs it.
//!
//! **Mechanism.** One lock for the whole database. A transaction takes it with its first access and gives it
//! back at its end; one that does not get it soon enough aborts and tries again. So whatever it reads is
//! current until it ends; the only check is that what it looked up just before it got the lock has not
//! changed.
//!
//! | word of a group | holds |
//! |---|---|
//! | 0 | the holder of the group for writing: 0 none, 1 the transaction with the lock, 2 `seal`, all ones for ever once the record is sealed |
//! | 1 | the stamp of the version (`crate::stamp`), locked while its data words change |
//!
//! Only transactions have the lock. Reclamation (`Protocol::seal`) runs beside them, so the two meet in word
//! 0.
//!
//! **Why waits end.** They are bounded: a holder may wait for anything but a transaction, which all abort at
//! last.
//!
//! **Absence.** A transaction that misses a key takes the lock and looks at the gap's version again; from
//! then on no other can make a row appear, since only the holder commits.
//!
//! Strictly serializable: transactions do run one after another.

use super::{Env, Intent, Pieces, Protocol, Seal, Shared, State};
use crate::access::{Groups, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Gap, Seen};
use crate::record::{ConcurrencyWords, RecordData, RecordRef, data_base};
use crate::stamp;
use crate::sync::{AtomicBool, AtomicU64, Ordering, Wait, decided, fence};
use crate::table::{GroupSet, Layout};
use std::sync::Arc;

/// The protocol.
#[derive(Debug)]
pub struct OneWriter;

/// The lock.
pub struct TheLock(AtomicBool);

impl Shared for TheLock {
    fn new(_: usize) -> Self {
        Self(AtomicBool::new(false))
    }
}

/// One worker's attempt.
pub struct Local {
    lock: Arc<TheLock>,
    holds: bool,
    /// The attempt missed something before it could have the lock.
    failed: bool,
    /// The groups that the attempt has to write.
    taken: Vec<(RecordRef, usize)>,
    /// The time of this worker's last commit.
    last: u64,
}

const NOBODY: u64 = 0;
const WRITER: u64 = 1;
const RECLAIMER: u64 = 2;
const SEALED: u64 = u64::MAX;
/// How often a transaction tries to get the lock.
const TRIES: u32 = 60;

fn owner_word(record: &RecordRef, group: usize) -> &AtomicU64 {
    record.word(2 * group)
}

fn stamp_word(record: &RecordRef, group: usize) -> &AtomicU64 {
    record.word(2 * group + 1)
}

impl Local {
    fn hold(&mut self) -> Result<(), Conflict> {
        let mut wait = Wait::new();
        while !self.holds {
            // Acquire: pairs with the release of the last holder, whose writes are read now.
            self.holds =
                self.lock.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
            if !self.holds && wait.rounds() >= TRIES {
                return Err(Conflict::Locked);
            }
            if !self.holds {
                wait.pause();
            }
        }
        if self.failed { Err(Conflict::Phantom) } else { Ok(()) }
    }

    /// Gives everything back.
    fn end(&mut self) {
        for (record, group) in self.taken.drain(..) {
            owner_word(&record, group).store(NOBODY, Ordering::Release);
        }
        self.failed = false;
        if std::mem::take(&mut self.holds) {
            self.lock.0.store(false, Ordering::Release);
        }
    }
}

impl ConcurrencyWords for OneWriter {
    const GROUP_WORDS: usize = 2;
    const STAMP: usize = 1;
    const NAMES: &'static [&'static str] = &["owner", "stamp"];
}

impl State for OneWriter {
    type Options = crate::kind::OneWriter;
    type Local = Local;
    type Shared = TheLock;
}

impl Pieces for OneWriter {}

impl Protocol for OneWriter {
    fn local(_: &crate::kind::OneWriter, shared: &Arc<TheLock>, _: usize) -> Local {
        Local { lock: Arc::clone(shared), holds: false, failed: false, taken: Vec::new(), last: 0 }
    }

    fn begin(_: &mut Local, _: Env<'_>, _: u32) {}

    fn read<R>(
        local: &mut Local,
        _: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        _: Intent,
        mut copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        local.hold()?;
        // Presence is the row's; any group tells.
        let any = Groups(groups).next().unwrap_or(0);
        let stamp = stamp_word(&record, any).load(Ordering::Relaxed);
        if stamp == stamp::SEALED {
            return Err(Conflict::Reclaimed);
        }
        if stamp::is_absent(stamp) {
            return Ok(None);
        }
        Ok(Some(copy(RecordData::new(record, data_base::<Self>(layout)))))
    }

    fn exists(_: &mut Local, record: RecordRef) -> bool {
        !stamp::is_absent(stamp_word(&record, 0).load(Ordering::Relaxed))
    }

    fn write(
        local: &mut Local,
        _: Env<'_>,
        record: RecordRef,
        _: &'static Layout,
        groups: GroupSet,
        _: usize,
    ) -> Result<(), Conflict> {
        local.hold()?;
        for group in Groups(groups) {
            let owner = owner_word(&record, group);
            match owner.compare_exchange(NOBODY, WRITER, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => local.taken.push((record, group)),
                // This one itself, which alone has the lock.
                Err(WRITER) => {}
                Err(SEALED) => return Err(Conflict::Reclaimed),
                // It may be sealed next.
                Err(_) => return Err(Conflict::Locked),
            }
        }
        Ok(())
    }

    fn observe_gap(local: &mut Local, seen: Seen) {
        // It cannot say no here, so it remembers.
        local.failed |= local.hold().is_err() || seen.gap.version() != seen.version;
    }

    fn own_gap_changed(_: &mut Local, _: Change, _: bool) {}

    fn init_record(record: RecordRef, layout: &'static Layout, _: &Gap) {
        for group in 0..layout.groups.len() {
            // Relaxed: published by the index's release.
            owner_word(&record, group).store(NOBODY, Ordering::Relaxed);
            stamp_word(&record, group).store(stamp::ABSENT, Ordering::Relaxed);
        }
    }

    fn commit(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        local.hold()?;
        let writes = commit.writes();
        let epoch = env.commit_epoch();
        let mut time = local.last.max(stamp::floor(epoch));
        for write in writes.writes() {
            for group in write.group_numbers() {
                let stamp = stamp_word(&write.record, group).load(Ordering::Relaxed);
                if stamp::is_absent(stamp) == write.was_present {
                    // A blind write saw the row before it had the lock.
                    return Err(Conflict::ReadChanged);
                }
                time = time.max(stamp::time(stamp));
            }
        }
        if !writes.is_empty() {
            time += 1;
            if stamp::epoch(time) > epoch {
                return Err(Conflict::EpochFull);
            }
            local.last = time;
        }
        // From here on it cannot fail: what a simulation wants to know when it kills a worker.
        decided(time);
        for write in writes.writes() {
            for group in write.group_numbers() {
                let word = stamp_word(&write.record, group);
                word.store(word.load(Ordering::Relaxed) | stamp::LOCK, Ordering::Relaxed);
            }
            // Pairs with the acquire fence of a snapshot's reader.
            fence(Ordering::Release);
            commit.install::<Self>(write, time);
            for group in write.group_numbers() {
                // Release: publishes the data to a snapshot's readers.
                let stamp = stamp::of(time, write.present);
                stamp_word(&write.record, group).store(stamp, Ordering::Release);
            }
        }
        local.end();
        Ok(time)
    }

    fn validate(local: &mut Local, _: Env<'_>) -> Result<(), Conflict> {
        local.hold()
    }

    fn abort(local: &mut Local, _: Env<'_>, _: &WriteSet) {
        local.end();
    }

    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        clock: &EpochClock,
        _: &Gap,
        has_no_versions: impl FnOnce() -> bool,
    ) -> Seal {
        let from = clock.commits_from();
        let unlock = |groups: usize| {
            (0..groups).for_each(|group| owner_word(&record, group).store(NOBODY, Ordering::Release));
        };
        for group in 0..layout.groups.len() {
            let word = owner_word(&record, group);
            let taken =
                word.compare_exchange(NOBODY, RECLAIMER, Ordering::Acquire, Ordering::Relaxed).is_ok();
            let stamp = stamp_word(&record, group).load(Ordering::Relaxed);
            // Of an epoch gone by, so that the next writer of the row, from a placeholder without a past, has
            // a greater stamp.
            if taken && stamp::is_absent(stamp) && stamp::epoch(stamp) < from {
                continue;
            }
            unlock(group + usize::from(taken));
            return if stamp::is_absent(stamp) { Seal::Busy } else { Seal::Live };
        }
        if !has_no_versions() {
            unlock(layout.groups.len());
            return Seal::Busy;
        }
        for group in 0..layout.groups.len() {
            stamp_word(&record, group).store(stamp::SEALED, Ordering::Relaxed);
            owner_word(&record, group).store(SEALED, Ordering::Release);
        }
        Seal::Sealed
    }

    fn restore(record: RecordRef, group: usize, stamp: u64) {
        // Relaxed: while no other transaction has the record.
        owner_word(&record, group).store(NOBODY, Ordering::Relaxed);
        stamp_word(&record, group).store(stamp, Ordering::Relaxed);
    }
}
