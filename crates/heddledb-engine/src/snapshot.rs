//! Which moments snapshots stand at, and so which old versions are kept.
//!
//! **Mechanism** (Silo §4.9, IC3 §5.2). A *boundary* is an epoch number `b`; a snapshot at it sees every
//! commit of an epoch up to `b` and none after. Commit epochs never fall along a dependency of any kind,
//! so that is a prefix of the serial order (PITFALLS X5, TT7, I13). Boundaries are made on demand:
//!
//! 1. *announce*: `b` is the present epoch, and is published before the epoch moves on. Every writer of
//!    a later epoch sees it, and keeps what it overwrites of epoch `b` or before;
//! 2. *close*: when the epoch has reached `b + 2`, no transaction that could commit in `b` is left running.
//!    Only then does the snapshot read. A reader that waits for that moves the epoch on itself.
//!
//! While no boundary is live nothing is kept. A boundary without readers is reused for a while by readers
//! that are content with a recent moment, then dropped.
//!
//! **What is needed.** A version that was written in epoch `from` and overwritten in epoch `until` is
//! needed by the boundaries `from <= b < until`, and by no future one: a future boundary is no
//! earlier than the epoch in which it is announced.

use crate::epoch::EpochClock;
use crate::error::Result;
use crate::mutant::{Mutant, planted};
use crate::seam::Moment;
use crate::sync::{AtomicU64, Mutex, Ordering, lock, model_fence, now_ns};
use crossbeam_utils::CachePadded;
use std::time::Duration;

/// The live boundaries of a database.
pub(crate) struct Boundaries {
    /// Versions of an epoch below this are kept when they are overwritten; 0 where no boundary is live.
    /// SeqCst against the epoch: a writer that reads a later epoch than the boundary's also reads this. On a
    /// line apart from what readers write, since every commit looks at it.
    keep_below: CachePadded<AtomicU64>,
    /// Counts the changes of `live`. On a line of its own, too.
    changes: CachePadded<AtomicU64>,
    live: Mutex<Vec<Live>>,
    /// For how long a boundary serves new readers that are content with a recent moment.
    interval_ns: u64,
}

struct Live {
    epoch: u64,
    readers: usize,
    announced_ns: u64,
}

/// A reader's hold on a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boundary(u64);

impl From<Moment> for Boundary {
    fn from(moment: Moment) -> Self {
        Self(moment.0)
    }
}

impl Boundary {
    /// A further hold on the boundary, for another reader.
    pub fn moment(self) -> Moment {
        Moment(self.0)
    }

    /// The last epoch that the snapshot sees.
    pub fn epoch(self) -> u64 {
        self.0
    }
}

