//! Replay: what the log says is put into the rows.
//!
//! **Mechanism.** The threads take turns in reading: frame `n` is read, checked and sorted by thread `n mod
//! T`, which hands it to all. Each thread then makes the changes to its own keys, in the order of the frames.
//! A thread may be some frames ahead of another.
//!
//! ```text
//!   thread 0:  read f0 | f0, f1: my keys | read f2 | f2, f3: my keys | ...
//!                   \   /                    \   /
//!   thread 1:  read f1 | f0, f1: my keys | read f3 | f2, f3: my keys | ...
//! ```
//!
//! An entry says what column groups hold after it, and carries its commit's time; the latest time wins. So
//! the order of replay does not matter, and replaying twice changes nothing (PITFALLS X7).

use super::shares::{BATCH, OTHER_SHAPE, Progress, Relations, Share, UNKNOWN};
use super::store::Restore;
use crate::access::Groups;
use crate::error::Result;
use crate::log::{Entries, Frames, Generation, LogError, Malformed, Survey, Write};
use crate::mutant::{Mutant, planted};
use crate::record::RecordRef;
use crate::storage::Storage;
use crate::sync::in_parallel;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// What is to be replayed.
pub(super) struct Replay<'a> {
    pub storage: &'a dyn Storage,
    pub directory: u64,
    pub generations: &'a [Generation],
    pub surveys: &'a [Survey],
    pub relations: &'a Relations<'a>,
    /// The last epoch that counts.
    pub durable: u64,
    /// What the checkpoint holds already.
    pub checkpoint_epoch: u64,
    /// The first epoch of the new life.
    pub epoch: u64,
    pub read: &'a Progress,
}

/// Frames that a thread may be ahead of another, for each thread.
const AHEAD: usize = 2;

/// A frame, sorted.
#[derive(Default)]
struct Sorted {
    words: Vec<u64>,
    /// The writes that count, in the log's order: by thread, and for each thread by relation.
    due: Vec<Vec<Due>>,
    transactions: u64,
    writes: u64,
}

/// A write of a frame, whose shape is that of its relation.
struct Due {
    /// Where it begins in the payload.
    at: u32,
    time: u64,
}

/// A thread's channels: to hand frames to the others, and to get theirs; none for itself.
type Ends = Vec<Option<(SyncSender<Arc<Sorted>>, Receiver<Arc<Sorted>>)>>;

impl Replay<'_> {
    /// Replays the log, on a thread for each share.
    ///
    /// # Errors
    /// [`LogError`]; the rows are invalid then.
    pub fn run(&self, shares: &mut [Share]) -> Result<()> {
        let ends = ends(shares.len());
        let thread = |number, (share, ends): (&mut Share, Ends)| self.thread(number, share, &ends);
        in_parallel(shares.iter_mut().zip(ends), thread)?;
        Ok(())
    }

    fn thread(&self, number: usize, share: &mut Share, ends: &Ends) -> Result<(), LogError> {
        let mut walk = Walk::new(self);
        let mut pool = Vec::new();
        loop {
            // A frame for each thread, as long as there are any.
            let (mut frames, mut own) = (0, None);
            for turn in 0..ends.len() {
                let there = if turn == number {
                    own = walk.read(ends.len(), &mut pool)?;
                    own.is_some()
                } else {
                    walk.skip()?
                };
                frames += usize::from(there);
            }
            if let Some(own) = &own {
                for (sender, _) in ends.iter().flatten() {
                    if sender.send(Arc::clone(own)).is_err() {
                        // That thread has failed, and returns the error itself.
                        return Ok(());
                    }
                }
                share.transactions += own.transactions;
                share.writes += own.writes;
            }
            for end in &ends[..frames] {
                match end {
                    None => own.iter().for_each(|own| self.apply(number, own, share)),
                    Some((_, receiver)) => match receiver.recv() {
                        Ok(sorted) => self.apply(number, &sorted, share),
                        Err(_) => return Ok(()),
                    },
                }
            }
            if frames < ends.len() {
                return Ok(());
            }
        }
    }

    /// Finds the writes of a frame that count, up to epoch `last`.
    fn sort(&self, sorted: &mut Sorted, threads: usize, last: u64) -> Result<(), Malformed> {
        let Sorted { words, due, transactions, writes: count } = sorted;
        let relations = self.relations.count();
        due.resize_with(threads * relations, Vec::new);
        due.iter_mut().for_each(Vec::clear);
        (*transactions, *count) = (0, 0);
        for entry in Entries::new(words) {
            let entry = entry?;
            if entry.epoch() <= self.checkpoint_epoch || entry.epoch() > last {
                continue;
            }
            *transactions += 1;
            *count += entry.len() as u64;
            let mut writes = entry.writes();
            loop {
                let at = writes.at();
                let Some(write) = writes.next() else { break };
                if !self.check(&write).map_err(|what| Malformed { at, what })? {
                    continue;
                }
                let thread = part_of(write.relation, write.key) as usize % threads;
                let (at, time) = (at as u32, entry.time());
                due[thread * relations + usize::from(write.relation)].push(Due { at, time });
            }
        }
        Ok(())
    }

    /// Compares a write with its relation's shape. False for one that does not count.
    fn check(&self, write: &Write<'_>) -> Result<bool, &'static str> {
        let Some(store) = self.relations.store(write.relation) else {
            return if self.relations.passes_over(write.relation) { Ok(false) } else { Err(UNKNOWN) };
        };
        let layout = store.layout();
        let groups = write.groups & layout.all_groups();
        let words: usize = match write.present {
            true => Groups(groups).map(|group| layout.groups[group].span.len()).sum(),
            false => 0,
        };
        let due = (groups, store.relation().key_words, words);
        if (write.groups, write.key.len(), write.data.len()) == due { Ok(true) } else { Err(OTHER_SHAPE) }
    }

    /// Makes the changes of a frame to one thread's keys.
    fn apply(&self, number: usize, sorted: &Sorted, share: &mut Share) {
        let Share { arena, garbage, .. } = share;
        let relations = self.relations.count();
        let mut changes = Vec::with_capacity(BATCH);
        let due = &sorted.due[number * relations..][..relations];
        for (relation, due) in due.iter().enumerate() {
            let Some(store) = self.relations.store(relation as u16) else { continue };
            let mut absent = |key: &[u64], record: RecordRef| {
                garbage.absent(self.epoch, store.number() as u32, key, record, store.head(&record));
            };
            for due in due.chunks(BATCH) {
                let change = |due: &Due| {
                    let write = Write::at(&sorted.words, due.at as usize)?;
                    // The new life begins above all that was logged (X13); a planted bug may begin it too
                    // low.
                    debug_assert!(cfg!(feature = "mutants") || crate::stamp::epoch(due.time) < self.epoch);
                    Some(Restore { write, time: due.time })
                };
                changes.extend(due.iter().filter_map(change));
                store.restore(&changes, arena, &mut absent);
                changes.clear();
            }
        }
    }
}

