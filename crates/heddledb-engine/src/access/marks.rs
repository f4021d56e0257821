//! Taking writes back: to where a piece, an operation or a savepoint began.
//!
//! A mark says how much there was. What came since is cut off; a write from before that was changed since is *kept* as
//! it was, and put back. What the transaction has seen is not taken back, since its body knows it.

use super::{FEW, NONE, Write, WriteSet};
use crate::mutant::{Mutant, planted};

/// How much there was at some moment, to which the write set may be taken back.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    writes: usize,
    patches: usize,
    scratch: usize,
    changed: usize,
}

/// The marks that are set.
#[derive(Default)]
pub(super) struct Marks {
    /// One of them was set since the write set was empty.
    pub(super) set: bool,
    /// Where the piece that runs began.
    piece: Mark,
    /// Where the operation that runs began, if it says so.
    operation: Mark,
    /// The savepoints that are open, the outermost first.
    savepoints: Vec<Mark>,
    /// How many of `changed` there were at the last mark.
    fresh: usize,
    /// Writes from before a mark as they were then, if they were changed since.
    changed: Vec<(u32, Write)>,
    /// For each write from before a mark, how many of `changed` there were when it was kept last.
    kept: Vec<u32>,
}

/// Which mark the write set is taken back to.
#[derive(Clone, Copy, Debug)]
pub enum TakeBack {
    /// Where the piece that runs began.
    Piece,
    /// Where the operation that runs began.
    Operation,
    /// The savepoint of that number, which is no longer open then.
    Savepoint(usize),
}

impl WriteSet {
    /// Forgets all marks.
    #[cold]
    pub(super) fn forget_marks(&mut self) {
        let Marks { set, piece, operation, savepoints, fresh, changed, .. } = &mut self.marks;
        (*set, *piece, *operation, *fresh) = (false, Mark::default(), Mark::default(), 0);
        savepoints.clear();
        changed.clear();
        self.before = 0;
    }

    /// How much there is now. What is changed of it from now on is kept.
    #[inline]
    fn mark(&mut self) -> Mark {
        (self.before, self.marks.fresh) = (self.writes.len(), self.marks.changed.len());
        self.marks.set = true;
        Mark {
            writes: self.before,
            patches: self.patches.len(),
            scratch: self.end,
            changed: self.marks.fresh,
        }
    }

    /// A piece begins.
    #[inline]
    pub fn begin_piece(&mut self) {
        debug_assert!(self.marks.savepoints.is_empty(), "calls have no savepoints");
        self.marks.changed.clear();
        self.marks.piece = self.mark();
        // It begins with an operation, which may have set its mark before: there is nothing in between.
        self.marks.operation = self.marks.piece;
    }

    /// An operation begins that writes several records, and may be taken back.
    #[inline]
    pub fn begin_operation(&mut self) {
        if self.marks.savepoints.is_empty() && self.marks.piece.writes == 0 {
            // No other mark needs them.
            self.marks.changed.clear();
        }
        self.marks.operation = self.mark();
    }

    /// Opens a savepoint, and returns its number.
    pub fn save(&mut self) -> usize {
        let mark = self.mark();
        self.marks.savepoints.push(mark);
        self.marks.savepoints.len() - 1
    }

    /// Closes a savepoint, and those within it: what was written since stays.
    pub fn close(&mut self, savepoint: usize) {
        self.marks.savepoints.truncate(savepoint);
        let mark = self.marks.savepoints.last().copied().unwrap_or(self.marks.piece);
        (self.before, self.marks.fresh) = (mark.writes, mark.changed);
    }

    /// How much of the scratch buffer was in use at a mark.
    pub fn scratch_at(&self, mark: TakeBack) -> usize {
        self.mark_of(mark).scratch
    }

    fn mark_of(&self, mark: TakeBack) -> Mark {
        match mark {
            TakeBack::Piece => self.marks.piece,
            TakeBack::Operation => self.marks.operation,
            TakeBack::Savepoint(number) => self.marks.savepoints[number],
        }
    }

    /// Makes the writes what they were at a mark. `forgotten` is told of those that are no more, the last first.
    #[cold]
    pub fn take_back(&mut self, to: TakeBack, mut forgotten: impl FnMut(&Write)) {
        let mark = self.mark_of(to);
        let mark = Mark { writes: mark.writes + usize::from(planted(Mutant::TakenBackButOne)), ..mark };
        while self.writes.len() > mark.writes {
            let Some(write) = self.writes.pop() else { break };
            match self.writes.len() {
                FEW => self.records.clear(),
                left if left > FEW => self.records.remove(write.record),
                _ => {}
            }
            forgotten(&write);
        }
        if !planted(Mutant::TakenBackChangesStay) {
            self.patches.truncate(mark.patches);
            self.end = mark.scratch;
        }
        for (index, write) in self.marks.changed.drain(mark.changed..).rev() {
            let Some(place) = self.writes.get_mut(index as usize) else { continue };
            if planted(Mutant::TakenBackChangesStay) {
                continue;
            }
            *place = write;
            if let Some(last) = self.patches.get_mut(write.last as usize) {
                last.next = NONE;
            }
        }
        match to {
            TakeBack::Savepoint(number) => self.close(number),
            // The same piece, or another operation, goes on from there.
            TakeBack::Piece | TakeBack::Operation => {
                (self.before, self.marks.fresh) = (mark.writes, mark.changed);
            }
        }
    }

    /// Keeps a write as it is, unless that was done since the last mark.
    #[cold]
    pub(super) fn keep(&mut self, index: usize) {
        if self.marks.kept.len() <= index {
            self.marks.kept.resize(index + 1, 0);
        }
        let kept = self.marks.kept[index] as usize;
        if kept > self.marks.fresh
            && self.marks.changed.get(kept - 1).is_some_and(|(of, _)| *of as usize == index)
        {
            return;
        }
        self.marks.changed.push((index as u32, self.writes[index]));
        self.marks.kept[index] = self.marks.changed.len() as u32;
    }
}
