//! What a worker has in its hands.

use super::batch::Batch;
use super::pieces::{Pieces, Progress};
use super::sleepers::Bed;
use crate::footprint::Footprint;
use crate::sync::{Suspender, lock};
use std::ops::Range;
use std::sync::Arc;

/// What a worker has in its hands.
pub(crate) struct Seat<J> {
    /// The batch that it executes calls of.
    pub(super) batch: Option<Arc<Batch<J>>>,
    /// Calls that it is to execute, the last first.
    pub(super) kept: Vec<u32>,
    /// Calls that it is to announce: of which batch, how many of it are its, and which are left.
    pub(super) announces: Option<(Arc<Batch<J>>, u32, Range<u32>)>,
    pub(super) doing: Option<Doing>,
    /// Of a call that is executed in pieces.
    pub(super) progress: Progress,
    /// The events after which it has found nothing to build.
    pub(super) idle_at: Option<u64>,
    /// It builds a batch before it executes what may begin.
    pub(super) builds: bool,
    /// Where it sleeps, once it has.
    pub(super) bed: Option<Arc<Bed>>,
}

/// What a worker does with which call of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Announces(u32),
    Executes(u32),
}

impl<J> Default for Seat<J> {
    fn default() -> Self {
        Self {
            batch: None,
            kept: Vec::new(),
            announces: None,
            doing: None,
            progress: Progress::default(),
            idle_at: None,
            builds: false,
            bed: None,
        }
    }
}

impl<J: Clone> Seat<J> {
    /// Whether the call at hand is to be announced, and not executed; `None` if there is none.
    pub fn announces(&self) -> Option<bool> {
        self.doing.map(|doing| matches!(doing, Doing::Announces(_)))
    }

    /// Whether others wait for nothing that the worker has, but for what it has not said that it has done.
    pub fn is_empty_handed(&self) -> bool {
        self.kept.is_empty() && self.announces.is_none()
    }

    /// Exchanges what the call at hand has told for another footprint.
    pub fn swap(&self, footprint: &mut Footprint) {
        let (batch, call) = match self.doing {
            Some(Doing::Announces(call)) => (self.announces.as_ref().map(|(batch, ..)| batch), call),
            Some(Doing::Executes(call)) => (self.batch.as_ref(), call),
            None => return,
        };
        if let Some(batch) = batch {
            std::mem::swap(&mut *lock(&batch.vertex(call).footprint), footprint);
        }
    }

    /// Whether the call at hand is executed in pieces.
    pub fn in_pieces(&self) -> bool {
        pieces_of(&self.batch, self.doing).is_some()
    }

    /// The pieces of the batch, the call at hand, and how far that is, if it is executed in pieces.
    pub(super) fn pieces(&mut self) -> Option<(&Pieces, u32, &mut Progress)> {
        let (pieces, call) = pieces_of(&self.batch, self.doing)?;
        Some((pieces, call, &mut self.progress))
    }

    /// The call at hand, which is executed in pieces, comes to one of its accesses: points first, and then ranges. Waits for those
    /// before it. False if it has let go of that already.
    pub fn come(&mut self, unit: usize, suspender: Option<&Suspender>) -> bool {
        let pieces = self.pieces();
        pieces.is_none_or(|(pieces, call, progress)| pieces.come(call, unit as u32, progress, suspender))
    }

    /// Whether the call at hand keeps something that others wait for, and that it will not access any more.
    pub fn is_due(&self) -> bool {
        self.progress.is_due
    }

    /// What the call at hand has done since it last let go of something is done again.
    pub fn begin_again(&mut self) {
        self.progress.begin_again();
    }

    /// What the call at hand has done so far stands: it lets go of what it will not access again.
    pub fn let_go(&mut self) {
        if let Some((pieces, call, progress)) = self.pieces() {
            pieces.let_go(call, progress);
        }
    }
}

/// The pieces of the batch, and the call that is executed, if it is one of them.
fn pieces_of<J>(batch: &Option<Arc<Batch<J>>>, doing: Option<Doing>) -> Option<(&Pieces, u32)> {
    match (doing, batch) {
        (Some(Doing::Executes(call)), Some(batch)) if batch.pieces.has(call) => Some((&batch.pieces, call)),
        _ => None,
    }
}
