//! Strings and bytes of any length in keys and indexes: up to so many bytes, and refused beyond. What becomes of them under each
//! protocol is in the conformance suite.

use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::table::dynamic::{ColumnType, TableDefinition, Value};
use heddledb::table::{ColumnValue, Relation};
use heddledb::{
    Builder, Database, Durability, Error, LogError, Migration, Misuse, ReadTransaction, Result, RowScan,
    Scan, Table, Transaction,
};
use std::cmp::Reverse;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, ColumnValue)]
struct City(String);

#[derive(Table, Clone, Debug, PartialEq)]
#[table(
    index(ByCity(city(max = 20))),
    unique(ByToken(token(max = 12))),
    index(ByNick(nick(max = 8), country)),
    index(LastRank(rank(max = 4)))
)]
struct Person {
    #[key]
    country: u8,
    #[key(max = 24)]
    email: String,
    city: City,
    token: Vec<u8>,
    nick: Option<String>,
    rank: Reverse<String>,
    #[group(more)]
    remarks: String,
}

impl Person {
    fn of(country: u8, email: &str) -> Self {
        Self {
            country,
            email: email.to_owned(),
            city: City(format!("city of {}", email.len() % 3)),
            token: [&[country, 0], email.as_bytes()].concat().into_iter().take(12).collect(),
            nick: email.len().is_multiple_of(2).then(|| email.chars().take(4).collect()),
            rank: Reverse(email.chars().rev().take(3).collect()),
            remarks: email.repeat(20),
        }
    }
}

const EMAILS: [&str; 7] = ["", "a", "a\0", "a\0b", "ab", "b", "the-longest-of-all@ex.org"];

fn memory(kind: Kind) -> Builder {
    Database::builder().protocol(kind).sessions(kind.sessions_max().min(4)).table::<Person>(0)
}

fn open(disk: &Simulated) -> Builder {
    Database::builder().durability(Durability::Sync).sessions(2).storage(Arc::new(disk.clone()))
}

#[track_caller]
fn too_long(error: Error, relation: &str, column: &str, bytes: usize, limit: usize) {
    match error.misuse() {
        Some(Misuse::KeyTooLong { relation: r, column: c, bytes: b, limit: l }) => {
            assert_eq!((*r, *c, *b, *l), (relation, column, bytes, limit));
        }
        other => panic!("{other:?}"),
    }
    assert!(!error.ends_transaction());
}

#[test]
fn strings_are_keys() {
    for kind in [Kind::Silo, Kind::Ic3, Kind::Hekaton, Kind::Unprotected] {
        let db = memory(kind).open().unwrap();
        let mut session = db.session().unwrap();
        let mut emails: Vec<&str> = EMAILS.iter().copied().filter(|email| email.len() <= 24).collect();
        session.run(|tx| emails.iter().rev().try_for_each(|email| tx.insert(Person::of(1, email)))).unwrap();
        emails.sort_unstable();
        let rows = session.run(|tx| tx.collect(Scan::<Person>::prefix((1,)))).unwrap();
        assert_eq!(rows, emails.iter().map(|email| Person::of(1, email)).collect::<Vec<_>>());
        for email in &emails {
            let row = session.run(|tx| tx.get::<Person>((1, (*email).into()))).unwrap();
            assert_eq!(row, Some(Person::of(1, email)));
        }
        let between = Scan::<Person>::range((1, "a\0".into())..(1, "b".into()));
        let found = session.run(|tx| tx.collect(between)).unwrap();
        assert_eq!(found.iter().map(|row| &row.email[..]).collect::<Vec<_>>(), ["a\0", "a\0b", "ab"]);

        // Pages, of the table and of an index.
        let (mut scan, mut seen) = (Scan::<Person>::all().limit(2), Vec::new());
        loop {
            let page = session.run(|tx| tx.page(scan)).unwrap();
            seen.extend(page.rows.into_iter().map(|row| row.email));
            let Some(next) = page.next else { break };
            scan = scan.after(next);
        }
        assert_eq!(seen, emails);

        session.run(|tx| tx.update((1, "ab".into()), |row: &mut Person| row.remarks = "new".into())).unwrap();
        let changed =
            session.run(|tx| tx.update::<Person, _>((1, "ab".into()), |row| row.email = "abc".into()));
        assert!(matches!(changed.unwrap_err().misuse(), Some(Misuse::KeyChanged { .. })), "{kind}");
        assert!(session.run(|tx| tx.delete::<Person>((1, "ab".into()))).unwrap());
        assert_eq!(session.run(|tx| tx.get::<Person>((1, "ab".into()))).unwrap(), None);
        assert!(db.check().unwrap().is_whole(), "{kind}");
    }
}

