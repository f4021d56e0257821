//! Schedules find small bugs, delays and deaths fall where they were ordered, and who waits for what is told.

use heddledb::{Database, Durability, Error, Misuse, ReadTransaction, Table, Transaction};
use heddledb_engine_simulated::sync::simulation::*;
use heddledb_engine_simulated::sync::{AtomicU64, Mutex, Ordering, lock, point, sleep, thread};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

fn settings(schedule: Schedule) -> Settings {
    let costs = Costs { cache_lines: 16, shared_cache_lines: 16, ..Costs::default() };
    Settings { costs, schedule, steps_max: 100_000, ..Settings::default() }
}

/// Two increments by load and store: one is lost if a worker is interrupted in between.
fn loses_an_update(schedule: Schedule) -> bool {
    simulate(settings(schedule), || {
        let counter = Arc::new(AtomicU64::new(0));
        let worker = |number| {
            let counter = Arc::clone(&counter);
            thread::spawn_worker(number, move || {
                // Some accesses elsewhere, so that not every interruption will do.
                let own = AtomicU64::new(0);
                for _ in 0..20 {
                    own.fetch_add(1, Ordering::Relaxed);
                }
                let value = counter.load(Ordering::Relaxed);
                counter.store(value + 1, Ordering::Relaxed);
            })
        };
        let workers = [worker(0), worker(1)];
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        counter.load(Ordering::Relaxed) != 2
    })
    .unwrap()
}

#[test]
fn random_and_pct_find_a_bug_of_depth_two() {
    let random = (0..200).filter(|seed| loses_an_update(Schedule::Random { seed: *seed, odds: 3 })).count();
    let pct =
        (0..200).filter(|seed| loses_an_update(Schedule::Pct { seed: *seed, changes: 1, steps: 44 })).count();
    println!("random {random}, pct {pct} of 200");
    assert!(random > 5, "{random}");
    // At least one in 2 * 44 by the theorem, for two threads and one change.
    assert!(pct >= 2, "{pct}");
    assert!(random < 200 && pct < 200, "without interruption nothing is lost: {random}, {pct}");
    assert_eq!(
        (0..50).map(|seed| loses_an_update(Schedule::Random { seed, odds: 3 })).collect::<Vec<_>>(),
        (0..50).map(|seed| loses_an_update(Schedule::Random { seed, odds: 3 })).collect::<Vec<_>>()
    );
}

#[test]
fn a_dead_holder_of_a_mutex_is_a_deadlock_that_tells_who_waits_for_what() {
    for schedule in [
        Schedule::Clock,
        Schedule::Random { seed: 1, odds: 2 },
        Schedule::Pct { seed: 1, changes: 2, steps: 50 },
    ] {
        let death = Event { who: Who::Worker(0), when: When::Point("held".into(), 1), fate: Fate::Kill };
        let failure = simulate(Settings { events: vec![death], ..settings(schedule) }, || {
            let mutex = Arc::new(Mutex::new(0));
            let worker = |number: usize| {
                let mutex = Arc::clone(&mutex);
                thread::spawn_worker(number, move || {
                    sleep(Duration::from_micros(number as u64));
                    let mut held = lock(&mutex);
                    point("held");
                    *held += 1;
                })
            };
            let workers = [worker(0), worker(1)];
            workers.into_iter().for_each(|worker| drop(worker.join()));
        });
        // Whoever came first under this schedule: if the other did, nobody is kept waiting.
        match failure {
            Err(Failure::Deadlock { waits, .. }) => {
                for part in [
                    "worker 0 is dead",
                    "worker 1 waits for a mutex",
                    "the body waits for the end of worker 1",
                ] {
                    assert!(waits.contains(part), "{waits}");
                }
            }
            Ok(()) if schedule != Schedule::Clock => {}
            other => panic!("{schedule:?}: {other:?}"),
        }
    }
}

