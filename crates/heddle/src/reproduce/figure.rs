//! A paper as data: its figures, the points that they need, and what the paper says of them.
//!
//! A claim is judged by a function of the figure's results. What a paper measured on its machine is compared as
//! ratios, never as absolute numbers, by the same measure everywhere:
//!
//! - an *order* holds if the two differ by more than [`ORDER_MARGIN`] in that direction;
//! - a *ratio* is the paper's if it lies within a factor of [`NEAR`] of it, to either side;
//! - a curve *scales to* the least number at which it has [`PEAK_SHARE`] of its highest value.

use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::report::model::{Measurement, Run};
use crate::report::{microseconds, percent, rate};
use heddledb::Durability;
use heddledb::protocol::{Isolation as RealIsolation, Kind as RealKind};
use heddledb_simulator::engine::protocol::{Isolation, Kind};
use heddledb_simulator::point::Subject;
use heddledb_simulator::timeline;
use heddledb_simulator::workloads::ReadOnly;
use heddledb_workloads::{ReadOnly as RealReadOnly, tpcc, ycsb};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// What differs by less is in no order.
pub const ORDER_MARGIN: f64 = 0.02;
/// A ratio that differs from the paper's by a greater factor is another one.
pub const NEAR: f64 = 1.5;
/// Who has this share of the highest value has reached it.
pub const PEAK_SHARE: f64 = 0.95;

/// A paper.
pub struct Paper {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is called.
    pub title: &'static str,
    /// Who wrote it, when, and what they measured on.
    pub about: &'static str,
    /// What the reader of all figures should know.
    pub notes: &'static [&'static str],
    /// Its figures, in its order.
    pub figures: fn(&Scope) -> Result<Vec<Figure>, Failure>,
}

/// How much of each figure is wanted, and what there is to run it on.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Smaller tables, shorter windows, fewer points.
    pub quick: bool,
    /// Hardware threads of this machine.
    pub threads: usize,
}

/// A figure or table.
pub struct Figure {
    /// Its number: `12a`.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The section that tells of it: `§6.2`.
    pub section: &'static str,
    /// What its points are over.
    pub axis: Axis,
    /// What it consists of.
    pub content: Content,
    /// Where its settings are not the paper's.
    pub notes: Vec<String>,
    /// What the paper says of it.
    pub claims: Vec<Claim>,
}

/// `figure 12a`, `table 1`.
pub fn caption(id: &str) -> String {
    match id.strip_prefix("table") {
        Some(number) => format!("table {number}"),
        None => format!("figure {id}"),
    }
}

/// What points are over.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// In words: `virtual cores`.
    pub name: &'static str,
    /// How its numbers stand.
    pub spacing: Spacing,
}

/// What a figure consists of.
pub enum Content {
    /// Curves over points that are run.
    Points(Vec<Series>),
    /// Throughput over time while transaction types come, by how they are added.
    Timeline(timeline::Load),
    /// What is computed in some other way.
    Facts(fn() -> Result<Facts, Failure>),
}

/// A curve.
pub struct Series {
    /// What it is called: the protocol's name, as a rule.
    pub name: String,
    /// What is drawn of its points.
    pub measure: Measure,
    /// The number on the axis, and what runs there.
    pub points: Vec<(f64, Setting)>,
}

/// A table, a drawing and some numbers that come from no run.
#[derive(Default)]
pub struct Facts {
    /// The heads of the table.
    pub titles: Vec<&'static str>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// HTML, or nothing.
    pub drawing: String,
    /// Numbers for the claims.
    pub values: Vec<(&'static str, f64)>,
}

/// What is run for a point.
#[derive(Clone)]
pub enum Setting {
    /// On virtual cores.
    Virtual(VirtualSetting),
    /// On this machine's threads.
    Real(RealSetting),
}

/// A point on virtual cores.
#[derive(Clone)]
pub struct VirtualSetting {
    /// What runs.
    pub workload: Subject,
    /// Under which protocol.
    pub kind: Kind,
    /// On how many cores.
    pub cores: usize,
    /// How transactions that only read are run.
    pub read_only: ReadOnly,
    /// The isolation level.
    pub isolation: Isolation,
    /// How long it is measured; it warms up for a quarter of that.
    pub window: Duration,
    /// Whether dependencies are counted.
    pub census: bool,
}

/// What runs on this machine's threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RealWorkload {
    /// TPC-C.
    Tpcc(tpcc::Parameters),
    /// YCSB.
    Ycsb(ycsb::Parameters),
}

