//! The end of an opening: what has to wait until procedures are registered.

use super::common::{Common, Unfinished};
use super::replay_calls::{LoggedCalls, Replayed};
use super::store::Stores;
use crate::error::Result;
use crate::heap::Heap;
use crate::seam::{MakeReplayer, Replayer, Worker};
use crate::sync::{lock, now_ns};
use std::time::Duration;

/// Makes a worker that makes commits of the log again.
type MakeWorker<'a> = &'a dyn Fn() -> Result<Box<dyn Worker>>;

impl Common {
    /// Finishes the opening.
    pub fn finish(&self, stores: &Stores, worker: MakeWorker<'_>, replayer: MakeReplayer) -> Result<()> {
        let begun = now_ns();
        // Until it is done, nobody takes a checkpoint: see `Common::take_checkpoint`.
        let calls = lock(&self.unfinished).as_mut().and_then(|unfinished| unfinished.calls.take());
        let replay = |calls: LoggedCalls| self.replay(&calls, &stores.heap, worker, replayer);
        let made = calls.map(replay).transpose()?.unwrap_or_default();
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
        if checkpoint { self.take_checkpoint(stores).map(|_| ()) } else { Ok(()) }
    }

    /// Makes the commits of the log again that are calls, and those behind them.
    fn replay(
        &self,
        calls: &LoggedCalls,
        heap: &Heap,
        worker: MakeWorker<'_>,
        replayer: MakeReplayer,
    ) -> Result<Replayed> {
        let make = || {
            let worker = worker()?;
            Ok(Box::new(move || replayer(worker)) as Box<dyn FnOnce() -> Box<dyn Replayer> + Send>)
        };
        let threads = calls.threads.min(self.sessions_max);
        let replayers = (0..threads).map(|_| make()).collect::<Result<Vec<_>>>()?;
        calls.replay(&self.versions, heap, &self.clock, replayers)
    }
}
