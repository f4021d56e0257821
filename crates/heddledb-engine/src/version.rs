//! Old versions: what a snapshot may still need hangs off its record.
//!
//! **Mechanism.** Each column group of a record has one *head* word, between the concurrency words and the
//! data: the newest of its old versions, which leads to the next older one, and so on. A writer that
//! overwrites a version which may be needed first copies it into a block and puts that in front ([`push`]).
//! Readers of a snapshot take the first version in the chain that is old enough ([`find`]). A version that no
//! snapshot can need any more is taken out again, wherever in the chain it is ([`unlink`]), and its block is
//! reused when every worker that could have seen it has finished.
//!
//! ```text
//!   head                     block                    block
//!   +----------------+      +------+-------+------+   +------+-------+------+
//!   | newest, flags  |----->| next | stamp | data |-->| next | stamp | data |--> nothing
//!   +----------------+      +------+-------+------+   +------+-------+------+
//! ```
//!
//! **Changing a chain.** Pushing needs the group's lock, so stamps fall along the chain. Unlinking needs the
//! latch in the head word, which pushing respects. Readers need neither: links change by single stores, an
//! unlinked block keeps its own link, and no block is reused while a reader is pinned. Where a protocol keeps
//! every version ([`ConcurrencyWords::EVERY_VERSION`]), writers also cut a chain to what is needed ([`cut`]),
//! so that it does not grow with each write of an epoch.
//!
//! [`ConcurrencyWords::EVERY_VERSION`]: crate::record::ConcurrencyWords::EVERY_VERSION
//!
//! Two low bits of a head are flags: the latch, and, in the head of group 0, that the record waits in some
//! worker's queue for its reclamation, so that it waits in one queue only ([`enqueue`]).

use crate::record::RecordRef;
use crate::stamp;
use crate::sync::{ASSERTS_LOAD, AtomicU64, Ordering, Wait};

/// Held while the chain is changed in its middle.
const LATCH: u64 = 1;
/// The record is in a queue of possible garbage.
const QUEUED: u64 = 2;
const FLAGS: u64 = LATCH | QUEUED;
/// Words of a block in front of the data.
pub(crate) const HEADER: usize = 2;
const NEXT: usize = 0;
const STAMP: usize = 1;

/// An old version of one column group: a block with a link, a stamp, and the group's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Version(RecordRef);

impl Version {
    /// Makes a block a version; the caller then stores the data words from [`Version::word`] 0 on.
    pub fn new(block: RecordRef, stamp: u64) -> Self {
        // Relaxed: published by `push`.
        block.word(STAMP).store(stamp, Ordering::Relaxed);
        Self(block)
    }

    /// Where its words are in the block.
    pub const WORDS: usize = HEADER;

    /// Changes the stamp, to one of the same epoch. The caller holds the group's lock.
    pub fn set_stamp(self, stamp: u64) {
        // Relaxed: readers look for the epoch alone.
        self.0.word(STAMP).store(stamp, Ordering::Relaxed);
    }

    /// The block, to give it back.
    pub fn block(self) -> RecordRef {
        self.0
    }

    /// The stamp, with its absent bit and without a lock.
    pub fn stamp(self) -> u64 {
        self.0.word(STAMP).load(Ordering::Relaxed)
    }

    /// Word `index` of the group's data; a version of an absent row has none.
    pub fn word(self, index: usize) -> &'static AtomicU64 {
        // Lives as long as the database, like every block; callers hold the database.
        self.0.lasting_word(HEADER + index)
    }

    fn of(link: u64) -> Option<Self> {
        RecordRef::from_link(link & !FLAGS).map(Self)
    }

    fn next(self) -> &'static AtomicU64 {
        self.0.lasting_word(NEXT)
    }
}

/// Puts a version in front of a group's chain. The caller holds the group's lock and is pinned.
pub(crate) fn push(head: &AtomicU64, version: Version) {
    let mut wait = Wait::new();
    loop {
        let newest = head.load(Ordering::Relaxed);
        if newest & LATCH != 0 {
            // Held for a walk along the chain, by a holder that waits for nothing.
            wait.pause();
            continue;
        }
        version.next().store(newest & !FLAGS, Ordering::Relaxed);
        // Release: publishes the block. Acquire: on top of what the last latch holder left.
        let link = version.0.to_link() | (newest & QUEUED);
        if head.compare_exchange(newest, link, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            let falls = |older: Version| stamp::time(older.stamp()) < stamp::time(version.stamp());
            debug_assert!(!ASSERTS_LOAD || Version::of(newest).is_none_or(falls), "a chain out of order");
            return;
        }
    }
}