/// A point on this machine's threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RealSetting {
    /// What runs.
    pub workload: RealWorkload,
    /// Under which protocol.
    pub kind: RealKind,
    /// On how many threads.
    pub threads: usize,
    /// When commits count as done.
    pub durability: Durability,
    /// How transactions that only read are run.
    pub read_only: RealReadOnly,
    /// The isolation level.
    pub isolation: RealIsolation,
}

impl VirtualSetting {
    /// The same for settings that give the same.
    pub fn key(&self) -> String {
        let Self { workload, kind, cores, read_only, isolation, window, census } = self;
        let name = workload.name();
        let parameters = workload.parameters();
        format!("{name} {parameters:?} {kind} {cores} {read_only} {isolation} {window:?} {census}")
    }
}

/// What is drawn of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Committed transactions a second.
    #[default]
    Throughput,
    /// From the start of a transaction to its commit, the median; until it is durable where there is a log. In
    /// microseconds.
    Latency,
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
            Self::Latency => "median latency",
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
            Self::Latency => Some(match &measurement.log {
                Some(log) => log.durable_latency_us.p50,
                None => measurement.latency_us.p50,
            }),
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
            Self::Throughput => rate,
            Self::Latency => microseconds,
            Self::Direct | Self::Transitive => |value| format!("{value:.2}"),
            Self::AbortRate => percent,
            Self::CommitsPerTick => |value| format!("{value:.1}"),
            Self::Cycles(_) => rate,
        }
    }
}

/// What came of a figure.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// The curves.
    pub lines: Vec<Line>,
    /// Numbers that come from no run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, f64>,
}

/// What came of a curve.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Line {
    /// What it is called.
    pub name: String,
    /// What its values are.
    pub measure: Measure,
    /// Its points.
    pub points: Vec<Dot>,
}

/// What came of a point.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Dot {
    /// The number on the axis.
    pub x: f64,
    /// The value; none if the run failed.
    pub value: Option<f64>,
    /// The protocol.
    pub protocol: String,
    /// Workers.
    pub threads: usize,
    /// Whether the cores were virtual.
    pub simulated: bool,
    /// Committed transactions a second.
    pub throughput_tps: f64,
    /// Conflicts as a share of all attempts.
    pub abort_rate: f64,
    /// User aborts as a share of all attempts.
    pub user_abort_rate: f64,
    /// Half of the transactions took less.
    pub p50_us: f64,
    /// One in a hundred took more.
    pub p99_us: f64,
    /// The workload and its parameters.
    pub workload: String,
    /// Why it is worth nothing, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A point that a judge wanted and that is not there: its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub String);

impl Results {
    fn dot(&self, line: &str, x: f64) -> Result<&Dot, Missing> {
        let missing = || Missing(format!("{line} at {x}"));
        let line = self.lines.iter().find(|known| known.name == line).ok_or_else(missing)?;
        line.points.iter().find(|dot| dot.x == x).filter(|dot| dot.value.is_some()).ok_or_else(missing)
    }

    /// The value of a curve at a number.
    pub fn at(&self, line: &str, x: f64) -> Result<f64, Missing> {
        let value = self.dot(line, x)?.value.unwrap_or_default();
        if value > 0.0 { Ok(value) } else { Err(Missing(format!("anything above 0 of {line} at {x}"))) }
    }

    /// The same where nothing is a value too.
    pub fn at_or_zero(&self, line: &str, x: f64) -> Result<f64, Missing> {
        Ok(self.dot(line, x)?.value.unwrap_or_default())
    }

    /// The highest value of several curves at a number.
    pub fn best(&self, lines: &[&str], x: f64) -> Result<f64, Missing> {
        lines.iter().try_fold(0.0, |best: f64, line| Ok(best.max(self.at(line, x)?)))
    }

    /// Conflicts as a share of all attempts.
    pub fn aborts(&self, line: &str, x: f64) -> Result<f64, Missing> {
        Ok(self.dot(line, x)?.abort_rate)
    }

