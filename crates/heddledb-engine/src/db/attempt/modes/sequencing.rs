//! Deterministic execution: one call after another decides what it will access, and all of them do it at once
//! (Faleiro et al. 2014; the comparator of IC3 §6.4).
//!
//! **Mechanism.** Calls take turns in the order in which they begin, and that is the serial order. A call
//! with its turn executes its *now phase*: what comes before the mark `#[later]`. That commits on its own.
//! Which rows the rest will access, its *later phase*, does not depend on what the rest reads; so the body
//! runs once more without effect, and each row that it would access is *announced* ([`Footprint`]). Then the
//! next call has its turn. The later phase executes when all earlier calls that announced a conflicting
//! access have ended; an access of a now phase waits for them likewise, holding the turn. No call waits for a
//! later one, so there is no deadlock, and nothing that was announced aborts.
//!
//! A procedure without the mark is all now phase. Where the body gives up while it announces (a row is
//! missing that an earlier call will insert), its later phase executes while the call holds the turn, after
//! all earlier calls have ended.
//!
//! **Phases.** Each is a transaction of the protocol and commits; conflicting phases are kept apart, so
//! hardly one fails; one that does is executed again. As for all calls that commit in parts (`parts`), the phases
//! of one call are of one epoch, and closures run while no call does.
//!
//! **Times.** The time of a call (`Session::last_commit`) is drawn with its turn, so that times follow the
//! turns; its later phase commits at a later time, which only the rows get. A call after a closure gets a
//! time above the closure's.
//!
//! **Where we leave the paper.** Its now phases are executed by a thread of their own, and its later phases
//! by others, some when another transaction reads what they would have written, some never. Here a session
//! executes its call from begin to end, because the result is wanted. The engine finds what a later phase
//! accesses: in the paper each transaction declares it by hand. Keys that are known only after the later
//! phase has read something (of entries in secondary indexes that an update moves or a deletion takes along)
//! are awaited while the call holds its turn. Tests: `phases_*` of the conformance suite.

use super::announced::{Places, Turn, claims, unannounced};
use super::sequencer::Sequencer;
use super::{AccessMode, Answer, Attempt, CallMode, Keys, Then, parts};
use crate::error::{Conflict, Error, Result};
use crate::footprint::Footprint;
use crate::kind::Promises;
use crate::mutant::{Mutant, planted};
use crate::protocol::Protocol;
use crate::seam::{Access, Body, Part};
use crate::stamp;
use crate::sync::{Ordering, Whose, decides};
use crate::table::Definition;

/// How far a call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The call has the turn, and executes what is before the mark.
    #[default]
    Now,
    /// It has the turn, and announces what it will access.
    Announcing,
    /// It executes what it has announced.
    Later,
    /// It has the turn, and is the only one that runs.
    Alone,
}

/// A call that is executed in two phases.
#[derive(Default)]
pub(super) struct Sequenced {
    /// The site at which its later phase begins.
    later: Option<u16>,
    phase: Phase,
    turn: Option<Turn>,
    /// It still has the turn.
    holds: bool,
    /// Its own time, if it has written anything.
    time: u64,
    footprint: Footprint,
    /// The calls that it waits for.
    before: Vec<Turn>,
    places: Places,
}

impl CallMode for Sequenced {
    type Shared = Sequencer;

    fn shared(sessions: usize, _: &dyn Promises) -> Sequencer {
        Sequencer::new(sessions)
    }

    fn begin<P: Protocol>(attempt: &mut Attempt<P>, _retry: u32) -> bool {
        parts::begin(attempt)
    }

