//! Whole transactions under shuttle: seeded random and PCT schedules, with a switch possible at
//! every atomic access of the engine.
//!
//! `cargo test -p heddledb --features shuttle --test shuttle`; `HEDDLE_SHUTTLE` is the number of
//! schedules of each kind. A failure prints a schedule that `shuttle::replay` takes.

#![cfg(feature = "shuttle")]

use heddledb::procedure::Announcement;
use heddledb::protocol::Kind;
use heddledb::{
    Database, Error, Pending, ReadTransaction, Result, Scan, Session, Table, Transaction, procedure,
};
use std::ops::ControlFlow;

#[derive(Table, Clone, Copy)]
struct Cell {
    #[key]
    key: u64,
    value: i64,
}

#[derive(Table, Clone, Copy)]
#[table(hash)]
struct Slot {
    #[key]
    key: u64,
    value: i64,
}

fn schedules() -> usize {
    std::env::var("HEDDLE_SHUTTLE").ok().and_then(|text| text.parse().ok()).unwrap_or(2_500)
}

fn open(kind: Kind) -> Database {
    let builder = Database::builder().protocol(kind).sessions(kind.sessions_max().min(4));
    builder.manual_epochs().table::<Cell>(4).table::<Slot>(4).open().expect("the settings are lawful")
}

/// Runs `work` in two threads while a third advances the epoch, then `check`.
fn race(kind: Kind, prepare: fn(&mut Session), work: fn(&mut Session, usize), check: fn(&mut Session)) {
    let body = move || {
        let db = open(kind);
        prepare(&mut db.session().expect("a session is free"));
        let mut threads: Vec<_> = (0..2)
            .map(|number| {
                let db = db.clone();
                shuttle::thread::spawn(move || work(&mut db.session().expect("a session is free"), number))
            })
            .collect();
        let clock = db.clone();
        threads.push(shuttle::thread::spawn(move || (0..4).for_each(|_| _ = clock.advance_epoch())));
        threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        check(&mut db.session().expect("a session is free"));
    };
    shuttle::check_random(body.clone(), schedules());
    shuttle::check_pct(body, schedules(), 3);
}

fn fill(session: &mut Session) {
    session
        .run(|tx| {
            for key in 0..2 {
                tx.insert(Cell { key, value: 10 })?;
                tx.insert(Slot { key, value: 10 })?;
            }
            Ok(())
        })
        .expect("nobody else is there");
}

/// Money moves between a row of each table.
fn transfer(session: &mut Session, number: usize) {
    for round in 0..2 {
        session
            .run(|tx| {
                tx.update_columns(number as u64, Cell::value, |value| *value -= 1)?;
                tx.update_columns(round as u64, Slot::value, |value| *value += 1)
            })
            .expect("both rows exist");
    }
}

fn sum_is_kept(session: &mut Session) {
    let sum = session.run(|tx| {
        let mut sum = 0;
        for key in 0..2 {
            sum += tx.get_columns(key, Cell::value)?.unwrap_or(0)
                + tx.get_columns(key, Slot::value)?.unwrap_or(0);
        }
        Ok(sum)
    });
    assert_eq!(sum.expect("reads succeed"), 40);
}

/// Each reads a row of each table, in an order of its own, and then writes both: locks are upgraded, and taken crosswise.
fn cross(session: &mut Session, number: usize) {
    session
        .run(|tx| {
            let cell = tx.get_columns(0, Cell::value)?.unwrap_or(0);
            let slot = tx.get_columns(0, Slot::value)?.unwrap_or(0);
            if number == 0 {
                tx.set_columns(0, Cell::value, cell - 1)?;
                tx.set_columns(0, Slot::value, slot + 1)
            } else {
                tx.set_columns(0, Slot::value, slot + 1)?;
                tx.set_columns(0, Cell::value, cell - 1)
            }
        })
        .expect("both rows exist");
}

/// Each inserts its key if it does not see the other's: at most one row appears.
fn insert_unless_there(session: &mut Session, number: usize) {
    let key = 5 + number as u64;
    session
        .run(|tx| {
            let mut rows = 0;
            tx.scan(Scan::<Cell>::range(5..9), |_| {
                rows += 1;
                ControlFlow::Continue(())
            })?;
            if rows == 0 { tx.insert(Cell { key, value: 1 }) } else { Ok(()) }
        })
        .expect("the key is free");
}

fn one_row(session: &mut Session) {
    let rows = session.run(|tx| tx.collect(Scan::<Cell>::range(5..9))).expect("reads succeed");
    assert_eq!(rows.len(), 1, "a phantom");
}

/// A pair of rows comes and goes together; inserts and deletes are reclaimed meanwhile.
fn toggle_pair(session: &mut Session, _: usize) {
    for _ in 0..2 {
        session
            .run(|tx| match tx.get::<Cell>(5)? {
                // An error, not an assertion: an optimistic body may see half a pair, and is then
                // retried instead of heard.
                Some(_) => match tx.delete::<Cell>(5)? && tx.delete::<Slot>(5)? {
                    true => Ok(()),
                    false => Err(Error::user("half a pair")),
                },
                None => {
                    tx.insert(Cell { key: 5, value: 0 })?;
                    tx.insert(Slot { key: 5, value: 0 })
                }
            })
            .expect("the pair is whole");
    }
}

