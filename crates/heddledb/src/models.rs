//! Kernels under loom: every interleaving within a preemption bound, under the C11 memory model.
//!
//! `cargo test -p heddledb --features loom --lib models`. The kernels are the protocols' own read
//! and commit code on one or two records, the epoch clock, and the gap's stamp against its version.

use crate::access::WriteSet;
use crate::arena::Arena;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::Gap;
use crate::protocol::{Env, Intent, Locking, Protocol, Silo, TicToc, data_base};
use crate::record::{RecordRef, Words};
use crate::sync::{AtomicBool, Ordering, thread};
use crate::table::{Group, Layout, Span};
use std::sync::Arc;

static LAYOUT: Layout =
    Layout { name: "pair", groups: &[Group { name: "main", span: Span { start: 0, end: 2 } }], words: 2 };

/// What the threads of a kernel share: records of two words, present, both zero.
struct World<P> {
    clock: EpochClock,
    records: Vec<RecordRef>,
    _arena: Arena,
    protocol: std::marker::PhantomData<P>,
}

// SAFETY: the arena is only kept alive; records are atomics, the clock is shared as it is.
unsafe impl<P> Sync for World<P> {}
// SAFETY: as above.
unsafe impl<P> Send for World<P> {}

impl<P: Protocol> World<P> {
    fn new(records: usize) -> Arc<Self> {
        let mut arena = Arena::default();
        let clock = EpochClock::new(4);
        let gap = Gap::new();
        let words = data_base::<P>(&LAYOUT) + LAYOUT.words;
        let records: Vec<RecordRef> = (0..records).map(|_| arena.allocate(0, words)).collect();
        let world = Self { clock, records, _arena: arena, protocol: std::marker::PhantomData };
        for record in 0..world.records.len() {
            P::place(world.records[record], &LAYOUT, &gap);
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
        let env = Env { clock: &self.clock, worker };
        self.clock.pin(worker);
        let mut tx = Tx {
            world: self,
            env,
            local: P::local(&P::Options::default(), worker),
            writes: WriteSet::default(),
        };
        P::begin(&mut tx.local, env, 0);
        let outcome =
            body(&mut tx).and_then(|result| P::commit(&mut tx.local, env, &tx.writes).map(|_| result));
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
        P::write(&mut self.local, self.env, record, &LAYOUT, 1)?;
        let write = self.writes.start(record, &LAYOUT, 0, &[record.identity() as u64], was_present);
        let at = self.writes.reserve(2);
        self.writes.scratch(at, 2).fill(value);
        self.writes.set_full(write, at);
        Ok(())
    }
}

fn explore(kernel: impl Fn() + Sync + Send + 'static) {
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
        let epoch = clock.commit_epoch();
        for _ in 0..2 {
            clock.advance();
        }
        if clock.passed(epoch) {
            reused.store(true, Ordering::Relaxed);
        }
        thread.join().expect("the reader does not panic");
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
