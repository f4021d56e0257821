//! Section 6.4: what each of TicToc's optimisations gives, and where the time goes.

use super::settings::{
    MOST, ORDERS_NOTE, STAGES, by_cores, fewer_aborts, history, keys, keys_note, length, orders, point,
};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::report::{percent, rate};
use crate::reproduce::figure::{
    Axis, Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, Series, above, near,
};
use crate::reproduce::settings::{CORES, times};
use heddledb::protocol::Isolation;
use heddledb_simulator::point::Subject;

const STAGES_NOTE: &str =
    "No optimisation is `tictoc-sorted`, then come `tictoc-no-wait`, `tictoc` and `tictoc-history`.";

/// Figure 9a of TicToc.
pub fn figure_9a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "9a",
        title: "TicToc's optimisations: TPC-C with four warehouses, by cores",
        section: "§6.4",
        axis: CORES,
        content: by_cores(scope, &STAGES, Measure::Throughput, &orders(4)?)?,
        notes: vec![ORDERS_NOTE.into(), STAGES_NOTE.into()],
        claims: vec![
            Claim::new("On 80 cores TicToc without optimisations is 35.6 % ahead of Silo.", |results| {
                gain(results, "tictoc-sorted", "silo", 1.356)
            }),
            Claim::new("No-wait locking gives another 38 %.", |results| {
                gain(results, "tictoc-no-wait", "tictoc-sorted", 1.38)
            }),
            history(),
        ],
    })
}

/// Whether one is ahead of another on 80 cores, in about this ratio.
fn gain(results: &Results, one: &str, other: &str, ratio: f64) -> Result<Finding, Missing> {
    let measured = results.at(one, MOST)? / results.at(other, MOST)?;
    // What is gained, not the whole, is near.
    let holds = above(measured, 1.0) && near(measured - 1.0, ratio - 1.0);
    Ok(Finding::new(holds, times(measured)))
}

/// Figure 9b of TicToc.
pub fn figure_9b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "9b",
        title: "TicToc's optimisations: aborts in TPC-C with four warehouses, by cores",
        section: "§6.4",
        axis: CORES,
        content: by_cores(scope, &STAGES, Measure::AbortRate, &orders(4)?)?,
        notes: vec![ORDERS_NOTE.into(), STAGES_NOTE.into()],
        claims: vec![
            Claim::new(
                "On 80 cores TicToc without optimisations aborts 32 % less often than Silo.",
                |results| fewer_aborts(results, "tictoc-sorted", "silo", MOST, 0.68),
            ),
            Claim::new("The optimisations do not change how often it aborts.", |results| {
                let rates = STAGES[1..].iter().map(|kind| results.at(kind.name(), MOST));
                let rates: Vec<f64> = rates.collect::<Result<_, Missing>>()?;
                let (least, most) = rates
                    .iter()
                    .fold((f64::MAX, 0.0_f64), |(least, most), &rate| (least.min(rate), most.max(rate)));
                let measured = format!("{} to {}", percent(least), percent(most));
                Ok(Finding::new(most <= 1.25 * least, measured))
            }),
        ],
    })
}

/// Where the cycles of each stage go on 80 cores: a curve for each phase.
fn phases(scope: &Scope, workload: &Subject) -> Content {
    let phase = |name: &'static str| Series {
        name: name.to_owned(),
        measure: Measure::Cycles(name),
        points: (1..)
            .zip(STAGES)
            .map(|(stage, kind)| {
                let setting = point(workload, kind, 80, Isolation::Serializable, length(scope, 80));
                (f64::from(stage), setting)
            })
            .collect(),
    };
    Content::Points(["body", "index", "commit", "wait", "abort"].map(phase).into())
}

const BY_STAGES: Axis = Axis {
    name: "1 Silo, 2 TicToc, 3 and no-wait, 4 and preemptive abort, 5 and history",
    spacing: Spacing::Even,
};

const PHASES_NOTE: &str = "Cycles of a transaction: in its body and the protocol's part of single accesses, in indexes, in validation \
                           with timestamps and writing, in waiting; and all that attempts took that did not commit.";

