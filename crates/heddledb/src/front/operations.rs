//! What a body does in a transaction.

use super::txn::{Txn, note_met, whole};
use crate::error::{Conflict, Result};
use crate::reading::{Reading, Wanted};
use crate::seam::{Patch, Savepoint, Summand};
use crate::table::{Addable, Column, Columns, Relation, Row, Table, check_key, encode_key};
use crate::transaction::Transaction;

impl Transaction for Txn {
    fn save(&mut self) -> Result<Savepoint> {
        self.worker.save()
    }

    fn keep(&mut self, savepoint: Savepoint) {
        self.worker.keep(savepoint);
    }

    fn roll_back(&mut self, savepoint: Savepoint) -> Result<()> {
        let result = self.worker.roll_back(savepoint);
        self.guard(result)
    }

    fn insert<T: Table>(&mut self, row: T) -> Result<()> {
        self.declared(|made| made.insert::<T>());
        let result = match self.insert_with_entries(&row) {
            Ok(false) => self.duplicate_key::<T>(row.key()),
            inserted => inserted.map(|_| ()),
        };
        self.guard(result)
    }

    fn upsert<T: Table>(&mut self, row: T) -> Result<bool> {
        self.declared(|made| made.upsert::<T>());
        self.put_row(row)
    }

    #[inline]
    fn update_columns<C: Columns, R>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        change: impl FnOnce(&mut C::Value) -> R,
    ) -> Result<R> {
        self.declared(|made| made.update(columns));
        check_key::<C::Table>(&key)?;
        let result = self.update_columns_of(key, columns, change);
        self.guard(result)
    }

    #[inline]
    fn set_columns<C: Columns>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        value: C::Value,
    ) -> Result<()> {
        self.declared(|made| made.set(columns));
        check_key::<C::Table>(&key)?;
        let watched = <C::Table as Table>::INDEXED | <C::Table as Table>::KEY_COLUMNS;
        let result = if columns.have_slots() || columns.ordinals() & watched != 0 {
            self.update_columns_of(key, columns, |old| *old = value)
        } else {
            self.overwrite(key, columns, &value)
        };
        self.guard(result)
    }

    #[inline]
    fn add<T: Table, V: Addable>(&mut self, column: Column<T, V>, key: T::Key, delta: V) -> Result<()> {
        self.declared(|made| made.add(column));
        check_key::<T>(&key)?;
        if Columns::ordinals(&column) & (T::INDEXED | T::KEY_COLUMNS) != 0 {
            // An index entry must move, so the value must be known.
            let result = self.update_columns_of(key, column, |value| *value = value.plus(delta));
            return self.guard(result);
        }
        let wanted = Wanted::of(&column);
        let words = encode_key(&key);
        let access = wanted.access::<T>(&words, self.site, false);
        let summand = Summand::of(delta.bits(), V::TYPE.bytes(), column.offset());
        let patch = Patch::Add { word: column.offset() / 8, summand };
        let result = match self.worker.patch(&access, patch) {
            Ok(true) => Ok(()),
            Ok(false) => self.not_found::<T, ()>(key),
            Err(error) => Err(note_met(&mut self.met, &access, error)),
        };
        self.guard(result)
    }

    fn delete<T: Table>(&mut self, key: T::Key) -> Result<bool> {
        self.declared(|made| made.delete::<T>());
        check_key::<T>(&key)?;
        let result = self.delete_row::<T>(&encode_key(&key));
        self.guard(result)
    }
}

impl Txn {
    /// Adds a row or replaces the one with its key; true if it replaced. Deferred puts do so in tables, too, of whose rows procedures
    /// hold that each has a key of its own.
    pub(super) fn put_row<T: Table>(&mut self, row: T) -> Result<bool> {
        let key = encode_key(&row.key());
        let replaced = self.update_if_there(&key, Row::<T>::new(), |old| *old = row.clone());
        if self.guard(replaced)?.is_some() {
            return Ok(true);
        }
        let added = match self.insert_with_entries(&row) {
            // Another transaction has added it since it was looked for. Levels that check no gaps would commit what follows
            // from that, so it is a conflict here.
            Ok(false) => {
                let wanted = whole::<T>();
                let access = wanted.access::<T>(&key, self.site, false);
                Err(note_met(&mut self.met, &access, Conflict::Phantom.into()))
            }
            inserted => inserted.map(|_| false),
        };
        self.guard(added)
    }
}
