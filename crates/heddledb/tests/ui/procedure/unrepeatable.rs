//! What a procedure with a version must not depend on.

use heddledb::{Result, Table, Transaction, procedure};
use std::collections::HashMap;
use std::time::Instant;

#[derive(Table, Clone, Copy)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

#[procedure(version = 1)]
fn clock(tx: &mut impl Transaction, id: u64) -> Result<()> {
    let now = Instant::now();
    tx.add(Account::balance, id, now.elapsed().as_secs() as i64)
}

#[procedure(version = 1)]
fn outside(tx: &mut impl Transaction, id: u64) -> Result<()> {
    static CALLS: i64 = 1;
    let name = std::env::args().count() as i64;
    tx.add(Account::balance, id, name + CALLS)
}

#[procedure(version = 1)]
fn order_of_a_map(tx: &mut impl Transaction, ids: &[u64]) -> Result<()> {
    let seen: HashMap<u64, i64> = ids.iter().map(|id| (*id, 1)).collect();
    for (id, count) in seen {
        tx.add(Account::balance, id, count)?;
    }
    Ok(())
}

#[procedure(version = 1, version = 2)]
fn twice(tx: &mut impl Transaction, id: u64) -> Result<()> {
    tx.add(Account::balance, id, 1)
}

/// Without a version it may do as it likes, as long as it is told so.
#[procedure]
fn free(tx: &mut impl Transaction, id: u64) -> Result<()> {
    tx.add(Account::balance, id, Instant::now().elapsed().as_secs() as i64)
}

/// A lifetime is no static.
#[procedure]
fn named(tx: &mut impl Transaction, id: u64) -> Result<()> {
    let names: [&'static str; 2] = ["one", "other"];
    tx.add(Account::balance, id, names.len() as i64)
}

fn main() {}
