//! Maps: entries by their keys.

use super::element::{Element, Nothing};
use super::handle;
use super::object::{Cells, Handle, Object, Row, Shape, is_not_found};
use super::row::Held;
use crate::deferred::{Deferred, Deferring, Inputs, Later, Operator};
use crate::error::Result;
use crate::table::{Key, KeyPrefix, Scan, Structure};
use crate::transaction::{Onward, ReadTransaction, Transaction};
use std::ops::RangeBounds;

handle! {
    /// Entries by their keys, in order, or with `#[hash]` on the field by a hash table: then without order, and what
    /// visits or counts entries is answered with [`Misuse::NotOrdered`](crate::Misuse::NotOrdered).
    ///
    /// A key is a column type that can be a key, or a tuple of up to four.
    ///
    /// ```
    /// # use heddledb::{Database, Error, Objects, objects::TMap};
    /// #[derive(Objects)]
    /// struct Shop {
    ///     stock: TMap<u64, i64>,
    ///     #[hash]
    ///     held: TMap<(u64, u8), u32>,
    /// }
    ///
    /// let db = Database::builder().objects::<Shop>().open()?;
    /// let mut session = db.session()?;
    /// session.run(|tx| {
    ///     assert_eq!(Shop::stock.insert(tx, 7, 5)?, None);
    ///     Shop::stock.update(tx, 7, |left| *left += 1)?;
    ///     Shop::held.insert(tx, (7, 1), 2)?;
    ///     Shop::stock.for_each(tx, 5.., |key, left| assert_eq!((key, left), (7, 6)))
    /// })?;
    /// let left = session.defer(|tx| {
    ///     let left = Shop::stock.update_later(tx, 7, (), |left, ()| { *left -= 1; *left })?;
    ///     let gone = Shop::held.remove_later(tx, (7, 1))?;
    ///     Ok((left, gone))
    /// })?;
    /// assert_eq!(left, (Some(5), true));
    /// # Ok::<(), Error>(())
    /// ```
    TMap<K, V>
}

impl<K: Key + Element, V: Element> Shape for TMap<K, V> {
    type Key = K;
    type Value = V;
    type Head = Nothing;
    type Handle<O: Object<Shape = Self>> = TMap<K, V, O>;
    const KEY_NAME: &'static str = "key";
    const STRUCTURE: Structure = Structure::Ordered;
    const DECLARED: Self = Self::NEW;
    fn make<O: Object<Shape = Self>>(_: &mut impl Transaction) -> Result<()> {
        Ok(())
    }
}

impl<K: Key + Element, V: Element, O: Object<Shape = TMap<K, V>>> Handle for TMap<K, V, O> {
    const HANDLE: Self = Self::NEW;
}

impl<K: Key + Element, V: Element, O: Object<Shape = TMap<K, V>>> TMap<K, V, O> {
    const VALUE: Held<Cells<O>> = Held::new();

    /// The value of `key`.
    pub fn get(self, tx: &mut impl ReadTransaction, key: K) -> Result<Option<V>> {
        tx.get_columns(key, Self::VALUE)
    }

    /// Whether there is an entry of `key`.
    pub fn contains(self, tx: &mut impl ReadTransaction, key: K) -> Result<bool> {
        self.get(tx, key).map(|value| value.is_some())
    }

    /// Sets the value of `key`, and returns the one before.
    pub fn insert(self, tx: &mut impl Transaction, key: K, value: V) -> Result<Option<V>> {
        let before = self.get(tx, key)?;
        match before {
            Some(_) => tx.set_columns(key, Self::VALUE, value)?,
            None => tx.insert(Row::<O>::new(key, value))?,
        }
        Ok(before)
    }

