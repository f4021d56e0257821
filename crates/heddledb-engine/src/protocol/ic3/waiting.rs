//! On which transactions another depends, and how it waits for them: for their ranks before a piece is
//! entered, for their decisions before it commits, and for its turn where a piece has failed.
//!
//! Why these waits end is in the module's header. Where the order of ranks does not say so, under DATM and
//! under a transitional plan, they end with a time-out.

use super::piece::Place;
use super::slots::{Id, Progress};
use super::{Interleaving, Local, TURNS, datm, transition};
use crate::error::Conflict;
use crate::mutant::{Mutant, planted};
use crate::sync::{Course, MODEL, Ordering, Wait, course, now_ns, wait_until};

/// A transaction that this one depends on.
#[derive(Clone, Copy)]
pub(super) struct Dependency {
    pub(super) id: Id,
    /// We have seen what it wrote: if it aborts, so must we. Otherwise it only comes first.
    pub(super) forces: bool,
}

impl Local {
    /// Waits until every transaction that this one depends on is past a piece's place, or has ended.
    pub(super) fn wait_for_rank(&mut self, place: Place) -> Result<(), Conflict> {
        if self.is_free() || planted(Mutant::Ic3RankNotAwaited) {
            return Ok(());
        }
        let mut at = 0;
        while at < self.dependencies.len() {
            let Dependency { id, .. } = self.dependencies[at];
            let by_rank = self.options.rendezvous || self.has_edge(place.piece, id);
            let there = |local: &Self, progress: Progress| match progress {
                Progress::Running(executed) => by_rank && local.is_past(id, executed, place),
                _ => true,
            };
            match self.wait_for(id, there)? {
                Progress::Running(_) => at += 1,
                how => self.ended(at, how)?,
            }
        }
        Ok(())
    }

    /// Waits until every transaction that this one depends on has decided to commit, or ended.
    pub(super) fn wait_for_decisions(&mut self) -> Result<(), Conflict> {
        self.wait_for_all(|progress| !matches!(progress, Progress::Running(_)))
    }

    /// Waits until every transaction that this one depends on has ended.
    pub(super) fn wait_for_ends(&mut self) -> Result<(), Conflict> {
        self.wait_for_all(Progress::has_ended)
    }

    /// Waits until every transaction that this one depends on is so far, and forgets the dependency.
    fn wait_for_all(&mut self, there: impl Fn(Progress) -> bool) -> Result<(), Conflict> {
        if planted(Mutant::Ic3CommitOrderIgnored) {
            return Ok(());
        }
        while let Some(Dependency { id, .. }) = self.dependencies.last().copied() {
            let how = self.wait_for(id, |_, progress| there(progress))?;
            self.ended(self.dependencies.len() - 1, how)?;
        }
        Ok(())
    }

    /// Waits until another transaction is so far.
    #[inline]
    fn wait_for(&mut self, id: Id, there: impl Fn(&Self, Progress) -> bool) -> Result<Progress, Conflict> {
        let mut progress = self.shared.slots.progress(id);
        if there(self, progress) {
            return Ok(progress);
        }
        let patience_ns = match (self.options.interleaving, self.call.is_transitional) {
            (Interleaving::Free, _) => datm::PATIENCE_NS,
            (Interleaving::Constrained, true) => transition::PATIENCE_NS,
            (Interleaving::Constrained, false) => {
                let mut watch = Watch::default();
                let in_time = wait_until(self.suspender.as_ref(), || {
                    progress = self.shared.slots.progress(id);
                    there(self, progress) || self.is_doomed() || watch.goes_on(self, id)
                });
                return match there(self, progress) {
                    true => Ok(progress),
                    false => Err(self.doom(if in_time { Conflict::Cascade } else { Conflict::TimedOut })),
                };
            }
        };
        self.wait_not_for_ever(patience_ns, id, there)
    }

    /// Waits until another transaction is so far, for a limited time: up to twice as long by chance, so that
    /// of two that wait for each other one gives up first.
    fn wait_not_for_ever(
        &mut self,
        patience_ns: u64,
        id: Id,
        there: impl Fn(&Self, Progress) -> bool,
    ) -> Result<Progress, Conflict> {
        /// The limit in rounds, where time stands still.
        const ROUNDS: u32 = 24;
        let patience_ns = patience_ns + self.random.below(patience_ns);
        let (begun, mut wait) = (now_ns(), Wait::new());
        loop {
            let progress = self.shared.slots.progress(id);
            if there(self, progress) {
                return Ok(progress);
            }
            if self.is_doomed() {
                return Err(self.doom(Conflict::Cascade));
            }
            if now_ns() - begun > patience_ns || (MODEL && wait.rounds() > ROUNDS) {
                return Err(self.doom(Conflict::TimedOut));
            }
            match &self.suspender {
                Some(suspender) => suspender.let_others_run(&mut wait),
                None => wait.pause(),
            }
        }
    }

