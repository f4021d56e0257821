//! TicToc (SIGMOD 2016): its evaluation, section 6.
//!
//! Claims are in the paper's words and figures, shortened; what is judged is their order, shape and ratios
//! ([`super::figure`] says by which measure).

mod threads;

use super::figure::{
    Axis, Claim, Content, Figure, Finding, Measure, Missing, Paper, Results, Scope, Series, Setting,
    VirtualSetting, above, near,
};
use super::settings::{CORES, SMALL, by_kind, times, tpcc, unusable, window};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::report::{percent, rate};
use heddledb_simulator::engine::protocol::{Isolation, Kind};
use heddledb_simulator::point::Subject;
use heddledb_simulator::workloads::ReadOnly;
use heddledb_simulator::workloads::tpcc::{Binding, Mix, Mode, Parameters};
use heddledb_simulator::workloads::ycsb::{self, Ycsb};
use std::time::Duration;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "tictoc",
    title: "TicToc: Time Traveling Optimistic Concurrency Control",
    about: "Yu, Pavlo, Sanchez, Devadas; SIGMOD 2016; 40 cores of Intel Xeon E7-4850 with two threads each, 128 GB, in \
            DBx1000",
    notes: &[
        "Where the paper has 80 hardware threads on 40 cores, there are 80 virtual cores here, which share nothing but \
         memory.",
        "Orders count from 2 % on; a ratio is the paper's if it is within a factor of 1.5 of it.",
        "TicToc is the kind `tictoc`: all optimisations but timestamp history, which the paper has on and finds to gain \
         nothing; with it, it is `tictoc-history`.",
    ],
    figures,
};

/// The most cores.
const MOST: f64 = 80.0;
/// All of those that the paper compares.
const RIVALS: [Kind; 5] = [Kind::TicToc, Kind::Silo, Kind::Hekaton, Kind::NoWait, Kind::DlDetect];
/// TicToc with one optimisation after the other, and Silo.
const STAGES: [Kind; 5] =
    [Kind::Silo, Kind::TicTocSorted, Kind::TicTocNoWait, Kind::TicToc, Kind::TicTocHistory];

fn figures(scope: &Scope) -> Result<Vec<Figure>, Failure> {
    let mut figures = vec![
        figure_4a(scope)?,
        figure_4b(scope)?,
        figure_5a(scope)?,
        figure_5b(scope)?,
        figure_6(scope)?,
        figure_7a(scope)?,
        figure_7b(scope)?,
        figure_8a(scope)?,
        figure_8b(scope)?,
        figure_9a(scope)?,
        figure_9b(scope)?,
        figure_9c(scope)?,
        figure_10a(scope)?,
        figure_10b(scope)?,
        figure_10c(scope)?,
        figure_11(scope)?,
        table_1(scope)?,
        table_2(scope)?,
        figure_12(scope)?,
    ];
    figures.extend(threads::figures(scope));
    Ok(figures)
}

// Settings

fn cores(scope: &Scope) -> &'static [usize] {
    if scope.quick { &[1, 16, 40, 80] } else { &[1, 4, 8, 16, 24, 32, 40, 64, 80] }
}

fn length(scope: &Scope, cores: usize) -> Duration {
    window(scope, cores, 64, 1_000, 8_000)
}

fn point(workload: &Subject, kind: Kind, cores: usize, isolation: Isolation, window: Duration) -> Setting {
    Setting::Virtual(VirtualSetting {
        workload: workload.clone(),
        kind,
        cores,
        read_only: ReadOnly::Serializable,
        isolation,
        window,
        census: false,
    })
}

/// A curve for each protocol over numbers of cores.
fn by_cores(scope: &Scope, kinds: &[Kind], measure: Measure, workload: &Subject) -> Result<Content, Failure> {
    by_kind(kinds, measure, |kind| {
        let at = |&cores: &usize| {
            let setting = point(workload, kind, cores, Isolation::Serializable, length(scope, cores));
            (cores as f64, setting)
        };
        Ok(cores(scope).iter().map(at).collect())
    })
}

/// New-Order and Payment in equal shares, as DBx1000 has them.
fn orders(warehouses: u16) -> Result<Subject, Failure> {
    tpcc(Parameters {
        warehouses,
        mix: Mix::NP,
        mode: Mode::Dbx1000,
        binding: Binding::Random,
        scale: SMALL,
        commutative: false,
        ..Default::default()
    })
}

const ORDERS_NOTE: &str = "New-Order and Payment without inserts, as in DBx1000; a warehouse has 300 customers a district and \
                           10,000 items; warehouses are drawn for each transaction; Payment reads and writes the sums it adds to.";

