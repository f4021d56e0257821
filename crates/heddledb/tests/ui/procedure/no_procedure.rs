use heddledb::{Result, Table, Transaction, procedure};

#[derive(Table, Clone, Copy)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

fn deposit(tx: &mut impl Transaction, id: u64) -> Result<()> {
    tx.add(Account::balance, id, 1)
}

#[procedure]
fn calls_a_function(tx: &mut impl Transaction, id: u64) -> Result<()> {
    deposit(tx, id)
}

fn main() {}
