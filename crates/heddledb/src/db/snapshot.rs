//! Reading at a moment: snapshots.
//!
//! A snapshot holds a *boundary* (`crate::snapshot`) and takes of each column group the version that was
//! current there: the record's own words, or one of the old versions that hang off it. It locks and
//! validates nothing. It is pinned in the epoch only while it looks something up, never for its whole
//! life, so it holds back neither commits nor the epoch, only the reclamation of what it may still read.

use super::reading::{Projection, Reading};
use super::session::Session;
use super::store::is_ordered;
use super::txn::{SCAN_AHEAD, SCAN_PASSES, Txn, cover};
use crate::access::Groups;
use crate::error::{Misuse, Result};
use crate::index::{AnyIndex, Direction, Lookup};
use crate::mutant::{Mutant, planted};
use crate::protocol::Protocol;
use crate::record::{RecordRef, WordsCopy, data_base, heads_base};
use crate::snapshot::Boundary;
use crate::sync::{Ordering, Wait, fence};
use crate::table::{Columns, IndexWords, Layout, Relation, Scan, Span};
use crate::{stamp, version};
use std::borrow::BorrowMut;
use std::marker::PhantomData;
use std::ops::ControlFlow;

/// The database as it was at one moment: a prefix of the serial order. Read it by
/// [`ReadTransaction`](crate::ReadTransaction), whose methods never return a conflict here.
///
/// From [`Session::read`] or [`Database::snapshot`](crate::Database::snapshot). While it lives, versions
/// that it may need are kept ([`Metrics::version_bytes`](crate::Metrics::version_bytes)): at most one for
/// each column group and live snapshot.
pub struct Snapshot<P: Protocol, S: BorrowMut<Session<P>> = Session<P>> {
    session: S,
    boundary: Boundary,
    protocol: PhantomData<fn() -> P>,
}

impl<P: Protocol, S: BorrowMut<Session<P>>> Snapshot<P, S> {
    pub(super) fn now(session: S) -> Result<Self> {
        let db = &session.borrow().txn().db;
        let boundary = db.boundaries.now(&db.clock)?;
        Self::at(session, boundary)
    }

    pub(super) fn recent(session: S) -> Result<Self> {
        let db = &session.borrow().txn().db;
        let boundary = db.boundaries.recent(&db.clock)?;
        Self::at(session, boundary)
    }

    /// Where commits wait to be durable, so does what a snapshot shows (PITFALLS X6).
    fn at(session: S, boundary: Boundary) -> Result<Self> {
        let snapshot = Self { session, boundary, protocol: PhantomData };
        snapshot.session.borrow().acknowledge(boundary.epoch())?;
        Ok(snapshot)
    }

    /// The moment: every commit of this epoch or an earlier one is seen.
    pub fn epoch(&self) -> u64 {
        self.boundary.epoch()
    }

    /// Runs `look` pinned in the epoch, so that nothing that it finds is reused meanwhile.
    #[inline(always)]
    fn pinned<R>(&mut self, look: impl FnOnce(&mut Txn<P>, u64) -> R) -> R {
        let (txn, epoch) = (self.session.borrow_mut().txn_mut(), self.boundary.epoch());
        txn.db.clock.pin(txn.worker.number);
        let result = look(txn, epoch);
        txn.db.clock.unpin(txn.worker.number);
        result
    }
}

impl<P: Protocol, S: BorrowMut<Session<P>>> Drop for Snapshot<P, S> {
    fn drop(&mut self) {
        let txn = self.session.borrow_mut().txn_mut();
        txn.worker.writes.clear();
        txn.db.boundaries.release(self.boundary);
    }
}

impl<P: Protocol, S: BorrowMut<Session<P>>> Reading for Snapshot<P, S> {
    fn get_in<R: Relation, J: Projection>(
        &mut self,
        key: &R::Words,
        projection: J,
    ) -> Result<Option<J::Value>> {
        self.pinned(|txn, epoch| match txn.db.stores.get::<R>()?.index.get(key) {
            Lookup::Found(record) => Ok(read(txn, record, R::LAYOUT, projection, epoch)),
            Lookup::Missing(_) => Ok(None),
        })
    }

