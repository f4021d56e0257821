//! Calls that tell what they will access, and that are submitted: executed by threads of the database, gathered into batches, and in
//! pieces behind their marks.

use super::record::State;
use super::{Play, Steps};
use crate::search::scenario::Program;
use heddledb::internals::SessionInternals;
use heddledb::procedure::Announcement;
use heddledb::{Database, Error, Misuse, Pending, ReadTransaction, Result, Scan, Session, Txn};
use heddledb_check::history::Status;
use heddledb_check::programs;
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
        let which = self.record.registered.borrow()[steps.call.expect("it is a call")].0;
        let which = which.expect("none is refused");
        loop {
            let tell = |to: &mut Announcement<'_>| programs::tell(&steps.steps, to);
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

    /// The transactions of a worker, some of which it submits and waits for at the end.
    pub(super) fn submitting(&self, session: &mut Session, worker: usize, plan: &[Steps]) -> Result<()> {
        let window = self.scenario.told.map_or(1, |told| told.window);
        session.set_window(window);
        let mut under_way: Vec<(Call, Pending<u64>)> = Vec::new();
        for (number, steps) in plan.iter().enumerate() {
            let Some(urgency) = steps.submitted else {
                self.transaction(session, worker, steps)?;
                continue;
            };
            await_until(|| session.under_way() < window);
            let (at, first) = (self.record.submit(worker, urgency), self.record.version.get());
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
                for (_, step) in &steps.steps {
                    if let Step::Add(key) = step {
                        *record.added.borrow_mut().entry(*key).or_default() += 1;
                    }
                }
                record.end(call.at, Status::Committed, stamp, State::Ended);
            }
            Err(Error::User(_)) => record.end(call.at, Status::Aborted, 0, State::Ended),
            Err(Error::Misuse(misuse))
                if matches!(*misuse, Misuse::DuplicateKey { .. } | Misuse::NotFound { .. }) =>
            {
                record.end(call.at, Status::Aborted, 0, State::Ended);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether each call has added once.
    pub(super) fn check_sums(&self, db: &Database) -> Result<()> {
        let mut sums = BTreeMap::new();
        db.session()?.run(|tx| {
            sums.clear();
            tx.scan(Scan::<Sum>::all(), |row| {
                sums.insert(row.key, row.sum);
                ControlFlow::Continue(())
            })
        })?;
        sums.retain(|_, sum| *sum != 0);
        let added = self.record.added.borrow();
        if sums != *added {
            self.record.say(format!("{added:?} was added by key, and {sums:?} is there"));
        }
        Ok(())
    }
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
