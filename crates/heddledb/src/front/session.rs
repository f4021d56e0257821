//! Sessions run transactions.

use super::database::Database;
use super::erased::{Erased, erased};
use super::intentions::Room;
use super::nesting;
use super::pending::{Priority, Submission, Submitting};
use super::txn::Txn;
use crate::error::{Conflict, Error, GaveUp, Misuse, Result};
use crate::protocol::Isolation;
use crate::seam::{Body, Callee, Ended, Stats, Ticket, Worker};
use crate::settings::{Durability, Limits};
use crate::stamp;
use heddledb_core::procedure::{Announcement, Procedure};
use std::any::TypeId;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A place to run transactions from, for one thread at a time. Keep it for many transactions.
pub struct Session {
    pub(super) txn: Option<Txn>,
    pub(super) durability: Durability,
    pub(super) limits: Limits,
    /// Whether [`Session::run_within`] has set a limit.
    limited: bool,
    /// The worker's counts when the session began.
    before: Stats,
    /// What its deferring transactions use, from the first on.
    pub(super) room: Option<Box<Room>>,
    /// The executors of its database.
    pub(super) submission: Option<Arc<Submission>>,
    /// What it submits by, from the first call on.
    pub(super) submitting: Option<Box<Submitting>>,
    pub(super) window: Option<usize>,
    pub(super) priority: Priority,
    /// Whether a log may say of a call that it was made.
    logs_calls: bool,
}

impl Database {
    /// A session, to run transactions from one thread at a time.
    ///
    /// # Errors
    /// [`Misuse::TooManySessions`].
    pub fn session(&self) -> Result<Session> {
        Ok(Session::new(Arc::clone(&self.engine).worker(Duration::ZERO)?, self.submission.clone()))
    }

    /// Runs `work` with a session that is taken for it and given back after it. Where all are in use it waits until one
    /// is free, as long as [`Builder::session_wait`](crate::Builder::session_wait) says; so any number of threads may share
    /// them. Lending costs some hundred nanoseconds, as much as ten reads of a row: a thread that runs many
    /// transactions in a row keeps a session. One that is kept and idle costs half a nanosecond at each advance of the
    /// epoch, as does a place without a session, and a lock that nobody else wants at each round of the log.
    ///
    /// A session that is waited for must not be held by the caller: nested calls may wait for each other.
    ///
    /// # Errors
    /// Whatever `work` returns; [`Misuse::NoSessionFree`].
    ///
    /// ```
    /// use heddledb::{Database, Error, Table, Transaction};
    /// # #[derive(Table, Clone, Copy)]
    /// # struct Account { #[key] id: u64, balance: i64 }
    /// let db = Database::builder().sessions(2).open()?;
    /// std::thread::scope(|scope| {
    ///     for id in 0..50 {
    ///         let db = &db;
    ///         scope.spawn(move || {
    ///             db.with_session(|session| session.run(|tx| tx.insert(Account { id, balance: 100 })))
    ///         });
    ///     }
    /// });
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_session<R>(&self, work: impl FnOnce(&mut Session) -> Result<R>) -> Result<R> {
        let patience = self.engine.limits().session;
        work(&mut Session::new(Arc::clone(&self.engine).worker(patience)?, self.submission.clone()))
    }
}

impl Session {
    pub(super) fn new(worker: Box<dyn Worker>, submission: Option<Arc<Submission>>) -> Self {
        let (before, engine) = (worker.stats(), worker.engine());
        let (durability, limits) = (engine.durability(), engine.limits());
        Self {
            txn: Some(Txn::new(worker)),
            durability,
            limits,
            limited: false,
            before,
            room: None,
            submission,
            submitting: None,
            window: None,
            priority: Priority::Normal,
            logs_calls: engine.logs_calls(),
        }
    }

    pub(super) fn txn(&self) -> &Txn {
        self.txn.as_ref().expect("a session has its worker until it is dropped")
    }

    #[inline(always)]
    pub(super) fn txn_mut(&mut self) -> &mut Txn {
        self.txn.as_mut().expect("a session has its worker until it is dropped")
    }

    /// Waits until everything up to `epoch` is durable, if this session's commits do.
    #[inline(always)]
    pub(super) fn acknowledge(&self, epoch: u64) -> Result<()> {
        if self.durability == Durability::Sync { self.txn().worker.wait_durable(epoch) } else { Ok(()) }
    }

    #[inline(always)]
    pub(super) fn acknowledge_last(&self) -> Result<()> {
        if self.durability == Durability::Sync {
            self.acknowledge(stamp::epoch(self.txn().worker.last_commit()))
        } else {
            Ok(())
        }
    }

