//! Calls that are submitted: settings, durability, what is kept and for how long, and closing. What every protocol must do
//! with them is in the conformance suite (`submit_*`).

use heddledb::procedure::Announcement;
use heddledb::protocol::{Isolation, Kind};
use heddledb::storage::{Fault, Simulated};
use heddledb::{
    Builder, Database, Durability, Error, Misuse, Pending, ReadTransaction, Result, Session, Table,
    Transaction, procedure,
};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Counter {
    #[key]
    key: u64,
    count: i64,
}

#[procedure]
fn count(tx: &mut impl Transaction, key: u64) -> Result<i64> {
    tx.update_columns(key, Counter::count, |count| {
        *count += 1;
        *count
    })
}

/// Whether it is open, and how many executions have come to it.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<(bool, u32)>, Condvar)>);

impl Gate {
    fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.1 += 1;
        changed.notify_all();
        drop(changed.wait_while(state, |(open, _)| !*open).unwrap());
    }

    fn await_somebody(&self) {
        let (state, changed) = &*self.0;
        drop(changed.wait_while(state.lock().unwrap(), |(_, passed)| *passed == 0).unwrap());
    }

    fn open(&self) {
        self.0.0.lock().unwrap().0 = true;
        self.0.1.notify_all();
    }

    fn passed(&self) -> u32 {
        self.0.0.lock().unwrap().1
    }
}

/// What a call holds until it has ended, and what it returns.
type Kept = Arc<&'static str>;

#[procedure]
fn hold(tx: &mut impl Transaction, gate: Gate, kept: Kept) -> Result<Kept> {
    let seen = tx.get_columns(1, Counter::count)?.unwrap_or(0);
    gate.pass();
    tx.set_columns(2, Counter::count, seen)?;
    if **kept == *"panic" { panic!("it is told to") } else { Ok(kept.clone()) }
}

/// Holds a handle of its own database.
#[procedure]
fn hold_database(tx: &mut impl Transaction, gate: Gate, db: Database) -> Result<&'static str> {
    gate.pass();
    tx.update_columns(1, Counter::count, |count| *count += 1)?;
    Ok(db.protocol())
}

fn builder() -> Builder {
    Database::builder().procedure::<Count>().procedure::<Hold>().procedure::<HoldDatabase>()
}

fn fill(db: &Database) {
    let insert = |session: &mut Session| {
        session.run(|tx| (0..4).try_for_each(|key| tx.insert(Counter { key, count: 0 })))
    };
    db.session().and_then(|mut session| insert(&mut session)).unwrap();
}

fn database(executors: usize) -> Database {
    let db = builder().executors(executors).open().unwrap();
    fill(&db);
    db
}

/// A call under way, with what it waits for and what it holds.
fn submit_held(session: &mut Session, what: &'static str) -> (Gate, Kept, Pending<Kept>) {
    let (gate, kept) = (Gate::default(), Arc::new(what));
    let pending = session.submit(Hold, (gate.clone(), kept.clone())).unwrap();
    gate.await_somebody();
    (gate, kept, pending)
}

