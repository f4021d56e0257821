//! Column types as data: the `ColumnValue` and `Key` implementations, chosen by a match.
//!
//! Each method here is the run-time twin of an associated constant or function of those traits, and calls it:
//! nothing is encoded a second way. Only for [`ColumnType::Bytes`] and [`ColumnType::Text`], whose length is
//! a constant parameter of the Rust types, it calls the slice functions that their implementations call too.

use super::value::Value;
use crate::table::column::{bytes_align, load_bytes, store_bytes, store_zeros};
use crate::table::key::{Key, KeyReader, KeyWriter, read_reversed, write_reversed};
use crate::table::text::{before_padding, check_text, valid_part};
use crate::table::{ColumnValue, Text};
use crate::words::{Words, WordsMut};
use std::fmt;

/// The type of a column of a table that is defined at run time.
///
/// Its `Display` is the type as `#[derive(Table)]` writes it into the schema: `u64`, `Text<24>`, `[u8;6]`,
/// `Option<i32>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ColumnType {
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `i8`.
    I8,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `u128`.
    U128,
    /// `bool`.
    Bool,
    /// `f32`. Not for keys.
    F32,
    /// `f64`. Not for keys.
    F64,
    /// `[u8; N]`: exactly so many bytes.
    Bytes(usize),
    /// `Text<N>`: UTF-8 text of at most so many bytes, without NUL.
    Text(usize),
    /// `Option<V>`: a value, or [`Value::Null`]. Not for keys, and not around another `Option`.
    Option(Box<Self>),
    /// `Reverse<V>`: as a part of a key it is in descending order. Its values are those of the type within.
    Reverse(Box<Self>),
}

/// A value that its column's type does not have.
#[derive(Debug)]
pub(super) struct Unfit;

/// Limits that a log has for relations; a Rust type that exceeds them is refused when a directory is opened.
pub(super) const ROW_WORDS_MAX: usize = 4 << 20;

/// The bytes of the longest text or array: as many as a row may have.
pub(super) const BYTES_MAX: usize = 8 * ROW_WORDS_MAX;

impl ColumnType {
    /// The same type, or null.
    pub fn optional(self) -> Self {
        Self::Option(Box::new(self))
    }

    /// The same type, in descending order where it is part of a key.
    pub fn reversed(self) -> Self {
        Self::Reverse(Box::new(self))
    }

    /// Whether a column of this type can be part of a key: all but floats and options.
    pub fn is_key(&self) -> bool {
        match self {
            Self::F32 | Self::F64 | Self::Option(_) => false,
            Self::Reverse(inner) => inner.is_key(),
            _ => true,
        }
    }

    /// What is wrong with the type itself.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::Bytes(0) | Self::Text(0) => Err(format!("`{self}` has no bytes; remove the column")),
            Self::Bytes(bytes) | Self::Text(bytes) if *bytes > BYTES_MAX => {
                Err(format!("`{self}` is longer than a row can be, {BYTES_MAX} bytes"))
            }
            Self::Option(inner) | Self::Reverse(inner) if matches!(**inner, Self::Option(_)) => {
                Err(format!("`{self}` has an option within; only the outermost type can be an option"))
            }
            Self::Option(inner) | Self::Reverse(inner) => inner.check(),
            _ => Ok(()),
        }
    }
}