    /// Lets `change` alter the value of `key`, and returns what it returned; `None` if there is no entry.
    pub fn update<R>(
        self,
        tx: &mut impl Transaction,
        key: K,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<Option<R>> {
        match tx.update_columns(key, Self::VALUE, change) {
            Err(error) if is_not_found(&error) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Removes the entry of `key`, and returns its value.
    pub fn remove(self, tx: &mut impl Transaction, key: K) -> Result<Option<V>> {
        let before = self.get(tx, key)?;
        if before.is_some() {
            tx.delete::<Row<O>>(key)?;
        }
        Ok(before)
    }

    /// Visits the entries in a range of keys, in order; see [`Onward`]. No key can appear in the visited part unnoticed.
    ///
    /// # Errors
    /// What `visit` returns.
    pub fn for_each<R: Onward>(
        self,
        tx: &mut impl ReadTransaction,
        range: impl RangeBounds<K>,
        visit: impl FnMut(K, V) -> R,
    ) -> Result<()> {
        tx.scan_columns(Scan::<Row<O>>::range(range), Self::VALUE, visit)
    }

    /// Visits the entries whose keys begin with `prefix`: `(a,)` or `(a, b)` of keys `(a, b, c)`; as [`Self::for_each`].
    ///
    /// # Errors
    /// What `visit` returns.
    pub fn for_each_of<P: KeyPrefix<K>, R: Onward>(
        self,
        tx: &mut impl ReadTransaction,
        prefix: P,
        visit: impl FnMut(K, V) -> R,
    ) -> Result<()> {
        tx.scan_columns(Scan::<Row<O>>::prefix(prefix), Self::VALUE, visit)
    }

    /// The first entry in a range of keys.
    pub fn first(self, tx: &mut impl ReadTransaction, range: impl RangeBounds<K>) -> Result<Option<(K, V)>> {
        self.one(tx, Scan::range(range))
    }

    /// The last entry in a range of keys.
    pub fn last(self, tx: &mut impl ReadTransaction, range: impl RangeBounds<K>) -> Result<Option<(K, V)>> {
        self.one(tx, Scan::range(range).reverse())
    }

    fn one(self, tx: &mut impl ReadTransaction, scan: Scan<Row<O>>) -> Result<Option<(K, V)>> {
        let mut found = None;
        tx.scan_columns(scan.limit(1), Self::VALUE, |key, value| found = Some((key, value)))?;
        Ok(found)
    }

    /// How many entries there are. Visits all of them: a number beside the entries would let all inserts conflict. Where it is wanted
    /// often, count in a [`TCounter`](super::TCounter).
    pub fn len(self, tx: &mut impl ReadTransaction) -> Result<u64> {
        let mut len = 0;
        self.for_each(tx, .., |_, _| len += 1)?;
        Ok(len)
    }

    /// Whether there is no entry.
    pub fn is_empty(self, tx: &mut impl ReadTransaction) -> Result<bool> {
        self.first(tx, ..).map(|first| first.is_none())
    }

    /// The value of `key` as of the commit.
    pub fn look(self, tx: &mut impl Deferring, key: K) -> Result<Deferred<Option<V>>>
    where
        V: Later,
    {
        tx.look(key, Self::VALUE)
    }

    /// Sets the value of `key` at the commit.
    pub fn insert_later<I: Inputs>(
        self,
        tx: &mut impl Deferring,
        key: K,
        with: I,
        make: impl Fn(I::Values) -> V + Operator,
    ) -> Result<()>
    where
        V: Later,
    {
        tx.put::<Row<O>, I>(key, with, move |values| Row::<O>::new(key, make(values)))
    }

    /// Lets `op` change the value of `key` at the commit; `None` if there is no entry. See [`Deferring::defer`].
    pub fn update_later<I: Inputs, R: Later>(
        self,
        tx: &mut impl Deferring,
        key: K,
        with: I,
        op: impl Fn(&mut V, I::Values) -> R + Operator,
    ) -> Result<Deferred<Option<R>>>
    where
        V: Later,
    {
        tx.defer(key, Self::VALUE, with, op)
    }

    /// Removes the entry of `key` at the commit; whether there was one.
    pub fn remove_later(self, tx: &mut impl Deferring, key: K) -> Result<Deferred<bool>> {
        tx.erase::<Row<O>>(key)
    }
}
