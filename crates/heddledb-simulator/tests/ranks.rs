//! What ranks do on many cores: a row that everyone changes costs less when all else is done before its turn comes.

use heddledb::protocol::Kind;
use heddledb::{Column, Deferring, Result, Table, Transaction};
use heddledb_engine_simulated::sync::simulation::{Settings, clock, costs, simulate};
use heddledb_engine_simulated::sync::thread;
use std::time::Duration;

/// Everyone's counter, of which nobody needs the result: queued for last.
#[derive(Table, Clone, Copy)]
#[table(rank = 255)]
struct Last {
    #[key]
    key: u64,
    count: u64,
}

/// The same, queued for first.
#[derive(Table, Clone, Copy)]
#[table(rank = 0)]
struct First {
    #[key]
    key: u64,
    count: u64,
}

/// Queued for last, and held to the end.
#[derive(Table, Clone, Copy)]
#[table(rank = 255, held)]
struct Held {
    #[key]
    key: u64,
    count: u64,
}

/// Rows of one worker each.
#[derive(Table, Clone, Copy)]
struct Own {
    #[key]
    key: u64,
    count: u64,
}

const CORES: usize = 16;
const OWN: u64 = 8;

/// Commits in a window in which each transaction counts in everyone's row, and in some of its worker's own.
fn commits<T: Table<Key = u64>>(kind: Kind, row: fn(u64) -> T, count: Column<T, u64>) -> u64 {
    let body = move || -> Result<u64> {
        let db = heddledb_simulator::builder().protocol(kind).sessions(CORES + 2);
        let db = db.epoch_interval(Duration::from_micros(50)).open()?;
        db.session()?.run(|tx| {
            tx.insert(row(0))?;
            (0..OWN * CORES as u64).try_for_each(|key| tx.insert(Own { key, count: 0 }))
        })?;
        let end = clock() + costs().cycles(200_000);
        let mut threads = Vec::new();
        for number in 0..CORES {
            let db = db.clone();
            threads.push(thread::spawn_worker(number, move || -> Result<u64> {
                let (mut session, mut commits) = (db.session()?, 0);
                let own = number as u64 * OWN;
                while clock() < end {
                    session.defer(|tx| {
                        tx.defer(0, count, (), |count, ()| *count += 1)?;
                        for key in own..own + OWN {
                            tx.defer(key, Own::count, (), |count, ()| *count += 1)?;
                        }
                        Ok(())
                    })?;
                    commits += 1;
                }
                Ok(commits)
            }));
        }
        let mut commits = 0;
        for thread in threads {
            commits += thread.join().expect("no panic")?;
        }
        let stats = db.metrics().stats;
        assert_eq!(
            stats.conflicts.iter().sum::<u64>(),
            0,
            "{kind}: what only defers never conflicts: {stats:?}"
        );
        Ok(commits)
    };
    simulate(Settings::default(), body).expect("it ends").expect("no operation fails")
}

#[test]
fn a_row_that_everyone_changes_is_best_ranked_last() {
    for (kind, times) in [(Kind::Drp, 1.5), (Kind::Deferred2pl, 1.0)] {
        let first = commits(kind, |key| First { key, count: 0 }, First::count);
        let last = commits(kind, |key| Last { key, count: 0 }, Last::count);
        println!("{kind}: {first} commits with the row first, {last} with it last");
        assert!(
            last as f64 > times * first as f64,
            "{kind}: {first} with the row first, {last} with it last"
        );
    }
}

#[test]
fn a_row_that_is_held_is_handed_on_as_under_two_phase_locking() {
    let [handed_on, held] = [
        commits(Kind::Drp, |key| Last { key, count: 0 }, Last::count),
        commits(Kind::Drp, |key| Held { key, count: 0 }, Held::count),
    ];
    let locked = commits(Kind::Deferred2pl, |key| Held { key, count: 0 }, Held::count);
    println!(
        "{handed_on} commits with a row that is handed on, {held} with one that is held, {locked} with locks"
    );
    assert!(
        held as f64 <= 0.9 * handed_on as f64,
        "{held} with a row that is held, {handed_on} with one that is not"
    );
    assert!(held.abs_diff(locked) * 20 < locked, "{held} with a row that is held, {locked} with locks");
}
