//! Calls that tell what they will access, and that are submitted: executed by threads of the database, gathered into batches, and in
//! pieces behind their marks. With a disk, some are acknowledged when they are durable, and in half of the scenarios the log says of them that
//! they were made.

use super::record::State;
use super::{After, Play, Steps};
use crate::search::scenario::Program;
use heddledb::internals::SessionInternals;
use heddledb::procedure::Announcement;
use heddledb::{Database, Durability, Error, Misuse, Pending, ReadTransaction, Result, Scan, Session, Txn};
use heddledb_check::history::{Op, Status};
use heddledb_check::programs::{self, Listed, Watches};
use heddledb_check::recorder::{Recorder, Sum};
use heddledb_check::workload::Step;
use heddledb_engine_simulated::sync::{AtomicU64, Ordering, yield_now};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

thread_local! {
    /// What is played, for whoever executes a call: all virtual cores have one thread.
    static PLAYED: RefCell<Option<Play>> = const { RefCell::new(None) };
}

/// A call that was submitted: its place in the record, in the plans, and the first version that it writes.
#[derive(Clone, Copy)]
struct Call {
    at: usize,
    worker: usize,
    number: usize,
    first: u64,
}

/// The procedure whose calls a log of commands holds.
pub(super) type Logged = Listed<Watch>;

/// Enters what calls do of what is played. What they do when they are made again from a log is nothing new: then nothing is played.
pub(super) struct Watch;

impl Watch {
    fn ops(call: u64, with: impl FnOnce(&mut Vec<Op>)) {
        PLAYED.with(|played| {
            if let Some(play) = &*played.borrow() {
                with(&mut play.record.entries.borrow_mut()[call as usize].attempt.ops);
            }
        });
    }
}

impl Watches for Watch {
    fn begins(call: u64) {
        Self::ops(call, Vec::clear);
    }

    fn does(call: u64, ops: &mut Vec<Op>) {
        Self::ops(call, |all| all.append(ops));
    }
}

/// Executes a submitted call, on an executor's session; or has it tell what it will access.
fn execute(session: &mut Session, call: &Call) -> Result<u64> {
    let play = PLAYED.with(|played| played.borrow().clone()).expect("it is played");
    play.record.executes(Some(call.at));
    let outcome = play.execute(session, *call);
    play.record.executes(None);
    outcome.map(|()| session.last_commit())
}

impl Play {
    /// Makes it what is played on this thread, until that is dropped.
    pub(super) fn begin(&self) -> Played {
        PLAYED.with(|played| played.replace(Some(self.clone())));
        Played
    }

    fn execute(&self, session: &mut Session, Call { at, worker, number, first }: Call) -> Result<()> {
        let Program::History { plans, .. } = &self.scenario.program else { unreachable!("it has calls") };
        let steps = &plans[worker][number];
        if self.logs_commands() {
            return self.call_listed(session, at, first, steps);
        }
        let which = self.record.registered.borrow()[steps.call.expect("it is a call")].0;
        let which = which.expect("none is refused");
        loop {
            let tell = |to: &mut Announcement<'_>| programs::tell(at as u64, &steps.steps, to);
            let body = |tx: &mut Txn| {
                let (mut ops, mut version) = (Vec::new(), first);
                self.record.entries.borrow_mut()[at].attempt.ops.clear();
                for (site, step) in &steps.steps {
                    let mut recorder = Recorder::new(tx, &mut ops, &mut version);
                    recorder.at(*site);
                    let outcome = step.run(&mut recorder);
                    self.record.entries.borrow_mut()[at].attempt.ops.append(&mut ops);
                    outcome?;
                }
                Ok(())
            };
            match session.attempt_told(which, tell, body) {
                Err(Error::Conflict(_)) => yield_now(),
                outcome => return outcome,
            }
        }
    }

    /// Whether the log says of calls that they were made.
    pub(super) fn logs_commands(&self) -> bool {
        self.scenario.told.is_some_and(|told| told.commands)
    }

    fn call_listed(&self, session: &mut Session, at: usize, first: u64, steps: &Steps) -> Result<()> {
        session.call(Logged::default(), (at as u64, first, steps.steps.clone()))
    }

