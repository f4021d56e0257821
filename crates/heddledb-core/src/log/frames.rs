//! The frames of a segment that count: what recovery takes, one after the other.

use super::frame::{Decoder, Header, Kind};
use super::manifest::{Checkpoint, Generation};
use super::read::{Segment, Step};
use super::segment::{Name, SEGMENT_HEADER_BYTES};
use super::survey::Survey;
use super::{LogError, Malformed, Rows};
use crate::storage::Storage;
use std::ops::Range;

/// The frames of a segment that count, one after the other.
pub struct Frames {
    segment: Segment,
    decoder: Decoder,
    stored: Vec<u8>,
    /// Where the next frame begins, and the last one did.
    at: u64,
    last: u64,
    /// Where the last frame that counts ends.
    end: u64,
    due: Due,
}

/// What the frames must be.
enum Due {
    /// Of rounds up to this one.
    Log { rounds: u64 },
    /// Numbered without gaps, of this epoch; so many rows are still to come.
    Checkpoint { next: u64, epoch: u64, rows: u64 },
}

impl Frames {
    /// The frames of the whole rounds in file `file` of a generation, as `survey` found them.
    ///
    /// # Errors
    /// The system's.
    pub fn of_log(
        storage: &dyn Storage,
        directory: u64,
        generation: &Generation,
        survey: &Survey,
        file: u8,
    ) -> Result<Self, LogError> {
        let segment = Segment::open(storage, Name::Log { generation: generation.number, file }, directory)?;
        let end = survey.files.get(usize::from(file)).map_or(0, |surveyed| surveyed.bytes);
        Ok(Self::new(segment, end, Due::Log { rounds: survey.rounds }))
    }

    /// The frames of part `part` of a checkpoint.
    ///
    /// # Errors
    /// The system's; a part that is missing, of another length, or not the part that is due.
    pub fn of_checkpoint(
        storage: &dyn Storage,
        directory: u64,
        checkpoint: &Checkpoint,
        part: u8,
    ) -> Result<Self, LogError> {
        let mut segment =
            Segment::open(storage, Name::Checkpoint { number: checkpoint.number, part }, directory)?;
        let Some(due) = checkpoint.parts.get(usize::from(part)) else {
            return Err(segment.damaged(0, "the manifest lists no such part"));
        };
        let parts = u8::try_from(checkpoint.parts.len()).unwrap_or(u8::MAX);
        if let Err(what) = segment.header(Kind::Checkpoint, parts)? {
            return Err(segment.damaged(0, what));
        }
        if segment.length != due.bytes {
            let what = format!("the file has {} bytes, the manifest says {}", segment.length, due.bytes);
            return Err(segment.damaged(segment.length.min(due.bytes), what));
        }
        let rows = Due::Checkpoint { next: 1, epoch: checkpoint.epoch, rows: due.rows };
        Ok(Self::new(segment, due.bytes, rows))
    }

    /// Goes on with the frames in a range of bytes of the file: some of [`Survey::stretches`].
    pub fn seek(&mut self, bytes: &Range<u64>) {
        (self.at, self.last, self.end) = (bytes.start, bytes.start, bytes.end);
    }

    fn new(segment: Segment, end: u64, due: Due) -> Self {
        let at = SEGMENT_HEADER_BYTES as u64;
        Self { segment, decoder: Decoder::new(), stored: Vec::new(), at, last: at, end, due }
    }

    /// Reads the next frame's payload into `words`; `None` after the last.
    ///
    /// # Errors
    /// The system's; a frame that is not as it was when it was surveyed, or, in a checkpoint, not
    /// what the manifest says.
    pub fn next_frame(&mut self, words: &mut Vec<u64>) -> Result<Option<Header>, LogError> {
        if self.at >= self.end {
            return match self.due {
                Due::Checkpoint { rows: 1.., .. } => {
                    Err(self.segment.damaged(self.at, "the file has fewer rows than the manifest says"))
                }
                _ => Ok(None),
            };
        }
        self.last = self.at;
        let (header, check) = match self.segment.frame(self.at, &mut self.stored)? {
            Ok(found) => found,
            Err(Step::Flawed(flaw)) => return Err(self.segment.flawed(self.at, flaw)),
            Err(_) => return Err(self.segment.damaged(self.at, "there is no frame where one is due")),
        };
        check
            .end()
            .and_then(|()| self.decoder.payload(&header, &self.stored, words))
            .map_err(|flaw| self.segment.flawed(self.at, flaw))?;
        self.expect(&header, words).map_err(|what| self.segment.damaged(self.at, what))?;
        self.at += header.bytes();
        Ok(Some(header))
    }

    fn expect(&mut self, header: &Header, words: &[u64]) -> Result<(), &'static str> {
        let label = &header.label;
        match &mut self.due {
            Due::Log { rounds } => {
                if label.kind != Kind::Log || label.round > *rounds {
                    return Err("there is another frame than there was before");
                }
            }
            Due::Checkpoint { next, epoch, rows } => {
                if (label.kind, label.round, label.closed) != (Kind::Checkpoint, *next, *epoch) {
                    return Err("there is another frame than the one that is due");
                }
                let found = Rows::new(words).map_err(|malformed| malformed.what)?.len() as u64;
                *rows = rows.checked_sub(found).ok_or("the file has more rows than the manifest says")?;
                *next += 1;
            }
        }
        Ok(())
    }

    /// The error for a last frame whose payload is malformed.
    pub fn malformed(&self, malformed: Malformed) -> LogError {
        self.segment.damaged(self.last, malformed.to_string())
    }
}
