//! Which moments snapshots stand at, and so which old versions are kept.
//!
//! **Mechanism** (Silo §4.9, IC3 §5.2). A *boundary* is an epoch number `b`; a snapshot at it sees every
//! commit of an epoch up to `b` and none after. Commit epochs never fall along a dependency of any kind,
//! so that is a prefix of the serial order. Boundaries are made on demand:
//!
//! 1. *announce*: `b` is the present epoch, and is published before the epoch moves on. Every writer of
//!    a later epoch sees it, and keeps what it overwrites of epoch `b` or before;
//! 2. *close*: when the epoch has reached `b + 2`, no transaction that could commit in `b` is left running.
//!    Only then does the snapshot read. A reader that waits for that moves the epoch on itself.
//!
//! While no boundary is live nothing is kept. A boundary without readers is reused for a while by readers
//! that are content with a recent moment, then dropped.
//!
//! **Readers of a recent moment write nothing shared.** The newest boundary is *offered*, in a word that changes when it does.
//! A worker stores in a place of its own that it holds that boundary, and looks at the offer again; whoever drops a
//! boundary takes the offer away and then looks at the places. So either the worker's second look fails, or its hold is seen (Dekker; SeqCst).
//! A worker's second snapshot at a time, and whoever wants the present moment, are counted under the mutex.
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
    /// What readers of a recent moment take.
    offered: CachePadded<Offer>,
    /// By worker: the boundary that it holds by itself, plus one; 0 for none.
    holds: Box<[CachePadded<AtomicU64>]>,
    live: Mutex<Vec<Live>>,
    /// For how long a boundary serves new readers that are content with a recent moment.
    interval_ns: u64,
}

struct Live {
    epoch: u64,
    /// Those that are counted.
    readers: usize,
    announced_ns: u64,
}

