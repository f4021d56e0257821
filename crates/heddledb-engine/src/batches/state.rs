//! What is queued and what is built: all that is under one lock.

use super::batch::{Batch, Work};
use super::link::Linker;
use super::pace::Pace;
use crate::executors::Waiting;
use crate::footprint::Footprint;
use crate::kind::Batching;
use crate::metrics::GraphMetrics;
use crate::mutant::{Mutant, planted};
use crate::sync::{lock, now_ns};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// So many batches may be built at the same time.
const BUILT_AHEAD: usize = 4;

/// So many calls are announced in a row.
const CHUNK: u32 = 8;

pub(super) struct State<J> {
    pub queue: Waiting<Queued<J>>,
    /// The number of the last batch that was cut.
    pub cut: u64,
    /// Batches that are built, or wait to be executed, in their order.
    pub built: VecDeque<Built<J>>,
    pub executing: Option<Arc<Batch<J>>>,
    /// Since when, in nanoseconds.
    pub executes_since: u64,
    pub pace: Pace,
    /// Of the batch that was linked last, how many calls it had, and how many of them are executed one after another if they are
    /// whole; and how many workers the batch had that has ended last.
    pub depth: (usize, usize),
    pub workers: usize,
    pub closed: bool,
    // Memory to be used again.
    pub batches: Vec<Arc<Batch<J>>>,
    pub footprints: Vec<Footprint>,
    pub linkers: Vec<(Linker, Vec<Footprint>)>,
    pub metrics: GraphMetrics,
}

pub(super) struct Queued<J> {
    pub work: Work<J>,
    /// Of an owner's call.
    pub footprint: Footprint,
}

pub(super) struct Built<J> {
    pub number: u64,
    /// `None` while it is linked.
    pub batch: Option<Arc<Batch<J>>>,
    /// The next call to be announced, and how many have not told.
    pub next: u32,
    pub untold: u32,
}

impl<J> Built<J> {
    /// Calls to be announced, if there are any left.
    pub fn chunk(&mut self) -> Option<(Arc<Batch<J>>, u32, Range<u32>)> {
        let batch = self.unannounced()?;
        let (begin, end) = (self.next, (batch.calls as u32).min(self.next + CHUNK));
        let batch = Arc::clone(batch);
        self.next = end;
        Some((batch, end - begin, begin..end))
    }

    /// The batch, if it has calls that nobody announces yet.
    fn unannounced(&self) -> Option<&Arc<Batch<J>>> {
        self.batch.as_ref().filter(|batch| self.untold > 0 && (self.next as usize) < batch.calls)
    }

    /// For how many more workers there are calls to be announced.
    pub fn chunks_left(&self) -> usize {
        self.unannounced().map_or(0, |batch| (batch.calls - self.next as usize).div_ceil(CHUNK as usize))
    }

    /// Whether it may be executed. It is linked as soon as all have told, and gone meanwhile.
    pub fn is_linked(&self) -> bool {
        self.untold == 0 && self.batch.is_some()
    }
}

impl<J: Clone> State<J> {
    pub fn new(batching: Batching) -> Self {
        Self {
            queue: Waiting::default(),
            cut: 0,
            built: VecDeque::new(),
            executing: None,
            executes_since: 0,
            pace: Pace::new(batching),
            depth: (0, 1),
            workers: 1,
            closed: false,
            batches: Vec::new(),
            footprints: Vec::new(),
            linkers: Vec::new(),
            metrics: GraphMetrics::default(),
        }
    }

    /// Whether a batch is to be cut now.
    pub fn may_cut(&self) -> bool {
        let (queued, building) = (self.queue.len(), self.built.len());
        queued > 0 && (building == 0 || queued >= self.pace.size() && building < BUILT_AHEAD)
    }

    /// Calls to be announced, if there are any left.
    pub fn chunk(&mut self) -> Option<(Arc<Batch<J>>, u32, Range<u32>)> {
        self.built.iter_mut().find_map(Built::chunk)
    }

    /// Whether calls are to be executed in pieces where they can be: where whole calls that wait for each other would keep workers
    /// idle, to judge by the batch before. Else they are better whole.
    pub fn wants_pieces(&self) -> bool {
        let (calls, depth) = self.depth;
        depth * self.workers.max(1) > calls
    }

    /// Whether it is time to build the next batch while one is executed.
    pub fn is_behind(&self) -> bool {
        let executed = self.executing.as_ref().map_or(0, |batch| batch.calls);
        self.built.is_empty() && executed > 0 && 2 * self.queue.len() >= executed
    }

    /// Cuts a batch from the front of the queue.
    pub fn cut(&mut self, levels: bool) -> u64 {
        self.cut += 1;
        let number = self.cut;
        let free = self.batches.iter_mut().position(|batch| Arc::get_mut(batch).is_some());
        let mut batch = match free {
            Some(at) => self.batches.swap_remove(at),
            None => Arc::new(Batch::new(levels)),
        };
        let cut = Arc::get_mut(&mut batch).expect("it is new, or nobody has it");
        cut.begin(number, now_ns());
        let mut jobs = false;
        let mut overtaken = None;
        while cut.calls < self.pace.size()
            && let Some(mut queued) = overtaken.take().or_else(|| self.queue.take())
        {
            if planted(Mutant::GatheredOutOfOrder)
                && cut.calls.is_multiple_of(2)
                && cut.calls + 1 < self.pace.size()
                && let Some(next) = self.queue.take()
            {
                overtaken = Some(std::mem::replace(&mut queued, next));
            }
            let Queued { work, mut footprint } = queued;
            let is_owner = matches!(work, Work::Owner(_));
            let told = cut.push(work);
            if is_owner {
                std::mem::swap(&mut *lock(told), &mut footprint);
                self.footprints.push(footprint);
            } else {
                jobs = true;
                // What another call has told that was here.
                lock(told).clear();
            }
        }
        let untold = if jobs { cut.calls as u32 } else { 0 };
        self.built.push_back(Built { number, batch: Some(batch), next: 0, untold });
        number
    }

    /// Whether a worker that executes jobs finds something to do.
    pub fn has_work(&self) -> bool {
        self.may_cut()
            || self.built.iter().any(|built| built.unannounced().is_some())
            || self.executing.as_ref().is_some_and(|batch| batch.offers())
    }

    /// Whether there will be nothing to do.
    pub fn is_over(&self) -> bool {
        self.closed && self.queue.len() == 0 && self.built.is_empty() && self.executing.is_none()
    }
}
