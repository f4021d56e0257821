//! The ordered index: a B+tree with optimistic lock coupling.
//!
//! **Problem.** Most visits read: a descent must write no shared line, and a leaf must be copied
//! as of one version, which the caller can check again at commit.
//!
//! **Mechanism** (Leis et al., "The ART of Practical Synchronization", DaMoN 2016, for a B+tree).
//! A reader takes a node's version, reads its words, takes the child's version, and checks that
//! the parent's still stands; after any change it starts again at the root. A writer descends like
//! a reader and then *upgrades*: it latches by compare-exchange from the version that it read, so
//! that a latch never needs a second look at the node. A latch is never waited for by who holds
//! one: a failed upgrade drops all and starts again, hence no cycle of waits.
//!
//! - *Leaf*: `count` entries, keys ascending. *Inner*: `count` children and `count - 1`
//!   separators; child `i` holds the keys `separator[i-1] <= key < separator[i]`. An inner may have
//!   a single child.
//! - *Range of a leaf*: between the tightest separators met on the way down. There are no sibling
//!   links: a scan descends again from the end of the range that it has read.
//! - *Split*: a full inner is split by whoever passes it to insert, so that a parent always has
//!   room. Parent and node are latched, after the new node was taken from its pool: its memory may
//!   have to come from the system first. The new node takes the upper part, and a leaf's stamp.
//!   An insert where the one before it stopped (an ascending stream) splits at that place, so that
//!   streams leave full leaves behind; others split in the middle.
//! - *Unlink*: the remove that empties a leaf finds its *anchor*, the lowest inner above with two
//!   or more children, latches it and all below down to the leaf, takes that branch out of the
//!   anchor, and marks its nodes obsolete. The neighbouring leaf, latched for that moment, takes
//!   over the range and the stamp (by maximum). It repeats until the leaf is gone or has entries
//!   again, so that no empty leaf is left behind, save a tree's only one.
//! - *Merge*: the remove that leaves few entries in a leaf tries to put them into a neighbour below the
//!   same parent, so that random removes do not leave ever more leaves behind. Parent and both leaves
//!   are latched; range and stamp go over as above.
//! - *Root*: `root` changes only under the latch of the node that is the root, before that latch
//!   is released; who finds it unchanged after taking a node's version has the root.
//!
//! **Invariants.**
//! 1. A leaf's range shrinks only by a split of that leaf, which changes its version. It grows by
//!    the unlinking of an empty neighbour, without a change: a reader's older range is then a part of
//!    it. It grows by a merge too, under the latch of the parent: who has the leaf's version after it has
//!    come through the parent after it, and so knows the new range.
//! 2. An entry moves between leaves only under both latches. Whoever held `Seen` of the old leaf
//!    is told by its version, and the one who caused it by [`Change::split`].
//! 3. A stamp raised before a leaf was latched for split or unlink reaches the leaf that takes over
//!    (the story of [`Gap`]; a scanner who raises it later finds the version changed).
//! 4. Nodes live in pools which are freed with the tree. Leaves stay leaves and inners stay inners
//!    for all their lives, so that a late reader reads words of the kind that it expects.

use self::memory::Pool;
use super::{Change, Direction, Fold, Gap, GapRef, Inserted, Latch, Lookup, Seen};
use crate::mutant::{Mutant, planted};
use crate::record::RecordRef;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Wait, Work, point, prefetch, work};
use std::ptr::NonNull;

/// Entries of a leaf and children of an inner: 512 bytes for one-word keys (32 + 30 * 16), and few
/// enough under Miri and model checkers that splits come early.
const CAPACITY: usize = if crate::sync::MODEL || cfg!(miri) { 4 } else { 30 };

/// Levels that no tree reaches: each level costs at least half a node's worth of splits of the one
/// below, so the height is logarithmic in the splits ever made, also where nodes ran nearly empty.
const HEIGHT_MAX: usize = 32;

/// A node that left its tree, to be given back by `recycle` once no reader can know it any more.
#[derive(Debug)]
#[must_use]
pub struct Retired {
    node: NonNull<()>,
    /// The pool of the node: an identity, never followed.
    pool: NonNull<()>,
}

// SAFETY: a retired node is atomic words in a pool that any thread may return it to.
unsafe impl Send for Retired {}
// SAFETY: a shared Retired gives access to nothing.
unsafe impl Sync for Retired {}

/// An ordered index of `N`-word keys, with nodes of `CAP` entries.
pub struct BTree<const N: usize, const CAP: usize = CAPACITY> {
    /// Written under the latch of the node that it leads to (Release), read by all (Acquire).
    root: AtomicPtr<Node<N, CAP>>,
    /// Immutable after `new`; boxed, so that their addresses identify the tree.
    pools: Box<Pools<N, CAP>>,
    /// What becomes of the stamps of leaves that are merged.
    fold: Fold,
}

struct Pools<const N: usize, const CAP: usize> {
    leaves: Pool<Node<N, CAP>>,
    inners: Pool<Node<N, CAP>>,
}

/// A leaf or an inner. The words behind `leaf` are stored under the latch and read by all.
#[repr(C, align(64))]
struct Node<const N: usize, const CAP: usize> {
    /// Must come first: the line of the version is the first that a visitor touches.
    gap: Gap,
    /// Immutable.
    leaf: bool,
    /// Entries of a leaf, children of an inner.
    count: AtomicU32,
    /// Leaf: where the key after the last inserted one would go; `NOWHERE` if unknown.
    next: AtomicU32,
    keys: [[AtomicU64; N]; CAP],
    /// Records of a leaf (`AtomicU64`), children of an inner (`Node`).
    pointers: [AtomicPtr<()>; CAP],
}

const NOWHERE: u32 = u32::MAX;

