//! Curves as the paper has them, by its words, are what its claims say of them, and flat curves are not.

use super::causes::{
    figure_6_work, figure_7a_work, figure_7d_work, figure_8a_long, figure_8b_work, figure_8c_sums,
    figure_9_work, figure_10_long, figure_11_work, figure_12b_queues,
};
use super::tpcc::{figure_8a, figure_8b, figure_8c, figure_10, figure_12, figure_12_latency};
use super::ycsb::{figure_6, figure_6_why, figure_7a, figure_7d, figure_9, figure_11};
use crate::reproduce::figure::Results;
use crate::reproduce::figure::tests::{SCOPE, all_reproduced, made, verdicts};
use crate::reproduce::figure::{Figure, Verdict};

/// Four curves with a value at the first number and one at the second.
fn curves(x: [f64; 2], dgcc: [f64; 2], others: [[f64; 2]; 3]) -> Results {
    let points = |values: [f64; 2]| [(x[0], values[0]), (x[1], values[1])];
    let [two_phase, occ, mvcc] = others.map(points);
    made(&[("dgcc", &points(dgcc)), ("dl-detect", &two_phase), ("ts-alloc", &occ), ("hekaton", &mvcc)])
}

#[test]
fn the_paper_reproduces_itself() {
    let writes = curves([20.0, 80.0], [500.0, 400.0], [[300.0, 100.0], [250.0, 80.0], [240.0, 60.0]]);
    all_reproduced(figure_6(&SCOPE).unwrap(), &writes);
    all_reproduced(figure_6_why(&SCOPE).unwrap(), &writes);
    let workers = curves([1.0, 8.0], [100.0, 600.0], [[110.0, 580.0], [80.0, 500.0], [80.0, 480.0]]);
    all_reproduced(figure_7a(&SCOPE).unwrap(), &workers);
    all_reproduced(figure_7d(&SCOPE).unwrap(), &workers);
    all_reproduced(figure_8a(&SCOPE).unwrap(), &workers);
    all_reproduced(figure_8b(&SCOPE).unwrap(), &workers);
    let serial = curves([1.0, 8.0], [100.0, 120.0], [[100.0, 110.0], [90.0, 80.0], [90.0, 70.0]]);
    all_reproduced(figure_8c(&SCOPE).unwrap(), &serial);
    let latencies = curves([1.0, 8.0], [9.0, 12.0], [[10.0, 14.0], [12.0, 40.0], [12.0, 50.0]]);
    all_reproduced(figure_9(&SCOPE).unwrap(), &latencies);
    all_reproduced(figure_10(&SCOPE).unwrap(), &latencies);
    let skew = curves([0.0, 0.8], [600.0, 400.0], [[600.0, 150.0], [500.0, 90.0], [480.0, 80.0]]);
    all_reproduced(figure_11(&SCOPE).unwrap(), &skew);
    all_reproduced(figure_11_work(&SCOPE).unwrap(), &skew);
    let work = curves([8.0, 3000.0], [500.0, 400.0], [[500.0, 100.0], [400.0, 80.0], [300.0, 60.0]]);
    all_reproduced(figure_7d_work(&SCOPE).unwrap(), &work);
    let orders = curves([8.0, 1000.0], [500.0, 210.0], [[500.0, 200.0], [600.0, 190.0], [300.0, 100.0]]);
    all_reproduced(figure_8b_work(&SCOPE).unwrap(), &orders);
    let mut both = curves([8.0, 3000.0], [500.0, 450.0], [[500.0, 300.0], [400.0, 250.0], [300.0, 200.0]]);
    both.lines.iter_mut().for_each(|line| line.name += ", 20 % writes");
    both.lines.extend(work.lines);
    all_reproduced(figure_6_work(&SCOPE).unwrap(), &both);
    all_reproduced(figure_7a_work(&SCOPE).unwrap(), &workers);
    all_reproduced(figure_8c_sums(&SCOPE).unwrap(), &serial);
    let long = curves([0.0, 4.0], [120.0, 90.0], [[110.0, 70.0], [90.0, 60.0], [90.0, 60.0]]);
    all_reproduced(figure_8a_long(&SCOPE).unwrap(), &long);
    let latencies_of = |x| curves(x, [9.0, 12.0], [[10.0, 14.0], [12.0, 40.0], [12.0, 50.0]]);
    all_reproduced(figure_9_work(&SCOPE).unwrap(), &latencies_of([8.0, 3000.0]));
    all_reproduced(figure_10_long(&SCOPE).unwrap(), &latencies_of([0.0, 4.0]));
    let sizes = made(&[
        ("2 workers", &[(10.0, 100.0), (100.0, 120.0), (800.0, 121.0)]),
        ("8 workers", &[(10.0, 200.0), (100.0, 300.0), (800.0, 400.0)]),
    ]);
    all_reproduced(figure_12(&SCOPE).unwrap(), &sizes);
    let latencies = made(&[("8 workers", &[(10.0, 9.0), (100.0, 7.0), (800.0, 20.0)])]);
    all_reproduced(figure_12_latency(&SCOPE).unwrap(), &latencies);
    all_reproduced(figure_12b_queues(&SCOPE).unwrap(), &latencies);
}

#[test]
fn flat_curves_are_not_the_papers() {
    let flat = |x| curves(x, [100.0; 2], [[100.0; 2]; 3]);
    let none = |figure: Figure, results: &Results, but: usize| {
        let told = verdicts(&figure, results);
        let held = told.iter().filter(|(verdict, _)| *verdict == Verdict::Reproduced).count();
        assert_eq!(held, but, "{}: {told:?}", figure.id);
    };
    none(figure_6(&SCOPE).unwrap(), &flat([20.0, 80.0]), 0);
    none(figure_7d(&SCOPE).unwrap(), &flat([1.0, 8.0]), 0);
    none(figure_8a(&SCOPE).unwrap(), &flat([1.0, 8.0]), 0);
    // A close second has the same.
    none(figure_8b(&SCOPE).unwrap(), &flat([1.0, 8.0]), 0);
    none(figure_7d_work(&SCOPE).unwrap(), &flat([8.0, 3000.0]), 0);
    none(figure_8a_long(&SCOPE).unwrap(), &flat([0.0, 4.0]), 0);
    // Nothing falls where all is ideal.
    none(figure_11(&SCOPE).unwrap(), &flat([0.0, 0.8]), 1);
    let flat = made(&[
        ("2 workers", &[(10.0, 100.0), (800.0, 100.0)]),
        ("8 workers", &[(10.0, 100.0), (800.0, 100.0)]),
    ]);
    none(figure_12(&SCOPE).unwrap(), &flat, 0);
    none(figure_12_latency(&SCOPE).unwrap(), &flat, 0);
}
