//! Copies that are continued with the log, and directories that are made of them as of an earlier moment.

use heddledb::internals::log::Manifest;
use heddledb::storage::{Fault, Simulated, Storage};
use heddledb::{
    Backup, BackupProgress, BackupReport, Builder, Database, Durability, Error, LogError, Misuse,
    ReadTransaction, Restore, RestoreProgress, Result, Scan, Session, Table, Transaction,
};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// A row that says which commit has written it.
#[derive(Table, Clone, Debug, PartialEq)]
#[table(name = "entry", index(EntryByDigit(digit)))]
struct Entry {
    #[key]
    id: u64,
    digit: u8,
    text: String,
}

/// The table without its index.
mod plain {
    #[derive(heddledb::Table, Clone)]
    #[table(name = "entry")]
    pub struct Entry {
        #[key]
        pub id: u64,
        pub digit: u8,
        pub text: String,
    }
}

/// A table that comes later.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "later", hash)]
struct Later {
    #[key]
    id: u64,
    count: u64,
}

fn builder(disk: &Simulated) -> Builder {
    let builder = Database::builder().manual_epochs().recovery_threads(1).sessions(2);
    builder.keep_log(1 << 30).storage(Arc::new(disk.clone()))
}

fn open(disk: &Simulated) -> Database {
    builder(disk).table::<Entry>(0).open().unwrap()
}

/// Commit number `id` inserts a row and deletes the one that is ten older.
fn write(session: &mut Session, ids: std::ops::Range<u64>) {
    for id in ids {
        let text = format!("{id}:{}", "x".repeat((id * 13 % 90) as usize));
        let entry = Entry { id, digit: (id % 10) as u8, text };
        session
            .run(|tx| {
                tx.insert(entry.clone())?;
                id.checked_sub(10).map_or(Ok(()), |old| tx.delete::<Entry>(old).map(|_| ()))
            })
            .unwrap();
    }
}

/// How many commits there are, if the rows are those after so many.
fn commits(db: &Database) -> u64 {
    let rows = db.session().unwrap().run(|tx| tx.collect(Scan::<Entry>::all())).unwrap();
    let count = rows.last().map_or(0, |row| row.id + 1);
    let ids: Vec<u64> = rows.iter().map(|row| row.id).collect();
    assert_eq!(ids, (count.saturating_sub(10)..count).collect::<Vec<_>>());
    for row in rows {
        assert_eq!(row.text, format!("{}:{}", row.id, "x".repeat((row.id * 13 % 90) as usize)));
    }
    let report = db.check().unwrap();
    assert!(report.is_whole(), "{report}");
    count
}

/// The commits of a copy, which is looked at and not written.
fn held(copy: &Simulated) -> u64 {
    let db = Database::builder().manual_epochs().storage(Arc::new(copy.clone())).read_only(true);
    commits(&db.table::<Entry>(0).open().unwrap())
}

fn full(db: &Database, copy: &Simulated) -> BackupReport {
    let report = db.backup(Backup::to_storage(Arc::new(copy.clone()))).unwrap();
    assert!(report.can_continue);
    report
}

fn more(db: &Database, copy: &Simulated) -> Result<BackupReport> {
    db.backup(Backup::to_storage(Arc::new(copy.clone())).incremental())
}