const _: () = assert!(crate::sync::MODEL || size_of::<Node<1, 30>>() == 512);

/// What an insert found, latched and ready: nothing can fail after this.
struct Spot<'a, const N: usize, const CAP: usize> {
    leaf: &'a Node<N, CAP>,
    latch: Latch<'a>,
    position: usize,
    /// For a full leaf: the new leaf.
    spare: Option<Spare<'a, N, CAP>>,
    /// For a full leaf that is not the root: its parent, latched and with room, and its place.
    parent: Option<(&'a Node<N, CAP>, Latch<'a>, usize)>,
}

/// A node for a split that may yet fail. Dropped, it goes back.
struct Spare<'a, const N: usize, const CAP: usize> {
    node: NonNull<Node<N, CAP>>,
    pool: &'a Pool<Node<N, CAP>>,
}

impl<'a, const N: usize, const CAP: usize> Spare<'a, N, CAP> {
    fn new(pool: &'a Pool<Node<N, CAP>>) -> Self {
        Self { node: pool.take(), pool }
    }

    /// The node, for good.
    fn used(self) -> &'a Node<N, CAP> {
        let node = self.node;
        std::mem::forget(self);
        // SAFETY: the pool hands out initialised nodes that stay mapped as long as the pool.
        unsafe { node.as_ref() }
    }
}

impl<const N: usize, const CAP: usize> Drop for Spare<'_, N, CAP> {
    fn drop(&mut self) {
        self.pool.give(self.node);
    }
}

/// The leaf that was visited last, so that a visit of one of its neighbours need not begin at the root.
pub struct Near<'a, const N: usize, const CAP: usize = CAPACITY> {
    leaf: Option<(&'a Node<N, CAP>, u64)>,
    /// Its range at that version, and so also later while the version stands (invariant 1).
    low: Option<[u64; N]>,
    high: Option<[u64; N]>,
}

impl<const N: usize, const CAP: usize> Default for Near<'_, N, CAP> {
    fn default() -> Self {
        Self { leaf: None, low: None, high: None }
    }
}

impl<'a, const N: usize, const CAP: usize> Near<'a, N, CAP> {
    /// The leaf and its version, if the key's place is in its range.
    #[inline(always)]
    fn leaf_of(&self, key: &[u64; N]) -> Option<(&'a Node<N, CAP>, u64)> {
        let above = self.low.is_none_or(|low| !less(key, &low));
        let below = self.high.is_none_or(|high| less(key, &high));
        self.leaf.filter(|(leaf, version)| above && below && leaf.gap.stands(*version))
    }
}

enum Prepared<'a, const N: usize, const CAP: usize> {
    Exists(RecordRef, Seen),
    Ready(Spot<'a, N, CAP>),
}

