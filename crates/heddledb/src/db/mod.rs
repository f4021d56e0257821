//! The database: opening, sessions, metrics.

#[cfg(feature = "postcard")]
mod by_name;
mod checkpoint;
mod chopping;
mod counters;
#[cfg(feature = "suspend")]
mod crew;
mod footprint;
mod garbage;
mod procedures;
mod reading;
mod recall;
mod recovery;
mod replay;
mod sequencing;
mod session;
pub(crate) mod snapshot;
pub(crate) mod store;
mod txn;

pub use checkpoint::CheckpointReport;
pub use counters::Stats;
pub use procedures::{ProcedureInfo, Registered};
pub use recovery::{Recovery, RecoveryProgress};
pub use session::{OwnedTransaction, Session};
pub use snapshot::Snapshot;
pub use txn::Txn;

use crate::arena::{Arena, Exchange};
use crate::durability::{Durability, LogMetrics, LogOptions, RedoLog};
use crate::epoch::{EpochClock, Ticker};
use crate::error::{Misuse, Result};
use crate::log::{Compression, FILES_MAX, LogError};
use crate::procedure::{Declaration, Plan, PlanChange, Procedure};
use crate::protocol::{Env, Isolation, Protocol, Shared, Silo};
use crate::snapshot::Boundaries;
use crate::storage::{Disk, Guard, Storage};
use crate::sync::{Condvar, Mutex, lock, thread};
use crate::table::{IndexSet, IndexVisitor, Table};
use counters::Counters;
use procedures::{CallByName, Procedures};
use recovery::{Opened, Opening};
use std::any::TypeId;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use store::Stores;
use txn::Worker;

/// An open database under protocol `P`. A cheap handle: clone it into threads.
pub struct Database<P: Protocol = Silo> {
    inner: Arc<Inner<P>>,
}

impl<P: Protocol> Clone for Database<P> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

/// What all handles, sessions and transactions share.
///
/// Fields are dropped in order: the ticker stops first; stores and workers (with their arenas) go
/// together, when no session is left that could follow a reference into them.
pub(crate) struct Inner<P: Protocol> {
    /// Advances the clock and runs rounds of the log; `None` if the user does.
    _ticker: Option<Ticker>,
    /// Takes checkpoints when the log has grown.
    checkpointer: Option<Checkpointer>,
    clock: Arc<EpochClock>,
    boundaries: Arc<Boundaries>,
    stores: Stores<P>,
    counters: Counters,
    procedures: Procedures<P>,
    options: P::Options,
    /// The level of transactions that are not told another.
    isolation: Isolation,
    /// What the protocol's workers share.
    shared: Arc<P::Shared>,
    sessions_max: usize,
    exchange: Arc<Exchange>,
    places: Mutex<Places<P>>,
    /// The log of a database with files.
    log: Option<Arc<RedoLog>>,
    /// The default of its commits; [`Durability::None`] means that nothing is logged.
    durability: Durability,
    recovery: Option<Recovery>,
    /// Held during a checkpoint.
    checkpointing: Mutex<()>,
    checkpoint_threads: usize,
    /// The lock on the directory; let go last.
    _guard: Option<Box<dyn Guard>>,
}

/// The thread that takes checkpoints.
struct Checkpointer {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Workers without a session.
struct Places<P: Protocol> {
    idle: Vec<Box<Worker<P>>>,
    made: usize,
    /// Memory that recovery filled and no worker has.
    _attic: Vec<Arena>,
}

impl<P: Protocol> Inner<P> {
    /// The log, if commits are logged.
    #[inline(always)]
    fn logging(&self) -> Option<&Arc<RedoLog>> {
        match self.durability {
            Durability::None => None,
            _ => self.log.as_ref(),
        }
    }

    /// What a verb of the protocol gets to see.
    #[inline(always)]
    fn env(&self, worker: usize, isolation: Isolation) -> Env<'_> {
        Env { clock: &self.clock, worker, epoch: None, after: 0, isolation }
    }

    /// Refuses a level that the protocol does not offer.
    fn offers(options: &P::Options, level: Isolation) -> Result<()> {
        let offered = P::levels(options);
        if offered.contains(&level) {
            return Ok(());
        }
        let names: Vec<&str> = offered.iter().map(|level| level.name()).collect();
        let (name, names) = (P::NAME, names.join(", "));
        Err(Misuse::Option(format!("{name} does not offer the isolation level {level}; it offers {names}"))
            .into())
    }

