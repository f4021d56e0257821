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
//! **Free.** The body itself, and code under [`free`], makes its accesses at no cost and is not preempted: it
//! loads tables and checks results. It waits like all others.

#![allow(unsafe_code)]

mod cores;
mod fates;
mod inside;
mod run;
mod settings;

pub(super) use self::cores::Awaited;
pub use self::run::simulate;
pub(super) use self::run::{Handle, spawn};
pub use self::settings::{Decided, Failure, Follower, Settings};

use self::cores::State;
use self::inside::Inside;
use super::costs::{Costs, Counts};
use super::directory::{Directory, Kind, Map};
use super::regions::{Mode, Model};
use super::schedule::{Schedule, Scheduler};
use super::trace::{Names, Observed, Observer, What};
use crate::sync::{Course, Phase, Whose, Work};
use corosensei::Coroutine;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::BinaryHeap;
use std::time::Duration;

/// The machine that a thread simulates.
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
}

/// The machine that this thread simulates.
#[inline(always)]
pub(super) fn machine<'a>() -> Option<&'a Machine> {
    let machine = MACHINE.get();
    // SAFETY: `simulate` sets the pointer to a machine on its own stack frame or heap, and clears it before
    // that goes; no caller keeps the reference beyond a call, during which `simulate` has not returned (a
    // suspended core that is never resumed is forgotten with its stack, references included).
    (!machine.is_null()).then(|| unsafe { &*machine })
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

/// The word at `address` is not there any more: what comes to be there is another.
pub(super) fn forget(address: usize) {
    if let Some(machine) = machine() {
        machine.inside.borrow_mut().directory.forget(address);
    }
}

/// Whether the machine that this thread simulates knows words in this memory which have not ended: a simulation that gives such
/// memory back depends on the allocator, which may put anything there next. False where the machine itself gives it back.
pub fn knows(start: *const u8, bytes: usize) -> bool {
    let inside = machine().and_then(|machine| machine.inside.try_borrow().ok());
    inside.is_some_and(|inside| inside.directory.knows(start as usize, bytes))
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
                htm: Model::default(),
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

    /// Tells the observer. No borrow is held.
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
            let inside = self.inside.borrow();
            let core = &inside.cores[self.current.get()];
            let (who, time) = match core.decides {
                Whose::Own => (core.who, time),
                Whose::OwnAt(time) => (core.who, time),
                Whose::Others => return,
            };
            drop(inside);
            tell(who, time);
        }
    }

    /// Whose transactions the running core commits from now on.
    pub fn decides(&self, whose: Whose) {
        self.inside.borrow_mut().cores[self.current.get()].decides = whose;
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
        if self.is_unwinding() {
            // What is unwound takes no turns: another core would run while this thread panics, and what it lets go of would be
            // poisoned.
            return true;
        }
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
            let place = (address, core.spent.is_in_index());
            htm.touched(me, outcome.number, place, kind != Kind::Load, clock, costs);
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

    /// Whether the running core's region was aborted and has not ended.
    pub(super) fn is_unwinding(&self) -> bool {
        let mut inside = self.inside.borrow_mut();
        let me = self.current.get();
        inside.htm.any() && inside.htm.mode(me) == Mode::Unwinding
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
        if work == Work::Attempt {
            // An attempt within a region of another of this core would end with it.
            self.no_region();
        }
        let mut inside = self.inside.borrow_mut();
        let cycles = inside.costs.of(work);
        let core = &mut inside.cores[self.current.get()];
        core.clock += cycles;
        core.counts.work_cycles += cycles;
        core.counts.add_work(work);
        if inside.htm.any() {
            let (me, costs) = (self.current.get(), inside.costs);
            inside.htm.worked(me, work, &costs);
        }
    }

    /// Waits for others without a reason that the machine knows: a spin hint, a yield, a pause.
    pub fn pause(&self, cycles: u64) {
        let me = self.current.get();
        self.no_region();
        let mut inside = self.inside.borrow_mut();
        let core = &mut inside.cores[me];
        core.clock += cycles;
        core.counts.waiting_cycles += cycles;
        if inside.by_clock && self.charged.get() {
            // Before its next access the others will have had their turn.
            return;
        }
        // A waiting core lets others run.
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

    /// Wakes the cores that wait for a key.
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
