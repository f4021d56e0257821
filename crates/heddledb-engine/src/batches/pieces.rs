//! Calls of a batch that are executed in pieces (DGCC §3.1, §3.4): a call that comes to a cell waits there for those before it, and
//! lets go of it when it has come to all its accesses of it, while it goes on elsewhere.
//!
//! **Which calls.** Those of which all accesses are known for certain, and that do not give up any more once they let go of
//! something: what others have seen then stays. They are executed before the other calls of their batch, which begin when
//! all of them have ended; so nobody who sees a call as a whole is beside one in pieces. One that meets a call
//! before it which is executed whole is executed whole, too.
//!
//! **Groups.** For each cell the calls form groups, in their order: those of one class that share it, or one alone. A group's
//! counter says how many of its members have not let go of the cell. Who comes to the cell waits until the group before its own
//! is at zero. So there are no edges, and who lets go of a cell writes one word.
//!
//! **Whether it pays.** A piece is a commit of its own. Where a batch is wide, and few of its calls wait for each other, calls are executed
//! whole: see [`State::wants_pieces`](super::state::State::wants_pieces).
//!
//! **No deadlock.** The calls begin in their order, so whom one waits for has begun before it, and waits for earlier ones only.

use super::cells::{Cells, Class, Granules};
use super::words::Words;
use crate::footprint::Footprint;
use crate::mutant::{Mutant, planted};
use crate::sync::{Ordering, Suspender, wait_out};
use std::ops::Range;

const NONE: u32 = u32::MAX;

/// That a call uses a cell.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// For which of its accesses: points first, and then ranges.
    unit: u32,
    /// The group that it is in, and the one before.
    group: u32,
    before: u32,
    /// The number of the call's last claim of the cell, and how many it has of it.
    last: u32,
    claims: u32,
}

/// The calls of a batch that are executed in pieces.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// These calls, in their order.
    pub calls: Vec<u32>,
    /// By call, where its claims are; of one that is executed whole, nothing.
    claims_of: Vec<Option<(u32, u32)>>,
    claims: Vec<Claim>,
    groups: Vec<Group>,
    /// By group, how many of its members have not let go.
    left: Words,
    /// How many of the calls would be executed one after another, if they were whole.
    pub depth: u32,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    members: u32,
    /// Somebody waits for it.
    followed: bool,
    /// The greatest depth of its members.
    depth: u32,
}

/// How far a call is with its claims.
#[derive(Debug, Default)]
pub(super) struct Progress {
    steps: Vec<Step>,
    /// It keeps something that others wait for, and that it will not access any more.
    pub is_due: bool,
}

/// How far a call is with one claim.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    /// It has come to this access.
    came: bool,
    /// If it is the last claim of a cell: to so many of its accesses it has come, and whether it has let go of it.
    accesses: u32,
    has_let_go: bool,
    /// What of `came` and `accesses` stands: the call is told of it again, and does not come there again.
    stands: (bool, u32),
}

impl Progress {
    /// What the call has done since it last let go of something is done again. What it did before is not: in a piece that has committed
    /// it may have come to some of its accesses of a cell, and must not wait for its end to let go of that.
    pub fn begin_again(&mut self) {
        for step in &mut self.steps {
            (step.came, step.accesses) = step.stands;
        }
        self.is_due = false;
    }

    /// What the call has done so far stands.
    fn stand(&mut self) {
        for step in &mut self.steps {
            step.stands = (step.came, step.accesses);
        }
        self.is_due = false;
    }
}

impl Pieces {
    /// Those of a batch with so many calls: none.
    pub fn begin(&mut self, calls: usize) {
        self.calls.clear();
        self.claims_of.clear();
        self.claims_of.resize(calls, None);
        self.claims.clear();
        self.groups.clear();
        self.depth = 0;
    }

    /// Whether a call is executed in pieces.
    pub fn has(&self, call: u32) -> bool {
        self.claims_of.get(call as usize).is_some_and(Option::is_some)
    }

    /// They are about to be executed.
    pub fn fill(&mut self) {
        self.left.fill(self.groups.iter().map(|group| group.members));
    }

    fn range(&self, call: u32) -> Range<usize> {
        let (begin, end) = self.claims_of[call as usize].unwrap_or_default();
        begin as usize..end as usize
    }

    /// A call begins.
    pub fn begin_call(&self, call: u32, progress: &mut Progress) {
        progress.steps.clear();
        progress.steps.resize(self.range(call).len(), Step::default());
        progress.is_due = false;
    }

    /// A call comes to an access: waits for those before it. False if it has let go of that already.
    pub fn come(&self, call: u32, unit: u32, progress: &mut Progress, suspender: Option<&Suspender>) -> bool {
        let range = self.range(call);
        let claims = &self.claims[range.clone()];
        let first = claims.partition_point(|claim| claim.unit < unit);
        for (at, claim) in claims.iter().enumerate().skip(first).take_while(|(_, claim)| claim.unit == unit) {
            let last = claim.last as usize - range.start;
            if progress.steps[last].has_let_go {
                return false;
            }
            self.wait(claim, suspender);
            if !std::mem::replace(&mut progress.steps[at].came, true) {
                let accesses = &mut progress.steps[last].accesses;
                *accesses += 1;
                progress.is_due |= *accesses == claim.claims && self.groups[claim.group as usize].followed;
            }
        }
        true
    }

