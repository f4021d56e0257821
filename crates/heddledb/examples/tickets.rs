//! A ticket shop through three versions of its program: sold from four threads, copied while it sells, changed, checked.
//!
//! `cargo run -p heddledb --features jiff --example tickets` works in a directory of its own, and leaves nothing behind.

use heddledb::table::{ColumnValue, Key};
use heddledb::{
    Backup, Builder, Database, Durability, Error, Migration, ReadTransaction, Result, Scan, Session, Table,
    Text, Transaction,
};
use jiff::{SignedDuration, Timestamp};
use std::path::Path;
use std::thread;

/// The number of an event: no other number can be taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ColumnValue, Key)]
pub struct EventId(u32);

/// The number of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ColumnValue, Key)]
pub struct OrderId(u64);

/// What a seat is. Further states may be added in a later version.
#[derive(Clone, Copy, Debug, PartialEq, ColumnValue, Key)]
enum Status {
    Free,
    Held,
    Sold,
}

#[derive(Table, Clone)]
struct Event {
    #[key]
    id: EventId,
    name: String,
    begins: Timestamp,
    #[group(sales)] // changes with every order, and the rest hardly ever
    left: u64,
    #[group(sales)]
    takings: i64,
}

#[derive(Table, Clone, Copy)]
#[table(index(ByStatus(event, status)))]
struct Seat {
    #[key]
    event: EventId,
    #[key]
    number: u16,
    #[group(state)]
    status: Status,
    #[group(state)]
    order: Option<OrderId>,
    #[group(state)]
    held_until: Option<Timestamp>,
}

/// Who waits, in the order in which they came.
#[derive(Table, Clone, Copy)]
struct Waiting {
    #[key]
    event: EventId,
    #[key]
    since: Timestamp,
    #[key]
    order: OrderId,
}

/// An order, as the first version has it.
mod first {
    #[derive(heddledb::Table, Clone, Copy)]
    pub struct Order {
        #[key]
        pub id: super::OrderId,
        pub event: super::EventId,
        pub at: jiff::Timestamp,
        pub remark: heddledb::Text<80>,
    }
}

/// In the second, orders say who bought, and a remark may be of any length.
mod second {
    #[derive(heddledb::Table, Clone)]
    pub struct Order {
        #[key]
        pub id: super::OrderId,
        pub buyer: heddledb::Text<24>,
        pub event: super::EventId,
        pub at: jiff::Timestamp,
        pub remark: String,
    }
}

/// In the third, the orders of a buyer are found.
#[derive(Table, Clone)]
#[table(index(ByBuyer(buyer, at)))]
struct Order {
    #[key]
    id: OrderId,
    buyer: Text<24>,
    event: EventId,
    at: Timestamp,
    remark: String,
}

/// What the directory of any earlier version needs to be told; a program keeps it.
fn migration() -> Migration {
    Migration::new().set_with("order", "buyer", |order| {
        // The first version wrote it into the remark.
        let remark: &str = order.get("remark")?;
        Ok(remark.split(':').next().unwrap_or_default().into())
    })
}

fn open(path: &Path, said: Migration, orders: impl FnOnce(Builder) -> Builder) -> Result<Database> {
    let builder = Database::builder().path(path).durability(Durability::Epoch).migrate(said);
    let builder = orders(builder.table::<Event>(1).table::<Seat>(0).table::<Waiting>(0));
    for change in &builder.schema_change()?.tables {
        println!("  {}: {}", change.table, change.steps.join(", "));
    }
    builder.open()
}

const EVENT: EventId = EventId(7);
const SEATS: u16 = 2_000;
const PRICE: i64 = 45_00;

/// Holds the first seat that is free, or that nobody paid for in time; nothing if there is none.
fn hold(tx: &mut impl Transaction, now: Timestamp) -> Result<Option<u16>> {
    let seat = match tx.first(Scan::<ByStatus>::prefix((EVENT, Status::Free)))? {
        Some(seat) => Some(seat),
        None => {
            let held = tx.collect(Scan::<ByStatus>::prefix((EVENT, Status::Held)))?;
            held.into_iter().find(|seat| seat.held_until < Some(now))
        }
    };
    let Some(seat) = seat else { return Ok(None) };
    let until = now + SignedDuration::from_mins(10);
    let columns = (Seat::status, Seat::order, Seat::held_until);
    tx.set_columns((EVENT, seat.number), columns, (Status::Held, None, Some(until)))?;
    Ok(Some(seat.number))
}

/// Sells a seat that is held.
fn sell(tx: &mut impl Transaction, seat: u16, order: Order) -> Result<()> {
    let columns = (Seat::status, Seat::order, Seat::held_until);
    tx.set_columns((EVENT, seat), columns, (Status::Sold, Some(order.id), None))?;
    tx.update_columns(EVENT, Event::left, |left| *left -= 1)?;
    tx.add(Event::takings, EVENT, PRICE)?;
    tx.insert(order)
}

