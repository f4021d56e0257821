//! A group's three words: stamp, writer, image. The module's header draws how they change.

use crate::record::RecordRef;
use crate::sync::{Ordering, fence};

/// No writer, or nothing is shown.
pub(super) const NONE: u64 = 0;

/// Of an image: the row will not exist.
pub(super) const WILL_BE_ABSENT: u64 = 1;

/// The writer of a sealed record.
pub(super) const SEALED: u64 = u64::MAX;

/// The stamp of a group.
macro_rules! stamp {
    ($record:expr, $group:expr) => {
        $record.word(3 * $group as usize)
    };
}

/// The writer of a group.
macro_rules! writer {
    ($record:expr, $group:expr) => {
        $record.word(3 * $group as usize + 1)
    };
}

/// The image of a group.
macro_rules! image {
    ($record:expr, $group:expr) => {
        $record.word(3 * $group as usize + 2)
    };
}

pub(super) use {image, stamp, writer};

/// The image that a writer shows of a group, if it is still the writer: it lets go before its status says
/// that it has ended, and the next writer may show another image.
pub(super) fn shown_by(record: RecordRef, group: usize, writer: u64) -> Option<u64> {
    // Relaxed: published with the writer's status, which the caller has seen.
    let link = image!(record, group).load(Ordering::Relaxed);
    // Acquire fence, then the writer: pairs with the release fence in `show`. Had another writer shown this
    // image, we would find it here.
    fence(Ordering::Acquire);
    let same = writer!(record, group).load(Ordering::Relaxed) == writer;
    (same && link != NONE).then_some(link)
}

/// Ends the writer's hold on a group.
pub(super) fn release(record: RecordRef, group: usize) {
    // Relaxed: published below.
    image!(record, group).store(NONE, Ordering::Relaxed);
    // Release: a transaction that finds no writer finds the stamp that this one left.
    writer!(record, group).store(NONE, Ordering::Release);
}
