//! Arrays and vectors: elements by their index.

use super::element::{Element, Length};
use super::handle;
use super::object::{
    Cells, Handle, Head, Object, Row, Shape, change_head, head, is_not_found, make_only, push_later,
};
use super::row::Held;
use crate::deferred::{Deferred, Deferring, Inputs, Later, Operator};
use crate::error::{Error, Misuse, ObjectMisuse, Result};
use crate::transaction::{Onward, ReadTransaction, Transaction};

/// The column of the length in the head.
const LEN: usize = 0;

/// The answer to an index that no element has.
#[cold]
fn out_of_bounds<O: Object>(tx: &mut impl ReadTransaction, index: u64) -> Error {
    match head::<O, u64>(tx, LEN) {
        Ok(len) => Misuse::Object(ObjectMisuse::OutOfBounds { object: O::NAME, index, len }).into(),
        Err(error) => error,
    }
}

handle! {
    /// Elements by their index, from 0; made longer by [`grow`](Self::grow), and never shorter.
    ///
    /// ```
    /// # use heddledb::{Database, Error, Objects, objects::TArray};
    /// #[derive(Objects)]
    /// struct Hall { seats: TArray<u32> }
    ///
    /// let db = Database::builder().objects::<Hall>().open()?;
    /// let mut session = db.session()?;
    /// session.run(|tx| Hall::seats.grow(tx, 100, 0))?;
    /// session.run(|tx| Hall::seats.set(tx, 7, 42))?;
    /// let before = session.defer(|tx| {
    ///     Hall::seats.update_later(tx, 7, (), |seat, ()| std::mem::replace(seat, 43))
    /// })?;
    /// assert_eq!(before, Some(42));
    /// let error = session.run(|tx| Hall::seats.get(tx, 100)).unwrap_err();
    /// assert_eq!(error.to_string(), "hall_seats has 100 elements, and none at 100; look at its `len`, or make it longer");
    /// # Ok::<(), Error>(())
    /// ```
    TArray<V>
}

handle! {
    /// Elements by their index, from 0; longer and shorter at its end.
    ///
    /// ```
    /// # use heddledb::{Database, Error, Objects, objects::TVector};
    /// #[derive(Objects)]
    /// struct Work { log: TVector<u32> }
    ///
    /// let db = Database::builder().objects::<Work>().open()?;
    /// db.session()?.run(|tx| {
    ///     assert_eq!(Work::log.push(tx, 5)?, 0);
    ///     assert_eq!(Work::log.push(tx, 6)?, 1);
    ///     assert_eq!(Work::log.pop(tx)?, Some(6));
    ///     assert_eq!(Work::log.collect(tx)?, [5]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    TVector<V>
}

