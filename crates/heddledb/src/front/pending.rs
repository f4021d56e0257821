//! Calls that were submitted: where their arguments are until they are executed, and their results until somebody
//! asks. It knows no sessions: what executes a call is given to it.

use super::nesting::Patience;
use crate::error::Result;
use crate::protocol::Isolation;
use crate::seam::{Engine, Job, Ticket};
use heddledb_engine::executors::{Executors, Threads};
use heddledb_engine::sync::{Condvar, Mutex, MutexGuard, lock, wait_notified_within};
use std::any::{Any, TypeId};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The executors of a database, and how many calls of one session may be under way unless it is told otherwise.
pub(super) struct Submission {
    pub executors: Executing,
    pub window: usize,
}

/// Who executes submitted calls.
pub(super) enum Executing {
    /// Threads, in the order in which the calls came.
    InOrder(Executors<Arc<dyn Job>>),
    /// Threads, in an order that the engine makes.
    Gathered(Gathered),
}

/// Threads that execute what the engine has gathered.
pub(super) struct Gathered {
    engine: Arc<dyn Engine>,
    threads: Threads,
}

impl Gathered {
    /// Starts a thread for each of these.
    pub fn start<R: FnOnce() + Send + 'static>(engine: Arc<dyn Engine>, runs: Vec<R>) -> Self {
        Self { engine, threads: Threads::start(runs) }
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        self.engine.end_gathering();
        // Now the threads are waited for.
    }
}

impl Executing {
    fn count(&self) -> usize {
        match self {
            Self::InOrder(executors) => executors.count(),
            Self::Gathered(gathered) => gathered.threads.count(),
        }
    }

    fn push(&self, job: Arc<dyn Job>, first: bool) {
        match self {
            Self::InOrder(executors) => executors.push(job, first),
            Self::Gathered(gathered) => gathered.engine.gather(job, first),
        }
    }
}

/// Which of the submitted calls that wait for an executor come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Priority {
    /// In front of all normal ones, but for one normal call after each eight of these.
    High,
    /// In the order in which they were submitted.
    #[default]
    Normal,
}

/// On what terms a call is executed: those of the session that submitted it.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pub isolation: Isolation,
    /// Whether it is done only when it is durable.
    pub durable: bool,
}

/// Executes a call on a session.
pub(super) type Execute<A, T> = fn(session: &mut dyn Any, arguments: &A, terms: Terms) -> Result<(T, Ticket)>;

/// A submitted call, whoever asks for its result.
trait Answers<T>: Send + Sync {
    fn state(&self) -> MutexGuard<'_, State<T>>;
    /// Waits until it is done, or for no longer than that, or for no reason.
    fn wait<'s>(
        &'s self,
        state: MutexGuard<'s, State<T>>,
        within: Option<Duration>,
    ) -> MutexGuard<'s, State<T>>;
    /// Whether who waits may be suspended for other sessions of the thread.
    fn shares_thread(&self) -> bool;
}

/// What is known of the result.
struct State<T> {
    progress: Progress<T>,
    /// Who is woken when it is done.
    waker: Option<Waker>,
    /// Nobody will ask for the result.
    unwanted: bool,
}

enum Progress<T> {
    /// Not executed yet.
    UnderWay,
    /// Committed, and maybe not durable.
    Committed(T, Ticket),
    Done(Outcome<T>),
    Taken,
}

enum Outcome<T> {
    Returned(Result<(T, Ticket)>),
    Panicked(Panic),
}

type Panic = Box<dyn Any + Send>;

impl<T> Outcome<T> {
    fn get(self) -> Result<(T, Ticket)> {
        match self {
            Self::Returned(result) => result,
            Self::Panicked(panic) => resume_unwind(panic),
        }
    }
}

impl<T> State<T> {
    fn take(&mut self) -> Option<Outcome<T>> {
        match std::mem::replace(&mut self.progress, Progress::Taken) {
            Progress::Done(outcome) => Some(outcome),
            Progress::Taken => panic!("the result was taken before"),
            other => {
                self.progress = other;
                None
            }
        }
    }
}

/// A call that is to be executed.
pub(super) struct Call<A, T> {
    pub arguments: A,
    pub execute: Execute<A, T>,
    pub terms: Terms,
}

/// A place for calls with arguments and results of these types, one after another.
struct Slot<A, T> {
    /// What is to be executed; or the panic with which it was announced, so that it is not.
    call: Mutex<Option<Result<Call<A, T>, Panic>>>,
    state: Mutex<State<T>>,
    /// It is done.
    done: Condvar,
    window: Arc<Window>,
}

impl<A, T> Slot<A, T> {
    fn new(window: &Arc<Window>) -> Self {
        let state = State { progress: Progress::Taken, waker: None, unwanted: false };
        Self {
            call: Mutex::new(None),
            state: Mutex::new(state),
            done: Condvar::new(),
            window: Arc::clone(window),
        }
    }

