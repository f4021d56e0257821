//! The microbenchmark with few rows: under every protocol, every variant, and with rows corrupted on
//! purpose.

mod run;

use heddledb::Transaction;
use heddledb::protocol::Kind;
use heddledb_workloads::Workload;
use heddledb_workloads::micro::table::{Table0, Table1, Table2};
use heddledb_workloads::micro::{Micro, Parameters, Reads};
use run::{Corruption, assert_every_check_can_report, assert_ok, kinds, loaded, run};

fn run_and_check(kind: Kind, parameters: Parameters, threads: usize, count: usize) {
    let place = format!("{kind} on {threads} threads, {parameters:?}");
    let micro = Micro::new(parameters).unwrap();
    let db = loaded(&micro, kind, threads);
    assert_ok(&format!("{place}, loaded"), &micro.check(&db, &[]).unwrap());
    let (mut ledgers, mut aborts) = run(&micro, &db, threads, count, 7);
    let (more, more_aborts) = run(&micro, &db, threads, count / 4, 8);
    ledgers.extend(more);
    aborts += more_aborts;
    assert_ok(&place, &micro.check(&db, &ledgers).unwrap());
    assert_eq!(aborts > 0, parameters.user_abort_pct > 0, "{place}: {aborts} gave up");
    let commits = |kind: usize| ledgers.iter().map(|ledger| ledger.commits[kind]).sum::<u64>();
    assert_eq!(commits(0) + commits(1) + aborts as u64, (threads * (count + count / 4)) as u64);
    assert_eq!(commits(1) > 0, parameters.reversed, "{place}: {} backwards", commits(1));
    // The checks need the ledgers: without one of them something must not add up.
    if parameters.read_pct < 100 {
        ledgers.pop();
        let checks = micro.check(&db, &ledgers).unwrap();
        assert!(checks.iter().any(|check| !check.ok), "{place}: a ledger is missing");
    }
}

fn small() -> Parameters {
    Parameters { pieces: 3, rows: 64, scope: 4, ..Parameters::default() }
}

#[test]
fn every_protocol_counts_every_update() {
    for threads in [1, 2] {
        for kind in kinds(threads) {
            run_and_check(kind, small(), threads, 2000);
        }
    }
}

#[test]
fn every_variant_passes() {
    let base = small();
    for parameters in [
        Parameters { user_abort_pct: 10, ..base },
        Parameters { reversed: true, ..base },
        Parameters { reversed: true, user_abort_pct: 10, read_pct: 25, ..base },
        Parameters { read_pct: 50, reads: Reads::Before, ..base },
        Parameters { read_pct: 50, reads: Reads::After, ..base },
        Parameters { read_pct: 100, ..base },
        Parameters { pieces: 1, scope: 1, ..base },
        Parameters { pieces: 10, scope: 64, ..base },
        Parameters { pieces: 64, user_abort_pct: 5, ..base },
    ] {
        for kind in kinds(2) {
            run_and_check(kind, parameters, 2, 300);
        }
    }
}

/// What is done to a loaded database, and the checks that must report it.
const CORRUPTIONS: &[Corruption] = &[
    (
        "an update of one table alone",
        |tx| tx.update_columns(5, Table1::count, |count| *count += 4),
        &["each table:", "the counters of all tables"],
    ),
    (
        "a whole transaction that nobody committed",
        |tx| {
            tx.update_columns(5, Table0::count, |count| *count += 4)?;
            tx.update_columns(5, Table1::count, |count| *count += 4)?;
            tx.update_columns(5, Table2::count, |count| *count += 4)
        },
        &["each table:", "sum of the counters of a table"],
    ),
    (
        "a torn row",
        |tx| tx.update_columns(5, Table2::filler, |bytes| bytes[91] ^= 1),
        &["every row is as loaded"],
    ),
    ("a row lost", |tx| tx.delete::<Table0>(7).map(|there| assert!(there)), &["every row is there"]),
    (
        "a row too many",
        |tx| tx.insert(Table0 { key: 64, count: 0, filler: [0; 92] }),
        &["every row is there", "every row is as loaded"],
    ),
];

#[test]
fn every_check_can_report() {
    assert_every_check_can_report(&Micro::new(small()).unwrap(), CORRUPTIONS);
}

#[test]
fn giving_up_leaves_nothing() {
    let micro = Micro::new(Parameters { user_abort_pct: 100, ..small() }).unwrap();
    let db = loaded(&micro, Kind::Silo, 1);
    let (ledgers, aborts) = run(&micro, &db, 1, 200, 9);
    assert_eq!((aborts, ledgers[0].commits), (200, [0; 2]));
    assert_ok("after giving up only", &micro.check(&db, &ledgers).unwrap());
}
