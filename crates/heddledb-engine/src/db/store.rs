//! Where the relations of a database are kept.

use crate::access::Groups;
use crate::arena::Arena;
use crate::epoch::EpochClock;
use crate::error::{Misuse, Result};
use crate::footprint::RelationId;
use crate::heap::Heap;
use crate::index::{AnyIndex, Finger, Gap, Inserted, Leaf, Lookup, Retired, Walk, new_index};
use crate::log;
use crate::mutant::{Mutant, planted};
use crate::protocol::{Protocol, Records, Seal};
use crate::record::{REACH, RecordRef, Shape};
use crate::sync::{AtomicU64, Mutex, Ordering, Wait, fence, lock};
use crate::table::{Definition, Layout, Span, Structure};
use crate::values::{Logged, Slot};
use crate::{stamp, version};
use std::sync::{Arc, OnceLock};

/// One relation: its index and the shape of its records.
pub(crate) struct Store {
    /// From key to record.
    pub index: Box<dyn AnyIndex>,
    /// What the relation is.
    pub relation: &'static Definition,
    /// The relation's number in this process.
    pub number: usize,
    /// How many relations its database had before it.
    ordinal: usize,
    /// Words of a record, concurrency words included.
    pub block_words: usize,
    /// Where those of its values are that are not in their rows.
    heap: Arc<Heap>,
    records: &'static Records,
}

/// A change that recovery found: sets column groups of a row to what they were at `time`, unless a later
/// value of them is known.
pub(crate) struct Restore<'a> {
    pub write: log::Write<'a>,
    pub time: u64,
}

/// The key of a row, and its data words.
pub(crate) type KeyAndRow = (Vec<u64>, Vec<u64>);
/// Is told of a row that was to be added, and of the data words that were there.
pub(crate) type Told<'a> = dyn FnMut(&KeyAndRow, Option<&[u64]>) + 'a;

impl Store {
    /// Of no row, sized for `rows`; the first of its database.
    pub fn new(
        records: &'static Records,
        relation: &'static Definition,
        rows: usize,
        heap: Arc<Heap>,
    ) -> Self {
        let Definition { layout, structure, key_words, .. } = *relation;
        Self {
            index: new_index(structure, key_words, rows, records.gap_fold, records.regions),
            relation,
            number: relation.number(),
            ordinal: 0,
            block_words: records.shape.words(layout),
            heap,
            records,
        }
    }

