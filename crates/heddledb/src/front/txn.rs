//! A running transaction as a body sees it: typed tables and keys above, words below.

use super::alter::{alter, changed, check_lengths, load_keys, merge, store_changed};
use super::entries::{DuplicateEntry, fill_primary_key};
use super::overdue::Overdue;
use crate::error::{Conflict, Error, Met, Misuse, Result};
use crate::mutant::{Mutant, planted};
use crate::reading::{Decode, Reading, Wanted};
use crate::seam::{Access, Ahead, Callee, Inserted, Purpose, Range, Refused, Staged, Visit, Worker};
use crate::sight::Sight;
use crate::table::{Columns, Index, IndexSet, IndexVisitor, Relation, Row, Table, encode_key};
use crate::values::{Outside, Values};
use crate::words::WordsCopy;
use heddledb_core::procedure::{Declaration, Held};
use std::sync::Arc;
use std::time::Duration;

/// From how many bytes on a value is better decoded into memory than kept in registers until its row stands, for which
/// a second reading must be out of the way: measured.
const LARGE: usize = 96;

/// A running transaction; see [`Transaction`](crate::Transaction).
///
/// Sessions hand it to closures, [`Database::begin`](crate::Database::begin) gives it out inside an
/// [`OwnedTransaction`](crate::OwnedTransaction).
pub struct Txn {
    pub(super) worker: Box<dyn Worker>,
    /// Who keeps the values that are not in their rows, and the worker's number.
    pub(super) values: Arc<dyn Values>,
    pub(super) number: usize,
    /// Set by the first error that ends it: the attempt can only be aborted.
    pub(super) failed: bool,
    /// The conflict that did it, if it was one.
    pub(super) conflict: Option<Conflict>,
    /// It is a call of a registered procedure.
    called: bool,
    /// Where the procedure's sites begin that runs within the one that was called, and the site of the next
    /// access.
    first_site: u16,
    pub(super) site: u16,
    /// What holds the procedure that runs to what it declares.
    pub(super) held: Held,
    /// The function runs that tells what a call will access.
    pub(super) tells: bool,
    /// The access that conflicted last.
    pub(super) met: Option<Met>,
    /// Scratch.
    words: Vec<u64>,
}

/// The database's values by way of a session, which counts references to this and not to what all sessions share.
struct OfSession(Arc<dyn Values>);

impl Values for OfSession {
    fn read(&self, value: Outside, out: &mut Vec<u8>) {
        self.0.read(value, out);
    }

    fn put(&self, worker: usize, value: &[u8]) -> u64 {
        self.0.put(worker, value)
    }
}

/// Takes note of the access of an operation that has conflicted.
#[cold]
pub(super) fn note_met(met: &mut Option<Met>, access: &Access<'_>, error: Error) -> Error {
    if error.is_retryable() {
        *met = Some(Met::new(access.wanted.relation.name(), access.key));
    }
    error
}

impl Txn {
    pub(super) fn new(worker: Box<dyn Worker>) -> Self {
        let held = Held::default();
        let number = worker.number();
        let values = Arc::new(OfSession(worker.engine().values()));
        Self {
            worker,
            values,
            number,
            failed: false,
            conflict: None,
            called: false,
            first_site: 0,
            site: 0,
            held,
            tells: false,
            met: None,
            words: Vec::new(),
        }
    }

    /// What is left of a transaction that was open for longer than one may be: it is ended, and operations say so.
    pub(super) fn ended_after(self, limit: Duration) -> Self {
        Self { worker: Box::new(Overdue::end(self.worker, limit)), ..self }
    }

    /// Begins an attempt. False if there is no such procedure, or if it was kept from its begin for too long.
    #[inline]
    pub(super) fn begin(&mut self, retry: u32, call: Option<Callee>) -> bool {
        self.restart();
        self.held.let_go();
        self.called = call.is_some();
        self.worker.begin(retry, call)
    }