    fn scan_in<R: Relation, J: Projection>(
        &mut self,
        scan: Scan<R>,
        projection: J,
        mut visit: impl FnMut(&R::Words, J::Value) -> ControlFlow<()>,
    ) -> Result<()> {
        if !is_ordered::<R>() {
            return Err(Misuse::NotOrdered { table: R::LAYOUT.name }.into());
        }
        let Some((mut low, mut high)) = scan.bounds else { return Ok(()) };
        let mut left = scan.limit;
        while left > 0 {
            // Pinned for one leaf at a time. Entries that this snapshot sees stay in the index, in
            // whichever leaf, so the leaves need not be of one moment.
            let next = self.pinned(|txn, epoch| -> Result<Option<R::Words>> {
                let mut leaf = std::mem::take(R::Words::leaf(&mut txn.worker.leaves));
                leaf.clear();
                let store = txn.db.stores.get::<R>()?;
                let most = left.saturating_add(SCAN_PASSES);
                let (_, mut next) = store.index.read_leaf(scan.direction, &low, &high, most, &mut leaf);
                leaf.iter().take(left).for_each(|(_, record)| record.prefetch(SCAN_AHEAD));
                for (key, record) in &leaf {
                    if let Some(value) = read(txn, *record, R::LAYOUT, projection, epoch) {
                        left -= 1;
                        if visit(key, value).is_break() || left == 0 {
                            next = None;
                            break;
                        }
                    }
                }
                *R::Words::leaf(&mut txn.worker.leaves) = leaf;
                Ok(next)
            })?;
            match (next, scan.direction) {
                (Some(next), Direction::Forward) => low = next,
                (Some(next), Direction::Reverse) => high = next,
                (None, _) => break,
            }
        }
        Ok(())
    }

    fn prefetch_in<C: Columns>(
        &mut self,
        rows: impl Iterator<Item = (<C::Table as Relation>::Key, C)> + Clone,
    ) {
        self.pinned(|txn, _| txn.prefetch_in(rows));
    }
}

/// A projection of a record as of the end of an epoch, `None` where the row was absent.
fn read<P: Protocol, J: Projection>(
    txn: &mut Txn<P>,
    record: RecordRef,
    layout: &'static Layout,
    projection: J,
    epoch: u64,
) -> Option<J::Value> {
    let writes = &mut txn.worker.writes;
    let span = cover(&projection);
    let at = writes.reserve(span.len());
    let words = writes.scratch(at, span.len());
    let present = Groups(projection.groups()).all(|group| {
        let wanted = projection.span(group);
        let target = match wanted.len() {
            0 => &mut [][..],
            len => &mut words[wanted.start - span.start..][..len],
        };
        copy_group::<P>(record, layout, group, wanted, epoch, target)
    });
    let value = present.then(|| projection.load(&WordsCopy::new(span.start, words)));
    writes.release(at);
    value
}

/// Copies words of a column group as of the end of an epoch; false where the row was absent.
pub(crate) fn copy_group<P: Protocol>(
    record: RecordRef,
    layout: &'static Layout,
    group: usize,
    wanted: Span,
    epoch: u64,
    target: &mut [u64],
) -> bool {
    let stamp_word = record.word(P::stamp_word(group));
    let mut wait = Wait::new();
    loop {
        // Acquire: pairs with the publishing store of the version, and of what hangs off it.
        let stamp = stamp_word.load(Ordering::Acquire);
        if stamp == stamp::SEALED {
            // Only where every live snapshot sees the row absent.
            return false;
        }
        if stamp::is_locked(stamp) {
            // A writer between its lock and its last store, who waits for no snapshot.
            wait.pause();
            continue;
        }
        if stamp::epoch(stamp) > epoch && !planted(Mutant::SnapshotReadsNewest) {
            let head = record.word(heads_base::<P>(layout) + group);
            let Some(old) = version::find(head, epoch) else { return false };
            if stamp::is_absent(old.stamp()) {
                return false;
            }
            let start = wanted.start - layout.groups[group].span.start.min(wanted.start);
            target.iter_mut().enumerate().for_each(|(index, word)| {
                // Relaxed: published with the version, and never changed while a reader is pinned.
                *word = old.word(start + index).load(Ordering::Relaxed);
            });
            return true;
        }
        if stamp::is_absent(stamp) {
            return false;
        }
        let start = data_base::<P>(layout) + wanted.start;
        target.iter_mut().enumerate().for_each(|(index, word)| {
            // Relaxed: discarded below unless the version stands.
            *word = record.word(start + index).load(Ordering::Relaxed);
        });
        // Acquire fence, then a relaxed load: pairs with the release fence of installing writers.
        fence(Ordering::Acquire);
        if stamp_word.load(Ordering::Relaxed) == stamp {
            return true;
        }
    }
}
