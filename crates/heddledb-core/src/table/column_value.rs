//! Values of columns: how each Rust type that a column can hold is read from the words of a row, and written.

use super::column_type::ColumnType;
use super::text::Text;
use crate::values::{load_value, store_value};
use crate::words::{Words, WordsMut};
use std::cmp::Reverse;
use std::time::Duration;

/// A type that a column can hold: plain data of fixed size, and text and bytes of any length.
///
/// `#[derive(ColumnValue)]` makes one of an enum without fields, and of a struct around a type that is one:
///
/// ```
/// use heddledb::table::{ColumnValue, Key};
/// use heddledb::{Table, Text};
///
/// /// Stored, and as a key ordered, as a `u64`; but no other number of the program can be taken for it.
/// #[derive(Clone, Copy, Debug, PartialEq, ColumnValue, Key)]
/// struct SeatId(u64);
///
/// /// Stored as a `u8`. Names and numbers are in the schema.
/// #[derive(Clone, Copy, Debug, PartialEq, ColumnValue, Key)]
/// enum Status { Open, Held, Sold }
///
/// #[derive(Table, Clone, Copy)]
/// #[table(index(ByStatus(status)))]
/// struct Seat {
///     #[key]
///     id: SeatId,
///     status: Status,
///     buyer: Option<Text<24>>,
/// }
/// # use heddledb::table::Relation;
/// assert_eq!(Seat::SCHEMA, "id: u64, status: u8{Open=0,Held=1,Sold=2}, buyer: Option<Text<24>>; key id; ordered");
/// ```
///
/// By hand, a type is written in terms of one that is a column type already:
///
/// ```
/// use heddledb::table::{ColumnType, ColumnValue, Words, WordsMut};
///
/// /// Between 0 and 1, to the percent.
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Share(f64);
///
/// impl ColumnValue for Share {
///     const TYPE: ColumnType = <u8 as ColumnValue>::TYPE;
///     fn load(source: &impl Words, offset: usize) -> Self {
///         Self(f64::from(u8::load(source, offset)) / 100.0)
///     }
///     fn store(&self, target: &mut impl WordsMut, offset: usize) {
///         ((self.0 * 100.0).round() as u8).store(target, offset);
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a column cannot hold a `{Self}`",
    label = "no column type",
    note = "columns are integers, `f32`, `f64`, `bool`, `[u8; N]`, `Duration`, `Text<N>`, `String`, `Vec<u8>`, and `Option` of these; an enum or a newtype of your own derives `ColumnValue`; times, UUIDs and decimals are those of `jiff`, `uuid` and `rust_decimal`, with the features of these names"
)]
pub trait ColumnValue: Clone + Send + Sync + 'static {
    /// What it is in a row and in a schema: its bytes, their alignment, its name.
    const TYPE: ColumnType;
    /// Reads the value at byte `offset` of the row. It must accept any bits, because an optimistic copy may be torn
    /// before it is validated.
    fn load(source: &impl Words, offset: usize) -> Self;
    /// Writes the value at byte `offset` of the row: each of the type's bytes.
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
    ($($name:ident $t:ty as $u:ty)*) => {$(
        impl ColumnValue for $t {
            const TYPE: ColumnType = ColumnType::$name;
            #[inline(always)]
            fn load(source: &impl Words, offset: usize) -> Self {
                load_bits(source, offset, size_of::<Self>()) as $t
            }
            #[inline(always)]
            fn store(&self, target: &mut impl WordsMut, offset: usize) {
                store_bits(target, offset, size_of::<Self>(), u64::from(*self as $u));
            }
        }
    )*};
}
integer_columns!(U8 u8 as u8 U16 u16 as u16 U32 u32 as u32 U64 u64 as u64);
integer_columns!(I8 i8 as u8 I16 i16 as u16 I32 i32 as u32 I64 i64 as u64);

impl ColumnValue for u128 {
    const TYPE: ColumnType = ColumnType::U128;
    fn load(source: &impl Words, offset: usize) -> Self {
        u128::from(source.word(offset / 8)) | u128::from(source.word(offset / 8 + 1)) << 64
    }
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        target.set_word(offset / 8, *self as u64);
        target.set_word(offset / 8 + 1, (*self >> 64) as u64);
    }
}

impl ColumnValue for i128 {
    const TYPE: ColumnType = ColumnType::I128;
    fn load(source: &impl Words, offset: usize) -> Self {
        u128::load(source, offset) as Self
    }
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        (*self as u128).store(target, offset);
    }
}

