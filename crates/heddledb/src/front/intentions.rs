//! Intentions on rows: each as a step of a plan, on a row's words, and as the ordinary operation that does the same.

use super::alter::alter;
use super::txn::Txn;
use crate::deferred::{Deferred, Inputs, Plan, Refusal, Step};
use crate::error::{Misuse, Result};
use crate::reading::Wanted;
use crate::seam::{Applied, Intention};
use crate::table::{Columns, Definition, Key, Relation, Row, Table, encode_key};
use crate::transaction::{ReadTransaction, Transaction};
use crate::words::WordsCopy;
use std::marker::PhantomData;

/// A step with a row.
pub(super) trait Intended: Step {
    /// The table of the row.
    type Table: Table;
    /// What it does.
    const WHAT: Intention;
    /// The key's words.
    fn key(&self) -> <Self::Table as Relation>::Words;
    /// Which words of the row it needs.
    fn wanted(&self) -> Wanted;
    /// Whether values of these may lie outside of the row, where no step of a plan reaches them.
    fn has_slots(&self) -> bool {
        !Self::Table::LAYOUT.slots.is_empty()
    }
    /// Does the same as an ordinary operation.
    fn execute(self, values: <Self::Inputs as Inputs>::Values, txn: &mut Txn) -> Result<Self::Output>;
}

/// Executes a step of a plan that was deferred.
pub(super) type Execute = fn(&mut Txn, &mut Plan, u32) -> Result<()>;

/// What a session keeps for its deferring transactions, from one to the next.
#[derive(Default)]
pub(super) struct Room {
    pub plan: Plan,
    /// The steps that the worker was told of.
    pending: Vec<(u32, Execute)>,
    /// The numbers of the tables into which some of them insert.
    inserted: Vec<usize>,
    /// Whether intentions are deferred: the worker does, and the attempt has not turned to doing all at once.
    pub defers: bool,
}

impl Room {
    /// Begins an attempt of a worker that defers, or does not.
    pub fn begin(&mut self, defers: bool) {
        self.plan.begin();
        self.pending.clear();
        self.inserted.clear();
        self.defers = defers;
    }

    /// Whether the worker was told of intentions that are still to be carried out.
    pub fn has_pending(&self) -> bool {
        self.defers && !self.pending.is_empty()
    }

    /// Plans a step of which the worker is to be told.
    pub fn plan<S: Intended>(&mut self, step: S) -> Result<(u32, Deferred<S::Output>)> {
        self.plan_as(step, execute::<S>)
    }

    /// As [`Self::plan`], of a step that makes a row of this table and is executed so.
    pub fn plan_insert<S: Step>(
        &mut self,
        step: S,
        table: &'static Definition,
        execute: Execute,
    ) -> Result<(u32, Deferred<S::Output>)> {
        if !self.inserts_into(table) {
            self.inserted.push(table.number());
        }
        self.plan_as(step, execute)
    }

    /// Whether a row of this table will be inserted at the commit.
    pub fn inserts_into(&self, table: &'static Definition) -> bool {
        self.defers && self.inserted.contains(&table.number())
    }

    fn plan_as<S: Step>(&mut self, step: S, execute: Execute) -> Result<(u32, Deferred<S::Output>)> {
        let (number, result) = self.plan.row(step)?;
        self.pending.push((number, execute));
        Ok((number, result))
    }

    /// Carries out at once what was deferred, in the order in which it was written down, and defers nothing more. The operation
    /// that asks for it is another than those: where one of these is refused, the attempt has failed, since nobody would
    /// notice what is missing.
    #[cold]
    pub fn materialise(&mut self, txn: &mut Txn) -> Result<()> {
        let pending = std::mem::take(&mut self.defers) && !self.pending.is_empty();
        if !pending {
            return Ok(());
        }
        txn.worker.forget_intentions();
        self.carry_out(txn).inspect_err(|_| txn.failed = true)
    }

    fn carry_out(&mut self, txn: &mut Txn) -> Result<()> {
        for &(step, execute) in &self.pending {
            if !self.plan.is_done(step) {
                execute(txn, &mut self.plan, step)?;
            }
            if let Some(refusal) = self.plan.refused() {
                return Err(refusal.error());
            }
        }
        Ok(())
    }
}

fn execute<S: Intended>(txn: &mut Txn, plan: &mut Plan, step: u32) -> Result<()> {
    execute_by(S::execute, txn, plan, step)
}

