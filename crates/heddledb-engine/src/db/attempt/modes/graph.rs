//! Calls in a graph: each waits, before it runs, for those before it that it conflicts with (DGCC §3; DORADD).
//!
//! **Mechanism.** The body of a call is executed twice. The first time it has no effect, at no particular place in any
//! order, and tells what it accesses ([`Footprint`]). Then the call is *linked*: under one lock it gets its number, and an
//! edge from each earlier call that is under way and will access the same, where one of the two writes. When all of these
//! have ended it is executed for good, and commits by the protocol's own verbs. So calls that conflict wait, in an order
//! that is known, instead of failing; and those that do not run side by side. The session that called executes its call.
//!
//! **Safety.** The graph decides who waits, and nothing else. What a call accesses without having told, since the first
//! execution saw another state, it accesses as a closure would: it is counted
//! ([`Stats::unforeseen`](crate::metrics::Stats::unforeseen)), and the commit is validated. So is what meets closures,
//! which are no part of the graph. An attempt that fails gets a new place behind those that came meanwhile.
//!
//! **No deadlock.** A call waits only for calls with lower numbers. One that gives up while it waits has done nothing.
//!
//! **Where we leave the paper.** Calls are not collected into batches, whose graphs are executed one after another: each is
//! linked when it comes, so no core waits for the end of a batch (PITFALLS DG9). The unit is the whole call, so an abort
//! needs no condition pieces (DG6). Access sets are found, not declared; and what they miss is not wrong, only slower (DG1,
//! DG5).

use super::footprint::{Footprint, Turn, claims};
use super::sequencer::Sequencer;
use super::{AccessMode, Attempt, CallMode, Keys};
use crate::error::{Conflict, Error, Result};
use crate::mutant::{Mutant, planted};
use crate::protocol::Protocol;
use crate::seam::{Access, Body, Part};
use crate::sync::{lock, note, wait_until};
use crate::table::Definition;

/// How often an execution without effect is begun again that failed. It fails when another commits for longer than a read
/// waits, as one does whose thread is not running.
const DRY_RETRIES: u32 = 10_000;

/// A call in the graph.
#[derive(Default)]
pub(super) struct Linked {
    /// Its place, once it has one.
    turn: Option<Turn>,
    footprint: Footprint,
    /// How often its execution without effect was begun again.
    retries: u32,
    /// The calls that it waits for.
    before: Vec<Turn>,
}

impl CallMode for Linked {
    type Shared = Sequencer;

    fn shared(sessions: usize) -> Sequencer {
        Sequencer::new(sessions)
    }

    fn call<P: Protocol>(attempt: &mut Attempt<P>, _number: usize) -> bool {
        attempt.forget_answers();
        let Linked { footprint, retries, .. } = &mut attempt.modes.graph;
        footprint.clear();
        *retries = 0;
        attempt.dry = true;
        true
    }

    fn end<P: Protocol>(attempt: &mut Attempt<P>) {
        attempt.dry = false;
        if let Some(turn) = attempt.modes.graph.turn.take() {
            attempt.db.modes.graph.end(turn);
        }
    }

    fn row<P: Protocol>(attempt: &mut Attempt<P>, access: &Access<'_>, mode: AccessMode) -> Result<()> {
        let Access { wanted: Part { relation, .. }, key, .. } = *access;
        let (groups, writes) = claims(access, mode);
        let footprint = &mut attempt.modes.graph.footprint;
        if attempt.dry {
            footprint.add_point(relation.number(), key, groups, writes);
        } else if !footprint.has_point(relation.number(), key, groups, writes) {
            unforeseen(attempt, relation, key);
        }
        Ok(())
    }

    fn range<P: Protocol>(
        attempt: &mut Attempt<P>,
        relation: &'static Definition,
        (low, high): Keys<'_>,
    ) -> Result<()> {
        let footprint = &mut attempt.modes.graph.footprint;
        if attempt.dry {
            footprint.add_range(relation.number(), low, high);
        } else if !footprint.has_range(relation.number(), low, high) {
            unforeseen(attempt, relation, low);
        }
        Ok(())
    }

    fn end_body<P: Protocol>(attempt: &mut Attempt<P>, body: &Body) -> Result<bool> {
        if !attempt.dry {
            return Ok(false);
        }
        attempt.abort_writes();
        attempt.failed = false;
        let overdue = attempt.is_overdue();
        let Attempt { db, worker, modes, .. } = attempt;
        let Linked { turn, footprint, before, retries } = &mut modes.graph;
        // It met a commit that keeps its locks for long, and has not told all.
        if matches!(body, Body::Gave(Error::Conflict(_))) && *retries < DRY_RETRIES && !overdue {
            footprint.clear();
            *retries += 1;
            let retries = *retries;
            attempt.pause_before(retries);
            attempt.begin_writes(0);
            return Ok(true);
        }
        // However else the body ended: what it has told so far is linked, and what it will do is decided when it runs.
        attempt.dry = false;
        *turn = Some(link(&db.modes.graph, worker.number, footprint, before));
        if planted(Mutant::GraphCallsNotAwaited) {
            before.clear();
        }
        note(|| format!("is linked behind {} calls", before.len()));
        let suspender = worker.suspender.as_ref();
        let waited = before.drain(..).all(|turn| wait_until(suspender, || !db.modes.graph.runs(turn)));
        attempt.begin_writes(0);
        if waited { Ok(true) } else { Err(Conflict::TimedOut.into()) }
    }
}

/// Gives a call its place behind all that were linked before. Those that it must let end are added to `before`.
fn link(graph: &Sequencer, worker: usize, footprint: &Footprint, before: &mut Vec<Turn>) -> Turn {
    let mut announced = lock(&graph.announced);
    let turn = Turn { worker, number: graph.next() };
    announced.announce(turn, footprint, |other| graph.runs(other), before);
    turn
}

#[cold]
fn unforeseen<P: Protocol>(attempt: &mut Attempt<P>, relation: &'static Definition, key: &[u64]) {
    note(|| format!("has not told that it would access {}{key:?}", relation.name()));
    attempt.db.counters.unforeseen(attempt.worker.number);
}
