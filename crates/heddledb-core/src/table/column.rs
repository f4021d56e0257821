//! Columns: typed places in a row, read and written alone or in small sets.

use super::Table;
use super::column_value::ColumnValue;
use crate::words::{Words, WordsMut};
use std::fmt;
use std::marker::PhantomData;

/// Where a column group starts and ends, in words of the row's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First word.
    pub start: usize,
    /// One past the last word.
    pub end: usize,
}

impl Span {
    /// Number of words.
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// True when it covers `word`.
    pub const fn contains(self, word: usize) -> bool {
        self.start <= word && word < self.end
    }

    /// True when it covers no word.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// No word; what [`Span::cover`] begins with.
    pub const NONE: Self = Self { start: usize::MAX, end: 0 };

    /// The smallest span that contains both.
    #[inline(always)]
    #[must_use]
    pub fn cover(self, other: Self) -> Self {
        Self {
            start: if other.start < self.start { other.start } else { self.start },
            end: if other.end > self.end { other.end } else { self.end },
        }
    }
}

/// A set of column groups of one table, one bit each of the lower [`GROUPS_MAX`](crate::table::GROUPS_MAX). The others are
/// there for the processor: where half a word was stored, compilers load the whole of it, and such a load waits until
/// the store has left the store queue.
pub type GroupSet = u32;

/// What a column is to its row: a value beside the key. It can change.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// What a column is to its row: a part of the key, which stays as long as the row.
#[derive(Clone, Copy, Debug)]
pub struct OfKey;

/// One column of table `T` with values of type `V`, made by `#[derive(Table)]`; of the key where `P` is [`OfKey`].
pub struct Column<T, V, P = Plain> {
    name: &'static str,
    offset: u32,
    group: u8,
    ordinal: u8,
    types: PhantomData<fn(T, V, P)>,
}

impl<T, V, P> Clone for Column<T, V, P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, V, P> Copy for Column<T, V, P> {}

impl<T, V, P> fmt::Debug for Column<T, V, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<T, V, P> Column<T, V, P> {
    /// A column at byte `offset` of the row, the `ordinal`-th declared. `#[derive(Table)]` makes them.
    pub const fn new(name: &'static str, offset: usize, group: usize, ordinal: usize) -> Self {
        Self { name, offset: offset as u32, group: group as u8, ordinal: ordinal as u8, types: PhantomData }
    }

    /// The column's name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The number of its column group.
    #[inline(always)]
    pub const fn group(self) -> usize {
        self.group as usize
    }

    /// Its byte offset in the row.
    #[inline(always)]
    pub const fn offset(self) -> usize {
        self.offset as usize
    }
}

impl<T, V: ColumnValue, P> Column<T, V, P> {
    #[inline(always)]
    const fn words(self) -> Span {
        let offset = self.offset as usize;
        Span { start: offset / 8, end: (offset + const { V::TYPE.bytes() }).div_ceil(8) }
    }
}

/// A set of columns read or written together: a [`Column`], a tuple of up to eight, an array, or [`Row`].
///
/// Only the column groups that the set touches are read, validated and locked, and only the words
/// between the first and the last column within a group are copied.
pub trait Columns: Copy {
    /// The table.
    type Table: Table;
    /// The value, or the tuple of values.
    type Value;
    /// The column groups that the set touches.
    fn groups(&self) -> GroupSet;
    /// One bit for each column, by order of declaration.
    fn ordinals(&self) -> u64;
    /// The words of `group` between the first and the last column of the set.
    fn span(&self, group: usize) -> Span;
    /// Whether values of the set may lie outside of their rows.
    fn have_slots(&self) -> bool;
    /// Reads the values.
    fn load(&self, source: &impl Words) -> Self::Value;
    /// Writes the values.
    fn store(&self, value: &Self::Value, target: &mut impl WordsMut);
}

impl<T: Table, V: ColumnValue, P> Columns for Column<T, V, P> {
    type Table = T;
    type Value = V;
    #[inline(always)]
    fn groups(&self) -> GroupSet {
        1 << self.group
    }
    #[inline(always)]
    fn ordinals(&self) -> u64 {
        1 << self.ordinal
    }
    #[inline(always)]
    fn span(&self, group: usize) -> Span {
        if group == self.group() { self.words() } else { Span::NONE }
    }
    #[inline(always)]
    fn have_slots(&self) -> bool {
        const { V::TYPE.has_slot() }
    }
    #[inline(always)]
    fn load(&self, source: &impl Words) -> V {
        V::load(source, self.offset())
    }
    #[inline(always)]
    fn store(&self, value: &V, target: &mut impl WordsMut) {
        value.store(target, self.offset());
    }
}

