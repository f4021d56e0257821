//! The hash index: linear hashing over chained buckets, read optimistically.
//!
//! **Problem.** A point look-up should touch one line beside the record, and the table must grow without a
//! pause in which all of it moves.
//!
//! **Mechanism** (Litwin, "Linear Hashing", VLDB 1980).
//!
//! ```text
//!   buckets = n = 2^level + split           bucket of h:  i = h mod 2^(level+1), or
//!                                                         h mod 2^level where i >= n
//!   | 0 .. split | split .. 2^level | 2^level .. n |
//!     were split   to be split        their new halves
//! ```
//!
//! - *Bucket*: a head of one line (for one-word keys) with the gap, `SLOTS` entries and a link to
//!   overflow buckets from a pool. Entries fill the chain from the front: the first empty slot
//!   (null record) ends it. The head's version covers the whole chain.
//! - *Growth*: an insert that finds the load too high splits the bucket whose turn it is: latches it, fills
//!   the new one, which is not reachable yet, raises `buckets`, releases.
//! - *Load* is estimated from striped counts, so that inserts do not meet at one counter.
//! - *Segments*: bucket `i` lies in segment 0 below `2^base`, and in segment `k` from
//!   `2^(base+k-1)` up; segments never move. Large ones are mapped lazily, as zero bytes.
//!
//! **Invariants.**
//! 1. `buckets` only grows, and only under the latch of the bucket that is split for it, before that latch is
//!    released. A reader that takes a head's version and finds `buckets` unchanged, or its key still in this
//!    head, has the head of its key as of that version; a later split changes the version.
//! 2. An entry is in the chain of its key's bucket, for the `buckets` of the moment.
//! 3. A bucket that was split passed its stamp on under the latch: a stamp raised before is in both halves,
//!    and a scanner that raises it later finds the version changed (see [`Gap`]).
//! 4. Overflow buckets are type-stable: a late reader reads entries of some chain, and finds the
//!    version of its own head changed. It asks before it follows any link.

use super::btree::Retired;
use super::hashing::{hash, locate, place};
use super::memory::{Pool, Region, mixed};
use super::{Change, Gap, GapRef, Inserted, Leaf, Lookup, Seen};
use crate::record::RecordRef;
use crate::sync::{
    AtomicPtr, AtomicU64, AtomicUsize, MODEL, Mutex, Ordering, Wait, Work, lock, prefetch, work,
};
use crossbeam_utils::CachePadded;
use std::ptr::NonNull;

/// Entries of a bucket: with a one-word key, as many as fill its line (16 + 8 + 2 * 16 of 64).
const SLOTS: usize = 2;
/// Rows per bucket, times eight per slot, above which the table grows: 1.25 rows in two slots
/// leave 13 % of the buckets with an overflow.
const LOAD_EIGHTHS: usize = 5;
/// Buckets of the smallest table, a power of two.
const BUCKETS_MIN: usize = if MODEL || cfg!(miri) { 2 } else { 64 };
/// Counters of rows; a power of two.
const STRIPES: usize = if MODEL || cfg!(miri) { 2 } else { 64 };
/// Segments beyond `2^base` buckets double, so that these suffice for every address space.
const SEGMENTS: usize = if MODEL { 16 } else { 48 };

/// A hash index of `N`-word keys, with buckets of `SLOT` entries.
pub struct Hash<const N: usize, const SLOT: usize = SLOTS> {
    /// Heads in use: both the level and the next bucket to split. Grows as in invariant 1
    /// (Release), read by all (Acquire: carries the new head's words).
    buckets: AtomicUsize,
    /// Immutable: the logarithm of segment 0's length.
    base: u32,
    /// First head of each segment, null until it is needed; stored once, under `owned` (Release).
    segments: [AtomicPtr<Bucket<N, SLOT>>; SEGMENTS],
    /// Rows by stripe of the hash. Relaxed: an estimate.
    rows: [CachePadded<AtomicUsize>; STRIPES],
    overflow: Pool<Bucket<N, SLOT>>,
    /// The memory behind `segments`.
    owned: Mutex<Vec<Segment<N, SLOT>>>,
}

