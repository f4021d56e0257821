//! Either index, in words: what the engine sees of them, compiled once for each width of keys.

use super::btree::{BTree, TreeFinger};
use super::hash::Hash;
use super::{Direction, Fold, Gap, Inserted, Lookup, Retired, Seen};
use crate::record::RecordRef;
use crate::table::{Definition, Structure};

/// What both indexes can do, in words; the relation's definition chooses one. Keys have as many words as
/// the relation says.
pub(crate) trait AnyIndex: Send + Sync {
    /// The record of a key, or the gap where the key would be.
    fn get(&self, key: &[u64]) -> Lookup;
    /// Asks the processor for the memory in which `get` will look first.
    fn prefetch(&self, key: &[u64]);
    /// The same for each of many keys, which lie `stride` words apart.
    fn prefetch_each(&self, rows: &[u64], stride: usize);
    /// Adds an entry unless the key has one; `make` runs once at most, under the latch of the key's gap.
    fn insert(&self, key: &[u64], make: &mut dyn FnMut(&Gap) -> RecordRef) -> Inserted;
    /// As [`Self::insert`], where there may be a hardware region; [`Self::tend`] follows behind it.
    fn insert_untended(
        &self,
        key: &[u64],
        worker: usize,
        make: &mut dyn FnMut(&Gap) -> RecordRef,
    ) -> Inserted;
    /// After a key was added by [`Self::insert_untended`]: what cannot be done in a region.
    fn tend(&self, key: &[u64], worker: usize);
    /// For a run of visits of which many are neighbours.
    fn finger(&self) -> Box<dyn Finger + '_>;
    /// Removes the key's entry if it leads to `record` and `seal`, run under the gap's latch, agrees.
    fn remove(
        &self,
        key: &[u64],
        record: RecordRef,
        seal: &mut dyn FnMut(&Gap) -> bool,
        retired: &mut Vec<Retired>,
    ) -> bool;
    /// Takes back a node that no reader can know any more.
    fn recycle(&self, node: Retired);
    /// Appends the entries of one leaf within the bounds, of many the first `most`, and says in `leaf` where
    /// those after them start.
    ///
    /// # Panics
    /// On a hash index, which has no order; the caller asks the relation first.
    fn read_leaf(
        &self,
        direction: Direction,
        low: &[u64],
        high: &[u64],
        most: usize,
        leaf: &mut Leaf,
    ) -> Seen;
    /// Appends the entries of one leaf or bucket, for a walk over the whole index: none that stays is
    /// missed, some may come twice.
    fn walk(&self, from: &mut Walk, leaf: &mut Leaf);
    /// Nodes or overflow buckets in use.
    fn nodes(&self) -> usize;
}

/// An index, with the place of the last visit.
pub(crate) trait Finger {
    /// As [`AnyIndex::get`].
    fn get(&mut self, key: &[u64]) -> Lookup;
    /// As [`AnyIndex::insert`].
    fn insert(&mut self, key: &[u64], make: &mut dyn FnMut(&Gap) -> RecordRef) -> Inserted;
}

/// Entries of a leaf or bucket, in the order of a scan; reused from leaf to leaf.
#[derive(Debug, Default)]
pub(crate) struct Leaf {
    /// Of each entry, and what is left of entries that were there before.
    keys: Vec<[u64; Definition::KEY_WORDS_MAX]>,
    records: Vec<RecordRef>,
    /// Where the entries after these start: the new low end of the range, or the new high end.
    next: Option<[u64; Definition::KEY_WORDS_MAX]>,
    /// The entry behind the one that was found last.
    behind: usize,
}

impl Leaf {
    /// Forgets the entries.
    #[inline]
    pub fn clear(&mut self) {
        self.records.clear();
        self.next = None;
        self.behind = 0;
    }

    /// Entries.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The records.
    #[inline(always)]
    pub fn records(&self) -> &[RecordRef] {
        &self.records
    }

    /// The key of an entry, of which each has `width` words.
    #[inline(always)]
    pub fn key(&self, at: usize, width: usize) -> &[u64] {
        &self.keys[at][..width]
    }

    /// Where those after these entries start; `None` when the range is exhausted.
    #[inline(always)]
    pub fn next(&self, width: usize) -> Option<&[u64]> {
        self.next.as_ref().map(|key| &key[..width])
    }

    /// The record of a key among the entries, which are in the order of `direction`. Quick where they are asked for one after
    /// the other.
    #[inline(always)]
    pub fn find(&mut self, key: &[u64], direction: Direction) -> Option<RecordRef> {
        let behind = self.behind;
        let found = if behind < self.len() && is_same_key(self.key(behind, key.len()), key) {
            behind
        } else {
            self.search(key, direction)?
        };
        self.behind = found + 1;
        Some(self.records[found])
    }

