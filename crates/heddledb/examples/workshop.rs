//! Transactional objects beside a table: a workshop with a queue of orders, a stock, benches and a diary.

use heddledb::objects::{Element, Object, TArray, TCounter, TMap, TQueue, TVector};
use heddledb::protocol::Kind;
use heddledb::{Database, Error, Objects, Result, Table, Text, Transaction};

#[derive(Element, Clone, Copy, Debug)]
struct Order {
    customer: u64,
    part: u32,
    count: u32,
}

#[derive(Element, Clone, Copy, Debug, Default)]
struct Bench {
    orders: u64,
    /// Its own column group: who writes it does not conflict with who counts orders.
    #[group(keeper)]
    keeper: Option<Text<12>>,
}

/// Each field is an object with a table of its own, `workshop_orders` and so on.
#[derive(Objects)]
struct Workshop {
    orders: TQueue<Order>,
    stock: TMap<u32, i64>,
    benches: TArray<Bench>,
    diary: TVector<(u64, u32)>,
    earned: TCounter,
}

#[derive(Table, Clone, Copy)]
struct Customer {
    #[key]
    id: u64,
    owes: i64,
}

const BENCHES: u64 = 4;
const PRICE: i64 = 3;

/// Takes the next order and does it: all of it, or nothing where the stock does not suffice.
fn work(tx: &mut impl Transaction, bench: u64) -> Result<bool> {
    let Some(order) = Workshop::orders.pop(tx)? else { return Ok(false) };
    let left = Workshop::stock.update(tx, order.part, |left| {
        *left -= i64::from(order.count);
        *left
    })?;
    if left.is_none_or(|left| left < 0) {
        return Err(Error::user(format!("too few of part {}", order.part)));
    }
    let price = PRICE * i64::from(order.count);
    tx.add(Customer::owes, order.customer, price)?;
    Workshop::earned.add(tx, price)?;
    Workshop::benches.update(tx, bench, |bench| bench.orders += 1)?;
    Workshop::diary.push(tx, (order.customer, order.part))?;
    Ok(true)
}

/// How long a queue is: a function for any queue of orders.
fn waiting<O: Object<Shape = TQueue<Order>>>(
    tx: &mut impl Transaction,
    queue: TQueue<Order, O>,
) -> Result<u64> {
    queue.len(tx)
}

fn main() -> Result<()> {
    let db = Database::builder().protocol(Kind::Silo).objects::<Workshop>().table::<Customer>(0).open()?;
    db.session()?.run(|tx| {
        Workshop::benches.grow(tx, BENCHES, Bench::default())?;
        (0..3).try_for_each(|part| Workshop::stock.insert(tx, part, 100).map(drop))?;
        (0..5).try_for_each(|id| tx.upsert(Customer { id, owes: 0 }).map(drop))?;
        Workshop::benches.update(tx, 0, |bench| bench.keeper = Some(Text::truncated("Ada")))
    })?;
    std::thread::scope(|scope| {
        for number in 0..2 {
            let db = &db;
            scope.spawn(move || -> Result<()> {
                let mut session = db.session()?;
                for round in 0..50u64 {
                    let (customer, part) = (round % 5, (round % 3) as u32);
                    session.run(|tx| Workshop::orders.push(tx, Order { customer, part, count: 1 }))?;
                    session.run(|tx| work(tx, number * 2 + round % 2))?;
                }
                Ok(())
            });
        }
    });
    let mut session = db.session()?;
    // As of one moment: objects and tables are read alike.
    session.run(|tx| {
        let done = Workshop::diary.len(tx)?;
        let counted: u64 = Workshop::benches.collect(tx)?.iter().map(|bench| bench.orders).sum();
        let (waiting, earned) = (waiting(tx, Workshop::orders)?, Workshop::earned.get(tx)?);
        let mut left = 0;
        Workshop::stock.for_each(tx, .., |_, count| left += count)?;
        println!("{done} orders done, {waiting} waiting, {left} parts left, {earned} earned");
        assert_eq!((done, counted, waiting), (100, 100, 0));
        assert_eq!((left, earned), (200, 100 * PRICE));
        Ok(())
    })
}
