//! Values as data: what a column of some type holds, and the way from and to the Rust types.

use crate::error::{Error, Misuse};
use crate::table::column_type::with_simple_types;
use crate::table::{ColumnType, Text};
use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

/// The value of one column.
///
/// Types are exact: a column of `i64` takes a [`Value::I64`] and no other integer. A column of `Reverse<V>`
/// holds the values of `V`, and one of an enum their names, as [`Value::Text`].
///
/// ```
/// use heddledb::table::dynamic::Value;
///
/// let value = Value::from(5i64);
/// assert_eq!(i64::try_from(&value), Ok(5));
/// assert_eq!(Option::<i64>::try_from(&Value::Null), Ok(None));
/// assert_eq!(u8::try_from(&value).unwrap_err().to_string(), "expected u8, given 5 (i64)");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Nothing, in a column of an `Option`.
    Null,
    /// `u8`.
    U8(u8),
    /// `u16`.
    U16(u16),
    /// `u32`.
    U32(u32),
    /// `u64`.
    U64(u64),
    /// `i8`.
    I8(i8),
    /// `i16`.
    I16(i16),
    /// `i32`.
    I32(i32),
    /// `i64`.
    I64(i64),
    /// `u128`.
    U128(u128),
    /// `i128`.
    I128(i128),
    /// `bool`.
    Bool(bool),
    /// `f32`.
    F32(f32),
    /// `f64`.
    F64(f64),
    /// `[u8; N]`.
    Bytes(Vec<u8>),
    /// `Text<N>`, or the name of an enum's value.
    Text(String),
    /// `std::time::Duration`.
    Duration(Duration),
    /// `jiff::Timestamp`.
    #[cfg(feature = "jiff")]
    Timestamp(jiff::Timestamp),
    /// `jiff::SignedDuration`.
    #[cfg(feature = "jiff")]
    SignedDuration(jiff::SignedDuration),
    /// `jiff::civil::Date`.
    #[cfg(feature = "jiff")]
    Date(jiff::civil::Date),
    /// `jiff::civil::Time`.
    #[cfg(feature = "jiff")]
    Time(jiff::civil::Time),
    /// `jiff::civil::DateTime`.
    #[cfg(feature = "jiff")]
    DateTime(jiff::civil::DateTime),
    /// `uuid::Uuid`.
    #[cfg(feature = "uuid")]
    Uuid(uuid::Uuid),
    /// `rust_decimal::Decimal`.
    #[cfg(feature = "rust_decimal")]
    Decimal(rust_decimal::Decimal),
}

impl Value {
    /// True for [`Value::Null`].
    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// How long a text is, or a list of bytes.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// The number of an integer of at most 64 bits.
    pub(crate) fn integer(&self) -> Option<i128> {
        Some(match self {
            Self::U8(value) => (*value).into(),
            Self::U16(value) => (*value).into(),
            Self::U32(value) => (*value).into(),
            Self::U64(value) => (*value).into(),
            Self::I8(value) => (*value).into(),
            Self::I16(value) => (*value).into(),
            Self::I32(value) => (*value).into(),
            Self::I64(value) => (*value).into(),
            _ => return None,
        })
    }

    /// A number as a value of an integer type of at most 64 bits, which must have it.
    pub(crate) fn of_integer(ty: ColumnType, number: i128) -> Option<Self> {
        Some(match ty {
            ColumnType::U8 => Self::U8(number.try_into().ok()?),
            ColumnType::U16 => Self::U16(number.try_into().ok()?),
            ColumnType::U32 => Self::U32(number.try_into().ok()?),
            ColumnType::U64 => Self::U64(number.try_into().ok()?),
            ColumnType::I8 => Self::I8(number.try_into().ok()?),
            ColumnType::I16 => Self::I16(number.try_into().ok()?),
            ColumnType::I32 => Self::I32(number.try_into().ok()?),
            ColumnType::I64 => Self::I64(number.try_into().ok()?),
            _ => return None,
        })
    }
}

