//! Curves as the paper has them, in print or in its plots, are what its claims say of them, and flat curves are not.

use super::articles::{figure_15, figure_15_why};
use super::causes::{checks, one_core, regions, room};
use super::contention::{figure_12a, figure_12b, figure_12c, figure_12c_why};
use super::footprint::{figure_1a, figure_1b};
use super::graphs::{figure_10, figure_11, figure_11_why};
use super::snapshots::{figure_13a, figure_14};
use super::steps::{alone_steps, one_lock};
use super::whole::{figure_1c, figure_1c_why};
use super::working_set::table_1;
use crate::report::model::RegionFigures;
use crate::reproduce::figure::tests::{SCOPE, aborting, all_reproduced, in_regions, made, verdicts};
use crate::reproduce::figure::{Claim, Content, Figure, Results, Verdict};

/// Of a hundred regions: those that have met others, and those without room; and what was executed in software.
fn ended(conflicts: u64, capacity: u64, software: u64) -> RegionFigures {
    let committed = 100 - conflicts - capacity;
    RegionFigures { committed, conflicts, capacity, software, ..RegionFigures::default() }
}

/// Three numbers of cores.
fn curve(values: [f64; 3]) -> [(f64, f64); 3] {
    [(1.0, values[0]), (4.0, values[1]), (8.0, values[2])]
}

/// Curves of figures 12 and 15, in thousands a second.
fn systems(values: [[f64; 3]; 5]) -> Results {
    let [tc, dbx, htm, silo, two_phase] = values.map(curve);
    let lines = [("dbx-tc", tc), ("dbx", dbx), ("htm", htm), ("silo", silo), ("ordered-2pl", two_phase)];
    made(&lines.each_ref().map(|(name, points)| (*name, &points[..])))
}

const ALIKE: [f64; 3] = [100.0, 330.0, 600.0];
const SLOWER: [f64; 3] = [70.0, 240.0, 430.0];

