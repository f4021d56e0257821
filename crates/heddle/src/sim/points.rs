//! Runs points, those of a plan or others, and makes the plan's report.
//!
//! A point is a simulation on one thread of its own, and knows nothing of the others: so several can run at
//! once, and the report is the same. It holds nothing of this machine either, neither times nor names; those
//! go to the terminal alone.

use super::arguments::{Configuration, Plan};
use crate::progress::Progress;
use crate::report::model::RegionFigures;
use crate::report::model::{
    CheckResult, DependencyFigures, Latency, Machine, Measurement, Outcomes, Report, Run, Simulation,
};
use crate::report::{percent, rate, table};
use heddledb::Conflict;
use heddledb_simulator::calibration;
use heddledb_simulator::dependencies::{Census, Dependencies};
use heddledb_simulator::point::{Broken, Load, Point, Subject};
use heddledb_simulator::simulation::{Costs, Counts, Settings, Topology};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What loading and checking a database costs a simulation, as time of one core in a window.
const LOADING: Duration = Duration::from_millis(10);

/// A point to be simulated, with all that it depends on.
#[derive(Clone)]
pub struct Task {
    /// What it is a part of, for whoever waits; empty if that goes without saying.
    pub part_of: String,
    /// What runs.
    pub workload: Subject,
    /// Under which protocol, on how many cores.
    pub point: Configuration,
    /// How long, how often the epoch advances, from which seed.
    pub load: Load,
    /// The shape of the machine.
    pub topology: Topology,
    /// What things cost, but for [`Configuration::factor`].
    pub costs: Costs,
    /// Whether dependencies are counted.
    pub census: bool,
    /// After so many accesses it is given up.
    pub steps_max: u64,
}

impl Task {
    /// A point of a plan.
    fn of_plan(workload: &Subject, plan: &Plan, point: Configuration) -> Self {
        Self {
            part_of: String::new(),
            workload: workload.clone(),
            point,
            load: Load {
                cores: point.cores,
                seed: plan.seed,
                warmup: plan.warmup(point.cores),
                window: plan.window(point.cores),
                epoch_interval: plan.epoch_interval,
                read_only: plan.read_only,
                isolation: plan.isolation,
                pool: 0,
                queue: plan.queue,
            },
            topology: plan.topology,
            costs: plan.costs,
            census: false,
            steps_max: u64::MAX,
        }
    }

    /// How much there is to simulate.
    pub fn weight(&self) -> u64 {
        let time = self.load.window + self.load.warmup;
        time.as_micros() as u64 * self.load.cores as u64 + LOADING.as_micros() as u64
    }

    /// The costs that it is simulated with.
    fn scaled_costs(&self) -> Costs {
        self.costs.scaled(self.point.factor.0, self.point.factor.1)
    }

    fn simulate(&self) -> Result<(Point, Option<Dependencies>), Broken> {
        let census = self.census.then(Census::default);
        let settings = Settings {
            topology: self.topology,
            costs: self.scaled_costs(),
            follower: census.as_ref().map(Census::follower),
            steps_max: self.steps_max,
            ..Settings::default()
        };
        let point = self.workload.simulate(self.point.kind, self.load.clone(), settings)?;
        Ok((point, census.map(|census| census.dependencies())))
    }

    /// A measurement without a run.
    fn empty(&self) -> Measurement {
        let Self { workload, point, load, topology, .. } = self;
        let settings =
            [("seconds", load.window), ("warmup", load.warmup), ("epoch_interval", load.epoch_interval)];
        let costs = self.scaled_costs();
        Measurement {
            workload: workload.name().to_owned(),
            protocol: point.kind.name().to_owned(),
            durability: "none".into(),
            threads: point.cores,
            seed: load.seed,
            settings: settings.map(|(name, value)| (name.to_owned(), value.as_secs_f64())).into(),
            parameters: workload
                .parameters()
                .into_iter()
                .chain([("read_only".to_owned(), load.read_only.to_string())])
                .chain([("isolation".to_owned(), load.isolation.to_string())])
                .chain((load.queue.length > 1).then(|| ("queue".to_owned(), load.queue.length.to_string())))
                .chain(load.queue.batch.map(|batch| ("batch".to_owned(), batch.to_string())))
                .collect(),
            simulation: Some(Simulation {
                sockets: topology.sockets,
                cores_per_socket: topology.cores_per_socket,
                coherence: point.factor.value(),
                costs: costs.entries().into_iter().map(|(name, _, value)| (name.to_owned(), value)).collect(),
                calibration: calibration::statement(&self.costs),
                ..Simulation::default()
            }),
            ..Measurement::default()
        }
    }
}

