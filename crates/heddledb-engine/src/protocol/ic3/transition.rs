//! While the plan changes: which transaction has executed what, in which plan's order.
//!
//! **Problem** (IC3 §4.5). When procedures are registered or removed, their types are cut anew. A transaction
//! of the plan before and one of the plan after do not wait for each other's pieces, since the pieces of the
//! two plans differ, and could come in two orders: then each would wait for the other to commit first.
//!
//! **Mechanism.** Between the two comes a *transitional* plan. First it takes the old plan's place; when all
//! that began under the old one have ended, the new plan takes its place. So only neighbours meet, and a
//! transaction under the transitional plan keeps to both. Its pieces are whole pieces of each of the two: the
//! *sub-pieces* that one plan has inside such a piece execute, are checked and entered together, at one
//! moment. That is as if each had been executed in its turn just then, provided that a transaction that comes
//! before this one at an early sub-piece is past the last of them too. So a piece checks, with all its
//! latches in hand, whether those that it is about to come after are; if one is not, the piece gives way,
//! waits for that one, and executes again ([`Local::ahead_of_us`]).
//!
//! **Ranks** are numbers within a plan. A slot tells them in the plan's *parity*; old and transitional plan
//! share one, the new plan has the other.
//!
//! | who waits, before its piece | for whom | until that one has executed |
//! |---|---|---|
//! | old | old, transitional | the piece's rank |
//! | transitional | old, transitional | its rank in the old plan, and all up to its rank in the new one ([`Bridge`]) |
//! | transitional | new | its rank in the new plan |
//! | new | transitional | all up to its rank ([`Bridge`]) |
//! | new | new | its rank |
//!
//! **No circle.** The waits of one plan alone cannot make one. The orders of two plans may differ in what is
//! not related in either, so those of both together can; but then one in it runs under the transitional plan.
//! So that one waits for a limited time, and aborts.
//!
//! **Where we leave the paper.** There a sub-piece learns at its own end on which transactions it depends,
//! and waits for them before the next. Here it learns so at the end of the whole piece. Tests:
//! `procedures_come_and_go`; the search with faults `change`; and, that no wait is in vain,
//! `plans_change_and_nobody_aborts`.

use super::Local;
use super::piece::Place;
use super::slots::{Executed, Id, Progress};
use crate::error::Conflict;

/// After how long a wait under a transitional plan is given up.
pub(super) const PATIENCE_NS: u64 = 2_000_000;

impl Local {
    /// Whether another transaction is past the place of a piece.
    #[inline(always)]
    pub(super) fn is_past(&self, id: Id, executed: Executed, place: Place) -> bool {
        if executed.parity() == self.call.parity && !self.call.is_transitional {
            executed.rank() >= place.rank
        } else {
            self.is_past_in_both(id, executed, place)
        }
    }

    #[cold]
    fn is_past_in_both(&self, id: Id, executed: Executed, place: Place) -> bool {
        let rank = self.rank_after(place);
        let bridged = || {
            let bridge = self.call.plan.as_ref().and_then(|plan| plan.bridge.as_ref());
            // If it has ended meanwhile the type may be another transaction's; then any answer is right.
            bridge.is_some_and(|bridge| {
                bridge.has_executed(self.shared.slots.of_type(id), executed.rank(), rank)
            })
        };
        match (self.call.is_transitional, executed.parity() == self.call.parity) {
            (true, true) => executed.rank() >= place.rank && bridged(),
            (true, false) => executed.rank() >= rank,
            (false, _) => bridged(),
        }
    }

    /// The rank of a piece in the plan after a transitional one; its own elsewhere.
    fn rank_after(&self, place: Place) -> u16 {
        let piece =
            self.call.of_type.as_ref().and_then(|planned| planned.pieces.get(usize::from(place.piece)));
        piece.map_or(place.rank, |piece| piece.rank_after)
    }

    /// Whether another may have executed what a site of the piece has a C-edge with.
    pub(super) fn may_come_before(&self, id: Id, executed: Executed, site: u16) -> bool {
        let Some((place, site)) = self.piece.place.zip(self.planned(site)) else { return true };
        match self.call.is_transitional {
            true => executed.rank() >= site.own_ranks[usize::from(executed.parity() != self.call.parity)],
            false => self.is_past(id, executed, place),
        }
    }

    /// Under a transitional plan and with all latches in hand: a transaction after which the piece would come
    /// and which is not past all sub-pieces of it.
    #[cold]
    pub(super) fn ahead_of_us(&self, place: Place) -> Option<Id> {
        let after = self.rank_after(place);
        let behind = |executed: Executed| {
            executed.rank() < if executed.parity() == self.call.parity { place.rank } else { after }
        };
        let runs_behind = |id: &Id| match self.shared.slots.progress(*id) {
            Progress::Running(executed) => behind(executed),
            _ => false,
        };
        if let Some(id) = self.passed.iter().filter_map(|passed| passed.by).find(runs_behind) {
            return Some(id);
        }
        for item in self.items.iter().filter(|item| !item.double) {
            let mut older = item.at.newest();
            while let Some(accessor) = older {
                let id = accessor.id();
                let comes_first = item.writes || accessor.writes();
                if comes_first && id != self.id() && runs_behind(&id) {
                    return Some(id);
                }
                if accessor.writes() {
                    break;
                }
                older = accessor.older();
            }
        }
        None
    }

    /// The piece gives way to another, and comes after it.
    #[cold]
    pub(super) fn give_way(&mut self, id: Id) -> Conflict {
        self.depend(id, false);
        Conflict::Accessed
    }
}
