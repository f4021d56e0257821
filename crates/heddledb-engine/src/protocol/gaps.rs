//! The gaps that an attempt has looked at, and their versions then.
//!
//! A commit is valid if each gap has its version still. An attempt's own insert changes a gap, and its own splits do; a
//! look at the version before then counts as one at the version after. Few looks are found by going through them; many
//! are found by a map, so that an insert costs the same however many came before it, and the one of the operation before,
//! which most inserts follow, at once. The look for a key that is added next is taken back: from the insert on, that the
//! key was absent is a matter of its own record. So what only looks for keys and adds them, as upserts do, looks at no gap.

use crate::access::RecordMap;
use crate::error::Conflict;
use crate::index::{Change, GapRef, Seen};

/// So many looks are gone through.
const FEW: usize = 64;

/// The gaps that an attempt has looked at.
#[derive(Default)]
pub(crate) struct GapSet {
    looks: Vec<Seen>,
    /// Where the last look at a gap is, if there are many.
    places: RecordMap,
    /// How many looks the map knows; 0 if it is to be made anew.
    placed: usize,
    /// For each of the first few, where the same look stands before it: the map knows only the last one.
    twins: Vec<Option<u8>>,
    /// Where the look is that was remembered last, if there are many and it is known.
    last: Option<usize>,
    /// The last look is the only one that was remembered last, so that it can be taken back.
    fresh: bool,
}

impl GapSet {
    #[inline]
    pub fn clear(&mut self) {
        self.looks.clear();
        self.forget_places();
    }

    #[inline]
    fn forget_places(&mut self) {
        (self.placed, self.last, self.fresh) = (0, None, false);
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
        self.forget_places();
    }

    /// The looks.
    pub fn looks(&self) -> &[Seen] {
        &self.looks
    }

    /// Moves each look that stands here twice to the end. Returns how many there are without them.
    pub fn unique(&mut self) -> usize {
        self.places.clear();
        self.forget_places();
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
        self.fresh = self.looks.last() != Some(&seen);
        if self.fresh {
            self.looks.push(seen);
        }
    }

    /// As [`Self::push`], where there are many.
    #[cold]
    fn push_many(&mut self, seen: Seen) {
        if let Some(at) = self.place(seen.gap).filter(|at| self.looks[*at] == seen) {
            (self.last, self.fresh) = (Some(at), false);
            return;
        }
        self.places.set_by(seen.gap.identity(), self.looks.len());
        (self.last, self.fresh) = (Some(self.looks.len()), true);
        self.looks.push(seen);
        self.placed = self.looks.len();
    }

    /// Takes back the last look, if it was at the version before this change, and for nothing but the key that was added.
    fn take_back(&mut self, change: Change) {
        let sought = Seen { gap: change.gap, version: change.before };
        if std::mem::take(&mut self.fresh) && self.looks.last() == Some(&sought) {
            self.looks.pop();
            // The map may name the place still; a look at another version of the gap, if it named one before, fails anyway.
            (self.placed, self.last) = (self.placed.min(self.looks.len()), None);
        }
    }

    /// Where the last look at a gap is, where there are many.
    fn place(&mut self, gap: GapRef) -> Option<usize> {
        if let Some(last) = self.last.filter(|last| self.looks[*last].gap == gap) {
            return Some(last);
        }
        if self.placed == 0 {
            self.places.clear();
            self.twins.clear();
        }
        for at in self.placed..self.looks.len() {
            let seen = self.looks[at];
            if at < FEW {
                let known = self.places.get_by(seen.gap.identity());
                self.twins.push(known.filter(|known| self.looks[*known] == seen).map(|known| known as u8));
            }
            self.places.set_by(seen.gap.identity(), at);
        }
        self.placed = self.looks.len();
        self.places
            .get_by(gap.identity())
            .filter(|at| self.looks.get(*at).is_some_and(|seen| seen.gap == gap))
    }

