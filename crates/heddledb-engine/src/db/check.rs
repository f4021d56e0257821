//! Whether each index agrees with its table, and each file with what was written to it.
//!
//! **Mechanism.** A snapshot is taken, at which every row is looked up in every index of its table, and every entry's row in
//! the table. Each such walk is one thread's, which is pinned in the epoch for a leaf at a time, as a checkpoint's are:
//! no transaction waits for it, and old versions are kept for it as for any snapshot.

use super::store::Store;
use super::walkers::Walkers;
use crate::check::{CheckReport, IndexCheck};
use crate::durability::RedoLog;
use crate::epoch::EpochClock;
use crate::error::Result;
use crate::index::Walk;
use crate::log::{RelationEntry, verify};
use crate::snapshot::Boundaries;
use crate::sync::{AtomicU64, Ordering, in_parallel, now_ns};
use crate::table::dynamic::of_shape;
use crate::table::{Definition, GroupSet, IndexRole};
use crate::values::{Logged, Longer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// What a check needs of a database.
pub(super) struct Checking<'a> {
    pub log: Option<&'a RedoLog>,
    pub clock: &'a EpochClock,
    pub boundaries: &'a Boundaries,
    pub stores: Vec<&'a Store>,
    pub walkers: &'a Walkers,
}

/// An index and its table.
#[derive(Clone, Copy)]
struct Pair<'a> {
    index: &'a Store,
    table: &'a Store,
    role: &'static dyn IndexRole,
}

impl Checking<'_> {
    /// Checks everything. No checkpoint is taken meanwhile.
    pub fn run(&self) -> Result<CheckReport> {
        let begun = now_ns();
        let mut report = CheckReport::default();
        let boundary = self.boundaries.now(self.clock)?;
        report.epoch = boundary.epoch();
        report.indexes = self.indexes(boundary.epoch());
        self.boundaries.release(boundary);
        if let Some(log) = self.log {
            let (storage, manifest, written) = log.between_rounds(|files| {
                Ok((Arc::clone(files.storage()), files.manifest().clone(), files.written()))
            })?;
            let has_its_values = |entry: &RelationEntry, groups: GroupSet, data: &[u64]| {
                let store = self.stores.iter().find(|store| store.layout().name == entry.name);
                let layout = store.map_or_else(|| shape(entry).layout, |store| store.layout());
                let words = entry.data_words(groups);
                words.is_some_and(|words| Logged(data).is_whole(words, layout.logged_slots(groups)))
            };
            let threads = self.walkers.count();
            report.files = verify(&*storage, &manifest, Some(written), threads, &has_its_values);
        }
        report.elapsed = Duration::from_nanos(now_ns() - begun);
        Ok(report)
    }

    fn indexes(&self, epoch: u64) -> Vec<IndexCheck> {
        let mut pairs = Vec::new();
        for index in &self.stores {
            let Some(role) = index.relation.role.index() else { continue };
            let number = role.table().number();
            if let Some(table) = self.stores.iter().find(|table| table.number == number) {
                pairs.push(Pair { index, table, role });
            }
        }
        let next = AtomicU64::new(0);
        let done = in_parallel(0..self.walkers.count(), |_, thread| -> Result<Vec<IndexCheck>, Infallible> {
            let mut found = Vec::new();
            loop {
                // Relaxed: a number of its own for each.
                let task = next.fetch_add(1, Ordering::Relaxed) as usize;
                let Some(pair) = pairs.get(task / 2) else { return Ok(found) };
                let walking = Walking { clock: self.clock, walkers: self.walkers, thread, epoch };
                found.push(match task % 2 {
                    0 => pair.rows(&walking),
                    _ => pair.entries(&walking),
                });
            }
        });
        let Ok(done) = done;
        let mut indexes: Vec<IndexCheck> = Vec::new();
        for found in done.into_iter().flatten() {
            match indexes.iter_mut().find(|index| index.index == found.index) {
                Some(index) => index.add(found),
                None => indexes.push(found),
            }
        }
        indexes.sort_by(|a, b| a.index.cmp(&b.index));
        indexes
    }
}

/// A relation that the database does not have, as far as the manifest tells it.
fn shape(entry: &RelationEntry) -> &'static Definition {
    of_shape(&entry.name, &entry.schema, usize::from(entry.key_words), &entry.groups)
}

impl Pair<'_> {
    fn begin(&self) -> IndexCheck {
        IndexCheck::new(self.index.relation.name(), self.table.relation.name())
    }

    fn row_text(&self, key: &[u64]) -> String {
        match self.table.relation.role.table() {
            Some(role) => role.key_text(key),
            None => format!("{key:x?}"),
        }
    }

    /// Looks each row's entry up.
    fn rows(&self, walking: &Walking<'_>) -> IndexCheck {
        let mut check = self.begin();
        let mut entry = vec![0; self.index.relation.key_words];
        let mut there = vec![0; self.index.layout().words];
        walking.walk(self.table, &mut |key, row| {
            check.rows += 1;
            let index = self.index.relation.name();
            if let Err(Longer { limit, bytes }) = self.role.entry(row, self.table.heap(), &mut entry) {
                check.missing += 1;
                let (column, limit) = (limit.column, limit.bytes);
                check.tell(|| {
                    let row = self.row_text(key);
                    format!("row {row} has {bytes} bytes in {column}, and {index} has room for {limit}")
                });
                return;
            }
            let due = || self.role.key_text(&entry);
            if !self.index.read(&entry, walking.epoch, &mut there) {
                check.missing += 1;
                check.tell(|| format!("row {} has no entry {} in {index}", self.row_text(key), due()));
            } else if there != key {
                check.wrong += 1;
                let (row, other) = (self.row_text(key), self.row_text(&there));
                check.tell(|| format!("entry {} of row {row} in {index} leads to row {other}", due()));
            }
        });
        check
    }

    /// Looks each entry's row up.
    fn entries(&self, walking: &Walking<'_>) -> IndexCheck {
        let mut check = self.begin();
        let mut due = vec![0; self.index.relation.key_words];
        let mut row = vec![0; self.table.layout().words];
        walking.walk(self.index, &mut |entry, key| {
            check.entries += 1;
            let (index, told) = (self.index.relation.name(), || self.role.key_text(entry));
            if !self.table.read(key, walking.epoch, &mut row) {
                check.stray += 1;
                check.tell(|| {
                    format!(
                        "entry {} in {index} leads to row {}, which is not there",
                        told(),
                        self.row_text(key)
                    )
                });
                return;
            }
            let made = self.role.entry(&row, self.table.heap(), &mut due);
            if made.is_err() || due != entry {
                check.stray += 1;
                let right =
                    made.map_or("none, since a value is too long".to_owned(), |()| self.role.key_text(&due));
                check.tell(|| {
                    format!(
                        "entry {} in {index} is of row {}, whose entry is {right}",
                        told(),
                        self.row_text(key)
                    )
                });
            }
        });
        check
    }
}

/// How a thread of the check reads.
struct Walking<'a> {
    clock: &'a EpochClock,
    walkers: &'a Walkers,
    thread: usize,
    epoch: u64,
}

impl Walking<'_> {
    /// Shows all rows of a relation as of the end of the epoch.
    fn walk(&self, store: &Store, row: &mut dyn FnMut(&[u64], &[u64])) {
        let mut walk = Walk::default();
        while walk != Walk::End {
            self.walkers.pinned(self.clock, self.thread, || store.walk(&mut walk, self.epoch, row));
        }
    }
}
