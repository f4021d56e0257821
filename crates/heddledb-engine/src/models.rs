//! Kernels under loom: every interleaving within a preemption bound, under the C11 memory model.
//!
//! `cargo test -p heddledb-engine --features loom --lib models`. The kernels are the protocols' own read
//! and commit code on one or two records, snapshots beside them, chains of old versions, the log's
//! rounds, the epoch clock, and the gap's stamp against its version.

#![allow(unsafe_code)]

use crate::access::WriteSet;
use crate::arena::Arena;
use crate::commit::{Commit, LeftOver};
use crate::db::store::{copy_group, without_past};
use crate::durability::{Announced, Due, Files, RedoLog, Says, create_generation};
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::heap::Heap;
use crate::index::Gap;
use crate::log::{Entries, Frames, Manifest, survey};
use crate::protocol::drp::Drp;
use crate::protocol::hekaton::Hekaton;
use crate::protocol::locking::Locking;
use crate::protocol::silo::Silo;
use crate::protocol::tictoc::TicToc;
use crate::protocol::{Env, Intent, Isolation, Protocol, Seal, Shared};
use crate::record::{RecordRef, Shape};
use crate::settings::LogOptions;
use crate::snapshot::{Boundaries, LiveView};
use crate::stamp;
use crate::storage::{Simulated, Storage};
use crate::sync::{AtomicBool, AtomicU64, Ordering, thread};
use crate::table::{Group, Layout, RANK, Span};
use crate::version::{self, Version};
use crate::words::Words;
use std::sync::Arc;

static LAYOUT: Layout = Layout {
    name: "pair",
    groups: &[Group { name: "main", span: Span { start: 0, end: 2 }, rank: RANK, held: false }],
    words: 2,
    slots: &[],
};

/// What the threads of a kernel share: records of two words, present, both zero.
struct World<P: Protocol> {
    clock: EpochClock,
    boundaries: Boundaries,
    shared: Arc<P::Shared>,
    records: Vec<RecordRef>,
    /// Kept alive: those of the records, and of the versions of every attempt.
    arenas: std::sync::Mutex<Vec<Arena>>,
    protocol: std::marker::PhantomData<P>,
}

// SAFETY: arenas are only kept alive; records are atomics, the clock is shared as it is.
unsafe impl<P: Protocol> Sync for World<P> {}
// SAFETY: as above.
unsafe impl<P: Protocol> Send for World<P> {}

impl<P: Protocol> World<P> {
    fn new(records: usize) -> Arc<Self> {
        let mut arena = Arena::default();
        let clock = EpochClock::new(4);
        let gap = Gap::new();
        let words = Shape::of::<P>().words(&LAYOUT);
        let records: Vec<RecordRef> = (0..records).map(|_| arena.allocate(0, words)).collect();
        let boundaries = Boundaries::new(std::time::Duration::ZERO, 4);
        let arenas = std::sync::Mutex::new(vec![arena]);
        let shared = Arc::new(P::Shared::new(4));
        let world = Self { clock, boundaries, shared, records, arenas, protocol: std::marker::PhantomData };
        for record in 0..world.records.len() {
            P::init_record(world.records[record], &LAYOUT, &gap);
            without_past(world.records[record], Shape::of::<P>(), &LAYOUT);
            world.attempt(3, |tx| tx.write(record, false, 0)).expect("nobody else is there");
        }
        Arc::new(world)
    }

    /// Runs one attempt as worker `worker`.
    fn attempt<R>(
        &self,
        worker: usize,
        body: impl FnOnce(&mut Tx<'_, P>) -> Result<R, Conflict>,
    ) -> Result<R, Conflict> {
        let env = Env { clock: &self.clock, worker, epoch: None, after: 0, isolation: Isolation::default() };
        self.clock.pin(worker);
        let local = P::local(&P::Options::default(), &self.shared, worker);
        let mut tx = Tx { world: self, env, local, writes: WriteSet::default() };
        P::begin(&mut tx.local, env, 0);
        let (mut arena, mut left, mut live) = (Arena::default(), LeftOver::default(), LiveView::default());
        let heap = Heap::new(1);
        let outcome = body(&mut tx).and_then(|result| {
            let mut commit =
                Commit::new(&tx.writes, &self.boundaries, &heap, &mut arena, &mut left, &mut live, None);
            P::commit(&mut tx.local, env, &mut commit).map(|_| result)
        });
        self.arenas.lock().expect("nobody panics holding it").push(arena);
        if outcome.is_err() {
            P::abort(&mut tx.local, env, &tx.writes);
        }
        self.clock.unpin(worker);
        outcome
    }
}

struct Tx<'a, P: Protocol> {
    world: &'a World<P>,
    env: Env<'a>,
    local: P::Local,
    writes: WriteSet,
}

