//! Values by the types of their columns: the `ColumnValue` and `Key` implementations, chosen by a match.
//!
//! Each method here is the run-time twin of a function of those traits, and calls it: nothing is encoded a second way.
//! Only for [`ColumnType::Bytes`] and [`ColumnType::Text`], whose length is a constant parameter of the Rust types, it
//! calls the slice functions that their implementations call too.

use super::value::Value;
use crate::table::column_type::with_simple_types;
use crate::table::column_value::{load_bytes, store_bytes, store_zeros};
use crate::table::key::{Key, KeyReader, KeyWriter, read_reversed, write_reversed};
use crate::table::text::{before_padding, check_text, valid_part};
use crate::table::up_to::{read_value, write_value};
use crate::table::{ColumnType, ColumnValue, EnumType};
use crate::values::{VALUE_BYTES_MAX, store_value};
use crate::words::{Words, WordsMut};

/// A value that its column's type does not have.
#[derive(Debug)]
pub(super) struct Unfit;

/// Types that are a Rust type each; first those that can be part of a key.
macro_rules! coded_types {
    ($($(#[$cfg:meta])? $name:ident $text:literal $t:ty),*; $($(#[$ocfg:meta])? $other:ident $otext:literal $o:ty),* $(,)?) => {
        impl ColumnType {
            /// [`ColumnValue::load`]; any bits give some value.
            pub(super) fn load(&self, source: &impl Words, offset: usize) -> Value {
                match self {
                    $($(#[$cfg])? Self::$name => Value::$name(<$t as ColumnValue>::load(source, offset)),)*
                    $($(#[$ocfg])? Self::$other => Value::$other(<$o as ColumnValue>::load(source, offset)),)*
                    Self::Bytes(bytes) => Value::Bytes(loaded(source, offset, *bytes)),
                    Self::String => Value::Text(ColumnValue::load(source, offset)),
                    Self::ByteString => Value::Bytes(ColumnValue::load(source, offset)),
                    Self::Text(bytes) => text(&loaded(source, offset, *bytes)),
                    Self::Option(inner) => match bool::load(source, offset + inner.bytes()) {
                        true => inner.load(source, offset),
                        false => Value::Null,
                    },
                    Self::Reverse(inner) => inner.load(source, offset),
                    Self::Enum(of) => named(of, &of.integer().load(source, offset)),
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
                    $($(#[$cfg])? (Self::$name, Value::$name(value)) => value.store(target, offset),)*
                    $($(#[$ocfg])? (Self::$other, Value::$other(value)) => value.store(target, offset),)*
                    (Self::Bytes(bytes), Value::Bytes(value)) if value.len() == *bytes => {
                        store_bytes(target, offset, value);
                    }
                    (Self::Text(bytes), Value::Text(value)) if check_text(value, *bytes).is_ok() => {
                        store_zeros(target, offset, *bytes);
                        store_bytes(target, offset, value.as_bytes());
                    }
                    (Self::String, Value::Text(value)) if value.len() <= VALUE_BYTES_MAX => {
                        store_value(value.as_bytes(), target, offset);
                    }
                    (Self::ByteString, Value::Bytes(value)) if value.len() <= VALUE_BYTES_MAX => {
                        store_value(value, target, offset);
                    }
                    (Self::Option(inner), Value::Null) => {
                        store_zeros(target, offset, inner.bytes());
                        false.store(target, offset + inner.bytes());
                    }
                    (Self::Option(inner), value) => {
                        inner.store(value, target, offset)?;
                        true.store(target, offset + inner.bytes());
                    }
                    (Self::Reverse(inner), value) => inner.store(value, target, offset)?,
                    (Self::Enum(of), Value::Text(name)) => of.integer().store(&numbered(of, name)?, target, offset)?,
                    _ => return Err(Unfit),
                }
                Ok(())
            }

            /// [`Key::write`], if the column can hold `value`; of one of any length as much as `max` says.
            pub(super) fn write_key(&self, value: &Value, max: usize, out: &mut KeyWriter<'_>) -> Result<(), Unfit> {
                match (self, value) {
                    $($(#[$cfg])? (Self::$name, Value::$name(value)) => value.write(out),)*
                    (Self::Bytes(bytes), Value::Bytes(value)) if value.len() == *bytes => {
                        value.iter().for_each(|byte| byte.write(out));
                    }
                    (Self::Text(bytes), Value::Text(value)) if check_text(value, *bytes).is_ok() => {
                        let padding = std::iter::repeat_n(0, bytes - value.len());
                        value.bytes().chain(padding).for_each(|byte| byte.write(out));
                    }
                    (Self::Enum(of), Value::Text(name)) => of.integer().write_key(&numbered(of, name)?, max, out)?,
                    (Self::String, Value::Text(value)) => write_value(value.as_bytes(), value.len(), max, out),
                    (Self::ByteString, Value::Bytes(value)) => write_value(value, value.len(), max, out),
                    (Self::Option(inner), Value::Null) => {
                        false.write(out);
                        out.push_zeros(inner.key_bytes(max));
                    }
                    (Self::Option(inner), value) => {
                        true.write(out);
                        inner.write_key(value, max, out)?;
                    }
                    (Self::Reverse(inner), value) => {
                        let mut fits = Ok(());
                        write_reversed(out, inner.key_bytes(max), |out| fits = inner.write_key(value, max, out));
                        return fits;
                    }
                    _ => return Err(Unfit),
                }
                Ok(())
            }

            /// [`Key::read`]; of a value of any length as much as `max` says.
            ///
            /// # Panics
            /// For a type that is no key's, which no definition has in a key.
            pub(super) fn read_key(&self, max: usize, input: &mut KeyReader<'_>) -> Value {
                match self {
                    $($(#[$cfg])? Self::$name => Value::$name(<$t as Key>::read(input)),)*
                    Self::Bytes(bytes) => Value::Bytes(pulled(input, *bytes)),
                    Self::Text(bytes) => text(&pulled(input, *bytes)),
                    Self::Enum(of) => named(of, &of.integer().read_key(max, input)),
                    Self::String => Value::Text(valid_part(&pulled_up_to(input, max)).to_owned()),
                    Self::ByteString => Value::Bytes(pulled_up_to(input, max)),
                    Self::Option(inner) if bool::read(input) => inner.read_key(max, input),
                    Self::Option(inner) => {
                        input.skip(inner.key_bytes(max));
                        Value::Null
                    }
                    Self::Reverse(inner) => {
                        read_reversed(input, inner.key_bytes(max), |input| inner.read_key(max, input))
                    }
                    $($(#[$ocfg])? Self::$other => unreachable!("{self} in a key"),)*
                }
            }
        }
    };
}

with_simple_types!(coded_types);

/// The value of an enum that is stored as this integer.
fn named(of: &EnumType, integer: &Value) -> Value {
    Value::Text(of.name(integer.integer().unwrap_or(0)).to_owned())
}

/// The integer that a value of an enum is stored as.
fn numbered(of: &EnumType, name: &str) -> Result<Value, Unfit> {
    let number = of.number(name).ok_or(Unfit)?;
    Value::of_integer(of.integer(), number).ok_or(Unfit)
}

fn loaded(source: &impl Words, offset: usize, bytes: usize) -> Vec<u8> {
    let mut loaded = vec![0; bytes];
    load_bytes(source, offset, &mut loaded);
    loaded
}

fn pulled(input: &mut KeyReader<'_>, bytes: usize) -> Vec<u8> {
    std::iter::repeat_with(|| u8::read(input)).take(bytes).collect()
}

fn pulled_up_to(input: &mut KeyReader<'_>, max: usize) -> Vec<u8> {
    let mut value = vec![0; max];
    let length = read_value(&mut value, input);
    value.truncate(length);
    value
}

fn text(padded: &[u8]) -> Value {
    Value::Text(valid_part(before_padding(padded)).to_owned())
}
