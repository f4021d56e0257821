//! Transactional objects: what they are as tables, what they answer, and that they are there again.

use heddledb::objects::{Element, Object, Row, TArray, TBox, TCounter, TList, TMap, TQueue, TVector};
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::table::Relation;
use heddledb::table::dynamic::TableDefinition;
use heddledb::{Database, Deferring, Durability, Error, Misuse, ObjectMisuse, Objects};
use heddledb::{Session, Table, Text, Transaction};
use std::sync::Arc;

#[derive(Element, Clone, Copy, Debug, Default, PartialEq)]
struct Seat {
    buyer: u64,
    row: u8,
    #[group(money)]
    price: Option<i32>,
}

#[derive(Element, Clone, Debug, Default, PartialEq)]
struct Note {
    text: String,
    at: u32,
}

#[derive(Objects)]
struct Shop {
    hits: TBox<u64>,
    motto: TBox<Note>,
    visits: TCounter,
    seats: TArray<Seat>,
    log: TVector<Note>,
    stock: TMap<(u16, Text<4>), Seat>,
    #[hash]
    fast: TMap<u32, f64>,
    jobs: TQueue<(u64, bool)>,
    names: TList<Seat>,
}

/// A struct whose objects have the same fields is another.
#[derive(Objects)]
#[objects(name = "other")]
struct Elsewhere {
    hits: TBox<u64>,
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

fn schema<O: Object>() -> (&'static str, &'static str) {
    (Row::<O>::LAYOUT.name, Row::<O>::SCHEMA)
}

/// A schema is what a derived table with these columns has.
#[test]
fn an_object_is_a_table() {
    #[derive(Table, Clone, Copy)]
    #[table(name = "shop_seats", hash)]
    struct Twin {
        #[key]
        index: u64,
        buyer: u64,
        row: u8,
        #[group(money)]
        price: Option<i32>,
    }
    assert_eq!(schema::<ShopSeats>(), ("shop_seats", Twin::SCHEMA));
    assert_eq!((Row::<ShopSeats>::LAYOUT, Row::<ShopSeats>::KEY_COLUMNS), (Twin::LAYOUT, Twin::KEY_COLUMNS));
    assert_eq!(Row::<ShopSeats>::COLUMN_GROUPS, Twin::COLUMN_GROUPS);
    assert_eq!(
        schema::<ShopStock>(),
        (
            "shop_stock",
            "key_1: u16, key_2: Text<4>, buyer: u64, row: u8, money.price: Option<i32>; key key_1, key_2; ordered"
        )
    );
    assert_eq!(schema::<ShopHits>(), ("shop_hits", "id: u8, value: u64; key id; hash"));
    assert_eq!(schema::<ElsewhereHits>(), ("other_hits", "id: u8, value: u64; key id; hash"));
    assert_eq!(schema::<ShopFast>().1, "key: u32, value: f64; key key; hash");
    assert_eq!(schema::<ShopJobs>().1, "number: u64, first: u64, second: bool; key number; hash");
    assert_eq!(
        schema::<ShopNames>().1,
        "number: u64, links.previous: u64, links.next: u64, buyer: u64, row: u8, money.price: Option<i32>; key number; hash"
    );
    let tables: Vec<&str> = Shop::tables().iter().map(|table| table.name()).collect();
    let names = "hits motto visits seats seats_head log log_head stock fast jobs jobs_head names names_head";
    assert!(tables.iter().copied().eq(names.split(' ').map(|name| format!("shop_{name}"))), "{tables:?}");
    assert_eq!(format!("{:?}", Shop::jobs), "TQueue(shop_jobs)");
}

/// Does something with every object, `round` after `round`, beside a table.
fn work(session: &mut Session, round: u64) {
    let seat = |buyer| Seat { buyer, row: 3, price: Some(-4) };
    let note = |at| Note { text: "a note that is longer than its row has room for".repeat(at as usize), at };
    session
        .run(|tx| {
            Shop::hits.update(tx, |hits| *hits += 1)?;
            Shop::motto.set(tx, note(round as u32 + 1))?;
            Shop::visits.add(tx, 2)?;
            Shop::seats.grow(tx, 5 * (round + 1), Seat::default())?;
            Shop::seats.set(tx, 5 * round + 1, seat(round))?;
            Shop::log.push(tx, note(1))?;
            Shop::log.push(tx, note(2))?;
            Shop::log.pop(tx)?;
            Shop::stock.insert(tx, (round as u16, Text::truncated("a")), seat(7))?;
            Shop::stock.insert(tx, (round as u16, Text::truncated("b")), seat(8))?;
            Shop::stock.remove(tx, (round as u16, Text::truncated("a")))?;
            Shop::fast.insert(tx, 1, round as f64)?;
            Shop::jobs.push(tx, (round, true))?;
            Shop::jobs.push(tx, (round, false))?;
            Shop::jobs.pop(tx)?;
            let front = Shop::names.push_front(tx, seat(round))?;
            Shop::names.insert_after(tx, front, seat(round + 100))?;
            let last = Shop::names.push_back(tx, seat(50))?;
            Shop::names.remove(tx, last)?;
            Elsewhere::hits.set(tx, round)?;
            tx.upsert(Account { id: round, balance: 5 })?;
            Ok(())
        })
        .unwrap();
    session
        .defer(|tx| {
            let hits = Shop::hits.update_later(tx, (), |hits, ()| *hits += 10)?;
            Shop::visits.add_later(tx, 1)?;
            let seen = Shop::fast.look(tx, 1)?;
            Shop::fast.insert_later(tx, 2, seen, |seen| seen.unwrap_or(0.0) + 0.5)?;
            Shop::seats.update_later(tx, 0, (), |seat, ()| seat.row += 1)?;
            tx.defer(round, Account::balance, (), |balance, ()| *balance += 1)?;
            Ok(hits)
        })
        .unwrap()
        .expect("the box was made");
}

/// What the objects hold after so many rounds.
fn check(session: &mut Session, rounds: u64) {
    session
        .read(|tx| {
            assert_eq!(Shop::hits.get(tx)?, 11 * rounds);
            assert_eq!(Shop::motto.get(tx)?.at, rounds as u32);
            assert_eq!(Shop::visits.get(tx)?, 3 * rounds as i64);
            assert_eq!(Shop::seats.len(tx)?, 5 * rounds);
            let seats = Shop::seats.collect(tx)?;
            assert!((0..rounds).all(|round| seats[5 * round as usize + 1].buyer == round), "{seats:?}");
            assert_eq!(seats[0].row, rounds as u8);
            let log = Shop::log.collect(tx)?;
            assert!(log.len() == rounds as usize && log.iter().all(|note| note.at == 1), "{log:?}");
            let mut entries = 0;
            Shop::stock.for_each_of(tx, (0u16,), |(round, name), seat| {
                assert_eq!((round, name.as_str(), seat.buyer), (0, "b", 8));
                entries += 1;
            })?;
            assert_eq!((entries, Shop::stock.len(tx)?), (1, rounds));
            let last = rounds as f64 - 1.0;
            assert_eq!((Shop::fast.get(tx, 1)?, Shop::fast.get(tx, 2)?), (Some(last), Some(last + 0.5)));
            let jobs = Shop::jobs.collect(tx)?;
            let pushed: Vec<_> = (0..rounds).flat_map(|round| [(round, true), (round, false)]).collect();
            assert_eq!(jobs, pushed[rounds as usize..]);
            let names: Vec<u64> = Shop::names.collect(tx)?.iter().map(|seat| seat.buyer).collect();
            let listed: Vec<_> = (0..rounds).rev().flat_map(|round| [round, round + 100]).collect();
            assert_eq!(names, listed);
            assert_eq!(Elsewhere::hits.get(tx)?, rounds - 1);
            Ok(())
        })
        .unwrap();
}

/// Objects are as they were after a power cut, under another protocol, checkpoint or not, and are not made anew.
#[test]
fn objects_are_there_again() {
    let mut storage = Simulated::new();
    let kinds = [Kind::Silo, Kind::Drp, Kind::TicToc, Kind::WaitDie, Kind::Hekaton, Kind::Ic3];
    for (round, kind) in kinds.into_iter().enumerate() {
        let builder = Database::builder().protocol(kind).durability(Durability::Sync).manual_epochs();
        let builder = builder.objects::<Shop>().objects::<Elsewhere>().table::<Account>(0);
        let db = builder.storage(Arc::new(storage.clone())).open().unwrap();
        let mut session = db.session().unwrap();
        if round > 0 {
            session.run(|tx| Shop::hits.update(tx, |_| ())).unwrap();
            check(&mut session, round as u64);
        }
        work(&mut session, round as u64);
        db.flush().unwrap();
        if round % 2 == 1 {
            db.checkpoint().unwrap();
        }
        let report = db.check().unwrap();
        assert!(report.is_whole(), "{report}");
        drop((session, db));
        storage = storage.after_power_cut(round as u64);
    }
}

/// Tables defined at run time are the same tables.
#[test]
fn values_by_name_see_them() {
    let db = Database::builder().objects::<Shop>().objects::<Elsewhere>().open().unwrap();
    let mut session = db.session().unwrap();
    work(&mut session, 0);
    let seats = db.define(TableDefinition::of::<Row<ShopSeats>>().unwrap(), 0).unwrap();
    let row = session.run(|tx| tx.rows(&seats)?.get(&[1u64.into()])).unwrap().unwrap();
    assert_eq!(row["row"], 3u8.into());
    session.run(|tx| tx.rows(&seats)?.update(&[1u64.into()], |row| row.set("buyer", 77u64))).unwrap();
    assert_eq!(session.run(|tx| Shop::seats.get(tx, 1)).unwrap().buyer, 77);
}

#[test]
fn what_cannot_be_met_is_told() {
    let told = |result: Result<(), Error>| match result {
        Err(Error::Misuse(misuse)) => *misuse,
        other => panic!("{other:?}"),
    };
    let db = Database::in_memory();
    let mut session = db.session().unwrap();
    let not_made = |object| Misuse::Object(ObjectMisuse::NotMade { object });
    assert_eq!(told(session.run(|tx| Shop::hits.get(tx).map(drop))), not_made("shop_hits"));
    assert_eq!(told(session.run(|tx| Shop::hits.set(tx, 1))), not_made("shop_hits"));
    assert_eq!(told(session.run(|tx| Shop::visits.add(tx, 1))), not_made("shop_visits"));
    assert_eq!(told(session.run(|tx| Shop::jobs.push(tx, (1, true)))), not_made("shop_jobs"));
    let push_later = session.defer(|tx| Shop::jobs.push_later(tx, (), |()| (1, true)));
    assert_eq!(told(push_later), not_made("shop_jobs"));
    assert_eq!(told(session.run(|tx| Shop::jobs.pop(tx).map(drop))), not_made("shop_jobs"));
    assert_eq!(told(session.run(|tx| Shop::seats.get(tx, 0).map(drop))), not_made("shop_seats"));
    assert_eq!(session.defer(|tx| Shop::hits.look(tx)).unwrap(), None);
    db.make_objects::<Shop>().unwrap();
    db.make_objects::<Shop>().unwrap();
    session.run(|tx| Shop::seats.grow(tx, 3, Seat::default())).unwrap();
    // The transaction goes on after each.
    session
        .run(|tx| {
            let beyond = Misuse::Object(ObjectMisuse::OutOfBounds { object: "shop_seats", index: 3, len: 3 });
            assert_eq!(told(Shop::seats.get(tx, 3).map(drop)), beyond);
            assert_eq!(told(Shop::seats.set(tx, 3, Seat::default())), beyond);
            assert_eq!(told(Shop::seats.update(tx, 3, |_| ())), beyond);
            let none = Misuse::Object(ObjectMisuse::NoElement { object: "shop_names", number: 9 });
            assert_eq!(told(Shop::names.insert_after(tx, 9, Seat::default()).map(drop)), none);
            assert_eq!(told(Shop::names.set(tx, 9, Seat::default())), none);
            assert_eq!((Shop::jobs.pop(tx)?, Shop::jobs.peek(tx)?, Shop::log.pop(tx)?), (None, None, None));
            assert_eq!((Shop::names.remove(tx, 9)?, Shop::names.first(tx)?), (None, None));
            assert_eq!((Shop::fast.get(tx, 1)?, Shop::fast.remove(tx, 1)?), (None, None));
            assert_eq!(Shop::fast.update(tx, 1, |_| ())?, None);
            let long = Note { text: "x".repeat(17 << 20), at: 0 };
            assert!(matches!(told(Shop::motto.set(tx, long.clone())), Misuse::ValueTooLong { .. }));
            assert!(matches!(told(Shop::log.push(tx, long).map(drop)), Misuse::ValueTooLong { .. }));
            Shop::hits.set(tx, 4)
        })
        .unwrap();
    assert!(matches!(told(session.run(|tx| Shop::fast.len(tx).map(drop))), Misuse::NotOrdered { .. }));
    let seen = session.defer(|tx| Ok((Shop::seats.look(tx, 3)?, Shop::seats.look(tx, 2)?))).unwrap();
    assert_eq!(seen, (None, Some(Seat::default())));
    assert_eq!(session.run(|tx| Shop::hits.get(tx)).unwrap(), 4);
}
