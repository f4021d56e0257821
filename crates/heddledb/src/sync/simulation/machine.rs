//! The virtual machine: cores that take turns on one thread of the real one.
//!
//! [`simulate`] runs a body, and every thread that it starts through `sync`, each as a coroutine with a clock
//! of its own. Before each access to shared memory a core asks whether it is still its turn; if not, it is
//! suspended, and another goes on. So no access runs beside another, and between two accesses of a core
//! nothing else does: what happens is decided by the schedule alone.
//!
//! ```text
//!   ready ---chosen--> running ---access of another's turn, time passed--> ready
//!     ^                   |------ waits for a key, a line, an end --------> parked ---woken, deadline--> ready
//!     '-- started         |------ fate -----------------------------------> killed
//!                         '------ its body ends --------------------------> done
//! ```
//!
//! **Outside.** On a thread that simulates nothing, every name of this backend is the standard library's.
//!
//! **Free.** The body itself, and whoever asks by [`free`], does its accesses for nothing and is not
//! preempted: it loads tables and checks results. It waits like all others.

#![allow(unsafe_code)]

use super::costs::{Costs, Counts, Topology};
use super::directory::{Cache, Directory, Kind, Map};
use super::htm::{self, Mode};
use super::schedule::{Event, Fate, Schedule, Scheduler, When, Who};
use super::trace::{Names, Observed, Observer, What};
use crate::sync::{Course, Phase, Work};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell, RefMut};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

/// Settings of a simulation.
pub struct Settings {
    /// The shape of the machine.
    pub topology: Topology,
    /// What things cost.
    pub costs: Costs,
    /// Who runs next.
    pub schedule: Schedule,
    /// Delays and faults.
    pub events: Vec<Event>,
    /// After so many accesses a simulation that has not ended is given up.
    pub steps_max: u64,
    /// Bytes of a core's stack.
    pub stack_bytes: usize,
    /// Is told every step.
    pub observer: Option<Observer>,
    /// Is told of every transaction that cannot fail any more.
    pub decided: Option<Decided>,
    /// Is told which transactions come after which, by protocols that know it.
    pub follower: Option<Follower>,
}

/// Is told of a transaction's place among others.
pub type Follower = Box<dyn FnMut(u64, Course)>;

/// Is told by whom a transaction was decided to commit, and at which time.
pub type Decided = Box<dyn FnMut(Option<Who>, u64)>;

impl Default for Settings {
    fn default() -> Self {
        Self {
            topology: Topology::default(),
            costs: Costs::default(),
            schedule: Schedule::Clock,
            events: Vec::new(),
            steps_max: u64::MAX,
            stack_bytes: 256 << 10,
            observer: None,
            decided: None,
            follower: None,
        }
    }
}

/// Why a simulation has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nobody can go on.
    #[error("nobody can go on after {steps} steps: {waits}")]
    Deadlock {
        /// Accesses so far.
        steps: u64,
        /// Who waits for what.
        waits: String,
    },
    /// It did not end.
    #[error("no end after {steps} steps: {waits}")]
    Endless {
        /// Accesses so far.
        steps: u64,
        /// Who waits for what.
        waits: String,
    },
    /// The body panicked.
    #[error("{0}")]
    Panic(String),
}

/// What a core is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Running,
    /// Until it is woken, or until the clock reaches the deadline.
    Parked {
        what: Awaited,
        deadline: Option<u64>,
    },
    Killed,
    Done,
}

/// What a parked core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// A mutex, a condition, a core's end: identified by an address.
    Key(usize),
    /// One of the lines that it watches.
    Line,
    /// Time.
    Time,
}

/// Where the time of a core's attempts goes.
#[derive(Default)]
struct Spent {
    phase: Phase,
    /// The clock when it began, and the cycles that were waited by then.
    begun: u64,
    waited: u64,
    /// Cycles of the attempt so far, as in [`Counts::phases`].
    attempt: [u64; Counts::PHASES.len()],
}

impl Spent {
    fn change(&mut self, phase: Phase, clock: u64, waited: u64) {
        let (all, waiting) = (clock - self.begun, waited - self.waited);
        self.attempt[self.phase as usize] += all.saturating_sub(waiting);
        self.attempt[Counts::WAITING] += waiting;
        (self.phase, self.begun, self.waited) = (phase, clock, waited);
    }

