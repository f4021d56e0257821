//! Schemas that change: what is done, what has to be said first, and what a crash on the way leaves.

use heddledb::protocol::Kind;
use heddledb::storage::{Fault, Simulated, Storage};
use heddledb::table::dynamic::{ColumnType, TableDefinition, Value};
use heddledb::{
    Builder, Database, Error, LogError, Migration, ReadTransaction, Result, Scan, Table, Text, Transaction,
};
use std::sync::Arc;

/// What the directory has at first.
mod first {
    use heddledb::table::{ColumnValue, Key};
    use heddledb::{Table, Text};

    #[derive(Clone, Copy, Debug, PartialEq, ColumnValue, Key)]
    pub enum State {
        Open,
        Closed,
    }

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(index(ByOwner(owner)), unique(ByMail(mail)))]
    pub struct Account {
        #[key]
        pub branch: u8,
        #[key]
        pub id: u32,
        pub owner: Text<8>,
        pub mail: Text<16>,
        pub state: State,
        pub fax: u32,
        #[group(money)]
        pub cents: i32,
        #[group(money)]
        pub limit: Option<u16>,
    }

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(index(NoteByAbout(about)))]
    pub struct Note {
        #[key]
        pub id: u64,
        pub about: u32,
    }

    #[derive(Table, Clone, Copy)]
    pub struct Old {
        #[key]
        pub id: u64,
    }
}

/// What it has then.
mod second {
    use heddledb::table::{ColumnValue, Key};
    use heddledb::{Table, Text};

    #[derive(Clone, Copy, Debug, PartialEq, ColumnValue, Key)]
    pub enum State {
        // Under other numbers than before: its name is what it is called by.
        Frozen,
        Closed,
        Open,
    }

    #[derive(Table, Clone, Copy, Debug, PartialEq)]
    #[table(hash, name = "customer", index(ByHolder(holder, state)), unique(ByMail(mail)))]
    pub struct Customer {
        pub country: Text<2>,
        #[key]
        pub id: u64,
        #[key]
        pub branch: i16,
        pub mail: Text<40>,
        #[group(hot)]
        pub state: State,
        #[group(hot)]
        pub cents: i128,
        pub holder: Text<12>,
        pub limit: Option<i64>,
        pub note: Option<Text<4>>,
        pub initial: Text<1>,
    }
}

use first::{Account, Note, Old};
use second::Customer;

fn builder(disk: &Simulated) -> Builder {
    Database::builder().manual_epochs().recovery_threads(2).storage(Arc::new(disk.clone()))
}

fn old(builder: Builder) -> Builder {
    builder.table::<Account>(0).table::<Note>(0).table::<Old>(0)
}

fn new(builder: Builder) -> Builder {
    builder.table::<Customer>(0).table::<Note>(0)
}

fn migration() -> Migration {
    Migration::new()
        .rename_table("account", "customer")
        .rename("customer", "owner", "name")
        .rename("customer", "name", "holder")
        .drop("customer", "fax")
        .set("customer", "country", "GB")
        .set_with("customer", "initial", |row| Ok(row.get::<&str>("owner")?[..1].into()))
        .drop_table("old")
        // Of a version that this directory has never seen.
        .rename("letter", "a", "b")
        .drop_table("letters")
}

fn account(id: u32) -> Account {
    let state = if id.is_multiple_of(3) { first::State::Closed } else { first::State::Open };
    Account {
        branch: (id % 5) as u8,
        id,
        owner: Text::truncated(["Ada", "Bo", "Cy"][id as usize % 3]),
        mail: Text::truncated(&format!("{id}@x")),
        state,
        fax: id,
        cents: id as i32 * 10 - 50,
        limit: id.is_multiple_of(4).then_some(id as u16),
    }
}

fn customer(id: u32) -> Customer {
    let Account { branch, owner, mail, state, cents, limit, .. } = account(id);
    Customer {
        country: Text::truncated("GB"),
        id: id.into(),
        branch: branch.into(),
        mail: Text::truncated(mail.as_str()),
        state: match state {
            first::State::Open => second::State::Open,
            first::State::Closed => second::State::Closed,
        },
        cents: cents.into(),
        holder: Text::truncated(owner.as_str()),
        limit: limit.map(i64::from),
        note: None,
        initial: Text::truncated(&owner.as_str()[..1]),
    }
}

const ROWS: u32 = 60;

