//! The plan of registered procedures changes while they are called, on virtual cores: what that costs them.

use heddledb::internals::{DatabaseInternals, SessionInternals};
use heddledb::procedure::{Declaration, PlanChange};
use heddledb::protocol::Ic3;
use heddledb::{Conflict, ReadTransaction, Result, Stats, Table, Transaction, Txn};
use heddledb_engine_simulated::sync::simulation::{Schedule, Settings, simulate};
use heddledb_engine_simulated::sync::{Random, sleep, thread};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

#[derive(Table, Clone, Copy)]
#[table(name = "left")]
struct Left {
    #[key]
    key: u64,
    value: i64,
}

#[derive(Table, Clone, Copy)]
#[table(name = "right")]
struct Right {
    #[key]
    key: u64,
    value: i64,
}

const WORKERS: usize = 4;
const KEYS: u64 = 2;

/// Both tables, in one order or the other.
fn declare(name: &str, left_first: bool) -> Declaration {
    let mut declaration = Declaration::new(name);
    if left_first {
        declaration.upsert::<Left>();
        declaration.upsert::<Right>();
    } else {
        declaration.upsert::<Right>();
        declaration.upsert::<Left>();
    }
    declaration
}

/// Raises both; one who is `slow` leaves time for others to overtake it between the two.
fn raise(tx: &mut Txn, key: u64, slow: bool) -> Result<(i64, i64)> {
    tx.at(0);
    let left = tx.update_columns(key, Left::value, |value| {
        *value += 1;
        *value
    })?;
    tx.at(1);
    if slow {
        // With the first access at another site the piece before has ended.
        tx.get_columns(key, Right::value)?;
        sleep(Duration::from_micros(3));
    }
    let right = tx.update_columns(key, Right::value, |value| {
        *value += 1;
        *value
    })?;
    Ok((left, right))
}

/// Workers call one procedure for so long while another comes and goes, which forces the first one's two pieces
/// together; what they met, and how often the plan changed.
fn run(seed: u64, how: PlanChange) -> (Stats, u64) {
    let settings = Settings { schedule: Schedule::Random { seed, odds: 40 }, ..Settings::default() };
    let body = move || -> Result<(Stats, u64)> {
        let builder =
            heddledb_simulator::builder().protocol(Ic3::default()).sessions(WORKERS + 2).plan_change(how);
        let db = builder.epoch_interval(Duration::from_micros(20)).open()?;
        let forth = db.register_declared(declare("forth", true))?;
        db.session()?.run(|tx| {
            (0..KEYS).try_for_each(|key| {
                tx.insert(Left { key, value: 0 })?;
                tx.insert(Right { key, value: 0 })
            })
        })?;
        let done = Rc::new(Cell::new(false));
        let mut workers = Vec::new();
        for number in 0..WORKERS {
            let (db, done) = (db.clone(), Rc::clone(&done));
            workers.push(thread::spawn_worker(number, move || -> Result<()> {
                let (mut session, mut random) = (db.session()?, Random::new(seed << 8 | number as u64));
                while !done.get() {
                    let key = random.below(KEYS);
                    let slow = random.below(4) == 0;
                    let (left, right) = session.call_registered(forth, |tx| raise(tx, key, slow))?;
                    assert_eq!(left, right, "both are raised in one order");
                }
                Ok(())
            }));
        }
        let changer = {
            let db = db.clone();
            thread::spawn_worker(WORKERS, move || -> Result<u64> {
                let mut changes = 0;
                for _ in 0..6 {
                    sleep(Duration::from_micros(15));
                    let back = db.register_declared(declare("back", false))?;
                    sleep(Duration::from_micros(15));
                    db.unregister_declared(back)?;
                    changes += 2;
                }
                Ok(changes)
            })
        };
        let changes = changer.join().expect("no panic")?;
        done.set(true);
        for worker in workers {
            worker.join().expect("no panic")?;
        }
        Ok((db.metrics().stats, changes))
    };
    simulate(settings, body).expect("it ends").expect("no operation fails")
}

#[test]
fn plans_change_and_nobody_aborts() {
    for seed in 0..40 {
        for how in [PlanChange::Barrier, PlanChange::Transition] {
            let (stats, changes) = run(seed, how);
            assert_eq!(changes, 12);
            assert!(stats.commits > 100, "seed {seed}, {how:?}: {stats:?}");
            let timed_out = stats.conflicts_by(Conflict::TimedOut);
            assert_eq!(timed_out, 0, "seed {seed}, {how:?}: nobody waits in a circle");
        }
    }
}
