//! Tables that are defined at run time: the same rows by values and by types, in one database and in one directory.

use heddledb::protocol::Kind;
use heddledb::table::dynamic::{ColumnType, TableDefinition, Value};
use heddledb::{
    Builder, Database, Error, Misuse, ReadTransaction, Result, RowScan, RowTable, Scan, Table, Text,
    Transaction,
};
use std::ops::Bound;

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(index(ByOwner(owner)), unique(ByNumber(number)))]
struct Account {
    #[key]
    branch: u16,
    #[key]
    id: u64,
    owner: Text<12>,
    number: u32,
    #[group(money)]
    balance: i64,
    #[group(money)]
    limit: Option<i64>,
}

/// The same table, as data.
fn definition() -> &'static TableDefinition {
    TableDefinition::builder("account")
        .key("branch", ColumnType::U16)
        .key("id", ColumnType::U64)
        .column("owner", ColumnType::Text(12))
        .column("number", ColumnType::U32)
        .column("balance", ColumnType::I64)
        .group("money")
        .column("limit", ColumnType::I64.optional())
        .group("money")
        .index("ByOwner", ["owner"])
        .unique("ByNumber", ["number"])
        .build()
        .unwrap()
}

fn account(branch: u16, id: u64, owner: &str) -> Account {
    let number = u32::from(branch) * 100 + id as u32;
    Account { branch, id, owner: Text::truncated(owner), number, balance: 100, limit: None }
}

fn values(branch: u16, id: u64, owner: &str) -> [Value; 6] {
    let Account { number, .. } = account(branch, id, owner);
    [branch.into(), id.into(), owner.into(), number.into(), 100i64.into(), Value::Null]
}

fn key(branch: u16, id: u64) -> [Value; 2] {
    [branch.into(), id.into()]
}

fn owners(db: &Database, table: &RowTable, scan: RowScan<'_>) -> Vec<String> {
    let rows = db.session().unwrap().run(|tx| tx.rows(table)?.collect(scan)).unwrap();
    rows.iter().map(|row| row.get::<&str>("owner").unwrap().to_owned()).collect()
}

/// Some rows by values, and what becomes of them: under any protocol.
fn work(db: &Database, table: &RowTable) -> Result<()> {
    let mut session = db.session()?;
    session.run(|tx| {
        let mut rows = tx.rows(table)?;
        rows.insert(&values(1, 1, "ada"))?;
        rows.insert(&values(1, 2, "bo"))?;
        rows.insert(&values(2, 1, "ada"))?;
        rows.insert(&values(2, 2, "cy"))?;
        // Own writes are seen.
        assert_eq!(rows.get(&key(1, 2))?.unwrap()["owner"], "bo".into());
        rows.update(&key(1, 2), |row| {
            row.set("owner", "dee")?;
            row.set("limit", 50i64)
        })?;
        assert!(rows.find("ByOwner", &["bo".into()])?.is_none());
        assert_eq!(rows.find("ByOwner", &["dee".into()])?.unwrap().get::<u64>("id")?, 2);
        assert!(rows.delete(&key(2, 2))?);
        assert!(!rows.delete(&key(2, 2))?);
        Ok(())
    })?;
    assert_eq!(owners(db, table, RowScan::all()), ["ada", "dee", "ada"]);
    assert_eq!(owners(db, table, RowScan::all().reverse().limit(2)), ["ada", "dee"]);
    assert_eq!(owners(db, table, RowScan::prefix(&[1u16.into()])), ["ada", "dee"]);
    let above = [1u16.into(), 1u64.into()];
    let range = (Bound::Excluded(&above[..]), Bound::Unbounded);
    assert_eq!(owners(db, table, RowScan::range(range)), ["dee", "ada"]);
    assert_eq!(owners(db, table, RowScan::all().by("ByOwner")), ["ada", "ada", "dee"]);
    assert_eq!(owners(db, table, RowScan::prefix(&[102u32.into()]).by("ByNumber")), ["dee"]);
    // On a snapshot too.
    let mut snapshot = db.snapshot()?;
    assert_eq!(snapshot.rows(table).get(&key(1, 2))?.unwrap()["limit"], Value::I64(50));
    assert_eq!(snapshot.rows(table).collect(RowScan::all().by("ByOwner"))?.len(), 3);
    Ok(())
}

