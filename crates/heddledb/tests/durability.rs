//! Databases with files: what is there after they are opened again.

use heddledb::protocol::Kind;
use heddledb::storage::{Fault, File, Guard, Simulated, Storage};
use heddledb::{
    Builder, Compression, Database, Durability, Error, LogError, Misuse, ReadTransaction, Scan, Table, Text,
    Transaction,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(index(ByOwner(owner)))]
struct Account {
    #[key]
    id: u64,
    owner: Text<12>,
    #[group(money)]
    balance: i64,
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
struct Note {
    #[key]
    id: u32,
    text: Text<40>,
}

fn account(id: u64, balance: i64) -> Account {
    Account { id, owner: Text::truncated(&format!("owner {}", id % 3)), balance }
}

fn builder(kind: Kind, storage: &Simulated) -> Builder {
    let builder = Database::builder().protocol(kind).manual_epochs().recovery_threads(2);
    builder.table::<Account>(0).table::<Note>(0).storage(Arc::new(storage.clone()))
}

fn rows(db: &Database) -> (BTreeMap<u64, i64>, Vec<Note>) {
    let mut session = db.session().unwrap();
    let accounts = session.run(|tx| tx.collect(Scan::<Account>::all())).unwrap();
    let by_owner = session
        .run(|tx| {
            let mut found = Vec::new();
            for owner in 0..3 {
                let owner = Text::truncated(&format!("owner {owner}"));
                tx.scan_index(Scan::<ByOwner>::prefix((owner,)), |_, id| {
                    found.push(id);
                    std::ops::ControlFlow::Continue(())
                })?;
            }
            Ok(found)
        })
        .unwrap();
    assert_eq!(by_owner.len(), accounts.len(), "the index agrees with the table");
    let notes =
        session.run(|tx| (0..100).map(|id| tx.get::<Note>(id)).collect::<Result<Vec<_>, _>>()).unwrap();
    (accounts.iter().map(|row| (row.id, row.balance)).collect(), notes.into_iter().flatten().collect())
}

/// Some of everything: inserts, updates of single groups, adds, deletes, re-inserts, index moves.
fn work(db: &Database, from: u64) {
    let mut session = db.session().unwrap();
    for id in from..from + 20 {
        session.run(|tx| tx.insert(account(id, id as i64))).unwrap();
        session.run(|tx| tx.upsert(Note { id: id as u32, text: Text::truncated("a note") })).unwrap();
    }
    session.run(|tx| tx.add(Account::balance, from + 1, 100)).unwrap();
    session.run(|tx| tx.update_columns(from + 2, Account::balance, |b| *b = -7)).unwrap();
    session.run(|tx| tx.delete::<Account>(from + 3)).unwrap();
    session.run(|tx| tx.delete::<Account>(from + 4)).unwrap();
    session.run(|tx| tx.insert(account(from + 4, 44))).unwrap();
    session.run(|tx| tx.set_columns(from + 5, Account::owner, Text::truncated("owner 0"))).unwrap();
    session.run(|tx| tx.delete::<Note>(from as u32 + 6)).unwrap();
}

fn survives(one: Kind, other: Kind) {
    let disk = Simulated::new();
    let db = builder(one, &disk).open().unwrap();
    work(&db, 0);
    let expected = rows(&db);
    drop(db);
    for round in 1..4 {
        let db = builder(other, &disk).open().unwrap();
        assert_eq!(rows(&db), expected, "{one} then {other}");
        drop(db);
        let db = builder(one, &disk).log_files(3).compression(Compression::Lz4).open().unwrap();
        work(&db, round * 100);
        if round == 2 {
            let report = db.checkpoint().unwrap();
            assert!(report.rows > 0);
            assert_eq!(disk.list().unwrap().iter().filter(|name| name.starts_with("log-")).count(), 3);
        }
        work(&db, round * 100 + 50);
        let now = rows(&db);
        assert_ne!(now, expected);
        drop(db);
        let db = builder(other, &disk).open().unwrap();
        assert_eq!(rows(&db), now, "{one} then {other}, round {round}");
        db.session().unwrap().run(|tx| tx.upsert(account(7, 0)).map(|_| ())).unwrap();
        drop(db);
        let db = builder(one, &disk).open().unwrap();
        assert_eq!(db.session().unwrap().run(|tx| tx.get::<Account>(7)).unwrap().unwrap().balance, 0);
        db.session().unwrap().run(|tx| tx.upsert(account(7, 7)).map(|_| ())).unwrap();
        drop(db);
        let db = builder(other, &disk).open().unwrap();
        let mut back = rows(&db);
        back.0.insert(7, 7);
        drop(db);
        let db = builder(one, &disk).open().unwrap();
        assert_eq!(rows(&db), back);
        work(&db, round * 100 + 1000);
        db.flush().unwrap();
        let flushed = rows(&db);
        let cut = disk.after_power_cut(round);
        assert_eq!(rows(&builder(other, &cut).open().unwrap()), flushed, "after a power cut");
        drop(db);
        return_to(&disk, &flushed.0.keys().copied().filter(|id| *id >= 20).collect::<Vec<_>>(), &expected);
    }

    fn return_to(disk: &Simulated, extra: &[u64], expected: &(BTreeMap<u64, i64>, Vec<Note>)) {
        let db = builder(Kind::TicToc, disk).open().unwrap();
        let mut session = db.session().unwrap();
        for id in extra {
            session.run(|tx| tx.delete::<Account>(*id)).unwrap();
        }
        for id in 20..100u32 {
            session.run(|tx| tx.delete::<Note>(id)).unwrap();
        }
        session.run(|tx| tx.upsert(account(7, 7))).unwrap();
        drop(session);
        assert_eq!(&rows(&db), expected);
    }
}

#[test]
fn what_was_committed_is_there_under_any_protocol() {
    survives(Kind::Silo, Kind::TicToc);
    survives(Kind::TicToc, Kind::NoWait);
    survives(Kind::NoWait, Kind::Unprotected);
    survives(Kind::Unprotected, Kind::Silo);
}

#[test]
fn a_synced_commit_survives_power_loss_and_a_ticket_tells() {
    let disk = Simulated::new();
    let db = builder(Kind::Silo, &disk).durability(Durability::Sync).open().unwrap();
    let mut session = db.session().unwrap();
    session.run(|tx| tx.insert(account(1, 10))).unwrap();
    let (left, ticket) = session
        .run_pipelined(|tx| {
            tx.update_columns(1, Account::balance, |balance| {
                *balance -= 3;
                *balance
            })
        })
        .unwrap();
    assert!(left == 7 && !ticket.is_durable());
    let found = |disk: Simulated| {
        let db = builder(Kind::TicToc, &disk).open().unwrap();
        rows(&db).0.get(&1).copied()
    };
    (0..20).for_each(|seed| assert_eq!(found(disk.after_power_cut(seed)), Some(10)));
    ticket.wait().unwrap();
    assert!(ticket.is_durable());
    (0..20).for_each(|seed| assert_eq!(found(disk.after_power_cut(seed)), Some(7)));
}

#[test]
fn a_failed_sync_poisons_the_log() {
    for fault in [Fault::Error, Fault::Full] {
        let disk = Simulated::new();
        let db = builder(Kind::TicToc, &disk).durability(Durability::Sync).open().unwrap();
        let mut session = db.session().unwrap();
        session.run(|tx| tx.insert(account(1, 10))).unwrap();
        (0..8).for_each(|next| disk.fail(disk.operations() + next, fault));
        let outcome = session.run(|tx| tx.insert(account(2, 20)));
        assert!(matches!(outcome, Err(Error::OutcomeUnknown(_))), "{outcome:?}");
        let refused = session.run(|tx| tx.insert(account(3, 30)));
        assert!(matches!(refused, Err(Error::LogFailed(_))), "{refused:?}");
        assert!(db.flush().is_err() && db.checkpoint().is_err());
        drop((session, db));
        let found = rows(&builder(Kind::TicToc, &disk.after_power_cut(1)).open().unwrap()).0;
        assert!(found.contains_key(&1) && !found.contains_key(&3), "{found:?}");
    }
}

#[test]
fn directories_are_guarded_against_mistakes() {
    #[derive(Table, Clone, Copy)]
    #[table(name = "account")]
    struct Other {
        #[key]
        id: u64,
        balance: i64,
    }
    #[derive(Table, Clone, Copy)]
    struct Late {
        #[key]
        id: u64,
    }

    let disk = Simulated::new();
    let db = builder(Kind::TicToc, &disk).open().unwrap();
    let Err(Error::Open(error)) = builder(Kind::TicToc, &disk).open() else { panic!("opened twice") };
    assert!(matches!(*error, LogError::Locked { .. }), "{error}");
    work(&db, 0);
    let late = db.session().unwrap().run(|tx| tx.insert(Late { id: 1 }));
    assert!(matches!(late.unwrap_err().misuse(), Some(Misuse::Undeclared { table: "late" })));
    drop(db);
    let fresh = || Database::builder().protocol(Kind::TicToc).manual_epochs().storage(Arc::new(disk.clone()));
    let Err(Error::Open(error)) = fresh().table::<Note>(0).open() else { panic!("a table was forgotten") };
    assert!(matches!(*error, LogError::NotDeclared { .. }), "{error}");
    let Err(Error::Open(error)) = fresh().table::<Note>(0).table::<Other>(0).open() else {
        panic!("another table")
    };
    assert!(error.to_string().contains("balance: i64; key id"), "{error}");
    // A new table is fine.
    let db = builder(Kind::TicToc, &disk).table::<Late>(0).open().unwrap();
    db.session().unwrap().run(|tx| tx.insert(Late { id: 1 })).unwrap();
    drop(db);
    assert!(builder(Kind::TicToc, &disk).open().is_err(), "it is in the files now");
    let db = builder(Kind::TicToc, &disk).table::<Late>(0).open().unwrap();
    assert!(db.session().unwrap().run(|tx| tx.get::<Late>(1)).unwrap().is_some());
}

#[test]
fn without_a_log_checkpoints_survive() {
    let disk = Simulated::new();
    let none = || builder(Kind::TicToc, &disk).durability(Durability::None);
    let db = none().open().unwrap();
    work(&db, 0);
    let saved = rows(&db);
    db.checkpoint().unwrap();
    work(&db, 50);
    drop(db);
    let db = none().open().unwrap();
    assert_eq!(rows(&db), saved);
    assert!(db.flush().is_err());
    assert!(db.session().unwrap().set_durability(Durability::Sync).is_err());
}

#[test]
fn a_directory_on_disk_with_its_own_threads() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let builder = Database::builder().protocol(Kind::TicToc).table::<Account>(100).table::<Note>(100);
        builder.path(directory.path().join("bank")).checkpoint_after(Some(1 << 16)).open()
    };
    for round in 0..3u64 {
        let db = open().unwrap();
        assert_eq!(rows(&db).0.len() as u64, round * 2_000);
        std::thread::scope(|scope| {
            for half in 0..2 {
                let db = &db;
                scope.spawn(move || {
                    let mut session = db.session().unwrap();
                    session.set_durability([Durability::Epoch, Durability::Sync][half as usize]).unwrap();
                    for id in (round * 2_000..).take(2_000).filter(|id| id % 2 == half) {
                        session.run(|tx| tx.insert(account(id, 1))).unwrap();
                    }
                });
            }
        });
        let log = db.metrics().log.unwrap();
        assert!(log.rounds > 0 && log.bytes > 0);
        if round == 1 {
            db.checkpoint().unwrap();
        }
    }
    let db = open().unwrap();
    assert!(db.recovery().unwrap().rows > 0);
}

