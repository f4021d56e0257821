//! One run: a fresh database, loaded, warmed up, measured, checked.
//!
//! **The window.** Workers start together, warm up, and count from the moment they see the signal
//! to measure until they see the one to stop; the window reaches from the first worker's begin to
//! the last one's end. A transaction that spans the end is not cut off, so the window is a
//! transaction longer than asked for.
//!
//! **What the clock covers.** Inputs are drawn into a pool before the start and used in turn,
//! refreshed at each use. The clock is read once for each transaction: its end is the next one's
//! start. So latency covers all attempts of a transaction with the waits between them, and the few
//! nanoseconds of bookkeeping after the transaction before it, and nothing escapes it.

use crate::clock::Clock;
use crate::failure::chain;
use crate::machine;
use crate::progress::Progress;
use crate::report::model::{CheckResult, Latency, LogFigures, Outcomes, Run};
use crate::report::rate;
use hdrhistogram::Histogram;
use heddledb::protocol::{Isolation, Kind};
use heddledb::{
    Compression, Conflict, Database, Durability, Error, LogKind, LogMetrics, LogicalTime, Session, Ticket,
};
use heddledb_workloads::{ReadOnly, Workload};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Digits of a latency that are kept: the error is below 1 %, and the part of the histogram that
/// is in use stays in the nearest cache.
const LATENCY_DIGITS: u8 = 2;
/// Longer latencies count as this.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// Of so many commits with durability `epoch` one is watched until it is durable.
const WATCHED_ODDS: u64 = 64;
/// How often the bar moves: seldom, since whoever moves it takes a core from a worker.
const TICK: Duration = Duration::from_millis(250);

/// What is the same in all runs of a benchmark.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long workers run before the window.
    pub warmup: Duration,
    /// How long the window is.
    pub seconds: Duration,
    /// Sessions on each thread: one that spins while it waits, or several of which each goes on where another waits.
    pub crew: usize,
    /// Inputs drawn ahead by each worker; 0 draws each in the window.
    pub pool: usize,
    /// The seed of loading and drawing.
    pub seed: u64,
    /// How transactions that only read are run.
    pub read_only: ReadOnly,
    /// The isolation level.
    pub isolation: Isolation,
    /// How runs with a log write it.
    pub log: LogSettings,
    /// The cores for pinning, in order; workers are pinned if there are enough.
    pub cores: Vec<usize>,
    /// The clock.
    pub clock: Clock,
}

/// How a log is written.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Where runs make their folders.
    pub directory: PathBuf,
    /// Files at once.
    pub files: u8,
    /// Whether it is compressed.
    pub compression: Compression,
    /// What it says of a commit.
    pub kind: LogKind,
    /// Whether a checkpoint is taken of what was loaded.
    pub checkpoint: bool,
    /// Whether the database is opened again after the run, and checked.
    pub recover: bool,
    /// By how many threads; as many as there are cores unless told.
    pub recovery_threads: Option<usize>,
}

/// One run that is about to be made.
pub struct Job<'a, W> {
    /// The protocol.
    pub kind: Kind,
    /// What runs.
    pub workload: &'a W,
    /// How long and how.
    pub settings: &'a Settings,
    /// How many workers.
    pub threads: usize,
    /// When commits count as done.
    pub durability: Durability,
    /// The number of the run, from one.
    pub run: usize,
    /// `silo, 2 threads`.
    pub title: &'a str,
    /// Where progress is shown.
    pub progress: &'a Progress,
}

/// What the workers are to do.
const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// The signal to all workers, written by the conductor and by a worker that fails. Relaxed: it
/// publishes nothing, and it is seen soon enough.
#[repr(align(128))]
struct Signal(AtomicU8);

impl Signal {
    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Only ever raises, so that a failed worker's stop is not overwritten.
    fn raise(&self, phase: u8) {
        self.0.fetch_max(phase, Ordering::Relaxed);
    }
}

