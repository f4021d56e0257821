//! What a declaration comes to: names, places, and the schema texts.

use crate::table::ColumnType;

/// A table that satisfies all rules: everything that tells definitions apart, computed but not leaked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    pub name: String,
    pub schema: String,
    pub hash: bool,
    pub append_only: bool,
    /// In order of declaration.
    pub columns: Vec<PlacedColumn>,
    /// In order of layout; the first is `main`.
    pub groups: Vec<PlacedGroup>,
    /// Ordinals of the columns of the primary key.
    pub key: Vec<usize>,
    pub indexes: Vec<IndexShape>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlacedGroup {
    pub name: String,
    /// One past its last word. It starts where the group before ends.
    pub end: usize,
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
    /// Ordinals of the columns whose values make up an entry's key.
    pub key: Vec<usize>,
}