#[test]
fn strings_are_indexed() {
    for kind in [Kind::Silo, Kind::TicToc, Kind::Ic3, Kind::Hekaton, Kind::Unprotected] {
        let db = memory(kind).open().unwrap();
        let mut session = db.session().unwrap();
        session
            .run(|tx| ["a", "bb", "ccc", "dddd"].iter().try_for_each(|email| tx.insert(Person::of(1, email))))
            .unwrap();
        let found = session.run(|tx| tx.find::<ByCity>("city of 2".into())).unwrap();
        assert_eq!(found, Some(Person::of(1, "bb")));
        let found = session.run(|tx| tx.find::<ByNick>((Some("dddd".into()), 1))).unwrap();
        assert_eq!(found, Some(Person::of(1, "dddd")));
        let none = session.run(|tx| tx.collect(Scan::<ByNick>::prefix((None,)))).unwrap();
        assert_eq!(none, [Person::of(1, "a"), Person::of(1, "ccc")]);
        let ranks = session.run(|tx| tx.collect(Scan::<LastRank>::all())).unwrap();
        assert_eq!(ranks.iter().map(|row| &row.rank.0[..]).collect::<Vec<_>>(), ["ddd", "ccc", "bb", "a"]);

        // The old entry is found by the old value, of which the row has no more than a slot.
        let key = || (1, "bb".into());
        session
            .run(|tx| {
                tx.update_columns(key(), Person::city, |city| city.0 = "now it is longer ..".into())?;
                tx.update_columns(key(), Person::city, |city| city.0.truncate(18))?;
                tx.set_columns(key(), (Person::nick, Person::token), (Some("new".into()), b"0\0".to_vec()))
            })
            .unwrap();
        assert_eq!(session.run(|tx| tx.find::<ByCity>("city of 2".into())).unwrap(), None);
        let found = session.run(|tx| tx.find::<ByCity>("now it is longer .".into())).unwrap().unwrap();
        assert_eq!((found.token, found.nick.as_deref()), (b"0\0".to_vec(), Some("new")));
        assert!(session.run(|tx| tx.find::<ByToken>([b'0', 0].into())).unwrap().is_some());
        assert!(session.run(|tx| tx.find::<ByToken>([b'0'].into())).unwrap().is_none());

        let twin = Person { token: b"0\0".to_vec(), ..Person::of(2, "x") };
        let error = session.run(|tx| tx.insert(twin.clone())).unwrap_err();
        assert!(matches!(error.misuse(), Some(Misuse::DuplicateEntry { index: "person.ByToken", .. })));

        session.run(|tx| tx.upsert(Person { email: "bb".into(), ..Person::of(1, "twelve") })).unwrap();
        let city = session.run(|tx| tx.collect(Scan::<ByCity>::prefix(("city of 0".into(),)))).unwrap();
        assert_eq!(city.iter().map(|row| &row.email[..]).collect::<Vec<_>>(), ["bb", "ccc"]);
        assert!(session.run(|tx| tx.delete::<Person>(key())).unwrap());
        assert_eq!(session.run(|tx| tx.collect(Scan::<ByCity>::all())).unwrap().len(), 3);
        let report = db.check().unwrap();
        assert!(report.is_whole(), "{kind}: {report:?}");
    }
}