/// A head, or an overflow bucket, whose gap is not used. All-zero bytes are an empty bucket.
/// The words behind `gap` are stored under the head's latch and read by all.
#[repr(C, align(64))]
struct Bucket<const N: usize, const SLOT: usize> {
    gap: Gap,
    /// The rest of the chain, or null.
    next: AtomicPtr<Bucket<N, SLOT>>,
    keys: [[AtomicU64; N]; SLOT],
    /// Null from the end of the chain's entries on.
    records: [AtomicPtr<AtomicU64>; SLOT],
}

const _: () = assert!(MODEL || size_of::<Bucket<1, SLOTS>>() == 64);

struct Segment<const N: usize, const SLOT: usize> {
    region: Region,
    length: usize,
}

/// Where a chain was searched to.
enum Search<'a, const N: usize, const SLOT: usize> {
    At(Cursor<'a, N, SLOT>, RecordRef),
    /// No entry; the cursor is at the first empty slot, or behind the last of a full chain.
    End(Cursor<'a, N, SLOT>),
}

/// A slot of a chain; `slot` may be `SLOT`, behind the last one of `bucket`.
struct Cursor<'a, const N: usize, const SLOT: usize> {
    bucket: &'a Bucket<N, SLOT>,
    slot: usize,
}

impl<const N: usize, const SLOT: usize> Hash<N, SLOT> {
    /// An empty index with room for `expected_rows` before it grows.
    pub(crate) fn new(expected_rows: usize) -> Self {
        let needed = (expected_rows.saturating_mul(8) / (SLOT * LOAD_EIGHTHS)).max(BUCKETS_MIN);
        let index = Self {
            buckets: AtomicUsize::new(needed),
            base: needed.ilog2(),
            segments: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            rows: std::array::from_fn(|_| CachePadded::new(AtomicUsize::new(0))),
            overflow: Pool::new(Bucket::new),
            owned: Mutex::new(Vec::new()),
        };
        index.ensure(0);
        index.ensure(needed - 1);
        index
    }

    /// This index, with buckets that can be added to it in hardware regions.
    pub(crate) fn with_spares(self) -> Self {
        Self { overflow: self.overflow.with_spares(), ..self }
    }

    /// Looks up one key.
    #[inline(always)]
    pub(crate) fn get(&self, key: &[u64; N]) -> Lookup {
        let hash = hash(key);
        loop {
            let (head, version) = self.head(hash);
            match Self::search(head, version, key) {
                Some(Search::At(_, record)) if head.gap.stands(version) => return Lookup::Found(record),
                Some(Search::End(_)) if head.gap.stands(version) => {
                    return Lookup::Missing(Seen { gap: GapRef::new(&head.gap), version });
                }
                _ => {}
            }
        }
    }

    /// Adds an entry unless the key has one. `make` runs at most once, under the latch of the
    /// bucket, and gets its gap.
    pub(crate) fn insert(&self, key: &[u64; N], make: &mut dyn FnMut(&Gap) -> RecordRef) -> Inserted {
        let hash = hash(key);
        let mut inserted = self.place_entry(hash, key, make);
        if let Inserted::Added { splits, .. } = &mut inserted {
            self.count(hash, 0, splits);
        }
        inserted
    }

    /// As [`Self::insert`], where there may be a hardware region, in which nothing is counted that all share: [`Self::tend`] is due
    /// for the key.
    pub(crate) fn insert_untended(
        &self,
        key: &[u64; N],
        make: &mut dyn FnMut(&Gap) -> RecordRef,
    ) -> Inserted {
        self.place_entry(hash(key), key, make)
    }

