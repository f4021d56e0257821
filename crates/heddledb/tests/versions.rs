//! A directory counts the changes of its schema that it has taken, so an earlier version of a program cannot undo a later one's.

use heddledb::storage::Simulated;
use heddledb::{
    Builder, Database, Error, LogError, Migration, ReadTransaction, Scan, Table, Text, Transaction,
};
use std::sync::Arc;

/// A table of accounts as a version has it, with what it says of all changes so far.
macro_rules! version {
    ($name:ident { $($column:ident: $type:ty,)* } $migration:expr) => {
        mod $name {
            use super::*;

            #[derive(Table, Clone, Copy, Debug, PartialEq)]
            pub struct Account {
                #[key]
                pub id: u32,
                $(pub $column: $type,)*
            }

            pub fn migration() -> Migration {
                $migration
            }

            pub fn builder(disk: &Simulated) -> Builder {
                let builder = Database::builder().manual_epochs().recovery_threads(1).storage(Arc::new(disk.clone()));
                builder.table::<Account>(0).migrate(migration())
            }
        }
    };
}

version!(first { cents: i64, fax: u32, } Migration::new());
version!(second { cents: i64, country: Text<2>, } first::migration()
    .drop("account", "fax")
    .set("account", "country", "GB"));
version!(third { cents: i64, country: Text<40>, fax: u32, } second::migration().set("account", "fax", 7_u32));
// The changes that the directory has taken were left out of the program since.
version!(fourth { cents: i64, country: Text<40>, fax: u32, closed: bool, } Migration::new()
    .after(3)
    .set("account", "closed", false));

/// Why a directory is refused.
fn refusal(builder: Builder) -> String {
    match builder.open().err() {
        Some(Error::Open(error)) if matches!(*error, LogError::Migration { .. }) => error.to_string(),
        other => panic!("not refused for its schema: {other:?}"),
    }
}

fn put<R: Table + Copy>(builder: Builder, row: R) {
    let db = builder.open().unwrap();
    db.session().unwrap().run(|tx| tx.insert(row)).unwrap();
}

fn rows<R: Table>(builder: Builder) -> Vec<R> {
    let db = builder.open().unwrap();
    db.session().unwrap().run(|tx| tx.collect(Scan::<R>::all())).unwrap()
}

#[test]
fn an_earlier_version_changes_nothing_of_a_later_one() {
    let disk = Simulated::new();
    put(first::builder(&disk), first::Account { id: 1, cents: 5, fax: 9 });
    put(second::builder(&disk), second::Account { id: 2, cents: 6, country: Text::truncated("FR") });
    let finland = third::Account { id: 3, cents: 7, country: Text::truncated("Finland"), fax: 8 };
    put(third::builder(&disk), finland);
    // The second one would put GB into every row, and drop the column that has come again.
    let said = refusal(second::builder(&disk));
    assert!(said.contains("has taken 3 changes, and this program has 2"), "{said}");
    // And is told nothing that would undo it.
    assert!(!said.contains(".set(") && !said.contains(".drop("), "{said}");
    assert!(!second::builder(&disk).schema_change().unwrap().is_complete());
    // The first has no changes, and is told what it lacks.
    let said = refusal(first::builder(&disk));
    assert!(said.contains("column country is not declared"), "{said}");
    let due = |id, cents, country, fax| third::Account { id, cents, country: Text::truncated(country), fax };
    let all = [due(1, 5, "GB", 7), due(2, 6, "FR", 7), finland];
    assert_eq!(rows::<third::Account>(third::builder(&disk)), all);
}

// The second one drops a column, and the third one has another of that name and type.
#[test]
fn a_directory_that_skips_a_version_is_as_if_it_had_not() {
    let disk = Simulated::new();
    put(first::builder(&disk), first::Account { id: 1, cents: 5, fax: 9 });
    let shown = third::builder(&disk).schema_change().unwrap().to_string();
    assert!(shown.contains("account: column fax is dropped, and new, and 7 in every row"), "{shown}");
    let row = third::Account { id: 1, cents: 5, country: Text::truncated("GB"), fax: 7 };
    assert_eq!(rows::<third::Account>(third::builder(&disk)), [row]);
}