impl Boundaries {
    /// None yet; recent ones are reused for `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            keep_below: CachePadded::new(AtomicU64::new(0)),
            changes: CachePadded::new(AtomicU64::new(0)),
            live: Mutex::new(Vec::new()),
            interval_ns: interval.as_nanos() as u64,
        }
    }

    /// Below which epoch an overwritten version must be kept. To be asked after the commit time is
    /// known.
    #[inline(always)]
    pub fn keep_below(&self) -> u64 {
        model_fence();
        self.keep_below.load(Ordering::SeqCst)
    }

    /// A boundary that includes everything committed before the call.
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`].
    pub fn now(&self, clock: &EpochClock) -> Result<Boundary> {
        let epoch = self.announce(clock, &mut lock(&self.live));
        self.close(clock, Boundary(epoch))
    }

    /// A boundary of at most the interval ago.
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`].
    pub fn recent(&self, clock: &EpochClock) -> Result<Boundary> {
        let now = now_ns();
        let mut live = lock(&self.live);
        let epoch = match live.last_mut() {
            Some(newest) if now.saturating_sub(newest.announced_ns) < self.interval_ns => {
                newest.readers += 1;
                newest.epoch
            }
            _ => self.announce(clock, &mut live),
        };
        drop(live);
        self.close(clock, Boundary(epoch))
    }

    fn announce(&self, clock: &EpochClock, live: &mut Vec<Live>) -> u64 {
        self.expire_in(live);
        let mut epoch = clock.now();
        loop {
            // SeqCst, then the epoch is read again: if it has not moved, then a writer that reads a later one
            // reads this too.
            self.keep_below.store(epoch + 1, Ordering::SeqCst);
            // Before the second look, too: a worker that looks for needed versions and misses this change has
            // read the epoch before.
            self.changes.fetch_add(1, Ordering::SeqCst);
            model_fence();
            let again = clock.now_in_order();
            if again == epoch {
                break;
            }
            epoch = again;
        }
        match live.last_mut() {
            Some(newest) if newest.epoch == epoch => {
                newest.readers += 1;
                newest.announced_ns = now_ns();
            }
            _ => live.push(Live { epoch, readers: 1, announced_ns: now_ns() }),
        }
        epoch
    }

    /// Waits until no transaction that could commit by the boundary is left: for commits that are under way, not
    /// for bodies. Gives the hold up if one does not end.
    fn close(&self, clock: &EpochClock, boundary: Boundary) -> Result<Boundary> {
        if !planted(Mutant::SnapshotNotClosed)
            && !planted(Mutant::CheckpointNotClosed)
            && let Err(error) = clock.wait_closed(boundary.0)
        {
            self.release(boundary);
            return Err(error);
        }
        Ok(boundary)
    }

    /// Ends a reader's hold.
    pub fn release(&self, boundary: Boundary) {
        let mut live = lock(&self.live);
        if let Some(place) = live.iter_mut().find(|live| live.epoch == boundary.0) {
            place.readers -= 1;
        }
        self.expire_in(&mut live);
    }

    /// Drops boundaries that have no readers and will get none.
    pub fn expire(&self) {
        // Relaxed: another chance comes.
        if self.keep_below.load(Ordering::Relaxed) != 0 {
            self.expire_in(&mut lock(&self.live));
        }
    }

    fn expire_in(&self, live: &mut Vec<Live>) {
        let (now, before, newest) = (now_ns(), live.len(), live.last().map(|live| live.epoch));
        let recent = |live: &Live| {
            Some(live.epoch) == newest && now.saturating_sub(live.announced_ns) < self.interval_ns
        };
        live.retain(|live| live.readers > 0 || recent(live));
        if live.len() != before {
            let keep_below = live.last().map_or(0, |newest| newest.epoch + 1);
            self.keep_below.store(keep_below, Ordering::SeqCst);
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The oldest moment that is being read at: its epoch, how many readers, and for how long.
    pub fn oldest(&self) -> Option<(u64, usize, Duration)> {
        let live = lock(&self.live);
        let oldest = live.iter().find(|live| live.readers > 0)?;
        let age = Duration::from_nanos(now_ns().saturating_sub(oldest.announced_ns));
        Some((oldest.epoch, oldest.readers, age))
    }
}

/// A worker's copy of the live boundaries, taken anew when they have changed.
#[derive(Default)]
pub(crate) struct LiveView {
    changes: u64,
    epochs: Vec<u64>,
}

impl LiveView {
    /// Brings the copy up to date. To be called after the epoch was read by which the caller knows that
    /// what it asks about has passed.
    pub fn refresh(&mut self, boundaries: &Boundaries) {
        let changes = boundaries.changes.load(Ordering::SeqCst);
        if changes != self.changes {
            let live = lock(&boundaries.live);
            // Under the mutex it may be newer than what was just seen.
            self.changes = boundaries.changes.load(Ordering::SeqCst);
            self.epochs.clear();
            self.epochs.extend(live.iter().map(|live| live.epoch));
        }
    }

    /// The oldest boundary at which a snapshot may read a version written in epoch `from` and
    /// overwritten in epoch `until`.
    pub fn needing(&self, from: u64, until: u64) -> Option<u64> {
        self.epochs.iter().copied().find(|epoch| (from..until).contains(epoch))
    }

    /// Whether a boundary lives.
    pub fn lives(&self, boundary: u64) -> bool {
        self.epochs.contains(&boundary)
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_shared_while_recent_and_dropped_when_unread() {
        let (clock, hour) = (EpochClock::new(1), Duration::from_secs(3600));
        let boundaries = Boundaries::new(hour);
        let mut view = LiveView::default();
        let needs = |view: &LiveView, from, until| view.needing(from, until).is_some();
        assert!(boundaries.keep_below() == 0 && !needs(&view, 0, u64::MAX));
        let first = boundaries.recent(&clock).unwrap();
        assert!(clock.closed(first.epoch()));
        assert_eq!(boundaries.recent(&clock).unwrap(), first, "a recent one is shared");
        let second = boundaries.now(&clock).unwrap();
        assert!(second.epoch() > first.epoch(), "this one sees all that was committed before");
        view.refresh(&boundaries);
        assert!(!needs(&view, 0, first.epoch()));
        assert_eq!(view.needing(0, second.epoch() + 1), Some(first.epoch()));
        assert!(view.lives(second.epoch()) && !view.lives(second.epoch() + 1));
        assert!(needs(&view, 0, first.epoch() + 1) && needs(&view, first.epoch() + 1, second.epoch() + 1));
        assert!(!needs(&view, first.epoch() + 1, second.epoch()) && !needs(&view, 0, first.epoch()));
        boundaries.release(first);
        assert_eq!(boundaries.oldest().map(|(epoch, readers, _)| (epoch, readers)), Some((first.epoch(), 1)));
        boundaries.release(first);
        view.refresh(&boundaries);
        assert!(!needs(&view, 0, second.epoch()) && !view.lives(first.epoch()));
        boundaries.release(second);
        assert_eq!(boundaries.keep_below(), second.epoch() + 1, "kept for the next who want a recent one");

        let boundaries = Boundaries::new(Duration::ZERO);
        let only = boundaries.recent(&clock).unwrap();
        boundaries.release(only);
        assert_eq!(boundaries.keep_below(), 0);
    }
}
