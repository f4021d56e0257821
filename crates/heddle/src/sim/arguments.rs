//! The arguments of `heddle sim` with a workload, and the plan that they amount to.

use super::costs;
use crate::arguments::{protocols, refuse_levels};
use crate::failure::{Failure, chain};
use crate::report::outputs::Outputs;
use clap::Args;
use heddledb::protocol::{Execution, Isolation, Kind};
use heddledb_simulator::point::Queue;
use heddledb_simulator::simulation::{Costs, L1, Topology};
use heddledb_workloads::ReadOnly;
use heddledb_workloads::arguments::{ApplicationArguments, WorkloadArguments};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// The most virtual cores.
const CORES_MAX: usize = 1024;
/// The most sockets.
const SOCKETS_MAX: usize = 8;

/// A workload, and the virtual machines that it runs on.
#[derive(Args, Clone, Debug)]
pub struct Simulated<W: Args> {
    /// What all workloads share.
    #[command(flatten)]
    pub common: Common,
    /// The workload.
    #[command(flatten)]
    pub workload: W,
}

impl<A: ApplicationArguments> Simulated<A> {
    /// The application.
    pub fn application(&self) -> Result<A::Application, Failure> {
        self.workload.application().map_err(|error| Failure::usage(chain(&error)))
    }
}

impl<W: WorkloadArguments> Simulated<W> {
    /// The workload.
    pub fn workload(&self) -> Result<W::Workload, Failure> {
        self.workload.workload().map_err(|error| Failure::usage(chain(&error)))
    }
}

/// Arguments that all workloads share.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Protocols, by commas; `all` runs every one but those that others are only compared with
    #[arg(long, short, value_name = "NAME,..", value_delimiter = ',', default_value = "silo,tictoc")]
    pub protocol: Vec<String>,
    /// Numbers of virtual cores, by commas, up to 1024 [default: 1,4,16,64]
    #[arg(long, short, value_name = "N,..", value_delimiter = ',', value_parser = cores)]
    pub cores: Option<Vec<usize>>,
    /// Seed of the data and the inputs; the same seed gives the same result to the last count
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Length of the measured window in virtual time [default: 160ms divided by the cores, from 4ms to 20ms]
    #[arg(long, value_name = "TIME", value_parser = window)]
    pub window: Option<Duration>,
    /// Length of the warm-up before it [default: a quarter of the window]
    #[arg(long, value_name = "TIME", value_parser = length)]
    pub warmup: Option<Duration>,
    /// How often the epoch advances, in virtual time
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = window)]
    pub epoch_interval: Duration,
    /// Sockets of the machine, each with a shared cache
    #[arg(long, value_name = "N", default_value = "1", value_parser = sockets)]
    pub sockets: usize,
    /// Cores of a socket; workers fill one socket after the other [default: 1024]
    #[arg(long, value_name = "N", value_parser = cores)]
    pub cores_per_socket: Option<usize>,
    /// A file with costs, as `heddle sim costs` prints it; what it does not name stays as it is
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// The first-level cache by which regions of hardware transactional memory have room: 8-way, 32 KiB as DBX-TC's
    /// processor has it, or 12-way, 48 KiB as recent ones [default: as the table of costs says]
    #[arg(long, value_name = "CACHE")]
    pub l1: Option<L1>,
    /// Run with what cores cost each other times 0.5 and 2 as well, and tell which conclusions depend on it
    #[arg(long)]
    pub sweep: bool,
    /// How transactions that only read are run: serializable, among the writers, or on a snapshot of a
    /// recent moment, which never conflicts
    #[arg(long, value_name = "WAY", default_value_t)]
    pub read_only: ReadOnly,
    /// Transactions that each worker has under way at a time: latency is counted from when they are queued. Under protocols that
    /// gather calls into batches these are what batches are made of
    #[arg(long, value_name = "N", default_value = "1", value_parser = queue)]
    pub queue: usize,
    /// The most calls of a batch, under protocols that gather calls; else they adapt it themselves
    #[arg(long, value_name = "N")]
    pub batch: Option<NonZeroU32>,
    /// The isolation level: serializable, snapshot, or repeatable-read, where the protocol offers it
    #[arg(long, value_name = "LEVEL", default_value_t)]
    pub isolation: Isolation,
    /// Points that are simulated at a time, each by one thread; results do not depend on it
    #[arg(long, short, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub jobs: u8,
    /// A first try: 1, 4 and 16 cores, and a fifth of the window
    #[arg(long)]
    pub quick: bool,
    /// Write the report as JSON; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Parses a number of virtual cores.
