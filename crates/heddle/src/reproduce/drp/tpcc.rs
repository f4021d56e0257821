//! Section 7.2: TPC-C beside OCC and IC3, by cores and by warehouses.

use super::settings::{
    DRP, DRP_ON_SNAPSHOTS, FOUR_SOCKETS, IC3, MADE_IN_TURN, MOST, OCC, Rival, WILD_AND_IN_TURN, most, orders,
    to, tpcc_window, up_to, without_inserts,
};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::report::{microseconds, percent};
use crate::reproduce::figure::{Axis, Claim, Content, Figure, Finding, Measure, Scope, Series, above, near};
use crate::reproduce::settings::{CORES, SMALL, scale_note, times};
use heddledb_workloads::tpcc::{self, Mix};

/// Why OCC does better.
const NO_COLLAPSE: &str = "this silo does not collapse on one socket, where a line goes from any core to any other in 120 cycles; on four sockets, \
                           where that takes 300 for three of four, it stands still: see the figures 3a-why and 3b-why";
/// Why there is little to gain.
const SHORT: &str = "half of silo's attempts abort, but a transaction takes 2 µs here and 14 in the paper: we suppose that the less an attempt \
                     costs, the less queueing has to gain";

const RIVALS: [Rival; 3] = [DRP, OCC, IC3];

/// As many warehouses as cores.
fn constant_ratio(scope: &Scope, mix: Mix) -> Result<Content, Failure> {
    let parameters = |cores: usize| tpcc::Parameters { scale: SMALL, ..orders(scope, cores as u16, mix) };
    let series = RIVALS.iter().map(|rival| rival.by_cores(scope, Measure::Throughput, parameters));
    Ok(Content::Points(series.collect::<Result<_, Failure>>()?))
}

/// Says how many rows there are.
fn small_note() -> Vec<String> {
    vec![
        "A warehouse has 300 customers a district, 10,000 items and 100 orders a district. Each transaction draws its warehouse."
            .into(),
    ]
}

/// Figure 2a.
pub fn figure_2a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "2a",
        title: "TPC-C with as many warehouses as cores",
        section: "§7.2",
        axis: CORES,
        content: constant_ratio(scope, Mix::FULL)?,
        notes: small_note(),
        claims: vec![
            Claim::new("DRP's throughput is similar to OCC's.", |results| {
                let ratio = to(results, "drp", "silo", MOST)?;
                Ok(Finding::new(near(ratio, 1.0), times(ratio)))
            })
            .otherwise(WILD_AND_IN_TURN),
            Claim::new("It is 3.3 times IC3's.", |results| {
                let ratio = to(results, "drp", "ic3", MOST)?;
                Ok(Finding::new(above(ratio, 1.0) && ratio >= 3.3 / 1.5, times(ratio)))
            })
            .otherwise(
                "this IC3 loses less than the paper's: it waits for rows and reads on snapshots; which of these matters was not tried",
            ),
            Claim::new("DRP aborts much less often than OCC.", |results| {
                let (drp, occ) = (results.aborts("drp", MOST)?, results.aborts("silo", MOST)?);
                let measured = format!("DRP {}, OCC {}", percent(drp), percent(occ));
                Ok(Finding::new(drp * 2.0 <= occ && occ > 0.0, measured))
            })
            .otherwise(WILD_AND_IN_TURN),
        ],
    })
}

/// Figure 2b.
pub fn figure_2b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "2b",
        title: "New-Order alone with as many warehouses as cores",
        section: "§7.2",
        axis: CORES,
        content: constant_ratio(scope, Mix::NEW_ORDER)?,
        notes: small_note(),
        claims: vec![Claim::new("DRP's performance is comparable to OCC's.", |results| {
            let ratio = to(results, "drp", "silo", MOST)?;
            Ok(Finding::new(near(ratio, 1.0), times(ratio)))
        })],
    })
}

fn one_warehouse(scope: &Scope, rivals: &[Rival], mix: Mix) -> Result<Content, Failure> {
    let series =
        rivals.iter().map(|rival| rival.by_cores(scope, Measure::Throughput, |_| orders(scope, 1, mix)));
    Ok(Content::Points(series.collect::<Result<_, Failure>>()?))
}

