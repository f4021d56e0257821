//! The paper's own figures are what its claims say of them, and flat curves are not.

use super::contention::{figure_12a, figure_12b, lengths};
use super::dependencies::table_1;
use super::durability::{figure_18, figure_19};
use super::graphs::{figure_14, table_2};
use super::optimisations::{figure_16a, figure_16b};
use super::rivals::{figure_15a, figure_15b, figure_15c, figure_15d};
use super::settings::LAZY;
use super::tpcc::{figure_13a, figure_13b};
use super::tpce::{figure_21a, figure_21b};
use super::user_aborts::{figure_20a, figure_20b};
use crate::reproduce::figure::tests::{SCOPE, aborting, all_reproduced, made, verdicts};
use crate::reproduce::figure::{Content, Figure, Results, Verdict};

/// The paper's own figures, in thousands a second: all that it says of them is found in them.
#[test]
fn the_paper_reproduces_itself() {
    let mut results = made(&[
        ("ic3", &[(1e6, 167.0), (100.0, 167.0), (10.0, 90.0)]),
        ("wait-die", &[(1e6, 196.0), (100.0, 149.0), (10.0, 27.0)]),
        ("no-wait", &[(1e6, 190.0), (100.0, 140.0), (10.0, 20.0)]),
        ("silo", &[(1e6, 189.0), (100.0, 93.0), (10.0, 18.0)]),
    ]);
    aborting(&mut results, "silo", 100.0, 0.65);
    all_reproduced(figure_12a(&SCOPE).unwrap(), &results);

    let two: &[(f64, f64)] = &[(1.0, 10.0), (16.0, 30.0), (32.0, 29.5), (64.0, 29.0)];
    let results = made(&[
        ("ic3", &[(1.0, 9.9), (16.0, 60.0), (32.0, 80.0), (64.0, 90.0)]),
        ("wait-die", two),
        ("no-wait", two),
        ("silo", &[(1.0, 10.0), (16.0, 22.0), (32.0, 20.0), (64.0, 16.0)]),
    ]);
    all_reproduced(figure_12b(&SCOPE).unwrap(), &results);

    let results = made(&[
        ("64 cores, no contention", &[(2.0, 1350.0), (64.0, 23.0)]),
        ("64 cores, scope 10", &[(2.0, 410.0), (64.0, 15.0)]),
        ("1 core, scope 10", &[(2.0, 43.0), (64.0, 1.0)]),
    ]);
    all_reproduced(lengths(&SCOPE).unwrap(), &results);

    let mut results = made(&[
        ("ic3", &[(64.0, 643.0), (8.0, 620.0), (1.0, 435.0)]),
        ("wait-die", &[(64.0, 684.0), (8.0, 280.0), (1.0, 48.0)]),
        ("no-wait", &[(64.0, 600.0), (8.0, 200.0), (1.0, 40.0)]),
        ("silo", &[(64.0, 756.0), (8.0, 272.0), (4.0, 0.341), (1.0, 0.3)]),
    ]);
    aborting(&mut results, "silo", 8.0, 0.63);
    aborting(&mut results, "silo", 4.0, 0.99);
    all_reproduced(figure_13a(&SCOPE).unwrap(), &results);

    let two: &[(f64, f64)] = &[(1.0, 14.0), (4.0, 43.0), (32.0, 43.0), (64.0, 42.0)];
    let results = made(&[
        ("ic3", &[(1.0, 19.0), (4.0, 60.0), (32.0, 342.0), (64.0, 435.0)]),
        ("wait-die", two),
        ("no-wait", two),
        ("silo", &[(1.0, 16.0), (4.0, 49.0), (32.0, 1.0), (64.0, 0.3)]),
    ]);
    all_reproduced(figure_13b(&SCOPE).unwrap(), &results);

    let two: &[(f64, f64)] = &[(4.0, 43.0), (8.0, 43.0), (64.0, 42.0)];
    let results = made(&[
        ("ic3", &[(64.0, 435.0)]),
        ("wait-die", two),
        ("no-wait", two),
        ("chopping-2pl", &[(4.0, 70.0), (8.0, 99.0), (64.0, 100.0)]),
        ("chopping-occ", &[(4.0, 70.0), (8.0, 75.0), (64.0, 20.0)]),
    ]);
    all_reproduced(figure_15a(&SCOPE).unwrap(), &results);

    let results = made(&[
        ("ic3", &[(1.0, 19.0), (16.0, 235.0), (32.0, 342.0), (64.0, 435.0)]),
        (LAZY, &[(1.0, 38.0), (16.0, 318.0), (32.0, 300.0), (64.0, 250.0)]),
    ]);
    all_reproduced(figure_15b(&SCOPE).unwrap(), &results);

    let mut results = made(&[
        ("ic3", &[(4.0, 60.0), (64.0, 435.0)]),
        ("nested-occ", &[(4.0, 79.0), (64.0, 5.0)]),
        ("silo", &[(4.0, 49.0), (64.0, 0.3)]),
    ]);
    aborting(&mut results, "nested-occ", 4.0, 0.15);
    aborting(&mut results, "silo", 4.0, 0.42);
    aborting(&mut results, "nested-occ", 64.0, 0.98);
    all_reproduced(figure_15c(&SCOPE).unwrap(), &results);

    let mut results = made(&[
        ("datm", &[(8.0, 125.0), (16.0, 40.0)]),
        ("ic3", &[(8.0, 95.0)]),
        ("wait-die", &[(8.0, 105.0)]),
        ("no-wait", &[(8.0, 100.0)]),
        ("silo", &[(8.0, 1.0)]),
    ]);
    aborting(&mut results, "datm", 16.0, 0.81);
    all_reproduced(figure_15d(&SCOPE).unwrap(), &results);

    let results = made(&[
        ("basic", &[(64.0, 224.0)]),
        ("+ optimistic", &[(64.0, 296.0)]),
        ("+ commutative", &[(64.0, 435.0)]),
        ("+ rendezvous", &[(64.0, 435.0)]),
    ]);
    all_reproduced(figure_16a(&SCOPE).unwrap(), &results);
    let results = made(&[("without rendezvous", &[(64.0, 235.0)]), ("+ rendezvous", &[(64.0, 289.0)])]);
    all_reproduced(figure_16b(&SCOPE).unwrap(), &results);

    let mut results = made(&[
        ("no conflicts", &[(0.0, 102.0), (10.0, 89.0)]),
        ("5 % conflicts", &[(0.0, 100.0), (10.0, 80.0)]),
        ("10 % conflicts", &[(0.0, 105.0), (10.0, 75.0)]),
    ]);
    aborting(&mut results, "5 % conflicts", 10.0, 0.37);
    aborting(&mut results, "10 % conflicts", 10.0, 0.55);
    all_reproduced(figure_20a(&SCOPE).unwrap(), &results);
    let mut results = made(&[
        ("0 % user aborts", &[(4.0, 30.0), (64.0, 105.0)]),
        ("5 % user aborts", &[(4.0, 30.0), (64.0, 89.0)]),
        ("10 % user aborts", &[(4.0, 29.0), (64.0, 75.0)]),
    ]);
    aborting(&mut results, "10 % user aborts", 4.0, 0.02);
    all_reproduced(figure_20b(&SCOPE).unwrap(), &results);

    let mut results =
        made(&[("ic3", &[(685.0, 140.0), (1.0, 120.0)]), ("silo", &[(685.0, 14.0), (1.0, 2.0)])]);
    aborting(&mut results, "silo", 1.0, 0.95);
    all_reproduced(figure_21a(&SCOPE).unwrap(), &results);
    let results = made(&[
        ("ic3", &[(1.0, 8.0), (8.0, 50.0), (32.0, 123.0), (64.0, 120.0)]),
        ("silo", &[(1.0, 8.0), (8.0, 20.0), (32.0, 10.0), (64.0, 2.0)]),
    ]);
    all_reproduced(figure_21b(&SCOPE).unwrap(), &results);

    let results = made(&[
        ("direct", &[(1.0, 0.0), (8.0, 0.6), (16.0, 0.8), (32.0, 2.8), (64.0, 6.3)]),
        ("transitive", &[(1.0, 0.0), (8.0, 0.018), (16.0, 0.13), (32.0, 0.97), (64.0, 9.5)]),
    ]);
    all_reproduced(table_1(&SCOPE).unwrap(), &results);

    let results = made(&[
        ("ic3", &[(2.0, 100.0)]),
        ("ic3+log", &[(1.0, 94.0), (2.0, 94.4)]),
        ("wait-die", &[(2.0, 100.0)]),
        ("wait-die+log", &[(2.0, 95.0)]),
        ("no-wait", &[(2.0, 90.0)]),
        ("no-wait+log", &[(2.0, 80.0)]),
    ]);
    for id in ["18a", "18b"] {
        all_reproduced(figure_18(id, &SCOPE), &results);
    }
    all_reproduced(figure_19("19b", &SCOPE), &results);
}

