//! What the code tells a simulation only: work that is no access, places, names.
//!
//! In all other builds these are nothing.

/// Work of a core that is no access to shared memory, charged where it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Beginning and ending an attempt of a transaction.
    Attempt,
    /// An operation of a transaction.
    Operation,
    /// A visit of an index node.
    Node,
    /// A row that a scan goes by.
    Row,
    /// Checks of column groups.
    Checks(usize),
    /// Words copied privately.
    Words(usize),
    /// Words of memory that was never used: the system clears its pages.
    Fresh(usize),
    /// Cycles, where the caller knows them.
    Cycles(u64),
}

/// What an attempt of a transaction is spending its time on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Its body, and what the protocol does for single accesses.
    #[default]
    Body,
    /// Index structures.
    Index,
    /// Validation, commit timestamps, writing.
    Commit,
    /// Nothing: there is no attempt.
    Between,
}

/// Something about the place of a transaction among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// It comes after this one.
    After(u64),
    /// It has committed.
    Committed,
    /// It has aborted.
    Aborted,
}

/// Whose transactions a core's commits are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// Its own.
    #[default]
    Own,
    /// Parts of its own, whose time is this one.
    OwnAt(u64),
    /// Others', of which nobody is told.
    Others,
}

#[cfg(not(feature = "simulation"))]
mod silent {
    use super::{Course, Phase, Whose, Work};

    /// Charges work.
    #[inline(always)]
    pub fn work(_: Work) {}

    /// What follows belongs to this phase of the attempt.
    #[inline(always)]
    pub fn phase(_: Phase) {}

    /// The attempt has ended.
    #[inline(always)]
    pub fn attempt_ended(_: bool) {}

    /// A place in the code that a delay or fault can be ordered for.
    #[inline(always)]
    pub fn point(_: &'static str) {}

    /// Tells the driver of the simulation that this core's transaction cannot fail any more.
    #[inline(always)]
    pub fn decided(_: u64) {}

    /// Tells the driver of the simulation whose transactions this core decides from now on.
    #[inline(always)]
    pub fn decides(_: Whose) {}

    /// Tells the driver of the simulation of a transaction's place among others; both by numbers that no
    /// other has.
    #[inline(always)]
    pub fn course(_: u64, _: Course) {}

    /// Tells an observer something.
    #[inline(always)]
    pub fn note(_: impl FnOnce() -> String) {}

    /// Names memory for an observer.
    #[inline(always)]
    pub fn name(_: *const u8, _: usize, _: impl FnOnce() -> String) {}

    /// Tells the model of memory that holds an array of shared words.
    #[inline(always)]
    pub fn shared_memory(_: *const u8, _: usize) {}

    /// Tells the model that this memory ends, where no destructor of the words in it does.
    #[inline(always)]
    pub fn shared_memory_ends(_: *const u8) {}
}

#[cfg(not(feature = "simulation"))]
pub use silent::{
    attempt_ended, course, decided, decides, name, note, phase, point, shared_memory, shared_memory_ends,
    work,
};