#[test]
fn rows_by_values_under_every_protocol() {
    for kind in Kind::ALL {
        let sessions = 3.min(kind.sessions_max());
        let db = Database::builder().protocol(*kind).sessions(sessions).open().unwrap();
        if sessions < 3 {
            continue;
        }
        let table = db.define(definition(), 10).unwrap();
        work(&db, &table).unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
}

#[test]
fn a_typed_and_an_untyped_program_work_on_one_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bank");
    let open = |builder: Builder| builder.path(&path).open().unwrap();

    // A program with types.
    let db = open(Database::builder().table::<Account>(10));
    let rows = [account(1, 1, "ada"), account(1, 2, "bo")];
    db.session().unwrap().run(|tx| rows.iter().try_for_each(|row| tx.insert(*row))).unwrap();
    drop(db);

    // One that knows of the table when it runs, under another protocol.
    let db = open(Database::builder().protocol(Kind::Ic3).define(definition(), 10));
    let table = db.define(definition(), 10).unwrap();
    assert_eq!(owners(&db, &table, RowScan::all()), ["ada", "bo"]);
    let changed = db.session().unwrap().run(|tx| {
        let mut rows = tx.rows(&table)?;
        rows.insert(&values(2, 7, "cy"))?;
        rows.update(&key(1, 2), |row| row.set("owner", "dee"))?;
        rows.update(&key(1, 2), |row| row.set("balance", -5i64))
    });
    changed.unwrap();
    db.checkpoint().unwrap();
    drop(db);

    // And the first again.
    let db = open(Database::builder().protocol(Kind::TicToc).table::<Account>(10));
    let mut session = db.session().unwrap();
    let all = session.run(|tx| tx.collect(Scan::<Account>::all())).unwrap();
    let dee = Account { owner: Text::truncated("dee"), balance: -5, ..account(1, 2, "") };
    assert_eq!(all, [account(1, 1, "ada"), dee, account(2, 7, "cy")]);
    assert_eq!(session.run(|tx| tx.find::<ByOwner>(Text::truncated("dee"))).unwrap(), Some(dee));
    assert_eq!(session.run(|tx| tx.find::<ByOwner>(Text::truncated("bo"))).unwrap(), None);
    assert_eq!(session.run(|tx| tx.find::<ByNumber>(207)).unwrap(), Some(account(2, 7, "cy")));
}

#[test]
fn a_table_has_types_and_values_at_once() {
    let db = Database::builder().table::<Account>(10).open().unwrap();
    let table = db.define(definition(), 10).unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| tx.insert(account(1, 1, "ada"))).unwrap();
    session.run(|tx| tx.rows(&table)?.insert(&values(1, 2, "bo"))).unwrap();
    assert_eq!(owners(&db, &table, RowScan::all()), ["ada", "bo"]);
    assert_eq!(session.run(|tx| tx.get::<Account>((1, 2))).unwrap(), Some(account(1, 2, "bo")));
    // A key and a unique entry that are there already, by whomever.
    let again = session.run(|tx| tx.rows(&table)?.insert(&values(1, 1, "eve"))).unwrap_err();
    assert!(matches!(again.misuse(), Some(Misuse::DuplicateKey { table: "account", .. })), "{again}");
    let mut same_number = values(3, 1, "eve");
    same_number[3] = 101u32.into();
    let again = session.run(|tx| tx.rows(&table)?.insert(&same_number)).unwrap_err();
    assert!(matches!(again.misuse(), Some(Misuse::DuplicateEntry { .. })), "{again}");
    assert_eq!(owners(&db, &table, RowScan::all()), ["ada", "bo"], "what failed left nothing");
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let db = Database::builder().table::<Account>(10).open().unwrap();
    let other = TableDefinition::builder("account").key("id", ColumnType::U64).build().unwrap();
    let error = db.define(other, 0).unwrap_err().to_string();
    assert!(error.contains("defined as `branch: u16"), "{error}");

    let table = db.define(definition(), 0).unwrap();
    let mut session = db.session().unwrap();
    let mut refused = |work: &dyn Fn(&mut heddledb::Rows<'_, heddledb::Txn>) -> Result<()>| {
        let error: Error = session.run(|tx| work(&mut tx.rows(&table)?)).unwrap_err();
        error.to_string()
    };
    let told = refused(&|rows| rows.insert(&[1u16.into()]));
    assert!(told.contains("account"), "{told}");
    let told = refused(&|rows| rows.get(&[Value::from(1u64), 1u64.into()]).map(|_| ()));
    assert!(told.contains("branch"), "{told}");
    let told = refused(&|rows| rows.find("ByName", &[]).map(|_| ()));
    assert!(told.contains("ByOwner, ByNumber"), "{told}");
    let told = refused(&|rows| rows.update(&key(9, 9), |row| row.set("balance", 1i64)));
    assert!(told.contains("no row with key (9, 9)"), "{told}");
    let told = refused(&|rows| {
        rows.insert(&values(4, 4, "ada"))?;
        rows.update(&key(4, 4), |row| row.set("id", 5u64))
    });
    assert!(told.contains("may not change the key"), "{told}");
    let told = refused(&|rows| {
        rows.insert(&values(4, 4, "ada"))?;
        rows.update(&key(4, 4), |row| row.set("wealth", 5u64))
    });
    assert!(told.contains("no column wealth"), "{told}");
}

