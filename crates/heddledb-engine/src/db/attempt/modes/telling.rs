//! Executing the body of a call without effect, to find out what it will access, unless its procedure says it
//! ([`Announcement`](crate::procedure::Announcement)).
//!
//! What the call tells so is a [`Footprint`]. What it accesses later without having told, since it sees another state then, it
//! accesses as a closure would: it is counted ([`Stats::unforeseen`](crate::metrics::Stats::unforeseen)), and its commit is
//! validated. What it reads that no procedure writes it need not tell ([`loud`]).

use super::super::Logs;
use super::announced::{claims, unannounced};
use super::{AccessMode, Attempt, CallAtHand, Keys, Then};
use crate::durability::{Call, Says};
use crate::error::{Error, Misuse, Result};
use crate::footprint::Footprint;
use crate::log::{CELLS_MAX, PAYLOAD_WORDS_MAX};
use crate::mutant::{Mutant, planted};
use crate::procedure::{Told, Usage};
use crate::protocol::Protocol;
use crate::seam::{Access, Body, Part};
use crate::sync::note;
use crate::table::{Definition, GroupSet};

/// How often an execution without effect is begun again that failed. It fails when another commits for longer than a read
/// waits, as one does whose thread is not running.
const DRY_RETRIES: u32 = 10_000;

/// What a call has told.
#[derive(Default)]
pub(super) struct Telling {
    pub footprint: Footprint,
    /// How often its execution without effect was begun again.
    retries: u32,
    /// The number of its procedure.
    procedure: usize,
    /// It has accessed something else.
    unforeseen: bool,
    /// What its first execution wrote, where it is executed twice.
    first: Option<u64>,
    /// From which site on it does not give up, if what its procedure tells is all.
    sure_from: Option<u16>,
}

/// The call that has begun runs without effect first.
pub(super) fn begin<P: Protocol>(attempt: &mut Attempt<P>) {
    attempt.modes.telling.footprint.clear();
    attempt.modes.telling.retries = 0;
    attempt.dry = true;
}

/// A call has begun that has told, or will.
pub(super) fn call<P: Protocol>(attempt: &mut Attempt<P>, procedure: usize, sure_from: Option<u16>) {
    let telling = &mut attempt.modes.telling;
    telling.procedure = procedure;
    (telling.unforeseen, telling.first, telling.sure_from) = (false, None, sure_from);
}

/// Before column groups of a row are accessed.
pub(super) fn row<P: Protocol>(
    attempt: &mut Attempt<P>,
    access: &Access<'_>,
    mode: AccessMode,
) -> Result<()> {
    let Access { wanted: Part { relation, .. }, key, .. } = *access;
    let (mut groups, usage) = claims(access, mode);
    if usage == Usage::Reads {
        groups &= loud(attempt, relation);
        if groups == 0 {
            return Ok(());
        }
    }
    let id = attempt.db.stores.id(relation);
    let footprint = &mut attempt.modes.telling.footprint;
    if attempt.dry {
        footprint.add_point(id, key, groups, usage);
    } else if !footprint.has_point(id, key, groups, usage) {
        if !footprint.is_open(id, key, key) {
            return unforeseen(attempt, relation, key);
        }
        if attempt.logs == Logs::Calls {
            // The log has what was accessed, and no open or unordered ranges.
            footprint.add_point(id, key, groups, usage);
        }
    }
    Ok(())
}

/// Before keys of a relation are scanned.
pub(super) fn range<P: Protocol>(
    attempt: &mut Attempt<P>,
    relation: &'static Definition,
    (low, high): Keys<'_>,
) -> Result<()> {
    if loud(attempt, relation) == 0 {
        return Ok(());
    }
    let id = attempt.db.stores.id(relation);
    let footprint = &mut attempt.modes.telling.footprint;
    if attempt.dry {
        footprint.add_range(id, low, high);
    } else if !footprint.has_range(id, low, high) {
        if !footprint.is_open(id, low, high) {
            return unforeseen(attempt, relation, low);
        }
        if attempt.logs == Logs::Calls {
            footprint.add_range(id, low, high);
        }
    }
    Ok(())
}

/// The call will access this, as its procedure says. False if its body must find out the rest.
pub(super) fn tell<P: Protocol>(attempt: &mut Attempt<P>, told: Told<'_>) -> bool {
    let Telling { footprint, sure_from, .. } = &mut attempt.modes.telling;
    if matches!(told, Told::Open { .. } | Told::Unordered { .. } | Told::Part) {
        // It does not know its accesses one by one.
        *sure_from = None;
    }
    footprint.be_sure_from(*sure_from);
    let relation = match told {
        Told::Row { relation, .. }
        | Told::Range { relation, .. }
        | Told::Open { relation, .. }
        | Told::Unordered { relation, .. } => relation,
        Told::Part => return false,
    };
    let (loud, id) = (loud(attempt, relation), attempt.db.stores.id(relation));
    let footprint = &mut attempt.modes.telling.footprint;
    match told {
        Told::Row { key, groups, usage, .. } => {
            // As in `claims`: whether a row exists is in its first group.
            let groups = groups.max(1) & if usage == Usage::Reads { loud } else { GroupSet::MAX };
            if groups != 0 {
                footprint.add_point(id, key, groups, usage);
            }
        }
        Told::Range { low, high, .. } if loud != 0 => footprint.add_range(id, low, high),
        Told::Open { low, high, .. } => footprint.add_open(id, low, high),
        Told::Unordered { low, high, .. } => footprint.add_unordered(id, low, high),
        Told::Range { .. } | Told::Part => {}
    }
    true
}

