//! The arguments of `heddle bench`, and the plan that they amount to.
//!
//! clap checks each argument by itself; [`Common::plan`] and the `workload` methods check what
//! only makes sense together. Every refusal says what is allowed.

use super::arrivals::{Arrivals, Spacing};
use super::settings::{Driver, LogSettings, Settings, Submission};
use super::snapshots::arguments::SnapshotsArguments;
use crate::arguments::{protocols, refuse_levels, seconds};
use crate::clock::Clock;
use crate::failure::{Failure, chain};
use crate::machine;
use crate::report::outputs::Outputs;
use clap::{Args, Subcommand};
use heddledb::protocol::{Isolation, Kind};
use heddledb::{Compression, Durability, LogKind};
use heddledb_workloads::ReadOnly;
use heddledb_workloads::arguments::{
    ApplicationArguments, ArrayArguments, ArticlesArguments, BayesArguments, GenomeArguments,
    IntruderArguments, KmeansArguments, LabyrinthArguments, MicroArguments, TpccArguments, TpceArguments,
    VacationArguments, WorkloadArguments as OfWorkload, YcsbArguments,
};
use std::path::PathBuf;
use std::time::Duration;

/// The workloads with a line each.
pub const WORKLOADS: [(&str, &str); 12] = [
    ("tpcc", "TPC-C: order entry in warehouses; few of them, or random binding, make it contended"),
    ("tpce", "TPC-E: the read-write transactions of a brokerage house; few securities make it contended"),
    ("ycsb", "YCSB: reads and writes of records drawn from a zipfian distribution; theta sets the skew"),
    (
        "micro",
        "IC3's microbenchmark: pieces of four updates, each on a table of its own; scope sets the contention",
    ),
    (
        "articles",
        "H-Store's Articles: a news site whose comments are shown and added; --keys sets the contention",
    ),
    ("array", "DRP's array: fifty increments each, deferred; --shared and --theta set the contention"),
    ("kmeans", "STAMP's k-means, run to its end: sums of points, deferred; few centres make it contended"),
    ("intruder", "STAMP's intruder, run to its end: packets from a queue, put together to flows"),
    ("genome", "STAMP's genome, run to its end: segments of a gene in a set, then linked"),
    (
        "labyrinth",
        "STAMP's labyrinth, run to its end: ways through a grid, found in copies and laid if they are free",
    ),
    ("bayes", "STAMP's bayes, run to its end: the structure of a network, learned by few long transactions"),
    ("vacation", "STAMP's travel agency: reservations, deferred; --contention low, high or hot"),
];

/// Arguments of `heddle bench`.
#[derive(Args, Debug)]
pub struct BenchArguments {
    /// List the workloads and protocols
    #[arg(long)]
    pub list: bool,
    /// Which workload.
    #[command(subcommand)]
    pub workload: Option<WorkloadArguments>,
}

