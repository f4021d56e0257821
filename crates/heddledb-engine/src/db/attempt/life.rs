//! Beginning and ending an attempt.

use super::{Attempt, Logs, Placeholder, WorkerState, modes};
use crate::access::{Write, WriteSet};
use crate::commit::{Commit, Logging, Replaced};
use crate::db::Inner;
use crate::db::common::Common;
use crate::db::counters::Memory;
use crate::db::garbage::ReclaimContext;
use crate::db::store::Stores;
use crate::durability::{Announced, RedoLog, Says};
use crate::error::{Conflict, Error, Misuse, Result};
use crate::heap::Heap;
use crate::log::PAYLOAD_WORDS_MAX;
use crate::mutant::{Mutant, planted};
use crate::protocol::{Env, Isolation, Protocol};
use crate::record::{data_base, heads_base};
use crate::seam::{Body, Callee, Ended};
use crate::stamp;
use crate::sync::{Ordering, Phase, Suspender, Wait, Work, attempt_ended, note, phase, point, work};
use crate::values::Outside;

impl<P: Protocol> Attempt<P> {
    /// Starts an attempt, of a call or of a closure; `retry` counts the earlier ones of the same transaction.
    /// False where there is no such procedure, or where the time for its begin is over ([`Attempt::refusal`]): then
    /// nothing has begun.
    #[inline]
    pub(super) fn begin_attempt(&mut self, retry: u32, call: Option<Callee>) -> bool {
        work(Work::Attempt);
        phase(Phase::Body);
        note(|| format!("begins, attempt {}", retry + 1));
        self.failed = false;
        // What the log holds is made again as closures are executed: its order is known, whatever the mode.
        let call = call.filter(|_| self.logs != Logs::Nothing);
        self.called = call.is_some();
        if let Some(Callee::Number(_)) = call {
            // Nobody has told its arguments.
            self.worker.call.procedure = None;
        }
        self.failures = 0;
        if !modes::begin(self, retry) {
            // What is no call and should be one will not begin later either.
            return if modes::must_call(self) { false } else { self.refuse() };
        }
        self.begin_writes(retry);
        match call {
            None => {
                if P::REGIONS {
                    P::procedure(&mut self.worker.local, None);
                }
                true
            }
            Some(callee) => {
                let known = self.number_of(callee).is_some_and(|number| self.call(number));
                if !known {
                    self.abort_attempt();
                }
                known
            }
        }
    }

    /// Others have kept the attempt from its begin for too long.
    #[cold]
    fn refuse(&mut self) -> bool {
        note(|| "begins too late".to_owned());
        (self.called, self.refusal) = (false, Some(Conflict::TimedOut));
        self.db.counters.conflict(self.worker.number, Conflict::TimedOut);
        attempt_ended(false);
        false
    }

    /// Whether the time is over in which others are waited for.
    pub(super) fn is_overdue(&self) -> bool {
        self.worker.suspender.as_ref().is_some_and(Suspender::is_over)
    }

    /// Begins what [`Self::commit_writes`] or [`Self::abort_writes`] ends.
    #[inline]
    pub(in crate::db) fn begin_writes(&mut self, retry: u32) {
        let worker = &mut *self.worker;
        if !planted(Mutant::ScanOutlivesAttempt) {
            worker.scanned = None;
            worker.ahead.clear();
        }
        // What was looked for in vain before says nothing of what this one has looked at.
        worker.missed.forget();
        let env = self.db.env(worker.number, self.isolation);
        P::begin(&mut worker.local, env, retry);
    }

    /// Keeps other transactions from beginning until this attempt ends.
    #[cold]
    pub(super) fn hold_gate(&mut self) {
        if !self.gate {
            self.db.procedures.close();
            self.gate = true;
        }
    }

    /// Ends what [`Self::hold_gate`] began, or a mode's `begin`: the gate is open again, and the turn free.
    #[inline]
    pub(super) fn let_others_begin(&mut self) {
        if std::mem::take(&mut self.gate) {
            self.db.procedures.open();
        }
        if std::mem::take(&mut self.turn) {
            self.db.procedures.turn.give();
        }
        self.give_piece_turn();
    }

    /// A piece of another call that has failed often may be executed, if this attempt has had the turn for that.
    #[inline]
    pub(super) fn give_piece_turn(&mut self) {
        if std::mem::take(&mut self.piece_turn) {
            self.db.procedures.piece_turn.give();
        }
    }

    /// Ends an attempt, or an execution of its body, with what became of the body.
    #[inline(always)]
    pub(super) fn end_body(&mut self, body: Body) -> Result<Ended> {
        if let (Body::Done { failed: false }, false) = (&body, self.called) {
            self.commit_now()?;
            return Ok(self.committed());
        }
        self.end_otherwise(body)
    }

