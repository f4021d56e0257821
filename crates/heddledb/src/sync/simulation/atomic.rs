//! Atomics whose accesses are charged to the core that makes them.

use super::directory::Kind;
use super::machine::{access, machine};
use super::trace::What;
use std::sync::atomic::Ordering;

/// Tells the observer, if there is one.
#[inline(always)]
fn told(address: usize, kind: Kind, before: impl FnOnce() -> u64, after: impl FnOnce() -> u64) {
    if let Some(machine) = machine()
        && machine.observing.get()
        && machine.is_charged()
    {
        let name = machine.names.borrow_mut().of(address);
        machine.observe(What::Access { name, kind, before: before(), after: after() });
    }
}

/// The operations that all atomics have.
macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $inner:ty, $value:ty, $word:expr) => {
        impl$(<$t>)? $name$(<$t>)? {
            /// As in the standard library.
            #[inline(always)]
            pub const fn new(value: $value) -> Self {
                Self(<$inner>::new(value))
            }

            #[inline(always)]
            fn address(&self) -> usize {
                std::ptr::from_ref(self) as usize
            }

            /// As in the standard library.
            #[inline(always)]
            pub fn load(&self, order: Ordering) -> $value {
                access(self.address(), Kind::Load);
                let value = self.0.load(order);
                told(self.address(), Kind::Load, || $word(value), || $word(value));
                value
            }

            /// As in the standard library.
            #[inline(always)]
            pub fn store(&self, value: $value, order: Ordering) {
                access(self.address(), Kind::Store);
                told(self.address(), Kind::Store, || $word(self.0.load(Ordering::Relaxed)), || $word(value));
                self.0.store(value, order);
            }

            /// As in the standard library.
            #[inline(always)]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                access(self.address(), Kind::Update);
                let before = self.0.swap(value, order);
                told(self.address(), Kind::Update, || $word(before), || $word(value));
                before
            }

            /// As in the standard library.
            ///
            /// # Errors
            /// The value, where it is another.
            #[inline(always)]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                access(self.address(), Kind::Update);
                let outcome = self.0.compare_exchange(current, new, success, failure);
                let before = match outcome { Ok(value) | Err(value) => value };
                told(
                    self.address(),
                    Kind::Update,
                    || $word(before),
                    || $word(if outcome.is_ok() { new } else { before }),
                );
                outcome
            }

            /// As in the standard library.
            ///
            /// # Errors
            /// The value, where it is another.
            #[inline(always)]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// As in the standard library.
            #[inline(always)]
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// As in the standard library.
            #[inline(always)]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl$(<$t>)? std::fmt::Debug for $name$(<$t>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// The operations of numbers.
macro_rules! arithmetic {
    ($name:ident, $value:ty, $($operation:ident)*) => {
        impl $name {
            $(
                /// As in the standard library.
                #[inline(always)]
                pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                    access(self.address(), Kind::Update);
                    let before = self.0.$operation(value, order);
                    told(
                        self.address(),
                        Kind::Update,
                        || before as u64,
                        || self.0.load(Ordering::Relaxed) as u64,
                    );
                    before
                }
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(0)
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $inner:ty, $value:ty) => {
        /// As in the standard library; its accesses are charged inside a simulation.
        #[repr(transparent)]
        pub struct $name($inner);
        atomic!($name, $inner, $value, |value| value as u64);
        arithmetic!($name, $value, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
    };
}

number!(AtomicU32, std::sync::atomic::AtomicU32, u32);
number!(AtomicU64, std::sync::atomic::AtomicU64, u64);
number!(AtomicUsize, std::sync::atomic::AtomicUsize, usize);

/// As in the standard library; its accesses are charged inside a simulation.
#[repr(transparent)]
pub struct AtomicBool(std::sync::atomic::AtomicBool);
atomic!(AtomicBool, std::sync::atomic::AtomicBool, bool, u64::from);

impl Default for AtomicBool {
    fn default() -> Self {
        Self::new(false)
    }
}

/// As in the standard library; its accesses are charged inside a simulation.
#[repr(transparent)]
pub struct AtomicPtr<T>(std::sync::atomic::AtomicPtr<T>);
atomic!(AtomicPtr<T>, std::sync::atomic::AtomicPtr<T>, *mut T, |value: *mut T| u64::from(!value.is_null()));
