//! Beginning regions: the one place where the protocol answers for what they store to.

#![allow(unsafe_code)]

use crate::sync::htm::{self, Abort};

/// Begins a region, which `htm::finish` ends.
///
/// # Errors
/// Why none was begun, or why it was aborted since.
#[inline(always)]
pub(super) fn begin() -> Result<(), Abort> {
    // SAFETY: the caller has asked whether regions are available. What is stored to while it is open are words of records,
    // index nodes, and what workers share, all of which live as long as the database, which the attempt keeps open; the
    // attempt ends the region before it ends itself: in `commit` or `abort`, one of which follows every `begin` of it.
    unsafe { htm::begin() }
}

/// Whether this thread is in a region. Not on virtual cores, where nobody has two sessions of one thread.
#[inline(always)]
pub(super) fn is_inside() -> bool {
    // SAFETY: the caller has asked whether regions are available.
    unsafe { htm::is_inside() }
}

/// Runs `body` as a region.
///
/// # Errors
/// Why it was aborted.
#[inline(always)]
pub(super) fn run<R>(body: impl FnOnce() -> R) -> Result<R, Abort> {
    begin()?;
    htm::finish(body)
}
