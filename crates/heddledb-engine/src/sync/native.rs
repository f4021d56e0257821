//! The plain backend: the standard library and the processor.

pub use super::clock::real_ns as now_ns;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub use super::no_htm as htm;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use super::rtm as htm;
pub use super::wait::until as spin_until;
pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
pub use std::sync::{Condvar, Mutex, MutexGuard};
pub use std::thread::{self, sleep, yield_now};

/// So many spin hints.
#[inline(always)]
pub fn spin(hints: u64) {
    (0..hints).for_each(|_| spin_loop());
}
