//! A database under one protocol: opening, workers, metrics; the [`Engine`] of the seam.

mod attempt;
mod backup;
mod beginning;
mod build;
mod by_name;
mod check;
mod checkpoint;
mod counters;
mod declared;
mod finish;
mod garbage;
mod migrate;
mod parts;
mod places;
mod procedures;
mod recall;
mod recovery;
mod replay;
mod replay_calls;
mod shares;
pub(crate) mod store;
mod validate;
mod versions;
mod walkers;

use crate::arena::{Arena, Exchange};
use crate::backup::{Backup, BackupReport};
use crate::check::CheckReport;
use crate::copies::open_empty;
use crate::durability::RedoLog;
use crate::epoch::{EpochClock, Ticker};
use crate::error::{Misuse, Result};
use crate::isolation;
use crate::kind::Promises;
use crate::log::{LogKind, lock_storage};
use crate::metrics::{CheckpointReport, Metrics, OldestTransaction, Recovery};
use crate::procedure::{Declaration, Plan};
use crate::protocol::{Env, Execution, Isolation, Protocol, Shared};
use crate::seam::{CallByName, Callee, Engine, Job, MakeReplayer, ProcedureInfo, Registered, Worker};
use crate::settings::{Durability, Limits, Settings};
use crate::snapshot::Boundaries;
use crate::storage::Guard;
use crate::sync::{Condvar, Mutex, lock, now_ns};
use crate::table::Definition;
use crate::values::Values;
use attempt::{Attempt, SharedStates, WorkerState};
use counters::Counters;
use finish::Unfinished;
use procedures::{Procedures, Running};
use recovery::Opened;
use std::any::TypeId;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::{Stores, make_store};
use versions::Versions;
use walkers::Walkers;

/// An open database, for its handles and sessions. With the last of them the thread that takes checkpoints ends, and
/// then the database: who has dropped it may open its directory again.
pub(crate) struct Handle<P: Protocol> {
    /// Takes checkpoints when the log has grown. Dropped first, which waits for the one that it takes.
    _checkpointer: Option<Ticker>,
    inner: Arc<Inner<P>>,
}

impl<P: Protocol> Deref for Handle<P> {
    type Target = Inner<P>;
    fn deref(&self) -> &Inner<P> {
        &self.inner
    }
}

/// What all handles, sessions and transactions share.
///
/// Fields are dropped in order: the ticker stops first; stores and workers (with their arenas) go
/// together, when no session is left that could follow a reference into them.
pub(crate) struct Inner<P: Protocol> {
    /// Advances the clock and runs rounds of the log; `None` if the user does so.
    _ticker: Option<Ticker>,
    clock: Arc<EpochClock>,
    boundaries: Arc<Boundaries>,
    stores: Stores<P>,
    counters: Counters,
    procedures: Procedures,
    /// What workers share because of how calls are executed.
    modes: SharedStates,
    /// The protocol's, with these options.
    name: &'static str,
    options: P::Options,
    /// The level of transactions that choose none.
    isolation: Isolation,
    /// What the protocol's workers share.
    shared: Arc<P::Shared>,
    sessions_max: usize,
    exchange: Arc<Exchange>,
    places: Mutex<Places<P>>,
    /// A place has become free.
    place_freed: Condvar,
    limits: Limits,
    /// The log of a database with files.
    log: Option<Arc<RedoLog>>,
    /// The default of its commits; [`Durability::None`] means that nothing is logged.
    durability: Durability,
    /// What was found when the directory was opened; set when that is finished.
    recovery: OnceLock<Recovery>,
    /// What opening has left to be finished.
    unfinished: Mutex<Option<Unfinished>>,
    versions: Versions,
    /// Held during a checkpoint.
    checkpointing: Mutex<()>,
    walkers: Walkers,
    /// Whether one is taken at the end.
    checkpoint_at_close: bool,
    /// The lock on the directory; released last.
    _guard: Option<Box<dyn Guard>>,
}

/// Workers without a session.
struct Places<P: Protocol> {
    idle: Vec<Box<WorkerState<P>>>,
    made: usize,
    /// Memory that recovery filled and that belongs to no worker.
    _orphan_arenas: Vec<Arena>,
}

