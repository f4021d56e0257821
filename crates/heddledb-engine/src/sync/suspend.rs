//! Several tasks on one thread, of which each goes on where another waits (IC3 §5.2, suspend-wait).
//!
//! A task is a coroutine with a stack of its own. While it waits for another transaction it lets the next one
//! run ([`Suspender::wait_until`](super::Suspender::wait_until)), and looks again when it is its turn. A wait for a structure (a latch)
//! spins: it ends within some instructions of another thread, and no task is suspended while it has one in
//! hand.

#![allow(unsafe_code)]

use super::Wait;
use crate::seam::Suspend;
use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;

/// Bytes of a task's stack; only what is touched takes memory.
const STACK_BYTES: usize = 1 << 20;

/// The state of a task.
struct Task {
    /// Null unless the task's body runs.
    yielder: AtomicPtr<Yielder<bool, bool>>,
    /// The addresses of its stack.
    stack: Range<usize>,
}

impl Suspend for Task {
    fn suspend(&self, in_vain: bool) -> bool {
        let here = Cell::new(0u8);
        let address = here.as_ptr().addr();
        // Relaxed: only the task's own thread sees its stack, so it has written this itself.
        let yielder = self.yielder.load(Ordering::Relaxed);
        if yielder.is_null() || !self.stack.contains(&address) {
            return false;
        }
        // SAFETY: it is not null, so the task's body has begun and has not returned; the body's frame, in
        // which the yielder lives, is on the stack that we are on. No other code runs on that stack, so we
        // are the coroutine that it suspends.
        unsafe { (*yielder).suspend(in_vain) };
        true
    }
}

/// Runs tasks on this thread, in turns, until all have ended. Returns their results, in order; the first
/// panic goes on in the caller when the others have ended.
///
/// # Errors
/// The system's errors, when it has no memory for a stack.
pub fn interleave<R>(tasks: Vec<impl FnOnce(Arc<dyn Suspend>) -> R>) -> std::io::Result<Vec<R>> {
    let stacks = tasks.iter().map(|_| DefaultStack::new(STACK_BYTES)).collect::<Result<Vec<_>, _>>()?;
    let mut outcomes: Vec<Option<thread::Result<R>>> = tasks.iter().map(|_| None).collect();
    let mut running = Vec::new();
    for (number, (task, stack)) in tasks.into_iter().zip(stacks).enumerate() {
        let known = Arc::new(Task {
            yielder: AtomicPtr::new(std::ptr::null_mut()),
            stack: stack.limit().get()..stack.base().get(),
        });
        let body = move |yielder: &Yielder<bool, bool>, _: bool| {
            // Relaxed: see `suspend`.
            known.yielder.store(std::ptr::from_ref(yielder).cast_mut(), Ordering::Relaxed);
            let own: Arc<dyn Suspend> = Arc::clone(&known) as _;
            let outcome = catch_unwind(AssertUnwindSafe(|| task(own)));
            known.yielder.store(std::ptr::null_mut(), Ordering::Relaxed);
            outcome
        };
        // SAFETY: what the body borrows outlives this function, and no coroutine does: the loop below drives
        // each to its end, and nothing in it panics, since the bodies catch their panics.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, body) };
        running.push((number, coroutine));
    }
    let mut wait = Wait::new();
    while !running.is_empty() {
        let mut all_in_vain = true;
        running.retain_mut(|(number, coroutine)| match coroutine.resume(false) {
            CoroutineResult::Yield(in_vain) => {
                all_in_vain &= in_vain;
                true
            }
            CoroutineResult::Return(outcome) => {
                (outcomes[*number], all_in_vain) = (Some(outcome), false);
                false
            }
        });
        // No task here can go on: the processor is left to those that they wait for.
        match all_in_vain {
            true => wait.pause(),
            false => wait = Wait::new(),
        }
    }
    let mut results = Vec::new();
    for outcome in outcomes.into_iter().flatten() {
        match outcome {
            Ok(result) => results.push(result),
            Err(panic) => resume_unwind(panic),
        }
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::super::Suspender;
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_task_runs_while_another_waits() {
        let (told, order) = (Cell::new(0), RefCell::new(Vec::new()));
        let task = |number: u32| {
            let (told, order) = (&told, &order);
            move |own: Arc<dyn Suspend>| {
                let suspender = Suspender::new(Some(own), None, None).expect("it has a task");
                // Each waits for the one after it.
                suspender.wait_out(&mut || told.get() == 3 - number);
                order.borrow_mut().push(number);
                told.set(told.get() + 1);
                number * 10
            }
        };
        let results = interleave((0..4).map(task).collect()).unwrap();
        assert_eq!(results, [0, 10, 20, 30]);
        assert_eq!(*order.borrow(), [3, 2, 1, 0]);
    }

    #[test]
    fn the_others_end_before_a_panic_goes_on() {
        let ended = Cell::new(0);
        let task = |number: u32| {
            let ended = &ended;
            move |own: Arc<dyn Suspend>| {
                let suspender = Suspender::new(Some(own), None, None).expect("it has a task");
                assert_ne!(number, 1, "the second task panics");
                let mut looks = 0;
                suspender.wait_out(&mut || {
                    looks += 1;
                    looks > 3
                });
                ended.set(ended.get() + 1);
            }
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| interleave((0..3).map(task).collect())));
        assert!(outcome.is_err() && ended.get() == 2);
    }

    /// A suspender that is kept too long, or used on another thread or on another's stack, suspends no task.
    #[test]
    fn only_the_own_task_is_suspended() {
        let kept: RefCell<Vec<Arc<dyn Suspend>>> = RefCell::new(Vec::new());
        let task = |number: usize| {
            let kept = &kept;
            move |own: Arc<dyn Suspend>| {
                kept.borrow_mut().push(Arc::clone(&own));
                let others = kept.borrow().iter().filter(|other| !Arc::ptr_eq(other, &own)).count();
                assert_eq!(others, number);
                let first = Arc::clone(&kept.borrow()[0]);
                assert_eq!(first.suspend(false), number == 0);
                thread::scope(|scope| {
                    let elsewhere = scope.spawn(|| own.suspend(false));
                    assert!(!elsewhere.join().unwrap());
                });
            }
        };
        interleave((0..2).map(task).collect()).unwrap();
        assert!(!kept.borrow()[0].suspend(false) && !kept.borrow()[1].suspend(false));
    }
}
