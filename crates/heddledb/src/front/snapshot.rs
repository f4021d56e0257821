//! Snapshots: the database as it was at one moment.

use super::database::Database;
use super::rows::{RowTable, Rows};
use super::session::Session;
use crate::error::Result;
use crate::reading::{Decode, Reading};
use crate::seam::{Access, Ahead, Moment, Range, Visit, Worker};
use crate::sight::Sight;
use crate::table::{Relation, Scan};
use crate::transaction::{Onward, ReadTransaction};
use crate::values::Values;
use std::sync::Arc;

/// The database as it was at one moment: a prefix of the serial order. Read it by
/// [`ReadTransaction`](crate::ReadTransaction), whose methods never return a conflict here.
///
/// From [`Session::read`](crate::Session::read) or [`Database::snapshot`](crate::Database::snapshot). While it lives, versions
/// that it may need are kept ([`Metrics::version_bytes`](crate::Metrics::version_bytes)): at most one for
/// each column group and live snapshot.
pub struct Snapshot<'s> {
    session: Holder<'s>,
    moment: Moment,
    /// Who keeps the values that are not in their rows.
    values: Arc<dyn Values>,
    /// Scratch.
    words: Vec<u64>,
}

/// The session that a snapshot reads through: its own, or somebody's.
#[expect(clippy::large_enum_variant, reason = "a snapshot is made in place and lives for many reads")]
enum Holder<'s> {
    Own(Session),
    Borrowed(&'s mut Session),
}

impl Holder<'_> {
    #[inline(always)]
    fn session(&self) -> &Session {
        match self {
            Self::Own(session) => session,
            Self::Borrowed(session) => session,
        }
    }

    #[inline(always)]
    fn worker(&mut self) -> &mut dyn Worker {
        match self {
            Self::Own(session) => &mut *session.txn_mut().worker,
            Self::Borrowed(session) => &mut *session.txn_mut().worker,
        }
    }
}

impl<'s> Snapshot<'s> {
    /// Of now, with a session of its own.
    pub(super) fn of_session(session: Session) -> Result<Self> {
        Self::begin(Holder::Own(session), false)
    }

    /// Of now or of a recent moment, in a session.
    pub(super) fn in_session(session: &'s mut Session, recent: bool) -> Result<Self> {
        Self::begin(Holder::Borrowed(session), recent)
    }

    /// Where commits wait to be durable, so does what a snapshot shows.
    fn begin(mut session: Holder<'s>, recent: bool) -> Result<Self> {
        let moment = session.worker().begin_snapshot(recent)?;
        let values = Arc::clone(&session.session().txn().values);
        let snapshot = Self { session, moment, values, words: Vec::new() };
        snapshot.session.session().acknowledge(moment.epoch())?;
        Ok(snapshot)
    }

    /// The rows of a table that was defined at run time.
    pub fn rows<'a>(&'a mut self, table: &'a RowTable) -> Rows<'a, Self> {
        Rows::new(self, table)
    }

    /// Visits the rows in a range of a table or of an index, in order, as [`ReadTransaction::scan`] does, with a visitor that may read
    /// on in the same snapshot. Only a snapshot can offer that: nothing in it changes while it is gone through.
    ///
    /// Rows are read by pages, 16 first, later up to 1,024, so one that breaks off early has read some rows more.
    ///
    /// ```
    /// # use heddledb::{Database, ReadTransaction, Scan, Table, Transaction};
    /// # #[derive(Table, Clone, Copy)]
    /// # struct Order { #[key] id: u64, item: u32, count: u64 }
    /// # #[derive(Table, Clone, Copy)]
    /// # struct Item { #[key] id: u32, price: u64 }
    /// # let db = Database::in_memory();
    /// # let mut session = db.session()?;
    /// # session.run(|tx| { tx.insert(Item { id: 7, price: 5 })?; tx.insert(Order { id: 1, item: 7, count: 3 }) })?;
    /// let mut sum = 0;
    /// session.snapshot()?.scan_with(Scan::<Order>::all(), |snapshot, order| {
    ///     let item = snapshot.get::<Item>(order.item)?;
    ///     sum += order.count * item.map_or(0, |item| item.price);
    ///     Ok(())
    /// })?;
    /// assert_eq!(sum, 15);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `visit` returns.
    pub fn scan_with<R: Relation, O: Onward>(
        &mut self,
        mut scan: Scan<R>,
        mut visit: impl FnMut(&mut Self, R::Table) -> O,
    ) -> Result<()> {
        let (mut left, mut size) = (scan.limit, 16);
        while left > 0 {
            size = left.min(size);
            let page = self.page(scan.limit(size))?;
            left -= page.rows.len();
            for row in page.rows {
                if visit(self, row).onward()?.is_break() {
                    return Ok(());
                }
            }
            let Some(last) = page.next else { break };
            scan = scan.after(last);
            size = (size * 4).min(1024);
        }
        Ok(())
    }

