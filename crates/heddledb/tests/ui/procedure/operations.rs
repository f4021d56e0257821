use heddledb::{ReadTransaction, Result, Scan, Table, Transaction, procedure};

#[derive(Table, Clone, Copy)]
#[table(index(ByOwner(owner)))]
struct Account {
    #[key]
    id: u64,
    owner: u32,
    balance: i64,
}

#[procedure]
fn unknown_operation(tx: &mut impl Transaction, id: u64) -> Result<()> {
    tx.remove::<Account>(id)
}

#[procedure]
fn writes(tx: &mut impl ReadTransaction, id: u64) -> Result<()> {
    tx.set_columns(id, Account::balance, 0)
}

#[procedure]
fn tables(tx: &mut impl Transaction, row: Account) -> Result<()> {
    tx.insert(row)?;
    tx.upsert(row)?;
    tx.delete(row.id)?;
    let _: Option<Account> = tx.get(row.id)?;
    tx.update::<_, _>(row.id, |row| row.balance = 0)?;
    let whole = Scan::all();
    let rows: Vec<Account> = tx.collect(whole)?;
    Ok(())
}

#[procedure]
fn indexes(tx: &mut impl ReadTransaction, scan: Scan<ByOwner>) -> Result<()> {
    tx.find::<_>(1)?;
    tx.scan_index(scan, |_, _| std::ops::ControlFlow::Break(()))
}

#[procedure]
fn columns(tx: &mut impl Transaction, id: u64, poor: bool) -> Result<()> {
    let chosen = if poor { Account::balance } else { Account::id };
    tx.get_columns(id, chosen)?;
    tx.get_columns(id, (Account::owner, some_column()))?;
    let balance = Account::balance;
    for balance in [balance] {
        tx.add(balance, id, 1)?;
    }
    tx.add(balance, id, 1)
}

fn some_column() -> heddledb::Column<Account, i64> {
    Account::balance
}

fn main() {}
