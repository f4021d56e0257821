//! Calls that are submitted, and executed by threads of the database: each once, whoever waits for them and however.

use super::Test;
use heddledb::protocol::Kind;
use heddledb::{
    Builder, Database, Error, Misuse, Pending, Priority, ReadTransaction, Result, Session, Table,
    Transaction, procedure,
};
use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "submit_executes_each_call_once", run: executes_each_call_once },
        Test { name: "submit_tells_errors_and_panics", run: tells_errors_and_panics },
        Test { name: "submit_waits_for_its_window", run: waits_for_its_window },
        Test { name: "submit_executes_what_nobody_waits_for", run: executes_what_nobody_waits_for },
        Test { name: "submit_executes_all_before_it_closes", run: executes_all_before_it_closes },
        Test { name: "submit_executes_the_urgent_first", run: executes_the_urgent_first },
        Test { name: "submit_wakes_futures", run: wakes_futures },
        Test { name: "submit_beside_closures", run: beside_closures },
    ]
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "submit_counter")]
struct Counter {
    #[key]
    key: u64,
    count: i64,
}

/// Counters 0 to 3, and one that held calls write.
const COUNTERS: u64 = 4;
const HELD: u64 = 9;

#[procedure]
fn submit_add(tx: &mut impl Transaction, key: u64) -> Result<i64> {
    tx.update_columns(key, Counter::count, |count| {
        *count += 1;
        *count
    })
}

/// What a body waits for, as often as it is executed.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<(bool, bool)>, Condvar)>);

impl Gate {
    fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.0 = true;
        changed.notify_all();
        drop(changed.wait_while(state, |(_, open)| !*open).unwrap());
    }

    fn await_somebody(&self) {
        let (state, changed) = &*self.0;
        drop(changed.wait_while(state.lock().unwrap(), |(begun, _)| !*begun).unwrap());
    }

    fn open(&self) {
        self.0.0.lock().unwrap().1 = true;
        self.0.1.notify_all();
    }
}

#[procedure]
fn submit_hold(tx: &mut impl Transaction, gate: Gate) -> Result<i64> {
    gate.pass();
    tx.update_columns(HELD, Counter::count, |count| {
        *count += 1;
        *count
    })
}

#[derive(Clone, Copy, Debug)]
enum Wish {
    GiveUp,
    Panic,
    Misuse,
}

#[procedure]
fn submit_fail(tx: &mut impl Transaction, key: u64, wish: Wish) -> Result<i64> {
    let count = tx.update_columns(key, Counter::count, |count| {
        *count += 100;
        *count
    })?;
    match wish {
        Wish::GiveUp => return Err(Error::user("it gave up")),
        Wish::Panic => panic!("it panics at {count}"),
        Wish::Misuse => tx.insert(Counter { key, count: 0 })?,
    }
    Ok(count)
}

fn builder(kind: Kind) -> Builder {
    Database::builder()
        .protocol(kind)
        .procedure::<SubmitAdd>()
        .procedure::<SubmitHold>()
        .procedure::<SubmitFail>()
}

/// Counters at zero, in a database with so many executors; `None` under a protocol of one session, which is refused.
fn world(kind: Kind, executors: usize, window: usize) -> Option<Database> {
    if kind.sessions_max() == 1 {
        let refused = builder(kind).executors(executors).open().err().expect("there is only one session");
        assert!(matches!(refused.misuse(), Some(Misuse::Option(_))), "{refused}");
        return None;
    }
    let db = builder(kind).executors(executors).window(window).open().expect("it opens");
    let fill = |session: &mut Session| {
        session.run(|tx| (0..COUNTERS).chain([HELD]).try_for_each(|key| tx.insert(Counter { key, count: 0 })))
    };
    db.session().and_then(|mut session| fill(&mut session)).expect("the table is empty");
    Some(db)
}

fn count(db: &Database, key: u64) -> i64 {
    let row = db.session().and_then(|mut session| session.run(|tx| tx.get::<Counter>(key)));
    row.expect("it is read").expect("it is there").count
}

fn submit_held(session: &mut Session) -> (Gate, Pending<i64>) {
    let gate = Gate::default();
    let pending = session.submit(SubmitHold, gate.clone()).expect("it is submitted");
    gate.await_somebody();
    (gate, pending)
}

