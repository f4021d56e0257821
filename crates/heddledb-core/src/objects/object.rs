//! What an object is to the tables that it lives in.

use super::element::Element;
use super::row::{Cell, Part};
use crate::deferred::{Deferred, Deferring, Inputs, Later, Operator, Refusal};
use crate::error::{Error, Misuse, ObjectMisuse, Result};
use crate::table::{ColumnValue, Definition, IndexWords, Key, Relation, Structure, Table};
use crate::transaction::{ReadTransaction, Transaction};
use std::fmt::Debug;
use std::marker::PhantomData;

/// One object of a struct with `#[derive(Objects)]`, as a type: where its rows are. Made by the derive, named like the struct and
/// the field: `ShopHits`.
pub trait Object: Copy + Debug + Send + Sync + 'static {
    /// What it was declared as: `TBox<u64>`.
    type Shape: Shape;
    /// The words of the keys of its rows.
    type Words: IndexWords;
    /// The name of its table, `shop_hits`, by which messages call it.
    const NAME: &'static str;
    /// The name of the table of its head, if it has one.
    const HEAD_NAME: &'static str;
    /// The index of its rows.
    const STRUCTURE: Structure;
    /// The table of its rows.
    fn cells() -> &'static Definition;
    /// The table of its head.
    fn head() -> &'static Definition;
}

/// A type of object, as it is written in a struct with `#[derive(Objects)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no transactional object",
    label = "no object",
    note = "objects are `TBox<V>`, `TCounter`, `TArray<V>`, `TVector<V>`, `TQueue<V>`, `TList<V>` and `TMap<K, V>`, where a `V` that is made by default (of a `TBox`) has `Default`; rows of any other shape are a table: `#[derive(Table)]`"
)]
pub trait Shape: Copy + 'static {
    /// The key of its rows.
    type Key: Key + Element;
    /// What its rows hold.
    type Value: Element;
    /// What its head holds.
    type Head: Element;
    /// What operations are called on, for the object `O`.
    type Handle<O: Object<Shape = Self>>: Handle;
    /// Whether it has a head.
    const HAS_HEAD: bool = false;
    /// The name of the key's column.
    const KEY_NAME: &'static str;
    /// The index of its rows, unless the object says otherwise.
    const STRUCTURE: Structure = Structure::Hash;
    /// The declaration itself, as a value.
    #[doc(hidden)]
    const DECLARED: Self;
    /// Adds the rows that the object has before anything was done with it, unless they are there.
    fn make<O: Object<Shape = Self>>(tx: &mut impl Transaction) -> Result<()>;
}

/// What operations are called on.
pub trait Handle: Copy {
    /// Of its object.
    const HANDLE: Self;
}

/// The rows of an object.
pub struct Cells<O>(PhantomData<fn() -> O>);

/// The one row of an object's head.
pub struct Head<O>(PhantomData<fn() -> O>);

macro_rules! copied {
    ($($part:ident)*) => {$(
        impl<O> Clone for $part<O> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<O> Copy for $part<O> {}
    )*};
}
copied!(Cells Head);

impl<O: Object> Part for Cells<O> {
    type Key = <O::Shape as Shape>::Key;
    type Words = O::Words;
    type Value = <O::Shape as Shape>::Value;
    const NAME: &'static str = O::NAME;
    const KEY_NAME: &'static str = O::Shape::KEY_NAME;
    const STRUCTURE: Structure = O::STRUCTURE;
    #[inline(always)]
    fn definition() -> &'static Definition {
        O::cells()
    }
}

impl<O: Object> Part for Head<O> {
    type Key = u8;
    type Words = [u64; 1];
    type Value = <O::Shape as Shape>::Head;
    const NAME: &'static str = O::HEAD_NAME;
    const KEY_NAME: &'static str = "id";
    const STRUCTURE: Structure = Structure::Hash;
    #[inline(always)]
    fn definition() -> &'static Definition {
        O::head()
    }
}

/// A row of an object.
pub type Row<O> = Cell<Cells<O>>;
/// An object's head.
pub type HeadRow<O> = Cell<Head<O>>;

/// The key of the only row of a table.
pub(super) const ONLY: u8 = 0;

/// Adds the only row of a table, unless it is there.
pub(super) fn make_only<P: Part<Key = u8>>(tx: &mut impl Transaction, value: P::Value) -> Result<()>
where
    Cell<P>: crate::Table<Key = u8>,
{
    if tx.get::<Cell<P>>(ONLY)?.is_none() { tx.insert(Cell::<P>::new(ONLY, value)) } else { Ok(()) }
}

/// The answer of an object that has no rows yet.
#[cold]
pub(super) fn not_made<O: Object>() -> Error {
    Misuse::Object(ObjectMisuse::NotMade { object: O::NAME }).into()
}

/// Whether an error says that there is no such row.
pub(super) fn is_not_found(error: &Error) -> bool {
    matches!(error.misuse(), Some(Misuse::NotFound { .. }))
}

/// The same error, but for a row that is not there, which every object has that was made.
pub(super) fn made<O: Object, R>(result: Result<R>) -> Result<R> {
    result.map_err(|error| if is_not_found(&error) { not_made::<O>() } else { error })
}

/// A number of an object's head, its `N`th column.
pub(super) fn head<O: Object, V: ColumnValue>(tx: &mut impl ReadTransaction, number: usize) -> Result<V> {
    tx.get_columns(ONLY, HeadRow::<O>::column::<V>(number))?.ok_or_else(not_made::<O>)
}

/// Changes a number of an object's head.
pub(super) fn change_head<O: Object, R>(
    tx: &mut impl Transaction,
    number: usize,
    change: impl FnOnce(&mut u64) -> R,
) -> Result<R> {
    made::<O, R>(tx.update_columns(ONLY, HeadRow::<O>::column::<u64>(number), change))
}

/// Adds a row at the commit, under the number that a number of the object's head has then, which becomes greater by one.
pub(super) fn push_later<O: Object, I: Inputs>(
    tx: &mut impl Deferring,
    number: usize,
    with: I,
    make: impl Fn(I::Values) -> <O::Shape as Shape>::Value + Operator,
) -> Result<Deferred<u64>>
where
    Row<O>: Table<Key = u64> + Later,
    O::Shape: Shape<Key = u64>,
{
    let end = tx.defer(ONLY, HeadRow::<O>::column::<u64>(number), (), |end, ()| {
        *end += 1;
        *end - 1
    })?;
    let is_made = tx.map(end, |end| end.is_some())?;
    tx.ensure(is_made, Refusal::not_made(O::NAME))?;
    let end = tx.map(end, |end| end.unwrap_or(0))?;
    tx.insert_with((end, with), move |(end, values)| Row::<O>::new(end, make(values)))?;
    Ok(end)
}

/// A struct of transactional objects. Implemented by `#[derive(Objects)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no struct of transactional objects",
    label = "no objects",
    note = "derive it: `#[derive(Objects)]` on a struct whose fields are objects, as `hits: TBox<u64>`"
)]
pub trait Objects: 'static {
    /// The tables of its objects.
    fn tables() -> Vec<&'static Definition>;
    /// Adds the rows that its objects have before anything was done with them, where they are not there.
    ///
    /// # Errors
    /// Conflicts, and those of the database.
    fn make(tx: &mut impl Transaction) -> Result<()>;
}

/// For the derive: the tables of an object.
#[doc(hidden)]
pub fn tables_of<O: Object>(tables: &mut Vec<&'static Definition>) {
    tables.push(<Row<O> as Relation>::definition());
    if O::Shape::HAS_HEAD {
        tables.push(<HeadRow<O> as Relation>::definition());
    }
}
