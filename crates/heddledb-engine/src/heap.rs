//! Where values lie that are not in their rows.
//!
//! **Mechanism.** A value is a block of words: a head, and its bytes. A transaction puts it there before it commits; nobody
//! changes it, until the block is free again and becomes another value's. Whether it is free is decided by its rows: a
//! value belongs to one column of one row, from the commit that installed it to the commit that replaced it. Then it
//! waits as an overwritten version does, for the epoch and for the snapshots ([`crate::db`], garbage). What a
//! transaction has put and not installed it gives up at its end; others may have read it where a protocol shows writes,
//! so that waits for the epoch too.
//!
//! The head is 0 until the value is installed, and then the epoch of that commit.
//!
//! **Type-stable memory.** As with records: chunks are returned only with the heap, words are atomics, and a place is
//! looked up and not followed. So any bits of a [slot](crate::values::Slot), as in a torn copy, lead to some words or to
//! none, and whoever read them throws them away.

use crate::mutant::{Mutant, planted};
use crate::sync::{AtomicU64, MODEL, Mutex, Ordering, lock, shared_memory};
use crate::values::{Outside, Slot, Values, append, in_words};
use std::sync::OnceLock;

/// Words of a chunk: 256 KiB.
const CHUNK_WORDS: usize = if MODEL || cfg!(miri) { 1 << 8 } else { 1 << 15 };
/// Blocks of more words have a chunk of their own.
const SHARED_WORDS: usize = CHUNK_WORDS / 4;
/// Chunks that are found by one table, and tables.
const TABLE: usize = 1 << 12;
const TABLES: usize = if MODEL || cfg!(miri) { 4 } else { 1 << 10 };

/// Up to so many words, sizes are multiples of [`STEP`].
const FINE_WORDS: usize = 512;
const STEP: usize = 4;
/// Of longer blocks there are so many sizes up to twice the length.
const SIZES: usize = 16;
const CLASSES: usize = FINE_WORDS / STEP + SIZES * 16;

/// Free blocks of a size that a worker keeps to itself; half of them go when there are more.
const SPARE: usize = if MODEL || cfg!(miri) { 4 } else { 64 };

type Chunk = Box<[AtomicU64]>;
/// Some chunks, each made at its first use.
type Table = Box<[OnceLock<Chunk>]>;

/// All values of a database that are not in their rows.
pub(crate) struct Heap {
    tables: Box<[OnceLock<Table>]>,
    /// How many chunks there are.
    chunks: Mutex<usize>,
    supplies: Box<[Supply]>,
    /// Free blocks by size that any worker may take.
    shelves: Mutex<Vec<Vec<u64>>>,
    /// Set once there was a value. Not behind the `sync` door: nothing is ordered by it, and what has no values pays nothing.
    used: OnceLock<()>,
}

/// One worker's.
struct Supply {
    /// How many values are in `made`: so that transactions without values need no lock. Only its worker changes it.
    made: AtomicU64,
    own: Mutex<Own>,
}

#[derive(Default)]
struct Own {
    /// The chunk from which blocks are cut, and where the next begins.
    chunk: usize,
    next: usize,
    /// Free blocks by size.
    free: Vec<Vec<u64>>,
    /// What the attempt has put.
    made: Vec<Outside>,
    /// What it writes when it has ended: only of a planted bug.
    late: Vec<(Outside, Vec<u64>)>,
    /// Bytes of blocks that are taken, minus those that were freed here.
    bytes: i64,
}

impl std::fmt::Debug for Heap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heap").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// The size of a block that has room for so many words, and its number among all sizes.
fn class(words: usize) -> (usize, usize) {
    if words <= FINE_WORDS {
        let number = words.div_ceil(STEP).max(1);
        return (number * STEP, number - 1);
    }
    let power = (words - 1).ilog2();
    let step = (1 << power) / SIZES;
    let steps = (words - (1 << power)).div_ceil(step);
    let doublings = (power - FINE_WORDS.ilog2()) as usize;
    ((1 << power) + steps * step, FINE_WORDS / STEP + doublings * SIZES + steps - 1)
}

