//! Who waits for whom: nobody for a transaction that thinks, and for what is waited for not for ever.

use super::{Ordered, OrderedRow, Tables, Test};
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::{Builder, Database, Durability, ReadTransaction, Session, Transaction};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "idle_transactions_delay_no_commit", run: commits_beside_an_idle_one },
        Test { name: "idle_transactions_delay_no_snapshot", run: snapshots_beside_an_idle_one },
        Test { name: "idle_transactions_hold_memory_and_are_told", run: memory_of_an_idle_one },
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