    /// Moves looks at the version before an own insert, or an own split, to the version after it; where the gap was
    /// split, its new part counts as seen too. `sought` if the key that was added is the one of the last look for a key.
    pub fn follow(&mut self, change: Change, sought: bool) {
        if sought {
            self.take_back(change);
        }
        self.fresh = false;
        let mut followed = false;
        let mut step = |seen: &mut Seen| {
            if seen.gap == change.gap && seen.version == change.before {
                seen.version = change.after;
                followed = true;
            }
        };
        if self.looks.len() <= FEW {
            self.looks.iter_mut().for_each(step);
        } else {
            let mut place = self.place(change.gap);
            while let Some(at) = place {
                step(&mut self.looks[at]);
                place = self.twins.get(at).copied().flatten().map(usize::from);
            }
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

#[cfg(all(test, not(feature = "loom"), not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::index::Gap;
    use proptest::prelude::*;

    /// What may happen to one of the gaps.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// A look.
        Look(usize),
        /// An own insert, which may split the gap: the other takes over a part of it.
        Own(usize, Option<usize>),
        /// A look for a key, and the insert of it.
        Sought(usize, Option<usize>),
        /// Somebody else's insert.
        Other(usize),
        /// All looks but the first so many are forgotten.
        Forget(usize),
        /// Looks that stand there twice are moved to the end, and forgotten.
        Unique,
    }

    fn event(gaps: usize) -> impl Strategy<Value = Event> {
        prop_oneof![
            400 => (0..gaps).prop_map(Event::Look),
            200 => (0..gaps, prop::option::weighted(0.2, 0..gaps)).prop_map(|(gap, to)| Event::Own(gap, to)),
            200 => (0..gaps, prop::option::weighted(0.2, 0..gaps)).prop_map(|(gap, to)| Event::Sought(gap, to)),
            1 => (0..gaps).prop_map(Event::Other),
            2 => (0..200usize).prop_map(Event::Forget),
            1 => Just(Event::Unique),
        ]
    }

    /// The versions before and after an insert.
    fn insert(gap: &Gap) -> (u64, u64) {
        let before = gap.settled().expect("not retired");
        (before, gap.try_latch(before).expect("nobody else is here").release())
    }

    fn seen(gap: &Gap) -> Seen {
        Seen { gap: GapRef::new(gap), version: gap.settled().expect("not retired") }
    }

    /// Every look by itself, none found by a map.
    #[derive(Default)]
    struct Plain(Vec<Seen>);

    impl Plain {
        fn follow(&mut self, change: Change) {
            let mut followed = false;
            for look in self.0.iter_mut().filter(|look| look.gap == change.gap) {
                if look.version == change.before {
                    (look.version, followed) = (change.after, true);
                }
            }
            self.0.extend(change.split.filter(|_| followed));
        }

        fn stands(&self) -> bool {
            self.0.iter().all(|look| look.gap.version() == look.version)
        }
    }

    proptest! {
        /// A set says at every moment what a plain list of the same looks says.
        #[test]
        fn a_set_is_a_list_of_looks(
            (gaps, events) in (1..300usize)
                .prop_flat_map(|gaps| (Just(gaps), prop::collection::vec(event(gaps), 0..600)))
        ) {
            let gaps: Vec<Gap> = (0..gaps).map(|_| Gap::new()).collect();
            let (mut set, mut plain) = (GapSet::default(), Plain::default());
            for event in events {
                match event {
                    Event::Look(at) => {
                        set.push(seen(&gaps[at]));
                        plain.0.push(seen(&gaps[at]));
                    }
                    // The plain list forgets the look for the key at once.
                    Event::Own(at, to) | Event::Sought(at, to) => {
                        let sought = matches!(event, Event::Sought(..));
                        if sought {
                            set.push(seen(&gaps[at]));
                        }
                        let (before, after) = insert(&gaps[at]);
                        let split = to.filter(|to| *to != at).map(|to| seen(&gaps[to]));
                        let change = Change { gap: GapRef::new(&gaps[at]), before, after, split };
                        set.follow(change, sought);
                        plain.follow(change);
                    }
                    Event::Other(at) => drop(insert(&gaps[at])),
                    Event::Forget(len) => {
                        // What is forgotten differs between the two, so both keep what the set keeps.
                        set.truncate(len);
                        plain.0 = set.looks().to_vec();
                    }
                    Event::Unique => {
                        let unique = set.unique();
                        set.truncate(unique);
                    }
                }
                prop_assert_eq!(set.validate().is_ok(), plain.stands());
                prop_assert_eq!(set.is_empty(), plain.0.is_empty());
            }
        }
    }
}
