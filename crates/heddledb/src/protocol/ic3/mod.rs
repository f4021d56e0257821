//! IC3: transactions show their writes piece by piece, and static analysis keeps them in one order.
//!
//! **Mechanism** (IC3 §3). A registered procedure is cut into *pieces* by the analysis of all procedures
//! together ([`Plan`]). A piece executes optimistically and then
//!
//! 1. *waits* until each transaction that this one depends on has executed a piece of the same rank or more,
//!    or has ended (§3.2, §4.1, §4.2; one rule, PITFALLS I4);
//! 2. latches what it accessed and checks that the values are those that it read;
//! 3. *enters* itself into the accessor lists, its writes with their values, and from the accessors before it
//!    learns on whom this transaction depends: a writer on all back to and including the last writer, a
//!    reader on the last writer (PITFALLS I1);
//! 4. publishes its rank and lets the latches go.
//!
//! Transactions commit in the order of their dependencies: each waits until those it depends on have decided to commit,
//! or ended, aborts if it has read from one that aborted, locks what it writes, and decides; then it installs what it
//! wrote. So the order of the decisions is a serial order of all transactions. What two of them install in one
//! place is in that order too, because each lock is that of the one before until he has installed it. One that commits
//! has ended when everything is installed; it leaves the lists after that.
//!
//! **Cascades.** What aborted is found in its slot, by those who depend on it. Who aborts also marks those who have read from
//! him, in the lists and in their slots, and nobody reads from them any more; else transactions would join his victims
//! faster than these learn of it, one from the other.
//!
//! **In turn.** Where many execute the same piece at once and each enters what the others have read, most fail,
//! and execute it again, and get into each other's way. So who has failed executes his piece again when he is
//! next: one at a time, at each rank. Who has the turn waits for nobody any more: he has waited for his rank
//! before, and whom he meets while he executes the piece is past it. A scan that met inserts waits for no turn.
//!
//! **Which pieces.** Only sites whose accesses may conflict in a way that matters are *tracked* like this.
//! Everything else (most of what most transactions read) is read as committed and checked at the commit, like
//! under Silo; additions that commute are deferred to it (§4.3). Where a whole transaction is not
//! registered (a closure), all of it is. With [`Tracking::Contended`] so is what is hardly ever contended, and a
//! call of which nothing is tracked is executed like a closure.
//!
//! **Closures beside procedures.** A transaction without pieces takes effect at one moment, its commit: it
//! must find what it read still committed, and nobody who has not ended among the accessors of what it
//! writes. All that it depends on has committed then, and so has all that those depended on; so nothing that
//! is still running comes before it, and no cycle can close through it (test: `closures_beside_procedures`).
//! One that finds no such moment asks newcomers to wait, by and by.
//!
//! **Absence.** A scan's piece leaves the bit of its slot in each gap that it looked at, under the gap's
//! latch and with the version that it saw; an insert, under the same latch, depends on those among them who
//! run and have executed its rank. A bit may be that of an earlier transaction of the slot: then it makes
//! this one wait for someone who is ahead of it anyhow, which can close no cycle, since it is at a rank that
//! the other has passed. Splits and merges of gaps unite their bits (PITFALLS I11).
//!
//! A scan that passes a *placeholder*, the absent record of an insert that has not ended or has aborted, is in its list
//! like a reader of any row. Whoever fills it asks the gap too: the scanner may have looked before it was put there
//! (found by the search).
//!
//! A scan that passes a *deleted* row enters itself nowhere: it depends on who has deleted it, if he has not ended, and
//! checks with the gap's latch in hand that the row is as absent as before. Whoever puts another there asks the gap: a
//! piece under the latches of both, what is not tracked at the commit, with the record locked, if the gap has not
//! changed. So either the scanner sees the row, or is seen. (A queue's readers pass all that was taken from it of late.)
//!
//! **Skipped pieces** (PITFALLS I2). A rank is published by a piece that has waited for it, and that includes
//! all lower ranks. So a piece that was left out in between needs nothing of its own.
//!
//! **Where we leave the paper.** Ranks instead of C-edge tables at run time; values in accessors; dependencies
//! on all readers since the last writer; the kind of a dependency decides whether its abort is ours (I8);
//! a commit waits for decisions, and deleted rows are passed; a failed piece runs again by
//! executing the body again with the answers that it got before (`db::recall`). Tests: the mutants `Ic3*`.
//!
//! Strictly serializable: the commit order is one of real time.

mod accessors;
mod datm;
mod slots;
mod transition;

use super::images::{Chunks, Images};
use super::reads::{GapSet, PAUSES, ReadSet};
use super::{Arrived, Env, Execution, Intent, Protocol, Seal};
use crate::access::{Groups, Write, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Fold, Gap, GapRef, Seen};
use crate::mutant::{Mutant, planted};
use crate::procedure::{Plan, PlannedSite, PlannedType, Tracking};
use crate::record::{ConcurrencyWords, RecordData, RecordRef, data_base};
use crate::stamp;
use crate::sync::{
    AtomicU64, Course, MODEL, Ordering, Phase, Random, Suspender, Wait, Work, course, decided, fence, note,
    now_ns, phase, point, wait_until, work,
};
use crate::table::{GroupSet, Layout};
use accessors::{ACCESSOR_WORDS, Accessed, Accessor, Doing, GROUP_WORDS, Look, Source, value_of};
use crossbeam_utils::CachePadded;
use slots::{Executed, Id, Progress, Slots};
use std::sync::Arc;

/// The protocol. Three words per column group: stamp, access word, newest accessor.
#[derive(Debug)]
pub struct Ic3;

/// Settings of IC3, as in the paper's factor analysis (§6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// A piece executes first and waits before it is entered, not before it executes (§4.1).
    pub optimistic_constraint: bool,
    /// A piece without a C-edge to a transaction that it depends on waits for a rendezvous piece of it, not for
    /// its end (§4.2).
    pub rendezvous: bool,
    /// Additions commute and are deferred to the commit (§4.3).
    pub commutative: bool,
    /// Which conflicts are tracked. In the paper all are, wherever the analysis does not exclude them.
    pub tracking: Tracking,
    /// Which interleavings are permitted.
    pub interleaving: Interleaving,
}

/// Which interleavings of the pieces of several transactions are permitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interleaving {
    /// Those that keep dependencies free of cycles: IC3.
    #[default]
    Constrained,
    /// All; who has waited for too long aborts: DATM.
    Free,
}

impl Options {
    /// All of it, where transactions contend.
    pub const CONTENDED: Self = Self { tracking: Tracking::Contended, ..Self::FULL };
    /// Every access that may conflict is shown at once, and no order is enforced (DATM).
    pub const DATM: Self = Self { tracking: Tracking::Each, interleaving: Interleaving::Free, ..Self::FULL };
    /// The paper's IC3 with all that its §4 adds.
    pub const FULL: Self = Self {
        optimistic_constraint: true,
        rendezvous: true,
        commutative: true,
        tracking: Tracking::Always,
        interleaving: Interleaving::Constrained,
    };
    /// Without what §4 adds.
    pub const BASIC: Self =
        Self { optimistic_constraint: false, rendezvous: false, commutative: false, ..Self::FULL };
}

impl Default for Options {
    fn default() -> Self {
        Self::FULL
    }
}

/// What the workers of a database share.
#[derive(Debug)]
pub struct Shared {
    slots: Slots,
    chunks: Chunks,
    /// By rank, modulo their number: 1 while one who has failed there has his turn.
    turns: [CachePadded<AtomicU64>; TURNS],
}

const TURNS: usize = if MODEL { 1 } else { 64 };

impl super::Shared for Shared {
    fn new(sessions: usize) -> Self {
        let turns = std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0)));
        Self { slots: Slots::new(sessions), chunks: Chunks::default(), turns }
    }
}

