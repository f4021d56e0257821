//! DRP's workloads with small data: under every protocol, deferred and at once, and with rows corrupted on purpose.

mod run;

use heddledb::Database;
use heddledb::protocol::Kind;
use heddledb_workloads::Workload;
use heddledb_workloads::array::{self, Array};
use heddledb_workloads::stamp::bayes::{self, Bayes};
use heddledb_workloads::stamp::genome::{self, Genome};
use heddledb_workloads::stamp::intruder::{self, Intruder};
use heddledb_workloads::stamp::kmeans::{self, Kmeans};
use heddledb_workloads::stamp::labyrinth::{self, Labyrinth};
use heddledb_workloads::stamp::vacation::{self, Vacation};
use heddledb_workloads::stamp::{Application, Place};
use run::{assert_ok, kinds, loaded};
use std::sync::Barrier;

fn run_and_check<W: Workload>(kind: Kind, workload: &W, threads: usize, count: usize) {
    let place = format!("{kind} on {threads} threads, {} {:?}", workload.name(), workload.parameters());
    let db = loaded(workload, kind, threads);
    assert_ok(&format!("{place}, loaded"), &workload.check(&db, &[]).unwrap());
    let (mut ledgers, aborts) = run::run(workload, &db, threads, count, 7);
    assert_eq!(aborts, 0, "{place}");
    assert_ok(&place, &workload.check(&db, &ledgers).unwrap());
    // The checks need the ledgers: without one of them something does not add up.
    ledgers.pop();
    assert!(
        workload.check(&db, &ledgers).unwrap().iter().any(|check| !check.ok),
        "{place}: a ledger is missing"
    );
}

#[test]
fn array_under_every_protocol() {
    let base = array::Parameters { elements: 400, accesses: 10, ..array::Parameters::default() };
    for parameters in [
        base,
        array::Parameters { shared: true, ..base },
        array::Parameters { shared: true, theta: 0.9, ..base },
        array::Parameters { shared: true, eager: true, ..base },
    ] {
        let array = Array::new(parameters).unwrap();
        kinds(2).for_each(|kind| run_and_check(kind, &array, 2, 300));
    }
    run_and_check(Kind::Unprotected, &Array::new(base).unwrap(), 1, 300);
}

#[test]
fn vacation_under_every_protocol() {
    let hot =
        vacation::Parameters { relations: 200, user_pct: 60, query_pct: 3, ..vacation::Parameters::HOT };
    for parameters in [
        hot,
        vacation::Parameters { eager: true, ..hot },
        vacation::Parameters { relations: 64, ..vacation::Parameters::LOW },
    ] {
        let vacation = Vacation::new(parameters).unwrap();
        kinds(2).for_each(|kind| run_and_check(kind, &vacation, 2, 300));
    }
    run_and_check(Kind::Unprotected, &Vacation::new(hot).unwrap(), 1, 300);
}

/// Deferred and at once, the same tasks do the same.
#[test]
fn vacation_deferred_does_what_it_does_at_once() {
    let parameters =
        vacation::Parameters { relations: 100, user_pct: 50, query_pct: 4, ..vacation::Parameters::HOT };
    let run = |kind: Kind, eager: bool| {
        let vacation = Vacation::new(vacation::Parameters { eager, ..parameters }).unwrap();
        let db = loaded(&vacation, kind, 1);
        let (ledgers, _) = run::run(&vacation, &db, 1, 2_000, 3);
        format!("{ledgers:?}")
    };
    let expected = run(Kind::Silo, true);
    for (kind, eager) in [(Kind::Silo, false), (Kind::Drp, false), (Kind::Drp, true), (Kind::WaitDie, false)]
    {
        assert_eq!(run(kind, eager), expected, "{kind}, eager {eager}");
    }
}

fn complete<A: Application>(kind: Kind, application: &A, threads: usize) {
    let db = application.tables(Database::builder().protocol(kind).sessions(threads)).open().unwrap();
    let state = application.load(&db, 5).unwrap();
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for worker in 0..threads {
            let (db, state, barrier) = (&db, &state, &barrier);
            scope.spawn(move || {
                let meet = || {
                    barrier.wait();
                };
                let place = Place { worker, workers: threads, meet: &meet, compute: &|_| {} };
                application.work(&place, &mut db.session().unwrap(), state).unwrap();
            });
        }
    });
    let place = format!("{kind} on {threads} threads, {} {:?}", application.name(), application.parameters());
    assert_ok(&place, &application.check(&db, &state).unwrap());
}

