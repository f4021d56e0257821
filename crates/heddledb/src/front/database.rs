//! An open database.

use super::pending::Submission;
use crate::backup::{Backup, BackupReport};
use crate::check::CheckReport;
#[cfg(doc)]
use crate::error::Misuse;
use crate::error::Result;
use crate::objects::Objects;
use crate::protocol::Isolation;
use crate::seam::{Callee, CheckpointReport, Engine, Metrics, ProcedureInfo, Recovery};
use crate::table::{Definition, Table};
use heddledb_core::procedure::{Declaration, Procedure};
use std::any::TypeId;
use std::sync::Arc;

/// An open database. A cheap handle: clone it into threads.
#[derive(Clone)]
pub struct Database {
    /// Dropped first: its threads use the engine.
    pub(super) submission: Option<Arc<Submission>>,
    pub(super) engine: Arc<dyn Engine>,
}

impl Database {
    /// A handle to an open engine, and to its executors if it has some.
    pub(super) fn of(engine: Arc<dyn Engine>, submission: Option<Arc<Submission>>) -> Self {
        Self { submission, engine }
    }

    /// Makes a table and its indexes now instead of at their first use, sized for `rows` rows.
    ///
    /// # Errors
    /// [`Misuse::TooManyTables`].
    pub fn create<T: Table>(&self, rows: usize) -> Result<()> {
        relations::<T>().into_iter().try_for_each(|relation| self.engine.create(relation, rows))
    }

    /// Makes transactional objects where they are not there, as [`Builder::objects`](crate::Builder::objects) does: adds the rows that
    /// they begin with. For a database in memory that was opened without naming them. Takes a session meanwhile.
    ///
    /// # Errors
    /// [`Misuse::NoSessionFree`]; [`Misuse::ReadOnly`]; [`Misuse::Undeclared`] in a database with files.
    pub fn make_objects<O: Objects>(&self) -> Result<()> {
        self.with_session(|session| session.run(O::make))
    }

