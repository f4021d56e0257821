//! IC3: transactions show their writes piece by piece, and static analysis keeps them in one order.
//!
//! **Mechanism** (IC3 §3). A registered procedure is cut into *pieces* by the analysis of all procedures
//! together ([`Plan`]). A piece executes optimistically and then
//!
//! 1. *waits* until each transaction that this one depends on has executed a piece of the same rank or more,
//!    or has ended (§3.2, §4.1, §4.2; one rule);
//! 2. latches what it accessed and checks that the values are those that it read;
//! 3. *enters* itself into the accessor lists, its writes with their values, and learns from the accessors
//!    before it on which transactions this one depends: a writer on all back to and including the last
//!    writer, a reader on the last writer;
//! 4. publishes its rank and lets the latches go.
//!
//! Transactions commit in the order of their dependencies: each waits until those it depends on have decided
//! to commit, or ended, aborts if it has read from one that aborted, locks what it writes, and decides; then
//! it installs what it wrote. So the order of the decisions is a serial order of all transactions. What two
//! of them install in one place is in that order too, because the earlier one holds the lock until it has
//! installed. One that commits has ended when everything is installed; it leaves the lists after that.
//!
//! **Cascades.** A transaction's slot tells those that depend on it that it has aborted. An aborting
//! transaction also marks those that have read from it, in the lists and in their slots, and no other reads
//! from them any more; else transactions would join the victims faster than the victims learn of it, one from
//! the other.
//!
//! **In turn.** Where many execute the same piece at once and each enters what the others have read, most
//! fail, and execute it again, and get into each other's way. So a transaction that has failed executes its
//! piece again when it has the *turn*: one at a time, at each rank. With the turn it waits for no other: it
//! has waited for its rank before, and those that it meets while it executes the piece are past that rank. A
//! scan that met inserts waits for no turn.
//!
//! **Which pieces.** Only sites whose accesses may conflict in a way that matters are *tracked* like this.
//! Everything else (most of what most transactions read) is read as committed and checked at the commit, as
//! under Silo; additions that commute are deferred to it (§4.3). Where a whole transaction is not registered
//! (a closure), all of it is. With [`Tracking::Contended`] so is what is hardly ever contended, and a call of
//! which nothing is tracked is executed like a closure.
//!
//! **Closures beside procedures.** A transaction without pieces takes effect at one moment, its commit: it
//! must find what it read still committed, and among the accessors of what it writes none that has not ended.
//! All that it depends on has committed then, and so has all that those depended on; so nothing that is still
//! running comes before it, and no cycle can close through it (test: `closures_beside_procedures`). A closure
//! that fails often asks newcomers to wait.
//!
//! **Absence.** A scan's piece leaves the bit of its slot in each gap that it looked at, under the gap's
//! latch and with the version that it saw; an insert, under the same latch, depends on those of the scanners
//! that run and have executed its rank. A bit may be that of an earlier transaction of the slot: then it
//! makes this one wait for a transaction that is ahead of it anyhow, which can close no cycle, since the
//! insert is at a rank that the other has passed. Splits and merges of gaps unite their bits.
//!
//! A scan that passes a *placeholder*, the absent record of an insert that has not ended or has aborted, is
//! in the record's list like a reader of any row. A transaction that fills it asks the gap too: the scanner
//! may have looked before it was put there (found by the search).
//!
//! A scan that passes a *deleted* row enters itself nowhere: it depends on the deleting transaction, if that
//! has not ended, and checks under the gap's latch that the row is still absent. A transaction that puts
//! another row there asks the gap: a piece under the latches of both, what is not tracked at the commit, with
//! the record locked, if the gap has not changed. So either the scanner sees the row, or the writer sees the
//! scanner. (A queue's readers pass all that was taken from it of late.)
//!
//! **Skipped pieces**. A rank is published by a piece that has waited for it, and that includes
//! all lower ranks. So a piece that was left out in between needs nothing of its own.
//!
//! **Where we leave the paper.** Ranks instead of C-edge tables at run time; values in accessors;
//! dependencies on all readers since the last writer; the kind of a dependency decides whether its abort is
//! ours (I8); a commit waits for decisions, and deleted rows are passed; a failed piece runs again by
//! executing the body again with the answers that it got before (`db::recall`). Tests: the mutants `Ic3*`.
//!
//! Strictly serializable: the commit order is one of real time.

mod absence;
mod accessors;
mod commit;
mod datm;
mod latching;
mod looking;
mod piece;
mod slots;
mod transition;
mod waiting;

