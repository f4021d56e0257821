//! Intentions of deferring transactions.
//!
//! A protocol that defers is told of nothing before the commit: an intention is a step on a record, found by its key, in
//! the worker's plan. Where there is no record, an absent one is put into the index, as for an insert, so that others
//! queue behind this transaction at the same place.

use super::{Attempt, WorkerState};
use crate::commit::{Commit, Logging};
use crate::durability::{Announced, Says};
use crate::error::{Error, Misuse, Result};
use crate::index::Lookup;
use crate::log::PAYLOAD_WORDS_MAX;
use crate::protocol::{Env, Protocol};
use crate::record::RecordRef;
use crate::seam::{Access, Body, Defers, Ended, Intention, Operators, Part};
use crate::sync::{Phase, Work, attempt_ended, note, phase, point, work};
use crate::table::Definition;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

impl<P: Protocol> Defers for Attempt<P> {
    fn defers(&self) -> bool {
        // What is written at once is not queued behind what is intended with the same row.
        // What will be refused is refused at once.
        P::DEFERS
            && self.worker.writes.is_empty()
            && !self.failed
            && !self.reads_only
            && !self.worker.taken_by_others
    }

    fn defer(&mut self, access: &Access<'_>, intention: Intention, step: u32) -> Result<()> {
        assert!(P::DEFERS, "step {step} was deferred under a protocol that does not defer");
        let Access { wanted: Part { relation, groups, .. }, key, .. } = *access;
        let record = self.record_for(relation, key)?;
        if self.worker.writes.find(record).is_some() {
            let row = format!("a row of {} was written before something is deferred on it", relation.name());
            return Err(Misuse::Option(row).into());
        }
        self.worker.plan.add(record, relation.layout, relation.number(), key, groups, intention, step);
        Ok(())
    }

    fn defer_insert(&mut self, relation: &'static Definition, step: u32) -> Result<()> {
        assert!(P::DEFERS, "step {step} was deferred under a protocol that does not defer");
        self.db.stores.get(relation)?;
        self.worker.plan.add_insert(relation, step);
        Ok(())
    }

    fn has_intentions_on(&self, relation: &'static Definition, key: Option<&[u64]>) -> bool {
        self.worker.plan.has(relation.number(), key)
    }

    fn forget_intentions(&mut self) {
        self.worker.plan.clear();
    }

    fn end_deferred(&mut self, operators: &mut dyn Operators) -> Result<Ended> {
        if !P::DEFERS || self.worker.plan.is_empty() || self.failed {
            // As `end_body`, without a copy of the commit.
            return self.end_otherwise(Body::Done { failed: self.failed });
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| self.commit_plan(operators)));
        let log_is_long = match outcome {
            Ok(Ok(Some(log_is_long))) => log_is_long,
            Ok(Ok(None)) => {
                self.abort_attempt();
                self.db.counters.user_abort(self.worker.number);
                return Err(operators.refusal());
            }
            Ok(Err(error)) => {
                self.abort_attempt();
                if let Error::Conflict(conflict) = error {
                    self.db.counters.conflict(self.worker.number, conflict);
                }
                return Err(error);
            }
            Err(panic) => {
                self.abort_attempt();
                resume_unwind(panic);
            }
        };
        self.db.counters.commit(self.worker.number);
        self.end_attempt();
        attempt_ended(true);
        if log_is_long && let Some(log) = self.db.logging() {
            log.relieve(self.worker.number);
        }
        Ok(self.committed())
    }
}

impl<P: Protocol> Attempt<P> {
    /// The record of a key; an absent one is made where there is none.
    fn record_for(&mut self, relation: &'static Definition, key: &[u64]) -> Result<RecordRef> {
        work(Work::Operation);
        note(|| format!("intends something with {}{key:?}", relation.name()));
        phase(Phase::Index);
        let found = self.db.stores.get(relation)?.index.get(key);
        phase(Phase::Body);
        match found {
            Lookup::Found(record) => Ok(record),
            Lookup::Missing(_) => {
                let (record, found_in) = self.place_record(relation, key, true)?;
                if found_in.is_none() {
                    P::own_intention(&mut self.worker.local, record);
                }
                Ok(record)
            }
        }
    }

