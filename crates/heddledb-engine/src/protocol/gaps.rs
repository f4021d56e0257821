//! The gaps that an attempt has looked at, and their versions then.
//!
//! A commit is valid if each gap has its version still. An attempt's own insert changes a gap, and its own splits do; a
//! look at the version before then counts as one at the version after. Few looks are found by going through them; where
//! there are many, the rest is found by a map, so that an insert costs the same however many came before it.

use crate::access::RecordMap;
use crate::error::Conflict;
use crate::index::{Change, GapRef, Seen};

/// So many looks are gone through.
const FEW: usize = 64;

/// The gaps that an attempt has looked at.
#[derive(Default)]
pub(crate) struct GapSet {
    looks: Vec<Seen>,
    /// Where the last look at a gap is, of those behind the first few.
    places: RecordMap,
    /// How many looks the map knows, the first few included; 0 if it is to be made anew.
    placed: usize,
}

impl GapSet {
    #[inline]
    pub fn clear(&mut self) {
        self.looks.clear();
        self.placed = 0;
    }

    /// True where no gap was looked at.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.looks.is_empty()
    }

    /// How many looks are remembered.
    pub fn len(&self) -> usize {
        self.looks.len()
    }

    /// Forgets all but the first `len` looks.
    pub fn truncate(&mut self, len: usize) {
        self.looks.truncate(len);
        self.placed = 0;
    }

    /// The looks.
    pub fn looks(&self) -> &[Seen] {
        &self.looks
    }

    /// Moves each look that stands here twice to the end. Returns how many there are without them.
    pub fn unique(&mut self) -> usize {
        self.places.clear();
        self.placed = 0;
        let mut unique = 0;
        for at in 0..self.looks.len() {
            let seen = self.looks[at];
            let twice = match self.looks.len() {
                ..=FEW => self.looks[..unique].contains(&seen),
                _ => self.places.get_by(seen.gap.identity()).is_some_and(|known| self.looks[known] == seen),
            };
            if !twice {
                self.looks.swap(unique, at);
                if self.looks.len() > FEW {
                    self.places.set_by(seen.gap.identity(), unique);
                }
                unique += 1;
            }
        }
        unique
    }

    /// Remembers a look. A gap seen twice is kept at each version: they must all stand.
    #[inline]
    pub fn push(&mut self, seen: Seen) {
        if self.looks.len() >= FEW {
            return self.push_many(seen);
        }
        if self.looks.last() != Some(&seen) {
            self.looks.push(seen);
        }
    }

    /// As [`Self::push`], where there are many.
    #[cold]
    fn push_many(&mut self, seen: Seen) {
        if self.place(seen.gap).is_some_and(|at| self.looks[at] == seen) {
            return;
        }
        self.places.set_by(seen.gap.identity(), self.looks.len());
        self.looks.push(seen);
        self.placed = self.looks.len();
    }

    /// Where the last look at a gap is, of those behind the first few.
    fn place(&mut self, gap: GapRef) -> Option<usize> {
        if self.placed == 0 {
            self.places.clear();
            self.placed = FEW;
        }
        for at in self.placed..self.looks.len() {
            self.places.set_by(self.looks[at].gap.identity(), at);
        }
        self.placed = self.placed.max(self.looks.len());
        self.places.get_by(gap.identity())
    }

    /// Moves looks at the version before an own insert, or an own split, to the version after it; where the gap was
    /// split, its new part counts as seen too.
    pub fn follow(&mut self, change: Change) {
        let mut followed = false;
        for seen in self.looks.iter_mut().take(FEW) {
            if seen.gap == change.gap && seen.version == change.before {
                seen.version = change.after;
                followed = true;
            }
        }
        if self.looks.len() > FEW
            && let Some(at) = self.place(change.gap)
            && self.looks[at].version == change.before
        {
            self.looks[at].version = change.after;
            followed = true;
        }
        if let (true, Some(split)) = (followed, change.split) {
            self.push(split);
        }
    }

    /// The gaps.
    pub fn gaps(&self) -> impl Iterator<Item = GapRef> {
        self.looks.iter().map(|seen| seen.gap)
    }

    /// A phantom, unless every gap still has its version.
    #[inline]
    pub fn validate(&self) -> Result<(), Conflict> {
        self.validate_from(0)
    }

    /// As [`Self::validate`], for the looks from number `first` on.
    #[inline]
    pub fn validate_from(&self, first: usize) -> Result<(), Conflict> {
        match self.looks[first..].iter().all(|seen| seen.gap.version() == seen.version) {
            true => Ok(()),
            false => Err(Conflict::Phantom),
        }
    }
}
