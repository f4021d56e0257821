//! Sections 6.2 and 6.3: TicToc beside Silo, Hekaton and two-phase locking, in TPC-C and in YCSB.

use super::settings::{
    MOST, ORDERS_NOTE, RIVALS, by_cores, fewer_aborts, keys, keys_note, length, listed, optimists_lead,
    orders, point, rates,
};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::report::{percent, rate};
use crate::reproduce::figure::{
    Axis, Claim, Content, Figure, Finding, Measure, Missing, Results, Scope, above, near,
};
use crate::reproduce::settings::{CORES, by_kind, times};
use heddledb::protocol::{Isolation, Kind};

/// Figure 4a of TicToc.
pub fn figure_4a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "4a",
        title: "TPC-C with four warehouses, by cores",
        section: "§6.2.1",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::Throughput, &orders(4)?)?,
        notes: vec![ORDERS_NOTE.into()],
        claims: vec![
            Claim::new("On 80 cores TicToc has 1.8 times Silo's throughput.", |results| {
                let ratio = results.at("tictoc", MOST)? / results.at("silo", MOST)?;
                Ok(Finding::new(above(ratio, 1.0) && near(ratio, 1.8), times(ratio)))
            }),
            Claim::new("The order is TicToc, Silo, then Hekaton and NO_WAIT, then DL_DETECT.", |results| {
                let rates = rates(results, MOST)?;
                let [tictoc, silo, hekaton, no_wait, detect] = rates;
                let ahead = above(tictoc, silo) && above(silo, hekaton.max(no_wait));
                Ok(Finding::new(ahead && above(hekaton.min(no_wait), detect), listed(rates)))
            }),
            Claim::new("DL_DETECT scales worst of all.", |results| {
                let mut ratios = Vec::new();
                for kind in RIVALS {
                    ratios.push((results.over(kind.name(), MOST, 1.0)?, kind));
                }
                ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
                let list: Vec<String> =
                    ratios.iter().map(|(ratio, kind)| format!("{kind} {}", times(*ratio))).collect();
                let worst = ratios.first().is_some_and(|(_, kind)| *kind == Kind::DlDetect);
                Ok(Finding::new(worst, format!("from 1 to 80 cores: {}", list.join(", "))))
            }),
        ],
    })
}

/// Figure 4b of TicToc.
pub fn figure_4b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "4b",
        title: "TPC-C with four warehouses: aborts, by cores",
        section: "§6.2.1",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::AbortRate, &orders(4)?)?,
        notes: vec![ORDERS_NOTE.into()],
        claims: vec![Claim::new("On 80 cores TicToc's abort rate is 27 % below Silo's.", |results| {
            fewer_aborts(results, "tictoc", "silo", MOST, 0.73)
        })],
    })
}

/// The numbers of warehouses.
const WAREHOUSES: [u16; 5] = [4, 8, 16, 40, 80];

fn by_warehouses(scope: &Scope, measure: Measure) -> Result<Content, Failure> {
    by_kind(&RIVALS, measure, |kind| {
        let at = |&warehouses: &u16| {
            let setting = point(&orders(warehouses)?, kind, 80, Isolation::Serializable, length(scope, 80));
            Ok((f64::from(warehouses), setting))
        };
        WAREHOUSES.iter().map(at).collect()
    })
}

const BY_WAREHOUSES: Axis = Axis { name: "warehouses", spacing: Spacing::Logarithmic };

/// Figure 5a of TicToc.
pub fn figure_5a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "5a",
        title: "TPC-C on 80 cores, by warehouses",
        section: "§6.2.2",
        axis: BY_WAREHOUSES,
        content: by_warehouses(scope, Measure::Throughput)?,
        notes: vec![ORDERS_NOTE.into()],
        claims: vec![Claim::new(
            "With more warehouses TicToc's lead over Silo shrinks; with 80 it is gone.",
            |results| {
                let lead = |x: f64| Ok(results.at("tictoc", x)? / results.at("silo", x)?);
                let (few, some, many) = (lead(4.0)?, lead(16.0)?, lead(80.0)?);
                let holds = above(few, some) && above(some, many) && (0.9..=1.1).contains(&many);
                Ok(Finding::new(
                    holds,
                    format!("{} with 4, {} with 16, {} with 80", times(few), times(some), times(many)),
                ))
            },
        )],
    })
}

/// Figure 5b of TicToc.
pub fn figure_5b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "5b",
        title: "TPC-C on 80 cores: aborts, by warehouses",
        section: "§6.2.2",
        axis: BY_WAREHOUSES,
        content: by_warehouses(scope, Measure::AbortRate)?,
        notes: vec![ORDERS_NOTE.into()],
        claims: vec![Claim::new(
            "With fewer than 80 warehouses TicToc aborts less often than Silo.",
            |results| {
                let mut pairs = Vec::new();
                let mut holds = true;
                for warehouses in &WAREHOUSES[..4] {
                    let at = |line| results.at_or_zero(line, f64::from(*warehouses));
                    let (tictoc, silo) = (at("tictoc")?, at("silo")?);
                    holds &= above(silo, tictoc);
                    pairs.push(format!("{warehouses}: {} to {}", percent(tictoc), percent(silo)));
                }
                Ok(Finding::new(holds, pairs.join(", ")))
            },
        )],
    })
}

