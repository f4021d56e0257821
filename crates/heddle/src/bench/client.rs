//! A client: a thread that submits calls, and has many of them in flight, as a server has for its connections.
//!
//! **Two drivers.** With a *window* there are always as many calls in flight as may be: where some have ended, as many
//! are submitted. In an *open loop* calls arrive by a schedule ([`super::arrivals`]), and are submitted as soon as there is room.
//!
//! **Latency** counts from the submission, or in an open loop from the arrival that the schedule says, until the result can
//! be had. The executor that ends a call reads the clock when it wakes the call's waker. So the time that a client takes to
//! hear of it is no part of the latency; it takes the readings of two cores' clocks for readings of one, which on machines whose kernel takes
//! the counter for its clock are less than a microsecond apart.
//!
//! **What is counted** are the calls that ended in the window. After it the client waits for those that are in flight, so
//! that the ledgers have all that has committed.
//!
//! Transactions that are to be run on snapshots are no calls: the client runs them itself when they are due.

use super::arrivals::{Due, Schedule};
use super::settings::Submission;
use super::worker::{Flow, Inputs, MEASURE, STOP, Span, Tally, WARM_UP, Work};
use crate::clock::Clock;
use heddledb::internals::SessionInternals;
use heddledb::{Error, Pending, Session, Ticket};
use heddledb_workloads::Workload;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// So long a client sleeps at the most, that it may see a signal.
const SLEEP_MAX: Duration = Duration::from_millis(5);
/// Sleeps that are shorter than this take longer than they should, so a client lets others run instead.
const SLEEP_MIN: Duration = Duration::from_micros(60);
/// A client whose calls are all in flight is woken when one in so many has ended, so that a window is never less than three quarters
/// full. To be woken for each would take the executors of short calls a third of their throughput.
const WOKEN_FOR: usize = 4;

/// What a call gives back.
type Answer<W> = (<W as Workload>::Output, Ticket);

/// Calls that have ended and their client has not heard of yet.
struct Ended {
    state: Mutex<EndedState>,
    /// There are as many as the client waits for.
    enough: Condvar,
    clock: Clock,
}

struct EndedState {
    /// By their places, and when.
    calls: Vec<(usize, u64)>,
    /// For how many the client sleeps, if it does.
    awaited: usize,
}

impl Ended {
    fn new(clock: Clock) -> Self {
        let state = EndedState { calls: Vec::new(), awaited: 0 };
        Self { state: Mutex::new(state), enough: Condvar::new(), clock }
    }

    fn state(&self) -> MutexGuard<'_, EndedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exchanges what is there for an empty list.
    fn take(&self, empty: &mut Vec<(usize, u64)>) {
        std::mem::swap(&mut self.state().calls, empty);
    }

    /// Sleeps until so many are there, or that time is over.
    fn wait(&self, count: usize, most: Duration) {
        let mut state = self.state();
        if state.calls.len() < count {
            state.awaited = count;
            state = self.enough.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0;
            state.awaited = 0;
        }
    }
}

/// What an executor wakes when it has ended the call at this place.
struct Bell {
    place: usize,
    ended: Arc<Ended>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let now = self.ended.clock.now();
        let mut state = self.ended.state();
        state.calls.push((self.place, now));
        if state.awaited > 0 && state.calls.len() >= state.awaited {
            state.awaited = 0;
            drop(state);
            self.ended.enough.notify_one();
        }
    }
}

/// A place for a call in flight, used again and again.
struct Place<W: Workload> {
    waker: Waker,
    since: u64,
    input: W::Input,
    pending: Option<Pending<Answer<W>>>,
}