    /// What an attempt that did not commit took is lost, and what is between it and the next.
    fn end(&mut self, committed: bool, sums: &mut [u64; Counts::PHASES.len()]) {
        let attempt = std::mem::take(&mut self.attempt);
        match committed {
            true => sums.iter_mut().zip(attempt).for_each(|(sum, more)| *sum += more),
            false => sums[Counts::ABORTED] += attempt.iter().sum::<u64>(),
        }
    }
}

struct Core {
    who: Option<Who>,
    state: State,
    clock: u64,
    /// Entries in the queue of an older generation are void.
    generation: u32,
    /// Accesses are charged, and others may go before them.
    charged: bool,
    counts: Counts,
    spent: Spent,
    yielder: *const Yielder<(), ()>,
    /// Lines that it watches, and whether one was written since.
    watched: Vec<u32>,
    written: bool,
    watching: bool,
    /// Accesses, and timed waits, so far: for events.
    accesses: u64,
    waits: u64,
    /// Whether the last park ended because time was up.
    timed_out: bool,
    eventful: bool,
    stalled_until_step: u64,
}

pub(super) struct Inside {
    cores: Vec<Core>,
    caches: Vec<Cache>,
    /// The socket of each core.
    sockets: Vec<u8>,
    directory: Directory,
    /// Ready cores, and parked ones with a deadline: (time, core, generation).
    queue: BinaryHeap<Reverse<(u64, usize, u32)>>,
    /// The first of the queue: the running core goes on while it is before this.
    horizon: (u64, usize),
    scheduler: Scheduler,
    by_clock: bool,
    waiters: Map<usize, VecDeque<usize>>,
    watchers: Map<u32, Vec<usize>>,
    costs: Costs,
    topology: Topology,
    events: Vec<Event>,
    points: Map<(usize, usize), u64>,
    steps: u64,
    steps_max: u64,
    services: usize,
    /// Hardware transactions.
    pub htm: htm::Model,
    /// The core that was preempted or paused just now: others go first.
    resting: Option<usize>,
    /// A core has become ready since the running one was chosen: it may outrank it.
    woken: bool,
    /// Scratch.
    ready: Vec<usize>,
}

pub(super) struct Machine {
    pub inside: RefCell<Inside>,
    current: Cell<usize>,
    /// The running core is charged: a copy, for speed.
    charged: Cell<bool>,
    coroutines: RefCell<Vec<Option<Coroutine<(), (), ()>>>>,
    stack_bytes: usize,
    observer: RefCell<Option<Observer>>,
    decided: RefCell<Option<Decided>>,
    follower: RefCell<Option<Follower>>,
    pub observing: Cell<bool>,
    pub names: RefCell<Names>,
}

thread_local! {
    /// The machine that this thread simulates, if any; see `simulate`.
    static MACHINE: Cell<*const Machine> = const { Cell::new(std::ptr::null()) };
    /// Stacks of ended cores, for the next of the same size: a search makes many thousands.
    static STACKS: RefCell<Vec<(usize, DefaultStack)>> = const { RefCell::new(Vec::new()) };
}

/// The machine that this thread simulates.
#[inline(always)]
pub(super) fn machine<'a>() -> Option<&'a Machine> {
    let machine = MACHINE.get();
    // SAFETY: `simulate` sets the pointer to a machine on its own stack frame or heap, and clears it before
    // that goes; nobody keeps the reference beyond a call, during which `simulate` has not returned (a
    // suspended core that is never resumed is forgotten with its stack, references included).
    (!machine.is_null()).then(|| unsafe { &*machine })
}

/// Stacks that a thread keeps.
const STACKS_MAX: usize = 32;

/// A stack of so many bytes.
fn take_stack(bytes: usize) -> DefaultStack {
    let kept = STACKS.with_borrow_mut(|stacks| {
        let at = stacks.iter().rposition(|(size, _)| *size == bytes)?;
        Some(stacks.swap_remove(at).1)
    });
    kept.unwrap_or_else(|| DefaultStack::new(bytes).expect("memory for a stack"))
}

/// Keeps the stack of a core that has ended.
fn keep_stack(bytes: usize, stack: DefaultStack) {
    STACKS.with_borrow_mut(|stacks| {
        if stacks.len() < STACKS_MAX {
            stacks.push((bytes, stack));
        }
    });
}

/// Whether this thread simulates.
pub fn simulated() -> bool {
    !MACHINE.get().is_null()
}

/// One access of the running core to the word at `address`. True where it must go through the buffer of a
/// hardware transaction.
#[inline(always)]
pub(super) fn access(address: usize, kind: Kind) -> bool {
    match machine() {
        None => false,
        Some(machine) if machine.charged.get() => machine.access(address, kind),
        Some(machine) => {
            // What the body loads, the shared cache then has.
            machine.inside.borrow_mut().directory.touch(address);
            false
        }
    }
}

