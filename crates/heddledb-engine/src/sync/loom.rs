//! The loom backend: exhaustive interleavings of small kernels under the C11 memory model.

pub use super::no_htm as htm;
pub use super::wait::until as spin_until;
pub use loom::hint::spin_loop;
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
pub use loom::sync::{Condvar, Mutex, MutexGuard};
pub use loom::thread::{self, yield_now};

/// Time stands still: a kernel under loom must not depend on it.
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
