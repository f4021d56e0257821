//! Which sessions have a call under way, where calls commit in parts.

use crate::sync::{AtomicU64, Ordering, Suspender, model_fence, wait_until};
use crossbeam_utils::CachePadded;

/// Which sessions have a call under way, and how many wait for closures to end.
pub(super) struct ActiveCalls {
    /// By worker: 1 while it has a call under way.
    calls: Box<[CachePadded<AtomicU64>]>,
    waiting: AtomicU64,
}

impl ActiveCalls {
    pub fn new(sessions: usize) -> Self {
        let calls = (0..sessions).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
        Self { calls, waiting: AtomicU64::new(0) }
    }

    /// How many sessions there may be.
    pub fn sessions(&self) -> usize {
        self.calls.len()
    }

    /// A call begins, once the gate is open; false, and it has not begun, where the suspender's time is over before.
    pub fn begin(&self, worker: usize, suspender: Option<&Suspender>, is_open: impl Fn() -> bool) -> bool {
        let (mut waits, mut in_time) = (false, true);
        while in_time && !self.try_begin(worker, &is_open) {
            if !std::mem::replace(&mut waits, true) {
                self.begin_wait();
            }
            in_time = wait_until(suspender, &is_open);
        }
        if waits {
            self.end_wait();
        }
        in_time
    }

    /// A call begins, unless the gate is closed.
    pub fn try_begin(&self, worker: usize, is_open: impl Fn() -> bool) -> bool {
        // SeqCst: either who closes the gate sees this, or we see the gate closed.
        self.calls[worker].store(1, Ordering::SeqCst);
        model_fence();
        let open = is_open();
        if !open {
            self.end_in_order(worker);
        }
        open
    }

    /// A call waits for the gate, until [`Self::end_wait`].
    pub fn begin_wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
    }

    pub fn end_wait(&self) {
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    pub fn end(&self, worker: usize) {
        // Release: what the call did happens before whatever a closure does.
        self.calls[worker].store(0, Ordering::Release);
    }

    /// As [`Self::end`], for who looks then whether others are under way: of two that end at once, one sees that none is.
    pub fn end_in_order(&self, worker: usize) {
        self.calls[worker].store(0, Ordering::SeqCst);
    }

    /// Whether no call is under way, as [`Self::is_idle`]; sessions behind that worker's are looked at first, so that not all look at
    /// the same ones.
    pub fn is_idle_after(&self, worker: usize) -> bool {
        let (before, after) = self.calls.split_at(worker);
        after.iter().chain(before).all(|call| call.load(Ordering::SeqCst) == 0)
    }

    /// Whether no call is under way.
    pub fn is_idle(&self) -> bool {
        self.calls.iter().all(|call| call.load(Ordering::SeqCst) == 0)
    }

    /// Whether no call waits for the gate to open.
    pub fn nobody_waits(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }
}