    /// The moment: every commit of this epoch or an earlier one is seen.
    pub fn epoch(&self) -> u64 {
        self.moment.epoch()
    }
}

impl Database {
    /// A snapshot of this moment, on a session of its own: it sees everything that was committed before
    /// the call, and nothing after. It never conflicts, and nobody waits for it.
    ///
    /// It waits for commits that are under way, and for calls where they commit in parts, but for no transaction that
    /// is open, so a thread that holds an [`OwnedTransaction`](crate::OwnedTransaction) may ask for one.
    ///
    /// # Errors
    /// [`Misuse::TooManySessions`](crate::Misuse::TooManySessions); [`Misuse::EpochHeld`](crate::Misuse::EpochHeld) when a commit takes seconds.
    pub fn snapshot(&self) -> Result<Snapshot<'static>> {
        Snapshot::of_session(self.session()?)
    }
}

impl Session {
    /// A snapshot of this moment, in this session: see [`Database::snapshot`](crate::Database::snapshot).
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`](crate::Misuse::EpochHeld) when a commit takes seconds.
    pub fn snapshot(&mut self) -> Result<Snapshot<'_>> {
        Snapshot::in_session(self, false)
    }

    /// Runs `body` on a snapshot of a recent moment: at most [`Builder::snapshot_interval`](crate::Builder::snapshot_interval) ago, 1 s
    /// unless told, and not before that of this session's last `read`. It sees all that was committed by
    /// then and nothing later, so not always this session's own last commit; for the present moment, use
    /// [`Session::snapshot`](crate::Session::snapshot). It never conflicts, runs once, and nobody waits for it.
    ///
    /// [`Builder::snapshot_interval`](crate::Builder::snapshot_interval): crate::Builder::snapshot_interval
    ///
    /// # Errors
    /// Whatever `body` returns; [`Misuse::EpochHeld`](crate::Misuse::EpochHeld) when another transaction's
    /// commit takes seconds.
    ///
    /// ```
    /// use heddledb::{Database, ReadTransaction, Scan, Table, Transaction};
    /// #[derive(Table, Clone, Copy)]
    /// struct Account { #[key] id: u64, balance: i64 }
    ///
    /// let db = Database::in_memory();
    /// let mut session = db.session()?;
    /// session.run(|tx| tx.insert(Account { id: 1, balance: 100 }))?;
    /// let rows = session.read(|snapshot| snapshot.collect(Scan::<Account>::all()))?;
    /// assert_eq!(rows.len(), 1);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn read<R>(&mut self, body: impl FnOnce(&mut Snapshot<'_>) -> Result<R>) -> Result<R> {
        body(&mut Snapshot::in_session(self, true)?)
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let moment = self.moment;
        self.session.worker().end_snapshot(moment);
    }
}

impl Reading for Snapshot<'_> {
    #[inline]
    fn get_words<D: Decode>(&mut self, access: &Access<'_>, decode: D) -> Result<Option<D::Value>> {
        let moment = self.moment;
        let values = &*self.values;
        Ok(self.session.worker().get_at(moment, access)?.map(|row| decode.decode(&row, values)))
    }

    #[inline]
    fn scan_words(
        &mut self,
        range: &Range<'_>,
        visit: &mut dyn FnMut(&[u64], Sight<'_>) -> Visit,
    ) -> Result<()> {
        let moment = self.moment;
        self.session.worker().scan_at(moment, range, visit)
    }

    fn values(&self) -> Arc<dyn Values> {
        Arc::clone(&self.values)
    }

    fn scratch(&mut self) -> &mut Vec<u64> {
        &mut self.words
    }

    fn prefetch_words(&mut self, ahead: &Ahead<'_>) {
        self.session.worker().prefetch_at(ahead);
    }
}
