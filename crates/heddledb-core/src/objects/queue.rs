//! Queues: elements numbered in the order in which they came.
//!
//! The head has the number of the first element, and the one that the next gets, in column groups of their own: one who pushes
//! reads and writes the tail, one who pops the head. Whether there is an element is seen by its row, so one who pops reads the tail
//! never, and meets one who pushes only at that very row: where the queue is empty.

use super::element::{Element, Ends};
use super::handle;
use super::object::{Cells, Handle, Head, Object, Row, Shape, change_head, head, make_only, push_later};
use super::row::Held;
use crate::deferred::{Deferring, Inputs, Later, Operator};
use crate::error::Result;
use crate::transaction::{Onward, ReadTransaction, Transaction};

const HEAD: usize = 0;
const TAIL: usize = 1;

handle! {
    /// A queue: first in, first out.
    ///
    /// A pop is never deferred, since which row it is about is known only when the queue's end is read. Who pushes later
    /// ([`push_later`](Self::push_later)) is handed the end by who pushed before, and meets nobody else.
    ///
    /// ```
    /// # use heddledb::{Database, Error, Objects, objects::TQueue};
    /// #[derive(Objects)]
    /// struct Work { jobs: TQueue<u64> }
    ///
    /// let db = Database::builder().objects::<Work>().open()?;
    /// let mut session = db.session()?;
    /// session.run(|tx| (1..=3).try_for_each(|job| Work::jobs.push(tx, job)))?;
    /// assert_eq!(session.run(|tx| Work::jobs.pop(tx))?, Some(1));
    /// assert_eq!(session.run(|tx| Work::jobs.len(tx))?, 2);
    /// # Ok::<(), Error>(())
    /// ```
    TQueue<V>
}

impl<V: Element> Shape for TQueue<V> {
    type Key = u64;
    type Value = V;
    type Head = Ends;
    type Handle<O: Object<Shape = Self>> = TQueue<V, O>;
    const HAS_HEAD: bool = true;
    const KEY_NAME: &'static str = "number";
    const DECLARED: Self = Self::NEW;
    fn make<O: Object<Shape = Self>>(tx: &mut impl Transaction) -> Result<()> {
        make_only::<Head<O>>(tx, Ends::default())
    }
}

impl<V: Element, O: Object<Shape = TQueue<V>>> Handle for TQueue<V, O> {
    const HANDLE: Self = Self::NEW;
}

impl<V: Element, O: Object<Shape = TQueue<V>>> TQueue<V, O> {
    const VALUE: Held<Cells<O>> = Held::new();

    /// Adds an element at the end.
    ///
    /// # Errors
    /// [`ObjectMisuse::NotMade`](crate::error::ObjectMisuse::NotMade), as of each operation.
    pub fn push(self, tx: &mut impl Transaction, value: V) -> Result<()> {
        let number = change_head::<O, u64>(tx, TAIL, |tail| {
            *tail += 1;
            *tail - 1
        })?;
        tx.insert(Row::<O>::new(number, value))
    }

    /// Adds an element at the end at the commit, which `make` makes.
    ///
    /// # Errors
    /// Where the queue was not made, the transaction's caller hears so.
    pub fn push_later<I: Inputs>(
        self,
        tx: &mut impl Deferring,
        with: I,
        make: impl Fn(I::Values) -> V + Operator,
    ) -> Result<()>
    where
        V: Later,
    {
        push_later::<O, I>(tx, TAIL, with, make).map(drop)
    }

    /// Removes the first element and returns it; `None` if there is none.
    pub fn pop(self, tx: &mut impl Transaction) -> Result<Option<V>> {
        let number = head::<O, u64>(tx, HEAD)?;
        let Some(value) = tx.get_columns(number, Self::VALUE)? else { return Ok(None) };
        tx.delete::<Row<O>>(number)?;
        change_head::<O, ()>(tx, HEAD, |head| *head = number + 1)?;
        Ok(Some(value))
    }

    /// The first element; `None` if there is none.
    pub fn peek(self, tx: &mut impl ReadTransaction) -> Result<Option<V>> {
        let number = head::<O, u64>(tx, HEAD)?;
        tx.get_columns(number, Self::VALUE)
    }

    /// How many elements there are. Reads both ends, so it conflicts with those who push and those who pop.
    pub fn len(self, tx: &mut impl ReadTransaction) -> Result<u64> {
        let (head, tail) = (head::<O, u64>(tx, HEAD)?, head::<O, u64>(tx, TAIL)?);
        // Of two moments, which the commit will find, the difference may be anything.
        Ok(tail.saturating_sub(head))
    }

    /// Whether there is no element. Does not conflict with those who push where there is one.
    pub fn is_empty(self, tx: &mut impl ReadTransaction) -> Result<bool> {
        self.peek(tx).map(|first| first.is_none())
    }

    /// Visits the elements from the first to the last; see [`Onward`].
    ///
    /// # Errors
    /// What `visit` returns.
    pub fn for_each<R: Onward>(
        self,
        tx: &mut impl ReadTransaction,
        mut visit: impl FnMut(V) -> R,
    ) -> Result<()> {
        for number in head::<O, u64>(tx, HEAD)?..head::<O, u64>(tx, TAIL)? {
            // Ends of two moments, which the commit will find, may have nothing between them.
            let Some(value) = tx.get_columns(number, Self::VALUE)? else { break };
            if visit(value).onward()?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// All elements, the first first.
    pub fn collect(self, tx: &mut impl ReadTransaction) -> Result<Vec<V>> {
        let mut all = Vec::new();
        self.for_each(tx, |value| all.push(value))?;
        Ok(all)
    }
}
