//! Long random histories, judged by both checkers.

use super::Test;
use crate::workload::{Plan, run};
use crate::{checker, elle};
use heddledb::protocol::Kind;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "histories_two_sessions", run: two },
        Test { name: "histories_few_keys", run: few_keys },
        Test { name: "histories_oversubscribed", run: oversubscribed },
        Test { name: "histories_of_strings", run: strings },
        Test { name: "histories_of_procedures", run: procedures },
    ]
}

/// Transactions of one history; `HEDDLE_HISTORY` changes it.
const TRANSACTIONS: u64 = 40_000;

/// Transactions, as a share of all, that must have overlapped one of another session. Usual is a
/// tenth and more; a history with fewer was recorded on threads that took turns.
const CONCURRENT_MIN: f64 = 0.02;

/// Returns the share of transactions that overlapped one of another session.
fn judged(kind: Kind, plan: Plan) -> f64 {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("HEDDLE_SEED").unwrap_or(plan.seed);
    let transactions = number("HEDDLE_HISTORY").unwrap_or(plan.transactions);
    let threads = plan.threads.min(kind.sessions_max());
    let plan = Plan { seed, transactions, threads, ..plan };
    let history = run(kind, &plan, &|_| {}).expect("the workload does nothing unlawful");
    // One after the other: a history that is wrong all over takes `adya` long.
    let ours = checker::check(&history, kind.strict());
    assert!(ours.ok(), "{kind} {plan:?}: {:#?}", ours.anomalies);
    let theirs = elle::judge(&history, kind.strict());
    assert!(theirs.ok, "{kind} {plan:?}: adya found {:?}: {}", theirs.anomalies, theirs.explanation);
    // What ran one after another is lawful under any protocol.
    let share = ours.concurrent as f64 / ours.transactions as f64;
    println!("    {share:.3} overlapped");
    share
}

/// Fails if too few transactions of a history, or of several on average, were concurrent.
fn assert_concurrent(kind: Kind, share: f64) {
    assert!(kind.sessions_max() == 1 || share > CONCURRENT_MIN, "{kind}: only {share} overlapped");
}

fn two(kind: Kind) {
    assert_concurrent(kind, judged(kind, Plan { transactions: TRANSACTIONS, ..Plan::default() }));
}

fn few_keys(kind: Kind) {
    let plan = Plan { transactions: TRANSACTIONS / 4, keys: 3, seed: 2, ..Plan::default() };
    assert_concurrent(kind, judged(kind, plan));
}

fn oversubscribed(kind: Kind) {
    let plan = Plan { transactions: TRANSACTIONS / 4, threads: 8, seed: 3, ..Plan::default() };
    assert_concurrent(kind, judged(kind, plan));
}

fn strings(kind: Kind) {
    let plan = Plan {
        transactions: TRANSACTIONS / 8,
        threads: 4,
        keys: 6,
        seed: 4,
        strings: true,
        ..Plan::default()
    };
    assert_concurrent(kind, judged(kind, plan));
}

/// Random procedure types, a new set of them for each history.
fn procedures(kind: Kind) {
    let mut share = 0.0;
    for seed in 0..PROCEDURE_SETS {
        let programs = 2 + seed as usize % 4;
        let (threads, keys) = (2 + seed as usize % 3, 2 + seed % 5);
        let plan = Plan {
            transactions: TRANSACTIONS / PROCEDURE_SETS,
            threads,
            keys,
            programs,
            seed: 100 + seed,
            ..Plan::default()
        };
        share += judged(kind, plan);
    }
    assert_concurrent(kind, share / PROCEDURE_SETS as f64);
}

/// Sets of procedure types.
const PROCEDURE_SETS: u64 = 20;
