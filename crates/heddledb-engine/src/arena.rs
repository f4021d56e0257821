//! Where records live: per-worker arenas of zeroed words, on huge pages where the system grants
//! them.
//!
//! A worker takes blocks from its own arena without synchronisation. A block keeps the table for
//! which it was first taken (see [`crate::record`]); freed blocks wait in that table's free list
//! of the worker that freed them. Where one worker frees what another takes, the surplus goes through
//! the [`Exchange`], many blocks at a time. Chunks are never returned before the arena is dropped, and the
//! arenas of a database are dropped with it.

#![allow(unsafe_code)]

use crate::record::{BEHIND, REACH, RecordRef};
use crate::sync::{AtomicU64, Mutex, Ordering, Work, lock, shared_memory, work};
use crate::version::HEADER;
use std::ptr::NonNull;
use std::sync::Arc;

/// The first chunk is small, so that small databases stay small: 256 KiB.
const FIRST_WORDS: usize = if SMALL { 1 << 10 } else { 1 << 15 };
/// Further chunks: 32 MiB of address space, touched page by page.
const CHUNK_WORDS: usize = if SMALL { 1 << 12 } else { 1 << 22 };
/// Under a model checker or Miri each word costs, so chunks are tiny and come from the heap.
const SMALL: bool = cfg!(miri) || crate::sync::MODEL;
/// Words that are made present before a region begins: the rows that a piece adds are seldom longer. And those of a page.
const AHEAD: usize = 1 << 10;
const PAGE_WORDS: usize = 512;
/// Blocks start at a multiple of this many words (32 bytes), so that small rows straddle few lines.
const BLOCK_ALIGN: usize = 4;

/// Free blocks of one table that a worker keeps to itself; half of them go when there are more.
const SPARE: usize = if SMALL { 8 } else { 1024 };
/// Free blocks that a worker without any takes at a time.
const TAKEN: usize = if SMALL { 4 } else { 64 };

/// Free blocks by relation number that any worker may take.
#[derive(Default)]
pub(crate) struct Exchange {
    shelves: Mutex<Vec<Vec<RecordRef>>>,
    /// The relations, modulo 64, of which it may have any: so that workers that only create rows need not
    /// lock it. Written under the lock. Relaxed: a hint, and the lock publishes the blocks.
    stocked: AtomicU64,
}

impl Exchange {
    fn bit(relation: usize) -> u64 {
        1 << (relation % 64)
    }

    fn give(&self, relation: usize, blocks: impl Iterator<Item = RecordRef>) {
        let mut shelves = lock(&self.shelves);
        if shelves.len() <= relation {
            shelves.resize_with(relation + 1, Vec::new);
        }
        shelves[relation].extend(blocks);
        self.stocked.fetch_or(Self::bit(relation), Ordering::Relaxed);
    }

    fn take(&self, relation: usize, free: &mut Vec<RecordRef>) {
        if self.stocked.load(Ordering::Relaxed) & Self::bit(relation) == 0 {
            return;
        }
        let mut shelves = lock(&self.shelves);
        if let Some(shelf) = shelves.get_mut(relation) {
            free.extend(shelf.drain(shelf.len().saturating_sub(TAKEN)..));
        }
        if shelves.iter().skip(relation % 64).step_by(64).all(Vec::is_empty) {
            self.stocked.fetch_and(!Self::bit(relation), Ordering::Relaxed);
        }
    }
}

/// One worker's supply of record blocks.
#[derive(Default)]
pub(crate) struct Arena {
    chunks: Vec<Chunk>,
    /// Words used of the last chunk.
    used: usize,
    /// Words of it that are known to be present, of those ahead ([`Arena::stock_up`]).
    present: usize,
    /// Free blocks by relation number.
    free: Vec<Vec<RecordRef>>,
    /// More of them, of all workers.
    exchange: Arc<Exchange>,
    /// Free blocks of old versions, by data words.
    free_versions: Vec<Vec<RecordRef>>,
    /// Bytes of all blocks, free ones included.
    bytes: usize,
    /// What they were when that was asked last.
    told: usize,
    /// Bytes of old versions in use.
    version_bytes: usize,
    /// Blocks given out for old versions so far.
    versions: usize,
}

impl Arena {
    /// An empty one, whose surplus goes to `exchange`.
    pub fn new(exchange: Arc<Exchange>) -> Self {
        Self { exchange, ..Self::default() }
    }

    /// This arena, with its surplus going where that of `other` goes.
    pub fn with_exchange_of(self, other: &Self) -> Self {
        Self { exchange: Arc::clone(&other.exchange), ..self }
    }

    /// Makes memory for the next blocks present, so that they can be taken in a hardware region, which a page fault would end.
    #[inline(always)]
    pub fn stock_up(&mut self) {
        if self.used + AHEAD > self.present {
            self.touch();
        }
    }

