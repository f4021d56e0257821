//! Deterministic execution: one call after another decides what it will access, and all of them do it at once
//! (Faleiro et al. 2014; the comparator of IC3 §6.4).
//!
//! **Mechanism.** Calls take turns in the order in which they begin, and that is the serial order. A call with its turn
//! executes its *now phase*: what comes before the mark `#[later]`. That commits on its own. Which rows the rest will
//! access, its *later phase*, does not depend on what the rest reads; so the body runs once more without effect,
//! and each row that it comes to is *announced* ([`Footprint`]). Then the next call has its turn. The later phase
//! executes when all those before it have ended that announced something which conflicts; so does an access of a now
//! phase, which waits with the turn. Nobody waits for who comes after him, so there is no deadlock, and nothing
//! that was announced aborts.
//!
//! A procedure without the mark is all now. Where the body gives up while it announces (a row is missing which one
//! before it will insert), its later phase is executed with the turn, after all before it have ended.
//!
//! **Phases.** Each is a transaction of the protocol and commits; what conflicts is kept apart, so hardly one fails, and
//! it is executed again if so. That those of one call are of one epoch, and that closures run while no call does, is
//! as in `db::chopping`.
//!
//! **Times.** The time of a call (`Session::last_commit`) is drawn with its turn, so that times follow the turns; its
//! later phase commits at a later one, which only the rows get. Who comes after a closure gets a time above its.
//!
//! **Where we leave the paper.** Its now phases are executed by a thread of their own, and its later phases by others,
//! some when somebody reads what they would have written, some never. Here a call is its session's from begin to end,
//! because its result is wanted. What a later phase accesses is found by the engine: in the paper each transaction
//! says it by hand. Keys that are not known before something is read then (of entries in secondary indexes that an
//! update moves or a deletion takes along) are awaited while the call has its turn.
//! Tests: `phases_*` of the conformance suite.

use super::Inner;
use super::attempt::{Answer, Attempt};
use super::footprint::{Announced, Footprint, Turn};
use crate::error::{Misuse, Result};
use crate::mutant::{Mutant, planted};
use crate::protocol::{Execution, Protocol};
use crate::stamp;
use crate::sync::{AtomicU64, Mutex, Ordering, Suspender, decided, lock, wait_until};
use crate::table::{GroupSet, Layout};
use crossbeam_utils::CachePadded;

/// Whose turn it is, and what was announced.
pub(super) struct Sequencer {
    /// The last turn that was drawn, and the one that is held.
    drawn: CachePadded<AtomicU64>,
    held: CachePadded<AtomicU64>,
    /// The greatest time of a call's now phase, or of a closure.
    last: CachePadded<AtomicU64>,
    /// By worker, the turn of its last call that has ended. Turns begin with 1.
    ended: Box<[CachePadded<AtomicU64>]>,
    /// Locked for moments, mostly by who has the turn.
    announced: Mutex<Announced>,
}

impl Sequencer {
    /// Of so many workers.
    pub fn new(workers: usize) -> Self {
        let word = |value| CachePadded::new(AtomicU64::new(value));
        Self {
            drawn: word(0),
            held: word(1),
            last: word(0),
            ended: (0..workers).map(|_| word(0)).collect(),
            announced: Mutex::new(Announced::new(workers)),
        }
    }

    /// Waits for the caller's turn.
    fn take(&self, worker: usize, suspender: Option<&Suspender>) -> Turn {
        // Relaxed: the number only says who is next; what others did is seen by what follows.
        let number = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
        // Acquire: what those before did with their turns happens before this.
        wait_until(suspender, || self.held.load(Ordering::Acquire) == number);
        Turn { worker, number }
    }

    /// The next has its turn.
    fn give(&self, turn: Turn) {
        // Release: pairs with `take`.
        self.held.store(turn.number + 1, Ordering::Release);
    }

    fn end(&self, turn: Turn) {
        // Release: what the call did happens before whatever waits for its end.
        self.ended[turn.worker].store(turn.number, Ordering::Release);
    }

