//! Additions that are put off, or made at the end of their calls, on virtual cores: whoever sees whole calls sees them once, in whatever
//! order the cores take their turns, and in regions as in software. Procedures come and go meanwhile.

use heddledb::internals::DatabaseInternals;
use heddledb::procedure::Declaration;
use heddledb::protocol::{Executor, Htm};
use heddledb::{Builder, Database, Result, Session};
use heddledb_check::conformance::{lazy, shelves};
use heddledb_engine_simulated::sync::simulation::{Costs, Schedule, Settings, simulate};
use heddledb_engine_simulated::sync::{Random, sleep, thread};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const WORKERS: usize = 4;
const CALLS: u64 = 60;

/// A way in which additions come late, and calls that add so.
struct Way {
    options: Htm,
    declare: fn(Builder) -> Builder,
    filled: fn(Builder) -> Database,
    /// Another procedure, which sees what all calls change.
    sees: fn(&mut Declaration),
    /// All rows, seen by a transaction or in a snapshot.
    look: fn(&mut Session) -> Result<()>,
    look_behind: fn(&Database) -> Result<()>,
    /// Of 24 calls this one is made, of that number; whether it is one that is counted.
    call: fn(&mut Session, u64, &mut Random, u64) -> Result<bool>,
    /// After so many that are.
    judge: fn(&mut Session, i64) -> Result<()>,
}

/// Calls in the epoch of their piece that conflicts.
static LAZY: Way = Way {
    options: Htm::LAZY,
    declare: lazy::declared,
    filled: lazy::filled,
    sees: |declaration| declaration.get(lazy::Count::calls),
    look: |session| session.run(lazy::whole).map(drop),
    look_behind: |db| lazy::whole(&mut db.snapshot()?).map(drop),
    call: |session, drawn, random, entry| {
        if drawn < 4 {
            return session.call(lazy::LazyLook, entry).map(|_| false);
        }
        let (from, amount) = (random.below(2), random.below(100) as i64);
        session.call(lazy::LazyMove, (from, 1 - from, amount, entry)).map(|()| true)
    },
    judge: |session, calls| {
        assert_eq!(session.run(lazy::whole)?.0, calls);
        Ok(())
    },
};

/// Calls that put additions off.
static SHELVES: Way = Way {
    options: Htm::DEFERRING,
    declare: shelves::declared,
    filled: shelves::filled,
    sees: |declaration| declaration.get(shelves::Count::calls),
    look: |session| session.run(shelves::whole).map(drop),
    look_behind: |db| shelves::whole(&mut db.snapshot()?).map(drop),
    call: |session, drawn, random, _| {
        if drawn < 7 {
            return sees_all(session).map(|()| false);
        }
        let (from, amount) = (random.below(2), random.below(100) as i64);
        session.call(shelves::ShelvesMove, (from, 1 - from, amount)).map(|()| true)
    },
    judge: |session, calls| {
        assert_eq!(session.run(shelves::whole)?.1, calls);
        sees_all(session)
    },
};

fn sees_all(session: &mut Session) -> Result<()> {
    let (one, other) = session.call(shelves::ShelvesLook, ())?;
    assert_eq!(one + other, 0, "half of what was put off");
    Ok(())
}

fn run(way: &'static Way, seed: u64, executor: Executor, costs: Costs) {
    let settings = Settings { schedule: Schedule::Random { seed, odds: 30 }, costs, ..Settings::default() };
    let body = move || -> Result<()> {
        let builder = heddledb_simulator::builder()
            .protocol(way.options.executed_by(executor))
            .sessions(WORKERS + 3)
            .snapshot_interval(Duration::ZERO);
        // Now and then epochs go by between calls.
        let interval = Duration::from_micros(if seed.is_multiple_of(3) { 1 } else { 8 });
        let db = (way.filled)((way.declare)(builder.epoch_interval(interval)));
        let done = Rc::new(Cell::new(false));
        let workers: Vec<_> = (0..WORKERS).map(|number| worker(way, &db, seed, number)).collect();
        let watcher = watcher(way, &db, &done);
        let mut calls = 0;
        for worker in workers {
            calls += worker.join().expect("no panic")?;
        }
        done.set(true);
        watcher.join().expect("no panic")?;
        (way.judge)(&mut db.session()?, calls)
    };
    simulate(settings, body)
        .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"))
        .expect("no operation fails");
}

/// Calls, with a closure now and then; how many are counted.
fn worker(way: &'static Way, db: &Database, seed: u64, number: usize) -> thread::JoinHandle<Result<i64>> {
    let db = db.clone();
    thread::spawn_worker(number, move || {
        let (mut session, mut random) = (db.session()?, Random::new(seed << 8 | number as u64));
        let mut calls = 0;
        for round in 0..CALLS {
            match random.below(24) {
                0 => (way.look)(&mut session)?,
                7 => sleep(Duration::from_micros(2)),
                drawn => {
                    let entry = (number as u64) << 32 | round;
                    calls += i64::from((way.call)(&mut session, drawn, &mut random, entry)?);
                }
            }
        }
        Ok(calls)
    })
}

/// Snapshots, and procedures that come and go: these wait until epochs have gone by, while no call begins.
fn watcher(way: &'static Way, db: &Database, done: &Rc<Cell<bool>>) -> thread::JoinHandle<Result<()>> {
    let (db, done) = (db.clone(), Rc::clone(done));
    thread::spawn_worker(WORKERS, move || {
        while !done.get() {
            (way.look_behind)(&db)?;
            let mut declaration = Declaration::new("another");
            (way.sees)(&mut declaration);
            let another = db.register_declared(declaration)?;
            (way.look_behind)(&db)?;
            db.unregister_declared(another)?;
            sleep(Duration::from_micros(10));
        }
        Ok(())
    })
}

fn run_all(way: &'static Way) {
    // Hardly any room, and interrupts all the time.
    let narrow = Costs { htm_write_sets: 8, htm_write_ways: 2, htm_interrupt: 30_000, ..Costs::default() };
    for seed in 0..60 {
        for (executor, costs) in [
            (Executor::Auto, Costs::default()),
            (Executor::Auto, narrow),
            (Executor::Software, Costs::default()),
        ] {
            run(way, seed, executor, costs);
        }
    }
}

#[test]
fn late_additions_are_seen_once() {
    run_all(&LAZY);
}

#[test]
fn calls_are_seen_with_what_they_put_off() {
    run_all(&SHELVES);
}
