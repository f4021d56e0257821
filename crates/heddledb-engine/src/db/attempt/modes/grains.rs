//! Which keys count as one where calls tell ranges: *grains*.
//!
//! The keys of a relation that have as many leading bits in common as its grain says are one grain. Whoever tells a range has each
//! grain that it touches, and whoever tells a key there shares its grain with others that do. A grain is as large as the first range of the
//! relation, so that a range touches two at the most; if larger ones come it grows, up to a thousand times. Ranges that are larger still have
//! the *whole* relation, which all others share from then on. A relation without ranges has no grains, and a key of it costs nothing.
//!
//! Grains only grow. A call that makes one grow waits for all calls before it, and those after it wait for it, since
//! what was told before lies under other grains.

use crate::footprint::{RelationId, Usage};
use crate::sync::{AtomicU64, MODEL, Ordering};
use std::ops::RangeInclusive;

/// Relations whose ordinals are alike modulo this have grains of the same size.
const RELATIONS: usize = if MODEL { 4 } else { 64 };
/// A range touches no more grains than this.
const TOUCHED: u64 = 4;
/// As powers of two, how much a grain grows for a range; a larger one has the whole relation.
const GROWS: u64 = 10;
/// Set where ranges had a whole relation.
const WHOLE: u64 = 1 << 32;

/// The grains of all relations. Changed by one call at a time, which others know by the version.
#[derive(Debug)]
pub(super) struct Grains {
    version: AtomicU64,
    /// By relation, the leading bits of a key that are its grain plus one, or zero where there are none; and [`WHOLE`].
    sizes: Box<[AtomicU64]>,
}

impl Grains {
    /// Of a database with workers or without.
    pub fn new(used: bool) -> Self {
        let sizes = (0..if used { RELATIONS } else { 0 }).map(|_| AtomicU64::new(0));
        Self { version: AtomicU64::new(0), sizes: sizes.collect() }
    }

    pub fn version(&self) -> u64 {
        // Acquire: pairs with `widen`.
        self.version.load(Ordering::Acquire)
    }

    /// The leading bits that make a grain, if there are any, and whether ranges had the whole relation.
    fn of(&self, relation: RelationId) -> (Option<u64>, bool) {
        // Relaxed: whoever sees an old one with a new version does not exist, and who sees a new one with an old version looks again.
        let word = self.sizes[relation.ordinal as usize % RELATIONS].load(Ordering::Relaxed);
        ((word & (WHOLE - 1)).checked_sub(1), word & WHOLE != 0)
    }

    /// What a call that tells this key shares with others, by hash.
    pub fn of_point(&self, relation: RelationId, key: &[u64], mut shares: impl FnMut(u64)) {
        let (bits, whole) = self.of(relation);
        if let Some(bits) = bits {
            shares(grain(relation, key, bits, position(key, bits, 0)));
        }
        if whole {
            shares(all_of(relation));
        }
    }

    /// What a call that tells this range has alone, and what it shares, by hash. False if it is too large for the grains.
    pub fn of_range(
        &self,
        relation: RelationId,
        (low, high): (&[u64], &[u64]),
        mut uses: impl FnMut(u64, Usage),
    ) -> bool {
        let (bits, whole) = self.of(relation);
        if let Some((bits, touched)) = bits.and_then(|bits| Some((bits, touched(low, high, bits)?))) {
            touched.for_each(|at| uses(grain(relation, low, bits, at), Usage::Writes));
            if whole {
                uses(all_of(relation), Usage::Reads);
            }
            return true;
        }
        if whole {
            uses(all_of(relation), Usage::Writes);
        }
        whole
    }

