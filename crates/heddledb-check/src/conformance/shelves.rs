//! Calls that put additions off: who sees them, when, and that each is made once.
//!
//! A call of `shelves_move` takes an amount from one sum and gives it to another, both marked as deferred, and does the same with
//! two columns that are not: whoever sees whole calls finds that all four agree. Where nothing is put off, that is so too.

use super::Test;
use super::load::{lawful, on_threads};
use super::procedures::await_from;
use heddledb::internals::{DatabaseInternals, SessionInternals};
use heddledb::procedure::Declaration;
use heddledb::protocol::{Execution, Kind};
use heddledb::storage::Simulated;
use heddledb::{
    Builder, Database, Durability, Misuse, ReadTransaction, Result, Session, Table, Transaction, procedure,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "shelves_are_seen_in_a_later_epoch", run: seen_in_a_later_epoch },
        Test { name: "shelves_want_their_premise", run: premise },
        Test { name: "shelves_look_for_their_rows", run: rows_are_looked_for },
        Test { name: "shelves_under_load", run: under_load },
        Test { name: "shelves_survive", run: survive },
    ]
}

/// What calls add to: put off, and at once.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "shelf_sum")]
struct Sum {
    #[key]
    key: u64,
    #[group(late)]
    late: i64,
    #[group(now)]
    now: i64,
}

/// What all calls change, so that pieces conflict.
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "shelf_count")]
pub struct Count {
    #[key]
    key: u64,
    /// How many calls there were.
    pub calls: i64,
}

/// Moves an amount between two sums.
#[procedure]
pub fn shelves_move(tx: &mut impl Transaction, from: u64, to: u64, amount: i64) -> Result<()> {
    #[no_abort]
    #[piece]
    {
        #[deferred]
        tx.add(Sum::late, from, -amount)?;
        tx.update_columns(0, Count::calls, |calls| *calls += 1)?;
    }
    tx.add(Sum::now, from, -amount)?;
    tx.add(Sum::now, to, amount)?;
    #[deferred]
    tx.add(Sum::late, to, amount)
}

/// The two sums that are put off, each in a piece of its own.
#[procedure]
pub fn shelves_look(tx: &mut impl Transaction) -> Result<(i64, i64)> {
    #[no_abort]
    let one = tx.get_columns(0, Sum::late)?.unwrap_or(0);
    let other = tx.get_columns(1, Sum::late)?.unwrap_or(0);
    Ok((one, other))
}

fn builder(kind: Kind) -> Builder {
    declared(Database::builder().protocol(kind).sessions(kind.sessions_max().min(12)))
}

/// With the tables and the procedures.
pub fn declared(builder: Builder) -> Builder {
    builder.table::<Sum>(0).table::<Count>(0).procedure::<ShelvesMove>().procedure::<ShelvesLook>()
}

/// Opened, with all rows.
pub fn filled(builder: Builder) -> Database {
    let db = lawful(builder.open());
    lawful(lawful(db.session()).run(|tx| {
        (0..2).try_for_each(|key| tx.insert(Count { key, calls: 0 }))?;
        (0..2).try_for_each(|key| tx.insert(Sum { key, late: 0, now: 0 }))
    }));
    db
}

/// All rows, as whoever sees whole calls sees them: the sums, and how many calls there were.
///
/// # Errors
/// Conflicts.
pub fn whole(tx: &mut impl ReadTransaction) -> Result<(i64, i64)> {
    let [one, other] = [tx.get::<Sum>(0)?, tx.get::<Sum>(1)?].map(|row| row.expect("both are there"));
    assert_eq!(
        (one.late, other.late),
        (one.now, other.now),
        "what was put off is lost, or there twice, or alone"
    );
    assert_eq!(one.late + other.late, 0, "half of a call");
    Ok((other.late, tx.get_columns(0, Count::calls)?.expect("it is there")))
}

/// Whether calls commit piece by piece; others put nothing off, and are tested elsewhere.
fn is_chopped(kind: Kind) -> bool {
    kind.execution() == Execution::Chopped
}

