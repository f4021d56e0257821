//! A random workload whose history is recorded: short transactions over two small tables, with
//! inserts, updates, deletes, point reads and scans, some of which give up, and some of which defer what they do; and
//! snapshots.
//!
//! The keys in use move on as the run proceeds, so that each row has a bounded number of versions,
//! and rows and index nodes come and go.
//!
//! **Concurrency is made, not hoped for.** A transaction takes a microsecond and a scheduler's turn
//! some milliseconds, so threads that share a core would run thousands of transactions one after
//! another, and such a history proves nothing. Therefore all sessions start together, they share the
//! window of keys, and transactions pause between their steps, so that others come in between.
//! [`crate::checker::Verdict::concurrent`] tells how far that went.

use crate::history::{ABSENT, Attempt, Header, History, Op, Status};
use crate::intended::{Intended, Trail};
use crate::programs::{Placed, Program, execute};
use crate::recorder::{HASHED, ORDERED, Recorder, STRINGS};
use heddledb::internals::random::Random;
use heddledb::internals::{DatabaseInternals, Registered, SessionInternals};
use heddledb::protocol::Kind;
use heddledb::{Database, Error, Misuse, ReadTransaction, Result, Session, Transaction, Txn};
use serde::{Deserialize, Serialize};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
    /// Procedure types, drawn from the seed. If there are any, most transactions are calls of them.
    pub programs: usize,
    /// Whether the ordered table is that of strings. Then no transaction defers; without effect on procedures.
    pub strings: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self { threads: 2, transactions: 10_000, seed: 1, keys: 12, programs: 0, strings: false }
    }
}

/// After so many commits per key the window of keys moves by its own length: some 35 writes a row.
const COMMITS_PER_KEY: u64 = 27;

/// What the sessions of a run share. Outside the engine, so it may be plain shared counters.
struct Run<'a> {
    plan: &'a Plan,
    /// The clock of the history.
    clock: AtomicU64,
    /// Commits of all sessions: where the window of keys stands.
    commits: AtomicU64,
    start: Barrier,
    programs: Vec<(Program, Registered)>,
    progress: &'a (dyn Fn(u64) + Sync),
}

/// What a transaction is.
#[derive(Clone, Copy)]
enum Form {
    Snapshot,
    Closure,
    /// Its steps are intentions, but for those of these bits.
    Deferring(u64),
    Call(Registered),
}

/// Runs the plan on a new database and returns its history.
///
/// # Errors
/// What opening the database or a session says; a session that cannot be had.
pub fn run(kind: Kind, plan: &Plan, progress: &(dyn Fn(u64) + Sync)) -> Result<History> {
    let builder = Database::builder().protocol(kind).sessions(plan.threads);
    let db = builder.open()?;
    let (clock, commits, start) = (AtomicU64::new(1), AtomicU64::new(0), Barrier::new(plan.threads));
    let mut random = Random::new(plan.seed);
    let mut programs = Vec::new();
    for number in 0..plan.programs {
        let program = Program::draw(&mut random, number);
        let registered = db.register_declared(program.declare())?;
        programs.push((program, registered));
    }
    let run = Run { plan, clock, commits, start, programs, progress };
    let sessions = (0..plan.threads).map(|_| db.session()).collect::<Result<Vec<_>>>()?;
    let outcomes: Vec<Result<Vec<Attempt>>> = std::thread::scope(|scope| {
        let run = &run;
        let worker = |(number, session)| scope.spawn(move || Worker::new(session, number, run).work());
        let threads: Vec<_> = sessions.into_iter().enumerate().map(worker).collect();
        threads.into_iter().map(|thread| thread.join().expect("workers do not panic")).collect()
    });
    let mut attempts = Vec::new();
    for outcome in outcomes {
        attempts.extend(outcome?);
    }
    Ok(History { header: Header::new(kind.name(), kind.strict(), plan.seed), attempts })
}

struct Worker<'a> {
    session: Session,
    number: usize,
    run: &'a Run<'a>,
    random: Random,
    version: u64,
}

