//! Deterministic execution: one call after another decides what it will access, and all of them do it at once
//! (Faleiro et al. 2014; the comparator of IC3 §6.4).
//!
//! **Mechanism.** Calls take turns in the order in which they begin, and that is the serial order. A call
//! with its turn executes its *now phase*: what comes before the mark `#[later]`. That commits on its own.
//! Which rows the rest will access, its *later phase*, does not depend on what the rest reads; so the body
//! runs once more without effect, and each row that it would access is *announced* ([`Footprint`]). Then the
//! next call has its turn. The later phase executes when all earlier calls that announced a conflicting
//! access have ended; an access of a now phase waits for them likewise, holding the turn. No call waits for a
//! later one, so there is no deadlock, and nothing that was announced aborts.
//!
//! A procedure without the mark is all now phase. Where the body gives up while it announces (a row is
//! missing that an earlier call will insert), its later phase executes while the call holds the turn, after
//! all earlier calls have ended.
//!
//! **Phases.** Each is a transaction of the protocol and commits; conflicting phases are kept apart, so
//! hardly one fails; one that does is executed again. As in `chopping`, the phases of one call are of one
//! epoch, and closures run while no call does.
//!
//! **Times.** The time of a call (`Session::last_commit`) is drawn with its turn, so that times follow the
//! turns; its later phase commits at a later time, which only the rows get. A call after a closure gets a
//! time above the closure's.
//!
//! **Where we leave the paper.** Its now phases are executed by a thread of their own, and its later phases
//! by others, some when another transaction reads what they would have written, some never. Here a session
//! executes its call from begin to end, because the result is wanted. The engine finds what a later phase
//! accesses: in the paper each transaction declares it by hand. Keys that are known only after the later
//! phase has read something (of entries in secondary indexes that an update moves or a deletion takes along)
//! are awaited while the call holds its turn. Tests: `phases_*` of the conformance suite.

use super::{Answer, Attempt};
use crate::db::Inner;
use crate::db::footprint::{Footprint, Turn};
use crate::error::{Misuse, Result};
use crate::mutant::{Mutant, planted};
use crate::protocol::{Execution, Protocol};
use crate::stamp;
use crate::sync::{Ordering, Suspender, decided, lock};
use crate::table::{GroupSet, Layout};

/// How far a call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The call has the turn, and executes what is before the mark.
    #[default]
    Now,
    /// It has the turn, and announces what it will access.
    Announcing,
    /// It executes what it has announced.
    Later,
    /// It has the turn, and is the only one that runs.
    Alone,
}

/// A call that is executed in two phases.
#[derive(Default)]
pub(super) struct Sequenced {
    /// The site at which its later phase begins.
    later: Option<u16>,
    phase: Phase,
    turn: Option<Turn>,
    /// It still has the turn.
    holds: bool,
    /// Its commits have times above this.
    pub after: u64,
    /// Its own time, if it has written anything.
    time: u64,
    footprint: Footprint,
    /// The calls that it waits for.
    before: Vec<Turn>,
}

/// What an access does to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessMode {
    Reads,
    Writes,
    /// It is written, and its value decides which entries of indexes are written with it.
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
        // Relaxed, as all of these: the call that had the turn before has stored it, or a closure before any
        // call began.
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

    /// Ends the call: the next may have its turn, and calls that wait for this one go on.
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
    pub(super) fn enter_piece_sequenced(&mut self) -> Result<Answer> {
        let site = self.site;
        let replay_log = &mut self.worker.replay_log;
        if replay_log.repeats() {
            replay_log.expect(site.into())?;
            return Ok(Answer::Replayed);
        }
        self.chopped.site(site)?;
        let Sequenced { later, phase, .. } = &self.sequenced;
        if *phase != Phase::Now {
            return Ok(Answer::Live);
        }
        if later.is_some_and(|later| site >= later) {
            self.commit_phase()?;
            self.begin_writes(0);
            self.sequenced.phase = Phase::Announcing;
            return Ok(Answer::Live);
        }
        replay_log.push(site.into());
        Ok(Answer::Recorded)
    }

    /// Whether the body runs to announce what the call will access.
    #[inline]
    pub(super) fn announces(&self) -> bool {
        self.executed == Execution::Sequenced && self.sequenced.phase == Phase::Announcing
    }

    /// The body has run to announce, to its end if `complete`. It runs again after this, and does what is
    /// left to do.
    pub(super) fn announce(&mut self, complete: bool) {
        self.abort_writes();
        self.worker.replay_log.rollback_to_savepoint();
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

    /// Before a call accesses column groups of a row: announces that, waits, or checks that it was announced.
    pub(super) fn sequence_row(
        &mut self,
        layout: &'static Layout,
        relation: usize,
        key: &[u64],
        groups: GroupSet,
        mode: AccessMode,
    ) -> Result<()> {
        // An access that only asks whether a row exists reads what an insertion writes.
        let (groups, writes) = (groups.max(1), mode != AccessMode::Reads);
        let Sequenced { phase, footprint, before, .. } = &mut self.sequenced;
        if *phase == Phase::Announcing {
            footprint.add_point(relation, key, groups, writes);
        }
        if *phase == Phase::Now || *phase == Phase::Announcing && mode == AccessMode::WritesEntries {
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

    /// Before a call scans these keys: announces that, or checks that it was announced.
    pub(super) fn sequence_range(
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

/// After a scan of these keys in a now phase: waits for the calls that it conflicts with. True if there was
/// one: then the scan must look again.
pub(super) fn await_range<P: Protocol>(
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