    #[cold]
    fn touch(&mut self) {
        let Some(chunk) = self.chunks.last() else { return };
        let end = chunk.len().min(self.used + 4 * AHEAD);
        for at in (self.present.max(self.used)..end).step_by(PAGE_WORDS) {
            // SAFETY: `at` is within the chunk, which lives as long as the arena; its words are initialised (zero).
            let word = unsafe { chunk.word(at).as_ref() };
            // Relaxed: behind `used`, so no other thread knows it.
            word.store(0, Ordering::Relaxed);
        }
        // Also where the chunk ends earlier: the next one begins in software.
        self.present = self.used + 4 * AHEAD;
    }

    /// A block of `words` words for relation `relation`: recycled with its old contents, or new
    /// and zeroed. Its memory is present: a page fault, which may take a millisecond for a huge page,
    /// happens here, where the caller holds no latch.
    pub fn allocate(&mut self, relation: usize, words: usize) -> RecordRef {
        match self.free.get_mut(relation).and_then(Vec::pop) {
            Some(block) => block,
            None => self.restock(relation, words),
        }
    }

    /// A block from the exchange, with some for later, or a new one.
    #[cold]
    fn restock(&mut self, relation: usize, words: usize) -> RecordRef {
        // A worker that never frees anything has no list, but looks in the exchange too.
        if self.free.len() <= relation {
            self.free.resize_with(relation + 1, Vec::new);
        }
        self.exchange.take(relation, &mut self.free[relation]);
        match self.free[relation].pop() {
            Some(block) => block,
            None => self.carve(words),
        }
    }

    /// A block for an old version with `words` words of data.
    pub fn version(&mut self, words: usize) -> RecordRef {
        self.version_bytes += (HEADER + words) * size_of::<AtomicU64>();
        self.versions += 1;
        match self.free_versions.get_mut(words).and_then(Vec::pop) {
            Some(block) => block,
            None => self.carve(HEADER + words),
        }
    }

    /// Puts the block of an old version back, when its reclamation epoch has passed.
    pub fn release_version(&mut self, words: usize, block: RecordRef) {
        self.version_bytes -= (HEADER + words) * size_of::<AtomicU64>();
        if self.free_versions.len() <= words {
            self.free_versions.resize_with(words + 1, Vec::new);
        }
        self.free_versions[words].push(block);
    }

    /// A new block.
    fn carve(&mut self, words: usize) -> RecordRef {
        let words = words.next_multiple_of(BLOCK_ALIGN);
        if self.chunks.last().is_none_or(|chunk| chunk.len() - self.used < words) {
            assert!(words <= REACH, "a row takes at most {} bytes in place", REACH * size_of::<AtomicU64>());
            let size = if self.chunks.is_empty() { FIRST_WORDS } else { CHUNK_WORDS };
            let chunk = Chunk::new(size.max(words));
            self.chunks.push(chunk);
            (self.used, self.present) = (0, 0);
        }
        let chunk = self.chunks.last().expect("a chunk was just ensured");
        let start = self.used;
        self.used += words;
        self.bytes += words * size_of::<AtomicU64>();
        work(Work::Fresh(words));
        // `start..used` lies within the chunk, and no earlier block overlaps it.
        let block = chunk.block(start);
        // Relaxed: no other thread knows the block.
        block.word(0).store(0, Ordering::Relaxed);
        block.word(words - 1).store(0, Ordering::Relaxed);
        block
    }

    /// Puts a block back for the same relation: one that was never published, or whose reclamation epoch has
    /// passed.
    pub fn release(&mut self, relation: usize, block: RecordRef) {
        if self.free.len() <= relation {
            self.free.resize_with(relation + 1, Vec::new);
        }
        let free = &mut self.free[relation];
        free.push(block);
        if free.len() > SPARE {
            // The oldest: they have left the nearest cache.
            self.exchange.give(relation, free.drain(..SPARE / 2));
        }
    }

    /// Bytes of old versions in use.
    pub fn version_bytes(&self) -> usize {
        self.version_bytes
    }

    /// Blocks given out for old versions so far.
    pub fn versions(&self) -> usize {
        self.versions
    }

    /// Whether blocks were made since this was asked last. Old versions that were made wait for their reclamation.
    #[inline(always)]
    pub fn take_changed(&mut self) -> bool {
        std::mem::replace(&mut self.told, self.bytes) != self.bytes
    }

    /// Bytes of all blocks, free ones included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Chunk {
    /// A chunk of `words` words for blocks, and [`BEHIND`] more behind them.
    pub(crate) fn new(words: usize) -> Self {
        let chunk = Self::map(words);
        shared_memory(chunk.word(0).as_ptr().cast(), words * size_of::<AtomicU64>());
        chunk
    }

    /// The block that begins at a word. It lasts as long as the chunk, which the database keeps until no transaction
    /// is left.
    pub(crate) fn block(&self, start: usize) -> RecordRef {
        // SAFETY: `BEHIND` more words are behind those that `word` gives, all of them initialised (zero).
        unsafe { RecordRef::new(self.word(start)) }
    }
}

#[cfg(not(any(miri, feature = "loom", feature = "shuttle")))]
pub(crate) use mapped::Chunk;

