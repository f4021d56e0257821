//! Calls: the site of the body, and the answers that it was given before.

use super::modes::{self, Answer, Then};
use super::{Attempt, OFTEN};
use crate::error::{Conflict, Error, Result};
use crate::protocol::{Execution, Protocol};
use crate::seam::{Access, Body, Callee, Ended};
use crate::sync::{attempt_ended, note};
use crate::table::Span;

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
        if P::REGIONS {
            P::procedure(&mut worker.local, Some(number));
        }
        modes::call(self, number.into());
        true
    }

    /// A call has begun: no operation of it has an answer yet.
    pub(super) fn forget_answers(&mut self) {
        self.worker.replay_log.clear();
        self.worker.placeholders_before = 0;
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
        let conflict = match modes::end_body(self, &body) {
            Ok(Then::Again) => return Ok(Ended::Again),
            Ok(Then::Over) => {
                self.end_attempt();
                attempt_ended(true);
                return Ok(Ended::Announced);
            }
            Err(Error::Conflict(conflict)) => conflict,
            // As below: it may rest on a state that never was.
            Err(error) => match self.validate_reads() {
                Ok(()) => return Err(self.give_up(error)),
                Err(conflict) => conflict,
            },
            Ok(Then::Commit) => match body {
                Body::Done { .. } => return self.commit_attempt().map(|()| self.committed()),
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
            },
        };
        if !self.retry_piece(conflict) {
            return Err(self.give_up(Error::Conflict(conflict)));
        }
        // Of regions few fail in turn, and who counts them has paused.
        if conflict != Conflict::Region {
            self.failures += 1;
            if self.failures == OFTEN {
                self.hold_gate();
            }
            self.pause_before(self.failures);
        }
        Ok(Ended::Again)
    }

    /// After a conflict in a call: true if its body is to be executed again, with the pieces that stand.
    #[cold]
    fn retry_piece(&mut self, conflict: Conflict) -> bool {
        // Where parts of it have committed it goes on, whatever the time.
        let overdue = self.executed == Execution::Pieces && self.is_overdue();
        if overdue || !modes::retry(self, conflict) {
            return false;
        }
        note(|| format!("{conflict}; executes its piece again"));
        self.failed = false;
        self.db.counters.piece_retry(self.worker.number);
        true
    }

    /// Before each operation.
    #[inline(always)]
    pub(super) fn enter_site(&mut self, site: u16) -> Result<Answer> {
        let mut answer = Answer::Live;
        if P::PIECES && self.called {
            P::site(&mut self.worker.local, site);
            self.answer = modes::enter(self, site)?;
            answer = self.answer;
        }
        if P::REGIONS && answer != Answer::Replayed {
            let worker = &mut *self.worker;
            if !P::in_region(&worker.local) {
                worker.arena.stock_up();
            }
            P::enter(&mut worker.local, self.db.env(worker.number, self.isolation))?;
        }
        Ok(answer)
    }

    /// As [`Self::enter_site`], for an access, which may be a part of the operation before.
    #[inline(always)]
    pub(super) fn enter_access(&mut self, access: &Access<'_>) -> Result<Answer> {
        if access.part { Ok(Answer::Live) } else { self.enter_site(access.site) }
    }

    /// Keeps the words of a row that were copied to `at` of the scratch buffer, or that there is none.
    #[inline(always)]
    pub(super) fn remember(&mut self, answer: Answer, span: Span, at: Option<usize>) {
        if answer == Answer::Recorded {
            self.record_row(span, at);
        }
    }

    #[inline(never)]
    fn record_row(&mut self, span: Span, at: Option<usize>) {
        let worker = &mut *self.worker;
        let words = at.map(|at| &*worker.writes.scratch(at + span.start, span.len()));
        worker.replay_log.push_row(words);
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
