//! The eager language of transactions: ordinary Rust over [`Transaction`].

use crate::error::Result;
use crate::table::{Addable, Column, Columns, Index, Relation, Row, Scan, Table};
use std::ops::ControlFlow;

/// What a transaction, and a snapshot, can read. A procedure that only reads is a function over
/// `&mut impl ReadTransaction`: it runs in a transaction as well as on a
/// `Snapshot`.
///
/// Every method may return [`Error::Conflict`](crate::Error::Conflict) in a transaction, never on a
/// snapshot: hand it on with `?`. After it, and after every error of which
/// [`Error::ends_transaction`](crate::Error::ends_transaction) says so, a transaction can only be dropped; it will not
/// commit. After any other, such as [`Misuse::DuplicateKey`](crate::Misuse::DuplicateKey), it goes on: the method did
/// nothing, and its error is an answer that is checked at the commit like everything else that was read.
pub trait ReadTransaction {
    /// For `#[procedure]`: the next access is at this site, counted from the base that
    /// [`enter`](Self::enter) moves.
    #[doc(hidden)]
    #[inline(always)]
    fn at(&mut self, site: u16) -> &mut Self {
        let _ = site;
        self
    }

    /// For `#[procedure]`: a procedure is called whose first site is this many after the present base.
    #[doc(hidden)]
    #[inline(always)]
    fn enter(&mut self, sites: u16) {
        let _ = sites;
    }

    /// For `#[procedure]`: the call that [`enter`](Self::enter) announced with this number is over.
    #[doc(hidden)]
    #[inline(always)]
    fn leave(&mut self, sites: u16) {
        let _ = sites;
    }

