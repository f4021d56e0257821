//! Atomics whose accesses are charged to the core that makes them.
//!
//! They are not inlined: an access does much, and code that is compiled for every protocol has many accesses.

#![allow(unsafe_code)]

use super::directory::Kind;
use super::machine::{Machine, access, forget, machine};
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

/// The machine, for an access that goes through the buffer of a hardware transaction.
fn region<'a>() -> &'a Machine {
    machine().expect("only inside a simulation are accesses buffered")
}

/// The operations that all atomics have. `$word` is what an observer sees of a value; `$to` and `$from` turn
/// it into a word and back.
macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $inner:ty, $value:ty, $word:expr, $to:expr, $from:expr) => {
        impl$(<$t>)? $name$(<$t>)? {
            /// As in the standard library.
            #[inline(always)]
            pub const fn new(value: $value) -> Self {
                Self(<$inner>::new(value))
            }

            #[inline(always)]
            fn address(&self) -> usize {
                std::ptr::from_ref(self).expose_provenance()
            }

            /// The value that a hardware transaction sees.
            #[cold]
            fn speculated(&self, order: Ordering) -> $value {
                region().buffered(self.address()).map_or_else(|| self.0.load(order), $from)
            }

            /// Stores in a hardware transaction.
            #[cold]
            fn speculate(&self, value: $value) {
                region().buffer(self.address(), $to(value), |address, word| {
                    let place = std::ptr::with_exposed_provenance::<$inner>(address);
                    // SAFETY: `address` is that of a word of this type, which by the contract of
                    // `htm::attempt` lives until its region has ended; this is called by that end.
                    unsafe { &*place }.store($from(word), Ordering::SeqCst);
                });
            }

            /// As in the standard library.
            #[inline(never)]
            pub fn load(&self, order: Ordering) -> $value {
                let buffered = access(self.address(), Kind::Load);
                let value = if buffered { self.speculated(order) } else { self.0.load(order) };
                told(self.address(), Kind::Load, || $word(value), || $word(value));
                value
            }

            /// As in the standard library.
            #[inline(never)]
            pub fn store(&self, value: $value, order: Ordering) {
                let buffered = access(self.address(), Kind::Store);
                told(self.address(), Kind::Store, || $word(self.0.load(Ordering::Relaxed)), || $word(value));
                if buffered { self.speculate(value) } else { self.0.store(value, order) }
            }

            /// As in the standard library.
            #[inline(never)]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                let before = if access(self.address(), Kind::Update) {
                    let before = self.speculated(Ordering::Relaxed);
                    self.speculate(value);
                    before
                } else {
                    self.0.swap(value, order)
                };
                told(self.address(), Kind::Update, || $word(before), || $word(value));
                before
            }

            /// As in the standard library.
            ///
            /// # Errors
            /// The value, where it is another.
            #[inline(never)]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let outcome = if access(self.address(), Kind::Update) {
                    let before = self.speculated(Ordering::Relaxed);
                    if before == current {
                        self.speculate(new);
                        Ok(before)
                    } else {
                        Err(before)
                    }
                } else {
                    self.0.compare_exchange(current, new, success, failure)
                };
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
            #[inline(never)]
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
            #[inline(never)]
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// As in the standard library.
            #[inline(never)]
            pub fn into_inner(self) -> $value {
                self.0.load(Ordering::Relaxed)
            }
        }

        impl$(<$t>)? Drop for $name$(<$t>)? {
            #[inline(never)]
            fn drop(&mut self) {
                forget(self.address());
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
    ($name:ident, $value:ty, $($operation:ident = $change:expr;)*) => {
        impl $name {
            $(
                /// As in the standard library.
                #[inline(never)]
                pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                    let change: fn($value, $value) -> $value = $change;
                    let before = if access(self.address(), Kind::Update) {
                        let before = self.speculated(Ordering::Relaxed);
                        self.speculate(change(before, value));
                        before
                    } else {
                        self.0.$operation(value, order)
                    };
                    told(self.address(), Kind::Update, || before as u64, || change(before, value) as u64);
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
        atomic!($name, $inner, $value, |value| value as u64, |value| value as u64, |word| word as $value);
        arithmetic!(
            $name, $value,
            fetch_add = |old, with| old.wrapping_add(with);
            fetch_sub = |old, with| old.wrapping_sub(with);
            fetch_and = |old, with| old & with;
            fetch_or = |old, with| old | with;
            fetch_xor = |old, with| old ^ with;
            fetch_max = |old, with| old.max(with);
            fetch_min = |old, with| old.min(with);
        );
    };
}

number!(AtomicU32, std::sync::atomic::AtomicU32, u32);
number!(AtomicU64, std::sync::atomic::AtomicU64, u64);
number!(AtomicUsize, std::sync::atomic::AtomicUsize, usize);

/// As in the standard library; its accesses are charged inside a simulation.
#[repr(transparent)]
pub struct AtomicBool(std::sync::atomic::AtomicBool);
atomic!(AtomicBool, std::sync::atomic::AtomicBool, bool, u64::from, u64::from, |word| word != 0);

impl Default for AtomicBool {
    fn default() -> Self {
        Self::new(false)
    }
}

/// As in the standard library; its accesses are charged inside a simulation.
#[repr(transparent)]
pub struct AtomicPtr<T>(std::sync::atomic::AtomicPtr<T>);
atomic!(
    AtomicPtr<T>,
    std::sync::atomic::AtomicPtr<T>,
    *mut T,
    // Not the address, which differs from run to run.
    |value: *mut T| u64::from(!value.is_null()),
    |value: *mut T| value.expose_provenance() as u64,
    |word| std::ptr::with_exposed_provenance_mut(word as usize)
);
