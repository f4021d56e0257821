//! `heddle bench`: a workload under several protocols and numbers of threads.

pub mod arguments;
pub mod completion;
mod figures;
pub mod runner;
pub mod settings;
pub mod snapshots;
#[cfg(test)]
pub mod toy;
mod worker;

use crate::failure::Failure;
use crate::machine;
use crate::progress::Progress;
use crate::report::model::{Measurement, Report, Run};
use crate::report::outputs::{self, Outputs};
use crate::report::{html, rate, table};
use crate::terminal::{aligned, columns, widest};
use arguments::{BenchArguments, Benchmark, Configuration, Plan, WorkloadArguments};
use heddledb::protocol::Kind;
use heddledb_workloads::Workload;
use heddledb_workloads::arguments::ApplicationArguments;
use runner::Job;
use std::io::Write;
use std::sync::Arc;

/// Runs the command. True if every check held.
pub fn bench(arguments: &BenchArguments, command: String) -> Result<bool, Failure> {
    match &arguments.workload {
        _ if arguments.list => {
            // A reader that went away, such as `head`, is no failure.
            let out = std::io::stdout();
            let _ = out.lock().write_all(list(columns(&out)).as_bytes());
            Ok(true)
        }
        None => {
            Err(Failure::usage("name a workload, such as tpcc or ycsb, or give --list to see what there is"))
        }
        Some(WorkloadArguments::Tpcc(tpcc)) => run(tpcc.workload()?, &tpcc.common.plan()?, command),
        Some(WorkloadArguments::Recovery(tpcc)) => {
            run(tpcc.workload()?, &tpcc.common.recovery().plan()?, command)
        }
        Some(WorkloadArguments::Tpce(tpce)) => run(tpce.workload()?, &tpce.common.plan()?, command),
        Some(WorkloadArguments::Ycsb(ycsb)) => run(ycsb.workload()?, &ycsb.common.plan()?, command),
        Some(WorkloadArguments::Micro(micro)) => run(micro.workload()?, &micro.common.plan()?, command),
        Some(WorkloadArguments::Articles(articles)) => {
            run(articles.workload()?, &articles.common.plan()?, command)
        }
        Some(WorkloadArguments::Array(array)) => run(array.workload()?, &array.common.plan()?, command),
        Some(WorkloadArguments::Vacation(vacation)) => {
            run(vacation.workload()?, &vacation.common.plan()?, command)
        }
        Some(WorkloadArguments::Kmeans(kmeans)) => complete(kmeans, command),
        Some(WorkloadArguments::Intruder(intruder)) => complete(intruder, command),
        Some(WorkloadArguments::Genome(genome)) => complete(genome, command),
        Some(WorkloadArguments::Labyrinth(labyrinth)) => complete(labyrinth, command),
        Some(WorkloadArguments::Bayes(bayes)) => complete(bayes, command),
        Some(WorkloadArguments::Snapshots(arguments)) => snapshots::snapshots(arguments, command),
    }
}

/// Runs an application to its end, again and again.
fn complete<A: ApplicationArguments>(arguments: &Benchmark<A>, command: String) -> Result<bool, Failure> {
    let (application, plan) = (arguments.application()?, arguments.common.plan()?);
    completion::check(&plan)?;
    plan.outputs.probe()?;
    let report = completion::measure(&application, &plan, command);
    publish(&report, &plan.outputs)?;
    Ok(!report.failed())
}

/// Workloads, presets and protocols with a description each, broken to a `width` if there is one.
fn list(width: Option<usize>) -> String {
    let protocols: Vec<(&str, &str)> = Kind::ALL.iter().map(|kind| (kind.name(), kind.about())).collect();
    let parts: [(&str, &[(&str, &str)]); 3] = [
        ("workloads", &arguments::WORKLOADS),
        ("presets of ycsb", &heddledb_workloads::ycsb::Parameters::PRESETS),
        ("protocols", &protocols),
    ];
    // One width for all parts, so that descriptions begin in the same column everywhere.
    let names = parts.iter().map(|(_, rows)| widest(rows)).max().unwrap_or(0);
    let part = |(title, rows): (&str, &[(&str, &str)])| format!("{title}\n{}", aligned(rows, names, width));
    parts.map(part).join("\n")
}

