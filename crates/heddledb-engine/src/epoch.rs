//! The reclamation and commit epoch: one slow, global counter, and where each worker stands.
//!
//! **Mechanism.** A worker *pins* the epoch for the length of a transaction attempt: it publishes
//! the number that it read and then reads the counter again, so that the number cannot have been
//! left behind unseen. The epoch advances only when every pinned worker stands at it, so a pinned
//! worker is never more than one behind.
//!
//! **What follows from `now >= e + 2`:** every worker that was pinned at `e` or before has finished.
//! What was made unreachable in epoch `e` may then be reused ([`EpochClock::passed`]).
//!
//! This number also orders commits: a transaction reads it after its write locks are held (Silo §4.1;
//! PITFALLS X5), and stamps carry it in their high bits.

use crate::error::{Misuse, Result};
use crate::sync::{
    AtomicU64, Condvar, Mutex, Ordering, Suspender, Wait, fence, lock, model_fence, name, now_ns, point,
    thread, wait_until,
};
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::time::Duration;

/// Not pinned.
const IDLE: u64 = u64::MAX;

/// The first epoch; 0 stands for "before everything", the stamp of loaded nothing.
const FIRST: u64 = 1;

/// How long the end of a running transaction is waited for: 10 s.
const PATIENCE_NS: u64 = 10_000_000_000;

/// The counter and the workers' places.
#[derive(Debug)]
pub struct EpochClock {
    /// Written by `advance`, read by all. SeqCst against `places`: either the advancer sees the
    /// pin, or the pinning worker sees the advanced epoch and pins anew.
    now: CachePadded<AtomicU64>,
    /// One per worker, written only by that worker; [`IDLE`] or the epoch that it is pinned at.
    places: Box<[CachePadded<AtomicU64>]>,
    /// A commit may be of the epoch at which its worker is pinned, though the next has begun.
    commits_late: bool,
}

impl EpochClock {
    /// A clock for `workers` workers.
    pub fn new(workers: usize) -> Self {
        Self::starting_at(workers, FIRST)
    }

    /// As [`Self::new`], where a commit may be of the epoch at which its worker is pinned, though the next
    /// has begun.
    pub fn with_late_commits(self, commits_late: bool) -> Self {
        Self { commits_late, ..self }
    }

    /// No later commit is of an earlier epoch than this.
    #[inline]
    pub fn commits_from(&self) -> u64 {
        self.now() - u64::from(self.commits_late)
    }

    /// Tells the observer of a simulation what the words are.
    pub(crate) fn name_words(&self) {
        let word = std::ptr::from_ref(&*self.now);
        name(word.cast(), size_of::<AtomicU64>(), || "epoch".to_owned());
        for (worker, place) in self.places.iter().enumerate() {
            let word = std::ptr::from_ref(&**place);
            name(word.cast(), size_of::<AtomicU64>(), || format!("epoch of session {worker}"));
        }
    }

    /// A clock for `workers` workers whose first epoch is `first`.
    pub fn starting_at(workers: usize, first: u64) -> Self {
        let place = || CachePadded::new(AtomicU64::new(IDLE));
        Self {
            now: CachePadded::new(AtomicU64::new(first)),
            places: (0..workers).map(|_| place()).collect(),
            commits_late: false,
        }
    }

    /// Pins the current epoch for `worker`, which must not be pinned, and returns it.
    #[inline]
    pub fn pin(&self, worker: usize) -> u64 {
        let place = &self.places[worker];
        let mut epoch = self.now.load(Ordering::Relaxed);
        loop {
            // SeqCst swap, then SeqCst load: pairs with `advance`, which loads the places after
            // the counter. Without the total order both could miss each other.
            place.swap(epoch, Ordering::SeqCst);
            model_fence();
            let again = self.now.load(Ordering::SeqCst);
            if again == epoch {
                return epoch;
            }
            epoch = again;
        }
    }