pub fn cores(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(count @ 1..=CORES_MAX) => Ok(count),
        _ => Err(format!("give whole numbers from 1 to {CORES_MAX}, such as 1,4,16")),
    }
}

fn sockets(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=SOCKETS_MAX) => Ok(count),
        _ => Err(format!("give a whole number from 1 to {SOCKETS_MAX}")),
    }
}

/// Parses how many transactions a worker has under way.
fn queue(text: &str) -> Result<usize, String> {
    const MOST: usize = 100_000;
    match text.parse() {
        Ok(count @ 1..=MOST) => Ok(count),
        _ => Err(format!("give a whole number from 1 to {MOST}")),
    }
}

/// Parses a length of virtual time; zero is one.
fn length(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let refusal =
        || "give a number with its unit ns, us, ms or s, up to 100s, such as 2ms or 300us".to_owned();
    let number = text.trim_end_matches(|letter: char| letter.is_alphabetic());
    let unit = &text[number.len()..];
    let (_, nanoseconds) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(refusal)?;
    let count: f64 = number.trim().parse().map_err(|_| refusal())?;
    let total = count * nanoseconds;
    if (0.0..=1e11).contains(&total) { Ok(Duration::from_nanos(total as u64)) } else { Err(refusal()) }
}

/// Parses a length of virtual time of a microsecond at least.
fn window(text: &str) -> Result<Duration, String> {
    let length = length(text)?;
    if length < Duration::from_micros(1) { Err("give 1us or more, such as 2ms".into()) } else { Ok(length) }
}

/// What the costs between cores are multiplied by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor(pub u64, pub u64);

impl Factor {
    /// As the table has them.
    pub const ONE: Self = Self(1, 1);
    /// What a sweep runs.
    const SWEEP: [Self; 3] = [Self::ONE, Self(1, 2), Self(2, 1)];

    /// As a number.
    pub fn value(self) -> f64 {
        self.0 as f64 / self.1 as f64
    }
}

/// A point to be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The protocol.
    pub kind: Kind,
    /// How many workers.
    pub cores: usize,
    /// What the costs between cores are multiplied by.
    pub factor: Factor,
}

/// What is to be simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The points, in the order of the report.
    pub points: Vec<Configuration>,
    /// The shape of the machine.
    pub topology: Topology,
    /// What things cost.
    pub costs: Costs,
    /// The seed of loading and drawing.
    pub seed: u64,
    /// How often the epoch advances.
    pub epoch_interval: Duration,
    /// How transactions that only read are run.
    pub read_only: ReadOnly,
    /// The isolation level.
    pub isolation: Isolation,
    /// What each worker has under way.
    pub queue: Queue,
    /// Points at a time.
    pub jobs: usize,
    /// Where the report goes.
    pub outputs: Outputs,
    /// What the reader should know.
    pub notes: Vec<String>,
    window: Option<Duration>,
    warmup: Option<Duration>,
    quick: bool,
}

impl Plan {
    /// The window at a number of cores. More cores do more in the same time, so that they need less of it.
    pub fn window(&self, cores: usize) -> Duration {
        const CORE_TIME: Duration = Duration::from_millis(160);
        const SHORTEST: Duration = Duration::from_millis(4);
        const LONGEST: Duration = Duration::from_millis(20);
        let window = (CORE_TIME / cores as u32).clamp(SHORTEST, LONGEST);
        self.window.unwrap_or(if self.quick { window / 5 } else { window })
    }

