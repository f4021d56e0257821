//! Schemas that change, with indexes that cannot be built of the rows: refused before anything has changed.

use heddledb::storage::{Fault, Simulated, Storage};
use heddledb::{
    Builder, Database, Error, LogError, Migration, ReadTransaction, Scan, Table, Text, Transaction,
};
use std::sync::Arc;

/// What the directory has at first.
mod first {
    use heddledb::{Table, Text};

    #[derive(Table, Clone, Debug, PartialEq)]
    pub struct Person {
        #[key]
        pub id: u32,
        pub mail: String,
        pub name: Text<8>,
    }

    #[derive(Table, Clone, Debug, PartialEq)]
    #[table(index(NoteByAbout(about)), unique(NoteByTitle(title(max = 60))))]
    pub struct Note {
        #[key]
        pub id: u64,
        pub about: u32,
        pub title: String,
    }
}

/// The persons with a wider key and other columns, under several indexes.
macro_rules! persons {
    ($($name:ident { $($index:tt)* })*) => {
        $(#[derive(Table, Clone, Debug, PartialEq)]
        #[table(name = "person", $($index)*)]
        struct $name {
            name: String,
            #[key]
            id: u64,
            mail: String,
            points: Option<u8>,
        })*
    };
}

persons! {
    Person { index(PersonByMail(mail(max = 40))) }
    UniqueName { unique(PersonByName(name(max = 8))) }
    ShortMail { index(ByShortMail(mail(max = 10))) }
    Good { unique(ByGoodMail(mail(max = 40), id)), unique(ByMailAlone(mail(max = 40))) }
}

/// The notes as they are, under other indexes.
macro_rules! notes {
    ($($name:ident { $($index:tt)* })*) => {
        $(#[derive(Table, Clone, Debug, PartialEq)]
        #[table(name = "note", $($index)*)]
        struct $name {
            #[key]
            id: u64,
            about: u32,
            title: String,
        })*
    };
}

notes! {
    UniqueAbout { unique(ByAboutAlone(about)) }
    ShortTitle { index(ByShortTitle(title(max = 20))) }
    GoodNote { index(NoteByAboutAndTitle(about, title(max = 50))), unique(NoteByTitleAndMore(title(max = 50), about)) }
}

const ROWS: u32 = 60;

fn person(id: u32) -> first::Person {
    let mail = if id == 33 { "the.mail.of@person.thirty-three".to_owned() } else { format!("{id}@x") };
    // Three times each.
    first::Person { id, mail, name: Text::truncated(&format!("n{}", id % 20)) }
}

fn note(id: u64) -> first::Note {
    let title = if id == 17 { "the long title of note seventeen".to_owned() } else { format!("note {id}") };
    first::Note { id, about: id as u32 / 2, title }
}

fn builder(disk: &Simulated) -> Builder {
    Database::builder().manual_epochs().recovery_threads(2).storage(Arc::new(disk.clone()))
}

fn old(disk: &Simulated) -> Builder {
    builder(disk).table::<first::Person>(0).table::<first::Note>(0)
}

/// Rows in a checkpoint and in the log.
fn directory() -> Simulated {
    let disk = Simulated::new();
    let db = old(&disk).open().unwrap();
    let mut session = db.session().unwrap();
    for (number, ids) in [0..ROWS / 2, ROWS / 2..ROWS].into_iter().enumerate() {
        session.run(|tx| ids.clone().try_for_each(|id| tx.insert(person(id)))).unwrap();
        session.run(|tx| ids.clone().try_for_each(|id| tx.insert(note(id.into())))).unwrap();
        if number == 0 {
            db.checkpoint().unwrap();
        }
    }
    drop((session, db));
    disk.after_kill()
}

fn is_old(disk: &Simulated) {
    let db = old(disk).open().unwrap();
    let mut session = db.session().unwrap();
    let people = session.run(|tx| tx.collect(Scan::<first::Person>::all())).unwrap();
    assert_eq!(people, (0..ROWS).map(person).collect::<Vec<_>>());
    let mut notes = session.run(|tx| tx.collect(Scan::<first::NoteByTitle>::all())).unwrap();
    notes.sort_by_key(|note| note.id);
    assert_eq!(notes, (0..u64::from(ROWS)).map(note).collect::<Vec<_>>());
    let report = db.check().unwrap();
    assert!(report.is_whole(), "{report}");
    assert!(db.recovery().unwrap().indexes.is_empty());
}