    /// Runs `body` as one transaction and commits it. **After a conflict `body` runs again**, after
    /// a randomised back-off of at most some tens of microseconds, as often as [`Builder::retries`](crate::Builder::retries)
    /// allows, for ever unless told; so it must have no effect but through the transaction.
    ///
    /// A body had better not use another session, nor wait for one: where that meets a row of this transaction, each waits for
    /// the other. On one thread such a wait ends after half a second, with [`Error::GaveUp`], which says so; on
    /// several, where a limit is set: [`Session::run_within`](crate::Session::run_within).
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
    pub fn run<R>(&mut self, body: impl FnMut(&mut Txn) -> Result<R>) -> Result<R> {
        self.run_as(None, "", body)
    }

    /// Runs `body`: a closure, or a call of a procedure that has this name in messages. Compiled for each body, so no more than must be.
    #[inline]
    pub(super) fn run_as<R>(
        &mut self,
        call: Option<Callee>,
        name: &str,
        body: impl FnMut(&mut Txn) -> Result<R>,
    ) -> Result<R> {
        erased(body, |body| self.run_erased(call, name, body))
    }

    /// Runs a body that leaves its result where who made it finds it.
    fn run_erased(&mut self, call: Option<Callee>, name: &str, body: Erased<'_>) -> Result<()> {
        if self.is_within_another() {
            return self.within_another(&mut |session| session.run_erased(call, name, body));
        }
        self.until_committed(|session, retry| session.attempt_erased(retry, call, name, body))
    }

