//! The units of conflict of a batch, and how calls use them (DGCC §3.2).
//!
//! A *cell* is a column group of a row, or of a *granule*: the keys that begin with the same bits, as many as all ranges of that
//! relation have in common that calls of the batch have told. So each range is in one granule, and a phantom is a conflict like any
//! other. A granule has two cells, each only if some call wants it:
//!
//! | cell | scan | write of a row | read of a row | open range |
//! |---|---|---|---|---|
//! | of scans | `Scans` | `Within` | | |
//! | of open ranges | `Reads` | `Reads` | `Reads` | `Alone` |
//!
//! Writes of rows share a granule: what they do to each other is told by the rows. A call with an open range may access any row there, so it
//! has the granule alone: two of them may want the same row.
//!
//! A cell is found by a hash. Two with the same hash are one, and their calls wait more often than they need.

use crate::access::Groups;
use crate::footprint::{Footprint, RelationId, Usage};
use crate::log::CellUse;
use crate::mutant::{Mutant, planted};

/// How a call uses a cell. Those of one class share it, but for `Alone`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Class {
    /// It writes the row, or uses the cell in two ways.
    #[default]
    Alone,
    /// It reads the row.
    Reads,
    /// It adds to the row.
    Adds,
    /// It scans keys of the granule.
    Scans,
    /// It writes a row of the granule.
    Within,
}

impl Class {
    /// Whether those of this class share a cell.
    pub fn shares(self) -> bool {
        self != Self::Alone
    }
}

/// The granules of a relation.
#[derive(Clone, Copy, Debug)]
struct Granule {
    relation: RelationId,
    /// How many leading bits of a key say in which it is.
    bits: u32,
    /// Some call scans, or has an open range.
    scanned: bool,
    open: bool,
}

/// What makes hashes of a granule's cells other than those of rows.
const OF_SCANS: u64 = u64::MAX;
const OF_OPEN: u64 = u64::MAX - 1;

impl Granule {
    /// The granule in which that key is, as a hash.
    fn around(&self, key: &[u64], part: u64) -> u64 {
        let (words, rest) = ((self.bits / 64) as usize, self.bits % 64);
        let last = if rest == 0 { 0 } else { key[words] & !(u64::MAX >> rest) };
        mix(mix(hash_words(self.relation, &key[..words]), last), part)
    }
}

/// The granules of a batch.
#[derive(Debug, Default)]
pub(super) struct Granules(Vec<Granule>);

impl Granules {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// A call has told its ranges. Returns how many there are.
    pub fn add(&mut self, call: &Footprint) -> usize {
        let scans = call.ranges().map(|keys| self.cover(keys).scanned = true).count();
        scans + call.open().map(|keys| self.cover(keys).open = true).count()
    }

    /// The granules of a relation, so that all these keys are in one.
    fn cover(&mut self, (relation, low, high): (RelationId, &[u64], &[u64])) -> &mut Granule {
        let bits = common_bits(low, high);
        let at = self.0.iter().position(|granule| granule.relation == relation).unwrap_or_else(|| {
            self.0.push(Granule { relation, bits, scanned: false, open: false });
            self.0.len() - 1
        });
        let granule = &mut self.0[at];
        if !planted(Mutant::GatheredGranuleTooNarrow) {
            granule.bits = granule.bits.min(bits);
        }
        granule
    }

    fn of(&self, relation: RelationId) -> Option<&Granule> {
        self.0.iter().find(|granule| granule.relation == relation)
    }

    fn open_of(&self, relation: RelationId) -> Option<&Granule> {
        self.of(relation).filter(|granule| granule.open)
    }

    /// How many cells a call uses because of open ranges that are not its own.
    pub fn beside_open(&self, call: &Footprint) -> usize {
        if !self.0.iter().any(|granule| granule.open) {
            return 0;
        }
        let is_beside = |relation: &RelationId| self.open_of(*relation).is_some();
        let points = call.points().map(|(relation, ..)| relation).filter(is_beside).count();
        points + call.ranges().map(|(relation, ..)| relation).filter(is_beside).count()
    }