    /// The body will be executed from its start.
    #[inline]
    pub(super) fn restart(&mut self) {
        self.failed = false;
        (self.first_site, self.site) = (0, 0);
    }

    /// Whether it is a call of a registered procedure.
    pub(super) fn is_call(&self) -> bool {
        self.called
    }

    /// As [`Reading::get_words`], where the row was found and did not stand.
    #[cold]
    #[inline(never)]
    fn get_words_again<D: Decode>(&mut self, access: &Access<'_>, decode: D) -> Result<Option<D::Value>> {
        loop {
            let row = match self.worker.get_again(access) {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.failed_by(&error);
                    return Err(error);
                }
            };
            let value = decode.decode(&row, &*self.values);
            if row.stands() {
                return Ok(Some(value));
            }
        }
    }

    /// A private copy of a row's words, with the values that are not in it.
    pub(super) fn with_values<'a>(&'a self, words: &'a mut [u64]) -> WordsCopy<'a> {
        WordsCopy::new(0, words).with(&*self.values, self.number)
    }

    #[inline(always)]
    pub(super) fn guard<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.failed_by(error);
        }
        result
    }

    /// An operation returned an error.
    #[cold]
    #[inline(never)]
    fn failed_by(&mut self, error: &Error) {
        if error.ends_transaction() && !self.failed {
            (self.failed, self.conflict) = (true, error.conflict());
        }
    }

    /// The operation that runs is answered with a misuse, and has done nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn refused<T>(&mut self, refused: Refused, misuse: Misuse) -> Result<T> {
        self.worker.refuse(refused)?;
        Err(misuse.into())
    }

    /// Reads columns, lets `change` alter them, and writes back the column groups that changed. `None` if the row is
    /// absent. Where the columns may touch the key or an index, the whole row is watched, so that the key stays
    /// and index entries move.
    #[inline(always)]
    pub(super) fn update_if_there<C: Columns, R>(
        &mut self,
        key: &<C::Table as Relation>::Words,
        columns: C,
        change: impl FnOnce(&mut C::Value) -> R,
    ) -> Result<Option<R>> {
        let watched = <C::Table as Table>::INDEXED | <C::Table as Table>::KEY_COLUMNS;
        if columns.ordinals() & watched != 0 {
            let (mut change, mut result) = (Some(change), None);
            self.update_watched(key, columns, &mut |value| {
                result = change.take().map(|change| change(value));
            })?;
            return Ok(result);
        }
        let wanted = Wanted::of(&columns);
        let access = wanted.access::<C::Table>(key, self.site, false);
        // A value may turn out to be too long.
        let purpose = if columns.have_slots() { Purpose::UpdateWatched } else { Purpose::Update };
        let (words, made) = match self
            .worker
            .stage(&access, purpose)
            .map_err(|error| note_met(&mut self.met, &access, error))?
        {
            Staged::Missing => return Ok(None),
            Staged::Old { words, .. } => (words, Made::Before),
            Staged::Stored(words) => (words, Made::InPlace),
            Staged::New(words) => (words, Made::Aside),
        };
        let words = WordsCopy::new(0, words).with(&*self.values, self.number);
        let (result, value) = match changed(&words, columns, change) {
            Ok(changed) => changed,
            Err(misuse) => return self.refused(Refused::Row, misuse),
        };
        if made != Made::Before {
            let groups = store_changed(words, wanted.groups, columns, &value);
            if made == Made::Aside {
                self.worker
                    .store(&access, groups)
                    .map_err(|error| note_met(&mut self.met, &access, error))?;
            }
        }
        Ok(Some(result))
    }

    /// As [`Self::update_if_there`], where the row is watched. Not compiled anew for each `change`, which is not called where the row is
    /// absent: beside what a watched row takes, calling it by reference is nothing.
    fn update_watched<C: Columns>(
        &mut self,
        key: &<C::Table as Relation>::Words,
        columns: C,
        change: &mut dyn FnMut(&mut C::Value),
    ) -> Result<()> {
        let layout = <C::Table as Relation>::LAYOUT;
        let wanted = Wanted::all(layout.words, layout.all_groups());
        let access = wanted.access::<C::Table>(key, self.site, false);
        let purpose = if wanted.groups == columns.groups() {
            Purpose::UpdateWatched
        } else {
            Purpose::UpdateWithEntries
        };
        let (words, before) = match self
            .worker
            .stage(&access, purpose)
            .map_err(|error| note_met(&mut self.met, &access, error))?
        {
            Staged::Missing => return Ok(()),
            Staged::Old { words, refused } => (words, Some(refused)),
            Staged::Stored(words) | Staged::New(words) => (words, None),
        };
        let old: C::Table = load_keys(words, &*self.values);
        let with_values = WordsCopy::new(0, words).with(&*self.values, self.number);
        let changed = match alter(with_values, wanted.groups, columns, change) {
            Ok(((), changed)) => changed,
            Err(misuse) => return self.refused(Refused::Row, misuse),
        };
        let new: C::Table = load_keys(words, &*self.values);
        if encode_key::<_, <C::Table as Relation>::Words>(&new.key()) != *key {
            return self.refused(Refused::Row, Misuse::KeyChanged { table: layout.name });
        }
        match before {
            Some(Some(Refused::Entry(entry))) => return self.refuse_entry(entry, &new),
            // The row was stored, and the entries were moved.
            Some(_) => return Ok(()),
            None => {}
        }
        let moves_entries =
            columns.ordinals() & C::Table::INDEXED != 0 && !planted(Mutant::IndexEntryNotMoved);
        if moves_entries {
            self.worker.begin_operation();
        }
        self.worker.store(&access, changed).map_err(|error| note_met(&mut self.met, &access, error))?;
        if moves_entries {
            <C::Table as Table>::Indexes::each(&mut MoveEntry {
                txn: self,
                old: &old,
                new: &new,
                number: 0,
            })?;
        }
        Ok(())
    }

    /// Updates a row that must be there.
    #[inline(always)]
    pub(super) fn update_columns_of<C: Columns, R>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        change: impl FnOnce(&mut C::Value) -> R,
    ) -> Result<R> {
        match self.update_if_there(&encode_key(&key), columns, change)? {
            Some(result) => Ok(result),
            None => self.not_found::<C::Table, R>(key),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn not_found<T: Table, R>(&mut self, key: T::Key) -> Result<R> {
        self.refused(Refused::Row, Misuse::NotFound { table: T::LAYOUT.name, key: format!("{key:?}") })
    }

    /// Inserts a row, and its index entries; false if there is a row with its key.
    pub(super) fn insert_with_entries<T: Table>(&mut self, row: &T) -> Result<bool> {
        check_lengths(Row::<T>::new(), row)?;
        if T::INDEXED != 0 {
            self.worker.begin_operation();
        }
        match self.insert_words::<T>(&encode_key(&row.key()), false, |words| row.store(words))? {
            Filled::New => T::Indexes::each(&mut AddEntry { txn: self, row, number: 0 })?,
            Filled::Old => {}
            Filled::Exists => return Ok(false),
            Filled::Refused { entry } => self.refuse_entry(entry, row)?,
        }
        Ok(true)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn duplicate_key<T: Table>(&mut self, key: T::Key) -> Result<()> {
        self.refused(Refused::Row, Misuse::DuplicateKey { table: T::LAYOUT.name, key: format!("{key:?}") })
    }

    /// Makes the row of `key` exist with the words that `fill` writes, unless there is one.
    #[inline(always)]
    fn insert_words<R: Relation>(
        &mut self,
        key: &R::Words,
        part: bool,
        fill: impl FnOnce(&mut WordsCopy<'_>),
    ) -> Result<Filled> {
        let wanted = whole::<R>();
        let access = wanted.access::<R>(key, self.site, part);
        let inserted =
            self.worker.insert(&access).map_err(|error| note_met(&mut self.met, &access, error))?;
        Ok(match inserted {
            Inserted::Exists => Filled::Exists,
            Inserted::New(words) => {
                fill(&mut WordsCopy::new(0, words).with(&*self.values, self.number));
                Filled::New
            }
            Inserted::Old => Filled::Old,
            Inserted::Refused { entry } => Filled::Refused { entry },
        })
    }

    /// Adds the index entry of a row, the one of that number. If it is there, the operation that it is a part of is
    /// refused.
    fn insert_entry<I: Index>(&mut self, entry: &I::Words, row: &I::Table, number: u8) -> Result<()> {
        match self.insert_words::<I>(entry, true, fill_primary_key(row))? {
            Filled::Exists => self.refuse_entry(number, row),
            _ => Ok(()),
        }
    }

    /// An operation is refused, because the entry of this number is there that a row would have.
    #[cold]
    #[inline(never)]
    fn refuse_entry<T: Table, R>(&mut self, number: u8, row: &T) -> Result<R> {
        let mut told = DuplicateEntry { row, left: number, misuse: None };
        T::Indexes::each(&mut told)?;
        let misuse = told.misuse.expect("a table has the indexes whose entries it was refused for");
        self.refused(Refused::Entry(number), misuse)
    }

    /// Makes the row of `key` not exist; false if there was none.
    #[inline(always)]
    fn delete_words<R: Relation>(&mut self, key: &R::Words, part: bool) -> Result<bool> {
        let wanted = whole::<R>();
        let access = wanted.access::<R>(key, self.site, part);
        self.worker.delete(&access).map_err(|error| note_met(&mut self.met, &access, error))
    }

    /// Deletes a row, with its index entries.
    pub(super) fn delete_row<T: Table>(&mut self, key: &T::Words) -> Result<bool> {
        if T::INDEXED == 0 {
            return self.delete_words::<T>(key, false);
        }
        let wanted = whole::<T>();
        let access = wanted.access::<T>(key, self.site, false);
        let row = match self
            .worker
            .stage(&access, Purpose::DeleteWithEntries)
            .map_err(|error| note_met(&mut self.met, &access, error))?
        {
            Staged::Missing => return Ok(false),
            Staged::Old { .. } => return Ok(true),
            Staged::Stored(words) | Staged::New(words) => load_keys::<T>(words, &*self.values),
        };
        T::Indexes::each(&mut RemoveEntry { txn: self, row: &row })?;
        self.delete_words::<T>(key, true)
    }

    /// Overwrites columns of a row that must be there, without reading them.
    #[inline(always)]
    pub(super) fn overwrite<C: Columns>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        value: &C::Value,
    ) -> Result<()> {
        let wanted = Wanted::of(&columns);
        let words = encode_key(&key);
        let access = wanted.access::<C::Table>(&words, self.site, false);
        let found = if wanted.span.len() == 1 {
            let mut room = [0; 2];
            let (values, masks) = room.split_at_mut(1);
            self.worker.patch(&access, merge(&wanted, columns, value, values, masks))
        } else {
            let mut room = std::mem::take(&mut self.words);
            room.clear();
            room.resize(wanted.span.len() * 2, 0);
            let (values, masks) = room.split_at_mut(wanted.span.len());
            let found = self.worker.patch(&access, merge(&wanted, columns, value, values, masks));
            self.words = room;
            found
        };
        let found = found.map_err(|error| note_met(&mut self.met, &access, error))?;
        if found { Ok(()) } else { self.not_found::<C::Table, ()>(key) }
    }
}

/// All of a row.
#[inline(always)]
pub(super) fn whole<R: Relation>() -> Wanted {
    Wanted::all(R::LAYOUT.words, R::LAYOUT.all_groups())
}

/// Where the words are of a row that is updated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// It was updated when the body was executed before. All that this did stands, and only its result is wanted.
    Before,
    /// Where they will be installed from.
    InPlace,
    Aside,
}

/// What came of filling a row, as [`Inserted`].
enum Filled {
    New,
    Exists,
    Old,
    Refused { entry: u8 },
}

/// Adds a row's entry to each secondary index.
struct AddEntry<'a, T> {
    pub txn: &'a mut Txn,
    pub row: &'a T,
    /// That of the next index.
    pub number: u8,
}

