//! A core: what it is doing, and what it has spent.

use super::super::costs::Counts;
use super::super::schedule::Who;
use crate::sync::{Phase, Whose};
use corosensei::Yielder;

/// What a core is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    Running,
    /// Until it is woken, or until the clock reaches the deadline.
    Parked {
        what: Awaited,
        deadline: Option<u64>,
    },
    Killed,
    Done,
}

/// What a parked core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Awaited {
    /// A mutex, a condition, a core's end: identified by an address.
    Key(usize),
    /// One of the lines that it watches.
    Line,
    /// Time.
    Time,
}

/// Where the time of a core's attempts goes.
#[derive(Default)]
pub(super) struct Spent {
    phase: Phase,
    /// The clock when it began, and the cycles that were waited by then.
    begun: u64,
    waited: u64,
    /// Cycles of the attempt so far, as in [`Counts::phases`].
    attempt: [u64; Counts::PHASES.len()],
}

impl Spent {
    pub(super) fn change(&mut self, phase: Phase, clock: u64, waited: u64) {
        let (all, waiting) = (clock - self.begun, waited - self.waited);
        self.attempt[self.phase as usize] += all.saturating_sub(waiting);
        self.attempt[Counts::WAITING] += waiting;
        (self.phase, self.begun, self.waited) = (phase, clock, waited);
    }

    pub(super) fn is_in_index(&self) -> bool {
        self.phase == Phase::Index
    }

    /// What an attempt that did not commit took is lost, and what is between it and the next.
    pub(super) fn end(&mut self, committed: bool, sums: &mut [u64; Counts::PHASES.len()]) {
        let attempt = std::mem::take(&mut self.attempt);
        match committed {
            true => sums.iter_mut().zip(attempt).for_each(|(sum, more)| *sum += more),
            false => sums[Counts::ABORTED] += attempt.iter().sum::<u64>(),
        }
    }
}

pub(super) struct Core {
    pub(super) who: Option<Who>,
    pub(super) state: State,
    pub(super) clock: u64,
    /// Entries in the queue of an older generation are void.
    pub(super) generation: u32,
    /// Accesses are charged, and others may go before them.
    pub(super) charged: bool,
    pub(super) counts: Counts,
    pub(super) spent: Spent,
    pub(super) yielder: *const Yielder<(), ()>,
    /// Lines that it watches, and whether one was written since.
    pub(super) watched: Vec<u32>,
    pub(super) written: bool,
    pub(super) watching: bool,
    /// Accesses, and timed waits, so far: for events.
    pub(super) accesses: u64,
    pub(super) waits: u64,
    /// Whether the last park ended because time was up.
    pub(super) timed_out: bool,
    pub(super) eventful: bool,
    pub(super) stalled_until_step: u64,
    pub(super) decides: Whose,
}