#[test]
fn the_paper_reproduces_itself() {
    let whole = |results: &mut Results| {
        in_regions(results, "1T1W", 1.0, ended(0, 50, 370));
        in_regions(results, "1T1W", 8.0, ended(10, 50, 370));
    };
    let lines = [
        ("NT1W", curve([90.0, 110.0, 115.0])),
        ("2T1W", curve([90.0, 100.0, 110.0])),
        ("1T1W", curve([85.0, 100.0, 104.7])),
    ];
    let mut results = made(&lines.each_ref().map(|(name, points)| (*name, &points[..])));
    whole(&mut results);
    all_reproduced(figure_1c(&SCOPE).unwrap(), &results);
    all_reproduced(figure_1c_why(&SCOPE).unwrap(), &results);

    let mut results = systems([ALIKE, SLOWER, [85.0, 100.0, 104.7], SLOWER, SLOWER]);
    in_regions(&mut results, "dbx-tc", 8.0, ended(5, 0, 1));
    in_regions(&mut results, "htm", 8.0, ended(20, 60, 88));
    all_reproduced(figure_12a(&SCOPE).unwrap(), &results);
    all_reproduced(figure_12b(&SCOPE).unwrap(), &results);
    let collapsed = [80.0, 200.0, 190.0];
    let mut results = systems([[100.0, 320.0, 384.0], collapsed, [90.0, 110.0, 115.0], collapsed, collapsed]);
    aborting(&mut results, "dbx", 8.0, 0.64);
    in_regions(&mut results, "dbx-tc", 8.0, ended(38, 0, 1));
    all_reproduced(figure_12c(&SCOPE).unwrap(), &results);

    let plain = [("dbx-tc", [100.0, 320.0, 384.0]), ("dbx, plain", collapsed), ("silo, plain", collapsed)];
    let plain = plain.map(|(name, values)| (name, curve(values)));
    let mut results = made(&plain.each_ref().map(|(name, points)| (*name, &points[..])));
    aborting(&mut results, "dbx, plain", 8.0, 0.64);
    all_reproduced(figure_12c_why(&SCOPE).unwrap(), &results);

    // Where the paper says nothing: what our own claims say.
    let one = [("unprotected", 110.0), ("silo", 90.0), ("dbx", 95.0), ("htm", 100.0), ("dbx-tc", 95.0)];
    let one = one.map(|(name, value)| (name, [(1.0, value)]));
    all_reproduced(
        one_core(&SCOPE).unwrap(),
        &made(&one.each_ref().map(|(name, points)| (*name, &points[..]))),
    );
    let by_warehouses = |lines: &[(&str, f64, f64)]| {
        let lines: Vec<(&str, [(f64, f64); 2])> =
            lines.iter().map(|&(name, high, low)| (name, [(1.0, high), (8.0, low)])).collect();
        made(&lines.iter().map(|(name, points)| (*name, &points[..])).collect::<Vec<_>>())
    };
    let lines = [
        ("dbx-tc", 100.0, 200.0),
        ("chopping-occ", 130.0, 210.0),
        ("dbx-tc, free regions", 101.0, 202.0),
        ("dbx", 120.0, 230.0),
    ];
    all_reproduced(regions(&SCOPE).unwrap(), &by_warehouses(&lines));
    let lines = [
        ("dbx-tc", 384.0, 604.0),
        ("silo", 190.0, 600.0),
        ("dbx-tc, dear checks", 384.0, 604.0),
        ("silo, dear checks", 190.0, 430.0),
    ];
    all_reproduced(checks(&SCOPE).unwrap(), &by_warehouses(&lines));
    let lines = [
        ("dbx-tc", 384.0, 604.0),
        ("dbx-tc, little room", 384.0, 604.0),
        ("dbx, little room", 190.0, 430.0),
        ("htm, little room", 110.0, 104.7),
    ];
    all_reproduced(room(&SCOPE).unwrap(), &by_warehouses(&lines));

    let lines =
        [("dbx-tc", curve([100.0, 280.0, 384.0])), ("dbx-tc, no snapshots", curve([90.0, 200.0, 205.0]))];
    let mut results = made(&lines.each_ref().map(|(name, points)| (*name, &points[..])));
    in_regions(&mut results, "dbx-tc", 8.0, ended(20, 0, 1));
    in_regions(&mut results, "dbx-tc, no snapshots", 8.0, ended(66, 0, 1));
    all_reproduced(figure_13a(&SCOPE).unwrap(), &results);
    let steps = [
        ("htm", 100.0),
        ("+ chopping", 150.0),
        ("+ snapshots", 200.0),
        ("+ items first", 230.0),
        ("+ additions", 235.0),
        ("+ orders last", 240.0),
        ("+ deferral", 250.0),
    ];
    let steps = steps.map(|(name, value)| (name, [(8.0, value)]));
    all_reproduced(
        figure_14(&SCOPE).unwrap(),
        &made(&steps.each_ref().map(|(name, points)| (*name, &points[..]))),
    );
    let lines = [("snapshots", 100.0, 200.0), ("no snapshots", 60.0, 110.0)];
    let mut results = by_warehouses(&lines);
    for (name, _, _) in lines {
        let conflicts = if name.starts_with("no") { 66 } else { 20 };
        for warehouses in [1.0, 8.0] {
            in_regions(&mut results, name, warehouses, ended(conflicts, 0, 1));
        }
    }
    all_reproduced(one_lock(&SCOPE).unwrap(), &results);
    let alone = [
        ("payments", 100.0, 20),
        ("payments, + deferral", 130.0, 1),
        ("new-orders", 100.0, 50),
        ("new-orders, + items first", 110.0, 30),
    ];
    let points = alone.map(|(name, value, _)| (name, [(8.0, value)]));
    let mut results = made(&points.each_ref().map(|(name, points)| (*name, &points[..])));
    for (name, _, conflicts) in alone {
        in_regions(&mut results, name, 8.0, ended(conflicts, 0, 1));
    }
    all_reproduced(alone_steps(&SCOPE).unwrap(), &results);
    let results = systems([
        ALIKE,
        [90.0, 300.0, 545.0],
        [80.0, 90.0, 90.0],
        [80.0, 280.0, 500.0],
        [75.0, 260.0, 460.0],
    ]);
    all_reproduced(figure_15(&SCOPE).unwrap(), &results);
    all_reproduced(figure_15_why(&SCOPE).unwrap(), &results);
}

/// Where all have the same, nobody is ahead of anybody.
#[test]
fn flat_curves_are_not_the_papers() {
    let held = |figure: Figure, results: &Results| {
        let told = verdicts(&figure, results);
        let held = told.into_iter().filter(|(verdict, _)| *verdict == Verdict::Reproduced);
        held.map(|(_, claim)| claim).collect::<Vec<_>>()
    };
    let flat = systems([[100.0; 3]; 5]);
    assert_eq!(held(figure_12b(&SCOPE).unwrap(), &flat), Vec::<String>::new());
    let poor = ["DBX stops", "Silo cannot", "The naive"];
    let told = held(figure_12c(&SCOPE).unwrap(), &flat);
    assert_eq!(told.len(), poor.len(), "{told:?}");
    assert!(told.iter().zip(poor).all(|(claim, begin)| claim.starts_with(begin)), "{told:?}");
    assert_eq!(held(figure_15(&SCOPE).unwrap(), &flat).len(), 1, "the naive use does not scale");
    let steps =
        ["htm", "+ chopping", "+ snapshots", "+ items first", "+ additions", "+ orders last", "+ deferral"];
    let flat = steps.map(|name| (name, [(8.0, 100.0)]));
    let flat = made(&flat.each_ref().map(|(name, points)| (*name, &points[..])));
    assert_eq!(held(figure_14(&SCOPE).unwrap(), &flat), Vec::<String>::new());
}

