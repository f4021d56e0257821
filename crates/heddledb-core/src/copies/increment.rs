//! A copy is continued with the log of the database that it is of.
//!
//! **Mechanism.** What of the log is durable says up to which epoch the copy will go. The commits of later epochs than the copy
//! has, up to that one, are written as a generation of the copy, whose end the manifest then says: that is the instant at which
//! the copy goes further. Until then no manifest lists the new file, and the copy is as it was; one that was left by a crash is
//! removed when the copy is continued the next time.

use super::transfer::{Carried, Carrier, Window};
use crate::error::Result;
use crate::log::{
    End, Generation, LogError, LogKind, Manifest, Moment, Origin, RelationEntry, Standing, Survey,
    lock_storage, remove_unlisted, survey_moments,
};
use crate::mutant::{Mutant, planted};
use crate::storage::Storage;
use crate::table::dynamic::is_same_or_widened;

/// The log that a copy is continued with.
pub struct Log<'a> {
    /// Its directory.
    pub storage: &'a dyn Storage,
    /// The manifest in force.
    pub manifest: &'a Manifest,
    /// The generation that is being written and how many of its rounds are durable, where there is one: what is behind these
    /// is not looked at.
    pub written: Option<(u64, u64)>,
    /// Threads to check it with.
    pub threads: usize,
}

/// How far a copy goes now.
#[derive(Clone, Copy, Debug)]
pub struct Continued {
    /// The last epoch that it holds.
    pub epoch: u64,
    /// What was added.
    pub carried: Carried,
}

/// Continues the copy with the log of a directory that no database has open to write. Both are locked meanwhile.
///
/// # Errors
/// As for [`continue_copy`]; one of them is open.
pub fn continue_closed(
    storage: &dyn Storage,
    copy: &dyn Storage,
    threads: usize,
    told: &mut dyn FnMut(Carried),
) -> Result<Continued, LogError> {
    let _locks = [lock_storage(storage)?, lock_storage(copy)?];
    let manifest = Manifest::read(storage)?.ok_or_else(|| {
        let why = "there is no database".to_owned();
        LogError::NotContinued { place: copy.place(), of: storage.place(), why }
    })?;
    continue_copy(&Log { storage, manifest: &manifest, written: None, threads }, copy, told)
}

/// Continues the copy, which is locked, with all of the log that is durable. `told` is called after each mebibyte or so.
///
/// # Errors
/// [`LogError::NotContinued`]; damage; the system's. The copy is as it was then; after an error of the system in its last steps
/// it may be as it was to be.
pub fn continue_copy(
    log: &Log<'_>,
    copy: &dyn Storage,
    told: &mut dyn FnMut(Carried),
) -> Result<Continued, LogError> {
    let refused = |why: String| LogError::NotContinued { place: copy.place(), of: log.storage.place(), why };
    let Some(mut manifest) = Manifest::read(copy)? else {
        return Err(refused("there is no copy".to_owned()));
    };
    let origin = manifest.origin.ok_or_else(|| refused(NO_COPY.to_owned()))?;
    if origin.directory != log.manifest.directory {
        return Err(refused("it is a copy of another database".to_owned()));
    }
    let generations = log.generations(&origin).map_err(|why| refused(why.to_owned()))?;
    manifest.relations = log.relations(&manifest).map_err(refused)?;
    manifest.procedures.clone_from(&log.manifest.procedures);
    manifest.changes = log.manifest.changes;
    // Where files are gone that were listed a moment ago, a checkpoint has removed them, and no file is damaged.
    let looked = |error: LogError| match Manifest::read(log.storage) {
        Ok(Some(now)) if now.log_from > origin.from => refused(LOG_IS_GONE.to_owned()),
        _ => error,
    };
    let mut surveys: Vec<Survey> = Vec::new();
    let mut time = 0;
    for generation in &generations {
        let is_last_known = generation.number == origin.through;
        let mut see = |moment: Moment| {
            if is_last_known && moment.round == origin.rounds {
                time = moment.time;
            }
        };
        let directory = log.manifest.directory;
        surveys.push(
            survey_moments(log.storage, directory, generation, false, log.threads, &mut see)
                .map_err(looked)?,
        );
    }
    let pairs = || generations.iter().zip(&surveys);
    let reached = |(generation, survey): (&Generation, &Survey)| {
        let has = survey.rounds >= origin.rounds && limit(generation) >= origin.epoch;
        generation.number == origin.through && has && (origin.time == 0 || time == origin.time)
    };
    let is_there = pairs().any(reached);
    // A generation without a round is not listed for long.
    let was_empty = origin.rounds == 0 && generations.iter().all(|found| found.number != origin.through);
    let closed = pairs().map(|(generation, survey)| survey.closed.min(limit(generation))).max().unwrap_or(0);
    let base = log.manifest.checkpoint.as_ref().map_or((0, 0), |base| (base.epoch, base.time));
    let epoch = closed.max(base.0);
    if !(is_there || was_empty) || epoch < origin.epoch {
        return Err(refused(
            "it holds commits that the database has lost since, or that were dropped from its damaged log"
                .to_owned(),
        ));
    }
    // What a continuation that was cut off has left.
    remove_unlisted(copy, [Some(&manifest), None])?;
    let before = manifest.clone();
    let last = generations.last().map_or(origin.through, |last| last.number).max(origin.through);
    let last_survey = pairs().find(|(found, _)| found.number == last).map(|(_, survey)| survey);
    manifest.origin = Some(Origin {
        directory: origin.directory,
        // An earlier one may have commits of epochs that it did not close.
        from: pairs().find(|(_, survey)| survey.highest > epoch).map_or(last, |(first, _)| first.number),
        through: last,
        rounds: last_survey.map_or(0, |survey| survey.rounds),
        time: last_survey.map_or(0, |survey| survey.time),
        epoch,
    });
    manifest.floor = manifest.floor.max(epoch + 1);
    let mut carried = Carried::default();
    if epoch > origin.epoch {
        if planted(Mutant::CopyManifestFirst) {
            let end = Some(End { rounds: 1, epoch });
            let number = manifest.next_generation;
            let generations =
                [&manifest.generations[..], &[Generation { number, files: 1, kind: LogKind::Values, end }]]
                    .concat();
            Manifest { generations, next_generation: number + 1, ..manifest.clone() }.replace(copy)?;
        }
        let window = Window { after: origin.epoch, up_to: epoch };
        let written = Carrier::create(copy, &before, window, told).and_then(|mut carrier| {
            for (generation, survey) in pairs() {
                carrier.generation(log.storage, log.manifest.directory, generation, survey)?;
            }
            carrier.finish(base.1)
        });
        let generation;
        (generation, carried) = written.map_err(looked).inspect_err(|_| {
            // Nobody lists it. What cannot be removed now, the next continuation removes.
            let _ = remove_unlisted(copy, [Some(&before), None]);
        })?;
        manifest.next_generation = generation.number + 1;
        manifest.generations.push(generation);
    }
    manifest.replace(copy)?;
    Ok(Continued { epoch, carried })
}

