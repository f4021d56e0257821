//! Calls in pieces: where the body stands, and what it was told before.

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
    New,
    /// From the database, to be remembered.
    Remembered,
    /// It was given before.
    Old,
}

impl<P: Protocol> Attempt<P> {
    /// The number of a registered procedure.
    #[inline]
    pub(super) fn number_of(&mut self, callee: Callee) -> Option<u16> {
        match callee {
            Callee::Number(number) => Some(number.0),
            Callee::Type(id) => {
                let known = &mut self.worker.known;
                self.db.procedures.update(known);
                known.number_of(id)
            }
        }
    }

    /// The attempt that has begun is a call of a registered procedure. False if no procedure is registered
    /// under that number.
    pub(super) fn call(&mut self, number: u16) -> bool {
        let worker = &mut *self.worker;
        self.db.procedures.update(&mut worker.known);
        if worker.known.plan.of_type(number.into()).is_none() {
            return false;
        }
        if P::PIECES && self.db.procedures.execution != Execution::Whole {
            self.site = 0;
            worker.recall.clear();
            worker.placeholders_before = 0;
            if self.epoch.is_some() {
                let plan = &worker.known.plan;
                let (planned, later) =
                    (plan.of_type(number.into()).map(Arc::clone), plan.later_of(number.into()));
                self.executed = self.db.procedures.execution;
                self.call_chopped(planned);
                if self.executed == Execution::Sequenced {
                    self.call_sequenced(later);
                }
            } else if P::call(&mut worker.local, &worker.known.plan, number.into()) {
                self.executed = Execution::Pieces;
            }
        }
        true
    }

    /// After an attempt of a call: lets the plan follow what was met.
    #[inline(always)]
    pub(super) fn adapt(&mut self) {
        if P::PIECES
            && let Some((vertex, hot)) = P::wish(&mut self.worker.local)
        {
            self.db.procedures.adapt(&self.worker.known.plan, vertex, hot);
        }
    }

    /// Ends an execution of a call's body. Where a piece has failed, only that is executed again, as long as that is
    /// enough.
    pub(super) fn end_call(&mut self, body: Body) -> Result<Ended> {
        /// Failures of one attempt's pieces after which nobody else may begin.
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
        if !self.again(conflict) {
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
    fn again(&mut self, conflict: Conflict) -> bool {
        let worker = &mut *self.worker;
        match self.executed {
            Execution::Whole => return false,
            Execution::Pieces if !P::again(&mut worker.local, conflict) => return false,
            Execution::Pieces => {
                let now = self.db.clock.now();
                for at in worker.placeholders_before..worker.placeholders.len() {
                    worker.give_up_placeholder(at, now);
                }
                worker.placeholders.truncate(worker.placeholders_before);
                worker.scanned = None;
                worker.writes.go_back();
                worker.recall.go_back();
            }
            Execution::Chopped | Execution::Sequenced => self.again_chopped(),
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
    pub(super) fn arrive(&mut self, site: u16) -> Result<Answer> {
        if P::PIECES && self.called {
            P::at(&mut self.worker.local, site);
            if self.executed != Execution::Whole {
                return self.arrive_at(site);
            }
        }
        Ok(Answer::New)
    }

    /// As [`Self::arrive`], for an access, which may be a part of the operation before.
    #[inline(always)]
    pub(super) fn arrive_for(&mut self, access: &Access<'_>) -> Result<Answer> {
        if access.part { Ok(Answer::New) } else { self.arrive(access.site) }
    }

    /// The same where the body was told an answer before.
    #[cold]
    fn arrive_again(&mut self) -> Result<Answer> {
        let worker = &mut *self.worker;
        if !P::arrive_again(&mut worker.local, self.site) {
            return Ok(Answer::New);
        }
        match worker.recall.expect(self.site.into()) {
            Ok(()) => Ok(Answer::Old),
            Err(error) => Err(self.diverged(error)),
        }
    }

    fn arrive_at(&mut self, site: u16) -> Result<Answer> {
        self.site = site;
        if self.executed != Execution::Pieces || self.worker.recall.repeats() {
            return self.arrive_elsewhere();
        }
        let worker = &mut *self.worker;
        match P::stays(&mut worker.local, self.site) {
            Some(true) => {
                worker.recall.push(self.site.into());
                Ok(Answer::Remembered)
            }
            Some(false) => Ok(Answer::New),
            None => self.arrive_elsewhere(),
        }
    }

    /// The same where it may be another piece. Apart, so that most accesses do without its stack.
    #[inline(never)]
    fn arrive_elsewhere(&mut self) -> Result<Answer> {
        match self.executed {
            Execution::Chopped => return self.arrive_chopped(),
            Execution::Sequenced => return self.arrive_sequenced(),
            Execution::Whole | Execution::Pieces => {}
        }
        if self.worker.recall.repeats() {
            return self.arrive_again();
        }
        let worker = &mut *self.worker;
        let arrived = P::arrive(&mut worker.local, &mut worker.writes, self.site)?;
        if arrived.another_piece {
            worker.writes.save();
            worker.recall.save();
            worker.placeholders_before = worker.placeholders.len();
        }
        if !arrived.remembered {
            return Ok(Answer::New);
        }
        worker.recall.push(self.site.into());
        Ok(Answer::Remembered)
    }

    /// The body did something else than before: because something has changed that it read anew, or because
    /// it is not a procedure.
    #[cold]
    fn diverged(&mut self, error: Error) -> Error {
        self.validate_reads().map_or_else(Error::from, |()| error)
    }

    /// Keeps the words of a row that were copied to `at` of the scratch buffer, or that there is none.
    #[inline]
    pub(super) fn remember(&mut self, answer: Answer, span: Span, at: Option<usize>) {
        if answer == Answer::Remembered {
            let worker = &mut *self.worker;
            worker.recall.push(at.is_some().into());
            if let Some(at) = at {
                worker.recall.extend(worker.writes.scratch(at + span.start, span.len()));
            }
        }
    }

    /// Copies the row that was told before to the end of the scratch buffer. Returns where; `None` if there was no
    /// row.
    #[cold]
    pub(super) fn recall(&mut self, span: Span) -> Result<Option<usize>> {
        let worker = &mut *self.worker;
        if worker.recall.next()? == 0 {
            return Ok(None);
        }
        let at = worker.writes.reserve(span.end);
        let words = worker.recall.next_words(span.len())?;
        worker.writes.scratch(at + span.start, span.len()).copy_from_slice(words);
        Ok(Some(at))
    }
}
