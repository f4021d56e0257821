//! Damage at rest: which bytes of a directory count, and what may come of changing them.

use heddledb::LogError;
use heddledb::internals::log::{Frames, Manifest, Name, SEGMENT_HEADER_BYTES, survey};
use heddledb::internals::random::Random;
use heddledb::storage::{Simulated, Storage};
use std::ops::Range;

/// A frame's place in its file.
struct Place {
    bytes: Range<u64>,
    round: u64,
    /// The closed epoch of its round.
    closed: u64,
}

/// A log file that counts.
struct LogFile {
    name: String,
    generation: u64,
    /// Set by a recovery or a checkpoint.
    is_closed: bool,
    frames: Vec<Place>,
}

/// What counts in a directory.
pub struct Map {
    logs: Vec<LogFile>,
    /// Whose every byte counts.
    others: Vec<String>,
    /// The epoch that is durable without any log.
    floor: u64,
}

/// What may come of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lawful {
    /// It is refused, or nothing is lost.
    Refused,
    /// It looks like a torn tail: what is of a later epoch than this may be lost.
    Cut(u64),
}

/// Damage.
#[derive(Clone, Debug)]
pub struct Damage {
    /// The file.
    pub name: String,
    /// What was done to it.
    pub what: String,
    /// Whether something stays of what it hits, so that it cannot look as if nothing had been there.
    pub shows: bool,
    /// What may come of it.
    pub lawful: Lawful,
    /// With salvage, everything of an epoch up to this is kept; `None` if the file cannot be salvaged.
    pub salvaged: Option<u64>,
}

/// Bytes of a frame's header.
const HEADER: u64 = heddledb::internals::log::FRAME_HEADER_BYTES as u64;

impl Map {
    /// What counts on a disk. The disk is whole.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn of(disk: &Simulated) -> Result<Option<Self>, LogError> {
        let Some(manifest) = Manifest::read(disk)? else { return Ok(None) };
        let mut map = Self { logs: Vec::new(), others: vec![Name::Manifest.to_string()], floor: 0 };
        if let Some(checkpoint) = &manifest.checkpoint {
            map.floor = checkpoint.epoch;
            for part in 0..checkpoint.parts.len() {
                let name = Name::Checkpoint { number: checkpoint.number, part: part as u8 };
                map.others.push(name.to_string());
            }
        }
        for generation in &manifest.generations {
            let survey = survey(disk, manifest.directory, generation, false, 1)?;
            for file in 0..generation.files {
                let mut frames = Vec::new();
                let mut at = SEGMENT_HEADER_BYTES as u64;
                if survey.files[usize::from(file)].frames > 0 {
                    let mut reader = Frames::of_log(disk, manifest.directory, generation, &survey, file)?;
                    let mut words = Vec::new();
                    while let Some(header) = reader.next_frame(&mut words)? {
                        let bytes = at..at + header.bytes();
                        at = bytes.end;
                        let closed =
                            header.label.closed.min(generation.end.map_or(u64::MAX, |end| end.epoch));
                        frames.push(Place { bytes, round: header.label.round, closed });
                    }
                }
                let name = Name::Log { generation: generation.number, file }.to_string();
                let (generation, is_closed) = (generation.number, generation.end.is_some());
                map.logs.push(LogFile { name, generation, is_closed, frames });
            }
        }
        Ok(Some(map))
    }

    /// Damages a disk somewhere.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn damage(&self, disk: &Simulated, random: &mut Random) -> std::io::Result<Option<Damage>> {
        let names: Vec<&String> = self.logs.iter().map(|log| &log.name).chain(&self.others).collect();
        // Mostly the logs.
        let count = if random.below(4) == 0 { names.len() } else { self.logs.len() };
        let Some(name) = names.get(random.below(count as u64) as usize).map(|name| (*name).clone()) else {
            return Ok(None);
        };
        let old = disk.bytes(&name);
        if old.is_empty() {
            return Ok(None);
        }
        let length = old.len() as u64;
        let at = random.below(length);
        let (range, what, is_cut) = match random.below(3) {
            0 => {
                let bit = random.below(8);
                disk.flip(&name, at * 8 + bit);
                (at..at + 1, format!("bit {bit} of byte {at} flipped"), false)
            }
            1 => {
                let start = at / SECTOR * SECTOR;
                let bytes = (length - start).min(SECTOR);
                let (from, new) = match random.below(3) {
                    0 => ("zeros".to_owned(), vec![0; bytes as usize]),
                    _ => {
                        let other = names[random.below(names.len() as u64) as usize];
                        let mut source = disk.bytes(other);
                        let from = random.below(source.len() as u64 + 1) / SECTOR * SECTOR;
                        source.drain(..from as usize);
                        source.resize(bytes as usize, 0);
                        (format!("those of {other} at {from}"), source)
                    }
                };
                disk.overwrite(&name, start, &new);
                (start..start + bytes, format!("{bytes} bytes at {start} replaced by {from}"), false)
            }
            _ => {
                disk.open(&name)?.set_len(at)?;
                (at..length, format!("cut off at {at} of {length}"), true)
            }
        };
        let new = disk.bytes(&name);
        // Only what really differs is damaged.
        let differs = |at: &u64| old.get(*at as usize) != new.get(*at as usize);
        let Some(first) = range.clone().find(differs) else { return Ok(None) };
        let last = range.rev().find(differs).unwrap_or(first);
        let (lawful, salvaged) = self.outcome(&name, first..last + 1, is_cut);
        let shows = !is_cut && first == last;
        Ok(Some(Damage { name, what, shows, lawful, salvaged }))
    }

    /// What may come of damage to a range of a file.
    fn outcome(&self, name: &str, range: Range<u64>, is_cut: bool) -> (Lawful, Option<u64>) {
        let Some(log) = self.logs.iter().find(|log| log.name == name) else { return (Lawful::Refused, None) };
        let touches = |place: &Place| place.bytes.start < range.end && range.start < place.bytes.end;
        let round = log.frames.iter().find(|place| touches(place)).map(|place| place.round);
        let kept = self.closed_before(log.generation, round);
        let Some(round) = round else {
            // The header of the file, or what stands behind the rounds that count.
            return (Lawful::Refused, Some(kept));
        };
        let header = |place: &Place| place.bytes.start..place.bytes.start + HEADER;
        let is_seen = |other: &LogFile, place: &Place| {
            let header = header(place);
            let is_hit = other.name == name && header.start < range.end && range.start < header.end;
            let is_gone = other.name == name && is_cut && place.bytes.start + HEADER > range.start;
            place.round > round && !is_hit && !is_gone
        };
        let others = self.logs.iter().filter(|other| other.generation == log.generation);
        let later = others.into_iter().any(|other| other.frames.iter().any(|place| is_seen(other, place)));
        let lawful = if later || log.is_closed { Lawful::Refused } else { Lawful::Cut(kept) };
        (lawful, Some(kept))
    }

    /// The last epoch that is closed before a round of a generation; before its end without one.
    fn closed_before(&self, generation: u64, round: Option<u64>) -> u64 {
        let counts = |log: &&LogFile| log.generation <= generation;
        let places = self.logs.iter().filter(counts).flat_map(|log| {
            let is_before = move |place: &&Place| {
                log.generation < generation || round.is_none_or(|round| place.round < round)
            };
            log.frames.iter().filter(is_before)
        });
        places.map(|place| place.closed).max().unwrap_or(0).max(self.floor)
    }
}

/// The atom of a disk write.
const SECTOR: u64 = 512;