/// A client at work.
struct Client<'a, W: Workload> {
    work: &'a Work<'a, W>,
    session: &'a mut Session,
    queue: usize,
    inputs: Inputs<W>,
    tally: Tally<W::Ledger>,
    places: Vec<Place<W>>,
    free: Vec<usize>,
    ended: Arc<Ended>,
    /// Those that were just taken.
    heard: Vec<(usize, u64)>,
    /// What has arrived, in an open loop, by nanoseconds since the start.
    due: Option<Due>,
    start: u64,
    /// Of calls that end meanwhile the figures are told.
    counted: Range<u64>,
}

/// Executes a transaction on an executor's session.
fn call<W: Workload>(
    session: &mut Session,
    (workload, input): &(Arc<W>, W::Input),
) -> Result<Answer<W>, Error> {
    let output = workload.call(session, input)?;
    Ok((output, session.ticket()))
}

/// The life of client `number`: until it is told to stop, and then until nothing of its is in flight.
pub fn client<W: Workload>(
    work: &Work<'_, W>,
    submission: &Submission,
    number: usize,
    session: &mut Session,
    wait_for_all: impl FnOnce(),
) -> Result<Tally<W::Ledger>, Error> {
    let clock = work.settings.clock;
    let inputs = Inputs::new(work, number);
    let mut tally = Tally::new(work)?;
    let due = match &submission.arrivals {
        Some(arrivals) => {
            tally.flow = Some(Flow::new(&clock)?);
            Some(Due::new(Schedule::new(arrivals, number, work.workers, work.settings.seed)))
        }
        None => None,
    };
    session.set_window(submission.queue);
    wait_for_all();
    let client = Client {
        work,
        session,
        queue: submission.queue,
        inputs,
        tally,
        places: Vec::new(),
        free: Vec::new(),
        ended: Arc::new(Ended::new(clock)),
        heard: Vec::new(),
        due,
        start: clock.now(),
        counted: 0..u64::MAX,
    };
    client.run().inspect_err(|_| work.signal.raise(STOP))
}