impl<P: Protocol> Tx<'_, P> {
    fn read(&mut self, record: usize) -> Result<(u64, u64), Conflict> {
        let record = self.world.records[record];
        let copy = |data: crate::record::RecordData| (data.word(0), data.word(1));
        let value = P::read(&mut self.local, self.env, record, &LAYOUT, 1, Intent::Read, copy)?;
        Ok(value.expect("the kernels delete nothing"))
    }

    fn write(&mut self, record: usize, was_present: bool, value: u64) -> Result<(), Conflict> {
        let record = self.world.records[record];
        let vacancy = self.writes.find_or_vacancy(record).expect_err("written once");
        P::write(&mut self.local, self.env, record, &LAYOUT, 1, self.writes.writes().len())?;
        let write =
            self.writes.start(vacancy, record, &LAYOUT, 0, &[record.identity() as u64], 0, was_present);
        let at = self.writes.reserve(2);
        self.writes.scratch(at, 2).fill(value);
        self.writes.set_full(write, at);
        Ok(())
    }
}

pub(crate) fn explore(kernel: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 20_000;
    builder.check(kernel);
}

/// A reader never returns half of a committed write.
fn no_torn_read<P: Protocol>() {
    explore(|| {
        let world = World::<P>::new(1);
        let writer = Arc::clone(&world);
        let thread = thread::spawn(move || _ = writer.attempt(0, |tx| tx.write(0, true, 7)));
        if let Ok((a, b)) = world.attempt(1, |tx| tx.read(0)) {
            assert_eq!(a, b, "a torn read was committed");
        }
        thread.join().expect("the writer does not panic");
    });
}

/// Each of two transactions reads what the other writes: not both commit on the old values.
fn no_write_skew<P: Protocol>() {
    explore(|| {
        let world = World::<P>::new(2);
        let other = Arc::clone(&world);
        let cross = |world: &World<P>, worker: usize| {
            world.attempt(worker, |tx| {
                let (seen, _) = tx.read(1 - worker)?;
                tx.write(worker, true, 7)?;
                Ok(seen)
            })
        };
        let thread = thread::spawn(move || cross(&other, 0));
        let mine = cross(&world, 1);
        let theirs = thread.join().expect("the other does not panic");
        assert!(!matches!((mine, theirs), (Ok(0), Ok(0))), "write skew");
    });
}

#[test]
fn silo_reads_are_whole() {
    no_torn_read::<Silo>();
}

#[test]
fn tictoc_reads_are_whole() {
    no_torn_read::<TicToc>();
}

#[test]
fn locking_reads_are_whole() {
    no_torn_read::<Locking>();
}

#[test]
fn hekaton_reads_are_whole() {
    no_torn_read::<Hekaton>();
}

#[test]
fn drp_reads_are_whole() {
    no_torn_read::<Drp>();
}

#[test]
fn silo_has_no_write_skew() {
    no_write_skew::<Silo>();
}

#[test]
fn tictoc_has_no_write_skew() {
    no_write_skew::<TicToc>();
}

#[test]
fn locking_has_no_write_skew() {
    no_write_skew::<Locking>();
}

#[test]
fn drp_has_no_write_skew() {
    no_write_skew::<Drp>();
}

/// A record that is sealed gets no writer, and one that is written is not sealed.
fn no_writer_of_a_sealed_record<P: Protocol>() {
    explore(|| {
        let world = World::<P>::new(1);
        let delete = |tx: &mut Tx<'_, P>| {
            tx.write(0, true, 0)?;
            tx.writes.set_absent(0);
            Ok(())
        };
        world.attempt(3, delete).expect("nobody else is there");
        assert!((0..3).all(|_| world.clock.advance()), "nobody is pinned");
        let writer = Arc::clone(&world);
        let thread = thread::spawn(move || writer.attempt(0, |tx| tx.write(0, false, 7)));
        let sealed = P::seal(world.records[0], &LAYOUT, &world.clock, &Gap::new(), || true);
        let written = thread.join().expect("the writer does not panic").is_ok();
        assert!(!(written && sealed == Seal::Sealed), "written and sealed");
        let stamp = world.records[0].word(P::stamp_word(0)).load(Ordering::Relaxed);
        assert_eq!(stamp == stamp::SEALED, sealed == Seal::Sealed, "{stamp:x}");
        assert_eq!(!stamp::is_absent(stamp), written, "{stamp:x}");
    });
}