fn keys(scope: &Scope, preset: &str) -> Result<Subject, Failure> {
    let records = if scope.quick { 20_000 } else { 100_000 };
    let preset = ycsb::Parameters::preset(preset).unwrap_or_default();
    let parameters = ycsb::Parameters { records, field_bytes: 10, ..preset };
    Ok(Ycsb::new(parameters).map_err(unusable)?.into())
}

fn keys_note(scope: &Scope) -> Vec<String> {
    let records = if scope.quick { "20,000" } else { "100,000" };
    vec![format!(
        "{records} rows with columns of 10 bytes instead of ten million of 100: the frequent keys are drawn more often."
    )]
}

// 6.2

fn figure_4a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "4a",
        title: "TPC-C with four warehouses, by cores",
        section: "§6.2.1",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::Throughput, &orders(4)?)?,
        notes: vec![ORDERS_NOTE.into()],
        claims: vec![
            Claim::new("On 80 cores TicToc has 1.8 times Silo's throughput.", |results| {
                let ratio = results.at("tictoc", MOST)? / results.at("silo", MOST)?;
                Ok(Finding::new(above(ratio, 1.0) && near(ratio, 1.8), times(ratio)))
            }),
            Claim::new("The order is TicToc, Silo, then Hekaton and NO_WAIT, then DL_DETECT.", |results| {
                let rates = rates(results, MOST)?;
                let [tictoc, silo, hekaton, no_wait, detect] = rates;
                let ahead = above(tictoc, silo) && above(silo, hekaton.max(no_wait));
                Ok(Finding::new(ahead && above(hekaton.min(no_wait), detect), listed(rates)))
            }),
            Claim::new("DL_DETECT scales worst of all.", |results| {
                let mut ratios = Vec::new();
                for kind in RIVALS {
                    ratios.push((results.over(kind.name(), MOST, 1.0)?, kind));
                }
                ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
                let list: Vec<String> =
                    ratios.iter().map(|(ratio, kind)| format!("{kind} {}", times(*ratio))).collect();
                let worst = ratios.first().is_some_and(|(_, kind)| *kind == Kind::DlDetect);
                Ok(Finding::new(worst, format!("from 1 to 80 cores: {}", list.join(", "))))
            }),
        ],
    })
}

/// The throughput of each rival at a number.
fn rates(results: &Results, x: f64) -> Result<[f64; RIVALS.len()], Missing> {
    let mut rates = [0.0; RIVALS.len()];
    for (rate, kind) in rates.iter_mut().zip(RIVALS) {
        *rate = results.at(kind.name(), x)?;
    }
    Ok(rates)
}

/// The same in words.
fn listed(rates: [f64; RIVALS.len()]) -> String {
    let list = RIVALS.iter().zip(rates).map(|(kind, value)| format!("{kind} {}", rate(value)));
    list.collect::<Vec<_>>().join(", ")
}

fn figure_4b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "4b",
        title: "TPC-C with four warehouses: aborts, by cores",
        section: "§6.2.1",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::AbortRate, &orders(4)?)?,
        notes: vec![ORDERS_NOTE.into()],
        claims: vec![Claim::new("On 80 cores TicToc's abort rate is 27 % below Silo's.", |results| {
            fewer_aborts(results, "tictoc", "silo", MOST, 0.73)
        })],
    })
}

/// Whether one aborts less often than another, in about this ratio.
fn fewer_aborts(results: &Results, one: &str, other: &str, x: f64, ratio: f64) -> Result<Finding, Missing> {
    let (fewer, more) = (results.at_or_zero(one, x)?, results.at_or_zero(other, x)?);
    let holds = above(more, fewer) && near(fewer / more, ratio);
    Ok(Finding::new(holds, format!("{one} {}, {other} {}", percent(fewer), percent(more))))
}

/// The numbers of warehouses.
const WAREHOUSES: [u16; 5] = [4, 8, 16, 40, 80];

fn by_warehouses(scope: &Scope, measure: Measure) -> Result<Content, Failure> {
    by_kind(&RIVALS, measure, |kind| {
        let at = |&warehouses: &u16| {
            let setting = point(&orders(warehouses)?, kind, 80, Isolation::Serializable, length(scope, 80));
            Ok((f64::from(warehouses), setting))
        };
        WAREHOUSES.iter().map(at).collect()
    })
}

const BY_WAREHOUSES: Axis = Axis { name: "warehouses", spacing: Spacing::Logarithmic };