/// The workload with its arguments.
#[derive(Subcommand, Debug)]
pub enum WorkloadArguments {
    /// TPC-C: order entry in warehouses
    #[command(after_help = TPCC_EXAMPLES)]
    Tpcc(Benchmark<TpccArguments>),
    /// How fast a log is replayed: TPC-C with `--durability epoch --recover`
    #[command(after_help = RECOVERY_EXAMPLES)]
    Recovery(Benchmark<TpccArguments>),
    /// TPC-E: the read-write transactions of a brokerage house
    #[command(after_help = TPCE_EXAMPLES)]
    Tpce(Benchmark<TpceArguments>),
    /// YCSB: reads and writes of records drawn from a zipfian distribution
    #[command(after_help = YCSB_EXAMPLES)]
    Ycsb(Benchmark<YcsbArguments>),
    /// IC3's microbenchmark: pieces of four updates, each on a table of its own
    #[command(after_help = MICRO_EXAMPLES)]
    Micro(Benchmark<MicroArguments>),
    /// H-Store's Articles: a news site whose comments are shown and added
    #[command(after_help = ARTICLES_EXAMPLES)]
    Articles(Benchmark<ArticlesArguments>),
    /// DRP's array: transactions that increment fifty elements each
    #[command(after_help = ARRAY_EXAMPLES)]
    Array(Benchmark<ArrayArguments>),
    /// STAMP's k-means: run to its end, in phases between which all threads meet
    #[command(after_help = KMEANS_EXAMPLES)]
    Kmeans(Benchmark<KmeansArguments>),
    /// STAMP's intruder: run to its end; packets from a queue are put together to flows
    #[command(after_help = INTRUDER_EXAMPLES)]
    Intruder(Benchmark<IntruderArguments>),
    /// STAMP's genome: run to its end; segments of a gene are put into a set, and then linked
    #[command(after_help = GENOME_EXAMPLES)]
    Genome(Benchmark<GenomeArguments>),
    /// STAMP's labyrinth: run to its end; pairs of points in a grid are connected
    #[command(after_help = LABYRINTH_EXAMPLES)]
    Labyrinth(Benchmark<LabyrinthArguments>),
    /// STAMP's bayes: run to its end; the structure of a network is learned
    #[command(after_help = BAYES_EXAMPLES)]
    Bayes(Benchmark<BayesArguments>),
    /// STAMP's vacation: a travel agency
    #[command(after_help = VACATION_EXAMPLES)]
    Vacation(Benchmark<VacationArguments>),
    /// What readers on snapshots cost a writer
    #[command(after_help = super::snapshots::arguments::EXAMPLES)]
    Snapshots(SnapshotsArguments),
}

const TPCC_EXAMPLES: &str = "\
Examples:
  heddle bench tpcc --quick
  heddle bench tpcc --protocol silo,tictoc --threads 1,2 --warehouses 1 --json out.json --html out.html
  heddle bench tpcc --protocol all --mix new-order --remote-items 10
  heddle bench tpcc --protocol ic3 --threads 2 --crew 4   # waits suspend a transaction, and another runs
  heddle bench tpcc --threads 2 --read-only snapshot   # Order-Status and Stock-Level on snapshots
  heddle bench tpcc --threads 2 --durability none,epoch,sync --dir /var/tmp
  heddle bench tpcc --mix np --threads 2 --protocol silo,dgcc --queue 100   # submitted calls, 100 of each client in flight
  heddle bench tpcc --threads 2 --protocol silo,dgcc --rate 20000   # 20,000 calls a second arrive, kept up with or not";

const RECOVERY_EXAMPLES: &str = "\
Examples:
  heddle bench recovery --quick
  heddle bench recovery --threads 2 --seconds 10 --dir /var/tmp --json recovery.json
  heddle bench recovery --durability sync --lz4 --log-files 2

The workload runs with a log, the database is closed and opened again; the table tells how many times
faster the log was replayed than it had been written. All checks are made on what was recovered, too.";

const TPCE_EXAMPLES: &str = "\
Examples:
  heddle bench tpce --quick
  heddle bench tpce --security-range 1 --threads 1,2 --protocol all
  heddle bench tpce --customers 1000 --mix 50/50 --limit-orders 100";

const YCSB_EXAMPLES: &str = "\
Examples:
  heddle bench ycsb --quick
  heddle bench ycsb --theta 0.9 --reads 50 --ops 16 --records 1000000 --protocol all --threads 1,2
  heddle bench ycsb --preset b --protocol tictoc --json -
  heddle bench ycsb --preset b --threads 2 --read-only snapshot
  heddle bench ycsb --theta 0.8 --threads 2 --protocol silo,dgcc --queue 100
  heddle bench ycsb --threads 2 --protocol silo,dgcc --rate 50000 --arrivals fixed --clients 1";