impl<W: Workload> Client<'_, W> {
    fn run(mut self) -> Result<Tally<W::Ledger>, Error> {
        let signal = self.work.signal;
        let mut phase = WARM_UP;
        loop {
            let seen = signal.get();
            if seen == STOP {
                break;
            }
            self.hear()?;
            if seen != phase {
                phase = seen;
                self.begin();
            }
            if !self.submit_due()? {
                self.rest();
            }
        }
        self.hear()?;
        self.end(phase == MEASURE);
        while self.in_flight() > 0 {
            self.ended.wait(1, SLEEP_MAX);
            self.hear()?;
        }
        Ok(self.tally)
    }

    fn now(&self) -> u64 {
        self.work.settings.clock.now()
    }

    /// Nanoseconds since the start.
    fn elapsed(&self) -> f64 {
        self.work.settings.clock.nanoseconds(self.now().saturating_sub(self.start))
    }

    fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The window begins.
    fn begin(&mut self) {
        let waiting = self.waiting();
        self.tally.begin(self.session.stats());
        self.counted.start = self.now();
        if let Some(flow) = &mut self.tally.flow {
            flow.begin(waiting);
        }
    }

    /// The window has ended, or never began.
    fn end(&mut self, measured: bool) {
        let waiting = self.waiting();
        self.tally.end(self.session.stats(), measured);
        self.counted.end = if measured { self.now() } else { 0 };
        if let Some(flow) = &mut self.tally.flow {
            flow.waiting_end = waiting;
        }
    }

    /// How many calls have arrived and have not ended.
    fn waiting(&mut self) -> u64 {
        self.note_arrivals();
        self.due.as_ref().map_or(0, |due| due.waiting() as u64) + self.in_flight() as u64
    }

    fn note_arrivals(&mut self) {
        let elapsed = self.elapsed();
        if let (Some(due), Some(flow)) = (&mut self.due, &mut self.tally.flow) {
            flow.arrived += due.advance(elapsed);
        }
    }

    /// Tells of the calls that have ended.
    fn hear(&mut self) -> Result<(), Error> {
        let mut heard = std::mem::take(&mut self.heard);
        self.ended.take(&mut heard);
        for (at, to) in heard.drain(..) {
            let pending = self.places[at].pending.take().expect("a call is in flight where one has ended");
            let outcome =
                pending.try_wait().unwrap_or_else(|_| unreachable!("the waker is woken at the end"));
            self.tell(at, outcome, to)?;
        }
        self.heard = heard;
        Ok(())
    }

    /// The call at this place has ended so.
    fn tell(&mut self, at: usize, outcome: Result<Answer<W>, Error>, to: u64) -> Result<(), Error> {
        let Place { since, input, .. } = &self.places[at];
        let span = Span { since: *since, to, looked: false, counted: self.counted.contains(&to) };
        let workload = &**self.work.workload;
        let mut ticket = None;
        let outcome = outcome.map(|(output, of)| {
            ticket = Some(of);
            output
        });
        self.tally.tell(workload, &mut self.inputs.generator, input, outcome, span)?;
        if let Some(ticket) = ticket {
            self.tally.watch(span, || ticket);
        }
        self.free.push(at);
        Ok(())
    }

    /// Submits what is due, as far as there is room. False if that was nothing.
    fn submit_due(&mut self) -> Result<bool, Error> {
        self.note_arrivals();
        let mut some = false;
        while self.in_flight() < self.queue {
            let now = self.now();
            let since = match &mut self.due {
                None => now,
                Some(due) => {
                    let Some(arrived) = due.take() else { break };
                    let clock = &self.work.settings.clock;
                    self.start + clock.ticks(Duration::from_nanos(arrived as u64))
                }
            };
            if let Some(flow) = &mut self.tally.flow {
                flow.late.saturating_record(now.saturating_sub(since));
            }
            self.submit(since)?;
            some = true;
        }
        Ok(some)
    }

    /// Submits the next call, or runs it if it is none.
    fn submit(&mut self, since: u64) -> Result<(), Error> {
        let (workload, settings) = (self.work.workload, self.work.settings);
        let drawn = self.inputs.advance(&**workload);
        let Inputs { generator, pool, .. } = &mut self.inputs;
        let input = &pool[drawn];
        if settings.read_only.looks(&**workload, input) {
            let outcome = settings.read_only.run(&**workload, self.session, input);
            let to = settings.clock.now();
            let span = Span { since, to, looked: true, counted: self.counted.contains(&to) };
            return self.tally.tell(&**workload, generator, input, outcome, span).map(drop);
        }
        workload.submitted(generator, input);
        let mut pending = self.session.submit_as((Arc::clone(workload), input.clone()), call::<W>)?;
        let at = match self.free.pop() {
            Some(at) => {
                self.places[at].input.clone_from(input);
                at
            }
            None => {
                let place = self.places.len();
                let waker = Waker::from(Arc::new(Bell { place, ended: Arc::clone(&self.ended) }));
                self.places.push(Place { waker, since, input: input.clone(), pending: None });
                place
            }
        };
        let place = &mut self.places[at];
        place.since = since;
        match Pin::new(&mut pending).poll(&mut Context::from_waker(&place.waker)) {
            Poll::Pending => place.pending = Some(pending),
            // It has ended already, and wakes nobody.
            Poll::Ready(outcome) => self.tell(at, outcome, self.now())?,
        }
        Ok(())
    }

    /// Sleeps until there may be something to do.
    fn rest(&self) {
        match &self.due {
            Some(due) if self.in_flight() < self.queue => {
                let left = Duration::from_nanos((due.next() - self.elapsed()).max(0.0) as u64);
                if left < SLEEP_MIN {
                    thread::yield_now();
                } else {
                    thread::sleep((left - SLEEP_MIN).min(SLEEP_MAX));
                }
            }
            _ => self.ended.wait((self.queue / WOKEN_FOR).max(1), SLEEP_MAX),
        }
    }
}