/// Figure 9c of TicToc.
pub fn figure_9c(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "9c",
        title: "TicToc's optimisations: where the time goes in TPC-C with four warehouses",
        section: "§6.4",
        axis: BY_STAGES,
        content: phases(scope, &orders(4)?),
        notes: vec![ORDERS_NOTE.into(), STAGES_NOTE.into(), PHASES_NOTE.into()],
        claims: vec![
            Claim::new(
                "TicToc without optimisations loses less time in aborted attempts than Silo.",
                |results| {
                    let (tictoc, silo) = (results.at("abort", 2.0)?, results.at("abort", 1.0)?);
                    Ok(Finding::new(
                        above(silo, tictoc),
                        format!("{} to {} cycles", rate(tictoc), rate(silo)),
                    ))
                },
            ),
            Claim::new("The optimisations reduce the time that is lost in aborted attempts.", less_lost),
        ],
    })
}

fn less_lost(results: &Results) -> Result<Finding, Missing> {
    let (without, with) = (results.at("abort", 2.0)?, results.at("abort", 4.0)?);
    Ok(Finding::new(above(without, with), format!("{} to {} cycles", rate(without), rate(with))))
}

/// Figure 10a of TicToc.
pub fn figure_10a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "10a",
        title: "TicToc's optimisations: YCSB with high contention, by cores",
        section: "§6.4",
        axis: CORES,
        content: by_cores(scope, &STAGES, Measure::Throughput, &keys(scope, "high")?)?,
        notes: keys_note(scope).into_iter().chain([STAGES_NOTE.to_owned()]).collect(),
        claims: vec![
            Claim::new("On 80 cores TicToc without optimisations is 10 % ahead of Silo.", |results| {
                gain(results, "tictoc-sorted", "silo", 1.1)
            }),
            Claim::new("Most of the gain is by no-wait locking and preemptive aborts.", |results| {
                let silo = results.at("silo", MOST)?;
                let (without, with) = (results.at("tictoc-sorted", MOST)?, results.at("tictoc", MOST)?);
                let holds = above(with, without) && with - without > without - silo;
                let measured = format!("{} Silo without, {} with", times(without / silo), times(with / silo));
                Ok(Finding::new(holds, measured))
            }),
            Claim::new("Preemptive aborts give more than in TPC-C, where they give little.", |results| {
                let ratio = results.at("tictoc", MOST)? / results.at("tictoc-no-wait", MOST)?;
                Ok(Finding::new(above(ratio, 1.0), times(ratio)))
            }),
            history(),
        ],
    })
}

/// Figure 10b of TicToc.
pub fn figure_10b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "10b",
        title: "TicToc's optimisations: aborts in YCSB with high contention, by cores",
        section: "§6.4",
        axis: CORES,
        content: by_cores(scope, &STAGES, Measure::AbortRate, &keys(scope, "high")?)?,
        notes: keys_note(scope).into_iter().chain([STAGES_NOTE.to_owned()]).collect(),
        claims: vec![Claim::new(
            "TicToc does not abort less often than Silo where most accesses write.",
            |results| {
                let (tictoc, silo) = (results.at("tictoc", MOST)?, results.at("silo", MOST)?);
                let measured = format!("{} to {}", percent(tictoc), percent(silo));
                Ok(Finding::new((0.8..=1.25).contains(&(tictoc / silo)), measured))
            },
        )],
    })
}

/// Figure 10c of TicToc.
pub fn figure_10c(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "10c",
        title: "TicToc's optimisations: where the time goes in YCSB with high contention",
        section: "§6.4",
        axis: BY_STAGES,
        content: phases(scope, &keys(scope, "high")?),
        notes: keys_note(scope).into_iter().chain([STAGES_NOTE.to_owned(), PHASES_NOTE.to_owned()]).collect(),
        claims: vec![Claim::new(
            "The optimisations reduce the time that is lost in aborted attempts.",
            less_lost,
        )],
    })
}
