//! The paper's own figures are what its claims say of them, and flat curves are not.

use super::factors::{figure_6, figure_6_why, figure_7, figure_7_why};
use super::overhead::{SEQUENTIAL, figure_1, hot, memory};
use super::stamp::{eager, figure_8, memory_of_applications};
use super::tpcc::{
    figure_2a, figure_2b, figure_3_on_sockets, figure_3_why, figure_3a, figure_3b, figure_4, figure_4_why,
    figure_5,
};
use crate::reproduce::figure::Verdict;
use crate::reproduce::figure::tests::{SCOPE, aborting, all_reproduced, made, verdicts};

/// Curves as the paper has them in print or in its plots, in thousands a second.
#[test]
fn the_paper_reproduces_itself() {
    let results = made(&[
        ("drp", &[(1.0, 50.0), (32.0, 1500.0)]),
        ("silo", &[(1.0, 100.0), (32.0, 3000.0)]),
        (SEQUENTIAL, &[(1.0, 400.0)]),
    ]);
    all_reproduced(figure_1(&SCOPE).unwrap(), &results);
    all_reproduced(memory(&SCOPE).unwrap(), &made(&[("drp", &[(1.0, 40.0)]), ("silo", &[(1.0, 19.2)])]));
    let results = made(&[
        ("drp", &[(1.0, 50.0), (32.0, 600.0)]),
        ("silo", &[(1.0, 100.0), (32.0, 100.0)]),
        ("deferred-2pl", &[(32.0, 200.0)]),
    ]);
    all_reproduced(hot(&SCOPE).unwrap(), &results);

    let mut results =
        made(&[("drp", &[(32.0, 990.0)]), ("silo", &[(32.0, 990.0)]), ("ic3", &[(32.0, 300.0)])]);
    aborting(&mut results, "silo", 32.0, 0.2);
    all_reproduced(figure_2a(&SCOPE).unwrap(), &results);
    all_reproduced(figure_2b(&SCOPE).unwrap(), &results);

    let results = made(&[
        ("drp", &[(1.0, 40.0), (2.0, 80.0), (4.0, 150.0), (16.0, 300.0), (32.0, 310.0)]),
        ("drp, reads on snapshots", &[(32.0, 400.0)]),
        // Of which the paper says nothing.
        ("drp, no Deliveries", &[(32.0, 320.0)]),
        ("silo", &[(4.0, 80.0), (32.0, 70.0)]),
        ("ic3", &[(1.0, 20.0), (2.0, 40.0), (4.0, 80.0), (16.0, 250.0), (32.0, 420.0)]),
    ]);
    all_reproduced(figure_3a(&SCOPE).unwrap(), &results);
    let mut results = made(&[
        ("drp", &[(1.0, 45.0), (4.0, 160.0), (32.0, 534.0)]),
        ("silo", &[(1.0, 50.0), (4.0, 85.0), (32.0, 81.0)]),
        ("ic3", &[(1.0, 22.0), (4.0, 90.0), (32.0, 400.0)]),
    ]);
    all_reproduced(figure_3b(&SCOPE).unwrap(), &results);
    all_reproduced(figure_3_why(&SCOPE).unwrap(), &results);
    all_reproduced(figure_3_on_sockets("3a-why", &SCOPE).unwrap(), &results);
    all_reproduced(figure_3_on_sockets("3b-why", &SCOPE).unwrap(), &results);
    // Whoever aborts is not tame.
    aborting(&mut results, "drp", 32.0, 0.01);
    let (verdict, _) = verdicts(&figure_3_why(&SCOPE).unwrap(), &results).remove(0);
    assert_eq!(verdict, Verdict::NotReproduced);

    let results = made(&[
        ("silo 50 %", &[(1.0, 14.0), (32.0, 26.0)]),
        ("silo 99 %", &[(1.0, 26.0), (32.0, 845.0)]),
        ("ic3 50 %", &[(1.0, 28.0), (32.0, 44.0)]),
        ("ic3 99 %", &[(1.0, 52.0), (32.0, 94.0)]),
        ("drp 50 %", &[(1.0, 16.0), (32.0, 26.0)]),
        ("drp 99 %", &[(1.0, 29.0), (32.0, 52.0)]),
    ]);
    all_reproduced(figure_4(&SCOPE).unwrap(), &results);
    all_reproduced(figure_4_why(&SCOPE).unwrap(), &results);

    let results = made(&[
        ("drp", &[(32.0, 990.0), (1.0, 310.0)]),
        ("silo", &[(32.0, 990.0), (1.0, 70.0)]),
        ("ic3", &[(32.0, 300.0), (1.0, 400.0)]),
    ]);
    all_reproduced(figure_5(&SCOPE).unwrap(), &results);

    let mut results = made(&[("drp", &[(0.0, 534.0), (10.0, 258.0), (50.0, 120.0), (100.0, 80.0)])]);
    aborting(&mut results, "drp", 100.0, 0.6);
    all_reproduced(figure_6(&SCOPE).unwrap(), &results);
    all_reproduced(figure_6_why(&SCOPE).unwrap(), &results);
    let results = made(&[
        ("drp", &[(1.0, 45.0), (2.0, 90.0), (4.0, 160.0), (32.0, 534.0)]),
        ("deferred-2pl", &[(1.0, 45.0), (2.0, 85.0), (4.0, 130.0), (32.0, 170.0)]),
    ]);
    all_reproduced(figure_7(&SCOPE).unwrap(), &results);
    all_reproduced(figure_7_why(&SCOPE).unwrap(), &results);

    let results = made(&[
        ("drp", &[(1.0, 6.0), (2.0, 5.4), (3.0, 9.0), (4.0, 6.0)]),
        ("tl2", &[(1.0, 5.0), (2.0, 1.5), (3.0, 9.0), (4.0, 2.4)]),
        (SEQUENTIAL, &[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 1.0)]),
    ]);
    all_reproduced(figure_8("8a", &SCOPE).unwrap(), &results);
    all_reproduced(figure_8("8b", &SCOPE).unwrap(), &results);
    let alike: &[(f64, f64)] = &[(1.0, 9.0), (2.0, 9.0), (3.0, 9.0), (4.0, 9.0)];
    let results = made(&[("drp", alike), ("tl2", alike)]);
    all_reproduced(memory_of_applications(&SCOPE).unwrap(), &results);
    all_reproduced(eager("8-eager", &SCOPE).unwrap(), &results);
    let (verdict, _) = verdicts(&eager("8-eager-why", &SCOPE).unwrap(), &results).remove(0);
    assert_eq!(verdict, Verdict::NotReproduced, "where it costs the same there is nothing to tell");
}

