//! Taking back what was done: operations that are refused, and savepoints.
//!
//! Writes are taken back from the write set; the protocol keeps its locks. Reads are not taken back: the body has seen
//! them, and may act on them. To these belongs what a write has found that is no more, that there was a row, or none.
//! It was to be checked with the write, so it is read now, and checked as any read is.

use super::Attempt;
use super::modes::Answer;
use crate::access::{TakeBack, Write};
use crate::error::{Conflict, Misuse, Result};
use crate::mutant::{Mutant, planted};
use crate::protocol::{Intent, Protocol};
use crate::record::RecordData;
use crate::seam::{Refused, Savepoint};
use crate::sync::note;

impl<P: Protocol> Attempt<P> {
    /// The operation that has just been executed is answered with a misuse, and the attempt goes on.
    #[cold]
    pub(super) fn refuse_operation(&mut self, refused: Refused) -> Result<()> {
        note(|| format!("refuses: {refused:?}"));
        // The body goes another way than it would with another answer: see `modes::sequencing`.
        self.failed |= self.dry;
        match self.answer {
            // It was refused before, and taken back then.
            Answer::Replayed if self.called => return Ok(()),
            Answer::Recorded if self.called => self.worker.replay_log.refuse(refused.number()),
            _ => {}
        }
        match refused {
            Refused::Row => Ok(()),
            Refused::Entry(_) if self.dry => Ok(()),
            Refused::Entry(_) => self.take_back(TakeBack::Operation),
        }
    }

    /// Opens a savepoint.
    pub(super) fn open_savepoint(&mut self) -> Result<Savepoint> {
        if self.called {
            return Err(Misuse::SavepointInProcedure.into());
        }
        Ok(Savepoint(self.worker.writes.save()))
    }

    /// Takes back what was written since a savepoint was opened.
    #[cold]
    pub(super) fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        note(|| format!("goes back to savepoint {}", savepoint.0));
        self.take_back(TakeBack::Savepoint(savepoint.0))
    }

    /// Takes back all that was written; what was read is checked as before.
    pub(super) fn forget_writes(&mut self) -> Result<()> {
        // No piece has begun: that is all.
        self.take_back(TakeBack::Piece)
    }

    fn take_back(&mut self, to: TakeBack) -> Result<()> {
        let worker = &mut *self.worker;
        let scratch = worker.writes.scratch_at(to);
        let now = self.db.clock.now();
        while worker.placeholders.last().is_some_and(|placeholder| placeholder.key as usize >= scratch) {
            worker.give_up_placeholder(worker.placeholders.len() - 1, now);
            worker.placeholders.pop();
        }
        // What they have found are records that may leave the index now.
        worker.scanned = None;
        worker.ahead.clear();
        self.staged = None;
        let mut forgotten = Vec::new();
        worker.writes.take_back(to, |write| forgotten.push(*write));
        P::writes_taken_back(&mut worker.local, &worker.writes);
        forgotten.iter().try_for_each(|write| self.read_presence(write))
    }

    /// Reads whether there is a row where a write was that is no more, and found that there was one, or none.
    fn read_presence(&mut self, write: &Write) -> Result<()> {
        if planted(Mutant::TakenBackNotRead) {
            return Ok(());
        }
        let worker = &mut *self.worker;
        let env = self.db.env(worker.number, self.isolation);
        let nothing = |_: RecordData| ();
        let Write { record, layout, groups, was_present, .. } = *write;
        let present =
            P::read(&mut worker.local, env, record, layout, groups, Intent::Read, nothing)?.is_some();
        if present == was_present { Ok(()) } else { Err(Conflict::ReadChanged.into()) }
    }
}