impl Inside {
    /// A core's clock.
    pub fn clock_of(&self, core: usize) -> u64 {
        self.cores[core].clock
    }

    /// No hardware transaction has these lines any more.
    pub fn settle(&mut self, addresses: &[usize]) {
        addresses.iter().for_each(|address| self.directory.settle(*address));
    }

    /// Whether core `me` may make its next access before all others.
    #[inline(always)]
    fn has_turn(&mut self, me: usize) -> bool {
        if self.steps > self.steps_max {
            // It ends in `choose`.
            false
        } else if self.by_clock {
            (self.cores[me].clock, me) <= self.horizon
        } else {
            let woken = std::mem::take(&mut self.woken);
            let is_ready = |core: &usize| self.cores[*core].state == State::Ready;
            let outranked =
                woken && (0..self.cores.len()).filter(is_ready).any(|core| self.scheduler.prefers(core, me));
            !outranked && !self.scheduler.preempts(me, self.steps)
        }
    }

    fn enqueue(&mut self, core: usize, time: u64) {
        let entry = (time, core, self.cores[core].generation);
        self.queue.push(Reverse(entry));
        self.horizon = self.horizon.min((time, core));
    }

    /// Lets others go before a core that could go on.
    fn step_aside(&mut self, core: usize) {
        self.cores[core].state = State::Ready;
        self.resting = Some(core);
        let clock = self.cores[core].clock;
        self.enqueue(core, clock);
    }

    fn set_horizon(&mut self) {
        while let Some(Reverse((time, core, generation))) = self.queue.peek().copied() {
            if self.cores[core].generation == generation {
                self.horizon = (time, core);
                return;
            }
            self.queue.pop();
        }
        self.horizon = (u64::MAX, usize::MAX);
    }

    /// Makes a core ready, not before `time`.
    fn make_ready(&mut self, core: usize, time: u64) {
        let of = &mut self.cores[core];
        if time > of.clock {
            of.counts.waiting_cycles += time - of.clock;
            of.clock = time;
        }
        of.state = State::Ready;
        of.generation += 1;
        self.woken = true;
        let clock = of.clock;
        self.enqueue(core, clock);
    }

    /// Wakes those who wait for a key: one or all.
    pub fn wake(&mut self, key: usize, all: bool, from: u64) -> Option<usize> {
        let mut first = None;
        while let Some(waiters) = self.waiters.get_mut(&key) {
            let Some(core) = waiters.pop_front() else {
                self.waiters.remove(&key);
                break;
            };
            let State::Parked { what: Awaited::Key(its), .. } = self.cores[core].state else { continue };
            if its != key {
                continue;
            }
            self.cores[core].timed_out = false;
            self.make_ready(core, from + self.costs.wake);
            first = first.or(Some(core));
            if !all {
                break;
            }
        }
        first
    }

    fn wake_watchers(&mut self, line: u32, by: usize, done: u64) {
        let Some(watchers) = self.watchers.remove(&line) else { return };
        // Who writes the line that he watches himself, say with an exchange that fails, goes on watching it.
        let mut himself = false;
        for core in watchers {
            if !self.cores[core].watched.contains(&line) {
                continue;
            }
            if core == by {
                himself = true;
                continue;
            }
            self.cores[core].written = true;
            if let State::Parked { what: Awaited::Line, .. } = self.cores[core].state {
                self.make_ready(core, done);
            }
        }
        if himself {
            self.watchers.insert(line, vec![by]);
        }
    }