/// A call that is under way sees nothing of what is put off in its epoch; one of a later epoch does, and so does a closure.
fn seen_in_a_later_epoch(kind: Kind) {
    if !is_chopped(kind) {
        return;
    }
    let db = filled(builder(kind).manual_epochs());
    let mut declaration = Declaration::new("stays");
    declaration.get_row::<Count>();
    let stays = lawful(db.register_declared(declaration));
    let late = i64::from(!kind.puts_off());
    for round in 0..6 {
        let ((told, telling), (leave, leaving)) = (channel(), channel());
        std::thread::scope(|scope| {
            let stayer = scope.spawn(|| {
                let mut waited = None;
                let (told, leaving) = (told, leaving);
                lawful(db.session()).call_registered(stays, |tx| {
                    tx.at(0);
                    // Nobody writes it.
                    tx.get::<Count>(1)?;
                    waited.get_or_insert_with(|| {
                        told.send(()).expect("the test is there");
                        await_from(&leaving)
                    });
                    Ok(())
                })
            });
            await_from(&telling);
            let mut session = lawful(db.session());
            lawful(session.call(ShelvesMove, (0, 1, 1)));
            let seen = lawful(session.call(ShelvesLook, ()));
            assert_eq!(seen, (-round - late, round + late), "a call of the same epoch");
            lawful(session.call(ShelvesMove, (0, 1, -1)));
            lawful(session.call(ShelvesMove, (0, 1, 1)));
            if round % 2 == 0 {
                db.advance_epoch();
                // It waits for the one that stays, so it has begun before that one ends, mostly.
                let next = scope.spawn(|| lawful(lawful(db.session()).call(ShelvesLook, ())));
                std::thread::sleep(Duration::from_millis(20));
                leave.send(()).expect("it waits");
                let seen = next.join().expect("no panic");
                assert_eq!(seen, (-round - 1, round + 1), "a call of a later epoch");
            } else {
                leave.send(()).expect("it waits");
            }
            lawful(stayer.join().expect("no panic"));
            let seen = lawful(session.run(whole));
            assert_eq!(seen, (round + 1, 3 * (round + 1)), "a closure");
            // Nobody else is under way, so all is made.
            assert_eq!(lawful(session.call(ShelvesLook, ())), (-round - 1, round + 1));
        });
    }
}

/// A procedure that could tell what is put off is refused, and the others go on.
fn premise(kind: Kind) {
    if !is_chopped(kind) {
        return;
    }
    let db = filled(builder(kind));
    let mut joins = Declaration::new("joins");
    joins.update(Count::calls);
    joins.get(Sum::late);
    let registered = db.register_declared(joins);
    if kind.puts_off() {
        let refused = registered.expect_err("it sees the count, and not the sum").to_string();
        for word in [
            "shelves_move's `add shelf_sum` cannot be deferred",
            "joins's `read shelf_sum`",
            "in shelf_count",
        ] {
            assert!(refused.contains(word), "{word}: {refused}");
        }
    } else {
        lawful(registered);
    }
    let mut deletes = Declaration::new("deletes");
    deletes.delete::<Sum>();
    assert_eq!(db.register_declared(deletes).is_err(), kind.puts_off(), "it meets the look for the row");
    let mut session = lawful(db.session());
    lawful(session.call(ShelvesMove, (0, 1, 4)));
    assert_eq!(lawful(session.run(whole)), (4, 1));
}

/// An addition to a row that is not there is answered at once; what stands of its call stands with what that has put off.
fn rows_are_looked_for(kind: Kind) {
    if !is_chopped(kind) {
        return;
    }
    let db = filled(builder(kind));
    let mut session = lawful(db.session());
    let missing = session.call(ShelvesMove, (7, 1, 4));
    let missed = missing.expect_err("there is no such row");
    assert!(missed.misuse().is_some_and(|misuse| matches!(misuse, Misuse::NotFound { .. })), "{missed}");
    assert_eq!(lawful(session.run(whole)), (0, 0), "nothing of it stands");
    // Rows come and go by closures.
    lawful(session.run(|tx| tx.insert(Sum { key: 7, late: 0, now: 0 })));
    lawful(session.call(ShelvesMove, (7, 1, 4)));
    lawful(session.run(|tx| tx.delete::<Sum>(7)));
    lawful(session.run(|tx| tx.insert(Sum { key: 7, late: 1, now: 1 })));
    lawful(session.call(ShelvesMove, (0, 7, 4)));
    let rows = lawful(session.run(|tx| Ok([0, 1, 7].map(|key| tx.get::<Sum>(key).ok().flatten()))));
    let row = |key, sum| Some(Sum { key, late: sum, now: sum });
    assert_eq!(rows, [row(0, -4), row(1, 4), row(7, 5)]);
}

