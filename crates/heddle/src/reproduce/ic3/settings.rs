//! What IC3's figures have in common: numbers of cores, workloads, windows, and how results are worded.

use crate::failure::Failure;
use crate::report::percent;
use crate::reproduce::figure::{Content, Measure, Missing, Results, Scope, Setting, VirtualSetting};
use crate::reproduce::settings::{by_kind, scale, tpcc, unusable, window};
use heddledb::protocol::Kind;
use heddledb_simulator::point::Subject;
use heddledb_workloads::ReadOnly;
use heddledb_workloads::micro::{self, Micro};
use heddledb_workloads::tpcc;
use std::time::Duration;

/// The most cores.
pub const MOST: f64 = 64.0;
/// What 2PL is here.
pub const LOCKING: [&str; 2] = ["wait-die", "no-wait"];
/// What deterministic execution with lazy evaluation is here.
pub const LAZY: &str = "deterministic-lazy";
/// What the paper compares in most figures.
pub const CONTENDERS: [Kind; 4] = [Kind::Ic3, Kind::WaitDie, Kind::NoWait, Kind::Silo];

// Settings

/// The numbers of cores of a curve.
pub fn cores(scope: &Scope) -> &'static [usize] {
    if scope.quick { &[1, 4, 8, 16, 32, 64] } else { &[1, 2, 4, 8, 16, 32, 64] }
}

/// A point on virtual cores, with read-only transactions on snapshots.
pub fn point(workload: &Subject, kind: Kind, cores: usize, window: Duration) -> Setting {
    let among_writers = VirtualSetting::new(workload, kind, cores, window);
    Setting::Virtual(VirtualSetting { read_only: ReadOnly::Snapshot, ..among_writers })
}

/// A curve for each protocol over numbers of cores.
pub fn by_cores(
    kinds: &[Kind],
    counts: &[usize],
    workload: &Subject,
    window: impl Fn(usize) -> Duration,
) -> Result<Content, Failure> {
    let at = |kind, cores: usize| (cores as f64, point(workload, kind, cores, window(cores)));
    by_kind(kinds, Measure::Throughput, |kind| Ok(counts.iter().map(|&cores| at(kind, cores)).collect()))
}

/// Rows of a table of the microbenchmark; the paper has a million.
pub fn rows(scope: &Scope) -> u64 {
    if scope.quick { FEW_ROWS } else { 100_000 }
}

/// Where there are many tables, or it has to be quick.
pub const FEW_ROWS: u64 = 20_000;

/// The microbenchmark with this scope and share of user aborts.
pub fn micro(scope: &Scope, choice: u64, user_abort_pct: u32) -> Result<Subject, Failure> {
    micro_of(micro::Parameters { rows: rows(scope), scope: choice, user_abort_pct, ..Default::default() })
}

/// The microbenchmark with these parameters; the scope is cut to the number of rows.
pub fn micro_of(parameters: micro::Parameters) -> Result<Subject, Failure> {
    let scope = parameters.scope.min(parameters.rows);
    Ok(Micro::new(micro::Parameters { scope, ..parameters }).map_err(unusable)?.into())
}

/// How long the microbenchmark is measured on so many cores.
pub fn micro_window(scope: &Scope, cores: usize) -> Duration {
    window(scope, cores, 40, 1_000, 8_000)
}

/// The largest scope: no contention.
pub const ALL_ROWS: u64 = u64::MAX;

/// Says how many rows a table has.
pub fn micro_note(rows: u64) -> String {
    format!(
        "Tables have {rows} rows instead of a million; that is also the largest scope, which the paper calls 1M."
    )
}

/// One warehouse for all.
pub fn one_warehouse(scope: &Scope) -> Result<Subject, Failure> {
    tpcc(tpcc::Parameters { scale: scale(scope), ..Default::default() })
}

/// How long TPC-C is measured on so many cores.
pub fn tpcc_window(scope: &Scope, cores: usize) -> Duration {
    window(scope, cores, 96, 4_000, 12_000)
}

// Words

/// What is lost where a share is kept.
pub fn lost(kept: f64) -> String {
    match 1.0 - kept {
        loss if loss >= 0.0 => format!("loses {}", percent(loss)),
        loss => format!("gains {}", percent(-loss)),
    }
}

/// The rate of 2PL at a number of the axis: the better of the two.
pub fn locking(results: &Results, x: f64) -> Result<f64, Missing> {
    results.best(&LOCKING, x)
}

/// A rate of 2PL over another.
pub fn locking_over(results: &Results, x: f64, below: f64) -> Result<f64, Missing> {
    Ok(locking(results, x)? / locking(results, below)?)
}

// Reasons

/// Why contention bites sooner.
pub const SHORT: &str = "a transaction takes 6 µs here, and 52 µs on a core of the paper's: so handing a row's cache line from core to \
                     core weighs more, and one warehouse is saturated sooner";
/// Why contention bites sooner in the microbenchmark.
pub const SHORT_MICRO: &str = "a transaction takes 8 µs here, and 380 µs in the paper: so handing a row's cache line from core to core \
                           weighs more";
/// Why OCC does better.
pub const NO_COLLAPSE: &str = "this silo does not collapse: it keeps columns that are often written apart from the others, locks at the \
                           commit only, and pauses after conflicts";
