//! Values of any length: their limits, and rows of values that have them. What becomes of them under each protocol is in the
//! conformance suite.

use heddledb::procedure::{Declaration, workload};
use heddledb::protocol::Kind;
use heddledb::storage::Simulated;
use heddledb::table::VALUE_BYTES_MAX;
use heddledb::table::dynamic::{TableDefinition, Value};
use heddledb::{
    Builder, Database, Durability, Error, Misuse, ReadTransaction, Result, RowScan, Scan, Table, Transaction,
};
use heddledb_analysis::text;
use std::sync::Arc;
use std::time::Duration;

/// What is in each column follows from `id` and `version`.
#[derive(Table, Clone, Debug, PartialEq)]
#[table(index(ByVersion(version)))]
struct Note {
    #[key]
    id: u64,
    version: u64,
    title: String,
    #[group(body)]
    body: Option<String>,
    #[group(body)]
    data: Vec<u8>,
    #[group(reads)]
    reads: u64,
}

impl Note {
    fn of(id: u64, version: u64) -> Self {
        let length = |step: u64, most: u64| (id * 31 + version * step) % most;
        let text =
            |length: u64| (0..length).map(|at| (b'a' + ((at + id + version) % 26) as u8) as char).collect();
        Self {
            id,
            version,
            title: text(length(7, 40)),
            body: (!version.is_multiple_of(3)).then(|| text(length(613, 3000))),
            data: (0..length(17, 90)).map(|at| (at * version + id) as u8).collect(),
            reads: 0,
        }
    }
}

fn memory(kind: Kind) -> Builder {
    let builder = Database::builder().protocol(kind).sessions(kind.sessions_max().min(4));
    builder.manual_epochs().snapshot_interval(Duration::ZERO).table::<Note>(0)
}

fn open(kind: Kind, disk: &Simulated) -> Database {
    memory(kind)
        .recovery_threads(2)
        .durability(Durability::Epoch)
        .storage(Arc::new(disk.clone()))
        .open()
        .unwrap()
}

#[test]
fn rows_of_values_have_long_texts_too() {
    let db = memory(Kind::Silo).open().unwrap();
    let notes = db.define(TableDefinition::of::<Note>().unwrap(), 0).unwrap();
    let mut session = db.session().unwrap();
    let note = Note::of(5, 4);
    session.run(|tx| tx.insert(note.clone())).unwrap();
    let row = session.run(|tx| tx.rows(&notes)?.get(&[5u64.into()])).unwrap().unwrap();
    assert_eq!(
        (row.get::<&str>("body").unwrap(), &row["data"]),
        (&note.body.clone().unwrap()[..], &Value::Bytes(note.data.clone()))
    );
    session
        .run(|tx| {
            tx.rows(&notes)?.update(&[5u64.into()], |row| row.set("body", "x".repeat(5000)))?;
            tx.rows(&notes)?.insert(&[
                6u64.into(),
                1u64.into(),
                "t".repeat(100).into(),
                Value::Null,
                vec![7u8; 99].into(),
                0u64.into(),
            ])
        })
        .unwrap();
    let rows = session.run(|tx| all_rows(tx, &notes)).unwrap();
    assert_eq!(rows, ["x".repeat(5000), "null".to_owned()]);
    assert_eq!(session.run(|tx| tx.get::<Note>(6)).unwrap().unwrap().title, "t".repeat(100));
}

fn all_rows(tx: &mut heddledb::Txn, notes: &heddledb::RowTable) -> Result<Vec<String>> {
    Ok(tx.rows(notes)?.collect(RowScan::all())?.iter().map(|row| row["body"].to_string()).collect())
}

#[test]
fn too_long_values_are_refused_and_nothing_is_done() {
    for kind in [Kind::Silo, Kind::Ic3, Kind::Unprotected] {
        let db = memory(kind).open().unwrap();
        let mut session = db.session().unwrap();
        let long = || "x".repeat(VALUE_BYTES_MAX + 1);
        let is_refusal = |error: Error| matches!(error, Error::Misuse(misuse) if matches!(*misuse, Misuse::ValueTooLong { table: "note", .. }));
        session
            .run(|tx| {
                tx.insert(Note::of(1, 1))?;
                assert!(is_refusal(tx.insert(Note { title: long(), ..Note::of(2, 2) }).unwrap_err()));
                assert!(is_refusal(tx.upsert(Note { title: long(), ..Note::of(1, 2) }).unwrap_err()));
                assert!(is_refusal(
                    tx.update_columns(1, Note::body, |body| *body = Some(long())).unwrap_err()
                ));
                assert!(is_refusal(tx.set_columns(1, Note::title, long()).unwrap_err()));
                Ok(())
            })
            .unwrap();
        assert_eq!(session.run(|tx| tx.collect(Scan::<Note>::all())).unwrap(), [Note::of(1, 1)], "{kind}");
        let longest = "y".repeat(VALUE_BYTES_MAX);
        session.run(|tx| tx.set_columns(1, Note::title, longest.clone())).unwrap();
        assert_eq!(session.run(|tx| tx.get_columns(1, Note::title)).unwrap().unwrap(), longest);
    }
}

fn is_too_large(error: Error) -> bool {
    matches!(error, Error::Misuse(misuse) if matches!(*misuse, Misuse::TooLarge { .. }))
}

/// Sixteen mebibytes four times are more than a frame of the log takes.
#[test]
fn a_transaction_that_fits_in_no_frame_is_refused() {
    let db = open(Kind::Silo, &Simulated::new());
    let mut session = db.session().unwrap();
    let long = |id| Note { title: "x".repeat(VALUE_BYTES_MAX), ..Note::of(id, 1) };
    let refused = session.run(|tx| (0..4).try_for_each(|id| tx.insert(long(id)))).unwrap_err();
    assert!(is_too_large(refused));
    session.run(|tx| (0..3).try_for_each(|id| tx.insert(long(id)))).unwrap();
    // They stay in their rows, and are logged with the other columns of their group.
    let refused = session.run(|tx| {
        (0..3).try_for_each(|id| tx.update_columns(id, Note::version, |version| *version += 1))?;
        tx.insert(long(9))
    });
    assert!(is_too_large(refused.unwrap_err()));
    db.flush().unwrap();
}

/// What is there is compared with what is set, so a procedure that sets a text declares that it reads it.
#[test]
fn a_text_that_is_set_is_read() {
    let printed = |access: fn(&mut Declaration)| {
        let mut declared = Declaration::new("p");
        access(&mut declared);
        text::print(&workload("w", [&declared]))
    };
    assert_eq!(printed(|made| made.set(Note::title)), printed(|made| made.update(Note::title)));
    assert_ne!(printed(|made| made.set(Note::reads)), printed(|made| made.update(Note::reads)));
}
