//! Descents from the root to a leaf, or from the leaf of the last visit, and the reading of a leaf.

use super::BTree;
use super::node::{CAPACITY, Node, less};
use crate::index::Leaf;
use crate::index::{Direction, GapRef, Seen};
use crate::mutant::{Mutant, planted};
use crate::sync::{Ordering, Work, point, prefetch, work};

/// The leaf that was visited last, so that a visit of one of its neighbours need not begin at the root.
pub struct TreeFinger<'a, const N: usize, const CAP: usize = CAPACITY> {
    pub(super) leaf: Option<(&'a Node<N, CAP>, u64)>,
    /// Its range at that version, and so also later while the version stands (invariant 1).
    low: Option<[u64; N]>,
    high: Option<[u64; N]>,
}

impl<const N: usize, const CAP: usize> Default for TreeFinger<'_, N, CAP> {
    fn default() -> Self {
        Self { leaf: None, low: None, high: None }
    }
}

impl<'a, const N: usize, const CAP: usize> TreeFinger<'a, N, CAP> {
    /// The leaf and its version, if the key's place is in its range.
    #[inline(always)]
    fn leaf_of(&self, key: &[u64; N]) -> Option<(&'a Node<N, CAP>, u64)> {
        let above = self.low.is_none_or(|low| !less(key, &low));
        let below = self.high.is_none_or(|high| less(key, &high));
        self.leaf.filter(|(leaf, version)| above && below && leaf.gap.stands(*version))
    }
}

/// A leaf, its version, and its range.
pub(super) type Fenced<'a, const N: usize, const CAP: usize> =
    (&'a Node<N, CAP>, u64, Option<[u64; N]>, Option<[u64; N]>);

/// A version moved or a latch was taken: start again at the root.
pub(super) struct Interrupted;

impl<const N: usize, const CAP: usize> BTree<N, CAP> {
    #[inline(always)]
    pub(super) fn node(&self, pointer: *mut ()) -> &Node<N, CAP> {
        // SAFETY: callers pass the root or a child read under a version that they have since found
        // standing: a node of this tree's pools, initialised before it was linked (Release of the
        // linking writer, Acquire of the version), and mapped as long as `self`.
        unsafe { &*pointer.cast::<Node<N, CAP>>() }
    }

    #[inline(always)]
    pub(super) fn root(&self) -> Result<(&Node<N, CAP>, u64), Interrupted> {
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
    pub(super) fn step<'a>(
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
    pub(super) fn descend(&self, key: &[u64; N]) -> Result<(&Node<N, CAP>, u64), Interrupted> {
        let (mut node, mut version) = self.root()?;
        while !node.leaf {
            (node, version) = self.step(node, version, node.child(key, node.count()))?;
        }
        Ok((node, version))
    }

    /// As `descend`, with the range of the leaf: its first key, and the first key beyond it; `None` at an
    /// end of the tree.
    #[inline(always)]
    pub(super) fn descend_fenced(&self, key: &[u64; N]) -> Result<Fenced<'_, N, CAP>, Interrupted> {
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

    /// The leaf that holds the place of `key`, and its version: the leaf of `near`, or else one that `near`
    /// then points to.
    #[inline(always)]
    pub(super) fn approach<'a>(
        &'a self,
        key: &[u64; N],
        near: &mut TreeFinger<'a, N, CAP>,
    ) -> Result<(&'a Node<N, CAP>, u64), Interrupted> {
        if let Some(found) = near.leaf_of(key) {
            return Ok(found);
        }
        let (leaf, version, low, high) = self.descend_fenced(key)?;
        *near = TreeFinger { leaf: Some((leaf, version)), low, high };
        Ok((leaf, version))
    }

    /// Appends to `out` the entries of one leaf that lie in `low..=high`, in the scan's direction, starting
    /// from `low` (forward) or `high` (reverse); at most the first `most`.
    ///
    /// Returns the gap at the version to which the entries belong, and where those after them start (the new
    /// `low`, or the new `high`); `None` when the range is exhausted.
    pub(crate) fn read_leaf(
        &self,
        direction: Direction,
        low: &[u64; N],
        high: &[u64; N],
        most: usize,
        out: &mut Leaf,
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
}

/// The key just below; `key` is not zero.
pub(super) fn predecessor<const N: usize>(mut key: [u64; N]) -> [u64; N] {
    for word in key.iter_mut().rev() {
        let (less, borrow) = word.overflowing_sub(1);
        *word = less;
        if !borrow {
            break;
        }
    }
    key
}
