//! One point of a curve: a workload under a protocol on so many virtual cores.
//!
//! The database is opened and loaded for nothing, the workers run on a core each from the same moment on,
//! warm up, and are measured for a window of virtual time; then the results are checked, for nothing again.
//! A transaction counts when it ends in the window. What it cost is taken from a worker's first transaction
//! that begins in the window to the end of its last, so that it covers whole transactions.

use crate::completion;
use heddledb::internals::BuilderInternals;
use heddledb::protocol::{Batching, Calls, Choice, Execution, Isolation, Silo};
use heddledb::{Conflict, Database, Error, LogicalTime, RegionMetrics};
use heddledb_engine_simulated::sync::simulation::{
    Counts, Failure, Settings, clock, costs, counts, free, simulate, steps,
};
use heddledb_engine_simulated::sync::thread;
use heddledb_workloads::array::Array;
use heddledb_workloads::articles::Articles;
use heddledb_workloads::micro::Micro;
use heddledb_workloads::stamp::Application;
use heddledb_workloads::stamp::bayes::Bayes;
use heddledb_workloads::stamp::genome::Genome;
use heddledb_workloads::stamp::intruder::Intruder;
use heddledb_workloads::stamp::kmeans::Kmeans;
use heddledb_workloads::stamp::labyrinth::Labyrinth;
use heddledb_workloads::stamp::vacation::Vacation;
use heddledb_workloads::tpcc::Tpcc;
use heddledb_workloads::tpce::Tpce;
use heddledb_workloads::ycsb::Ycsb;
use heddledb_workloads::{Check, ReadOnly, Workload};
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

mod queue;

/// What is run.
#[derive(Clone, Debug)]
pub struct Load {
    /// Workers: virtual cores.
    pub cores: usize,
    /// The seed of loading and drawing.
    pub seed: u64,
    /// How long workers run before the window.
    pub warmup: Duration,
    /// How long the window is.
    pub window: Duration,
    /// How often the epoch advances.
    pub epoch_interval: Duration,
    /// How transactions that only read are run.
    pub read_only: ReadOnly,
    /// The isolation level.
    pub isolation: Isolation,
    /// Inputs drawn ahead by each worker and used in turn, as a benchmark on a real machine does it; 0 draws
    /// each when it is needed.
    pub pool: usize,
    /// What each worker has under way.
    pub queue: Queue,
}

impl Load {
    /// What is measured, of workers that start at that time: from when to when, in cycles.
    fn window_from(&self, start: u64) -> Range<u64> {
        let cycles = |length: Duration| costs().cycles(length.as_nanos() as u64);
        let begin = start + cycles(self.warmup);
        begin..begin + cycles(self.window)
    }
}

/// What a worker has under way at a time: it waits for the first of its transactions. What they take is counted from when they
/// were queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// How many transactions.
    pub length: usize,
    /// Under protocols that gather calls, the most of a batch, where the protocol's own options are not to decide.
    pub batch: Option<NonZeroU32>,
}

impl Queue {
    /// One after another.
    pub const ONE: Self = Self::of(1);

    /// So many transactions.
    pub const fn of(length: usize) -> Self {
        Self { length, batch: None }
    }

