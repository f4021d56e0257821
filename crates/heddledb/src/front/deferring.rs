//! Deferring transactions: intentions are planned, or carried out at once where they cannot be deferred.
//!
//! It is a type of its own around [`Txn`], so that an ordinary transaction has nothing to ask.

use super::erased::HAS_RESULT;
use super::intentions::{Change, Erase, Intended, Look, Put, PutRow, Room, has_key};
use super::late::{InsertWith, tell};
use super::nesting;
use super::session::{Session, not_begun};
use super::txn::{Txn, note_met};
use crate::deferred::{Deferred, Deferring, Ensure, Inputs, Later, Map, Name, Operator, Outcome, Refusal};
use crate::error::{Misuse, Result};
use crate::reading::{Decode, Reading};
use crate::seam::{Access, Ahead, Body, Ended, Intention, Range, Savepoint, Visit};
use crate::sight::Sight;
use crate::table::{Addable, Changeable, Column, Columns, Definition, Relation, Table};
use crate::transaction::Transaction;
use crate::values::Values;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// A running transaction that can defer; see [`Deferring`](crate::Deferring).
///
/// [`Session::defer`](crate::Session::defer) hands it to closures.
pub struct DeferringTxn<'s> {
    txn: &'s mut Txn,
    room: &'s mut Room,
}

impl Session {
    /// Runs `body` as one deferring transaction and commits it: as [`Session::run`](crate::Session::run), but what the body
    /// returns stands for values that may be known only at the commit, and the caller gets these.
    ///
    /// # Errors
    /// As for [`Session::run`](crate::Session::run); the reason of an [`ensure`](crate::Deferring::ensure) whose condition
    /// did not hold: nothing was changed then.
    ///
    /// ```
    /// use heddledb::{Database, Deferring, Error, Table, Transaction};
    /// #[derive(Table, Clone, Copy)]
    /// struct Account { #[key] id: u64, balance: i64 }
    ///
    /// let db = Database::in_memory();
    /// let mut session = db.session()?;
    /// session.run(|tx| (1..3).try_for_each(|id| tx.insert(Account { id, balance: 100 })))?;
    /// let left = session.defer(|tx| {
    ///     let left = tx.defer(1, Account::balance, (), |balance, ()| { *balance -= 30; *balance })?;
    ///     let enough = tx.map(left, |left| left.is_some_and(|left| left >= 0))?;
    ///     tx.ensure(enough, "insufficient funds")?;
    ///     tx.defer(2, Account::balance, (), |balance, ()| *balance += 30)?;
    ///     Ok(left)
    /// })?;
    /// assert_eq!(left, Some(70));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn defer<O: Outcome>(
        &mut self,
        body: impl FnMut(&mut DeferringTxn<'_>) -> Result<O>,
    ) -> Result<O::Values> {
        self.defer_by(body, Self::defer_erased)
    }

    fn defer_erased(&mut self, room: &mut Room, body: Erased<'_>) -> Result<()> {
        if self.is_within_another() {
            return self.within_another(&mut |session| session.defer_erased(room, body));
        }
        self.until_committed(|session, retry| attempt(session.txn_mut(), retry, room, body))
    }

