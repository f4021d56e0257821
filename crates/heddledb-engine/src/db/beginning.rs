//! What an opening writes, when it is certain that the directory is opened: before that nothing, so a directory that is refused is as it
//! was.
//!
//! **Mechanism.** What was read is made durable, since the process that wrote it may have been killed before it was: the last round and the
//! manifest are written again. Last, a new manifest ends the old generations at the last durable epoch, so that what was dropped stays
//! dropped when the directory is opened again, and begins a new generation.
//!
//! Where the log holds calls, this follows when they were made again, and else when all rows are loaded.

use crate::durability::{NewFiles, create_generation};
use crate::log::{Generation, LogError, Manifest, Name, SegmentHeader, Survey, again, remove_unlisted};
use crate::mutant::{Mutant, planted};
use crate::settings::LogOptions;
use crate::storage::{Storage, write_all};
use std::sync::Arc;

/// What is to be written.
pub(super) struct Beginning {
    /// The generations as the manifest in force lists them, and what is there of them.
    pub found: Vec<(Generation, Survey)>,
    /// The new manifest, without the generation that begins.
    pub manifest: Manifest,
}

/// Bytes that are written again at once.
const COPY_BYTES: usize = 1 << 20;

impl Beginning {
    /// Writes it. Returns the manifest that is in force then, and the files of the new generation.
    ///
    /// # Errors
    /// [`LogError::Io`]; the directory holds what it held, and can be opened again.
    pub fn write(
        self,
        storage: &Arc<dyn Storage>,
        options: &LogOptions,
    ) -> Result<(Manifest, NewFiles), LogError> {
        if !planted(Mutant::RecoveryTailNotRewritten) {
            self.settle(&**storage)?;
        }
        Self::begin(self.manifest, storage, options)
    }

    /// Makes the last round of each generation that has no end durable. It may have been read from the
    /// system's memory: when the process was killed before its sync, or after one that failed. Then another
    /// sync does not help, so it is written again, over the same bytes.
    fn settle(&self, storage: &dyn Storage) -> Result<(), LogError> {
        for (generation, survey) in &self.found {
            if survey.lost.is_some() && survey.rounds > 0 {
                self.mend(storage, generation)?;
            }
            for (number, surveyed) in survey.files.iter().enumerate() {
                if generation.end.is_some() || surveyed.last >= surveyed.bytes {
                    continue;
                }
                let name = Name::Log { generation: generation.number, file: number as u8 }.to_string();
                let io = |doing| LogError::io(storage, doing, &name);
                let file = again(|| storage.open(&name)).map_err(io("opening"))?;
                let mut at = surveyed.last;
                let mut buffer = vec![0; COPY_BYTES.min((surveyed.bytes - at) as usize)];
                while at < surveyed.bytes {
                    let want = buffer.len().min((surveyed.bytes - at) as usize);
                    let read = again(|| file.read_at(&mut buffer[..want], at)).map_err(io("reading"))?;
                    if read == 0 {
                        let end = std::io::ErrorKind::UnexpectedEof.into();
                        return Err(io("reading")(end));
                    }
                    write_all(&*file, &buffer[..read], at).map_err(io("writing"))?;
                    at += read as u64;
                }
                again(|| file.sync()).map_err(io("syncing"))?;
            }
        }
        Ok(())
    }

    /// Gives each file of a salvaged generation its header, so that what is left of it can be opened again.
    fn mend(&self, storage: &dyn Storage, generation: &Generation) -> Result<(), LogError> {
        for number in 0..generation.files {
            let name = Name::Log { generation: generation.number, file: number }.to_string();
            let io = |doing| LogError::io(storage, doing, &name);
            let file = match again(|| storage.open(&name)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => again(|| storage.create(&name)),
                opened => opened,
            };
            let file = file.map_err(io("opening"))?;
            let header =
                SegmentHeader::of_log(self.manifest.directory, generation.number, number, generation.files);
            write_all(&*file, &header.encode(), 0).map_err(io("writing"))?;
            again(|| file.sync()).map_err(io("syncing"))?;
        }
        again(|| storage.sync_names()).map_err(LogError::io(storage, "syncing the names of", ""))?;
        Ok(())
    }

    /// Makes the new manifest durable, with a new generation, and removes what no longer counts.
    fn begin(
        mut manifest: Manifest,
        shared: &Arc<dyn Storage>,
        options: &LogOptions,
    ) -> Result<(Manifest, NewFiles), LogError> {
        let storage = &**shared;
        // What neither the manifest in force nor the new one lists: left by a crash.
        let old = Manifest::read(storage)?;
        // The manifest in force has the name, but perhaps not durably: a power cut may bring back the one
        // before. So it is replaced by itself, before a file is made that it must list, or one removed that
        // the other lists.
        if old.is_none() || !planted(Mutant::RecoveryManifestTrusted) {
            old.as_ref().unwrap_or(&manifest).replace(storage)?;
        }
        remove_unlisted(storage, [old.as_ref(), Some(&manifest)])?;
        let files = match options.files {
            0 => Vec::new(),
            _ => create_generation(shared, &mut manifest, options)?,
        };
        manifest.replace(storage)?;
        remove_unlisted(storage, [Some(&manifest), None])?;
        Ok((manifest, files))
    }
}