    /// The shape of a row.
    #[inline(always)]
    pub fn layout(&self) -> &'static Layout {
        self.relation.layout
    }

    /// Where those of its values are that are not in their rows.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Copies all data words of a record as of the end of an epoch; false where the row was absent.
    fn copy(&self, record: RecordRef, epoch: u64, data: &mut [u64]) -> bool {
        let layout = self.layout();
        Groups(layout.all_groups()).all(|group| {
            let span = layout.groups[group].span;
            copy_group(
                record,
                self.records.shape,
                layout,
                group,
                span,
                epoch,
                &mut data[span.start..span.end],
            )
        })
    }

    /// The words of a record that lead to its old versions.
    fn heads<'a>(&self, record: RecordRef) -> impl Iterator<Item = &'a AtomicU64> + use<'a> {
        heads(record, self.records.shape, self.layout())
    }

    /// Prepares a block as [`init_record`] does.
    fn init_record(&self, block: RecordRef, gap: &Gap) -> RecordRef {
        let layout = self.layout();
        (self.records.init)(block, layout, gap);
        without_past(block, self.records.shape, layout);
        block
    }

    /// The record that a write changes; prefetches its memory.
    fn find(&self, write: &log::Write<'_>, finger: &mut dyn Finger) -> Option<RecordRef> {
        let Lookup::Found(record) = finger.get(write.key) else { return None };
        let base = self.records.shape.data(self.layout());
        record.prefetch_first(base);
        for group in Groups(write.groups) {
            let span = self.layout().groups[group].span;
            record.prefetch(Span { start: base + span.start, end: base + span.end });
        }
        Some(record)
    }

    /// The worker whose supply has the values of a row that is loaded: threads are seldom at the same.
    fn part_of_heap(&self, write: &log::Write<'_>) -> usize {
        self.heap.any_supply(write.key.last().map_or(0, |word| *word as usize))
    }

    /// Puts a write of `time` into a record where it is the newest of its groups.
    fn change(&self, record: RecordRef, write: &log::Write<'_>, time: u64) {
        let mut data = write.data;
        for group in Groups(write.groups) {
            let span = self.layout().groups[group].span;
            let (words, rest) = if write.present { data.split_at(span.len()) } else { (&[][..], data) };
            data = rest;
            // Relaxed throughout: only this thread has the record, and later threads were started by one that
            // has joined it.
            let known = record.word(self.records.shape.stamp(group)).load(Ordering::Relaxed);
            assert!(!stamp::is_locked(known), "a record that is replayed is locked");
            let known = stamp::time(known);
            if known < time || planted(Mutant::RecoveryOrderByFile) {
                let base = self.records.shape.data(self.layout()) + span.start;
                let present = |stamp: u64| stamp != 0 && !stamp::is_absent(stamp);
                let was_present =
                    present(record.word(self.records.shape.stamp(group)).load(Ordering::Relaxed));
                for slot in self.layout().slots_of(group).filter(|_| was_present) {
                    let word = |at: usize| record.word(base - span.start + at).load(Ordering::Relaxed);
                    if let Some(old) = Slot([word(slot), word(slot + 1)]).value() {
                        self.heap.free(self.part_of_heap(write), old);
                    }
                }
                for (index, word) in words.iter().enumerate() {
                    record.word(base + index).store(*word, Ordering::Relaxed);
                }
                for slot in self.layout().slots_of(group).filter(|_| write.present) {
                    let at = slot - span.start;
                    let Some(logged) = Slot([words[at], words[at + 1]]).value() else { continue };
                    let value = Logged(write.data).value(logged).unwrap_or_default();
                    let loaded = self.heap.load(self.part_of_heap(write), value, logged.bytes);
                    record.word(base + at).store(loaded.place, Ordering::Relaxed);
                }
                (self.records.restore)(record, group, stamp::of(time, write.present));
            }
        }
    }

    /// The word of a record that leads to the old versions of its group 0.
    pub fn head<'a>(&self, record: &'a RecordRef) -> &'a AtomicU64 {
        record.word(self.records.shape.heads(self.layout()))
    }

    /// Seals the record of `key` and takes it out of the index. `Live` also if the key leads
    /// elsewhere by now, or if another worker has it in its queue.
    pub fn unlink(
        &self,
        key: &[u64],
        record: RecordRef,
        clock: &EpochClock,
        retired: &mut Vec<Retired>,
    ) -> Seal {
        let layout = self.layout();
        let head = record.word(self.records.shape.heads(layout));
        version::dequeue(head);
        let mut outcome = Seal::Live;
        self.index.remove(
            key,
            record,
            &mut |gap| {
                // A snapshot may read what the record was: it stays as long as its versions are kept.
                let has_no_versions = || self.heads(record).all(|head| !version::any(head));
                outcome = (self.records.seal)(record, layout, clock, gap, &has_no_versions);
                outcome == Seal::Sealed
            },
            retired,
        );
        // The worker that has queued it meanwhile will look at it.
        if outcome == Seal::Busy && !version::enqueue(head) { Seal::Live } else { outcome }
    }

    /// The epoch of the oldest version that is kept of a record.
    pub fn oldest_version(&self, record: RecordRef) -> Option<u64> {
        self.heads(record).filter_map(version::oldest).min()
    }

    /// Makes changes, one after the other. Calls `absent` with the key and record of each row that does not
    /// exist after them. For recovery: no other thread has these keys, and no transaction runs.
    pub fn restore(
        &self,
        changes: &[Restore<'_>],
        arena: &mut Arena,
        absent: &mut dyn FnMut(&[u64], RecordRef),
    ) {
        let layout = self.layout();
        // In steps, so that cache misses overlap.
        for Restore { write, .. } in changes {
            self.index.prefetch(write.key);
        }
        let mut finger = self.index.finger();
        let found: Vec<Option<RecordRef>> = changes
            .iter()
            .map(|Restore { write, .. }| {
                // A write of all groups is mostly an insert.
                let is_update = write.groups != layout.all_groups();
                if is_update { self.find(write, &mut *finger) } else { None }
            })
            .collect();
        for (Restore { write, time }, found) in changes.iter().zip(found) {
            let record = found.unwrap_or_else(|| {
                let block = arena.allocate(self.number, self.block_words);
                match finger.insert(write.key, &mut |gap| self.init_record(block, gap)) {
                    Inserted::Added { record, .. } => record,
                    Inserted::Exists(record, _) => {
                        arena.release(self.number, block);
                        record
                    }
                }
            });
            self.change(record, write, *time);
            if !write.present {
                absent(write.key, record);
            }
        }
    }

    /// The rows of one leaf or bucket as of the end of an epoch, at which a snapshot stands: key words and
    /// data words of each. The caller is pinned.
    pub fn walk(&self, from: &mut Walk, epoch: u64, row: &mut dyn FnMut(&[u64], &[u64])) {
        let mut leaf = Leaf::default();
        self.index.walk(from, &mut leaf);
        self.rows(&leaf, epoch, row);
    }

    /// The same of a leaf that was read.
    pub fn rows(&self, leaf: &Leaf, epoch: u64, row: &mut dyn FnMut(&[u64], &[u64])) {
        let mut data = vec![0; self.layout().words];
        for (at, record) in leaf.records().iter().enumerate() {
            if self.copy(*record, epoch, &mut data) {
                row(leaf.key(at, self.relation.key_words), &data);
            }
        }
    }

    /// Reads all data words of a row as of the end of an epoch, at which a snapshot stands; false if there is none. The
    /// caller is pinned.
    pub fn read(&self, key: &[u64], epoch: u64, row: &mut [u64]) -> bool {
        match self.index.get(key) {
            Lookup::Found(record) => self.copy(record, epoch, row),
            Lookup::Missing(_) => false,
        }
    }

    /// Adds rows, of one column group, whose keys are in order, each unless its key has one, and says so: with what
    /// was there. For recovery: other threads add too, and no transaction runs.
    pub fn add(&self, rows: &[KeyAndRow], time: u64, arena: &mut Arena, told: &mut Told<'_>) {
        let layout = self.layout();
        let mut there = vec![0; layout.words];
        let mut finger = self.index.finger();
        for row in rows {
            let block = arena.allocate(self.number, self.block_words);
            let inserted = finger.insert(&row.0, &mut |gap| {
                let record = self.init_record(block, gap);
                for (at, word) in row.1.iter().enumerate() {
                    // Relaxed: published by the index's release.
                    record.word(self.records.shape.data(layout) + at).store(*word, Ordering::Relaxed);
                }
                Groups(layout.all_groups())
                    .for_each(|group| (self.records.restore)(record, group, stamp::of(time, true)));
                record
            });
            match inserted {
                Inserted::Added { .. } => told(row, None),
                Inserted::Exists(record, _) => {
                    arena.release(self.number, block);
                    // All rows are of that time, and whole before they are in the index.
                    let is_there = self.copy(record, stamp::epoch(time), &mut there);
                    told(row, is_there.then_some(&there[..]));
                }
            }
        }
    }
}

