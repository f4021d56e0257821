//! One run: a fresh database, loaded, warmed up, measured, checked.
//!
//! **The window.** Workers start together, warm up, and count from the moment they see the signal
//! to measure until they see the one to stop; the window reaches from the first worker's begin to
//! the last one's end. A transaction that spans the end is not cut off, so the window is a
//! transaction longer than asked for. Workers execute their transactions themselves, or are clients that submit them
//! ([`super::client`]).
//!
//! **What the clock covers**, in a closed loop. Inputs are drawn into a pool before the start and used in turn,
//! refreshed at each use. The clock is read once for each transaction: its end is the next one's
//! start. So latency covers all attempts of a transaction with the waits between them, and the few
//! nanoseconds of bookkeeping after the transaction before it, and nothing escapes it.

use super::client::client;
use super::figures::{Counts, Submitted};
use super::settings::{Driver, Settings};
use super::worker::{Inputs, MEASURE, STOP, Signal, Span, Tally, WARM_UP, Work, misfortune};
use crate::failure::chain;
use crate::machine;
use crate::progress::Progress;
use crate::report::model::{CheckResult, RegionFigures, Run};
use crate::report::rate;
use heddledb::protocol::Kind;
use heddledb::{Database, Durability, Error, Metrics, Session};
use heddledb_workloads::Workload;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

/// How often the bar moves: seldom, since whoever moves it takes a core from a worker.
const TICK: Duration = Duration::from_millis(250);

/// One run that is about to be made.
pub struct Job<'a, W> {
    /// The protocol.
    pub kind: Kind,
    /// What runs.
    pub workload: &'a Arc<W>,
    /// How long and how.
    pub settings: &'a Settings,
    /// How many threads execute transactions: workers, or executors of the database.
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