fn pair_is_whole(session: &mut Session) {
    let (cell, slot) = session.run(|tx| Ok((tx.get::<Cell>(5)?, tx.get::<Slot>(5)?))).expect("reads succeed");
    assert_eq!(cell.is_some(), slot.is_some());
}

fn all_races(kind: Kind) {
    race(kind, fill, transfer, sum_is_kept);
    race(kind, fill, cross, sum_is_kept);
    race(kind, fill, insert_unless_there, one_row);
    race(kind, fill, toggle_pair, pair_is_whole);
}

#[procedure]
fn raise(tx: &mut impl Transaction, key: u64) -> Result<i64> {
    tx.update_columns(key, Cell::value, |value| {
        *value += 1;
        *value
    })
}

/// Two sessions submit to two executors through a window of one, wait for one call each, and close the database: each call is
/// executed once, nobody waits for ever, and closing waits for all.
fn submit_and_close(kind: Kind) {
    let builder = Database::builder().protocol(kind).sessions(5).executors(2).window(1).manual_epochs();
    let db = builder.table::<Cell>(4).procedure::<Raise>().open().expect("the settings are lawful");
    let insert = |session: &mut Session| session.run(|tx| tx.insert(Cell { key: 0, value: 0 }));
    db.session().and_then(|mut session| insert(&mut session)).expect("the table is empty");
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let db = db.clone();
            shuttle::thread::spawn(move || {
                let mut session = db.session().expect("a session is free");
                let first = session.submit(Raise, 0).expect("it is submitted");
                let second = session.submit(Raise, 0).expect("it is submitted");
                [Ok(first.wait().expect("it commits")), Err(second)]
            })
        })
        .collect();
    drop(db);
    let results: Vec<Result<i64, Pending<i64>>> =
        threads.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect();
    let mut values: Vec<i64> = results
        .into_iter()
        .map(|result| {
            result.unwrap_or_else(|pending| {
                assert!(pending.is_done(), "it was closed before");
                pending.wait().expect("it commits")
            })
        })
        .collect();
    values.sort_unstable();
    assert_eq!(values, [1, 2, 3, 4]);
}

#[test]
fn submitted_calls() {
    shuttle::check_random(|| submit_and_close(Kind::Silo), schedules());
    shuttle::check_pct(|| submit_and_close(Kind::Silo), schedules(), 3);
}

#[test]
fn submitted_calls_in_batches() {
    shuttle::check_random(|| submit_and_close(Kind::Dgcc), schedules());
    shuttle::check_pct(|| submit_and_close(Kind::DgccLevels), schedules(), 3);
}

fn tell_moves(to: &mut Announcement<'_>, from: u64, through: u64) {
    to.writes(from, Cell::value);
    to.writes(through, Cell::value);
}

/// Takes from a cell and gives to another, in pieces; tells what the first has then.
#[procedure(announce = tell_moves)]
fn move_one(tx: &mut impl Transaction, from: u64, through: u64) -> Result<i64> {
    #[later]
    let left = tx.update_columns(from, Cell::value, |value| {
        *value -= 1;
        *value
    })?;
    tx.update_columns(through, Cell::value, |value| *value += 1)?;
    Ok(left)
}

/// Two calls that meet in two cells, in other orders, executed in pieces by two executors; a closure sees whole calls.
fn pieces_and_a_closure() {
    let builder = Database::builder().protocol(Kind::Dgcc).sessions(5).executors(2).manual_epochs();
    let db = builder.table::<Cell>(4).procedure::<MoveOne>().open().expect("the settings are lawful");
    let cells = |session: &mut Session| {
        session.run(|tx| (0..2).try_for_each(|key| tx.insert(Cell { key, value: 0 })))
    };
    let mut session = db.session().expect("a session is free");
    cells(&mut session).expect("the table is empty");
    let looks = shuttle::thread::spawn({
        let db = db.clone();
        move || {
            let mut session = db.session().expect("a session is free");
            let sum = |tx: &mut heddledb::Txn| {
                let one = tx.get_columns(0, Cell::value)?.expect("it is there");
                Ok(one + tx.get_columns(1, Cell::value)?.expect("it is there"))
            };
            assert_eq!(session.run(sum).expect("it is read"), 0, "it sees half of a call");
        }
    });
    let calls = [(0, 1), (1, 0), (0, 1)].map(|call| session.submit(MoveOne, call).expect("it is submitted"));
    let seen = calls.map(|call| call.wait().expect("it commits"));
    assert_eq!(seen, [-1, 0, -1], "their order is that of their submission");
    looks.join().expect("it does not panic");
}

#[test]
fn pieces() {
    shuttle::check_random(pieces_and_a_closure, schedules());
    shuttle::check_pct(pieces_and_a_closure, schedules(), 3);
}

#[test]
fn silo() {
    all_races(Kind::Silo);
}

#[test]
fn tictoc() {
    all_races(Kind::TicToc);
}

#[test]
fn tictoc_sorted() {
    all_races(Kind::TicTocSorted);
}

#[test]
fn no_wait() {
    all_races(Kind::NoWait);
}

#[test]
fn wait_die() {
    all_races(Kind::WaitDie);
}

#[test]
fn dl_detect() {
    all_races(Kind::DlDetect);
}

#[test]
fn ordered_2pl() {
    all_races(Kind::Ordered2pl);
}

#[test]
fn ts_alloc() {
    all_races(Kind::TsAlloc);
}

#[test]
fn dta() {
    all_races(Kind::Dta);
}