    /// As [`Self::find`], by halving.
    #[inline(never)]
    fn search(&self, key: &[u64], direction: Direction) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let other = self.key(middle, key.len());
            let order = match direction {
                Direction::Forward => other.cmp(key),
                Direction::Reverse => key.cmp(other),
            };
            match order {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Makes room for so many entries after those that are there.
    #[inline]
    pub fn reserve(&mut self, entries: usize) {
        self.records.reserve(entries);
        let all = self.records.len() + entries;
        if self.keys.len() < all {
            self.keys.resize(all, [0; _]);
        }
    }

    /// Appends entries, for which there is room.
    #[inline(always)]
    pub fn extend<const N: usize>(&mut self, entries: impl Iterator<Item = ([u64; N], RecordRef)>) {
        for (key, record) in entries {
            self.keys[self.records.len()][..N].copy_from_slice(&key);
            self.records.push(record);
        }
    }

    /// Forgets all but the first entries.
    pub fn truncate(&mut self, entries: usize) {
        self.records.truncate(entries);
    }
}

/// Whether two keys of as many words are the same; mostly of so few that a call would cost more.
#[inline(always)]
fn is_same_key(one: &[u64], other: &[u64]) -> bool {
    match (one, other) {
        ([one], [other]) => one == other,
        _ => one == other,
    }
}

/// How far a walk over an index has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Walk {
    /// Nowhere.
    #[default]
    Start,
    /// The next key of an ordered index.
    Key(Vec<u64>),
    /// The next bucket of a hash index.
    Bucket(usize),
    /// To the end.
    End,
}

/// A new index for keys of so many words, sized for `rows` rows where that matters. `regions`: keys are added in hardware
/// regions, too.
///
/// # Panics
/// For a width that no key has: definitions have one to eight words.
pub(crate) fn new_index(
    structure: Structure,
    key_words: usize,
    rows: usize,
    fold: Fold,
    regions: bool,
) -> Box<dyn AnyIndex> {
    fn of_width<const N: usize>(
        structure: Structure,
        rows: usize,
        fold: Fold,
        regions: bool,
    ) -> Box<dyn AnyIndex> {
        match (structure, regions) {
            (Structure::Ordered, false) => Box::new(BTree::<N>::new(fold)),
            (Structure::Ordered, true) => Box::new(BTree::<N>::new(fold).with_spares()),
            (Structure::Hash, false) => Box::new(Hash::<N>::new(rows)),
            (Structure::Hash, true) => Box::new(Hash::<N>::new(rows).with_spares()),
        }
    }
    match key_words {
        1 => of_width::<1>(structure, rows, fold, regions),
        2 => of_width::<2>(structure, rows, fold, regions),
        3 => of_width::<3>(structure, rows, fold, regions),
        4 => of_width::<4>(structure, rows, fold, regions),
        5 => of_width::<5>(structure, rows, fold, regions),
        6 => of_width::<6>(structure, rows, fold, regions),
        7 => of_width::<7>(structure, rows, fold, regions),
        8 => of_width::<8>(structure, rows, fold, regions),
        width => panic!("keys have 1 to 8 words, not {width}"),
    }
}

/// A key as an array.
#[inline(always)]
fn array<const N: usize>(key: &[u64]) -> &[u64; N] {
    key.try_into().expect("a key has as many words as its relation says")
}

impl<const N: usize> AnyIndex for BTree<N> {
    #[inline]
    fn get(&self, key: &[u64]) -> Lookup {
        self.get(array(key))
    }

    fn prefetch(&self, _: &[u64]) {
        // The upper levels of a tree are mostly cached, and the lower ones depend on them.
    }

    fn prefetch_each(&self, _: &[u64], _: usize) {}

    fn insert_untended(
        &self,
        key: &[u64],
        worker: usize,
        make: &mut dyn FnMut(&Gap) -> RecordRef,
    ) -> Inserted {
        self.insert_by(array(key), Some(worker), make)
    }

    fn tend(&self, _: &[u64], worker: usize) {
        self.stock_up(worker);
    }

    fn insert(&self, key: &[u64], make: &mut dyn FnMut(&Gap) -> RecordRef) -> Inserted {
        self.insert(array(key), make)
    }

