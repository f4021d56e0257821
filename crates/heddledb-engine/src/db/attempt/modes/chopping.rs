//! Transaction chopping: each piece of a call is a transaction of the protocol, and commits (Shasha et al.;
//! the comparator of IC3 §6.4).
//!
//! **Mechanism.** The plan has merged pieces until no SC-cycle is left, so any interleaving of pieces, each
//! serializable, is one of whole calls. A piece that conflicts is executed again for as long as it takes,
//! with the answers that those before it got (`db::recall`); it cannot be given up, so whatever may give up
//! is in the first piece ([`Options::rollback_safe`](heddledb_analysis::Options::rollback_safe)).
//!
//! **It comes to an end.** Two pieces that each lock what the other wants, or wants to validate, can fail at the same moments
//! again and again: that pauses are drawn makes it unlikely, and no more (found by the search, under `dbx-tc` in software). So a piece that has
//! failed often waits for *the turn of pieces* before it is executed again, and gives it away when it commits. By then its call has closed
//! the gate: no other begins, those under way commit or wait for the turn, and who has it is alone in the end. Who waits for it
//! holds no lock, so who has it does not wait for that one. A body that asks to be executed again, since it waits for parts that another call has yet to
//! commit ([`Conflict::Accessed`]), takes no turn: the other may need it. The turn of those that run alone is another one: who has that waits for calls
//! that are under way (a change of the plan that met a piece here waited for ten seconds, and failed).
//!
//! **Not everywhere.** Under a protocol that asks for it a call is executed as one where that meets hardly anybody (`joining`).
//!
//! Closures and epochs: as for all calls that commit in parts (`parts`, `lazy`). Additions that take effect later: `shelves`.

use super::super::OFTEN;
use super::joining::Joining;
use super::{Answer, Attempt, CallMode, Then, lazy, parts};
use crate::error::{Conflict, Error, Misuse, Result};
use crate::kind::Promises;
use crate::mutant::{Mutant, planted};
use crate::procedure::PlannedSite;
use crate::protocol::Protocol;
use crate::seam::Body;

/// A call whose pieces commit one by one.
#[derive(Default)]
pub(super) struct Chopped {
    /// The number of its procedure in the plan.
    procedure: usize,
    /// It is executed as one.
    joined: bool,
    joining: Joining,
    /// The piece that runs.
    piece: Option<u16>,
    /// It is the last: no other will be executed again after it, so nobody will ask for its answers.
    is_last: bool,
    /// The site where the body is is an addition that takes effect later.
    defers: bool,
}

impl Chopped {
    /// Whether the operation that is made is an addition that takes effect later (`shelves`).
    pub fn defers(&self) -> bool {
        self.defers
    }
}

impl CallMode for Chopped {
    type Shared = ();

    fn shared(_: usize, _: &dyn Promises) {}

    fn begin<P: Protocol>(attempt: &mut Attempt<P>, _retry: u32) -> bool {
        parts::begin(attempt)
    }

    fn call<P: Protocol>(attempt: &mut Attempt<P>, number: usize) -> bool {
        parts::call(attempt, number);
        let mut joining = std::mem::take(&mut attempt.modes.chopping.joining);
        let joined = attempt.db.modes.joins && joining.joins(number);
        attempt.modes.chopping = Self { procedure: number, joined, joining, ..Self::default() };
        if joined {
            P::joined(&mut attempt.worker.local);
        }
        true
    }

    fn commit<P: Protocol>(attempt: &mut Attempt<P>) -> Result<bool> {
        // The last piece of a call has committed.
        if attempt.called { Ok(attempt.modes.parts.log_is_long) } else { attempt.commit_writes() }
    }

    fn end<P: Protocol>(attempt: &mut Attempt<P>) {
        parts::end(attempt);
    }

    fn enter<P: Protocol>(attempt: &mut Attempt<P>, site: u16) -> Result<Answer> {
        if parts::replays(attempt, site)? {
            return Ok(Answer::Replayed);
        }
        let PlannedSite { piece, deferred, .. } = attempt.modes.parts.site(site)?;
        attempt.modes.chopping.defers = deferred;
        if attempt.modes.chopping.joined {
            return Ok(Answer::Live);
        }
        let before = attempt.modes.chopping.piece;
        if before != Some(piece) {
            if before.is_some() {
                parts::commit_part(attempt)?;
                attempt.give_piece_turn();
                attempt.begin_writes(0);
            }
            if attempt.modes.chopping.is_last {
                // Pieces are in the order of the body, or it is none that was analysed.
                return Err(Misuse::Diverged.into());
            }
            attempt.modes.chopping.piece = Some(piece);
            attempt.modes.chopping.is_last = attempt.modes.parts.is_last(piece);
            if attempt.db.modes.numbers_lazily() {
                lazy::begin_piece(attempt, piece);
            }
        }
        Ok(if attempt.modes.chopping.is_last { Answer::Live } else { parts::record(attempt, site) })
    }

    fn end_body<P: Protocol>(attempt: &mut Attempt<P>, body: &Body) -> Result<Then> {
        if parts::completes(attempt, body)? {
            let failed = P::is_too_much(&attempt.worker.local);
            parts::commit_part(attempt)?;
            let Chopped { joined, procedure, joining, .. } = &mut attempt.modes.chopping;
            if *joined {
                joining.note(*procedure, failed);
            }
            if attempt.db.modes.numbers_lazily() {
                lazy::make(attempt)?;
            }
        }
        Ok(Then::Commit)
    }

    fn retry<P: Protocol>(attempt: &mut Attempt<P>, conflict: Conflict) -> bool {
        let (local, chopping) = (&mut attempt.worker.local, &mut attempt.modes.chopping);
        if std::mem::take(&mut chopping.joined) {
            // A region ends for its own reasons, too, such as a page that is not there.
            let failed = conflict != Conflict::Region || P::is_too_much(local);
            chopping.joining.note(chopping.procedure, failed);
            P::procedure(local, Some(chopping.procedure as u16));
        }
        let again = parts::retry(attempt);
        if conflict == Conflict::Accessed && !planted(Mutant::PartsAwaitedWithTurn) {
            // Its body waits for what another call will commit, which may want the turn for that.
            attempt.give_piece_turn();
        } else if again && attempt.modes.parts.retries > OFTEN && !attempt.piece_turn {
            // Where the time for that is over it goes on without: it may stand above the call that has the turn, on one thread.
            attempt.piece_turn = attempt.db.procedures.piece_turn.take(attempt.worker.suspender.as_ref());
        }
        again
    }

    fn given_up<P: Protocol>(attempt: &mut Attempt<P>, error: Error) -> Error {
        parts::given_up(attempt, error)
    }
}
