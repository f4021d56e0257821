//! Lazy snapshot numbers, and the redo of additions (DBX-TC §4).
//!
//! **Problem.** The parts of a call must be of one epoch. If that is the epoch of its begin, calls of different epochs must not
//! overlap (`parts`): who begins in a new epoch waits for all that began before.
//!
//! **Mechanism.** A call has the epoch in which its piece that conflicts commits: its *number*, which it draws there. By theorem 1 it has
//! at most one such piece. All that is serialized about calls is the order of these pieces, and so are their numbers; no call waits for
//! another.
//!
//! - From then on the worker's commit pin stays at the number, until the call has ended. So no snapshot, no round of the log and no
//!   checkpoint stands at it before, and the epoch is at most one ahead.
//! - What else a call does conflicts with nobody (the mark `#[causal]` does not count here): it reads what no call writes, appends rows that no other
//!   looks for, and adds. Rows that it would insert before the piece that conflicts are inserted with that piece: the plan makes them one
//!   ([`Plan::numbered_lazily`](crate::procedure::Plan::numbered_lazily)). What it adds in other pieces it puts aside, and makes at its
//!   end, as commits of its number.
//! - By then a call of the next epoch may have added to the row. Then the addition is made twice: in the row, and in what snapshots of
//!   the number see of it (`protocol::htm::late`). The log gets both, each as of its own epoch.
//! - A piece that conflicts and writes nothing draws the number between its reads and their validation: who overwrites what it has
//!   read draws no earlier one.
//! - A call without a piece that conflicts has the epoch of its first commit.
//!
//! **Closures** run while no call does, as elsewhere. Strict: a call that begins after another has ended draws later.
//!
//! Tests: `lazy_*` of the conformance suite, `late_additions_are_seen_once` on virtual cores; planted bugs `LazyNumber*`,
//! `Redo*`.

use super::aside::{Addition, Additions, Aside};
use super::shelves::{ROWS_AT_ONCE, write_all};
use super::{AccessMode, Attempt};
use crate::error::{Error, Result};
use crate::mutant::{Mutant, planted};
use crate::protocol::{Intent, Protocol};
use crate::seam::{Access, Summand};
use crate::stamp;
use crate::sync::{Wait, note, point};

/// What a call keeps for its number.
#[derive(Clone, Copy, Default)]
pub(super) struct Lazy {
    /// The piece that runs draws the number, whether it writes or not.
    draws: bool,
}

/// A call begins, which waits for no other.
pub(super) fn begin_call<P: Protocol>(attempt: &mut Attempt<P>) {
    attempt.db.clock.pin(attempt.worker.number);
    attempt.modes.parts.lazy = Lazy::default();
}

/// A piece begins.
pub(super) fn begin_piece<P: Protocol>(attempt: &mut Attempt<P>, piece: u16) {
    let draws = attempt.epoch.is_none() && attempt.modes.parts.conflicts(piece);
    attempt.modes.parts.lazy = Lazy { draws };
}

/// A piece is about to commit: draws the number, if it is the piece to do that and writes nothing. The epoch is read, and the commit
/// pin published, after all reads and before they are validated, or in the region in which they were made: what was read is of no
/// later epoch, and who overwrites it draws no earlier one.
pub(super) fn draw_early<P: Protocol>(attempt: &Attempt<P>) -> Option<u64> {
    let (db, worker) = (&attempt.db, &attempt.worker);
    if attempt.epoch.is_some() || !attempt.modes.parts.lazy.draws || !worker.writes.is_empty() {
        return None;
    }
    Some(match P::in_region(&worker.local) {
        true => db.clock.announce_commit(worker.number),
        false => db.clock.commit_epoch(worker.number),
    })
}

/// A piece has committed: the call has its number now, if that was the piece to draw it.
pub(super) fn draw<P: Protocol>(attempt: &mut Attempt<P>, wrote: bool, early: Option<u64>) {
    if attempt.epoch.is_some() {
        return;
    }
    let of_commit = wrote.then(|| stamp::epoch(attempt.worker.last_commit));
    let Some(number) = of_commit.or(early) else { return };
    point("number drawn");
    note(|| format!("has number {number}"));
    attempt.epoch = Some(number);
    if planted(Mutant::LazyNumberNotHeld) {
        attempt.db.clock.unpin(attempt.worker.number);
        attempt.db.clock.pin(attempt.worker.number);
    }
}