    fn finish(&self, outcome: Outcome<T>) {
        // Before anybody hears of it, so that who has waited for the call finds the window open.
        self.window.leave();
        let mut state = lock(&self.state);
        let unwanted = if state.unwanted {
            state.progress = Progress::Taken;
            Some(outcome)
        } else {
            state.progress = Progress::Done(outcome);
            None
        };
        let waker = state.waker.take();
        drop(state);
        self.done.notify_all();
        // Code of the caller's, whose panic, which the panic hook reports, is not to end an executor.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unwanted)));
        let _ = catch_unwind(AssertUnwindSafe(|| waker.map(Waker::wake)));
    }
}

impl<A: Send, T: Send> Job for Slot<A, T> {
    fn announce(&self, session: &mut dyn Any) {
        let mut call = lock(&self.call);
        let Some(Ok(Call { arguments, execute, terms })) = &*call else { return };
        // What it returns is nothing that it has seen at its place, and so is a panic of its body, which is not told here. What
        // panics here would do so there.
        let announced = catch_unwind(AssertUnwindSafe(|| execute(session, arguments, *terms).map(|_| ())));
        if let Err(panic) = announced {
            let unwanted = call.replace(Err(panic));
            drop(call);
            // Code of the caller's.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(unwanted)));
        }
    }

    fn execute(&self, session: &mut dyn Any) -> bool {
        let call = lock(&self.call).take();
        let Call { arguments, execute, terms } = match call {
            Some(Ok(call)) => call,
            Some(Err(panic)) => {
                self.finish(Outcome::Panicked(panic));
                return false;
            }
            None => unreachable!("a call is executed once"),
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let result = execute(session, &arguments, terms);
            drop(arguments);
            result
        }));
        match outcome {
            Ok(Ok((result, ticket))) if terms.durable => {
                lock(&self.state).progress = Progress::Committed(result, ticket);
                return true;
            }
            Ok(result) => self.finish(Outcome::Returned(result)),
            Err(panic) => self.finish(Outcome::Panicked(panic)),
        }
        false
    }

    fn acknowledge(&self) {
        let progress = std::mem::replace(&mut lock(&self.state).progress, Progress::UnderWay);
        let Progress::Committed(result, ticket) = progress else {
            unreachable!("only what has committed is acknowledged");
        };
        let outcome = match ticket.wait() {
            Ok(()) => Ok((result, ticket)),
            Err(error) => {
                let _ = catch_unwind(AssertUnwindSafe(|| drop(result)));
                Err(error)
            }
        };
        self.finish(Outcome::Returned(outcome));
    }
}

impl<A: Send, T: Send> Answers<T> for Slot<A, T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }

    fn wait<'s>(
        &'s self,
        state: MutexGuard<'s, State<T>>,
        within: Option<Duration>,
    ) -> MutexGuard<'s, State<T>> {
        wait_notified_within(&self.done, state, within)
    }

    fn shares_thread(&self) -> bool {
        self.window.shares_thread
    }
}

/// A call that was submitted ([`Session::submit`](crate::Session::submit)), and the claim to its result.
///
/// It is a future, too, for any async runtime: it is ready when [`wait`](Pending::wait) would return at once. Dropping it
/// discards the result, and not the call: that is executed all the same.
#[must_use = "whether the call has committed is told by its result only"]
pub struct Pending<T> {
    slot: Arc<dyn Answers<T>>,
}

impl<T> Pending<T> {
    /// Waits until the call has ended, and returns what it returned, as [`Session::call`](crate::Session::call) would have.
    /// Where the session's commits are durable when they return ([`Durability::Sync`](crate::Durability::Sync)), this one is.
    ///
    /// Not to be called in the body of a transaction, nor where the thread has an owned one open: that keeps its rows from others, maybe
    /// from this very call.
    ///
    /// # Errors
    /// As for [`Session::call`](crate::Session::call); [`Misuse::WaitsWithin`](crate::Misuse::WaitsWithin) where the call has not ended
    /// within half a second, in a body or beside an owned transaction of this thread: it goes on, and nobody will hear of its result.
    ///
    /// # Panics
    /// When the procedure did, with what it panicked, or the function that tells what it will access. The call has had no effect then, but
    /// where it was executed in pieces and panicked behind its mark `#[later]`: see
    /// [`Announcement`](crate::procedure::Announcement).
    pub fn wait(self) -> Result<T> {
        self.wait_ticket().map(|(result, _)| result)
    }

