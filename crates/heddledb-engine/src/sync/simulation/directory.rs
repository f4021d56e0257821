//! Which core has which cache line: the coherence model.
//!
//! **Lines.** Memory that holds arrays of shared words (chunks of an arena, index nodes) is *registered*: its
//! lines are numbered from its start on, so nothing depends on where the system has put it. Any other shared
//! word has a line of its own, numbered when it is first touched: such words stand alone on padded lines
//! already, or are touched seldom. Where a word ends its line is forgotten, or else the next word that the allocator
//! puts there would begin with what was left of it, and costs would depend on the allocator.
//!
//! **States** (MESI, seen from the line). A line has a *version*, which rises when a core writes it that did
//! not have it to itself. A core has a valid copy where its cache holds the line's number with the line's
//! version, so that one write takes all other copies away without a list of them. The *owner* has the only
//! copy while `EXCLUSIVE`; `DIRTY` says that no other cache or memory has its content.
//!
//! ```text
//!   a read that misses          line dirty at another core: transfer, the line is busy meanwhile
//!                               otherwise: fetch from a shared cache, or memory
//!   a write to an own copy      exclusive: a hit; otherwise: upgrade, the line is busy meanwhile
//!   a write that misses         as a read, but at least an upgrade where there are copies
//! ```
//!
//! A core that needs a busy line waits: that makes one contended word a bottleneck.
//!
//! **Left out**: bandwidth, prefetching, translation, false sharing between words that are not
//! registered, the order in which a real processor lets competing cores have a line (here: by their clocks).

use super::costs::{Costs, Counts, Topology};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What is done to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is read.
    Load,
    /// It is written.
    Store,
    /// It is read and written in one step; failed compare-exchanges too.
    Update,
}

/// A hasher for keys that are good numbers already.
#[derive(Default)]
pub(super) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_right(29);
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

/// A map whose iteration order is never used.
pub(super) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Multiply>>;

const LINE_SHIFT: u32 = 6;

/// Memory whose lines are numbered from its start.
struct Region {
    start: usize,
    end: usize,
    first: u32,
    /// Two words for each line: see [`Line`]. From the allocator zeroed, so that lines never touched cost
    /// nothing.
    words: Vec<u64>,
}

/// The state of a line, packed into two words: `busy_until`, and version (32 bits), owner + 1 (16),
/// sockets that have it (8), flags (8).
#[derive(Clone, Copy)]
struct Line {
    busy_until: u64,
    version: u32,
    owner: u16,
    sockets: u8,
    flags: u8,
}

const EXCLUSIVE: u8 = 1;
const DIRTY: u8 = 2;
const WATCHED: u8 = 4;
const SPECULATIVE: u8 = 8;
/// It was written since the simulation began.
const WRITTEN: u8 = 16;

impl Line {
    #[inline(always)]
    fn unpack(words: &[u64]) -> Self {
        let state = words[1];
        Self {
            busy_until: words[0],
            version: state as u32,
            owner: (state >> 32) as u16,
            sockets: (state >> 48) as u8,
            flags: (state >> 56) as u8,
        }
    }

    #[inline(always)]
    fn pack(self, words: &mut [u64]) {
        words[0] = self.busy_until;
        words[1] = u64::from(self.version)
            | u64::from(self.owner) << 32
            | u64::from(self.sockets) << 48
            | u64::from(self.flags) << 56;
    }

    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A core's own cache: pairs of line number and version, in sets of two, the newer first.
pub struct Cache {
    tags: Vec<u64>,
    shift: u32,
    /// The line of the access before, and its version then.
    last: u64,
}

impl Cache {
    /// An empty cache of about so many lines.
    pub fn new(lines: u64) -> Self {
        let lines = lines.next_power_of_two().clamp(16, 1 << 24) as usize;
        Self { tags: vec![0; lines], shift: 64 - (lines / 2).trailing_zeros(), last: 0 }
    }

