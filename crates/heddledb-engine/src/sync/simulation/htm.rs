//! Hardware transactional memory, as the model has it.
//!
//! A *region* is a body whose accesses take effect at once or not at all, as Intel's RTM runs it:
//!
//! - Its stores stay in the core until it commits; its loads see them.
//! - The lines that it reads and writes are its *sets*. An access by another core to a line of its write set,
//!   or a write to one of its read set, aborts it: the requester wins, as on the hardware, so two regions can
//!   abort each other for ever, and users of regions need a fallback.
//! - Each set is as large as a cache is: so many ways in each of so many sets of lines (`htm_*` in
//!   [`Costs`](super::Costs); [`L1`](super::L1) names two). A store too many aborts; of loads too many a coarse tracker keeps what it can.
//! - Memory that only this core touches takes room as far as it is told as work, if it is to: the words that are copied, and an entry
//!   for each write.
//! - Waiting for a mutex or a condition, or with a spin hint, aborts, and so does an interrupt, which comes every so many cycles.
//!
//! An abort unwinds the body: its shared effects are gone, and so are the stores of the
//! destructors that run on the way. **What the body changed otherwise stays**: it must leave nothing outside
//! behind but words of the `sync` door.

#![allow(unsafe_code)]

use super::machine::{Machine, machine};
pub use super::regions::Tally;
use super::regions::{Mode, Put, Raised, Region};
pub use crate::sync::abort::{Abort, Interrupted};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

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
        let costs = self.costs();
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
        htm.regions[core] = Some(Region::new(htm.tally.begun, began, &costs));
        htm.tally.begun += 1;
        htm.active += 1;
        true
    }

    /// Ends the region: stores what it has, unless it is doomed.
    fn end_region(&self) -> Result<(), Abort> {
        let mut inside = self.inside.borrow_mut();
        let core = self.running();
        let region = inside.htm.regions.get_mut(core).and_then(Option::take).expect("a region was begun");
        inside.htm.active -= 1;
        let free = inside.htm.leave(core, &region);
        inside.settle(&free);
        if region.doomed == Some(Abort::Conflict) {
            let counts = inside.counts_of(core);
            counts.region_conflicts += 1;
            counts.index_conflicts += u64::from(region.by_index);
        }
        let tally = &mut inside.htm.tally;
        match region.doomed {
            None => {
                tally.committed += 1;
                drop(inside);
                // In one step: no other core runs.
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

/// Whether they are those of a model.
pub const MODELLED: bool = true;

/// Whether whoever runs the program asks for regions of the processor: these are none.
pub fn is_asked_for() -> bool {
    false
}

/// Whether this thread is in a region of which only the processor knows.
///
/// # Safety
/// None is asked for.
#[inline(always)]
pub unsafe fn is_inside() -> bool {
    false
}

/// Whether regions can be begun here: in a charged part of a simulation.
pub fn is_available() -> bool {
    machine().is_some_and(Machine::is_charged)
}

/// Begins a region, which [`finish`] ends.
///
/// An abort in between is raised at the next access: the stack unwinds from there, up to [`guard`], and the region is over,
/// but for its end.
///
/// # Safety
/// Every word of the `sync` door that is stored to in the region lives until it is ended.
///
/// # Errors
/// Outside of a charged part of a simulation, and inside another region, none can be begun: [`Abort::Unfriendly`].
pub unsafe fn begin() -> Result<(), Abort> {
    let Some(machine) = machine().filter(|machine| machine.is_charged()) else {
        return Err(Abort::Unfriendly);
    };
    if !machine.begin_region() {
        return Err(Abort::Unfriendly);
    }
    machine.spend(machine.costs().htm_begin, false);
    Ok(())
}

/// Runs `body` as the rest of the region that was begun, and ends it.
///
/// # Errors
/// Why it was aborted; nothing was stored then.
///
/// # Panics
/// Outside of a region; and with the panic of `body`, if what it rests on would have been committed.
pub fn finish<R>(body: impl FnOnce() -> R) -> Result<R, Abort> {
    let machine = machine().expect("a region was begun, so there is a machine");
    let costs = machine.costs();
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

/// Runs `body` as a region. Inside another it is a part of that.
///
/// # Safety
/// As for [`begin`].
///
/// # Errors
/// Why it was aborted; nothing was stored then. Where no region can be begun `body` does not run.
pub unsafe fn attempt<R>(body: impl FnOnce() -> R) -> Result<R, Abort> {
    if in_region() {
        return Ok(body());
    }
    // SAFETY: as the caller has promised.
    unsafe { begin() }?;
    finish(body)
}

/// Runs an operation, which may be in a region. If the region is aborted meanwhile, or was before, the operation ends there,
/// and the region is to be ended.
///
/// # Errors
/// The region was aborted.
pub fn guard<R>(operation: impl FnOnce() -> R) -> Result<R, Interrupted> {
    if is_over() {
        return Err(Interrupted);
    }
    catch_unwind(AssertUnwindSafe(operation)).map_err(|panic| match panic.is::<Raised>() {
        true => Interrupted,
        false => resume_unwind(panic),
    })
}

/// Whether the region that runs this can still take effect, at this moment.
///
/// # Errors
/// Why it cannot.
pub fn stands() -> Result<(), Abort> {
    let Some(machine) = machine() else { return Ok(()) };
    machine.take_turn();
    let mut inside = machine.inside.borrow_mut();
    let core = machine.running();
    match inside.htm.region(core).and_then(|region| region.doomed) {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

/// Aborts the region that runs this, with a code. Outside of one nothing happens.
pub fn abort<const CODE: u8>() {
    if let Some(machine) = machine()
        && machine.inside.borrow_mut().htm.mode(machine.running()) == Mode::Buffered
    {
        machine.raise(Some(Abort::Explicit(CODE)));
    }
}

/// Whether the region that runs this was aborted, and not ended yet: what is done on the way there has no effect.
pub fn is_over() -> bool {
    machine().is_some_and(Machine::is_unwinding)
}

/// Whether this runs in a region.
pub fn in_region() -> bool {
    machine().is_some_and(|machine| machine.inside.borrow_mut().htm.mode(machine.running()) != Mode::Plain)
}

/// How regions ended so far.
pub fn tally() -> Tally {
    machine().map_or_else(Tally::default, |machine| machine.inside.borrow().htm.tally)
}
