//! Indexes that were added to tables with rows: their entries are made of the rows that an opening has loaded.
//!
//! **Mechanism.** Every thread walks all leaves of the table and takes each n-th of them, so that no thread waits for
//! another. It gathers the entries of some thousand rows, sorts them, and adds them in that order, so that most of the
//! time the next entry goes where the last one went. Nothing runs beside, so each walk sees the same leaves.
//!
//! Where a unique index finds two rows of one entry, the walk goes on, so that the same two rows are named however many
//! threads there are: of the smallest such entry, those with the smallest keys. So too where values are longer than the
//! index has room for: the row with the smallest key is named.
//!
//! Nothing is written here. What was built is in the checkpoint that ends the opening, and if that is cut off, the next
//! opening builds it again.

use super::shares::Share;
use super::store::Store;
use crate::arena::Arena;
use crate::error::Result;
use crate::index::{Leaf, Walk};
use crate::log::{KeyTooLong, LogError, NotUnique};
use crate::metrics::{RecoveryProgress, Tell};
use crate::mutant::{Mutant, planted};
use crate::stamp;
use crate::sync::{AtomicU64, Mutex, Ordering, in_parallel, lock};
use crate::table::IndexRole;
use crate::values::{Longer, Values};

/// An index to be built.
pub(super) struct Build<'a> {
    pub index: &'a Store,
    pub table: &'a Store,
    pub role: &'static dyn IndexRole,
}

/// Entries that are sorted and added together.
const ENTRIES: usize = 8 << 10;

/// How building tells how far it is.
pub(super) struct Telling {
    tell: Option<Tell>,
    /// Bytes that were read before.
    bytes: u64,
    rows: AtomicU64,
    rows_total: u64,
    /// When it was told last.
    told: Mutex<u64>,
}

impl Telling {
    /// Counts the rows, if anyone is told.
    pub fn new(tell: Option<Tell>, bytes: u64, builds: &[Build<'_>]) -> Self {
        let count = |build: &Build<'_>| {
            let (mut walk, mut leaf, mut rows) = (Walk::default(), Leaf::default(), 0);
            while walk != Walk::End {
                leaf.clear();
                build.table.index.walk(&mut walk, &mut leaf);
                rows += leaf.len() as u64;
            }
            rows
        };
        let rows_total = if tell.is_some() { builds.iter().map(count).sum() } else { 0 };
        Self { tell, bytes, rows: AtomicU64::new(0), rows_total, told: Mutex::new(0) }
    }

    fn add(&self, rows: usize) {
        const STEP: u64 = 1 << 16;
        let Some(tell) = &self.tell else { return };
        // Relaxed: a count.
        let rows = self.rows.fetch_add(rows as u64, Ordering::Relaxed) + rows as u64;
        let mut told = lock(&self.told);
        if rows >= *told + STEP || (rows >= self.rows_total && *told < rows) {
            *told = rows;
            tell(RecoveryProgress::indexing(self.bytes, rows, self.rows_total));
        }
    }
}

/// Builds all of them, on a thread for each share. Their rows are those of epochs before `epoch`. Returns how many entries
/// each has.
///
/// # Errors
/// [`LogError::NotUnique`] and [`LogError::KeyTooLong`]; the indexes are invalid then.
pub(super) fn build(
    builds: &[Build<'_>],
    place: &str,
    epoch: u64,
    checkpoint_epoch: u64,
    shares: &mut [Share],
    telling: &Telling,
) -> Result<Vec<u64>, LogError> {
    let threads = shares.len();
    let outcomes = in_parallel(shares, |number, share: &mut Share| -> Result<Vec<Part>, LogError> {
        let part = |build: &Build<'_>| {
            let rows_of = match planted(Mutant::IndexBuiltFromCheckpointOnly) {
                false => epoch,
                true => checkpoint_epoch,
            };
            Part::default().fill(build, (number, threads), epoch, rows_of, share, telling)
        };
        Ok(builds.iter().map(part).collect())
    })?;
    let mut entries = Vec::new();
    for (at, build) in builds.iter().enumerate() {
        let parts: Vec<&Part> = outcomes.iter().map(|parts| &parts[at]).collect();
        judge(build, place, &parts)?;
        entries.push(parts.iter().map(|part| part.entries).sum());
    }
    Ok(entries)
}

/// Refuses an index that cannot be built of the rows that these parts have seen.
///
/// # Errors
/// [`LogError::NotUnique`] and [`LogError::KeyTooLong`].
pub(super) fn judge(build: &Build<'_>, place: &str, parts: &[&Part]) -> Result<(), LogError> {
    let twins = parts.iter().filter_map(|part| part.twins.clone());
    if let Some(twins) = twins.reduce(Twins::merged) {
        return Err(twins.refusal(build, place));
    }
    let longer = parts.iter().filter_map(|part| part.longer.as_ref());
    match longer.min_by_key(|(key, _)| key) {
        Some((key, longer)) => Err(too_long(build, place, key, *longer)),
        None => Ok(()),
    }
}