    /// The next core, made running; or why there is none.
    fn choose(&mut self) -> Result<Option<usize>, Failure> {
        if self.steps > self.steps_max {
            return Err(Failure::Endless { steps: self.steps, waits: self.waits() });
        }
        if self.by_clock {
            self.set_horizon();
            let Some(Reverse((time, core, _))) = self.queue.pop() else { return self.nobody() };
            self.begin(core, time);
            self.set_horizon();
            return Ok(Some(core));
        }
        // Few cores: look at them all.
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let steps = self.steps;
        let ready_now = |core: &Core| core.state == State::Ready && core.stalled_until_step <= steps;
        ready.extend((0..self.cores.len()).filter(|core| ready_now(&self.cores[*core])));
        if ready.is_empty() {
            ready.extend((0..self.cores.len()).filter(|core| self.cores[*core].state == State::Ready));
        }
        // Time passes for who waits for it when the others have come so far.
        let now = self.cores.iter().map(|core| core.clock).max().unwrap_or(0);
        let due = |core: &Core| match core.state {
            State::Parked { deadline: Some(deadline), .. } => Some(deadline),
            _ => None,
        };
        let timed = (0..self.cores.len()).filter(|core| due(&self.cores[*core]).is_some_and(|at| at <= now));
        ready.extend(timed);
        if ready.is_empty() {
            let first = (0..self.cores.len()).filter_map(|core| due(&self.cores[core]).map(|at| (at, core)));
            ready.extend(first.min().map(|(_, core)| core));
        }
        let chosen =
            if ready.is_empty() { None } else { Some(self.scheduler.choose(&ready, self.resting.take())) };
        self.ready = ready;
        match chosen {
            None => self.nobody(),
            Some(core) => {
                let time = due(&self.cores[core]).unwrap_or(self.cores[core].clock);
                self.begin(core, time);
                Ok(Some(core))
            }
        }
    }

    fn begin(&mut self, core: usize, time: u64) {
        let of = &mut self.cores[core];
        if let State::Parked { .. } = of.state {
            of.timed_out = true;
        }
        if time > of.clock {
            of.counts.waiting_cycles += time - of.clock;
            of.clock = time;
        }
        of.generation += 1;
        of.stalled_until_step = 0;
        of.state = State::Running;
    }

    /// Whether the body has ended and a worker is dead: what it holds stays held, services that serve it
    /// never end, and there is nothing more to learn.
    fn is_over(&self) -> bool {
        let is_worker = |core: &&Core| matches!(core.who, Some(Who::Worker(_)));
        self.cores[0].state == State::Done
            && self.cores.iter().any(|core| core.state == State::Killed)
            && self
                .cores
                .iter()
                .filter(is_worker)
                .all(|core| matches!(core.state, State::Done | State::Killed))
    }

    fn nobody(&self) -> Result<Option<usize>, Failure> {
        if self.cores.iter().all(|core| matches!(core.state, State::Done | State::Killed)) {
            return Ok(None);
        }
        Err(Failure::Deadlock { steps: self.steps, waits: self.waits() })
    }

    fn waits(&self) -> String {
        let mut lines = Vec::new();
        for (number, core) in self.cores.iter().enumerate() {
            let name = label(core.who);
            match core.state {
                State::Done => {}
                State::Parked { what: Awaited::Key(key), .. } => {
                    let end = key.checked_sub(1).and_then(|core| self.cores.get(core));
                    lines.push(match end {
                        Some(other) => format!("{name} waits for the end of {}", label(other.who)),
                        None => format!("{name} waits for a mutex or a condition"),
                    });
                }
                State::Parked { what: Awaited::Line, .. } => lines.push(format!("{name} spins")),
                State::Parked { what: Awaited::Time, .. } => lines.push(format!("{name} sleeps")),
                State::Ready | State::Running => lines.push(format!("{name} (core {number}) runs")),
                State::Killed => lines.push(format!("{name} is dead")),
            }
        }
        lines.truncate(12);
        lines.join("; ")
    }
}

/// The name of a core.
pub(super) fn label(who: Option<Who>) -> String {
    match who {
        None => "the body".into(),
        Some(Who::Worker(number)) => format!("worker {number}"),
        Some(Who::Service(number)) => format!("service {number}"),
    }
}

impl Machine {
    fn new(settings: Settings) -> Self {
        let Settings {
            topology,
            costs,
            schedule,
            events,
            steps_max,
            stack_bytes,
            observer,
            decided,
            follower,
        } = settings;
        Self {
            inside: RefCell::new(Inside {
                cores: Vec::new(),
                caches: Vec::new(),
                sockets: Vec::new(),
                directory: Directory::new(&costs, &topology),
                queue: BinaryHeap::new(),
                horizon: (u64::MAX, usize::MAX),
                scheduler: Scheduler::new(schedule),
                by_clock: schedule == Schedule::Clock,
                waiters: Map::default(),
                watchers: Map::default(),
                costs,
                topology,
                events,
                points: Map::default(),
                steps: 0,
                steps_max,
                services: 0,
                htm: htm::Model::default(),
                resting: None,
                woken: false,
                ready: Vec::new(),
            }),
            current: Cell::new(0),
            charged: Cell::new(false),
            coroutines: RefCell::new(Vec::new()),
            stack_bytes,
            observing: Cell::new(observer.is_some()),
            observer: RefCell::new(observer),
            decided: RefCell::new(decided),
            follower: RefCell::new(follower),
            names: RefCell::new(Names::default()),
        }
    }