fn is_option(outcome: Result<impl Sized>, part: &str) {
    let error = outcome.err().expect("it is refused");
    assert!(matches!(error.misuse(), Some(Misuse::Option(_))), "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

#[test]
fn what_cannot_be_is_refused() {
    let db = database(0);
    let mut session = db.session().unwrap();
    is_option(session.submit(Count, 1), "`Builder::executors`");
    is_option(session.try_submit(Count, 1), "`Builder::executors`");
    assert_eq!(session.under_way(), 0);
    is_option(builder().sessions(4).executors(4).open(), "4 executors leave none of 4 sessions");
    is_option(builder().window(0).open(), "at least 1");
    // As many as leave one session.
    let db = builder().sessions(4).executors(3).open().unwrap();
    let session = db.session().unwrap();
    assert!(matches!(db.session().err().unwrap().misuse(), Some(Misuse::TooManySessions { limit: 4 })));
    drop(session);
    db.session().unwrap();
}

#[test]
fn what_is_not_registered_is_told_where_it_is_waited_for() {
    let db = database(1);
    let mut session = db.session().unwrap();
    assert!(db.unregister::<Count>().unwrap());
    let error = session.submit(Count, 1).unwrap().wait().unwrap_err();
    assert!(matches!(error.misuse(), Some(Misuse::NotRegistered { name, .. }) if name == "count"), "{error}");
    db.register::<Count>().unwrap();
    assert_eq!(session.submit(Count, 1).unwrap().wait().unwrap(), 1);
}

#[test]
fn a_session_sets_its_window() {
    let db = builder().executors(1).window(2).open().unwrap();
    fill(&db);
    let mut session = db.session().unwrap();
    let (gate, _, held) = submit_held(&mut session, "");
    let second = session.try_submit(Count, 0).unwrap().expect("there is room");
    assert!(session.try_submit(Count, 0).unwrap().is_none());
    session.set_window(3);
    let third = session.try_submit(Count, 0).unwrap().expect("there is room");
    assert!(session.try_submit(Count, 0).unwrap().is_none());
    session.set_window(0); // one at least
    gate.open();
    held.wait().unwrap();
    assert_eq!((second.wait().unwrap(), third.wait().unwrap()), (1, 2));
    assert_eq!(session.try_submit(Count, 0).unwrap().expect("there is room").wait().unwrap(), 3);
}

#[test]
fn a_result_is_asked_for_in_vain_until_it_is_there() {
    let db = database(1);
    let mut session = db.session().unwrap();
    let (gate, _, mut held) = submit_held(&mut session, "kept");
    assert_eq!(format!("{held:?}"), "Pending { is_done: false, .. }");
    held = held.try_wait().expect_err("it is held");
    gate.open();
    let kept = loop {
        match held.try_wait() {
            Ok(result) => break result.unwrap(),
            Err(again) => held = again,
        }
        thread::yield_now();
    };
    assert_eq!(*kept, "kept");
}

#[test]
fn a_future_whose_call_has_ended_is_ready_at_once() {
    let db = database(1);
    let mut session = db.session().unwrap();
    let mut pending = pin!(session.submit(Count, 0).unwrap());
    while !pending.is_done() {
        thread::yield_now();
    }
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(pending.as_mut().poll(&mut context), Poll::Ready(Ok(1))));
    let again = catch_unwind(AssertUnwindSafe(|| pending.as_mut().poll(&mut context).is_ready()));
    assert!(again.is_err(), "there is no second result");
}

/// Arguments live until the call has ended, results until nobody can ask for them, whatever becomes of both.
#[test]
fn nothing_is_kept_for_longer_than_it_is_of_use() {
    let db = database(1);
    let mut session = db.session().unwrap();
    // Waited for.
    let (gate, kept, pending) = submit_held(&mut session, "");
    let held = Arc::strong_count(&kept);
    gate.open();
    assert!(held > 1, "the argument");
    let result = pending.wait().unwrap();
    assert_eq!(Arc::strong_count(&kept), 2, "the result");
    drop(result);
    assert_eq!(Arc::strong_count(&kept), 1);
    // Dropped before it has ended, and after.
    for ended in [false, true] {
        let (gate, kept, pending) = submit_held(&mut session, "");
        let mut pending = Some(pending);
        if !ended {
            pending = None;
        }
        gate.open();
        while session.under_way() > 0 {
            thread::yield_now();
        }
        if ended {
            assert_eq!(Arc::strong_count(&kept), 2, "the result");
        }
        drop(pending);
        // The executor drops the result after the call is no longer under way.
        while Arc::strong_count(&kept) > 1 {
            thread::yield_now();
        }
    }
    // Panicked.
    let (gate, kept, pending) = submit_held(&mut session, "panic");
    gate.open();
    let panic = catch_unwind(AssertUnwindSafe(|| pending.wait())).expect_err("it panics");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"it is told to"));
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// Under a weaker level a read that has changed does not matter.
#[test]
fn a_call_runs_at_the_level_of_its_session() {
    for (level, executions) in [(Isolation::Serializable, 2), (Isolation::RepeatableRead, 1)] {
        let db = database(1);
        let mut session = db.session().unwrap();
        session.set_isolation(level).unwrap();
        let (gate, _, held) = submit_held(&mut session, "");
        db.session().unwrap().run(|tx| tx.set_columns(1, Counter::count, 5)).unwrap();
        gate.open();
        held.wait().unwrap();
        assert_eq!(gate.passed(), executions, "{level}");
    }
}

