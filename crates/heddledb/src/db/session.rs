//! Sessions run transactions; owned transactions carry a session with them.

use super::counters::Stats;
use super::snapshot::Snapshot;
use super::txn::Txn;
use super::{Database, Inner, Registered};
use crate::durability::{Durability, Ticket};
use crate::error::{Error, Misuse, Result};
use crate::procedure::Procedure;
use crate::protocol::{Isolation, Protocol};
use crate::stamp;
use crate::sync::{Wait, spin, yield_now};
use std::any::TypeId;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// A place to run transactions from, for one thread at a time. Keep it for many transactions.
pub struct Session<P: Protocol> {
    txn: Option<Txn<P>>,
    durability: Durability,
    /// The worker's counts when the session began.
    before: Stats,
}

impl<P: Protocol> Session<P> {
    pub(super) fn new(txn: Txn<P>) -> Self {
        let before = txn.db.counters.of(txn.worker.number);
        let durability = txn.db.durability;
        Self { txn: Some(txn), durability, before }
    }

    pub(super) fn txn(&self) -> &Txn<P> {
        self.txn.as_ref().expect("a session has its worker until it is dropped")
    }

    /// Waits until everything up to `epoch` is durable, if this session's commits do.
    #[inline(always)]
    pub(super) fn acknowledge(&self, epoch: u64) -> Result<()> {
        match self.txn().db.logging() {
            Some(log) if self.durability == Durability::Sync => log.wait(epoch),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn acknowledge_last(&self) -> Result<()> {
        self.acknowledge(stamp::epoch(self.txn().worker.last_commit))
    }

    #[inline(always)]
    pub(super) fn txn_mut(&mut self) -> &mut Txn<P> {
        self.txn.as_mut().expect("a session has its worker until it is dropped")
    }

    /// Runs `body` as one transaction and commits it. **After a conflict `body` runs again**, after
    /// a randomised back-off of at most some tens of microseconds, for as long as it takes; so it
    /// must have no effect but through the transaction.
    ///
    /// # Errors
    /// Whatever `body` returns that is not a conflict; nothing was changed then. Such an answer is
    /// given only if what the body had read still stood. With a log, [`Error::LogFailed`] and
    /// [`Error::OutcomeUnknown`].
    ///
    /// ```
    /// use heddledb::{Database, Error, Table, ReadTransaction, Transaction};
    /// #[derive(Table, Clone, Copy)]
    /// struct Account { #[key] id: u64, balance: i64 }
    ///
    /// let db = Database::in_memory();
    /// let mut session = db.session()?;
    /// session.run(|tx| tx.insert(Account { id: 1, balance: 100 }))?;
    /// let left = session.run(|tx| {
    ///     let balance = tx.get_columns(1, Account::balance)?.unwrap_or(0);
    ///     if balance < 30 { return Err(Error::user("insufficient funds")); }
    ///     tx.update_columns(1, Account::balance, |b| { *b -= 30; *b })
    /// })?;
    /// assert_eq!(left, 70);
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn run<R>(&mut self, mut body: impl FnMut(&mut Txn<P>) -> Result<R>) -> Result<R> {
        self.until_committed(|session, retry| session.attempt_numbered(retry, &mut body))
    }

    /// Makes attempts until one does not conflict, and waits as long as durability asks for.
    #[inline]
    fn until_committed<R>(&mut self, mut attempt: impl FnMut(&mut Self, u32) -> Result<R>) -> Result<R> {
        let mut retry = 0;
        loop {
            match attempt(self, retry) {
                Err(Error::Conflict(_)) => {
                    self.back_off(retry);
                    retry = retry.saturating_add(1);
                }
                Ok(result) => {
                    if let Some(suspender) = &self.txn().worker.suspender {
                        suspender.let_others_run(&mut Wait::new());
                    }
                    return self.acknowledge_last().map(|()| result);
                }
                outcome => return outcome,
            }
        }
    }

    /// Calls a registered procedure as one transaction, and commits it: as [`Session::run`], but where the
    /// protocol does, its body is executed piece by piece.
    ///
    /// In builds with debug assertions it panics where the procedure accesses what it has not declared.
    ///
    /// # Errors
    /// As for [`Session::run`]; [`Misuse::NotRegistered`]; [`Misuse::Diverged`].
    ///
    /// ```
    /// use heddledb::{Database, Error, Result, Table, Transaction, procedure};
    /// use heddledb::protocol::Ic3;
    ///
    /// #[derive(Table, Clone, Copy)]
    /// struct Account { #[key] id: u64, balance: i64 }
    ///
    /// #[procedure]
    /// fn transfer(tx: &mut impl Transaction, from: u64, to: u64, amount: i64) -> Result<i64> {
    ///     let left = tx.update_columns(from, Account::balance, |balance| { *balance -= amount; *balance })?;
    ///     if left < 0 { return Err(Error::user("insufficient funds")); }
    ///     tx.add(Account::balance, to, amount)?;
    ///     Ok(left)
    /// }
    ///
    /// let db = Database::builder().protocol::<Ic3>().procedure::<Transfer>().open()?;
    /// let mut session = db.session()?;
    /// session.run(|tx| (1..3).try_for_each(|id| tx.insert(Account { id, balance: 100 })))?;
    /// assert_eq!(session.call(Transfer, (1, 2, 30))?, 70);
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn call<Q: Procedure>(&mut self, procedure: Q, arguments: Q::Arguments<'_>) -> Result<Q::Output> {
        let _ = procedure;
        self.call_and::<Q, _>(&arguments, Ok)
    }

    /// Calls a procedure, and makes of its output what the caller gets, within the transaction.
    #[inline]
    pub(super) fn call_and<Q: Procedure, R>(
        &mut self,
        arguments: &Q::Arguments<'_>,
        result: impl Fn(Q::Output) -> Result<R>,
    ) -> Result<R> {
        let number = |txn: &mut Txn<P>| txn.number_of(TypeId::of::<Q>());
        self.call_with(number, Q::NAME, &mut |tx: &mut Txn<P>| {
            tx.held.hold_to::<Q>();
            result(Q::run(tx, arguments)?)
        })
    }

    /// Calls a procedure that was registered by its declaration: as [`Session::run`], but where the protocol
    /// does, its body is executed piece by piece. The body must say before each access at which of the declared
    /// sites it stands, and may do nothing else than was declared.
    ///
    /// # Errors
    /// As for [`Session::run`]; [`Misuse::NotRegistered`], [`Misuse::Diverged`].
    #[doc(hidden)]
    pub fn call_registered<R>(
        &mut self,
        which: Registered,
        mut body: impl FnMut(&mut Txn<P>) -> Result<R>,
    ) -> Result<R> {
        self.call_with(|_| Some(which.0), "of that number", &mut body)
    }

    /// As [`Session::call_registered`], once; a conflict comes back as [`Error::Conflict`].
    ///
    /// # Errors
    /// As there, and conflicts.
    #[doc(hidden)]
    pub fn attempt_registered<R>(
        &mut self,
        which: Registered,
        mut body: impl FnMut(&mut Txn<P>) -> Result<R>,
    ) -> Result<R> {
        let result = self.call_once(0, &|_| Some(which.0), "of that number", &mut body)?;
        self.acknowledge_last().map(|()| result)
    }

    /// Calls the procedure that `number` finds in the plan.
    #[inline]
    fn call_with<R>(
        &mut self,
        number: impl Fn(&mut Txn<P>) -> Option<u16>,
        name: &str,
        body: &mut impl FnMut(&mut Txn<P>) -> Result<R>,
    ) -> Result<R> {
        self.until_committed(|session, retry| session.call_once(retry, &number, name, body))
    }

    #[inline]
    fn call_once<R>(
        &mut self,
        retry: u32,
        number: &impl Fn(&mut Txn<P>) -> Option<u16>,
        name: &str,
        body: &mut impl FnMut(&mut Txn<P>) -> Result<R>,
    ) -> Result<R> {
        let txn = self.txn_mut();
        txn.begin(retry, true);
        let known = number(txn).is_some_and(|number| txn.call(number));
        if !known {
            txn.abort();
            return Err(Misuse::NotRegistered { name: name.to_owned(), alike: Vec::new() }.into());
        }
        let outcome = self.execute(body);
        self.txn_mut().adapt();
        outcome
    }

    /// Executes a body whose attempt has begun, and its last piece again as long as that is enough.
    #[inline]
    fn execute<R>(&mut self, body: &mut impl FnMut(&mut Txn<P>) -> Result<R>) -> Result<R> {
        /// Failures of one attempt's pieces after which nobody else may begin.
        const OFTEN: u32 = 32;
        let mut failures = 0;
        loop {
            let txn = self.txn_mut();
            let outcome = catch_unwind(AssertUnwindSafe(|| body(txn)));
            if P::PIECES && txn.announces() {
                txn.announce(matches!(outcome, Ok(Ok(_))));
                continue;
            }
            let conflict = match outcome {
                Ok(Ok(result)) => match txn.finish() {
                    Ok(()) => return txn.commit().map(|()| result),
                    Err(Error::Conflict(conflict)) => conflict,
                    Err(error) => return Err(give_up(txn, error)),
                },
                Ok(Err(Error::Conflict(conflict))) => conflict,
                // The decision may rest on a state that never was: then it is a conflict after all (X8).
                Ok(Err(error)) => match txn.validate() {
                    Ok(()) => return Err(give_up(txn, error)),
                    Err(conflict) => conflict,
                },
                Err(panic) => match txn.validate() {
                    Ok(()) => {
                        txn.abort();
                        resume_unwind(panic)
                    }
                    Err(conflict) => conflict,
                },
            };
            if !txn.again(conflict) {
                return Err(give_up(txn, Error::Conflict(conflict)));
            }
            failures += 1;
            if failures == OFTEN {
                txn.hold_gate();
            }
            self.back_off(failures);
        }
    }

    /// Runs `body` once; a conflict comes back as [`Error::Conflict`].
    ///
    /// # Errors
    /// As for [`Session::run`], and conflicts.
    #[inline]
    pub fn attempt<R>(&mut self, body: impl FnOnce(&mut Txn<P>) -> Result<R>) -> Result<R> {
        let result = self.attempt_numbered(0, body)?;
        self.acknowledge_last().map(|()| result)
    }

    /// As [`Session::run`], but returns when the commit is in memory, with a [`Ticket`] that tells when it
    /// is durable: so one session can have many commits under way.
    ///
    /// # Errors
    /// As for [`Session::run`].
    pub fn run_pipelined<R>(&mut self, body: impl FnMut(&mut Txn<P>) -> Result<R>) -> Result<(R, Ticket)> {
        let durability = std::mem::replace(&mut self.durability, Durability::Epoch);
        let outcome = self.run(body);
        self.durability = durability;
        outcome.map(|result| (result, self.ticket()))
    }

    /// A ticket for this session's last commit.
    pub fn ticket(&self) -> Ticket {
        let txn = self.txn();
        Ticket::new(txn.db.logging().map(Arc::clone), stamp::epoch(txn.worker.last_commit))
    }

    /// When this session's commits count as done; the database's setting unless it is told otherwise.
    ///
    /// # Errors
    /// [`Misuse::Option`] for [`Durability::Sync`] where the database has no log.
    pub fn set_durability(&mut self, durability: Durability) -> Result<()> {
        if durability == Durability::Sync && self.txn().db.logging().is_none() {
            let what = "this database has no log, so nothing can be durable at its commit; open it with \
                        `Builder::path` and a durability other than `None`";
            return Err(Misuse::Option(what.to_owned()).into());
        }
        self.durability = durability;
        Ok(())
    }

    /// The isolation level of this session's transactions from now on; the database's setting unless it is told
    /// otherwise.
    ///
    /// # Errors
    /// [`Misuse::Option`] where the protocol does not offer the level.
    ///
    /// ```
    /// use heddledb::protocol::{Isolation, TicToc};
    /// use heddledb::{Database, Table, Transaction};
    /// # #[derive(Table, Clone, Copy)]
    /// # struct Account { #[key] id: u64, balance: i64 }
    ///
    /// let db = Database::builder().protocol::<TicToc>().open()?;
    /// let mut session = db.session()?;
    /// session.set_isolation(Isolation::Snapshot)?;
    /// session.run(|tx| tx.insert(Account { id: 1, balance: 100 }))?;
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn set_isolation(&mut self, level: Isolation) -> Result<()> {
        Inner::<P>::offers(&self.txn().db.options, level)?;
        self.txn_mut().isolation = level;
        Ok(())
    }

    /// The isolation level of this session's transactions.
    pub fn isolation(&self) -> Isolation {
        self.txn().isolation
    }

    #[inline]
    fn attempt_numbered<R>(&mut self, retry: u32, body: impl FnOnce(&mut Txn<P>) -> Result<R>) -> Result<R> {
        let txn = self.txn_mut();
        txn.begin(retry, false);
        match catch_unwind(AssertUnwindSafe(|| body(txn))) {
            Ok(Ok(result)) => txn.commit().map(|()| result),
            Ok(Err(error)) => Err(give_up(txn, error)),
            Err(panic) => {
                // An optimistic body may have panicked over a state that never was (PITFALLS X8).
                let stale = txn.validate();
                txn.abort();
                match stale {
                    Ok(()) => resume_unwind(panic),
                    Err(conflict) => {
                        txn.db.counters.conflict(txn.worker.number, conflict);
                        Err(conflict.into())
                    }
                }
            }
        }
    }

    /// Randomised, bounded exponential back-off after the `retry`-th conflict in a row. The bound
    /// keeps the wait below a few transactions' length; yielding lets holders run where threads
    /// outnumber cores.
    #[cold]
    fn back_off(&mut self, retry: u32) {
        const HINTS_FIRST: u64 = 32;
        const DOUBLINGS: u32 = 6;
        const YIELD_AFTER: u32 = 8;
        let worker = &mut self.txn_mut().worker;
        let hints = worker.random.below(HINTS_FIRST << retry.min(DOUBLINGS));
        if crate::sync::MODEL || retry >= YIELD_AFTER {
            yield_now();
        }
        if !crate::sync::MODEL {
            spin(hints);
        }
    }

    /// A snapshot of this moment, in this session: see [`Database::snapshot`].
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`](crate::Misuse::EpochHeld) when a transaction stays open for seconds.
    pub fn snapshot(&mut self) -> Result<Snapshot<P, &mut Self>> {
        Snapshot::now(self)
    }

    /// Runs `body` on a snapshot of a recent moment: at most [`Builder::snapshot_interval`] ago, 1 s
    /// unless told, and not before that of this session's last `read`. It sees all that was committed by
    /// then and nothing later, so not always this session's own last commit; for the present moment, use
    /// [`Session::snapshot`]. It never conflicts, runs once, and nobody waits for it.
    ///
    /// [`Builder::snapshot_interval`]: crate::Builder::snapshot_interval
    ///
    /// # Errors
    /// Whatever `body` returns; [`Misuse::EpochHeld`](crate::Misuse::EpochHeld) when another transaction
    /// stays open for seconds.
    ///
    /// ```
    /// use heddledb::{Database, ReadTransaction, Scan, Table, Transaction};
    /// #[derive(Table, Clone, Copy)]
    /// struct Account { #[key] id: u64, balance: i64 }
    ///
    /// let db = Database::in_memory();
    /// let mut session = db.session()?;
    /// session.run(|tx| tx.insert(Account { id: 1, balance: 100 }))?;
    /// let rows = session.read(|snapshot| snapshot.collect(Scan::<Account>::all()))?;
    /// assert_eq!(rows.len(), 1);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn read<R>(&mut self, body: impl FnOnce(&mut Snapshot<P, &mut Self>) -> Result<R>) -> Result<R> {
        body(&mut Snapshot::recent(self)?)
    }

    /// The number of this session's worker, below the database's `sessions`.
    pub fn worker(&self) -> usize {
        self.txn().worker.number
    }

    /// What this session did.
    pub fn stats(&self) -> Stats {
        self.txn().db.counters.of(self.worker()) - self.before
    }

    /// The stamp of the last commit: of the writers of one row, the later has the greater.
    pub fn last_commit(&self) -> u64 {
        self.txn().worker.last_commit
    }

    /// The database.
    pub fn database(&self) -> Database<P> {
        Database::from_inner(&self.txn().db)
    }
}

/// Ends an attempt that its body gave up, and decides what the caller hears.
#[cold]
fn give_up<P: Protocol>(txn: &mut Txn<P>, error: Error) -> Error {
    let worker = txn.worker.number;
    let error = match error {
        Error::Conflict(conflict) => Error::Conflict(conflict),
        // The decision may rest on a state that never was: then it is a conflict after all (X8).
        decided => txn.validate().map_or_else(Error::from, |()| txn.given_up(decided)),
    };
    txn.abort();
    match &error {
        Error::Conflict(conflict) => txn.db.counters.conflict(worker, *conflict),
        _ => txn.db.counters.user_abort(worker),
    }
    error
}

impl<P: Protocol> Drop for Session<P> {
    fn drop(&mut self) {
        if let Some(txn) = self.txn.take() {
            Inner::put_back(txn);
        }
    }
}

/// A transaction that is its own value: begun by [`Database::begin`], ended by
/// [`commit`](OwnedTransaction::commit) or by dropping it, which aborts.
///
/// It dereferences to [`Txn`]. Conflicts are the caller's to retry; for automatic retries use
/// [`Session::run`]. So is a decision that rests on reads of two moments, and an error such as
/// [`Misuse::NotFound`] that follows from them: [`validate`](OwnedTransaction::validate) tells. While it lives it
/// holds the epoch back, so end it soon.
pub struct OwnedTransaction<P: Protocol> {
    session: Session<P>,
    running: bool,
}

impl<P: Protocol> OwnedTransaction<P> {
    pub(super) fn begin(mut session: Session<P>) -> Self {
        session.txn_mut().begin(0, false);
        Self { session, running: true }
    }

