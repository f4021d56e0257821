//! The ordered index: a B+tree with optimistic lock coupling.
//!
//! **Problem.** Most visits read: a descent must write no shared line, and a leaf must be copied
//! as of one version, which the caller can check again at commit.
//!
//! **Mechanism** (Leis et al., "The ART of Practical Synchronization", DaMoN 2016, for a B+tree). A reader
//! takes a node's version, reads its words, takes the child's version, and checks that the parent's still
//! stands; after any change it starts again at the root. A writer descends like a reader and then *upgrades*:
//! it latches by compare-exchange from the version that it read, so that a latch never needs a second look at
//! the node. A holder of a latch never waits for another: a failed upgrade drops all and starts again, hence
//! no cycle of waits.
//!
//! - *Leaf*: `count` entries, keys ascending. *Inner*: `count` children and `count - 1`
//!   separators; child `i` holds the keys `separator[i-1] <= key < separator[i]`. An inner may have
//!   a single child.
//! - *Range of a leaf*: between the tightest separators met on the way down. There are no sibling
//!   links: a scan descends again from the end of the range that it has read.
//! - *Split*: an insert that passes a full inner splits it, so that a parent always has room. Parent and node
//!   are latched, after the new node was taken from its pool: its memory may have to come from the system
//!   first. The new node takes the upper part, and a leaf's stamp. An insert where the one before it stopped
//!   (an ascending stream) splits at that place, so that streams leave full leaves behind; other inserts
//!   split in the middle.
//! - *Unlink*: the remove that empties a leaf finds its *anchor*, the lowest inner above with two
//!   or more children, latches it and all below down to the leaf, takes that branch out of the
//!   anchor, and marks its nodes obsolete. The neighbouring leaf, latched for that moment, takes
//!   over the range and the stamp (by maximum). It repeats until the leaf is gone or has entries
//!   again, so that no empty leaf is left behind, save a tree's only one.
//! - *Merge*: the remove that leaves few entries in a leaf tries to put them into a neighbour below the same
//!   parent, so that random removes do not leave more and more leaves behind. Parent and both leaves are
//!   latched; range and stamp go over as above.
//! - *Root*: `root` changes only under the latch of the node that is the root, before that latch is released;
//!   a reader that finds it unchanged after taking a node's version has the root.
//!
//! **Invariants.**
//! 1. A leaf's range shrinks only by a split of that leaf, which changes its version. It grows by the
//!    unlinking of an empty neighbour, without a change: a reader's older range is then a part of it. It
//!    grows by a merge too, under the latch of the parent: a reader that has the leaf's version after the
//!    merge has come through the parent after it, and so knows the new range.
//! 2. An entry moves between leaves only under both latches. The version of the old leaf tells holders of a
//!    `Seen` of it, and [`Change::split`] tells the transaction that caused the move.
//! 3. A stamp raised before a leaf was latched for split or unlink reaches the leaf that takes over (see
//!    [`Gap`]; a scanner that raises it later finds the version changed).
//! 4. Nodes live in pools which are freed with the tree. Leaves stay leaves and inners stay inners
//!    for all their lives, so that a late reader reads words of the kind that it expects.

mod descent;
mod insert;
mod node;
mod remove;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;

pub use self::descent::TreeFinger;

use self::node::{CAPACITY, Node};
use super::memory::Pool;
use super::{Fold, Lookup};
use crate::sync::AtomicPtr;
use std::ptr::NonNull;

/// A node that left its tree, to be given back by `recycle` once no reader can still reach it.
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
    /// How the stamps of merged leaves become one.
    fold: Fold,
}

struct Pools<const N: usize, const CAP: usize> {
    leaves: Pool<Node<N, CAP>>,
    inners: Pool<Node<N, CAP>>,
}

impl<const N: usize, const CAP: usize> BTree<N, CAP> {
    /// An empty tree: one leaf.
    pub(crate) fn new(fold: Fold) -> Self {
        const { assert!(CAP >= 4, "an inner must split into two that are not full") };
        let pools = Box::new(Pools { leaves: Pool::new(Node::leaf), inners: Pool::new(Node::inner) });
        let root = AtomicPtr::new(pools.leaves.take(0).as_ptr());
        Self { root, pools, fold }
    }

    /// This tree, with nodes that can be added to it in hardware regions.
    pub(crate) fn with_spares(self) -> Self {
        let Pools { leaves, inners } = *self.pools;
        let pools = Box::new(Pools { leaves: leaves.with_spares(), inners: inners.with_spares() });
        Self { pools, ..self }
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

    /// Behind a region of a worker in which nodes were taken: the next one finds as many.
    pub(crate) fn stock_up(&self, worker: usize) {
        self.pools.leaves.stock_up(worker as u64);
        self.pools.inners.stock_up(worker as u64);
    }

    /// As `get`, from the leaf of the last visit.
    #[inline]
    pub(crate) fn get_near<'a>(&'a self, key: &[u64; N], near: &mut TreeFinger<'a, N, CAP>) -> Lookup {
        loop {
            let Ok((leaf, version)) = self.approach(key, near) else { continue };
            if let Some(lookup) = leaf.look(key, version) {
                return lookup;
            }
        }
    }

    /// Takes back a node that no reader can still reach.
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

    /// Nodes in the tree, or retired and not recycled.
    pub(crate) fn nodes(&self) -> usize {
        self.pools.leaves.taken() + self.pools.inners.taken()
    }

    fn identity(&self) -> NonNull<()> {
        NonNull::from(&*self.pools).cast()
    }
}
