//! Hardware regions: where they come from, and that what they are for happens in them.

use heddledb::internals::sync::htm;
use heddledb::protocol::{Executor, Htm, Reach};
use heddledb::{Database, ReadTransaction, RegionMetrics, RegionSource, Result, Table, Transaction};
use std::thread;

#[derive(Table, Clone, Copy, Debug)]
#[table(hash)]
struct Event {
    #[key]
    id: u64,
    amount: i64,
}

#[derive(Table, Clone, Copy, Debug)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

/// Transactions of each thread. Each adds a row to a table that hashes, one to a tree, and to the sum of all.
const EACH: u64 = 5_000;
const THREADS: u64 = 2;

fn options() -> [Htm; 4] {
    [Htm::CHOPPED, Htm::DEFERRING, Htm::COMMITS, Htm::WHOLE]
}

/// What became of the regions of some transactions, whose results are checked.
fn regions(options: Htm) -> Result<RegionMetrics> {
    let builder = Database::builder().protocol(options).sessions(THREADS as usize);
    let db = builder.table::<Event>(0).table::<Account>(0).open()?;
    db.session()?.run(|tx| tx.insert(Account { id: 0, balance: 0 }))?;
    thread::scope(|scope| {
        let task = |number: u64| {
            let db = &db;
            scope.spawn(move || -> Result<()> {
                let mut session = db.session()?;
                (0..EACH).try_for_each(|at| {
                    let id = at * THREADS + number + 1;
                    session.run(|tx| {
                        tx.insert(Event { id, amount: 1 })?;
                        tx.insert(Account { id, balance: 1 })?;
                        tx.add(Account::balance, 0, 1)
                    })
                })
            })
        };
        let tasks: Vec<_> = (0..THREADS).map(task).collect();
        tasks.into_iter().try_for_each(|task| task.join().expect("no task panics"))
    })?;
    let all = THREADS * EACH;
    let (mut session, regions) =
        (db.session()?, db.metrics().regions.expect("a protocol of regions tells of them"));
    let sum = session.read(|tx| Ok(tx.get::<Account>(0)?.map(|account| account.balance)))?;
    assert_eq!(sum, Some(all as i64));
    let mut events = 0;
    for id in 1..=all {
        events += session.read(|tx| Ok(tx.get::<Event>(id)?.map_or(0, |event| event.amount)))?;
    }
    assert_eq!(events, all as i64);
    Ok(regions)
}

/// Whichever memory only a region touches must be there, or no region that adds a row ever commits.
#[test]
fn the_processor_executes_them_or_the_database_does_not_open() {
    for options in options() {
        match regions(options.executed_by(Executor::Hardware)) {
            Ok(regions) => {
                println!("{regions}");
                assert!(htm::is_available());
                assert_eq!(regions.source, RegionSource::Processor);
                let alone = if options.reach == Reach::Commit { 0 } else { regions.commits_only };
                assert!(regions.committed - alone > EACH / 5, "regions that add rows are in vain: {regions}");
            }
            Err(why) => {
                println!("no RTM: skipped");
                let why = why.to_string();
                assert!(!htm::is_available() && why.contains("executes no hardware regions"), "{why}");
            }
        }
    }
}

#[test]
fn software_begins_none() {
    for options in options() {
        let regions = regions(options.executed_by(Executor::Software)).unwrap();
        assert_eq!((regions.source, regions.committed, regions.aborted()), (RegionSource::Nowhere, 0, 0));
        assert!(regions.software >= THREADS * EACH, "{regions}");
    }
}

/// A body that runs another transaction on the row that it has changed, and two owned ones that are under way side by side: what
/// one does is no part of the other's region.
#[test]
fn transactions_of_one_thread_are_two() {
    for options in options() {
        let Ok(db) = Database::builder().protocol(options.executed_by(Executor::Hardware)).open() else {
            println!("no RTM: skipped");
            continue;
        };
        let (mut outer, mut inner) = (db.session().unwrap(), db.session().unwrap());
        outer.run(|tx| tx.insert(Account { id: 1, balance: 0 })).unwrap();
        let raise = |tx: &mut heddledb::Txn| tx.update_columns(1, Account::balance, |balance| *balance += 1);
        let mut committed = 0;
        for _ in 0..20 {
            let outcome = outer.run(|tx| {
                raise(tx)?;
                inner.run(raise)?;
                committed += 1;
                Ok(())
            });
            committed += i64::from(outcome.is_ok());
            let (mut one, mut other) = (db.begin().unwrap(), db.begin().unwrap());
            let step = |tx: &mut heddledb::OwnedTransaction| {
                tx.update_columns(1, Account::balance, |balance| *balance += 1).is_ok()
            };
            let (first, second) = (step(&mut one), step(&mut other));
            committed += i64::from(other.commit().is_ok() && second);
            committed += i64::from(one.commit().is_ok() && first);
            let balance = outer.run(|tx| tx.get_columns(1, Account::balance)).unwrap();
            assert_eq!(balance, Some(committed), "{options:?}");
        }
    }
}

#[test]
fn where_nothing_is_said_there_are_none() {
    if std::env::var_os("HEDDLEDB_RTM").is_none() {
        let regions = regions(Htm::default()).unwrap();
        assert_eq!(regions.source, RegionSource::Nowhere, "{regions}");
    }
}
