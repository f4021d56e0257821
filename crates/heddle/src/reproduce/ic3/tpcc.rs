//! Section 6.3: TPC-C, by warehouses and by cores.

use super::settings::{
    CONTENDERS, LOCKING, MOST, NO_COLLAPSE, SHORT, by_cores, cores, locking, locking_over, lost,
    one_warehouse, point, tpcc_window,
};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::report::percent;
use crate::reproduce::figure::{Axis, Claim, Figure, Finding, Measure, Scope, above, near};
use crate::reproduce::settings::{CORES, SMALL, by_kind, scale_note, times, tpcc, window};
use heddledb_workloads::tpcc;

/// Figure 13a of IC3.
pub fn figure_13a(scope: &Scope) -> Result<Figure, Failure> {
    let content = by_kind(&CONTENDERS, Measure::Throughput, |kind| {
        let at = |&warehouses: &u16| {
            let workload = tpcc(tpcc::Parameters { warehouses, scale: SMALL, ..Default::default() })?;
            let window = window(scope, 64, 128, 2_000, 2_000);
            Ok((f64::from(warehouses), point(&workload, kind, 64, window)))
        };
        [64, 32, 16, 8, 4, 2, 1].iter().map(at).collect()
    })?;
    Ok(Figure {
        id: "13a",
        title: "TPC-C on 64 cores, by warehouses",
        section: "§6.3",
        axis: Axis { name: "warehouses", spacing: Spacing::Falling },
        content,
        notes: vec![
            "A warehouse has 300 customers a district, 10,000 items and 100 orders a district, so that 64 of them fit."
                .into(),
        ],
        claims: vec![
            Claim::new("With 64 warehouses OCC is best: 2PL and IC3 are 15 % below it.", |results| {
                let occ = results.at("silo", 64.0)?;
                let (two, ic3) = (locking(results, 64.0)? / occ, results.at("ic3", 64.0)? / occ);
                let holds = above(1.0, two) && above(1.0, ic3) && near(two, 0.85) && near(ic3, 0.85);
                Ok(Finding::new(holds, format!("2PL has {two:.2} of OCC, IC3 {ic3:.2}")))
            }),
            Claim::new("With 64 warehouses IC3 is 6 % below 2PL.", |results| {
                let ratio = results.at("ic3", 64.0)? / locking(results, 64.0)?;
                let holds = above(1.0, ratio) && near(ratio, 0.94);
                Ok(Finding::new(holds, format!("IC3 has {ratio:.2} of 2PL")))
            }),
            Claim::new("From 64 warehouses to one IC3 loses only 32 % (643 K to 435 K).", |results| {
                let kept = results.over("ic3", 1.0, 64.0)?;
                Ok(Finding::new(near(kept, 0.68), lost(kept)))
            }).otherwise(SHORT),
            Claim::new(
                "With 8 warehouses OCC has lost 64 %, with 63 % aborts; 2PL 59 %; IC3 next to nothing.",
                |results| {
                    let (occ, aborts) = (results.over("silo", 8.0, 64.0)?, results.aborts("silo", 8.0)?);
                    let (two, ic3) = (locking_over(results, 8.0, 64.0)?, results.over("ic3", 8.0, 64.0)?);
                    let kept = above(ic3, two) && above(ic3, occ) && near(occ, 0.36) && near(two, 0.41);
                    let holds = kept && near(aborts, 0.63);
                    let measured = format!(
                        "OCC {} with {} aborts, 2PL {}, IC3 {}",
                        lost(occ),
                        percent(aborts),
                        lost(two),
                        lost(ic3)
                    );
                    Ok(Finding::new(holds, measured))
                },
            ).otherwise(NO_COLLAPSE),
            Claim::new("With 4 warehouses or fewer OCC collapses: more than 99 % aborts, some hundred a second.", |results| {
                let (kept, aborts) = (results.over("silo", 4.0, 64.0)?, results.aborts("silo", 4.0)?);
                let measured = format!("at 4 warehouses silo {} with {} aborts", lost(kept), percent(aborts));
                Ok(Finding::new(kept < 0.05 && aborts > 0.9, measured))
            }).otherwise(NO_COLLAPSE),
            Claim::new("With one warehouse 2PL has lost 93 %.", |results| {
                let kept = locking_over(results, 1.0, 64.0)?;
                Ok(Finding::new(near(kept, 0.07), format!("2PL {}", lost(kept))))
            }).otherwise("it loses more"),
            Claim::new("With one warehouse IC3 is ahead of 2PL and OCC by far.", |results| {
                let ic3 = results.at("ic3", 1.0)?;
                let (two, occ) = (ic3 / locking(results, 1.0)?, ic3 / results.at("silo", 1.0)?);
                Ok(Finding::new(two >= 2.0 && occ >= 2.0, format!("{} 2PL, {} OCC", times(two), times(occ))))
            }).otherwise(NO_COLLAPSE),
        ],
    })
}

/// Figure 13b of IC3.
pub fn figure_13b(scope: &Scope) -> Result<Figure, Failure> {
    let workload = one_warehouse(scope)?;
    Ok(Figure {
        id: "13b",
        title: "TPC-C with one warehouse, by cores",
        section: "§6.3",
        axis: CORES,
        content: by_cores(&CONTENDERS, cores(scope), &workload, |cores| tpcc_window(scope, cores))?,
        notes: scale_note(scope),
        claims: vec![
            Claim::new("IC3 on 64 cores has 22 times its rate on one (19 K to 435 K).", |results| {
                let ratio = results.over("ic3", MOST, 1.0)?;
                Ok(Finding::new(near(ratio, 22.0), times(ratio)))
            })
            .otherwise(SHORT),
            Claim::new("From 32 to 64 cores IC3 grows by only 27 %.", |results| {
                let ratio = results.over("ic3", MOST, 32.0)?;
                Ok(Finding::new(near(ratio, 1.27), times(ratio)))
            }),
            Claim::new("2PL and OCC scale to 4 cores only.", |results| {
                let (two, occ) = (results.scales_to(&LOCKING)?, results.scales_to(&["silo"])?);
                Ok(Finding::new(two <= 4.0 && occ <= 4.0, format!("2PL to {two}, OCC to {occ}")))
            })
            .otherwise(NO_COLLAPSE),
            Claim::new("After 4 cores 2PL hardly changes, and OCC falls drastically.", |results| {
                let (two, occ) = (locking_over(results, MOST, 4.0)?, results.over("silo", MOST, 4.0)?);
                let holds = near(two, 1.0) && occ < 0.5;
                let measured = format!("from 4 to 64 cores 2PL {}, OCC {}", times(two), times(occ));
                Ok(Finding::new(holds, measured))
            })
            .otherwise(NO_COLLAPSE),
            Claim::new("On 64 cores IC3 is about 10 times 2PL (435 K to 43 K at its best).", |results| {
                let (ic3, two) = (results.at("ic3", MOST)?, locking(results, results.scales_to(&LOCKING)?)?);
                let ratio = ic3 / two;
                Ok(Finding::new(near(ratio, 10.0), format!("{} the best of 2PL", times(ratio))))
            }),
        ],
    })
}
