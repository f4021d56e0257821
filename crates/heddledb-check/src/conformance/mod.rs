//! The conformance suite: what every concurrency control must pass, unmodified.
//!
//! Each [`Test`] runs under a protocol that it is given and reports a failure by panicking, with the
//! seed or the schedule that shows it. The parts:
//!
//! - `anomalies`: the anomalies of the literature by name, in every interleaving of their steps, on
//!   both index structures, and in some on a table of strings ([`script`] says how they are judged);
//! - `random`: random small programs in random interleavings, by seed, with operations that cannot be met and savepoints;
//! - `reclamation`: a row's lives, when its record was given back between them;
//! - `snapshots`: one moment, whatever happens beside it; and that old versions go away;
//! - `waits`: that nobody waits for a transaction that thinks, and nobody for ever;
//! - `load`: invariants while several threads run, also with four times more threads than cores;
//! - `opacity`: what bodies see whose attempts abort, where a protocol says that it is opaque;
//! - `procedures`: what is shown between pieces, to whom, and what becomes of them;
//! - `phases`: what is announced before it is done, and who comes after it;
//! - `graph`: calls that wait for those before them, and what they did not foresee; `quiet`: what they need not foresee; `among`: keys
//!   that theirs are among; `order`: one session's calls in batches;
//! - `pieces`: submitted calls that let go of what they have accessed, piece by piece;
//! - `submit`: calls that threads of the database execute, and who hears of them;
//! - `commands`: calls that a log says were made, made again when the directory is opened;
//! - `deferred`: transactions that write down what is done at the commit, beside others; `late`: whose rows have keys that
//!   are known only then;
//! - `objects`: transactional objects against a model, in the order in which transactions took effect;
//! - `values`: strings and bytes that are not in their rows: what is in them, when, and that they are given back;
//! - `value_keys`: the same in keys and indexes;
//! - `shelves`: calls that put additions off, and who sees them when; `halves`: additions to columns that share a word;
//! - `lazy`: calls in the epoch of their piece that conflicts, and additions that come late;
//! - `histories`: long random histories, judged by both checkers.
//!
//! To run them for a protocol: call [`Test::run`] for each of [`suite`].
//! Where a test is about what its protocol does not offer, it ends at once.

mod among;
mod anomalies;
mod commands;
mod deferred;
mod graph;
mod halves;
mod histories;
mod late;
pub mod lazy;
mod load;
mod objects;
mod opacity;
mod order;
mod phases;
mod pieces;
mod procedures;
mod quiet;
mod random;
mod reclamation;
mod schemas;
pub mod script;
pub mod shelves;
mod snapshots;
mod submit;
mod value_keys;
mod values;
mod waits;

use heddledb::protocol::{Isolation, Kind};
use heddledb::table::{Column, ColumnType, ColumnValue, Index, Key, KeyUpTo, UpTo, Words, WordsMut};
use heddledb::{Database, ReadTransaction, Result, Scan, Table, Transaction};
use std::ops::{ControlFlow, RangeInclusive};

/// One test of the suite.
pub struct Test {
    /// Its name.
    pub name: &'static str,
    /// Runs it under a protocol; panics on failure.
    pub run: fn(Kind),
}

/// The suite for any protocol.
pub fn suite() -> Vec<Test> {
    let mut tests = anomalies::tests();
    tests.extend(random::tests());
    tests.extend(reclamation::tests());
    tests.extend(snapshots::tests());
    tests.extend(waits::tests());
    tests.extend(load::tests());
    tests.extend(opacity::tests());
    tests.extend(procedures::tests());
    tests.extend(phases::tests());
    tests.extend(order::tests());
    tests.extend(graph::tests());
    tests.extend(among::tests());
    tests.extend(quiet::tests());
    tests.extend(pieces::tests());
    tests.extend(submit::tests());
    tests.extend(commands::tests());
    tests.extend(shelves::tests());
    tests.extend(lazy::tests());
    tests.extend(halves::tests());
    tests.extend(deferred::tests());
    tests.extend(late::tests());
    tests.extend(objects::tests());
    tests.extend(value_keys::tests());
    tests.extend(values::tests());
    tests.extend(schemas::tests());
    tests.extend(histories::tests());
    tests
}

