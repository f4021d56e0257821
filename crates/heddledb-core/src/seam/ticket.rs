//! The part of the seam that tells when a commit is durable.

#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use std::sync::Arc;

/// What knows how far commits are durable.
pub trait Acknowledges: Send + Sync {
    /// The last durable epoch.
    fn durable(&self) -> u64;
    /// Waits until everything up to that epoch is durable.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] when the log fails before.
    fn wait(&self, epoch: u64) -> Result<()>;
}

/// A commit that may not be durable yet, from
/// `Session::run_pipelined`.
#[derive(Clone)]
#[must_use = "the commit is durable only when `wait` says so"]
pub struct Ticket {
    log: Option<Arc<dyn Acknowledges>>,
    epoch: u64,
}

impl Ticket {
    /// A ticket for a commit of that epoch.
    pub fn new(log: Option<Arc<dyn Acknowledges>>, epoch: u64) -> Self {
        Self { log, epoch }
    }

    /// Waits until the commit, and everything that it depends on, is durable. At once where the database
    /// has no log.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] when the log fails before.
    pub fn wait(&self) -> Result<()> {
        self.log.as_ref().map_or(Ok(()), |log| log.wait(self.epoch))
    }

    /// Whether it is durable already.
    pub fn is_durable(&self) -> bool {
        self.log.as_ref().is_none_or(|log| log.durable() >= self.epoch)
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("epoch", &self.epoch).field("is_durable", &self.is_durable()).finish()
    }
}