    /// Tells the observer. Nobody is borrowed.
    #[cold]
    pub fn observe(&self, what: What) {
        let me = self.current.get();
        let (step, clock, who) = {
            let inside = self.inside.borrow();
            (inside.steps, inside.cores[me].clock, inside.cores[me].who)
        };
        if let Some(observer) = self.observer.borrow_mut().as_mut() {
            observer(&Observed { step, clock, who, what });
        }
    }

    /// Something about a transaction's place among others.
    pub fn course(&self, transaction: u64, course: Course) {
        if let Some(tell) = self.follower.borrow_mut().as_mut() {
            tell(transaction, course);
        }
    }

    /// The running core's transaction commits at `time`.
    pub fn decided(&self, time: u64) {
        if let Some(tell) = self.decided.borrow_mut().as_mut() {
            let who = self.inside.borrow().cores[self.current.get()].who;
            tell(who, time);
        }
    }

    /// Waits until the next access is the running core's.
    #[inline]
    fn turn(&self, me: usize) -> RefMut<'_, Inside> {
        let mut inside = self.inside.borrow_mut();
        if inside.cores[me].eventful {
            drop(inside);
            self.befall_access(me);
            inside = self.inside.borrow_mut();
        }
        if inside.has_turn(me) {
            return inside;
        }
        inside.step_aside(me);
        drop(inside);
        self.suspend(me);
        self.inside.borrow_mut()
    }

    /// Waits for the running core's turn without an access.
    pub fn take_turn(&self) {
        drop(self.turn(self.current.get()));
    }

    /// The running core.
    pub fn running(&self) -> usize {
        self.current.get()
    }

    /// True where the access must go through the buffer of a hardware transaction.
    #[inline]
    fn access(&self, address: usize, kind: Kind) -> bool {
        let me = self.current.get();
        let mut inside = self.turn(me);
        let mode = if inside.htm.any() { inside.htm.mode(me) } else { Mode::Plain };
        match mode {
            Mode::Plain | Mode::Buffered => {}
            Mode::Unwinding => return true,
            Mode::Raise => {
                drop(inside);
                self.raise(None);
            }
        }
        let inside_now = &mut *inside;
        inside_now.steps += 1;
        let Inside { cores, caches, sockets, directory, costs, htm, .. } = inside_now;
        let core = &mut cores[me];
        core.accesses += 1;
        let clock = core.clock;
        let outcome = directory.access(costs, sockets, caches, me, clock, address, kind, &mut core.counts);
        core.clock = outcome.done;
        if outcome.speculative || mode == Mode::Buffered {
            if mode == Mode::Buffered {
                directory.speculate(address);
            }
            htm.touched(me, outcome.number, address, kind != Kind::Load, clock, costs);
        }
        if core.watching {
            let line = directory.watch(address);
            core.watched.push(line);
            inside_now.watchers.entry(line).or_default().push(me);
        }
        if outcome.wakes {
            inside_now.wake_watchers(outcome.number, me, outcome.done);
        }
        if mode == Mode::Buffered && inside.htm.mode(me) == Mode::Raise {
            drop(inside);
            self.raise(None);
        }
        mode == Mode::Buffered
    }

    /// Lets the scheduler go on; returns when this core is chosen again.
    fn suspend(&self, me: usize) {
        let yielder = self.inside.borrow().cores[me].yielder;
        // SAFETY: the core's coroutine stored its yielder when it began, it lives on that coroutine's stack,
        // and it is that coroutine which runs here: `me` is the running core.
        unsafe { &*yielder }.suspend(());
        self.charged.set(self.inside.borrow().cores[me].charged);
    }

    /// Whether the running core's accesses are charged.
    #[inline(always)]
    pub fn is_charged(&self) -> bool {
        self.charged.get()
    }

    /// The table of costs.
    pub fn costs(&self) -> Costs {
        self.inside.borrow().costs
    }

    /// Cycles of a length of time.
    pub fn cycles(&self, length: Duration) -> u64 {
        self.inside.borrow().costs.cycles(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Numbers the lines of memory from its start.
    pub fn register(&self, start: usize, bytes: usize) {
        self.inside.borrow_mut().directory.register(start, bytes);
    }

    /// Spends time.
    pub fn spend(&self, cycles: u64, waiting: bool) {
        if !self.charged.get() {
            return;
        }
        let mut inside = self.inside.borrow_mut();
        let core = &mut inside.cores[self.current.get()];
        core.clock += cycles;
        if waiting {
            core.counts.waiting_cycles += cycles;
        } else {
            core.counts.work_cycles += cycles;
        }
    }

    /// The running core's attempt is in another phase, or has ended.
    pub fn phase(&self, phase: Phase, committed: Option<bool>) {
        if !self.charged.get() {
            return;
        }
        let mut inside = self.inside.borrow_mut();
        let core = &mut inside.cores[self.current.get()];
        core.spent.change(phase, core.clock, core.counts.waiting_cycles);
        if let Some(committed) = committed {
            core.spent.end(committed, &mut core.counts.phases);
        }
    }

    #[inline]
    pub fn work(&self, work: Work) {
        if !self.charged.get() {
            return;
        }
        let mut inside = self.inside.borrow_mut();
        let cycles = inside.costs.of(work);
        let core = &mut inside.cores[self.current.get()];
        core.clock += cycles;
        core.counts.work_cycles += cycles;
        core.counts.add_work(work);
    }

    /// Waits for others without a reason that the machine knows: a spin hint, a yield, a pause.
    pub fn pause(&self, cycles: u64) {
        let me = self.current.get();
        let mut inside = self.inside.borrow_mut();
        let core = &mut inside.cores[me];
        core.clock += cycles;
        core.counts.waiting_cycles += cycles;
        if inside.by_clock && self.charged.get() {
            // Before its next access the others will have had their turn.
            return;
        }
        // Who waits lets others run.
        inside.scheduler.fall(me);
        inside.step_aside(me);
        drop(inside);
        self.suspend(me);
    }

    /// Parks the running core. True if it was woken, false if time was up.
    pub fn park(&self, what: Awaited, cycles_max: Option<u64>) -> bool {
        let me = self.current.get();
        self.no_region();
        if cycles_max.is_some() {
            self.befall_wait(me);
        }
        {
            let mut inside = self.inside.borrow_mut();
            if what == Awaited::Line && inside.cores[me].written {
                return true;
            }
            let deadline = cycles_max.map(|cycles| inside.cores[me].clock.saturating_add(cycles));
            if let Awaited::Key(key) = what {
                inside.waiters.entry(key).or_default().push_back(me);
            }
            let core = &mut inside.cores[me];
            core.state = State::Parked { what, deadline };
            core.timed_out = false;
            core.generation += 1;
            if let Some(deadline) = deadline {
                inside.enqueue(me, deadline);
            }
            if !inside.by_clock {
                inside.scheduler.fall(me);
            }
        }
        if self.observing.get() {
            self.observe(What::Waits);
        }
        self.suspend(me);
        let mut inside = self.inside.borrow_mut();
        let timed_out = inside.cores[me].timed_out;
        if timed_out
            && let Awaited::Key(key) = what
            && let Some(waiters) = inside.waiters.get_mut(&key)
        {
            waiters.retain(|core| *core != me);
        }
        !timed_out
    }

    /// Wakes who waits for a key.
    pub fn wake(&self, key: usize, all: bool) {
        let mut inside = self.inside.borrow_mut();
        let me = self.current.get();
        let from = inside.cores[me].clock;
        inside.wake(key, all, from);
    }

    /// Begins to watch the lines that are read, until `park(Awaited::Line, ..)`.
    pub fn watch(&self, on: bool) {
        let mut inside = self.inside.borrow_mut();
        let core = &mut inside.cores[self.current.get()];
        core.watching = on;
        if on {
            core.watched.clear();
            core.written = false;
        }
    }

    fn befall_access(&self, me: usize) {
        let at = self.inside.borrow().cores[me].accesses;
        self.befall(me, |when| matches!(when, When::Access(number) if *number <= at));
    }

    fn befall_wait(&self, me: usize) {
        let at = {
            let mut inside = self.inside.borrow_mut();
            inside.cores[me].waits += 1;
            inside.cores[me].waits
        };
        self.befall(me, |when| matches!(when, When::Wait(number) if *number <= at));
    }

    /// The running core passes a named point.
    pub fn point(&self, name: &'static str) {
        if !self.charged.get() {
            return;
        }
        let me = self.current.get();
        let passed = {
            let mut inside = self.inside.borrow_mut();
            if !inside.cores[me].eventful {
                0
            } else {
                let count = inside.points.entry((me, name.as_ptr() as usize)).or_insert(0);
                *count += 1;
                *count
            }
        };
        if self.observing.get() {
            self.observe(What::Point(name));
        }
        if passed > 0 {
            self.befall(
                me,
                |when| matches!(when, When::Point(point, number) if point == name && *number == passed),
            );
        }
    }

    /// Lets happen what was ordered for now.
    fn befall(&self, me: usize, now: impl Fn(&When) -> bool) {
        let event = {
            let mut inside = self.inside.borrow_mut();
            let who = inside.cores[me].who;
            let mine = |event: &Event| Some(event.who) == who && now(&event.when);
            let Some(at) = inside.events.iter().position(mine) else { return };
            let event = inside.events.remove(at);
            inside.cores[me].eventful = inside.events.iter().any(|event| Some(event.who) == who);
            event
        };
        if self.observing.get() {
            self.observe(What::Fate(event.fate));
        }
        let mut inside = self.inside.borrow_mut();
        match event.fate {
            Fate::Stall(cycles) => {
                let steps = inside.steps;
                let core = &mut inside.cores[me];
                core.clock += cycles;
                core.counts.waiting_cycles += cycles;
                core.stalled_until_step = steps.saturating_add(cycles);
                core.state = State::Ready;
                let clock = core.clock;
                inside.enqueue(me, clock);
            }
            Fate::Kill => {
                inside.cores[me].state = State::Killed;
                inside.cores[me].generation += 1;
                // Whoever waits for its end hears of it.
                let from = inside.cores[me].clock;
                inside.wake(end_key(me), true, from);
            }
        }
        drop(inside);
        self.suspend(me);
    }

    /// Starts a core with `body`, at the clock of the running one.
    fn start(&self, who: Option<Who>, charged: bool, body: impl FnOnce() + 'static) -> usize {
        let number = self.coroutines.borrow().len();
        let stack = take_stack(self.stack_bytes);
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            let machine = machine().expect("cores run inside a simulation");
            let me = machine.current.get();
            machine.inside.borrow_mut().cores[me].yielder = yielder;
            machine.charged.set(charged);
            body();
            let mut inside = machine.inside.borrow_mut();
            inside.cores[me].state = State::Done;
            inside.cores[me].generation += 1;
            let from = inside.cores[me].clock;
            inside.wake(end_key(me), true, from);
        });
        self.coroutines.borrow_mut().push(Some(coroutine));
        let mut inside = self.inside.borrow_mut();
        let clock = inside.cores.get(self.current.get()).map_or(0, |core| core.clock);
        let eventful = inside.events.iter().any(|event| Some(event.who) == who);
        inside.cores.push(Core {
            who,
            state: State::Ready,
            clock,
            generation: 0,
            charged,
            counts: Counts::default(),
            spent: Spent::default(),
            yielder: std::ptr::null(),
            watched: Vec::new(),
            written: false,
            watching: false,
            accesses: 0,
            waits: 0,
            timed_out: false,
            eventful,
            stalled_until_step: 0,
        });
        let lines = inside.costs.cache_lines;
        inside.caches.push(Cache::new(lines));
        // Whoever is no worker is a guest of the first socket.
        let socket = match who {
            Some(Who::Worker(worker)) => inside.topology.socket(worker),
            _ => 0,
        };
        inside.sockets.push(socket as u8);
        inside.scheduler.started(number);
        inside.enqueue(number, clock);
        number
    }

    /// Runs cores until none is left.
    fn run(&self) -> Result<(), Failure> {
        loop {
            if self.inside.borrow().is_over() {
                return Ok(());
            }
            let Some(next) = self.inside.borrow_mut().choose()? else { return Ok(()) };
            self.current.set(next);
            self.charged.set(self.inside.borrow().cores[next].charged);
            let mut coroutine =
                self.coroutines.borrow_mut()[next].take().expect("a chosen core is suspended");
            match coroutine.resume(()) {
                CoroutineResult::Yield(()) => self.coroutines.borrow_mut()[next] = Some(coroutine),
                CoroutineResult::Return(()) => keep_stack(self.stack_bytes, coroutine.into_stack()),
            }
        }
    }
}

