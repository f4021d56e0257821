//! Column types as data: what a value takes in a row and in a key, and the text of it in a schema.
//!
//! All of it can be computed when a program is compiled, so that `#[derive(Table)]` gets layouts and schema texts from
//! the same functions as tables that are defined at run time.

use crate::values::SLOT_BYTES;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The type of a column: how its values lie in a row, and what they are.
///
/// Its `Display` is its text in a schema: `u64`, `Text<24>`, `[u8;6]`, `Option<i32>`, `u8{Open=0,Sold=1}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ColumnType {
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `u128`.
    U128,
    /// `i8`.
    I8,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `i128`.
    I128,
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
    /// `std::time::Duration`, to the nanosecond.
    Duration,
    /// `jiff::Timestamp`: a moment, to the nanosecond.
    #[cfg(feature = "jiff")]
    Timestamp,
    /// `jiff::SignedDuration`, to the nanosecond.
    #[cfg(feature = "jiff")]
    SignedDuration,
    /// `jiff::civil::Date`.
    #[cfg(feature = "jiff")]
    Date,
    /// `jiff::civil::Time`, to the nanosecond.
    #[cfg(feature = "jiff")]
    Time,
    /// `jiff::civil::DateTime`, to the nanosecond, in no time zone.
    #[cfg(feature = "jiff")]
    DateTime,
    /// `uuid::Uuid`.
    #[cfg(feature = "uuid")]
    Uuid,
    /// `rust_decimal::Decimal`. Not for keys.
    #[cfg(feature = "rust_decimal")]
    Decimal,
    /// `String`: UTF-8 text of any length, up to [`VALUE_BYTES_MAX`](crate::table::VALUE_BYTES_MAX) bytes. In a key, as many as that states.
    String,
    /// `Vec<u8>`: bytes of any number up to the same. In a key, as many as that states.
    ByteString,
    /// Integers with names, of an enum with `#[derive(ColumnValue)]`.
    Enum(&'static EnumType),
    /// `Option<V>`: a value, or none. In a key, none is before all values. Not around another `Option`.
    Option(&'static Self),
    /// `Reverse<V>`: as a part of a key it is in descending order. Its values are those of the type within.
    Reverse(&'static Self),
}

/// The names of the values of an enum, and the integers that they are stored and ordered as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EnumType {
    integer: ColumnType,
    variants: &'static [(&'static str, i128)],
}

/// The most words of a row: a limit that a log has for relations.
pub(crate) const ROW_WORDS_MAX: usize = 4 << 20;

/// The bytes of the longest text or array: as many as a row may have.
const BYTES_MAX: usize = 8 * ROW_WORDS_MAX;

/// Bytes that tell in a key how long a value of any length is.
pub(crate) const LENGTH_BYTES: usize = 1;

/// Bytes of two parts, of which the second counts fractions of the first.
const WITH_FRACTION: usize = 12;

/// The alignment of a value of `bytes` bytes: within one word, or from the start of one.
const fn align(bytes: usize) -> usize {
    if bytes > 8 { 8 } else { bytes.next_power_of_two() }
}

impl ColumnType {
    /// The same type, or null.
    pub fn optional(self) -> Self {
        Self::Option(self.interned())
    }

    /// The same type, in descending order where it is part of a key.
    pub fn reversed(self) -> Self {
        Self::Reverse(self.interned())
    }

