use heddledb::{Result, Table, Transaction, procedure};

#[derive(Table, Clone, Copy)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

struct Bank;

impl Bank {
    fn deposit(&self, tx: &mut impl Transaction, id: u64) -> Result<()> {
        tx.add(Account::balance, id, 1)
    }
}

struct Holder<'a, T>(&'a mut T);

struct Named<'a, T> {
    tx: &'a mut T,
}

#[procedure]
fn deposit(tx: &mut impl Transaction, id: u64) -> Result<()> {
    tx.add(Account::balance, id, 1)
}

#[procedure]
fn to_a_method(tx: &mut impl Transaction, bank: &'static Bank) -> Result<()> {
    bank.deposit(tx, 1)?;
    Bank::deposit(bank, tx, 1)?;
    <Bank>::deposit(bank, tx, 1)
}

#[procedure]
fn to_a_trait(tx: &mut impl Transaction, id: u64) -> Result<()> {
    Transaction::add(tx, Account::balance, id, 1)
}

#[procedure]
fn to_a_struct(tx: &mut impl Transaction) -> Result<()> {
    let holder = Holder(tx);
    let named = Named { tx };
    Ok(())
}

#[procedure]
fn borrowed_anew(tx: &mut impl Transaction, id: u64) -> Result<()> {
    deposit(&mut *tx, id)?;
    (&mut *tx).add(Account::balance, id, 1)
}

#[procedure]
fn second_name(tx: &mut impl Transaction, id: u64) -> Result<()> {
    let other = tx;
    other.add(Account::balance, id, 1)
}

#[procedure]
fn bound_anew(tx: &mut impl Transaction, ids: &[u64]) -> Result<()> {
    for tx in ids {
        drop(tx);
    }
    Ok(())
}

#[procedure]
fn elsewhere(tx: &mut impl Transaction, id: u64) -> Result<()> {
    let pair = (tx, id);
    Ok(())
}

#[procedure]
fn recursion(tx: &mut impl Transaction, id: u64) -> Result<()> {
    if id > 0 {
        recursion(tx, id - 1)?;
    }
    Ok(())
}

#[procedure]
fn not_first(tx: &mut impl Transaction, id: u64) -> Result<()> {
    swapped(id, tx)?;
    ([deposit][0])(tx, id)?;
    (|tx| deposit(tx, id))(tx)?;
    generic::<u64>(tx)
}

#[procedure]
fn causal_helper(tx: &mut impl Transaction, id: u64) -> Result<()> {
    #[causal]
    deposit(tx, id)?;
    Ok(())
}

fn swapped(id: u64, tx: &mut impl Transaction) -> Result<()> {
    tx.add(Account::balance, id, 1)
}

fn main() {}
