//! Goes through a directory as recovery does, without changing it and without the table types.
//!
//! Where recovery stops at the first damage, this notes it and goes on, as an opening with salvage
//! would: a generation counts up to its damage, and what comes after that is looked at all the same.

use super::told::{
    CheckpointTold, Examined, Fate, FileTold, GenerationTold, ManifestTold, Names, PartTold, Problem,
    ProcedureTold, RelationTold, RowsOf, See, Told, TornTold, WritesTo,
};
use crate::database::tables::shape;
use heddledb::LogError;
use heddledb::internals::copies::reach;
use heddledb::internals::log::{
    Checkpoint, Compression, Entries, Entry, Frame, Frames, Generation, LogKind, Malformed, Manifest, Name,
    ProcedureEntry, RelationEntry, Rounds, Rows, SegmentHeader, Survey, survey,
};
use heddledb::storage::Storage;
use heddledb::table::Logged;
use std::collections::BTreeMap;

/// Why there is nothing to examine.
pub enum Refusal {
    /// Neither a manifest nor a file that needs one.
    NoDatabase,
    /// The directory cannot be read.
    Failed(LogError),
}

/// Goes through the directory `storage`. `see` is shown every transaction, in the order of
/// the rounds.
pub fn examine(storage: &dyn Storage, in_use: bool, see: See<'_>) -> Result<Examined, Refusal> {
    let failed = |source| LogError::Io { doing: "listing the files of", file: storage.place(), source };
    let names = storage.list().map_err(|error| Refusal::Failed(failed(error)))?;
    let names: Vec<Name> = names.iter().filter_map(|name| Name::parse(name)).collect();
    let mut problems = Vec::new();
    let manifest = match Manifest::read(storage) {
        Ok(None) => return Err(Refusal::NoDatabase),
        Ok(manifest) => manifest,
        Err(error) => {
            problems.push(error.into());
            None
        }
    };
    let (directory, checkpoint, generations) = match &manifest {
        Some(manifest) => {
            let all = [&manifest.kept[..], &manifest.generations[..]].concat();
            (manifest.directory, manifest.checkpoint.clone(), all)
        }
        None => {
            let (directory, generations) = by_name(storage, &names);
            (directory, None, generations)
        }
    };
    let relations = manifest.iter().flat_map(|manifest| &manifest.relations);
    let procedures = manifest.iter().flat_map(|manifest| &manifest.procedures);
    let mut examiner = Examiner {
        storage,
        directory,
        names: Names::new(relations, procedures),
        knows_relations: manifest.is_some(),
        checkpoint_epoch: checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.epoch),
        problems,
        see,
    };
    let surveys: Vec<Option<Survey>> =
        generations.iter().map(|generation| examiner.survey(generation)).collect();
    let durable = durable(&generations, &surveys, examiner.checkpoint_epoch);
    let checkpoint = checkpoint.map(|checkpoint| examiner.checkpoint(&checkpoint));
    let pairs = generations.iter().zip(&surveys);
    let generations =
        pairs.map(|(generation, survey)| examiner.generation(generation, survey.as_ref(), durable)).collect();
    let listed = |name: &Name| manifest.as_ref().is_none_or(|manifest| manifest.lists(*name));
    let whole = examiner.problems.is_empty();
    let reach = manifest.as_ref().filter(|_| whole).and_then(|manifest| reach(storage, manifest).ok());
    let copy_of = manifest
        .as_ref()
        .and_then(|manifest| manifest.origin)
        .map(|origin| format!("{:016x}, up to its epoch {}", origin.directory, origin.epoch));
    Ok(Examined {
        place: storage.place(),
        whole,
        reach: reach.map(|reach| reach.to_string()),
        copy_of,
        in_use,
        durable_epoch: durable,
        manifest: manifest.as_ref().map(tell),
        checkpoint,
        generations,
        unlisted: names.iter().filter(|name| !listed(name)).map(Name::to_string).collect(),
        problems: examiner.problems,
    })
}

/// How many bytes an examination reads, nearly.
pub fn bytes_to_read(storage: &dyn Storage) -> u64 {
    let names = storage.list().unwrap_or_default();
    let bytes = |name: &String| match Name::parse(name) {
        // Surveyed, then read.
        Some(Name::Log { .. }) => 2 * length(storage, name),
        Some(Name::Checkpoint { .. }) => length(storage, name),
        _ => 0,
    };
    names.iter().map(bytes).sum()
}

/// The length of a file; 0 if it cannot be told.
fn length(storage: &dyn Storage, name: &str) -> u64 {
    storage.open(name).and_then(|file| file.len()).unwrap_or(0)
}

