//! Settings for a database that is about to be opened.

use super::database::{Database, relations};
use super::replayer::{replayer, versioned};
use super::submit;
use crate::RecoveryProgress;
use crate::error::{Error, Result};
use crate::isolation::Isolation;
use crate::kind::{Choice, Kind, Silo};
use crate::log::{Compression, FILES_MAX, LogError, LogKind, Manifest};
use crate::migration::{Migration, Plan, SchemaChange, declared_tables};
use crate::objects::Objects;
use crate::seam::{CallByName, Open};
use crate::settings::{Durability, Place, Settings};
use crate::storage::{Disk, Storage};
use crate::table::dynamic::TableDefinition;
use crate::table::{Definition, Table};
use heddledb_core::procedure::{Declaration, PlanChange, Procedure};
use std::any::TypeId;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Settings for a database that is about to be opened. The calls may come in any order.
#[must_use = "`open` opens the database"]
pub struct Builder {
    pub(super) engine: Open,
    pub(super) protocol: Choice,
    pub(super) settings: Settings,
    procedures: Vec<(TypeId, Declaration, Option<CallByName>)>,
    objects: Vec<fn(&Database) -> Result<()>>,
    executors: usize,
    /// Whether submitted calls are executed by the program.
    pub(super) by_hand: bool,
    window: usize,
    /// Whether the engine runs on the system's threads.
    pub(super) native: bool,
}

/// Calls of a session that may be under way unless it is told otherwise.
const WINDOW: usize = 256;

impl Default for Builder {
    fn default() -> Self {
        Self {
            engine: heddledb_engine::open,
            protocol: Silo::default().into(),
            settings: Settings::default(),
            procedures: Vec::new(),
            objects: Vec::new(),
            executors: 0,
            by_hand: false,
            window: WINDOW,
            native: true,
        }
    }
}

impl Database {
    /// A new database in memory under [`Silo`](crate::protocol::Silo), with default settings.
    pub fn in_memory() -> Self {
        Self::builder().open().expect("the default settings can be met")
    }

    /// Settings for a new database.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Chooses the protocol with its options; [`Silo`] unless told.
    ///
    /// ```
    /// use heddledb::{Database, protocol::{Kind, TicToc}};
    ///
    /// let db = Database::builder().protocol(TicToc::default()).open()?;
    /// assert_eq!(db.protocol(), "tictoc");
    /// let db = Database::builder().protocol(Kind::WaitDie).open()?;
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn protocol(mut self, protocol: impl Into<Choice>) -> Self {
        self.protocol = protocol.into();
        self
    }

    /// Chooses the protocol by its name, as in a configuration file. [`Kind::ALL`] has the names.
    ///
    /// # Errors
    /// [`Misuse::Option`](crate::Misuse::Option) with all names, if there is none of that name.
    ///
    /// ```
    /// let db = heddledb::Database::builder().protocol_named("ic3")?.open()?;
    /// assert!(heddledb::Database::builder().protocol_named("ic4").is_err());
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn protocol_named(self, name: &str) -> Result<Self> {
        let kind: Kind = name.parse().map_err(|unknown| crate::Misuse::Option(format!("{unknown}")))?;
        Ok(self.protocol(kind))
    }

    /// How many sessions may exist at once, 1 to 1024; 128 unless told (1 under `unprotected`).
    pub fn sessions(mut self, sessions: usize) -> Self {
        self.settings.sessions = Some(sessions);
        self
    }

    /// Starts so many threads that execute what is submitted ([`Session::submit`](crate::Session::submit)); none unless told. Each
    /// has one of the database's sessions. When the last handle and session of the database are dropped, the threads execute what
    /// was submitted, and end.
    pub fn executors(mut self, threads: usize) -> Self {
        self.executors = threads;
        self
    }

    /// How many submitted calls of one session may be under way, 1 at the least; 256 unless told. See
    /// [`Session::set_window`](crate::Session::set_window).
    pub fn window(mut self, calls: usize) -> Self {
        self.window = calls;
        self
    }

    /// How long [`Database::with_session`](crate::Database::with_session) waits for a free session; 10 s unless told.
    pub fn session_wait(mut self, wait: Duration) -> Self {
        self.settings.limits.session = wait;
        self
    }

    /// After how many further attempts [`Session::run`](crate::Session::run) and calls give up a transaction that
    /// conflicts ([`Error::GaveUp`](crate::Error::GaveUp)); never unless told.
    pub fn retries(mut self, retries: u32) -> Self {
        self.settings.limits.retries = retries;
        self
    }

