//! The shuttle backend: seeded random schedules of whole transactions, sequentially consistent.

pub use super::no_htm as htm;
pub use super::wait::until as spin_until;
pub use shuttle::hint::spin_loop;
pub use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
pub use shuttle::thread::{self, yield_now};

/// Time stands still: schedules replay from their seed alone.
pub fn now_ns() -> u64 {
    0
}

/// Lets others run: time stands still.
pub fn sleep(_: std::time::Duration) {
    yield_now();
}

/// A spin hint, whatever their number.
pub fn spin(_: u64) {
    spin_loop();
}
