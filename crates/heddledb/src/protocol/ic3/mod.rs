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
//! Transactions commit in the order of their dependencies: each waits for those it depends on to end, aborts
//! if it has read from one that aborted, and then installs what it wrote. So the order in which transactions
//! commit is a serial order of all of them. One that commits has ended when everything is installed; it leaves
//! the lists after that.
//!
//! **In turn.** Where many execute the same piece at once and each enters what the others have read, most fail,
//! and execute it again, and get into each other's way. So who has failed executes his piece again when he is
//! next: one at a time, at each rank. Who has the turn waits for nobody any more: he has waited for his rank
//! before, and whom he meets while he executes the piece is past it.
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
//! the other has passed. Splits and merges of gaps unite their bits (PITFALLS I11). Whoever fills a place where
//! an absent record is already, say the placeholder of an insert that aborted, asks the gap too: the scanner
//! may have looked before that was put there (found by the search).
//!
//! **Skipped pieces** (PITFALLS I2). A rank is published by a piece that has waited for it, and that includes
//! all lower ranks. So a piece that was left out in between needs nothing of its own.
//!
//! **Where we leave the paper.** Ranks instead of C-edge tables at run time; values in accessors; dependencies
//! on all readers since the last writer; the kind of a dependency decides whether its abort is ours (I8);
//! what aborted is found in the slot and not announced to each victim; a failed piece runs again by
//! executing the body again with the answers that it got before (`db::recall`). Tests: the mutants `Ic3*`.
//!
//! Strictly serializable: the commit order is one of real time.

mod accessors;
mod images;
mod slots;

use super::reads::{GapSet, PAUSES, ReadSet};
use super::{Arrived, Env, Intent, Protocol, Seal};
use crate::access::{Groups, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Fold, Gap, Seen};
use crate::mutant::{Mutant, planted};
use crate::procedure::{Plan, PlannedSite, PlannedType, Tracking};
use crate::record::{ConcurrencyWords, RecordData, RecordRef, data_base};
use crate::stamp;
use crate::sync::{
    AtomicU64, MODEL, Ordering, Random, Wait, Work, decided, fence, note, now_ns, point, spin_until, work,
};
use crate::table::{GroupSet, Layout};
use accessors::{Accessed, Accessor, Doing, GROUP_WORDS, IMAGE, Look, Source, value_of};
use crossbeam_utils::CachePadded;
use images::{Chunks, Images};
use slots::{Id, Progress, Slots};
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
}

impl Options {
    /// All of it, where transactions contend.
    pub const CONTENDED: Self = Self { tracking: Tracking::Contended, ..Self::FULL };
    /// The paper's IC3 with all that its §4 adds.
    pub const FULL: Self =
        Self { optimistic_constraint: true, rendezvous: true, commutative: true, tracking: Tracking::Always };
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
    /// The access word before the latch.
    access: u64,
    /// Another item is the same group; that one has taken over what this one does.
    double: bool,
}

impl Item {
    #[inline(always)]
    fn new(at: Accessed, layout: &'static Layout) -> Self {
        Self { at, layout, write: 0, value: 0, reads: false, writes: false, access: 0, double: false }
    }
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

/// A group whose stamp is locked.
struct Lock {
    at: Accessed,
    stamp: u64,
    /// The access word before the latch; `None` where our own accessor keeps others away.
    access: Option<u64>,
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
    /// What the plan says of its type.
    planned: Option<Arc<PlannedType>>,
    /// The site of the next access.
    site: u16,
    /// A vertex that had better be hot, or cold.
    wish: Option<(u16, bool)>,
    /// By vertex: pieces that this worker has executed there, and those of them that met anybody.
    met_at: Vec<(u32, u32)>,
    /// The piece that runs and its rank, once there is one.
    piece: Option<(u16, u16)>,
    /// What is accessed next is tracked.
    tracked: bool,
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

    // Of the piece.
    items: Vec<Item>,
    piece_gaps: GapSet,
    looks: Vec<Look>,

