//! Removes: the entry, then the leaf if it is empty, or nearly so.

use super::descent::Interrupted;
use super::node::{NOWHERE, Node};
use super::{BTree, Retired};
use crate::index::{Gap, Latch};
use crate::record::RecordRef;
use crate::sync::{Ordering, Wait, point};
use std::ptr::NonNull;

/// Levels that no tree reaches: each level costs at least half a node's worth of splits of the one
/// below, so the height is logarithmic in the splits ever made, also where nodes ran nearly empty.
const HEIGHT_MAX: usize = 32;

impl<const N: usize, const CAP: usize> BTree<N, CAP> {
    /// Removes the entry of `key` if it leads to `record` and `seal`, run under the latch of the
    /// entry's gap, agrees. Unlinked nodes go to `retired`.
    pub(crate) fn remove(
        &self,
        key: &[u64; N],
        record: RecordRef,
        seal: &mut dyn FnMut(&Gap) -> bool,
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

    /// A leaf with no more entries may be put into its neighbour, if both together are half full at most.
    const SPARSE: usize = CAP / 4;

    /// Takes the leaf at the place of `key` out of the tree if it is empty. Ends because the latches in its
    /// way are held by threads that wait for no latch.
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
        // Everything read belongs to these versions.
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
}
