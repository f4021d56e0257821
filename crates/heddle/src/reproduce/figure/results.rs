//! What came of a figure: its curves and numbers, and how a judge asks for them.

use super::measure::Measure;
use crate::report::model::RegionFigures;
use serde::Serialize;
use std::collections::BTreeMap;

/// A value with this share of the highest has reached it.
pub const PEAK_SHARE: f64 = 0.95;

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
    /// How hardware regions ended, where the protocol has any; warm-up included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regions: Option<RegionFigures>,
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

    /// The value of a curve at a number, where zero is a value too.
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

    /// How hardware regions ended.
    pub fn regions(&self, line: &str, x: f64) -> Result<&RegionFigures, Missing> {
        let missing = || Missing(format!("region of {line} at {x}"));
        self.dot(line, x)?.regions.as_ref().filter(|regions| regions.begun() > 0).ok_or_else(missing)
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
}