/// What waits for a core's end wait for: no address of a program is so small.
fn end_key(core: usize) -> usize {
    core + 1
}

/// Runs `body` on a virtual machine, and every thread that it starts through `sync`. Threads that have not
/// ended when the body does run on until they have.
///
/// Same settings, same body: the same result, to the last count.
///
/// # Errors
/// [`Failure`]. What the cores had on their stacks is then leaked, since they cannot go on; so is what a
/// killed core had.
///
/// # Panics
/// Inside a simulation.
pub fn simulate<R: 'static>(settings: Settings, body: impl FnOnce() -> R + 'static) -> Result<R, Failure> {
    assert!(!simulated(), "a simulation cannot be started inside another");
    let machine = Box::new(Machine::new(settings));
    let outcome = Arc::new(StdMutex::new(None));
    let told = Arc::clone(&outcome);
    MACHINE.set(&*machine);
    machine.start(None, false, move || {
        let result = catch_unwind(AssertUnwindSafe(body));
        *told.lock().expect("nobody panics with it") = Some(result);
    });
    let ended = machine.run();
    let left: Vec<_> = machine.coroutines.borrow_mut().drain(..).flatten().collect();
    MACHINE.set(std::ptr::null());
    for mut core in left {
        // It cannot be unwound: it was killed, or waits for ever, and may hold what others wait for. What its
        // stack owns is leaked; its stack is not.
        // SAFETY: this skips destructors on a stack that nobody goes on with, as a leak does. Nothing on a
        // core's stack is borrowed from outside: threads of `sync` take only what they own, and whoever
        // else would use what they share is another of these cores.
        unsafe { core.force_reset() };
        keep_stack(machine.stack_bytes, core.into_stack());
    }
    let result = outcome.lock().expect("nobody panics with it").take();
    match (ended, result) {
        (Err(failure), None) => Err(failure),
        (_, Some(Ok(result))) => Ok(result),
        (_, Some(Err(panic))) => Err(Failure::Panic(message(&*panic))),
        (Ok(()), None) => Err(Failure::Deadlock { steps: 0, waits: "the body was killed".into() }),
    }
}

