//! A change of a file's content, and what a power cut may leave of it.

use crate::random::Random;
use std::sync::Arc;

/// A change of a file's content.
#[derive(Clone)]
pub(super) enum Edit {
    Write { offset: usize, bytes: Arc<[u8]> },
    Length(usize),
}

/// The atom of a disk write.
const SECTOR: usize = 512;

impl Edit {
    pub(super) fn apply(&self, into: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => put(into, *offset, bytes),
            Self::Length(length) => into.resize(*length, 0),
        }
    }

    /// Applies it, or a part, or nothing.
    pub(super) fn try_luck(&self, into: &mut Vec<u8>, random: &mut Random) {
        let outcome = random.below(5);
        let (offset, bytes) = match (outcome, self) {
            (0, _) | (2, Self::Length(_)) => return self.apply(into),
            (1, _) | (_, Self::Length(_)) => return,
            (_, Self::Write { offset, bytes }) => (*offset, bytes),
        };
        // The length is not written together with the bytes: zeros where they are missing.
        if random.below(2) == 0 {
            let length = into.len().max(offset + bytes.len());
            into.resize(length, 0);
        }
        match outcome {
            // Any of the sectors.
            2 => {
                let mut start = 0;
                while start < bytes.len() {
                    let end = bytes.len().min(start + SECTOR - (offset + start) % SECTOR);
                    if random.below(2) == 0 {
                        put(into, offset + start, &bytes[start..end]);
                    }
                    start = end;
                }
            }
            // The bytes up to any one, or from it on.
            3 => {
                let at = random.below(bytes.len() as u64 + 1) as usize;
                if random.below(2) == 0 {
                    put(into, offset, &bytes[..at]);
                } else {
                    put(into, offset + at, &bytes[at..]);
                }
            }
            // None of them.
            _ => {}
        }
    }
}

/// Writes into a file in memory.
fn put(into: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if into.len() < end {
        into.resize(end, 0);
    }
    into[offset..end].copy_from_slice(bytes);
}