    fn wait(&self, claim: &Claim, suspender: Option<&Suspender>) {
        if claim.before != NONE && !planted(Mutant::PieceNotAwaited) {
            let left = self.left.at(claim.before);
            // Acquire: pairs with `leave`. It ends: they began before us.
            wait_out(suspender, || left.load(Ordering::Acquire) == 0);
        }
    }

    /// The last claims of cells of which the call has not let go.
    fn kept<'a>(
        &'a self,
        call: u32,
        progress: &'a mut Progress,
    ) -> impl Iterator<Item = (&'a Claim, &'a mut Step)> {
        let range = self.range(call);
        let is_kept = move |(at, (claim, step)): &(usize, (&Claim, &mut Step))| {
            claim.last as usize == range.start + at && !step.has_let_go
        };
        let claims = &self.claims[self.range(call)];
        claims.iter().zip(&mut progress.steps).enumerate().filter(is_kept).map(|(_, kept)| kept)
    }

    /// What the call has done so far stands: it lets go of what it has come to as often as it will.
    pub fn let_go(&self, call: u32, progress: &mut Progress) {
        for (claim, step) in self.kept(call, progress).filter(|(claim, step)| step.accesses == claim.claims) {
            step.has_let_go = true;
            self.leave(claim);
        }
        progress.stand();
    }

    /// The call has ended: it lets go of all, and of what it has not come to when its turn has come.
    pub fn let_go_of_all(&self, call: u32, progress: &mut Progress, suspender: Option<&Suspender>) {
        self.let_go(call, progress);
        if planted(Mutant::PieceKeptAtEnd) {
            return;
        }
        for (claim, step) in self.kept(call, progress) {
            step.has_let_go = true;
            self.wait(claim, suspender);
            self.leave(claim);
        }
    }

    fn leave(&self, claim: &Claim) {
        if !self.groups[claim.group as usize].followed {
            return;
        }
        // AcqRel: what all members of the group did happens before what those of the next do.
        self.left.at(claim.group).fetch_sub(1, Ordering::AcqRel);
    }

    fn group(&mut self) -> u32 {
        self.groups.push(Group { members: 1, followed: false, depth: 0 });
        (self.groups.len() - 1) as u32
    }

    /// A group that comes after another.
    fn group_after(&mut self, before: u32) -> u32 {
        self.groups[before as usize].followed = true;
        self.group()
    }

    /// A call has claimed all that is from that number on.
    fn end_call(&mut self, begin: usize) -> (u32, u32) {
        let claims = &self.claims[begin..];
        let before = claims.iter().filter_map(|claim| self.groups.get(claim.before as usize));
        let depth = 1 + before.map(|group| group.depth).max().unwrap_or(0);
        for claim in claims {
            let group = &mut self.groups[claim.group as usize];
            group.depth = depth.max(group.depth);
        }
        self.depth = depth.max(self.depth);
        (begin as u32, self.claims.len() as u32)
    }

    /// What a call claims next, as one of that group.
    fn claim(&mut self, unit: u32, (group, before): (u32, u32)) {
        let last = self.claims.len() as u32;
        self.claims.push(Claim { unit, group, before, last, claims: 1 });
    }

    /// The call whose claims begin at that number claims a cell once more: those of the group `from` are in that group now.
    fn claim_again(&mut self, begin: usize, unit: u32, from: u32, (group, before): (u32, u32)) {
        self.claim(unit, (from, before));
        let last = self.claims.len() as u32 - 1;
        let count = self.claims[begin..].iter().filter(|claim| claim.group == from).count() as u32;
        for claim in self.claims[begin..].iter_mut().filter(|claim| claim.group == from) {
            *claim = Claim { unit: claim.unit, group, before, last, claims: count };
        }
    }
}

/// A cell, and who claimed it last.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    class: Class,
    /// A call uses it that is executed whole.
    whole: bool,
    call: u32,
    group: u32,
    before: u32,
}

/// What finds out which calls of a batch are executed in pieces, and their groups. Its memory is kept.
#[derive(Debug, Default)]
pub(super) struct PieceLinker {
    cells: Cells<Cell>,
}