    fn call<P: Protocol>(attempt: &mut Attempt<P>, number: usize) -> bool {
        parts::call(attempt, number);
        let worker = &*attempt.worker;
        let sequencer = &attempt.db.modes.sequencing;
        let later = worker.plan_cache.plan.later_of(number);
        let turn = sequencer.take(worker.number, worker.suspender.as_ref());
        let Sequenced { footprint, before, places, .. } = std::mem::take(&mut attempt.modes.sequencing);
        let (turn, holds) = (Some(turn), true);
        attempt.modes.sequencing =
            Sequenced { later, turn, holds, footprint, before, places, ..Sequenced::default() };
        attempt.modes.sequencing.footprint.clear();
        // Relaxed, as all of these: the call that had the turn before has stored it, or a closure before any
        // call began.
        attempt.after = sequencer.last.load(Ordering::Relaxed);
        true
    }

    fn commit<P: Protocol>(attempt: &mut Attempt<P>) -> Result<bool> {
        if attempt.called {
            // The last phase has committed.
            return Ok(attempt.modes.parts.log_is_long);
        }
        let log_is_long = attempt.commit_writes()?;
        // Relaxed: the gate's accesses order it before any call.
        attempt.db.modes.sequencing.last.fetch_max(attempt.worker.last_commit, Ordering::Relaxed);
        Ok(log_is_long)
    }

    /// The next call may have its turn, and calls that wait for this one go on.
    fn end<P: Protocol>(attempt: &mut Attempt<P>) {
        let sequencer = &attempt.db.modes.sequencing;
        (attempt.after, attempt.dry) = (0, false);
        if let Some(turn) = attempt.modes.sequencing.turn.take() {
            sequencer.end(turn);
            if std::mem::take(&mut attempt.modes.sequencing.holds) {
                sequencer.give(turn);
            }
        }
        parts::end(attempt);
    }

    fn enter<P: Protocol>(attempt: &mut Attempt<P>, site: u16) -> Result<Answer> {
        if parts::replays(attempt, site)? {
            return Ok(Answer::Replayed);
        }
        attempt.modes.parts.site(site)?;
        let Sequenced { later, phase, .. } = &attempt.modes.sequencing;
        if *phase != Phase::Now {
            return Ok(Answer::Live);
        }
        if later.is_some_and(|later| site >= later) {
            commit_phase(attempt)?;
            attempt.begin_writes(0);
            attempt.modes.sequencing.phase = Phase::Announcing;
            attempt.dry = true;
            return Ok(Answer::Live);
        }
        Ok(parts::record(attempt, site))
    }

    /// Announces the access, waits for the calls before that it conflicts with, or checks that it was announced.
    fn row<P: Protocol>(attempt: &mut Attempt<P>, access: &Access<'_>, mode: AccessMode) -> Result<()> {
        let Access { wanted: Part { relation, .. }, key, .. } = *access;
        let id = attempt.db.stores.id(relation);
        // Calls are executed in the order of their turns, sums, too.
        let mode = if mode == AccessMode::Adds { AccessMode::Writes } else { mode };
        let (groups, usage) = claims(access, mode);
        let Sequenced { phase, footprint, before, .. } = &mut attempt.modes.sequencing;
        if *phase == Phase::Announcing {
            footprint.add_point(id, key, groups, usage);
        }
        if *phase == Phase::Now || *phase == Phase::Announcing && mode == AccessMode::WritesEntries {
            let sequencer = &attempt.db.modes.sequencing;
            let runs = &|turn| sequencer.runs(turn);
            sequencer.announced.before_point(id, key, groups, usage, runs, before);
            if planted(Mutant::SequencedNowNotAwaited) {
                before.clear();
            }
            sequencer.await_end(before, attempt.worker.suspender.as_ref());
        }
        if *phase == Phase::Later && !footprint.has_point(id, key, groups, usage) {
            return Err(unannounced(relation, key));
        }
        Ok(())
    }

    /// Announces the scan, or checks that it was announced.
    fn range<P: Protocol>(
        attempt: &mut Attempt<P>,
        relation: &'static Definition,
        (low, high): Keys<'_>,
    ) -> Result<()> {
        let id = attempt.db.stores.id(relation);
        let Sequenced { phase, footprint, .. } = &mut attempt.modes.sequencing;
        match phase {
            Phase::Announcing => footprint.add_range(id, low, high),
            Phase::Later if !footprint.has_range(id, low, high) => {
                return Err(unannounced(relation, low));
            }
            _ => {}
        }
        Ok(())
    }

