//! Reading at a moment: what a snapshot does in the engine.
//!
//! A snapshot holds a *boundary* (`crate::snapshot`) and takes of each column group the version that was
//! current there: the record's own words, or one of the old versions that hang off it. It locks and
//! validates nothing. Its worker is pinned in the epoch only while it looks something up, never for the
//! snapshot's whole life, so it holds back neither commits nor the epoch, only the reclamation of what it may
//! still read.

use super::scan::Bounds;
use super::{Attempt, SCAN_AHEAD, SCAN_PASSES};
use crate::access::Groups;
use crate::db::store::{copy_group, is_ordered};
use crate::error::{Misuse, Result};
use crate::index::Lookup;
use crate::protocol::Protocol;
use crate::record::{RecordRef, Shape};
use crate::seam::{Access, Moment, Part, Range, Visit};
use crate::sight::Sight;

impl<P: Protocol> Attempt<P> {
    /// Runs `look` pinned in the epoch, so that nothing that it finds is reused meanwhile.
    #[inline(always)]
    pub(super) fn pinned<R>(&mut self, look: impl FnOnce(&mut Self) -> R) -> R {
        self.db.clock.pin(self.worker.number);
        let result = look(self);
        self.db.clock.unpin(self.worker.number);
        result
    }

    /// Reads a row as of a moment.
    pub(super) fn get_row_at(&mut self, moment: Moment, access: &Access<'_>) -> Result<Option<Sight<'_>>> {
        let found = self.pinned(|attempt| -> Result<Option<usize>> {
            match attempt.db.stores.get(access.wanted.relation)?.index.get(access.key) {
                Lookup::Found(record) => Ok(attempt.copy_at(moment, record, access.wanted)),
                Lookup::Missing(_) => Ok(None),
            }
        })?;
        Ok(found.map(|at| self.released(at, access.wanted.span)))
    }

    /// Visits rows as of a moment.
    pub(super) fn scan_rows_at(
        &mut self,
        moment: Moment,
        range: &Range<'_>,
        visit: &mut dyn FnMut(&[u64], Sight<'_>) -> Visit,
    ) -> Result<()> {
        let relation = range.wanted.relation;
        if !is_ordered(relation) {
            return Err(Misuse::NotOrdered { table: relation.name() }.into());
        }
        let Some((low, high)) = range.bounds else { return Ok(()) };
        let mut bounds = Bounds::new(low, high);
        let mut left = range.limit;
        while left > 0 {
            // Pinned for one leaf at a time. Entries that this snapshot sees stay in the index, in
            // whichever leaf, so the leaves need not be of one moment.
            let goes_on = self.pinned(|attempt| -> Result<bool> {
                let mut leaf = std::mem::take(&mut attempt.worker.leaf);
                leaf.clear();
                let store = attempt.db.stores.get(relation)?;
                let most = left.saturating_add(SCAN_PASSES);
                store.index.read_leaf(range.direction, bounds.low(), bounds.high(), most, &mut leaf);
                leaf.records().iter().take(left).for_each(|record| record.prefetch_first(SCAN_AHEAD));
                let mut goes_on = true;
                for (number, record) in leaf.records().iter().enumerate() {
                    if let Some(at) = attempt.copy_at(moment, *record, range.wanted) {
                        left -= 1;
                        let key = leaf.key(number, relation.key_words);
                        let visited = visit(key, attempt.released(at, range.wanted.span));
                        if visited == Visit::Enough || left == 0 {
                            goes_on = false;
                            break;
                        }
                    }
                }
                goes_on &= bounds.advance(&leaf, range.direction);
                attempt.worker.leaf = leaf;
                Ok(goes_on)
            })?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Copies the words that are wanted of a record as of a moment to the end of the scratch buffer. Returns
    /// where; `None` where the row was absent.
    fn copy_at(&mut self, moment: Moment, record: RecordRef, part: Part<'_>) -> Option<usize> {
        let writes = &mut self.worker.writes;
        let at = writes.reserve(part.span.end);
        let words = writes.scratch(at, part.span.end);
        let present = Groups(part.groups).all(|group| {
            let wanted = part.span_of(group);
            let target = match wanted.len() {
                0 => &mut [][..],
                len => &mut words[wanted.start..][..len],
            };
            copy_group(record, Shape::of::<P>(), part.relation.layout, group, wanted, moment.epoch(), target)
        });
        if !present {
            writes.release(at);
        }
        present.then_some(at)
    }
}
