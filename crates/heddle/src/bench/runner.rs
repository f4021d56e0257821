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
use crate::machine;
use crate::progress::Progress;
use crate::report::model::{CheckResult, Latency, Outcomes, Run};
use crate::report::rate;
use hdrhistogram::Histogram;
use heddledb::protocol::Visitor;
use heddledb::{Conflict, Database, Error, Protocol, Session};
use heddledb_workloads::{ReadOnly, Workload};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Digits of a latency that are kept: the error is below 1 %, and the part of the histogram that
/// is in use stays in the nearest cache.
const LATENCY_DIGITS: u8 = 2;
/// Longer latencies count as this.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// How often the bar moves: seldom, since whoever moves it takes a core from a worker.
const TICK: Duration = Duration::from_millis(250);

/// What is the same in all runs of a benchmark.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long workers run before the window.
    pub warmup: Duration,
    /// How long the window is.
    pub seconds: Duration,
    /// Inputs drawn ahead by each worker; 0 draws each in the window.
    pub pool: usize,
    /// The seed of loading and drawing.
    pub seed: u64,
    /// How transactions that only read are run.
    pub read_only: ReadOnly,
    /// The cores for pinning, in order; workers are pinned if there are enough.
    pub cores: Vec<usize>,
    /// The clock.
    pub clock: Clock,
}

/// One run that is about to be made; a visitor of the protocol.
pub struct Job<'a, W> {
    /// What runs.
    pub workload: &'a W,
    /// How long and how.
    pub settings: &'a Settings,
    /// How many workers.
    pub threads: usize,
    /// The number of the run, from one.
    pub run: usize,
    /// `silo, 2 threads`.
    pub title: &'a str,
    /// Where progress is shown.
    pub progress: &'a Progress,
}

impl<W: Workload> Visitor for Job<'_, W> {
    type Output = Run;

    fn visit<P: Protocol>(self, options: P::Options) -> Run {
        self.run::<P>(options).unwrap_or_else(|error| Run::broken(self.run, error.to_string()))
    }
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
    /// Transactions that committed by the session's own count, and conflicts by reason.
    session_commits: u64,
    /// Bodies that ran on snapshots, which sessions do not count.
    looks: u64,
    conflicts: [u64; Conflict::ALL.len()],
    /// Commits and user aborts by kind.
    kinds: Vec<[u64; 2]>,
    /// Latencies of committed transactions in ticks.
    latency: Histogram<u64>,
}