/// The newest version of epoch `epoch` or before. The caller is pinned, and `epoch` is that of a live
/// snapshot.
pub(crate) fn find(head: &AtomicU64, epoch: u64) -> Option<Version> {
    newest(head, |stamp| stamp::epoch(stamp) <= epoch)
}

/// The newest version of time `time` or before. The caller is pinned, and is known to read at that time.
pub(crate) fn as_of(head: &AtomicU64, time: u64) -> Option<Version> {
    newest(head, |stamp| stamp::time(stamp) <= time)
}

/// The newest version that is old enough.
#[inline(always)]
fn newest(head: &AtomicU64, old_enough: impl Fn(u64) -> bool) -> Option<Version> {
    // Acquire, here and along the chain: pairs with `push`.
    let mut version = Version::of(head.load(Ordering::Acquire));
    while let Some(candidate) = version {
        if old_enough(candidate.stamp()) {
            return version;
        }
        version = Version::of(candidate.next().load(Ordering::Acquire));
    }
    None
}

/// Latches a chain against changes. Returns the newest version's link.
fn latch(head: &AtomicU64) -> u64 {
    let mut wait = Wait::new();
    loop {
        let newest = head.load(Ordering::Relaxed);
        // Acquire: pairs with the last latch holder's release and with `push`.
        if newest & LATCH == 0
            && head.compare_exchange(newest, newest | LATCH, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return newest;
        }
        wait.pause();
    }
}

/// Takes a version out of a group's chain, if it is still there. The caller is pinned.
pub(crate) fn unlink(head: &AtomicU64, version: Version) {
    // Most often it is the only one. Nothing is ever put behind a version, so that stays, and as it is
    // taken out only here, one exchange without the latch does it. Relaxed: compared below; and
    // the link is this worker's own, or was changed under a latch since released.
    let only = head.load(Ordering::Relaxed);
    if only & !QUEUED == version.0.to_link() && version.next().load(Ordering::Acquire) == 0 {
        let none = only & QUEUED;
        if head.compare_exchange(only, none, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return;
        }
    }
    let newest = latch(head);
    let mut first = newest;
    let mut newer: Option<Version> = None;
    let mut at = Version::of(newest);
    while let Some(candidate) = at {
        let older = candidate.next().load(Ordering::Acquire);
        if candidate == version {
            match newer {
                // Release: readers follow the link to a block published earlier.
                Some(newer) => newer.next().store(older, Ordering::Release),
                None => first = older,
            }
            break;
        }
        (newer, at) = (at, Version::of(older));
    }
    unlatch(head, first);
}

/// Takes out of a chain every version that is not needed any more. `until` is when the newest of them was
/// overwritten; `needed` is asked of each with the times of its stamp and of its end. The caller holds the
/// group's lock and is pinned; the caller that had the blocks kept gives them back.
pub(crate) fn cut(head: &AtomicU64, mut until: u64, needed: impl Fn(u64, u64) -> bool) {
    let mut first = latch(head) & !FLAGS;
    let mut newer: Option<Version> = None;
    let mut at = Version::of(first);
    while let Some(candidate) = at {
        let (from, older) = (stamp::time(candidate.stamp()), candidate.next().load(Ordering::Acquire));
        // Where the one after it was taken out before, it ended earlier than this says, and is kept for
        // longer.
        if needed(from, until) {
            newer = at;
        } else {
            match newer {
                // Release: readers follow the link to a block published earlier.
                Some(newer) => newer.next().store(older, Ordering::Release),
                None => first = older,
            }
        }
        (until, at) = (from, Version::of(older));
    }
    unlatch(head, first);
}

/// Ends the latch, with `first` as the newest version. The queue flag may have changed meanwhile.
fn unlatch(head: &AtomicU64, first: u64) {
    let mut word = head.load(Ordering::Relaxed);
    loop {
        let new = (first & !FLAGS) | (word & QUEUED);
        match head.compare_exchange(word, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => word = now,
        }
    }
}

/// Notes that a record is about to wait for its reclamation; false if it does already, elsewhere. `head` is
/// that of its group 0. AcqRel, here and in `dequeue`: a worker that finds the flag set leaves the record to
/// the worker that set it, which looks at the record only after clearing the flag.
pub(crate) fn enqueue(head: &AtomicU64) -> bool {
    head.fetch_or(QUEUED, Ordering::AcqRel) & QUEUED == 0
}

/// Ends that wait, before the record is looked at.
pub(crate) fn dequeue(head: &AtomicU64) {
    head.fetch_and(!QUEUED, Ordering::AcqRel);
}

