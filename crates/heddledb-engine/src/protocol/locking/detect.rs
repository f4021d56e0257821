//! DL_DETECT: which transaction waits for which, and which one of a circle gives up.
//!
//! **Mechanism** (Yu et al., VLDB 2014, §4.1). The waits-for graph is kept in parts, one for each worker. A
//! transaction that begins to wait for a lock publishes in its own part what it wants and what it holds, and
//! then searches the others' parts for a circle through itself. Only the owner writes a part, and only
//! transactions that begin to wait look there: a transaction that meets no conflict pays nothing.
//!
//! **Holders.** The lock word counts readers and does not name them. It need not: all members of a circle
//! wait, and a waiting one holds what it held when it began to. So its list, published once, is true for as
//! long as it waits (an *episode*), and holders that do not wait are of no interest. Where the word is
//! exclusive it does name the holder, in the low bits of the timestamp; then only that one's part is looked
//! at.
//!
//! **No deadlock is missed.** Each member of a circle publishes, passes a SeqCst fence, and searches. The
//! last of them to pass the fence sees what all the others have published, and these stand still; so it finds
//! the circle. Later searches are not needed: an edge of the graph begins with an episode. (Where the holder
//! that is waited for changes, the new holder's episode, if it has one, is later still.)
//!
//! **None is invented.** Each episode has a number. A circle that was found is looked over once more: if
//! every member is still in the episode in which it was met, there was a moment at which all of them waited.
//! In such a circle none can have got its lock: the holder held that lock during all of its own episode.
//!
//! **The victim** is the youngest of the circle, by the timestamp of its first attempt, whichever member
//! finds it. So of one circle exactly one aborts, although several may have found it, and the oldest
//! transaction of all never does: none starves. The finder marks the victim's episode, unless it has ended;
//! the victim, which waits for its lock *or* the mark, aborts, or gets its lock after all if another's abort
//! was faster. A marked transaction counts as gone, and the finder searches again until it is in no more
//! circles. Where two circles share members, each loses its youngest, though one abort might have done for
//! both.
//!
//! ```text
//!   episode   63 ........ 2   1 0
//!             number          0 runs, 1 waits, 2 waits and is the victim
//!
//!   runs(n) --begin--> waits(n + 1) --mark, by anybody--> victim(n + 1)
//!     ^                     |                                  |
//!     '------- end ---------'-------------- end ---------------'
//! ```

use super::words::{EXCLUSIVE, Held, TIMESTAMP, lock_word, worker_of};
use crate::mutant::{Mutant, planted};
use crate::protocol::Shared;
use crate::record::RecordRef;
use crate::sync::{AtomicU64, Mutex, Ordering, Work, fence, lock, point, work};
use crossbeam_utils::CachePadded;

/// A lock that a transaction waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub record: RecordRef,
    pub group: usize,
    pub exclusive: bool,
}

impl Wanted {
    /// Whether a holder of these locks is in the way. (The waiting transaction itself is never asked.)
    fn is_blocked_by(&self, held: &[Held]) -> bool {
        work(Work::Checks(held.len()));
        let bit = 1 << self.group;
        let blocks = |held: &Held| {
            let shared = self.exclusive && held.shared & bit != 0 && !planted(Mutant::DetectReadersIgnored);
            held.record == self.record && (held.exclusive & bit != 0 || shared)
        };
        held.iter().any(blocks)
    }
}

/// What one worker waits for and holds, in its present episode.
#[derive(Debug, Default)]
struct Edges {
    wanted: Option<Wanted>,
    timestamp: u64,
    held: Vec<Held>,
}

/// A worker's part of the graph.
#[derive(Debug)]
struct Part {
    /// Begun and ended by its worker, marked by any.
    episode: AtomicU64,
    /// Written by its worker, before the episode begins; read by those that search. The mutex is held to copy
    /// the list or look through it, without any other lock or wait.
    edges: Mutex<Edges>,
}

/// Of an episode: it waits.
const WAITS: u64 = 1;
/// It is to abort.
const VICTIM: u64 = 2;
const STATE: u64 = 3;
/// From one episode to the next.
const NEXT: u64 = 4;

/// The waits-for graph.
#[derive(Debug)]
pub struct Waits(Box<[CachePadded<Part>]>);

