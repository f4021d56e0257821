//! Frames: a payload with a header that says what it is and where it belongs.
//!
//! ```text
//!  word 0   magic (low 32) | checksum of everything (high 32)
//!       1   stored bytes (low 32) | words of the payload (high 32)
//!       2   round, from 1
//!       3   closed epoch, 40 bits: every commit of an epoch up to it is in this round or an earlier one
//!           | the time, its low 24 bits
//!       4   highest epoch in the payload, 40 bits | the time, its high 24 bits
//!       5   members: the files that have frames in this round, one bit each
//!       6   part 0..16 | parts 16..32 | kind 32..40 | compression 40..48 | zero 48..64
//!       7   checksum of the header (low 32) | zero
//!       8   payload as stored, padded with zeros to whole words
//! ```
//!
//! Both checksums (crc32c) also cover the frame's [`Place`] and its offset in the file, which are
//! not stored: a frame of another directory, generation or file, or at another offset, is no frame.
//! The header has a checksum of its own so that a frame can be known by its header alone: that a
//! round was begun is known even where its payload is torn, and a scan for later frames reads no
//! payload. Lengths are trusted, and memory taken for them, only after the header's checksum.
//!
//! The time is that of the clock on the wall when the round was taken, in milliseconds since 1970. Frames of format 1 have
//! zeros there: nobody knows.

use super::Malformed;

/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 64;
/// The longest payload, in words: 64 MiB.
pub const PAYLOAD_WORDS_MAX: usize = 8 << 20;

/// Bits of an epoch in a header, two more than a stamp has for it, and of the time beside each of the two.
const EPOCH_BITS: u32 = 40;
const EPOCH: u64 = (1 << EPOCH_BITS) - 1;
const TIME_LOW_BITS: u32 = 64 - EPOCH_BITS;

const PAYLOAD_BYTES_MAX: usize = 8 * PAYLOAD_WORDS_MAX;
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"\xF7Hdl");
/// Payloads below this are not worth compressing.
#[cfg(feature = "lz4")]
const COMPRESS_BYTES_MIN: usize = 128;

/// Word `index` of `bytes`, which has it.
pub(super) fn word(bytes: &[u8; FRAME_HEADER_BYTES], index: usize) -> u64 {
    u64::from_le_bytes(bytes.as_chunks().0[index])
}

/// Sets word `index` of `bytes`, which has it.
pub(super) fn put(bytes: &mut [u8; FRAME_HEADER_BYTES], index: usize, value: u64) {
    bytes.as_chunks_mut().0[index] = value.to_le_bytes();
}

/// What a frame or a segment is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The log.
    Log = 1,
    /// A checkpoint.
    Checkpoint = 2,
}

impl Kind {
    pub(super) fn of(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Log),
            2 => Some(Self::Checkpoint),
            _ => None,
        }
    }
}

/// How a payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Compression {
    /// As it is.
    #[default]
    None = 0,
    /// In LZ4's block format. A build without the feature `lz4` writes payloads as they are.
    Lz4 = 1,
}

impl Compression {
    /// The name, which is also the feature's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
        }
    }

    /// Whether this build can read it.
    pub const fn is_built(self) -> bool {
        match self {
            Self::None => true,
            Self::Lz4 => cfg!(feature = "lz4"),
        }
    }
}

/// The file that a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The directory's random id.
    pub directory: u64,
    /// The generation, or the number of the checkpoint.
    pub generation: u64,
    /// The file's number in the generation, or the part of the checkpoint.
    pub file: u8,
}

impl Place {
    /// The checksum that a frame at `offset` begins with.
    fn seed(&self, offset: u64) -> u32 {
        let words = [self.directory, self.generation, u64::from(self.file), offset];
        let mut bytes = [0; 32];
        for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        crc32c::crc32c(&bytes)
    }
}

