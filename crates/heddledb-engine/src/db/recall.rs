//! The replay log: what a call was told so far, for the next execution of its body.
//!
//! Under a protocol that shows writes piece by piece, a piece that must be executed again is executed by
//! running the body again from its start. The accesses of the pieces that stand are not repeated, because the
//! database has moved on: the body is told what it was told before, and so reaches that piece again. All that it
//! did is still in the write set.
//!
//! The answers are kept as words, in order. A body that asks for something else than before is not a
//! procedure; that is detected, and refused ([`Misuse::Diverged`]).

use crate::error::{Misuse, Result};

/// The answers to one call's accesses.
#[derive(Default)]
pub(crate) struct ReplayLog {
    words: Vec<u64>,
    /// The position of the next answer to replay, and the end of those.
    at: usize,
    end: usize,
    /// The savepoint: answers from here on belong to the piece that runs.
    stands: usize,
    /// Where the mark of the last answer is.
    answer: usize,
    /// How the answer that is replayed was refused, if it was.
    refused: u64,
}

/// Above this bit of an answer's mark is how the operation was refused: 0 if it was not.
const REFUSED: u32 = 16;

impl ReplayLog {
    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        self.words.clear();
        (self.at, self.end, self.stands) = (0, 0, 0);
    }

    /// Sets the savepoint: the answers so far stand, and a new piece begins.
    #[inline]
    pub fn save(&mut self) {
        self.stands = self.words.len();
    }

    /// The body begins again: forgets the answers since the savepoint, and replays those before it.
    pub fn rollback_to_savepoint(&mut self) {
        self.words.truncate(self.stands);
        (self.at, self.end) = (0, self.stands);
    }

    /// Whether the next answer is replayed.
    #[inline(always)]
    pub fn repeats(&self) -> bool {
        self.at < self.end
    }

    /// Keeps the mark of an access, whose answer follows.
    #[inline]
    pub fn begin(&mut self, site: u16) {
        self.answer = self.words.len();
        self.words.push(site.into());
    }

    /// The operation whose answer was kept last is refused, for a reason of that number above 0.
    #[cold]
    pub fn refuse(&mut self, reason: u64) {
        self.words[self.answer] |= reason << REFUSED;
    }

    /// For what reason the operation that is replayed was refused; 0 if it was not.
    #[inline]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Keeps a word.
    #[inline]
    pub fn push(&mut self, word: u64) {
        self.words.push(word);
    }

    /// Keeps words.
    #[inline]
    pub fn extend(&mut self, words: &[u64]) {
        match *words {
            [word] => self.words.push(word),
            _ => self.words.extend_from_slice(words),
        }
    }

    /// Keeps the words of a row, or that there was none.
    #[inline(always)]
    pub fn push_row(&mut self, words: Option<&[u64]>) {
        match words {
            // As often as not.
            Some([word]) => self.words.extend_from_slice(&[1, *word]),
            Some(words) => {
                self.words.push(1);
                self.words.extend_from_slice(words);
            }
            None => self.words.push(0),
        }
    }

    /// The next word.
    pub fn next(&mut self) -> Result<u64> {
        let word = self.words.get(self.at).copied().ok_or(Misuse::Diverged)?;
        self.at += 1;
        Ok(word)
    }

    /// The next words.
    pub fn next_words(&mut self, words: usize) -> Result<&[u64]> {
        let end = self.at + words;
        let words = self.words.get(self.at..end).ok_or(Misuse::Diverged)?;
        self.at = end;
        Ok(words)
    }

    /// Reads the next word, which must be the mark that the access at this site left.
    pub fn expect(&mut self, site: u16) -> Result<()> {
        let mark = self.next()?;
        self.refused = mark >> REFUSED;
        if mark & ((1 << REFUSED) - 1) == site.into() { Ok(()) } else { Err(Misuse::Diverged.into()) }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn answers_are_repeated_up_to_the_piece_that_failed() {
        let mut replay_log = ReplayLog::default();
        replay_log.begin(1);
        replay_log.refuse(2);
        replay_log.save();
        replay_log.push(2);
        replay_log.rollback_to_savepoint();
        assert!(replay_log.repeats());
        replay_log.expect(1).unwrap();
        assert_eq!(replay_log.refused(), 2);
        assert!(!replay_log.repeats(), "the piece that failed is executed");
        replay_log.push(3);
        assert!(!replay_log.repeats());
        replay_log.save();
        replay_log.rollback_to_savepoint();
        replay_log.expect(1).unwrap();
        assert!(replay_log.expect(2).is_err(), "another access than before");
    }
}
