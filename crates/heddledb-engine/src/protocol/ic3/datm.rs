//! DATM, the comparator of IC3 §6.4: dependencies are followed, and no interleaving is forbidden
//! (dependence-aware transactional memory).
//!
//! **Mechanism.** Every access that may conflict is shown at once, as a piece of its own, and no transaction
//! waits for another's rank. So two transactions may come to depend on each other, and then wait for each
//! other's end. Nothing detects that: one that has waited for too long aborts, and with it those that have
//! read from it.
//!
//! **Where we leave the paper.** Accessor lists, values in accessors, and commits in the order of
//! dependencies are IC3's; so are scans, inserts and deletes, which its port leaves out. Additions that
//! commute are deferred to the commit, as elsewhere. The time-out is the 0.45 ms that the paper found best,
//! up to twice as long by chance, so that two that wait for each other seldom give up together.

use super::{Interleaving, Local};

/// After how long a wait is given up.
pub(super) const PATIENCE_NS: u64 = 450_000;
/// How often one attempt may execute pieces again.
const REPETITIONS: u32 = 8;

impl Local {
    /// Whether any interleaving is permitted.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.options.interleaving == Interleaving::Free
    }

    /// Whether a piece may be executed again. Where any interleaving is permitted, another transaction may
    /// have come between two pieces that write the same row, and then no repetition helps; so the number of
    /// repetitions is bounded.
    pub(super) fn may_repeat(&mut self) -> bool {
        self.piece.repeated += 1;
        !self.is_free() || self.piece.repeated <= REPETITIONS
    }
}
