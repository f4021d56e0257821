//! Entries: the writes of one transaction as words, or the call that made them ([`Command`]).
//!
//! ```text
//!  word 0   commit time: a stamp without its two state bits
//!  word 1   words of the entry, these two included (low 32) | writes (32..62) | alone 62 | zero 63
//!  then for each write
//!           relation 0..16 | groups 16..32 | key words 32..36 | present 36 | data words 37..64
//!           the key's words
//!           the words of the written column groups, ascending; none if the row is deleted
//! ```
//!
//! A payload is entries one after the other. [`Writing`] is on the path of every commit: it only
//! pushes words. [`Entries`] checks every length of an entry before it hands the entry out.

use super::command::{ALONE, COMMAND, Command};
use crate::stamp;

const KEY_WORDS: u32 = 32;
const PRESENT: u32 = 36;
const DATA_WORDS: u32 = 37;
const KEY_WORDS_MAX: usize = 8;
/// Column groups that a relation may have: a set of them has so many bits in a file.
pub const GROUPS_MAX: usize = 16;
pub(super) const DATA_WORDS_MAX: usize = (1 << 27) - 1;

/// An entry being written at the end of a buffer.
#[must_use = "an entry counts only after `end`"]
pub struct Writing {
    start: usize,
    writes: u32,
}

impl Writing {
    /// Begins the entry of a transaction that commits at `time`; state bits are dropped.
    #[inline(always)]
    pub fn begin(out: &mut Vec<u64>, time: u64) -> Self {
        let start = out.len();
        out.extend_from_slice(&[stamp::time(time), 0]);
        Self { start, writes: 0 }
    }

    /// Adds a write. The caller then pushes `data_words` words: those of the column groups in
    /// `groups`, ascending; none for a row that is not present any more.
    #[inline(always)]
    pub fn write(
        &mut self,
        out: &mut Vec<u64>,
        relation: u16,
        groups: u32,
        present: bool,
        key: &[u64],
        data_words: usize,
    ) {
        debug_assert!((1..=KEY_WORDS_MAX).contains(&key.len()) && data_words <= DATA_WORDS_MAX);
        debug_assert!((present || data_words == 0) && groups >> GROUPS_MAX == 0);
        out.reserve(1 + key.len() + data_words);
        out.push(
            u64::from(relation)
                | u64::from(groups) << 16
                | (key.len() as u64) << KEY_WORDS
                | u64::from(present) << PRESENT
                | (data_words as u64) << DATA_WORDS,
        );
        out.extend_from_slice(key);
        self.writes += 1;
    }

    /// Ends the entry, and says how many words it has. A frame takes no entry of more than
    /// [`super::PAYLOAD_WORDS_MAX`] words: the caller refuses such a transaction.
    #[inline(always)]
    pub fn end(self, out: &mut [u64]) -> usize {
        self.end_alone(out, false)
    }

    /// The same, of one that is replayed alone beside calls, if that is so.
    #[inline(always)]
    pub fn end_alone(self, out: &mut [u64], alone: bool) -> usize {
        let words = out.len() - self.start;
        let alone = if alone { ALONE } else { 0 };
        out[self.start + 1] = words as u64 | u64::from(self.writes) << 32 | alone;
        words
    }
}

/// Words that are not what a writer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}, at word {at} of a payload")]
pub struct Malformed {
    /// The word where the malformed entry or list of rows begins.
    pub at: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

/// The entries of a payload, each checked. Ends at the first that is malformed.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u64],
    at: usize,
}

impl<'a> Entries<'a> {
    /// The entries in `payload`, whatever it holds.
    pub fn new(payload: &'a [u64]) -> Self {
        Self { rest: payload, at: 0 }
    }

