//! How logical time grows with commits (section 6.5), and dynamic timestamp allocation (the appendix).

use super::settings::{HIGH, MEDIUM, MOST, by_cores, keys, keys_note, length, one_counter, point};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::reproduce::figure::{Axis, Claim, Figure, Finding, Measure, Scope, near};
use crate::reproduce::settings::{CORES, by_kind, times};
use heddledb::protocol::{Isolation, Kind};
use heddledb_simulator::point::Subject;

/// Figure 11 of TicToc.
pub fn figure_11(scope: &Scope) -> Result<Figure, Failure> {
    let workloads = [(MEDIUM, keys(scope, "medium")?), (HIGH, keys(scope, "high")?)];
    let content = by_kind(&[Kind::TicToc, Kind::TsAlloc], Measure::CommitsPerTick, |kind| {
        let at = |(x, workload): &(f64, Subject)| {
            (*x, point(workload, kind, 40, Isolation::Serializable, length(scope, 40)))
        };
        Ok(workloads.iter().map(at).collect())
    })?;
    Ok(Figure {
        id: "11",
        title: "Commits for each tick of logical time, on 40 cores",
        section: "§6.5",
        axis: Axis { name: "YCSB: 1 medium contention, 2 high", spacing: Spacing::Even },
        content,
        notes: keys_note(scope)
            .into_iter()
            .chain(
                ["Ticks are counted within epochs, whose number is in the high bits of a time.".to_owned()],
            )
            .collect(),
        claims: vec![
            one_counter(),
            Claim::new("With medium contention TicToc's grows 64 times slower than commits.", |results| {
                let ratio = results.at("tictoc", MEDIUM)?;
                Ok(Finding::new(near(ratio, 64.0), format!("{ratio:.1} commits a tick")))
            }),
            Claim::new("With high contention it grows 10 times slower.", |results| {
                let ratio = results.at("tictoc", HIGH)?;
                Ok(Finding::new(near(ratio, 10.0), format!("{ratio:.1} commits a tick")))
            }),
        ],
    })
}

/// Figure 12 of TicToc.
pub fn figure_12(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "12",
        title: "Dynamic timestamp allocation: YCSB with medium contention, by cores",
        section: "appendix",
        axis: CORES,
        content: by_cores(scope, &[Kind::TicToc, Kind::Dta], Measure::Throughput, &keys(scope, "medium")?)?,
        notes: keys_note(scope)
            .into_iter()
            .chain([
                "The paper's critical section is empty, the least that there can be; ours does what there is to do.".to_owned()
            ])
            .collect(),
        claims: vec![Claim::new(
            "DTA does not scale beyond 20 cores, where all commits go one by one; TicToc does.",
            |results| {
                let growth = |line| results.over(line, MOST, 16.0);
                let (dta, tictoc) = (growth("dta")?, growth("tictoc")?);
                let measured = format!("from 16 to 80 cores: DTA {}, TicToc {}", times(dta), times(tictoc));
                Ok(Finding::new(dta <= 1.25 && tictoc >= 1.5, measured))
            },
        )],
    })
}
