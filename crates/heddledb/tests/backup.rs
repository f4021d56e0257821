//! Copies that open: taken beside writers, cut off at any moment, and those that were made file by file.

use heddledb::protocol::Kind;
use heddledb::storage::{Fault, File, Guard, Simulated, Storage};
use heddledb::{
    Backup, BackupProgress, Builder, Database, Durability, Error, LogError, ReadTransaction, Result, Scan,
    Session, Table, Transaction,
};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(index(ByBalance(balance)))]
struct Account {
    #[key]
    id: u64,
    #[group(money)]
    balance: i64,
}

/// How many transfers there were: each takes the next number, so that they have an order.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(hash)]
struct Turn {
    #[key]
    id: u8,
    next: u64,
}

/// A transfer, under its number.
#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Transfer {
    #[key]
    number: u64,
    from: u64,
    to: u64,
    amount: i64,
}

const ACCOUNTS: u64 = 50;

fn tables(builder: Builder) -> Builder {
    builder.table::<Account>(ACCOUNTS as usize).table::<Turn>(1).table::<Transfer>(0)
}

fn fill(session: &mut Session) -> Result<()> {
    session.run(|tx| {
        tx.insert(Turn { id: 0, next: 0 })?;
        (0..ACCOUNTS).try_for_each(|id| tx.insert(Account { id, balance: 100 }))
    })
}

/// A transfer, whose number is the result.
fn transfer(session: &mut Session, draw: u64) -> Result<u64> {
    let (from, to, amount) = (draw % ACCOUNTS, draw / 7 % ACCOUNTS, (draw % 5) as i64);
    session.run(|tx| {
        let number = tx.update_columns(0, Turn::next, |next| {
            *next += 1;
            *next
        })?;
        tx.update_columns(from, Account::balance, |balance| *balance -= amount)?;
        tx.update_columns(to, Account::balance, |balance| *balance += amount)?;
        tx.insert(Transfer { number, from, to, amount })?;
        Ok(number)
    })
}

/// How many transfers a copy has: the first ones, all of them, each as a whole, and nothing else.
fn judge(copy: &Database) -> u64 {
    let mut session = copy.session().unwrap();
    let (turn, transfers, accounts) = session
        .run(|tx| {
            let turn = tx.get::<Turn>(0)?;
            Ok((turn, tx.collect(Scan::<Transfer>::all())?, tx.collect(Scan::<Account>::all())?))
        })
        .unwrap();
    let Some(turn) = turn else {
        assert!(transfers.is_empty() && accounts.is_empty());
        return 0;
    };
    assert_eq!(transfers.len() as u64, turn.next);
    let mut balances = vec![100; ACCOUNTS as usize];
    for (transfer, number) in transfers.iter().zip(1..) {
        assert_eq!(transfer.number, number);
        balances[transfer.from as usize] -= transfer.amount;
        balances[transfer.to as usize] += transfer.amount;
    }
    let found: Vec<i64> = accounts.iter().map(|account| account.balance).collect();
    assert_eq!(found, balances);
    let report = copy.check().unwrap();
    assert!(report.is_whole(), "{report}");
    turn.next
}

fn opened(disk: &Simulated) -> Result<Database> {
    let builder = Database::builder().manual_epochs().durability(Durability::None).recovery_threads(2);
    tables(builder).storage(Arc::new(disk.clone())).open()
}

/// How many copies are taken of each database beside its writers, whose work makes each larger than the one before.
const COPIES: usize = 10;

/// How many copies are taken under each protocol, in memory and with files; the variable makes it many.
fn copies() -> usize {
    std::env::var("HEDDLE_BACKUPS").map_or(3, |copies| copies.parse().unwrap())
}

