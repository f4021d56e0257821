//! What is recorded of a scenario.
//!
//! The record lies outside the simulation, so that it outlives workers that are killed and simulations that
//! do not end. An attempt is entered when it begins, each of its operations when it has returned, and its
//! outcome when the worker knows it. What a dead worker's attempt came to is known as well: the engine tells
//! of every transaction that cannot fail any more, and at which time it commits
//! ([`heddledb_engine_simulated::sync::decided`]).

use heddledb::Priority;
use heddledb::internals::Registered;
use heddledb_check::history::{Attempt, Op, Status};
use heddledb_check::intended::Trail;
use heddledb_check::programs::is_unordered;
use heddledb_engine_simulated::sync::thread::{self, ThreadId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// How an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::search) enum State {
    /// It runs, or its worker never came back.
    Open,
    /// Its worker was told.
    Ended,
    /// Its worker was told that it is durable.
    Acknowledged,
}

#[derive(Clone, Debug)]
pub(in crate::search) struct Entry {
    pub attempt: Attempt,
    pub state: State,
    /// It is a call of a procedure.
    pub called: bool,
    /// Of a call that was submitted.
    pub submitted: Option<Submitted>,
}

/// What is known besides of a call that was submitted.
#[derive(Clone, Debug)]
pub(in crate::search) struct Submitted {
    /// By which worker, and how urgent, if it keeps the order of these.
    pub by: Option<(usize, Priority)>,
    /// The keys that it adds to, if it is not given up.
    pub adds: Vec<u64>,
    /// How many of its operations were done when it, or a piece of it, was decided to commit, and at which time.
    pub commits: Vec<(usize, u64)>,
}

impl Submitted {
    /// When it has committed, or its last piece so far.
    pub fn time(&self) -> Option<u64> {
        self.commits.last().map(|(_, time)| *time)
    }
}

/// The session of the first submitted call: each has one of its own, since they overlap.
const SUBMITTED: usize = 1_000;

/// What was recorded.
#[derive(Default)]
pub(in crate::search) struct Record {
    clock: Cell<u64>,
    pub(super) version: Cell<u64>,
    pub entries: RefCell<Vec<Entry>>,
    /// By worker: when the attempt that it runs was decided to commit, 0 before, and how many of its operations
    /// were: where pieces commit one by one, those up to then.
    pub(super) decided: RefCell<Vec<(u64, usize)>>,
    /// Which thread executes which submitted call.
    executed: RefCell<Vec<(ThreadId, usize)>>,
    /// The procedures of the scenario, as they were registered last, unless each was refused, and whether they still are.
    pub(super) registered: RefCell<Vec<(Option<Registered>, bool)>>,
    /// What is wrong without a judge.
    pub wrong: RefCell<Vec<String>>,
    pub commits: Cell<u64>,
}

impl Record {
    fn now(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    pub(super) fn begin(&self, worker: usize) -> usize {
        self.decided.borrow_mut()[worker] = (0, 0);
        let (session, begin) = (worker as u32, self.now());
        let attempt =
            Attempt { session, begin, end: u64::MAX, status: Status::Lost, stamp: 0, ops: Vec::new() };
        let mut entries = self.entries.borrow_mut();
        entries.push(Entry { attempt, state: State::Open, called: false, submitted: None });
        entries.len() - 1
    }

    /// A worker submits a call.
    pub(super) fn submit(&self, worker: usize, urgency: Priority, adds: Vec<u64>) -> usize {
        let (at, begin) = (self.entries.borrow().len(), self.now());
        let (session, status) = ((SUBMITTED + at) as u32, Status::Lost);
        let attempt = Attempt { session, begin, end: u64::MAX, status, stamp: 0, ops: Vec::new() };
        let by = (!is_unordered(at as u64)).then_some((worker, urgency));
        let submitted = Some(Submitted { by, adds, commits: Vec::new() });
        self.entries.borrow_mut().push(Entry { attempt, state: State::Open, called: true, submitted });
        at
    }

    /// The thread that runs executes that submitted call from now on, or none.
    pub(super) fn executes(&self, call: Option<usize>) {
        let own = thread::current().id();
        let mut executed = self.executed.borrow_mut();
        executed.retain(|(who, _)| *who != own);
        executed.extend(call.map(|at| (own, at)));
    }

    /// The thread that runs has decided to commit: true if that was a submitted call, or a piece of one.
    pub(super) fn decides(&self, time: u64) -> bool {
        let own = thread::current().id();
        let executed = self.executed.borrow();
        let Some((_, at)) = executed.iter().find(|(who, _)| *who == own) else { return false };
        let Entry { attempt, submitted: Some(submitted), .. } = &mut self.entries.borrow_mut()[*at] else {
            return false;
        };
        submitted.commits.push((attempt.ops.len(), time));
        true
    }

    pub(super) fn end(&self, at: usize, status: Status, stamp: u64, state: State) {
        let end = self.now();
        let mut entries = self.entries.borrow_mut();
        let entry = &mut entries[at];
        let wrote = writes(&entry.attempt);
        entry.attempt.end = end;
        entry.attempt.status = status;
        entry.state = state;
        if status == Status::Committed {
            self.commits.set(self.commits.get() + 1);
            if wrote {
                entry.attempt.stamp = stamp;
                let decided = match &entry.submitted {
                    Some(submitted) => submitted.time().unwrap_or(0),
                    None => self.decided.borrow()[entry.attempt.session as usize].0,
                };
                if decided != stamp {
                    drop(entries);
                    self.say(format!("a commit at {stamp:#x} was announced for {decided:#x}"));
                }
            }
        }
    }

    /// What submitted calls have added, by key: those that have committed at times for which that is asked.
    pub fn added(&self, counts: impl Fn(u64) -> bool) -> BTreeMap<u64, i64> {
        let mut added = BTreeMap::new();
        for submitted in self.entries.borrow().iter().filter_map(|entry| entry.submitted.as_ref()) {
            if submitted.time().is_some_and(&counts) {
                submitted.adds.iter().for_each(|key| *added.entry(*key).or_default() += 1);
            }
        }
        added
    }

    /// Whether there is a submitted call of which its worker has not heard what became of it.
    pub(super) fn has_open_calls(&self) -> bool {
        let is_open = |entry: &Entry| entry.submitted.is_some() && entry.state == State::Open;
        self.entries.borrow().iter().any(is_open)
    }

    pub fn say(&self, what: String) {
        self.wrong.borrow_mut().push(what);
    }

    /// Gives the attempts that never ended the outcome that was decided.
    pub fn settle(&self) {
        let last = self.now();
        let decided = self.decided.borrow();
        for entry in self.entries.borrow_mut().iter_mut().filter(|entry| entry.state == State::Open) {
            let attempt = &mut entry.attempt;
            attempt.end = last;
            let (time, ops) = match &entry.submitted {
                Some(submitted) => submitted.commits.last().map_or((0, 0), |(ops, time)| (*time, *ops)),
                None => decided[attempt.session as usize],
            };
            attempt.ops.truncate(if time == 0 { attempt.ops.len() } else { ops });
            // What it has deferred.
            attempt.ops.append(&mut Trail(attempt.session).take());
            if time != 0 && writes(attempt) {
                attempt.status = Status::Survived;
                attempt.stamp = time;
            }
        }
    }
}

/// Whether it did more than read.
pub(in crate::search) fn writes(attempt: &Attempt) -> bool {
    attempt.ops.iter().any(|op| matches!(op, Op::Write(..) | Op::Delete(..)))
}
