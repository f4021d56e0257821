//! The locks of partitions ([`Fallback::Partition`](crate::kind::Fallback::Partition)).
//!
//! A *partition* is what rows have in common whose encoded keys begin with the same bits, in all relations; 64 locks stand for
//! all of them, so that two partitions may share one.
//!
//! - A **region** looks at the lock of each partition when it first comes to a row of it, and ends itself where it is held; who
//!   takes the lock later aborts it by that.
//! - What is executed **in software** takes the lock of a partition before it reads a row of it to change it, or changes one
//!   blindly, and keeps it to its end. It waits for a while and then conflicts, so no circle of waits lasts. What it adds to a
//!   partition it locks at its commit, at the latest.
//!
//! So nobody else commits a write to a partition that is locked: a region must have found the lock free, at its last steps
//! at the latest, and all others must hold it. What is read under the lock therefore stays as it is, and is **not remembered**, as in a
//! region; all else that is read in software is validated. This is what the lock is for: an execution that has failed in regions
//! and holds its partitions is not overtaken by regions again. The paper's systems need it for another reason, since they write in place; here the lock
//! bits of stamps guard what is installed ([`super`]), for snapshots and reclamation read without any such lock.
//!
//! **Late subscription**, the trap of eliding locks, does no harm to regions here: half of what a holder installs is never seen,
//! as its stamps are locked all together before the first is written. The danger is a holder that comes late itself (planted bug:
//! `HtmPartitionLate`).

use super::wait_until;
use crate::mutant::{Mutant, planted};
use crate::sync::htm;
use crate::sync::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// How many locks there are.
const COUNT: usize = 64;
/// Where the codes begin by which a region aborts itself that found such a lock held: one for each.
const HELD: u8 = 64;

/// The locks: a worker's number plus one, or 0.
pub(super) struct Locks(Box<[CachePadded<AtomicU64>]>);

impl Locks {
    pub(super) fn new() -> Self {
        Self((0..COUNT).map(|_| CachePadded::new(AtomicU64::new(0))).collect())
    }

    /// Waits for a while until a lock is free; false if it is not.
    pub(super) fn wait_for(&self, partition: usize) -> bool {
        wait_until(&self.0[partition], |held| held == 0)
    }
}

/// The lock of a key's partition, by that many leading bits.
pub(super) fn of(key: &[u64], bits: u8) -> usize {
    let leading = key.first().map_or(0, |word| word.checked_shr(64 - u32::from(bits)).unwrap_or(0));
    // The high bits of a product depend on all bits of its factor.
    (leading.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize
}

/// The lock for which a region has aborted itself, if it was one.
pub(super) fn awaited(why: htm::Abort) -> Option<usize> {
    match why {
        htm::Abort::Explicit(code) if code >= HELD => Some(usize::from(code - HELD)),
        _ => None,
    }
}

/// What one attempt has to do with them; sets are bits.
#[derive(Default)]
pub(super) struct Own {
    /// Those that its region has looked at.
    seen: u64,
    /// Those that it holds.
    held: u64,
    /// That of the key to which it came last.
    at: usize,
    /// A read of this key's row need not be remembered.
    covered: bool,
}

impl Own {
    pub(super) fn begin(&mut self) {
        debug_assert_eq!(self.held, 0, "locks outlived their attempt");
        (self.seen, self.covered) = (0, false);
    }

    /// In a region: comes to a row of a partition.
    #[inline]
    pub(super) fn look(&mut self, locks: &Locks, partition: usize) {
        if self.seen & 1 << partition != 0 || planted(Mutant::HtmPartitionUnseen) {
            return;
        }
        self.seen |= 1 << partition;
        // Relaxed: in the region, so this is what the word is when the region ends.
        if locks.0[partition].load(Ordering::Relaxed) != 0 {
            abort_for(partition);
        }
    }

    /// In software: comes to a row of a partition.
    #[inline]
    pub(super) fn come_to(&mut self, partition: usize) {
        (self.at, self.covered) = (partition, self.held & 1 << partition != 0);
    }

    /// In software: the row that it came to last is to be changed. False if others have the lock for too long.
    pub(super) fn change(&mut self, locks: &Locks, worker: usize) -> bool {
        self.covered = planted(Mutant::HtmPartitionLate) || self.take(locks, self.at, worker);
        self.covered
    }

    /// Takes a lock; false if others have it for too long.
    pub(super) fn take(&mut self, locks: &Locks, partition: usize, worker: usize) -> bool {
        if self.held & 1 << partition == 0 {
            let (word, own) = (&locks.0[partition], worker as u64 + 1);
            // SeqCst: before all that is read under it. Each region that has looked at the word is aborted by the store.
            let take = |held| {
                held == 0 && word.compare_exchange(0, own, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            };
            self.held |= u64::from(wait_until(word, take)) << partition;
        }
        self.held & 1 << partition != 0
    }

    /// Whether what is read now need not be remembered. Once: the next read may be of another row.
    #[inline]
    pub(super) fn is_covered(&mut self) -> bool {
        std::mem::take(&mut self.covered)
    }

    /// What is looked for next is nothing that it came to before.
    #[inline]
    pub(super) fn leave(&mut self) {
        self.covered = false;
    }

    /// Lets all locks go.
    #[inline]
    pub(super) fn let_go(&mut self, locks: &Locks) {
        while self.held != 0 {
            let partition = self.held.trailing_zeros() as usize;
            // Release: all that was done under it.
            locks.0[partition].store(0, Ordering::Release);
            self.held &= self.held - 1;
        }
    }
}

/// Aborts the region because of a lock. The code is the one thing that comes out of it.
#[cold]
fn abort_for(partition: usize) {
    macro_rules! codes {
        ($($number:literal)*) => {
            match partition {
                $($number => htm::abort::<{ HELD + $number }>(),)*
                _ => unreachable!("there is no lock {partition}"),
            }
        };
    }
    codes!(
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
    );
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle", feature = "simulation"))))]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_what_begins_alike() {
        assert_eq!(of(&[5 << 48 | 77], 16), of(&[5 << 48, 3], 16));
        let apart: std::collections::BTreeSet<usize> = (1..9).map(|number| of(&[number << 48], 16)).collect();
        assert_eq!(apart.len(), 8, "the first few numbers have locks of their own");
        assert_eq!(of(&[u64::MAX], 0), of(&[0], 0), "one for all");
        assert_ne!(of(&[1], 64), of(&[2], 64));
    }

    #[test]
    fn locks_are_let_go() {
        let (locks, mut one, mut other) = (Locks::new(), Own::default(), Own::default());
        assert!(one.take(&locks, 3, 0) && one.take(&locks, 63, 0) && one.take(&locks, 3, 0));
        assert!(!other.take(&locks, 63, 1) && other.take(&locks, 4, 1));
        one.let_go(&locks);
        assert!(other.take(&locks, 63, 1));
        one.come_to(63);
        assert!(!one.is_covered());
        other.come_to(63);
        assert!(other.is_covered() && !other.is_covered());
    }

    #[test]
    fn codes_tell_the_lock() {
        assert_eq!(awaited(htm::Abort::Explicit(HELD + 63)), Some(63));
        assert_eq!(awaited(htm::Abort::Explicit(super::super::LOCKED)), None);
    }
}