fn run<W: Workload>(workload: W, plan: &Plan, command: String) -> Result<bool, Failure> {
    plan.outputs.probe()?;
    let report = measure(&Arc::new(workload), plan, command);
    publish(&report, &plan.outputs)?;
    Ok(!report.failed())
}

/// Makes all runs. They go round: the first of every configuration, then the second, so that a
/// machine that gets slower does so for all alike.
pub fn measure<W: Workload>(workload: &Arc<W>, plan: &Plan, command: String) -> Report {
    let start = |configuration: Configuration, run: usize, title: &str, progress: &Progress| {
        let job = Job {
            kind: configuration.kind,
            workload,
            settings: &plan.settings,
            threads: configuration.threads,
            durability: configuration.durability,
            run,
            title,
            progress,
        };
        job.run()
    };
    measure_all(plan, command, |configuration| empty(&**workload, plan, configuration), start)
}

/// Makes all runs by `start`, of measurements that `empty` has begun.
fn measure_all(
    plan: &Plan,
    command: String,
    empty: impl Fn(Configuration) -> Measurement,
    start: impl Fn(Configuration, usize, &str, &Progress) -> Run,
) -> Report {
    let progress = Progress::new(plan.runs * plan.configurations().count());
    let mut measurements: Vec<Measurement> = plan.configurations().map(&empty).collect();
    for run in 1..=plan.runs {
        for (configuration, measurement) in plan.configurations().zip(&mut measurements) {
            let title = table::name(measurement);
            let result = start(configuration, run, &title, &progress);
            let figures = match &result.error {
                Some(error) => format!("FAILED: {error}"),
                None => format!(
                    "{} tx/s, {} aborts",
                    rate(result.throughput_tps),
                    crate::report::percent(result.abort_rate)
                ),
            };
            let failed = result.error.is_none() && result.checks.iter().any(|check| !check.ok);
            let verdict = if failed { ", a check FAILED" } else { "" };
            progress.finished(&format!("run {run} of {}: {title}: {figures}{verdict}", plan.runs));
            measurement.runs.push(result);
        }
    }
    drop(progress);
    measurements.iter_mut().for_each(Measurement::summarise);
    let mut measurements = measurements.into_iter();
    let baseline = plan.baseline.and_then(|_| measurements.next());
    let mut report = Report {
        command,
        machine: machine::describe(),
        results: measurements.collect(),
        baseline,
        notes: plan.notes.clone(),
    };
    report.fill_ratios();
    report.note_stolen_time();
    report
}

/// A measurement without runs.
fn empty<W: Workload>(workload: &W, plan: &Plan, configuration: Configuration) -> Measurement {
    let settings = &plan.settings;
    let pairs = [
        ("seconds", settings.seconds.as_secs_f64()),
        ("warmup", settings.warmup.as_secs_f64()),
        ("crew", settings.crew as f64),
        ("pool", settings.pool as f64),
    ];
    Measurement {
        workload: workload.name().to_owned(),
        protocol: configuration.kind.name().to_owned(),
        durability: format!("{:?}", configuration.durability).to_lowercase(),
        threads: configuration.threads,
        seed: settings.seed,
        settings: pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        parameters: workload
            .parameters()
            .into_iter()
            .chain([("read_only".to_owned(), settings.read_only.to_string())])
            .chain([("isolation".to_owned(), settings.isolation.to_string())])
            .collect(),
        ..Measurement::default()
    }
}

/// Prints the table of a report and writes the files.
pub fn publish(report: &Report, outputs: &Outputs) -> Result<(), Failure> {
    outputs::publish(outputs, |colours| table::render(report, colours), report, || html::page(report))
}

#[cfg(test)]
mod tests {
    use super::toy::Toy;
    use super::*;
    use crate::Cli;
    use clap::Parser;

