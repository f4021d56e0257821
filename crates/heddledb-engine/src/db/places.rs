//! Where the files of a database are, or those of a copy: directories, and storages of the user's.

use super::migrate::Migrating;
use super::recovery::{Opened, Opening};
use super::store::Store;
use crate::copies::LOST_AND_FOUND;
use crate::error::Result;
use crate::log::{LogError, Name};
use crate::migration::Migration;
use crate::protocol::Records;
use crate::settings::{Durability, LogOptions, Place, Settings};
use crate::storage::{Disk, ReadOnly, Storage};
use std::path::Path;
use std::sync::Arc;

/// Opens the files of a database, and loads what they hold.
pub(super) fn open_files(
    place: &Place,
    settings: &Settings,
    stores: Vec<&Store>,
    records: &'static Records,
    threads: usize,
) -> Result<Opened> {
    let read_only = settings.read_only;
    let storage: Arc<dyn Storage> = match place {
        Place::Storage(storage) => Arc::clone(storage),
        Place::Path(path) => Arc::new(open_directory(path, read_only)?.accept_copy(settings.accept_copy)),
    };
    let migrated = match &settings.migration {
        Some(migration) if !read_only => {
            let declared = stores.clone();
            Migrating { storage: &storage, settings, migration, declared, records, threads }.run()?
        }
        _ => None,
    };
    let storage = if read_only { Arc::new(ReadOnly::new(storage)) } else { storage };
    let files = if settings.durability == Durability::None { 0 } else { settings.log.files };
    let opening = Opening {
        storage,
        stores,
        options: LogOptions { files, at_once: settings.epoch_interval.is_some(), ..settings.log },
        threads,
        versions: settings.versions.clone(),
        salvage: settings.salvage,
        read_only,
        changes: settings.migration.as_ref().map_or(0, Migration::count),
        tell: settings.tell.clone(),
        as_found: settings.as_found,
    };
    let mut opened = opening.open()?;
    if let Some((schema, found)) = migrated {
        // What was torn or damaged was so when the directory was read as it was.
        let recovery = &mut opened.recovery;
        recovery.schema = schema;
        (recovery.torn, recovery.lost) = (found.torn, found.lost);
        recovery.elapsed += found.elapsed;
    }
    Ok(opened)
}

/// Opens a directory that is a database, or empty and to be written.
fn open_directory(path: &Path, read_only: bool) -> Result<Disk, LogError> {
    let place = || path.display().to_string();
    let failed = |source| LogError::Io { doing: "opening the directory", file: place(), source };
    let disk = if read_only { Disk::open_to_read(path) } else { Disk::open(path) }.map_err(failed)?;
    let foreign = |name: &str| Name::parse(name).is_none() && name != LOST_AND_FOUND;
    let is_manifest = |name: &str| Name::parse(name) == Some(Name::Manifest);
    if disk.any(is_manifest).map_err(failed)?.is_none()
        && let Some(found) = disk.any(foreign).map_err(failed)?
    {
        return Err(LogError::NotADatabase { place: place(), found });
    }
    Ok(disk)
}
