//! Reclamation: from a deleted row back to a free block.
//!
//! ```text
//! absent record ---epoch passes--> sealed and unlinked --epoch passes--> free block
//! old version ----no snapshot needs it--> unlinked ------epoch passes--> free block
//! ```
//!
//! A worker queues what its own transactions left behind (deleted records, placeholders of aborted
//! inserts, versions that they overwrote, index nodes that ran empty) and works the queue off, a few steps after each attempt.
//! Entries are in the order of their epochs, so only the front is looked at.

use super::store::Stores;
use crate::arena::Arena;
use crate::commit::Superseded;
use crate::epoch::EpochClock;
use crate::index::Retired;
use crate::protocol::{Protocol, Seal};
use crate::record::RecordRef;
use crate::snapshot::{Boundaries, LiveView};
use crate::sync::AtomicU64;
use crate::table::Span;
use crate::{stamp, version};
use std::collections::VecDeque;

/// Steps after one attempt: more than one transaction of the workloads leaves behind.
const STEPS: usize = 32;

/// How many entries before its turn a version's memory is asked for.
const AHEAD: usize = 4;

enum Remains {
    /// A record that may be absent for good; its key words are the next in `keys`.
    Absent { record: RecordRef, relation: u32, key_words: u8 },
    /// A sealed and unlinked block.
    Block { record: RecordRef, relation: u32 },
    /// A version that a snapshot may need.
    Version(Superseded),
    /// An unlinked version's block.
    VersionBlock { block: RecordRef, words: u32 },
    /// An unlinked index node.
    Node { node: Retired, relation: u32 },
}

/// One worker's queues.
#[derive(Default)]
pub(crate) struct Garbage {
    queue: VecDeque<(u64, Remains)>,
    keys: VecDeque<u64>,
    /// Scratch: the key of the entry at hand, and nodes that its removal unlinked.
    key: Vec<u64>,
    retired: Vec<Retired>,
    live: LiveView,
}

impl Garbage {
    /// Queues a record that is, or may be, absent; `head` is that of its group 0.
    /// One that waits in a queue already, here or at another worker, is left to that.
    pub fn absent(&mut self, epoch: u64, relation: u32, key: &[u64], record: RecordRef, head: &AtomicU64) {
        if !version::enqueue(head) {
            return;
        }
        self.keys.extend(key);
        self.queue.push_back((epoch, Remains::Absent { record, relation, key_words: key.len() as u8 }));
    }

    /// Queues a version that was overwritten.
    pub fn superseded(&mut self, epoch: u64, version: Superseded) {
        self.queue.push_back((epoch, Remains::Version(version)));
    }

    /// Entries waiting.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Works off the front of the queue. The caller is pinned in an epoch.
    #[inline]
    pub fn collect<P: Protocol>(
        &mut self,
        clock: &EpochClock,
        boundaries: &Boundaries,
        stores: &Stores<P>,
        arena: &mut Arena,
    ) {
        if !self.queue.is_empty() {
            self.work(clock, boundaries, stores, arena);
        }
    }

    fn work<P: Protocol>(
        &mut self,
        clock: &EpochClock,
        boundaries: &Boundaries,
        stores: &Stores<P>,
        arena: &mut Arena,
    ) {
        let now = clock.now();
        // One epoch more than reachability needs: TicToc unlinks only what is three old.
        let passed = |epoch: u64| now >= epoch + 3;
        if !self.queue.front().is_some_and(|(epoch, _)| passed(*epoch)) {
            return;
        }
        // After the epoch: a snapshot that this misses stands at that epoch or later.
        self.live.refresh(boundaries);
        for _ in 0..STEPS {
            match self.queue.front() {
                Some((epoch, _)) if passed(*epoch) => {}
                _ => return,
            }
            let (_, remains) = self.queue.pop_front().expect("the front was just seen");
            if let Some((_, Remains::Version(next))) = self.queue.get(AHEAD) {
                next.record.prefetch(Span { start: next.head as usize, end: next.head as usize + 1 });
                next.version.block().prefetch(Span { start: 0, end: 1 });
            }
            match remains {
                Remains::VersionBlock { block, words } => arena.release_version(words as usize, block),
                Remains::Version(old) => {
                    if self.live.needs(stamp::epoch(old.version.stamp()), old.until) {
                        self.queue.push_back((now, Remains::Version(old)));
                        continue;
                    }
                    version::unlink(old.record.word(old.head as usize), old.version);
                    let (block, words) = (old.version.block(), old.words);
                    self.queue.push_back((now, Remains::VersionBlock { block, words }));
                }
                Remains::Block { record, relation } => arena.release(relation as usize, record),
                Remains::Node { node, relation } => stores.numbered(relation as usize).recycle(node),
                Remains::Absent { record, relation, key_words } => {
                    self.key.clear();
                    self.key.extend(self.keys.drain(..key_words as usize));
                    let store = stores.numbered(relation as usize);
                    match store.unlink(&self.key, record, clock, &mut self.retired) {
                        Seal::Live => {}
                        Seal::Busy => {
                            self.keys.extend(&self.key);
                            self.queue.push_back((now, Remains::Absent { record, relation, key_words }));
                        }
                        Seal::Sealed => self.queue.push_back((now, Remains::Block { record, relation })),
                    }
                    let nodes = self.retired.drain(..).map(|node| (now, Remains::Node { node, relation }));
                    self.queue.extend(nodes);
                }
            }
        }
    }
}
