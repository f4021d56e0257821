//! A table that is defined at run time, interned for the life of the process.

use super::key::EncodedKey;
use super::relation::{ColumnDefinition, RelationDefinition, check_count, names};
use super::role::{EntriesRole, RowsRole};
use super::shape::{IndexShape, KeyPart, PlacedColumn, PlacedGroup, Shape};
use super::value::Value;
use crate::error::{Misuse, Result};
use crate::table::key::key_words;
use crate::table::{Definition, Group, Layout, RANK, Role, Span, Structure};
use crate::values::Limit;
use crate::words::{Words, WordsMut};
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A table as data: what `#[derive(Table)]` makes of a struct, made at run time.
///
/// A declaration gives the same layout, encodings, schema text and index relations either way, so rows that
/// were written by way of one are read by way of the other:
///
/// ```
/// use heddledb::table::dynamic::{ColumnType, TableDefinition, Value};
/// use heddledb::table::Relation;
/// use heddledb::{Table, Text};
///
/// #[derive(Table, Clone, Copy)]
/// #[table(index(ByOwner(owner)))]
/// struct Account {
///     #[key]
///     id: u64,
///     owner: Text<24>,
///     #[group(money)]
///     balance: i64,
/// }
///
/// let account = TableDefinition::builder("account")
///     .key("id", ColumnType::U64)
///     .column("owner", ColumnType::Text(24))
///     .column("balance", ColumnType::I64)
///     .group("money")
///     .index("ByOwner", ["owner"])
///     .build()?;
/// assert_eq!(account.relation().schema(), Account::SCHEMA);
/// assert_eq!(account.relation().layout(), Account::LAYOUT);
///
/// let row = account.row([Value::from(7u64), "ada".into(), 100i64.into()])?;
/// assert_eq!(row["owner"], "ada".into());
/// assert_eq!(row.get::<i64>("balance")?, 100);
/// assert_eq!(row.key()?.words(), [7]);
/// let (low, high) = account.index("ByOwner").unwrap().relation().prefix(&["ada".into()])?;
/// assert!((low..=high).contains(&account.indexes()[0].entry(row.values())?));
/// # Ok::<(), heddledb::Error>(())
/// ```
///
/// **Lifetime.** The engine keeps layouts for as long as the process lives, so a definition is leaked once.
/// It is interned by all that it says: to define a table again, in another database too, gives the same
/// reference and leaks nothing. A process that goes on inventing tables keeps them all.
#[derive(Debug)]
pub struct TableDefinition {
    relation: RelationDefinition,
    columns: Vec<ColumnDefinition>,
    column_names: &'static [&'static str],
    column_groups: &'static [u8],
    key_columns: u64,
    append_only: bool,
    indexes: Vec<IndexDefinition>,
}

/// A secondary index of a table that is defined at run time: a relation whose rows are primary keys.
#[derive(Debug)]
pub struct IndexDefinition {
    relation: RelationDefinition,
    name: &'static str,
    unique: bool,
    /// How many columns are indexed: the first parts of the key.
    columns: usize,
}

/// All definitions of the process. Not behind the `sync` door, like the numbers of relations: nothing that is ordered by
/// it is ever changed.
static DEFINITIONS: Mutex<BTreeMap<Shape, &'static TableDefinition>> = Mutex::new(BTreeMap::new());