    /// As [`wait`](Pending::wait), with a [`Ticket`] that tells when the commit is durable, as
    /// [`Session::run_pipelined`](crate::Session::run_pipelined) gives one.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn wait_ticket(self) -> Result<(T, Ticket)> {
        let patience = Patience::new(self.slot.shares_thread());
        let mut state = self.slot.state();
        loop {
            if let Some(outcome) = state.take() {
                drop(state);
                return outcome.get().inspect(|_| patience.committed());
            }
            state = self.slot.wait(state, patience.left()?);
        }
    }

    /// What the call returned, if it has ended.
    ///
    /// # Errors
    /// This itself, if the call has not ended; within, as for [`wait`](Pending::wait).
    ///
    /// # Panics
    /// As there.
    pub fn try_wait(self) -> Result<Result<T>, Self> {
        let outcome = self.slot.state().take();
        match outcome {
            Some(outcome) => Ok(outcome.get().map(|(result, _)| result)),
            None => Err(self),
        }
    }

    /// Whether the call has ended.
    pub fn is_done(&self) -> bool {
        matches!(self.slot.state().progress, Progress::Done(_) | Progress::Taken)
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let mut state = self.slot.state();
        let Some(outcome) = state.take() else {
            match &mut state.waker {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            return Poll::Pending;
        };
        drop(state);
        Poll::Ready(outcome.get().map(|(result, _)| result))
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        let mut state = self.slot.state();
        state.unwanted = true;
        let waker = state.waker.take();
        let outcome = match &state.progress {
            Progress::Done(_) => state.take(),
            _ => None,
        };
        drop(state);
        drop((waker, outcome));
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("is_done", &self.is_done()).finish_non_exhaustive()
    }
}

/// How many calls of a session are under way.
struct Window {
    under_way: Mutex<usize>,
    /// One has ended.
    left: Condvar,
    /// The session shares its thread with others, which go on where it waits.
    shares_thread: bool,
}

impl Window {
    /// One more is under way; waits until fewer than `most` are, or says false.
    fn enter(&self, most: usize, wait: bool) -> Result<bool> {
        let mut under_way = lock(&self.under_way);
        if *under_way >= most {
            if !wait {
                return Ok(false);
            }
            let patience = Patience::new(self.shares_thread);
            while *under_way >= most {
                under_way = wait_notified_within(&self.left, under_way, patience.left()?);
            }
        }
        *under_way += 1;
        Ok(true)
    }

    fn leave(&self) {
        *lock(&self.under_way) -= 1;
        // Only the session waits.
        self.left.notify_one();
    }
}

/// What a session needs to submit calls, from the first on.
pub(super) struct Submitting {
    window: Arc<Window>,
    /// By the types of their arguments and results.
    rings: Vec<(TypeId, Box<dyn Any + Send>)>,
}

/// Places for calls, used in turn.
struct Ring<A, T> {
    slots: Vec<Arc<Slot<A, T>>>,
    at: usize,
}

impl Submitting {
    pub fn new(shares_thread: bool) -> Self {
        let window = Window { under_way: Mutex::new(0), left: Condvar::new(), shares_thread };
        Self { window: Arc::new(window), rings: Vec::new() }
    }

    pub fn under_way(&self) -> usize {
        *lock(&self.window.under_way)
    }

    /// Submits a call; `None` if the window is full and is not to be waited for.
    pub fn submit<A: Send + 'static, T: Send + 'static>(
        &mut self,
        to: &Submission,
        call: Call<A, T>,
        (window, wait, first): (usize, bool, bool),
    ) -> Result<Option<Pending<T>>> {
        if !self.window.enter(window, wait)? {
            return Ok(None);
        }
        let slot = self.slot::<A, T>(window, to.executors.count());
        *lock(&slot.call) = Some(Ok(call));
        *lock(&slot.state) = State { progress: Progress::UnderWay, waker: None, unwanted: false };
        to.executors.push(Arc::clone(&slot) as Arc<dyn Job>, first);
        Ok(Some(Pending { slot }))
    }

    /// A place that nobody uses. With as many places as calls may be under way or just done, one of the first few is such a
    /// one, unless results are kept for long.
    fn slot<A: Send + 'static, T: Send + 'static>(
        &mut self,
        window: usize,
        executors: usize,
    ) -> Arc<Slot<A, T>> {
        let id = TypeId::of::<(A, T)>();
        let at = self.rings.iter().position(|(types, _)| *types == id).unwrap_or_else(|| {
            self.rings.push((id, Box::new(Ring::<A, T> { slots: Vec::new(), at: 0 })));
            self.rings.len() - 1
        });
        let ring: &mut Ring<A, T> = self.rings[at].1.downcast_mut().expect("found by its types");
        let places = window + executors + 1;
        if ring.slots.len() < places {
            ring.slots.resize_with(places, || Arc::new(Slot::new(&self.window)));
        }
        for _ in 0..=executors {
            ring.at = (ring.at + 1) % ring.slots.len();
            let slot = &mut ring.slots[ring.at];
            if Arc::get_mut(slot).is_some() {
                return Arc::clone(slot);
            }
        }
        let slot = Arc::new(Slot::new(&self.window));
        ring.slots[ring.at] = Arc::clone(&slot);
        slot
    }
}
