//! Indexes that are added to tables with rows, and removed from them.

use heddledb::internals::BuilderInternals;
use heddledb::internals::log::{Manifest, RelationEntry};
use heddledb::protocol::Kind;
use heddledb::storage::{Fault, Simulated, Storage};
use heddledb::table::Relation;
use heddledb::table::dynamic::{ColumnType, TableBuilder, TableDefinition, Value};
use heddledb::{
    Builder, Database, Error, IndexReason, LogError, Misuse, ReadTransaction, RowScan, Transaction,
};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

/// The table without indexes, and with some: one name, one row.
mod plain {
    use heddledb::{Table, Text};

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(name = "person")]
    pub struct Person {
        #[key]
        pub id: u64,
        pub mail: Text<24>,
        pub city: u32,
        #[group(visits)]
        pub visits: u64,
    }
}

mod indexed {
    use heddledb::{Table, Text};

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(name = "person", index(ByCity(city)), unique(ByMail(mail)))]
    pub struct Person {
        #[key]
        pub id: u64,
        pub mail: Text<24>,
        pub city: u32,
        #[group(visits)]
        pub visits: u64,
    }
}

/// The same index name over other columns.
mod changed {
    use heddledb::{Table, Text};

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(name = "person", index(ByCity(visits, city)))]
    pub struct Person {
        #[key]
        pub id: u64,
        pub mail: Text<24>,
        pub city: u32,
        #[group(visits)]
        pub visits: u64,
    }
}

/// A table with a hash index.
mod hashed {
    use heddledb::Table;

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(name = "point", hash)]
    pub struct Plain {
        #[key]
        pub x: u32,
        #[key]
        pub y: i16,
        pub colour: u8,
    }

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(name = "point", hash, index(ByColour(colour)))]
    pub struct Indexed {
        #[key]
        pub x: u32,
        #[key]
        pub y: i16,
        pub colour: u8,
    }
}

fn builder(disk: &Simulated) -> Builder {
    Database::builder().manual_epochs().recovery_threads(2).storage(Arc::new(disk.clone()))
}

fn mail(id: u64) -> heddledb::Text<24> {
    heddledb::Text::truncated(&format!("{id}@example.org"))
}

fn person(id: u64) -> plain::Person {
    plain::Person { id, mail: mail(id), city: (id % 7) as u32, visits: id / 2 }
}

/// A directory with so many persons, and no index.
fn without_indexes(rows: u64) -> Simulated {
    let disk = Simulated::new();
    let db = builder(&disk).table::<plain::Person>(0).open().unwrap();
    let mut session = db.session().unwrap();
    for id in 0..rows {
        session.run(|tx| tx.insert(person(id))).unwrap();
    }
    drop((session, db));
    disk
}

fn open_indexed(disk: &Simulated) -> Database {
    builder(disk).table::<indexed::Person>(0).open().unwrap()
}

/// The entries of both indexes, with the rows that they lead to.
type Entries = (Vec<(u32, u64)>, Vec<(String, u64)>);

/// Those that are there.
fn entries(db: &Database) -> Entries {
    let mut session = db.session().unwrap();
    session
        .run(|tx| {
            let (mut cities, mut mails) = (Vec::new(), Vec::new());
            tx.scan_index(heddledb::Scan::<indexed::ByCity>::all(), |(city, _), id| {
                cities.push((city, id));
                ControlFlow::Continue(())
            })?;
            tx.scan_index(heddledb::Scan::<indexed::ByMail>::all(), |mail, id| {
                mails.push((mail.as_str().to_owned(), id));
                ControlFlow::Continue(())
            })?;
            Ok((cities, mails))
        })
        .unwrap()
}

/// Those that rows with these keys should have.
fn due(ids: impl Iterator<Item = u64> + Clone) -> Entries {
    let mut cities: Vec<_> = ids.clone().map(|id| ((id % 7) as u32, id)).collect();
    let mut mails: Vec<_> = ids.map(|id| (mail(id).as_str().to_owned(), id)).collect();
    cities.sort_unstable();
    mails.sort_unstable();
    (cities, mails)
}

