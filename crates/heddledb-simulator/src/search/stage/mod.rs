//! One scenario on the virtual machine.
//!
//! | room | what |
//! |---|---|
//! | here | the body of a simulation: opens, fills, starts workers, looks at the end |
//! | `record` | what is recorded of it, so that it can be judged |
//! | `invariants` | the programs of which it is known what must hold |
//! | `told` | calls that tell what they will access, and are submitted |

mod invariants;
mod record;
mod told;

pub(super) use record::{Entry, State, Submitted, writes};
pub(super) use told::sums;

use super::disk::Timed;
use super::scenario::{
    COUNTERS, Change, Changes, Disk, Epochs, FIRST_EXECUTOR, Invariant, Program, Scenario, Steps, TRIES, Told,
};
use heddledb::internals::{BuilderInternals, DatabaseInternals, Registered, SessionInternals};
use heddledb::procedure::{Announcement, PlanChange};
use heddledb::protocol::{Execution, Kind};
use heddledb::storage::{Fault, Simulated};
use heddledb::{Database, Durability, Error, LogKind, Misuse, Result, Session, Transaction, Txn};
use heddledb_check::additions::Counter;
use heddledb_check::history::Status;
use heddledb_check::intended::{Intended, Trail};
use heddledb_check::programs::{self, COUNTER_ROWS};
use heddledb_check::recorder::{self, ORDERED, Recorder, Sum};
use heddledb_check::workload::Step;
use heddledb_engine_simulated::sync::simulation::{
    Costs, Failure, Observer, Settings, Who, free, simulate, steps,
};
use heddledb_engine_simulated::sync::{thread, yield_now};
use invariants::{Account, Slot};
use record::Record;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use told::Logged;

/// What came of a scenario.
pub(super) struct Run {
    pub record: Rc<Record>,
    pub failure: Option<Failure>,
    pub steps: u64,
    pub disk: Option<Simulated>,
}

/// Accesses after which a simulation is given up: more than a ticking clock makes while a worker stands still, or while
/// waits end with time-outs. A tick of 100 ns that finds a body behind has 20 accesses; `datm/7023` ends after 1,767,005.
const STEPS_MAX: u64 = 4_000_000;
/// The same where a dead worker may keep others waiting for ever.
const STEPS_MAX_WITH_DEATHS: u64 = 25_000;

/// Runs a scenario under a protocol.
pub(super) fn run(kind: Kind, scenario: &Rc<Scenario>, observer: Option<Observer>) -> Run {
    let record = Rc::new(Record::default());
    // Workers, the epoch's, the last look, the body.
    record.decided.borrow_mut().resize(scenario.workers + 3, (0, 0));
    let told = Rc::clone(&record);
    let decided = move |who: Option<Who>, time: u64| {
        if told.decides(time) {
            return;
        }
        let mut decided = told.decided.borrow_mut();
        let last = decided.len() - 1;
        let worker = match who {
            Some(Who::Worker(worker)) => worker.min(last),
            Some(Who::Service(_)) => return,
            None => last,
        };
        let entries = told.entries.borrow();
        let mut backwards = entries.iter().rev().map(|entry| &entry.attempt);
        let ops = backwards.find(|attempt| attempt.session as usize == worker);
        decided[worker] = (time, ops.map_or(0, |attempt| attempt.ops.len()));
    };
    let deaths = scenario.has_deaths();
    // What caches would do is of no interest here, and they cost time to make.
    let costs = Costs { cache_lines: 16, shared_cache_lines: 16, ..Costs::default() };
    let settings = Settings {
        costs,
        schedule: scenario.schedule,
        events: scenario.events.clone(),
        steps_max: if deaths { STEPS_MAX_WITH_DEATHS } else { STEPS_MAX },
        observer,
        decided: Some(Box::new(decided)),
        ..Settings::default()
    };
    let disk = scenario.disk.map(|_| Simulated::new());
    let play = Play { kind, scenario: Rc::clone(scenario), record: Rc::clone(&record), disk: disk.clone() };
    let played = play.begin();
    let outcome = simulate(settings, move || play.body());
    // Also where the body has not come to its end.
    drop(played);
    let (failure, steps) = match outcome {
        Ok(Ok(steps)) => (None, steps),
        Ok(Err(error)) => {
            record.say(format!("an operation failed with: {error}"));
            (None, 0)
        }
        Err(failure) => {
            let steps = match &failure {
                Failure::Deadlock { steps, .. } | Failure::Endless { steps, .. } => *steps,
                Failure::Panic(_) => 0,
            };
            (Some(failure), steps)
        }
    };
    record.settle();
    Run { record, failure, steps, disk }
}