/// The epoch of the oldest version in a group's chain. The caller is pinned.
pub(crate) fn oldest(head: &AtomicU64) -> Option<u64> {
    let mut oldest = None;
    let mut version = Version::of(head.load(Ordering::Acquire));
    while let Some(candidate) = version {
        oldest = Some(stamp::epoch(candidate.stamp()));
        version = Version::of(candidate.next().load(Ordering::Acquire));
    }
    oldest
}

/// How many versions a group's chain has. The caller is pinned.
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
pub(crate) fn len(head: &AtomicU64) -> usize {
    let mut versions = 0;
    let mut version = Version::of(head.load(Ordering::Acquire));
    while let Some(candidate) = version {
        versions += 1;
        version = Version::of(candidate.next().load(Ordering::Acquire));
    }
    versions
}

/// Whether a group has old versions.
pub(crate) fn any(head: &AtomicU64) -> bool {
    head.load(Ordering::Relaxed) & !FLAGS != 0
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::arena::Arena;

    fn version(arena: &mut Arena, epoch: u64) -> Version {
        let version = Version::new(arena.version(1), stamp::floor(epoch));
        version.word(0).store(epoch, Ordering::Relaxed);
        version
    }

    fn seen(head: &AtomicU64, epoch: u64) -> Option<u64> {
        find(head, epoch).map(|version| version.word(0).load(Ordering::Relaxed))
    }

    #[test]
    fn a_chain_gives_each_epoch_its_version_and_loses_only_what_is_unlinked() {
        let (mut arena, head) = (Arena::default(), AtomicU64::new(0));
        assert!(!any(&head) && seen(&head, 9).is_none());
        let versions = [3, 5, 9].map(|epoch| version(&mut arena, epoch));
        versions.iter().for_each(|version| push(&head, *version));
        let all = [(2, None), (3, Some(3)), (4, Some(3)), (5, Some(5)), (8, Some(5)), (9, Some(9))];
        all.iter().for_each(|(epoch, expected)| assert_eq!(seen(&head, *epoch), *expected));
        unlink(&head, versions[1]);
        assert_eq!((seen(&head, 8), seen(&head, 9)), (Some(3), Some(9)));
        unlink(&head, versions[1]);
        unlink(&head, versions[2]);
        assert_eq!((seen(&head, 9), any(&head)), (Some(3), true));
        unlink(&head, versions[0]);
        assert!(!any(&head));
        assert!(enqueue(&head) && !enqueue(&head));
        push(&head, versions[0]);
        assert!(!enqueue(&head), "the flag outlives a push");
        unlink(&head, versions[0]);
        assert!(!enqueue(&head) && !any(&head), "and an unlink");
        dequeue(&head);
        assert!(enqueue(&head));
    }

    #[test]
    fn a_chain_is_cut_to_what_is_needed() {
        let (mut arena, head) = (Arena::default(), AtomicU64::new(0));
        let versions: Vec<Version> = (1..10).map(|epoch| version(&mut arena, epoch)).collect();
        versions.iter().for_each(|version| push(&head, *version));
        let read_at = |moments: &'static [u64]| {
            move |from: u64, until: u64| moments.iter().any(|at| (from..until).contains(&stamp::floor(*at)))
        };
        cut(&head, stamp::floor(12), read_at(&[2, 5, 11]));
        let kept = [2, 5, 9];
        for epoch in 1..12 {
            assert_eq!(seen(&head, epoch), kept.into_iter().rfind(|kept| *kept <= epoch), "{epoch}");
        }
        // Those that are in no chain any more are not missed.
        versions[..3].iter().for_each(|version| unlink(&head, *version));
        assert_eq!((seen(&head, 4), seen(&head, 8)), (None, Some(5)));
        // Between two that are left, the older seems to have lasted until the newer.
        cut(&head, stamp::floor(12), read_at(&[8]));
        assert_eq!((seen(&head, 8), seen(&head, 12)), (Some(5), Some(5)));
        cut(&head, stamp::floor(12), read_at(&[]));
        assert!(!any(&head));
    }

    #[test]
    fn pushing_and_unlinking_at_once_lose_nothing() {
        let head = AtomicU64::new(0);
        let (rounds, kept) = (if cfg!(miri) { 40 } else { 4_000 }, 7);
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut arena = Arena::default();
        let all: Vec<Version> = (1..=rounds).map(|epoch| version(&mut arena, epoch)).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for version in receiver {
                    unlink(&head, version);
                }
            });
            for version in &all {
                push(&head, *version);
                if !stamp::epoch(version.stamp()).is_multiple_of(kept) {
                    sender.send(*version).unwrap();
                }
            }
            drop(sender);
        });
        for epoch in kept..=rounds {
            assert_eq!(seen(&head, epoch), Some(epoch / kept * kept));
        }
    }
}