const NO_COPY: &str =
    "it is no copy, or one of a database that has no log, or it was opened to be written since";
const LOG_IS_GONE: &str = "a checkpoint has removed log that it lacks (`Builder::keep_log` says how much is kept), or indexes, \
                           columns or files were changed, or the database was opened without a log since";

/// The last epoch of a generation that counts, as far as the manifest says.
pub(super) fn limit(generation: &Generation) -> u64 {
    generation.end.map_or(u64::MAX, |end| end.epoch)
}

impl Log<'_> {
    /// The generations that hold what a copy lacks.
    fn generations(&self, origin: &Origin) -> Result<Vec<Generation>, &'static str> {
        if origin.from < self.manifest.log_from && !planted(Mutant::CopyLinkNotChecked) {
            return Err(LOG_IS_GONE);
        }
        let all = self.manifest.kept.iter().chain(&self.manifest.generations);
        let later = all.copied().filter(|generation| generation.number >= origin.from);
        Ok(later.map(|generation| self.so_far(generation)).collect())
    }

    /// The generation, ended behind its last durable round if it is being written.
    fn so_far(&self, generation: Generation) -> Generation {
        match self.written {
            Some((number, rounds)) if number == generation.number && generation.end.is_none() => {
                Generation { end: Some(End { rounds, epoch: u64::MAX }), ..generation }
            }
            _ => generation,
        }
    }

    /// The relations that a copy has from now on: those that it has, and new ones.
    fn relations(&self, copy: &Manifest) -> Result<Vec<RelationEntry>, String> {
        let all = &self.manifest.relations;
        for copied in &copy.relations {
            let is_it = |entry: &&RelationEntry| {
                let shape = (entry.key_words, &entry.groups, entry.standing);
                (entry.id, &entry.name) == (copied.id, &copied.name)
                    && is_same_or_widened(&copied.schema, &entry.schema)
                    && shape == (copied.key_words, &copied.groups, Standing::Whole)
            };
            if !all.iter().any(|entry| is_it(&entry)) {
                return Err(format!("{} was changed since", copied.name));
            }
        }
        match all.iter().find(|entry| entry.standing != Standing::Whole) {
            Some(entry) => {
                Err(format!("the index {} is {} in the database", entry.name, entry.standing.name()))
            }
            None => Ok(all.clone()),
        }
    }
}
