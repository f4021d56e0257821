//! A directory as a whole: how it begins, which of its files count, how others are kept out.

use super::manifest::Manifest;
use super::segment::Name;
use super::{LogError, again};
use crate::storage::{CopiedWhileOpen, Guard, Storage};

impl Manifest {
    /// The manifest of a directory that nothing was written to, of this number.
    pub fn fresh(directory: u64) -> Self {
        Self {
            directory,
            next_generation: 1,
            floor: 1,
            relations: Vec::new(),
            checkpoint: None,
            generations: Vec::new(),
            log_from: 1,
            kept: Vec::new(),
            origin: None,
            procedures: Vec::new(),
            changes: 0,
        }
    }

    /// Says that from here on rows are not what the log so far made of them: what follows is in later generations only.
    pub fn break_log(&mut self) {
        // A generation that never was: a copy that follows the log up to this one is told apart from one that begins after it.
        self.next_generation += 1;
        self.log_from = self.next_generation;
        self.kept.clear();
    }

    /// Whether a file of this name is one that counts.
    pub fn lists(&self, name: Name) -> bool {
        match name {
            Name::Log { generation, file } => {
                let mut all = self.kept.iter().chain(&self.generations);
                all.any(|listed| listed.number == generation && file < listed.files)
            }
            Name::Checkpoint { number, part } => self
                .checkpoint
                .as_ref()
                .is_some_and(|listed| listed.number == number && usize::from(part) < listed.parts.len()),
            Name::Manifest | Name::Lock => true,
            Name::NewManifest => false,
        }
    }
}

/// Keeps others out of a directory.
///
/// # Errors
/// [`LogError::Locked`], [`LogError::CopiedWhileOpen`]; the system's.
pub fn lock_storage(storage: &dyn Storage) -> Result<Box<dyn Guard>, LogError> {
    again(|| storage.lock()).map_err(|source| match source.kind() {
        std::io::ErrorKind::WouldBlock => LogError::Locked { place: storage.place() },
        _ if source.get_ref().is_some_and(|inner| inner.is::<CopiedWhileOpen>()) => {
            LogError::CopiedWhileOpen { place: storage.place() }
        }
        _ => LogError::io(storage, "locking", "")(source),
    })
}

/// Removes the log's and checkpoints' files that none of the manifests lists.
///
/// # Errors
/// The system's.
pub fn remove_unlisted(storage: &dyn Storage, manifests: [Option<&Manifest>; 2]) -> Result<(), LogError> {
    let listed = |name: Name| match name {
        Name::Manifest | Name::Lock => true,
        _ => manifests.iter().flatten().any(|manifest| manifest.lists(name)),
    };
    let names = again(|| storage.list()).map_err(LogError::io(storage, "listing the files of", ""))?;
    let mut removed = false;
    for name in names {
        if Name::parse(&name).is_some_and(|parsed| !listed(parsed)) {
            again(|| storage.remove(&name)).map_err(LogError::io(storage, "removing", &name))?;
            removed = true;
        }
    }
    if removed {
        again(|| storage.sync_names()).map_err(LogError::io(storage, "syncing the names of", ""))?;
    }
    Ok(())
}
