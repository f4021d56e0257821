//! Transactions that read in their bodies, under protocols by which rows in demand are queued for nearly always.

use heddledb::protocol::Kind;
use heddledb::{Database, Deferring, ReadTransaction, Result, Session, Table, Transaction};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Table, Clone, Copy)]
struct Cell {
    #[key]
    id: u64,
    value: u64,
}

/// After so many attempts one that has failed each time runs alone.
const OFTEN: u32 = 64;

fn open(kind: Kind) -> Database {
    let db = Database::builder().protocol(kind).sessions(3).open().expect("it opens");
    let insert = |id| Cell { id, value: 0 };
    let mut session = db.session().expect("a session is free");
    session.run(|tx| (0..2).try_for_each(|id| tx.insert(insert(id)))).expect("the rows are new");
    db
}

fn add_one(tx: &mut impl Transaction, id: u64) -> Result<()> {
    tx.update_columns(id, Cell::value, |value| *value += 1)
}

/// Waits, not for ever.
fn wait(limit: Duration, until: impl Fn() -> bool) {
    let begun = Instant::now();
    while !until() && begun.elapsed() < limit {
        std::thread::yield_now();
    }
}

/// Runs `run` beside a session that always changes row 0.
fn overtaken(kind: Kind, run: impl Fn(&mut Session, &dyn Fn())) {
    let db = open(kind);
    let (done, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = db.session().expect("a session is free");
            while !done.load(Ordering::Relaxed) {
                session.run(|tx| add_one(tx, 0)).expect("it commits");
                commits.fetch_add(1, Ordering::Relaxed);
            }
        });
        let overtake = || {
            // Two: the first may have been before.
            let before = commits.load(Ordering::Relaxed);
            wait(Duration::from_millis(200), || commits.load(Ordering::Relaxed) > before + 1);
        };
        run(&mut db.session().expect("a session is free"), &overtake);
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn one_that_is_overtaken_each_time_gets_through_alone() {
    for kind in Kind::ALL.iter().copied().filter(|kind| kind.defers()) {
        for defers in [false, true] {
            overtaken(kind, |session, overtake| {
                let mut attempts = 0;
                let mut count = || {
                    attempts += 1;
                    assert!(attempts < 4 * OFTEN, "{kind}: it is overtaken for ever");
                };
                if defers {
                    session.defer(|tx| {
                        count();
                        let seen = tx.get_columns(0, Cell::value)?.expect("it is there");
                        overtake();
                        tx.defer(1, Cell::value, (), move |value, ()| *value = seen)?;
                        Ok(())
                    })
                } else {
                    session.run(|tx| {
                        count();
                        let seen = tx.get_columns(0, Cell::value)?.expect("it is there");
                        overtake();
                        tx.update_columns(1, Cell::value, |value| *value = seen)
                    })
                }
                .expect("it commits");
                assert!(attempts > OFTEN, "{kind}: overtaken, it commits at attempt {attempts}");
            });
        }
    }
}

#[test]
fn two_that_fail_each_other_get_through() {
    const ROUNDS: u64 = 20;
    for kind in Kind::ALL.iter().copied().filter(|kind| kind.defers()) {
        let db = open(kind);
        let reads = [AtomicU64::new(0), AtomicU64::new(0)];
        std::thread::scope(|scope| {
            for mine in 0..2 {
                let (db, reads) = (&db, &reads);
                scope.spawn(move || {
                    let mut session = db.session().expect("a session is free");
                    for _ in 0..ROUNDS {
                        let run = session.run(|tx| {
                            tx.get_columns(1 - mine, Cell::value)?;
                            // Both have read before one of them commits.
                            let other = &reads[1 - mine as usize];
                            let before = other.load(Ordering::Relaxed);
                            reads[mine as usize].fetch_add(1, Ordering::Relaxed);
                            wait(Duration::from_millis(1), || other.load(Ordering::Relaxed) > before);
                            add_one(tx, mine)
                        });
                        run.expect("it commits");
                    }
                });
            }
        });
        let mut session = db.session().expect("a session is free");
        for id in 0..2 {
            let value = session.run(|tx| tx.get_columns(id, Cell::value)).expect("it commits");
            assert_eq!(value, Some(ROUNDS), "{kind}");
        }
    }
}