#[test]
fn silo_seals_no_record_that_is_written() {
    no_writer_of_a_sealed_record::<Silo>();
}

#[test]
fn drp_seals_no_record_that_is_written() {
    no_writer_of_a_sealed_record::<Drp>();
}

/// A snapshot sees all of a commit or nothing of it, and all of it if it had ended before.
fn no_torn_snapshot<P: Protocol>() {
    explore(|| {
        let world = World::<P>::new(2);
        let writer = Arc::clone(&world);
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            let both = |tx: &mut Tx<'_, P>| tx.write(0, true, 7).and_then(|()| tx.write(1, true, 7));
            if writer.attempt(0, both).is_ok() {
                end.store(true, Ordering::Release);
            }
        });
        let ended = ended.load(Ordering::Acquire);
        let boundary = world.boundaries.now(&world.clock).expect("the writer ends");
        let read = |record: usize| {
            let mut words = [0; 2];
            world.clock.pin(1);
            let (record, whole) = (world.records[record], Span { start: 0, end: 2 });
            assert!(copy_group(record, Shape::of::<P>(), &LAYOUT, 0, whole, boundary.epoch(), &mut words));
            world.clock.unpin(1);
            assert_eq!(words[0], words[1], "half a version");
            words[0]
        };
        let (first, second) = (read(0), read(1));
        assert_eq!(first, second, "half a transaction");
        assert!(!ended || first == 7, "an old moment");
        world.boundaries.release(boundary);
        thread.join().expect("the writer does not panic");
    });
}

#[test]
fn silo_snapshots_are_whole() {
    no_torn_snapshot::<Silo>();
}

#[test]
fn tictoc_snapshots_are_whole() {
    no_torn_snapshot::<TicToc>();
}

#[test]
fn locking_snapshots_are_whole() {
    no_torn_snapshot::<Locking>();
}

#[test]
fn hekaton_snapshots_are_whole() {
    no_torn_snapshot::<Hekaton>();
}

#[test]
fn drp_snapshots_are_whole() {
    no_torn_snapshot::<Drp>();
}

/// A chain of old versions loses nothing but what is unlinked, while it grows.
#[test]
fn a_chain_of_versions_keeps_what_is_needed() {
    chain(true);
}

/// A chain that grows loses nothing else where the unlinked version is its last, or the only one.
#[test]
fn the_last_of_a_chain_is_taken_out_while_it_grows() {
    chain(false);
}

fn chain(older: bool) {
    explore(move || {
        let mut arena = Arena::default();
        let mut version = |epoch: u64| {
            let version = Version::new(arena.version(1), stamp::floor(epoch));
            version.word(0).store(epoch, Ordering::Relaxed);
            version
        };
        let (needed, unneeded, newest) = (version(1), version(2), version(3));
        let head = Arc::new(AtomicU64::new(0));
        if older {
            version::push(&head, needed);
        }
        version::push(&head, unneeded);
        let (pusher, collector) = (Arc::clone(&head), Arc::clone(&head));
        let pushing = thread::spawn(move || version::push(&pusher, newest));
        let collecting = thread::spawn(move || version::unlink(&collector, unneeded));
        let seen = |epoch| version::find(&head, epoch).map(|found| found.word(0).load(Ordering::Relaxed));
        let oldest = older.then_some(1);
        assert_eq!(seen(1), oldest);
        pushing.join().expect("the pusher does not panic");
        collecting.join().expect("the collector does not panic");
        assert_eq!((seen(3), seen(2), seen(0)), (Some(3), oldest, None));
    });
}

/// What was unlinked is not reused while a worker that may have found it is pinned.
#[test]
fn the_epoch_waits_for_pinned_workers() {
    explore(|| {
        let shared = Arc::new((EpochClock::new(2), AtomicBool::new(true), AtomicBool::new(false)));
        let reader = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let (clock, linked, reused) = &*reader;
            clock.pin(0);
            if linked.load(Ordering::Acquire) {
                assert!(!reused.load(Ordering::Relaxed), "reused under a reader");
            }
            clock.unpin(0);
        });
        let (clock, linked, reused) = &*shared;
        linked.store(false, Ordering::Release);
        let epoch = clock.now_in_order();
        for _ in 0..2 {
            clock.advance();
        }
        if clock.passed(epoch) {
            reused.store(true, Ordering::Relaxed);
        }
        thread.join().expect("the reader does not panic");
    });
}

