//! The manifest: what the other files of a directory are, and which of them count.
//!
//! ```text
//!  byte  0   "HeddleMF"
//!        8   format version, 4 bytes | crc32c of all other bytes of the file, 4 bytes
//!       16   bytes of the file
//!       24   directory id; next generation; floor
//!            count of relations; each: id, standing, key words, count of groups, words of each, name, schema
//!            0, or 1 and the checkpoint: number, epoch, time, count of parts; each: bytes, rows
//!            count of generations; each: number, files, kind, 0 or 1 and the end: rounds, epoch
//!            log from; count of kept generations, each as above
//!            0, or 1 and the origin: directory, from, through, rounds, time, epoch
//!            count of procedures; each: id, version, fingerprint, name
//!            changes
//! ```
//!
//! Everything is words; a text is its length in bytes and its bytes, padded with zeros. A manifest
//! is never changed: a new one is written beside it, synced, and renamed over it, so that at every
//! moment one whole manifest has the name. A file that the manifest does not list counts for nothing.
//!
//! Format 1 has no standings: nobody knows of an index there whether it has an entry for each row. Formats 1 and 2 have no time
//! of the checkpoint, and end after the generations. Before format 4 generations are of values, and there are no procedures;
//! before format 5 nobody knows which changes a directory has taken.

use super::coding::{Reader, Writer};
use super::entry::{DATA_WORDS_MAX, GROUPS_MAX};
use super::segment::Name;
use super::{FILES_MAX, LogError, MANIFEST_FORMAT, PAYLOAD_WORDS_MAX, again, path};
use crate::mutant::{Mutant, planted};
use crate::storage::{Storage, read_all, write_all};
use std::io;

const MAGIC: u64 = u64::from_le_bytes(*b"HeddleMF");
const BYTES_MAX: u64 = 64 << 20;
const NAME_BYTES_MAX: usize = 1 << 10;
const SCHEMA_BYTES_MAX: usize = 1 << 20;
const HEADER_BYTES: usize = 24;

/// Which files of a directory count, and what they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// A random number that all files of the directory carry.
    pub directory: u64,
    /// The number of the next generation. No number is used twice.
    pub next_generation: u64,
    /// No stamp in a closed generation or checkpoint is of this epoch or a later one.
    pub floor: u64,
    /// The relations that entries and rows are of.
    pub relations: Vec<RelationEntry>,
    /// The rows that the generations build on.
    pub checkpoint: Option<Checkpoint>,
    /// The generations after the checkpoint, in ascending order.
    pub generations: Vec<Generation>,
    /// The first generation from which on the log lacks nothing: each generation from this number on that has a round is
    /// listed, and whatever was committed since the first of them began is in one of them.
    pub log_from: u64,
    /// Generations before the checkpoint whose files are kept, for copies that lack what they hold, in ascending order. All
    /// have an end, and recovery does not look at them.
    pub kept: Vec<Generation>,
    /// What a copy is of; `None` for what is no copy, or was opened to be written since.
    pub origin: Option<Origin>,
    /// The procedures whose calls are commands of the generations.
    pub procedures: Vec<ProcedureEntry>,
    /// How many of its program's changes of the schema, in their order, it has taken or never needed.
    pub changes: u64,
}

/// How far a copy follows the log of the directory that it is of: it holds exactly the commits of epochs up to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// That directory's number.
    pub directory: u64,
    /// Commits of later epochs are in this generation of its log or in later ones.
    pub from: u64,
    /// In this generation its log had closed the epoch.
    pub through: u64,
    /// With this round of it; 0 where it had none.
    pub rounds: u64,
    /// When that was, in milliseconds since 1970; 0 where nobody knows. A directory that was brought back to an earlier state has
    /// other rounds of the same numbers since.
    pub time: u64,
    /// The epoch.
    pub epoch: u64,
}

/// A table or index as it stands in the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationEntry {
    /// Its number in entries and rows.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Its definition as text, to be compared with the program's.
    pub schema: String,
    /// Words of a key: 1 to 8.
    pub key_words: u8,
    /// Words of each column group.
    pub groups: Vec<u32>,
    /// Whether its records count.
    pub standing: Standing,
}