#[test]
fn a_table_is_not_made_twice_under_one_name() {
    // The Rust type first: it is that table.
    let db = Database::in_memory();
    let mut session = db.session().unwrap();
    session.run(|tx| tx.insert(account(1, 1, "ada"))).unwrap();
    let table = db.define(definition(), 10).unwrap();
    assert_eq!(owners(&db, &table, RowScan::all()), ["ada"]);
    // By values first: the type would be another table of the same name, whose rows nobody finds.
    let db = Database::in_memory();
    let table = db.define(definition(), 10).unwrap();
    let mut session = db.session().unwrap();
    let refused = session.run(|tx| tx.insert(account(1, 1, "ada"))).unwrap_err();
    assert!(matches!(refused.misuse(), Some(Misuse::TwoOfOneName { relation: "account" })), "{refused}");
    session.run(|tx| tx.rows(&table)?.insert(&values(1, 1, "bo"))).unwrap();
    assert_eq!(owners(&db, &table, RowScan::all()), ["bo"]);
}

/// The first relations of a process are found otherwise than those that come after a hundred others.
#[test]
fn hundreds_of_tables_work_and_are_reopened() {
    const TABLES: u64 = 150;
    let name = |number: u64| format!("many{number}");
    let definition = |number| {
        let table = TableDefinition::builder(name(number)).key("id", ColumnType::U64);
        table.column("word", ColumnType::U64).index(format!("ByWord{number}"), ["word"]).build().unwrap()
    };
    let definitions: Vec<_> = (0..TABLES).map(definition).collect();
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let builder = Database::builder().path(directory.path().join("many"));
        let builder = definitions.iter().fold(builder, |builder, table| builder.define(table, 0));
        let db = builder.open().unwrap();
        let tables: Vec<_> = definitions.iter().map(|table| db.define(table, 0).unwrap()).collect();
        (db, tables)
    };
    let (db, tables) = open();
    for (number, table) in (0..).zip(&tables) {
        let values = [number, number * 7].map(Value::from);
        db.session().unwrap().run(|tx| tx.rows(table)?.insert(&values)).unwrap();
        if number == TABLES / 2 {
            db.checkpoint().unwrap();
        }
    }
    drop(db);
    let (db, tables) = open();
    let mut session = db.session().unwrap();
    for (number, table) in (0..).zip(&tables) {
        let by = format!("ByWord{number}");
        let found = session.run(|tx| tx.rows(table)?.find(&by, &[(number * 7).into()])).unwrap();
        assert_eq!(found.expect("it was inserted").get::<u64>("id").unwrap(), number);
        let all = session.run(|tx| tx.rows(table)?.collect(RowScan::all())).unwrap();
        assert_eq!(all.len(), 1, "{}", name(number));
    }
}
