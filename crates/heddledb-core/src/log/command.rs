//! Commands: entries of transactions that say which procedure was called, and not what it wrote (DGCC §4.2.1).
//!
//! ```text
//!  word 0   commit time, as of any entry
//!  word 1   words of the entry (low 32) | cells (32..60) | alone 62 | command 63
//!  word 2   procedure 0..16 | bytes of the arguments 32..64
//!  word 3   digest of what it wrote
//!           the arguments' bytes, with zeros up to a whole word
//!           the cells, two in a word, in the order of their hashes
//! ```
//!
//! A *cell* is a unit of conflict, as a hash, with how the call used it. Of two entries that share one, where one of the uses is
//! a write, the later in the order of commit times is executed after the earlier; so the cells are the graph of the log, and
//! entries that share none are executed side by side. Two units with the same hash are one: their calls wait more often than they
//! need. What the hashes are is part of the format.

use crate::stamp;

pub(super) const COMMAND: u64 = 1 << 63;
pub(super) const ALONE: u64 = 1 << 62;
const CELLS_SHIFT: u32 = 32;
/// The most cells of a command.
pub const CELLS_MAX: usize = 1 << 20;
/// Words before the arguments.
const HEAD: usize = 4;

/// How a call uses a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CellUse {
    /// It reads a column group of a row, or whether there is one.
    Reads,
    /// It scans keys below a prefix.
    Scans,
    /// It writes a row whose key begins with a prefix that may be scanned.
    Within,
    /// It writes a column group of a row.
    Writes,
}

/// A unit of conflict and its use: 30 bits of a hash, above 2 of the use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell(pub u32);

impl Cell {
    /// A column group of a row, by the number of its relation in the manifest.
    #[inline]
    pub fn of_row(relation: u16, key: &[u64], group: usize, used: CellUse) -> Self {
        Self::new(hash(u64::from(relation), key, group as u64), used)
    }

    /// The keys of a relation that begin with those words.
    #[inline]
    pub fn below(relation: u16, prefix: &[u64], used: CellUse) -> Self {
        Self::new(hash(u64::from(relation), prefix, u64::MAX - prefix.len() as u64), used)
    }

    fn new(hash: u64, used: CellUse) -> Self {
        Self((hash >> 34) as u32 | (used as u32) << 30)
    }

    /// Its hash, without the use.
    #[inline]
    pub fn hash(self) -> u32 {
        self.0 & ((1 << 30) - 1)
    }

    /// How it is used.
    #[inline]
    pub fn used(self) -> CellUse {
        [CellUse::Reads, CellUse::Scans, CellUse::Within, CellUse::Writes][(self.0 >> 30) as usize]
    }
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(29) ^ word).wrapping_mul(FACTOR)
}

fn hash(relation: u64, key: &[u64], part: u64) -> u64 {
    let hash = key.iter().fold(relation.wrapping_mul(FACTOR), |hash, word| mix(hash, *word));
    // Twice, so that the high bits depend on all of the last word.
    mix(mix(hash, part), 0)
}

/// The digest of one write: of its words in an entry of values. Those of a transaction are added up, so their order does not matter.
#[inline]
pub fn digest(words: &[u64]) -> u64 {
    mix(words.iter().fold(words.len() as u64, |hash, word| mix(hash, *word)), 0)
}

/// Cells in the order of their hashes, each once for each use, and those that are written for that only.
pub fn sort_cells(cells: &mut Vec<Cell>) {
    cells.sort_unstable_by_key(|cell| (cell.hash(), std::cmp::Reverse(cell.used())));
    cells.dedup_by(|later, first| {
        later.hash() == first.hash() && (later.used() == first.used() || first.used() == CellUse::Writes)
    });
}

/// A command that is being written at the end of a buffer.
#[must_use = "a command counts only after `end`"]
pub struct WritingCommand {
    start: usize,
}

impl WritingCommand {
    /// Begins the entry of a call that commits at `time`.
    pub fn begin(out: &mut Vec<u64>, time: u64, procedure: u16, arguments: &[u8]) -> Self {
        let start = out.len();
        let head = u64::from(procedure) | (arguments.len() as u64) << 32;
        out.extend_from_slice(&[stamp::time(time), 0, head, 0]);
        let (words, rest) = arguments.as_chunks::<8>();
        out.extend(words.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            out.push(u64::from_le_bytes(last));
        }
        Self { start }
    }

    /// Ends it: the cells in order, whether it is executed alone, and the digest of what was written.
    pub fn end(self, out: &mut Vec<u64>, cells: &[Cell], alone: bool, digest: u64) {
        debug_assert!(cells.len() <= CELLS_MAX);
        let (pairs, rest) = cells.as_chunks::<2>();
        out.extend(pairs.iter().map(|[one, other]| u64::from(one.0) | u64::from(other.0) << 32));
        out.extend(rest.iter().map(|cell| u64::from(cell.0)));
        let words = (out.len() - self.start) as u64;
        let alone = if alone { ALONE } else { 0 };
        out[self.start + 1] = words | (cells.len() as u64) << CELLS_SHIFT | alone | COMMAND;
        out[self.start + 3] = digest;
    }
}

/// A call of the log. Its lengths have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// The number of its procedure in the manifest.
    pub procedure: u16,
    /// Of what it wrote.
    pub digest: u64,
    bytes: usize,
    arguments: &'a [u64],
    count: usize,
    cells: &'a [u64],
}

impl<'a> Command<'a> {
    /// The command in the words of an entry, whose second one says that it is one.
    pub(super) fn read(entry: &'a [u64]) -> Result<Self, &'static str> {
        let &[_, size, head, digest, ..] = entry else { return Err("a command is shorter than its head") };
        let (bytes, count) = ((head >> 32) as usize, (size >> CELLS_SHIFT) as usize & ((1 << 28) - 1));
        if head >> 16 & 0xFFFF != 0 {
            return Err("a command has something where zeros are due");
        }
        let (arguments, rest) = entry[HEAD..]
            .split_at_checked(bytes.div_ceil(8))
            .ok_or("the arguments of a command are cut off")?;
        if count > CELLS_MAX || rest.len() != count.div_ceil(2) {
            return Err("a command has another number of cells than it says");
        }
        let command = Self { procedure: head as u16, digest, bytes, arguments, count, cells: rest };
        let is_padded = bytes % 8 == 0 || arguments.last().is_some_and(|last| last >> (bytes % 8 * 8) == 0);
        if !is_padded || count % 2 == 1 && rest.last().is_some_and(|last| last >> 32 != 0) {
            return Err("a command has something where zeros are due");
        }
        Ok(command)
    }

    /// The bytes of its arguments.
    pub fn arguments(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.arguments.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(self.bytes);
        bytes
    }

    /// How many bytes these are.
    pub fn argument_bytes(&self) -> usize {
        self.bytes
    }

    /// What it used.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + 'a {
        let halves = |word: &u64| [Cell(*word as u32), Cell((word >> 32) as u32)];
        self.cells.iter().flat_map(halves).take(self.count)
    }
}