#[test]
fn what_is_too_long_is_refused_before_anything_is_written() {
    for kind in [Kind::Silo, Kind::Ic3, Kind::Unprotected] {
        let db = memory(kind).open().unwrap();
        let mut session = db.session().unwrap();
        let long = |bytes: usize| "x".repeat(bytes);
        let (there, key) = (Person::of(1, "there"), || (1, "there".into()));
        session
            .run(|tx| {
                tx.insert(there.clone())?;
                let of = |email: usize| Person::of(1, &"y".repeat(email));
                too_long(tx.insert(of(25)).unwrap_err(), "person", "email", 25, 24);
                too_long(tx.upsert(of(26)).unwrap_err(), "person", "email", 26, 24);
                let city = || Person { city: City(long(21)), ..Person::of(1, "new") };
                too_long(tx.insert(city()).unwrap_err(), "person.ByCity", "city", 21, 20);
                too_long(tx.upsert(city()).unwrap_err(), "person.ByCity", "city", 21, 20);
                let error = tx.upsert(Person { nick: Some(long(9)), ..there.clone() }).unwrap_err();
                too_long(error, "person.ByNick", "nick", 9, 8);
                let error = tx.update_columns(key(), Person::token, |token| token.resize(13, 1)).unwrap_err();
                too_long(error, "person.ByToken", "token", 13, 12);
                let error = tx.set_columns(key(), Person::rank, Reverse(long(5))).unwrap_err();
                too_long(error, "person.LastRank", "rank", 5, 4);
                let error = tx.update::<Person, _>(key(), |row| row.email = long(500)).unwrap_err();
                too_long(error, "person", "email", 500, 24);

                let key = || (1, long(25).into());
                too_long(tx.get::<Person>(key()).unwrap_err(), "person", "email", 25, 24);
                too_long(tx.delete::<Person>(key()).unwrap_err(), "person", "email", 25, 24);
                too_long(tx.set_columns(key(), Person::nick, None).unwrap_err(), "person", "email", 25, 24);
                let error = tx.update_columns(key(), Person::nick, |nick| *nick = None).unwrap_err();
                too_long(error, "person", "email", 25, 24);
                for scan in [
                    Scan::<Person>::range(key()..),
                    Scan::<Person>::range(..=key()),
                    Scan::<Person>::prefix((1,)).after(key()),
                ] {
                    too_long(tx.collect(scan).unwrap_err(), "person", "email", 25, 24);
                    too_long(tx.page(scan.limit(1)).unwrap_err(), "person", "email", 25, 24);
                    let columns = tx.scan_columns(scan, Person::nick, |_, _| ());
                    too_long(columns.unwrap_err(), "person", "email", 25, 24);
                }
                let city = long(21);
                let scan = Scan::<ByCity>::prefix((city[..].into(),));
                too_long(tx.scan_index(scan, |_, _| ()).unwrap_err(), "person.ByCity", "city", 21, 20);
                let error = tx.find::<ByCity>(city.into()).unwrap_err();
                too_long(error, "person.ByCity", "city", 21, 20);
                let error = tx.find_key::<ByNick>((Some(long(9).into()), 1)).unwrap_err();
                too_long(error, "person.ByNick", "nick", 9, 8);
                let error = tx.find_key::<ByToken>(vec![0; 13].into()).unwrap_err();
                too_long(error, "person.ByToken", "token", 13, 12);
                Ok(())
            })
            .unwrap();
        assert_eq!(session.run(|tx| tx.collect(Scan::<Person>::all())).unwrap(), [there], "{kind}");
        assert!(db.check().unwrap().is_whole());
    }
}

fn defined() -> &'static TableDefinition {
    TableDefinition::builder("person")
        .key("country", ColumnType::U8)
        .key("email", ColumnType::String)
        .max(24)
        .column("city", ColumnType::String)
        .column("token", ColumnType::ByteString)
        .column("nick", ColumnType::String.optional())
        .column("rank", ColumnType::String.reversed())
        .column("remarks", ColumnType::String)
        .group("more")
        .index("ByCity", [("city", 20)])
        .unique("ByToken", [("token", 12)])
        .index("ByNick", [("nick", 8).into(), heddledb::table::dynamic::IndexColumn::from("country")])
        .index("LastRank", [("rank", 4)])
        .build()
        .unwrap()
}

