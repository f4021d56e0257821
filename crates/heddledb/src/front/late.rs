//! Inserts whose rows, and so whose keys, are made at the commit.
//!
//! Such a step has no row before it is applied. Then it makes all that the insert adds: the row, and its entry in each
//! index, each behind its key.

use super::entries::fill_primary_key;
use super::intentions::execute_by;
use super::txn::Txn;
use crate::deferred::{Inputs, Later, Operator, Plan, Refusal, Step};
use crate::error::Result;
use crate::seam::{Applied, Defers};
use crate::table::{Index, IndexSet, IndexVisitor, KeyWords, Relation, Table, encode_key};
use crate::transaction::Transaction;
use crate::words::WordsCopy;
use std::marker::PhantomData;

/// Inserts the row that a function makes.
pub(super) struct InsertWith<T, I, F> {
    pub with: I,
    pub make: F,
    pub table: PhantomData<fn() -> T>,
}

impl<T, I: Copy, F: Copy> Clone for InsertWith<T, I, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, I: Copy, F: Copy> Copy for InsertWith<T, I, F> {}

impl<T: Table + Later, I: Inputs, F: Fn(I::Values) -> T + Operator> Step for InsertWith<T, I, F> {
    type Inputs = I;
    type Output = ();
    const DECIDES: bool = false;
    fn inputs(&self) -> I {
        self.with
    }
    fn apply(self, values: I::Values, _: bool, made: &mut [u64]) -> Result<(Applied, ()), Refusal> {
        let row = (self.make)(values);
        let key: T::Words = encode_key(&row.key());
        let mut rest = made;
        fill::<T>(&mut rest, &key, |words| row.store(words));
        let entries = T::Indexes::each(&mut MakeEntry { row: &row, rest });
        entries.expect("an entry is made of every row");
        Ok((Applied::Made, ()))
    }
}

impl<T: Table + Later, I: Inputs, F: Fn(I::Values) -> T + Operator> InsertWith<T, I, F> {
    /// Does the same as an ordinary operation.
    pub fn insert(self, values: I::Values, txn: &mut Txn) -> Result<()> {
        txn.insert((self.make)(values))
    }

    /// Executes such a step of a plan that was deferred.
    pub fn execute(txn: &mut Txn, plan: &mut Plan, step: u32) -> Result<()> {
        execute_by(Self::insert, txn, plan, step)
    }
}

/// Takes a key and its row from the front of what there is room for.
fn fill<R: Relation>(rest: &mut &mut [u64], key: &R::Words, store: impl FnOnce(&mut WordsCopy<'_>)) {
    let (to, row) = std::mem::take(rest).split_at_mut(key.words().len());
    to.copy_from_slice(key.words());
    let (row, others) = row.split_at_mut(R::LAYOUT.words);
    store(&mut WordsCopy::new(0, row));
    *rest = others;
}

/// Makes a row's entry in each index.
struct MakeEntry<'a, T> {
    row: &'a T,
    rest: &'a mut [u64],
}

impl<T: Table> IndexVisitor<T> for MakeEntry<'_, T> {
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
        let entry = encode_key(&I::entry(self.row));
        fill::<I>(&mut self.rest, &entry, fill_primary_key(self.row));
        Ok(())
    }
}

/// Tells the worker of a step that inserts: of the table, and of each of its indexes.
pub(super) fn tell<T: Table>(worker: &mut dyn Defers, step: u32) -> Result<()> {
    worker.defer_insert(T::definition(), step)?;
    T::Indexes::each(&mut TellIndex { worker, step })
}

struct TellIndex<'a> {
    worker: &'a mut dyn Defers,
    step: u32,
}

impl<T: Table> IndexVisitor<T> for TellIndex<'_> {
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()> {
        self.worker.defer_insert(I::definition(), self.step)
    }
}