    /// As [`Session::run`](crate::Session::run), for so long at most: when the time is over, no other transaction is waited for and none
    /// is tried again. A body that runs is not interrupted, nor is a commit that waits to be durable; and a call that commits
    /// in parts, of which one has committed, goes on.
    ///
    /// # Errors
    /// As for [`Session::run`](crate::Session::run); [`Error::GaveUp`] when the time was over.
    ///
    /// ```
    /// use heddledb::{Conflict, Database, Error, ReadTransaction, Table, Transaction, protocol::Kind};
    /// use std::time::Duration;
    /// #[derive(Table, Clone, Copy)]
    /// struct Account { #[key] id: u64, balance: i64 }
    ///
    /// let db = Database::builder().protocol(Kind::DlDetect).open()?;
    /// let mut session = db.session()?;
    /// session.run(|tx| tx.insert(Account { id: 1, balance: 100 }))?;
    /// let mut open = db.begin()?;
    /// open.set_columns(1, Account::balance, 50)?;
    /// let outcome = session.run_within(Duration::from_millis(20), |tx| tx.get::<Account>(1));
    /// let Err(Error::GaveUp(why)) = outcome else { panic!("the row is locked") };
    /// assert_eq!((why.attempts, why.conflict), (1, Conflict::TimedOut));
    /// assert_eq!(why.at.map(|at| at.relation), Some("account"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn run_within<R>(&mut self, within: Duration, body: impl FnMut(&mut Txn) -> Result<R>) -> Result<R> {
        Limited::new(self, within).0.run(body)
    }

    /// After a conflict of the attempt with that number: waits a little, unless it was the last that may be made.
    #[cold]
    fn back_off(&mut self, retry: u32, conflict: Conflict) -> Result<()> {
        let retries = self.limits.retries;
        let txn = self.txn_mut();
        let met = txn.met.take();
        if retry == 0 {
            // What has committed within an earlier body of this thread says nothing of this one.
            nesting::take_committed_within();
        }
        let disturbs_itself = retry >= nesting::ATTEMPTS && nesting::take_committed_within();
        if retry >= retries || txn.worker.is_overdue() || disturbs_itself {
            let within = disturbs_itself || nesting::is_within() && !txn.worker.shares_thread();
            return Err(Error::GaveUp(Box::new(GaveUp::new(retry.saturating_add(1), conflict, met, within))));
        }
        txn.worker.back_off(retry);
        Ok(())
    }

    /// As [`Session::run`](crate::Session::run), with a body whose errors are of a type of your own, into which `?` turns
    /// those of the database. A conflict is retried whatever the body makes of it.
    ///
    /// # Errors
    /// Whatever `body` returns where it was not in conflict; nothing was changed then. And what
    /// [`Session::run`](crate::Session::run) says of its own, as that type.
    ///
    /// ```
    /// use heddledb::{Database, Error, ReadTransaction, Table, Transaction};
    /// # #[derive(Table, Clone, Copy)]
    /// # struct Account { #[key] id: u64, balance: i64 }
    /// #[derive(Debug)]
    /// enum BankError { NoAccount(u64), Database(Error) }
    ///
    /// impl From<Error> for BankError {
    ///     fn from(error: Error) -> Self { Self::Database(error) }
    /// }
    ///
    /// let db = Database::in_memory();
    /// let mut session = db.session()?;
    /// let outcome: Result<i64, BankError> = session.try_run(|tx| {
    ///     let account = tx.get::<Account>(7)?.ok_or(BankError::NoAccount(7))?;
    ///     Ok(account.balance)
    /// });
    /// assert!(matches!(outcome, Err(BankError::NoAccount(7))));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn try_run<R, E: From<Error>>(
        &mut self,
        mut body: impl FnMut(&mut Txn) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut own = None;
        let outcome = self.run(|tx| {
            body(tx).map_err(|error| {
                own = Some(error);
                match tx.conflict {
                    Some(conflict) if tx.failed => Error::Conflict(conflict),
                    _ => Error::user(OwnError),
                }
            })
        });
        outcome.map_err(|error| match own {
            Some(own) if error.user_reason::<OwnError>().is_some() => own,
            _ => E::from(error),
        })
    }

    /// Makes attempts until one does not conflict, and waits as long as durability asks for.
    #[inline(always)]
    pub(super) fn until_committed(
        &mut self,
        mut attempt: impl FnMut(&mut Self, u32) -> Result<()>,
    ) -> Result<()> {
        let mut retry = 0;
        loop {
            match attempt(self, retry) {
                Err(Error::Conflict(conflict)) => {
                    self.back_off(retry, conflict)?;
                    retry = retry.saturating_add(1);
                }
                Ok(()) => return self.acknowledge_last(),
                outcome => return outcome,
            }
        }
    }

    /// Whether this thread has another transaction open, so that what is waited for needs a limit, and has none yet.
    #[inline(always)]
    pub(super) fn is_within_another(&self) -> bool {
        nesting::is_within() && !self.limited && !self.txn().worker.shares_thread()
    }

    /// Runs a transaction there, with a limit.
    #[cold]
    pub(super) fn within_another(&mut self, run: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        run(Limited::new(self, nesting::LIMIT).0)?;
        nesting::committed_within();
        Ok(())
    }

    /// Calls a registered procedure as one transaction, and commits it: as [`Session::run`](crate::Session::run), but where the
    /// protocol does, its body is executed piece by piece.
    ///
    /// In builds with debug assertions it panics where the procedure accesses what it has not declared.
    ///
    /// # Errors
    /// As for [`Session::run`](crate::Session::run); [`Misuse::NotRegistered`]; [`Misuse::Diverged`].
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
    /// let db = Database::builder().protocol(Ic3::default()).procedure::<Transfer>().open()?;
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
        if self.logs_calls {
            self.tell_of_call::<Q>(arguments)?;
        }
        let callee = Callee::Type(TypeId::of::<Q>());
        self.run_as(Some(callee), Q::NAME, |tx| {
            tx.held.hold_to::<Q>();
            if Q::ANNOUNCES {
                told(tx, |to| Q::announce(arguments, to))?;
            }
            result(Q::run(tx, arguments)?)
        })
    }

    /// Runs `body` once; a conflict comes back as [`Error::Conflict`].
    ///
    /// # Errors
    /// As for [`Session::run`](crate::Session::run), and conflicts.
    #[inline]
    pub fn attempt<R>(&mut self, body: impl FnOnce(&mut Txn) -> Result<R>) -> Result<R> {
        let mut body = Some(body);
        self.attempt_as(None, "", |tx| body.take().expect("a closure is executed once an attempt")(tx))
    }

    /// As [`Self::run_as`], once.
    #[inline]
    pub(super) fn attempt_as<R>(
        &mut self,
        call: Option<Callee>,
        name: &str,
        body: impl FnMut(&mut Txn) -> Result<R>,
    ) -> Result<R> {
        erased(body, |body| {
            self.attempt_erased(0, call, name, body)?;
            self.acknowledge_last()
        })
    }

    /// Makes one attempt. Where the engine asks for it, the body is executed several times.
    #[inline(always)]
    fn attempt_erased(
        &mut self,
        retry: u32,
        call: Option<Callee>,
        name: &str,
        body: Erased<'_>,
    ) -> Result<()> {
        let txn = self.txn_mut();
        if !txn.begin(retry, call) {
            return Err(not_begun(&mut *txn.worker, name));
        }
        loop {
            let running = nesting::Running::new();
            let outcome = catch_unwind(AssertUnwindSafe(|| body(txn)));
            drop(running);
            match outcome {
                Ok(Ok(())) => match txn.worker.end(Body::Done { failed: txn.failed })? {
                    Ended::Committed => return Ok(()),
                    Ended::Announced => return Err(announced()),
                    Ended::Again | Ended::Panics => txn.restart(),
                },
                Ok(Err(error)) => match txn.worker.end(Body::Gave(error))? {
                    Ended::Announced => return Err(announced()),
                    _ => txn.restart(),
                },
                // What tells what a call will access has seen its arguments only, so it will panic again; and of a call that has
                // told a part others know too little.
                Err(panic) if std::mem::take(&mut txn.tells) => {
                    txn.worker.abort();
                    resume_unwind(panic)
                }
                Err(panic) => match txn.worker.end(Body::Panicked)? {
                    Ended::Panics => resume_unwind(panic),
                    Ended::Announced => return Err(announced()),
                    Ended::Committed | Ended::Again => txn.restart(),
                },
            }
        }
    }

    /// As [`Session::run`](crate::Session::run), but returns when the commit is in memory, with a [`Ticket`] that tells when it
    /// is durable: so one session can have many commits under way.
    ///
    /// # Errors
    /// As for [`Session::run`](crate::Session::run).
    pub fn run_pipelined<R>(&mut self, body: impl FnMut(&mut Txn) -> Result<R>) -> Result<(R, Ticket)> {
        let durability = std::mem::replace(&mut self.durability, Durability::Epoch);
        let outcome = self.run(body);
        self.durability = durability;
        outcome.map(|result| (result, self.ticket()))
    }

    /// A ticket for this session's last commit.
    pub fn ticket(&self) -> Ticket {
        self.txn().worker.ticket()
    }

    /// When this session's commits count as done; the database's setting unless it is told otherwise.
    ///
    /// # Errors
    /// [`Misuse::Option`] for [`Durability::Sync`] where the database has no log.
    pub fn set_durability(&mut self, durability: Durability) -> Result<()> {
        if durability == Durability::Sync && !self.txn().worker.engine().is_logged() {
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
    /// let db = Database::builder().protocol(TicToc::default()).open()?;
    /// let mut session = db.session()?;
    /// session.set_isolation(Isolation::Snapshot)?;
    /// session.run(|tx| tx.insert(Account { id: 1, balance: 100 }))?;
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn set_isolation(&mut self, level: Isolation) -> Result<()> {
        let worker = &mut self.txn_mut().worker;
        let engine = worker.engine();
        crate::isolation::offers(engine.protocol(), engine.levels(), level)?;
        worker.set_isolation(level);
        Ok(())
    }

    /// The isolation level of this session's transactions.
    pub fn isolation(&self) -> Isolation {
        self.txn().worker.isolation()
    }

    /// The number of this session's worker, below the database's `sessions`.
    pub fn worker(&self) -> usize {
        self.txn().worker.number()
    }

    /// What this session did.
    pub fn stats(&self) -> Stats {
        self.txn().worker.stats() - self.before
    }

    /// The stamp of the last commit: of the writers of one row, the later has the greater.
    pub fn last_commit(&self) -> u64 {
        self.txn().worker.last_commit()
    }

    /// The database.
    pub fn database(&self) -> Database {
        Database::of(self.txn().worker.engine(), self.submission.clone())
    }
}

/// A session that waits for others for so long at most, until this is dropped, also by a panic.
struct Limited<'s>(&'s mut Session);