/// Chunks from the operating system.
#[cfg(not(any(miri, feature = "loom", feature = "shuttle")))]
mod mapped {
    use super::{AtomicU64, BEHIND, NonNull};
    use crate::sync::shared_memory_ends;
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::ffi::c_void;

    const HUGE_PAGE: usize = 2 << 20;

    /// A private anonymous mapping: zeroed words, present once touched.
    #[derive(Debug)]
    pub(crate) struct Chunk {
        mapping: *mut c_void,
        mapped_bytes: usize,
        words: NonNull<AtomicU64>,
        len: usize,
    }

    // SAFETY: a chunk is plain memory of atomics; it is used by one arena at a time and shared only
    // as atomics.
    unsafe impl Send for Chunk {}

    impl Chunk {
        pub(super) fn map(words: usize) -> Self {
            let bytes = words * size_of::<AtomicU64>();
            let huge = bytes >= HUGE_PAGE;
            // Over-mapped by a huge page, so that the words can start at one.
            let room = if huge { bytes + HUGE_PAGE } else { bytes };
            // Nobody touches what is behind, so it takes addresses but no memory.
            let mapped_bytes = room + BEHIND * size_of::<AtomicU64>();
            let (protection, flags) =
                (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
            // SAFETY: a new anonymous mapping at an address of the system's choice aliases nothing.
            let mapping = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped_bytes, protection, flags) }
                .unwrap_or_else(|_| {
                    std::alloc::handle_alloc_error(
                        std::alloc::Layout::from_size_align(bytes, 8).expect("a chunk's size is in range"),
                    )
                });
            let start = if huge { mapping.map_addr(|a| a.next_multiple_of(HUGE_PAGE)) } else { mapping };
            let (advised, advice) = match huge {
                true => (bytes, Advice::LinuxHugepage),
                // Else a huge page might be given for a few words and what is behind them.
                false => (mapped_bytes, Advice::LinuxNoHugepage),
            };
            // SAFETY: the range lies within the mapping. Advice only: a refusal costs speed or memory.
            let _ = unsafe { madvise(start, advised, advice) };
            let words_start = NonNull::new(start.cast::<AtomicU64>()).expect("mappings are not at null");
            Self { mapping, mapped_bytes, words: words_start, len: words }
        }

        pub(crate) fn len(&self) -> usize {
            self.len
        }

        pub(super) fn word(&self, index: usize) -> NonNull<AtomicU64> {
            assert!(index < self.len, "block outside its chunk");
            // SAFETY: in bounds by the assertion; zeroed memory is a valid AtomicU64.
            unsafe { self.words.add(index) }
        }
    }

    impl Drop for Chunk {
        fn drop(&mut self) {
            shared_memory_ends(self.words.as_ptr().cast());
            // SAFETY: the mapping is this chunk's own and nothing refers to it any more: the
            // database drops its arenas after its last transaction.
            let _ = unsafe { munmap(self.mapping, self.mapped_bytes) };
        }
    }
}

/// Chunks from the heap, where each word is constructed: for model checkers and Miri.
#[cfg(any(miri, feature = "loom", feature = "shuttle"))]
#[derive(Debug)]
pub(crate) struct Chunk(NonNull<[AtomicU64]>);

// SAFETY: as for the mapped chunk.
#[cfg(any(miri, feature = "loom", feature = "shuttle"))]
unsafe impl Send for Chunk {}

#[cfg(any(miri, feature = "loom", feature = "shuttle"))]
impl Chunk {
    fn map(words: usize) -> Self {
        let words: Box<[AtomicU64]> = (0..words + BEHIND).map(|_| AtomicU64::new(0)).collect();
        Self(NonNull::from(Box::leak(words)))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len() - BEHIND
    }

    fn word(&self, index: usize) -> NonNull<AtomicU64> {
        assert!(index < self.len(), "block outside its chunk");
        // SAFETY: in bounds by the assertion.
        unsafe { self.0.cast::<AtomicU64>().add(index) }
    }
}

#[cfg(any(miri, feature = "loom", feature = "shuttle"))]
impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: made by `Box::leak` in `map` and not freed before.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_overlap_and_are_recycled_for_their_relation() {
        let mut arena = Arena::default();
        let blocks: Vec<RecordRef> = (0..2_000).map(|_| arena.allocate(3, 5)).collect();
        for (index, block) in blocks.iter().enumerate() {
            for word in 0..5 {
                assert_eq!(block.word(word).load(Ordering::Relaxed), 0);
                block.word(word).store(index as u64, Ordering::Relaxed);
            }
        }
        for (index, block) in blocks.iter().enumerate() {
            assert!((0..5).all(|word| block.word(word).load(Ordering::Relaxed) == index as u64));
        }
        let before = arena.bytes();
        arena.release(3, blocks[7]);
        assert_ne!(arena.allocate(4, 5), blocks[7], "another relation gets a new block");
        assert_eq!(arena.allocate(3, 5), blocks[7]);
        assert_eq!(arena.bytes(), before + 64, "one block more, of five words rounded up to eight");
    }
}
