//! What the workers did, counted per worker and summed when asked.

use crate::error::Conflict;
use crate::metrics::Stats;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crossbeam_utils::CachePadded;

/// One line per worker, written by that worker alone.
#[derive(Default)]
struct Line {
    commits: AtomicU64,
    user_aborts: AtomicU64,
    piece_retries: AtomicU64,
    unforeseen: AtomicU64,
    /// Calls that had some, by the number of their procedure.
    unforeseen_calls: Mutex<Vec<u64>>,
    conflicts: [AtomicU64; Conflict::ALL.len()],
    memory: [AtomicU64; 4],
}

/// What a worker holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// Bytes of record blocks, free ones and old versions included.
    pub record_bytes: usize,
    /// Bytes of old versions.
    pub version_bytes: usize,
    /// Old versions kept so far.
    pub versions_kept: usize,
    /// Entries that wait for reclamation.
    pub garbage: usize,
}

pub(crate) struct Counters(Box<[CachePadded<Line>]>);

/// Adds one; not a read-modify-write, as there is one writer. Relaxed: a statistic orders nothing.
#[inline(always)]
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl Counters {
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| CachePadded::new(Line::default())).collect())
    }

    #[inline(always)]
    pub fn commit(&self, worker: usize) {
        bump(&self.0[worker].commits);
    }

    pub fn user_abort(&self, worker: usize) {
        bump(&self.0[worker].user_aborts);
    }

    pub fn piece_retry(&self, worker: usize) {
        bump(&self.0[worker].piece_retries);
    }

    pub fn unforeseen(&self, worker: usize) {
        bump(&self.0[worker].unforeseen);
    }

    /// The first access of a call that was not foreseen.
    pub fn unforeseen_call(&self, worker: usize, procedure: usize) {
        let mut calls = lock(&self.0[worker].unforeseen_calls);
        if calls.len() <= procedure {
            calls.resize(procedure + 1, 0);
        }
        calls[procedure] += 1;
    }

    /// How many calls of all workers had such accesses, by the number of their procedure.
    pub fn unforeseen_calls(&self) -> Vec<u64> {
        self.0.iter().fold(Vec::new(), |mut sum, line| {
            let calls = lock(&line.unforeseen_calls);
            sum.resize(calls.len().max(sum.len()), 0);
            sum.iter_mut().zip(&*calls).for_each(|(sum, calls)| *sum += calls);
            sum
        })
    }

    pub fn conflict(&self, worker: usize, conflict: Conflict) {
        bump(&self.0[worker].conflicts[conflict as usize]);
    }

    /// Publishes what a worker holds. Relaxed, like all figures here.
    #[inline(always)]
    pub fn memory(&self, worker: usize, memory: Memory) {
        let Memory { record_bytes, version_bytes, versions_kept, garbage } = memory;
        let figures = [record_bytes, version_bytes, versions_kept, garbage];
        for (place, figure) in self.0[worker].memory.iter().zip(figures) {
            place.store(figure as u64, Ordering::Relaxed);
        }
    }

    /// What all workers hold.
    pub fn memory_sum(&self) -> Memory {
        self.0.iter().fold(Memory::default(), |mut sum, line| {
            let [records, versions, kept, garbage] =
                line.memory.each_ref().map(|f| f.load(Ordering::Relaxed) as usize);
            sum.record_bytes += records;
            sum.version_bytes += versions;
            sum.versions_kept += kept;
            sum.garbage += garbage;
            sum
        })
    }

    pub fn of(&self, worker: usize) -> Stats {
        let line = &self.0[worker];
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = Stats::default();
        stats.commits = load(&line.commits);
        stats.user_aborts = load(&line.user_aborts);
        stats.piece_retries = load(&line.piece_retries);
        stats.unforeseen = load(&line.unforeseen);
        stats.conflicts = std::array::from_fn(|reason| load(&line.conflicts[reason]));
        stats
    }

    pub fn sum(&self) -> Stats {
        (0..self.0.len()).map(|worker| self.of(worker)).fold(Stats::default(), |mut sum, stats| {
            sum += stats;
            sum
        })
    }
}