impl<'s> Limited<'s> {
    fn new(session: &'s mut Session, within: Duration) -> Self {
        session.limited = true;
        session.txn_mut().worker.wait_within(Some(within), None);
        Self(session)
    }
}

impl Drop for Limited<'_> {
    fn drop(&mut self) {
        self.0.limited = false;
        self.0.txn_mut().worker.wait_within(None, None);
    }
}

/// Why an attempt, of a procedure that has this name in messages, did not begin.
#[cold]
pub(super) fn not_begun(worker: &mut dyn Worker, name: &str) -> Error {
    match worker.refusal() {
        Some(conflict) => conflict.into(),
        None => Misuse::NotRegistered { name: name.to_owned(), alike: Vec::new() }.into(),
    }
}

/// Stands for an error of a type of the user's.
#[derive(Debug)]
struct OwnError;

impl std::fmt::Display for OwnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the body gave up")
    }
}

impl std::error::Error for OwnError {}

/// Stands for the outcome of a call that was executed to find out what it accesses.
#[derive(Debug)]
struct Announced;

impl std::fmt::Display for Announced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the call was only announced")
    }
}

impl std::error::Error for Announced {}

/// Has a call tell what it will access, where it is executed for that.
///
/// # Errors
/// One that ends the execution, when it has told all.
pub(super) fn told(tx: &mut Txn, tell: impl FnOnce(&mut Announcement<'_>)) -> Result<()> {
    if !tx.worker.wants_told() {
        return Ok(());
    }
    let mut is_all = true;
    tx.tells = true;
    tell(&mut Announcement::new(&mut |told| is_all &= tx.worker.tell(told)));
    tx.tells = false;
    if is_all { Err(announced()) } else { Ok(()) }
}

#[cold]
fn announced() -> Error {
    Error::user(Announced)
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(txn) = self.txn.take() {
            txn.worker.release();
        }
    }
}