/// Whether what the files hold of a relation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It counts: a table; an index that has exactly an entry for each row.
    Whole,
    /// An index that is built from the rows at each opening, until a checkpoint holds it. No record of it counts.
    Unbuilt,
    /// An index that was removed. No record of it counts, and none is written.
    Removed,
    /// An index of a directory of format 1. Maybe it has an entry for each row, maybe not.
    Unknown,
}

impl Standing {
    const ALL: [Self; 4] = [Self::Whole, Self::Unbuilt, Self::Removed, Self::Unknown];

    /// Its name in what is told of a directory.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Unbuilt => "to be built",
            Self::Removed => "removed",
            Self::Unknown => "unknown",
        }
    }
}

impl RelationEntry {
    /// The table of an index, and the index's own name; `None` for a table.
    ///
    /// An index says so in its definition, in words that no column's name has.
    pub fn index_of(&self) -> Option<(&str, &str)> {
        let (words, _) = self.schema.split_once("; ")?;
        let is_index = words.starts_with("index over ") || words.starts_with("unique index over ");
        if is_index { self.name.rsplit_once('.') } else { None }
    }

    /// The definition of the table, as the index of it has it.
    pub fn table_schema(&self) -> Option<&str> {
        self.index_of()?;
        self.schema.split_once("; ").map(|(_, table)| table)
    }

    /// Words of the column groups in the set `groups`; `None` if there are no such groups.
    pub fn data_words(&self, groups: u32) -> Option<usize> {
        if groups >> self.groups.len().min(GROUPS_MAX) != 0 {
            return None;
        }
        let chosen = self.groups.iter().enumerate().filter(|(group, _)| groups >> group & 1 == 1);
        Some(chosen.map(|(_, words)| *words as usize).sum())
    }

    /// Words of a row besides its key.
    pub fn row_words(&self) -> usize {
        self.groups.iter().map(|words| *words as usize).sum()
    }
}

/// A checkpoint: exactly the commits of the epochs up to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its number, in the names of its parts.
    pub number: u64,
    /// The last epoch that it holds.
    pub epoch: u64,
    /// When it was begun, in milliseconds since 1970: all that it holds was committed before. 0 where nobody knows.
    pub time: u64,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// A part of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The length of the file.
    pub bytes: u64,
    /// The rows in it.
    pub rows: u64,
}

/// What one opening of the database logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its number, in the names of its files.
    pub number: u64,
    /// How many files it has.
    pub files: u8,
    /// What its entries say.
    pub kind: LogKind,
    /// Set when a recovery has closed it.
    pub end: Option<End>,
}

/// What the log says of a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogKind {
    /// The rows that it wrote.
    #[default]
    Values,
    /// Which procedure was called with what, where all that a call would access was foreseen; and else the rows. Opening the directory
    /// calls the procedures again, in the order in which they had committed.
    Commands,
}

impl LogKind {
    const ALL: [Self; 2] = [Self::Values, Self::Commands];

    /// Its name in what is told of a directory.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Commands => "commands",
        }
    }
}

/// A procedure whose calls are commands of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcedureEntry {
    /// Its number in commands.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Its version, as it says itself.
    pub version: u32,
    /// Of its text.
    pub fingerprint: u64,
}

/// Where a closed generation ends, whatever else stands in its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Only so many rounds count.
    pub rounds: u64,
    /// Only commits of epochs up to this one count.
    pub epoch: u64,
}

