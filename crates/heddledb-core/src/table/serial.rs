//! Rows of tables that are defined at run time, for serde.

use super::column_type::with_simple_types;
use super::dynamic::{RowValues, Value};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

macro_rules! serialized_types {
    ($($(#[$cfg:meta])? $name:ident $text:literal $t:ty),*; $($(#[$ocfg:meta])? $other:ident $otext:literal $o:ty),* $(,)?) => {
        impl Serialize for Value {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    Self::Null => serializer.serialize_none(),
                    $($(#[$cfg])? Self::$name(value) => Serialize::serialize(value, serializer),)*
                    $($(#[$ocfg])? Self::$other(value) => Serialize::serialize(value, serializer),)*
                    Self::Bytes(value) => serializer.serialize_bytes(value),
                    Self::Text(value) => value.serialize(serializer),
                }
            }
        }
    };
}
with_simple_types!(serialized_types);

/// A map from the names of the columns to their values, by order of declaration.
impl Serialize for RowValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns = self.table().columns();
        let mut map = serializer.serialize_map(Some(columns.len()))?;
        for (column, value) in columns.iter().zip(self.values()) {
            map.serialize_entry(column.name(), value)?;
        }
        map.end()
    }
}