    /// The protocol with its options.
    fn choice(self, protocol: Choice) -> Choice {
        match (protocol, self.batch) {
            (Choice::Silo(Silo { calls: Calls::Batched(batching), .. }), Some(_)) => {
                Silo::with_calls(Calls::Batched(Batching { size: self.batch, ..batching })).into()
            }
            (choice, _) => choice,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Length of the window, in seconds of virtual time.
    pub seconds: f64,
    /// Commits in the window.
    pub committed: u64,
    /// By how many ticks logical time grew in the window.
    pub ticks: u64,
    /// Transactions that decided to abort, in the window.
    pub user_aborts: u64,
    /// Attempts in whole transactions of the window that conflicted, by reason as in [`Conflict::ALL`].
    pub conflicts: [u64; Conflict::ALL.len()],
    /// Commits and user aborts in the window by kind of transaction.
    pub kinds: Vec<[u64; 2]>,
    /// Whole transactions of the window, and what they cost.
    pub transactions: u64,
    /// Cycles that they took.
    pub cycles: u64,
    /// What the workers did in them.
    pub counts: Counts,
    /// Nanoseconds from the first start of each committed transaction to its end, rising.
    pub latencies_ns: Vec<u64>,
    /// The same by kind of transaction.
    pub kind_latencies_ns: Vec<Vec<u64>>,
    /// Accesses of all cores, warm-up included.
    pub steps: u64,
    /// Bytes of records at the end.
    pub record_bytes: u64,
    /// Bytes of old versions at the end.
    pub version_bytes: u64,
    /// What became of hardware regions, where the protocol has any, warm-up included.
    pub regions: Option<RegionMetrics>,
    /// The workload's checks.
    pub checks: Vec<Check>,
}

/// Why there is no point.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The engine refused something.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The simulation did not end.
    #[error(transparent)]
    Simulation(#[from] Failure),
}

macro_rules! subjects {
    (
        workloads { $($workload:ident $about:literal,)* }
        applications { $($application:ident $told:literal,)* }
    ) => {
        /// What is simulated, chosen at run time. It is compiled here, once, rather than in each program that
        /// simulates.
        #[derive(Clone)]
        pub enum Subject {
            $(#[doc = $about] $workload(Arc<$workload>),)*
            $(#[doc = $told] $application(Arc<$application>),)*
        }

        $(impl From<$workload> for Subject {
            fn from(workload: $workload) -> Self {
                Self::$workload(Arc::new(workload))
            }
        })*
        $(impl From<$application> for Subject {
            fn from(application: $application) -> Self {
                Self::$application(Arc::new(application))
            }
        })*

        impl Subject {
            /// Its name on the command line.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$workload(workload) => Workload::name(&**workload),)*
                    $(Self::$application(application) => Application::name(&**application),)*
                }
            }

            /// Every parameter and its value.
            pub fn parameters(&self) -> Vec<(String, String)> {
                match self {
                    $(Self::$workload(workload) => Workload::parameters(&**workload),)*
                    $(Self::$application(application) => Application::parameters(&**application),)*
                }
            }

            /// The kinds of transactions.
            pub fn kinds(&self) -> &'static [&'static str] {
                match self {
                    $(Self::$workload(workload) => workload.kinds(),)*
                    $(Self::$application(_) => &["all"],)*
                }
            }

            /// Whether it is run to its end, and not for a window.
            pub fn ends(&self) -> bool {
                match self {
                    $(Self::$workload(_) => false,)*
                    $(Self::$application(_) => true,)*
                }
            }

            /// Simulates a point under a protocol. Each point has a workload of its own: they remember things, such
            /// as where Delivery went on, which are no other database's.
            ///
            /// # Errors
            /// [`Broken`].
            pub fn simulate(
                &self,
                protocol: impl Into<Choice>,
                load: Load,
                settings: Settings,
            ) -> Result<Point, Broken> {
                self.simulate_choice(protocol.into(), load, settings)
            }

            /// No generic function, so that its callers' crates do not compile all subjects again.
            fn simulate_choice(
                &self,
                protocol: Choice,
                load: Load,
                settings: Settings,
            ) -> Result<Point, Broken> {
                match self {
                    $(Self::$workload(like) => {
                        run(protocol, Arc::new($workload::new(*like.parameters())?), load, settings)
                    })*
                    $(Self::$application(application) => {
                        completion::complete(protocol, Arc::clone(application), load, settings)
                    })*
                }
            }
        }
    };
}

subjects! {
    workloads {
        Tpcc "TPC-C.",
        Ycsb "YCSB.",
        Tpce "TPC-E.",
        Micro "IC3's microbenchmark.",
        Articles "H-Store's Articles.",
        Array "DRP's array.",
        Vacation "STAMP's vacation.",
    }
    applications {
        Kmeans "STAMP's k-means.",
        Intruder "STAMP's intruder.",
        Genome "STAMP's genome.",
        Labyrinth "STAMP's labyrinth.",
        Bayes "STAMP's bayes.",
    }
}

/// Simulates a point.
fn run<W: Workload>(
    protocol: Choice,
    workload: Arc<W>,
    load: Load,
    settings: Settings,
) -> Result<Point, Broken> {
    Ok(simulate(settings, move || body(protocol, &workload, &load))??)
}

/// What one worker counted.
struct Tally<L> {
    ledger: L,
    committed: u64,
    user_aborts: u64,
    kinds: Vec<[u64; 2]>,
    transactions: u64,
    cycles: u64,
    counts: Counts,
    conflicts: [u64; Conflict::ALL.len()],
    latencies: Vec<(usize, u64)>,
    time: LogicalTime,
}

fn body<W: Workload>(protocol: Choice, workload: &Arc<W>, load: &Load) -> Result<Point, Error> {
    let Queue { length, .. } = load.queue;
    let gathers = length > 1 && protocol.promises().execution() == Execution::Batched;
    // Where calls are gathered a worker has a session that submits them, and one that executes them.
    let sessions = if gathers { 2 * load.cores } else { load.cores };
    let builder = crate::builder().protocol(load.queue.choice(protocol)).sessions(sessions);
    let builder = workload.tables(builder).epoch_interval(load.epoch_interval).isolation(load.isolation);
    let builder = if gathers { builder.executed_by_hand().window(length) } else { builder };
    let db = builder.open()?;
    workload.load(&db, load.seed, &|_| {})?;
    let start = clock();
    let loaded = db.metrics().regions;
    let workers: Vec<_> = (0..load.cores)
        .map(|number| {
            let (workload, load, db) = (Arc::clone(workload), load.clone(), db.clone());
            thread::spawn_worker(number, move || {
                let run = if gathers { queue::worker } else { worker };
                run(&workload, &load, &db, number, start)
            })
        })
        .collect();
    let mut tallies = Vec::with_capacity(workers.len());
    for worker in workers {
        tallies.push(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
    }
    let mut point = Point {
        seconds: load.window.as_secs_f64(),
        kinds: vec![[0; 2]; workload.kinds().len()],
        kind_latencies_ns: vec![Vec::new(); workload.kinds().len()],
        steps: steps(),
        ..Point::default()
    };
    let costs = costs();
    let mut ledgers = Vec::with_capacity(tallies.len());
    let mut time = LogicalTime::default();
    for tally in tallies {
        time.merge(&tally.time);
        point.committed += tally.committed;
        point.user_aborts += tally.user_aborts;
        point.transactions += tally.transactions;
        point.cycles += tally.cycles;
        point.counts += tally.counts;
        point.conflicts.iter_mut().zip(tally.conflicts).for_each(|(sum, more)| *sum += more);
        for (sum, more) in point.kinds.iter_mut().zip(tally.kinds) {
            sum[0] += more[0];
            sum[1] += more[1];
        }
        for (kind, cycles) in tally.latencies {
            point.kind_latencies_ns[kind].push(costs.nanoseconds(cycles));
        }
        ledgers.push(tally.ledger);
    }
    point.ticks = time.ticks();
    point.latencies_ns = point.kind_latencies_ns.concat();
    point.latencies_ns.sort_unstable();
    point.kind_latencies_ns.iter_mut().for_each(|of_kind| of_kind.sort_unstable());
    let metrics = db.metrics();
    point.record_bytes = metrics.record_bytes as u64;
    point.version_bytes = metrics.version_bytes as u64;
    point.regions = metrics.regions.zip(loaded).map(|(all, loaded)| all - loaded);
    point.checks = workload.check(&db, &ledgers)?;
    Ok(point)
}

impl<L: Default> Tally<L> {
    fn new(kinds: usize) -> Self {
        Self {
            ledger: L::default(),
            committed: 0,
            user_aborts: 0,
            kinds: vec![[0; 2]; kinds],
            transactions: 0,
            cycles: 0,
            counts: Counts::default(),
            conflicts: [0; Conflict::ALL.len()],
            latencies: Vec::new(),
            time: LogicalTime::default(),
        }
    }

    /// A transaction that was under way from one time to another has ended so. True if it has committed in the window.
    fn tell<W: Workload<Ledger = L>>(
        &mut self,
        workload: &W,
        generator: &mut W::Generator,
        input: &W::Input,
        outcome: Result<W::Output, Error>,
        (since, to): (u64, u64),
        window: &Range<u64>,
    ) -> Result<bool, Error> {
        let (kind, counted) = (workload.kind(input), window.contains(&to));
        match outcome {
            Ok(output) => {
                workload.committed(generator, input, &output);
                workload.record(&mut self.ledger, input, output);
                if counted {
                    self.committed += 1;
                    self.kinds[kind][0] += 1;
                    self.latencies.push((kind, to - since));
                }
                Ok(counted)
            }
            Err(Error::User(_)) => {
                if counted {
                    self.user_aborts += 1;
                    self.kinds[kind][1] += 1;
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

fn worker<W: Workload>(
    workload: &Arc<W>,
    load: &Load,
    db: &Database,
    number: usize,
    start: u64,
) -> Result<Tally<W::Ledger>, Error> {
    let mut session = free(|| db.session())?;
    let window = load.window_from(start);
    let mut generator = workload.generator(number, load.cores, load.seed);
    let mut pool = vec![W::Input::default(); load.pool.max(1)];
    if load.pool > 0 {
        pool.iter_mut().for_each(|input| free(|| workload.draw(&mut generator, input)));
    }
    let mut next = 0;
    let mut tally = Tally::new(workload.kinds().len());
    let mut measured = None;
    // When those that are under way were queued.
    let mut queued = VecDeque::with_capacity(load.queue.length);
    loop {
        let from = clock();
        if from >= window.end {
            break;
        }
        queued.resize(load.queue.length.max(1), from);
        let since = queued.pop_front().expect("there is one");
        if from >= window.start && measured.is_none() {
            measured = Some((from, counts(), free(|| session.stats())));
        }
        let input = &mut pool[next];
        next = if next + 1 == load.pool.max(1) { 0 } else { next + 1 };
        if load.pool > 0 {
            workload.refresh(&mut generator, input);
        } else {
            workload.draw(&mut generator, input);
        }
        let outcome = load.read_only.run(&**workload, &mut session, input);
        if tally.tell(&**workload, &mut generator, input, outcome, (since, clock()), &window)? {
            tally.time.note(session.last_commit());
        }
        tally.transactions += u64::from(measured.is_some());
    }
    if let Some((from, before, stats)) = measured {
        tally.cycles = clock() - from;
        tally.counts = counts() - before;
        tally.conflicts = (free(|| session.stats()) - stats).conflicts;
    }
    Ok(tally)
}
