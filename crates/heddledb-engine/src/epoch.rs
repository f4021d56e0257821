//! The epoch: one slow, global counter that orders commits and paces reclamation, and where each worker stands.
//!
//! **Two pins in one word.** A worker is *pinned* for the length of a transaction attempt: it publishes the
//! number that it read at its begin, which holds back the reuse of memory, and nothing else. When its commit is
//! to have an epoch, it publishes that one beside it: the *commit pin*, which holds the epoch itself back. The
//! epoch advances only when every commit pin stands at it; so it is never more than one ahead of a commit that is
//! under way, and a body that thinks delays nobody.
//!
//! ```text
//!   63 .............. 3   2 .. 1               0
//!   epoch at the begin    commit epoch mod 4   a commit is under way        all ones: not pinned
//! ```
//!
//! Two bits are enough for the commit epoch: while the pin stands the counter is there or one ahead.
//!
//! **Announced commits.** A protocol that takes its write locks at the commit publishes the commit pin before them
//! ([`EpochClock::announce_commit`]), and reads the counter after them ([`EpochClock::announced_epoch`]). If the counter
//! is still what the pin says, that is the commit's epoch: the pin was published, then came a full barrier, then the
//! counter was read, as in any other commit. The barrier is that of the locks, which are SeqCst exchanges: one of its own
//! would order nothing more where an exchange is a barrier (x86-64), and elsewhere there is a fence. If the counter has
//! moved, the pin is published anew. Until then it may be one that another epoch has gone by: it can hold the counter
//! back while locks are waited for, which ends, since their holders commit; and it vouches for nothing, since nothing
//! is committed in it.
//!
//! **Why a pin cannot be missed.** Each is published, and then the counter is read again; if it has moved, the
//! pin is published anew. An advancing thread reads the counter, then the places, then moves the counter on. So
//! either it sees the pin, or the second look of the worker sees the counter that it moved (Dekker; SeqCst).
//!
//! **Three questions.**
//!
//! - *Is epoch `e` closed*, so that no transaction that could commit in it runs? `now >= e + 2`: each advance
//!   from `e + 1` has found no commit pin at `e`, and a later one is later ([`EpochClock::closed`]). Durability
//!   and snapshots ask this; both wait for commits that are under way, which wait for no body.
//! - *Has every attempt that began in `e` or before ended?* Each advance also publishes the earliest begin that it
//!   has found, plus one, if that is later than what was published before: the *epoch of reclamation*, which is
//!   never more than one ahead of a pinned worker's begin, and never ahead of the epoch
//!   ([`EpochClock::passed`]). Reclamation and changes of the plan ask this; they alone wait for bodies.
//! - *Which epoch is a commit of?* The one that is read after its write locks are held (Silo §4.1),
//!   whenever its attempt began; stamps carry it in their high bits.
//!
//! **Why epochs of commits do not fall along dependencies**, by protocol. No argument uses the epoch at the
//! begin, so none has changed with the commit pin:
//!
//! - `silo`, `nested-occ`, and what `ic3` does not track: the epoch is read after all write locks and before the
//!   reads are validated. A later writer of what was read or written takes its lock after that validation or
//!   install, and reads its epoch after the lock. Absence likewise, by the gap's version.
//! - `htm`: in a region the epoch is read, and the commit pin stored, at the moment at which all locks are taken and all reads are
//!   current, so it needs no second look; in software as `silo`.
//! - `locking`: the epoch is read while all locks are held, gaps are validated after that.
//! - `tictoc`: serial order is that of times, anti-dependencies included, and the epoch is the high bits of the
//!   time. A writer's time is no earlier than the floor of the epoch that it reads under its locks, which is that
//!   of its commit pin; a time that data push into a later epoch is of an epoch that is still open. A reader's
//!   time may be long past; it writes nothing that a closed epoch could lack. Rows leave the index by the epoch of
//!   reclamation, so a reader that misses one has begun two epochs after its deletion, as before.
//! - `dta`: the epoch is read within the critical section, and bounds the interval from below.
//! - `hekaton`: end times come from one counter, which is raised to the epoch that the commit pin has; begin times
//!   too, without a commit pin, since nothing is committed at them. Old versions that a begin time needs are held
//!   by the slot's `since` and by the pin of the begin.
//! - `drp`: the epoch is read after all predecessors have decided, each of which had read its own; a reader looks at a tail
//!   after it, and a later writer swaps that tail before it, all SeqCst.
//! - `ic3`, `datm`: what a piece shows has no stamp before the commit, and has a commit after those that it
//!   depends on have decided, each of which had read its epoch before.
//! - Calls that commit in parts (`chopped`, `deterministic-lazy`) commit all parts in the epoch of their begin,
//!   so they take both pins at the begin ([`EpochClock::pin_together`]); or in that of their piece that conflicts, and keep the commit pin
//!   of that until they end (`dbx-tc-lazy`). They are procedures, which do not think. Those of batches
//!   (`dgcc`) commit in the epoch in which the first of their phase begins, whose commit pin has a place of its own.
//! - `unprotected`: one session; the commit pin is taken as everywhere, since rounds of the log run beside it.
//!
//! **Times of idle transactions.** Who advances the epoch at intervals also notes which workers are behind it
//! ([`EpochClock::note_pinned`]), and since when; a transaction itself reads no clock.

