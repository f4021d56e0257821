//! Waiting without a queue: spin briefly, then yield, then sleep. Where yields take long, spin longer ([`patience`]).
//!
//! An application has more threads than cores, so a wait must give the processor to the thread that it waits
//! for. Each use says what it waits for, and why the wait ends.

use super::{MODEL, patience, sleep, spin, yield_now};
use std::time::Duration;

/// One wait in progress. Each [`Wait::pause`] waits a little longer than the one before.
#[derive(Debug, Default)]
pub struct Wait {
    rounds: u32,
    /// Longer spins before the first yield; no rounds.
    long_spins: u32,
}

/// Rounds of doubling spins before the first yield: 1 + 2 + .. + 64 hints, about a microsecond.
const SPIN_ROUNDS: u32 = 7;
/// Rounds after which a wait sleeps instead of yielding.
pub(super) const YIELD_ROUNDS: u32 = 64;
/// How long one of these sleeps lasts, at least: 50 us.
pub(super) const PAUSE_NS: u64 = 50_000;

impl Wait {
    /// A fresh wait.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many pauses were taken.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Waits once: spins in the first rounds, then yields, then sleeps 50 us at a time.
    pub fn pause(&mut self) {
        if self.rounds == SPIN_ROUNDS && self.long_spins < patience::pauses() {
            self.long_spins += 1;
            return spin(patience::HINTS);
        }
        self.rounds = self.rounds.saturating_add(1);
        if MODEL {
            yield_now();
        } else if self.rounds <= SPIN_ROUNDS {
            spin(1 << (self.rounds - 1));
        } else if self.rounds <= YIELD_ROUNDS {
            patience::yield_core();
        } else {
            sleep(Duration::from_nanos(PAUSE_NS));
        }
    }
}

/// Waits until `condition` holds, whose only reason to change is a write by another thread to a word that it
/// reads. For waits of a transaction's length: yields for about a tenth of a millisecond before it sleeps.
#[inline]
pub fn until(mut condition: impl FnMut() -> bool) {
    if !condition() {
        until_at_last(&mut condition);
    }
}

/// As [`until`], once it did not hold: compiled once for all conditions.
fn until_at_last(condition: &mut dyn FnMut() -> bool) {
    let mut wait = Wait::new();
    let mut yields = 0;
    loop {
        if wait.rounds < YIELD_ROUNDS {
            wait.pause();
        } else if yields < YIELDS {
            yields += 1;
            patience::yield_core();
        } else {
            wait.pause();
        }
        if condition() {
            return;
        }
    }
}

/// Yields of a long wait.
const YIELDS: u32 = 192;
