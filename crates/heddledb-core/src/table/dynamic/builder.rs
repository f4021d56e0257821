//! From a declaration to a shape: every rule of `#[derive(Table)]` is checked here, and the layout computed.
//!
//! The rules, the layout and the schema text are those of the derive, which knows them as code that it
//! generates (`heddledb-macros`: `parse`, `expand`). The tests of this room hold the two together.

use super::definition::TableDefinition;
use super::key::WORDS_MAX;
use super::shape::{IndexShape, KeyPart, PlacedColumn, PlacedGroup, Shape};
use crate::error::{Misuse, Result};
use crate::table::column_type::{ROW_WORDS_MAX, is_identifier};
use crate::table::key::key_words;
use crate::table::up_to::UP_TO_MAX;
use crate::table::{ColumnType, GROUPS_MAX, RANK, Structure};

/// Limits that the derive has too: sets of columns and groups are words, keys and index sets are tuples.
const COLUMNS_MAX: usize = 64;
const KEY_PARTS_MAX: usize = 8;
const INDEXES_MAX: usize = 6;
/// A limit that a log has for relations, as for the words of a row.
const NAME_BYTES_MAX: usize = 1 << 10;

/// Declares a table at run time; see [`TableDefinition::builder`].
///
/// Whatever is wrong is reported by [`build`](Self::build).
#[derive(Clone, Debug)]
#[must_use = "nothing is defined before `build`"]
pub struct TableBuilder {
    name: String,
    columns: Vec<Column>,
    structure: Structure,
    append_only: bool,
    held: bool,
    rank: u8,
    /// Groups with a rank of their own.
    ranks: Vec<(String, u8)>,
    indexes: Vec<Index>,
    /// What was wrong with a call of `group`, the first time.
    misplaced: Option<String>,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    ty: ColumnType,
    key: bool,
    /// As a part of the key.
    max: Option<usize>,
    group: Option<String>,
}

#[derive(Clone, Debug)]
struct Index {
    name: String,
    unique: bool,
    columns: Vec<IndexColumn>,
}

/// A column of an index: its name, and how many bytes of a value of any length the index has room for.
///
/// Made of a name, or of a name and a number: `"owner"`, `("owner", 40)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexColumn {
    name: String,
    max: Option<usize>,
}

impl From<&str> for IndexColumn {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), max: None }
    }
}

impl From<String> for IndexColumn {
    fn from(name: String) -> Self {
        Self { name, max: None }
    }
}

impl<N: Into<String>> From<(N, usize)> for IndexColumn {
    fn from((name, max): (N, usize)) -> Self {
        Self { name: name.into(), max: Some(max) }
    }
}

impl TableDefinition {
    /// Begins to declare a table, whose columns are in the order of the calls.
    pub fn builder(name: impl Into<String>) -> TableBuilder {
        TableBuilder::new(name.into())
    }
}

impl TableBuilder {
    fn new(name: String) -> Self {
        Self {
            name,
            columns: Vec::new(),
            structure: Structure::Ordered,
            append_only: false,
            held: false,
            rank: RANK,
            ranks: Vec::new(),
            indexes: Vec::new(),
            misplaced: None,
        }
    }

    /// Declares the next column, which is the key or the next part of it. `#[key]` on a field.
    pub fn key(mut self, name: impl Into<String>, ty: ColumnType) -> Self {
        self.columns.push(Column { name: name.into(), ty, key: true, max: None, group: None });
        self
    }

    /// Declares the next column.
    pub fn column(mut self, name: impl Into<String>, ty: ColumnType) -> Self {
        self.columns.push(Column { name: name.into(), ty, key: false, max: None, group: None });
        self
    }

    /// States how many bytes the part of the key that was declared last may have, which is of any length. `#[key(max = 40)]` on a
    /// field.
    ///
    /// ```
    /// use heddledb::table::dynamic::{ColumnType, TableDefinition};
    ///
    /// let account = TableDefinition::builder("account")
    ///     .key("email", ColumnType::String).max(40)
    ///     .column("city", ColumnType::String.optional())
    ///     .index("ByCity", [("city", 16)])
    ///     .build()?;
    /// assert_eq!(account.relation().schema(), "email: String, city: Option<String>; key email(max=40); ordered");
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn max(mut self, bytes: usize) -> Self {
        let problem = match self.columns.last_mut() {
            Some(column @ Column { key: true, max: None, .. }) => {
                column.max = Some(bytes);
                return self;
            }
            Some(Column { name, key: true, .. }) => {
                format!("column `{name}` has a `max` already; remove one")
            }
            _ => "a `max` is of the part of the key that was declared last; an index has its own, as in \
                  `(\"name\", 40)`"
                .to_owned(),
        };
        self.misplaced.get_or_insert(problem);
        self
    }

