//! Several sessions on one thread: what waits for another transaction lets the next one run.

use heddledb::protocol::Calls;
use heddledb::protocol::{Choice, Ic3, Kind, Silo};
use heddledb::storage::Simulated;
use heddledb::{Database, Durability, Error, ReadTransaction, Result, Table, Transaction, procedure};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Total {
    #[key]
    id: u64,
    sum: i64,
}

#[procedure]
fn deposit(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<i64> {
    let balance = tx.update_columns(id, Account::balance, |balance| {
        *balance += amount;
        *balance
    })?;
    #[later]
    let sum = tx.update_columns(1, Total::sum, |sum| {
        *sum += amount;
        *sum
    })?;
    Ok(balance + sum)
}

const ACCOUNTS: u64 = 2;

fn database(protocol: impl Into<Choice>) -> Database {
    let db = Database::builder().protocol(protocol).procedure::<Deposit>().open().unwrap();
    let fill = |tx: &mut heddledb::Txn| {
        tx.insert(Total { id: 1, sum: 0 })?;
        (0..ACCOUNTS).try_for_each(|id| tx.insert(Account { id, balance: 0 }))
    };
    db.session().unwrap().run(fill).unwrap();
    db
}

fn total(db: &Database) -> (i64, i64) {
    let look = |tx: &mut heddledb::Txn| {
        let sum = tx.get_columns(1, Total::sum)?.unwrap_or(0);
        let mut balances = 0;
        for id in 0..ACCOUNTS {
            balances += tx.get_columns(id, Account::balance)?.unwrap_or(0);
        }
        Ok((sum, balances))
    };
    db.session().unwrap().run(look).unwrap()
}

/// Two threads, each with a crew, on rows that all of them write.
fn everybody_deposits(protocol: impl Into<Choice>) {
    const CALLS: i64 = 400;
    const CREW: usize = 5;
    let db = database(protocol);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let worked = db.crew(CREW, |number, session| {
                    for call in 0..CALLS as u64 {
                        session.call(Deposit, ((number as u64 + call) % ACCOUNTS, 1)).unwrap();
                    }
                    number
                });
                assert_eq!(worked.unwrap(), (0..CREW).collect::<Vec<_>>());
            });
        }
    });
    let all = 2 * CREW as i64 * CALLS;
    assert_eq!(total(&db), (all, all));
}

#[test]
fn crews_deposit_under_ic3() {
    everybody_deposits(Ic3::default());
}

#[test]
fn crews_deposit_under_silo() {
    everybody_deposits(Silo::default());
}

/// Who has the turn waits for later phases, and those for each other, on the same thread too.
#[test]
fn crews_deposit_in_turns() {
    everybody_deposits(Silo::with_calls(Calls::Sequenced));
}

/// A session that waits does not keep the thread from the one that it waits for.
#[test]
fn who_waits_lets_the_one_he_waits_for_run() {
    let db = database(Kind::Ic3);
    let order = std::cell::RefCell::new(Vec::new());
    let outcomes = db.crew(3, |number, session| {
        for _ in 0..50 {
            session.call(Deposit, (0, 1))?;
            order.borrow_mut().push(number);
        }
        Ok::<(), Error>(())
    });
    outcomes.unwrap().into_iter().for_each(|outcome| outcome.unwrap());
    assert_eq!(total(&db), (150, 150));
    let order = order.into_inner();
    assert!(order.windows(2).filter(|pair| pair[0] != pair[1]).count() > 50, "they take turns: {order:?}");
}

/// The younger of two sessions that both raise their shared lock is aborted again and again, until the older one, which is
/// suspended on the same thread, has had its turn.
#[test]
fn who_is_aborted_lets_the_one_he_conflicts_with_run() {
    const ATTEMPTS_MAX: u32 = 1_000;
    let db = database(Kind::DlDetect);
    let mut other = db.begin().unwrap();
    other.update_columns(1, Account::balance, |balance| *balance += 1).unwrap();
    let other = std::cell::RefCell::new(Some(other));
    let raise = |tx: &mut heddledb::Txn, waits: bool| {
        tx.get_columns(0, Account::balance)?;
        if waits {
            tx.update_columns(1, Account::balance, |balance| *balance += 1)?;
        }
        tx.update_columns(0, Account::balance, |balance| *balance += 1)
    };
    let outcomes = db.crew(3, |number, session| match number {
        0 => session.run(|tx| raise(tx, true)),
        1 => {
            let mut attempts = 0;
            session.run(|tx| {
                attempts += 1;
                assert!(attempts < ATTEMPTS_MAX, "the session that holds the lock never runs");
                raise(tx, false)
            })
        }
        _ => other.take().expect("one session ends it").commit(),
    });
    outcomes.unwrap().into_iter().for_each(|outcome| outcome.unwrap());
    assert_eq!(total(&db), (0, 4));
}

