//! Section 6.6: what a log costs, on this machine's threads.

use super::settings::{locking, lost};
use crate::report::microseconds;
use crate::reproduce::figure::{
    Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, Series, Setting, ThreadSetting,
    ThreadWorkload,
};
use crate::reproduce::settings::{REAL_SMALL, THREADS, threads};
use heddledb::Durability;
use heddledb::protocol::{Isolation, Kind};
use heddledb_workloads::{ReadOnly, tpcc};

const DURABLE: [Kind; 4] = [Kind::Ic3, Kind::WaitDie, Kind::NoWait, Kind::Silo];

fn durable(low: bool, scope: &Scope, measure: Measure, logs: &[Durability]) -> Vec<Series> {
    let mut all = Vec::new();
    for kind in DURABLE {
        for &durability in logs {
            let at = |&threads: &usize| {
                let warehouses = if low { threads as u16 } else { 1 };
                let scale = if scope.quick { REAL_SMALL } else { tpcc::Scale::FULL };
                let workload = tpcc::Parameters { warehouses, scale, ..Default::default() };
                let setting = ThreadSetting {
                    workload: ThreadWorkload::Tpcc(workload),
                    kind,
                    threads,
                    durability,
                    read_only: ReadOnly::Snapshot,
                    isolation: Isolation::Serializable,
                };
                (threads as f64, Setting::Threads(setting))
            };
            let name = match durability {
                Durability::None => kind.name().to_owned(),
                _ => format!("{}+log", kind.name()),
            };
            all.push(Series { name, measure, points: threads(scope).iter().map(at).collect() });
        }
    }
    all
}

const FEW_THREADS: &str = "this machine has fewer threads, and the simulation has no disk";

/// What is kept of the rate with a log, on the most threads.
fn kept_with_log(results: &Results, name: &str) -> Result<f64, Missing> {
    let x = results.widest()?;
    Ok(results.at(&format!("{name}+log"), x)? / results.at(name, x)?)
}

/// Figure 18a or 18b: throughput with a log and without.
pub fn figure_18(id: &'static str, scope: &Scope) -> Figure {
    let low = id == "18a";
    let series = durable(low, scope, Measure::Throughput, &[Durability::None, Durability::Epoch]);
    let claims = if low {
        vec![
            Claim::new("Durability costs IC3 5.59 %.", |results| {
                let kept = kept_with_log(results, "ic3")?;
                Ok(Finding::new((0.85..=1.1).contains(&kept), format!("IC3 {}", lost(kept))))
            }),
            Claim::unreachable("IC3, 2PL and OCC with durability scale to 16 cores.", FEW_THREADS),
        ]
    } else {
        vec![
            Claim::new("Durability has an insignificant influence on IC3 and 2PL.", |results| {
                let ic3 = kept_with_log(results, "ic3")?;
                let x = results.widest()?;
                let two = results.best(&["wait-die+log", "no-wait+log"], x)? / locking(results, x)?;
                let measured = format!("IC3 {}, 2PL {}", lost(ic3), lost(two));
                // A rate that rises with a log was disturbed without it.
                let small = 0.9..=1.1;
                Ok(Finding::new(small.contains(&ic3) && small.contains(&two), measured))
            }),
            Claim::unreachable(
                "OCC with or without durability does not scale beyond 4 threads.",
                FEW_THREADS,
            ),
        ]
    };
    Figure {
        id,
        title: if low {
            "Durability, low contention: throughput of TPC-C"
        } else {
            "Durability, high contention: throughput of TPC-C"
        },
        section: "§6.6",
        axis: THREADS,
        content: Content::Points(series),
        notes: durable_notes(low),
        claims,
    }
}

fn durable_notes(low: bool) -> Vec<String> {
    let warehouses = if low { "A warehouse for each thread." } else { "One warehouse." };
    vec![format!(
        "{warehouses} On this machine's threads and its disk, medians; the log is acknowledged by epoch, so a transaction \
         is durable some epochs after its commit."
    )]
}

/// Figure 19a or 19b: latency with a log.
pub fn figure_19(id: &'static str, scope: &Scope) -> Figure {
    let low = id == "19a";
    let series = durable(low, scope, Measure::Latency, &[Durability::Epoch]);
    let claims = if low {
        vec![Claim::unreachable(
            "With durability the latencies of OCC, 2PL and IC3 are alike and stable up to 16 cores.",
            FEW_THREADS,
        )]
    } else {
        vec![
            Claim::new("The latency of IC3 is stable as cores are added.", |results| {
                let (x, one) = (results.widest()?, results.at("ic3+log", 1.0)?);
                let (many, ratio) = (results.at("ic3+log", x)?, results.over("ic3+log", x, 1.0)?);
                let measured = format!("{} on one thread, {} on {x}", microseconds(one), microseconds(many));
                if x < 2.0 {
                    return Err(Missing("second thread".into()));
                }
                Ok(Finding::new(ratio <= 1.5, measured))
            }),
            Claim::unreachable(
                "Under high contention the latency of OCC rises notably with the cores.",
                FEW_THREADS,
            ),
        ]
    };
    Figure {
        id,
        title: if low {
            "Durability, low contention: latency of TPC-C"
        } else {
            "Durability, high contention: latency of TPC-C"
        },
        section: "§6.6",
        axis: THREADS,
        content: Content::Points(series),
        notes: durable_notes(low),
        claims,
    }
}
