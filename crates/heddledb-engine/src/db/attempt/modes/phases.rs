//! Times in which calls commit in pieces, and nobody sees a call as a whole.
//!
//! **One epoch.** Snapshots and recovery cut between epochs, so all pieces of a phase's calls commit in one: that in which the
//! phase begins. A place of the clock behind all others has its commit pin until the phase ends.
//!
//! **Closures.** What a closure reads during a phase may be half of a call. It is found out when the closure commits, or decides to give up:
//! both are done outside of phases, and what has changed since it was read is a conflict then as ever. So a body that thinks keeps no
//! call waiting, and a closure waits for one phase, mostly: the next begins when those that wait have decided.

use super::active_calls::ActiveCalls;
use crate::epoch::EpochClock;
use crate::mutant::{Mutant, planted};
use crate::sync::{AtomicU64, Ordering, Suspender, model_fence, wait_out};
use crossbeam_utils::CachePadded;

/// Whether there is a phase, and which sessions decide.
pub(super) struct Phases {
    /// `NONE`, `BEGINS`, or the epoch.
    state: CachePadded<AtomicU64>,
    deciding: ActiveCalls,
}

/// So many times a phase looks whether those that waited for the one before have decided.
const LOOKS: u32 = 1_000;

const NONE: u64 = 0;
const BEGINS: u64 = u64::MAX;

impl Phases {
    pub fn new(sessions: usize) -> Self {
        Self { state: CachePadded::new(AtomicU64::new(NONE)), deciding: ActiveCalls::new(sessions) }
    }

    /// A call in pieces begins: in the phase that there is, or in a new one. Returns its epoch.
    pub fn enter(&self, clock: &EpochClock, suspender: Option<&Suspender>) -> u64 {
        loop {
            // Acquire: what others have done before the phase began happens before.
            match self.state.load(Ordering::Acquire) {
                NONE => {
                    // Those that have waited for the phase before decide first; unless another call has found that nobody does, or
                    // they do not come: they may be suspended sessions of a thread that waits for this call.
                    let mut looks = 0;
                    wait_out(suspender, || {
                        looks += 1;
                        // Relaxed: looked at again.
                        let begun = self.state.load(Ordering::Relaxed) != NONE;
                        begun || looks > LOOKS || self.deciding.nobody_waits()
                    });
                    // SeqCst: either who decides sees this, or we see that it decides.
                    let begins =
                        self.state.compare_exchange(NONE, BEGINS, Ordering::SeqCst, Ordering::Relaxed);
                    if begins.is_ok() {
                        model_fence();
                        wait_out(suspender, || self.deciding.is_idle());
                        let epoch = clock.pin_commits(clock.last_place());
                        self.state.store(epoch, Ordering::Release);
                        return epoch;
                    }
                }
                // Relaxed: read again.
                BEGINS => wait_out(suspender, || self.state.load(Ordering::Relaxed) != BEGINS),
                epoch => return epoch,
            }
        }
    }

    /// The last call of the phase has ended.
    pub fn end(&self, clock: &EpochClock) {
        clock.unpin(clock.last_place());
        // SeqCst: pairs with the look of who decides.
        self.state.store(NONE, Ordering::SeqCst);
    }

    /// A closure decides now, outside of phases. False if the suspender's time is over before.
    pub fn begin_decision(&self, worker: usize, suspender: Option<&Suspender>) -> bool {
        let no_phase = || self.state.load(Ordering::SeqCst) == NONE || planted(Mutant::DecidesInPhase);
        self.deciding.begin(worker, suspender, no_phase)
    }

    pub fn end_decision(&self, worker: usize) {
        self.deciding.end(worker);
    }
}

#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::models::explore;
    use crate::sync::thread;
    use std::sync::Arc;

    /// A call writes two words, and a closure looks at both when it decides: it sees none of the phase, or all.
    #[test]
    fn nobody_decides_in_a_phase() {
        explore(|| {
            let words = (AtomicU64::new(0), AtomicU64::new(0));
            let shared = Arc::new((Phases::new(1), EpochClock::new(2), words));
            let call = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (phases, clock, (one, other)) = &*shared;
                    phases.enter(clock, None);
                    one.store(1, Ordering::Relaxed);
                    other.store(1, Ordering::Relaxed);
                    phases.end(clock);
                })
            };
            let (phases, _, (one, other)) = &*shared;
            assert!(phases.begin_decision(0, None));
            let seen = (one.load(Ordering::Relaxed), other.load(Ordering::Relaxed));
            phases.end_decision(0);
            assert_eq!(seen.0, seen.1, "it sees half of a call");
            call.join().expect("it does not panic");
        });
    }
}