    #[inline(always)]
    fn place_entry(&self, hash: u64, key: &[u64; N], make: &mut dyn FnMut(&Gap) -> RecordRef) -> Inserted {
        let mut wait = Wait::new();
        loop {
            let (head, version) = self.head(hash);
            let mut end = match Self::search(head, version, key) {
                Some(Search::At(_, record)) if head.gap.stands(version) => {
                    return Inserted::Exists(record, Seen { gap: GapRef::new(&head.gap), version });
                }
                Some(Search::End(end)) => end,
                _ => continue,
            };
            // From the version of the search, so that the end found is still the end.
            let Some(latch) = head.gap.try_latch(version) else {
                wait.pause();
                continue;
            };
            let record = make(&head.gap);
            end.push(key, record.as_ptr(), &self.overflow);
            let change =
                Change { gap: GapRef::new(&head.gap), before: version, after: latch.release(), split: None };

            return Inserted::Added { record, change, splits: [None; 2] };
        }
    }

    /// Counts a key that was added in a region, and grows by many buckets at once where that is due: each step disturbs all
    /// regions that have looked for any key.
    pub(crate) fn tend(&self, key: &[u64; N]) {
        const STEPS: usize = 64;
        self.count(hash(key), STEPS, &mut [None; STEPS]);
    }

    /// Counts a row, and splits as many buckets as `splits` has room for where there are more rows than `more` above what the
    /// table is for.
    #[inline(always)]
    fn count(&self, hash: u64, more: usize, splits: &mut [Option<Change>]) {
        // Relaxed: an estimate. A row that was added in a region may be removed before it is counted, so a stripe may be below
        // zero for a while.
        let rows = self.stripe(hash).fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let rows = rows.cast_signed().max(0).cast_unsigned().saturating_mul(STRIPES);
        // At least twice, so that growth catches up after steps that others interrupted.
        for (step, split) in splits.iter_mut().enumerate() {
            let more = if step == 0 { more } else { 0 };
            // Relaxed: a hint; `grow` looks again.
            let buckets = self.buckets.load(Ordering::Relaxed);
            if rows.saturating_sub(more).saturating_mul(8) <= buckets.saturating_mul(SLOT * LOAD_EIGHTHS) {
                break;
            }
            // Of any bucket. Other transactions that saw it find its version changed.
            *split = self.grow();
        }
    }