    /// In a now phase: waits for the calls that the scan conflicts with. If there was one, the scan must look again.
    fn scanned<'a, P: Protocol>(
        attempt: &mut Attempt<P>,
        relation: &'static Definition,
        keys: impl FnOnce() -> Keys<'a>,
    ) -> bool {
        let Sequenced { phase: Phase::Now, before, .. } = &mut attempt.modes.sequencing else { return false };
        let sequencer = &attempt.db.modes.sequencing;
        let runs = &|turn| sequencer.runs(turn);
        let (low, high) = keys();
        sequencer.announced.before_range(attempt.db.stores.id(relation), low, high, runs, before);
        if planted(Mutant::SequencedNowNotAwaited) {
            before.clear();
        }
        let awaits = !before.is_empty();
        sequencer.await_end(before, attempt.worker.suspender.as_ref());
        awaits
    }

    fn end_body<P: Protocol>(attempt: &mut Attempt<P>, body: &Body) -> Result<Then> {
        if attempt.dry {
            // After a refusal the body has gone a way that it may not go when what is missing, or in the way, is not.
            announce(attempt, body.is_done() && !attempt.failed);
            return Ok(Then::Again);
        }
        if parts::completes(attempt, body)? {
            commit_phase(attempt)?;
        }
        Ok(Then::Commit)
    }

    fn retry<P: Protocol>(attempt: &mut Attempt<P>, _conflict: Conflict) -> bool {
        parts::retry(attempt)
    }

    fn given_up<P: Protocol>(attempt: &mut Attempt<P>, error: Error) -> Error {
        parts::given_up(attempt, error)
    }
}

/// Commits the phase that runs.
fn commit_phase<P: Protocol>(attempt: &mut Attempt<P>) -> Result<()> {
    let Sequenced { phase, time, .. } = attempt.modes.sequencing;
    // The later phase, too, is told of at the call's time, and while it commits: whoever is killed in the midst of it has told
    // (found by the search: deterministic-lazy/kill/5212419).
    decides(if phase == Phase::Now { Whose::Own } else { Whose::OwnAt(time) });
    let committed = parts::commit_part(attempt);
    decides(Whose::Own);
    committed?;
    let Sequenced { phase, time, .. } = &mut attempt.modes.sequencing;
    let wrote = attempt.modes.parts.wrote;
    if *phase == Phase::Now {
        // Without a write it has no time of its own yet.
        let floor = attempt.epoch.map_or(0, stamp::floor);
        *time = if wrote { attempt.worker.last_commit } else { floor.max(attempt.after) + 1 };
        attempt.after = *time;
        attempt.db.modes.sequencing.last.store(*time, Ordering::Relaxed);
    } else if wrote {
        attempt.worker.last_commit = *time;
    }
    Ok(())
}

/// The body has run to announce, to its end if `complete`. It runs again after this, and does what is left to do.
fn announce<P: Protocol>(attempt: &mut Attempt<P>, complete: bool) {
    attempt.abort_writes();
    attempt.worker.replay_log.rollback_to_savepoint();
    (attempt.failed, attempt.dry) = (false, false);
    let Sequenced { turn, holds, footprint, before, places, phase, .. } = &mut attempt.modes.sequencing;
    let sequencer = &attempt.db.modes.sequencing;
    if let Some(turn) = *turn {
        let announced = &sequencer.announced;
        let runs = &|turn| sequencer.runs(turn);
        if complete {
            announced.announce(turn.worker, Some(turn.number), footprint, places, runs, before);
            *holds = false;
            sequencer.give(turn);
        } else {
            announced.all(runs, before);
        }
    }
    *phase = if complete { Phase::Later } else { Phase::Alone };
    if planted(Mutant::SequencedLaterNotAwaited) {
        before.clear();
    }
    sequencer.await_end(before, attempt.worker.suspender.as_ref());
    attempt.begin_writes(0);
}
