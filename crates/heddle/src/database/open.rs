//! A directory opened without its program.

use super::overlay::Overlay;
use super::tables::Tables;
use crate::failure::{Failure, chain};
use crate::log::{Allowed, look};
use crate::progress::Progress;
use heddledb::internals::log::{Manifest, RelationEntry, Standing};
use heddledb::storage::{Disk, ReadOnly};
use heddledb::{Database, Durability, Migration, RowTable};
use std::path::Path;
use std::sync::Arc;

/// What is to be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It stays as it is.
    Read,
    /// It stays as it is, and all tables can be gone through in the order of their keys: those reached by a hash table become trees
    /// in memory.
    ReadInOrder,
    /// Rows are written.
    Write,
}

/// A database without its program.
pub struct OpenedDirectory {
    /// The directory, for messages.
    pub place: String,
    pub db: Database,
    tables: Tables,
}

impl OpenedDirectory {
    /// The tables of these names, or all that the columns are known of.
    pub fn chosen(&self, names: &[String]) -> Result<Vec<RowTable>, Failure> {
        let failed = |error: heddledb::Error| Failure::run(chain(&error));
        let all = self.tables.definitions();
        if names.is_empty() {
            return all.iter().map(|table| self.db.define(table, 0).map_err(failed)).collect();
        }
        let one = |name: &String| {
            let table = all.iter().find(|table| table.name() == name).ok_or_else(|| {
                let known: Vec<&str> = all.iter().map(|table| table.name()).collect();
                Failure::usage(format!(
                    "{} has no table {name} whose columns are known; it has {}",
                    self.place,
                    known.join(", ")
                ))
            })?;
            self.db.define(table, 0).map_err(failed)
        };
        names.iter().map(one).collect()
    }
}

/// Checks the files, and opens the directory by what its manifest says of its tables.
pub fn open(directory: &Path, access: Access, accept_copy: bool) -> Result<OpenedDirectory, Failure> {
    let examined = look(directory, Allowed { copied: accept_copy, ..Allowed::default() }, None)?;
    let place = examined.place;
    if let Some(problem) = examined.problems.first() {
        return Err(Failure::run(format!("{place} is damaged: {}", problem.message)));
    }
    let tables = whole_tables(directory, &place)?;
    let progress = Progress::new(1);
    let bar = progress.phase("loading the rows");
    let tell = move |told: heddledb::RecoveryProgress| bar.share(told.done as f64 / told.total.max(1) as f64);
    let builder = Database::builder().sessions(1).accept_copy(accept_copy).on_recovery(tell);
    let failed = |error| Failure::run(format!("{place} cannot be read any more ({error})"));
    let (builder, tables) = match access {
        Access::Read => (builder.path(directory).manual_epochs().read_only(true), tables),
        Access::Write => (builder.path(directory).durability(Durability::Epoch), tables),
        Access::ReadInOrder => {
            let disk = Disk::open_to_read(directory).map_err(failed)?.accept_copy(accept_copy);
            let overlay = Overlay::new(ReadOnly::new(Arc::new(disk)));
            let builder = builder.storage(Arc::new(overlay)).manual_epochs().durability(Durability::None);
            (builder.migrate(Migration::new()), tables.with_trees())
        }
    };
    let db = tables.declare(builder).open().map_err(|error| Failure::run(chain(&error)))?;
    Ok(OpenedDirectory { place, db, tables })
}

/// The manifest of a directory that had one a moment ago.
pub fn manifest(directory: &Path, place: &str) -> Result<Manifest, Failure> {
    let disk = Disk::open_to_read(directory)
        .map_err(|error| Failure::run(format!("{place} cannot be read any more ({error})")))?;
    let manifest = Manifest::read(&disk).map_err(|error| Failure::run(chain(&error)))?;
    manifest.ok_or_else(|| Failure::usage(format!("{place} holds no database any more")))
}

/// The tables of the directory, if all that belongs to them can be had.
fn whole_tables(directory: &Path, place: &str) -> Result<Tables, Failure> {
    let manifest = manifest(directory, place)?;
    let tables = Tables::of(&manifest);
    // What only its program can build would be empty, and whole by what a manifest says then.
    let is_whole = |index: &str| {
        let is_it = |entry: &RelationEntry| entry.name == index && entry.standing == Standing::Whole;
        manifest.relations.iter().any(is_it)
    };
    match tables.uncompared.iter().find(|(index, _)| !is_whole(index)) {
        None => Ok(tables),
        Some((index, why)) => Err(Failure::run(format!(
            "{place} has the index {index}, which is still to be built, and only its program can build it ({why}); open it \
             with its program first"
        ))),
    }
}
