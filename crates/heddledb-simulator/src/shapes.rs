//! Shapes that are known from real machines with many cores, as a test of the model: a counter that all
//! increment, locks that all want, timestamps that all draw.
//!
//! Each core repeats one small thing for a window of virtual time. What is known:
//!
//! | shape | with more cores |
//! |---|---|
//! | one shared counter | as many increments in all as its line can be handed over: flat |
//! | test-and-set lock | each try takes the line from the holder: collapses |
//! | test-and-test-and-set lock | the same at each release, in between quiet: falls |
//! | ticket lock | all read what one writes, at once: flat here, falling where reads of a line queue up |
//! | MCS lock | each spins on a line of its own: flat |
//! | timestamps from one counter | transactions scale until they reach the counter's rate, then flat |
//! | private counters | perfect |

use heddledb_engine_simulated::sync::simulation::{Settings, clock, costs, simulate};
use heddledb_engine_simulated::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Ordering, Work, spin_until, thread, work,
};
use std::sync::Arc;
use std::time::Duration;

/// What each core repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Increments one counter.
    SharedCounter,
    /// Increments a counter of its own.
    PrivateCounter,
    /// Takes and releases a test-and-set lock.
    TestAndSet,
    /// The same, and reads before it tries.
    TestAndTestAndSet,
    /// A ticket lock.
    Ticket,
    /// A queue lock (Mellor-Crummey and Scott).
    Mcs,
    /// Draws a timestamp from one counter, then works for [`TRANSACTION`] cycles.
    TimestampAllocation,
}

/// Cycles of a transaction that draws a timestamp.
pub const TRANSACTION: u64 = 2_000;
/// Cycles for which a lock is held, and for which a core then does something else.
const HELD: u64 = 100;

impl Shape {
    /// Every shape.
    pub const ALL: [Self; 7] = [
        Self::SharedCounter,
        Self::PrivateCounter,
        Self::TestAndSet,
        Self::TestAndTestAndSet,
        Self::Ticket,
        Self::Mcs,
        Self::TimestampAllocation,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SharedCounter => "shared-counter",
            Self::PrivateCounter => "private-counter",
            Self::TestAndSet => "test-and-set",
            Self::TestAndTestAndSet => "test-and-test-and-set",
            Self::Ticket => "ticket",
            Self::Mcs => "mcs",
            Self::TimestampAllocation => "timestamp-allocation",
        }
    }

    /// Operations in a second of virtual time by all cores.
    ///
    /// # Panics
    /// If a lock let two in at once: then the machine is broken.
    pub fn rate(self, cores: usize, window: Duration) -> f64 {
        let count = simulate(Settings::default(), move || {
            let shared = Arc::new(Shared::new(cores));
            let end = costs().cycles(window.as_nanos() as u64);
            let workers: Vec<_> = (0..cores)
                .map(|number| {
                    let shared = Arc::clone(&shared);
                    thread::spawn_worker(number, move || self.repeat(&shared, number, end))
                })
                .collect();
            let count = |worker: thread::JoinHandle<u64>| {
                worker.join().unwrap_or_else(|p| std::panic::resume_unwind(p))
            };
            workers.into_iter().map(count).sum::<u64>()
        });
        count.unwrap_or_else(|failure| panic!("{} on {cores} cores: {failure}", self.name())) as f64
            / window.as_secs_f64()
    }

    fn repeat(self, shared: &Shared, me: usize, end: u64) -> u64 {
        let (own, mut count) = (AtomicU64::new(0), 0);
        while clock() < end {
            match self {
                Self::SharedCounter => _ = shared.counter.fetch_add(1, Ordering::Relaxed),
                Self::PrivateCounter => _ = own.fetch_add(1, Ordering::Relaxed),
                Self::TimestampAllocation => {
                    shared.counter.fetch_add(1, Ordering::Relaxed);
                    work(Work::Cycles(TRANSACTION));
                }
                Self::TestAndSet => {
                    while shared.flag.swap(true, Ordering::Acquire) {}
                    shared.critical();
                    shared.flag.store(false, Ordering::Release);
                }
                Self::TestAndTestAndSet => {
                    while shared.flag.swap(true, Ordering::Acquire) {
                        spin_until(|| !shared.flag.load(Ordering::Relaxed));
                    }
                    shared.critical();
                    shared.flag.store(false, Ordering::Release);
                }
                Self::Ticket => {
                    let ticket = shared.tickets.fetch_add(1, Ordering::Relaxed);
                    spin_until(|| shared.turn.load(Ordering::Acquire) == ticket);
                    shared.critical();
                    shared.turn.store(ticket + 1, Ordering::Release);
                }
                Self::Mcs => {
                    shared.lock_mcs(me);
                    shared.critical();
                    shared.unlock_mcs(me);
                }
            }
            count += u64::from(clock() < end);
        }
        count
    }
}

/// What the cores share. Words outside of registered memory have a line each.
struct Shared {
    counter: AtomicU64,
    flag: AtomicBool,
    tickets: AtomicU64,
    turn: AtomicU64,
    /// The last of the queue, from 1; 0 where nobody holds the lock.
    tail: AtomicUsize,
    queue: Vec<Waiter>,
    /// The referee: no part of the machine.
    inside: std::sync::atomic::AtomicBool,
}

/// A core's place in the queue of the MCS lock.
struct Waiter {
    next: AtomicUsize,
    waits: AtomicBool,
}

impl Shared {
    fn new(cores: usize) -> Self {
        let waiter = || Waiter { next: AtomicUsize::new(0), waits: AtomicBool::new(false) };
        Self {
            counter: AtomicU64::new(0),
            flag: AtomicBool::new(false),
            tickets: AtomicU64::new(0),
            turn: AtomicU64::new(0),
            tail: AtomicUsize::new(0),
            queue: (0..cores).map(|_| waiter()).collect(),
            inside: std::sync::atomic::AtomicBool::new(false),
        }
    }

    fn lock_mcs(&self, me: usize) {
        let own = &self.queue[me];
        own.next.store(0, Ordering::Relaxed);
        own.waits.store(true, Ordering::Relaxed);
        let before = self.tail.swap(me + 1, Ordering::AcqRel);
        if before != 0 {
            self.queue[before - 1].next.store(me + 1, Ordering::Release);
            spin_until(|| !own.waits.load(Ordering::Acquire));
        }
    }

    fn unlock_mcs(&self, me: usize) {
        let own = &self.queue[me];
        if own.next.load(Ordering::Acquire) == 0 {
            let alone = self.tail.compare_exchange(me + 1, 0, Ordering::Release, Ordering::Relaxed);
            if alone.is_ok() {
                return;
            }
            spin_until(|| own.next.load(Ordering::Acquire) != 0);
        }
        self.queue[own.next.load(Ordering::Relaxed) - 1].waits.store(false, Ordering::Release);
    }

    /// What a lock protects: two at once would be noticed.
    fn critical(&self) {
        let order = std::sync::atomic::Ordering::Relaxed;
        assert!(!self.inside.swap(true, order), "two cores hold one lock");
        self.counter.store(self.counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        work(Work::Cycles(HELD));
        self.inside.store(false, order);
    }
}
