//! The loom backend: exhaustive interleavings of small kernels under the C11 memory model.

pub use loom::hint::spin_loop;
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
pub use loom::sync::{Condvar, Mutex, MutexGuard};
pub use loom::thread::{self, yield_now};

/// Time stands still: a kernel under loom must not depend on it.
pub fn now_ns() -> u64 {
    0
}
