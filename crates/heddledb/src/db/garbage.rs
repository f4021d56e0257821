//! Reclamation: from a deleted row back to a free block.
//!
//! ```text
//! absent record --epoch passes--> sealed and unlinked --epoch passes--> free block
//! ```
//!
//! A worker queues what its own transactions left behind (deleted records, placeholders of aborted
//! inserts, index nodes that ran empty) and works the queue off, a few steps after each attempt.
//! Entries are in the order of their epochs, so only the front is looked at.

use super::store::Stores;
use crate::arena::Arena;
use crate::epoch::EpochClock;
use crate::index::Retired;
use crate::protocol::{Protocol, Seal};
use crate::record::RecordRef;
use std::collections::VecDeque;

/// Steps after one attempt: more than one transaction of the workloads leaves behind.
const STEPS: usize = 32;

enum Remains {
    /// A record that may be absent for good; its key words are the next in `keys`.
    Absent { record: RecordRef, relation: u32, key_words: u8 },
    /// A sealed and unlinked block.
    Block { record: RecordRef, relation: u32 },
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
}

impl Garbage {
    /// Queues a record that is, or may be, absent.
    pub fn absent(&mut self, epoch: u64, relation: u32, key: &[u64], record: RecordRef) {
        self.keys.extend(key);
        self.queue.push_back((epoch, Remains::Absent { record, relation, key_words: key.len() as u8 }));
    }

    /// Entries waiting.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Works off the front of the queue. The caller is pinned in an epoch.
    #[inline]
    pub fn collect<P: Protocol>(&mut self, clock: &EpochClock, stores: &Stores<P>, arena: &mut Arena) {
        if !self.queue.is_empty() {
            self.work(clock, stores, arena);
        }
    }

    fn work<P: Protocol>(&mut self, clock: &EpochClock, stores: &Stores<P>, arena: &mut Arena) {
        for _ in 0..STEPS {
            match self.queue.front() {
                // One epoch more than reachability needs: TicToc unlinks only what is three old.
                Some((epoch, _)) if clock.passed(epoch + 1) => {}
                _ => return,
            }
            let (_, remains) = self.queue.pop_front().expect("the front was just seen");
            let now = clock.now();
            match remains {
                Remains::Block { record, relation } => arena.release(relation as usize, record),
                Remains::Node { node, relation } => stores.reclaim(relation as usize).recycle(node),
                Remains::Absent { record, relation, key_words } => {
                    self.key.clear();
                    self.key.extend(self.keys.drain(..key_words as usize));
                    let store = stores.reclaim(relation as usize);
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