/// A tracked access of the piece that runs.
#[derive(Clone, Copy)]
struct Item {
    at: Accessed,
    layout: &'static Layout,
    /// The number in the write set; only if `writes`.
    write: u32,
    /// The value version that was read; only if `reads`.
    value: u32,
    reads: bool,
    writes: bool,
    /// Another item is the same group; that one has taken over what this one does.
    double: bool,
}

impl Item {
    #[inline(always)]
    fn new(at: Accessed, layout: &'static Layout) -> Self {
        Self { at, layout, write: 0, value: 0, reads: false, writes: false, double: false }
    }

    /// Whether the group is what the piece took it for. Under the latch; `access` is the access word before.
    #[inline(always)]
    fn stands(&self, access: u64, writes: &WriteSet) -> bool {
        match self.reads {
            true => value_of(access) == self.value,
            // A blind write saw the row there, or a placeholder missing, without a look that counts; or the
            // transaction has shown the row before, and then knows it from itself.
            false => {
                let write = &writes.writes()[self.write as usize];
                write.exposed & (1 << self.at.group) != 0 || self.at.is_present() == write.was_present
            }
        }
    }
}

/// A record that the piece has added. As long as nobody else has touched it, its data words are as good as the
/// worker's own memory: there is no row, and if the transaction aborts there has been none.
#[derive(Clone, Copy)]
struct Fresh {
    record: RecordRef,
    layout: &'static Layout,
    /// The number in the write set.
    write: u32,
}

impl Fresh {
    /// All its groups.
    #[inline(always)]
    fn groups(self) -> impl Iterator<Item = Accessed> {
        (0..self.layout.groups.len()).map(move |group| Accessed::new(self.record, group))
    }
}

/// A group of a deleted row that a scan of the piece has passed.
#[derive(Clone, Copy)]
struct Passed {
    at: Accessed,
    /// The value version.
    value: u32,
    /// Who shows the row as absent, if nobody has committed it so.
    by: Option<Id>,
}

/// Where a piece stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its number in its type.
    piece: u16,
    /// Its rank, of the lane of its plan.
    rank: u16,
}

/// A transaction that this one depends on.
#[derive(Clone, Copy)]
struct Dependency {
    id: Id,
    /// This one has seen what that one wrote: if it aborts, so must we. If not, it only comes first.
    forces: bool,
}

/// An accessor of this transaction in a list.
#[derive(Clone, Copy)]
struct Entered {
    at: Accessed,
    accessor: Accessor,
}

/// A group whose stamp is locked and that is latched.
struct Lock {
    at: Accessed,
    stamp: u64,
    /// The access word before the latch.
    access: u64,
}

/// What the transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    /// Nothing, or a closure.
    Closure,
    /// A call of which nothing is tracked.
    Plain,
    /// A call in pieces, whose slot says that it runs.
    Pieces,
}

/// One worker's attempt.
pub struct Local {
    shared: Arc<Shared>,
    options: Options,
    worker: usize,
    generation: u64,
    running: Running,
    plan: Option<Arc<Plan>>,
    /// The plan's.
    lane: u16,
    is_transitional: bool,
    /// What the plan says of its type.
    planned: Option<Arc<PlannedType>>,
    /// The site of the next access.
    site: u16,
    /// A vertex that had better be hot, or cold.
    wish: Option<(u16, bool)>,
    /// By vertex: pieces that this worker has executed there, and those of them that met anybody.
    met_at: Vec<(u32, u32)>,
    /// The piece that runs, once there is one.
    piece: Option<Place>,
    /// What is accessed next is tracked.
    tracked: bool,
    /// How often this attempt has executed a piece again.
    repeated: u32,
    /// An error after which no piece can be executed again: the whole attempt must end.
    doomed: bool,
    /// The piece that runs has failed, and waits for its turn with its next access.
    has_failed: bool,
    /// The turn that it has.
    turn: Option<usize>,

    // Of accesses that are not tracked.
    reads: ReadSet<Ic3>,
    gaps: GapSet,
    /// How many of them there were before this piece.
    reads_before: usize,
    gaps_before: usize,
    /// Transactions that a closure's inserts have met in gaps.
    met: Vec<Id>,
    /// Gaps in which these put rows in the places of deleted ones; they are among `gaps` too.
    filled: Vec<GapRef>,

    // Of the piece.
    items: Vec<Item>,
    /// Not among the items.
    fresh: Vec<Fresh>,
    piece_gaps: GapSet,
    /// Deleted rows that its scans have passed.
    passed: Vec<Passed>,
    /// Gaps in which it puts rows in the places of deleted ones, and the sites that do; they are among `piece_gaps` too.
    fills: Vec<(GapRef, u16)>,
    /// The look at the first group of what is read, and those at all of them if there are several.
    look: Option<Look>,
    looks: Vec<Look>,

    // Of the transaction's pieces so far.
    entered: Vec<Entered>,
    dependencies: Vec<Dependency>,
    /// Some that are about to be put there.
    before: Vec<Id>,
    images: Images,
    /// A piece has ended that accessed anything that is tracked, if only gaps.
    has_shown: bool,

    // Of the commit.
    /// The stamps of all that was shown are locked.
    shown_locked: bool,
    /// What was not shown.
    locks: Vec<Lock>,
    order: Vec<(u32, u8)>,
    last: u64,
    /// For how long it waits with latches in hand: never for as long as another in the same place.
    random: Random,
    /// Lets others run while it waits for a transaction.
    suspender: Option<Suspender>,
}

/// How often a piece tries to get its latches before it executes again.
const LATCH_TRIES: u32 = 8;

impl Local {
    /// What the plan says of a site.
    #[inline(always)]
    fn planned(&self, site: u16) -> Option<PlannedSite> {
        self.planned.as_ref()?.site(site)
    }

    fn id(&self) -> Id {
        Id::new(self.worker, self.generation)
    }

    /// The commit has failed: a read that was not tracked has changed, or what would be written.
    #[cold]
    fn failed(&mut self, conflict: Conflict, clock: &EpochClock) -> Conflict {
        if self.running != Running::Closure
            && self.options.tracking == Tracking::Contended
            && let Some(site) = self.reads.broken()
            && let Some(site) = self.planned(site)
            && let Some((planned, plan)) = self.planned.as_ref().zip(self.plan.as_ref())
        {
            let vertex = planned.pieces[site.piece as usize].vertex;
            if plan.failed(vertex, clock.now()) {
                self.wish = Some((vertex, true));
            }
        }
        self.doom(conflict)
    }

    /// Counts a piece at a hot vertex, and whether it met anybody.
    #[inline]
    fn count(&mut self, piece: u16, met: bool) {
        /// Pieces after which a vertex is judged.
        const PIECES: u32 = 1 << 16;
        /// Of so many pieces of a hot vertex one at least should meet anybody.
        const RARE: u32 = 1 << 10;
        let Some(planned) = &self.planned else { return };
        let vertex = planned.pieces[piece as usize].vertex;
        let counts = &mut self.met_at[vertex as usize];
        counts.0 += 1;
        counts.1 += u32::from(met);
        if counts.0 == PIECES {
            if counts.1 < PIECES / RARE && self.options.tracking == Tracking::Contended {
                self.wish = Some((vertex, false));
            }
            *counts = (0, 0);
        }
    }

    /// Whether another has said that this one will abort, because it has read from him and he does.
    #[inline(always)]
    fn is_doomed(&self) -> bool {
        self.running == Running::Pieces && self.shared.slots.is_doomed(self.id())
    }

    /// The transaction cannot go on, whatever piece is executed again.
    fn doom(&mut self, conflict: Conflict) -> Conflict {
        self.doomed = true;
        conflict
    }

    // ---- Reading ------------------------------------------------------------------------------------

    /// Looks for the present values of groups, shown or committed; `None` if the row does not exist.
    fn look(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
    ) -> Result<Option<RecordData>, Conflict> {
        let first = groups.trailing_zeros() as usize;
        let look = self.look_at(Accessed::new(record, first))?;
        self.look = Some(look);
        if !groups.is_power_of_two() {
            return self.look_at_others(record, layout, groups);
        }
        Ok(look.present.then(|| match look.source {
            Source::Committed(_) => RecordData::new(record, data_base::<Ic3>(layout)),
            Source::Shown { image, .. } => {
                RecordData::new(image, layout.groups[first].span.start.wrapping_neg())
            }
        }))
    }

