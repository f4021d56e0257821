//! The program of the README.

use heddledb::{Database, Error, ReadTransaction, Scan, Table, Text, Transaction, protocol::TicToc};

#[derive(Table, Clone, Copy)]
#[table(index(ByOwner(owner)))]
struct Account {
    #[key]
    id: u64,
    owner: Text<24>,
    #[group(money)] // its own column group: readers of `owner` do not conflict with payments
    balance: i64,
}

/// One procedure for every protocol.
fn transfer(tx: &mut impl Transaction, from: u64, to: u64, amount: i64) -> heddledb::Result<i64> {
    let left = tx.update_columns(from, Account::balance, |balance| {
        *balance -= amount;
        *balance
    })?;
    if left < 0 {
        return Err(Error::user("insufficient funds")); // nothing has happened
    }
    tx.add(Account::balance, to, amount)?; // commutes with other adds
    Ok(left)
}

fn main() -> heddledb::Result<()> {
    let db = Database::builder().protocol(TicToc::default()).open()?;
    let mut session = db.session()?; // one per thread
    session.run(|tx| {
        tx.insert(Account { id: 1, owner: Text::truncated("Ada"), balance: 100 })?;
        tx.insert(Account { id: 2, owner: Text::truncated("Bo"), balance: 0 })
    })?;
    let left = session.run(|tx| transfer(tx, 1, 2, 30))?; // conflicts are retried
    let bo = session.run(|tx| tx.find::<ByOwner>(Text::truncated("Bo")))?.expect("just inserted");
    let rich = session.run(|tx| tx.collect(Scan::<Account>::range(1..).reverse().limit(10)))?;
    println!("{left} left, Bo has {}, {} accounts", bo.balance, rich.len());
    Ok(())
}
