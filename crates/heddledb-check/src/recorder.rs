//! Records what a transaction sees and does, through the public API, under any protocol.
//!
//! The tables hold nothing but versions: every write puts a number into its row that no other write
//! uses, so a read names the write that it saw.
//!
//! What an operation tells by the way is recorded as a read too: the version that an update saw, the
//! absence that an insert relied on. So the reads inside the operations are judged, not only those of
//! `get`. [`Recorder::overwrite`], [`Recorder::upsert`] and [`Recorder::remove`] of a row that is
//! there tell nothing of the version before; the commit stamps place them.

use crate::additions::{self, COUNTERS, Counter};
use crate::history::{ABSENT, Op, Version};
use heddledb::procedure::Declaration;
use heddledb::table::{ColumnType, ColumnValue, Words, WordsMut};
use heddledb::{Builder, Misuse, ReadTransaction, Result, Scan, Table, Transaction};
use std::ops::ControlFlow;

/// A row of the ordered table (table 0).
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "history_ordered")]
pub struct Ordered {
    #[key]
    pub(crate) key: u64,
    pub(crate) version: u64,
}

/// A row of the hashed table (table 1).
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "history_hashed", hash, held)]
pub struct Hashed {
    #[key]
    pub(crate) key: u64,
    pub(crate) version: u64,
}

/// A row of the ordered table of strings ([`STRINGS`]).
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "history_strings")]
pub struct Strings {
    #[key]
    pub(crate) key: u64,
    pub(crate) version: Named,
}

/// A version that is stored as a string, of 16 bytes or more, which has no room in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named(Version);

impl Named {
    fn text(self) -> String {
        let length = (self.0 % 40) as usize;
        format!("this is version {}{:.<length$}", self.0, "")
    }
}

impl ColumnValue for Named {
    const TYPE: ColumnType = String::TYPE;
    /// What is no text of a version is one that nobody writes.
    fn load(source: &impl Words, offset: usize) -> Self {
        let text = String::load(source, offset);
        let digits = |text: &str| text.strip_prefix("this is version ")?.trim_end_matches('.').parse().ok();
        digits(&text).map(Self).filter(|version| version.text() == text).unwrap_or(Self(Version::MAX))
    }
    fn store(&self, target: &mut impl WordsMut, offset: usize) {
        self.text().store(target, offset);
    }
}

/// A row that calls add to. What it holds is no version: additions have no order, and each counts once.
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "history_sums")]
pub struct Sum {
    /// Its key.
    #[key]
    pub key: u64,
    /// What was added.
    pub sum: i64,
}

/// How a table stores versions.
trait Stored {
    fn of(version: Version) -> Self;
    fn version(self) -> Version;
}

impl Stored for Version {
    fn of(version: Version) -> Self {
        version
    }
    fn version(self) -> Version {
        self
    }
}

impl Stored for Named {
    fn of(version: Version) -> Self {
        Self(version)
    }
    fn version(self) -> Version {
        self.0
    }
}

/// The number of the first ordered table.
pub const ORDERED: u8 = 0;
/// The number of the first hashed table.
pub const HASHED: u8 = 1;
/// How many tables of numbers there are: even ones are ordered, odd ones hashed.
pub const TABLES: u8 = 4;
/// The number of the ordered table of strings. No intention is about it, since what is deferred is plain data.
pub const STRINGS: u8 = 4;

macro_rules! more_tables {
    ($($row:ident $name:literal $($hash:ident)?;)*) => {
        $(
            /// A row of one more table, for procedures of several pieces.
            #[derive(Table, Clone, Copy, Debug)]
            #[table(name = $name $(, $hash)?)]
            pub struct $row {
                #[key]
                pub(crate) key: u64,
                pub(crate) version: u64,
            }
        )*
    };
}
more_tables! {
    Ordered2 "history_ordered_2";
    Hashed3 "history_hashed_3" hash;
}