/// The directory's id and generations as the files tell them, where there is no manifest.
fn by_name(storage: &dyn Storage, names: &[Name]) -> (u64, Vec<Generation>) {
    let mut directory = 0;
    let mut generations = BTreeMap::new();
    for name in names {
        let Name::Log { generation, file } = *name else { continue };
        let files: &mut u8 = generations.entry(generation).or_default();
        *files = (*files).max(file.saturating_add(1));
        if let Ok(header) = SegmentHeader::of(storage, *name) {
            directory = header.directory;
            *files = (*files).max(header.files);
        }
    }
    let limit = heddledb::internals::log::FILES_MAX;
    let generation = |(number, files): (u64, u8)| Generation {
        number,
        files: files.clamp(1, limit),
        kind: LogKind::Commands,
        end: None,
    };
    (directory, generations.into_iter().map(generation).collect())
}

/// The last durable epoch, as an opening with salvage finds it.
fn durable(generations: &[Generation], surveys: &[Option<Survey>], checkpoint_epoch: u64) -> u64 {
    let mut durable = checkpoint_epoch;
    for (generation, survey) in generations.iter().zip(surveys) {
        let Some(survey) = survey else { break };
        durable = durable.max(survey.closed.min(limit(generation)));
        if survey.lost.is_some() {
            break;
        }
    }
    durable
}

/// The last epoch of a generation that counts, as far as the manifest says.
fn limit(generation: &Generation) -> u64 {
    generation.end.map_or(u64::MAX, |end| end.epoch)
}

fn tell(manifest: &Manifest) -> ManifestTold {
    let relation = |entry: &RelationEntry| RelationTold {
        id: entry.id,
        name: entry.name.clone(),
        key_words: entry.key_words,
        groups: entry.groups.clone(),
        schema: entry.schema.clone(),
        standing: entry.standing.name(),
    };
    let procedure = |entry: &ProcedureEntry| ProcedureTold {
        id: entry.id,
        name: entry.name.clone(),
        version: entry.version,
        fingerprint: format!("{:016x}", entry.fingerprint),
    };
    ManifestTold {
        directory: format!("{:016x}", manifest.directory),
        next_generation: manifest.next_generation,
        floor: manifest.floor,
        relations: manifest.relations.iter().map(relation).collect(),
        procedures: manifest.procedures.iter().map(procedure).collect(),
        changes: manifest.changes,
    }
}

/// What is needed all along.
struct Examiner<'a, 's> {
    storage: &'a dyn Storage,
    directory: u64,
    names: Names,
    knows_relations: bool,
    checkpoint_epoch: u64,
    problems: Vec<Problem>,
    see: See<'s>,
}

#[derive(Default)]
struct Sum {
    writes: u64,
    deletes: u64,
    bytes: u64,
}

