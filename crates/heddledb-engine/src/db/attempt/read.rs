//! Finding the record of a key, and reading it.

use super::modes::{self, AccessMode};
use super::{Answer, Attempt};
use crate::access::{Groups, Write, WriteSet};
use crate::error::{Conflict, Result};
use crate::index::Lookup;
use crate::mutant::{Mutant, planted};
use crate::protocol::{Intent, Protocol, Sighted};
use crate::record::{RecordData, RecordRef, data_base};
use crate::seam::{Access, Part};
use crate::sight::Sight;
use crate::sync::{IN_PLACE, Phase, Work, note, phase, work};
use crate::table::{Definition, GroupSet, Layout, Span};
use crate::words::Words;

impl<P: Protocol> Attempt<P> {
    /// Reads a row by its key.
    #[inline(always)]
    pub(super) fn get_row(&mut self, access: &Access<'_>) -> Result<Option<Sight<'_>>> {
        match self.enter_access(access)? {
            Answer::Live => {}
            answer => return self.get_in_piece(access, answer),
        }
        match self.find(access, AccessMode::Reads)? {
            Some(record) => {
                let Part { relation, groups, .. } = access.wanted;
                match self.look_in_place(record, relation, groups, Intent::Read)? {
                    Some(seen) => Ok(seen),
                    None => self.look_by_copy(record, access),
                }
            }
            None => Ok(None),
        }
    }

    /// A function of its own, so that what is read in place does without its stack.
    #[inline(never)]
    fn look_by_copy(&mut self, record: RecordRef, access: &Access<'_>) -> Result<Option<Sight<'_>>> {
        let at = self.read(record, &access.wanted, Intent::Read)?;
        Ok(at.map(|at| self.released(at, access.wanted.span)))
    }

    /// As [`Self::get_row`], where the answer is replayed, or recorded.
    fn get_in_piece(&mut self, access: &Access<'_>, answer: Answer) -> Result<Option<Sight<'_>>> {
        let at = match answer {
            Answer::Replayed => self.replay_row(access.wanted.span)?,
            _ => {
                let at = self.copy_of(access, AccessMode::Reads, Intent::Read)?;
                self.remember(answer, access.wanted.span, at);
                at
            }
        };
        Ok(at.map(|at| self.released(at, access.wanted.span)))
    }

    /// Reads the row again by a copy, where what was read in place did not stand.
    #[cold]
    pub(super) fn get_row_again(&mut self, access: &Access<'_>) -> Result<Option<Sight<'_>>> {
        P::unsight(&mut self.worker.local);
        let at = self.copy_of(access, AccessMode::Reads, Intent::Read)?;
        Ok(at.map(|at| self.released(at, access.wanted.span)))
    }

    /// Copies a row by its key to the end of the scratch buffer.
    pub(super) fn copy_of(
        &mut self,
        access: &Access<'_>,
        mode: AccessMode,
        intent: Intent,
    ) -> Result<Option<usize>> {
        match self.find(access, mode)? {
            Some(record) => self.read(record, &access.wanted, intent),
            None => Ok(None),
        }
    }

    /// A private copy at `at` of the scratch buffer, which is free again for the next operation.
    #[inline(always)]
    pub(in crate::db) fn released(&mut self, at: usize, span: Span) -> Sight<'_> {
        Sight::copied(self.worker.writes.last(at, span.end))
    }

    /// A row as this transaction sees it, in place if possible.
    #[inline(always)]
    pub(super) fn look(
        &mut self,
        record: RecordRef,
        part: &Part<'_>,
        intent: Intent,
    ) -> Result<Option<Sight<'_>>> {
        match self.look_in_place(record, part.relation, part.groups, intent)? {
            Some(seen) => Ok(seen),
            None => {
                let at = self.read(record, part, intent)?;
                Ok(at.map(|at| self.released(at, part.span)))
            }
        }
    }

    /// A row in place, or that there is none; `None` if it must be copied.
    #[inline(always)]
    fn look_in_place<'a>(
        &mut self,
        record: RecordRef,
        relation: &'static Definition,
        groups: GroupSet,
        intent: Intent,
    ) -> Result<Option<Option<Sight<'a>>>> {
        if !IN_PLACE || !groups.is_power_of_two() || self.worker.writes.find(record).is_some() {
            return Ok(None);
        }
        let worker = &mut *self.worker;
        let env = self.db.env(worker.number, self.isolation);
        let (group, layout) = (groups.trailing_zeros() as usize, relation.layout);
        Ok(match P::sight(&mut worker.local, env, record, layout, group, intent)? {
            Sighted::Absent => Some(None),
            Sighted::At { word, was } => Some(Some(record.sight(data_base::<P>(layout), layout, word, was))),
            Sighted::Hidden => None,
        })
    }

