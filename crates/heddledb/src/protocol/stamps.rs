//! What protocols share whose locks are the lock bits of stamps (`crate::stamp`): sealing a record for reclamation.

use super::Seal;
use crate::record::RecordRef;
use crate::stamp;
use crate::sync::Ordering;
use crate::table::Layout;

/// Seals a record whose groups' stamps are `stride` words apart, if it is absent, unlocked, and `old_enough` says so
/// of each stamp, and then `spare` of the record. Locks all groups first, by trying, so it waits for nothing.
pub(super) fn seal_stamps(
    record: RecordRef,
    layout: &'static Layout,
    stride: usize,
    old_enough: impl Fn(u64) -> bool,
    spare: impl FnOnce() -> bool,
) -> Seal {
    let word = |group: usize| record.word(group * stride);
    let unlock = |groups: usize| {
        for held in 0..groups {
            let stamp = word(held).load(Ordering::Relaxed);
            word(held).store(stamp & !stamp::LOCK, Ordering::Release);
        }
    };
    for group in 0..layout.groups.len() {
        let stamp = word(group).load(Ordering::Acquire);
        let free = !stamp::is_locked(stamp) && stamp::is_absent(stamp) && old_enough(stamp);
        let locked = stamp | stamp::LOCK;
        if free && word(group).compare_exchange(stamp, locked, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            continue;
        }
        unlock(group);
        return if stamp::is_absent(stamp) { Seal::Busy } else { Seal::Live };
    }
    if !spare() {
        unlock(layout.groups.len());
        return Seal::Busy;
    }
    for group in 0..layout.groups.len() {
        word(group).store(stamp::SEALED, Ordering::Release);
    }
    Seal::Sealed
}