/// What the writer says about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Log or checkpoint.
    pub kind: Kind,
    /// The round; in a checkpoint, the number of the frame in its part. From 1.
    pub round: u64,
    /// Every commit of an epoch up to this one is in this round or an earlier one; in a checkpoint,
    /// its epoch. The same in all frames of a round.
    pub closed: u64,
    /// The highest epoch of a commit in the payload; 0 without any.
    pub highest: u64,
    /// When the round was taken, in milliseconds since 1970: every commit of an epoch up to `closed` was made before. Never
    /// falls. The same in all frames of a round; 0 where nobody knows.
    pub time: u64,
    /// The files that have frames in this round, one bit each. The same in all frames of a round.
    pub members: u64,
    /// The number of this frame among those of its round in this file, from 0.
    pub part: u16,
    /// How many those are.
    pub parts: u16,
}

impl Label {
    /// The label of frame `number` (from 1) of a part of a checkpoint of `epoch`.
    pub fn checkpoint(part: u8, number: u64, epoch: u64) -> Self {
        let members = 1 << (part & 63);
        Self {
            kind: Kind::Checkpoint,
            round: number,
            closed: epoch,
            highest: epoch,
            time: 0,
            members,
            part: 0,
            parts: 1,
        }
    }
}

/// The header of a frame whose header's checksum was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the writer said about it.
    pub label: Label,
    /// How the payload is stored.
    pub compression: Compression,
    /// Words of the payload.
    pub words: u32,
    /// Bytes of the payload as stored, without padding.
    pub stored: u32,
}

impl Header {
    /// Bytes of the payload as stored, with padding.
    pub(super) fn padded(&self) -> usize {
        (self.stored as usize).next_multiple_of(8)
    }

    /// Bytes of the whole frame: the next one begins so many later.
    pub fn bytes(&self) -> u64 {
        (FRAME_HEADER_BYTES + self.padded()) as u64
    }
}

/// What is wrong with bytes that should be a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// Torn, overwritten, or of another place: what a crash or a bad disk leaves.
    Bad(&'static str),
    /// The checksum is right, and no writer of this version writes such a thing.
    Wrong(&'static str),
    /// Compressed in a way that this build cannot read.
    Compression(Compression),
}

/// What stands where a frame may begin.
pub(super) enum Head {
    /// A frame with a right header; its payload is to be checked.
    Frame(Header, Check),
    /// Zeros: nothing was written here.
    Nothing,
    Flawed(Flaw),
}

/// A checksum on its way over a payload.
#[derive(Clone, Copy)]
pub(super) struct Check {
    running: u32,
    stored: u32,
}

impl Check {
    pub(super) fn add(&mut self, padded: &[u8]) {
        self.running = crc32c::crc32c_append(self.running, padded);
    }

    pub(super) fn end(self) -> Result<(), Flaw> {
        if self.running == self.stored { Ok(()) } else { Err(Flaw::Bad("the checksum of a frame is wrong")) }
    }
}

/// Looks at the header of a frame at `offset`.
pub(super) fn head(bytes: &[u8; FRAME_HEADER_BYTES], place: Place, offset: u64) -> Head {
    if word(bytes, 0) as u32 != MAGIC {
        let zero = bytes.iter().all(|byte| *byte == 0);
        return if zero { Head::Nothing } else { Head::Flawed(Flaw::Bad("there is no frame")) };
    }
    let check = crc32c::crc32c_append(place.seed(offset), &bytes[8..56]);
    if word(bytes, 7) != u64::from(check) {
        return Head::Flawed(Flaw::Bad("the checksum of a frame's header is wrong"));
    }
    match fields(bytes, place) {
        Ok(header) => {
            let running = crc32c::crc32c_append(check, &bytes[56..]);
            Head::Frame(header, Check { running, stored: (word(bytes, 0) >> 32) as u32 })
        }
        Err(what) => Head::Flawed(Flaw::Wrong(what)),
    }
}

fn fields(bytes: &[u8; FRAME_HEADER_BYTES], place: Place) -> Result<Header, &'static str> {
    let (sizes, kinds) = (word(bytes, 1), word(bytes, 6));
    let (stored, words) = (sizes as u32, (sizes >> 32) as u32);
    let (part, parts) = (kinds as u16, (kinds >> 16) as u16);
    let kind = Kind::of(kinds >> 32 & 0xFF).ok_or("a frame is of no known kind")?;
    let compression = match kinds >> 40 {
        0 => Compression::None,
        1 => Compression::Lz4,
        _ => return Err("a frame is compressed in no known way"),
    };
    let (stored_bytes, bytes_raw) = (stored as usize, words as usize * 8);
    let fits = match compression {
        Compression::None => stored_bytes == bytes_raw,
        // No block grows by more than this, so no short frame asks for much memory.
        Compression::Lz4 => stored_bytes <= bytes_raw && bytes_raw <= stored_bytes.saturating_mul(255),
    };
    if words as usize > PAYLOAD_WORDS_MAX || !fits {
        return Err("a frame has an impossible length");
    }
    let label = Label {
        kind,
        round: word(bytes, 2),
        closed: word(bytes, 3) & EPOCH,
        highest: word(bytes, 4) & EPOCH,
        time: word(bytes, 3) >> EPOCH_BITS | word(bytes, 4) >> EPOCH_BITS << TIME_LOW_BITS,
        members: word(bytes, 5),
        part,
        parts,
    };
    if label.round == 0 || part >= parts || label.members >> (place.file & 63) & 1 == 0 {
        return Err("a frame has an impossible round, part or set of members");
    }
    Ok(Header { label, compression, words, stored })
}

