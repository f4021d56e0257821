//! Logs of commands: the calls that one database has logged are made again when its directory is opened under any protocol, by any
//! number of threads, and lead to the same rows.

use super::Test;
use heddledb::internals::random::Random;
use heddledb::procedure::Announcement;
use heddledb::protocol::Kind;
use heddledb::storage::{File, Guard, Simulated, Storage};
use heddledb::{
    Builder, Database, Error, LogKind, ReadTransaction, Result, Scan, Session, Table, Transaction, procedure,
};
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) fn tests() -> Vec<Test> {
    vec![
        Test { name: "commands_are_made_again", run: are_made_again },
        Test { name: "commands_lead_where_values_do", run: lead_where_values_do },
        Test { name: "commands_are_put_between_rows", run: are_put_between_rows },
        Test { name: "commands_keep_readers_before_writers", run: keep_readers_before_writers },
        Test { name: "commands_say_rows_of_what_nobody_foresaw", run: say_rows_of_what_nobody_foresaw },
        Test {
            name: "commands_keep_what_was_unordered_in_its_place",
            run: keep_what_was_unordered_in_its_place,
        },
        Test { name: "commands_keep_scans_in_their_place", run: keep_scans_in_their_place },
        Test { name: "commands_follow_a_checkpoint", run: follow_a_checkpoint },
        Test { name: "commands_in_a_checkpoint_are_not_made_again", run: in_a_checkpoint_are_not_made_again },
        Test { name: "commands_come_before_later_lives", run: come_before_later_lives },
        Test { name: "commands_and_rows_take_turns", run: and_rows_take_turns },
    ]
}

#[derive(Table, Clone, Debug, PartialEq)]
#[table(name = "commands_account", index(CommandsByOwner(owner)), unique(CommandsByName(name)))]
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
#[table(name = "commands_counter")]
struct Counter {
    #[key]
    shop: u32,
    next: u64,
}

#[derive(Table, Clone, Copy, Debug, PartialEq)]
#[table(name = "commands_order")]
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
fn commands_transfer(tx: &mut impl Transaction, from: u64, to: u64, amount: i64) -> Result<i64> {
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
fn commands_place_order(tx: &mut impl Transaction, shop: u32, account: u64, amount: i64) -> Result<u64> {
    let number = tx.update_columns(shop, Counter::next, |next| {
        *next += 1;
        *next
    })?;
    tx.insert(Order { shop, number, account, amount })?;
    Ok(number)
}

/// A scan, and what it found is deleted.
#[procedure(version = 1)]
fn commands_deliver(tx: &mut impl Transaction, shop: u32, most: u64) -> Result<u64> {
    let open = tx.collect(Scan::<Order>::prefix((shop,)).limit(most as usize))?;
    for order in &open {
        tx.delete::<Order>((order.shop, order.number))?;
        tx.add(Account::balance, order.account, order.amount)?;
    }
    Ok(open.len() as u64)
}

/// Index entries, and a value of any length.
#[procedure(version = 1)]
fn commands_rename(tx: &mut impl Transaction, id: u64, owner: u32, name: u64, note: &str) -> Result<bool> {
    if tx.find::<CommandsByName>(name)?.is_some() {
        return Ok(false);
    }
    tx.update::<Account, _>(id, |account| {
        account.owner = owner;
        account.name = name;
        account.note = note.repeat(1 + (name % 3) as usize);
    })?;
    Ok(true)
}

/// It has no version.
#[procedure]
fn commands_pay(tx: &mut impl Transaction, id: u64, amount: i64) -> Result<()> {
    tx.add(Account::balance, id, amount)
}

/// A row that others write is read, and another one written.
#[procedure(version = 1)]
fn commands_copy(tx: &mut impl Transaction, from: u32, to: u32) -> Result<()> {
    let next = tx.get_columns(from, Counter::next)?.unwrap_or(0);
    tx.set_columns(to, Counter::next, next)
}

/// Which row is read stands in another one.
#[procedure(version = 1)]
fn commands_follow(tx: &mut impl Transaction, from: u32, into: u64) -> Result<()> {
    let to = tx.get_columns(from, Counter::next)?.unwrap_or(0);
    let value = tx.get_columns(to as u32, Counter::next)?.unwrap_or(0);
    tx.set_columns(into, Account::balance, value as i64)
}

fn tell_peeks(to: &mut Announcement<'_>, from: u32, into: u64) {
    to.uses_unordered(Scan::<Counter>::range(from..=from + 1));
    to.writes(into, Account::balance);
}

#[procedure(version = 1, announce = tell_peeks)]
fn commands_peek(tx: &mut impl Transaction, from: u32, into: u64) -> Result<()> {
    let next = tx.get_columns(from, Counter::next)?.unwrap_or(0);
    tx.set_columns(into, Account::balance, next as i64)
}

#[procedure(version = 1)]
fn commands_set(tx: &mut impl Transaction, shop: u32, next: u64) -> Result<()> {
    tx.set_columns(shop, Counter::next, next)
}

/// How many orders there are is written down.
#[procedure(version = 1)]
fn commands_count(tx: &mut impl Transaction, shop: u32, into: u32) -> Result<()> {
    let mut count = 0;
    tx.scan(Scan::<Order>::prefix((shop,)), |_| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    })?;
    tx.set_columns(into, Counter::next, count)
}