impl Shared for Waits {
    fn new(sessions: usize) -> Self {
        let part =
            || CachePadded::new(Part { episode: AtomicU64::new(0), edges: Mutex::new(Edges::default()) });
        Self((0..sessions).map(|_| part()).collect())
    }
}

impl Waits {
    /// A worker begins to wait.
    pub(super) fn begin(&self, worker: usize, timestamp: u64, wanted: Wanted, held: &[Held]) {
        let part = &self.0[worker];
        {
            let mut edges = lock(&part.edges);
            (edges.wanted, edges.timestamp) = (Some(wanted), timestamp);
            edges.held.clear();
            let first = usize::from(planted(Mutant::DetectFirstLockUnpublished));
            edges.held.extend_from_slice(&held[first..]);
        }
        // Relaxed: written by this worker alone while it runs.
        let runs = part.episode.load(Ordering::Relaxed) & !STATE;
        // Release: a searcher that sees the episode finds these edges, or later ones.
        part.episode.store(runs + NEXT + WAITS, Ordering::Release);
        // SeqCst: of a circle's members the last to pass sees the edges and locks of all.
        fence(Ordering::SeqCst);
        point("waits");
    }

    /// Whether the worker was made a victim.
    #[inline]
    pub(super) fn is_victim(&self, worker: usize) -> bool {
        // Relaxed: nothing else is read because of it.
        self.0[worker].episode.load(Ordering::Relaxed) & STATE == VICTIM
    }

    /// A worker waits no more. True if it was made a victim.
    pub(super) fn end(&self, worker: usize) -> bool {
        let episode = &self.0[worker].episode;
        // Relaxed, and no exchange: a mark that comes in between is lost with the episode that it was for.
        let now = episode.load(Ordering::Relaxed);
        // Release: pairs with the second look at a circle. A searcher that has met an episode that began
        // because this one ended (by a lock that was taken or let go in between) sees there that it has
        // ended.
        episode.store(now & !STATE, Ordering::Release);
        now & STATE == VICTIM
    }

    /// Breaks all circles through `worker`, which has begun to wait.
    pub(super) fn search(&self, worker: usize, search: &mut Search) {
        if planted(Mutant::DetectNothingSought) {
            return;
        }
        while search.walk(&self.0, worker) {}
    }
}

/// A waiting transaction, met in a search.
struct Met {
    worker: usize,
    episode: u64,
    timestamp: u64,
    /// The one that waits for it: a number in the search's list.
    by: usize,
}

/// The memory of a search, reused.
#[derive(Default)]
pub(super) struct Search {
    met: Vec<Met>,
    is_met: Vec<bool>,
}

impl Search {
    /// Walks along the waits, breadth first. True if a circle was met, so that it has to be walked again.
    fn walk(&mut self, parts: &[CachePadded<Part>], from: usize) -> bool {
        let Self { met, is_met } = self;
        met.clear();
        is_met.clear();
        is_met.resize(parts.len(), false);
        // Acquire here and below: pairs with the release of `begin`.
        let episode = parts[from].episode.load(Ordering::Acquire);
        if episode & STATE == VICTIM {
            return false;
        }
        met.push(Met { worker: from, episode, timestamp: 0, by: 0 });
        let mut at = 0;
        while at < met.len() {
            let (wanted, timestamp) = {
                let edges = lock(&parts[met[at].worker].edges);
                (edges.wanted, edges.timestamp)
            };
            met[at].timestamp = timestamp;
            let Some(wanted) = wanted else { break };
            // Relaxed: after the fence of `begin`, and only a hint of where to look.
            let word = lock_word!(wanted.record, wanted.group).load(Ordering::Relaxed);
            let holders = match word & EXCLUSIVE {
                0 => 0..parts.len(),
                _ => worker_of(word & TIMESTAMP)..(worker_of(word & TIMESTAMP) + 1).min(parts.len()),
            };
            for holder in holders {
                if holder == met[at].worker || (is_met[holder] && holder != from) {
                    continue;
                }
                let episode = parts[holder].episode.load(Ordering::Acquire);
                if episode & STATE != WAITS || !wanted.is_blocked_by(&lock(&parts[holder].edges).held) {
                    continue;
                }
                if holder == from {
                    Self::give_up_youngest(parts, met, at);
                    return true;
                }
                is_met[holder] = true;
                met.push(Met { worker: holder, episode, timestamp: 0, by: at });
            }
            at += 1;
        }
        false
    }

