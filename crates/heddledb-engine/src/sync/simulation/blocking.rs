//! Mutexes, conditions and threads: the standard library's outside a simulation, and ones that wait in
//! virtual time inside.
//!
//! The cores of a simulation share one thread of the real machine, so a core must never wait for a real
//! mutex that another holds. Data is kept in a real one all the same, which is only ever tried.

#![allow(unsafe_code)]

use super::directory::Kind;
use super::machine::{Awaited, access, current_core, forget, machine, simulated, spawn as spawn_core};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

/// A mutex.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    word: Word,
    data: std::sync::Mutex<T>,
}

/// What cores access of a mutex: the model knows its address.
#[derive(Default)]
struct Word(u8);

impl Drop for Word {
    fn drop(&mut self) {
        forget(self.address());
    }
}

impl Word {
    fn address(&self) -> usize {
        std::ptr::from_ref(&self.0) as usize
    }

    /// An access to the word, which no hardware transaction can make.
    #[inline(never)]
    fn touch(&self, kind: Kind) {
        if let Some(machine) = machine() {
            machine.no_region();
        }
        access(self.address(), kind);
    }

    /// Wakes who waits for the mutex, which was released.
    #[inline(never)]
    fn wake(&self) {
        if let Some(machine) = machine() {
            machine.wake(self.address(), false);
        }
    }
}

/// A mutex that is held.
pub struct MutexGuard<'a, T: ?Sized> {
    guard: ManuallyDrop<std::sync::MutexGuard<'a, T>>,
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// As in the standard library.
    pub const fn new(value: T) -> Self {
        Self { word: Word(0), data: std::sync::Mutex::new(value) }
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// As there.
    pub fn into_inner(self) -> LockResult<T> {
        self.data.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    fn key(&self) -> usize {
        self.word.address()
    }

    fn held<'a>(&'a self, guard: std::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard { guard: ManuallyDrop::new(guard), mutex: self }
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// As there.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let Some(machine) = machine() else {
            return match self.data.lock() {
                Ok(guard) => Ok(self.held(guard)),
                Err(poisoned) => Err(PoisonError::new(self.held(poisoned.into_inner()))),
            };
        };
        loop {
            match self.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
                Err(TryLockError::WouldBlock) => _ = machine.park(Awaited::Key(self.key()), None),
            }
        }
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// As there.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.word.touch(Kind::Update);
        match self.data.try_lock() {
            Ok(guard) => Ok(self.held(guard)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => {
                Err(TryLockError::Poisoned(PoisonError::new(self.held(poisoned.into_inner()))))
            }
        }
    }
}

impl<T: ?Sized> std::fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        // The turn first: no other core runs between the release and the wake.
        self.mutex.word.touch(Kind::Store);
        // SAFETY: the guard is not used again: this is its only drop, and `release` forgets `self`.
        unsafe { ManuallyDrop::drop(&mut self.guard) };
        self.mutex.word.wake();
    }
}

/// A condition that is waited for.
#[derive(Default)]
pub struct Condvar {
    plain: std::sync::Condvar,
}

/// How a wait with a time limit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether time was up.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl std::fmt::Debug for Condvar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

/// The standard library's guard out of ours, which is not released.
fn inner<'a, T: ?Sized>(guard: MutexGuard<'a, T>) -> (std::sync::MutexGuard<'a, T>, &'a Mutex<T>) {
    let mut guard = ManuallyDrop::new(guard);
    // SAFETY: taken once: the guard around it is not dropped.
    (unsafe { ManuallyDrop::take(&mut guard.guard) }, guard.mutex)
}