    /// As [`Self::end_body`]: what is left by it, calls and closures whose bodies gave up.
    pub(super) fn end_otherwise(&mut self, body: Body) -> Result<Ended> {
        if let Body::Done { failed: true } = body {
            self.failed = true;
        }
        let outcome = if self.called { self.end_call(body) } else { self.end_closure(body) };
        if self.called && !matches!(outcome, Ok(Ended::Again)) {
            self.adapt();
        }
        outcome
    }

    /// After a commit: a thread with several sessions switches to another.
    #[inline(always)]
    pub(super) fn committed(&mut self) -> Ended {
        self.let_others_run();
        Ended::Committed
    }

    /// Between attempts, when nothing is held: lets the other sessions of this thread run, if it has a crew.
    #[inline(always)]
    pub(super) fn let_others_run(&self) {
        if let Some(suspender) = &self.worker.suspender
            && suspender.task().is_some()
        {
            suspender.let_others_run(&mut Wait::new());
        }
    }

    fn end_closure(&mut self, body: Body) -> Result<Ended> {
        match body {
            Body::Done { .. } => self.commit_attempt().map(|()| self.committed()),
            Body::Gave(error) => Err(self.give_up(error)),
            Body::Panicked => {
                // An optimistic body may have panicked over a state that never was.
                let stale = self.validate_reads();
                self.abort_attempt();
                match stale {
                    Ok(()) => Ok(Ended::Panics),
                    Err(conflict) => {
                        self.db.counters.conflict(self.worker.number, conflict);
                        Err(conflict.into())
                    }
                }
            }
        }
    }

    /// Ends an attempt that its body gave up, and decides what the caller hears.
    #[cold]
    pub(super) fn give_up(&mut self, error: Error) -> Error {
        let worker = self.worker.number;
        let error = match error {
            Error::Conflict(conflict) => Error::Conflict(conflict),
            // The decision may rest on a state that never was: then it is a conflict after all (X8).
            decided => self.validate_reads().map_or_else(Error::from, |()| modes::given_up(self, decided)),
        };
        if !matches!(error, Error::Conflict(_)) {
            self.worker.taken_by_others = false;
        }
        self.abort_attempt();
        match &error {
            Error::Conflict(conflict) => self.db.counters.conflict(worker, *conflict),
            _ => self.db.counters.user_abort(worker),
        }
        error
    }

    /// As [`Self::commit_now`], where it is not worth a copy of it.
    #[inline(never)]
    pub(super) fn commit_attempt(&mut self) -> Result<()> {
        self.commit_now()
    }

    /// Ends an attempt with a commit, or aborts it.
    #[inline(always)]
    fn commit_now(&mut self) -> Result<()> {
        if self.failed {
            self.abort_attempt();
            return Err(Misuse::Failed.into());
        }
        match modes::commit(self) {
            Ok(log_is_long) => {
                if self.logs != Logs::Nothing {
                    self.db.counters.commit(self.worker.number);
                }
                self.end_attempt();
                attempt_ended(true);
                if log_is_long && let Some(log) = self.db.logging() {
                    log.relieve(self.worker.number);
                }
                Ok(())
            }
            Err(error) => {
                self.abort_attempt();
                if let Error::Conflict(conflict) = error {
                    self.db.counters.conflict(self.worker.number, conflict);
                }
                Err(error)
            }
        }
    }

    /// Lets the protocol commit what was read and written. True if the log has become long.
    #[inline]
    pub(in crate::db) fn commit_writes(&mut self) -> Result<bool> {
        self.commit_if(|log| log.check(), |local, env, commit| P::commit(local, env, commit))
    }

    /// As [`Self::commit_writes`], although the log may have failed: what is written is part of what has committed already.
    pub(super) fn commit_without_check(&mut self) -> Result<bool> {
        self.commit_if(|_| Ok(()), |local, env, commit| P::commit(local, env, commit))
    }

    /// Lets the protocol commit what a call adds at its end; see [`Protocol::commit_additions`].
    pub(super) fn commit_additions(&mut self, checks: bool) -> Result<bool> {
        self.commit_if(|log| if checks { log.check() } else { Ok(()) }, P::commit_additions)
    }

