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
mod column_type;
mod column_value;
pub mod dynamic;
#[cfg(any(feature = "jiff", feature = "uuid", feature = "rust_decimal"))]
mod foreign;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod key;
mod role;
mod scan;
#[cfg(feature = "serde")]
mod serial;
mod text;
mod up_to;

pub use column::{Addable, Changeable, Column, Columns, GroupSet, OfKey, Plain, Row, Span};
pub use column_type::{
    ColumnType, EnumType, SchemaPart, schema_bytes, schema_str, schema_text, schema_text_in,
};
pub use column_value::ColumnValue;
pub use heddledb_macros::{ColumnValue, Key};
pub use key::{Excess, Key, KeyPrefix, KeyReader, KeyWords, KeyWriter, decode_key, encode_key, key_words};
pub use role::{IndexRole, Role, TableRole, TypedIndex, TypedTable};
pub use scan::{Direction, Page, Scan};
pub use text::{Text, TextError};
pub use up_to::{AnyLength, Exceeds, KeyUpTo, UpTo, check_key};

use crate::error::Result;
pub use crate::log::GROUPS_MAX;
pub use crate::values::{Limit, Logged, Outside, SLOT_BYTES, Slot, VALUE_BYTES_MAX, Values};
pub use crate::words::{Words, WordsCopy, WordsMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A named run of columns with its own concurrency words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name after `#[group(..)]`, or `main`.
    pub name: &'static str,
    /// Its words within the row's data.
    pub span: Span,
    /// Its class in the order in which the items of all tables are queued for, where a protocol does that: first that of the
    /// lowest ([`RANK`]).
    pub rank: u8,
    /// Who is queued for it stays there until its transaction has ended, where a protocol would hand it on before: see
    /// `#[table(held)]`.
    pub held: bool,
}

/// The rank of a column group that was given none, neither by `#[group(name, rank = n)]` nor by `#[table(rank = n)]`.
pub const RANK: u8 = 128;

/// The shape of a relation's rows.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The name in messages and reports.
    pub name: &'static str,
    /// Column groups in order of their words; at least one, at most 16.
    pub groups: &'static [Group],
    /// Words of data in a row.
    pub words: usize,
    /// The first word of each [slot](crate::values::Slot), ascending.
    pub slots: &'static [usize],
}

impl Layout {
    /// The set of all groups.
    #[inline(always)]
    pub const fn all_groups(&self) -> GroupSet {
        (1 << self.groups.len()) - 1
    }

    /// Where the slots of these column groups are, if the words of the groups follow one another, as in a log.
    pub fn logged_slots(&self, groups: GroupSet) -> impl Iterator<Item = usize> + use<'_> {
        let logged = (0..self.groups.len()).filter(move |group| groups & (1 << group) != 0);
        let starts = logged.scan(0, |end, group| {
            let start = *end;
            *end += self.groups[group].span.len();
            Some((group, start))
        });
        starts.flat_map(|(group, start)| {
            let first = self.groups[group].span.start;
            self.slots_of(group).map(move |slot| start + slot - first)
        })
    }

    /// The slots in a column group.
    pub fn slots_of(&self, group: usize) -> impl Iterator<Item = usize> + use<> {
        let span = self.groups[group].span;
        self.slots.iter().copied().filter(move |slot| span.contains(*slot))
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

/// A relation as data: what the engine knows of a table, or of a secondary index.
///
/// A typed relation has one as a `static`; tables that are defined at run time make theirs
/// ([`dynamic`]). The engine knows no other kind of relation.
#[derive(Debug)]
pub struct Definition {
    /// The shape of the rows.
    pub layout: &'static Layout,
    /// The index.
    pub structure: Structure,
    /// The definition as text: stored with the rows, and compared when they are read again.
    pub schema: &'static str,
    /// Words of the encoded key, 1 to 8.
    pub key_words: usize,
    /// Whether it is a table or an index, and what goes with that.
    pub role: Role,
    number: OnceLock<u32>,
}

/// Process-wide, and immutable once drawn, so it uses the standard library's atomics and not the `sync` door.
static NUMBERS: AtomicU32 = AtomicU32::new(0);

impl Definition {
    /// Most words that an encoded key may have.
    pub const KEY_WORDS_MAX: usize = 8;

    /// A relation without a number yet.
    pub const fn new(
        layout: &'static Layout,
        structure: Structure,
        schema: &'static str,
        key_words: usize,
        role: Role,
    ) -> Self {
        Self { layout, structure, schema, key_words, role, number: OnceLock::new() }
    }

    /// The relation's number in this process, drawn at first use. A database finds the storage of a
    /// relation by it, without hashing or names.
    #[inline(always)]
    pub fn number(&self) -> usize {
        // Relaxed: the number is an identity and publishes nothing else.
        *self.number.get_or_init(|| NUMBERS.fetch_add(1, Ordering::Relaxed)) as usize
    }

    /// The name in messages and reports.
    #[inline(always)]
    pub fn name(&self) -> &'static str {
        self.layout.name
    }
}