/// Makes frames. Keeps its buffers.
#[derive(Default)]
pub struct Encoder {
    compression: Compression,
    #[cfg(feature = "lz4")]
    raw: Vec<u8>,
    #[cfg(feature = "lz4")]
    table: lz4_flex::block::CompressTable,
}

impl Encoder {
    /// An encoder that compresses payloads where that makes them shorter.
    pub fn new(compression: Compression) -> Self {
        Self {
            compression,
            #[cfg(feature = "lz4")]
            raw: Vec::new(),
            #[cfg(feature = "lz4")]
            table: Default::default(),
        }
    }

    /// Appends to `out` the frame that will stand at `offset` of the file `place`.
    ///
    /// # Panics
    /// With a payload longer than [`PAYLOAD_WORDS_MAX`], or a label that no reader would take.
    pub fn encode(
        &mut self,
        out: &mut Vec<u8>,
        place: Place,
        offset: u64,
        label: &Label,
        payload: &[u64],
    ) -> Header {
        assert!(payload.len() <= PAYLOAD_WORDS_MAX, "a frame of {} words is too long", payload.len());
        let start = out.len();
        out.resize(start + FRAME_HEADER_BYTES, 0);
        let compression = self.store(out, payload);
        let stored = out.len() - start - FRAME_HEADER_BYTES;
        out.resize(start + FRAME_HEADER_BYTES + stored.next_multiple_of(8), 0);

        let mut bytes = [0; FRAME_HEADER_BYTES];
        put(&mut bytes, 0, u64::from(MAGIC));
        put(&mut bytes, 1, stored as u64 | (payload.len() as u64) << 32);
        put(&mut bytes, 2, label.round);
        let (low, high) = (label.time & ((1 << TIME_LOW_BITS) - 1), label.time >> TIME_LOW_BITS);
        let fits = label.closed <= EPOCH && label.highest <= EPOCH && high < 1 << TIME_LOW_BITS;
        assert!(fits, "an epoch or a time is too large: {label:?}");
        put(&mut bytes, 3, label.closed | low << EPOCH_BITS);
        put(&mut bytes, 4, label.highest | high << EPOCH_BITS);
        put(&mut bytes, 5, label.members);
        let kinds = u64::from(label.kind as u8) << 32 | u64::from(compression as u8) << 40;
        put(&mut bytes, 6, u64::from(label.part) | u64::from(label.parts) << 16 | kinds);
        let header = fields(&bytes, place).unwrap_or_else(|what| panic!("{what}: {label:?}"));
        out[start..start + FRAME_HEADER_BYTES].copy_from_slice(&bytes);
        seal(&mut out[start..], place, offset);
        header
    }

