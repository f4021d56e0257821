//! What every worker of a run has, whatever begins its transactions: what it is told, its inputs, its tally.

use super::settings::Settings;
use crate::clock::Clock;
use crate::machine;
use crate::report::model::Latency;
use hdrhistogram::Histogram;
use heddledb::{Durability, Error, LogicalTime, Stats, Ticket};
use heddledb_workloads::Workload;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Digits of a latency that are kept: the error is below 1 %, and the part of the histogram that
/// is in use stays in the nearest cache.
const LATENCY_DIGITS: u8 = 2;
/// Longer latencies count as this.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// Of so many commits with durability `epoch` one is watched until it is durable.
const WATCHED_ODDS: u64 = 64;

/// What the workers are to do.
pub const WARM_UP: u8 = 0;
pub const MEASURE: u8 = 1;
pub const STOP: u8 = 2;

/// The signal to all workers, written by the conductor and by a worker that fails. Relaxed: it
/// publishes nothing, and it is seen soon enough.
#[repr(align(128))]
pub struct Signal(AtomicU8);

impl Signal {
    /// All warm up.
    pub const fn new() -> Self {
        Self(AtomicU8::new(WARM_UP))
    }

    /// What is to be done now.
    pub fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Only ever raises, so that a failed worker's stop is not overwritten.
    pub fn raise(&self, phase: u8) {
        self.0.fetch_max(phase, Ordering::Relaxed);
    }
}

/// What the workers of a run have in common.
pub struct Work<'a, W> {
    /// What runs.
    pub workload: &'a Arc<W>,
    /// How long and how.
    pub settings: &'a Settings,
    /// When commits count as done.
    pub durability: Durability,
    /// How many draw inputs.
    pub workers: usize,
    /// What they are to do.
    pub signal: &'a Signal,
}

/// Where a worker has its inputs from: a pool that was drawn ahead, used in turn.
pub struct Inputs<W: Workload> {
    pub generator: W::Generator,
    pub pool: Vec<W::Input>,
    next: usize,
    drawn_ahead: bool,
}

impl<W: Workload> Inputs<W> {
    /// Those of worker `number`. Draws the pool.
    pub fn new(work: &Work<'_, W>, number: usize) -> Self {
        let Work { workload, settings, workers, .. } = work;
        let mut generator = workload.generator(number, *workers, settings.seed);
        let mut pool = vec![W::Input::default(); settings.pool.max(1)];
        let drawn_ahead = settings.pool > 0;
        if drawn_ahead {
            for input in &mut pool {
                workload.draw(&mut generator, input);
            }
        }
        Self { generator, pool, next: 0, drawn_ahead }
    }

    /// Makes the next input ready, and tells its place in the pool.
    #[inline(always)]
    pub fn advance(&mut self, workload: &W) -> usize {
        let at = self.next;
        self.next = if at + 1 == self.pool.len() { 0 } else { at + 1 };
        let input = &mut self.pool[at];
        if !self.drawn_ahead {
            workload.draw(&mut self.generator, input);
        }
        workload.refresh(&mut self.generator, input);
        at
    }
}

/// When a transaction began and ended, in ticks, and how it was run.
#[derive(Clone, Copy)]
pub struct Span {
    /// From when on its latency counts.
    pub since: u64,
    /// When it had ended.
    pub to: u64,
    /// Whether it was run on a snapshot.
    pub looked: bool,
    /// Whether it ended in the window, or in the warm-up while that lasts.
    pub counted: bool,
}

/// What one worker counted in the window; the ledger counts from the load on.
pub struct Tally<L> {
    pub ledger: L,
    pub begin: Instant,
    pub end: Instant,
    /// Time that this thread ran on a core between the two.
    pub on_core: Duration,
    /// How much of that in the system.
    pub in_system: Duration,
    /// Attempts that ended, by the session's own count.
    pub stats: Stats,
    /// Bodies that ran on snapshots, which sessions do not count.
    pub looks: u64,
    /// Transactions that looked ahead for others, which sessions count and workers do not.
    pub looked_ahead: u64,
    /// Commits since the start, warm-up included.
    pub commits_ever: u64,
    /// Those of them that ran on snapshots.
    pub looks_ever: u64,
    /// Commits and user aborts by kind.
    pub kinds: Vec<[u64; 2]>,
    /// Latencies of committed transactions in ticks.
    pub latency: Histogram<u64>,
    /// Of some of them, until they were durable.
    pub durable: Histogram<u64>,
    pub time: LogicalTime,
    /// How calls arrived, in an open loop.
    pub flow: Option<Flow>,
    /// Some of the commits, until they are durable.
    watched: VecDeque<(u64, Ticket)>,
    watches: bool,
}

/// How calls arrived at a client.
pub struct Flow {
    /// Calls that arrived in the window.
    pub arrived: u64,
    /// Calls that had arrived when it began, and had not ended.
    pub waiting_begin: u64,
    /// The same when it ended.
    pub waiting_end: u64,
    /// How long after its arrival each call was submitted, in ticks.
    pub late: Histogram<u64>,
}

