//! The map from a record, or a gap, to what a transaction keeps for it; keys.

use crate::record::RecordRef;

/// Finds the entry of a record among those of one transaction: open addressing over record
/// references, emptied by advancing a generation.
pub(crate) struct RecordMap {
    slots: Vec<MapSlot>,
    generation: u32,
    len: usize,
    /// How often, last in a row, there were many more slots than records.
    loose: u32,
}

#[derive(Clone, Copy)]
struct MapSlot {
    record: usize,
    generation: u32,
    value: u32,
}

impl MapSlot {
    const EMPTY: Self = Self { record: 0, generation: 0, value: 0 };
}

/// A bit for each of some records, which others share: what has none is not one of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sketch(u64);

impl Sketch {
    /// Adds a record.
    #[inline(always)]
    pub fn add(&mut self, record: RecordRef) {
        self.0 |= Self::bit(record);
    }

    /// False if the record was not added.
    #[inline(always)]
    pub fn may_have(self, record: RecordRef) -> bool {
        // The first of the two, so that nothing is computed for transactions that only read.
        self.0 != 0 && self.0 & Self::bit(record) != 0
    }

    #[inline(always)]
    fn bit(record: RecordRef) -> u64 {
        1 << (spread(record.identity()) >> 58)
    }
}

/// Spreads the identities of records (Fibonacci hashing); blocks are 32-byte aligned, so the low bits say nothing.
#[inline(always)]
fn spread(identity: usize) -> u64 {
    (identity as u64 >> 5).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Where a record will stand that was not found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacancy(usize);

impl Vacancy {
    /// In no map.
    pub const NONE: Self = Self(usize::MAX);
}

impl Default for RecordMap {
    fn default() -> Self {
        Self { slots: Vec::new(), generation: 1, len: 0, loose: 0 }
    }
}

impl RecordMap {
    const FIRST_SLOTS: usize = 64;
    /// More slots than so many for each record are too many.
    const ROOM: usize = 16;
    /// It becomes smaller when that was so this often: long transactions among short ones would make it grow each time.
    const PATIENCE: u32 = 64;

    #[inline(always)]
    fn start(&self, record: usize) -> usize {
        (spread(record) >> 32) as usize & (self.slots.len() - 1)
    }

    /// Forgets all records. Behind transactions that were much larger the map becomes smaller step by step: of a large one
    /// each record would be found in a line of its own.
    #[inline]
    pub fn clear(&mut self) {
        if self.slots.len() > (self.len * Self::ROOM).max(Self::FIRST_SLOTS) {
            self.loosen();
        } else {
            self.loose = 0;
        }
        self.len = 0;
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.slots.fill(MapSlot::EMPTY);
            self.generation = 1;
        }
    }

    fn loosen(&mut self) {
        self.loose += 1;
        if self.loose == Self::PATIENCE {
            self.slots.truncate(self.slots.len() / 2);
            self.loose = 0;
        }
    }

    /// The value of `record`.
    #[inline]
    pub fn get(&self, record: RecordRef) -> Option<usize> {
        self.get_by(record.identity())
    }

    /// The value of what has this identity.
    #[inline]
    pub fn get_by(&self, identity: usize) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut at = self.start(identity);
        loop {
            let slot = self.slots[at];
            if slot.generation != self.generation {
                return None;
            }
            if slot.record == identity {
                return Some(slot.value as usize);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Sets the value of what has this identity, and may have one.
    pub fn set_by(&mut self, identity: usize, value: usize) {
        if self.slots.len() < (self.len + 1) * 2 {
            self.grow();
        }
        let mut at = self.start(identity);
        while self.slots[at].generation == self.generation {
            if self.slots[at].record == identity {
                self.slots[at].value = value as u32;
                return;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = MapSlot { record: identity, generation: self.generation, value: value as u32 };
        self.len += 1;
    }

    /// The value of `record`, or where to [`Self::put`] one before anything else is changed.
    #[inline(always)]
    pub fn find(&mut self, record: RecordRef) -> Result<usize, Vacancy> {
        if self.slots.len() < (self.len + 1) * 2 {
            self.grow();
        }
        let mut at = self.start(record.identity());
        loop {
            let slot = self.slots[at];
            if slot.generation != self.generation {
                return Err(Vacancy(at));
            }
            if slot.record == record.identity() {
                return Ok(slot.value as usize);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Sets the value of a record that has none.
    #[inline]
    pub fn put(&mut self, record: RecordRef, value: usize) {
        if let Err(vacancy) = self.find(record) {
            self.fill(vacancy, record, value);
        }
    }

    /// Sets the value of a record that was not found.
    #[inline(always)]
    pub fn fill(&mut self, Vacancy(at): Vacancy, record: RecordRef, value: usize) {
        debug_assert!(self.slots[at].generation != self.generation, "filled since it was found vacant");
        self.slots[at] =
            MapSlot { record: record.identity(), generation: self.generation, value: value as u32 };
        self.len += 1;
    }

    /// Places a record of the generation before, and whatever it drives from its slot.
    fn place(&mut self, mut new: MapSlot, before: u32) {
        while new.generation == before {
            new.generation = self.generation;
            let mut at = self.start(new.record);
            while self.slots[at].generation == self.generation {
                at = (at + 1) & (self.slots.len() - 1);
            }
            new = std::mem::replace(&mut self.slots[at], new);
        }
    }

    /// Forgets a record that has a value. What stands behind it in the same run moves up, so that it is found.
    #[cold]
    pub fn remove(&mut self, record: RecordRef) {
        let mask = self.slots.len() - 1;
        let mut gap = self.start(record.identity());
        while self.slots[gap].record != record.identity() {
            gap = (gap + 1) & mask;
        }
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.generation != self.generation {
                break;
            }
            // It may stand in the gap, unless it belongs between the gap and where it is.
            if (at.wrapping_sub(self.start(slot.record)) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = MapSlot::EMPTY;
        self.len -= 1;
    }

    /// Twice as many slots; those that were there before are used again, so that a map that has been as large allocates nothing.
    #[cold]
    fn grow(&mut self) {
        let (size, before) = (self.slots.len(), self.generation);
        self.slots.resize((size * 2).max(Self::FIRST_SLOTS), MapSlot::EMPTY);
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            let old = |slot: &&mut MapSlot| slot.generation != before;
            self.slots.iter_mut().filter(old).for_each(|slot| *slot = MapSlot::EMPTY);
            self.generation = 1;
        }
        for at in 0..size {
            if self.slots[at].generation == before {
                let slot = std::mem::replace(&mut self.slots[at], MapSlot::EMPTY);
                self.place(slot, before);
            }
        }
    }
}

/// Copies the words of a key: mostly so few that a call would cost more.
#[inline(always)]
pub(crate) fn copy_key(to: &mut [u64], from: &[u64]) {
    match (to, from) {
        ([to], [from]) => *to = *from,
        ([to, more], [from, rest]) => (*to, *more) = (*from, *rest),
        (to, from) => to.copy_from_slice(from),
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::arena::Arena;

    /// Puts so many records into an empty map, looks all of them up, and clears it.
    fn fill(map: &mut RecordMap, records: &[RecordRef]) {
        records.iter().enumerate().for_each(|(value, record)| map.put(*record, value));
        assert!(records.iter().enumerate().all(|(value, record)| map.get(*record) == Some(value)));
        map.clear();
        assert!(records.iter().all(|record| map.get(*record).is_none()));
    }

    #[test]
    fn a_map_that_was_large_becomes_small_and_grows_again() {
        let mut arena = Arena::default();
        let records: Vec<RecordRef> = (0..500).map(|_| arena.allocate(0, 8)).collect();
        let mut map = RecordMap::default();
        for generation in [1, u32::MAX - 3, u32::MAX] {
            map.generation = generation;
            fill(&mut map, &records);
            let large = map.slots.len();
            assert!(large >= 1_000);
            for _ in 1..RecordMap::PATIENCE {
                fill(&mut map, &records[..5]);
            }
            assert_eq!(map.slots.len(), large, "short ones among long ones");
            for _ in 0..10 * RecordMap::PATIENCE {
                fill(&mut map, &records[..5]);
            }
            assert_eq!(map.slots.len(), RecordMap::FIRST_SLOTS);
            let memory = map.slots.as_ptr();
            fill(&mut map, &records);
            assert_eq!((map.slots.len(), map.slots.as_ptr()), (large, memory), "nothing is allocated");
        }
    }
}
