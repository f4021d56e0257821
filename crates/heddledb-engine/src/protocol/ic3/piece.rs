//! A piece: what it has accessed, its beginning, its end (steps 1 to 4 of the module's header), and its
//! entries in the accessor lists.

use super::absence::SkippedTombstone;
use super::accessors::{ACCESSOR_WORDS, Accessed, Accessor, Doing, value_of};
use super::slots::Executed;
use super::{Ic3, Local};
use crate::access::{Write, WriteSet};
use crate::error::Conflict;
use crate::mutant::{Mutant, planted};
use crate::procedure::{PlannedSite, Tracking};
use crate::record::{RecordRef, data_base};
use crate::sync::{Ordering, Phase, Work, fence, note, phase, point, work};
use crate::table::Layout;

/// Where a piece stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its number in its type.
    pub(super) piece: u16,
    /// Its rank, of the parity of its plan.
    pub(super) rank: u16,
}

/// A tracked access of the piece that runs.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) at: Accessed,
    pub(super) layout: &'static Layout,
    /// The number in the write set; only if `writes`.
    pub(super) write: u32,
    /// The value version that was read; only if `reads`.
    pub(super) value: u32,
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// Another item names the same group and does what this one would.
    pub(super) double: bool,
}

impl Item {
    #[inline(always)]
    pub(super) fn new(at: Accessed, layout: &'static Layout) -> Self {
        Self { at, layout, write: 0, value: 0, reads: false, writes: false, double: false }
    }

    /// Whether the group is what the piece saw. Under the latch; `access` is the access word before.
    #[inline(always)]
    pub(super) fn stands(&self, access: u64, writes: &WriteSet) -> bool {
        match self.reads {
            true => value_of(access) == self.value,
            // A blind write saw the row there, or a placeholder missing, without a look that counts; or the
            // transaction has shown the row before, and then knows it from itself.
            false => {
                let write = &writes.writes()[self.write as usize];
                write.exposed & (1 << self.at.group) != 0 || self.at.is_present() == write.was_present
            }
        }
    }
}

/// A record that the piece has added. As long as no other transaction has touched it, its data words serve as
/// the worker's own memory: there is no row, and if the transaction aborts there has been none.
#[derive(Clone, Copy)]
pub(super) struct Fresh {
    pub(super) record: RecordRef,
    pub(super) layout: &'static Layout,
    /// The number in the write set.
    pub(super) write: u32,
}

impl Fresh {
    /// All its groups.
    #[inline(always)]
    pub(super) fn groups(self) -> impl Iterator<Item = Accessed> {
        (0..self.layout.groups.len()).map(move |group| Accessed::new(self.record, group))
    }
}

/// An accessor of this transaction in a list.
#[derive(Clone, Copy)]
pub(super) struct Entered {
    pub(super) at: Accessed,
    pub(super) accessor: Accessor,
}

/// Where an attempt stands in its pieces.
#[derive(Default)]
pub(super) struct PieceState {
    /// The piece that runs, once there is one.
    pub(super) place: Option<Place>,
    /// How often this attempt has executed a piece again.
    pub(super) repeated: u32,
    /// An error after which no piece can be executed again: the whole attempt must end.
    pub(super) doomed: bool,
    /// The piece that runs has failed; its next access waits for its turn.
    pub(super) has_failed: bool,
    /// The turn that this attempt has.
    pub(super) turn: Option<usize>,
    /// How many reads and gaps that are not tracked there were before this piece.
    pub(super) reads_before: usize,
    pub(super) gaps_before: usize,
}

impl Local {
    /// Ends the piece that runs, and begins that of a site.
    #[inline(never)]
    pub(super) fn begin_piece(&mut self, site: PlannedSite, writes: &mut WriteSet) -> Result<(), Conflict> {
        phase(Phase::Commit);
        self.end_piece(writes)?;
        if self.is_doomed() {
            return Err(self.doom(Conflict::Cascade));
        }
        phase(Phase::Body);
        let place = Place { piece: site.piece, rank: site.rank };
        self.piece.place = Some(place);
        (self.piece.reads_before, self.piece.gaps_before) = (self.reads.len(), self.gaps.len());
        if site.tracked && !self.options.optimistic_constraint {
            self.wait_for_rank(place)?;
        }
        Ok(())
    }

