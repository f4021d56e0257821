//! Long random histories, judged by both checkers.

use super::Test;
use crate::workload::{Plan, run};
use crate::{checker, elle};
use heddledb::Protocol;

pub(super) fn tests<P: Protocol>() -> Vec<Test<P>> {
    vec![
        Test { name: "histories_two_sessions", run: two::<P> },
        Test { name: "histories_few_keys", run: few_keys::<P> },
        Test { name: "histories_oversubscribed", run: oversubscribed::<P> },
        Test { name: "histories_of_procedures", run: procedures::<P> },
    ]
}

/// Transactions of one history; `HEDDLE_HISTORY` changes it.
const TRANSACTIONS: u64 = 40_000;

/// Transactions, as a share of all, that must have overlapped one of another session. Usual is a
/// tenth and more; a history with fewer was recorded on threads that took turns.
const CONCURRENT_MIN: f64 = 0.02;

/// Returns the share of transactions that overlapped one of another session.
fn judged<P: Protocol>(options: &P::Options, plan: Plan) -> f64 {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("HEDDLE_SEED").unwrap_or(plan.seed);
    let transactions = number("HEDDLE_HISTORY").unwrap_or(plan.transactions);
    let threads = plan.threads.min(P::SESSIONS_MAX);
    let plan = Plan { seed, transactions, threads, ..plan };
    let history = run::<P>(options, &plan, &|_| {}).expect("the workload does nothing unlawful");
    // One after the other: a history that is wrong all over takes `adya` long.
    let ours = checker::check(&history, P::strict(options));
    assert!(ours.ok(), "{} {plan:?}: {:#?}", P::NAME, ours.anomalies);
    let theirs = elle::judge(&history, P::strict(options));
    assert!(theirs.ok, "{} {plan:?}: adya found {:?}: {}", P::NAME, theirs.anomalies, theirs.explanation);
    // What ran one after another is lawful under any protocol.
    let share = ours.concurrent as f64 / ours.transactions as f64;
    println!("    {share:.3} overlapped");
    share
}

/// Fails if too few transactions of a history, or of several on average, were concurrent.
fn assert_concurrent<P: Protocol>(share: f64) {
    assert!(P::SESSIONS_MAX == 1 || share > CONCURRENT_MIN, "{}: only {share} overlapped", P::NAME);
}

fn two<P: Protocol>(options: &P::Options) {
    assert_concurrent::<P>(judged::<P>(options, Plan { transactions: TRANSACTIONS, ..Plan::default() }));
}

fn few_keys<P: Protocol>(options: &P::Options) {
    let plan = Plan { transactions: TRANSACTIONS / 4, keys: 3, seed: 2, ..Plan::default() };
    assert_concurrent::<P>(judged::<P>(options, plan));
}

fn oversubscribed<P: Protocol>(options: &P::Options) {
    let plan = Plan { transactions: TRANSACTIONS / 4, threads: 8, seed: 3, ..Plan::default() };
    assert_concurrent::<P>(judged::<P>(options, plan));
}

/// Random procedure types, a new set of them for each history.
fn procedures<P: Protocol>(options: &P::Options) {
    let mut share = 0.0;
    for seed in 0..PROCEDURE_SETS {
        let programs = 2 + seed as usize % 4;
        let (threads, keys) = (2 + seed as usize % 3, 2 + seed % 5);
        let plan =
            Plan { transactions: TRANSACTIONS / PROCEDURE_SETS, threads, keys, programs, seed: 100 + seed };
        share += judged::<P>(options, plan);
    }
    assert_concurrent::<P>(share / PROCEDURE_SETS as f64);
}

/// Sets of procedure types.
const PROCEDURE_SETS: u64 = 20;
