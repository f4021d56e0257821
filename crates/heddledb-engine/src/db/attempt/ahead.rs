//! Records that a prefetch has found, so that the accesses that follow need not look them up again.

use crate::record::RecordRef;

/// How many are kept: the rows of a few prefetches.
const SLOTS: usize = 128;
/// Keys of more words are not kept.
const WORDS_MAX: usize = 2;

/// Records by relation and key; of two in one slot the later stays.
///
/// They are those of the attempt that runs. Should a record have left the index since, it is sealed, and the
/// attempt finds that out as for any other record.
pub(super) struct Ahead {
    slots: Box<[Slot; SLOTS]>,
    /// Slots of another attempt count as empty.
    attempt: u32,
    any: bool,
}

#[derive(Clone, Copy)]
struct Slot {
    attempt: u32,
    relation: u32,
    key: [u64; WORDS_MAX],
    record: Option<RecordRef>,
}

impl Slot {
    /// The record that this attempt has kept for a key, if it did so here.
    #[inline(always)]
    fn get(&self, attempt: u32, relation: usize, key: [u64; WORDS_MAX]) -> Option<RecordRef> {
        let same = self.attempt == attempt && self.relation == relation as u32 && self.key == key;
        if same { self.record } else { None }
    }
}

impl Default for Ahead {
    fn default() -> Self {
        let slot = Slot { attempt: 0, relation: 0, key: [0; WORDS_MAX], record: None };
        Self { slots: Box::new([slot; SLOTS]), attempt: 1, any: false }
    }
}

/// A key as an array, and its slot.
#[inline(always)]
fn place(key: &[u64]) -> Option<([u64; WORDS_MAX], usize)> {
    let key = match *key {
        [word] => [word, 0],
        [first, second] => [first, second],
        _ => return None,
    };
    // Fibonacci hashing; both words count, and neighbours fall apart.
    let hash = (key[0] ^ key[1].rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Some((key, (hash >> 32) as usize % SLOTS))
}

impl Ahead {
    /// Forgets all.
    #[inline(always)]
    pub fn clear(&mut self) {
        if self.any {
            self.forget();
        }
    }

    #[cold]
    #[inline(never)]
    fn forget(&mut self) {
        self.any = false;
        self.attempt = self.attempt.wrapping_add(1);
        if self.attempt == 0 {
            *self = Self::default();
        }
    }

    /// The record of a key, as it was kept, or else as it is found, which is kept.
    #[inline(always)]
    pub fn get_or_find(
        &mut self,
        relation: usize,
        key: &[u64],
        find: impl FnOnce() -> Option<RecordRef>,
    ) -> Option<RecordRef> {
        let Some((key, slot)) = place(key) else { return find() };
        let slot = &mut self.slots[slot];
        if let Some(record) = slot.get(self.attempt, relation, key) {
            return Some(record);
        }
        let record = find()?;
        *slot = Slot { attempt: self.attempt, relation: relation as u32, key, record: Some(record) };
        self.any = true;
        Some(record)
    }

    /// The record of a key, if it was kept.
    #[inline(always)]
    pub fn get(&self, relation: usize, key: &[u64]) -> Option<RecordRef> {
        if !self.any {
            return None;
        }
        let (key, slot) = place(key)?;
        self.slots[slot].get(self.attempt, relation, key)
    }
}
