//! What was written, as one number: two executions of a body with the same reads write the same, or the body is not repeatable.

use super::{PatchKind, Write, WriteSet};
use crate::log::digest;
use crate::table::Layout;
use crate::values::Slot;

impl WriteSet {
    /// The sum over all writes, in whatever order. Of values outside of their rows only the length counts.
    #[cold]
    pub fn digest(&self) -> u64 {
        let mut words = Vec::new();
        let mut one = |write: &Write| {
            words.clear();
            let groups = u64::from(write.groups) | u64::from(write.present) << 32;
            words.extend([u64::from(write.relation), groups]);
            words.extend(self.key(write));
            self.patches_of(write, &mut words);
            digest(&words)
        };
        self.writes.iter().fold(0, |sum, write| sum.wrapping_add(one(write)))
    }

    fn patches_of(&self, write: &Write, out: &mut Vec<u64>) {
        let mut next = write.first;
        // No patch has the number `NONE`.
        while let Some(patch) = self.patches.get(next as usize) {
            next = patch.next;
            let parts = if patch.kind == PatchKind::Merge { 2 } else { 1 };
            let at = patch.words as usize;
            let from = out.len();
            out.extend(&self.scratch[at..at + parts * patch.len as usize]);
            if patch.kind == PatchKind::Copy {
                without_places(write.layout, patch.start as usize, &mut out[from..]);
            }
            out.push(u64::from(patch.start) | (patch.kind as u64) << 32);
        }
    }
}

/// Blots out where values are that lie outside of the row, of its words from `start` on.
fn without_places(layout: &Layout, start: usize, words: &mut [u64]) {
    for slot in layout.slots.iter().copied() {
        let Some(at) = slot.checked_sub(start) else { continue };
        if let Some([place, length]) = words.get_mut(at..).and_then(|words| words.first_chunk_mut())
            && Slot([*place, *length]).value().is_some()
        {
            *place = 0;
        }
    }
}