    /// Copies a row as this transaction sees it to the end of the scratch buffer: the word `i` of its data
    /// comes to the `i`-th word there. Returns where.
    pub(super) fn read(
        &mut self,
        record: RecordRef,
        part: &Part<'_>,
        intent: Intent,
    ) -> Result<Option<usize>> {
        if let Some(write) = self.worker.writes.find(record)
            && !planted(Mutant::OwnWritesUnseen)
        {
            return self.read_own(write, part, intent);
        }
        let at = self.worker.writes.reserve(part.span.end);
        let present = self.copy(record, part, intent, at)?;
        if !present {
            self.worker.writes.release(at);
        }
        Ok(present.then_some(at))
    }

    /// Copies a row that this transaction has written to the end of the scratch buffer.
    fn read_own(&mut self, write: usize, part: &Part<'_>, intent: Intent) -> Result<Option<usize>> {
        if !self.worker.writes.writes()[write].present {
            return Ok(None);
        }
        self.stage_own(write, part, intent).map(Some)
    }

    /// Copies the words of a written, present record, own patches applied.
    pub(super) fn stage_own(&mut self, write: usize, part: &Part<'_>, intent: Intent) -> Result<usize> {
        let Span { start, end } = part.span;
        let at = self.worker.writes.reserve(end);
        let Write { record, layout, .. } = self.worker.writes.writes()[write];
        if !self.worker.writes.is_full(write) {
            let worker = &mut *self.worker;
            let env = self.db.env(worker.number, self.isolation);
            let target = worker.writes.scratch(at, end);
            work(Work::Words(part.span.len()));
            let copy = |data: RecordData| {
                for group in Groups(part.groups) {
                    let words = layout.groups[group].span;
                    let (start, end) = (words.start.max(start), words.end.min(end));
                    copy_words(data, start, target.get_mut(start..end).unwrap_or_default());
                }
            };
            P::read(&mut worker.local, env, record, layout, part.groups, intent, copy)?
                .ok_or(Conflict::ReadChanged)?;
        }
        self.worker.writes.overlay(write, start, at + start, part.span.len());
        Ok(at)
    }

    /// Copies words of a record to `at` of the scratch buffer. False if the row is absent.
    #[inline(always)]
    pub(super) fn copy(
        &mut self,
        record: RecordRef,
        part: &Part<'_>,
        intent: Intent,
        at: usize,
    ) -> Result<bool> {
        let Part { relation, groups, span, .. } = *part;
        match self.copy_one(record, relation, groups, span, intent, at)? {
            Some(present) => Ok(present),
            None => self.copy_groups(record, part, intent, at),
        }
    }

    /// Copies words of a record of one column group, as [`Self::copy`] but without its loops; `None` if that cannot be
    /// done.
    #[inline(always)]
    pub(super) fn copy_one(
        &mut self,
        record: RecordRef,
        relation: &'static Definition,
        groups: GroupSet,
        span: Span,
        intent: Intent,
        at: usize,
    ) -> Result<Option<bool>> {
        if !IN_PLACE || !groups.is_power_of_two() {
            return Ok(None);
        }
        let worker = &mut *self.worker;
        let env = self.db.env(worker.number, self.isolation);
        let (group, layout) = (groups.trailing_zeros() as usize, relation.layout);
        match P::sight(&mut worker.local, env, record, layout, group, intent)? {
            Sighted::Absent => return Ok(Some(false)),
            Sighted::At { word, was } => {
                let base = data_base::<P>(layout);
                copy_span(RecordData::new(record, base), span, &mut worker.writes, at);
                if record.sight(base, layout, word, was).stands() {
                    return Ok(Some(true));
                }
                P::unsight(&mut worker.local);
            }
            Sighted::Hidden => {}
        }
        self.copy_group(record, layout, groups, span, intent, at).map(Some)
    }

    /// As [`Self::copy_one`], of a row that is not shown in place.
    #[inline(never)]
    fn copy_group(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        span: Span,
        intent: Intent,
        at: usize,
    ) -> Result<bool> {
        let worker = &mut *self.worker;
        let env = self.db.env(worker.number, self.isolation);
        let writes = &mut worker.writes;
        let copy = |data: RecordData| copy_span(data, span, writes, at);
        Ok(P::read(&mut worker.local, env, record, layout, groups, intent, copy)?.is_some())
    }