impl TableDefinition {
    /// The definition of this shape, made now if it is the first.
    pub(super) fn interned(shape: Shape) -> &'static Self {
        // Nothing is left half done by a panic in here: the map changes in the last step.
        let mut definitions = DEFINITIONS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = definitions.get(&shape) {
            return known;
        }
        let definition = Box::leak(Box::new(Self::leaked(&shape)));
        definitions.insert(shape, definition);
        definition
    }

    fn leaked(shape: &Shape) -> Self {
        let table = leaked(&shape.name);
        let define = |(ordinal, column): (usize, &PlacedColumn)| {
            let PlacedColumn { name, ty, group, offset } = column.clone();
            ColumnDefinition { table, name: name.leak(), ty, group, ordinal, offset, max: 0 }
        };
        let columns: Vec<ColumnDefinition> = shape.columns.iter().enumerate().map(define).collect();
        let parts = |parts: &[KeyPart]| -> Vec<ColumnDefinition> {
            let part = |part: &KeyPart| ColumnDefinition { max: part.max, ..columns[part.ordinal].clone() };
            parts.iter().map(part).collect()
        };
        let starts = std::iter::once(0).chain(shape.groups.iter().map(|group| group.end));
        let group = |(start, group): (usize, &PlacedGroup)| Group {
            name: leaked(&group.name),
            span: Span { start, end: group.end },
            rank: group.rank,
            held: shape.held,
        };
        let groups: Vec<Group> = starts.zip(&shape.groups).map(group).collect();
        let structure = if shape.hash { Structure::Hash } else { Structure::Ordered };
        let role: &'static RowsRole =
            Box::leak(Box::new(RowsRole { key: parts(&shape.key), indexes: OnceLock::new() }));
        let key = parts(&shape.key);
        let slots = columns.iter().filter(|column| column.ty.has_slot()).map(|column| column.offset / 8);
        let mut slots: Vec<usize> = slots.collect();
        slots.sort_unstable();
        let rows = (groups, slots);
        let relation = relation(table, rows, structure, &shape.schema, key, Role::Table(role));
        let index = |index: &IndexShape| {
            // The row of an index is the encoded primary key.
            let span = Span { start: 0, end: relation.key_words() };
            let row = Group { name: "main", span, rank: RANK, held: false };
            let name = format!("{table}.{}", index.name).leak();
            let (table_definition, unique, key) = (relation.definition, index.unique, parts(&index.key));
            let role: &'static EntriesRole = Box::leak(Box::new(EntriesRole {
                table: table_definition,
                unique,
                limits: limits(name, &key),
                key: key.clone(),
            }));
            let schema = &index.schema;
            IndexDefinition {
                relation: self::relation(
                    name,
                    (vec![row], Vec::new()),
                    Structure::Ordered,
                    schema,
                    key,
                    Role::Index(role),
                ),
                name: &name[table.len() + 1..],
                unique: index.unique,
                columns: index.columns,
            }
        };
        let indexes: Vec<IndexDefinition> = shape.indexes.iter().map(index).collect();
        // Nobody else has the table yet.
        let _ = role.indexes.set(indexes.iter().map(|index| index.relation.definition).collect());
        Self {
            indexes,
            column_names: columns.iter().map(|column| column.name).collect::<Vec<_>>().leak(),
            column_groups: columns.iter().map(|column| column.group as u8).collect::<Vec<_>>().leak(),
            key_columns: mask(&relation.key),
            append_only: shape.append_only,
            relation,
            columns,
        }
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.relation.name()
    }

    /// The relation of the rows: layout, schema, keys and bounds of scans.
    pub fn relation(&self) -> &RelationDefinition {
        &self.relation
    }

    /// The columns, by order of declaration.
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    /// The column with this name.
    ///
    /// # Errors
    /// [`Misuse::NoColumn`].
    pub fn column(&self, name: &str) -> Result<&ColumnDefinition> {
        let found = self.columns.iter().find(|column| column.name() == name);
        found.ok_or_else(|| {
            let (column, columns) = (name.to_owned(), names(&self.columns));
            Misuse::NoColumn { table: self.name(), column, columns }.into()
        })
    }

    /// The names of the columns, by order of declaration.
    pub fn column_names(&self) -> &'static [&'static str] {
        self.column_names
    }

    /// The column group of each column, by order of declaration.
    pub fn column_groups(&self) -> &'static [u8] {
        self.column_groups
    }

    /// The columns that make up the key, one bit each.
    pub fn key_columns(&self) -> u64 {
        self.key_columns
    }

    /// The columns that any secondary index depends on, one bit each.
    pub fn indexed(&self) -> u64 {
        self.indexes.iter().fold(0, |columns, index| columns | index.indexed())
    }

    /// Whether rows are only inserted, each under a key of its own.
    pub fn is_append_only(&self) -> bool {
        self.append_only
    }

    /// The secondary indexes, by order of declaration.
    pub fn indexes(&self) -> &[IndexDefinition] {
        &self.indexes
    }

    /// The secondary index with this name.
    pub fn index(&self, name: &str) -> Option<&IndexDefinition> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// Writes all columns of a row into words of the table's layout. Bytes between columns stay as they are.
    ///
    /// # Errors
    /// [`Misuse::WrongCount`] and [`Misuse::WrongValue`]; after the latter, the columns before the wrong one
    /// are written.
    pub fn encode_row(&self, values: &[Value], target: &mut impl WordsMut) -> Result<()> {
        check_count(self.name(), "row", &self.columns, values)?;
        self.columns.iter().zip(values).try_for_each(|(column, value)| column.store(value, target))
    }

    /// Reads all columns of a row; any bits give some row.
    pub fn decode_row(&self, source: &impl Words) -> Vec<Value> {
        self.columns.iter().map(|column| column.load(source)).collect()
    }

    /// Encodes a primary key; see [`RelationDefinition::encode_key`].
    ///
    /// # Errors
    /// As there.
    pub fn encode_key(&self, values: &[Value]) -> Result<EncodedKey> {
        self.relation.encode_key(values)
    }

    /// Decodes a primary key; see [`RelationDefinition::decode_key`].
    ///
    /// # Panics
    /// As there.
    pub fn decode_key(&self, words: &[u64]) -> Vec<Value> {
        self.relation.decode_key(words)
    }
}