/// Evaluates an expression with the row type of a table of numbers under a name.
macro_rules! with_table {
    ($table:expr, $row:ident => $body:expr) => {{
        macro_rules! with {
            ($of:ident) => {{
                type $row = $of;
                $body
            }};
        }
        match $table {
            0 => with!(Ordered),
            1 => with!(Hashed),
            2 => with!(Ordered2),
            _ => with!(Hashed3),
        }
    }};
}

pub(crate) use with_table;

/// The same for any table.
macro_rules! with_any {
    ($table:expr, $row:ident => $body:expr) => {
        if $table == STRINGS {
            type $row = Strings;
            $body
        } else {
            with_table!($table, $row => $body)
        }
    };
}

/// Names the tables of numbers to a database that is about to be opened.
pub fn tables(builder: Builder) -> Builder {
    (0..TABLES).fold(builder, |builder, table| with_table!(table, Row => builder.table::<Row>(0)))
}

/// A transaction that is being recorded.
pub struct Recorder<'a, T> {
    tx: &'a mut T,
    ops: &'a mut Vec<Op>,
    /// The next version to write.
    next: &'a mut Version,
    /// It says before each access at which of the sites of [`declare_all`] that is.
    by_access: bool,
}

/// What may be done to a row.
#[derive(Clone, Copy)]
enum Does {
    Get,
    Update,
    Set,
    Insert,
    Upsert,
    Delete,
}

/// How many of these there are.
const DOES: u16 = Does::Delete as u16 + 1;
/// The site of scans of the first ordered table, behind all that is done to rows.
const SCANS: u16 = TABLES as u16 * DOES;
/// The site of additions, behind the scans.
const ADDS: u16 = SCANS + TABLES.div_ceil(2) as u16;
/// How many sites [`declare_all`] makes.
pub const ALL_SITES: u16 = ADDS + 1;

/// Declares all that a recorder may do to tables of numbers, any number of times.
pub fn declare_all(declaration: &mut Declaration) {
    declaration.repeat(|access| {
        for table in 0..TABLES {
            // In the order of `Does`.
            with_table!(table, Row => {
                access.get(Row::version);
                access.update(Row::version);
                access.set(Row::version);
                access.insert::<Row>();
                access.upsert::<Row>();
                access.delete::<Row>();
            });
        }
        for table in (0..TABLES).filter(|table| table % 2 == ORDERED) {
            with_table!(table, Row => access.scan(Row::version));
        }
        access.add(Sum::sum);
    });
}

impl<'a, T: ReadTransaction> Recorder<'a, T> {
    /// Records `tx` into `ops`; versions are drawn from `next` upwards.
    pub fn new(tx: &'a mut T, ops: &'a mut Vec<Op>, next: &'a mut Version) -> Self {
        Self { tx, ops, next, by_access: false }
    }

    /// One that says before each access where in [`declare_all`] it is.
    pub fn by_access(self) -> Self {
        Self { by_access: true, ..self }
    }

    fn here(&mut self, does: Does, table: u8) {
        self.here_at(u16::from(table) * DOES + does as u16);
    }

    fn here_at(&mut self, site: u16) {
        if self.by_access {
            self.tx.at(site);
        }
    }

    /// Reads the version of a row.
    ///
    /// # Errors
    /// As for [`ReadTransaction::get`].
    pub fn read(&mut self, table: u8, key: u64) -> Result<Version> {
        self.here(Does::Get, table);
        let version = with_any!(table, Row => self.tx.get_columns(key, Row::version)?.map(Stored::version));
        self.ops.push(Op::Read(table, key, version.unwrap_or(ABSENT)));
        Ok(version.unwrap_or(ABSENT))
    }

    /// Reads a counter: which additions it has.
    ///
    /// # Errors
    /// As for [`ReadTransaction::get`].
    pub fn count(&mut self, counter: u64) -> Result<()> {
        let value = match counter % 2 {
            0 => self.tx.get_columns(counter / 2, Counter::one)?,
            _ => self.tx.get_columns(counter / 2, Counter::two)?,
        };
        self.ops.extend(additions::seen(counter, value.unwrap_or(0)));
        Ok(())
    }

    /// The next operations stand at this site of a procedure.
    pub fn at(&mut self, site: u16) {
        self.tx.at(site);
    }

