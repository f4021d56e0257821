//! What became of the regions of each worker.

use crate::metrics::{RegionMetrics, RegionSource};
use crate::sync::htm::{self, Abort};
use crate::sync::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// One worker's counts. Written by it only, outside of regions; relaxed, since they are only told.
#[derive(Default)]
struct Tally {
    committed: AtomicU64,
    commits_only: AtomicU64,
    conflicts: AtomicU64,
    capacity: AtomicU64,
    explicit: AtomicU64,
    interrupted: AtomicU64,
    unfriendly: AtomicU64,
    software: AtomicU64,
}

/// Of all workers.
pub(super) struct Tallies(Box<[CachePadded<Tally>]>);

fn count(word: &AtomicU64) {
    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl Tallies {
    pub(super) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| CachePadded::new(Tally::default())).collect())
    }

    #[inline]
    pub(super) fn committed(&self, worker: usize) {
        count(&self.0[worker].committed);
    }

    /// A commit of what was executed in software.
    pub(super) fn committed_only(&self, worker: usize) {
        count(&self.0[worker].committed);
        count(&self.0[worker].commits_only);
    }

    pub(super) fn in_software(&self, worker: usize) {
        count(&self.0[worker].software);
    }

    pub(super) fn aborted(&self, worker: usize, why: Abort) {
        let tally = &self.0[worker];
        count(match why {
            Abort::Conflict => &tally.conflicts,
            Abort::Capacity => &tally.capacity,
            Abort::Explicit(_) => &tally.explicit,
            Abort::Interrupt => &tally.interrupted,
            Abort::Unfriendly => &tally.unfriendly,
        });
    }

    pub(super) fn sum(&self) -> RegionMetrics {
        let mut sum = RegionMetrics::default();
        for tally in &self.0 {
            let of = |word: &AtomicU64| word.load(Ordering::Relaxed);
            let mut one = RegionMetrics::default();
            one.committed = of(&tally.committed);
            one.commits_only = of(&tally.commits_only);
            one.conflicts = of(&tally.conflicts);
            one.capacity = of(&tally.capacity);
            one.explicit = of(&tally.explicit);
            one.interrupted = of(&tally.interrupted);
            one.unfriendly = of(&tally.unfriendly);
            one.software = of(&tally.software);
            sum += one;
        }
        let regions = sum.committed + sum.aborted();
        sum.source = match regions {
            0 => RegionSource::Nowhere,
            _ if htm::MODELLED => RegionSource::Model,
            _ => RegionSource::Processor,
        };
        sum
    }
}
