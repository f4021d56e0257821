//! Calls whose epoch is that of their piece that conflicts: additions that come late, and what snapshots and the log make of them.
//!
//! A call of `lazy_move` adds before and after the piece that conflicts, and appends a row: whoever sees whole calls finds that all of it
//! agrees with the count. Calls that wait for all of an earlier epoch pass as well, but for the tests that need two epochs at once.

use super::Test;
use super::load::{lawful, on_threads};
use super::procedures::await_from;
use heddledb::internals::{DatabaseInternals, SessionInternals};
use heddledb::procedure::Declaration;
use heddledb::protocol::{Execution, Kind};
use heddledb::storage::Simulated;
use heddledb::{
    Builder, Database, Durability, ReadTransaction, Result, Scan, Session, Table, Transaction, procedure,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "lazy_late_additions_are_seen_once", run: late_additions },
        Test { name: "lazy_late_additions_are_recovered_once", run: late_additions_recovered },
        Test { name: "lazy_numbers_of_pieces_that_read", run: readers_draw_too },
        Test { name: "lazy_under_load", run: under_load },
        Test { name: "lazy_survive", run: survive },
    ]
}

/// What calls add to.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "lazy_sum")]
struct Sum {
    #[key]
    key: u64,
    #[group(moved)]
    moved: i64,
    #[group(times)]
    times: i64,
}

/// What all calls change, so that pieces conflict.
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "lazy_count")]
pub struct Count {
    #[key]
    key: u64,
    /// How many calls there were.
    pub calls: i64,
}

/// A row for each call.
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "lazy_entry", append_only)]
struct Entry {
    #[key]
    key: u64,
    amount: i64,
}

/// What a reader of the count has found.
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "lazy_look", append_only)]
struct Look {
    #[key]
    key: u64,
    calls: i64,
}

/// Moves an amount from one sum to another.
#[procedure]
pub fn lazy_move(tx: &mut impl Transaction, from: u64, to: u64, amount: i64, entry: u64) -> Result<()> {
    #[no_abort]
    tx.add(Sum::moved, from, -amount)?;
    tx.update_columns(0, Count::calls, |calls| *calls += 1)?;
    tx.insert(Entry { key: entry, amount })?;
    tx.add(Sum::moved, to, amount)?;
    tx.add(Sum::times, 0, 1)
}

/// Notes the count, which it only reads.
#[procedure]
pub fn lazy_look(tx: &mut impl Transaction, look: u64) -> Result<i64> {
    #[no_abort]
    let calls = tx.get_columns(0, Count::calls)?.unwrap_or(0);
    tx.insert(Look { key: look, calls })?;
    tx.add(Sum::times, 1, 1)?;
    Ok(calls)
}

fn builder(kind: Kind) -> Builder {
    declared(Database::builder().protocol(kind).sessions(kind.sessions_max().min(12)))
}

/// With the tables and the procedures.
pub fn declared(builder: Builder) -> Builder {
    let builder = builder.table::<Sum>(0).table::<Count>(0).table::<Entry>(0).table::<Look>(0);
    builder.procedure::<LazyMove>().procedure::<LazyLook>()
}

/// Opened, with all rows.
pub fn filled(builder: Builder) -> Database {
    let db = lawful(builder.open());
    lawful(lawful(db.session()).run(|tx| {
        tx.insert(Count { key: 0, calls: 0 })?;
        (0..2).try_for_each(|key| tx.insert(Sum { key, moved: 0, times: 0 }))
    }));
    db
}

/// All rows, as whoever sees whole calls sees them: how many calls there were, and the looks with what they found.
///
/// # Errors
/// Conflicts.
pub fn whole(tx: &mut impl ReadTransaction) -> Result<(i64, Vec<(u64, i64)>)> {
    let [one, other] = [tx.get::<Sum>(0)?, tx.get::<Sum>(1)?].map(|row| row.expect("both are there"));
    let calls = tx.get_columns(0, Count::calls)?.expect("it is there");
    let entries = tx.collect(Scan::<Entry>::all())?.len() as i64;
    let looks: Vec<_> = tx.collect(Scan::<Look>::all())?.iter().map(|look| (look.key, look.calls)).collect();
    let found = looks.len() as i64;
    assert_eq!((one.times, other.times), (calls, found), "additions are lost, or there twice, or alone");
    assert_eq!((one.moved + other.moved, entries), (0, calls), "half of a call");
    assert!(looks.iter().all(|(_, seen)| *seen <= calls), "a look without the calls that it saw: {looks:?}");
    Ok((calls, looks))
}

fn is_chopped(kind: Kind) -> bool {
    kind.execution() == Execution::Chopped
}

