//! The survey of a generation: how far its log goes, and whether it is whole up to there.
//!
//! ```text
//!  file 0   | 1 | 2 | 3 | 5 | 6 |            rounds 1 to 5 are whole: every member has its frames
//!  file 1   | 1 | 3 | 4 | 5 |                round 6 lacks file 1's frame: torn, and given up
//!
//!  file 0   | 1 | 2 | # | 5 | 6 |            round 3 is not whole, but 4 was begun: damage
//!  file 1   | 1 | 3 | 4 | 5 | 6 |
//! ```
//!
//! All files are walked in step, round by round, with a window of each in memory. The walk ends at
//! the first round that is not whole. Then every file is scanned from there to its end:
//!
//! | behind the whole rounds | means |
//! |---|---|
//! | nothing but zeros, in every file | the log ends here |
//! | bytes, but no header of a frame of another round than the next | the next round is torn |
//! | a header of a frame of a later round | damage: the next round had been durable |
//! | a right header that no writer writes, or of an earlier round | damage |
//!
//! A generation that a recovery closed has so many rounds as the manifest says; what stands behind
//! them is not looked at, and any fewer are damage.

use super::frame::{Flaw, Kind, Label};
use super::manifest::Generation;
use super::read::{Segment, Step};
use super::segment::{Name, SEGMENT_HEADER_BYTES};
use super::{FILES_MAX, LogError, path};
use crate::mutant::{Mutant, planted};
use crate::storage::Storage;
use std::ops::Range;

/// What a generation's files hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// So many rounds are whole, and count.
    pub rounds: u64,
    /// The closed epoch of the last of them: only commits of epochs up to it count. 0 without rounds.
    pub closed: u64,
    /// When the last of them was taken, in milliseconds since 1970. 0 without rounds, or where nobody knows.
    pub time: u64,
    /// The highest epoch named anywhere, by a torn or lost frame too as far as its header is whole.
    pub highest: u64,
    /// For each file what counts of it.
    pub files: Vec<Surveyed>,
    /// All that counts, cut into pieces of work: at least [`STRETCH_BYTES`] each, but for the last of a file, and at
    /// most a frame more.
    pub stretches: Vec<Stretch>,
    /// The round that was being written when the writer stopped.
    pub torn: Option<Torn>,
    /// What is given up because of damage; only of a survey that salvages.
    pub lost: Option<Lost>,
}

/// A run of whole frames of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The number of the file.
    pub file: u8,
    /// Where it begins and ends.
    pub bytes: Range<u64>,
}

/// Bytes of a stretch: so many that handing one from a thread to another costs little beside reading it, however short
/// the frames are, and so few that it stays in a core's cache.
pub const STRETCH_BYTES: u64 = if cfg!(test) { 256 } else { 1 << 20 };

/// What counts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Surveyed {
    /// Frames of whole rounds.
    pub frames: u64,
    /// Where the last of them ends, or the header of the file does.
    pub bytes: u64,
    /// Where those of the last round begin; the same as `bytes` if it has none of that.
    pub last: u64,
}

/// A round that was not whole when the writer stopped, so that nobody had been told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// A file that lacks something of it, with its directory.
    pub file: String,
    /// From where on.
    pub offset: u64,
    /// Bytes behind the whole rounds, in all files, each up to its last that is not zero.
    pub bytes: u64,
    /// What was found there.
    pub what: String,
}

/// What is given up because of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The damaged file, with its directory.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// What was found.
    pub what: String,
    /// Rounds that are given up, as far as they can be seen. May be 0: then only what says so is
    /// damaged, and no transaction is lost.
    pub rounds: u64,
    /// Bytes behind the rounds that count, in all files.
    pub bytes: u64,
    /// The highest epoch that they name. Commits of later epochs than [`Survey::closed`] up to this one
    /// may be lost.
    pub highest: u64,
}

/// A round that counts, and when it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The round.
    pub round: u64,
    /// The epoch that it closes.
    pub closed: u64,
    /// In milliseconds since 1970: all commits of epochs up to `closed` were made before. 0 where nobody knows.
    pub time: u64,
}

/// Checks every frame of a generation, on up to `threads` threads, and says how far it goes.
///
/// With `salvage`, damage ends what counts, as a torn tail does, and [`Survey::lost`] says what is
/// given up; every later generation is then to be given up too.
///
/// # Errors
/// The system's; damage, unless it is to be salvaged; a version or compression of another build.
pub fn survey(
    storage: &dyn Storage,
    directory: u64,
    generation: &Generation,
    salvage: bool,
    threads: usize,
) -> Result<Survey, LogError> {
    survey_moments(storage, directory, generation, salvage, threads, &mut |_| {})
}