/// Types that are a Rust type each; those among them that can be part of a key once more.
macro_rules! scalar_types {
    ($($name:ident $t:ty),*; $($key:ident $k:ty),*) => {
        impl ColumnType {
            /// [`ColumnValue::BYTES`].
            pub fn bytes(&self) -> usize {
                match self {
                    $(Self::$name => <$t as ColumnValue>::BYTES,)*
                    Self::Bytes(bytes) | Self::Text(bytes) => *bytes,
                    Self::Option(inner) => inner.bytes() + 1,
                    Self::Reverse(inner) => inner.bytes(),
                }
            }

            /// [`ColumnValue::ALIGN`].
            pub(super) fn align(&self) -> usize {
                match self {
                    $(Self::$name => <$t as ColumnValue>::ALIGN,)*
                    Self::Bytes(_) | Self::Text(_) | Self::Option(_) => bytes_align(self.bytes()),
                    Self::Reverse(inner) => inner.align(),
                }
            }

            /// [`ColumnValue::load`]; any bits give some value.
            pub(super) fn load(&self, source: &impl Words, offset: usize) -> Value {
                match self {
                    $(Self::$name => Value::$name(<$t as ColumnValue>::load(source, offset)),)*
                    Self::Bytes(bytes) => Value::Bytes(loaded(source, offset, *bytes)),
                    Self::Text(bytes) => text(&loaded(source, offset, *bytes)),
                    Self::Option(inner) => match bool::load(source, offset + inner.bytes()) {
                        true => inner.load(source, offset),
                        false => Value::Null,
                    },
                    Self::Reverse(inner) => inner.load(source, offset),
                }
            }

            /// [`ColumnValue::store`], if the column can hold `value`.
            pub(super) fn store(
                &self,
                value: &Value,
                target: &mut impl WordsMut,
                offset: usize,
            ) -> Result<(), Unfit> {
                match (self, value) {
                    $((Self::$name, Value::$name(value)) => value.store(target, offset),)*
                    (Self::Bytes(bytes), Value::Bytes(value)) if value.len() == *bytes => {
                        store_bytes(target, offset, value);
                    }
                    (Self::Text(bytes), Value::Text(value)) if check_text(value, *bytes).is_ok() => {
                        store_zeros(target, offset, *bytes);
                        store_bytes(target, offset, value.as_bytes());
                    }
                    // As the default value, whose bits are all zero.
                    (Self::Option(inner), Value::Null) => {
                        store_zeros(target, offset, inner.bytes());
                        false.store(target, offset + inner.bytes());
                    }
                    (Self::Option(inner), value) => {
                        inner.store(value, target, offset)?;
                        true.store(target, offset + inner.bytes());
                    }
                    (Self::Reverse(inner), value) => inner.store(value, target, offset)?,
                    _ => return Err(Unfit),
                }
                Ok(())
            }

            /// [`Key::write`], if the column can hold `value`.
            pub(super) fn write_key(&self, value: &Value, out: &mut KeyWriter<'_>) -> Result<(), Unfit> {
                match (self, value) {
                    $((Self::$key, Value::$key(value)) => value.write(out),)*
                    (Self::Bytes(bytes), Value::Bytes(value)) if value.len() == *bytes => {
                        value.iter().for_each(|byte| byte.write(out));
                    }
                    (Self::Text(bytes), Value::Text(value)) if check_text(value, *bytes).is_ok() => {
                        let padding = std::iter::repeat_n(0, bytes - value.len());
                        value.bytes().chain(padding).for_each(|byte| byte.write(out));
                    }
                    (Self::Reverse(inner), value) => {
                        let mut fits = Ok(());
                        write_reversed(out, inner.bytes(), |out| fits = inner.write_key(value, out));
                        return fits;
                    }
                    _ => return Err(Unfit),
                }
                Ok(())
            }

            /// [`Key::read`].
            ///
            /// # Panics
            /// For a type that is no key's, which no definition has in a key.
            pub(super) fn read_key(&self, input: &mut KeyReader<'_>) -> Value {
                match self {
                    $(Self::$key => Value::$key(<$k as Key>::read(input)),)*
                    Self::Bytes(bytes) => Value::Bytes(pulled(input, *bytes)),
                    Self::Text(bytes) => text(&pulled(input, *bytes)),
                    Self::Reverse(inner) => {
                        read_reversed(input, inner.bytes(), |input| inner.read_key(input))
                    }
                    Self::F32 | Self::F64 | Self::Option(_) => unreachable!("{self} in a key"),
                }
            }
        }

        impl fmt::Display for ColumnType {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name => f.write_str(stringify!($t)),)*
                    Self::Bytes(bytes) => write!(f, "[u8;{bytes}]"),
                    Self::Text(bytes) => write!(f, "Text<{bytes}>"),
                    Self::Option(inner) => write!(f, "Option<{inner}>"),
                    Self::Reverse(inner) => write!(f, "Reverse<{inner}>"),
                }
            }
        }
    };
}

scalar_types!(
    U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64, U128 u128, Bool bool,
    F32 f32, F64 f64;
    U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64, U128 u128, Bool bool
);

const _: () = assert!(<Text<9> as ColumnValue>::ALIGN == bytes_align(9), "texts are placed like bytes");

fn loaded(source: &impl Words, offset: usize, bytes: usize) -> Vec<u8> {
    let mut loaded = vec![0; bytes];
    load_bytes(source, offset, &mut loaded);
    loaded
}

fn pulled(input: &mut KeyReader<'_>, bytes: usize) -> Vec<u8> {
    std::iter::repeat_with(|| u8::read(input)).take(bytes).collect()
}

fn text(padded: &[u8]) -> Value {
    Value::Text(valid_part(before_padding(padded)).to_owned())
}
