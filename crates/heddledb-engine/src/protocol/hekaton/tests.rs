//! Two records, some workers, and interleavings of their steps.

use super::words::shown_by;
use super::*;
use crate::arena::Arena;
use crate::commit::LeftOver;
use crate::heap::Heap;
use crate::protocol::Shared as _;
use crate::snapshot::{Boundaries, LiveView};
use crate::table::{Group, RANK, Span};
use crate::version;
use crate::words::Words;
use std::time::Duration;

static LAYOUT: Layout = Layout {
    name: "one",
    groups: &[Group { name: "main", span: Span { start: 0, end: 1 }, rank: RANK, held: false }],
    words: 1,
    slots: &[],
};

/// Two records of one word, and what workers share.
struct World {
    clock: EpochClock,
    boundaries: Boundaries,
    shared: Arc<Shared>,
    records: [RecordRef; 2],
    _arena: Arena,
}

/// A worker with an attempt.
struct Worker<'a> {
    world: &'a World,
    env: Env<'a>,
    local: Local,
    writes: WriteSet,
    arena: Arena,
    heap: Heap,
    left: LeftOver,
    live: LiveView,
}

impl World {
    fn new() -> Self {
        let mut arena = Arena::default();
        let gap = Gap::new();
        let records = [(); 2].map(|()| {
            let record = arena.allocate(0, data_base::<Hekaton>(&LAYOUT) + LAYOUT.words);
            Hekaton::init_record(record, &LAYOUT, &gap);
            record.word(heads_base::<Hekaton>(&LAYOUT)).store(0, Ordering::Relaxed);
            record
        });
        let (clock, boundaries) = (EpochClock::new(4), Boundaries::new(Duration::ZERO, 4));
        let world = Self { clock, boundaries, shared: Arc::new(Shared::new(4)), records, _arena: arena };
        let mut loader = world.worker(3);
        loader.begin();
        (0..2).for_each(|record| loader.write(record, 0, false).unwrap());
        loader.commit().unwrap();
        drop(loader);
        world
    }

    fn worker(&self, number: usize) -> Worker<'_> {
        let isolation = Isolation::Serializable;
        Worker {
            world: self,
            env: Env { clock: &self.clock, worker: number, epoch: None, after: 0, isolation },
            local: Hekaton::local(&crate::kind::Hekaton, &self.shared, number),
            writes: WriteSet::default(),
            arena: Arena::default(),
            heap: Heap::new(1),
            left: LeftOver::default(),
            live: LiveView::default(),
        }
    }
}

impl Worker<'_> {
    fn begin(&mut self) {
        self.writes.clear();
        self.world.clock.pin(self.env.worker);
        Hekaton::begin(&mut self.local, self.env, 0);
    }

    fn read(&mut self, record: usize) -> Result<u64, Conflict> {
        let record = self.world.records[record];
        let copy = |data: RecordData| data.word(0);
        let row = Hekaton::read(&mut self.local, self.env, record, &LAYOUT, 1, Intent::Read, copy)?;
        Ok(row.expect("nothing is deleted"))
    }

    fn write(&mut self, record: usize, value: u64, was_present: bool) -> Result<(), Conflict> {
        let record = self.world.records[record];
        Hekaton::write(&mut self.local, self.env, record, &LAYOUT, 1, self.writes.writes().len())?;
        let vacancy = self.writes.find_or_vacancy(record).expect_err("written once");
        let write = self.writes.start(vacancy, record, &LAYOUT, 0, &[0], 0, was_present);
        let at = self.writes.reserve(1);
        self.writes.scratch(at, 1).fill(value);
        self.writes.set_full(write, at);
        Ok(())
    }

    fn commit(&mut self) -> Result<u64, Conflict> {
        let boundaries = &self.world.boundaries;
        let mut commit = Commit::new(
            &self.writes,
            boundaries,
            &self.heap,
            &mut self.arena,
            &mut self.left,
            &mut self.live,
            None,
        );
        Hekaton::commit(&mut self.local, self.env, &mut commit)
    }

    /// Goes as far as preparing.
    fn prepare(&mut self) {
        self.local.show(&self.writes);
        self.world.shared.times.prepare(self.local.id, self.local.begin, &self.world.clock);
    }

    fn abort(&mut self) {
        Hekaton::abort(&mut self.local, self.env, &self.writes);
    }
}

