//! The eager language of transactions: ordinary Rust over [`Transaction`].

use crate::error::Result;
use crate::table::{Addable, Column, Columns, Index, Page, Relation, Row, Scan, Table};
use std::ops::ControlFlow;

/// What a visitor of rows may return, and what of it says how to go on: nothing, where it goes to the end;
/// [`ControlFlow`], where it may break off; or a [`Result`] of either. An error ends the visit, and is what
/// the scan returns.
#[diagnostic::on_unimplemented(
    message = "a visitor of rows cannot return `{Self}`",
    label = "returns neither `()`, nor `ControlFlow<()>`, nor a `Result` of either",
    note = "end the closure with `;` to visit all rows, or return `ControlFlow::Continue(())` and `ControlFlow::Break(())`; an error is a `heddledb::Error`, which `Error::user` makes of any"
)]
pub trait Onward {
    /// Whether to go on.
    ///
    /// # Errors
    /// What the visitor returned.
    fn onward(self) -> Result<ControlFlow<()>>;
}

impl Onward for () {
    #[inline(always)]
    fn onward(self) -> Result<ControlFlow<()>> {
        Ok(ControlFlow::Continue(()))
    }
}

impl Onward for ControlFlow<()> {
    #[inline(always)]
    fn onward(self) -> Result<ControlFlow<()>> {
        Ok(self)
    }
}

impl Onward for Result<()> {
    #[inline(always)]
    fn onward(self) -> Result<ControlFlow<()>> {
        self.map(ControlFlow::Continue)
    }
}

