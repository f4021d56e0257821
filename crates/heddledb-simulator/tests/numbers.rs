//! A simulation depends on its seed, and not on what other databases the process had before.

use heddledb::internals::{DatabaseInternals, SessionInternals};
use heddledb::procedure::Declaration;
use heddledb::protocol::Kind;
use heddledb::{ReadTransaction, Result, Table, Transaction};
use heddledb_engine_simulated::sync::simulation::{Schedule, Settings, now_ns, simulate};
use heddledb_engine_simulated::sync::{Random, thread};

const WORKERS: usize = 3;
const CALLS: usize = 20;
const ROWS: u64 = 200;

/// A row that counts.
trait Counter: Table<Key = u64> {
    fn new(key: u64) -> Self;
    fn raise(&mut self);
}

/// Tables that differ in nothing but the number that each gets in its process, at its first use.
macro_rules! counters {
    ($($name:ident)*) => {
        $(
            #[derive(Table, Clone, Copy)]
            #[table(name = "counters")]
            struct $name {
                #[key]
                key: u64,
                value: i64,
            }

            impl Counter for $name {
                fn new(key: u64) -> Self {
                    Self { key, value: 0 }
                }

                fn raise(&mut self) {
                    self.value += 1;
                }
            }
        )*
    };
}

counters!(First Second Third);

/// Calls of several workers, each of which raises some rows. The virtual time that they take, in nanoseconds.
fn time<T: Counter>(kind: Kind, seed: u64) -> u64 {
    let settings = Settings { schedule: Schedule::Random { seed, odds: 8 }, ..Settings::default() };
    let body = move || -> Result<u64> {
        let builder = heddledb_simulator::builder().protocol(kind).sessions(WORKERS + 1).manual_epochs();
        let db = builder.open()?;
        let mut declaration = Declaration::new("raise");
        (0..4).for_each(|_| declaration.update_row::<T>());
        let raise = db.register_declared(declaration)?;
        db.session()?.run(|tx| (0..ROWS).try_for_each(|key| tx.insert(T::new(key))))?;
        let worker = |number: usize| {
            let db = db.clone();
            thread::spawn_worker(number, move || -> Result<()> {
                let (mut session, mut random) = (db.session()?, Random::new(seed << 8 | number as u64));
                for _ in 0..CALLS {
                    let keys: [u64; 4] = std::array::from_fn(|_| random.below(ROWS));
                    session.call_registered(raise, |tx| {
                        keys.iter().zip(0..).try_for_each(|(key, site)| {
                            tx.at(site);
                            tx.update(*key, T::raise)
                        })
                    })?;
                }
                Ok(())
            })
        };
        let workers: Vec<_> = (0..WORKERS).map(worker).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))?;
        Ok(now_ns())
    };
    simulate(settings, body)
        .unwrap_or_else(|failure| panic!("{kind}, seed {seed}: {failure}"))
        .unwrap_or_else(|error| panic!("{kind}, seed {seed}: {error}"))
}

#[test]
fn a_simulation_does_not_depend_on_the_numbers_of_its_tables() {
    for kind in Kind::ALL.iter().copied().filter(|kind| kind.sessions_max() > WORKERS) {
        for seed in 0..3 {
            let first = time::<First>(kind, seed);
            assert_eq!(time::<Second>(kind, seed), first, "{kind}, seed {seed}");
            assert_eq!(time::<Third>(kind, seed), first, "{kind}, seed {seed}");
        }
    }
}