/// Figure 6 of TicToc.
pub fn figure_6(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "6",
        title: "YCSB, read-only, by cores",
        section: "§6.3.1",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::Throughput, &keys(scope, "read-only")?)?,
        notes: keys_note(scope),
        claims: vec![
            Claim::new("All but Hekaton scale almost linearly to 40 cores.", |results| {
                let mut list = Vec::new();
                let mut holds = true;
                for kind in RIVALS.into_iter().filter(|kind| *kind != Kind::Hekaton) {
                    let ratio = results.over(kind.name(), 40.0, 1.0)?;
                    holds &= ratio >= 0.85 * 40.0;
                    list.push(format!("{kind} {}", times(ratio)));
                }
                Ok(Finding::new(holds, list.join(", ")))
            }),
            Claim::new(
                "Hekaton is limited by the counter that it draws timestamps from (5 M a second).",
                |results| {
                    let (most, half) = (results.at("hekaton", MOST)?, results.at("hekaton", 40.0)?);
                    let behind = above(results.at("silo", MOST)?, 2.0 * most);
                    let flat = most < half * 1.2;
                    Ok(Finding::new(
                        behind && flat,
                        format!("{} on 40 cores, {} on 80", rate(half), rate(most)),
                    ))
                },
            ),
            Claim::new("TicToc and Silo are ahead of those that lock.", |results| {
                optimists_lead(results, 40.0)
            }),
        ],
    })
}

/// Figure 7a of TicToc.
pub fn figure_7a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "7a",
        title: "YCSB, medium contention, by cores",
        section: "§6.3.2",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::Throughput, &keys(scope, "medium")?)?,
        notes: keys_note(scope),
        claims: vec![
            Claim::new(
                "TicToc and Silo both scale well and are about equal (2.57 M to 2.32 M on 40 cores).",
                |results| {
                    let ratio = results.at("tictoc", 40.0)? / results.at("silo", 40.0)?;
                    let scale = results.over("tictoc", 40.0, 1.0)?.min(results.over("silo", 40.0, 1.0)?);
                    let measured =
                        format!("{} on 40 cores; at least {} from 1 to 40", times(ratio), times(scale));
                    Ok(Finding::new((0.87..=1.15).contains(&ratio) && scale >= 20.0, measured))
                },
            ),
            Claim::new(
                "On 40 cores Hekaton is ahead of 2PL (1.55 M to 0.63 M) and behind TicToc and Silo, and NO_WAIT ahead of \
                 DL_DETECT (0.43 M).",
                |results| {
                    let rates = rates(results, 40.0)?;
                    let [tictoc, silo, hekaton, no_wait, detect] = rates;
                    let ahead = above(tictoc.min(silo), hekaton) && above(hekaton, no_wait);
                    Ok(Finding::new(ahead && above(no_wait, detect), listed(rates)))
                },
            ),
        ],
    })
}

/// Figure 7b of TicToc.
pub fn figure_7b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "7b",
        title: "YCSB, medium contention: aborts, by cores",
        section: "§6.3.2",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::AbortRate, &keys(scope, "medium")?)?,
        notes: keys_note(scope),
        claims: vec![Claim::new("TicToc's abort rate is 3.3 times lower than Silo's.", |results| {
            fewer_aborts(results, "tictoc", "silo", MOST, 1.0 / 3.3)
        })],
    })
}

/// Figure 8a of TicToc.
pub fn figure_8a(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "8a",
        title: "YCSB, high contention, by cores",
        section: "§6.3.3",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::Throughput, &keys(scope, "high")?)?,
        notes: keys_note(scope),
        claims: vec![
            Claim::new("TicToc is ahead of Silo (0.82 M to 0.52 M on 40 cores).", |results| {
                let ratio = results.at("tictoc", 40.0)? / results.at("silo", 40.0)?;
                Ok(Finding::new(above(ratio, 1.0) && near(ratio, 1.58), times(ratio)))
            }),
            Claim::new("At its best TicToc has 7.7 times its throughput on one core.", |results| {
                let best = best(results, "tictoc")?;
                Ok(Finding::new(near(best, 7.7), times(best)))
            }),
            Claim::new("DL_DETECT comes to a standstill (0.005 M on 40 cores).", |results| {
                let share = results.over("dl-detect", 40.0, 1.0)?;
                Ok(Finding::new(share < 0.5, format!("{} of its rate on one core", times(share))))
            }),
        ],
    })
}

/// The highest value of a curve over that on one core.
fn best(results: &Results, line: &str) -> Result<f64, Missing> {
    let one = results.at(line, 1.0)?;
    let points = results.lines.iter().filter(|known| known.name == line).flat_map(|known| &known.points);
    Ok(points.filter_map(|dot| dot.value).fold(0.0, f64::max) / one)
}

/// Figure 8b of TicToc.
pub fn figure_8b(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "8b",
        title: "YCSB, high contention: aborts, by cores",
        section: "§6.3.3",
        axis: CORES,
        content: by_cores(scope, &RIVALS, Measure::AbortRate, &keys(scope, "high")?)?,
        notes: keys_note(scope),
        claims: vec![Claim::new(
            "TicToc's and Silo's abort rates are similar (44 % and 47 % on 40 cores).",
            |results| {
                let (tictoc, silo) = (results.at("tictoc", 40.0)?, results.at("silo", 40.0)?);
                let measured = format!("{} and {}", percent(tictoc), percent(silo));
                Ok(Finding::new((0.8..=1.25).contains(&(tictoc / silo)), measured))
            },
        )],
    })
}