#[test]
fn tables_of_values_have_the_same_keys() {
    let table = defined();
    assert!(std::ptr::eq(TableDefinition::of::<Person>().unwrap(), table));
    assert_eq!(table.relation().schema(), Person::SCHEMA);
    assert!(Person::SCHEMA.ends_with("; key country, email(max=24); ordered"), "{}", Person::SCHEMA);
    assert!(ByNick::SCHEMA.starts_with("index over nick(max=8), country; country: u8,"));

    let db = memory(Kind::Silo).open().unwrap();
    let people = db.define(table, 0).unwrap();
    let mut session = db.session().unwrap();
    let ada = Person::of(1, "ada");
    session.run(|tx| tx.insert(ada.clone())).unwrap();
    let row = |country: u8, email: &str, city: &str, token: &[u8]| -> Vec<Value> {
        vec![
            country.into(),
            email.into(),
            city.into(),
            token.into(),
            Value::Null,
            "r".into(),
            "remark ".repeat(9).into(),
        ]
    };
    session
        .run(|tx| {
            let mut rows = tx.rows(&people)?;
            rows.insert(&row(1, "b\0", "London", b"1"))?;
            rows.update(&[1u8.into(), "ada".into()], |row| row.set("city", "a longer city"))?;
            let x = |bytes: usize| Value::from("x".repeat(bytes));
            let long = |bytes: usize| [Value::from(1u8), x(bytes)];
            too_long(rows.get(&long(25)).unwrap_err(), "person", "email", 25, 24);
            too_long(rows.delete(&long(25)).unwrap_err(), "person", "email", 25, 24);
            too_long(rows.insert(&row(1, &"x".repeat(30), "", b"2")).unwrap_err(), "person", "email", 30, 24);
            too_long(
                rows.insert(&row(1, "c", &"x".repeat(30), b"2")).unwrap_err(),
                "person.ByCity",
                "city",
                30,
                20,
            );
            let error = rows.update(&[1u8.into(), "ada".into()], |row| row.set("nick", "x".repeat(9)));
            too_long(error.unwrap_err(), "person.ByNick", "nick", 9, 8);
            too_long(rows.find("ByCity", &[x(21)]).unwrap_err(), "person.ByCity", "city", 21, 20);
            too_long(rows.collect(RowScan::prefix(&long(25))).unwrap_err(), "person", "email", 25, 24);
            let scan = RowScan::all().by("ByCity").limit(1);
            assert_eq!(rows.page(scan)?.next, Some(vec!["London".into(), 1u8.into(), "b\0".into()]));
            Ok(())
        })
        .unwrap();
    let found = session.run(|tx| tx.find::<ByCity>("a longer city".into())).unwrap();
    assert_eq!(found, Some(Person { city: City("a longer city".into()), ..ada }));
    assert_eq!(session.run(|tx| tx.find::<ByCity>("London".into())).unwrap().unwrap().email, "b\0");
    assert!(session.run(|tx| tx.rows(&people)?.delete(&[1u8.into(), "b\0".into()])).unwrap());
    assert!(session.run(|tx| tx.find::<ByCity>("London".into())).unwrap().is_none());
    assert!(db.check().unwrap().is_whole());
}

#[test]
fn definitions_state_lengths() {
    let why = |builder: heddledb::table::dynamic::TableBuilder| builder.build().unwrap_err().to_string();
    let table = || TableDefinition::builder("t");
    let told = why(table().key("name", ColumnType::String));
    assert!(
        told.contains("state how many bytes it may have, with `.max(40)` behind `.key(\"name\", ..)`"),
        "{told}"
    );
    let told = why(table().key("id", ColumnType::U8).column("a", ColumnType::ByteString).index("A", ["a"]));
    assert!(told.contains("with `(\"a\", 40)` for `\"a\"`"), "{told}");
    let told = why(table().key("id", ColumnType::U8).max(3));
    assert!(told.contains("column `id` takes no `max` in the key"), "{told}");
    for max in [0, 255, usize::MAX] {
        let told = why(table().key("name", ColumnType::String).max(max));
        assert!(told.contains("state 1 to 254"), "{told}");
    }
    let told = why(table().key("name", ColumnType::String).max(64));
    assert!(told.contains("the key has at most 64 bytes, and this has 65"), "{told}");
    let told = why(table().column("a", ColumnType::String).max(4));
    assert!(told.contains("a `max` is of the part of the key"), "{told}");
    let told = why(table().key("a", ColumnType::String).max(4).max(5));
    assert!(told.contains("has a `max` already"), "{told}");
    // A part of the key has in an index the room that it has there.
    let twice =
        table().key("a", ColumnType::String).max(4).column("b", ColumnType::U8).index("B", ["b", "a"]);
    assert!(
        twice
            .build()
            .unwrap()
            .index("B")
            .unwrap()
            .relation()
            .schema()
            .starts_with("index over b, a(max=4); ")
    );
}

mod before {
    #[derive(heddledb::Table, Clone)]
    #[table(name = "person")]
    pub struct Plain {
        #[key]
        pub id: u32,
        pub name: String,
    }

    #[derive(heddledb::Table, Clone)]
    #[table(name = "person", index(ByName(name(max = 20))))]
    pub struct Indexed {
        #[key]
        pub id: u32,
        pub name: String,
    }

    pub mod longer {
        #[derive(heddledb::Table, Clone)]
        #[table(name = "person", index(ByName(name(max = 30))))]
        pub struct Longer {
            #[key]
            pub id: u32,
            pub name: String,
        }
    }
}

