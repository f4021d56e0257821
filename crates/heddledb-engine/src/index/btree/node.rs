//! A node: its words, search among its keys, and changes of its entries.

use crate::index::{Gap, GapRef, Lookup, Seen};
use crate::record::RecordRef;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Entries of a leaf and children of an inner: 512 bytes for one-word keys (32 + 30 * 16), and few
/// enough under Miri and model checkers that splits come early.
pub(super) const CAPACITY: usize = if crate::sync::MODEL || cfg!(miri) { 4 } else { 30 };

/// A leaf or an inner. The words behind `leaf` are stored under the latch and read by all.
#[repr(C, align(64))]
pub(super) struct Node<const N: usize, const CAP: usize> {
    /// Must come first: the line of the version is the first that a visit touches.
    pub(super) gap: Gap,
    /// Immutable.
    pub(super) leaf: bool,
    /// Entries of a leaf, children of an inner.
    count: AtomicU32,
    /// Leaf: where the key after the last inserted one would go; `NOWHERE` if unknown.
    pub(super) next: AtomicU32,
    keys: [[AtomicU64; N]; CAP],
    /// Records of a leaf (`AtomicU64`), children of an inner (`Node`).
    pub(super) pointers: [AtomicPtr<()>; CAP],
}

pub(super) const NOWHERE: u32 = u32::MAX;

const _: () = assert!(crate::sync::MODEL || size_of::<Node<1, 30>>() == 512);

impl<const N: usize, const CAP: usize> Node<N, CAP> {
    pub(super) fn new(leaf: bool) -> Self {
        Self {
            gap: Gap::new(),
            leaf,
            count: AtomicU32::new(0),
            next: AtomicU32::new(NOWHERE),
            keys: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            pointers: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    pub(super) fn leaf() -> Self {
        Self::new(true)
    }

    pub(super) fn inner() -> Self {
        Self::new(false)
    }

    pub(super) fn as_pointer(&self) -> *mut () {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    // Words. All relaxed: stored under the latch or before linking, read under the latch or
    // between `settled` and `stands`, which order them.

    /// Never above `CAP`, even torn.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        (self.count.load(Ordering::Relaxed) as usize).min(CAP)
    }

    #[inline(always)]
    pub(super) fn set_count(&self, count: usize) {
        self.count.store(count as u32, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn key(&self, i: usize) -> [u64; N] {
        std::array::from_fn(|word| self.keys[i][word].load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(super) fn set_key(&self, i: usize, key: &[u64; N]) {
        for (word, value) in self.keys[i].iter().zip(key) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn pointer(&self, i: usize) -> *mut () {
        self.pointers[i].load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn set_pointer(&self, i: usize, pointer: *mut ()) {
        self.pointers[i].store(pointer, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn put(&self, i: usize, key: &[u64; N], pointer: *mut ()) {
        self.set_key(i, key);
        self.set_pointer(i, pointer);
    }

    /// The record of a leaf's entry; `None` only where the look is torn.
    #[inline(always)]
    pub(super) fn record(&self, i: usize) -> Option<RecordRef> {
        debug_assert!(self.leaf);
        // SAFETY: the pointers of a leaf are null (never used) or were stored by `add_entry` from
        // `RecordRef::as_ptr`: leaves never become inners, and a tree is of one database.
        unsafe { RecordRef::from_ptr(self.pointer(i).cast()) }
    }

    // Search.

    /// Keys below `key` among the first `count`: the place of `key`.
    #[inline(always)]
    pub(super) fn lower(&self, key: &[u64; N], count: usize) -> usize {
        self.partition(count, |i| less(&self.key(i), key))
    }

    /// Keys not above `key` among the first `count`.
    #[inline(always)]
    pub(super) fn upper(&self, key: &[u64; N], count: usize) -> usize {
        self.partition(count, |i| !less(key, &self.key(i)))
    }

    /// The child of an inner that leads to `key`.
    #[inline(always)]
    pub(super) fn child(&self, key: &[u64; N], count: usize) -> usize {
        // A count of zero is torn; `step` will find out.
        self.upper(key, count.max(1) - 1)
    }

    /// Whether the entry at `i` exists and has this key.
    #[inline(always)]
    pub(super) fn holds(&self, i: usize, key: &[u64; N]) -> bool {
        i < self.count() && self.key(i) == *key
    }

    /// What a leaf says of `key`, if it still stands at `version` after that.
    #[inline(always)]
    pub(super) fn look(&self, key: &[u64; N], version: u64) -> Option<Lookup> {
        let position = self.lower(key, self.count());
        let found = self.holds(position, key).then(|| self.record(position));
        self.gap.stands(version).then(|| match found {
            Some(record) => Lookup::Found(record.expect("an entry below the count leads to a record")),
            None => Lookup::Missing(Seen { gap: GapRef::new(&self.gap), version }),
        })
    }

    /// The number of leading slots among `count` for which `below` holds: counted among the last slots of
    /// blocks, then in one block. Without a branch on a comparison, of which every second would be guessed
    /// wrong, and with loads that wait for nothing but their block. On a million keys it was ahead of halving
    /// and of a full count, in interleaved runs on a machine too busy to trust the factor.
    #[inline(always)]
    pub(super) fn partition(&self, count: usize, below: impl Fn(usize) -> bool) -> usize {
        const BLOCK: usize = 8;
        let full: usize = (0..count / BLOCK).map(|block| usize::from(below(block * BLOCK + BLOCK - 1))).sum();
        let start = full * BLOCK;
        let end = (start + BLOCK).min(count);
        start + (start..end).map(|i| usize::from(below(i))).sum::<usize>()
    }

    // Changes, under the latch.

    pub(super) fn add_entry(&self, position: usize, count: usize, key: &[u64; N], pointer: *mut ()) {
        for i in (position..count).rev() {
            self.put(i + 1, &self.key(i), self.pointer(i));
        }
        self.put(position, key, pointer);
        self.set_count(count + 1);
        self.next.store(position as u32 + 1, Ordering::Relaxed);
    }

    /// Takes the child at `place` out of `count`, with the separator between it and its heir.
    pub(super) fn cut(&self, place: usize, separator: usize, count: usize) {
        for i in separator..count.saturating_sub(2) {
            self.set_key(i, &self.key(i + 1));
        }
        for i in place..count - 1 {
            self.set_pointer(i, self.pointer(i + 1));
        }
        self.set_count(count - 1);
    }

    /// Moves the entries behind `position` over it.
    pub(super) fn close(&self, position: usize, count: usize) {
        for i in position + 1..count {
            self.put(i - 1, &self.key(i), self.pointer(i));
        }
    }
}

/// Whether `a < b`, without a branch.
#[inline(always)]
pub(super) fn less<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    a.iter().zip(b).rev().fold(false, |less, (a, b)| (a < b) | ((a == b) & less))
}