    /// Looks at all tables: scans the ordered ones up to `keys`, reads the first `hashed` keys of the others.
    ///
    /// # Errors
    /// As for [`ReadTransaction::get`].
    pub fn everything(&mut self, keys: u64, hashed: u64) -> Result<()> {
        for table in 0..TABLES {
            match table % 2 == ORDERED {
                true => self.scan(table, 0, keys, false, usize::MAX)?,
                false => (0..hashed).try_for_each(|key| self.read(table, key).map(|_| ()))?,
            }
        }
        Ok(())
    }

    /// Scans keys `low..=high` of an ordered table, up to `limit` rows. Where the limit ends the
    /// scan, only the keys up to the last row seen are recorded as scanned.
    ///
    /// # Errors
    /// As for [`ReadTransaction::scan_columns`].
    pub fn scan(&mut self, table: u8, low: u64, high: u64, reverse: bool, limit: usize) -> Result<()> {
        let mut rows = Vec::new();
        let mut see = |key, version| {
            rows.push((key, version));
            ControlFlow::Continue(())
        };
        macro_rules! scan {
            ($row:ident) => {{
                let scan = Scan::<$row>::range(low..=high).limit(limit);
                self.tx.scan_columns(
                    if reverse { scan.reverse() } else { scan },
                    $row::version,
                    |key, version| see(key, version.version()),
                )?
            }};
        }
        self.here_at(SCANS + u16::from(table / 2));
        match table {
            0 => scan!(Ordered),
            STRINGS => scan!(Strings),
            _ => scan!(Ordered2),
        }
        let (low, high) = match rows.last() {
            Some((last, _)) if rows.len() == limit && reverse => (*last, high),
            Some((last, _)) if rows.len() == limit => (low, *last),
            _ => (low, high),
        };
        self.ops.push(Op::Scan(table, low, high, rows));
        Ok(())
    }
}