/// The body of a call that stops before its end: that of `lazy_move`, with its site `stops` at the place where it does.
fn stopping() -> Declaration {
    let mut declaration = Declaration::new("stopping");
    declaration.no_abort();
    declaration.add(Sum::moved);
    declaration.update(Count::calls);
    declaration.insert::<Entry>();
    declaration.add(Sum::moved);
    declaration.add(Sum::times);
    declaration
}

/// While a call is before its end that has its number, does something in the next epoch; then lets it end.
fn beside_a_late_call(db: &Database, entry: u64, beside: impl FnOnce(&mut Session) + Send) {
    let stopped = lawful(db.register_declared(stopping()));
    let ((told, telling), (leave, leaving)) = (channel(), channel());
    // Then its number is durable before the next is closed.
    let durability = if db.metrics().log.is_some() { Durability::Sync } else { Durability::Epoch };
    std::thread::scope(|scope| {
        let late = scope.spawn(move || {
            let mut waited = None;
            let (told, leaving) = (told, leaving);
            let mut session = lawful(db.session());
            lawful(session.set_durability(durability));
            session.call_registered(stopped, |tx| {
                tx.at(0);
                tx.add(Sum::moved, 0, -5)?;
                tx.at(1);
                tx.update_columns(0, Count::calls, |calls| *calls += 1)?;
                tx.at(2);
                tx.insert(Entry { key: entry, amount: 5 })?;
                tx.at(3);
                tx.add(Sum::moved, 1, 5)?;
                tx.at(4);
                tx.add(Sum::times, 0, 1)?;
                waited.get_or_insert_with(|| {
                    told.send(()).expect("the test is there");
                    await_from(&leaving)
                });
                Ok(())
            })
        });
        await_from(&telling);
        beside(&mut lawful(db.session()));
        leave.send(()).expect("it waits");
        lawful(late.join().expect("no panic"));
    });
    assert!(lawful(db.unregister_declared(stopped)));
}

/// A call of the next epoch has added to a row before a call of this one does: a snapshot between the two sees the one, and
/// snapshots before and behind see none and both.
fn late_additions(kind: Kind) {
    if !kind.numbers_lazily() {
        return;
    }
    let db = filled(builder(kind).manual_epochs().snapshot_interval(Duration::ZERO));
    let (mut calls, mut entry) = (0, 0);
    for round in 0..6 {
        let mut session = lawful(db.session());
        let before = lawful(db.snapshot());
        if round % 2 == 1 {
            // Then there is a version of the late call's epoch, and not only of an earlier one.
            lawful(session.call(LazyMove, (0, 1, 7, entry)));
            (calls, entry) = (calls + 1, entry + 1);
        }
        let own = entry;
        entry += 1;
        std::thread::scope(|scope| {
            let mut between = None;
            beside_a_late_call(&db, own, |session| {
                between = Some(scope.spawn(|| lawful(whole(&mut lawful(db.snapshot()))).0));
                // It has been announced, mostly, and has moved the epoch on. If not, it stands one later.
                std::thread::sleep(Duration::from_millis(20));
                db.advance_epoch();
                lawful(session.call(LazyMove, (1, 0, 3, entry)));
                lawful(session.call(LazyMove, (1, 0, 3, entry + 1)));
            });
            let between = between.expect("it was begun").join().expect("no panic");
            assert!((calls + 1..=calls + 3).contains(&between), "{between} calls of {calls}");
        });
        let mut before = before;
        let seen = lawful(whole(&mut before)).0;
        assert_eq!(seen, calls - round % 2, "the snapshot before changes");
        (calls, entry) = (calls + 3, entry + 2);
        assert_eq!(lawful(whole(&mut lawful(db.snapshot()))).0, calls);
        assert_eq!(lawful(session.run(whole)).0, calls);
    }
}

/// The same with a crash between the rounds of the two epochs, and behind them.
fn late_additions_recovered(kind: Kind) {
    if !kind.numbers_lazily() {
        return;
    }
    let storage = Simulated::new();
    let files = |storage: &Simulated| builder(kind).storage(Arc::new(storage.clone()));
    let db = filled(files(&storage).manual_epochs());
    let (mut calls, mut entry, mut crashed) = (0, 0, Vec::new());
    for round in 0..4 {
        lawful(db.flush());
        if round % 2 == 1 {
            lawful(lawful(db.session()).call(LazyMove, (0, 1, 7, entry)));
            (calls, entry) = (calls + 1, entry + 1);
        }
        beside_a_late_call(&db, entry, |session| {
            db.advance_epoch();
            lawful(session.call(LazyMove, (1, 0, 3, entry + 1)));
        });
        (calls, entry) = (calls + 2, entry + 2);
        for seed in 0..4 {
            crashed.push((calls, storage.after_power_cut(seed)));
            db.advance_epoch();
            std::thread::sleep(Duration::from_millis(2));
        }
        lawful(db.flush());
        crashed.push((calls, storage.after_power_cut(0)));
    }
    for (at, (calls, storage)) in crashed.into_iter().enumerate() {
        let found = lawful(lawful(lawful(files(&storage).open()).session()).run(whole)).0;
        assert!(found <= calls, "{found} of {calls} calls, crash {at}");
        assert!(at % 5 < 4 || found == calls, "{found} of {calls} calls were flushed, crash {at}");
    }
}