fn refused(builder: Builder) -> LogError {
    match builder.open() {
        Err(Error::Open(error)) => *error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it opened"),
    }
}

#[test]
fn a_unique_index_of_rows_that_are_converted() {
    let disk = directory();
    let new = || builder(&disk).table::<UniqueName>(0).table::<first::Note>(0).migrate(Migration::new());
    let files = disk.list().unwrap();
    for threads in [1, 2, 3, 5] {
        let LogError::NotUnique(told) = refused(new().recovery_threads(threads)) else { panic!() };
        assert_eq!((&told.table[..], &told.index[..]), ("person", "person.PersonByName"));
        assert_eq!((&told.entry[..], &told.first[..], &told.second[..]), ("\"n0\"", "0", "20"));
        assert_eq!(disk.list().unwrap(), files);
        is_old(&disk.after_kill());
    }
    // The old program takes them out of the way.
    let db = old(&disk).open().unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| (20..ROWS).try_for_each(|id| tx.delete::<first::Person>(id).map(|_| ()))).unwrap();
    drop((session, db));
    let db = new().open().unwrap();
    let mut session = db.session().unwrap();
    let rows = session.run(|tx| tx.collect(Scan::<PersonByName>::all())).unwrap();
    assert_eq!(rows.len(), 20);
    let report = db.check().unwrap();
    assert!(report.is_whole(), "{report}");
}

/// What functions have made counts, not what was there.
#[test]
fn a_unique_index_of_what_a_function_makes() {
    let disk = directory();
    let made = |from: &'static [&'static str]| {
        let name = move |row: &heddledb::table::dynamic::RowValues| {
            let id = row.get::<u32>("id")? as usize;
            Ok(from.get(id).map_or_else(|| format!("of {id}"), |name| (*name).to_owned()).into())
        };
        let changes = Migration::new().drop("person", "name").set_with("person", "alias", name);
        builder(&disk).table::<Aliased>(0).table::<first::Note>(0).migrate(changes)
    };
    let LogError::NotUnique(told) = refused(made(&["a", "b", "c", "b", "a"])) else { panic!() };
    assert_eq!((&told.entry[..], &told.first[..], &told.second[..]), ("\"a\"", "0", "4"));
    is_old(&disk);
    let LogError::KeyTooLong(told) = refused(made(&["a", "b", "longer than ten"])) else { panic!() };
    assert_eq!((&told.row[..], told.column, told.bytes, told.limit), ("2", "alias", 15, 10));
    is_old(&disk);
    drop(made(&["a", "b", "c"]).open().unwrap());
}

#[derive(Table, Clone)]
#[table(name = "person", unique(PersonByAlias(alias(max = 10))))]
struct Aliased {
    #[key]
    id: u32,
    mail: String,
    alias: String,
}

#[test]
fn a_unique_index_of_a_table_that_is_kept_beside_one_that_changes() {
    let disk = directory();
    let new = || builder(&disk).table::<Person>(0).table::<UniqueAbout>(0).migrate(Migration::new());
    let told = refused(new());
    is_old(&disk);
    // In the same words as where no table changes.
    let alone = refused(builder(&disk).table::<first::Person>(0).table::<UniqueAbout>(0));
    assert_eq!(told.to_string(), alone.to_string());
    let LogError::NotUnique(told) = told else { panic!("{told}") };
    assert_eq!((&told.table[..], &told.index[..]), ("note", "note.ByAboutAlone"));
    assert_eq!((&told.entry[..], &told.first[..], &told.second[..]), ("0", "0", "1"));
    is_old(&disk);
}