/// What one thread does for an index.
#[derive(Default)]
pub(super) struct Part {
    /// The entries that are gathered: key of the entry, key of the row.
    gathered: Vec<(Vec<u64>, Vec<u64>)>,
    entries: u64,
    twins: Option<Twins>,
    /// The row with the smallest key that has a value which is too long.
    longer: Option<(Vec<u64>, Longer)>,
}

impl Part {
    fn fill(
        mut self,
        build: &Build<'_>,
        (thread, threads): (usize, usize),
        epoch: u64,
        rows_of: u64,
        share: &mut Share,
        telling: &Telling,
    ) -> Self {
        let (mut walk, mut leaf) = (Walk::default(), Leaf::default());
        for number in 0.. {
            if walk == Walk::End {
                break;
            }
            leaf.clear();
            build.table.index.walk(&mut walk, &mut leaf);
            if number % threads != thread {
                continue;
            }
            let before = self.gathered.len();
            build.table.rows(&leaf, rows_of, &mut |key, row| self.row(build, key, row, build.table.heap()));
            if planted(Mutant::IndexBuiltOfPartOfTheRows) && self.gathered.len() > before {
                self.gathered.pop();
            }
            telling.add(leaf.len());
            if self.is_full() {
                self.add(build, epoch, &mut share.arena);
            }
        }
        self.add(build, epoch, &mut share.arena);
        self
    }

    /// Gathers the entry of a row, given as its key, all its data words, and who keeps its values.
    pub fn row(&mut self, build: &Build<'_>, key: &[u64], row: &[u64], values: &dyn Values) {
        let mut entry = vec![0; build.index.relation.key_words];
        match build.role.entry(row, values, &mut entry) {
            Ok(()) => self.gathered.push((entry, key.to_vec())),
            Err(longer) => {
                let found = (key.to_vec(), longer);
                let before = self.longer.take();
                self.longer = before.filter(|(known, _)| known <= &found.0).or(Some(found));
            }
        }
    }

    /// Whether it is time to add what is gathered.
    pub fn is_full(&self) -> bool {
        self.gathered.len() >= ENTRIES
    }

    /// Forgets what is gathered.
    pub fn pass_over(&mut self) {
        self.gathered.clear();
    }

    /// Adds what is gathered to the index.
    pub fn add(&mut self, build: &Build<'_>, epoch: u64, arena: &mut Arena) {
        self.gathered.sort_unstable();
        // Of all times before the new life the last, so that every later commit's is above it.
        let time = stamp::floor(epoch) - 1;
        let (entries, twins) = (&mut self.entries, &mut self.twins);
        build.index.add(&self.gathered, time, arena, &mut |(entry, key), there| match there {
            None => *entries += 1,
            // A walk may come to a row twice.
            Some(there) if there == key => {}
            Some(there) => {
                let found = Twins::of(entry, [there.to_vec(), key.clone()]);
                *twins = Some(match twins.take() {
                    None => found,
                    Some(known) => known.merged(found),
                });
            }
        });
        self.gathered.clear();
    }
}

/// The rows with the smallest keys, at most two, of the smallest entry that several have.
#[derive(Clone)]
struct Twins {
    entry: Vec<u64>,
    /// In order, and different.
    rows: Vec<Vec<u64>>,
}

impl Twins {
    fn of(entry: &[u64], rows: [Vec<u64>; 2]) -> Self {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        Self { entry: entry.to_vec(), rows }
    }

    fn merged(self, other: Self) -> Self {
        match self.entry.cmp(&other.entry) {
            std::cmp::Ordering::Less => self,
            std::cmp::Ordering::Greater => other,
            std::cmp::Ordering::Equal => {
                let mut rows = self.rows;
                rows.extend(other.rows);
                rows.sort_unstable();
                rows.dedup();
                rows.truncate(2);
                Self { entry: self.entry, rows }
            }
        }
    }

    fn refusal(&self, build: &Build<'_>, place: &str) -> LogError {
        let table = build.table.relation;
        let row = |at: usize| row_text(build, &self.rows[at]);
        LogError::NotUnique(Box::new(NotUnique {
            place: place.to_owned(),
            table: table.name().to_owned(),
            index: build.index.relation.name().to_owned(),
            entry: build.role.key_text(&self.entry),
            first: row(0),
            second: row(1),
        }))
    }
}

/// The key of a row, for a person.
fn row_text(build: &Build<'_>, key: &[u64]) -> String {
    match build.table.relation.role.table() {
        Some(role) => role.key_text(key),
        None => format!("{key:x?}"),
    }
}

fn too_long(build: &Build<'_>, place: &str, key: &[u64], Longer { limit, bytes }: Longer) -> LogError {
    LogError::KeyTooLong(Box::new(KeyTooLong {
        place: place.to_owned(),
        table: build.table.relation.name().to_owned(),
        index: build.index.relation.name().to_owned(),
        row: row_text(build, key),
        column: limit.column,
        bytes,
        limit: limit.bytes,
    }))
}
