//! Sections 6.4 to 6.6, TPC-C with one warehouse: read-only transactions, durability, factors.

use super::settings::{DBX_TC, DEFERRED, Level, MOST, System, WHOLE, scales_from_4, small_note, to};
use crate::failure::Failure;
use crate::report::{percent, rate};
use crate::reproduce::figure::{
    Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, Series, above,
};
use crate::reproduce::settings::{CORES, times};
use heddledb::protocol::Kind;
use heddledb_workloads::ReadOnly;

const AMONG_WRITERS: System =
    System { name: "dbx-tc, no snapshots", read_only: ReadOnly::Serializable, ..DBX_TC };

/// How transactions that only read are run among the writers.
const ALONE: &str = "Without snapshots a transaction that only reads is a closure, which runs while no call does: among the analysed it would join pieces of \
                     the others.";

const NOT_ON_VIRTUAL_CORES: &str = "virtual cores have no disk, and DBX-TC's regions are executed in software on threads unless they are asked for \
                                    by name";

/// Figure 13a.
pub fn figure_13a(scope: &Scope) -> Result<Figure, Failure> {
    let curves = [DBX_TC, AMONG_WRITERS].map(|system| system.at_level(scope, Level::High, system.name));
    let mut notes = small_note();
    notes.push(ALONE.into());
    Ok(Figure {
        id: "13a",
        title: "TPC-C, one warehouse, with read-only transactions on snapshots and among the writers",
        section: "§6.4",
        axis: CORES,
        content: Content::Points(curves.into_iter().collect::<Result<_, _>>()?),
        notes,
        claims: vec![
            Claim::new("Without snapshots DBX-TC stops scaling after 4 threads.", |results| {
                let (scales, measured) = scales_from_4(results, AMONG_WRITERS.name)?;
                Ok(Finding::new(!scales, measured))
            }),
            Claim::new("With them it goes on to scale.", |results| {
                let (scales, measured) = scales_from_4(results, "dbx-tc")?;
                Ok(Finding::new(scales, measured))
            }),
            Claim::new("Conflict aborts of regions increase 3.3 times at 8 threads without snapshots.", |results| {
                let each = |line: &str| {
                    let regions = results.regions(line, MOST)?;
                    Ok((regions.conflicts + regions.explicit) as f64 / results.at(line, MOST)?)
                };
                let ratio = each(AMONG_WRITERS.name)? / each("dbx-tc")?.max(1e-9);
                Ok(Finding::new(ratio >= 3.3 / 1.5, format!("{} for each transaction", times(ratio))))
            })
            .otherwise(
                "no piece is under way while one of these transactions runs, so they do not meet; and Stock-Level without room would keep nobody away, as \
                 the locks are the records'",
            ),
            Claim::unreachable(
                "With logging DBX-TC outperforms DBX by 39 %, and logging costs it 11 to 16 % (figure 13b).",
                NOT_ON_VIRTUAL_CORES,
            ),
            Claim::unreachable("The latency of an epoch is 114 ms, DBX's 58 ms (figure 13c).", NOT_ON_VIRTUAL_CORES),
        ],
    })
}

const BASE: &str = "htm";
const CHOPPED: &str = "+ chopping";
const SNAPSHOTS: &str = "+ snapshots";
const ITEMS_FIRST: &str = "+ items first";
const ADDS: &str = "+ additions";
const ORDERS_LAST: &str = "+ orders last";
const DEFERRAL: &str = "+ deferral";

/// Whether a step adds something.
pub fn adds(results: &Results, from: &str, to_step: &str) -> Result<Finding, Missing> {
    let ratio = to(results, to_step, from, MOST)?;
    let (before, after) = (rate(results.at(from, MOST)?), rate(results.at(to_step, MOST)?));
    Ok(Finding::new(above(ratio, 1.0), format!("{} ({before} to {after})", times(ratio))))
}

/// The same, and what becomes of regions, where there are some.
fn step(results: &Results, from: &str, to_step: &str) -> Result<Finding, Missing> {
    let Finding { holds, mut measured } = adds(results, from, to_step)?;
    let aborted = |line| results.regions(line, MOST).map(|regions| percent(regions.abort_rate()));
    if let (Ok(before), Ok(after)) = (aborted(from), aborted(to_step)) {
        measured = format!("{measured}; {before} to {after} of the regions abort");
    }
    Ok(Finding { holds, measured })
}

/// Why steps add nothing before deferral.
const ONE_DELIVERY: &str = "a Delivery is one piece of ten districts, of which nearly each execution meets another Delivery: what it adds to customers is seen \
                            by Payments, so it is cut only where that is put off";

/// Figure 14.
pub fn figure_14(scope: &Scope) -> Result<Figure, Failure> {
    let steps = [
        System { name: BASE, ..WHOLE },
        System { name: CHOPPED, items_first: false, ..AMONG_WRITERS },
        System { name: SNAPSHOTS, items_first: false, ..DBX_TC },
        System { name: ITEMS_FIRST, ..DBX_TC },
        System { name: ADDS, delivery_adds: true, ..DBX_TC },
        System { name: ORDERS_LAST, kind: Kind::DbxTc, ..DEFERRED },
        System { name: DEFERRAL, ..DEFERRED },
    ];
    let series = steps.map(|system| {
        let points = vec![(MOST, system.point(scope, 1, MOST as usize)?)];
        Ok(Series { name: system.name.to_owned(), measure: Measure::Throughput, points })
    });
    let mut notes = small_note();
    notes.push(ALONE.into());
    notes.push(
        "The paper's chopping includes the reordering that is a step of its own here, and its table cache, for which there is none, comes before \
         deferred execution. What is put off here are Delivery's additions to what customers owe, and Payment's to the sums of its warehouse and its \
         district."
            .into(),
    );
    Ok(Figure {
        id: "14",
        title: "What each part adds: TPC-C, one warehouse, 8 cores",
        section: "§6.6",
        axis: CORES,
        content: Content::Points(series.into_iter().collect::<Result<_, Failure>>()?),
        notes,
        claims: vec![
            Claim::new("Chopping by the default algorithm adds to whole transactions.", |results| {
                step(results, BASE, CHOPPED)
            }),
            Claim::new("Snapshots add to that.", |results| step(results, CHOPPED, SNAPSHOTS)),
            Claim::new("Reordering adds to that.", |results| step(results, SNAPSHOTS, ITEMS_FIRST))
                .otherwise("fewer regions abort, but what is lost with one is a part of 4 µs"),
            Claim::unreachable("A cache of the tables adds to that.", "it is not built"),
            Claim::new("Deferred execution of Delivery's payments adds to that.", |results| {
                step(results, ORDERS_LAST, DEFERRAL)
            })
            .otherwise(
                "Delivery's pieces lose little to payments here, and what is put off is made by one worker, while no other begins a call",
            ),
            Claim::new("Our own: an order's rows in pieces of their own (figure 11) add to that, before anything is deferred.", |results| {
                step(results, ITEMS_FIRST, ORDERS_LAST)
            })
            .otherwise(ONE_DELIVERY),
            Claim::new("Our own: Deliveries that add to what customers owe, at once and unread, do so alone.", |results| {
                step(results, ITEMS_FIRST, ADDS)
            })
            .otherwise(ONE_DELIVERY),
        ],
    })
}
