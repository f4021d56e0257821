//! The database: opening, sessions, metrics.

mod counters;
mod garbage;
mod reading;
mod session;
pub(crate) mod snapshot;
pub(crate) mod store;
mod txn;

pub use counters::Stats;
pub use session::{OwnedTransaction, Session};
pub use snapshot::Snapshot;
pub use txn::Txn;

use crate::arena::Exchange;
use crate::epoch::{EpochClock, Ticker};
use crate::error::{Misuse, Result};
use crate::protocol::{Protocol, Silo};
use crate::snapshot::Boundaries;
use crate::sync::{Mutex, lock};
use crate::table::{IndexSet, IndexVisitor, Table};
use counters::Counters;
use std::marker::PhantomData;
use std::sync::Arc;
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
    /// Advances the clock; `None` if the user does.
    _ticker: Option<Ticker>,
    clock: Arc<EpochClock>,
    boundaries: Arc<Boundaries>,
    stores: Stores<P>,
    counters: Counters,
    options: P::Options,
    sessions_max: usize,
    exchange: Arc<Exchange>,
    places: Mutex<Places<P>>,
}

/// Workers without a session.
struct Places<P: Protocol> {
    idle: Vec<Box<Worker<P>>>,
    made: usize,
}

impl<P: Protocol> Inner<P> {
    /// A worker for a new session.
    fn take_place(self: &Arc<Self>) -> Result<Txn<P>> {
        let mut places = lock(&self.places);
        let worker = match places.idle.pop() {
            Some(worker) => worker,
            None if places.made < self.sessions_max => {
                places.made += 1;
                Box::new(Worker::new(places.made - 1, &self.options, Arc::clone(&self.exchange)))
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

    /// Makes a table and its indexes now instead of at their first use, sized for `rows` rows.
    ///
    /// # Errors
    /// [`Misuse::TooManyTables`].
    pub fn create<T: Table>(&self, rows: usize) -> Result<()> {
        create_table::<T, P>(&self.inner.stores, rows)
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
            index_nodes: self.inner.stores.all().map(|store| (store.name(), store.index_nodes())).collect(),
        }
    }

    /// Advances the epoch by one, unless a transaction that began before holds it back. Only needed
    /// where the database was opened with [`Builder::manual_epochs`].
    pub fn advance_epoch(&self) -> bool {
        let moved = self.inner.clock.advance();
        self.inner.boundaries.expire();
        moved
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
    /// Nodes or buckets of each index.
    pub index_nodes: Vec<(&'static str, usize)>,
}

/// Settings for a new database.
pub struct Builder<P: Protocol> {
    options: P::Options,
    sessions: usize,
    epoch_interval: Option<Duration>,
    snapshot_interval: Duration,
    stores: Result<Stores<P>>,
    protocol: PhantomData<fn() -> P>,
}

/// Sessions of a database unless it is told otherwise.
const SESSIONS: usize = 128;
/// For how long a moment is recent enough for [`Session::read`].
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(100);
/// How often the epoch advances.
const EPOCH_INTERVAL: Duration = Duration::from_millis(10);

impl<P: Protocol> Builder<P> {
    fn new() -> Self {
        Self {
            options: P::Options::default(),
            sessions: SESSIONS.min(P::SESSIONS_MAX),
            epoch_interval: Some(EPOCH_INTERVAL),
            snapshot_interval: SNAPSHOT_INTERVAL,
            stores: Ok(Stores::new()),
            protocol: PhantomData,
        }
    }

    /// Chooses the protocol. Call it first: protocol options and tables start afresh.
    pub fn protocol<Q: Protocol>(self) -> Builder<Q> {
        let Self { epoch_interval, snapshot_interval, .. } = self;
        Builder { epoch_interval, snapshot_interval, ..Builder::new() }
    }

    /// The protocol's own settings.
    pub fn options(mut self, options: P::Options) -> Self {
        self.options = options;
        self
    }

    /// How many sessions may exist at once, 1 to 256; 128 unless told (1 under `unprotected`).
    pub fn sessions(mut self, sessions: usize) -> Self {
        self.sessions = sessions;
        self
    }

    /// Makes a table and its indexes at once, sized for `rows` rows. Tables that are not named here
    /// are made at their first use.
    pub fn table<T: Table>(mut self, rows: usize) -> Self {
        self.stores = self.stores.and_then(|stores| create_table::<T, P>(&stores, rows).map(|()| stores));
        self
    }

    /// How often the epoch advances; 10 ms unless told. Deleted rows are reclaimed some epochs later.
    pub fn epoch_interval(mut self, interval: Duration) -> Self {
        self.epoch_interval = Some(interval);
        self
    }

    /// How old the moment may be that [`Session::read`] sees; 100 ms unless told. The longer, the fewer
    /// old versions are kept beside readers. At zero each reader has a moment of his own.
    pub fn snapshot_interval(mut self, interval: Duration) -> Self {
        self.snapshot_interval = interval;
        self
    }

    /// Starts no thread: [`Database::advance_epoch`] advances the epoch.
    pub fn manual_epochs(mut self) -> Self {
        self.epoch_interval = None;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    /// [`Misuse::Option`] for settings that cannot be met, [`Misuse::TooManyTables`].
    pub fn open(self) -> Result<Database<P>> {
        if self.sessions == 0 || self.sessions > P::SESSIONS_MAX {
            let (name, max) = (P::NAME, P::SESSIONS_MAX);
            let given = self.sessions;
            return Err(Misuse::Option(format!("{name} allows 1 to {max} sessions, not {given}")).into());
        }
        let clock = Arc::new(EpochClock::new(self.sessions));
        let boundaries = Arc::new(Boundaries::new(self.snapshot_interval));
        let ticker = self.epoch_interval.map(|interval| {
            let (clock, boundaries) = (Arc::clone(&clock), Arc::clone(&boundaries));
            Ticker::start(interval, move || {
                clock.advance();
                boundaries.expire();
            })
        });
        let inner = Inner {
            _ticker: ticker,
            clock,
            boundaries,
            stores: self.stores?,
            counters: Counters::new(self.sessions),
            options: self.options,
            sessions_max: self.sessions,
            exchange: Arc::default(),
            places: Mutex::new(Places { idle: Vec::new(), made: 0 }),
        };
        Ok(Database { inner: Arc::new(inner) })
    }
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
