//! Numbers that the sessions of a program share outside of transactions.
//!
//! Counters of a workload and of a plan are no data of a database, but on virtual cores their cache lines move
//! from core to core like any other, and that is to be charged. So these are the standard library's atomics,
//! each access of which is told to an engine on virtual cores, if there is one ([`watch`]). All accesses are
//! relaxed: nothing else may be concluded from them.
//!
//! The only atomics of the typed front.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What is done with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It is loaded.
    Load,
    /// It is stored.
    Store,
    /// Both at once.
    Update,
    /// It is not there any more, and something else may be next.
    End,
}

/// Is told of each access, by its address, before it is made, and of each end.
static WATCHER: OnceLock<fn(usize, Touch)> = OnceLock::new();

/// Has all accesses told to `watcher` from now on. Only the first one that says so is told.
pub fn watch(watcher: fn(usize, Touch)) {
    WATCHER.get_or_init(|| watcher);
}

macro_rules! shared {
    ($name:ident, $atomic:ident, $value:ident) => {
        /// A number that sessions share outside of transactions.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name($atomic);

        impl $name {
            /// A number.
            pub const fn new(value: $value) -> Self {
                Self($atomic::new(value))
            }

            #[inline(always)]
            fn touch(&self, touch: Touch) {
                if let Some(watcher) = WATCHER.get() {
                    watcher(std::ptr::from_ref(self).addr(), touch);
                }
            }

            /// The number now.
            #[inline]
            pub fn load(&self) -> $value {
                self.touch(Touch::Load);
                self.0.load(Ordering::Relaxed)
            }

            /// Replaces the number.
            #[inline]
            pub fn store(&self, value: $value) {
                self.touch(Touch::Store);
                self.0.store(value, Ordering::Relaxed);
            }

            /// Adds to the number, wrapping, and returns what it was.
            #[inline]
            pub fn fetch_add(&self, summand: $value) -> $value {
                self.touch(Touch::Update);
                self.0.fetch_add(summand, Ordering::Relaxed)
            }

            /// Makes the number at least `value`, and returns what it was.
            #[inline]
            pub fn fetch_max(&self, value: $value) -> $value {
                self.touch(Touch::Update);
                self.0.fetch_max(value, Ordering::Relaxed)
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                self.touch(Touch::End);
            }
        }
    };
}

shared!(SharedU32, AtomicU32, u32);
shared!(SharedU64, AtomicU64, u64);