impl<T: Transaction> Recorder<'_, T> {
    fn fresh(&mut self) -> Version {
        *self.next += 1;
        *self.next
    }

    /// Writes a new version of a row, which is inserted if it is not there.
    ///
    /// # Errors
    /// As for [`Transaction::insert`] and [`Transaction::update_columns`].
    pub fn write(&mut self, table: u8, key: u64) -> Result<()> {
        let old = self.read(table, key)?;
        let version = self.fresh();
        self.here(if old == ABSENT { Does::Insert } else { Does::Update }, table);
        with_any!(table, Row => match old {
            ABSENT => self.tx.insert(Row { key, version: Stored::of(version) })?,
            _ => self.tx.update_columns(key, Row::version, |place| *place = Stored::of(version))?,
        });
        self.ops.push(Op::Write(table, key, version));
        Ok(())
    }

    /// Writes a new version of a row without reading it; does nothing where there is none.
    ///
    /// # Errors
    /// As for [`Transaction::set_columns`].
    pub fn overwrite(&mut self, table: u8, key: u64) -> Result<()> {
        let version = self.fresh();
        self.here(Does::Set, table);
        with_any!(table, Row => self.tx.set_columns(key, Row::version, Stored::of(version))?);
        self.ops.push(Op::Write(table, key, version));
        Ok(())
    }

    /// Writes a new version of a row that is there, and records the version that the update saw.
    ///
    /// # Errors
    /// As for [`Transaction::update_columns`].
    pub fn update(&mut self, table: u8, key: u64) -> Result<()> {
        let version = self.fresh();
        self.here(Does::Update, table);
        let old = with_any!(table, Row => {
            let replace = |place: &mut _| std::mem::replace(place, Stored::of(version));
            self.tx.update_columns(key, Row::version, replace)?.version()
        });
        self.ops.extend([Op::Read(table, key, old), Op::Write(table, key, version)]);
        Ok(())
    }

    /// As [`Recorder::update`], but where there is no row it goes on.
    ///
    /// # Errors
    /// As for [`Transaction::update_columns`], without those of a missing row.
    pub fn update_if_there(&mut self, table: u8, key: u64) -> Result<()> {
        match self.update(table, key) {
            Err(error) if matches!(error.misuse(), Some(Misuse::NotFound { .. })) => {
                self.ops.push(Op::Read(table, key, ABSENT));
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// As [`Recorder::insert`], but where there is a row it reads that and goes on.
    ///
    /// # Errors
    /// As for [`Transaction::insert`], without those of a row that is there.
    pub fn insert_unless_there(&mut self, table: u8, key: u64) -> Result<()> {
        match self.insert(table, key) {
            Err(error) if matches!(error.misuse(), Some(Misuse::DuplicateKey { .. })) => {
                self.read(table, key).map(|_| ())
            }
            outcome => outcome,
        }
    }

    /// Writes a row in a savepoint that is taken back, and reads it in it and after it.
    ///
    /// # Errors
    /// As for [`Recorder::write`], [`Recorder::remove`] and [`Transaction::savepoint`].
    pub fn write_in_vain(&mut self, table: u8, key: u64, removes: bool) -> Result<()> {
        let savepoint = self.tx.save()?;
        match removes {
            true => self.remove(table, key)?,
            false => self.write(table, key)?,
        }
        self.tx.roll_back(savepoint)?;
        // What it has read counts, and the last operation is the one that was taken back, if it was done.
        if matches!(self.ops.last(), Some(Op::Write(..) | Op::Delete(..))) {
            self.ops.pop();
        }
        self.read(table, key).map(|_| ())
    }

    /// Inserts a row without looking first: that it succeeds tells that there was none.
    ///
    /// # Errors
    /// As for [`Transaction::insert`].
    pub fn insert(&mut self, table: u8, key: u64) -> Result<()> {
        let version = self.fresh();
        self.here(Does::Insert, table);
        with_any!(table, Row => self.tx.insert(Row { key, version: Stored::of(version) })?);
        self.ops.extend([Op::Read(table, key, ABSENT), Op::Write(table, key, version)]);
        Ok(())
    }

    /// Adds one to a row of [`Sum`]. It is in no history.
    ///
    /// # Errors
    /// As for [`Transaction::add`].
    pub fn add(&mut self, key: u64) -> Result<()> {
        self.here_at(ADDS);
        self.tx.add(Sum::sum, key, 1)
    }

    /// Makes the addition at a place of a counter, or puts it off, as the site says at which it stands.
    ///
    /// # Errors
    /// As for [`Transaction::add`].
    pub fn put_off(&mut self, counter: u64, place: u64) -> Result<()> {
        let amount = additions::amount(place);
        match counter % 2 {
            0 => self.tx.add(Counter::one, counter / 2, amount)?,
            _ => self.tx.add(Counter::two, counter / 2, amount)?,
        }
        let row = additions::row(counter, place);
        self.ops.push(Op::Write(COUNTERS, row, additions::version(row)));
        Ok(())
    }

    /// Inserts or replaces a row without looking first.
    ///
    /// # Errors
    /// As for [`Transaction::upsert`].
    pub fn upsert(&mut self, table: u8, key: u64) -> Result<()> {
        let version = self.fresh();
        self.here(Does::Upsert, table);
        let replaced = with_any!(table, Row => self.tx.upsert(Row { key, version: Stored::of(version) })?);
        if !replaced {
            self.ops.push(Op::Read(table, key, ABSENT));
        }
        self.ops.push(Op::Write(table, key, version));
        Ok(())
    }

    /// Deletes a row, if it is there, after reading it.
    ///
    /// # Errors
    /// As for [`Transaction::delete`].
    pub fn delete(&mut self, table: u8, key: u64) -> Result<()> {
        match self.read(table, key)? {
            ABSENT => Ok(()),
            _ => self.remove(table, key),
        }
    }

    /// Deletes a row, if it is there, without looking first.
    ///
    /// # Errors
    /// As for [`Transaction::delete`].
    pub fn remove(&mut self, table: u8, key: u64) -> Result<()> {
        self.here(Does::Delete, table);
        let there = with_any!(table, Row => self.tx.delete::<Row>(key)?);
        self.ops.push(if there { Op::Delete(table, key) } else { Op::Read(table, key, ABSENT) });
        Ok(())
    }
}