#[test]
fn kmeans_under_every_protocol() {
    let small = kmeans::Parameters { points: 150, most: 6, least: 5, ..kmeans::Parameters::HIGH };
    let kmeans = Kmeans::new(small).unwrap();
    kinds(2).for_each(|kind| complete(kind, &kmeans, 2));
    complete(Kind::Unprotected, &kmeans, 1);
    complete(Kind::Drp, &Kmeans::new(kmeans::Parameters { eager: true, ..small }).unwrap(), 2);
}

#[test]
fn intruder_and_genome_under_every_protocol() {
    let intruder =
        Intruder::new(intruder::Parameters { flows: 60, packets: 6, ..intruder::Parameters::default() })
            .unwrap();
    let genome = Genome::new(genome::Parameters { gene: 120, segment: 16, segments: 300 }).unwrap();
    for kind in kinds(2) {
        complete(kind, &intruder, 2);
        complete(kind, &genome, 2);
    }
    complete(Kind::Unprotected, &intruder, 1);
    complete(Kind::Unprotected, &genome, 1);
    let wrong = genome::Parameters { gene: 16_384, segment: 8, segments: 16_384 };
    assert!(Genome::new(wrong).is_err() && Genome::new(genome::Parameters { segments: 9, ..wrong }).is_err());
}

/// Pairs close enough together that some have no way, and workers that are in each other's.
#[test]
fn labyrinth_under_every_protocol() {
    let labyrinth = Labyrinth::new(labyrinth::Parameters { size: [9, 8, 2], pairs: 20 }).unwrap();
    kinds(2).for_each(|kind| complete(kind, &labyrinth, 2));
    complete(Kind::Unprotected, &labyrinth, 1);
}

#[test]
fn bayes_under_every_protocol() {
    let small = bayes::Parameters { variables: 8, records: 200, parents: 3, parent_pct: 60, learned: 3 };
    let bayes = Bayes::new(small).unwrap();
    kinds(2).for_each(|kind| complete(kind, &bayes, 2));
    complete(Kind::Unprotected, &bayes, 1);
}

/// What speed-ups are over: without a database, and only by one worker.
#[test]
fn plain_programs_do_what_transactions_do() {
    let array = Array::new(array::Parameters { elements: 400, plain: true, ..array::Parameters::default() });
    run_and_check(Kind::Unprotected, &array.unwrap(), 1, 300);
    let small =
        kmeans::Parameters { points: 150, most: 6, least: 5, plain: true, ..kmeans::Parameters::HIGH };
    complete(Kind::Unprotected, &Kmeans::new(small).unwrap(), 1);
}

/// Changes behind the applications' backs are told of.
#[test]
fn corrupted_results_are_told() {
    let labyrinth = Labyrinth::new(labyrinth::Parameters { size: [6, 6, 1], pairs: 4 }).unwrap();
    let (db, state) = finished(&labyrinth);
    let free = |tx: &mut heddledb::Txn| {
        let taken = labyrinth::Maze::cells.collect(tx)?.iter().position(|cell| *cell != 0);
        labyrinth::Maze::cells.set(tx, taken.unwrap() as u64, 0)
    };
    db.session().unwrap().run(free).unwrap();
    assert!(labyrinth.check(&db, &state).unwrap().iter().filter(|check| !check.ok).count() >= 2);
    let bayes = Bayes::new(bayes::Parameters { variables: 6, records: 100, ..bayes::Parameters::default() });
    let bayes = bayes.unwrap();
    for variable in 0..6 {
        let (db, state) = finished(&bayes);
        let itself = |tx: &mut heddledb::Txn| {
            bayes::Learner::network.update(tx, variable, |known| known.parents |= 1 << variable)
        };
        db.session().unwrap().run(itself).unwrap();
        let told: Vec<String> = bayes
            .check(&db, &state)
            .unwrap()
            .into_iter()
            .filter(|check| !check.ok)
            .map(|check| check.name)
            .collect();
        assert!(told.iter().any(|name| name.contains("circle")) && told.len() >= 3, "{told:?}");
    }
}

fn finished<A: Application>(application: &A) -> (Database, A::State) {
    let db = application.tables(Database::builder().sessions(2)).open().unwrap();
    let state = application.load(&db, 5).unwrap();
    let place = Place { worker: 0, workers: 1, meet: &|| {}, compute: &|_| {} };
    application.work(&place, &mut db.session().unwrap(), &state).unwrap();
    assert_ok(application.name(), &application.check(&db, &state).unwrap());
    (db, state)
}
