//! Staging and storing, inserts, patches, deletions.

use super::modes::{self, AccessMode};
use super::{Answer, Attempt, Placeholder, StagedRow};
use crate::access::{Groups, Vacancy, copy_key};
use crate::db::store::{init_record, is_ordered};
use crate::error::{Conflict, Misuse, Result};
use crate::index::{self, Gap, Seen};
use crate::mutant::{Mutant, planted};
use crate::protocol::{Intent, Protocol};
use crate::record::{RecordRef, name_words};
use crate::seam::{Access, Inserted, Part, Patch, Purpose, Refused, Staged};
use crate::sync::{Phase, Work, note, phase, work};
use crate::table::{Definition, GroupSet};

impl<P: Protocol> Attempt<P> {
    /// Before anything is written.
    #[inline(always)]
    pub(super) fn may_write(&self) -> Result<()> {
        if self.reads_only { Err(Misuse::ReadOnly.into()) } else { Ok(()) }
    }

    /// Announces a write and adds its groups to the record's entry, which is made if it is not known.
    #[inline(always)]
    fn start_write(
        &mut self,
        record: RecordRef,
        known: Result<usize, Vacancy>,
        access: &Access<'_>,
        groups: GroupSet,
        was_present: bool,
    ) -> Result<usize> {
        self.may_write()?;
        let worker = &mut *self.worker;
        let env = self.db.env(worker.number, self.isolation);
        let writes = &mut worker.writes;
        debug_assert_eq!(known.ok(), writes.find(record), "the number of a write stays");
        let Access { wanted: Part { relation, .. }, key, .. } = *access;
        let layout = relation.layout;
        P::write(&mut worker.local, env, record, layout, groups, known.unwrap_or(writes.writes().len()))?;
        Ok(match known {
            Ok(write) => {
                writes.widen(write, groups);
                write
            }
            Err(vacancy) => {
                writes.start(vacancy, record, layout, relation.number(), key, groups, was_present)
            }
        })
    }

    /// Copies a row that is about to be changed to the scratch buffer.
    #[inline(always)]
    pub(super) fn stage_row(&mut self, access: &Access<'_>, purpose: Purpose) -> Result<Staged<'_>> {
        let answer = self.enter_access(access)?;
        if answer == Answer::Replayed {
            return self.staged_before(access, purpose);
        }
        let mode = match purpose {
            Purpose::Update | Purpose::UpdateWatched => AccessMode::Writes,
            Purpose::UpdateWithEntries => AccessMode::WritesEntries,
            Purpose::DeleteWithEntries => return self.stage_for_delete(access, answer),
        };
        let Some(record) = self.find(access, mode)? else {
            self.remember(answer, access.wanted.span, None);
            return Ok(Staged::Missing);
        };
        let is_dry = P::PIECES && self.dry;
        if purpose == Purpose::Update
            && access.wanted.groups.is_power_of_two()
            && !is_dry
            && let Err(vacancy) = self.worker.writes.find_or_vacancy(record)
        {
            return self.stage_and_store(record, vacancy, access, answer);
        }
        let staged = self.stage_record(record, access)?;
        self.remember(answer, access.wanted.span, staged.map(|row| row.at));
        self.staged = staged;
        Ok(match staged {
            Some(row) => Staged::New(self.worker.writes.scratch(row.at, access.wanted.span.end)),
            None => Staged::Missing,
        })
    }

    /// Stages a column group of a row that was not written before, as written: what the caller then makes of the words is
    /// what will be installed.
    ///
    /// The write is noted before the row is read, and taken back where there is none: a record that is in no cache holds up
    /// all that is stored behind its load, and the next operation's load with it where the store queue is full.
    #[inline(always)]
    fn stage_and_store(
        &mut self,
        record: RecordRef,
        vacancy: Vacancy,
        access: &Access<'_>,
        answer: Answer,
    ) -> Result<Staged<'_>> {
        self.may_write()?;
        let Access { wanted: Part { relation, groups, span, .. }, key, .. } = *access;
        let (writes, layout) = (&mut self.worker.writes, relation.layout);
        let at = writes.begin_replaced(record, layout, relation.number(), key, groups, span);
        work(Work::Words(span.len()));
        let stored = self.copy_and_announce(record, access, answer, at);
        let writes = &mut self.worker.writes;
        if !matches!(stored, Ok(true)) {
            if !planted(Mutant::BegunWriteStays) {
                writes.take_back_begun();
            }
            return stored.map(|_| Staged::Missing);
        }
        writes.enter(record, vacancy);
        Ok(Staged::Stored(writes.scratch(at, span.end)))
    }

