//! What a piece reads: the newest value that any transaction shows, or the committed one.
//!
//! A look ([`Look`]) finds where the present value of each column group is. The caller copies from there,
//! then asks whether the looks still stand; if so, they are noted for the check at the end of the piece.
//! Nothing is latched.
//!
//! A value whose writer is known to abort is not read: the reader waits until it is withdrawn.

use super::absence::SkippedTombstone;
use super::accessors::{Accessed, Look, Source};
use super::piece::Item;
use super::{Ic3, Local};
use crate::access::Groups;
use crate::error::Conflict;
use crate::record::{RecordData, RecordRef, data_base};
use crate::stamp;
use crate::sync::{Ordering, wait_out};
use crate::table::{GroupSet, Layout};

impl Local {
    /// Looks for the present values of groups, shown or committed; `None` if the row does not exist.
    pub(super) fn look(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
    ) -> Result<Option<RecordData>, Conflict> {
        let first = groups.trailing_zeros() as usize;
        let look = self.look_at(Accessed::new(record, first))?;
        self.look = Some(look);
        if !groups.is_power_of_two() {
            return self.look_at_others(record, layout, groups);
        }
        Ok(look.present.then(|| match look.source {
            Source::Committed(_) => RecordData::new(record, data_base::<Ic3>(layout)),
            Source::Shown { image, .. } => {
                RecordData::new(image, layout.groups[first].span.start.wrapping_neg())
            }
        }))
    }

    /// Whether the writer that shows a value will abort. It may know so already and wait for the latch under
    /// which it marks its followers.
    #[inline(always)]
    fn will_vanish(&self, look: &Look) -> bool {
        look.doomed || look.by.is_some_and(|by| self.shared.slots.is_doomed(by))
    }

    /// Looks for the present value of a group. If its writer will abort, waits until the value is withdrawn:
    /// a reader would abort with the writer, and others with the reader, as long as transactions come faster
    /// than they learn that they must abort.
    #[inline(always)]
    fn look_at(&mut self, at: Accessed) -> Result<Look, Conflict> {
        let look = at.look()?;
        if self.will_vanish(&look) { self.look_after_withdrawal(at) } else { Ok(look) }
    }

    /// Slow path of [`Local::look_at`]. The writer waits only for latch holders, and we hold no latch.
    #[cold]
    fn look_after_withdrawal(&mut self, at: Accessed) -> Result<Look, Conflict> {
        let mut look = at.look();
        wait_out(self.suspender.as_ref(), || {
            look = at.look();
            self.is_doomed() || look.as_ref().map_or(true, |look| !self.will_vanish(look))
        });
        match look {
            Ok(look) if self.will_vanish(&look) => Err(self.doom(Conflict::Cascade)),
            look => look,
        }
    }

    /// The rest of [`Local::look`] where there are several groups, of which the first was looked at.
    fn look_at_others(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
    ) -> Result<Option<RecordData>, Conflict> {
        self.looks.clear();
        self.looks.extend(self.look);
        for group in Groups(groups).skip(1) {
            let look = self.look_at(Accessed::new(record, group))?;
            self.looks.push(look);
        }
        let shown = |look: &Look| matches!(look.source, Source::Shown { .. });
        Ok(match self.looks.iter().all(|look| look.present) {
            false => None,
            true if self.looks.iter().any(shown) => Some(self.put_together(record, layout, groups)),
            true => Some(RecordData::new(record, data_base::<Ic3>(layout))),
        })
    }

    /// Copies groups from different places into memory of our own.
    fn put_together(&mut self, record: RecordRef, layout: &'static Layout, groups: GroupSet) -> RecordData {
        let row = self.images.take(layout.words, &self.shared.chunks);
        for (group, look) in Groups(groups).zip(&self.looks) {
            let span = layout.groups[group].span;
            let (from, base) = match look.source {
                Source::Committed(_) => (record.into(), data_base::<Ic3>(layout) + span.start),
                Source::Shown { image, .. } => (image, 0),
            };
            for index in 0..span.len() {
                let word = from.word(base + index).load(Ordering::Relaxed);
                row.word(span.start + index).store(word, Ordering::Relaxed);
            }
        }
        RecordData::new(row, 0)
    }

    /// Notes the looks for this piece, if what was copied since is what they found.
    pub(super) fn looked(&mut self, record: RecordRef, layout: &'static Layout, groups: GroupSet) -> bool {
        if groups.is_power_of_two()
            && let Some(look) = self.look
        {
            let at = Accessed::new(record, groups.trailing_zeros() as usize);
            let stands = at.stands(&look);
            // Often it was read just now, by a scan or for another column.
            let again = |item: &Item| item.at == at && item.reads && item.value == look.value();
            if stands && !self.items.last().is_some_and(again) {
                self.items.push(Item { value: look.value(), reads: true, ..Item::new(at, layout) });
            }
            return stands;
        }
        let same = |(group, look): (usize, &Look)| Accessed::new(record, group).stands(look);
        if !Groups(groups).zip(&self.looks).all(same) {
            return false;
        }
        for (group, look) in Groups(groups).zip(&self.looks) {
            let at = Accessed::new(record, group);
            self.items.push(Item { value: look.value(), reads: true, ..Item::new(at, layout) });
        }
        true
    }

    /// Notes for this piece that a scan has passed a row that does not exist, if that is still so.
    #[cold]
    pub(super) fn pass(&mut self, record: RecordRef, layout: &'static Layout, groups: GroupSet) -> bool {
        let one = groups.is_power_of_two();
        let looks = if one { self.look.as_slice() } else { &self.looks };
        // One group that says so is enough: a writer that makes the row exist writes them all.
        let Some((group, look)) = Groups(groups).zip(looks).find(|(_, look)| !look.present) else {
            return false;
        };
        let at = Accessed::new(record, group);
        let by = match look.source {
            Source::Committed(stamp) if stamp::is_placeholder(stamp) => {
                return self.looked(record, layout, groups);
            }
            Source::Committed(_) => None,
            Source::Shown { by, .. } => Some(by.id()),
        };
        let stands = at.stands(look);
        if stands {
            self.passed.push(SkippedTombstone { at, value: look.value(), by });
        }
        stands
    }
}
