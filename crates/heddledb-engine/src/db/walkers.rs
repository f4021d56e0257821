//! The places in the clock of those who walk through relations beside the sessions: checkpoints, copies, checks; and what
//! these leave to the next.

use crate::epoch::EpochClock;
use crate::sync::{Mutex, lock};

/// Places behind those of the sessions. A place is one's for a leaf or bucket at a time, so that a copy that takes hours keeps
/// no checkpoint waiting.
pub(super) struct Walkers {
    /// The first place that is no session's.
    first: usize,
    turns: Box<[Mutex<()>]>,
    /// What one that wrote files has left to the next, by thread.
    buffers: Box<[Mutex<Buffers>]>,
}

/// What rows are put together in before they are written. Used again: the threads that write end, and buffers that grow
/// anew in each of them leave the allocator of the process with ever more memory that is free and in pieces.
#[derive(Default)]
pub(super) struct Buffers {
    /// The words of a frame.
    pub payload: Vec<u64>,
    /// Its bytes, as in the file.
    pub bytes: Vec<u8>,
}

impl Walkers {
    pub fn new(first: usize, count: usize) -> Self {
        let turns = (0..count).map(|_| Mutex::new(())).collect();
        Self { first, turns, buffers: (0..count).map(|_| Mutex::default()).collect() }
    }

    /// Buffers for the thread of this number: those that were left, unless another has them.
    pub fn take_buffers(&self, thread: usize) -> Buffers {
        std::mem::take(&mut *lock(&self.buffers[thread]))
    }

    /// Leaves them to the next.
    pub fn leave_buffers(&self, thread: usize, buffers: Buffers) {
        *lock(&self.buffers[thread]) = buffers;
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