impl Onward for Result<ControlFlow<()>> {
    #[inline(always)]
    fn onward(self) -> Result<ControlFlow<()>> {
        self
    }
}

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
    /// or `visit` breaks or fails: see [`Onward`]. Own writes are seen. No key can appear in the visited part
    /// unnoticed.
    ///
    /// # Errors
    /// What `visit` returns.
    fn scan_columns<C: Columns, O: Onward>(
        &mut self,
        scan: Scan<C::Table>,
        columns: C,
        visit: impl FnMut(<C::Table as Relation>::Key, C::Value) -> O,
    ) -> Result<()>;

    /// Visits the rows in a range of a table, or of the keys of an index and in its order, each with the key by which it
    /// was found; as [`ReadTransaction::scan_columns`] otherwise.
    ///
    /// By an index, a batch of entries is read, and then their rows, one look-up each: 16 first, later up to 1,024, so
    /// one that breaks off early has read some entries more.
    ///
    /// # Errors
    /// What `visit` returns.
    fn scan_rows<R: Relation, O: Onward>(
        &mut self,
        scan: Scan<R>,
        visit: impl FnMut(R::Key, R::Table) -> O,
    ) -> Result<()>;

    /// Visits the entries of a secondary index in a range, without the rows: index key and primary key.
    ///
    /// # Errors
    /// What `visit` returns.
    fn scan_index<I: Index, O: Onward>(
        &mut self,
        scan: Scan<I>,
        visit: impl FnMut(I::Key, <I::Table as Relation>::Key) -> O,
    ) -> Result<()>;

    /// The primary key of the first row whose indexed columns equal `columns`: the only one, if
    /// the index is unique.
    fn find_key<I: Index>(&mut self, columns: I::Columns) -> Result<Option<<I::Table as Relation>::Key>>;

    /// The row with `key`, or `None`.
    #[inline]
    fn get<T: Table>(&mut self, key: T::Key) -> Result<Option<T>> {
        self.get_columns(key, Row::<T>::new())
    }

    /// Visits the rows in a range of a table or of an index, without their keys; see [`ReadTransaction::scan_rows`].
    ///
    /// `visit` cannot use the transaction, whose rows it is shown. Where it would, go through the rows of
    /// [`collect`](Self::collect), or of one [`page`](Self::page) after another: what is written then changes nothing of
    /// what was read. On a snapshot, where nothing is written, there is `Snapshot::scan_with`.
    ///
    /// ```
    /// # use heddledb::{Database, Error, ReadTransaction, Scan, Table, Transaction};
    /// # #[derive(Table, Clone, Copy)]
    /// # #[table(index(ByOwner(owner)))]
    /// # struct Account { #[key] id: u64, owner: u32, balance: i64 }
    /// # let db = Database::in_memory();
    /// # let mut session = db.session()?;
    /// # session.run(|tx| (0..50).try_for_each(|id| tx.insert(Account { id, owner: 7, balance: 1 })))?;
    /// let sum = session.run(|tx| {
    ///     let mut sum = 0i64;
    ///     tx.scan(Scan::<ByOwner>::prefix((7,)), |account| {
    ///         sum = sum.checked_add(account.balance).ok_or_else(|| Error::user("too rich"))?;
    ///         Ok(())
    ///     })?;
    ///     for account in tx.collect(Scan::<ByOwner>::prefix((7,)))? {
    ///         tx.add(Account::balance, account.id, 1)?;
    ///     }
    ///     Ok(sum)
    /// })?;
    /// assert_eq!(sum, 50);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// What `visit` returns.
    #[inline]
    fn scan<R: Relation, O: Onward>(
        &mut self,
        scan: Scan<R>,
        mut visit: impl FnMut(R::Table) -> O,
    ) -> Result<()> {
        self.scan_rows(scan, |_, row| visit(row))
    }

    /// The rows in a range of a table, or of an index and in its order, collected.
    fn collect<R: Relation>(&mut self, scan: Scan<R>) -> Result<Vec<R::Table>> {
        let mut rows = Vec::new();
        self.scan(scan, |row| rows.push(row))?;
        Ok(rows)
    }

    /// The first row in a range of a table or of an index.
    fn first<R: Relation>(&mut self, scan: Scan<R>) -> Result<Option<R::Table>> {
        let mut first = None;
        self.scan(scan.limit(1), |row| {
            first = Some(row);
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    /// As many rows as the scan's limit says, and where the next page begins. Pages of one transaction or snapshot make
    /// up the whole; those of several are each of their own moment, and no row that stands all the time is
    /// missed or seen twice, unless its place in the index changes. Reads one row more than it returns.
    ///
    /// ```
    /// # use heddledb::{Database, ReadTransaction, Scan, Table, Transaction};
    /// # #[derive(Table, Clone, Copy)]
    /// # struct Account { #[key] id: u64, balance: i64 }
    /// # let db = Database::in_memory();
    /// # let mut session = db.session()?;
    /// # session.run(|tx| (0..50).try_for_each(|id| tx.insert(Account { id, balance: 0 })))?;
    /// let scan = Scan::<Account>::all().reverse().limit(20);
    /// let page = session.read(|snapshot| snapshot.page(scan))?;
    /// assert_eq!((page.rows.len(), page.next), (20, Some(30)));
    /// let page = session.read(|snapshot| snapshot.page(scan.after(30)))?;
    /// assert_eq!((page.rows[0].id, page.next), (29, Some(10)));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    fn page<R: Relation>(&mut self, scan: Scan<R>) -> Result<Page<R::Table, R::Key>> {
        let size = scan.limit;
        let (mut rows, mut last, mut next) = (Vec::new(), None, None);
        self.scan_rows(scan.limit(size.saturating_add(1)), |key, row| {
            if rows.len() == size {
                next = last;
                return ControlFlow::Break(());
            }
            rows.push(row);
            last = Some(key);
            ControlFlow::Continue(())
        })?;
        Ok(Page { rows, next })
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
    ///
    /// # Errors
    /// [`Misuse::DuplicateEntry`](crate::Misuse::DuplicateEntry); never for its key.
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

    /// Adds `delta` to a column of an integer type of 4 or 8 bytes, wrapping, without reading it: two adds commute.
    fn add<T: Table, V: Addable>(&mut self, column: Column<T, V>, key: T::Key, delta: V) -> Result<()>;

    /// Removes the row with `key`; false if there is none.
    fn delete<T: Table>(&mut self, key: T::Key) -> Result<bool>;

    /// Reads the row with `key`, lets `change` alter it, and writes the changed column groups back.
    #[inline]
    fn update<T: Table, R>(&mut self, key: T::Key, change: impl FnOnce(&mut T) -> R) -> Result<R> {
        self.update_columns(key, Row::<T>::new(), change)
    }
}
