//! The map from a record, or a gap, to what a transaction keeps for it; keys.

use crate::record::RecordRef;

/// Finds the entry of a record among those of one transaction: open addressing over record
/// references, emptied by advancing a generation.
pub(crate) struct RecordMap {
    slots: Vec<MapSlot>,
    generation: u32,
    len: usize,
}

#[derive(Clone, Copy)]
struct MapSlot {
    record: usize,
    generation: u32,
    value: u32,
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
        Self { slots: Vec::new(), generation: 1, len: 0 }
    }
}

impl RecordMap {
    const FIRST_SLOTS: usize = 64;

    #[inline(always)]
    fn start(&self, record: usize) -> usize {
        (spread(record) >> 32) as usize & (self.slots.len() - 1)
    }

    /// Forgets all records.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.slots.fill(MapSlot { record: 0, generation: 0, value: 0 });
            self.generation = 1;
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

    fn place(&mut self, new: MapSlot) {
        let mut at = self.start(new.record);
        while self.slots[at].generation == self.generation {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = new;
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
        self.slots[gap] = MapSlot { record: 0, generation: 0, value: 0 };
        self.len -= 1;
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(Self::FIRST_SLOTS);
        let old =
            std::mem::replace(&mut self.slots, vec![MapSlot { record: 0, generation: 0, value: 0 }; size]);
        let generation = self.generation;
        old.into_iter().filter(|slot| slot.generation == generation).for_each(|slot| self.place(slot));
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
