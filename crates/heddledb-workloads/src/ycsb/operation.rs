//! A transaction as data: its accesses, what it returns, and the sum of what was committed.

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// The key, or where the scan starts.
    pub key: u64,
    /// What to do.
    pub action: Action,
}

/// What an [`Operation`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Reads this column.
    Read(u8),
    /// Reads the row.
    ReadAll,
    /// Reads and writes the first column.
    Increment,
    /// Reads the row, and writes the first column.
    ReadAllIncrement,
    /// Overwrites this column.
    Overwrite(u8),
    /// Adds the row.
    Insert,
    /// Reads this many rows.
    Scan(u8),
}

/// The kinds of transactions, by what is heaviest in them.
pub(super) const KINDS: [&str; 4] = ["read", "write", "insert", "scan"];

impl Action {
    pub(super) fn only_reads(self) -> bool {
        matches!(self, Self::Read(_) | Self::ReadAll | Self::Scan(_))
    }

    pub(super) fn kind(self) -> usize {
        match self {
            Self::Read(_) | Self::ReadAll => 0,
            Self::Increment | Self::ReadAllIncrement | Self::Overwrite(_) => 1,
            Self::Insert => 2,
            Self::Scan(_) => 3,
        }
    }
}

/// The arguments of one transaction.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The accesses.
    pub operations: Vec<Operation>,
    /// What overwrites write: used by no other transaction.
    pub tag: u64,
    pub(super) kind: usize,
    pub(super) writes: bool,
}

/// What a committed transaction returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Rows that were read by key or by scan.
    pub rows: u32,
    /// Keys that were given out, but had no row when read (D only).
    pub absent: u32,
}

/// The sum of one worker's committed effects.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Commits of each kind.
    pub commits: [u64; 4],
    /// Increments.
    pub increments: u64,
    /// Overwrites.
    pub overwrites: u64,
    /// Inserts.
    pub inserts: u64,
    /// Rows read.
    pub rows: u64,
    /// Keys without a row.
    pub absent: u64,
    /// For each generator in here: its first tag, and one past its last.
    pub tags: Vec<(u64, u64)>,
    /// Increments of each row, with [`Parameters::per_row`](super::Parameters::per_row).
    pub per_row: Vec<u64>,
}