#[test]
fn a_delay_at_a_point_takes_virtual_time() {
    let delay =
        Event { who: Who::Worker(0), when: When::Point("here".into(), 2), fate: Fate::Stall(1_000_000) };
    let clocks = simulate(Settings { events: vec![delay], ..settings(Schedule::Clock) }, || {
        let worker = thread::spawn_worker(0, || {
            let mut clocks = vec![clock()];
            for _ in 0..3 {
                point("here");
                clocks.push(clock());
            }
            clocks
        });
        worker.join().unwrap()
    })
    .unwrap();
    let steps: Vec<u64> = clocks.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps, [0, 1_000_000, 0]);
}

#[derive(Table, Clone, Copy)]
#[table(name = "row")]
struct Row {
    #[key]
    key: u64,
    value: u64,
}

fn logged() -> (heddledb::storage::Simulated, Database) {
    let disk = heddledb::storage::Simulated::new();
    let builder = heddledb_simulator::builder().sessions(4).table::<Row>(0).storage(Arc::new(disk.clone()));
    let builder =
        builder.recovery_threads(1).checkpoint_after(None).epoch_interval(Duration::from_micros(10));
    (disk, builder.open().unwrap())
}

#[test]
fn a_dead_worker_in_a_commit_makes_a_flush_give_up_after_ten_virtual_seconds() {
    let death = Event { who: Who::Worker(0), when: When::Point("epoch read".into(), 1), fate: Fate::Kill };
    let all = Settings { events: vec![death], steps_max: u64::MAX, ..settings(Schedule::Clock) };
    let (seconds, flushed, read) = simulate(all, || {
        let (_, db) = logged();
        db.session().unwrap().run(|tx| tx.insert(Row { key: 1, value: 1 })).unwrap();
        let writer = db.clone();
        let dying = thread::spawn_worker(0, move || {
            writer.session()?.run(|tx| tx.update_columns(1, Row::value, |value| *value = 2))
        });
        assert!(dying.join().is_err(), "it was killed");
        let flushing = thread::spawn_worker(1, move || {
            let begun = clock();
            let flushed = db.flush();
            let seconds = costs().nanoseconds(clock() - begun) as f64 / 1e9;
            // What the dead one has locked stays locked: a conflict, and nothing of what it wrote.
            let read = db.session().unwrap().attempt(|tx| tx.get_columns(1, Row::value));
            (seconds, flushed, read)
        });
        flushing.join().unwrap()
    })
    .unwrap();
    let Err(Error::Misuse(misuse)) = flushed else { panic!("{flushed:?}") };
    assert_eq!(*misuse, Misuse::EpochHeld { seconds: 10 });
    assert!((10.0..10.1).contains(&seconds), "{seconds}");
    assert!(matches!(read, Err(Error::Conflict(_))), "{read:?}");
}

#[test]
fn without_the_epoch_thread_whoever_waits_moves_the_epoch() {
    // The service of the log dies at its third wait.
    let death = Event { who: Who::Service(0), when: When::Wait(3), fate: Fate::Kill };
    let survived = Rc::new(Cell::new(None));
    let kept = Rc::clone(&survived);
    let all = Settings { events: vec![death], ..settings(Schedule::Clock) };
    let disk = simulate(all, move || {
        let (disk, db) = logged();
        let worker = thread::spawn_worker(0, move || {
            let mut session = db.session().unwrap();
            session.set_durability(Durability::Sync).unwrap();
            for key in 0..20 {
                sleep(Duration::from_micros(5));
                session.run(|tx| tx.insert(Row { key, value: key })).unwrap();
            }
            session.set_durability(Durability::Epoch).unwrap();
            session.run(|tx| tx.insert(Row { key: 20, value: 20 })).unwrap();
            db.flush().unwrap();
            assert_eq!(session.snapshot().unwrap().collect(heddledb::Scan::<Row>::all()).unwrap().len(), 21);
            // The database would wait for the dead thread's end.
            std::mem::forget(session);
            std::mem::forget(db);
        });
        worker.join().unwrap();
        kept.set(Some(disk.clone()));
        disk
    });
    let disk = disk.ok().or(survived.take()).unwrap();
    let left = disk.after_power_cut(7);
    let db =
        heddledb_simulator::builder().table::<Row>(0).storage(Arc::new(left)).manual_epochs().open().unwrap();
    assert_eq!(db.snapshot().unwrap().collect(heddledb::Scan::<Row>::all()).unwrap().len(), 21);
}
