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
//! **Where we leave the paper.** The unit is the whole call, so what it decides needs no pieces of its own, and nobody else
//! sees what it has written before it commits (DG6). Commits lock and validate, since closures, and what was not
//! foreseen, are in no graph (DG5, DG15). Access sets may be found, not declared (DG1).

use super::{AccessMode, Attempt, CallMode, Keys, Then, telling};
use crate::batches::{Batches, Next, Seat};
use crate::error::{Conflict, Result};
use crate::kind::Promises;
use crate::protocol::Protocol;
use crate::seam::{Access, Body, Job, Task};
use crate::sync::note;
use crate::table::Definition;
use std::sync::Arc;

/// A worker's part in batches.
#[derive(Default)]
pub(super) struct Batched {
    seat: Seat<Arc<dyn Job>>,
    /// The attempt has the place of the session's own call.
    own: bool,
}

impl CallMode for Batched {
    type Shared = Batches<Arc<dyn Job>>;

    fn shared(sessions: usize, promises: &dyn Promises) -> Self::Shared {
        Batches::new(promises.batching(), sessions)
    }

    /// A task that is to be announced must be a call: what else it may be cannot tell what it accesses without doing it.
    fn begin<P: Protocol>(attempt: &mut Attempt<P>, _retry: u32) -> bool {
        if !attempt.called && must_call(attempt) {
            return false;
        }
        attempt.db.clock.pin(attempt.worker.number);
        true
    }

    fn call<P: Protocol>(attempt: &mut Attempt<P>, _number: usize) -> bool {
        attempt.forget_answers();
        telling::call(attempt);
        // A task that is to be executed has told.
        if attempt.modes.batched.seat.announces() != Some(false) {
            telling::begin(attempt);
        }
        true
    }

    fn end<P: Protocol>(attempt: &mut Attempt<P>) {
        attempt.dry = false;
        let Batched { seat, own, .. } = &mut attempt.modes.batched;
        if std::mem::take(own) {
            attempt.db.modes.batched.end_own(seat);
        }
    }

    fn row<P: Protocol>(attempt: &mut Attempt<P>, access: &Access<'_>, mode: AccessMode) -> Result<()> {
        telling::row(attempt, access, mode)
    }

    fn range<P: Protocol>(
        attempt: &mut Attempt<P>,
        relation: &'static Definition,
        keys: Keys<'_>,
    ) -> Result<()> {
        telling::range(attempt, relation, keys)
    }

    fn end_body<P: Protocol>(attempt: &mut Attempt<P>, body: &Body) -> Result<Then> {
        if let Some(then) = telling::end_body(attempt, body) {
            return then;
        }
        let Attempt { db, worker, modes, .. } = attempt;
        let (batches, footprint) = (&db.modes.batched, &mut modes.telling.footprint);
        let Batched { seat, own, .. } = &mut modes.batched;
        if seat.announces() == Some(true) {
            seat.swap(footprint);
            return Ok(Then::Over);
        }
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
}

/// Whether the attempt's worker has a task to announce: then what begins must be a call.
pub(in super::super) fn must_call<P: Protocol>(attempt: &Attempt<P>) -> bool {
    attempt.modes.batched.seat.announces() == Some(true)
}

impl<P: Protocol> Attempt<P> {
    /// See [`Worker::next_task`](crate::seam::Worker::next_task).
    pub(in crate::db) fn next_job(&mut self, waits: bool) -> Option<Task> {
        let seat = &mut self.modes.batched.seat;
        self.db.modes.batched.next(seat, waits).map(|next| match next {
            Next::Announce(job) => Task::Announce(job),
            Next::Execute(job) => {
                seat.swap(&mut self.modes.telling.footprint);
                Task::Execute(job)
            }
        })
    }

    /// See [`Worker::end_task`](crate::seam::Worker::end_task).
    pub(in crate::db) fn end_job(&mut self) {
        self.db.modes.batched.done(&mut self.modes.batched.seat);
    }
}
