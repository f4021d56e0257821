//! Schemas that change: what becomes of the rows of a directory whose tables a program declares otherwise.
//!
//! ```text
//!   stored schemas  --\
//!                      plan --> SchemaChange   in words: what is done, and what nobody has said
//!   declared schemas --/    \-> Outcome..      of each stored table: kept, dropped, or a Conversion of its rows
//!   Migration ---------'
//! ```

mod conversion;
mod plan;

pub use conversion::Conversion;
pub use plan::{Outcome, Plan, TableSchema, declared_tables, stored_tables};

use crate::error::Result;
use crate::table::dynamic::{RowValues, Value};
use std::fmt;
use std::sync::Arc;

/// What is to become of a directory's rows where the program declares their tables otherwise, for `Builder::migrate`.
///
/// What loses nothing needs no word: a wider integer or text, an `Option` of what was there, further values of an enum, a new
/// column of an `Option` (none), columns in another order or group, a tree for a hash table, indexes. The rest has to be
/// said, once and for all: a program keeps the changes of all its versions, in their order, and a directory counts those that it has
/// taken, or was made after, and takes the others only. What does not concern it is passed over. A program that has fewer changes
/// than the directory has taken is an earlier version, and is refused where the schemas differ; one that leaves out changes which
/// no directory needs any more says how many, with [`after`](Self::after).
///
/// ```
/// use heddledb::{Database, Migration, ReadTransaction, Table, Text, Transaction};
///
/// mod first {
///     #[derive(heddledb::Table, Clone, Copy)]
///     pub struct Account {
///         #[key]
///         pub id: u32,
///         pub owner: heddledb::Text<8>,
///         pub cents: i64,
///     }
/// }
///
/// #[derive(Table, Clone, Copy)]
/// #[table(index(ByHolder(holder)))]
/// struct Account {
///     #[key]
///     id: u64,
///     holder: Text<24>,
///     #[group(money)]
///     balance: i128,
///     country: Text<2>,
///     closed: Option<i64>,
/// }
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("bank");
/// let db = Database::builder().path(&path).table::<first::Account>(0).open()?;
/// let row = first::Account { id: 7, owner: Text::truncated("Ada"), cents: 100 };
/// db.session()?.run(|tx| tx.insert(row))?;
/// drop(db);
///
/// let migration = Migration::new()
///     .rename("account", "owner", "holder")
///     .rename("account", "cents", "balance")
///     .set("account", "country", "GB");
/// let builder = Database::builder().path(&path).table::<Account>(0).migrate(migration);
/// println!("{}", builder.schema_change()?); // nothing is done yet
/// let db = builder.open()?;
/// let row = db.session()?.run(|tx| tx.find::<ByHolder>(Text::truncated("Ada")))?.unwrap();
/// assert_eq!((row.id, row.balance, row.country.as_str(), row.closed), (7, 100, "GB", None));
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "nothing changes before a directory is opened with it"]
pub struct Migration {
    /// How many were left out before them.
    before: u64,
    changes: Vec<Change>,
}

/// What is said of a table.
#[derive(Clone)]
enum Change {
    Set { table: String, column: String, to: To },
    Drop { table: String, column: String },
    Rename { table: String, from: String, to: String },
    DropTable { table: String },
    RenameTable { from: String, to: String },
}

/// What a column is given.
#[derive(Clone)]
enum To {
    Value(Value),
    Made(Make),
}

/// Makes a column's value of the row as it was.
type Make = Arc<dyn Fn(&RowValues) -> Result<Value> + Send + Sync>;

impl Migration {
    /// What loses nothing, and no more.
    pub fn new() -> Self {
        Self::default()
    }

    /// So many changes of earlier versions of the program come before these and are left out, since each directory that there is
    /// has taken them.
    pub fn after(mut self, count: u64) -> Self {
        self.before = count;
        self
    }

    /// How many changes the program has made in all its versions.
    pub fn count(&self) -> u64 {
        self.before + self.changes.len() as u64
    }

    /// Those that a directory has not taken which has taken so many.
    fn left(&self, taken: u64) -> &[Change] {
        let passed = usize::try_from(taken.saturating_sub(self.before)).unwrap_or(usize::MAX);
        self.changes.get(passed..).unwrap_or_default()
    }