macro_rules! tuple_columns {
    ($($name:ident . $index:tt),+) => {
        impl<T: Table, $($name: Columns<Table = T>),+> Columns for ($($name,)+) {
            type Table = T;
            type Value = ($($name::Value,)+);
            #[inline(always)]
            fn groups(&self) -> GroupSet {
                0 $(| self.$index.groups())+
            }
            #[inline(always)]
            fn ordinals(&self) -> u64 {
                0 $(| self.$index.ordinals())+
            }
            #[inline(always)]
            fn span(&self, group: usize) -> Span {
                Span::NONE $(.cover(self.$index.span(group)))+
            }
            #[inline(always)]
            fn have_slots(&self) -> bool {
                false $(|| self.$index.have_slots())+
            }
            #[inline(always)]
            fn load(&self, source: &impl Words) -> Self::Value {
                ($(self.$index.load(source),)+)
            }
            #[inline(always)]
            fn store(&self, value: &Self::Value, target: &mut impl WordsMut) {
                $(self.$index.store(&value.$index, target);)+
            }
        }
    };
}
tuple_columns!(A.0);
tuple_columns!(A.0, B.1);
tuple_columns!(A.0, B.1, C.2);
tuple_columns!(A.0, B.1, C.2, D.3);
tuple_columns!(A.0, B.1, C.2, D.3, E.4);
tuple_columns!(A.0, B.1, C.2, D.3, E.4, F.5);
tuple_columns!(A.0, B.1, C.2, D.3, E.4, F.5, G.6);
tuple_columns!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7);

/// Columns of one type: all of them.
impl<C: Columns, const N: usize> Columns for [C; N] {
    type Table = C::Table;
    type Value = [C::Value; N];
    #[inline(always)]
    fn groups(&self) -> GroupSet {
        const { assert!(N > 0, "an array of columns has at least one") }
        self.iter().fold(0, |groups, column| groups | column.groups())
    }
    #[inline(always)]
    fn ordinals(&self) -> u64 {
        self.iter().fold(0, |ordinals, column| ordinals | column.ordinals())
    }
    #[inline(always)]
    fn span(&self, group: usize) -> Span {
        self.iter().fold(Span::NONE, |span, column| span.cover(column.span(group)))
    }
    #[inline(always)]
    fn have_slots(&self) -> bool {
        self.iter().any(Columns::have_slots)
    }
    #[inline(always)]
    fn load(&self, source: &impl Words) -> Self::Value {
        self.map(|column| column.load(source))
    }
    #[inline(always)]
    fn store(&self, value: &Self::Value, target: &mut impl WordsMut) {
        self.iter().zip(value).for_each(|(column, value)| column.store(value, target));
    }
}

/// Columns that a deferred operation can change: none of them is of the key.
///
/// Whether an index depends on one is known only when the operation is written down.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be changed by a deferred operation, since the key is among it",
    label = "has a column of the key",
    note = "name the columns that change, as `Account::balance` or a tuple of such; a row with another key is made by `put`"
)]
pub trait Changeable: Columns {}

impl<T: Table, V: ColumnValue> Changeable for Column<T, V> {}
impl<C: Changeable, const N: usize> Changeable for [C; N] {}

macro_rules! changeable {
    ($($name:ident)+) => {
        #[diagnostic::do_not_recommend]
        impl<T: Table, $($name: Changeable<Table = T>),+> Changeable for ($($name,)+) {}
    };
}
changeable!(A);
changeable!(A B);
changeable!(A B C);
changeable!(A B C D);
changeable!(A B C D E);
changeable!(A B C D E F);
changeable!(A B C D E F G);
changeable!(A B C D E F G H);

/// All columns of a table, as its row type.
#[derive(Debug)]
pub struct Row<T>(PhantomData<fn() -> T>);

impl<T> Row<T> {
    /// The set.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for Row<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Row<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Row<T> {}

impl<T: Table> Columns for Row<T> {
    type Table = T;
    type Value = T;
    #[inline(always)]
    fn groups(&self) -> GroupSet {
        T::LAYOUT.all_groups()
    }
    #[inline(always)]
    fn ordinals(&self) -> u64 {
        u64::MAX
    }
    #[inline(always)]
    fn span(&self, group: usize) -> Span {
        T::LAYOUT.groups[group].span
    }
    #[inline(always)]
    fn have_slots(&self) -> bool {
        const { !T::LAYOUT.slots.is_empty() }
    }
    #[inline(always)]
    fn load(&self, source: &impl Words) -> T {
        T::load(source)
    }
    #[inline(always)]
    fn store(&self, value: &T, target: &mut impl WordsMut) {
        value.store(target);
    }
}

/// A column type that [`add`](crate::Transaction::add) can change without reading it: integers of 4 or 8 bytes.
#[diagnostic::on_unimplemented(
    message = "`add` cannot change a column of type `{Self}`",
    label = "no type that can be added to without reading it",
    note = "only `u64`, `i64`, `u32` and `i32` can be added to without reading them; for other types use `update_columns`"
)]
pub trait Addable: ColumnValue + Copy {
    /// The two's complement bits of the summand, in as many bytes as the column has.
    fn bits(self) -> u64;
    /// The wrapping sum.
    fn plus(self, other: Self) -> Self;
}

macro_rules! addable {
    ($($type:ty as $bits:ty),*) => {$(
        impl Addable for $type {
            #[inline(always)]
            fn bits(self) -> u64 {
                u64::from(self as $bits)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}

addable!(u64 as u64, i64 as u64, u32 as u32, i32 as u32);
