//! Rows: the payload of a checkpoint frame.
//!
//! ```text
//!  word 0   relation 0..16 | key words 16..24 | with values 24 | zero 25..32 | data words 32..64
//!  then     rows of that size: the key's words, then all data words of the row
//!  or, with values, of different sizes: the key's words, how many words follow, all data words of the row, its values
//! ```
//!
//! A frame holds rows of one relation. Rows carry no stamps: a checkpoint is exactly the commits of
//! the epochs up to one, and recovery gives all its rows one stamp below every later commit.

use super::{Malformed, PAYLOAD_WORDS_MAX};

/// The bit of the head that says whether rows have values behind them.
const VALUES: u32 = 24;

/// A payload of rows being written.
#[must_use]
pub struct WritingRows {
    row_words: usize,
    with_values: bool,
    rows: u64,
    limit: usize,
}

impl WritingRows {
    /// Begins a payload of at most `limit` words, or one row if that is longer. Empties `out`.
    pub fn begin(
        out: &mut Vec<u64>,
        relation: u16,
        key_words: u8,
        data_words: u32,
        with_values: bool,
        limit: usize,
    ) -> Self {
        out.clear();
        let values = u64::from(with_values) << VALUES;
        out.push(u64::from(relation) | u64::from(key_words) << 16 | values | u64::from(data_words) << 32);
        let row_words = usize::from(key_words) + usize::from(with_values) + data_words as usize;
        Self { row_words, with_values, rows: 0, limit: limit.min(PAYLOAD_WORDS_MAX) }
    }

    /// Adds a row. The caller then pushes its data words, and its values. Returns where these begin, for
    /// [`WritingRows::end_row`].
    #[inline(always)]
    pub fn row(&mut self, out: &mut Vec<u64>, key: &[u64]) -> usize {
        debug_assert!(self.with_values || (out.len() - 1).is_multiple_of(self.row_words));
        out.reserve(self.row_words);
        out.extend_from_slice(key);
        if self.with_values {
            out.push(0);
        }
        self.rows += 1;
        out.len()
    }

    /// Ends a row whose data begin at word `start`, and may have values behind them.
    #[inline(always)]
    pub fn end_row(&self, out: &mut [u64], start: usize) {
        if self.with_values {
            out[start - 1] = (out.len() - start) as u64;
        }
    }

    /// True when the payload has rows and no room for another.
    #[inline(always)]
    pub fn is_full(&self, out: &[u64]) -> bool {
        out.len() > 1 && out.len() + self.row_words > self.limit
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

/// The rows of a payload; checked.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The relation, by its number in the manifest.
    pub relation: u16,
    /// Words of each key.
    pub key_words: usize,
    /// Words of each row besides the key, and besides its values.
    pub data_words: usize,
    /// Whether values may follow the data words of each row.
    pub with_values: bool,
    len: usize,
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
        if !(1..=8).contains(&key_words) || head >> (VALUES + 1) & 0x7F != 0 {
            return wrong("a list of rows has a malformed head");
        }
        let with_values = head >> VALUES & 1 == 1;
        let new = Self { relation: head as u16, key_words, data_words, with_values, len: 0, words };
        let len = if with_values {
            let (mut len, mut rest) = (0, words);
            while !rest.is_empty() {
                let row = new.split(rest).filter(|(_, data, _)| data.len() >= data_words);
                let Some((_, _, after)) = row else { return wrong("a row is cut off") };
                (len, rest) = (len + 1, after);
            }
            len
        } else if words.len().is_multiple_of(key_words + data_words) {
            words.len() / (key_words + data_words)
        } else {
            return wrong("a row is cut off");
        };
        Ok(Self { len, ..new })
    }

    /// The first row of some words: its key, its data, and what follows.
    fn split(&self, words: &'a [u64]) -> Option<(&'a [u64], &'a [u64], &'a [u64])> {
        let (key, rest) = words.split_at_checked(self.key_words)?;
        let (length, rest) = match self.with_values {
            true => rest.split_first().map(|(length, rest)| (*length as usize, rest))?,
            false => (self.data_words, rest),
        };
        let (data, rest) = rest.split_at_checked(length)?;
        Some((key, data, rest))
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Each row's key and data words, with its [values](crate::values::Logged) behind these.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u64], &'a [u64])> + use<'a> {
        let (rows, mut rest) = (*self, self.words);
        std::iter::from_fn(move || {
            let (key, data, after) = rows.split(rest)?;
            rest = after;
            Some((key, data))
        })
    }
}