fn place(chunk: usize, at: usize) -> u64 {
    (chunk as u64) << 32 | at as u64
}

impl Heap {
    /// A heap for the workers of so many sessions.
    pub fn new(workers: usize) -> Self {
        let supply = |_| Supply { made: AtomicU64::new(0), own: Mutex::new(Own::default()) };
        Self {
            tables: (0..TABLES).map(|_| OnceLock::new()).collect(),
            chunks: Mutex::new(0),
            supplies: (0..workers.max(1)).map(supply).collect(),
            shelves: Mutex::new(Vec::new()),
            used: OnceLock::new(),
        }
    }

    /// Whether there ever was a value.
    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.used.get().is_some()
    }

    /// Bytes of the blocks of all values, those included that wait for their reclamation.
    pub fn bytes(&self) -> usize {
        self.supplies.iter().map(|supply| lock(&supply.own).bytes).sum::<i64>().max(0) as usize
    }

    #[inline(always)]
    fn supply(&self, worker: usize) -> &Supply {
        &self.supplies[worker]
    }

    /// The number of a supply, for those that have none of their own.
    pub fn any_supply(&self, hash: usize) -> usize {
        hash % self.supplies.len()
    }

    /// The words of a value with its head in front; fewer or none where there is no such value.
    fn block(&self, value: Outside) -> &[AtomicU64] {
        let (chunk, at) = ((value.place >> 32) as usize, value.place as u32 as usize);
        let table = self.tables.get(chunk / TABLE).and_then(OnceLock::get);
        let chunk = table.and_then(|table| table[chunk % TABLE].get());
        let words = chunk.and_then(|chunk| chunk.get(at..)).unwrap_or_default();
        &words[..words.len().min(1 + value.words())]
    }

    /// The words of a value's bytes.
    pub fn words(&self, value: Outside) -> impl Iterator<Item = u64> + '_ {
        // Relaxed: the slot that led here was published after the words, and is thrown away if it was torn.
        self.block(value).iter().skip(1).map(|word| word.load(Ordering::Relaxed))
    }

    /// Makes a chunk.
    fn add_chunk(&self, words: usize) -> usize {
        let mut chunks = lock(&self.chunks);
        let number = *chunks;
        *chunks += 1;
        let chunk: Chunk = (0..words).map(|_| AtomicU64::new(0)).collect();
        shared_memory(chunk.as_ptr().cast(), size_of_val(&*chunk));
        let table = self.tables.get(number / TABLE).expect("a process has not so much memory");
        let table = table.get_or_init(|| (0..TABLE).map(|_| OnceLock::new()).collect());
        let fresh = table[number % TABLE].set(chunk).is_ok();
        debug_assert!(fresh, "a chunk is made once");
        number
    }

    /// A free block for so many words.
    fn take(&self, own: &mut Own, words: usize) -> u64 {
        let (size, number) = class(words);
        own.bytes += (size * 8) as i64;
        if own.free.is_empty() {
            own.free.resize_with(CLASSES, Vec::new);
        }
        if let Some(block) = own.free[number].pop() {
            return block;
        }
        let mut shelves = lock(&self.shelves);
        if let Some(shelf) = shelves.get_mut(number) {
            own.free[number].extend(shelf.drain(shelf.len().saturating_sub(SPARE / 2)..));
        }
        drop(shelves);
        if let Some(block) = own.free[number].pop() {
            return block;
        }
        if size > SHARED_WORDS {
            return place(self.add_chunk(size), 0);
        }
        if own.next == 0 || own.next + size > CHUNK_WORDS {
            (own.chunk, own.next) = (self.add_chunk(CHUNK_WORDS), 0);
        }
        own.next += size;
        place(own.chunk, own.next - size)
    }

    /// Puts a value that is installed at once, for recovery: no transaction runs.
    pub fn load(&self, worker: usize, words: &[u64], bytes: usize) -> Outside {
        self.used.get_or_init(|| ());
        let mut own = lock(&self.supply(worker).own);
        let value = Outside { place: self.take(&mut own, 1 + words.len()), bytes };
        self.fill(value, 1, words.iter().copied());
        value
    }

    /// Writes a block that nobody reads.
    fn fill(&self, value: Outside, head: u64, words: impl Iterator<Item = u64>) {
        let words = std::iter::once(head).chain(words);
        // Relaxed: published with the record or image that gets the slot.
        self.block(value).iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
    }

    /// A value is installed by a commit of that epoch, unless it was before.
    pub fn install(&self, value: Outside, epoch: u64) {
        if let [head, ..] = self.block(value)
            && head.load(Ordering::Relaxed) == 0
        {
            // Relaxed: read by who replaces it, under the lock of the record.
            head.store(epoch.max(1), Ordering::Relaxed);
        }
    }

    /// The epoch of the commit that installed a value; 0 before.
    pub fn installed(&self, value: Outside) -> u64 {
        self.block(value).first().map_or(0, |head| head.load(Ordering::Relaxed))
    }

    /// Makes the bytes of `value` those of `other`, which are as many: what a planted bug does.
    pub fn overwrite(&self, value: Outside, other: Outside) {
        let words: Vec<u64> = self.words(other).collect();
        self.fill(value, self.installed(value), words.into_iter());
    }

    /// Whether a worker's attempt has put values.
    #[inline(always)]
    pub fn has_made(&self, worker: usize) -> bool {
        self.is_used() && self.supply(worker).made.load(Ordering::Relaxed) != 0
    }

    /// Hands over what a worker's attempt has put, at its end.
    pub fn made(&self, worker: usize) -> Vec<Outside> {
        let supply = self.supply(worker);
        supply.made.store(0, Ordering::Relaxed);
        let mut own = lock(&supply.own);
        for (value, words) in own.late.drain(..) {
            self.fill(value, self.installed(value), words.into_iter());
        }
        std::mem::take(&mut own.made)
    }

    /// Takes a value back, which nobody reads any more.
    pub fn free(&self, worker: usize, value: Outside) {
        let mut own = lock(&self.supply(worker).own);
        let (size, number) = class(1 + value.words());
        own.bytes -= (size * 8) as i64;
        if own.free.is_empty() {
            own.free.resize_with(CLASSES, Vec::new);
        }
        let free = &mut own.free[number];
        free.push(value.place);
        if free.len() > SPARE {
            let mut shelves = lock(&self.shelves);
            if shelves.is_empty() {
                shelves.resize_with(CLASSES, Vec::new);
            }
            // The oldest: they have left the nearest cache.
            shelves[number].extend(free.drain(..SPARE / 2));
        }
    }

    /// Takes back at once what a worker has put: nobody else has seen it.
    pub fn discard(&self, worker: usize) {
        self.made(worker).into_iter().for_each(|value| self.free(worker, value));
    }

    /// Appends the values of the slots whose words are at `start + slot` of `out`, and says in each where its value is now,
    /// counted from `start`: see [`Logged`](crate::values::Logged).
    pub fn append(&self, slots: impl Iterator<Item = usize>, start: usize, out: &mut Vec<u64>) {
        for slot in slots {
            let at = start + slot;
            let Some(value) = Slot([out[at], out[at + 1]]).value() else { continue };
            out[at] = (out.len() - start) as u64;
            if planted(Mutant::ValueLoggedLate) {
                out.extend(std::iter::repeat_n(0, value.words()));
                continue;
            }
            out.extend(self.words(value));
        }
    }
}

