//! The end of an opening: what has to wait until procedures are registered.

use super::Handle;
use super::attempt::Attempt;
use super::beginning::Beginning;
use super::replay_calls::{LoggedCalls, Replayed};
use crate::error::Result;
use crate::metrics::Recovery;
use crate::protocol::Protocol;
use crate::seam::{MakeReplayer, Replayer, Worker};
use crate::sync::{lock, now_ns};
use std::sync::Arc;
use std::time::Duration;

/// What opening a directory has left to be done.
pub(super) struct Unfinished {
    pub recovery: Recovery,
    pub calls: Option<LoggedCalls>,
    /// What is to be written when these were made again.
    pub beginning: Option<Beginning>,
    /// Indexes were built or removed, which is to be in the files before anybody is told that it is open.
    pub checkpoint: bool,
}

impl<P: Protocol> Handle<P> {
    /// Finishes the opening.
    pub(super) fn finish(self: &Arc<Self>, replayer: MakeReplayer) -> Result<()> {
        let begun = now_ns();
        // Until it is done, nobody takes a checkpoint: see `Inner::take_checkpoint`.
        let calls = lock(&self.unfinished).as_mut().and_then(|unfinished| unfinished.calls.take());
        let made = calls.map(|calls| self.replay(&calls, replayer)).transpose()?.unwrap_or_default();
        let beginning = lock(&self.unfinished).as_mut().and_then(|unfinished| unfinished.beginning.take());
        if let (Some(beginning), Some(log)) = (beginning, &self.log) {
            log.between_rounds(|files| files.begin(|storage, options| beginning.write(storage, options)))?;
        }
        let Some(Unfinished { mut recovery, checkpoint, .. }) = lock(&self.unfinished).take() else {
            return Ok(());
        };
        recovery.calls = made.calls;
        recovery.transactions += made.transactions;
        recovery.writes += made.writes;
        recovery.elapsed += Duration::from_nanos(now_ns() - begun);
        let _ = self.recovery.set(recovery);
        if checkpoint { self.take_checkpoint().map(|_| ()) } else { Ok(()) }
    }

    /// Makes the commits of the log again that are calls, and those behind them.
    fn replay(self: &Arc<Self>, calls: &LoggedCalls, replayer: MakeReplayer) -> Result<Replayed> {
        let make = || {
            let worker = self.take_place(Duration::ZERO)?;
            let worker = Box::new(Attempt::replaying(Arc::clone(self), worker)) as Box<dyn Worker>;
            Ok(Box::new(move || replayer(worker)) as Box<dyn FnOnce() -> Box<dyn Replayer> + Send>)
        };
        let threads = calls.threads.min(self.sessions_max);
        let replayers = (0..threads).map(|_| make()).collect::<Result<Vec<_>>>()?;
        calls.replay(&self.versions, &*self.stores.heap, &self.clock, replayers)
    }
}
