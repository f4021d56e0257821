//! Executing calls of registered procedures piece by piece: what a protocol may add to [`Protocol`](super::Protocol).
//!
//! A protocol without pieces writes `impl Pieces for X {}`: a call is then executed like a closure, and none
//! of these verbs is used. The engine asks [`Pieces::PIECES`] first, which is a constant, so that a build of
//! the engine for such a protocol holds nothing of this.

use super::State;
use crate::access::WriteSet;
use crate::error::Conflict;
use crate::procedure::Plan;
use std::sync::Arc;

/// Where a call has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// At another piece than before.
    pub another_piece: bool,
    /// At a site whose answer has to be remembered.
    pub remembered: bool,
}

/// The verbs of a protocol that executes calls piece by piece.
///
/// **Contract.** After `begin`, `call` comes once; then `site` before each access, and, where `call` returned
/// true, one of `stays_in_piece`, `enter_piece` and `replay_site`; `finish` before `commit`. After a conflict
/// in a piece `retry_piece` says whether the accesses begin again with the sites of the pieces that stand; if
/// not, `abort` follows.
pub(crate) trait Pieces: State {
    /// Whether there are options under which calls of procedures are executed piece by piece. If not, a call
    /// is like a closure, and none of the verbs here is used.
    const PIECES: bool = false;

    /// The attempt that has begun is a call of the procedure with that number in the plan. True if it is to
    /// be executed piece by piece.
    fn call(_local: &mut Self::Local, _plan: &Arc<Plan>, _of_type: usize) -> bool {
        false
    }

    /// The attempt that has begun is a call of the procedure with that number in the plan, however it is executed, or a
    /// closure. Only where the protocol has [`REGIONS`](super::Protocol::REGIONS).
    fn procedure(_local: &mut Self::Local, _number: Option<u16>) {}

    /// All pieces of that call are executed as one.
    fn joined(_local: &mut Self::Local) {}

    /// Whether others have met a region of what is executed, or it had too little room: less at a time would have done better.
    fn is_too_much(_local: &Self::Local) -> bool {
        false
    }

    /// The next access of a call stands at that site.
    #[inline(always)]
    fn site(_local: &mut Self::Local, _site: u16) {}

    /// After an attempt: a vertex that had better be hot, or cold. Asked once.
    #[inline(always)]
    fn hotness_hint(_local: &mut Self::Local) -> Option<(u16, bool)> {
        None
    }

    /// The next access stands at a site of the procedure. If that is in the piece that runs and there is
    /// nothing more to it, whether the answer is to be remembered; `None` leaves it to
    /// [`Pieces::enter_piece`].
    #[inline(always)]
    fn stays_in_piece(_local: &mut Self::Local, _site: u16) -> Option<bool> {
        None
    }

    /// The next access stands at a site of the procedure. Ends the piece before, if this is another.
    fn enter_piece(
        _local: &mut Self::Local,
        _writes: &mut WriteSet,
        _site: u16,
    ) -> Result<Arrived, Conflict> {
        Ok(Arrived { another_piece: false, remembered: false })
    }

    /// The next access stands at a site of a piece that stands. Whether its answer was remembered; if not, it
    /// is made again, as one that is not tracked.
    fn replay_site(_local: &mut Self::Local, _site: u16) -> bool {
        true
    }

    /// Ends the last piece.
    fn finish(_local: &mut Self::Local, _writes: &mut WriteSet) -> Result<(), Conflict> {
        Ok(())
    }

    /// After a conflict in a call: whether it is enough to execute the last piece again. If so, forgets it.
    fn retry_piece(_local: &mut Self::Local, _conflict: Conflict) -> bool {
        false
    }

    /// Whether no other call is under way.
    fn quiescent(_local: &Self::Local) -> bool {
        true
    }
}
