//! The log's format: what stands in the files of a directory, and how it is checked.
//!
//! ```text
//!  MANIFEST ----------- which relations, checkpoint and generations count
//!  checkpoint-9-00 ..   the rows as of an epoch, in parts
//!  log-7-00, log-7-01   a generation: what one opening of the database logged, in parallel files
//!
//!  segment   | header | frame | frame | frame | zeros ..
//!  frame     | header, 64 bytes | payload, whole words |     each with a round number
//!  payload   | entry | entry | ..                            of a log: one entry per transaction, its writes or its call
//!            | relation | row | row | ..                     of a checkpoint
//! ```
//!
//! This room turns words into bytes and bytes, whatever they are, back into words or an error. It
//! starts no thread and keeps no buffer of the log's; the writer and recovery stand on it.
//!
//! **A round** is what is written and synced at once: a frame, or several, in each of its *member*
//! files. Round r + 1 is begun only when round r is durable in all its members. So a round of which
//! something is missing is a *torn tail* if it is the last one, and damage if a later one was begun.
//! `docs/log-format.md` draws every field and goes through the crashes.

mod coding;
mod command;
mod directory;
mod entry;
mod frame;
mod frames;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod manifest;
mod read;
mod rounds;
mod rows;
mod segment;
mod survey;
mod verify;

pub use command::{CELLS_MAX, Cell, CellUse, Command, WritingCommand, digest, sort_cells};
pub use directory::{lock_storage, remove_unlisted};
pub use entry::{Entries, Entry, GROUPS_MAX, Malformed, Write, Writes, Writing};
pub use frame::{
    Compression, Decoder, Encoder, FRAME_HEADER_BYTES, Flaw, Header, Kind, Label, PAYLOAD_WORDS_MAX, Place,
};
pub use frames::Frames;
pub use manifest::{
    Checkpoint, End, Generation, LogKind, Manifest, Origin, Part, ProcedureEntry, RelationEntry, Standing,
};
pub use rounds::{Frame, Rounds};
pub use rows::{Rows, WritingRows};
pub use segment::{Name, SEGMENT_HEADER_BYTES, SegmentHeader};
pub use survey::{Lost, Moment, STRETCH_BYTES, Stretch, Survey, Surveyed, Torn, survey, survey_moments};
pub use verify::{FileCheck, verify};

use crate::storage::Storage;
use std::io;

/// The version of the format of logs and checkpoints that this build writes; it reads the one before, too.
pub const FORMAT: u32 = 2;
/// The version of the manifest's format that this build writes; it reads the ones before, too.
pub const MANIFEST_FORMAT: u32 = 5;
/// Files of a generation, and parts of a checkpoint: at most as many as a word has bits.
pub const FILES_MAX: u8 = 64;

