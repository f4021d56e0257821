//! Who waits for whom: nobody for a transaction that thinks, and for what is waited for not for ever.

use super::{Ordered, OrderedRow, Tables, Test};
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::{
    Builder, Conflict, Database, Durability, Error, Misuse, ReadTransaction, Result, Session, Transaction,
};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "idle_transactions_delay_no_commit", run: commits_beside_an_idle_one },
        Test { name: "idle_transactions_delay_no_snapshot", run: snapshots_beside_an_idle_one },
        Test { name: "idle_transactions_hold_memory_and_are_told", run: memory_of_an_idle_one },
        Test { name: "idle_transactions_are_ended_after_a_limit", run: limited_life },
        Test { name: "waits_for_a_session_of_the_same_thread_end", run: on_one_thread },
        Test { name: "waits_for_a_session_within_a_body_end", run: within_a_body },
        Test { name: "waits_for_a_lock_end", run: locks },
        Test { name: "waits_end_after_so_many_attempts", run: attempts },
    ]
}

/// Tells a hang from progress, and nothing else.
const HANGS: Duration = Duration::from_secs(120);
const KEYS: u64 = 64;

/// Runs `body` on a thread of its own; panics if it does not end.
fn ends<R: Send + 'static>(what: &str, body: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = channel();
    let thread = thread::spawn(move || tell.send(body()));
    match told.recv_timeout(HANGS) {
        Ok(result) => result,
        Err(_) if thread.is_finished() => panic!("{what} has failed"),
        Err(_) => panic!("{what} hangs"),
    }
}

/// Whether another transaction can run beside one that is open.
fn has_company(kind: Kind) -> bool {
    kind.sessions_max() > 1 && kind.name() != "one-writer"
}

fn builder(kind: Kind) -> Builder {
    Database::builder().protocol(kind).sessions(kind.sessions_max().min(8)).table::<OrderedRow>(0)
}

fn load(session: &mut Session) {
    session
        .run(|tx| (0..KEYS).try_for_each(|key| tx.insert(Ordered::row(key, 0, 0))))
        .expect("nobody is in the way");
}

/// A transaction that has read an unrelated row and is left alone, while others wait until they are durable.
fn commits_beside_an_idle_one(kind: Kind) {
    if !has_company(kind) {
        return;
    }
    let storage = Arc::new(Simulated::new());
    let db = builder(kind).storage(storage).durability(Durability::Sync).open().expect("an empty storage");
    let mut session = db.session().expect("the first");
    load(&mut session);
    let mut idle = db.begin().expect("the second");
    idle.get::<OrderedRow>(0).expect("nobody is in the way");
    let flushed = db.clone();
    ends("a commit beside an idle transaction", move || {
        for round in 1..=20 {
            session.run(|tx| tx.update_columns(1, Ordered::VALUE, |value| *value = round)).expect("alone");
            assert!(session.ticket().is_durable(), "told too early");
        }
    });
    ends("flush", move || flushed.flush().expect("it works"));
    drop(idle);
}

/// The same with readers of a moment, on other threads and on the same one.
fn snapshots_beside_an_idle_one(kind: Kind) {
    if !has_company(kind) {
        return;
    }
    let db = builder(kind).open().expect("the settings can be met");
    let mut session = db.session().expect("the first");
    load(&mut session);
    let mut idle = db.begin().expect("the second");
    idle.get::<OrderedRow>(0).expect("nobody is in the way");
    for round in 1..=5 {
        session.run(|tx| tx.update_columns(1, Ordered::VALUE, |value| *value = round)).expect("alone");
        let mut snapshot = db.snapshot().expect("no body is waited for");
        let seen = snapshot.get_columns(1, Ordered::VALUE).expect("it reads");
        assert_eq!(seen, Some(round), "a snapshot sees what was committed before");
        let other = db.clone();
        let seen = ends("a read beside an idle transaction", move || {
            let mut session = other.session().expect("the third");
            session.read(|tx| tx.get_columns(1, Ordered::VALUE)).expect("no body is waited for")
        });
        assert!(seen.is_some(), "a recent moment");
    }
    assert_eq!(idle.get_columns(0, Ordered::VALUE).expect("nobody has written it"), Some(0));
    drop(idle);
}

