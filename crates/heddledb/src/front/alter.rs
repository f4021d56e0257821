//! Changing columns in a row's words: which column groups a change touches, and which bits a column has.

use crate::error::Misuse;
use crate::mutant::{Mutant, planted};
use crate::reading::Wanted;
use crate::seam::Patch;
use crate::table::{Columns, Group, GroupSet, Layout, Relation, Table};
use crate::values::{Lengths, Short, Values};
use crate::words::{Words, WordsCopy, WordsMut};

/// Lets `change` alter columns in a row's words. Returns what it returned, and which of the `groups` that are staged are
/// to be written: only those that the change touched conflict with others.
///
/// # Errors
/// [`Misuse::ValueTooLong`], [`Misuse::KeyTooLong`]; the words are what they were.
#[inline(always)]
pub(super) fn alter<C: Columns, R>(
    words: WordsCopy<'_>,
    groups: GroupSet,
    columns: C,
    change: impl FnOnce(&mut C::Value) -> R,
) -> Result<(R, GroupSet), Misuse> {
    let (result, value) = changed(&words, columns, change)?;
    Ok((result, store_changed(words, groups, columns, &value)))
}

/// What `change` returned, and made of the columns in a row's words.
///
/// # Errors
/// As [`alter`].
#[inline(always)]
pub(super) fn changed<C: Columns, R>(
    words: &WordsCopy<'_>,
    columns: C,
    change: impl FnOnce(&mut C::Value) -> R,
) -> Result<(R, C::Value), Misuse> {
    let mut value = columns.load(words);
    let result = change(&mut value);
    check_lengths(columns, &value)?;
    Ok((result, value))
}

/// Puts what was made of columns into the row's words; returns as [`alter`] which groups that touched.
#[inline(always)]
pub(super) fn store_changed<C: Columns>(
    mut words: WordsCopy<'_>,
    groups: GroupSet,
    columns: C,
    value: &C::Value,
) -> GroupSet {
    if groups.is_power_of_two() {
        columns.store(value, &mut words);
        return groups;
    }
    let mut changes = Changes { words, layout: <C::Table as Relation>::LAYOUT, groups: 0 };
    columns.store(value, &mut changes);
    changes.groups
}

/// Refuses values that are longer than one may be, or than a key or an index has room for.
#[inline(always)]
pub(super) fn check_lengths<C: Columns>(columns: C, value: &C::Value) -> Result<(), Misuse> {
    if !columns.have_slots() {
        return Ok(());
    }
    let mut lengths = Lengths::within(<C::Table as Table>::LIMITS);
    columns.store(value, &mut lengths);
    lengths.fit(<C::Table as Relation>::LAYOUT.name)
}

/// A row as far as its key and its index entries go: of longer values nothing is read.
#[inline(always)]
pub(super) fn load_keys<T: Table>(words: &mut [u64], values: &dyn Values) -> T {
    if const { T::LIMITS.is_empty() } || planted(Mutant::ValueEntryKept) {
        return T::load(&WordsCopy::new(0, words));
    }
    T::load(&WordsCopy::new(0, words).with(&Short(values), 0))
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

    #[inline(always)]
    fn values(&self) -> Option<&dyn Values> {
        self.words.values()
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

    fn put(&mut self, value: &[u8]) -> u64 {
        self.words.put(value)
    }
}