impl<W: Workload> Job<'_, W> {
    fn run<P: Protocol>(&self, options: P::Options) -> Result<Run, Error> {
        let settings = self.settings;
        // Loading may use every core, whatever the number of workers.
        let sessions = self.threads.max(settings.cores.len()).clamp(1, P::SESSIONS_MAX);
        let builder = Database::builder().protocol::<P>().options(options).sessions(sessions);
        let db = self.workload.tables(builder).open()?;

        let loading = Instant::now();
        let bar = self.progress.phase(&format!("{}: loading", self.title));
        self.workload.load(&db, settings.seed, &|share| bar.share(share))?;
        drop(bar);
        let load_seconds = loading.elapsed().as_secs_f64();

        let sessions = (0..self.threads).map(|_| db.session()).collect::<Result<Vec<_>, _>>()?;
        let tallies = self.measure(&db, sessions)?;
        let mut run = self.figures(&tallies);
        run.load_seconds = load_seconds;
        let metrics = db.metrics();
        run.record_bytes = metrics.record_bytes as u64;
        run.version_bytes = metrics.version_bytes as u64;

        let bar = self.progress.phase(&format!("{}: checking", self.title));
        let ledgers: Vec<W::Ledger> = tallies.into_iter().map(|tally| tally.ledger).collect();
        for check in self.workload.check(&db, &ledgers)? {
            run.checks.push(CheckResult { name: check.name, ok: check.ok, detail: check.detail });
        }
        drop(bar);
        Ok(run)
    }

    /// Starts the workers, conducts them through warm-up and window, and collects their tallies.
    fn measure<P: Protocol>(
        &self,
        db: &Database<P>,
        sessions: Vec<Session<P>>,
    ) -> Result<Vec<Tally<W::Ledger>>, Error> {
        let settings = self.settings;
        let signal = Signal(AtomicU8::new(WARM_UP));
        let barrier = Barrier::new(self.threads + 1);
        let pinned = self.threads <= settings.cores.len();
        thread::scope(|scope| {
            let (signal, barrier) = (&signal, &barrier);
            let mut workers = Vec::with_capacity(self.threads);
            for (number, session) in sessions.into_iter().enumerate() {
                let core = pinned.then(|| settings.cores[number]);
                let body = move || self.worker(number, session, core, signal, barrier);
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
            tallies
                .into_iter()
                .map(|tally| tally.unwrap_or_else(|_| Err(misfortune("a worker panicked".into()))))
                .collect()
        })
    }

    /// Gives the signals, and moves the bar while it waits.
    fn conduct<P: Protocol>(&self, db: &Database<P>, signal: &Signal) {
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
    fn worker<P: Protocol>(
        &self,
        number: usize,
        mut session: Session<P>,
        core: Option<usize>,
        signal: &Signal,
        barrier: &Barrier,
    ) -> Result<Tally<W::Ledger>, Error> {
        let (workload, clock, read_only) = (self.workload, self.settings.clock, self.settings.read_only);
        if let Some(core) = core {
            machine::pin(core);
        }
        let mut generator = workload.generator(number, self.threads, self.settings.seed);
        let mut pool = vec![W::Input::default(); self.settings.pool.max(1)];
        if self.settings.pool > 0 {
            for input in &mut pool {
                workload.draw(&mut generator, input);
            }
        }
        let longest = clock.ticks(LATENCY_MAX).max(2);
        let latency = Histogram::new_with_max(longest, LATENCY_DIGITS)
            .map_err(|error| misfortune(format!("no histogram of latencies: {error}")))?;
        barrier.wait();

        let now = Instant::now();
        let kinds = vec![[0; 2]; workload.kinds().len()];
        let mut tally = Tally {
            ledger: W::Ledger::default(),
            begin: now,
            end: now,
            on_core: Duration::ZERO,
            session_commits: 0,
            looks: 0,
            conflicts: [0; Conflict::ALL.len()],
            kinds,
            latency,
        };
        let mut before = session.stats();
        let mut on_core = machine::thread_time();
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
                tally.kinds.fill([0; 2]);
                tally.looks = 0;
                before = session.stats();
                on_core = machine::thread_time();
                tally.begin = Instant::now();
                start = clock.now();
            }
            let input = &mut pool[next];
            next = if next + 1 == self.settings.pool.max(1) { 0 } else { next + 1 };
            if self.settings.pool == 0 {
                workload.draw(&mut generator, input);
            }
            workload.refresh(&mut generator, input);
            let outcome = read_only.run(workload, &mut session, input);
            let end = clock.now();
            let kind = &mut tally.kinds[workload.kind(input)];
            match outcome {
                Ok(output) => {
                    workload.record(&mut tally.ledger, input, output);
                    kind[0] += 1;
                    tally.looks += u64::from(read_only.looks(workload, input));
                    tally.latency.saturating_record(end.saturating_sub(start));
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
        run.latency_us = self.latency(tallies);
        let windows: Duration = tallies.iter().map(|tally| tally.end - tally.begin).sum();
        let on_core: Duration = tallies.iter().map(|tally| tally.on_core).sum();
        run.core_share = (on_core.as_secs_f64() / windows.as_secs_f64().max(1e-9)).min(1.0);
        let session_commits: u64 = tallies.iter().map(|tally| tally.session_commits).sum();
        let looks: u64 = tallies.iter().map(|tally| tally.looks).sum();
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

    fn latency(&self, tallies: &[Tally<W::Ledger>]) -> Latency {
        let Some((first, rest)) = tallies.split_first() else { return Latency::default() };
        let mut all = first.latency.clone();
        for tally in rest {
            // Bounds are equal, so nothing can be refused.
            let _ = all.add(&tally.latency);
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
