//! Runs what figures need, each setting once, and judges their claims.
//!
//! What is simulated goes first, several points at a time; then, alone on the machine, what runs on real
//! threads.

use super::figure::{
    Axis, Content, Dot, Facts, Figure, Judgement, Line, Measure, ONE_SOCKET, Paper, Results, Series, Setting,
    ThreadSetting, ThreadWorkload, VirtualSetting, caption,
};
use crate::bench::arguments::{Configuration as BenchConfiguration, Plan as BenchPlan};
use crate::bench::completion;
use crate::bench::settings::{Driver, LogSettings, Settings as RunnerSettings};
use crate::clock::Clock;
use crate::failure::{Failure, chain};
use crate::report::model::{Machine, Measurement, Report};
use crate::report::outputs::Outputs;
use crate::sim::arguments::{Configuration, Factor};
use crate::sim::points::{self, Task};
use crate::{bench, machine};
use heddledb::{Compression, LogKind};
use heddledb_simulator::point::Load;
use heddledb_simulator::simulation::{Costs, Settings};
use heddledb_simulator::timeline::{self, Scheme};
use heddledb_workloads::Workload;
use heddledb_workloads::array::Array;
use heddledb_workloads::stamp::kmeans::Kmeans;
use heddledb_workloads::stamp::vacation::Vacation;
use heddledb_workloads::tpcc::Tpcc;
use heddledb_workloads::ycsb::Ycsb;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Accesses of loading and checking, at most.
const LOADING_STEPS: u64 = 200_000_000;
/// How often the epoch advances on virtual cores, in virtual time.
const EPOCH_INTERVAL: Duration = Duration::from_millis(10);

/// How figures are run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of loading and drawing.
    pub seed: u64,
    /// Simulations at a time.
    pub jobs: usize,
    /// Where logs are written.
    pub directory: PathBuf,
    /// Shorter and fewer runs on real threads.
    pub quick: bool,
}

/// All that was found: the top level of the JSON file.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// The command that gives such a report, without what nothing depends on.
    pub command: String,
    /// The paper's name.
    pub paper: String,
    /// What it is called.
    pub title: String,
    /// Its authors, its year, and what it was measured on.
    pub about: String,
    /// The seed.
    pub seed: u64,
    /// The virtual machine, if anything was simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_machine: Option<Machine>,
    /// This machine, if anything ran on its threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// What the reader of all figures should know.
    pub notes: Vec<String>,
    /// The figures.
    pub figures: Vec<Found>,
}

/// What was found of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// Its number.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The section that tells of it: `§6.2`.
    pub section: String,
    /// What its points are over.
    pub axis: String,
    /// How the numbers on it stand.
    #[serde(skip)]
    pub drawn: Axis,
    /// The curves, and numbers that come from no run.
    #[serde(flatten)]
    pub results: Results,
    /// The table of a figure without curves, its heads first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub table: Vec<Vec<String>>,
    /// Its drawing.
    #[serde(skip)]
    pub drawing: String,
    /// Where its settings are not the paper's.
    pub notes: Vec<String>,
    /// What the paper says of it, and what became of that.
    pub claims: Vec<Judgement>,
}

impl Document {
    /// The points that are worth nothing: the figure, the curve, the number, and why.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for figure in &self.figures {
            for line in &figure.results.lines {
                for dot in &line.points {
                    if let Some(why) = &dot.failed {
                        failures.push(format!("{}: {} at {}: {why}", figure.id, line.name, dot.x));
                    }
                }
            }
        }
        failures
    }

    /// All claims.
    pub fn claims(&self) -> impl Iterator<Item = &Judgement> {
        self.figures.iter().flat_map(|figure| &figure.claims)
    }
}

/// Runs and judges figures.
pub fn reproduce(
    paper: &Paper,
    figures: &[Figure],
    plan: &Plan,
    command: String,
) -> Result<Document, Failure> {
    let (simulated, any_point) = simulate(figures, plan);
    let is_timeline = |figure: &Figure| matches!(figure.content, Content::Timeline(_));
    let any_virtual = any_point || figures.iter().any(is_timeline);
    let real = run_for_real(figures, plan)?;
    let measured = |setting: &Setting| match setting {
        Setting::Virtual(setting) => simulated.get(&setting.key()),
        Setting::Threads(setting) => {
            let mine = |(known, _): &&(ThreadSetting, Measurement)| *known == *setting;
            real.results.iter().find(mine).map(|(_, measurement)| measurement)
        }
    };
    let mut found = Vec::with_capacity(figures.len());
    for figure in figures {
        let mut results = Results::default();
        let mut facts = Facts::default();
        match &figure.content {
            Content::Points(series) => {
                results.lines = series.iter().map(|series| line(series, &measured)).collect();
            }
            Content::Timeline(load) => over_time(load, plan.seed, &mut results)?,
            Content::Facts(compute) => {
                facts = compute()?;
                let values = facts.values.iter();
                results.facts = values.map(|(name, value)| ((*name).to_owned(), *value)).collect();
            }
        }
        let mut table = facts.rows;
        if !facts.titles.is_empty() {
            table.insert(0, facts.titles.iter().map(|title| (*title).to_owned()).collect());
        }
        found.push(Found {
            id: figure.id.to_owned(),
            title: figure.title.to_owned(),
            section: figure.section.to_owned(),
            axis: figure.axis.name.to_owned(),
            drawn: figure.axis,
            claims: figure.claims.iter().map(|claim| claim.judged(&results)).collect(),
            results,
            table,
            drawing: facts.drawing,
            notes: figure.notes.clone(),
        });
    }
    let mut notes: Vec<String> = paper.notes.iter().map(|note| (*note).to_owned()).collect();
    notes.extend(real.notes);
    Ok(Document {
        command,
        paper: paper.name.to_owned(),
        title: paper.title.to_owned(),
        about: paper.about.to_owned(),
        seed: plan.seed,
        virtual_machine: any_virtual.then(|| points::machine(&ONE_SOCKET, &Costs::default())),
        machine: (!real.results.is_empty()).then(machine::describe),
        notes,
        figures: found,
    })
}