impl<T: Table> IndexVisitor<T> for AddEntry<'_, T> {
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
        let entry = encode_key(&I::entry(self.row));
        self.txn.insert_entry::<I>(&entry, self.row, self.number)?;
        self.number += 1;
        Ok(())
    }
}

/// Removes a row's entry from each secondary index.
struct RemoveEntry<'a, T> {
    pub txn: &'a mut Txn,
    pub row: &'a T,
}

impl<T: Table> IndexVisitor<T> for RemoveEntry<'_, T> {
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
        let entry = encode_key(&I::entry(self.row));
        self.txn.delete_words::<I>(&entry, true).map(|_| ())
    }
}

/// Moves a row's entry in each secondary index whose columns changed.
struct MoveEntry<'a, T> {
    pub txn: &'a mut Txn,
    pub old: &'a T,
    pub new: &'a T,
    /// That of the next index.
    pub number: u8,
}

impl<T: Table> IndexVisitor<T> for MoveEntry<'_, T> {
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
        let (old, new): (I::Words, I::Words) =
            (encode_key(&I::entry(self.old)), encode_key(&I::entry(self.new)));
        let number = self.number;
        self.number += 1;
        if old == new {
            return Ok(());
        }
        self.txn.delete_words::<I>(&old, true)?;
        self.txn.insert_entry::<I>(&new, self.new, number)
    }
}

