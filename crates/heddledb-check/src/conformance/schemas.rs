//! Schemas that change: what can be changed is, and what cannot be leaves the directory as it was.

use super::Test;
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::{
    Builder, Database, Durability, Error, LogError, Migration, ReadTransaction, Scan, Table, Transaction,
};
use std::sync::Arc;

pub(super) fn tests() -> Vec<Test> {
    vec![Test { name: "schemas_change_or_stay", run: change_or_stay }]
}

/// A person as several versions of a program declare it.
macro_rules! persons {
    ($($(#[$attribute:meta])* $name:ident: $owner:ty;)*) => {
        $(#[derive(Table, Clone, Debug, PartialEq)]
        #[table(name = "conformance_person")]
        $(#[$attribute])*
        struct $name {
            #[key]
            id: u64,
            name: String,
            owner: $owner,
        })*
    };
}
persons! {
    #[table(index(ByOwner(owner)))]
    First: u32;
    #[table(unique(ByNameAlone(name(max = 20))))]
    Alone: u64;
    #[table(index(ByName(name(max = 20))))]
    Second: u64;
}

const ROWS: u64 = 40;

/// Two persons have each name.
fn name(id: u64) -> String {
    format!("name {}", id % (ROWS / 2))
}

fn builder(kind: Kind, disk: &Simulated) -> Builder {
    let builder = Database::builder().protocol(kind).sessions(1).manual_epochs().recovery_threads(2);
    builder.durability(Durability::Sync).storage(Arc::new(disk.clone()))
}

fn change_or_stay(kind: Kind) {
    let disk = Simulated::new();
    let first = || builder(kind, &disk).table::<First>(0).open().unwrap();
    let db = first();
    let mut session = db.session().unwrap();
    let person = |id| First { id, name: name(id), owner: id as u32 / 3 };
    session.run(|tx| (0..ROWS / 2).try_for_each(|id| tx.insert(person(id)))).unwrap();
    db.checkpoint().unwrap();
    session.run(|tx| (ROWS / 2..ROWS).try_for_each(|id| tx.insert(person(id)))).unwrap();
    drop((session, db));

    let alone = builder(kind, &disk).table::<Alone>(0).migrate(Migration::new()).open();
    match alone.map(drop) {
        Err(Error::Open(error)) if matches!(*error, LogError::NotUnique(_)) => {}
        other => panic!("{kind}: {other:?}"),
    }
    let db = first();
    let rows = db.session().unwrap().run(|tx| tx.collect(Scan::<ByOwner>::prefix((4,)))).unwrap();
    assert_eq!(rows, [12, 13, 14].map(person), "{kind}");
    drop(db);

    // The second opening finds what the first has made.
    for migration in [Migration::new(), Migration::default()] {
        let db = builder(kind, &disk).table::<Second>(0).migrate(migration).open().unwrap();
        let mut session = db.session().unwrap();
        let rows = session.run(|tx| tx.collect(Scan::<ByName>::prefix((name(7)[..].into(),)))).unwrap();
        let expected = [7, 7 + ROWS / 2].map(|id| Second { id, name: name(id), owner: id / 3 });
        assert_eq!(rows, expected, "{kind}");
        let report = db.check().unwrap();
        assert!(report.is_whole() && report.indexes[0].rows == ROWS, "{kind}: {report}");
    }
}
