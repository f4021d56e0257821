//! What `heddle bench snapshots` found: the JSON file and the table.

use super::arguments::Reader;
use crate::report::model::{CheckCount, CheckResult, Machine, median};
use crate::report::{bytes, percent, rate, table};
use comfy_table::{Attribute, Cell};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// All that was found: the top level of the JSON file.
#[derive(Clone, Debug, Serialize)]
pub struct SnapshotsReport {
    /// The command that gives such a report.
    pub command: String,
    /// What it was measured on.
    pub machine: Machine,
    /// What the writer ran.
    pub workload: String,
    /// The seed.
    pub seed: u64,
    /// Seconds of a turn, rounds.
    pub settings: BTreeMap<String, f64>,
    /// The workload's parameters.
    pub parameters: BTreeMap<String, String>,
    /// One entry for each protocol, interval and reader.
    pub results: Vec<Beside>,
    /// How many checks were made after all rounds.
    pub checks: usize,
    /// Those of them that failed.
    pub failed: Vec<CheckResult>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl SnapshotsReport {
    /// How many checks were made after all rounds, and how many failed.
    pub fn check_count(&self) -> CheckCount {
        CheckCount { all: self.checks, failed: self.failed.len() }
    }
}

/// The writer beside one reader: medians over the rounds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Beside {
    /// The protocol.
    pub protocol: String,
    /// How old a snapshot's moment may be.
    pub interval_ms: u64,
    /// Who was beside it.
    pub reader: String,
    /// The writer's transactions in a second on its core.
    pub writer_tps: f64,
    /// The share of the time that it had its core.
    pub core_share: f64,
    /// Its rate as a share of that beside nobody: quartiles.
    pub of_none: Option<[f64; 3]>,
    /// Its rate as a share of that beside the memory's reader: quartiles.
    pub of_memory: Option<[f64; 3]>,
    /// The reader's completed transactions in a second.
    pub looks: f64,
    /// The rows that it read in a second, those of given-up attempts included.
    pub rows: f64,
    /// Old versions that the writer kept for each of its transactions.
    pub versions_kept: f64,
    /// Bytes of old versions at the end of a turn.
    pub version_bytes: f64,
    /// The turns in the order of the rounds.
    pub turns: Vec<Turn>,
}

/// One reader's turn.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Turn {
    /// The writer's transactions in a second on its core.
    pub writer_tps: f64,
    /// The share of the time that it had its core.
    pub core_share: f64,
    /// The reader's completed transactions in a second.
    pub looks: f64,
    /// The rows that it read in a second.
    pub rows: f64,
    /// Old versions that the writer kept for each of its transactions.
    pub versions_kept: f64,
    /// Bytes of old versions at the end.
    pub version_bytes: f64,
}

/// Fills the medians in from the turns.
pub fn summarise(readers: &[Reader], results: &mut [Beside]) {
    let turns: Vec<Vec<Turn>> = results.iter().map(|beside| beside.turns.clone()).collect();
    let turns_of =
        |reader: Reader| readers.iter().position(|other| *other == reader).map(|at| turns[at].as_slice());
    for (reader, result) in readers.iter().zip(results) {
        let over = |figure: fn(&Turn) -> f64| median(result.turns.iter().map(figure).collect());
        result.writer_tps = over(|turn| turn.writer_tps);
        result.core_share = over(|turn| turn.core_share);
        result.looks = over(|turn| turn.looks);
        result.rows = over(|turn| turn.rows);
        result.versions_kept = over(|turn| turn.versions_kept);
        result.version_bytes = over(|turn| turn.version_bytes);
        let ratios = |other: &[Turn]| {
            let pairs = result.turns.iter().zip(other);
            quartiles(pairs.map(|(turn, other)| turn.writer_tps / other.writer_tps.max(1e-9)).collect())
        };
        result.of_none = turns_of(Reader::None).map(ratios);
        result.of_memory = reader.memory().and_then(turns_of).map(ratios);
    }
}

/// The lower quartile, the median, the upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    [at(0.25), median(values.clone()), at(0.75)]
}

/// The report as text.
pub fn render(report: &SnapshotsReport, colours: bool) -> String {
    let mut text = table::machine(&report.machine);
    let join = |pairs: &mut dyn Iterator<Item = String>| pairs.collect::<Vec<_>>().join(", ");
    let parameters = join(&mut report.parameters.iter().map(|(name, value)| format!("{name} {value}")));
    let settings = join(&mut report.settings.iter().map(|(name, value)| format!("{name} {value}")));
    let _ = writeln!(text, "{}: {parameters}\nseed {}, {settings}\n", report.workload, report.seed);
    let mut table = table::empty(colours);
    let titles = [
        "protocol",
        "interval",
        "beside",
        "writer tx/s",
        "of none",
        "quartiles",
        "of memory",
        "quartiles",
        "on core",
        "reader tx/s",
        "rows/s",
        "kept/tx",
        "old versions",
    ];
    table.set_header(titles.map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for result in &report.results {
        let share =
            |ratios: Option<[f64; 3]>| ratios.map_or("-".into(), |[_, middle, _]| format!("{middle:.3}"));
        let spread = |ratios: Option<[f64; 3]>| {
            ratios.map_or("-".into(), |[low, _, high]| format!("{low:.2}-{high:.2}"))
        };
        table.add_row([
            result.protocol.clone(),
            format!("{} ms", result.interval_ms),
            result.reader.clone(),
            rate(result.writer_tps),
            share(result.of_none),
            spread(result.of_none),
            share(result.of_memory),
            spread(result.of_memory),
            percent(result.core_share),
            rate(result.looks),
            rate(result.rows),
            format!("{:.2}", result.versions_kept),
            bytes(result.version_bytes),
        ]);
    }
    table::align(&mut table, 3);
    text.push_str(&table::lines(&table));
    text.push('\n');
    for check in &report.failed {
        let head = table::paint("FAILED", "31;1", colours);
        let _ = writeln!(text, "{head} {}: {}", check.name, check.detail);
    }
    let _ = writeln!(text, "{}", table::verdict(report.check_count(), colours));
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_within_a_round() {
        let readers = [Reader::None, Reader::MemoryLooks, Reader::Looks];
        let beside = |rates: [f64; 3]| Beside {
            turns: rates.map(|writer_tps| Turn { writer_tps, ..Turn::default() }).to_vec(),
            ..Beside::default()
        };
        let mut results = [beside([100.0, 50.0, 10.0]), beside([80.0, 40.0, 8.0]), beside([40.0, 20.0, 8.0])];
        summarise(&readers, &mut results);
        assert_eq!(results[2].of_none, Some([0.4, 0.4, 0.8]));
        assert_eq!(results[2].of_memory, Some([0.5, 0.5, 1.0]));
        assert_eq!((results[1].of_memory, results[0].of_none), (None, Some([1.0; 3])));
    }
}