impl<P: Protocol> Inner<P> {
    fn with_running<R>(&self, change: impl FnOnce(Running<'_>) -> R) -> R {
        change(Running { clock: &self.clock, no_call_in_parts: &|| self.modes.no_call_in_parts() })
    }

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

    /// Whether the log says of calls that they were made, where it can.
    fn logs_calls(&self) -> bool {
        self.logging().is_some_and(|log| log.kind() == LogKind::Commands)
    }

    /// A worker for a new session: the one that was given back last, whose memory is the warmest. Waits for one for
    /// so long.
    fn take_place(&self, patience: Duration) -> Result<Box<WorkerState<P>>> {
        let mut places = lock(&self.places);
        let mut waited = Duration::ZERO;
        loop {
            if let Some(worker) = places.idle.pop() {
                return Ok(worker);
            }
            if places.made < self.sessions_max {
                places.made += 1;
                let exchange = Arc::clone(&self.exchange);
                return Ok(Box::new(WorkerState::new(
                    places.made - 1,
                    &self.options,
                    &self.shared,
                    exchange,
                )));
            }
            let limit = self.sessions_max;
            if patience.is_zero() {
                return Err(Misuse::TooManySessions { limit }.into());
            }
            let Some(left) = patience.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Err(Misuse::NoSessionFree { limit, waited }.into());
            };
            let begun = now_ns();
            places = match self.place_freed.wait_timeout(places, left) {
                Ok((places, _)) => places,
                Err(poisoned) => poisoned.into_inner().0,
            };
            waited += Duration::from_nanos(now_ns() - begun);
        }
    }

    /// A worker whose session has ended.
    fn give_place(&self, worker: Box<WorkerState<P>>) {
        lock(&self.places).idle.push(worker);
        self.place_freed.notify_one();
    }

    /// Takes a checkpoint.
    fn take_checkpoint(&self) -> Result<CheckpointReport> {
        let Some(log) = &self.log else {
            let what = "a database in memory has no checkpoints; open it with `Builder::path`";
            return Err(Misuse::Option(what.to_owned()).into());
        };
        log.check()?;
        if lock(&self.unfinished).is_some() {
            // Its log holds commits that are not in the rows yet.
            return Err(Misuse::Option("the database is being opened".to_owned()).into());
        }
        let _one_at_a_time = lock(&self.checkpointing);
        let source = checkpoint::Source {
            log,
            clock: &self.clock,
            boundaries: &self.boundaries,
            stores: self.stores.all().collect(),
            walkers: &self.walkers,
        };
        source.take()
    }

    /// Lets the log go on after a failure.
    fn resume_log(&self) -> Result<()> {
        // Beside a checkpoint the files of the new generation would look like something that is left over.
        let _no_checkpoint = lock(&self.checkpointing);
        self.log.as_ref().map_or(Ok(()), |log| log.resume())
    }
}

impl<P: Protocol> Drop for Inner<P> {
    /// Makes what was committed durable, unless the log has failed.
    fn drop(&mut self) {
        // A caller that needs to know of an error has called `flush`, or `checkpoint`.
        let is_flushed = self.logging().is_none_or(|log| log.flush().is_ok());
        let is_due = || self.logging().is_none_or(|log| log.due().writes > 0);
        let is_written = self.log.as_ref().is_some_and(|log| !log.is_read_only());
        if self.checkpoint_at_close && is_written && is_flushed && is_due() {
            let _ = self.take_checkpoint();
        }
    }
}

impl<P: Protocol> Engine for Handle<P> {
    fn worker(self: Arc<Self>, patience: Duration) -> Result<Box<dyn Worker>> {
        let worker = self.take_place(patience)?;
        let mut worker = Attempt::new(self, worker);
        if worker.db.limits.lock.is_some() || worker.worker.suspender.is_some() {
            worker.wait_by(None, None, None);
        }
        Ok(Box::new(worker))
    }

