//! Calls in batches, each of which is executed as a graph (DGCC §3, §4): an attempt's part of it; the rest is in
//! [`batches`](crate::batches).
//!
//! **Mechanism.** A call runs without effect first and tells what it accesses ([`telling`]). Then it is linked with the
//! others of its batch, and when those before it that access the same have ended it is executed for good, and commits by the
//! protocol's own verbs. A call that was submitted comes to a worker as a task, once for each of the two; one of a session's own
//! does both in one attempt, and waits in between.
//!
//! **Safety.** The graph decides who waits, and nothing else: see [`telling`], and what is said of
//! [`graph`](super::graph). An attempt of a submitted call that fails is made again in its place; a session's own gets a new one.
//!
//! **In pieces** (DGCC §3.1, §3.4). A submitted call whose procedure tells what it will access, and marks with `#[later]` from where on
//! it does not give up, is executed in pieces: behind that mark it commits what it has done so far whenever others wait for
//! something of it that it will not access again, and lets go of that. It waits before each access, and not before it begins.
//! Nobody else is under way then that sees calls as a whole ([`phases`](super::phases)). It must access nothing that it has not told: since
//! others may have seen what it did before, and what it had told of the rest, that is refused
//! ([`Misuse::Unforeseen`](crate::error::Misuse::Unforeseen)).
//!
//! **Where we leave the paper.** The unit is the whole call, unless pieces are asked for, so what it decides needs no pieces of its
//! own, and nobody else sees what it has written before it commits (DG6). What may give up is one piece, the first, and not several
//! condition pieces. Commits lock and validate, since closures, and what was not foreseen, are in no graph (DG5, DG15). Access sets may
//! be found, not declared (DG1).

use super::super::Logs;
use super::announced::{claims, unannounced};
use super::phases::Phases;
use super::{AccessMode, Answer, Attempt, CallMode, Keys, Then, parts, telling};
use crate::batches::{Batches, Next, Seat};
use crate::db::common::Common;
use crate::error::{Conflict, Error, Result};
use crate::footprint::Usage;
use crate::kind::Promises;
use crate::mutant::{Mutant, planted};
use crate::protocol::Protocol;
use crate::seam::{Access, Body, Job, Part, Task};
use crate::sync::note;
use crate::table::Definition;
use std::sync::Arc;

/// A worker's part in batches.
#[derive(Default)]
pub(super) struct Batched {
    seat: Seat<Arc<dyn Job>>,
    /// The attempt has the place of the session's own call.
    own: bool,
    /// The attempt is a call in pieces.
    pieces: bool,
    /// It will not give up any more.
    sure: bool,
    /// The accesses, as they were told, that it has come to in the operation that runs.
    units: Vec<usize>,
    /// Where it was among them when its last piece committed.
    stands_at: usize,
}

/// What workers share.
pub(in super::super) struct Shared {
    pub batches: Batches<Arc<dyn Job>>,
    phases: Phases,
    /// Calls may be executed in pieces.
    in_pieces: bool,
}

impl CallMode for Batched {
    type Shared = Shared;

    fn shared(sessions: usize, promises: &dyn Promises) -> Shared {
        let batching = promises.batching();
        let (batches, phases) = (Batches::new(batching, sessions), Phases::new(sessions));
        // Levels are what graphs without barriers are compared with.
        Shared { batches, phases, in_pieces: !batching.levels }
    }

    /// A task that is to be announced must be a call: what else it may be cannot tell what it accesses without doing it.
    fn begin<P: Protocol>(attempt: &mut Attempt<P>, _retry: u32) -> bool {
        if !attempt.called && must_call(attempt) {
            return false;
        }
        let Attempt { db, worker, modes, epoch, .. } = attempt;
        let Batched { seat, pieces, .. } = &mut modes.batched;
        *pieces = attempt.called && seat.in_pieces();
        if *pieces {
            let phase = db.modes.batched.phases.enter(&db.clock, worker.suspender.as_ref());
            *epoch = Some(phase).filter(|_| !planted(Mutant::PieceInOwnEpoch));
        }
        db.clock.pin(worker.number);
        true
    }