/// Several sessions submit, each as many as its window has room for: the results are those of one execution each.
fn executes_each_call_once(kind: Kind) {
    const THREADS: u64 = 3;
    const CALLS: u64 = 240;
    const WINDOW: usize = 8;
    let Some(db) = world(kind, 2, WINDOW) else { return };
    let submit = |thread: u64| {
        let mut session = db.session().expect("a session is free");
        let (mut pending, mut results) = (VecDeque::new(), Vec::new());
        for at in 0..CALLS {
            if pending.len() == 2 * WINDOW {
                let (key, call): (u64, Pending<i64>) = pending.pop_front().expect("there are some");
                results.push((key, call.wait().expect("it commits")));
            }
            let key = (thread + at) % COUNTERS;
            pending.push_back((key, session.submit(SubmitAdd, key).expect("it is submitted")));
            assert!(session.under_way() <= WINDOW);
        }
        results.extend(pending.into_iter().map(|(key, call)| (key, call.wait().expect("it commits"))));
        assert_eq!(session.under_way(), 0);
        results
    };
    let mut results: Vec<(u64, i64)> = thread::scope(|scope| {
        let submit = &submit;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || submit(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    results.sort_unstable();
    let each = (THREADS * CALLS / COUNTERS) as i64;
    let expected: Vec<(u64, i64)> =
        (0..COUNTERS).flat_map(|key| (1..=each).map(move |count| (key, count))).collect();
    assert_eq!(results, expected);
}

/// What a procedure decides, does wrong, or dies of arrives where its result is waited for, and has no effect.
fn tells_errors_and_panics(kind: Kind) {
    let Some(db) = world(kind, 2, 16) else { return };
    let mut session = db.session().expect("a session is free");
    let mut pending = Vec::new();
    for round in 0..5 {
        for (at, wish) in [Wish::GiveUp, Wish::Panic, Wish::Misuse].into_iter().enumerate() {
            let key = (round + at as u64) % COUNTERS;
            pending.push((wish, session.submit(SubmitFail, (key, wish)).expect("it is submitted")));
        }
    }
    for (wish, call) in pending {
        let outcome = catch_unwind(AssertUnwindSafe(|| call.wait()));
        match wish {
            Wish::GiveUp => {
                let error = outcome.expect("no panic").expect_err("it gave up");
                assert_eq!(error.to_string(), "it gave up");
            }
            Wish::Misuse => {
                let error = outcome.expect("no panic").expect_err("there is such a row");
                assert!(matches!(error.misuse(), Some(Misuse::DuplicateKey { .. })), "{error}");
            }
            Wish::Panic => {
                let panic = outcome.expect_err("it panics");
                assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("it panics at 100"));
            }
        }
    }
    // The executors live.
    for key in 0..COUNTERS {
        assert_eq!(session.submit(SubmitAdd, key).and_then(Pending::wait).expect("it commits"), 1);
    }
}

/// A session waits where its window is full, or is refused, and others do not.
fn waits_for_its_window(kind: Kind) {
    let Some(db) = world(kind, 1, 3) else { return };
    let mut session = db.session().expect("a session is free");
    let (gate, held) = submit_held(&mut session);
    let mut pending: Vec<Pending<i64>> =
        (0..2).map(|_| session.submit(SubmitAdd, 0).expect("it is submitted")).collect();
    assert!(session.try_submit(SubmitAdd, 0).expect("it may submit").is_none(), "the window is full");
    assert_eq!(session.under_way(), 3);
    let mut other = db.session().expect("a session is free");
    let apart = other.try_submit(SubmitAdd, 1).expect("it may submit").expect("a window of its own");
    assert!(!held.is_done() && pending.iter().all(|call| !call.is_done()));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| session.submit(SubmitAdd, 0).expect("it is submitted"));
        // Time to go wrong in.
        thread::sleep(Duration::from_millis(10));
        assert!(!waiter.is_finished(), "the window is full");
        gate.open();
        pending.push(waiter.join().expect("no panic"));
    });
    assert_eq!(held.wait().expect("it commits"), 1);
    let mut counts: Vec<i64> = pending.into_iter().map(|call| call.wait().expect("it commits")).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2, 3]);
    assert_eq!(apart.wait().expect("it commits"), 1);
}

/// Results that nobody waits for.
fn executes_what_nobody_waits_for(kind: Kind) {
    let Some(db) = world(kind, 2, 4) else { return };
    let mut session = db.session().expect("a session is free");
    for at in 0..100 {
        drop(session.submit(SubmitAdd, at % COUNTERS).expect("it is submitted"));
        if at % 10 == 0 {
            drop(session.submit(SubmitFail, (0, Wish::GiveUp)).expect("it is submitted"));
        }
    }
    while session.under_way() > 0 {
        thread::yield_now();
    }
    assert_eq!((0..COUNTERS).map(|key| count(&db, key)).collect::<Vec<_>>(), [25; 4]);
}

