//! The files of the generation that is being written.

use super::empty;
use crate::log::{
    Encoder, End, Generation, Kind, Label, LogError, Manifest, Name, PAYLOAD_WORDS_MAX, Place,
    SEGMENT_HEADER_BYTES, SegmentHeader, again, remove_unlisted,
};
use crate::mutant::{Mutant, planted};
use crate::settings::LogOptions;
use crate::storage::{File, Storage, now_ms, write_all};
use std::sync::Arc;
use std::time::Duration;

/// The open files of a generation, and what encodes their frames.
pub(crate) struct Files {
    storage: Arc<dyn Storage>,
    manifest: Manifest,
    generation: u64,
    rounds: u64,
    /// What the last of them closes, and the time of the last round of any generation.
    closed: u64,
    time: u64,
    /// Writes of the present generation, and what the generations before it hold since the last checkpoint.
    writes: u64,
    earlier: Due,
    files: Vec<OpenFile>,
    encoder: Encoder,
    options: LogOptions,
}

struct OpenFile {
    name: String,
    file: Box<dyn File>,
    place: Place,
    /// Where the next frame goes.
    end: u64,
    /// Up to where space was requested.
    reserved: u64,
    /// The frames of the round at hand.
    bytes: Vec<u8>,
    /// The payloads of the round at hand: what worker, from which word on, how many.
    parts: Vec<(usize, usize, usize)>,
}

/// Space is requested in steps of this many bytes.
const RESERVE_BYTES: u64 = 32 << 20;

/// What a recovery would have to replay.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    /// Bytes of log files.
    pub bytes: u64,
    /// Rounds.
    pub rounds: u64,
    /// Writes of transactions.
    pub writes: u64,
}

impl Due {
    /// About how long that takes one thread. Measured: commits of one small row, a round each, take 0.2 us where the
    /// rows are few, 0.4 us where there are a million of them; long rows come at 2 GB/s.
    pub fn time(&self) -> Duration {
        const NS_A_ROUND: u64 = 100;
        const NS_A_WRITE: u64 = 250;
        const BYTES_A_NS: u64 = 2;
        let ns = [self.rounds.saturating_mul(NS_A_ROUND), self.writes.saturating_mul(NS_A_WRITE)];
        Duration::from_nanos(ns[0].saturating_add(ns[1]).saturating_add(self.bytes / BYTES_A_NS))
    }

    /// This and more.
    pub fn and(self, more: Self) -> Self {
        Self {
            bytes: self.bytes + more.bytes,
            rounds: self.rounds + more.rounds,
            writes: self.writes + more.writes,
        }
    }
}

/// The open files of a new generation, with their names.
pub(crate) type NewFiles = Vec<(String, Box<dyn File>)>;

/// Creates the files of the next generation of `manifest`, durable with their names, and lists them in
/// it. The caller then makes the manifest durable.
pub(crate) fn create_generation(
    storage: &Arc<dyn Storage>,
    manifest: &mut Manifest,
    options: &LogOptions,
) -> Result<NewFiles, LogError> {
    let number = manifest.next_generation;
    let mut files = Vec::new();
    for file in 0..options.files {
        let name = Name::Log { generation: number, file }.to_string();
        let io = |doing| LogError::io(&**storage, doing, &name);
        let opened = again(|| storage.create(&name)).map_err(io("creating"))?;
        let header = SegmentHeader::of_log(manifest.directory, number, file, options.files);
        write_all(&*opened, &header.encode(), 0).map_err(io("writing"))?;
        again(|| opened.sync()).map_err(io("syncing"))?;
        files.push((name, opened));
    }
    again(|| storage.sync_names()).map_err(LogError::io(&**storage, "syncing the names of", ""))?;
    manifest.next_generation += 1;
    manifest.generations.push(Generation { number, files: options.files, kind: options.kind, end: None });
    Ok(files)
}

impl Files {
    /// The files of a generation that was just created; `manifest` lists it and is durable. Or none, until [`Files::begin`]. The generations before it
    /// hold what is `earlier`, and their last round is of `time`.
    pub fn new(
        storage: Arc<dyn Storage>,
        manifest: Manifest,
        files: NewFiles,
        options: LogOptions,
        earlier: Due,
        time: u64,
    ) -> Self {
        let mut new = Self {
            storage,
            manifest,
            generation: 0,
            rounds: 0,
            closed: 0,
            time,
            writes: 0,
            earlier,
            files: Vec::new(),
            encoder: Encoder::new(options.compression),
            options,
        };
        new.enter(files);
        new
    }

