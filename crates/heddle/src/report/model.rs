//! The shape of the JSON file, and the medians that stand in it.
//!
//! Every figure of a [`Measurement`] is the median over its runs, taken figure by figure; the runs
//! themselves follow it. Maps are ordered, so that two files can be compared line by line.
//!
//! | room | what |
//! |---|---|
//! | here | the whole report |
//! | `measurement` | one configuration: medians over its runs |
//! | `run` | one run, its latencies, log and checks |
//! | `regions` | what became of hardware regions in a run |
//! | `driver` | what began the transactions, and what came of submitted calls |
//! | `simulation` | what a point on virtual cores cost |
//! | `machine` | what it was measured on |

mod driver;
mod machine;
mod measurement;
mod regions;
mod run;
mod simulation;
#[cfg(test)]
pub mod tests;

pub use driver::{BatchFigures, CallFigures, Driver, OpenFigures};
pub use machine::Machine;
pub use measurement::{Measurement, median};
pub use regions::RegionFigures;
pub use run::{CheckCount, CheckResult, Latency, LogFigures, Outcomes, Run};
pub use simulation::{DependencyFigures, Simulation};

use super::{percent, rate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All that one `heddle bench` found: the top level of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The command that gives such a report, without the names of output files.
    pub command: String,
    /// What it was measured on.
    pub machine: Machine,
    /// One entry for each protocol and number of threads that was asked for.
    pub results: Vec<Measurement>,
    /// `unprotected` on one thread, the measure of all ratios, unless it was not wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Measurement>,
    /// What the reader should know: configurations passed over, threads that were not pinned.
    pub notes: Vec<String>,
}

impl Report {
    /// True if any check of any run failed, the baseline's included.
    pub fn failed(&self) -> bool {
        self.check_count().failed > 0
    }

    /// How many checks were made after all runs, the baseline's included, and how many failed. What a report
    /// says of their number, in any form, is this.
    pub fn check_count(&self) -> CheckCount {
        let mut count = CheckCount::default();
        for check in self.all().flat_map(|result| &result.runs).flat_map(|run| &run.checks) {
            count.all += 1;
            count.failed += usize::from(!check.ok);
        }
        count
    }

    /// The results and the baseline.
    pub fn all(&self) -> impl Iterator<Item = &Measurement> {
        self.results.iter().chain(&self.baseline)
    }

    /// Sets every result's throughput in relation to `unprotected` on one thread, where that ran.
    pub fn fill_ratios(&mut self) {
        let tps = |result: &Measurement| {
            (result.label() == "unprotected" && result.threads == 1 && result.throughput_tps > 0.0)
                .then_some(result.throughput_tps)
        };
        let Some(unprotected) = self.all().find_map(tps) else { return };
        for result in self.results.iter_mut().chain(&mut self.baseline) {
            result.ratio_to_unprotected = Some(result.throughput_tps / unprotected);
        }
    }

    /// Whether the cores were virtual.
    pub fn simulated(&self) -> bool {
        self.all().any(|result| result.simulation.is_some())
    }

