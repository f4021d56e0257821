//! The order of calls: which have ended, what was announced, and whose turn it is where they take turns.

use super::announced::{Announced, Turn};
use crate::sync::{AtomicU64, Ordering, Suspender, wait_out};
use crossbeam_utils::CachePadded;

/// Whose turn it is, and what was announced.
pub(super) struct Sequencer {
    /// The last turn that was drawn, and the one that is held.
    pub drawn: CachePadded<AtomicU64>,
    pub held: CachePadded<AtomicU64>,
    /// The greatest time of a call's now phase, or of a closure.
    pub last: CachePadded<AtomicU64>,
    /// By worker, the turn of its last call that has ended. Turns begin with 1.
    pub ended: Box<[CachePadded<AtomicU64>]>,
    pub announced: Announced,
}

impl Sequencer {
    /// Of so many workers.
    pub fn new(workers: usize) -> Self {
        let word = |value| CachePadded::new(AtomicU64::new(value));
        Self {
            drawn: word(0),
            held: word(1),
            last: word(0),
            ended: (0..workers).map(|_| word(0)).collect(),
            announced: Announced::new(workers),
        }
    }

    /// Waits for the caller's turn.
    pub fn take(&self, worker: usize, suspender: Option<&Suspender>) -> Turn {
        // Relaxed: the number only says who is next; what others did is seen by what follows.
        let number = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
        // Acquire: what those before did with their turns happens before this.
        // Not given up: a turn that is drawn must be taken, and those before are procedures.
        wait_out(suspender, || self.held.load(Ordering::Acquire) == number);
        Turn { worker, number }
    }

    /// The next has its turn.
    pub fn give(&self, turn: Turn) {
        // Release: pairs with `take`.
        self.held.store(turn.number + 1, Ordering::Release);
    }

    pub fn end(&self, turn: Turn) {
        // Release: what the call did happens before whatever waits for its end.
        self.ended[turn.worker].store(turn.number, Ordering::Release);
    }

    /// Whether a call that has announced something has not ended.
    pub fn runs(&self, turn: Turn) -> bool {
        // Acquire: pairs with `end`.
        self.ended[turn.worker].load(Ordering::Acquire) < turn.number
    }

    /// Waits until these calls have ended, and forgets them.
    pub fn await_end(&self, turns: &mut Vec<Turn>, suspender: Option<&Suspender>) {
        for turn in turns.drain(..) {
            wait_out(suspender, || !self.runs(turn));
        }
    }
}