    /// The report of a short benchmark of counters, with arguments as on the command line.
    fn report(toy: Toy, arguments: &str) -> Report {
        let line = format!("heddle bench tpcc --seconds 0.1 --warmup 0.02 {arguments}");
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let crate::Command::Bench(bench) = cli.command else { panic!("not a benchmark") };
        let Some(WorkloadArguments::Tpcc(tpcc)) = bench.workload else { panic!("not tpcc") };
        measure(&Arc::new(toy), &tpcc.common.plan().unwrap(), line)
    }

    #[test]
    fn the_list_has_a_column_of_names_and_a_column_of_descriptions() {
        let text = list(None);
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
        let presets = heddledb_workloads::ycsb::Parameters::PRESETS;
        assert_eq!(rows.len(), arguments::WORKLOADS.len() + presets.len() + Kind::ALL.len());
        let names = Kind::ALL.iter().map(|kind| kind.name().len()).max().unwrap();
        for row in rows {
            let (name, about) = row.split_at(2 + names + 2);
            assert!(name.ends_with("  ") && !about.starts_with(' '), "{row:?} in\n{text}");
        }
        assert!(list(Some(80)).lines().all(|line| line.chars().count() <= 80), "{}", list(Some(80)));
    }

    #[test]
    fn every_protocol_counts_right_and_the_report_has_its_shape() {
        let toy = Toy { counters: 3, error: 0, missing: 0 };
        let report = report(toy, "--protocol all --threads 1,2 --runs 2 --pool 100");
        assert!(!report.failed(), "{}", table::render(&report, false));
        assert_eq!(report.results.len(), 2 * Kind::ALL.len() - 1);
        assert!(report.baseline.is_none(), "unprotected was asked for");
        for result in &report.results {
            assert_eq!(result.runs.len(), 2);
            assert!(result.throughput_tps > 0.0 && result.latency_us.p50 > 0.0, "{result:?}");
            assert!(result.latency_us.p50 <= result.latency_us.p999, "{result:?}");
            assert!(result.ratio_to_unprotected.is_some());
            // One input in ten is refused, and the pool holds a hundred.
            assert!((0.02..0.3).contains(&result.user_abort_rate), "{result:?}");
            assert!(result.checks.iter().any(|check| check.name == "no count is lost"));
            for run in &result.runs {
                assert!(run.seconds > 0.0 && run.kinds["count"].committed == run.committed);
                assert_eq!(run.kinds["refuse"].user_aborts, run.user_aborts);
            }
        }
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        let page = html::page(&report);
        assert!(Kind::ALL.iter().all(|kind| page.contains(kind.name())) && !page.contains("http"));
    }

    #[test]
    fn a_baseline_is_run_for_the_ratio_alone() {
        let toy = || Toy { counters: 3, error: 0, missing: 0 };
        let with = report(toy(), "--protocol silo --runs 1 --pool 0");
        assert_eq!((with.results.len(), with.baseline.is_some()), (1, true));
        assert!(with.results[0].ratio_to_unprotected.is_some());
        let without = report(toy(), "--protocol silo --runs 1 --no-baseline");
        assert!(without.baseline.is_none() && without.results[0].ratio_to_unprotected.is_none());
    }

    #[test]
    fn a_check_that_fails_fails_the_report() {
        let toy = Toy { counters: 3, error: 1, missing: 0 };
        let report = report(toy, "--protocol silo --runs 1 --no-baseline");
        assert!(report.failed());
        assert!(table::render(&report, false).contains("FAILED silo, 1 thread: no count is lost"));
    }

    #[test]
    fn a_workers_error_is_the_runs_error() {
        let toy = Toy { counters: 3, error: 0, missing: 1 };
        let report = report(toy, "--protocol silo,no-wait --threads 2 --runs 1 --no-baseline");
        assert!(report.failed());
        let error = report.results[0].runs[0].error.as_ref().unwrap();
        assert!(error.contains("has no row with key"), "{error}");
    }
}
