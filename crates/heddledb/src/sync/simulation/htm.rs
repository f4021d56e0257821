//! Hardware transactional memory, as the model has it.
//!
//! A *region* is a body whose accesses take effect at once or not at all, as Intel's RTM runs it:
//!
//! - Its stores stay in the core until it commits; its loads see them.
//! - The lines that it reads and writes are its *sets*. An access by anybody else to a line of its write set,
//!   or a write to one of its read set, aborts it: the requester wins, as on the hardware, so two regions can
//!   abort each other for ever, and who uses them needs a fallback.
//! - Each set is as large as a cache is: so many ways in each of so many sets of lines (`htm_*` in
//!   [`Costs`]). A line too many aborts.
//! - Waiting for a mutex or a condition aborts, and so does an interrupt, which comes every so many cycles.
//!
//! Regions nest flat. An abort unwinds the body: its shared effects are gone, and so are the stores of the
//! destructors that run on the way. **What the body changed otherwise stays**: it must leave nothing outside
//! behind but words of the `sync` door.

#![allow(unsafe_code)]

use super::costs::Costs;
use super::directory::Map;
use super::machine::{Machine, machine};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Why a region was aborted: the bits that the hardware tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Abort {
    /// By itself, with a code.
    #[error("explicit abort {0}")]
    Explicit(u8),
    /// Another core touched one of its lines. A retry may succeed.
    #[error("conflict")]
    Conflict,
    /// More lines than a set of the cache has room for. A retry will hardly succeed.
    #[error("capacity")]
    Capacity,
    /// An interrupt came. A retry may succeed.
    #[error("interrupt")]
    Interrupt,
    /// The body did what no region can: it waited.
    #[error("unfriendly instruction")]
    Unfriendly,
}

impl Abort {
    /// Whether a retry may succeed: what the hardware hints at.
    pub fn may_retry(self) -> bool {
        matches!(self, Self::Conflict | Self::Interrupt)
    }
}

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
struct Region {
    /// Buffered stores by address, in the order of their first.
    stores: Vec<(usize, u64, Put)>,
    places: Map<usize, usize>,
    reads: Lines,
    writes: Lines,
    began: u64,
    doomed: Option<Abort>,
    /// The abort has been raised, and the body is being unwound.
    unwinding: bool,
}

/// Who has a line in a set.
#[derive(Default)]
struct Holders {
    readers: Vec<usize>,
    writer: Option<usize>,
}

/// All regions.
#[derive(Default)]
pub(super) struct Model {
    regions: Vec<Option<Region>>,
    holders: Map<u32, Holders>,
    active: usize,
    tally: Tally,
}

/// What unwinds the body.
struct Raised;

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
struct Lines {
    /// With an address in each.
    lines: Map<u32, usize>,
    crowds: Map<u32, u64>,
}

impl Lines {
    /// Adds a line that is new; false if its set has no room for it.
    fn add(&mut self, line: u32, address: usize, sets: u64, ways: u64) -> bool {
        self.lines.insert(line, address);
        let crowd = self.crowds.entry(line % sets.max(1) as u32).or_insert(0);
        *crowd += 1;
        *crowd <= ways
    }
}

