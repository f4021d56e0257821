//! Batches of calls, each executed as a graph of who must wait for whom (DGCC).
//!
//! **Life of a call.** It is queued, in the order in which calls came, those of high priority first (the paper's initiator,
//! §4.1.1). A batch is *cut* from the queue's front; each of its calls is *announced*, executed without effect to find out what
//! it will access; the batch is *linked* ([`link`]); and when the batch before it has ended, it is executed: a call
//! begins when those before it that access the same have ended. All workers do all of this, whatever there is to do
//! (§4.1.3): calls that may begin come first, and who finds none helps to build the next batch.
//!
//! **Who executes.** A *job* is executed by whoever takes it: it is put on the batch's list when it may begin, or executed at
//! once by who ended the last call before it, whose cache has what they share. A call that a worker brought itself, an
//! *owner's*, was announced by that worker before it was queued, and is executed by it when its turn has come.
//!
//! **In pieces.** Calls of which all is known beforehand are executed before the others of their batch, side by side also where they
//! meet ([`pieces`]).
//!
//! **Cutting.** When nothing else is being built: whatever is queued, up to [`pace`]'s size. While another batch is built, only
//! a full one; so several graphs are built side by side, each by one worker, and executed one after another
//! (§4.1.2).
//!
//! **No deadlock.** A call waits for calls of lower numbers only, and a batch for batches of lower numbers. A worker never waits
//! with something in its hands that others wait for, but for a call whose body runs.
//!
//! **Memory.** Batches, footprints and linkers are used again. A batch is shared by who executes it, and becomes free when
//! the last of them has looked at another.
//!
//! This room knows neither tables nor protocols: it keeps jobs of a type `J`, and tells when each may begin.

mod batch;
mod cells;
mod link;
mod pace;
mod pieces;
mod seat;
mod sleepers;
mod state;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;
mod words;

use crate::footprint::Footprint;
use crate::kind::Batching;
use crate::metrics::GraphMetrics;
use crate::sync::{
    AtomicBool, AtomicU32, AtomicU64, MODEL, Mutex, MutexGuard, Ordering, Suspender, Wait, lock, now_ns,
    wait_until,
};
use batch::{Batch, Owner, Released, Work};
use crossbeam_utils::CachePadded;
use seat::Doing;
pub(crate) use seat::Seat;
use sleepers::Sleepers;
use state::{Built, Queued, State};
use std::sync::Arc;
use std::time::Duration;

/// A level of so few calls is executed by who ended the level before: others would come too late (DGCC §4.1.3).
const SMALL_LEVEL: usize = 4;

/// Pauses before a worker that finds nothing to do sleeps.
const PAUSES: u32 = 16;

/// The calls of a database that are queued, built into graphs, and executed.
pub(crate) struct Batches<J> {
    levels: bool,
    state: Mutex<State<J>>,
    sleepers: Sleepers,
    /// The number of the batch that is executed, 0 if there is none.
    executed: CachePadded<AtomicU64>,
    /// Changes when there may be something to do that was not there: calls were queued, a batch was cut, built, or has ended.
    events: CachePadded<AtomicU64>,
    /// Half as many calls are queued as are executed, and no batch is built: one of those who execute is to build the next.
    behind: CachePadded<AtomicBool>,
    /// By worker, its own call.
    owners: Box<[CachePadded<OwnCall>]>,
}

/// What is known of a worker's own call: its number among the worker's calls, times four, plus one of these.
#[derive(Default)]
struct OwnCall {
    state: AtomicU64,
    /// Its number in the batch, once it may begin.
    at: AtomicU32,
}

const WAITS: u64 = 1;
const MAY_BEGIN: u64 = 2;
const GIVEN_UP: u64 = 3;

/// The number of a batch; of none, 0.
fn number<J>(batch: &Option<Arc<Batch<J>>>) -> u64 {
    batch.as_ref().map_or(0, |batch| batch.number)
}

/// From one time to another, both in nanoseconds.
fn since(begun: u64, now: u64) -> Duration {
    Duration::from_nanos(now.saturating_sub(begun))
}

/// What a worker is to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<J> {
    /// To execute it without effect, and tell what it accesses.
    Announce(J),
    /// To execute it.
    Execute(J),
}

/// Where calls that may begin go.
struct Release<'a, J> {
    batches: &'a Batches<J>,
    batch: &'a Batch<J>,
    /// Whose end it was keeps so many of them.
    kept: Option<&'a mut Vec<u32>>,
    keeps: usize,
    /// What to do when all calls in pieces have ended.
    pieces_over: Option<&'a dyn Fn()>,
}

