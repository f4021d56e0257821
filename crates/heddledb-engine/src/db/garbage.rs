//! Reclamation: from a deleted row back to a free block.
//!
//! ```text
//! absent record ---epoch passes--> sealed and unlinked --epoch passes--> free block
//! old version ----no snapshot needs it--> unlinked ------epoch passes--> free block
//! ```
//!
//! A worker queues what its own transactions left behind (deleted records, placeholders of aborted inserts,
//! versions that they overwrote, index nodes that ran empty) and works the queue off, some steps after each
//! attempt, more than the attempt itself has added. Entries are in the order of their epochs, so only the
//! front is looked at. Entries that a snapshot may still read are put aside until the snapshot's boundary has
//! ended.

use super::store::Stores;
use crate::arena::Arena;
use crate::commit::{Replaced, Superseded};
use crate::epoch::EpochClock;
use crate::index::Retired;
use crate::mutant::{Mutant, planted};
use crate::protocol::Seal;
use crate::record::RecordRef;
use crate::snapshot::{Boundaries, LiveView};
use crate::sync::AtomicU64;
use crate::table::Span;
use crate::{stamp, version};
use std::collections::VecDeque;

/// Steps after one attempt, besides those that its own entries come to.
const STEPS: usize = 32;
/// Steps that one entry comes to at most, if one snapshot is in its way.
const STEPS_EACH: usize = 4;

/// How many entries before its turn a version's memory is prefetched.
const AHEAD: usize = 4;

enum GarbageEntry {
    /// A record that may be absent for good, since an epoch; its key words are the next in `keys`.
    Absent { record: RecordRef, relation: u32, key_words: u8, since: u64 },
    /// A sealed and unlinked block.
    Block { record: RecordRef, relation: u32 },
    /// A version that a snapshot may need.
    Version(Superseded),
    /// An unlinked version's block.
    VersionBlock { block: RecordRef, words: u32 },
    /// A value that a snapshot may need.
    Value(Replaced),
    /// An unlinked index node.
    Node { node: Retired, relation: u32 },
}

/// What waits for a boundary to end.
struct Parked {
    boundary: u64,
    entries: VecDeque<GarbageEntry>,
    keys: VecDeque<u64>,
}

/// One worker's queues.
#[derive(Default)]
pub(crate) struct Garbage {
    queue: VecDeque<(u64, GarbageEntry)>,
    keys: VecDeque<u64>,
    /// What a snapshot may still read, by the oldest boundary that is in the way: it is looked at again
    /// when that has ended, and not before.
    parked: Vec<Parked>,
    /// Entries since the queue was last worked off.
    added: usize,
    /// Scratch: the key of the entry at hand, and nodes that its removal unlinked.
    key: Vec<u64>,
    retired: Vec<Retired>,
    live: LiveView,
}

/// What working the queue off needs.
pub(crate) struct ReclaimContext<'a> {
    pub clock: &'a EpochClock,
    pub boundaries: &'a Boundaries,
    pub stores: &'a Stores,
    pub arena: &'a mut Arena,
    pub worker: usize,
}

impl Garbage {
    /// Queues a record that is, or may be, absent; `head` is that of its group 0. A record that waits in a
    /// queue already, here or at another worker, is left to that queue.
    pub fn absent(&mut self, epoch: u64, relation: u32, key: &[u64], record: RecordRef, head: &AtomicU64) {
        if !version::enqueue(head) {
            return;
        }
        self.added += 1;
        self.keys.extend(key);
        let key_words = key.len() as u8;
        self.queue.push_back((epoch, GarbageEntry::Absent { record, relation, key_words, since: epoch }));
    }

    /// Queues a version that was overwritten.
    pub fn superseded(&mut self, epoch: u64, version: Superseded) {
        self.added += 1;
        self.queue.push_back((epoch, GarbageEntry::Version(version)));
    }

    /// Queues a value that no row has any more.
    pub fn replaced(&mut self, epoch: u64, replaced: Replaced) {
        self.added += 1;
        self.queue.push_back((epoch, GarbageEntry::Value(replaced)));
    }

    /// Entries waiting.
    pub fn len(&self) -> usize {
        self.queue.len() + self.parked.iter().map(|parked| parked.entries.len()).sum::<usize>()
    }