/// Executes a step by the ordinary operation that does the same.
pub(super) fn execute_by<S, O>(operation: O, txn: &mut Txn, plan: &mut Plan, step: u32) -> Result<()>
where
    S: Step,
    O: FnOnce(S, <S::Inputs as Inputs>::Values, &mut Txn) -> Result<S::Output>,
{
    let (operator, values) = plan.operator::<S>(step).expect("a step is executed as what it was planned as");
    let output = operation(operator, values, txn)?;
    plan.finish(step, output);
    Ok(())
}

/// Reads columns.
#[derive(Clone, Copy)]
pub(super) struct Look<K, C> {
    pub key: K,
    pub columns: C,
}

impl<K, C> Step for Look<K, C>
where
    K: Key,
    C: Columns + Send + Sync + 'static,
    C::Value: Copy + Send + 'static,
{
    type Inputs = ();
    type Output = Option<C::Value>;
    const DECIDES: bool = false;
    fn inputs(&self) {}
    fn apply(self, (): (), present: bool, row: &mut [u64]) -> Result<(Applied, Self::Output), Refusal> {
        Ok((Applied::Kept, present.then(|| self.columns.load(&WordsCopy::new(0, row)))))
    }
}

impl<K, C> Intended for Look<K, C>
where
    K: Key,
    C: Columns + Send + Sync + 'static,
    C::Table: Relation<Key = K>,
    C::Value: Copy + Send + 'static,
{
    type Table = C::Table;
    const WHAT: Intention = Intention::Look;
    fn key(&self) -> <C::Table as Relation>::Words {
        encode_key(&self.key)
    }
    fn wanted(&self) -> Wanted {
        Wanted::of(&self.columns)
    }
    fn has_slots(&self) -> bool {
        self.columns.have_slots()
    }
    fn execute(self, (): (), txn: &mut Txn) -> Result<Self::Output> {
        txn.get_columns(self.key, self.columns)
    }
}

/// Changes columns.
pub(super) struct Change<K, C, I, F, V> {
    pub key: K,
    pub columns: C,
    pub with: I,
    pub op: F,
    pub output: PhantomData<fn() -> V>,
}

impl<K: Copy, C: Copy, I: Copy, F: Copy, V> Clone for Change<K, C, I, F, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Copy, C: Copy, I: Copy, F: Copy, V> Copy for Change<K, C, I, F, V> {}

impl<K, C, I, F, V> Step for Change<K, C, I, F, V>
where
    K: Key,
    C: Columns + Send + Sync + 'static,
    I: Inputs,
    F: Fn(&mut C::Value, I::Values) -> V + Copy + Send + Sync + 'static,
    V: Copy + Send + 'static,
{
    type Inputs = I;
    type Output = Option<V>;
    const DECIDES: bool = false;
    fn inputs(&self) -> I {
        self.with
    }
    fn apply(
        self,
        values: I::Values,
        present: bool,
        row: &mut [u64],
    ) -> Result<(Applied, Option<V>), Refusal> {
        if !present {
            return Ok((Applied::Kept, None));
        }
        let Self { columns, op, .. } = self;
        let altered = alter(WordsCopy::new(0, row), columns.groups(), columns, |value| op(value, values));
        let (output, changed) = altered.expect("a value that is `Copy` has a fixed length");
        Ok((Applied::Changed(changed), Some(output)))
    }
}

impl<K, C, I, F, V> Intended for Change<K, C, I, F, V>
where
    K: Key,
    C: Columns + Send + Sync + 'static,
    C::Table: Relation<Key = K>,
    I: Inputs,
    F: Fn(&mut C::Value, I::Values) -> V + Copy + Send + Sync + 'static,
    V: Copy + Send + 'static,
{
    type Table = C::Table;
    const WHAT: Intention = Intention::Change;
    fn key(&self) -> <C::Table as Relation>::Words {
        encode_key(&self.key)
    }
    fn wanted(&self) -> Wanted {
        Wanted::of(&self.columns)
    }
    fn has_slots(&self) -> bool {
        self.columns.have_slots()
    }
    fn execute(self, values: I::Values, txn: &mut Txn) -> Result<Option<V>> {
        let Self { columns, op, .. } = self;
        let changed = txn.update_if_there(&self.key(), columns, |value| op(value, values));
        txn.guard(changed)
    }
}