/// Prepares a block for a new key, absent and without a past, under the latch of the gap that it fills.
pub(crate) fn init_record<P: Protocol>(block: RecordRef, layout: &'static Layout, gap: &Gap) -> RecordRef {
    P::init_record(block, layout, gap);
    without_past(block, Shape::of::<P>(), layout);
    block
}

/// No old versions hang off a record that is new.
#[inline(always)]
pub(crate) fn without_past(record: RecordRef, shape: Shape, layout: &Layout) {
    // Relaxed: published by the index's release.
    heads(record, shape, layout).for_each(|head| head.store(0, Ordering::Relaxed));
}

/// All relations of a database, by [number](Definition::number), each made at its first use.
pub(crate) struct Stores {
    records: &'static Records,
    /// The first of them, and shelves of as many more, each made when one of it is. A database has few, and is quickly opened.
    first: Shelf,
    further: Box<[OnceLock<Shelf>]>,
    /// Where values are that are not in their rows.
    pub heap: Arc<Heap>,
    /// Closed: only relations that have a number in the database's files exist.
    closed: bool,
    /// Held while a store is made.
    making: Mutex<()>,
}

/// Some relations, each made at its first use.
type Shelf = Box<[OnceLock<Store>]>;

/// How many relations a shelf has.
const SHELF: usize = 128;
/// Relations that a process may use, over all its databases.
const RELATIONS_MAX: usize = 4096;

/// A shelf with nothing on it.
fn shelf() -> Shelf {
    (0..SHELF).map(|_| OnceLock::new()).collect()
}

impl Stores {
    /// None yet, of such records, for so many workers.
    pub fn new(records: &'static Records, workers: usize) -> Self {
        Self {
            records,
            heap: Arc::new(Heap::new(workers)),
            first: shelf(),
            further: (1..RELATIONS_MAX / SHELF).map(|_| OnceLock::new()).collect(),
            closed: false,
            making: Mutex::new(()),
        }
    }

    /// From now on there are no other relations than those made so far.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// The store of a relation, made now if this is its first use.
    #[inline(always)]
    pub fn get(&self, relation: &'static Definition) -> Result<&Store> {
        self.get_numbered(relation.number(), relation)
    }

    /// As [`Self::get`], where the relation's number is known.
    #[inline(always)]
    pub fn get_numbered(&self, number: usize, relation: &'static Definition) -> Result<&Store> {
        match self.existing(number) {
            Some(store) => Ok(store),
            None => self.create(relation, 0),
        }
    }

    /// A relation as footprints know it. One that the database cannot have is told from all others, too.
    pub fn id(&self, relation: &'static Definition) -> RelationId {
        let number = relation.number();
        let ordinal = self.get_numbered(number, relation).map_or(RELATIONS_MAX, |store| store.ordinal);
        RelationId { number: number as u32, ordinal: ordinal as u32 }
    }