    /// Applies a plan that makes rows, and puts these into the index. False, if the verdict is against it.
    fn make_rows(&mut self, operators: &mut dyn Operators) -> Result<bool> {
        let env =
            Env { epoch: self.epoch, after: self.after, ..self.db.env(self.worker.number, self.isolation) };
        let WorkerState { local, writes, plan, .. } = &mut *self.worker;
        point("commit");
        phase(Phase::Commit);
        let applied =
            catch_unwind(AssertUnwindSafe(|| P::apply_deferred(local, env, writes, plan, operators)));
        // What was read may be of several moments, and what rests on it is not told before it is known not to be.
        let applied = match applied {
            Ok(Ok(true)) => true,
            Ok(Ok(false)) => false,
            Ok(Err(conflict)) => return Err(conflict.into()),
            Err(panic) => {
                P::validate_applied(local, writes, plan)?;
                resume_unwind(panic);
            }
        };
        if !applied {
            P::validate_applied(local, writes, plan)?;
            return Ok(false);
        }
        for at in 0..self.worker.plan.inserts().len() {
            let insert = self.worker.plan.inserts()[at];
            if !insert.made {
                continue;
            }
            let mut key = [0; Definition::KEY_WORDS_MAX];
            let key = &mut key[..insert.relation.key_words];
            key.copy_from_slice(self.worker.plan.key_of(&insert));
            note(|| format!("makes {}{key:?}", insert.relation.name()));
            let (record, _) = self.place_record(insert.relation, key, true)?;
            point("placed");
            let WorkerState { local, writes, plan, .. } = &mut *self.worker;
            if let Err(conflict) = P::take_made(local, writes, plan, &insert, record) {
                // Somebody is there. The next attempt does all at once, and so finds out whom it has to wait for, or that
                // there is such a row.
                self.worker.taken_by_others = true;
                return Err(conflict.into());
            }
            plan.place(at, record);
        }
        phase(Phase::Body);
        Ok(true)
    }

    /// Lets the protocol commit what was read, written and intended. Whether the log has become long; None if the
    /// verdict is against it.
    fn commit_plan(&mut self, operators: &mut dyn Operators) -> Result<Option<bool>> {
        if !self.worker.plan.inserts().is_empty() && !self.make_rows(operators)? {
            return Ok(None);
        }
        let worker = &mut *self.worker;
        let env = Env { epoch: self.epoch, after: self.after, ..self.db.env(worker.number, self.isolation) };
        let WorkerState { local, writes, plan, arena, left, garbage, .. } = worker;
        let log = self.db.logging();
        if let Some(log) = log {
            log.check()?;
            super::life::fits::<P>(writes, &self.db.stores.heap)?;
        }
        if plan.logged_words() + 4 > PAYLOAD_WORDS_MAX {
            return Err(Misuse::TooLarge { limit: PAYLOAD_WORDS_MAX * 8 }.into());
        }
        let (outcome, log_is_long) = {
            let (heap, boundaries) = (&*self.db.stores.heap, &self.db.boundaries);
            let log = log.map(|log| Logging {
                log,
                worker: env.worker,
                says: Says::Rows,
                announced: Announced::default(),
            });
            let mut commit = Commit::new(writes, boundaries, heap, arena, left, garbage.live(), log);
            point("commit");
            phase(Phase::Commit);
            (P::commit_deferred(local, env, &mut commit, plan, operators), commit.log_is_long())
        };
        let Some(stamp) = outcome.inspect_err(|conflict| note(|| format!("{conflict}")))? else {
            note(|| "its verdict is against it".to_owned());
            return Ok(None);
        };
        note(|| format!("committed at {stamp:#x}"));
        self.worker.last_commit = stamp;
        self.leave_behind(true);
        Ok(Some(log_is_long))
    }
}