    fn values(&self) -> Arc<dyn Values> {
        Arc::clone(&self.stores.heap) as Arc<dyn Values>
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn create(&self, relation: &'static Definition, rows: usize) -> Result<()> {
        self.stores.create(relation, rows).map(|_| ())
    }

    fn relation(&self, name: &str) -> Option<&'static Definition> {
        self.stores.all().map(|store| store.relation()).find(|relation| relation.name() == name)
    }

    fn register(
        &self,
        id: Option<TypeId>,
        declared: Declaration,
        by_name: Option<CallByName>,
    ) -> Result<Registered> {
        self.with_running(|running| self.procedures.add(id, declared, by_name, running))
    }

    fn unregister(&self, which: Callee) -> Result<bool> {
        let number = match which {
            Callee::Number(number) => Some(number.0.into()),
            Callee::Type(id) => self.procedures.number_of(id),
        };
        let remove = |number| self.with_running(|running| self.procedures.remove(number, running));
        number.map_or(Ok(false), remove)
    }

    fn procedures(&self) -> Vec<ProcedureInfo> {
        self.procedures.list()
    }

    fn plan(&self) -> Arc<Plan> {
        self.procedures.plan()
    }

    fn adapt(&self, vertex: u16, hot: bool) {
        self.procedures.adapt(&self.procedures.plan(), vertex, hot);
    }

    fn metrics(&self) -> Metrics {
        let memory = self.counters.memory_sum();
        let oldest_snapshot = self.boundaries.oldest();
        let nodes = |store: &dyn store::AnyStore| (store.layout().name, store.index().nodes());
        let mut metrics = Metrics::default();
        metrics.stats = self.counters.sum();
        metrics.unforeseen = self.procedures.named(self.counters.unforeseen_calls());
        metrics.epoch = self.clock.now();
        metrics.record_bytes = memory.record_bytes;
        metrics.version_bytes = memory.version_bytes;
        metrics.value_bytes = self.stores.heap.bytes();
        metrics.versions_kept = memory.versions_kept as u64;
        metrics.garbage = memory.garbage;
        metrics.oldest_transaction = self
            .clock
            .oldest()
            .map(|oldest| OldestTransaction::new(oldest.worker, oldest.age, oldest.epochs, memory.garbage));
        metrics.oldest_snapshot = oldest_snapshot.map(|(_, _, age)| age);
        metrics.log = self.logging().filter(|log| !log.is_read_only()).map(|log| log.metrics());
        metrics.graph = self.gathers().then(|| self.modes.batches().metrics());
        metrics.regions = P::regions(&self.shared);
        metrics.index_nodes = self.stores.all().map(nodes).collect();
        metrics
    }

    fn gathers(&self) -> bool {
        self.options.execution() == Execution::Batched
    }

    fn gather(&self, job: Arc<dyn Job>, first: bool) {
        self.modes.batches().submit(job, first);
    }

    fn end_gathering(&self) {
        self.modes.batches().close();
    }

    fn advance_epoch(&self) -> bool {
        let moved = self.clock.advance();
        self.clock.note_pinned();
        self.boundaries.expire();
        moved
    }

    fn flush(&self) -> Result<()> {
        match self.logging() {
            Some(log) => log.flush(),
            None => Err(Misuse::Option(
                "this database has no log to flush; open it with `Builder::path`".to_owned(),
            )
            .into()),
        }
    }

    fn checkpoint(&self) -> Result<CheckpointReport> {
        self.take_checkpoint()
    }

    fn backup(&self, backup: &Backup) -> Result<BackupReport> {
        if backup.is_incremental() {
            return backup::continue_with(self.logging().map(|log| &**log), &self.clock, backup);
        }
        let storage = open_empty(backup.place())?;
        let _locked = lock_storage(&*storage)?;
        let durable = || self.recovery.get().map_or(0, |recovery| recovery.durable_epoch);
        let source = backup::Source {
            clock: &self.clock,
            boundaries: &self.boundaries,
            stores: &|| self.stores.all().collect(),
            walkers: &self.walkers,
            log: self.logging().map(|log| (&**log, durable())),
        };
        source.take(backup, &*storage)
    }