    fn finger(&self) -> Box<dyn Finger + '_> {
        Box::new(Beside { tree: self, near: TreeFinger::default() })
    }

    fn remove(
        &self,
        key: &[u64],
        record: RecordRef,
        seal: &mut dyn FnMut(&Gap) -> bool,
        retired: &mut Vec<Retired>,
    ) -> bool {
        self.remove(array(key), record, seal, retired)
    }

    fn recycle(&self, node: Retired) {
        self.recycle(node);
    }

    fn read_leaf(
        &self,
        direction: Direction,
        low: &[u64],
        high: &[u64],
        most: usize,
        leaf: &mut Leaf,
    ) -> Seen {
        let (seen, next) = self.read_leaf(direction, array(low), array(high), most, leaf);
        leaf.next = next.map(|key| {
            let mut words = [0; Definition::KEY_WORDS_MAX];
            words[..N].copy_from_slice(&key);
            words
        });
        seen
    }

    fn walk(&self, from: &mut Walk, leaf: &mut Leaf) {
        let mut low = [0; N];
        match from {
            Walk::End => return,
            Walk::Key(key) => low.copy_from_slice(key),
            Walk::Start | Walk::Bucket(_) => {}
        }
        let (_, next) = self.read_leaf(Direction::Forward, &low, &[u64::MAX; N], usize::MAX, leaf);
        *from = next.map_or(Walk::End, |next| Walk::Key(next.to_vec()));
    }

    fn nodes(&self) -> usize {
        self.nodes()
    }
}

/// A tree and the leaf of the last visit.
struct Beside<'a, const N: usize> {
    tree: &'a BTree<N>,
    near: TreeFinger<'a, N>,
}

impl<const N: usize> Finger for Beside<'_, N> {
    fn get(&mut self, key: &[u64]) -> Lookup {
        self.tree.get_near(array(key), &mut self.near)
    }

    fn insert(&mut self, key: &[u64], make: &mut dyn FnMut(&Gap) -> RecordRef) -> Inserted {
        self.tree.insert_near(array(key), &mut self.near, make)
    }
}

impl<const N: usize> AnyIndex for Hash<N> {
    fn get(&self, key: &[u64]) -> Lookup {
        self.get(array(key))
    }

    fn prefetch(&self, key: &[u64]) {
        self.prefetch(array(key));
    }

    fn prefetch_each(&self, mut rows: &[u64], stride: usize) {
        while let Some((row, rest)) = rows.split_at_checked(stride) {
            self.prefetch(array(&row[..N]));
            rows = rest;
        }
    }

    fn insert_untended(&self, key: &[u64], _: usize, make: &mut dyn FnMut(&Gap) -> RecordRef) -> Inserted {
        self.insert_untended(array(key), make)
    }

    fn tend(&self, key: &[u64], _: usize) {
        Hash::tend(self, array(key));
    }

    fn insert(&self, key: &[u64], make: &mut dyn FnMut(&Gap) -> RecordRef) -> Inserted {
        self.insert(array(key), make)
    }

    fn finger(&self) -> Box<dyn Finger + '_> {
        Box::new(self)
    }

    fn remove(
        &self,
        key: &[u64],
        record: RecordRef,
        seal: &mut dyn FnMut(&Gap) -> bool,
        retired: &mut Vec<Retired>,
    ) -> bool {
        self.remove(array(key), record, seal, retired)
    }

    fn recycle(&self, node: Retired) {
        self.recycle(node);
    }

    fn read_leaf(&self, _: Direction, _: &[u64], _: &[u64], _: usize, _: &mut Leaf) -> Seen {
        unreachable!("a hash index is not scanned")
    }

    fn walk(&self, from: &mut Walk, leaf: &mut Leaf) {
        let bucket = match from {
            Walk::End => return,
            Walk::Bucket(bucket) => *bucket,
            Walk::Start | Walk::Key(_) => 0,
        };
        *from = if self.read_bucket(bucket, leaf) { Walk::Bucket(bucket + 1) } else { Walk::End };
    }

    fn nodes(&self) -> usize {
        self.nodes()
    }
}

/// A hash index has no neighbours.
impl<const N: usize> Finger for &Hash<N> {
    fn get(&mut self, key: &[u64]) -> Lookup {
        Hash::get(self, array(key))
    }

    fn insert(&mut self, key: &[u64], make: &mut dyn FnMut(&Gap) -> RecordRef) -> Inserted {
        Hash::insert(self, array(key), make)
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::arena::Arena;

    #[test]
    fn entries_of_a_leaf_are_found_in_any_order() {
        let mut arena = Arena::default();
        let mut entries: Vec<([u64; 2], RecordRef)> =
            (0..10).map(|at| ([1, 10 * at], arena.allocate(0, 4))).collect();
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut leaf = Leaf::default();
            leaf.reserve(entries.len());
            leaf.extend(entries.iter().copied());
            let orders: [&[usize]; 3] =
                [&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], &[9, 8, 0, 0, 1, 5, 6, 6], &[3, 4, 9, 2]];
            for at in orders.concat() {
                let (key, record) = entries[at];
                assert_eq!(leaf.find(&key, direction), Some(record), "{at} {direction:?}");
                assert_eq!(leaf.find(&[1, key[1] + 1], direction), None);
                assert_eq!(leaf.find(&[2, key[1]], direction), None);
            }
            leaf.clear();
            assert_eq!(leaf.find(&entries[0].0, direction), None, "it has no entries");
            entries.reverse();
        }
    }
}