    /// As [`Self::defer`], once; a conflict comes back.
    pub(super) fn attempt_deferring<O: Outcome>(
        &mut self,
        body: impl FnMut(&mut DeferringTxn<'_>) -> Result<O>,
    ) -> Result<O::Values> {
        self.defer_by(body, |session, room, body| {
            attempt(session.txn_mut(), 0, room, body)?;
            session.acknowledge_last()
        })
    }

    /// Runs a body by a function that does not know what it returns; the rest is compiled for each body.
    fn defer_by<O: Outcome>(
        &mut self,
        mut body: impl FnMut(&mut DeferringTxn<'_>) -> Result<O>,
        run: fn(&mut Self, &mut Room, Erased<'_>) -> Result<()>,
    ) -> Result<O::Values> {
        let mut room = self.room.take().unwrap_or_default();
        let mut result = None;
        let ran = run(self, &mut room, &mut |tx| {
            result = None;
            let outcome = body(tx)?;
            tx.check_end(&outcome)?;
            result = Some(outcome);
            Ok(())
        });
        let values = ran.map(|()| result.expect(HAS_RESULT).into_values(&room.plan));
        self.room = Some(room);
        values
    }
}

/// A body whose outcome is left where who made it finds it.
type Erased<'a> = &'a mut dyn FnMut(&mut DeferringTxn<'_>) -> Result<()>;

/// Makes one attempt.
fn attempt(txn: &mut Txn, retry: u32, room: &mut Room, body: Erased<'_>) -> Result<()> {
    if !txn.begin(retry, None) {
        return Err(not_begun(&mut *txn.worker, ""));
    }
    loop {
        room.begin(txn.worker.defers());
        let running = nesting::Running::new();
        let executed = catch_unwind(AssertUnwindSafe(|| body(&mut DeferringTxn { txn, room })));
        drop(running);
        match executed {
            Ok(Ok(())) => {
                let ended = if room.has_pending() && !txn.failed {
                    txn.worker.end_deferred(&mut room.plan)
                } else {
                    txn.worker.end(Body::Done { failed: txn.failed })
                };
                match ended? {
                    Ended::Committed => return Ok(()),
                    // Only a call is announced, and this is none.
                    Ended::Again | Ended::Panics | Ended::Announced => txn.restart(),
                }
            }
            Ok(Err(error)) => {
                txn.worker.end(Body::Gave(error))?;
                txn.restart();
            }
            Err(panic) => match txn.worker.end(Body::Panicked)? {
                Ended::Panics => resume_unwind(panic),
                Ended::Committed | Ended::Again | Ended::Announced => txn.restart(),
            },
        }
    }
}

impl DeferringTxn<'_> {
    /// Refuses to go on after a failure, or where it is decided that there will be no effect.
    fn check_state(&self) -> Result<()> {
        if self.txn.failed {
            return Err(Misuse::Failed.into());
        }
        self.room.plan.refused().map_or(Ok(()), |refusal| Err(refusal.error()))
    }

    /// Refuses to end with values that the caller cannot get, or after a refusal that the body has passed over.
    fn check_end(&mut self, outcome: &impl Outcome) -> Result<()> {
        if self.txn.failed {
            // The end says so.
            return Ok(());
        }
        self.check_state()?;
        self.room.plan.check(|visit| outcome.each_name(visit))
    }

    /// Defers an intention, or carries it out.
    fn intend<S: Intended>(&mut self, step: S) -> Result<Deferred<S::Output>> {
        let result = self.intend_unguarded(step);
        self.txn.guard(result)
    }

    fn intend_unguarded<S: Intended>(&mut self, step: S) -> Result<Deferred<S::Output>> {
        self.check_state()?;
        let Self { txn, room } = self;
        let inputs = step.inputs();
        room.plan.check(|visit| inputs.each(visit))?;
        let moves_entries =
            matches!(S::WHAT, Intention::Put | Intention::Erase) && <S::Table as Table>::INDEXED != 0;
        // The row may be one that was inserted before.
        if moves_entries || step.has_slots() || room.inserts_into(<S::Table as Relation>::definition()) {
            room.materialise(txn)?;
        }
        if room.plan.is_skipped() {
            return Ok(room.plan.unknown());
        }
        if room.defers {
            let (number, result) = room.plan(step)?;
            let (wanted, key) = (step.wanted(), step.key());
            let access = wanted.access::<S::Table>(&key, txn.site, false);
            let told = txn.worker.defer(&access, S::WHAT, number);
            told.map_err(|error| note_met(&mut txn.met, &access, error))?;
            return Ok(result);
        }
        let values = inputs.values(&room.plan);
        let output = step.execute(values, txn)?;
        Ok(room.plan.known(output))
    }

    /// As [`Self::intend`], of a row that is made at the commit.
    fn intend_insert<T: Table + Later, I: Inputs, F: Fn(I::Values) -> T + Operator>(
        &mut self,
        step: InsertWith<T, I, F>,
    ) -> Result<()> {
        self.check_state()?;
        let Self { txn, room } = self;
        room.plan.check(|visit| step.with.each(visit))?;
        if !T::LAYOUT.slots.is_empty() {
            room.materialise(txn)?;
        }
        if room.plan.is_skipped() {
            return Ok(());
        }
        if room.defers {
            let (number, _) = room.plan_insert(step, T::definition(), InsertWith::<T, I, F>::execute)?;
            return tell::<T>(&mut *txn.worker, number);
        }
        step.insert(step.with.values(&room.plan), txn)
    }

    /// An operation reads or writes at once: a row, or any of a relation.
    fn at_once(&mut self, relation: &'static Definition, key: Option<&[u64]>) -> Result<()> {
        let result = self
            .at_once_unguarded(|room, txn| room.has_pending() && txn.worker.has_intentions_on(relation, key));
        self.txn.guard(result)
    }

    /// What was deferred must be carried out first, if `touched`.
    fn at_once_unguarded(&mut self, touched: impl FnOnce(&Room, &Txn) -> bool) -> Result<()> {
        self.check_state()?;
        if self.room.plan.is_under_condition() {
            return Err(Misuse::EagerUnderCondition.into());
        }
        if touched(self.room, self.txn) { self.room.materialise(self.txn) } else { Ok(()) }
    }

    /// An operation writes at once: what was deferred comes before it, and nothing is deferred any more, since a row that is
    /// written is not queued for.
    fn write_at_once(&mut self) -> Result<()> {
        let result = self.at_once_unguarded(|_, _| true);
        self.txn.guard(result)
    }

    /// The values of inputs.
    fn force_all<I: Inputs>(&mut self, with: I) -> Result<I::Values> {
        let mut names: Result<()> = Ok(());
        let mut is_known = true;
        {
            let plan = &self.room.plan;
            names = names.and(plan.check(|visit| with.each(visit)));
            with.each(&mut |name: Name| is_known &= plan.is_known(name));
        }
        let result = names.and_then(|()| self.at_once_unguarded(|_, _| !is_known));
        self.txn.guard(result)?;
        Ok(with.values(&self.room.plan))
    }
}

impl Deferring for DeferringTxn<'_> {
    fn look<C>(&mut self, key: <C::Table as Relation>::Key, columns: C) -> Result<Deferred<Option<C::Value>>>
    where
        C: Columns + Send + Sync + 'static,
        C::Value: Later,
    {
        self.intend(Look { key, columns })
    }

    fn defer<C, I, V>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        with: I,
        op: impl Fn(&mut C::Value, I::Values) -> V + Operator,
    ) -> Result<Deferred<Option<V>>>
    where
        C: Changeable + Send + Sync + 'static,
        C::Value: Later,
        I: Inputs,
        V: Later,
    {
        let watched = columns.ordinals() & (<C::Table as Table>::INDEXED | <C::Table as Table>::KEY_COLUMNS);
        if watched != 0 {
            return self.txn.guard(Err(not_deferrable::<C::Table>(watched).into()));
        }
        self.intend(Change { key, columns, with, op, output: PhantomData })
    }

    fn put<T: Table + Later, I: Inputs>(
        &mut self,
        key: T::Key,
        with: I,
        make: impl Fn(I::Values) -> T + Operator,
    ) -> Result<()> {
        if size_of::<I>() > 0 {
            return self.intend(Put { key, with, make }).map(|_| ());
        }
        // Without inputs it can be made now, so that nothing waits until it is known to be of this key.
        let row = make(with.values(&self.room.plan));
        if !has_key(&row, &key) {
            return self.txn.guard(Err(Misuse::PutElsewhere { table: T::LAYOUT.name }.into()));
        }
        self.intend(PutRow(row)).map(|_| ())
    }

    fn insert_with<T: Table + Later, I: Inputs>(
        &mut self,
        with: I,
        make: impl Fn(I::Values) -> T + Operator,
    ) -> Result<()> {
        let result = self.intend_insert(InsertWith { with, make, table: PhantomData });
        self.txn.guard(result)
    }

    fn erase<T: Table>(&mut self, key: T::Key) -> Result<Deferred<bool>> {
        self.intend(Erase::<T>(key))
    }

    fn map<I: Inputs, V: Later>(
        &mut self,
        with: I,
        function: impl Fn(I::Values) -> V + Operator,
    ) -> Result<Deferred<V>> {
        let result = self.check_state().and_then(|()| self.room.plan.compute(Map { with, function }));
        self.txn.guard(result)
    }

    fn when(&mut self, condition: Deferred<bool>, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let entered = self.check_state().and_then(|()| self.room.plan.enter(condition));
        let before = self.txn.guard(entered)?;
        let result = body(self);
        self.room.plan.leave(before);
        result
    }

    fn ensure(&mut self, condition: Deferred<bool>, why: impl Into<Refusal>) -> Result<()> {
        let ensure = Ensure { condition, refusal: why.into() };
        let planned = self.check_state().and_then(|()| self.room.plan.compute(ensure));
        self.txn.guard(planned)?;
        self.check_state()
    }

    fn then<I: Inputs, R>(
        &mut self,
        with: I,
        body: impl FnOnce(&mut Self, I::Values) -> Result<R>,
    ) -> Result<R> {
        let values = self.force_all(with)?;
        body(self, values)
    }

    fn force<V: Later>(&mut self, value: Deferred<V>) -> Result<V> {
        self.force_all(value)
    }
}

/// Why a change of these columns cannot be deferred.
#[cold]
fn not_deferrable<T: Table>(columns: u64) -> Misuse {
    let named = T::COLUMN_NAMES.iter().enumerate().filter(|(ordinal, _)| columns & (1 << ordinal) != 0);
    let names: Vec<&str> = named.map(|(_, name)| *name).collect();
    Misuse::NotDeferrable { table: T::LAYOUT.name, columns: names.join(", ") }
}

impl Reading for DeferringTxn<'_> {
    fn site(&self) -> u16 {
        Reading::site(self.txn)
    }

