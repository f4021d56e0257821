//! Calls in pieces, by the protocol's own verbs ([`Pieces`](crate::protocol::Pieces)).
//!
//! A piece that conflicts is executed again with the answers that those before it got (`db::recall`), as long as the
//! protocol says that this is enough. An attempt that has failed often closes the gate and runs alone, so that it
//! gets through.

use super::{Answer, Attempt, CallMode, Then, gate};
use crate::access::TakeBack;
use crate::error::{Conflict, Error, Result};
use crate::kind::Promises;
use crate::protocol::Protocol;
use crate::seam::Body;

/// Calls in pieces.
#[derive(Default)]
pub(super) struct InPieces;

impl CallMode for InPieces {
    type Shared = ();

    fn shared(_: usize, _: &dyn Promises) {}

    #[inline]
    fn begin<P: Protocol>(attempt: &mut Attempt<P>, retry: u32) -> bool {
        gate::pass(attempt, retry < OFTEN, |attempt| P::quiescent(&attempt.worker.local))
    }

    fn call<P: Protocol>(attempt: &mut Attempt<P>, number: usize) -> bool {
        attempt.forget_answers();
        let worker = &mut *attempt.worker;
        P::call(&mut worker.local, &worker.plan_cache.plan, number)
    }

    #[inline]
    fn end<P: Protocol>(attempt: &mut Attempt<P>) {
        attempt.let_others_begin();
    }

    #[inline(always)]
    fn enter<P: Protocol>(attempt: &mut Attempt<P>, site: u16) -> Result<Answer> {
        let worker = &mut *attempt.worker;
        if worker.replay_log.repeats() {
            return replay_site(attempt, site);
        }
        match P::stays_in_piece(&mut worker.local, site) {
            Some(true) => {
                worker.replay_log.begin(site);
                Ok(Answer::Recorded)
            }
            Some(false) => Ok(Answer::Live),
            None => enter_piece(attempt, site),
        }
    }

    #[inline]
    fn end_body<P: Protocol>(attempt: &mut Attempt<P>, body: &Body) -> Result<Then> {
        if body.is_done() {
            let worker = &mut *attempt.worker;
            P::finish(&mut worker.local, &mut worker.writes)?;
        }
        Ok(Then::Commit)
    }

    fn retry<P: Protocol>(attempt: &mut Attempt<P>, conflict: Conflict) -> bool {
        let worker = &mut *attempt.worker;
        if !P::retry_piece(&mut worker.local, conflict) {
            return false;
        }
        let now = attempt.db.clock.now();
        for at in worker.placeholders_before..worker.placeholders.len() {
            worker.give_up_placeholder(at, now);
        }
        worker.placeholders.truncate(worker.placeholders_before);
        worker.scanned = None;
        worker.ahead.clear();
        worker.writes.take_back(TakeBack::Piece, |_| ());
        worker.replay_log.rollback_to_savepoint();
        true
    }
}

/// So many attempts have failed that the next runs alone.
const OFTEN: u32 = 64;

/// Before an operation, where the body was told an answer before.
#[cold]
fn replay_site<P: Protocol>(attempt: &mut Attempt<P>, site: u16) -> Result<Answer> {
    let worker = &mut *attempt.worker;
    if !P::replay_site(&mut worker.local, site) {
        return Ok(Answer::Live);
    }
    match worker.replay_log.expect(site) {
        Ok(()) => Ok(Answer::Replayed),
        Err(error) => Err(diverged(attempt, error)),
    }
}

/// The body did something else than before: because something that it read anew has changed, or because it is not a
/// procedure.
#[cold]
fn diverged<P: Protocol>(attempt: &mut Attempt<P>, error: Error) -> Error {
    attempt.validate_reads().map_or_else(Error::from, |()| error)
}

/// Before an operation that may be in another piece. A function of its own, so that most accesses do without its stack.
#[inline(never)]
fn enter_piece<P: Protocol>(attempt: &mut Attempt<P>, site: u16) -> Result<Answer> {
    let worker = &mut *attempt.worker;
    let arrived = P::enter_piece(&mut worker.local, &mut worker.writes, site)?;
    if arrived.another_piece {
        worker.writes.begin_piece();
        worker.replay_log.save();
        worker.placeholders_before = worker.placeholders.len();
        // What a piece has looked for stays its own.
        worker.missed.forget();
    }
    if !arrived.remembered {
        return Ok(Answer::Live);
    }
    worker.replay_log.begin(site);
    Ok(Answer::Recorded)
}
