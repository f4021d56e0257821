//! Calls that are submitted by one thread and executed by another.

use super::pending::{Call, Executing, Gathered, Pending, Priority, Submission, Submitting, Terms};
use super::session::Session;
use crate::error::{Misuse, Result};
use crate::seam::{Engine, Job, Stats, Task, Ticket};
use crate::settings::Durability;
use heddledb_core::procedure::Procedure;
use heddledb_engine::executors::{Executors, Work};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

impl Session {
    /// Has an executor of the database call a registered procedure, and returns at once: as
    /// [`Session::call`](crate::Session::call), on a session of the executor's, at this session's isolation level and
    /// durability. What the call returns, an error or a panic of the procedure among it, arrives where the
    /// [`Pending`] is waited for.
    ///
    /// It waits where as many of this session's calls are under way as its window allows
    /// ([`Session::set_window`](crate::Session::set_window)). Calls begin in the order in which they were submitted, those of
    /// [high priority](Session::set_priority) first; with several executors they run beside each other and may commit in another order.
    /// So a call that must come after another one is submitted when that one is done. Under `dgcc` and `dgcc-levels` calls of one
    /// priority that access the same row, where one writes it, commit in the order in which they were submitted.
    ///
    /// The arguments are kept until the call has ended, so they own what they are made of, or borrow it for ever. A call takes no
    /// memory from the system, once as many were under way, unless results are kept while others are waited for.
    ///
    /// # Errors
    /// [`Misuse::Option`] where the database has no executors: [`Builder::executors`](crate::Builder::executors).
    /// [`Misuse::WaitsWithin`] where the window was full for half a second, in a body or beside an owned transaction of this thread:
    /// nothing was submitted.
    ///
    /// ```
    /// use heddledb::{Database, Error, Result, Table, Transaction, procedure};
    ///
    /// #[derive(Table, Clone, Copy)]
    /// struct Account { #[key] id: u64, balance: i64 }
    ///
    /// #[procedure]
    /// fn withdraw(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<i64> {
    ///     let left = tx.update_columns(id, Account::balance, |balance| { *balance -= amount; *balance })?;
    ///     if left < 0 { Err(Error::user("insufficient funds")) } else { Ok(left) }
    /// }
    ///
    /// let db = Database::builder().executors(2).procedure::<Withdraw>().open()?;
    /// let mut session = db.session()?;
    /// session.run(|tx| (0..4).try_for_each(|id| tx.insert(Account { id, balance: 100 })))?;
    /// let pending = (0..4).map(|id| session.submit(Withdraw, (id, 30 * id as i64))).collect::<Result<Vec<_>>>()?;
    /// let left: Vec<i64> = pending.into_iter().map(|call| call.wait()).collect::<Result<_>>()?;
    /// assert_eq!(left, [100, 70, 40, 10]);
    /// let error = session.submit(Withdraw, (3, 60))?.wait().unwrap_err();
    /// assert_eq!(error.to_string(), "insufficient funds");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn submit<Q: Procedure>(
        &mut self,
        procedure: Q,
        arguments: Q::Arguments<'static>,
    ) -> Result<Pending<Q::Output>>
    where
        Q::Arguments<'static>: Send + 'static,
        Q::Output: Send + 'static,
    {
        let _ = procedure;
        self.push_waiting(arguments, call::<Q>)
    }

    /// As [`Session::submit`](crate::Session::submit), but where that would wait it submits nothing and returns `None`. The arguments are gone
    /// then; [`Session::under_way`](crate::Session::under_way) tells beforehand whether there is room, for only this session takes it.
    ///
    /// # Errors
    /// As there.
    pub fn try_submit<Q: Procedure>(
        &mut self,
        procedure: Q,
        arguments: Q::Arguments<'static>,
    ) -> Result<Option<Pending<Q::Output>>>
    where
        Q::Arguments<'static>: Send + 'static,
        Q::Output: Send + 'static,
    {
        let _ = procedure;
        self.push(arguments, call::<Q>, false)
    }

    /// How many of this session's submitted calls have not ended.
    pub fn under_way(&self) -> usize {
        self.submitting.as_ref().map_or(0, |submitting| submitting.under_way())
    }

    /// How many of this session's submitted calls may be under way, at least one; [`Builder::window`](crate::Builder::window) unless it
    /// is told otherwise.
    pub fn set_window(&mut self, calls: usize) {
        self.window = Some(calls.max(1));
    }

    /// The priority of what this session submits from now on.
    pub fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
    }

    /// Submits a call, and waits until the window has room for it.
    pub(super) fn push_waiting<A: Send + 'static, T: Send + 'static>(
        &mut self,
        arguments: A,
        call: fn(&mut Session, &A) -> Result<T>,
    ) -> Result<Pending<T>> {
        self.push(arguments, call, true).map(|pending| pending.expect("the window was waited for"))
    }

    /// Submits a call; `None` if the window is full and is not to be waited for.
    fn push<A: Send + 'static, T: Send + 'static>(
        &mut self,
        arguments: A,
        call: fn(&mut Session, &A) -> Result<T>,
        wait: bool,
    ) -> Result<Option<Pending<T>>> {
        let isolation = self.isolation();
        let terms = Terms { isolation, durable: self.durability == Durability::Sync };
        let Some(to) = &self.submission else { return Err(no_executors()) };
        let how = (self.window.unwrap_or(to.window), wait, self.priority == Priority::High);
        let shares_thread = self.txn().worker.shares_thread();
        let submitting = self.submitting.get_or_insert_with(|| Box::new(Submitting::new(shares_thread)));
        submitting.submit(to, Call { arguments: (arguments, call), execute: execute::<A, T>, terms }, how)
    }
}

