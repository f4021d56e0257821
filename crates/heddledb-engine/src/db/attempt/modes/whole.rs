//! Calls that are executed as closures are.
//!
//! Under a protocol that defers, rows in demand are queued for nearly always, and a transaction that has read one in its body
//! may fail again and again. One that has failed often begins alone.

use super::{Attempt, CallMode, gate};
use crate::kind::Promises;
use crate::protocol::Protocol;

/// The verbs as they are unless a mode says otherwise.
#[derive(Default)]
pub(super) struct Whole;

impl CallMode for Whole {
    type Shared = ();

    fn shared(_: usize, _: &dyn Promises) {}

    #[inline(always)]
    fn begin<P: Protocol>(attempt: &mut Attempt<P>, retry: u32) -> bool {
        if P::DEFERS {
            return begin_at_gate(attempt, retry);
        }
        attempt.db.clock.pin(attempt.worker.number);
        true
    }

    #[inline(always)]
    fn end<P: Protocol>(attempt: &mut Attempt<P>) {
        if P::DEFERS {
            attempt.let_others_begin();
        }
    }
}

/// So many attempts have failed that the next runs alone. Not fewer: everyone waits for it, and where all transactions
/// read in their bodies on 64 cores, one in fifty fails 16 times.
const OFTEN: u32 = 64;

/// One that runs alone looks so many times whether the others have ended, and then begins all the same: there may be
/// a snapshot that stays, or a body that waits for this one.
const LOOKS: u32 = 1_000;

fn begin_at_gate<P: Protocol>(attempt: &mut Attempt<P>, retry: u32) -> bool {
    let mut looks = 0;
    gate::pass(attempt, retry < OFTEN, |attempt| {
        looks += 1;
        looks > LOOKS || !attempt.db.clock.others_are_pinned(attempt.worker.number)
    })
}
