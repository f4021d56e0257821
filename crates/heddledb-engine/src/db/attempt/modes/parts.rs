//! What is common to calls that commit in parts.
//!
//! **Closures** are no part of the analysis. They run while no call does: a closure closes the gate and waits
//! until those that are under way have ended. Calls that wait at the gate come before the next closure, so
//! neither starves the other.
//!
//! **One epoch.** Snapshots and recovery cut between epochs, so the parts of a call must be of one epoch;
//! and as parts of several calls interleave, so must all calls that run at once. A call begins when no
//! worker is pinned at an earlier epoch any more, and its parts commit in the epoch at which it is pinned,
//! though the next may have begun; so tombstones stay one epoch longer
//! ([`EpochClock::commits_from`](crate::epoch::EpochClock)). Test: `procedures_commit_in_one_epoch`. Or a call waits for none, and its
//! epoch is that of its piece that conflicts (`lazy`).

use super::{Answer, Attempt, lazy, shelves};
use crate::error::{Error, Misuse, Result};
use crate::mutant::{Mutant, planted};
use crate::procedure::{PlannedSite, PlannedType};
use crate::protocol::Protocol;
use crate::seam::Body;
use crate::sync::wait_until;
use lazy::Lazy;
use std::sync::Arc;

/// How far a call is that commits in parts.
#[derive(Default)]
pub(super) struct Parts {
    planned: Option<Arc<PlannedType>>,
    /// Parts have committed.
    committed: bool,
    /// One of them wrote.
    pub wrote: bool,
    /// How often the part that runs was executed before.
    pub retries: u32,
    /// The log has become long meanwhile.
    pub log_is_long: bool,
    /// The epoch at which this worker last saw no other in an earlier one.
    together: u64,
    /// Of calls in the epoch of their piece that conflicts.
    pub lazy: Lazy,
}

impl Parts {
    /// What the plan says of a site, which must be one of the call's type.
    pub fn site(&self, site: u16) -> Result<PlannedSite> {
        let planned = self.planned.as_ref().and_then(|planned| planned.site(site));
        planned.ok_or_else(|| Misuse::NoSite { site }.into())
    }

    /// Whether a piece is the call's last.
    pub fn is_last(&self, piece: u16) -> bool {
        self.planned.as_ref().is_some_and(|planned| usize::from(piece) + 1 == planned.pieces.len())
    }

    /// Whether a piece may conflict, and is not alone.
    pub fn conflicts(&self, piece: u16) -> bool {
        let pieces = self.planned.as_ref().map_or(&[][..], |planned| &planned.pieces);
        pieces.len() > 1 && pieces.get(usize::from(piece)).is_some_and(|piece| piece.conflicts)
    }
}

/// Begins a call, once the gate is open, or a closure, once no call is under way. False, and nothing has begun, where
/// the time for that is over.
pub(super) fn begin<P: Protocol>(attempt: &mut Attempt<P>) -> bool {
    if attempt.called {
        return begin_call(attempt);
    }
    let procedures = &attempt.db.procedures;
    let suspender = attempt.worker.suspender.as_ref();
    let active_calls = &attempt.db.modes.parts;
    if !wait_until(suspender, || active_calls.nobody_waits()) {
        return false;
    }
    procedures.close();
    attempt.gate = true;
    let is_idle = || active_calls.is_idle() || planted(Mutant::PartsBesideClosure);
    if !wait_until(suspender, is_idle) {
        attempt.let_others_begin();
        return false;
    }
    shelves::before_closure(attempt);
    attempt.db.clock.pin(attempt.worker.number);
    true
}

fn begin_call<P: Protocol>(attempt: &mut Attempt<P>) -> bool {
    if !enter(attempt) {
        return false;
    }
    if attempt.db.modes.numbers_lazily() {
        lazy::begin_call(attempt);
        return true;
    }
    let (clock, active_calls) = (&attempt.db.clock, &attempt.db.modes.parts);
    let (worker, suspender) = (attempt.worker.number, attempt.worker.suspender.as_ref());
    let together = &mut attempt.modes.parts.together;
    let epoch = clock.pin_together(worker, active_calls.sessions(), together, suspender);
    let Some(epoch) = epoch else {
        leave(attempt);
        return false;
    };
    if !shelves::before_call(attempt, epoch) {
        attempt.db.clock.unpin(worker);
        leave(attempt);
        return false;
    }
    attempt.epoch = Some(epoch);
    true
}

/// The call is under way, once the gate is open.
fn enter<P: Protocol>(attempt: &mut Attempt<P>) -> bool {
    let (mut waits, mut in_time) = (false, true);
    while in_time
        && !attempt.db.modes.parts.try_begin(attempt.worker.number, || attempt.db.procedures.is_open())
    {
        // It was, for a moment, and others may have left something to it.
        shelves::after_call(attempt);
        if !std::mem::replace(&mut waits, true) {
            attempt.db.modes.parts.begin_wait();
        }
        in_time = wait_until(attempt.worker.suspender.as_ref(), || attempt.db.procedures.is_open());
    }
    if waits {
        attempt.db.modes.parts.end_wait();
    }
    in_time
}

