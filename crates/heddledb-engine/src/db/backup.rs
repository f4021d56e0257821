//! Copies that open: the rows as of one moment, beside running transactions, in a directory of their own.
//!
//! **Mechanism.** The copy's place is locked, and must be empty. A snapshot is taken, and its rows are written to part files
//! as those of a checkpoint are. Last, a manifest lists them: that is the instant at which there is a copy. Until then the place
//! holds files without a manifest, which nobody opens; after a failure they are removed.
//!
//! The moment of a snapshot is no earlier than the call, and a prefix of the serial order, so the copy holds all that was
//! committed before the call and nothing of which it lacks the cause. The log has no part in it: a database in memory can be
//! copied, and one whose log has failed.

use super::declared::describe;
use super::parts::{Held, Output, Parts, Written, sums};
use super::recovery::fresh_manifest;
use super::store::AnyStore;
use super::walkers::Walkers;
use crate::backup::{Backup, BackupProgress, BackupReport};
use crate::durability::remove_unlisted;
use crate::epoch::EpochClock;
use crate::error::Result;
use crate::log::{LogError, Manifest, Name, again};
use crate::mutant::{Mutant, planted};
use crate::snapshot::Boundaries;
use crate::storage::Storage;
use crate::sync::{Mutex, lock, now_ns, sleep};
use std::time::Duration;

/// What a copy needs of a database.
pub(super) struct Source<'a> {
    pub clock: &'a EpochClock,
    pub boundaries: &'a Boundaries,
    /// All relations that there are. In memory they are made while transactions run.
    pub stores: &'a dyn Fn() -> Vec<&'a dyn AnyStore>,
    pub walkers: &'a Walkers,
}

impl Source<'_> {
    /// Takes the copy, into a storage that is locked for it.
    pub fn take(&self, backup: &Backup, storage: &dyn Storage) -> Result<BackupReport> {
        let begun = now_ns();
        refuse_unless_empty(storage)?;
        let taken = self.write(backup, storage, begun).inspect_err(|_| clear(storage))?;
        let mut report = BackupReport::default();
        let checkpoint = taken.checkpoint.expect("a copy is a checkpoint");
        (report.rows, report.bytes) = sums(&checkpoint);
        report.epoch = checkpoint.epoch;
        report.elapsed = Duration::from_nanos(now_ns() - begun);
        Ok(report)
    }

    fn write(&self, backup: &Backup, storage: &dyn Storage, begun: u64) -> Result<Manifest> {
        let mut manifest = fresh_manifest();
        let held = Held { boundaries: self.boundaries, boundary: self.boundaries.now(self.clock)? };
        // Only now: whatever was committed by this moment, in a table made a moment ago too, is in one of these. A later one is
        // empty as of this moment.
        let relations: Vec<Output<'_>> =
            (self.stores)().into_iter().zip(0..).map(|(store, id)| Output::of(store, id)).collect();
        manifest.relations = relations.iter().map(|output| describe(output.store, output.id)).collect();
        let progress = Mutex::new(BackupProgress::default());
        lock(&progress).of_relations = relations.len();
        let written = |written: Written| {
            let told = {
                // Held while it is told, so that nobody is told of less than before.
                let mut progress = lock(&progress);
                match written {
                    Written::Frame { rows, bytes } => {
                        progress.rows += rows;
                        progress.bytes += bytes;
                    }
                    Written::Relation => progress.relations += 1,
                }
                backup.tell(*progress);
                *progress
            };
            if let Some(pace) = backup.pace() {
                let due =
                    begun.saturating_add((u128::from(told.bytes) * 1_000_000_000 / u128::from(pace)) as u64);
                sleep(Duration::from_nanos(due.saturating_sub(now_ns())));
            }
        };
        let parts = Parts {
            storage,
            directory: manifest.directory,
            number: 1,
            epoch: held.boundary.epoch(),
            clock: self.clock,
            walkers: self.walkers,
            relations,
            written: &written,
        };
        if planted(Mutant::BackupManifestFirst) {
            manifest.replace(storage)?;
        }
        let checkpoint = parts.write()?;
        drop(held);
        manifest.floor = checkpoint.epoch + 1;
        manifest.checkpoint = Some(checkpoint);
        manifest.replace(storage)?;
        Ok(manifest)
    }
}

/// A copy has a directory of its own.
fn refuse_unless_empty(storage: &dyn Storage) -> Result<(), LogError> {
    let names = again(|| storage.list()).map_err(LogError::io(storage, "listing the files of", ""))?;
    match names.into_iter().next() {
        None => Ok(()),
        Some(found) => Err(LogError::NotEmpty { place: storage.place(), found }),
    }
}

/// Removes what was written of a copy that failed, so that another can be taken into the same place. What cannot be removed
/// opens for nobody, for it has no manifest: that is removed first.
fn clear(storage: &dyn Storage) {
    let manifest = Name::Manifest.to_string();
    let _ = again(|| storage.remove(&manifest));
    let _ = remove_unlisted(storage, [None, None]);
}
