//! Calls in a graph: each waits, before it runs, for those before it that it conflicts with (DGCC §3; DORADD).
//!
//! **Mechanism.** The body of a call is executed twice. The first time it has no effect, at no particular place in any
//! order, and tells what it accesses ([`telling`]). Then the call is *linked* ([`announced`](super::announced)): it gets its number, and an
//! edge from each earlier call that is under way and will access the same, where one of the two writes. When all of these
//! have ended it is executed for good, and commits by the protocol's own verbs. So calls that conflict wait, in an order
//! that is known, instead of failing; and those that do not run side by side. The session that called executes its call.
//!
//! **Safety.** The graph decides who waits, and nothing else. What a call accesses without having told, since the first
//! execution saw another state, it accesses as a closure would: it is counted
//! ([`Stats::unforeseen`](crate::metrics::Stats::unforeseen)), and the commit is validated. So is what meets closures,
//! which are no part of the graph. An attempt that fails gets a new place behind those that came meanwhile.
//!
//! **No deadlock.** A call waits only for calls with lower numbers. One that gives up while it waits has done nothing; those behind
//! it then do not wait for those before it, and may conflict with them.
//!
//! **Where we leave the paper.** Calls are not collected into batches, whose graphs are executed one after another: each is
//! linked when it comes, so no core waits for the end of a batch. The unit is the whole call, so an abort
//! needs no condition pieces (DG6). Access sets may be found, not declared; and what they miss is not wrong, only slower (DG1,
//! DG5).

use super::announced::{Places, Turn};
use super::sequencer::Sequencer;
use super::{AccessMode, Attempt, CallMode, Keys, Then, telling};
use crate::error::{Conflict, Result};
use crate::kind::Promises;
use crate::mutant::{Mutant, planted};
use crate::protocol::Protocol;
use crate::seam::{Access, Body};
use crate::sync::{note, wait_until};
use crate::table::Definition;

/// A call in the graph.
#[derive(Default)]
pub(super) struct Linked {
    /// Its place, once it has one.
    turn: Option<Turn>,
    /// The calls that it waits for.
    before: Vec<Turn>,
    places: Places,
}

impl CallMode for Linked {
    type Shared = Sequencer;

    fn shared(sessions: usize, _: &dyn Promises) -> Sequencer {
        Sequencer::new(sessions)
    }

    fn call<P: Protocol>(attempt: &mut Attempt<P>, number: usize) -> bool {
        attempt.forget_answers();
        telling::call(attempt, number, None);
        telling::begin(attempt);
        true
    }

    fn end<P: Protocol>(attempt: &mut Attempt<P>) {
        attempt.dry = false;
        if let Some(turn) = attempt.modes.graph.turn.take() {
            attempt.db.modes.graph.end(turn);
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
        let Linked { turn, before, places } = &mut modes.graph;
        // A place behind all that were linked before.
        let (graph, footprint) = (&db.modes.graph, &modes.telling.footprint);
        let runs = &|turn| graph.runs(turn);
        *turn = Some(graph.announced.announce(worker.number, None, footprint, places, runs, before));
        if planted(Mutant::GraphCallsNotAwaited) {
            before.clear();
        }
        note(|| format!("is linked behind {} calls, ended ones among them", before.len()));
        let suspender = worker.suspender.as_ref();
        let waited = before.drain(..).all(|turn| wait_until(suspender, || !db.modes.graph.runs(turn)));
        attempt.begin_writes(0);
        if waited { Ok(Then::Again) } else { Err(Conflict::TimedOut.into()) }
    }
}
