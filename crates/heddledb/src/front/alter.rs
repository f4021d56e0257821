//! Changing columns in a row's words: which column groups a change touches, and which bits a column has.

use crate::reading::Wanted;
use crate::seam::Patch;
use crate::table::{Columns, Group, GroupSet, Layout, Relation};
use crate::words::{Words, WordsCopy, WordsMut};

/// Lets `change` alter columns in a row's words. Returns what it returned, and which of the `groups` that are staged are
/// to be written: only those that the change touched conflict with others.
#[inline(always)]
pub(super) fn alter<C: Columns, R>(
    words: &mut [u64],
    groups: GroupSet,
    columns: C,
    change: impl FnOnce(&mut C::Value) -> R,
) -> (R, GroupSet) {
    let mut words = WordsCopy::new(0, words);
    let mut value = columns.load(&words);
    let result = change(&mut value);
    if groups.is_power_of_two() {
        columns.store(&value, &mut words);
        return (result, groups);
    }
    let mut changes = Changes { words, layout: <C::Table as Relation>::LAYOUT, groups: 0 };
    columns.store(&value, &mut changes);
    (result, changes.groups)
}

/// The patch that makes columns have a value, made in as many words as the columns span.
#[inline(always)]
pub(super) fn merge<'a, C: Columns>(
    wanted: &Wanted,
    columns: C,
    value: &C::Value,
    values: &'a mut [u64],
    masks: &'a mut [u64],
) -> Patch<'a> {
    // Stored over zeros and over ones: the bits that agree are those of the columns.
    masks.fill(u64::MAX);
    columns.store(value, &mut WordsCopy::new(wanted.span.start, values));
    columns.store(value, &mut WordsCopy::new(wanted.span.start, masks));
    values.iter().zip(&mut *masks).for_each(|(value, mask)| *mask = !(*value ^ *mask));
    Patch::Merge { values, masks }
}

/// A copy of words that notes which column groups were changed.
struct Changes<'a> {
    words: WordsCopy<'a>,
    layout: &'static Layout,
    groups: GroupSet,
}

impl Words for Changes<'_> {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.words.word(index)
    }
}

impl WordsMut for Changes<'_> {
    #[inline(always)]
    fn set_word(&mut self, index: usize, value: u64) {
        if self.words.word(index) != value {
            self.words.set_word(index, value);
            let number = self.layout.groups.iter().position(|group: &Group| group.span.contains(index));
            self.groups |= number.map_or(0, |number| 1 << number);
        }
    }
}
