//! Transaction chopping: each piece of a call is a transaction of the protocol, and commits (Shasha et al.;
//! the comparator of IC3 §6.4).
//!
//! **Mechanism.** The plan has merged pieces until no SC-cycle is left, so any interleaving of pieces, each
//! serializable, is one of whole calls. A piece that conflicts is executed again for as long as it takes,
//! with the answers that those before it got (`db::recall`); it cannot be given up, so whatever may give up
//! is in the first piece ([`Options::rollback_safe`](heddledb_analysis::Options::rollback_safe)).
//!
//! **Closures** are no part of the analysis. They run while no call does: a closure closes the gate and waits
//! until those that are under way have ended. Calls that wait at the gate come before the next closure, so
//! neither starves the other.
//!
//! **One epoch.** Snapshots and recovery cut between epochs, so the pieces of a call must be of one epoch;
//! and as pieces of several calls interleave, so must all calls that run at once. A call begins when no
//! worker is pinned at an earlier epoch any more, and its pieces commit in the epoch at which it is pinned,
//! though the next may have begun; so tombstones stay one epoch longer
//! ([`EpochClock::commits_from`](crate::epoch::EpochClock)). Test: `procedures_commit_in_one_epoch`.

use super::{Answer, Attempt};
use crate::error::{Error, Misuse, Result};
use crate::procedure::{PlannedSite, PlannedType};
use crate::protocol::Protocol;
use crate::sync::wait_until;
use std::sync::Arc;

/// A call whose pieces commit one by one.
#[derive(Default)]
pub(super) struct Chopped {
    planned: Option<Arc<PlannedType>>,
    /// The piece that runs.
    piece: Option<u16>,
    /// Pieces have committed.
    committed: bool,
    /// One of them wrote.
    pub wrote: bool,
    /// How often the piece that runs was executed before.
    retries: u32,
    /// The log has become long meanwhile.
    pub log_is_long: bool,
    /// The epoch at which this worker last saw no other in an earlier one.
    together: u64,
}

impl Chopped {
    /// What the plan says of a site, which must be one of the call's type.
    pub fn site(&self, site: u16) -> Result<PlannedSite> {
        let planned = self.planned.as_ref().and_then(|planned| planned.site(site));
        Ok(planned.ok_or(Misuse::NoSite { site })?)
    }
}

impl<P: Protocol> Attempt<P> {
    /// Begins a call, or a closure, in a database whose calls commit in parts.
    pub(super) fn begin_chopped(&mut self, is_call: bool) {
        let (procedures, clock) = (&self.db.procedures, &self.db.clock);
        let (worker, suspender) = (self.worker.number, self.worker.suspender.as_ref());
        let active_calls = procedures.active_calls();
        if is_call {
            active_calls.begin(worker, suspender, || procedures.is_open());
            let together = &mut self.chopped.together;
            self.epoch = Some(clock.pin_together(worker, active_calls.sessions(), together, suspender));
            return;
        }
        wait_until(suspender, || active_calls.nobody_waits());
        procedures.close();
        self.gate = true;
        wait_until(suspender, || active_calls.is_idle());
        clock.pin(worker);
    }

    /// After an attempt has ended and its worker is no longer pinned.
    pub(super) fn end_chopped(&mut self) {
        if self.epoch.take().is_some() {
            self.db.procedures.active_calls().end(self.worker.number);
        }
    }

    /// The attempt that has begun is a call of that type.
    pub(super) fn call_chopped(&mut self, planned: Option<Arc<PlannedType>>) {
        self.chopped = Chopped { planned, together: self.chopped.together, ..Chopped::default() };
    }

    /// Before each operation of a call.
    pub(super) fn enter_piece_chopped(&mut self) -> Result<Answer> {
        let site = self.site;
        let replay_log = &mut self.worker.replay_log;
        if replay_log.repeats() {
            replay_log.expect(site.into())?;
            return Ok(Answer::Replayed);
        }
        let piece = self.chopped.site(site)?.piece;
        if self.chopped.piece != Some(piece) {
            if self.chopped.piece.is_some() {
                self.commit_piece()?;
                self.begin_writes(0);
            }
            self.chopped.piece = Some(piece);
        }
        self.worker.replay_log.push(site.into());
        Ok(Answer::Recorded)
    }

    /// Commits the piece that runs.
    pub(super) fn commit_piece(&mut self) -> Result<()> {
        let before = self.worker.last_commit;
        let writes = !self.worker.writes.is_empty();
        self.chopped.log_is_long |= self.commit_writes()?;
        // The call's time is that of the last piece that wrote. What the others read is of no later epoch.
        if self.chopped.wrote && !writes {
            self.worker.last_commit = before;
        }
        self.chopped.wrote |= writes;
        self.chopped.committed = true;
        self.chopped.retries = 0;
        self.worker.replay_log.save();
        Ok(())
    }

    /// After a conflict: the piece that runs begins again.
    pub(super) fn retry_piece_chopped(&mut self) {
        self.abort_writes();
        self.worker.replay_log.rollback_to_savepoint();
        self.chopped.retries += 1;
        self.begin_writes(self.chopped.retries);
    }

    /// What to tell the caller of a body that gave up for that reason: where pieces stand, that they do.
    pub(super) fn given_up(&self, error: Error) -> Error {
        if !self.executed.commits_pieces() || !self.chopped.committed {
            return error;
        }
        match error {
            // The epoch in which the pieces before have committed is never closed; but whether they are lost
            // is not known before the next opening.
            Error::LogFailed(why) => Error::OutcomeUnknown(why),
            error => Misuse::PiecesStand { why: error.to_string() }.into(),
        }
    }
}