/// The names and the contents of all files.
fn contents(disk: &Simulated) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = heddledb::storage::read_all(&*disk.open(&name).unwrap()).unwrap();
        (name, bytes)
    };
    disk.list().unwrap().into_iter().map(read).collect()
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

/// Writes the manifest as format 1 has it, with indexes that were listed by an opening which did not build them.
fn write_old_manifest(disk: &Simulated, listed: &[RelationEntry]) {
    let mut manifest = Manifest::read(disk).unwrap().unwrap();
    for entry in listed {
        let id = manifest.relations.iter().map(|entry| entry.id + 1).max().unwrap();
        manifest.relations.push(RelationEntry { id, ..entry.clone() });
    }
    disk.remove("MANIFEST").unwrap();
    let file = disk.create("MANIFEST").unwrap();
    heddledb::storage::write_all(&*file, &manifest.encode_as(1), 0).unwrap();
    file.sync().unwrap();
    disk.sync_names().unwrap();
}

#[test]
fn indexes_of_an_older_directory_are_found_out() {
    // Listed and empty, as an opening left them that did not build them.
    let empty = without_indexes(30);
    let indexed = without_indexes(0);
    drop(open_indexed(&indexed));
    let listed = Manifest::read(&indexed).unwrap().unwrap().relations;
    write_old_manifest(&empty, &listed[1..]);
    // Whole, though nobody knows.
    let whole = without_indexes(30);
    drop(open_indexed(&whole));
    write_old_manifest(&whole, &[]);
    for (disk, name) in [(&empty, "empty"), (&whole, "whole")] {
        let db = open_indexed(disk);
        assert_eq!(entries(&db), due(0..30), "{name}");
        let told: Vec<_> = db.recovery().unwrap().indexes.iter().map(|index| index.reason).collect();
        assert_eq!(told, [IndexReason::OldFormat; 2]);
        assert!(db.check().unwrap().is_whole());
        drop(db);
        let db = open_indexed(disk);
        assert!(db.recovery().unwrap().indexes.is_empty(), "{name} is looked at once");
        assert_eq!(entries(&db), due(0..30), "{name}");
    }
}

#[test]
fn a_check_tells_what_is_wrong_with_an_index_as_it_was_found() {
    let disk = without_indexes(30);
    let indexed = without_indexes(0);
    drop(open_indexed(&indexed));
    write_old_manifest(&disk, &Manifest::read(&indexed).unwrap().unwrap().relations[1..]);
    let open = || builder(&disk).table::<indexed::Person>(0).keep_indexes().open().unwrap();
    let db = open();
    let report = db.check().unwrap();
    let figures: Vec<_> =
        report.indexes.iter().map(|index| (index.rows, index.entries, index.missing)).collect();
    assert_eq!(figures, [(30, 0, 30), (30, 0, 30)]);
    assert!(!report.is_whole());
    let text = report.to_string();
    assert!(text.contains("row 0 has no entry (0, 0) in person.ByCity"), "{text}");
    assert!(text.contains("row 4 has no entry \"4@example.org\" in person.ByMail"), "{text}");
    // Writers that know the index fill it in part: an update of a row without an entry, and new rows.
    let mut session = db.session().unwrap();
    session.run(|tx| tx.insert(indexed::Person { id: 40, mail: mail(3), city: 2, visits: 0 })).unwrap();
    drop((session, db));
    let db = open();
    let report = db.check().unwrap();
    let of_mail = &report.indexes[1];
    assert_eq!((of_mail.rows, of_mail.entries, of_mail.missing, of_mail.wrong), (31, 1, 29, 1), "{report}");
    assert!(report.to_string().contains("entry \"3@example.org\" of row 3 in person.ByMail leads to row 40"));
    drop(db);
    // Now two rows have one mail.
    let Err(Error::Open(error)) = builder(&disk).table::<indexed::Person>(0).open() else {
        panic!("it was opened")
    };
    assert!(matches!(*error, LogError::NotUnique { .. }), "{error}");
}