/// A curve with what was measured.
fn line<'m>(series: &Series, measured: &impl Fn(&Setting) -> Option<&'m Measurement>) -> Line {
    let dot = |(x, setting): &(f64, Setting)| {
        let Some(measurement) = measured(setting) else {
            return Dot { x: *x, failed: Some("it was not run".into()), ..Dot::default() };
        };
        let parameters = measurement.parameters.iter().map(|(name, value)| format!("{name} {value}"));
        let parameters: Vec<String> = parameters.collect();
        let failed = measurement.checks.iter().find(|check| !check.ok);
        let failed = failed.map(|check| format!("{}: {}", check.name, check.detail));
        Dot {
            x: *x,
            value: series.measure.of(measurement).filter(|_| failed.is_none()),
            protocol: measurement.label(),
            threads: measurement.threads,
            simulated: measurement.simulation.is_some(),
            throughput_tps: measurement.throughput_tps,
            abort_rate: measurement.abort_rate,
            user_abort_rate: measurement.user_abort_rate,
            regions: measurement.runs.last().and_then(|run| run.regions.clone()),
            p50_us: measurement.latency_us.p50,
            p99_us: measurement.latency_us.p99,
            workload: format!("{}: {}", measurement.workload, parameters.join(", ")),
            failed,
        }
    };
    Line {
        name: series.name.clone(),
        measure: series.measure,
        points: series.points.iter().map(dot).collect(),
    }
}

/// Runs a timeline by each scheme: a curve for each, and for the claims how often a wait was given up and for
/// how long at most nothing committed while a type was added.
fn over_time(load: &timeline::Load, seed: u64, results: &mut Results) -> Result<(), Failure> {
    let load = timeline::Load { seed, ..load.clone() };
    let slice_ms = load.slice.as_secs_f64() * 1e3;
    for scheme in Scheme::ALL {
        let settings = Settings { topology: ONE_SOCKET, ..Settings::default() };
        let outcome = timeline::timeline(scheme, &load, settings);
        let line = outcome.map_err(|broken| Failure::run(format!("{}: {broken}", scheme.name())))?;
        let failed = line.checks.iter().find(|check| !check.ok);
        let failed = failed.map(|check| format!("{}: {}", check.name, check.detail));
        let dot = |(at, commits): (usize, &u64)| {
            let throughput_tps = *commits as f64 / load.slice.as_secs_f64();
            Dot {
                x: (at + 1) as f64 * slice_ms,
                value: failed.is_none().then_some(throughput_tps),
                protocol: "ic3".into(),
                threads: load.cores,
                simulated: true,
                throughput_tps,
                workload: "tpcc".into(),
                failed: failed.clone(),
                ..Dot::default()
            }
        };
        let points = line.commits.iter().enumerate().map(dot).collect();
        results.lines.push(Line { name: scheme.name().into(), measure: Measure::Throughput, points });
        let fact = |name: &str| format!("{}: {name}", scheme.name());
        results.facts.insert(fact("ns without a commit"), line.longest_gap_ns as f64);
        let adding = line.changes.iter().map(|[_, took]| *took).max().unwrap_or(0);
        results.facts.insert(fact("ns to add a type"), adding as f64);
        let given_up = line.conflicts[heddledb::Conflict::TimedOut as usize];
        results.facts.insert(fact("waits given up"), given_up as f64);
    }
    Ok(())
}

/// The settings of a figure, with its number.
fn settings(figures: &[Figure]) -> impl Iterator<Item = (&'static str, &Setting)> {
    figures.iter().flat_map(|figure| {
        let series = match &figure.content {
            Content::Points(series) => series.as_slice(),
            Content::Timeline(_) | Content::Facts(_) => &[],
        };
        series.iter().flat_map(|series| &series.points).map(|(_, setting)| (figure.id, setting))
    })
}

