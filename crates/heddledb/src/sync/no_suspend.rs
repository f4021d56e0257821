//! A build in which no task is ever suspended.

use super::Wait;

/// Suspends a task: this build has no suspender, so a waiting task spins.
#[derive(Clone, Debug)]
pub enum Suspender {}

impl Suspender {
    /// Never called.
    pub fn wait_until(&self, _condition: impl FnMut() -> bool) {
        match *self {}
    }

    /// Never called.
    pub fn let_others_run(&self, _wait: &mut Wait) {
        match *self {}
    }
}
