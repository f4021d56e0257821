//! A database under one protocol: opening, workers, metrics; the [`Engine`] of the seam.

mod attempt;
mod backup;
mod beginning;
mod build;
mod by_name;
mod check;
mod checkpoint;
mod common;
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

use crate::arena::Arena;
use crate::backup::{Backup, BackupReport};
use crate::check::CheckReport;
use crate::epoch::Ticker;
use crate::error::{Misuse, Result};
use crate::kind::Promises;
use crate::log::LogKind;
use crate::metrics::{CheckpointReport, Metrics, Recovery};
use crate::procedure::{Declaration, Plan};
use crate::protocol::{Env, Isolation, Protocol, Records, Shared};
use crate::seam::{CallByName, Callee, Engine, Job, MakeReplayer, ProcedureInfo, Registered, Worker};
use crate::settings::{Durability, Limits, Settings};
use crate::sync::{Mutex, lock, now_ns};
use crate::table::Definition;
use crate::values::Values;
use attempt::{Attempt, WorkerState};
use common::{Begun, Common, Threads, Watch};
use std::any::TypeId;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use store::Stores;

/// An open database, for its handles and sessions. With the last of them the thread that takes checkpoints ends, and
/// then the database: who has dropped it may open its directory again.
struct Handle<P: Protocol> {
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
/// Fields are dropped in order: stores and workers (with their arenas) go together, when no session is left that could
/// follow a reference into them.
struct Inner<P: Protocol> {
    stores: Stores,
    /// The protocol's, with these options.
    options: P::Options,
    /// What the protocol's workers share.
    shared: Arc<P::Shared>,
    places: Mutex<Places<P>>,
    common: Common,
}

impl<P: Protocol> Deref for Inner<P> {
    type Target = Common;
    #[inline(always)]
    fn deref(&self) -> &Common {
        &self.common
    }
}

/// Workers without a session.
struct Places<P: Protocol> {
    idle: Vec<Box<WorkerState<P>>>,
    made: usize,
    /// Memory that recovery filled and that belongs to no worker.
    _orphan_arenas: Vec<Arena>,
}

impl<P: Protocol> Inner<P> {
    /// What a verb of the protocol gets to see.
    #[inline(always)]
    fn env(&self, worker: usize, isolation: Isolation) -> Env<'_> {
        Env { clock: &self.clock, worker, epoch: None, after: 0, isolation }
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
}

impl<P: Protocol> Drop for Inner<P> {
    fn drop(&mut self) {
        self.common.close(&self.stores);
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
        let stores = self.stores.all().into_iter();
        stores.map(|store| store.relation).find(|relation| relation.name() == name)
    }

    fn register(
        &self,
        id: Option<TypeId>,
        declared: Declaration,
        by_name: Option<CallByName>,
    ) -> Result<Registered> {
        self.common.register(id, declared, by_name)
    }

    fn unregister(&self, which: Callee) -> Result<bool> {
        self.common.unregister(which)
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
        self.common.metrics(&self.stores, P::regions(&self.shared))
    }

    fn gathers(&self) -> bool {
        self.gathers
    }

    fn gather(&self, job: Arc<dyn Job>, first: bool) {
        self.modes.batches().submit(job, first);
    }

    fn end_gathering(&self) {
        self.modes.batches().close();
    }

    fn advance_epoch(&self) -> bool {
        self.common.advance_epoch()
    }

    fn flush(&self) -> Result<()> {
        self.common.flush()
    }

    fn checkpoint(&self) -> Result<CheckpointReport> {
        self.take_checkpoint(&self.stores)
    }

    fn backup(&self, backup: &Backup) -> Result<BackupReport> {
        self.common.backup(&self.stores, backup)
    }

    fn check(&self) -> Result<CheckReport> {
        self.common.check(&self.stores)
    }

    fn resume(&self) -> Result<()> {
        self.resume_log()
    }

    fn finish_opening(self: Arc<Self>, replayer: MakeReplayer) -> Result<()> {
        let worker = || {
            let worker = self.take_place(Duration::ZERO)?;
            Ok(Box::new(Attempt::replaying(Arc::clone(&self), worker)) as Box<dyn Worker>)
        };
        self.common.finish(&self.stores, &worker, replayer)
    }

    fn logs_calls(&self) -> bool {
        self.common.logs_calls()
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

/// Opens a database under `P`.
///
/// # Errors
/// As `Builder::open`.
pub(crate) fn open<P: Protocol>(
    name: &'static str,
    options: P::Options,
    settings: Settings,
) -> Result<Arc<dyn Engine>> {
    let threads = Threads::of(name, &options, &settings)?;
    let options = match settings.log.kind {
        LogKind::Values => options,
        LogKind::Commands => options.timed_in_order().ok_or_else(|| logs_no_calls(name))?,
    };
    let mut stores = Stores::new(Records::of::<P>(), threads.sessions);
    for (relation, rows) in &settings.relations {
        stores.create(relation, *rows)?;
    }
    let opened = match &settings.place {
        None => None,
        Some(place) => {
            stores.close();
            Some(places::open_files(place, &settings, stores.all(), Records::of::<P>(), threads.files)?)
        }
    };
    let Begun { common, memory, orphans, watch } = Common::begin(name, &options, threads, settings, opened);
    let shared = Arc::new(P::Shared::new(threads.sessions));
    let mut idle = Vec::new();
    for (number, (arena, garbage)) in memory.into_iter().enumerate() {
        let worker = WorkerState::<P>::new(number, &options, &shared, Arc::clone(&common.exchange));
        idle.push(Box::new(worker.with_memory(arena, garbage)));
    }
    // The workers that are taken next come from the end.
    idle.reverse();
    let places = Mutex::new(Places { made: idle.len(), idle, _orphan_arenas: orphans });
    let inner = Arc::new(Inner { stores, options, shared, places, common });
    let start = |watch: Watch| {
        let db = Arc::downgrade(&inner);
        watch.start(Box::new(move || db.upgrade().map(|db| db.take_checkpoint(&db.stores))))
    };
    Ok(Arc::new(Handle { _checkpointer: watch.map(start), inner }))
}

/// Why a log of commands is refused.
fn logs_no_calls(name: &str) -> Misuse {
    Misuse::Option(format!(
        "{name} cannot log calls as such, since it does not know what they access; take `dgcc`, `dgcc-levels` or `dataflow`, or \
         leave `LogKind::Commands` out"
    ))
}
