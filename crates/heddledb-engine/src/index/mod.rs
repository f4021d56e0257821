//! Indexes: from a key to its record, with the hooks that make absence detectable.
//!
//! Both indexes map fixed-size keys of `N` words, compared as big-endian numbers, to a
//! [`RecordRef`]. What they add to an ordinary concurrent map is the [`Gap`]: the place where a
//! key *would* be. A B+tree leaf is the gap of every key in its range, a hash bucket of every key
//! that hashes to it.
//!
//! - A reader that finds a key missing, and a scanner, gets each gap that it looked at with the version at
//!   which it looked ([`Seen`]). As long as the version stands, no key has appeared in or left the gap.
//! - A writer that adds or removes an entry changes the gap's version, and learns the version before and
//!   after ([`Change`]), so that a transaction's own inserts do not invalidate its own scans.
//! - Each gap carries one more word, its *stamp*, which belongs to the protocol (TicToc keeps a
//!   read timestamp there, IC3 a set of scanners). Splits copy it, merges and removals [`Fold`] it.
//!
//! An entry may lead to a record that is absent (a placeholder of an insert that has not committed, or a
//! deleted record not yet reclaimed): the record's words say whether a row exists.

#![allow(unsafe_code)]

mod any;
mod btree;
mod hash;
mod hashing;
mod memory;

pub(crate) use any::{AnyIndex, Finger, Leaf, Walk, new_index};
pub use btree::Retired;

use crate::record::RecordRef;
use crate::sync::{AtomicU64, Ordering, Wait, fence, model_fence};
pub use crate::table::Direction;
use std::ptr::NonNull;

/// How the stamps of two gaps become one when the gaps do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// The greater one: stamps are times.
    Max,
    /// Their union: stamps are sets of bits.
    Union,
}

/// The state shared by every place where a key could be: one leaf or one bucket.
///
/// ```text
///   version   bit 0  latched by a writer
///             bit 1  obsolete: the node was unlinked, or waits in a pool for its next life
///             rest   count of changes; grows through every life of the node, never repeats
///
///   settled(v) --try_latch--> latched(v) --release--> settled(v + 4)
///                                 |------drop-------> settled(v)            nothing was changed
///                                 '-----retire------> obsolete(v + 4) --revive--> settled(v + 8)
/// ```
///
/// Seqlock discipline: a writer latches (compare-exchange), issues a release fence, stores the
/// node's words relaxed, and releases the version (Release). A reader loads a settled version
/// (Acquire), the words relaxed, and then asks [`Gap::stands`] (acquire fence, relaxed load): had
/// it read any word of a later writer, the fences would make it see that writer's latch.
///
/// **Stamp against version.** A scanner raises the stamp to its commit time, then reads the
/// version; an inserter changes the version (latch), then reads the stamp to choose its commit
/// time. Each writes one word and then reads the other's, so acquire and release alone would let
/// both miss each other. All four are SeqCst: the scanner's `fetch_max` and [`Gap::version`], the
/// inserter's [`Gap::try_latch`] and its load of the stamp. In their one total order either the
/// inserter sees the raised stamp, or the scanner sees the latch or a later version and aborts.
#[derive(Debug)]
#[repr(C)]
pub struct Gap {
    /// Written by the latch's holder; read by all. Carries the words of the node.
    version: AtomicU64,
    /// Raised by scanners and removers, read by inserters under the latch.
    stamp: AtomicU64,
}

const LATCHED: u64 = 1;
const OBSOLETE: u64 = 2;
const CHANGE: u64 = 4;

impl Gap {
    /// A gap that no reader has looked at.
    pub(crate) fn new() -> Self {
        Self { version: AtomicU64::new(0), stamp: AtomicU64::new(0) }
    }

    /// The version now, with its latch and obsolete bits. SeqCst: see the type's header.
    #[inline]
    pub fn version(&self) -> u64 {
        model_fence();
        self.version.load(Ordering::SeqCst)
    }

    /// Takes over the stamp of a gap whose place becomes part of this one; both are latched.
    pub(crate) fn inherit(&self, other: &Self, fold: Fold) {
        // SeqCst, after the latches: a stamp that was raised by a scanner that will find the version
        // unchanged is seen here.
        let stamp = other.stamp.load(Ordering::SeqCst);
        match fold {
            Fold::Max => self.stamp.fetch_max(stamp, Ordering::SeqCst),
            Fold::Union => self.stamp.fetch_or(stamp, Ordering::SeqCst),
        };
    }

    /// The word that belongs to the protocol.
    #[inline]
    pub fn stamp(&self) -> &AtomicU64 {
        &self.stamp
    }

    /// The settled version from which an optimistic look starts; waits for a latch's holder, which waits for
    /// nothing while it holds the latch. `None` if the node is obsolete.
    #[inline(always)]
    pub(crate) fn settled(&self) -> Option<u64> {
        // Acquire: pairs with the release of the last writer, whose words the look reads.
        let version = self.version.load(Ordering::Acquire);
        if version & (LATCHED | OBSOLETE) == 0 { Some(version) } else { self.settle() }
    }

    /// As `settled`, but `None` also while the node is latched: for a caller that holds another latch, and so
    /// may not wait.
    pub(crate) fn settled_now(&self) -> Option<u64> {
        // Acquire: as in `settled`.
        let version = self.version.load(Ordering::Acquire);
        (version & (LATCHED | OBSOLETE) == 0).then_some(version)
    }

