//! The regions of hardware transactions that are open: their lines, their stores, and who aborts whom.

use super::costs::Costs;
use super::directory::Map;
use crate::sync::abort::Abort;

/// How regions ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Begun.
    pub begun: u64,
    /// Committed.
    pub committed: u64,
    /// Aborted by conflict, capacity, interrupt, themselves, waiting.
    pub aborted: [u64; 5],
}

/// Stores a word's value: of the type of the atomic at that address.
pub(super) type Put = fn(usize, u64);

/// The region of one core.
pub(super) struct Region {
    /// Buffered stores by address, in the order of their first.
    pub(super) stores: Vec<(usize, u64, Put)>,
    pub(super) places: Map<usize, usize>,
    pub(super) reads: Lines,
    pub(super) writes: Lines,
    pub(super) began: u64,
    pub(super) doomed: Option<Abort>,
    /// The abort has been raised, and the body is being unwound.
    pub(super) unwinding: bool,
}

/// Who has a line in a set.
#[derive(Default)]
pub(super) struct Holders {
    pub(super) readers: Vec<usize>,
    pub(super) writer: Option<usize>,
}

/// All regions.
#[derive(Default)]
pub(super) struct Model {
    pub(super) regions: Vec<Option<Region>>,
    pub(super) holders: Map<u32, Holders>,
    pub(super) active: usize,
    pub(super) tally: Tally,
}

/// What unwinds the body.
pub(super) struct Raised;

/// What an access inside a region must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Access memory.
    Plain,
    /// Go through the buffer.
    Buffered,
    /// Change nothing.
    Unwinding,
    /// Raise the abort.
    Raise,
}

/// Lines that a region has read or written, and how many of them fall into each set of the cache.
#[derive(Default)]
pub(super) struct Lines {
    /// With an address in each.
    pub(super) lines: Map<u32, usize>,
    pub(super) crowds: Map<u32, u64>,
}

impl Lines {
    /// Adds a line that is new; false if its set has no room for it.
    pub(super) fn add(&mut self, line: u32, address: usize, sets: u64, ways: u64) -> bool {
        self.lines.insert(line, address);
        let crowd = self.crowds.entry(line % sets.max(1) as u32).or_insert(0);
        *crowd += 1;
        *crowd <= ways
    }
}

impl Model {
    pub(super) fn region(&mut self, core: usize) -> Option<&mut Region> {
        self.regions.get_mut(core).and_then(Option::as_mut)
    }

    /// Whether anybody is in a region.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.active > 0
    }

    /// How an access of a core is to be done.
    pub fn mode(&mut self, core: usize) -> Mode {
        match self.region(core) {
            None => Mode::Plain,
            Some(region) if region.unwinding => Mode::Unwinding,
            Some(region) if region.doomed.is_some() => Mode::Raise,
            Some(_) => Mode::Buffered,
        }
    }

    pub(super) fn doom(&mut self, core: usize, why: Abort) {
        if let Some(region) = self.region(core) {
            region.doomed.get_or_insert(why);
        }
    }

    /// An access to a line that is in some region's set, or by a core in a region.
    pub fn touched(&mut self, core: usize, line: u32, address: usize, writes: bool, now: u64, costs: &Costs) {
        let mut doomed = Vec::new();
        if let Some(holders) = self.holders.get(&line) {
            doomed.extend(holders.writer.filter(|other| *other != core));
            if writes {
                doomed.extend(holders.readers.iter().copied().filter(|other| *other != core));
            }
        }
        doomed.into_iter().for_each(|other| self.doom(other, Abort::Conflict));
        let Some(region) = self.region(core).filter(|region| !region.unwinding) else { return };
        if now - region.began > costs.htm_interrupt {
            region.doomed.get_or_insert(Abort::Interrupt);
            return;
        }
        let (set, sets, ways) = match writes {
            true => (&mut region.writes, costs.htm_write_sets, costs.htm_write_ways),
            false => (&mut region.reads, costs.htm_read_sets, costs.htm_read_ways),
        };
        if set.lines.contains_key(&line) {
            return;
        }
        if !set.add(line, address, sets, ways) {
            region.doomed.get_or_insert(Abort::Capacity);
        }
        let holders = self.holders.entry(line).or_default();
        if writes {
            holders.writer = Some(core);
        } else {
            holders.readers.push(core);
        }
    }

    /// Takes a region's lines out. Returns an address of each line that nobody has any more.
    pub(super) fn leave(&mut self, core: usize, region: &Region) -> Vec<usize> {
        let mut free = Vec::new();
        for (line, address) in region.reads.lines.iter().chain(&region.writes.lines) {
            let Some(holders) = self.holders.get_mut(line) else { continue };
            holders.readers.retain(|reader| *reader != core);
            if holders.writer == Some(core) {
                holders.writer = None;
            }
            if holders.readers.is_empty() && holders.writer.is_none() {
                self.holders.remove(line);
                free.push(*address);
            }
        }
        free
    }
}
