//! When does an engine pay? The same work behind one lock around a map, and in transactions, side by side.
//!
//! `cargo run --release --example pays [PROTOCOL] [THREADS]` prints thousands of transactions a second, the median of
//! five runs each, lock and engine in turns. The map is the standard library's, behind its mutex.

use heddledb::{Database, Durability, ReadTransaction, Session, Table, Transaction, protocol::Kind};
use std::collections::HashMap;
use std::fs::File;
use std::hint::spin_loop;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[derive(Table, Clone, Copy)]
#[table(hash)]
struct Account {
    #[key]
    id: u64,
    balance: i64,
}

const ACCOUNTS: u64 = 100_000;
const RUNS: usize = 5;
const RUN: Duration = Duration::from_millis(400);

/// What a transaction does: it looks at some rows and adds to some, thinks for a while in between, and may be durable.
struct Work {
    name: &'static str,
    reads: usize,
    writes: usize,
    thinks: Duration,
    durable: bool,
}

const WORKS: [Work; 7] = [
    Work::new("transfer: 2 rows", 0, 2),
    Work::new("16 rows changed", 0, 16),
    Work::new("64 rows read", 64, 0),
    Work::new("64 rows read, 2 changed", 64, 2),
    Work { thinks: Duration::from_micros(5), ..Work::new("transfer, thinks for 5 us", 0, 2) },
    Work { thinks: Duration::from_micros(50), ..Work::new("transfer, thinks for 50 us", 0, 2) },
    Work { durable: true, ..Work::new("transfer, on disk when it returns", 0, 2) },
];

impl Work {
    const fn new(name: &'static str, reads: usize, writes: usize) -> Self {
        Self { name, reads, writes, thinks: Duration::ZERO, durable: false }
    }

    fn think(&self) {
        let start = Instant::now();
        while !self.thinks.is_zero() && start.elapsed() < self.thinks {
            spin_loop();
        }
    }
}

/// Accounts at random (xorshift).
struct Random(u64);

impl Random {
    fn account(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % ACCOUNTS
    }
}

/// The other side: a map and, where it is to be durable, a file to which each change is appended.
struct Behind {
    balances: HashMap<u64, i64>,
    log: Option<File>,
}

fn under_the_lock(state: &Mutex<Behind>, work: &Work, random: &mut Random) -> i64 {
    let mut state = state.lock().unwrap();
    let seen = (0..work.reads).map(|_| state.balances[&random.account()]).sum();
    work.think();
    for at in 0..work.writes {
        let (id, by) = (random.account(), if at % 2 == 0 { -1 } else { 1 });
        *state.balances.get_mut(&id).unwrap() += by;
        if let Some(log) = &mut state.log {
            log.write_all(&[id.to_le_bytes(), by.to_le_bytes()].concat()).unwrap();
        }
    }
    if let Some(log) = &state.log {
        log.sync_data().unwrap();
    }
    seen
}

fn in_a_transaction(session: &mut Session, work: &Work, random: &mut Random) -> i64 {
    let body = |tx: &mut heddledb::Txn| {
        let mut seen = 0;
        for _ in 0..work.reads {
            seen += tx.get_columns(random.account(), Account::balance)?.unwrap();
        }
        work.think();
        for at in 0..work.writes {
            let by = if at % 2 == 0 { -1 } else { 1 };
            tx.update_columns(random.account(), Account::balance, |balance| *balance += by)?;
        }
        Ok(seen)
    };
    session.run(body).unwrap()
}

/// Transactions a second of that many threads, each with what `thread` makes for it.
fn rate<F: FnMut(&mut Random) -> i64>(threads: u64, thread: impl Fn() -> F + Sync) -> f64 {
    let start = Instant::now();
    let run = |number: u64| {
        let (mut transaction, mut random, mut done) = (thread(), Random(88_172_645_463_325_252 + number), 0);
        while start.elapsed() < RUN {
            std::hint::black_box(transaction(&mut random));
            done += 1;
        }
        done
    };
    let run = &run;
    let done: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|number| scope.spawn(move || run(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    done as f64 / start.elapsed().as_secs_f64()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2] / 1e3
}

/// An empty folder for one side.
fn folder(side: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("heddledb-pays-{}-{side}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Rates behind the lock and in the engine, by number of threads.
fn measure(work: &Work, protocol: Kind, threads: &[u64]) -> Vec<(f64, f64)> {
    let folders = work.durable.then(|| (folder("lock"), folder("engine")));
    let log = folders.as_ref().map(|(lock, _)| File::create(lock.join("log")).unwrap());
    let state = Mutex::new(Behind { balances: (0..ACCOUNTS).map(|id| (id, 1_000)).collect(), log });
    let mut builder = Database::builder().protocol(protocol).table::<Account>(ACCOUNTS as usize);
    if let Some((_, engine)) = &folders {
        builder = builder.path(engine).durability(Durability::Sync);
    }
    let db = builder.open().unwrap();
    let mut session = db.session().unwrap();
    for first in (0..ACCOUNTS).step_by(1_000) {
        let fill = |tx: &mut heddledb::Txn| {
            (first..first + 1_000).try_for_each(|id| tx.insert(Account { id, balance: 1_000 }))
        };
        session.run(fill).unwrap();
    }
    let at = |threads: &u64| {
        let mut rates = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            rates.0.push(rate(*threads, || |random: &mut Random| under_the_lock(&state, work, random)));
            let engine = || {
                let mut session = db.session().unwrap();
                move |random: &mut Random| in_a_transaction(&mut session, work, random)
            };
            rates.1.push(rate(*threads, engine));
        }
        (median(rates.0), median(rates.1))
    };
    let rates = threads.iter().map(at).collect();
    drop((session, db));
    if let Some((lock, engine)) = folders {
        std::fs::remove_dir_all(lock).unwrap();
        std::fs::remove_dir_all(engine).unwrap();
    }
    rates
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let protocol: Kind = arguments.next().as_deref().unwrap_or("silo").parse()?;
    let threads: u64 = arguments.next().as_deref().unwrap_or("2").parse()?;
    println!(
        "thousand transactions a second, {ACCOUNTS} accounts, {protocol}; behind a lock, in the engine, ratio\n"
    );
    println!("{:<36}{:>26}{:>26}", "", "1 thread", format!("{threads} threads"));
    for work in &WORKS {
        print!("{:<36}", work.name);
        for (lock, engine) in measure(work, protocol, &[1, threads]) {
            print!("{lock:>9.1}{engine:>9.1}{:>8.2}", engine / lock);
        }
        println!();
    }
    Ok(())
}
