//! Transaction chopping: each piece of a call is a transaction of the protocol, and commits (Shasha et al.; the
//! comparator of IC3 §6.4).
//!
//! **Mechanism.** The plan has merged pieces until no SC-cycle is left, so any interleaving of pieces, each
//! serializable, is one of whole calls. A piece that conflicts is executed again for as long as it takes,
//! with the answers that those before it got (`db::recall`); it cannot be given up, so what may give up is in the
//! first piece ([`Options::rollback_safe`](heddledb_analysis::Options::rollback_safe)).
//!
//! **Closures** are no part of the analysis. They run while no call does: a closure closes the gate and waits until
//! those that are under way have ended. Who waits at the gate comes before the next closure, so neither starves
//! the other.
//!
//! **One epoch.** Snapshots and recovery cut between epochs, so the pieces of a call must be of one; and as pieces
//! of several calls interleave, so must all calls that run at once. A call begins when nobody is pinned at an
//! earlier epoch any more, and its pieces commit in the epoch at which it is pinned, though the next
//! may have begun; so tombstones stay one epoch longer ([`EpochClock::commits_from`](crate::epoch::EpochClock)).
//! Test: `procedures_commit_in_one_epoch`.

use super::attempt::{Answer, Attempt};
use crate::error::{Error, Misuse, Result};
use crate::procedure::{PlannedSite, PlannedType};
use crate::protocol::Protocol;
use crate::sync::{AtomicU64, Ordering, Suspender, wait_until};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// Which sessions have a call under way, and how many wait for closures to end.
pub(super) struct Underway {
    /// By worker: 1 while it has a call under way.
    calls: Box<[CachePadded<AtomicU64>]>,
    waiting: AtomicU64,
}

impl Underway {
    pub fn new(sessions: usize) -> Self {
        let calls = (0..sessions).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
        Self { calls, waiting: AtomicU64::new(0) }
    }

    /// A call begins, once the gate is open.
    fn begin(&self, worker: usize, suspender: Option<&Suspender>, is_open: impl Fn() -> bool) {
        let mut waits = false;
        loop {
            // SeqCst: either who closes the gate sees this, or we see the gate closed.
            self.calls[worker].store(1, Ordering::SeqCst);
            if is_open() {
                break;
            }
            self.calls[worker].store(0, Ordering::SeqCst);
            if !std::mem::replace(&mut waits, true) {
                self.waiting.fetch_add(1, Ordering::SeqCst);
            }
            wait_until(suspender, &is_open);
        }
        if waits {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn end(&self, worker: usize) {
        // Release: what the call did happens before whatever a closure does.
        self.calls[worker].store(0, Ordering::Release);
    }

    /// Whether no call is under way.
    fn is_idle(&self) -> bool {
        self.calls.iter().all(|call| call.load(Ordering::SeqCst) == 0)
    }

    /// Whether no call waits for the gate to open.
    fn nobody_waits(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }
}

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
    /// When this worker last saw that nobody was left in an earlier epoch.
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
        let underway = procedures.underway();
        if is_call {
            underway.begin(worker, suspender, || procedures.is_open());
            let together = &mut self.chopped.together;
            self.epoch = Some(clock.pin_together(worker, underway.calls.len(), together, suspender));
            return;
        }
        wait_until(suspender, || underway.nobody_waits());
        procedures.close();
        self.gate = true;
        wait_until(suspender, || underway.is_idle());
        clock.pin(worker);
    }

    /// After an attempt has ended and its worker is no longer pinned.
    pub(super) fn end_chopped(&mut self) {
        if self.epoch.take().is_some() {
            self.db.procedures.underway().end(self.worker.number);
        }
    }

    /// The attempt that has begun is a call of that type.
    pub(super) fn call_chopped(&mut self, planned: Option<Arc<PlannedType>>) {
        self.chopped = Chopped { planned, together: self.chopped.together, ..Chopped::default() };
    }

    /// Before each operation of a call.
    pub(super) fn arrive_chopped(&mut self) -> Result<Answer> {
        let site = self.site;
        let recall = &mut self.worker.recall;
        if recall.repeats() {
            recall.expect(site.into())?;
            return Ok(Answer::Old);
        }
        let piece = self.chopped.site(site)?.piece;
        if self.chopped.piece != Some(piece) {
            if self.chopped.piece.is_some() {
                self.commit_piece()?;
                self.begin_writes(0);
            }
            self.chopped.piece = Some(piece);
        }
        self.worker.recall.push(site.into());
        Ok(Answer::Remembered)
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
        self.worker.recall.save();
        Ok(())
    }

    /// After a conflict: the piece that runs begins again.
    pub(super) fn again_chopped(&mut self) {
        self.abort_writes();
        self.worker.recall.go_back();
        self.chopped.retries += 1;
        self.begin_writes(self.chopped.retries);
    }

    /// What the caller of a body hears that gave up for that reason: where pieces stand, that they do.
    pub(super) fn given_up(&self, error: Error) -> Error {
        if !self.executed.commits_pieces() || !self.chopped.committed {
            return error;
        }
        match error {
            // The epoch in which the pieces before have committed is never closed; but that they are lost is not
            // known before the next opening.
            Error::LogFailed(why) => Error::OutcomeUnknown(why),
            error => Misuse::PiecesStand { why: error.to_string() }.into(),
        }
    }
}