/// A body that thinks holds back what it may have found, however far the epoch has gone.
#[test]
fn reclamation_waits_for_bodies_and_the_epoch_does_not() {
    explore(|| {
        let shared = Arc::new((EpochClock::new(2), AtomicBool::new(true), AtomicBool::new(false)));
        let (clock, ..) = &*shared;
        // A body that thinks from before to after; it has found nothing that is unlinked later.
        clock.pin(1);
        let reader = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let (clock, linked, reused) = &*reader;
            clock.pin(0);
            if linked.load(Ordering::Acquire) {
                assert!(!reused.load(Ordering::Relaxed), "reused under a reader");
            }
            clock.unpin(0);
        });
        let (clock, linked, reused) = &*shared;
        linked.store(false, Ordering::Release);
        let epoch = clock.now_in_order();
        assert!(clock.advance() && clock.advance(), "bodies hold nothing back");
        assert!(!clock.passed(epoch), "one that began before is open");
        clock.unpin(1);
        clock.advance();
        if clock.passed(epoch) {
            reused.store(true, Ordering::Relaxed);
        }
        thread.join().expect("the reader does not panic");
    });
}

/// When an epoch is closed, every commit of it can be seen, though its body began long before.
#[test]
fn a_closed_epoch_gets_no_commit() {
    explore(|| {
        let shared = Arc::new((EpochClock::new(2), AtomicU64::new(0)));
        let (clock, committed) = &*shared;
        clock.pin(0);
        let committer = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let (clock, committed) = &*committer;
            let epoch = clock.commit_epoch(0);
            // Relaxed: the pin's end publishes it.
            committed.store(epoch, Ordering::Relaxed);
            clock.unpin(0);
            epoch
        });
        for _ in 0..3 {
            clock.advance();
        }
        let closed = clock.now() - 2;
        let seen = committed.load(Ordering::Relaxed);
        let epoch = thread.join().expect("the committer does not panic");
        assert!(epoch > closed || seen == epoch, "a commit of epoch {epoch}, which was closed");
    });
}

/// The same of a commit that is announced before its locks are taken, beside another that locks the same word: a later
/// holder of the lock has no earlier epoch.
#[test]
fn a_closed_epoch_gets_no_announced_commit() {
    const LOCKED: u64 = 1;
    explore(|| {
        let shared = Arc::new((EpochClock::new(2), AtomicU64::new(0), AtomicU64::new(0)));
        let commit = |(clock, word, committed): &(EpochClock, AtomicU64, AtomicU64), worker: usize| {
            let announced = clock.announce_commit(worker);
            let before = word.load(Ordering::Relaxed);
            let locked = before & LOCKED == 0
                && word
                    .compare_exchange(before, before | LOCKED, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok();
            if locked {
                let epoch = clock.announced_epoch(worker, announced);
                assert!(before >> 1 <= epoch, "the epoch falls");
                if worker == 0 {
                    // Relaxed: the pin's end publishes it.
                    committed.store(epoch, Ordering::Relaxed);
                }
                word.store(epoch << 1, Ordering::Release);
            }
            clock.unpin(worker);
            locked
        };
        shared.0.pin(0);
        let theirs = Arc::clone(&shared);
        let thread = thread::spawn(move || commit(&theirs, 0));
        let (clock, _, committed) = &*shared;
        for _ in 0..2 {
            clock.advance();
        }
        clock.pin(1);
        commit(&shared, 1);
        clock.advance();
        let closed = clock.now() - 2;
        let seen = committed.load(Ordering::Relaxed);
        let locked = thread.join().expect("the committer does not panic");
        let committed = committed.load(Ordering::Relaxed);
        assert!(
            !locked || committed > closed || seen == committed,
            "a commit of a closed epoch comes after it"
        );
    });
}

/// The same where two threads move the epoch on, and the commits of a worker follow one another.
#[test]
fn commits_one_after_the_other_close_their_epochs() {
    explore(|| {
        let shared = Arc::new((EpochClock::new(2), [AtomicU64::new(0), AtomicU64::new(0)]));
        let committer = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let (clock, committed) = &*committer;
            committed.each_ref().map(|place| {
                clock.pin(0);
                clock.advance();
                let epoch = clock.commit_epoch(0);
                place.store(epoch, Ordering::Relaxed);
                clock.unpin(0);
                epoch
            })
        });
        let (clock, committed) = &*shared;
        for _ in 0..2 {
            clock.advance();
        }
        let closed = clock.now() - 2;
        let seen = committed.each_ref().map(|place| place.load(Ordering::Relaxed));
        let epochs = thread.join().expect("the committer does not panic");
        for (epoch, seen) in epochs.into_iter().zip(seen) {
            assert!(epoch > closed || seen == epoch, "a commit of epoch {epoch}, which was closed");
        }
    });
}

