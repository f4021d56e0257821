//! Transfers between two rows on one thread, a fixed number of them, so that instructions can be counted.
//!
//! `cargo run --release --example transfers [PROTOCOL] [hash|tree|empty] [TRANSACTIONS] [IDLE]` prints the rate, beside so many
//! other sessions (none by default, at most 126) that have each committed a transaction and stay open. Under
//! `valgrind --tool=callgrind`, the difference of two runs by the difference of their numbers is what one transaction costs.

use heddledb::{Database, ReadTransaction, Result, Session, Table, Transaction, Txn, protocol::Kind};
use std::time::Instant;

#[derive(Table, Clone, Copy)]
#[table(hash)]
struct Hashed {
    #[key]
    id: u64,
    balance: i64,
}

#[derive(Table, Clone, Copy)]
struct Ordered {
    #[key]
    id: u64,
    balance: i64,
}

const ROWS: u64 = 1_000;

/// Moves one unit between rows at random (xorshift), so often; `add` adds to a row.
#[inline(always)]
fn transfer(
    session: &mut Session,
    transactions: u64,
    add: impl Fn(&mut Txn, u64, i64) -> Result<()>,
) -> Result<()> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut row = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % ROWS
    };
    for _ in 0..transactions {
        let (from, to) = (row(), row());
        session.run(|tx| {
            add(tx, from, -1)?;
            add(tx, to, 1)
        })?;
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let protocol: Kind = arguments.next().as_deref().unwrap_or("silo").parse()?;
    let what = arguments.next().unwrap_or_else(|| "hash".to_owned());
    let transactions: u64 = arguments.next().as_deref().unwrap_or("1000000").parse()?;
    let idle: usize = arguments.next().as_deref().unwrap_or("0").parse()?;
    let db = Database::builder()
        .protocol(protocol)
        .table::<Hashed>(ROWS as usize)
        .table::<Ordered>(ROWS as usize)
        .open()?;
    let mut session = db.session()?;
    session.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(Hashed { id, balance: 0 })))?;
    session.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(Ordered { id, balance: 0 })))?;
    let mut others = (0..idle).map(|_| db.session()).collect::<Result<Vec<_>>>()?;
    for other in &mut others {
        other.run(|tx| tx.get::<Hashed>(0).map(|_| ()))?;
    }
    let start = Instant::now();
    match &*what {
        "hash" => transfer(&mut session, transactions, |tx, id, by| {
            tx.update_columns(id, Hashed::balance, |balance| *balance += by)
        })?,
        "tree" => transfer(&mut session, transactions, |tx, id, by| {
            tx.update_columns(id, Ordered::balance, |balance| *balance += by)
        })?,
        "empty" => (0..transactions).try_for_each(|_| session.run(|_| Ok(())))?,
        _ => return Err(format!("a transfer is in a `hash`, in a `tree`, or `empty`; not {what}").into()),
    }
    let rate = transactions as f64 / start.elapsed().as_secs_f64() / 1e3;
    println!("{protocol}, {what}: {rate:.0} thousand transactions a second");
    Ok(())
}
