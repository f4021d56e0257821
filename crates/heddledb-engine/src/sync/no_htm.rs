//! No hardware transactional memory: no region begins. Also what only a model has to ask and the processor need not, since an
//! abort there is a jump.

pub use super::abort::{Abort, Interrupted};

/// Whether regions can be begun here.
pub fn is_available() -> bool {
    false
}

/// Whether whoever runs the program wants no regions of the processor: the variable `HEDDLEDB_RTM` of the environment is `off`.
pub fn is_switched_off() -> bool {
    std::env::var_os("HEDDLEDB_RTM").is_some_and(|value| value == "off")
}

/// Whether they are those of a model.
pub const MODELLED: bool = false;

/// Begins a region: never.
///
/// # Errors
/// Always.
///
/// # Safety
/// None is asked for: nothing is begun.
pub unsafe fn begin() -> Result<(), Abort> {
    Err(Abort::Unfriendly)
}

/// Runs `body` at the end of a region, of which there is none.
///
/// # Errors
/// None.
pub fn finish<R>(body: impl FnOnce() -> R) -> Result<R, Abort> {
    Ok(body())
}

/// Aborts the region that runs this; there is none.
pub fn abort<const CODE: u8>() {}

/// Whether the region that runs this can still take effect.
///
/// # Errors
/// None.
#[inline(always)]
pub fn stands() -> Result<(), Abort> {
    Ok(())
}

/// Whether the region that runs this was aborted: such a one goes on nowhere.
#[inline(always)]
pub fn is_over() -> bool {
    false
}

/// Runs an operation, which may be in a region.
///
/// # Errors
/// None.
#[inline(always)]
pub fn guard<R>(operation: impl FnOnce() -> R) -> Result<R, Interrupted> {
    Ok(operation())
}