/// Calls on several threads, some of which fail half way, beside closures, snapshots and epochs that go by.
fn under_load(kind: Kind) {
    if !is_chopped(kind) {
        return;
    }
    const CALLS: usize = 1_500;
    let db = filled(builder(kind).manual_epochs().snapshot_interval(Duration::ZERO));
    let (moved, calls, done) = (AtomicI64::new(0), AtomicI64::new(0), AtomicBool::new(false));
    let seen = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let epochs = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                db.advance_epoch();
                seen.fetch_or(lawful(whole(&mut lawful(db.snapshot()))).1 > 0, Ordering::Relaxed);
            }
        });
        on_threads(kind, &db, 3, |session, random, number| {
            for round in 0..CALLS {
                // However little the thread of the snapshots is given, there are calls behind one of them.
                while round == CALLS / 2 && !seen.load(Ordering::Relaxed) && !epochs.is_finished() {
                    lawful(session.call(ShelvesLook, ()));
                    std::thread::yield_now();
                }
                match random.below(16) {
                    0 if number == 0 => _ = lawful(session.run(whole)),
                    0..4 => {
                        let (one, other) = lawful(session.call(ShelvesLook, ()));
                        assert_eq!(one + other, 0, "half of what was put off, in round {round}");
                    }
                    _ => {
                        let (from, amount) = (random.below(2), random.below(100) as i64);
                        lawful(session.call(ShelvesMove, (from, 1 - from, amount)));
                        moved.fetch_add(if from == 0 { amount } else { -amount }, Ordering::Relaxed);
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        done.store(true, Ordering::Relaxed);
        epochs.join().expect("no panic");
    });
    let (moved, calls) = (moved.load(Ordering::Relaxed), calls.load(Ordering::Relaxed));
    assert_eq!(lawful(lawful(db.session()).run(whole)), (moved, calls));
}

/// What was acknowledged as durable is there after a crash, with what it put off; and what is there is there whole.
fn survive(kind: Kind) {
    if !is_chopped(kind) {
        return;
    }
    let moves = |session: &mut Session, times: usize, acknowledged: &AtomicI64| {
        for _ in 0..times {
            lawful(session.call(ShelvesMove, (0, 1, 1)));
            acknowledged.fetch_add(1, Ordering::SeqCst);
        }
    };
    for seed in 0..3 {
        let storage = Simulated::new();
        let files = |storage: &Simulated| builder(kind).storage(Arc::new(storage.clone()));
        let (acknowledged, mut crashed) = (AtomicI64::new(0), Vec::new());
        let db =
            filled(files(&storage).durability(Durability::Sync).epoch_interval(Duration::from_micros(200)));
        std::thread::scope(|scope| {
            let works: Vec<_> =
                (0..3).map(|_| scope.spawn(|| moves(&mut lawful(db.session()), 60, &acknowledged))).collect();
            while works.iter().any(|work| !work.is_finished()) {
                let before = acknowledged.load(Ordering::SeqCst);
                crashed.push((before, storage.after_power_cut(seed)));
                if crashed.len() % 2 == 0 {
                    lawful(db.checkpoint());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        drop(db);
        crashed.push((180, storage.after_power_cut(seed)));
        // They grow with each other, so the first of them are the ones of interest.
        for (before, storage) in crashed.iter().rev().step_by(1 + crashed.len() / 24) {
            let db = lawful(files(storage).open());
            let (moved, calls) = lawful(lawful(db.session()).run(whole));
            assert_eq!(moved, calls, "a call without what it has put off");
            assert!(calls >= *before, "{before} calls were acknowledged, and {calls} are there");
        }
    }
}