    fn call<P: Protocol>(attempt: &mut Attempt<P>, number: usize) -> bool {
        parts::call(attempt, number);
        // A log of commands has the order of whole calls.
        let in_pieces = attempt.db.modes.batched.in_pieces && attempt.logs == Logs::Rows;
        let later = if in_pieces { attempt.worker.plan_cache.plan.later_of(number) } else { None };
        telling::call(attempt, number, later);
        let Batched { seat, sure, stands_at, .. } = &mut attempt.modes.batched;
        // Of an attempt before nothing stands.
        (*sure, *stands_at) = (false, 0);
        seat.begin_again();
        attempt.modes.telling.footprint.return_to(0);
        // A task that is to be executed has told.
        if attempt.modes.batched.seat.announces() != Some(false) {
            telling::begin(attempt);
        }
        true
    }

    fn commit<P: Protocol>(attempt: &mut Attempt<P>) -> Result<bool> {
        if attempt.modes.batched.pieces {
            // Its last piece has committed.
            return Ok(attempt.modes.parts.log_is_long);
        }
        Self::begin_decision(attempt)?;
        let outcome = attempt.commit_writes();
        Self::end_decision(attempt);
        outcome
    }

    /// A call that is executed whole meets none in pieces.
    fn begin_decision<P: Protocol>(attempt: &Attempt<P>) -> Result<(), Conflict> {
        let (phases, worker) = (&attempt.db.modes.batched.phases, &attempt.worker);
        if attempt.called || phases.begin_decision(worker.number, worker.suspender.as_ref()) {
            Ok(())
        } else {
            Err(Conflict::TimedOut)
        }
    }

    fn end_decision<P: Protocol>(attempt: &Attempt<P>) {
        if !attempt.called {
            attempt.db.modes.batched.phases.end_decision(attempt.worker.number);
        }
    }

    fn end<P: Protocol>(attempt: &mut Attempt<P>) {
        (attempt.dry, attempt.epoch) = (false, None);
        attempt.let_others_begin();
        let Batched { seat, own, .. } = &mut attempt.modes.batched;
        if std::mem::take(own) {
            attempt.db.modes.batched.batches.end_own(seat);
        }
    }

    /// Between two accesses, where nothing is half done, a call in pieces lets go of what others wait for.
    fn enter<P: Protocol>(attempt: &mut Attempt<P>, site: u16) -> Result<Answer> {
        if !attempt.modes.batched.pieces {
            return Ok(Answer::Live);
        }
        if parts::replays(attempt, site)? {
            return Ok(Answer::Replayed);
        }
        let sure_from = attempt.modes.telling.footprint.sure_from();
        let Batched { seat, sure, units, .. } = &mut attempt.modes.batched;
        units.clear();
        *sure |= sure_from.is_some_and(|from| site >= from);
        if *sure && seat.is_due() {
            commit_piece(attempt)?;
            attempt.begin_writes(0);
        }
        Ok(parts::record(attempt, site))
    }

    fn row<P: Protocol>(attempt: &mut Attempt<P>, access: &Access<'_>, mode: AccessMode) -> Result<()> {
        if attempt.modes.batched.pieces {
            come_to_row(attempt, access, mode)
        } else {
            telling::row(attempt, access, mode)
        }
    }

    fn range<P: Protocol>(
        attempt: &mut Attempt<P>,
        relation: &'static Definition,
        keys: Keys<'_>,
    ) -> Result<()> {
        if attempt.modes.batched.pieces {
            come_to_range(attempt, relation, keys)
        } else {
            telling::range(attempt, relation, keys)
        }
    }

    fn end_body<P: Protocol>(attempt: &mut Attempt<P>, body: &Body) -> Result<Then> {
        if attempt.modes.batched.pieces {
            if parts::completes(attempt, body)? {
                commit_piece(attempt)?;
            }
            return Ok(Then::Commit);
        }
        if let Some(then) = telling::end_body(attempt, body) {
            return then;
        }
        let Attempt { db, worker, modes, .. } = attempt;
        let (batches, footprint) = (&db.modes.batched.batches, &mut modes.telling.footprint);
        let Batched { seat, own, .. } = &mut modes.batched;
        if seat.announces() == Some(true) {
            seat.swap(footprint);
            return Ok(Then::Over);
        }
        // Its session waits for its turn, and executes it whole.
        footprint.be_sure_from(None);
        let call = batches.enter(worker.number, footprint);
        if !batches.await_turn(seat, (worker.number, call), worker.suspender.as_ref()) {
            attempt.begin_writes(0);
            return Err(Conflict::TimedOut.into());
        }
        note(|| "may begin".to_owned());
        *own = true;
        seat.swap(footprint);
        attempt.begin_writes(0);
        Ok(Then::Again)
    }