impl Manifest {
    /// The manifest of a directory; `None` for a directory that has none, nor anything that needs one.
    ///
    /// # Errors
    /// The system's; a damaged manifest; log files without a manifest.
    pub fn read(storage: &dyn Storage) -> Result<Option<Self>, LogError> {
        let name = Name::Manifest.to_string();
        let names = again(|| storage.list()).map_err(|source| LogError::Io {
            doing: "listing the files of",
            file: storage.place(),
            source,
        })?;
        if !names.contains(&name) {
            let orphan = names
                .iter()
                .find(|name| matches!(Name::parse(name), Some(Name::Log { .. } | Name::Checkpoint { .. })));
            return match orphan {
                None => Ok(None),
                Some(orphan) => Err(LogError::Damaged {
                    file: path(storage, &name),
                    offset: 0,
                    what: format!("it is missing, although there are files that it should list ({orphan})"),
                }),
            };
        }
        let failed = || LogError::io(storage, "reading", &name);
        let file = again(|| storage.open(&name)).map_err(failed())?;
        let length = again(|| file.len()).map_err(failed())?;
        if length > BYTES_MAX {
            let what = "it is longer than any manifest".to_owned();
            return Err(LogError::Damaged { file: path(storage, &name), offset: 0, what });
        }
        let bytes = again(|| read_all(&*file)).map_err(failed())?;
        match Self::decode(&bytes) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(ManifestFlaw::Version(found)) => Err(LogError::Version { file: path(storage, &name), found }),
            Err(ManifestFlaw::Bad { at, what }) => Err(LogError::Damaged {
                file: path(storage, &name),
                offset: at as u64,
                what: what.to_owned(),
            }),
        }
    }

    /// Makes this the directory's manifest, durably. When it fails, either manifest may be found
    /// later, and no file that either of them lists may be removed.
    ///
    /// # Errors
    /// The system's; a manifest that no reader would take.
    pub fn replace(&self, storage: &dyn Storage) -> Result<(), LogError> {
        let (name, new) = (Name::Manifest.to_string(), Name::NewManifest.to_string());
        let failed = || LogError::io(storage, "writing", &new);
        let bytes = self.encode();
        self.check()
            .and(if bytes.len() as u64 > BYTES_MAX { Err("a manifest is too long") } else { Ok(()) })
            .map_err(|what| failed()(io::Error::new(io::ErrorKind::InvalidInput, what)))?;
        let file = match again(|| storage.create(&new)) {
            // Left by a crash.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                again(|| storage.remove(&new)).map_err(failed())?;
                again(|| storage.create(&new))
            }
            created => created,
        }
        .map_err(failed())?;
        write_all(&*file, &bytes, 0).map_err(failed())?;
        again(|| file.sync()).map_err(LogError::io(storage, "syncing", &new))?;
        again(|| storage.rename(&new, &name)).map_err(LogError::io(storage, "replacing", &name))?;
        if planted(Mutant::LogManifestNameNotSynced) {
            return Ok(());
        }
        again(|| storage.sync_names()).map_err(LogError::io(storage, "syncing the name of", &name))
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_as(MANIFEST_FORMAT)
    }

    /// The bytes of the file in a format of 1 to [`MANIFEST_FORMAT`]; an older one leaves out what it has no place for.
    pub fn encode_as(&self, format: u32) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        for word in [MAGIC, 0, 0, self.directory, self.next_generation, self.floor] {
            out.word(word);
        }
        out.word(self.relations.len() as u64);
        for relation in &self.relations {
            out.word(relation.id.into());
            if format > 1 {
                out.word(relation.standing as u64);
            }
            out.word(relation.key_words.into());
            out.word(relation.groups.len() as u64);
            relation.groups.iter().for_each(|words| out.word((*words).into()));
            out.text(&relation.name);
            out.text(&relation.schema);
        }
        out.word(self.checkpoint.is_some().into());
        if let Some(checkpoint) = &self.checkpoint {
            out.word(checkpoint.number);
            out.word(checkpoint.epoch);
            if format > 2 {
                out.word(checkpoint.time);
            }
            out.word(checkpoint.parts.len() as u64);
            for part in &checkpoint.parts {
                out.word(part.bytes);
                out.word(part.rows);
            }
        }
        out.generations(&self.generations, format);
        if format > 2 {
            out.word(self.log_from);
            out.generations(&self.kept, format);
            out.word(self.origin.is_some().into());
            if let Some(Origin { directory, from, through, rounds, time, epoch }) = self.origin {
                [directory, from, through, rounds, time, epoch].into_iter().for_each(|word| out.word(word));
            }
        }
        if format > 3 {
            out.word(self.procedures.len() as u64);
            for ProcedureEntry { id, name, version, fingerprint } in &self.procedures {
                [(*id).into(), (*version).into(), *fingerprint].into_iter().for_each(|word| out.word(word));
                out.text(name);
            }
        }
        if format > 4 {
            out.word(self.changes);
        }
        seal_as(&mut out.0, format);
        out.0
    }

    /// Reads the bytes of the file, whatever they are.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, ManifestFlaw> {
        let bad = |at, what| Err(ManifestFlaw::Bad { at, what });
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return bad(0, "it is shorter than its header");
        };
        let [magic, version, length] = [0, 1, 2].map(|word| u64::from_le_bytes(header.as_chunks().0[word]));
        if magic != MAGIC {
            return bad(0, "it does not begin like a manifest");
        }
        if (version >> 32) as u32 != check(bytes) {
            return bad(0, "its checksum is wrong");
        }
        if !(1..=MANIFEST_FORMAT).contains(&(version as u32)) {
            return Err(ManifestFlaw::Version(version as u32));
        }
        if length != bytes.len() as u64 || length > BYTES_MAX {
            return bad(16, "its length is wrong");
        }
        let mut reader = Reader { bytes, at: HEADER_BYTES, format: version as u32 };
        match reader.manifest() {
            Ok(_) if reader.at != bytes.len() => bad(reader.at, "there is something behind its end"),
            Ok(manifest) => match manifest.check() {
                Ok(()) => Ok(manifest),
                Err(what) => bad(HEADER_BYTES, what),
            },
            Err(what) => bad(reader.at, what),
        }
    }

    /// What must hold between the fields.
    fn check(&self) -> Result<(), &'static str> {
        let mut seen = std::collections::BTreeSet::new();
        for relation in &self.relations {
            if !seen.insert(relation.id) {
                return Err("two relations have the same number");
            }
            if relation.name.len() > NAME_BYTES_MAX || relation.schema.len() > SCHEMA_BYTES_MAX {
                return Err("a relation has too long a name or definition");
            }
            if !(1..=8).contains(&relation.key_words) || !(1..=GROUPS_MAX).contains(&relation.groups.len()) {
                return Err("a relation has an impossible number of key words or column groups");
            }
            // So that a row fits into an entry, and a frame.
            let words = relation.groups.iter().map(|words| u64::from(*words)).sum::<u64>();
            if words > ROW_WORDS_MAX {
                return Err("a relation has too long rows");
            }
        }
        let ids: std::collections::BTreeSet<u16> = self.procedures.iter().map(|known| known.id).collect();
        if ids.len() < self.procedures.len() {
            return Err("two procedures have the same number");
        }
        if self.procedures.iter().any(|known| known.name.len() > NAME_BYTES_MAX) {
            return Err("a procedure has too long a name");
        }
        if let Some(checkpoint) = &self.checkpoint
            && !(1..=usize::from(FILES_MAX)).contains(&checkpoint.parts.len())
        {
            return Err("a checkpoint has an impossible number of parts");
        }
        if self.kept.iter().any(|generation| generation.end.is_none()) {
            return Err("a generation that is kept has no end");
        }
        if self.log_from > self.next_generation {
            return Err("the log is to begin behind its end");
        }
        let mut last = None;
        for generation in self.kept.iter().chain(&self.generations) {
            if last >= Some(generation.number) || generation.number >= self.next_generation {
                return Err("the generations are not in ascending order");
            }
            last = Some(generation.number);
            if !(1..=FILES_MAX).contains(&generation.files) {
                return Err("a generation has an impossible number of files");
            }
        }
        Ok(())
    }
}

