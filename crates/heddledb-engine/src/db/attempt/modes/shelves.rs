//! Deferred additions: publish and subscribe (DBX-TC §3.2).
//!
//! **Problem.** Calls that add to one row take its lock one after another, though nobody among them wants to see the sum.
//!
//! **Mechanism.** At a site that is planned as deferred an addition goes to a list of its call (`aside`), and at the call's end to
//! the *shelf* of its worker. What is on the shelves is *made*, as one transaction, when no call may be under way that has to come
//! before it:
//!
//! - before the first call of a later epoch accesses anything; all calls of the epoch have ended then, as chopped calls of different
//!   epochs never overlap (`parts`);
//! - before a closure, which runs while no call does;
//! - when a call has ended and no other is under way.
//!
//! So all calls of an epoch that were under way together see the rows without any of it. That they cannot tell is the analysis's to
//! prove ([`deferral`](heddledb_analysis::deferral)), or a procedure is not registered.
//!
//! **The word.** `state` says whether something is on the shelves, of which epoch, and whether someone is making it, who has
//! *claimed* it. Only what is of one epoch is on the shelves at a time.
//!
//! ```text
//!            a call of epoch e ends             claim: who begins later, or is last
//!   EMPTY ----------------------> pending(e) ------------------------> claimed(e)
//!     ^                               ^                                  |   |
//!     |                               +-------- another call has begun --+   |
//!     +-------------------------------------------------- made, all of it ---+
//! ```
//!
//! Who is last claims, and then looks again whether no call is under way; who begins a call says so, and then looks at the
//! word. All of that is SeqCst, so one of them sees the other: either the call waits until all is made, or the claim is given
//! back, and the call, which is under way now, looks after it when it ends. So **there is something on the shelves only while a call
//! is under way**, or somebody is at it: nobody who waits for an epoch to close has to make anything.
//!
//! **Epochs, snapshots, the log.** What is put off in an epoch commits in that epoch. A place of the clock holds its commit pin from
//! before the call's own is gone until all is made, so the epoch does not close before. Snapshots and rounds of the log cut
//! between epochs: they see, and acknowledge, a call with its additions or not at all. What is logged are rows, so what is replayed is
//! made once.
//!
//! **Rows.** That its row is there is looked up when an addition is put off, and checked with its piece as anything that was read. The
//! analysis knows of that look, so no call that makes or removes rows of the table is in the same epoch; closures, which may, find
//! nothing on the shelves.
//!
//! Not strict: a call that reads a sum may come before a call that had ended when it began, in one epoch.
//! Tests: `shelves_*` of the conformance suite, which the planted bugs `Shelf*` fail; on virtual cores `calls_are_seen_with_what_they_put_off`;
//! the word and the hold under loom (`models`).

use super::aside::{Addition, Additions, Aside};
use super::{AccessMode, Attempt, States};
use crate::epoch::EpochClock;
use crate::error::{Error, Result};
use crate::index::Lookup;
use crate::mutant::{Mutant, planted};
use crate::protocol::{Intent, Protocol};
use crate::seam::{Access, Summand};
use crate::stamp;
use crate::sync::{
    AtomicU64, Mutex, Ordering, Suspender, Wait, Whose, decided, decides, lock, model_fence, note, point,
    wait_out, wait_until,
};
use crate::table::GroupSet;
use crossbeam_utils::CachePadded;

/// What the workers of a database have put off.
pub(super) struct Shelves {
    /// See the module's header.
    state: CachePadded<AtomicU64>,
    /// By worker.
    shelves: Box<[CachePadded<Mutex<Additions>>]>,
}

/// Nothing is put off.
const EMPTY: u64 = 0;

/// Something of that epoch is on the shelves.
const fn pending(epoch: u64) -> u64 {
    epoch << 1
}

/// Somebody is making what is of that epoch.
const fn claimed(epoch: u64) -> u64 {
    pending(epoch) | 1
}

const fn is_claimed(state: u64) -> bool {
    state & 1 == 1
}

/// So many rows are written at once; the log can take so much of any row that it can take at all at least.
pub(super) const ROWS_AT_ONCE: usize = 256;

impl Shelves {
    pub fn new(sessions: usize) -> Self {
        let shelf = || CachePadded::new(Mutex::new(Additions::default()));
        Self {
            state: CachePadded::new(AtomicU64::new(EMPTY)),
            shelves: (0..sessions).map(|_| shelf()).collect(),
        }
    }