impl Model {
    fn region(&mut self, core: usize) -> Option<&mut Region> {
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

    fn doom(&mut self, core: usize, why: Abort) {
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
    fn leave(&mut self, core: usize, region: &Region) -> Vec<usize> {
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

impl Machine {
    /// What the running core's region has stored at an address.
    pub fn buffered(&self, address: usize) -> Option<u64> {
        let mut inside = self.inside.borrow_mut();
        let core = self.running();
        let region = inside.htm.region(core)?;
        region.places.get(&address).map(|place| region.stores[*place].1)
    }

    /// Stores into the running core's region.
    pub fn buffer(&self, address: usize, value: u64, put: Put) {
        let mut inside = self.inside.borrow_mut();
        let core = self.running();
        let Some(region) = inside.htm.region(core).filter(|region| !region.unwinding) else { return };
        match region.places.get(&address) {
            Some(place) => region.stores[*place].1 = value,
            None => {
                region.places.insert(address, region.stores.len());
                region.stores.push((address, value, put));
            }
        }
    }

    /// Ends the running core's region by an abort: the caller's stack unwinds to `attempt`.
    #[cold]
    pub fn raise(&self, why: Option<Abort>) -> ! {
        {
            let mut inside = self.inside.borrow_mut();
            let core = self.running();
            if let Some(region) = inside.htm.region(core) {
                if let Some(why) = why {
                    region.doomed.get_or_insert(why);
                }
                region.unwinding = true;
            }
        }
        resume_unwind(Box::new(Raised))
    }

    /// Aborts the running core's region, if it is in one: it is about to wait.
    pub fn no_region(&self) {
        if self.inside.borrow_mut().htm.mode(self.running()) == Mode::Buffered {
            self.raise(Some(Abort::Unfriendly));
        }
    }

    /// True for the outermost.
    fn begin_region(&self) -> bool {
        let mut inside = self.inside.borrow_mut();
        let core = self.running();
        if inside.htm.mode(core) != Mode::Plain {
            return false;
        }
        let began = inside.clock_of(core);
        let htm = &mut inside.htm;
        if htm.regions.len() <= core {
            htm.regions.resize_with(core + 1, || None);
        }
        htm.tally.begun += 1;
        htm.active += 1;
        htm.regions[core] = Some(Region {
            stores: Vec::new(),
            places: Map::default(),
            reads: Lines::default(),
            writes: Lines::default(),
            began,
            doomed: None,
            unwinding: false,
        });
        true
    }

    /// Ends the region: stores what it has, unless it is doomed.
    fn end_region(&self) -> Result<(), Abort> {
        let mut inside = self.inside.borrow_mut();
        let core = self.running();
        let Some(region) = inside.htm.regions[core].take() else { return Ok(()) };
        inside.htm.active -= 1;
        let free = inside.htm.leave(core, &region);
        inside.settle(&free);
        let tally = &mut inside.htm.tally;
        match region.doomed {
            None => {
                tally.committed += 1;
                drop(inside);
                // In one step: nobody else runs.
                region.stores.into_iter().for_each(|(address, value, put)| put(address, value));
                Ok(())
            }
            Some(why) => {
                let kind = match why {
                    Abort::Conflict => 0,
                    Abort::Capacity => 1,
                    Abort::Interrupt => 2,
                    Abort::Explicit(_) => 3,
                    Abort::Unfriendly => 4,
                };
                tally.aborted[kind] += 1;
                Err(why)
            }
        }
    }
}

/// Runs `body` as a region. Inside another it is a part of that.
///
/// # Safety
/// Every word of the `sync` door that `body` stores to lives until this returns: the store is made then.
///
/// # Errors
/// Why it was aborted; nothing was stored then. Outside of a charged part of a simulation there is no such
/// hardware: every region is [`Abort::Unfriendly`] there, and `body` does not run.
pub unsafe fn attempt<R>(body: impl FnOnce() -> R) -> Result<R, Abort> {
    let Some(machine) = machine().filter(|machine| machine.is_charged()) else {
        return Err(Abort::Unfriendly);
    };
    let costs = machine.costs();
    if !machine.begin_region() {
        return Ok(body());
    }
    machine.spend(costs.htm_begin, false);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    // Its turn: the last moment at which another can doom it.
    machine.take_turn();
    match (outcome, machine.end_region()) {
        (Ok(result), Ok(())) => {
            machine.spend(costs.htm_commit, false);
            Ok(result)
        }
        (Err(panic), ended) if !panic.is::<Raised>() => {
            // The body's own panic, which may rest on what a doomed region has read.
            machine.spend(costs.htm_abort, false);
            ended.and_then(|()| resume_unwind(panic))
        }
        (_, ended) => {
            machine.spend(costs.htm_abort, false);
            Err(ended.err().unwrap_or(Abort::Conflict))
        }
    }
}

/// Aborts the region that runs this, with a code. Outside of one nothing happens.
pub fn abort(code: u8) {
    if let Some(machine) = machine()
        && machine.inside.borrow_mut().htm.mode(machine.running()) == Mode::Buffered
    {
        machine.raise(Some(Abort::Explicit(code)));
    }
}

/// Whether this runs in a region.
pub fn in_region() -> bool {
    machine().is_some_and(|machine| machine.inside.borrow_mut().htm.mode(machine.running()) != Mode::Plain)
}

/// How regions ended so far.
pub fn tally() -> Tally {
    machine().map_or_else(Tally::default, |machine| machine.inside.borrow().htm.tally)
}