/// Simulates points, `jobs` at a time; a measurement of one run for each, in their order.
pub fn simulate_all(tasks: &[Task], jobs: usize) -> Vec<Measurement> {
    let progress = Progress::weighed(tasks.iter().map(Task::weight).sum());
    let mut results: Vec<Measurement> = tasks.iter().map(Task::empty).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (told, outcomes) = mpsc::channel();
        for _ in 0..jobs.min(tasks.len()) {
            let (told, next) = (told.clone(), &next);
            scope.spawn(move || {
                while let Some((at, task)) = claim(next, tasks) {
                    let begun = Instant::now();
                    let outcome = task.simulate();
                    if told.send((at, outcome, begun.elapsed())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(told);
        for (at, outcome, elapsed) in outcomes {
            let (measurement, task) = (&mut results[at], &tasks[at]);
            let figures = match outcome {
                Ok((figures, dependencies)) => {
                    fill(measurement, &task.workload, &figures, dependencies);
                    let pace = figures.steps as f64 / elapsed.as_secs_f64().max(1e-9);
                    format!(
                        "{} tx/s, {} aborts, {} steps/s",
                        rate(measurement.throughput_tps),
                        percent(measurement.abort_rate),
                        rate(pace)
                    )
                }
                Err(broken) => {
                    measurement.runs.push(Run::broken(1, broken.to_string()));
                    measurement.summarise();
                    format!("FAILED: {broken}")
                }
            };
            let failed = measurement.runs[0].error.is_none() && measurement.failed();
            let verdict = if failed { ", a check FAILED" } else { "" };
            let part_of = if task.part_of.is_empty() { "" } else { &format!("{}: ", task.part_of) };
            let line = format!(
                "{part_of}{}: {figures}{verdict}, {:.1} s",
                table::name(measurement),
                elapsed.as_secs_f64()
            );
            progress.weight_done(&line, task.weight());
        }
    });
    results
}

/// Simulates all points of a plan.
pub fn measure(workload: &Subject, plan: &Plan, command: String) -> Report {
    let tasks: Vec<Task> = plan.points.iter().map(|point| Task::of_plan(workload, plan, *point)).collect();
    let mut report = Report {
        command,
        machine: machine(&plan.topology, &plan.costs),
        results: simulate_all(&tasks, plan.jobs),
        baseline: None,
        notes: plan.notes.clone(),
    };
    report.fill_ratios();
    report.fill_speed_ups();
    report.notes.extend(report.orders());
    for result in &report.results {
        let Some(simulation) = &result.simulation else { continue };
        if result.runs[0].error.is_none() && simulation.transactions < FEW * result.threads as u64 {
            report.notes.push(format!(
                "{}: the window held {} transactions only; a longer --window gives figures to rely on",
                table::name(result),
                simulation.transactions
            ));
        }
    }
    report
}

/// The next point that nobody has taken.
fn claim<'a>(next: &AtomicUsize, tasks: &'a [Task]) -> Option<(usize, &'a Task)> {
    // Relaxed: the number is all that is shared.
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, tasks.get(at)?))
}