/// As [`survey`]; `see` is shown each round that counts, in their order.
///
/// # Errors
/// As for [`survey`].
pub fn survey_moments(
    storage: &dyn Storage,
    directory: u64,
    generation: &Generation,
    salvage: bool,
    threads: usize,
    see: &mut dyn FnMut(Moment),
) -> Result<Survey, LogError> {
    let mut walk = Walk::new(storage, directory, generation, threads)?;
    let mut damage = None;
    let bad_header = walk.headers().or_else(|error| note(&mut damage, error))?;
    let due = generation.end.map(|end| end.rounds);
    let stop = walk.rounds(due.unwrap_or(u64::MAX), see).or_else(|error| note(&mut damage, error))?;

    let is_short = due.is_some_and(|due| walk.rounds < due);
    let looks_behind = due.is_none() || is_short || damage.is_some();
    let tail = if looks_behind { walk.tail()? } else { Tail::default() };
    let stop = stop.or(tail.first).unwrap_or_else(|| walk.files[0].spot("nothing is here"));
    let next = walk.rounds + 1;
    let not_whole = match tail.rounds {
        Some((_, high)) if high > next => Some(format!("though round {high} was begun")),
        Some((low, _)) if low < next => Some(format!("and there is round {low} behind it")),
        _ if is_short => Some("though the manifest lists it".to_owned()),
        _ => None,
    };
    damage = damage.or(tail.wrong).or_else(|| {
        let what = format!("round {next} is not whole, {}: {}", not_whole?, stop.what);
        Some(Spot { what, ..stop.clone() })
    });
    // The headers are durable before the first frame is written. A crash before that may tear them.
    damage = damage.or_else(|| {
        let bad = bad_header.filter(|bad| bad.is_missing || walk.rounds != 0 || tail.bytes != 0);
        Some(bad?.spot)
    });

    let files = walk.files.iter().map(|file| file.whole).collect();
    let stretches = (0..).zip(&walk.files).flat_map(|(number, file)| file.stretches(number)).collect();
    let highest = walk.highest.max(tail.highest);
    let (rounds, closed, time) = (walk.rounds, walk.closed, walk.time);
    let mut survey = Survey { rounds, closed, time, highest, files, stretches, torn: None, lost: None };
    match damage {
        None if tail.bytes != 0 => {
            let Spot { file, offset, what } = stop;
            survey.torn = Some(Torn { file, offset, bytes: tail.bytes, what });
        }
        None => {}
        Some(Spot { file, offset, what }) if salvage => {
            let begun = if tail.bytes == 0 { walk.rounds } else { next };
            let seen = begun.max(tail.rounds.map_or(0, |(_, high)| high));
            let rounds = due.unwrap_or(seen).saturating_sub(walk.rounds);
            let (bytes, highest) = (tail.bytes, tail.highest);
            survey.lost = Some(Lost { file, offset, what, rounds, bytes, highest });
        }
        Some(Spot { file, offset, what }) => return Err(LogError::Damaged { file, offset, what }),
    }
    Ok(survey)
}

/// Keeps damage for later, the first of it; hands other errors on.
fn note<T>(damage: &mut Option<Spot>, error: LogError) -> Result<Option<T>, LogError> {
    match error {
        LogError::Damaged { file, offset, what } => {
            damage.get_or_insert(Spot { file, offset, what });
            Ok(None)
        }
        error => Err(error),
    }
}

/// Where something is wrong.
#[derive(Clone, Debug)]
struct Spot {
    file: String,
    offset: u64,
    what: String,
}

/// A file whose header is not what it should be.
struct BadHeader {
    spot: Spot,
    is_missing: bool,
}

/// What stands behind the whole rounds, in all files.
#[derive(Default)]
struct Tail {
    bytes: u64,
    /// The lowest and the highest round of which there is a frame's header.
    rounds: Option<(u64, u64)>,
    highest: u64,
    /// The start of the tail in the file that seems to lack something.
    first: Option<Spot>,
    /// A frame that no writer writes.
    wrong: Option<Spot>,
}

/// A walk over all files of a generation, round by round.
struct Walk {
    files: Vec<Walked>,
    rounds: u64,
    closed: u64,
    time: u64,
    highest: u64,
}