    /// Whether who shows a value will abort. He may know it, and stand in line for the latch under which he marks it.
    #[inline(always)]
    fn will_vanish(&self, look: &Look) -> bool {
        look.doomed || look.by.is_some_and(|by| self.shared.slots.is_doomed(by))
    }

    /// Looks for the present value of a group, if need be when he has withdrawn who shows it and will abort: who took it
    /// would abort with him, and others after that, as long as transactions come faster than they learn that they must
    /// abort.
    #[inline(always)]
    fn look_at(&mut self, at: Accessed) -> Result<Look, Conflict> {
        let look = at.look()?;
        if self.will_vanish(&look) { self.look_after_withdrawal(at) } else { Ok(look) }
    }

    /// The same. He waits for nobody any more but who has a latch, and we have none.
    #[cold]
    fn look_after_withdrawal(&mut self, at: Accessed) -> Result<Look, Conflict> {
        let mut look = at.look();
        wait_until(self.suspender.as_ref(), || {
            look = at.look();
            self.is_doomed() || look.as_ref().map_or(true, |look| !self.will_vanish(look))
        });
        match look {
            Ok(look) if self.will_vanish(&look) => Err(self.doom(Conflict::Cascade)),
            look => look,
        }
    }

    /// The same where there are several groups; the first was looked at.
    fn look_at_others(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
    ) -> Result<Option<RecordData>, Conflict> {
        self.looks.clear();
        self.looks.extend(self.look);
        for group in Groups(groups).skip(1) {
            let look = self.look_at(Accessed::new(record, group))?;
            self.looks.push(look);
        }
        let shown = |look: &Look| matches!(look.source, Source::Shown { .. });
        Ok(match self.looks.iter().all(|look| look.present) {
            false => None,
            true if self.looks.iter().any(shown) => Some(self.put_together(record, layout, groups)),
            true => Some(RecordData::new(record, data_base::<Ic3>(layout))),
        })
    }

    /// Groups from different places, in memory of our own.
    fn put_together(&mut self, record: RecordRef, layout: &'static Layout, groups: GroupSet) -> RecordData {
        let row = self.images.take(layout.words, &self.shared.chunks);
        for (group, look) in Groups(groups).zip(&self.looks) {
            let span = layout.groups[group].span;
            let (from, base) = match look.source {
                Source::Committed(_) => (record, data_base::<Ic3>(layout) + span.start),
                Source::Shown { image, .. } => (image, 0),
            };
            for index in 0..span.len() {
                let word = from.word(base + index).load(Ordering::Relaxed);
                row.word(span.start + index).store(word, Ordering::Relaxed);
            }
        }
        RecordData::new(row, 0)
    }

    /// Notes the looks for this piece, if what was copied since is what they found.
    fn looked(&mut self, record: RecordRef, layout: &'static Layout, groups: GroupSet) -> bool {
        if groups.is_power_of_two()
            && let Some(look) = self.look
        {
            let at = Accessed::new(record, groups.trailing_zeros() as usize);
            let stands = at.stands(&look);
            // Often it was read just now, by a scan or for another column.
            let again = |item: &Item| item.at == at && item.reads && item.value == look.value();
            if stands && !self.items.last().is_some_and(again) {
                self.items.push(Item { value: look.value(), reads: true, ..Item::new(at, layout) });
            }
            return stands;
        }
        let same = |(group, look): (usize, &Look)| Accessed::new(record, group).stands(look);
        if !Groups(groups).zip(&self.looks).all(same) {
            return false;
        }
        for (group, look) in Groups(groups).zip(&self.looks) {
            let at = Accessed::new(record, group);
            self.items.push(Item { value: look.value(), reads: true, ..Item::new(at, layout) });
        }
        true
    }

    /// Notes for this piece that a scan has come to a row that does not exist, if that is still so.
    #[cold]
    fn pass(&mut self, record: RecordRef, layout: &'static Layout, groups: GroupSet) -> bool {
        let one = groups.is_power_of_two();
        let looks = if one { self.look.as_slice() } else { &self.looks };
        // One group that says so is enough: whoever makes the row exist writes them all.
        let Some((group, look)) = Groups(groups).zip(looks).find(|(_, look)| !look.present) else {
            return false;
        };
        let at = Accessed::new(record, group);
        let by = match look.source {
            Source::Committed(stamp) if stamp::is_placeholder(stamp) => {
                return self.looked(record, layout, groups);
            }
            Source::Committed(_) => None,
            Source::Shown { by, .. } => Some(by.id()),
        };
        let stands = at.stands(look);
        if stands {
            self.passed.push(Passed { at, value: look.value(), by });
        }
        stands
    }

    // ---- Pieces -------------------------------------------------------------------------------------

    /// Waits until everyone that this transaction depends on is past a piece's place, or has ended.
    fn wait_for_rank(&mut self, place: Place) -> Result<(), Conflict> {
        if self.is_free() || planted(Mutant::Ic3RankNotAwaited) {
            return Ok(());
        }
        let mut at = 0;
        while at < self.dependencies.len() {
            let Dependency { id, .. } = self.dependencies[at];
            let by_rank = self.options.rendezvous || self.has_edge(place.piece, id);
            let there = |local: &Self, progress: Progress| match progress {
                Progress::Running(executed) => by_rank && local.is_past(id, executed, place),
                _ => true,
            };
            match self.wait_for(id, there)? {
                Progress::Running(_) => at += 1,
                how => self.ended(at, how)?,
            }
        }
        Ok(())
    }

    /// Waits until everyone that this transaction depends on has decided to commit, or ended.
    fn wait_for_decisions(&mut self) -> Result<(), Conflict> {
        self.wait_for_all(|progress| !matches!(progress, Progress::Running(_)))
    }

    /// Waits until everyone that this transaction depends on has ended.
    fn wait_for_ends(&mut self) -> Result<(), Conflict> {
        self.wait_for_all(Progress::has_ended)
    }

    /// Waits until everyone that this transaction depends on is so far that it does not come back to them.
    fn wait_for_all(&mut self, there: impl Fn(Progress) -> bool) -> Result<(), Conflict> {
        if planted(Mutant::Ic3CommitOrderIgnored) {
            return Ok(());
        }
        while let Some(Dependency { id, .. }) = self.dependencies.last().copied() {
            let how = self.wait_for(id, |_, progress| there(progress))?;
            self.ended(self.dependencies.len() - 1, how)?;
        }
        Ok(())
    }

    /// Waits until another transaction is so far.
    #[inline]
    fn wait_for(&mut self, id: Id, there: impl Fn(&Self, Progress) -> bool) -> Result<Progress, Conflict> {
        let mut progress = self.shared.slots.progress(id);
        if there(self, progress) {
            return Ok(progress);
        }
        let patience_ns = match (self.options.interleaving, self.is_transitional) {
            (Interleaving::Free, _) => datm::PATIENCE_NS,
            (Interleaving::Constrained, true) => transition::PATIENCE_NS,
            (Interleaving::Constrained, false) => {
                let mut watch = Watch::default();
                wait_until(self.suspender.as_ref(), || {
                    progress = self.shared.slots.progress(id);
                    there(self, progress) || self.is_doomed() || watch.goes_on(self, id)
                });
                return if there(self, progress) { Ok(progress) } else { Err(self.doom(Conflict::Cascade)) };
            }
        };
        self.wait_not_for_ever(patience_ns, id, there)
    }

