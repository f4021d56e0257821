//! First-level caches by name: how much room a hardware transaction has in each.

use super::costs::Costs;
use std::fmt;
use std::str::FromStr;

/// A first-level data cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L1 {
    /// 32 KiB, 64 sets of 8 lines: a Core i7-4770 (Haswell), on which DBX-TC was measured. The paper has its ends only: 31 KB of
    /// stores, 4 MB of loads. How loads fail on the way there is ours.
    EightWay,
    /// 48 KiB, 64 sets of 12 lines, as recent Xeons have it, by what regions did on two of them. One line of each set is somebody
    /// else's: of regions with 704 stores in sequence, 64 times 11, less than half committed, and with 768 none.
    TwelveWay,
}

impl L1 {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::EightWay, Self::TwelveWay];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EightWay => "8-way",
            Self::TwelveWay => "12-way",
        }
    }

    /// The table, with this cache's room for regions.
    #[must_use]
    pub const fn of(self, costs: Costs) -> Costs {
        let (htm_write_ways, htm_read_ways, htm_read_spans) = match self {
            Self::EightWay => (8, 8, 400),
            Self::TwelveWay => (11, 12, 42),
        };
        Costs {
            htm_write_sets: 64,
            htm_write_ways,
            htm_read_sets: 64,
            htm_read_ways,
            htm_read_spans,
            htm_stack_lines: 4,
            htm_private_words: 8,
            ..costs
        }
    }
}

impl fmt::Display for L1 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for L1 {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|l1| l1.name() == name);
        known.ok_or_else(|| "give 8-way (32 KiB) or 12-way (48 KiB)".to_owned())
    }
}
