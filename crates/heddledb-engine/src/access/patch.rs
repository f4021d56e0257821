//! What a write changes of a row.

use crate::seam::Summand;

/// No patch, or no other one.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Patch {
    pub kind: PatchKind,
    /// First data word.
    pub start: u32,
    /// Words.
    pub len: u32,
    /// Where the words are in the scratch buffer; for `Merge` followed by as many mask words.
    pub words: u32,
    pub next: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchKind {
    /// Replace the words.
    Copy,
    /// Add to the word, wrapping.
    Add,
    /// Replace the bits that the mask selects.
    Merge,
    /// Add to each half of the word on its own, wrapping.
    AddHalves,
}

impl PatchKind {
    /// That of an addition.
    #[inline(always)]
    pub fn of(summand: Summand) -> Self {
        match summand {
            Summand::Whole(_) => Self::Add,
            Summand::Halves(_) => Self::AddHalves,
        }
    }

    /// The sum of a word and the word of an addition of this kind.
    #[inline(always)]
    pub fn sum(self, word: u64, added: u64) -> u64 {
        match self {
            Self::AddHalves => Summand::Halves(added).plus(word),
            _ => Summand::Whole(added).plus(word),
        }
    }
}
