//! Section 6.5: what each of IC3's optimisations adds.

use super::settings::{MOST, one_warehouse, point, tpcc_window};
use crate::failure::Failure;
use crate::report::rate;
use crate::reproduce::figure::{
    Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, Series, above, near,
};
use crate::reproduce::settings::{CORES, scale, scale_note, times, tpcc};
use heddledb::protocol::Kind;
use heddledb_workloads::tpcc::{self, Mix};

/// What the full mix is bound by.
const BOUND: &str =
    "the full mix is bound by the first piece of Delivery, which all variants execute one at a time";

/// Figure 16a of IC3.
pub fn figure_16a(scope: &Scope) -> Result<Figure, Failure> {
    let workload = one_warehouse(scope)?;
    let steps = [
        ("basic", Kind::Ic3Basic),
        ("+ optimistic", Kind::Ic3Optimistic),
        ("+ commutative", Kind::Ic3NoRendezvous),
        ("+ rendezvous", Kind::Ic3),
    ];
    let series = steps.map(|(name, kind)| Series {
        name: name.to_owned(),
        measure: Measure::Throughput,
        points: vec![(MOST, point(&workload, kind, 64, tpcc_window(scope, 64)))],
    });
    Ok(Figure {
        id: "16a",
        title: "What each optimisation adds: TPC-C with one warehouse on 64 cores",
        section: "§6.5",
        axis: CORES,
        content: Content::Points(series.into()),
        notes: scale_note(scope),
        claims: vec![
            Claim::new(
                "Optimistic constraint adds 32 % to the basic protocol (224 K to 296 K).",
                |results| step(results, "basic", "+ optimistic", 1.32),
            )
            .otherwise(BOUND),
            Claim::new(
                "Commutative operations add 40 % to that (296 K to 435 K, which is 47 %).",
                |results| step(results, "+ optimistic", "+ commutative", 1.47),
            ),
            Claim::new("All together nearly double the basic protocol (224 K to 435 K).", |results| {
                step(results, "basic", "+ rendezvous", 1.94)
            })
            .otherwise(BOUND),
        ],
    })
}

/// Whether a step adds what the paper's does.
fn step(results: &Results, from: &str, to: &str, paper: f64) -> Result<Finding, Missing> {
    let ratio = results.at(to, MOST)? / results.at(from, MOST)?;
    let measured =
        format!("{} ({} to {})", times(ratio), rate(results.at(from, MOST)?), rate(results.at(to, MOST)?));
    Ok(Finding::new(above(ratio, 1.0) && near(ratio, paper), measured))
}

/// Figure 16b of IC3.
pub fn figure_16b(scope: &Scope) -> Result<Figure, Failure> {
    let parameters = tpcc::Parameters {
        mix: Mix([50, 0, 50, 0, 0]),
        last_order_status: true,
        scale: scale(scope),
        ..Default::default()
    };
    let workload = tpcc(parameters)?;
    let steps = [("without rendezvous", Kind::Ic3NoRendezvous), ("+ rendezvous", Kind::Ic3)];
    let series = steps.map(|(name, kind)| Series {
        name: name.to_owned(),
        measure: Measure::Throughput,
        points: vec![(MOST, point(&workload, kind, 64, tpcc_window(scope, 64)))],
    });
    Ok(Figure {
        id: "16b",
        title: "Rendezvous pieces: half New-Order, half last-order-status on 64 cores",
        section: "§6.5",
        axis: CORES,
        content: Content::Points(series.into()),
        notes: scale_note(scope),
        claims: vec![Claim::new("Rendezvous pieces add 23 % (235 K to 289 K).", |results| {
            step(results, "without rendezvous", "+ rendezvous", 1.23)
        }).otherwise("most attempts that fail, with them and without, do so for scans that end in the leaf which the next orders go to (phantoms); what they wait for matters less")],
    })
}