use super::gaps::GapSet;
use super::images::{Chunks, Images};
use super::reads::ReadSet;
use super::{Arrived, Env, Intent, Pieces, Protocol, Seal, Sighted, State};
use crate::access::{Groups, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Fold, Gap, Seen};
use crate::kind::{Ic3 as Options, Interleaving};
use crate::procedure::{Plan, PlannedSite, PlannedType};
use crate::record::{ConcurrencyWords, RecordData, RecordRef};
use crate::stamp;
use crate::sync::{AtomicU64, MODEL, Ordering, Random, Suspender};
use crate::table::{GroupSet, Layout};
use absence::{Absence, SkippedTombstone};
use accessors::{Accessed, GROUP_WORDS, Look};
use commit::Locks;
use crossbeam_utils::CachePadded;
use piece::{Entered, Fresh, Item, PieceState};
use slots::{Id, Slots};
use std::sync::Arc;
use waiting::Dependency;

/// The protocol. Three words per column group: stamp, access word, newest accessor.
#[derive(Debug)]
pub struct Ic3;

/// What the workers of a database share.
#[derive(Debug)]
pub struct Shared {
    slots: Slots,
    chunks: Chunks,
    /// By rank, modulo the number of turns: 1 while a piece that has failed at that rank has its turn.
    turns: [CachePadded<AtomicU64>; TURNS],
}

const TURNS: usize = if MODEL { 1 } else { 64 };

impl super::Shared for Shared {
    fn new(sessions: usize) -> Self {
        let turns = std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0)));
        Self { slots: Slots::new(sessions), chunks: Chunks::default(), turns }
    }
}

/// What kind of transaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    /// Nothing, or a closure.
    Closure,
    /// A call of which nothing is tracked.
    Plain,
    /// A call in pieces, whose slot says that it runs.
    Pieces,
}

/// What a call's plan says, and what the worker has learned while it ran under the plan.
#[derive(Default)]
struct CallPlan {
    plan: Option<Arc<Plan>>,
    /// The plan's parity (see `slots`).
    parity: u16,
    is_transitional: bool,
    /// What the plan says of the call's type.
    of_type: Option<Arc<PlannedType>>,
    /// A vertex that should become hot, or cold.
    hotness_hint: Option<(u16, bool)>,
    /// By vertex: pieces that this worker has executed there, and those of them that met another transaction.
    met_at: Vec<(u32, u32)>,
}

/// One worker's attempt.
pub struct Local {
    shared: Arc<Shared>,
    options: Options,
    worker: usize,
    generation: u64,
    running: Running,
    call: CallPlan,
    /// The site of the next access.
    site: u16,
    /// What is accessed next is tracked.
    tracked: bool,
    /// Where the attempt stands in its pieces.
    piece: PieceState,

    // Of accesses that are not tracked.
    reads: ReadSet<Ic3>,
    gaps: GapSet,

    // Of the piece.
    items: Vec<Item>,
    /// Records that the piece has added; they are not among the items.
    fresh: Vec<Fresh>,
    /// Deleted rows that its scans have passed.
    passed: Vec<SkippedTombstone>,
    /// The look at the first group of what is read, and those at all of them if there are several.
    look: Option<Look>,
    looks: Vec<Look>,
    /// Gaps that it has looked at or fills, and those of a closure.
    absence: Absence,

    // Of the transaction's pieces so far.
    entered: Vec<Entered>,
    dependencies: Vec<Dependency>,
    /// Transactions that are about to be added to `dependencies`.
    before: Vec<Id>,
    images: Images,
    /// A piece has ended that made a tracked access, if only to gaps.
    has_shown: bool,

    // Of the commit.
    locks: Locks,
    /// The time of the worker's last commit.
    last: u64,
    /// Draws how long it waits with latches in hand, so that two that wait for each other do not wait equally
    /// long.
    random: Random,
    /// Lets others run while it waits for a transaction.
    suspender: Option<Suspender>,
}

impl Local {
    /// What the plan says of a site.
    #[inline(always)]
    fn planned(&self, site: u16) -> Option<PlannedSite> {
        self.call.of_type.as_ref()?.site(site)
    }

    fn id(&self) -> Id {
        Id::new(self.worker, self.generation)
    }

    /// Whether another transaction, which aborts and from which this one has read, has marked this one.
    #[inline(always)]
    fn is_doomed(&self) -> bool {
        self.running == Running::Pieces && self.shared.slots.is_doomed(self.id())
    }

    /// The transaction cannot go on: executing a piece again does not help.
    fn doom(&mut self, conflict: Conflict) -> Conflict {
        self.piece.doomed = true;
        conflict
    }
}

impl ConcurrencyWords for Ic3 {
    const GROUP_WORDS: usize = GROUP_WORDS;
    const NAMES: &'static [&'static str] = &["stamp", "access", "newest accessor"];
}

impl State for Ic3 {
    type Options = Options;
    type Local = Local;
    type Shared = Shared;
}

impl Pieces for Ic3 {
    const PIECES: bool = true;

