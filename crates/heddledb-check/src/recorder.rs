//! Records what a transaction sees and does, through the public API, under any protocol.
//!
//! The tables hold nothing but versions: every write puts a number into its row that no other write
//! uses, so a read names the write that it saw.
//!
//! What an operation tells by the way is recorded as a read too: the version that an update saw, the
//! absence that an insert relied on. So the reads inside the operations are judged, not only those of
//! `get`. [`Recorder::overwrite`], [`Recorder::upsert`] and [`Recorder::remove`] of a row that is
//! there tell nothing of the version before; the commit stamps place them.

use crate::history::{ABSENT, Op, Version};
use heddledb::{ReadTransaction, Result, Scan, Table, Transaction};
use std::ops::ControlFlow;

/// A row of the ordered table (table 0).
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "history_ordered")]
pub struct Ordered {
    #[key]
    key: u64,
    version: u64,
}

/// A row of the hashed table (table 1).
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "history_hashed", hash)]
pub struct Hashed {
    #[key]
    key: u64,
    version: u64,
}

/// The number of the ordered table.
pub const ORDERED: u8 = 0;
/// The number of the hashed table.
pub const HASHED: u8 = 1;

/// A transaction that is being recorded.
pub struct Recorder<'a, T> {
    tx: &'a mut T,
    ops: &'a mut Vec<Op>,
    /// The next version to write.
    next: &'a mut Version,
}

impl<'a, T: ReadTransaction> Recorder<'a, T> {
    /// Records `tx` into `ops`; versions are drawn from `next` upwards.
    pub fn new(tx: &'a mut T, ops: &'a mut Vec<Op>, next: &'a mut Version) -> Self {
        Self { tx, ops, next }
    }

    /// Reads the version of a row.
    ///
    /// # Errors
    /// As for [`ReadTransaction::get`].
    pub fn read(&mut self, table: u8, key: u64) -> Result<Version> {
        let version = match table {
            ORDERED => self.tx.get_columns(key, Ordered::version)?,
            _ => self.tx.get_columns(key, Hashed::version)?,
        };
        self.ops.push(Op::Read(table, key, version.unwrap_or(ABSENT)));
        Ok(version.unwrap_or(ABSENT))
    }

    /// Scans keys `low..=high` of the ordered table, up to `limit` rows. Where the limit ends the
    /// scan, only the keys up to the last row seen are recorded as scanned.
    ///
    /// # Errors
    /// As for [`ReadTransaction::scan_columns`].
    pub fn scan(&mut self, low: u64, high: u64, reverse: bool, limit: usize) -> Result<()> {
        let scan = Scan::<Ordered>::range(low..=high).limit(limit);
        let mut rows = Vec::new();
        self.tx.scan_columns(
            if reverse { scan.reverse() } else { scan },
            Ordered::version,
            |key, version| {
                rows.push((key, version));
                ControlFlow::Continue(())
            },
        )?;
        let (low, high) = match rows.last() {
            Some((last, _)) if rows.len() == limit && reverse => (*last, high),
            Some((last, _)) if rows.len() == limit => (low, *last),
            _ => (low, high),
        };
        self.ops.push(Op::Scan(ORDERED, low, high, rows));
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
        match (table, old) {
            (ORDERED, ABSENT) => self.tx.insert(Ordered { key, version })?,
            (ORDERED, _) => self.tx.update_columns(key, Ordered::version, |place| *place = version)?,
            (_, ABSENT) => self.tx.insert(Hashed { key, version })?,
            _ => self.tx.update_columns(key, Hashed::version, |place| *place = version)?,
        }
        self.ops.push(Op::Write(table, key, version));
        Ok(())
    }

    /// Writes a new version of a row without reading it; does nothing where there is none.
    ///
    /// # Errors
    /// As for [`Transaction::set_columns`].
    pub fn overwrite(&mut self, table: u8, key: u64) -> Result<()> {
        let version = self.fresh();
        let set = match table {
            ORDERED => self.tx.set_columns(key, Ordered::version, version),
            _ => self.tx.set_columns(key, Hashed::version, version),
        };
        set?;
        self.ops.push(Op::Write(table, key, version));
        Ok(())
    }

    /// Writes a new version of a row that is there, and records the version that the update saw.
    ///
    /// # Errors
    /// As for [`Transaction::update_columns`].
    pub fn update(&mut self, table: u8, key: u64) -> Result<()> {
        let version = self.fresh();
        let replace = |place: &mut Version| std::mem::replace(place, version);
        let old = match table {
            ORDERED => self.tx.update_columns(key, Ordered::version, replace)?,
            _ => self.tx.update_columns(key, Hashed::version, replace)?,
        };
        self.ops.extend([Op::Read(table, key, old), Op::Write(table, key, version)]);
        Ok(())
    }

    /// Inserts a row without looking first: that it succeeds tells that there was none.
    ///
    /// # Errors
    /// As for [`Transaction::insert`].
    pub fn insert(&mut self, table: u8, key: u64) -> Result<()> {
        let version = self.fresh();
        match table {
            ORDERED => self.tx.insert(Ordered { key, version })?,
            _ => self.tx.insert(Hashed { key, version })?,
        }
        self.ops.extend([Op::Read(table, key, ABSENT), Op::Write(table, key, version)]);
        Ok(())
    }

    /// Inserts or replaces a row without looking first.
    ///
    /// # Errors
    /// As for [`Transaction::upsert`].
    pub fn upsert(&mut self, table: u8, key: u64) -> Result<()> {
        let version = self.fresh();
        let replaced = match table {
            ORDERED => self.tx.upsert(Ordered { key, version })?,
            _ => self.tx.upsert(Hashed { key, version })?,
        };
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
        let there = match table {
            ORDERED => self.tx.delete::<Ordered>(key)?,
            _ => self.tx.delete::<Hashed>(key)?,
        };
        self.ops.push(if there { Op::Delete(table, key) } else { Op::Read(table, key, ABSENT) });
        Ok(())
    }
}
