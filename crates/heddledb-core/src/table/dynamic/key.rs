//! Encoded keys whose width is known at run time.

use crate::table::key::{decrement, fill_after, increment, key_words};
use std::fmt;
use std::ops::Deref;

/// The most words that a key has.
pub(super) const WORDS_MAX: usize = 8;

/// An encoded key: one to eight words, without heap memory.
///
/// It orders like the key does, among keys of the same relation, and derefs to its words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EncodedKey {
    /// Zero behind `len`, so that the derived order is that of the words.
    words: [u64; WORDS_MAX],
    len: u8,
}

impl EncodedKey {
    /// A key of `bytes` bytes, all zero.
    pub(super) fn zero(bytes: usize) -> Self {
        let len = key_words(bytes);
        assert!((1..=WORDS_MAX).contains(&len), "a key has one to eight words");
        Self { words: [0; WORDS_MAX], len: len as u8 }
    }

    /// The words, most significant first.
    pub fn words(&self) -> &[u64] {
        &self.words[..usize::from(self.len)]
    }

    /// The same words, to write.
    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words[..usize::from(self.len)]
    }

    /// The largest key that starts with the first `prefix` bytes of this one.
    pub(super) fn last_with_prefix(mut self, prefix: usize) -> Self {
        fill_after(self.words_mut(), prefix);
        self
    }

    /// The next larger key, `None` after the last.
    pub fn successor(mut self) -> Option<Self> {
        increment(self.words_mut()).then_some(self)
    }

    /// The next smaller key, `None` before the first.
    pub fn predecessor(mut self) -> Option<Self> {
        decrement(self.words_mut()).then_some(self)
    }
}

impl Deref for EncodedKey {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        self.words()
    }
}

impl fmt::Debug for EncodedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words().fmt(f)
    }
}
