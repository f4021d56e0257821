//! Why a region of hardware transactional memory did not take effect.

/// Why a region was aborted: the bits that the hardware tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Abort {
    /// By itself, with a code.
    #[error("explicit abort {0}")]
    Explicit(u8),
    /// Another core touched one of its lines. A retry may succeed.
    #[error("conflict")]
    Conflict,
    /// More lines than a set of the cache has room for. A retry will hardly succeed.
    #[error("capacity")]
    Capacity,
    /// An interrupt came, or the hardware gives no reason: a page fault, a call of the system. A retry may succeed.
    #[error("interrupt")]
    Interrupt,
    /// The body did what no region can: it waited.
    #[error("unfriendly instruction")]
    Unfriendly,
}

impl Abort {
    /// Whether a retry may succeed: what the hardware hints at.
    pub fn may_retry(self) -> bool {
        matches!(self, Self::Conflict | Self::Interrupt)
    }
}

/// An operation in a region has ended because the region was aborted. Only on virtual cores, where an abort is no jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;