    /// Whether a call that has announced something has not ended.
    fn runs(&self, turn: Turn) -> bool {
        // Acquire: pairs with `end`.
        self.ended[turn.worker].load(Ordering::Acquire) < turn.number
    }

    /// Waits until these calls have ended, and forgets them.
    fn await_end(&self, turns: &mut Vec<Turn>, suspender: Option<&Suspender>) {
        for turn in turns.drain(..) {
            wait_until(suspender, || !self.runs(turn));
        }
    }
}

/// How far a call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// It has its turn, and does what is before the mark.
    #[default]
    Now,
    /// It has its turn, and says what it will access.
    Announcing,
    /// It does what it has announced.
    Later,
    /// It has its turn, and is the only one that runs.
    Alone,
}

/// A call that is executed in two phases.
#[derive(Default)]
pub(super) struct Sequenced {
    /// The site at which its later phase begins.
    later: Option<u16>,
    phase: Phase,
    turn: Option<Turn>,
    /// It has its turn still.
    holds: bool,
    /// What it commits has a time above this.
    pub after: u64,
    /// Its own time, where something of it was written.
    time: u64,
    footprint: Footprint,
    /// Those whom it waits for.
    before: Vec<Turn>,
}

/// What is done to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meets {
    Reads,
    Writes,
    /// It is written, and what it holds says which entries of indexes are written with it.
    WritesEntries,
}

impl<P: Protocol> Attempt<P> {
    /// The call that has begun is of a type whose later phase begins at that site.
    pub(super) fn call_sequenced(&mut self, later: Option<u16>) {
        let turn = self.db.procedures.sequencer.take(self.worker.number, self.worker.suspender.as_ref());
        let Sequenced { footprint, before, .. } = std::mem::take(&mut self.sequenced);
        let (turn, holds) = (Some(turn), true);
        self.sequenced = Sequenced { later, turn, holds, footprint, before, ..Sequenced::default() };
        self.sequenced.footprint.clear();
        // Relaxed, as all of these: whoever had the turn before has stored it, or a closure before any call began.
        self.sequenced.after = self.db.procedures.sequencer.last.load(Ordering::Relaxed);
    }

    /// Commits the phase that runs.
    pub(super) fn commit_phase(&mut self) -> Result<()> {
        self.commit_piece()?;
        let Sequenced { phase, after, time, .. } = &mut self.sequenced;
        if *phase == Phase::Now {
            // Without a write it has no time of its own yet.
            let floor = self.epoch.map_or(0, stamp::floor);
            *time = if self.chopped.wrote { self.worker.last_commit } else { floor.max(*after) + 1 };
            *after = *time;
            self.db.procedures.sequencer.last.store(*time, Ordering::Relaxed);
        } else if self.chopped.wrote {
            self.worker.last_commit = *time;
            decided(*time);
        }
        Ok(())
    }

    /// A closure has committed.
    #[inline]
    pub(super) fn pass_time(&self) {
        if self.db.procedures.execution == Execution::Sequenced {
            // Relaxed: the gate's accesses order it before any call.
            self.db.procedures.sequencer.last.fetch_max(self.worker.last_commit, Ordering::Relaxed);
        }
    }

    /// Ends the call: the next may have its turn, and whoever waits for it goes on.
    pub(super) fn end_sequenced(&mut self) {
        let sequencer = &self.db.procedures.sequencer;
        self.sequenced.after = 0;
        if let Some(turn) = self.sequenced.turn.take() {
            sequencer.end(turn);
            if std::mem::take(&mut self.sequenced.holds) {
                sequencer.give(turn);
            }
        }
    }

    /// Before each operation of a call.
    pub(super) fn arrive_sequenced(&mut self) -> Result<Answer> {
        let site = self.site;
        let recall = &mut self.worker.recall;
        if recall.repeats() {
            recall.expect(site.into())?;
            return Ok(Answer::Old);
        }
        self.chopped.site(site)?;
        let Sequenced { later, phase, .. } = &self.sequenced;
        if *phase != Phase::Now {
            return Ok(Answer::New);
        }
        if later.is_some_and(|later| site >= later) {
            self.commit_phase()?;
            self.begin_writes(0);
            self.sequenced.phase = Phase::Announcing;
            return Ok(Answer::New);
        }
        recall.push(site.into());
        Ok(Answer::Remembered)
    }

