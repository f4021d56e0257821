//! Memory for what a transaction shows of its writes before they are in the records, and for what belongs to
//! it (IC3's accessors).
//!
//! Each worker has its own memory, and reuses all of it in each transaction. It does not wait for readers
//! that still look there: they read atomic words of memory that stays mapped until the database is dropped,
//! and the protocol's words tell them that what they read is void.

#![allow(unsafe_code)]

use crate::arena::Chunk;
use crate::record::RecordRef;
use crate::sync::{MODEL, Mutex, lock};

/// Words of a chunk: 32 KiB.
const CHUNK_WORDS: usize = if MODEL || cfg!(miri) { 256 } else { 1 << 12 };

/// The chunks of all workers.
#[derive(Debug, Default)]
pub(super) struct Chunks(Mutex<Vec<Chunk>>);

impl Chunks {
    /// A new chunk, which lives as long as this: with the state that the workers of a database share.
    fn add(&self, words: usize) -> RecordRef {
        let chunk = Chunk::new(words);
        let first = chunk.block(0);
        lock(&self.0).push(chunk);
        first
    }
}

/// One worker's chunks.
#[derive(Debug, Default)]
pub(super) struct Images {
    chunks: Vec<(RecordRef, usize)>,
    /// How many of them are in use, the next free word of the last of those, and how many are left of it.
    chunk: usize,
    next: Option<RecordRef>,
    left: usize,
}

impl Images {
    /// All chunks may be reused.
    #[inline]
    pub fn clear(&mut self) {
        (self.chunk, self.next, self.left) = (0, None, 0);
    }

    /// Takes `words` words, with whatever they held.
    #[inline(always)]
    pub fn take(&mut self, words: usize, chunks: &Chunks) -> RecordRef {
        match self.next {
            Some(next) if words <= self.left => {
                // SAFETY: not behind the end of the chunk, of which `left` words are left from `next` on.
                (self.next, self.left) = (Some(unsafe { next.behind(words) }), self.left - words);
                next
            }
            _ => self.take_from_next(words, chunks),
        }
    }

    #[cold]
    fn take_from_next(&mut self, words: usize, chunks: &Chunks) -> RecordRef {
        loop {
            if self.chunk == self.chunks.len() {
                let len = CHUNK_WORDS.max(words);
                self.chunks.push((chunks.add(len), len));
            }
            let (chunk, len) = self.chunks[self.chunk];
            self.chunk += 1;
            if words <= len {
                // SAFETY: as above; the chunk has `len` words.
                (self.next, self.left) = (Some(unsafe { chunk.behind(words) }), len - words);
                return chunk;
            }
        }
    }
}