    /// The cells that a call uses: for which of its accesses, points first, then ranges, then open ones, the cell's hash, and how.
    pub fn cells(&self, call: &Footprint, mut each: impl FnMut(u32, u64, Class)) {
        let mut unit = 0;
        for (relation, key, groups, usage) in call.points() {
            let class = match usage {
                Usage::Reads => Class::Reads,
                Usage::Adds => Class::Adds,
                Usage::Writes => Class::Alone,
            };
            for group in Groups(groups) {
                each(unit, hash(relation, key, group as u64), class);
            }
            if let Some(granule) = self.of(relation) {
                if granule.scanned && usage.changes() {
                    each(unit, granule.around(key, OF_SCANS), Class::Within);
                }
                if granule.open && !planted(Mutant::GatheredOpenIgnored) {
                    each(unit, granule.around(key, OF_OPEN), Class::Reads);
                }
            }
            unit += 1;
        }
        for (relation, low, _) in call.ranges() {
            if let Some(granule) = self.of(relation) {
                each(unit, granule.around(low, OF_SCANS), Class::Scans);
                if granule.open {
                    each(unit, granule.around(low, OF_OPEN), Class::Reads);
                }
            }
            unit += 1;
        }
        for (relation, low, _) in call.open() {
            if let Some(granule) = self.open_of(relation) {
                each(unit, granule.around(low, OF_OPEN), Class::Alone);
            }
            unit += 1;
        }
        for cell in call.cells() {
            let class = match cell.used() {
                CellUse::Reads => Class::Reads,
                CellUse::Scans => Class::Scans,
                CellUse::Within => Class::Within,
                CellUse::Writes => Class::Alone,
            };
            // Where the place is looked for, all bits matter.
            each(unit, u64::from(cell.hash()).wrapping_mul(FACTOR), class);
        }
    }
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fibonacci hashing, word by word: keys are small numbers mostly.
fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(29) ^ word).wrapping_mul(FACTOR)
}

fn hash_words(relation: RelationId, words: &[u64]) -> u64 {
    words.iter().fold(u64::from(relation.ordinal).wrapping_mul(FACTOR), |hash, word| mix(hash, *word))
}

fn hash(relation: RelationId, key: &[u64], part: u64) -> u64 {
    mix(hash_words(relation, key), part)
}

/// How many leading bits all keys from one to the other have in common.
fn common_bits(low: &[u64], high: &[u64]) -> u32 {
    let words = low.iter().zip(high).take_while(|(low, high)| low == high).count();
    let rest = low.get(words).zip(high.get(words)).map_or(0, |(low, high)| (low ^ high).leading_zeros());
    64 * words as u32 + rest
}

/// What is known of cells, by their hashes, for one batch after another. Its memory is kept.
#[derive(Debug, Default)]
pub(super) struct Cells<V> {
    slots: Vec<Slot<V>>,
    /// The batch whose cells count.
    tag: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot<V> {
    hash: u64,
    /// The batch whose cell it is; 0 if it is none yet.
    tag: u64,
    value: V,
}

impl<V: Copy + Default> Cells<V> {
    /// Nothing is known of any, and so many find room.
    pub fn begin(&mut self, cells: usize) {
        self.tag += 1;
        let slots = (2 * cells).next_power_of_two();
        if self.slots.len() < slots {
            self.slots.clear();
            self.slots.resize(slots, Slot::default());
        }
    }

    /// The place of a cell, and what is known of it.
    pub fn find(&self, hash: u64) -> (usize, Option<V>) {
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 32) as usize & mask;
        while self.slots[at].tag == self.tag && self.slots[at].hash != hash {
            at = (at + 1) & mask;
        }
        let Slot { tag, value, .. } = self.slots[at];
        (at, (tag == self.tag).then_some(value))
    }

    /// Says what is known of the cell for which that place was found.
    pub fn set(&mut self, at: usize, hash: u64, value: V) {
        self.slots[at] = Slot { hash, tag: self.tag, value };
    }
}