/// A walk over all frames that count.
struct Walk<'a> {
    replay: &'a Replay<'a>,
    /// The place of the file: its generation and its number there.
    generation: usize,
    file: u8,
    frames: Option<Frames>,
}

impl<'a> Walk<'a> {
    fn new(replay: &'a Replay<'a>) -> Self {
        Self { replay, generation: 0, file: 0, frames: None }
    }

    /// Opens the file that is next, if none is open. False at the end.
    fn open(&mut self) -> Result<bool, LogError> {
        let Replay { storage, directory, generations, surveys, .. } = *self.replay;
        while self.frames.is_none() {
            let Some(generation) = generations.get(self.generation) else { return Ok(false) };
            let survey = &surveys[self.generation];
            if self.file == generation.files {
                (self.generation, self.file) = (self.generation + 1, 0);
            } else if survey.files[usize::from(self.file)].frames == 0 {
                self.file += 1;
            } else {
                self.frames = Some(Frames::of_log(storage, directory, generation, survey, self.file)?);
            }
        }
        Ok(true)
    }

    fn close(&mut self) {
        self.frames = None;
        self.file += 1;
    }

    /// Passes over a frame. False at the end.
    fn skip(&mut self) -> Result<bool, LogError> {
        while self.open()? {
            if let Some(frames) = &mut self.frames
                && frames.skip_frame()?
            {
                return Ok(true);
            }
            self.close();
        }
        Ok(false)
    }

    /// Reads and sorts a frame, into an unused one of the pool.
    fn read(&mut self, threads: usize, pool: &mut Vec<Arc<Sorted>>) -> Result<Option<Arc<Sorted>>, LogError> {
        let free = pool.iter_mut().position(|sorted| Arc::get_mut(sorted).is_some());
        let mut sorted = free.map(|free| pool.swap_remove(free)).unwrap_or_default();
        let replay = self.replay;
        while self.open()? {
            let (Some(frames), Some(into)) = (&mut self.frames, Arc::get_mut(&mut sorted)) else { break };
            if let Some(header) = frames.next_frame(&mut into.words)? {
                replay.read.add(header.bytes());
                let end = replay.generations[self.generation].end.map_or(u64::MAX, |end| end.epoch);
                let last = match planted(Mutant::RecoveryOpenEpochsReplayed) {
                    false => replay.durable.min(end),
                    true => u64::MAX,
                };
                replay.sort(into, threads, last).map_err(|malformed| frames.malformed(malformed))?;
                pool.push(Arc::clone(&sorted));
                return Ok(Some(sorted));
            }
            self.close();
        }
        Ok(None)
    }
}

/// The ends of channels between all threads.
fn ends(threads: usize) -> Vec<Ends> {
    let mut ends: Vec<Vec<(Option<_>, Option<_>)>> =
        (0..threads).map(|_| (0..threads).map(|_| (None, None)).collect()).collect();
    let pairs = (0..threads).flat_map(|from| (0..threads).map(move |to| (from, to)));
    for (from, to) in pairs.filter(|(from, to)| from != to) {
        let (sender, receiver) = sync_channel(AHEAD);
        (ends[from][to].0, ends[to][from].1) = (Some(sender), Some(receiver));
    }
    let both = |(sender, receiver): (Option<_>, Option<_>)| sender.zip(receiver);
    ends.into_iter().map(|ends| ends.into_iter().map(both).collect()).collect()
}

/// Which thread a key belongs to, before the remainder. Neighbours belong together, so that a leaf of an
/// index has mostly one thread that changes it.
fn part_of(relation: u16, key: &[u64]) -> u64 {
    const NEIGHBOURS: u32 = 6;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let (last, leading) = key.split_last().map_or((0, key), |(last, leading)| (*last, leading));
    let hash = leading.iter().fold(u64::from(relation), |hash, word| mix(hash, *word));
    mix(hash, last >> NEIGHBOURS) >> 16
}