/// Where nothing depends on anything, nothing that the paper found is found.
#[test]
fn flat_curves_reproduce_nothing() {
    let flat: &[(f64, f64)] = &[
        (1.0, 9.0),
        (4.0, 9.0),
        (8.0, 9.0),
        (16.0, 9.0),
        (32.0, 9.0),
        (64.0, 9.0),
        (1e6, 9.0),
        (100.0, 9.0),
        (10.0, 9.0),
    ];
    let results =
        made(&[("ic3", flat), ("wait-die", flat), ("no-wait", flat), ("silo", flat), ("nested-occ", flat)]);
    for figure in [figure_12a(&SCOPE).unwrap(), figure_15c(&SCOPE).unwrap()] {
        let wrong = verdicts(&figure, &results);
        assert!(wrong.iter().all(|(verdict, _)| *verdict == Verdict::NotReproduced), "{wrong:?}");
    }
    // The graph and the applications need no run.
    for figure in [figure_14(), table_2()] {
        let Content::Facts(compute) = figure.content else { panic!("{} has points", figure.id) };
        let facts = compute().unwrap();
        let values = facts.values.iter().map(|(name, value)| ((*name).to_owned(), *value));
        let results = Results { facts: values.collect(), ..Results::default() };
        all_reproduced(Figure { content: Content::Points(Vec::new()), ..figure }, &results);
    }
}
