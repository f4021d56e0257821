//! Opening a directory: its files become the database.
//!
//! **Mechanism.** The manifest says which checkpoint and which generations of the log count. The
//! generations are surveyed first: how far each is whole, and so which epoch `D` is the last durable one.
//! Then the checkpoint's rows are loaded, each thread taking parts of its own, and the log's entries are
//! replayed ([`Replay`]). Commits of epochs above `D` are dropped, whole.
//!
//! Nothing is written until all is read, and where there are calls, until all of them were made again: see [`Beginning`]. The
//! epoch starts above every epoch named in any file, a torn tail included (X13).

use super::beginning::Beginning;
use super::build::{Telling, build};
use super::declared;
use super::garbage::Garbage;
use super::replay::Replay;
use super::replay_calls::LoggedCalls;
use super::shares::{BATCH, OTHER_SHAPE, Progress, Relations, Share, UNKNOWN};
use super::store::{Restore, Store};
use super::versions::Versions;
use crate::arena::Arena;
use crate::copies::fresh_manifest;
use crate::durability::{Due, Files, Relation};
use crate::error::Result;
use crate::log::{
    self, Checkpoint, End, Frames, Generation, LogError, LogKind, Malformed, Manifest, Name, RelationEntry,
    Rows, Standing, Survey, lock_storage, survey,
};
use crate::metrics::{Recovery, Tell};
use crate::mutant::{Mutant, planted};
use crate::settings::{LogOptions, Versioned};
use crate::stamp;
use crate::storage::{Guard, Storage};
use crate::sync::{AtomicU64, Ordering, in_parallel, now_ns};
use crate::values::Logged;
use std::sync::Arc;
use std::time::Duration;

/// How a directory is opened.
pub(crate) struct Opening<'a> {
    pub storage: Arc<dyn Storage>,
    pub stores: Vec<&'a Store>,
    pub options: LogOptions,
    pub threads: usize,
    pub salvage: bool,
    /// Whether nothing is to be written.
    pub read_only: bool,
    /// How many changes of the schema the program has: the directory is what it is after them.
    pub changes: u64,
    pub tell: Option<Tell>,
    /// The procedures whose calls may be logged as such.
    pub versions: Vec<Versioned>,
    /// Whether indexes are left as the files have them.
    pub as_found: bool,
}

/// An opened directory.
pub(crate) struct Opened {
    pub guard: Box<dyn Guard>,
    pub files: Files,
    /// What each relation is in the files, by its number in this process.
    pub relations: Box<[Relation]>,
    /// The procedures whose calls are logged as such.
    pub versions: Versions,
    /// What is to be made again before anybody sees the rows.
    pub calls: Option<LoggedCalls>,
    /// What is to be written when that was done.
    pub beginning: Option<Beginning>,
    /// The first epoch of the new life.
    pub epoch: u64,
    /// The memory of the rows, and the absent ones among them, by thread.
    pub memory: Vec<(Arena, Garbage)>,
    pub recovery: Recovery,
}