/// The column groups of a relation that others may change which are in the graph. The rest is *quiet*: no procedure of the plan that the
/// call runs under writes it, so whoever reads it waits for nobody. If a closure does, or a procedure that says otherwise, the
/// commit finds out.
///
/// A log of commands needs to know all that a call reads, and so does who makes others wait for each access.
fn loud<P: Protocol>(attempt: &Attempt<P>, relation: &'static Definition) -> GroupSet {
    if attempt.logs == Logs::Calls || attempt.modes.telling.footprint.sure_from().is_some() {
        return GroupSet::MAX;
    }
    if planted(Mutant::GraphQuietThoughWritten) {
        return 0;
    }
    attempt.worker.plan_cache.plan.written(relation.number())
}

/// An execution of the body has ended: what becomes of the call, unless that is its mode's to say, since it has told all.
///
/// One without effect that met a commit which keeps its locks for long has not, and is begun again. However else it ended, what it
/// has told counts, and what it will do is decided when it runs.
pub(super) fn end_body<P: Protocol>(attempt: &mut Attempt<P>, body: &Body) -> Option<Result<Then>> {
    if !attempt.dry {
        return Some(twice(attempt, body));
    }
    attempt.abort_writes();
    attempt.failed = false;
    let overdue = attempt.is_overdue();
    let Telling { footprint, retries, .. } = &mut attempt.modes.telling;
    if !matches!(body, Body::Gave(Error::Conflict(_))) || *retries == DRY_RETRIES || overdue {
        attempt.dry = false;
        return None;
    }
    footprint.clear();
    *retries += 1;
    let retries = *retries;
    attempt.pause_before(retries);
    attempt.begin_writes(0);
    Some(Ok(Then::Again))
}

/// What the log says of a call that is about to commit: that it was this one, if it has accessed nothing that it has not told.
pub(in super::super) fn says<'a>(telling: &'a Telling, call: &'a CallAtHand) -> Says<'a> {
    let foreseen = !telling.unforeseen || planted(Mutant::CommandUnforeseen);
    match call {
        CallAtHand { procedure: Some(procedure), arguments, .. }
            if foreseen && arguments.len() <= ARGUMENTS_MAX =>
        {
            Says::Call(Call { procedure: *procedure, arguments, footprint: &telling.footprint })
        }
        _ => Says::Rows,
    }
}

/// The most bytes of arguments, so that with its cells a call fits a frame of the log.
const ARGUMENTS_MAX: usize = 8 * (PAYLOAD_WORDS_MAX - CELLS_MAX);

/// One call in so many is executed twice, of those whose procedures a log calls again; with debug assertions, each.
const LOOKED_AT: u32 = if cfg!(debug_assertions) { 1 } else { 1024 };

/// A call has been executed that may be logged as such. Now and then it is executed once more, in the same attempt, so that both have
/// read the same if it commits: a body that does something else then does so when the log is replayed.
fn twice<P: Protocol>(attempt: &mut Attempt<P>, body: &Body) -> Result<Then> {
    let Attempt { worker, modes, logs, failed, .. } = attempt;
    let telling = &mut modes.telling;
    let is_done = matches!(body, Body::Done { failed: false }) && !*failed;
    if *logs != Logs::Calls || worker.call.procedure.is_none() || telling.unforeseen || !is_done {
        return Ok(Then::Commit);
    }
    let written = worker.writes.digest();
    match telling.first.take() {
        Some(first) if first == written => Ok(Then::Commit),
        Some(_) => {
            // What it has read may have changed in between.
            attempt.validate_reads()?;
            Err(Misuse::Diverged.into())
        }
        None => {
            worker.call.looked_at = worker.call.looked_at.wrapping_add(1);
            if !worker.call.looked_at.is_multiple_of(LOOKED_AT) || worker.writes.is_empty() {
                return Ok(Then::Commit);
            }
            telling.first = Some(written);
            attempt.forget_writes()?;
            Ok(Then::Again)
        }
    }
}

#[cold]
fn unforeseen<P: Protocol>(
    attempt: &mut Attempt<P>,
    relation: &'static Definition,
    key: &[u64],
) -> Result<()> {
    note(|| format!("has not told that it would access {}{key:?}", relation.name()));
    let telling = &mut attempt.modes.telling;
    if !std::mem::replace(&mut telling.unforeseen, true) {
        attempt.db.counters.unforeseen_call(attempt.worker.number, telling.procedure);
    }
    attempt.db.counters.unforeseen(attempt.worker.number);
    // Which calls are executed in pieces is a matter of chance, and what they refuse is not.
    if attempt.modes.telling.footprint.sure_from().is_some() {
        return Err(unannounced(relation, key));
    }
    Ok(())
}
