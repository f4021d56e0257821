//! A group's two words: the lock, which the module's header draws, and the stamp of the last writer. And
//! which locks of a record an attempt holds.

use crate::record::RecordRef;
use crate::table::GroupSet;

/// The lock word of a group.
macro_rules! lock_word {
    ($record:expr, $group:expr) => {
        $record.word(2 * $group)
    };
}

/// The stamp word of a group.
macro_rules! stamp_word {
    ($record:expr, $group:expr) => {
        $record.word(2 * $group + 1)
    };
}

pub(super) use {lock_word, stamp_word};

pub(super) const EXCLUSIVE: u64 = 1 << 63;
pub(super) const ABSENT: u64 = 1 << 62;
pub(super) const READER: u64 = 1 << 51;
pub(super) const READERS: u64 = ((1 << 11) - 1) << 51;
pub(super) const TIMESTAMP: u64 = READER - 1;
pub(super) const SEALED: u64 = u64::MAX;

/// Timestamps: epoch (31 bits), sequence within the epoch (10, saturating), worker (10). Unique
/// among live transactions because the worker is, roughly in order of first start.
pub(super) fn timestamp(epoch: u64, sequence: u64, worker: usize) -> u64 {
    ((epoch << 20) | (sequence.min(1023) << 10) | worker as u64) & TIMESTAMP
}

/// The worker in a timestamp.
pub(super) fn worker_of(timestamp: u64) -> usize {
    (timestamp & 1023) as usize
}

/// The locks that an attempt holds on one record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) record: RecordRef,
    pub(super) shared: GroupSet,
    pub(super) exclusive: GroupSet,
}