impl Opening<'_> {
    /// Opens the directory.
    ///
    /// # Errors
    /// [`LogError`]; nothing was changed then, apart from files that do not count.
    pub fn open(self) -> Result<Opened> {
        let begun = now_ns();
        let storage = &*self.storage;
        let guard = lock_storage(storage)?;
        let found = Manifest::read(storage)?;
        if self.read_only && found.is_none() {
            let nothing = std::io::Error::new(std::io::ErrorKind::NotFound, NO_MANIFEST);
            return Err(LogError::io(storage, "reading", &Name::Manifest.to_string())(nothing).into());
        }
        let mut manifest = found.unwrap_or_else(fresh_manifest);
        let place = || storage.place();
        let declared = declared::compare(&place, &manifest.relations, &self.stores, self.as_found)?;
        let relations = declared.relations;
        let mut recovery = Recovery::default();

        let read = Progress::new(storage, &manifest, self.tell.clone())?;
        let surveys = self.surveys(&manifest, &mut recovery, &read)?;
        let checkpoint_epoch = manifest.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.epoch);
        let closed = |(generation, survey): (&Generation, &Survey)| {
            survey.closed.min(generation.end.map_or(u64::MAX, |end| end.epoch))
        };
        let durable = manifest.generations.iter().zip(&surveys).map(closed).max().unwrap_or(0);
        let durable = durable.max(checkpoint_epoch);
        let highest = surveys.iter().map(|survey| survey.highest).max().unwrap_or(0);
        let epoch = match planted(Mutant::RecoveryEpochTooLow) {
            false => manifest.floor.max(highest.max(durable) + 1),
            true => durable + 1,
        };

        let mut shares: Vec<Share> = (0..self.threads.max(1)).map(|_| Share::default()).collect();
        if let Some(checkpoint) = &manifest.checkpoint {
            self.load(&manifest, checkpoint, &relations, &mut shares, &read)?;
        }
        // The log once: it is read a second time below.
        recovery.bytes = read.done();
        // From the first generation on that may have calls, all is replayed in the order of commits.
        let of_calls = |generation: &Generation| generation.kind == LogKind::Commands;
        let first = manifest.generations.iter().position(of_calls).unwrap_or(manifest.generations.len());
        let replay = Replay {
            storage,
            directory: manifest.directory,
            generations: &manifest.generations[..first],
            surveys: &surveys[..first],
            relations: &relations,
            durable,
            checkpoint_epoch,
            epoch,
            read: &read,
        };
        recovery.handed_over = replay.run(&mut shares)?;
        for share in &shares {
            recovery.rows += share.rows;
            recovery.writes += share.writes;
            recovery.transactions += share.transactions;
        }
        // From there on is replayed when procedures are known, if anything of it counts.
        let later = || {
            surveys[first..].iter().filter(|survey| survey.rounds > 0 && survey.highest > checkpoint_epoch)
        };
        let has_calls = later().next().is_some();
        if has_calls && let Some(change) = declared.changes.first() {
            let index = change.name.clone();
            return Err(LogError::IndexBesideCalls { place: place(), index }.into());
        }
        recovery.indexes = declared.changes;
        if !declared.builds.is_empty() {
            let telling = Telling::new(self.tell.clone(), read.done(), &declared.builds);
            let (builds, place) = (&declared.builds, place());
            let built = build(builds, &place, epoch, checkpoint_epoch, &mut shares, &telling)?;
            for (build, entries) in builds.iter().zip(built) {
                let name = build.index.layout().name;
                let mut changes = recovery.indexes.iter_mut();
                changes.find(|change| change.name == name).expect("what is built is told").entries = entries;
            }
        }
        recovery.durable_epoch = durable;
        let bytes = surveys.iter().flat_map(|survey| &survey.files).map(|file| file.bytes).sum();
        let rounds = surveys.iter().map(|survey| survey.rounds).sum();
        // Of calls, and of what is behind them, nothing is known yet but the length.
        let unread: u64 = later().flat_map(|survey| &survey.files).map(|file| file.bytes / 8).sum();
        let due = Due { bytes, rounds, writes: recovery.writes + unread };

        let versions = Versions::new(&self.versions, &mut manifest.procedures);
        let calls = has_calls.then(|| LoggedCalls {
            storage: Arc::clone(&self.storage),
            directory: manifest.directory,
            generations: manifest.generations[first..]
                .iter()
                .copied()
                .zip(surveys[first..].to_vec())
                .collect(),
            durable,
            checkpoint_epoch,
            relations: relations.definitions(),
            passed_over: relations.passed_over.clone(),
            procedures: manifest.procedures.clone(),
            threads: self.threads,
            read,
        });
        // Who takes a directory as it is judges for himself what is left.
        if let Some(calls) = calls.as_ref().filter(|_| !self.as_found) {
            calls.check(&versions)?;
        }
        let time = surveys.iter().map(|survey| survey.time).max().unwrap_or(0);
        let time = time.max(manifest.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.time));
        let old = std::mem::take(&mut manifest.generations);
        manifest.generations = ended(&old, &surveys, durable);
        manifest.relations = relations.entries;
        manifest.floor = epoch;
        manifest.changes = manifest.changes.max(self.changes);
        if !self.read_only {
            // It goes its own way from here on.
            manifest.origin = None;
            if self.options.files == 0 || !recovery.indexes.is_empty() || !recovery.lost.is_empty() {
                manifest.break_log();
            }
        }
        let found = old.into_iter().zip(surveys).collect();
        let beginning = (!self.read_only).then(|| Beginning { found, manifest: manifest.clone() });
        // Whether the calls can be made again is not known yet.
        let (now, later) = if calls.is_some() { (None, beginning) } else { (beginning, None) };
        let (manifest, files) = match now {
            Some(beginning) => beginning.write(&self.storage, &self.options)?,
            None => (manifest, Vec::new()),
        };
        recovery.elapsed = Duration::from_nanos(now_ns() - begun);
        Ok(Opened {
            guard,
            relations: in_files(&self.stores, &manifest),
            versions,
            calls,
            beginning: later,
            files: Files::new(Arc::clone(&self.storage), manifest, files, self.options, due, time),
            epoch,
            memory: shares.into_iter().map(|share| (share.arena, share.garbage)).collect(),
            recovery,
        })
    }

    /// Surveys the generations; where damage is salvaged, the later ones are dropped too.
    fn surveys(&self, manifest: &Manifest, recovery: &mut Recovery, read: &Progress) -> Result<Vec<Survey>> {
        let mut surveys = Vec::new();
        for generation in &manifest.generations {
            if !recovery.lost.is_empty() {
                // Its commits may depend on what was lost. How far it went matters for the next epoch.
                let highest = survey(&*self.storage, manifest.directory, generation, true, self.threads)
                    .map_or(0, |survey| survey.highest);
                let files = vec![Default::default(); usize::from(generation.files)];
                let stretches = Vec::new();
                surveys.push(Survey {
                    rounds: 0,
                    closed: 0,
                    time: 0,
                    highest,
                    files,
                    stretches,
                    torn: None,
                    lost: None,
                });
                continue;
            }
            let survey = survey(&*self.storage, manifest.directory, generation, self.salvage, self.threads)?;
            read.add(survey.files.iter().map(|file| file.bytes).sum());
            recovery.torn.extend(survey.torn.clone());
            recovery.lost.extend(survey.lost.clone());
            surveys.push(survey);
        }
        Ok(surveys)
    }

    /// Loads the rows of the checkpoint.
    fn load(
        &self,
        manifest: &Manifest,
        checkpoint: &Checkpoint,
        relations: &Relations<'_>,
        shares: &mut [Share],
        read: &Progress,
    ) -> Result<()> {
        // Below every later commit's.
        let time = stamp::floor(checkpoint.epoch + 1) - 1;
        let next = AtomicU64::new(0);
        let threads = shares.len().min(checkpoint.parts.len());
        in_parallel(&mut shares[..threads], |_, share: &mut Share| -> Result<(), LogError> {
            let mut words = Vec::new();
            loop {
                // Relaxed: a number of its own for each.
                let part = next.fetch_add(1, Ordering::Relaxed);
                if part >= checkpoint.parts.len() as u64 {
                    return Ok(());
                }
                let mut frames =
                    Frames::of_checkpoint(&*self.storage, manifest.directory, checkpoint, part as u8)?;
                while let Some(header) = frames.next_frame(&mut words)? {
                    read.add(header.bytes());
                    let malformed = |what| frames.malformed(Malformed { at: 0, what });
                    let rows = Rows::new(&words).map_err(|error| frames.malformed(error))?;
                    let Some(store) = relations.store(rows.relation) else {
                        if relations.passes_over(rows.relation) {
                            continue;
                        }
                        return Err(malformed(UNKNOWN));
                    };
                    let layout = store.layout();
                    let found = (rows.key_words, rows.data_words, rows.with_values);
                    let is_whole = |data| Logged(data).is_whole(layout.words, layout.slots.iter().copied());
                    if found != (store.relation.key_words, layout.words, !layout.slots.is_empty())
                        || !layout.slots.is_empty() && !rows.iter().all(|(_, data)| is_whole(data))
                    {
                        return Err(malformed(OTHER_SHAPE));
                    }
                    let (relation, groups) = (rows.relation, layout.all_groups());
                    let change = |(key, data)| {
                        let write = log::Write { relation, groups, present: true, key, data };
                        Restore { write, time }
                    };
                    let changes: Vec<Restore<'_>> = rows.iter().map(change).collect();
                    for batch in changes.chunks(BATCH) {
                        store.restore(batch, &mut share.arena, &mut |_, _| {});
                    }
                    share.rows += changes.len() as u64;
                }
            }
        })?;
        Ok(())
    }
}