/// Where nothing depends on anything, nothing that the paper found of contention is found.
#[test]
fn flat_curves_reproduce_nothing() {
    let numbers = [0.0, 1.0, 2.0, 3.0, 4.0, 10.0, 16.0, 32.0, 50.0, 100.0];
    let flat: Vec<(f64, f64)> = numbers.map(|x| (x, 9.0)).into();
    let names = ["drp", "silo", "ic3", "tl2", "drp, reads on snapshots", "drp, no Deliveries", SEQUENTIAL];
    let results = made(&names.map(|name| (name, &flat[..])));
    for figure in [figure_5(&SCOPE).unwrap(), figure_6(&SCOPE).unwrap(), figure_6_why(&SCOPE).unwrap()] {
        let mut wrong = verdicts(&figure, &results);
        wrong.retain(|(_, claim)| !claim.starts_with("IC3's performance is stable"));
        assert!(wrong.iter().all(|(verdict, _)| *verdict == Verdict::NotReproduced), "{wrong:?}");
    }
    for (figure, claims) in [
        (figure_1(&SCOPE).unwrap(), 2),
        (memory(&SCOPE).unwrap(), 2),
        (figure_2a(&SCOPE).unwrap(), 2),
        (figure_3a(&SCOPE).unwrap(), 3),
        (figure_3b(&SCOPE).unwrap(), 2),
        (figure_8("8a", &SCOPE).unwrap(), 4),
    ] {
        let wrong = verdicts(&figure, &results);
        let not = wrong.iter().filter(|(verdict, _)| *verdict == Verdict::NotReproduced).count();
        assert_eq!(not, claims, "{}: {wrong:?}", figure.id);
    }
}
