//! Loading a workload, running it on some threads, and checking it, under a protocol.

#![allow(dead_code, reason = "each test uses its part")]

use heddledb::protocol::{Choice, Kind};
use heddledb::{Database, Error, Result, Txn};
use heddledb_workloads::{Check, ReadOnly, Workload};
use std::collections::BTreeSet;

/// What workloads say when a transaction's input tells it to abort.
const DECISIONS: [&str; 3] =
    ["item number is not valid", "gave up after a piece", "the order is not wanted after all"];

/// The protocols that allow `threads` sessions at a time.
pub fn kinds(threads: usize) -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(move |kind| kind.sessions_max() >= threads)
}

/// An open database with the workload's tables, filled.
pub fn loaded(workload: &impl Workload, protocol: impl Into<Choice>, threads: usize) -> Database {
    let builder = Database::builder().protocol(protocol).sessions(threads);
    let db = workload.tables(builder).open().unwrap();
    workload.load(&db, 1, &|share| assert!((0.0..=1.0).contains(&share))).unwrap();
    db
}

/// Runs `count` transactions on each of `threads`. Returns the ledgers and the number of user
/// aborts.
pub fn run<W: Workload>(
    workload: &W,
    db: &Database,
    threads: usize,
    count: usize,
    seed: u64,
) -> (Vec<W::Ledger>, usize) {
    run_reading(ReadOnly::Serializable, workload, db, threads, count, seed)
}

/// The same, with a choice for transactions that only read.
pub fn run_reading<W: Workload>(
    read_only: ReadOnly,
    workload: &W,
    db: &Database,
    threads: usize,
    count: usize,
    seed: u64,
) -> (Vec<W::Ledger>, usize) {
    let worker = |worker: usize| {
        let mut session = db.session().unwrap();
        let mut generator = workload.generator(worker, threads, seed);
        let (mut input, mut ledger, mut aborts) = (W::Input::default(), W::Ledger::default(), 0);
        for round in 0..count {
            // Every other input is run once more, as a benchmark does with inputs drawn before.
            if round % 2 == 0 {
                workload.draw(&mut generator, &mut input);
            } else {
                workload.refresh(&mut generator, &mut input);
            }
            assert!(workload.kind(&input) < workload.kinds().len());
            match read_only.run(workload, &mut session, &input) {
                Ok(output) => {
                    workload.committed(&mut generator, &input, &output);
                    workload.record(&mut ledger, &input, output);
                }
                Err(Error::User(reason)) if DECISIONS.contains(&&*reason.to_string()) => aborts += 1,
                Err(error) => panic!("{input}: {error}", input = workload.kinds()[workload.kind(&input)]),
            }
        }
        (ledger, aborts)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|number| scope.spawn(move || worker(number))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let aborts = results.iter().map(|(_, aborts)| aborts).sum();
    (results.into_iter().map(|(ledger, _)| ledger).collect(), aborts)
}

/// A change that no transaction makes: what it is, how it is made, and the checks that must report it.
pub type Corruption = (&'static str, fn(&mut Txn) -> Result<()>, &'static [&'static str]);

/// Requires that each corruption of a freshly loaded database is reported, and that each check reports one.
pub fn assert_every_check_can_report(workload: &impl Workload, corruptions: &[Corruption]) {
    let (mut reported, mut all) = (BTreeSet::new(), BTreeSet::new());
    for (what, corrupt, names) in corruptions {
        let db = loaded(workload, Kind::Silo, 1);
        db.session().unwrap().run(corrupt).unwrap();
        let checks = workload.check(&db, &[]).unwrap();
        assert_reported(what, &checks, names);
        for check in checks {
            if !check.ok {
                reported.insert(check.name.clone());
            }
            all.insert(check.name);
        }
    }
    assert_eq!(reported, all, "these checks were never made to fail");
}

/// Requires that all checks hold.
pub fn assert_ok(place: &str, checks: &[Check]) {
    assert!(!checks.is_empty());
    let broken: Vec<_> = checks.iter().filter(|check| !check.ok).collect();
    assert!(broken.is_empty(), "{place}: {broken:#?}");
}

/// Requires that the checks with these names, and perhaps others, report.
pub fn assert_reported(place: &str, checks: &[Check], names: &[&str]) {
    for name in names {
        let mut named = checks.iter().filter(|check| check.name.starts_with(name)).peekable();
        assert!(named.peek().is_some(), "{place}: no check `{name}` in {checks:#?}");
        assert!(named.any(|check| !check.ok), "{place}: `{name}` did not report: {checks:#?}");
    }
}
