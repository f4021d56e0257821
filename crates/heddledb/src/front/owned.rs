//! Owned transactions carry a session with them.

use super::database::Database;
use super::nesting;
use super::session::{Session, not_begun};
use super::txn::Txn;
use crate::error::{Misuse, Result};
use crate::protocol::Isolation;
use crate::seam::Body;
use crate::settings::Durability;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

impl Database {
    /// Begins an owned transaction, on a session of its own.
    ///
    /// # Errors
    /// [`Misuse::TooManySessions`].
    pub fn begin(&self) -> Result<OwnedTransaction> {
        OwnedTransaction::begin(self.session()?)
    }

    /// The same at an isolation level of its own.
    ///
    /// # Errors
    /// As there, and [`Misuse::Option`] where the protocol does not offer the level.
    pub fn begin_at(&self, level: Isolation) -> Result<OwnedTransaction> {
        let mut session = self.session()?;
        session.set_isolation(level)?;
        OwnedTransaction::begin(session)
    }
}

/// A transaction that is its own value: begun by [`Database::begin`](crate::Database::begin), ended by
/// [`commit`](OwnedTransaction::commit) or by dropping it, which aborts.
///
/// It dereferences to [`Txn`](crate::Txn). Conflicts are the caller's to retry; for automatic retries use
/// [`Session::run`](crate::Session::run). So is a decision that rests on reads of two moments, and an error such as
/// [`Misuse::NotFound`] that follows from them: [`validate`](OwnedTransaction::validate) tells. While it lives,
/// nothing that is deleted or overwritten is reclaimed ([`Metrics::oldest_transaction`](crate::Metrics::oldest_transaction)), so end it
/// soon.
pub struct OwnedTransaction {
    session: Session,
    running: bool,
    _open: nesting::Owned,
}

impl OwnedTransaction {
    pub(super) fn begin(mut session: Session) -> Result<Self> {
        let limit = session.limits.transaction;
        let txn = session.txn_mut();
        let each = (nesting::is_within() && !txn.worker.shares_thread()).then_some(nesting::LIMIT);
        txn.worker.wait_within(limit, each);
        if !txn.begin(0, None) {
            return Err(not_begun(&mut *txn.worker, ""));
        }
        Ok(Self { session, running: true, _open: nesting::Owned::new() })
    }

    /// Ends the transaction if it was open for longer than one may be: from now on each operation says so.
    #[cold]
    fn end_if_overdue(&mut self, limit: Duration) {
        if self.running && self.session.txn().worker.is_overdue() {
            self.running = false;
            let txn = self.session.txn.take().expect("a session has its worker until it is dropped");
            self.session.txn = Some(txn.ended_after(limit));
        }
    }

    /// Commits.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) if it could not be serialised; [`Misuse::TransactionTimedOut`]; nothing was changed then.
    pub fn commit(mut self) -> Result<()> {
        if let Some(limit) = self.session.limits.transaction {
            self.end_if_overdue(limit);
            if !self.running {
                return Err(Misuse::TransactionTimedOut { limit }.into());
            }
        }
        self.running = false;
        let txn = self.session.txn_mut();
        let failed = txn.failed;
        txn.worker.end(Body::Done { failed })?;
        self.session.acknowledge_last()
    }

    /// Whether what was read so far still stands, as far as its isolation level promises: asked before one acts on
    /// an error of an operation, or gives up for what one has read. After a conflict there is nothing to ask.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) if it does not: begin anew.
    pub fn validate(&mut self) -> Result<()> {
        // Through `deref_mut`, which looks at the time.
        let txn: &mut Txn = self;
        Ok(txn.worker.validate()?)
    }

    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        self.session.isolation()
    }

    /// When the commit counts as done; see [`Session::set_durability`](crate::Session::set_durability).
    ///
    /// # Errors
    /// As there.
    pub fn set_durability(&mut self, durability: Durability) -> Result<()> {
        self.session.set_durability(durability)
    }
}

impl Deref for OwnedTransaction {
    type Target = Txn;
    fn deref(&self) -> &Txn {
        self.session.txn()
    }
}

impl DerefMut for OwnedTransaction {
    fn deref_mut(&mut self) -> &mut Txn {
        if let Some(limit) = self.session.limits.transaction {
            self.end_if_overdue(limit);
        }
        self.session.txn_mut()
    }
}

impl Drop for OwnedTransaction {
    fn drop(&mut self) {
        if self.running {
            self.session.txn_mut().worker.abort();
        }
    }
}