const MICRO_EXAMPLES: &str = "\
Examples:
  heddle bench micro --quick
  heddle bench micro --scope 10 --threads 1,2 --protocol all
  heddle bench micro --pieces 64 --rows 10000 --user-aborts 5
  heddle bench micro --reversed --reads 50 --read-place before";

const ARTICLES_EXAMPLES: &str = "\
Examples:
  heddle bench articles --quick
  heddle bench articles --keys zipf --theta 0.9 --comment-cap 1000000 --threads 1,2 --protocol silo,ic3
  heddle bench articles --keys powerlaw --protocol all   # as in H-Store
  heddle bench articles --protocol chopping-occ --read-only snapshot --readers apart   # AddComment in two pieces
  heddle bench articles --protocol chopping-occ --read-only snapshot --readers apart --order as-written   # in one";

const ARRAY_EXAMPLES: &str = "\
Examples:
  heddle bench array --quick --protocol drp,silo
  heddle bench array --shared --theta 0.9 --protocol all --threads 1,2
  heddle bench array --elements 1000000 --eager";

const KMEANS_EXAMPLES: &str = "\
Examples:
  heddle bench kmeans --quick --protocol drp,silo --threads 1,2
  heddle bench kmeans --contention low --points 262144   # as in DRP

A run ends when the program does: --seconds, --warmup, --pool, --crew and logs are not for it. The column of
transactions a second counts all of the program's transactions over the time that it took.";

const INTRUDER_EXAMPLES: &str = "\
Examples:
  heddle bench intruder --quick --protocol silo,drp --threads 1,2
  heddle bench intruder -a 10 -l 128 -n 262144   # as in DRP

A run ends when the program does, as with kmeans.";

const GENOME_EXAMPLES: &str = "\
Examples:
  heddle bench genome --quick --protocol silo,drp --threads 1,2
  heddle bench genome -g 16384 --segment 64 -n 16777216   # as in DRP

A run ends when the program does, as with kmeans.";

const LABYRINTH_EXAMPLES: &str = "\
Examples:
  heddle bench labyrinth --quick
  heddle bench labyrinth --size 64x64x3 --pairs 256 --threads 1,2 --protocol drp,tl2,silo";

const BAYES_EXAMPLES: &str = "\
Examples:
  heddle bench bayes --quick
  heddle bench bayes --records 4096 --parents 10 --parent-share 40 --learned 8 --threads 1,2 --protocol drp,tl2";

const VACATION_EXAMPLES: &str = "\
Examples:
  heddle bench vacation --quick --protocol drp,silo
  heddle bench vacation --contention hot --protocol all --threads 1,2
  heddle bench vacation --contention high --relations 1048576   # as in DRP";

/// A workload, and how it is run.
#[derive(Args, Clone, Debug)]
pub struct Benchmark<W: Args> {
    /// What all workloads share.
    #[command(flatten)]
    pub common: Common,
    /// The workload.
    #[command(flatten)]
    pub workload: W,
}

impl<A: ApplicationArguments> Benchmark<A> {
    /// The application.
    pub fn application(&self) -> Result<A::Application, Failure> {
        self.workload.application().map_err(|error| Failure::usage(chain(&error)))
    }
}

impl<W: OfWorkload> Benchmark<W> {
    /// The workload.
    pub fn workload(&self) -> Result<W::Workload, Failure> {
        self.workload.workload().map_err(|error| Failure::usage(chain(&error)))
    }
}

