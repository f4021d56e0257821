//! File names, and the header that each file begins with.
//!
//! ```text
//!  byte  0   "HeddleDB"
//!        8   format version, 4 bytes | crc32c of the 60 other bytes of this header, 4 bytes
//!       16   kind: 1 log, 2 checkpoint; 7 zero bytes
//!       24   directory id
//!       32   generation, or number of the checkpoint
//!       40   number of this file or part, 4 bytes | how many there are, 4 bytes
//!       48   zero
//! ```
//!
//! The first 16 bytes mean the same in every version.

use super::frame::{Kind, put, word};
use super::{FILES_MAX, FORMAT};

/// Bytes in front of a segment's first frame.
pub const SEGMENT_HEADER_BYTES: usize = 64;

const MAGIC: u64 = u64::from_le_bytes(*b"HeddleDB");

/// What a file of a directory is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// Which files count.
    Manifest,
    /// A manifest that has not replaced the other yet; counts for nothing.
    NewManifest,
    /// A file that a process locks.
    Lock,
    /// A file of a generation.
    Log {
        /// The generation.
        generation: u64,
        /// The number of the file in it.
        file: u8,
    },
    /// A part of a checkpoint.
    Checkpoint {
        /// The number of the checkpoint.
        number: u64,
        /// The part.
        part: u8,
    },
}

impl Name {
    /// The kind of file that `name` is; `None` for a file that is not the database's.
    pub fn parse(name: &str) -> Option<Self> {
        let numbered = |prefix| {
            let (number, part) = name.strip_prefix(prefix)?.split_once('-')?;
            Some((number.parse().ok()?, part.parse().ok()?))
        };
        let parsed = match name {
            "MANIFEST" => Self::Manifest,
            "MANIFEST.new" => Self::NewManifest,
            "LOCK" => Self::Lock,
            _ => numbered("log-").map(|(generation, file)| Self::Log { generation, file }).or_else(|| {
                numbered("checkpoint-").map(|(number, part)| Self::Checkpoint { number, part })
            })?,
        };
        // One spelling each: `log-7-0` is somebody else's.
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Manifest => f.write_str("MANIFEST"),
            Self::NewManifest => f.write_str("MANIFEST.new"),
            Self::Lock => f.write_str("LOCK"),
            Self::Log { generation, file } => write!(f, "log-{generation:010}-{file:02}"),
            Self::Checkpoint { number, part } => write!(f, "checkpoint-{number:010}-{part:02}"),
        }
    }
}

/// What a segment says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// A file of the log or a part of a checkpoint.
    pub kind: Kind,
    /// The directory that it belongs to.
    pub directory: u64,
    /// Its generation, or the number of its checkpoint.
    pub generation: u64,
    /// Its number among the files of the generation, or the parts of the checkpoint.
    pub file: u8,
    /// How many of them there are.
    pub files: u8,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFlaw {
    /// Torn, never written, or overwritten.
    Bad(&'static str),
    /// Of another version.
    Version(u32),
}

impl SegmentHeader {
    /// That of a log file.
    pub fn of_log(directory: u64, generation: u64, file: u8, files: u8) -> Self {
        Self { kind: Kind::Log, directory, generation, file, files }
    }

    /// The bytes that a segment begins with.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 2, self.kind as u64);
        put(&mut bytes, 3, self.directory);
        put(&mut bytes, 4, self.generation);
        put(&mut bytes, 5, u64::from(self.file) | u64::from(self.files) << 32);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        let check = check(&bytes);
        bytes[12..16].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeaderFlaw> {
        let Some(bytes) = bytes.first_chunk::<SEGMENT_HEADER_BYTES>() else {
            return Err(HeaderFlaw::Bad("it is shorter than its header"));
        };
        if word(bytes, 0) != MAGIC {
            return Err(HeaderFlaw::Bad("it does not begin with the header of a HeddleDB file"));
        }
        let (version, stored) = (word(bytes, 1) as u32, (word(bytes, 1) >> 32) as u32);
        if stored != check(bytes) {
            return Err(HeaderFlaw::Bad("the checksum of its header is wrong"));
        }
        if !(1..=FORMAT).contains(&version) {
            return Err(HeaderFlaw::Version(version));
        }
        let numbers = word(bytes, 5);
        let small = |number: u64| u8::try_from(number).ok().filter(|number| *number <= FILES_MAX);
        let (Some(kind), Some(file), Some(files)) =
            (Kind::of(word(bytes, 2)), small(numbers & 0xFFFF_FFFF), small(numbers >> 32))
        else {
            return Err(HeaderFlaw::Bad("its header has impossible fields"));
        };
        Ok(Self { kind, directory: word(bytes, 3), generation: word(bytes, 4), file, files })
    }
}

/// The checksum of a header without its own four bytes.
pub(super) fn check(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}