    /// What `threads` are.
    pub fn unit(&self) -> &'static str {
        match self.all().next() {
            _ if self.simulated() => "cores",
            Some(result) if result.is_submitted() => "executors",
            _ => "threads",
        }
    }

    /// What began the transactions, where that is told. It is the same of all results, but for the number of clients.
    pub fn driver(&self) -> Option<&Driver> {
        self.all().next().and_then(|result| result.driver.as_ref())
    }

    /// For each pair of protocols, whether their order at the largest number of cores depends on what cores
    /// cost each other: a line each, if that was varied.
    pub fn orders(&self) -> Vec<String> {
        let mut factors: Vec<f64> = self.results.iter().map(Measurement::coherence).collect();
        factors.sort_by(f64::total_cmp);
        factors.dedup();
        let mut protocols: Vec<&str> = Vec::new();
        for result in &self.results {
            if !protocols.contains(&result.protocol.as_str()) {
                protocols.push(&result.protocol);
            }
        }
        let mut lines = Vec::new();
        if factors.len() < 2 {
            return lines;
        }
        for (at, first) in protocols.iter().enumerate() {
            for second in &protocols[at + 1..] {
                lines.extend(self.order(first, second, &factors));
            }
        }
        lines
    }

    /// The order of two protocols at the largest number of cores that both ran on.
    fn order(&self, first: &str, second: &str, factors: &[f64]) -> Option<String> {
        let throughput = |protocol: &str, cores: usize, factor: f64| {
            let same = |result: &&Measurement| {
                (result.protocol == protocol && result.threads == cores && result.coherence() == factor)
                    && result.throughput_tps > 0.0
            };
            self.results.iter().find(same).map(|result| result.throughput_tps)
        };
        let ratios_at = |cores: usize| -> Option<Vec<f64>> {
            factors
                .iter()
                .map(|&factor| Some(throughput(first, cores, factor)? / throughput(second, cores, factor)?))
                .collect()
        };
        let threads = self.threads();
        let (cores, ratios) = threads.into_iter().rev().find_map(|cores| Some((cores, ratios_at(cores)?)))?;
        let list: Vec<String> =
            ratios.iter().zip(factors).map(|(ratio, factor)| format!("{ratio:.2} with x{factor}")).collect();
        let clear = |sign: f64| ratios.iter().all(|ratio| (ratio - 1.0) * sign > ORDER_MARGIN);
        let near = ratios.iter().all(|ratio| (ratio - 1.0).abs() <= ORDER_MARGIN);
        let outcome = match () {
            () if clear(1.0) => format!("{first} is ahead whatever cores cost each other"),
            () if clear(-1.0) => format!("{second} is ahead whatever cores cost each other"),
            () if near => "no difference whatever cores cost each other".to_owned(),
            () => "depends on what cores cost each other".to_owned(),
        };
        Some(format!(
            "order of {first} and {second} on {cores} cores: {outcome}; {first} by {second} is {}",
            list.join(", ")
        ))
    }

    /// Sets every result's throughput in relation to that of the same protocol on one core, where that ran.
    pub fn fill_speed_ups(&mut self) {
        let singles: BTreeMap<String, f64> = self
            .results
            .iter()
            .filter(|result| result.threads == 1 && result.throughput_tps > 0.0)
            .map(|result| (result.label(), result.throughput_tps))
            .collect();
        for result in &mut self.results {
            let (single, throughput) = (singles.get(&result.label()).copied(), result.throughput_tps);
            if let Some(simulation) = &mut result.simulation {
                simulation.speed_up = single.map(|single| throughput / single);
            }
        }
    }

    /// The numbers of threads, rising.
    pub fn threads(&self) -> Vec<usize> {
        let mut threads: Vec<usize> = self.results.iter().map(|result| result.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// The protocols in order of appearance, with their durability.
    pub fn protocols(&self) -> Vec<String> {
        let mut protocols: Vec<String> = Vec::new();
        for result in &self.results {
            if !protocols.contains(&result.label()) {
                protocols.push(result.label());
            }
        }
        protocols
    }

    /// The reasons for which any attempt was aborted.
    pub fn reasons(&self) -> Vec<&str> {
        let mut reasons: Vec<&str> = Vec::new();
        for (reason, share) in self.all().flat_map(|result| &result.abort_rate_by_reason) {
            if *share > 0.0 && !reasons.contains(&reason.as_str()) {
                reasons.push(reason);
            }
        }
        reasons.sort_unstable();
        reasons
    }

    /// Adds a note for each open loop in which calls are not executed as fast as they arrive. `name` says which it is.
    pub fn note_backlogs(&mut self, name: impl Fn(&Measurement) -> String) {
        for result in &self.results {
            let open = result.calls.and_then(|calls| calls.open).filter(|open| !open.keeps_up());
            if let (Some(asked), Some(open)) = (result.driver.as_ref().and_then(Driver::rate), open) {
                self.notes.push(falls_behind(&name(result), asked, &open));
            }
        }
    }

    /// Adds a note if workers had to share their cores with other programs.
    pub fn note_stolen_time(&mut self) {
        let cores = self.machine.cores;
        // Clients sleep while others execute their calls.
        let pinned = self.all().filter(|result| {
            result.threads <= cores && result.throughput_tps > 0.0 && !result.is_submitted()
        });
        let least = pinned.map(|result| result.core_share).fold(1.0, f64::min);
        if least < CORE_SHARE_GOOD {
            self.notes.push(format!(
                "other programs took up to {} of the workers' time; these figures are too low and vary",
                percent(1.0 - least)
            ));
        }
    }
}

/// What is told of an open loop whose calls are not executed as fast as they arrive.
fn falls_behind(name: &str, asked: f64, open: &OpenFigures) -> String {
    format!(
        "{name} does not keep up with {} calls a second: {} ended in a second, and those that wait grew from {} to {} in the \
         window; its latencies grow with the length of the run",
        rate(asked),
        rate(open.ended_per_second),
        rate(open.waiting_begin),
        rate(open.waiting_end)
    )
}

/// Throughputs that differ by less are in no order.
pub const ORDER_MARGIN: f64 = 0.02;

/// A lower share of the cores is worth a note.
const CORE_SHARE_GOOD: f64 = 0.97;
