//! From text to values: what [`Value`] displays, read back.

use super::value::{NANOSECOND_DIGITS, Value, WrongType};
use crate::table::ColumnType;
use crate::table::column_type::with_simple_types;
use crate::table::text::check_text;
use crate::values::VALUE_BYTES_MAX;
use std::str::FromStr;
use std::time::Duration;

/// Reads a value as its type does; a duration of the standard library has no way of its own.
macro_rules! read {
    (Duration $t:ty, $text:ident) => {
        duration($text)
    };
    ($name:ident $t:ty, $text:ident) => {
        <$t>::from_str($text).ok()
    };
}

macro_rules! parsed_types {
    ($($(#[$cfg:meta])? $name:ident $text:literal $t:ty),*; $($(#[$ocfg:meta])? $other:ident $otext:literal $o:ty),* $(,)?) => {
        impl ColumnType {
            /// Reads a value of this type as [`Value`] displays it: `null`, bytes as `0x00ff`, a duration of the standard library
            /// as `1.5s`, an enum by its name, all else as its Rust type is read.
            ///
            /// # Errors
            /// [`WrongType`] where the text is no value of this type, or too long for it.
            ///
            /// ```
            /// use heddledb::table::dynamic::{ColumnType, Value};
            ///
            /// assert_eq!(ColumnType::I64.optional().parse("-5")?, Value::I64(-5));
            /// assert_eq!(ColumnType::Bytes(2).parse("0x00ff")?, Value::Bytes(vec![0, 255]));
            /// let error = ColumnType::U8.parse("256").unwrap_err();
            /// assert_eq!(error.to_string(), r#"expected u8, given "256" (text of 3 bytes)"#);
            /// # Ok::<(), heddledb::table::dynamic::WrongType>(())
            /// ```
            pub fn parse(&self, text: &str) -> Result<Value, WrongType> {
                let value = match self {
                    $($(#[$cfg])? Self::$name => read!($name $t, text).map(Value::$name),)*
                    $($(#[$ocfg])? Self::$other => read!($other $o, text).map(Value::$other),)*
                    Self::Bytes(bytes) => {
                        hexadecimal(text).filter(|found| found.len() == *bytes).map(Value::Bytes)
                    }
                    Self::String => (text.len() <= VALUE_BYTES_MAX).then(|| text.into()),
                    Self::ByteString => hexadecimal(text).filter(|found| found.len() <= VALUE_BYTES_MAX).map(Value::Bytes),
                    Self::Text(bytes) => check_text(text, *bytes).ok().map(|()| text.into()),
                    Self::Enum(of) => of.number(text).map(|_| text.into()),
                    Self::Option(_) if text == "null" => Some(Value::Null),
                    Self::Option(inner) | Self::Reverse(inner) => inner.parse(text).ok(),
                };
                value.ok_or_else(|| WrongType { expected: self.to_string(), given: Value::from(text).described() })
            }
        }
    };
}
with_simple_types!(parsed_types);

/// As values show them: whole seconds, and up to nine decimal places.
fn duration(text: &str) -> Option<Duration> {
    let text = text.strip_suffix('s')?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) || fraction.len() > NANOSECOND_DIGITS {
        return None;
    }
    let nanoseconds = format!("{fraction:0<NANOSECOND_DIGITS$}").parse().ok()?;
    Some(Duration::new(seconds.parse().ok()?, nanoseconds))
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    let digit = |byte: &u8| (*byte as char).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect()
}
