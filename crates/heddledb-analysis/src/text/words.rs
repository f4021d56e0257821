//! A text as lines of words, and refusals that say where they stand.

use super::nearest::nearest;
use std::fmt;

/// What a text is refused for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The letter in the line, from 1.
    pub column: usize,
    /// What is wrong, and what is allowed.
    pub message: String,
    /// The word that was probably meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        match &self.suggestion {
            Some(word) => write!(f, "; did you mean `{word}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ParseError {}

/// A word and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A line with at least one word.
pub(super) struct Line<'a> {
    pub(super) words: &'a [Word],
    pub(super) first: &'a Word,
}

/// The words of a line in lower case, up to a `#`.
pub(super) fn words(line: usize, text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut inside = false;
    for (at, letter) in text.chars().take_while(|&letter| letter != '#').enumerate() {
        match words.last_mut() {
            _ if letter.is_whitespace() => inside = false,
            Some(word) if inside => word.text.extend(letter.to_lowercase()),
            _ => {
                words.push(Word { text: letter.to_lowercase().collect(), line, column: at + 1 });
                inside = true;
            }
        }
    }
    words
}

impl Word {
    pub(super) fn refuse(&self, message: impl Into<String>) -> ParseError {
        ParseError { line: self.line, column: self.column, message: message.into(), suggestion: None }
    }

    pub(super) fn refuse_with<'a>(
        &self,
        message: impl Into<String>,
        known: impl IntoIterator<Item = &'a str>,
    ) -> ParseError {
        ParseError { suggestion: nearest(&self.text, known).map(str::to_owned), ..self.refuse(message) }
    }

    /// The word as a name, if it can be one.
    pub(super) fn name(&self) -> Result<String, ParseError> {
        let allowed = |letter: char| letter.is_alphanumeric() || "_-.:".contains(letter);
        if self.text.chars().all(allowed) {
            return Ok(self.text.clone());
        }
        Err(self.refuse(format!("`{}` is no name: letters, digits and `_ - . :` are allowed", self.text)))
    }

    pub(super) fn number(&self) -> Result<u32, ParseError> {
        let refused = |_| self.refuse(format!("`{}` is no number from 0 to {}", self.text, u32::MAX));
        self.text.parse().map_err(refused)
    }
}

/// The words of a line after the first ones, taken one by one.
pub(super) struct Rest<'a> {
    pub(super) words: &'a [Word],
    /// The word before, to tell where one is missing.
    pub(super) before: &'a Word,
}

impl<'a> Rest<'a> {
    pub(super) fn next(&mut self) -> Option<&'a Word> {
        let (first, rest) = self.words.split_first()?;
        (self.words, self.before) = (rest, first);
        Some(first)
    }

    /// The next word, which has to be there.
    pub(super) fn need(&mut self, what: &str) -> Result<&'a Word, ParseError> {
        let before = self.before;
        self.next().ok_or_else(|| ParseError {
            line: before.line,
            column: before.column + before.text.chars().count(),
            message: format!("{what} is missing after `{}`", before.text),
            suggestion: None,
        })
    }

    /// Names up to one of the words that end them; at least one.
    pub(super) fn names(&mut self, what: &str, ends: &[&str]) -> Result<Vec<String>, ParseError> {
        let mut names = Vec::new();
        while self.words.first().is_some_and(|word| !ends.contains(&word.text.as_str())) {
            let Some(word) = self.next() else { break };
            let name = word.name()?;
            if names.contains(&name) {
                return Err(word.refuse(format!("`{name}` is named twice")));
            }
            names.push(name);
        }
        if names.is_empty() {
            self.need(what)?;
            return Err(self.before.refuse(format!("{what} is missing before `{}`", self.before.text)));
        }
        Ok(names)
    }
}

pub(super) fn end_of_line(rest: &mut Rest<'_>, place: &str) -> Result<(), ParseError> {
    match rest.next() {
        Some(word) => Err(word.refuse(format!("`{}` is too much {place}", word.text))),
        None => Ok(()),
    }
}