/// The longest row besides its key.
const ROW_WORDS_MAX: u64 = PAYLOAD_WORDS_MAX as u64 / 2;
const _: () = assert!(ROW_WORDS_MAX as usize <= DATA_WORDS_MAX);

/// Why bytes are no manifest.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ManifestFlaw {
    Bad { at: usize, what: &'static str },
    Version(u32),
}

/// Sets the length and the checksum of a manifest that has at least a header.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn seal(bytes: &mut [u8]) {
    seal_as(bytes, MANIFEST_FORMAT);
}

fn seal_as(bytes: &mut [u8], format: u32) {
    let length = bytes.len() as u64;
    bytes[8..12].copy_from_slice(&format.to_le_bytes());
    bytes[16..24].copy_from_slice(&length.to_le_bytes());
    let check = check(bytes);
    bytes[12..16].copy_from_slice(&check.to_le_bytes());
}

/// The checksum of a manifest without its own four bytes.
fn check(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}

impl Writer {
    fn generations(&mut self, generations: &[Generation], format: u32) {
        self.word(generations.len() as u64);
        for generation in generations {
            self.word(generation.number);
            self.word(generation.files.into());
            if format > 3 {
                self.word(generation.kind as u64);
            }
            self.word(generation.end.is_some().into());
            if let Some(end) = generation.end {
                self.word(end.rounds);
                self.word(end.epoch);
            }
        }
    }
}