impl Reading for Txn {
    #[inline(always)]
    fn declared(&mut self, made: impl Fn(&mut Declaration)) {
        self.held.check(made);
    }

    #[inline(always)]
    fn at(&mut self, site: u16) -> &mut Self {
        self.held.at(site);
        self.site = self.first_site + site;
        self
    }

    #[inline(always)]
    fn enter(&mut self, sites: u16) {
        self.held.enter(sites);
        self.first_site += sites;
    }

    #[inline(always)]
    fn leave(&mut self, sites: u16) {
        self.held.leave(sites);
        self.first_site -= sites;
    }

    #[inline(always)]
    fn site(&self) -> u16 {
        self.site
    }

    #[inline(always)]
    fn get_words<D: Decode>(&mut self, access: &Access<'_>, decode: D) -> Result<Option<D::Value>> {
        let mut found = self.worker.get(access);
        loop {
            let row = match found {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.failed_by(&error);
                    return Err(note_met(&mut self.met, access, error));
                }
            };
            let value = decode.decode(&row, &*self.values);
            if row.stands() {
                return Ok(Some(value));
            }
            if size_of::<D::Value>() > LARGE {
                return self.get_words_again(access, decode);
            }
            found = self.worker.get_again(access);
        }
    }

    #[inline(always)]
    fn scan_words(
        &mut self,
        range: &Range<'_>,
        visit: &mut dyn FnMut(&[u64], Sight<'_>) -> Visit,
    ) -> Result<()> {
        let result = self.worker.scan(range, visit);
        self.guard(result)
    }

    fn values(&self) -> Arc<dyn Values> {
        Arc::clone(&self.values)
    }

    #[inline(always)]
    fn scratch(&mut self) -> &mut Vec<u64> {
        &mut self.words
    }

    #[inline(always)]
    fn prefetch_words(&mut self, ahead: &Ahead<'_>) {
        self.worker.prefetch(ahead);
    }
}