/// A directory of the first schema: rows in a checkpoint, in the log, and some that were deleted.
fn directory() -> Simulated {
    let disk = Simulated::new();
    let db = old(builder(&disk)).open().unwrap();
    let mut session = db.session().unwrap();
    let mut put = |ids: std::ops::Range<u32>| {
        session.run(|tx| ids.clone().try_for_each(|id| tx.insert(account(id)))).unwrap();
        session
            .run(|tx| ids.clone().try_for_each(|id| tx.insert(Note { id: id.into(), about: id / 2 })))
            .unwrap();
    };
    put(0..40);
    db.checkpoint().unwrap();
    put(40..ROWS + 1);
    session.run(|tx| tx.insert(Old { id: 1 })).unwrap();
    session.run(|tx| tx.delete::<Account>(((ROWS % 5) as u8, ROWS))).unwrap();
    drop((session, db));
    disk.after_kill()
}

fn is_old(db: &Database) {
    let mut session = db.session().unwrap();
    let rows = session.run(|tx| tx.collect(Scan::<first::ByMail>::all())).unwrap();
    assert_eq!(rows.len(), ROWS as usize);
    assert!(rows.iter().all(|row| *row == account(row.id)));
    assert_eq!(session.run(|tx| tx.get::<Old>(1)).unwrap().map(|old| old.id), Some(1));
    drop(session);
    checked(db);
}

fn is_new(db: &Database) {
    let mut session = db.session().unwrap();
    let rows = session.run(|tx| tx.collect(Scan::<second::ByMail>::all())).unwrap();
    assert_eq!(rows.len(), ROWS as usize);
    for row in rows {
        assert_eq!(row, customer(row.id as u32));
        assert_eq!(session.run(|tx| tx.get::<Customer>((row.id, row.branch))).unwrap(), Some(row));
    }
    let closed = (Text::truncated("Ada"), second::State::Closed);
    let closed = session.run(|tx| tx.collect(Scan::<second::ByHolder>::prefix(closed))).unwrap();
    assert_eq!(closed.len(), 20);
    drop(session);
    checked(db);
}

fn checked(db: &Database) {
    let mut session = db.session().unwrap();
    let notes = session.run(|tx| tx.collect(Scan::<first::NoteByAbout>::all())).unwrap();
    assert_eq!(notes.len(), ROWS as usize + 1);
    let report = db.check().unwrap();
    assert!(report.is_whole(), "{report}");
}

fn refusal(outcome: Result<Database>) -> String {
    match outcome {
        Err(Error::Open(error)) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it opened"),
    }
}

#[test]
fn a_directory_becomes_what_the_program_declares_under_every_protocol() {
    for kind in Kind::ALL {
        let disk = directory();
        let db = new(builder(&disk)).protocol(*kind).sessions(1).migrate(migration()).open();
        let db = db.unwrap_or_else(|error| panic!("{kind}: {error}"));
        is_new(&db);
        let told = db.recovery().unwrap().schema.to_string();
        assert!(told.contains("account: column owner becomes holder"), "{told}");
        // It goes on as ever.
        let row = Customer { limit: Some(-1), ..customer(1000) };
        let mut session = db.session().unwrap();
        session.run(|tx| tx.insert(row)).unwrap();
        session.run(|tx| tx.delete::<Customer>((1000, 0))).unwrap();
        drop((session, db));
        // The second time nothing is left to be done, and nothing need be said.
        let db = new(builder(&disk)).migrate(migration()).open().unwrap();
        assert!(db.recovery().unwrap().schema.is_empty());
        is_new(&db);
        drop(db);
        is_new(&new(builder(&disk)).open().unwrap());
    }
}