impl Examiner<'_, '_> {
    /// Surveys a generation; what salvage would give up is a problem here.
    fn survey(&mut self, generation: &Generation) -> Option<Survey> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        match survey(self.storage, self.directory, generation, true, threads) {
            Ok(survey) => {
                if let Some(lost) = survey.lost.clone() {
                    let (file, offset, what) = (lost.file, lost.offset, lost.what);
                    self.problems.push(LogError::Damaged { file, offset, what }.into());
                }
                Some(survey)
            }
            Err(error) => {
                self.problems.push(error.into());
                None
            }
        }
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint) -> CheckpointTold {
        let mut sums: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
        let mut parts = Vec::new();
        for part in 0..checkpoint.parts.len().min(256) {
            let file = Name::Checkpoint { number: checkpoint.number, part: part as u8 }.to_string();
            let bytes = length(self.storage, &file);
            let rows_listed = checkpoint.parts[part].rows;
            let mut told = PartTold { file, bytes, rows_listed, ..PartTold::default() };
            if let Err(error) = self.part(checkpoint, part as u8, &mut told, &mut sums) {
                self.problems.push(error.into());
            }
            parts.push(told);
        }
        let relation = |(id, (rows, words)): (u16, (u64, u64))| RowsOf {
            relation: self.names.of(id),
            rows,
            bytes: 8 * words,
        };
        CheckpointTold {
            number: checkpoint.number,
            epoch: checkpoint.epoch,
            parts,
            relations: sums.into_iter().map(relation).collect(),
        }
    }

    fn part(
        &self,
        checkpoint: &Checkpoint,
        part: u8,
        told: &mut PartTold,
        sums: &mut BTreeMap<u16, (u64, u64)>,
    ) -> Result<(), LogError> {
        let mut words = Vec::new();
        let mut frames = Frames::of_checkpoint(self.storage, self.directory, checkpoint, part)?;
        while frames.next_frame(&mut words)?.is_some() {
            let malformed = |what| frames.malformed(Malformed { at: 0, what });
            let rows = Rows::new(&words).map_err(|error| frames.malformed(error))?;
            let entry = self.names.entry(rows.relation).ok_or_else(|| malformed(UNKNOWN))?;
            if (rows.key_words, rows.data_words) != (usize::from(entry.key_words), entry.row_words()) {
                return Err(malformed(OTHER_SHAPE));
            }
            let count = rows.len() as u64;
            let (all, words) = sums.entry(rows.relation).or_default();
            *all += count;
            *words += rows.iter().map(|(key, data)| (key.len() + data.len()) as u64).sum::<u64>();
            told.frames += 1;
            told.rows += count;
        }
        Ok(())
    }

    fn generation(
        &mut self,
        generation: &Generation,
        survey: Option<&Survey>,
        durable: u64,
    ) -> GenerationTold {
        let file = |file| {
            let name = Name::Log { generation: generation.number, file }.to_string();
            let counts = survey.and_then(|survey| survey.files.get(usize::from(file))).copied();
            let counts = counts.unwrap_or_default();
            FileTold {
                bytes: length(self.storage, &name),
                file: name,
                bytes_whole: counts.bytes,
                frames: counts.frames,
                ..FileTold::default()
            }
        };
        let mut told = GenerationTold {
            number: generation.number,
            kind: generation.kind.name(),
            calls: 0,
            closed_after: generation.end.map(|end| end.rounds),
            rounds: survey.map_or(0, |survey| survey.rounds),
            closed_epoch: survey.map_or(0, |survey| survey.closed),
            highest_epoch: survey.map_or(0, |survey| survey.highest),
            counts_up_to_epoch: durable.min(limit(generation)),
            files: (0..generation.files).map(file).collect(),
            transactions: 0,
            in_checkpoint: 0,
            dropped: 0,
            writes: 0,
            relations: Vec::new(),
            torn: None,
        };
        let Some(survey) = survey else { return told };
        told.torn = survey.torn.clone().map(|torn| TornTold {
            file: torn.file,
            offset: torn.offset,
            bytes: torn.bytes,
            what: torn.what,
        });
        let mut sums = BTreeMap::new();
        if let Err(error) = self.entries(generation, survey, &mut told, &mut sums) {
            self.problems.push(error.into());
        }
        let relation = |(id, sum): (u16, Sum)| WritesTo {
            relation: self.names.of(id),
            writes: sum.writes,
            deletes: sum.deletes,
            bytes: sum.bytes,
        };
        told.relations = sums.into_iter().map(relation).collect();
        told
    }

    /// Reads all entries, in the order of the rounds.
    fn entries(
        &mut self,
        generation: &Generation,
        survey: &Survey,
        told: &mut GenerationTold,
        sums: &mut BTreeMap<u16, Sum>,
    ) -> Result<(), LogError> {
        let mut rounds = Rounds::new(self.storage, self.directory, generation, survey)?;
        let mut see = |frame: Frame<'_>| {
            let round = frame.header.label.round;
            if frame.header.compression != Compression::None {
                told.files[frame.file].compressed += 1;
            }
            for entry in Entries::new(frame.words) {
                let entry = entry.map_err(|error| frame.frames.malformed(error))?;
                self.shape(&entry).map_err(|what| frame.frames.malformed(Malformed { at: 0, what }))?;
                told.files[frame.file].transactions += 1;
                let fate = if entry.epoch() > told.counts_up_to_epoch {
                    told.dropped += 1;
                    Fate::Dropped
                } else if entry.epoch() <= self.checkpoint_epoch {
                    told.in_checkpoint += 1;
                    Fate::InCheckpoint
                } else {
                    told.transactions += 1;
                    Fate::Counts
                };
                if fate == Fate::Counts {
                    told.calls += u64::from(entry.command().is_some());
                    told.writes += entry.len() as u64;
                    for write in entry.writes() {
                        let sum: &mut Sum = sums.entry(write.relation).or_default();
                        *(if write.present { &mut sum.writes } else { &mut sum.deletes }) += 1;
                        sum.bytes += 8 * (1 + write.key.len() + write.data.len()) as u64;
                    }
                }
                if let Some(see) = &mut self.see {
                    let told =
                        Told { generation: generation.number, file: frame.file as u8, round, entry, fate };
                    if !see(&self.names, &told) {
                        self.see = None;
                    }
                }
            }
            Ok(())
        };
        while rounds.next_round(&mut see)?.is_some() {}
        Ok(())
    }

    /// Compares the writes of an entry with the relations that the manifest lists.
    fn shape(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        if !self.knows_relations {
            return Ok(());
        }
        if entry.command().is_some_and(|command| self.names.procedure(command.procedure).is_none()) {
            return Err(UNKNOWN_PROCEDURE);
        }
        for write in entry.writes() {
            let relation = self.names.entry(write.relation).ok_or(UNKNOWN)?;
            let due = relation.data_words(write.groups).ok_or(OTHER_SHAPE)?;
            let due = if write.present { due } else { 0 };
            // What is longer than its groups has values behind them.
            let is_whole = write.data.len() == due
                || write.present && {
                    let slots = shape(relation).layout.logged_slots(write.groups);
                    Logged(write.data).is_whole(due, slots)
                };
            if write.key.len() != usize::from(relation.key_words) || !is_whole {
                return Err(OTHER_SHAPE);
            }
        }
        Ok(())
    }
}

const UNKNOWN_PROCEDURE: &str = "a call of a procedure that the manifest does not list";
const UNKNOWN: &str = "a relation that the manifest does not list";
const OTHER_SHAPE: &str = "a row of another shape than its relation's";