#[procedure(version = 1)]
fn commands_put(tx: &mut impl Transaction, shop: u32, number: u64) -> Result<bool> {
    let order = Order { shop, number, account: 0, amount: 0 };
    if tx.delete::<Order>((shop, number))? {
        return Ok(false);
    }
    tx.insert(order)?;
    Ok(true)
}

const ACCOUNTS: u64 = 24;
const SHOPS: u32 = 3;
/// Counters beside those of shops.
const COUNTERS: u32 = 12;

const LOGGING: [Kind; 3] = [Kind::Dgcc, Kind::DgccLevels, Kind::Dataflow];

/// Who logs the calls that are made again under a protocol: itself, if it can.
fn logger(kind: Kind) -> Kind {
    if LOGGING.contains(&kind) { kind } else { Kind::Dgcc }
}

fn builder(kind: Kind, storage: &Simulated) -> Builder {
    let builder = Database::builder().protocol(kind).storage(Arc::new(storage.clone()));
    let builder = builder
        .sessions(kind.sessions_max().min(12))
        .table::<Account>(0)
        .table::<Counter>(0)
        .table::<Order>(0);
    builder
        .procedure::<CommandsTransfer>()
        .procedure::<CommandsPlaceOrder>()
        .procedure::<CommandsDeliver>()
        .procedure::<CommandsRename>()
        .procedure::<CommandsPay>()
        .procedure::<CommandsCopy>()
        .procedure::<CommandsFollow>()
        .procedure::<CommandsPeek>()
        .procedure::<CommandsSet>()
        .procedure::<CommandsCount>()
        .procedure::<CommandsPut>()
}

/// A database that logs commands.
fn logs(kind: Kind, storage: &Simulated) -> Database {
    logs_as(LogKind::Commands, kind, storage)
}

fn logs_as(log: LogKind, kind: Kind, storage: &Simulated) -> Database {
    builder(logger(kind), storage).executors(2).log_kind(log).open().unwrap()
}

/// Opens the directory again, under any number of threads: it has these rows.
fn reopens(kind: Kind, storage: &Simulated, due: &Rows) {
    for threads in [1, 2, 8] {
        let db = builder(kind, storage).recovery_threads(threads).read_only(true).open().unwrap();
        let found = rows(&db);
        assert!(found == *due, "{threads} threads: {found:?} instead of {due:?}");
    }
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
        tx.scan_index(Scan::<CommandsByOwner>::all(), |_, id| {
            by_owner.push(id);
            ControlFlow::Continue(())
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
            (0..COUNTERS).try_for_each(|shop| tx.insert(Counter { shop, next: 0 }))
        })
        .unwrap();
}

