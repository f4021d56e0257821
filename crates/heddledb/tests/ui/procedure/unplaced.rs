use heddledb::{Result, Table, Transaction, procedure};

#[derive(Table, Clone, Copy)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

#[procedure]
fn in_a_closure(tx: &mut impl Transaction, ids: &[u64]) -> Result<()> {
    ids.iter().try_for_each(|id| tx.add(Account::balance, *id, 1))
}

#[procedure]
fn in_an_async_block(tx: &mut impl Transaction, id: u64) -> Result<()> {
    let later = async { tx.add(Account::balance, id, 1) };
    drop(later);
    Ok(())
}

#[procedure]
fn in_a_macro(tx: &mut impl Transaction, id: u64) -> Result<()> {
    assert!(tx.get::<Account>(id)?.is_some());
    println!("{:?}", tx.get_columns(id, Account::balance)?);
    let all = vec![tx.get_columns(id, Account::balance)?];
    Ok(())
}

#[procedure]
fn marks(tx: &mut impl Transaction, id: u64) -> Result<()> {
    #[piece]
    for _ in 0..3 {
        tx.add(Account::balance, id, 1)?;
    }
    #[piece]
    {
        drop(id);
    }
    #[causal]
    let next = id + 1;
    #[piece]
    let row = tx.get::<Account>(next)?;
    Ok(())
}

#[procedure]
fn promises_in_a_branch(tx: &mut impl Transaction, id: u64) -> Result<()> {
    if id > 0 {
        #[no_abort]
        #[later]
        tx.add(Account::balance, id, 1)?;
    }
    #[no_abort]
    tx.add(Account::balance, 0, 1)
}

#[procedure]
fn no_field_is_meant(tx: &mut impl Transaction, log: &Log) -> Result<()> {
    let deliveries = Some(1).map(|more| more + log.tx);
    tx.add(Account::balance, deliveries.unwrap_or(0), 1)
}

#[derive(Clone, Copy)]
struct Log {
    tx: u64,
}

#[procedure]
fn only_additions_are_put_off(tx: &mut impl Transaction, id: u64) -> Result<()> {
    #[deferred]
    tx.set_columns(id, Account::balance, 1)?;
    #[deferred]
    let next = id + 1;
    #[deferred]
    in_a_loop(tx, next)
}

#[procedure]
fn in_a_loop(tx: &mut impl Transaction, id: u64) -> Result<()> {
    #[deferred]
    for next in 0..id {
        tx.add(Account::balance, next, 1)?;
    }
    Ok(())
}

fn main() {}
