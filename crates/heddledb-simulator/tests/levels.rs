//! Operations at each isolation level, in many schedules.

use heddledb::protocol::{Isolation, Kind};
use heddledb::{ReadTransaction, Result, Table, Transaction};
use heddledb_engine_simulated::sync::simulation::{Schedule, Settings, simulate};
use heddledb_engine_simulated::sync::{Random, thread};

#[derive(Table, Clone, Copy)]
#[table(name = "plain")]
struct Plain {
    #[key]
    key: u64,
    value: i64,
}

#[derive(Table, Clone, Copy)]
#[table(name = "found by value", index(ByValue(value)))]
struct Found {
    #[key]
    key: u64,
    value: i64,
}

const WORKERS: usize = 3;
const CALLS: u64 = 8;
const KEYS: u64 = 2;

/// Workers put rows and delete them again, of two keys. An upsert replaces a row or adds one, whoever adds or deletes it
/// meanwhile: it is never refused, and its answer is true, so that as many rows are left as were added and not deleted.
fn put_and_delete<T: Table<Key = u64>>(kind: Kind, level: Isolation, seed: u64, row: fn(u64, i64) -> T) {
    let settings = Settings { schedule: Schedule::Random { seed, odds: 4 }, ..Settings::default() };
    let body = move || -> Result<()> {
        let builder = heddledb_simulator::builder().protocol(kind).isolation(level).sessions(WORKERS + 1);
        let db = builder.manual_epochs().open()?;
        let worker = |number: usize| {
            let db = db.clone();
            thread::spawn_worker(number, move || -> Result<i64> {
                let (mut session, mut random) = (db.session()?, Random::new(seed << 8 | number as u64));
                let mut added = 0;
                for call in 0..CALLS {
                    let (key, deletes) = (random.below(KEYS), random.below(3) == 0);
                    let value = (call << 8 | number as u64) as i64;
                    added += session.run(|tx| match deletes {
                        true => Ok(-i64::from(tx.delete::<T>(key)?)),
                        false => Ok(i64::from(!tx.upsert(row(key, value))?)),
                    })?;
                }
                Ok(added)
            })
        };
        let workers: Vec<_> = (0..WORKERS).map(worker).collect();
        let mut added = 0;
        for worker in workers {
            added += worker.join().expect("no panic")?;
        }
        let left = db
            .session()?
            .run(|tx| (0..KEYS).map(|key| Ok(i64::from(tx.get::<T>(key)?.is_some()))).sum::<Result<i64>>())?;
        assert_eq!(left, added, "{kind} at {level}, seed {seed}");
        Ok(())
    };
    simulate(settings, body)
        .unwrap_or_else(|failure| panic!("{kind} at {level}, seed {seed}: {failure}"))
        .unwrap_or_else(|error| panic!("{kind} at {level}, seed {seed}: {error}"));
}

#[test]
fn an_upsert_is_never_refused() {
    for kind in Kind::ALL.iter().copied().filter(|kind| kind.sessions_max() > WORKERS) {
        for (level, seed) in kind.levels().iter().flat_map(|&level| (0..40).map(move |seed| (level, seed))) {
            put_and_delete(kind, level, seed, |key, value| Plain { key, value });
            put_and_delete(kind, level, seed, |key, value| Found { key, value });
        }
    }
}