/// What a killed process left in the system's memory may never have reached the disk: whoever opened the
/// directory in between has to make it durable, its names too.
#[test]
fn what_was_found_after_a_kill_stays_after_a_power_cut() {
    let open = |disk: &Simulated| builder(Kind::TicToc, disk).durability(Durability::Sync).open();
    let live = |disk: &Simulated| -> Result<(), Error> {
        for id in 0..3 {
            let db = open(disk)?;
            db.session()?.run(|tx| tx.insert(account(id, 1)))?;
            db.checkpoint()?;
            db.session()?.run(|tx| tx.insert(account(id + 10, 1)))?;
        }
        Ok(())
    };
    let whole = Simulated::new();
    live(&whole).unwrap();
    for at in 0..whole.operations() {
        let disk = Simulated::new();
        disk.fail(at, Fault::PowerCut);
        assert!(live(&disk).is_err() || disk.is_off());
        // Nobody opens it: only what was durable at the kill has to be there.
        let killed = disk.after_kill();
        assert!(open(&killed.after_power_cut(at)).is_ok(), "killed at {at}, then a power cut");
        // Somebody opens it, and the power is cut at any moment of that, or later.
        let found = rows(&open(&killed).unwrap());
        assert_eq!(rows(&open(&killed.after_power_cut(at)).unwrap()), found, "killed at {at}");
        let mut next = 0;
        loop {
            let again = disk.after_kill();
            again.fail(next, Fault::PowerCut);
            let outcome = open(&again);
            if outcome.is_ok() && !again.is_off() {
                break;
            }
            drop(outcome);
            let left = again.after_power_cut(next);
            if let Err(error) = open(&left) {
                panic!("killed at {at}, power cut at {next} of the recovery: {error}");
            }
            next += 1;
        }
    }
}

