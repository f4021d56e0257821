//! DRP's figures on this machine's threads, and what few threads can show.

use super::overhead::{SEQUENTIAL, consistently, elements, elements_note};
use super::settings::to;
use super::stamp::{KMEANS_HI, VACATION_HI, kmeans_of, sizes, vacation_of};
use crate::report::html::chart::Spacing;
use crate::reproduce::figure::{
    Axis, Claim, Content, Figure, Finding, Measure, Scope, Series, Setting, ThreadSetting, ThreadWorkload,
    above, near,
};
use crate::reproduce::settings::{REAL_SMALL, THREADS, threads, times};
use heddledb::Durability;
use heddledb::protocol::{Isolation, Kind};
use heddledb_workloads::stamp::vacation;
use heddledb_workloads::tpcc::{self, Mix};
use heddledb_workloads::{ReadOnly, array};

/// The figures of which this machine's threads can show something.
pub fn figures(scope: &Scope) -> Vec<Figure> {
    vec![numbers(scope), warehouses(scope), one_warehouse(scope), applications(scope)]
}

fn point(workload: ThreadWorkload, kind: Kind, threads: usize) -> Setting {
    Setting::Threads(ThreadSetting {
        workload,
        kind,
        threads,
        durability: Durability::None,
        read_only: if kind == Kind::Ic3 { ReadOnly::Snapshot } else { ReadOnly::Serializable },
        isolation: Isolation::Serializable,
    })
}

const FEW_THREADS: &str = "this machine has fewer; the figure on virtual cores has them";

fn numbers(scope: &Scope) -> Figure {
    let array = |eager, plain| {
        let parameters = array::Parameters { elements: elements(scope), eager, plain, ..Default::default() };
        ThreadWorkload::Array(parameters)
    };
    let curve = |name: &str, kind, workload, counts: &[usize]| Series {
        name: name.to_owned(),
        measure: Measure::Throughput,
        points: counts.iter().map(|&threads| (threads as f64, point(workload, kind, threads))).collect(),
    };
    Figure {
        id: "1-threads",
        title: "The array, by threads",
        section: "§7.1",
        axis: THREADS,
        content: Content::Points(vec![
            curve("drp", Kind::Drp, array(false, false), &threads(scope)),
            curve("silo", Kind::Silo, array(true, false), &threads(scope)),
            curve(SEQUENTIAL, Kind::Unprotected, array(true, true), &[1]),
        ]),
        notes: vec![elements_note(scope)],
        claims: vec![consistently()],
    }
}

fn orders(scope: &Scope, warehouses: usize, mix: Mix, kind: Kind) -> ThreadWorkload {
    ThreadWorkload::Tpcc(tpcc::Parameters {
        warehouses: warehouses as u16,
        mix,
        binding: tpcc::Binding::Random,
        scale: if scope.quick { REAL_SMALL } else { tpcc::Scale::FULL },
        deferred: matches!(kind, Kind::Drp | Kind::Deferred2pl),
        ..Default::default()
    })
}

fn by_threads(scope: &Scope, kinds: &[Kind], workload: impl Fn(Kind, usize) -> ThreadWorkload) -> Content {
    let series = kinds.iter().map(|&kind| {
        let at = |threads: usize| (threads as f64, point(workload(kind, threads), kind, threads));
        let points = threads(scope).into_iter().map(at).collect();
        Series { name: kind.name().to_owned(), measure: Measure::Throughput, points }
    });
    Content::Points(series.collect())
}

fn warehouses(scope: &Scope) -> Figure {
    let kinds = [Kind::Drp, Kind::Silo, Kind::Ic3];
    Figure {
        id: "2-threads",
        title: "TPC-C with as many warehouses as threads",
        section: "§7.2",
        axis: THREADS,
        content: by_threads(scope, &kinds, |kind, threads| orders(scope, threads, Mix::FULL, kind)),
        notes: Vec::new(),
        claims: vec![
            Claim::new("DRP's throughput is similar to OCC's.", |results| {
                let ratio = to(results, "drp", "silo", results.widest()?)?;
                Ok(Finding::new(near(ratio, 1.0), times(ratio)))
            }),
            Claim::unreachable("It is 3.3 times IC3's on 32 threads.", FEW_THREADS),
        ],
    }
}

fn one_warehouse(scope: &Scope) -> Figure {
    let kinds = [Kind::Drp, Kind::Silo, Kind::Ic3, Kind::Deferred2pl];
    Figure {
        id: "3-threads",
        title: "New-Order alone with one warehouse, by threads",
        section: "§7.2",
        axis: THREADS,
        content: by_threads(scope, &kinds, |kind, _| orders(scope, 1, Mix::NEW_ORDER, kind)),
        notes: Vec::new(),
        claims: vec![
            Claim::new("Below 4 threads deferred 2PL has similar performance to DRP.", |results| {
                let ratio = to(results, "drp", "deferred-2pl", results.widest()?.min(2.0))?;
                Ok(Finding::new((1.0 / 1.25..=1.25).contains(&ratio), times(ratio)))
            }),
            Claim::unreachable("DRP achieves up to 6.6 times OCC's throughput.", FEW_THREADS),
        ],
    }
}

fn applications(scope: &Scope) -> Figure {
    let most = threads(scope).into_iter().max().unwrap_or(1);
    let curve = |name: &str, kind: Kind, threads: usize, plain: bool| {
        let means = kmeans_of(scope, true, plain);
        let agency = vacation::Parameters { eager: kind != Kind::Drp, ..vacation_of(scope, true) };
        let points = vec![
            (KMEANS_HI, point(ThreadWorkload::Kmeans(means), kind, threads)),
            (VACATION_HI, point(ThreadWorkload::Vacation(agency), kind, threads)),
        ];
        Series { name: name.to_owned(), measure: Measure::Speed, points }
    };
    Figure {
        id: "8-threads",
        title: "STAMP's applications with high contention, on all threads",
        section: "§7.3",
        axis: Axis { name: "2 kmeans-hi, 4 vacation-hi", spacing: Spacing::Even },
        content: Content::Points(vec![
            curve("drp", Kind::Drp, most, false),
            curve("tl2", Kind::Tl2, most, false),
            curve(SEQUENTIAL, Kind::Unprotected, 1, true),
        ]),
        notes: sizes(scope),
        claims: vec![
            Claim::new("DRP is comparable to STO-TL2 or outperforms it.", |results| {
                let [means, agency] = [KMEANS_HI, VACATION_HI].map(|x| to(results, "drp", "tl2", x));
                let (means, agency) = (means?, agency?);
                let holds = [means, agency].into_iter().all(|ratio| ratio >= 1.0 / 1.5);
                let measured = format!("kmeans-hi {}, vacation-hi {}", times(means), times(agency));
                Ok(Finding::new(holds, measured))
            }),
            Claim::new("Threads speed kmeans-hi up over the sequential program (by the figure).", |results| {
                let ratio = to(results, "drp", SEQUENTIAL, KMEANS_HI)?;
                Ok(Finding::new(above(ratio, 1.0), times(ratio)))
            })
            .otherwise("the sums of a point take a transaction ten times as long as plain additions, and there are few threads to make up for it"),
        ],
    }
}
