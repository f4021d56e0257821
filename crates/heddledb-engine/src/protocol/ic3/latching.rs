//! Step 2 of a piece: latches on all that it accessed, and the check that it is what the piece saw.
//!
//! Records come first, in the order in which they were accessed, then gaps. The order is no common one, so a
//! latch is waited for with bounded patience, of a different length each time; then the piece lets go of all
//! that it has and tries again, and after [`LATCH_TRIES`] it is executed again.

use super::Local;
use super::accessors::value_of;
use super::piece::{Fresh, Item};
use crate::access::WriteSet;
use crate::error::Conflict;
use crate::index::Seen;
use crate::mutant::{Mutant, planted};
use crate::protocol::reads::PAUSES;
use crate::sync::Wait;

/// How often a piece tries to get its latches before it executes again.
const LATCH_TRIES: u32 = 8;

impl Local {
    /// Latches all that the piece accessed, and checks that it is what it was.
    #[inline]
    pub(super) fn latch_items(&mut self, writes: &WriteSet) -> Result<(), Conflict> {
        for (at, item) in self.items.iter().enumerate() {
            // Mostly all latches are free.
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

    /// Slow path of [`Local::latch_items`]: waits for latches. The first `latched` items are latched.
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
            // Another piece has one of our latches and may wait for another of them.
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
        // From here on `unlatch_items` lets it go, if it is counted among the latched items.
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
    pub(super) fn piece_stands(&self) -> Result<(), Conflict> {
        if self.items.iter().any(|item| item.reads && !item.at.still(item.value))
            || self.passed.iter().any(|passed| !passed.at.still(passed.value))
        {
            return Err(Conflict::ReadChanged);
        }
        self.absence.scanned.validate()
    }

    /// Lets go of the first `latched` items, unchanged.
    pub(super) fn unlatch_items(&mut self, latched: usize) {
        for item in &mut self.items[..latched] {
            if !std::mem::take(&mut item.double) {
                item.at.unlatch_unchanged(item.at.before_latch());
            }
        }
    }

    /// Lets go of the first `latched` fresh records, untouched.
    pub(super) fn unlatch_fresh(&self, latched: usize) {
        for at in self.fresh[..latched].iter().flat_map(|fresh| fresh.groups()) {
            at.unlatch_unchanged(0);
        }
    }

    /// Makes items of the records that the piece has added, like those of any other record.
    #[cold]
    pub(super) fn take_fresh_as_others(&mut self) {
        for fresh in self.fresh.drain(..) {
            let Fresh { layout, write, .. } = fresh;
            for at in fresh.groups() {
                // Its value version was 0 when it was added, and any other write would have raised it.
                self.items.push(Item { reads: true, writes: true, write, ..Item::new(at, layout) });
            }
        }
    }

    /// Latches the gaps that the piece looked at, at the versions that it saw. Returns how many; those behind
    /// them are repeated looks at these gaps.
    pub(super) fn latch_gaps(&mut self) -> Result<usize, Conflict> {
        let looks = self.absence.scanned.unique();
        for at in 0..looks {
            let Seen { gap, version } = self.absence.scanned.looks()[at];
            let mut wait = Wait::new();
            loop {
                if let Some(latch) = gap.try_latch(version) {
                    latch.keep();
                    break;
                }
                // Latched by a transaction that has not changed it yet, or changed.
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
    pub(super) fn unlatch_all(&mut self, gaps: usize) {
        self.unlatch_gaps(gaps);
        self.unlatch_items(self.items.len());
        self.unlatch_fresh(self.fresh.len());
    }

    pub(super) fn unlatch_gaps(&self, latched: usize) {
        for seen in &self.absence.scanned.looks()[..latched] {
            seen.gap.unlatch(seen.version);
        }
    }
}
