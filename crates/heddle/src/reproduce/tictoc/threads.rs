//! TicToc's figures on this machine's threads, as many as there are, and what few threads can show.

use super::settings::{
    HIGH, MEDIUM, REPEATABLE, RIVALS, SERIALIZABLE, SNAPSHOT, history, one_counter, optimists_lead,
};
use crate::report::html::chart::Spacing;
use crate::report::percent;
use crate::reproduce::figure::{
    Axis, Claim, Content, Figure, Finding, Measure, Scope, Series, Setting, ThreadSetting, ThreadWorkload,
    above, near,
};
use crate::reproduce::settings::{REAL_SMALL, THREADS, threads, times};
use heddledb::Durability;
use heddledb::protocol::{Isolation, Kind};
use heddledb_workloads::{ReadOnly, tpcc, ycsb};

/// The figures and tables of which this machine's threads can show something.
pub fn figures(scope: &Scope) -> Vec<Figure> {
    vec![
        orders(scope),
        reads(scope),
        medium(scope),
        high(scope),
        ticks(scope),
        levels("table1-threads", "medium", scope),
        levels("table2-threads", "high", scope),
    ]
}

/// What a setting on threads leaves open.
fn point(workload: ThreadWorkload, kind: Kind, threads: usize, isolation: Isolation) -> Setting {
    Setting::Threads(ThreadSetting {
        workload,
        kind,
        threads,
        durability: Durability::None,
        read_only: ReadOnly::Serializable,
        isolation,
    })
}

/// All that the paper compares, and TicToc's optimisations.
const ON_THREADS: [Kind; 9] = [
    Kind::TicToc,
    Kind::TicTocSorted,
    Kind::TicTocNoWait,
    Kind::TicTocHistory,
    Kind::TicTocPacked,
    Kind::Silo,
    Kind::Hekaton,
    Kind::NoWait,
    Kind::DlDetect,
];

fn by_threads(scope: &Scope, kinds: &[Kind], workload: ThreadWorkload) -> Content {
    let series = kinds.iter().map(|&kind| {
        let at = |threads: usize| (threads as f64, point(workload, kind, threads, Isolation::Serializable));
        let points = threads(scope).into_iter().map(at).collect();
        Series { name: kind.name().to_owned(), measure: Measure::Throughput, points }
    });
    Content::Points(series.collect())
}

fn keys(scope: &Scope, preset: &str) -> ThreadWorkload {
    let records = if scope.quick { 100_000 } else { 1_000_000 };
    let preset = ycsb::Parameters::preset(preset).unwrap_or_default();
    ThreadWorkload::Ycsb(ycsb::Parameters { records, field_bytes: 10, ..preset })
}

fn keys_note(scope: &Scope) -> Vec<String> {
    let records = if scope.quick { "100,000" } else { "1,000,000" };
    vec![format!("{records} rows with ten columns of 10 bytes instead of ten million.")]
}

const FEW_THREADS: &str = "this machine has fewer; the figure on virtual cores has them";

fn orders(scope: &Scope) -> Figure {
    let workload = ThreadWorkload::Tpcc(tpcc::Parameters {
        warehouses: 4,
        mix: tpcc::Mix::NP,
        mode: tpcc::Mode::Dbx1000,
        binding: tpcc::Binding::Random,
        scale: if scope.quick { REAL_SMALL } else { tpcc::Scale::FULL },
        ..Default::default()
    });
    Figure {
        id: "4-threads",
        title: "TPC-C with four warehouses, by threads",
        section: "§6.2.1, §6.4",
        axis: THREADS,
        content: by_threads(scope, &ON_THREADS, workload),
        notes: vec!["New-Order and Payment without inserts, as in DBx1000; warehouses are drawn for each transaction.".into()],
        claims: vec![
            Claim::unreachable("On 80 cores TicToc has 1.8 times Silo's throughput.", FEW_THREADS),
            history(),
        ],
    }
}

fn reads(scope: &Scope) -> Figure {
    Figure {
        id: "6-threads",
        title: "YCSB, read-only, by threads",
        section: "§6.3.1",
        axis: THREADS,
        content: by_threads(scope, &ON_THREADS, keys(scope, "read-only")),
        notes: keys_note(scope),
        claims: vec![
            Claim::new("TicToc and Silo are ahead of those that lock.", |results| {
                optimists_lead(results, results.widest()?)
            }),
            Claim::unreachable("All but Hekaton scale almost linearly to 40 cores.", FEW_THREADS),
        ],
    }
}