#[test]
fn a_chain_is_as_long_as_there_are_readers_and_a_few_more() {
    const WRITES: u64 = 4_000;
    let world = World::new();
    let (mut writer, mut reader) = (world.worker(0), world.worker(1));
    let head = world.records[0].word(heads_base::<Hekaton>(&LAYOUT));
    let mut longest = [0, 0];
    for (reading, longest) in longest.iter_mut().enumerate() {
        if reading == 1 {
            reader.begin();
        }
        for value in 0..WRITES {
            writer.begin();
            writer.write(0, value, true).unwrap();
            writer.commit().unwrap();
            *longest = version::len(head).max(*longest);
        }
    }
    assert_eq!(reader.read(0), Ok(WRITES - 1), "the reader finds what was there at its begin");
    assert!(reader.commit().is_ok());
    // One version in eight writes; a row of no cut for sixteen times as long does not happen here.
    assert!(longest[0] <= 128 && longest[1] <= longest[0] + 1, "{longest:?}");
}

#[test]
fn who_reads_of_a_preparing_transaction_shares_its_end() {
    for commits in [false, true] {
        let world = World::new();
        let (mut writer, mut reader, mut earlier) = (world.worker(0), world.worker(1), world.worker(2));
        earlier.begin();
        writer.begin();
        writer.write(0, 7, true).unwrap();
        writer.prepare();
        reader.begin();
        assert_eq!((reader.read(0), reader.read(1)), (Ok(7), Ok(0)));
        assert_eq!(earlier.read(0), Ok(0), "it ends after this one began");
        assert!(earlier.commit().is_ok(), "so there is nothing to wait for");
        if commits {
            world.shared.times.commit(writer.local.id);
            let mut after = world.worker(2);
            after.begin();
            assert_eq!(after.read(0), Ok(7));
            assert!(after.local.dependencies.is_empty(), "what has committed needs no trust");
            after.abort();
            assert!(reader.commit().is_ok());
        } else {
            writer.abort();
            assert_eq!(Hekaton::validate(&mut reader.local, reader.env), Err(Conflict::Cascade));
            assert_eq!(reader.commit(), Err(Conflict::Cascade));
            reader.abort();
            reader.begin();
            assert_eq!(reader.read(0), Ok(0));
        }
    }
}

#[test]
fn an_image_is_taken_from_nobody_else() {
    let world = World::new();
    let (mut first, mut second) = (world.worker(0), world.worker(1));
    let record = world.records[0];
    let writer = |worker: &Worker<'_>| worker.local.id.bits();
    first.begin();
    first.write(0, 1, true).unwrap();
    assert_eq!(shown_by(record, 0, writer(&first)), None);
    first.prepare();
    assert!(shown_by(record, 0, writer(&first)).is_some());
    // The writer lets the group go, but has not ended.
    release(record, 0);
    assert_eq!(shown_by(record, 0, writer(&first)), None);
    second.begin();
    second.write(0, 2, true).unwrap();
    second.prepare();
    assert_eq!(shown_by(record, 0, writer(&first)), None, "this is the second's");
    assert!(shown_by(record, 0, writer(&second)).is_some());
}

#[test]
fn the_first_writer_wins() {
    let world = World::new();
    let (mut first, mut second) = (world.worker(0), world.worker(1));
    first.begin();
    second.begin();
    first.write(0, 1, true).unwrap();
    assert_eq!(second.write(0, 2, true), Err(Conflict::Locked));
    second.abort();
    second.begin();
    first.commit().unwrap();
    assert_eq!(second.read(0), Ok(0), "what was there at the begin");
    assert_eq!(second.write(0, 2, true), Err(Conflict::ReadChanged));
    second.abort();
    second.begin();
    assert_eq!(second.read(0), Ok(1));
    second.write(0, 2, true).unwrap();
    assert!(second.commit().is_ok());
}

#[test]
fn what_was_read_must_be_visible_at_the_end() {
    let world = World::new();
    let (mut first, mut second) = (world.worker(0), world.worker(1));
    for worker in [&mut first, &mut second] {
        worker.begin();
        assert_eq!((worker.read(0), worker.read(1)), (Ok(0), Ok(0)));
    }
    first.write(0, 1, true).unwrap();
    second.write(1, 1, true).unwrap();
    // The second prepares while the first does, and its end is the later: it cannot have missed the first.
    first.prepare();
    assert_eq!(second.commit(), Err(Conflict::ReadChanged));
    second.abort();
    first.abort();
}