impl PieceLinker {
    /// Links those calls that can be executed in pieces; so many cells are used at most.
    pub fn link<'a>(
        &mut self,
        pieces: &mut Pieces,
        granules: &Granules,
        cells: usize,
        calls: impl Iterator<Item = &'a Footprint>,
    ) {
        self.cells.begin(cells);
        let mut some_whole = false;
        for (call, footprint) in (0..).zip(calls) {
            let mut whole = footprint.sure_from().is_none();
            if !whole && some_whole {
                granules.cells(footprint, |_, hash, _| {
                    whole |= self.cells.find(hash).1.is_some_and(|cell| cell.whole);
                });
            }
            some_whole |= whole;
            let begin = pieces.claims.len();
            granules.cells(footprint, |unit, hash, class| {
                if whole {
                    self.use_whole(hash);
                } else {
                    self.claim(pieces, begin, (call, unit), hash, class);
                }
            });
            if !whole {
                pieces.calls.push(call);
                pieces.claims_of[call as usize] = Some(pieces.end_call(begin));
            }
        }
    }

    /// A call uses a cell that is executed whole.
    fn use_whole(&mut self, hash: u64) {
        let (at, known) = self.cells.find(hash);
        self.cells.set(at, hash, Cell { whole: true, ..known.unwrap_or_default() });
    }

    fn claim(
        &mut self,
        pieces: &mut Pieces,
        begin: usize,
        (call, unit): (u32, u32),
        hash: u64,
        class: Class,
    ) {
        let (at, known) = self.cells.find(hash);
        let Some(mut cell) = known else {
            let group = pieces.group();
            pieces.claim(unit, (group, NONE));
            self.cells.set(at, hash, Cell { class, whole: false, call, group, before: NONE });
            return;
        };
        if cell.call == call {
            let from = cell.group;
            if cell.class != class {
                // It uses the cell in two ways: alone.
                cell.class = Class::Alone;
                let group = &mut pieces.groups[from as usize];
                if group.members > 1 {
                    group.members -= 1;
                    cell.before = from;
                    cell.group = pieces.group_after(from);
                }
            }
            pieces.claim_again(begin, unit, from, (cell.group, cell.before));
        } else {
            if cell.class == class && class.shares() {
                pieces.groups[cell.group as usize].members += 1;
            } else {
                cell.before = cell.group;
                cell.group = pieces.group_after(cell.before);
                cell.class = class;
            }
            cell.call = call;
            pieces.claim(unit, (cell.group, cell.before));
        }
        self.cells.set(at, hash, cell);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::footprint::Usage::{self, Reads, Writes};
    use crate::footprint::nth;

    /// A call reads row 1, writes row 2, and writes row 1; another writes both after it.
    fn pieces() -> Pieces {
        let call = |points: &[(u64, Usage)]| {
            let mut footprint = Footprint::default();
            for (row, usage) in points {
                footprint.add_point(nth(0), &[*row], 1, *usage);
            }
            footprint.be_sure_from(Some(0));
            footprint
        };
        let calls = [call(&[(1, Reads), (2, Writes), (1, Writes)]), call(&[(1, Writes), (2, Writes)])];
        let mut pieces = Pieces::default();
        pieces.begin(calls.len());
        PieceLinker::default().link(&mut pieces, &Granules::default(), 16, calls.iter());
        pieces.fill();
        pieces
    }

    /// Of which of its accesses the second call need not wait.
    fn free(pieces: &Pieces) -> Vec<u32> {
        let claims = &pieces.claims[pieces.range(1)];
        let is_free = |claim: &&Claim| pieces.left.at(claim.before).load(Ordering::Relaxed) == 0;
        claims.iter().filter(is_free).map(|claim| claim.unit).collect()
    }

    /// What a call did before its last commit is not done again when it begins a piece again, and counts: it lets go of a cell when it has
    /// come to all its accesses of it, and not only at its end.
    #[test]
    fn a_piece_that_is_begun_again_leaves_what_stands() {
        let (pieces, mut progress) = (pieces(), Progress::default());
        pieces.begin_call(0, &mut progress);
        assert!(pieces.come(0, 0, &mut progress, None) && !progress.is_due);
        assert!(pieces.come(0, 1, &mut progress, None) && progress.is_due, "the other waits for row 2");
        pieces.let_go(0, &mut progress);
        assert_eq!(free(&pieces), [1]);
        // Twice in vain: what does not stand does not count.
        for _ in 0..3 {
            progress.begin_again();
            assert!(!progress.is_due);
            assert!(pieces.come(0, 2, &mut progress, None));
            assert!(progress.is_due, "that was its last access of row 1");
        }
        pieces.let_go(0, &mut progress);
        assert_eq!(free(&pieces), [0, 1]);
        pieces.let_go_of_all(0, &mut progress, None);
        assert_eq!(free(&pieces), [0, 1]);
    }

    /// Before anything stands, all is done again.
    #[test]
    fn a_call_that_is_begun_again_has_come_to_nothing() {
        let (pieces, mut progress) = (pieces(), Progress::default());
        pieces.begin_call(0, &mut progress);
        assert!(pieces.come(0, 0, &mut progress, None) && pieces.come(0, 1, &mut progress, None));
        progress.begin_again();
        assert!(pieces.come(0, 2, &mut progress, None) && !progress.is_due, "row 1 is to be read first");
        pieces.let_go(0, &mut progress);
        assert!(free(&pieces).is_empty());
        pieces.let_go_of_all(0, &mut progress, None);
        assert_eq!(free(&pieces), [0, 1]);
    }
}
