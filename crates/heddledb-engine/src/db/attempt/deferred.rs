//! Intentions of deferring transactions.

use super::Attempt;
use crate::error::Result;
use crate::protocol::Protocol;
use crate::seam::{Access, Defers, Ended, Intention, Operators};
use crate::table::Definition;

/// No protocol defers: the front executes intentions at once, and asks for nothing of this.
impl<P: Protocol> Defers for Attempt<P> {
    fn defers(&self) -> bool {
        false
    }

    fn defer(&mut self, _: &Access<'_>, _: Intention, step: u32) -> Result<()> {
        unreachable!("step {step} was deferred under a protocol that does not defer")
    }

    fn has_intentions_on(&self, relation: &'static Definition, _: Option<&[u64]>) -> bool {
        unreachable!("intentions on {} under a protocol that does not defer", relation.name())
    }

    fn forget_intentions(&mut self) {
        unreachable!("intentions are forgotten under a protocol that does not defer")
    }

    fn end_deferred(&mut self, _: &mut dyn Operators) -> Result<Ended> {
        unreachable!("a deferring transaction ends under a protocol that does not defer")
    }
}