/// What is deleted beside it stays; the metrics say for whom; and goes when it has ended.
fn memory_of_an_idle_one(kind: Kind) {
    if !has_company(kind) {
        return;
    }
    let db = builder(kind).manual_epochs().open().expect("the settings can be met");
    let mut session = db.session().expect("the first");
    load(&mut session);
    let mut idle = db.begin().expect("the second");
    idle.get::<OrderedRow>(0).expect("nobody is in the way");
    for key in 1..KEYS {
        session.run(|tx| tx.delete::<OrderedRow>(key)).expect("nobody is in the way");
        assert!(db.advance_epoch(), "no commit is under way");
    }
    session.run(|tx| tx.get::<OrderedRow>(0)).expect("nobody is in the way");
    let oldest = db.metrics().oldest_transaction.expect("one is open");
    assert_ne!(oldest.session, session.worker());
    assert!(oldest.epochs >= KEYS - 1, "{oldest:?}");
    assert!(oldest.holds >= KEYS as usize - 1, "all that was deleted waits: {oldest:?}");
    drop(idle);
    let mut looks = 0;
    while db.metrics().garbage > 0 {
        db.advance_epoch();
        session.run(|tx| tx.get::<OrderedRow>(0)).expect("nobody is in the way");
        looks += 1;
        assert!(looks < 1000, "{:?}", db.metrics());
    }
    db.advance_epoch();
    assert_eq!(db.metrics().oldest_transaction, None);
}

/// A transaction that was open for too long is ended when its owner comes back, who is told; and lets go of all.
fn limited_life(kind: Kind) {
    if !has_company(kind) {
        return;
    }
    let limit = Duration::from_millis(20);
    let db = builder(kind).transaction_timeout(limit).open().expect("the settings can be met");
    let mut session = db.session().expect("the first");
    load(&mut session);
    let told = |error: &Error| {
        assert_eq!(error.misuse(), Some(&Misuse::TransactionTimedOut { limit }), "{error}");
    };
    let mut idle = db.begin().expect("the second");
    if idle.set_columns(0, Ordered::VALUE, 9).is_ok() {
        thread::sleep(2 * limit);
        told(&idle.set_columns(1, Ordered::VALUE, 9).expect_err("it has been ended"));
    }
    told(&idle.get::<OrderedRow>(0).expect_err("it stays ended"));
    // It holds no lock any more, though its owner has it still.
    session.run(|tx| tx.update_columns(0, Ordered::VALUE, |value| *value += 1)).expect("alone");
    told(&idle.commit().expect_err("it has been ended"));
    assert_eq!(session.run(|tx| tx.get_columns(0, Ordered::VALUE)).expect("alone"), Some(1));

    let mut idle = db.begin().expect("the second");
    // A loaded machine may take that long for one operation.
    let _ = idle.get::<OrderedRow>(0);
    thread::sleep(2 * limit);
    told(&idle.commit().expect_err("it has been ended"));
    let mut again = db.begin().expect("its session is free");
    match again.get_columns(0, Ordered::VALUE) {
        Ok(value) => assert_eq!(value, Some(1)),
        Err(error) => told(&error),
    }
}

