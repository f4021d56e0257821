//! How calls of registered procedures are executed: the hook of all schemes for that.
//!
//! A [`CallMode`] is such a scheme. Its verbs are all that an attempt needs of it, so the rest of an attempt, and the
//! session above it, know no scheme. An attempt calls a verb as a function of this room, which matches once: on how
//! the database executes calls, where closures need the verb too, and else on how this attempt is executed. For a
//! protocol without pieces ([`Pieces::PIECES`](crate::protocol::Pieces::PIECES)) each verb is that of [`Whole`], so
//! nothing is left of the hook.
//!
//! | room | what is there |
//! |---|---|
//! | `whole` | calls that are executed as closures are |
//! | `pieces` | calls in pieces, by the protocol's own verbs |
//! | `chopping` | calls whose pieces commit one by one |
//! | `sequencing` | calls that take turns |
//! | `graph` | calls that wait for those before them that they conflict with |
//! | `batched` | the same, batch by batch |
//! | `phases` | of this one: when its calls commit in pieces |
//! | `telling` | of these two: finding out what a call will access |
//! | `sequencer`, `announced` | of `sequencing` and `graph`: the order of calls, and what they announced |
//! | `gate` | through which attempts begin, or one that has failed often alone |
//! | `parts` | what is common to calls that commit in parts; `active_calls`: which are under way |
//! | `shelves` | of these: additions that take effect later; `aside`: lists of such |
//! | `lazy` | calls in the epoch of their piece that conflicts |
//! | `joining` | of `chopping`: whether a call is cut at all |
//!
//! Adding one: a file here, a line in `modes!`, and the name in [`Execution`] by which protocols ask for it.

mod active_calls;
mod announced;
mod aside;
mod batched;
mod chopping;
mod gate;
mod grains;
mod graph;
mod joining;
mod lazy;
mod parts;
mod phases;
mod pieces;
mod sequencer;
mod sequencing;
mod shelves;
mod telling;
mod whole;

use super::{Attempt, CallAtHand};
use crate::batches::Batches;
use crate::durability::Says;
use crate::error::{Conflict, Error, Result};
use crate::kind::Promises;
use crate::procedure::Told;
use crate::protocol::{Execution, Protocol};
use crate::seam::{Access, Body, Job, Summand};
use crate::table::Definition;
use active_calls::ActiveCalls;
use aside::Aside;
use batched::Batched;
use chopping::Chopped;
use graph::Linked;
use parts::Parts;
use pieces::InPieces;
use sequencing::Sequenced;
use shelves::Shelves;
use std::sync::Arc;
use telling::Telling;
use whole::Whole;

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

/// What becomes of a call whose body has been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It commits.
    Commit,
    /// The body is to be executed again, although nothing has failed.
    Again,
    /// The attempt is over: it has told what it accesses, and nothing else was asked for.
    Over,
}

/// What an access does to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessMode {
    Reads,
    /// It is added to, and its value is not seen.
    Adds,
    Writes,
    /// It is written, and its value decides which entries of indexes are written with it.
    WritesEntries,
}

/// Keys from the first to the second, both included.
pub(super) type Keys<'a> = (&'a [u64], &'a [u64]);

/// How calls of registered procedures are executed: the verbs in which such schemes differ.
///
/// A mode's own value is what each attempt keeps for it ([`States`]). Its verbs work on the whole attempt: they begin,
/// commit and abort what the protocol has read and written, as often as they like. They may fix the epoch of the
/// commit, and a time that it must be above, and say that the body runs without effect ([`Attempt::dry`]).
///
/// A verb does what closures need, unless the mode says otherwise.
trait CallMode: Default {
    /// What the workers of a database share.
    type Shared;

    /// The shared state of a database with so many sessions; none, where it executes no calls in this mode.
    fn shared(sessions: usize, promises: &dyn Promises) -> Self::Shared;

    // Of all attempts in a database whose calls are executed in this mode, closures among them.