    /// How long a transaction waits for another one at a time, for a lock or to be let begin; then it conflicts
    /// ([`Conflict::TimedOut`](crate::Conflict::TimedOut)) and, in [`Session::run`](crate::Session::run), is tried again. For as
    /// long as it takes unless told. Protocols that wait for nobody need no such limit.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.settings.limits.lock = Some(timeout);
        self
    }

    /// How long an [`OwnedTransaction`](crate::OwnedTransaction) may be open; as long as it likes unless told. One that is
    /// open for longer is ended at its owner's next operation, which hears
    /// [`Misuse::TransactionTimedOut`](crate::Misuse::TransactionTimedOut), and until then holds its locks and what it may
    /// have read. For bodies there is [`Session::run_within`](crate::Session::run_within). Costs a look at the clock for each operation.
    pub fn transaction_timeout(mut self, timeout: Duration) -> Self {
        self.settings.limits.transaction = Some(timeout);
        self
    }

    /// Makes a table and its indexes at once, sized for `rows` rows. A database in memory makes tables
    /// that are not named here at their first use; one with files must have all of them named.
    ///
    /// An index that is new to a table with rows is built by [`Builder::open`] from these, one that is gone is removed,
    /// and one that is declared otherwise is built anew. [`Recovery::indexes`](crate::Recovery::indexes) says which, and
    /// [`Builder::on_recovery`] is told how far it is. Each thread of recovery builds a part. Then opening ends with a
    /// checkpoint, so it takes as long as one, and needs room for one on the disk; if it is cut off, the next opening does it.
    pub fn table<T: Table>(self, rows: usize) -> Self {
        self.add(relations::<T>(), rows)
    }

    /// Makes a table that was defined at run time, with its indexes, at once; see [`Builder::table`]. Use it by
    /// [`Database::define`](crate::Database::define).
    pub fn define(self, table: &'static TableDefinition, rows: usize) -> Self {
        let indexes = table.indexes().iter().map(|index| index.relation().definition());
        self.add(std::iter::once(table.relation().definition()).chain(indexes), rows)
    }

    /// Declares the tables of transactional objects, and makes the objects when the database is opened, where they are not there;
    /// see [`objects`](crate::objects) and [`Builder::table`].
    pub fn objects<O: Objects>(mut self) -> Self {
        self.objects.push(Database::make_objects::<O>);
        self.add(O::tables(), 0)
    }

    pub(super) fn add(
        mut self,
        relations: impl IntoIterator<Item = &'static Definition>,
        rows: usize,
    ) -> Self {
        for relation in relations {
            // Drawn now, so that relations are numbered in the order in which they are named here.
            relation.number();
            self.settings.relations.push((relation, rows));
        }
        self
    }

    /// Registers a procedure at once; see [`Database::register`](crate::Database::register).
    pub fn procedure<Q: Procedure>(mut self) -> Self {
        self.settings.versions.extend(versioned::<Q>());
        self.procedures.push((TypeId::of::<Q>(), Declaration::of::<Q>(), None));
        self
    }

    /// The isolation level of transactions that are not told another ([`Session::set_isolation`](crate::Session::set_isolation)); serializable
    /// unless told.
    pub fn isolation(mut self, level: Isolation) -> Self {
        self.settings.isolation = level;
        self
    }

    /// How procedures are registered and removed while others run: with a barrier unless told.
    pub fn plan_change(mut self, change: PlanChange) -> Self {
        self.settings.plan_change = change;
        self
    }

    /// How often the epoch advances, and how often what was committed is written to the log where nobody
    /// waits for it; 10 ms unless told. Deleted rows are reclaimed some epochs later.
    pub fn epoch_interval(mut self, interval: Duration) -> Self {
        self.settings.epoch_interval = Some(interval);
        self
    }

    /// How old the moment may be that [`Session::read`](crate::Session::read) sees; 1 s unless told. The longer, the fewer
    /// old versions are kept beside readers. At zero each reader has a moment of its own.
    pub fn snapshot_interval(mut self, interval: Duration) -> Self {
        self.settings.snapshot_interval = interval;
        self
    }

    /// Starts no thread: [`Database::advance_epoch`](crate::Database::advance_epoch) advances the epoch, [`Database::flush`](crate::Database::flush) writes the
    /// log, [`Database::checkpoint`](crate::Database::checkpoint) takes checkpoints.
    pub fn manual_epochs(mut self) -> Self {
        self.settings.epoch_interval = None;
        self
    }

    /// Keeps the database in a directory, which is made if it is not there; its parent must be. All
    /// tables must be named ([`Builder::table`]).
    ///
    /// A directory does not belong to a protocol: it may be opened under another one.
    pub fn path(mut self, path: impl AsRef<Path>) -> Self {
        self.settings.place = Some(Place::Path(path.as_ref().to_owned()));
        self
    }

    /// As [`Builder::path`], with the files in a storage of your own, or in a simulated one.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.settings.place = Some(Place::Storage(storage));
        self
    }

    /// When commits count as done; [`Durability::Epoch`] unless told. Matters with files only.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = durability;
        self
    }

    /// How many files the log is written to at once, 1 to 64; 1 unless told. More help where the device
    /// takes writes to several files faster.
    pub fn log_files(mut self, files: u8) -> Self {
        self.settings.log.files = files;
        self
    }

    /// What the log says of a commit; [`LogKind::Values`] unless told. With [`LogKind::Commands`] it says of a call that it was made, and with
    /// which arguments, if its procedure is named here and has a version (`#[procedure(version = 1)]`), and the call has accessed
    /// nothing that it had not told before; of all other commits it says what they wrote. Such a log is much shorter. Opening the directory
    /// calls the procedures again, side by side where they do not conflict, and checks that they write what they wrote: so a procedure may
    /// depend on nothing but its arguments and what it reads, and with debug assertions each is executed twice to see that.
    ///
    /// Under `dgcc`, `dgcc-levels` and `dataflow`. The directory opens under every protocol and with either kind of log, as long as the
    /// program has the same procedures; one that is changed gets another version, after a checkpoint
    /// ([`Builder::checkpoint_at_close`]).
    pub fn log_kind(mut self, kind: LogKind) -> Self {
        self.settings.log.kind = kind;
        self
    }

    /// How many bytes of log are kept that checkpoints have made superfluous; none unless told. The latest are. They are what
    /// [incremental copies](crate::Backup::incremental) are made of: a copy can be continued as long as all of the log since is
    /// there. Nothing is kept for a database that is opened without a log, or whose indexes or columns are changed.
    pub fn keep_log(mut self, bytes: u64) -> Self {
        self.settings.log.keep_bytes = bytes;
        self
    }

    /// Whether the log is compressed; it is not unless told.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.settings.log.compression = compression;
        self
    }

    /// How many threads load a directory and write a checkpoint; one for each core, up to 16, unless told.
    pub fn recovery_threads(mut self, threads: usize) -> Self {
        self.settings.threads = Some(threads.clamp(1, usize::from(FILES_MAX)));
        self
    }

    /// After how many bytes of log a checkpoint is taken, `None` for never; 1 GiB unless told. What earlier openings
    /// logged since the last checkpoint counts too.
    pub fn checkpoint_after(mut self, log_bytes: Option<u64>) -> Self {
        self.settings.checkpoint_log_bytes = log_bytes;
        self
    }

    /// A checkpoint is also taken when replaying the log would take one thread about so long
    /// ([`LogMetrics::replay_time`](crate::LogMetrics::replay_time)), `None` for never; 5 s unless told. Small commits
    /// take longer than their bytes say.
    pub fn checkpoint_after_replay(mut self, time: Option<Duration>) -> Self {
        self.settings.checkpoint_replay = time;
        self
    }

    /// Whether a checkpoint is taken when the last handle is dropped, so that the next opening replays no log; not
    /// unless told. Costs the time of a checkpoint then, unless nothing was logged since the last one. Whether it was
    /// taken is not told: if it fails, the log holds what it would have held.
    ///
    /// With [`Durability::None`] it is what keeps the rows.
    pub fn checkpoint_at_close(mut self, at_close: bool) -> Self {
        self.settings.checkpoint_at_close = at_close;
        self
    }

    /// Opens a damaged log as far as it is whole, and gives up the rest; [`Recovery::lost`](crate::Recovery::lost) says what that
    /// is. Commits that were durable are lost by it.
    pub fn salvage(mut self, salvage: bool) -> Self {
        self.settings.salvage = salvage;
        self
    }

    /// Opens what is in the directory, to be read: nothing is written, made or removed there, so a directory on a full
    /// or read-only disk opens too. Off unless told.
    ///
    /// An operation that would write is answered with [`Misuse::ReadOnly`](crate::Misuse::ReadOnly); the transaction may
    /// go on and read. Indexes that were added to the program since are built in memory. What a crash has left at the
    /// end of the log is passed over, and judged again by each opening. The directory may be open in several databases at
    /// once if all of them only read; a [storage](Builder::storage) of your own is locked by its own rules.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.settings.read_only = read_only;
        self
    }

    /// Changes the directory when it is opened, where the program declares tables otherwise than it has them; without this, it
    /// is refused then. What is done is in [`Recovery::schema`](crate::Recovery::schema).
    ///
    /// The rows are loaded, and written as a checkpoint, those of changed tables converted; then the directory is opened as
    /// ever, and builds the indexes. So it takes as long as two openings and a checkpoint, and needs room for another
    /// checkpoint. A crash leaves the directory as it was or as it is to be, and the next opening goes on. A refusal leaves it as
    /// it was, also that of an index that cannot be built: a unique one of which two rows have the same entry, or one with a
    /// value that is too long for it. Nothing is changed where nothing differs, nor by [`read_only`](Self::read_only).
    pub fn migrate(mut self, migration: Migration) -> Self {
        self.settings.migration = Some(migration);
        self
    }

    /// What [`migrate`](Self::migrate) would do, and what nobody has said yet. Reads the manifest of the directory, and
    /// nothing else.
    ///
    /// # Errors
    /// [`Error::Open`](crate::Error::Open) where there is a directory whose manifest cannot be read.
    pub fn schema_change(&self) -> Result<SchemaChange> {
        let manifest = match &self.settings.place {
            None => None,
            Some(Place::Storage(storage)) => Manifest::read(&**storage)?,
            Some(Place::Path(path)) if !path.exists() => None,
            Some(Place::Path(path)) => {
                let failed = |source| LogError::Io {
                    doing: "opening the directory",
                    file: path.display().to_string(),
                    source,
                };
                Manifest::read(&Disk::open_to_read(path).map_err(failed)?)?
            }
        };
        let Some(manifest) = manifest else { return Ok(SchemaChange::default()) };
        let declared = declared_tables(self.settings.relations.iter().map(|(relation, _)| *relation));
        let migration = self.settings.migration.clone().unwrap_or_default();
        Ok(Plan::new(&manifest, &declared, &migration).change)
    }

    /// Opens a directory whose files were copied one by one while a database had it open, which is refused otherwise: its
    /// files may be of different moments. Right where it is known that nothing was written meanwhile, as after the
    /// process was killed; [`Database::check`](crate::Database::check) may then say whether it is whole. Off unless told.
    pub fn accept_copy(mut self, accept: bool) -> Self {
        self.settings.accept_copy = accept;
        self
    }

    /// Is told how far opening the directory has come.
    pub fn on_recovery(mut self, tell: impl Fn(RecoveryProgress) + Send + Sync + 'static) -> Self {
        self.settings.tell = Some(Arc::new(tell));
        self
    }

    /// Refuses executors that cannot be, or that would leave nobody a session.
    fn check_executors(&self) -> Result<()> {
        let option = |what: String| Err(crate::Misuse::Option(what).into());
        if self.window == 0 {
            return option("a window of 0 lets nothing be submitted; it is at least 1".to_owned());
        }
        if self.executors == 0 {
            return Ok(());
        }
        if !self.native {
            return option("executors are threads, and this engine runs on virtual cores".to_owned());
        }
        let most = self.protocol.promises().sessions_max();
        let sessions = self.settings.sessions.unwrap_or(Settings::SESSIONS.min(most));
        if self.executors >= sessions {
            let executors = self.executors;
            return option(format!(
                "{executors} executors leave none of {sessions} sessions to submit from; open with fewer, or with more by \
                 `sessions(..)` where the protocol allows it"
            ));
        }
        Ok(())
    }

    /// Registers a procedure at once, with how it is called by its name.
    #[cfg(feature = "postcard")]
    pub(super) fn procedure_by_name<Q: Procedure>(mut self, call: CallByName) -> Self {
        self.settings.versions.extend(versioned::<Q>());
        self.procedures.push((TypeId::of::<Q>(), Declaration::of::<Q>(), Some(call)));
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    /// [`Misuse::Option`](crate::Misuse::Option) for settings that cannot be met,
    /// [`Misuse::TooManyTables`](crate::Misuse::TooManyTables);
    /// [`Error::Open`](crate::Error::Open) for a directory that is in use, damaged, or of other tables, and, with both rows
    /// named, where two rows are in the way of a unique index that was added: nothing is changed then.
    pub fn open(self) -> Result<Database> {
        let read_only = self.settings.read_only;
        self.check_executors()?;
        let engine = (self.engine)(self.protocol, self.settings)?;
        for (id, declaration, by_name) in self.procedures {
            engine.register(Some(id), declaration, by_name)?;
        }
        if let Err(error) = Arc::clone(&engine).finish_opening(replayer) {
            // The log has a hand on the error, too.
            drop(engine);
            return Err(not_opened(error));
        }
        let submission = match self.executors {
            0 if self.by_hand && engine.gathers() => Some(submit::by_hand(&engine, self.window)),
            0 => None,
            executors => Some(submit::start(&engine, executors, self.window)?),
        };
        let db = Database::of(engine, submission);
        if !read_only {
            self.objects.iter().try_for_each(|make| make(&db))?;
        }
        Ok(db)
    }
}

/// The failure of a checkpoint without which a database cannot be opened.
fn not_opened(error: Error) -> Error {
    match error {
        Error::LogFailed(source) => match Arc::try_unwrap(source) {
            Ok(error) => error.into(),
            Err(source) => Error::LogFailed(source),
        },
        other => other,
    }
}