impl Values for Heap {
    fn read(&self, value: Outside, out: &mut Vec<u8>) {
        // A torn slot may have any length; what is there is at most a chunk.
        append(self.words(value), value.bytes, out);
    }

    fn put(&self, worker: usize, value: &[u8]) -> u64 {
        let supply = self.supply(worker);
        self.used.get_or_init(|| ());
        let mut own = lock(&supply.own);
        let made = Outside { place: self.take(&mut own, 1 + value.len().div_ceil(8)), bytes: value.len() };
        match planted(Mutant::ValueReadTorn) {
            false => self.fill(made, 0, in_words(value)),
            true => {
                self.fill(made, 0, in_words(&value[..value.len() / 2]));
                own.late.push((made, in_words(value).collect()));
            }
        }
        own.made.push(made);
        supply.made.store(own.made.len() as u64, Ordering::Relaxed);
        made.place
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    fn read(heap: &Heap, value: Outside) -> Vec<u8> {
        let mut bytes = Vec::new();
        heap.read(value, &mut bytes);
        bytes
    }

    #[test]
    fn sizes_have_room_and_waste_little() {
        let (mut last, mut sizes) = (0, 0);
        for words in 1..=(1 << 21) + 1 {
            if words > 10_000 && words % 997 != 0 {
                continue;
            }
            let (size, number) = class(words);
            assert!(size >= words && number < CLASSES);
            assert!(size < words + STEP || size * SIZES <= words * (SIZES + 1) + size, "{words} {size}");
            assert_eq!(class(size), (size, number), "a size is its own");
            sizes += usize::from(size != last);
            last = size;
        }
        assert!(sizes > 128);
        // 1 KB of text with its head and slot, in all.
        assert!(class(1 + 1024 / 8).0 * 8 + 16 <= 1024 + 64);
    }

    #[test]
    fn values_are_what_was_put_and_their_blocks_are_used_again() {
        let heap = Heap::new(2);
        let longest = if cfg!(miri) { 4_000 } else { 3_000_000 };
        for round in 0..3 {
            let lengths = [16, 17, 100, 1024, 5_000, longest];
            let values: Vec<(Outside, Vec<u8>)> = lengths
                .iter()
                .map(|length| {
                    let bytes: Vec<u8> = (0..*length).map(|at| (at * 7 + round) as u8).collect();
                    (Outside { place: heap.put(1, &bytes), bytes: *length }, bytes)
                })
                .collect();
            for (value, bytes) in &values {
                assert_eq!((&read(&heap, *value), heap.installed(*value)), (bytes, 0));
                heap.install(*value, 7);
                heap.install(*value, 9);
                assert_eq!(heap.installed(*value), 7);
            }
            assert!(heap.has_made(1) && !heap.has_made(0));
            assert_eq!(heap.made(1).len(), values.len());
            // Freed by another than took it: goes on the shelf when there are many.
            values.iter().for_each(|(value, _)| heap.free(if round == 1 { 0 } else { 1 }, *value));
            assert_eq!(heap.bytes(), 0);
        }
        let chunks = *lock(&heap.chunks);
        for _ in 0..10 * SPARE {
            let place = heap.put(1, &[5; 100]);
            heap.made(1);
            heap.free(0, Outside { place, bytes: 100 });
        }
        let more = *lock(&heap.chunks) - chunks;
        assert!(more <= SPARE * 2 * 16 / CHUNK_WORDS + 1, "{more} chunks more");
    }

    #[test]
    fn any_bits_lead_to_some_bytes() {
        let heap = Heap::new(1);
        heap.put(0, &[1; 40]);
        let numbers = [0, 1, 5, 1 << 31, u64::MAX >> 8, u64::MAX];
        for (place, bytes) in numbers.iter().flat_map(|place| numbers.map(|bytes| (*place, bytes as usize))) {
            for place in [place, place << 32] {
                assert!(read(&heap, Outside { place, bytes }).len() <= CHUNK_WORDS * 8);
            }
        }
    }
}
