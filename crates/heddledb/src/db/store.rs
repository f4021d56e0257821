//! Where the relations of a database are kept, and how a typed access finds its own.

use super::snapshot::copy_group;
use crate::access::Groups;
use crate::arena::Arena;
use crate::epoch::EpochClock;
use crate::error::{Misuse, Result};
use crate::index::{AnyIndex, Gap, Inserted, Lookup, Retired, Walk};
use crate::log;
use crate::mutant::{Mutant, planted};
use crate::protocol::{Protocol, Seal};
use crate::record::{RecordRef, data_base, heads_base};
use crate::sync::{AtomicU64, Ordering};
use crate::table::{IndexWords, Layout, Relation, Span, Structure};
use crate::{stamp, version};
use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// One relation under one protocol: its index and the shape of its records.
pub(crate) struct Store<W: IndexWords, P> {
    /// From key to record.
    pub index: W::Index,
    /// The shape of a row.
    pub layout: &'static Layout,
    /// The relation's number in this process.
    pub number: usize,
    /// Words of a record, concurrency words included.
    pub block_words: usize,
    schema: &'static str,
    protocol: PhantomData<fn() -> P>,
}

/// What is done to a relation whose key type is not known: reclamation, recovery, checkpoints.
pub(crate) trait AnyStore: Send + Sync {
    /// Seals the record of `key` and takes it out of the index. `Live` also if the key leads
    /// elsewhere by now, or if another worker has it in his queue.
    fn unlink(&self, key: &[u64], record: RecordRef, clock: &EpochClock, retired: &mut Vec<Retired>) -> Seal;
    /// The epoch of the oldest version that is kept of a record.
    fn oldest_version(&self, record: RecordRef) -> Option<u64>;
    /// Takes index nodes back.
    fn recycle(&self, node: Retired);
    /// Nodes or buckets of the index.
    fn index_nodes(&self) -> usize;
    /// The shape of its rows.
    fn layout(&self) -> &'static Layout;
    /// Its number in this process.
    fn number(&self) -> usize;
    /// Its definition.
    fn schema(&self) -> &'static str;
    /// Words of its keys.
    fn key_words(&self) -> usize;
    /// Makes changes, one after the other. Calls `absent` with the key and record of each row that does
    /// not exist by that. For recovery: no other thread has these keys, and no transaction runs.
    fn restore(&self, changes: &[Restore<'_>], arena: &mut Arena, absent: &mut dyn FnMut(&[u64], RecordRef));
    /// The rows of one leaf or bucket as of the end of an epoch, at which a snapshot stands: key words and
    /// data words of each. The caller is pinned.
    fn walk(&self, from: &mut Walk, epoch: u64, row: &mut dyn FnMut(&[u64], &[u64]));
}

/// A change that recovery found: brings column groups of a row to what they were at `time`, unless they are
/// known to have been something else later.
pub(crate) struct Restore<'a> {
    pub write: log::Write<'a>,
    pub time: u64,
}

impl<W: IndexWords, P: Protocol> AnyStore for Store<W, P> {
    fn unlink(&self, key: &[u64], record: RecordRef, clock: &EpochClock, retired: &mut Vec<Retired>) -> Seal {
        let words = self.words(key);
        let head = record.word(heads_base::<P>(self.layout));
        version::dequeue(head);
        let mut outcome = Seal::Live;
        self.index.remove(
            &words,
            record,
            &mut |gap: &Gap| {
                // A snapshot may read what the record was: it stays as long as that is kept.
                let spare = || heads::<P>(record, self.layout).all(|head| !version::any(head));
                outcome = P::seal(record, self.layout, clock, gap, spare);
                outcome == Seal::Sealed
            },
            retired,
        );
        // Whoever has queued it meanwhile will look at it.
        if outcome == Seal::Busy && !version::enqueue(head) { Seal::Live } else { outcome }
    }

    fn oldest_version(&self, record: RecordRef) -> Option<u64> {
        heads::<P>(record, self.layout).filter_map(version::oldest).min()
    }

    fn recycle(&self, node: Retired) {
        self.index.recycle(node);
    }

    fn index_nodes(&self) -> usize {
        self.index.nodes()
    }

