//! The part of the seam for calls that are gathered into batches before they are executed.
//!
//! Under a protocol that gathers calls ([`Engine::gathers`](super::Engine::gathers)) a submitted call is a [`Job`]: the engine keeps
//! it, and hands it to a worker twice ([`Worker::next_task`](super::Worker::next_task)), which may be two: to find out what it
//! will access, and to execute it when its turn has come. The worker's session does both, and then says so
//! ([`Worker::end_task`](super::Worker::end_task)).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A call that was submitted, whatever its types.
pub trait Job: Send + Sync {
    /// Executes it on a session whose worker has just been given it to be announced: without effect, and without an end.
    fn announce(&self, session: &mut dyn Any);
    /// Executes it, once. True if it has committed, and is done when [`Job::acknowledge`] has said so.
    fn execute(&self, session: &mut dyn Any) -> bool;
    /// Waits until it is durable; then it is done.
    fn acknowledge(&self);
}

impl fmt::Debug for dyn Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}

/// What a worker is to do with a job.
#[derive(Clone, Debug)]
pub enum Task {
    /// [`Job::announce`].
    Announce(Arc<dyn Job>),
    /// [`Job::execute`].
    Execute(Arc<dyn Job>),
}