    /// A worker for a new session.
    fn take_place(self: &Arc<Self>) -> Result<Txn<P>> {
        let mut places = lock(&self.places);
        let worker = match places.idle.pop() {
            Some(worker) => worker,
            None if places.made < self.sessions_max => {
                places.made += 1;
                let exchange = Arc::clone(&self.exchange);
                Box::new(Worker::new(places.made - 1, &self.options, &self.shared, exchange))
            }
            None => return Err(Misuse::TooManySessions { limit: self.sessions_max }.into()),
        };
        drop(places);
        Ok(Txn::new(Arc::clone(self), worker))
    }

    /// Keeps the worker of an ended session, with its memory, for the next.
    fn put_back(txn: Txn<P>) {
        lock(&txn.db.places).idle.push(txn.worker);
    }
}

impl<P: Protocol> Drop for Inner<P> {
    /// Makes what was committed durable, unless the log has failed, and stops the threads.
    fn drop(&mut self) {
        if let Some(checkpointer) = self.checkpointer.take() {
            *lock(&checkpointer.stop.0) = true;
            checkpointer.stop.1.notify_all();
            // The last handle may be the one that the thread itself had for a moment.
            if let Some(thread) = checkpointer.thread
                && thread.thread().id() != thread::current().id()
            {
                // A panic of it was reported by the panic hook.
                let _ = thread.join();
            }
        }
        if let Some(log) = self.logging() {
            // Whoever needs to know has called `flush`.
            let _ = log.flush();
        }
    }
}

