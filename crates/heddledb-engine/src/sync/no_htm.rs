//! No hardware transactional memory: no region begins. Also what only a model has to ask and the processor need not, since an
//! abort there is a jump.

#![allow(unsafe_code)]

pub use super::abort::{Abort, Interrupted};

/// Whether regions can be begun here.
pub fn is_available() -> bool {
    false
}

/// Whether whoever runs the program asks for regions of the processor where a database says nothing of them: the variable
/// `HEDDLEDB_RTM` of the environment is `on`.
pub fn is_asked_for() -> bool {
    std::env::var_os("HEDDLEDB_RTM").is_some_and(|value| value == "on")
}

/// Whether this thread is in a region of which only the processor knows: never.
///
/// # Safety
/// None is asked for.
#[inline(always)]
pub unsafe fn is_inside() -> bool {
    false
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
