//! Rows: the payload of a checkpoint frame.
//!
//! ```text
//!  word 0   relation 0..16 | key words 16..24 | zero 24..32 | data words 32..64
//!  then     rows of that size: the key's words, then all data words of the row
//! ```
//!
//! A frame holds rows of one relation. Rows carry no stamps: a checkpoint is exactly the commits of
//! the epochs up to one, and recovery gives all its rows one stamp below every later commit.

use super::{Malformed, PAYLOAD_WORDS_MAX};

/// A payload of rows being written.
#[must_use]
pub struct WritingRows {
    row_words: usize,
    limit: usize,
}

impl WritingRows {
    /// Begins a payload of at most `limit` words, or one row if that is longer. Empties `out`.
    pub fn begin(out: &mut Vec<u64>, relation: u16, key_words: u8, data_words: u32, limit: usize) -> Self {
        out.clear();
        out.push(u64::from(relation) | u64::from(key_words) << 16 | u64::from(data_words) << 32);
        let row_words = usize::from(key_words) + data_words as usize;
        Self { row_words, limit: limit.min(PAYLOAD_WORDS_MAX) }
    }

    /// Adds a row. The caller then pushes its data words.
    #[inline(always)]
    pub fn row(&mut self, out: &mut Vec<u64>, key: &[u64]) {
        debug_assert!((out.len() - 1).is_multiple_of(self.row_words));
        out.reserve(self.row_words);
        out.extend_from_slice(key);
    }

    /// True when the payload has rows and no room for another.
    #[inline(always)]
    pub fn is_full(&self, out: &[u64]) -> bool {
        out.len() > 1 && out.len() + self.row_words > self.limit
    }

    /// How many rows there are.
    pub fn rows(&self, out: &[u64]) -> u64 {
        ((out.len() - 1) / self.row_words) as u64
    }
}

/// The rows of a payload; checked.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The relation, by its number in the manifest.
    pub relation: u16,
    /// Words of each key.
    pub key_words: usize,
    /// Words of each row besides the key.
    pub data_words: usize,
    words: &'a [u64],
}

impl<'a> Rows<'a> {
    /// The rows in `payload`, whatever it holds.
    ///
    /// # Errors
    /// Words that are no whole number of rows.
    pub fn new(payload: &'a [u64]) -> Result<Self, Malformed> {
        let wrong = |what| Err(Malformed { at: 0, what });
        let Some((&head, words)) = payload.split_first() else {
            return wrong("a list of rows has no head");
        };
        let (key_words, data_words) = ((head >> 16 & 0xFF) as usize, (head >> 32) as usize);
        if !(1..=8).contains(&key_words) || head >> 24 & 0xFF != 0 {
            return wrong("a list of rows has a malformed head");
        }
        if !words.len().is_multiple_of(key_words + data_words) {
            return wrong("a row is cut off");
        }
        Ok(Self { relation: head as u16, key_words, data_words, words })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.words.len() / (self.key_words + self.data_words)
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Each row's key and data words.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'a [u64], &'a [u64])> + use<'a> {
        let key_words = self.key_words;
        self.words.chunks_exact(key_words + self.data_words).map(move |row| row.split_at(key_words))
    }
}