#[test]
fn salvage_leaves_a_directory_that_opens() {
    let disk = Simulated::new();
    let db = builder(Kind::TicToc, &disk).log_files(2).open().unwrap();
    work(&db, 0);
    let before = rows(&db);
    drop(db);
    // A bit of the header of a log file: all its frames are right.
    disk.flip("log-0000000001-00", 8 * 41);
    let Err(Error::Open(error)) = builder(Kind::TicToc, &disk).open() else {
        panic!("damage was overlooked")
    };
    assert!(matches!(*error, LogError::Damaged { .. }), "{error}");
    let db = builder(Kind::TicToc, &disk).salvage(true).open().unwrap();
    assert!(!db.recovery().unwrap().lost.is_empty());
    assert_eq!(rows(&db), before);
    drop(db);
    assert_eq!(rows(&builder(Kind::TicToc, &disk).open().unwrap()), before);
}

/// A disk on which a checkpoint takes a while; says when one has begun.
struct SlowCheckpoints {
    disk: Simulated,
    begun: Sender<()>,
}

impl Storage for SlowCheckpoints {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        if name.starts_with("checkpoint") {
            let _ = self.begun.send(());
            std::thread::sleep(Duration::from_millis(100));
        }
        self.disk.create(name)
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.disk.open(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }
    fn lock(&self) -> io::Result<Box<dyn Guard>> {
        self.disk.lock()
    }
    fn place(&self) -> String {
        self.disk.place()
    }
}