    #[inline]
    fn call(local: &mut Local, plan: &Arc<Plan>, of_type: usize) -> bool {
        if local.call.plan.as_ref().is_none_or(|known| !Arc::ptr_eq(known, plan)) {
            local.call.parity = plan.parity;
            local.call.is_transitional = plan.is_transitional && !local.is_free();
            local.call.plan = Some(Arc::clone(plan));
            local.call.met_at.clear();
            local.call.met_at.resize(plan.vertices(), (0, 0));
        }
        let planned = plan.of_type(of_type);
        let same = local
            .call
            .of_type
            .as_ref()
            .zip(planned)
            .is_some_and(|(known, planned)| Arc::ptr_eq(known, planned));
        if !same {
            local.call.of_type = planned.map(Arc::clone);
        }
        if !local.call.of_type.as_ref().is_some_and(|planned| planned.tracked) {
            local.running = Running::Plain;
            return false;
        }
        local.generation += 1;
        local.running = Running::Pieces;
        local.shared.slots.begin(local.id(), of_type, local.call.parity);
        true
    }

    #[inline(always)]
    fn site(local: &mut Local, site: u16) {
        local.site = site;
    }

    #[inline(always)]
    fn hotness_hint(local: &mut Local) -> Option<(u16, bool)> {
        local.call.hotness_hint.take()
    }

    #[inline(always)]
    fn stays_in_piece(local: &mut Local, site: u16) -> Option<bool> {
        let site = local.planned(site)?;
        // What is not tracked may stand in any piece that has shown nothing and will not.
        let stays = local.piece.place?.piece == site.piece || (!site.tracked && local.is_idle());
        (stays && !local.piece.has_failed && !local.is_free()).then(|| {
            local.tracked = site.tracked;
            site.remembered
        })
    }

    #[inline]
    fn enter_piece(local: &mut Local, writes: &mut WriteSet, site: u16) -> Result<Arrived, Conflict> {
        let Some(site) = local.planned(site) else {
            // An undeclared site: checked when the transaction commits, like a closure's access.
            local.tracked = false;
            return Ok(Arrived { another_piece: false, remembered: true });
        };
        let another_piece =
            local.is_free() || local.piece.place.is_none_or(|place| place.piece != site.piece);
        if local.piece.has_failed {
            local.take_turn()?;
        }
        if another_piece {
            local.begin_piece(site, writes)?;
        }
        local.tracked = site.tracked;
        Ok(Arrived { another_piece, remembered: site.remembered })
    }

    fn replay_site(local: &mut Local, site: u16) -> bool {
        local.tracked = false;
        local.planned(site).is_none_or(|site| site.remembered)
    }

    fn finish(local: &mut Local, writes: &mut WriteSet) -> Result<(), Conflict> {
        local.end_piece(writes)
    }

    fn retry_piece(local: &mut Local, conflict: Conflict) -> bool {
        local.leave_turn();
        if local.piece.doomed || local.running != Running::Pieces || !local.may_repeat() {
            return false;
        }
        // A transaction whose inserts were in the way of a scan is mostly in no queue for this turn.
        local.piece.has_failed = conflict != Conflict::Phantom;
        local.forget_piece();
        local.reads.truncate(local.piece.reads_before);
        local.gaps.truncate(local.piece.gaps_before);
        true
    }

    fn quiescent(local: &Local) -> bool {
        (0..local.shared.slots.len()).all(|slot| local.shared.slots.running(slot).is_none())
    }
}

impl Protocol for Ic3 {
    const GAP_FOLD: Fold = Fold::Union;

    fn local(options: &Options, shared: &Arc<Shared>, worker: usize) -> Local {
        Local {
            shared: Arc::clone(shared),
            options: *options,
            worker,
            generation: 0,
            running: Running::Closure,
            call: CallPlan::default(),
            site: 0,
            tracked: false,
            piece: PieceState::default(),
            reads: ReadSet::default(),
            gaps: GapSet::default(),
            items: Vec::new(),
            fresh: Vec::new(),
            passed: Vec::new(),
            look: None,
            looks: Vec::new(),
            absence: Absence::default(),
            entered: Vec::new(),
            dependencies: Vec::new(),
            before: Vec::new(),
            images: Images::default(),
            has_shown: false,
            locks: Locks::default(),
            last: 0,
            random: Random::new(worker as u64),
            suspender: None,
        }
    }

    #[inline]
    fn begin(local: &mut Local, _: Env<'_>, _: u32) {
        local.reads.clear();
        local.gaps.clear();
        local.absence.met.clear();
        local.absence.filled.clear();
        local.forget_piece();
        local.dependencies.clear();
        local.images.clear();
        local.locks.others.clear();
        (local.piece.place, local.tracked, local.piece.doomed, local.has_shown) = (None, false, false, false);
        (local.locks.shown, local.piece.has_failed) = (false, false);
        (local.piece.reads_before, local.piece.gaps_before, local.piece.repeated) = (0, 0, 0);
    }