/// What the next round is.
enum Round {
    Whole,
    /// Not whole: where something of it is missing, if there is anything of it.
    Stop(Option<Spot>),
}

impl Walk {
    fn new(
        storage: &dyn Storage,
        directory: u64,
        generation: &Generation,
        threads: usize,
    ) -> Result<Self, LogError> {
        let header = SEGMENT_HEADER_BYTES as u64;
        let whole = Surveyed { frames: 0, bytes: header, last: header };
        let open = |file| {
            let name = Name::Log { generation: generation.number, file };
            let segment = Segment::open(storage, name, directory)?.with_threads(threads);
            let (cuts, whole_cuts) = (Vec::new(), 0);
            Ok(Walked {
                segment,
                whole,
                seen: whole,
                cuts,
                whole_cuts,
                is_whole: false,
                flaw: None,
                ahead: None,
            })
        };
        let files = (0..generation.files).map(open).collect::<Result<Vec<_>, LogError>>()?;
        if files.is_empty() || generation.files > FILES_MAX {
            let what = format!("a generation has {} files", generation.files);
            return Err(LogError::Damaged {
                file: path(storage, &Name::Manifest.to_string()),
                offset: 0,
                what,
            });
        }
        Ok(Self { files, rounds: 0, closed: 0, time: 0, highest: 0 })
    }

    /// A file whose header is missing or torn: a missing file if there is one, or the first.
    fn headers(&mut self) -> Result<Option<BadHeader>, LogError> {
        let count = self.files.len() as u8;
        let mut bad: Option<BadHeader> = None;
        for file in &mut self.files {
            if let Err(what) = file.segment.header(Kind::Log, count)? {
                let is_missing = file.segment.is_missing();
                if bad.as_ref().is_none_or(|bad| is_missing && !bad.is_missing) {
                    let spot = Spot { offset: 0, ..file.spot(what) };
                    bad = Some(BadHeader { spot, is_missing });
                }
            }
        }
        Ok(bad)
    }

    /// Walks on through `last` rounds in all, or to the first that is not whole; then says where, if
    /// there is anything of it.
    fn rounds(&mut self, last: u64, see: &mut dyn FnMut(Moment)) -> Result<Option<Spot>, LogError> {
        while self.rounds < last {
            if let Round::Stop(stop) = self.round()? {
                return Ok(stop);
            }
            see(Moment { round: self.rounds, closed: self.closed, time: self.time });
        }
        Ok(None)
    }

    /// Looks at the next round, and steps over it if it is whole.
    fn round(&mut self) -> Result<Round, LogError> {
        let (round, files) = (self.rounds + 1, self.files.len() as u32);
        let (mut first, mut whole): (Option<Label>, u64) = (None, 0);
        let mut highest = self.highest;
        for (number, file) in self.files.iter_mut().enumerate() {
            let Some(label) = file.advance(round)? else { continue };
            let due = *first.get_or_insert(label);
            let agrees = (label.closed, label.members, label.time) == (due.closed, due.members, due.time);
            let listed = due.members.checked_shr(files).unwrap_or(0) == 0;
            if !agrees || !listed || due.closed < self.closed || due.time < self.time {
                return Err(file.wrong("a frame does not agree with the others of its round"));
            }
            whole |= u64::from(file.is_whole) << number;
            highest = highest.max(label.highest).max(label.closed);
        }
        let lacking = match first {
            // Nobody knows whose frames they would be.
            None => self.files.iter().find(|file| file.flaw.is_some()),
            Some(label) if label.members == whole || planted(Mutant::RecoveryTornRoundReplayed) => {
                for file in &mut self.files {
                    file.whole = Surveyed { last: file.whole.bytes, ..file.seen };
                    file.whole_cuts = file.cuts.len();
                }
                (self.rounds, self.closed, self.time, self.highest) =
                    (round, label.closed, label.time, highest);
                return Ok(Round::Whole);
            }
            Some(label) => self.files.get((label.members & !whole).trailing_zeros() as usize),
        };
        Ok(Round::Stop(lacking.map(|file| file.spot(file.flaw.unwrap_or("the next frame is missing")))))
    }