    /// Attempts that did not commit, for whatever reason, as a share of all.
    pub fn all_aborts(&self, line: &str, x: f64) -> Result<f64, Missing> {
        let dot = self.dot(line, x)?;
        Ok(dot.abort_rate + dot.user_abort_rate)
    }

    /// The highest number of the axis.
    pub fn widest(&self) -> Result<f64, Missing> {
        let numbers = self.lines.first().map(|line| line.points.iter().map(|dot| dot.x));
        let highest = numbers.into_iter().flatten().reduce(f64::max);
        highest.ok_or_else(|| Missing("curve".into()))
    }

    /// One value of a curve over another.
    pub fn over(&self, line: &str, x: f64, below: f64) -> Result<f64, Missing> {
        Ok(self.at(line, x)? / self.at(line, below)?)
    }

    /// The least number at which the best of some curves has nearly its highest value.
    pub fn scales_to(&self, lines: &[&str]) -> Result<f64, Missing> {
        let first = lines.first().and_then(|line| self.lines.iter().find(|known| known.name == *line));
        let numbers = first.map(|line| line.points.iter().map(|dot| dot.x)).into_iter().flatten();
        let values: Vec<(f64, f64)> =
            numbers.map(|x| Ok((x, self.best(lines, x)?))).collect::<Result<_, Missing>>()?;
        let highest = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let reached = values.iter().find(|(_, value)| *value >= highest * PEAK_SHARE);
        reached.map(|(x, _)| *x).ok_or_else(|| Missing("every point".into()))
    }

    /// A number that comes from no run.
    pub fn fact(&self, name: &str) -> Result<f64, Missing> {
        self.facts.get(name).copied().ok_or_else(|| Missing(name.to_owned()))
    }
}

/// Whether a ratio is the paper's.
pub fn near(measured: f64, paper: f64) -> bool {
    measured > 0.0 && measured <= paper * NEAR && measured >= paper / NEAR
}

/// Whether one is above the other.
pub fn above(higher: f64, lower: f64) -> bool {
    higher > lower * (1.0 + ORDER_MARGIN)
}

/// What a paper says of a figure.
pub struct Claim {
    /// In words, with the paper's figures.
    pub words: &'static str,
    /// Whether it is so here.
    pub judge: Judge,
    /// Why it is not so, as far as that is known; told only then.
    pub otherwise: &'static str,
}

/// How a claim is judged.
pub enum Judge {
    /// By the results.
    By(fn(&Results) -> Result<Finding, Missing>),
    /// It cannot be, for a reason.
    Unreachable(&'static str),
}

impl Claim {
    /// One that is judged by the results.
    pub fn new(words: &'static str, judge: fn(&Results) -> Result<Finding, Missing>) -> Self {
        Self { words, judge: Judge::By(judge), otherwise: "" }
    }

    /// One that cannot be judged here.
    pub fn unreachable(words: &'static str, reason: &'static str) -> Self {
        Self { words, judge: Judge::Unreachable(reason), otherwise: "" }
    }

    /// Why it is not so here.
    pub fn otherwise(self, reason: &'static str) -> Self {
        Self { otherwise: reason, ..self }
    }

    /// What came of it.
    pub fn judged(&self, results: &Results) -> Judgement {
        let judgement = |verdict, measured: String, reason: &str| Judgement {
            claim: self.words.to_owned(),
            measured,
            verdict,
            reason: reason.to_owned(),
        };
        match self.judge {
            Judge::Unreachable(reason) => judgement(Verdict::Unreachable, String::new(), reason),
            Judge::By(judge) => match judge(results) {
                Ok(Finding { holds: true, measured }) => judgement(Verdict::Reproduced, measured, ""),
                Ok(Finding { measured, .. }) => judgement(Verdict::NotReproduced, measured, self.otherwise),
                Err(Missing(what)) => {
                    let reason = format!("there is no {what}: a run failed, or it was not asked for");
                    judgement(Verdict::NotMeasured, String::new(), &reason)
                }
            },
        }
    }
}

/// What a judge found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it is as the paper says.
    pub holds: bool,
    /// What was measured, in words.
    pub measured: String,
}

