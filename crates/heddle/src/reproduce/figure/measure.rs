//! What is drawn of a point.

use crate::report::model::{Measurement, Run, median};
use crate::report::{microseconds, percent, rate};
use serde::Serialize;

/// The one kind of transactions that a program has which is run to its end.
const WHOLE: &str = "all";

/// What is drawn of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Committed transactions a second.
    #[default]
    Throughput,
    /// Of a program that is run to its end, runs a second; of others, committed transactions a second.
    Speed,
    /// From the start of a transaction to its commit, the median; until it is durable where there is a log.
    /// In microseconds.
    Latency,
    /// The median of a kind of transactions, on virtual cores. In microseconds.
    KindMedian(&'static str),
    /// What one in a hundred of a kind takes longer than, on virtual cores. In microseconds.
    KindTail(&'static str),
    /// Bytes of records, old versions and free blocks.
    Memory,
    /// The same for each of so many rows.
    MemoryEach(u64),
    /// Others that a transaction directly depended on.
    Direct,
    /// Others that it depended on through these.
    Transitive,
    /// The share of attempts that conflicted.
    AbortRate,
    /// Commits for each tick of logical time.
    CommitsPerTick,
    /// Cycles of a transaction that went into this phase of its attempts, as the simulation names it.
    Cycles(&'static str),
}

impl Measure {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "transactions a second",
            Self::Speed => "runs, or transactions, a second",
            Self::Latency => "median latency",
            Self::KindMedian(_) => "median latency of this kind",
            Self::KindTail(_) => "99 % latency of this kind",
            Self::Memory => "bytes of records",
            Self::MemoryEach(_) => "bytes for each row",
            Self::Direct | Self::Transitive => "dependencies of a transaction",
            Self::AbortRate => "share of attempts that conflicted",
            Self::CommitsPerTick => "commits for each tick of logical time",
            Self::Cycles(_) => "cycles of a transaction",
        }
    }

    /// Its value; none if it was not measured.
    pub fn of(self, measurement: &Measurement) -> Option<f64> {
        let dependencies = measurement.simulation.as_ref().and_then(|simulation| simulation.dependencies);
        match self {
            Self::Throughput => Some(measurement.throughput_tps),
            Self::Speed => Some(match measurement.runs.first() {
                Some(run) if run.kinds.contains_key(WHOLE) => {
                    1.0 / median(measurement.runs.iter().map(|run| run.seconds).collect())
                }
                _ => measurement.throughput_tps,
            }),
            Self::Latency => Some(match &measurement.log {
                Some(log) => log.durable_latency_us.p50,
                None => measurement.latency_us.p50,
            }),
            Self::KindMedian(kind) => Some(measurement.runs.first()?.kinds_latency_us.get(kind)?.p50),
            Self::KindTail(kind) => Some(measurement.runs.first()?.kinds_latency_us.get(kind)?.p99),
            Self::Memory => Some(measurement.record_bytes),
            Self::MemoryEach(rows) => Some(measurement.record_bytes / rows as f64),
            Self::Direct => dependencies.map(|dependencies| dependencies.direct),
            Self::Transitive => dependencies.map(|dependencies| dependencies.transitive),
            Self::AbortRate => Some(measurement.abort_rate),
            Self::CommitsPerTick => {
                let sum = |of: fn(&Run) -> u64| measurement.runs.iter().map(of).sum::<u64>() as f64;
                Some(sum(|run| run.committed) / sum(|run| run.ticks).max(1.0))
            }
            Self::Cycles(phase) => measurement.simulation.as_ref()?.phases.get(phase).copied(),
        }
    }

    /// A value in words.
    pub fn shown(self) -> fn(f64) -> String {
        match self {
            Self::Throughput | Self::Speed | Self::Memory | Self::Cycles(_) => rate,
            Self::Latency | Self::KindMedian(_) | Self::KindTail(_) => microseconds,
            Self::Direct | Self::Transitive => |value| format!("{value:.2}"),
            Self::AbortRate => percent,
            Self::CommitsPerTick | Self::MemoryEach(_) => |value| format!("{value:.1}"),
        }
    }
}