    fn retry<P: Protocol>(attempt: &mut Attempt<P>, _conflict: Conflict) -> bool {
        let Batched { seat, sure, pieces, stands_at, .. } = &mut attempt.modes.batched;
        seat.begin_again();
        attempt.modes.telling.footprint.return_to(*stands_at);
        // Where it begins from its start, what is before its mark may give up again.
        *sure = false;
        *pieces && parts::retry(attempt)
    }

    fn given_up<P: Protocol>(attempt: &mut Attempt<P>, error: Error) -> Error {
        if attempt.modes.batched.pieces { parts::given_up(attempt, error) } else { error }
    }
}

/// Commits what a call in pieces has done since it last did, and lets go of what it will not access again.
fn commit_piece<P: Protocol>(attempt: &mut Attempt<P>) -> Result<()> {
    if planted(Mutant::PieceLetGoEarly) {
        attempt.modes.batched.seat.let_go();
        crate::sync::yield_now();
    }
    parts::commit_part(attempt)?;
    attempt.modes.batched.seat.let_go();
    attempt.modes.batched.stands_at = attempt.modes.telling.footprint.position();
    Ok(())
}

/// A call in pieces comes to column groups of a row.
fn come_to_row<P: Protocol>(attempt: &mut Attempt<P>, access: &Access<'_>, mode: AccessMode) -> Result<()> {
    let Access { wanted: Part { relation, .. }, key, .. } = *access;
    let (groups, usage) = claims(access, mode);
    let id = attempt.db.stores.id(relation);
    let footprint = &mut attempt.modes.telling.footprint;
    let Batched { seat, units, .. } = &mut attempt.modes.batched;
    // An operation may come to a row more than once: what it has come to is one access.
    let known = |unit: &usize| footprint.is_point(*unit, id, key, groups, usage);
    if units.iter().any(known) {
        return Ok(());
    }
    let before = units.len();
    if !footprint.find_points(id, key, groups, usage, |unit| units.push(unit)) {
        // Whoever scans reads what it finds.
        let range = footprint.find_range(id, key, key).filter(|_| usage == Usage::Reads);
        units.truncate(before);
        units.extend(range.map(|range| footprint.points().len() + range));
    }
    let suspender = attempt.worker.suspender.as_ref();
    if planted(Mutant::PieceUnforeseen) && units.len() == before {
        return Ok(());
    }
    if units.len() == before || !units[before..].iter().all(|unit| seat.come(*unit, suspender)) {
        return Err(unannounced(relation, key));
    }
    Ok(())
}

/// A call in pieces comes to a scan.
fn come_to_range<P: Protocol>(
    attempt: &mut Attempt<P>,
    relation: &'static Definition,
    (low, high): Keys<'_>,
) -> Result<()> {
    let footprint = &attempt.modes.telling.footprint;
    let unit = footprint
        .find_range(attempt.db.stores.id(relation), low, high)
        .map(|range| footprint.points().len() + range);
    let (seat, suspender) = (&mut attempt.modes.batched.seat, attempt.worker.suspender.as_ref());
    if unit.is_some_and(|unit| seat.come(unit, suspender)) { Ok(()) } else { Err(unannounced(relation, low)) }
}

/// Whether the attempt's worker has a task to announce: then what begins must be a call.
pub(in super::super) fn must_call<P: Protocol>(attempt: &Attempt<P>) -> bool {
    attempt.modes.batched.seat.announces() == Some(true)
}

impl<P: Protocol> Attempt<P> {
    /// See [`Worker::next_task`](crate::seam::Worker::next_task).
    pub(in crate::db) fn next_job(&mut self, waits: bool) -> Option<Task> {
        let seat = &mut self.modes.batched.seat;
        self.db.modes.batched.batches.next(seat, waits).map(|next| match next {
            Next::Announce(job) => Task::Announce(job),
            Next::Execute(job) => {
                seat.swap(&mut self.modes.telling.footprint);
                Task::Execute(job)
            }
        })
    }

    /// See [`Worker::end_task`](crate::seam::Worker::end_task).
    pub(in crate::db) fn end_job(&mut self) {
        let Common { modes, clock, .. } = &**self.db;
        let pieces_over = || modes.batched.phases.end(clock);
        let suspender = self.worker.suspender.as_ref();
        modes.batched.batches.done_beside(&mut self.modes.batched.seat, suspender, &pieces_over);
    }
}
