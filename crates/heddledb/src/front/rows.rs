//! Tables that were defined at run time: rows of values by name, in transactions and on snapshots.

use super::database::Database;
use super::txn::Txn;
use crate::error::{Misuse, Result};
use crate::reading::{Decode, Reading, onward};
use crate::seam::{Access, Engine, Inserted, Part, Purpose, Range, Refused, Staged, Visit};
use crate::sight::Sight;
use crate::table::dynamic::{
    EncodedKey, IndexDefinition, RelationDefinition, RowValues, TableDefinition, Value,
};
use crate::table::{Definition, Direction, Page};
use crate::transaction::Onward;
use crate::words::{WithValues, Words, WordsCopy};
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;

/// A table that was defined at run time, in one database: from [`Database::define`](crate::Database::define). Cheap to clone.
///
/// If the database has a table of that name already, be it of a Rust type, this is that table.
///
/// ```
/// use heddledb::table::dynamic::{ColumnType, TableDefinition, Value};
/// use heddledb::Database;
///
/// let account = TableDefinition::builder("account")
///     .key("id", ColumnType::U64)
///     .column("owner", ColumnType::Text(24))
///     .column("balance", ColumnType::I64).group("money")
///     .index("ByOwner", ["owner"])
///     .build()?;
/// let db = Database::in_memory();
/// let accounts = db.define(account, 1_000)?;
/// let mut session = db.session()?;
/// session.run(|tx| {
///     let mut rows = tx.rows(&accounts)?;
///     rows.insert(&[7u64.into(), "ada".into(), 100i64.into()])?;
///     rows.update(&[7u64.into()], |row| row.set("balance", 70i64))
/// })?;
/// let row = session.run(|tx| tx.rows(&accounts)?.find("ByOwner", &["ada".into()]))?.unwrap();
/// assert_eq!(row["balance"], Value::I64(70));
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RowTable {
    table: &'static TableDefinition,
    relation: &'static Definition,
    /// In the order of the table's indexes.
    indexes: Arc<[&'static Definition]>,
}

impl RowTable {
    /// The definition.
    pub fn definition(&self) -> &'static TableDefinition {
        self.table
    }

    fn of(engine: &dyn Engine, table: &'static TableDefinition, rows: usize) -> Result<Self> {
        let relation = known(engine, table.relation(), rows)?;
        same_indexes(engine, table)?;
        let indexes: Result<Vec<_>> =
            table.indexes().iter().map(|index| known(engine, index.relation(), rows)).collect();
        Ok(Self { table, relation, indexes: indexes?.into() })
    }
}

/// The relation of a database that is defined like this one, made now if there is none.
fn known(engine: &dyn Engine, own: &'static RelationDefinition, rows: usize) -> Result<&'static Definition> {
    let Some(known) = engine.relation(own.name()) else {
        engine.create(own.definition(), rows)?;
        return Ok(own.definition());
    };
    let alike = known.schema == own.schema()
        && known.structure == own.structure()
        && known.layout == own.layout()
        && known.key_words == own.key_words();
    if alike {
        return Ok(known);
    }
    let why = format!(
        "the database has a relation {} that is defined as `{}`, and not as `{}`",
        own.name(),
        known.schema,
        own.schema()
    );
    Err(Misuse::Definition { table: own.name().to_owned(), why }.into())
}

/// Refuses a table that the database has with other indexes: each of two definitions would write the entries of those that
/// it knows, and none of the others. Makes those that a Rust type has, if they are made at their first use.
fn same_indexes(engine: &dyn Engine, table: &'static TableDefinition) -> Result<()> {
    let role = engine.relation(table.name()).and_then(|known| known.role.table());
    let Some(indexes) = role.map(|role| role.indexes()) else { return Ok(()) };
    let own = || table.indexes().iter().map(|index| index.relation().name());
    let is_same =
        own().len() == indexes.len() && own().all(|own| indexes.iter().any(|index| index.name() == own));
    if !is_same {
        let list = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let known = list(indexes.iter().map(|index| index.name()).collect());
        let why = format!(
            "the database has it with these indexes: {known}; and this definition has these: {}; \
             give both the same, since each keeps only those that it knows",
            list(own().collect())
        );
        return Err(Misuse::Definition { table: table.name().to_owned(), why }.into());
    }
    indexes.into_iter().try_for_each(|index| engine.create(index, 0))
}

impl Database {
    /// Makes a table that was defined at run time, with its indexes, sized for `rows` rows, or finds the one of that
    /// name that the database has.
    ///
    /// # Errors
    /// [`Misuse::Definition`] where the database has a table of that name which is defined otherwise, or has other indexes;
    /// [`Misuse::TooManyTables`]; [`Misuse::Undeclared`] in a database with files, whose tables must be named
    /// before it is opened ([`Builder::define`](crate::Builder::define)).
    pub fn define(&self, table: &'static TableDefinition, rows: usize) -> Result<RowTable> {
        RowTable::of(&*self.engine, table, rows)
    }
}

/// The rows of a table that was defined at run time, as a transaction or a snapshot sees them: from [`Txn::rows`](crate::Txn::rows) and
/// [`Snapshot::rows`](crate::Snapshot::rows).
///
/// Keys are slices of values, one for each column of the key. Bounds and prefixes of scans may be leading parts of keys.
/// What [`ReadTransaction`](crate::ReadTransaction) and [`Transaction`](crate::Transaction) say of errors and retries
/// holds here.
pub struct Rows<'a, X> {
    reader: &'a mut X,
    table: &'a RowTable,
}