/// What both can do.
macro_rules! indexed {
    ($name:ident) => {
        impl<V: Element> Shape for $name<V> {
            type Key = u64;
            type Value = V;
            type Head = Length;
            type Handle<O: Object<Shape = Self>> = $name<V, O>;
            const HAS_HEAD: bool = true;
            const KEY_NAME: &'static str = "index";
            const DECLARED: Self = Self::NEW;
            fn make<O: Object<Shape = Self>>(tx: &mut impl Transaction) -> Result<()> {
                make_only::<Head<O>>(tx, Length::default())
            }
        }

        impl<V: Element, O: Object<Shape = $name<V>>> Handle for $name<V, O> {
            const HANDLE: Self = Self::NEW;
        }

        impl<V: Element, O: Object<Shape = $name<V>>> $name<V, O> {
            const VALUE: Held<Cells<O>> = Held::new();

            /// How many elements there are.
            ///
            /// # Errors
            /// [`ObjectMisuse::NotMade`], as of each operation.
            pub fn len(self, tx: &mut impl ReadTransaction) -> Result<u64> {
                head::<O, u64>(tx, LEN)
            }

            /// Whether there is no element.
            ///
            /// # Errors
            /// As of [`Self::len`].
            pub fn is_empty(self, tx: &mut impl ReadTransaction) -> Result<bool> {
                self.len(tx).map(|len| len == 0)
            }

            /// The element at `index`. The length is not read.
            ///
            /// # Errors
            /// [`ObjectMisuse::OutOfBounds`].
            pub fn get(self, tx: &mut impl ReadTransaction, index: u64) -> Result<V> {
                match tx.get_columns(index, Self::VALUE)? {
                    Some(value) => Ok(value),
                    None => Err(out_of_bounds::<O>(tx, index)),
                }
            }

            /// Replaces the element at `index`, without reading it.
            ///
            /// # Errors
            /// [`ObjectMisuse::OutOfBounds`].
            pub fn set(self, tx: &mut impl Transaction, index: u64, value: V) -> Result<()> {
                match tx.set_columns(index, Self::VALUE, value) {
                    Err(error) if is_not_found(&error) => Err(out_of_bounds::<O>(tx, index)),
                    other => other,
                }
            }

            /// Lets `change` alter the element at `index`, and returns what it returned.
            ///
            /// # Errors
            /// [`ObjectMisuse::OutOfBounds`].
            pub fn update<R>(
                self,
                tx: &mut impl Transaction,
                index: u64,
                change: impl FnOnce(&mut V) -> R,
            ) -> Result<R> {
                match tx.update_columns(index, Self::VALUE, change) {
                    Err(error) if is_not_found(&error) => Err(out_of_bounds::<O>(tx, index)),
                    other => other,
                }
            }

            /// Visits the elements by their index; see [`Onward`].
            ///
            /// # Errors
            /// What `visit` returns.
            pub fn for_each<R: Onward>(
                self,
                tx: &mut impl ReadTransaction,
                mut visit: impl FnMut(u64, V) -> R,
            ) -> Result<()> {
                for index in 0..self.len(tx)? {
                    // Under optimistic protocols the length and the elements may be of two moments until the commit.
                    let value = self.get(tx, index)?;
                    if visit(index, value).onward()?.is_break() {
                        break;
                    }
                }
                Ok(())
            }

            /// All elements.
            pub fn collect(self, tx: &mut impl ReadTransaction) -> Result<Vec<V>> {
                let mut all = Vec::new();
                self.for_each(tx, |_, value| all.push(value))?;
                Ok(all)
            }

            /// Adds elements with that value until there are `len`; does nothing where there are as many. Each takes an insert: make a
            /// long one so in several transactions.
            pub fn grow(self, tx: &mut impl Transaction, len: u64, value: V) -> Result<()> {
                let before = self.len(tx)?;
                if before >= len {
                    return Ok(());
                }
                for index in before..len {
                    tx.insert(Row::<O>::new(index, value.clone()))?;
                }
                change_head::<O, ()>(tx, LEN, |it| *it = len)
            }

            /// The element at `index` as of the commit; `None` if there is none.
            pub fn look(self, tx: &mut impl Deferring, index: u64) -> Result<Deferred<Option<V>>>
            where
                V: Later,
            {
                tx.look(index, Self::VALUE)
            }

            /// Lets `op` change the element at `index` at the commit; `None` if there is none. See [`Deferring::defer`].
            pub fn update_later<I: Inputs, R: Later>(
                self,
                tx: &mut impl Deferring,
                index: u64,
                with: I,
                op: impl Fn(&mut V, I::Values) -> R + Operator,
            ) -> Result<Deferred<Option<R>>>
            where
                V: Later,
            {
                tx.defer(index, Self::VALUE, with, op)
            }
        }
    };
}
indexed!(TArray);
indexed!(TVector);

impl<V: Element, O: Object<Shape = TVector<V>>> TVector<V, O> {
    /// Adds an element at the end, and returns its index.
    pub fn push(self, tx: &mut impl Transaction, value: V) -> Result<u64> {
        let index = change_head::<O, u64>(tx, LEN, |len| {
            *len += 1;
            *len - 1
        })?;
        tx.insert(Row::<O>::new(index, value))?;
        Ok(index)
    }

    /// Adds an element at the end at the commit, which `make` makes; its index.
    ///
    /// # Errors
    /// Where the vector was not made, the transaction's caller hears so.
    pub fn push_later<I: Inputs>(
        self,
        tx: &mut impl Deferring,
        with: I,
        make: impl Fn(I::Values) -> V + Operator,
    ) -> Result<Deferred<u64>>
    where
        V: Later,
    {
        push_later::<O, I>(tx, LEN, with, make)
    }

    /// Removes the last element and returns it; `None` if there is none.
    pub fn pop(self, tx: &mut impl Transaction) -> Result<Option<V>> {
        let len = self.len(tx)?;
        let Some(index) = len.checked_sub(1) else { return Ok(None) };
        let value = self.get(tx, index)?;
        tx.delete::<Row<O>>(index)?;
        change_head::<O, ()>(tx, LEN, |len| *len = index)?;
        Ok(Some(value))
    }

    /// Removes elements from the end until there are `len`.
    pub fn truncate(self, tx: &mut impl Transaction, len: u64) -> Result<()> {
        let before = self.len(tx)?;
        for index in len..before {
            tx.delete::<Row<O>>(index)?;
        }
        if before > len { change_head::<O, ()>(tx, LEN, |it| *it = len) } else { Ok(()) }
    }
}
