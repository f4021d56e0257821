//! Sealing a record for reclamation, for protocols whose locks are the lock bits of stamps (`crate::stamp`).

use super::Seal;
use crate::record::RecordRef;
use crate::stamp;
use crate::sync::Ordering;
use crate::table::Layout;

/// Seals a record whose groups' stamps are `stride` words apart, if it is absent and unlocked, `old_enough`
/// holds for each stamp, and then `has_no_versions` for the record. Locks all groups first, by trying, so it
/// waits for nothing.
pub(super) fn seal_stamps(
    record: RecordRef,
    layout: &'static Layout,
    stride: usize,
    old_enough: impl Fn(u64) -> bool,
    has_no_versions: impl FnOnce() -> bool,
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
    if !has_no_versions() {
        unlock(layout.groups.len());
        return Seal::Busy;
    }
    for group in 0..layout.groups.len() {
        word(group).store(stamp::SEALED, Ordering::Release);
    }
    Seal::Sealed
}
