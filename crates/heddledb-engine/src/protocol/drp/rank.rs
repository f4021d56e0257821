//! Where an item is in the order in which transactions queue.
//!
//! ```text
//!   63 .. 56   55 ...... 44   43     42 ............... 4   3 ... 0
//!   class      relation       fold   place of the key       group
//! ```
//!
//! The class is the rank of the column group, as its table says ([`Group::rank`](crate::table::Group::rank)).
//!
//! A rank says what a row is, and not where it is: no address, and nothing that is stored with it. Of a
//! key of up to four words that are not too large the place has every bit, so no two items of a relation have one rank.
//! Of others it is a fold, and ranks may tie; what that asks for is in [`super::queue`].

use crate::access::Groups;
use crate::table::Layout;

/// A rank; 0 is below every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Rank(u64);

const GROUP_BITS: u32 = 4;
const PLACE_BITS: u32 = 39;
const FOLD: u64 = 1 << (GROUP_BITS + PLACE_BITS);
const RELATION: u32 = GROUP_BITS + PLACE_BITS + 1;
const CLASS: u32 = RELATION + 12;

/// So many bits has each word of a key of that many words, for the place to have all of them. As in keys by warehouse,
/// district, order, line.
const WIDTHS: [&[u32]; 5] = [&[], &[39], &[15, 24], &[12, 7, 20], &[10, 6, 18, 5]];

impl Rank {
    /// That of a column group of a row.
    #[inline]
    pub fn new(class: u8, relation: usize, key: &[u64], group: usize) -> Self {
        debug_assert!(relation < 1 << 12 && group < 1 << GROUP_BITS, "so many are permitted");
        let place = place(key);
        Self(u64::from(class) << CLASS | (relation as u64) << RELATION | place << GROUP_BITS | group as u64)
    }

    /// Whether another item may have the same.
    #[inline]
    pub fn may_tie(self) -> bool {
        self.0 & FOLD != 0
    }

    /// As a number.
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }
}

/// Of these column groups of a row the one that is the last in the order of ranks.
#[inline]
pub(super) fn last_of(layout: &Layout, groups: Groups) -> Option<usize> {
    groups.max_by_key(|group| (layout.groups[*group].rank, *group))
}

/// The place of a key, and whether it is a fold.
#[inline]
fn place(key: &[u64]) -> u64 {
    if let [word] = *key
        && word < 1 << PLACE_BITS
    {
        return word;
    }
    exact(key).unwrap_or_else(|| fold(key) | 1 << PLACE_BITS)
}

/// All words side by side, if they fit.
fn exact(key: &[u64]) -> Option<u64> {
    let widths = WIDTHS.get(key.len())?;
    let fits = |(word, width): (&u64, &u32)| *word < 1 << width;
    let side_by_side = |place, (word, width): (&u64, &u32)| place << width | word;
    let words = || key.iter().zip(*widths);
    words().all(fits).then(|| words().fold(0, side_by_side))
}

/// Bits of all words.
fn fold(key: &[u64]) -> u64 {
    let mix = |fold: u64, word: &u64| (fold ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    key.iter().fold(key.len() as u64, mix) >> (64 - PLACE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::RANK;

    #[test]
    fn the_order_is_by_class_relation_key_group() {
        let rank = |class, relation, key: &[u64], group| Rank::new(class, relation, key, group);
        let rising = [
            rank(1, 4095, &[7], 15),
            rank(2, 0, &[1, 7], 15),
            rank(2, 1, &[1, 2], 0),
            rank(2, 1, &[1, 2], 1),
            rank(2, 1, &[2, 1], 0),
            rank(2, 1, &[2, u64::MAX], 0),
            rank(2, 2, &[0], 0),
        ];
        assert!(rising.is_sorted_by(|one, other| one < other), "{rising:?}");
        assert!(rising[0].bits() > 0);
    }

    #[test]
    fn only_what_fits_cannot_tie() {
        let ties = |key: &[u64]| Rank::new(RANK, 3, key, 1).may_tie();
        assert!(!ties(&[]) && !ties(&[(1 << 39) - 1]) && ties(&[1 << 39]));
        assert!(!ties(&[0x7FFF, 0xFF_FFFF]) && ties(&[0x8000, 0]) && ties(&[0, 0x100_0000]));
        assert!(!ties(&[4095, 127, 1_000_000]) && !ties(&[1023, 63, 260_000, 31]) && ties(&[1; 5]));
    }

    #[test]
    fn places_that_cannot_tie_differ() {
        let mut seen = std::collections::HashSet::new();
        for one in 0..64 {
            for other in 0..64 {
                for third in 0..8 {
                    assert!(seen.insert(Rank::new(RANK, 1, &[one, other, third], 0)));
                }
            }
        }
    }
}
