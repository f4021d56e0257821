//! Durable commits alone, and beside transactions that were begun, have read, and do nothing.
//!
//! `cargo run --release --example idle [PROTOCOL] [TRANSACTIONS] [RUNS]` prints the medians of what a commit takes until it is on the
//! disk, alone and beside so many idle transactions in turns, and what the metrics tell of the oldest of these.

use heddledb::{Database, Durability, ReadTransaction, Session, Table, Transaction, protocol::Kind};
use std::time::{Duration, Instant};

#[derive(Table, Clone, Copy)]
#[table(hash)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

const ACCOUNTS: u64 = 1_000;
const RUN: Duration = Duration::from_millis(500);

/// How long a commit takes, on average.
fn commits(session: &mut Session) -> heddledb::Result<Duration> {
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < RUN {
        let id = u64::from(done) % ACCOUNTS;
        session.run(|tx| tx.update_columns(id, Account::balance, |balance| *balance += 1))?;
        done += 1;
    }
    Ok(start.elapsed() / done)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let protocol: Kind = arguments.next().as_deref().unwrap_or("silo").parse()?;
    let idle: u64 = arguments.next().as_deref().unwrap_or("100").parse()?;
    let runs: usize = arguments.next().as_deref().unwrap_or("9").parse()?;
    let folder = std::env::temp_dir().join(format!("heddledb-idle-{}", std::process::id()));
    let db = Database::builder()
        .protocol(protocol)
        .table::<Account>(2 * ACCOUNTS as usize)
        .path(&folder)
        .durability(Durability::Sync)
        .open()?;
    let mut session = db.session()?;
    session.run(|tx| (0..2 * ACCOUNTS).try_for_each(|id| tx.insert(Account { id, balance: 0 })))?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..runs.max(1) {
        alone.push(commits(&mut session)?);
        // Each has read a row of its own that nobody writes.
        let mut others = Vec::new();
        for at in 0..idle {
            let mut transaction = db.begin()?;
            transaction.get::<Account>(ACCOUNTS + at % ACCOUNTS)?;
            others.push(transaction);
        }
        beside.push(commits(&mut session)?);
        if let Some(oldest) = db.metrics().oldest_transaction {
            println!("{oldest:?}");
        }
        drop(others);
    }
    let (alone, beside) = (median(alone), median(beside));
    println!("{protocol}: a commit takes {alone:?} alone, {beside:?} beside {idle} idle transactions");
    println!("ratio {:.3}", beside.as_secs_f64() / alone.as_secs_f64());
    drop((session, db));
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