impl Finding {
    /// What was found.
    pub fn new(holds: bool, measured: impl Into<String>) -> Self {
        Self { holds, measured: measured.into() }
    }
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// It is so here.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// It is not so here.
    #[serde(rename = "not reproduced")]
    NotReproduced,
    /// It cannot be measured here.
    #[serde(rename = "not reachable here")]
    Unreachable,
    /// A point that it needs is missing.
    #[serde(rename = "not measured")]
    NotMeasured,
}

impl Verdict {
    /// All, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Reproduced, Self::NotReproduced, Self::Unreachable, Self::NotMeasured];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::NotReproduced => "not reproduced",
            Self::Unreachable => "not reachable here",
            Self::NotMeasured => "not measured",
        }
    }
}

/// A claim with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// What the paper says.
    pub claim: String,
    /// What was measured here.
    pub measured: String,
    /// Whether that is so here.
    pub verdict: Verdict,
    /// Why it is not, or cannot be.
    pub reason: String,
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Results with these values, and no aborts.
    pub fn made(lines: &[(&str, &[(f64, f64)])]) -> Results {
        let line = |(name, points): &(&str, &[(f64, f64)])| Line {
            name: (*name).to_owned(),
            measure: Measure::Throughput,
            points: points.iter().map(|&(x, y)| Dot { x, value: Some(y), ..Dot::default() }).collect(),
        };
        Results { lines: lines.iter().map(line).collect(), facts: BTreeMap::new() }
    }

    #[test]
    fn orders_and_ratios_have_margins() {
        assert!(above(103.0, 100.0) && !above(101.0, 100.0) && !above(90.0, 100.0));
        assert!(near(9.0, 9.0) && near(6.1, 9.0) && near(13.4, 9.0));
        assert!(!near(5.9, 9.0) && !near(13.6, 9.0) && !near(f64::NAN, 9.0) && !near(0.0, 9.0));
    }

    #[test]
    fn a_curve_scales_to_where_it_has_nearly_its_highest_value() {
        let results = made(&[
            ("a", &[(1.0, 10.0), (4.0, 96.0), (16.0, 100.0), (64.0, 20.0)]),
            ("b", &[(1.0, 20.0), (4.0, 30.0), (16.0, 120.0), (64.0, 130.0)]),
        ]);
        assert_eq!(results.scales_to(&["a"]), Ok(4.0));
        assert_eq!(results.scales_to(&["a", "b"]), Ok(64.0));
        assert_eq!(results.best(&["a", "b"], 4.0), Ok(96.0));
        assert_eq!(results.over("b", 64.0, 1.0), Ok(6.5));
        assert!(results.at("a", 2.0).is_err() && results.at("c", 1.0).is_err());
        assert!(results.scales_to(&["c"]).is_err());
    }

    #[test]
    fn a_claim_has_one_of_four_verdicts() {
        fn doubles(results: &Results) -> Result<Finding, Missing> {
            let times = results.over("a", 2.0, 1.0)?;
            Ok(Finding::new(times >= 2.0, format!("{times:.1} times")))
        }
        let claim = Claim::new("twice as fast", doubles).otherwise("the memory is slow");
        let judged = |points: &[(f64, f64)]| {
            let Judgement { verdict, measured, reason, .. } = claim.judged(&made(&[("a", points)]));
            (verdict, measured, reason)
        };
        assert_eq!(
            judged(&[(1.0, 5.0), (2.0, 10.0)]),
            (Verdict::Reproduced, "2.0 times".into(), String::new())
        );
        assert_eq!(
            judged(&[(1.0, 5.0), (2.0, 6.0)]),
            (Verdict::NotReproduced, "1.2 times".into(), "the memory is slow".into())
        );
        let (verdict, measured, reason) = judged(&[(1.0, 5.0)]);
        assert_eq!((verdict, measured.as_str()), (Verdict::NotMeasured, ""));
        assert!(reason.contains("a at 2"), "{reason}");
        // A rate of nothing is no base for a ratio.
        assert_eq!(judged(&[(1.0, 0.0), (2.0, 6.0)]).0, Verdict::NotMeasured);
        let never = Claim::unreachable("in the sun", "there is none").judged(&Results::default());
        assert_eq!((never.verdict, never.reason.as_str()), (Verdict::Unreachable, "there is none"));
        for verdict in Verdict::ALL {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
        }
    }
}
