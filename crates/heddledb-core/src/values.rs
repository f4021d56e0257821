//! Values of any length: what of one is in the row, and who keeps the rest.
//!
//! A `String` or `Vec<u8>` takes a [`Slot`] of two words in its row. Up to 15 bytes are in the slot itself; of a longer value
//! the slot says where it lies and how long it is. Such a value is never changed: a row that gets another gets another slot,
//! and the engine takes the old value back when nobody can read it any more.
//!
//! ```text
//!   bytes 0..15        byte 15
//!  +------------------+--------+
//!  | the value        | 0..=15 |   its length
//!  +------------------+--------+
//!  | place   | length |  0xFF  |   8 bytes, 7 bytes
//!  +------------------+--------+
//! ```
//!
//! In a log and a checkpoint the bytes of such values follow the words of their row, and the place is how many words
//! are between ([`Logged`]).

use crate::error::Misuse;
pub use crate::words::{Outside, Values};
use crate::words::{Words, WordsMut};

/// Bytes of a slot.
pub const SLOT_BYTES: usize = 16;

/// The most bytes of a value: 16 MiB.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// The most bytes that are in the slot itself.
const WITHIN_MAX: usize = SLOT_BYTES - 1;

/// What the last byte says where a value is not in its slot.
const OUTSIDE: u64 = 0xFF;

/// Where the last byte begins in the second word.
const LAST_BYTE: u32 = 56;

/// What is in a row for a value of any length. Any bits are some slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub [u64; 2]);

impl Slot {
    /// The slot at byte `offset` of a row, where a word begins.
    #[inline(always)]
    pub fn load(source: &impl Words, offset: usize) -> Self {
        Self([source.word(offset / 8), source.word(offset / 8 + 1)])
    }

    /// Of a value that is somewhere else.
    pub fn outside(value: Outside) -> Self {
        Self([value.place, value.bytes as u64 | OUTSIDE << LAST_BYTE])
    }

    /// Of a value that is in the slot itself, if it is short enough.
    fn within(value: &[u8]) -> Option<Self> {
        let mut bytes = [0; SLOT_BYTES];
        bytes.get_mut(..value.len()).filter(|_| value.len() <= WITHIN_MAX)?.copy_from_slice(value);
        bytes[WITHIN_MAX] = value.len() as u8;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at * 8 + byte]));
        Some(Self([word(0), word(1)]))
    }

    /// Where the value is, if it is not in here.
    #[inline(always)]
    pub fn value(self) -> Option<Outside> {
        let [place, rest] = self.0;
        let bytes = (rest & !(u64::MAX << LAST_BYTE)) as usize;
        (rest >> LAST_BYTE == OUTSIDE).then_some(Outside { place, bytes })
    }

    /// How long the value is.
    fn bytes(self) -> usize {
        self.value().map_or_else(|| self.own().1, |value| value.bytes)
    }

    /// The bytes of the slot, and how many of them are the value.
    fn own(self) -> ([u8; SLOT_BYTES], usize) {
        let mut bytes = [0; SLOT_BYTES];
        bytes
            .chunks_exact_mut(8)
            .zip(self.0)
            .for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
        (bytes, usize::from(bytes[WITHIN_MAX]).min(WITHIN_MAX))
    }
}

/// Appends the value at byte `offset` of a row.
pub(crate) fn load_value(source: &impl Words, offset: usize, out: &mut Vec<u8>) {
    let slot = Slot::load(source, offset);
    match (slot.value(), source.values()) {
        (Some(value), Some(values)) => values.read(value, out),
        (Some(_), None) => {}
        (None, _) => {
            let (bytes, length) = slot.own();
            out.extend_from_slice(&bytes[..length]);
        }
    }
}

/// Makes `value` that of the slot at byte `offset` of a row. A value that is there already stays where it is.
pub(crate) fn store_value(value: &[u8], target: &mut impl WordsMut, offset: usize) {
    let slot = Slot::within(value).unwrap_or_else(|| {
        let old = Slot::load(target, offset);
        let same = old.value().filter(|old| old.bytes == value.len()).is_some_and(|_| {
            let mut there = Vec::with_capacity(value.len());
            load_value(target, offset, &mut there);
            there == value
        });
        if same { old } else { Slot::outside(Outside { place: target.put(value), bytes: value.len() }) }
    });
    target.set_word(offset / 8, slot.0[0]);
    target.set_word(offset / 8 + 1, slot.0[1]);
}