    /// Scans what stands behind the whole rounds.
    fn tail(&mut self) -> Result<Tail, LogError> {
        let (mut tail, mut hole) = (Tail::default(), None);
        for file in &mut self.files {
            file.seen = file.whole;
            let from = file.whole.bytes;
            let found = file.segment.scan(from)?;
            if found.end > from {
                tail.bytes += found.end - from;
                // Where zeros stand before other bytes, something was lost; elsewhere there may
                // just be the frame of a later round.
                let is_hole = matches!(file.ahead, Some((offset, Step::End)) if offset == from);
                if is_hole {
                    hole = hole.or_else(|| Some(file.spot("zeros, and other bytes behind them")));
                }
                tail.first = tail.first.or_else(|| Some(file.spot("no file has anything of it")));
            }
            if let Some((low, high)) = found.rounds {
                let (lowest, highest) = tail.rounds.unwrap_or((low, high));
                tail.rounds = Some((lowest.min(low), highest.max(high)));
            }
            tail.highest = tail.highest.max(found.highest);
            tail.wrong = tail.wrong.or_else(|| {
                let (offset, what) = found.wrong?;
                Some(Spot { offset, ..file.spot(what) })
            });
        }
        tail.first = hole.or(tail.first);
        Ok(tail)
    }
}

/// A file on the walk.
struct Walked {
    segment: Segment,
    /// What counts.
    whole: Surveyed,
    /// The same, and the frames of the round that is being looked at.
    seen: Surveyed,
    /// Where stretches end and others begin, and how many of these places count.
    cuts: Vec<u64>,
    whole_cuts: usize,
    /// Whether all the file's frames of that round are there, and what stands in the place of the next.
    is_whole: bool,
    flaw: Option<&'static str>,
    /// What stands at an offset, so that the first frame of a later round is read once.
    ahead: Option<(u64, Step)>,
}

impl Walked {
    /// Steps over the file's frames of `round`. The label of the last, with the highest epoch of all;
    /// `None` without any.
    fn advance(&mut self, round: u64) -> Result<Option<Label>, LogError> {
        let mut label: Option<Label> = None;
        (self.seen, self.is_whole, self.flaw) = (self.whole, false, None);
        self.cuts.truncate(self.whole_cuts);
        while !self.is_whole {
            let at = self.seen.bytes;
            let step = match self.ahead {
                Some((offset, step)) if offset == at => step,
                _ => self.segment.step(at)?,
            };
            self.ahead = Some((at, step));
            let header = match step {
                Step::Frame(header) if header.label.round == round => header,
                Step::Frame(header) if header.label.round < round => {
                    return Err(self.wrong("a frame of an earlier round is out of its place"));
                }
                // Of a later round, or nothing.
                Step::Frame(_) | Step::End => break,
                Step::Flawed(Flaw::Bad(what)) => {
                    self.flaw = Some(what);
                    break;
                }
                Step::Flawed(flaw) => return Err(self.segment.flawed(at, flaw)),
            };
            if !header.compression.is_built() {
                return Err(self.segment.flawed(at, Flaw::Compression(header.compression)));
            }
            let highest = label.map_or(0, |last| last.highest);
            let due = Label { part: label.map_or(0, |last| last.part + 1), ..label.unwrap_or(header.label) };
            if header.label != (Label { highest: header.label.highest, ..due }) || due.kind != Kind::Log {
                return Err(self.wrong("a frame does not agree with the others of its round"));
            }
            label = Some(Label { highest: highest.max(header.label.highest), ..header.label });
            self.is_whole = header.label.part + 1 == header.label.parts;
            self.seen.frames += 1;
            self.seen.bytes += header.bytes();
            let begun = self.cuts.last().copied().unwrap_or(SEGMENT_HEADER_BYTES as u64);
            if self.seen.bytes - begun >= STRETCH_BYTES {
                self.cuts.push(self.seen.bytes);
            }
        }
        Ok(label)
    }

    /// What counts of the file, cut into stretches.
    fn stretches(&self, file: u8) -> impl Iterator<Item = Stretch> {
        let cuts = &self.cuts[..self.whole_cuts];
        let starts = std::iter::once(SEGMENT_HEADER_BYTES as u64).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([self.whole.bytes]);
        starts
            .zip(ends)
            .filter(|(from, to)| from < to)
            .map(move |(from, to)| Stretch { file, bytes: from..to })
    }

    fn spot(&self, what: &str) -> Spot {
        Spot { file: self.segment.path.clone(), offset: self.seen.bytes, what: what.to_owned() }
    }

    fn wrong(&self, what: &str) -> LogError {
        self.segment.damaged(self.seen.bytes, what)
    }
}