    /// A call of that epoch is about to begin. The epoch that is to be made before, if the caller has to make it, and has claimed
    /// it; an error where the suspender's time is over while others make it.
    fn before_call(&self, epoch: u64, suspender: Option<&Suspender>) -> Result<Option<u64>, TimeOver> {
        loop {
            model_fence();
            let state = self.state.load(Ordering::SeqCst);
            if state == EMPTY || state == pending(epoch) {
                return Ok(None);
            }
            if !is_claimed(state) {
                debug_assert!(state < pending(epoch), "calls of different epochs overlap");
                if self.claim(state) {
                    return Ok(Some(state >> 1));
                }
            // Relaxed: looked at again.
            } else if !wait_until(suspender, || self.state.load(Ordering::Relaxed) != state) {
                return Err(TimeOver);
            }
        }
    }

    /// While no call is under way, and none begins: the epoch that is to be made, if there is something on the shelves; it is claimed.
    fn before_closure(&self, suspender: Option<&Suspender>) -> Option<u64> {
        loop {
            let state = self.state.load(Ordering::SeqCst);
            if state == EMPTY {
                return None;
            }
            if !is_claimed(state) {
                if self.claim(state) {
                    return Some(state >> 1);
                }
            } else {
                // Relaxed: looked at again.
                wait_out(suspender, || self.state.load(Ordering::Relaxed) != state);
            }
        }
    }

    /// A call is under way no more: the epoch that the caller has to make, and has claimed, as no other is.
    fn after_call(&self, is_idle: impl Fn() -> bool) -> Option<u64> {
        loop {
            model_fence();
            let state = self.state.load(Ordering::SeqCst);
            if state == EMPTY || is_claimed(state) || !is_idle() || !self.claim(state) {
                return None;
            }
            model_fence();
            point("shelves claimed");
            if is_idle() {
                return Some(state >> 1);
            }
            // A call that begins waits for this, or has seen nothing of it. If it has ended meanwhile, it has left it to us.
            self.state.store(state, Ordering::SeqCst);
        }
    }

