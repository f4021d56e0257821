//! Reading segments: in windows to check and to scan them, frame by frame to take them.
//!
//! ```text
//!  survey:  | header | frame | frame | frame | ?????????? |
//!             step ----^-------^-------^       scan ------>    checksums only, a window at a time
//!  recovery:  next_frame: payload words of one frame after the other, up to where the survey says
//! ```

use super::frame::{Check, FRAME_HEADER_BYTES, Flaw, Head, Header, Kind, MAGIC, Place, head};
use super::segment::{HeaderFlaw, Name, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::{LogError, again, path};
use crate::parallel::in_parallel;
use crate::shared::SharedU64;
use crate::storage::{File, Storage};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are held of a file while it is checked.
const WINDOW: usize = 256 << 10;

/// A segment that is read through a window.
pub(super) struct Segment {
    file: Option<Arc<dyn File>>,
    /// For messages.
    pub(super) path: String,
    pub(super) place: Place,
    pub(super) length: u64,
    /// The bytes of the file from `start`.
    window: Vec<u8>,
    start: u64,
    /// Frames whose checksums are known to be right, by their offset.
    checked: Vec<(u64, Header)>,
    /// How many threads may check frames ahead of `step`, and up to where that was done or given up.
    threads: usize,
    ahead: u64,
}

/// A rest of a file of so many bytes is worth several threads; in tests, any is.
const LONG: u64 = if cfg!(test) { 1 } else { 16 << 20 };
/// So many bytes are checked ahead at once.
const STRETCH: u64 = 64 << 20;
/// Frames of so many bytes, on average, are worth it: for a shorter one, finding where it begins takes as long as
/// checking it.
const FRAME_WORTH: u64 = if cfg!(test) { 1 } else { 4 << 10 };
/// Bytes after which that average is taken.
const SAMPLE: u64 = 1 << 20;
/// A thread takes so many bytes of frames at a time.
const GROUP: u64 = 1 << 20;

/// What stands where a frame may begin.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// A frame whose checksums are both right.
    Frame(Header),
    /// The end of the file, or zeros.
    End,
    Flawed(Flaw),
}

/// What a scan found behind the last whole round.
#[derive(Default)]
pub(super) struct Scan {
    /// Behind the last byte that is not zero; 0 if there is none.
    pub(super) end: u64,
    /// The lowest and the highest round of a frame with a right header.
    pub(super) rounds: Option<(u64, u64)>,
    /// The highest epoch that such a frame names.
    pub(super) highest: u64,
    /// Where there is a frame that no writer writes.
    pub(super) wrong: Option<(u64, &'static str)>,
}

impl Segment {
    /// Opens the segment `name`. A file that is not there is like one of no length, and has no `file`.
    pub(super) fn open(storage: &dyn Storage, name: Name, directory: u64) -> Result<Self, LogError> {
        let (generation, file) = match name {
            Name::Log { generation, file } => (generation, file),
            Name::Checkpoint { number, part } => (number, part),
            _ => (0, 0),
        };
        let name = name.to_string();
        let io = |doing| LogError::io(storage, doing, &name);
        let opened: Option<Arc<dyn File>> = match again(|| storage.open(&name)) {
            // Whether it is missing is for the directory to say.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && !again(|| storage.list()).map_err(io("looking for"))?.contains(&name) =>
            {
                None
            }
            opened => Some(Arc::from(opened.map_err(io("opening"))?)),
        };
        let length = match &opened {
            Some(file) => again(|| file.len()).map_err(LogError::io(storage, "reading", &name))?,
            None => 0,
        };
        let place = Place { directory, generation, file };
        Ok(Self {
            file: opened,
            path: path(storage, &name),
            place,
            length,
            window: Vec::new(),
            start: 0,
            checked: Vec::new(),
            threads: 1,
            ahead: 0,
        })
    }

