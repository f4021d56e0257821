//! Indexes that come and go, of tables by type and by definition.

use crate::{
    builder, changed, contents, due, entries, hashed, indexed, mail, open_indexed, person, plain,
    without_indexes,
};
use heddledb::internals::log::Manifest;
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::table::dynamic::{ColumnType, TableBuilder, TableDefinition, Value};
use heddledb::{Database, Error, LogError, Misuse, ReadTransaction, RowScan, Transaction};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

#[test]
fn an_index_that_is_added_where_nothing_may_be_written_is_built_in_memory() {
    let disk = Simulated::new();
    let open = |disk: &Simulated| Database::builder().storage(Arc::new(disk.clone()));
    let db = open(&disk).table::<plain::Person>(0).open().unwrap();
    for id in 0..10 {
        let person =
            plain::Person { id, mail: heddledb::Text::truncated(&format!("{id}@x")), city: 7, visits: 0 };
        db.session().unwrap().run(|tx| tx.insert(person)).unwrap();
    }
    drop(db);
    let left = disk.after_kill();
    for _ in 0..2 {
        let db = open(&left).table::<indexed::Person>(0).read_only(true).open().unwrap();
        assert_eq!(db.recovery().unwrap().indexes.len(), 2, "both are built");
        let found = |tx: &mut heddledb::Txn| tx.find::<indexed::ByMail>(heddledb::Text::truncated("3@x"));
        assert_eq!(db.session().unwrap().run(found).unwrap().unwrap().id, 3);
        assert!(db.check().unwrap().is_whole());
    }
    assert_eq!(left.writes(), 0);
}

#[test]
fn an_added_index_has_an_entry_for_each_row() {
    let disk = without_indexes(10);
    let db = open_indexed(&disk);
    assert_eq!(entries(&db), due(0..10));
    let mut session = db.session().unwrap();
    let found = session.run(|tx| tx.find::<indexed::ByMail>(mail(4))).unwrap();
    assert_eq!(found.map(|row| row.id), Some(4));
    let twin = indexed::Person { id: 90, mail: mail(4), city: 0, visits: 0 };
    let error = session.run(|tx| tx.insert(twin)).unwrap_err();
    assert!(
        matches!(&error, Error::Misuse(misuse) if matches!(**misuse, Misuse::DuplicateEntry { .. })),
        "{error}"
    );
    drop((session, db));
    let db = open_indexed(&disk);
    assert_eq!(entries(&db), due(0..10), "opened again");
    assert!(db.recovery().unwrap().indexes.is_empty(), "it is built once");
}

#[test]
fn an_added_index_is_built_under_every_protocol_from_a_log_and_from_a_checkpoint() {
    for kind in Kind::ALL.iter().copied() {
        let disk = Simulated::new();
        let plain = || builder(&disk).protocol(kind).table::<plain::Person>(0).open().unwrap();
        let db = plain();
        let mut session = db.session().unwrap();
        (0..300).for_each(|id| session.run(|tx| tx.insert(person(id))).unwrap());
        db.checkpoint().unwrap();
        // What the log says of rows of the checkpoint, and of new ones.
        (300..400).for_each(|id| session.run(|tx| tx.insert(person(id))).unwrap());
        (0..50).for_each(|id| assert!(session.run(|tx| tx.delete::<plain::Person>(id)).unwrap()));
        session.run(|tx| tx.set_columns(60, plain::Person::city, 6)).unwrap();
        session.run(|tx| tx.set_columns(60, plain::Person::city, 4)).unwrap();
        drop((session, db));
        let db =
            builder(&disk).protocol(kind).recovery_threads(3).table::<indexed::Person>(0).open().unwrap();
        assert_eq!(entries(&db), due(50..400), "{kind}");
        let report = db.check().unwrap();
        assert!(report.is_whole(), "{report}");
        // It is kept from then on, over a crash too.
        let mut session = db.session().unwrap();
        session.run(|tx| tx.delete::<indexed::Person>(70)).unwrap();
        session.run(|tx| tx.set_columns(71, indexed::Person::mail, mail(70))).unwrap();
        db.flush().unwrap();
        let cut = disk.after_power_cut(1);
        let db = builder(&cut).protocol(kind).table::<indexed::Person>(0).open().unwrap();
        let found = db.session().unwrap().run(|tx| tx.find::<indexed::ByMail>(mail(70))).unwrap();
        assert_eq!(found.map(|row| row.id), Some(71), "{kind}");
        assert!(db.check().unwrap().is_whole(), "{kind}");
    }
}