/// Simulates each virtual setting once: measurements by their keys, and whether there are any.
fn simulate(figures: &[Figure], plan: &Plan) -> (BTreeMap<String, Measurement>, bool) {
    let mut keys: Vec<String> = Vec::new();
    let mut tasks: Vec<Task> = Vec::new();
    for (id, setting) in settings(figures) {
        let Setting::Virtual(setting) = setting else { continue };
        let key = setting.key();
        if keys.contains(&key) {
            continue;
        }
        keys.push(key);
        tasks.push(task(id, setting, plan));
    }
    // The longest first, or one of them would be left over at the end.
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(tasks[*at].weight()));
    let tasks: Vec<Task> = order.iter().map(|at| tasks[*at].clone()).collect();
    let results = points::simulate_all(&tasks, plan.jobs);
    let keys = order.into_iter().map(|at| keys[at].clone());
    (keys.zip(results).collect(), !tasks.is_empty())
}

fn task(id: &str, setting: &VirtualSetting, plan: &Plan) -> Task {
    let VirtualSetting {
        workload,
        kind,
        cores,
        read_only,
        isolation,
        window,
        census,
        queue,
        costs,
        topology,
    } = setting.clone();
    Task {
        part_of: caption(id),
        workload,
        point: Configuration { kind, cores, factor: Factor::ONE },
        load: Load {
            cores,
            seed: plan.seed,
            warmup: window / 4,
            window,
            epoch_interval: EPOCH_INTERVAL,
            read_only,
            isolation,
            pool: 0,
            queue,
        },
        topology,
        census,
        // An access takes some ten cycles in the mean: more than this, and the workers stand still.
        steps_max: LOADING_STEPS + costs.cycles((window + window / 4).as_nanos() as u64) * cores as u64 / 4,
        costs: *costs,
    }
}

/// What came of the real settings.
#[derive(Default)]
struct Real {
    results: Vec<(ThreadSetting, Measurement)>,
    notes: Vec<String>,
}

/// Runs each real setting: those together that differ in the protocol and the threads alone.
fn run_for_real(figures: &[Figure], plan: &Plan) -> Result<Real, Failure> {
    let like = |one: &ThreadSetting, other: &ThreadSetting| {
        let of = |setting: &ThreadSetting| (setting.workload, setting.read_only, setting.isolation);
        of(one) == of(other)
    };
    let mut groups: Vec<Vec<ThreadSetting>> = Vec::new();
    for (_, setting) in settings(figures) {
        let Setting::Threads(setting) = *setting else { continue };
        match groups.iter_mut().find(|group| like(&group[0], &setting)) {
            None => groups.push(vec![setting]),
            Some(group) if group.contains(&setting) => {}
            Some(group) => group.push(setting),
        }
    }
    let mut real = Real::default();
    for group in groups {
        let refused = |error: heddledb::Error| Failure::run(chain(&error));
        let report = match group[0].workload {
            ThreadWorkload::Tpcc(parameters) => {
                measure(Tpcc::new(parameters).map_err(refused)?, &group, plan)
            }
            ThreadWorkload::Ycsb(parameters) => {
                measure(Ycsb::new(parameters).map_err(refused)?, &group, plan)
            }
            ThreadWorkload::Array(parameters) => {
                measure(Array::new(parameters).map_err(refused)?, &group, plan)
            }
            ThreadWorkload::Vacation(parameters) => {
                measure(Vacation::new(parameters).map_err(refused)?, &group, plan)
            }
            ThreadWorkload::Kmeans(parameters) => {
                let kmeans = Kmeans::new(parameters).map_err(refused)?;
                completion::measure(&kmeans, &bench_plan(&group, plan), String::new())
            }
        };
        for note in report.notes {
            if !real.notes.contains(&note) {
                real.notes.push(note);
            }
        }
        real.results.extend(group.into_iter().zip(report.results));
    }
    if cfg!(debug_assertions) && !real.results.is_empty() {
        real.notes.push("this is a debug build; figures on threads are no measure of the engine".into());
    }
    Ok(real)
}

/// Runs settings of one workload.
fn measure<W: Workload>(workload: W, settings: &[ThreadSetting], plan: &Plan) -> Report {
    bench::measure(&Arc::new(workload), &bench_plan(settings, plan), String::new())
}

/// The benchmark that settings of one workload amount to.
fn bench_plan(settings: &[ThreadSetting], plan: &Plan) -> BenchPlan {
    let (warmup, seconds, runs) = if plan.quick { (0.1, 0.3, 1) } else { (0.5, 1.5, 3) };
    let asked = settings.iter().map(|setting| BenchConfiguration {
        kind: setting.kind,
        threads: setting.threads,
        durability: setting.durability,
    });
    BenchPlan {
        baseline: None,
        asked: asked.collect(),
        runs,
        settings: RunnerSettings {
            driver: Driver::Closed,
            warmup: Duration::from_secs_f64(warmup),
            seconds: Duration::from_secs_f64(seconds),
            crew: 1,
            pool: 20_000,
            seed: plan.seed,
            read_only: settings[0].read_only,
            isolation: settings[0].isolation,
            log: LogSettings {
                directory: plan.directory.clone(),
                files: 1,
                compression: Compression::None,
                kind: LogKind::Values,
                checkpoint: false,
                recover: false,
                recovery_threads: None,
            },
            cores: machine::cores(),
            clock: Clock::calibrate(),
        },
        outputs: Outputs::default(),
        notes: Vec::new(),
    }
}