    /// Marks the youngest of the circle that leads from the first to number `last`, and back; unless one of
    /// them waits no more.
    fn give_up_youngest(parts: &[CachePadded<Part>], met: &[Met], last: usize) {
        let mut at = last;
        let mut youngest = &met[last];
        loop {
            // Acquire: the second look comes after all first ones, by what these have seen.
            if parts[met[at].worker].episode.load(Ordering::Acquire) != met[at].episode {
                return;
            }
            if met[at].timestamp > youngest.timestamp {
                youngest = &met[at];
            }
            if at == 0 {
                break;
            }
            at = met[at].by;
        }
        let (old, new) = (youngest.episode, youngest.episode - WAITS + VICTIM);
        // Relaxed: nothing else is published. If it fails, the episode has ended or another has marked it.
        let episode = &parts[youngest.worker].episode;
        let _ = episode.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::super::words::READER;
    use super::*;
    use crate::arena::Arena;

    /// Workers, each with one record that it holds: exclusively if it is `exclusive`.
    struct Circle {
        waits: Waits,
        records: Vec<RecordRef>,
        exclusive: bool,
        search: Search,
        _arena: Arena,
    }

    impl Circle {
        fn new(workers: usize, exclusive: bool) -> Self {
            let mut arena = Arena::default();
            let records: Vec<RecordRef> = (0..workers).map(|_| arena.allocate(0, 4)).collect();
            for (worker, record) in records.iter().enumerate() {
                let word = if exclusive { EXCLUSIVE | worker as u64 } else { 2 * READER };
                lock_word!(record, 0).store(word, Ordering::Relaxed);
            }
            let waits = Waits::new(workers);
            Self { waits, records, exclusive, search: Search::default(), _arena: arena }
        }

        /// A worker begins to wait for another's record, at an age, and searches.
        fn wait(&mut self, worker: usize, on: usize, age: u64) {
            let held = |number: usize, exclusive: bool| Held {
                record: self.records[number],
                shared: u32::from(!exclusive),
                exclusive: u32::from(exclusive),
            };
            let wanted = Wanted { record: self.records[on], group: 0, exclusive: true };
            self.waits.begin(worker, age, wanted, &[held(worker, self.exclusive)]);
            self.waits.search(worker, &mut self.search);
        }

        fn victims(&self) -> Vec<usize> {
            (0..self.records.len()).filter(|worker| self.waits.is_victim(*worker)).collect()
        }
    }

    #[test]
    fn the_youngest_of_a_circle_is_marked_whoever_closes_it() {
        for exclusive in [false, true] {
            for last in 0..3 {
                let mut circle = Circle::new(4, exclusive);
                let begin = |at: usize| ((last + 1 + at) % 3, (last + 2 + at) % 3);
                for (worker, on) in (0..2).map(begin) {
                    circle.wait(worker, on, [7, 9, 8][worker]);
                    assert!(circle.victims().is_empty());
                }
                // A chain that leads into the circle is no part of it.
                circle.wait(3, 0, 99);
                let (worker, on) = begin(2);
                circle.wait(worker, on, [7, 9, 8][worker]);
                assert_eq!(circle.victims(), [1]);
                assert!(circle.waits.end(1) && !circle.waits.end(0));
            }
        }
    }

    #[test]
    fn who_is_marked_counts_as_gone_and_an_episode_that_ended_as_none() {
        let mut circle = Circle::new(2, false);
        circle.wait(0, 1, 1);
        circle.wait(1, 0, 2);
        assert_eq!(circle.victims(), [1]);
        circle.waits.search(0, &mut circle.search);
        assert_eq!(circle.victims(), [1], "the circle is as good as open");
        assert!(circle.waits.end(1));
        circle.waits.search(0, &mut circle.search);
        assert!(circle.victims().is_empty());
        // Two that share a lock and want it exclusively: an upgrade.
        let mut circle = Circle::new(2, false);
        let record = circle.records[0];
        for worker in 0..2 {
            let held = [Held { record, shared: 1, exclusive: 0 }];
            let wanted = Wanted { record, group: 0, exclusive: true };
            circle.waits.begin(worker, worker as u64, wanted, &held);
            circle.waits.search(worker, &mut circle.search);
        }
        assert_eq!(circle.victims(), [1]);
    }
}