    #[cold]
    fn settle(&self) -> Option<u64> {
        let mut wait = Wait::new();
        loop {
            // Acquire: as in `settled`.
            let version = self.version.load(Ordering::Acquire);
            if version & LATCHED == 0 {
                return (version & OBSOLETE == 0).then_some(version);
            }
            wait.pause();
        }
    }

    /// Whether every word read since `settled` returned `version` belongs to that version.
    #[inline(always)]
    pub(crate) fn stands(&self, version: u64) -> bool {
        // Pairs with the release fence in `try_latch`: a reader of a word stored after that fence also sees,
        // below, the latch taken before it.
        fence(Ordering::Acquire);
        // Relaxed: ordered by the fence.
        self.version.load(Ordering::Relaxed) == version
    }

    /// Latches the node if it is still at the settled `version`.
    #[inline(always)]
    pub(crate) fn try_latch(&self, version: u64) -> Option<Latch<'_>> {
        // SeqCst: the inserter's half of the stamp's story. As an acquire it pairs with the last
        // writer's release; a failure reads nothing that is used.
        self.version
            .compare_exchange(version, version | LATCHED, Ordering::SeqCst, Ordering::Relaxed)
            .ok()?;
        model_fence();
        // Pairs with the fence in `stands`.
        fence(Ordering::Release);
        Some(Latch { gap: self, version })
    }

    /// Lets go a latch that was kept, without a change: restores the `version` that it was taken at.
    pub(crate) fn unlatch(&self, version: u64) {
        // Release: as in `Latch::release`.
        self.version.store(version, Ordering::Release);
    }

    /// Begins the next life of a node taken from a pool, once its words are stored: by its only
    /// owner. Returns the settled version.
    pub(crate) fn revive(&self) -> u64 {
        // Relaxed: only the owner writes it while the node is in no tree.
        let version = self.version.load(Ordering::Relaxed);
        if version & OBSOLETE == 0 {
            return version;
        }
        let alive = (version & !OBSOLETE) + CHANGE;
        // Release: pairs with `settled`.
        self.version.store(alive, Ordering::Release);
        alive
    }
}

/// A held latch. Dropped, it restores the version, which is right only where no word was changed.
#[derive(Debug)]
#[must_use]
pub(crate) struct Latch<'a> {
    gap: &'a Gap,
    version: u64,
}

impl Latch<'_> {
    /// The version before the latch.
    #[inline(always)]
    pub(crate) fn before(&self) -> u64 {
        self.version
    }

    /// Keeps the latch, to be let go by [`Gap::unlatch`].
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }

    /// Publishes the changes. Returns the version after them.
    #[inline(always)]
    pub(crate) fn release(self) -> u64 {
        let after = self.version + CHANGE;
        // Release: pairs with `settled`; the words come before.
        self.gap.version.store(after, Ordering::Release);
        std::mem::forget(self);
        after
    }

    /// Marks the node obsolete.
    pub(crate) fn retire(self) {
        // Release: as in `release`.
        self.gap.version.store((self.version + CHANGE) | OBSOLETE, Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for Latch<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: as in `release`.
        self.gap.version.store(self.version, Ordering::Release);
    }
}

/// A reference to a gap. Nodes are type-stable like records: it stays valid with its database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GapRef(NonNull<Gap>);

// SAFETY: gives shared access to atomics in memory that lives as long as the database.
unsafe impl Send for GapRef {}
// SAFETY: as above.
unsafe impl Sync for GapRef {}

impl GapRef {
    /// What tells it from other gaps.
    #[inline]
    pub(crate) fn identity(self) -> usize {
        self.0.as_ptr() as usize
    }

    /// A reference to a gap in a node of an index.
    pub(crate) fn new(gap: &Gap) -> Self {
        Self(NonNull::from(gap))
    }
}

impl std::ops::Deref for GapRef {
    type Target = Gap;

    #[inline(always)]
    fn deref(&self) -> &Gap {
        // SAFETY: index nodes live in pools that are freed only with their index, and transactions
        // hold the database (and so every index) alive; see `btree` and `hash`.
        unsafe { self.0.as_ref() }
    }
}

/// A gap, and the version at which a reader looked at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The leaf or bucket.
    pub gap: GapRef,
    /// Its version, latch free.
    pub version: u64,
}

/// The outcome of a point look-up.
#[derive(Clone, Copy, Debug)]
pub enum Lookup {
    /// The key has an entry; its record may be absent.
    Found(RecordRef),
    /// The key has no entry, as of this look at its gap.
    Missing(Seen),
}

/// How an insert changed the gap it went to.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The gap that held the key's place.
    pub gap: GapRef,
    /// Its version before the insert.
    pub before: u64,
    /// Its version after the insert.
    pub after: u64,
    /// Where the gap was split: the gap that took over a part of it, and its version. A transaction that had
    /// seen `gap` at `before` has now seen both.
    pub split: Option<Seen>,
}

/// The outcome of an insert.
#[derive(Clone, Copy, Debug)]
pub enum Inserted {
    /// The key had an entry already, in this gap at this version; nothing was changed.
    Exists(RecordRef, Seen),
    /// The entry was added.
    Added {
        /// The record that the entry leads to.
        record: RecordRef,
        /// What happened to the gap.
        change: Change,
        /// Gaps that the insert split after that, in order: the one it went to, or others.
        splits: [Option<Change>; 2],
    },
}
