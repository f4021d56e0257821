//! Reading in terms of words: what a transaction and a snapshot do in ways of their own, and all of
//! [`ReadTransaction`] in terms of it.

use crate::error::Result;
use crate::procedure::Declaration;
use crate::seam::{Access, Ahead, Part, Range, Visit};
use crate::sight::Sight;
use crate::table::{
    Columns, GROUPS_MAX, GroupSet, Index, Key, KeyWords, Relation, Row, Scan, Span, check_key, decode_key,
    encode_key,
};
use crate::transaction::{Onward, ReadTransaction};
use crate::values::Values;
use crate::words::{WithValues, Words};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Which words a set of columns is in.
#[derive(Debug)]
pub struct Wanted {
    /// Their column groups.
    pub groups: GroupSet,
    /// From the first of them to the last.
    pub span: Span,
    /// Of each group, where the columns are in several and are not all.
    each: Option<[Span; GROUPS_MAX]>,
}

impl Wanted {
    /// The words of some columns.
    #[inline(always)]
    pub fn of<C: Columns>(columns: &C) -> Self {
        let groups = columns.groups();
        let layout = <C::Table as Relation>::LAYOUT;
        if groups.is_power_of_two() {
            let span = columns.span(groups.trailing_zeros() as usize);
            return Self { groups, span, each: None };
        }
        if columns.ordinals() == u64::MAX {
            return Self::all(layout.words, groups);
        }
        let (mut span, mut each) = (Span::NONE, [Span::NONE; GROUPS_MAX]);
        for (group, each) in each.iter_mut().enumerate().take(layout.groups.len()) {
            if groups & (1 << group) != 0 {
                *each = columns.span(group);
                span = span.cover(*each);
            }
        }
        Self { groups, span, each: Some(each) }
    }

    /// Whole rows.
    #[inline(always)]
    pub fn all(words: usize, groups: GroupSet) -> Self {
        Self { groups, span: Span { start: 0, end: words }, each: None }
    }

    /// These words of a relation's rows.
    #[inline(always)]
    fn part<R: Relation>(&self) -> Part<'_> {
        Part { relation: R::definition(), groups: self.groups, span: self.span, spans: self.each.as_ref() }
    }

    /// The access of these words of the row with a key.
    #[inline(always)]
    pub fn access<'a, R: Relation>(&'a self, key: &'a R::Words, site: u16, part: bool) -> Access<'a> {
        Access { wanted: self.part::<R>(), key: key.words(), site, part }
    }

    /// The same of the rows in a range.
    #[inline(always)]
    fn range<'a, R: Relation>(&'a self, scan: &'a Scan<R>, site: u16) -> Range<'a> {
        Range {
            wanted: self.part::<R>(),
            bounds: scan.bounds.as_ref().map(|(low, high)| (low.words(), high.words())),
            direction: scan.direction,
            limit: scan.limit,
            site,
        }
    }
}

/// How a row is decoded. No closure, so that it is inlined where it is run often, although it is also run elsewhere.
pub trait Decode: Copy {
    /// What comes of it.
    type Value;
    /// Decodes a row, or what is torn; `values` keeps what is not in it.
    fn decode(self, row: &Sight<'_>, values: &dyn Values) -> Self::Value;
}

/// Something that reads relations.
pub trait Reading {
    /// What [`ReadTransaction::at`] does.
    #[inline(always)]
    fn at(&mut self, site: u16) -> &mut Self {
        let _ = site;
        self
    }

    /// What [`ReadTransaction::enter`] does.
    #[inline(always)]
    fn enter(&mut self, sites: u16) {
        let _ = sites;
    }

    /// What [`ReadTransaction::leave`] does.
    #[inline(always)]
    fn leave(&mut self, sites: u16) {
        let _ = sites;
    }

    /// The site of the next access.
    #[inline(always)]
    fn site(&self) -> u16 {
        0
    }

    /// An access is about to be made: test builds compare it with what its procedure declares.
    #[inline(always)]
    fn declared(&mut self, made: impl Fn(&mut Declaration)) {
        let _ = made;
    }

