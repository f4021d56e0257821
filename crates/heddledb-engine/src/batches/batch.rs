//! A batch: its calls, their graph, and which of them may begin (DGCC §3.3, Algorithm 2).

use super::link::{Linker, Links, NONE};
use super::pieces::Pieces;
use super::words::Words;
use crate::footprint::Footprint;
use crate::mutant::{Mutant, planted};
use crate::sync::{AtomicU32, Mutex, Ordering, lock, spin};
use crossbeam_utils::CachePadded;

/// After so many vain tries, spins get no longer: 4, 8, and so on to 256 hints.
const MOST_SPINS: u32 = 6;

/// Who executes a call.
#[derive(Clone, Debug, Default)]
pub(super) enum Work<J> {
    /// Nobody: it has ended.
    #[default]
    Over,
    /// Whoever comes first.
    Job(J),
    /// The worker that waits for it.
    Owner(Owner),
}

/// A worker that waits for its call: its number, and that of the call among its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub worker: usize,
    pub call: u64,
}

/// A call of a batch.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Vertex<J> {
    pub work: Mutex<Work<J>>,
    /// What it will access. Who executes it borrows it.
    pub footprint: Mutex<Footprint>,
}

impl<J> Default for Vertex<J> {
    fn default() -> Self {
        Self { work: Mutex::new(Work::Over), footprint: Mutex::new(Footprint::default()) }
    }
}

/// Calls that are executed together. Its memory is kept for others.
#[derive(Debug)]
pub(super) struct Batch<J> {
    /// Its place in the order of batches.
    pub number: u64,
    /// The calls, and places for more. Each stays where it is when there come more, so that what workers look at costs the same
    /// wherever memory is.
    vertices: Vec<Box<Vertex<J>>>,
    pub calls: usize,
    /// When it was cut, in nanoseconds.
    pub cut: u64,
    pub links: Links,
    /// The calls that are executed in pieces, before all others.
    pub pieces: Pieces,
    /// By vertex, how many vertices before it have not ended.
    waits: Words,
    /// The jobs that may begin, in the order in which that was found out, and then `NONE`.
    ready: Words,
    /// How many of these have begun, and how many were put there.
    begun: CachePadded<AtomicU32>,
    put: CachePadded<AtomicU32>,
    /// Calls that have not ended, and those of them that are executed in pieces.
    left: CachePadded<AtomicU32>,
    pieces_left: CachePadded<AtomicU32>,
    /// How many workers have turned to it.
    pub workers: AtomicU32,
    levels: Option<Levels>,
}

/// The calls of a batch by their levels: those of one begin when those of the one before have ended.
#[derive(Debug, Default)]
struct Levels {
    sorted: Vec<u32>,
    /// By level, where it begins in `sorted`.
    begins: Vec<u32>,
    /// The level that is executed, and how many of its calls have not ended.
    level: AtomicU32,
    left: AtomicU32,
}

/// What the end of a call leads to.
pub(super) trait Released {
    /// All calls in pieces have ended.
    fn pieces_over(&mut self);
    /// A level of so many calls begins.
    fn begins_level(&mut self, calls: usize);
    /// A job may begin.
    fn job(&mut self, call: u32);
    /// An owner may begin its call. False if it waits no more: then the call has ended.
    fn owner(&mut self, owner: Owner, call: u32) -> bool;
}

impl<J: Clone> Batch<J> {
    /// A batch without calls; `levels` says whether its calls begin level by level.
    pub fn new(levels: bool) -> Self {
        let zero = || CachePadded::new(AtomicU32::new(0));
        Self {
            number: 0,
            vertices: Vec::new(),
            calls: 0,
            cut: 0,
            links: Links::default(),
            pieces: Pieces::default(),
            waits: Words::default(),
            ready: Words::default(),
            begun: zero(),
            put: zero(),
            left: zero(),
            pieces_left: zero(),
            workers: AtomicU32::new(0),
            levels: levels.then(Levels::default),
        }
    }

    /// Becomes the batch of that number, without calls, which is cut now.
    pub fn begin(&mut self, number: u64, now: u64) {
        (self.number, self.calls, self.cut) = (number, 0, now);
    }

