//! A disk that runs full, or fails: what is there can be read, and a running database goes on when it can.

use heddledb::storage::{Disk, Fault, File, Guard, Simulated, Storage};
use heddledb::{
    Builder, Database, Deferring, Durability, Error, Misuse, ReadTransaction, Result, Scan, Session, Table,
    Transaction, Txn,
};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Left {
    #[key]
    id: u64,
    value: u64,
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
struct Right {
    #[key]
    id: u64,
    value: u64,
}

fn builder(disk: &Simulated) -> Builder {
    let builder = Database::builder().manual_epochs().recovery_threads(2).table::<Left>(0).table::<Right>(0);
    builder.storage(Arc::new(disk.clone()))
}

/// A transaction that must be there as a whole or not at all.
fn put(session: &mut Session, id: u64) -> Result<()> {
    session.run(|tx| {
        tx.insert(Left { id, value: id * 3 })?;
        tx.insert(Right { id, value: id * 5 })
    })
}

/// How many transactions are there: numbers 0 to the result, each as a whole.
fn count(db: &Database) -> u64 {
    let mut session = db.session().unwrap();
    session.set_durability(Durability::None).unwrap();
    let rows = session.run(|tx| tx.collect(Scan::<Left>::all())).unwrap();
    for (number, row) in rows.iter().enumerate() {
        assert_eq!((row.id, row.value), (number as u64, number as u64 * 3));
        let right = session.run(|tx| tx.get::<Right>(row.id)).unwrap();
        assert_eq!(right, Some(Right { id: row.id, value: row.id * 5 }));
    }
    assert_eq!(session.run(|tx| tx.get::<Right>(rows.len() as u64)).unwrap(), None);
    rows.len() as u64
}

fn is_read_only<T: std::fmt::Debug>(outcome: Result<T>) -> bool {
    matches!(&outcome, Err(error) if matches!(error.misuse(), Some(Misuse::ReadOnly)))
}

#[test]
fn what_is_opened_to_be_read_is_not_written_to() {
    let disk = Simulated::new();
    let db = builder(&disk).open().unwrap();
    let mut session = db.session().unwrap();
    (0..20).for_each(|id| put(&mut session, id).unwrap());
    db.checkpoint().unwrap();
    (20..30).for_each(|id| put(&mut session, id).unwrap());
    db.flush().unwrap();
    // A round that is torn, so that there is something to be mended.
    let cut = disk.operations() + 1;
    disk.fail(cut, Fault::PowerCut);
    put(&mut session, 30).unwrap();
    db.flush().unwrap_err();
    drop((session, db));
    let mut torn = 0;
    for seed in 0..20 {
        let left = disk.after_power_cut(seed);
        for durability in [Durability::None, Durability::Epoch, Durability::Sync] {
            let protocol = if seed % 2 == 0 { "silo" } else { "drp" };
            let builder = builder(&left).durability(durability).read_only(true);
            let builder = builder.protocol_named(protocol).unwrap();
            let db = builder.epoch_interval(std::time::Duration::from_millis(1)).open().unwrap();
            torn += db.recovery().unwrap().torn.len();
            assert!((30..=31).contains(&count(&db)));
            let mut session = db.session().unwrap();
            session.set_durability(Durability::Sync).unwrap();
            assert_eq!(session.run(|tx| tx.get::<Left>(3)).unwrap().unwrap().value, 9);
            assert_eq!(session.read(|tx| tx.get::<Left>(4)).unwrap().unwrap().value, 12);
            assert!(is_read_only(put(&mut session, 31)));
            assert!(is_read_only(session.run(|tx| tx.delete::<Left>(3))));
            assert!(is_read_only(session.run(|tx| tx.update_columns(3, Left::value, |value| *value = 0))));
            // At the operation, and the transaction goes on; deferring ones too.
            let refused = |tx: &mut Txn| {
                assert!(is_read_only(tx.insert(Left { id: 31, value: 1 })));
                assert!(is_read_only(tx.set_columns(3, Left::value, 1)));
                assert!(is_read_only(tx.add(Left::value, 3, 1)));
                assert!(is_read_only(tx.delete::<Left>(3)));
                tx.get::<Left>(3)
            };
            assert_eq!(session.run(refused).unwrap().unwrap().value, 9);
            assert!(is_read_only(session.defer(|tx| tx.put(3, (), |()| Left { id: 3, value: 0 }))));
            assert!(is_read_only(db.checkpoint()) && is_read_only(db.resume()));
            db.flush().unwrap();
            assert!((30..=31).contains(&count(&db)), "what was refused has no effect");
            drop((session, db));
        }
        assert_eq!(left.writes(), 0);
        assert!((30..=31).contains(&count(&builder(&left).open().unwrap())));
    }
    assert!(torn > 0, "some cut leaves something torn");
}

#[test]
fn a_place_without_a_database_is_not_opened_to_be_read() {
    let disk = Simulated::new();
    let told = builder(&disk).read_only(true).open().err().unwrap().to_string();
    assert!(told.contains("there is no database here"), "{told}");
    assert_eq!(disk.writes(), 0);
    assert!(Database::builder().read_only(true).open().is_err(), "in memory");
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let open = |path: &Path| Database::builder().table::<Left>(0).path(path).read_only(true).open();
    assert!(open(&missing).is_err() && !missing.exists());
    assert!(open(directory.path()).is_err());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Names, lengths, contents and times of change of all files, and of the directory.
fn everything(path: &Path) -> Vec<(String, Vec<u8>, std::time::SystemTime)> {
    let mut all = vec![(String::new(), Vec::new(), path.metadata().unwrap().modified().unwrap())];
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let (name, bytes) = (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap());
        all.push((name, bytes, entry.metadata().unwrap().modified().unwrap()));
    }
    all.sort();
    all
}

#[test]
fn a_directory_that_may_not_be_written_to_is_read() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bank");
    let open = || Database::builder().table::<Left>(0).table::<Right>(0).path(&path);
    let db = open().open().unwrap();
    (0..50).for_each(|id| put(&mut db.session().unwrap(), id).unwrap());
    assert!(open().read_only(true).open().is_err(), "one that writes keeps readers out");
    drop(db);
    let allow = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    for without_lock in [false, true] {
        if without_lock {
            std::fs::remove_file(path.join("LOCK")).unwrap();
        }
        let names: Vec<_> = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.iter().for_each(|name| allow(name, 0o444));
        allow(&path, 0o555);
        let before = everything(&path);
        let (one, other) = (open().read_only(true).open().unwrap(), open().read_only(true).open().unwrap());
        assert_eq!((count(&one), count(&other)), (50, 50));
        assert!(is_read_only(put(&mut one.session().unwrap(), 50)));
        if !without_lock {
            assert!(open().open().is_err(), "readers keep out one that writes");
        }
        drop((one, other));
        assert_eq!(everything(&path), before);
        allow(&path, 0o755);
        names.iter().for_each(|name| allow(name, 0o644));
    }
    assert_eq!(count(&open().open().unwrap()), 50);
    assert!(Disk::open_to_read(&path).unwrap().create("file").is_ok(), "only files are opened to be read");
}

