//! Which parts of IC3 a database uses, as in the paper's factor analysis (§6.5), and what makes it DATM.

use crate::procedure::Tracking;

/// Settings of IC3, as in the paper's factor analysis (§6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// A piece executes first and waits before it is entered, not before it executes (§4.1).
    pub optimistic_constraint: bool,
    /// A piece without a C-edge to a transaction that it depends on waits for a rendezvous piece of it, not
    /// for its end (§4.2).
    pub rendezvous: bool,
    /// Additions commute and are deferred to the commit (§4.3).
    pub commutative: bool,
    /// Which conflicts are tracked. In the paper all are, wherever the analysis does not exclude them.
    pub tracking: Tracking,
    /// Which interleavings are permitted.
    pub interleaving: Interleaving,
}

/// Which interleavings of the pieces of several transactions are permitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interleaving {
    /// Those that keep dependencies free of cycles: IC3.
    #[default]
    Constrained,
    /// All; a transaction that has waited for too long aborts: DATM.
    Free,
}

impl Options {
    /// All of it, where transactions contend.
    pub const CONTENDED: Self = Self { tracking: Tracking::Contended, ..Self::FULL };
    /// Every access that may conflict is shown at once, and no order is enforced (DATM).
    pub const DATM: Self = Self { tracking: Tracking::Each, interleaving: Interleaving::Free, ..Self::FULL };
    /// The paper's IC3 with all that its §4 adds.
    pub const FULL: Self = Self {
        optimistic_constraint: true,
        rendezvous: true,
        commutative: true,
        tracking: Tracking::Always,
        interleaving: Interleaving::Constrained,
    };
    /// Without what §4 adds.
    pub const BASIC: Self =
        Self { optimistic_constraint: false, rendezvous: false, commutative: false, ..Self::FULL };
}

impl Default for Options {
    fn default() -> Self {
        Self::FULL
    }
}
