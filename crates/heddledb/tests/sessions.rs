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
         another transaction of this thread is open and cannot go on meanwhile: do the work of both in one transaction, \
         or end the other one first"
    );
    drop(open);
    // What is free needs no time.
    assert!(session.run_within(Duration::ZERO, |tx| tx.get::<Account>(1)).unwrap().is_some());
}

/// What a transaction is told that met another one of its thread.
fn told(error: &Error) {
    let Error::GaveUp(why) = error else { panic!("{error}") };
    assert!(why.within_another && error.to_string().contains("of this thread"), "{error}");
}

/// A transaction within another one has committed on this thread, long ago. One that conflicts often since then is not taken
/// for one that disturbs itself. (The suite found it, on a busy machine.)
#[test]
fn what_ran_within_a_body_is_forgotten_after_it() {
    let db = Database::builder().sessions(3).open().unwrap();
    let (mut one, mut other) = (db.session().unwrap(), db.session().unwrap());
    one.run(|tx| {
        tx.insert(Account { id: 1, balance: 1 })?;
        other.run(|tx| tx.insert(Account { id: 2, balance: 1 }))
    })
    .unwrap();
    let mut conflicts = 0;
    let after = one.run(|tx| {
        conflicts += 1;
        if conflicts < 400 { Err(Conflict::Locked.into()) } else { tx.get::<Account>(1) }
    });
    assert!(after.unwrap().is_some());
}

/// Under each protocol that lets several sessions in, on a thread of its own, since each waits for a limit.
fn under_each(test: impl Fn(Kind) + Copy + Send + 'static) {
    let kinds = Kind::ALL.iter().filter(|kind| kind.sessions_max() > 1);
    let threads = kinds.map(|kind| (kind, std::thread::spawn(move || test(*kind)))).collect::<Vec<_>>();
    for (kind, thread) in threads {
        thread.join().unwrap_or_else(|_| panic!("{kind}"));
    }
}

/// Two transactions of one thread want one row, and nobody has set a limit: one of them commits, and the other is told.
#[test]
fn transactions_of_one_thread_do_not_wait_for_ever() {
    under_each(|kind| {
        let db = Database::builder().protocol(kind).open().unwrap();
        let mut session = db.session().unwrap();
        session.run(|tx| tx.insert(Account { id: 1, balance: 0 })).unwrap();
        let mut open = db.begin().unwrap();
        open.update_columns(1, Account::balance, |balance| *balance += 1).unwrap();
        let first = session.run(|tx| tx.update_columns(1, Account::balance, |balance| *balance += 10));
        let second = open.commit();
        first.as_ref().err().into_iter().for_each(told);
        assert!(first.is_ok() || second.is_ok(), "{kind}");
        let expected = i64::from(second.is_ok()) + 10 * i64::from(first.is_ok());
        let balance = session.run(|tx| tx.get_columns(1, Account::balance)).unwrap();
        assert_eq!(balance, Some(expected), "{kind}");

        // Two owned ones.
        let mut open = db.begin().unwrap();
        open.update_columns(1, Account::balance, |balance| *balance += 1).unwrap();
        let mut other = db.begin().unwrap();
        let first = other.update_columns(1, Account::balance, |balance| *balance += 10);
        assert!(first.as_ref().err().is_none_or(Error::is_retryable), "{kind}");
    });
}

/// A body runs another session's transaction on the row that it has read, and nobody has set a limit.
#[test]
fn a_body_that_runs_another_transaction_ends() {
    under_each(|kind| {
        let db = Database::builder().protocol(kind).open().unwrap();
        let (mut outer, mut inner) = (db.session().unwrap(), db.session().unwrap());
        outer.run(|tx| tx.insert(Account { id: 1, balance: 0 })).unwrap();
        let mut committed = 0;
        let outcome = outer.run(|tx| {
            tx.update_columns(1, Account::balance, |balance| *balance += 1)?;
            inner.run(|tx| tx.update_columns(1, Account::balance, |balance| *balance += 1))?;
            committed += 1;
            Ok(())
        });
        outcome.as_ref().err().into_iter().for_each(told);
        committed += i64::from(outcome.is_ok());
        let balance = outer.run(|tx| tx.get_columns(1, Account::balance)).unwrap();
        assert_eq!(balance, Some(committed), "{kind}");
    });
}
