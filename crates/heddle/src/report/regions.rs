//! The table of hardware regions: how they ended, as shares of all.

use super::model::{Measurement, RegionFigures, Report};
use super::percent;

/// The titles of its columns.
pub fn titles(report: &Report) -> Vec<&'static str> {
    let mut titles = vec!["protocol", report.unit(), "regions", "aborted"];
    titles.extend(RegionFigures::default().aborted().map(|(name, _)| name));
    titles.extend(["commit alone", "in software"]);
    titles
}

/// A row for each configuration that has any: of its last run.
pub fn rows(report: &Report) -> Vec<Vec<String>> {
    let row = |result: &Measurement| {
        let figures = result.runs.iter().rev().find_map(|run| run.regions.clone())?;
        let begun = figures.begun();
        let share = |count: u64| percent(count as f64 / begun.max(1) as f64);
        let mut row = vec![result.label(), result.threads.to_string(), figures.source.clone()];
        row.push(share(begun - figures.committed));
        row.extend(figures.aborted().map(|(_, count)| share(count)));
        row.push(percent(figures.commits_only_share()));
        row.push(percent(figures.software_share()));
        Some(row)
    };
    report.all().filter_map(row).collect()
}
