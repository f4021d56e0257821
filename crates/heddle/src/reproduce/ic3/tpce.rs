//! Section 6.8: TPC-E, by contention and by cores.

use super::settings::{MOST, NO_COLLAPSE, by_cores, cores, lost, point};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::report::percent;
use crate::reproduce::figure::{Axis, Claim, Figure, Finding, Measure, Scope, above, near};
use crate::reproduce::settings::{CORES, by_kind, times, unusable};
use heddledb::protocol::Kind;
use heddledb_simulator::point::Subject;
use heddledb_workloads::tpce::{self, Tpce};
use std::time::Duration;

fn tpce(scope: &Scope, security_range: Option<u32>) -> Result<Subject, Failure> {
    let customers = if scope.quick { 200 } else { 1000 };
    let parameters = tpce::Parameters { customers, security_range, ..Default::default() };
    Ok(Tpce::new(parameters).map_err(unusable)?.into())
}

fn tpce_note(scope: &Scope) -> String {
    let customers = if scope.quick { 200 } else { 1000 };
    format!("{customers} customers instead of 5000; conflicts by the number of securities that are traded.")
}

/// As long on few cores as on many: what follows from a trade comes later, so the mix depends on the time.
fn tpce_window(scope: &Scope) -> Duration {
    Duration::from_millis(if scope.quick { 3 } else { 8 })
}

/// Figure 21a of IC3.
pub fn figure_21a(scope: &Scope) -> Result<Figure, Failure> {
    let all = if scope.quick { 137 } else { 685 };
    let content = by_kind(&[Kind::Ic3, Kind::Silo], Measure::Throughput, |kind| {
        let at = |range: u32| {
            let workload = tpce(scope, (range < all).then_some(range))?;
            Ok((f64::from(range), point(&workload, kind, 64, tpce_window(scope))))
        };
        [all, 100, 30, 10, 3, 1].into_iter().map(at).collect()
    })?;
    Ok(Figure {
        id: "21a",
        title: "TPC-E's types that write on 64 cores, by contention",
        section: "§6.8",
        axis: Axis { name: "securities that are traded", spacing: Spacing::Falling },
        content,
        notes: vec![tpce_note(scope)],
        claims: vec![
            Claim::new("With all in one security (70 % conflicts) IC3 loses only 14 %.", |results| {
                let kept = results.over("ic3", 1.0, results.widest()?)?;
                Ok(Finding::new(near(kept, 0.86), format!("IC3 {}", lost(kept))))
            }),
            Claim::new("There OCC falls to a seventh or less (to 2 K), with 95 % aborts.", |results| {
                let (kept, aborts) =
                    (results.over("silo", 1.0, results.widest()?)?, results.aborts("silo", 1.0)?);
                let measured = format!("OCC {} with {} aborts", lost(kept), percent(aborts));
                Ok(Finding::new(kept <= 1.5 / 7.0 && aborts > 0.8, measured))
            })
            .otherwise(NO_COLLAPSE),
            Claim::new("There IC3 is far ahead of OCC.", |results| {
                let ratio = results.at("ic3", 1.0)? / results.at("silo", 1.0)?;
                Ok(Finding::new(ratio >= 2.0, format!("{} OCC", times(ratio))))
            })
            .otherwise(NO_COLLAPSE),
        ],
    })
}

/// Figure 21b of IC3.
pub fn figure_21b(scope: &Scope) -> Result<Figure, Failure> {
    let workload = tpce(scope, Some(1))?;
    Ok(Figure {
        id: "21b",
        title: "TPC-E's types that write, all in one security, by cores",
        section: "§6.8",
        axis: CORES,
        content: by_cores(&[Kind::Ic3, Kind::Silo], cores(scope), &workload, |_| tpce_window(scope))?,
        notes: vec![tpce_note(scope)],
        claims: vec![
            Claim::new("IC3 grows 15 times from one core to 32 (8 K to 123 K).", |results| {
                let ratio = results.over("ic3", 32.0, 1.0)?;
                Ok(Finding::new(near(ratio, 15.4), times(ratio)))
            }),
            Claim::new(
                "IC3 does not scale beyond 32 cores (as all memory is on one NUMA node).",
                |results| {
                    let to = results.scales_to(&["ic3"])?;
                    Ok(Finding::new(to <= 32.0, format!("it scales to {to}")))
                },
            ),
            Claim::new("OCC degrades after 8 cores.", |results| {
                let (to, ratio) = (results.scales_to(&["silo"])?, results.over("silo", MOST, 8.0)?);
                let measured = format!("it scales to {to}; from 8 to 64 cores {}", times(ratio));
                Ok(Finding::new(above(1.0, ratio), measured))
            })
            .otherwise(NO_COLLAPSE),
        ],
    })
}