    /// Registers a procedure, so that it can be called ([`Session::call`](crate::Session::call)); does nothing if it is registered.
    ///
    /// All registered procedures are analysed together, so this makes a new plan for all of them. It waits for the
    /// transactions that run to end; whether those that begin meanwhile wait too is for [`Builder::plan_change`](crate::Builder::plan_change) to say.
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`] when a transaction stays open for seconds; [`Misuse::Option`] where another
    /// procedure has its name.
    pub fn register<Q: Procedure>(&self) -> Result<()> {
        self.engine.register(Some(TypeId::of::<Q>()), Declaration::of::<Q>(), None).map(|_| ())
    }

    /// Removes a procedure, so that it can no longer be called; false if it was not registered.
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`] when a transaction stays open for seconds.
    pub fn unregister<Q: Procedure>(&self) -> Result<bool> {
        self.engine.unregister(Callee::Type(TypeId::of::<Q>()))
    }

    /// The registered procedures, in the order of their names. Copies the names.
    pub fn procedures(&self) -> Vec<ProcedureInfo> {
        self.engine.procedures()
    }

    /// What all workers did since the database was opened, and what it holds.
    pub fn metrics(&self) -> Metrics {
        self.engine.metrics()
    }

    /// Advances the epoch by one, unless a commit that is under way holds it back. Only needed
    /// where the database was opened with [`Builder::manual_epochs`](crate::Builder::manual_epochs).
    pub fn advance_epoch(&self) -> bool {
        self.engine.advance_epoch()
    }

    /// Makes everything durable that was committed before the call.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`](crate::Error::OutcomeUnknown) when the log fails, or has failed;
    /// [`Misuse::EpochHeld`]; [`Misuse::Option`] where there is no log.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    /// Lets the log of a running database go on after a failure, when its cause is gone: when a full disk has room
    /// again. Does nothing where the log has not failed.
    ///
    /// The log goes on in new files. All that was committed and is not durable is written to them anew, what a caller was
    /// told is of [unknown outcome](crate::Error::OutcomeUnknown) too: when this has returned, it is as durable as any
    /// other commit, and writers are no longer refused. Takes the time of a round, and waits for a checkpoint that is
    /// being taken. Parts of one that failed are removed.
    ///
    /// # Errors
    /// [`Error::LogFailed`](crate::Error::LogFailed) with the new failure: nothing has changed, and it may be called
    /// again. [`Misuse::ReadOnly`].
    pub fn resume(&self) -> Result<()> {
        self.engine.resume()
    }

    /// Writes a checkpoint: all rows as of now, beside running transactions, and cuts the log short. One
    /// is taken at a time; a second call waits for the first.
    ///
    /// # Errors
    /// [`Error::Open`](crate::Error::Open) when a file of it cannot be written: the one before stays in
    /// force, and the log. [`Error::LogFailed`](crate::Error::LogFailed); [`Misuse::EpochHeld`];
    /// [`Misuse::Option`] for a database in memory.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        self.engine.checkpoint()
    }

    /// Takes a copy that opens as a database of its own: all rows as of one moment, beside running transactions, of a
    /// database in memory too. A path is the simplest [`Backup`].
    ///
    /// The copy holds every transaction that was committed before the call, and a prefix of the serial order: none
    /// without those that it depends on. It may hold some that are not durable yet in this database. It is whole or refused: a
    /// copy that was cut off does not open, unless nothing was written of it yet, and what is left of one that failed is removed.
    /// What a killed process has left of one has to be removed before the next.
    ///
    /// It is written like a checkpoint, by as many threads, and takes as long as one; copies, checkpoints and checks
    /// may go on at the same time. Old versions of rows that change meanwhile are kept until it is done.
    ///
    /// With [`Backup::incremental`] a copy that is there is continued with the log since: it opens as of this call. It is as before
    /// or as after it, whatever comes in between, and [`Restore`](crate::Restore) makes directories of it as of any moment in its
    /// log.
    ///
    /// # Errors
    /// [`Error::Open`](crate::Error::Open) when the directory is not empty, a file cannot be written, or a copy cannot be
    /// continued; [`Misuse::EpochHeld`]; of an incremental copy [`Error::LogFailed`](crate::Error::LogFailed) and, without a log,
    /// [`Misuse::Option`].
    pub fn backup(&self, to: impl Into<Backup>) -> Result<BackupReport> {
        self.engine.backup(&to.into())
    }

    /// Compares each index with its table, both ways, as of one moment and beside running transactions; and checks every
    /// checksum, round, row and entry of the checkpoint and the log.
    ///
    /// It reads all rows once for each index of their table, and all files, a log twice: seconds for gigabytes. What it
    /// finds is in the report, and is no error.
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`]; [`Error::LogFailed`](crate::Error::LogFailed) where the log has failed before.
    ///
    /// ```
    /// use heddledb::{Database, Table, Transaction};
    ///
    /// #[derive(Table, Clone, Copy)]
    /// #[table(unique(ByMail(mail)))]
    /// struct Person {
    ///     #[key]
    ///     id: u64,
    ///     mail: u32,
    /// }
    ///
    /// let db = Database::in_memory();
    /// db.session()?.run(|tx| tx.insert(Person { id: 1, mail: 7 }))?;
    /// let report = db.check()?;
    /// assert!(report.is_whole(), "{report}");
    /// assert_eq!((report.indexes[0].rows, report.indexes[0].entries), (1, 1));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn check(&self) -> Result<CheckReport> {
        self.engine.check()
    }

    /// What was found when the directory was opened; `None` for a database in memory.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.engine.recovery()
    }

    /// The name of the protocol that it runs under: the [`Kind`](crate::protocol::Kind)'s, where there is one with its options.
    pub fn protocol(&self) -> &'static str {
        self.engine.protocol()
    }

    /// The isolation levels that its protocol offers, the strongest first.
    pub fn isolation_levels(&self) -> &'static [Isolation] {
        self.engine.levels()
    }
}

/// A table and its indexes as data.
pub(super) fn relations<T: Table>() -> Vec<&'static Definition> {
    let table = T::definition();
    let indexes = table.role.table().map(|role| role.indexes()).unwrap_or_default();
    std::iter::once(table).chain(indexes).collect()
}