/// The call is under way no more.
fn leave<P: Protocol>(attempt: &mut Attempt<P>) {
    let shared = &attempt.db.modes;
    if shared.shelves.is_none() {
        return shared.parts.end(attempt.worker.number);
    }
    shared.parts.end_in_order(attempt.worker.number);
    shelves::after_call(attempt);
}

/// The attempt that has begun is a call of that type.
pub(super) fn call<P: Protocol>(attempt: &mut Attempt<P>, number: usize) {
    attempt.forget_answers();
    let planned = attempt.worker.plan_cache.plan.of_type(number).map(Arc::clone);
    let parts = &mut attempt.modes.parts;
    *parts = Parts { planned, together: parts.together, lazy: parts.lazy, ..Parts::default() };
    attempt.modes.aside.begin_call();
}

/// After an attempt has ended and its worker is no longer pinned.
pub(super) fn end<P: Protocol>(attempt: &mut Attempt<P>) {
    let is_lazy = attempt.called && attempt.db.modes.numbers_lazily();
    if attempt.epoch.take().is_some() || is_lazy {
        leave(attempt);
    }
    attempt.let_others_begin();
}

/// Before an operation: whether the body is told what it was told before.
#[inline]
pub(super) fn replays<P: Protocol>(attempt: &mut Attempt<P>, site: u16) -> Result<bool> {
    let replay_log = &mut attempt.worker.replay_log;
    let repeats = replay_log.repeats();
    if repeats {
        replay_log.expect(site)?;
    }
    Ok(repeats)
}

/// The answer of the operation at that site will be remembered.
#[inline]
pub(super) fn record<P: Protocol>(attempt: &mut Attempt<P>, site: u16) -> Answer {
    attempt.worker.replay_log.begin(site);
    Answer::Recorded
}

/// Whether the body has come to its end, so that its last part commits; an error, if an operation of it has failed.
pub(super) fn completes<P: Protocol>(attempt: &Attempt<P>, body: &Body) -> Result<bool> {
    if body.is_done() && attempt.failed { Err(Misuse::Failed.into()) } else { Ok(body.is_done()) }
}

/// Commits the part that runs.
pub(super) fn commit_part<P: Protocol>(attempt: &mut Attempt<P>) -> Result<()> {
    let before = attempt.worker.last_commit;
    let writes = !attempt.worker.writes.is_empty();
    let early = if attempt.db.modes.numbers_lazily() { lazy::draw_early(attempt) } else { None };
    let log_is_long = if planted(Mutant::PartsInOwnEpochs) {
        let epoch = attempt.epoch.take();
        let committed = attempt.commit_writes();
        attempt.epoch = epoch;
        committed?
    } else {
        attempt.commit_writes()?
    };
    if attempt.db.modes.numbers_lazily() {
        lazy::draw(attempt, writes, early);
    }
    let parts = &mut attempt.modes.parts;
    // The call's time is that of the last part that wrote: what the others read is of no later epoch. Where none wrote, it
    // is the latest of all, so that a caller that waits until what was read is durable waits for all parts (found by the
    // search: chopping-2pl/disk/16714).
    let later = parts.committed && before > attempt.worker.last_commit;
    if !writes && (parts.wrote || later) {
        attempt.worker.last_commit = before;
    }
    parts.log_is_long |= log_is_long;
    parts.wrote |= writes;
    parts.committed = true;
    parts.retries = 0;
    attempt.worker.replay_log.save();
    if attempt.db.modes.numbers_lazily() {
        _ = attempt.modes.aside.save();
    } else {
        shelves::save(attempt);
    }
    Ok(())
}

/// After a conflict: the part that runs begins again; unless the call's time is over and it can be given up.
pub(super) fn retry<P: Protocol>(attempt: &mut Attempt<P>) -> bool {
    if !attempt.modes.parts.committed && attempt.is_overdue() {
        return false;
    }
    attempt.abort_writes();
    attempt.worker.replay_log.rollback_to_savepoint();
    attempt.modes.aside.roll_back();
    attempt.modes.parts.retries += 1;
    attempt.begin_writes(attempt.modes.parts.retries);
    true
}

/// What to tell the caller of a body that gave up: where parts stand, that they do.
pub(super) fn given_up<P: Protocol>(attempt: &mut Attempt<P>, error: Error) -> Error {
    if !attempt.modes.parts.committed {
        return error;
    }
    match error {
        // The parts before have written nothing, and what they would have added at the end is forgotten (found by the crash points:
        // dbx-tc-lazy/2/error/44).
        Error::LogFailed(_) if !attempt.modes.parts.wrote && lazy::forgets(attempt) => error,
        // The epoch in which the parts before have committed is never closed; but whether they are lost
        // is not known before the next opening.
        Error::LogFailed(why) => Error::OutcomeUnknown(why),
        error => Misuse::PiecesStand { why: error.to_string() }.into(),
    }
}
