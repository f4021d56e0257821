//! Threads that build and execute batches, with jobs that are numbers.

use super::*;
use crate::footprint::Usage;
use crate::sync::Random;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicUsize;

const ROWS: u64 = 6;

/// What the job of that number will access: some rows, of which the first is written.
fn told(job: u32, footprint: &mut Footprint) {
    let mut random = Random::new(u64::from(job));
    footprint.clear();
    for at in 0..=random.below(3) {
        let usage = if at == 0 { Usage::Writes } else { Usage::Reads };
        footprint.add_point(1, &[random.below(ROWS)], 1, usage);
    }
}

/// Rows, each with the last job that wrote it, and checks of who meets whom.
struct World {
    batches: Batches<u32>,
    /// By row, who has it: writers count for many.
    held: [AtomicUsize; ROWS as usize],
    last: [AtomicUsize; ROWS as usize],
    executed: AtomicUsize,
}

const WRITER: usize = 1 << 20;

impl World {
    fn new(batching: Batching, workers: usize) -> Self {
        let zeros = || [const { AtomicUsize::new(0) }; ROWS as usize];
        let batches = Batches::new(batching, workers);
        Self { batches, held: zeros(), last: zeros(), executed: AtomicUsize::new(0) }
    }

    /// Executes a job: nobody else has what it accesses, and whoever wrote it before came before.
    fn execute(&self, job: u32) {
        let mut footprint = Footprint::default();
        told(job, &mut footprint);
        let mut rows: Vec<(usize, bool)> = Vec::new();
        for (_, key, _, usage) in footprint.points() {
            let (row, writes) = (key[0] as usize, usage.changes());
            match rows.iter_mut().find(|(known, _)| *known == row) {
                Some((_, written)) => *written |= writes,
                None => rows.push((row, writes)),
            }
        }
        for (row, writes) in &rows {
            let before = self.held[*row].fetch_add(if *writes { WRITER } else { 1 }, Ordering::SeqCst);
            assert!(before == 0 || !writes && before < WRITER, "job {job} meets others at row {row}");
            assert!(self.last[*row].load(Ordering::SeqCst) <= job as usize, "job {job} comes late");
        }
        std::thread::yield_now();
        for (row, writes) in rows {
            if writes {
                self.last[row].store(job as usize, Ordering::SeqCst);
            }
            self.held[row].fetch_sub(if writes { WRITER } else { 1 }, Ordering::SeqCst);
        }
        self.executed.fetch_add(1, Ordering::SeqCst);
    }

    /// One worker: does whatever there is to do.
    fn work(&self) {
        let mut seat = Seat::default();
        let mut footprint = Footprint::default();
        while let Some(next) = self.batches.next(&mut seat, true) {
            match next {
                Next::Announce(job) => {
                    assert_eq!(seat.announces(), Some(true));
                    told(job, &mut footprint);
                    seat.swap(&mut footprint);
                }
                Next::Execute(job) => self.execute(job),
            }
            self.batches.done(&mut seat);
        }
    }
}

fn sizes() -> impl Iterator<Item = Batching> {
    [Some(1), Some(7), Some(100), None].into_iter().flat_map(|size| {
        let size = size.and_then(NonZeroU32::new);
        [Batching::GRAPH, Batching::LEVELS].map(|like| Batching { size, ..like })
    })
}

/// Jobs of one submitter are executed in the order in which they were submitted, as far as they meet; and each once.
#[test]
fn jobs_that_meet_keep_their_order() {
    const JOBS: u32 = if cfg!(miri) { 60 } else { 3_000 };
    for batching in sizes() {
        let world = World::new(batching, 0);
        std::thread::scope(|scope| {
            (0..3).for_each(|_| _ = scope.spawn(|| world.work()));
            (0..JOBS).for_each(|job| world.batches.submit(job, false));
            world.batches.close();
        });
        assert_eq!(world.executed.into_inner(), JOBS as usize, "{batching:?}");
        let metrics = world.batches.metrics();
        assert_eq!((metrics.calls, metrics.queued), (u64::from(JOBS), 0), "{batching:?}");
        assert!(batching.size.is_none_or(|size| metrics.batches >= u64::from(JOBS / size)), "{batching:?}");
    }
}

/// Owners execute their own calls, alone or beside jobs.
#[test]
fn owners_wait_for_their_turn() {
    const CALLS: u32 = if cfg!(miri) { 20 } else { 500 };
    const OWNERS: u32 = 3;
    for (batching, jobs) in sizes().flat_map(|batching| [(batching, 0), (batching, CALLS)]) {
        let world = World::new(batching, OWNERS as usize);
        let own = |worker: u32| {
            let mut seat = Seat::default();
            let mut footprint = Footprint::default();
            for at in 0..CALLS {
                let job = 1_000_000 + at * OWNERS + worker;
                told(job, &mut footprint);
                let call = world.batches.enter(worker as usize, &mut footprint);
                assert!(world.batches.await_turn(&mut seat, (worker as usize, call), None));
                // Their order is not that of their numbers.
                world.last.iter().for_each(|last| last.store(0, Ordering::SeqCst));
                world.execute(job);
                world.batches.end_own(&mut seat);
            }
        };
        std::thread::scope(|scope| {
            let owners: Vec<_> = (0..OWNERS).map(|worker| scope.spawn(move || own(worker))).collect();
            if jobs > 0 {
                scope.spawn(|| world.work());
                (0..jobs).for_each(|_| world.batches.submit(2_000_000, false));
            }
            owners.into_iter().for_each(|owner| owner.join().expect("no panic"));
            world.batches.close();
        });
        assert_eq!(world.executed.into_inner(), (OWNERS * CALLS + jobs) as usize, "{batching:?}");
    }
}