/// Takes a sold seat back, and sells it to who has waited longest.
fn pass_on(tx: &mut impl Transaction, seat: u16) -> Result<()> {
    let order = tx.get_columns((EVENT, seat), Seat::order)?.flatten();
    let next = tx.first(Scan::<Waiting>::prefix((EVENT,)))?;
    let (Some(order), Some(Waiting { order: id, since: at, .. })) = (order, next) else { return Ok(()) };
    tx.delete::<Order>(order)?;
    tx.delete::<Waiting>((EVENT, at, id))?;
    tx.add(Event::left, EVENT, 1)?;
    tx.add(Event::takings, EVENT, -PRICE)?;
    let (buyer, remark) = (Text::new("Donald")?, "waited".to_owned());
    sell(tx, seat, Order { id, buyer, event: EVENT, at, remark })
}

/// Sells until there is nothing left; who comes too late waits.
fn shop(session: &mut Session, clerk: u64) -> Result<()> {
    for number in 0.. {
        let (now, id) = (Timestamp::now(), OrderId(1_000_000 * (clerk + 1) + number));
        let Some(seat) = session.run(|tx| hold(tx, now))? else {
            session.run(|tx| tx.insert(Waiting { event: EVENT, since: now, order: id }))?;
            return Ok(());
        };
        let buyer = Text::new(["Ada", "Grace", "Edsger"][number as usize % 3])?;
        let order = Order { id, buyer, event: EVENT, at: now, remark: "aisle, please".to_owned() };
        session.run(|tx| sell(tx, seat, order.clone()))?;
    }
    Ok(())
}

/// What must hold in the shop, and in every copy of it. Returns how many seats are sold.
fn balanced(db: &Database) -> Result<usize> {
    let mut now = db.snapshot()?;
    let event = now.get::<Event>(EVENT)?.ok_or_else(|| Error::user("the event is gone"))?;
    let sold = now.collect(Scan::<ByStatus>::prefix((EVENT, Status::Sold)))?;
    let orders = now.collect(Scan::<Order>::all())?;
    assert_eq!(orders.len(), sold.len());
    assert_eq!(event.left, u64::from(SEATS) - sold.len() as u64);
    assert_eq!(event.takings, sold.len() as i64 * PRICE);
    assert!(sold.iter().all(|seat| orders.iter().any(|order| Some(order.id) == seat.order)));
    assert!(db.check()?.is_whole());
    Ok(sold.len())
}

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("heddledb-tickets-{}", std::process::id()));
    std::fs::create_dir(&folder).map_err(Error::user)?;
    let (path, copies) = (folder.join("shop"), [folder.join("at noon"), folder.join("at closing")]);

    println!("version 1 sells three seats");
    let db = open(&path, Migration::new(), |builder| builder.table::<first::Order>(0))?;
    let mut session = db.session()?;
    let begins: Timestamp = "2030-05-04T19:30:00Z".parse().map_err(Error::user)?;
    session.run(|tx| {
        let (name, left) = ("The Weavers, Act II".to_owned(), u64::from(SEATS) - 3);
        tx.insert(Event { id: EVENT, name, begins, left, takings: 3 * PRICE })?;
        for number in 0..SEATS {
            let order = (number < 3).then_some(OrderId(number.into()));
            let status = if order.is_some() { Status::Sold } else { Status::Free };
            tx.insert(Seat { event: EVENT, number, status, order, held_until: None })?;
        }
        for id in (0..3).map(OrderId) {
            let remark = Text::new("Barbara: by the door")?;
            tx.insert(first::Order { id, event: EVENT, at: Timestamp::now(), remark })?;
        }
        Ok(())
    })?;
    drop((session, db));

    println!("version 2 knows the buyers");
    drop(open(&path, migration(), |builder| builder.table::<second::Order>(0))?);

    println!("version 3 finds their orders, and sells from four threads");
    let db = open(&path, migration(), |builder| builder.table::<Order>(0))?;
    thread::scope(|scope| -> Result<()> {
        let db = &db;
        let clerks = [0, 1, 2, 3].map(|clerk| scope.spawn(move || shop(&mut db.session()?, clerk)));
        let report = db.backup(Backup::to(&copies[0]).bytes_per_second(64 << 20))?;
        println!("  copied beside them: {report}");
        for clerk in clerks {
            clerk.join().expect("nobody panics")?;
        }
        Ok(())
    })?;
    db.session()?.run(|tx| pass_on(tx, 1))?;
    let sold = balanced(&db)?;
    let of = |name| db.session()?.run(|tx| tx.collect(Scan::<ByBuyer>::prefix((Text::new(name)?,))));
    let [barbara, donald] = [of("Barbara")?.len(), of("Donald")?.len()];
    println!("  {sold} seats are sold, {barbara} of them to Barbara, {donald} to Donald, who waited");
    assert_eq!((sold, barbara, donald), (usize::from(SEATS), 2, 1));
    db.backup(&copies[1])?;
    drop(db);

    println!("everything opens again");
    for place in [&path, &copies[0], &copies[1]] {
        let db = open(place, migration(), |builder| builder.table::<Order>(0))?;
        println!("  {}: {} seats sold", place.file_name().unwrap_or_default().display(), balanced(&db)?);
    }
    std::fs::remove_dir_all(&folder).map_err(Error::user)
}