/// The words of a row in a log or a checkpoint, and behind them the values that are not in it.
#[derive(Clone, Copy, Debug)]
pub struct Logged<'a>(pub &'a [u64]);

impl<'a> Logged<'a> {
    /// The words of a value, if they are there.
    pub fn value(self, value: Outside) -> Option<&'a [u64]> {
        let start = usize::try_from(value.place).ok()?;
        self.0.get(start..start.checked_add(value.words())?)
    }

    /// Checks that behind the first `words` words are the values of the slots that begin at words `slots`, each once, and
    /// nothing else.
    pub fn is_whole(self, words: usize, slots: impl IntoIterator<Item = usize>) -> bool {
        let mut end = words;
        for at in slots {
            let Some(&[first, second]) = self.0.get(at..at + 2) else { return false };
            let Some(value) = Slot([first, second]).value() else { continue };
            if value.place != end as u64 || value.bytes > VALUE_BYTES_MAX || self.value(value).is_none() {
                return false;
            }
            end += value.words();
        }
        end == self.0.len()
    }
}

impl Words for Logged<'_> {
    fn word(&self, index: usize) -> u64 {
        self.0[index]
    }

    fn values(&self) -> Option<&dyn Values> {
        Some(self)
    }
}

impl Values for Logged<'_> {
    fn read(&self, value: Outside, out: &mut Vec<u8>) {
        append(self.value(value).unwrap_or_default().iter().copied(), value.bytes, out);
    }

    fn put(&self, _worker: usize, _value: &[u8]) -> u64 {
        unreachable!("what was logged is only read")
    }
}

/// Appends `bytes` bytes that lie in words.
pub fn append(words: impl Iterator<Item = u64>, bytes: usize, out: &mut Vec<u8>) {
    let end = out.len().saturating_add(bytes);
    out.reserve(words.size_hint().0 * 8);
    words.for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    out.truncate(end);
}

/// The words in which bytes lie, the last one filled up with zeros.
pub fn in_words(value: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (whole, rest) = value.as_chunks::<8>();
    let last = (!rest.is_empty()).then(|| {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        word
    });
    whole.iter().copied().chain(last).map(u64::from_le_bytes)
}

/// How many bytes of a column of any length a key has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The table whose key it is, or the index.
    pub relation: &'static str,
    /// The part of the key.
    pub part: usize,
    /// The column.
    pub column: &'static str,
    /// The first word of its slot.
    pub slot: usize,
    /// The most bytes that a value may have.
    pub bytes: usize,
}

/// A value that is longer than a key has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longer {
    /// What it is too long for.
    pub limit: Limit,
    /// How long it is.
    pub bytes: usize,
}

impl From<Longer> for Misuse {
    fn from(Longer { limit, bytes }: Longer) -> Self {
        let Limit { relation, column, bytes: limit, .. } = limit;
        Self::KeyTooLong { relation, column, bytes, limit }
    }
}

/// Refuses a row with a value that is longer than one of these keys has room for. Looks at no value, only at how long it is.
///
/// # Errors
/// The first that is too long.
pub fn check_limits(limits: &[Limit], row: &impl Words) -> Result<(), Longer> {
    let longer = limits.iter().find_map(|limit| {
        let bytes = Slot::load(row, limit.slot * 8).bytes();
        (bytes > limit.bytes).then_some(Longer { limit: *limit, bytes })
    });
    longer.map_or(Ok(()), Err)
}

/// Measures the values of a row that is stored into it, and keeps none of it.
#[derive(Debug, Default)]
pub struct Lengths<'a> {
    limits: &'a [Limit],
    /// The length of the longest value that is longer than any may be.
    too_long: Option<usize>,
    longer: Option<Longer>,
}

