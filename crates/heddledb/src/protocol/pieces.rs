//! Executing calls of registered procedures piece by piece: what a protocol may add to [`Protocol`](super::Protocol).
//!
//! A protocol without pieces writes `impl Pieces for X {}`: a call is then executed like a closure, and none
//! of these verbs is used. The engine asks [`Pieces::PIECES`] first, which is a constant, so that a build of
//! the engine for such a protocol holds nothing of this.

use super::State;
use crate::access::WriteSet;
use crate::error::Conflict;
use crate::procedure::{Plan, Tracking};
use std::sync::Arc;

/// Where a call has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// At another piece than before.
    pub another_piece: bool,
    /// At a site whose answer has to be remembered.
    pub remembered: bool,
}

/// How calls of registered procedures are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// Like closures.
    #[default]
    Whole,
    /// Piece by piece, by the protocol's own verbs.
    Pieces,
    /// Piece by piece, each of which commits on its own: transaction chopping (IC3 §6.4).
    ///
    /// The pieces are merged until no SC-cycle is left. What may abort is one piece too: of a procedure that
    /// nowhere says `#[no_abort]`, all. If a body gives up after a piece was committed, that piece stands,
    /// and the caller is told so ([`Misuse::PiecesStand`](crate::Misuse::PiecesStand)); likewise where the
    /// body panics. A closure is no part of the analysis, so it runs while no call does.
    Chopped,
    /// In the order in which they begin: what comes before the procedure's mark `#[later]` one call after
    /// another, and what comes behind it at once, except for what conflicts. Deterministic execution (IC3
    /// §6.4).
    ///
    /// From the mark on a body must not give up, as with [`Self::Chopped`], and must access no row that it
    /// would not access with other answers ([`Misuse::Unforeseen`](crate::Misuse::Unforeseen)). A closure
    /// runs while no call does.
    Sequenced,
}

impl Execution {
    /// Whether a call commits in parts, so that what it has done may be there although it gives up.
    pub fn commits_pieces(self) -> bool {
        matches!(self, Self::Chopped | Self::Sequenced)
    }
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

    /// How calls of procedures are executed.
    fn execution(_options: &Self::Options) -> Execution {
        Execution::Whole
    }

    /// Whether additions whose result nobody uses are analysed as commuting.
    fn commutes(_options: &Self::Options) -> bool {
        true
    }

    /// Which conflicts between procedures are tracked.
    fn tracking(_options: &Self::Options) -> Tracking {
        Tracking::Nothing
    }

    /// The attempt that has begun is a call of the procedure with that number in the plan. True if it is to
    /// be executed piece by piece.
    fn call(_local: &mut Self::Local, _plan: &Arc<Plan>, _of_type: usize) -> bool {
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