impl IndexDefinition {
    /// The name, without the table's.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The relation of the entries, whose key is the indexed columns and, if it is not unique, those parts of
    /// the primary key that are not among them.
    pub fn relation(&self) -> &RelationDefinition {
        &self.relation
    }

    /// Whether two rows may not have equal indexed columns.
    pub fn is_unique(&self) -> bool {
        self.unique
    }

    /// The indexed columns, in their order.
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.relation.key[..self.columns]
    }

    /// The indexed columns, one bit each, by order of declaration in the table.
    pub fn indexed(&self) -> u64 {
        mask(self.columns())
    }

    /// The index key of a row that is given as the values of all columns; see [`RelationDefinition::key_of`].
    ///
    /// # Errors
    /// As there.
    pub fn entry(&self, row: &[Value]) -> Result<EncodedKey> {
        self.relation.key_of(row)
    }

    /// The index key of a row that is given as its words; see [`RelationDefinition::key_in`].
    pub fn entry_in(&self, row: &impl Words) -> EncodedKey {
        self.relation.key_in(row)
    }
}

fn relation(
    name: &'static str,
    (groups, slots): (Vec<Group>, Vec<usize>),
    structure: Structure,
    schema: &str,
    key: Vec<ColumnDefinition>,
    role: Role,
) -> RelationDefinition {
    let words = groups.last().map_or(0, |group| group.span.end);
    let layout = Box::leak(Box::new(Layout { name, groups: groups.leak(), words, slots: slots.leak() }));
    let key_bytes = key.iter().map(|column| column.key_bytes()).sum();
    assert!((1..=8).contains(&key_words(key_bytes)), "the builder has checked the key");
    let definition = Definition::new(layout, structure, leaked(schema), key_words(key_bytes), role);
    let limits = limits(name, &key);
    RelationDefinition { definition: Box::leak(Box::new(definition)), key, key_bytes, limits }
}

/// The limits of the parts of a key that are of any length.
fn limits(relation: &'static str, key: &[ColumnDefinition]) -> Vec<Limit> {
    key.iter().enumerate().filter_map(|(part, column)| column.limit(relation, part)).collect()
}

fn mask(columns: &[ColumnDefinition]) -> u64 {
    columns.iter().fold(0, |mask, column| mask | 1 << column.ordinal)
}

fn leaked(text: &str) -> &'static str {
    text.to_owned().leak()
}