impl Reader<'_> {
    fn manifest(&mut self) -> Result<Manifest, &'static str> {
        let mut manifest = Manifest {
            directory: self.word()?,
            next_generation: self.word()?,
            floor: self.word()?,
            relations: self.list(5, Self::relation)?,
            checkpoint: if self.choice()? { Some(self.checkpoint()?) } else { None },
            generations: self.list(3, Self::generation)?,
            log_from: 0,
            kept: Vec::new(),
            origin: None,
            procedures: Vec::new(),
            changes: 0,
        };
        if self.format > 2 {
            manifest.log_from = self.word()?;
            manifest.kept = self.list(3, Self::generation)?;
            manifest.origin = if self.choice()? { Some(self.origin()?) } else { None };
            if self.format > 3 {
                manifest.procedures = self.list(4, Self::procedure)?;
            }
            if self.format > 4 {
                manifest.changes = self.word()?;
            }
        } else {
            // A checkpoint left out all generations that there were, and nothing else did.
            let first = manifest.generations.first();
            manifest.log_from = first.map_or(manifest.next_generation, |generation| generation.number);
        }
        Ok(manifest)
    }

    fn relation(&mut self) -> Result<RelationEntry, &'static str> {
        let id = self.number()?;
        let standing = match self.format {
            1 => None,
            _ => Some(*Standing::ALL.get(self.number::<usize>()?).ok_or("a standing is none")?),
        };
        let key_words = self.number()?;
        let groups = self.list(1, Self::number)?;
        let (name, schema) = (self.text()?, self.text()?);
        let mut entry = RelationEntry { id, name, schema, key_words, groups, standing: Standing::Whole };
        entry.standing = match (standing, entry.index_of()) {
            (Some(standing), _) => standing,
            (None, Some(_)) => Standing::Unknown,
            (None, None) => Standing::Whole,
        };
        Ok(entry)
    }

    fn checkpoint(&mut self) -> Result<Checkpoint, &'static str> {
        let (number, epoch) = (self.word()?, self.word()?);
        let time = if self.format > 2 { self.word()? } else { 0 };
        let parts = self.list(2, |reader| Ok(Part { bytes: reader.word()?, rows: reader.word()? }))?;
        Ok(Checkpoint { number, epoch, time, parts })
    }

    fn origin(&mut self) -> Result<Origin, &'static str> {
        let [directory, from, through] = [self.word()?, self.word()?, self.word()?];
        let [rounds, time, epoch] = [self.word()?, self.word()?, self.word()?];
        Ok(Origin { directory, from, through, rounds, time, epoch })
    }

    fn generation(&mut self) -> Result<Generation, &'static str> {
        let (number, files) = (self.word()?, self.number()?);
        let kind = match self.format {
            ..=3 => LogKind::Values,
            _ => *LogKind::ALL.get(self.number::<usize>()?).ok_or("a generation is of no known kind")?,
        };
        let end = if self.choice()? { Some(End { rounds: self.word()?, epoch: self.word()? }) } else { None };
        Ok(Generation { number, files, kind, end })
    }

    fn procedure(&mut self) -> Result<ProcedureEntry, &'static str> {
        let (id, version, fingerprint) = (self.number()?, self.number()?, self.word()?);
        Ok(ProcedureEntry { id, name: self.text()?, version, fingerprint })
    }
}
