//! Additions that are put off: what a call has put aside, and what a worker's shelf holds.
//!
//! Both are lists of entries. Entries for one word of one row become one by [`Additions::compact`], which is done whenever a list
//! has doubled since: so a list is never longer than twice the words that it concerns, and an entry costs a share of one sort.

use crate::mutant::{Mutant, planted};
use crate::seam::Summand;
use crate::sync::{Work, work};
use crate::table::{Definition, GroupSet};

/// An addition to a word of a row.
#[derive(Clone, Copy)]
pub(super) struct Addition {
    pub relation: &'static Definition,
    /// The column group of the word.
    pub groups: GroupSet,
    pub word: usize,
    pub summand: Summand,
    /// Where its key begins, and how many words it has.
    key: (u32, u32),
}

/// A list of additions.
#[derive(Default)]
pub(super) struct Additions {
    entries: Vec<Addition>,
    /// The words of keys.
    keys: Vec<u64>,
    /// How many entries there were after it was made compact.
    compacted: usize,
}

/// What a call has put aside so far.
#[derive(Default)]
pub(super) struct Aside {
    pub additions: Additions,
    /// Of which that many are of pieces that have committed.
    pub stands: usize,
}

/// A list is made compact when it has twice as many entries as after the last time, and so many.
const SLACK: usize = 64;

impl Additions {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn entries(&self) -> &[Addition] {
        &self.entries
    }

    pub fn key(&self, addition: &Addition) -> &[u64] {
        let (at, words) = addition.key;
        &self.keys[at as usize..][..words as usize]
    }

    pub fn push(
        &mut self,
        relation: &'static Definition,
        key: &[u64],
        groups: GroupSet,
        word: usize,
        summand: Summand,
    ) {
        work(Work::Words(key.len() + 2));
        let at = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        self.entries.push(Addition { relation, groups, word, summand, key: (at, key.len() as u32) });
    }

    /// Adds another list.
    pub fn append(&mut self, other: &Self) {
        for addition in &other.entries {
            self.push(
                addition.relation,
                other.key(addition),
                addition.groups,
                addition.word,
                addition.summand,
            );
        }
        if self.entries.len() >= 2 * self.compacted + SLACK {
            self.compact();
        }
    }

    /// Forgets all entries from the one with this number on.
    pub fn truncate(&mut self, length: usize) {
        if let Some(first) = self.entries.get(length) {
            self.keys.truncate(first.key.0 as usize);
            self.entries.truncate(length);
        }
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.keys.clear();
        self.compacted = 0;
    }

    /// Leaves one entry for each word of a row, in the order of relations, keys and words.
    pub fn compact(&mut self) {
        let Self { entries, keys, .. } = self;
        let key = |one: &Addition| &keys[one.key.0 as usize..][..one.key.1 as usize];
        let place = |one: &Addition| (one.relation.number(), one.word);
        entries.sort_unstable_by(|one, other| {
            (one.relation.number(), key(one), one.word).cmp(&(
                other.relation.number(),
                key(other),
                other.word,
            ))
        });
        let mut sums: Vec<Addition> = Vec::with_capacity(entries.len());
        let mut summed = Vec::with_capacity(keys.len());
        for one in entries.iter() {
            let same = sums
                .last()
                .is_some_and(|last| place(last) == place(one) && summed[last.key.0 as usize..] == *key(one));
            match sums.last_mut() {
                Some(last) if same => last.summand = last.summand.and(one.summand),
                _ => {
                    let at = summed.len() as u32;
                    summed.extend_from_slice(key(one));
                    sums.push(Addition { key: (at, one.key.1), ..*one });
                }
            }
        }
        self.compacted = sums.len();
        (self.entries, self.keys) = (sums, summed);
    }
}

impl Aside {
    pub fn begin_call(&mut self) {
        self.additions.clear();
        self.stands = 0;
    }

    /// The piece that runs has committed. True if it has put something aside.
    pub fn save(&mut self) -> bool {
        let before = std::mem::replace(&mut self.stands, self.additions.len());
        self.stands > before
    }

    /// The piece that runs is executed again.
    pub fn roll_back(&mut self) {
        if !planted(Mutant::ShelfPieceRepeated) {
            self.additions.truncate(self.stands);
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::table::{Group, Layout, RANK, Role, Span, Structure};

    static LAYOUT: Layout = Layout {
        name: "sums",
        groups: &[Group { name: "all", span: Span { start: 0, end: 2 }, rank: RANK, held: false }],
        words: 2,
        slots: &[],
    };

    static SUMS: Definition = Definition::new(&LAYOUT, Structure::Hash, "", 1, Role::Unknown);

    #[test]
    fn entries_for_one_word_become_one() {
        let relation = &SUMS;
        let mut all = Additions::default();
        for round in 0..1_000 {
            let mut some = Additions::default();
            some.push(relation, &[round % 7], 1, 0, Summand::Whole(1));
            some.push(relation, &[round % 7], 1, 1, Summand::Halves(u64::MAX));
            some.push(relation, &[9], 1, 0, Summand::Whole(5));
            some.truncate(2);
            all.append(&some);
            assert!(all.len() <= 2 * 14 + SLACK);
        }
        all.compact();
        assert_eq!(all.len(), 14);
        let sums = |word: usize| {
            let of_word = all.entries().iter().filter(|one| one.word == word);
            of_word.fold(0_u64, |sum, one| one.summand.plus(sum))
        };
        let half = u64::from(1_000_u32.wrapping_neg());
        assert_eq!((sums(0), sums(1)), (1_000, half << 32 | half));
        let keys: Vec<u64> = all.entries().iter().map(|one| all.key(one)[0]).collect();
        assert_eq!(keys, (0..7).flat_map(|key| [key, key]).collect::<Vec<_>>());
    }
}