fn plateau() -> Claim {
    Claim::new("OCC's performance plateaus after 4 cores.", |results| {
        let ratio = results.over("silo", MOST, 4.0)?;
        Ok(Finding::new(ratio <= 1.25, format!("from 4 to 32 cores {}", times(ratio))))
    })
    .otherwise(NO_COLLAPSE)
}

fn ahead_of_occ() -> Claim {
    Claim::new("DRP achieves up to 6.6 times OCC's throughput.", |results| up_to(results, "drp", "silo", 6.6))
}

/// The mix; and what becomes of DRP's without transactions that only read among the writers, and without Deliveries.
fn mix_and_parts(scope: &Scope) -> Result<Content, Failure> {
    let rivals = [
        (DRP, Mix::FULL),
        (OCC, Mix::FULL),
        (IC3, Mix::FULL),
        (DRP_ON_SNAPSHOTS, Mix::FULL),
        (Rival { name: NO_DELIVERY, ..DRP }, Mix([49, 43, 4, 0, 4])),
    ];
    let curve =
        |(rival, mix): (Rival, Mix)| rival.by_cores(scope, Measure::Throughput, |_| orders(scope, 1, mix));
    Ok(Content::Points(rivals.into_iter().map(curve).collect::<Result<_, Failure>>()?))
}

const NO_DELIVERY: &str = "drp, no Deliveries";

/// Figure 3a.
pub fn figure_3a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "3a",
        title: "TPC-C with one warehouse, by cores",
        section: "§7.2",
        axis: CORES,
        content: mix_and_parts(scope)?,
        notes: scale_note(scope),
        claims: vec![
            plateau(),
            Claim::new("IC3 performs better than DRP after 16 threads.", |results| {
                let ratio = to(results, "ic3", "drp", MOST)?;
                Ok(Finding::new(above(ratio, 1.0), format!("on 32 cores {} DRP", times(ratio))))
            }),
            Claim::new(
                "That is as two of DRP's types are wild, and abort and retry over and over.",
                |results| {
                    let gain = to(results, "drp, reads on snapshots", "drp", MOST)?;
                    let measured = format!("without these among the writers {}", times(gain));
                    Ok(Finding::new(above(gain, 1.0), measured))
                },
            ),
            Claim::new(
                "Our own: Deliveries hold nobody up, although all of a warehouse want the same orders.",
                |results| {
                    let ratio = to(results, NO_DELIVERY, "drp", MOST)?;
                    Ok(Finding::new(ratio <= 1.25, format!("on 32 cores {} without them", times(ratio))))
                },
            ),
            Claim::new("Up to 16 threads DRP is better than IC3.", |results| {
                let numbers = [1.0, 2.0, 4.0, 16.0];
                let mut holds = true;
                let mut list = Vec::new();
                for x in numbers {
                    let ratio = to(results, "drp", "ic3", x)?;
                    holds &= above(ratio, 1.0);
                    list.push(format!("{ratio:.2} at {x}"));
                }
                Ok(Finding::new(holds, list.join(", ")))
            })
            .otherwise(WILD_AND_IN_TURN),
            Claim::unreachable(
                "Without early aborts OCC's throughput drops to almost zero after 16 threads.",
                "silo leaves no marks on what it will write, so there are none to leave out",
            ),
        ],
    })
}

/// Figure 3b.
pub fn figure_3b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "3b",
        title: "New-Order alone with one warehouse, by cores",
        section: "§7.2",
        axis: CORES,
        content: one_warehouse(scope, &RIVALS, Mix::NEW_ORDER)?,
        notes: scale_note(scope),
        claims: vec![
            plateau(),
            ahead_of_occ().otherwise(MADE_IN_TURN),
            Claim::new("DRP is better than IC3, by up to 2 times.", |results| {
                let (ratio, at) = most(results, "drp", "ic3", 0.0)?;
                let last = to(results, "drp", "ic3", MOST)?;
                let measured = format!("{} at {at}, {} at 32", times(ratio), times(last));
                Ok(Finding::new(near(ratio, 2.0) && above(last, 1.0), measured))
            })
            .otherwise(MADE_IN_TURN),
        ],
    })
}

