//! What is not there: gaps that scans have looked at, inserts that come to them, deleted rows that scans
//! pass.
//!
//! The module's header says how a scanner's bit in a gap and an insert find each other (**Absence**).

use super::Local;
use super::accessors::{Accessed, Source};
use super::slots::{Executed, Id};
use crate::index::{Gap, GapRef, Seen};
use crate::mutant::{Mutant, planted};
use crate::protocol::gaps::GapSet;
use crate::record::RecordRef;
use crate::stamp;
use crate::sync::{Ordering, fence};

/// The gaps of the piece that runs, and those of a closure's inserts.
#[derive(Default)]
pub(super) struct Absence {
    /// Gaps that the piece has looked at.
    pub(super) scanned: GapSet,
    /// Gaps in which the piece puts rows in the places of deleted ones, and the sites that do so; they are
    /// among `scanned` too.
    pub(super) fills: Vec<(GapRef, u16)>,
    /// Transactions that inserts which are not tracked have met in gaps.
    pub(super) met: Vec<Id>,
    /// Gaps in which such inserts put rows in the places of deleted ones; they are among the gaps that are
    /// not tracked too.
    pub(super) filled: Vec<GapRef>,
}

/// A group of a deleted row that a scan of the piece has passed.
#[derive(Clone, Copy)]
pub(super) struct SkippedTombstone {
    pub(super) at: Accessed,
    /// The value version.
    pub(super) value: u32,
    /// The transaction that shows the row as absent, unless its absence is committed.
    pub(super) by: Option<Id>,
}

impl Local {
    /// Calls `found` with every other transaction that runs and may have scanned a gap; returns the bits of
    /// those that run.
    fn scanners(&self, gap: &Gap, mut found: impl FnMut(Id, Executed)) -> u64 {
        // Relaxed: under the latch, or after a fence.
        let scanners = gap.stamp().load(Ordering::Relaxed);
        let mut running = 0;
        for bit in (0..64).filter(|bit| scanners & (1 << bit) != 0) {
            for slot in (bit..self.shared.slots.len()).step_by(64) {
                let Some((id, executed)) = self.shared.slots.running(slot) else { continue };
                running |= 1 << bit;
                if slot != self.worker && !planted(Mutant::Ic3InsertIgnoresScanners) {
                    found(id, executed);
                }
            }
        }
        running
    }

    /// Notes the scanners that an untracked insert meets in a gap; returns their bits. The insert takes
    /// effect at the commit: by then they must have ended. Under its own plan no tracked scan can meet such
    /// an insert of a call; under a neighbouring plan one may.
    fn meet_scanners(&mut self, gap: &Gap) -> u64 {
        let mut met = std::mem::take(&mut self.absence.met);
        let running = self.scanners(gap, |id, _| met.push(id));
        self.absence.met = met;
        running
    }

    /// Orders what a site inserts after the transactions that have scanned the gap. Returns the bits of those
    /// that run.
    pub(super) fn come_after_scanners(&mut self, gap: &Gap, site: u16) -> u64 {
        let mut before = std::mem::take(&mut self.before);
        let running = self.scanners(gap, |id, executed| {
            if self.is_free() || self.may_come_before(id, executed, site) {
                before.push(id);
            }
        });
        before.drain(..).for_each(|id| self.depend(id, false));
        self.before = before;
        running
    }

    /// Whether all scanners that a closure's inserts met in gaps have ended.
    pub(super) fn met_have_ended(&self) -> bool {
        self.absence.met.iter().all(|id| self.shared.slots.progress(*id).has_ended())
    }

    /// Whether no running transaction has scanned a gap in which a closure puts a row in a deleted one's
    /// place. With the records locked: a scanner leaves its bit, then looks for the lock.
    pub(super) fn filled_unseen(&self) -> bool {
        if self.absence.filled.is_empty() {
            return true;
        }
        fence(Ordering::SeqCst);
        let mut unseen = true;
        for gap in &self.absence.filled {
            self.scanners(gap, |_, _| unseen = false);
        }
        unseen
    }

    /// The key of a row of this transaction is about to be added to a gap, under its latch.
    pub(super) fn before_insert(&mut self, gap: &Gap) {
        // Relaxed throughout: under the latch.
        if gap.stamp().load(Ordering::Relaxed) == 0 {
            return;
        }
        let running = match self.tracked {
            true => self.come_after_scanners(gap, self.site),
            false => self.meet_scanners(gap),
        };
        // A bit that is set later is set at a version that this insert is about to end.
        gap.stamp().store(running, Ordering::Relaxed);
    }

    /// A row of this transaction will take the place of an absent record, which is in this gap.
    pub(super) fn before_reuse(&mut self, record: RecordRef, seen: Seen) {
        // If it becomes one, or ceases to be, what was read of it does not stand.
        let is_placeholder = match self.look {
            Some(look) if self.tracked => match look.source {
                Source::Committed(stamp) => stamp::is_placeholder(stamp),
                Source::Shown { .. } => false,
            },
            _ => stamp::is_placeholder(Accessed::new(record, 0).stamp().load(Ordering::Relaxed)),
        };
        match (is_placeholder, self.tracked) {
            // The scanners that matter set their bits before the placeholder was put there.
            (true, true) => _ = self.come_after_scanners(&seen.gap, self.site),
            (true, false) => _ = self.meet_scanners(&seen.gap),
            _ if planted(Mutant::Ic3DeletedFilledUnseen) => {}
            (false, true) => {
                self.absence.scanned.push(seen);
                self.absence.fills.push((seen.gap, self.site));
            }
            (false, false) => {
                self.gaps.push(seen);
                self.absence.filled.push(seen.gap);
            }
        }
    }
}