use crate::error::{Misuse, Result};
use crate::sync::{
    AtomicU64, Condvar, Mutex, Ordering, Suspender, Wait, fence, fence_after_exchange, lock, model_fence,
    name, now_ns, point, thread, wait_until,
};
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::time::Duration;

/// Not pinned.
const IDLE: u64 = u64::MAX;

/// A commit is under way.
const COMMITS: u64 = 1;
/// Where the commit epoch's low bits are, and how many.
const COMMIT_SHIFT: u32 = 1;
const COMMIT_MASK: u64 = 3;
/// Where the epoch at the begin is.
const BEGIN_SHIFT: u32 = 3;

/// The first epoch; 0 stands for "before everything", the stamp of loaded nothing.
const FIRST: u64 = 1;

/// How long the end of what is under way is waited for: 10 s.
const PATIENCE_NS: u64 = 10_000_000_000;

/// The place of a worker that is pinned in an epoch, and commits in none yet.
const fn begun(epoch: u64) -> u64 {
    epoch << BEGIN_SHIFT
}

/// A commit pin, to be added to a place.
const fn committing(epoch: u64) -> u64 {
    (epoch & COMMIT_MASK) << COMMIT_SHIFT | COMMITS
}

/// The epoch at the begin of a place's transaction.
const fn begin_of(place: u64) -> u64 {
    place >> BEGIN_SHIFT
}

/// By how much the commit pin of a place differs from an epoch, modulo 4; 0 where there is none.
const fn commit_behind(place: u64, epoch: u64) -> u64 {
    if place == IDLE || place & COMMITS == 0 {
        return 0;
    }
    epoch.wrapping_sub(place >> COMMIT_SHIFT) & COMMIT_MASK
}

/// The counters.
#[derive(Debug)]
struct Counters {
    /// Written by `advance`, read by all. SeqCst against the places: either the advancing thread sees the pin, or
    /// the pinning worker sees the advanced epoch and pins anew.
    now: AtomicU64,
    /// The epoch of reclamation: no worker is pinned at an earlier one than the one before it. Never above `now`.
    reclaim: AtomicU64,
}

/// The counters and the workers' places.
#[derive(Debug)]
pub struct EpochClock {
    counters: CachePadded<Counters>,
    /// One per worker, written only by that worker.
    places: Box<[CachePadded<AtomicU64>]>,
    /// A commit may be of the epoch at which its worker is pinned, though the next has begun.
    commits_late: bool,
    /// Since when workers are behind, by worker.
    behind: Mutex<Vec<Behind>>,
}

/// A worker that was found behind the epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Behind {
    /// The epoch at which its transaction began.
    begin: u64,
    since_ns: u64,
}