/// What tells what a call will access.
type Tell<'t> = dyn Fn(&mut Announcement<'_>) + 't;

/// What the body and the workers have.
#[derive(Clone)]
struct Play {
    kind: Kind,
    scenario: Rc<Scenario>,
    record: Rc<Record>,
    disk: Option<Simulated>,
}

/// Opens a database over the tables of a scenario.
pub(super) fn open(
    kind: Kind,
    sessions: usize,
    disk: Option<(Simulated, Duration)>,
    epochs: Epochs,
    change: PlanChange,
    told: Option<Told>,
    puts_off: bool,
) -> Result<Database> {
    let executors = told.map_or(0, |told| told.executors);
    let builder = crate::builder().protocol(kind).sessions(sessions + executors).plan_change(change);
    let builder = recorder::tables(builder.executed_by_hand());
    let builder = if told.is_some() { builder.table::<Sum>(0) } else { builder };
    let builder = if puts_off { builder.table::<Counter>(0) } else { builder };
    let builder = match told {
        Some(Told { commands: true, .. }) if kind.execution().is_announced() => {
            builder.procedure::<Logged>().log_kind(LogKind::Commands)
        }
        // A directory belongs to no protocol.
        Some(Told { commands: true, .. }) => builder.procedure::<Logged>(),
        _ => builder,
    };
    let builder = match epochs {
        Epochs::Service { interval_ns } => builder.epoch_interval(Duration::from_nanos(interval_ns)),
        Epochs::Worker { .. } => builder.manual_epochs(),
    };
    match disk {
        None => builder.table::<Account>(0).table::<Slot>(0).open(),
        Some((disk, latency)) => {
            let storage = Arc::new(Timed { disk, latency });
            builder.storage(storage).recovery_threads(1).checkpoint_after(None).open()
        }
    }
}

impl Play {
    fn body(self) -> Result<u64> {
        let scenario = &*self.scenario;
        let disk = scenario.disk.map(|settings| {
            let latency = Duration::from_nanos(settings.latency_ns);
            (self.disk.clone().expect("made with the scenario"), latency)
        });
        let sessions = (scenario.workers + 2).min(self.kind.sessions_max());
        let change = scenario.changes.as_ref().map(|changes| changes.how).unwrap_or_default();
        let _played = self.begin();
        let db = open(self.kind, sessions, disk, scenario.epochs, change, scenario.told, scenario.puts_off)?;
        self.prepare(&db)?;
        if let Some((Disk { fails_at: Some((after, is_error)), .. }, disk)) =
            scenario.disk.zip(self.disk.as_ref())
        {
            let fault = if is_error { Fault::Error } else { Fault::PowerCut };
            disk.fail(disk.operations() + after, fault);
        }
        let mut executors = Vec::new();
        // Where calls are not gathered, whoever makes one executes it.
        let told = scenario.told.filter(|_| self.kind.execution() == Execution::Batched);
        for number in 0..told.map_or(0, |told| told.executors) {
            let executor = free(|| db.executor())?;
            let number = scenario.workers + FIRST_EXECUTOR + number;
            executors.push((number, thread::spawn_worker(number, move || executor.run())));
        }
        let mut workers = Vec::new();
        for number in 0..scenario.workers {
            let (play, db) = (self.clone(), db.clone());
            workers.push(thread::spawn_worker(number, move || play.work(&db, number)));
        }
        if let Epochs::Worker { advances, yields } = scenario.epochs {
            let db = db.clone();
            let advance = move || {
                for _ in 0..advances {
                    db.advance_epoch();
                    if yields {
                        yield_now();
                    }
                }
                Ok(())
            };
            workers.push(thread::spawn_worker(scenario.workers, advance));
        }
        if let Some(Changes { steps, .. }) = &scenario.changes {
            let (play, db, steps) = (self.clone(), db.clone(), steps.clone());
            let change = move || play.change(&db, &steps);
            workers.push(thread::spawn_worker(scenario.workers + 2, change));
        }
        for (number, worker) in workers.into_iter().enumerate() {
            self.ended(number, worker.join());
        }
        // Who may have to wait for the dead looks on a core of its own: there waiting is counted.
        if scenario.has_deaths() {
            let (play, last) = (self.clone(), db.clone());
            let number = scenario.workers + 1;
            let look = thread::spawn_worker(number, move || play.look(&last, number));
            self.ended(number, look.join());
        } else {
            self.look(&db, scenario.workers + 1)?;
        }
        if scenario.told.is_some() {
            self.check_sums(&db)?;
        }
        let steps = steps();
        // Now nobody will submit anything.
        drop(db);
        for (number, executor) in executors {
            self.ended(number, executor.join().map(Ok));
        }
        Ok(steps)
    }

