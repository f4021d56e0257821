//! How a worker waits for other transactions: whether its thread's other tasks go on meanwhile, and for how long.

use super::wait::{PAUSE_NS, YIELD_ROUNDS};
use super::{Wait, now_ns, spin_until};
use crate::seam::Suspend;
use std::sync::Arc;
use std::time::Duration;

/// Suspends the task that it was made for, and says when a wait is over. A worker without one spins for as long as it
/// takes.
#[derive(Clone, Default)]
pub struct Suspender {
    task: Option<Arc<dyn Suspend>>,
    /// The time after which nothing is waited for, and how long one wait may last.
    until_ns: Option<u64>,
    each_ns: Option<u64>,
}

impl Suspender {
    /// One that suspends by `task`, if there is one, waits for nothing `within` from now, and no longer than `each` at
    /// a time. None where nothing of this is wanted.
    pub fn new(
        task: Option<Arc<dyn Suspend>>,
        within: Option<Duration>,
        each: Option<Duration>,
    ) -> Option<Self> {
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = within.map(|within| now_ns().saturating_add(nanoseconds(within)));
        let each_ns = each.map(nanoseconds);
        (task.is_some() || until_ns.is_some() || each_ns.is_some()).then_some(Self {
            task,
            until_ns,
            each_ns,
        })
    }

    /// The task.
    pub fn task(&self) -> Option<&Arc<dyn Suspend>> {
        self.task.as_ref()
    }

    /// Whether nothing is waited for any more.
    pub fn is_over(&self) -> bool {
        self.until_ns.is_some_and(|until| now_ns() >= until)
    }

    /// Whether a wait that spins should be given up. Asks the clock only once the wait sleeps.
    pub fn gives_up(&self, wait: &Wait) -> bool {
        let slept = |each: u64| u64::from(wait.rounds() - YIELD_ROUNDS) * PAUSE_NS >= each;
        wait.rounds() > YIELD_ROUNDS && (self.is_over() || self.each_ns.is_some_and(slept))
    }

    /// Waits until `condition` holds, whose only reason to change is a write by another task or thread; the
    /// thread's other tasks run meanwhile. Called outside its task, it spins. False if the time was over before.
    pub fn wait_until(&self, condition: &mut dyn FnMut() -> bool) -> bool {
        if self.until_ns.is_none() && self.each_ns.is_none() {
            self.wait_out(condition);
            return true;
        }
        let end = self.each_ns.map_or(u64::MAX, |each| now_ns().saturating_add(each));
        let end = end.min(self.until_ns.unwrap_or(u64::MAX));
        let (mut wait, mut in_vain) = (Wait::new(), false);
        while !condition() {
            if now_ns() >= end {
                return false;
            }
            if !self.suspend(in_vain) {
                wait.pause();
            }
            in_vain = true;
        }
        true
    }

    /// As [`Self::wait_until`], for as long as it takes.
    pub fn wait_out(&self, condition: &mut dyn FnMut() -> bool) {
        let mut in_vain = false;
        while !condition() {
            if !self.suspend(in_vain) {
                return spin_until(condition);
            }
            in_vain = true;
        }
    }

    /// Lets the thread's other tasks run for a turn, or pauses where no task can be suspended.
    pub fn let_others_run(&self, wait: &mut Wait) {
        if !self.suspend(false) {
            wait.pause();
        }
    }

    fn suspend(&self, in_vain: bool) -> bool {
        self.task.as_ref().is_some_and(|task| task.suspend(in_vain))
    }
}

impl std::fmt::Debug for Suspender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Suspender")
    }
}
