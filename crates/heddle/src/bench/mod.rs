//! `heddle bench`: a workload under several protocols and numbers of threads.

pub mod arguments;
pub mod runner;

use crate::failure::Failure;
use crate::machine;
use crate::progress::Progress;
use crate::report::model::{Measurement, Report};
use crate::report::{html, rate, table};
use crate::terminal_with_colours;
use arguments::{BenchArguments, Configuration, Outputs, Plan, WorkloadArguments};
use heddledb::protocol::Kind;
use heddledb_workloads::Workload;
use runner::Job;
use std::io::Write;
use std::path::Path;

/// Runs the command. True if every check held.
pub fn bench(arguments: &BenchArguments, command: String) -> Result<bool, Failure> {
    match &arguments.workload {
        _ if arguments.list => {
            print!("{}", list());
            Ok(true)
        }
        None => Err(Failure::usage("name a workload, tpcc or ycsb, or give --list to see what there is")),
        Some(WorkloadArguments::Tpcc(tpcc)) => {
            let workload = tpcc.workload()?;
            run(&workload, &tpcc.common.plan()?, command)
        }
        Some(WorkloadArguments::Ycsb(ycsb)) => {
            let workload = ycsb.workload()?;
            run(&workload, &ycsb.common.plan()?, command)
        }
    }
}

/// Every workload and every protocol, a line each.
fn list() -> String {
    let mut text = String::from("workloads\n");
    for (name, about) in arguments::WORKLOADS {
        text += &format!("  {name:<15}{about}\n");
    }
    text += "\nprotocols\n";
    for kind in Kind::ALL {
        text += &format!("  {:<15}{}\n", kind.name(), kind.about());
    }
    text
}

fn run<W: Workload>(workload: &W, plan: &Plan, command: String) -> Result<bool, Failure> {
    plan.outputs.probe()?;
    let report = measure(workload, plan, command);
    publish(&report, &plan.outputs)?;
    Ok(!report.failed())
}

/// Makes all runs. They go round: the first of every configuration, then the second, so that a
/// machine that gets slower does so for all alike.
pub fn measure<W: Workload>(workload: &W, plan: &Plan, command: String) -> Report {
    let progress = Progress::new(plan.runs * plan.configurations().count());
    let mut measurements: Vec<Measurement> =
        plan.configurations().map(|configuration| empty(workload, plan, configuration)).collect();
    for run in 1..=plan.runs {
        for (configuration, measurement) in plan.configurations().zip(&mut measurements) {
            let title = table::name(measurement);
            let job = Job {
                workload,
                settings: &plan.settings,
                threads: configuration.threads,
                run,
                title: &title,
                progress: &progress,
            };
            let result = configuration.kind.visit(job);
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
    report
}

/// A measurement without runs.
fn empty<W: Workload>(workload: &W, plan: &Plan, configuration: Configuration) -> Measurement {
    let settings = &plan.settings;
    let pairs = [
        ("seconds", settings.seconds.as_secs_f64()),
        ("warmup", settings.warmup.as_secs_f64()),
        ("pool", settings.pool as f64),
    ];
    Measurement {
        workload: workload.name().to_owned(),
        protocol: configuration.kind.name().to_owned(),
        threads: configuration.threads,
        seed: settings.seed,
        settings: pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        parameters: workload.parameters().into_iter().collect(),
        ..Measurement::default()
    }
}

/// Prints the table and writes the files.
fn publish(report: &Report, outputs: &Outputs) -> Result<(), Failure> {
    if outputs.json_to_stdout() {
        eprint!("{}", table::render(report, terminal_with_colours(&std::io::stderr())));
    } else {
        let text = table::render(report, terminal_with_colours(&std::io::stdout()));
        // A reader that went away, such as `head`, is no failure of the benchmark.
        let _ = std::io::stdout().write_all(text.as_bytes());
    }
    if let Some(path) = &outputs.json {
        let mut text = serde_json::to_string_pretty(report)
            .map_err(|error| Failure::run(format!("the report cannot be written as JSON: {error}")))?;
        text.push('\n');
        if outputs.json_to_stdout() {
            let _ = std::io::stdout().write_all(text.as_bytes());
        } else {
            write(path, &text)?;
        }
    }
    if let Some(path) = &outputs.html {
        write(path, &html::page(report))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::run(format!("{} cannot be written: {error}", path.display())))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}
