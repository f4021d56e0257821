//! Starting and ending: a simulation, its cores, and the stacks that they run on.

use super::super::costs::Counts;
use super::super::directory::{Cache, Kind};
use super::super::schedule::Who;
use super::cores::{Awaited, Core, Spent, State};
use super::inside::end_key;
use super::settings::{Failure, Settings};
use super::{MACHINE, Machine, access, forget, machine, simulated};
use crate::sync::Whose;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use heddledb_core::shared::{Touch, watch};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex as StdMutex};

thread_local! {
    /// Stacks of ended cores, for the next of the same size: a search makes many thousands.
    static STACKS: RefCell<Vec<(usize, DefaultStack)>> = const { RefCell::new(Vec::new()) };
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

impl Machine {
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
            decides: Whose::Own,
        });
        let lines = inside.costs.cache_lines;
        inside.caches.push(Cache::new(lines));
        // A thread that is no worker is a guest of the first socket.
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
    watch(touched);
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
        // stack owns is leaked; its stack is not. SAFETY: this skips destructors on a stack that is never
        // resumed, as a leak does. Nothing on a core's stack is borrowed from outside: threads of `sync` take
        // only what they own, and all users of what they share are other such cores.
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

/// An access to a number that programs share outside of transactions. It belongs to no hardware transaction.
fn touched(address: usize, touch: Touch) {
    let kind = match touch {
        Touch::Load => Kind::Load,
        Touch::Store => Kind::Store,
        Touch::Update => Kind::Update,
        Touch::End => return forget(address),
    };
    access(address, kind);
}

/// What a panic says.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

/// A thread of the simulation.
pub(in super::super) struct Handle<T> {
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
pub(in super::super) fn spawn<T: 'static>(
    worker: Option<usize>,
    body: impl FnOnce() -> T + 'static,
) -> Handle<T> {
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