/// A leaf, its version, and its range.
type Fenced<'a, const N: usize, const CAP: usize> =
    (&'a Node<N, CAP>, u64, Option<[u64; N]>, Option<[u64; N]>);

/// A version moved or a latch was taken: start again at the root.
struct Interrupted;

impl<const N: usize, const CAP: usize> BTree<N, CAP> {
    /// An empty tree: one leaf.
    pub(crate) fn new(fold: Fold) -> Self {
        const { assert!(CAP >= 4, "an inner must split into two that are not full") };
        let pools = Box::new(Pools { leaves: Pool::new(Node::leaf), inners: Pool::new(Node::inner) });
        let root = AtomicPtr::new(pools.leaves.take().as_ptr());
        Self { root, pools, fold }
    }

    /// Looks up one key.
    #[inline]
    pub(crate) fn get(&self, key: &[u64; N]) -> Lookup {
        loop {
            let Ok((leaf, version)) = self.descend(key) else { continue };
            if let Some(lookup) = leaf.look(key, version) {
                return lookup;
            }
        }
    }

    /// As `get`, from where the last visit was.
    #[inline]
    pub(crate) fn get_near<'a>(&'a self, key: &[u64; N], near: &mut Near<'a, N, CAP>) -> Lookup {
        loop {
            let Ok((leaf, version)) = self.approach(key, near) else { continue };
            if let Some(lookup) = leaf.look(key, version) {
                return lookup;
            }
        }
    }

    /// As `insert`, from where the last visit was.
    pub(crate) fn insert_near<'a>(
        &'a self,
        key: &[u64; N],
        near: &mut Near<'a, N, CAP>,
        make: impl FnOnce(&Gap) -> RecordRef,
    ) -> Inserted {
        let spot = loop {
            let Ok((leaf, version)) = self.approach(key, near) else { continue };
            let count = leaf.count();
            let position = leaf.lower(key, count);
            if leaf.holds(position, key) {
                match leaf.record(position) {
                    Some(record) if leaf.gap.stands(version) => {
                        return Inserted::Exists(record, Seen { gap: GapRef::new(&leaf.gap), version });
                    }
                    _ => continue,
                }
            }
            // A split begins at the parent.
            if count == CAP {
                break None;
            }
            if let Some(latch) = leaf.gap.try_latch(version) {
                break Some(Spot { leaf, latch, position, spare: None, parent: None });
            }
        };
        let Some(spot) = spot else {
            near.leaf = None;
            return self.insert(key, make);
        };
        let (leaf, record) = (spot.leaf, make(&spot.leaf.gap));
        let change = self.fill(spot, key, record);
        near.leaf = Some((leaf, change.after));
        Inserted::Added { record, change }
    }

    /// Adds an entry unless the key has one. `make` runs at most once, under the latch of the leaf,
    /// and gets the gap that holds the key's place.
    pub(crate) fn insert(&self, key: &[u64; N], make: impl FnOnce(&Gap) -> RecordRef) -> Inserted {
        // Kept from one try to the next: its pool has one lock for all.
        let (mut spare, mut wait) = (None, Wait::new());
        loop {
            match self.prepare(key, &mut spare) {
                Ok(Prepared::Exists(record, seen)) => return Inserted::Exists(record, seen),
                Ok(Prepared::Ready(spot)) => {
                    let record = make(&spot.leaf.gap);
                    return Inserted::Added { record, change: self.fill(spot, key, record) };
                }
                Err(Interrupted) => wait.pause(),
            }
        }
    }

    /// Removes the entry of `key` if it leads to `record` and `seal`, run under the latch of the
    /// entry's gap, agrees. Unlinked nodes go to `retired`.
    pub(crate) fn remove(
        &self,
        key: &[u64; N],
        record: RecordRef,
        seal: impl FnOnce(&Gap) -> bool,
        retired: &mut Vec<Retired>,
    ) -> bool {
        let mut wait = Wait::new();
        loop {
            let Ok((leaf, version)) = self.descend(key) else { continue };
            let count = leaf.count();
            let position = leaf.lower(key, count);
            if !leaf.holds(position, key) || leaf.record(position) != Some(record) {
                if leaf.gap.stands(version) {
                    return false;
                }
                continue;
            }
            let Some(latch) = leaf.gap.try_latch(version) else {
                wait.pause();
                continue;
            };
            if !seal(&leaf.gap) {
                return false;
            }
            leaf.close(position, count);
            leaf.set_count(count - 1);
            // Relaxed: under the latch.
            let next = leaf.next.load(Ordering::Relaxed);
            if next != NOWHERE && position < next as usize {
                leaf.next.store(next - 1, Ordering::Relaxed);
            }
            latch.release();
            match count - 1 {
                0 => self.unlink(key, retired),
                // A few times in its life, and at once or not at all: nothing depends on it.
                few if few <= Self::SPARSE && few.is_power_of_two() => _ = self.try_merge(key, retired),
                _ => {}
            }
            return true;
        }
    }

    /// Takes back a node that no reader can know any more.
    ///
    /// # Panics
    /// If the node is of another index.
    pub(crate) fn recycle(&self, node: Retired) {
        assert_eq!(node.pool, self.identity(), "a retired node goes back to its own index");
        let node = node.node.cast::<Node<N, CAP>>();
        // SAFETY: only `retire` of this tree makes a Retired with this identity, from a node of
        // its pools, which stay mapped until the tree is dropped.
        let leaf = unsafe { node.as_ref() }.leaf;
        let pool = if leaf { &self.pools.leaves } else { &self.pools.inners };
        pool.give(node);
    }

    /// Appends to `out` the entries of one leaf that lie in `low..=high`, in the scan's direction,
    /// starting from `low` (forward) or `high` (reverse); of many, the first `most`.
    ///
    /// Returns what was seen, of the version to which the entries belong, and where those after them
    /// start (the new `low`, or the new `high`); `None` when the range is exhausted.
    pub(crate) fn read_leaf(
        &self,
        direction: Direction,
        low: &[u64; N],
        high: &[u64; N],
        most: usize,
        out: &mut Vec<([u64; N], RecordRef)>,
    ) -> (Seen, Option<[u64; N]>) {
        let start = match direction {
            Direction::Forward => low,
            Direction::Reverse => high,
        };
        let kept = out.len();
        out.reserve(CAP);
        loop {
            let Ok((leaf, version, below, above)) = self.descend_fenced(start) else { continue };
            let count = leaf.count();
            let from = leaf.lower(low, count);
            let entry = |i| leaf.record(i).map(|record| (leaf.key(i), record));
            // The first entry that was left out, or else the leaf's fence.
            let next = match direction {
                Direction::Forward => {
                    let to = count.min(from.saturating_add(most));
                    out.extend((from..to).map_while(entry).take_while(|(key, _)| key <= high));
                    let next = if to < count { Some(leaf.key(to)) } else { above };
                    next.filter(|next| next <= high)
                }
                Direction::Reverse => {
                    let to = leaf.upper(high, count);
                    let first = from.max(to.saturating_sub(most));
                    out.extend((first..to).rev().map_while(entry));
                    // A low fence has keys below it, so that it is no zero.
                    let fence = || below.filter(|fence| fence > low).map(predecessor);
                    if first > from { Some(leaf.key(first - 1)) } else { fence() }
                }
            };
            if leaf.gap.stands(version) {
                return (Seen { gap: GapRef::new(&leaf.gap), version }, next);
            }
            out.truncate(kept);
        }
    }

    /// Nodes in the tree, or retired and not recycled.
    pub(crate) fn nodes(&self) -> usize {
        self.pools.leaves.taken() + self.pools.inners.taken()
    }

    // ---- Descent -------------------------------------------------------------------------------

    #[inline(always)]
    fn node(&self, pointer: *mut ()) -> &Node<N, CAP> {
        // SAFETY: callers pass the root or a child read under a version that they have since found
        // standing: a node of this tree's pools, initialised before it was linked (Release of the
        // linking writer, Acquire of the version), and mapped as long as `self`.
        unsafe { &*pointer.cast::<Node<N, CAP>>() }
    }

    #[inline(always)]
    fn root(&self) -> Result<(&Node<N, CAP>, u64), Interrupted> {
        // Acquire: pairs with the stores in `fill`, `split_inner` and `collapse`.
        let pointer = self.root.load(Ordering::Acquire);
        let node = self.node(pointer.cast());
        let version = node.gap.settled().ok_or(Interrupted)?;
        // Relaxed: `root` is stored before the old root's version is released, which `settled`
        // acquired.
        if self.root.load(Ordering::Relaxed) == pointer { Ok((node, version)) } else { Err(Interrupted) }
    }

    /// The child at `position` and its version, given that `node` still stands at `version`.
    #[inline(always)]
    fn step<'a>(
        &'a self,
        node: &Node<N, CAP>,
        version: u64,
        position: usize,
    ) -> Result<(&'a Node<N, CAP>, u64), Interrupted> {
        // Relaxed: the check below orders it.
        let pointer = node.pointers[position].load(Ordering::Relaxed);
        work(Work::Node);
        prefetch(pointer, 4);
        // Once before following the pointer, and once so that the child's version is of a moment
        // when it was this child.
        if !node.gap.stands(version) {
            return Err(Interrupted);
        }
        let child = self.node(pointer);
        point("child");
        let child_version = child.gap.settled().ok_or(Interrupted)?;
        if node.gap.stands(version) || planted(Mutant::TreeChildNotRechecked) {
            Ok((child, child_version))
        } else {
            Err(Interrupted)
        }
    }

    /// The leaf that holds the place of `key`, and its version.
    #[inline(always)]
    fn descend(&self, key: &[u64; N]) -> Result<(&Node<N, CAP>, u64), Interrupted> {
        let (mut node, mut version) = self.root()?;
        while !node.leaf {
            (node, version) = self.step(node, version, node.child(key, node.count()))?;
        }
        Ok((node, version))
    }

    /// As `descend`, with the range of the leaf: its first key, and the first key beyond it; `None` at an
    /// end of the tree.
    #[inline(always)]
    fn descend_fenced(&self, key: &[u64; N]) -> Result<Fenced<'_, N, CAP>, Interrupted> {
        let (mut node, mut version) = self.root()?;
        let (mut low, mut high) = (None, None);
        while !node.leaf {
            let count = node.count();
            let position = node.child(key, count);
            if position + 1 < count {
                high = Some(node.key(position));
            }
            if position > 0 {
                low = Some(node.key(position - 1));
            }
            (node, version) = self.step(node, version, position)?;
        }
        Ok((node, version, low, high))
    }

    /// The leaf that holds the place of `key`, and its version: the leaf of `near`, or else one that
    /// `near` then has.
    #[inline(always)]
    fn approach<'a>(
        &'a self,
        key: &[u64; N],
        near: &mut Near<'a, N, CAP>,
    ) -> Result<(&'a Node<N, CAP>, u64), Interrupted> {
        if let Some(found) = near.leaf_of(key) {
            return Ok(found);
        }
        let (leaf, version, low, high) = self.descend_fenced(key)?;
        *near = Near { leaf: Some((leaf, version)), low, high };
        Ok((leaf, version))
    }

    // ---- Insert --------------------------------------------------------------------------------

    /// Finds the key, or latches what an insert of it will change. For a full leaf it takes the new one from `kept`, if there is one, and leaves it there if it fails.
    fn prepare<'a>(
        &'a self,
        key: &[u64; N],
        kept: &mut Option<Spare<'a, N, CAP>>,
    ) -> Result<Prepared<'a, N, CAP>, Interrupted> {
        let (mut node, mut version) = self.root()?;
        let mut parent: Option<(&Node<N, CAP>, u64, usize)> = None;
        loop {
            let count = node.count();
            if node.leaf {
                break;
            }
            let position = node.child(key, count);
            if count == CAP {
                self.split_inner(parent, node, version, position)?;
                // The parent now has another child; a new descent finds the right one.
                return Err(Interrupted);
            }
            parent = Some((node, version, position));
            (node, version) = self.step(node, version, position)?;
        }
        let count = node.count();
        let position = node.lower(key, count);
        if node.holds(position, key) {
            let record = node.record(position);
            return match record {
                Some(record) if node.gap.stands(version) => {
                    Ok(Prepared::Exists(record, Seen { gap: GapRef::new(&node.gap), version }))
                }
                _ => Err(Interrupted),
            };
        }
        if count == CAP && kept.is_none() {
            *kept = Some(Spare::new(&self.pools.leaves));
        }
        // Top-down, like all latches. The parent has room as of its version.
        let parent = match parent {
            Some((parent, version, place)) if count == CAP => {
                Some((parent, parent.gap.try_latch(version).ok_or(Interrupted)?, place))
            }
            _ => None,
        };
        let latch = node.gap.try_latch(version).ok_or(Interrupted)?;
        let spare = if count == CAP { kept.take() } else { None };
        Ok(Prepared::Ready(Spot { leaf: node, latch, position, spare, parent }))
    }

    /// Publishes the entry, splitting the leaf if it is full.
    fn fill(&self, spot: Spot<'_, N, CAP>, key: &[u64; N], record: RecordRef) -> Change {
        let Spot { leaf, latch, position, spare, parent } = spot;
        let gap = GapRef::new(&leaf.gap);
        let before = latch.before();
        let count = leaf.count();
        let pointer = record.as_ptr().cast();
        let Some(right) = spare.map(Spare::used) else {
            leaf.add_entry(position, count, key, pointer);
            return Change { gap, before, after: latch.release(), split: None };
        };

        // Relaxed: under the latch.
        point("split");
        let streaming = leaf.next.load(Ordering::Relaxed) as usize == position;
        let at = if position == CAP || streaming { position.max(1) } else { CAP / 2 };
        // SeqCst: after the latch, so that a stamp raised by a scanner who will find the version
        // unchanged is seen here. Relaxed store: the leaf is not linked yet.
        right.gap.stamp().store(leaf.gap.stamp().load(Ordering::SeqCst), Ordering::Relaxed);
        // Relaxed: not linked yet.
        right.next.store(NOWHERE, Ordering::Relaxed);
        for i in at..CAP {
            right.put(i - at, &leaf.key(i), leaf.pointer(i));
        }
        right.set_count(CAP - at);
        leaf.set_count(at);
        let separator = if position == CAP { *key } else { leaf.key(at) };
        if position == CAP {
            right.add_entry(0, 0, key, pointer);
        } else if position <= at {
            leaf.add_entry(position, at, key, pointer);
        } else {
            right.add_entry(position - at, CAP - at, key, pointer);
        }
        let split = Some(Seen { gap: GapRef::new(&right.gap), version: right.gap.revive() });
        self.link(parent.as_ref().map(|(parent, _, place)| (*parent, *place)), leaf, &separator, right);
        let after = latch.release();
        if let Some((_, latch, _)) = parent {
            latch.release();
        }
        Change { gap, before, after, split }
    }

    /// Splits a full inner: the descent is at its child `position`.
    fn split_inner(
        &self,
        parent: Option<(&Node<N, CAP>, u64, usize)>,
        node: &Node<N, CAP>,
        version: u64,
        position: usize,
    ) -> Result<(), Interrupted> {
        let spare = Spare::new(&self.pools.inners);
        let parent = match parent {
            Some((parent, version, place)) => {
                Some((parent, parent.gap.try_latch(version).ok_or(Interrupted)?, place))
            }
            None => None,
        };
        let latch = node.gap.try_latch(version).ok_or(Interrupted)?;
        // At the end, an ascending stream is likely: leave a full node behind.
        let at = if position == CAP - 1 { CAP - 1 } else { CAP / 2 };
        let right = spare.used();
        for i in at..CAP {
            // The separator after the last child does not exist; its slot is copied unread.
            right.put(i - at, &node.key(i), node.pointer(i));
        }
        right.set_count(CAP - at);
        node.set_count(at);
        right.gap.revive();
        self.link(
            parent.as_ref().map(|(parent, _, place)| (*parent, *place)),
            node,
            &node.key(at - 1),
            right,
        );
        latch.release();
        if let Some((_, latch, _)) = parent {
            latch.release();
        }
        Ok(())
    }

    /// Makes `right` the child after `left`, in the parent given with the place of `left`, or
    /// under a new root. Both are latched by the caller, who will release them.
    fn link(
        &self,
        parent: Option<(&Node<N, CAP>, usize)>,
        left: &Node<N, CAP>,
        separator: &[u64; N],
        right: &Node<N, CAP>,
    ) {
        if let Some((parent, place)) = parent {
            let count = parent.count();
            for i in (place + 1..count).rev() {
                parent.set_pointer(i + 1, parent.pointer(i));
                parent.set_key(i, &parent.key(i - 1));
            }
            parent.set_key(place, separator);
            parent.set_pointer(place + 1, right.as_pointer());
            parent.set_count(count + 1);
        } else {
            let root = Spare::new(&self.pools.inners).used();
            root.put(0, separator, left.as_pointer());
            root.set_pointer(1, right.as_pointer());
            root.set_count(2);
            root.gap.revive();
            // Release: pairs with `root`. `left` is the root, and latched.
            self.root.store(root.as_pointer().cast(), Ordering::Release);
        }
    }

    // ---- Unlink and merge ----------------------------------------------------------------------

    /// A leaf with no more entries may be put into its neighbour, if both together are half full at most.
    const SPARSE: usize = CAP / 4;

    /// Takes the leaf at the place of `key` out of the tree if it is empty. Ends because the
    /// latches in its way are held by threads that wait for none.
    #[cold]
    fn unlink(&self, key: &[u64; N], retired: &mut Vec<Retired>) {
        let mut wait = Wait::new();
        while self.try_unlink(key, retired).is_err() {
            wait.pause();
        }
        while self.collapse(retired).is_err() {
            wait.pause();
        }
    }

    fn try_unlink(&self, key: &[u64; N], retired: &mut Vec<Retired>) -> Result<(), Interrupted> {
        let (mut node, mut version) = self.root()?;
        let mut anchor = None;
        while !node.leaf {
            let count = node.count();
            let place = node.child(key, count);
            if count >= 2 {
                anchor = Some((node, version, place));
            }
            (node, version) = self.step(node, version, place)?;
        }
        let empty = node.count() == 0;
        if !node.gap.stands(version) {
            return Err(Interrupted);
        }
        let (Some((anchor, version, place)), true) = (anchor, empty) else { return Ok(()) };

        let anchor_latch = anchor.gap.try_latch(version).ok_or(Interrupted)?;
        let count = anchor.count();
        let mut branch = [const { None }; HEIGHT_MAX];
        let mut places = branch.iter_mut();
        let mut node = self.node(anchor.pointer(place));
        loop {
            let version = node.gap.settled_now().ok_or(Interrupted)?;
            let latch = node.gap.try_latch(version).ok_or(Interrupted)?;
            *places.next().expect("no tree in memory is that high") = Some((node, latch));
            if node.leaf {
                break;
            }
            if node.count() != 1 {
                return Err(Interrupted);
            }
            node = self.node(node.pointer(0));
        }
        if node.count() != 0 {
            return Ok(());
        }
        let after = place + 1 < count;
        let (heir, heir_latch) =
            self.edge(anchor.pointer(if after { place + 1 } else { place - 1 }), after)?;
        point("unlink");
        // Before the anchor's release lets an insert of this range reach the heir.
        heir.gap.inherit(&node.gap, self.fold);
        drop(heir_latch);
        anchor.cut(place, if after { place } else { place - 1 }, count);
        anchor_latch.release();
        for (node, latch) in branch.into_iter().flatten() {
            latch.retire();
            retired.push(self.retire(node));
        }
        Ok(())
    }

    /// Puts the leaf at the place of `key` into its neighbour if both have few entries.
    fn try_merge(&self, key: &[u64; N], retired: &mut Vec<Retired>) -> Result<(), Interrupted> {
        let (mut node, mut version) = self.root()?;
        let mut parent = None;
        while !node.leaf {
            let count = node.count();
            let place = node.child(key, count);
            parent = Some((node, version, place, count));
            (node, version) = self.step(node, version, place)?;
        }
        let Some((parent, parent_version, place, children @ 2..)) = parent else { return Ok(()) };
        let few = node.count();
        if few == 0 || few > Self::SPARSE {
            return Ok(());
        }
        let mut heir = None;
        for at in [place + 1, place.wrapping_sub(1)].into_iter().filter(|at| *at < children) {
            let (neighbour, version) = self.step(parent, parent_version, at)?;
            if heir.is_none() && few + neighbour.count() <= CAP / 2 {
                heir = Some((neighbour, version, at));
            }
        }
        let Some((heir, heir_version, heir_place)) = heir else { return Ok(()) };
        let (after, there) = (heir_place > place, heir.count());
        let parent_latch = parent.gap.try_latch(parent_version).ok_or(Interrupted)?;
        let latch = node.gap.try_latch(version).ok_or(Interrupted)?;
        let heir_latch = heir.gap.try_latch(heir_version).ok_or(Interrupted)?;
        // All that was read is of these versions.
        point("merge");
        if after {
            for i in (0..there).rev() {
                heir.put(i + few, &heir.key(i), heir.pointer(i));
            }
        }
        let to = if after { 0 } else { there };
        for i in 0..few {
            heir.put(to + i, &node.key(i), node.pointer(i));
        }
        heir.set_count(few + there);
        // Relaxed: under the latch.
        heir.next.store(NOWHERE, Ordering::Relaxed);
        heir.gap.inherit(&node.gap, self.fold);
        parent.cut(place, place.min(heir_place), children);
        heir_latch.release();
        parent_latch.release();
        latch.retire();
        retired.push(self.retire(node));
        // Again: if not now, at the next time.
        self.collapse(retired)
    }

    /// The first (or last) leaf below `top`, latched. `top` must stay in place: the caller has
    /// latched its parent.
    fn edge(&self, top: *mut (), first: bool) -> Result<(&Node<N, CAP>, Latch<'_>), Interrupted> {
        let mut node = self.node(top);
        let mut version = node.gap.settled_now().ok_or(Interrupted)?;
        // Each step sees the edge: a node stops being the edge of its level only by its own split
        // or unlinking, which changes its version.
        while !node.leaf {
            let position = if first { 0 } else { node.count().max(1) - 1 };
            let pointer = node.pointer(position);
            if !node.gap.stands(version) {
                return Err(Interrupted);
            }
            let child = self.node(pointer);
            let child_version = child.gap.settled_now().ok_or(Interrupted)?;
            if !node.gap.stands(version) {
                return Err(Interrupted);
            }
            (node, version) = (child, child_version);
        }
        Ok((node, node.gap.try_latch(version).ok_or(Interrupted)?))
    }

    /// Replaces a root that has a single child by that child.
    fn collapse(&self, retired: &mut Vec<Retired>) -> Result<(), Interrupted> {
        loop {
            let (root, version) = self.root()?;
            if root.leaf || root.count() != 1 {
                return if root.gap.stands(version) { Ok(()) } else { Err(Interrupted) };
            }
            let latch = root.gap.try_latch(version).ok_or(Interrupted)?;
            // Release: pairs with `root`. Under the latch of the root, before its release.
            self.root.store(root.pointer(0).cast(), Ordering::Release);
            latch.retire();
            retired.push(self.retire(root));
        }
    }

    fn retire(&self, node: &Node<N, CAP>) -> Retired {
        Retired { node: NonNull::from(node).cast(), pool: self.identity() }
    }

    fn identity(&self) -> NonNull<()> {
        NonNull::from(&*self.pools).cast()
    }
}