/// Calls of all procedures, closures among them, from several sessions.
fn work(db: &Database, sessions: u64, calls: u64, seed: u64) {
    std::thread::scope(|scope| {
        for session in 0..sessions {
            scope.spawn(move || work_on(&mut db.session().unwrap(), calls, false, seed * 1000 + session));
        }
    });
}

/// One session's; `one_by_one` says whether each is waited for before the next, so that what comes of them follows from the seed.
fn work_on(session: &mut Session, calls: u64, one_by_one: bool, seed: u64) {
    let mut random = Random::new(seed);
    let mut below = |most: u64| random.below(most);
    let mut pending = Vec::new();
    for _ in 0..calls {
        let (from, to) = (below(ACCOUNTS), below(ACCOUNTS));
        let (shop, amount) = (below(SHOPS.into()) as u32, below(20) as i64);
        match below(12) {
            0..4 if from != to => match session.call(CommandsTransfer, (from, to, amount)) {
                Ok(_) => {}
                Err(error) => assert!(error.to_string().contains("not enough"), "{error}"),
            },
            4..7 => pending.push(session.submit(CommandsPlaceOrder, (shop, to, amount)).unwrap()),
            7 => pending.push(session.submit(CommandsDeliver, (shop, 3)).unwrap()),
            8 => {
                session.call(CommandsRename, (from, shop, below(40), "a note of some length")).unwrap();
            }
            9 => session.call(CommandsPay, (to, amount)).unwrap(),
            10 => session.run(|tx| tx.add(Account::balance, to, amount)).unwrap(),
            _ => session
                .run(|tx| {
                    let orders = tx.collect(Scan::<Order>::prefix((shop,)).limit(1))?;
                    orders.iter().try_for_each(|order| {
                        tx.update_columns((order.shop, order.number), Order::amount, |a| *a += 1)
                    })
                })
                .unwrap(),
        }
        if one_by_one {
            pending.drain(..).for_each(|call| _ = call.wait().unwrap());
        }
    }
    for call in pending {
        call.wait().unwrap();
    }
}

/// One session's calls are logged, and the log leads to the rows that they had led to.
fn are_made_again_after(kind: Kind, calls: impl FnOnce(&Database, &mut Session)) -> Simulated {
    let storage = Simulated::new();
    let due = {
        let db = logs(kind, &storage);
        fill(&db);
        calls(&db, &mut db.session().unwrap());
        rows(&db)
    };
    reopens(kind, &storage, &due);
    storage
}

/// Everything at once: calls, closures between them, what nobody foresaw.
fn are_made_again(kind: Kind) {
    for seed in 0..2 {
        let storage = Simulated::new();
        let due = {
            let db = logs(kind, &storage);
            fill(&db);
            work(&db, 3, 150, 10 + seed);
            rows(&db)
        };
        reopens(kind, &storage, &due);
        let db = builder(kind, &storage).read_only(true).open().unwrap();
        let recovery = db.recovery().unwrap();
        assert!(recovery.calls > 100 && recovery.calls < recovery.transactions, "seed {seed}: {recovery}");
    }
}

/// The same calls, logged as commands and as what they wrote: what is there afterwards is the same, however many threads recover it.
fn lead_where_values_do(kind: Kind) {
    let lives = [LogKind::Commands, LogKind::Values].map(|log| {
        let storage = Simulated::new();
        let db = logs_as(log, kind, &storage);
        fill(&db);
        work_on(&mut db.session().unwrap(), 600, true, 31);
        let due = rows(&db);
        drop(db);
        let db = builder(kind, &storage).read_only(true).open().unwrap();
        (storage, due, db.recovery().unwrap().calls)
    });
    let [(commands, due, made_again), (values, due_of_values, none)] = &lives;
    assert!(*made_again > 200 && *none == 0, "{made_again} calls, and {none} of a log of values");
    assert_eq!(due, due_of_values, "one session's calls, one by one");
    reopens(kind, commands, due);
    reopens(kind, values, due);
}