/// Why a copy was not continued.
fn refused(outcome: Result<BackupReport>) -> String {
    match outcome {
        Err(Error::Open(error)) if matches!(*error, LogError::NotContinued { .. }) => {
            let told = error.to_string();
            assert!(told.contains("take a full copy"), "{told}");
            told
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_copy_is_continued_over_checkpoints_and_openings() {
    for (files, compression) in [(1, heddledb::Compression::None), (3, heddledb::Compression::Lz4)] {
        let (disk, copy) = (Simulated::new(), Simulated::new());
        let open = || {
            let builder = builder(&disk).log_files(files).compression(compression);
            builder.table::<Entry>(0).open().unwrap()
        };
        let db = open();
        let mut session = db.session().unwrap();
        write(&mut session, 0..25);
        full(&db, &copy);
        assert_eq!(held(&copy), 25);
        write(&mut session, 25..40);
        let report = more(&db, &copy).unwrap();
        assert_eq!((report.transactions, report.rows), (15, 0), "{report}");
        assert_eq!(held(&copy), 40);
        // Nothing new is nothing added.
        assert_eq!(more(&db, &copy).unwrap().transactions, 0);
        // Several generations, some of them behind checkpoints, and commits of which a round ends in the next.
        for step in 0..4 {
            let from = 40 + step * 10;
            write(&mut session, from..from + 4);
            db.checkpoint().unwrap();
            write(&mut session, from + 4..from + 7);
            db.advance_epoch();
            db.checkpoint().unwrap();
            write(&mut session, from + 7..from + 10);
        }
        assert_eq!(more(&db, &copy).unwrap().transactions, 40);
        assert_eq!(held(&copy), 80);
        drop((session, db));
        let db = open();
        let mut session = db.session().unwrap();
        write(&mut session, 80..85);
        drop((session, db));
        drop(open());
        let db = open();
        write(&mut db.session().unwrap(), 85..88);
        assert_eq!(more(&db, &copy).unwrap().transactions, 8);
        assert_eq!(held(&copy), 88);
        // A copy of the copy follows the copy.
        let second = Simulated::new();
        let reading = || {
            let db = Database::builder().manual_epochs().storage(Arc::new(copy.clone())).read_only(true);
            db.table::<Entry>(0).open().unwrap()
        };
        full(&reading(), &second);
        write(&mut db.session().unwrap(), 88..90);
        more(&db, &copy).unwrap();
        assert_eq!(more(&reading(), &second).unwrap().transactions, 2);
        assert_eq!(held(&second), 90);
        assert!(refused(more(&db, &second)).contains("a copy of another database"));
    }
}

#[test]
fn a_copy_that_is_continued_keeps_to_its_pace_and_all_tell_how_far_they_are() {
    let (disk, copy) = (Simulated::new(), Simulated::new());
    let db = open(&disk);
    let mut session = db.session().unwrap();
    write(&mut session, 0..100);
    full(&db, &copy);
    // Of many rounds, as a log is that is written all the time.
    for start in (0..60_000).step_by(1_000) {
        write(&mut session, start.max(100)..start + 1_000);
        db.advance_epoch();
        db.flush().unwrap();
    }
    let told: Arc<Mutex<Vec<BackupProgress>>> = Arc::default();
    let into = Arc::clone(&told);
    let backup = Backup::to_storage(Arc::new(copy.clone())).incremental().bytes_per_second(8 << 20);
    let report = db.backup(backup.on_progress(move |progress| into.lock().unwrap().push(progress))).unwrap();
    assert_eq!(report.transactions, 59_900);
    assert!(report.bytes > 2 << 20, "{report}");
    assert!(report.elapsed >= Duration::from_secs_f64(report.bytes as f64 / f64::from(8 << 20)), "{report}");
    let told = std::mem::take(&mut *told.lock().unwrap());
    assert!(told.len() > 2 && told.is_sorted_by_key(|progress| (progress.transactions, progress.bytes)));
    let last = told.last().unwrap();
    assert_eq!((last.transactions, last.bytes, last.of_relations), (59_900, report.bytes, 0));

    let told: Arc<Mutex<Vec<RestoreProgress>>> = Arc::default();
    let into = Arc::clone(&told);
    let restore = Restore::from_storage(Arc::new(copy));
    let restore = restore.on_progress(move |progress| into.lock().unwrap().push(progress));
    let report = restore.to_storage(Arc::new(Simulated::new())).unwrap();
    let told = told.lock().unwrap();
    assert!(told.len() > 3 && told.is_sorted_by_key(|progress| (progress.bytes, progress.transactions)));
    let last = told.last().unwrap();
    assert_eq!((last.transactions, last.bytes), (59_900, report.bytes));
    assert!(last.bytes <= last.of_bytes + 1024 && last.of_bytes < 2 * last.bytes, "{last}");
    assert!(told.iter().all(|progress| progress.of_bytes == last.of_bytes));
}

/// Where nothing is committed for a while, epochs go on that no file names.
#[test]
fn idle_epochs_are_not_used_twice() {
    let (disk, copy) = (Simulated::new(), Simulated::new());
    let db = open(&disk);
    write(&mut db.session().unwrap(), 0..3);
    (0..50).for_each(|_| _ = db.advance_epoch());
    full(&db, &copy);
    drop(db);
    for round in 0..4 {
        let db = open(&disk);
        write(&mut db.session().unwrap(), 3 + round..4 + round);
        (0..30).for_each(|_| _ = db.advance_epoch());
        if round % 2 == 0 {
            more(&db, &copy).unwrap();
            assert_eq!(held(&copy), 4 + round);
        }
        drop(db);
    }
    let reading = || builder(&disk).read_only(true).table::<Entry>(0).open().unwrap();
    // Of a directory that is closed.
    more(&reading(), &copy).unwrap();
    assert_eq!(held(&copy), 7);
    let other = Simulated::new();
    full(&reading(), &other);
    let db = open(&disk);
    write(&mut db.session().unwrap(), 7..8);
    for copy in [&copy, &other] {
        assert_eq!(more(&db, copy).unwrap().transactions, 1);
        assert_eq!(held(copy), 8);
    }
}

#[test]
fn a_new_table_is_in_a_continued_copy() {
    let (disk, copy) = (Simulated::new(), Simulated::new());
    let db = open(&disk);
    write(&mut db.session().unwrap(), 0..3);
    full(&db, &copy);
    drop(db);
    let db = builder(&disk).table::<Entry>(0).table::<Later>(0).open().unwrap();
    db.session().unwrap().run(|tx| tx.insert(Later { id: 1, count: 7 })).unwrap();
    more(&db, &copy).unwrap();
    let copied = Database::builder().manual_epochs().storage(Arc::new(copy)).read_only(true);
    let copied = copied.table::<Entry>(0).table::<Later>(0).open().unwrap();
    let row = copied.session().unwrap().run(|tx| tx.get::<Later>(1)).unwrap();
    assert_eq!(row, Some(Later { id: 1, count: 7 }));
}

#[test]
fn a_copy_whose_link_is_broken_is_refused_and_stays() {
    // Another database, and what is no copy.
    let (disk, copy) = (Simulated::new(), Simulated::new());
    let db = open(&disk);
    write(&mut db.session().unwrap(), 0..3);
    assert!(refused(more(&db, &copy)).contains("there is no copy"));
    full(&db, &copy);
    let other = open(&Simulated::new());
    write(&mut other.session().unwrap(), 0..3);
    assert!(refused(more(&other, &copy)).contains("another database"));
    let memory = Database::builder().manual_epochs().table::<Entry>(0).open().unwrap();
    let of_memory = Simulated::new();
    assert!(!memory.backup(Backup::to_storage(Arc::new(of_memory.clone()))).unwrap().can_continue);
    assert!(refused(more(&db, &of_memory)).contains("it is no copy"));
    assert!(matches!(more(&memory, &copy), Err(Error::Misuse(error)) if matches!(*error, Misuse::Option(_))));

    // It was opened to be written.
    let written = copy.after_kill();
    drop(open(&written));
    assert!(refused(more(&db, &written)).contains("opened to be written since"));
    // It is open.
    let reading = Database::builder().storage(Arc::new(copy.clone())).read_only(true);
    let reading = reading.table::<Entry>(0).open().unwrap();
    assert!(matches!(more(&db, &copy), Err(Error::Open(error)) if matches!(*error, LogError::Locked { .. })));
    drop((reading, db));

    // The log is gone, because less of it was kept, or none.
    let gone = |disk: &Simulated, keep: u64| {
        let db = builder(disk).keep_log(keep).table::<Entry>(0).open().unwrap();
        write(&mut db.session().unwrap(), 3..60);
        db.checkpoint().unwrap();
        write(&mut db.session().unwrap(), 60..61);
        db.checkpoint().unwrap();
        more(&db, &copy)
    };
    for keep in [0, 300] {
        assert!(refused(gone(&disk.after_kill(), keep)).contains("`Builder::keep_log`"));
    }
    // With as much as there is, it goes on.
    assert_eq!(held(&copy), 3);
    let going_on = copy.after_kill();
    let db = builder(&disk.after_kill()).keep_log(1 << 20).table::<Entry>(0).open().unwrap();
    write(&mut db.session().unwrap(), 3..60);
    db.checkpoint().unwrap();
    more(&db, &going_on).unwrap();
    assert_eq!(held(&going_on), 60);
    drop(db);

    // Commits that no log has: it was opened without one, an index came or went, rows were migrated.
    let unlogged = disk.after_kill();
    let db = builder(&unlogged).durability(Durability::None).table::<Entry>(0).open().unwrap();
    write(&mut db.session().unwrap(), 3..5);
    db.checkpoint().unwrap();
    drop(db);
    assert!(refused(more(&open(&unlogged), &copy)).contains("without a log"));
    let index = disk.after_kill();
    let db = builder(&index).table::<plain::Entry>(0).open().unwrap();
    let row = plain::Entry { id: 3, digit: 3, text: String::new() };
    db.session().unwrap().run(|tx| tx.insert(row.clone())).unwrap();
    drop(db);
    assert!(refused(more(&open(&index), &copy)).contains("indexes"));

    // Commits that the copy holds and the database has not, since its directory was brought back to how it was before them.
    let stale = disk.after_kill();
    stale.pass(Duration::from_secs(1));
    let db = open(&disk);
    write(&mut db.session().unwrap(), 3..9);
    more(&db, &copy).unwrap();
    drop(db);
    let db = open(&stale);
    write(&mut db.session().unwrap(), 3..30);
    assert!(refused(more(&db, &copy)).contains("lost since"));
    assert_eq!(held(&copy), 9);
}

/// Cuts the power, or fails, at each operation of the copy's disk: it is as before or as after, and goes on.
#[test]
fn a_continued_copy_is_as_before_or_as_after() {
    let (disk, base) = (Simulated::new(), Simulated::new());
    let db = open(&disk);
    let mut session = db.session().unwrap();
    write(&mut session, 0..12);
    full(&db, &base);
    write(&mut session, 12..20);
    more(&db, &base).unwrap();
    write(&mut session, 20..30);
    let whole = base.after_kill();
    more(&db, &whole).unwrap();
    let (mut before, mut after) = (0, 0);
    let mut judge = |copy: &Simulated, told: &str| {
        match held(copy) {
            20 => before += 1,
            30 => after += 1,
            other => panic!("{told}: {other} commits"),
        }
        // It is continued all the same.
        more(&db, copy).unwrap();
        assert_eq!(held(copy), 30, "{told}");
        assert!(copy.list().unwrap().iter().all(|name| name != "MANIFEST.new"));
    };
    for at in 0..whole.operations() {
        for seed in 0..4 {
            let copy = base.after_kill();
            copy.fail(at, Fault::PowerCut);
            more(&db, &copy).unwrap_err();
            judge(&copy.after_power_cut(seed), &format!("cut at {at}, {seed}"));
            judge(&copy.after_kill(), &format!("killed at {at}"));
        }
        for fault in [Fault::Error, Fault::Full, Fault::Short, Fault::Interrupted] {
            let copy = base.after_kill();
            copy.fail(at, fault);
            let outcome = more(&db, &copy);
            let harmless = matches!(fault, Fault::Short | Fault::Interrupted);
            assert!(!harmless || outcome.is_ok(), "{fault:?} at {at}: {outcome:?}");
            judge(&copy, &format!("{fault:?} at {at}"));
        }
    }
    assert!(before > 0 && after > 0, "{before} {after}");
}

fn restored(restore: &Restore) -> Result<(u64, Simulated)> {
    let disk = Simulated::new();
    restore.to_storage(Arc::new(disk.clone()))?;
    let count = commits(&open(&disk));
    Ok((count, disk))
}

#[test]
fn every_epoch_and_every_moment_is_restored() {
    let (disk, copy) = (Simulated::new(), Simulated::new());
    let db = open(&disk);
    let mut session = db.session().unwrap();
    write(&mut session, 0..12);
    full(&db, &copy);
    // With how many commits each epoch ended, and when.
    let mut ends: Vec<(u64, u64, SystemTime)> = Vec::new();
    let mut count = 12;
    for step in 0..20_u64 {
        disk.pass(Duration::from_secs(60));
        write(&mut session, count..count + step % 4);
        count += step % 4;
        let epoch = session.last_commit() >> 24;
        db.flush().unwrap();
        ends.push((epoch, count, disk.clock()));
        match step {
            5 | 15 => _ = db.checkpoint().unwrap(),
            9 | 11 => _ = more(&db, &copy).unwrap(),
            _ => {}
        }
    }
    disk.pass(Duration::from_secs(60));
    more(&db, &copy).unwrap();
    let writes = copy.writes();
    let restore = Restore::from_storage(Arc::new(copy.clone()));
    let reach = restore.reach().unwrap();
    let (first, last) = reach.times.unwrap();
    assert!(first < ends[0].2 && ends[19].2 < last, "{reach}");
    assert_eq!(restored(&restore).unwrap().0, count);
    for (epoch, count, time) in &ends {
        assert_eq!(restored(&restore.clone().epoch(*epoch)).unwrap().0, *count, "epoch {epoch}");
        // Just after it was durable, and just before the next commits.
        let (found, _) = restored(&restore.clone().at(*time)).unwrap();
        assert_eq!(found, *count, "{time:?}");
        let (found, restored_disk) = restored(&restore.clone().at(*time + Duration::from_secs(59))).unwrap();
        assert_eq!(found, *count, "{time:?}");
        // It is a database of its own, from that moment on.
        let db = open(&restored_disk);
        let again = Simulated::new();
        full(&db, &again);
        write(&mut db.session().unwrap(), *count..*count + 3);
        more(&db, &again).unwrap();
        assert_eq!(held(&again), count + 3);
        assert!(refused(more(&db, &copy)).contains("another database"));
    }
    for epoch in reach.epochs.clone() {
        let due = ends.iter().rev().find(|end| end.0 <= epoch).map_or(12, |end| end.1);
        let (found, _) = restored(&restore.clone().epoch(epoch)).unwrap();
        assert!(found >= due, "epoch {epoch}: {found} commits");
    }
    // Both ends are named where neither is near enough.
    let refused = |restore: Restore| {
        let to = Simulated::new();
        let error = restore.to_storage(Arc::new(to.clone())).unwrap_err();
        assert!(to.list().unwrap().is_empty());
        error.to_string()
    };
    for asked in [first - Duration::from_millis(1), last + Duration::from_millis(1)] {
        let told = refused(restore.clone().at(asked));
        let [first, last] = [first, last].map(heddledb::internals::copies::instant);
        assert!(told.ends_with(&format!("it reaches from {first} to {last}")), "{told}");
    }
    let (low, high) = (*reach.epochs.start(), *reach.epochs.end());
    for epoch in [low - 1, high + 1] {
        let told = refused(restore.clone().epoch(epoch));
        assert!(told.ends_with(&format!("it reaches from epoch {low} to epoch {high}")), "{told}");
    }
    assert!(matches!(
        restore.to_storage(Arc::new(copy.clone())),
        Err(Error::Open(error)) if matches!(*error, LogError::Locked { .. } | LogError::NotEmpty { .. })
    ));
    assert_eq!(copy.writes(), writes, "the copy is read and not written");
    assert_eq!(held(&copy), count);
}

/// A clock that is put back stands still until it has caught up.
#[test]
fn a_clock_that_is_put_back_does_not_lead_astray() {
    let (disk, copy) = (Simulated::new(), Simulated::new());
    let db = open(&disk);
    let mut session = db.session().unwrap();
    full(&db, &copy);
    disk.pass(Duration::from_secs(3_600));
    write(&mut session, 0..3);
    db.flush().unwrap();
    let before = disk.clock();
    disk.set_back(Duration::from_secs(1_800));
    write(&mut session, 3..6);
    db.flush().unwrap();
    drop((session, db));
    let db = open(&disk);
    write(&mut db.session().unwrap(), 6..8);
    db.flush().unwrap();
    disk.pass(Duration::from_secs(7_200));
    write(&mut db.session().unwrap(), 8..9);
    more(&db, &copy).unwrap();
    let restore = Restore::from_storage(Arc::new(copy));
    let at = |time| restored(&restore.clone().at(time)).unwrap().0;
    assert_eq!(at(before + Duration::from_secs(60)), 8);
    assert_eq!(at(before - Duration::from_secs(60)), 0);
    assert_eq!(restored(&restore).unwrap().0, 9);
}

#[test]
fn a_restore_that_is_cut_off_is_nothing_or_all() {
    let (disk, copy) = (Simulated::new(), Simulated::new());
    let db = open(&disk);
    write(&mut db.session().unwrap(), 0..12);
    full(&db, &copy);
    write(&mut db.session().unwrap(), 12..20);
    more(&db, &copy).unwrap();
    let restore = Restore::from_storage(Arc::new(copy));
    let whole = Simulated::new();
    restore.to_storage(Arc::new(whole.clone())).unwrap();
    let (mut none, mut all) = (0, 0);
    for at in 0..whole.operations() {
        for seed in 0..8 {
            let to = Simulated::new();
            to.fail(at, Fault::PowerCut);
            restore.to_storage(Arc::new(to.clone())).unwrap_err();
            for left in [to.after_power_cut(seed), to.after_kill()] {
                if left.list().unwrap().is_empty() {
                    continue;
                }
                match builder(&left).table::<Entry>(0).open() {
                    Ok(db) => {
                        assert_eq!(commits(&db), 20);
                        all += 1;
                    }
                    Err(Error::Open(error)) => {
                        assert!(error.to_string().contains("MANIFEST"), "{error}");
                        none += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
        for fault in [Fault::Error, Fault::Full] {
            let to = Simulated::new();
            to.fail(at, fault);
            if restore.to_storage(Arc::new(to.clone())).is_err() {
                assert_eq!(to.list().unwrap(), [""; 0]);
                restore.to_storage(Arc::new(to.clone())).unwrap();
            }
            assert_eq!(commits(&open(&to)), 20);
        }
    }
    assert!(none > 0 && all > 0, "{none} {all}");
}

/// On a disk, with threads and a clock of their own.
#[test]
fn directories_are_continued_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let open =
        |path: &Path| Database::builder().path(path).keep_log(1 << 20).table::<Entry>(0).open().unwrap();
    let db = open(&path("bank"));
    let mut session = db.session().unwrap();
    write(&mut session, 0..20);
    db.backup(path("copy")).unwrap();
    let before = SystemTime::now();
    write(&mut session, 20..30);
    db.checkpoint().unwrap();
    write(&mut session, 30..35);
    let told = db.backup(Backup::to(path("nowhere")).incremental()).unwrap_err().to_string();
    assert!(told.contains("opening the directory of the copy") && !path("nowhere").exists(), "{told}");
    let report = db.backup(Backup::to(path("copy")).incremental()).unwrap();
    assert_eq!(report.transactions, 15);
    Restore::from(path("copy")).to(path("now")).unwrap();
    assert_eq!(commits(&open(&path("now"))), 35);
    let report = Restore::from(path("copy"))
        .at(before.max(Restore::from(path("copy")).reach().unwrap().times.unwrap().0));
    let report = report.to(path("before")).unwrap();
    assert_eq!(commits(&open(&path("before"))), 20, "{report}");
    // It is a copy still.
    let manifest =
        Manifest::read(&heddledb::storage::Disk::open_to_read(path("copy")).unwrap()).unwrap().unwrap();
    assert!(manifest.origin.is_some());
    assert!(matches!(
        Restore::from(path("bank")).to(path("other")),
        Err(Error::Open(error)) if matches!(*error, LogError::Locked { .. })
    ));
}
