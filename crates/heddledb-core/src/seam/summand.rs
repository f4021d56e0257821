//! What is added to a data word without reading it.

use crate::mutant::{Mutant, planted};

/// What is added to a data word: by itself, or to one of two columns of 4 bytes that share the word. Nothing is carried from one
/// into the other, so sums are the same in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summand {
    /// To the word, wrapping.
    Whole(u64),
    /// To each half of the word on its own, wrapping.
    Halves(u64),
}

impl Summand {
    /// For a column of `bytes` bytes, 8 or 4, at `offset` in the row, from its value's bits.
    #[inline(always)]
    pub fn of(bits: u64, bytes: usize, offset: usize) -> Self {
        match bytes {
            4 => Self::Halves(bits << (offset % 8 * 8)),
            _ => Self::Whole(bits),
        }
    }

    /// Its bits, as they lie in the word.
    #[inline(always)]
    pub fn bits(self) -> u64 {
        match self {
            Self::Whole(bits) | Self::Halves(bits) => bits,
        }
    }

    /// The sum of a word and this.
    #[inline(always)]
    pub fn plus(self, word: u64) -> u64 {
        match self {
            Self::Whole(bits) => word.wrapping_add(bits),
            Self::Halves(bits) if planted(Mutant::AddCarries) => word.wrapping_add(bits),
            Self::Halves(bits) => {
                let high = (word >> 32).wrapping_add(bits >> 32) << 32;
                high | u64::from((word as u32).wrapping_add(bits as u32))
            }
        }
    }

    /// What adds this and another, for the same word.
    #[inline]
    pub fn and(self, other: Self) -> Self {
        match self {
            Self::Whole(bits) => Self::Whole(other.plus(bits)),
            Self::Halves(bits) => Self::Halves(other.plus(bits)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Summand;

    #[test]
    fn halves_carry_nothing() {
        let low = Summand::of(u64::from(u32::MAX), 4, 16);
        let high = Summand::of(5, 4, 20);
        assert_eq!(low.plus(7 << 32 | 3), 7 << 32 | 2);
        assert_eq!(high.plus(u64::from(u32::MAX) << 32 | 9), 4 << 32 | 9);
        for word in [0, u64::MAX, 1 << 32, 0xFFFF_FFFF] {
            assert_eq!(low.and(high).and(low).plus(word), high.plus(low.plus(low.plus(word))));
        }
        let less = Summand::of(1_u64.wrapping_neg(), 8, 8);
        assert_eq!((less.plus(0), less.and(less).plus(2)), (u64::MAX, 0));
    }
}