    fn enter(&mut self, files: NewFiles) {
        self.generation = self.manifest.next_generation - 1;
        (self.rounds, self.closed, self.writes) = (0, 0, 0);
        let place = |file| Place {
            directory: self.manifest.directory,
            generation: self.generation,
            file: file as u8,
        };
        self.files = files
            .into_iter()
            .enumerate()
            .map(|(number, (name, file))| OpenFile {
                name,
                file,
                place: place(number),
                end: SEGMENT_HEADER_BYTES as u64,
                reserved: 0,
                bytes: Vec::new(),
                parts: Vec::new(),
            })
            .collect();
    }

    /// Begins a generation, where none has been: `write` makes its files, and the manifest durable that lists it.
    pub fn begin(
        &mut self,
        write: impl FnOnce(&Arc<dyn Storage>, &LogOptions) -> Result<(Manifest, NewFiles), LogError>,
    ) -> Result<(), LogError> {
        assert!(self.files.is_empty(), "a generation is written");
        let (manifest, files) = write(&self.storage, &self.options)?;
        self.manifest = manifest;
        self.enter(files);
        Ok(())
    }

    /// The storage.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The manifest that is in force.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The number of the present generation, and how many of its rounds are written.
    pub fn written(&self) -> (u64, u64) {
        (self.generation, self.rounds)
    }

    /// The epoch that the last of these rounds closes; 0 without rounds.
    pub fn closed(&self) -> u64 {
        self.closed
    }

    /// When the last round was taken, in milliseconds since 1970.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// How many bytes of log are kept for copies.
    pub fn keep_bytes(&self) -> u64 {
        self.options.keep_bytes
    }

    /// What was logged since the last checkpoint.
    pub fn due(&self) -> Due {
        let bytes = self.files.iter().map(|file| file.end).sum();
        self.earlier.and(Due { bytes, rounds: self.rounds, writes: self.writes })
    }

    /// Puts another manifest into force.
    pub fn replace_manifest(&mut self, manifest: Manifest) -> Result<(), LogError> {
        manifest.replace(&*self.storage)?;
        if manifest.generations.iter().all(|generation| generation.end.is_none()) {
            self.earlier = Due::default();
        }
        self.manifest = manifest;
        Ok(())
    }

    /// Begins a new generation after a failure. Nothing is written to a file that was there before, and nothing is
    /// synced again: what the failed sync was to save may be lost, whatever a second sync says. What stands in the files
    /// behind the last round that was synced counts no more, whether it is there or not.
    ///
    /// It may be called again after it has failed.
    pub fn resume(&mut self) -> Result<(), LogError> {
        let storage = Arc::clone(&self.storage);
        // A manifest may have got the name in vain, and may list files of the next generation.
        let found = Manifest::read(&*storage)?;
        let mut manifest = self.manifest.clone();
        let next = found.map_or(0, |found| found.next_generation);
        manifest.next_generation = manifest.next_generation.max(next);
        // After this no other manifest comes back at a power cut, so what this one does not list may go.
        self.replace_manifest(manifest)?;
        remove_unlisted(&*storage, [Some(&self.manifest), None])?;
        if planted(Mutant::LogResumedInTheOldFiles) { Ok(()) } else { self.rotate() }
    }

    /// Ends the present generation and goes on in a new one. The buffers are empty.
    pub fn rotate(&mut self) -> Result<(), LogError> {
        if self.files.is_empty() {
            return Ok(());
        }
        let mut manifest = self.manifest.clone();
        if let Some(last) = manifest.generations.last_mut() {
            // Its last epochs are closed by the generation that follows.
            last.end = Some(End { rounds: self.rounds, epoch: u64::MAX });
        }
        if planted(Mutant::CheckpointLogDroppedEarly) {
            manifest.generations.clear();
        }
        let files = create_generation(&self.storage, &mut manifest, &self.options)?;
        self.replace_manifest(manifest)?;
        self.earlier = self.due();
        self.enter(files);
        Ok(())
    }

