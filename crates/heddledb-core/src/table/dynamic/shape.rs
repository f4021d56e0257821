//! What a declaration comes to: names, places, and the schema texts.

use crate::table::ColumnType;

/// A table that satisfies all rules: everything that tells definitions apart, computed but not leaked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    pub name: String,
    pub schema: String,
    pub hash: bool,
    pub append_only: bool,
    pub held: bool,
    /// In order of declaration.
    pub columns: Vec<PlacedColumn>,
    /// In order of layout; the first is `main`.
    pub groups: Vec<PlacedGroup>,
    /// The parts of the primary key.
    pub key: Vec<KeyPart>,
    pub indexes: Vec<IndexShape>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlacedGroup {
    pub name: String,
    /// One past its last word. It starts where the group before ends.
    pub end: usize,
    pub rank: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlacedColumn {
    pub name: String,
    pub ty: ColumnType,
    pub group: usize,
    /// In bytes, from the start of the row.
    pub offset: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IndexShape {
    pub name: String,
    pub schema: String,
    pub unique: bool,
    /// How many columns are indexed: the first parts of `key`.
    pub columns: usize,
    /// The parts of an entry's key.
    pub key: Vec<KeyPart>,
}

/// A part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyPart {
    /// The ordinal of the column.
    pub ordinal: usize,
    /// How many bytes of a value of any length there is room for; 0 for other columns.
    pub max: usize,
}