impl Checkpointer {
    /// Starts the thread, which has no hold on the database but for the length of a checkpoint.
    fn start<P: Protocol>(db: Weak<Inner<P>>, log: Arc<RedoLog>, log_bytes: u64) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (flag, signal) = &*stopped;
            let mut guard = lock(flag);
            while !*guard {
                guard = match signal.wait_timeout(guard, CHECKPOINT_LOOK) {
                    Ok((guard, _)) => guard,
                    Err(poisoned) => poisoned.into_inner().0,
                };
                if !*guard && log.generation_bytes() > log_bytes {
                    drop(guard);
                    // A failure shows in the metrics: the log goes on growing, or has failed itself.
                    let _ = db.upgrade().map(|db| checkpoint::take(&db));
                    guard = lock(flag);
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Database<Silo> {
    /// A new database in memory under [`Silo`], with default settings.
    pub fn in_memory() -> Self {
        Self::builder().open().expect("the default settings can be met")
    }

    /// Settings for a new database.
    pub fn builder() -> Builder<Silo> {
        Builder::new()
    }
}

impl<P: Protocol> Database<P> {
    fn from_inner(inner: &Arc<Inner<P>>) -> Self {
        Self { inner: Arc::clone(inner) }
    }

    /// A session, to run transactions from one thread at a time.
    ///
    /// # Errors
    /// [`Misuse::TooManySessions`].
    pub fn session(&self) -> Result<Session<P>> {
        Ok(Session::new(self.inner.take_place()?))
    }

    /// A snapshot of this moment, on a session of its own: it sees everything that was committed before
    /// the call, and nothing after. It never conflicts, and nobody waits for it.
    ///
    /// It waits for the transactions that are running to end, so a thread that holds an open
    /// [`OwnedTransaction`] must not ask for one.
    ///
    /// # Errors
    /// [`Misuse::TooManySessions`]; [`Misuse::EpochHeld`] when a transaction stays open for seconds.
    pub fn snapshot(&self) -> Result<Snapshot<P>> {
        Snapshot::now(self.session()?)
    }

    /// Begins an owned transaction, on a session of its own.
    ///
    /// # Errors
    /// [`Misuse::TooManySessions`].
    pub fn begin(&self) -> Result<OwnedTransaction<P>> {
        Ok(OwnedTransaction::begin(self.session()?))
    }

    /// The same at an isolation level of its own.
    ///
    /// # Errors
    /// As there, and [`Misuse::Option`] where the protocol does not offer the level.
    pub fn begin_at(&self, level: Isolation) -> Result<OwnedTransaction<P>> {
        let mut session = self.session()?;
        session.set_isolation(level)?;
        Ok(OwnedTransaction::begin(session))
    }

    /// Makes a table and its indexes now instead of at their first use, sized for `rows` rows.
    ///
    /// # Errors
    /// [`Misuse::TooManyTables`].
    pub fn create<T: Table>(&self, rows: usize) -> Result<()> {
        create_table::<T, P>(&self.inner.stores, rows)
    }

    /// Registers a procedure, so that it can be called ([`Session::call`]); does nothing if it is registered.
    ///
    /// All registered procedures are analysed together, so this makes a new plan for all of them. It waits for the
    /// transactions that run to end; whether those that begin meanwhile wait too is for [`Builder::plan_change`] to say.
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`] when a transaction stays open for seconds; [`Misuse::Option`] where another
    /// procedure has its name.
    pub fn register<Q: Procedure>(&self) -> Result<()> {
        let declaration = Declaration::of::<Q>();
        let Inner { procedures, clock, .. } = &*self.inner;
        procedures.add(Some(TypeId::of::<Q>()), declaration, None, clock).map(|_| ())
    }

    /// Removes a procedure, so that it can no longer be called; false if it was not registered.
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`] when a transaction stays open for seconds.
    pub fn unregister<Q: Procedure>(&self) -> Result<bool> {
        let Inner { procedures, clock, .. } = &*self.inner;
        match procedures.number_of(TypeId::of::<Q>()) {
            Some(number) => procedures.remove(number, clock),
            None => Ok(false),
        }
    }

    /// The registered procedures, in the order of their names. Copies the names.
    pub fn procedures(&self) -> Vec<ProcedureInfo> {
        self.inner.procedures.list()
    }

    /// Registers a procedure that has no type of its own, by what it declares.
    ///
    /// # Errors
    /// As for [`Database::register`].
    #[doc(hidden)]
    pub fn register_declared(&self, declaration: Declaration) -> Result<Registered> {
        self.inner.procedures.add(None, declaration, None, &self.inner.clock)
    }

    /// Removes a procedure that was registered by what it declares; false if it was removed before.
    ///
    /// # Errors
    /// As for [`Database::unregister`].
    #[doc(hidden)]
    pub fn unregister_declared(&self, which: Registered) -> Result<bool> {
        self.inner.procedures.remove(which.0.into(), &self.inner.clock)
    }

    /// Makes a vertex of the present plan hot, or cold, as calls do where they contend.
    #[doc(hidden)]
    pub fn adapt(&self, vertex: u16, hot: bool) {
        self.inner.procedures.adapt(&self.plan(), vertex, hot);
    }

    /// The plan under which procedures run now.
    #[doc(hidden)]
    pub fn plan(&self) -> Arc<Plan> {
        self.inner.procedures.plan()
    }

    /// What all workers did since the database was opened, and what it holds.
    pub fn metrics(&self) -> Metrics {
        let memory = self.inner.counters.memory_sum();
        let oldest_snapshot = self.inner.boundaries.oldest();
        Metrics {
            stats: self.inner.counters.sum(),
            epoch: self.inner.clock.now(),
            record_bytes: memory.record_bytes,
            version_bytes: memory.version_bytes,
            versions_kept: memory.versions_kept as u64,
            garbage: memory.garbage,
            oldest_snapshot: oldest_snapshot.map(|(_, _, age)| age),
            log: self.inner.logging().map(|log| log.metrics()),
            index_nodes: self
                .inner
                .stores
                .all()
                .map(|store| (store.layout().name, store.index_nodes()))
                .collect(),
        }
    }

    /// Advances the epoch by one, unless a transaction that began before holds it back. Only needed
    /// where the database was opened with [`Builder::manual_epochs`].
    pub fn advance_epoch(&self) -> bool {
        let moved = self.inner.clock.advance();
        self.inner.boundaries.expire();
        moved
    }

    /// Makes everything durable that was committed before the call.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`](crate::Error::OutcomeUnknown) when the log fails, or has failed;
    /// [`Misuse::EpochHeld`]; [`Misuse::Option`] where there is no log.
    pub fn flush(&self) -> Result<()> {
        match self.inner.logging() {
            Some(log) => log.flush(),
            None => Err(Misuse::Option(
                "this database has no log to flush; open it with `Builder::path`".to_owned(),
            )
            .into()),
        }
    }

    /// Writes a checkpoint: all rows as of now, beside running transactions, and cuts the log short. One
    /// is taken at a time; a second call waits for the first.
    ///
    /// # Errors
    /// [`Error::Open`](crate::Error::Open) when a file of it cannot be written: the one before stays in
    /// force, and the log. [`Error::LogFailed`](crate::Error::LogFailed); [`Misuse::EpochHeld`];
    /// [`Misuse::Option`] for a database in memory.
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        checkpoint::take(&self.inner)
    }

    /// What was found when the directory was opened; `None` for a database in memory.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.inner.recovery.as_ref()
    }

