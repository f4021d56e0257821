//! What stands in the place of a worker whose transaction was open for too long: each operation says so.
//!
//! So a transaction that has a limit costs the others nothing: they have no state in which an operation must look
//! whether it may run.

use crate::error::{Conflict, Misuse, Result};
use crate::isolation::Isolation;
use crate::seam::{
    Access, Ahead, Body, CallByName, Callee, Defers, Ended, Engine, Inserted, Intention, Moment, Operators,
    Patch, Purpose, Range, Refused, Savepoint, Staged, Stats, Suspend, Task, Ticket, Visit, Worker,
};
use crate::sight::Sight;
use crate::table::{Definition, GroupSet};
use heddledb_core::procedure::Told;
use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

/// A worker whose transaction has been ended, and how long that may have been open.
pub(super) struct Overdue {
    worker: Box<dyn Worker>,
    limit: Duration,
}

impl Overdue {
    /// Ends the transaction that runs.
    pub fn end(mut worker: Box<dyn Worker>, limit: Duration) -> Self {
        worker.abort();
        worker.wait_within(None, None);
        Self { worker, limit }
    }

    fn told<R>(&self) -> Result<R> {
        Err(Misuse::TransactionTimedOut { limit: self.limit }.into())
    }
}

/// Owned transactions defer nothing.
impl Defers for Overdue {
    fn defers(&self) -> bool {
        false
    }

    fn defer(&mut self, _: &Access<'_>, _: Intention, _: u32) -> Result<()> {
        self.told()
    }

    fn defer_insert(&mut self, _: &'static Definition, _: u32) -> Result<()> {
        self.told()
    }

    fn has_intentions_on(&self, _: &'static Definition, _: Option<&[u64]>) -> bool {
        false
    }

    fn forget_intentions(&mut self) {}

    fn end_deferred(&mut self, _: &mut dyn Operators) -> Result<Ended> {
        self.told()
    }
}

impl Worker for Overdue {
    fn engine(&self) -> Arc<dyn Engine> {
        self.worker.engine()
    }

    fn number(&self) -> usize {
        self.worker.number()
    }

    fn release(self: Box<Self>) {
        self.worker.release();
    }

    fn begin(&mut self, _: u32, _: Option<Callee>) -> bool {
        unreachable!("an owned transaction begins once")
    }

    fn refusal(&mut self) -> Option<Conflict> {
        None
    }

    fn end(&mut self, _: Body) -> Result<Ended> {
        self.told()
    }

    fn abort(&mut self) {}

    fn validate(&mut self) -> Result<(), Conflict> {
        Err(Conflict::TimedOut)
    }

    fn back_off(&mut self, _: u32) {}

    fn wants_told(&self) -> bool {
        false
    }

    fn tell(&mut self, _: Told<'_>) -> bool {
        true
    }

    fn call_at_hand(&mut self, _: Option<TypeId>) -> Option<&mut Vec<u8>> {
        None
    }

    fn written(&mut self) -> u64 {
        0
    }

    fn next_task(&mut self, _: bool) -> Option<Task> {
        None
    }

    fn end_task(&mut self) {}

    fn begin_operation(&mut self) {}

    fn refuse(&mut self, _: Refused) -> Result<()> {
        self.told()
    }

    fn save(&mut self) -> Result<Savepoint> {
        self.told()
    }

    fn keep(&mut self, _: Savepoint) {}

    fn roll_back(&mut self, _: Savepoint) -> Result<()> {
        self.told()
    }

    fn get(&mut self, _: &Access<'_>) -> Result<Option<Sight<'_>>> {
        self.told()
    }

    fn get_again(&mut self, _: &Access<'_>) -> Result<Option<Sight<'_>>> {
        self.told()
    }

    fn stage(&mut self, _: &Access<'_>, _: Purpose) -> Result<Staged<'_>> {
        self.told()
    }

    fn store(&mut self, _: &Access<'_>, _: GroupSet) -> Result<()> {
        self.told()
    }

    fn insert(&mut self, _: &Access<'_>) -> Result<Inserted<'_>> {
        self.told()
    }

    fn patch(&mut self, _: &Access<'_>, _: Patch<'_>) -> Result<bool> {
        self.told()
    }

    fn delete(&mut self, _: &Access<'_>) -> Result<bool> {
        self.told()
    }

    fn scan(&mut self, _: &Range<'_>, _: &mut dyn FnMut(&[u64], Sight<'_>) -> Visit) -> Result<()> {
        self.told()
    }

    fn prefetch(&mut self, _: &Ahead<'_>) {}

    fn begin_snapshot(&mut self, _: bool) -> Result<Moment> {
        self.told()
    }

    fn end_snapshot(&mut self, moment: Moment) {
        self.worker.end_snapshot(moment);
    }

    fn get_at(&mut self, _: Moment, _: &Access<'_>) -> Result<Option<Sight<'_>>> {
        self.told()
    }

    fn scan_at(
        &mut self,
        _: Moment,
        _: &Range<'_>,
        _: &mut dyn FnMut(&[u64], Sight<'_>) -> Visit,
    ) -> Result<()> {
        self.told()
    }

    fn prefetch_at(&mut self, _: &Ahead<'_>) {}

    fn wait_durable(&self, epoch: u64) -> Result<()> {
        self.worker.wait_durable(epoch)
    }

    fn ticket(&self) -> Ticket {
        self.worker.ticket()
    }

    fn last_commit(&self) -> u64 {
        self.worker.last_commit()
    }

    fn isolation(&self) -> Isolation {
        self.worker.isolation()
    }

    fn set_isolation(&mut self, level: Isolation) {
        self.worker.set_isolation(level);
    }

    fn stats(&self) -> Stats {
        self.worker.stats()
    }

    fn by_name(&mut self, name: &str) -> Result<CallByName> {
        self.worker.by_name(name)
    }

    fn suspend_by(&mut self, suspender: Option<Arc<dyn Suspend>>) {
        self.worker.suspend_by(suspender);
    }

    fn shares_thread(&self) -> bool {
        self.worker.shares_thread()
    }

    fn wait_within(&mut self, within: Option<Duration>, each: Option<Duration>) {
        self.worker.wait_within(within, each);
    }

    fn is_overdue(&self) -> bool {
        true
    }
}