/// Figure 3a or 3b on a machine that has as many sockets as the paper's.
pub fn figure_3_on_sockets(id: &'static str, scope: &Scope) -> Result<Figure, Failure> {
    let (mix, title) = match id {
        "3a-why" => (Mix::FULL, "TPC-C with one warehouse on four sockets of 8 cores, by cores"),
        _ => (Mix::NEW_ORDER, "New-Order alone with one warehouse on four sockets of 8 cores, by cores"),
    };
    let mut content = one_warehouse(scope, &RIVALS, mix)?;
    content.change(|setting| setting.topology = FOUR_SOCKETS);
    Ok(Figure {
        id,
        title,
        section: "§7.2",
        axis: CORES,
        content,
        notes: scale_note(scope),
        claims: vec![
            plateau(),
            ahead_of_occ().otherwise(
                "DRP slows down on four sockets as well: a row goes from socket to socket while others wait for it",
            ),
        ],
    })
}

/// New-Order without its inserts.
pub fn figure_3_why(scope: &Scope) -> Result<Figure, Failure> {
    let series =
        RIVALS.iter().map(|rival| rival.by_cores(scope, Measure::Throughput, |_| without_inserts(scope)));
    Ok(Figure {
        id: "3-why",
        title: "New-Order alone without its inserts: one warehouse, by cores",
        section: "§7.2",
        axis: CORES,
        content: Content::Points(series.collect::<Result<_, Failure>>()?),
        notes: scale_note(scope),
        claims: vec![
            Claim::new("Tame transactions never abort.", |results| {
                let aborts = results.aborts("drp", MOST)?;
                Ok(Finding::new(aborts == 0.0, format!("{} of the attempts", percent(aborts))))
            }),
            plateau(),
            ahead_of_occ().otherwise(SHORT),
            Claim::new("DRP is better than IC3 (by up to 2 times).", |results| {
                let last = to(results, "drp", "ic3", MOST)?;
                Ok(Finding::new(above(last, 1.0), format!("{} on 32", times(last))))
            }),
        ],
    })
}

/// Figure 4, which the paper prints as a table: 50 and 99 % of New-Orders by cores.
pub fn figure_4(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "4",
        title: "Latency of New-Orders in the mix, one warehouse, by cores",
        section: "§7.2",
        axis: CORES,
        content: Content::Points(latencies(scope, |_| orders(scope, 1, Mix::FULL))?),
        notes: scale_note(scope),
        claims: vec![
            Claim::new("With 1 thread OCC has the lowest latency (14 to 28 and 16).", |results| {
                let occ = results.at("silo 50 %", 1.0)?;
                let (ic3, drp) = (results.at("ic3 50 %", 1.0)? / occ, results.at("drp 50 %", 1.0)? / occ);
                let measured = format!("IC3 {}, DRP {}", times(ic3), times(drp));
                Ok(Finding::new(above(ic3, 1.0) && above(drp, 1.0), measured))
            }),
            Claim::new("With 1 thread DRP's latency is lower than IC3's (16 to 28).", |results| {
                let ratio = to(results, "drp 50 %", "ic3 50 %", 1.0)?;
                Ok(Finding::new(above(1.0, ratio), format!("{ratio:.2} of it")))
            }),
            Claim::new("At 32 threads DRP's 99 % latency is an order of magnitude below OCC's (52 to 845).", |results| {
                let (drp, occ) = (results.at("drp 99 %", MOST)?, results.at("silo 99 %", MOST)?);
                let measured = format!("{} to {}", microseconds(drp), microseconds(occ));
                Ok(Finding::new(occ / drp >= 10.0 / 1.5, measured))
            })
            .otherwise(WILD_AND_IN_TURN),
            Claim::new("From 1 to 32 threads DRP's 99 % latency grows 1.8 times (29 to 52), OCC's 32 times (26 to 845).", |results| {
                let (drp, occ) = (results.over("drp 99 %", MOST, 1.0)?, results.over("silo 99 %", MOST, 1.0)?);
                let holds = near(drp, 1.8) && above(occ, drp);
                Ok(Finding::new(holds, format!("DRP {}, OCC {}", times(drp), times(occ))))
            })
            .otherwise(WILD_AND_IN_TURN),
            Claim::new("At 32 threads DRP's 99 % latency is twice its median (52 to 26).", |results| {
                let ratio = results.at("drp 99 %", MOST)? / results.at("drp 50 %", MOST)?;
                Ok(Finding::new(near(ratio, 2.0), times(ratio)))
            })
            .otherwise(WILD_AND_IN_TURN),
        ],
    })
}