    /// Whether its body runs to announce what it will access.
    #[inline]
    pub(super) fn announces(&self) -> bool {
        self.executed == Execution::Sequenced && self.sequenced.phase == Phase::Announcing
    }

    /// Its body has run so, to its end if it is `complete`. Afterwards it runs again, and does what is left to do.
    pub(super) fn announce(&mut self, complete: bool) {
        self.abort_writes();
        self.worker.recall.go_back();
        self.site = 0;
        self.failed = false;
        let Sequenced { turn, holds, footprint, before, phase, .. } = &mut self.sequenced;
        let sequencer = &self.db.procedures.sequencer;
        if let Some(turn) = *turn {
            let mut announced = lock(&sequencer.announced);
            let runs = |turn| sequencer.runs(turn);
            if complete {
                announced.announce(turn, footprint, runs, before);
                drop(announced);
                *holds = false;
                sequencer.give(turn);
            } else {
                announced.all(runs, before);
            }
        }
        *phase = if complete { Phase::Later } else { Phase::Alone };
        if planted(Mutant::SequencedLaterNotAwaited) {
            before.clear();
        }
        sequencer.await_end(before, self.worker.suspender.as_ref());
        self.begin_writes(0);
    }

    /// A call comes to column groups of a row.
    pub(super) fn meets_row(
        &mut self,
        layout: &'static Layout,
        relation: usize,
        key: &[u64],
        groups: GroupSet,
        meets: Meets,
    ) -> Result<()> {
        // Whoever only asks whether a row exists reads what an insertion writes.
        let (groups, writes) = (groups.max(1), meets != Meets::Reads);
        let Sequenced { phase, footprint, before, .. } = &mut self.sequenced;
        if *phase == Phase::Announcing {
            footprint.add_point(relation, key, groups, writes);
        }
        if *phase == Phase::Now || *phase == Phase::Announcing && meets == Meets::WritesEntries {
            let sequencer = &self.db.procedures.sequencer;
            let runs = |turn| sequencer.runs(turn);
            lock(&sequencer.announced).before_point(relation, key, groups, writes, runs, before);
            if planted(Mutant::SequencedNowNotAwaited) {
                before.clear();
            }
            sequencer.await_end(before, self.worker.suspender.as_ref());
        }
        if *phase == Phase::Later && !footprint.has_point(relation, key, groups, writes) {
            return Err(unforeseen(layout, key));
        }
        Ok(())
    }

    /// A call begins to scan these keys.
    pub(super) fn meets_keys(
        &mut self,
        layout: &'static Layout,
        relation: usize,
        low: &[u64],
        high: &[u64],
    ) -> Result<()> {
        let Sequenced { phase, footprint, .. } = &mut self.sequenced;
        match phase {
            Phase::Announcing => footprint.add_range(relation, low, high),
            Phase::Later if !footprint.has_range(relation, low, high) => return Err(unforeseen(layout, low)),
            _ => {}
        }
        Ok(())
    }
}

/// A scan of a now phase has found what it found of these keys. True if somebody has ended since for whom it had
/// to wait: then it must look again.
pub(super) fn awaits_keys<P: Protocol>(
    db: &Inner<P>,
    sequenced: &mut Sequenced,
    suspender: Option<&Suspender>,
    relation: usize,
    low: &[u64],
    high: &[u64],
) -> bool {
    if sequenced.phase != Phase::Now {
        return false;
    }
    let (sequencer, before) = (&db.procedures.sequencer, &mut sequenced.before);
    let runs = |turn| sequencer.runs(turn);
    lock(&sequencer.announced).before_range(relation, low, high, false, runs, before);
    if planted(Mutant::SequencedNowNotAwaited) {
        before.clear();
    }
    let awaits = !before.is_empty();
    sequencer.await_end(before, suspender);
    awaits
}

#[cold]
fn unforeseen(layout: &'static Layout, key: &[u64]) -> crate::error::Error {
    Misuse::Unforeseen { table: layout.name, key: format!("{key:x?}") }.into()
}