/// What one worker counted in the window; the ledger counts from the load on.
struct Tally<L> {
    ledger: L,
    begin: Instant,
    end: Instant,
    /// Time that this thread ran on a core between the two.
    on_core: Duration,
    /// How much of that in the system.
    in_system: Duration,
    /// Transactions that committed by the session's own count, and conflicts by reason.
    session_commits: u64,
    /// Bodies that ran on snapshots, which sessions do not count.
    looks: u64,
    /// Commits since the start, warm-up included.
    logged: u64,
    conflicts: [u64; Conflict::ALL.len()],
    /// Commits and user aborts by kind.
    kinds: Vec<[u64; 2]>,
    /// Latencies of committed transactions in ticks.
    latency: Histogram<u64>,
    /// Of some of them, until they were durable.
    durable: Histogram<u64>,
    time: LogicalTime,
}

impl<W: Workload> Job<'_, W> {
    /// Makes the run. One that broke off tells why, with all causes.
    pub fn run(&self) -> Run {
        self.complete().unwrap_or_else(|error| Run::broken(self.run, chain(&error)))
    }

    /// Opens, loads, measures and checks.
    fn complete(&self) -> Result<Run, Error> {
        let settings = self.settings;
        // Loading may use every core, whatever the number of workers.
        let workers = self.threads * self.crew();
        let sessions = workers.max(settings.cores.len()).clamp(1, self.kind.sessions_max());
        let folder = match self.durability {
            Durability::None => None,
            _ => Some(machine::folder(&settings.log.directory, "heddle-bench-")?),
        };
        let open = |path: Option<&Path>| {
            let builder = Database::builder().protocol(self.kind).sessions(sessions);
            let builder = if path.is_some() { builder.log_kind(settings.log.kind) } else { builder };
            let builder = self.workload.tables(builder).isolation(settings.isolation);
            match path {
                None => builder.open(),
                Some(path) => {
                    let (files, compression) = (settings.log.files, settings.log.compression);
                    let builder = builder.path(path).durability(self.durability).checkpoint_after(None);
                    let builder = match settings.log.recovery_threads {
                        Some(threads) => builder.recovery_threads(threads),
                        None => builder,
                    };
                    builder.log_files(files).compression(compression).open()
                }
            }
        };
        let mut db = open(folder.as_ref().map(tempfile::TempDir::path))?;

        let loading = Instant::now();
        let bar = self.progress.phase(&format!("{}: loading", self.title));
        self.workload.load(&db, settings.seed, &|share| bar.share(share))?;
        drop(bar);
        let load_seconds = loading.elapsed().as_secs_f64();
        if let (Some(folder), true) = (&folder, settings.log.checkpoint) {
            // As a server does that is started on data: what has happened to the rows before is not in its log.
            db.checkpoint()?;
            drop(db);
            db = open(Some(folder.path()))?;
        }

        let before = db.metrics().log;
        let tallies = self.measure(&db)?;
        let mut run = self.figures(&tallies);
        run.log = before
            .zip(db.metrics().log)
            .map(|(before, after)| self.log_figures(&run, &tallies, before, after));
        run.load_seconds = load_seconds;
        let metrics = db.metrics();
        run.record_bytes = metrics.record_bytes as u64;
        run.version_bytes = metrics.version_bytes as u64;

        let bar = self.progress.phase(&format!("{}: checking", self.title));
        let ledgers: Vec<W::Ledger> = tallies.into_iter().map(|tally| tally.ledger).collect();
        for check in self.workload.check(&db, &ledgers)? {
            run.checks.push(CheckResult { name: check.name, ok: check.ok, detail: check.detail });
        }
        drop((bar, db));
        let Some(folder) = folder.filter(|_| settings.log.recover) else { return Ok(run) };
        let bar = self.progress.phase(&format!("{}: recovering", self.title));
        let db = open(Some(folder.path()))?;
        let (recovery, log) = (db.recovery().cloned().unwrap_or_default(), run.log.get_or_insert_default());
        let seconds = recovery.elapsed.as_secs_f64().max(1e-9);
        log.recovery_seconds = seconds;
        // Each byte was read twice: to survey, and to replay.
        log.recovery_mb_per_second = recovery.bytes as f64 / 2.0 / seconds / 1e6;
        log.recovery_writes_per_second = recovery.writes as f64 / seconds;
        log.recovery_to_production = match settings.log.checkpoint {
            false => log.recovery_mb_per_second / log.mb_per_second.max(1e-9),
            // All that is replayed was written since the load: the checkpoint's bytes say nothing of it.
            true => (settings.warmup.as_secs_f64() + run.seconds) / seconds,
        };
        drop(bar);
        let bar = self.progress.phase(&format!("{}: checking what was recovered", self.title));
        for check in self.workload.check(&db, &ledgers)? {
            let name = format!("after recovery: {}", check.name);
            run.checks.push(CheckResult { name, ok: check.ok, detail: check.detail });
        }
        drop(bar);
        Ok(run)
    }

    /// What the log did from the start of the workers to their end. Warm-up included, so per second of
    /// that.
    fn log_figures(
        &self,
        run: &Run,
        tallies: &[Tally<W::Ledger>],
        before: LogMetrics,
        after: LogMetrics,
    ) -> LogFigures {
        let seconds = self.settings.warmup.as_secs_f64() + run.seconds;
        let commits: u64 = tallies.iter().map(|tally| tally.logged).sum();
        let bytes = (after.bytes - before.bytes) as f64;
        LogFigures {
            bytes_per_transaction: bytes / commits.max(1) as f64,
            mb_per_second: bytes / seconds / 1e6,
            compression: (after.entry_bytes - before.entry_bytes) as f64 / bytes.max(1.0),
            rounds_per_second: (after.rounds - before.rounds) as f64 / seconds,
            durable_latency_us: match self.durability {
                Durability::Sync => run.latency_us,
                _ => self.latency(tallies.iter().map(|tally| &tally.durable)),
            },
            ..LogFigures::default()
        }
    }

    /// Sessions on each thread.
    fn crew(&self) -> usize {
        self.settings.crew.min(self.kind.sessions_max() / self.threads).max(1)
    }

    /// Starts the workers, conducts them through warm-up and window, and collects their tallies.
    fn measure(&self, db: &Database) -> Result<Vec<Tally<W::Ledger>>, Error> {
        let settings = self.settings;
        let signal = Signal(AtomicU8::new(WARM_UP));
        let barrier = Barrier::new(self.threads + 1);
        let pinned = self.threads <= settings.cores.len();
        thread::scope(|scope| {
            let (signal, barrier) = (&signal, &barrier);
            let mut workers = Vec::with_capacity(self.threads);
            for number in 0..self.threads {
                let core = pinned.then(|| settings.cores[number]);
                let body = move || self.thread(number, db, core, signal, barrier);
                let name = format!("worker-{number}");
                match thread::Builder::new().name(name).spawn_scoped(scope, body) {
                    Ok(worker) => workers.push(worker),
                    Err(error) => {
                        // The workers that did start wait for the whole number at the barrier.
                        signal.raise(STOP);
                        for _ in workers.len()..=self.threads {
                            scope.spawn(|| barrier.wait());
                        }
                        return Err(misfortune(format!("a thread could not be started: {error}")));
                    }
                }
            }
            let bar = self.progress.phase(&format!("{}: drawing inputs", self.title));
            barrier.wait();
            drop(bar);
            self.conduct(db, signal);
            let tallies: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            let mut all = Vec::new();
            for tallies in tallies {
                all.extend(tallies.unwrap_or_else(|_| Err(misfortune("a worker panicked".into())))?);
            }
            Ok(all)
        })
    }

    /// The life of one thread: that of its session, or of several.
    fn thread(
        &self,
        number: usize,
        db: &Database,
        core: Option<usize>,
        signal: &Signal,
        barrier: &Barrier,
    ) -> Result<Vec<Tally<W::Ledger>>, Error> {
        if let Some(core) = core {
            machine::pin(core);
        }
        let crew = self.crew();
        // Whoever is first on the thread waits for the other threads; the others of a crew have not run before.
        let worker = |member: usize, session: &mut Session| {
            let wait = || {
                if member == 0 {
                    barrier.wait();
                }
            };
            self.worker(number * crew + member, session, signal, wait)
        };
        let tallies = match crew {
            1 => db.session().map(|mut session| vec![worker(0, &mut session)]),
            _ => db.crew(crew, worker),
        };
        tallies
            .inspect_err(|_| {
                signal.raise(STOP);
                barrier.wait();
            })?
            .into_iter()
            .collect()
    }

    /// Gives the signals, and moves the bar while it waits.
    fn conduct(&self, db: &Database, signal: &Signal) {
        let settings = self.settings;
        let phases = [("warming up", settings.warmup, MEASURE), ("measuring", settings.seconds, STOP)];
        for (name, length, next) in phases {
            let bar = self.progress.phase(&format!("{}: {name}", self.title));
            let begin = Instant::now();
            let before = if bar.visible() { db.metrics().stats.commits } else { 0 };
            loop {
                let elapsed = begin.elapsed();
                if elapsed >= length || signal.get() == STOP {
                    break;
                }
                thread::sleep(TICK.min(length - elapsed));
                if bar.visible() {
                    let elapsed = begin.elapsed().as_secs_f64();
                    bar.share(elapsed / length.as_secs_f64());
                    let commits = db.metrics().stats.commits.saturating_sub(before);
                    bar.message(format!("{} tx/s", rate(commits as f64 / elapsed)));
                }
            }
            signal.raise(next);
        }
    }

    /// The life of one worker.
    fn worker(
        &self,
        number: usize,
        session: &mut Session,
        signal: &Signal,
        wait_for_all: impl FnOnce(),
    ) -> Result<Tally<W::Ledger>, Error> {
        let (workload, clock, read_only) = (self.workload, self.settings.clock, self.settings.read_only);
        let workers = self.threads * self.crew();
        let mut generator = workload.generator(number, workers, self.settings.seed);
        let mut pool = vec![W::Input::default(); self.settings.pool.max(1)];
        if self.settings.pool > 0 {
            for input in &mut pool {
                workload.draw(&mut generator, input);
            }
        }
        let longest = clock.ticks(LATENCY_MAX).max(2);
        let histogram = || {
            Histogram::new_with_max(longest, LATENCY_DIGITS)
                .map_err(|error| misfortune(format!("no histogram of latencies: {error}")))
        };
        let (latency, durable) = (histogram()?, histogram()?);
        // Some of the commits, until they are durable.
        let mut watched: VecDeque<(u64, Ticket)> = VecDeque::new();
        let watches = self.durability == Durability::Epoch;
        wait_for_all();

        let now = Instant::now();
        let kinds = vec![[0; 2]; workload.kinds().len()];
        let mut tally = Tally {
            ledger: W::Ledger::default(),
            begin: now,
            end: now,
            on_core: Duration::ZERO,
            in_system: Duration::ZERO,
            session_commits: 0,
            looks: 0,
            conflicts: [0; Conflict::ALL.len()],
            kinds,
            latency,
            durable,
            logged: 0,
            time: LogicalTime::default(),
        };
        let mut before = session.stats();
        let mut on_core = machine::thread_time();
        let mut in_system = machine::thread_time_in_system();
        let mut phase = WARM_UP;
        let mut next = 0;
        let mut start = clock.now();
        loop {
            let seen = signal.get();
            if seen != phase {
                if seen == STOP {
                    break;
                }
                phase = seen;
                tally.latency.reset();
                tally.durable.reset();
                tally.kinds.fill([0; 2]);
                tally.looks = 0;
                tally.time = LogicalTime::default();
                before = session.stats();
                on_core = machine::thread_time();
                in_system = machine::thread_time_in_system();
                tally.begin = Instant::now();
                start = clock.now();
            }
            let input = &mut pool[next];
            next = if next + 1 == self.settings.pool.max(1) { 0 } else { next + 1 };
            if self.settings.pool == 0 {
                workload.draw(&mut generator, input);
            }
            workload.refresh(&mut generator, input);
            let outcome = read_only.run(workload, session, input);
            let end = clock.now();
            let kind = &mut tally.kinds[workload.kind(input)];
            match outcome {
                Ok(output) => {
                    workload.committed(&mut generator, input, &output);
                    workload.record(&mut tally.ledger, input, output);
                    kind[0] += 1;
                    tally.looks += u64::from(read_only.looks(workload, input));
                    tally.latency.saturating_record(end.saturating_sub(start));
                    tally.logged += 1;
                    tally.time.note(session.last_commit());
                    if watches {
                        if tally.logged % WATCHED_ODDS == 0 {
                            watched.push_back((start, session.ticket()));
                        }
                        while let Some((begun, _)) = watched.pop_front_if(|(_, ticket)| ticket.is_durable()) {
                            tally.durable.saturating_record(end.saturating_sub(begun));
                        }
                    }
                }
                Err(Error::User(_)) => kind[1] += 1,
                Err(error) => {
                    signal.raise(STOP);
                    return Err(error);
                }
            }
            start = end;
        }
        tally.end = Instant::now();
        tally.on_core = machine::thread_time().saturating_sub(on_core);
        tally.in_system = machine::thread_time_in_system().saturating_sub(in_system);
        if phase == WARM_UP {
            // The whole window passed while this thread had no core, or another worker failed.
            tally.begin = tally.end;
            tally.latency.reset();
            tally.kinds.fill([0; 2]);
            tally.looks = 0;
            before = session.stats();
        }
        let after = session.stats();
        tally.session_commits = after.commits - before.commits;
        for (at, count) in tally.conflicts.iter_mut().enumerate() {
            *count = after.conflicts[at] - before.conflicts[at];
        }
        Ok(tally)
    }

    /// The figures of a run from its workers' tallies, and the check of the counts against each other.
    fn figures(&self, tallies: &[Tally<W::Ledger>]) -> Run {
        let begin = tallies.iter().map(|tally| tally.begin).min();
        let end = tallies.iter().map(|tally| tally.end).max();
        let seconds = begin.zip(end).map_or(0.0, |(begin, end)| end.duration_since(begin).as_secs_f64());
        let mut run = Run { run: self.run, seconds, ..Run::default() };
        for (at, kind) in self.workload.kinds().iter().enumerate() {
            let sum = |which: usize| tallies.iter().map(|tally| tally.kinds[at][which]).sum();
            run.kinds.insert((*kind).to_owned(), Outcomes { committed: sum(0), user_aborts: sum(1) });
        }
        run.committed = run.kinds.values().map(|outcomes| outcomes.committed).sum();
        run.user_aborts = run.kinds.values().map(|outcomes| outcomes.user_aborts).sum();
        for (at, conflict) in Conflict::ALL.into_iter().enumerate() {
            let count = tallies.iter().map(|tally| tally.conflicts[at]).sum();
            run.conflicts.insert(conflict.name().to_owned(), count);
        }
        let conflicts: u64 = run.conflicts.values().sum();
        run.throughput_tps = if seconds > 0.0 { run.committed as f64 / seconds } else { 0.0 };
        run.abort_rate = conflicts as f64 / run.attempts().max(1) as f64;
        let mut time = LogicalTime::default();
        tallies.iter().for_each(|tally| time.merge(&tally.time));
        run.ticks = time.ticks();
        run.latency_us = self.latency(tallies.iter().map(|tally| &tally.latency));
        let windows: Duration = tallies.iter().map(|tally| tally.end - tally.begin).sum();
        let on_core: Duration = tallies.iter().map(|tally| tally.on_core).sum();
        let in_system: Duration = tallies.iter().map(|tally| tally.in_system).sum();
        run.system_share = (in_system.as_secs_f64() / on_core.as_secs_f64().max(1e-9)).min(1.0);
        run.core_share = (on_core.as_secs_f64() / windows.as_secs_f64().max(1e-9)).min(1.0);
        let session_commits: u64 = tallies.iter().map(|tally| tally.session_commits).sum();
        let looks: u64 = tallies.iter().map(|tally| tally.looks).sum();
        if self.workload.is_beside() {
            return run;
        }
        run.checks.push(CheckResult {
            name: "the sessions counted the commits that the workers saw".into(),
            ok: session_commits + looks == run.committed,
            detail: format!(
                "{session_commits} by the sessions, {looks} on snapshots, {} by the workers",
                run.committed
            ),
        });
        run
    }

    fn latency<'h>(&self, mut histograms: impl Iterator<Item = &'h Histogram<u64>>) -> Latency {
        let Some(first) = histograms.next() else { return Latency::default() };
        let mut all = first.clone();
        for histogram in histograms {
            // Bounds are equal, so nothing can be refused.
            let _ = all.add(histogram);
        }
        if all.is_empty() {
            return Latency::default();
        }
        let us = |ticks: u64| self.settings.clock.nanoseconds(ticks) / 1e3;
        let quantile = |share: f64| us(all.value_at_quantile(share));
        Latency {
            mean: self.settings.clock.nanoseconds(1_000_000) / 1e9 * all.mean(),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: us(all.max()),
        }
    }
}

/// An error of the runner in the engine's terms.
fn misfortune(what: String) -> Error {
    heddledb::Misuse::System(what).into()
}
