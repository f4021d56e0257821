//! The places in the clock of those who walk through relations beside the sessions: checkpoints, copies, checks.

use crate::epoch::EpochClock;
use crate::sync::{Mutex, lock};

/// Places behind those of the sessions. A place is one's for a leaf or bucket at a time, so that a copy that takes hours keeps
/// no checkpoint waiting.
pub(super) struct Walkers {
    /// The first place that is no session's.
    first: usize,
    turns: Box<[Mutex<()>]>,
}

impl Walkers {
    pub fn new(first: usize, count: usize) -> Self {
        Self { first, turns: (0..count).map(|_| Mutex::new(())).collect() }
    }

    /// How many threads there are places for.
    pub fn count(&self) -> usize {
        self.turns.len()
    }

    /// Runs `walk` pinned in the epoch, from the place of the thread of this number.
    pub fn pinned<R>(&self, clock: &EpochClock, thread: usize, walk: impl FnOnce() -> R) -> R {
        let _turn = lock(&self.turns[thread]);
        clock.pin(self.first + thread);
        let result = walk();
        clock.unpin(self.first + thread);
        result
    }
}