    /// An enum: names for values of an integer type of at most 64 bits. The names and numbers are checked when a table
    /// is built.
    ///
    /// ```
    /// use heddledb::table::ColumnType;
    ///
    /// let status = ColumnType::enumeration(ColumnType::U8, [("Open", 0), ("Sold", 1)]);
    /// assert_eq!(status.to_string(), "u8{Open=0,Sold=1}");
    /// ```
    pub fn enumeration<N: Into<String>>(
        integer: Self,
        variants: impl IntoIterator<Item = (N, i128)>,
    ) -> Self {
        static KNOWN: Mutex<BTreeSet<&'static EnumType>> = Mutex::new(BTreeSet::new());
        let names: Vec<(String, i128)> =
            variants.into_iter().map(|(name, number)| (name.into(), number)).collect();
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = known.iter().find(|known| {
            let own = names.iter().map(|(name, number)| (&name[..], *number));
            known.integer == integer && known.variants.iter().copied().eq(own)
        });
        if let Some(alike) = alike {
            return Self::Enum(alike);
        }
        let variants: Vec<(&'static str, i128)> =
            names.into_iter().map(|(name, number)| (&*name.leak(), number)).collect();
        let made = Box::leak(Box::new(EnumType { integer, variants: variants.leak() }));
        known.insert(made);
        Self::Enum(made)
    }

    /// The same type, for the life of the process: the same reference at every call.
    fn interned(self) -> &'static Self {
        static KNOWN: Mutex<BTreeSet<&'static ColumnType>> = Mutex::new(BTreeSet::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&self) {
            return known;
        }
        let made = Box::leak(Box::new(self));
        known.insert(made);
        made
    }

    /// Bytes in the row.
    pub const fn bytes(&self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
            Self::U128 | Self::I128 => 16,
            Self::Bytes(bytes) | Self::Text(bytes) => *bytes,
            Self::Duration => WITH_FRACTION,
            Self::String | Self::ByteString => SLOT_BYTES,
            #[cfg(feature = "jiff")]
            Self::Timestamp | Self::SignedDuration | Self::DateTime => WITH_FRACTION,
            #[cfg(feature = "jiff")]
            Self::Date => 4,
            #[cfg(feature = "jiff")]
            Self::Time => 8,
            #[cfg(feature = "uuid")]
            Self::Uuid => 16,
            #[cfg(feature = "rust_decimal")]
            Self::Decimal => 16,
            Self::Enum(of) => of.integer.bytes(),
            Self::Option(inner) => inner.bytes() + 1,
            Self::Reverse(inner) => inner.bytes(),
        }
    }

    /// Alignment in the row: 1, 2, 4 or 8. A value of at most 8 bytes never straddles a word, a longer one starts at
    /// one.
    pub const fn align(&self) -> usize {
        align(self.bytes())
    }

    /// Bytes in a key, if it can be part of one; `max` is what the key states of a value of any length, and counts for nothing
    /// else.
    pub const fn key_bytes(&self, max: usize) -> usize {
        match self {
            Self::String | Self::ByteString => max + LENGTH_BYTES,
            Self::Option(inner) => inner.key_bytes(max) + 1,
            Self::Reverse(inner) => inner.key_bytes(max),
            _ => self.bytes(),
        }
    }

    /// Whether a column of this type can be part of a key: all but floats and decimals. Of one that [has a
    /// slot](Self::has_slot), the key states how many bytes it has room for.
    pub const fn is_key(&self) -> bool {
        match self {
            Self::F32 | Self::F64 => false,
            #[cfg(feature = "rust_decimal")]
            Self::Decimal => false,
            Self::Option(inner) | Self::Reverse(inner) => inner.is_key(),
            _ => true,
        }
    }

    /// Whether its values may lie outside of their rows: then each has a [slot](crate::values::Slot) in front.
    pub const fn has_slot(&self) -> bool {
        match self {
            Self::String | Self::ByteString => true,
            Self::Option(inner) | Self::Reverse(inner) => inner.has_slot(),
            _ => false,
        }
    }

    /// Whether there is an option within.
    const fn has_option(&self) -> bool {
        match self {
            Self::Option(_) => true,
            Self::Reverse(inner) => inner.has_option(),
            _ => false,
        }
    }

    /// The least and the largest number of an integer type of at most 64 bits.
    pub(crate) const fn integers(&self) -> Option<(i128, i128)> {
        Some(match self {
            Self::U8 => (0, u8::MAX as i128),
            Self::U16 => (0, u16::MAX as i128),
            Self::U32 => (0, u32::MAX as i128),
            Self::U64 => (0, u64::MAX as i128),
            Self::I8 => (i8::MIN as i128, i8::MAX as i128),
            Self::I16 => (i16::MIN as i128, i16::MAX as i128),
            Self::I32 => (i32::MIN as i128, i32::MAX as i128),
            Self::I64 => (i64::MIN as i128, i64::MAX as i128),
            _ => return None,
        })
    }

    /// What is wrong with the type itself.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Bytes(0) | Self::Text(0) => Err(format!("`{self}` has no bytes; remove the column")),
            Self::Bytes(bytes) | Self::Text(bytes) if *bytes > BYTES_MAX => {
                Err(format!("`{self}` is longer than a row can be, {BYTES_MAX} bytes"))
            }
            Self::Option(inner) if inner.has_option() => {
                Err(format!("`{self}` has an option within; a value is there or not, with nothing between"))
            }
            Self::Option(inner) | Self::Reverse(inner) => inner.check(),
            Self::Enum(of) => of.check(),
            _ => Ok(()),
        }
    }
}

