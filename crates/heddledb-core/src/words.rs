//! Data words: what columns are decoded from and encoded into, wherever the words are.

/// A value that is not in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Where it is; only who keeps it knows what that means.
    pub place: u64,
    /// How long it is.
    pub bytes: usize,
}

impl Outside {
    /// The words that its bytes take.
    pub fn words(self) -> usize {
        self.bytes.div_ceil(8)
    }
}

/// Who keeps the values that are not in their rows.
pub trait Values: Send + Sync {
    /// Appends a value's bytes. Where none is kept there, as a torn slot may say, it appends some bytes or none.
    fn read(&self, value: Outside, out: &mut Vec<u8>);
    /// Keeps a value, for a transaction of the worker of that number, until it ends; for as long as a row has it, if it
    /// commits with one. Returns the place. Takes an allocation of a size class, and a copy of the bytes.
    fn put(&self, worker: usize, value: &[u8]) -> u64;
}

/// A source of data words, in a record or in a private copy.
pub trait Words {
    /// Word `index`, counted from the start of the row's data.
    fn word(&self, index: usize) -> u64;

    /// Who keeps those values of the row that are not in it.
    #[inline(always)]
    fn values(&self) -> Option<&dyn Values> {
        None
    }
}

/// A private copy of data words into which columns are stored.
pub trait WordsMut: Words {
    /// Replaces word `index`, counted from the start of the row's data.
    fn set_word(&mut self, index: usize, value: u64);

    /// Keeps a value that the row has no room for, and returns its place.
    ///
    /// # Panics
    /// Where nobody is there to keep it, as in a [`WordsCopy`] that was made without [`WordsCopy::with`].
    fn put(&mut self, value: &[u8]) -> u64;
}

/// A private copy of the words `start..` of a row.
pub struct WordsCopy<'a> {
    start: usize,
    words: &'a mut [u64],
    /// Who keeps its values, and the worker for which.
    values: Option<(&'a dyn Values, usize)>,
}

impl<'a> WordsCopy<'a> {
    /// `words[0]` stands for data word `start`.
    pub fn new(start: usize, words: &'a mut [u64]) -> Self {
        Self { start, words, values: None }
    }

    /// With the values that are not in the row, and those that are put by the worker of that number.
    #[must_use]
    pub fn with(self, values: &'a dyn Values, worker: usize) -> Self {
        Self { values: Some((values, worker)), ..self }
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

    #[inline(always)]
    fn values(&self) -> Option<&dyn Values> {
        self.values.map(|(values, _)| values)
    }
}

impl WordsMut for WordsCopy<'_> {
    #[inline(always)]
    fn set_word(&mut self, index: usize, value: u64) {
        self.words[index - self.start] = value;
    }

    fn put(&mut self, value: &[u8]) -> u64 {
        let (values, worker) = self.values.expect("a row with values has one who keeps them");
        values.put(worker, value)
    }
}

/// A row with the values that are not in it.
pub struct WithValues<'a, S> {
    /// The row.
    pub row: S,
    /// Who keeps its values.
    pub values: &'a dyn Values,
}

impl<S: Words> Words for WithValues<'_, S> {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.row.word(index)
    }

    #[inline(always)]
    fn values(&self) -> Option<&dyn Values> {
        Some(self.values)
    }
}