#[test]
fn a_copy_beside_writers_is_a_prefix_under_every_protocol() {
    for kind in Kind::ALL {
        let writers = 2.min(kind.sessions_max());
        let memory = || {
            let builder = Database::builder().protocol(*kind).sessions(writers);
            tables(builder.epoch_interval(Duration::from_millis(1)))
        };
        let files = || memory().storage(Arc::new(Simulated::new())).recovery_threads(2);
        let databases = (0..copies()).step_by(COPIES).flat_map(|done| [(done, memory()), (done, files())]);
        for (done_before, builder) in databases {
            let db = builder.open().unwrap();
            fill(&mut db.session().unwrap()).unwrap();
            let (done, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
            thread::scope(|scope| {
                for writer in 0..writers as u64 {
                    let (db, done, acknowledged) = (&db, &done, &acknowledged);
                    scope.spawn(move || {
                        let mut session = db.session().unwrap();
                        let mut draw = writer + 1;
                        while !done.load(Ordering::Relaxed) {
                            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            let number = transfer(&mut session, draw >> 33).unwrap();
                            acknowledged.fetch_max(number, Ordering::SeqCst);
                            // A session that goes on and on leaves the others no turn where there are two cores.
                            thread::yield_now();
                        }
                    });
                }
                for _ in done_before..copies().min(done_before + COPIES) {
                    let before = acknowledged.load(Ordering::SeqCst);
                    let copy = Simulated::new();
                    let report = db.backup(Backup::to_storage(Arc::new(copy.clone()))).unwrap();
                    assert!(report.rows >= ACCOUNTS && report.bytes > 0, "{kind}: {report}");
                    let after = judge(&opened(&copy).unwrap());
                    assert!(
                        before <= after,
                        "{kind}: {before} transfers were acknowledged, the copy has {after}"
                    );
                }
                done.store(true, Ordering::Relaxed);
            });
        }
    }
}

/// A database with some transfers.
fn bank() -> Database {
    let db = tables(Database::builder().manual_epochs()).open().unwrap();
    let mut session = db.session().unwrap();
    fill(&mut session).unwrap();
    for draw in 0..40 {
        transfer(&mut session, draw * 31).unwrap();
    }
    db
}

fn copy_to(db: &Database, disk: &Simulated) -> Result<()> {
    db.backup(Backup::to_storage(Arc::new(disk.clone()))).map(|_| ())
}

/// There is nothing, or something that does not open, or all of it.
fn nothing_or_all(disk: &Simulated) -> bool {
    if disk.list().unwrap().is_empty() {
        return false;
    }
    match opened(disk) {
        Ok(copy) => {
            assert_eq!(judge(&copy), 40);
            true
        }
        Err(Error::Open(error)) => {
            assert!(matches!(*error, LogError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains("MANIFEST"), "{error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_copy_that_is_cut_off_is_nothing_or_all() {
    let db = bank();
    let whole = Simulated::new();
    copy_to(&db, &whole).unwrap();
    let (mut none, mut all) = (0, 0);
    for at in 0..whole.operations() {
        for seed in 0..8 {
            let disk = Simulated::new();
            disk.fail(at, Fault::PowerCut);
            copy_to(&db, &disk).unwrap_err();
            for left in [disk.after_power_cut(seed), disk.after_kill()] {
                *if nothing_or_all(&left) { &mut all } else { &mut none } += 1;
            }
        }
    }
    assert!(none > 0 && all > 0, "{none} {all}");
    // When the call has returned, it stays.
    for seed in 0..20 {
        assert!(nothing_or_all(&whole.after_power_cut(seed)));
    }
}

#[test]
fn after_a_failure_another_copy_goes_to_the_same_place() {
    let db = bank();
    let whole = Simulated::new();
    copy_to(&db, &whole).unwrap();
    for at in 0..whole.operations() {
        for fault in [Fault::Error, Fault::Full] {
            let disk = Simulated::new();
            disk.fail(at, fault);
            match copy_to(&db, &disk) {
                // Only some operations need room.
                Ok(()) => assert!(nothing_or_all(&disk)),
                Err(Error::Open(_)) => {
                    assert_eq!(disk.list().unwrap(), [""; 0]);
                    copy_to(&db, &disk).unwrap();
                    assert!(nothing_or_all(&disk));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A disk on which something happens when a copy looks whether it is empty: the last time before it has its moment.
struct Meanwhile {
    disk: Simulated,
    happens: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Storage for Meanwhile {
    fn list(&self) -> io::Result<Vec<String>> {
        let happens = self.happens.lock().unwrap().take();
        if let Some(happens) = happens {
            happens();
        }
        self.disk.list()
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
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

/// In memory a table is made at its first use, which may be while a copy begins. A transaction that writes to it and to
/// another table is in the copy with both, or with none.
#[test]
fn a_table_that_is_made_while_a_copy_begins_is_in_it() {
    for kind in Kind::ALL {
        let builder = Database::builder().protocol(*kind).sessions(1).manual_epochs();
        let db = builder.table::<Account>(1).open().unwrap();
        db.session().unwrap().run(|tx| tx.insert(Account { id: 0, balance: 0 })).unwrap();
        let (other, disk) = (db.clone(), Simulated::new());
        let happens = Box::new(move || {
            let write = |tx: &mut heddledb::Txn| {
                tx.update_columns(0, Account::balance, |balance| *balance = 7)?;
                tx.insert(Transfer { number: 1, from: 0, to: 0, amount: 7 })
            };
            other.session().unwrap().run(write).unwrap();
        });
        let place = Meanwhile { disk: disk.clone(), happens: Mutex::new(Some(happens)) };
        let report = db.backup(Backup::to_storage(Arc::new(place))).unwrap();
        let copy = opened(&disk).unwrap();
        let look = |tx: &mut heddledb::Txn| Ok((tx.get::<Account>(0)?, tx.get::<Transfer>(1)?));
        let (account, transfer) = copy.session().unwrap().run(look).unwrap();
        let (balance, amount) = (account.unwrap().balance, transfer.map_or(0, |transfer| transfer.amount));
        assert_eq!((balance, amount), (7, 7), "{kind}: {report}");
    }
}

fn refused(outcome: Result<Database>) -> String {
    outcome.err().expect("it is refused").to_string()
}

#[test]
fn a_copy_has_a_directory_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let db = tables(Database::builder().path(path("bank"))).open().unwrap();
    fill(&mut db.session().unwrap()).unwrap();
    let refused = |place: &Path| db.backup(place).unwrap_err().to_string();
    // Its own, one with something in it, one without a parent.
    assert!(refused(&path("bank")).contains("and a backup is made or restored in a directory of its own"));
    fs::create_dir(path("letters")).unwrap();
    fs::write(path("letters").join("mother.txt"), "dear").unwrap();
    assert!(refused(&path("letters")).contains("holds mother.txt"));
    assert!(refused(&path("nowhere").join("copy")).contains("there is no directory"));
    let error = db.backup(path("letters")).unwrap_err();
    assert!(matches!(error, Error::Open(error) if matches!(*error, LogError::NotEmpty { .. })));

    db.backup(path("copy")).unwrap();
    assert!(refused(&path("copy")).contains("of its own"));
    let copy = tables(Database::builder().path(path("copy"))).open().unwrap();
    assert_eq!(judge(&copy), 0);
    // It goes its own way.
    transfer(&mut copy.session().unwrap(), 1).unwrap();
    copy.backup(path("copy of the copy")).unwrap();
    drop(copy);
    let again = tables(Database::builder().path(path("copy of the copy"))).open().unwrap();
    assert_eq!(judge(&again), 1);
    assert_eq!(judge(&db), 0);
}

#[test]
fn a_copy_keeps_to_its_pace_and_tells_how_far_it_is() {
    let db = tables(Database::builder().manual_epochs()).open().unwrap();
    let mut session = db.session().unwrap();
    fill(&mut session).unwrap();
    for start in (0..60_000).step_by(1_000) {
        let transfers = (start..start + 1_000).map(|number| Transfer { number, from: 0, to: 0, amount: 0 });
        session.run(|tx| transfers.clone().try_for_each(|transfer| tx.insert(transfer))).unwrap();
    }
    let told: Arc<Mutex<Vec<BackupProgress>>> = Arc::default();
    let into = Arc::clone(&told);
    let disk: Arc<dyn Storage> = Arc::new(Simulated::new());
    let backup = Backup::to_storage(disk).bytes_per_second(10 << 20);
    let report = db.backup(backup.on_progress(move |progress| into.lock().unwrap().push(progress))).unwrap();
    // The header of the file comes on top.
    assert!(
        report.elapsed >= Duration::from_secs_f64((report.bytes - 4096) as f64 / (10 << 20) as f64),
        "{report}"
    );
    let told = told.lock().unwrap();
    assert!(told.is_sorted_by_key(|progress| (progress.rows, progress.relations)), "{told:?}");
    let last = told.last().unwrap();
    assert_eq!((last.rows, last.relations, last.of_relations), (report.rows, 4, 4));
}

#[test]
fn a_checkpoint_need_not_wait_for_a_slow_copy() {
    let files = Simulated::new();
    let db = tables(Database::builder().storage(Arc::new(files))).open().unwrap();
    fill(&mut db.session().unwrap()).unwrap();
    let (begun, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (say, wait) = (Arc::clone(&begun), Arc::clone(&goes_on));
    let copy = Simulated::new();
    let backup = Backup::to_storage(Arc::new(copy.clone())).on_progress(move |_| {
        say.store(true, Ordering::SeqCst);
        while !wait.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    });
    let before = thread::scope(|scope| {
        let slow = scope.spawn(|| db.backup(backup));
        while !begun.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        // The copy stands still; all else goes on.
        let mut session = db.session().unwrap();
        for draw in 0..20 {
            transfer(&mut session, draw).unwrap();
        }
        db.checkpoint().unwrap();
        assert!(db.check().unwrap().is_whole());
        db.backup(Backup::to_storage(Arc::new(Simulated::new()))).unwrap();
        goes_on.store(true, Ordering::SeqCst);
        slow.join().unwrap().unwrap().rows
    });
    assert_eq!(before, 2 * ACCOUNTS + 1);
    assert_eq!(judge(&opened(&copy).unwrap()), 0);
    assert_eq!(judge(&db), 20);
}

/// Copies a directory file by file, as `cp -r` does.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn files_that_were_copied_while_they_were_open_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let builder = |name: &str| tables(Database::builder().manual_epochs().path(path(name)));
    let db = builder("bank").open().unwrap();
    fill(&mut db.session().unwrap()).unwrap();
    db.flush().unwrap();
    copy_files(&path("bank"), &path("raw"));
    let killed = fs::read(path("bank").join("LOCK")).unwrap();
    drop(db);

    let told = refused(builder("raw").open());
    assert!(told.contains("backup") && told.contains("Builder::accept_copy"), "{told}");
    // To read it is no better.
    assert!(refused(builder("raw").read_only(true).open()).contains("backup"));
    // Nor at the second try.
    assert!(refused(builder("raw").open()).contains("backup"));
    let db = builder("raw").accept_copy(true).open().unwrap();
    assert_eq!(judge(&db), 0);
    drop(db);
    // It was closed since, and is a directory like others.
    drop(builder("raw").open().unwrap());

    // Closed, a directory may be copied.
    copy_files(&path("bank"), &path("closed"));
    drop(builder("closed").open().unwrap());

    // What a killed process has left opens, where it is and after it was moved.
    fs::write(path("bank").join("LOCK"), &killed).unwrap();
    drop(builder("bank").read_only(true).open().unwrap());
    drop(builder("bank").open().unwrap());
    fs::write(path("bank").join("LOCK"), &killed).unwrap();
    fs::rename(path("bank"), path("moved")).unwrap();
    drop(builder("moved").open().unwrap());
    // After a power cut the file may hold a part of it, or something else.
    for rest in [&killed[..killed.len() - 1], &[0; 40], b"open as"] {
        fs::write(path("moved").join("LOCK"), rest).unwrap();
        drop(builder("moved").open().unwrap());
    }
}