/// Puts the figures of a point into its measurement.
fn fill(
    measurement: &mut Measurement,
    workload: &Subject,
    point: &Point,
    dependencies: Option<Dependencies>,
) {
    measurement.runs.push(run(workload, point));
    measurement.summarise();
    let Some(simulation) = &mut measurement.simulation else { return };
    let Counts { accesses, rmws, same, hits, fetches, memory, transfers, upgrades, far, .. } = point.counts;
    let Counts { queueing_cycles, waiting_cycles, work_cycles, work, phases, .. } = point.counts;
    let each = |count: u64| count as f64 / point.transactions.max(1) as f64;
    *simulation = Simulation {
        steps: point.steps,
        transactions: point.transactions,
        cycles: each(point.cycles),
        conflicts: each(point.conflicts.iter().sum()),
        accesses: each(accesses),
        rmws: each(rmws),
        same: each(same),
        hits: each(hits),
        fetches: each(fetches),
        memory: each(memory),
        transfers: each(transfers),
        upgrades: each(upgrades),
        far: each(far),
        queueing_cycles: each(queueing_cycles),
        waiting_cycles: each(waiting_cycles),
        work_cycles: each(work_cycles),
        work: Counts::WORK.iter().zip(work).map(|(name, count)| ((*name).to_owned(), each(count))).collect(),
        phases: Counts::PHASES
            .iter()
            .zip(phases)
            .map(|(name, sum)| ((*name).to_owned(), each(sum)))
            .collect(),
        dependencies: dependencies.map(|Dependencies { transactions, direct, transitive }| {
            let each = |sum: u64| sum as f64 / transactions.max(1) as f64;
            DependencyFigures { transactions, direct: each(direct), transitive: each(transitive) }
        }),
        ..std::mem::take(simulation)
    };
}

/// Fewer transactions of each core in the window are said to be few.
const FEW: u64 = 2;

/// The figures of a point as those of a run.
fn run(workload: &Subject, point: &Point) -> Run {
    let kinds = workload.kinds().iter().zip(&point.kinds);
    let mut run = Run {
        run: 1,
        seconds: point.seconds,
        committed: point.committed,
        user_aborts: point.user_aborts,
        ticks: point.ticks,
        conflicts: Conflict::ALL
            .into_iter()
            .zip(point.conflicts)
            .map(|(conflict, count)| (conflict.name().to_owned(), count))
            .collect(),
        kinds: kinds
            .map(|(kind, &[committed, user_aborts])| {
                ((*kind).to_owned(), Outcomes { committed, user_aborts })
            })
            .collect(),
        throughput_tps: point.committed as f64 / point.seconds,
        core_share: 1.0,
        record_bytes: point.record_bytes,
        version_bytes: point.version_bytes,
        regions: point.regions.map(RegionFigures::of),
        latency_us: latency(&point.latencies_ns),
        kinds_latency_us: workload
            .kinds()
            .iter()
            .zip(&point.kind_latencies_ns)
            .map(|(kind, rising)| ((*kind).to_owned(), latency(rising)))
            .collect(),
        checks: point
            .checks
            .iter()
            .map(|check| CheckResult { name: check.name.clone(), ok: check.ok, detail: check.detail.clone() })
            .collect(),
        ..Run::default()
    };
    let conflicts: u64 = point.conflicts.iter().sum();
    run.abort_rate = conflicts as f64 / run.attempts().max(1) as f64;
    run
}

/// The percentiles of rising nanoseconds.
fn latency(rising: &[u64]) -> Latency {
    let Some(last) = rising.len().checked_sub(1) else { return Latency::default() };
    let us = |nanoseconds: u64| nanoseconds as f64 / 1e3;
    let quantile =
        |share: f64| us(rising[((rising.len() as f64 * share).ceil() as usize).clamp(1, last + 1) - 1]);
    Latency {
        mean: us(rising.iter().sum()) / rising.len() as f64,
        p50: quantile(0.5),
        p95: quantile(0.95),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: us(rising[last]),
    }
}

/// The virtual machine, where a benchmark has the real one. What it does not have is empty.
pub fn machine(topology: &Topology, costs: &Costs) -> Machine {
    let Topology { sockets, cores_per_socket } = *topology;
    let many = if sockets == 1 { "" } else { "s" };
    Machine {
        cpu: format!("virtual cores of {} MHz, {sockets} socket{many} of {cores_per_socket}", costs.mhz),
        cores: sockets * cores_per_socket,
        memory_gib: 0.0,
        os: "simulated".into(),
        virtual_machine: true,
        huge_pages: String::new(),
        rustc: String::new(),
        target: String::new(),
        profile: String::new(),
        heddle: env!("CARGO_PKG_VERSION").into(),
    }
}
