//! Lists: elements with a number that stays, linked to their neighbours.
//!
//! The links are in a column group of their own, so that those who use a value do not conflict with those who insert or remove
//! beside it.

use super::element::{Chain, Element, LINKS, Linked};
use super::handle;
use super::object::{
    Cells, Handle, Head, HeadRow, ONLY, Object, Row, Shape, change_head, head, is_not_found, made, make_only,
};
use super::row::{Cell, Held};
use crate::deferred::{Deferred, Deferring, Inputs, Later, Operator};
use crate::error::{Error, Misuse, ObjectMisuse, Result};
use crate::table::{Changeable, Columns, GroupSet, Span};
use crate::transaction::{Onward, ReadTransaction, Transaction};
use crate::words::{Words, WordsMut};
use std::fmt;
use std::marker::PhantomData;

/// Columns of the head.
const FIRST: usize = 0;
const LAST: usize = 1;
const MADE: usize = 2;
/// Columns of an element.
const PREVIOUS: usize = 0;
const NEXT: usize = 1;
/// The number that no element has.
const NONE: u64 = 0;

handle! {
    /// Elements in an order that is the program's: added at either end, or before or after another. Each gets a number, by which it
    /// is reached at once, wherever it stands.
    ///
    /// ```
    /// # use heddledb::{Database, Error, Objects, Text, objects::TList};
    /// #[derive(Objects)]
    /// struct Guests { names: TList<Text<16>> }
    ///
    /// let db = Database::builder().objects::<Guests>().open()?;
    /// db.session()?.run(|tx| {
    ///     let ada = Guests::names.push_back(tx, Text::truncated("Ada"))?;
    ///     let bo = Guests::names.push_back(tx, Text::truncated("Bo"))?;
    ///     Guests::names.insert_after(tx, ada, Text::truncated("Cy"))?;
    ///     Guests::names.remove(tx, bo)?;
    ///     assert_eq!(Guests::names.collect(tx)?, [Text::truncated("Ada"), Text::truncated("Cy")]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    TList<V>
}

impl<V: Element> Shape for TList<V> {
    type Key = u64;
    type Value = Linked<V>;
    type Head = Chain;
    type Handle<O: Object<Shape = Self>> = TList<V, O>;
    const HAS_HEAD: bool = true;
    const KEY_NAME: &'static str = "number";
    const DECLARED: Self = Self::NEW;
    fn make<O: Object<Shape = Self>>(tx: &mut impl Transaction) -> Result<()> {
        make_only::<Head<O>>(tx, Chain::default())
    }
}

impl<V: Element, O: Object<Shape = TList<V>>> Handle for TList<V, O> {
    const HANDLE: Self = Self::NEW;
}

/// The columns of an element's value, without its links.
pub struct Payload<O>(PhantomData<fn() -> O>);

impl<O> Clone for Payload<O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Payload<O> {}

impl<O> fmt::Debug for Payload<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Payload")
    }
}

impl<V: Element, O: Object<Shape = TList<V>>> Changeable for Payload<(V, O)> {}

impl<V: Element, O: Object<Shape = TList<V>>> Columns for Payload<(V, O)> {
    type Table = Row<O>;
    type Value = V;
    #[inline(always)]
    fn groups(&self) -> GroupSet {
        // The links' group is the last.
        Held::<Cells<O>>::new().groups() & !(1 << V::GROUPS.len())
    }
    #[inline(always)]
    fn ordinals(&self) -> u64 {
        // Behind the key, a column, and the links.
        Held::<Cells<O>>::new().ordinals() & !((1 << (1 + LINKS)) - 1)
    }
    #[inline(always)]
    fn span(&self, group: usize) -> Span {
        if group == V::GROUPS.len() { Span::NONE } else { Held::<Cells<O>>::new().span(group) }
    }
    #[inline(always)]
    fn have_slots(&self) -> bool {
        Held::<Cells<O>>::new().have_slots()
    }
    #[inline(always)]
    fn load(&self, source: &impl Words) -> V {
        V::load(source, &Cell::<Cells<O>>::places()[LINKS..])
    }
    #[inline(always)]
    fn store(&self, value: &V, target: &mut impl WordsMut) {
        value.store(target, &Cell::<Cells<O>>::places()[LINKS..]);
    }
}