    /// A transaction that this one depends on has decided, or ended.
    #[inline]
    fn ended(&mut self, at: usize, how: Progress) -> Result<(), Conflict> {
        let dependency = self.dependencies.swap_remove(at);
        if how == Progress::Aborted && dependency.forces && !planted(Mutant::Ic3AbortNotFollowed) {
            return Err(self.doom(Conflict::Cascade));
        }
        Ok(())
    }

    /// The piece that runs has failed before: waits for its rank, then for its turn.
    #[cold]
    pub(super) fn take_turn(&mut self) -> Result<(), Conflict> {
        self.piece.has_failed = false;
        let Some(place) = self.piece.place else { return Ok(()) };
        // Without rendezvous pieces, and between two plans, it may have to wait for its rank; without ranks
        // there is no turn.
        if !self.options.rendezvous || self.is_free() || self.call.is_transitional {
            return Ok(());
        }
        self.wait_for_rank(place)?;
        let at = place.rank as usize % TURNS;
        let turn = &self.shared.turns[at];
        loop {
            // Relaxed: only the turn depends on it; nothing else is published here.
            let in_time =
                wait_until(self.suspender.as_ref(), || turn.load(Ordering::Relaxed) == 0 || self.is_doomed());
            if self.is_doomed() {
                return Err(self.doom(Conflict::Cascade));
            }
            if !in_time {
                return Err(self.doom(Conflict::TimedOut));
            }
            if turn.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                break;
            }
        }
        self.piece.turn = Some(at);
        Ok(())
    }

    /// Gives the turn away, if this transaction has it.
    #[inline]
    pub(super) fn leave_turn(&mut self) {
        if let Some(turn) = self.piece.turn.take() {
            self.shared.turns[turn].store(0, Ordering::Relaxed);
        }
    }

    /// Whether a piece has a C-edge with a transaction's type.
    fn has_edge(&self, piece: u16, id: Id) -> bool {
        let of_type = self.shared.slots.of_type(id);
        self.call
            .of_type
            .as_ref()
            .is_some_and(|plan| plan.pieces[piece as usize].direct.get(of_type) == Some(&true))
    }

    /// Notes that another transaction comes before this one.
    #[inline]
    pub(super) fn depend(&mut self, id: Id, forces: bool) {
        if id == self.id() {
            return;
        }
        match self.dependencies.iter_mut().find(|known| known.id == id) {
            Some(known) => known.forces |= forces,
            None => {
                course(self.id().bits(), Course::After(id.bits()));
                self.dependencies.push(Dependency { id, forces });
            }
        }
    }
}

/// Watches a wait for another transaction. In debug builds a wait that lasts for seconds prints which
/// transaction waits for which.
#[derive(Default)]
struct Watch {
    looks: u32,
    since: u64,
    told: bool,
}

impl Watch {
    /// False, always: the wait goes on.
    #[inline]
    fn goes_on(&mut self, local: &Local, id: Id) -> bool {
        if cfg!(debug_assertions) && !crate::sync::MODEL && !cfg!(feature = "simulation") {
            self.look(local, id);
        }
        false
    }

    #[cold]
    fn look(&mut self, local: &Local, id: Id) {
        const LONG_NS: u64 = 5_000_000_000;
        self.looks = self.looks.wrapping_add(1);
        if self.told || !self.looks.is_multiple_of(1 << 10) {
            return;
        }
        let now = now_ns();
        if self.since == 0 {
            self.since = now;
        }
        if now - self.since > LONG_NS {
            let slots = &local.shared.slots;
            eprintln!(
                "heddledb: {:?}, in piece and rank {:?}, has waited for {id:?} for 5 s; these run: {:?}",
                local.id(),
                local.piece.place,
                (0..slots.len()).filter_map(|slot| slots.running(slot)).collect::<Vec<_>>()
            );
            self.told = true;
        }
    }
}
