//! The parameters, and the named workloads.

use heddledb::{Misuse, Result};

/// The order in which a transaction accesses its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrder {
    /// As drawn.
    Drawn,
    /// Ascending, which keeps lock waits free of cycles (STOv2).
    Sorted,
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Reads the first column and increments its number.
    Increment,
    /// Overwrites a column.
    Blind,
}

/// What a read returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The first column.
    First,
    /// A random column.
    One,
    /// The row.
    All,
}

/// The parameters of [`Ycsb`](super::Ycsb).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Rows at first.
    pub records: u64,
    /// Bytes of a column: 100 or 10. There are ten columns.
    pub field_bytes: usize,
    /// Accesses of a transaction; their keys are distinct.
    pub operations: usize,
    /// Percentage of reads.
    pub read_pct: u32,
    /// Percentage of inserts of new keys.
    pub insert_pct: u32,
    /// Percentage of scans; the table is ordered then. What is left are writes.
    pub scan_pct: u32,
    /// Skew, from 0 (uniform) to below 1.
    pub theta: f64,
    /// Whether frequent keys are spread over the key space, or neighbours.
    pub scramble: bool,
    /// Whether skew is towards the newest records.
    pub latest: bool,
    /// Order of accesses.
    pub key_order: KeyOrder,
    /// What a read returns.
    pub read: Read,
    /// What a write does.
    pub write: Write,
    /// Whether ledgers count the writes of each row, for small tests.
    pub per_row: bool,
}

impl Default for Parameters {
    /// Sixteen accesses, half of them writes, theta 0.9, over a million rows.
    fn default() -> Self {
        Self {
            records: 1_000_000,
            field_bytes: 100,
            operations: 16,
            read_pct: 50,
            insert_pct: 0,
            scan_pct: 0,
            theta: 0.9,
            scramble: false,
            latest: false,
            key_order: KeyOrder::Drawn,
            read: Read::One,
            write: Write::Increment,
            per_row: false,
        }
    }
}

impl Parameters {
    /// The names that [`Parameters::preset`] knows, with what they stand for.
    pub const PRESETS: [(&'static str, &'static str); 9] = [
        ("read-only", "2 reads, uniform (TicToc)"),
        ("medium", "16 accesses, 90 % reads, theta 0.8 (TicToc)"),
        ("high", "16 accesses, 50 % reads, theta 0.9 (TicToc)"),
        ("a", "50 % reads, 50 % updates"),
        ("b", "95 % reads, 5 % updates"),
        ("c", "reads"),
        ("d", "95 % reads of the latest, 5 % inserts"),
        ("e", "95 % scans, 5 % inserts"),
        ("f", "50 % reads, 50 % read-modify-writes"),
    ];

    /// The parameters of a named workload. A to F access one row, theta 0.99, scrambled, and read
    /// whole rows.
    pub fn preset(name: &str) -> Option<Self> {
        let core = Self {
            operations: 1,
            theta: 0.99,
            scramble: true,
            read: Read::All,
            write: Write::Blind,
            ..Self::default()
        };
        Some(match name {
            "read-only" => Self { operations: 2, read_pct: 100, theta: 0.0, ..Self::default() },
            "medium" => Self { read_pct: 90, theta: 0.8, ..Self::default() },
            "high" => Self::default(),
            "a" => core,
            "b" => Self { read_pct: 95, ..core },
            "c" => Self { read_pct: 100, ..core },
            "d" => Self { read_pct: 95, insert_pct: 5, latest: true, ..core },
            "e" => Self { read_pct: 0, insert_pct: 5, scan_pct: 95, ..core },
            "f" => Self { write: Write::Increment, ..core },
            _ => return None,
        })
    }

    pub(super) fn ordered(&self) -> bool {
        self.scan_pct > 0
    }

    pub(super) fn validate(&self) -> Result<()> {
        let reason = if !matches!(self.field_bytes, 10 | 100) {
            "columns have 10 or 100 bytes".into()
        } else if self.ordered() && self.field_bytes != 100 {
            "a table for scans has columns of 100 bytes".into()
        } else if !(0.0..1.0).contains(&self.theta) {
            format!("theta {} is not in [0, 1)", self.theta)
        } else if self.read_pct.saturating_add(self.insert_pct).saturating_add(self.scan_pct) > 100 {
            "the percentages of reads, inserts and scans add up to more than 100".into()
        } else if self.operations == 0 || self.records < 2 * self.operations as u64 {
            // Fewer, and distinct keys would be drawn for ever.
            format!(
                "{} accesses of {} records: at least one access, and twice as many records",
                self.operations, self.records
            )
        } else {
            return Ok(());
        };
        Err(Misuse::Option(reason).into())
    }
}