impl<V: Element, O: Object<Shape = TList<V>>> TList<V, O> {
    const VALUE: Payload<(V, O)> = Payload(PhantomData);

    #[cold]
    fn no_element(number: u64) -> Error {
        Misuse::Object(ObjectMisuse::NoElement { object: O::NAME, number }).into()
    }

    fn found<R>(number: u64, result: Result<R>) -> Result<R> {
        result.map_err(|error| if is_not_found(&error) { Self::no_element(number) } else { error })
    }

    /// A link of an element.
    fn link(tx: &mut impl ReadTransaction, number: u64, which: usize) -> Result<u64> {
        let link = tx.get_columns(number, Row::<O>::column::<u64>(which))?;
        link.ok_or_else(|| Self::no_element(number))
    }

    /// Lets a link lead elsewhere: of an element, or of the head where there is none.
    fn relink(tx: &mut impl Transaction, number: u64, which: usize, to: u64) -> Result<()> {
        if number == NONE {
            // What would be next to nothing is first, what would be before it is last.
            let end = if which == NEXT { FIRST } else { LAST };
            return made::<O, ()>(tx.set_columns(ONLY, HeadRow::<O>::column::<u64>(end), to));
        }
        Self::found(number, tx.set_columns(number, Row::<O>::column::<u64>(which), to))
    }

    fn insert_between(tx: &mut impl Transaction, previous: u64, next: u64, value: V) -> Result<u64> {
        let number = change_head::<O, u64>(tx, MADE, |made| {
            *made += 1;
            *made
        })?;
        tx.insert(Row::<O>::new(number, Linked { previous, next, value }))?;
        Self::relink(tx, previous, NEXT, number)?;
        Self::relink(tx, next, PREVIOUS, number)?;
        Ok(number)
    }

    /// Adds an element before all others, and returns its number.
    ///
    /// # Errors
    /// [`ObjectMisuse::NotMade`], as of each operation.
    pub fn push_front(self, tx: &mut impl Transaction, value: V) -> Result<u64> {
        let first = head::<O, u64>(tx, FIRST)?;
        Self::insert_between(tx, NONE, first, value)
    }

    /// Adds an element behind all others, and returns its number.
    pub fn push_back(self, tx: &mut impl Transaction, value: V) -> Result<u64> {
        let last = head::<O, u64>(tx, LAST)?;
        Self::insert_between(tx, last, NONE, value)
    }

    /// Adds an element behind that of `number`, and returns its number.
    ///
    /// # Errors
    /// [`ObjectMisuse::NoElement`].
    pub fn insert_after(self, tx: &mut impl Transaction, number: u64, value: V) -> Result<u64> {
        let next = Self::link(tx, number, NEXT)?;
        Self::insert_between(tx, number, next, value)
    }

    /// Adds an element before that of `number`, and returns its number.
    ///
    /// # Errors
    /// [`ObjectMisuse::NoElement`].
    pub fn insert_before(self, tx: &mut impl Transaction, number: u64, value: V) -> Result<u64> {
        let previous = Self::link(tx, number, PREVIOUS)?;
        Self::insert_between(tx, previous, number, value)
    }

    /// Removes the element of `number` and returns it; `None` if there is none.
    pub fn remove(self, tx: &mut impl Transaction, number: u64) -> Result<Option<V>> {
        let Some(Linked { previous, next, value }) = tx.get_columns(number, Held::<Cells<O>>::new())? else {
            return Ok(None);
        };
        Self::relink(tx, previous, NEXT, next)?;
        Self::relink(tx, next, PREVIOUS, previous)?;
        tx.delete::<Row<O>>(number)?;
        Ok(Some(value))
    }

    /// The element of `number`.
    pub fn get(self, tx: &mut impl ReadTransaction, number: u64) -> Result<Option<V>> {
        tx.get_columns(number, Self::VALUE)
    }

