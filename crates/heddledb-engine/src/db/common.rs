//! What a database is whatever its protocol: clock, log, procedures, counters. What knows no protocol is compiled here once.

use super::attempt::SharedStates;
use super::backup;
use super::beginning::Beginning;
use super::check;
use super::checkpoint;
use super::counters::Counters;
use super::garbage::Garbage;
use super::procedures::{Procedures, Running};
use super::recovery::Opened;
use super::replay_calls::LoggedCalls;
use super::store::{Store, Stores};
use super::versions::Versions;
use super::walkers::Walkers;
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
use crate::metrics::{CheckpointReport, Metrics, OldestTransaction, Recovery, RegionMetrics};
use crate::procedure::Declaration;
use crate::protocol::{Execution, Isolation};
use crate::seam::{CallByName, Callee, Registered};
use crate::settings::{Durability, Limits, Settings};
use crate::snapshot::Boundaries;
use crate::storage::Guard;
use crate::sync::{Condvar, Mutex, lock};
use std::any::TypeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often the log's length is looked at.
const CHECKPOINT_LOOK: Duration = Duration::from_millis(200);
/// The looks that are left out after a checkpoint that failed are doubled with each further one, so often.
const CHECKPOINT_DELAYS: u32 = 7;
/// Threads of recovery and checkpoints, at most.
const THREADS_MAX: usize = 16;

/// What all handles, sessions and transactions share, under any protocol.
///
/// Fields are dropped in order: the ticker stops first, and the lock on the directory is released last.
pub(super) struct Common {
    /// Advances the clock and runs rounds of the log; `None` if the user does so.
    _ticker: Option<Ticker>,
    pub clock: Arc<EpochClock>,
    pub boundaries: Arc<Boundaries>,
    pub counters: Counters,
    pub procedures: Procedures,
    /// What workers share because of how calls are executed.
    pub modes: SharedStates,
    /// The protocol's.
    pub name: &'static str,
    /// Calls are gathered into batches.
    pub gathers: bool,
    /// The level of transactions that choose none.
    pub isolation: Isolation,
    pub sessions_max: usize,
    pub exchange: Arc<Exchange>,
    /// A session has given back its place.
    pub place_freed: Condvar,
    pub limits: Limits,
    /// The log of a database with files.
    pub log: Option<Arc<RedoLog>>,
    /// The default of its commits; [`Durability::None`] means that nothing is logged.
    pub durability: Durability,
    /// What was found when the directory was opened; set when that is finished.
    pub recovery: OnceLock<Recovery>,
    /// What opening has left to be finished.
    pub unfinished: Mutex<Option<Unfinished>>,
    pub versions: Versions,
    /// Held during a checkpoint.
    checkpointing: Mutex<()>,
    walkers: Walkers,
    /// Whether one is taken at the end.
    checkpoint_at_close: bool,
    _guard: Option<Box<dyn Guard>>,
}

/// What opening a directory has left to be done.
pub(super) struct Unfinished {
    pub recovery: Recovery,
    pub calls: Option<LoggedCalls>,
    /// What is to be written when these were made again.
    pub beginning: Option<Beginning>,
    /// Indexes were built or removed, which is to be in the files before anybody is told that it is open.
    pub checkpoint: bool,
}

/// A database that is about to begin, but for what its protocol adds.
pub(super) struct Begun {
    pub common: Common,
    /// What recovery filled, by worker.
    pub memory: Vec<(Arena, Garbage)>,
    /// Memory that recovery filled and that belongs to no worker.
    pub orphans: Vec<Arena>,
    /// What takes checkpoints when the log has grown.
    pub watch: Option<Watch>,
}

/// How long a log may become.
pub(super) struct Watch {
    log: Arc<RedoLog>,
    bytes: Option<u64>,
    replay: Option<Duration>,
}

/// How many threads a database has.
#[derive(Clone, Copy)]
pub(super) struct Threads {
    pub sessions: usize,
    /// Of recovery and checkpoints.
    pub files: usize,
}

impl Threads {
    /// What the settings ask for, if the protocol allows that.
    ///
    /// # Errors
    /// [`Misuse::Option`]: it does not, or the settings contradict each other.
    pub fn of(name: &'static str, promises: &dyn Promises, settings: &Settings) -> Result<Self> {
        let max = promises.sessions_max();
        let sessions = settings.sessions.unwrap_or(Settings::SESSIONS.min(max));
        if sessions == 0 || sessions > max {
            let what = format!("{name} allows 1 to {max} sessions, not {sessions}");
            return Err(Misuse::Option(what).into());
        }
        isolation::offers(name, promises.levels(), settings.isolation)?;
        settings.check()?;
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX));
        // Asking the system takes longer than opening a small directory.
        let files = match &settings.place {
            None => 1,
            Some(_) => settings.threads.unwrap_or_else(cores),
        };
        Ok(Self { sessions, files })
    }
}

