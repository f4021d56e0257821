//! Calls in pieces: the site of the body, and the answers that it was given before.

use super::Attempt;
use crate::error::{Conflict, Error, Misuse, Result};
use crate::protocol::{Execution, Protocol};
use crate::seam::{Access, Body, Callee, Ended};
use crate::sync::note;
use crate::table::Span;
use std::sync::Arc;

/// Where an operation of a call gets its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::db) enum Answer {
    /// From the database.
    Live,
    /// From the database, to be remembered.
    Recorded,
    /// It was given before.
    Replayed,
}

impl<P: Protocol> Attempt<P> {
    /// The number of a registered procedure.
    #[inline]
    pub(super) fn number_of(&mut self, callee: Callee) -> Option<u16> {
        match callee {
            Callee::Number(number) => Some(number.0),
            Callee::Type(id) => {
                let cache = &mut self.worker.plan_cache;
                self.db.procedures.update(cache);
                cache.number_of(id)
            }
        }
    }

    /// The attempt that has begun is a call of a registered procedure. False if no procedure is registered
    /// under that number.
    pub(super) fn call(&mut self, number: u16) -> bool {
        let worker = &mut *self.worker;
        self.db.procedures.update(&mut worker.plan_cache);
        if worker.plan_cache.plan.of_type(number.into()).is_none() {
            return false;
        }
        if P::PIECES && self.db.procedures.execution != Execution::Whole {
            self.site = 0;
            worker.replay_log.clear();
            worker.placeholders_before = 0;
            if self.epoch.is_some() {
                let plan = &worker.plan_cache.plan;
                let (planned, later) =
                    (plan.of_type(number.into()).map(Arc::clone), plan.later_of(number.into()));
                self.executed = self.db.procedures.execution;
                self.call_chopped(planned);
                if self.executed == Execution::Sequenced {
                    self.call_sequenced(later);
                }
            } else if P::call(&mut worker.local, &worker.plan_cache.plan, number.into()) {
                self.executed = Execution::Pieces;
            }
        }
        true
    }

    /// After an attempt of a call: adapts the plan to the conflicts that it met.
    #[inline(always)]
    pub(super) fn adapt(&mut self) {
        if P::PIECES
            && let Some((vertex, hot)) = P::hotness_hint(&mut self.worker.local)
        {
            self.db.procedures.adapt(&self.worker.plan_cache.plan, vertex, hot);
        }
    }

    /// Ends an execution of a call's body. Where a piece has failed, only that is executed again, as long as
    /// that is enough.
    pub(super) fn end_call(&mut self, body: Body) -> Result<Ended> {
        /// Failures of one attempt's pieces after which no other transaction may begin.
        const OFTEN: u32 = 32;
        if P::PIECES && self.announces() {
            self.announce(matches!(body, Body::Done { .. }));
            return Ok(Ended::Again);
        }
        let conflict = match body {
            Body::Done { .. } => match self.finish() {
                Ok(()) => return self.commit_attempt().map(|()| self.committed()),
                Err(Error::Conflict(conflict)) => conflict,
                Err(error) => return Err(self.give_up(error)),
            },
            Body::Gave(Error::Conflict(conflict)) => conflict,
            // The decision may rest on a state that never was: then it is a conflict after all (X8).
            Body::Gave(error) => match self.validate_reads() {
                Ok(()) => return Err(self.give_up(error)),
                Err(conflict) => conflict,
            },
            Body::Panicked => match self.validate_reads() {
                Ok(()) => {
                    self.abort_attempt();
                    return Ok(Ended::Panics);
                }
                Err(conflict) => conflict,
            },
        };
        if !self.retry_piece(conflict) {
            return Err(self.give_up(Error::Conflict(conflict)));
        }
        self.failures += 1;
        if self.failures == OFTEN {
            self.hold_gate();
        }
        self.pause_before(self.failures);
        Ok(Ended::Again)
    }

    /// After a conflict in a call: true if its body is to be executed again, with the pieces that stand.
    #[cold]
    fn retry_piece(&mut self, conflict: Conflict) -> bool {
        let worker = &mut *self.worker;
        match self.executed {
            Execution::Whole => return false,
            Execution::Pieces if !P::retry_piece(&mut worker.local, conflict) => return false,
            Execution::Pieces => {
                let now = self.db.clock.now();
                for at in worker.placeholders_before..worker.placeholders.len() {
                    worker.give_up_placeholder(at, now);
                }
                worker.placeholders.truncate(worker.placeholders_before);
                worker.scanned = None;
                worker.ahead.clear();
                worker.writes.rollback_to_savepoint();
                worker.replay_log.rollback_to_savepoint();
            }
            Execution::Chopped | Execution::Sequenced => self.retry_piece_chopped(),
        }
        note(|| format!("{conflict}; executes its piece again"));
        self.failed = false;
        self.site = 0;
        self.db.counters.piece_retry(self.worker.number);
        true
    }