    /// Waits until another transaction is so far, for a limited time: up to twice as long by chance, so that of those
    /// who wait for each other one gives up first.
    fn wait_not_for_ever(
        &mut self,
        patience_ns: u64,
        id: Id,
        there: impl Fn(&Self, Progress) -> bool,
    ) -> Result<Progress, Conflict> {
        /// The same in rounds, where time stands still.
        const ROUNDS: u32 = 24;
        let patience_ns = patience_ns + self.random.below(patience_ns);
        let (begun, mut wait) = (now_ns(), Wait::new());
        loop {
            let progress = self.shared.slots.progress(id);
            if there(self, progress) {
                return Ok(progress);
            }
            if self.is_doomed() {
                return Err(self.doom(Conflict::Cascade));
            }
            if now_ns() - begun > patience_ns || (MODEL && wait.rounds() > ROUNDS) {
                return Err(self.doom(Conflict::TimedOut));
            }
            match &self.suspender {
                Some(suspender) => suspender.let_others_run(&mut wait),
                None => wait.pause(),
            }
        }
    }

    /// A transaction that this one depends on has decided, or ended.
    #[inline]
    fn ended(&mut self, at: usize, how: Progress) -> Result<(), Conflict> {
        let dependency = self.dependencies.swap_remove(at);
        if how == Progress::Aborted && dependency.forces && !planted(Mutant::Ic3AbortNotFollowed) {
            return Err(self.doom(Conflict::Cascade));
        }
        Ok(())
    }