/// The transaction that has been open for the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// Its worker.
    pub worker: usize,
    /// How many epochs have begun since.
    pub epochs: u64,
    /// Since when it was found open.
    pub age: Duration,
}

impl EpochClock {
    /// A clock for `workers` workers.
    pub fn new(workers: usize) -> Self {
        Self::starting_at(workers, FIRST)
    }

    /// As [`Self::new`], where a commit may be of the epoch at which its worker is pinned, though the next
    /// has begun.
    pub fn with_late_commits(self, commits_late: bool) -> Self {
        Self { commits_late, ..self }
    }

    /// No later commit is of an earlier epoch than this.
    #[inline]
    pub fn commits_from(&self) -> u64 {
        self.now() - u64::from(self.commits_late)
    }

    /// Tells the observer of a simulation what the words are.
    pub(crate) fn name_words(&self) {
        let word = std::ptr::from_ref(&*self.counters);
        name(word.cast(), size_of::<Counters>(), || "epoch".to_owned());
        for (worker, place) in self.places.iter().enumerate() {
            let word = std::ptr::from_ref(&**place);
            name(word.cast(), size_of::<AtomicU64>(), || format!("epoch of session {worker}"));
        }
    }

    /// A clock for `workers` workers whose first epoch is `first`.
    pub fn starting_at(workers: usize, first: u64) -> Self {
        let place = || CachePadded::new(AtomicU64::new(IDLE));
        let counters = Counters { now: AtomicU64::new(first), reclaim: AtomicU64::new(first) };
        Self {
            counters: CachePadded::new(counters),
            places: (0..workers).map(|_| place()).collect(),
            commits_late: false,
            behind: Mutex::new(Vec::new()),
        }
    }

    /// Publishes a place made of the present epoch, until that is still the present one, and returns it.
    #[inline(always)]
    fn publish(&self, worker: usize, place: impl Fn(u64) -> u64) -> u64 {
        let mut epoch = self.counters.now.load(Ordering::Relaxed);
        loop {
            // SeqCst swap, then SeqCst load: pairs with `advance`, which loads the places after
            // the counter. Without the total order both could miss each other.
            self.places[worker].swap(place(epoch), Ordering::SeqCst);
            model_fence();
            let again = self.counters.now.load(Ordering::SeqCst);
            if again == epoch {
                return epoch;
            }
            epoch = again;
        }
    }

    /// Pins the current epoch for `worker`, which must not be pinned, and returns it. What it may find from now
    /// on is not reused until it is unpinned.
    #[inline]
    pub fn pin(&self, worker: usize) -> u64 {
        self.publish(worker, begun)
    }

    /// Pins the current epoch for what `worker` finds and for its commits, and returns it.
    pub fn pin_commits(&self, worker: usize) -> u64 {
        self.publish(worker, |epoch| begun(epoch) | committing(epoch))
    }

    /// The last place: that of no session.
    pub fn last_place(&self) -> usize {
        self.places.len() - 1
    }

    /// Pins the current epoch for what `worker` finds and for its commits, and waits until none of the first
    /// `workers` has a commit pin at an earlier one: all workers that pin so run in one epoch at a time. `since` is
    /// the last epoch in which this worker did. None, and not pinned, where the suspender's time is over before.
    pub fn pin_together(
        &self,
        worker: usize,
        workers: usize,
        since: &mut u64,
        suspender: Option<&Suspender>,
    ) -> Option<u64> {
        let epoch = self.pin_commits(worker);
        if *since != epoch {
            // SeqCst: a worker that pins later sees this epoch, at least. One that is ahead waits for us.
            let behind = |place: &CachePadded<AtomicU64>| {
                matches!(commit_behind(place.load(Ordering::SeqCst), epoch), 1 | 2)
            };
            if !wait_until(suspender, || !self.places[..workers].iter().any(behind)) {
                self.unpin(worker);
                return None;
            }
            *since = epoch;
        }
        Some(epoch)
    }