    fn and(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// Gives every row this value in a column that is new, or whose type cannot hold what was there. It is passed over where the
    /// column is there and its type can: what it holds is kept then, and
    /// [`Builder::schema_change`](https://docs.rs/heddledb/latest/heddledb/struct.Builder.html#method.schema_change) says so
    /// where the table changes. To change such values, make a new column of them by [`set_with`](Self::set_with) and
    /// [`drop`](Self::drop) the old one, or run a transaction. A column that was dropped by a change before this one is new.
    pub fn set(self, table: impl Into<String>, column: impl Into<String>, value: impl Into<Value>) -> Self {
        self.and(Change::Set { table: table.into(), column: column.into(), to: To::Value(value.into()) })
    }

    /// As [`set`](Self::set), with what a function makes of the row as it was. It is called once for each row, by several
    /// threads; an error refuses the opening, and nothing has changed then.
    pub fn set_with(
        self,
        table: impl Into<String>,
        column: impl Into<String>,
        make: impl Fn(&RowValues) -> Result<Value> + Send + Sync + 'static,
    ) -> Self {
        let to = To::Made(Arc::new(make));
        self.and(Change::Set { table: table.into(), column: column.into(), to })
    }

    /// Gives up what a column holds that is not declared any more.
    pub fn drop(self, table: impl Into<String>, column: impl Into<String>) -> Self {
        self.and(Change::Drop { table: table.into(), column: column.into() })
    }

    /// A column has another name now.
    pub fn rename(self, table: impl Into<String>, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.and(Change::Rename { table: table.into(), from: from.into(), to: to.into() })
    }

    /// Gives up all rows of a table that is not declared any more.
    pub fn drop_table(self, table: impl Into<String>) -> Self {
        self.and(Change::DropTable { table: table.into() })
    }

    /// A table has another name now. Changes before this one call it by the old name, those after it by the new one.
    pub fn rename_table(self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.and(Change::RenameTable { from: from.into(), to: to.into() })
    }
}

impl fmt::Debug for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for change in &self.changes {
            list.entry(&match change {
                Change::Set { table, column, to: To::Value(value) } => {
                    format!("set {table}.{column} to {value}")
                }
                Change::Set { table, column, to: To::Made(_) } => {
                    format!("set {table}.{column} by a function")
                }
                Change::Drop { table, column } => format!("drop {table}.{column}"),
                Change::Rename { table, from, to } => format!("rename {table}.{from} to {to}"),
                Change::DropTable { table } => format!("drop {table}"),
                Change::RenameTable { from, to } => format!("rename {from} to {to}"),
            });
        }
        list.finish()
    }
}

/// How the tables of a directory differ from those that a program declares, and what becomes of them.
///
/// Its `Display` is a line for each change. Indexes are not in it: they are built of the rows when the directory is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaChange {
    /// The tables that change, by their names in the directory.
    pub tables: Vec<TableChange>,
}

/// What becomes of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableChange {
    /// Its name in the directory.
    pub table: String,
    /// What is done, in words.
    pub steps: Vec<String>,
    /// What nobody has said, in words: with any, nothing is done.
    pub missing: Vec<String>,
}

impl SchemaChange {
    /// Whether the program declares what the directory has.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Whether nothing more has to be said.
    pub fn is_complete(&self) -> bool {
        self.tables.iter().all(|table| table.missing.is_empty())
    }

    /// What nobody has said, in one line.
    pub fn missing(&self) -> String {
        let missing = |table: &TableChange| {
            let of = table.missing.iter().map(|what| format!("table {}: {what}", table.table));
            of.collect::<Vec<_>>()
        };
        self.tables.iter().flat_map(missing).collect::<Vec<_>>().join("; ")
    }
}

/// `account: column country is new, and GB in every row`, and so on; `MISSING` before what has to be said.
impl fmt::Display for SchemaChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing changes");
        }
        let mut first = true;
        for TableChange { table, steps, missing } in &self.tables {
            let told = steps.iter().map(|step| ("", step));
            for (head, what) in told.chain(missing.iter().map(|what| ("MISSING ", what))) {
                let end = if std::mem::take(&mut first) { "" } else { "\n" };
                write!(f, "{end}{head}{table}: {what}")?;
            }
        }
        Ok(())
    }
}
