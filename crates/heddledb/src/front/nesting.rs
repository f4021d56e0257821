//! Transactions within transactions of one thread: what waits for a transaction that its own thread has open would wait
//! for ever, since that one goes on only when the wait is over. So such waits have a limit, told or not.
//!
//! Sessions of a crew, and virtual cores, share a thread and are suspended where they wait: there nothing of this is asked
//! ([`Worker::shares_thread`](crate::seam::Worker::shares_thread)).

use crate::error::{Misuse, Result};
use heddledb_engine::sync::now_ns;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a transaction waits for others where its thread has another one open, unless it is told; likewise who waits there for
/// what executors do.
pub(super) const LIMIT: Duration = Duration::from_millis(500);

/// Attempts after which a body that runs other transactions is taken for one that conflicts with these.
pub(super) const ATTEMPTS: u32 = 256;

thread_local! {
    /// Bodies that run on this thread, and owned transactions that were begun on it and maybe live.
    static OPEN: Cell<usize> = const { Cell::new(0) };
    /// Those owned transactions.
    static OWNED: RefCell<Vec<Weak<()>>> = const { RefCell::new(Vec::new()) };
    /// A transaction has committed within a body of this thread.
    static COMMITTED_WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// A body that runs on this thread, until this is dropped.
pub(super) struct Running(());

impl Running {
    #[inline(always)]
    pub fn new() -> Self {
        // By reference: `set` of a thread's value is not inlined everywhere, and this is part of each transaction.
        OPEN.with(|open| open.set(open.get() + 1));
        Self(())
    }
}

impl Drop for Running {
    #[inline(always)]
    fn drop(&mut self) {
        OPEN.with(|open| open.set(open.get() - 1));
    }
}

/// An owned transaction: it counts for the thread on which it was begun, wherever it goes, until this is dropped.
pub(super) struct Owned(#[expect(dead_code, reason = "lives as long as the transaction")] Arc<()>);

impl Owned {
    pub fn new() -> Self {
        let lives = Arc::new(());
        OWNED.with_borrow_mut(|owned| owned.push(Arc::downgrade(&lives)));
        OPEN.set(OPEN.get() + 1);
        Self(lives)
    }
}

/// Whether this thread has a transaction open.
#[inline(always)]
pub(super) fn is_within() -> bool {
    OPEN.get() > 0 && lives()
}

/// As [`is_within`], without the owned transactions that have ended.
#[cold]
fn lives() -> bool {
    OWNED.with_borrow_mut(|owned| {
        let before = owned.len();
        owned.retain(|lives| lives.strong_count() > 0);
        OPEN.set(OPEN.get() - (before - owned.len()));
    });
    OPEN.get() > 0
}

/// A transaction has committed while its thread had another one open.
pub(super) fn committed_within() {
    COMMITTED_WITHIN.set(true);
}

/// Whether one has since this was asked last.
pub(super) fn take_committed_within() -> bool {
    COMMITTED_WITHIN.take()
}

/// Until when something may be waited for that executors do.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// The moment, where this thread has a transaction open.
    until_ns: Option<u64>,
}

impl Patience {
    /// Of who begins to wait now, on a thread that shares its sessions or does not.
    pub fn new(shares_thread: bool) -> Self {
        let within = !shares_thread && is_within();
        Self { until_ns: within.then(|| now_ns() + LIMIT.as_nanos() as u64) }
    }

    /// How much of it is left, where it ends.
    ///
    /// # Errors
    /// [`Misuse::WaitsWithin`] when it has ended.
    pub fn left(self) -> Result<Option<Duration>> {
        let left = self.until_ns.map(|until| until.saturating_sub(now_ns()));
        if left == Some(0) { Err(Misuse::WaitsWithin.into()) } else { Ok(left.map(Duration::from_nanos)) }
    }

    /// What was waited for has committed.
    pub fn committed(self) {
        if self.until_ns.is_some() {
            committed_within();
        }
    }
}
