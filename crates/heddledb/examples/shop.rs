//! A shop in four procedures, called from several threads under IC3.
//!
//! `cargo run --example shop` sells, cancels and restocks, and checks the books. `cargo run --example shop describe`
//! prints what the procedures access, for `heddle analyze`.

use heddledb::procedure::{Declaration, text};
use heddledb::protocol::Ic3;
use heddledb::{Database, Error, ReadTransaction, Result, Scan, Table, Transaction, procedure};
use std::ops::ControlFlow;

#[derive(Table, Clone, Copy)]
struct Counter {
    #[key]
    id: u64,
    next: u64,
}

#[derive(Table, Clone, Copy)]
struct Stock {
    #[key]
    item: u64,
    price: i64,
    #[group(left)] // changes often, so readers of the price are kept out of it
    left: i64,
}

#[derive(Table, Clone, Copy)]
struct Purchase {
    #[key]
    number: u64,
    item: u64,
    paid: i64,
}

#[derive(Table, Clone, Copy)]
struct Till {
    #[key]
    id: u64,
    cash: i64,
}

/// Sells one piece of an item; the number of the purchase.
#[procedure]
fn buy(tx: &mut impl Transaction, item: u64) -> Result<u64> {
    let price = tx.get_columns(item, Stock::price)?.ok_or_else(|| Error::user("no such item"))?;
    let number = tx.update_columns(0, Counter::next, |next| {
        *next += 1;
        *next
    })?;
    let left = tx.update_columns(item, Stock::left, |left| {
        *left -= 1;
        *left
    })?;
    if left < 0 {
        return Err(Error::user("sold out")); // whoever has read our number is run again
    }
    tx.insert(Purchase { number, item, paid: price })?;
    tx.add(Till::cash, 0, price)?; // nobody reads it here, so it commutes
    Ok(number)
}

/// Takes a purchase back.
#[procedure]
fn cancel(tx: &mut impl Transaction, number: u64) -> Result<()> {
    let purchase = tx.get_columns(number, (Purchase::item, Purchase::paid))?;
    let (item, paid) = purchase.ok_or_else(|| Error::user("no such purchase"))?;
    tx.update_columns(item, Stock::left, |left| *left += 1)?;
    tx.delete::<Purchase>(number)?;
    tx.add(Till::cash, 0, -paid)
}

/// Adds to the stock of some items.
#[procedure]
fn restock(tx: &mut impl Transaction, items: &[u64], pieces: i64) -> Result<()> {
    for item in items {
        tx.update_columns(*item, Stock::left, |left| *left += pieces)?;
    }
    Ok(())
}

/// How many pieces of an item are left, at which price.
#[procedure]
fn look(tx: &mut impl ReadTransaction, item: u64) -> Result<Option<(i64, i64)>> {
    tx.get_columns(item, (Stock::left, Stock::price))
}

fn main() -> Result<()> {
    const ITEMS: u64 = 3;
    const PIECES: i64 = 1_000;
    if std::env::args().nth(1).as_deref() == Some("describe") {
        let procedures = [
            Declaration::of::<Buy>(),
            Declaration::of::<Cancel>(),
            Declaration::of::<Restock>(),
            Declaration::of::<Look>(),
        ];
        print!("{}", text("shop", &procedures));
        return Ok(());
    }
    let builder = Database::builder().protocol(Ic3::default()).procedure::<Buy>().procedure::<Cancel>();
    let db = builder.procedure::<Restock>().procedure::<Look>().open()?;
    db.session()?.run(|tx| {
        tx.insert(Counter { id: 0, next: 0 })?;
        tx.insert(Till { id: 0, cash: 0 })?;
        (0..ITEMS).try_for_each(|item| tx.insert(Stock { item, price: 10 + item as i64, left: PIECES }))
    })?;
    std::thread::scope(|scope| {
        let clerk = |clerk: u64| {
            let db = db.clone();
            scope.spawn(move || -> Result<()> {
                let mut session = db.session()?; // one per thread
                for turn in 0..1_500 {
                    let number = match session.call(Buy, (turn + clerk) % ITEMS) {
                        Err(Error::User(_)) => {
                            session.call(Restock, (&[0, 1, 2], 10))?;
                            continue;
                        }
                        number => number?,
                    };
                    if turn % 7 == 0 {
                        session.call(Cancel, number)?;
                    }
                }
                Ok(())
            })
        };
        [clerk(0), clerk(1)].into_iter().try_for_each(|clerk| clerk.join().expect("a clerk does not panic"))
    })?;
    let mut session = db.session()?;
    let (cash, paid) = session.run(|tx| {
        let mut paid = 0;
        tx.scan_columns(Scan::all(), Purchase::paid, |_, one| {
            paid += one;
            ControlFlow::Continue(())
        })?;
        Ok((tx.get_columns(0, Till::cash)?, paid))
    })?;
    assert_eq!(cash, Some(paid), "the till holds what was paid");
    println!("{paid} in the till, item 0: {:?}; {}", session.call(Look, 0)?, session.stats());
    Ok(())
}
