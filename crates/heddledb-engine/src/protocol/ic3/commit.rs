//! The commit: what was not shown is latched and locked, reads that were not tracked are checked, everything
//! is installed, and the transaction leaves the lists.

use super::accessors::{Accessed, Source};
use super::piece::Entered;
use super::slots::Id;
use super::{Ic3, Local, Running};
use crate::access::{Groups, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::mutant::{Mutant, planted};
use crate::procedure::Tracking;
use crate::protocol::reads::PAUSES;
use crate::protocol::{Env, Seal};
use crate::record::RecordRef;
use crate::stamp;
use crate::sync::{Course, Ordering, Wait, Work, course, decided, fence, point, work};
use crate::table::{GROUPS_MAX, Layout};

/// What a commit has locked.
#[derive(Default)]
pub(super) struct Locks {
    /// The stamps of all that was shown are locked.
    pub(super) shown: bool,
    /// What was not shown.
    pub(super) others: Vec<Lock>,
    /// Which groups these are, in the order of all; in use only while they are locked with patience.
    order: Vec<(u32, u8)>,
}

/// A group whose stamp is locked and that is latched.
pub(super) struct Lock {
    pub(super) at: Accessed,
    pub(super) stamp: u64,
    /// The access word before the latch.
    pub(super) access: u64,
}

impl Local {
    /// Commits, and returns the time.
    #[inline]
    pub(super) fn commit(&mut self, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let writes = commit.writes();
        self.wait_for_decisions()?;
        work(Work::Checks(self.reads.len() + writes.writes().len()));
        if writes.is_empty() {
            fence(Ordering::Acquire);
            self.reads.validate(|_, _| false).map_err(|conflict| self.failed(conflict, env.clock))?;
            self.gaps.validate().map_err(|conflict| self.doom(conflict))?;
            let time = self.newest_read(env.clock);
            self.end(true);
            self.withdraw(true);
            return Ok(time);
        }
        let newest_write = self.lock(writes).map_err(|conflict| self.failed(conflict, env.clock))?;
        point("locked");
        let epoch = env.commit_epoch();
        // Before the reads are validated: a transaction that ends after that may have changed what was read,
        // and has not seen what this one inserts (found by the search: ic3/84715).
        if !self.met_have_ended() || !self.filled_unseen() {
            return Err(self.doom(Conflict::Accessed));
        }
        self.reads.validate(writes.coverage()).map_err(|conflict| self.failed(conflict, env.clock))?;
        self.gaps.validate().map_err(|conflict| self.doom(conflict))?;
        point("validated");
        let newest = newest_write.max(self.reads.newest());
        let time = newest.max(self.last).max(stamp::floor(epoch)) + 1;
        if stamp::epoch(time) > epoch {
            return Err(self.doom(Conflict::EpochFull));
        }
        self.last = time;
        decided(time);
        if self.running == Running::Pieces {
            self.shared.slots.decide(self.id());
        }

        // Release fence, then relaxed data stores: a reader that copied one of them also finds the lock bit
        // or a newer stamp when it checks.
        fence(Ordering::Release);
        let latched = self.locks.others.drain(..).rev().map(|lock| (lock.at, lock.access));
        let mut latched = latched.peekable();
        for write in writes.writes() {
            point("install");
            commit.install::<Ic3>(write, time);
            let word = stamp::of(time, write.present);
            for group in write.group_numbers() {
                // Release: publishes the data to readers of this stamp.
                Accessed::new(write.record, group).stamp().store(word, Ordering::Release);
            }
            // Mostly latched in the reverse order of the writes, so that others wait no longer than they
            // must.
            while let Some((at, access)) = latched.next_if(|(at, _)| at.record == write.record) {
                at.unlatch(access, true);
            }
        }
        latched.for_each(|(at, access)| at.unlatch(access, true));
        self.end(true);
        self.withdraw(true);
        Ok(time)
    }

    /// Whether everything read so far still stands; waits until all transactions that it was read from have
    /// ended.
    pub(super) fn validate(&mut self, env: Env<'_>) -> Result<(), Conflict> {
        self.take_fresh_as_others();
        // The transaction waits for others to end, and the piece that runs will not be entered.
        self.leave_turn();
        // What the piece that runs has read is still so, and what it was read from commits.
        self.piece_stands()?;
        fence(Ordering::SeqCst);
        self.reads.validate(|_, _| false).map_err(|conflict| self.failed(conflict, env.clock))?;
        self.gaps.validate().map_err(|conflict| self.doom(conflict))?;
        let mut last_writers: Vec<Id> = Vec::new();
        for item in self.items.iter().filter(|item| item.reads) {
            let look = item.at.look()?;
            if look.value() != item.value {
                return Err(Conflict::ReadChanged);
            }
            if let Source::Shown { by, .. } = look.source {
                let id = by.id();
                if !item.at.stands(&look) {
                    return Err(Conflict::ReadChanged);
                }
                last_writers.push(id);
            }
        }
        last_writers.extend(self.passed.iter().filter_map(|passed| passed.by));
        last_writers.into_iter().for_each(|id| self.depend(id, true));
        self.wait_for_ends()?;
        // What those have committed may be what an untracked access missed, or what the piece that runs
        // missed: it is not entered, and may have executed before a transaction that this one comes after.
        if !planted(Mutant::Ic3VerdictBeforeWait) {
            self.piece_stands()?;
        }
        fence(Ordering::SeqCst);
        self.reads.validate(|_, _| false).map_err(|conflict| self.failed(conflict, env.clock))?;
        self.gaps.validate().map_err(|conflict| self.doom(conflict))
    }

    /// The commit has failed: a read that was not tracked has changed, or what would be written.
    #[cold]
    fn failed(&mut self, conflict: Conflict, clock: &EpochClock) -> Conflict {
        if self.running != Running::Closure
            && self.options.tracking == Tracking::Contended
            && let Some(site) = self.reads.broken()
            && let Some(site) = self.planned(site)
            && let Some((planned, plan)) = self.call.of_type.as_ref().zip(self.call.plan.as_ref())
        {
            let vertex = planned.pieces[site.piece as usize].vertex;
            if plan.failed(vertex, clock.now()) {
                self.call.hotness_hint = Some((vertex, true));
            }
        }
        self.doom(conflict)
    }

    /// Locks the stamps of all groups that are written. Returns the latest time among them.
    fn lock(&mut self, writes: &WriteSet) -> Result<u64, Conflict> {
        // A commit that comes here waits only for others that have come here, so those that wait for it with
        // a latch in hand, in one order, wait in no circle. What was written first comes last, and is
        // unlatched first: mostly that is what most others write.
        self.locks.shown = true;
        let mut newest = 0;
        for write in writes.writes() {
            for group in Groups(write.exposed) {
                // Relaxed, a plain store: the next older writer in the list has ended or has the lock, and no
                // other takes the lock as long as our accessor is in the list. The fence of `commit_epoch`
                // orders this store as it orders locks.
                let at = Accessed::new(write.record, group);
                let mut stamp = at.stamp().load(Ordering::Relaxed);
                if stamp::is_locked(stamp) && !planted(Mutant::Ic3LockTakenEarly) {
                    stamp = at.wait_for_install();
                }
                at.stamp().store(stamp | stamp::LOCK, Ordering::Relaxed);
                newest = newest.max(stamp::time(stamp));
            }
        }
        match self.lock_others(writes) {
            Err(Conflict::Locked) => {
                self.unlock();
                self.lock_with_patience(writes)
            }
            outcome => outcome,
        }?;
        Ok(self.locks.others.iter().fold(newest, |newest, lock| newest.max(stamp::time(lock.stamp))))
    }

    /// Locks what was not shown, with bounded patience for each lock.
    #[inline]
    fn lock_others(&mut self, writes: &WriteSet) -> Result<(), Conflict> {
        for write in writes.writes().iter().rev() {
            for group in Groups(write.groups & !write.exposed) {
                let at = Accessed::new(write.record, group);
                self.locks.others.push(Self::lock_one(at, write.was_present, false)?);
            }
        }
        Ok(())
    }

    /// Locks what was not shown, in the order that all commits use, so it may wait for as long as it takes.
    #[cold]
    fn lock_with_patience(&mut self, writes: &WriteSet) -> Result<(), Conflict> {
        self.locks.order.clear();
        for (number, write) in writes.writes().iter().enumerate() {
            self.locks
                .order
                .extend(Groups(write.groups & !write.exposed).map(|group| (number as u32, group as u8)));
        }
        let place = |&(number, group): &(u32, u8)| {
            let write = &writes.writes()[number as usize];
            (write.relation, writes.key(write), group)
        };
        self.locks.order.sort_unstable_by(|one, other| place(other).cmp(&place(one)));
        for &(number, group) in &self.locks.order {
            let write = &writes.writes()[number as usize];
            let at = Accessed { record: write.record, group };
            self.locks.others.push(Self::lock_one(at, write.was_present, true)?);
        }
        Ok(())
    }

    /// Latches a group that has no accessors and locks its stamp.
    fn lock_one(at: Accessed, was_present: bool, patient: bool) -> Result<Lock, Conflict> {
        let mut wait = Wait::new();
        loop {
            if let Some(access) = at.try_latch()? {
                let stamp = at.stamp().load(Ordering::Relaxed);
                let refused = if at.newest().is_some() && !planted(Mutant::Ic3ClosureIgnoresAccessors) {
                    Some(Conflict::Accessed)
                } else if stamp::is_absent(stamp) == was_present {
                    Some(Conflict::ReadChanged)
                } else {
                    None
                };
                if let Some(conflict) = refused {
                    at.unlatch_unchanged(access);
                    return Err(conflict);
                }
                at.stamp().store(stamp | stamp::LOCK, Ordering::Relaxed);
                return Ok(Lock { at, stamp, access });
            }
            if !patient && wait.rounds() >= PAUSES {
                return Err(Conflict::Locked);
            }
            wait.pause();
        }
    }

    /// Undoes the locks of what was not shown.
    pub(super) fn unlock(&mut self) {
        for Lock { at, stamp, access } in self.locks.others.drain(..) {
            // Release: the lock's critical section ends here.
            at.stamp().store(stamp, Ordering::Release);
            at.unlatch_unchanged(access);
        }
    }

    /// Undoes the locks of what was shown, if they were taken.
    pub(super) fn unlock_shown(&mut self, writes: &WriteSet) {
        if !std::mem::take(&mut self.locks.shown) {
            return;
        }
        for write in writes.writes() {
            for group in Groups(write.exposed) {
                let at = Accessed::new(write.record, group);
                // Release: as above.
                at.stamp().store(at.stamp().load(Ordering::Relaxed) & !stamp::LOCK, Ordering::Release);
            }
        }
    }

    /// Takes this transaction's accessors out of all lists.
    pub(super) fn withdraw(&mut self, committed: bool) {
        if !committed && !self.entered.is_empty() {
            // Before the latches: others that wait for them would read what is withdrawn.
            self.shared.slots.doom(self.id());
        }
        // The newest first, so that of two in one list the value goes back step by step.
        while let Some(Entered { at, accessor }) = self.entered.pop() {
            // Sealed: then another transaction took us out of the list.
            let Ok(access) = at.latch() else { continue };
            match accessor.writes() {
                true if committed => at.withdraw_older(accessor),
                true => at.doom_followers(accessor, |id| self.shared.slots.doom(id)),
                false => {}
            }
            at.withdraw(accessor);
            let other_value = !committed && accessor.writes() && !planted(Mutant::Ic3WithdrawalKeepsVersion);
            at.unlatch(access, other_value);
        }
    }

    /// Ends the transaction for those that wait for it.
    pub(super) fn end(&mut self, committed: bool) {
        self.leave_turn();
        if self.running == Running::Pieces {
            self.shared.slots.end(self.id(), committed);
            course(self.id().bits(), if committed { Course::Committed } else { Course::Aborted });
        }
        self.running = Running::Closure;
        self.piece.place = None;
        self.tracked = false;
    }

    /// A time of no earlier epoch than anything read.
    fn newest_read(&self, clock: &EpochClock) -> u64 {
        // What others show, and absence, may be as young as the present epoch.
        self.reads.not_before(!self.gaps.is_empty() || self.has_shown, clock)
    }
}

/// Seals an absent record whose groups have no accessors: latches all of them, for ever.
pub(super) fn seal(
    record: RecordRef,
    layout: &'static Layout,
    clock: &EpochClock,
    has_no_versions: impl FnOnce() -> bool,
) -> Seal {
    let from = clock.commits_from();
    // The access words before the latches; a table has at most this many groups.
    let mut before = [0; GROUPS_MAX];
    let (mut latched, mut outcome) = (0, Seal::Sealed);
    for (group, before) in before.iter_mut().enumerate().take(layout.groups.len()) {
        let at = Accessed::new(record, group);
        let Ok(Some(access)) = at.try_latch() else {
            outcome = Seal::Busy;
            break;
        };
        *before = access;
        latched += 1;
        let stamp = at.stamp().load(Ordering::Relaxed);
        // Of an epoch gone by, so that the next writer of the row, from a placeholder without a past, has a
        // greater stamp.
        let old = !stamp::is_locked(stamp) && stamp::epoch(stamp) < from;
        outcome = match at.newest() {
            Some(_) => Seal::Busy,
            None if !stamp::is_absent(stamp) => Seal::Live,
            None if old => continue,
            None => Seal::Busy,
        };
        break;
    }
    if outcome == Seal::Sealed && !has_no_versions() {
        outcome = Seal::Busy;
    }
    for (group, access) in before[..latched].iter().enumerate() {
        let at = Accessed::new(record, group);
        match outcome {
            Seal::Sealed => at.seal(),
            _ => at.unlatch_unchanged(*access),
        }
    }
    outcome
}
