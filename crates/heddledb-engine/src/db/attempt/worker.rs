//! An attempt as a worker of the seam.

use super::scan::Visitor;
use super::{Attempt, modes};
use crate::db::common::Common;
use crate::durability::Beside;
use crate::error::{Conflict, Result};
use crate::index::Lookup;
use crate::procedure::Told;
use crate::protocol::{Isolation, Protocol};
use crate::record::data_base;
use crate::seam::{
    Access, Acknowledges, Ahead, Body, CallByName, Callee, Ended, Engine, Inserted, Moment, Patch, Purpose,
    Range, Refused, Savepoint, Staged, Stats, Suspend, Task, Ticket, Worker,
};
use crate::sight::Sight;
use crate::stamp;
use crate::sync::htm::{self, Interrupted};
use crate::sync::{IN_PLACE, Suspender, spin, yield_now};
use crate::table::{GroupSet, Span};
use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

/// Makes an operation, which a region may end at any access.
#[inline(always)]
fn operation<P: Protocol, R>(operation: impl FnOnce() -> Result<R>) -> Result<R> {
    if P::REGIONS {
        return htm::guard(operation).unwrap_or_else(|Interrupted| Err(Conflict::Region.into()));
    }
    operation()
}

impl<P: Protocol> Worker for Attempt<P> {
    fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.handle) as Arc<dyn Engine>
    }

    fn number(&self) -> usize {
        self.worker.number
    }

    fn release(self: Box<Self>) {
        let Self { handle, worker, .. } = *self;
        handle.give_place(worker);
    }

    fn begin(&mut self, retry: u32, call: Option<Callee>) -> bool {
        self.begin_attempt(retry, call)
    }

    fn end(&mut self, body: Body) -> Result<Ended> {
        if P::REGIONS {
            // What became of the body rests on a state that never was.
            return match htm::guard(|| self.end_body(body)) {
                Ok(ended) => ended,
                Err(Interrupted) => self.end_body(Body::Gave(Conflict::Region.into())),
            };
        }
        self.end_body(body)
    }

    fn abort(&mut self) {
        if P::REGIONS && htm::guard(|| self.abort_attempt()) == Ok(()) {
            return;
        }
        self.abort_attempt();
    }

    fn validate(&mut self) -> Result<(), Conflict> {
        if P::REGIONS {
            return htm::guard(|| self.validate_reads()).unwrap_or(Err(Conflict::Region));
        }
        self.validate_reads()
    }

    fn back_off(&mut self, retry: u32) {
        // What the attempt conflicts with may be held by a suspended session of this thread, which only goes on
        // if it is let run.
        self.let_others_run();
        self.pause_before(retry);
    }

    fn wants_told(&self) -> bool {
        modes::wants_told(self)
    }

    fn tell(&mut self, told: Told<'_>) -> bool {
        modes::tell(self, told)
    }

    fn call_at_hand(&mut self, procedure: Option<TypeId>) -> Option<&mut Vec<u8>> {
        // What is to be announced only is in no log.
        let wanted = procedure.filter(|_| !modes::must_call(self));
        let at_hand = &mut self.worker.call;
        at_hand.procedure = wanted.and_then(|procedure| self.db.versions.of(procedure));
        at_hand.procedure?;
        at_hand.arguments.clear();
        Some(&mut at_hand.arguments)
    }

    fn written(&mut self) -> u64 {
        self.db.log.as_ref().map_or(0, |log| log.take_digest(self.worker.number))
    }

    fn next_task(&mut self, waits: bool) -> Option<Task> {
        self.next_job(waits)
    }

    fn end_task(&mut self) {
        self.end_job();
    }

    fn get(&mut self, access: &Access<'_>) -> Result<Option<Sight<'_>>> {
        operation::<P, _>(|| self.get_row(access))
    }

    fn get_again(&mut self, access: &Access<'_>) -> Result<Option<Sight<'_>>> {
        operation::<P, _>(|| self.get_row_again(access))
    }

    fn stage(&mut self, access: &Access<'_>, purpose: Purpose) -> Result<Staged<'_>> {
        operation::<P, _>(|| self.stage_row(access, purpose))
    }

    fn store(&mut self, access: &Access<'_>, changed: GroupSet) -> Result<()> {
        operation::<P, _>(|| self.store_row(access, changed))
    }

    fn insert(&mut self, access: &Access<'_>) -> Result<Inserted<'_>> {
        operation::<P, _>(|| self.insert_row(access))
    }

    fn patch(&mut self, access: &Access<'_>, patch: Patch<'_>) -> Result<bool> {
        operation::<P, _>(|| self.patch_row(access, patch))
    }

    fn delete(&mut self, access: &Access<'_>) -> Result<bool> {
        operation::<P, _>(|| self.delete_row(access))
    }

    fn begin_operation(&mut self) {
        self.worker.writes.begin_operation();
    }

    fn refuse(&mut self, refused: Refused) -> Result<()> {
        operation::<P, _>(|| self.refuse_operation(refused))
    }

    fn save(&mut self) -> Result<Savepoint> {
        operation::<P, _>(|| self.open_savepoint())
    }

    fn keep(&mut self, savepoint: Savepoint) {
        self.worker.writes.close(savepoint.0);
    }

    fn roll_back(&mut self, savepoint: Savepoint) -> Result<()> {
        operation::<P, _>(|| self.roll_back_to(savepoint))
    }

    fn scan(&mut self, range: &Range<'_>, visit: &mut Visitor<'_>) -> Result<()> {
        operation::<P, _>(|| self.scan_rows(range, visit))
    }

    fn prefetch(&mut self, ahead: &Ahead<'_>) {
        // A hint: what ends it the next operation finds out.
        let _ = operation::<P, _>(|| {
            self.ask_for(ahead);
            Ok(())
        });
    }

    fn begin_snapshot(&mut self, recent: bool) -> Result<Moment> {
        let Common { boundaries, clock, .. } = &**self.db;
        let boundary =
            if recent { boundaries.recent(clock, self.worker.number)? } else { boundaries.now(clock)? };
        Ok(boundary.moment())
    }

    fn end_snapshot(&mut self, moment: Moment) {
        self.worker.writes.clear();
        self.db.boundaries.release_of(moment.into(), self.worker.number);
    }

    fn get_at(&mut self, moment: Moment, access: &Access<'_>) -> Result<Option<Sight<'_>>> {
        self.get_row_at(moment, access)
    }

    fn scan_at(&mut self, moment: Moment, range: &Range<'_>, visit: &mut Visitor<'_>) -> Result<()> {
        self.scan_rows_at(moment, range, visit)
    }

    fn prefetch_at(&mut self, ahead: &Ahead<'_>) {
        self.pinned(|attempt| {
            attempt.ask_for(ahead);
            // Nothing keeps the records there once the worker is not pinned.
            attempt.worker.ahead.clear();
        });
    }

    fn wait_durable(&self, epoch: u64) -> Result<()> {
        match (self.db.logging(), &self.worker.suspender) {
            (None, _) => Ok(()),
            (Some(log), None) => log.wait(epoch),
            (Some(log), Some(suspender)) => log.wait_beside(suspender, epoch),
        }
    }

    fn ticket(&self) -> Ticket {
        let log = self.db.logging().map(Arc::clone);
        let log = log.map(|log| match &self.worker.suspender {
            None => log as Arc<dyn Acknowledges>,
            Some(suspender) => Arc::new(Beside { log, suspender: suspender.clone() }),
        });
        Ticket::new(log, stamp::epoch(self.worker.last_commit))
    }

    fn last_commit(&self) -> u64 {
        self.worker.last_commit
    }

    fn isolation(&self) -> Isolation {
        self.isolation
    }

    fn set_isolation(&mut self, level: Isolation) {
        self.isolation = level;
    }

    fn stats(&self) -> Stats {
        self.db.counters.of(self.worker.number)
    }

    fn by_name(&mut self, name: &str) -> Result<CallByName> {
        let cache = &mut self.worker.plan_cache;
        self.db.procedures.update(cache);
        cache.by_name(name)
    }

    fn suspend_by(&mut self, task: Option<Arc<dyn Suspend>>) {
        self.wait_by(task, None, None);
    }

    fn wait_within(&mut self, within: Option<Duration>, each: Option<Duration>) {
        let task = self.worker.suspender.as_ref().and_then(|suspender| suspender.task().map(Arc::clone));
        self.wait_by(task, within, each);
    }

    fn shares_thread(&self) -> bool {
        let has_task = |suspender: &Suspender| suspender.task().is_some();
        !IN_PLACE || self.worker.suspender.as_ref().is_some_and(has_task)
    }

    fn is_overdue(&self) -> bool {
        Attempt::is_overdue(self)
    }

    fn refusal(&mut self) -> Option<Conflict> {
        self.refusal.take()
    }
}

impl<P: Protocol> Attempt<P> {
    /// How it waits for other transactions from now on.
    pub(in crate::db) fn wait_by(
        &mut self,
        task: Option<Arc<dyn Suspend>>,
        within: Option<Duration>,
        each: Option<Duration>,
    ) {
        let suspender = Suspender::new(task, within, self.db.limits.lock.or(each));
        P::suspend_by(&mut self.worker.local, suspender.clone());
        self.worker.suspender = suspender;
    }

    /// Randomised, bounded exponential back-off after the `retry`-th conflict in a row. The bound
    /// keeps the wait below a few transactions' length; yielding lets holders run where threads
    /// outnumber cores.
    #[cold]
    pub(super) fn pause_before(&mut self, retry: u32) {
        const HINTS_FIRST: u64 = 32;
        const DOUBLINGS: u32 = 6;
        const YIELD_AFTER: u32 = 8;
        let hints = self.worker.random.below(HINTS_FIRST << retry.min(DOUBLINGS));
        if crate::sync::MODEL || retry >= YIELD_AFTER {
            yield_now();
        }
        if !crate::sync::MODEL {
            spin(hints);
        }
    }

    /// Prefetches the memory of rows that will be used, and remembers where they are.
    fn ask_for(&mut self, ahead: &Ahead<'_>) {
        // Without a store there are no rows; the access itself will report what is wrong.
        let Ok(store) = self.db.stores.get(ahead.relation) else { return };
        let known = &mut self.worker.ahead;
        let (width, base) = (ahead.relation.key_words, data_base::<P>(ahead.relation.layout));
        store.index.prefetch_each(ahead.rows, width + 2);
        let mut rows = ahead.rows;
        while let Some((row, rest)) = rows.split_at_checked(width + 2) {
            rows = rest;
            let (key, span) = row.split_at(width);
            let record = known.get_or_find(store.number, key, || match store.index.get(key) {
                Lookup::Found(record) => Some(record),
                Lookup::Missing(_) => None,
            });
            let Some(record) = record else { continue };
            record.prefetch_first(base);
            record.prefetch(Span { start: base + span[0] as usize, end: base + span[1] as usize });
        }
    }
}
