//! What an examination of a directory tells: the shape of `--json`, and transactions one by one.

use heddledb::LogError;
use heddledb::internals::log::{Entry, ProcedureEntry, RelationEntry};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a directory holds.
#[derive(Serialize, Debug)]
pub struct Examined {
    /// The directory.
    pub place: String,
    /// False where something is damaged.
    pub whole: bool,
    /// True while a database has it open; then this may be of several moments.
    pub in_use: bool,
    /// The last durable epoch; of what salvage would leave, if something is damaged.
    pub durable_epoch: u64,
    /// The manifest, if it can be read.
    pub manifest: Option<ManifestTold>,
    /// The checkpoint that the manifest lists.
    pub checkpoint: Option<CheckpointTold>,
    /// The generations that the manifest lists; without a manifest, those that the files name.
    pub generations: Vec<GenerationTold>,
    /// From when to when it can be restored, if nothing is damaged.
    pub reach: Option<String>,
    /// Of a copy, how far it follows the log of which directory.
    pub copy_of: Option<String>,
    /// Files of the database's that the manifest does not list: they count for nothing.
    pub unlisted: Vec<String>,
    /// What is damaged or cannot be read.
    pub problems: Vec<Problem>,
}

/// The manifest without what is told elsewhere.
#[derive(Serialize, Debug)]
pub struct ManifestTold {
    /// The directory's random id, in hex digits.
    pub directory: String,
    /// The number of the next generation.
    pub next_generation: u64,
    /// The lowest epoch that the next opening may begin with.
    pub floor: u64,
    /// The tables and indexes.
    pub relations: Vec<RelationTold>,
    /// The procedures whose calls are in the log.
    pub procedures: Vec<ProcedureTold>,
    /// How many changes of its program's schema it has taken.
    pub changes: u64,
}

/// A procedure whose calls are in the log.
#[derive(Serialize, Debug)]
pub struct ProcedureTold {
    /// Its number in the files.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// Of its text, in hex digits.
    pub fingerprint: String,
}

/// A table or index.
#[derive(Serialize, Debug)]
pub struct RelationTold {
    /// Its number in the files.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Words of a key.
    pub key_words: u8,
    /// Words of each column group.
    pub groups: Vec<u32>,
    /// Its definition.
    pub schema: String,
    /// Whether what the files hold of it counts: `whole`, or for an index `to be built`, `removed` or `unknown`.
    pub standing: &'static str,
}

/// A checkpoint.
#[derive(Serialize, Debug)]
pub struct CheckpointTold {
    /// Its number.
    pub number: u64,
    /// The last epoch that it holds.
    pub epoch: u64,
    /// Its parts.
    pub parts: Vec<PartTold>,
    /// Rows of each relation.
    pub relations: Vec<RowsOf>,
}

/// A part of a checkpoint.
#[derive(Serialize, Debug, Default)]
pub struct PartTold {
    /// The name of the file.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Whole frames.
    pub frames: u64,
    /// Rows in them.
    pub rows: u64,
    /// Rows that the manifest says it has.
    pub rows_listed: u64,
}

/// How much a checkpoint has of a relation.
#[derive(Serialize, Debug)]
pub struct RowsOf {
    /// Its name, or its number where that is not known.
    pub relation: String,
    /// Rows.
    pub rows: u64,
    /// Bytes of their words.
    pub bytes: u64,
}

/// A generation of the log.
#[derive(Serialize, Debug)]
pub struct GenerationTold {
    /// Its number.
    pub number: u64,
    /// What its entries say: `values`, or `commands`, calls among them.
    pub kind: &'static str,
    /// So many rounds count because a recovery or a checkpoint has closed it.
    pub closed_after: Option<u64>,
    /// Whole rounds.
    pub rounds: u64,
    /// The closed epoch of the last of them.
    pub closed_epoch: u64,
    /// The highest epoch named anywhere in it.
    pub highest_epoch: u64,
    /// Only commits up to this epoch count.
    pub counts_up_to_epoch: u64,
    /// Its files.
    pub files: Vec<FileTold>,
    /// Transactions that count and are not in the checkpoint.
    pub transactions: u64,
    /// Transactions that the checkpoint holds already.
    pub in_checkpoint: u64,
    /// Transactions of epochs that were not closed: nobody was told that they are durable.
    pub dropped: u64,
    /// Calls among those that count, which the next opening makes again.
    pub calls: u64,
    /// Writes of the transactions that count.
    pub writes: u64,
    /// These writes by relation.
    pub relations: Vec<WritesTo>,
    /// The round that was being written when the writer stopped.
    pub torn: Option<TornTold>,
}