    /// The piece that runs has failed before: waits for its rank, then for its turn.
    #[cold]
    fn take_turn(&mut self) -> Result<(), Conflict> {
        self.has_failed = false;
        let Some(place) = self.piece else { return Ok(()) };
        // Without rendezvous pieces, and between two plans, it may have to wait yet; without ranks nobody is next.
        if !self.options.rendezvous || self.is_free() || self.is_transitional {
            return Ok(());
        }
        self.wait_for_rank(place)?;
        let at = place.rank as usize % TURNS;
        let turn = &self.shared.turns[at];
        loop {
            // Relaxed: only whose turn it is depends on it, nothing else is published here.
            wait_until(self.suspender.as_ref(), || turn.load(Ordering::Relaxed) == 0 || self.is_doomed());
            if self.is_doomed() {
                return Err(self.doom(Conflict::Cascade));
            }
            if turn.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                break;
            }
        }
        self.turn = Some(at);
        Ok(())
    }

    /// Lets the next have the turn, if this one has it.
    #[inline]
    fn leave_turn(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.shared.turns[turn].store(0, Ordering::Relaxed);
        }
    }

    /// Whether a piece has a C-edge with a transaction's type.
    fn has_edge(&self, piece: u16, id: Id) -> bool {
        let of_type = self.shared.slots.of_type(id);
        self.planned
            .as_ref()
            .is_some_and(|plan| plan.pieces[piece as usize].direct.get(of_type) == Some(&true))
    }

    /// Another comes first.
    #[inline]
    fn depend(&mut self, id: Id, forces: bool) {
        if id == self.id() {
            return;
        }
        match self.dependencies.iter_mut().find(|known| known.id == id) {
            Some(known) => known.forces |= forces,
            None => {
                course(self.id().bits(), Course::After(id.bits()));
                self.dependencies.push(Dependency { id, forces });
            }
        }
    }

    /// Ends the piece that runs, and begins that of a site.
    #[inline(never)]
    fn begin_piece(&mut self, site: PlannedSite, writes: &mut WriteSet) -> Result<(), Conflict> {
        phase(Phase::Commit);
        self.end_piece(writes)?;
        if self.is_doomed() {
            return Err(self.doom(Conflict::Cascade));
        }
        phase(Phase::Body);
        let place = Place { piece: site.piece, rank: site.rank };
        self.piece = Some(place);
        (self.reads_before, self.gaps_before) = (self.reads.len(), self.gaps.len());
        if site.tracked && !self.options.optimistic_constraint {
            self.wait_for_rank(place)?;
        }
        Ok(())
    }

    /// Whether the piece that runs has accessed nothing that is tracked.
    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.items.is_empty() && self.fresh.is_empty() && self.piece_gaps.is_empty()
    }

    /// Ends the piece that runs: steps 1 to 4 of the module's header.
    fn end_piece(&mut self, writes: &mut WriteSet) -> Result<(), Conflict> {
        let Some(place) = self.piece else { return Ok(()) };
        if self.is_idle() {
            self.leave_turn();
            return Ok(());
        }
        work(Work::Checks(self.items.len() + self.fresh.len()));
        self.wait_for_rank(place)?;
        point("piece");
        self.latch_items(writes)?;
        let gaps = match self.latch_gaps() {
            Ok(gaps) => gaps,
            Err(conflict) => {
                self.unlatch_all(0);
                return Err(conflict);
            }
        };
        point("piece latched");
        if self.is_transitional
            && let Some(id) = self.ahead_of_us(place)
        {
            self.unlatch_all(gaps);
            return Err(self.give_way(id));
        }
        let bit = 1 << (self.worker % 64);
        for seen in &self.piece_gaps.looks()[..gaps] {
            if !planted(Mutant::Ic3ScanLeavesNoBit) {
                // Relaxed: under the latch.
                let stamp = seen.gap.stamp();
                stamp.store(stamp.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
            }
        }
        if !self.passed.is_empty() {
            // After the bits, before the look: see `filled_unseen`.
            fence(Ordering::SeqCst);
            let stands = |passed: &Passed| passed.at.still_passes(passed.value);
            if !self.passed.iter().all(stands) && !planted(Mutant::Ic3PassedNotChecked) {
                self.unlatch_all(gaps);
                return Err(Conflict::ReadChanged);
            }
        }
        let alone = self.dependencies.len();
        for at in 0..self.passed.len() {
            if let Some(id) = self.passed[at].by
                && !planted(Mutant::Ic3DeletionNotFollowed)
            {
                self.depend(id, true);
            }
        }
        for at in 0..self.fills.len() {
            let (gap, site) = self.fills[at];
            self.come_after_scanners(&gap, site);
        }
        let (items, fresh) = (std::mem::take(&mut self.items), std::mem::take(&mut self.fresh));
        for item in &items {
            if !item.double {
                self.enter(item, writes);
            }
        }
        for fresh in &fresh {
            self.enter_fresh(*fresh, writes);
        }
        self.count(place.piece, self.dependencies.len() > alone);
        // Before the latches are let go: who finds our bit in a gap must find our rank.
        self.shared.slots.advance(self.id(), Executed::new(place.rank, self.lane));
        self.has_shown = true;
        note(|| format!("has executed rank {}", place.rank));
        self.unlatch_gaps(gaps);
        for item in &items {
            if !item.double {
                item.at.unlatch(item.at.before_latch(), item.writes);
            }
        }
        for fresh in &fresh {
            for at in fresh.groups() {
                at.unlatch(0, true);
            }
        }
        (self.items, self.fresh) = (items, fresh);
        self.forget_piece();
        self.leave_turn();
        Ok(())
    }

    /// Forgets what the piece that runs has accessed.
    #[inline]
    fn forget_piece(&mut self) {
        self.items.clear();
        self.fresh.clear();
        self.piece_gaps.clear();
        self.passed.clear();
        self.fills.clear();
    }

    /// Of the scanners of a gap, those who run: tells `found` of all but this one, and returns their bits.
    fn scanners(&self, gap: &Gap, mut found: impl FnMut(Id, Executed)) -> u64 {
        // Relaxed: under the latch, or after a fence.
        let scanners = gap.stamp().load(Ordering::Relaxed);
        let mut running = 0;
        for bit in (0..64).filter(|bit| scanners & (1 << bit) != 0) {
            for slot in (bit..self.shared.slots.len()).step_by(64) {
                let Some((id, executed)) = self.shared.slots.running(slot) else { continue };
                running |= 1 << bit;
                if slot != self.worker && !planted(Mutant::Ic3InsertIgnoresScanners) {
                    found(id, executed);
                }
            }
        }
        running
    }

    /// Notes whom an insert that is not tracked meets in a gap; returns their bits. It takes effect at the commit: then no
    /// scanner may run. What a call inserts so, nobody scans tracked under its own plan, but maybe under a neighbouring
    /// one.
    fn meet_scanners(&mut self, gap: &Gap) -> u64 {
        let mut met = std::mem::take(&mut self.met);
        let running = self.scanners(gap, |id, _| met.push(id));
        self.met = met;
        running
    }

    /// What a site inserts comes after those who have scanned the gap. Returns the bits of those who run.
    fn come_after_scanners(&mut self, gap: &Gap, site: u16) -> u64 {
        let mut before = std::mem::take(&mut self.before);
        let running = self.scanners(gap, |id, executed| {
            if self.is_free() || self.may_come_before(id, executed, site) {
                before.push(id);
            }
        });
        before.drain(..).for_each(|id| self.depend(id, false));
        self.before = before;
        running
    }

    /// Latches all that the piece accessed, and checks that it is what it was.
    #[inline]
    fn latch_items(&mut self, writes: &WriteSet) -> Result<(), Conflict> {
        for (at, item) in self.items.iter().enumerate() {
            // Mostly nobody else is there.
            match item.at.try_latch() {
                Ok(Some(access)) if item.stands(access, writes) => {}
                Ok(Some(access)) => {
                    item.at.unlatch_unchanged(access);
                    return self.latch_with_patience(at, writes);
                }
                _ => return self.latch_with_patience(at, writes),
            }
        }
        for (at, fresh) in self.fresh.iter().enumerate() {
            for group in fresh.groups() {
                if !group.latch_untouched() {
                    fresh.groups().take(group.group.into()).for_each(|at| at.unlatch_unchanged(0));
                    self.unlatch_fresh(at);
                    return self.latch_with_patience(self.items.len(), writes);
                }
            }
        }
        Ok(())
    }

    /// The same where it takes more; the first `latched` items are.
    #[cold]
    fn latch_with_patience(&mut self, latched: usize, writes: &WriteSet) -> Result<(), Conflict> {
        self.take_fresh_as_others();
        let (mut at, mut tries) = (latched, Wait::new());
        loop {
            let outcome = loop {
                if at == self.items.len() {
                    return Ok(());
                }
                if let Err(conflict) = self.latch_item(at, writes) {
                    break conflict;
                }
                at += 1;
            };
            self.unlatch_items(at);
            // Someone has one of ours and may wait for another of ours.
            if outcome != Conflict::Locked || tries.rounds() >= LATCH_TRIES {
                return Err(outcome);
            }
            tries.pause();
            at = 0;
        }
    }

    #[inline]
    fn latch_item(&mut self, at: usize, writes: &WriteSet) -> Result<(), Conflict> {
        let item = self.items[at];
        let (mut wait, mut patience) = (Wait::new(), None);
        let access = loop {
            if let Some(access) = item.at.try_latch()? {
                break access;
            }
            let known = self.items[..at].iter().position(|other| !other.double && other.at == item.at);
            if let Some(known) = known {
                return self.join(known, at);
            }
            // Two that each have what the other waits for must not give up in step.
            let random = &mut self.random;
            let patience = *patience.get_or_insert_with(|| PAUSES + random.below(u64::from(PAUSES)) as u32);
            if wait.rounds() >= patience {
                return Err(Conflict::Locked);
            }
            wait.pause();
        };
        // From here on it is among those that `unlatch_items` lets go, if only it is told of it.
        self.items[at].double = false;
        let believed = item.reads && planted(Mutant::Ic3PieceNotValidated);
        if !believed && !item.stands(access, writes) {
            item.at.unlatch_unchanged(access);
            return Err(Conflict::ReadChanged);
        }
        Ok(())
    }

    /// Item `at` is the same group as the latched item `known`.
    fn join(&mut self, known: usize, at: usize) -> Result<(), Conflict> {
        let item = self.items[at];
        let first = &mut self.items[known];
        let value = if first.reads { first.value } else { value_of(first.at.before_latch()) };
        if item.reads && item.value != value {
            return Err(Conflict::ReadChanged);
        }
        first.value = value;
        first.reads |= item.reads;
        if item.writes {
            (first.writes, first.write) = (true, item.write);
        }
        self.items[at].double = true;
        Ok(())
    }

    /// Whether what the piece has read, entered nowhere yet, is still so.
    fn piece_stands(&self) -> Result<(), Conflict> {
        if self.items.iter().any(|item| item.reads && !item.at.still(item.value))
            || self.passed.iter().any(|passed| !passed.at.still(passed.value))
        {
            return Err(Conflict::ReadChanged);
        }
        self.piece_gaps.validate()
    }

    /// Lets go of the first `latched` items, unchanged.
    fn unlatch_items(&mut self, latched: usize) {
        for item in &mut self.items[..latched] {
            if !std::mem::take(&mut item.double) {
                item.at.unlatch_unchanged(item.at.before_latch());
            }
        }
    }

    /// Lets go of the first `latched` fresh records, untouched.
    fn unlatch_fresh(&self, latched: usize) {
        for at in self.fresh[..latched].iter().flat_map(|fresh| fresh.groups()) {
            at.unlatch_unchanged(0);
        }
    }

    /// Makes items of the records that the piece has added, like those of any other record.
    #[cold]
    fn take_fresh_as_others(&mut self) {
        for fresh in self.fresh.drain(..) {
            let Fresh { layout, write, .. } = fresh;
            for at in fresh.groups() {
                // Its value version was 0 when it was added, and anybody's write would have raised it.
                self.items.push(Item { reads: true, writes: true, write, ..Item::new(at, layout) });
            }
        }
    }

    /// Latches the gaps that the piece looked at, at the versions that it saw. Returns how many; those after
    /// are the same ones again.
    fn latch_gaps(&mut self) -> Result<usize, Conflict> {
        let looks = self.piece_gaps.unique();
        for at in 0..looks {
            let Seen { gap, version } = self.piece_gaps.looks()[at];
            let mut wait = Wait::new();
            loop {
                if let Some(latch) = gap.try_latch(version) {
                    latch.keep();
                    break;
                }
                // Latched by one who has not changed it yet, or changed.
                if gap.settled_now().is_some_and(|now| now != version) || wait.rounds() >= PAUSES {
                    self.unlatch_gaps(at);
                    return Err(Conflict::Phantom);
                }
                wait.pause();
            }
        }
        Ok(looks)
    }

    /// Lets go of all that the piece has latched, unchanged; of its gaps, the first `gaps`.
    fn unlatch_all(&mut self, gaps: usize) {
        self.unlatch_gaps(gaps);
        self.unlatch_items(self.items.len());
        self.unlatch_fresh(self.fresh.len());
    }

    fn unlatch_gaps(&self, latched: usize) {
        for seen in &self.piece_gaps.looks()[..latched] {
            seen.gap.unlatch(seen.version);
        }
    }

    /// Enters an item into its group's list and learns on whom it depends. Under the latch.
    #[inline]
    fn enter(&mut self, item: &Item, writes: &mut WriteSet) {
        let Item { at, layout, reads, .. } = *item;
        let write = item.writes.then(|| &writes.writes()[item.write as usize]);
        // Without ranks another may have come between two writes of ours, and if it aborts, so must we: whom it
        // depends on we then would not wait for (found by the search: datm/10).
        let blind = !reads && write.is_some_and(Write::is_full) && !self.is_free();
        let mut older = at.newest();
        while let Some(accessor) = older {
            if accessor.writes() {
                // Even who overwrites blindly shows the rest of the group as that one left it.
                self.depend(accessor.id(), !blind);
                break;
            }
            if item.writes && !planted(Mutant::Ic3ReadersNotAwaited) {
                self.depend(accessor.id(), false);
            }
            older = accessor.older();
        }
        let span = layout.groups[at.group as usize].span;
        let doing = write.map_or(Doing::Reads, |write| Doing::Writes { present: write.present, blind });
        let shows = write.filter(|write| write.present);
        let words = if shows.is_some() { span.len() } else { 0 };
        let block = self.images.take(ACCESSOR_WORDS + words, &self.shared.chunks);
        let image = block.part(ACCESSOR_WORDS);
        let accessor = Accessor::new(block, self.id(), doing, image);
        if let Some(write) = shows {
            let from = match older.and_then(Accessor::image) {
                Some(image) => image,
                None => at.record.part(data_base::<Ic3>(layout) + span.start),
            };
            let lost = older.is_some() && planted(Mutant::Ic3ImageWithoutLastWriter);
            // A row that comes into being has no words before.
            if !write.is_full() && !lost {
                for index in 0..words {
                    // Relaxed throughout: published by the latch's release.
                    let word = from.word(index).load(Ordering::Relaxed);
                    image.word(index).store(word, Ordering::Relaxed);
                }
            }
            let image = |word: usize| image.lasting_word(word - span.start);
            writes.apply(write, span, image);
        }
        if item.writes {
            writes.expose(item.write as usize, 1 << at.group);
        }
        at.enter(accessor);
        self.entered.push(Entered { at, accessor });
    }

    /// Enters a record that the piece has added, alone in the lists of its groups. Under all their latches.
    #[inline]
    fn enter_fresh(&mut self, fresh: Fresh, writes: &mut WriteSet) {
        let Fresh { record, layout, write } = fresh;
        let doing = Doing::Writes { present: writes.writes()[write as usize].present, blind: true };
        let base = data_base::<Ic3>(layout);
        writes.show_in_place(write as usize, base);
        let mut block = self.images.take(layout.groups.len() * ACCESSOR_WORDS, &self.shared.chunks);
        for (number, group) in layout.groups.iter().enumerate() {
            let at = Accessed::new(record, number);
            let accessor = Accessor::new(block, self.id(), doing, record.part(base + group.span.start));
            block = block.part(ACCESSOR_WORDS);
            at.enter_alone(accessor);
            self.entered.push(Entered { at, accessor });
        }
    }

    // ---- Commit -------------------------------------------------------------------------------------

    /// Locks the stamps of all groups that are written. Returns the latest time among them.
    fn lock(&mut self, writes: &WriteSet) -> Result<u64, Conflict> {
        // Whoever comes here waits for nobody any more but for those who do not either, so those who wait for him with
        // a latch in hand, in one order, wait in no circle. What was written first comes last, and is unlatched
        // first: mostly it is what the most others write.
        self.shown_locked = true;
        let mut newest = 0;
        for write in writes.writes() {
            for group in Groups(write.exposed) {
                // Relaxed, a plain store: whoever is older in the list has ended or has the lock, and as long as our
                // accessor is there nobody else takes it. The fence of `commit_epoch` orders it as it does locks.
                let at = Accessed::new(write.record, group);
                let mut stamp = at.stamp().load(Ordering::Relaxed);
                if stamp::is_locked(stamp) && !planted(Mutant::Ic3LockTakenEarly) {
                    stamp = at.wait_for_install();
                }
                at.stamp().store(stamp | stamp::LOCK, Ordering::Relaxed);
                newest = newest.max(stamp::time(stamp));
            }
        }
        match self.lock_others(writes) {
            Err(Conflict::Locked) => {
                self.unlock();
                self.lock_with_patience(writes)
            }
            outcome => outcome,
        }?;
        Ok(self.locks.iter().fold(newest, |newest, lock| newest.max(stamp::time(lock.stamp))))
    }

    /// Locks what was not shown, as long as nobody is in the way.
    #[inline]
    fn lock_others(&mut self, writes: &WriteSet) -> Result<(), Conflict> {
        for write in writes.writes().iter().rev() {
            for group in Groups(write.groups & !write.exposed) {
                let at = Accessed::new(write.record, group);
                self.locks.push(Self::lock_one(at, write.was_present, false)?);
            }
        }
        Ok(())
    }

    /// Locks what was not shown: in one order with the others, and so for as long as it takes.
    #[cold]
    fn lock_with_patience(&mut self, writes: &WriteSet) -> Result<(), Conflict> {
        self.order.clear();
        for (number, write) in writes.writes().iter().enumerate() {
            self.order
                .extend(Groups(write.groups & !write.exposed).map(|group| (number as u32, group as u8)));
        }
        let place = |&(number, group): &(u32, u8)| {
            let write = &writes.writes()[number as usize];
            (write.relation, writes.key(write), group)
        };
        self.order.sort_unstable_by(|one, other| place(other).cmp(&place(one)));
        for &(number, group) in &self.order {
            let write = &writes.writes()[number as usize];
            let at = Accessed { record: write.record, group };
            self.locks.push(Self::lock_one(at, write.was_present, true)?);
        }
        Ok(())
    }

    /// Latches a group that nobody accesses and locks its stamp.
    fn lock_one(at: Accessed, was_present: bool, patient: bool) -> Result<Lock, Conflict> {
        let mut wait = Wait::new();
        loop {
            if let Some(access) = at.try_latch()? {
                let stamp = at.stamp().load(Ordering::Relaxed);
                let refused = if at.newest().is_some() && !planted(Mutant::Ic3ClosureIgnoresAccessors) {
                    Some(Conflict::Accessed)
                } else if stamp::is_absent(stamp) == was_present {
                    Some(Conflict::ReadChanged)
                } else {
                    None
                };
                if let Some(conflict) = refused {
                    at.unlatch_unchanged(access);
                    return Err(conflict);
                }
                at.stamp().store(stamp | stamp::LOCK, Ordering::Relaxed);
                return Ok(Lock { at, stamp, access });
            }
            if !patient && wait.rounds() >= PAUSES {
                return Err(Conflict::Locked);
            }
            wait.pause();
        }
    }

    /// Undoes the locks of what was not shown.
    fn unlock(&mut self) {
        for Lock { at, stamp, access } in self.locks.drain(..) {
            // Release: the lock's critical section ends here.
            at.stamp().store(stamp, Ordering::Release);
            at.unlatch_unchanged(access);
        }
    }

    /// Undoes the locks of what was shown, if they were taken.
    fn unlock_shown(&mut self, writes: &WriteSet) {
        if !std::mem::take(&mut self.shown_locked) {
            return;
        }
        for write in writes.writes() {
            for group in Groups(write.exposed) {
                let at = Accessed::new(write.record, group);
                // Release: as above.
                at.stamp().store(at.stamp().load(Ordering::Relaxed) & !stamp::LOCK, Ordering::Release);
            }
        }
    }

    /// Takes this transaction's accessors out of all lists.
    fn withdraw(&mut self, committed: bool) {
        if !committed && !self.entered.is_empty() {
            // Before the latches, for which others stand in line who would read what is withdrawn.
            self.shared.slots.doom(self.id());
        }
        // The newest first, so that of two in one list the value goes back step by step.
        while let Some(Entered { at, accessor }) = self.entered.pop() {
            // Sealed: then another took us out of the list.
            let Ok(access) = at.latch() else { continue };
            match accessor.writes() {
                true if committed => at.withdraw_older(accessor),
                true => at.doom_followers(accessor, |id| self.shared.slots.doom(id)),
                false => {}
            }
            at.withdraw(accessor);
            let other_value = !committed && accessor.writes() && !planted(Mutant::Ic3WithdrawalKeepsVersion);
            at.unlatch(access, other_value);
        }
    }

    /// Ends the transaction for those who wait for it.
    fn end(&mut self, committed: bool) {
        self.leave_turn();
        if self.running == Running::Pieces {
            self.shared.slots.end(self.id(), committed);
            course(self.id().bits(), if committed { Course::Committed } else { Course::Aborted });
        }
        self.running = Running::Closure;
        self.piece = None;
        self.tracked = false;
    }

    /// Whether everyone whom a closure's inserts met in gaps has ended.
    fn met_have_ended(&self) -> bool {
        self.met.iter().all(|id| self.shared.slots.progress(*id).has_ended())
    }

    /// Whether nobody who runs has scanned a gap in which a closure puts a row in a deleted one's place. With the records
    /// locked: a scanner leaves his bit, then looks for the lock.
    fn filled_unseen(&self) -> bool {
        if self.filled.is_empty() {
            return true;
        }
        fence(Ordering::SeqCst);
        let mut unseen = true;
        for gap in &self.filled {
            self.scanners(gap, |_, _| unseen = false);
        }
        unseen
    }

    /// A time of no earlier epoch than anything read.
    fn newest_read(&self, clock: &EpochClock) -> u64 {
        // What others show, and absence, may be as young as the present epoch.
        let stamped = self.gaps.is_empty() && !self.has_shown;
        if stamped { self.reads.newest() } else { stamp::floor(clock.now()) }
    }
}