    fn suspend_by(local: &mut Local, suspender: Option<Suspender>) {
        local.suspender = suspender;
    }

    #[inline]
    fn own_insert(local: &mut Local, record: RecordRef, layout: &'static Layout, number: usize) -> bool {
        if !local.tracked {
            return false;
        }
        local.fresh.push(Fresh { record, layout, write: number as u32 });
        true
    }

    #[inline(always)]
    fn read<R>(
        local: &mut Local,
        _: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        intent: Intent,
        mut copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        loop {
            let first = local.reads.len();
            let present = if local.tracked {
                local.look(record, layout, groups)?
            } else {
                local.reads.look(record, layout, groups, local.site)?
            };
            // In one place for both: it is a large part of the caller.
            let value = present.map(&mut copy);
            let stands = if local.tracked && intent == Intent::Scan && value.is_none() {
                local.pass(record, layout, groups)
            } else if local.tracked {
                local.looked(record, layout, groups)
            } else {
                local.reads.stand(record, first)
            };
            if stands {
                return Ok(value);
            }
        }
    }

    #[inline(always)]
    fn sight(
        local: &mut Local,
        _: Env<'_>,
        record: RecordRef,
        _: &'static Layout,
        group: usize,
        _: Intent,
    ) -> Result<Sighted, Conflict> {
        if local.tracked {
            return Ok(Sighted::Hidden);
        }
        local.reads.sight(record, group, local.site)
    }

    fn unsight(local: &mut Local) {
        local.reads.unsight();
    }

    #[inline]
    fn exists(local: &mut Local, record: RecordRef) -> bool {
        let at = Accessed::new(record, 0);
        match local.tracked.then(|| at.look()) {
            Some(look) => look.is_ok_and(|look| look.present),
            None => !stamp::is_absent(at.stamp().load(Ordering::Relaxed)),
        }
    }

    #[inline(always)]
    fn write(
        local: &mut Local,
        _: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        number: usize,
    ) -> Result<(), Conflict> {
        if !local.tracked {
            return Ok(());
        }
        // What is written to a record that the piece has added is shown with it.
        let known = |fresh: &Fresh| fresh.write as usize >= number;
        if local.fresh.last().is_some_and(known) && local.fresh.iter().any(|fresh| fresh.record == record) {
            return Ok(());
        }
        for group in Groups(groups) {
            let at = Accessed::new(record, group);
            // Mostly what was read just now.
            let recent = match local.items.last_mut() {
                Some(item) if item.at == at => Some(item),
                _ => local.items.iter_mut().rev().take(4).find(|item| item.at == at),
            };
            match recent {
                Some(item) => (item.writes, item.write) = (true, number as u32),
                None => {
                    let write = number as u32;
                    local.items.push(Item { writes: true, write, ..Item::new(at, layout) });
                }
            }
        }
        Ok(())
    }

    fn writes_taken_back(local: &mut Local, left: &WriteSet) {
        local.forget_writes(left);
    }

    #[inline]
    fn observe_gap(local: &mut Local, seen: Seen) {
        if local.tracked {
            local.absence.scanned.push(seen);
        } else {
            local.gaps.push(seen);
        }
    }

    fn own_gap_changed(local: &mut Local, change: Change, _: bool) {
        // Looks stay, for whoever has to come after them.
        local.absence.scanned.follow(change, false);
        local.gaps.follow(change, false);
    }

    fn before_insert(local: &mut Local, gap: &Gap) {
        local.before_insert(gap);
    }

    fn reuse_absent(local: &mut Local, record: RecordRef, seen: Seen) {
        local.before_reuse(record, seen);
    }

    fn init_record(record: RecordRef, layout: &'static Layout, _: &Gap) {
        for group in 0..layout.groups.len() {
            Accessed::new(record, group).reset(stamp::ABSENT);
        }
    }

    #[inline]
    fn commit(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        local.commit(env, commit)
    }

    fn validate(local: &mut Local, env: Env<'_>) -> Result<(), Conflict> {
        local.validate(env)
    }

    fn abort(local: &mut Local, _: Env<'_>, writes: &WriteSet) {
        local.unlock();
        local.unlock_shown(writes);
        local.withdraw(false);
        local.end(false);
    }

    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        clock: &EpochClock,
        _: &Gap,
        has_no_versions: impl FnOnce() -> bool,
    ) -> Seal {
        commit::seal(record, layout, clock, has_no_versions)
    }

    fn restore(record: RecordRef, group: usize, stamp: u64) {
        Accessed::new(record, group).reset(stamp);
    }
}