/// A row of the ordered test table.
#[derive(Table, Clone, Copy, Debug)]
#[table(index(OrderedByValue(value)))]
pub struct OrderedRow {
    #[key]
    key: u64,
    value: i64,
    #[group(other)]
    other: i64,
}

/// A row of the hashed test table.
#[derive(Table, Clone, Copy, Debug)]
#[table(hash, index(HashedByValue(value)))]
pub struct HashedRow {
    #[key]
    key: u64,
    value: i64,
    #[group(other)]
    other: i64,
}

/// A row of the test table with unique indexes, behind one that is not.
#[derive(Table, Clone, Copy, Debug)]
#[table(index(EntryByValue(value)), unique(EntryByOwnValue(value)), unique(EntryByOther(other)))]
pub struct UniqueRow {
    #[key]
    key: u64,
    value: i64,
    #[group(other)]
    other: i64,
}

/// A row of the test table of strings.
#[derive(Table, Clone, Copy, Debug)]
#[table(index(StringByValue(value(max = 40))))]
pub struct StringRow {
    #[key]
    key: u64,
    value: Padded,
    #[group(other)]
    other: i64,
}

/// A number that is stored as a string, which has no room in a row. The strings have the order of the numbers, and three
/// lengths, so that one often replaces another of its length, and as often one that is longer or shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padded(i64);

impl Padded {
    /// What is read where no string of a number is: a number that no test stores, and far from where sums overflow.
    const STRAY: Self = Self(i64::MIN >> 16);

    fn text(self) -> String {
        let place = (self.0 as u64) ^ (1 << 63);
        format!("{place:020}{:.<length$}", "", length = (place % 3 * 9) as usize)
    }

    fn of_text(text: &str) -> Self {
        let place = text.get(..20).and_then(|digits| digits.parse::<u64>().ok());
        let value = place.map(|place| Self((place ^ (1 << 63)) as i64));
        value.filter(|value| value.text() == text).unwrap_or(Self::STRAY)
    }
}

impl ColumnValue for Padded {
    const TYPE: ColumnType = String::TYPE;
    fn load(source: &impl Words, offset: usize) -> Self {
        Self::of_text(&String::load(source, offset))
    }
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.text().store(target, offset);
    }
}

impl<const N: usize> KeyUpTo<N> for Padded {
    type Key = UpTo<str, N>;
    fn key_up_to(&self) -> Self::Key {
        self.text().into()
    }
}

/// How a test table stores a number in its column `value`.
pub trait Number: ColumnValue + Copy {
    /// What it is in an index: in the order of the numbers.
    type Entry: Key + Ord;
    /// Of a number.
    fn of(number: i64) -> Self;
    /// The number.
    fn number(self) -> i64;
    /// What it is in an index.
    fn entry(self) -> Self::Entry;
    /// The number of what is in an index.
    fn number_of(entry: Self::Entry) -> i64;
}

impl Number for i64 {
    type Entry = Self;
    fn of(number: i64) -> Self {
        number
    }
    fn number(self) -> i64 {
        self
    }
    fn entry(self) -> Self {
        self
    }
    fn number_of(entry: Self) -> i64 {
        entry
    }
}

impl Number for Padded {
    type Entry = UpTo<str, 40>;
    fn of(number: i64) -> Self {
        Self(number)
    }
    fn number(self) -> i64 {
        self.0
    }
    fn entry(self) -> Self::Entry {
        self.key_up_to()
    }
    fn number_of(entry: Self::Entry) -> i64 {
        Self::of_text(&entry).0
    }
}