    /// Adds a call.
    pub fn push(&mut self, work: Work<J>) -> &Mutex<Footprint> {
        if self.calls == self.vertices.len() {
            self.vertices.push(Box::default());
        }
        let vertex = &self.vertices[self.calls];
        self.calls += 1;
        *lock(&vertex.work) = work;
        &vertex.footprint
    }

    pub fn vertex(&self, call: u32) -> &Vertex<J> {
        &self.vertices[call as usize]
    }

    /// Makes the graph of what the calls have told; `in_pieces` says whether calls may be executed in pieces. Returns how many are
    /// executed one after another at the most, if they are whole.
    pub fn link(&mut self, linker: &mut Linker, told: &mut Vec<Footprint>, in_pieces: bool) -> usize {
        let vertices = &self.vertices[..self.calls];
        if told.len() < vertices.len() {
            told.resize_with(vertices.len(), Footprint::default);
        }
        let told = &mut told[..vertices.len()];
        let swap = |told: &mut [Footprint]| {
            told.iter_mut()
                .zip(vertices)
                .for_each(|(told, vertex)| std::mem::swap(told, &mut lock(&vertex.footprint)));
        };
        swap(told);
        let depth = linker.link(&mut self.links, (&mut self.pieces, in_pieces), told.iter());
        swap(told);
        self.pieces.fill();
        self.waits.fill(self.links.waits.iter().copied());
        self.ready.fill(std::iter::repeat_n(NONE, self.calls));
        if let Some(levels) = &mut self.levels {
            levels.sort(&self.links.levels[..self.calls]);
        }
        // Relaxed: the batch is handed over under a lock.
        self.begun.store(0, Ordering::Relaxed);
        self.put.store(0, Ordering::Relaxed);
        self.left.store(self.calls as u32, Ordering::Relaxed);
        self.pieces_left.store(self.pieces.calls.len() as u32, Ordering::Relaxed);
        self.workers.store(0, Ordering::Relaxed);
        depth
    }

    /// Releases the calls that are executed in pieces, and if there are none, the others. True if the batch is over already.
    pub fn start(&self, released: &mut impl Released) -> bool {
        for call in &self.pieces.calls {
            released.job(*call);
        }
        self.pieces.calls.is_empty() && self.start_whole(released)
    }

    /// Releases the calls that are executed whole and wait for none. True if the batch is over already.
    fn start_whole(&self, released: &mut impl Released) -> bool {
        if self.levels.is_some() {
            return self.start_level(0, released);
        }
        let mut over = false;
        for call in 0..self.calls as u32 {
            // Not of `waits`, which falls while others execute what was released.
            if self.links.waits[call as usize] == 0 && !self.pieces.has(call) {
                over |= self.release(call, released);
            }
        }
        over
    }

    /// Lets a call begin. True if that ended the batch.
    fn release(&self, call: u32, released: &mut impl Released) -> bool {
        let owner = match &*lock(&self.vertices[call as usize].work) {
            Work::Job(_) => None,
            Work::Owner(owner) => Some(*owner),
            Work::Over => return false,
        };
        match owner {
            None => released.job(call),
            Some(owner) if released.owner(owner, call) => {}
            Some(_) => return self.end(call, released),
        }
        false
    }