impl ConcurrencyWords for Ic3 {
    const GROUP_WORDS: usize = GROUP_WORDS;
    const NAMES: &'static [&'static str] = &["stamp", "access", "newest accessor"];

    #[inline(always)]
    fn stamp_word(group: usize) -> usize {
        GROUP_WORDS * group
    }
}

impl Protocol for Ic3 {
    const NAME: &'static str = "ic3";
    const SESSIONS_MAX: usize = 1024;
    type Options = Options;
    type Local = Local;
    type Shared = Shared;
    const GAP_FOLD: Fold = Fold::Union;
    const PIECES: bool = true;

    fn strict(_: &Options) -> bool {
        true
    }

    fn execution(_: &Options) -> Execution {
        Execution::Pieces
    }

    fn local(options: &Options, shared: &Arc<Shared>, worker: usize) -> Local {
        Local {
            shared: Arc::clone(shared),
            options: *options,
            worker,
            generation: 0,
            running: Running::Closure,
            plan: None,
            lane: 0,
            is_transitional: false,
            planned: None,
            site: 0,
            wish: None,
            met_at: Vec::new(),
            piece: None,
            tracked: false,
            doomed: false,
            repeated: 0,
            has_failed: false,
            turn: None,
            reads: ReadSet::default(),
            gaps: GapSet::default(),
            reads_before: 0,
            gaps_before: 0,
            met: Vec::new(),
            filled: Vec::new(),
            items: Vec::new(),
            fresh: Vec::new(),
            piece_gaps: GapSet::default(),
            passed: Vec::new(),
            fills: Vec::new(),
            look: None,
            looks: Vec::new(),
            entered: Vec::new(),
            dependencies: Vec::new(),
            before: Vec::new(),
            images: Images::default(),
            has_shown: false,
            shown_locked: false,
            locks: Vec::new(),
            order: Vec::new(),
            last: 0,
            random: Random::new(worker as u64),
            suspender: None,
        }
    }

