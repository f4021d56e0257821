//! The one door to shared memory.
//!
//! Every atomic, lock, fence, spin hint, clock, thread start and random number of the engine
//! comes through here, so that the same protocol code can run
//!
//! - plainly (`native`, the default, at no cost),
//! - under [loom](https://docs.rs/loom), which tries every interleaving of a small kernel under
//!   the weak memory model (feature `loom`),
//! - under [shuttle](https://docs.rs/shuttle), which explores whole transactions by seeded random
//!   schedules (feature `shuttle`),
//! - and on virtual cores (`simulation`, feature `simulation`), where a model of the caches charges each
//!   access and a schedule decides which core is next, so that a thousand cores run on one, from a seed.
//!
//! To keep the door fit for these, the engine has no `thread_local!` (but for how long a thread spins, `patience`), starts no thread elsewhere, and lets no
//! decision or iteration order depend on an address.
//!
//! **Exceptions, on purpose.** Process-wide immutable identities ([`crate::table::Definition`]) and
//! reference counts (`Arc`) use the standard library: they carry no data of a database.

#[cfg(any(
    all(feature = "loom", feature = "shuttle"),
    all(feature = "loom", feature = "simulation"),
    all(feature = "shuttle", feature = "simulation"),
))]
compile_error!("choose one backend of heddledb::sync: feature `loom`, `shuttle` or `simulation`");

#[cfg(all(feature = "suspend", any(feature = "loom", feature = "shuttle", feature = "simulation")))]
compile_error!("feature `suspend` of heddledb::sync is for threads of the system");

#[cfg(feature = "loom")]
#[path = "loom.rs"]
mod backend;
#[cfg(not(any(feature = "loom", feature = "shuttle", feature = "simulation")))]
#[path = "native.rs"]
mod backend;
#[cfg(all(feature = "shuttle", not(feature = "loom")))]
#[path = "shuttle.rs"]
mod backend;
#[cfg(all(feature = "simulation", not(any(feature = "loom", feature = "shuttle"))))]
pub mod simulation;
#[cfg(all(feature = "simulation", not(any(feature = "loom", feature = "shuttle"))))]
use simulation as backend;

mod abort;
mod annotate;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod clock;
#[cfg(not(feature = "simulation"))]
pub mod no_htm;
mod patience;
pub mod probe;
#[cfg(all(
    target_arch = "x86_64",
    not(any(miri, feature = "loom", feature = "shuttle", feature = "simulation"))
))]
pub mod rtm;
#[cfg(feature = "suspend")]
mod suspend;
mod suspender;
mod wait;

pub use crate::parallel::in_parallel;
pub use crate::random::Random;
pub use annotate::*;
pub use backend::htm;
pub use backend::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, fence, now_ns,
    sleep, spin, spin_loop, spin_until, thread, yield_now,
};
#[cfg(feature = "simulation")]
pub use backend::{
    attempt_ended, course, decided, decides, name, note, phase, point, shared_memory, shared_memory_ends,
    work,
};
pub use std::sync::atomic::Ordering;
#[cfg(feature = "suspend")]
pub use suspend::interleave;
pub use suspender::Suspender;
pub use wait::Wait;

/// Waits until `condition` holds, whose only reason to change is a write by another task or thread: spins,
/// unless a suspender can suspend the task. False if the suspender's time was over before.
#[inline]
#[must_use = "the condition need not hold"]
pub fn wait_until(suspender: Option<&Suspender>, mut condition: impl FnMut() -> bool) -> bool {
    match suspender {
        None => {
            spin_until(condition);
            true
        }
        Some(suspender) => suspender.wait_until(&mut condition),
    }
}

/// As [`wait_until`], for as long as it takes: for what ends soon, or cannot be given up.
#[inline]
pub fn wait_out(suspender: Option<&Suspender>, mut condition: impl FnMut() -> bool) {
    match suspender {
        None => spin_until(condition),
        Some(suspender) => suspender.wait_out(&mut condition),
    }
}

/// True where a model checker schedules the threads: spins must then be few, chunks small.
pub const MODEL: bool = cfg!(any(feature = "loom", feature = "shuttle"));

/// True where the atomics are the standard library's, so that words in a record can be read from outside of
/// the engine. Elsewhere each access is scheduled or charged, so rows are copied by the engine.
pub const IN_PLACE: bool = cfg!(not(any(feature = "loom", feature = "shuttle", feature = "simulation")));

/// True where assertions may load shared words: in debug builds, but not where each access is scheduled or
/// charged, nor where a bug may be planted, which is to be found by its effects.
pub const ASSERTS_LOAD: bool = cfg!(all(debug_assertions, not(feature = "mutants"))) && IN_PLACE;

/// Locks a mutex; a panic of another holder does not poison data that is always left consistent.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// As [`lock`], for what others hold for a microsecond at the most: tries for some time before the thread sleeps, which would take longer.
pub fn lock_soon<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    const TRIES: u32 = if MODEL { 0 } else { 6 };
    for tried in 0..TRIES {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => spin(4 << tried),
        }
    }
    lock(mutex)
}

/// Lets go of a mutex until the condition is notified, or for no reason, and locks it again as [`lock`] does.
pub fn wait_notified<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// As [`wait_notified`], for no longer than `limit`, where there is one.
pub fn wait_notified_within<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    limit: Option<std::time::Duration>,
) -> MutexGuard<'a, T> {
    let Some(limit) = limit else { return wait_notified(condition, guard) };
    condition.wait_timeout(guard, limit).unwrap_or_else(|poisoned| poisoned.into_inner()).0
}

/// Bytes of a cache line, for [`prefetch`].
pub const LINE: usize = 64;

/// Asks the processor to fetch the first `lines` cache lines at `pointer`. A hint: no effect on
/// memory, whatever the address; nothing where the processor has no such instruction.
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch<T>(pointer: *const T, lines: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let fetch = |line: usize| {
            // SAFETY: a prefetch never faults and changes nothing, whatever the address.
            unsafe { _mm_prefetch(pointer.cast::<i8>().wrapping_add(line * LINE), _MM_HINT_T0) };
        };
        // Mostly so few that a loop, once unrolled, would cost more.
        if lines > 0 {
            fetch(0);
        }
        if lines > 1 {
            fetch(1);
        }
        if lines > 2 {
            (2..lines).for_each(fetch);
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (pointer, lines);
}

/// Restores, under loom, the total order of SeqCst accesses, which it treats as AcqRel: a fence there
/// and nothing elsewhere. Stands between two SeqCst accesses to different words.
#[inline(always)]
pub fn model_fence() {
    if cfg!(feature = "loom") {
        fence(Ordering::SeqCst);
    }
}

/// A SeqCst fence, where the caller has made a SeqCst read-modify-write after whatever the fence is to order before what
/// comes. Where each of these is a full barrier it asks nothing more of the processor, nor of a virtual one.
#[inline(always)]
pub fn fence_after_exchange() {
    const IS_BARRIER: bool = cfg!(any(feature = "simulation", all(target_arch = "x86_64", not(miri))));
    if IS_BARRIER && !MODEL {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Lets a model checker switch threads where a plain build only spins.
pub fn model_yield() {
    if MODEL {
        yield_now();
    }
}