#[test]
fn a_check_finds_entries_without_rows() {
    // The indexes are kept as they are, beside a table that knows nothing of them.
    let disk = without_indexes(10);
    drop(open_indexed(&disk));
    let beside = builder(&disk).keep_indexes().table::<plain::Person>(0);
    let beside = beside.relation(indexed::ByCity::definition()).relation(indexed::ByMail::definition());
    let db = beside.open().unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| tx.delete::<plain::Person>(4)).unwrap();
    session.run(|tx| tx.set_columns(5, plain::Person::city, 6)).unwrap();
    drop((session, db));
    let db = open_indexed(&disk);
    let report = db.check().unwrap();
    let figures: Vec<_> =
        report.indexes.iter().map(|index| (index.rows, index.entries, index.missing, index.stray)).collect();
    assert_eq!(figures, [(9, 10, 1, 2), (9, 10, 0, 1)], "{report}");
    let text = report.to_string();
    assert!(text.contains("leads to row 4, which is not there"), "{text}");
    assert!(text.contains("entry (5, 5) in person.ByCity is of row 5, whose entry is (6, 5)"), "{text}");
}

#[test]
fn a_check_finds_damage_in_files() {
    let disk = without_indexes(50);
    let db = builder(&disk).table::<plain::Person>(0).open().unwrap();
    db.checkpoint().unwrap();
    let report = db.check().unwrap();
    assert!(report.is_whole(), "{report}");
    assert_eq!(report.files.iter().map(|file| file.items).sum::<u64>(), 50, "{report}");
    let name = disk.list().unwrap().into_iter().find(|name| name.starts_with("checkpoint")).unwrap();
    let file = disk.open(&name).unwrap();
    file.write_at(&[0xAB], 300).unwrap();
    let report = db.check().unwrap();
    let damaged: Vec<_> = report.files.iter().filter(|file| file.problem.is_some()).collect();
    assert_eq!(damaged.len(), 1, "{report}");
    assert_eq!(damaged[0].file, name);
    assert!(!report.is_whole() && report.to_string().contains("DAMAGED"), "{report}");
}