#[test]
fn a_text_that_is_too_long_for_a_new_index() {
    let disk = directory();
    let new = |builder: Builder| refused(builder.migrate(Migration::new()));
    // Of rows that are converted.
    let LogError::KeyTooLong(told) = new(builder(&disk).table::<ShortMail>(0).table::<first::Note>(0)) else {
        panic!()
    };
    assert_eq!((&told.table[..], &told.index[..], &told.row[..]), ("person", "person.ByShortMail", "33"));
    assert_eq!((told.column, told.bytes, told.limit), ("mail", 31, 10));
    is_old(&disk);
    // And of those that are not.
    let told = new(builder(&disk).table::<Person>(0).table::<ShortTitle>(0));
    is_old(&disk);
    let alone = refused(builder(&disk).table::<first::Person>(0).table::<ShortTitle>(0));
    assert_eq!(told.to_string(), alone.to_string());
    let LogError::KeyTooLong(told) = told else { panic!("{told}") };
    assert_eq!((&told.row[..], told.bytes, told.limit), ("17", 32, 20));
    is_old(&disk);
}

/// Of tables so large that their entries are gathered and added many times.
#[test]
fn rows_far_apart_that_are_in_the_way_are_found() {
    let disk = Simulated::new();
    let db = old(&disk).open().unwrap();
    let mut session = db.session().unwrap();
    let row = |id: u32| first::Note { id: id.into(), about: id, title: id.to_string() };
    for ids in [0..25_000, 25_000..50_000] {
        session.run(|tx| ids.clone().try_for_each(|id| tx.insert(row(id)))).unwrap();
    }
    session.run(|tx| tx.insert(first::Note { about: 7, ..row(60_000) })).unwrap();
    session.run(|tx| tx.insert(first::Note { about: 7, ..row(50_001) })).unwrap();
    session.run(|tx| tx.insert(first::Note { about: 49_000, ..row(50_002) })).unwrap();
    session.run(|tx| tx.insert(person(1))).unwrap();
    drop((session, db));
    for threads in [1, 3] {
        let new = builder(&disk).table::<Person>(0).table::<UniqueAbout>(0).migrate(Migration::new());
        let LogError::NotUnique(told) = refused(new.recovery_threads(threads)) else { panic!() };
        assert_eq!((&told.entry[..], &told.first[..], &told.second[..]), ("7", "7", "50001"));
    }
    let db = old(&disk).open().unwrap();
    let rows = db.session().unwrap().run(|tx| tx.collect(Scan::<first::NoteByTitle>::all())).unwrap();
    assert_eq!(rows.len(), 50_003);
}

#[test]
fn a_failure_on_the_way_to_a_refusal_leaves_what_was_there() {
    let base = directory();
    for fault in [Fault::Error, Fault::Full, Fault::Short, Fault::Interrupted, Fault::PowerCut] {
        for at in 0.. {
            let disk = base.after_kill();
            disk.fail(at, fault);
            let before = disk.operations();
            let new = builder(&disk).table::<UniqueName>(0).table::<first::Note>(0);
            let told = refused(new.migrate(Migration::new()));
            let is_failed = !matches!(told, LogError::NotUnique(_));
            assert!(!is_failed || matches!(fault, Fault::Error | Fault::Full | Fault::PowerCut), "{told}");
            let operations = disk.operations();
            is_old(&disk.after_power_cut(at));
            is_old(&disk.after_kill());
            if operations - before < at {
                break;
            }
        }
    }
}

#[test]
fn indexes_that_can_be_built_are() {
    let disk = directory();
    let new = || builder(&disk).table::<Good>(0).table::<GoodNote>(0).migrate(Migration::new());
    for is_changed in [true, false] {
        let db = new().open().unwrap();
        let recovery = db.recovery().unwrap();
        assert_eq!((!recovery.schema.is_empty(), !recovery.indexes.is_empty()), (is_changed, is_changed));
        let mut session = db.session().unwrap();
        let rows = session.run(|tx| tx.collect(Scan::<ByMailAlone>::all())).unwrap();
        assert_eq!(rows.len(), ROWS as usize);
        let found = session.run(|tx| tx.find::<ByMailAlone>(person(33).mail[..].into())).unwrap().unwrap();
        assert_eq!((found.id, &found.name[..], found.points), (33, "n13", None));
        let rows = session.run(|tx| tx.collect(Scan::<NoteByAboutAndTitle>::all())).unwrap();
        assert_eq!(rows.len(), ROWS as usize);
        let report = db.check().unwrap();
        assert!(report.is_whole(), "{report}");
    }
}