#[test]
fn results_outlive_session_and_database() {
    let db = database(2);
    let mut session = db.session().unwrap();
    let (gate, _, held) = submit_held(&mut session, "late");
    drop(session);
    // Its place is free, and sessions come and go beside the call.
    for _ in 0..200 {
        assert!(db.session().unwrap().submit(Count, 3).unwrap().wait().is_ok());
    }
    gate.open();
    drop(db);
    assert!(held.is_done());
    assert_eq!(*held.wait().unwrap(), "late");
}

/// The last handle is among the arguments of a call, so the executor closes the database.
#[test]
fn an_executor_may_close_the_database() {
    for _ in 0..20 {
        let db = database(2);
        let mut session = db.session().unwrap();
        let gate = Gate::default();
        let held = session.submit(HoldDatabase, (gate.clone(), db.clone())).unwrap();
        gate.await_somebody();
        let others: Vec<_> = (0..10).map(|_| session.submit(Count, 0).unwrap()).collect();
        drop((session, db));
        gate.open();
        assert_eq!(held.wait().unwrap(), "silo");
        let mut counts: Vec<i64> = others.into_iter().map(|call| call.wait().unwrap()).collect();
        counts.sort_unstable();
        assert_eq!(counts, (1..=10).collect::<Vec<_>>());
    }
}

fn on_disk(disk: &Simulated) -> Database {
    let builder = builder().executors(2).manual_epochs().recovery_threads(1).table::<Counter>(0);
    builder.storage(Arc::new(disk.clone())).open().unwrap()
}

fn found(disk: &Simulated, key: u64) -> i64 {
    let row = on_disk(disk).session().unwrap().run(|tx| tx.get::<Counter>(key)).unwrap();
    row.unwrap().count
}

#[test]
fn a_ticket_tells_when_a_call_is_durable() {
    let disk = Simulated::new();
    let db = on_disk(&disk);
    fill(&db);
    let mut session = db.session().unwrap();
    let (result, ticket) = session.submit(Count, 0).unwrap().wait_ticket().unwrap();
    assert!(result == 1 && !ticket.is_durable(), "nobody has written the log");
    db.flush().unwrap();
    assert!(ticket.is_durable());
    assert_eq!(found(&disk.after_power_cut(1), 0), 1);
}

#[test]
fn where_commits_are_durable_a_result_is() {
    let disk = Simulated::new();
    let db = on_disk(&disk);
    fill(&db);
    let mut session = db.session().unwrap();
    session.set_durability(Durability::Sync).unwrap();
    for round in 0..10 {
        let calls: Vec<_> = (0..20).map(|_| session.submit(Count, 0).unwrap()).collect();
        for call in calls {
            let (_, ticket) = call.wait_ticket().unwrap();
            assert!(ticket.is_durable());
        }
        assert_eq!(found(&disk.after_power_cut(round), 0), 20 * (round as i64 + 1), "seed {round}");
    }
}

#[test]
fn calls_that_a_failing_log_lost_are_of_unknown_outcome() {
    let disk = Simulated::new();
    let db = on_disk(&disk);
    fill(&db);
    db.flush().unwrap();
    let mut session = db.session().unwrap();
    session.set_durability(Durability::Sync).unwrap();
    disk.fail(disk.operations(), Fault::Error);
    let calls: Vec<_> = (0..20).map(|_| session.submit(Count, 0).unwrap()).collect();
    let (mut unknown, mut refused) = (0, 0);
    for call in calls {
        match call.wait() {
            Err(Error::OutcomeUnknown(_)) => unknown += 1,
            Err(Error::LogFailed(_)) => refused += 1,
            other => panic!("the log has failed, but {other:?}"),
        }
    }
    assert!(unknown > 0, "{unknown} of unknown outcome, {refused} refused");
    db.resume().unwrap();
    assert_eq!(
        session.submit(Count, 0).unwrap().wait().unwrap(),
        unknown + 1,
        "what was of unknown outcome is there"
    );
    drop((session, db));
    assert_eq!(found(&disk.after_power_cut(7), 0), unknown + 1);
}

