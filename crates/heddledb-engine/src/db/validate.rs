//! The indexes that the opening after a migration is to build: whether they can be, found out before the old files go.
//!
//! **Mechanism.** Every row that is written for a table is looked at on its way. Its entry is put into an index that is thrown
//! away afterwards, by the code that builds indexes ([`Part`]), so that the same rows are named in the same words as without
//! a migration. A table is written by one thread, so its lock is never waited for. Entries of an index that is not unique
//! differ by the keys of their rows: there only values that are too long are looked for, and no index is made.

use super::build::{Build, Part, judge};
use super::parts::Observe;
use super::store::Store;
use crate::arena::Arena;
use crate::heap::Heap;
use crate::log::LogError;
use crate::protocol::Records;
use crate::sync::{Mutex, lock};
use std::sync::Arc;

/// Indexes that are to be built.
pub(super) struct Validation<'a> {
    checks: Vec<Check<'a>>,
    /// The first epoch of the new life.
    epoch: u64,
}

/// Of one of them; dropped in this order, since the entries are in the memory of the last.
struct Check<'a> {
    build: Build<'a>,
    /// Where its entries are put instead.
    scratch: Store,
    found: Mutex<(Part, Arena)>,
}

impl<'a> Validation<'a> {
    /// Of rows of epochs before `epoch`.
    pub fn new(builds: Vec<Build<'a>>, epoch: u64, records: &'static Records) -> Self {
        let check = |build: Build<'a>| {
            let scratch = Store::new(records, build.index.relation, 0, Arc::new(Heap::new(1)));
            Check { build, scratch, found: Mutex::default() }
        };
        Self { checks: builds.into_iter().map(check).collect(), epoch }
    }

    /// Who looks at the rows of a table; its values are kept there.
    pub fn observer<'o>(&'o self, table: &str, values: &'o Heap) -> Option<Box<Observe<'o>>> {
        let is_of = |check: &&Check<'_>| check.build.table.layout().name == table;
        let checks: Vec<&Check<'_>> = self.checks.iter().filter(is_of).collect();
        if checks.is_empty() {
            return None;
        }
        Some(Box::new(move |key, row| {
            for check in &checks {
                let (part, arena) = &mut *lock(&check.found);
                part.row(&check.build, key, row, values);
                if part.is_full() {
                    check.add(part, arena, self.epoch);
                }
            }
        }))
    }

    /// Refuses what cannot be built of the rows that were seen.
    ///
    /// # Errors
    /// [`LogError::NotUnique`] and [`LogError::KeyTooLong`].
    pub fn finish(&self, place: &str) -> Result<(), LogError> {
        self.checks.iter().try_for_each(|check| {
            let (part, arena) = &mut *lock(&check.found);
            check.add(part, arena, self.epoch);
            judge(&check.build, place, &[part])
        })
    }
}

impl Check<'_> {
    fn add(&self, part: &mut Part, arena: &mut Arena, epoch: u64) {
        let Build { table, role, .. } = self.build;
        match role.is_unique() {
            true => part.add(&Build { index: &self.scratch, table, role }, epoch, arena),
            false => part.pass_over(),
        }
    }
}