/// The last handle is dropped while calls wait for the executor.
fn executes_all_before_it_closes(kind: Kind) {
    let Some(db) = world(kind, 1, 100) else { return };
    let mut session = db.session().expect("a session is free");
    let (gate, held) = submit_held(&mut session);
    let pending: Vec<Pending<i64>> =
        (0..50).map(|_| session.submit(SubmitAdd, 0).expect("it is submitted")).collect();
    let closing = thread::spawn(move || {
        drop(session);
        drop(db);
    });
    // Time to go wrong in.
    thread::sleep(Duration::from_millis(5));
    gate.open();
    closing.join().expect("no panic");
    assert!(held.is_done() && pending.iter().all(Pending::is_done), "it closes when all is done");
    let counts: Vec<i64> = pending.into_iter().map(|call| call.wait().expect("it commits")).collect();
    assert_eq!(counts, (1..=50).collect::<Vec<_>>(), "by one executor, in the order in which they came");
}

/// Calls of high priority come before others, and do not keep these away.
fn executes_the_urgent_first(kind: Kind) {
    let Some(db) = world(kind, 1, 100) else { return };
    let (mut session, mut urgent) = (db.session().expect("one is free"), db.session().expect("one is free"));
    urgent.set_priority(Priority::High);
    let (gate, held) = submit_held(&mut session);
    let submit =
        |session: &mut Session| -> Pending<i64> { session.submit(SubmitAdd, 0).expect("it is submitted") };
    let normal: Vec<_> = (0..5).map(|_| submit(&mut session)).collect();
    let high: Vec<_> = (0..12).map(|_| submit(&mut urgent)).collect();
    gate.open();
    held.wait().expect("it commits");
    let counts = |calls: Vec<Pending<i64>>| -> Vec<i64> {
        calls.into_iter().map(|call| call.wait().expect("it commits")).collect()
    };
    assert_eq!(counts(normal), [9, 14, 15, 16, 17], "one after eight that came first");
    assert_eq!(counts(high), [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13]);
}

/// Wakes a thread, and counts how often.
struct Alarm(Thread, AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unpark();
    }
}

/// Calls are awaited by a hand-made runtime of one thread.
fn wakes_futures(kind: Kind) {
    let Some(db) = world(kind, 1, 100) else { return };
    let mut session = db.session().expect("a session is free");
    let alarm = Arc::new(Alarm(thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&alarm));
    let mut context = Context::from_waker(&waker);
    let (gate, held) = submit_held(&mut session);
    let mut futures: Vec<Pin<Box<Pending<i64>>>> =
        (0..20).map(|_| Box::pin(session.submit(SubmitAdd, 0).expect("it is submitted"))).collect();
    futures.push(Box::pin(held));
    futures.push(Box::pin(session.submit(SubmitFail, (1, Wish::GiveUp)).expect("it is submitted")));
    let first: Vec<_> = futures.iter_mut().map(|future| future.as_mut().poll(&mut context)).collect();
    assert!(first.iter().all(Poll::is_pending), "the executor is held");
    // Polled again before it is ready, which keeps one waker.
    assert!(futures[0].as_mut().poll(&mut context).is_pending());
    assert_eq!(alarm.1.load(Ordering::SeqCst), 0);
    gate.open();
    let mut results = Vec::new();
    while !futures.is_empty() {
        thread::park();
        futures.retain_mut(|future| match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => {
                results.push(result.map_err(|error| error.to_string()));
                false
            }
            Poll::Pending => true,
        });
    }
    let woken = alarm.1.load(Ordering::SeqCst);
    assert!((1..=22).contains(&woken), "woken {woken} times");
    results.sort_unstable();
    let mut expected: Vec<_> = (1..=20).chain([1]).map(Ok).chain([Err("it gave up".to_owned())]).collect();
    expected.sort_unstable();
    assert_eq!(results, expected);
}

/// Submitted calls, direct calls and closures on the same rows.
fn beside_closures(kind: Kind) {
    const EACH: i64 = 150;
    let Some(db) = world(kind, 2, 16) else { return };
    thread::scope(|scope| {
        let db = &db;
        scope.spawn(move || {
            let mut session = db.session().expect("a session is free");
            let calls: Vec<Pending<i64>> =
                (0..EACH).map(|_| session.submit(SubmitAdd, 0).expect("it is submitted")).collect();
            assert!(calls.into_iter().all(|call| call.wait().is_ok()));
        });
        scope.spawn(move || {
            let mut session = db.session().expect("a session is free");
            for _ in 0..EACH {
                session.call(SubmitAdd, 0).expect("it commits");
            }
        });
        let mut session = db.session().expect("a session is free");
        for _ in 0..EACH {
            session.run(|tx| tx.update_columns(0, Counter::count, |count| *count += 1)).expect("it commits");
        }
    });
    assert_eq!(count(&db, 0), 3 * EACH);
}
