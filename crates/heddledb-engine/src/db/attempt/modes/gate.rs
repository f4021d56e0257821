//! The gate, through which attempts begin: one that has failed often closes it, waits until no other is under way, and runs
//! alone, so that it gets through.

use super::Attempt;
use crate::db::common::Common;
use crate::protocol::Protocol;
use crate::sync::wait_until;

/// Pins the worker once the gate is open; unless the attempt `may_meet` others, it closes the gate and waits until it
/// `is_alone`. False, and nothing has begun, where the time for that is over.
#[inline(always)]
pub(super) fn pass<P: Protocol>(
    attempt: &mut Attempt<P>,
    may_meet: bool,
    is_alone: impl FnMut(&Attempt<P>) -> bool,
) -> bool {
    attempt.db.clock.pin(attempt.worker.number);
    (may_meet && attempt.db.procedures.is_open()) || wait(attempt, may_meet, is_alone)
}

#[cold]
fn wait<P: Protocol>(
    attempt: &mut Attempt<P>,
    may_meet: bool,
    mut is_alone: impl FnMut(&Attempt<P>) -> bool,
) -> bool {
    let Common { clock, procedures, .. } = &**attempt.db;
    let (worker, suspender) = (attempt.worker.number, attempt.worker.suspender.as_ref());
    clock.unpin(worker);
    if may_meet {
        loop {
            if !procedures.wait_open(suspender) {
                return false;
            }
            clock.pin(worker);
            if procedures.is_open() {
                return true;
            }
            clock.unpin(worker);
        }
    }
    if !procedures.turn.take(suspender) {
        return false;
    }
    procedures.close();
    (attempt.turn, attempt.gate) = (true, true);
    let suspender = attempt.worker.suspender.as_ref();
    if !wait_until(suspender, || is_alone(attempt)) {
        attempt.let_others_begin();
        return false;
    }
    attempt.db.clock.pin(worker);
    true
}
