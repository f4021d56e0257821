//! The plain backend: the standard library and the processor.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
pub use std::sync::{Condvar, Mutex, MutexGuard};
pub use std::thread::{self, yield_now};

/// Nanoseconds since the first call in this process; monotone.
pub fn now_ns() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
