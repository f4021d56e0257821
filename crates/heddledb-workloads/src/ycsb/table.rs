//! The table of YCSB, in three shapes.
//!
//! Ten columns in one column group, so that a row has one version, as in the systems that it is
//! compared with. An access copies the one column that it names.
//!
//! A column begins with a `u64`: how often it was incremented, or the tag of its last overwriting
//! transaction. What follows is, as loaded, a hash of key and column, and after an overwrite the
//! tag again and again; so a check can tell a torn or misplaced write.
#![allow(missing_docs, reason = "ten columns alike")]

use crate::random::mix;
use heddledb::table::ColumnValue;
use heddledb::{Column, Table};

/// Columns of a row.
pub const FIELDS: usize = 10;

/// A shape of the table.
pub trait Fields: Table<Key = u64> {
    /// A column's type: an array of bytes.
    type Field: ColumnValue + AsRef<[u8]> + AsMut<[u8]>;
    /// A column of zeros.
    const ZERO: Self::Field;
    /// The columns.
    const FIELDS: [Column<Self, Self::Field>; FIELDS];
    /// A row.
    fn new(key: u64, fields: [Self::Field; FIELDS]) -> Self;
    /// The values of the columns.
    fn values(&self) -> [Self::Field; FIELDS];
}

macro_rules! shapes {
    ($($(#[$attribute:meta])* $name:ident $bytes:literal;)*) => {$(
        #[derive(Table, Clone, Copy, Debug, PartialEq)]
        $(#[$attribute])*
        #[table(name = "usertable")]
        pub struct $name {
            #[key]
            pub key: u64,
            pub field0: [u8; $bytes],
            pub field1: [u8; $bytes],
            pub field2: [u8; $bytes],
            pub field3: [u8; $bytes],
            pub field4: [u8; $bytes],
            pub field5: [u8; $bytes],
            pub field6: [u8; $bytes],
            pub field7: [u8; $bytes],
            pub field8: [u8; $bytes],
            pub field9: [u8; $bytes],
        }

        impl Fields for $name {
            type Field = [u8; $bytes];
            const ZERO: Self::Field = [0; $bytes];
            const FIELDS: [Column<Self, Self::Field>; FIELDS] = [
                Self::field0, Self::field1, Self::field2, Self::field3, Self::field4,
                Self::field5, Self::field6, Self::field7, Self::field8, Self::field9,
            ];
            fn new(key: u64, fields: [Self::Field; FIELDS]) -> Self {
                let [field0, field1, field2, field3, field4, field5, field6, field7, field8, field9] = fields;
                Self { key, field0, field1, field2, field3, field4, field5, field6, field7, field8, field9 }
            }
            fn values(&self) -> [Self::Field; FIELDS] {
                [
                    self.field0, self.field1, self.field2, self.field3, self.field4,
                    self.field5, self.field6, self.field7, self.field8, self.field9,
                ]
            }
        }
    )*};
}

shapes! {
    /// 10 x 100 bytes behind a hash index: the standard.
    #[table(hash)]
    Wide 100;
    /// 10 x 10 bytes behind a hash index: the row of DBx1000.
    #[table(hash)]
    Narrow 10;
    /// 10 x 100 bytes behind an ordered index, for scans.
    WideOrdered 100;
}

/// The number that a column begins with.
pub(super) fn counter(field: &impl AsRef<[u8]>) -> u64 {
    field.as_ref().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Sets the number that a column begins with.
pub(super) fn set_counter(field: &mut impl AsMut<[u8]>, value: u64) {
    if let Some(bytes) = field.as_mut().first_chunk_mut() {
        *bytes = value.to_le_bytes();
    }
}

/// Column `column` of row `key` as loaded: the number 0, then a hash.
pub(super) fn loaded<R: Fields>(key: u64, column: usize) -> R::Field {
    let mut field = R::ZERO;
    let mut word = mix(key.wrapping_mul(FIELDS as u64) + column as u64);
    for chunk in field.as_mut()[8..].chunks_mut(8) {
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        word = mix(word);
    }
    field
}

/// A column as overwritten by the transaction with `tag`.
pub(super) fn tagged<R: Fields>(tag: u64) -> R::Field {
    let mut field = R::ZERO;
    for chunk in field.as_mut().chunks_mut(8) {
        chunk.copy_from_slice(&tag.to_le_bytes()[..chunk.len()]);
    }
    field
}

/// A row as loaded.
pub(super) fn loaded_row<R: Fields>(key: u64) -> R {
    R::new(key, std::array::from_fn(|column| loaded::<R>(key, column)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_leave_the_rest_alone() {
        let mut field = loaded::<Wide>(7, 3);
        assert_eq!(counter(&field), 0);
        set_counter(&mut field, 5);
        assert_eq!(counter(&field), 5);
        assert_eq!(field[8..], loaded::<Wide>(7, 3)[8..]);
        assert_ne!(loaded::<Wide>(7, 3), loaded::<Wide>(7, 4));
        let narrow = tagged::<Narrow>(u64::MAX - 1);
        assert_eq!(narrow, [254, 255, 255, 255, 255, 255, 255, 255, 254, 255]);
    }
}
