//! The units of conflict of a batch, and how calls use them (DGCC §3.2).
//!
//! A *cell* is a column group of a row, or a *granule*: where a call of the batch scans keys of a relation, the leading words
//! that all scans of that relation have in common are a cell too. Scans share it, and so do writes of rows in it: what the latter
//! do to each other is told by the rows. So a phantom is a conflict like any other (PITFALLS DG14).
//!
//! A cell is found by a hash. Two with the same hash are one, and their calls wait more often than they need.

use crate::access::Groups;
use crate::footprint::{Footprint, Usage};
use crate::log::CellUse;

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

/// The granules of a batch.
#[derive(Debug, Default)]
pub(super) struct Granules {
    /// The scanned relations, and how many leading words of their keys make a granule.
    scanned: Vec<(usize, usize)>,
}

impl Granules {
    pub fn clear(&mut self) {
        self.scanned.clear();
    }

    /// A call scans those keys.
    pub fn scanned(&mut self, relation: usize, low: &[u64], high: &[u64]) {
        let common = low.iter().zip(high).take_while(|(low, high)| low == high).count();
        match self.scanned.iter_mut().find(|(scanned, _)| *scanned == relation) {
            Some((_, words)) => *words = common.min(*words),
            None => self.scanned.push((relation, common)),
        }
    }

    /// The granule in which that key is, if there are granules in its relation.
    fn around(&self, relation: usize, key: &[u64]) -> Option<u64> {
        let (_, words) = self.scanned.iter().find(|(scanned, _)| *scanned == relation)?;
        Some(hash(relation, &key[..*words], u64::MAX))
    }

    /// The cells that a call uses: for which of its accesses, points first and then ranges, the cell's hash, and how.
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
            if usage.changes()
                && let Some(granule) = self.around(relation, key)
            {
                each(unit, granule, Class::Within);
            }
            unit += 1;
        }
        for (relation, low, _) in call.ranges() {
            if let Some(granule) = self.around(relation, low) {
                each(unit, granule, Class::Scans);
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
fn hash(relation: usize, key: &[u64], part: u64) -> u64 {
    let mix = |hash: u64, word: &u64| (hash.rotate_left(29) ^ word).wrapping_mul(FACTOR);
    mix(key.iter().fold((relation as u64).wrapping_mul(FACTOR), mix), &part)
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