    /// Makes the grains large enough for a range.
    pub fn widen(&self, relation: RelationId, low: &[u64], high: &[u64]) {
        if self.of_range(relation, (low, high), |_, _| ()) {
            return;
        }
        let size = &self.sizes[relation.ordinal as usize % RELATIONS];
        // Relaxed, as the caller is the only one that changes them.
        let word = size.load(Ordering::Relaxed);
        let bits = fitting(low, high);
        let grows = self.of(relation).0.is_none_or(|now| bits + GROWS >= now);
        let word = if bits > 0 && grows { word & WHOLE | (bits + 1) } else { word | WHOLE };
        size.store(word, Ordering::Relaxed);
        // Release: pairs with `version`.
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// The position of a key among the grains of those with the same words before; `none` is what a key without the word has there.
fn position(key: &[u64], bits: u64, none: u64) -> u64 {
    match bits % 64 {
        0 => 0,
        rest => key.get((bits / 64) as usize).unwrap_or(&none) >> (64 - rest),
    }
}

/// The positions of the grains that a range touches, unless these are many.
fn touched(low: &[u64], high: &[u64], bits: u64) -> Option<RangeInclusive<u64>> {
    let words = (bits / 64) as usize;
    let (first, last) = (position(low, bits, 0), position(high, bits, u64::MAX));
    (low.get(..words) == high.get(..words) && last.saturating_sub(first) < TOUCHED).then_some(first..=last)
}

/// The leading bits of the smallest grains of which this range touches two at the most.
fn fitting(low: &[u64], high: &[u64]) -> u64 {
    let same = low.iter().zip(high).take_while(|(low, high)| low == high).count();
    let size = match (low.get(same), high.get(same)) {
        (Some(low), Some(high)) => high.saturating_sub(*low),
        _ => 0,
    };
    let rest = if same == low.len().min(high.len()) { 0 } else { u64::from(size.leading_zeros()) };
    64 * same as u64 + rest
}

/// The hash of a grain: that of the relation's keys with these leading words and that position.
fn grain(relation: RelationId, key: &[u64], bits: u64, at: u64) -> u64 {
    let words = key.len().min((bits / 64) as usize);
    hashed(u64::from(relation.ordinal) << 8 | 0x80, key[..words].iter().copied().chain([at]))
}

/// The hash of a whole relation.
fn all_of(relation: RelationId) -> u64 {
    hashed(u64::from(relation.ordinal) << 8 | 0x81, [].into_iter())
}

/// The hash of something of that kind with these words. Its leading bits are the best.
pub(super) fn hashed(kind: u64, words: impl Iterator<Item = u64>) -> u64 {
    // Fibonacci hashing, word by word: keys are small numbers mostly.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(29) ^ word).wrapping_mul(FACTOR);
    words.fold(kind, mix).wrapping_mul(FACTOR)
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::footprint::nth;

    /// What a range uses, if it fits.
    fn uses(grains: &Grains, low: &[u64], high: &[u64]) -> Option<Vec<(u64, Usage)>> {
        let mut found = Vec::new();
        grains.of_range(nth(3), (low, high), |hash, usage| found.push((hash, usage))).then_some(found)
    }

    fn shares(grains: &Grains, key: &[u64]) -> Vec<u64> {
        let mut found = Vec::new();
        grains.of_point(nth(3), key, |hash| found.push(hash));
        found
    }

    #[test]
    fn grains_are_as_large_as_ranges() {
        let grains = Grains::new(true);
        assert_eq!(shares(&grains, &[1, 5]), []);
        assert_eq!(uses(&grains, &[1, 0], &[1, 99]), None, "there are none yet");
        grains.widen(nth(3), &[1, 0], &[1, 99]);
        let version = grains.version();
        // Grains of 128: a range of a hundred touches one or two.
        let of = |low, high| uses(&grains, &[1, low], &[1, high]).expect("it fits");
        assert_eq!(of(0, 99).len(), 1);
        assert_eq!(of(100, 199).len(), 2);
        assert_eq!(of(100, 199)[0], of(0, 99)[0]);
        assert_eq!(of(0, 99)[0], (shares(&grains, &[1, 127])[0], Usage::Writes));
        assert_ne!(shares(&grains, &[1, 128]), shares(&grains, &[1, 127]));
        assert_ne!(shares(&grains, &[2, 5]), shares(&grains, &[1, 5]), "another word before");
        grains.widen(nth(3), &[7, 1000], &[7, 1010]);
        assert_eq!(grains.version(), version, "that one fits");
    }

    #[test]
    fn grains_grow_within_limits() {
        let grains = Grains::new(true);
        grains.widen(nth(3), &[1, 0], &[1, 3]);
        grains.widen(nth(3), &[1, 0], &[1, 999]);
        assert_eq!(shares(&grains, &[1, 5]), shares(&grains, &[1, 1000]), "1024 are one now");
        assert_eq!(uses(&grains, &[1, 0], &[2, 0]), None);
        grains.widen(nth(3), &[1, 0], &[2, 0]);
        let whole = uses(&grains, &[1, 0], &[2, 0]).expect("it has the whole relation");
        let small = uses(&grains, &[1, 0], &[1, 3]).expect("it fits");
        assert_eq!((whole.len(), small.len()), (1, 2));
        assert_eq!(whole[0].1, Usage::Writes);
        assert_eq!(small[1], (whole[0].0, Usage::Reads), "small ones share it");
        assert_eq!(shares(&grains, &[9, 9]).last(), Some(&whole[0].0), "and so do keys");
    }

    #[test]
    fn single_keys_and_all_keys_are_ranges() {
        let grains = Grains::new(true);
        grains.widen(nth(3), &[4, 7], &[4, 7]);
        let one = uses(&grains, &[4, 7], &[4, 7]).expect("it fits");
        assert_eq!(one, [(shares(&grains, &[4, 7])[0], Usage::Writes)]);
        assert_ne!(shares(&grains, &[4, 8])[0], one[0].0);
        assert_eq!(uses(&grains, &[4, 0], &[4, u64::MAX]), None);
        grains.widen(nth(3), &[0, 0], &[u64::MAX, u64::MAX]);
        assert_eq!(uses(&grains, &[4, 0], &[4, u64::MAX]).map(|uses| uses.len()), Some(1));
    }
}