/// Who has dropped a database can open its directory again, also if a checkpoint was being taken.
#[test]
fn a_checkpoint_keeps_no_directory_from_being_opened_again() {
    let disk = Simulated::new();
    let (begun, told) = channel();
    let open = || {
        let storage = SlowCheckpoints { disk: disk.clone(), begun: begun.clone() };
        let builder = Database::builder().table::<Account>(0).table::<Note>(0);
        builder.storage(Arc::new(storage)).checkpoint_after(Some(0)).open()
    };
    for round in 0..3 {
        let db = open().expect("whoever had it open is gone");
        let mut session = db.session().unwrap();
        session.run(|tx| tx.insert(account(round, 1))).unwrap();
        db.flush().unwrap();
        while told.try_recv().is_ok() {}
        told.recv_timeout(Duration::from_secs(30)).expect("a checkpoint is taken soon");
        drop(db);
        drop(session);
    }
    assert_eq!(rows(&open().unwrap()).0.len(), 3);
}

/// What a recovery does for each round must not grow with the number of threads, nor what it asks of the disk with the
/// number of rounds: only with the bytes.
#[test]
fn many_small_rounds_are_read_and_handed_over_by_the_mebibyte() {
    const ROUNDS: u64 = 20_000;
    let disk = Simulated::new();
    let open = |disk: &Simulated, threads| {
        let builder = Database::builder().manual_epochs().recovery_threads(threads).table::<Note>(0);
        builder.storage(Arc::new(disk.clone())).open().unwrap()
    };
    let db = open(&disk, 1);
    let mut session = db.session().unwrap();
    for id in 0..ROUNDS as u32 {
        session
            .run(|tx| tx.upsert(Note { id: id % 1000, text: Text::truncated("small") }).map(|_| ()))
            .unwrap();
        db.flush().unwrap();
    }
    assert!(db.metrics().log.unwrap().rounds >= ROUNDS);
    drop((session, db));
    let name = disk.list().unwrap().into_iter().find(|name| name.starts_with("log-")).unwrap();
    let bytes = disk.bytes(&name).len() as u64;
    let mebibytes = bytes >> 20;
    assert!(mebibytes >= 2);
    for threads in 1..4 {
        let again = disk.after_kill();
        let db = open(&again, threads);
        let recovery = db.recovery().unwrap();
        assert_eq!(recovery.transactions, ROUNDS);
        assert!(
            recovery.bytes <= bytes && bytes - recovery.bytes < 4096,
            "{} of {bytes} bytes, once",
            recovery.bytes
        );
        let handed_over = recovery.handed_over;
        assert!(handed_over <= mebibytes + 1, "{handed_over} for {mebibytes} MiB, by {threads} threads");
        assert_eq!(handed_over > 0, threads > 1, "{threads} threads");
        let operations = again.operations();
        assert!(operations <= 60 + 32 * mebibytes, "{operations} for {mebibytes} MiB, by {threads} threads");
        let found = db
            .session()
            .unwrap()
            .run(|tx| (0..1001).map(|id| tx.get::<Note>(id)).collect::<Result<Vec<_>, _>>());
        assert_eq!(found.unwrap().into_iter().flatten().count(), 1000);
    }
}

fn notes(disk: &Simulated) -> Builder {
    Database::builder().manual_epochs().table::<Note>(0).storage(Arc::new(disk.clone()))
}