    /// The protocol's settings.
    pub fn options(&self) -> &P::Options {
        &self.inner.options
    }
}

/// Counts and sizes of a database.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Ended attempts of all workers.
    pub stats: Stats,
    /// The epoch now.
    pub epoch: u64,
    /// Bytes of record memory, free blocks and old versions included.
    pub record_bytes: usize,
    /// Bytes of old versions that snapshots may need, or that wait for their reclamation.
    pub version_bytes: usize,
    /// Old versions that were kept for snapshots since the database was opened.
    pub versions_kept: u64,
    /// Reclamation steps that wait for their epoch, or for a snapshot to end.
    pub garbage: usize,
    /// How long the oldest snapshot has been open. Old versions and deleted rows pile up while it is.
    pub oldest_snapshot: Option<Duration>,
    /// What the log has done; `None` where nothing is logged.
    pub log: Option<LogMetrics>,
    /// Nodes or buckets of each index.
    pub index_nodes: Vec<(&'static str, usize)>,
}

/// Settings for a database that is about to be opened.
pub struct Builder<P: Protocol> {
    options: P::Options,
    sessions: usize,
    settings: Settings,
    stores: Result<Stores<P>>,
    procedures: Vec<(TypeId, Declaration, Option<CallByName<P>>)>,
    protocol: PhantomData<fn() -> P>,
}

/// The settings that do not depend on the protocol.
struct Settings {
    isolation: Isolation,
    plan_change: PlanChange,
    epoch_interval: Option<Duration>,
    snapshot_interval: Duration,
    place: Option<Place>,
    durability: Durability,
    log: LogOptions,
    /// Of recovery and checkpoints; as many as there are cores unless told.
    threads: Option<usize>,
    checkpoint_log_bytes: Option<u64>,
    salvage: bool,
    tell: Option<recovery::Tell>,
}

/// Where the files are.
enum Place {
    Path(PathBuf),
    Storage(Arc<dyn Storage>),
}

/// Sessions of a database unless it is told otherwise.
const SESSIONS: usize = 128;
/// For how long a moment is recent enough for [`Session::read`].
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(1);
/// How often the epoch advances.
const EPOCH_INTERVAL: Duration = Duration::from_millis(10);
/// The log's length after which a checkpoint is taken.
const CHECKPOINT_LOG_BYTES: u64 = 1 << 30;
/// How often the log's length is looked at.
const CHECKPOINT_LOOK: Duration = Duration::from_millis(200);
/// Threads of recovery and checkpoints, at most.
const THREADS_MAX: usize = 16;

impl Default for Settings {
    fn default() -> Self {
        Self {
            isolation: Isolation::default(),
            plan_change: PlanChange::default(),
            epoch_interval: Some(EPOCH_INTERVAL),
            snapshot_interval: SNAPSHOT_INTERVAL,
            place: None,
            durability: Durability::Epoch,
            log: LogOptions::default(),
            threads: None,
            checkpoint_log_bytes: Some(CHECKPOINT_LOG_BYTES),
            salvage: false,
            tell: None,
        }
    }
}

impl<P: Protocol> Builder<P> {
    fn new() -> Self {
        Self {
            options: P::Options::default(),
            sessions: SESSIONS.min(P::SESSIONS_MAX),
            settings: Settings::default(),
            stores: Ok(Stores::new()),
            procedures: Vec::new(),
            protocol: PhantomData,
        }
    }