/// Puts a row that is made when its inputs are known.
#[derive(Clone, Copy)]
pub(super) struct Put<K, I, F> {
    pub key: K,
    pub with: I,
    pub make: F,
}

/// Puts a row that is known; of this key, as was checked.
#[derive(Clone, Copy)]
pub(super) struct PutRow<T>(pub T);

/// Whether a row has this key.
pub(super) fn has_key<T: Table>(row: &T, key: &T::Key) -> bool {
    let (own, other): (T::Words, T::Words) = (encode_key(&row.key()), encode_key(key));
    own == other
}

/// Replaces a row, or makes it.
fn put<T: Table>(new: T, present: bool, row: &mut [u64]) -> Applied {
    let words = WordsCopy::new(0, row);
    if present {
        let altered = alter(words, T::LAYOUT.all_groups(), Row::<T>::new(), |old| *old = new);
        return Applied::Changed(altered.expect("a row that is `Copy` has a fixed length").1);
    }
    let mut words = words;
    new.store(&mut words);
    Applied::Made
}

/// All of a row.
fn whole<T: Table>() -> Wanted {
    Wanted::all(T::LAYOUT.words, T::LAYOUT.all_groups())
}

impl<K, T, I, F> Step for Put<K, I, F>
where
    K: Key,
    T: Table<Key = K> + Copy,
    I: Inputs,
    F: Fn(I::Values) -> T + Copy + Send + Sync + 'static,
{
    type Inputs = I;
    type Output = ();
    /// It may turn out to be a row of another key.
    const DECIDES: bool = true;
    fn inputs(&self) -> I {
        self.with
    }
    fn apply(self, values: I::Values, present: bool, row: &mut [u64]) -> Result<(Applied, ()), Refusal> {
        let new = (self.make)(values);
        if !has_key(&new, &self.key) {
            return Err(Refusal::other_key(T::LAYOUT.name));
        }
        Ok((put(new, present, row), ()))
    }
}

impl<K, T, I, F> Intended for Put<K, I, F>
where
    K: Key,
    T: Table<Key = K> + Copy,
    I: Inputs,
    F: Fn(I::Values) -> T + Copy + Send + Sync + 'static,
{
    type Table = T;
    const WHAT: Intention = Intention::Put;
    fn key(&self) -> T::Words {
        encode_key(&self.key)
    }
    fn wanted(&self) -> Wanted {
        whole::<T>()
    }
    fn execute(self, values: I::Values, txn: &mut Txn) -> Result<()> {
        let new = (self.make)(values);
        if !has_key(&new, &self.key) {
            return txn.guard(Err(Misuse::PutElsewhere { table: T::LAYOUT.name }.into()));
        }
        txn.put_row(new).map(|_| ())
    }
}

impl<T: Table + Copy> Step for PutRow<T> {
    type Inputs = ();
    type Output = ();
    const DECIDES: bool = false;
    fn inputs(&self) {}
    fn apply(self, (): (), present: bool, row: &mut [u64]) -> Result<(Applied, ()), Refusal> {
        Ok((put(self.0, present, row), ()))
    }
}

impl<T: Table + Copy> Intended for PutRow<T> {
    type Table = T;
    const WHAT: Intention = Intention::Put;
    fn key(&self) -> T::Words {
        encode_key(&self.0.key())
    }
    fn wanted(&self) -> Wanted {
        whole::<T>()
    }
    fn execute(self, (): (), txn: &mut Txn) -> Result<()> {
        txn.put_row(self.0).map(|_| ())
    }
}

/// Removes a row.
pub(super) struct Erase<T: Table>(pub T::Key);

impl<T: Table> Clone for Erase<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Table> Copy for Erase<T> {}

impl<T: Table> Step for Erase<T> {
    type Inputs = ();
    type Output = bool;
    const DECIDES: bool = false;
    fn inputs(&self) {}
    fn apply(self, (): (), present: bool, _: &mut [u64]) -> Result<(Applied, bool), Refusal> {
        Ok((if present { Applied::Removed } else { Applied::Kept }, present))
    }
}

impl<T: Table> Intended for Erase<T> {
    type Table = T;
    const WHAT: Intention = Intention::Erase;
    fn key(&self) -> T::Words {
        encode_key(&self.0)
    }
    fn wanted(&self) -> Wanted {
        whole::<T>()
    }
    fn execute(self, (): (), txn: &mut Txn) -> Result<bool> {
        txn.delete::<T>(self.0)
    }
}