    /// Makes a call of a worker's own of which the log is to say that it was made.
    pub(super) fn listed(
        &self,
        session: &mut Session,
        number: usize,
        waits: bool,
        steps: &Steps,
    ) -> Result<After> {
        let (at, first) = (self.record.begin(number), self.record.version.get());
        self.record.version.set(first + steps.steps.len() as u64);
        let outcome = self.call_listed(session, at, first, steps);
        self.enter(session, at, waits, outcome)
    }

    /// The transactions of a worker, some of which it submits and waits for at the end.
    pub(super) fn submitting(&self, session: &mut Session, worker: usize, plan: &[Steps]) -> Result<()> {
        let window = self.scenario.told.map_or(1, |told| told.window);
        session.set_window(window);
        let mut under_way: Vec<(Call, Pending<u64>)> = Vec::new();
        for (number, steps) in plan.iter().enumerate() {
            let Some(urgency) = steps.submitted else {
                if self.transaction(session, worker, steps)? {
                    continue;
                }
                break;
            };
            await_until(|| session.under_way() < window);
            if self.scenario.disk.is_some() {
                let durability = if steps.waits { Durability::Sync } else { Durability::Epoch };
                session.set_durability(durability)?;
            }
            let adds = steps.steps.iter().filter_map(|(_, step)| match step {
                Step::Add(key) => Some(*key),
                _ => None,
            });
            let at = self.record.submit(worker, urgency, adds.collect());
            let first = self.record.version.get();
            self.record.version.set(first + steps.steps.len() as u64);
            session.set_priority(urgency);
            let call = Call { at, worker, number, first };
            under_way.push((call, session.submit_as(call, execute)?));
        }
        for (call, pending) in under_way {
            await_until(|| pending.is_done());
            self.ends(call, &plan[call.number], pending.wait())?;
        }
        Ok(())
    }

    fn ends(&self, call: Call, steps: &Steps, outcome: Result<u64>) -> Result<()> {
        let record = &*self.record;
        match outcome {
            Ok(stamp) => {
                let waits = steps.waits && self.scenario.disk.is_some();
                let known = if waits { State::Acknowledged } else { State::Ended };
                record.end(call.at, Status::Committed, stamp, known);
            }
            Err(Error::User(_)) => record.end(call.at, Status::Aborted, 0, State::Ended),
            Err(Error::Misuse(misuse))
                if matches!(*misuse, Misuse::DuplicateKey { .. } | Misuse::NotFound { .. }) =>
            {
                record.end(call.at, Status::Aborted, 0, State::Ended);
            }
            // As in `enter`: what was decided is known.
            Err(Error::OutcomeUnknown(_)) if self.disk_may_fail() => {}
            Err(Error::LogFailed(_)) if self.disk_may_fail() => {
                record.end(call.at, Status::Aborted, 0, State::Ended);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether each call has added once; of some of which nothing was heard it is not known.
    pub(super) fn check_sums(&self, db: &Database) -> Result<()> {
        if self.scenario.has_deaths() || self.record.has_open_calls() {
            return Ok(());
        }
        let (sums, added) = (db.session()?.run(sums)?, self.record.added(|_| true));
        if sums != added {
            self.record.say(format!("{added:?} was added by key, and {sums:?} is there"));
        }
        Ok(())
    }
}

/// What has been added, by key.
pub(in crate::search) fn sums<T: ReadTransaction>(tx: &mut T) -> Result<BTreeMap<u64, i64>> {
    let mut sums = BTreeMap::new();
    tx.scan(Scan::<Sum>::all(), |row| {
        sums.insert(row.key, row.sum);
        ControlFlow::Continue(())
    })?;
    sums.retain(|_, sum| *sum != 0);
    Ok(sums)
}

/// Waits as a virtual core does: who waits for a window or a result otherwise does it as a thread of the system.
fn await_until(is_over: impl Fn() -> bool) {
    // Each look is a step, so that time passes for those who stand still, and a wait without end is found out.
    let look = AtomicU64::new(0);
    while !is_over() {
        look.load(Ordering::Relaxed);
        yield_now();
    }
}

/// That something is played on this thread.
pub(super) struct Played;

impl Drop for Played {
    fn drop(&mut self) {
        PLAYED.with(|played| played.replace(None));
    }
}