impl EnumType {
    /// For `#[derive(ColumnValue)]`, which knows that the names are different, and each number another of the type.
    pub const fn new(integer: ColumnType, variants: &'static [(&'static str, i128)]) -> Self {
        Self { integer, variants }
    }

    /// The integer type that the values are stored as.
    pub const fn integer(&self) -> ColumnType {
        self.integer
    }

    /// Names and numbers, by order of declaration.
    pub const fn variants(&self) -> &'static [(&'static str, i128)] {
        self.variants
    }

    /// The number of a name.
    pub fn number(&self, name: &str) -> Option<i128> {
        self.variants.iter().find(|(other, _)| *other == name).map(|(_, number)| *number)
    }

    /// The name of a number; that of the first variant where no variant has it, as in a torn copy.
    pub fn name(&self, number: i128) -> &'static str {
        let named = self.variants.iter().find(|(_, other)| *other == number);
        named.or(self.variants.first()).map_or("", |(name, _)| name)
    }

    fn check(&self) -> Result<(), String> {
        let Some((least, most)) = self.integer.integers() else {
            return Err(format!(
                "an enum is stored as an integer of at most 64 bits, and not as `{}`",
                self.integer
            ));
        };
        if self.variants.is_empty() {
            return Err("an enum has at least one value".to_owned());
        }
        for (at, (name, number)) in self.variants.iter().enumerate() {
            if !is_identifier(name) {
                return Err(format!(
                    "`{name}` is not a valid name of an enum's value; write letters, digits and `_`, with no digit first"
                ));
            }
            if !(least..=most).contains(number) {
                return Err(format!("`{name}` is {number}, which `{}` does not have", self.integer));
            }
            let twice = self.variants[..at].iter().find(|(other, same)| other == name || same == number);
            if let Some((other, same)) = twice {
                return Err(format!("`{name}={number}` and `{other}={same}` are not different values"));
            }
        }
        Ok(())
    }
}

/// Whether a name is one of Rust's, or a keyword.
pub(crate) fn is_identifier(name: &str) -> bool {
    let starts = name.starts_with(|first: char| first.is_alphabetic() || first == '_');
    starts && name != "_" && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// A part of a schema text.
#[derive(Clone, Copy, Debug)]
pub enum SchemaPart {
    /// Text as it is.
    Text(&'static str),
    /// The text of a type.
    Type(ColumnType),
}

/// Bytes of the schema text that consists of `parts`.
pub const fn schema_bytes(parts: &[SchemaPart]) -> usize {
    let mut none = [];
    Writer::of(&mut none, parts)
}

/// The schema text that consists of `parts`, which takes `N` bytes.
pub const fn schema_text<const N: usize>(parts: &[SchemaPart]) -> [u8; N] {
    let mut text = [0; N];
    let bytes = Writer::of(&mut text, parts);
    assert!(bytes == N, "the text takes as many bytes as `schema_bytes` says");
    text
}

/// Writes the schema text that consists of `parts` to the front of `text`, and returns how many bytes it takes.
pub const fn schema_text_in(text: &mut [u8], parts: &[SchemaPart]) -> usize {
    let bytes = Writer::of(text, parts);
    assert!(bytes <= text.len(), "the text of a schema is longer than there is room for");
    bytes
}

/// The text of bytes that [`schema_text`] gave.
pub const fn schema_str(text: &[u8]) -> &str {
    match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(_) => panic!("a schema consists of texts"),
    }
}

/// Writes texts one after another, and counts on where there is no more room.
struct Writer<'a> {
    out: &'a mut [u8],
    bytes: usize,
}