    /// The warm-up before it.
    pub fn warmup(&self, cores: usize) -> Duration {
        self.warmup.unwrap_or(self.window(cores) / 4)
    }
}

impl Common {
    /// The plan, or why there can be none.
    pub fn plan(&self) -> Result<Plan, Failure> {
        let (kinds, all) = protocols(&self.protocol, &Kind::contenders())?;
        let default = if self.quick { vec![1, 4, 16] } else { vec![1, 4, 16, 64] };
        let mut counts = self.cores.clone().unwrap_or(default);
        counts.sort_unstable();
        counts.dedup();
        let cores_per_socket = match (self.sockets, self.cores_per_socket) {
            (1, None) => CORES_MAX,
            (_, Some(cores)) => cores,
            (sockets, None) => {
                return Err(Failure::usage(format!(
                    "--sockets {sockets} needs --cores-per-socket: how many cores each of them has"
                )));
            }
        };
        let there = self.sockets * cores_per_socket;
        if let Some(count) = counts.iter().find(|count| **count > there) {
            return Err(Failure::usage(format!(
                "{count} cores are more than the machine has: {} of {cores_per_socket} are {there}; \
                 raise --sockets or --cores-per-socket",
                if self.sockets == 1 { "1 socket".to_owned() } else { format!("{} sockets", self.sockets) }
            )));
        }
        let factors = if self.sweep { Factor::SWEEP.to_vec() } else { vec![Factor::ONE] };
        let mut notes = Vec::new();
        let mut points = Vec::new();
        for &factor in &factors {
            for &kind in &kinds {
                let most = kind.sessions_max();
                let (can, cannot): (Vec<usize>, Vec<usize>) =
                    counts.iter().partition(|count| **count <= most);
                points.extend(can.into_iter().map(|cores| Configuration { kind, cores, factor }));
                if cannot.is_empty() || factor != Factor::ONE {
                    continue;
                }
                let list: Vec<String> = cannot.iter().map(usize::to_string).collect();
                let limit =
                    if most == 1 { "1 core only".to_owned() } else { format!("{most} cores at most") };
                let what = format!("{kind} on {} cores", list.join(", "));
                if !all {
                    return Err(Failure::usage(format!(
                        "{what}: it can use {limit}; lower --cores, or run it by a command of its own"
                    )));
                }
                notes.push(format!("{what} was passed over: it can use {limit}"));
            }
        }
        let kinds: Vec<Kind> = points.iter().map(|point| point.kind).collect();
        refuse_levels(&kinds, self.isolation, Kind::levels)?;
        if self.batch.is_some() && kinds.iter().all(|kind| kind.execution() != Execution::Batched) {
            let what = "--batch is for protocols that gather calls into batches, such as dgcc, and none of these does";
            return Err(Failure::usage(what.to_owned()));
        }
        let costs = match &self.costs {
            Some(path) => costs::read(path)?,
            None => Costs::default(),
        };
        let costs = self.l1.map_or(costs, |l1| l1.of(costs));
        Ok(Plan {
            points,
            topology: Topology { sockets: self.sockets, cores_per_socket },
            costs,
            seed: self.seed,
            epoch_interval: self.epoch_interval,
            read_only: self.read_only,
            isolation: self.isolation,
            queue: Queue { length: self.queue, batch: self.batch },
            jobs: usize::from(self.jobs),
            outputs: Outputs { json: self.json.clone(), html: self.html.clone() },
            notes,
            window: self.window,
            warmup: self.warmup,
            quick: self.quick,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_units() {
        let nanoseconds =
            ["300us", "1.5ms", "2s", "0ms", "70ns", "8µs"].map(|text| length(text).map(|l| l.as_nanos()));
        assert_eq!(nanoseconds.map(Result::unwrap), [300_000, 1_500_000, 2_000_000_000, 0, 70, 8_000]);
        for text in ["", "3", "ms", "3 m", "-1ms", "NaNms", "101s", "3ms4"] {
            assert!(length(text).unwrap_err().contains("such as 2ms"), "{text}");
        }
        assert!(window("0ms").is_err());
    }
}
