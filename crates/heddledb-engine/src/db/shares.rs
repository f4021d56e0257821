//! What the threads of a recovery share, and what each of them has.

use super::garbage::Garbage;
use super::store::Store;
use crate::access::Groups;
use crate::arena::Arena;
use crate::error::Result;
use crate::log::{Manifest, Name, RelationEntry, Write, again};
use crate::metrics::{RecoveryProgress, Tell};
use crate::storage::Storage;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::table::Definition;
use crate::values::Logged;

/// Changes of a relation that are made together.
pub(super) const BATCH: usize = 64;

/// What is wrong with a write of a relation that nobody knows.
pub(super) const UNKNOWN: &str = "a relation that the manifest does not list";
/// What is wrong with a row that does not fit its relation.
pub(super) const OTHER_SHAPE: &str = "a row of another shape than its relation's";

/// Compares a write with the shape of its relation.
pub(super) fn check_shape(relation: &Definition, write: &Write<'_>) -> Result<(), &'static str> {
    let layout = relation.layout;
    let groups = write.groups & layout.all_groups();
    let words: usize = match write.present {
        true => Groups(groups).map(|group| layout.groups[group].span.len()).sum(),
        false => 0,
    };
    let is_whole = match write.present && !layout.slots.is_empty() {
        true => Logged(write.data).is_whole(words, layout.logged_slots(groups)),
        false => write.data.len() == words,
    };
    let due = (groups, relation.key_words, true);
    if (write.groups, write.key.len(), is_whole) == due { Ok(()) } else { Err(OTHER_SHAPE) }
}

/// Relations by their number in the files.
pub(super) struct Relations<'a> {
    pub stores: Vec<Option<&'a Store>>,
    pub entries: Vec<RelationEntry>,
    /// The numbers of indexes whose records do not count.
    pub passed_over: Vec<u16>,
}

impl<'a> Relations<'a> {
    /// Enters the store of the relation with a number.
    pub fn put(&mut self, id: u16, store: &'a Store) {
        let at = usize::from(id);
        if self.stores.len() <= at {
            self.stores.resize(at + 1, None);
        }
        self.stores[at] = Some(store);
    }

    /// Whether the records of a number that has no store are passed over; otherwise nobody knows the number.
    #[cold]
    pub fn passes_over(&self, id: u16) -> bool {
        self.passed_over.contains(&id)
    }

    /// How many numbers there are, used or not.
    pub fn count(&self) -> usize {
        self.stores.len()
    }

    /// The relations by their numbers; `None` where the records do not count.
    pub fn definitions(&self) -> Vec<Option<&'static Definition>> {
        self.stores.iter().map(|store| store.map(|store| store.relation)).collect()
    }

    /// The store of the relation with a number.
    #[inline(always)]
    pub fn store(&self, id: u16) -> Option<&'a Store> {
        self.stores.get(usize::from(id)).copied().flatten()
    }
}

/// What one thread of recovery has.
#[derive(Default)]
pub(super) struct Share {
    pub arena: Arena,
    pub garbage: Garbage,
    pub rows: u64,
    pub transactions: u64,
    pub writes: u64,
}

/// Bytes read, of all that there are to read.
pub(super) struct Progress {
    done: AtomicU64,
    total: u64,
    tell: Option<Tell>,
    /// When it was told last.
    told: Mutex<u64>,
}

impl Progress {
    /// Nothing yet, of the files that the manifest lists.
    pub fn new(storage: &dyn Storage, manifest: &Manifest, tell: Option<Tell>) -> Result<Self> {
        let mut total: u64 = manifest.checkpoint.iter().flat_map(|c| &c.parts).map(|part| part.bytes).sum();
        if tell.is_some() {
            for generation in &manifest.generations {
                for file in 0..generation.files {
                    let name = Name::Log { generation: generation.number, file }.to_string();
                    // A file that is missing is the survey's to tell.
                    let length = again(|| storage.open(&name)).and_then(|file| file.len()).unwrap_or(0);
                    total += 2 * length;
                }
            }
        }
        Ok(Self { done: AtomicU64::new(0), total, tell, told: Mutex::new(0) })
    }

    /// Bytes read so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// So many more have been read.
    pub fn add(&self, bytes: u64) {
        const STEP: u64 = 4 << 20;
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(tell) = &self.tell {
            let mut told = lock(&self.told);
            if done >= *told + STEP || done >= self.total {
                *told = done;
                tell(RecoveryProgress::new(done.min(self.total), self.total));
            }
        }
    }
}