impl<'a> Lengths<'a> {
    /// Compared with what keys have room for.
    pub fn within(limits: &'a [Limit]) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Whether the values of a row of `table` were all short enough.
    ///
    /// # Errors
    /// [`Misuse::ValueTooLong`], [`Misuse::KeyTooLong`].
    pub fn fit(self, table: &'static str) -> Result<(), Misuse> {
        match (self.too_long, self.longer) {
            (Some(bytes), _) => Err(Misuse::ValueTooLong { table, bytes, limit: VALUE_BYTES_MAX }),
            (None, Some(longer)) => Err(longer.into()),
            (None, None) => Ok(()),
        }
    }
}

impl Words for Lengths<'_> {
    fn word(&self, _index: usize) -> u64 {
        0
    }
}

impl WordsMut for Lengths<'_> {
    fn set_word(&mut self, index: usize, value: u64) {
        let bytes = Slot([0, value]).bytes();
        let longer = self.limits.iter().find(|limit| limit.slot + 1 == index && bytes > limit.bytes);
        self.longer = self.longer.or(longer.map(|limit| Longer { limit: *limit, bytes }));
    }

    fn put(&mut self, value: &[u8]) -> u64 {
        if value.len() > VALUE_BYTES_MAX {
            self.too_long = self.too_long.max(Some(value.len()));
        }
        0
    }
}

/// The values that may be in a key; others are not read, and nothing is in their place.
pub struct Short<'a>(pub &'a dyn Values);

/// More bytes than a key takes.
const SHORT_BYTES: usize = 256;

impl Values for Short<'_> {
    fn read(&self, value: Outside, out: &mut Vec<u8>) {
        if value.bytes <= SHORT_BYTES {
            self.0.read(value, out);
        }
    }

    fn put(&self, worker: usize, value: &[u8]) -> u64 {
        self.0.put(worker, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ColumnValue;
    use crate::words::WordsCopy;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Vec<u8>>>);

    impl Values for Kept {
        fn read(&self, value: Outside, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.0.lock().unwrap()[value.place as usize]);
        }
        fn put(&self, _worker: usize, value: &[u8]) -> u64 {
            let mut kept = self.0.lock().unwrap();
            kept.push(value.to_vec());
            kept.len() as u64 - 1
        }
    }

    #[test]
    fn values_up_to_fifteen_bytes_are_in_their_slots() {
        let kept = Kept::default();
        let mut words = [u64::MAX, 0, 0];
        for length in [0, 1, 7, 8, 14, 15, 16, 17, 1000] {
            let text: String = "ä-long.".chars().cycle().take(length).collect();
            let mut row = WordsCopy::new(0, &mut words).with(&kept, 0);
            for _ in 0..2 {
                text.store(&mut row, 8);
                assert_eq!(String::load(&row, 8), text);
                text.clone().into_bytes().store(&mut row, 8);
                assert_eq!(Vec::<u8>::load(&row, 8), text.as_bytes());
            }
            Some(text.clone()).store(&mut WordsCopy::new(0, &mut [0; 4]).with(&kept, 0), 8);
            assert_eq!(words[0], u64::MAX);
        }
        // Five are longer: each was put once for the row, and once for the option.
        assert_eq!(kept.0.lock().unwrap().len(), 2 * 5);
    }

    #[test]
    fn what_was_logged_is_read_with_its_values_or_refused() {
        let (long, slot) = ([7u8; 20], |place, bytes| Slot::outside(Outside { place, bytes }).0);
        let mut words = vec![5];
        words.extend(slot(3, long.len()));
        words.extend(in_words(&long));
        assert_eq!(Vec::<u8>::load(&Logged(&words), 8), long);
        assert!(Logged(&words).is_whole(3, [1]));
        assert!(!Logged(&words[..5]).is_whole(3, [1]) && !Logged(&words).is_whole(3, []));
        assert!(!Logged(&words).is_whole(6, [1]));
        for bits in [slot(u64::MAX, 20), slot(3, 25), slot(2, 20), slot(3, usize::MAX)] {
            words[1..3].copy_from_slice(&bits);
            assert!(!Logged(&words).is_whole(3, [1]));
            let _ = Vec::<u8>::load(&Logged(&words), 8);
        }
    }

    #[test]
    fn bytes_are_the_same_in_words() {
        for length in 0..40u8 {
            let bytes: Vec<u8> = (0..length).collect();
            let mut out = vec![9];
            append(in_words(&bytes), bytes.len(), &mut out);
            assert_eq!(out[1..], bytes);
        }
    }
}
