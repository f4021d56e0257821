//! What the papers' figures have in common: windows, tables' sizes, curves, words.

use super::figure::{Axis, Content, Measure, Scope, Series, Setting};
use crate::failure::{Failure, chain};
use crate::report::html::chart::Spacing;
use heddledb::protocol::Kind;
use heddledb_simulator::point::Subject;
use heddledb_workloads::tpcc as real_tpcc;
use heddledb_workloads::tpcc::{self, Scale, Tpcc};
use std::time::Duration;

/// Over numbers of virtual cores.
pub const CORES: Axis = Axis { name: "virtual cores", spacing: Spacing::Logarithmic };

/// Over numbers of threads.
pub const THREADS: Axis = Axis { name: "threads of this machine", spacing: Spacing::Logarithmic };

/// 1, 2, 4, .. threads up to what there is, or 16.
pub fn threads(scope: &Scope) -> Vec<usize> {
    let most = scope.threads.clamp(1, 16);
    std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|count| *count <= most).collect()
}

/// A window: `core_ms` of all cores together, but between two bounds; a fifth of that if it has to be quick.
pub fn window(scope: &Scope, cores: usize, core_ms: u64, least_us: u64, most_us: u64) -> Duration {
    let window = (core_ms * 1000 / cores as u64).clamp(least_us, most_us);
    Duration::from_micros(if scope.quick { window / 5 } else { window })
}

/// A setting that a workload refuses.
pub fn unusable(error: heddledb::Error) -> Failure {
    Failure::run(format!("a setting cannot be used: {}", chain(&error)))
}

/// A curve for each protocol over what `points` gives for it.
pub fn by_kind(
    kinds: &[Kind],
    measure: Measure,
    points: impl Fn(Kind) -> Result<Vec<(f64, Setting)>, Failure>,
) -> Result<Content, Failure> {
    let series = kinds.iter().map(|&kind| {
        let name = kind.name().to_owned();
        Ok(Series { name, measure, points: points(kind)? })
    });
    Ok(Content::Points(series.collect::<Result<_, Failure>>()?))
}

/// The standard rows of a warehouse, or fewer if it has to be quick.
pub fn scale(scope: &Scope) -> Scale {
    if scope.quick { SMALL } else { Scale::FULL }
}

/// Rows of a warehouse where there are many of them.
pub const SMALL: Scale = Scale { customers: 300, items: 10_000, orders: 100 };

/// Rows of a warehouse where there are many of them, for this machine's threads.
pub const REAL_SMALL: real_tpcc::Scale = real_tpcc::Scale { customers: 300, items: 10_000, orders: 100 };

/// TPC-C with these parameters.
pub fn tpcc(parameters: tpcc::Parameters) -> Result<Subject, Failure> {
    Ok(Tpcc::new(parameters).map_err(unusable)?.into())
}

/// Says so where a warehouse is smaller.
pub fn scale_note(scope: &Scope) -> Vec<String> {
    let note = "Quick: a warehouse has 300 customers a district, 10,000 items and 100 orders a district.";
    if scope.quick { vec![note.into()] } else { Vec::new() }
}

/// A ratio in words.
pub fn times(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.2} times") } else { format!("{ratio:.1} times") }
}