/// A file of the log.
#[derive(Serialize, Debug, Default)]
pub struct FileTold {
    /// Its name.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Bytes of it that count.
    pub bytes_whole: u64,
    /// Frames of whole rounds.
    pub frames: u64,
    /// Compressed ones among them.
    pub compressed: u64,
    /// Entries in them.
    pub transactions: u64,
}

/// How much of a generation concerns a relation.
#[derive(Serialize, Debug)]
pub struct WritesTo {
    /// Its name, or its number where that is not known.
    pub relation: String,
    /// Writes of rows.
    pub writes: u64,
    /// Deletions of rows.
    pub deletes: u64,
    /// Bytes of their words.
    pub bytes: u64,
}

/// A torn tail.
#[derive(Serialize, Debug)]
pub struct TornTold {
    /// A file that lacks something of it.
    pub file: String,
    /// From where on.
    pub offset: u64,
    /// Bytes behind the whole rounds, in all files.
    pub bytes: u64,
    /// What was found.
    pub what: String,
}

/// Something that is damaged or cannot be read.
#[derive(Serialize, Debug)]
pub struct Problem {
    /// The file, with its directory.
    pub file: Option<String>,
    /// Where in it.
    pub offset: Option<u64>,
    /// What, and what to do.
    pub message: String,
}

impl From<LogError> for Problem {
    fn from(error: LogError) -> Self {
        let message = error.to_string();
        let (file, offset) = match error {
            LogError::Damaged { file, offset, .. } | LogError::Compression { file, offset, .. } => {
                (Some(file), Some(offset))
            }
            LogError::Io { file, .. } | LogError::Version { file, .. } => (Some(file), None),
            _ => (None, None),
        };
        Self { file, offset, message }
    }
}

/// A transaction of the log, as [`See`] is shown it.
pub struct Told<'a> {
    /// The generation.
    pub generation: u64,
    /// The file in it.
    pub file: u8,
    /// The round.
    pub round: u64,
    /// The entry.
    pub entry: Entry<'a>,
    /// Whether it counts, is in the checkpoint, or is dropped.
    pub fate: Fate,
}

/// A function that is shown every transaction, until it returns false.
pub type See<'a> = Option<&'a mut dyn FnMut(&Names, &Told<'_>) -> bool>;

/// What recovery does with a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is replayed.
    Counts,
    /// The checkpoint holds it.
    InCheckpoint,
    /// Its epoch was not closed.
    Dropped,
}

/// Names for the numbers of relations and procedures.
#[derive(Default)]
pub struct Names {
    relations: BTreeMap<u16, RelationEntry>,
    procedures: BTreeMap<u16, ProcedureEntry>,
}

impl Names {
    /// The names of these.
    pub fn new<'a>(
        relations: impl IntoIterator<Item = &'a RelationEntry>,
        procedures: impl IntoIterator<Item = &'a ProcedureEntry>,
    ) -> Self {
        Self {
            relations: relations.into_iter().map(|entry| (entry.id, entry.clone())).collect(),
            procedures: procedures.into_iter().map(|entry| (entry.id, entry.clone())).collect(),
        }
    }

    /// The procedure with a number, if it is known.
    pub fn procedure(&self, id: u16) -> Option<&ProcedureEntry> {
        self.procedures.get(&id)
    }

    /// The relation with a number, if it is known.
    pub fn entry(&self, id: u16) -> Option<&RelationEntry> {
        self.relations.get(&id)
    }

    /// The name of a relation, or its number where that is not known.
    pub fn of(&self, id: u16) -> String {
        self.entry(id).map_or_else(|| format!("relation {id}"), |entry| entry.name.clone())
    }
}