fn figure_5a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "5a",
        title: "TPC-C on 80 cores, by warehouses",
        section: "§6.2.2",
        axis: BY_WAREHOUSES,
        content: by_warehouses(scope, Measure::Throughput)?,
        notes: vec![ORDERS_NOTE.into()],
        claims: vec![Claim::new(
            "With more warehouses TicToc's lead over Silo shrinks; with 80 it is gone.",
            |results| {
                let lead = |x: f64| Ok(results.at("tictoc", x)? / results.at("silo", x)?);
                let (few, some, many) = (lead(4.0)?, lead(16.0)?, lead(80.0)?);
                let holds = above(few, some) && above(some, many) && (0.9..=1.1).contains(&many);
                Ok(Finding::new(
                    holds,
                    format!("{} with 4, {} with 16, {} with 80", times(few), times(some), times(many)),
                ))
            },
        )],
    })
}

fn figure_5b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "5b",
        title: "TPC-C on 80 cores: aborts, by warehouses",
        section: "§6.2.2",
        axis: BY_WAREHOUSES,
        content: by_warehouses(scope, Measure::AbortRate)?,
        notes: vec![ORDERS_NOTE.into()],
        claims: vec![Claim::new(
            "With fewer than 80 warehouses TicToc aborts less often than Silo.",
            |results| {
                let mut pairs = Vec::new();
                let mut holds = true;
                for warehouses in &WAREHOUSES[..4] {
                    let at = |line| results.at_or_zero(line, f64::from(*warehouses));
                    let (tictoc, silo) = (at("tictoc")?, at("silo")?);
                    holds &= above(silo, tictoc);
                    pairs.push(format!("{warehouses}: {} to {}", percent(tictoc), percent(silo)));
                }
                Ok(Finding::new(holds, pairs.join(", ")))
            },
        )],
    })
}

// 6.3

fn figure_6(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "6",
        title: "YCSB, read-only, by cores",
        section: "§6.3.1",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::Throughput, &keys(scope, "read-only")?)?,
        notes: keys_note(scope),
        claims: vec![
            Claim::new("All but Hekaton scale almost linearly to 40 cores.", |results| {
                let mut list = Vec::new();
                let mut holds = true;
                for kind in RIVALS.into_iter().filter(|kind| *kind != Kind::Hekaton) {
                    let ratio = results.over(kind.name(), 40.0, 1.0)?;
                    holds &= ratio >= 0.85 * 40.0;
                    list.push(format!("{kind} {}", times(ratio)));
                }
                Ok(Finding::new(holds, list.join(", ")))
            }),
            Claim::new(
                "Hekaton is limited by the counter that it draws timestamps from (5 M a second).",
                |results| {
                    let (most, half) = (results.at("hekaton", MOST)?, results.at("hekaton", 40.0)?);
                    let behind = above(results.at("silo", MOST)?, 2.0 * most);
                    let flat = most < half * 1.2;
                    Ok(Finding::new(
                        behind && flat,
                        format!("{} on 40 cores, {} on 80", rate(half), rate(most)),
                    ))
                },
            ),
            Claim::new("TicToc and Silo are ahead of those that lock.", |results| {
                optimists_lead(results, 40.0)
            }),
        ],
    })
}

/// Whether those without locks are ahead.
fn optimists_lead(results: &Results, x: f64) -> Result<Finding, Missing> {
    let optimistic = results.at("tictoc", x)?.min(results.at("silo", x)?);
    let locking = results.best(&["no-wait", "dl-detect"], x)?;
    Ok(Finding::new(above(optimistic, locking), times(optimistic / locking)))
}

fn figure_7a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "7a",
        title: "YCSB, medium contention, by cores",
        section: "§6.3.2",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::Throughput, &keys(scope, "medium")?)?,
        notes: keys_note(scope),
        claims: vec![
            Claim::new(
                "TicToc and Silo both scale well and are about equal (2.57 M to 2.32 M on 40 cores).",
                |results| {
                    let ratio = results.at("tictoc", 40.0)? / results.at("silo", 40.0)?;
                    let scale = results.over("tictoc", 40.0, 1.0)?.min(results.over("silo", 40.0, 1.0)?);
                    let measured =
                        format!("{} on 40 cores; at least {} from 1 to 40", times(ratio), times(scale));
                    Ok(Finding::new((0.87..=1.15).contains(&ratio) && scale >= 20.0, measured))
                },
            ),
            Claim::new(
                "On 40 cores Hekaton is ahead of 2PL (1.55 M to 0.63 M) and behind TicToc and Silo, and NO_WAIT ahead of \
                 DL_DETECT (0.43 M).",
                |results| {
                    let rates = rates(results, 40.0)?;
                    let [tictoc, silo, hekaton, no_wait, detect] = rates;
                    let ahead = above(tictoc.min(silo), hekaton) && above(hekaton, no_wait);
                    Ok(Finding::new(ahead && above(no_wait, detect), listed(rates)))
                },
            ),
        ],
    })
}

