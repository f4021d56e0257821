//! Replay: what the log says is put into the rows.
//!
//! **Mechanism.** The survey has cut the log into stretches of a mebibyte or a frame. The threads take turns in
//! reading them: stretch `n` is read, checked and sorted by thread `n mod T`, which hands it to all. Each thread then
//! makes the changes to its own keys, in the order of the stretches. A thread may be some stretches ahead of another.
//!
//! ```text
//!   thread 0:  read s0 | s0, s1: my keys | read s2 | s2, s3: my keys | ...
//!                   \   /                    \   /
//!   thread 1:  read s1 | s0, s1: my keys | read s3 | s2, s3: my keys | ...
//! ```
//!
//! Handing over costs a switch of threads, some microseconds. So a stretch is long whatever the rounds are: a round of
//! one small commit is replayed in a fraction of that. A log of one stretch is replayed by one thread.
//!
//! An entry says what column groups hold after it, and carries its commit's time; the latest time wins. So
//! the order of replay does not matter, and replaying twice changes nothing.

use super::shares::{BATCH, Progress, Relations, Share, UNKNOWN, check_shape};
use super::store::Restore;
use crate::error::Result;
use crate::log::{Entries, Frames, Generation, LogError, Malformed, Stretch, Survey, Write};
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

/// Stretches that a thread may be ahead of another, for each thread.
const AHEAD: usize = 2;

/// A stretch, sorted.
#[derive(Default)]
struct Sorted {
    /// The payloads of its frames.
    words: Vec<u64>,
    /// The writes that count, in the log's order: by thread, and for each thread by relation.
    due: Vec<Vec<Due>>,
    transactions: u64,
    writes: u64,
}

/// A write, whose shape is that of its relation.
struct Due {
    /// Where it begins among the words of its stretch.
    at: u32,
    time: u64,
}

/// A thread's channels: to hand frames to the others, and to get theirs; none for itself.
type Ends = Vec<Option<(SyncSender<Arc<Sorted>>, Receiver<Arc<Sorted>>)>>;

