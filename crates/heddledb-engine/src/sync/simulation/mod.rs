//! The simulation backend: a machine of up to a thousand virtual cores on one thread.
//!
//! Two cores cannot show the contention that this engine is about, and cannot be trusted to hit a rare
//! interleaving. Here the same code runs on virtual cores ([`simulate`]): each access to shared memory asks
//! which core's turn it is and is charged to its core's clock by a model of the caches (`directory`). So one
//! mechanism gives scalability curves without noise ([`Schedule::Clock`]) and interleavings that replay from
//! a seed ([`Schedule::Random`], [`Schedule::Pct`]), with delays and faults where they are ordered
//! ([`Event`]).
//!
//! What the model leaves out, and how far to trust it: `docs/simulation.md`.
//!
//! Sequentially consistent; weak orders are for loom and Miri. Outside of [`simulate`] the names here do what
//! the standard library's do.

mod atomic;
mod blocking;
mod costs;
mod directory;
pub mod htm;
mod l1;
mod machine;
mod regions;
mod schedule;
mod trace;

pub use atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
pub use blocking::{Condvar, Mutex, MutexGuard, WaitTimeoutResult, thread};
pub use costs::{Costs, Counts, Topology};
pub use directory::{Cache, Directory, Kind, Outcome};
pub use l1::L1;
pub use machine::{
    Decided, Failure, Follower, Settings, clock, costs, counts, free, knows, simulate, simulated, steps,
};
pub use schedule::{Event, Fate, Schedule, When, Who};
pub use trace::{Observed, Observer, What};

use super::{Course, Phase, Whose, Work};
use machine::{Awaited, forget, machine};
use std::sync::atomic::Ordering;

pub use thread::{sleep, yield_now};

/// A fence. The simulation is sequentially consistent; a full one costs time.
#[inline(never)]
pub fn fence(order: Ordering) {
    std::sync::atomic::fence(order);
    if order == Ordering::SeqCst
        && let Some(machine) = machine()
    {
        machine.spend(machine.costs().fence, false);
    }
}

/// Nanoseconds: virtual ones inside a simulation.
pub fn now_ns() -> u64 {
    match machine() {
        Some(machine) => machine.costs().nanoseconds(clock()),
        None => super::clock::real_ns(),
    }
}

/// A spin hint.
#[inline(never)]
pub fn spin_loop() {
    spin(1);
}

/// So many spin hints.
#[inline(never)]
pub fn spin(hints: u64) {
    match machine() {
        Some(machine) => machine.pause(hints * machine.costs().spin),
        None => (0..hints).for_each(|_| std::hint::spin_loop()),
    }
}

/// Waits until `condition` holds, whose only reason to change is a write by another thread to a word that it
/// reads. Here the core sleeps until one of the lines that it read is written.
pub fn spin_until(mut condition: impl FnMut() -> bool) {
    spin_until_any(&mut condition);
}

/// Compiled once and not for each condition.
fn spin_until_any(condition: &mut dyn FnMut() -> bool) {
    let Some(machine) = machine().filter(|machine| machine.is_charged()) else {
        return super::wait::until(condition);
    };
    loop {
        machine.watch(true);
        let holds = condition();
        if !holds {
            machine.park(Awaited::Line, None);
        }
        machine.watch(false);
        if holds {
            return;
        }
    }
}

/// Charges work that is no access to shared memory.
#[inline(never)]
pub fn work(work: Work) {
    if let Some(machine) = machine() {
        machine.work(work);
    }
}

/// What follows belongs to this phase of the attempt.
#[inline(never)]
pub fn phase(phase: Phase) {
    if let Some(machine) = machine() {
        machine.phase(phase, None);
    }
}

/// The attempt has ended, with a commit or not.
#[inline(never)]
pub fn attempt_ended(committed: bool) {
    if let Some(machine) = machine() {
        machine.phase(Phase::Between, Some(committed));
    }
}

/// A place in the code that a delay or fault can be ordered for.
#[inline(never)]
pub fn point(name: &'static str) {
    if let Some(machine) = machine() {
        machine.point(name);
    }
}

/// Tells the driver of the simulation that this core's transaction cannot fail any more, and at which time it
/// commits, so that the outcome is known where the worker is killed.
#[inline(never)]
pub fn decided(time: u64) {
    if let Some(machine) = machine() {
        machine.decided(time);
    }
}

/// Tells the simulation whose transactions this core decides from now on, so that its driver is told of each at its own time, and
/// of others' not at all.
#[inline(never)]
pub fn decides(whose: Whose) {
    if let Some(machine) = machine() {
        machine.decides(whose);
    }
}

/// Tells the driver of the simulation of a transaction's place among others; both by numbers that no other
/// has.
#[inline(never)]
pub fn course(transaction: u64, course: Course) {
    if let Some(machine) = machine() {
        machine.course(transaction, course);
    }
}

/// Whether there is an observer.
#[inline(never)]
fn observed() -> bool {
    machine().is_some_and(|machine| machine.observing.get())
}

/// Tells an observer something.
#[inline(always)]
pub fn note(text: impl FnOnce() -> String) {
    if observed() {
        tell(text());
    }
}

#[cold]
fn tell(text: String) {
    if let Some(machine) = machine() {
        machine.observe(What::Note(text));
    }
}

/// Names memory for an observer.
#[inline(always)]
pub fn name(start: *const u8, bytes: usize, name: impl FnOnce() -> String) {
    if let Some(machine) = machine()
        && machine.observing.get()
    {
        machine.names.borrow_mut().set(start as usize, bytes, name());
    }
}

/// Tells the model of memory that holds an array of shared words: its cache lines are counted from its start.
pub fn shared_memory(start: *const u8, bytes: usize) {
    if let Some(machine) = machine() {
        machine.register(start as usize, bytes);
    }
}

/// Tells the model that this memory ends, where no destructor of the words in it does.
pub fn shared_memory_ends(start: *const u8) {
    forget(start as usize);
}