    /// The same, with so many threads that check frames ahead of [`Segment::step`].
    pub(super) fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Another reader of the same file.
    fn reader(&self) -> Self {
        Self {
            file: self.file.clone(),
            path: self.path.clone(),
            place: self.place,
            length: self.length,
            window: Vec::new(),
            start: 0,
            checked: Vec::new(),
            threads: 1,
            ahead: 0,
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        self.file.is_none()
    }

    pub(super) fn damaged(&self, offset: u64, what: impl Into<String>) -> LogError {
        LogError::Damaged { file: self.path.clone(), offset, what: what.into() }
    }

    /// The error for a flaw that is one whatever stands around it.
    pub(super) fn flawed(&self, offset: u64, flaw: Flaw) -> LogError {
        match flaw {
            Flaw::Bad(what) | Flaw::Wrong(what) => self.damaged(offset, what),
            Flaw::Compression(compression) => {
                LogError::Compression { file: self.path.clone(), offset, found: compression.name() }
            }
        }
    }

    /// Fills `buffer` from `offset`, as far as the file goes.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize, LogError> {
        let Some(file) = &self.file else { return Ok(0) };
        let mut filled = 0;
        while filled < buffer.len() {
            let read = again(|| file.read_at(&mut buffer[filled..], offset + filled as u64));
            match read.map_err(|source| LogError::Io { doing: "reading", file: self.path.clone(), source })? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    /// The bytes at `offset`, `want` of them (no more than a window) or as many as there are.
    fn bytes(&mut self, offset: u64, want: usize) -> Result<&[u8], LogError> {
        let want = want.min(usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX));
        let held = self.start..self.start + self.window.len() as u64;
        if offset < held.start || offset + want as u64 > held.end {
            let rest = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(WINDOW);
            let mut window = std::mem::take(&mut self.window);
            window.resize(WINDOW.min(rest), 0);
            let read = self.read(&mut window, offset)?;
            window.truncate(read);
            (self.window, self.start) = (window, offset);
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        let rest = self.window.get(from..).unwrap_or_default();
        Ok(&rest[..want.min(rest.len())])
    }

    /// Checks the segment's own header; says what is wrong where a crash may have left it so.
    pub(super) fn header(&mut self, kind: Kind, files: u8) -> Result<Result<(), &'static str>, LogError> {
        let place = self.place;
        let due = SegmentHeader {
            kind,
            directory: place.directory,
            generation: place.generation,
            file: place.file,
            files,
        };
        if self.is_missing() {
            return Ok(Err("the file is missing"));
        }
        match SegmentHeader::decode(self.bytes(0, SEGMENT_HEADER_BYTES)?) {
            Ok(header) if header == due => Ok(Ok(())),
            Ok(_) => Err(self.damaged(0, "the file belongs to another directory, generation or place in it")),
            Err(HeaderFlaw::Bad(what)) => Ok(Err(what)),
            Err(HeaderFlaw::Version(found)) => Err(LogError::Version { file: self.path.clone(), found }),
        }
    }

    /// Checks the frames from `offset` on, for a stretch, on several threads, so that `step` finds them checked,
    /// where there is enough to do. What is wrong is left for `step` to find.
    fn check_ahead(&mut self, offset: u64) -> Result<(), LogError> {
        self.checked.clear();
        self.ahead = u64::MAX;
        if self.threads < 2 || self.length.saturating_sub(offset) < LONG {
            return Ok(());
        }
        let (mut chain, mut groups, mut at) = (Vec::new(), Vec::<Range<usize>>::new(), offset);
        while at - offset < STRETCH
            && let Ok((header, _)) = self.near_head(at)?
        {
            match groups.last_mut() {
                Some(group) if at - chain[group.start] < GROUP => group.end += 1,
                _ => groups.push(chain.len()..chain.len() + 1),
            }
            chain.push(at);
            at += header.bytes();
            if at - offset >= SAMPLE && at - offset < chain.len() as u64 * FRAME_WORTH {
                // Looked at again some way on.
                self.ahead = at + 16 * SAMPLE;
                return Ok(());
            }
        }
        let (next, reader) = (SharedU64::new(0), &*self);
        let checked = in_parallel(0..self.threads, |_, _| -> Result<_, LogError> {
            let (mut segment, mut checked) = (reader.reader(), Vec::new());
            while let Some(group) = groups.get(next.fetch_add(1) as usize) {
                for at in &chain[group.clone()] {
                    if let Step::Frame(header) = segment.step_alone(*at)? {
                        checked.push((*at, header));
                    }
                }
            }
            Ok(checked)
        })?;
        self.checked = checked.concat();
        self.checked.sort_unstable_by_key(|(at, _)| *at);
        self.ahead = at.max(offset + 1);
        Ok(())
    }

    /// Checks what stands at `offset`, checksums included.
    pub(super) fn step(&mut self, offset: u64) -> Result<Step, LogError> {
        if offset >= self.ahead {
            self.check_ahead(offset)?;
        }
        if let Ok(found) = self.checked.binary_search_by_key(&offset, |(at, _)| *at) {
            return Ok(Step::Frame(self.checked[found].1));
        }
        self.step_alone(offset)
    }

    /// The same, without a look at what was checked ahead.
    fn step_alone(&mut self, offset: u64) -> Result<Step, LogError> {
        let (header, mut check) = match self.head(offset)? {
            Ok(found) => found,
            Err(step) => return Ok(step),
        };
        let (mut at, end) = (offset + FRAME_HEADER_BYTES as u64, offset + header.bytes());
        while at < end {
            // What is held first, so that no byte is read twice.
            let held = (self.start + self.window.len() as u64).saturating_sub(at);
            let most = if held == 0 { WINDOW as u64 } else { held };
            let want = most.min(end - at) as usize;
            let bytes = self.bytes(at, want)?;
            if bytes.is_empty() {
                return Ok(Step::Flawed(Flaw::Bad("a frame is cut off")));
            }
            check.add(bytes);
            at += bytes.len() as u64;
        }
        Ok(match check.end() {
            Ok(()) => Step::Frame(header),
            Err(flaw) => Step::Flawed(flaw),
        })
    }

    /// The header of the frame at `offset`, whose payload lies within the file, or why there is none.
    fn head(&mut self, offset: u64) -> Result<Result<(Header, Check), Step>, LogError> {
        let (place, length) = (self.place, self.length);
        Ok(Self::judge(place, length, offset, self.bytes(offset, FRAME_HEADER_BYTES)?))
    }

    /// As `head`, where the frames before it were longer than a window: then nothing else near is of interest.
    fn near_head(&mut self, offset: u64) -> Result<Result<(Header, Check), Step>, LogError> {
        let held = self.start + self.window.len() as u64;
        if (held..held + WINDOW as u64).contains(&offset) || (self.start..held).contains(&offset) {
            return self.head(offset);
        }
        let mut bytes = [0; FRAME_HEADER_BYTES];
        let read = self.read(&mut bytes, offset)?;
        Ok(Self::judge(self.place, self.length, offset, &bytes[..read]))
    }

    /// The header of the next frame, as `head`, and its payload as stored, padding included, into `stored`.
    pub(super) fn frame(
        &mut self,
        offset: u64,
        stored: &mut Vec<u8>,
    ) -> Result<Result<(Header, Check), Step>, LogError> {
        let (header, mut check) = match self.head(offset)? {
            Ok(found) => found,
            Err(step) => return Ok(Err(step)),
        };
        let from = offset + FRAME_HEADER_BYTES as u64;
        stored.clear();
        // The window has most short frames, and the beginning of a long one.
        let at = (from - self.start) as usize;
        let held = header.padded().min(self.window.len() - at);
        stored.extend_from_slice(&self.window[at..at + held]);
        stored.resize(header.padded(), 0);
        let read = held + self.read(&mut stored[held..], from + held as u64)?;
        check.add(&stored[..read]);
        Ok(Ok((header, check)))
    }

    fn judge(place: Place, length: u64, offset: u64, bytes: &[u8]) -> Result<(Header, Check), Step> {
        let Some(first) = bytes.first_chunk() else {
            let zero = bytes.iter().all(|byte| *byte == 0);
            return Err(if zero {
                Step::End
            } else {
                Step::Flawed(Flaw::Bad("a frame's header is cut off"))
            });
        };
        match head(first, place, offset) {
            Head::Nothing => Err(Step::End),
            Head::Flawed(flaw) => Err(Step::Flawed(flaw)),
            Head::Frame(header, _) if header.bytes() > length - offset => {
                Err(Step::Flawed(Flaw::Bad("a frame is cut off")))
            }
            Head::Frame(header, check) => Ok((header, check)),
        }
    }

    /// Looks at everything from `from` on for bytes that are not zero, and at every word for the
    /// header of a frame. Reads no payload as such, so that it takes time in the length of the file
    /// only.
    pub(super) fn scan(&mut self, from: u64) -> Result<Scan, LogError> {
        let (mut found, mut at, place) = (Scan::default(), from, self.place);
        loop {
            let bytes = self.bytes(at, WINDOW)?;
            if bytes.is_empty() {
                return Ok(found);
            }
            let length = bytes.len();
            // In blocks, because the optimiser makes that fast; most of what is scanned is zeros.
            if bytes.chunks(4096).any(|block| block.iter().fold(0, |all, byte| all | byte) != 0) {
                let last = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
                found.end = at + last as u64 + 1;
                for (index, bytes) in bytes.windows(FRAME_HEADER_BYTES).enumerate().step_by(8) {
                    if bytes[..4] != MAGIC.to_le_bytes() {
                        continue;
                    }
                    let offset = at + index as u64;
                    match bytes.first_chunk().map(|first| head(first, place, offset)) {
                        Some(Head::Frame(header, _)) => found.note(&header),
                        Some(Head::Flawed(Flaw::Wrong(what))) => {
                            _ = found.wrong.get_or_insert((offset, what))
                        }
                        _ => {}
                    }
                }
            }
            // The last header that fitted began a header's length before the end.
            at += if length == WINDOW { WINDOW - FRAME_HEADER_BYTES + 8 } else { length } as u64;
        }
    }
}

impl SegmentHeader {
    /// What the segment `name` says about itself.
    ///
    /// # Errors
    /// The system's; a file that is missing or has no right header.
    pub fn of(storage: &dyn Storage, name: Name) -> Result<Self, LogError> {
        let mut segment = Segment::open(storage, name, 0)?;
        if segment.is_missing() {
            return Err(segment.damaged(0, "the file is missing"));
        }
        match Self::decode(segment.bytes(0, SEGMENT_HEADER_BYTES)?) {
            Ok(header) => Ok(header),
            Err(HeaderFlaw::Bad(what)) => Err(segment.damaged(0, what)),
            Err(HeaderFlaw::Version(found)) => Err(LogError::Version { file: segment.path, found }),
        }
    }
}

impl Scan {
    fn note(&mut self, header: &Header) {
        let label = &header.label;
        let (low, high) = self.rounds.unwrap_or((label.round, label.round));
        self.rounds = Some((low.min(label.round), high.max(label.round)));
        self.highest = self.highest.max(label.highest).max(label.closed);
    }
}