fn figure_7b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "7b",
        title: "YCSB, medium contention: aborts, by cores",
        section: "§6.3.2",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::AbortRate, &keys(scope, "medium")?)?,
        notes: keys_note(scope),
        claims: vec![Claim::new("TicToc's abort rate is 3.3 times lower than Silo's.", |results| {
            fewer_aborts(results, "tictoc", "silo", MOST, 1.0 / 3.3)
        })],
    })
}

fn figure_8a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "8a",
        title: "YCSB, high contention, by cores",
        section: "§6.3.3",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::Throughput, &keys(scope, "high")?)?,
        notes: keys_note(scope),
        claims: vec![
            Claim::new("TicToc is ahead of Silo (0.82 M to 0.52 M on 40 cores).", |results| {
                let ratio = results.at("tictoc", 40.0)? / results.at("silo", 40.0)?;
                Ok(Finding::new(above(ratio, 1.0) && near(ratio, 1.58), times(ratio)))
            }),
            Claim::new("At its best TicToc has 7.7 times its throughput on one core.", |results| {
                let best = best(results, "tictoc")?;
                Ok(Finding::new(near(best, 7.7), times(best)))
            }),
            Claim::new("DL_DETECT comes to a standstill (0.005 M on 40 cores).", |results| {
                let share = results.over("dl-detect", 40.0, 1.0)?;
                Ok(Finding::new(share < 0.5, format!("{} of its rate on one core", times(share))))
            }),
        ],
    })
}

/// The highest value of a curve over that on one core.
fn best(results: &Results, line: &str) -> Result<f64, Missing> {
    let one = results.at(line, 1.0)?;
    let points = results.lines.iter().filter(|known| known.name == line).flat_map(|known| &known.points);
    Ok(points.filter_map(|dot| dot.value).fold(0.0, f64::max) / one)
}

fn figure_8b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "8b",
        title: "YCSB, high contention: aborts, by cores",
        section: "§6.3.3",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::AbortRate, &keys(scope, "high")?)?,
        notes: keys_note(scope),
        claims: vec![Claim::new(
            "TicToc's and Silo's abort rates are similar (44 % and 47 % on 40 cores).",
            |results| {
                let (tictoc, silo) = (results.at("tictoc", 40.0)?, results.at("silo", 40.0)?);
                let measured = format!("{} and {}", percent(tictoc), percent(silo));
                Ok(Finding::new((0.8..=1.25).contains(&(tictoc / silo)), measured))
            },
        )],
    })
}

// 6.4

const STAGES_NOTE: &str =
    "No optimisation is `tictoc-sorted`, then come `tictoc-no-wait`, `tictoc` and `tictoc-history`.";

fn figure_9a(scope: &Scope) -> Result<Figure, Failure> {
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

/// What there is to say of §5.3.
fn history() -> Claim {
    Claim::new("Timestamp history gives nothing that can be measured.", |results| {
        let x = results.widest()?;
        let ratio = results.at("tictoc-history", x)? / results.at("tictoc", x)?;
        Ok(Finding::new(ratio <= 1.03, times(ratio)))
    })
}

fn figure_9b(scope: &Scope) -> Result<Figure, Failure> {
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

fn figure_9c(scope: &Scope) -> Result<Figure, Failure> {
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

fn figure_10a(scope: &Scope) -> Result<Figure, Failure> {
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

fn figure_10b(scope: &Scope) -> Result<Figure, Failure> {
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

fn figure_10c(scope: &Scope) -> Result<Figure, Failure> {
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

// 6.5

/// Which workload a point of the figures on logical time has.
const MEDIUM: f64 = 1.0;
const HIGH: f64 = 2.0;

fn figure_11(scope: &Scope) -> Result<Figure, Failure> {
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

/// What there is to say of TS_ALLOC's growth.
fn one_counter() -> Claim {
    Claim::new("With one counter for all, logical time grows as fast as commits.", |results| {
        let (medium, high) = (results.at("ts-alloc", MEDIUM)?, results.at("ts-alloc", HIGH)?);
        let holds = [medium, high].into_iter().all(|ratio| (0.5..=1.1).contains(&ratio));
        Ok(Finding::new(holds, format!("{medium:.2} and {high:.2} commits a tick")))
    })
}

// 6.6

/// The places of the levels on the axis.
const SERIALIZABLE: f64 = 1.0;
const SNAPSHOT: f64 = 2.0;
const REPEATABLE: f64 = 3.0;

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

fn table_1(scope: &Scope) -> Result<Figure, Failure> {
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

fn table_2(scope: &Scope) -> Result<Figure, Failure> {
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

// Appendix

fn figure_12(scope: &Scope) -> Result<Figure, Failure> {
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
