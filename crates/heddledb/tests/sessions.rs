//! Sessions of many threads: a pool that waits, limits of time and of attempts, and what they tell.

use heddledb::protocol::Kind;
use heddledb::{Conflict, Database, Error, Misuse, ReadTransaction, Result, Table, Transaction};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

#[derive(Table, Clone, Copy, Debug)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

/// Nothing here takes as long.
const LONG: Duration = Duration::from_secs(600);

/// All begin at once, and there are fewer sessions than threads.
fn pool(sessions: usize, threads: u64, rounds: i64) {
    let db = Database::builder().sessions(sessions).session_wait(LONG).open().unwrap();
    db.with_session(|session| session.run(|tx| tx.insert(Account { id: 0, balance: 0 }))).unwrap();
    let together = Barrier::new(threads as usize);
    let failed: Vec<Error> = thread::scope(|scope| {
        let task = |id: u64| {
            let (db, together) = (&db, &together);
            scope.spawn(move || {
                together.wait();
                (0..rounds).try_for_each(|_| {
                    db.with_session(|session| {
                        session.run(|tx| {
                            tx.upsert(Account { id, balance: 1 })?;
                            tx.add(Account::balance, 0, 1)
                        })
                    })
                })
            })
        };
        let threads: Vec<_> = (1..=threads).map(task).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap().err()).collect()
    });
    assert!(failed.is_empty(), "{} failed: {}", failed.len(), failed[0]);
    let total = db.with_session(|session| session.run(|tx| tx.get_columns(0, Account::balance))).unwrap();
    assert_eq!(total, Some(threads as i64 * rounds));
}

#[test]
fn four_hundred_threads_share_the_sessions() {
    pool(128, 400, 3);
}

#[test]
fn many_threads_share_one_session() {
    pool(1, 40, 20);
}

#[test]
fn a_session_is_waited_for_no_longer_than_told() {
    let wait = Duration::from_millis(20);
    let db = Database::builder().sessions(1).session_wait(wait).open().unwrap();
    let held = db.session().unwrap();
    let error = db.with_session(|_| Ok(())).unwrap_err();
    let Some(Misuse::NoSessionFree { limit: 1, waited }) = error.misuse() else { panic!("{error}") };
    assert!(*waited >= wait);
    assert_eq!(db.session().err().unwrap().misuse(), Some(&Misuse::TooManySessions { limit: 1 }), "at once");
    drop(held);
    db.with_session(|_| Ok(())).unwrap();
}

#[test]
fn a_session_comes_back_after_a_panic() {
    let db = Database::builder().sessions(1).open().unwrap();
    let panics = || db.with_session(|session| session.run(|_| -> Result<()> { panic!("the body's own") }));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    db.with_session(|session| session.run(|tx| tx.insert(Account { id: 1, balance: 1 }))).unwrap();
}

#[test]
fn a_limit_of_time_ends_with_its_run() {
    let db = Database::builder().protocol(Kind::DlDetect).sessions(3).open().unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| tx.insert(Account { id: 1, balance: 1 })).unwrap();
    let panics = || session.run_within(Duration::ZERO, |_| -> Result<()> { panic!("the body's own") });
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    let mut conflicts = 0;
    session
        .run(|tx| {
            conflicts += 1;
            if conflicts < 5 {
                return Err(Conflict::Locked.into());
            }
            tx.get::<Account>(1)
        })
        .unwrap();
    // A run whose time is over makes one attempt, and waits for nobody.
    let mut open = db.begin().unwrap();
    open.set_columns(1, Account::balance, 2).unwrap();
    let Err(Error::GaveUp(why)) = session.run_within(Duration::ZERO, |tx| tx.get::<Account>(1)) else {
        panic!("the row is locked")
    };
    assert_eq!((why.attempts, why.conflict), (1, Conflict::TimedOut));
    let at = why.at.as_ref().unwrap();
    assert_eq!((at.relation, &at.key[..]), ("account", &[1][..]));
    assert_eq!(
        why.to_string(),
        "the transaction was given up after 1 attempt; the last one conflicted (timed out) at key [1] of account; \
         run it again later, allow it more attempts or time, or end what holds the row: maybe another transaction \
         of this thread"
    );
    drop(open);
    // What is free needs no time.
    assert!(session.run_within(Duration::ZERO, |tx| tx.get::<Account>(1)).unwrap().is_some());
}
