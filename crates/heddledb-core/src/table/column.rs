//! Columns: typed places in a row, read and written alone or in small sets.

use super::Table;
use super::text::Text;
use crate::words::{Words, WordsMut};
use std::cmp::Reverse;
use std::fmt;
use std::marker::PhantomData;

/// A type that a column can hold: plain data of fixed size.
///
/// `load` must accept any bits, because an optimistic copy may be torn before it is validated.
#[diagnostic::on_unimplemented(
    message = "a column cannot hold a `{Self}`",
    label = "no column type",
    note = "columns are plain data of fixed size: integers, `f32`, `f64`, `bool`, `[u8; N]`; for a `String` write `Text<N>`, text of at most N bytes; an `Option` is a value that says \"none\", or a row of a second table"
)]
pub trait ColumnValue: Copy + Send + Sync + 'static {
    /// Bytes in the row.
    const BYTES: usize;
    /// Alignment in the row: 1, 2, 4 or 8. A value of at most 8 bytes never straddles a word.
    const ALIGN: usize;
    /// Reads the value at byte `offset` of the row.
    fn load(source: &impl Words, offset: usize) -> Self;
    /// Writes the value at byte `offset` of the row.
    fn store(&self, target: &mut impl WordsMut, offset: usize);
}

#[inline(always)]
fn load_bits(source: &impl Words, offset: usize, bytes: usize) -> u64 {
    let raw = source.word(offset / 8) >> ((offset % 8) * 8);
    if bytes == 8 { raw } else { raw & ((1 << (bytes * 8)) - 1) }
}

#[inline(always)]
fn store_bits(target: &mut impl WordsMut, offset: usize, bytes: usize, value: u64) {
    if bytes == 8 {
        return target.set_word(offset / 8, value);
    }
    let shift = (offset % 8) * 8;
    let mask = ((1u64 << (bytes * 8)) - 1) << shift;
    let old = target.word(offset / 8);
    target.set_word(offset / 8, (old & !mask) | ((value << shift) & mask));
}

macro_rules! integer_columns {
    ($($t:ty as $u:ty)*) => {$(
        impl ColumnValue for $t {
            const BYTES: usize = size_of::<$t>();
            const ALIGN: usize = size_of::<$t>();
            #[inline(always)]
            fn load(source: &impl Words, offset: usize) -> Self {
                load_bits(source, offset, Self::BYTES) as $t
            }
            #[inline(always)]
            fn store(&self, target: &mut impl WordsMut, offset: usize) {
                store_bits(target, offset, Self::BYTES, u64::from(*self as $u));
            }
        }
    )*};
}
integer_columns!(u8 as u8 u16 as u16 u32 as u32 u64 as u64 i8 as u8 i16 as u16 i32 as u32 i64 as u64);

impl ColumnValue for u128 {
    const BYTES: usize = 16;
    const ALIGN: usize = 8;
    fn load(source: &impl Words, offset: usize) -> Self {
        u128::from(source.word(offset / 8)) | u128::from(source.word(offset / 8 + 1)) << 64
    }
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        target.set_word(offset / 8, *self as u64);
        target.set_word(offset / 8 + 1, (*self >> 64) as u64);
    }
}

impl ColumnValue for bool {
    const BYTES: usize = 1;
    const ALIGN: usize = 1;
    #[inline(always)]
    fn load(source: &impl Words, offset: usize) -> Self {
        u8::load(source, offset) != 0
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        u8::from(*self).store(target, offset);
    }
}

impl ColumnValue for f64 {
    const BYTES: usize = 8;
    const ALIGN: usize = 8;
    #[inline(always)]
    fn load(source: &impl Words, offset: usize) -> Self {
        Self::from_bits(u64::load(source, offset))
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.to_bits().store(target, offset);
    }
}

impl ColumnValue for f32 {
    const BYTES: usize = 4;
    const ALIGN: usize = 4;
    #[inline(always)]
    fn load(source: &impl Words, offset: usize) -> Self {
        Self::from_bits(u32::load(source, offset))
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.to_bits().store(target, offset);
    }
}

/// The alignment of a value of `bytes` bytes that has none of its own: within one word, or from the start of
/// one.
pub(crate) const fn bytes_align(bytes: usize) -> usize {
    if bytes > 8 { 8 } else { bytes.next_power_of_two() }
}

/// Reads as many bytes as `bytes` has, placed as [`bytes_align`] says.
#[inline(always)]
pub(crate) fn load_bytes(source: &impl Words, offset: usize, bytes: &mut [u8]) {
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = load_bits(source, offset + index * 8, chunk.len()).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// Writes `bytes`, placed as [`bytes_align`] says.
#[inline(always)]
pub(crate) fn store_bytes(target: &mut impl WordsMut, offset: usize, bytes: &[u8]) {
    for (index, chunk) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        store_bits(target, offset + index * 8, chunk.len(), u64::from_le_bytes(word));
    }
}