    /// The columns of the row with `key`, or `None`.
    fn get_columns<C: Columns>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
    ) -> Result<Option<C::Value>>;

    /// Says which columns of which rows will be used soon, where many are known: their cache misses
    /// then overlap. A hint without effect on what the transaction sees.
    fn prefetch<C: Columns>(&mut self, rows: impl Iterator<Item = (<C::Table as Relation>::Key, C)> + Clone) {
        let _ = rows;
    }

    /// Visits columns of the rows in a range, in order, until the range or the limit is exhausted
    /// or `visit` breaks. Own writes are seen. No key can appear in the visited part unnoticed.
    fn scan_columns<C: Columns>(
        &mut self,
        scan: Scan<C::Table>,
        columns: C,
        visit: impl FnMut(<C::Table as Relation>::Key, C::Value) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Visits the entries of a secondary index in a range: index key and primary key.
    fn scan_index<I: Index>(
        &mut self,
        scan: Scan<I>,
        visit: impl FnMut(I::Key, <I::Table as Relation>::Key) -> ControlFlow<()>,
    ) -> Result<()>;

    /// The primary key of the first row whose indexed columns equal `columns`: the only one, if
    /// the index is unique.
    fn find_key<I: Index>(&mut self, columns: I::Columns) -> Result<Option<<I::Table as Relation>::Key>>;

    /// The row with `key`, or `None`.
    #[inline]
    fn get<T: Table>(&mut self, key: T::Key) -> Result<Option<T>> {
        self.get_columns(key, Row::<T>::new())
    }

    /// Visits the rows in a range; see [`ReadTransaction::scan_columns`].
    #[inline]
    fn scan<T: Table>(&mut self, scan: Scan<T>, mut visit: impl FnMut(T) -> ControlFlow<()>) -> Result<()> {
        self.scan_columns(scan, Row::<T>::new(), |_, row| visit(row))
    }

    /// The rows in a range, collected.
    fn collect<T: Table>(&mut self, scan: Scan<T>) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        self.scan(scan, |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// The first row in a range.
    fn first<T: Table>(&mut self, scan: Scan<T>) -> Result<Option<T>> {
        let mut first = None;
        self.scan(scan.limit(1), |row| {
            first = Some(row);
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    /// The first row whose indexed columns equal `columns`: the only one, if the index is unique.
    fn find<I: Index>(&mut self, columns: I::Columns) -> Result<Option<I::Table>> {
        match self.find_key::<I>(columns)? {
            Some(key) => self.get(key),
            None => Ok(None),
        }
    }
}

/// A savepoint that is open: its number, the outermost being 0.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(pub usize);

/// What a running transaction can do. A procedure is a function over `&mut impl Transaction`, and is
/// compiled once for all protocols.
///
/// Reading is in [`ReadTransaction`]; what is said there of errors holds here.
///
/// **What a body may assume.** Reads give committed values or the transaction's own writes. Under
/// the optimistic protocols two reads may show different moments until the transaction has
/// committed (it will then fail and be retried), so a body must not loop or index on the strength
/// of a relation between two rows that it did not check.
///
/// A body is run again after a conflict, so it must have no effect but through the transaction.
///
/// **What cannot be met**: an insert of a row that is there, an update of one that is not. It is answered with a
/// [`Misuse`](crate::Misuse), has done nothing, and the transaction goes on; so an insert where the row may be there
/// already is a matter of looking at the error.
///
/// ```
/// use heddledb::{Database, Error, Misuse, Table, Transaction};
/// # #[derive(Table, Clone, Copy)]
/// # struct Account { #[key] id: u64, balance: i64 }
///
/// let db = Database::in_memory();
/// let mut session = db.session()?;
/// session.run(|tx| match tx.insert(Account { id: 1, balance: 100 }) {
///     Err(Error::Misuse(misuse)) if matches!(*misuse, Misuse::DuplicateKey { .. }) => {
///         tx.add(Account::balance, 1, 100)
///     }
///     other => other,
/// })?;
/// # Ok::<(), Error>(())
/// ```
pub trait Transaction: ReadTransaction {
    /// For [`savepoint`](Self::savepoint): opens one.
    #[doc(hidden)]
    fn save(&mut self) -> Result<Savepoint>;

    /// For [`savepoint`](Self::savepoint): closes it, and those within it.
    #[doc(hidden)]
    fn keep(&mut self, savepoint: Savepoint);

    /// For [`savepoint`](Self::savepoint): closes it and those within it, and takes back what was written since.
    #[doc(hidden)]
    fn roll_back(&mut self, savepoint: Savepoint) -> Result<()>;

    /// Runs `body`, and takes back all that it has written if it returns an error. The transaction goes on after that,
    /// as after a method that could not be met; only after a conflict it does not. What `body` has read counts as read
    /// either way. Savepoints may be within each other.
    ///
    /// Costs nothing for what is only read, some words for each row that was written before it and is written again
    /// in it, and as much as was written to take it back.
    ///
    /// # Errors
    /// What `body` returns; conflicts; [`Misuse::SavepointInProcedure`](crate::Misuse::SavepointInProcedure) in a call of
    /// a procedure, whose pieces others may have seen.
    ///
    /// ```
    /// use heddledb::{Database, Error, ReadTransaction, Table, Transaction};
    /// # #[derive(Table, Clone, Copy)]
    /// # struct Account { #[key] id: u64, balance: i64 }
    ///
    /// let db = Database::in_memory();
    /// let mut session = db.session()?;
    /// session.run(|tx| {
    ///     tx.insert(Account { id: 1, balance: 100 })?;
    ///     let paid = tx.savepoint(|tx| {
    ///         let left = tx.update_columns(1, Account::balance, |left| { *left -= 130; *left })?;
    ///         if left < 0 { Err(Error::user("insufficient funds")) } else { Ok(()) }
    ///     });
    ///     assert!(paid.is_err());
    ///     assert_eq!(tx.get_columns(1, Account::balance)?, Some(100));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    fn savepoint<R>(&mut self, body: impl FnOnce(&mut Self) -> Result<R>) -> Result<R>
    where
        Self: Sized,
    {
        let savepoint = self.save()?;
        match body(self) {
            Ok(result) => {
                self.keep(savepoint);
                Ok(result)
            }
            // There is nothing to go back to.
            Err(error) if error.conflict().is_some() => Err(error),
            Err(error) => {
                self.roll_back(savepoint)?;
                Err(error)
            }
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`Misuse::DuplicateKey`](crate::Misuse::DuplicateKey) and
    /// [`Misuse::DuplicateEntry`](crate::Misuse::DuplicateEntry).
    fn insert<T: Table>(&mut self, row: T) -> Result<()>;

    /// Adds a row or replaces the one with its key; true if it replaced.
    fn upsert<T: Table>(&mut self, row: T) -> Result<bool>;

    /// Reads columns, lets `change` alter them, writes them back, and returns what it returned.
    ///
    /// # Errors
    /// [`Misuse::NotFound`](crate::Misuse::NotFound), [`Misuse::KeyChanged`](crate::Misuse::KeyChanged).
    fn update_columns<C: Columns, R>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        change: impl FnOnce(&mut C::Value) -> R,
    ) -> Result<R>;

    /// Overwrites columns without reading them.
    ///
    /// The write conflicts with readers and writers of the column groups, but not with writers
    /// before it. As for [`Transaction::update_columns`], the row must exist.
    fn set_columns<C: Columns>(
        &mut self,
        key: <C::Table as Relation>::Key,
        columns: C,
        value: C::Value,
    ) -> Result<()>;

    /// Adds `delta` to a column, wrapping, without reading it: two adds commute.
    fn add<T: Table, V: Addable>(&mut self, column: Column<T, V>, key: T::Key, delta: V) -> Result<()>;

    /// Removes the row with `key`; false if there is none.
    fn delete<T: Table>(&mut self, key: T::Key) -> Result<bool>;

    /// Reads the row with `key`, lets `change` alter it, and writes the changed column groups back.
    #[inline]
    fn update<T: Table, R>(&mut self, key: T::Key, change: impl FnOnce(&mut T) -> R) -> Result<R> {
        self.update_columns(key, Row::<T>::new(), change)
    }
}