/// The test tables: the same columns over different indexes, and with a value that is not in its row.
pub trait Tables: Send + Sync + 'static {
    /// Whether no two rows may have equal values, or equal others.
    const UNIQUE: bool = false;
    /// It is run over one of so many cases, since other tables with its indexes have them all.
    const ONE_OF: usize = 1;
    /// The row type.
    type Row: Table<Key = u64>;
    /// What stores the value.
    type Value: Number;
    /// The secondary index on `value`.
    type ByValue: Index<
            Table = Self::Row,
            Key = (<Self::Value as Number>::Entry, u64),
            Columns = <Self::Value as Number>::Entry,
        >;
    /// The column `value`.
    const VALUE: Column<Self::Row, Self::Value>;
    /// The column `other`, in a group of its own.
    const OTHER: Column<Self::Row, i64>;
    /// How many entries its unique indexes have, if it has such.
    fn unique_entries(_tx: &mut impl ReadTransaction) -> Result<Vec<usize>> {
        Ok(Vec::new())
    }
    /// A row.
    fn row(key: u64, value: i64, other: i64) -> Self::Row;
    /// A row's columns.
    fn parts(row: &Self::Row) -> (u64, i64, i64);
    /// The rows in a range of keys, of a tree.
    fn scan(
        tx: &mut impl ReadTransaction,
        low: u64,
        high: u64,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(u64, i64, i64)>> {
        let scan = Scan::<Self::Row>::range(low..=high).limit(limit);
        let rows = tx.collect(if reverse { scan.reverse() } else { scan })?;
        Ok(rows.iter().map(Self::parts).collect())
    }

    /// A row's value.
    fn value(tx: &mut impl ReadTransaction, key: u64) -> Result<Option<i64>> {
        Ok(tx.get_columns(key, Self::VALUE)?.map(Number::number))
    }

    /// Changes a row's value.
    fn change<R>(tx: &mut impl Transaction, key: u64, change: impl FnOnce(&mut i64) -> R) -> Result<R> {
        tx.update_columns(key, Self::VALUE, |value| {
            let mut number = value.number();
            let result = change(&mut number);
            *value = Self::Value::of(number);
            result
        })
    }

    /// The values and keys in the secondary index, of values in a range, in the order of the entries.
    fn entries(tx: &mut impl ReadTransaction, values: RangeInclusive<i64>) -> Result<Vec<(i64, u64)>> {
        let mut entries = Vec::new();
        let place = |value: i64, key: u64| (Self::Value::of(value).entry(), key);
        let scan = Scan::<Self::ByValue>::range(place(*values.start(), 0)..=place(*values.end(), u64::MAX));
        tx.scan_index(scan, |(entry, in_entry), key| {
            assert_eq!(in_entry, key, "an index entry leads to the row that it was made for");
            entries.push((Self::Value::number_of(entry), key));
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }
}

/// The table with a B+tree.
pub struct Ordered;
/// The table with a hash index.
pub struct Hashed;
/// The table with unique indexes.
pub struct Unique;
/// The table of strings.
pub struct Strings;

impl Tables for Ordered {
    type Row = OrderedRow;
    type Value = i64;
    type ByValue = OrderedByValue;
    const VALUE: Column<OrderedRow, i64> = OrderedRow::value;
    const OTHER: Column<OrderedRow, i64> = OrderedRow::other;

    fn row(key: u64, value: i64, other: i64) -> OrderedRow {
        OrderedRow { key, value, other }
    }

    fn parts(row: &OrderedRow) -> (u64, i64, i64) {
        (row.key, row.value, row.other)
    }

    fn scan(
        tx: &mut impl ReadTransaction,
        low: u64,
        high: u64,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(u64, i64, i64)>> {
        let mut found = Vec::new();
        let scan = Scan::<OrderedRow>::range(low..=high).limit(limit);
        tx.scan(if reverse { scan.reverse() } else { scan }, |row| {
            found.push(Self::parts(&row));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }
}

impl Tables for Unique {
    const UNIQUE: bool = true;
    type Row = UniqueRow;
    type Value = i64;
    type ByValue = EntryByValue;
    const VALUE: Column<UniqueRow, i64> = UniqueRow::value;
    const OTHER: Column<UniqueRow, i64> = UniqueRow::other;

    fn unique_entries(tx: &mut impl ReadTransaction) -> Result<Vec<usize>> {
        let (mut values, mut others) = (0, 0);
        tx.scan_index(Scan::<EntryByOwnValue>::all(), |_, _| {
            values += 1;
            ControlFlow::Continue(())
        })?;
        tx.scan_index(Scan::<EntryByOther>::all(), |_, _| {
            others += 1;
            ControlFlow::Continue(())
        })?;
        Ok(vec![values, others])
    }

    fn row(key: u64, value: i64, other: i64) -> UniqueRow {
        UniqueRow { key, value, other }
    }

    fn parts(row: &UniqueRow) -> (u64, i64, i64) {
        (row.key, row.value, row.other)
    }
}

impl Tables for Strings {
    const ONE_OF: usize = 6;
    type Row = StringRow;
    type Value = Padded;
    type ByValue = StringByValue;
    const VALUE: Column<StringRow, Padded> = StringRow::value;
    const OTHER: Column<StringRow, i64> = StringRow::other;

    fn row(key: u64, value: i64, other: i64) -> StringRow {
        StringRow { key, value: Padded(value), other }
    }

    fn parts(row: &StringRow) -> (u64, i64, i64) {
        (row.key, row.value.0, row.other)
    }
}

impl Tables for Hashed {
    type Row = HashedRow;
    type Value = i64;
    type ByValue = HashedByValue;
    const VALUE: Column<HashedRow, i64> = HashedRow::value;
    const OTHER: Column<HashedRow, i64> = HashedRow::other;

    fn row(key: u64, value: i64, other: i64) -> HashedRow {
        HashedRow { key, value, other }
    }

    fn parts(row: &HashedRow) -> (u64, i64, i64) {
        (row.key, row.value, row.other)
    }

    /// Without order, a range is its keys one by one, the absent ones too.
    fn scan(
        tx: &mut impl ReadTransaction,
        low: u64,
        high: u64,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(u64, i64, i64)>> {
        let mut found = Vec::new();
        let mut look = |key: u64| -> Result<()> {
            if found.len() < limit
                && let Some(row) = tx.get::<HashedRow>(key)?
            {
                found.push(Self::parts(&row));
            }
            Ok(())
        };
        if low <= high {
            let high = high.min(script::KEYS);
            if reverse {
                (low..=high).rev().try_for_each(&mut look)?
            } else {
                (low..=high).try_for_each(&mut look)?
            }
        }
        Ok(found)
    }
}

/// A database for a test, with the test tables made.
pub(crate) fn open(kind: Kind) -> Database {
    open_at(kind, Isolation::Serializable)
}

/// The same, whose transactions run at an isolation level.
pub(crate) fn open_at(kind: Kind, level: Isolation) -> Database {
    let sessions = kind.sessions_max().min(16);
    let builder = Database::builder().protocol(kind).sessions(sessions);
    let builder = builder.isolation(level);
    builder
        .table::<OrderedRow>(64)
        .table::<HashedRow>(64)
        .table::<UniqueRow>(64)
        .table::<StringRow>(64)
        .open()
        .expect("the settings are lawful")
}

/// Brings a table to these rows, and no others among the scripts' keys.
pub(crate) fn reset<T: Tables>(db: &Database, rows: &[(u64, i64, i64)]) {
    let mut session = db.session().expect("a session is free");
    session
        .run(|tx| {
            for key in 0..=script::KEYS {
                tx.delete::<T::Row>(key)?;
            }
            rows.iter().try_for_each(|(key, value, other)| tx.insert(T::row(*key, *value, *other)))
        })
        .expect("resetting conflicts with nobody for long");
}

/// The rows of a table among the scripts' keys.
pub(crate) fn all_rows<T: Tables>(db: &Database) -> Vec<(u64, i64, i64)> {
    let mut session = db.session().expect("a session is free");
    session
        .run(|tx| T::scan(tx, 0, script::KEYS, false, usize::MAX))
        .expect("reading conflicts with nobody for long")
}

/// Panics unless the secondary index holds exactly the entries of the rows.
pub(crate) fn check_index<T: Tables>(db: &Database, rows: &[(u64, i64, i64)]) {
    let mut session = db.session().expect("a session is free");
    let (entries, unique) = session
        .run(|tx| Ok((T::entries(tx, i64::MIN..=i64::MAX)?, T::unique_entries(tx)?)))
        .expect("reading conflicts with nobody for long");
    let mut expected: Vec<(i64, u64)> = rows.iter().map(|(key, value, _)| (*value, *key)).collect();
    expected.sort_unstable();
    assert_eq!(entries, expected, "the index and its table disagree");
    assert!(unique.iter().all(|entries| *entries == rows.len()), "{unique:?} entries of {} rows", rows.len());
}