    #[cfg(feature = "lz4")]
    fn store(&mut self, out: &mut Vec<u8>, payload: &[u64]) -> Compression {
        use lz4_flex::block::{compress_into_with_table, get_maximum_output_size};
        if self.compression == Compression::Lz4 && payload.len() * 8 >= COMPRESS_BYTES_MIN {
            self.raw.clear();
            append(&mut self.raw, payload);
            let start = out.len();
            out.resize(start + get_maximum_output_size(self.raw.len()), 0);
            match compress_into_with_table(&self.raw, &mut out[start..], &mut self.table) {
                Ok(stored) if stored < self.raw.len() => {
                    out.truncate(start + stored);
                    return Compression::Lz4;
                }
                // Not shorter: as it is.
                _ => out.truncate(start),
            }
        }
        append(out, payload);
        Compression::None
    }

    #[cfg(not(feature = "lz4"))]
    fn store(&mut self, out: &mut Vec<u8>, payload: &[u64]) -> Compression {
        let _ = self.compression;
        append(out, payload);
        Compression::None
    }
}

/// Puts both checksums into the frame that `bytes` is.
pub(super) fn seal(bytes: &mut [u8], place: Place, offset: u64) {
    let check = crc32c::crc32c_append(place.seed(offset), &bytes[8..56]);
    bytes[56..64].copy_from_slice(&u64::from(check).to_le_bytes());
    let all = crc32c::crc32c_append(check, &bytes[56..]);
    bytes[4..8].copy_from_slice(&all.to_le_bytes());
}

/// Appends words as bytes.
fn append(out: &mut Vec<u8>, words: &[u64]) {
    let start = out.len();
    out.resize(start + words.len() * 8, 0);
    for (to, word) in out[start..].as_chunks_mut().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
}

/// Reads frames. Keeps its buffers.
#[derive(Default)]
pub struct Decoder {
    #[cfg(feature = "lz4")]
    raw: Vec<u8>,
}

impl Decoder {
    /// A decoder without buffers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the frame that `bytes` begins with, which stands at `offset` of the file `place`, into
    /// `words`; `None` where nothing was written.
    ///
    /// # Errors
    /// What is wrong with the frame; then `words` means nothing.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        place: Place,
        offset: u64,
        words: &mut Vec<u64>,
    ) -> Result<Option<Header>, Flaw> {
        let Some((first, rest)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() else {
            let zero = bytes.iter().all(|byte| *byte == 0);
            return if zero { Ok(None) } else { Err(Flaw::Bad("a frame's header is cut off")) };
        };
        match head(first, place, offset) {
            Head::Nothing => Ok(None),
            Head::Flawed(flaw) => Err(flaw),
            Head::Frame(header, mut check) => {
                let stored = rest.get(..header.padded()).ok_or(Flaw::Bad("a frame is cut off"))?;
                check.add(stored);
                check.end()?;
                self.payload(&header, stored, words)?;
                Ok(Some(header))
            }
        }
    }

    /// Turns a checked, padded payload into words.
    pub(super) fn payload(
        &mut self,
        header: &Header,
        padded: &[u8],
        words: &mut Vec<u64>,
    ) -> Result<(), Flaw> {
        words.clear();
        let stored = &padded[..header.stored as usize];
        let raw = match header.compression {
            Compression::None => stored,
            Compression::Lz4 => self.decompress(stored, header.words as usize * 8)?,
        };
        words.extend(raw.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        Ok(())
    }

    #[cfg(feature = "lz4")]
    fn decompress(&mut self, stored: &[u8], bytes: usize) -> Result<&[u8], Flaw> {
        debug_assert!(bytes <= PAYLOAD_BYTES_MAX);
        // What was there before is overwritten, or the length comes out wrong.
        self.raw.resize(bytes, 0);
        match lz4_flex::block::decompress_into(stored, &mut self.raw) {
            Ok(length) if length == bytes => Ok(&self.raw),
            _ => Err(Flaw::Wrong("a frame does not decompress to the length that it says")),
        }
    }

    #[cfg(not(feature = "lz4"))]
    fn decompress(&mut self, _: &[u8], bytes: usize) -> Result<&[u8], Flaw> {
        debug_assert!(bytes <= PAYLOAD_BYTES_MAX);
        Err(Flaw::Compression(Compression::Lz4))
    }
}

impl From<Malformed> for Flaw {
    fn from(malformed: Malformed) -> Self {
        Self::Wrong(malformed.what)
    }
}