    /// Prefetches the bucket of `key`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, key: &[u64; N]) {
        // Relaxed: a hint; after a split it may fetch the wrong bucket.
        let bucket = self.bucket(place(hash(key), self.buckets.load(Ordering::Relaxed)));
        prefetch(std::ptr::from_ref(bucket), 1);
    }

    /// Removes the entry of `key` if it leads to `record` and `seal`, run under the latch of the
    /// entry's gap, agrees. No gap is ever retired: heads stay, overflow buckets have none.
    pub(crate) fn remove(
        &self,
        key: &[u64; N],
        record: RecordRef,
        seal: &mut dyn FnMut(&Gap) -> bool,
        _retired: &mut Vec<Retired>,
    ) -> bool {
        let hash = hash(key);
        let mut wait = Wait::new();
        loop {
            let (head, version) = self.head(hash);
            let hole = match Self::search(head, version, key) {
                Some(Search::At(hole, found)) if found == record => hole,
                Some(_) if head.gap.stands(version) => return false,
                _ => continue,
            };
            let Some(latch) = head.gap.try_latch(version) else {
                wait.pause();
                continue;
            };
            if !seal(&head.gap) {
                return false;
            }
            // The last entry of the chain fills the hole.
            let mut last = Cursor { bucket: hole.bucket, slot: hole.slot };
            let mut cursor = Cursor { bucket: hole.bucket, slot: hole.slot };
            while !cursor.record().is_null() {
                last = Cursor { bucket: cursor.bucket, slot: cursor.slot };
                if !cursor.advance() {
                    break;
                }
            }
            hole.bucket.put(hole.slot, &last.bucket.key(last.slot), last.record());
            self.truncate(head, &last);
            latch.release();
            // Relaxed: an estimate. The insert's count came before, with its release.
            self.stripe(hash).fetch_sub(1, Ordering::Relaxed);
            return true;
        }
    }

    /// Appends the entries of bucket `index`; false where there is no such bucket. Splits move entries
    /// only to higher buckets, so a walk that goes up misses none that stays.
    pub(crate) fn read_bucket(&self, index: usize, out: &mut Leaf) -> bool {
        // Acquire: as in `head`.
        if index >= self.buckets.load(Ordering::Acquire) {
            return false;
        }
        let (head, start) = (self.bucket(index), out.len());
        loop {
            let Some(version) = head.gap.settled() else { unreachable!("heads are never obsolete") };
            let mut bucket = Some(head);
            while let Some(at) = bucket {
                let entry = |slot: usize| at.record(slot).map(|record| (at.key(slot), record));
                out.reserve(SLOT);
                out.extend((0..SLOT).map_while(entry));
                // A chain torn by writers could lead in circles; a standing one ends.
                bucket = if head.gap.stands(version) { at.next() } else { None };
            }
            if head.gap.stands(version) {
                return true;
            }
            out.truncate(start);
        }
    }

    /// Nothing of a hash index is ever retired.
    ///
    /// # Panics
    /// Always: the node is of another index.
    pub(crate) fn recycle(&self, node: Retired) {
        panic!("{node:?} is of another index");
    }

    /// Overflow buckets in use, for tests of memory.
    pub(crate) fn nodes(&self) -> usize {
        self.overflow.taken()
    }

    // ---- Search --------------------------------------------------------------------------------

    /// The head of the key's chain and its version, from which a look starts.
    #[inline(always)]
    fn head(&self, hash: u64) -> (&Bucket<N, SLOT>, u64) {
        loop {
            // Acquire: carries the new head's words, and its segment.
            let buckets = self.buckets.load(Ordering::Acquire);
            let index = place(hash, buckets);
            let head = self.bucket(index);
            let Some(version) = head.gap.settled() else { unreachable!("heads are never obsolete") };
            // Relaxed: a split stores `buckets` before it releases the version that `settled`
            // acquired.
            let now = self.buckets.load(Ordering::Relaxed);
            if now == buckets || place(hash, now) == index {
                return (head, version);
            }
        }
    }

    /// Head `index`, which is below a `buckets` that was acquired, or ensured by the caller.
    #[inline(always)]
    fn bucket(&self, index: usize) -> &Bucket<N, SLOT> {
        let (segment, offset) = locate(index, self.base);
        // Relaxed: stored before the `buckets` that the caller acquired.
        let first = self.segments[segment].load(Ordering::Relaxed);
        debug_assert!(!first.is_null());
        // SAFETY: by the caller, the segment was stored, initialised whole; `locate` gives an
        // offset below its length; it stays mapped as long as `self`.
        unsafe { &*first.add(offset) }
    }

    /// Looks for the key in the chain. `None` if the head has moved on from `version` on the way;
    /// else the caller must still ask, unless it latches from that version.
    #[inline(always)]
    fn search<'a>(head: &'a Bucket<N, SLOT>, version: u64, key: &[u64; N]) -> Option<Search<'a, N, SLOT>> {
        let mut bucket = head;
        loop {
            work(Work::Node);
            for slot in 0..SLOT {
                let record = bucket.record(slot);
                let Some(record) = record else { return Some(Search::End(Cursor { bucket, slot })) };
                if bucket.key(slot) == *key {
                    return Some(Search::At(Cursor { bucket, slot }, record));
                }
            }
            let Some(next) = bucket.next() else {
                return Some(Search::End(Cursor { bucket, slot: SLOT }));
            };
            // A chain torn by writers could lead in circles; a standing one ends.
            if !head.gap.stands(version) {
                return None;
            }
            bucket = next;
        }
    }

    fn stripe(&self, hash: u64) -> &AtomicUsize {
        // The bits that choose a bucket last.
        &self.rows[(hash >> 32) as usize % STRIPES]
    }

    // ---- Change --------------------------------------------------------------------------------

    /// Ends the chain of `head` before the cursor's entry, which must be its last one or empty.
    fn truncate(&self, head: &Bucket<N, SLOT>, end: &Cursor<'_, N, SLOT>) {
        for slot in end.slot..SLOT {
            end.bucket.clear(slot);
        }
        let mut spare = end.bucket.next();
        end.bucket.set_next(std::ptr::null_mut());
        if end.slot == 0 && !std::ptr::eq(head, end.bucket) {
            let mut before = head;
            while let Some(next) = before.next()
                && !std::ptr::eq(next, end.bucket)
            {
                before = next;
            }
            before.set_next(std::ptr::null_mut());
            self.overflow.give(NonNull::from(end.bucket));
        }
        while let Some(bucket) = spare {
            for slot in 0..SLOT {
                bucket.clear(slot);
            }
            spare = bucket.next();
            bucket.set_next(std::ptr::null_mut());
            self.overflow.give(NonNull::from(bucket));
        }
    }

    /// Splits the bucket whose turn it is. `None` if another is at it.
    #[cold]
    fn grow(&self) -> Option<Change> {
        // Acquire: as in `head`.
        let buckets = self.buckets.load(Ordering::Acquire);
        self.ensure(buckets);
        let source = self.bucket(buckets - (1 << buckets.ilog2()));
        let version = source.gap.settled_now()?;
        let latch = source.gap.try_latch(version)?;
        // Relaxed: with the latch on the bucket that `buckets` names, no other can raise it; if it was raised
        // before, that split's release came before this latch.
        if self.buckets.load(Ordering::Relaxed) != buckets {
            return None;
        }
        let target = self.bucket(buckets);
        // SeqCst: after the latch, so that a stamp raised by a scanner that will find the version unchanged
        // is seen here. Relaxed store: the new head cannot be reached yet.
        target.gap.stamp().store(source.gap.stamp().load(Ordering::SeqCst), Ordering::Relaxed);

        let mut from = Cursor { bucket: source, slot: 0 };
        let mut kept = Cursor { bucket: source, slot: 0 };
        let mut moved = Cursor { bucket: target, slot: 0 };
        loop {
            let record = from.record();
            if record.is_null() {
                break;
            }
            let key = from.bucket.key(from.slot);
            if place(hash(&key), buckets + 1) == buckets {
                moved.push(&key, record, &self.overflow);
            } else {
                // Never ahead of `from`, so that it needs no new bucket.
                kept.push(&key, record, &self.overflow);
            }
            if !from.advance() {
                break;
            }
        }
        if kept.slot == SLOT {
            if let Some(next) = kept.bucket.next() {
                self.truncate(source, &Cursor { bucket: next, slot: 0 });
            }
        } else {
            self.truncate(source, &kept);
        }
        let split = Seen { gap: GapRef::new(&target.gap), version: target.gap.revive() };
        // Release: pairs with the acquire in `head`.
        self.buckets.store(buckets + 1, Ordering::Release);
        Some(Change {
            gap: GapRef::new(&source.gap),
            before: version,
            after: latch.release(),
            split: Some(split),
        })
    }

    /// Makes sure that head `index` has memory.
    fn ensure(&self, index: usize) {
        let (segment, _) = locate(index, self.base);
        // Acquire: pairs with the store below, for the segment's words.
        if !self.segments[segment].load(Ordering::Acquire).is_null() {
            return;
        }
        let length = 1 << (self.base as usize + segment.saturating_sub(1));
        let mut owned = lock(&self.owned);
        // Relaxed: the mutex orders it.
        if self.segments[segment].load(Ordering::Relaxed).is_null() {
            let new = Segment::new(length);
            // Release: as above.
            self.segments[segment].store(new.region.base().as_ptr(), Ordering::Release);
            owned.push(new);
        }
    }
}