#[test]
fn it_is_shown_before_it_is_done() {
    let disk = directory();
    let before = disk.list().unwrap();
    let shown = new(builder(&disk)).migrate(migration()).schema_change().unwrap();
    assert!(shown.is_complete());
    assert_eq!(
        shown.to_string(),
        "account: the table becomes customer\n\
         account: column country is new, and GB in every row\n\
         account: column id becomes u64, of u32\n\
         account: column branch becomes i16, of u8\n\
         account: column mail becomes Text<40>, of Text<16>\n\
         account: column state becomes u8{Frozen=0,Closed=1,Open=2}, of u8{Open=0,Closed=1}\n\
         account: column cents becomes i128, of i32\n\
         account: column owner becomes holder\n\
         account: column holder becomes Text<12>, of Text<8>\n\
         account: column limit becomes Option<i64>, of Option<u16>\n\
         account: column note is new, and null in every row\n\
         account: column initial is new, and made of each row\n\
         account: column fax is dropped\n\
         account: column state moves from group main to hot\n\
         account: column cents moves from group money to hot\n\
         account: column limit moves from group money to main\n\
         account: the key becomes id, branch, of branch, id\n\
         account: a tree becomes a hash table\n\
         old: the table is dropped, with all its rows"
    );
    assert_eq!((disk.list().unwrap(), disk.writes()), (before, 0));
    // What nobody has said.
    let shown = new(builder(&disk))
        .migrate(Migration::new().rename_table("account", "customer"))
        .schema_change()
        .unwrap();
    assert!(!shown.is_complete());
    let account = &shown.tables[0];
    assert_eq!(
        account.missing,
        [
            r#"column country is new; say what it holds, with `.set("customer", "country", ..)`, or `.set_with(..)`"#,
            r#"column holder is new; say what it holds, with `.set("customer", "holder", ..)`, or `.set_with(..)`"#,
            r#"column initial is new; say what it holds, with `.set("customer", "initial", ..)`, or `.set_with(..)`"#,
            r#"column owner is not declared; declare it, or say what it is called now, with `.rename("customer", "owner", ..)`, or give it up, with `.drop("customer", "owner")`"#,
            r#"column fax is not declared; declare it, or say what it is called now, with `.rename("customer", "fax", ..)`, or give it up, with `.drop("customer", "fax")`"#,
        ]
    );
    assert!(shown.to_string().contains("MISSING old: it is not declared"));
    // Of nothing, and of the same.
    assert!(new(builder(&Simulated::new())).schema_change().unwrap().is_empty());
    let same = old(builder(&disk)).schema_change().unwrap();
    assert_eq!((same.is_empty(), same.to_string().as_str()), (true, "nothing changes"));
}

#[test]
fn what_nobody_has_said_is_refused_and_nothing_changes() {
    let disk = directory();
    let refused = |migration: Option<Migration>| {
        let builder = new(builder(&disk));
        refusal(migration.into_iter().fold(builder, Builder::migrate).open())
    };
    // Not a word, and not enough of them.
    let told = refused(None);
    assert!(told.contains("does not declare") && told.contains("Builder::migrate"), "{told}");
    let told = refused(Some(Migration::new()));
    assert!(told.contains("table account: it is not declared") && told.contains("table old"), "{told}");
    assert!(
        refused(Some(migration().set("customer", "country", 4u8))).contains("expected Text<2>, given 4 (u8)")
    );
    let told = refused(Some(migration().set_with("customer", "country", |_| Err(Error::user("no country")))));
    assert!(told.contains("table account, row 0, 0: no country"), "{told}");
    let told = refused(Some(migration().set_with("customer", "country", |_| Ok(Value::from("GBR")))));
    assert!(
        told.contains("row 0, 0: column country of table customer: expected Text<2>, given \"GBR\""),
        "{told}"
    );
    // Who only reads changes nothing.
    let told = refusal(new(builder(&disk)).migrate(migration()).read_only(true).open());
    assert!(told.contains("does not declare"), "{told}");
    is_old(&old(builder(&disk)).open().unwrap());
}

mod narrow {
    use heddledb::Table;

    #[derive(Table, Clone, Copy)]
    pub struct Note {
        #[key]
        pub id: u64,
        pub about: u8,
    }
}

mod other_key {
    use heddledb::Table;

    #[derive(Table, Clone, Copy)]
    pub struct Note {
        pub id: u64,
        #[key]
        pub about: u32,
    }
}

mod further_key {
    use heddledb::Table;

    #[derive(Table, Clone, Copy)]
    pub struct Note {
        #[key]
        pub shelf: u8,
        #[key]
        pub id: u64,
        pub about: u64,
    }

    #[derive(Table, Clone, Copy)]
    #[table(name = "note", unique(ByAbout(about)))]
    pub struct Unique {
        #[key]
        pub shelf: u8,
        #[key]
        pub id: u64,
        pub about: u64,
    }
}