    /// Pins a place behind `worker`'s as that one is pinned, so that the epoch of its commits stays open when it is unpinned. Who
    /// advances the epoch looks at the places in their order, so it sees one of the two.
    pub fn hold_from(&self, place: usize, worker: usize) {
        debug_assert!(place > worker, "it may be missed");
        // Relaxed: our own place. SeqCst: as any pin.
        let pinned = self.places[worker].load(Ordering::Relaxed);
        debug_assert!(pinned != IDLE, "there is nothing to hold");
        self.places[place].swap(pinned, Ordering::SeqCst);
    }

    /// Unpins. Release: what the worker read and wrote happens before any reuse, and what it has appended to the
    /// log before its epoch is closed.
    #[inline]
    pub fn unpin(&self, worker: usize) {
        self.places[worker].store(IDLE, Ordering::Release);
    }

    /// Whether another worker is pinned. It may be a moment later, too.
    pub fn others_are_pinned(&self, worker: usize) -> bool {
        // SeqCst: after the gate was closed; a worker that pins later finds it so.
        let is_pinned = |place: &CachePadded<AtomicU64>| place.load(Ordering::SeqCst) != IDLE;
        self.places.iter().enumerate().any(|(number, place)| number != worker && is_pinned(place))
    }

    /// The epoch now. SeqCst: snapshots' bookkeeping is read after it (`crate::snapshot`).
    #[inline]
    pub fn now(&self) -> u64 {
        self.counters.now.load(Ordering::SeqCst)
    }

    /// The epoch now, read after everything before in the caller.
    #[inline]
    pub fn now_in_order(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.now()
    }

