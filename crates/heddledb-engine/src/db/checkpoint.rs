//! Checkpoints: the rows as of one moment, beside running transactions, and a log cut short behind it.
//!
//! **Mechanism.**
//! 1. The log goes on in a new generation, so every epoch in the old ones is at most the present one.
//! 2. A snapshot is taken. It stands at the present epoch or later: it holds all of the old generations.
//! 3. Its rows are written to part files, by several threads, each relation by one of them. No transaction
//!    waits for that; the snapshot keeps old versions as any does.
//! 4. A new manifest lists the checkpoint and only the generations since step 1. That is the instant at
//!    which it counts; before it the old checkpoint and all generations do.
//! 5. What the manifest no longer lists is removed.
//!
//! Of the generations before the checkpoint, as many are kept as were asked for, the latest: copies are continued with them.
//!
//! The cut is consistent, so what is replayed over it need not be idempotent.

use super::parts::{Held, Output, Parts, sums};
use super::store::Store;
use super::walkers::Walkers;
use crate::durability::RedoLog;
use crate::epoch::EpochClock;
use crate::error::Result;
use crate::log::{
    Checkpoint, Generation, LogError, Manifest, Name, RelationEntry, Standing, again, remove_unlisted,
};
use crate::metrics::CheckpointReport;
use crate::snapshot::Boundaries;
use crate::storage::{Storage, now_ms};
use crate::sync::now_ns;
use std::sync::Arc;
use std::time::Duration;

/// What a checkpoint needs of a database.
pub(super) struct Source<'a> {
    pub log: &'a RedoLog,
    pub clock: &'a EpochClock,
    pub boundaries: &'a Boundaries,
    pub stores: Vec<&'a Store>,
    pub walkers: &'a Walkers,
}

impl Source<'_> {
    /// Takes a checkpoint. One at a time.
    pub fn take(&self) -> Result<CheckpointReport> {
        let begun = now_ns();
        let (storage, old) = self.log.between_rounds(|files| {
            files.rotate()?;
            Ok((Arc::clone(files.storage()), files.manifest().clone()))
        })?;
        let held = Held { boundaries: self.boundaries, boundary: self.boundaries.now(self.clock)? };
        let number = old.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.number) + 1;
        let epoch = held.boundary.epoch();
        let time = now_ms(&*storage);
        let checkpoint = self.write_parts(&*storage, &old, number, epoch, time).inspect_err(|_| {
            // No manifest lists what was written of it, and a full disk needs the room. What cannot be removed now,
            // the next checkpoint or the next opening removes.
            let _ = remove_unlisted(&*storage, [Some(&old), None]);
        })?;
        drop(held);
        let (rows, bytes) = sums(&checkpoint);
        let manifest = self.log.between_rounds(|files| {
            let mut manifest = files.manifest().clone();
            manifest.checkpoint = Some(checkpoint);
            // Generations before the rotation hold no later epoch than the checkpoint.
            let ended = |generation: &mut Generation| generation.end.is_some();
            let superfluous: Vec<Generation> = manifest.generations.extract_if(.., ended).collect();
            manifest.kept.extend(superfluous);
            forget(&**files.storage(), &mut manifest, files.keep_bytes())?;
            settle(&mut manifest.relations);
            files.replace_manifest(manifest)?;
            Ok(files.manifest().clone())
        })?;
        // The checkpoint counts. What cannot be removed now, the next one or the next opening removes.
        let _ = remove_unlisted(&*storage, [Some(&manifest), None]);
        let mut report = CheckpointReport::default();
        (report.epoch, report.rows, report.bytes) = (epoch, rows, bytes);
        report.elapsed = Duration::from_nanos(now_ns() - begun);
        Ok(report)
    }

    /// Writes the parts of a checkpoint, durable with their names.
    fn write_parts(
        &self,
        storage: &dyn Storage,
        manifest: &Manifest,
        number: u64,
        epoch: u64,
        time: u64,
    ) -> Result<Checkpoint> {
        // Left over from an attempt that failed.
        remove_unlisted(storage, [Some(manifest), None])?;
        let listed = |store: &Store| {
            let is_it = |entry: &&RelationEntry| {
                entry.name == store.layout().name && entry.standing != Standing::Removed
            };
            manifest.relations.iter().find(is_it).map(|entry| entry.id)
        };
        let parts = Parts {
            storage,
            directory: manifest.directory,
            number,
            moment: epoch,
            epoch,
            time,
            clock: self.clock,
            walkers: self.walkers,
            relations: self
                .stores
                .iter()
                .filter_map(|store| Some(Output::of(store, listed(store)?)))
                .collect(),
            written: &|_| {},
        };
        Ok(parts.write()?)
    }
}

/// Keeps the last generations before the checkpoint, as far as their files have so many bytes.
fn forget(storage: &dyn Storage, manifest: &mut Manifest, keep_bytes: u64) -> Result<(), LogError> {
    let (mut bytes, mut from) = (0_u64, manifest.kept.len());
    while let Some(generation) = from.checked_sub(1).map(|last| manifest.kept[last])
        && keep_bytes > 0
    {
        for file in 0..generation.files {
            let name = Name::Log { generation: generation.number, file }.to_string();
            let length = again(|| storage.open(&name)).and_then(|file| again(|| file.len()));
            bytes += length.map_err(LogError::io(storage, "reading the length of", &name))?;
        }
        if bytes > keep_bytes {
            break;
        }
        from -= 1;
    }
    if from > 0 {
        manifest.log_from = manifest.log_from.max(manifest.kept[from - 1].number + 1);
        manifest.kept.drain(..from);
    }
    Ok(())
}

/// What a checkpoint, and a log without the generations before it, make of the relations: a built index is in it, and of a
/// removed one there is nothing left.
fn settle(relations: &mut Vec<RelationEntry>) {
    relations.retain(|entry| entry.standing != Standing::Removed);
    for entry in relations {
        if entry.standing == Standing::Unbuilt {
            entry.standing = Standing::Whole;
        }
    }
}