    /// A call has ended. True if it was the last.
    pub fn end(&self, call: u32, released: &mut impl Released) -> bool {
        let was = std::mem::take(&mut *lock(&self.vertices[call as usize].work));
        let mut over = false;
        if self.pieces.has(call) {
            // AcqRel: what they did happens before what those do that are executed whole.
            if self.pieces_left.fetch_sub(1, Ordering::AcqRel) == 1 {
                released.pieces_over();
                over = self.start_whole(released);
            }
        } else if let Some(levels) = &self.levels {
            // AcqRel: what the calls of a level did happens before those of the next.
            if levels.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                // Relaxed: only who ended the level changes it.
                over = self.start_level(levels.level.load(Ordering::Relaxed) + 1, released);
            }
        } else if !(planted(Mutant::GatheredEndedEarly) && matches!(was, Work::Job(_))) {
            over = self.release_after(call, released);
        }
        // AcqRel: as above, before the next batch.
        let left = self.left.fetch_sub(1, Ordering::AcqRel);
        if planted(Mutant::GatheredNextEarly) && self.calls > 1 {
            return over | (left == 2);
        }
        over | (left == 1)
    }

    /// A call begins. Says nothing to anybody, but for a planted bug.
    pub fn begin_call(&self, call: u32, released: &mut impl Released) {
        if planted(Mutant::GatheredEndedEarly) && self.levels.is_none() && !self.pieces.has(call) {
            self.release_after(call, released);
        }
    }

    /// Releases those that waited for this vertex only.
    fn release_after(&self, vertex: u32, released: &mut impl Released) -> bool {
        let mut over = false;
        for after in self.links.after(vertex) {
            let due =
                if planted(Mutant::GatheredReleasedEarly) { self.links.waits[after as usize] } else { 1 };
            // AcqRel: what all before it did happens before it.
            if self.waits.at(after).fetch_sub(1, Ordering::AcqRel) == due {
                over |= match (after as usize) < self.calls {
                    true => self.release(after, released),
                    // It stands for a group.
                    false => self.release_after(after, released),
                };
            }
        }
        over
    }

    fn start_level(&self, level: u32, released: &mut impl Released) -> bool {
        let Some((levels, calls)) = self.levels.as_ref().zip(self.level(level)) else { return false };
        // Relaxed: see `end`; who ends a call of the level has found it by what follows.
        levels.level.store(level, Ordering::Relaxed);
        levels.left.store(calls.len() as u32, Ordering::Relaxed);
        released.begins_level(calls.len());
        calls.iter().fold(false, |over, call| self.release(*call, released) | over)
    }

    fn level(&self, level: u32) -> Option<&[u32]> {
        let Levels { sorted, begins, .. } = self.levels.as_ref()?;
        let begin = *begins.get(level as usize)? as usize;
        let end = begins.get(level as usize + 1).map_or(sorted.len(), |end| *end as usize);
        Some(&sorted[begin..end])
    }

    /// A job is there for whoever comes.
    pub fn offer(&self, call: u32) {
        // Relaxed: only the place must be its own.
        let at = self.put.fetch_add(1, Ordering::Relaxed);
        // Release: pairs with `take`.
        self.ready.at(at).store(call, Ordering::Release);
    }

    /// Whether a job is there.
    pub fn offers(&self) -> bool {
        // Relaxed: a hint.
        let at = self.begun.load(Ordering::Relaxed);
        self.ready.get(at).is_some_and(|ready| ready.load(Ordering::Relaxed) != NONE)
    }

    /// Takes a job that may begin.
    pub fn take(&self) -> Option<u32> {
        for tried in 0.. {
            // Relaxed: checked by the exchange.
            let at = self.begun.load(Ordering::Relaxed);
            // Acquire: pairs with `offer`.
            let call = self.ready.get(at)?.load(Ordering::Acquire);
            if call == NONE {
                return None;
            }
            if self.begun.compare_exchange(at, at + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Some(call);
            }
            // When a batch begins, all come at once, and all but one have come in vain.
            spin(4 << tried.min(MOST_SPINS));
        }
        None
    }

    /// The job of a call that has not ended.
    pub fn job(&self, call: u32) -> Option<J> {
        match &*lock(&self.vertices[call as usize].work) {
            Work::Job(job) => Some(job.clone()),
            _ => None,
        }
    }
}

impl Levels {
    /// Counting sort of the calls.
    fn sort(&mut self, by_call: &[u32]) {
        let count = by_call.iter().max().map_or(0, |most| *most as usize + 1);
        self.begins.clear();
        self.begins.resize(count, 0);
        by_call.iter().for_each(|level| self.begins[*level as usize] += 1);
        let mut end = 0;
        for count in &mut self.begins {
            end += *count;
            *count = end;
        }
        // These are the ends. Filled from behind, each becomes a begin.
        self.sorted.clear();
        self.sorted.resize(by_call.len(), 0);
        for (call, level) in by_call.iter().enumerate().rev() {
            let begin = &mut self.begins[*level as usize];
            *begin -= 1;
            self.sorted[*begin as usize] = call as u32;
        }
    }
}