/// What is wrong with a directory that is to be read.
const NO_MANIFEST: &str = "there is no database here, and none is made when one is opened to read";

/// The generations with what counts of them, for good.
fn ended(generations: &[Generation], surveys: &[Survey], durable: u64) -> Vec<Generation> {
    let pairs = generations.iter().zip(surveys).filter(|(_, survey)| survey.rounds > 0);
    pairs
        .map(|(generation, survey)| {
            let epoch = generation.end.map_or(durable, |end| end.epoch.min(durable));
            let end = Some(End { rounds: survey.rounds, epoch });
            let end = if planted(Mutant::RecoveryGenerationNotEnded) { generation.end } else { end };
            Generation { end, ..*generation }
        })
        .collect()
}

/// What each relation is in the files, by its number in this process.
fn in_files(stores: &[&Store], manifest: &Manifest) -> Box<[Relation]> {
    let mut relations = Vec::new();
    for store in stores {
        let is_it =
            |entry: &&RelationEntry| entry.name == store.layout().name && entry.standing != Standing::Removed;
        let entry = manifest.relations.iter().find(is_it);
        let entry = entry.expect("every declared relation is listed");
        relations.resize(relations.len().max(store.number + 1), Relation { id: u16::MAX, is_index: false });
        relations[store.number] = Relation { id: entry.id, is_index: entry.index_of().is_some() };
    }
    relations.into()
}
