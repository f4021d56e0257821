//! Bodies without the type of what they return: so that what surrounds a body, attempt after attempt, is compiled once and not for each.

use super::txn::Txn;
use crate::error::Result;

/// A body that leaves its result where who made it finds it.
pub(super) type Erased<'a> = &'a mut dyn FnMut(&mut Txn) -> Result<()>;

/// Why the result of an erased body is there.
pub(super) const HAS_RESULT: &str = "a body that has come to its end has left its result";

/// Runs a body by what does not know what it returns.
#[inline(always)]
pub(super) fn erased<R>(
    mut body: impl FnMut(&mut Txn) -> Result<R>,
    run: impl FnOnce(Erased<'_>) -> Result<()>,
) -> Result<R> {
    let mut result = None;
    run(&mut |txn| {
        result = None;
        result = Some(body(txn)?);
        Ok(())
    })?;
    Ok(result.expect(HAS_RESULT))
}