/// Arguments that all workloads share.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Protocols, by commas; `all` runs every one
    #[arg(long, short, value_name = "NAME,..", value_delimiter = ',', default_value = "silo,tictoc")]
    pub protocol: Vec<String>,
    /// Numbers of threads that execute transactions, by commas
    #[arg(long, short, value_name = "N,..", value_delimiter = ',', default_value = "1", value_parser = threads)]
    pub threads: Vec<usize>,
    /// Sessions on each thread. With several, each goes on where another waits for a transaction; with one, a wait spins
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub crew: u16,
    /// Have clients submit calls, and keep so many of each in flight; as many threads of the database as --threads says execute
    /// them. Latency counts from the submission. With --rate, the most that each client has in flight [default then: 10000]
    #[arg(long, value_name = "N", value_parser = queue)]
    pub queue: Option<usize>,
    /// Have so many calls a second arrive at the clients, whatever becomes of those before: an open loop. Latency counts from the
    /// arrival, also where a call cannot be submitted at once
    #[arg(long, value_name = "CALLS", value_parser = rate)]
    pub rate: Option<f64>,
    /// The gaps between arrivals with --rate: poisson, drawn from the seed, or fixed [default: poisson]
    #[arg(long, value_name = "GAPS")]
    pub arrivals: Option<Spacing>,
    /// Threads that submit calls, with --queue or --rate [default: as many as execute them]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub clients: Option<usize>,
    /// Length of the measured window of a run [default: 5]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Length of the warm-up before it
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds_or_none)]
    pub warmup: f64,
    /// Runs of each configuration, on a fresh database each [default: 3]
    #[arg(long, value_name = "N", value_parser = runs)]
    pub runs: Option<usize>,
    /// A first try: 1 run of 1 second
    #[arg(long)]
    pub quick: bool,
    /// Seed of the data and the inputs
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Inputs drawn ahead by each worker and used in turn; 0 draws each in the window
    #[arg(long, value_name = "N", default_value = "20000", value_parser = pool)]
    pub pool: usize,
    /// How transactions that only read are run: serializable, among the writers, or on a snapshot of a
    /// recent moment, which never conflicts
    #[arg(long, value_name = "WAY", default_value_t)]
    pub read_only: ReadOnly,
    /// The isolation level: serializable, snapshot, or repeatable-read, where the protocol offers it
    #[arg(long, value_name = "LEVEL", default_value_t)]
    pub isolation: Isolation,
    /// When commits count as done, by commas: none (no log), epoch (acknowledged in memory, durable some
    /// epochs later), sync (on the disk)
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', default_value = "none", value_parser = durability)]
    pub durability: Vec<Durability>,
    /// Where the log is written, in a folder of its own for each run, which is removed after it
    /// [default: the system's folder for temporary files]
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// Files that the log is written to at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub log_files: u8,
    /// Compress the log
    #[arg(long)]
    pub lz4: bool,
    /// What the log says of a commit: values, the rows that it wrote; or commands, that a procedure was called, under dgcc,
    /// dgcc-levels and dataflow. TPC-C
    #[arg(long, value_name = "KIND", default_value = "values", value_parser = log_kind)]
    pub log: LogKind,
    /// Take a checkpoint of what was loaded and open the database again, so that `--recover` replays what the workers did, and
    /// compares the times
    #[arg(long)]
    pub checkpoint: bool,
    /// Close the database after each run with a log, open it again, and check it once more
    #[arg(long)]
    pub recover: bool,
    /// Threads that load a directory [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub recovery_threads: Option<usize>,
    /// Do not run `unprotected` on one thread as well, to which the ratios refer
    #[arg(long)]
    pub no_baseline: bool,
    /// Write the report as JSON; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

fn threads(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err("give whole numbers from 1, such as 1,2,4".into()),
    }
}

/// Calls that a client has in flight in an open loop, unless it is told otherwise: more than a database can have use of, and not
/// so many that they fill the memory.
const IN_FLIGHT: usize = 10_000;

fn queue(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=100_000) => Ok(count),
        _ => Err("give a whole number from 1 to 100000".into()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (1.0..=1e8).contains(&rate) => Ok(rate),
        _ => Err("give calls a second from 1 to 100000000, such as 20000".into()),
    }
}

fn durability(text: &str) -> Result<Durability, String> {
    Ok(match text.trim() {
        "none" => Durability::None,
        "epoch" => Durability::Epoch,
        "sync" => Durability::Sync,
        _ => return Err("give none, epoch or sync, or several by commas".into()),
    })
}