fn medium(scope: &Scope) -> Figure {
    let kinds: Vec<Kind> = ON_THREADS.into_iter().chain([Kind::Dta]).collect();
    Figure {
        id: "7-threads",
        title: "YCSB, medium contention, by threads",
        section: "§6.3.2, appendix",
        axis: THREADS,
        content: by_threads(scope, &kinds, keys(scope, "medium")),
        notes: keys_note(scope),
        claims: vec![
            Claim::new(
                "TicToc's abort rate is 3.3 times lower than Silo's; here: at most half.",
                |results| {
                    let x = results.widest()?;
                    let (tictoc, silo) = (results.aborts("tictoc", x)?, results.aborts("silo", x)?);
                    let measured = format!("tictoc {}, silo {}", percent(tictoc), percent(silo));
                    Ok(Finding::new(silo > 0.0 && tictoc * 2.0 <= silo, measured))
                },
            ),
            Claim::new("Hekaton is behind TicToc and Silo.", |results| {
                let x = results.widest()?;
                let optimistic = results.at("tictoc", x)?.min(results.at("silo", x)?);
                let hekaton = results.at("hekaton", x)?;
                Ok(Finding::new(above(optimistic, hekaton), times(optimistic / hekaton)))
            }),
            Claim::new("TicToc is ahead of DTA.", |results| {
                let x = results.widest()?;
                let (tictoc, dta) = (results.at("tictoc", x)?, results.at("dta", x)?);
                Ok(Finding::new(above(tictoc, dta), times(tictoc / dta)))
            }),
        ],
    }
}

fn high(scope: &Scope) -> Figure {
    Figure {
        id: "8-threads",
        title: "YCSB, high contention, by threads",
        section: "§6.3.3, §6.4",
        axis: THREADS,
        content: by_threads(scope, &ON_THREADS, keys(scope, "high")),
        notes: keys_note(scope),
        claims: vec![
            Claim::unreachable("TicToc is ahead of Silo (0.82 M to 0.52 M on 40 cores).", FEW_THREADS),
            history(),
        ],
    }
}

fn ticks(scope: &Scope) -> Figure {
    let most = threads(scope).into_iter().max().unwrap_or(1);
    let series = [Kind::TicToc, Kind::TsAlloc].map(|kind| Series {
        name: kind.name().to_owned(),
        measure: Measure::CommitsPerTick,
        points: [(MEDIUM, "medium"), (HIGH, "high")]
            .map(|(x, preset)| (x, point(keys(scope, preset), kind, most, Isolation::Serializable)))
            .into(),
    });
    Figure {
        id: "11-threads",
        title: "Commits for each tick of logical time, on all threads",
        section: "§6.5",
        axis: Axis { name: "YCSB: 1 medium contention, 2 high", spacing: Spacing::Even },
        content: Content::Points(series.into()),
        notes: keys_note(scope),
        claims: vec![
            one_counter(),
            Claim::new("With medium contention TicToc's grows 64 times slower than commits; here: at least 10.", |results| {
                let ratio = results.at("tictoc", MEDIUM)?;
                Ok(Finding::new(ratio >= 10.0, format!("{ratio:.1} commits a tick")))
            }),
            Claim::new("With high contention it grows 10 times slower.", |results| {
                let ratio = results.at("tictoc", HIGH)?;
                Ok(Finding::new(near(ratio, 10.0), format!("{ratio:.1} commits a tick")))
            })
            .otherwise("a commit that overwrites what was read just before takes a tick of its own, and few threads commit little else in between"),
        ],
    }
}

fn levels(id: &'static str, preset: &str, scope: &Scope) -> Figure {
    let most = threads(scope).into_iter().max().unwrap_or(1);
    let levels = [
        (SERIALIZABLE, Isolation::Serializable),
        (SNAPSHOT, Isolation::Snapshot),
        (REPEATABLE, Isolation::RepeatableRead),
    ];
    let kinds = [Kind::TicToc, Kind::Silo, Kind::Hekaton, Kind::NoWait, Kind::DlDetect];
    let series = kinds.map(|kind| {
        let offered = levels.into_iter().filter(|(_, level)| kind.levels().contains(level));
        let at = |(x, level)| (x, point(keys(scope, preset), kind, most, level));
        Series {
            name: kind.name().to_owned(),
            measure: Measure::Throughput,
            points: offered.map(at).collect(),
        }
    });
    Figure {
        id,
        title: "Isolation levels, on all threads",
        section: "§6.6",
        axis: Axis {
            name: "1 serializable, 2 snapshot isolation, 3 repeatable read",
            spacing: Spacing::Even,
        },
        content: Content::Points(series.into()),
        notes: [format!("YCSB, {preset} contention.")].into_iter().chain(keys_note(scope)).collect(),
        claims: vec![Claim::new("Repeatable read is no slower than serializable.", |results| {
            let mut holds = true;
            let mut list = Vec::new();
            for kind in RIVALS {
                let ratio = results.over(kind.name(), REPEATABLE, SERIALIZABLE)?;
                holds &= ratio > 0.95;
                list.push(format!("{kind} {}", times(ratio)));
            }
            Ok(Finding::new(holds, list.join(", ")))
        })],
    }
}