    fn check(&self) -> Result<CheckReport> {
        // A checkpoint would remove files that are being read.
        let _one_at_a_time = lock(&self.checkpointing);
        let checking = check::Checking {
            log: self.log.as_deref(),
            clock: &self.clock,
            boundaries: &self.boundaries,
            stores: self.stores.all().collect(),
            walkers: &self.walkers,
        };
        checking.run()
    }

    fn resume(&self) -> Result<()> {
        self.resume_log()
    }

    fn finish_opening(self: Arc<Self>, replayer: MakeReplayer) -> Result<()> {
        self.finish(replayer)
    }

    fn logs_calls(&self) -> bool {
        Inner::logs_calls(self)
    }

    fn recovery(&self) -> Option<&Recovery> {
        self.recovery.get()
    }

    fn protocol(&self) -> &'static str {
        self.name
    }

    fn levels(&self) -> &'static [Isolation] {
        self.options.levels()
    }

    fn is_logged(&self) -> bool {
        self.logging().is_some()
    }

    fn durability(&self) -> Durability {
        self.durability
    }
}

/// How often the log's length is looked at.
const CHECKPOINT_LOOK: Duration = Duration::from_millis(200);
/// The looks that are left out after a checkpoint that failed are doubled with each further one, so often.
const CHECKPOINT_DELAYS: u32 = 7;
/// Threads of recovery and checkpoints, at most.
const THREADS_MAX: usize = 16;

/// Opens a database under `P`.
///
/// # Errors
/// As `Builder::open`.
pub(crate) fn open<P: Protocol>(
    name: &'static str,
    options: P::Options,
    settings: Settings,
) -> Result<Arc<dyn Engine>> {
    let option = |what: String| Err(Misuse::Option(what).into());
    let max = options.sessions_max();
    let sessions = settings.sessions.unwrap_or(Settings::SESSIONS.min(max));
    if sessions == 0 || sessions > max {
        return option(format!("{name} allows 1 to {max} sessions, not {sessions}"));
    }
    isolation::offers(name, options.levels(), settings.isolation)?;
    settings.check()?;
    let options = match settings.log.kind {
        LogKind::Values => options,
        LogKind::Commands => match options.timed_in_order() {
            Some(timed) => timed,
            None => {
                return option(format!(
                    "{name} cannot log calls as such, since it does not know what they access; take `dgcc`, `dgcc-levels` or `dataflow`, or \
                     leave `LogKind::Commands` out"
                ));
            }
        },
    };
    let mut stores = Stores::<P>::new(sessions);
    for (relation, rows) in &settings.relations {
        stores.create(relation, *rows)?;
    }
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX));
    // Asking the system takes longer than opening a small directory.
    let threads = match &settings.place {
        None => 1,
        Some(_) => settings.threads.unwrap_or_else(cores),
    };
    let opened = match &settings.place {
        None => None,
        Some(place) => {
            stores.close();
            Some(places::open_files(place, &settings, stores.all().collect(), make_store::<P>, threads)?)
        }
    };
    Ok(start::<P>(name, options, sessions, threads, settings, stores, opened))
}