    /// Copies a row whose write was begun, and announces the write. False if the row is absent.
    #[inline(always)]
    fn copy_and_announce(
        &mut self,
        record: RecordRef,
        access: &Access<'_>,
        answer: Answer,
        at: usize,
    ) -> Result<bool> {
        let Part { relation, groups, span, .. } = access.wanted;
        let present = self.copy_to_change(record, access, at)?;
        self.remember(answer, span, present.then_some(at));
        if present {
            let worker = &mut *self.worker;
            let (env, number) =
                (self.db.env(worker.number, self.isolation), worker.writes.writes().len() - 1);
            P::write(&mut worker.local, env, record, relation.layout, groups, number)?;
        }
        Ok(present)
    }

    #[inline(never)]
    fn stage_record(&mut self, record: RecordRef, access: &Access<'_>) -> Result<Option<StagedRow>> {
        let at = match self.worker.writes.find(record) {
            Some(write) if !self.worker.writes.writes()[write].present => return Ok(None),
            Some(write) => self.stage_own(write, &access.wanted, Intent::Update)?,
            None => {
                let at = self.worker.writes.reserve(access.wanted.span.end);
                work(Work::Words(access.wanted.span.len()));
                if !self.copy_to_change(record, access, at)? {
                    return Ok(None);
                }
                at
            }
        };
        Ok(Some(StagedRow { record, at }))
    }

    /// Copies a row that this transaction has not written.
    #[inline(always)]
    fn copy_to_change(&mut self, record: RecordRef, access: &Access<'_>, at: usize) -> Result<bool> {
        let Part { relation, groups, span, .. } = access.wanted;
        match self.copy_one(record, relation, groups, span, Intent::Update, at)? {
            Some(present) => Ok(present),
            None => self.copy_groups_to_change(record, access, at),
        }
    }

    /// A function of its own, so that rows of one group do without its stack.
    #[inline(never)]
    fn copy_groups_to_change(&mut self, record: RecordRef, access: &Access<'_>, at: usize) -> Result<bool> {
        self.copy_groups(record, &access.wanted, Intent::Update, at)
    }