    /// Puts the column that was declared last into the column group `name`. `#[group(name)]` on a field.
    /// Columns without a group are in `main`, and key columns always are.
    pub fn group(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        let problem = match self.columns.last_mut() {
            None => format!("group `{name}` has no column; declare the column before its group"),
            Some(Column { name, key: true, .. }) => {
                format!("key column `{name}` is always in group `main`; remove the group")
            }
            Some(Column { name, group: Some(_), .. }) => {
                format!("column `{name}` has a group already; remove one")
            }
            Some(column) => {
                column.group = Some(name);
                return self;
            }
        };
        self.misplaced.get_or_insert(problem);
        self
    }

    /// Reaches the primary key by a hash table: point access only. `#[table(hash)]`.
    pub fn hash(mut self) -> Self {
        self.structure = Structure::Hash;
        self
    }

    /// Promises that rows are only inserted, each under a key of its own. `#[table(append_only)]`.
    pub fn append_only(mut self) -> Self {
        self.append_only = true;
        self
    }

    /// Where the rows are in the order in which transactions queue for rows, under protocols by which they do: 0 comes first, and
    /// without it the rank is 128. `#[table(rank = n)]`.
    pub fn rank(mut self, rank: u8) -> Self {
        self.rank = rank;
        self
    }

    /// A column group's own rank. `#[group(name, rank = n)]` on a field.
    pub fn group_rank(mut self, group: impl Into<String>, rank: u8) -> Self {
        self.ranks.push((group.into(), rank));
        self
    }

    /// A transaction that has queued for a row holds it to its end. `#[table(held)]`.
    pub fn held(mut self) -> Self {
        self.held = true;
        self
    }

    /// Declares a secondary index over columns that several rows may share. `#[table(index(Name(column,
    /// ..)))]`.
    pub fn index<C: Into<IndexColumn>>(
        self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
    ) -> Self {
        self.add_index(name.into(), false, columns)
    }

    /// Declares a secondary index over columns that no two rows may share. `#[table(unique(Name(column,
    /// ..)))]`.
    pub fn unique<C: Into<IndexColumn>>(
        self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
    ) -> Self {
        self.add_index(name.into(), true, columns)
    }

    fn add_index<C: Into<IndexColumn>>(
        mut self,
        name: String,
        unique: bool,
        columns: impl IntoIterator<Item = C>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        self.indexes.push(Index { name, unique, columns });
        self
    }

    /// The definition. It lives as long as the process, and is the one that was made before if this table was
    /// defined before.
    ///
    /// # Errors
    /// [`Misuse::Definition`] with the first rule that the table does not satisfy.
    pub fn build(self) -> Result<&'static TableDefinition> {
        let table = self.name.clone();
        let shape = self.shape().map_err(|why| Misuse::Definition { table, why })?;
        Ok(TableDefinition::interned(shape))
    }

    fn shape(self) -> Result<Shape, String> {
        self.check_names()?;
        if let Some(problem) = self.misplaced {
            return Err(problem);
        }
        let (mut groups, columns) = place(&self.columns)?;
        self.rank_groups(&mut groups)?;
        let mut key = Vec::new();
        for (ordinal, column) in self.columns.iter().enumerate().filter(|(_, column)| column.key) {
            let write = || format!("`.max(40)` behind `.key({:?}, ..)`", column.name);
            key.push(part(ordinal, &columns[ordinal], column.max, "the key", write)?);
        }
        check_key(&columns, &key)?;
        let schema = schema(&groups, &columns, &key, self.structure);
        let mut indexes = Vec::new();
        for index in &self.indexes {
            indexes.push(index.shape(&columns, &key, &schema)?);
        }
        let hash = self.structure == Structure::Hash;
        Ok(Shape {
            name: self.name,
            schema,
            hash,
            append_only: self.append_only,
            held: self.held,
            columns,
            groups,
            key,
            indexes,
        })
    }

    /// The ranks of all groups.
    fn rank_groups(&self, groups: &mut [PlacedGroup]) -> Result<(), String> {
        for group in groups.iter_mut() {
            group.rank = self.rank;
        }
        for (at, (name, rank)) in self.ranks.iter().enumerate() {
            let Some(group) = groups.iter_mut().find(|group| group.name == *name) else {
                let names: Vec<_> = groups.iter().map(|group| format!("`{}`", group.name)).collect();
                return Err(format!(
                    "there is no group `{name}` to give a rank; there are {}",
                    names.join(", ")
                ));
            };
            if self.ranks[..at].iter().any(|(other, _)| other == name) {
                return Err(format!("group `{name}` has a rank already; give it one, once"));
            }
            group.rank = *rank;
        }
        Ok(())
    }

    /// Names, and how many there are of each kind.
    fn check_names(&self) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("the name is empty; write one".to_owned());
        }
        if self.columns.len() > COLUMNS_MAX {
            let given = self.columns.len();
            return Err(format!(
                "a table has at most {COLUMNS_MAX} columns, and this has {given}; \
                 move some to a second table with the same key"
            ));
        }
        for (ordinal, column) in self.columns.iter().enumerate() {
            check_name("column", &column.name)?;
            if let Some(group) = &column.group {
                check_name("group", group)?;
            }
            if self.columns[..ordinal].iter().any(|other| other.name == column.name) {
                return Err(format!(
                    "column `{}` is declared already; give this one another name",
                    column.name
                ));
            }
            column.ty.check().map_err(|why| format!("column `{}`: {why}", column.name))?;
        }
        if self.indexes.len() > INDEXES_MAX {
            let given = self.indexes.len();
            return Err(format!("a table has at most {INDEXES_MAX} indexes, and this has {given}"));
        }
        for (number, index) in self.indexes.iter().enumerate() {
            check_name("index", &index.name)?;
            if self.indexes[..number].iter().any(|other| other.name == index.name) {
                return Err(format!(
                    "index `{}` is declared already; give this one another name",
                    index.name
                ));
            }
        }
        // An index's relation is called `table.Index`.
        let index_bytes = self.indexes.iter().map(|index| index.name.len() + 1).max().unwrap_or(0);
        match self.name.len() + index_bytes > NAME_BYTES_MAX {
            true => {
                Err(format!("the name, with an index's, has more than {NAME_BYTES_MAX} bytes; shorten it"))
            }
            false => Ok(()),
        }
    }
}