/// What is wrong with a directory, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The system failed.
    #[error("{doing} {file} failed: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file, with its directory.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The storage panicked while the log was written. What is there is as unknown as after a failure.
    #[error("the storage of {place} panicked while the log was written to it")]
    Panicked {
        /// The directory.
        place: String,
    },
    /// A file does not hold what was written to it.
    #[error("{file} is damaged at byte {offset}: {what}; {}", remedy(.file))]
    Damaged {
        /// The file, with its directory.
        file: String,
        /// Where in it.
        offset: u64,
        /// What was found.
        what: String,
    },
    /// A file of another version of the format.
    #[error(
        "{file} has format version {found}, this build reads {}; open it with the release that wrote it",
        versions(.file)
    )]
    Version {
        /// The file, with its directory.
        file: String,
        /// Its version.
        found: u32,
    },
    /// A directory that holds something, and no database.
    #[error(
        "{place} is no database: it holds {found}; name a directory of its own, which may be missing or empty"
    )]
    NotADatabase {
        /// The directory.
        place: String,
        /// Something in it.
        found: String,
    },
    /// A place for a copy that holds something.
    #[error(
        "{place} holds {found}, and a backup is made or restored in a directory of its own; name one that is missing or empty"
    )]
    NotEmpty {
        /// The directory.
        place: String,
        /// Something in it.
        found: String,
    },
    /// Files that were copied one by one while a database had them open.
    #[error(
        "{place} was copied while a database had it open, or after that was killed, so its files may be of different moments; \
         take a backup instead, by `Database::backup`, or by `heddle backup` when it is closed. If nothing wrote to it meanwhile, open it \
         with `Builder::accept_copy`"
    )]
    CopiedWhileOpen {
        /// The directory.
        place: String,
    },
    /// A copy that cannot be continued with a log; it is as it was.
    #[error(
        "{place} cannot be continued with the log of {of}: {why}; take a full copy, in a directory of its own"
    )]
    NotContinued {
        /// The copy.
        place: String,
        /// The directory with the log.
        of: String,
        /// Why not.
        why: String,
    },
    /// A moment that a directory cannot be restored to.
    #[error("{place} cannot be restored to {asked}: it reaches from {first} to {last}")]
    NoSuchMoment {
        /// The directory.
        place: String,
        /// The moment.
        asked: String,
        /// The first that it can be restored to.
        first: String,
        /// The last.
        last: String,
    },
    /// Another database has the directory open.
    #[error("{place} is open in another database; close that first")]
    Locked {
        /// The directory.
        place: String,
    },
    /// The definition of a table or index differs from the one in the files.
    #[error(
        "{place} has {relation} as `{stored}`, the program declares it as `{declared}`; open it with a program that declares \
         it so, or change the directory, with `Builder::migrate`"
    )]
    Definition {
        /// The directory.
        place: String,
        /// The table or index.
        relation: String,
        /// The definition in the files.
        stored: String,
        /// The definition in the program.
        declared: String,
    },
    /// A table or index in the files that the program does not declare.
    #[error(
        "{place} holds {relation} (`{stored}`), which the program does not declare; name its table with `Builder::table`, or give it up, with `Builder::migrate`"
    )]
    NotDeclared {
        /// The directory.
        place: String,
        /// The table or index.
        relation: String,
        /// The definition in the files.
        stored: String,
    },
    /// A directory whose rows cannot be what the program declares; nothing has changed.
    #[error("{place} was not changed to what the program declares: {what}")]
    Migration {
        /// The directory.
        place: String,
        /// What nobody has said, or which row does not fit.
        what: String,
    },
    /// Commands of a procedure that the program does not have, or has otherwise.
    #[error(
        "the log of {place} holds calls of procedure {procedure} ({stored}), which are to be made again, and the program has {found}; open it once \
         with the program that made them, and `Builder::checkpoint_at_close`: then no call is left to be made again"
    )]
    ProcedureChanged {
        /// The directory.
        place: String,
        /// The procedure.
        procedure: String,
        /// Its version and fingerprint in the log.
        stored: String,
        /// What the program has of that name.
        found: String,
    },
    /// An index that is declared otherwise than the calls of the log knew it.
    #[error(
        "index {index} of {place} was added, removed or changed, and its log holds calls of procedures that are to be made again, with the indexes that \
         they knew; open it once with the program that made them, and `Builder::checkpoint_at_close`: then no call is left"
    )]
    IndexBesideCalls {
        /// The directory.
        place: String,
        /// The index.
        index: String,
    },
    /// A call that, made again, did something else.
    #[error(
        "a call of procedure {procedure} in the log of {place}, made again, did not do what it had done ({what}; commit time {time:#x}); a procedure \
         may depend on nothing but its arguments and what it reads: restore a checkpoint or a copy from before, or mend the procedure back"
    )]
    CallDiverged {
        /// The directory.
        place: String,
        /// The procedure.
        procedure: String,
        /// The time of the commit.
        time: u64,
        /// What was seen.
        what: String,
    },
    /// Two tables of one name.
    #[error(
        "two tables or indexes are called {relation}; give one another name by `#[table(name = \"..\")]`"
    )]
    TwoOfOneName {
        /// The name.
        relation: String,
    },
    /// A unique index was added to a table, and two of its rows have equal indexed columns.
    #[error("{0}")]
    NotUnique(Box<NotUnique>),
    /// An index was added to a table, and a row has a value that is longer than the index has room for.
    #[error("{0}")]
    KeyTooLong(Box<KeyTooLong>),
    /// A compressed frame, and a build without the decompressor.
    #[error(
        "{file} is compressed with {found} from byte {offset}; open it with a build that has the feature `{found}`"
    )]
    Compression {
        /// The file, with its directory.
        file: String,
        /// The first frame that cannot be read.
        offset: u64,
        /// The name of the compression and of the feature.
        found: &'static str,
    },
}

/// Two rows that are in the way of a unique index.
#[derive(Debug, thiserror::Error)]
#[error(
    "{place}: rows {first} and {second} of {table} both have {entry} in {index}, which is unique now; open it without that index, and change or delete one of them"
)]
pub struct NotUnique {
    /// The directory.
    pub place: String,
    /// The table.
    pub table: String,
    /// The index.
    pub index: String,
    /// What both have.
    pub entry: String,
    /// The key of one row.
    pub first: String,
    /// The key of the other.
    pub second: String,
}

/// A row that is in the way of an index, since a value is longer than that has room for.
#[derive(Debug, thiserror::Error)]
#[error(
    "{place}: row {row} of {table} has {bytes} bytes in {column}, and {index}, which is new, has room for {limit}; state more as its `max`, or open it without that index, and change or delete the row"
)]
pub struct KeyTooLong {
    /// The directory.
    pub place: String,
    /// The table.
    pub table: String,
    /// The index.
    pub index: String,
    /// The key of the row; of several the smallest.
    pub row: String,
    /// The column.
    pub column: &'static str,
    /// The bytes of its value.
    pub bytes: usize,
    /// The most that one may have in the index.
    pub limit: usize,
}

/// The versions of a file's format that this build reads.
fn versions(file: &str) -> String {
    match Name::parse(file.rsplit('/').next().unwrap_or(file)) {
        Some(Name::Log { .. } | Name::Checkpoint { .. }) => format!("versions 1 to {FORMAT}"),
        _ => format!("versions 1 to {MANIFEST_FORMAT}"),
    }
}

/// What can be done about a damaged file.
fn remedy(file: &str) -> &'static str {
    match Name::parse(file.rsplit('/').next().unwrap_or(file)) {
        Some(Name::Log { .. }) => {
            "restore the file from a copy, or open with salvage to give up every round from there on"
        }
        Some(Name::Checkpoint { .. }) => "restore the file from a copy: the log no longer holds these rows",
        _ => "restore the file from a copy: it says which other files count",
    }
}

impl LogError {
    /// Makes an error of the system's, which came up while `doing` something to a file.
    pub fn io(
        storage: &dyn Storage,
        doing: &'static str,
        name: &str,
    ) -> impl FnOnce(io::Error) -> Self + use<> {
        let file = path(storage, name);
        move |source| Self::Io { doing, file, source }
    }
}

/// A file's name for messages.
pub fn path(storage: &dyn Storage, name: &str) -> String {
    format!("{}/{name}", storage.place())
}

/// Does it again for as long as a signal comes in between.
pub fn again<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests;
