//! Records what a transaction sees and does, through the public API, under any protocol.
//!
//! The tables hold nothing but versions: every write puts a number into its row that no other write
//! uses, so a read names the write that it saw. Each update and delete reads the row first, so every
//! version is known to follow the one that its writer saw.

use crate::history::{ABSENT, Op, Version};
use heddledb::{Result, Scan, Table, Transaction};
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

impl<'a, T: Transaction> Recorder<'a, T> {
    /// Records `tx` into `ops`; versions are drawn from `next` upwards.
    pub fn new(tx: &'a mut T, ops: &'a mut Vec<Op>, next: &'a mut Version) -> Self {
        Self { tx, ops, next }
    }

    fn fresh(&mut self) -> Version {
        *self.next += 1;
        *self.next
    }

    /// Reads the version of a row.
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn read(&mut self, table: u8, key: u64) -> Result<Version> {
        let version = match table {
            ORDERED => self.tx.get_columns(key, Ordered::version)?,
            _ => self.tx.get_columns(key, Hashed::version)?,
        };
        self.ops.push(Op::Read(table, key, version.unwrap_or(ABSENT)));
        Ok(version.unwrap_or(ABSENT))
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

    /// Deletes a row, if it is there.
    ///
    /// # Errors
    /// As for [`Transaction::delete`].
    pub fn delete(&mut self, table: u8, key: u64) -> Result<()> {
        if self.read(table, key)? == ABSENT {
            return Ok(());
        }
        let there = match table {
            ORDERED => self.tx.delete::<Ordered>(key)?,
            _ => self.tx.delete::<Hashed>(key)?,
        };
        if there {
            self.ops.push(Op::Delete(table, key));
        }
        Ok(())
    }

    /// Scans keys `low..=high` of the ordered table.
    ///
    /// # Errors
    /// As for [`Transaction::scan_columns`].
    pub fn scan(&mut self, low: u64, high: u64, reverse: bool) -> Result<()> {
        let scan = Scan::<Ordered>::range(low..=high);
        let mut rows = Vec::new();
        self.tx.scan_columns(if reverse { scan.reverse() } else { scan }, Ordered::version, |key, version| {
            rows.push((key, version));
            ControlFlow::Continue(())
        })?;
        self.ops.push(Op::Scan(ORDERED, low, high, rows));
        Ok(())
    }
}