impl<const N: usize, const CAP: usize> Node<N, CAP> {
    fn new(leaf: bool) -> Self {
        Self {
            gap: Gap::new(),
            leaf,
            count: AtomicU32::new(0),
            next: AtomicU32::new(NOWHERE),
            keys: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            pointers: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    fn leaf() -> Self {
        Self::new(true)
    }

    fn inner() -> Self {
        Self::new(false)
    }

    fn as_pointer(&self) -> *mut () {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    // Words. All relaxed: stored under the latch or before linking, read under the latch or
    // between `settled` and `stands`, which order them.

    /// Never above `CAP`, even torn.
    #[inline(always)]
    fn count(&self) -> usize {
        (self.count.load(Ordering::Relaxed) as usize).min(CAP)
    }

    #[inline(always)]
    fn set_count(&self, count: usize) {
        self.count.store(count as u32, Ordering::Relaxed);
    }

    #[inline(always)]
    fn key(&self, i: usize) -> [u64; N] {
        std::array::from_fn(|word| self.keys[i][word].load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn set_key(&self, i: usize, key: &[u64; N]) {
        for (word, value) in self.keys[i].iter().zip(key) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn pointer(&self, i: usize) -> *mut () {
        self.pointers[i].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set_pointer(&self, i: usize, pointer: *mut ()) {
        self.pointers[i].store(pointer, Ordering::Relaxed);
    }

    #[inline(always)]
    fn put(&self, i: usize, key: &[u64; N], pointer: *mut ()) {
        self.set_key(i, key);
        self.set_pointer(i, pointer);
    }

    /// The record of a leaf's entry; `None` only where the look is torn.
    #[inline(always)]
    fn record(&self, i: usize) -> Option<RecordRef> {
        debug_assert!(self.leaf);
        // SAFETY: the pointers of a leaf are null (never used) or were stored by `add_entry` from
        // `RecordRef::as_ptr`: leaves never become inners, and a tree is of one database.
        unsafe { RecordRef::from_ptr(self.pointer(i).cast()) }
    }

    // Search.

    /// Keys below `key` among the first `count`: the place of `key`.
    #[inline(always)]
    fn lower(&self, key: &[u64; N], count: usize) -> usize {
        self.partition(count, |i| less(&self.key(i), key))
    }

    /// Keys not above `key` among the first `count`.
    #[inline(always)]
    fn upper(&self, key: &[u64; N], count: usize) -> usize {
        self.partition(count, |i| !less(key, &self.key(i)))
    }

    /// The child of an inner that leads to `key`.
    #[inline(always)]
    fn child(&self, key: &[u64; N], count: usize) -> usize {
        // A count of zero is torn; `step` will find out.
        self.upper(key, count.max(1) - 1)
    }

    /// Whether the entry at `i` exists and has this key.
    #[inline(always)]
    fn holds(&self, i: usize, key: &[u64; N]) -> bool {
        i < self.count() && self.key(i) == *key
    }

    /// What a leaf says of `key`, if it still stands at `version` after that.
    #[inline(always)]
    fn look(&self, key: &[u64; N], version: u64) -> Option<Lookup> {
        let position = self.lower(key, self.count());
        let found = self.holds(position, key).then(|| self.record(position));
        self.gap.stands(version).then(|| match found {
            Some(record) => Lookup::Found(record.expect("an entry below the count leads to a record")),
            None => Lookup::Missing(Seen { gap: GapRef::new(&self.gap), version }),
        })
    }

    /// The number of leading slots among `count` of which `below` is true: counted among the last
    /// slots of blocks, then in one block. Without a branch on a comparison, of which every second
    /// would be guessed wrong, and with loads that wait for nothing but their block. On a
    /// million keys it was ahead of halving and of a full count, in interleaved runs on a machine
    /// too busy to trust the factor.
    #[inline(always)]
    fn partition(&self, count: usize, below: impl Fn(usize) -> bool) -> usize {
        const BLOCK: usize = 8;
        let full: usize = (0..count / BLOCK).map(|block| usize::from(below(block * BLOCK + BLOCK - 1))).sum();
        let start = full * BLOCK;
        let end = (start + BLOCK).min(count);
        start + (start..end).map(|i| usize::from(below(i))).sum::<usize>()
    }

    // Changes, under the latch.

    fn add_entry(&self, position: usize, count: usize, key: &[u64; N], pointer: *mut ()) {
        for i in (position..count).rev() {
            self.put(i + 1, &self.key(i), self.pointer(i));
        }
        self.put(position, key, pointer);
        self.set_count(count + 1);
        self.next.store(position as u32 + 1, Ordering::Relaxed);
    }

    /// Takes the child at `place` out of `count`, with the separator between it and its heir.
    fn cut(&self, place: usize, separator: usize, count: usize) {
        for i in separator..count.saturating_sub(2) {
            self.set_key(i, &self.key(i + 1));
        }
        for i in place..count - 1 {
            self.set_pointer(i, self.pointer(i + 1));
        }
        self.set_count(count - 1);
    }

    /// Moves the entries behind `position` over it.
    fn close(&self, position: usize, count: usize) {
        for i in position + 1..count {
            self.put(i - 1, &self.key(i), self.pointer(i));
        }
    }
}

/// Whether `a < b`, without a branch.
#[inline(always)]
fn less<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    a.iter().zip(b).rev().fold(false, |less, (a, b)| (a < b) | ((a == b) & less))
}

/// The key just below; `key` is not zero.
fn predecessor<const N: usize>(mut key: [u64; N]) -> [u64; N] {
    for word in key.iter_mut().rev() {
        let (less, borrow) = word.overflowing_sub(1);
        *word = less;
        if !borrow {
            break;
        }
    }
    key
}

/// Type-stable memory for both indexes: regions that never move, and a pool of nodes over them.
pub(super) mod memory {
    use crate::sync::{Mutex, Ordering, fence, lock, name, shared_memory};
    use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
    use std::ptr::NonNull;

    /// Regions of more than half this size are mapped by themselves, aligned to it, in huge pages
    /// where the system grants them, and zero until touched.
    pub(in crate::index) const HUGE: usize = 2 << 20;

    /// Memory for an array, not initialised by Rust's rules unless `zeroed`.
    pub(in crate::index) struct Region {
        base: NonNull<u8>,
        layout: Layout,
        /// The mapping that holds `base`, if the region has one of its own.
        mapping: Option<Mapping>,
    }

    /// Start and length.
    type Mapping = (NonNull<u8>, usize);

    // SAFETY: a region owns its memory and gives no access by itself.
    unsafe impl Send for Region {}
    // SAFETY: as above.
    unsafe impl Sync for Region {}

    impl Region {
        /// Memory for `length` values of `T`.
        pub(in crate::index) fn new<T>(length: usize) -> Self {
            let layout = Layout::array::<T>(length).expect("an index smaller than the address space");
            assert_ne!(layout.size(), 0);
            // Whole huge pages, also where an odd size of `T` leaves the last one not quite full.
            if layout.size() > HUGE / 2
                && let Some((base, mapping)) = map(layout.size().next_multiple_of(HUGE))
            {
                shared_memory(base.as_ptr(), layout.size());
                return Self { base, layout, mapping: Some(mapping) };
            }
            // SAFETY: the layout has a size, asserted above.
            let base = unsafe { alloc(layout) };
            let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
            shared_memory(base.as_ptr(), layout.size());
            Self { base, layout, mapping: None }
        }

        /// Whether every byte is zero until it is written.
        pub(in crate::index) fn zeroed(&self) -> bool {
            self.mapping.is_some()
        }

        pub(in crate::index) fn base<T>(&self) -> NonNull<T> {
            self.base.cast()
        }
    }

    impl Drop for Region {
        fn drop(&mut self) {
            if let Some((start, length)) = self.mapping {
                unmap(start, length);
            } else {
                // SAFETY: `base` was allocated in `new` with this layout.
                unsafe { dealloc(self.base.as_ptr(), self.layout) }
            }
        }
    }

    /// A mapping that holds `size` zero bytes at an alignment of `HUGE`, at the first pointer.
    #[cfg(all(target_os = "linux", not(any(miri, feature = "loom", feature = "shuttle"))))]
    fn map(size: usize) -> Option<(NonNull<u8>, Mapping)> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let length = size.checked_add(HUGE)?;
        // SAFETY: a private anonymous mapping at an address of the system's choice touches nothing
        // that exists.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let start = NonNull::new(start.ok()?.cast::<u8>())?;
        let skip = start.as_ptr().align_offset(HUGE);
        assert!(skip < HUGE);
        // SAFETY: `skip + size` is within the `HUGE + size` bytes of the mapping.
        let base = unsafe { start.add(skip) };
        // SAFETY: the range lies in the new mapping; this advice changes no content. Where it is
        // refused, small pages serve.
        let _ = unsafe { madvise(base.as_ptr().cast(), size, Advice::LinuxHugepage) };
        Some((base, (start, length)))
    }

    #[cfg(all(target_os = "linux", not(any(miri, feature = "loom", feature = "shuttle"))))]
    fn unmap(start: NonNull<u8>, length: usize) {
        // SAFETY: `map` made exactly this mapping, and its region, the only owner, is being dropped.
        let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), length) };
    }

    #[cfg(not(all(target_os = "linux", not(any(miri, feature = "loom", feature = "shuttle")))))]
    fn map(_: usize) -> Option<(NonNull<u8>, Mapping)> {
        None
    }

    #[cfg(not(all(target_os = "linux", not(any(miri, feature = "loom", feature = "shuttle")))))]
    fn unmap(_: NonNull<u8>, _: usize) {
        unreachable!("nothing is mapped here");
    }

    /// Nodes that are handed out and taken back, initialised once and freed with the pool.
    pub(in crate::index) struct Pool<T> {
        make: fn() -> T,
        shelf: Mutex<Shelf<T>>,
    }

    struct Shelf<T> {
        /// The last is being handed out for the first time; the ones before are used up.
        chunks: Vec<Chunk<T>>,
        free: Vec<NonNull<T>>,
        taken: usize,
    }

    struct Chunk<T> {
        base: NonNull<T>,
        length: usize,
        /// The first `used` nodes are initialised.
        used: usize,
        _region: Region,
    }

    /// Nodes of the first chunk; each next one doubles, up to `HUGE` bytes.
    const FIRST_CHUNK: usize = 4;

    // SAFETY: the pool owns its nodes, and its mutex guards the lists.
    unsafe impl<T: Send> Send for Pool<T> {}
    // SAFETY: as above; nodes handed out are shared by reference.
    unsafe impl<T: Send + Sync> Sync for Pool<T> {}

    impl<T> Pool<T> {
        /// An empty pool of nodes that begin as `make` says.
        pub(in crate::index) fn new(make: fn() -> T) -> Self {
            Self { make, shelf: Mutex::new(Shelf { chunks: Vec::new(), free: Vec::new(), taken: 0 }) }
        }

        /// A node that nobody else has: a new one, or one given back, as it was then.
        pub(in crate::index) fn take(&self) -> NonNull<T> {
            let mut shelf = lock(&self.shelf);
            shelf.taken += 1;
            let node = match shelf.free.pop() {
                Some(node) => node,
                None => shelf.first_use(self.make),
            };
            drop(shelf);
            // Pairs with the acquire fence in `Gap::stands`: a late reader of the node's former
            // life, who reads a word of the new one, also sees what ended the former (which came
            // before `give`, and so before this).
            fence(Ordering::Release);
            node
        }

        /// Takes back a node of this pool. Late readers may still look at it.
        pub(in crate::index) fn give(&self, node: NonNull<T>) {
            let mut shelf = lock(&self.shelf);
            shelf.taken -= 1;
            shelf.free.push(node);
        }

        /// Nodes handed out and not given back.
        pub(in crate::index) fn taken(&self) -> usize {
            lock(&self.shelf).taken
        }
    }

    impl<T> Shelf<T> {
        fn first_use(&mut self, make: fn() -> T) -> NonNull<T> {
            let next = self.chunks.last().map_or(FIRST_CHUNK, |chunk| chunk.length * 2);
            if self.chunks.last().is_none_or(|chunk| chunk.used == chunk.length) {
                let length = next.min(HUGE / size_of::<T>());
                let region = Region::new::<T>(length);
                self.chunks.push(Chunk { base: region.base(), length, used: 0, _region: region });
            }
            let chunk = self.chunks.last_mut().expect("pushed above");
            // SAFETY: `used < length`, so the slot lies in the chunk's region, which was laid out
            // for `length` values; no one has it yet.
            let node = unsafe { chunk.base.add(chunk.used) };
            // SAFETY: as above.
            unsafe { node.write(make()) };
            name(node.as_ptr().cast(), size_of::<T>(), || format!("index node {}", self.taken));
            chunk.used += 1;
            node
        }
    }

    impl<T> Drop for Chunk<T> {
        fn drop(&mut self) {
            for i in 0..self.used {
                // SAFETY: the first `used` nodes were written by `first_use` and never dropped; the
                // pool's owner is being dropped, so no reference to them is left.
                unsafe { self.base.add(i).drop_in_place() }
            }
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
#[path = "btree_tests.rs"]
mod tests;