    /// Pins the current epoch, and waits until none of the first `workers` is pinned at an earlier one: all
    /// workers that pin so run in one epoch at a time. `since` is the last epoch in which this worker did.
    pub fn pin_together(
        &self,
        worker: usize,
        workers: usize,
        since: &mut u64,
        suspender: Option<&Suspender>,
    ) -> u64 {
        let epoch = self.pin(worker);
        if *since != epoch {
            // SeqCst: a worker that pins later sees this epoch, at least.
            let behind = |place: &CachePadded<AtomicU64>| place.load(Ordering::SeqCst) < epoch;
            wait_until(suspender, || !self.places[..workers].iter().any(behind));
            *since = epoch;
        }
        epoch
    }

    /// Unpins. Release: what the worker read and wrote happens before any reuse.
    #[inline]
    pub fn unpin(&self, worker: usize) {
        self.places[worker].store(IDLE, Ordering::Release);
    }

    /// The epoch now. SeqCst: snapshots' bookkeeping is read after it (`crate::snapshot`).
    #[inline]
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    /// The epoch for a commit, read after the transaction's locks are held: the fence orders the
    /// lock acquisitions before the load (PITFALLS X5).
    #[inline]
    pub fn commit_epoch(&self) -> u64 {
        fence(Ordering::SeqCst);
        let epoch = self.now.load(Ordering::SeqCst);
        point("epoch read");
        epoch
    }

    /// True when no worker can still hold what became unreachable in `epoch`.
    #[inline]
    pub fn passed(&self, epoch: u64) -> bool {
        self.now() >= epoch + 2
    }

    /// Moves the epoch on by one, unless a worker stands behind it. True if it moved.
    pub fn advance(&self) -> bool {
        let now = self.now.load(Ordering::SeqCst);
        model_fence();
        let behind = |place: &CachePadded<AtomicU64>| {
            let pinned = place.load(Ordering::SeqCst);
            pinned != IDLE && pinned < now
        };
        if self.places.iter().any(behind) {
            return false;
        }
        point("advance");
        self.now.compare_exchange(now, now + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }
}

impl EpochClock {
    /// Waits until `epoch` has passed: for each transaction that was running to end. The waiting caller moves
    /// the epoch on.
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`] when one does not end in some seconds.
    pub fn wait_passed(&self, epoch: u64) -> Result<()> {
        let (mut wait, mut begun) = (Wait::new(), None);
        while !self.passed(epoch) {
            if self.advance() {
                continue;
            }
            wait.pause();
            let begun = *begun.get_or_insert_with(now_ns);
            if now_ns() - begun > PATIENCE_NS {
                return Err(Misuse::EpochHeld { seconds: PATIENCE_NS / 1_000_000_000 }.into());
            }
        }
        Ok(())
    }
}

/// A thread that does something at a fixed interval until it is dropped, which waits for what it is doing.
pub struct Ticker {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Ticker {
    /// Starts ticking.
    pub fn start(interval: Duration, tick: impl Fn() + Send + 'static) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (flag, signal) = &*stopped;
            let mut guard = lock(flag);
            while !*guard {
                guard = match signal.wait_timeout(guard, interval) {
                    Ok((guard, _)) => guard,
                    Err(poisoned) => poisoned.into_inner().0,
                };
                if !*guard {
                    tick();
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the ticker; there is no more to do here.
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_worker_holds_the_epoch_back_by_at_most_one() {
        let clock = EpochClock::new(2);
        let start = clock.pin(0);
        assert!(clock.advance(), "everyone stands at the epoch");
        assert!(!clock.advance(), "worker 0 is one behind");
        assert!(!clock.passed(start));
        assert_eq!(clock.pin(1), start + 1);
        clock.unpin(0);
        assert!(clock.advance());
        assert!(clock.passed(start));
        assert!(!clock.advance(), "worker 1 is one behind");
    }

    #[test]
    fn the_ticker_ticks_and_stops() {
        let clock = Arc::new(EpochClock::new(1));
        let ticked = Arc::clone(&clock);
        let ticker = Ticker::start(Duration::from_millis(1), move || _ = ticked.advance());
        while clock.now() < FIRST + 3 {
            thread::yield_now();
        }
        drop(ticker);
        let now = clock.now();
        assert_eq!(now, clock.now());
    }
}
