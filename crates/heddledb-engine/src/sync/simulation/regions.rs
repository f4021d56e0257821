//! The regions of hardware transactions that are open: their lines, their stores, and who aborts whom.

use super::costs::Costs;
use super::directory::Map;
use crate::sync::Work;
use crate::sync::abort::Abort;

/// Lines of what is remembered of loads that have left the cache.
const SPAN: u32 = 64;
/// Private words that a write takes until it commits beside those that are copied: its entry, and its lock.
const WRITE_WORDS: u64 = 13;

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
    /// Spans of lines that were read and have left the cache.
    pub(super) spilled: Map<u32, ()>,
    /// Words of private memory that were stored to, and the lines that have been counted for them.
    pub(super) private: (u64, u64),
    /// How many regions were begun before.
    pub(super) number: u64,
    pub(super) began: u64,
    pub(super) doomed: Option<Abort>,
    /// The line for which another core has doomed it is one of an index.
    pub(super) by_index: bool,
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
    /// With an address in each, and whether it is one of an index.
    pub(super) lines: Map<u32, (usize, bool)>,
    pub(super) crowds: Map<u32, u64>,
}

impl Lines {
    /// Adds a line that is new; false if its set has no room for it.
    pub(super) fn add(&mut self, line: u32, place: (usize, bool), sets: u64, ways: u64) -> bool {
        self.lines.insert(line, place);
        self.crowd(u64::from(line), sets, ways)
    }

    /// Adds a line that only this core touches, so that nobody is told of it; false if its set has no room for it.
    fn crowd(&mut self, line: u64, sets: u64, ways: u64) -> bool {
        let crowd = self.crowds.entry((line % sets.max(1)) as u32).or_insert(0);
        *crowd += 1;
        *crowd <= ways
    }
}

impl Region {
    /// The region of that number. Its stack lies in the last sets of the cache.
    pub(super) fn new(number: u64, began: u64, costs: &Costs) -> Self {
        let mut region = Self {
            stores: Vec::new(),
            places: Map::default(),
            reads: Lines::default(),
            writes: Lines::default(),
            spilled: Map::default(),
            private: (0, 0),
            number,
            began,
            doomed: None,
            by_index: false,
            unwinding: false,
        };
        for line in 0..costs.htm_stack_lines {
            region.store_privately(u64::MAX - line, costs);
        }
        region
    }

    fn store_privately(&mut self, line: u64, costs: &Costs) {
        if !self.writes.crowd(line, costs.htm_write_sets, costs.htm_write_ways) {
            self.doomed.get_or_insert(Abort::Capacity);
        }
    }

    /// A load for whose line its set has no room: whether the region goes on. What remembers such loads is coarse and loses
    /// some, whichever they are.
    fn spills(&mut self, line: u32, spans: u64) -> bool {
        let span = line / SPAN;
        if spans == 0 {
            return false;
        }
        self.spilled.insert(span, ()).is_some()
            || !mixed(self.number << 32 | u64::from(span)).is_multiple_of(spans)
    }
}

/// A number that looks like a random one (the finaliser of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
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

    /// Another core has come to a line of a core's region.
    fn doom(&mut self, core: usize, line: u32) {
        if let Some(region) = self.region(core)
            && region.doomed.is_none()
        {
            region.doomed = Some(Abort::Conflict);
            let lines = [&region.reads.lines, &region.writes.lines];
            region.by_index =
                lines.into_iter().find_map(|lines| lines.get(&line)).is_some_and(|(_, index)| *index);
        }
    }

    /// An access to a line that is in some region's set, or by a core in a region; `place` is an address in it, and whether the
    /// core is in an index.
    pub fn touched(
        &mut self,
        core: usize,
        line: u32,
        place: (usize, bool),
        writes: bool,
        now: u64,
        costs: &Costs,
    ) {
        let mut doomed = Vec::new();
        if let Some(holders) = self.holders.get(&line) {
            doomed.extend(holders.writer.filter(|other| *other != core));
            if writes {
                doomed.extend(holders.readers.iter().copied().filter(|other| *other != core));
            }
        }
        doomed.into_iter().for_each(|other| self.doom(other, line));
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
        let fits = set.add(line, place, sets, ways);
        if !fits && (writes || !region.spills(line, costs.htm_read_spans)) {
            region.doomed.get_or_insert(Abort::Capacity);
        }
        let holders = self.holders.entry(line).or_default();
        if writes {
            holders.writer = Some(core);
        } else {
            holders.readers.push(core);
        }
    }

    /// Work on memory that only this core touches. What a region copies, and what it notes of its writes, lies behind one
    /// another in buffers that grow until it ends; where they begin depends on the core.
    pub fn worked(&mut self, core: usize, work: Work, costs: &Costs) {
        let words = match work {
            Work::Words(count) => count as u64,
            Work::Checks(count) => WRITE_WORDS * count as u64,
            _ => return,
        };
        let Some(region) = self.region(core).filter(|region| !region.unwinding) else { return };
        region.private.0 += words;
        while costs.htm_private_words > 0 && region.private.1 * costs.htm_private_words < region.private.0 {
            let line = mixed(core as u64 + 1) >> 1;
            region.store_privately(line + region.private.1, costs);
            region.private.1 += 1;
        }
    }

    /// Takes a region's lines out. Returns an address of each line that nobody has any more.
    pub(super) fn leave(&mut self, core: usize, region: &Region) -> Vec<usize> {
        let mut free = Vec::new();
        for (line, (address, _)) in region.reads.lines.iter().chain(&region.writes.lines) {
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