    fn ended(&self, number: usize, outcome: thread::Result<Result<()>>) {
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.record.say(format!("worker {number} failed with: {error}")),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                let text = text.unwrap_or_else(|| "a panic".to_owned());
                if text != "killed" {
                    self.record.say(format!("worker {number} panicked: {text}"));
                }
            }
        }
    }

    /// Fills the tables.
    fn prepare(&self, db: &Database) -> Result<()> {
        let mut session = db.session()?;
        match &self.scenario.program {
            Program::History { rows, passing, programs, .. } => {
                for program in programs {
                    let registered = self.register(db, program)?;
                    self.record.registered.borrow_mut().push((registered, registered.is_some()));
                }
                if self.scenario.puts_off {
                    let rows = |tx: &mut Txn| {
                        (0..COUNTER_ROWS).try_for_each(|key| tx.insert(Counter { key, one: 0, two: 0 }))
                    };
                    session.run(rows)?;
                }
                if self.scenario.told.is_some() {
                    session.run(|tx| (0..8).try_for_each(|key| tx.insert(Sum { key, sum: 0 })))?;
                }
                let body = self.scenario.workers + 2;
                if !rows.is_empty() || !passing.is_empty() {
                    let mut all: Vec<(u8, u64)> = rows.clone();
                    all.extend(passing.iter().map(|key| (ORDERED, *key)));
                    all.sort_unstable();
                    self.attempt(&mut session, body, None, false, all.len(), |recorder, at| {
                        recorder.insert(all[at].0, all[at].1)
                    })?;
                }
                if !passing.is_empty() {
                    self.attempt(&mut session, body, None, false, passing.len(), |recorder, at| {
                        recorder.remove(ORDERED, passing[at])
                    })?;
                    for _ in 0..4 {
                        db.advance_epoch();
                    }
                    // Ends of transactions reclaim.
                    for _ in 0..8 {
                        session.run(|_| Ok(()))?;
                        db.advance_epoch();
                    }
                }
                Ok(())
            }
            Program::Invariant(invariant) => {
                let keys = match invariant {
                    Invariant::Unless | Invariant::Pairs => 0..0,
                    Invariant::Skew | Invariant::Ring => 0..self.scenario.workers as u64,
                    _ => 0..4,
                };
                let value = if *invariant == Invariant::Transfers { 10 } else { 0 };
                session.run(|tx| {
                    for key in keys.clone() {
                        tx.insert(Account { key, value, visits: 0 })?;
                        tx.insert(Slot { key, value })?;
                    }
                    Ok(())
                })
            }
        }
    }

    /// Registers a procedure; none where what it puts off might be noticed.
    fn register(&self, db: &Database, program: &programs::Program) -> Result<Option<Registered>> {
        match db.register_declared(program.declare()) {
            Err(Error::Misuse(misuse)) if self.scenario.puts_off && matches!(*misuse, Misuse::Option(_)) => {
                Ok(None)
            }
            registered => registered.map(Some),
        }
    }

    fn work(&self, db: &Database, number: usize) -> Result<()> {
        let mut session = free(|| db.session())?;
        let scenario = &*self.scenario;
        match &scenario.program {
            Program::Invariant(invariant) => {
                for round in 0..scenario.transactions {
                    self.round(&mut session, *invariant, number, round)?;
                }
                Ok(())
            }
            Program::History { plans, .. } => {
                let plan = plans.get(number).map_or(&[][..], |plan| plan);
                if scenario.told.is_some() {
                    self.submitting(&mut session, number, plan)?;
                } else {
                    for steps in plan {
                        if !self.transaction(&mut session, number, steps)? {
                            return Ok(());
                        }
                    }
                }
                if scenario.disk.is_some() && number == 0 {
                    self.flush(db);
                }
                Ok(())
            }
        }
    }

    /// Lets procedures come and go.
    fn change(&self, db: &Database, steps: &[(Change, u64)]) -> Result<()> {
        let Program::History { programs, .. } = &self.scenario.program else { return Ok(()) };
        for &(change, pauses) in steps {
            (0..pauses).for_each(|_| yield_now());
            let of_type = match change {
                Change::Type(of_type) => of_type,
                Change::Vertex(vertex, hot) => {
                    db.adapt(vertex, hot);
                    continue;
                }
            };
            let (registered, is_there) = self.record.registered.borrow()[of_type];
            let changed = match registered.filter(|_| is_there) {
                Some(which) => db.unregister_declared(which).map(|_| registered),
                None => self.register(db, &programs[of_type]),
            };
            match changed {
                // It was not there, and is refused.
                Ok(None) => {}
                Ok(now) => self.record.registered.borrow_mut()[of_type] = (now, !is_there),
                // Somebody stands still, and keeps the epoch.
                Err(Error::Misuse(misuse)) if matches!(*misuse, Misuse::EpochHeld { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes everything so far durable.
    fn flush(&self, db: &Database) {
        // What commits while it waits is not promised.
        let is_due = |entry: &Entry| entry.state == State::Ended && writes(&entry.attempt);
        let due: Vec<bool> = self.record.entries.borrow().iter().map(is_due).collect();
        if db.flush().is_err() {
            return;
        }
        for (entry, _) in self.record.entries.borrow_mut().iter_mut().zip(due).filter(|(_, due)| *due) {
            entry.state = State::Acknowledged;
        }
    }

    /// Runs a transaction until it does not conflict. False if the log has failed.
    fn transaction(&self, session: &mut Session, number: usize, steps: &Steps) -> Result<bool> {
        let waits = steps.waits && self.scenario.disk.is_some();
        if self.scenario.disk.is_some() {
            session.set_durability(if waits { Durability::Sync } else { Durability::Epoch })?;
        }
        if steps.is_snapshot {
            return self.snapshot(session, number, steps);
        }
        // A type that was refused is executed as closures.
        let call = steps.call.and_then(|of_type| self.record.registered.borrow()[of_type].0);
        let body = steps.steps.len();
        let step = |recorder: &mut Recorder<'_, Txn>, at: usize| {
            let (site, step) = steps.steps[at];
            recorder.at(site);
            step.run(recorder)
        };
        let tell = |to: &mut Announcement<'_>| programs::tell((number + body) as u64, &steps.steps, to);
        let call = call.map(|which| (which, self.scenario.told.map(|_| &tell as &Tell<'_>)));
        for _ in 0..TRIES {
            let after = match steps.deferring {
                Some(at_once) => self.deferring(session, number, waits, steps, at_once)?,
                None if call.is_some() && self.logs_commands() => {
                    self.listed(session, number, waits, steps)?
                }
                None => self.attempt(session, number, call, waits, body, step)?,
            };
            match after {
                After::Again => yield_now(),
                After::Done => return Ok(true),
                After::Stop => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Runs `count` steps as one attempt, and enters it.
    fn attempt(
        &self,
        session: &mut Session,
        number: usize,
        call: Option<(Registered, Option<&Tell<'_>>)>,
        waits: bool,
        count: usize,
        step: impl Fn(&mut Recorder<'_, Txn>, usize) -> Result<()>,
    ) -> Result<After> {
        let record = &*self.record;
        let at = record.begin(number);
        record.entries.borrow_mut()[at].called = call.is_some();
        let first = record.version.get();
        record.version.set(first + count as u64);
        let body = |tx: &mut Txn| {
            // A body that is executed again does and writes the same.
            let (mut ops, mut version) = (Vec::new(), first);
            record.entries.borrow_mut()[at].attempt.ops.clear();
            for number in 0..count {
                let outcome = step(&mut Recorder::new(tx, &mut ops, &mut version), number);
                record.entries.borrow_mut()[at].attempt.ops.append(&mut ops);
                outcome?;
            }
            Ok(())
        };
        let outcome = match call {
            Some((which, Some(tell))) => session.attempt_told(which, tell, body),
            Some((which, None)) => session.attempt_registered(which, body),
            None => session.attempt(body),
        };
        self.enter(session, at, waits, outcome)
    }

    /// Runs steps as one attempt of a deferring transaction, and enters it.
    fn deferring(
        &self,
        session: &mut Session,
        number: usize,
        waits: bool,
        steps: &Steps,
        at_once: u64,
    ) -> Result<After> {
        let record = &*self.record;
        let (at, first) = (record.begin(number), record.version.get());
        let (steps, trail): (Vec<Step>, _) =
            (steps.steps.iter().map(|(_, step)| *step).collect(), Trail(number as u32));
        record.version.set(first + steps.len() as u64);
        let intended = Intended { steps: &steps, at_once, trail };
        let outcome = session.attempt_defer(|tx| intended.run(tx, first));
        // Of a commit that may be durable or not, `settle` takes them, as of one whose worker died.
        if !matches!(outcome, Err(Error::OutcomeUnknown(_))) {
            record.entries.borrow_mut()[at].attempt.ops = trail.take();
        }
        self.enter(session, at, waits, outcome)
    }

    /// Enters what an attempt came to.
    fn enter(&self, session: &Session, at: usize, waits: bool, outcome: Result<()>) -> Result<After> {
        let record = &*self.record;
        let known = if waits { State::Acknowledged } else { State::Ended };
        match outcome {
            Ok(()) => record.end(at, Status::Committed, session.last_commit(), known),
            Err(Error::Conflict(_)) => {
                record.end(at, Status::Aborted, 0, State::Ended);
                return Ok(After::Again);
            }
            Err(Error::User(_)) => record.end(at, Status::Aborted, 0, State::Ended),
            // It was removed.
            Err(Error::Misuse(misuse))
                if self.scenario.changes.is_some() && matches!(*misuse, Misuse::NotRegistered { .. }) =>
            {
                record.end(at, Status::Aborted, 0, State::Ended);
            }
            // An insert or update that looked for itself and found the row there, or not there.
            Err(Error::Misuse(misuse))
                if matches!(*misuse, Misuse::DuplicateKey { .. } | Misuse::NotFound { .. }) =>
            {
                record.end(at, Status::Aborted, 0, State::Ended);
            }
            // It is in memory, and its stamp is known; that it is durable is not.
            Err(Error::OutcomeUnknown(_)) if self.disk_may_fail() => return Ok(After::Stop),
            Err(Error::LogFailed(_)) if self.disk_may_fail() => {
                record.end(at, Status::Aborted, 0, State::Ended);
                return Ok(After::Stop);
            }
            Err(error) => return Err(error),
        }
        Ok(After::Done)
    }

    fn disk_may_fail(&self) -> bool {
        self.scenario.disk.is_some_and(|disk| disk.fails_at.is_some())
    }

    /// Looks at what the steps name on a snapshot.
    fn snapshot(&self, session: &mut Session, number: usize, steps: &Steps) -> Result<bool> {
        let at = self.record.begin(number);
        let mut snapshot = match session.snapshot() {
            Ok(snapshot) => snapshot,
            // Somebody stands still, and keeps the epoch.
            Err(Error::Misuse(misuse))
                if matches!(*misuse, Misuse::EpochHeld { .. }) && self.scenario.faults() =>
            {
                self.record.end(at, Status::Aborted, 0, State::Ended);
                return Ok(true);
            }
            Err(Error::OutcomeUnknown(_)) if self.disk_may_fail() => {
                self.record.end(at, Status::Aborted, 0, State::Ended);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let (mut ops, mut version) = (Vec::new(), 0);
        let mut recorder = Recorder::new(&mut snapshot, &mut ops, &mut version);
        steps.steps.iter().try_for_each(|(_, step)| step.look(&mut recorder))?;
        drop(snapshot);
        self.record.entries.borrow_mut()[at].attempt.ops = ops;
        // Where commits wait to be durable, what a snapshot shows is.
        let waits = steps.waits && self.scenario.disk.is_some();
        let known = if waits { State::Acknowledged } else { State::Ended };
        self.record.end(at, Status::Committed, 0, known);
        Ok(true)
    }

    /// The last look: everything, in one transaction.
    fn look(&self, db: &Database, number: usize) -> Result<()> {
        let mut session = match free(|| db.session()) {
            // The dead keep theirs.
            Err(Error::Misuse(misuse))
                if matches!(*misuse, Misuse::TooManySessions { .. }) && self.scenario.has_deaths() =>
            {
                return Ok(());
            }
            session => session?,
        };
        match &self.scenario.program {
            Program::History { keys, .. } => {
                let (keys, counters) = (*keys, if self.scenario.puts_off { COUNTERS } else { 0 });
                self.attempt(&mut session, number, None, false, 1, |recorder, _| {
                    recorder.everything(keys, keys.min(10))?;
                    (0..counters).try_for_each(|counter| recorder.count(counter))
                })?;
                Ok(())
            }
            Program::Invariant(invariant) => self.check(&mut session, *invariant),
        }
    }
}

/// What an attempt leads to.
enum After {
    Done,
    Again,
    /// The log has failed.
    Stop,
}