#[test]
fn a_log_goes_on_when_a_full_disk_has_room_again() {
    for files in [1, 3] {
        let disk = Simulated::new();
        let open = |disk: &Simulated| builder(disk).log_files(files).durability(Durability::Sync).open();
        let db = open(&disk).unwrap();
        let mut session = db.session().unwrap();
        (0..10).for_each(|id| put(&mut session, id).unwrap());
        let length = |name: String| disk.bytes(&name).len() as u64;
        disk.limit(disk.list().unwrap().into_iter().map(length).sum::<u64>() + 300);
        let mut next = 10;
        let failed = loop {
            match put(&mut session, next) {
                Ok(()) => next += 1,
                Err(error) => break error,
            }
            assert!(next < 100, "the disk is full");
        };
        assert!(matches!(failed, Error::OutcomeUnknown(_)), "{failed}");
        // It took effect in memory, and those who read see it.
        assert_eq!(count(&db), next + 1);
        let refused = put(&mut session, next + 1);
        assert!(matches!(refused, Err(Error::LogFailed(_))), "{refused:?}");
        assert!(matches!(db.resume(), Err(Error::LogFailed(_))), "there is no room yet");
        assert!(matches!(put(&mut session, next + 1), Err(Error::LogFailed(_))));
        // What is on the full disk can be read, and what was acknowledged is there.
        let full = disk.after_power_cut(1);
        assert!(open(&full.after_kill()).is_err(), "to write, there is no room");
        let read = builder(&full).read_only(true).open().unwrap();
        assert!(count(&read) >= next);
        assert_eq!(full.writes(), 0);

        disk.limit(1 << 20);
        db.resume().unwrap();
        // Without a further commit: what was of unknown outcome is as durable as others of its epoch.
        db.flush().unwrap();
        assert_eq!(count(&open(&disk.after_power_cut(2)).unwrap()), next + 1);
        (next + 1..next + 20).for_each(|id| put(&mut session, id).unwrap());
        db.resume().unwrap();
        for seed in 0..8 {
            assert_eq!(count(&open(&disk.after_power_cut(seed)).unwrap()), next + 20);
        }
        db.checkpoint().unwrap();
        drop((session, db));
        assert_eq!(count(&open(&disk).unwrap()), next + 20);
        let logs = disk.list().unwrap().into_iter().filter(|name| name.starts_with("log-")).count();
        assert!(logs <= 2 * usize::from(files), "those of the old generations are gone");
    }
}