#[test]
fn a_crew_has_as_many_sessions_as_there_are() {
    let db = Database::builder().sessions(2).open().unwrap();
    assert_eq!(db.crew(2, |number, _| number).unwrap(), [0, 1]);
    let error = db.crew(3, |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("session"), "{error}");
    assert!(db.session().is_ok(), "those it had taken are back");
}

/// Runs `work` on a thread of its own; fails if it does not end within a time that only a hang takes.
fn ends(what: &str, work: impl FnOnce() + Send + 'static) {
    let (tell, told) = channel();
    let thread = std::thread::spawn(move || {
        work();
        let _ = tell.send(());
    });
    match told.recv_timeout(Duration::from_secs(60)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

fn durable(protocol: impl Into<Choice>, disk: &Simulated) -> Database {
    let builder =
        Database::builder().protocol(protocol).procedure::<Deposit>().table::<Account>(0).table::<Total>(0);
    let builder = builder.storage(Arc::new(disk.clone())).durability(Durability::Sync);
    builder.epoch_interval(Duration::from_millis(1)).open().unwrap()
}

fn fill(db: &Database) {
    let fill = |tx: &mut heddledb::Txn| {
        tx.insert(Total { id: 1, sum: 0 })?;
        (0..4).try_for_each(|id| tx.insert(Account { id, balance: 0 }))
    };
    db.session().unwrap().run(fill).unwrap();
}

/// A session waits for its commit to be durable, and so for the epoch, which a suspended transaction of the same thread
/// holds back; that one waits for a transaction that the third session of the thread ends.
#[test]
fn who_waits_for_a_durable_commit_lets_those_run_that_hold_the_epoch_back() {
    for pipelined in [false, true] {
        ends("a crew with commits that wait", move || {
            let disk = Simulated::new();
            let db = durable(Kind::DlDetect, &disk);
            fill(&db);
            let mut other = db.begin().unwrap();
            other.update_columns(1, Account::balance, |balance| *balance += 1).unwrap();
            let other = std::cell::RefCell::new(Some(other));
            let outcomes = db.crew(3, |number, session| match number {
                0 => session.run(|tx| {
                    tx.update_columns(0, Account::balance, |balance| *balance += 1)?;
                    tx.update_columns(1, Account::balance, |balance| *balance += 1)
                }),
                1 => {
                    let body = |tx: &mut heddledb::Txn| {
                        tx.update_columns(2, Account::balance, |balance| *balance += 1)
                    };
                    if pipelined {
                        session.run_pipelined(body).and_then(|((), ticket)| ticket.wait())
                    } else {
                        session.run(body)
                    }
                }
                _ => {
                    // Some turns later, when the session before it waits.
                    session.set_durability(Durability::Epoch)?;
                    for _ in 0..5 {
                        session.run(|tx| tx.get::<Account>(3).map(|_| ()))?;
                    }
                    let mut other = other.take().expect("one session ends it");
                    // Who waited for it would stop the thread: it is no session of the crew.
                    other.set_durability(Durability::Epoch)?;
                    other.commit()
                }
            });
            outcomes.unwrap().into_iter().for_each(|outcome| outcome.unwrap());
            assert_eq!(total(&db), (0, 3));
        });
    }
}

/// Two threads with crews whose commits are all waited for.
#[test]
fn crews_wait_for_their_commits_under_every_protocol() {
    for &kind in Kind::ALL {
        if kind.sessions_max() < 8 {
            continue;
        }
        ends(kind.name(), move || {
            let disk = Simulated::new();
            let db = durable(kind, &disk);
            fill(&db);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let worked = db.crew(3, |number, session| {
                            for call in 0..60 {
                                session.call(Deposit, ((number as u64 + call) % ACCOUNTS, 1)).unwrap();
                            }
                        });
                        worked.unwrap();
                    });
                }
            });
            assert_eq!(total(&db), (360, 360));
        });
    }
}
