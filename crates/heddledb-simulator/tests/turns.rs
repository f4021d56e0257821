//! Pieces that fail because of each other take turns in the end, however evenly they go on side by side.

use heddledb::internals::{DatabaseInternals, SessionInternals};
use heddledb::procedure::Declaration;
use heddledb::protocol::{Choice, Executor, Htm, Kind};
use heddledb::{ReadTransaction, Result, Table, Transaction};
use heddledb_engine_simulated::sync::simulation::{Schedule, Settings, free, simulate};
use heddledb_engine_simulated::sync::thread;

#[derive(Table, Clone, Copy)]
#[table(name = "pairs")]
struct Pair {
    #[key]
    key: u64,
    value: i64,
}

const CALLS: i64 = 3;

/// Two workers raise the same two rows in opposite orders, in pieces of as many steps, and have a step each in turn: both have
/// locked one row when they want the other, and wait for as long. Without turns they would do so for ever. If `changes`, a third
/// changes the plan meanwhile, and waits for calls that are under way.
fn meet(protocol: impl Into<Choice>, seed: u64, changes: bool) {
    let protocol = protocol.into();
    let schedule = Schedule::Random { seed, odds: 1 };
    let settings = Settings { schedule, steps_max: 100_000, ..Settings::default() };
    let body = move || -> Result<()> {
        let builder = heddledb_simulator::builder().protocol(protocol).sessions(4).manual_epochs();
        let db = builder.open()?;
        let mut declaration = Declaration::new("raise both");
        declaration.update(Pair::value);
        declaration.update(Pair::value);
        let raise = db.register_declared(declaration)?;
        db.session()?.run(|tx| (0..2).try_for_each(|key| tx.insert(Pair { key, value: 0 })))?;
        let workers = [0, 1].map(|number| {
            let db = db.clone();
            thread::spawn_worker(number, move || -> Result<()> {
                let mut session = free(|| db.session())?;
                for _ in 0..CALLS {
                    session.call_registered(raise, |tx| {
                        [number as u64, 1 - number as u64].into_iter().enumerate().try_for_each(
                            |(site, key)| {
                                tx.at(site as u16);
                                tx.update_columns(key, Pair::value, |value| *value += 1)
                            },
                        )
                    })?;
                }
                Ok(())
            })
        });
        if changes {
            for name in ["one more", "another"] {
                let mut declaration = Declaration::new(name);
                declaration.update(Pair::value);
                db.register_declared(declaration)?;
            }
        }
        for worker in workers {
            worker.join().expect("no panic")?;
        }
        db.session()?.run(|tx| {
            for key in 0..2 {
                assert_eq!(tx.get_columns(key, Pair::value)?, Some(2 * CALLS));
            }
            Ok(())
        })
    };
    simulate(settings, body)
        .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"))
        .expect("no operation fails");
}

#[test]
fn pieces_that_fail_together_end() {
    for (seed, changes) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        meet(Kind::ChoppingOcc, seed, changes);
        meet(Kind::Chopping2pl, seed, changes);
        meet(Htm::CHOPPED, seed, changes);
        meet(Htm::CHOPPED.executed_by(Executor::Software), seed, changes);
    }
}