    /// Whether no entry waits.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.parked.is_empty()
    }

    /// The worker's view of the boundaries.
    pub fn live(&mut self) -> &mut LiveView {
        &mut self.live
    }

    /// Works off the front of the queue. The caller is pinned in an epoch.
    #[inline]
    pub fn collect(&mut self, context: ReclaimContext<'_>) {
        if !self.is_empty() {
            self.work(context);
        }
    }

    fn work(&mut self, mut context: ReclaimContext<'_>) {
        let mut left = STEPS + STEPS_EACH * std::mem::take(&mut self.added);
        let reclaim = context.clock.reclaim_epoch();
        // One epoch more than reachability needs: TicToc unlinks only what is three old.
        let passed = |epoch: u64| reclaim >= epoch + 3;
        if self.parked.is_empty() && !self.queue.front().is_some_and(|(epoch, _)| passed(*epoch)) {
            return;
        }
        // After the epoch: a snapshot that this misses stands at that epoch or later.
        self.live.refresh(context.boundaries);
        while left > 0 && self.queue.front().is_some_and(|(epoch, _)| passed(*epoch)) {
            let (_, entry) = self.queue.pop_front().expect("the front was just seen");
            if let Some((_, GarbageEntry::Version(next))) = self.queue.get(AHEAD) {
                prefetch(next);
            }
            if let GarbageEntry::Absent { key_words, .. } = entry {
                self.key.clear();
                self.key.extend(self.keys.drain(..key_words as usize));
            }
            self.step(entry, &mut context);
            left -= 1;
        }
        while left > 0
            && let Some(at) = self.parked.iter().position(|parked| !self.live.lives(parked.boundary))
        {
            let parked = &mut self.parked[at];
            let Some(entry) = parked.entries.pop_front() else {
                self.parked.swap_remove(at);
                continue;
            };
            if let Some(GarbageEntry::Version(next)) = parked.entries.get(AHEAD) {
                prefetch(next);
            }
            if let GarbageEntry::Absent { key_words, .. } = entry {
                self.key.clear();
                self.key.extend(parked.keys.drain(..key_words as usize));
            }
            self.step(entry, &mut context);
            left -= 1;
        }
    }

    /// Does what is due with one entry; the key of an absent record is in `key`.
    #[inline]
    fn step(&mut self, entry: GarbageEntry, context: &mut ReclaimContext<'_>) {
        match entry {
            GarbageEntry::VersionBlock { block, words } => {
                context.arena.release_version(words as usize, block)
            }
            GarbageEntry::Version(old) => {
                if let Some(boundary) = self.live.needing(stamp::epoch(old.version.stamp()), old.until) {
                    self.park(boundary).entries.push_back(GarbageEntry::Version(old));
                    return;
                }
                version::unlink(old.record.word(old.head as usize), old.version);
                let (block, words) = (old.version.block(), old.words);
                // Read after it was unlinked, here and below: no body holds this number back.
                let now = context.clock.now();
                self.queue.push_back((now, GarbageEntry::VersionBlock { block, words }));
            }
            GarbageEntry::Value(replaced) => {
                let needing = self.live.needing(replaced.from, replaced.until);
                if let Some(boundary) = needing.filter(|_| !planted(Mutant::ValueFreedUnderSnapshot)) {
                    self.park(boundary).entries.push_back(GarbageEntry::Value(replaced));
                    return;
                }
                context.stores.heap.free(context.worker, replaced.value);
            }
            GarbageEntry::Block { record, relation } => context.arena.release(relation as usize, record),
            GarbageEntry::Node { node, relation } => {
                context.stores.numbered(relation as usize).index.recycle(node)
            }
            GarbageEntry::Absent { record, relation, key_words, since } => {
                let store = context.stores.numbered(relation as usize);
                // Busy for as long as a snapshot may read a version of it.
                let kept = store.oldest_version(record);
                if let Some(boundary) = kept.and_then(|from| self.live.needing(from, since)) {
                    let key = std::mem::take(&mut self.key);
                    let parked = self.park(boundary);
                    parked.keys.extend(&key);
                    parked.entries.push_back(GarbageEntry::Absent { record, relation, key_words, since });
                    self.key = key;
                    return;
                }
                let sealed = store.unlink(&self.key, record, context.clock, &mut self.retired);
                let now = context.clock.now();
                match sealed {
                    Seal::Live => {}
                    Seal::Busy => {
                        self.keys.extend(&self.key);
                        // The row may have come and gone meanwhile.
                        let entry = GarbageEntry::Absent { record, relation, key_words, since: now };
                        self.queue.push_back((now, entry));
                    }
                    Seal::Sealed => self.queue.push_back((now, GarbageEntry::Block { record, relation })),
                }
                let nodes = self.retired.drain(..).map(|node| (now, GarbageEntry::Node { node, relation }));
                self.queue.extend(nodes);
            }
        }
    }

    /// The place for what waits for a boundary.
    fn park(&mut self, boundary: u64) -> &mut Parked {
        let at = self.parked.iter().position(|parked| parked.boundary == boundary);
        let at = at.unwrap_or_else(|| {
            self.parked.push(Parked { boundary, entries: VecDeque::new(), keys: VecDeque::new() });
            self.parked.len() - 1
        });
        &mut self.parked[at]
    }
}

/// Prefetches the memory that a version's turn needs.
#[inline]
fn prefetch(next: &Superseded) {
    next.record.prefetch(Span { start: next.head as usize, end: next.head as usize + 1 });
    next.version.block().prefetch(Span { start: 0, end: 1 });
}
