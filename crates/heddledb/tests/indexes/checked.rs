//! What a check of indexes and files finds, and what an opening finds out of an older directory.

use crate::{builder, due, entries, indexed, mail, open_indexed, plain, without_indexes};
use heddledb::internals::BuilderInternals;
use heddledb::internals::log::{Manifest, RelationEntry};
use heddledb::storage::{Simulated, Storage};
use heddledb::table::Relation;
use heddledb::{Database, Error, IndexReason, LogError, Transaction};

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
