//! What a check of a database found: each index against its table, and each file.

use crate::log::FileCheck;
use std::fmt;
use std::time::Duration;

/// What [`Database::check`](https://docs.rs/heddledb/latest/heddledb/struct.Database.html#method.check) found.
///
/// Its `Display` is a table for a person, with a line for each index and file, and one for each thing that is wrong.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// The last epoch that was looked at: the check is of one moment.
    pub epoch: u64,
    /// Each index, in the order of the names.
    pub indexes: Vec<IndexCheck>,
    /// Each part of the checkpoint and each file of the log; none for a database in memory.
    pub files: Vec<FileCheck>,
    /// How long it took.
    pub elapsed: Duration,
}

/// How an index and its table agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexCheck {
    /// The index, behind its table and a dot.
    pub index: String,
    /// The table.
    pub table: String,
    /// Rows of the table.
    pub rows: u64,
    /// Entries of the index.
    pub entries: u64,
    /// Rows that have no entry.
    pub missing: u64,
    /// Entries whose row is not there, or has another entry.
    pub stray: u64,
    /// Entries that a row should have and that lead to another row.
    pub wrong: u64,
    /// The first of what is wrong, a sentence each.
    pub examples: Vec<String>,
}

/// So many examples are told of each index.
const EXAMPLES_MAX: usize = 5;

impl IndexCheck {
    /// Nothing has been compared yet.
    #[doc(hidden)]
    pub fn new(index: &str, table: &str) -> Self {
        Self { index: index.to_owned(), table: table.to_owned(), ..Self::default() }
    }

    /// Whether each row has its entry, and each entry its row.
    pub fn is_whole(&self) -> bool {
        (self.missing, self.stray, self.wrong) == (0, 0, 0)
    }

    /// Keeps an example, if there are few.
    #[doc(hidden)]
    pub fn tell(&mut self, example: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(example());
        }
    }

    /// Adds what another thread found of the same index.
    #[doc(hidden)]
    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.entries += other.entries;
        self.missing += other.missing;
        self.stray += other.stray;
        self.wrong += other.wrong;
        self.examples.extend(other.examples);
        self.examples.sort_unstable();
        self.examples.truncate(EXAMPLES_MAX);
    }
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.indexes.iter().all(IndexCheck::is_whole) && self.files.iter().all(|file| file.problem.is_none())
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            self.indexes.iter().map(|index| &index.index).chain(self.files.iter().map(|file| &file.file));
        let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
        for index in &self.indexes {
            let verdict = if index.is_whole() { "ok" } else { "WRONG" };
            let IndexCheck { rows, entries, .. } = index;
            writeln!(f, "{:width$}  {rows} rows, {entries} entries: {verdict}", index.index)?;
            if !index.is_whole() {
                let IndexCheck { missing, stray, wrong, .. } = index;
                writeln!(
                    f,
                    "  {missing} rows without an entry, {stray} entries without a row, {wrong} that lead elsewhere"
                )?;
            }
            index.examples.iter().try_for_each(|example| writeln!(f, "  {example}"))?;
        }
        for file in &self.files {
            let FileCheck { frames, items, problem, .. } = file;
            let verdict = if problem.is_none() { "ok" } else { "DAMAGED" };
            let kind = if file.file.starts_with("checkpoint") { "rows" } else { "transactions" };
            writeln!(f, "{:width$}  {frames} frames, {items} {kind}: {verdict}", file.file)?;
            problem.iter().try_for_each(|problem| writeln!(f, "  {problem}"))?;
        }
        let verdict = if self.is_whole() { "whole" } else { "NOT WHOLE" };
        write!(f, "{verdict}, as of epoch {}, checked in {:.3} s", self.epoch, self.elapsed.as_secs_f64())
    }
}