    /// A row that will be deleted with its index entries.
    fn stage_for_delete(&mut self, access: &Access<'_>, answer: Answer) -> Result<Staged<'_>> {
        modes::row(self, access, AccessMode::WritesEntries)?;
        let at = self.copy_of(access, AccessMode::Reads, Intent::Update)?;
        if answer == Answer::Recorded {
            self.worker.replay_log.push(at.is_some().into());
        }
        Ok(match at {
            Some(at) => Staged::New(self.worker.writes.last(at, access.wanted.span.end)),
            None => Staged::Missing,
        })
    }

    #[cold]
    fn staged_before(&mut self, access: &Access<'_>, purpose: Purpose) -> Result<Staged<'_>> {
        if purpose == Purpose::DeleteWithEntries {
            let deleted = self.worker.replay_log.next()? != 0;
            return Ok(match deleted {
                true => Staged::Old { words: &mut [], refused: None },
                false => Staged::Missing,
            });
        }
        Ok(match self.replay_row(access.wanted.span)? {
            Some(at) => {
                let refused = Refused::from_number(self.worker.replay_log.refused());
                Staged::Old { words: self.worker.writes.last(at, access.wanted.span.end), refused }
            }
            None => Staged::Missing,
        })
    }

    /// Writes column groups of the row that was staged last.
    #[inline(always)]
    pub(super) fn store_row(&mut self, access: &Access<'_>, changed: GroupSet) -> Result<()> {
        let StagedRow { record, at } = self.staged.take().expect("a row was staged");
        if changed == 0 || P::PIECES && self.dry {
            return Ok(());
        }
        let known = self.worker.writes.find_or_vacancy(record);
        let write = self.start_write(record, known, access, changed, true)?;
        for group in Groups(changed) {
            let part = access.wanted.span_of(group);
            self.worker.writes.replace(write, part, at + part.start);
        }
        Ok(())
    }

    /// Makes a row exist, whose words the caller fills in.
    pub(super) fn insert_row(&mut self, access: &Access<'_>) -> Result<Inserted<'_>> {
        if self.enter_access(access)? == Answer::Replayed {
            return Ok(match Refused::from_number(self.worker.replay_log.refused()) {
                None => Inserted::Old,
                Some(Refused::Row) => Inserted::Exists,
                Some(Refused::Entry(entry)) => Inserted::Refused { entry },
            });
        }
        match self.insert_record(access)? {
            Some(at) => {
                Ok(Inserted::New(self.worker.writes.scratch(at, access.wanted.relation.layout.words)))
            }
            None => Ok(Inserted::Exists),
        }
    }

    /// Adds a row. Returns where in the scratch buffer to write its words; `None` if the row exists.
    fn insert_record(&mut self, access: &Access<'_>) -> Result<Option<usize>> {
        self.may_write()?;
        let Access { wanted: Part { relation, .. }, key, .. } = *access;
        let layout = relation.layout;
        modes::row(self, access, AccessMode::Writes)?;
        if P::PIECES && self.dry {
            return Ok(Some(self.worker.writes.reserve(layout.words)));
        }
        work(Work::Operation);
        work(Work::Words(layout.words));
        note(|| format!("inserts {}{key:?}", layout.name));
        let number = relation.number();
        P::visit_key(&mut self.worker.local, number, key);
        let (record, found_in) = self.place_record(relation, key, false)?;
        let worker = &mut *self.worker;
        let all = layout.all_groups();
        let write = match worker.writes.find_or_vacancy(record) {
            Err(vacancy)
                if found_in.is_none()
                    && P::own_insert(&mut worker.local, record, layout, worker.writes.writes().len()) =>
            {
                worker.writes.start(vacancy, record, layout, number, key, all, false)
            }
            known => {
                if self.exists(record, known.ok(), relation, all, Intent::Update)? {
                    // Where another transaction filled our own placeholder before we read it, "there is a row"
                    // would contradict the absence that we may have seen in the gap before we changed it.
                    return if found_in.is_none() { Err(Conflict::Phantom.into()) } else { Ok(None) };
                }
                if let Some(seen) = found_in {
                    P::reuse_absent(&mut self.worker.local, record, seen);
                }
                self.start_write(record, known, access, all, false)?
            }
        };
        let writes = &mut self.worker.writes;
        let at = writes.reserve(layout.words);
        // What is between the columns is zero too.
        writes.scratch(at, layout.words).fill(0);
        writes.set_full(write, at);
        Ok(Some(at))
    }

    /// The record of a key; where there is none an absent one is put into the index. With it the gap that it was found in, if
    /// another transaction, or this one, has put it there before: a placeholder or a deleted record.
    #[inline(always)]
    pub(super) fn place_record(
        &mut self,
        relation: &'static Definition,
        key: &[u64],
        intended: bool,
    ) -> Result<(RecordRef, Option<Seen>)> {
        let worker = &mut *self.worker;
        let store = self.db.stores.get(relation)?;
        let (number, layout) = (store.number, relation.layout);
        // Before the latch: see `Arena::allocate`.
        let block = worker.arena.allocate(number, store.block_words);
        if P::REGIONS {
            worker.lent = Some((number, block));
        }
        let local = &mut worker.local;
        phase(Phase::Index);
        let mut make = |gap: &Gap| {
            P::before_insert(local, gap);
            init_record::<P>(block, layout, gap)
        };
        // In software too, so that both executors touch the same memory: what only regions touch may never be present.
        let inserted = match P::REGIONS {
            false => store.index.insert(key, &mut make),
            true => store.index.insert_untended(key, worker.number, &mut make),
        };
        phase(Phase::Body);
        if P::REGIONS {
            worker.lent = None;
        }
        match inserted {
            index::Inserted::Exists(record, seen) => {
                worker.arena.release(number, block);
                Ok((record, Some(seen)))
            }
            index::Inserted::Added { record, change, splits } => {
                name_words::<P>(record, layout, key);
                // A tree is to be tended where it has split.
                if P::REGIONS && (change.split.is_some() || !is_ordered(relation)) {
                    worker.untended.push(number, key);
                }
                let sought = worker.missed.is(number, key) || planted(Mutant::AnyInsertSought);
                P::own_gap_changed(&mut worker.local, change, sought && !intended);
                for split in splits.into_iter().flatten() {
                    P::own_gap_changed(&mut worker.local, split, false);
                }
                let key_at = worker.writes.reserve(key.len());
                copy_key(worker.writes.scratch(key_at, key.len()), key);
                worker.placeholders.push(Placeholder {
                    relation: number as u32,
                    layout,
                    key: key_at as u32,
                    key_words: key.len() as u8,
                    record,
                    intended,
                });
                Ok((record, None))
            }
        }
    }

    /// Deletes a row; false if there was none.
    pub(super) fn delete_row(&mut self, access: &Access<'_>) -> Result<bool> {
        let answer = self.enter_access(access)?;
        if answer == Answer::Replayed {
            return Ok(self.worker.replay_log.next()? != 0);
        }
        let deleted = match self.find(access, AccessMode::Writes)? {
            Some(record) => self.delete_record(record, access)?,
            None => false,
        };
        if answer == Answer::Recorded {
            self.worker.replay_log.push(deleted.into());
        }
        Ok(deleted)
    }

    fn delete_record(&mut self, record: RecordRef, access: &Access<'_>) -> Result<bool> {
        let all = access.wanted.relation.layout.all_groups();
        let known = self.worker.writes.find_or_vacancy(record);
        if !self.exists(record, known.ok(), access.wanted.relation, all, Intent::Update)? {
            return Ok(false);
        }
        if P::PIECES && self.dry {
            return Ok(true);
        }
        let write = self.start_write(record, known, access, all, true)?;
        if !planted(Mutant::DeleteLeavesRow) {
            self.worker.writes.set_absent(write);
        }
        Ok(true)
    }

    /// Writes to a row whose present value does not matter; false if there is none.
    #[inline(always)]
    pub(super) fn patch_row(&mut self, access: &Access<'_>, patch: Patch<'_>) -> Result<bool> {
        if self.enter_access(access)? == Answer::Replayed {
            return Ok(self.worker.replay_log.refused() == 0);
        }
        let groups = access.wanted.groups;
        let mode = match patch {
            Patch::Add { .. } => AccessMode::Adds,
            Patch::Merge { .. } => AccessMode::Writes,
        };
        if P::PIECES && self.dry {
            modes::row(self, access, mode)?;
            return Ok(true);
        }
        if let Patch::Add { word, summand } = patch
            && let Some(outcome) = modes::put_aside(self, access, word, summand)
        {
            return outcome;
        }
        let Some(record) = self.find(access, mode)? else { return Ok(false) };
        let writes = &mut self.worker.writes;
        let known = writes.find_or_vacancy(record);
        let own = known.ok().map(|write| writes.writes()[write].present);
        if !own.unwrap_or_else(|| P::exists(&mut self.worker.local, record)) {
            // The answer depends on the absence, so it is read like anything else.
            if own.is_some() || !self.exists(record, None, access.wanted.relation, groups, Intent::Read)? {
                return Ok(false);
            }
        }
        let write = self.start_write(record, known, access, groups, true)?;
        let writes = &mut self.worker.writes;
        match patch {
            Patch::Add { word, summand } => {
                writes.add(write, word, summand);
                if planted(Mutant::AddAppliedTwice) {
                    writes.add(write, word, summand);
                }
            }
            Patch::Merge { values: &[value], masks: &[mask] } => {
                let at = writes.reserve(2);
                writes.scratch(at, 2).copy_from_slice(&[value, mask]);
                writes.merge(write, access.wanted.span, at);
            }
            Patch::Merge { values, masks } => {
                for group in Groups(groups) {
                    let span = access.wanted.span_of(group);
                    let from = span.start - access.wanted.span.start;
                    let at = writes.reserve(span.len() * 2);
                    let (to_values, to_masks) = writes.scratch(at, span.len() * 2).split_at_mut(span.len());
                    to_values.copy_from_slice(&values[from..][..span.len()]);
                    to_masks.copy_from_slice(&masks[from..][..span.len()]);
                    writes.merge(write, span, at);
                }
            }
        }
        Ok(true)
    }
}
