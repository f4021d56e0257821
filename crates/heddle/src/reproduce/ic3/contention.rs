//! Section 6.2: the microbenchmark, by contention, by cores, and by the number of pieces.

use super::settings::{
    ALL_ROWS, CONTENDERS, FEW_ROWS, LOCKING, MOST, SHORT_MICRO, by_cores, cores, locking, locking_over, lost,
    micro, micro_note, micro_of, micro_window, point, rows,
};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::report::percent;
use crate::reproduce::figure::{
    Axis, Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, Series, above, near,
};
use crate::reproduce::settings::{CORES, by_kind, times};
use heddledb::protocol::Kind;
use heddledb_workloads::micro;

/// Figure 12a of IC3.
pub fn figure_12a(scope: &Scope) -> Result<Figure, Failure> {
    let choices = [rows(scope), 10_000, 1000, 100, 50, 10];
    let content = by_kind(&CONTENDERS, Measure::Throughput, |kind| {
        let at = |choice: u64| {
            let workload = micro(scope, choice, 0)?;
            Ok((choice as f64, point(&workload, kind, 64, micro_window(scope, 64))))
        };
        choices.into_iter().map(at).collect()
    })?;
    Ok(Figure {
        id: "12a",
        title: "Microbenchmark of ten pieces on 64 cores, by contention",
        section: "§6.2",
        axis: Axis { name: "scope: from how many rows a piece draws its first", spacing: Spacing::Falling },
        content,
        notes: vec![micro_note(rows(scope))],
        claims: vec![
            Claim::new(
                "With nearly no contention IC3 is 15 % below 2PL and OCC (167 K to 196 K and 189 K).",
                |results| {
                    let x = results.widest()?;
                    let ic3 = results.at("ic3", x)?;
                    let (two, occ) = (ic3 / locking(results, x)?, ic3 / results.at("silo", x)?);
                    let holds = above(1.0, two) && above(1.0, occ) && near(two, 0.85) && near(occ, 0.88);
                    Ok(Finding::new(holds, format!("IC3 has {two:.2} of 2PL, {occ:.2} of OCC")))
                },
            ).otherwise("entering 40 updates among the accessors and leaving takes IC3 20 k cycles a transaction, where silo takes 8 k in all"),
            Claim::new(
                "At a scope of 100 (1 %) IC3 keeps its rate (167 K), 2PL loses 23 % (149 K), OCC 52 % (93 K).",
                |results| {
                    let x = results.widest()?;
                    let (ic3, occ) = (results.over("ic3", 100.0, x)?, results.over("silo", 100.0, x)?);
                    let two = locking_over(results, 100.0, x)?;
                    let holds = ic3 >= 0.9 && above(ic3, two) && above(two, occ) && near(two, 0.77) && near(occ, 0.48);
                    Ok(Finding::new(
                        holds,
                        format!("IC3 {}, 2PL {}, OCC {}", lost(ic3), lost(two), lost(occ)),
                    ))
                },
            ).otherwise(SHORT_MICRO),
            Claim::new("At a scope of 100 OCC aborts 65 % of its attempts.", |results| {
                let aborts = results.aborts("silo", 100.0)?;
                Ok(Finding::new(near(aborts, 0.65), format!("{} of silo's attempts", percent(aborts))))
            }),
            Claim::new(
                "At a scope of 10 (10 %) IC3 loses 45 % (90 K of 167 K), 2PL 86 %, OCC 90 %.",
                |results| {
                    let x = results.widest()?;
                    let (ic3, occ) = (results.over("ic3", 10.0, x)?, results.over("silo", 10.0, x)?);
                    let two = locking_over(results, 10.0, x)?;
                    let order = above(ic3, two) && above(ic3, occ);
                    let holds = order && near(ic3, 0.54) && two <= 0.14 * 1.5 && occ <= 0.1 * 1.5;
                    Ok(Finding::new(
                        holds,
                        format!("IC3 {}, 2PL {}, OCC {}", lost(ic3), lost(two), lost(occ)),
                    ))
                },
            ).otherwise(SHORT_MICRO),
            Claim::new(
                "At a scope of 10 IC3 is ahead: 3.3 times 2PL (90 K to 27 K), 5 times OCC (18 K).",
                |results| {
                    let ic3 = results.at("ic3", 10.0)?;
                    let (two, occ) = (ic3 / locking(results, 10.0)?, ic3 / results.at("silo", 10.0)?);
                    let holds = above(two, 1.0) && above(occ, 1.0) && two >= 3.3 / 1.5 && occ >= 5.0 / 1.5;
                    Ok(Finding::new(holds, format!("{} 2PL, {} OCC", times(two), times(occ))))
                },
            ).otherwise(SHORT_MICRO),
        ],
    })
}