#[test]
fn an_index_is_built_of_strings_or_the_row_is_named() {
    use before::longer::{ByName, Longer};
    use before::{Indexed, Plain};
    let disk = Simulated::new();
    let name = |id: u32| "n".repeat(id as usize);
    let db = open(&disk).table::<Plain>(0).open().unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| (10..26).try_for_each(|id| tx.insert(Plain { id, name: name(id) }))).unwrap();
    drop((session, db));
    let refused = open(&disk).recovery_threads(2).table::<Indexed>(0).open().err().unwrap();
    let Error::Open(refused) = refused else { panic!("{refused}") };
    let LogError::KeyTooLong(told) = *refused else { panic!("{refused}") };
    assert_eq!((&told.row[..], told.column, told.bytes, told.limit), ("21", "name", 21, 20));
    assert!(
        told.to_string().contains(
            "row 21 of person has 21 bytes in name, and person.ByName, which is new, has room for 20"
        )
    );

    let db = open(&disk).table::<Longer>(0).open().unwrap();
    let mut session = db.session().unwrap();
    let found = session.run(|tx| tx.find::<ByName>(name(25).into())).unwrap().unwrap();
    assert_eq!((found.id, found.name), (25, name(25)));
    assert!(db.check().unwrap().is_whole());
    session.run(|tx| (21..26).try_for_each(|id| tx.delete::<Longer>(id).map(|_| ()))).unwrap();
    drop((session, db));
    // Another `max` is another index, which is built anew; and again when it is there, after a checkpoint.
    for _ in 0..2 {
        let db = open(&disk).table::<Indexed>(0).open().unwrap();
        let report = db.check().unwrap();
        assert!(report.is_whole() && report.indexes[0].entries == 11, "{report:?}");
        db.checkpoint().unwrap();
    }
}

mod stored {
    #[derive(heddledb::Table, Clone)]
    #[table(name = "person", index(ByCity(city)))]
    pub struct Texts {
        #[key]
        pub name: heddledb::Text<12>,
        pub city: heddledb::Text<20>,
    }
}

mod declared {
    #[derive(heddledb::Table, Clone, Debug, PartialEq)]
    #[table(name = "person", index(ByCity(city(max = 20))))]
    pub struct Strings {
        #[key(max = 12)]
        pub name: String,
        pub city: String,
    }

    #[derive(heddledb::Table, Clone, Debug, PartialEq)]
    #[table(name = "person", index(ByCity2(city(max = 20))))]
    pub struct Shorter {
        #[key(max = 4)]
        pub name: String,
        pub city: String,
    }
}

#[test]
fn texts_in_keys_become_strings() {
    use declared::{ByCity, Shorter, Strings};
    let disk = Simulated::new();
    let db = open(&disk).table::<stored::Texts>(0).open().unwrap();
    let text = |text: &str| heddledb::Text::truncated(text);
    db.session()
        .unwrap()
        .run(|tx| {
            ["Ada", "Grace", "Barbara"].iter().try_for_each(|name| {
                tx.insert(stored::Texts {
                    name: text(name),
                    city: heddledb::Text::truncated("a city of long name"),
                })
            })
        })
        .unwrap();
    drop(db);
    let builder = || open(&disk).table::<Strings>(0).migrate(Migration::new());
    let change = builder().schema_change().unwrap();
    assert!(change.is_complete() && !change.is_empty(), "{change}");
    let db = builder().open().unwrap();
    let mut session = db.session().unwrap();
    let row = session.run(|tx| tx.get::<Strings>("Grace".into())).unwrap().unwrap();
    assert_eq!(row.city, "a city of long name");
    let all = session.run(|tx| tx.collect(Scan::<ByCity>::prefix(("a city of long name".into(),)))).unwrap();
    assert_eq!(all.iter().map(|row| &row.name[..]).collect::<Vec<_>>(), ["Ada", "Barbara", "Grace"]);
    assert!(db.check().unwrap().is_whole());
    drop((session, db));

    // A key with less room: only as long as all rows fit.
    let builder = || open(&disk).table::<Shorter>(0).migrate(Migration::new());
    let told = builder().schema_change().unwrap().to_string();
    assert!(told.contains("the key becomes name(max=4), of name(max=12)"), "{told}");
    let error = builder().open().err().unwrap().to_string();
    assert!(
        error
            .contains("row Barbara: column name is given 7 bytes, of which the key of person has room for 4"),
        "{error}"
    );
    let db = open(&disk).table::<Strings>(0).open().unwrap();
    let mut session = db.session().unwrap();
    session
        .run(|tx| {
            tx.delete::<Strings>("Grace".into())?;
            tx.delete::<Strings>("Barbara".into())
        })
        .unwrap();
    drop((session, db));
    let db = builder().open().unwrap();
    let all: Result<Vec<Shorter>> = db.session().unwrap().run(|tx| tx.collect(Scan::<Shorter>::all()));
    assert_eq!(all.unwrap()[0].name, "Ada");
}