    // Of the transaction's pieces so far.
    entered: Vec<Entered>,
    dependencies: Vec<Dependency>,
    images: Images,
    /// A piece has ended that accessed anything that is tracked, if only gaps.
    has_shown: bool,

    // Of the commit.
    locks: Vec<Lock>,
    order: Vec<(u32, u8)>,
    last: u64,
    /// For how long it waits with latches in hand: never for as long as another in the same place.
    random: Random,
}

/// How often a piece tries to get its latches before it executes again.
const LATCH_TRIES: u32 = 8;

impl Local {
    /// What the plan says of a site.
    #[inline(always)]
    fn planned(&self, site: u16) -> Option<PlannedSite> {
        self.planned.as_ref()?.sites.get(site as usize).copied()
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

    /// The transaction cannot go on, whatever piece is executed again.
    fn doom(&mut self, conflict: Conflict) -> Conflict {
        self.doomed = true;
        conflict
    }

    // ---- Reading ------------------------------------------------------------------------------------

    /// Reads the present values of groups, shown or committed, and notes the look for this piece.
    fn read_tracked<R>(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        mut copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        if groups.is_power_of_two() {
            return self.read_group(record, layout, groups.trailing_zeros() as usize, copy);
        }
        loop {
            self.looks.clear();
            for group in Groups(groups) {
                self.looks.push(Accessed::new(record, group).look()?);
            }
            let present = self.looks.iter().all(|look| look.present);
            let value = present.then(|| self.copy_present(record, layout, groups, &mut copy));
            let same = |(group, look): (usize, &Look)| Accessed::new(record, group).stands(look);
            if Groups(groups).zip(&self.looks).all(same) {
                for (group, look) in Groups(groups).zip(&self.looks) {
                    let at = Accessed::new(record, group);
                    self.items.push(Item { value: look.value(), reads: true, ..Item::new(at, layout) });
                }
                return Ok(value);
            }
        }
    }

    /// The same for one group, as is usual.
    #[inline]
    fn read_group<R>(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        group: usize,
        mut copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        let at = Accessed::new(record, group);
        loop {
            let look = at.look()?;
            let value = look.present.then(|| match look.source {
                Source::Committed(_) => copy(RecordData::new(record, data_base::<Ic3>(layout))),
                Source::Shown(accessor) => {
                    let start = layout.groups[group].span.start;
                    copy(RecordData::new(accessor.block(), IMAGE.wrapping_sub(start)))
                }
            });
            if at.stands(&look) {
                self.items.push(Item { value: look.value(), reads: true, ..Item::new(at, layout) });
                return Ok(value);
            }
        }
    }

    /// Copies from where the looks found the values.
    fn copy_present<R>(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        copy: &mut impl FnMut(RecordData) -> R,
    ) -> R {
        let base = data_base::<Ic3>(layout);
        let shown = |look: &Look| matches!(look.source, Source::Shown(_));
        if !self.looks.iter().any(shown) {
            return copy(RecordData::new(record, base));
        }
        // Groups from different places: put together in memory of our own.
        let row = self.images.take(layout.words, &self.shared.chunks);
        for (group, look) in Groups(groups).zip(&self.looks) {
            let span = layout.groups[group].span;
            let (from, base) = match look.source {
                Source::Committed(_) => (record, base + span.start),
                Source::Shown(accessor) => (accessor.block(), IMAGE),
            };
            for index in 0..span.len() {
                let word = from.word(base + index).load(Ordering::Relaxed);
                row.word(span.start + index).store(word, Ordering::Relaxed);
            }
        }
        copy(RecordData::new(row, 0))
    }

    // ---- Pieces -------------------------------------------------------------------------------------

    /// Waits until everyone that this transaction depends on has executed `rank`, or has ended.
    fn wait_for_rank(&mut self, piece: u16, rank: u16) -> Result<(), Conflict> {
        if planted(Mutant::Ic3RankNotAwaited) {
            return Ok(());
        }
        let mut at = 0;
        while at < self.dependencies.len() {
            let Dependency { id, .. } = self.dependencies[at];
            let by_rank = self.options.rendezvous || self.has_edge(piece, id);
            let there = |progress: Progress| match progress {
                Progress::Running(executed) => by_rank && executed >= rank,
                _ => true,
            };
            match self.wait_for(id, there) {
                Progress::Running(_) => at += 1,
                how => self.ended(at, how)?,
            }
        }
        Ok(())
    }

    /// Waits until everyone that this transaction depends on has ended.
    fn wait_for_ends(&mut self) -> Result<(), Conflict> {
        if planted(Mutant::Ic3CommitOrderIgnored) {
            return Ok(());
        }
        while let Some(Dependency { id, .. }) = self.dependencies.last().copied() {
            let how = self.wait_for(id, |progress| !matches!(progress, Progress::Running(_)));
            self.ended(self.dependencies.len() - 1, how)?;
        }
        Ok(())
    }

    /// Waits until another transaction is so far.
    #[inline]
    fn wait_for(&self, id: Id, there: impl Fn(Progress) -> bool) -> Progress {
        let mut progress = self.shared.slots.progress(id);
        if !there(progress) {
            let mut watch = Watch::default();
            spin_until(|| {
                progress = self.shared.slots.progress(id);
                there(progress) || watch.goes_on(self, id)
            });
        }
        progress
    }

    /// A transaction that this one depends on has ended.
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
        let Some((piece, rank)) = self.piece else { return Ok(()) };
        // Without rendezvous pieces it may have to wait for ends yet.
        if !self.options.rendezvous {
            return Ok(());
        }
        self.wait_for_rank(piece, rank)?;
        let at = rank as usize % TURNS;
        let turn = &self.shared.turns[at];
        loop {
            // Relaxed: only whose turn it is depends on it, nothing else is published here.
            spin_until(|| turn.load(Ordering::Relaxed) == 0);
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
            None => self.dependencies.push(Dependency { id, forces }),
        }
    }

