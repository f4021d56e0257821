//! Settings of TicToc.

/// The optimisations of TicToc §5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// §5.1: when a write lock is taken, release all and restart the validation phase, instead of
    /// waiting for it in key order.
    pub no_wait: bool,
    /// §5.2: abort before locking when an approximate commit time shows that a read cannot be
    /// validated.
    pub preemptive_abort: bool,
    /// Whatever an attempt sees is of one moment, also of one that aborts.
    pub opaque: bool,
    /// What was read must be current at the commit.
    pub strict: bool,
}

impl Options {
    /// Both optimisations of §5.
    pub const FULL: Self = Self { no_wait: true, preemptive_abort: true, opaque: false, strict: false };
    /// No-wait alone.
    pub const NO_WAIT: Self = Self { preemptive_abort: false, ..Self::FULL };
    /// Neither.
    pub const SORTED: Self = Self { no_wait: false, preemptive_abort: false, ..Self::FULL };
    /// Opaque reads, in an order of real time.
    pub const OPAQUE: Self = Self { opaque: true, strict: true, ..Self::FULL };
}

impl Default for Options {
    fn default() -> Self {
        Self::FULL
    }
}