    /// Writes a round and makes it durable: payloads with the worker that they are of and their highest
    /// epoch. Returns the bytes written.
    pub fn write_round<'a>(
        &mut self,
        closed: u64,
        payloads: impl Iterator<Item = (usize, u64, &'a [u64])> + Clone,
    ) -> Result<u64, LogError> {
        let round = self.rounds + 1;
        // All commits of closed epochs have ended by now. A clock that was put back stands still until it has caught up.
        let time = now_ms(&*self.storage).max(self.time);
        let count = self.files.len();
        for file in &mut self.files {
            empty(&mut file.bytes);
            file.parts.clear();
        }
        for (number, (worker, _, payload)) in payloads.clone().enumerate() {
            let mut from = 0;
            while from < payload.len() {
                let words = whole_entries(&payload[from..]);
                self.files[worker % count].parts.push((number, from, words));
                from += words;
            }
        }
        if self.files.iter().all(|file| file.parts.is_empty()) {
            // A frame without entries, for what it says of the closed epoch.
            self.files[0].parts.push((usize::MAX, 0, 0));
        }
        let is_member = |file: &OpenFile| !file.parts.is_empty();
        let members =
            self.files.iter().enumerate().fold(0, |set, (n, file)| set | u64::from(is_member(file)) << n);
        let taken: Vec<(usize, u64, &[u64])> = payloads.collect();
        for file in &mut self.files {
            for part in 0..file.parts.len() {
                let (number, from, words) = file.parts[part];
                let (highest, payload) = taken
                    .get(number)
                    .map_or((0, &[][..]), |(_, highest, payload)| (*highest, &payload[from..from + words]));
                let (part, parts) = (part as u16, file.parts.len() as u16);
                let label = Label { kind: Kind::Log, round, closed, highest, time, members, part, parts };
                let offset = file.end + file.bytes.len() as u64;
                self.encoder.encode(&mut file.bytes, file.place, offset, &label, payload);
            }
        }
        let storage = &*self.storage;
        let mut members = self.files.iter_mut().filter(|file| is_member(file));
        let first = members.next().expect("a round has a member");
        let others: Vec<&mut OpenFile> = members.collect();
        let written = if others.is_empty() || !self.options.at_once {
            let mut files = std::iter::once(first).chain(others).collect::<Vec<_>>();
            let written = files.iter_mut().map(|file| file.put(storage)).sum::<Result<u64, _>>()?;
            files.iter_mut().try_for_each(|file| file.sync(storage))?;
            written
        } else {
            // One thread for each file, so that their devices work at once.
            std::thread::scope(|scope| {
                let threads: Vec<_> =
                    others.into_iter().map(|file| scope.spawn(move || file.write(storage))).collect();
                let mut written = first.write(storage);
                for thread in threads {
                    let other = thread.join().expect("writing a file does not panic");
                    written = written.and_then(|bytes| Ok(bytes + other?));
                }
                written
            })?
        };
        (self.rounds, self.closed, self.time) = (round, closed, time);
        self.writes += taken.iter().map(|(_, _, payload)| count_writes(payload)).sum::<u64>();
        Ok(written)
    }
}

impl OpenFile {
    /// Writes the frames of the round at hand, and syncs.
    fn write(&mut self, storage: &dyn Storage) -> Result<u64, LogError> {
        let written = self.put(storage)?;
        self.sync(storage)?;
        Ok(written)
    }

    /// Writes the frames of the round at hand.
    fn put(&mut self, storage: &dyn Storage) -> Result<u64, LogError> {
        let bytes = self.bytes.len() as u64;
        if self.end + bytes > self.reserved {
            let reserved = (self.end + bytes).next_multiple_of(RESERVE_BYTES);
            // A hint; a disk without room reports that at the write.
            let _ = self.file.reserve(reserved);
            self.reserved = reserved;
        }
        let failed = LogError::io(storage, "writing", &self.name);
        write_all(&*self.file, &self.bytes, self.end).map_err(failed)?;
        self.end += bytes;
        Ok(bytes)
    }

    /// Makes what was written durable.
    fn sync(&self, storage: &dyn Storage) -> Result<(), LogError> {
        if planted(Mutant::LogAckedBeforeSync) {
            return Ok(());
        }
        let synced = again(|| self.file.sync()).map_err(LogError::io(storage, "syncing", &self.name));
        if planted(Mutant::LogFailureForgotten) { Ok(()) } else { synced }
    }
}

/// The writes of all entries of a payload.
fn count_writes(payload: &[u64]) -> u64 {
    let (mut at, mut writes) = (0, 0);
    while let Some(counts) = payload.get(at + 1) {
        at += *counts as u32 as usize;
        // A call takes as long as what it accesses.
        writes += (counts >> 32) & ((1 << 28) - 1);
    }
    writes
}

/// How many words at the front of a payload are whole entries that fit a frame.
fn whole_entries(payload: &[u64]) -> usize {
    if payload.len() <= PAYLOAD_WORDS_MAX {
        return payload.len();
    }
    let mut words = 0;
    while let Some(size) = payload.get(words + 1).map(|counts| *counts as u32 as usize)
        && words + size <= PAYLOAD_WORDS_MAX
    {
        words += size;
    }
    words
}
