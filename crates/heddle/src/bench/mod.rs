//! `heddle bench`: a workload under several protocols and numbers of threads.

pub mod arguments;
mod arrivals;
mod client;
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
use crate::report::model::{self, Measurement, Report, Run};
use crate::report::outputs::{self, Outputs};
use crate::report::{html, rate, table};
use crate::terminal::{aligned, columns, widest};
use arguments::{BenchArguments, Benchmark, Configuration, Plan, WorkloadArguments};
use arrivals::Arrivals;
use heddledb::LogKind;
use heddledb::protocol::Kind;
use heddledb_workloads::Workload;
use heddledb_workloads::arguments::ApplicationArguments;
use runner::Job;
use settings::{Driver, Submission};
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
    if plan.settings.driver != Driver::Closed && !workload.is_submittable() {
        return Err(Failure::usage(format!(
            "{} runs transactions that are no calls of procedures, as these arguments have it, and only calls can be submitted: leave \
             out --queue and --rate",
            workload.name()
        )));
    }
    if plan.settings.log.kind == LogKind::Commands && !workload.is_loggable() {
        return Err(Failure::usage(format!(
            "{} runs transactions that are no calls which could be made again, as these arguments have it, so a log says what they wrote: \
             leave out --log commands",
            workload.name()
        )));
    }
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
    report.note_backlogs(table::name);
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
    let driver = told(&settings.driver, configuration.threads);
    Measurement {
        latency_from: driver.latency_from().to_owned(),
        driver: Some(driver),
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

/// A driver as reports tell it, where so many threads execute.
fn told(driver: &Driver, threads: usize) -> model::Driver {
    let clients = driver.clients(threads);
    match driver.submission() {
        None => model::Driver::Closed,
        Some(&Submission { queue, arrivals: None, .. }) => model::Driver::Window { clients, queue },
        Some(&Submission { queue, arrivals: Some(Arrivals { rate, spacing }), .. }) => {
            model::Driver::Open { clients, queue, rate, arrivals: spacing.to_string() }
        }
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
    use std::time::Duration;

    /// The report of a short benchmark of counters, with arguments as on the command line.
    fn report(toy: Toy, arguments: &str) -> Report {
        let mut line = format!("heddle bench tpcc {arguments}");
        for (flag, short) in [("--seconds", " 0.1"), ("--warmup", " 0.02")] {
            if !line.contains(flag) {
                line += &format!(" {flag}{short}");
            }
        }
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
        let report = report(Toy::three(), "--protocol all --threads 1,2 --runs 2 --pool 100");
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
        let with = report(Toy::three(), "--protocol silo --runs 1 --pool 0");
        assert_eq!((with.results.len(), with.baseline.is_some()), (1, true));
        assert!(with.results[0].ratio_to_unprotected.is_some());
        let without = report(Toy::three(), "--protocol silo --runs 1 --no-baseline");
        assert!(without.baseline.is_none() && without.results[0].ratio_to_unprotected.is_none());
    }

    #[test]
    fn a_check_that_fails_fails_the_report() {
        let toy = Toy { error: 1, ..Toy::three() };
        let report = report(toy, "--protocol silo --runs 1 --no-baseline");
        assert!(report.failed());
        assert!(table::render(&report, false).contains("FAILED silo, 1 thread: no count is lost"));
    }

    #[test]
    fn a_workers_error_is_the_runs_error() {
        let toy = Toy { missing: 1, ..Toy::three() };
        let report = report(toy, "--protocol silo,no-wait --threads 2 --runs 1 --no-baseline");
        assert!(report.failed());
        let error = report.results[0].runs[0].error.as_ref().unwrap();
        assert!(error.contains("has no row with key"), "{error}");
    }

    /// One run, of few inputs.
    const SHORT: &str = "--runs 1 --pool 100";

    /// Every protocol but the one with one session executes what two clients submit, and counts right.
    #[test]
    fn submitted_calls_are_counted_under_every_protocol() {
        let report = report(Toy::three(), &format!("--protocol all --threads 2 --queue 8 {SHORT}"));
        assert!(!report.failed(), "{}", table::render(&report, false));
        assert_eq!(report.results.len(), Kind::ALL.len() - 1);
        assert!(
            report.baseline.is_none() && report.notes.iter().any(|note| note.starts_with("unprotected on 2"))
        );
        for result in &report.results {
            assert_eq!(result.driver, Some(model::Driver::Window { clients: 2, queue: 8 }));
            assert_eq!((result.threads, result.latency_from.as_str()), (2, "submission"));
            assert!(result.throughput_tps > 0.0 && result.latency_us.p50 > 0.0, "{result:?}");
            assert!((0.02..0.3).contains(&result.user_abort_rate), "{result:?}");
            assert!(result.checks.iter().any(|check| check.name == "no count is lost"));
            assert!(result.checks.iter().any(|check| check.name.starts_with("the database counted")));
            let calls = result.calls.unwrap();
            assert!(calls.open.is_none());
            let gathers = result.protocol.starts_with("dgcc");
            assert_eq!(calls.batches.is_some_and(|batches| batches.calls >= 1.0), gathers, "{result:?}");
            if let Some(batches) = calls.batches {
                assert!((1.0..=batches.calls).contains(&batches.depth), "{batches:?}");
                assert!(batches.waited < 1.0 && batches.waited <= batches.edges_per_call, "{batches:?}");
                assert!(batches.telling_us > 0.0 && batches.linking_us > 0.0, "{batches:?}");
                assert!(batches.executing_us > 0.0, "{batches:?}");
            }
        }
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        let (text, page) = (table::render(&report, false), html::page(&report));
        for told in [
            "executors",
            "clients",
            "calls/batch",
            "waited",
            "depth",
            "each client keeps 8 submitted calls in flight",
            "from the submission",
        ] {
            assert!(text.contains(told), "{told} is missing in\n{text}");
            assert!(page.to_lowercase().contains(told), "{told} is missing");
        }
    }

    /// A window of one is latency without a queue; a longer one has the queue in it.
    #[test]
    fn latency_has_the_window_in_it() {
        let mean = |queue: usize| {
            let arguments = format!("--protocol silo --clients 1 --queue {queue} {SHORT} --seconds 0.3");
            let report = report(Toy::three(), &arguments);
            assert!(!report.failed(), "{}", table::render(&report, false));
            let result = &report.results[0];
            // Little's law: what is in flight is what ends in a second times how long each is in flight.
            let ended = &result.runs[0];
            let rate = (ended.committed + ended.user_aborts) as f64 / ended.seconds;
            rate * result.latency_us.mean / 1e6
        };
        let (one, many) = (mean(1), mean(64));
        assert!(one < 1.1, "{one} in flight of 1");
        assert!((10.0..66.0).contains(&many), "{many} in flight of 64");
    }

    #[test]
    fn submitted_calls_are_made_durable() {
        let arguments = "--protocol silo,dgcc --threads 2 --queue 16 --durability epoch,sync --runs 1";
        let report = report(Toy::three(), arguments);
        assert!(!report.failed(), "{}", table::render(&report, false));
        assert_eq!(report.results.len(), 4);
        for result in &report.results {
            assert!(result.throughput_tps > 0.0 && result.log.unwrap().bytes_per_transaction > 0.0);
        }
    }

    /// One executor, and 500 calls a second, of which one stalls it for 200 ms: those that arrive meanwhile wait, and their latencies
    /// say so, though the client cannot submit most of them while the executor is not done.
    #[test]
    fn a_stall_is_in_the_latency_of_all_that_arrive_meanwhile() {
        let stalled = |driver: &str| {
            let toy = Toy { stall: (100, Duration::from_millis(200)), ..Toy::three() };
            let arguments = format!("--protocol silo --seconds 1 --warmup 0 {SHORT} {driver}");
            let report = report(toy, &arguments);
            assert!(!report.failed(), "{}", table::render(&report, false));
            report.results[0].clone()
        };
        for driver in
            ["--rate 500 --arrivals fixed", "--rate 500 --queue 4", "--rate 500 --queue 1 --clients 2"]
        {
            let result = stalled(driver);
            let open = result.calls.unwrap().open.unwrap();
            assert!(open.keeps_up(), "{driver}: {open:?}");
            assert!((350.0..650.0).contains(&open.arrived_per_second), "{driver}: {open:?}");
            // A fifth of the calls came meanwhile, and waited for 100 ms in the mean.
            assert!(result.latency_us.p95 > 50e3 && result.latency_us.mean > 5e3, "{driver}: {result:?}");
            assert!(result.latency_us.max > 190e3, "{driver}: {result:?}");
            assert_eq!(result.latency_from, "intended arrival");
        }
        // A window of one omits them: one call of all has waited.
        let result = stalled("--queue 1");
        assert!(result.latency_us.p99 < 50e3 && result.latency_us.max > 190e3, "{result:?}");
    }

    /// An executor that needs a millisecond for each call executes less than a thousand a second, and the report says so.
    #[test]
    fn a_rate_that_is_too_high_is_told() {
        let toy = Toy { each: Duration::from_millis(1), ..Toy::three() };
        let report = report(toy, &format!("--protocol silo,dgcc --rate 4000 {SHORT} --seconds 0.3"));
        assert!(!report.failed(), "no check fails: {}", table::render(&report, false));
        for result in &report.results {
            let open = result.calls.unwrap().open.unwrap();
            assert!(!open.keeps_up() && open.ended_per_second < 1_100.0, "{open:?}");
            assert!((2_500.0..5_500.0).contains(&open.arrived_per_second), "{open:?}");
        }
        let (text, page) = (table::render(&report, false), html::page(&report));
        assert!(text.contains("silo, 1 executor does not keep up with 4.00 k calls a second"), "{text}");
        assert!(text.contains("NO") && text.contains("asked/s"), "{text}");
        assert!(page.contains("On 1 executor nothing keeps up with 4.00 k calls a second."), "{page}");
    }

    #[test]
    fn a_failed_call_is_the_runs_error() {
        for driver in ["--queue 8", "--rate 10000"] {
            let toy = Toy { missing: 1, ..Toy::three() };
            let report = report(toy, &format!("--protocol silo,dgcc --threads 2 {driver} {SHORT}"));
            for result in &report.results {
                let error = result.runs[0].error.as_ref().expect("it fails");
                assert!(error.contains("has no row with key"), "{error}");
            }
        }
    }

    #[test]
    fn what_is_no_call_is_not_submitted() {
        let line = "heddle bench tpcc --queue 8";
        let Cli { command: crate::Command::Bench(bench), .. } = Cli::try_parse_from(line.split(' ')).unwrap()
        else {
            panic!("not a benchmark")
        };
        let Some(WorkloadArguments::Tpcc(tpcc)) = bench.workload else { panic!("not tpcc") };
        let toy = Toy { closures: true, ..Toy::three() };
        let refusal = run(toy, &tpcc.common.plan().unwrap(), line.to_owned()).unwrap_err();
        assert!(format!("{refusal:?}").contains("only calls can be submitted"), "{refusal:?}");
    }
}