    fn commutes(options: &Options) -> bool {
        options.commutative
    }

    #[inline]
    fn begin(local: &mut Local, _: Env<'_>, _: u32) {
        local.reads.clear();
        local.gaps.clear();
        local.met.clear();
        local.filled.clear();
        local.forget_piece();
        local.dependencies.clear();
        local.images.clear();
        local.locks.clear();
        (local.piece, local.tracked, local.doomed, local.has_shown) = (None, false, false, false);
        (local.shown_locked, local.has_failed) = (false, false);
        (local.reads_before, local.gaps_before, local.repeated) = (0, 0, 0);
    }

    fn tracking(options: &Options) -> Tracking {
        options.tracking
    }

    fn suspend_by(local: &mut Local, suspender: Option<Suspender>) {
        local.suspender = suspender;
    }

    #[inline]
    fn call(local: &mut Local, plan: &Arc<Plan>, of_type: usize) -> bool {
        if local.plan.as_ref().is_none_or(|known| !Arc::ptr_eq(known, plan)) {
            local.lane = plan.lane;
            local.is_transitional = plan.is_transitional && !local.is_free();
            local.plan = Some(Arc::clone(plan));
            local.met_at.clear();
            local.met_at.resize(plan.vertices(), (0, 0));
        }
        let planned = plan.of_type(of_type);
        let same =
            local.planned.as_ref().zip(planned).is_some_and(|(known, planned)| Arc::ptr_eq(known, planned));
        if !same {
            local.planned = planned.map(Arc::clone);
        }
        if !local.planned.as_ref().is_some_and(|planned| planned.tracked) {
            local.running = Running::Plain;
            return false;
        }
        local.generation += 1;
        local.running = Running::Pieces;
        local.shared.slots.begin(local.id(), of_type, local.lane);
        true
    }

    #[inline(always)]
    fn at(local: &mut Local, site: u16) {
        local.site = site;
    }

    #[inline(always)]
    fn wish(local: &mut Local) -> Option<(u16, bool)> {
        local.wish.take()
    }

    #[inline(always)]
    fn stays(local: &mut Local, site: u16) -> Option<bool> {
        let site = local.planned(site)?;
        // What is not tracked may stand in any piece that has shown nothing and will not.
        let stays = local.piece?.piece == site.piece || (!site.tracked && local.is_idle());
        (stays && !local.has_failed && !local.is_free()).then(|| {
            local.tracked = site.tracked;
            site.remembered
        })
    }

    #[inline]
    fn arrive(local: &mut Local, writes: &mut WriteSet, site: u16) -> Result<Arrived, Conflict> {
        let Some(site) = local.planned(site) else {
            // An undeclared site: checked when the transaction commits, like a closure's access.
            local.tracked = false;
            return Ok(Arrived { another_piece: false, remembered: true });
        };
        let another_piece = local.is_free() || local.piece.is_none_or(|place| place.piece != site.piece);
        if local.has_failed {
            local.take_turn()?;
        }
        if another_piece {
            local.begin_piece(site, writes)?;
        }
        local.tracked = site.tracked;
        Ok(Arrived { another_piece, remembered: site.remembered })
    }

    fn arrive_again(local: &mut Local, site: u16) -> bool {
        local.tracked = false;
        local.planned(site).is_none_or(|site| site.remembered)
    }

    #[inline]
    fn fresh(local: &mut Local, record: RecordRef, layout: &'static Layout, number: usize) -> bool {
        if !local.tracked {
            return false;
        }
        local.fresh.push(Fresh { record, layout, write: number as u32 });
        true
    }

    fn finish(local: &mut Local, writes: &mut WriteSet) -> Result<(), Conflict> {
        local.end_piece(writes)
    }

    fn again(local: &mut Local, conflict: Conflict) -> bool {
        local.leave_turn();
        if local.doomed || local.running != Running::Pieces || !local.may_repeat() {
            return false;
        }
        // Whose inserts were in the way of a scan is mostly in no queue for this turn.
        local.has_failed = conflict != Conflict::Phantom;
        local.forget_piece();
        local.reads.truncate(local.reads_before);
        local.gaps.truncate(local.gaps_before);
        true
    }

