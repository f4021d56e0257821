//! Where the relations of a database are kept, and how a typed access finds its own.

use crate::epoch::EpochClock;
use crate::error::{Misuse, Result};
use crate::index::{AnyIndex, Retired};
use crate::protocol::{Protocol, Seal, data_base, heads_base};
use crate::record::RecordRef;
use crate::sync::AtomicU64;
use crate::table::{IndexWords, Layout, Relation, Structure};
use crate::version;
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
    protocol: PhantomData<fn() -> P>,
}

/// What reclamation does to a relation whose key type it does not know.
pub(crate) trait Reclaim: Send + Sync {
    /// Seals the record of `key` and takes it out of the index. `Live` also if the key leads
    /// elsewhere by now, or if another worker has it in his queue.
    fn unlink(&self, key: &[u64], record: RecordRef, clock: &EpochClock, retired: &mut Vec<Retired>) -> Seal;
    /// The epoch of the oldest version that is kept of a record.
    fn oldest_version(&self, record: RecordRef) -> Option<u64>;
    /// Takes index nodes back.
    fn recycle(&self, node: Retired);
    /// Nodes or buckets of the index.
    fn index_nodes(&self) -> usize;
    /// The name for reports.
    fn name(&self) -> &'static str;
}

impl<W: IndexWords, P: Protocol> Reclaim for Store<W, P> {
    fn unlink(&self, key: &[u64], record: RecordRef, clock: &EpochClock, retired: &mut Vec<Retired>) -> Seal {
        let mut words = W::MIN;
        words.words_mut().copy_from_slice(key);
        let head = record.word(heads_base::<P>(self.layout));
        version::dequeue(head);
        let mut outcome = Seal::Live;
        self.index.remove(
            &words,
            record,
            |gap| {
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

    fn name(&self) -> &'static str {
        self.layout.name
    }
}

/// All relations of a database, by [`Slot`](crate::table::Slot) number, each made at its first use.
pub(crate) struct Stores<P> {
    slots: Box<[OnceLock<Slotted>]>,
    protocol: PhantomData<fn() -> P>,
}

struct Slotted {
    relation: TypeId,
    store: Box<dyn Reclaim>,
}

/// Relations that a process may use, over all its databases.
const RELATIONS_MAX: usize = 4096;

impl<P: Protocol> Stores<P> {
    pub fn new() -> Self {
        Self { slots: (0..RELATIONS_MAX).map(|_| OnceLock::new()).collect(), protocol: PhantomData }
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
        let slotted = slot.get_or_init(|| {
            let layout = R::LAYOUT;
            let store: Store<R::Words, P> = Store {
                index: <R::Words as IndexWords>::Index::new(R::STRUCTURE, rows),
                layout,
                number,
                block_words: data_base::<P>(layout) + layout.words,
                protocol: PhantomData,
            };
            Slotted { relation: TypeId::of::<R>(), store: Box::new(store) }
        });
        Ok(Self::typed::<R>(slotted))
    }

    #[inline(always)]
    fn typed<R: Relation>(slotted: &Slotted) -> &Store<R::Words, P> {
        assert!(slotted.relation == TypeId::of::<R>(), "a relation's slot belongs to it alone");
        let store: *const dyn Reclaim = &*slotted.store;
        // SAFETY: `create` filled the slot for the same relation type (asserted), and for it always
        // with a `Store<R::Words, P>`, P being this collection's own type parameter.
        unsafe { &*store.cast::<Store<R::Words, P>>() }
    }

    /// The store with a relation number that was met in a record's life.
    pub fn reclaim(&self, number: usize) -> &dyn Reclaim {
        &*self.slots[number].get().expect("a relation with records has a store").store
    }

    /// Every store that exists.
    pub fn all(&self) -> impl Iterator<Item = &dyn Reclaim> {
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