    /// Ends the piece that runs: steps 1 to 4 of the module's header.
    fn end_piece(&mut self, writes: &mut WriteSet) -> Result<(), Conflict> {
        let Some((piece, rank)) = self.piece else { return Ok(()) };
        if self.items.is_empty() && self.piece_gaps.is_empty() {
            return Ok(());
        }
        work(Work::Checks(self.items.len()));
        self.wait_for_rank(piece, rank)?;
        point("piece");
        self.latch_items(writes)?;
        let gaps = match self.latch_gaps() {
            Ok(gaps) => gaps,
            Err(conflict) => {
                self.unlatch_items(self.items.len());
                return Err(conflict);
            }
        };
        point("piece latched");
        let bit = 1 << (self.worker % 64);
        for seen in &self.piece_gaps.looks()[..gaps] {
            if !planted(Mutant::Ic3ScanLeavesNoBit) {
                // Relaxed: under the latch.
                let stamp = seen.gap.stamp();
                stamp.store(stamp.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
            }
        }
        let alone = self.dependencies.len();
        for at in 0..self.items.len() {
            if !self.items[at].double {
                self.enter(at, writes);
            }
        }
        self.count(piece, self.dependencies.len() > alone);
        // Before the latches are let go: who finds our bit in a gap must find our rank.
        self.shared.slots.advance(self.id(), rank);
        self.has_shown = true;
        note(|| format!("has executed rank {rank}"));
        self.unlatch_gaps(gaps);
        for item in self.items.drain(..).filter(|item| !item.double) {
            item.at.unlatch(item.access, item.writes);
        }
        self.piece_gaps.clear();
        self.leave_turn();
        Ok(())
    }

    /// Latches all that the piece accessed, and checks that it is what it was.
    #[inline]
    fn latch_items(&mut self, writes: &WriteSet) -> Result<(), Conflict> {
        for at in 0..self.items.len() {
            let item = &mut self.items[at];
            // Mostly nobody else is there, and what is written was read.
            match item.at.try_latch() {
                Ok(Some(access)) if item.reads && value_of(access) == item.value => item.access = access,
                Ok(Some(access)) => {
                    item.at.unlatch_unchanged(access);
                    return self.latch_with_patience(at, writes);
                }
                _ => return self.latch_with_patience(at, writes),
            }
        }
        Ok(())
    }

    /// The same where it takes more; the first `latched` items are.
    #[cold]
    fn latch_with_patience(&mut self, latched: usize, writes: &WriteSet) -> Result<(), Conflict> {
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
        // Two that each have what the other waits for must not give up in step.
        let patience = PAUSES + self.random.below(u64::from(PAUSES)) as u32;
        let mut wait = Wait::new();
        let access = loop {
            if let Some(access) = item.at.try_latch()? {
                break access;
            }
            let known = self.items[..at].iter().position(|other| !other.double && other.at == item.at);
            if let Some(known) = known {
                return self.join(known, at);
            }
            if wait.rounds() >= patience {
                return Err(Conflict::Locked);
            }
            wait.pause();
        };
        // From here on it is among those that `unlatch_items` lets go, if only it is told of it.
        self.items[at].access = access;
        self.items[at].double = false;
        let changed = item.reads && value_of(access) != item.value && !planted(Mutant::Ic3PieceNotValidated);
        // A blind write saw the row there, or a placeholder missing, without a look that counts.
        let gone = item.writes && !item.reads && {
            let write = &writes.writes()[item.write as usize];
            item.at.is_present() != write.was_present
        };
        if changed || gone {
            item.at.unlatch_unchanged(access);
            return Err(Conflict::ReadChanged);
        }
        Ok(())
    }

    /// Item `at` is the same group as the latched item `known`.
    fn join(&mut self, known: usize, at: usize) -> Result<(), Conflict> {
        let item = self.items[at];
        let first = &mut self.items[known];
        let value = if first.reads { first.value } else { value_of(first.access) };
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

    /// Lets go of the first `latched` items, unchanged.
    fn unlatch_items(&mut self, latched: usize) {
        for item in &mut self.items[..latched] {
            if !std::mem::take(&mut item.double) {
                item.at.unlatch_unchanged(item.access);
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

    fn unlatch_gaps(&self, latched: usize) {
        for seen in &self.piece_gaps.looks()[..latched] {
            seen.gap.unlatch(seen.version);
        }
    }

    /// Enters an item into its group's list and learns on whom it depends. Under the latch.
    #[inline]
    fn enter(&mut self, at: usize, writes: &mut WriteSet) {
        let Item { at, layout, reads, writes: writing, write, .. } = self.items[at];
        let write = writing.then_some(write as usize);
        let blind = !reads && write.is_some_and(|write| writes.is_full(write));
        let mut older = at.newest();
        while let Some(accessor) = older {
            if accessor.writes() {
                // Even who overwrites blindly shows the rest of the group as that one left it.
                self.depend(accessor.id(), !blind);
                break;
            }
            if writing && !planted(Mutant::Ic3ReadersNotAwaited) {
                self.depend(accessor.id(), false);
            }
            older = accessor.older();
        }
        let span = layout.groups[at.group as usize].span;
        let doing =
            write.map_or(Doing::Reads, |write| Doing::Writes { present: writes.writes()[write].present });
        let words = if doing == (Doing::Writes { present: true }) { span.len() } else { 0 };
        let block = self.images.take(IMAGE + words, &self.shared.chunks);
        let accessor = Accessor::new(block, self.id(), doing);
        if words > 0
            && let Some(write) = write
        {
            let before = if planted(Mutant::Ic3ImageWithoutLastWriter) { None } else { older };
            let (from, base) = match before {
                Some(writer) => (writer.block(), IMAGE),
                None => (at.record, data_base::<Ic3>(layout) + span.start),
            };
            // A row that comes into being has no words before.
            if !writes.is_full(write) {
                for index in 0..words {
                    // Relaxed throughout: published by the latch's release.
                    let word = from.word(base + index).load(Ordering::Relaxed);
                    block.word(IMAGE + index).store(word, Ordering::Relaxed);
                }
            }
            let image = |word: usize| block.lasting_word(IMAGE + word - span.start);
            writes.apply(&writes.writes()[write], span, image);
        }
        if let Some(write) = write {
            writes.expose(write, 1 << at.group);
        }
        at.enter(accessor);
        self.entered.push(Entered { at, accessor });
    }

    // ---- Commit -------------------------------------------------------------------------------------

    /// Locks the stamps of all groups that are written.
    fn lock(&mut self, writes: &WriteSet) -> Result<(), Conflict> {
        // Whoever comes here waits for nobody any more, so those who wait for him with a latch in hand,
        // in one order, wait in no circle. What was written first comes last, and is unlatched first: mostly
        // it is what the most others write.
        self.order.clear();
        for (number, write) in writes.writes().iter().enumerate() {
            for group in write.group_numbers() {
                if write.exposed & (1 << group) == 0 {
                    self.order.push((number as u32, group as u8));
                    continue;
                }
                let at = Accessed::new(write.record, group);
                // Relaxed, a plain store: whoever is older in the list has ended, and as long as our accessor
                // is there nobody else writes the stamp. The fence of `commit_epoch` orders it as it does locks.
                let stamp = at.stamp().load(Ordering::Relaxed);
                at.stamp().store(stamp | stamp::LOCK, Ordering::Relaxed);
                self.locks.push(Lock { at, stamp, access: None });
            }
        }
        self.order.reverse();
        let shown = self.locks.len();
        let mut sorted = false;
        let mut next = 0;
        while next < self.order.len() {
            let (number, group) = self.order[next];
            let write = &writes.writes()[number as usize];
            let at = Accessed { record: write.record, group };
            match Self::lock_one(at, write.was_present, sorted) {
                Ok(lock) => {
                    self.locks.push(lock);
                    next += 1;
                }
                Err(Conflict::Locked) if !sorted => {
                    // In one order with the others, and then for as long as it takes.
                    self.unlock_from(shown);
                    let place = |&(number, group): &(u32, u8)| {
                        let write = &writes.writes()[number as usize];
                        (write.relation, writes.key(write), group)
                    };
                    self.order.sort_unstable_by(|one, other| place(other).cmp(&place(one)));
                    (sorted, next) = (true, 0);
                }
                Err(conflict) => return Err(conflict),
            }
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
                return Ok(Lock { at, stamp, access: Some(access) });
            }
            if !patient && wait.rounds() >= PAUSES {
                return Err(Conflict::Locked);
            }
            wait.pause();
        }
    }

    /// Undoes the locks from number `first` on.
    fn unlock_from(&mut self, first: usize) {
        for Lock { at, stamp, access } in self.locks.drain(first..) {
            // Release: the lock's critical section ends here.
            at.stamp().store(stamp, Ordering::Release);
            if let Some(access) = access {
                at.unlatch_unchanged(access);
            }
        }
    }

    /// Takes this transaction's accessors out of all lists.
    fn withdraw(&mut self, committed: bool) {
        // The newest first, so that of two in one list the value goes back step by step.
        for Entered { at, accessor } in self.entered.drain(..).rev() {
            // Sealed: then another took us out of the list.
            let Ok(access) = at.latch() else { continue };
            if committed && accessor.writes() {
                at.withdraw_older(accessor);
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
        }
        self.running = Running::Closure;
        self.piece = None;
        self.tracked = false;
    }

    /// Whether everyone whom a closure's inserts met in gaps has ended.
    fn met_have_ended(&self) -> bool {
        self.met.iter().all(|id| !matches!(self.shared.slots.progress(*id), Progress::Running(_)))
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
    const STRICT: bool = true;
    const SESSIONS_MAX: usize = 1024;
    type Options = Options;
    type Local = Local;
    type Shared = Shared;
    const GAP_FOLD: Fold = Fold::Union;
    const PIECES: bool = true;

    fn local(options: &Options, shared: &Arc<Shared>, worker: usize) -> Local {
        Local {
            shared: Arc::clone(shared),
            options: *options,
            worker,
            generation: 0,
            running: Running::Closure,
            plan: None,
            planned: None,
            site: 0,
            wish: None,
            met_at: Vec::new(),
            piece: None,
            tracked: false,
            doomed: false,
            has_failed: false,
            turn: None,
            reads: ReadSet::default(),
            gaps: GapSet::default(),
            reads_before: 0,
            gaps_before: 0,
            met: Vec::new(),
            items: Vec::new(),
            piece_gaps: GapSet::default(),
            looks: Vec::new(),
            entered: Vec::new(),
            dependencies: Vec::new(),
            images: Images::default(),
            has_shown: false,
            locks: Vec::new(),
            order: Vec::new(),
            last: 0,
            random: Random::new(worker as u64),
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
        local.items.clear();
        local.piece_gaps.clear();
        local.dependencies.clear();
        local.images.clear();
        local.locks.clear();
        (local.piece, local.tracked, local.doomed, local.has_shown) = (None, false, false, false);
        local.has_failed = false;
        (local.reads_before, local.gaps_before) = (0, 0);
    }

    fn tracking(options: &Options) -> Tracking {
        options.tracking
    }

    #[inline]
    fn call(local: &mut Local, plan: &Arc<Plan>, of_type: usize) -> bool {
        if local.plan.as_ref().is_none_or(|known| !Arc::ptr_eq(known, plan)) {
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
        local.shared.slots.begin(local.id(), of_type);
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

    #[inline]
    fn arrive(local: &mut Local, writes: &mut WriteSet, site: u16) -> Result<Arrived, Conflict> {
        let Some(site) = local.planned(site) else {
            // An undeclared site: checked when the transaction commits, like a closure's access.
            local.tracked = false;
            return Ok(Arrived { another_piece: false, remembered: true });
        };
        let another_piece = local.piece.is_none_or(|(piece, _)| piece != site.piece);
        if local.has_failed {
            local.take_turn()?;
        }
        if another_piece {
            local.end_piece(writes)?;
            local.piece = Some((site.piece, site.rank));
            (local.reads_before, local.gaps_before) = (local.reads.len(), local.gaps.len());
        }
        local.tracked = site.tracked;
        if another_piece && site.tracked && !local.options.optimistic_constraint {
            local.wait_for_rank(site.piece, site.rank)?;
        }
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
        for group in 0..layout.groups.len() {
            // Its value version was 0 when it was added, and anybody's write would have raised it.
            let (at, write) = (Accessed::new(record, group), number as u32);
            local.items.push(Item { reads: true, writes: true, write, ..Item::new(at, layout) });
        }
        true
    }

    fn finish(local: &mut Local, writes: &mut WriteSet) -> Result<(), Conflict> {
        local.end_piece(writes)
    }

    fn again(local: &mut Local) -> bool {
        local.leave_turn();
        if local.doomed || local.running != Running::Pieces {
            return false;
        }
        local.has_failed = true;
        local.items.clear();
        local.piece_gaps.clear();
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
        _: Intent,
        copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        if local.tracked {
            local.read_tracked(record, layout, groups, copy)
        } else {
            local.reads.read(record, layout, groups, local.site, copy)
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
        for group in Groups(groups) {
            let at = Accessed::new(record, group);
            // Mostly what was read just now.
            let recent = local.items.iter_mut().rev().take(4).find(|item| item.at == at);
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

    fn joins(local: &mut Local, gap: &Gap, latched: bool) {
        // Relaxed: under the latch; or else who is meant set his bit before the absent record that we found
        // was put there.
        let scanners = gap.stamp().load(Ordering::Relaxed);
        if scanners == 0 {
            return;
        }
        let slots = local.shared.slots.len();
        let rank = local.piece.map_or(0, |(_, rank)| rank);
        let mut running = 0;
        for bit in (0..64).filter(|bit| scanners & (1 << bit) != 0) {
            for slot in (bit..slots).step_by(64) {
                let Some((id, executed)) = local.shared.slots.running(slot) else { continue };
                running |= 1 << bit;
                if slot == local.worker || planted(Mutant::Ic3InsertIgnoresScanners) {
                    continue;
                }
                // What a call inserts untracked, nobody scans tracked.
                if local.running == Running::Closure {
                    local.met.push(id);
                } else if local.tracked && executed >= rank {
                    local.depend(id, false);
                }
            }
        }
        if latched {
            // Whoever sets his bit later does so at a version that this insert is about to end.
            gap.stamp().store(running, Ordering::Relaxed);
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
        local.wait_for_ends()?;
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
        local.lock(writes).map_err(|conflict| local.failed(conflict, env.clock))?;
        point("locked");
        let epoch = env.clock.commit_epoch();
        let own = |record, group| writes.covers(record, group);
        local.reads.validate(own).map_err(|conflict| local.failed(conflict, env.clock))?;
        local.gaps.validate().map_err(|conflict| local.doom(conflict))?;
        if !local.met_have_ended() {
            return Err(local.doom(Conflict::Accessed));
        }
        point("validated");
        let newest_write = local.locks.iter().map(|lock| stamp::time(lock.stamp)).max().unwrap_or(0);
        let newest = newest_write.max(local.reads.newest());
        let time = newest.max(local.last).max(stamp::floor(epoch)) + 1;
        if stamp::epoch(time) > epoch {
            return Err(local.doom(Conflict::EpochFull));
        }
        local.last = time;
        decided(time);

        // Release fence, then relaxed data stores: a reader that copied one of them also finds the lock bit or
        // a newer stamp when it checks.
        fence(Ordering::Release);
        let latched = local.locks.drain(..).rev().filter_map(|lock| Some((lock.at, lock.access?)));
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

    fn validate(local: &mut Local, _: Env<'_>) -> Result<(), Conflict> {
        // It waits for others to end, and the piece that runs will not be entered.
        local.leave_turn();
        // What the piece that runs has read is still so, and what it was read from commits.
        if local.items.iter().any(|item| item.reads && !item.at.still(item.value)) {
            return Err(Conflict::ReadChanged);
        }
        local.piece_gaps.validate()?;
        fence(Ordering::SeqCst);
        local.reads.validate(|_, _| false).map_err(|conflict| local.doom(conflict))?;
        local.gaps.validate().map_err(|conflict| local.doom(conflict))?;
        let mut last_writers: Vec<Id> = Vec::new();
        for item in local.items.iter().filter(|item| item.reads) {
            let look = item.at.look()?;
            if look.value() != item.value {
                return Err(Conflict::ReadChanged);
            }
            if let Source::Shown(accessor) = look.source {
                let id = accessor.id();
                if !item.at.stands(&look) {
                    return Err(Conflict::ReadChanged);
                }
                last_writers.push(id);
            }
        }
        last_writers.into_iter().for_each(|id| local.depend(id, true));
        local.wait_for_ends()?;
        // What they have committed may be what an untracked access did not find.
        local.reads.validate(|_, _| false).map_err(|conflict| local.doom(conflict))?;
        local.gaps.validate().map_err(|conflict| local.doom(conflict))
    }

    fn abort(local: &mut Local, _: Env<'_>, _: &WriteSet) {
        local.unlock_from(0);
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
        let now = clock.now();
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
            let old = !stamp::is_locked(stamp) && stamp::epoch(stamp) < now;
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
