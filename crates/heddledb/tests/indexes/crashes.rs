//! Openings that are cut short while they build or remove indexes.

use crate::{builder, due, entries, indexed, open_indexed, person, plain, without_indexes};
use heddledb::internals::log::Manifest;
use heddledb::storage::{Fault, Simulated};
use heddledb::{Database, Error, Transaction};

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