    fn claim(&self, pending: u64) -> bool {
        let claimed = pending | 1;
        self.state.compare_exchange(pending, claimed, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// A call of that epoch, which is under way, leaves its additions on its worker's shelf.
    fn put(
        &self,
        worker: usize,
        epoch: u64,
        additions: &Additions,
        clock: &EpochClock,
        suspender: Option<&Suspender>,
    ) {
        lock(&self.shelves[worker]).append(additions);
        point("put off");
        loop {
            let state = self.state.load(Ordering::SeqCst);
            if state == pending(epoch) {
                // Whoever was the first is pinned in the epoch until it has had it held.
                return;
            }
            if state == EMPTY {
                let first =
                    self.state.compare_exchange(EMPTY, pending(epoch), Ordering::SeqCst, Ordering::Relaxed);
                if first.is_ok() {
                    if !planted(Mutant::ShelfEpochNotHeld) {
                        clock.hold_from(clock.last_place(), worker);
                    }
                    return;
                }
            } else {
                // It is claimed by who has not yet seen that a call is under way, and gives it back.
                debug_assert!(state == claimed(epoch), "calls of different epochs overlap");
                wait_out(suspender, || self.state.load(Ordering::Relaxed) != state);
            }
        }
    }

    /// All that is on the shelves, which the caller has claimed.
    fn take(&self) -> Additions {
        let mut all = Additions::default();
        for (worker, shelf) in self.shelves.iter().enumerate() {
            let mut shelf = lock(shelf);
            if !(planted(Mutant::ShelfLost) && worker == 0) {
                all.append(&shelf);
                if planted(Mutant::ShelfMadeTwice) && worker == 0 {
                    all.append(&shelf);
                }
            }
            shelf.clear();
        }
        all.compact();
        all
    }

    /// What the caller has claimed is made.
    fn made(&self, clock: &EpochClock) {
        clock.unpin(clock.last_place());
        // SeqCst: who sees this sees the rows.
        self.state.store(EMPTY, Ordering::SeqCst);
    }
}

/// Others have kept a call from its begin for too long.
struct TimeOver;

/// Whether a call may begin that is pinned in that epoch: what earlier ones have put off is made. False where the time for that
/// is over.
pub(super) fn before_call<P: Protocol>(attempt: &mut Attempt<P>, epoch: u64) -> bool {
    let Some(shelves) = &attempt.db.modes.shelves else { return true };
    if planted(Mutant::ShelfSubscriberEarly) {
        return true;
    }
    match shelves.before_call(epoch, attempt.worker.suspender.as_ref()) {
        Ok(None) => true,
        Ok(Some(earlier)) => {
            make(attempt, earlier);
            true
        }
        Err(TimeOver) => false,
    }
}

/// Makes what is put off before a closure begins; no call is under way, and none begins.
pub(super) fn before_closure<P: Protocol>(attempt: &mut Attempt<P>) {
    let Some(shelves) = &attempt.db.modes.shelves else { return };
    if let Some(epoch) = shelves.before_closure(attempt.worker.suspender.as_ref()) {
        make_unpinned(attempt, epoch);
    }
}

/// A call of this worker is under way no more.
pub(super) fn after_call<P: Protocol>(attempt: &mut Attempt<P>) {
    let Some(shelves) = &attempt.db.modes.shelves else { return };
    let active_calls = &attempt.db.modes.parts;
    if let Some(epoch) = shelves.after_call(|| active_calls.is_idle_after(attempt.worker.number)) {
        make_unpinned(attempt, epoch);
    }
}

/// A piece of a call has committed: what it has put aside stands.
pub(super) fn save<P: Protocol>(attempt: &mut Attempt<P>) {
    let States { parts, aside, .. } = &mut attempt.modes;
    if !aside.save() {
        return;
    }
    // As certain as a commit, and maybe all that the piece does: here, and not when it is put on the shelf, since the pieces that come
    // may fail.
    match attempt.epoch {
        Some(epoch) if !parts.wrote => decided(stamp::floor(epoch)),
        _ => decided(attempt.worker.last_commit),
    }
}

/// Before the worker of a call is unpinned: leaves what its committed pieces have put aside on the shelf.
pub(super) fn put<P: Protocol>(attempt: &mut Attempt<P>) {
    let Aside { additions, stands } = &mut attempt.modes.aside;
    if additions.is_empty() {
        return;
    }
    additions.truncate(*stands);
    let db = &attempt.db;
    if let (Some(shelves), Some(epoch), false) = (&db.modes.shelves, attempt.epoch, additions.is_empty()) {
        note(|| format!("puts {} additions off", additions.len()));
        let worker = &mut attempt.worker;
        shelves.put(worker.number, epoch, additions, &db.clock, worker.suspender.as_ref());
        // They are of the call's epoch, so who waits until that is durable waits for them too. Where no part wrote, what was read
        // may have a later time: an absence, that of the moment (found by the search: dbx-tc-deferred/36).
        if !attempt.modes.parts.wrote {
            worker.last_commit = stamp::floor(epoch);
        }
        debug_assert_eq!(stamp::epoch(worker.last_commit), epoch, "a call of two epochs");
    }
    additions.clear();
    *stands = 0;
}

/// Puts an addition off. False, if there is no row.
#[inline(never)]
pub(super) fn put_aside<P: Protocol>(
    attempt: &mut Attempt<P>,
    access: &Access<'_>,
    word: usize,
    summand: Summand,
) -> Result<bool> {
    attempt.may_write()?;
    let Some(record) = attempt.find(access, AccessMode::Reads)? else { return Ok(false) };
    let known = attempt.worker.writes.find(record);
    let groups = witness(access.wanted.relation.layout.all_groups(), access.wanted.groups);
    if !attempt.exists(record, known, access.wanted.relation, groups, Intent::Read)? {
        return Ok(false);
    }
    let (relation, key) = (access.wanted.relation, access.key);
    attempt.modes.aside.additions.push(relation, key, access.wanted.groups, word, summand);
    Ok(true)
}

/// The column group by which an addition looks whether there is a row: that is in the words of all, so it is one that the
/// additions do not concern, if there is one.
fn witness(all: GroupSet, added_to: GroupSet) -> GroupSet {
    let others = all & !added_to;
    let of = if others == 0 { added_to } else { others };
    of & of.wrapping_neg()
}

/// As [`make`], for a worker that is not pinned.
fn make_unpinned<P: Protocol>(attempt: &mut Attempt<P>, epoch: u64) {
    let worker = attempt.worker.number;
    attempt.db.clock.pin(worker);
    make(attempt, epoch);
    attempt.db.clock.unpin(worker);
}

/// Makes what is put off, which is of that epoch and claimed by this worker, whose attempt has not begun or has ended. No call
/// and no closure is under way beside it.
fn make<P: Protocol>(attempt: &mut Attempt<P>, epoch: u64) {
    let Some(shelves) = &attempt.db.modes.shelves else { return };
    let all = shelves.take();
    note(|| format!("makes {} additions of epoch {epoch}", all.len()));
    point("shelves taken");
    let last_commit = attempt.worker.last_commit;
    let of = if planted(Mutant::ShelfInLaterEpoch) { attempt.db.clock.now() } else { epoch };
    let own = attempt.epoch.replace(of);
    let mut rest = all.entries();
    let (mut rows, mut wait) = (ROWS_AT_ONCE, Wait::new());
    decides(Whose::Others);
    while !rest.is_empty() {
        let now = rest.len().min(rows);
        match make_some(attempt, &all, &rest[..now]) {
            Ok(()) => rest = &rest[now..],
            // Whoever unlinks a row may hold a lock, for some instructions.
            Err(Error::Conflict(_)) => wait.pause(),
            // What a call adds to has room in the log, if each row is written alone.
            Err(_) if now > 1 => rows = now.div_ceil(2),
            Err(error) => panic!("an addition that was put off cannot be made: {error}"),
        }
    }
    decides(Whose::Own);
    point("shelves made");
    attempt.epoch = own;
    attempt.worker.last_commit = last_commit;
    if let Some(shelves) = &attempt.db.modes.shelves {
        shelves.made(&attempt.db.clock);
    }
}

/// Makes some of them as one transaction, in software: without [`Protocol::enter`] no region is begun.
fn make_some<P: Protocol>(attempt: &mut Attempt<P>, all: &Additions, some: &[Addition]) -> Result<()> {
    attempt.begin_writes(0);
    let outcome = write_all(attempt, all, some).and_then(|()| attempt.commit_without_check());
    if outcome.is_err() {
        attempt.abort_writes();
    }
    outcome.map(|_| debug_assert_eq!(Some(stamp::epoch(attempt.worker.last_commit)), attempt.epoch))
}

/// Adds them to what the attempt writes.
pub(super) fn write_all<P: Protocol>(
    attempt: &mut Attempt<P>,
    all: &Additions,
    some: &[Addition],
) -> Result<()> {
    // The row at hand: those of one row come one after the other.
    let mut row = None;
    for addition in some {
        let Addition { relation, groups, word, summand, .. } = *addition;
        let (number, key) = (relation.number(), all.key(addition));
        let record = match row {
            Some((of, same, record)) if (of, same) == (number, key) => record,
            _ => match attempt.db.stores.get_numbered(number, relation)?.index.get(key) {
                Lookup::Found(record) => record,
                Lookup::Missing(_) => unreachable!("nobody removes a row to which something is to be added"),
            },
        };
        row = Some((number, key, record));
        let worker = &mut *attempt.worker;
        let env = attempt.db.env(worker.number, attempt.isolation);
        let (writes, layout) = (&mut worker.writes, relation.layout);
        let known = writes.find_or_vacancy(record);
        P::write(&mut worker.local, env, record, layout, groups, known.unwrap_or(writes.writes().len()))?;
        let write =
            known.unwrap_or_else(|vacancy| writes.start(vacancy, record, layout, number, key, groups, true));
        writes.widen(write, groups);
        writes.add(write, word, summand);
    }
    Ok(())
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn the_witness_is_not_added_to_where_there_is_another() {
        assert_eq!(witness(0b111, 0b001), 0b010);
        assert_eq!(witness(0b110, 0b100), 0b010);
        assert_eq!(witness(0b1, 0b1), 0b1);
    }
}

#[cfg(all(test, feature = "loom"))]
mod models {
    use super::super::active_calls::ActiveCalls;
    use super::*;
    use crate::models::explore;
    use crate::sync::thread;
    use crate::table::{Definition, Group, Layout, RANK, Role, Span, Structure};
    use std::sync::{Arc, PoisonError};

    static LAYOUT: Layout = Layout {
        name: "sums",
        groups: &[Group { name: "all", span: Span { start: 0, end: 1 }, rank: RANK, held: false }],
        words: 1,
        slots: &[],
    };
    static SUMS: Definition = Definition::new(&LAYOUT, Structure::Hash, "", 1, Role::Unknown);

    /// What sessions share, with the sum of a row.
    struct World {
        clock: EpochClock,
        active_calls: ActiveCalls,
        shelves: Shelves,
        /// Relaxed, in all that is done with it: what orders it is what is looked at here.
        sum: AtomicU64,
        /// The epoch of the last call.
        epoch: AtomicU64,
    }

    impl World {
        fn new(sessions: usize) -> Arc<Self> {
            Arc::new(Self {
                clock: EpochClock::new(sessions + 1),
                active_calls: ActiveCalls::new(sessions),
                shelves: Shelves::new(sessions),
                sum: AtomicU64::new(0),
                epoch: AtomicU64::new(0),
            })
        }

        /// A call that puts one addition off, as `parts` and this room execute it.
        fn call(&self, worker: usize) {
            let Self { clock, active_calls, shelves, sum, .. } = self;
            assert!(active_calls.try_begin(worker, || true), "nobody closes the gate");
            let (sessions, mut since) = (active_calls.sessions(), 0);
            let epoch = clock.pin_together(worker, sessions, &mut since, None).expect("no limit");
            if let Ok(Some(earlier)) = shelves.before_call(epoch, None) {
                self.make(earlier);
            }
            self.epoch.store(epoch, Ordering::SeqCst);
            let before = sum.load(Ordering::Relaxed);
            let mut additions = Additions::default();
            additions.push(&SUMS, &[7], 1, 0, Summand::Whole(1));
            shelves.put(worker, epoch, &additions, clock, None);
            assert_eq!(sum.load(Ordering::Relaxed), before, "made beside a call");
            clock.unpin(worker);
            active_calls.end_in_order(worker);
            if let Some(epoch) = shelves.after_call(|| active_calls.is_idle_after(worker)) {
                clock.pin(worker);
                self.make(epoch);
                clock.unpin(worker);
            }
        }

        fn make(&self, epoch: u64) {
            for addition in self.shelves.take().entries() {
                self.sum.store(addition.summand.plus(self.sum.load(Ordering::Relaxed)), Ordering::Relaxed);
            }
            assert!(!self.clock.closed(epoch), "made in an epoch that is closed");
            self.shelves.made(&self.clock);
        }

        /// After all calls: what they have put off is made, and nothing else.
        fn check(&self, calls: u64) {
            assert_eq!(self.sum.load(Ordering::Relaxed), calls, "lost, or made twice");
            assert_eq!(self.shelves.state.load(Ordering::SeqCst), EMPTY, "nobody makes it");
            assert!((0..3).all(|_| self.clock.advance()), "the epoch is held for ever");
        }
    }

    /// One call puts something off while another ends.
    fn two_calls() {
        explore(|| {
            let world = World::new(2);
            let other = Arc::clone(&world);
            let thread = thread::spawn(move || other.call(0));
            world.call(1);
            thread.join().expect("it does not panic");
            world.check(2);
        });
    }

    /// A call puts something off while the epoch advances: who finds its epoch closed sees all of it.
    fn a_call_and_the_epoch() {
        explore(|| {
            let world = World::new(1);
            let other = Arc::clone(&world);
            let thread = thread::spawn(move || other.call(0));
            (0..3).for_each(|_| _ = world.clock.advance());
            let epoch = world.epoch.load(Ordering::SeqCst);
            if epoch != 0 && world.clock.closed(epoch) {
                assert_eq!(world.sum.load(Ordering::Relaxed), 1, "its epoch is closed without it");
            }
            thread.join().expect("it does not panic");
            world.check(1);
        });
    }

    /// Explores with no bug planted but that one, which is one of the whole process.
    fn explore_with(bug: Option<Mutant>, model: fn()) -> std::thread::Result<()> {
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(feature = "mutants")]
        crate::mutant::plant(bug);
        let outcome = std::panic::catch_unwind(model);
        #[cfg(feature = "mutants")]
        crate::mutant::plant(None);
        assert!(cfg!(feature = "mutants") || bug.is_none(), "there are no bugs to plant");
        outcome
    }

    #[test]
    fn what_is_put_off_is_made_once_beside_no_call() {
        explore_with(None, two_calls).expect("it holds");
    }

    #[test]
    fn what_is_put_off_holds_its_epoch() {
        explore_with(None, a_call_and_the_epoch).expect("it holds");
    }

    /// `--features loom,mutants`
    #[cfg(feature = "mutants")]
    #[test]
    fn the_models_find_planted_bugs() {
        for bug in [Mutant::ShelfLost, Mutant::ShelfMadeTwice] {
            assert!(explore_with(Some(bug), two_calls).is_err(), "{bug:?}");
        }
        assert!(explore_with(Some(Mutant::ShelfEpochNotHeld), a_call_and_the_epoch).is_err());
    }
}