    /// Ends the last piece of a call.
    #[inline]
    fn finish(&mut self) -> Result<()> {
        match self.executed {
            Execution::Whole => Ok(()),
            Execution::Pieces => Ok(P::finish(&mut self.worker.local, &mut self.worker.writes)?),
            _ if self.failed => Err(Misuse::Failed.into()),
            Execution::Chopped => self.commit_piece(),
            Execution::Sequenced => self.commit_phase(),
        }
    }

    /// Before each operation.
    #[inline(always)]
    pub(super) fn enter_site(&mut self, site: u16) -> Result<Answer> {
        if P::PIECES && self.called {
            P::site(&mut self.worker.local, site);
            if self.executed != Execution::Whole {
                return self.enter_site_in_call(site);
            }
        }
        Ok(Answer::Live)
    }

    /// As [`Self::enter_site`], for an access, which may be a part of the operation before.
    #[inline(always)]
    pub(super) fn enter_access(&mut self, access: &Access<'_>) -> Result<Answer> {
        if access.part { Ok(Answer::Live) } else { self.enter_site(access.site) }
    }

    /// As [`Self::enter_site`], where the body was told an answer before.
    #[cold]
    fn replay_site(&mut self) -> Result<Answer> {
        let worker = &mut *self.worker;
        if !P::replay_site(&mut worker.local, self.site) {
            return Ok(Answer::Live);
        }
        match worker.replay_log.expect(self.site.into()) {
            Ok(()) => Ok(Answer::Replayed),
            Err(error) => Err(self.diverged(error)),
        }
    }

    fn enter_site_in_call(&mut self, site: u16) -> Result<Answer> {
        self.site = site;
        if self.executed != Execution::Pieces || self.worker.replay_log.repeats() {
            return self.enter_piece();
        }
        let worker = &mut *self.worker;
        match P::stays_in_piece(&mut worker.local, self.site) {
            Some(true) => {
                worker.replay_log.push(self.site.into());
                Ok(Answer::Recorded)
            }
            Some(false) => Ok(Answer::Live),
            None => self.enter_piece(),
        }
    }

    /// As [`Self::enter_site`], where it may be another piece. A function of its own, so that most accesses
    /// do without its stack.
    #[inline(never)]
    fn enter_piece(&mut self) -> Result<Answer> {
        match self.executed {
            Execution::Chopped => return self.enter_piece_chopped(),
            Execution::Sequenced => return self.enter_piece_sequenced(),
            Execution::Whole | Execution::Pieces => {}
        }
        if self.worker.replay_log.repeats() {
            return self.replay_site();
        }
        let worker = &mut *self.worker;
        let arrived = P::enter_piece(&mut worker.local, &mut worker.writes, self.site)?;
        if arrived.another_piece {
            worker.writes.save();
            worker.replay_log.save();
            worker.placeholders_before = worker.placeholders.len();
        }
        if !arrived.remembered {
            return Ok(Answer::Live);
        }
        worker.replay_log.push(self.site.into());
        Ok(Answer::Recorded)
    }

    /// The body did something else than before: because something that it read anew has changed, or because
    /// it is not a procedure.
    #[cold]
    fn diverged(&mut self, error: Error) -> Error {
        self.validate_reads().map_or_else(Error::from, |()| error)
    }

    /// Keeps the words of a row that were copied to `at` of the scratch buffer, or that there is none.
    #[inline]
    pub(super) fn remember(&mut self, answer: Answer, span: Span, at: Option<usize>) {
        if answer == Answer::Recorded {
            let worker = &mut *self.worker;
            worker.replay_log.push(at.is_some().into());
            if let Some(at) = at {
                worker.replay_log.extend(worker.writes.scratch(at + span.start, span.len()));
            }
        }
    }

    /// Copies the row that was told before to the end of the scratch buffer. Returns where; `None` if there
    /// was no row.
    #[cold]
    pub(super) fn replay_row(&mut self, span: Span) -> Result<Option<usize>> {
        let worker = &mut *self.worker;
        if worker.replay_log.next()? == 0 {
            return Ok(None);
        }
        let at = worker.writes.reserve(span.end);
        let words = worker.replay_log.next_words(span.len())?;
        worker.writes.scratch(at + span.start, span.len()).copy_from_slice(words);
        Ok(Some(at))
    }
}