/// A value that is not of the expected type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, given {given}")]
pub struct WrongType {
    /// The Rust type.
    pub expected: String,
    /// The value and its type.
    pub given: String,
}

impl WrongType {
    /// `given` is no value of `T`.
    pub fn new<T: ?Sized>(given: &Value) -> Self {
        let expected = short_name::<T>();
        Self { expected, given: given.described() }
    }
}

impl From<WrongType> for Error {
    fn from(wrong: WrongType) -> Self {
        Misuse::Option(wrong.to_string()).into()
    }
}

/// The last part of a type's path, and of the paths in it: `Option<Text<24>>`.
fn short_name<T: ?Sized>() -> String {
    let path = std::any::type_name::<T>();
    let words = path.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    words.map(|word| word.rsplit("::").next().unwrap_or(word)).collect()
}

const DESCRIBED_CHARS_MAX: usize = 24;

/// The decimal places of a nanosecond.
pub(super) const NANOSECOND_DIGITS: usize = 9;

/// `1.5s`: whole seconds, and decimal places as far as there are any.
struct Seconds<'a>(&'a Duration);

impl fmt::Display for Seconds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanoseconds) = (self.0.as_secs(), self.0.subsec_nanos());
        let places = format!("{nanoseconds:0NANOSECOND_DIGITS$}");
        match places.trim_end_matches('0') {
            "" => f.pad(&format!("{seconds}s")),
            places => f.pad(&format!("{seconds}.{places}s")),
        }
    }
}

/// The way from and to a Rust type that is one kind of value.
macro_rules! converted {
    ($name:ident $t:ty) => {
        impl From<$t> for Value {
            fn from(value: $t) -> Self {
                Self::$name(value)
            }
        }

        impl TryFrom<&Value> for $t {
            type Error = WrongType;
            fn try_from(value: &Value) -> Result<Self, WrongType> {
                match value {
                    Value::$name(value) => Ok(*value),
                    other => Err(WrongType::new::<Self>(other)),
                }
            }
        }

        nullable_and_owned!([] $t);
    };
}

/// `Option` of a type, and the type from an owned value.
macro_rules! nullable_and_owned {
    ([$($parameter:tt)*] $t:ty) => {
        impl<$($parameter)*> TryFrom<&Value> for Option<$t> {
            type Error = WrongType;
            fn try_from(value: &Value) -> Result<Self, WrongType> {
                match value {
                    Value::Null => Ok(None),
                    value => match <$t>::try_from(value) {
                        Ok(value) => Ok(Some(value)),
                        Err(_) => Err(WrongType::new::<Self>(value)),
                    },
                }
            }
        }

        impl<$($parameter)*> TryFrom<Value> for Option<$t> {
            type Error = WrongType;
            fn try_from(value: Value) -> Result<Self, WrongType> {
                Self::try_from(&value)
            }
        }

        impl<$($parameter)*> TryFrom<Value> for $t {
            type Error = WrongType;
            fn try_from(value: Value) -> Result<Self, WrongType> {
                Self::try_from(&value)
            }
        }
    };
}

nullable_and_owned!([] String);
nullable_and_owned!([] Vec<u8>);
nullable_and_owned!([const N: usize] Text<N>);
nullable_and_owned!([const N: usize] [u8; N]);

/// Shows a value as its type does; a duration of the standard library has no way of its own.
macro_rules! show {
    (Duration $value:ident $f:ident) => {
        Seconds($value).fmt($f)
    };
    ($name:ident $value:ident $f:ident) => {
        fmt::Display::fmt($value, $f)
    };
}

