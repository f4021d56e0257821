//! A run of an application: a fresh database, loaded, and the program run to its end by all threads, then checked.
//!
//! The clock runs from the moment at which all threads are ready to the last one's end. Transactions are counted by their
//! sessions; which transaction took how long is not known.

use super::arguments::{Configuration, Plan};
use super::settings::Driver;
use crate::failure::{Failure, chain};
use crate::machine;
use crate::progress::Progress;
use crate::report::model::{CheckResult, Measurement, Outcomes, RegionFigures, Report, Run};
use heddledb::{Conflict, Database, Durability, Error, Misuse, Stats};
use heddledb_workloads::stamp::{Application, Place};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Refuses what an application cannot be run with.
pub fn check(plan: &Plan) -> Result<(), Failure> {
    let refusal = if plan.configurations().any(|configuration| configuration.durability != Durability::None) {
        "an application is run without a log: leave out --durability"
    } else if plan.settings.crew > 1 {
        "the threads of an application wait for one another, so each has one session: leave out --crew"
    } else if plan.settings.driver != Driver::Closed {
        "an application runs transactions that are no calls of procedures, and only calls can be submitted: leave out --queue and --rate"
    } else {
        return Ok(());
    };
    Err(Failure::usage(refusal))
}

/// Makes all runs.
pub fn measure<A: Application>(application: &A, plan: &Plan, command: String) -> Report {
    let empty = |configuration: Configuration| Measurement {
        workload: application.name().to_owned(),
        protocol: configuration.kind.name().to_owned(),
        durability: "none".to_owned(),
        threads: configuration.threads,
        seed: plan.settings.seed,
        parameters: application
            .parameters()
            .into_iter()
            .chain([("isolation".to_owned(), plan.settings.isolation.to_string())])
            .collect(),
        ..Measurement::default()
    };
    let start = |configuration: Configuration, number: usize, title: &str, progress: &Progress| {
        complete(application, plan, configuration, number, title, progress)
            .unwrap_or_else(|error| Run::broken(number, chain(&error)))
    };
    super::measure_all(plan, command, empty, start)
}

/// What a worker did.
struct Tally {
    begin: Instant,
    end: Instant,
    on_core: Duration,
    in_system: Duration,
    stats: Stats,
}

/// Makes one run.
fn complete<A: Application>(
    application: &A,
    plan: &Plan,
    configuration: Configuration,
    number: usize,
    title: &str,
    progress: &Progress,
) -> Result<Run, Error> {
    let settings = &plan.settings;
    let Configuration { kind, threads, .. } = configuration;
    let builder = Database::builder().protocol(kind).sessions(threads).isolation(settings.isolation);
    let db = application.tables(builder).open()?;
    let loading = Instant::now();
    let bar = progress.phase(&format!("{title}: loading"));
    let state = application.load(&db, settings.seed)?;
    drop(bar);
    let load_seconds = loading.elapsed().as_secs_f64();

    let bar = progress.phase(&format!("{title}: running"));
    let pinned = threads <= settings.cores.len();
    let barrier = &Barrier::new(threads);
    let worker = |worker: usize| -> Result<Tally, Error> {
        if pinned {
            machine::pin(settings.cores[worker]);
        }
        let mut session = db.session()?;
        let meet = || {
            barrier.wait();
        };
        let place = Place { worker, workers: threads, meet: &meet, compute: &|_| {} };
        meet();
        let (begin, on_core, in_system) =
            (Instant::now(), machine::thread_time(), machine::thread_time_in_system());
        let before = session.stats();
        application.work(&place, &mut session, &state)?;
        Ok(Tally {
            begin,
            end: Instant::now(),
            on_core: machine::thread_time().saturating_sub(on_core),
            in_system: machine::thread_time_in_system().saturating_sub(in_system),
            stats: session.stats() - before,
        })
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|number| scope.spawn(move || worker(number))).collect();
        workers.into_iter().map(|worker| worker.join()).collect()
    });
    let panicked = |_| Err(Misuse::System("a worker panicked".to_owned()).into());
    let tallies: Vec<Tally> =
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(panicked)).collect::<Result<_, _>>()?;
    drop(bar);

    let begin = tallies.iter().map(|tally| tally.begin).min();
    let end = tallies.iter().map(|tally| tally.end).max();
    let seconds = begin.zip(end).map_or(0.0, |(begin, end)| end.duration_since(begin).as_secs_f64());
    let metrics = db.metrics();
    let mut run = Run {
        run: number,
        load_seconds,
        seconds,
        committed: tallies.iter().map(|tally| tally.stats.commits).sum::<u64>() + application.beside(&state),
        record_bytes: metrics.record_bytes as u64,
        version_bytes: metrics.version_bytes as u64,
        regions: metrics.regions.map(RegionFigures::of),
        ..Run::default()
    };
    run.kinds.insert("all".to_owned(), Outcomes { committed: run.committed, user_aborts: 0 });
    for (at, conflict) in Conflict::ALL.into_iter().enumerate() {
        let count = tallies.iter().map(|tally| tally.stats.conflicts[at]).sum();
        run.conflicts.insert(conflict.name().to_owned(), count);
    }
    let conflicts: u64 = run.conflicts.values().sum();
    run.throughput_tps = if seconds > 0.0 { run.committed as f64 / seconds } else { 0.0 };
    run.abort_rate = conflicts as f64 / run.attempts().max(1) as f64;
    let windows: Duration = tallies.iter().map(|tally| tally.end - tally.begin).sum();
    let on_core: Duration = tallies.iter().map(|tally| tally.on_core).sum();
    let in_system: Duration = tallies.iter().map(|tally| tally.in_system).sum();
    run.system_share = (in_system.as_secs_f64() / on_core.as_secs_f64().max(1e-9)).min(1.0);
    run.core_share = (on_core.as_secs_f64() / windows.as_secs_f64().max(1e-9)).min(1.0);
    let _bar = progress.phase(&format!("{title}: checking"));
    for check in application.check(&db, &state)? {
        run.checks.push(CheckResult { name: check.name, ok: check.ok, detail: check.detail });
    }
    Ok(run)
}