    /// Chooses the protocol. Call it first: protocol options, sessions, tables and procedures start afresh.
    pub fn protocol<Q: Protocol>(self) -> Builder<Q> {
        Builder { settings: self.settings, ..Builder::new() }
    }

    /// The protocol's own settings.
    pub fn options(mut self, options: P::Options) -> Self {
        self.options = options;
        self
    }

    /// How many sessions may exist at once, 1 to 1024; 128 unless told (1 under `unprotected`).
    pub fn sessions(mut self, sessions: usize) -> Self {
        self.sessions = sessions;
        self
    }

    /// Makes a table and its indexes at once, sized for `rows` rows. A database in memory makes tables
    /// that are not named here at their first use; one with files must have all of them named.
    pub fn table<T: Table>(mut self, rows: usize) -> Self {
        self.stores = self.stores.and_then(|stores| create_table::<T, P>(&stores, rows).map(|()| stores));
        self
    }

    /// Registers a procedure at once; see [`Database::register`].
    pub fn procedure<Q: Procedure>(mut self) -> Self {
        self.procedures.push((TypeId::of::<Q>(), Declaration::of::<Q>(), None));
        self
    }

    /// The isolation level of transactions that are not told another ([`Session::set_isolation`]); serializable
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

    /// How old the moment may be that [`Session::read`] sees; 1 s unless told. The longer, the fewer
    /// old versions are kept beside readers. At zero each reader has a moment of his own.
    pub fn snapshot_interval(mut self, interval: Duration) -> Self {
        self.settings.snapshot_interval = interval;
        self
    }

    /// Starts no thread: [`Database::advance_epoch`] advances the epoch, [`Database::flush`] writes the
    /// log, [`Database::checkpoint`] takes checkpoints.
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

    /// After how many bytes of log a checkpoint is taken, `None` for never; 1 GiB unless told.
    pub fn checkpoint_after(mut self, log_bytes: Option<u64>) -> Self {
        self.settings.checkpoint_log_bytes = log_bytes;
        self
    }

    /// Opens a damaged log as far as it is whole, and gives up the rest; [`Recovery::lost`] says what that
    /// is. Commits that were durable are lost by it.
    pub fn salvage(mut self, salvage: bool) -> Self {
        self.settings.salvage = salvage;
        self
    }

    /// Is told how far opening the directory has come.
    pub fn on_recovery(mut self, tell: impl Fn(RecoveryProgress) + Send + Sync + 'static) -> Self {
        self.settings.tell = Some(Arc::new(tell));
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    /// [`Misuse::Option`] for settings that cannot be met, [`Misuse::TooManyTables`];
    /// [`Error::Open`](crate::Error::Open) for a directory that is in use, damaged, or of other tables.
    pub fn open(self) -> Result<Database<P>> {
        let option = |what: String| Err(Misuse::Option(what).into());
        if self.sessions == 0 || self.sessions > P::SESSIONS_MAX {
            let (name, max) = (P::NAME, P::SESSIONS_MAX);
            let given = self.sessions;
            return option(format!("{name} allows 1 to {max} sessions, not {given}"));
        }
        let settings = self.settings;
        Inner::<P>::offers(&self.options, settings.isolation)?;
        if settings.log.files == 0 || settings.log.files > FILES_MAX {
            return option(format!("a log has 1 to {FILES_MAX} files, not {}", settings.log.files));
        }
        if !settings.log.compression.is_built() {
            let name = settings.log.compression.name();
            return option(format!("this build has no compression by {name}; enable the feature `{name}`"));
        }
        let mut stores = self.stores?;
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX));
        // Asking the system takes longer than opening a small directory.
        let threads = match &settings.place {
            None => 1,
            Some(_) => settings.threads.unwrap_or_else(cores),
        };
        let opened = match &settings.place {
            None => None,
            Some(place) => {
                let storage: Arc<dyn Storage> = match place {
                    Place::Storage(storage) => Arc::clone(storage),
                    Place::Path(path) => Arc::new(Disk::open(path).map_err(|source| LogError::Io {
                        doing: "opening the directory",
                        file: path.display().to_string(),
                        source,
                    })?),
                };
                stores.close();
                let files = if settings.durability == Durability::None { 0 } else { settings.log.files };
                let opening = Opening {
                    storage,
                    stores: &stores,
                    options: LogOptions { files, at_once: settings.epoch_interval.is_some(), ..settings.log },
                    threads,
                    salvage: settings.salvage,
                    tell: settings.tell.clone(),
                };
                Some(opening.open()?)
            }
        };
        let db = start(self.options, self.sessions, threads, settings, stores, opened);
        for (id, declaration, by_name) in self.procedures {
            db.inner.procedures.add(Some(id), declaration, by_name, &db.inner.clock)?;
        }
        Ok(db)
    }
}