    /// Replaces the element of `number`, where it stands.
    ///
    /// # Errors
    /// [`ObjectMisuse::NoElement`].
    pub fn set(self, tx: &mut impl Transaction, number: u64, value: V) -> Result<()> {
        Self::found(number, tx.set_columns(number, Self::VALUE, value))
    }

    /// Lets `change` alter the element of `number`, and returns what it returned.
    ///
    /// # Errors
    /// [`ObjectMisuse::NoElement`].
    pub fn update<R>(
        self,
        tx: &mut impl Transaction,
        number: u64,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R> {
        Self::found(number, tx.update_columns(number, Self::VALUE, change))
    }

    /// The number of the first element.
    pub fn first(self, tx: &mut impl ReadTransaction) -> Result<Option<u64>> {
        head::<O, u64>(tx, FIRST).map(some)
    }

    /// The number of the last element.
    pub fn last(self, tx: &mut impl ReadTransaction) -> Result<Option<u64>> {
        head::<O, u64>(tx, LAST).map(some)
    }

    /// The number of the element behind that of `number`.
    ///
    /// # Errors
    /// [`ObjectMisuse::NoElement`].
    pub fn next(self, tx: &mut impl ReadTransaction, number: u64) -> Result<Option<u64>> {
        Self::link(tx, number, NEXT).map(some)
    }

    /// The number of the element before that of `number`.
    ///
    /// # Errors
    /// [`ObjectMisuse::NoElement`].
    pub fn previous(self, tx: &mut impl ReadTransaction, number: u64) -> Result<Option<u64>> {
        Self::link(tx, number, PREVIOUS).map(some)
    }

    /// Whether there is no element.
    pub fn is_empty(self, tx: &mut impl ReadTransaction) -> Result<bool> {
        self.first(tx).map(|first| first.is_none())
    }

    /// How many elements there are. Visits all of them: a number beside them would let all changes conflict.
    pub fn len(self, tx: &mut impl ReadTransaction) -> Result<u64> {
        let mut len = 0;
        self.for_each(tx, |_, _| len += 1)?;
        Ok(len)
    }

    /// Visits the elements with their numbers, from the first to the last; see [`Onward`].
    ///
    /// # Errors
    /// What `visit` returns.
    pub fn for_each<R: Onward>(
        self,
        tx: &mut impl ReadTransaction,
        mut visit: impl FnMut(u64, V) -> R,
    ) -> Result<()> {
        // Links of two moments, which the commit would find, might lead in a circle: there are no more elements than were made.
        let mut left = head::<O, u64>(tx, MADE)?;
        let mut number = head::<O, u64>(tx, FIRST)?;
        while number != NONE && left > 0 {
            left -= 1;
            let element = tx.get_columns(number, Held::<Cells<O>>::new())?;
            let Linked { next, value, .. } = element.ok_or_else(|| Self::no_element(number))?;
            if visit(number, value).onward()?.is_break() {
                break;
            }
            number = next;
        }
        Ok(())
    }

    /// All elements, from the first to the last.
    pub fn collect(self, tx: &mut impl ReadTransaction) -> Result<Vec<V>> {
        let mut all = Vec::new();
        self.for_each(tx, |_, value| all.push(value))?;
        Ok(all)
    }

    /// The element of `number` as of the commit.
    pub fn look(self, tx: &mut impl Deferring, number: u64) -> Result<Deferred<Option<V>>>
    where
        V: Later,
    {
        tx.look(number, Self::VALUE)
    }

    /// Lets `op` change the element of `number` at the commit; `None` if there is none. See [`Deferring::defer`].
    pub fn update_later<I: Inputs, R: Later>(
        self,
        tx: &mut impl Deferring,
        number: u64,
        with: I,
        op: impl Fn(&mut V, I::Values) -> R + Operator,
    ) -> Result<Deferred<Option<R>>>
    where
        V: Later,
    {
        tx.defer(number, Self::VALUE, with, op)
    }
}

/// The number of an element, if it is one.
fn some(number: u64) -> Option<u64> {
    (number != NONE).then_some(number)
}