macro_rules! simple_values {
    ($($(#[$cfg:meta])? $name:ident $text:literal $t:ty),*; $($(#[$ocfg:meta])? $other:ident $otext:literal $o:ty),* $(,)?) => {
        $($(#[$cfg])? converted!($name $t);)*
        $($(#[$ocfg])? converted!($other $o);)*

        impl Value {
            /// The value and its type, in a message. Long texts are cut.
            pub(super) fn described(&self) -> String {
                match self {
                    Self::Null => "null".to_owned(),
                    $($(#[$cfg])? Self::$name(_) => format!("{self} ({})", short_name::<$t>()),)*
                    $($(#[$ocfg])? Self::$other(_) => format!("{self} ({})", short_name::<$o>()),)*
                    Self::Bytes(bytes) => format!("{} bytes", bytes.len()),
                    Self::Text(text) => {
                        let start: String = text.chars().take(DESCRIBED_CHARS_MAX).collect();
                        let more = if start.len() < text.len() { ".." } else { "" };
                        format!("{start:?}{more} (text of {} bytes)", text.len())
                    }
                }
            }
        }

        /// As in Rust, with `null` for nothing, bytes in hexadecimal digits, durations in seconds, and texts as they are: what
        /// [`ColumnType::parse`] reads.
        impl fmt::Display for Value {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::Null => f.pad("null"),
                    $($(#[$cfg])? Self::$name(value) => show!($name value f),)*
                    $($(#[$ocfg])? Self::$other(value) => show!($other value f),)*
                    Self::Bytes(bytes) => {
                        f.write_str("0x")?;
                        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
                    }
                    Self::Text(text) => f.pad(text),
                }
            }
        }
    };
}
with_simple_types!(simple_values);

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<const N: usize> From<Text<N>> for Value {
    fn from(text: Text<N>) -> Self {
        text.as_str().into()
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_owned())
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl<const N: usize> From<[u8; N]> for Value {
    fn from(bytes: [u8; N]) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl<V: Into<Value>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<V: Into<Value>> From<Reverse<V>> for Value {
    fn from(value: Reverse<V>) -> Self {
        value.0.into()
    }
}

impl<'a> TryFrom<&'a Value> for &'a str {
    type Error = WrongType;
    fn try_from(value: &'a Value) -> Result<Self, WrongType> {
        match value {
            Value::Text(text) => Ok(text),
            other => Err(WrongType::new::<str>(other)),
        }
    }
}

impl TryFrom<&Value> for String {
    type Error = WrongType;
    fn try_from(value: &Value) -> Result<Self, WrongType> {
        <&str>::try_from(value).map(str::to_owned)
    }
}

impl<const N: usize> TryFrom<&Value> for Text<N> {
    type Error = WrongType;
    fn try_from(value: &Value) -> Result<Self, WrongType> {
        let text = <&str>::try_from(value).ok().and_then(|text| Self::new(text).ok());
        text.ok_or_else(|| WrongType::new::<Self>(value))
    }
}

impl<'a> TryFrom<&'a Value> for &'a [u8] {
    type Error = WrongType;
    fn try_from(value: &'a Value) -> Result<Self, WrongType> {
        match value {
            Value::Bytes(bytes) => Ok(bytes),
            other => Err(WrongType::new::<[u8]>(other)),
        }
    }
}

impl TryFrom<&Value> for Vec<u8> {
    type Error = WrongType;
    fn try_from(value: &Value) -> Result<Self, WrongType> {
        <&[u8]>::try_from(value).map(<[u8]>::to_vec)
    }
}

impl<const N: usize> TryFrom<&Value> for [u8; N] {
    type Error = WrongType;
    fn try_from(value: &Value) -> Result<Self, WrongType> {
        let bytes = <&[u8]>::try_from(value).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| WrongType::new::<Self>(value))
    }
}

impl<'a, V: TryFrom<&'a Value, Error = WrongType>> TryFrom<&'a Value> for Reverse<V> {
    type Error = WrongType;
    fn try_from(value: &'a Value) -> Result<Self, WrongType> {
        V::try_from(value).map(Self)
    }
}