    /// What `decode` makes of a row in a consistent state; it may be run on others before.
    fn get_words<D: Decode>(&mut self, access: &Access<'_>, decode: D) -> Result<Option<D::Value>>;

    /// Visits rows in a range, in order.
    fn scan_words(
        &mut self,
        range: &Range<'_>,
        visit: &mut dyn FnMut(&[u64], Sight<'_>) -> Visit,
    ) -> Result<()>;

    /// Who keeps the values that are not in their rows.
    fn values(&self) -> Arc<dyn Values>;

    /// Words for whatever is needed for a moment.
    fn scratch(&mut self) -> &mut Vec<u64>;

    /// Asks for the memory of rows that will be read.
    fn prefetch_words(&mut self, ahead: &Ahead<'_>);
}

/// Visits typed columns of each row.
#[inline(always)]
fn scan_decoded<K: Key, V, O: Onward>(
    reading: &mut impl Reading,
    range: &Range<'_>,
    load: impl Fn(&Sight<'_>) -> V,
    mut visit: impl FnMut(K, V) -> O,
) -> Result<()> {
    let mut visited = Ok(());
    reading.scan_words(range, &mut |key, row| {
        let value = load(&row);
        if !row.stands() {
            return Visit::Torn;
        }
        onward(visit(decode_key(key), value), &mut visited)
    })?;
    visited
}

/// What a scan is told after a visitor returned this. An error is left in `visited`.
#[inline(always)]
pub fn onward(returned: impl Onward, visited: &mut Result<()>) -> Visit {
    match returned.onward() {
        Ok(ControlFlow::Continue(())) => Visit::More,
        Ok(ControlFlow::Break(())) => Visit::Enough,
        Err(error) => {
            *visited = Err(error);
            Visit::Enough
        }
    }
}

/// Visits columns of the rows of a table.
#[inline(always)]
fn scan_table<R: Relation, C: Columns, O: Onward>(
    reading: &mut impl Reading,
    scan: Scan<R>,
    columns: C,
    visit: impl FnMut(R::Key, C::Value) -> O,
) -> Result<()> {
    let (wanted, scan) = (Wanted::of(&columns), scan.bounded());
    if columns.have_slots() {
        let values = reading.values();
        let load = |row: &Sight<'_>| columns.load(&WithValues { row: *row, values: &*values });
        return scan_decoded(reading, &wanted.range(&scan, reading.site()), load, visit);
    }
    scan_decoded(reading, &wanted.range(&scan, reading.site()), |row| columns.load(row), visit)
}

/// How many entries of an index are read before the first of their rows.
const ENTRIES_FIRST: usize = 16;

/// How many at most.
const ENTRIES_MAX: usize = 1024;

/// Visits the rows to which the entries of an index lead.
fn scan_entries<I: Relation, O: Onward>(
    reading: &mut impl Reading,
    mut scan: Scan<I>,
    mut visit: impl FnMut(I::Key, I::Table) -> O,
) -> Result<()> {
    let (wanted, row) = (target::<I>(), Row::<I::Table>::new());
    let mut entries = Vec::new();
    let mut batch = ENTRIES_FIRST;
    while scan.limit > 0 {
        let (size, site) = (batch.min(scan.limit), reading.site());
        entries.clear();
        let range = scan.limit(size).bounded();
        scan_decoded(reading, &wanted.range(&range, site), target_words::<I>, |entry: I::Key, key| {
            entries.push((entry, key));
        })?;
        prefetch_rows::<I>(reading, &entries);
        for (entry, key) in &entries {
            // An entry whose row is not there is of another moment, which the commit will find out, or is told to a
            // transaction that asked for no better isolation.
            let Some(row) = get(reading, key, row)? else { continue };
            if visit(*entry, row).onward()?.is_break() {
                return Ok(());
            }
        }
        let Some((last, _)) = entries.last().filter(|_| entries.len() == size) else { return Ok(()) };
        scan = scan.after(*last).limit(scan.limit - size);
        batch = (batch * 4).min(ENTRIES_MAX);
    }
    Ok(())
}

/// Asks for the memory of the rows of index entries.
fn prefetch_rows<I: Relation>(
    reading: &mut impl Reading,
    entries: &[(I::Key, <I::Table as Relation>::Words)],
) {
    let mut words = std::mem::take(reading.scratch());
    words.clear();
    for (_, key) in entries {
        words.extend_from_slice(key.words());
        words.extend([0, I::Table::LAYOUT.words as u64]);
    }
    reading.prefetch_words(&Ahead { relation: I::Table::definition(), rows: &words });
    *reading.scratch() = words;
}

/// The primary key in an index entry.
#[inline(always)]
fn target<I: Relation>() -> Wanted {
    Wanted::all(I::LAYOUT.words, 1)
}

/// The words of the primary key in an index entry.
#[inline(always)]
fn target_words<I: Relation>(row: &Sight<'_>) -> <I::Table as Relation>::Words {
    let mut key = <I::Table as Relation>::Words::MIN;
    key.words_mut().iter_mut().enumerate().for_each(|(index, word)| *word = row.word(index));
    key
}

/// Decodes the words of the primary key in an index entry.
struct Target<I>(PhantomData<fn() -> I>);

impl<I> Clone for Target<I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for Target<I> {}

impl<I: Index> Decode for Target<I> {
    type Value = <I::Table as Relation>::Words;
    #[inline(always)]
    fn decode(self, row: &Sight<'_>, _values: &dyn Values) -> Self::Value {
        target_words::<I>(row)
    }
}

impl<X: Reading> ReadTransaction for X {
    #[inline(always)]
    fn at(&mut self, site: u16) -> &mut Self {
        Reading::at(self, site)
    }

    #[inline(always)]
    fn enter(&mut self, sites: u16) {
        Reading::enter(self, sites);
    }

    #[inline(always)]
    fn leave(&mut self, sites: u16) {
        Reading::leave(self, sites);
    }

    #[inline]
    fn get_columns<C: Columns>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
    ) -> Result<Option<C::Value>> {
        self.declared(|made| made.get(columns));
        check_key::<C::Table>(&key)?;
        get::<C>(self, &encode_key(&key), columns)
    }

    fn prefetch<C: Columns>(&mut self, rows: impl Iterator<Item = (<C::Table as Relation>::Key, C)> + Clone) {
        let mut words = std::mem::take(self.scratch());
        words.clear();
        for (key, columns) in rows {
            let key: <C::Table as Relation>::Words = encode_key(&key);
            words.extend_from_slice(key.words());
            let span = Wanted::of(&columns).span;
            words.extend([span.start as u64, span.end as u64]);
        }
        self.prefetch_words(&Ahead { relation: C::Table::definition(), rows: &words });
        *self.scratch() = words;
    }

    #[inline]
    fn scan_columns<C: Columns, O: Onward>(
        &mut self,
        scan: Scan<C::Table>,
        columns: C,
        visit: impl FnMut(<C::Table as Relation>::Key, C::Value) -> O,
    ) -> Result<()> {
        self.declared(|made| made.scan(columns));
        scan.check()?;
        scan_table(self, scan, columns, visit)
    }

    #[inline]
    fn scan_rows<R: Relation, O: Onward>(
        &mut self,
        scan: Scan<R>,
        visit: impl FnMut(R::Key, R::Table) -> O,
    ) -> Result<()> {
        self.declared(|made| made.scan_rows::<R>());
        scan.check()?;
        match R::ENTRIES {
            true => scan_entries(self, scan, visit),
            false => scan_table(self, scan, Row::<R::Table>::new(), visit),
        }
    }

    #[inline]
    fn scan_index<I: Index, O: Onward>(
        &mut self,
        scan: Scan<I>,
        mut visit: impl FnMut(I::Key, <I::Table as Relation>::Key) -> O,
    ) -> Result<()> {
        self.declared(|made| made.scan_index::<I>());
        scan.check()?;
        let (wanted, site, scan) = (target::<I>(), self.site(), scan.bounded());
        scan_decoded(self, &wanted.range(&scan, site), target_words::<I>, |entry, key| {
            visit(entry, decode_key(key.words()))
        })
    }

    fn find_key<I: Index>(&mut self, columns: I::Columns) -> Result<Option<<I::Table as Relation>::Key>> {
        self.declared(|made| made.find_key::<I>());
        check_key::<I>(&columns)?;
        Ok(key_of::<I>(self, &columns)?.map(|key| decode_key(key.words())))
    }

    fn find<I: Index>(&mut self, columns: I::Columns) -> Result<Option<I::Table>> {
        self.declared(|made| made.find::<I>());
        check_key::<I>(&columns)?;
        match key_of::<I>(self, &columns)? {
            Some(key) => get(self, &key, Row::<I::Table>::new()),
            None => Ok(None),
        }
    }
}

/// Decodes columns.
#[derive(Clone, Copy)]
struct Load<C>(C);

impl<C: Columns> Decode for Load<C> {
    type Value = C::Value;
    #[inline(always)]
    fn decode(self, row: &Sight<'_>, values: &dyn Values) -> C::Value {
        if self.0.have_slots() {
            return self.0.load(&WithValues { row: *row, values });
        }
        self.0.load(row)
    }
}

/// Columns of the row with a key.
#[inline(always)]
fn get<C: Columns>(
    reading: &mut impl Reading,
    key: &<C::Table as Relation>::Words,
    columns: C,
) -> Result<Option<C::Value>> {
    let wanted = Wanted::of(&columns);
    let access = wanted.access::<C::Table>(key, reading.site(), false);
    reading.get_words(&access, Load(columns))
}

/// The primary key in the first index entry with these columns.
fn key_of<I: Index>(
    reading: &mut impl Reading,
    columns: &I::Columns,
) -> Result<Option<<I::Table as Relation>::Words>> {
    let (wanted, site) = (target::<I>(), reading.site());
    if I::UNIQUE {
        let entry = encode_key(columns);
        let access = wanted.access::<I>(&entry, site, false);
        return reading.get_words(&access, Target::<I>(PhantomData));
    }
    let mut first = None;
    let scan = Scan::<I>::encoded_prefix(columns).limit(1);
    scan_decoded(reading, &wanted.range(&scan, site), target_words::<I>, |_: I::Key, key| {
        first = Some(key);
        ControlFlow::Break(())
    })?;
    Ok(first)
}
