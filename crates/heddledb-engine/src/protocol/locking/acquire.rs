//! Taking locks, and what a policy does about one that another holds.

use super::detect::Wanted;
use super::words::{ABSENT, EXCLUSIVE, Held, READER, READERS, SEALED, TIMESTAMP, lock_word};
use super::{Local, Policy};
use crate::access::Groups;
use crate::error::Conflict;
use crate::mutant::{Mutant, planted};
use crate::record::RecordRef;
use crate::sync::{Ordering, Wait, wait_until};
use crate::table::GroupSet;

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
        // Relaxed: taking the lock orders.
        let word = lock_word!(self.record, self.group).load(Ordering::Relaxed);
        self.is_free(word) || word == SEALED
    }
}

impl Local {
    /// The number of the entry for a record's locks; makes one if there is none.
    #[inline]
    pub(super) fn held(&mut self, record: RecordRef) -> usize {
        self.records.get(record).unwrap_or_else(|| {
            self.held.push(Held { record, shared: 0, exclusive: 0 });
            if self.policy == Policy::Ordered {
                self.order.push();
            }
            self.records.put(record, self.held.len() - 1);
            self.held.len() - 1
        })
    }

    /// Decides what to do about a lock word that conflicts: `Ok` to look again, after a pause or a wait.
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
                match &self.suspender {
                    Some(suspender) if suspender.gives_up(wait) => Err(Conflict::TimedOut),
                    _ => Ok(()),
                }
            }
            Policy::WaitDie => Err(Conflict::Died),
            Policy::Detect => self.wait_in_graph(want),
            Policy::Ordered => self.wait_upwards(want),
        }
    }

    /// Waits until a lock looks free or this transaction is the victim of a deadlock. In every circle one
    /// searches it and marks the victim, so no circle waits for ever. See [`detect`](super::detect).
    #[cold]
    fn wait_in_graph(&mut self, want: Want) -> Result<(), Conflict> {
        let Some(waits) = &self.waits else { return Err(Conflict::Locked) };
        let Want { record, group, exclusive, .. } = want;
        waits.begin(self.worker, self.timestamp, Wanted { record, group, exclusive }, &self.held);
        waits.search(self.worker, &mut self.search);
        let in_time =
            wait_until(self.suspender.as_ref(), || want.looks_free() || waits.is_victim(self.worker));
        match waits.end(self.worker) && !planted(Mutant::DetectVictimGoesOn) {
            true => Err(Conflict::Deadlock),
            false if !in_time => Err(Conflict::TimedOut),
            false => Ok(()),
        }
    }

    /// Waits until a lock looks free, if it is above all that are held: so the waits of others for what is
    /// held end after this one, and none is part of a circle. See [`order`](super::order).
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
        match wait_until(self.suspender.as_ref(), || want.looks_free()) {
            true => Ok(()),
            false => Err(Conflict::TimedOut),
        }
    }

    /// Takes a shared lock.
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
    pub(super) fn ensure(
        &mut self,
        record: RecordRef,
        groups: GroupSet,
        exclusive: bool,
    ) -> Result<(), Conflict> {
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
}