/// A histogram of times in ticks.
fn histogram(clock: &Clock) -> Result<Histogram<u64>, Error> {
    let longest = clock.ticks(LATENCY_MAX).max(2);
    Histogram::new_with_max(longest, LATENCY_DIGITS)
        .map_err(|error| misfortune(format!("no histogram of latencies: {error}")))
}

impl Flow {
    /// Nothing has arrived.
    pub fn new(clock: &Clock) -> Result<Self, Error> {
        Ok(Self { arrived: 0, waiting_begin: 0, waiting_end: 0, late: histogram(clock)? })
    }

    /// The window begins, and so many calls wait or are in flight.
    pub fn begin(&mut self, waiting: u64) {
        self.arrived = 0;
        self.waiting_begin = waiting;
        self.late.reset();
    }
}

impl<L: Default> Tally<L> {
    /// Nothing is counted yet.
    pub fn new<W: Workload<Ledger = L>>(work: &Work<'_, W>) -> Result<Self, Error> {
        let clock = &work.settings.clock;
        let now = Instant::now();
        Ok(Self {
            ledger: L::default(),
            begin: now,
            end: now,
            on_core: Duration::ZERO,
            in_system: Duration::ZERO,
            stats: Stats::default(),
            looks: 0,
            looked_ahead: 0,
            commits_ever: 0,
            looks_ever: 0,
            kinds: vec![[0; 2]; work.workload.kinds().len()],
            latency: histogram(clock)?,
            durable: histogram(clock)?,
            time: LogicalTime::default(),
            flow: None,
            watched: VecDeque::new(),
            watches: work.durability == Durability::Epoch,
        })
    }

    /// The window begins: what was counted before was for warming up. `stats` are the session's.
    pub fn begin(&mut self, stats: Stats) {
        self.clear(stats);
        self.on_core = machine::thread_time();
        self.in_system = machine::thread_time_in_system();
        self.begin = Instant::now();
    }

    /// The window has ended, or never began. `stats` are the session's.
    pub fn end(&mut self, stats: Stats, measured: bool) {
        self.end = Instant::now();
        if measured {
            self.on_core = machine::thread_time().saturating_sub(self.on_core);
            self.in_system = machine::thread_time_in_system().saturating_sub(self.in_system);
        } else {
            // The whole window passed while this thread had no core, or another worker failed.
            self.begin = self.end;
            self.clear(stats);
        }
        self.stats = stats - self.stats;
    }

    fn clear(&mut self, stats: Stats) {
        self.latency.reset();
        self.durable.reset();
        self.kinds.fill([0; 2]);
        self.looks = 0;
        self.looked_ahead = 0;
        self.time = LogicalTime::default();
        self.stats = stats;
    }

    /// A transaction has ended so. True if it has committed.
    ///
    /// # Errors
    /// That of the transaction, unless it gave up by its own decision.
    #[inline(always)]
    pub fn tell<W: Workload<Ledger = L>>(
        &mut self,
        workload: &W,
        generator: &mut W::Generator,
        input: &W::Input,
        outcome: Result<W::Output, Error>,
        span: Span,
    ) -> Result<bool, Error> {
        let kind = &mut self.kinds[workload.kind(input)];
        match outcome {
            Ok(output) => {
                workload.committed(generator, input, &output);
                let looked_ahead = workload.looked_ahead(&output);
                workload.record(&mut self.ledger, input, output);
                self.commits_ever += 1;
                self.looks_ever += u64::from(span.looked);
                if span.counted {
                    kind[0] += 1;
                    self.looks += u64::from(span.looked);
                    self.looked_ahead += looked_ahead;
                    self.latency.saturating_record(span.to.saturating_sub(span.since));
                }
                Ok(true)
            }
            Err(Error::User(_)) => {
                kind[1] += u64::from(span.counted);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Watches the commit that was just told until it is durable, if it is one of those that are watched.
    #[inline(always)]
    pub fn watch(&mut self, span: Span, ticket: impl FnOnce() -> Ticket) {
        if !self.watches {
            return;
        }
        if self.commits_ever.is_multiple_of(WATCHED_ODDS) {
            self.watched.push_back((span.since, ticket()));
        }
        while let Some((since, _)) = self.watched.pop_front_if(|(_, ticket)| ticket.is_durable()) {
            self.durable.saturating_record(span.to.saturating_sub(since));
        }
    }
}

/// What histograms of ticks say in microseconds.
pub fn latency<'h>(mut histograms: impl Iterator<Item = &'h Histogram<u64>>, clock: &Clock) -> Latency {
    let Some(first) = histograms.next() else { return Latency::default() };
    let mut all = first.clone();
    for histogram in histograms {
        // Bounds are equal, so nothing can be refused.
        let _ = all.add(histogram);
    }
    if all.is_empty() {
        return Latency::default();
    }
    let us = |ticks: u64| clock.nanoseconds(ticks) / 1e3;
    let quantile = |share: f64| us(all.value_at_quantile(share));
    Latency {
        mean: clock.nanoseconds(1_000_000) / 1e9 * all.mean(),
        p50: quantile(0.5),
        p95: quantile(0.95),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: us(all.max()),
    }
}

/// An error of the runner in the engine's terms.
pub fn misfortune(what: String) -> Error {
    heddledb::Misuse::System(what).into()
}
