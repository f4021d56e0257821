//! Data words: what columns are decoded from and encoded into, wherever the words are.

/// A source of data words, in a record or in a private copy.
pub trait Words {
    /// Word `index`, counted from the start of the row's data.
    fn word(&self, index: usize) -> u64;
}

/// A private copy of data words into which columns are stored.
pub trait WordsMut: Words {
    /// Replaces word `index`, counted from the start of the row's data.
    fn set_word(&mut self, index: usize, value: u64);
}

/// A private copy of the words `start..` of a row.
pub struct WordsCopy<'a> {
    start: usize,
    words: &'a mut [u64],
}

impl<'a> WordsCopy<'a> {
    /// `words[0]` stands for data word `start`.
    pub fn new(start: usize, words: &'a mut [u64]) -> Self {
        Self { start, words }
    }
}

/// All data words of a row.
impl Words for &[u64] {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self[index]
    }
}

impl Words for WordsCopy<'_> {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.words[index - self.start]
    }
}

impl WordsMut for WordsCopy<'_> {
    #[inline(always)]
    fn set_word(&mut self, index: usize, value: u64) {
        self.words[index - self.start] = value;
    }
}