fn write_notes(db: &Database, ids: std::ops::Range<u32>) {
    let mut session = db.session().unwrap();
    for id in ids {
        session.run(|tx| tx.upsert(Note { id, text: Text::truncated("a note") }).map(|_| ())).unwrap();
        db.advance_epoch();
    }
}

fn checkpoints(disk: &Simulated) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.starts_with("checkpoint-")).collect()
}

#[test]
fn a_checkpoint_at_close_leaves_nothing_to_replay() {
    for durability in [Durability::Epoch, Durability::None] {
        let disk = Simulated::new();
        let open = || notes(&disk).durability(durability).checkpoint_at_close(true).open().unwrap();
        let db = open();
        write_notes(&db, 0..50);
        drop(db);
        let found = checkpoints(&disk);
        assert!(!found.is_empty());
        let db = open();
        let recovery = db.recovery().unwrap();
        assert_eq!((recovery.rows, recovery.transactions), (50, 0), "{durability:?}");
        drop(db);
        if durability != Durability::None {
            assert_eq!(checkpoints(&disk), found, "nothing was logged since");
        }
        // Not when it was killed, or was not told so.
        write_notes(&notes(&disk).open().unwrap(), 50..60);
        let recovery = notes(&disk).open().unwrap().recovery().unwrap().clone();
        assert_eq!((recovery.rows, recovery.transactions), (50, 10), "{durability:?}");
    }
}

#[test]
fn what_earlier_openings_logged_counts_for_the_next_checkpoint() {
    let disk = Simulated::new();
    let due = |db: &Database| {
        let log = db.metrics().log.unwrap();
        (log.replay_bytes, log.replay_time)
    };
    let mut before = (0, Duration::ZERO);
    for opening in 0..3 {
        let db = notes(&disk).open().unwrap();
        assert!(due(&db).0 > before.0 && due(&db).1 > before.1, "{:?} after {before:?}", due(&db));
        write_notes(&db, opening * 20..opening * 20 + 20);
        db.flush().unwrap();
        before = due(&db);
    }
    let db = notes(&disk).open().unwrap();
    let report = db.checkpoint().unwrap();
    assert_eq!(report.rows, 60);
    assert!(due(&db).0 < before.0 / 3 && due(&db).1 < before.1 / 10, "{:?} after {before:?}", due(&db));
}

/// Bytes alone would never do it here.
#[test]
fn a_checkpoint_is_taken_when_a_replay_would_take_long() {
    let disk = Simulated::new();
    let builder = notes(&disk).epoch_interval(Duration::from_millis(1)).checkpoint_after(None);
    let db = builder.checkpoint_after_replay(Some(Duration::from_micros(20))).open().unwrap();
    let begun = std::time::Instant::now();
    let mut next = 0;
    while checkpoints(&disk).is_empty() {
        write_notes(&db, next..next + 50);
        next += 50;
        std::thread::sleep(Duration::from_millis(5));
        assert!(begun.elapsed() < Duration::from_secs(60), "no checkpoint is taken");
    }
}

/// A reader learns of a deletion by finding nothing: a row that is absent, no entry at all, or the place of an insert that
/// has not committed. What that one is told must be as durable as the deletion.
#[test]
fn absence_is_acknowledged_after_the_deletion_behind_it() {
    let rows_of = |from: u64| from..from + 40;
    for kind in Kind::ALL.iter().filter(|kind| kind.sessions_max() > 2) {
        for (reclaimed, placeholder) in [(false, false), (true, false), (true, true)] {
            let disk = Simulated::new();
            let db = builder(*kind, &disk).durability(Durability::Epoch).open().unwrap();
            let mut writer = db.session().unwrap();
            writer.run(|tx| tx.insert(Note { id: 1, text: Text::truncated("") })).unwrap();
            db.flush().unwrap();
            writer.run(|tx| tx.delete::<Note>(1)).unwrap();
            assert!(!writer.ticket().is_durable());
            for id in rows_of(10).filter(|_| reclaimed) {
                assert!(db.advance_epoch());
                writer.run(|tx| tx.insert(account(id, 1))).unwrap();
            }
            let mut other = db.begin().unwrap();
            if placeholder {
                other.insert(Note { id: 1, text: Text::truncated("") }).unwrap();
            }
            let mut reader = db.session().unwrap();
            // Some protocols wait for the insert.
            let read = reader.run_within(Duration::from_millis(20), |tx| tx.get::<Note>(1));
            assert!(read.is_ok() || placeholder, "{kind}: {read:?}");
            if let Ok(found) = read {
                assert_eq!(found, None);
                assert!(!reader.ticket().is_durable(), "{kind}, reclaimed {reclaimed}, {placeholder}");
            }
            drop(other);
        }
    }
}
