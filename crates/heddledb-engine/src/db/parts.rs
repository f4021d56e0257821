//! Rows as of one moment, written to part files: of a checkpoint, or of a copy.
//!
//! **Mechanism.** Several threads write a file each, and take the relations one by one. A thread is pinned in the epoch for a
//! leaf or bucket at a time, from a place in the clock that is no session's; no transaction waits for it. The boundary
//! that the caller holds keeps the old versions.

use super::store::Store;
use super::walkers::{Buffers, Walkers};
use crate::epoch::EpochClock;
use crate::index::Walk;
use crate::log::{
    Checkpoint, Compression, Encoder, Kind, Label, LogError, Name, Part, Place, SEGMENT_HEADER_BYTES,
    SegmentHeader, WritingRows, again,
};
use crate::migration::Conversion;
use crate::mutant::{Mutant, planted};
use crate::snapshot::{Boundaries, Boundary};
use crate::storage::{File, Storage, write_all};
use crate::sync::{AtomicU64, Ordering, in_parallel};

/// Words of a frame's payload: a mebibyte.
const FRAME_WORDS: usize = 1 << 17;

/// A boundary, until it goes out of scope.
pub(super) struct Held<'a> {
    pub boundaries: &'a Boundaries,
    pub boundary: Boundary,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.boundaries.release(self.boundary);
    }
}

/// What the files say of themselves, and who writes them.
pub(super) struct Parts<'a> {
    pub storage: &'a dyn Storage,
    pub directory: u64,
    /// The checkpoint's.
    pub number: u64,
    /// As of which epoch the rows are read, and of which they are in the files: the same, but where all are older.
    pub moment: u64,
    pub epoch: u64,
    /// When that was, in milliseconds since 1970.
    pub time: u64,
    pub clock: &'a EpochClock,
    pub walkers: &'a Walkers,
    pub relations: Vec<Output<'a>>,
    /// Is told after each frame how many rows and bytes it has, and after each relation.
    pub written: &'a (dyn Fn(Written) + Sync),
}

/// A relation that is written.
pub(super) struct Output<'a> {
    pub store: &'a Store,
    /// The number that it has in the files.
    pub id: u16,
    /// How its rows are converted, if they are.
    pub conversion: Option<&'a Conversion>,
    /// Is told the key and the data words of each row as it is written; its values are those of the store.
    pub observe: Option<Box<Observe<'a>>>,
}

/// Looks at rows as they are written.
pub(super) type Observe<'a> = dyn Fn(&[u64], &[u64]) + Sync + 'a;

impl<'a> Output<'a> {
    /// A relation as it is.
    pub fn of(store: &'a Store, id: u16) -> Self {
        Self { store, id, conversion: None, observe: None }
    }
}

/// What was just written.
#[derive(Clone, Copy)]
pub(super) enum Written {
    /// So many rows in so many bytes.
    Frame { rows: u64, bytes: u64 },
    /// The last frame of a relation.
    Relation,
}

impl Parts<'_> {
    /// Writes all rows, durable with the names of the files.
    pub fn write(&self) -> Result<Checkpoint, LogError> {
        let next = AtomicU64::new(0);
        let parts = in_parallel(0..self.walkers.count(), |_, part| -> Result<Part, LogError> {
            let mut out = PartFile::create(self, part as u8)?;
            loop {
                // Relaxed: a number of its own for each.
                let relation = next.fetch_add(1, Ordering::Relaxed) as usize;
                let Some(relation) = self.relations.get(relation) else { return out.finish() };
                out.relation(part, relation)?;
                (self.written)(Written::Relation);
            }
        })?;
        let storage = self.storage;
        again(|| storage.sync_names()).map_err(LogError::io(storage, "syncing the names of", ""))?;
        Ok(Checkpoint { number: self.number, epoch: self.epoch, time: self.time, parts })
    }
}

/// Rows and bytes of a checkpoint.
pub(super) fn sums(checkpoint: &Checkpoint) -> (u64, u64) {
    checkpoint.parts.iter().fold((0, 0), |(rows, bytes), part| (rows + part.rows, bytes + part.bytes))
}

/// A part being written.
struct PartFile<'a> {
    of: &'a Parts<'a>,
    name: String,
    file: Box<dyn File>,
    place: Place,
    encoder: Encoder,
    buffers: Buffers,
    frames: u64,
    part: Part,
}

impl<'a> PartFile<'a> {
    fn create(of: &'a Parts<'a>, number: u8) -> Result<Self, LogError> {
        let place = Place { directory: of.directory, generation: of.number, file: number };
        let name = Name::Checkpoint { number: place.generation, part: place.file }.to_string();
        let file = again(|| of.storage.create(&name)).map_err(LogError::io(of.storage, "creating", &name))?;
        let Place { directory, generation, file: number } = place;
        let files = of.walkers.count() as u8;
        let header = SegmentHeader { kind: Kind::Checkpoint, directory, generation, file: number, files };
        let mut buffers = of.walkers.take_buffers(number.into());
        buffers.payload.clear();
        buffers.bytes.clear();
        buffers.bytes.extend_from_slice(&header.encode());
        let part = Part { bytes: SEGMENT_HEADER_BYTES as u64, rows: 0 };
        let encoder = Encoder::new(Compression::None);
        let new = Self { of, name, file, place, encoder, buffers, frames: 0, part };
        new.write(0)?;
        if number == 0 {
            // A directory that was cut off is known by it: files without a manifest are refused.
            let storage = of.storage;
            again(|| storage.sync_names()).map_err(LogError::io(storage, "syncing the names of", ""))?;
        }
        Ok(new)
    }