    fn get_words<D: Decode>(&mut self, access: &Access<'_>, decode: D) -> Result<Option<D::Value>> {
        self.at_once(access.wanted.relation, Some(access.key))?;
        self.txn.get_words(access, decode)
    }

    fn scan_words(
        &mut self,
        range: &Range<'_>,
        visit: &mut dyn FnMut(&[u64], Sight<'_>) -> Visit,
    ) -> Result<()> {
        self.at_once(range.wanted.relation, None)?;
        self.txn.scan_words(range, visit)
    }

    fn values(&self) -> Arc<dyn Values> {
        Reading::values(self.txn)
    }

    fn scratch(&mut self) -> &mut Vec<u64> {
        self.txn.scratch()
    }

    fn prefetch_words(&mut self, ahead: &Ahead<'_>) {
        self.txn.prefetch_words(ahead);
    }
}

impl Transaction for DeferringTxn<'_> {
    /// What is deferred cannot be taken back, so nothing is from here on.
    fn save(&mut self) -> Result<Savepoint> {
        self.write_at_once()?;
        self.txn.save()
    }

    fn keep(&mut self, savepoint: Savepoint) {
        self.txn.keep(savepoint);
    }

    fn roll_back(&mut self, savepoint: Savepoint) -> Result<()> {
        self.txn.roll_back(savepoint)
    }

    fn insert<T: Table>(&mut self, row: T) -> Result<()> {
        self.write_at_once()?;
        self.txn.insert(row)
    }

    fn upsert<T: Table>(&mut self, row: T) -> Result<bool> {
        self.write_at_once()?;
        self.txn.upsert(row)
    }

    fn update_columns<C: Columns, R>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        change: impl FnOnce(&mut C::Value) -> R,
    ) -> Result<R> {
        self.write_at_once()?;
        self.txn.update_columns(key, columns, change)
    }

    fn set_columns<C: Columns>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        value: C::Value,
    ) -> Result<()> {
        self.write_at_once()?;
        self.txn.set_columns(key, columns, value)
    }

    fn add<T: Table, V: Addable>(&mut self, column: Column<T, V>, key: T::Key, delta: V) -> Result<()> {
        self.write_at_once()?;
        self.txn.add(column, key, delta)
    }

    fn delete<T: Table>(&mut self, key: T::Key) -> Result<bool> {
        self.write_at_once()?;
        self.txn.delete::<T>(key)
    }
}
