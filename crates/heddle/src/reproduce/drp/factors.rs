//! Section 7.2, factor analysis: wild transactions, and intentions whose locks are held to the end.

use super::settings::{
    DEFERRED_2PL, DRP, MADE_IN_TURN, MOST, Rival, most, orders, to, tpcc_window, without_inserts,
};
use crate::failure::Failure;
use crate::report::html::chart::Spacing;
use crate::report::percent;
use crate::reproduce::figure::{Axis, Claim, Content, Figure, Finding, Measure, Scope, Series, above, near};
use crate::reproduce::settings::{CORES, scale_note, times};
use heddledb_workloads::tpcc::{self, Mix};

fn shares(scope: &Scope) -> &'static [u32] {
    if scope.quick { &[0, 10, 50, 100] } else { &[0, 10, 25, 50, 75, 100] }
}

fn by_share(scope: &Scope, parameters: tpcc::Parameters) -> Result<Content, Failure> {
    let at = |&wild_pct: &u32| {
        let parameters = tpcc::Parameters { wild_pct, ..parameters };
        // Where nothing defers, there is no share.
        Ok((f64::from(wild_pct), DRP.point(parameters, 32, tpcc_window(scope, 32))?))
    };
    let points = shares(scope).iter().map(at).collect::<Result<_, Failure>>()?;
    Ok(Content::Points(vec![Series { name: DRP.name.to_owned(), measure: Measure::Throughput, points }]))
}

const BY_SHARE: Axis = Axis { name: "wild, %", spacing: Spacing::Even };

fn cut_in_half() -> Claim {
    Claim::new("10 % wild cut the throughput in half (534 K to 258 K).", |results| {
        let kept = results.over("drp", 10.0, 0.0)?;
        Ok(Finding::new(near(kept, 0.48) && above(1.0, kept), format!("{} are kept", percent(kept))))
    })
}

fn falls() -> Claim {
    Claim::new("The more are wild, the lower it is.", |results| {
        let kept = |share| results.over("drp", share, 0.0);
        let (ten, half, all) = (kept(10.0)?, kept(50.0)?, kept(100.0)?);
        let measured =
            format!("{} at 10 %, {} at 50 %, {} at 100 %", percent(ten), percent(half), percent(all));
        Ok(Finding::new(1.02 > ten && above(ten, half) && above(half, all), measured))
    })
}

/// Figure 6.
pub fn figure_6(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "6",
        title: "New-Order alone, one warehouse, 32 cores, by the share that is wild",
        section: "§7.2",
        axis: BY_SHARE,
        content: by_share(scope, orders(scope, 1, Mix::NEW_ORDER))?,
        notes: scale_note(scope),
        claims: vec![cut_in_half().otherwise(MADE_IN_TURN), falls().otherwise(MADE_IN_TURN)],
    })
}

/// The same without inserts.
pub fn figure_6_why(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "6-why",
        title: "New-Order alone without its inserts: one warehouse, 32 cores, by the share that is wild",
        section: "§7.2",
        axis: BY_SHARE,
        content: by_share(scope, without_inserts(scope))?,
        notes: scale_note(scope),
        claims: vec![
            cut_in_half().otherwise(
                "with 10 % wild a fifth of the attempts fail, but one takes 2 µs here: we suppose that the less an attempt costs, the less \
                 is lost with it",
            ),
            falls(),
            Claim::new("Wild transactions often abort and retry.", |results| {
                let (tame, wild) = (results.aborts("drp", 0.0)?, results.aborts("drp", 100.0)?);
                let measured = format!(
                    "{} of the attempts where all are tame, {} where all are wild",
                    percent(tame),
                    percent(wild)
                );
                Ok(Finding::new(above(wild, tame) && wild > 0.1, measured))
            }),
        ],
    })
}

fn held(scope: &Scope, parameters: impl Fn(usize) -> tpcc::Parameters + Copy) -> Result<Content, Failure> {
    let curve = |rival: Rival| rival.by_cores(scope, Measure::Throughput, parameters);
    Ok(Content::Points(vec![curve(DRP)?, curve(DEFERRED_2PL)?]))
}

fn similar() -> Claim {
    Claim::new("Below 4 threads deferred 2PL has similar performance to DRP.", |results| {
        let ratios = [to(results, "drp", "deferred-2pl", 1.0)?, to(results, "drp", "deferred-2pl", 2.0)?];
        let holds = ratios.iter().all(|ratio| (1.0 / 1.25..=1.25).contains(ratio));
        Ok(Finding::new(holds, format!("DRP is {} it on 1, {} on 2", times(ratios[0]), times(ratios[1]))))
    })
}

fn thrice() -> Claim {
    Claim::new("At very high contention DRP has over 3 times its throughput.", |results| {
        let (ratio, at) = most(results, "drp", "deferred-2pl", 4.0)?;
        Ok(Finding::new(
            ratio >= 3.0 / 1.5,
            format!("{} at {at}, {} at 32", times(ratio), times(to(results, "drp", "deferred-2pl", MOST)?)),
        ))
    })
}

/// Figure 7.
pub fn figure_7(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "7",
        title: "Locks held to the end: New-Order alone, one warehouse, by cores",
        section: "§7.2",
        axis: CORES,
        content: held(scope, |_| orders(scope, 1, Mix::NEW_ORDER))?,
        notes: scale_note(scope),
        claims: vec![similar(), thrice().otherwise(MADE_IN_TURN)],
    })
}

/// The same without inserts.
pub fn figure_7_why(scope: &Scope) -> Result<Figure, Failure> {
    Ok(Figure {
        id: "7-why",
        title: "Locks held to the end: New-Order alone without its inserts, one warehouse, by cores",
        section: "§7.2",
        axis: CORES,
        content: held(scope, |_| without_inserts(scope))?,
        notes: scale_note(scope),
        claims: vec![
            similar(),
            thrice().otherwise(
                "under both a transaction evaluates and installs in 3 µs once it has been decided; only the queueing before it is pipelined, \
                 and we suppose that this is too little of the whole to gain three times",
            ),
        ],
    })
}