#[test]
fn a_check_beside_writers_finds_nothing() {
    let db = Database::builder().table::<indexed::Person>(0).open().unwrap();
    std::thread::scope(|scope| {
        let db = &db;
        let writer = move |thread: u64| {
            let mut session = db.session().unwrap();
            for round in 0..400u64 {
                let id = thread * 100 + round % 50;
                let row = indexed::Person { id, mail: mail(id), city: (round % 5) as u32, visits: round };
                session.run(|tx| tx.upsert(row).map(|_| ())).unwrap();
                if round % 3 == 0 {
                    session.run(|tx| tx.delete::<indexed::Person>(id).map(|_| ())).unwrap();
                }
            }
        };
        let writers: Vec<_> = (0..2).map(|thread| scope.spawn(move || writer(thread))).collect();
        for _ in 0..20 {
            let report = db.check().unwrap();
            assert!(report.is_whole(), "{report}");
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

/// Opens a disk at each operation of which the power is cut or the process killed, until the opening comes to its end;
/// then looks at what was left.
fn cut_at_each_operation(
    before: &Simulated,
    open: impl Fn(&Simulated) -> Result<Database, Error>,
    look: impl Fn(&Simulated, &str),
) {
    for at in 0.. {
        let disk = before.after_kill();
        disk.fail(at, Fault::PowerCut);
        let opened = open(&disk);
        let is_off = disk.is_off();
        // It may be open before the files that no longer count are removed.
        assert!(is_off || opened.is_ok(), "operation {at}: {:?}", opened.err());
        drop(opened);
        look(&disk.after_kill(), &format!("killed at operation {at}"));
        for seed in 0..4 {
            look(&disk.after_power_cut(seed), &format!("cut at operation {at}, seed {seed}"));
        }
        if !is_off {
            assert!(at > 20, "building takes more than {at} operations");
            return;
        }
    }
}

#[test]
fn a_crash_at_any_operation_of_building_leaves_what_opens_right() {
    let before = without_indexes(40);
    let db = builder(&before).table::<plain::Person>(0).open().unwrap();
    db.checkpoint().unwrap();
    let mut session = db.session().unwrap();
    (40..60).for_each(|id| session.run(|tx| tx.insert(person(id))).unwrap());
    drop((session, db));
    let one = |disk: &Simulated| builder(disk).recovery_threads(1);
    let open = |disk: &Simulated| one(disk).table::<indexed::Person>(0).open();
    cut_at_each_operation(&before, open, |disk, when| {
        // With the indexes, and without them and then with them.
        let other = disk.after_kill();
        let db = open(disk).unwrap_or_else(|error| panic!("{when}: {error}"));
        assert_eq!(entries(&db), due(0..60), "{when}");
        assert!(db.check().unwrap().is_whole(), "{when}");
        let db =
            one(&other).table::<plain::Person>(0).open().unwrap_or_else(|error| panic!("{when}: {error}"));
        db.session().unwrap().run(|tx| tx.delete::<plain::Person>(7)).unwrap();
        drop(db);
        let db = open(&other).unwrap_or_else(|error| panic!("{when}: {error}"));
        assert_eq!(entries(&db), due((0..7).chain(8..60)), "{when}");
    });
}

#[test]
fn a_crash_at_any_operation_of_removing_leaves_what_opens_right() {
    let before = without_indexes(40);
    let db = open_indexed(&before);
    let mut session = db.session().unwrap();
    session.run(|tx| tx.delete::<indexed::Person>(9)).unwrap();
    drop((session, db));
    let one = |disk: &Simulated| builder(disk).recovery_threads(1);
    let open = |disk: &Simulated| one(disk).table::<plain::Person>(0).open();
    cut_at_each_operation(&before, open, |disk, when| {
        let other = disk.after_kill();
        let with = |disk: &Simulated| one(disk).table::<indexed::Person>(0).open();
        let db = with(disk).unwrap_or_else(|error| panic!("{when}: {error}"));
        assert_eq!(entries(&db), due((0..9).chain(10..40)), "{when}");
        drop(db);
        let db = open(&other).unwrap_or_else(|error| panic!("{when}: {error}"));
        db.session().unwrap().run(|tx| tx.delete::<plain::Person>(7)).unwrap();
        drop(db);
        let relations = Manifest::read(&other).unwrap().unwrap().relations;
        assert_eq!(relations.len(), 1, "{when}");
        let db = with(&other).unwrap_or_else(|error| panic!("{when}: {error}"));
        assert_eq!(entries(&db), due((0..7).chain(8..9).chain(10..40)), "{when}");
        assert!(db.check().unwrap().is_whole(), "{when}");
    });
}

#[test]
fn an_opening_that_cannot_write_its_checkpoint_is_refused_and_comes_back() {
    let before = without_indexes(20);
    for at in 0.. {
        let disk = before.after_kill();
        disk.fail(at, Fault::Error);
        let opened = builder(&disk).recovery_threads(1).table::<indexed::Person>(0).open();
        let again = disk.after_kill();
        match opened {
            Ok(db) => {
                assert_eq!(entries(&db), due(0..20));
                return;
            }
            Err(Error::Open(_)) => assert_eq!(entries(&open_indexed(&again)), due(0..20), "operation {at}"),
            Err(error) => panic!("operation {at}: {error:?}"),
        }
    }
}
