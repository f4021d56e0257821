//! Sections 6.4 and 6.6 again, with one thing changed: one lock for all, and one type of transaction alone.

use super::causes::{AXIS, by_warehouses};
use super::settings::{DBX_TC, MOST, System, WHOLE, small_note};
use super::snapshots::adds;
use crate::failure::Failure;
use crate::report::percent;
use crate::reproduce::figure::{
    Claim, Content, Figure, Finding, Measure, Missing, NEAR, Results, Scope, Series,
};
use crate::reproduce::settings::{CORES, times};
use heddledb::protocol::Kind;
use heddledb_workloads::ReadOnly;
use heddledb_workloads::tpcc::{Mix, Scale};

const ON_SNAPSHOTS: System = System { name: "snapshots", read_only: ReadOnly::Snapshot, ..WHOLE };
const AMONG_WRITERS: System = System { name: "no snapshots", ..WHOLE };

/// How many regions others end for each transaction without snapshots, over how many with them.
fn ended_by_others(results: &Results, warehouses: f64) -> Result<f64, Missing> {
    let each = |line: &str| {
        let regions = results.regions(line, warehouses)?;
        Ok((regions.conflicts + regions.explicit) as f64 / results.at(line, warehouses)?)
    };
    Ok(each(AMONG_WRITERS.name)? / each(ON_SNAPSHOTS.name)?.max(1e-9))
}

/// Figure 13a with one lock for what fits in no region.
pub fn one_lock(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "13a-why",
        title: "TPC-C on 8 cores, whole transactions in regions, one lock for all: with snapshots and without",
        section: "§6.4",
        axis: AXIS,
        content: by_warehouses(scope, &[ON_SNAPSHOTS, AMONG_WRITERS])?,
        notes: small_note(),
        claims: vec![
            Claim::new("Conflict aborts of regions increase 3.3 times without snapshots, as one lock keeps all away.", |results| {
                let (low, high) = (ended_by_others(results, 8.0)?, ended_by_others(results, 1.0)?);
                let measured = format!("{} with low contention, {} with high", times(low), times(high));
                Ok(Finding::new(low >= 3.3 / NEAR, measured))
            })
            .otherwise("one lock for all is a part of it at most; what brings the rest in the paper is not known"),
        ],
    })
}

/// With tables of full size.
const fn alone(name: &'static str, mix: Mix) -> System {
    System { name, mix, scale: Scale::FULL, ..DBX_TC }
}

const PAYMENTS: System = alone("payments", Mix::PAYMENT);
const PAYMENTS_DEFERRED: System =
    System { name: "payments, + deferral", kind: Kind::DbxTcDeferred, ..PAYMENTS };
const ITEMS_FIRST: System = alone("new-orders, + items first", Mix::NEW_ORDER);
const ORDERS: System = System { name: "new-orders", items_first: false, ..ITEMS_FIRST };

/// Whether a step spares at least a third of the aborts of regions.
fn spares(results: &Results, from: &str, to_step: &str) -> Result<Finding, Missing> {
    let share = |line: &str| Ok(results.regions(line, MOST)?.abort_rate());
    let (before, after) = (share(from)?, share(to_step)?);
    let measured = format!("{} to {} of the regions abort", percent(before), percent(after));
    Ok(Finding::new(after <= before * 2.0 / 3.0, measured))
}

/// Figure 14's last steps, for the type alone that they are about.
pub fn alone_steps(scope: &Scope) -> Result<Figure, Failure> {
    let series = [PAYMENTS, PAYMENTS_DEFERRED, ORDERS, ITEMS_FIRST].map(|system| {
        let points = vec![(MOST, system.point(scope, 1, MOST as usize)?)];
        Ok(Series { name: system.name.to_owned(), measure: Measure::Throughput, points })
    });
    Ok(Figure {
        id: "14-why",
        title: "What deferral and reordering add where one type runs alone: TPC-C, one warehouse, 8 cores",
        section: "§6.6",
        axis: CORES,
        content: Content::Points(series.into_iter().collect::<Result<_, Failure>>()?),
        notes: vec![
            "Tables of full size. Of 300 customers a district deferral loses 22 %, and of full size in 20 ms it gains 5 %: the longer Payments run alone, \
             the more of the commits wait for lines that others write."
                .into(),
        ],
        claims: vec![
            Claim::new("Deferred execution adds to that (Payments alone).", |results| {
                adds(results, PAYMENTS.name, PAYMENTS_DEFERRED.name)
            }),
            Claim::new("Our own: deferral spares regions a third of their aborts or more (Payments alone).", |results| {
                spares(results, PAYMENTS.name, PAYMENTS_DEFERRED.name)
            }),
            Claim::new("Reordering adds to that (New-Orders alone).", |results| {
                adds(results, ORDERS.name, ITEMS_FIRST.name)
            })
            .otherwise("regions are spared, and throughput does not follow: what is lost with one is cheap, and one that aborts again is executed in software"),
            Claim::new("Our own: reordering spares regions a third of their aborts or more (New-Orders alone).", |results| {
                spares(results, ORDERS.name, ITEMS_FIRST.name)
            }),
        ],
    })
}