impl Writer<'_> {
    const fn of(out: &mut [u8], parts: &[SchemaPart]) -> usize {
        let mut writer = Writer { out, bytes: 0 };
        let mut at = 0;
        while at < parts.len() {
            match &parts[at] {
                SchemaPart::Text(text) => writer.text(text),
                SchemaPart::Type(ty) => writer.ty(ty),
            }
            at += 1;
        }
        writer.bytes
    }

    const fn byte(&mut self, byte: u8) {
        if self.bytes < self.out.len() {
            self.out[self.bytes] = byte;
        }
        self.bytes += 1;
    }

    const fn text(&mut self, text: &str) {
        let mut at = 0;
        while at < text.len() {
            self.byte(text.as_bytes()[at]);
            at += 1;
        }
    }

    const fn number(&mut self, number: i128) {
        if number < 0 {
            self.byte(b'-');
        }
        let number = number.unsigned_abs();
        let mut unit = 1;
        while number / unit >= 10 {
            unit *= 10;
        }
        while unit > 0 {
            self.byte(b'0' + (number / unit % 10) as u8);
            unit /= 10;
        }
    }

    const fn within(&mut self, open: &str, inner: &ColumnType) {
        self.text(open);
        self.ty(inner);
        self.byte(b'>');
    }

    const fn ty(&mut self, ty: &ColumnType) {
        match ty {
            ColumnType::Bytes(bytes) => {
                self.text("[u8;");
                self.number(*bytes as i128);
                self.byte(b']');
            }
            ColumnType::Text(bytes) => {
                self.text("Text<");
                self.number(*bytes as i128);
                self.byte(b'>');
            }
            ColumnType::Option(inner) => self.within("Option<", inner),
            ColumnType::Reverse(inner) => self.within("Reverse<", inner),
            ColumnType::Enum(of) => {
                self.ty(&of.integer);
                let mut at = 0;
                while at < of.variants.len() {
                    let (name, number) = of.variants[at];
                    self.byte(if at == 0 { b'{' } else { b',' });
                    self.text(name);
                    self.byte(b'=');
                    self.number(number);
                    at += 1;
                }
                self.byte(b'}');
            }
            simple => self.text(simple.simple_name()),
        }
    }
}

/// Hands to a macro all types that are one Rust type each, those that can be part of a key before the others: the variant, the name in
/// schemas, and the Rust type. Nowhere else are they listed.
macro_rules! with_simple_types {
    ($callback:ident) => {
        $callback! {
            U8 "u8" u8,
            U16 "u16" u16,
            U32 "u32" u32,
            U64 "u64" u64,
            U128 "u128" u128,
            I8 "i8" i8,
            I16 "i16" i16,
            I32 "i32" i32,
            I64 "i64" i64,
            I128 "i128" i128,
            Bool "bool" bool,
            Duration "Duration" std::time::Duration,
            #[cfg(feature = "jiff")] Timestamp "Timestamp" jiff::Timestamp,
            #[cfg(feature = "jiff")] SignedDuration "SignedDuration" jiff::SignedDuration,
            #[cfg(feature = "jiff")] Date "Date" jiff::civil::Date,
            #[cfg(feature = "jiff")] Time "Time" jiff::civil::Time,
            #[cfg(feature = "jiff")] DateTime "DateTime" jiff::civil::DateTime,
            #[cfg(feature = "uuid")] Uuid "Uuid" uuid::Uuid;
            F32 "f32" f32,
            F64 "f64" f64,
            #[cfg(feature = "rust_decimal")] Decimal "Decimal" rust_decimal::Decimal,
        }
    };
}
pub(crate) use with_simple_types;

macro_rules! simple_names {
    ($($(#[$cfg:meta])? $name:ident $text:literal $t:ty),*; $($(#[$ocfg:meta])? $other:ident $otext:literal $o:ty),* $(,)?) => {
        impl ColumnType {
            /// The types that are named by one word.
            pub(crate) const SIMPLE: &[Self] =
                &[$($(#[$cfg])? Self::$name,)* $($(#[$ocfg])? Self::$other,)* Self::String, Self::ByteString];

            /// The name of a type that is named by one word.
            const fn simple_name(&self) -> &'static str {
                match self {
                    $($(#[$cfg])? Self::$name => $text,)*
                    $($(#[$ocfg])? Self::$other => $otext,)*
                    Self::String => "String",
                    Self::ByteString => "Vec<u8>",
                    Self::Bytes(_) | Self::Text(_) | Self::Enum(_) | Self::Option(_) | Self::Reverse(_) => "",
                }
            }
        }
    };
}
with_simple_types!(simple_names);

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [SchemaPart::Type(*self)];
        let mut text = vec![0; schema_bytes(&parts)];
        Writer::of(&mut text, &parts);
        f.pad(schema_str(&text))
    }
}