    fn layout(&self) -> &'static Layout {
        self.layout
    }

    fn number(&self) -> usize {
        self.number
    }

    fn schema(&self) -> &'static str {
        self.schema
    }

    fn key_words(&self) -> usize {
        W::MIN.words().len()
    }

    fn restore(&self, changes: &[Restore<'_>], arena: &mut Arena, absent: &mut dyn FnMut(&[u64], RecordRef)) {
        // In steps, so that cache misses overlap.
        for Restore { write, .. } in changes {
            self.index.prefetch(&self.words(write.key));
        }
        let mut near = Default::default();
        let found: Vec<Option<RecordRef>> = changes
            .iter()
            .map(|Restore { write, .. }| {
                // A write of all groups is an insert more often than not.
                let is_update = write.groups != self.layout.all_groups();
                if is_update { self.find(write, &mut near) } else { None }
            })
            .collect();
        for (Restore { write, time }, found) in changes.iter().zip(found) {
            let record = found.unwrap_or_else(|| {
                let block = arena.allocate(self.number, self.block_words);
                let mut place = |gap: &Gap| place::<P>(block, self.layout, gap);
                match self.index.insert_near(&self.words(write.key), &mut near, &mut place) {
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

    fn walk(&self, from: &mut Walk, epoch: u64, row: &mut dyn FnMut(&[u64], &[u64])) {
        let (mut entries, mut data) = (Vec::new(), vec![0; self.layout.words]);
        self.index.walk(from, &mut entries);
        for (key, record) in entries {
            let present = Groups(self.layout.all_groups()).all(|group| {
                let span = self.layout.groups[group].span;
                copy_group::<P>(record, self.layout, group, span, epoch, &mut data[span.start..span.end])
            });
            if present {
                row(key.words(), &data);
            }
        }
    }
}

impl<W: IndexWords, P: Protocol> Store<W, P> {
    /// The record that a write changes; asks for its memory.
    fn find<'a>(
        &'a self,
        write: &log::Write<'_>,
        near: &mut <W::Index as AnyIndex<W>>::Near<'a>,
    ) -> Option<RecordRef> {
        let Lookup::Found(record) = self.index.get_near(&self.words(write.key), near) else { return None };
        let base = data_base::<P>(self.layout);
        record.prefetch(Span { start: 0, end: base });
        for group in Groups(write.groups) {
            let span = self.layout.groups[group].span;
            record.prefetch(Span { start: base + span.start, end: base + span.end });
        }
        Some(record)
    }

    /// Puts a write of `time` into a record where it is the newest of its groups.
    fn change(&self, record: RecordRef, write: &log::Write<'_>, time: u64) {
        let mut data = write.data;
        for group in Groups(write.groups) {
            let span = self.layout.groups[group].span;
            let (words, rest) = if write.present { data.split_at(span.len()) } else { (&[][..], data) };
            data = rest;
            // Relaxed throughout: this thread alone has the record, and whoever comes later was started by
            // one that has joined it.
            let known = stamp::time(record.word(P::stamp_word(group)).load(Ordering::Relaxed));
            if known < time || planted(Mutant::RecoveryOrderByFile) {
                let base = data_base::<P>(self.layout) + span.start;
                for (index, word) in words.iter().enumerate() {
                    record.word(base + index).store(*word, Ordering::Relaxed);
                }
                P::restore(record, group, stamp::of(time, write.present));
            }
        }
    }

    /// A key of this relation from its words.
    fn words(&self, key: &[u64]) -> W {
        let mut words = W::MIN;
        words.words_mut().copy_from_slice(key);
        words
    }
}

/// Prepares a block for a new key, absent and without a past, under the latch of the gap that it fills.
pub(crate) fn place<P: Protocol>(block: RecordRef, layout: &'static Layout, gap: &Gap) -> RecordRef {
    P::place(block, layout, gap);
    // Relaxed: published by the index's release.
    heads::<P>(block, layout).for_each(|head| head.store(0, Ordering::Relaxed));
    block
}

/// All relations of a database, by [`Slot`](crate::table::Slot) number, each made at its first use.
pub(crate) struct Stores<P> {
    slots: Box<[OnceLock<Slotted>]>,
    /// No more relations: those that have a number in the database's files are all.
    closed: bool,
    protocol: PhantomData<fn() -> P>,
}

struct Slotted {
    relation: TypeId,
    /// The type of its keys' words.
    words: TypeId,
    store: Box<dyn AnyStore>,
}

/// Relations that a process may use, over all its databases.
const RELATIONS_MAX: usize = 4096;

impl<P: Protocol> Stores<P> {
    pub fn new() -> Self {
        let slots = (0..RELATIONS_MAX).map(|_| OnceLock::new()).collect();
        Self { slots, closed: false, protocol: PhantomData }
    }

    /// From now on there are no other relations than those made so far.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// The store of `R`, made now if this is its first use.
    #[inline(always)]
    pub fn get<R: Relation>(&self) -> Result<&Store<R::Words, P>> {
        match self.slots.get(R::slot().number()).and_then(OnceLock::get) {
            Some(slotted) => Ok(Self::typed::<R>(slotted)),
            None => self.create::<R>(0),
        }
    }

    /// Makes the store of `R`, sized for `rows`, unless it exists.
    #[cold]
    pub fn create<R: Relation>(&self, rows: usize) -> Result<&Store<R::Words, P>> {
        let number = R::slot().number();
        let slot = self.slots.get(number).ok_or(Misuse::TooManyTables { limit: RELATIONS_MAX })?;
        if self.closed && slot.get().is_none() {
            return Err(Misuse::Undeclared { table: R::LAYOUT.name }.into());
        }
        let slotted = slot.get_or_init(|| {
            let layout = R::LAYOUT;
            let store: Store<R::Words, P> = Store {
                index: <R::Words as IndexWords>::Index::new(R::STRUCTURE, rows, P::GAP_FOLD),
                layout,
                number,
                block_words: data_base::<P>(layout) + layout.words,
                schema: R::SCHEMA,
                protocol: PhantomData,
            };
            Slotted { relation: TypeId::of::<R>(), words: TypeId::of::<R::Words>(), store: Box::new(store) }
        });
        Ok(Self::typed::<R>(slotted))
    }

    #[inline(always)]
    fn typed<R: Relation>(slotted: &Slotted) -> &Store<R::Words, P> {
        assert!(slotted.relation == TypeId::of::<R>(), "a relation's slot belongs to it alone");
        Self::of_words(slotted)
    }

    #[inline(always)]
    fn of_words<W: IndexWords>(slotted: &Slotted) -> &Store<W, P> {
        assert!(slotted.words == TypeId::of::<W>(), "a relation's keys have words of one width");
        let store: *const dyn AnyStore = &*slotted.store;
        // SAFETY: `create` made the store of a relation with these words (asserted), so as a `Store<W, P>`, P being
        // this collection's own type parameter.
        unsafe { &*store.cast::<Store<W, P>>() }
    }

    /// The store of the relation of that number, which exists, and whose keys have these words.
    #[inline(always)]
    pub fn numbered_of<W: IndexWords>(&self, number: usize) -> &Store<W, P> {
        Self::of_words(self.slotted(number))
    }

    fn slotted(&self, number: usize) -> &Slotted {
        self.slots[number].get().expect("a relation with records has a store")
    }

    /// The store with a relation number that was met in a record's life.
    pub fn numbered(&self, number: usize) -> &dyn AnyStore {
        &*self.slotted(number).store
    }

    /// Every store that exists.
    pub fn all(&self) -> impl Iterator<Item = &dyn AnyStore> {
        self.slots.iter().filter_map(|slot| slot.get().map(|slotted| &*slotted.store))
    }
}

/// The words of a record that lead to its old versions.
pub(crate) fn heads<'a, P: Protocol>(
    record: RecordRef,
    layout: &Layout,
) -> impl Iterator<Item = &'a AtomicU64> + use<'a, P> {
    let base = heads_base::<P>(layout);
    (base..base + layout.groups.len()).map(move |head| record.lasting_word(head))
}

/// True where a relation can be scanned.
pub(crate) fn is_ordered<R: Relation>() -> bool {
    R::STRUCTURE == Structure::Ordered
}