impl<'a> Worker<'a> {
    fn new(session: Session, number: usize, run: &'a Run<'a>) -> Self {
        let random = Random::new(run.plan.seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        Self { session, number, run, random, version: (number as u64 + 1) << 40 }
    }

    fn now(&self) -> u64 {
        self.run.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn work(mut self) -> Result<Vec<Attempt>> {
        let (plan, threads) = (self.run.plan, self.run.plan.threads as u64);
        let share =
            plan.transactions / threads + u64::from((self.number as u64) < plan.transactions % threads);
        let mut attempts = Vec::with_capacity(share as usize * 5 / 4);
        let (mut committed, mut told) = (0, 0);
        self.run.start.wait();
        while committed < share {
            // Relaxed: a window that is a little old is as good.
            let window = self.run.commits.load(Ordering::Relaxed) / (COMMITS_PER_KEY * plan.keys.max(1));
            let (form, steps) = self.draw(window * plan.keys, plan.keys);
            // A transaction is tried some times, then given up for another.
            for retry in 0..20u64 {
                let (attempt, again) = match form {
                    Form::Snapshot => (self.look(&steps)?, false),
                    Form::Closure => self.attempt(None, &steps)?,
                    Form::Deferring(at_once) => self.attempt_deferring(at_once, &steps)?,
                    Form::Call(which) => self.attempt(Some(which), &steps)?,
                };
                let done = attempt.status == Status::Committed;
                attempts.push(attempt);
                committed += u64::from(done);
                self.run.commits.fetch_add(u64::from(done), Ordering::Relaxed);
                if !again {
                    break;
                }
                pause(self.random.below(16 << retry.min(6)));
            }
            if committed - told >= 1_000 {
                (self.run.progress)(committed - told);
                told = committed;
            }
        }
        (self.run.progress)(committed - told);
        Ok(attempts)
    }

    /// A transaction over `keys` keys from `base` on.
    fn draw(&mut self, base: u64, keys: u64) -> (Form, Vec<Placed>) {
        let (random, strings) = (&mut self.random, self.run.plan.strings);
        let ordered = if strings { STRINGS } else { ORDERED };
        let (mut form, steps) = if self.run.programs.is_empty() {
            (Form::Closure, draw(random, ordered, base, keys).into_iter().map(|step| (0, step)).collect())
        } else {
            let (program, which) = &self.run.programs[random.below(self.run.programs.len() as u64) as usize];
            let input = program.input(random, base, keys);
            // Some closures do what procedures do.
            (if random.below(6) == 0 { Form::Closure } else { Form::Call(*which) }, input)
        };
        if !strings && matches!(form, Form::Closure) && random.below(DEFERRING_ODDS) == 0 {
            form = Form::Deferring(draw_at_once(random));
        }
        if random.below(SNAPSHOT_ODDS) == 0 {
            form = Form::Snapshot;
        }
        (form, steps)
    }

    /// Looks at what the steps name on a snapshot.
    fn look(&mut self, steps: &[Placed]) -> Result<Attempt> {
        let (mut ops, mut version) = (Vec::with_capacity(steps.len()), 0);
        let begin = self.now();
        let mut snapshot = self.session.snapshot()?;
        let mut recorder = Recorder::new(&mut snapshot, &mut ops, &mut version);
        steps.iter().try_for_each(|(_, step)| step.look(&mut recorder))?;
        drop(snapshot);
        let (session, end) = (self.number as u32, self.now());
        Ok(Attempt { session, begin, end, status: Status::Committed, stamp: 0, ops })
    }

    /// Runs the steps once, as a call or as a closure; true if they should be tried again.
    fn attempt(&mut self, call: Option<Registered>, steps: &[Placed]) -> Result<(Attempt, bool)> {
        let mut ops = Vec::with_capacity(steps.len() * 2);
        let first = self.version;
        let mut version = first;
        let begin = self.now();
        let mut body = |tx: &mut Txn| {
            // A body that is executed again does and writes the same.
            ops.clear();
            version = first;
            execute(steps, &mut Recorder::new(tx, &mut ops, &mut version))
        };
        let outcome = match call {
            Some(which) => self.session.attempt_registered(which, &mut body),
            None => self.session.attempt(&mut body),
        };
        self.version = version;
        self.enter(begin, outcome, ops)
    }

    /// Runs the steps once, as intentions; true if they should be tried again.
    fn attempt_deferring(&mut self, at_once: u64, steps: &[Placed]) -> Result<(Attempt, bool)> {
        let steps: Vec<Step> = steps.iter().map(|(_, step)| *step).collect();
        let (first, trail) = (self.version, Trail(self.number as u32));
        self.version += steps.len() as u64;
        let begin = self.now();
        let intended = Intended { steps: &steps, at_once, trail };
        let outcome = self.session.attempt_defer(|tx| intended.run(tx, first));
        // A row was made, and told of, before it was found that there is one.
        let is_refused = matches!(outcome, Err(Error::Misuse(_)));
        let ops = Some(trail.take()).filter(|_| !is_refused).unwrap_or_default();
        self.enter(begin, outcome, ops)
    }

    /// What an attempt came to; true if it should be tried again.
    fn enter(&self, begin: u64, outcome: Result<()>, ops: Vec<Op>) -> Result<(Attempt, bool)> {
        let end = self.now();
        let (status, again) = match outcome {
            Ok(()) => (Status::Committed, false),
            Err(Error::Conflict(_)) => (Status::Aborted, true),
            Err(Error::User(_)) => (Status::Aborted, false),
            // An insert or update that looked for itself and found the row there, or not there.
            Err(Error::Misuse(misuse))
                if matches!(
                    *misuse,
                    Misuse::DuplicateKey { .. } | Misuse::NotFound { .. } | Misuse::Failed
                ) =>
            {
                (Status::Aborted, false)
            }
            Err(error) => return Err(error),
        };
        let wrote = ops.iter().any(|op| matches!(op, Op::Write(..) | Op::Delete(..)));
        let stamp = if status == Status::Committed && wrote { self.session.last_commit() } else { 0 };
        Ok((Attempt { session: self.number as u32, begin, end, status, stamp, ops }, again))
    }
}

/// Which steps of a deferring transaction are done at once: mostly none or few.
pub fn draw_at_once(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => random.next_u64() & random.next_u64() & random.next_u64(),
        1 => 1 << random.below(4),
        _ => 0,
    }
}

/// The steps of a transaction over `keys` keys from `base` on of an ordered table, and of the hashed one.
pub(crate) fn draw(random: &mut Random, ordered: u8, base: u64, keys: u64) -> Vec<Step> {
    let count = 1 + random.below(8);
    let mut steps: Vec<Step> = Vec::with_capacity(count as usize * 2);
    for _ in 0..count {
        let table = if random.below(2) == 0 { ordered } else { HASHED };
        let key = base + random.below(keys);
        steps.push(match random.below(32) {
            0..7 => Step::Read(table, key),
            7 => Step::TryUpdate(table, key),
            8 => Step::TryInsert(table, key),
            9 => Step::WriteInVain(table, key),
            10 => Step::RemoveInVain(table, key),
            11..16 => Step::Write(table, key),
            16..18 => Step::Update(table, key),
            18 => Step::Insert(table, key),
            19..22 => Step::Upsert(table, key),
            22 => Step::Overwrite(table, key),
            23..26 => Step::Delete(table, key),
            26..28 => Step::Remove(table, key),
            _ => {
                let limit = if random.below(3) == 0 { 1 + random.below(3) as usize } else { usize::MAX };
                let (high, reverse) = (key + random.below(5), random.below(2) == 0);
                Step::Scan { table: ordered, low: key, high, reverse, limit }
            }
        });
        if random.below(PAUSE_ODDS) == 0 {
            steps.push(Step::Pause(random.below(PAUSE_HINTS_MAX)));
        }
    }
    if random.below(50) == 0 {
        steps.push(Step::GiveUp);
    }
    steps
}

/// One transaction in so many only looks, on a snapshot of its moment.
const SNAPSHOT_ODDS: u64 = 8;

/// One closure in so many is a deferring transaction instead.
const DEFERRING_ODDS: u64 = 3;

/// One step in so many is followed by a pause, of fewer than so many spin hints.
const PAUSE_ODDS: u64 = 6;
const PAUSE_HINTS_MAX: u64 = 64;

/// Of the pauses, one in so many sleeps: a yield alone may return at once though others wait.
const SLEEP_ODDS: u64 = 8;

/// Lets other threads run: where they wait for this core, by leaving it; where they run on others,
/// by taking time.
pub(crate) fn pause(hints: u64) {
    (0..hints).for_each(|_| std::hint::spin_loop());
    match hints % SLEEP_ODDS {
        0 => std::thread::sleep(Duration::from_micros(1)),
        _ => std::thread::yield_now(),
    }
}

/// One step of a transaction over the recorder's tables, drawn before it runs, so that a retry does the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each does what the recorder's function of its name does, to a table's key")]
pub enum Step {
    Read(u8, u64),
    Write(u8, u64),
    Update(u8, u64),
    Insert(u8, u64),
    Upsert(u8, u64),
    /// Goes on where there is none.
    TryUpdate(u8, u64),
    /// Goes on where there is one.
    TryInsert(u8, u64),
    /// Writes it in a savepoint that is taken back. Not in calls.
    WriteInVain(u8, u64),
    RemoveInVain(u8, u64),
    /// Only where there is a row.
    Overwrite(u8, u64),
    Delete(u8, u64),
    Remove(u8, u64),
    Scan {
        table: u8,
        low: u64,
        high: u64,
        reverse: bool,
        limit: usize,
    },
    /// Adds to a row that is in no history. Not in deferring transactions.
    Add(u64),
    /// An addition at a place of a counter. In calls that put off, and closures that do the same.
    PutOff(u64, u64),
    /// Reads a counter. In the same transactions.
    Count(u64),
    /// Lets other threads run, on this core or another.
    Pause(u64),
    /// Decides to abort.
    GiveUp,
}

impl Step {
    /// Does it.
    ///
    /// # Errors
    /// Those of the recorder; a user abort.
    pub fn run<T: Transaction>(self, recorder: &mut Recorder<'_, T>) -> Result<()> {
        match self {
            Self::Read(table, key) => recorder.read(table, key).map(|_| ()),
            Self::Write(table, key) => recorder.write(table, key),
            Self::Update(table, key) => recorder.update(table, key),
            Self::Insert(table, key) => recorder.insert(table, key),
            Self::Upsert(table, key) => recorder.upsert(table, key),
            Self::TryUpdate(table, key) => recorder.update_if_there(table, key),
            Self::TryInsert(table, key) => recorder.insert_unless_there(table, key),
            Self::WriteInVain(table, key) => recorder.write_in_vain(table, key, false),
            Self::RemoveInVain(table, key) => recorder.write_in_vain(table, key, true),
            Self::Overwrite(table, key) => match recorder.read(table, key)? {
                ABSENT => Ok(()),
                _ => recorder.overwrite(table, key),
            },
            Self::Delete(table, key) => recorder.delete(table, key),
            Self::Remove(table, key) => recorder.remove(table, key),
            Self::Scan { table, low, high, reverse, limit } => {
                recorder.scan(table, low, high, reverse, limit)
            }
            Self::Add(key) => recorder.add(key),
            Self::PutOff(counter, place) => recorder.put_off(counter, place),
            Self::Count(counter) => recorder.count(counter),
            Self::Pause(hints) => {
                pause(hints);
                Ok(())
            }
            Self::GiveUp => Err(Error::user("the workload gives up")),
        }
    }

    /// Only looks at what it names, and never gives up: for snapshots.
    ///
    /// # Errors
    /// Those of the recorder.
    pub fn look<T: ReadTransaction>(self, recorder: &mut Recorder<'_, T>) -> Result<()> {
        match self {
            Self::Scan { table, low, high, reverse, limit } => {
                recorder.scan(table, low, high, reverse, limit)
            }
            Self::Pause(hints) => {
                pause(hints);
                Ok(())
            }
            Self::GiveUp | Self::Add(_) => Ok(()),
            Self::PutOff(counter, _) | Self::Count(counter) => recorder.count(counter),
            Self::Read(table, key)
            | Self::Write(table, key)
            | Self::Update(table, key)
            | Self::Insert(table, key)
            | Self::Upsert(table, key)
            | Self::TryUpdate(table, key)
            | Self::TryInsert(table, key)
            | Self::WriteInVain(table, key)
            | Self::RemoveInVain(table, key)
            | Self::Overwrite(table, key)
            | Self::Delete(table, key)
            | Self::Remove(table, key) => recorder.read(table, key).map(|_| ()),
        }
    }
}
