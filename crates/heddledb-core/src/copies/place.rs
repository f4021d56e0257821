//! Where copies are, or are to be.

use crate::log::{LogError, Name, again};
use crate::settings::Place;
use crate::storage::{Disk, Storage};
use std::sync::Arc;

/// Opens the place for a copy, which must be empty.
///
/// # Errors
/// [`LogError::NotEmpty`]; the system's.
pub fn open_empty(place: &Place) -> Result<Arc<dyn Storage>, LogError> {
    let path = match place {
        Place::Storage(storage) => return Ok(Arc::clone(storage)),
        Place::Path(path) => path,
    };
    let place = || path.display().to_string();
    let failed = |source| LogError::Io { doing: "opening the directory", file: place(), source };
    let disk = Disk::open(path).map_err(failed)?;
    // A lock file is left by whoever has opened the directory before.
    let is_something = |name: &str| Name::parse(name) != Some(Name::Lock) && name != LOST_AND_FOUND;
    match disk.any(is_something).map_err(failed)? {
        None => Ok(Arc::new(disk)),
        Some(found) => Err(LogError::NotEmpty { place: place(), found }),
    }
}

/// A file system's own directory, which is in the way of nobody.
pub const LOST_AND_FOUND: &str = "lost+found";

/// A copy has a directory of its own. Asked again once it is locked.
///
/// # Errors
/// [`LogError::NotEmpty`]; the system's.
pub fn refuse_unless_empty(storage: &dyn Storage) -> Result<(), LogError> {
    let names = again(|| storage.list()).map_err(LogError::io(storage, "listing the files of", ""))?;
    match names.into_iter().next() {
        None => Ok(()),
        Some(found) => Err(LogError::NotEmpty { place: storage.place(), found }),
    }
}

/// Opens the place of a copy that is there: to be written to, or only read. No directory is made.
///
/// # Errors
/// The system's.
pub fn open_copy(place: &Place, to_read: bool) -> Result<Arc<dyn Storage>, LogError> {
    let path = match place {
        Place::Storage(storage) => return Ok(Arc::clone(storage)),
        Place::Path(path) => path,
    };
    let failed = |source| LogError::Io {
        doing: "opening the directory of the copy",
        file: path.display().to_string(),
        source,
    };
    let to_be_read = Disk::open_to_read(path).map_err(failed)?;
    Ok(Arc::new(if to_read { to_be_read } else { Disk::open(path).map_err(failed)? }))
}
