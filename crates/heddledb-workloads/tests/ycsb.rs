//! YCSB with few records: under every protocol, every preset, and with rows corrupted on purpose.

mod run;

use heddledb::protocol::Kind;
use heddledb::{Result, Transaction, Txn};
use heddledb_workloads::ycsb::table::{Wide, WideOrdered};
use heddledb_workloads::ycsb::{KeyOrder, Parameters, Read, Write, Ycsb};
use heddledb_workloads::{ReadOnly, Workload};
use run::{assert_ok, assert_reported, kinds, loaded, run, run_reading};

fn run_and_check(kind: Kind, parameters: Parameters, threads: usize, count: usize) {
    let place = format!("{kind} on {threads} threads, {parameters:?}");
    let ycsb = Ycsb::new(parameters).unwrap();
    let db = loaded(&ycsb, kind, threads);
    assert_ok(&format!("{place}, loaded"), &ycsb.check(&db, &[]).unwrap());
    let (mut ledgers, _) = run(&ycsb, &db, threads, count, 7);
    let (more, _) = run_reading(ReadOnly::Snapshot, &ycsb, &db, threads, count / 4, 8);
    ledgers.extend(more);
    assert_ok(&place, &ycsb.check(&db, &ledgers).unwrap());

    let absent: u64 = ledgers.iter().map(|ledger| ledger.absent).sum();
    assert!(absent == 0 || parameters.latest, "{place}: {absent} records absent");
    let writes: u64 =
        ledgers.iter().map(|ledger| ledger.increments + ledger.overwrites + ledger.inserts).sum();
    let changes = parameters.read_pct + parameters.scan_pct < 100;
    assert_eq!(writes > 0, changes, "{place}: {writes} writes");
    if changes {
        ledgers.pop();
        let checks = ycsb.check(&db, &ledgers).unwrap();
        assert!(checks.iter().any(|check| !check.ok), "{place}: a ledger is missing");
    }
}

fn contended() -> Parameters {
    Parameters { records: 100, per_row: true, ..Parameters::default() }
}

#[test]
fn every_protocol_counts_every_increment() {
    for threads in [1, 2] {
        for kind in kinds(threads) {
            run_and_check(kind, contended(), threads, 2000);
        }
    }
}

#[test]
fn every_variant_passes() {
    let base = contended();
    for parameters in [
        Parameters { field_bytes: 10, ..base },
        Parameters { scramble: true, read: Read::First, ..base },
        Parameters { read: Read::All, key_order: KeyOrder::Sorted, ..base },
        Parameters { write: Write::Blind, per_row: false, ..base },
        Parameters { write: Write::Blind, per_row: false, field_bytes: 10, read: Read::First, ..base },
        Parameters { insert_pct: 10, scan_pct: 10, ..base },
    ] {
        for kind in kinds(2) {
            run_and_check(kind, parameters, 2, 400);
        }
    }
}

#[test]
fn every_preset_passes() {
    for (name, _) in Parameters::PRESETS {
        let parameters = Parameters { records: 300, ..Parameters::preset(name).unwrap() };
        for threads in [1, 2] {
            for kind in kinds(threads) {
                run_and_check(kind, parameters, threads, 1000);
            }
        }
    }
}

type Corruption = fn(&mut Txn) -> Result<()>;

const CORRUPTIONS: &[(&str, Corruption, &[&str])] = &[
    (
        "an increment too many",
        |tx| tx.update_columns(5, Wide::field0, |field| field[0] += 1),
        &["ledger: increments", "the number in each row"],
    ),
    ("a torn column", |tx| tx.update_columns(5, Wide::field3, |field| field[99] ^= 1), &["every column"]),
    (
        "a number in a column that is only read",
        |tx| tx.update_columns(5, Wide::field3, |f| f[0] = 1),
        &["every column"],
    ),
    (
        "a record lost",
        |tx| tx.delete::<Wide>(7).map(|there| assert!(there)),
        &["every record", "ledger: rows"],
    ),
];

#[test]
fn every_check_can_report() {
    let ycsb = Ycsb::new(contended()).unwrap();
    for (what, corrupt, names) in CORRUPTIONS {
        let db = loaded(&ycsb, Kind::Silo, 1);
        db.session().unwrap().run(corrupt).unwrap();
        assert_reported(what, &ycsb.check(&db, &[]).unwrap(), names);
    }
}

#[test]
fn a_scan_reports_a_gap() {
    let parameters = Parameters { records: 300, ..Parameters::preset("e").unwrap() };
    let ycsb = Ycsb::new(parameters).unwrap();
    let db = loaded(&ycsb, Kind::Silo, 1);
    db.session().unwrap().run(|tx| tx.delete::<WideOrdered>(50)).unwrap();
    assert_reported("a record lost", &ycsb.check(&db, &[]).unwrap(), &["every record"]);
    let (mut generator, mut input) = (ycsb.generator(0, 1, 1), Default::default());
    let mut session = db.session().unwrap();
    let gap = (0..1000).find_map(|_| {
        ycsb.draw(&mut generator, &mut input);
        session.run(|tx| ycsb.execute(tx, &input)).err()
    });
    assert!(gap.is_some_and(|error| error.to_string().contains("found key 51 where 50 was expected")));
}

#[test]
fn an_overwrite_by_nobody_is_reported() {
    let parameters = Parameters { write: Write::Blind, per_row: false, ..contended() };
    let ycsb = Ycsb::new(parameters).unwrap();
    let db = loaded(&ycsb, Kind::Silo, 1);
    let (ledgers, _) = run(&ycsb, &db, 1, 100, 1);
    assert_ok("overwritten", &ycsb.check(&db, &ledgers).unwrap());
    db.session().unwrap().run(|tx| tx.set_columns(3, Wide::field4, [9; 100])).unwrap();
    assert_reported("a tag that nobody used", &ycsb.check(&db, &ledgers).unwrap(), &["every column"]);
}