fn log_kind(text: &str) -> Result<LogKind, String> {
    let all = [LogKind::Values, LogKind::Commands];
    all.into_iter().find(|kind| kind.name() == text.trim()).ok_or_else(|| "give values or commands".into())
}

fn seconds_or_none(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.0..=86_400.0).contains(&value) => Ok(value),
        _ => Err("give seconds from 0 to 86400, such as 1 or 0.5".into()),
    }
}

fn runs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1000) => Ok(count),
        _ => Err("give a whole number from 1 to 1000".into()),
    }
}

fn pool(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 0..=10_000_000) => Ok(count),
        _ => Err("give a whole number from 0 to 10000000".into()),
    }
}

/// A protocol at a number of threads, with a log or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The protocol.
    pub kind: Kind,
    /// How many workers.
    pub threads: usize,
    /// When commits count as done; `None` is without a log.
    pub durability: Durability,
}

/// What is to be run, in which order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `unprotected` on one thread, if it must be run besides what was asked for.
    pub baseline: Option<Configuration>,
    /// What was asked for.
    pub asked: Vec<Configuration>,
    /// Runs of each.
    pub runs: usize,
    /// How each is run.
    pub settings: Settings,
    /// Where the report goes.
    pub outputs: Outputs,
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl Plan {
    /// The baseline, if any, then what was asked for.
    pub fn configurations(&self) -> impl Iterator<Item = Configuration> {
        self.baseline.into_iter().chain(self.asked.iter().copied())
    }
}

impl Common {
    /// The same for `heddle bench recovery`: with a log, which is then replayed.
    pub fn recovery(&self) -> Self {
        let mut common = Self { recover: true, no_baseline: true, ..self.clone() };
        if common.durability == [Durability::None] {
            common.durability = vec![Durability::Epoch];
        }
        common
    }

    /// What begins the transactions.
    fn driver(&self) -> Result<Driver, Failure> {
        let Self { queue, rate, arrivals, clients, crew, .. } = *self;
        let refusal = match () {
            () if rate.is_none() && arrivals.is_some() => "--arrivals is for --rate: give both",
            () if queue.is_none() && rate.is_none() && clients.is_some() => {
                "--clients is for --queue or --rate: give one of these"
            }
            () if queue.is_none() && rate.is_none() => return Ok(Driver::Closed),
            () if crew > 1 => "the executors of submitted calls have a session each: leave out --crew",
            () => {
                let arrivals = rate.map(|rate| Arrivals { rate, spacing: arrivals.unwrap_or_default() });
                let queue = queue.unwrap_or(IN_FLIGHT);
                return Ok(Driver::Submitted(Submission { clients, queue, arrivals }));
            }
        };
        Err(Failure::usage(refusal))
    }

    /// Refuses what is said of a log that is not written or not read.
    fn check_log(&self) -> Result<(), Failure> {
        let none = self.durability.iter().all(|durability| *durability == Durability::None);
        let of_log = [
            ("--log commands", self.log != LogKind::Values),
            ("--dir", self.dir.is_some()),
            ("--log-files", self.log_files != 1),
            ("--lz4", self.lz4),
            ("--checkpoint", self.checkpoint),
            ("--recover", self.recover),
            ("--recovery-threads", self.recovery_threads.is_some()),
        ];
        if let Some((flag, _)) = of_log.into_iter().find(|(_, given)| none && *given) {
            return Err(Failure::usage(format!(
                "{flag} is for runs with a log: give --durability epoch or sync, too"
            )));
        }
        if self.recovery_threads.is_some() && !self.checkpoint && !self.recover {
            let refusal = "--recovery-threads is for databases that are opened again: give --recover or --checkpoint, too";
            return Err(Failure::usage(refusal));
        }
        Ok(())
    }