/// Figure 12b of IC3.
pub fn figure_12b(scope: &Scope) -> Result<Figure, Failure> {
    let workload = micro(scope, 10, 0)?;
    Ok(Figure {
        id: "12b",
        title: "Microbenchmark of ten pieces at a scope of 10, by cores",
        section: "§6.2",
        axis: CORES,
        content: by_cores(&CONTENDERS, cores(scope), &workload, |cores| micro_window(scope, cores))?,
        notes: vec![micro_note(rows(scope))],
        claims: vec![
            Claim::new("IC3 keeps growing to 64 cores.", |results| {
                let (to, step) = (results.scales_to(&["ic3"])?, results.over("ic3", MOST, 32.0)?);
                Ok(Finding::new(
                    above(step, 1.0),
                    format!("{} from 32 to 64 cores; 95 % of the highest rate at {to}", times(step)),
                ))
            }),
            Claim::new("On 64 cores IC3 has 9 times the rate of one (9.9 K to 90 K).", |results| {
                let ratio = results.over("ic3", MOST, 1.0)?;
                Ok(Finding::new(near(ratio, 9.0), times(ratio)))
            })
            .otherwise(SHORT_MICRO),
            Claim::new("2PL and OCC scale to 16 cores only.", |results| {
                let (two, occ) = (results.scales_to(&LOCKING)?, results.scales_to(&["silo"])?);
                Ok(Finding::new(two <= 16.0 && occ <= 16.0, format!("2PL to {two}, OCC to {occ}")))
            }),
            Claim::new("On 64 cores 2PL has 3 times its rate on one, OCC 1.5 times.", |results| {
                let (two, occ) = (locking_over(results, MOST, 1.0)?, results.over("silo", MOST, 1.0)?);
                let measured = format!("2PL {}, OCC {}", times(two), times(occ));
                Ok(Finding::new(near(two, 3.0) && near(occ, 1.5), measured))
            }),
        ],
    })
}

/// What the text says of other lengths.
pub fn lengths(scope: &Scope) -> Result<Figure, Failure> {
    let pieces = [2usize, 10, 64];
    let series = |name: &str, choice: u64, cores: usize| -> Result<Series, Failure> {
        let at = |&pieces: &usize| {
            let parameters =
                micro::Parameters { pieces, rows: FEW_ROWS, scope: choice, ..Default::default() };
            // As many transactions of 64 pieces as of ten.
            let window = micro_window(scope, cores) * pieces.div_ceil(10) as u32;
            Ok((pieces as f64, point(&micro_of(parameters)?, Kind::Ic3, cores, window)))
        };
        let points = pieces.iter().map(at).collect::<Result<_, Failure>>()?;
        Ok(Series { name: name.to_owned(), measure: Measure::Throughput, points })
    };
    Ok(Figure {
        id: "12-length",
        title: "IC3 by the number of pieces (in the text)",
        section: "§6.2",
        axis: Axis { name: "pieces of a transaction", spacing: Spacing::Logarithmic },
        content: Content::Points(vec![
            series("64 cores, no contention", ALL_ROWS, 64)?,
            series("64 cores, scope 10", 10, 64)?,
            series("1 core, scope 10", 10, 1)?,
        ]),
        notes: vec![micro_note(FEW_ROWS)],
        claims: vec![
            Claim::new(
                "Two pieces: IC3 loses 70 % from no contention to 10 % (1350 K to 410 K).",
                |results| {
                    let kept = results.at("64 cores, scope 10", 2.0)?
                        / results.at("64 cores, no contention", 2.0)?;
                    Ok(Finding::new(near(kept, 0.3), lost(kept)))
                },
            )
            .otherwise(SHORT_MICRO),
            Claim::new(
                "Two pieces at 10 %: 64 cores have 10 times the rate of one (43 K to 410 K).",
                |results| {
                    let ratio = speed_up(results, 2.0)?;
                    Ok(Finding::new(near(ratio, 9.5), times(ratio)))
                },
            )
            .otherwise(SHORT_MICRO),
            Claim::new(
                "Longer transactions gain more from cores (2 pieces 10 times, 10 pieces 9, 64 pieces 15).",
                |results| {
                    let (short, long) = (speed_up(results, 2.0)?, speed_up(results, 64.0)?);
                    let measured = format!("2 pieces {}, 64 pieces {}", times(short), times(long));
                    Ok(Finding::new(above(long, short), measured))
                },
            ),
            Claim::new("64 pieces: IC3 loses 37 % from no contention to 10 % (23 K to 15 K).", |results| {
                let kept =
                    results.at("64 cores, scope 10", 64.0)? / results.at("64 cores, no contention", 64.0)?;
                Ok(Finding::new(near(kept, 0.63), lost(kept)))
            })
            .otherwise(SHORT_MICRO),
            Claim::new(
                "64 pieces at 10 %: 64 cores have 15 times the rate of one (1 K to 15 K).",
                |results| {
                    let ratio = speed_up(results, 64.0)?;
                    Ok(Finding::new(near(ratio, 15.0), times(ratio)))
                },
            )
            .otherwise(SHORT_MICRO),
        ],
    })
}

fn speed_up(results: &Results, pieces: f64) -> Result<f64, Missing> {
    Ok(results.at("64 cores, scope 10", pieces)? / results.at("1 core, scope 10", pieces)?)
}
