use heddledb::{Result, Table, Transaction, procedure};

#[derive(Table, Clone, Copy)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

#[procedure]
fn pay(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<()> {
    tx.savepoint(|tx| tx.add(Account::balance, id, amount))
}

fn main() {}