    fn split(words: &'a [u64]) -> Result<(Entry<'a>, &'a [u64]), &'static str> {
        let &[time, size, ..] = words else { return Err("an entry is cut off") };
        let (length, writes) = ((size & 0xFFFF_FFFF) as usize, (size >> 32) as u32 & ((1 << 30) - 1));
        if length < 2 {
            return Err("an entry is shorter than its head");
        }
        let (entry, rest) = words.split_at_checked(length).ok_or("an entry is cut off")?;
        if stamp::time(time) != time {
            return Err("a commit time has state bits");
        }
        let alone = size & ALONE != 0;
        if size & COMMAND != 0 {
            let command = Some(Command::read(entry)?);
            return Ok((Entry { time, count: 0, body: &[], at: 0, words: entry, command, alone }, rest));
        }
        let mut body = &entry[2..];
        for _ in 0..writes {
            (_, body) = Write::split(body)?;
        }
        if !body.is_empty() {
            return Err("an entry has words behind its last write");
        }
        Ok((
            Entry { time, count: writes, body: &entry[2..], at: 0, words: entry, command: None, alone },
            rest,
        ))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        Some(match Self::split(self.rest) {
            Ok((mut entry, rest)) => {
                entry.at = self.at;
                self.at += self.rest.len() - rest.len();
                self.rest = rest;
                Ok(entry)
            }
            Err(what) => {
                self.rest = &[];
                Err(Malformed { at: self.at, what })
            }
        })
    }
}

/// A transaction of the log. Its lengths have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    time: u64,
    count: u32,
    body: &'a [u64],
    /// Where it begins in the payload.
    at: usize,
    words: &'a [u64],
    command: Option<Command<'a>>,
    alone: bool,
}

impl<'a> Entry<'a> {
    /// The commit time: a stamp without state bits.
    #[inline(always)]
    pub fn time(&self) -> u64 {
        self.time
    }

    /// The commit epoch.
    #[inline(always)]
    pub fn epoch(&self) -> u64 {
        stamp::epoch(self.time)
    }

    /// How many writes there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// All its words.
    pub fn words(&self) -> &'a [u64] {
        self.words
    }

    /// Appends it to a payload, as one that is replayed alone if that is so or is asked for.
    pub fn copy_to(&self, out: &mut Vec<u64>, alone: bool) {
        let start = out.len();
        out.extend_from_slice(self.words);
        if alone {
            out[start + 1] |= ALONE;
        }
    }

    /// The call, if it is one. Then it has no writes.
    #[inline(always)]
    pub fn command(&self) -> Option<&Command<'a>> {
        self.command.as_ref()
    }

    /// Beside calls nothing is replayed together with it: all before it ends first, and all behind it begins after it.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// True for a transaction without writes.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The writes, in the order in which they were logged.
    #[inline(always)]
    pub fn writes(&self) -> Writes<'a> {
        Writes { rest: self.body, at: self.at + 2 }
    }
}

/// The writes of a transaction.
#[derive(Clone, Debug)]
pub struct Writes<'a> {
    rest: &'a [u64],
    at: usize,
}

impl Writes<'_> {
    /// The word of the payload where the next write begins, for [`Write::at`].
    #[inline(always)]
    pub fn at(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Writes<'a> {
    type Item = Write<'a>;

    #[inline]
    fn next(&mut self) -> Option<Write<'a>> {
        // `Entries` has been through these words: this ends where they end.
        let (write, rest) = Write::split(self.rest).ok()?;
        self.at += self.rest.len() - rest.len();
        self.rest = rest;
        Some(write)
    }
}

/// A logged write of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// The relation, by its number in the manifest.
    pub relation: u16,
    /// The written column groups, one bit each.
    pub groups: u32,
    /// False when the row was deleted.
    pub present: bool,
    /// The key's words.
    pub key: &'a [u64],
    /// The words of the written column groups, ascending.
    pub data: &'a [u64],
}

impl<'a> Write<'a> {
    /// The write that begins at word `at` of a payload, if there may be one.
    #[inline]
    pub fn at(payload: &'a [u64], at: usize) -> Option<Self> {
        Self::split(payload.get(at..)?).ok().map(|(write, _)| write)
    }

    #[inline]
    fn split(words: &'a [u64]) -> Result<(Self, &'a [u64]), &'static str> {
        let (&head, rest) = words.split_first().ok_or("an entry has fewer writes than it says")?;
        let (key, data) = ((head >> KEY_WORDS & 15) as usize, (head >> DATA_WORDS) as usize);
        let present = head >> PRESENT & 1 == 1;
        if key == 0 || key > KEY_WORDS_MAX {
            return Err("a key has no words or more than 8");
        }
        if !present && data != 0 {
            return Err("a deleted row has data");
        }
        let (key, rest) = rest.split_at_checked(key).ok_or("a key is cut off")?;
        let (data, rest) = rest.split_at_checked(data).ok_or("a row is cut off")?;
        Ok((Self { relation: head as u16, groups: u32::from((head >> 16) as u16), present, key, data }, rest))
    }
}