version!(wider { cents: i128, fax: u32, } Migration::new().set("account", "cents", 0_i128).set("account", "fax", 0_u32));

#[test]
fn what_is_said_of_a_column_that_loses_nothing_is_passed_over_and_told() {
    let disk = Simulated::new();
    put(first::builder(&disk), first::Account { id: 1, cents: 5, fax: 9 });
    let shown = wider::builder(&disk).schema_change().unwrap().to_string();
    for column in ["cents", "fax"] {
        let told = format!("account: column {column} keeps what it holds, since its type has all of that");
        assert!(shown.contains(&told), "{shown}");
    }
    assert_eq!(rows::<wider::Account>(wider::builder(&disk)), [wider::Account { id: 1, cents: 5, fax: 9 }]);
}

#[test]
fn what_a_directory_has_taken_is_passed_over() {
    let disk = Simulated::new();
    // Made by the third version: it has taken what that says, though it needed nothing.
    put(
        third::builder(&disk),
        third::Account { id: 3, cents: 7, country: Text::truncated("Finland"), fax: 8 },
    );
    mod unsaid {
        use super::*;

        #[derive(Table, Clone, Copy, Debug, PartialEq)]
        pub struct Account {
            #[key]
            pub id: u32,
            pub cents: i64,
            pub country: Text<40>,
        }
    }
    // Its last change is another, but the second one, long taken, drops a column of that name.
    let further = third::migration().rename("account", "dollars", "cents");
    let builder = || {
        let builder = Database::builder().manual_epochs().recovery_threads(1).storage(Arc::new(disk.clone()));
        builder.table::<unsaid::Account>(0)
    };
    let said = refusal(builder().migrate(further.clone()));
    assert!(said.contains("column fax is not declared"), "{said}");
    assert!(said.contains("the first 3 of the 4 changes"), "{said}");
    let db = builder().migrate(further.drop("account", "fax")).open().unwrap();
    let country = db.session().unwrap().run(|tx| Ok(tx.get::<unsaid::Account>(3)?.map(|row| row.country)));
    assert_eq!(country.unwrap().unwrap().as_str(), "Finland");
}

#[test]
fn changes_that_every_directory_has_taken_can_be_left_out() {
    let disk = Simulated::new();
    put(
        third::builder(&disk),
        third::Account { id: 3, cents: 7, country: Text::truncated("Finland"), fax: 8 },
    );
    // Nobody says that three were before it: one change against three.
    let said = refusal(
        Database::builder()
            .manual_epochs()
            .storage(Arc::new(disk.clone()))
            .table::<fourth::Account>(0)
            .migrate(Migration::new().set("account", "closed", false)),
    );
    assert!(said.contains("`Migration::after`"), "{said}");
    let row = fourth::Account { id: 3, cents: 7, country: Text::truncated("Finland"), fax: 8, closed: false };
    assert_eq!(rows::<fourth::Account>(fourth::builder(&disk)), [row]);
    assert!(refusal(third::builder(&disk)).contains("has taken 4 changes, and this program has 3"));
}

#[test]
fn copies_and_restored_directories_have_taken_what_theirs_had() {
    let (disk, copy, restored) = (Simulated::new(), Simulated::new(), Simulated::new());
    put(
        third::builder(&disk),
        third::Account { id: 3, cents: 7, country: Text::truncated("Finland"), fax: 8 },
    );
    let db = third::builder(&disk).open().unwrap();
    db.backup(heddledb::Backup::to_storage(Arc::new(copy.clone()))).unwrap();
    heddledb::Restore::from_storage(Arc::new(copy.clone())).to_storage(Arc::new(restored.clone())).unwrap();
    for directory in [&copy, &restored] {
        assert!(refusal(second::builder(directory)).contains("has taken 3 changes, and this program has 2"));
    }
}
