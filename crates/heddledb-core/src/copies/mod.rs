//! What becomes of copies once they are taken: they are continued with the log of the database that they are of, and other
//! directories are made of them, as of an earlier moment. Files to files: no row is loaded, and no table type is needed.
//!
//! ```text
//!  the database's directory      checkpoint 4 |  log-7 (kept)  |  log-8 (kept)  |  log-9 ...
//!                                                   | epochs after 20, up to 57
//!  the copy                      checkpoint 1, epoch 20 | log-1, up to 31 | log-2, up to 57
//!                                                   | epochs up to 44
//!  restored                      checkpoint 1, epoch 20 | log-1, up to 44
//! ```
//!
//! **Cuts are epochs.** All commits of epochs up to one are a prefix of the serial order. So a copy holds exactly the commits of
//! epochs up to one, and what continues it is all commits of later ones up to another, wherever in the log they stand.
//!
//! **Which commits an epoch has** is decided once the log has closed it in a durable round: no later life of the directory gives
//! it to another commit. The manifest of a copy says which directory it follows, and how far ([`Origin`](crate::log::Origin)). It
//! is not continued where that directory does not have the log any more that the copy lacks, or another one than the copy holds.
//!
//! Each directory has a number of its own, which its frames carry; so they are written anew.

mod increment;
mod place;
mod restore;
mod transfer;

pub use increment::{Continued, Log, continue_closed, continue_copy};
pub use place::{LOST_AND_FOUND, open_copy, open_empty, refuse_unless_empty};
pub use restore::{Reach, Restore, RestoreProgress, RestoreReport, instant, reach};
pub use transfer::Carried;

use crate::log::Manifest;
use std::hash::{BuildHasher, RandomState};

/// The manifest of a directory that nothing was written to, with a number of its own.
pub fn fresh_manifest() -> Manifest {
    Manifest::fresh(RandomState::new().hash_one(std::process::id()))
}