impl Replay<'_> {
    /// Replays the log, on a thread for each share or for each stretch, whichever are fewer. Returns how many
    /// stretches were handed from a thread to others.
    ///
    /// # Errors
    /// [`LogError`]; the rows are invalid then.
    pub fn run(&self, shares: &mut [Share]) -> Result<u64> {
        let stretches: Vec<Place<'_>> = (self.generations.iter().zip(self.surveys))
            .flat_map(|of| of.1.stretches.iter().map(move |stretch| Place { of, stretch }))
            .collect();
        let threads = shares.len().min(stretches.len()).max(1);
        let ends = ends(threads);
        let thread =
            |number, (share, ends): (&mut Share, Ends)| self.thread(number, share, &ends, &stretches);
        in_parallel(shares.iter_mut().zip(ends), thread)?;
        Ok(if threads > 1 { stretches.len() as u64 } else { 0 })
    }

    fn thread(
        &self,
        number: usize,
        share: &mut Share,
        ends: &Ends,
        stretches: &[Place<'_>],
    ) -> Result<(), LogError> {
        let mut reader = Reader { replay: self, frames: None, words: Vec::new(), pool: Vec::new() };
        // A stretch for each thread, as long as there are any.
        for turn in stretches.chunks(ends.len()) {
            let own = turn.get(number).map(|place| reader.read(place, ends.len())).transpose()?;
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
            for end in &ends[..turn.len()] {
                match end {
                    None => own.iter().for_each(|own| self.apply(number, own, share)),
                    Some((_, receiver)) => match receiver.recv() {
                        Ok(sorted) => self.apply(number, &sorted, share),
                        Err(_) => return Ok(()),
                    },
                }
            }
        }
        Ok(())
    }

    /// Finds the writes that count, up to epoch `last`, of a frame whose payload is the words from `from` on.
    fn sort(&self, sorted: &mut Sorted, from: usize, threads: usize, last: u64) -> Result<(), Malformed> {
        let Sorted { words, due, transactions, writes: count } = sorted;
        let relations = self.relations.count();
        for entry in Entries::new(&words[from..]) {
            let entry = entry?;
            if entry.command().is_some() {
                return Err(Malformed { at: from, what: "a call in a generation that is of values" });
            }
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
                let thread =
                    if threads == 1 { 0 } else { part_of(write.relation, write.key) as usize % threads };
                let (at, time) = ((from + at) as u32, entry.time());
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
        check_shape(store.relation, write).map(|()| true)
    }

    /// Makes the changes of a stretch to one thread's keys.
    fn apply(&self, number: usize, sorted: &Sorted, share: &mut Share) {
        let Share { arena, garbage, .. } = share;
        let relations = self.relations.count();
        let mut changes = Vec::with_capacity(BATCH);
        let due = &sorted.due[number * relations..][..relations];
        for (relation, due) in due.iter().enumerate() {
            let Some(store) = self.relations.store(relation as u16) else { continue };
            let mut absent = |key: &[u64], record: RecordRef| {
                garbage.absent(self.epoch, store.number as u32, key, record, store.head(&record));
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

/// A stretch, with the generation that it is of.
struct Place<'a> {
    of: (&'a Generation, &'a Survey),
    stretch: &'a Stretch,
}

/// What one thread reads with.
struct Reader<'a> {
    replay: &'a Replay<'a>,
    /// The file that was read last, with its generation's number and its own.
    frames: Option<(u64, u8, Frames)>,
    words: Vec<u64>,
    pool: Vec<Arc<Sorted>>,
}

impl Reader<'_> {
    /// Reads and sorts a stretch, into an unused one of the pool.
    fn read(&mut self, place: &Place<'_>, threads: usize) -> Result<Arc<Sorted>, LogError> {
        let Self { replay, frames, words, pool } = self;
        let ((generation, survey), file) = (place.of, place.stretch.file);
        let frames = match frames {
            Some((number, of, frames)) if (*number, *of) == (generation.number, file) => frames,
            _ => {
                let opened = Frames::of_log(replay.storage, replay.directory, generation, survey, file)?;
                &mut frames.insert((generation.number, file, opened)).2
            }
        };
        frames.seek(&place.stretch.bytes);
        let free = pool.iter_mut().position(|sorted| Arc::get_mut(sorted).is_some());
        let mut sorted = free.map(|free| pool.swap_remove(free)).unwrap_or_default();
        let into = Arc::get_mut(&mut sorted).expect("nobody else has it");
        into.words.clear();
        into.due.resize_with(threads * replay.relations.count(), Vec::new);
        into.due.iter_mut().for_each(Vec::clear);
        (into.transactions, into.writes) = (0, 0);
        let end = generation.end.map_or(u64::MAX, |end| end.epoch);
        let last = match planted(Mutant::RecoveryOpenEpochsReplayed) {
            false => replay.durable.min(end),
            true => u64::MAX,
        };
        while frames.next_frame(words)?.is_some() {
            let from = into.words.len();
            // A frame alone in its stretch is as long as one may be; it is not copied.
            match from {
                0 => std::mem::swap(&mut into.words, words),
                _ => into.words.append(words),
            }
            replay.sort(into, from, threads, last).map_err(|malformed| frames.malformed(malformed))?;
        }
        // Once for all: threads share the sum.
        replay.read.add(place.stretch.bytes.end - place.stretch.bytes.start);
        pool.push(Arc::clone(&sorted));
        Ok(sorted)
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

/// Which thread a key belongs to, before the remainder. Neighbours belong together, so that a leaf of an index has
/// mostly one thread that changes it; and so few of them that the keys of a small table have all threads at work.
fn part_of(relation: u16, key: &[u64]) -> u64 {
    const NEIGHBOURS: u32 = 6;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let (last, leading) = key.split_last().map_or((0, key), |(last, leading)| (*last, leading));
    let hash = leading.iter().fold(u64::from(relation), |hash, word| mix(hash, *word));
    mix(hash, last >> NEIGHBOURS) >> 16
}