    /// As [`Self::copy`], whatever the groups.
    #[inline(never)]
    pub(super) fn copy_groups(
        &mut self,
        record: RecordRef,
        part: &Part<'_>,
        intent: Intent,
        at: usize,
    ) -> Result<bool> {
        let worker = &mut *self.worker;
        let env = self.db.env(worker.number, self.isolation);
        let layout = part.relation.layout;
        let target = worker.writes.scratch(at, part.span.end);
        let copy = |data: RecordData| {
            for group in Groups(part.groups) {
                let Span { start, end } = part.span_of(group);
                copy_words(data, start, target.get_mut(start..end).unwrap_or_default());
            }
        };
        Ok(P::read(&mut worker.local, env, record, layout, part.groups, intent, copy)?.is_some())
    }

    /// Whether there is a row, as this transaction sees it; `known` is the number of its own write.
    #[inline(always)]
    pub(super) fn exists(
        &mut self,
        record: RecordRef,
        known: Option<usize>,
        relation: &'static Definition,
        groups: GroupSet,
        intent: Intent,
    ) -> Result<bool> {
        if let Some(write) = known
            && !planted(Mutant::OwnWritesUnseen)
        {
            return Ok(self.read_own(write, &Part::existence(relation, groups), intent)?.is_some());
        }
        let worker = &mut *self.worker;
        let env = self.db.env(worker.number, self.isolation);
        if IN_PLACE && groups.is_power_of_two() {
            // As in `copy_one`, without a copy.
            let (group, layout) = (groups.trailing_zeros() as usize, relation.layout);
            match P::sight(&mut worker.local, env, record, layout, group, intent)? {
                Sighted::Absent => return Ok(false),
                Sighted::At { word, was } => {
                    if record.sight(data_base::<P>(layout), layout, word, was).stands() {
                        return Ok(true);
                    }
                    P::unsight(&mut worker.local);
                }
                Sighted::Hidden => {}
            }
        }
        let nothing = |_: RecordData| ();
        Ok(P::read(&mut worker.local, env, record, relation.layout, groups, intent, nothing)?.is_some())
    }

    /// The record of a key, or the absence of one, which is then remembered.
    #[inline(always)]
    pub(super) fn find(&mut self, access: &Access<'_>, mode: AccessMode) -> Result<Option<RecordRef>> {
        modes::row(self, access, mode)?;
        work(Work::Operation);
        let Access { wanted: Part { relation, .. }, key, .. } = *access;
        note(|| format!("looks for {}{key:?}", relation.name()));
        let worker = &mut *self.worker;
        let number = relation.number();
        // Often what a scan or a prefetch has found is used next. Should the record have left the index since, it is
        // sealed, and the attempt finds that out as for any other record.
        let scanned = match worker.scanned {
            Some((scanned, direction)) if scanned == number => worker.leaf.find(key, direction),
            _ => None,
        };
        if let Some(record) = scanned.or_else(|| worker.ahead.get(number, key)) {
            P::visit_key(&mut worker.local, number, key);
            return Ok(Some(record));
        }
        phase(Phase::Index);
        let found = self.db.stores.get_numbered(number, relation)?.index.get(key);
        phase(Phase::Body);
        match found {
            Lookup::Found(record) => {
                P::visit_key(&mut worker.local, number, key);
                Ok(Some(record))
            }
            Lookup::Missing(seen) => {
                note(|| "finds no entry".to_owned());
                P::observe_gap(&mut worker.local, seen);
                worker.missed.set(number, key);
                P::show_gap(&mut worker.local)?;
                Ok(None)
            }
        }
    }
}

/// Copies the words of a span to where they belong in a row at `at` of the scratch buffer.
#[inline(always)]
fn copy_span(data: RecordData, span: Span, writes: &mut WriteSet, at: usize) {
    if span.len() == 1 {
        writes.scratch(at + span.start, 1)[0] = data.word(span.start);
    } else {
        copy_long_span(data, span, writes, at);
    }
}

/// A function of its own: what its loop prepares is in the way of a single word.
#[inline(never)]
fn copy_long_span(data: RecordData, span: Span, writes: &mut WriteSet, at: usize) {
    copy_words(data, span.start, writes.scratch(at + span.start, span.len()));
}

/// Copies the words from `start` on.
#[inline(always)]
fn copy_words(data: RecordData, start: usize, target: &mut [u64]) {
    if let [word] = target {
        // As often as not a row's only column; the loop begins with more than that.
        *word = data.word(start);
        return;
    }
    target.iter_mut().enumerate().for_each(|(at, word)| *word = data.word(start + at));
}