/// Every operation of resuming fails, or is the last before a power cut; and so does every write and sync that made the
/// log fail.
#[test]
fn every_operation_of_going_on_may_fail() {
    let mut points = 0;
    for (first, offset) in
        [Fault::Error, Fault::Full].into_iter().flat_map(|fault| (0..6).map(move |at| (fault, at)))
    {
        for second in [Fault::PowerCut, Fault::Error, Fault::Full] {
            for at in 0.. {
                let disk = Simulated::new();
                let open = |disk: &Simulated| builder(disk).log_files(2).durability(Durability::Sync).open();
                let db = open(&disk).unwrap();
                // Two sessions, so that both files are written to.
                let mut sessions = [db.session().unwrap(), db.session().unwrap()];
                disk.fail(disk.operations() + 12 + offset, first);
                let (mut next, mut acked) = (0, 0);
                loop {
                    let outcome = put(&mut sessions[next as usize % 2], next);
                    next += 1;
                    match outcome {
                        Ok(()) => acked = next,
                        Err(Error::OutcomeUnknown(_)) => break,
                        Err(error) => panic!("{error}"),
                    }
                    assert!(next < 30, "an operation fails");
                }
                let begun = disk.operations();
                disk.fail(begun + at, second);
                let resumed = db.resume();
                if disk.operations() <= begun + at {
                    resumed.unwrap();
                    break;
                }
                let ends = |disk: &Simulated, least: u64| {
                    for seed in 0..3 {
                        let cut = disk.after_power_cut(seed);
                        let found = count(&open(&cut).unwrap());
                        assert!((least..=next).contains(&found), "{found} of {next}, {least} are due");
                        // What was found stays, and nothing more comes back.
                        let again = cut.after_power_cut(seed);
                        assert_eq!(count(&open(&again).unwrap()), found);
                    }
                };
                let told = if resumed.is_ok() { acked } else { acked.min(next) };
                ends(&disk, told);
                points += 1;
                if resumed.is_err() && second != Fault::PowerCut {
                    assert!(matches!(put(&mut sessions[0], next), Err(Error::LogFailed(_))));
                    db.resume().unwrap();
                }
                if !disk.is_off() {
                    let (mut session, least) = (db.session().unwrap(), next);
                    put(&mut session, next).unwrap();
                    next += 1;
                    let all = count(&open(&disk.after_power_cut(7)).unwrap());
                    assert_eq!(
                        (all, least + 1),
                        (next, next),
                        "what a resumed log acknowledges is there, with all before"
                    );
                }
            }
        }
    }
    assert!(points > 300, "{points}");
}

/// Parts of a checkpoint that found no room are removed at once, since they are what fills the disk.
#[test]
fn a_checkpoint_that_finds_no_room_leaves_nothing_behind() {
    let disk = Simulated::new();
    let db = builder(&disk).open().unwrap();
    let mut session = db.session().unwrap();
    (0..200).for_each(|id| put(&mut session, id).unwrap());
    db.flush().unwrap();
    let used = || disk.list().unwrap().iter().map(|name| disk.bytes(name).len() as u64).sum::<u64>();
    let before = used();
    disk.limit(before + 2_000);
    let failed = db.checkpoint();
    assert!(matches!(failed, Err(Error::Open(_))), "{failed:?}");
    assert!(!disk.list().unwrap().iter().any(|name| name.starts_with("checkpoint-")));
    assert!(used() < before + 1_000);
    put(&mut session, 200).unwrap();
    db.flush().unwrap();
    disk.limit(1 << 20);
    db.checkpoint().unwrap();
    drop((session, db));
    assert_eq!(count(&builder(&disk).open().unwrap()), 201);
}

