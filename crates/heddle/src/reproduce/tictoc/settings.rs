//! What TicToc's figures have in common: numbers of cores, workloads, windows, and judges that several
//! figures use.

use crate::failure::Failure;
use crate::report::{percent, rate};
use crate::reproduce::figure::{
    Claim, Content, Finding, Measure, Missing, Results, Scope, Setting, VirtualSetting, above, near,
};
use crate::reproduce::settings::{SMALL, by_kind, times, tpcc, unusable, window};
use heddledb::protocol::{Isolation, Kind};
use heddledb_simulator::point::Subject;
use heddledb_workloads::tpcc::{Binding, Mix, Mode, Parameters};
use heddledb_workloads::ycsb::{self, Ycsb};
use std::time::Duration;

/// The most cores.
pub const MOST: f64 = 80.0;
/// All of those that the paper compares.
pub const RIVALS: [Kind; 5] = [Kind::TicToc, Kind::Silo, Kind::Hekaton, Kind::NoWait, Kind::DlDetect];
/// TicToc with one optimisation after the other, and Silo.
pub const STAGES: [Kind; 5] =
    [Kind::Silo, Kind::TicTocSorted, Kind::TicTocNoWait, Kind::TicToc, Kind::TicTocHistory];

// Settings

/// The numbers of cores of a curve.
pub fn cores(scope: &Scope) -> &'static [usize] {
    if scope.quick { &[1, 16, 40, 80] } else { &[1, 4, 8, 16, 24, 32, 40, 64, 80] }
}

/// How long a point is measured on so many cores.
pub fn length(scope: &Scope, cores: usize) -> Duration {
    window(scope, cores, 64, 1_000, 8_000)
}

/// A point on virtual cores, with read-only transactions among the writers.
pub fn point(
    workload: &Subject,
    kind: Kind,
    cores: usize,
    isolation: Isolation,
    window: Duration,
) -> Setting {
    Setting::Virtual(VirtualSetting { isolation, ..VirtualSetting::new(workload, kind, cores, window) })
}

/// A curve for each protocol over numbers of cores.
pub fn by_cores(
    scope: &Scope,
    kinds: &[Kind],
    measure: Measure,
    workload: &Subject,
) -> Result<Content, Failure> {
    by_kind(kinds, measure, |kind| {
        let at = |&cores: &usize| {
            let setting = point(workload, kind, cores, Isolation::Serializable, length(scope, cores));
            (cores as f64, setting)
        };
        Ok(cores(scope).iter().map(at).collect())
    })
}

/// New-Order and Payment in equal shares, as DBx1000 has them.
pub fn orders(warehouses: u16) -> Result<Subject, Failure> {
    tpcc(Parameters {
        warehouses,
        mix: Mix::NP,
        mode: Mode::Dbx1000,
        binding: Binding::Random,
        scale: SMALL,
        commutative: false,
        ..Default::default()
    })
}

/// Says what [`orders`] leaves out.
pub const ORDERS_NOTE: &str = "New-Order and Payment without inserts, as in DBx1000; a warehouse has 300 customers a district and \
                           10,000 items; warehouses are drawn for each transaction; Payment reads and writes the sums it adds to.";

/// YCSB with a preset of the paper's.
pub fn keys(scope: &Scope, preset: &str) -> Result<Subject, Failure> {
    let records = if scope.quick { 20_000 } else { 100_000 };
    let preset = ycsb::Parameters::preset(preset).unwrap_or_default();
    let parameters = ycsb::Parameters { records, field_bytes: 10, ..preset };
    Ok(Ycsb::new(parameters).map_err(unusable)?.into())
}

/// Says how many rows [`keys`] has.
pub fn keys_note(scope: &Scope) -> Vec<String> {
    let records = if scope.quick { "20,000" } else { "100,000" };
    vec![format!(
        "{records} rows with columns of 10 bytes instead of ten million of 100: the frequent keys are drawn more often."
    )]
}

// Places on axes

/// YCSB with medium contention, on the axis of the figures on logical time.
pub const MEDIUM: f64 = 1.0;
/// YCSB with high contention, on the same axis.
pub const HIGH: f64 = 2.0;

/// Serializable, on the axis of isolation levels.
pub const SERIALIZABLE: f64 = 1.0;
/// Snapshot isolation, on the same axis.
pub const SNAPSHOT: f64 = 2.0;
/// Repeatable read, on the same axis.
pub const REPEATABLE: f64 = 3.0;

// Judges

/// The throughput of each rival at a number.
pub fn rates(results: &Results, x: f64) -> Result<[f64; RIVALS.len()], Missing> {
    let mut rates = [0.0; RIVALS.len()];
    for (rate, kind) in rates.iter_mut().zip(RIVALS) {
        *rate = results.at(kind.name(), x)?;
    }
    Ok(rates)
}

/// The throughput of each rival, in words.
pub fn listed(rates: [f64; RIVALS.len()]) -> String {
    let list = RIVALS.iter().zip(rates).map(|(kind, value)| format!("{kind} {}", rate(value)));
    list.collect::<Vec<_>>().join(", ")
}

/// Whether one aborts less often than another, in about this ratio.
pub fn fewer_aborts(
    results: &Results,
    one: &str,
    other: &str,
    x: f64,
    ratio: f64,
) -> Result<Finding, Missing> {
    let (fewer, more) = (results.at_or_zero(one, x)?, results.at_or_zero(other, x)?);
    let holds = above(more, fewer) && near(fewer / more, ratio);
    Ok(Finding::new(holds, format!("{one} {}, {other} {}", percent(fewer), percent(more))))
}

/// Whether those without locks are ahead.
pub fn optimists_lead(results: &Results, x: f64) -> Result<Finding, Missing> {
    let optimistic = results.at("tictoc", x)?.min(results.at("silo", x)?);
    let locking = results.best(&["no-wait", "dl-detect"], x)?;
    Ok(Finding::new(above(optimistic, locking), times(optimistic / locking)))
}

/// What there is to say of §5.3.
pub fn history() -> Claim {
    Claim::new("Timestamp history gives nothing that can be measured.", |results| {
        let x = results.widest()?;
        let ratio = results.at("tictoc-history", x)? / results.at("tictoc", x)?;
        Ok(Finding::new(ratio <= 1.03, times(ratio)))
    })
}

/// What there is to say of TS_ALLOC's growth.
pub fn one_counter() -> Claim {
    Claim::new("With one counter for all, logical time grows as fast as commits.", |results| {
        let (medium, high) = (results.at("ts-alloc", MEDIUM)?, results.at("ts-alloc", HIGH)?);
        let holds = [medium, high].into_iter().all(|ratio| (0.5..=1.1).contains(&ratio));
        Ok(Finding::new(holds, format!("{medium:.2} and {high:.2} commits a tick")))
    })
}