    /// Whether the piece that runs has accessed nothing that is tracked.
    #[inline(always)]
    pub(super) fn is_idle(&self) -> bool {
        self.items.is_empty() && self.fresh.is_empty() && self.absence.scanned.is_empty()
    }

    /// Ends the piece that runs: steps 1 to 4 of the module's header.
    pub(super) fn end_piece(&mut self, writes: &mut WriteSet) -> Result<(), Conflict> {
        let Some(place) = self.piece.place else { return Ok(()) };
        if self.is_idle() {
            self.leave_turn();
            return Ok(());
        }
        work(Work::Checks(self.items.len() + self.fresh.len()));
        self.wait_for_rank(place)?;
        point("piece");
        self.latch_items(writes)?;
        let gaps = match self.latch_gaps() {
            Ok(gaps) => gaps,
            Err(conflict) => {
                self.unlatch_all(0);
                return Err(conflict);
            }
        };
        point("piece latched");
        if self.call.is_transitional
            && let Some(id) = self.ahead_of_us(place)
        {
            self.unlatch_all(gaps);
            return Err(self.give_way(id));
        }
        let bit = 1 << (self.worker % 64);
        for seen in &self.absence.scanned.looks()[..gaps] {
            if !planted(Mutant::Ic3ScanLeavesNoBit) {
                // Relaxed: under the latch.
                let stamp = seen.gap.stamp();
                stamp.store(stamp.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
            }
        }
        if !self.passed.is_empty() {
            // After the bits, before the look: see `filled_unseen`.
            fence(Ordering::SeqCst);
            let stands = |passed: &SkippedTombstone| {
                let is_own = || self.items.iter().any(|item| item.at == passed.at);
                passed.at.still_passes(passed.value, is_own)
            };
            if !self.passed.iter().all(stands) && !planted(Mutant::Ic3PassedNotChecked) {
                self.unlatch_all(gaps);
                return Err(Conflict::ReadChanged);
            }
        }
        let alone = self.dependencies.len();
        for at in 0..self.passed.len() {
            if let Some(id) = self.passed[at].by
                && !planted(Mutant::Ic3DeletionNotFollowed)
            {
                self.depend(id, true);
            }
        }
        for at in 0..self.absence.fills.len() {
            let (gap, site) = self.absence.fills[at];
            self.come_after_scanners(&gap, site);
        }
        let (items, fresh) = (std::mem::take(&mut self.items), std::mem::take(&mut self.fresh));
        for item in &items {
            if !item.double {
                self.enter(item, writes);
            }
        }
        for fresh in &fresh {
            self.enter_fresh(*fresh, writes);
        }
        self.count(place.piece, self.dependencies.len() > alone);
        // Before the latches are let go: an insert that finds our bit in a gap must find our rank.
        self.shared.slots.advance(self.id(), Executed::new(place.rank, self.call.parity));
        self.has_shown = true;
        note(|| format!("has executed rank {}", place.rank));
        self.unlatch_gaps(gaps);
        for item in &items {
            if !item.double {
                item.at.unlatch(item.at.before_latch(), item.writes);
            }
        }
        for fresh in &fresh {
            for at in fresh.groups() {
                at.unlatch(0, true);
            }
        }
        (self.items, self.fresh) = (items, fresh);
        self.forget_piece();
        self.leave_turn();
        Ok(())
    }

    /// Forgets what the piece that runs has accessed.
    #[inline]
    pub(super) fn forget_piece(&mut self) {
        self.items.clear();
        self.fresh.clear();
        self.absence.scanned.clear();
        self.passed.clear();
        self.absence.fills.clear();
    }

    /// Forgets the writes of the piece that runs that are not left. What was read for them stays.
    pub(super) fn forget_writes(&mut self, left: &WriteSet) {
        self.fresh.retain(|fresh| (fresh.write as usize) < left.writes().len());
        for item in &mut self.items {
            let group = 1 << item.at.group;
            item.writes &=
                left.writes().get(item.write as usize).is_some_and(|write| write.groups & group != 0);
        }
        self.items.retain(|item| item.reads || item.writes);
    }

    /// Enters an item into its group's list and learns on which transactions this one depends. Under the
    /// latch.
    #[inline]
    fn enter(&mut self, item: &Item, writes: &mut WriteSet) {
        let Item { at, layout, reads, .. } = *item;
        let write = item.writes.then(|| &writes.writes()[item.write as usize]);
        // Without ranks another may have come between two writes of ours, and if it aborts, so must we; else
        // we would not wait for those on which it depends (found by the search: datm/10).
        let blind = !reads && write.is_some_and(Write::is_full) && !self.is_free();
        let mut older = at.newest();
        while let Some(accessor) = older {
            if accessor.writes() {
                // Even a blind write shows the rest of the group as that one left it.
                self.depend(accessor.id(), !blind);
                break;
            }
            if item.writes && !planted(Mutant::Ic3ReadersNotAwaited) {
                self.depend(accessor.id(), false);
            }
            older = accessor.older();
        }
        let span = layout.groups[at.group as usize].span;
        let doing = write.map_or(Doing::Reads, |write| Doing::Writes { present: write.present, blind });
        let shows = write.filter(|write| write.present);
        let words = if shows.is_some() { span.len() } else { 0 };
        let block = self.images.take(ACCESSOR_WORDS + words, &self.shared.chunks);
        let image = block.part(ACCESSOR_WORDS);
        let accessor = Accessor::new(block.into(), self.id(), doing, image);
        if let Some(write) = shows {
            let from = match older.and_then(Accessor::image) {
                Some(image) => image,
                None => at.record.part(data_base::<Ic3>(layout) + span.start),
            };
            let lost = older.is_some() && planted(Mutant::Ic3ImageWithoutLastWriter);
            // A row that comes into being has no words before.
            if !write.is_full() && !lost {
                for index in 0..words {
                    // Relaxed throughout: published by the latch's release.
                    let word = from.word(index).load(Ordering::Relaxed);
                    image.word(index).store(word, Ordering::Relaxed);
                }
            }
            let image = |word: usize| image.word(word - span.start);
            writes.apply(write, span, image);
        }
        if item.writes {
            writes.expose(item.write as usize, 1 << at.group);
        }
        at.enter(accessor);
        self.entered.push(Entered { at, accessor });
    }

    /// Enters a record that the piece has added, alone in the lists of its groups. Under all their latches.
    #[inline]
    fn enter_fresh(&mut self, fresh: Fresh, writes: &mut WriteSet) {
        let Fresh { record, layout, write } = fresh;
        let doing = Doing::Writes { present: writes.writes()[write as usize].present, blind: true };
        let base = data_base::<Ic3>(layout);
        writes.show_in_place(write as usize, base);
        let block = self.images.take(layout.groups.len() * ACCESSOR_WORDS, &self.shared.chunks);
        for (number, group) in layout.groups.iter().enumerate() {
            let at = Accessed::new(record, number);
            let (own, image) = (block.part(number * ACCESSOR_WORDS), record.part(base + group.span.start));
            let accessor = Accessor::new(own, self.id(), doing, image);
            at.enter_alone(accessor);
            self.entered.push(Entered { at, accessor });
        }
    }

    /// Counts a piece at a hot vertex, and whether it met another transaction.
    #[inline]
    fn count(&mut self, piece: u16, met: bool) {
        /// Pieces after which a vertex is judged.
        const PIECES: u32 = 1 << 16;
        /// Of this many pieces of a hot vertex at least one should meet another transaction.
        const RARE: u32 = 1 << 10;
        let Some(planned) = &self.call.of_type else { return };
        let vertex = planned.pieces[piece as usize].vertex;
        let counts = &mut self.call.met_at[vertex as usize];
        counts.0 += 1;
        counts.1 += u32::from(met);
        if counts.0 == PIECES {
            if counts.1 < PIECES / RARE && self.options.tracking == Tracking::Contended {
                self.call.hotness_hint = Some((vertex, false));
            }
            *counts = (0, 0);
        }
    }
}