impl<'a, X> Rows<'a, X> {
    pub(super) fn new(reader: &'a mut X, table: &'a RowTable) -> Self {
        Self { reader, table }
    }
}

/// What to scan of a table: a range of keys, or of the keys of an index, a direction and a limit.
#[derive(Clone, Copy, Debug)]
pub struct RowScan<'a> {
    index: Option<&'a str>,
    low: Bound<&'a [Value]>,
    high: Bound<&'a [Value]>,
    direction: Direction,
    limit: usize,
    after: Option<&'a [Value]>,
}

impl<'a> RowScan<'a> {
    /// Every row, in the order of the keys.
    pub fn all() -> Self {
        Self::between(Bound::Unbounded, Bound::Unbounded)
    }

    /// The rows whose keys are within a range.
    pub fn range(range: impl RangeBounds<&'a [Value]>) -> Self {
        Self::between(range.start_bound().cloned(), range.end_bound().cloned())
    }

    fn between(low: Bound<&'a [Value]>, high: Bound<&'a [Value]>) -> Self {
        Self { index: None, low, high, direction: Direction::Forward, limit: usize::MAX, after: None }
    }

    /// The rows whose keys start with these values.
    pub fn prefix(prefix: &'a [Value]) -> Self {
        Self::between(Bound::Included(prefix), Bound::Included(prefix))
    }

    /// The bounds are those of keys of this secondary index, and so is the order.
    pub fn by(mut self, index: &'a str) -> Self {
        self.index = Some(index);
        self
    }

    /// Descending keys.
    pub fn reverse(mut self) -> Self {
        self.direction = self.direction.reversed();
        self
    }

    /// At most `rows` rows.
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = rows;
        self
    }

    /// Only keys, or keys of the index, that come after `key` in the direction of the scan: where it goes on that has come
    /// to `key`. Nothing that is not in the range comes in by it.
    pub fn after(mut self, key: &'a [Value]) -> Self {
        self.after = Some(key);
        self
    }

    /// The bounds, as encoded keys of the table or the index.
    fn bounds(&self, relation: &RelationDefinition) -> Result<Option<(EncodedKey, EncodedKey)>> {
        let within = relation.range(self.low, self.high)?;
        let Some(after) = self.after.map(Bound::Excluded) else { return Ok(within) };
        let rest = match self.direction {
            Direction::Forward => relation.range(after, Bound::Unbounded)?,
            Direction::Reverse => relation.range(Bound::Unbounded, after)?,
        };
        let both = within.zip(rest).map(|((low, high), (first, last))| (low.max(first), high.min(last)));
        Ok(both.filter(|(low, high)| low <= high))
    }
}

/// The access of a whole row.
fn access<'a>(relation: &'static Definition, key: &'a [u64], part: bool) -> Access<'a> {
    Access { wanted: Part::whole(relation), key, site: 0, part }
}

/// The words of a row that has so many.
fn words_of(row: &Sight<'_>, words: usize) -> Vec<u64> {
    (0..words).map(|word| row.word(word)).collect()
}