    fn alone(local: &Local) -> bool {
        (0..local.shared.slots.len()).all(|slot| local.shared.slots.running(slot).is_none())
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

    #[inline]
    fn peek(local: &mut Local, record: RecordRef) -> bool {
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

    #[inline]
    fn seen(local: &mut Local, seen: Seen) {
        if local.tracked {
            local.piece_gaps.push(seen);
        } else {
            local.gaps.push(seen);
        }
    }

    fn changed(local: &mut Local, change: Change) {
        local.piece_gaps.follow(change);
        local.gaps.follow(change);
    }

    fn joins(local: &mut Local, gap: &Gap) {
        // Relaxed throughout: under the latch.
        if gap.stamp().load(Ordering::Relaxed) == 0 {
            return;
        }
        let running = match local.tracked {
            true => local.come_after_scanners(gap, local.site),
            false => local.meet_scanners(gap),
        };
        // Whoever sets his bit later does so at a version that this insert is about to end.
        gap.stamp().store(running, Ordering::Relaxed);
    }

    fn fills(local: &mut Local, record: RecordRef, seen: Seen) {
        // If it becomes one, or ceases to be, what was read of it does not stand.
        let is_placeholder = match local.look {
            Some(look) if local.tracked => match look.source {
                Source::Committed(stamp) => stamp::is_placeholder(stamp),
                Source::Shown { .. } => false,
            },
            _ => stamp::is_placeholder(Accessed::new(record, 0).stamp().load(Ordering::Relaxed)),
        };
        match (is_placeholder, local.tracked) {
            // Who is meant set his bit before the placeholder was put there.
            (true, true) => _ = local.come_after_scanners(&seen.gap, local.site),
            (true, false) => _ = local.meet_scanners(&seen.gap),
            _ if planted(Mutant::Ic3DeletedFilledUnseen) => {}
            (false, true) => {
                local.piece_gaps.push(seen);
                local.fills.push((seen.gap, local.site));
            }
            (false, false) => {
                local.gaps.push(seen);
                local.filled.push(seen.gap);
            }
        }
    }

    fn place(record: RecordRef, layout: &'static Layout, _: &Gap) {
        for group in 0..layout.groups.len() {
            Accessed::new(record, group).reset(stamp::ABSENT);
        }
    }

    #[inline]
    fn commit(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let writes = commit.writes();
        local.wait_for_decisions()?;
        work(Work::Checks(local.reads.len() + writes.writes().len()));
        if writes.is_empty() {
            fence(Ordering::Acquire);
            local.reads.validate(|_, _| false).map_err(|conflict| local.failed(conflict, env.clock))?;
            local.gaps.validate().map_err(|conflict| local.doom(conflict))?;
            let time = local.newest_read(env.clock);
            local.end(true);
            local.withdraw(true);
            return Ok(time);
        }
        let newest_write = local.lock(writes).map_err(|conflict| local.failed(conflict, env.clock))?;
        point("locked");
        let epoch = env.commit_epoch();
        // Before the reads are validated: one who ends after that may have changed what was read, and has not seen
        // what this one inserts (found by the search: ic3/84715).
        if !local.met_have_ended() || !local.filled_unseen() {
            return Err(local.doom(Conflict::Accessed));
        }
        let own = |record, group| writes.covers(record, group);
        local.reads.validate(own).map_err(|conflict| local.failed(conflict, env.clock))?;
        local.gaps.validate().map_err(|conflict| local.doom(conflict))?;
        point("validated");
        let newest = newest_write.max(local.reads.newest());
        let time = newest.max(local.last).max(stamp::floor(epoch)) + 1;
        if stamp::epoch(time) > epoch {
            return Err(local.doom(Conflict::EpochFull));
        }
        local.last = time;
        decided(time);
        if local.running == Running::Pieces {
            local.shared.slots.decide(local.id());
        }

        // Release fence, then relaxed data stores: a reader that copied one of them also finds the lock bit or
        // a newer stamp when it checks.
        fence(Ordering::Release);
        let latched = local.locks.drain(..).rev().map(|lock| (lock.at, lock.access));
        let mut latched = latched.peekable();
        for write in writes.writes() {
            point("install");
            commit.install::<Self>(write, time);
            let word = stamp::of(time, write.present);
            for group in write.group_numbers() {
                // Release: publishes the data to whoever reads this stamp.
                Accessed::new(write.record, group).stamp().store(word, Ordering::Release);
            }
            // Mostly latched in the reverse order of the writes: others wait for one no longer than they must.
            while let Some((at, access)) = latched.next_if(|(at, _)| at.record == write.record) {
                at.unlatch(access, true);
            }
        }
        latched.for_each(|(at, access)| at.unlatch(access, true));
        local.end(true);
        local.withdraw(true);
        Ok(time)
    }

    fn validate(local: &mut Local, env: Env<'_>) -> Result<(), Conflict> {
        local.take_fresh_as_others();
        // It waits for others to end, and the piece that runs will not be entered.
        local.leave_turn();
        // What the piece that runs has read is still so, and what it was read from commits.
        local.piece_stands()?;
        fence(Ordering::SeqCst);
        local.reads.validate(|_, _| false).map_err(|conflict| local.failed(conflict, env.clock))?;
        local.gaps.validate().map_err(|conflict| local.doom(conflict))?;
        let mut last_writers: Vec<Id> = Vec::new();
        for item in local.items.iter().filter(|item| item.reads) {
            let look = item.at.look()?;
            if look.value() != item.value {
                return Err(Conflict::ReadChanged);
            }
            if let Source::Shown { by, .. } = look.source {
                let id = by.id();
                if !item.at.stands(&look) {
                    return Err(Conflict::ReadChanged);
                }
                last_writers.push(id);
            }
        }
        last_writers.extend(local.passed.iter().filter_map(|passed| passed.by));
        last_writers.into_iter().for_each(|id| local.depend(id, true));
        local.wait_for_ends()?;
        // What they have committed may be what an untracked access did not find, or what the piece that runs was too
        // early for: it may have executed before one that this transaction comes after, and is not entered.
        if !planted(Mutant::Ic3VerdictBeforeWait) {
            local.piece_stands()?;
        }
        fence(Ordering::SeqCst);
        local.reads.validate(|_, _| false).map_err(|conflict| local.failed(conflict, env.clock))?;
        local.gaps.validate().map_err(|conflict| local.doom(conflict))
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
        spare: impl FnOnce() -> bool,
    ) -> Seal {
        let from = clock.commits_from();
        // The access words before the latches; a table has at most so many groups.
        let mut before = [0; GroupSet::BITS as usize];
        let (mut latched, mut outcome) = (0, Seal::Sealed);
        for (group, before) in before.iter_mut().enumerate().take(layout.groups.len()) {
            let at = Accessed::new(record, group);
            let Ok(Some(access)) = at.try_latch() else {
                outcome = Seal::Busy;
                break;
            };
            *before = access;
            latched += 1;
            let stamp = at.stamp().load(Ordering::Relaxed);
            // Of an epoch gone by, so that whoever writes the row next, from a placeholder without a past, has
            // a greater stamp.
            let old = !stamp::is_locked(stamp) && stamp::epoch(stamp) < from;
            outcome = match at.newest() {
                Some(_) => Seal::Busy,
                None if !stamp::is_absent(stamp) => Seal::Live,
                None if old => continue,
                None => Seal::Busy,
            };
            break;
        }
        if outcome == Seal::Sealed && !spare() {
            outcome = Seal::Busy;
        }
        for (group, access) in before[..latched].iter().enumerate() {
            let at = Accessed::new(record, group);
            match outcome {
                Seal::Sealed => at.seal(),
                _ => at.unlatch_unchanged(*access),
            }
        }
        outcome
    }

    fn restore(record: RecordRef, group: usize, stamp: u64) {
        Accessed::new(record, group).reset(stamp);
    }
}

/// Looks at a wait for another transaction. In debug builds one that lasts for seconds tells who waits for whom.
#[derive(Default)]
struct Watch {
    looks: u32,
    since: u64,
    told: bool,
}

impl Watch {
    /// False, always: the wait goes on.
    #[inline]
    fn goes_on(&mut self, local: &Local, id: Id) -> bool {
        if cfg!(debug_assertions) && !crate::sync::MODEL && !cfg!(feature = "simulation") {
            self.look(local, id);
        }
        false
    }

    #[cold]
    fn look(&mut self, local: &Local, id: Id) {
        const LONG_NS: u64 = 5_000_000_000;
        self.looks = self.looks.wrapping_add(1);
        if self.told || !self.looks.is_multiple_of(1 << 10) {
            return;
        }
        let now = now_ns();
        if self.since == 0 {
            self.since = now;
        }
        if now - self.since > LONG_NS {
            let slots = &local.shared.slots;
            eprintln!(
                "heddledb: {:?}, in piece and rank {:?}, has waited for {id:?} for 5 s; these run: {:?}",
                local.id(),
                local.piece,
                (0..slots.len()).filter_map(|slot| slots.running(slot)).collect::<Vec<_>>()
            );
            self.told = true;
        }
    }
}