/// What may become of a transaction that meets one which will not end before it.
fn bounded<R>(outcome: Result<R>, attempts: u32) -> Option<R> {
    match outcome {
        Ok(result) => Some(result),
        Err(Error::GaveUp(why)) => {
            assert!(why.attempts >= 1 && why.attempts <= attempts, "{why}");
            let text = why.to_string();
            assert!(text.contains(why.conflict.name()) && text.contains("attempt"), "{text}");
            assert!(why.at.is_none_or(|at| at.relation != "ordered_row" || at.key == [1]), "{text}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// An open transaction has a row; another session of its thread wants it.
fn on_one_thread(kind: Kind) {
    if !has_company(kind) {
        return;
    }
    ends("a wait for a transaction of the same thread", move || {
        let db = builder(kind).open().expect("the settings can be met");
        let (mut session, mut other) = (db.session().expect("the first"), db.session().expect("the second"));
        load(&mut session);
        let mut open = db.begin().expect("the third");
        open.update_columns(1, Ordered::VALUE, |value| *value += 100).expect("nobody is in the way");
        let within = Duration::from_millis(50);
        let outcome =
            other.run_within(within, |tx| tx.update_columns(1, Ordered::VALUE, |value| *value += 1));
        let first = bounded(outcome, u32::MAX).is_some();
        let second = match open.commit() {
            Ok(()) => true,
            Err(Error::Conflict(_)) => false,
            Err(error) => panic!("{error}"),
        };
        assert!(first || second, "one of them commits");
        // The limit was that run's alone.
        other.run(|tx| tx.update_columns(1, Ordered::VALUE, |value| *value += 10)).expect("alone");
        let expected = i64::from(first) + if second { 100 } else { 0 } + 10;
        let value = session.run(|tx| tx.get_columns(1, Ordered::VALUE)).expect("alone");
        assert_eq!(value, Some(expected));
    });
}

/// A body runs another session's transaction that wants its row: each attempt of the outer one fails, or each of the
/// inner one.
fn within_a_body(kind: Kind) {
    if !has_company(kind) {
        return;
    }
    ends("a body that runs another transaction", move || {
        let db = builder(kind).open().expect("the settings can be met");
        let (mut outer, mut inner) = (db.session().expect("the first"), db.session().expect("the second"));
        load(&mut outer);
        let mut committed = 0;
        let outcome = outer.run_within(Duration::from_millis(100), |tx| {
            tx.update_columns(1, Ordered::VALUE, |value| *value += 1)?;
            let outcome = inner.run_within(Duration::from_millis(10), |tx| {
                tx.update_columns(1, Ordered::VALUE, |value| *value += 1)
            });
            committed += i64::from(bounded(outcome, u32::MAX).is_some());
            Ok(())
        });
        committed += i64::from(bounded(outcome, u32::MAX).is_some());
        let value = outer.run(|tx| tx.get_columns(1, Ordered::VALUE)).expect("alone");
        assert_eq!(value, Some(committed), "who is told that it committed has, and nobody else");
    });
}

/// With a limit for each wait a lock is not waited for for ever, and an attempt tells.
fn locks(kind: Kind) {
    if !has_company(kind) {
        return;
    }
    ends("a wait for a lock", move || {
        let db =
            builder(kind).lock_timeout(Duration::from_millis(5)).retries(3).open().expect("it can be met");
        let (mut session, mut other) = (db.session().expect("the first"), db.session().expect("the second"));
        load(&mut session);
        let mut open = db.begin().expect("the third");
        open.update_columns(1, Ordered::VALUE, |value| *value += 100).expect("nobody is in the way");
        let outcome = other.attempt(|tx| tx.update_columns(1, Ordered::VALUE, |value| *value += 1));
        let waits = matches!(kind, Kind::DlDetect | Kind::WaitDie);
        match outcome {
            Ok(()) => assert!(!waits, "the row is locked"),
            Err(Error::Conflict(Conflict::TimedOut)) => {}
            // Wait-die waits for younger ones only, and this one is younger.
            Err(Error::Conflict(conflict)) => {
                assert!(kind != Kind::DlDetect, "a lock is waited for: {conflict}");
            }
            Err(error) => panic!("{error}"),
        }
        drop(open);
        other.run(|tx| tx.update_columns(1, Ordered::VALUE, |value| *value += 1)).expect("alone");
    });
}

/// With a limit of attempts a transaction that conflicts each time is given up, and says how often, why, and where.
fn attempts(kind: Kind) {
    if !has_company(kind) {
        return;
    }
    ends("attempts", move || {
        let db = builder(kind).retries(4).open().expect("the settings can be met");
        let mut session = db.session().expect("the first");
        load(&mut session);
        let mut made = 0;
        let outcome: Result<()> = session.run(|tx| {
            made += 1;
            tx.get::<OrderedRow>(1)?;
            Err(Conflict::ReadChanged.into())
        });
        let Err(Error::GaveUp(why)) = outcome else { panic!("it conflicts each time") };
        assert_eq!((made, why.attempts, why.conflict, why.at), (5, 5, Conflict::ReadChanged, None));
        session.run(|tx| tx.update_columns(1, Ordered::VALUE, |value| *value += 1)).expect("alone");
    });
}