impl<const N: usize, const SLOT: usize> Bucket<N, SLOT> {
    fn new() -> Self {
        Self {
            gap: Gap::new(),
            next: AtomicPtr::new(std::ptr::null_mut()),
            keys: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            records: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    // Words. All relaxed: stored under the head's latch or before `buckets` leads to them, read
    // under the latch or between `settled` and `stands`, which order them.

    #[inline(always)]
    fn key(&self, slot: usize) -> [u64; N] {
        std::array::from_fn(|word| self.keys[slot][word].load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn record(&self, slot: usize) -> Option<RecordRef> {
        // SAFETY: null, or stored by `put` from `RecordRef::as_ptr`; an index is of one database.
        unsafe { RecordRef::from_ptr(self.records[slot].load(Ordering::Relaxed)) }
    }

    fn put(&self, slot: usize, key: &[u64; N], record: *mut AtomicU64) {
        for (word, value) in self.keys[slot].iter().zip(key) {
            word.store(*value, Ordering::Relaxed);
        }
        self.records[slot].store(record, Ordering::Relaxed);
    }

    fn clear(&self, slot: usize) {
        self.records[slot].store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn next(&self) -> Option<&Self> {
        // Acquire: pairs with `set_next`. A late reader may get here before it has checked its
        // version, so the link itself must carry the bucket's initialisation.
        // SAFETY: null, or an overflow bucket of the pool, initialised before it was linked (Acquire
        // above), which stays mapped as long as the index that holds `self`.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// Under the head's latch.
    fn set_next(&self, next: *mut Self) {
        // Release: pairs with `next`.
        self.next.store(next, Ordering::Release);
    }
}

impl<'a, const N: usize, const SLOT: usize> Cursor<'a, N, SLOT> {
    fn record(&self) -> *mut AtomicU64 {
        if self.slot == SLOT {
            return std::ptr::null_mut();
        }
        // Relaxed: under the head's latch.
        self.bucket.records[self.slot].load(Ordering::Relaxed)
    }

    /// Moves to the next slot of the chain, if it has one.
    fn advance(&mut self) -> bool {
        if self.slot + 1 < SLOT {
            self.slot += 1;
        } else if let Some(next) = self.bucket.next() {
            (self.bucket, self.slot) = (next, 0);
        } else {
            self.slot = SLOT;
            return false;
        }
        true
    }

    /// Stores an entry here and moves behind it, into a new bucket if the chain ends before.
    fn push(&mut self, key: &[u64; N], record: *mut AtomicU64, overflow: &'a Pool<Bucket<N, SLOT>>) {
        if self.slot == SLOT {
            let next = match self.bucket.next() {
                Some(next) => next,
                None => {
                    // SAFETY: the pool hands out initialised buckets that stay mapped as long as
                    // the pool; it is empty, as new or as `truncate` left it.
                    let next: &'a Bucket<N, SLOT> = unsafe { overflow.take(mixed(key)).as_ref() };
                    self.bucket.set_next(std::ptr::from_ref(next).cast_mut());
                    next
                }
            };
            (self.bucket, self.slot) = (next, 0);
        }
        self.bucket.put(self.slot, key, record);
        self.slot += 1;
    }
}

impl<const N: usize, const SLOT: usize> Segment<N, SLOT> {
    fn new(length: usize) -> Self {
        let region = Region::new::<Bucket<N, SLOT>>(length);
        if !region.zeroed() {
            for i in 0..length {
                // SAFETY: the region was laid out for `length` buckets, and is not shared yet.
                unsafe { region.base::<Bucket<N, SLOT>>().add(i).write(Bucket::new()) }
            }
        }
        Self { region, length }
    }
}

impl<const N: usize, const SLOT: usize> Drop for Segment<N, SLOT> {
    fn drop(&mut self) {
        if self.region.zeroed() {
            // Plain atomics of the standard library: nothing to drop, and most were never touched.
            return;
        }
        for i in 0..self.length {
            // SAFETY: written by `new`, dropped only here, with the index that held them.
            unsafe { self.region.base::<Bucket<N, SLOT>>().add(i).drop_in_place() }
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
#[path = "hash_tests.rs"]
mod tests;