    /// Writes all rows of a relation.
    fn relation(&mut self, walker: usize, output: &Output<'_>) -> Result<(), LogError> {
        let Output { store, id, conversion, observe } = output;
        let (key_words, layout) = match conversion {
            None => (store.relation.key_words, store.layout()),
            Some(conversion) => (conversion.key_words(), conversion.layout()),
        };
        let (data_words, slots, heap) = (layout.words, layout.slots, store.heap());
        let mut walk = Walk::default();
        let begin = |payload: &mut Vec<u64>| {
            WritingRows::begin(
                payload,
                *id,
                key_words as u8,
                data_words as u32,
                !slots.is_empty(),
                FRAME_WORDS,
            )
        };
        let mut rows = begin(&mut self.buffers.payload);
        // Of one leaf or bucket, where values make its rows long.
        let mut whole: Vec<(WritingRows, Vec<u64>)> = Vec::new();
        // The words of a row that was converted, and what is wrong with the first that could not be.
        let (mut new_key, mut new_data, mut wrong) = (Vec::new(), Vec::new(), None);
        while walk != Walk::End {
            let payload = &mut self.buffers.payload;
            let mut split = |payload: &mut Vec<u64>, rows: &mut WritingRows| {
                if !slots.is_empty() && payload.len() > FRAME_WORDS {
                    let full = std::mem::take(payload);
                    whole.push((std::mem::replace(rows, begin(payload)), full));
                }
            };
            self.of.walkers.pinned(self.of.clock, walker, || {
                store.walk(&mut walk, self.of.moment, &mut |key, data| match conversion {
                    None => {
                        observe.iter().for_each(|observe| observe(key, data));
                        let start = rows.row(payload, key);
                        payload.extend_from_slice(data);
                        heap.append(slots.iter().copied(), start, payload);
                        rows.end_row(payload, start);
                        split(payload, &mut rows);
                    }
                    Some(conversion) if wrong.is_none() => {
                        new_key.clear();
                        new_data.clear();
                        match conversion.row(data, heap, walker, &mut new_key, &mut new_data) {
                            Ok(()) => {
                                observe.iter().for_each(|observe| observe(&new_key, &new_data));
                                let start = rows.row(payload, &new_key);
                                payload.extend_from_slice(&new_data);
                                heap.append(slots.iter().copied(), start, payload);
                                rows.end_row(payload, start);
                                heap.discard(walker);
                                split(payload, &mut rows);
                            }
                            Err(what) => wrong = Some(what),
                        }
                    }
                    Some(_) => {}
                });
            });
            if let Some(what) = wrong {
                let what = format!("table {}, {what}", store.relation.name());
                return Err(LogError::Migration { place: self.of.storage.place(), what });
            }
            for (full, words) in whole.drain(..) {
                let next = std::mem::replace(&mut self.buffers.payload, words);
                self.frame(&full)?;
                self.buffers.payload = next;
            }
            // A leaf or bucket more than a frame's worth does no harm.
            if rows.is_full(&self.buffers.payload) {
                self.frame(&rows)?;
                rows = begin(&mut self.buffers.payload);
            }
        }
        if rows.rows() > 0 { self.frame(&rows) } else { Ok(()) }
    }

    fn frame(&mut self, rows: &WritingRows) -> Result<(), LogError> {
        self.frames += 1;
        let label = Label::checkpoint(self.place.file, self.frames, self.of.epoch);
        self.buffers.bytes.clear();
        self.encoder.encode(
            &mut self.buffers.bytes,
            self.place,
            self.part.bytes,
            &label,
            &self.buffers.payload,
        );
        let at = self.part.bytes;
        let (rows, bytes) = (rows.rows(), self.buffers.bytes.len() as u64);
        self.part.rows += rows;
        self.part.bytes += bytes;
        self.write(at)?;
        (self.of.written)(Written::Frame { rows, bytes });
        Ok(())
    }

    fn write(&self, at: u64) -> Result<(), LogError> {
        write_all(&*self.file, &self.buffers.bytes, at).map_err(LogError::io(
            self.of.storage,
            "writing",
            &self.name,
        ))
    }

    fn finish(mut self) -> Result<Part, LogError> {
        // Long values have made them longer than the next may need.
        self.buffers.payload.shrink_to(2 * FRAME_WORDS);
        self.buffers.bytes.shrink_to(2 * 8 * FRAME_WORDS);
        self.of.walkers.leave_buffers(self.place.file.into(), self.buffers);
        if planted(Mutant::CheckpointPartNotSynced) {
            return Ok(self.part);
        }
        again(|| self.file.sync()).map_err(LogError::io(self.of.storage, "syncing", &self.name))?;
        Ok(self.part)
    }
}
