use heddledb::{Database, Deferring, Row, Table};

#[derive(Table, Clone, Copy)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

#[derive(Table, Clone)]
struct Person {
    #[key]
    id: u64,
    name: String,
}

fn captured_text(tx: &mut impl Deferring) -> heddledb::Result<()> {
    let note = String::from("rent");
    tx.defer(1, Account::balance, (), move |balance, ()| *balance += note.len() as i64)?;
    Ok(())
}

fn condition(tx: &mut impl Deferring) -> heddledb::Result<()> {
    let left = tx.look(1, Account::balance)?;
    if tx.map(left, |left| left > Some(100))? {
        tx.erase::<Account>(2)?;
    }
    Ok(())
}

fn key(tx: &mut impl Deferring) -> heddledb::Result<()> {
    tx.defer(1, Account::id, (), |id, ()| *id += 1)?;
    tx.defer(1, (Account::balance, Account::id), (), |(balance, id), ()| *balance += *id as i64)?;
    tx.defer(1, Row::<Account>::new(), (), |account, ()| account.balance += 1)?;
    Ok(())
}

fn text(tx: &mut impl Deferring) -> heddledb::Result<()> {
    tx.look(1, Person::name)?;
    tx.defer(1, Person::name, (), |name, ()| name.clear())?;
    tx.put(1, (), |()| Person { id: 1, name: String::new() })?;
    Ok(())
}

fn values(tx: &mut impl Deferring) -> heddledb::Result<()> {
    tx.map((), |()| vec![1])?;
    tx.map(5, |five: i32| five)?;
    Ok(())
}

fn main() {
    let mut session = Database::in_memory().session().unwrap();
    let seen = session.defer(|tx| {
        captured_text(tx)?;
        condition(tx)?;
        key(tx)?;
        text(tx)?;
        values(tx)?;
        Ok(5)
    });
}