/// A commit that is put back row by row changes nothing beside what it had written: calls that change the other columns are made at
/// the same time.
fn are_put_between_rows(kind: Kind) {
    are_made_again_after(kind, |_, session| {
        for number in 0..1500 {
            session.call(CommandsTransfer, (number % 2, 1 - number % 2, 1)).unwrap();
            session.run(|tx| tx.set_columns(number % 2, Account::owner, number as u32)).unwrap();
        }
    });
}

/// What reads a row and writes another comes before what writes the first.
fn keep_readers_before_writers(kind: Kind) {
    are_made_again_after(kind, |_, session| {
        let mut pending = Vec::new();
        let mut random = Random::new(5);
        for number in 0..2500 {
            let (from, to) = (random.below(4) as u32, 4 + random.below(u64::from(COUNTERS) - 4) as u32);
            pending.push(session.submit(CommandsCopy, (from, to)).unwrap());
            let set = session.submit(CommandsSet, (from, number)).unwrap();
            set.wait().unwrap();
        }
        pending.into_iter().for_each(|call| call.wait().unwrap());
    });
}

/// A call that has read what it had not told comes before what writes that, too.
fn say_rows_of_what_nobody_foresaw(kind: Kind) {
    are_made_again_after(kind, |_, session| {
        let mut random = Random::new(3);
        let mut pending = Vec::new();
        for number in 0..1500 {
            let (from, to) = (random.below(4) as u32, 4 + random.below(u64::from(COUNTERS) - 4));
            pending.push(session.submit(CommandsSet, (from, to)).unwrap());
            pending.push(session.submit(CommandsFollow, (from, number % ACCOUNTS)).unwrap());
            pending.push(session.submit(CommandsSet, (to as u32, number)).unwrap());
        }
        pending.into_iter().try_for_each(|call| call.wait()).unwrap();
    });
}

/// So does one that has told that nobody waits for what it reads; which rows these are is known by then: it is made again as a call.
fn keep_what_was_unordered_in_its_place(kind: Kind) {
    let storage = are_made_again_after(kind, |db, session| {
        let mut pending = Vec::new();
        for number in 0..500 {
            pending.push(session.submit(CommandsPeek, (number as u32 % 4, number % ACCOUNTS)).unwrap());
            pending.push(session.submit(CommandsSet, (number as u32 % 4, number)).unwrap());
        }
        pending.into_iter().try_for_each(|call| call.wait()).unwrap();
        assert_eq!(db.metrics().stats.unforeseen, 0, "all was told");
    });
    let db = builder(kind, &storage).read_only(true).open().unwrap();
    assert_eq!(db.recovery().map(|recovery| recovery.calls), Some(1000), "all");
}

/// What counts rows comes between what inserts and deletes them, also where nobody had scanned so before.
fn keep_scans_in_their_place(kind: Kind) {
    for seed in 0..3 {
        are_made_again_after(kind, |_, session| {
            let (mut put, mut counted) = (Vec::new(), Vec::new());
            let mut random = Random::new(seed);
            for number in 0..600 {
                let shop = random.below(SHOPS.into()) as u32;
                let into = SHOPS + (number % (COUNTERS - SHOPS));
                put.push(session.submit(CommandsPut, (shop, random.below(40))).unwrap());
                // The first scan comes late.
                if number > 200 {
                    counted.push(session.submit(CommandsCount, (shop, into)).unwrap());
                }
            }
            put.into_iter().try_for_each(|call| call.wait().map(|_| ())).unwrap();
            counted.into_iter().try_for_each(|call| call.wait()).unwrap();
        });
    }
}

/// A checkpoint holds a prefix of the commits, and each of the others is made again once.
fn follow_a_checkpoint(kind: Kind) {
    let storage = Simulated::new();
    let due = {
        let db = logs(kind, &storage);
        fill(&db);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seeds = 50..;
                while !done.load(Ordering::Relaxed) {
                    work(&db, 2, 20, seeds.next().unwrap());
                }
            });
            let taken = (0..3).try_for_each(|_| db.checkpoint().map(|_| ()));
            done.store(true, Ordering::Relaxed);
            taken.unwrap();
        });
        rows(&db)
    };
    reopens(kind, &storage, &due);
}

