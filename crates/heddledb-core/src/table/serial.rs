//! Rows of tables that are defined at run time, for serde.

use super::dynamic::{RowValues, Value};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_none(),
            Self::U8(value) => value.serialize(serializer),
            Self::U16(value) => value.serialize(serializer),
            Self::U32(value) => value.serialize(serializer),
            Self::U64(value) => value.serialize(serializer),
            Self::I8(value) => value.serialize(serializer),
            Self::I16(value) => value.serialize(serializer),
            Self::I32(value) => value.serialize(serializer),
            Self::I64(value) => value.serialize(serializer),
            Self::U128(value) => value.serialize(serializer),
            Self::I128(value) => value.serialize(serializer),
            Self::Bool(value) => value.serialize(serializer),
            Self::F32(value) => value.serialize(serializer),
            Self::F64(value) => value.serialize(serializer),
            Self::Bytes(value) => serializer.serialize_bytes(value),
            Self::Text(value) => value.serialize(serializer),
            Self::Duration(value) => value.serialize(serializer),
            #[cfg(feature = "jiff")]
            Self::Timestamp(value) => value.serialize(serializer),
            #[cfg(feature = "jiff")]
            Self::SignedDuration(value) => value.serialize(serializer),
            #[cfg(feature = "jiff")]
            Self::Date(value) => value.serialize(serializer),
            #[cfg(feature = "jiff")]
            Self::Time(value) => value.serialize(serializer),
            #[cfg(feature = "jiff")]
            Self::DateTime(value) => value.serialize(serializer),
            #[cfg(feature = "uuid")]
            Self::Uuid(value) => value.serialize(serializer),
            #[cfg(feature = "rust_decimal")]
            Self::Decimal(value) => Serialize::serialize(value, serializer),
        }
    }
}

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