/// A keyed set of records whose rows and keys have Rust types: a table, or a secondary index.
pub trait Relation: Sized + 'static {
    /// The table whose rows it leads to: itself, or that of the index.
    type Table: Table;
    /// Whether its own rows are entries of an index, each of which leads to a row of the table.
    const ENTRIES: bool;
    /// The key type.
    type Key: Key;
    /// The words of the encoded key: `[u64; key_words(Key::BYTES)]`.
    type Words: IndexWords;
    /// What is noted of a key with a part that is too long: nothing, where no part can be.
    type Exceeds: Exceeds;
    /// Which parts of the key are of any length, and how much of each it has room for.
    const KEY_LIMITS: &'static [Limit];
    /// The shape of the rows.
    const LAYOUT: &'static Layout;
    /// The index.
    const STRUCTURE: Structure;
    /// The definition as text: stored with the rows, and compared when they are read again.
    const SCHEMA: &'static str;
    /// The relation as data; the same reference at every call.
    fn definition() -> &'static Definition;
}

/// Key widths that the indexes are built for: one to eight words.
#[diagnostic::on_unimplemented(
    message = "a key has at most 8 words, 64 bytes, and this one has more: `{Self}`",
    label = "too long a key",
    note = "shorten its texts or state less as their `max`, which takes a byte more; the key of an index that is not unique has the primary key at its end"
)]
pub trait IndexWords: KeyWords + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! index_widths {
    ($($n:literal)*) => {$(
        impl sealed::Sealed for [u64; $n] {}
        impl IndexWords for [u64; $n] {}
    )*};
}
index_widths!(1 2 3 4 5 6 7 8);

/// The most bytes of a row that is a Rust value: several of them may be on a stack at once. Rows of tables that are defined
/// at run time may be longer.
pub const ROW_BYTES_MAX: usize = 1 << 16;

/// A row type. Implemented by `#[derive(Table)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no row of a table",
    label = "this is no row type",
    note = "derive it: `#[derive(Table, Clone)]` on a struct with a `#[key]`; rows of values by name are had from `Txn::rows`"
)]
pub trait Table: Relation<Table = Self> + Clone + Send + Sync {
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
    /// The limits of the key, and of all indexes.
    const LIMITS: &'static [Limit];
    /// The key of this row.
    fn key(&self) -> Self::Key;
    /// Reads a row; any bits give some row.
    fn load(source: &impl Words) -> Self;
    /// Writes all columns. Long values that are not there already are put where the target keeps them.
    fn store(&self, target: &mut impl WordsMut);
}

/// A secondary index of a table. Declared by `#[table(index(..))]`.
///
/// The relation's rows are primary keys. An index that is not unique has the primary key at the
/// end of its own key, so that equal column values stand apart, in primary-key order.
pub trait Index: Relation {
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
