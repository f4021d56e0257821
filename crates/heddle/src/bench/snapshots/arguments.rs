//! The arguments of `heddle bench snapshots`.

use crate::arguments::seconds;
use clap::{Args, ValueEnum};
use heddledb_workloads::tpcc::Scale;
use std::path::PathBuf;

/// Arguments of `heddle bench snapshots`.
#[derive(Args, Clone, Debug)]
pub struct SnapshotsArguments {
    /// What the writer runs: tpcc (New-Order and Payment) or ycsb (16 increments)
    #[arg(long, value_enum, default_value = "tpcc")]
    pub workload: Writes,
    /// Protocols, by commas
    #[arg(long, short, value_name = "NAME,..", value_delimiter = ',', default_value = "silo,tictoc")]
    pub protocol: Vec<String>,
    /// How old a snapshot's moment may be, in milliseconds, by commas
    #[arg(long, value_name = "MS,..", value_delimiter = ',', default_value = "1000")]
    pub interval: Vec<u64>,
    /// Who is beside the writer, by commas
    #[arg(long, value_enum, value_name = "READER,..", value_delimiter = ',', default_values_t = Reader::ALL)]
    pub reader: Vec<Reader>,
    /// Rounds: fresh databases on which every reader has its turn
    #[arg(long, value_name = "N", default_value = "7", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// Length of a turn
    #[arg(long, value_name = "S", default_value = "0.3", value_parser = seconds)]
    pub seconds: f64,
    /// Seed of the data and the inputs
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Warehouses (tpcc)
    #[arg(long, short, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub warehouses: u16,
    /// Rows: full or tiny (tpcc)
    #[arg(long, value_name = "SIZE", default_value = "full", value_parser = heddledb_workloads::arguments::scale)]
    pub scale: Scale,
    /// Records (ycsb)
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u64).range(32..=1_000_000_000))]
    pub records: u64,
    /// Skew of the keys (ycsb)
    #[arg(long, value_name = "T", default_value = "0.9", value_parser = heddledb_workloads::arguments::theta)]
    pub theta: f64,
    /// Bytes of each of a record's ten columns, which share a column group: 100 or 10 (ycsb)
    #[arg(long, value_name = "N", default_value = "10", value_parser = heddledb_workloads::arguments::field_bytes)]
    pub field_bytes: usize,
    /// Write the report as JSON; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Examples:
  heddle bench snapshots
  heddle bench snapshots --protocol silo --interval 10,100,1000 --rounds 15 --json snapshots.json
  heddle bench snapshots --workload ycsb --theta 0.8 --reader none,memory-sweeps,sweeps";

/// What the writer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Writes {
    /// TPC-C's New-Order and Payment; readers look by Order-Status and Stock-Level.
    Tpcc,
    /// YCSB increments; readers look by key.
    Ycsb,
}

/// Who is beside the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reader {
    /// Nobody
    None,
    /// Computes and touches no memory
    Spin,
    /// Reads as much memory as `looks` did, without touching the engine
    MemoryLooks,
    /// Short transactions on snapshots of a recent moment
    Looks,
    /// The same on one snapshot that stays open for the whole turn
    LooksHeld,
    /// The same serializable
    LooksSerializable,
    /// Reads as much memory as `sweeps` did, without touching the engine
    MemorySweeps,
    /// Reads through most of the database, on a snapshot each time
    Sweeps,
    /// The same serializable
    SweepsSerializable,
}

impl Reader {
    /// All, each memory's reader before those that it is the measure of.
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::Spin,
        Self::MemoryLooks,
        Self::Looks,
        Self::LooksHeld,
        Self::LooksSerializable,
        Self::MemorySweeps,
        Self::Sweeps,
        Self::SweepsSerializable,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spin => "spin",
            Self::MemoryLooks => "memory-looks",
            Self::Looks => "looks",
            Self::LooksHeld => "looks-held",
            Self::LooksSerializable => "looks-serializable",
            Self::MemorySweeps => "memory-sweeps",
            Self::Sweeps => "sweeps",
            Self::SweepsSerializable => "sweeps-serializable",
        }
    }

    /// Whose pace a memory's reader keeps.
    pub fn pace(self) -> Option<Self> {
        match self {
            Self::MemoryLooks => Some(Self::Looks),
            Self::MemorySweeps => Some(Self::Sweeps),
            _ => None,
        }
    }

    /// The memory's reader that an engine's reader is compared with.
    pub fn memory(self) -> Option<Self> {
        match self {
            Self::Looks | Self::LooksHeld | Self::LooksSerializable => Some(Self::MemoryLooks),
            Self::Sweeps | Self::SweepsSerializable => Some(Self::MemorySweeps),
            _ => None,
        }
    }
}