#[cold]
fn no_executors() -> crate::Error {
    let what = "this database has no executors, so nothing can be submitted; open it with `Builder::executors`, or use \
                `Session::call`";
    Misuse::Option(what.to_owned()).into()
}

/// A call of `Q` on an executor's session.
fn call<Q: Procedure>(session: &mut Session, arguments: &Q::Arguments<'static>) -> Result<Q::Output> {
    session.call_and::<Q, _>(arguments, Ok)
}

/// Arguments, and how an executor's session makes something of them.
type Called<A, T> = (A, fn(&mut Session, &A) -> Result<T>);

/// Executes a call on an executor's session, on the terms of the session that submitted it.
fn execute<A, T>(
    session: &mut dyn Any,
    (arguments, call): &Called<A, T>,
    terms: Terms,
) -> Result<(T, Ticket)> {
    let session: &mut Session = session.downcast_mut().expect("executors have sessions");
    if session.isolation() != terms.isolation {
        session.set_isolation(terms.isolation)?;
    }
    let output = call(session, arguments)?;
    Ok((output, session.ticket()))
}

/// What a thread executes submitted calls on.
pub struct Executor {
    session: Session,
    /// Calls that have committed and are done when they are durable.
    committed: Vec<Arc<dyn Job>>,
}

/// So many calls are made durable at once, at the most.
const COMMITTED_MAX: usize = 256;

impl Work<Arc<dyn Job>> for Executor {
    fn execute(&mut self, job: Arc<dyn Job>) {
        if job.execute(&mut self.session) {
            self.committed.push(job);
            if self.committed.len() == COMMITTED_MAX {
                self.rest();
            }
        }
    }

    fn rest(&mut self) {
        // The first waits for a round of the log, in which the others are.
        self.committed.drain(..).for_each(|job| job.acknowledge());
    }
}

impl Executor {
    /// One on a session of its own.
    pub(super) fn new(engine: &Arc<dyn Engine>) -> Result<Self> {
        let mut session = Session::new(Arc::clone(engine).worker(Duration::ZERO)?, None);
        // What has to be durable is waited for when there is nothing else to do.
        session.set_durability(Durability::Epoch)?;
        Ok(Self { session, committed: Vec::with_capacity(COMMITTED_MAX) })
    }

    /// Does one thing that helps calls along which the engine has gathered. False if there is nothing to do: only then it may be
    /// left alone, since others wait for what it has in its hands.
    pub fn step(&mut self) -> bool {
        let Some(task) = self.next(false) else {
            self.rest();
            return false;
        };
        self.perform(task);
        true
    }

    /// Its session's counts.
    pub fn stats(&self) -> Stats {
        self.session.stats()
    }

    fn perform(&mut self, task: Task) {
        match task {
            Task::Announce(job) => job.announce(&mut self.session),
            // Not made durable here, however many there are: others may wait for this call to end, and the epoch for them.
            Task::Execute(job) => {
                if job.execute(&mut self.session) {
                    self.committed.push(job);
                }
            }
        }
        self.session.txn_mut().worker.end_task();
    }

    /// Executes what the engine has gathered, until there will be nothing more: until the last handle and session are dropped that
    /// could submit something.
    pub fn run(mut self) {
        loop {
            if !self.step() {
                let Some(task) = self.next(true) else { return };
                self.perform(task);
            }
        }
    }

    fn next(&mut self, waits: bool) -> Option<Task> {
        self.session.txn_mut().worker.next_task(waits)
    }
}

/// Lets calls be submitted that somebody else executes.
pub(super) fn by_hand(engine: &Arc<dyn Engine>, window: usize) -> Arc<Submission> {
    let nobody = Gathered::start(Arc::clone(engine), Vec::<fn()>::new());
    Arc::new(Submission { executors: Executing::Gathered(nobody), window })
}

/// Starts executors, as many as were asked for.
pub(super) fn start(engine: &Arc<dyn Engine>, executors: usize, window: usize) -> Result<Arc<Submission>> {
    let executors = (0..executors).map(|_| Executor::new(engine)).collect::<Result<Vec<_>>>()?;
    let executors = if engine.gathers() {
        let runs = executors.into_iter().map(|executor| move || executor.run()).collect();
        Executing::Gathered(Gathered::start(Arc::clone(engine), runs))
    } else {
        Executing::InOrder(Executors::start(executors))
    };
    Ok(Arc::new(Submission { executors, window }))
}