/// Puts an addition aside, until the call ends. False, if there is no row: no call makes or removes one beside this.
#[inline(never)]
pub(super) fn put_aside<P: Protocol>(
    attempt: &mut Attempt<P>,
    access: &Access<'_>,
    word: usize,
    summand: Summand,
) -> Result<bool> {
    attempt.may_write()?;
    let (relation, groups) = (access.wanted.relation, access.wanted.groups);
    let Some(record) = attempt.find(access, AccessMode::Adds)? else { return Ok(false) };
    if !P::exists(&mut attempt.worker.local, record)
        && !attempt.exists(record, None, relation, groups, Intent::Read)?
    {
        return Ok(false);
    }
    attempt.modes.aside.additions.push(relation, access.key, groups, word, summand);
    Ok(true)
}

/// The call has ended, but for what it has put aside: makes that.
pub(super) fn make<P: Protocol>(attempt: &mut Attempt<P>) -> Result<()> {
    if attempt.modes.aside.additions.is_empty() {
        return Ok(());
    }
    let Aside { mut additions, stands } = std::mem::take(&mut attempt.modes.aside);
    additions.truncate(stands);
    additions.compact();
    let outcome = make_all(attempt, &additions);
    additions.clear();
    attempt.modes.aside = Aside { additions, stands: 0 };
    outcome
}

/// Before the caller of a call that has written nothing hears that the log has failed: what it has put aside is not made any more,
/// though the log may go on meanwhile. False, where additions are put off instead, and some stand.
pub(super) fn forgets<P: Protocol>(attempt: &mut Attempt<P>) -> bool {
    let aside = &mut attempt.modes.aside;
    if attempt.db.modes.numbers_lazily() {
        aside.stands = 0;
    }
    aside.stands == 0
}

/// Before the worker of a call is unpinned that has given up after pieces of it have committed: these stand, with what they have put
/// aside.
pub(super) fn before_unpin<P: Protocol>(attempt: &mut Attempt<P>) {
    if make(attempt).is_err() {
        note(|| "nothing of it stands, as the log has failed".to_owned());
    }
}

fn make_all<P: Protocol>(attempt: &mut Attempt<P>, all: &Additions) -> Result<()> {
    note(|| format!("adds {} times at its end", all.len()));
    point("adds at the end");
    if planted(Mutant::LazyNumberAtEnd) {
        attempt.epoch = None;
    }
    let mut rest = all.entries();
    let (mut rows, mut wait) = (ROWS_AT_ONCE, Wait::new());
    while !rest.is_empty() {
        let now = at_once(all, rest).min(rows);
        // What is a part of something that has committed is committed, too.
        let checks = !attempt.modes.parts.wrote;
        match make_some(attempt, all, &rest[..now], checks) {
            Ok(log_is_long) => {
                rest = &rest[now..];
                attempt.epoch.get_or_insert(stamp::epoch(attempt.worker.last_commit));
                let parts = &mut attempt.modes.parts;
                (parts.log_is_long, parts.wrote) = (parts.log_is_long | log_is_long, true);
            }
            // Who holds a lock waits for nothing.
            Err(Error::Conflict(_)) => wait.pause(),
            Err(error @ Error::LogFailed(_)) if checks => return Err(error),
            // What a call adds to has room in the log, if each row is written alone.
            Err(_) if now > 1 => rows = now.div_ceil(2),
            Err(error) => panic!("an addition cannot be made: {error}"),
        }
    }
    Ok(())
}

/// How many of them, from the first on, are to no two groups of one row.
fn at_once(all: &Additions, rest: &[Addition]) -> usize {
    let is_same_row = |one: &Addition, other: &Addition| {
        one.relation.number() == other.relation.number() && all.key(one) == all.key(other)
    };
    let breaks = |pair: &[Addition]| is_same_row(&pair[0], &pair[1]) && pair[0].groups != pair[1].groups;
    rest.windows(2).position(breaks).map_or(rest.len(), |at| at + 1)
}

/// Makes some of them as one transaction, in software.
fn make_some<P: Protocol>(
    attempt: &mut Attempt<P>,
    all: &Additions,
    some: &[Addition],
    checks: bool,
) -> Result<bool> {
    attempt.begin_writes(0);
    let outcome = write_all(attempt, all, some).and_then(|()| attempt.commit_additions(checks));
    if outcome.is_err() {
        attempt.abort_writes();
    }
    outcome
}
