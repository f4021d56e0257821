//! Logs of commands: what is there when the calls in a directory's log are made again.

use heddledb::protocol::Kind;
use heddledb::storage::{Fault, Simulated};
use heddledb::{
    Backup, Builder, Database, Durability, Error, LogError, LogKind, Migration, Misuse, ReadTransaction,
    Restore, Result, Scan, Table, Transaction, procedure,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Table, Clone, Debug, PartialEq)]
#[table(index(ByOwner(owner)), unique(ByName(name)))]
struct Account {
    #[key]
    id: u64,
    owner: u32,
    name: u64,
    #[group(money)]
    balance: i64,
    note: String,
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Counter {
    #[key]
    shop: u32,
    next: u64,
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
struct Order {
    #[key]
    shop: u32,
    #[key]
    number: u64,
    account: u64,
    amount: i64,
}

/// Two rows that are known beforehand; gives up where there is not enough.
#[procedure(version = 1)]
fn transfer(tx: &mut impl Transaction, from: u64, to: u64, amount: i64) -> Result<i64> {
    let left = tx.update_columns(from, Account::balance, |balance| {
        *balance -= amount;
        *balance
    })?;
    if left < 0 {
        return Err(Error::user("not enough"));
    }
    tx.add(Account::balance, to, amount)?;
    Ok(left)
}

/// A key that is read, and an insert.
#[procedure(version = 3)]
fn place_order(tx: &mut impl Transaction, shop: u32, account: u64, amount: i64) -> Result<u64> {
    let number = tx.update_columns(shop, Counter::next, |next| {
        *next += 1;
        *next
    })?;
    tx.insert(Order { shop, number, account, amount })?;
    Ok(number)
}

/// It has no version.
#[procedure]
fn pay(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<()> {
    tx.add(Account::balance, id, amount)
}

const ACCOUNTS: u64 = 24;
const SHOPS: u32 = 3;

fn builder(kind: Kind, storage: &Simulated) -> Builder {
    let builder = Database::builder().protocol(kind).storage(Arc::new(storage.clone()));
    builder
        .table::<Account>(0)
        .table::<Counter>(0)
        .table::<Order>(0)
        .procedure::<Transfer>()
        .procedure::<PlaceOrder>()
        .procedure::<Pay>()
}

/// All rows, and what the indexes say.
#[derive(Clone, Debug, PartialEq)]
struct Rows {
    accounts: Vec<Account>,
    by_owner: Vec<u64>,
    counters: Vec<Counter>,
    orders: Vec<Order>,
}

fn rows(db: &Database) -> Rows {
    let mut session = db.session().unwrap();
    let rows = session.run(|tx| {
        let mut by_owner = Vec::new();
        tx.scan_index(Scan::<ByOwner>::all(), |_, id| {
            by_owner.push(id);
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(Rows {
            accounts: tx.collect(Scan::<Account>::all())?,
            by_owner,
            counters: tx.collect(Scan::<Counter>::all())?,
            orders: tx.collect(Scan::<Order>::all())?,
        })
    });
    let report = db.check().unwrap();
    assert!(report.is_whole(), "{report}");
    rows.unwrap()
}

fn fill(db: &Database) {
    let mut session = db.session().unwrap();
    session
        .run(|tx| {
            for id in 0..ACCOUNTS {
                let note = format!("account {id}");
                tx.insert(Account { id, owner: id as u32 % 4, name: id, balance: 50, note })?;
            }
            (0..SHOPS).try_for_each(|shop| tx.insert(Counter { shop, next: 0 }))
        })
        .unwrap();
}

const WITH_COMMANDS: [Kind; 3] = [Kind::Dgcc, Kind::DgccLevels, Kind::Dataflow];

#[test]
fn what_was_acknowledged_is_there_after_a_power_cut() {
    for seed in 0..8 {
        let storage = Simulated::new();
        let done: Vec<u64> = {
            let db = builder(Kind::Dgcc, &storage).executors(2).log_kind(LogKind::Commands);
            let db = db.durability(Durability::Sync).open().unwrap();
            fill(&db);
            let count = |shop: u32| {
                let mut session = db.session().unwrap();
                (0..30).filter(|_| session.submit(PlaceOrder, (shop, 1, 1)).unwrap().wait().is_ok()).count()
                    as u64
            };
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..SHOPS).map(|shop| scope.spawn(move || count(shop))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            })
        };
        let cut = storage.after_power_cut(seed);
        let db = builder(Kind::Silo, &cut).open().unwrap();
        let found = rows(&db);
        let next: Vec<u64> = found.counters.iter().map(|counter| counter.next).collect();
        assert_eq!(next, done, "seed {seed}");
        assert_eq!(found.orders.len() as u64, done.iter().sum::<u64>());
    }
}

#[test]
fn a_log_of_commands_is_shorter() {
    let bytes = |kind: LogKind| {
        let storage = Simulated::new();
        let db = builder(Kind::Dgcc, &storage).executors(1).log_kind(kind).open().unwrap();
        fill(&db);
        let before = db.metrics().log.unwrap().entry_bytes;
        let mut session = db.session().unwrap();
        for number in 0..200 {
            session.submit(PlaceOrder, (0, number % ACCOUNTS, 3)).unwrap().wait().unwrap();
        }
        db.flush().unwrap();
        db.metrics().log.unwrap().entry_bytes - before
    };
    let (values, commands) = (bytes(LogKind::Values), bytes(LogKind::Commands));
    assert!(commands < values, "{commands} bytes of commands, {values} of values");
}

/// Another body under the same name.
mod changed {
    use super::{Account, Result, Transaction, procedure};

    #[procedure(version = 1)]
    pub fn transfer(tx: &mut impl Transaction, from: u64, to: u64, amount: i64) -> Result<()> {
        tx.add(Account::balance, from, -amount)?;
        tx.add(Account::balance, to, amount + 1)
    }
}

#[test]
fn another_procedure_is_refused() {
    let storage = Simulated::new();
    let due = {
        let db = builder(Kind::Dgcc, &storage).log_kind(LogKind::Commands).open().unwrap();
        fill(&db);
        db.session().unwrap().call(Transfer, (1, 2, 3)).unwrap();
        rows(&db)
    };
    let with = |other: fn(Builder) -> Builder| {
        let builder = Database::builder().protocol(Kind::Silo).storage(Arc::new(storage.clone()));
        other(builder.table::<Account>(0).table::<Counter>(0).table::<Order>(0))
    };
    let before = storage.bytes("MANIFEST");
    for other in [|builder: Builder| builder, |builder: Builder| builder.procedure::<changed::Transfer>()] {
        let error = with(other).open().map(|_| ()).unwrap_err();
        let is_changed = |error: &LogError| matches!(error, LogError::ProcedureChanged { procedure, .. } if procedure == "transfer");
        assert!(matches!(&error, Error::Open(error) if is_changed(error)), "{error}");
        assert_eq!(storage.bytes("MANIFEST"), before, "nothing has changed");
    }
    // Nothing was lost by it, and after a checkpoint nobody asks.
    let db = builder(Kind::Silo, &storage).checkpoint_at_close(true).open().unwrap();
    assert_eq!(rows(&db), due);
    drop(db);
    let db = with(|builder| builder.procedure::<changed::Transfer>()).open().unwrap();
    assert_eq!(rows(&db), due);
}

static CALLS: AtomicU64 = AtomicU64::new(0);

fn next_number() -> i64 {
    CALLS.fetch_add(1, Ordering::Relaxed) as i64
}

/// The macro cannot see what it does.
#[procedure(version = 1)]
fn count_up(tx: &mut impl Transaction, id: u64) -> Result<()> {
    tx.add(Account::balance, id, next_number())
}

#[test]
fn who_does_something_else_each_time_is_told() {
    let storage = Simulated::new();
    let db = builder(Kind::Dgcc, &storage).procedure::<CountUp>().log_kind(LogKind::Commands).open().unwrap();
    fill(&db);
    let before = rows(&db);
    // Each call is executed twice with debug assertions, and one in many without.
    let mut session = db.session().unwrap();
    let outcome = (0..2000).try_for_each(|_| session.call(CountUp, 1));
    let error = outcome.unwrap_err();
    assert_eq!(error.misuse(), Some(&Misuse::Diverged), "{error}");
    if cfg!(debug_assertions) {
        assert_eq!(rows(&db), before);
    }
}

/// What `drift` does, which the macro cannot see, nor a fingerprint: 0 what it did when it was logged.
static DRIFT: AtomicU64 = AtomicU64::new(0);

fn drifted(amount: i64) -> Result<i64> {
    match DRIFT.load(Ordering::Relaxed) {
        0 => Ok(amount),
        1 => Ok(amount + 1),
        2 => Err(Error::user("it gives up now")),
        _ => panic!("it panics now"),
    }
}

#[procedure(version = 1)]
fn drift(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<()> {
    let amount = drifted(amount)?;
    tx.add(Account::balance, id, amount)
}

/// All files with their names.
fn files(storage: &Simulated) -> Vec<(String, Vec<u8>)> {
    let names = heddledb::storage::Storage::list(storage).unwrap();
    let mut files: Vec<_> = names.into_iter().map(|name| (name.clone(), storage.bytes(&name))).collect();
    files.sort();
    files
}

/// An opening whose calls do something else than they did is refused, and has changed nothing; whoever has the procedures as they
/// were opens the directory then. Also one that was not closed, and one with a generation of values behind the calls.
#[test]
fn a_call_that_diverges_leaves_the_directory_as_it_was() {
    fn with(storage: &Simulated) -> Builder {
        builder(Kind::Dgcc, storage).procedure::<Drift>()
    }
    let storage = Simulated::new();
    let life = |kind: LogKind| {
        let db = with(&storage).log_kind(kind).open().unwrap();
        if kind == LogKind::Commands {
            fill(&db);
        }
        let mut session = db.session().unwrap();
        for number in 0..40 {
            session.call(Drift, (number % ACCOUNTS, 2)).unwrap();
            session.call(PlaceOrder, ((number % 3) as u32, number, 1)).unwrap();
        }
        db.flush().unwrap();
        (rows(&db), storage.after_kill())
    };
    let lives = [life(LogKind::Commands), life(LogKind::Values)];
    for (due, killed) in lives {
        let before = files(&killed);
        for (how, at_close) in [(1, false), (2, true), (3, false), (1, true)] {
            DRIFT.store(how, Ordering::Relaxed);
            let opened = with(&killed).checkpoint_at_close(at_close).open().map(|_| ());
            DRIFT.store(0, Ordering::Relaxed);
            let error = opened.unwrap_err();
            let is_it = |error: &LogError| matches!(error, LogError::CallDiverged { procedure, .. } if procedure == "drift");
            assert!(matches!(&error, Error::Open(error) if is_it(error)), "{error}");
            assert!(files(&killed) == before, "its files have changed");
        }
        for kind in [Kind::Silo, Kind::Dgcc] {
            let db = builder(kind, &killed).procedure::<Drift>().open().unwrap();
            assert_eq!(rows(&db), due, "{kind}");
        }
        // The opening that succeeded has begun a life of its own, which counts.
        let db = with(&killed).open().unwrap();
        db.session().unwrap().call(Pay, (0, 5)).unwrap();
        let due = rows(&db);
        drop(db);
        assert_eq!(rows(&builder(Kind::TicToc, &killed).procedure::<Drift>().open().unwrap()), due);
    }
}

#[test]
fn only_a_graph_logs_commands() {
    for kind in Kind::ALL.iter().copied().filter(|kind| !WITH_COMMANDS.contains(kind)) {
        let error =
            builder(kind, &Simulated::new()).log_kind(LogKind::Commands).open().map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("`dgcc`"), "{kind}: {error}");
    }
}

#[test]
fn a_log_that_failed_goes_on() {
    let storage = Simulated::new();
    let due = {
        let db = builder(Kind::Dgcc, &storage)
            .executors(1)
            .log_kind(LogKind::Commands)
            .manual_epochs()
            .open()
            .unwrap();
        fill(&db);
        let mut session = db.session().unwrap();
        let mut place = |count: u64| {
            (0..count).for_each(|_| {
                session.submit(PlaceOrder, (1, 2, 3)).unwrap().wait().unwrap();
            });
        };
        place(5);
        db.flush().unwrap();
        place(5);
        storage.fail(storage.operations() + 1, Fault::Error);
        assert!(db.flush().is_err());
        db.resume().unwrap();
        place(5);
        rows(&db)
    };
    assert_eq!(due.counters[1].next, 15);
    let db = builder(Kind::Silo, &storage).open().unwrap();
    assert_eq!(rows(&db), due);
}

/// The same table with another index.
mod indexed {
    use super::Table;

    #[derive(Table, Clone, Debug, PartialEq)]
    #[table(index(ByOwner(owner)), unique(ByName(name)), index(ByBalance(balance)))]
    pub struct Account {
        #[key]
        id: u64,
        owner: u32,
        name: u64,
        #[group(money)]
        balance: i64,
        note: String,
    }
}

#[test]
fn an_index_is_added_when_no_call_is_left() {
    let storage = Simulated::new();
    let db = builder(Kind::Dgcc, &storage).log_kind(LogKind::Commands).open().unwrap();
    fill(&db);
    db.session().unwrap().call(Transfer, (1, 2, 3)).unwrap();
    let due = rows(&db);
    drop(db);
    let open = || {
        let with = Database::builder().storage(Arc::new(storage.clone())).table::<indexed::Account>(0);
        with.table::<Counter>(0).table::<Order>(0).procedure::<Transfer>().open()
    };
    let before = storage.bytes("MANIFEST");
    let error = open().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("ByBalance"), "{error}");
    assert_eq!(storage.bytes("MANIFEST"), before, "nothing has changed");
    drop(builder(Kind::Silo, &storage).checkpoint_at_close(true).open().unwrap());
    let db = open().unwrap();
    assert!(db.check().unwrap().is_whole());
    drop(db);
    let db = builder(Kind::TicToc, &storage).open().unwrap();
    assert_eq!(rows(&db), due);
}

#[test]
fn a_directory_with_calls_is_not_migrated() {
    mod wider {
        use heddledb::Table;
        #[derive(Table, Clone, Copy)]
        pub struct Counter {
            #[key]
            shop: u32,
            next: u128,
        }
    }
    let storage = Simulated::new();
    let db = builder(Kind::Dgcc, &storage).log_kind(LogKind::Commands).open().unwrap();
    fill(&db);
    db.session().unwrap().call(Transfer, (1, 2, 3)).unwrap();
    drop(db);
    let open = || {
        let wide = Database::builder()
            .storage(Arc::new(storage.clone()))
            .table::<Account>(0)
            .table::<wider::Counter>(0);
        wide.table::<Order>(0).migrate(Migration::new()).open()
    };
    let error = open().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("holds calls of procedures"), "{error}");
    let db = builder(Kind::Silo, &storage).open().unwrap();
    db.checkpoint().unwrap();
    drop(db);
    open().unwrap();
}

/// Copies hold calls, too, of as many lives as the database had.
#[test]
fn a_copy_is_continued_with_calls() {
    let (storage, copy) = (Simulated::new(), Simulated::new());
    let mut due = None;
    for life in 0..3 {
        let db = builder(Kind::Dgcc, &storage).log_kind(LogKind::Commands).keep_log(1 << 30).open().unwrap();
        let to = || Backup::to_storage(Arc::new(copy.clone()));
        if life == 0 {
            fill(&db);
            db.backup(to()).unwrap();
        }
        let mut session = db.session().unwrap();
        for number in 0..30 {
            session.call(Transfer, (number % ACCOUNTS, (number + life + 1) % ACCOUNTS, 1)).unwrap();
            session.call(PlaceOrder, ((number % 3) as u32, number, life as i64)).unwrap();
        }
        db.backup(to().incremental()).unwrap();
        due = Some(rows(&db));
    }
    let db = builder(Kind::Silo, &copy).read_only(true).open().unwrap();
    assert_eq!(Some(rows(&db)), due);
    drop(db);
    let restored = Simulated::new();
    Restore::from_storage(Arc::new(copy)).to_storage(Arc::new(restored.clone())).unwrap();
    let db = builder(Kind::TicToc, &restored).open().unwrap();
    assert_eq!(Some(rows(&db)), due);
}