    /// `commits` is a closure, and not the verb itself: called as a function value, that would get a copy of its environment, made in
    /// wider words than it was written in just before, which processors wait for: 13 of 262 ns of a transfer.
    #[inline(always)]
    fn commit_if(
        &mut self,
        check: impl FnOnce(&RedoLog) -> Result<()>,
        commits: impl FnOnce(&mut P::Local, Env<'_>, &mut Commit<'_>) -> Result<u64, Conflict>,
    ) -> Result<bool> {
        let is_call = self.called && self.executed.is_announced();
        let worker = &mut *self.worker;
        let env = Env { epoch: self.epoch, after: self.after, ..self.db.env(worker.number, self.isolation) };
        let WorkerState { local, writes, arena, left, garbage, call, .. } = worker;
        let heap = &*self.db.stores.heap;
        let log = if self.logs == Logs::Nothing { self.db.log.as_ref() } else { self.db.logging() };
        match log {
            _ if writes.is_empty() => {}
            Some(log) => {
                if self.logs != Logs::Nothing {
                    check(log)?;
                }
                fits::<P>(writes, heap)?;
            }
            // Each row must fit a frame of a copy, too.
            None if heap.has_made(env.worker) => add_up::<P>(writes, usize::max)?,
            None => {}
        }
        let log = log.map(|log| {
            let says = match self.logs {
                Logs::Calls if is_call && env.isolation == Isolation::Serializable => {
                    modes::says(&self.modes, call)
                }
                Logs::Rows | Logs::Calls => Says::Rows,
                Logs::Nothing => Says::Nothing,
            };
            // What reads only is in no log, and what it scans is nobody's concern.
            let announces = self.logs == Logs::Calls && !writes.is_empty();
            let announced =
                if announces { log.announce(writes, says.footprint()) } else { Announced::default() };
            Logging { log, worker: env.worker, says, announced }
        });
        let (outcome, log_is_long) = {
            let mut commit = Commit::new(writes, &self.db.boundaries, heap, arena, left, garbage.live(), log);
            if P::REGIONS && self.called && self.db.modes.numbers_lazily() {
                commit = commit.keeping_earlier();
            }
            point("commit");
            phase(Phase::Commit);
            (commits(local, env, &mut commit), commit.log_is_long())
        };
        let stamp = outcome.inspect_err(|conflict| note(|| format!("{conflict}")))?;
        note(|| format!("committed at {stamp:#x}"));
        self.worker.last_commit = stamp;
        self.leave_behind(true);
        Ok(log_is_long)
    }

    /// Ends an attempt without effect.
    pub(super) fn abort_attempt(&mut self) {
        note(|| "aborts".to_owned());
        self.abort_writes();
        self.end_attempt();
        attempt_ended(false);
    }

    /// Drops what was read and written.
    pub(in crate::db) fn abort_writes(&mut self) {
        let worker = &mut *self.worker;
        P::abort(&mut worker.local, self.db.env(worker.number, self.isolation), &worker.writes);
        self.leave_behind(false);
    }

    /// Whether a decision to give up, or a panic, rests on reads that still stand.
    pub(super) fn validate_reads(&mut self) -> Result<(), Conflict> {
        modes::begin_decision(self)?;
        let worker = &mut *self.worker;
        let outcome = P::validate(&mut worker.local, self.db.env(worker.number, self.isolation));
        modes::end_decision(self);
        outcome
    }

    /// Queues what this attempt leaves in the indexes without a row.
    #[inline(always)]
    pub(super) fn leave_behind(&mut self, committed: bool) {
        let worker = &mut *self.worker;
        let now = self.db.clock.now();
        let writes = &mut worker.writes;
        if committed {
            // Before the absent records, which cannot go before their versions.
            if !worker.left.versions.is_empty() {
                worker.left.versions.drain(..).for_each(|version| worker.garbage.superseded(now, version));
            }
            // Asked first: mostly there is none.
            let absent = if writes.may_leave_absent() { writes.writes() } else { &[] };
            for write in absent {
                if !write.present {
                    let head = write.record.word(heads_base::<P>(write.layout));
                    worker.garbage.absent(now, write.relation, writes.key(write), write.record, head);
                }
            }
        } else if P::REGIONS && P::vanished(&worker.local) {
            worker.take_vanished();
        } else {
            (0..worker.placeholders.len()).for_each(|at| worker.give_up_placeholder(at, now));
        }
        if P::REGIONS {
            worker.tend_indexes(&self.db.stores);
        }
        let heap = &*self.db.stores.heap;
        if heap.has_made(worker.number) || !worker.left.values.is_empty() {
            worker.leave_values(heap, now);
        }
        if P::DEFERS {
            worker.leave_plan(committed, now);
        }
        worker.placeholders.clear();
        worker.writes.clear();
    }