/// Puts the parts of a database together and starts its threads.
fn start<P: Protocol>(
    name: &'static str,
    options: P::Options,
    sessions: usize,
    checkpoint_threads: usize,
    settings: Settings,
    stores: Stores<P>,
    opened: Option<Opened>,
) -> Arc<Handle<P>> {
    // Checkpoints pin the epoch from places behind those of the sessions, and phases of calls in pieces, or additions that are
    // put off, from the last.
    let last = usize::from(options.execution() == Execution::Batched || options.puts_off());
    let places = sessions + checkpoint_threads + last;
    let clock = match &opened {
        Some(opened) => EpochClock::starting_at(places, opened.epoch),
        None => EpochClock::new(places),
    }
    .with_late_commits(options.execution().commits_late());
    let clock = Arc::new(clock);
    clock.name_words();
    let boundaries = Arc::new(Boundaries::new(settings.snapshot_interval, sessions));
    let exchange: Arc<Exchange> = Arc::default();
    let shared = Arc::new(P::Shared::new(sessions));
    let mut idle = Vec::new();
    let mut orphan_arenas = Vec::new();
    let (mut log, mut unfinished, mut guard) = (None, None, None);
    let mut versions = Versions::default();
    if let Some(opened) = opened {
        for (number, (arena, garbage)) in opened.memory.into_iter().enumerate() {
            if number < sessions {
                let worker = WorkerState::new(number, &options, &shared, Arc::clone(&exchange));
                let worker = worker.with_memory(arena, garbage);
                idle.push(Box::new(worker));
            } else {
                orphan_arenas.push(arena);
            }
        }
        let redo = RedoLog::new(
            Arc::clone(&clock),
            opened.relations,
            sessions,
            settings.log,
            opened.files,
            opened.epoch - 1,
        );
        log = Some(Arc::new(if settings.read_only { redo.read_only() } else { redo }));
        guard = Some(opened.guard);
        versions = opened.versions;
        let checkpoint = !settings.read_only && !opened.recovery.indexes.is_empty();
        let Opened { recovery, calls, beginning, .. } = opened;
        unfinished = Some(Unfinished { recovery, calls, beginning, checkpoint });
    }
    // The workers that are taken next come from the end.
    idle.reverse();
    // One that is only read has a log that refuses writers.
    let durability = match settings.durability {
        Durability::None if settings.read_only => Durability::Epoch,
        durability => durability,
    };
    let logging = log.clone().filter(|_| durability != Durability::None);
    let ticker = settings.epoch_interval.map(|interval| {
        let (clock, boundaries, log) = (Arc::clone(&clock), Arc::clone(&boundaries), logging.clone());
        Ticker::start(interval, move || {
            clock.advance();
            clock.note_pinned();
            boundaries.expire();
            if let Some(log) = &log {
                log.tick();
            }
        })
    });
    let limit = (settings.checkpoint_log_bytes, settings.checkpoint_replay);
    let watched = logging.filter(|_| ticker.is_some() && !settings.read_only && limit != (None, None));
    let inner = Arc::new(Inner {
        _ticker: ticker,
        clock,
        boundaries,
        stores,
        counters: Counters::new(sessions),
        procedures: Procedures::new::<P>(&options, settings.plan_change),
        modes: SharedStates::new(&options, sessions),
        name,
        options,
        isolation: settings.isolation,
        shared,
        sessions_max: sessions,
        exchange,
        place_freed: Condvar::new(),
        limits: settings.limits,
        places: Mutex::new(Places { made: idle.len(), idle, _orphan_arenas: orphan_arenas }),
        log,
        durability,
        recovery: OnceLock::new(),
        unfinished: Mutex::new(unfinished),
        versions,
        checkpointing: Mutex::new(()),
        walkers: Walkers::new(sessions, checkpoint_threads),
        checkpoint_at_close: settings.checkpoint_at_close,
        _guard: guard,
    });
    let start = |log: Arc<RedoLog>| {
        let db = Arc::downgrade(&inner);
        // After a failure it is not tried at once again: each try ends a generation, and may fill a disk that is full.
        let (looks, failures) = (Mutex::new(0_u32), Mutex::new(0_u32));
        Ticker::start(CHECKPOINT_LOOK, move || {
            let due = log.due();
            let is_long = limit.0.is_some_and(|bytes| due.bytes > bytes);
            let (mut looks, mut failures) = (lock(&looks), lock(&failures));
            *looks = looks.saturating_sub(1);
            if *looks == 0
                && (is_long || limit.1.is_some_and(|time| due.time() > time))
                && log.check().is_ok()
                && let Some(db) = db.upgrade()
            {
                // A failure shows in the metrics, and so does a panic of the storage, which must not end this thread.
                let outcome = catch_unwind(AssertUnwindSafe(|| db.take_checkpoint()));
                *failures = if matches!(outcome, Ok(Ok(_))) { 0 } else { *failures + 1 };
                *looks = if *failures == 0 { 0 } else { 4 << CHECKPOINT_DELAYS.min(*failures) };
                log.tell_failed_checkpoints(*failures);
            }
        })
    };
    Arc::new(Handle { _checkpointer: watched.map(start), inner })
}