#[test]
fn what_could_lose_something_has_to_be_said() {
    let disk = directory();
    let note = |migration: Migration| builder(&disk).table::<Account>(0).table::<Old>(0).migrate(migration);
    // A type that cannot hold all that was there.
    let told = refusal(note(Migration::new()).table::<narrow::Note>(0).open());
    assert!(told.contains("column about becomes u8, of u32; say what it holds"), "{told}");
    // A key that two rows could have.
    let told = refusal(note(Migration::new()).table::<other_key::Note>(0).open());
    assert!(told.contains("column id is part of the key that is stored"), "{told}");
    // A unique index that two rows are in the way of.
    let further = || note(Migration::new().set("note", "shelf", 7u8));
    let told = refusal(further().table::<further_key::Unique>(0).open());
    assert!(told.contains("rows (7, 0) and (7, 1) of note both have 0 in note.ByAbout"), "{told}");
    is_old(&old(builder(&disk)).open().unwrap());
    drop(further().table::<further_key::Note>(0).open().unwrap());
    let told = refusal(old(builder(&disk)).open());
    assert!(told.contains("shelf: u8"), "{told}");
    // And back, with all that is said.
    let halved = |row: &heddledb::table::dynamic::RowValues| Ok(Value::from(row.get::<u64>("about")? as u32));
    let back = Migration::new().set_with("note", "about", halved);
    let told = refusal(old(builder(&disk)).migrate(back.clone()).open());
    assert!(told.contains("column shelf is part of the key"), "{told}");
    assert!(told.contains("give it up, with `.drop(\"note\", \"shelf\")`"), "{told}");
    let db =
        note(
            Migration::new()
                .after(1)
                .set_with("note", "about", |row| Ok((row.get::<u64>("about")? as u8).into())),
        )
        .table::<NarrowShelf>(0)
        .open()
        .unwrap();
    let row = db.session().unwrap().run(|tx| tx.get::<NarrowShelf>((7, 9))).unwrap().unwrap();
    assert_eq!((row.shelf, row.id, row.about), (7, 9, 4));
}

#[derive(Table, Clone, Copy)]
#[table(name = "note")]
struct NarrowShelf {
    #[key]
    shelf: u8,
    #[key]
    id: u64,
    about: u8,
}

/// Old or new, never between; and whoever comes next gets on.
fn old_or_new(left: &Simulated) -> bool {
    let is_changed = match old(builder(left)).open() {
        Ok(db) => {
            is_old(&db);
            false
        }
        Err(Error::Open(error)) => {
            assert!(matches!(*error, LogError::NotDeclared { .. }), "{error}");
            true
        }
        Err(error) => panic!("{error}"),
    };
    is_new(&new(builder(left)).migrate(migration()).open().unwrap());
    is_new(&new(builder(left)).open().unwrap());
    is_changed
}

#[test]
fn a_crash_leaves_the_old_schema_or_the_new_one() {
    let base = directory();
    let (mut before, mut after) = (0, 0);
    for at in 0.. {
        let disk = base.after_kill();
        disk.fail(at, Fault::PowerCut);
        let opened = new(builder(&disk)).migrate(migration()).open();
        if let Ok(db) = opened {
            drop(db);
            if !disk.is_off() {
                break;
            }
        }
        for left in [disk.after_power_cut(at), disk.after_power_cut(at ^ 0x55), disk.after_kill()] {
            *if old_or_new(&left) { &mut after } else { &mut before } += 1;
        }
    }
    assert!(before > 20 && after > 20, "{before} {after}");
}

#[test]
fn a_failure_leaves_the_old_schema_or_the_new_one() {
    let base = directory();
    for fault in [Fault::Error, Fault::Full, Fault::Short, Fault::Interrupted] {
        for at in 0.. {
            let disk = base.after_kill();
            disk.fail(at, fault);
            let before = disk.operations();
            let opened = new(builder(&disk)).migrate(migration()).open().is_ok();
            let operations = disk.operations();
            assert!(opened || matches!(fault, Fault::Error | Fault::Full));
            old_or_new(&disk.after_kill());
            if operations - before < at {
                break;
            }
        }
    }
}