/// Puts the parts of a database together and starts its threads.
fn start<P: Protocol>(
    options: P::Options,
    sessions: usize,
    checkpoint_threads: usize,
    settings: Settings,
    stores: Stores<P>,
    opened: Option<Opened>,
) -> Database<P> {
    // Checkpoints pin the epoch from places behind those of the sessions.
    let places = sessions + checkpoint_threads;
    let clock = match &opened {
        Some(opened) => EpochClock::starting_at(places, opened.epoch),
        None => EpochClock::new(places),
    }
    .with_late_commits(P::execution(&options).commits_pieces());
    let clock = Arc::new(clock);
    clock.name_words();
    let boundaries = Arc::new(Boundaries::new(settings.snapshot_interval));
    let exchange: Arc<Exchange> = Arc::default();
    let shared = Arc::new(P::Shared::new(sessions));
    let mut idle = Vec::new();
    let mut attic = Vec::new();
    let (mut log, mut recovery, mut guard) = (None, None, None);
    if let Some(opened) = opened {
        for (number, (arena, garbage)) in opened.memory.into_iter().enumerate() {
            if number < sessions {
                let worker = Worker::new(number, &options, &shared, Arc::clone(&exchange));
                let worker = worker.with_memory(arena, garbage);
                idle.push(Box::new(worker));
            } else {
                attic.push(arena);
            }
        }
        let redo = RedoLog::new(
            Arc::clone(&clock),
            opened.ids,
            sessions,
            settings.log,
            opened.files,
            opened.epoch - 1,
        );
        log = Some(Arc::new(redo));
        (recovery, guard) = (Some(opened.recovery), Some(opened.guard));
    }
    // The workers that are taken next come from the end.
    idle.reverse();
    let logging = log.clone().filter(|_| settings.durability != Durability::None);
    let ticker = settings.epoch_interval.map(|interval| {
        let (clock, boundaries, log) = (Arc::clone(&clock), Arc::clone(&boundaries), logging.clone());
        Ticker::start(interval, move || {
            clock.advance();
            boundaries.expire();
            if let Some(log) = &log {
                log.tick();
            }
        })
    });
    let inner = Arc::new_cyclic(|db: &Weak<Inner<P>>| {
        let watched = logging.zip(settings.checkpoint_log_bytes).filter(|_| ticker.is_some());
        let start = |(log, log_bytes)| Checkpointer::start(Weak::clone(db), log, log_bytes);
        Inner {
            checkpointer: watched.map(start),
            _ticker: ticker,
            clock,
            boundaries,
            stores,
            counters: Counters::new(sessions),
            procedures: Procedures::new(&options, settings.plan_change, sessions),
            options,
            isolation: settings.isolation,
            shared,
            sessions_max: sessions,
            exchange,
            places: Mutex::new(Places { made: idle.len(), idle, _attic: attic }),
            log,
            durability: settings.durability,
            recovery,
            checkpointing: Mutex::new(()),
            checkpoint_threads,
            _guard: guard,
        }
    });
    Database { inner }
}

fn create_table<T: Table, P: Protocol>(stores: &Stores<P>, rows: usize) -> Result<()> {
    struct Create<'a, P> {
        stores: &'a Stores<P>,
        rows: usize,
    }
    impl<T: Table, P: Protocol> IndexVisitor<T> for Create<'_, P> {
        fn visit<I: crate::table::Index<Table = T>>(&mut self) -> Result<()> {
            self.stores.create::<I>(self.rows).map(|_| ())
        }
    }
    stores.create::<T>(rows)?;
    T::Indexes::each(&mut Create { stores, rows })
}