impl ColumnValue for bool {
    const TYPE: ColumnType = ColumnType::Bool;
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
    const TYPE: ColumnType = ColumnType::F64;
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
    const TYPE: ColumnType = ColumnType::F32;
    #[inline(always)]
    fn load(source: &impl Words, offset: usize) -> Self {
        Self::from_bits(u32::load(source, offset))
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.to_bits().store(target, offset);
    }
}

/// Reads as many bytes as `bytes` has, placed as [`ColumnType::align`] says.
#[inline(always)]
pub(crate) fn load_bytes(source: &impl Words, offset: usize, bytes: &mut [u8]) {
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = load_bits(source, offset + index * 8, chunk.len()).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// Writes `bytes`, placed as [`ColumnType::align`] says.
#[inline(always)]
pub(crate) fn store_bytes(target: &mut impl WordsMut, offset: usize, bytes: &[u8]) {
    for (index, chunk) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        store_bits(target, offset + index * 8, chunk.len(), u64::from_le_bytes(word));
    }
}

/// Writes `bytes` zeros, placed as [`ColumnType::align`] says.
pub(crate) fn store_zeros(target: &mut impl WordsMut, offset: usize, bytes: usize) {
    for start in (0..bytes).step_by(8) {
        store_bits(target, offset + start, (bytes - start).min(8), 0);
    }
}

/// Arrays of up to 8 bytes lie within one word, longer ones start at a word.
impl<const N: usize> ColumnValue for [u8; N] {
    const TYPE: ColumnType = ColumnType::Bytes(N);
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
    const TYPE: ColumnType = ColumnType::Text(N);
    #[inline(always)]
    fn load(source: &impl Words, offset: usize) -> Self {
        Self::from_padded(<[u8; N]>::load(source, offset))
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.padded().store(target, offset);
    }
}

/// Of any length up to [`VALUE_BYTES_MAX`](super::VALUE_BYTES_MAX). Reading it allocates. Text and bytes of at most 15 bytes are in the
/// row; longer ones take an allocation in the engine, which is kept as long as the row has the same.
impl ColumnValue for String {
    const TYPE: ColumnType = ColumnType::String;
    fn load(source: &impl Words, offset: usize) -> Self {
        // Of a torn row it may be any bytes.
        Self::from_utf8(Vec::load(source, offset))
            .unwrap_or_else(|torn| Self::from_utf8_lossy(torn.as_bytes()).into_owned())
    }
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        store_value(self.as_bytes(), target, offset);
    }
}

/// As `String`.
impl ColumnValue for Vec<u8> {
    const TYPE: ColumnType = ColumnType::ByteString;
    fn load(source: &impl Words, offset: usize) -> Self {
        let mut bytes = Self::new();
        load_value(source, offset, &mut bytes);
        bytes
    }
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        store_value(self, target, offset);
    }
}

/// The whole seconds, then the nanoseconds.
impl ColumnValue for Duration {
    const TYPE: ColumnType = ColumnType::Duration;
    fn load(source: &impl Words, offset: usize) -> Self {
        let nanoseconds = u32::load(source, offset + 8);
        Self::new(u64::load(source, offset), nanoseconds.min(NANOSECONDS_MAX))
    }
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.as_secs().store(target, offset);
        self.subsec_nanos().store(target, offset + 8);
    }
}

/// The most nanoseconds that are no second.
pub(crate) const NANOSECONDS_MAX: u32 = 999_999_999;

/// A nullable column: the value, or zeros, then a byte that says whether it is there.
impl<V: ColumnValue> ColumnValue for Option<V> {
    const TYPE: ColumnType = ColumnType::Option(&V::TYPE);
    #[inline(always)]
    fn load(source: &impl Words, offset: usize) -> Self {
        bool::load(source, offset + const { V::TYPE.bytes() }).then(|| V::load(source, offset))
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        match self {
            Some(value) => value.store(target, offset),
            None => store_zeros(target, offset, const { V::TYPE.bytes() }),
        }
        self.is_some().store(target, offset + const { V::TYPE.bytes() });
    }
}

/// Stored like the value; only its order as a key is reversed.
impl<V: ColumnValue> ColumnValue for Reverse<V> {
    const TYPE: ColumnType = ColumnType::Reverse(&V::TYPE);
    #[inline(always)]
    fn load(source: &impl Words, offset: usize) -> Self {
        Self(V::load(source, offset))
    }
    #[inline(always)]
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.0.store(target, offset);
    }
}