    /// Waits until the attempt may begin, and pins its worker in the epoch. False, and nothing has begun, where the
    /// time for that is over.
    #[inline(always)]
    fn begin<P: Protocol>(attempt: &mut Attempt<P>, _retry: u32) -> bool {
        attempt.db.clock.pin(attempt.worker.number);
        true
    }

    /// The attempt that has begun is a call of the procedure with that number in the plan. False if it is executed
    /// as a closure is.
    fn call<P: Protocol>(_attempt: &mut Attempt<P>, _number: usize) -> bool {
        false
    }

    /// Commits, a call after its body has ended. True if the log has become long.
    #[inline(always)]
    fn commit<P: Protocol>(attempt: &mut Attempt<P>) -> Result<bool> {
        attempt.commit_writes()
    }

    /// What was read is about to be checked, so that the attempt may commit, or may give up for good.
    #[inline(always)]
    fn begin_decision<P: Protocol>(_attempt: &Attempt<P>) -> Result<(), Conflict> {
        Ok(())
    }

    /// It was checked.
    #[inline(always)]
    fn end_decision<P: Protocol>(_attempt: &Attempt<P>) {}

    /// The attempt has ended, and its worker is no longer pinned.
    #[inline(always)]
    fn end<P: Protocol>(_attempt: &mut Attempt<P>) {}

    // Of the calls that are executed in this mode.

    /// Before an operation of the body, at that site.
    fn enter<P: Protocol>(_attempt: &mut Attempt<P>, _site: u16) -> Result<Answer> {
        Ok(Answer::Live)
    }

    /// Before column groups of a row are accessed.
    #[inline(always)]
    fn row<P: Protocol>(_attempt: &mut Attempt<P>, _access: &Access<'_>, _mode: AccessMode) -> Result<()> {
        Ok(())
    }

    /// Before these keys of a relation are scanned.
    #[inline(always)]
    fn range<P: Protocol>(
        _attempt: &mut Attempt<P>,
        _relation: &'static Definition,
        _keys: Keys<'_>,
    ) -> Result<()> {
        Ok(())
    }

    /// A scan has looked at these keys, and has shown no row of them. True if it must look again.
    #[inline(always)]
    fn scanned<'a, P: Protocol>(
        _attempt: &mut Attempt<P>,
        _relation: &'static Definition,
        _keys: impl FnOnce() -> Keys<'a>,
    ) -> bool {
        false
    }

    /// An execution of the body has ended. Ends its last piece.
    #[inline(always)]
    fn end_body<P: Protocol>(_attempt: &mut Attempt<P>, _body: &Body) -> Result<Then> {
        Ok(Then::Commit)
    }

    /// After a conflict. True if it is enough to execute the body again, where the pieces before stand; then what
    /// the last piece did is forgotten.
    fn retry<P: Protocol>(_attempt: &mut Attempt<P>, _conflict: Conflict) -> bool {
        false
    }

    /// What to tell the caller of a body that gave up for that reason.
    fn given_up<P: Protocol>(_attempt: &mut Attempt<P>, error: Error) -> Error {
        error
    }
}

impl SharedStates {
    /// Whether calls have the epoch of their piece that conflicts.
    #[inline(always)]
    pub fn numbers_lazily(&self) -> bool {
        self.numbers_lazily
    }

    /// The batches of calls.
    pub fn batches(&self) -> &Batches<Arc<dyn Job>> {
        &self.batched.batches
    }
}

/// At a site where an addition is planned to be put off, or to be made at the end of its call: puts it aside. `None` elsewhere; false,
/// if there is no row.
#[inline(always)]
pub(super) fn put_aside<P: Protocol>(
    attempt: &mut Attempt<P>,
    access: &Access<'_>,
    word: usize,
    summand: Summand,
) -> Option<Result<bool>> {
    (P::REGIONS && attempt.called && attempt.modes.chopping.defers()).then(|| {
        match attempt.db.modes.numbers_lazily() {
            true => lazy::put_aside(attempt, access, word, summand),
            false => shelves::put_aside(attempt, access, word, summand),
        }
    })
}

