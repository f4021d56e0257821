//! Section 6.7: user aborts in the microbenchmark, and the cascades that they cause.

use super::settings::{ALL_ROWS, MOST, cores, lost, micro, micro_note, micro_window, point, rows};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::report::percent;
use crate::reproduce::figure::{
    Axis, Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, Series, above, near,
};
use crate::reproduce::settings::CORES;
use heddledb::protocol::Kind;

/// Percentages of user aborts.
const GIVING_UP: [u32; 3] = [0, 5, 10];

/// Figure 20a of IC3.
pub fn figure_20a(scope: &Scope) -> Result<Figure, Failure> {
    let rates = [("no conflicts", ALL_ROWS), ("5 % conflicts", 20), ("10 % conflicts", 10)];
    let series = rates.into_iter().map(|(name, choice)| {
        let at = |pct: u32| {
            let workload = micro(scope, choice, pct)?;
            Ok((f64::from(pct), point(&workload, Kind::Ic3, 64, micro_window(scope, 64))))
        };
        let points = GIVING_UP.into_iter().map(at).collect::<Result<_, Failure>>()?;
        Ok(Series { name: name.to_owned(), measure: Measure::Throughput, points })
    });
    Ok(Figure {
        id: "20a",
        title: "User aborts: IC3 in the microbenchmark on 64 cores",
        section: "§6.7",
        axis: Axis { name: "user aborts, %", spacing: Spacing::Even },
        content: Content::Points(series.collect::<Result<_, Failure>>()?),
        notes: vec![micro_note(rows(scope))],
        claims: vec![
            Claim::new(
                "Without conflicts 10 % user aborts cost about 4 % (102 K to 89 K as printed, 13 %).",
                |results| {
                    let kept = results.over("no conflicts", 10.0, 0.0)?;
                    Ok(Finding::new((0.85..=0.98).contains(&kept), lost(kept)))
                },
            ),
            Claim::new("With 5 % conflicts they cost 20 %, and 37 % of the attempts abort.", |results| {
                cascades(results, "5 % conflicts", 0.8, 0.37)
            })
            .otherwise(
                "most workers stand in line at the few rows of a scope here, so who gives up takes more of them along",
            ),
            Claim::new(
                "With 10 % conflicts they cost 30 % (105 K to 75 K), and 55 % of the attempts abort.",
                |results| cascades(results, "10 % conflicts", 0.7, 0.55),
            )
            .otherwise(
                "most workers stand in line at the few rows of a scope here, so who gives up takes more of them along",
            ),
        ],
    })
}

/// Whether what is kept under 10 % user aborts, and the share of attempts that abort, are the paper's.
fn cascades(results: &Results, line: &str, kept: f64, aborts: f64) -> Result<Finding, Missing> {
    let (kept_here, aborts_here) = (results.over(line, 10.0, 0.0)?, results.all_aborts(line, 10.0)?);
    let holds = near(kept_here, kept) && near(aborts_here, aborts) && above(1.0, kept_here);
    Ok(Finding::new(holds, format!("{}; {} of the attempts abort", lost(kept_here), percent(aborts_here))))
}

/// Figure 20b of IC3.
pub fn figure_20b(scope: &Scope) -> Result<Figure, Failure> {
    let series = GIVING_UP.into_iter().map(|pct| {
        let workload = micro(scope, 10, pct)?;
        let at =
            |&cores: &usize| (cores as f64, point(&workload, Kind::Ic3, cores, micro_window(scope, cores)));
        let points = cores(scope).iter().map(at).collect();
        Ok(Series { name: format!("{pct} % user aborts"), measure: Measure::Throughput, points })
    });
    Ok(Figure {
        id: "20b",
        title: "User aborts: IC3 in the microbenchmark at a scope of 10, by cores",
        section: "§6.7",
        axis: CORES,
        content: Content::Points(series.collect::<Result<_, Failure>>()?),
        notes: vec![micro_note(rows(scope))],
        claims: vec![
            Claim::new(
                "Below 8 cores the rates are alike: 10 % user aborts bring 2 % cascades.",
                |results| {
                    let kept = results.at("10 % user aborts", 4.0)? / results.at("0 % user aborts", 4.0)?;
                    let cascades = results.aborts("10 % user aborts", 4.0)?;
                    let measured =
                        format!("on 4 cores {}, {} of the attempts cascade", lost(kept), percent(cascades));
                    Ok(Finding::new(kept >= 0.85 && cascades <= 0.05, measured))
                },
            )
            .otherwise("on 4 cores transactions already stand in line at the ten rows of a scope"),
            Claim::new("On 64 cores 5 % user aborts cost 15 %, 10 % cost 30 %.", |results| {
                let kept = |line| Ok(results.at(line, MOST)? / results.at("0 % user aborts", MOST)?);
                let (five, ten) = (kept("5 % user aborts")?, kept("10 % user aborts")?);
                let holds = near(five, 0.85) && near(ten, 0.7) && above(five, ten) && above(1.0, five);
                let measured = format!("5 %: {}, 10 %: {}", lost(five), lost(ten));
                Ok(Finding::new(holds, measured))
            }),
        ],
    })
}
