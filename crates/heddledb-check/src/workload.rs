//! A random workload whose history is recorded: short transactions over two small tables, with
//! inserts, updates, deletes, point reads and scans, some of which give up.
//!
//! The keys in use move on as the run proceeds, so that each row has a bounded number of versions,
//! and rows and index nodes come and go.

use crate::history::{Attempt, Header, History, Status};
use crate::recorder::{HASHED, ORDERED, Recorder};
use heddledb::sync::Random;
use heddledb::{Database, Error, Protocol, Result, Session, Transaction};
use std::sync::atomic::{AtomicU64, Ordering};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Sessions, each on a thread of its own.
    pub threads: usize,
    /// Committed transactions in all.
    pub transactions: u64,
    /// The seed of all randomness but the scheduler's.
    pub seed: u64,
    /// Keys of each table in use at a time.
    pub keys: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self { threads: 2, transactions: 10_000, seed: 1, keys: 12 }
    }
}

/// After this many transactions the window of keys moves by its own length.
const WINDOW: u64 = 400;

/// Runs the plan on a new database and returns its history.
///
/// # Errors
/// What opening the database or a session says; a session that cannot be had.
pub fn run<P: Protocol>(options: &P::Options, plan: &Plan, progress: &(dyn Fn(u64) + Sync)) -> Result<History> {
    let builder = Database::builder().protocol::<P>().options(options.clone()).sessions(plan.threads);
    let db = builder.open()?;
    // The clock of the history: outside the engine, so it may be a plain shared counter.
    let clock = AtomicU64::new(1);
    let outcomes: Vec<Result<Vec<Attempt>>> = std::thread::scope(|scope| {
        let worker = |number: usize| {
            let (db, clock) = (&db, &clock);
            scope.spawn(move || Worker::new(db.session()?, number, plan, clock).run(progress))
        };
        let threads: Vec<_> = (0..plan.threads).map(worker).collect();
        threads.into_iter().map(|thread| thread.join().expect("workers do not panic")).collect()
    });
    let mut attempts = Vec::new();
    for outcome in outcomes {
        attempts.extend(outcome?);
    }
    Ok(History { header: Header::new(P::NAME, P::STRICT, plan.seed), attempts })
}

struct Worker<'a, P: Protocol> {
    session: Session<P>,
    number: usize,
    plan: &'a Plan,
    clock: &'a AtomicU64,
    random: Random,
    version: u64,
}

/// One step of a transaction, drawn before it runs, so that a retry does the same.
#[derive(Clone, Copy)]
enum Step {
    Read(u8, u64),
    Write(u8, u64),
    Overwrite(u8, u64),
    Delete(u8, u64),
    Scan(u64, u64, bool),
    GiveUp,
}

impl<'a, P: Protocol> Worker<'a, P> {
    fn new(session: Session<P>, number: usize, plan: &'a Plan, clock: &'a AtomicU64) -> Self {
        let random = Random::new(plan.seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        Self { session, number, plan, clock, random, version: (number as u64 + 1) << 40 }
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn run(mut self, progress: &(dyn Fn(u64) + Sync)) -> Result<Vec<Attempt>> {
        let share = self.plan.transactions / self.plan.threads as u64;
        let mut attempts = Vec::with_capacity(share as usize * 5 / 4);
        let (mut committed, mut told) = (0, 0);
        while committed < share {
            let window = committed * self.plan.threads as u64 / WINDOW;
            let steps = self.draw(window * self.plan.keys);
            // A transaction is tried some times, then given up for another.
            for retry in 0..20u64 {
                let attempt = self.attempt(&steps)?;
                let done = attempt.status == Status::Committed;
                attempts.push(attempt);
                committed += u64::from(done);
                if done || steps.iter().any(|step| matches!(step, Step::GiveUp)) {
                    break;
                }
                let pause = self.random.below(16 << retry.min(6));
                (0..pause).for_each(|_| std::hint::spin_loop());
            }
            if committed - told >= 1_000 {
                progress(committed - told);
                told = committed;
            }
        }
        progress(committed - told);
        Ok(attempts)
    }

    fn draw(&mut self, base: u64) -> Vec<Step> {
        let random = &mut self.random;
        let count = 1 + random.below(6);
        let mut steps: Vec<Step> = (0..count)
            .map(|_| {
                let table = if random.below(2) == 0 { ORDERED } else { HASHED };
                let key = base + random.below(self.plan.keys);
                match random.below(20) {
                    0..8 => Step::Read(table, key),
                    8..13 => Step::Write(table, key),
                    13 => Step::Overwrite(table, key),
                    14..17 => Step::Delete(table, key),
                    _ => Step::Scan(key, key + random.below(5), random.below(2) == 0),
                }
            })
            .collect();
        if random.below(50) == 0 {
            steps.push(Step::GiveUp);
        }
        steps
    }

    fn attempt(&mut self, steps: &[Step]) -> Result<Attempt> {
        let mut ops = Vec::with_capacity(steps.len() * 2);
        let mut version = self.version;
        let begin = self.now();
        let outcome = self.session.attempt(|tx| {
            let mut recorder = Recorder::new(tx, &mut ops, &mut version);
            steps.iter().try_for_each(|step| execute(&mut recorder, *step))
        });
        let end = self.now();
        self.version = version;
        let status = match outcome {
            Ok(()) => Status::Committed,
            Err(Error::Conflict(_) | Error::User(_)) => Status::Aborted,
            Err(error) => return Err(error),
        };
        let wrote = ops.iter().any(|op| matches!(op, crate::history::Op::Write(..) | crate::history::Op::Delete(..)));
        let stamp = if status == Status::Committed && wrote { self.session.last_commit() } else { 0 };
        Ok(Attempt { session: self.number as u32, begin, end, status, stamp, ops })
    }
}

fn execute<T: Transaction>(recorder: &mut Recorder<'_, T>, step: Step) -> Result<()> {
    match step {
        Step::Read(table, key) => recorder.read(table, key).map(|_| ()),
        Step::Write(table, key) => recorder.write(table, key),
        Step::Overwrite(table, key) => match recorder.read(table, key)? {
            crate::history::ABSENT => Ok(()),
            _ => recorder.overwrite(table, key),
        },
        Step::Delete(table, key) => recorder.delete(table, key),
        Step::Scan(low, high, reverse) => recorder.scan(low, high, reverse),
        Step::GiveUp => Err(Error::user("the workload gives up")),
    }
}
