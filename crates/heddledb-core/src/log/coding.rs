//! Words and texts as bytes, and bytes, whatever they are, as words and texts: what a manifest is made of.

/// Bytes that grow.
pub(super) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn word(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    /// Its length in bytes, and its bytes, padded with zeros.
    pub fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }
}

/// Bytes that are read.
pub(super) struct Reader<'a> {
    pub bytes: &'a [u8],
    /// Up to here they have been.
    pub at: usize,
    /// The version of what they are.
    pub format: u32,
}

impl Reader<'_> {
    pub fn word(&mut self) -> Result<u64, &'static str> {
        let (word, _) = self.bytes[self.at..].split_first_chunk().ok_or("it is cut off")?;
        self.at += 8;
        Ok(u64::from_le_bytes(*word))
    }

    pub fn number<T: TryFrom<u64>>(&mut self) -> Result<T, &'static str> {
        self.word()?.try_into().map_err(|_| "a number is too large")
    }

    pub fn choice(&mut self) -> Result<bool, &'static str> {
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a choice is neither 0 nor 1"),
        }
    }

    /// A list of items of at least `words` words each.
    pub fn list<T>(
        &mut self,
        words: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, &'static str>,
    ) -> Result<Vec<T>, &'static str> {
        let count: usize = self.number()?;
        // Before memory is taken for them.
        if count > (self.bytes.len() - self.at) / 8 / words {
            return Err("a list is cut off");
        }
        (0..count).map(|_| item(self)).collect()
    }

    pub fn text(&mut self) -> Result<String, &'static str> {
        let length: usize = self.number()?;
        let rest = &self.bytes[self.at..];
        let padded = length.checked_next_multiple_of(8).ok_or("a text is cut off")?;
        let padded_text = rest.get(..padded).ok_or("a text is cut off")?;
        let (text, padding) = padded_text.split_at(length);
        if padding.iter().any(|byte| *byte != 0) {
            return Err("a text's padding is not zero");
        }
        let text = str::from_utf8(text).map_err(|_| "a text is not UTF-8")?;
        self.at += padded;
        Ok(text.to_owned())
    }
}