    #[inline(always)]
    pub(super) fn end_attempt(&mut self) {
        let worker = &mut *self.worker;
        // Else what it holds is what it told of last.
        if !worker.garbage.is_empty() || worker.arena.take_changed() {
            self.reclaim();
        }
        if P::REGIONS {
            modes::before_unpin(self);
        }
        self.db.clock.unpin(self.worker.number);
        modes::end(self);
    }

    /// Works off what waits for reclamation, and tells how much memory there is.
    #[inline(never)]
    fn reclaim(&mut self) {
        let worker = &mut *self.worker;
        let Inner { stores, common: Common { clock, boundaries, .. }, .. } = &*self.db;
        worker.garbage.collect(ReclaimContext {
            clock,
            boundaries,
            stores,
            arena: &mut worker.arena,
            worker: worker.number,
        });
        let memory = Memory {
            record_bytes: worker.arena.bytes(),
            version_bytes: worker.arena.version_bytes(),
            versions_kept: worker.arena.versions(),
            garbage: worker.garbage.len(),
        };
        self.db.counters.memory(worker.number, memory);
    }
}

impl<P: Protocol> WorkerState<P> {
    /// Queues what intentions have removed, and the records that were made for rows which are not there all the same.
    fn leave_plan(&mut self, committed: bool, now: u64) {
        if committed {
            self.taken_by_others = false;
            for row in self.plan.rows().iter().filter(|row| row.was_present && !row.present) {
                let head = row.record.word(heads_base::<P>(row.layout));
                self.garbage.absent(now, row.relation, self.plan.key(row), row.record, head);
            }
            for at in 0..self.placeholders.len() {
                let Placeholder { record, intended, .. } = self.placeholders[at];
                // Relaxed: a hint; what is not absent when its turn comes is left alone.
                let stamp = || record.word(P::stamp_word(0)).load(Ordering::Relaxed);
                if intended && stamp::is_absent(stamp()) {
                    self.give_up_placeholder(at, now);
                }
            }
        }
        self.plan.clear();
    }

    /// Does for the indexes to which keys were added in a region what could not be done there, unless the region has vanished.
    fn tend_indexes(&mut self, stores: &Stores) {
        if !P::vanished(&self.local) {
            let mut words = &self.untended.words[..];
            for &(relation, width) in &self.untended.keys {
                let (key, rest) = words.split_at(width);
                stores.numbered(relation).index.tend(key, self.number);
                words = rest;
            }
        }
        self.untended.clear();
    }

    /// Takes back the blocks of records that indexes were given in a region that was aborted: nobody has seen them.
    #[cold]
    fn take_vanished(&mut self) {
        let blocks = self.placeholders.iter().map(|added| (added.relation as usize, added.record));
        blocks.chain(self.lent.take()).for_each(|(relation, block)| self.arena.release(relation, block));
    }

    /// Queues the values that the commit replaced, and those that were put and not installed.
    #[inline(never)]
    fn leave_values(&mut self, heap: &Heap, now: u64) {
        let replaced = self.left.values.drain(..);
        if planted(Mutant::ValueFreedEarly) {
            replaced.for_each(|replaced| heap.free(self.number, replaced.value));
        } else {
            replaced.for_each(|replaced| self.garbage.replaced(now, replaced));
        }
        for value in heap.made(self.number) {
            if heap.installed(value) == 0 {
                // Others may have been shown it; no snapshot was.
                self.garbage.replaced(now, Replaced { value, from: 0, until: 0 });
            }
        }
    }
}

/// Refuses a transaction that fits in no frame of the log. Few have so many writes that the sum must be
/// computed.
#[inline(always)]
pub(super) fn fits<P: Protocol>(writes: &WriteSet, heap: &Heap) -> Result<()> {
    const SMALL: usize = 1 << 12;
    if writes.writes().len() < SMALL && !heap.is_used() {
        Ok(())
    } else {
        add_up::<P>(writes, |one, other| one + other)
    }
}

#[cold]
fn add_up<P: Protocol>(writes: &WriteSet, sum: fn(usize, usize) -> usize) -> Result<()> {
    let values = |write: &Write| match write.present {
        true => writes.values(write, data_base::<P>(write.layout)).map(Outside::words).sum(),
        false => 0,
    };
    let words = |write: &Write| 1 + usize::from(write.key_words) + write.layout.words + values(write);
    let words: usize = writes.writes().iter().map(words).fold(0, sum);
    // The head of an entry or of a list of rows, and of a row.
    if words + 4 > PAYLOAD_WORDS_MAX {
        return Err(Misuse::TooLarge { limit: PAYLOAD_WORDS_MAX * 8 }.into());
    }
    Ok(())
}