    #[inline(always)]
    fn set(&self, number: u32) -> usize {
        // The number's hash: strided records must not all meet in one set.
        (((u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize) * 2
    }

    #[inline(always)]
    fn tag(number: u32, version: u32) -> u64 {
        u64::from(number) << 32 | u64::from(version)
    }

    #[inline(always)]
    fn has(&mut self, number: u32, version: u32) -> bool {
        let (at, tag) = (self.set(number), Self::tag(number, version));
        if self.tags[at] == tag {
            return true;
        }
        if self.tags[at + 1] == tag {
            self.tags.swap(at, at + 1);
            return true;
        }
        false
    }

    #[inline(always)]
    fn put(&mut self, number: u32, version: u32) {
        let at = self.set(number);
        if self.tags[at] >> 32 != u64::from(number) {
            self.tags[at + 1] = self.tags[at];
        }
        self.tags[at] = Self::tag(number, version);
    }
}

/// The result of an access.
pub struct Outcome {
    /// When it is done.
    pub done: u64,
    /// Whether cores sleep until this line is written, and it was.
    pub wakes: bool,
    /// Whether a hardware transaction has the line in one of its sets.
    pub speculative: bool,
    /// The line.
    pub number: u32,
}

/// All lines.
pub struct Directory {
    regions: Vec<Region>,
    /// The region that was found last.
    nearest: usize,
    /// Lines of words outside of regions: number and state.
    alone: Map<usize, (u32, [u64; 2])>,
    /// Of each 64 bytes of memory, in which of them such words begin, one bit each.
    begins: Map<usize, u64>,
    next: u32,
    /// What each socket's shared cache holds.
    shared: Vec<Vec<u32>>,
}

impl Directory {
    /// Of a machine on which no core has a line.
    pub fn new(costs: &Costs, topology: &Topology) -> Self {
        let lines = costs.shared_cache_lines.next_power_of_two().clamp(16, 1 << 28) as usize;
        let shared = (0..topology.sockets.clamp(1, 8)).map(|_| vec![0; lines]).collect();
        // Number 0 belongs to no line, so that an empty cache holds nothing.
        Self {
            regions: Vec::new(),
            nearest: 0,
            alone: Map::default(),
            begins: Map::default(),
            next: 1,
            shared,
        }
    }

    /// Numbers the lines of new memory. What is known of memory that was there before is forgotten.
    pub fn register(&mut self, start: usize, bytes: usize) {
        let end = start + bytes;
        self.regions.retain(|region| region.end <= start || region.start >= end);
        let lines = (bytes >> LINE_SHIFT) + 2;
        let at = self.regions.partition_point(|region| region.start < start);
        self.regions.insert(at, Region { start, end, first: self.next, words: vec![0; lines * 2] });
        self.next += lines as u32;
    }

    /// Forgets a word that has ended. Those of a region end together, the first of them first.
    pub fn forget(&mut self, address: usize) {
        match self.region(address) {
            None if self.alone.remove(&address).is_some() => {
                let begins = self.begins.entry(address >> LINE_SHIFT).or_default();
                *begins &= !Self::bit(address);
                if *begins == 0 {
                    self.begins.remove(&(address >> LINE_SHIFT));
                }
            }
            None => {}
            Some(at) if self.regions[at].start == address => _ = self.regions.remove(at),
            Some(_) => {}
        }
    }

    /// Whether there are words in this memory that were accessed, or are registered, and have not ended.
    pub fn knows(&self, start: usize, bytes: usize) -> bool {
        if bytes == 0 {
            return false;
        }
        let end = start + bytes;
        // They lie apart, in order.
        let at = self.regions.partition_point(|region| region.end <= start);
        let has_region = self.regions.get(at).is_some_and(|region| region.start < end);
        let (first, last) = (start >> LINE_SHIFT, (end - 1) >> LINE_SHIFT);
        let begins = |line| self.begins_in(line, start, end);
        has_region
            || match last - first < self.begins.len() {
                true => (first..=last).any(begins),
                false => self.begins.keys().any(|line| (first..=last).contains(line) && begins(*line)),
            }
    }

    /// Whether a word that stands alone begins in a line, from one address to another.
    fn begins_in(&self, line: usize, start: usize, end: usize) -> bool {
        let Some(begins) = self.begins.get(&line) else { return false };
        let first = line << LINE_SHIFT;
        (start.max(first)..end.min(first + (1 << LINE_SHIFT))).any(|address| begins & Self::bit(address) != 0)
    }

    /// Where an address stands in its line.
    fn bit(address: usize) -> u64 {
        1 << (address & ((1 << LINE_SHIFT) - 1))
    }

    /// The region of an address.
    #[inline(always)]
    fn region(&mut self, address: usize) -> Option<usize> {
        let holds = |region: &Region| region.start <= address && address < region.end;
        if self.regions.get(self.nearest).is_some_and(holds) {
            return Some(self.nearest);
        }
        let at = self.regions.partition_point(|region| region.start <= address).checked_sub(1)?;
        holds(&self.regions[at]).then(|| {
            self.nearest = at;
            at
        })
    }

    /// The number and state of an address's line.
    #[inline(always)]
    fn line(&mut self, address: usize) -> (u32, &mut [u64]) {
        match self.region(address) {
            Some(at) => {
                let region = &mut self.regions[at];
                let offset = (address - region.start) >> LINE_SHIFT;
                (region.first + offset as u32, &mut region.words[offset * 2..offset * 2 + 2])
            }
            None => {
                let (next, begins) = (&mut self.next, &mut self.begins);
                let (number, words) = self.alone.entry(address).or_insert_with(|| {
                    *begins.entry(address >> LINE_SHIFT).or_default() |= Self::bit(address);
                    *next += 1;
                    (*next - 1, [0; 2])
                });
                (*number, words)
            }
        }
    }

    /// The number of an address's line.
    pub fn number(&mut self, address: usize) -> u32 {
        self.line(address).0
    }

    /// Lets the line of an address be in a shared cache, at no cost, for code that loads tables. With several
    /// sockets the lines are dealt out. Words that stand alone are left out: there are few.
    #[inline]
    pub fn touch(&mut self, address: usize) {
        let Some(at) = self.region(address) else { return };
        let region = &self.regions[at];
        let number = region.first + ((address - region.start) >> LINE_SHIFT) as u32;
        let socket = number as usize % self.shared.len();
        let slot = Self::shared_slot(self.shared[socket].len(), number);
        self.shared[socket][slot] = number;
    }

    /// Marks the line of an address: its next write wakes the cores that sleep for it.
    pub fn watch(&mut self, address: usize) -> u32 {
        self.mark(address, WATCHED)
    }

    /// Marks the line of an address: a hardware transaction has it.
    pub fn speculate(&mut self, address: usize) -> u32 {
        self.mark(address, SPECULATIVE)
    }

    /// Takes the mark of hardware transactions away. The word may have ended since.
    pub fn settle(&mut self, address: usize) {
        if self.region(address).is_none() && !self.alone.contains_key(&address) {
            return;
        }
        let (_, words) = self.line(address);
        let mut line = Line::unpack(words);
        line.flags &= !SPECULATIVE;
        line.pack(words);
    }

    fn mark(&mut self, address: usize, flag: u8) -> u32 {
        let (number, words) = self.line(address);
        let mut line = Line::unpack(words);
        line.flags |= flag;
        line.pack(words);
        number
    }

    #[inline(always)]
    fn shared_slot(lines: usize, number: u32) -> usize {
        ((u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize & (lines - 1)
    }

    /// Lets core `me`, at `clock`, access the word at `address`.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the parts of one core, which lie apart")]
    pub fn access(
        &mut self,
        costs: &Costs,
        sockets: &[u8],
        caches: &mut [Cache],
        me: usize,
        clock: u64,
        address: usize,
        kind: Kind,
        counts: &mut Counts,
    ) -> Outcome {
        let shared_lines = self.shared[0].len();
        let (number, words) = self.line(address);
        let mut line = Line::unpack(words);
        let writes = kind != Kind::Load;
        let own = me as u16 + 1;
        counts.accesses += 1;
        let mut cost = 0;
        if kind == Kind::Update {
            counts.rmws += 1;
            cost += costs.rmw;
        }
        let wakes = writes && line.has(WATCHED);
        let speculative = line.has(SPECULATIVE);
        let tag = Cache::tag(number, line.version);
        let same = caches[me].last == tag;
        let exclusive = line.owner == own && line.has(EXCLUSIVE);
        if (same || caches[me].has(number, line.version)) && (!writes || exclusive) {
            if same {
                counts.same += 1;
                cost += costs.same;
            } else {
                counts.hits += 1;
                cost += costs.hit;
                caches[me].last = tag;
            }
            if writes && (!line.has(DIRTY) || wakes) {
                line.flags = (line.flags | DIRTY | WRITTEN) & !WATCHED;
                line.pack(words);
            }
            return Outcome { done: clock + cost, wakes, speculative, number };
        }
        let socket = usize::from(sockets[me]);
        let my_socket = 1 << socket;
        let others = line.sockets & !my_socket != 0;
        let copy = caches[me].has(number, line.version);
        let elsewhere = line.owner != 0 && line.owner != own && line.has(EXCLUSIVE) && line.has(DIRTY);
        let dirty = elsewhere && caches[line.owner as usize - 1].has(number, line.version);
        let start = clock.max(line.busy_until);
        counts.queueing_cycles += start - clock;
        let occupies;
        if copy {
            // A write to a copy that others may have too.
            occupies = true;
            counts.upgrades += 1;
            counts.far += u64::from(others);
            cost += if others { costs.upgrade_far } else { costs.upgrade };
        } else if dirty {
            occupies = true;
            let far = usize::from(sockets[line.owner as usize - 1]) != socket;
            counts.transfers += 1;
            counts.far += u64::from(far);
            cost += if far { costs.transfer_far } else { costs.transfer };
        } else {
            let slot = Self::shared_slot(shared_lines, number);
            let here = self.shared[socket][slot] == number;
            let far = !here && others && self.shared.iter().any(|cache| cache[slot] == number);
            let shared_by_others = writes && line.sockets != 0;
            occupies = shared_by_others;
            let foreign = line.has(WRITTEN) && line.owner != own;
            let mut price = match (here, far) {
                (true, _) => {
                    counts.fetches += 1;
                    if foreign { costs.refetch } else { costs.fetch }
                }
                (_, true) => {
                    counts.fetches += 1;
                    counts.far += 1;
                    costs.fetch_far
                }
                _ => {
                    counts.memory += 1;
                    costs.memory
                }
            };
            if shared_by_others {
                price = price.max(if others { costs.upgrade_far } else { costs.upgrade });
            }
            cost += price;
        }
        let done = start + cost;
        if writes {
            line.version = line.version.wrapping_add(1);
            line.owner = own;
            line.sockets = my_socket;
            line.flags = (line.flags | EXCLUSIVE | DIRTY | WRITTEN) & !WATCHED;
        } else if line.sockets == 0 {
            // No core has it: a first write will be silent.
            line.owner = own;
            line.sockets = my_socket;
            line.flags = (line.flags | EXCLUSIVE) & !DIRTY;
        } else {
            line.sockets |= my_socket;
            if line.owner != own {
                line.flags &= !(EXCLUSIVE | DIRTY);
            }
        }
        if occupies {
            line.busy_until = done;
        }
        let version = line.version;
        let (_, words) = self.line(address);
        line.pack(words);
        caches[me].put(number, version);
        caches[me].last = Cache::tag(number, version);
        self.shared[socket][Self::shared_slot(shared_lines, number)] = number;
        Outcome { done, wakes, speculative, number }
    }
}