#[test]
fn an_index_is_added_to_a_hash_table() {
    let disk = Simulated::new();
    let db = builder(&disk).table::<hashed::Plain>(0).open().unwrap();
    let mut session = db.session().unwrap();
    let point = |at: u32| hashed::Plain { x: at / 10, y: (at % 10) as i16 - 5, colour: (at % 3) as u8 };
    (0..2_000).for_each(|at| session.run(|tx| tx.insert(point(at))).unwrap());
    drop((session, db));
    let db = builder(&disk).table::<hashed::Indexed>(0).open().unwrap();
    let built = &db.recovery().unwrap().indexes;
    assert_eq!((built.len(), built[0].entries), (1, 2_000));
    let mut session = db.session().unwrap();
    let all = session.run(|tx| {
        let mut all = Vec::new();
        tx.scan_index(heddledb::Scan::<hashed::ByColour>::prefix((1,)), |(colour, ..), (x, y)| {
            all.push((colour, x * 10 + (y + 5) as u32));
            ControlFlow::Continue(())
        })?;
        Ok(all)
    });
    let due: Vec<_> = (0..2_000).filter(|at| at % 3 == 1).map(|at| (1, at)).collect();
    assert_eq!(all.unwrap(), due);
    assert!(db.check().unwrap().is_whole());
}

#[test]
fn a_unique_index_that_cannot_be_names_both_rows_and_changes_nothing() {
    let disk = without_indexes(100);
    let db = builder(&disk).table::<plain::Person>(0).open().unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| tx.set_columns(93, plain::Person::mail, mail(17))).unwrap();
    session.run(|tx| tx.set_columns(57, plain::Person::mail, mail(17))).unwrap();
    drop((session, db));
    let before = contents(&disk);
    for threads in [1, 2, 5] {
        let opened = builder(&disk).recovery_threads(threads).table::<indexed::Person>(0).open();
        let Err(Error::Open(error)) = opened else { panic!("it was opened") };
        assert!(matches!(*error, LogError::NotUnique { .. }), "{error}");
        let text = error.to_string();
        for part in ["person.ByMail", "17@example.org", " 17 ", " 57 "] {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
        assert_eq!(contents(&disk), before, "nothing was changed");
    }
    let db = builder(&disk).table::<plain::Person>(0).open().unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| tx.set_columns(57, plain::Person::mail, mail(57))).unwrap();
    session.run(|tx| tx.set_columns(93, plain::Person::mail, mail(93))).unwrap();
    drop((session, db));
    assert_eq!(entries(&open_indexed(&disk)), due(0..100), "after one of them was changed");
}

#[test]
fn a_removed_index_leaves_nothing_and_is_built_anew() {
    let disk = without_indexes(20);
    drop(open_indexed(&disk));
    let db = builder(&disk).table::<plain::Person>(0).open().unwrap();
    let removed: Vec<_> = db.recovery().unwrap().indexes.iter().map(|index| index.name.clone()).collect();
    assert_eq!(removed, ["person.ByCity", "person.ByMail"]);
    let listed = Manifest::read(&disk).unwrap().unwrap().relations;
    assert_eq!(listed.iter().map(|entry| &entry.name[..]).collect::<Vec<_>>(), ["person"]);
    let file = contents(&disk).into_iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    assert!(file < 20_000, "{file} bytes");
    let mut session = db.session().unwrap();
    session.run(|tx| tx.delete::<plain::Person>(3)).unwrap();
    session.run(|tx| tx.insert(person(40))).unwrap();
    session.run(|tx| tx.set_columns(5, plain::Person::mail, mail(3))).unwrap();
    session.run(|tx| tx.set_columns(5, plain::Person::mail, mail(5))).unwrap();
    drop((session, db));
    let db = open_indexed(&disk);
    assert_eq!(entries(&db), due((0..3).chain(4..20).chain([40])));
    assert!(db.check().unwrap().is_whole());
    // What was removed is not in the way of what is defined otherwise.
    drop(db);
    let db = builder(&disk).table::<changed::Person>(0).open().unwrap();
    let mut session = db.session().unwrap();
    let row = session.run(|tx| tx.find::<changed::ByCity>((20, 40 % 7))).unwrap();
    assert_eq!(row.map(|row| row.id), Some(40));
    assert!(db.check().unwrap().is_whole());
    drop((session, db));
    let db = open_indexed(&disk);
    assert_eq!(entries(&db), due((0..3).chain(4..20).chain([40])));
}

#[test]
fn a_table_that_is_not_declared_is_still_refused() {
    let disk = without_indexes(3);
    drop(open_indexed(&disk));
    let Err(Error::Open(error)) = builder(&disk).table::<hashed::Plain>(0).open() else {
        panic!("it was opened")
    };
    assert!(matches!(&*error, LogError::NotDeclared { relation, .. } if relation == "person"), "{error}");
}

#[test]
fn building_tells_how_far_it_is() {
    let disk = without_indexes(5_000);
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&told);
    let tell = move |progress: heddledb::RecoveryProgress| into.lock().unwrap().push(progress);
    let db = builder(&disk).table::<indexed::Person>(0).on_recovery(tell).open().unwrap();
    let told = told.lock().unwrap();
    let indexed: Vec<u64> = told.iter().map(|progress| progress.rows_indexed).collect();
    assert!(indexed.is_sorted());
    let last = told.last().unwrap();
    assert_eq!((last.rows_indexed, last.rows_to_index), (10_000, 10_000));
    let built = &db.recovery().unwrap().indexes;
    let names: Vec<_> = built.iter().map(|index| (&index.name[..], index.entries)).collect();
    assert_eq!(names, [("person.ByCity", 5_000), ("person.ByMail", 5_000)]);
}

