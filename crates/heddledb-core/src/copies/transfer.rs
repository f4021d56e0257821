//! Commits of one directory's log, written as a generation of another's.

use crate::error::Result;
use crate::log::{
    Encoder, End, Entries, Frame, Generation, Kind, Label, LogError, LogKind, Manifest, Name,
    PAYLOAD_WORDS_MAX, Place, Rounds, SEGMENT_HEADER_BYTES, SegmentHeader, Survey, again,
};
use crate::mutant::{Mutant, planted};
use crate::stamp;
use crate::storage::{File, Storage, write_all};

/// What was carried so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Commits.
    pub transactions: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

/// The commits of epochs after one, up to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub after: u64,
    pub up_to: u64,
}

/// Bytes that are written at once, about.
const WRITE_BYTES: usize = 1 << 20;

/// A generation of one file that is being written, of rounds of other generations.
pub(super) struct Carrier<'a> {
    storage: &'a dyn Storage,
    name: String,
    file: Box<dyn File>,
    place: Place,
    encoder: Option<Encoder>,
    bytes: Vec<u8>,
    written: u64,
    window: Window,
    /// What is carried may be commands.
    kind: LogKind,
    rounds: u64,
    closed: u64,
    time: u64,
    carried: Carried,
    told: &'a mut dyn FnMut(Carried),
}

impl<'a> Carrier<'a> {
    /// Makes the file of the next generation of `manifest`, which does not list it yet.
    pub fn create(
        storage: &'a dyn Storage,
        manifest: &Manifest,
        window: Window,
        told: &'a mut dyn FnMut(Carried),
    ) -> Result<Self, LogError> {
        let place = Place { directory: manifest.directory, generation: manifest.next_generation, file: 0 };
        let name = Name::Log { generation: place.generation, file: 0 }.to_string();
        let file = again(|| storage.create(&name)).map_err(LogError::io(storage, "creating", &name))?;
        let header = SegmentHeader::of_log(place.directory, place.generation, 0, 1);
        Ok(Self {
            storage,
            name,
            file,
            place,
            encoder: None,
            bytes: header.encode().to_vec(),
            written: 0,
            window,
            kind: LogKind::Values,
            rounds: 0,
            closed: window.after,
            time: 0,
            carried: Carried::default(),
            told,
        })
    }

    /// Carries what a generation of another directory has within the window, round by round, each with its time.
    pub fn generation(
        &mut self,
        from: &dyn Storage,
        directory: u64,
        generation: &Generation,
        survey: &Survey,
    ) -> Result<(), LogError> {
        // What a recovery has dropped of it does not count here either.
        let last = generation.end.map_or(u64::MAX, |end| end.epoch).min(self.window.up_to);
        // Calls of the generations before say nothing of what they read where nobody wrote then.
        let alone = generation.kind == LogKind::Values && self.kind == LogKind::Commands;
        if generation.kind == LogKind::Commands {
            self.kind = LogKind::Commands;
        }
        let mut rounds = Rounds::new(from, directory, generation, survey)?;
        let mut payloads: Vec<Vec<u64>> = Vec::new();
        loop {
            payloads.clear();
            let header = rounds.next_round(|frame| {
                self.encoder.get_or_insert_with(|| Encoder::new(frame.header.compression));
                self.take(frame, last, alone, &mut payloads)
            })?;
            let Some(header) = header else { break };
            self.round(header.label.closed.min(last), header.label.time, &payloads)?;
        }
        Ok(())
    }

    /// Takes the entries of a frame that are in the window; `alone` says whether each is to be replayed alone.
    fn take(
        &mut self,
        frame: Frame<'_>,
        last: u64,
        alone: bool,
        payloads: &mut Vec<Vec<u64>>,
    ) -> Result<(), LogError> {
        for entry in Entries::new(frame.words) {
            let entry = entry.map_err(|malformed| frame.frames.malformed(malformed))?;
            if entry.epoch() <= self.window.after || entry.epoch() > last {
                continue;
            }
            let fits = |payload: &&mut Vec<u64>| payload.len() + entry.words().len() <= PAYLOAD_WORDS_MAX;
            if payloads.last_mut().filter(fits).is_none() {
                payloads.push(Vec::new());
            }
            let payload = payloads.last_mut().expect("there is one");
            entry.copy_to(payload, alone);
            self.carried.transactions += 1;
        }
        Ok(())
    }

    /// Writes a round, if it has something or closes a further epoch.
    fn round(&mut self, closed: u64, time: u64, payloads: &[Vec<u64>]) -> Result<(), LogError> {
        if payloads.is_empty() && closed <= self.closed {
            return Ok(());
        }
        self.rounds += 1;
        (self.closed, self.time) = (self.closed.max(closed), self.time.max(time));
        if planted(Mutant::CopyRoundSkipped) && self.rounds == 2 {
            self.rounds = 1;
            return Ok(());
        }
        let nothing = [Vec::new()];
        let payloads = if payloads.is_empty() { &nothing } else { payloads };
        for (part, payload) in (0..).zip(payloads) {
            let label = Label {
                kind: Kind::Log,
                round: self.rounds,
                closed: self.closed,
                highest: highest_epoch(payload),
                time: self.time,
                members: 1,
                part,
                parts: payloads.len() as u16,
            };
            let offset = self.written + self.bytes.len() as u64;
            let encoder = self.encoder.get_or_insert_default();
            encoder.encode(&mut self.bytes, self.place, offset, &label, payload);
        }
        if self.bytes.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), LogError> {
        let failed = LogError::io(self.storage, "writing", &self.name);
        write_all(&*self.file, &self.bytes, self.written).map_err(failed)?;
        self.written += self.bytes.len() as u64;
        self.bytes.clear();
        self.carried.bytes = self.written;
        (self.told)(self.carried);
        Ok(())
    }

    /// Closes the last epoch of the window, at `time` if no round did so before, and makes all of it durable. The manifest is
    /// then to list the generation.
    pub fn finish(mut self, time: u64) -> Result<(Generation, Carried), LogError> {
        let up_to = self.window.up_to;
        self.round(up_to, time, &[])?;
        self.write()?;
        let synced = again(|| self.file.sync());
        synced.map_err(LogError::io(self.storage, "syncing", &self.name))?;
        let storage = self.storage;
        again(|| storage.sync_names()).map_err(LogError::io(storage, "syncing the names of", ""))?;
        let end = Some(End { rounds: self.rounds, epoch: up_to });
        Ok((Generation { number: self.place.generation, files: 1, kind: self.kind, end }, self.carried))
    }
}

/// The highest epoch of a commit in a payload; 0 without any.
fn highest_epoch(payload: &[u64]) -> u64 {
    let (mut at, mut highest) = (0, 0);
    while let Some(&[time, counts]) = payload[at..].first_chunk() {
        highest = highest.max(stamp::epoch(time));
        at += counts as u32 as usize;
    }
    highest
}

const _: () = assert!(SEGMENT_HEADER_BYTES < WRITE_BYTES);
