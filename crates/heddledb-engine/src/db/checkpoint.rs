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
//! The cut is consistent, so what is replayed over it need not be idempotent (PITFALLS X7, X14).

use super::recovery::remove_unlisted;
use super::store::AnyStore;
use crate::durability::RedoLog;
use crate::epoch::EpochClock;
use crate::error::Result;
use crate::index::Walk;
use crate::log::{
    Checkpoint, Compression, Encoder, Kind, Label, LogError, Manifest, Name, Part, Place, RelationEntry,
    SEGMENT_HEADER_BYTES, SegmentHeader, Standing, WritingRows, again,
};
use crate::metrics::CheckpointReport;
use crate::mutant::{Mutant, planted};
use crate::snapshot::{Boundaries, Boundary};
use crate::storage::{File, Storage, write_all};
use crate::sync::{AtomicU64, Ordering, in_parallel, now_ns};
use std::sync::Arc;
use std::time::Duration;

/// Words of a frame's payload: a mebibyte.
const FRAME_WORDS: usize = 1 << 17;

/// What a checkpoint needs of a database.
pub(super) struct Source<'a> {
    pub log: &'a RedoLog,
    pub clock: &'a EpochClock,
    pub boundaries: &'a Boundaries,
    pub stores: Vec<&'a dyn AnyStore>,
    pub threads: usize,
    /// The first place in the clock that is no session's: those of the threads are from there on.
    pub place: usize,
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
        let parts = self.write_parts(&*storage, &old, number, epoch)?;
        drop(held);
        let sum = |(rows, bytes), part: &Part| (rows + part.rows, bytes + part.bytes);
        let (rows, bytes) = parts.iter().fold((0, 0), sum);
        let manifest = self.log.between_rounds(|files| {
            let mut manifest = files.manifest().clone();
            manifest.checkpoint = Some(Checkpoint { number, epoch, parts });
            // Generations before the rotation hold no later epoch than the checkpoint.
            manifest.generations.retain(|generation| generation.end.is_none());
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
    ) -> Result<Vec<Part>> {
        // Left over from an attempt that failed.
        remove_unlisted(storage, [Some(manifest), None])?;
        let listed = |store: &dyn AnyStore| {
            let is_it = |entry: &&RelationEntry| {
                entry.name == store.layout().name && entry.standing != Standing::Removed
            };
            manifest.relations.iter().find(is_it).map(|entry| entry.id)
        };
        let relations: Vec<(&dyn AnyStore, u16)> =
            self.stores.iter().filter_map(|store| Some((*store, listed(*store)?))).collect();
        let next = AtomicU64::new(0);
        let parts = in_parallel(0..self.threads, |_, part| -> Result<Part, LogError> {
            let place = Place { directory: manifest.directory, generation: number, file: part as u8 };
            let mut out = PartFile::create(storage, place, self.threads as u8, epoch)?;
            loop {
                // Relaxed: a number of its own for each.
                let relation = next.fetch_add(1, Ordering::Relaxed) as usize;
                let Some((store, id)) = relations.get(relation) else { return out.finish() };
                out.relation(self.clock, self.place + part, *store, *id)?;
            }
        })?;
        again(|| storage.sync_names()).map_err(LogError::io(storage, "syncing the names of", ""))?;
        Ok(parts)
    }
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

/// A boundary, until it goes out of scope.
struct Held<'a> {
    boundaries: &'a Boundaries,
    boundary: Boundary,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.boundaries.release(self.boundary);
    }
}

/// A part being written.
struct PartFile<'a> {
    storage: &'a dyn Storage,
    name: String,
    file: Box<dyn File>,
    place: Place,
    epoch: u64,
    encoder: Encoder,
    payload: Vec<u64>,
    bytes: Vec<u8>,
    frames: u64,
    part: Part,
}

impl<'a> PartFile<'a> {
    fn create(storage: &'a dyn Storage, place: Place, files: u8, epoch: u64) -> Result<Self, LogError> {
        let name = Name::Checkpoint { number: place.generation, part: place.file }.to_string();
        let file = again(|| storage.create(&name)).map_err(LogError::io(storage, "creating", &name))?;
        let Place { directory, generation, file: number } = place;
        let header = SegmentHeader { kind: Kind::Checkpoint, directory, generation, file: number, files };
        let bytes = header.encode().to_vec();
        let part = Part { bytes: SEGMENT_HEADER_BYTES as u64, rows: 0 };
        let new = Self {
            storage,
            name,
            file,
            place,
            epoch,
            encoder: Encoder::new(Compression::None),
            payload: Vec::new(),
            bytes,
            frames: 0,
            part,
        };
        new.write(0)?;
        Ok(new)
    }

    /// Writes all rows of a relation.
    fn relation(
        &mut self,
        clock: &EpochClock,
        worker: usize,
        store: &dyn AnyStore,
        id: u16,
    ) -> Result<(), LogError> {
        let (key_words, data_words) = (store.relation().key_words as u8, store.layout().words as u32);
        let mut walk = Walk::default();
        let mut rows = WritingRows::begin(&mut self.payload, id, key_words, data_words, FRAME_WORDS);
        while walk != Walk::End {
            clock.pin(worker);
            let payload = &mut self.payload;
            store.walk(&mut walk, self.epoch, &mut |key, data| {
                rows.row(payload, key);
                payload.extend_from_slice(data);
            });
            clock.unpin(worker);
            // A leaf or bucket more than a frame's worth does no harm.
            if rows.is_full(&self.payload) {
                self.frame(&rows)?;
                rows = WritingRows::begin(&mut self.payload, id, key_words, data_words, FRAME_WORDS);
            }
        }
        if rows.rows(&self.payload) > 0 { self.frame(&rows) } else { Ok(()) }
    }

    fn frame(&mut self, rows: &WritingRows) -> Result<(), LogError> {
        self.frames += 1;
        let label = Label::checkpoint(self.place.file, self.frames, self.epoch);
        self.bytes.clear();
        self.encoder.encode(&mut self.bytes, self.place, self.part.bytes, &label, &self.payload);
        let at = self.part.bytes;
        self.part.rows += rows.rows(&self.payload);
        self.part.bytes += self.bytes.len() as u64;
        self.write(at)
    }

    fn write(&self, at: u64) -> Result<(), LogError> {
        write_all(&*self.file, &self.bytes, at).map_err(LogError::io(self.storage, "writing", &self.name))
    }

    fn finish(self) -> Result<Part, LogError> {
        if planted(Mutant::CheckpointPartNotSynced) {
            return Ok(self.part);
        }
        again(|| self.file.sync()).map_err(LogError::io(self.storage, "syncing", &self.name))?;
        Ok(self.part)
    }
}