/// Decodes the values of a table's rows.
#[derive(Clone, Copy)]
struct Values(&'static TableDefinition);

impl Decode for Values {
    type Value = RowValues;
    fn decode(self, row: &Sight<'_>, values: &dyn crate::values::Values) -> RowValues {
        self.0.read(&WithValues { row: *row, values })
    }
}

impl<X: Reading> Rows<'_, X> {
    /// The row with a key, or `None`.
    ///
    /// # Errors
    /// [`Misuse::WrongCount`] and [`Misuse::WrongValue`] for values that are no key.
    pub fn get(&mut self, key: &[Value]) -> Result<Option<RowValues>> {
        let key = self.table.table.encode_key(key)?;
        self.get_encoded(&key, false)
    }

    fn get_encoded(&mut self, key: &[u64], part: bool) -> Result<Option<RowValues>> {
        self.reader.get_words(&access(self.table.relation, key, part), Values(self.table.table))
    }

    /// The first row whose indexed columns equal these values: the only one, if the index is unique.
    ///
    /// # Errors
    /// As [`Rows::get`]; [`Misuse::NoIndex`].
    pub fn find(&mut self, index: &str, columns: &[Value]) -> Result<Option<RowValues>> {
        let mut found = None;
        self.scan(RowScan::prefix(columns).by(index).limit(1), |row| found = Some(row))?;
        Ok(found)
    }

    /// The rows of a scan, collected.
    ///
    /// # Errors
    /// As [`Rows::scan`].
    pub fn collect(&mut self, scan: RowScan<'_>) -> Result<Vec<RowValues>> {
        let mut rows = Vec::new();
        self.scan(scan, |row| rows.push(row))?;
        Ok(rows)
    }

    /// As many rows as the scan's limit says, and the key, or the index's key, after which the next page begins: see
    /// [`ReadTransaction::page`](crate::ReadTransaction::page).
    ///
    /// # Errors
    /// As [`Rows::scan`].
    pub fn page(&mut self, scan: RowScan<'_>) -> Result<Page<RowValues, Vec<Value>>> {
        let size = scan.limit;
        let (mut rows, mut last, mut next) = (Vec::new(), None, None);
        self.scan_with_keys(scan.limit(size.saturating_add(1)), |key, row| {
            if rows.len() == size {
                next = last.take();
                return ControlFlow::Break(());
            }
            rows.push(row);
            last = Some(key.to_vec());
            ControlFlow::Continue(())
        })?;
        let (relation, _) = self.scanned(scan.index)?;
        Ok(Page { rows, next: next.map(|key: Vec<u64>| relation.decode_key(&key)) })
    }

    /// The table, or a secondary index of it: what is declared here, and what the database has.
    fn scanned(&self, index: Option<&str>) -> Result<(&'static RelationDefinition, &'static Definition)> {
        let table = self.table.table;
        let Some(name) = index else { return Ok((table.relation(), self.table.relation)) };
        let (number, index) = index_named(table, name)?;
        Ok((index.relation(), self.table.indexes[number]))
    }

    /// Visits rows in order, until the range or the limit is exhausted or `visit` breaks or fails: see
    /// [`Onward`](crate::Onward). By an index, the entries are scanned first, and then each row is read.
    ///
    /// # Errors
    /// What `visit` returns; [`Misuse::WrongCount`] and [`Misuse::WrongValue`] for values that are no part of a key;
    /// [`Misuse::NoIndex`]; [`Misuse::NotOrdered`].
    pub fn scan<O: Onward>(
        &mut self,
        scan: RowScan<'_>,
        mut visit: impl FnMut(RowValues) -> O,
    ) -> Result<()> {
        self.scan_with_keys(scan, |_, row| visit(row))
    }

    /// As [`Self::scan`], with the encoded keys by which the rows were found.
    fn scan_with_keys<O: Onward>(
        &mut self,
        scan: RowScan<'_>,
        mut visit: impl FnMut(&[u64], RowValues) -> O,
    ) -> Result<()> {
        let table = self.table.table;
        let RowScan { index, direction, limit, .. } = scan;
        let (relation, definition) = self.scanned(index)?;
        let bounds = scan.bounds(relation)?;
        let range = Range {
            wanted: Part::whole(definition),
            bounds: bounds.as_ref().map(|(low, high)| (low.words(), high.words())),
            direction,
            limit,
            site: 0,
        };
        let mut visited = Ok(());
        if index.is_none() {
            let kept = self.reader.values();
            self.reader.scan_words(&range, &mut |key, row| {
                let values = table.read(&WithValues { row, values: &*kept });
                if !row.stands() {
                    return Visit::Torn;
                }
                onward(visit(key, values), &mut visited)
            })?;
            return visited;
        }
        let mut entries = Vec::new();
        self.reader.scan_words(&range, &mut |entry, row| {
            let key = words_of(&row, definition.layout.words);
            if !row.stands() {
                return Visit::Torn;
            }
            entries.push((entry.to_vec(), key));
            Visit::More
        })?;
        for (entry, key) in entries {
            // An entry whose row is not there is of two moments, which the commit will find out.
            let Some(row) = self.get_encoded(&key, true)? else { continue };
            if visit(&entry, row).onward()?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// A secondary index by its name, and its number.
fn index_named(table: &'static TableDefinition, name: &str) -> Result<(usize, &'static IndexDefinition)> {
    let found = table.indexes().iter().enumerate().find(|(_, index)| index.name() == name);
    found.ok_or_else(|| {
        let indexes: Vec<&str> = table.indexes().iter().map(|index| index.name()).collect();
        let (table, index) = (table.name(), name.to_owned());
        Misuse::NoIndex { table, index, indexes: indexes.join(", ") }.into()
    })
}

impl Txn {
    /// The rows of a table that was defined at run time.
    ///
    /// # Errors
    /// [`Misuse::Option`] in the call of a procedure, whose accesses are declared: use
    /// [`Session::run`](crate::Session::run).
    pub fn rows<'a>(&'a mut self, table: &'a RowTable) -> Result<Rows<'a, Self>> {
        if self.is_call() {
            let what = "a procedure's accesses are declared, and those of a table that is defined at run time cannot be; \
                        use `Session::run`";
            return self.guard(Err(Misuse::Option(what.to_owned()).into()));
        }
        Ok(Rows::new(self, table))
    }
}

impl Rows<'_, Txn> {
    /// Adds a row, given as the values of all columns by order of declaration.
    ///
    /// # Errors
    /// [`Misuse::DuplicateKey`] and [`Misuse::DuplicateEntry`]; [`Misuse::WrongCount`] and
    /// [`Misuse::WrongValue`].
    pub fn insert(&mut self, row: &[Value]) -> Result<()> {
        let inserted = self.insert_values(row);
        self.reader.guard(inserted)
    }

    fn insert_values(&mut self, row: &[Value]) -> Result<()> {
        let RowTable { table, relation, .. } = *self.table;
        // Whatever is wrong with the values is told before anything is done.
        let key = table.relation().key_of(row)?;
        let mut words = vec![0; relation.layout.words];
        check_entries(table, row)?;
        table.encode_row(row, &mut self.reader.with_values(&mut words))?;
        if !table.indexes().is_empty() {
            self.reader.worker.begin_operation();
        }
        match self.reader.worker.insert(&access(relation, &key, false))? {
            Inserted::New(target) => target.copy_from_slice(&words),
            Inserted::Exists => {
                let key = display(&table.decode_key(&key));
                let misuse = Misuse::DuplicateKey { table: table.name(), key };
                return self.reader.refused(Refused::Row, misuse);
            }
            // Of calls only, which have no rows of values.
            Inserted::Old | Inserted::Refused { .. } => return Ok(()),
        }
        (0..table.indexes().len()).try_for_each(|index| self.insert_entry(index, row, &key))
    }

    fn insert_entry(&mut self, number: usize, row: &[Value], key: &EncodedKey) -> Result<()> {
        let (table, relation) = (self.table.table, self.table.indexes[number]);
        let index = &table.indexes()[number];
        let entry = index.entry(row)?;
        match self.reader.worker.insert(&access(relation, &entry, true))? {
            Inserted::New(target) => target.copy_from_slice(key.words()),
            Inserted::Exists => {
                let entry = display(&index.relation().decode_key(&entry));
                let (index, table) = (relation.name(), table.name());
                let misuse = Misuse::DuplicateEntry { index, table, entry };
                return self.reader.refused(Refused::Entry(number as u8), misuse);
            }
            Inserted::Old | Inserted::Refused { .. } => {}
        }
        Ok(())
    }

    fn delete_entry(&mut self, index: usize, row: &[Value]) -> Result<()> {
        let entry = self.table.table.indexes()[index].entry(row)?;
        self.reader.worker.delete(&access(self.table.indexes[index], &entry, true)).map(|_| ())
    }

    /// Removes the row with a key; false if there is none.
    ///
    /// # Errors
    /// As [`Rows::get`].
    pub fn delete(&mut self, key: &[Value]) -> Result<bool> {
        let deleted = self.delete_row(key);
        self.reader.guard(deleted)
    }

    fn delete_row(&mut self, key: &[Value]) -> Result<bool> {
        let RowTable { table, relation, .. } = *self.table;
        let key = table.encode_key(key)?;
        if table.indexes().is_empty() {
            return self.reader.worker.delete(&access(relation, &key, false));
        }
        let row =
            match self.reader.worker.stage(&access(relation, &key, false), Purpose::DeleteWithEntries)? {
                Staged::Missing => return Ok(false),
                Staged::Old { .. } => return Ok(true),
                Staged::Stored(words) | Staged::New(words) => {
                    table.decode_row(&WordsCopy::new(0, words).with(&*self.reader.values, self.reader.number))
                }
            };
        (0..table.indexes().len()).try_for_each(|index| self.delete_entry(index, &row))?;
        self.reader.worker.delete(&access(relation, &key, true))
    }

    /// Reads a row, lets `change` alter it, writes back the column groups that changed, moves its index entries, and
    /// returns what `change` returned. After an error of `change` the row is as it was.
    ///
    /// # Errors
    /// [`Misuse::NotFound`], [`Misuse::KeyChanged`], [`Misuse::DuplicateEntry`], and as [`Rows::insert`].
    pub fn update<R>(
        &mut self,
        key: &[Value],
        change: impl FnOnce(&mut RowValues) -> Result<R>,
    ) -> Result<R> {
        let updated = self.update_row(key, change);
        self.reader.guard(updated)
    }

    fn update_row<R>(
        &mut self,
        key: &[Value],
        change: impl FnOnce(&mut RowValues) -> Result<R>,
    ) -> Result<R> {
        let RowTable { table, relation, .. } = *self.table;
        let encoded = table.encode_key(key)?;
        let access = access(relation, &encoded, false);
        let purpose =
            if table.indexes().is_empty() { Purpose::UpdateWatched } else { Purpose::UpdateWithEntries };
        let (old, new, result, changed) = match self.reader.worker.stage(&access, purpose)? {
            Staged::Missing => {
                let (table, key) = (table.name(), display(key));
                return self.reader.refused(Refused::Row, Misuse::NotFound { table, key });
            }
            Staged::Old { words, .. } => {
                let words = WordsCopy::new(0, words).with(&*self.reader.values, self.reader.number);
                return change(&mut table.read(&words));
            }
            Staged::Stored(words) | Staged::New(words) => {
                let (values, number) = (&*self.reader.values, self.reader.number);
                let old = table.read(&WordsCopy::new(0, words).with(values, number));
                let mut new = old.clone();
                let result = change(&mut new)?;
                if new.key()? != encoded {
                    return self.reader.refused(Refused::Row, Misuse::KeyChanged { table: table.name() });
                }
                check_entries(table, new.values())?;
                let before = words.to_vec();
                table.encode_row(new.values(), &mut WordsCopy::new(0, words).with(values, number))?;
                let differs = |group: usize| {
                    let span = relation.layout.groups[group].span;
                    before[span.start..span.end] != words[span.start..span.end]
                };
                let groups = (0..relation.layout.groups.len()).filter(|group| differs(*group));
                (old, new, result, groups.fold(0, |set, group| set | 1 << group))
            }
        };
        if !table.indexes().is_empty() {
            self.reader.worker.begin_operation();
        }
        self.reader.worker.store(&access, changed)?;
        for (number, index) in table.indexes().iter().enumerate() {
            if index.entry(old.values())? != index.entry(new.values())? {
                self.delete_entry(number, old.values())?;
                self.insert_entry(number, new.values(), &encoded)?;
            }
        }
        Ok(result)
    }
}

/// Whether a row can have an entry in each index.
fn check_entries(table: &'static TableDefinition, row: &[Value]) -> Result<()> {
    table.indexes().iter().try_for_each(|index| index.entry(row).map(|_| ()))
}

/// Values in a message.
#[cold]
fn display(values: &[Value]) -> String {
    let values: Vec<String> = values.iter().map(Value::to_string).collect();
    match &values[..] {
        [value] => value.clone(),
        values => format!("({})", values.join(", ")),
    }
}
