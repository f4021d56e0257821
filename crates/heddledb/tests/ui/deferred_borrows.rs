use heddledb::{Database, Deferring, Table};

#[derive(Table, Clone, Copy)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

fn main() {
    let mut session = Database::in_memory().session().unwrap();
    let amount = 5;
    session.defer(|tx| tx.defer(1, Account::balance, (), |balance, ()| *balance += amount)).unwrap();
}