/// What happens once.
type Happens = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// A disk on which something happens when the next file is made.
struct Meanwhile {
    disk: Simulated,
    happens: Arc<Happens>,
}

impl Storage for Meanwhile {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let happens = self.happens.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(happens) = happens {
            happens();
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

/// Calls that come when a checkpoint has had the log go on in new files, and before its moment: they are in both.
fn in_a_checkpoint_are_not_made_again(kind: Kind) {
    let storage = Simulated::new();
    let happens = Arc::<Happens>::default();
    let due = {
        let disk = Meanwhile { disk: storage.clone(), happens: Arc::clone(&happens) };
        let builder = builder(logger(kind), &storage).storage(Arc::new(disk));
        let db = builder.executors(2).log_kind(LogKind::Commands).open().unwrap();
        fill(&db);
        work(&db, 1, 20, 60);
        let (other, calls) = (db.clone(), Arc::new(AtomicBool::new(false)));
        let done = Arc::clone(&calls);
        *happens.lock().unwrap() = Some(Box::new(move || {
            let mut session = other.session().unwrap();
            (0..5).for_each(|_| _ = session.call(CommandsPlaceOrder, (1, 1, 1)).unwrap());
            done.store(true, Ordering::Relaxed);
        }));
        db.checkpoint().unwrap();
        assert!(calls.load(Ordering::Relaxed), "the checkpoint makes files");
        work(&db, 1, 20, 61);
        rows(&db)
    };
    reopens(kind, &storage, &due);
}

/// Calls that read what nobody wrote while they ran come before those of a later life who write it, also where these are logged as
/// rows.
fn come_before_later_lives(kind: Kind) {
    let storage = Simulated::new();
    let db = logs(kind, &storage);
    fill(&db);
    db.checkpoint().unwrap();
    drop(db);
    for life in 0..2 {
        let db = logs(kind, &storage);
        let mut session = db.session().unwrap();
        for number in 0..400 {
            session.call(CommandsFollow, ((number % 4) as u32, number % ACCOUNTS)).unwrap();
        }
        drop((session, db));
        let db = builder(kind, &storage).open().unwrap();
        let mut session = db.session().unwrap();
        for number in 0..200 {
            let to = 4 + number % 8;
            session.run(|tx| tx.set_columns((number % 4) as u32, Counter::next, to)).unwrap();
            session.run(|tx| tx.set_columns(to as u32, Counter::next, life * 1000 + number)).unwrap();
        }
    }
    let due = rows(&builder(kind, &storage).recovery_threads(1).read_only(true).open().unwrap());
    let is_early = |account: &Account| (0..1000).contains(&account.balance);
    assert!(due.accounts.iter().all(is_early), "the second life's calls saw the first's rows only");
    reopens(kind, &storage, &due);
}

/// Lives of one directory under different protocols, with logs of either kind.
fn and_rows_take_turns(kind: Kind) {
    let storage = Simulated::new();
    let mut due = {
        let db = logs(kind, &storage);
        fill(&db);
        work(&db, 2, 40, 7);
        rows(&db)
    };
    for seed in 20..23 {
        let db = builder(kind, &storage).open().unwrap();
        assert_eq!(rows(&db), due, "{kind}, seed {seed}");
        db.session().unwrap().run(|tx| tx.add(Account::balance, 1, 7)).unwrap();
        due = rows(&db);
        drop(db);
        let db = logs(kind, &storage);
        assert_eq!(rows(&db), due, "after {kind}, seed {seed}");
        work(&db, 2, 20, seed);
        if seed == 21 {
            db.checkpoint().unwrap();
            work(&db, 2, 10, seed + 100);
        }
        due = rows(&db);
    }
    reopens(kind, &storage, &due);
}
