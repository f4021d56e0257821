//! Inserts: the search for the place, latches on what will change, and splits.

use super::BTree;
use super::descent::{Interrupted, TreeFinger};
use super::node::{NOWHERE, Node};
use crate::index::memory::{Pool, mixed};
use crate::index::{Change, Gap, GapRef, Inserted, Latch, Seen};
use crate::record::RecordRef;
use crate::sync::{Ordering, Wait, htm, point};
use std::ptr::NonNull;

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
    /// For a split because of that key, in the interest of that worker if there can be a region.
    fn new(pool: &'a Pool<Node<N, CAP>>, key: &[u64; N], worker: Option<usize>) -> Self {
        Self { node: pool.take(worker.map_or_else(|| mixed(key), |worker| worker as u64)), pool }
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
        // Taken in a region that was aborted it was never taken.
        if !htm::is_over() {
            self.pool.give(self.node);
        }
    }
}

enum Prepared<'a, const N: usize, const CAP: usize> {
    Exists(RecordRef, Seen),
    Ready(Spot<'a, N, CAP>),
}

impl<const N: usize, const CAP: usize> BTree<N, CAP> {
    /// As `insert`, from the leaf of the last visit.
    pub(crate) fn insert_near<'a>(
        &'a self,
        key: &[u64; N],
        near: &mut TreeFinger<'a, N, CAP>,
        make: &mut dyn FnMut(&Gap) -> RecordRef,
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
        Inserted::Added { record, change, splits: [None; 2] }
    }

    /// Adds an entry unless the key has one. `make` runs at most once, under the latch of the leaf,
    /// and gets the gap that holds the key's place.
    pub(crate) fn insert(&self, key: &[u64; N], make: &mut dyn FnMut(&Gap) -> RecordRef) -> Inserted {
        self.insert_by(key, None, make)
    }

    /// As [`Self::insert`], by a worker that may be in a hardware region: the nodes that it needs are none that another one takes
    /// at that time.
    pub(crate) fn insert_by(
        &self,
        key: &[u64; N],
        worker: Option<usize>,
        make: &mut dyn FnMut(&Gap) -> RecordRef,
    ) -> Inserted {
        // Kept from one try to the next: its pool has one lock for all.
        let (mut spare, mut wait) = (None, Wait::new());
        loop {
            match self.prepare(key, worker, &mut spare) {
                Ok(Prepared::Exists(record, seen)) => return Inserted::Exists(record, seen),
                Ok(Prepared::Ready(spot)) => {
                    let record = make(&spot.leaf.gap);
                    let change = self.fill(spot, key, record);
                    return Inserted::Added { record, change, splits: [None; 2] };
                }
                Err(Interrupted) => wait.pause(),
            }
        }
    }

    /// Finds the key, or latches what an insert of it will change. For a full leaf it takes the new leaf from
    /// `kept`, if there is one, and leaves it there if it fails.
    fn prepare<'a>(
        &'a self,
        key: &[u64; N],
        worker: Option<usize>,
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
                self.split_inner((key, worker), parent, node, version, position)?;
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
            *kept = Some(Spare::new(&self.pools.leaves, key, worker));
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
        // SeqCst: after the latch, so that a stamp raised by a scanner that will find the version unchanged
        // is seen here. Relaxed store: the leaf is not linked yet.
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

    /// Splits a full inner, for that key and worker: the descent is at its child `position`.
    fn split_inner(
        &self,
        (key, worker): (&[u64; N], Option<usize>),
        parent: Option<(&Node<N, CAP>, u64, usize)>,
        node: &Node<N, CAP>,
        version: u64,
        position: usize,
    ) -> Result<(), Interrupted> {
        let spare = Spare::new(&self.pools.inners, key, worker);
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

    /// Makes `right` the child after `left`, in the parent given with the place of `left`, or under a new
    /// root. The caller has latched both, and will release them.
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
            let root = Spare::new(&self.pools.inners, separator, None).used();
            root.put(0, separator, left.as_pointer());
            root.set_pointer(1, right.as_pointer());
            root.set_count(2);
            root.gap.revive();
            // Release: pairs with `root`. `left` is the root, and latched.
            self.root.store(root.as_pointer().cast(), Ordering::Release);
        }
    }
}
