//! The part of the seam for deferring transactions: what a worker does with intentions, and how it runs what they do.
//!
//! A deferring transaction does not read while its body runs: it writes *intentions* down, each a step of a plan that
//! the front keeps, on a row whose key is known. A worker that defers ([`Defers::defers`]) is told of each that touches
//! a row ([`Defers::defer`]), and of no others: values computed from results, conditions and the decision to give up
//! are steps that only the front knows. At the end of the body the front gives it [`Operators`]
//! ([`Defers::end_deferred`]), by which the engine runs the steps on the rows in whatever order it finds them ready.
//!
//! **What the engine may do with a plan.** It calls [`Operators::apply`] once for each step that it was told of, when
//! [`Operators::is_ready`] says so: of two steps on the same row in the order in which they were told, of others in any.
//! When all steps that it was told of before have been applied, the next in the order of the body is always ready. No
//! row may be shown to others before [`Operators::verdict`] has an answer; if that is false, nothing was changed, and
//! the caller hears [`Operators::refusal`].

use super::{Access, Ended};
use crate::error::{Error, Result};
use crate::table::{Definition, GroupSet};

/// What a step of a plan will do with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intention {
    /// Read it.
    Look,
    /// Change it, if there is one.
    Change,
    /// Make it, or replace it.
    Put,
    /// Remove it, if there is one.
    Erase,
}

/// What a step has made of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is, or is absent, as it was before: the step has read it, its row was not there, or its condition did not hold.
    Kept,
    /// These column groups have changed, maybe none. The row was present.
    Changed(GroupSet),
    /// It was absent, and is there now; all of its words count.
    Made,
    /// It was there, and is not any more.
    Removed,
}

/// The steps of a plan, as an engine runs them.
pub trait Operators {
    /// Whether a step can be applied: its inputs are known, and whether its condition holds.
    fn is_ready(&self, step: u32) -> bool;
    /// Applies a step that is ready to a private copy of its row, keeps its result, and then runs what has become ready
    /// by it without a row. `row` has all data words, of which those in the span of the step's access are as they were
    /// read, or as the steps before have made them; if the row is absent, all words are zero. Runs code of the
    /// user's, which may panic.
    fn apply(&mut self, step: u32, present: bool, row: &mut [u64]) -> Applied;
    /// One of the steps with a row, or that make some, that have become ready since they were told of, each once.
    fn take_ready(&mut self) -> Option<u32>;
    /// Whether the transaction is to take effect, as soon as that is decided; always where it does not decide.
    fn verdict(&self) -> Option<bool>;
    /// Why it is not to take effect, where it has decided so.
    fn refusal(&mut self) -> Error;
}

/// What a worker does with intentions.
pub trait Defers {
    /// Whether intentions of the attempt that has begun can be deferred; where not, the front executes them at once,
    /// and calls nothing else of this.
    fn defers(&self) -> bool;
    /// The attempt will do this with a row, when the step of that number is applied. Numbers rise, with gaps. For
    /// [`Intention::Put`] and [`Intention::Erase`] the access is of the whole row.
    ///
    /// # Errors
    /// As all operations of a worker.
    fn defer(&mut self, access: &Access<'_>, intention: Intention, step: u32) -> Result<()>;
    /// The step of that number will make a row of this relation, to be inserted, or one of several: they are told one after
    /// another. The step has no row of its own: [`Operators::apply`] gets an absent one with room for all that it makes, in
    /// the order in which it was told, each row with its key in front, and makes it or leaves it. Where one is there
    /// already, the attempt conflicts, and the worker does not defer in the next one.
    ///
    /// # Errors
    /// As all operations of a worker.
    fn defer_insert(&mut self, relation: &'static Definition, step: u32) -> Result<()>;
    /// Whether an intention was deferred on the row with this key, or may be, or, without
    /// a key, on any row of the relation.
    fn has_intentions_on(&self, relation: &'static Definition, key: Option<&[u64]>) -> bool;
    /// The intentions that were deferred will be executed as ordinary operations: they are forgotten. So they are by
    /// [`Worker::end`](super::Worker::end) and [`Worker::abort`](super::Worker::abort), which end an attempt that gave up.
    fn forget_intentions(&mut self);
    /// Ends an attempt whose body has come to its end with intentions deferred, beside which there may be ordinary reads
    /// and writes, and commits it.
    ///
    /// # Errors
    /// Conflicts, and what else ends an attempt; [`Operators::refusal`] where the verdict is against it. A panic in
    /// [`Operators::apply`] ends the attempt, too, and comes back to the caller.
    fn end_deferred(&mut self, operators: &mut dyn Operators) -> Result<Ended>;
}