/// Before the worker of an attempt is unpinned: what the committed pieces of a call have put aside is made, or left on the shelf.
pub(super) fn before_unpin<P: Protocol>(attempt: &mut Attempt<P>) {
    match attempt.db.modes.numbers_lazily() {
        true => lazy::before_unpin(attempt),
        false => shelves::put(attempt),
    }
}

/// See [`Worker::wants_told`](crate::seam::Worker::wants_told).
pub(super) fn wants_told<P: Protocol>(attempt: &Attempt<P>) -> bool {
    P::PIECES && attempt.dry && attempt.db.modes.execution.is_announced()
}

/// What the log says of a call that is about to commit and was announced.
pub(super) fn says<'a>(modes: &'a States, call: &'a CallAtHand) -> Says<'a> {
    telling::says(&modes.telling, call)
}

/// See [`Worker::tell`](crate::seam::Worker::tell).
pub(super) fn tell<P: Protocol>(attempt: &mut Attempt<P>, told: Told<'_>) -> bool {
    P::PIECES && telling::tell(attempt, told)
}

pub(super) use batched::must_call;

/// The list of modes: for each its name for protocols, its type, and its room. Makes of it what attempts keep, what
/// workers share, and the functions by which an attempt calls a verb.
macro_rules! modes {
    ($d:tt $($execution:ident: $mode:ident in $room:ident,)+) => {
        /// What an attempt keeps for the modes, from call to call.
        #[derive(Default)]
        #[expect(dead_code, reason = "not every mode keeps something")]
        pub(super) struct States {
            /// Of calls that commit in parts.
            parts: Parts,
            /// The additions that they put off.
            aside: Aside,
            /// Of calls that tell beforehand what they will access.
            telling: Telling,
            $($room: $mode,)+
        }

        /// What the workers of a database share because of its mode.
        #[expect(dead_code, reason = "not every mode shares something")]
        pub(in crate::db) struct SharedStates {
            execution: Execution,
            /// Of calls that commit in parts.
            parts: ActiveCalls,
            /// What they have put off, where they may.
            shelves: Option<Shelves>,
            /// Their epoch is that of the piece that conflicts.
            numbers_lazily: bool,
            /// Their pieces are executed as one where that meets hardly anybody.
            joins: bool,
            $($room: <$mode as CallMode>::Shared,)+
        }

        impl SharedStates {
            /// Of a database whose protocol promises this, with so many sessions.
            pub fn new(promises: &dyn Promises, sessions: usize) -> Self {
                let execution = promises.execution();
                let sessions = |needed: bool| if needed { sessions } else { 0 };
                Self {
                    execution,
                    parts: ActiveCalls::new(sessions(execution.commits_pieces())),
                    numbers_lazily: promises.numbers_lazily(),
                    joins: promises.joins_pieces(),
                    shelves: promises.puts_off().then(|| Shelves::new(sessions(true))),
                    $($room: $mode::shared(sessions(execution == Execution::$execution), promises),)+
                }
            }

            /// Whether no call that commits in parts is under way.
            pub fn no_call_in_parts(&self) -> bool {
                self.parts.is_idle()
            }
        }

        /// Calls a verb of a mode. Where the protocol never has calls in pieces that is [`Whole`], and no other is compiled.
        macro_rules! in_mode {
            ($d protocol:ident, $d mode:expr, $d verb:ident($d($d argument:expr),*)) => {
                if $d protocol::PIECES {
                    match $d mode { $(Execution::$execution => $mode::$d verb($d($d argument),*),)+ }
                } else {
                    Whole::$d verb($d($d argument),*)
                }
            };
        }
    };
}

modes! { $
    Whole: Whole in whole,
    Pieces: InPieces in pieces,
    Chopped: Chopped in chopping,
    Sequenced: Sequenced in sequencing,
    Graph: Linked in graph,
    Batched: Batched in batched,
}