/// A table that is defined at run time.
fn city(indexes: impl FnOnce(TableBuilder) -> TableBuilder) -> &'static TableDefinition {
    let table = TableDefinition::builder("city")
        .key("country", ColumnType::Text(2))
        .key("number", ColumnType::I32)
        .column("name", ColumnType::Text(20))
        .column("people", ColumnType::U64)
        .group("people");
    indexes(table).build().unwrap()
}

fn city_row(number: i32) -> [Value; 4] {
    let country = if number % 2 == 0 { "de" } else { "fr" };
    [country.into(), number.into(), format!("city {number}").as_str().into(), (number as u64 * 1_000).into()]
}

#[test]
fn indexes_of_tables_that_are_defined_at_run_time_come_and_go() {
    let (plain, named) = (city(|table| table), city(|table| table.unique("ByName", ["name"])));
    let disk = Simulated::new();
    let db = builder(&disk).define(plain, 0).open().unwrap();
    let cities = db.define(plain, 0).unwrap();
    let mut session = db.session().unwrap();
    (0..50).for_each(|number| session.run(|tx| tx.rows(&cities)?.insert(&city_row(number))).unwrap());
    drop((session, cities, db));

    let db = builder(&disk).define(named, 0).open().unwrap();
    let cities = db.define(named, 0).unwrap();
    let mut session = db.session().unwrap();
    let row = session.run(|tx| tx.rows(&cities)?.find("ByName", &["city 31".into()])).unwrap().unwrap();
    assert_eq!(row["number"], Value::I32(31));
    let all = session.run(|tx| tx.rows(&cities)?.collect(RowScan::all().by("ByName"))).unwrap();
    assert_eq!(all.len(), 50);
    let mut twin = city_row(77);
    twin[2] = "city 31".into();
    let error = session.run(|tx| tx.rows(&cities)?.insert(&twin)).unwrap_err();
    assert!(
        matches!(&error, Error::Misuse(misuse) if matches!(**misuse, Misuse::DuplicateEntry { .. })),
        "{error}"
    );
    assert!(db.check().unwrap().is_whole());
    drop((session, cities, db));

    // Removed; two rows of one name meanwhile; declared again.
    let db = builder(&disk).define(plain, 0).open().unwrap();
    let cities = db.define(plain, 0).unwrap();
    db.session().unwrap().run(|tx| tx.rows(&cities)?.insert(&twin)).unwrap();
    drop((cities, db));
    let before = contents(&disk);
    let Err(Error::Open(error)) = builder(&disk).define(named, 0).open() else { panic!("it was opened") };
    let text = error.to_string();
    for part in ["city.ByName", "city 31", "(fr, 31)", "(fr, 77)"] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert_eq!(contents(&disk), before, "nothing was changed");
}

#[test]
fn a_later_definition_with_other_indexes_is_refused() {
    let (plain, named) = (city(|table| table), city(|table| table.unique("ByName", ["name"])));
    for (first, second) in [(plain, named), (named, plain)] {
        let db = Database::in_memory();
        let cities = db.define(first, 0).unwrap();
        db.session().unwrap().run(|tx| tx.rows(&cities)?.insert(&city_row(1))).unwrap();
        let error = db.define(second, 0).unwrap_err();
        assert!(
            matches!(&error, Error::Misuse(misuse) if matches!(**misuse, Misuse::Definition { .. })),
            "{error}"
        );
        assert!(error.to_string().contains("ByName"), "{error}");
        assert!(db.define(first, 0).is_ok());
    }
    // The same of a table of a Rust type, whose indexes are made at their first use.
    let db = Database::in_memory();
    let person = |indexes: fn(TableBuilder) -> TableBuilder| {
        let table = TableDefinition::builder("person")
            .key("id", ColumnType::U64)
            .column("mail", ColumnType::Text(24))
            .column("city", ColumnType::U32)
            .column("visits", ColumnType::U64)
            .group("visits");
        indexes(table).build().unwrap()
    };
    let mut session = db.session().unwrap();
    assert_eq!(session.run(|tx| tx.get::<indexed::Person>(1)).unwrap(), None);
    assert!(db.define(person(|table| table), 0).is_err());
    let same = person(|table| table.index("ByCity", ["city"]).unique("ByMail", ["mail"]));
    let people = db.define(same, 0).unwrap();
    let row = indexed::Person { id: 1, mail: mail(1), city: 4, visits: 0 };
    session.run(|tx| tx.insert(row)).unwrap();
    let found = session.run(|tx| tx.rows(&people)?.find("ByCity", &[4u32.into()])).unwrap();
    assert_eq!(found.unwrap()["id"], Value::U64(1));
    assert!(db.check().unwrap().is_whole());
}