    /// Commits.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it could not be serialised; nothing was changed then.
    pub fn commit(mut self) -> Result<()> {
        self.running = false;
        self.session.txn_mut().commit()?;
        self.session.acknowledge_last()
    }

    /// Whether what was read so far still stands, as far as its isolation level promises: asked before one acts on
    /// an error of an operation, or gives up for what one has read. After a conflict there is nothing to ask.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it does not: begin anew.
    pub fn validate(&mut self) -> Result<()> {
        Ok(self.session.txn_mut().validate()?)
    }

    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        self.session.txn().isolation
    }

    /// When the commit counts as done; see [`Session::set_durability`].
    ///
    /// # Errors
    /// As there.
    pub fn set_durability(&mut self, durability: Durability) -> Result<()> {
        self.session.set_durability(durability)
    }
}

impl<P: Protocol> Deref for OwnedTransaction<P> {
    type Target = Txn<P>;
    fn deref(&self) -> &Txn<P> {
        self.session.txn()
    }
}

impl<P: Protocol> DerefMut for OwnedTransaction<P> {
    fn deref_mut(&mut self) -> &mut Txn<P> {
        self.session.txn_mut()
    }
}

impl<P: Protocol> Drop for OwnedTransaction<P> {
    fn drop(&mut self) {
        if self.running {
            self.session.txn_mut().abort();
        }
    }
}