impl Condvar {
    /// As in the standard library.
    pub const fn new() -> Self {
        Self { plain: std::sync::Condvar::new() }
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// As there.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        if let Some(machine) = machine() {
            let mutex = guard.mutex;
            self.let_go(guard);
            machine.park(Awaited::Key(self.key()), None);
            return mutex.lock();
        }
        let (guard, mutex) = inner(guard);
        match self.plain.wait(guard) {
            Ok(guard) => Ok(mutex.held(guard)),
            Err(poisoned) => Err(PoisonError::new(mutex.held(poisoned.into_inner()))),
        }
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// As there.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        if let Some(machine) = machine() {
            let mutex = guard.mutex;
            self.let_go(guard);
            let woken = machine.park(Awaited::Key(self.key()), Some(machine.cycles(limit)));
            let result = WaitTimeoutResult(!woken);
            return match mutex.lock() {
                Ok(guard) => Ok((guard, result)),
                Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), result))),
            };
        }
        let (guard, mutex) = inner(guard);
        let with = |(guard, result): (_, std::sync::WaitTimeoutResult)| {
            (mutex.held(guard), WaitTimeoutResult(result.timed_out()))
        };
        match self.plain.wait_timeout(guard, limit) {
            Ok(waited) => Ok(with(waited)),
            Err(poisoned) => Err(PoisonError::new(with(poisoned.into_inner()))),
        }
    }

    /// Releases a mutex without giving up the turn, so that no wake is missed before the park.
    fn let_go<T>(&self, guard: MutexGuard<'_, T>) {
        let (guard, mutex) = inner(guard);
        drop(guard);
        if let Some(machine) = machine() {
            machine.wake(mutex.key(), false);
        }
    }

    /// As in the standard library.
    pub fn notify_one(&self) {
        match machine() {
            Some(machine) => machine.wake(self.key(), false),
            None => self.plain.notify_one(),
        }
    }

    /// As in the standard library.
    pub fn notify_all(&self) {
        match machine() {
            Some(machine) => machine.wake(self.key(), true),
            None => self.plain.notify_all(),
        }
    }
}

/// Threads: the standard library's outside a simulation, cores inside.
pub mod thread {
    use super::{Awaited, Duration, current_core, machine, simulated, spawn_core};
    use crate::sync::simulation::machine::Handle;

    pub use std::thread::Result;

    /// The identity of a thread or core.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ThreadId {
        /// Of a thread.
        Thread(std::thread::ThreadId),
        /// Of a core.
        Core(usize),
    }

    /// A thread or core.
    #[derive(Clone, Copy, Debug)]
    pub struct Thread(ThreadId);

    impl Thread {
        /// Its identity.
        pub fn id(&self) -> ThreadId {
            self.0
        }
    }

    /// The one that runs this.
    pub fn current() -> Thread {
        Thread(if simulated() {
            ThreadId::Core(current_core())
        } else {
            ThreadId::Thread(std::thread::current().id())
        })
    }

    /// To wait for a thread's end.
    pub struct JoinHandle<T>(Joined<T>);

    enum Joined<T> {
        Thread(std::thread::JoinHandle<T>),
        Core(Handle<T>),
    }

    impl<T> std::fmt::Debug for JoinHandle<T> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_tuple("JoinHandle").field(&self.thread().id()).finish()
        }
    }

    impl<T> JoinHandle<T> {
        /// Waits for its end.
        ///
        /// # Errors
        /// The payload of its panic, or that it was killed.
        pub fn join(self) -> Result<T> {
            match self.0 {
                Joined::Thread(thread) => thread.join(),
                Joined::Core(core) => core.join(),
            }
        }

        /// The thread.
        pub fn thread(&self) -> Thread {
            Thread(match &self.0 {
                Joined::Thread(thread) => ThreadId::Thread(thread.thread().id()),
                Joined::Core(core) => ThreadId::Core(core.core()),
            })
        }
    }

    /// Starts a thread.
    pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        JoinHandle(if simulated() {
            Joined::Core(spawn_core(None, body))
        } else {
            Joined::Thread(std::thread::spawn(body))
        })
    }

    /// Starts a worker with a number: its place on the virtual machine.
    ///
    /// # Panics
    /// Outside a simulation.
    pub fn spawn_worker<T: 'static>(number: usize, body: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
        JoinHandle(Joined::Core(spawn_core(Some(number), body)))
    }

    /// Lets others run.
    pub fn yield_now() {
        match machine() {
            Some(machine) => machine.pause(machine.costs().yield_now),
            None => std::thread::yield_now(),
        }
    }

    /// Sleeps.
    pub fn sleep(length: Duration) {
        match machine() {
            Some(machine) => _ = machine.park(Awaited::Time, Some(machine.cycles(length))),
            None => std::thread::sleep(length),
        }
    }
}