/// The newest boundary, while new readers may take it.
#[derive(Default)]
struct Offer {
    /// It, plus one; 0 for none.
    epoch: AtomicU64,
    /// When it is no longer recent. Stored before the epoch.
    until_ns: AtomicU64,
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
    /// None yet, for so many workers; recent ones are reused for `interval`.
    pub fn new(interval: Duration, workers: usize) -> Self {
        Self {
            keep_below: CachePadded::new(AtomicU64::new(0)),
            changes: CachePadded::new(AtomicU64::new(0)),
            offered: CachePadded::default(),
            holds: (0..workers).map(|_| CachePadded::default()).collect(),
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
        let boundary = Boundary(self.announce(clock, &mut lock(&self.live)));
        self.close(clock, boundary).inspect_err(|_| self.release(boundary))
    }

    /// A boundary of at most the interval ago, for a worker, which gives it back with [`Self::release_of`].
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`].
    pub fn recent(&self, clock: &EpochClock, worker: usize) -> Result<Boundary> {
        if let Some(boundary) = self.take_offer(worker) {
            return self.close(clock, boundary).inspect_err(|_| self.release_of(boundary, worker));
        }
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
        let boundary = Boundary(epoch);
        self.close(clock, boundary).inspect_err(|_| self.release(boundary))
    }

    /// The boundary that is offered, held in the worker's own place; `None` if there is none, or the place is taken.
    pub fn take_offer(&self, worker: usize) -> Option<Boundary> {
        let hold = &self.holds[worker];
        // Acquire: the time was stored before.
        let offered = self.offered.epoch.load(Ordering::Acquire);
        // Relaxed: of a later offer the second look tells; and only this worker stores its hold.
        if offered == 0
            || now_ns() >= self.offered.until_ns.load(Ordering::Relaxed)
            || hold.load(Ordering::Relaxed) != 0
        {
            return None;
        }
        // SeqCst, then the second look: see the head of the file.
        hold.store(offered, Ordering::SeqCst);
        model_fence();
        if self.offered.epoch.load(Ordering::SeqCst) != offered {
            // Relaxed: nothing was read.
            hold.store(0, Ordering::Relaxed);
            return None;
        }
        Some(Boundary(offered - 1))
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
        let now = now_ns();
        match live.last_mut() {
            Some(newest) if newest.epoch == epoch => {
                newest.readers += 1;
                newest.announced_ns = now;
            }
            _ => live.push(Live { epoch, readers: 1, announced_ns: now }),
        }
        // Relaxed: the next store publishes it.
        self.offered.until_ns.store(now.saturating_add(self.interval_ns), Ordering::Relaxed);
        // Release, and before anybody looks whether a boundary before it is held: SeqCst.
        self.offered.epoch.store(epoch + 1, Ordering::SeqCst);
        epoch
    }

    /// Waits until no transaction that could commit by the boundary is left: for commits that are under way, not
    /// for bodies.
    fn close(&self, clock: &EpochClock, boundary: Boundary) -> Result<Boundary> {
        if !planted(Mutant::SnapshotNotClosed) && !planted(Mutant::CheckpointNotClosed) {
            clock.wait_closed(boundary.0)?;
        }
        Ok(boundary)
    }

    /// Ends a worker's hold, which it has by itself or is counted.
    pub fn release_of(&self, boundary: Boundary, worker: usize) {
        let hold = &self.holds[worker];
        // Relaxed: only this worker stores it.
        if hold.load(Ordering::Relaxed) == boundary.0 + 1 {
            // Release: the snapshot's reads come before. Whoever moves the epoch on drops the boundary, when its time is over.
            hold.store(0, Ordering::Release);
        } else {
            self.release(boundary);
        }
    }

    /// Ends a reader's hold that is counted.
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
        self.expire_at(now_ns(), live);
    }

    fn expire_at(&self, now: u64, live: &mut Vec<Live>) {
        let (before, newest) = (live.len(), live.last().map(|live| live.epoch));
        let recent = |live: &Live| {
            Some(live.epoch) == newest && now.saturating_sub(live.announced_ns) < self.interval_ns
        };
        if !live.last().is_some_and(recent) {
            // Before the holds are looked at: see the head of the file. Those before it are offered no more already.
            self.offered.epoch.store(0, Ordering::SeqCst);
        }
        live.retain(|live| live.readers > 0 || recent(live) || self.is_held(live.epoch));
        if live.len() != before {
            let keep_below = live.last().map_or(0, |newest| newest.epoch + 1);
            self.keep_below.store(keep_below, Ordering::SeqCst);
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Whether a worker holds a boundary by itself.
    fn is_held(&self, boundary: u64) -> bool {
        self.holders(boundary) > 0 && !planted(Mutant::SnapshotHoldsNotAsked)
    }

    /// How many workers hold a boundary by themselves.
    fn holders(&self, boundary: u64) -> usize {
        model_fence();
        self.holds.iter().filter(|hold| hold.load(Ordering::SeqCst) == boundary + 1).count()
    }

    /// The oldest moment that is being read at: its epoch, how many readers, and for how long.
    pub fn oldest(&self) -> Option<(u64, usize, Duration)> {
        let live = lock(&self.live);
        let readers = |live: &Live| live.readers + self.holders(live.epoch);
        let (oldest, readers) =
            live.iter().map(|live| (live, readers(live))).find(|(_, readers)| *readers > 0)?;
        let age = Duration::from_nanos(now_ns().saturating_sub(oldest.announced_ns));
        Some((oldest.epoch, readers, age))
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
        let boundaries = Boundaries::new(hour, 1);
        let mut view = LiveView::default();
        let needs = |view: &LiveView, from, until| view.needing(from, until).is_some();
        assert!(boundaries.keep_below() == 0 && !needs(&view, 0, u64::MAX));
        let first = boundaries.recent(&clock, 0).unwrap();
        assert!(clock.closed(first.epoch()));
        assert_eq!(boundaries.recent(&clock, 0).unwrap(), first, "a recent one is shared");
        let second = boundaries.now(&clock).unwrap();
        assert!(second.epoch() > first.epoch(), "this one sees all that was committed before");
        view.refresh(&boundaries);
        assert!(!needs(&view, 0, first.epoch()));
        assert_eq!(view.needing(0, second.epoch() + 1), Some(first.epoch()));
        assert!(view.lives(second.epoch()) && !view.lives(second.epoch() + 1));
        assert!(needs(&view, 0, first.epoch() + 1) && needs(&view, first.epoch() + 1, second.epoch() + 1));
        assert!(!needs(&view, first.epoch() + 1, second.epoch()) && !needs(&view, 0, first.epoch()));
        assert_eq!(boundaries.oldest().map(|(epoch, readers, _)| (epoch, readers)), Some((first.epoch(), 2)));
        boundaries.release_of(first, 0);
        assert_eq!(boundaries.oldest().map(|(epoch, readers, _)| (epoch, readers)), Some((first.epoch(), 1)));
        boundaries.expire();
        view.refresh(&boundaries);
        assert!(view.lives(first.epoch()), "the one that began it is counted");
        boundaries.release_of(first, 0);
        view.refresh(&boundaries);
        assert!(!needs(&view, 0, second.epoch()) && !view.lives(first.epoch()));
        boundaries.release(second);
        assert_eq!(boundaries.keep_below(), second.epoch() + 1, "kept for the next who want a recent one");

        let boundaries = Boundaries::new(Duration::ZERO, 1);
        let only = boundaries.recent(&clock, 0).unwrap();
        boundaries.release_of(only, 0);
        assert_eq!(boundaries.keep_below(), 0);
    }

    #[test]
    fn what_a_worker_holds_by_itself_is_not_dropped() {
        let clock = EpochClock::new(2);
        let boundaries = Boundaries::new(Duration::from_secs(3600), 2);
        let first = boundaries.recent(&clock, 0).unwrap();
        assert_eq!(boundaries.take_offer(1), Some(first));
        assert_eq!(boundaries.take_offer(1), None, "one at a time");
        boundaries.release_of(first, 0);
        let second = boundaries.now(&clock).unwrap();
        boundaries.release(second);
        boundaries.expire_at(u64::MAX, &mut lock(&boundaries.live));
        let mut view = LiveView::default();
        view.refresh(&boundaries);
        assert!(view.lives(first.epoch()) && !view.lives(second.epoch()));
        assert_eq!(boundaries.take_offer(0), None, "nothing is recent");
        boundaries.release_of(first, 1);
        boundaries.expire_at(u64::MAX, &mut lock(&boundaries.live));
        assert_eq!(boundaries.keep_below(), 0);
    }
}

#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::models::explore;
    use crate::sync::thread;
    use std::sync::Arc;

    /// A boundary that a worker has taken stays until it is given back, whoever drops what is no longer recent.
    #[test]
    fn taken_boundaries_stay() {
        explore(|| {
            let clock = EpochClock::new(1);
            let boundaries = Arc::new(Boundaries::new(Duration::from_secs(1), 2));
            let first = boundaries.recent(&clock, 0).expect("nothing is under way");
            boundaries.release_of(first, 0);
            let dropping = Arc::clone(&boundaries);
            let thread = thread::spawn(move || dropping.expire_at(u64::MAX, &mut lock(&dropping.live)));
            let taken = boundaries.take_offer(1);
            thread.join().expect("it does not panic");
            let mut view = LiveView::default();
            view.refresh(&boundaries);
            if let Some(taken) = taken {
                assert!(view.lives(taken.epoch()) && boundaries.keep_below() > taken.epoch());
                boundaries.release_of(taken, 1);
            }
            boundaries.expire_at(u64::MAX, &mut lock(&boundaries.live));
            assert_eq!(boundaries.keep_below(), 0, "nobody holds it");
        });
    }
}