    /// The epoch for a commit of `worker`, which is pinned, read after the transaction's locks are held: the fence
    /// orders the lock acquisitions before the load. It is not closed before the worker is unpinned.
    #[inline]
    pub fn commit_epoch(&self, worker: usize) -> u64 {
        let place = &self.places[worker];
        // Relaxed: its own.
        let pinned = place.load(Ordering::Relaxed);
        debug_assert!(pinned != IDLE, "a commit of a worker that is not pinned");
        // Mostly it is still the epoch of the begin.
        let mut epoch = begin_of(pinned);
        let begun = begun(epoch);
        loop {
            // Relaxed, then the fence: in one order with `advance`, as in `publish`.
            place.store(begun | committing(epoch), Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let again = self.counters.now.load(Ordering::SeqCst);
            if again == epoch {
                break;
            }
            epoch = again;
        }
        point("epoch read");
        epoch
    }

    /// Publishes the commit pin of `worker`, which is pinned, before the transaction's locks are taken, and returns its
    /// epoch: to be given to [`Self::announced_epoch`] when they are held.
    #[inline]
    pub fn announce_commit(&self, worker: usize) -> u64 {
        let place = &self.places[worker];
        // Relaxed: its own.
        let pinned = place.load(Ordering::Relaxed);
        debug_assert!(pinned != IDLE, "a commit of a worker that is not pinned");
        // Relaxed: only a guess; `announced_epoch` looks again.
        let epoch = self.counters.now.load(Ordering::Relaxed);
        // Relaxed: the locks, and the fence there, order it.
        place.store(begun(begin_of(pinned)) | committing(epoch), Ordering::Relaxed);
        epoch
    }

    /// As [`Self::commit_epoch`], after [`Self::announce_commit`]. The caller has locked something since, by a SeqCst
    /// exchange.
    #[inline]
    pub fn announced_epoch(&self, worker: usize, announced: u64) -> u64 {
        // In one order with `advance`, as in `publish`: the pin, the locks, this load.
        fence_after_exchange();
        if self.counters.now.load(Ordering::SeqCst) != announced {
            return self.commit_epoch(worker);
        }
        point("epoch read");
        announced
    }

    /// True when no transaction that could commit in `epoch` runs.
    #[inline]
    pub fn closed(&self, epoch: u64) -> bool {
        self.now() >= epoch + 2
    }

    /// The epoch as reclamation sees it: at most one ahead of the begin of every attempt that runs.
    #[inline]
    pub fn reclaim_epoch(&self) -> u64 {
        // SeqCst, as `now`.
        self.counters.reclaim.load(Ordering::SeqCst)
    }

    /// True when every attempt that began in `epoch` or before has ended.
    #[inline]
    pub fn passed(&self, epoch: u64) -> bool {
        self.reclaim_epoch() >= epoch + 2
    }

    /// Moves the epoch on by one, unless a commit is under way in the one before. True if it moved.
    pub fn advance(&self) -> bool {
        let now = self.now();
        let Some(oldest) = self.oldest_begin(now) else { return false };
        point("advance");
        let Counters { now: word, reclaim } = &*self.counters;
        let moved = word.compare_exchange(now, now + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if moved && reclaim.load(Ordering::Relaxed) <= oldest {
            // Release, in there: what was read at the places. After the epoch has moved, so never above it.
            reclaim.fetch_max(oldest + 1, Ordering::SeqCst);
        }
        moved
    }

    /// The earliest epoch at which a worker is pinned, `now` where none is; `None` where a commit is behind `now`,
    /// which was read before.
    fn oldest_begin(&self, now: u64) -> Option<u64> {
        model_fence();
        let mut oldest = now;
        for place in &self.places {
            let place = place.load(Ordering::SeqCst);
            if commit_behind(place, now) != 0 {
                return None;
            }
            // Of one that is not pinned, greater than any.
            oldest = oldest.min(begin_of(place));
        }
        Some(oldest)
    }

    /// Brings the epoch of reclamation up to date, without moving the epoch.
    fn look_for_ended(&self) {
        let now = self.now();
        if let Some(oldest) = self.oldest_begin(now) {
            self.counters.reclaim.fetch_max(now.min(oldest + 1), Ordering::SeqCst);
        }
    }

    /// Notes which transactions have been open since an earlier epoch, for [`Self::oldest`]. Costs a look at each
    /// worker's place if there is one.
    pub fn note_pinned(&self) {
        if self.reclaim_epoch() < self.now() {
            self.note(&mut lock(&self.behind));
        }
    }

    fn note(&self, behind: &mut Vec<Behind>) {
        behind.resize(self.places.len(), Behind::default());
        let (now, now_ns) = (self.now(), now_ns());
        for (place, behind) in self.places.iter().zip(behind) {
            // Relaxed: only told. A worker that is behind cannot begin anew there, so an equal epoch is that of the
            // same transaction.
            let begin = begin_of(place.load(Ordering::Relaxed));
            if begin >= now {
                behind.begin = 0;
            } else if behind.begin != begin {
                *behind = Behind { begin, since_ns: now_ns };
            }
        }
    }

    /// The transaction that began first among those that were open when the epoch last moved on.
    pub fn oldest(&self) -> Option<Oldest> {
        let mut behind = lock(&self.behind);
        self.note(&mut behind);
        let open = behind.iter().enumerate().filter(|(_, behind)| behind.begin != 0);
        let (worker, oldest) = open.min_by_key(|(_, behind)| (behind.begin, behind.since_ns))?;
        let age = Duration::from_nanos(now_ns().saturating_sub(oldest.since_ns));
        Some(Oldest { worker, epochs: self.now().saturating_sub(oldest.begin), age })
    }
}

impl EpochClock {
    /// Waits until `epoch` is closed: for commits that are under way. The waiting caller moves the epoch on.
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`] when one does not end in some seconds.
    pub fn wait_closed(&self, epoch: u64) -> Result<()> {
        self.wait_for(|clock| clock.closed(epoch) || clock.advance() && clock.closed(epoch))
    }

    /// Waits until `epoch` has passed: for each attempt that was running to end, bodies included. The waiting
    /// caller moves the epoch on.
    ///
    /// # Errors
    /// [`Misuse::EpochHeld`] when one does not end in some seconds.
    pub fn wait_passed(&self, epoch: u64) -> Result<()> {
        self.wait_for(|clock| {
            // No further than needed, while a body thinks.
            match clock.closed(epoch) {
                true => clock.look_for_ended(),
                false => _ = clock.advance(),
            }
            clock.passed(epoch)
        })
    }

    fn wait_for(&self, done: impl Fn(&Self) -> bool) -> Result<()> {
        let (mut wait, mut begun) = (Wait::new(), None);
        let (mut moved, mut late) = (self.now(), false);
        while !done(self) {
            // Only when it was looked at once more: on a loaded machine a pause may take all of the patience.
            if late {
                return Err(Misuse::EpochHeld { seconds: PATIENCE_NS / 1_000_000_000 }.into());
            }
            let now = self.now();
            if std::mem::replace(&mut moved, now) != now {
                continue;
            }
            wait.pause();
            let begun = *begun.get_or_insert_with(now_ns);
            late = now_ns() - begun > PATIENCE_NS;
        }
        Ok(())
    }
}

/// A thread that does something at a fixed interval until it is dropped, which waits for what it is doing.
pub struct Ticker {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Ticker {
    /// Starts ticking.
    pub fn start(interval: Duration, tick: impl Fn() + Send + 'static) -> Self {
        // In a box, so that the thread is compiled once and not once per protocol.
        Self::start_boxed(interval, Box::new(tick))
    }

    fn start_boxed(interval: Duration, tick: Box<dyn Fn() + Send>) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (flag, signal) = &*stopped;
            let mut guard = lock(flag);
            while !*guard {
                guard = match signal.wait_timeout(guard, interval) {
                    Ok((guard, _)) => guard,
                    Err(poisoned) => poisoned.into_inner().0,
                };
                if !*guard {
                    tick();
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the ticker; there is no more to do here.
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn a_commit_holds_the_epoch_back_by_at_most_one() {
        let clock = EpochClock::new(2);
        clock.pin(0);
        assert!(clock.advance() && clock.advance(), "a body holds nothing back");
        let epoch = clock.commit_epoch(0);
        assert_eq!(epoch, clock.now());
        assert!(clock.advance(), "the commit stands at the epoch");
        assert!(!clock.advance() && !clock.closed(epoch), "it is one behind");
        clock.pin(1);
        assert_eq!(clock.commit_epoch(1), epoch + 1, "a later commit is of a later epoch");
        clock.unpin(0);
        assert!(clock.advance() && clock.closed(epoch));
        assert!(!clock.advance(), "worker 1 is one behind");
    }

    #[test]
    fn a_body_holds_reclamation_back() {
        let clock = EpochClock::new(2);
        let start = clock.pin(0);
        assert!((0..9).all(|_| clock.advance()));
        assert!(clock.closed(start) && !clock.passed(start));
        assert_eq!(clock.reclaim_epoch(), start + 1, "one ahead of it");
        let later = clock.pin(1);
        clock.unpin(0);
        assert!(clock.wait_passed(start).is_ok() && !clock.passed(later));
        assert_eq!(clock.reclaim_epoch(), later, "no further than the epoch");
        clock.unpin(1);
        assert!(clock.wait_passed(later).is_ok());
        assert_eq!(clock.now(), later + 2, "and no further than needed");
    }

    #[test]
    fn the_oldest_is_told() {
        let clock = EpochClock::new(3);
        assert_eq!(clock.oldest(), None);
        clock.pin(2);
        assert_eq!(clock.oldest(), None, "it has just begun");
        clock.advance();
        clock.pin(1);
        clock.advance();
        let oldest = clock.oldest().unwrap();
        assert_eq!((oldest.worker, oldest.epochs), (2, 2));
        clock.unpin(2);
        assert_eq!(clock.oldest().map(|oldest| (oldest.worker, oldest.epochs)), Some((1, 1)));
        clock.unpin(1);
        assert_eq!(clock.oldest(), None);
    }

    #[test]
    fn the_ticker_ticks_and_stops() {
        let clock = Arc::new(EpochClock::new(1));
        let ticked = Arc::clone(&clock);
        let ticker = Ticker::start(Duration::from_millis(1), move || _ = ticked.advance());
        while clock.now() < FIRST + 3 {
            thread::yield_now();
        }
        drop(ticker);
        let now = clock.now();
        assert_eq!(now, clock.now());
    }
}
