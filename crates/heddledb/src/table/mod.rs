//! Tables: row types with keys, columns, column groups and indexes.
//!
//! A table is a Rust struct with `#[derive(Table)]`. The derive lays the columns out as words,
//! column group by column group, and implements [`Relation`] (what any keyed set of records has)
//! and [`Table`] (what a user's table adds). Each declared secondary index is one more relation,
//! kept by the engine: its key is made of indexed columns, its row is the primary key.
//!
//! **Column groups** are the unit of everything that a concurrency control does: version, lock,
//! validation, copy. Two transactions that touch different groups of a row do not conflict.
//! Existence belongs to all groups: an insert or delete conflicts with every reader of the row.

mod column;
pub mod dynamic;
mod key;
mod scan;
mod text;

pub use column::{Addable, Column, ColumnValue, Columns, GroupSet, Row, Span};
pub use key::{Key, KeyPrefix, KeyReader, KeyWords, KeyWriter, decode_key, encode_key, key_words};
pub use scan::Scan;
pub use text::{Text, TextError};

use crate::error::Result;
use crate::record::{Words, WordsMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A named run of columns with its own concurrency words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name after `#[group(..)]`, or `main`.
    pub name: &'static str,
    /// Its words within the row's data.
    pub span: Span,
}

/// The shape of a relation's rows.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The name in messages and reports.
    pub name: &'static str,
    /// Column groups in order of their words; at least one, at most 16.
    pub groups: &'static [Group],
    /// Words of data in a row.
    pub words: usize,
}

impl Layout {
    /// The set of all groups.
    #[inline(always)]
    pub const fn all_groups(&self) -> GroupSet {
        ((1u32 << self.groups.len()) - 1) as GroupSet
    }
}

/// Which index a relation is reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// B+tree: point access and scans.
    Ordered,
    /// Hash table: point access only, one cache line per look-up.
    Hash,
}

/// A keyed set of records: a table, or a secondary index.
pub trait Relation: Sized + 'static {
    /// The key type.
    type Key: Key;
    /// The words of the encoded key: `[u64; key_words(Key::BYTES)]`.
    type Words: IndexWords;
    /// The shape of the rows.
    const LAYOUT: &'static Layout;
    /// The index.
    const STRUCTURE: Structure;
    /// The definition as text: stored with the rows, and compared when they are read again.
    const SCHEMA: &'static str;
    /// The identity of this relation in this process.
    fn slot() -> &'static Slot;
}

/// Key widths that the indexes are built for: one to eight words.
pub trait IndexWords: KeyWords + sealed::Sealed {
    /// The index over keys of this width.
    #[doc(hidden)]
    type Index: crate::index::AnyIndex<Self>;
    /// A worker's buffer for the leaves of a scan.
    #[doc(hidden)]
    fn leaf(buffers: &mut LeafBuffers) -> &mut Vec<(Self, crate::record::RecordRef)>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! index_widths {
    ($($field:ident $n:literal)*) => {
        /// One buffer per key width, so that scans reuse their memory.
        #[doc(hidden)]
        #[derive(Default)]
        pub struct LeafBuffers {
            $($field: Vec<([u64; $n], crate::record::RecordRef)>,)*
        }

        $(
            impl sealed::Sealed for [u64; $n] {}
            impl IndexWords for [u64; $n] {
                type Index = crate::index::KeyIndex<$n>;
                #[inline(always)]
                fn leaf(buffers: &mut LeafBuffers) -> &mut Vec<(Self, crate::record::RecordRef)> {
                    &mut buffers.$field
                }
            }
        )*
    };
}
index_widths!(one 1 two 2 three 3 four 4 five 5 six 6 seven 7 eight 8);

/// A row type. Implemented by `#[derive(Table)]`.
pub trait Table: Relation + Copy + Send + Sync {
    /// The secondary indexes, a tuple of [`Index`] types.
    type Indexes: IndexSet<Self>;
    /// The columns that any secondary index depends on, one bit each.
    const INDEXED: u64;
    /// The columns that make up the key, one bit each.
    const KEY_COLUMNS: u64;
    /// The names of the columns, by order of declaration.
    const COLUMN_NAMES: &'static [&'static str];
    /// The column group of each column, by order of declaration.
    const COLUMN_GROUPS: &'static [u8];
    /// Rows are only inserted, each under a key of its own: two inserts never conflict for the analysis
    /// of procedures.
    const APPEND_ONLY: bool;
    /// The key of this row.
    fn key(&self) -> Self::Key;
    /// Reads a row; any bits give some row.
    fn load(source: &impl Words) -> Self;
    /// Writes all columns.
    fn store(&self, target: &mut impl WordsMut);
}

/// A secondary index of a table. Declared by `#[table(index(..))]`.
///
/// The relation's rows are primary keys. An index that is not unique has the primary key at the
/// end of its own key, so that equal column values stand apart, in primary-key order.
pub trait Index: Relation {
    /// The table that it belongs to.
    type Table: Table;
    /// The indexed columns' values.
    type Columns: Key;
    /// Whether two rows may not have equal indexed columns.
    const UNIQUE: bool;
    /// The indexed columns, one bit each, by order of declaration in the table.
    const INDEXED: u64;
    /// The index key of a row.
    fn entry(row: &Self::Table) -> Self::Key;
}

/// The secondary indexes of a table.
pub trait IndexSet<T: Table> {
    /// Visits each index.
    fn each<V: IndexVisitor<T>>(visitor: &mut V) -> Result<()>;
}

/// What is done for each secondary index of a table.
pub trait IndexVisitor<T: Table> {
    /// One index.
    fn visit<I: Index<Table = T>>(&mut self) -> Result<()>;
}

macro_rules! index_sets {
    ($($name:ident)*) => {
        impl<T: Table, $($name: Index<Table = T>),*> IndexSet<T> for ($($name,)*) {
            #[inline(always)]
            fn each<V_: IndexVisitor<T>>(visitor: &mut V_) -> Result<()> {
                let _ = visitor;
                $(visitor.visit::<$name>()?;)*
                Ok(())
            }
        }
    };
}
index_sets!();
index_sets!(A);
index_sets!(A B);
index_sets!(A B C);
index_sets!(A B C D);
index_sets!(A B C D E);
index_sets!(A B C D E F);

/// The identity of a relation type in this process: a small number drawn at first use.
///
/// A database finds the storage of `T` by this number, without hashing or names. Process-wide and
/// immutable once drawn, so it uses the standard library's atomics and not the `sync` door.
#[derive(Debug, Default)]
pub struct Slot(OnceLock<u32>);

static SLOTS: AtomicU32 = AtomicU32::new(0);

impl Slot {
    /// A slot without a number yet; one `static` per relation type.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The number.
    #[inline(always)]
    pub(crate) fn number(&self) -> usize {
        // Relaxed: the number is an identity and publishes nothing else.
        *self.0.get_or_init(|| SLOTS.fetch_add(1, Ordering::Relaxed)) as usize
    }
}