/// Threads that commit while the disk runs full and has room again: what was acknowledged is there, each as a whole.
#[test]
fn threads_commit_while_the_disk_runs_full_and_has_room_again() {
    const THREADS: u64 = 3;
    const ROWS: u64 = 1_200;
    let disk = Simulated::new();
    let open = |disk: &Simulated| {
        let builder = Database::builder().table::<Left>(0).table::<Right>(0).storage(Arc::new(disk.clone()));
        let builder = builder.epoch_interval(std::time::Duration::from_micros(300));
        builder.durability(Durability::Sync).log_files(2).open().unwrap()
    };
    let db = open(&disk);
    let (done, resumed) = (AtomicBool::new(false), AtomicU64::new(0));
    let length =
        |disk: &Simulated| disk.list().unwrap().iter().map(|name| disk.bytes(name).len() as u64).sum::<u64>();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                let (db, resumed, next) = (&db, &resumed, &next);
                scope.spawn(move || {
                    let mut session = db.session().unwrap();
                    // Until the disk was full twice, however late the thread that limits it gets to run.
                    let goes_on = |id| id < ROWS || resumed.load(Ordering::Relaxed) < 2 && id < 100 * ROWS;
                    while goes_on(next.load(Ordering::Relaxed)) {
                        let id = next.fetch_add(1, Ordering::Relaxed);
                        loop {
                            match put(&mut session, id) {
                                // Of unknown outcome, it is in memory all the same.
                                Ok(()) | Err(Error::OutcomeUnknown(_)) => break,
                                Err(Error::LogFailed(_)) => std::thread::yield_now(),
                                Err(error) => panic!("{error}"),
                            }
                        }
                    }
                })
            })
            .collect();
        let (db, disk, done, resumed) = (&db, &disk, &done, &resumed);
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                disk.limit(length(disk) + 3_000);
                let is_failed = |db: &Database| matches!(db.flush(), Err(Error::OutcomeUnknown(_)));
                while !done.load(Ordering::Relaxed) && !is_failed(db) {}
                disk.limit(1 << 30);
                db.resume().unwrap();
                resumed.fetch_add(1, Ordering::Relaxed);
            }
        });
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(|ended| ended.is_ok()));
    });
    disk.limit(1 << 30);
    db.resume().unwrap();
    db.flush().unwrap();
    assert!(resumed.load(Ordering::Relaxed) > 1);
    assert_eq!(count(&open(&disk.after_power_cut(3))), next.into_inner());
}

/// Where a storage says that it is about to write, and waits until it may.
type Meeting = Arc<Mutex<Option<(Sender<()>, Receiver<()>)>>>;

/// A disk that panics when a file is synced the next time, if it is told to.
#[derive(Clone)]
struct Panicking {
    disk: Simulated,
    /// What to tell of it first, and what to wait for then.
    next: Meeting,
    /// It panics when a file of a checkpoint is created.
    refuses_checkpoints: Arc<AtomicBool>,
}

/// A file of such a disk.
struct PanickingFile {
    file: Box<dyn File>,
    next: Meeting,
}

impl Panicking {
    fn new() -> Self {
        Self { disk: Simulated::new(), next: Arc::default(), refuses_checkpoints: Arc::default() }
    }

    fn file(&self, file: Box<dyn File>) -> Box<dyn File> {
        Box::new(PanickingFile { file, next: Arc::clone(&self.next) })
    }

    /// The next sync panics: tells when it has begun, and ends with a panic when it is told to, or when that is dropped.
    fn panics(&self) -> (Receiver<()>, Sender<()>) {
        let ((tell, begun), (ends, wait)) = (channel(), channel());
        *self.next.lock().unwrap() = Some((tell, wait));
        (begun, ends)
    }

    fn builder(&self, durability: Durability) -> Builder {
        let builder = Database::builder().table::<Left>(0).table::<Right>(0).durability(durability);
        builder.checkpoint_after(None).storage(Arc::new(self.clone()))
    }
}

impl Storage for Panicking {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let refuses = name.starts_with("checkpoint") && self.refuses_checkpoints.load(Ordering::Relaxed);
        assert!(!refuses, "as it was told to");
        self.disk.create(name).map(|file| self.file(file))
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.disk.open(name).map(|file| self.file(file))
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

impl File for PanickingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.file.reserve(bytes)
    }
    fn sync(&self) -> io::Result<()> {
        let next = self.next.lock().unwrap().take();
        if let Some((tell, ends)) = next {
            let _ = tell.send(());
            let _ = ends.recv();
            panic!("as it was told to");
        }
        self.file.sync()
    }
}

/// So long until a test says that it hangs.
const HANGS: Duration = Duration::from_secs(60);

