//! Cascading aborts on many cores must not feed themselves.

use heddledb::internals::{DatabaseInternals, SessionInternals};
use heddledb::procedure::Declaration;
use heddledb::protocol::{Ic3, Isolation, Kind};
use heddledb::{Conflict, Error, ReadTransaction, Result, Stats, Table, Transaction};
use heddledb_engine_simulated::sync::simulation::{Settings, clock, costs, simulate};
use heddledb_engine_simulated::sync::{Random, sleep, thread};
use heddledb_simulator::point::{Load, Queue, Subject};
use heddledb_workloads::ReadOnly;
use heddledb_workloads::tpcc::{Mix, Parameters, Scale, Tpcc};
use std::time::Duration;

/// One New-Order in a hundred rolls back, after others have read the order number that it gave out. They abort with it;
/// were they to find out one after the other, new ones would join them faster than that, and three attempts in ten
/// would abort.
#[test]
fn rollbacks_take_few_along() {
    let parameters = Parameters { mix: Mix([100, 0, 0, 0, 0]), scale: Scale::TINY, ..Parameters::default() };
    let load = Load {
        cores: 64,
        seed: 1,
        warmup: Duration::from_micros(150),
        window: Duration::from_micros(600),
        epoch_interval: Duration::from_micros(20),
        read_only: ReadOnly::Serializable,
        isolation: Isolation::Serializable,
        pool: 0,
        queue: Queue::ONE,
    };
    let workload = Subject::from(Tpcc::new(parameters).unwrap());
    let point = workload.simulate(Kind::Ic3, load, Settings::default()).unwrap();
    assert!(point.checks.iter().all(|check| check.ok), "{:?}", point.checks);
    assert!(point.user_aborts > 0, "nobody rolled back");
    let cascades = point.conflicts[Conflict::Cascade as usize];
    let share = cascades as f64 / point.transactions as f64;
    assert!(share < 0.1, "{cascades} cascading aborts in {} transactions", point.transactions);
}

#[derive(Table, Clone, Copy)]
struct Hot {
    #[key]
    key: u64,
    count: u64,
}

#[derive(Table, Clone, Copy)]
struct Cold {
    #[key]
    key: u64,
    count: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("gave up")]
struct GaveUp;

/// Workers count up one row for all and then one of many, and stay there for ten microseconds, so that those who must abort
/// learn of it late; one in `one_in` gives up at the end. What they met in 1.5 ms, and the longest time between
/// two commits, in nanoseconds.
fn late_aborts(workers: usize, one_in: u64) -> (Stats, u64) {
    const ROWS: u64 = 1000;
    let body = move || -> Result<(Stats, u64)> {
        let builder = heddledb_simulator::builder().protocol(Ic3::default()).sessions(workers + 2);
        let db = builder.epoch_interval(Duration::from_micros(50)).open()?;
        let mut declaration = Declaration::new("count");
        declaration.upsert::<Hot>();
        declaration.upsert::<Cold>();
        let count = db.register_declared(declaration)?;
        db.session()?.run(|tx| {
            tx.insert(Hot { key: 0, count: 0 })?;
            (0..ROWS).try_for_each(|key| tx.insert(Cold { key, count: 0 }))
        })?;
        let end = clock() + costs().cycles(1_500_000);
        let mut threads = Vec::new();
        for number in 0..workers {
            let db = db.clone();
            threads.push(thread::spawn_worker(number, move || -> Result<Vec<u64>> {
                let (mut session, mut random) = (db.session()?, Random::new(number as u64));
                let mut commits = Vec::new();
                while clock() < end {
                    let (key, gives_up) = (random.below(ROWS), random.below(one_in) == 0);
                    let outcome = session.call_registered(count, |tx| {
                        tx.at(0);
                        tx.update_columns(0, Hot::count, |count| *count += 1)?;
                        tx.at(1);
                        tx.update_columns(key, Cold::count, |count| *count += 1)?;
                        sleep(Duration::from_micros(10));
                        if gives_up { Err(Error::user(GaveUp)) } else { Ok(()) }
                    });
                    match outcome {
                        Ok(()) => commits.push(clock()),
                        Err(Error::User(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(commits)
            }));
        }
        let mut commits = Vec::new();
        for thread in threads {
            commits.extend(thread.join().expect("no panic")?);
        }
        commits.sort_unstable();
        let hot = db.session()?.run(|tx| tx.get::<Hot>(0))?.expect("it is there");
        assert_eq!(hot.count, commits.len() as u64, "commits alone count");
        let gap = commits.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(u64::MAX);
        Ok((db.metrics().stats, costs().nanoseconds(gap)))
    };
    simulate(Settings::default(), body).expect("it ends").expect("no operation fails")
}

/// Newcomers read from nobody who will abort, though that one has not withdrawn yet: else they abort with it, others read from
/// them in the meantime, and for milliseconds nobody commits (so it was: 3.4 to 5.3 ms).
#[test]
fn who_aborts_late_takes_no_newcomers_along() {
    for (workers, one_in) in [(32, 20), (32, 5), (64, 20), (64, 5)] {
        let (stats, gap_ns) = late_aborts(workers, one_in);
        let place = format!("{workers} workers, one in {one_in} gives up: {stats:?}");
        assert!(stats.user_aborts > 20, "{place}");
        assert!(gap_ns < 500_000, "nobody committed for {gap_ns} ns; {place}");
    }
}
