//! Waiting so that other tasks of the thread go on.

use super::{Wait, spin_until};
use crate::seam::Suspend;
use std::sync::Arc;

/// Suspends the task that it was made for.
#[derive(Clone)]
pub struct Suspender(Arc<dyn Suspend>);

impl Suspender {
    /// One that suspends by `task`.
    pub fn new(task: Arc<dyn Suspend>) -> Self {
        Self(task)
    }

    /// Waits until `condition` holds, whose only reason to change is a write by another task or thread; the
    /// thread's other tasks run meanwhile. Called outside its task, it spins.
    pub fn wait_until(&self, mut condition: impl FnMut() -> bool) {
        let mut in_vain = false;
        while !condition() {
            if !self.0.suspend(in_vain) {
                return spin_until(condition);
            }
            in_vain = true;
        }
    }

    /// Lets the thread's other tasks run for a turn, or pauses where no task can be suspended.
    pub fn let_others_run(&self, wait: &mut Wait) {
        if !self.0.suspend(false) {
            wait.pause();
        }
    }
}

impl std::fmt::Debug for Suspender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Suspender")
    }
}
