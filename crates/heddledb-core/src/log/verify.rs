//! Every frame of the files that a manifest lists, checked as recovery does, and what is wrong.

use super::entry::{Entries, GROUPS_MAX};
use super::frames::Frames;
use super::manifest::{Checkpoint, Generation, Manifest, RelationEntry, Standing};
use super::segment::Name;
use super::survey::{Survey, survey};
use super::{LogError, Malformed, Rows, Write};
use crate::storage::Storage;

/// What was found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileCheck {
    /// Its name.
    pub file: String,
    /// Frames that are right.
    pub frames: u64,
    /// Rows of a checkpoint, or transactions of a log, in them.
    pub items: u64,
    /// What is wrong, and where.
    pub problem: Option<String>,
}

/// Whether what follows the words of these column groups of a relation, in all that a row has in a file, are the values
/// that they say.
pub type HasItsValues<'a> = dyn Fn(&RelationEntry, u32, &[u64]) -> bool + 'a;

/// Checks the checkpoint and the generations, kept ones too, that `manifest` lists: each frame, row and entry. Reads a log twice.
///
/// `written` is the generation that is being written and how many of its rounds are durable, where there is one: what is
/// behind these is not looked at.
pub fn verify(
    storage: &dyn Storage,
    manifest: &Manifest,
    written: Option<(u64, u64)>,
    threads: usize,
    has_its_values: &HasItsValues<'_>,
) -> Vec<FileCheck> {
    let verifier = Verifier { storage, manifest, has_its_values };
    let mut files = Vec::new();
    if let Some(checkpoint) = &manifest.checkpoint {
        files.extend((0..checkpoint.parts.len().min(256)).map(|part| verifier.part(checkpoint, part as u8)));
    }
    for generation in manifest.kept.iter().chain(&manifest.generations) {
        let mut generation = *generation;
        if let Some((number, rounds)) = written
            && number == generation.number
            && generation.end.is_none()
        {
            generation.end = Some(super::End { rounds, epoch: u64::MAX });
        }
        match survey(storage, manifest.directory, &generation, false, threads) {
            Ok(found) => {
                files.extend((0..generation.files).map(|file| verifier.file(&generation, &found, file)));
            }
            Err(error) => files.push(FileCheck {
                file: about(&error, &Name::Log { generation: generation.number, file: 0 }),
                frames: 0,
                items: 0,
                problem: Some(error.to_string()),
            }),
        }
    }
    files
}

/// The name of the file that an error is about.
fn about(error: &LogError, otherwise: &Name) -> String {
    match error {
        LogError::Damaged { file, .. } | LogError::Io { file, .. } | LogError::Compression { file, .. } => {
            file.rsplit('/').next().unwrap_or(file).to_owned()
        }
        _ => otherwise.to_string(),
    }
}

struct Verifier<'a> {
    storage: &'a dyn Storage,
    manifest: &'a Manifest,
    has_its_values: &'a HasItsValues<'a>,
}

impl Verifier<'_> {
    fn part(&self, checkpoint: &Checkpoint, part: u8) -> FileCheck {
        let name = Name::Checkpoint { number: checkpoint.number, part };
        let mut check = FileCheck { file: name.to_string(), frames: 0, items: 0, problem: None };
        let outcome = self.rows(checkpoint, part, &mut check);
        check.problem = outcome.err().map(|error| error.to_string());
        check
    }

    fn rows(&self, checkpoint: &Checkpoint, part: u8, check: &mut FileCheck) -> Result<(), LogError> {
        let mut frames = Frames::of_checkpoint(self.storage, self.manifest.directory, checkpoint, part)?;
        let mut words = Vec::new();
        while frames.next_frame(&mut words)?.is_some() {
            let rows = Rows::new(&words).map_err(|error| frames.malformed(error))?;
            let shape = match self.relation(rows.relation) {
                None => Err(UNKNOWN),
                Some(entry) => {
                    let due = (usize::from(entry.key_words), entry.row_words());
                    let all_groups = (1 << entry.groups.len().min(GROUPS_MAX)) - 1;
                    let is_whole =
                        |data: &[u64]| data.len() == due.1 || (self.has_its_values)(entry, all_groups, data);
                    let is_alike = due == (rows.key_words, rows.data_words);
                    match is_alike && rows.iter().all(|(_, data)| is_whole(data)) {
                        true => Ok(()),
                        false => Err(OTHER_SHAPE),
                    }
                }
            };
            shape.map_err(|what| frames.malformed(Malformed { at: 0, what }))?;
            check.frames += 1;
            check.items += rows.len() as u64;
        }
        Ok(())
    }

    fn file(&self, generation: &Generation, survey: &Survey, file: u8) -> FileCheck {
        let name = Name::Log { generation: generation.number, file };
        let mut check = FileCheck { file: name.to_string(), frames: 0, items: 0, problem: None };
        let outcome = self.entries(generation, survey, file, &mut check);
        check.problem = outcome.err().map(|error| error.to_string());
        check
    }

    fn entries(
        &self,
        generation: &Generation,
        survey: &Survey,
        file: u8,
        check: &mut FileCheck,
    ) -> Result<(), LogError> {
        if survey.files[usize::from(file)].frames == 0 {
            return Ok(());
        }
        let mut frames = Frames::of_log(self.storage, self.manifest.directory, generation, survey, file)?;
        let mut words = Vec::new();
        while frames.next_frame(&mut words)?.is_some() {
            for entry in Entries::new(&words) {
                let entry = entry.map_err(|error| frames.malformed(error))?;
                if let Some(command) = entry.command()
                    && !self.manifest.procedures.iter().any(|known| known.id == command.procedure)
                {
                    return Err(frames.malformed(Malformed { at: 0, what: UNKNOWN_PROCEDURE }));
                }
                for write in entry.writes() {
                    self.shape(&write).map_err(|what| frames.malformed(Malformed { at: 0, what }))?;
                }
                check.items += 1;
            }
            check.frames += 1;
        }
        Ok(())
    }

    fn relation(&self, id: u16) -> Option<&RelationEntry> {
        self.manifest.relations.iter().find(|entry| entry.id == id)
    }

    fn shape(&self, write: &Write<'_>) -> Result<(), &'static str> {
        let relation = self.relation(write.relation).ok_or(UNKNOWN)?;
        if relation.standing == Standing::Removed {
            return Ok(());
        }
        let due = relation.data_words(write.groups).ok_or(OTHER_SHAPE)?;
        let due = if write.present { due } else { 0 };
        let is_whole = write.data.len() == due
            || write.present && (self.has_its_values)(relation, write.groups, write.data);
        match write.key.len() == usize::from(relation.key_words) && is_whole {
            true => Ok(()),
            false => Err(OTHER_SHAPE),
        }
    }
}

const UNKNOWN_PROCEDURE: &str = "a call of a procedure that the manifest does not list";
const UNKNOWN: &str = "a relation that the manifest does not list";
const OTHER_SHAPE: &str = "a row of another shape than its relation's";