    /// The plan, or why there can be none.
    pub fn plan(&self) -> Result<Plan, Failure> {
        let driver = self.driver()?;
        self.check_log()?;
        let (kinds, all) = protocols(&self.protocol, Kind::ALL)?;
        let mut counts = self.threads.clone();
        counts.sort_unstable();
        counts.dedup();
        let mut durabilities: Vec<Durability> = Vec::new();
        for durability in &self.durability {
            if !durabilities.contains(durability) {
                durabilities.push(*durability);
            }
        }
        let mut notes = Vec::new();
        let mut asked = Vec::new();
        for &kind in &kinds {
            if self.log == LogKind::Commands && !kind.execution().is_announced() {
                if !all {
                    return Err(Failure::usage(format!(
                        "{kind} logs what was written: --log commands is for dgcc, dgcc-levels and dataflow; \
                         run it by a command of its own"
                    )));
                }
                notes.push(format!("{kind} was passed over: it logs what was written, and no commands"));
                continue;
            }
            for &threads in &counts {
                // Clients have sessions, too.
                let most =
                    (kind.sessions_max() / usize::from(self.crew)).saturating_sub(match self.clients {
                        _ if driver == Driver::Closed => 0,
                        Some(clients) => clients,
                        None => kind.sessions_max().div_ceil(2),
                    });
                if threads <= most {
                    let each = durabilities.iter();
                    asked.extend(each.map(|&durability| Configuration { kind, threads, durability }));
                } else if all {
                    let limit = at_most(most);
                    notes.push(format!("{kind} on {threads} threads was passed over: it can use {limit}"));
                } else {
                    let limit = at_most(most);
                    return Err(Failure::usage(format!(
                        "{kind} cannot run on {threads} threads: it can use {limit}; \
                         lower --threads, or run it by a command of its own"
                    )));
                }
            }
        }
        let cores = machine::cores();
        for threads in counts.iter().filter(|threads| **threads > cores.len()) {
            notes.push(format!(
                "{threads} threads are more than the {} cores, so they were not pinned",
                cores.len()
            ));
        }
        if cfg!(debug_assertions) {
            notes.push("this is a debug build; its figures are no measure of the engine".into());
        }
        let kinds: Vec<Kind> = asked.iter().map(|configuration| configuration.kind).collect();
        refuse_levels(&kinds, self.isolation, Kind::levels)?;
        let baseline = Configuration { kind: Kind::Unprotected, threads: 1, durability: Durability::None };
        let offered = baseline.kind.levels().contains(&self.isolation);
        // It has one session, which nobody can submit calls to, and another latency.
        let closed = driver == Driver::Closed;
        let needed = closed && !self.no_baseline && offered && !asked.contains(&baseline);
        let (default_seconds, default_runs) = if self.quick { (1.0, 1) } else { (5.0, 3) };
        Ok(Plan {
            baseline: needed.then_some(baseline),
            asked,
            runs: self.runs.unwrap_or(default_runs),
            settings: Settings {
                driver,
                warmup: Duration::from_secs_f64(self.warmup),
                seconds: Duration::from_secs_f64(self.seconds.unwrap_or(default_seconds)),
                crew: self.crew.into(),
                pool: self.pool,
                seed: self.seed,
                read_only: self.read_only,
                isolation: self.isolation,
                log: LogSettings {
                    directory: self.dir.clone().unwrap_or_else(std::env::temp_dir),
                    files: self.log_files,
                    kind: self.log,
                    checkpoint: self.checkpoint,
                    recovery_threads: self.recovery_threads,
                    compression: if self.lz4 { Compression::Lz4 } else { Compression::None },
                    recover: self.recover,
                },
                cores,
                clock: Clock::calibrate(),
            },
            outputs: Outputs { json: self.json.clone(), html: self.html.clone() },
            notes,
        })
    }
}

fn at_most(threads: usize) -> String {
    match threads {
        0 => "no thread with so large a --crew, or with clients that submit".into(),
        1 => "1 thread only".into(),
        _ => format!("{threads} threads at most"),
    }
}