    /// The store with that number, if it was made.
    #[inline(always)]
    fn existing(&self, number: usize) -> Option<&Store> {
        self.first.get(number).and_then(OnceLock::get).or_else(|| self.on_further_shelf(number))
    }

    #[inline(never)]
    fn on_further_shelf(&self, number: usize) -> Option<&Store> {
        let shelf = (number / SHELF).checked_sub(1)?;
        self.further.get(shelf)?.get()?[number % SHELF].get()
    }

    /// Makes the store of a relation, sized for `rows`, unless it exists.
    #[cold]
    pub fn create(&self, relation: &'static Definition, rows: usize) -> Result<&Store> {
        let number = relation.number();
        let shelf = match (number / SHELF).checked_sub(1) {
            None => Some(&self.first),
            Some(at) => self.further.get(at).map(|further| further.get_or_init(shelf)),
        };
        let slot = &shelf.ok_or(Misuse::TooManyTables { limit: RELATIONS_MAX })?[number % SHELF];
        if self.records.shape.words(relation.layout) > REACH {
            let bytes = REACH * size_of::<AtomicU64>();
            let why = format!(
                "a row takes at most {bytes} bytes in place; let long values be of any length, so that they are outside of it"
            );
            return Err(Misuse::Definition { table: relation.name().to_owned(), why }.into());
        }
        if self.closed && slot.get().is_none() {
            return Err(Misuse::Undeclared { table: relation.name() }.into());
        }
        // One at a time, so that no two of one name are made.
        let _making = lock(&self.making);
        let others = self.all();
        if slot.get().is_none() && others.iter().any(|other| other.relation.name() == relation.name()) {
            return Err(Misuse::TwoOfOneName { relation: relation.name() }.into());
        }
        let make = || Store {
            ordinal: others.len(),
            ..Store::new(self.records, relation, rows, Arc::clone(&self.heap))
        };
        Ok(slot.get_or_init(make))
    }

    /// Every store that exists. In memory they are made while transactions run.
    pub fn all(&self) -> Vec<&Store> {
        let further = self.further.iter().filter_map(OnceLock::get);
        let shelves = std::iter::once(&self.first).chain(further);
        shelves.flat_map(|shelf| shelf.iter()).filter_map(OnceLock::get).collect()
    }

    /// The store with a relation number that was met in a record's life.
    pub fn numbered(&self, number: usize) -> &Store {
        self.existing(number).expect("a relation with records has a store")
    }
}

/// The words of a record that lead to its old versions.
pub(crate) fn heads<'a>(
    record: RecordRef,
    shape: Shape,
    layout: &Layout,
) -> impl Iterator<Item = &'a AtomicU64> + use<'a> {
    let base = shape.heads(layout);
    (base..base + layout.groups.len()).map(move |head| record.lasting_word(head))
}

/// True where a relation can be scanned.
pub(crate) fn is_ordered(relation: &Definition) -> bool {
    relation.structure == Structure::Ordered
}

/// Copies words of a column group as of the end of an epoch; false where the row was absent.
pub(crate) fn copy_group(
    record: RecordRef,
    shape: Shape,
    layout: &'static Layout,
    group: usize,
    wanted: Span,
    epoch: u64,
    target: &mut [u64],
) -> bool {
    let stamp_word = record.word(shape.stamp(group));
    let mut wait = Wait::new();
    loop {
        // Acquire: pairs with the publishing store of the version, and of what hangs off it.
        let stamp = stamp_word.load(Ordering::Acquire);
        if stamp == stamp::SEALED {
            // Only where every live snapshot sees the row absent.
            return false;
        }
        if stamp::is_locked(stamp) {
            // A writer between its lock and its last store, who waits for no snapshot.
            wait.pause();
            continue;
        }
        if stamp::epoch(stamp) > epoch && !planted(Mutant::SnapshotReadsNewest) {
            let head = record.word(shape.heads(layout) + group);
            let Some(old) = version::find(head, epoch) else { return false };
            if stamp::is_absent(old.stamp()) {
                return false;
            }
            let start = wanted.start - layout.groups[group].span.start.min(wanted.start);
            target.iter_mut().enumerate().for_each(|(index, word)| {
                // Relaxed: published with the version, and never changed while a reader is pinned.
                *word = old.word(start + index).load(Ordering::Relaxed);
            });
            return true;
        }
        if stamp::is_absent(stamp) {
            return false;
        }
        let start = shape.data(layout) + wanted.start;
        target.iter_mut().enumerate().for_each(|(index, word)| {
            // Relaxed: discarded below unless the version stands.
            *word = record.word(start + index).load(Ordering::Relaxed);
        });
        // Acquire fence, then a relaxed load: pairs with the release fence of installing writers.
        fence(Ordering::Acquire);
        if stamp_word.load(Ordering::Relaxed) == stamp {
            return true;
        }
    }
}
