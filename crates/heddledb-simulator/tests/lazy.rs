//! Calls in the epoch of their piece that conflicts, on virtual cores: additions that come late are seen once, in whatever order the
//! cores take their turns, and in regions as in software.

use heddledb::internals::DatabaseInternals;
use heddledb::procedure::Declaration;
use heddledb::protocol::{Executor, Htm};
use heddledb::{Database, Result};
use heddledb_check::conformance::lazy::{Count, LazyLook, LazyMove, declared, filled, whole};
use heddledb_engine_simulated::sync::simulation::{Costs, Schedule, Settings, simulate};
use heddledb_engine_simulated::sync::{Random, sleep, thread};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const WORKERS: usize = 4;
const CALLS: u64 = 60;

fn run(seed: u64, executor: Executor, costs: Costs) {
    let settings = Settings { schedule: Schedule::Random { seed, odds: 30 }, costs, ..Settings::default() };
    let body = move || -> Result<()> {
        let builder = heddledb_simulator::builder()
            .protocol(Htm::LAZY.executed_by(executor))
            .sessions(WORKERS + 3)
            .snapshot_interval(Duration::ZERO);
        // Now and then epochs go by between calls.
        let interval = Duration::from_micros(if seed.is_multiple_of(3) { 1 } else { 8 });
        let db = filled(declared(builder.epoch_interval(interval)));
        let done = Rc::new(Cell::new(false));
        let workers: Vec<_> = (0..WORKERS).map(|number| worker(&db, seed, number)).collect();
        let watcher = watcher(&db, &done);
        let mut calls = 0;
        for worker in workers {
            calls += worker.join().expect("no panic")?;
        }
        done.set(true);
        watcher.join().expect("no panic")?;
        assert_eq!(db.session()?.run(whole)?.0, calls, "seed {seed}");
        Ok(())
    };
    simulate(settings, body)
        .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"))
        .expect("no operation fails");
}

/// Calls, with a closure now and then; how many it made.
fn worker(db: &Database, seed: u64, number: usize) -> thread::JoinHandle<Result<i64>> {
    let db = db.clone();
    thread::spawn_worker(number, move || {
        let (mut session, mut random) = (db.session()?, Random::new(seed << 8 | number as u64));
        let mut calls = 0;
        for round in 0..CALLS {
            let entry = (number as u64) << 32 | round;
            match random.below(24) {
                0 => _ = session.run(whole)?,
                1..4 => _ = session.call(LazyLook, entry)?,
                7 => sleep(Duration::from_micros(2)),
                _ => {
                    let (from, amount) = (random.below(2), random.below(100) as i64);
                    session.call(LazyMove, (from, 1 - from, amount, entry))?;
                    calls += 1;
                }
            }
        }
        Ok(calls)
    })
}

/// Snapshots, and procedures that come and go: these wait until epochs have gone by, while no call begins.
fn watcher(db: &Database, done: &Rc<Cell<bool>>) -> thread::JoinHandle<Result<()>> {
    let (db, done) = (db.clone(), Rc::clone(done));
    thread::spawn_worker(WORKERS, move || {
        while !done.get() {
            whole(&mut db.snapshot()?)?;
            let mut declaration = Declaration::new("another");
            declaration.get(Count::calls);
            let another = db.register_declared(declaration)?;
            whole(&mut db.snapshot()?)?;
            db.unregister_declared(another)?;
            sleep(Duration::from_micros(10));
        }
        Ok(())
    })
}

#[test]
fn late_additions_are_seen_once() {
    // Hardly any room, and interrupts all the time.
    let narrow = Costs { htm_write_sets: 8, htm_write_ways: 2, htm_interrupt: 30_000, ..Costs::default() };
    for seed in 0..60 {
        for (executor, costs) in [
            (Executor::Auto, Costs::default()),
            (Executor::Auto, narrow),
            (Executor::Software, Costs::default()),
        ] {
            run(seed, executor, costs);
        }
    }
}
