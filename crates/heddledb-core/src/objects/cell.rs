//! Boxes and counters: objects of one row.

use super::element::{Element, Nothing};
use super::handle;
use super::object::{Cells, Handle, ONLY, Object, Row, Shape, made, make_only, not_made};
use super::row::Held;
use crate::deferred::{Deferred, Deferring, Inputs, Later, Operator};
use crate::error::Result;
use crate::transaction::{ReadTransaction, Transaction};

handle! {
    /// One value. It begins as `V::default()`.
    ///
    /// ```
    /// use heddledb::objects::{Object, TBox};
    /// use heddledb::{Database, Error, Objects, Result, Transaction};
    ///
    /// #[derive(Objects)]
    /// struct Shop { open: TBox<bool>, hits: TBox<u64> }
    ///
    /// /// For any box of that type.
    /// fn hit<O: Object<Shape = TBox<u64>>>(tx: &mut impl Transaction, hits: TBox<u64, O>) -> Result<u64> {
    ///     hits.update(tx, |hits| { *hits += 1; *hits })
    /// }
    ///
    /// let db = Database::builder().objects::<Shop>().open()?;
    /// let mut session = db.session()?;
    /// session.run(|tx| Shop::open.set(tx, true))?;
    /// assert_eq!(session.run(|tx| hit(tx, Shop::hits))?, 1);
    /// // Deferred, so that a box in demand is handed on.
    /// let hits = session.defer(|tx| Shop::hits.update_later(tx, (), |hits, ()| { *hits += 1; *hits }))?;
    /// assert_eq!(hits, Some(2));
    /// # Ok::<(), Error>(())
    /// ```
    TBox<V>
}

impl<V: Element + Default> Shape for TBox<V> {
    type Key = u8;
    type Value = V;
    type Head = Nothing;
    type Handle<O: Object<Shape = Self>> = TBox<V, O>;
    const KEY_NAME: &'static str = "id";
    const DECLARED: Self = Self::NEW;
    fn make<O: Object<Shape = Self>>(tx: &mut impl Transaction) -> Result<()> {
        make_only::<Cells<O>>(tx, V::default())
    }
}

impl<V: Element + Default, O: Object<Shape = TBox<V>>> Handle for TBox<V, O> {
    const HANDLE: Self = Self::NEW;
}

impl<V: Element + Default, O: Object<Shape = TBox<V>>> TBox<V, O> {
    const VALUE: Held<Cells<O>> = Held::new();

    /// The value.
    ///
    /// # Errors
    /// [`ObjectMisuse::NotMade`](crate::error::ObjectMisuse::NotMade), as of each operation.
    pub fn get(self, tx: &mut impl ReadTransaction) -> Result<V> {
        tx.get_columns(ONLY, Self::VALUE)?.ok_or_else(not_made::<O>)
    }

    /// Replaces the value, without reading it.
    pub fn set(self, tx: &mut impl Transaction, value: V) -> Result<()> {
        made::<O, ()>(tx.set_columns(ONLY, Self::VALUE, value))
    }

    /// Lets `change` alter the value, and returns what it returned.
    pub fn update<R>(self, tx: &mut impl Transaction, change: impl FnOnce(&mut V) -> R) -> Result<R> {
        made::<O, R>(tx.update_columns(ONLY, Self::VALUE, change))
    }

    /// The value as of the commit; `None` only if the object was not made.
    pub fn look(self, tx: &mut impl Deferring) -> Result<Deferred<Option<V>>>
    where
        V: Later,
    {
        tx.look(ONLY, Self::VALUE)
    }

    /// Replaces the value at the commit.
    pub fn set_later<I: Inputs>(
        self,
        tx: &mut impl Deferring,
        with: I,
        make: impl Fn(I::Values) -> V + Operator,
    ) -> Result<()>
    where
        V: Later,
    {
        tx.put::<Row<O>, I>(ONLY, with, move |values| Row::<O>::new(ONLY, make(values)))
    }

    /// Lets `op` change the value at the commit; see [`Deferring::defer`]. `None` only if the object was not made.
    pub fn update_later<I: Inputs, R: Later>(
        self,
        tx: &mut impl Deferring,
        with: I,
        op: impl Fn(&mut V, I::Values) -> R + Operator,
    ) -> Result<Deferred<Option<R>>>
    where
        V: Later,
    {
        tx.defer(ONLY, Self::VALUE, with, op)
    }
}

handle! {
    /// A number that is added to. Additions read nothing, so under protocols that can add without reading they do not conflict with one
    /// another; see [`Transaction::add`].
    ///
    /// ```
    /// # use heddledb::{Database, Error, Objects, objects::TCounter};
    /// #[derive(Objects)]
    /// struct Site { visits: TCounter }
    ///
    /// let db = Database::builder().objects::<Site>().open()?;
    /// let mut session = db.session()?;
    /// session.run(|tx| Site::visits.add(tx, 3))?;
    /// session.defer(|tx| Site::visits.add_later(tx, -1))?;
    /// assert_eq!(session.run(|tx| Site::visits.get(tx))?, 2);
    /// # Ok::<(), Error>(())
    /// ```
    TCounter<>
}

impl Shape for TCounter {
    type Key = u8;
    type Value = i64;
    type Head = Nothing;
    type Handle<O: Object<Shape = Self>> = TCounter<O>;
    const KEY_NAME: &'static str = "id";
    const DECLARED: Self = Self::NEW;
    fn make<O: Object<Shape = Self>>(tx: &mut impl Transaction) -> Result<()> {
        make_only::<Cells<O>>(tx, 0)
    }
}

impl<O: Object<Shape = TCounter>> Handle for TCounter<O> {
    const HANDLE: Self = Self::NEW;
}

impl<O: Object<Shape = TCounter>> TCounter<O> {
    /// The sum of what was added.
    ///
    /// # Errors
    /// [`ObjectMisuse::NotMade`](crate::error::ObjectMisuse::NotMade), as of each operation.
    pub fn get(self, tx: &mut impl ReadTransaction) -> Result<i64> {
        tx.get_columns(ONLY, Row::<O>::column::<i64>(0))?.ok_or_else(not_made::<O>)
    }

    /// Adds, wrapping, without reading.
    pub fn add(self, tx: &mut impl Transaction, delta: i64) -> Result<()> {
        made::<O, ()>(tx.add(Row::<O>::column::<i64>(0), ONLY, delta))
    }

    /// The sum as of the commit; `None` only if the object was not made.
    pub fn look(self, tx: &mut impl Deferring) -> Result<Deferred<Option<i64>>> {
        tx.look(ONLY, Row::<O>::column::<i64>(0))
    }

    /// Adds at the commit, wrapping; the sum then, `None` only if the object was not made.
    pub fn add_later(self, tx: &mut impl Deferring, delta: i64) -> Result<Deferred<Option<i64>>> {
        tx.defer(ONLY, Row::<O>::column::<i64>(0), (), move |sum, ()| {
            *sum = sum.wrapping_add(delta);
            *sum
        })
    }
}
