//! Nested OCC: a call's pieces are validated one by one, and again when it commits (the comparator of IC3
//! §6.4).
//!
//! **Mechanism.** A piece is a transaction within the transaction: at its end what it has read is validated.
//! If something of that has changed, it alone is executed again, with the answers that the pieces before it
//! got (`db::recall`). Nothing is shown and nothing waits. The commit validates everything once more, as for
//! a closure, so the outcome is that of Silo; only what fails late may have cost less.
//!
//! **Where we leave the paper.** Its pieces are cut by hand; here they are those of IC3's analysis. Additions
//! that commute are no part of it, as there.

use super::gaps::GapSet;
use super::reads::ReadSet;
use crate::error::Conflict;
use crate::procedure::PlannedType;
use crate::record::ConcurrencyWords;
use crate::sync::{Ordering, fence};
use std::sync::Arc;

/// Where a call is in its pieces.
#[derive(Default)]
pub(super) struct Nested {
    /// What the plan says of its type; `None` for a closure.
    planned: Option<Arc<PlannedType>>,
    piece: Option<u16>,
    /// How much was read before the piece that runs.
    reads: usize,
    gaps: usize,
    /// What an earlier piece has read does not stand: executing the last piece again cannot mend that.
    doomed: bool,
}

impl Nested {
    /// A closure begins, or what may become a call.
    #[inline]
    pub fn begin(&mut self) {
        *self = Self::default();
    }

    /// The attempt is a call.
    pub fn call(&mut self, planned: Option<&Arc<PlannedType>>) {
        self.planned = planned.map(Arc::clone);
    }

    /// The next access is at that site; true if it is of another piece than before.
    pub fn enter_piece<C: ConcurrencyWords>(
        &mut self,
        site: u16,
        reads: &ReadSet<C>,
        gaps: &GapSet,
    ) -> Result<bool, Conflict> {
        let Some(site) = self.planned.as_ref().and_then(|planned| planned.site(site)) else {
            return Ok(false);
        };
        let piece = site.piece;
        if self.piece == Some(piece) {
            return Ok(false);
        }
        self.end_piece(reads, gaps)?;
        (self.piece, self.reads, self.gaps) = (Some(piece), reads.len(), gaps.len());
        Ok(true)
    }

    /// Validates what the piece that runs has read.
    pub fn end_piece<C: ConcurrencyWords>(&self, reads: &ReadSet<C>, gaps: &GapSet) -> Result<(), Conflict> {
        // No lock of ours to order before: the reads alone come first.
        fence(Ordering::Acquire);
        reads.validate_from(self.reads, |_, _| false)?;
        gaps.validate_from(self.gaps)
    }

    /// Everything was validated, and something does not stand.
    pub fn failed<C: ConcurrencyWords>(&mut self, reads: &ReadSet<C>, gaps: &GapSet) {
        self.doomed = self.end_piece(reads, gaps).is_ok();
    }

    /// Whether it is enough to execute the last piece again. If so, forgets what it has read.
    pub fn retry_piece<C: ConcurrencyWords>(&mut self, reads: &mut ReadSet<C>, gaps: &mut GapSet) -> bool {
        if self.doomed || self.planned.is_none() {
            return false;
        }
        reads.truncate(self.reads);
        gaps.truncate(self.gaps);
        true
    }
}