/// Calls that commit in parts run in one epoch at a time, and none waits for another that waits for it.
#[test]
fn calls_in_parts_run_in_one_epoch() {
    explore(|| {
        let shared = Arc::new((EpochClock::new(2), [AtomicU64::new(0), AtomicU64::new(0)]));
        let call = |shared: &(EpochClock, [AtomicU64; 2]), worker: usize| {
            let (clock, running) = shared;
            let epoch =
                clock.pin_together(worker, 2, &mut 0, None).expect("it waits for as long as it takes");
            running[worker].store(epoch, Ordering::Relaxed);
            let other = running[1 - worker].load(Ordering::Relaxed);
            assert!(other == 0 || other == epoch, "calls of epochs {other} and {epoch} run at once");
            running[worker].store(0, Ordering::Relaxed);
            clock.unpin(worker);
        };
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || call(&other, 0));
        shared.0.advance();
        call(&shared, 1);
        thread.join().expect("the other does not panic");
    });
}

/// A scanner that finds the gap's version unchanged has raised the stamp in time for the inserter.
#[test]
fn a_gaps_stamp_and_version_do_not_miss_each_other() {
    explore(|| {
        let gap = Arc::new(Gap::new());
        let seen = gap.version();
        let inserter = Arc::clone(&gap);
        let thread = thread::spawn(move || {
            let latch = inserter.try_latch(seen).expect("nobody else latches");
            let stamp = inserter.stamp().load(Ordering::SeqCst);
            latch.release();
            stamp
        });
        gap.stamp().fetch_max(5, Ordering::SeqCst);
        let unchanged = gap.version() == seen;
        let stamp = thread.join().expect("the inserter does not panic");
        assert!(!unchanged || stamp >= 5, "the scanner and the inserter missed each other");
    });
}

/// Two workers commit and wait for the log: a worker that is told has its entry on a disk that has just lost
/// its power, and none waits for ever.
#[test]
fn an_acknowledged_commit_is_on_the_disk() {
    explore(|| {
        let disk = Simulated::new();
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let clock = Arc::new(EpochClock::new(2));
        let options = LogOptions::default();
        let mut manifest = Manifest {
            directory: 7,
            next_generation: 1,
            floor: 1,
            relations: Vec::new(),
            checkpoint: None,
            log_from: 1,
            kept: Vec::new(),
            generations: Vec::new(),
            origin: None,
            procedures: Vec::new(),
            changes: 0,
        };
        let files = create_generation(&storage, &mut manifest, &options).expect("the disk is new");
        let generation = manifest.generations[0];
        let files = Files::new(storage, manifest, files, options, Due::default(), 0);
        let log = Arc::new(RedoLog::new(Arc::clone(&clock), Box::new([]), 2, options, files, 0));
        let commit = |clock: &EpochClock, log: &RedoLog, worker: usize| {
            clock.pin(worker);
            let epoch = clock.commit_epoch(worker);
            let time = stamp::floor(epoch) + worker as u64 + 1;
            drop(log.append(worker, time, Says::Rows, Announced::default()));
            clock.unpin(worker);
            log.wait(epoch).expect("the disk works");
            time
        };
        let (their_clock, their_log) = (Arc::clone(&clock), Arc::clone(&log));
        let thread = thread::spawn(move || commit(&their_clock, &their_log, 0));
        let time = commit(&clock, &log, 1);
        let cut = disk.after_power_cut(1);
        let found = survey(&cut, 7, &generation, false, 1).expect("it is whole");
        assert!(found.closed >= stamp::epoch(time), "acknowledged, but not closed");
        let mut frames = Frames::of_log(&cut, 7, &generation, &found, 0).expect("it is whole");
        let (mut words, mut there) = (Vec::new(), false);
        while frames.next_frame(&mut words).expect("it is whole").is_some() {
            there |= Entries::new(&words).any(|entry| entry.expect("it is whole").time() == time);
        }
        assert!(there, "acknowledged, but lost");
        thread.join().expect("the other does not panic");
    });
}
