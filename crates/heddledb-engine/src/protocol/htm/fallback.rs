//! The one lock of [`Fallback::Global`](crate::kind::Fallback::Global).

use super::{Local, wait_until};
use crate::error::Conflict;
use crate::sync::Ordering;
use std::sync::Arc;

/// So often in turn a worker gives up the lock; then it goes on without it: whoever has it may be waiting for
/// something else.
const TURNED_AWAY: u32 = 16;

impl Local {
    /// Waits for a while until the fallback's lock is as wanted. False if this worker has been turned away too often: then it
    /// goes on in software without that lock, which the records' locks allow.
    ///
    /// # Errors
    /// Others have it for too long.
    pub(super) fn fallback_becomes(&mut self, wanted: impl FnMut(u64) -> bool) -> Result<bool, Conflict> {
        let is_so = wait_until(&self.shared.fallback, wanted);
        self.turned_away = if is_so { 0 } else { (self.turned_away + 1).min(TURNED_AWAY) };
        if is_so || self.turned_away == TURNED_AWAY { Ok(is_so) } else { Err(Conflict::Locked) }
    }

    /// Takes the fallback's lock, or goes without it.
    ///
    /// # Errors
    /// Others have it for too long.
    pub(super) fn take_fallback(&mut self) -> Result<(), Conflict> {
        let (shared, own) = (Arc::clone(&self.shared), self.worker as u64 + 1);
        // SeqCst: before all that this attempt reads. Each region that is open has read the word, and is aborted by the store.
        let take = |held| {
            held == 0 && shared.fallback.compare_exchange(0, own, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        };
        self.holds_fallback = self.fallback_becomes(take)?;
        Ok(())
    }

    pub(super) fn let_fallback_go(&mut self) {
        if std::mem::take(&mut self.holds_fallback) {
            // Release: all that was done under it.
            self.shared.fallback.store(0, Ordering::Release);
        }
        self.partitions.let_go(&self.shared.partitions);
    }
}
