//! What `#[procedure]` finds in a body: sites, footprints, loops, branches; and that the body still runs.

mod body;
mod declaration;
mod helpers;
mod tables;

use heddledb::procedure::{Checked, Declaration, Procedure, workload};
use heddledb::{
    Column, Database, Error, ReadTransaction, Result, Session, Table, Text, Transaction, procedure,
};
use heddledb_analysis::text;

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Account {
    #[key]
    id: u64,
    owner: u32,
    #[group(money)]
    balance: i64,
    #[group(money)]
    limit: i64,
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(append_only)]
struct Journal {
    #[key]
    id: u64,
    amount: i64,
}

/// With indexes over columns of two groups.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(index(ByName(last, first)), unique(ByEmail(email)))]
struct Person {
    #[key]
    id: u32,
    first: Text<8>,
    last: Text<8>,
    #[group(contact)]
    email: Text<20>,
    #[group(visits)]
    visits: i64,
}

/// With columns in an array.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Shelf {
    #[key]
    id: u32,
    quantity: i64,
    #[group(left)]
    left: i64,
    #[group(right)]
    right: i64,
}

impl Shelf {
    const SIDES: [Column<Self, i64>; 2] = [Self::left, Self::right];
}

const MONEY: (Column<Account, i64>, Column<Account, i64>) = (Account::balance, Account::limit);

fn no_account() -> Error {
    Error::user("no such account")
}

/// What the analysis is told, line by line.
fn declared<Q: Procedure>() -> Vec<String> {
    let printed = text::print(&workload("w", [&Declaration::of::<Q>()]));
    let body = printed.split_once(&format!("txn {}\n", Q::NAME)).expect("it is printed").1;
    let body = body.strip_suffix("end\n").expect("it ends");
    body.lines().map(|line| line.trim().to_owned()).collect()
}

fn database() -> Session {
    let db = Database::builder()
        .table::<Account>(8)
        .table::<Journal>(8)
        .table::<Person>(8)
        .table::<Shelf>(8)
        .open()
        .unwrap();
    let mut session = db.session().unwrap();
    let fill = |tx: &mut _| {
        for id in 1..=4 {
            insert(tx, Account { id, owner: id as u32 % 2, balance: 100, limit: 0 })?;
        }
        for (id, first, last) in [(1, "Ada", "Byron"), (2, "Bo", "Byron"), (3, "Cy", "Dow")] {
            let [first, last] = [first, last].map(Text::truncated);
            let email = Text::truncated(&format!("{first}@{last}"));
            insert(tx, Person { id, first, last, email, visits: 0 })?;
        }
        insert(tx, Shelf { id: 1, quantity: 5, left: 2, right: 3 })
    };
    session.run(fill).unwrap();
    session
}

fn insert<T: Transaction, R: Table>(tx: &mut T, row: R) -> Result<()> {
    tx.insert(row)
}

/// Runs a procedure, held to its declaration.
fn run<Q: Procedure>(session: &mut Session, arguments: Q::Arguments<'_>) -> Result<Q::Output> {
    session.run(|tx| Q::run(&mut Checked::of::<Q>(tx), &arguments))
}

/// What is on an account.
#[procedure]
fn funds(tx: &mut impl ReadTransaction, id: u64) -> Result<i64> {
    tx.get_columns(id, Account::balance)?.ok_or_else(no_account)
}

#[procedure]
fn transfer<T>(tx: &mut T, from: u64, to: u64, amount: i64) -> Result<i64>
where
    T: Transaction,
{
    if funds(tx, from)? < amount {
        return Err(Error::user("too little"));
    }
    let left = tx.update_columns(from, Account::balance, |balance| {
        *balance -= amount;
        *balance
    })?;
    tx.add(Account::balance, to, amount)?;
    tx.insert(Journal { id: from * 1000 + to, amount })?;
    Ok(left)
}