/// Names of columns, groups and indexes are identifiers, so that the schema can be read in one way only.
/// Unlike in Rust, keywords are names too.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    if !is_identifier(name) {
        return Err(format!(
            "`{name}` is not a valid {what} name; write letters, digits and `_`, with no digit first"
        ));
    }
    match name.len() > NAME_BYTES_MAX {
        true => Err(format!("the {what} name has more than {NAME_BYTES_MAX} bytes; shorten it")),
        false => Ok(()),
    }
}

/// The offset of each column in bytes, and the groups with their bounds in words.
fn place(columns: &[Column]) -> Result<(Vec<PlacedGroup>, Vec<PlacedColumn>), String> {
    let mut groups = vec![PlacedGroup { name: "main".to_owned(), end: 0, rank: RANK }];
    let mut placed = Vec::new();
    for Column { name, ty, group, .. } in columns {
        let group = group.as_deref().unwrap_or("main");
        let known = groups.iter().position(|other| other.name == group);
        let group = known.unwrap_or_else(|| {
            groups.push(PlacedGroup { name: group.to_owned(), end: 0, rank: RANK });
            groups.len() - 1
        });
        placed.push(PlacedColumn { name: name.clone(), ty: *ty, group, offset: 0 });
    }
    if groups.len() > GROUPS_MAX {
        let given = groups.len();
        return Err(format!(
            "a table has at most {GROUPS_MAX} column groups, `main` among them, and this has {given}; \
             put together the columns that change together"
        ));
    }
    let mut end = 0;
    for (number, group) in groups.iter_mut().enumerate() {
        for column in placed.iter_mut().filter(|column| column.group == number) {
            column.offset = usize::next_multiple_of(end, column.ty.align());
            end = column.offset + column.ty.bytes();
        }
        end = end.next_multiple_of(8);
        group.end = end / 8;
    }
    match end / 8 > ROW_WORDS_MAX {
        true => Err(format!("a row has at most {} bytes, and this has {end}", ROW_WORDS_MAX * 8)),
        false => Ok((groups, placed)),
    }
}

/// The rules of the primary key.
fn check_key(columns: &[PlacedColumn], key: &[KeyPart]) -> Result<(), String> {
    if key.is_empty() {
        return Err("it has no key; declare the columns that identify a row with `key`".to_owned());
    }
    if key.len() > KEY_PARTS_MAX {
        return Err(format!("a key has at most {KEY_PARTS_MAX} parts, and this has {}", key.len()));
    }
    check_key_types("the key", columns, key)
}

/// A part of a key, with the `max` that is stated.
fn part(
    ordinal: usize,
    column: &PlacedColumn,
    max: Option<usize>,
    what: &str,
    write: impl FnOnce() -> String,
) -> Result<KeyPart, String> {
    let PlacedColumn { name, ty, .. } = column;
    match (max, ty.has_slot()) {
        (None, true) => Err(format!(
            "column `{name}` is part of {what}, and a `{ty}` is of any length; state how many bytes it may have, with {}",
            write()
        )),
        (Some(_), false) => Err(format!(
            "column `{name}` takes no `max` in {what}, since all values of `{ty}` are of one length"
        )),
        (Some(max), true) if !(1..=UP_TO_MAX).contains(&max) => {
            Err(format!("column `{name}` has {max} bytes in {what}; state 1 to {UP_TO_MAX}"))
        }
        (max, _) => Ok(KeyPart { ordinal, max: max.unwrap_or(0) }),
    }
}

