//! A small workload for the tests of the runner and the reports: counters that are counted up.

use heddledb::{
    Builder, Database, Error, ReadTransaction, Result, Scan, Session, Table, Transaction, procedure,
};
use heddledb_workloads::{Check, Workload};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Counters, few of them, so that workers meet.
#[derive(Default)]
pub struct Toy {
    /// How many.
    pub counters: u64,
    /// What the check adds to the ledgers, so that it fails.
    pub error: u64,
    /// How many counters are asked for but not loaded.
    pub missing: u64,
    /// How many transactions have been run.
    pub run: AtomicU64,
    /// The transaction of this number, from one, sleeps so long: the thread that executes it stalls.
    pub stall: (u64, Duration),
    /// How long each transaction takes besides.
    pub each: Duration,
    /// Whether transactions are closures instead of calls.
    pub closures: bool,
}

impl Toy {
    /// Three counters and nothing else.
    pub fn three() -> Self {
        Self { counters: 3, ..Self::default() }
    }

    fn key(&self, input: &u64) -> u64 {
        input % (self.counters + self.missing)
    }
}

/// One counter.
#[derive(Table, Clone, Copy)]
pub struct Counter {
    #[key]
    id: u64,
    count: u64,
}

/// Counts up, or gives up.
#[procedure]
pub fn count_up(tx: &mut impl Transaction, key: u64, refused: bool) -> Result<u64> {
    tx.update_columns(key, Counter::count, |count| *count += 1)?;
    if refused { Err(Error::user("refused")) } else { Ok(1) }
}

impl Workload for Toy {
    type Generator = u64;
    type Input = u64;
    type Output = u64;
    type Ledger = u64;

    fn name(&self) -> &'static str {
        "toy"
    }

    fn parameters(&self) -> Vec<(String, String)> {
        vec![("counters".into(), self.counters.to_string())]
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["count", "refuse"]
    }

    fn tables(&self, builder: Builder) -> Builder {
        builder.table::<Counter>(self.counters as usize).procedure::<CountUp>()
    }

    fn load(&self, db: &Database, _seed: u64, progress: &(dyn Fn(f64) + Sync)) -> Result<()> {
        let mut session = db.session()?;
        for id in 0..self.counters {
            session.run(|tx| tx.insert(Counter { id, count: 0 }))?;
            progress((id + 1) as f64 / self.counters as f64);
        }
        Ok(())
    }

    fn generator(&self, worker: usize, _workers: usize, seed: u64) -> u64 {
        seed + worker as u64
    }

    fn draw(&self, generator: &mut u64, input: &mut u64) {
        *generator = generator.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *input = *generator >> 33;
    }

    fn refresh(&self, _generator: &mut u64, _input: &mut u64) {}

    fn kind(&self, input: &u64) -> usize {
        usize::from(input.is_multiple_of(10))
    }

    fn execute<T: Transaction>(&self, tx: &mut T, input: &u64) -> Result<u64> {
        count_up(tx, self.key(input), self.kind(input) == 1)
    }

    fn call(&self, session: &mut Session, input: &u64) -> Result<u64> {
        let (number, length) = self.stall;
        if self.run.fetch_add(1, Ordering::Relaxed) + 1 == number {
            thread::sleep(length);
        }
        if !self.each.is_zero() {
            thread::sleep(self.each);
        }
        if self.closures {
            return session.run(|tx| self.execute(tx, input));
        }
        session.call(CountUp, (self.key(input), self.kind(input) == 1))
    }

    fn is_submittable(&self) -> bool {
        !self.closures
    }

    fn record(&self, ledger: &mut u64, _input: &u64, output: u64) {
        *ledger += output;
    }

    fn check(&self, db: &Database, ledgers: &[u64]) -> Result<Vec<Check>> {
        let counted = db.session()?.run(|tx| {
            let mut sum = 0;
            tx.scan(Scan::<Counter>::all(), |counter| {
                sum += counter.count;
                ControlFlow::Continue(())
            })?;
            Ok(sum)
        })?;
        let expected = ledgers.iter().sum::<u64>() + self.error;
        let detail = format!("{counted} in the table, {expected} in the ledgers");
        Ok(vec![Check { name: "no count is lost".into(), ok: counted == expected, detail }])
    }
}