/// A table that is defined at run time, and one of a Rust type that it becomes.
#[test]
fn tables_that_are_defined_at_run_time_change_too() {
    #[derive(Table, Clone, Debug, PartialEq)]
    #[table(name = "city", unique(CityByName(name(max = 30))))]
    struct City {
        #[key]
        country: Text<2>,
        #[key]
        number: u64,
        name: String,
        #[group(people)]
        people: u64,
        mayor: Option<Text<12>>,
    }
    let define = |name: ColumnType, number: ColumnType, people: ColumnType| {
        let table =
            TableDefinition::builder("city").key("country", ColumnType::Text(2)).key("number", number);
        table.column("name", name).column("people", people).group("people")
    };
    let first = define(ColumnType::Text(20), ColumnType::U32, ColumnType::U32).hash();
    let first = first.index("CityByPeople", ["people"]).build().unwrap();
    let wider = || define(ColumnType::String, ColumnType::U64, ColumnType::U64);
    let wider = || wider().column("mayor", ColumnType::Text(12).optional());
    let second = wider().unique("CityByName", [("name", 30)]).build().unwrap();
    let twins = wider().unique("CityByPeople", ["people"]).build().unwrap();
    let disk = Simulated::new();
    let db = builder(&disk).define(first, 0).open().unwrap();
    let cities = db.define(first, 0).unwrap();
    let mut session = db.session().unwrap();
    let row = |at: u32| {
        [["de", "fr"][at as usize % 2].into(), at.into(), format!("city {at}").into(), (at / 2).into()]
    };
    (0..ROWS).for_each(|at| session.run(|tx| tx.rows(&cities)?.insert(&row(at))).unwrap());
    drop((session, cities, db));
    // Refused as it is.
    let told = refusal(builder(&disk).define(twins, 0).migrate(Migration::new()).open());
    assert!(told.contains("rows (de, 0) and (fr, 1) of city both have 0 in city.CityByPeople"), "{told}");
    let told = refusal(builder(&disk).define(second, 0).open());
    assert!(told.contains("city"), "{told}");
    let db = builder(&disk).define(first, 0).open().unwrap();
    assert!(db.recovery().unwrap().indexes.is_empty() && db.check().unwrap().is_whole());
    drop(db);
    // Done, and found by what was defined and by a Rust type.
    let db = builder(&disk).define(second, 0).migrate(Migration::new()).open().unwrap();
    assert!(db.recovery().unwrap().schema.to_string().contains("city: a hash table becomes a tree"));
    let cities = db.define(second, 0).unwrap();
    let mut session = db.session().unwrap();
    let found = session.run(|tx| tx.rows(&cities)?.find("CityByName", &["city 31".into()])).unwrap().unwrap();
    assert_eq!((&found["number"], &found["mayor"]), (&Value::U64(31), &Value::Null));
    drop((session, cities, db));
    let db = builder(&disk).table::<City>(0).migrate(Migration::new()).open().unwrap();
    assert!(db.recovery().unwrap().schema.is_empty() && db.check().unwrap().is_whole());
    let rows = db.session().unwrap().run(|tx| tx.collect(Scan::<City>::all())).unwrap();
    assert_eq!(rows.len(), ROWS as usize);
    assert!(
        rows.iter().all(|row| row.name == format!("city {}", row.number) && row.people == row.number / 2)
    );
}

/// A chain of versions: a program with all of their changes opens a directory of any of them.
#[test]
fn a_program_keeps_the_changes_of_all_its_versions() {
    #[derive(Table, Clone, Copy)]
    #[table(name = "item")]
    struct One {
        #[key]
        id: u32,
        a: u32,
    }
    #[derive(Table, Clone, Copy)]
    #[table(name = "item")]
    struct Two {
        #[key]
        id: u32,
        b: u32,
        c: u8,
    }
    #[derive(Table, Clone, Copy)]
    #[table(name = "thing")]
    struct Three {
        #[key]
        id: u64,
        d: u64,
    }
    let one = || Migration::new();
    let two = || one().rename("item", "a", "b").set("item", "c", 3u8);
    let three = || {
        two()
            .rename_table("item", "thing")
            .rename("thing", "a", "b")
            .rename("thing", "b", "d")
            .drop("thing", "c")
    };
    for versions in ["1 2 3", "1 3", "2 3", "3", "1 2 2 3 3"] {
        let disk = Simulated::new();
        let mut seen = 0;
        for version in versions.split(' ') {
            let builder = builder(&disk);
            let id = seen + 1;
            seen = match version {
                "1" => {
                    let db = builder.table::<One>(0).migrate(one()).open().unwrap();
                    db.session().unwrap().run(|tx| tx.insert(One { id, a: id * 10 })).unwrap();
                    id
                }
                "2" => {
                    let db = builder.table::<Two>(0).migrate(two()).open().unwrap();
                    let rows = db.session().unwrap().run(|tx| tx.collect(Scan::<Two>::all())).unwrap();
                    assert!(rows.iter().all(|row| row.b == row.id * 10 && row.c == 3));
                    db.session().unwrap().run(|tx| tx.insert(Two { id, b: id * 10, c: 3 })).unwrap();
                    id
                }
                _ => {
                    let db = builder.table::<Three>(0).migrate(three()).open().unwrap();
                    let rows = db.session().unwrap().run(|tx| tx.collect(Scan::<Three>::all())).unwrap();
                    assert_eq!(rows.len() as u32, seen);
                    assert!(rows.iter().all(|row| row.d == row.id * 10));
                    let row = Three { id: id.into(), d: u64::from(id) * 10 };
                    db.session().unwrap().run(|tx| tx.insert(row)).unwrap();
                    id
                }
            };
        }
    }
}
