//! Relations as data: tables that are defined at run time, and rows of values.
//!
//! What `#[derive(Table)]` computes when a program is compiled is computed here from a declaration that is
//! made while it runs: the layout, the encodings of keys, the schema text, and the relations of the indexes.
//! A declaration gives the same either way, byte for byte, so the storage cannot tell the two apart.
//!
//! ```text
//!   TableBuilder --checks, places--> Shape --interns--> &'static TableDefinition
//!                                                        |- RelationDefinition    keys, and a `Definition`
//!                                                        |- ColumnDefinition..    type, group, offset
//!                                                        '- IndexDefinition..     a RelationDefinition each
//!   Value.. <--encode, decode: by ColumnType--> words of a row, words of a key
//! ```
//!
//! | derived | here |
//! |---|---|
//! | `V: ColumnValue`, `V: Key` | [`ColumnType`], and [`Value`] for what is of it |
//! | `Column<T, V>` | [`ColumnDefinition`] |
//! | `T: Relation` | [`RelationDefinition`], with [`EncodedKey`] for `T::Words` |
//! | `T: Table`, `I: Index` | [`TableDefinition`], [`IndexDefinition`] |
//! | a value of `T` | [`RowValues`], or a slice of values |
//!
//! A column type of a program's own is here what it is stored as: an enum is a text, one of a few, and a struct around a
//! number is the number.

mod builder;
mod coding;
mod definition;
mod key;
mod parse;
mod relation;
mod role;
mod row;
mod schema;
mod shape;
#[cfg(test)]
mod tests;
mod value;

pub use super::column_type::{ColumnType, EnumType};
pub use builder::{IndexColumn, TableBuilder};
pub use definition::{IndexDefinition, TableDefinition};
pub use key::EncodedKey;
pub use relation::{ColumnDefinition, RelationDefinition};
pub use row::RowValues;
pub use schema::{is_same_or_widened, of_shape};
pub use value::{Value, WrongType};