/// What was submitted is executed before the database is closed, and is on the disk then.
#[test]
fn what_was_submitted_is_there_after_closing() {
    let disk = Simulated::new();
    let db = on_disk(&disk);
    fill(&db);
    let mut session = db.session().unwrap();
    session.set_durability(Durability::Sync).unwrap();
    let calls: Vec<_> = (0..100).map(|_| session.submit(Count, 0).unwrap()).collect();
    drop((session, db));
    assert!(calls.iter().all(Pending::is_done));
    assert_eq!(found(&disk.after_power_cut(3), 0), 100);
}

fn tell_count_both(to: &mut Announcement<'_>, first: u64, second: u64) {
    to.writes(first, Counter::count);
    to.writes(second, Counter::count);
}

#[procedure(announce = tell_count_both)]
fn count_both(tx: &mut impl Transaction, first: u64, second: u64) -> Result<()> {
    #[later]
    tx.update_columns(first, Counter::count, |count| *count += 1)?;
    tx.update_columns(second, Counter::count, |count| *count += 1)
}

/// Many calls in pieces of one batch, which wait for each other and for the disk: nobody waits for the disk with a call in its hands
/// that keeps the epoch open.
#[test]
fn many_calls_in_pieces_become_durable() {
    const CALLS: usize = 700;
    for executors in [1, 3] {
        let disk = Simulated::new();
        let builder = Database::builder().protocol(Kind::Dgcc).executors(executors).window(CALLS);
        let builder = builder.storage(Arc::new(disk.clone())).procedure::<CountBoth>();
        let db = builder.table::<Counter>(2).open().unwrap();
        let insert = |key| move |tx: &mut heddledb::Txn| tx.insert(Counter { key, count: 0 });
        let mut session = db.session().unwrap();
        (0..2).for_each(|key| session.run(insert(key)).unwrap());
        session.set_durability(Durability::Sync).unwrap();
        let keys = |at: usize| (at as u64 % 2, (at as u64 + 1) % 2);
        let calls: Vec<_> = (0..CALLS).map(|at| session.submit(CountBoth, keys(at)).unwrap()).collect();
        calls.into_iter().for_each(|call| call.wait().unwrap());
        let pieces = db.metrics().graph.unwrap().in_pieces;
        drop((session, db));
        assert!(pieces > 0 || executors == 1, "{pieces} of {CALLS} in pieces");
        assert_eq!(found(&disk.after_power_cut(3), 0), CALLS as i64);
    }
}

/// Calls for a row that a transaction of the thread has written, waited for before that ends: somebody is told, and nothing waits
/// without end.
#[test]
fn a_call_that_is_waited_for_within_a_transaction_ends() {
    fn told(error: &Error) -> bool {
        match error {
            Error::GaveUp(why) => why.within_another,
            error => matches!(error.misuse(), Some(Misuse::WaitsWithin)),
        }
    }
    fn of_each(kind: Kind) {
        let db = builder().protocol(kind).executors(1).open().unwrap();
        fill(&db);
        let mut session = db.session().unwrap();
        let mut other = db.session().unwrap();
        let count_one = |tx: &mut heddledb::Txn| tx.update_columns(1, Counter::count, |count| *count += 1);
        // In a body.
        let outcome = other.run(|tx| {
            count_one(tx)?;
            session.submit(Count, 1)?.wait()
        });
        assert!(outcome.as_ref().err().is_none_or(told), "{kind}: {outcome:?}");
        // Beside an owned one; the second call waits for room, and may be the first to be told.
        session.set_window(1);
        let mut open = db.begin().unwrap();
        let written = open.update_columns(1, Counter::count, |count| *count += 1);
        let outcome = session.submit(Count, 1).and_then(|_| session.submit(Count, 1)).and_then(Pending::wait);
        assert!(outcome.as_ref().err().is_none_or(told), "{kind}: {outcome:?}");
        drop((written, open));
        // What was left under way goes on.
        assert!(session.submit(Count, 1).and_then(Pending::wait).unwrap() > 0, "{kind}");
    }
    let kinds = Kind::ALL.iter().filter(|kind| kind.sessions_max() > 3);
    let threads = kinds.map(|kind| (kind, thread::spawn(move || of_each(*kind)))).collect::<Vec<_>>();
    threads.into_iter().for_each(|(kind, thread)| thread.join().unwrap_or_else(|_| panic!("{kind}")));
}