impl<J: Clone> Released for Release<'_, J> {
    fn pieces_over(&mut self) {
        if let Some(over) = self.pieces_over {
            over();
        }
    }

    fn begins_level(&mut self, calls: usize) {
        self.keeps = if calls <= SMALL_LEVEL { calls } else { 0 };
    }

    fn job(&mut self, call: u32) {
        match &mut self.kept {
            Some(kept) if kept.len() < self.keeps => kept.push(call),
            _ => {
                self.batch.offer(call);
                self.batches.sleepers.call(1);
            }
        }
    }

    fn owner(&mut self, Owner { worker, call }: Owner, at: u32) -> bool {
        let own = &self.batches.owners[worker];
        // Relaxed: published by the exchange.
        own.at.store(at, Ordering::Relaxed);
        let states = [WAITS, MAY_BEGIN].map(|state| call << 2 | state);
        // Release: pairs with the owner's look. Acquire where it has given up: nothing of it is used.
        own.state.compare_exchange(states[0], states[1], Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl<J: Clone> Batches<J> {
    /// Of a database with so many workers.
    pub fn new(batching: Batching, workers: usize) -> Self {
        Self {
            levels: batching.levels,
            state: Mutex::new(State::new(batching)),
            sleepers: Sleepers::default(),
            executed: CachePadded::new(AtomicU64::new(0)),
            events: CachePadded::new(AtomicU64::new(0)),
            behind: CachePadded::new(AtomicBool::new(false)),
            owners: (0..workers).map(|_| CachePadded::default()).collect(),
        }
    }

    /// Queues a job behind all that were queued, or, if it is to be among the first, behind these only.
    pub fn submit(&self, job: J, first: bool) {
        let queued = Queued { work: Work::Job(job), footprint: Footprint::default() };
        let mut state = lock(&self.state);
        state.queue.push(queued, first);
        // Relaxed: a hint.
        if state.is_behind() && !self.behind.load(Ordering::Relaxed) {
            self.behind.store(true, Ordering::Relaxed);
        }
        // Where it is not, it will be told when it is.
        if state.may_cut() {
            self.happened(state);
            self.sleepers.call(1);
        }
    }

    /// Nothing more will be submitted: who waits for something to do is told so when all is done.
    pub fn close(&self) {
        let is_over = {
            let mut state = lock(&self.state);
            state.closed = true;
            state.is_over()
        };
        // Else who ends the last batch calls all. Not before: they would only lie down again, and be called again.
        if is_over {
            self.sleepers.call(usize::MAX);
        }
    }

    pub fn metrics(&self) -> GraphMetrics {
        let state = lock(&self.state);
        let mut metrics = state.metrics;
        metrics.queued = state.queue.len();
        metrics.batch_size = state.pace.size();
        metrics
    }

    /// The next thing to do for a worker, which says [`Batches::done`] when it has done it. `None` where there is nothing, or, for
    /// one that waits, where there will be nothing.
    pub fn next(&self, seat: &mut Seat<J>, waits: bool) -> Option<Next<J>> {
        let mut wait = Wait::new();
        loop {
            if let Some(next) = self.look(seat) {
                return Some(next);
            }
            if !waits {
                return None;
            }
            if !MODEL && wait.rounds() < PAUSES {
                wait.pause();
            } else if !self.sleep(seat) {
                return None;
            }
        }
    }

    fn look(&self, seat: &mut Seat<J>) -> Option<Next<J>> {
        loop {
            self.follow(seat);
            // With nothing in its hands that others wait for. Relaxed: a hint, and one of them changes it.
            if seat.kept.is_empty()
                && seat.announces.is_none()
                && self.behind.load(Ordering::Relaxed)
                && self.behind.swap(false, Ordering::Relaxed)
            {
                seat.builds = self.build(seat, true);
            }
            if let Some(batch) = &seat.batch
                && !seat.builds
                && let Some(call) = seat.kept.pop().or_else(|| batch.take())
                && let Some(job) = batch.job(call)
            {
                if batch.pieces.has(call) {
                    batch.pieces.begin_call(call, &mut seat.progress);
                }
                batch.begin_call(
                    call,
                    &mut Release { batches: self, batch, kept: None, keeps: 0, pieces_over: None },
                );
                seat.doing = Some(Doing::Executes(call));
                return Some(Next::Execute(job));
            }
            if let Some((batch, _, left)) = &mut seat.announces
                && let Some((call, job)) = left.find_map(|call| batch.job(call).map(|job| (call, job)))
            {
                seat.doing = Some(Doing::Announces(call));
                return Some(Next::Announce(job));
            }
            let told = self.told(seat);
            if std::mem::take(&mut seat.builds) {
                // What is left of the batch that it builds, if others do not do it.
                seat.builds = self.announce(seat);
                continue;
            }
            if told {
                continue;
            }
            // Acquire: pairs with `happened`. Who has nothing to do does not disturb those who have by the lock.
            let events = self.events.load(Ordering::Acquire);
            if seat.idle_at == Some(events) {
                return None;
            }
            if !self.build(seat, true) {
                seat.idle_at = Some(events);
                return None;
            }
        }
    }

    /// Turns to the batch that is executed now.
    fn follow(&self, seat: &mut Seat<J>) {
        // Acquire: with the number comes what its calls must see.
        if self.executed.load(Ordering::Acquire) != number(&seat.batch) {
            seat.batch = lock(&self.state).executing.clone();
            if let Some(batch) = &seat.batch {
                // Relaxed: a count, looked at when the batch is over.
                batch.workers.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// What [`Batches::next`] gave was done.
    pub fn done(&self, seat: &mut Seat<J>) {
        self.done_beside(seat, None, &|| ());
    }

    /// As [`Batches::done`], where calls may be executed in pieces. If it was the last of them in its batch, that is said before any
    /// other begins.
    pub fn done_beside(&self, seat: &mut Seat<J>, suspender: Option<&Suspender>, pieces_over: &dyn Fn()) {
        if let Some((pieces, call, progress)) = seat.pieces() {
            pieces.let_go_of_all(call, progress, suspender);
        }
        match seat.doing.take() {
            Some(Doing::Executes(call)) => self.end(seat, call, true, Some(pieces_over)),
            Some(Doing::Announces(_)) | None => {}
        }
    }

    /// A call has ended. Its worker keeps one of those that it released, if it can execute it.
    fn end(&self, seat: &mut Seat<J>, call: u32, keeps: bool, pieces_over: Option<&dyn Fn()>) {
        let Seat { batch: Some(batch), kept, .. } = seat else { return };
        let kept = keeps.then_some(kept);
        let keeps = usize::from(!self.levels);
        if batch.end(call, &mut Release { batches: self, batch, kept, keeps, pieces_over }) {
            self.end_batch();
        }
    }

    /// All calls of a batch have ended: the next begins, if it is built.
    fn end_batch(&self) {
        loop {
            let mut state = lock(&self.state);
            if let Some(batch) = state.executing.take() {
                let (queued, now) = (state.queue.len(), now_ns());
                state.pace.ended(batch.calls, batch.cut, now, queued);
                let executed = since(state.executes_since, now);
                state.metrics.executing += executed;
                // Relaxed: all calls of it have ended.
                state.workers = batch.workers.load(Ordering::Relaxed) as usize;
                state.batches.push(batch);
            }
            if !self.start(state) {
                return;
            }
        }
    }

    /// Begins with the next batch, if there is one and none is executed. True if it is over at once.
    fn start(&self, mut guard: MutexGuard<'_, State<J>>) -> bool {
        let state = &mut *guard;
        let mut next = None;
        if state.executing.is_none() {
            if state.built.front().is_some_and(Built::is_linked) {
                next = state.built.pop_front().and_then(|built| built.batch);
            }
            state.executing.clone_from(&next);
            state.executes_since = now_ns();
            // Release: pairs with `follow`. What the calls of the batch before did happens before the lock was taken.
            self.executed.store(number(&next), Ordering::Release);
        }
        let is_over = state.is_over();
        self.happened(guard);
        let over = next.is_some_and(|batch| {
            batch.start(&mut Release {
                batches: self,
                batch: &batch,
                kept: None,
                keeps: 0,
                pieces_over: None,
            })
        });
        // Some were called for its jobs, and one builds the next; or all may go.
        self.sleepers.call(if is_over { usize::MAX } else { 1 });
        over
    }

    /// There may be something to do. Told under the lock, so that who finds that there is, finds that it was told, too.
    fn happened(&self, state: MutexGuard<'_, State<J>>) {
        // Release: pairs with the look of who finds nothing to do.
        self.events.fetch_add(1, Ordering::Release);
        drop(state);
    }

    /// All calls that the worker was to announce have told; the last of a batch links it. False if it had none.
    fn told(&self, seat: &mut Seat<J>) -> bool {
        let Some((batch, count, _)) = seat.announces.take() else { return false };
        let number = batch.number;
        // Before it is told that nobody has the batch.
        drop(batch);
        let mut state = lock(&self.state);
        let built = state.built.iter_mut().find(|built| built.number == number).expect("it is built");
        built.untold -= count;
        if built.untold == 0 {
            self.link(state, number);
        }
        true
    }

    /// Takes calls to be announced, if there are any.
    fn announce(&self, seat: &mut Seat<J>) -> bool {
        seat.announces = lock(&self.state).chunk();
        seat.announces.is_some()
    }

    /// Helps to build a batch; `announces` says whether the worker can announce calls. False if there is nothing to do.
    fn build(&self, seat: &mut Seat<J>, announces: bool) -> bool {
        let mut state = lock(&self.state);
        if announces && let Some(chunk) = state.chunk() {
            seat.announces = Some(chunk);
            return true;
        }
        if !state.may_cut() {
            return false;
        }
        let number = state.cut(self.levels);
        let built = state.built.back_mut().expect("it was cut");
        if built.untold == 0 {
            self.link(state, number);
        } else {
            if announces {
                seat.announces = built.chunk();
            }
            let left = built.chunks_left();
            self.happened(state);
            self.sleepers.call(left);
        }
        true
    }

    /// Links a batch whose calls have told all.
    fn link(&self, mut state: MutexGuard<'_, State<J>>, number: u64) {
        fn find<J>(state: &mut State<J>, number: u64) -> &mut Built<J> {
            state.built.iter_mut().find(|built| built.number == number).expect("it is built")
        }
        let built = find(&mut state, number);
        let mut batch = built.batch.take().expect("it is linked once");
        let (cut, told_at) = (batch.cut, now_ns());
        let (mut linker, mut told) = state.linkers.pop().unwrap_or_default();
        let in_pieces = state.wants_pieces();
        drop(state);
        let linked = Arc::get_mut(&mut batch).expect("whoever announced its calls has let it go");
        let depth = linked.link(&mut linker, &mut told, in_pieces);
        let (calls, edges) = (batch.calls as u64, batch.links.edges() as u64);
        let (pieces, waited) = (batch.pieces.calls.len() as u64, batch.links.waiting() as u64);
        let linked_at = now_ns();
        let mut state = lock(&self.state);
        state.linkers.push((linker, told));
        state.depth = (calls as usize, depth);
        let metrics = &mut state.metrics;
        metrics.batches += 1;
        metrics.calls += calls;
        metrics.edges += edges;
        metrics.in_pieces += pieces;
        metrics.waited += waited;
        metrics.depth += depth as u64;
        metrics.telling += since(cut, told_at);
        metrics.linking += since(told_at, linked_at);
        find(&mut state, number).batch = Some(batch);
        if self.start(state) {
            self.end_batch();
        }
    }

    /// Queues the worker's own call, which will access this. What the footprint holds afterwards is of no use. Returns its number
    /// among the worker's calls.
    pub fn enter(&self, worker: usize, footprint: &mut Footprint) -> u64 {
        // Relaxed: only the worker, whoever has its place, gives numbers; published with the queue.
        let state = &self.owners[worker].state;
        let call = (state.load(Ordering::Relaxed) >> 2) + 1;
        state.store(call << 2 | WAITS, Ordering::Relaxed);
        let owner = Owner { worker, call };
        let mut state = lock(&self.state);
        let other = state.footprints.pop().unwrap_or_default();
        let footprint = std::mem::replace(footprint, other);
        state.queue.push(Queued { work: Work::Owner(owner), footprint }, false);
        self.happened(state);
        self.sleepers.call(1);
        call
    }

    /// Waits until the worker's own call of that number may begin, and helps to build batches meanwhile. False if the suspender's
    /// time was over before: then the call is none any more.
    pub fn await_turn(
        &self,
        seat: &mut Seat<J>,
        (worker, call): (usize, u64),
        suspender: Option<&Suspender>,
    ) -> bool {
        let own = &self.owners[worker];
        let waits = call << 2 | WAITS;
        // Acquire: pairs with `Release::owner`.
        let may_begin = || own.state.load(Ordering::Acquire) != waits;
        loop {
            // Acquire: pairs with `happened`.
            let seen = self.events.load(Ordering::Acquire);
            if may_begin() {
                break;
            }
            if self.build(seat, false) {
                continue;
            }
            let in_time =
                wait_until(suspender, || may_begin() || self.events.load(Ordering::Acquire) != seen);
            let given_up = waits - WAITS + GIVEN_UP;
            // AcqRel: as in `Release::owner`.
            let gives_up =
                || own.state.compare_exchange(waits, given_up, Ordering::AcqRel, Ordering::Acquire);
            if !in_time && gives_up().is_ok() {
                return false;
            }
        }
        self.follow(seat);
        // Relaxed: read after the state that published it.
        seat.doing = Some(Doing::Executes(own.at.load(Ordering::Relaxed)));
        true
    }

    /// The worker's own call has ended.
    pub fn end_own(&self, seat: &mut Seat<J>) {
        if let Some(Doing::Executes(call)) = seat.doing.take() {
            self.end(seat, call, false, None);
            // It may not come again for long.
            seat.batch = None;
        }
    }

    /// Sleeps until there may be something to do. False if there will be nothing.
    fn sleep(&self, seat: &mut Seat<J>) -> bool {
        // What it has seen last may be used again meanwhile.
        seat.batch = None;
        let bed = seat.bed.get_or_insert_default();
        let look = || {
            let state = lock(&self.state);
            state.has_work().then_some(true).or(state.is_over().then_some(false))
        };
        self.sleepers.sleep(bed, look).unwrap_or(true)
    }
}
