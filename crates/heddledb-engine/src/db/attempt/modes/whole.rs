//! Calls that are executed as closures are.

use super::CallMode;

/// The verbs as they are unless a mode says otherwise.
#[derive(Default)]
pub(super) struct Whole;

impl CallMode for Whole {
    type Shared = ();

    fn shared(_: usize) {}
}