/// See [`CallMode::begin`].
#[inline(always)]
pub(super) fn begin<P: Protocol>(attempt: &mut Attempt<P>, retry: u32) -> bool {
    in_mode!(P, attempt.db.modes.execution, begin(attempt, retry))
}

/// See [`CallMode::call`].
#[inline(always)]
pub(super) fn call<P: Protocol>(attempt: &mut Attempt<P>, number: usize) {
    let execution = attempt.db.modes.execution;
    if in_mode!(P, execution, call(attempt, number)) {
        attempt.executed = execution;
    }
}

/// See [`CallMode::commit`].
#[inline(always)]
pub(super) fn commit<P: Protocol>(attempt: &mut Attempt<P>) -> Result<bool> {
    in_mode!(P, attempt.db.modes.execution, commit(attempt))
}

/// See [`CallMode::begin_decision`].
#[inline(always)]
pub(super) fn begin_decision<P: Protocol>(attempt: &Attempt<P>) -> Result<(), Conflict> {
    in_mode!(P, attempt.db.modes.execution, begin_decision(attempt))
}

/// See [`CallMode::end_decision`].
#[inline(always)]
pub(super) fn end_decision<P: Protocol>(attempt: &Attempt<P>) {
    in_mode!(P, attempt.db.modes.execution, end_decision(attempt))
}

/// See [`CallMode::end`].
#[inline(always)]
pub(super) fn end<P: Protocol>(attempt: &mut Attempt<P>) {
    if P::PIECES {
        attempt.executed = Execution::Whole;
    }
    in_mode!(P, attempt.db.modes.execution, end(attempt))
}

/// See [`CallMode::enter`].
#[inline(always)]
pub(super) fn enter<P: Protocol>(attempt: &mut Attempt<P>, site: u16) -> Result<Answer> {
    // Most calls of most protocols are whole. A function of its own does the rest.
    if !P::PIECES || attempt.executed == Execution::Whole {
        Ok(Answer::Live)
    } else {
        enter_in_mode(attempt, site)
    }
}

fn enter_in_mode<P: Protocol>(attempt: &mut Attempt<P>, site: u16) -> Result<Answer> {
    in_mode!(P, attempt.executed, enter(attempt, site))
}

/// See [`CallMode::row`].
#[inline(always)]
pub(super) fn row<P: Protocol>(
    attempt: &mut Attempt<P>,
    access: &Access<'_>,
    mode: AccessMode,
) -> Result<()> {
    in_mode!(P, attempt.executed, row(attempt, access, mode))
}

/// See [`CallMode::range`].
#[inline(always)]
pub(super) fn range<P: Protocol>(
    attempt: &mut Attempt<P>,
    relation: &'static Definition,
    keys: Keys<'_>,
) -> Result<()> {
    in_mode!(P, attempt.executed, range(attempt, relation, keys))
}

/// See [`CallMode::scanned`].
#[inline(always)]
pub(super) fn scanned<'a, P: Protocol>(
    attempt: &mut Attempt<P>,
    relation: &'static Definition,
    keys: impl FnOnce() -> Keys<'a>,
) -> bool {
    in_mode!(P, attempt.executed, scanned(attempt, relation, keys))
}

/// See [`CallMode::end_body`].
#[inline(always)]
pub(super) fn end_body<P: Protocol>(attempt: &mut Attempt<P>, body: &Body) -> Result<Then> {
    in_mode!(P, attempt.executed, end_body(attempt, body))
}

/// See [`CallMode::retry`].
pub(super) fn retry<P: Protocol>(attempt: &mut Attempt<P>, conflict: Conflict) -> bool {
    in_mode!(P, attempt.executed, retry(attempt, conflict))
}

/// See [`CallMode::given_up`].
pub(super) fn given_up<P: Protocol>(attempt: &mut Attempt<P>, error: Error) -> Error {
    in_mode!(P, attempt.executed, given_up(attempt, error))
}