impl Common {
    /// Puts the parts of a database together, and starts the thread that advances its clock.
    pub fn begin(
        name: &'static str,
        promises: &dyn Promises,
        threads: Threads,
        settings: Settings,
        opened: Option<Opened>,
    ) -> Begun {
        let sessions = threads.sessions;
        // Checkpoints pin the epoch from places behind those of the sessions, and phases of calls in pieces, or additions
        // that are put off, from the last.
        let gathers = promises.execution() == Execution::Batched;
        let places = sessions + threads.files + usize::from(gathers || promises.puts_off());
        let clock = match &opened {
            Some(opened) => EpochClock::starting_at(places, opened.epoch),
            None => EpochClock::new(places),
        }
        .with_late_commits(promises.execution().commits_late());
        let clock = Arc::new(clock);
        clock.name_words();
        let boundaries = Arc::new(Boundaries::new(settings.snapshot_interval, sessions));
        let (mut memory, mut orphans) = (Vec::new(), Vec::new());
        let (mut log, mut unfinished, mut guard) = (None, None, None);
        let mut versions = Versions::default();
        if let Some(opened) = opened {
            memory = opened.memory;
            if memory.len() > sessions {
                orphans.extend(memory.drain(sessions..).map(|(arena, _)| arena));
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
        let (bytes, replay) = (settings.checkpoint_log_bytes, settings.checkpoint_replay);
        let is_watched = ticker.is_some() && !settings.read_only && (bytes.is_some() || replay.is_some());
        let watch = logging.filter(|_| is_watched).map(|log| Watch { log, bytes, replay });
        let common = Self {
            _ticker: ticker,
            clock,
            boundaries,
            counters: Counters::new(sessions),
            procedures: Procedures::new(promises, settings.plan_change),
            modes: SharedStates::new(promises, sessions),
            name,
            gathers,
            isolation: settings.isolation,
            sessions_max: sessions,
            exchange: Arc::default(),
            place_freed: Condvar::new(),
            limits: settings.limits,
            log,
            durability,
            recovery: OnceLock::new(),
            unfinished: Mutex::new(unfinished),
            versions,
            checkpointing: Mutex::new(()),
            walkers: Walkers::new(sessions, threads.files),
            checkpoint_at_close: settings.checkpoint_at_close,
            _guard: guard,
        };
        Begun { common, memory, orphans, watch }
    }

    /// The log, if commits are logged.
    #[inline(always)]
    pub fn logging(&self) -> Option<&Arc<RedoLog>> {
        match self.durability {
            Durability::None => None,
            _ => self.log.as_ref(),
        }
    }

    /// Whether the log says of calls that they were made, where it can.
    pub fn logs_calls(&self) -> bool {
        self.logging().is_some_and(|log| log.kind() == LogKind::Commands)
    }

    fn with_running<R>(&self, change: impl FnOnce(Running<'_>) -> R) -> R {
        change(Running { clock: &self.clock, no_call_in_parts: &|| self.modes.no_call_in_parts() })
    }

    /// As [`Engine::register`](crate::seam::Engine::register).
    pub fn register(
        &self,
        id: Option<TypeId>,
        declared: Declaration,
        by_name: Option<CallByName>,
    ) -> Result<Registered> {
        self.with_running(|running| self.procedures.add(id, declared, by_name, running))
    }

    /// As [`Engine::unregister`](crate::seam::Engine::unregister).
    pub fn unregister(&self, which: Callee) -> Result<bool> {
        let number = match which {
            Callee::Number(number) => Some(number.0.into()),
            Callee::Type(id) => self.procedures.number_of(id),
        };
        let remove = |number| self.with_running(|running| self.procedures.remove(number, running));
        number.map_or(Ok(false), remove)
    }

    /// As [`Engine::advance_epoch`](crate::seam::Engine::advance_epoch).
    pub fn advance_epoch(&self) -> bool {
        let moved = self.clock.advance();
        self.clock.note_pinned();
        self.boundaries.expire();
        moved
    }

    /// Makes all commits durable.
    pub fn flush(&self) -> Result<()> {
        let what = "this database has no log to flush; open it with `Builder::path`";
        self.logging().ok_or_else(|| Misuse::Option(what.to_owned()))?.flush()
    }

    /// Lets the log go on after a failure.
    pub fn resume_log(&self) -> Result<()> {
        // Beside a checkpoint the files of the new generation would look like something that is left over.
        let _no_checkpoint = lock(&self.checkpointing);
        self.log.as_ref().map_or(Ok(()), |log| log.resume())
    }

    /// What is known of the database, with what its protocol counts.
    pub fn metrics(&self, stores: &Stores, regions: Option<RegionMetrics>) -> Metrics {
        let memory = self.counters.memory_sum();
        let oldest_snapshot = self.boundaries.oldest();
        let nodes = |store: &Store| (store.layout().name, store.index.nodes());
        let mut metrics = Metrics::default();
        metrics.stats = self.counters.sum();
        metrics.unforeseen = self.procedures.named(self.counters.unforeseen_calls());
        metrics.epoch = self.clock.now();
        metrics.record_bytes = memory.record_bytes;
        metrics.version_bytes = memory.version_bytes;
        metrics.value_bytes = stores.heap.bytes();
        metrics.versions_kept = memory.versions_kept as u64;
        metrics.garbage = memory.garbage;
        metrics.oldest_transaction = self
            .clock
            .oldest()
            .map(|oldest| OldestTransaction::new(oldest.worker, oldest.age, oldest.epochs, memory.garbage));
        metrics.oldest_snapshot = oldest_snapshot.map(|(_, _, age)| age);
        metrics.log = self.logging().filter(|log| !log.is_read_only()).map(|log| log.metrics());
        metrics.graph = self.gathers.then(|| self.modes.batches().metrics());
        metrics.regions = regions;
        metrics.index_nodes = stores.all().into_iter().map(nodes).collect();
        metrics
    }

    /// Takes a checkpoint.
    pub fn take_checkpoint(&self, stores: &Stores) -> Result<CheckpointReport> {
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
            stores: stores.all(),
            walkers: &self.walkers,
        };
        source.take()
    }

    /// Makes what was committed durable when the database is closed, unless the log has failed.
    pub fn close(&self, stores: &Stores) {
        // A caller that needs to know of an error has called `flush`, or `checkpoint`.
        let is_flushed = self.logging().is_none_or(|log| log.flush().is_ok());
        let is_due = || self.logging().is_none_or(|log| log.due().writes > 0);
        let is_written = self.log.as_ref().is_some_and(|log| !log.is_read_only());
        if self.checkpoint_at_close && is_written && is_flushed && is_due() {
            let _ = self.take_checkpoint(stores);
        }
    }

    /// As [`Engine::backup`](crate::seam::Engine::backup).
    pub fn backup(&self, stores: &Stores, backup: &Backup) -> Result<BackupReport> {
        if backup.is_incremental() {
            return backup::continue_with(self.logging().map(|log| &**log), &self.clock, backup);
        }
        let storage = open_empty(backup.place())?;
        let _locked = lock_storage(&*storage)?;
        let durable = || self.recovery.get().map_or(0, |recovery| recovery.durable_epoch);
        let source = backup::Source {
            clock: &self.clock,
            boundaries: &self.boundaries,
            stores,
            walkers: &self.walkers,
            log: self.logging().map(|log| (&**log, durable())),
        };
        source.take(backup, &*storage)
    }

    /// As [`Engine::check`](crate::seam::Engine::check).
    pub fn check(&self, stores: &Stores) -> Result<CheckReport> {
        // A checkpoint would remove files that are being read.
        let _one_at_a_time = lock(&self.checkpointing);
        let checking = check::Checking {
            log: self.log.as_deref(),
            clock: &self.clock,
            boundaries: &self.boundaries,
            stores: stores.all(),
            walkers: &self.walkers,
        };
        checking.run()
    }
}

impl Watch {
    /// Starts a thread that has a checkpoint taken when the log has become long. `take` returns `None` when there is no
    /// database any more.
    pub fn start(self, take: Box<dyn Fn() -> Option<Result<CheckpointReport>> + Send>) -> Ticker {
        // After a failure it is not tried at once again: each try ends a generation, and may fill a disk that is full.
        let (looks, failures) = (Mutex::new(0_u32), Mutex::new(0_u32));
        Ticker::start(CHECKPOINT_LOOK, move || {
            let due = self.log.due();
            let is_long = self.bytes.is_some_and(|bytes| due.bytes > bytes);
            let (mut looks, mut failures) = (lock(&looks), lock(&failures));
            *looks = looks.saturating_sub(1);
            if *looks == 0
                && (is_long || self.replay.is_some_and(|time| due.time() > time))
                && self.log.check().is_ok()
                // A failure shows in the metrics, and so does a panic of the storage, which must not end this thread.
                && let Some(outcome) = catch_unwind(AssertUnwindSafe(&take)).transpose()
            {
                *failures = if matches!(outcome, Ok(Ok(_))) { 0 } else { *failures + 1 };
                *looks = if *failures == 0 { 0 } else { 4 << CHECKPOINT_DELAYS.min(*failures) };
                self.log.tell_failed_checkpoints(*failures);
            }
        })
    }
}