/// A storage panics in a round: the panic goes on in the call that led the round, those who wait for it and those who come later
/// hear that the log has failed, and it can be resumed.
#[test]
fn a_panic_of_the_storage_is_a_failure_for_all_who_wait() {
    let storage = Panicking::new();
    let open = |storage: &Panicking| storage.builder(Durability::Sync).manual_epochs().open().unwrap();
    let db = open(&storage);
    let mut session = db.session().unwrap();
    put(&mut session, 0).unwrap();
    let (begun, ends) = storage.panics();
    let leader = {
        let db = db.clone();
        thread::spawn(move || {
            let mut session = db.session().unwrap();
            catch_unwind(AssertUnwindSafe(|| put(&mut session, 1))).is_err()
        })
    };
    begun.recv_timeout(HANGS).expect("the round syncs");
    let (told, hears) = channel();
    {
        let (db, told) = (db.clone(), told.clone());
        thread::spawn(move || told.send(put(&mut db.session().unwrap(), 2)));
    }
    {
        let db = db.clone();
        thread::spawn(move || told.send(db.flush()));
    }
    // Time for them to wait. What they are told is right without, too.
    thread::sleep(Duration::from_millis(50));
    drop(ends);
    for _ in 0..2 {
        match hears.recv_timeout(HANGS).expect("who waits for the round hears of its end") {
            Err(Error::OutcomeUnknown(why) | Error::LogFailed(why)) => {
                assert!(why.to_string().contains("panicked"), "{why}");
            }
            outcome => panic!("nothing was made durable: {outcome:?}"),
        }
    }
    assert!(leader.join().unwrap(), "the panic goes on in the call that led the round");
    assert!(matches!(put(&mut session, 3), Err(Error::LogFailed(_))));
    let all = count(&db);
    assert!((2..=3).contains(&all), "{all}");
    db.resume().unwrap();
    put(&mut session, all).unwrap();
    let after = Panicking { disk: storage.disk.after_power_cut(1), ..Panicking::new() };
    assert_eq!(count(&open(&after)), all + 1);
}

/// The thread that advances the epoch leads rounds, too, and does so again when the log was resumed.
#[test]
fn a_panic_of_the_storage_does_not_end_the_ticker() {
    let storage = Panicking::new();
    let db = storage.builder(Durability::Epoch).epoch_interval(Duration::from_millis(1)).open().unwrap();
    let mut session = db.session().unwrap();
    drop(storage.panics());
    let begun = std::time::Instant::now();
    let mut all = 0;
    while put(&mut session, all).is_ok() {
        all += 1;
        assert!(begun.elapsed() < HANGS, "a round panics");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(put(&mut session, all), Err(Error::LogFailed(_))));
    db.resume().unwrap();
    put(&mut session, all).unwrap();
    let (ticket, begun) = (session.ticket(), std::time::Instant::now());
    while !ticket.is_durable() {
        assert!(begun.elapsed() < HANGS, "nobody runs rounds");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(count(&db), all + 1);
}

/// A storage panics while the database takes a checkpoint by itself: that shows in the metrics, commits go on, and the next checkpoint is
/// taken.
#[test]
fn a_panic_of_the_storage_does_not_end_checkpoints() {
    let storage = Panicking::new();
    let builder = storage.builder(Durability::Epoch).epoch_interval(Duration::from_millis(1));
    let db = builder.checkpoint_after(Some(1)).open().unwrap();
    let mut session = db.session().unwrap();
    let failed = || db.metrics().log.unwrap().checkpoints_failed;
    let mut all = 0;
    let mut put_until = |is_so: &dyn Fn() -> bool| {
        let begun = std::time::Instant::now();
        while !is_so() {
            put(&mut session, all).unwrap();
            all += 1;
            assert!(begun.elapsed() < HANGS, "no checkpoint is taken");
            thread::sleep(Duration::from_millis(1));
        }
    };
    storage.refuses_checkpoints.store(true, Ordering::Relaxed);
    put_until(&|| failed() != 0);
    storage.refuses_checkpoints.store(false, Ordering::Relaxed);
    put_until(&|| failed() == 0);
    db.flush().unwrap();
    drop((session, db));
    let after = Panicking { disk: storage.disk.after_power_cut(1), ..Panicking::new() };
    let db = after.builder(Durability::Epoch).open().unwrap();
    assert_eq!(count(&db), all);
    assert!(storage.disk.list().unwrap().iter().any(|name| name.starts_with("checkpoint")));
}