/// A piece that conflicts and only reads draws a number, too: whoever overwrites what it has read draws no earlier one.
fn readers_draw_too(kind: Kind) {
    if !is_chopped(kind) {
        return;
    }
    const CALLS: u64 = 1_500;
    let db = filled(builder(kind).manual_epochs().snapshot_interval(Duration::ZERO));
    let done = AtomicBool::new(false);
    let (seen, all) = std::thread::scope(|scope| {
        let epochs = scope.spawn(|| {
            let mut seen = Vec::new();
            while !done.load(Ordering::Relaxed) {
                db.advance_epoch();
                seen.push(lawful(whole(&mut lawful(db.snapshot()))));
            }
            seen
        });
        on_threads(kind, &db, 3, |session, random, number| {
            for round in 0..CALLS {
                let key = (number as u64) << 32 | round;
                if random.below(2) == 0 {
                    lawful(session.call(LazyMove, (0, 1, 1, key)));
                } else {
                    lawful(session.call(LazyLook, key));
                }
            }
        });
        done.store(true, Ordering::Relaxed);
        let all = lawful(lawful(db.session()).run(whole));
        (epochs.join().expect("no panic"), all)
    });
    for (calls, looks) in seen {
        // Those that have seen less come before a call that is there.
        let expected = all.1.iter().filter(|(_, seen)| *seen < calls).count();
        let found = looks.iter().filter(|(_, seen)| *seen < calls).count();
        assert_eq!(found, expected, "looks that come before one of {calls} calls are missing");
    }
}

/// Calls on several threads, beside closures, snapshots and epochs that go by.
fn under_load(kind: Kind) {
    if !is_chopped(kind) {
        return;
    }
    const CALLS: usize = 1_500;
    let db = filled(builder(kind).manual_epochs().snapshot_interval(Duration::ZERO));
    let (calls, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let epochs = scope.spawn(|| {
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                db.advance_epoch();
                let seen = lawful(whole(&mut lawful(db.snapshot()))).0;
                assert!(seen >= last, "a later snapshot sees less");
                last = seen;
            }
        });
        on_threads(kind, &db, 3, |session, random, number| {
            for _ in 0..CALLS {
                if number == 0 && random.below(64) == 0 {
                    lawful(session.run(whole));
                } else {
                    let (from, amount) = (random.below(2), random.below(100) as i64);
                    let entry = calls.fetch_add(1, Ordering::Relaxed);
                    lawful(session.call(LazyMove, (from, 1 - from, amount, entry)));
                }
            }
        });
        done.store(true, Ordering::Relaxed);
        epochs.join().expect("no panic");
    });
    assert_eq!(lawful(lawful(db.session()).run(whole)).0, calls.load(Ordering::Relaxed) as i64);
}

/// What was acknowledged as durable is there after a crash, and what is there is there whole.
fn survive(kind: Kind) {
    if !is_chopped(kind) {
        return;
    }
    for seed in 0..3 {
        let storage = Simulated::new();
        let files = |storage: &Simulated| builder(kind).storage(Arc::new(storage.clone()));
        let (acknowledged, entry, mut crashed) = (AtomicI64::new(0), AtomicU64::new(0), Vec::new());
        let db =
            filled(files(&storage).durability(Durability::Sync).epoch_interval(Duration::from_micros(100)));
        let moves = || {
            let mut session = lawful(db.session());
            for _ in 0..60 {
                let entry = entry.fetch_add(1, Ordering::Relaxed);
                lawful(session.call(LazyMove, (0, 1, 1, entry)));
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
        };
        std::thread::scope(|scope| {
            let works: Vec<_> = (0..3).map(|_| scope.spawn(moves)).collect();
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
        for (before, storage) in crashed.iter().rev().step_by(1 + crashed.len() / 24) {
            let calls = lawful(lawful(lawful(files(storage).open()).session()).run(whole)).0;
            assert!(calls >= *before, "{before} calls were acknowledged, and {calls} are there");
        }
    }
}
