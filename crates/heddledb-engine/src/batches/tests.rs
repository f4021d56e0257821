//! Threads that build and execute batches, with jobs that are numbers.

use super::*;
use crate::footprint::{Usage, nth};
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
        footprint.add_point(nth(1), &[random.below(ROWS)], 1, usage);
    }
}

/// Every third job is executed whole.
fn told_in_pieces(job: u32, footprint: &mut Footprint) {
    told(job, footprint);
    footprint.be_sure_from((!job.is_multiple_of(3)).then_some(0));
}

/// Rows, each with the last job that wrote it, and checks of who meets whom.
struct World {
    batches: Batches<u32>,
    /// By row, who has it: writers count for many.
    held: [AtomicUsize; ROWS as usize],
    last: [AtomicUsize; ROWS as usize],
    /// By row, the last job that read it, as far as jobs are in pieces.
    read: [AtomicUsize; ROWS as usize],
    in_pieces: bool,
    executed: AtomicUsize,
}

const WRITER: usize = 1 << 20;

impl World {
    fn new(batching: Batching, workers: usize) -> Self {
        let zeros = || [const { AtomicUsize::new(0) }; ROWS as usize];
        let batches = Batches::new(batching, workers);
        let (held, last, read) = (zeros(), zeros(), zeros());
        Self { batches, held, last, read, in_pieces: false, executed: AtomicUsize::new(0) }
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

    /// Executes a job in pieces: each access comes after those before it, in the order of the jobs.
    fn execute_in_pieces(&self, job: u32, seat: &mut Seat<u32>) {
        let mut footprint = Footprint::default();
        told(job, &mut footprint);
        let mut random = Random::new(u64::from(job));
        let (job, gives_up) = (job as usize, job % 5 == 1);
        for (unit, (_, key, _, usage)) in footprint.points().enumerate() {
            if gives_up && unit == 1 {
                break;
            }
            assert!(seat.come(unit, None), "job {job} has let go of access {unit}");
            let row = key[0] as usize;
            let (last, read) = (&self.last[row], &self.read[row]);
            assert!(last.load(Ordering::SeqCst) <= job, "job {job} comes late to row {row}");
            if usage.changes() {
                assert!(
                    read.load(Ordering::SeqCst) <= job,
                    "job {job} comes late to row {row}, which was read"
                );
                last.store(job, Ordering::SeqCst);
            } else {
                read.fetch_max(job, Ordering::SeqCst);
            }
            if random.below(3) == 0 {
                std::thread::yield_now();
            }
            if seat.is_due() || random.below(4) == 0 {
                seat.let_go();
            }
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
                    if self.in_pieces {
                        told_in_pieces(job, &mut footprint);
                    } else {
                        told(job, &mut footprint);
                    }
                    seat.swap(&mut footprint);
                }
                Next::Execute(job) if seat.in_pieces() => self.execute_in_pieces(job, &mut seat),
                Next::Execute(job) => self.execute(job),
            }
            self.batches.done(&mut seat);
        }
    }
}

/// Three workers execute jobs that come one by one: each once.
fn execute_all(world: &World, jobs: u32) {
    std::thread::scope(|scope| {
        (0..3).for_each(|_| _ = scope.spawn(|| world.work()));
        (0..jobs).for_each(|job| world.batches.submit(job, false));
        world.batches.close();
    });
    assert_eq!(world.executed.load(Ordering::SeqCst), jobs as usize);
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
        println!("{batching:?}");
        let world = World::new(batching, 0);
        execute_all(&world, JOBS);
        let metrics = world.batches.metrics();
        assert_eq!((metrics.calls, metrics.queued), (u64::from(JOBS), 0), "{batching:?}");
        assert!(metrics.waited <= metrics.edges && metrics.waited < metrics.calls, "{metrics}");
        assert!((metrics.batches..=metrics.calls).contains(&metrics.depth), "{metrics}");
        let alone = batching.size.is_some_and(|size| size.get() == 1);
        assert!(!alone || (metrics.edges, metrics.depth) == (0, metrics.calls), "{metrics}");
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

/// Jobs in pieces and others: where they meet they keep their order, access by access. One in five gives up after its first.
#[test]
fn pieces_that_meet_keep_their_order() {
    const JOBS: u32 = if cfg!(miri) { 60 } else { 3_000 };
    for batching in sizes().filter(|batching| !batching.levels) {
        println!("{batching:?}");
        let world = World { in_pieces: true, ..World::new(batching, 0) };
        execute_all(&world, JOBS);
        let metrics = world.batches.metrics();
        assert!(metrics.in_pieces > 0 && metrics.in_pieces <= u64::from(JOBS) * 2 / 3, "{metrics:?}");
    }
}
