//! Section 6.6: lower isolation levels.

use super::settings::{REPEATABLE, RIVALS, SERIALIZABLE, SNAPSHOT, keys, keys_note, length, point};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::report::{percent, rate};
use crate::reproduce::figure::{
    Axis, Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, above, near,
};
use crate::reproduce::settings::{by_kind, times};
use heddledb::protocol::Isolation;
use heddledb_simulator::point::Subject;

const BY_LEVEL: Axis = Axis {
    name: "1 serializable, 2 snapshot isolation, 3 repeatable read; on 40 cores",
    spacing: Spacing::Even,
};

fn by_level(scope: &Scope, workload: &Subject) -> Result<Content, Failure> {
    let levels = [
        (SERIALIZABLE, Isolation::Serializable),
        (SNAPSHOT, Isolation::Snapshot),
        (REPEATABLE, Isolation::RepeatableRead),
    ];
    by_kind(&RIVALS, Measure::Throughput, |kind| {
        let offered = levels.into_iter().filter(|(_, level)| kind.levels().contains(level));
        Ok(offered.map(|(x, level)| (x, point(workload, kind, 40, level, length(scope, 40)))).collect())
    })
}

/// Whether repeatable read is ahead of serializable, and how far.
fn relaxed(results: &Results, line: &str, paper: f64) -> Result<Finding, Missing> {
    let ratio = results.over(line, REPEATABLE, SERIALIZABLE)?;
    Ok(Finding::new(ratio > 0.98 && near(ratio, paper), times(ratio)))
}

/// Table 1 of TicToc.
pub fn table_1(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "table1",
        title: "Isolation levels: YCSB with medium contention",
        section: "§6.6",
        axis: BY_LEVEL,
        content: by_level(scope, &keys(scope, "medium")?)?,
        notes: keys_note(scope),
        claims: vec![
            Claim::new("Repeatable read gives TicToc 4.7 % over serializable, Silo 5.6 %.", |results| {
                let (tictoc, silo) = (
                    results.over("tictoc", REPEATABLE, SERIALIZABLE)?,
                    results.over("silo", REPEATABLE, SERIALIZABLE)?,
                );
                let holds = [tictoc, silo].into_iter().all(|ratio| (1.0..=1.25).contains(&ratio));
                Ok(Finding::new(holds, format!("TicToc {}, Silo {}", times(tictoc), times(silo))))
            }),
            Claim::new("It gives Hekaton 21.3 %.", |results| relaxed(results, "hekaton", 1.213)),
            Claim::new("It gives more to those that lock: DL_DETECT 67 %, NO_WAIT 200 %.", |results| {
                let (detect, no_wait) = (
                    results.over("dl-detect", REPEATABLE, SERIALIZABLE)?,
                    results.over("no-wait", REPEATABLE, SERIALIZABLE)?,
                );
                let holds = near(detect, 1.67) && near(no_wait, 3.0);
                Ok(Finding::new(holds, format!("DL_DETECT {}, NO_WAIT {}", times(detect), times(no_wait))))
            }),
            Claim::new("Every scheme aborts least often under repeatable read.", |results| {
                let mut holds = true;
                let mut list = Vec::new();
                for kind in RIVALS {
                    let (strong, weak) = (
                        results.aborts(kind.name(), SERIALIZABLE)?,
                        results.aborts(kind.name(), REPEATABLE)?,
                    );
                    holds &= weak <= strong * 1.02;
                    list.push(format!("{kind} {} to {}", percent(strong), percent(weak)));
                }
                Ok(Finding::new(holds, list.join(", ")))
            }),
        ],
    })
}

/// Table 2 of TicToc.
pub fn table_2(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "table2",
        title: "Isolation levels: YCSB with high contention",
        section: "§6.6",
        axis: BY_LEVEL,
        content: by_level(scope, &keys(scope, "high")?)?,
        notes: keys_note(scope),
        claims: vec![
            Claim::new("Lower levels are faster: TicToc 0.82 M, 0.90 M, 1.04 M.", |results| {
                let values = [SERIALIZABLE, SNAPSHOT, REPEATABLE].map(|x| results.at("tictoc", x));
                let [one, two, three] = values;
                let (one, two, three) = (one?, two?, three?);
                let measured = format!("{}, {}, {}", rate(one), rate(two), rate(three));
                Ok(Finding::new(two > one * 0.98 && three > two * 0.98 && above(three, one), measured))
            }),
            Claim::new("They do not much reduce how often transactions abort.", |results| {
                let (strong, weak) =
                    (results.aborts("tictoc", SERIALIZABLE)?, results.aborts("tictoc", REPEATABLE)?);
                let measured = format!("TicToc {} to {}", percent(strong), percent(weak));
                Ok(Finding::new(weak >= strong * 0.75, measured))
            }),
        ],
    })
}