/// Writes `bytes` zeros, placed as [`bytes_align`] says.
pub(crate) fn store_zeros(target: &mut impl WordsMut, offset: usize, bytes: usize) {
    for start in (0..bytes).step_by(8) {
        store_bits(target, offset + start, (bytes - start).min(8), 0);
    }
}

/// Arrays of up to 8 bytes lie within one word, longer ones start at a word.
impl<const N: usize> ColumnValue for [u8; N] {
    const BYTES: usize = N;
    const ALIGN: usize = bytes_align(N);
    #[inline(always)]
    fn load(source: &impl Words, offset: usize) -> Self {
        let mut bytes = [0; N];
        load_bytes(source, offset, &mut bytes);
        bytes
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        store_bytes(target, offset, self);
    }
}

impl<const N: usize> ColumnValue for Text<N> {
    const BYTES: usize = N;
    const ALIGN: usize = <[u8; N]>::ALIGN;
    #[inline(always)]
    fn load(source: &impl Words, offset: usize) -> Self {
        Self::from_padded(<[u8; N]>::load(source, offset))
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.padded().store(target, offset);
    }
}

/// A nullable column: the value, then a byte that says whether it is there.
impl<V: ColumnValue + Default> ColumnValue for Option<V> {
    const BYTES: usize = V::BYTES + 1;
    const ALIGN: usize = bytes_align(V::BYTES + 1);
    #[inline(always)]
    fn load(source: &impl Words, offset: usize) -> Self {
        bool::load(source, offset + V::BYTES).then(|| V::load(source, offset))
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.unwrap_or_default().store(target, offset);
        self.is_some().store(target, offset + V::BYTES);
    }
}

/// Stored like the value; only its order as a key is reversed.
impl<V: ColumnValue> ColumnValue for Reverse<V> {
    const BYTES: usize = V::BYTES;
    const ALIGN: usize = V::ALIGN;
    #[inline(always)]
    fn load(source: &impl Words, offset: usize) -> Self {
        Self(V::load(source, offset))
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.0.store(target, offset);
    }
}

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

/// A set of column groups of one table, one bit each.
pub type GroupSet = u16;

/// One column of table `T` with values of type `V`, made by `#[derive(Table)]`.
pub struct Column<T, V> {
    name: &'static str,
    offset: u32,
    group: u8,
    ordinal: u8,
    types: PhantomData<fn() -> (T, V)>,
}

impl<T, V> Clone for Column<T, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, V> Copy for Column<T, V> {}

impl<T, V> fmt::Debug for Column<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<T, V: ColumnValue> Column<T, V> {
    /// For `#[derive(Table)]`: a column at byte `offset` of the row, the `ordinal`-th declared.
    #[doc(hidden)]
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
    #[doc(hidden)]
    pub const fn offset(self) -> usize {
        self.offset as usize
    }

    #[inline(always)]
    const fn words(self) -> Span {
        let offset = self.offset as usize;
        Span { start: offset / 8, end: (offset + V::BYTES).div_ceil(8) }
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
    /// Reads the values.
    fn load(&self, source: &impl Words) -> Self::Value;
    /// Writes the values.
    fn store(&self, value: &Self::Value, target: &mut impl WordsMut);
}

impl<T: Table, V: ColumnValue> Columns for Column<T, V> {
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
    fn load(&self, source: &impl Words) -> Self::Value {
        self.map(|column| column.load(source))
    }
    #[inline(always)]
    fn store(&self, value: &Self::Value, target: &mut impl WordsMut) {
        self.iter().zip(value).for_each(|(column, value)| column.store(value, target));
    }
}

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
    fn load(&self, source: &impl Words) -> T {
        T::load(source)
    }
    #[inline(always)]
    fn store(&self, value: &T, target: &mut impl WordsMut) {
        value.store(target);
    }
}

/// A column type that [`add`](crate::Transaction::add) can change without reading it: 8-byte integers.
#[diagnostic::on_unimplemented(
    message = "`add` cannot change a column of type `{Self}`",
    label = "no type that can be added to without reading it",
    note = "only `u64` and `i64` can be added to without reading them; for other types use `update_columns`"
)]
pub trait Addable: ColumnValue {
    /// The two's complement bits of the summand.
    fn bits(self) -> u64;
    /// The wrapping sum.
    fn plus(self, other: Self) -> Self;
}

impl Addable for u64 {
    #[inline(always)]
    fn bits(self) -> u64 {
        self
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

impl Addable for i64 {
    #[inline(always)]
    fn bits(self) -> u64 {
        self as u64
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}