/// What is about regions is judged only where there are any.
#[test]
fn without_regions_their_claims_are_not_measured() {
    let results = systems([ALIKE, SLOWER, SLOWER, SLOWER, SLOWER]);
    let told = verdicts(&figure_12a(&SCOPE).unwrap(), &results);
    let missing: Vec<_> = told.iter().filter(|(verdict, _)| *verdict == Verdict::NotMeasured).collect();
    assert!(matches!(&missing[..], [(_, claim)] if claim.starts_with("Chopping reduces")), "{told:?}");
}

/// The room of regions needs no workload: the paper's values, and those of the model with its processor's cache.
#[test]
fn the_room_of_regions_is_the_papers_in_sequence() {
    let paper = [
        ("writes 16", 0.05),
        ("writes 24", 0.4),
        ("writes 31", 0.95),
        ("writes 32", 1.0),
        ("reads 256", 0.02),
        ("reads 4096", 0.98),
        ("448", 0.92),
        ("12 K", 0.3),
        ("16 K", 0.8),
        ("24 K", 1.0),
    ];
    let results = facts(&paper);
    for figure in [figure_1a(), figure_1b()] {
        all_reproduced(Figure { content: Content::Points(Vec::new()), ..figure }, &results);
    }
    let expected: [(Figure, &[bool]); 2] =
        [(figure_1a(), &[true, true, false]), (figure_1b(), &[false, true, true])];
    for (figure, expected) in expected {
        let Content::Facts(compute) = figure.content else { panic!("computed") };
        let told = verdicts_of(&figure.claims, &facts(&compute().unwrap().values));
        assert_eq!(told, expected, "figure {}", figure.id);
    }
}

fn verdicts_of(claims: &[Claim], results: &Results) -> Vec<bool> {
    claims.iter().map(|claim| claim.judged(results).verdict == Verdict::Reproduced).collect()
}

/// Results with these numbers and no curves.
fn facts(values: &[(&str, f64)]) -> Results {
    let facts = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Results { facts, ..Results::default() }
}

#[test]
fn the_papers_bytes_are_what_its_claims_say() {
    let bytes = [
        ("new-order read", 7_864.0),
        ("new-order written", 1_938.0),
        ("delivery read", 13_567.0),
        ("delivery written", 4_178.0),
        ("payment read", 2_240.0),
        ("payment written", 656.0),
        ("stock-level read", 40_101.0),
        ("stock-level written", 1_341.0),
        ("order-status read", 2_241.0),
        ("order-status written", 469.0),
    ];
    all_reproduced(table_1(), &facts(&bytes));
    // Where all are alike, only their room is left of it.
    let flat = verdicts(&table_1(), &facts(&bytes.map(|(name, _)| (name, 100.0))));
    assert_eq!(flat.iter().filter(|(verdict, _)| *verdict == Verdict::Reproduced).count(), 1, "{flat:?}");
}

/// Graphs come from the procedures, so they are the same everywhere.
#[test]
fn graphs_are_those_of_the_procedures() {
    let figures = [(figure_10(), &[true; 3][..]), (figure_11(), &[true; 5]), (figure_11_why(), &[true; 2])];
    for (figure, expected) in figures {
        let Content::Facts(compute) = figure.content else { panic!("computed") };
        let found = compute().unwrap();
        assert!(!found.rows.is_empty() && found.drawing.contains("<svg"), "{}", figure.id);
        assert_eq!(verdicts_of(&figure.claims, &facts(&found.values)), expected, "{:#?}", found.rows);
    }
}

#[test]
fn every_type_has_a_working_set() {
    let Content::Facts(compute) = table_1().content else { panic!("computed") };
    let found = compute().unwrap();
    assert_eq!((found.rows.len(), found.values.len()), (5, 10));
    let told = verdicts_of(&table_1().claims, &facts(&found.values));
    // The order by what they read, and that each fits.
    assert!(told[5] && told[7], "{:#?}", found.rows);
}
