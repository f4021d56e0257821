//! Going through the leaves of an ordered relation.

use super::{Answer, Attempt, SCAN_AHEAD, SCAN_PASSES, modes};
use crate::access::copy_key;
use crate::db::store::is_ordered;
use crate::error::{Misuse, Result};
use crate::index::{Direction, Leaf};
use crate::mutant::{Mutant, planted};
use crate::protocol::{Intent, Protocol};
use crate::seam::{Part, Range, Visit};
use crate::sight::Sight;
use crate::sync::{Phase, Work, note, phase, work};
use crate::table::Definition;
use std::ops::ControlFlow;

/// A callback that is shown rows.
pub(super) type Visitor<'a> = dyn FnMut(&[u64], Sight<'_>) -> Visit + 'a;

/// The ends of what is left of a range; keys of as many words as the relation says.
pub(in crate::db) struct Bounds {
    low: [u64; Definition::KEY_WORDS_MAX],
    high: [u64; Definition::KEY_WORDS_MAX],
    width: usize,
}

impl Bounds {
    /// From the lowest to the highest key.
    pub fn new(low: &[u64], high: &[u64]) -> Self {
        let width = low.len();
        let mut bounds = Self { low: [0; _], high: [0; _], width };
        copy_key(&mut bounds.low[..width], low);
        copy_key(&mut bounds.high[..width], high);
        bounds
    }

    /// The lowest key.
    pub fn low(&self) -> &[u64] {
        &self.low[..self.width]
    }

    /// The highest key.
    pub fn high(&self) -> &[u64] {
        &self.high[..self.width]
    }

    /// Those of its keys that a leaf covers, where the scan is in it.
    fn of_leaf<'a>(&'a self, leaf: &'a Leaf, direction: Direction) -> (&'a [u64], &'a [u64]) {
        let next = leaf.next(self.width);
        match direction {
            Direction::Forward => (self.low(), next.unwrap_or(self.high())),
            Direction::Reverse => (next.unwrap_or(self.low()), self.high()),
        }
    }

    /// Goes on behind a leaf; false where the range is exhausted.
    pub fn advance(&mut self, leaf: &Leaf, direction: Direction) -> bool {
        let Some(next) = leaf.next(self.width) else { return false };
        match direction {
            Direction::Forward => copy_key(&mut self.low[..self.width], next),
            Direction::Reverse => copy_key(&mut self.high[..self.width], next),
        }
        true
    }
}

impl<P: Protocol> Attempt<P> {
    /// Scans, or replays what a scan found.
    pub(super) fn scan_rows(&mut self, range: &Range<'_>, visit: &mut Visitor<'_>) -> Result<()> {
        match self.enter_site(range.site)? {
            Answer::Live => self.scan_leaves(range, false, visit),
            Answer::Replayed => self.tell_again(range, visit),
            Answer::Recorded => {
                self.scan_leaves(range, true, visit)?;
                self.worker.replay_log.push(0);
                Ok(())
            }
        }
    }

    #[cold]
    fn tell_again(&mut self, range: &Range<'_>, visit: &mut Visitor<'_>) -> Result<()> {
        let (width, span) = (range.wanted.relation.key_words, range.wanted.span);
        let mut key = [0; Definition::KEY_WORDS_MAX];
        while self.worker.replay_log.next()? != 0 {
            let worker = &mut *self.worker;
            for word in &mut key[..width] {
                *word = worker.replay_log.next()?;
            }
            let at = worker.writes.reserve(span.end);
            let words = worker.replay_log.next_words(span.len())?;
            worker.writes.scratch(at + span.start, span.len()).copy_from_slice(words);
            // Where the visitor broke off, nothing more was recorded.
            let _ = visit(&key[..width], self.released(at, span));
        }
        Ok(())
    }

    fn scan_leaves(&mut self, range: &Range<'_>, remembered: bool, visit: &mut Visitor<'_>) -> Result<()> {
        let Range { wanted: Part { relation, .. }, direction, .. } = *range;
        if !is_ordered(relation) {
            return Err(Misuse::NotOrdered { table: relation.name() }.into());
        }
        let Some((low, high)) = range.bounds else { return Ok(()) };
        work(Work::Operation);
        note(|| format!("scans {} from {low:?} to {high:?}", relation.name()));
        let number = relation.number();
        modes::range(self, relation, (low, high))?;
        let mut bounds = Bounds::new(low, high);
        let mut left = range.limit;
        // The buffer is put back at the end; a nested scan cannot happen, `visit` has no transaction.
        let mut leaf = std::mem::take(&mut self.worker.leaf);
        self.worker.scanned = Some((number, direction));
        let outcome = loop {
            if left == 0 {
                break Ok(());
            }
            leaf.clear();
            let store = match self.db.stores.get(relation) {
                Ok(store) => store,
                Err(error) => break Err(error),
            };
            phase(Phase::Index);
            let most = left.saturating_add(SCAN_PASSES);
            let seen = store.index.read_leaf(direction, bounds.low(), bounds.high(), most, &mut leaf);
            phase(Phase::Body);
            if modes::scanned(self, relation, || bounds.of_leaf(&leaf, direction)) {
                continue;
            }
            P::observe_gap(&mut self.worker.local, seen);
            if let Err(conflict) = P::show_gap(&mut self.worker.local) {
                break Err(conflict.into());
            }
            leaf.records().iter().take(left).for_each(|record| record.prefetch_first(SCAN_AHEAD));
            match self.visit_leaf(&leaf, range, remembered, &mut left, visit) {
                Ok(ControlFlow::Continue(())) if bounds.advance(&leaf, direction) => {}
                Ok(_) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.worker.leaf = leaf;
        outcome
    }

    #[inline(always)]
    fn visit_leaf(
        &mut self,
        leaf: &Leaf,
        range: &Range<'_>,
        remembered: bool,
        left: &mut usize,
        visit: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>> {
        let part = &range.wanted;
        let Part { relation, span, .. } = *part;
        let number = relation.number();
        for (at, record) in leaf.records().iter().enumerate() {
            if planted(Mutant::ScanSkipsFirstOfLeaf) && at == 0 && leaf.len() > 2 {
                continue;
            }
            work(Work::Row);
            let key = leaf.key(at, relation.key_words);
            P::visit_key(&mut self.worker.local, number, key);
            let visited = if remembered {
                match self.read(*record, part, Intent::Scan)? {
                    Some(at) => {
                        let worker = &mut *self.worker;
                        worker.replay_log.push(1);
                        worker.replay_log.extend(key);
                        worker.replay_log.extend(worker.writes.scratch(at + span.start, span.len()));
                        Some(visit(key, self.released(at, span)))
                    }
                    None => None,
                }
            } else {
                let visited = self.look(*record, part, Intent::Scan)?.map(|sight| visit(key, sight));
                match visited {
                    Some(Visit::Torn) => {
                        P::unsight(&mut self.worker.local);
                        let at = self.read(*record, part, Intent::Scan)?;
                        at.map(|at| visit(key, self.released(at, span)))
                    }
                    visited => visited,
                }
            };
            if let Some(visited) = visited {
                *left -= 1;
                if visited == Visit::Enough || *left == 0 {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