/// Latencies of New-Orders without inserts.
pub fn figure_4_why(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "4-why",
        title: "Latency of New-Orders alone without their inserts: one warehouse, by cores",
        section: "§7.2",
        axis: CORES,
        content: Content::Points(latencies(scope, |_| without_inserts(scope))?),
        notes: scale_note(scope),
        claims: vec![
            Claim::new(
                "At 32 threads DRP's 99 % latency is an order of magnitude below OCC's (52 to 845).",
                |results| {
                    let (drp, occ) = (results.at("drp 99 %", MOST)?, results.at("silo 99 %", MOST)?);
                    let measured = format!("{} to {}", microseconds(drp), microseconds(occ));
                    Ok(Finding::new(occ / drp >= 10.0 / 1.5, measured))
                },
            )
            .otherwise(NO_COLLAPSE),
            Claim::new("At 32 threads DRP's 99 % latency is twice its median (52 to 26).", |results| {
                let ratio = results.at("drp 99 %", MOST)? / results.at("drp 50 %", MOST)?;
                Ok(Finding::new(near(ratio, 2.0), times(ratio)))
            }),
        ],
    })
}

/// The medians and 99 % of New-Orders.
fn latencies(
    scope: &Scope,
    parameters: impl Fn(usize) -> tpcc::Parameters + Copy,
) -> Result<Vec<Series>, Failure> {
    let mut series = Vec::new();
    for rival in RIVALS {
        for (word, measure) in
            [("50 %", Measure::KindMedian("new-order")), ("99 %", Measure::KindTail("new-order"))]
        {
            let curve = rival.by_cores(scope, measure, parameters)?;
            series.push(Series { name: format!("{} {word}", rival.name), ..curve });
        }
    }
    Ok(series)
}

/// Figure 5.
pub fn figure_5(scope: &Scope) -> Result<Figure, Failure> {
    let warehouses: &[u16] = if scope.quick { &[32, 8, 1] } else { &[32, 16, 8, 4, 2, 1] };
    let series = RIVALS.iter().map(|rival| {
        let at = |&warehouses: &u16| {
            let parameters = tpcc::Parameters { scale: SMALL, ..orders(scope, warehouses, Mix::FULL) };
            Ok((f64::from(warehouses), rival.point(parameters, 32, tpcc_window(scope, 32))?))
        };
        let points = warehouses.iter().map(at).collect::<Result<_, Failure>>()?;
        Ok(Series { name: rival.name.to_owned(), measure: Measure::Throughput, points })
    });
    Ok(Figure {
        id: "5",
        title: "TPC-C on 32 cores, by warehouses",
        section: "§7.2",
        axis: Axis { name: "warehouses", spacing: Spacing::Falling },
        content: Content::Points(series.collect::<Result<_, Failure>>()?),
        notes: small_note(),
        claims: vec![
            Claim::new("DRP and OCC degrade as warehouses get fewer.", |results| {
                let (drp, occ) = (results.over("drp", 1.0, MOST)?, results.over("silo", 1.0, MOST)?);
                let measured = format!("DRP keeps {}, OCC {}", percent(drp), percent(occ));
                Ok(Finding::new(above(1.0, drp) && above(1.0, occ), measured))
            }),
            Claim::new("OCC degrades more than DRP.", |results| {
                let (drp, occ) = (results.over("drp", 1.0, MOST)?, results.over("silo", 1.0, MOST)?);
                Ok(Finding::new(above(drp, occ), format!("DRP keeps {}, OCC {}", percent(drp), percent(occ))))
            })
            .otherwise(NO_COLLAPSE),
            Claim::new("IC3's performance is stable.", |results| {
                let kept = results.over("ic3", 1.0, MOST)?;
                Ok(Finding::new(near(kept, 1.0), format!("it keeps {}", percent(kept))))
            })
            .otherwise("it starts high here, where the paper's has a third of DRP with 32 warehouses"),
        ],
    })
}