impl<W: Workload> Job<'_, W> {
    /// Makes the run. One that broke off tells why, with all causes.
    pub fn run(&self) -> Run {
        self.complete().unwrap_or_else(|error| Run::broken(self.run, chain(&error)))
    }

    /// Opens, loads, measures and checks.
    fn complete(&self) -> Result<Run, Error> {
        let settings = self.settings;
        // Loading may use every core, whatever the number of workers. Executors have their sessions from the beginning.
        let executors = settings.driver.submission().map_or(0, |_| self.threads);
        let sessions = executors + self.workers().max(settings.cores.len());
        let sessions = sessions.clamp(1, self.kind.sessions_max());
        let folder = match self.durability {
            Durability::None => None,
            _ => Some(machine::folder(&settings.log.directory, "heddle-bench-")?),
        };
        let open = |path: Option<&Path>| {
            let builder = Database::builder().protocol(self.kind).sessions(sessions).executors(executors);
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

        let (before, loaded) = (db.metrics().log, db.metrics().regions);
        let counts = self.measure(&db)?;
        let mut run = counts.figures(&**self.workload, settings, self.run);
        let logs = before.zip(db.metrics().log);
        run.log =
            logs.map(|(before, after)| counts.log_figures(&run, settings, self.durability, [before, after]));
        run.load_seconds = load_seconds;
        let metrics = db.metrics();
        run.record_bytes = metrics.record_bytes as u64;
        run.version_bytes = metrics.version_bytes as u64;
        run.regions = metrics.regions.zip(loaded).map(|(all, loaded)| RegionFigures::of(all - loaded));

        let bar = self.progress.phase(&format!("{}: checking", self.title));
        let ledgers: Vec<W::Ledger> = counts.tallies.into_iter().map(|tally| tally.ledger).collect();
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
        log.recovery_mb_per_second = recovery.bytes as f64 / seconds / 1e6;
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

    /// Sessions on each thread.
    fn crew(&self) -> usize {
        match self.settings.driver {
            Driver::Closed => self.settings.crew.min(self.kind.sessions_max() / self.threads).max(1),
            Driver::Submitted(_) => 1,
        }
    }

    /// How many threads the run starts: workers, or clients.
    fn started(&self) -> usize {
        match self.settings.driver {
            Driver::Closed => self.threads,
            Driver::Submitted(_) => self.settings.driver.clients(self.threads),
        }
    }

    /// How many draw inputs and have a session for that.
    fn workers(&self) -> usize {
        self.started() * self.crew()
    }

    /// Starts the workers, conducts them through warm-up and window, and collects what was counted.
    fn measure(&self, db: &Database) -> Result<Counts<W::Ledger>, Error> {
        let settings = self.settings;
        let signal = Signal::new();
        let work = Work {
            workload: self.workload,
            settings,
            durability: self.durability,
            workers: self.workers(),
            signal: &signal,
        };
        let started = self.started();
        let barrier = Barrier::new(started + 1);
        // Executors are not, so clients are not either: they would take one of the cores from them.
        let pinned = settings.driver == Driver::Closed && started <= settings.cores.len();
        let start = db.metrics();
        let (tallies, window) = thread::scope(|scope| {
            let (work, barrier) = (&work, &barrier);
            let mut workers = Vec::with_capacity(started);
            for number in 0..started {
                let core = pinned.then(|| settings.cores[number]);
                let body = move || self.thread(work, number, db, core, barrier);
                let name = format!("worker-{number}");
                match thread::Builder::new().name(name).spawn_scoped(scope, body) {
                    Ok(worker) => workers.push(worker),
                    Err(error) => {
                        // The workers that did start wait for the whole number at the barrier.
                        work.signal.raise(STOP);
                        for _ in workers.len()..=started {
                            scope.spawn(|| barrier.wait());
                        }
                        return Err(misfortune(format!("a thread could not be started: {error}")));
                    }
                }
            }
            let bar = self.progress.phase(&format!("{}: drawing inputs", self.title));
            barrier.wait();
            drop(bar);
            let window = self.conduct(db, work.signal);
            let tallies: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            let mut all = Vec::new();
            for tallies in tallies {
                all.extend(tallies.unwrap_or_else(|_| Err(misfortune("a worker panicked".into())))?);
            }
            Ok((all, window))
        })?;
        let submitted = window.map(|[begin, end]| Submitted::between(&[start, begin, end, db.metrics()]));
        Ok(Counts { tallies, submitted })
    }

    /// The life of one thread: that of its session, or of several.
    fn thread(
        &self,
        work: &Work<'_, W>,
        number: usize,
        db: &Database,
        core: Option<usize>,
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
            let number = number * crew + member;
            match work.settings.driver.submission() {
                None => Self::worker(work, number, session, wait),
                Some(submission) => client(work, submission, number, session, wait),
            }
        };
        let tallies = match crew {
            1 => db.session().map(|mut session| vec![worker(0, &mut session)]),
            _ => db.crew(crew, worker),
        };
        tallies
            .inspect_err(|_| {
                work.signal.raise(STOP);
                barrier.wait();
            })?
            .into_iter()
            .collect()
    }

    /// Gives the signals, and moves the bar while it waits. Where calls are submitted, returns what the database told of itself
    /// when the window began and ended.
    fn conduct(&self, db: &Database, signal: &Signal) -> Option<[Metrics; 2]> {
        let settings = self.settings;
        let mut told = Vec::new();
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
            if settings.driver != Driver::Closed {
                told.push(db.metrics());
            }
        }
        told.try_into().ok()
    }

    /// The life of one worker.
    fn worker(
        work: &Work<'_, W>,
        number: usize,
        session: &mut Session,
        wait_for_all: impl FnOnce(),
    ) -> Result<Tally<W::Ledger>, Error> {
        let Work { settings, signal, .. } = work;
        let (workload, clock, read_only) = (&**work.workload, settings.clock, settings.read_only);
        let mut inputs = Inputs::new(work, number);
        let mut tally = Tally::new(work)?;
        wait_for_all();

        let mut phase = WARM_UP;
        let mut start = clock.now();
        loop {
            let seen = signal.get();
            if seen != phase {
                if seen == STOP {
                    break;
                }
                phase = seen;
                tally.begin(session.stats());
                start = clock.now();
            }
            let at = inputs.advance(workload);
            let input = &inputs.pool[at];
            let outcome = read_only.run(workload, session, input);
            let end = clock.now();
            let looked = read_only.looks(workload, input);
            let span = Span { since: start, to: end, looked, counted: true };
            match tally.tell(workload, &mut inputs.generator, input, outcome, span) {
                Ok(true) => {
                    tally.time.note(session.last_commit());
                    tally.watch(span, || session.ticket());
                }
                Ok(false) => {}
                Err(error) => {
                    signal.raise(STOP);
                    return Err(error);
                }
            }
            start = end;
        }
        tally.end(session.stats(), phase == MEASURE);
        Ok(tally)
    }
}
