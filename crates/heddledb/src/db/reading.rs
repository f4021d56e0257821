//! Reading in terms of relations, keys and projections: what a transaction and a snapshot do in ways
//! of their own, and all of [`ReadTransaction`] in terms of it.

use crate::error::Result;
use crate::procedure::Declaration;
use crate::record::{Words, WordsMut};
use crate::table::{Columns, GroupSet, Index, KeyWords, Relation, Row, Scan, Span, decode_key, encode_key};
use crate::transaction::ReadTransaction;
use std::marker::PhantomData;
use std::ops::ControlFlow;

/// What a projection of a record's words yields: columns of a table, or an index entry's target.
pub trait Projection: Copy {
    /// What comes out.
    type Value;
    /// The column groups that it reads.
    fn groups(&self) -> GroupSet;
    /// The words that it reads of a group.
    fn span(&self, group: usize) -> Span;
    /// Decodes it.
    fn load(&self, source: &impl Words) -> Self::Value;
    /// Encodes it, where it was decoded from.
    fn store(&self, value: &Self::Value, target: &mut impl WordsMut);
}

/// Columns of a table.
#[derive(Clone, Copy)]
pub struct OfTable<C>(pub C);

impl<C: Columns> Projection for OfTable<C> {
    type Value = C::Value;
    #[inline(always)]
    fn groups(&self) -> GroupSet {
        self.0.groups()
    }
    #[inline(always)]
    fn span(&self, group: usize) -> Span {
        self.0.span(group)
    }
    #[inline(always)]
    fn load(&self, source: &impl Words) -> C::Value {
        self.0.load(source)
    }
    #[inline(always)]
    fn store(&self, value: &C::Value, target: &mut impl WordsMut) {
        self.0.store(value, target);
    }
}

/// The primary key in an index entry, as words.
#[derive(Clone, Copy)]
struct PrimaryKey<W>(PhantomData<W>);

impl<W: KeyWords> Projection for PrimaryKey<W> {
    type Value = W;
    #[inline(always)]
    fn groups(&self) -> GroupSet {
        1
    }
    #[inline(always)]
    fn span(&self, _: usize) -> Span {
        Span { start: 0, end: W::MIN.words().len() }
    }
    #[inline(always)]
    fn load(&self, source: &impl Words) -> W {
        let mut key = W::MIN;
        key.words_mut().iter_mut().enumerate().for_each(|(index, word)| *word = source.word(index));
        key
    }
    #[inline(always)]
    fn store(&self, key: &W, target: &mut impl WordsMut) {
        key.words().iter().enumerate().for_each(|(index, word)| target.set_word(index, *word));
    }
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

    /// An access is about to be made: test builds compare it with what its procedure declares.
    #[inline(always)]
    fn declared(&mut self, made: impl FnOnce(&mut Declaration)) {
        let _ = made;
    }

    /// A projection of the row with a key.
    fn get_in<R: Relation, J: Projection>(
        &mut self,
        key: &R::Words,
        projection: J,
    ) -> Result<Option<J::Value>>;

    /// A projection of each row in a range, in order.
    fn scan_in<R: Relation, J: Projection>(
        &mut self,
        scan: Scan<R>,
        projection: J,
        visit: impl FnMut(&R::Words, J::Value) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Asks for the memory of rows that will be read.
    fn prefetch_in<C: Columns>(
        &mut self,
        rows: impl Iterator<Item = (<C::Table as Relation>::Key, C)> + Clone,
    );
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
        self.get_in::<C::Table, _>(&encode_key(&key), OfTable(columns))
    }

    #[inline]
    fn prefetch<C: Columns>(&mut self, rows: impl Iterator<Item = (<C::Table as Relation>::Key, C)> + Clone) {
        self.prefetch_in(rows);
    }

    #[inline]
    fn scan_columns<C: Columns>(
        &mut self,
        scan: Scan<C::Table>,
        columns: C,
        mut visit: impl FnMut(<C::Table as Relation>::Key, C::Value) -> ControlFlow<()>,
    ) -> Result<()> {
        self.declared(|made| made.scan(columns));
        self.scan_in(scan, OfTable(columns), |key, value| visit(decode_key(key), value))
    }

    #[inline]
    fn scan_index<I: Index>(
        &mut self,
        scan: Scan<I>,
        mut visit: impl FnMut(I::Key, <I::Table as Relation>::Key) -> ControlFlow<()>,
    ) -> Result<()> {
        self.declared(|made| made.scan_index::<I>());
        let target = PrimaryKey::<<I::Table as Relation>::Words>(PhantomData);
        self.scan_in(scan, target, |entry, key| visit(decode_key(entry), decode_key(&key)))
    }

    fn find_key<I: Index>(&mut self, columns: I::Columns) -> Result<Option<<I::Table as Relation>::Key>> {
        self.declared(|made| made.find_key::<I>());
        Ok(key_of::<I>(self, &columns)?.map(|key| decode_key(&key)))
    }

    fn find<I: Index>(&mut self, columns: I::Columns) -> Result<Option<I::Table>> {
        self.declared(|made| made.find::<I>());
        match key_of::<I>(self, &columns)? {
            Some(key) => self.get_in::<I::Table, _>(&key, OfTable(Row::<I::Table>::new())),
            None => Ok(None),
        }
    }
}

/// The primary key in the first index entry with these columns.
fn key_of<I: Index>(
    reading: &mut impl Reading,
    columns: &I::Columns,
) -> Result<Option<<I::Table as Relation>::Words>> {
    let target = PrimaryKey::<<I::Table as Relation>::Words>(PhantomData);
    if I::UNIQUE {
        return reading.get_in::<I, _>(&encode_key(columns), target);
    }
    let mut first = None;
    let scan = Scan::<I>::encoded_prefix(columns).limit(1);
    reading.scan_in(scan, target, |_, key| {
        first = Some(key);
        ControlFlow::Break(())
    })?;
    Ok(first)
}