/// What a panic says.
pub(super) fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

/// A thread of the simulation.
pub(super) struct Handle<T> {
    core: usize,
    result: Arc<StdMutex<Option<std::thread::Result<T>>>>,
}

impl<T> Handle<T> {
    /// Waits for its end.
    pub fn join(self) -> std::thread::Result<T> {
        let machine = machine().expect("a thread of a simulation is joined inside it");
        loop {
            let ended = {
                let inside = machine.inside.borrow();
                matches!(inside.cores[self.core].state, State::Done | State::Killed)
            };
            if ended {
                break;
            }
            machine.park(Awaited::Key(end_key(self.core)), None);
        }
        let result = self.result.lock().expect("nobody panics with it").take();
        result.unwrap_or_else(|| Err(Box::new("killed".to_owned())))
    }

    pub fn core(&self) -> usize {
        self.core
    }
}

/// Starts a thread of the simulation. `worker`: its number, if it is one.
pub(super) fn spawn<T: 'static>(worker: Option<usize>, body: impl FnOnce() -> T + 'static) -> Handle<T> {
    let machine = machine().expect("called inside a simulation");
    let result = Arc::new(StdMutex::new(None));
    let told = Arc::clone(&result);
    let who = worker.map_or_else(
        || {
            let mut inside = machine.inside.borrow_mut();
            inside.services += 1;
            Who::Service(inside.services - 1)
        },
        Who::Worker,
    );
    let core = machine.start(Some(who), true, move || {
        let outcome = catch_unwind(AssertUnwindSafe(body));
        *told.lock().expect("nobody panics with it") = Some(outcome);
    });
    Handle { core, result }
}

/// The number of the running core.
pub(super) fn current_core() -> usize {
    machine().map_or(0, |machine| machine.current.get())
}

/// Runs `work` for nothing and without preemption, as the body of a simulation runs.
pub fn free<R>(work: impl FnOnce() -> R) -> R {
    let Some(machine) = machine() else { return work() };
    let set = |charged: bool| {
        let me = machine.current.get();
        machine.inside.borrow_mut().cores[me].charged = charged;
        machine.charged.replace(charged)
    };
    let before = set(false);
    let result = work();
    set(before);
    result
}

/// The clock of the running core, in cycles; 0 outside.
pub fn clock() -> u64 {
    machine().map_or(0, |machine| machine.inside.borrow().cores[machine.current.get()].clock)
}

/// What the running core has done so far.
pub fn counts() -> Counts {
    machine()
        .map_or_else(Counts::default, |machine| machine.inside.borrow().cores[machine.current.get()].counts)
}

/// Accesses of all cores so far.
pub fn steps() -> u64 {
    machine().map_or(0, |machine| machine.inside.borrow().steps)
}

/// The table of costs.
pub fn costs() -> Costs {
    machine().map_or_else(Costs::default, Machine::costs)
}