/// Whether there is an encoding for a key of these parts.
fn check_key_types(what: &str, columns: &[PlacedColumn], key: &[KeyPart]) -> Result<(), String> {
    let parts = || key.iter().map(|part| (&columns[part.ordinal], part.max));
    if let Some((PlacedColumn { name, ty, .. }, _)) = parts().find(|(column, _)| !column.ty.is_key()) {
        return Err(format!(
            "column `{name}` is part of {what}, but `{ty}` cannot be: \
             floats and decimals have no order as keys"
        ));
    }
    let bytes: usize = parts().map(|(column, max)| column.ty.key_bytes(max)).sum();
    match key_words(bytes) > WORDS_MAX {
        true => Err(format!("{what} has at most {} bytes, and this has {bytes}", WORDS_MAX * 8)),
        false => Ok(()),
    }
}

impl Index {
    fn shape(&self, columns: &[PlacedColumn], key: &[KeyPart], table: &str) -> Result<IndexShape, String> {
        let name = &self.name;
        let mut parts: Vec<KeyPart> = Vec::new();
        for IndexColumn { name: column, max } in &self.columns {
            match columns.iter().position(|other| other.name == *column) {
                None => {
                    let names: Vec<_> = columns.iter().map(|column| format!("`{}`", column.name)).collect();
                    let names = names.join(", ");
                    return Err(format!("index `{name}`: there is no column `{column}`; there are {names}"));
                }
                Some(ordinal) if parts.iter().any(|part| part.ordinal == ordinal) => {
                    return Err(format!("index `{name}` has column `{column}` already; remove one"));
                }
                Some(ordinal) => {
                    // Of a part of the key it may be as long as there.
                    let of_key = key.iter().find(|part| part.ordinal == ordinal && part.max > 0);
                    let max = max.or(of_key.map(|part| part.max));
                    let write = || format!("`({column:?}, 40)` for `{column:?}`");
                    parts.push(part(ordinal, &columns[ordinal], max, &format!("index `{name}`"), write)?);
                }
            }
        }
        let listed = parts.len();
        // Parts of the primary key that are indexed columns stand in the entry already.
        let is_listed = |part: &KeyPart| parts.iter().any(|listed| listed.ordinal == part.ordinal);
        let rest: Vec<KeyPart> =
            key.iter().copied().filter(|part| !self.unique && !is_listed(part)).collect();
        if listed == 0 {
            return Err(format!("index `{name}` has no columns; list at least one"));
        }
        if listed > KEY_PARTS_MAX {
            return Err(format!(
                "an index has at most {KEY_PARTS_MAX} columns, and `{name}` has {listed}; list fewer"
            ));
        }
        if listed + rest.len() > KEY_PARTS_MAX {
            return Err(format!(
                "the key of index `{name}` would have {} parts, {listed} columns and then {} of the primary \
                 key, but at most {KEY_PARTS_MAX} fit; list fewer columns, or make it `unique` if no two \
                 rows share them",
                listed + rest.len(),
                rest.len()
            ));
        }
        let word = if self.unique { "unique index" } else { "index" };
        let schema = format!("{word} over {}; {table}", key_text(columns, &parts));
        parts.extend(rest);
        check_key_types(&format!("the key of index `{name}`"), columns, &parts)?;
        Ok(IndexShape { name: name.clone(), schema, unique: self.unique, columns: listed, key: parts })
    }
}

/// The definition as text: `id: u64, owner: Text<24>, money.balance: i64; key id; ordered`.
fn schema(groups: &[PlacedGroup], columns: &[PlacedColumn], key: &[KeyPart], structure: Structure) -> String {
    let texts = columns.iter().map(|PlacedColumn { name, ty, group, .. }| match group {
        0 => format!("{name}: {ty}"),
        group => format!("{}.{name}: {ty}", groups[*group].name),
    });
    let texts: Vec<String> = texts.collect();
    let key = key_text(columns, key);
    let structure = match structure {
        Structure::Ordered => "ordered",
        Structure::Hash => "hash",
    };
    format!("{}; key {key}; {structure}", texts.join(", "))
}

/// The parts of a key in a schema: `branch, name(max=40)`.
fn key_text(columns: &[PlacedColumn], key: &[KeyPart]) -> String {
    let part = |part: &KeyPart| match part.max {
        0 => columns[part.ordinal].name.clone(),
        max => format!("{}(max={max})", columns[part.ordinal].name),
    };
    key.iter().map(part).collect::<Vec<_>>().join(", ")
}
