//! The shape of the JSON file, and the medians that stand in it.
//!
//! Every figure of a [`Measurement`] is the median over its runs, taken figure by figure; the runs
//! themselves follow it. Maps are ordered, so that two files can be compared line by line.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All that one `heddle bench` found: the top level of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The command that gives such a report, without the names of output files.
    pub command: String,
    /// What it was measured on.
    pub machine: Machine,
    /// One entry for each protocol and number of threads that was asked for.
    pub results: Vec<Measurement>,
    /// `unprotected` on one thread, the measure of all ratios, unless it was not wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Measurement>,
    /// What the reader should know: configurations passed over, threads that were not pinned.
    pub notes: Vec<String>,
}

/// The machine, the system and the compiler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// How many hardware threads the process may use.
    pub cores: usize,
    /// Main memory.
    pub memory_gib: f64,
    /// The system and its kernel.
    pub os: String,
    /// True if the processor says that it is a guest's.
    pub virtual_machine: bool,
    /// The setting for transparent huge pages.
    pub huge_pages: String,
    /// The compiler that built this program.
    pub rustc: String,
    /// What it was built for.
    pub target: String,
    /// `release` or `debug`.
    pub profile: String,
    /// The version of this program.
    pub heddle: String,
}

/// One workload under one protocol at one number of threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The workload's name.
    pub workload: String,
    /// The protocol's name.
    pub protocol: String,
    /// When commits counted as done: none, epoch or sync.
    #[serde(default = "none")]
    pub durability: String,
    /// How many workers ran.
    pub threads: usize,
    /// The seed of every run.
    pub seed: u64,
    /// How long a run was measured, after how much warm-up, over how many inputs drawn ahead.
    pub settings: BTreeMap<String, f64>,
    /// The workload's parameters.
    pub parameters: BTreeMap<String, String>,
    /// Committed transactions in a second.
    pub throughput_tps: f64,
    /// The lowest and the highest throughput of a run.
    pub throughput_range_tps: [f64; 2],
    /// Committed transactions in a second by kind.
    pub kinds_tps: BTreeMap<String, f64>,
    /// Throughput as a share of `unprotected` on one thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_to_unprotected: Option<f64>,
    /// Conflicts as a share of all attempts (commits, user aborts, conflicts).
    pub abort_rate: f64,
    /// The abort rate by reason; the parts sum to about `abort_rate` (each is a median).
    pub abort_rate_by_reason: BTreeMap<String, f64>,
    /// User aborts as a share of all attempts.
    pub user_abort_rate: f64,
    /// The share of the window that the workers ran on a core; less than nearly 1 means that other
    /// programs took the rest, or that there are more threads than cores.
    pub core_share: f64,
    /// Bytes of records at the end, those of old versions and of free blocks included.
    #[serde(default)]
    pub record_bytes: f64,
    /// Bytes of old versions at the end, kept for snapshots.
    #[serde(default)]
    pub version_bytes: f64,
    /// From the first start of a transaction to its commit, retries included.
    pub latency_us: Latency,
    /// What the log did, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogFigures>,
    /// What it cost and on what machine, where the cores were virtual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Simulation>,
    /// One entry for each check, over all runs.
    pub checks: Vec<CheckResult>,
    /// The runs in the order in which they were made.
    pub runs: Vec<Run>,
}

/// One run: a fresh database, loaded, warmed up, measured, checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Counts from one.
    pub run: usize,
    /// Why the run ended early, if it did; its figures are then void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long loading took.
    pub load_seconds: f64,
    /// The measured window.
    pub seconds: f64,
    /// Transactions that committed in the window.
    pub committed: u64,
    /// Transactions that decided to abort.
    pub user_aborts: u64,
    /// By how many ticks logical time grew meanwhile, where times are logical.
    #[serde(default)]
    pub ticks: u64,
    /// Attempts that conflicted, by reason.
    pub conflicts: BTreeMap<String, u64>,
    /// Commits and user aborts by kind of transaction.
    pub kinds: BTreeMap<String, Outcomes>,
    /// Committed transactions in a second.
    pub throughput_tps: f64,
    /// Conflicts as a share of all attempts.
    pub abort_rate: f64,
    /// The share of the window that the workers ran on a core.
    pub core_share: f64,
    /// The share of that time that they spent in the system, most of it to get memory for new rows.
    #[serde(default)]
    pub system_share: f64,
    /// Bytes of records at the end of the window, those of old versions and of free blocks included.
    #[serde(default)]
    pub record_bytes: u64,
    /// Bytes of old versions at the end of the window, kept for snapshots.
    #[serde(default)]
    pub version_bytes: u64,
    /// From the first start of a transaction to its commit, retries included.
    pub latency_us: Latency,
    /// What the log did, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogFigures>,
    /// The checks after this run.
    pub checks: Vec<CheckResult>,
}

/// What a log did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogFigures {
    /// From the first start of a transaction until it was durable; under `epoch` of one commit in 64.
    pub durable_latency_us: Latency,
    /// Bytes in the files for each committed transaction.
    pub bytes_per_transaction: f64,
    /// Megabytes written in a second, while the workers ran.
    pub mb_per_second: f64,
    /// How many times longer the entries are than the files.
    pub compression: f64,
    /// Rounds in a second: each is a write and a sync.
    pub rounds_per_second: f64,
    /// How long opening the directory took; 0 where it was not opened again, as for what follows.
    pub recovery_seconds: f64,
    /// Megabytes of log replayed in a second.
    pub recovery_mb_per_second: f64,
    /// Writes of records replayed in a second.
    pub recovery_writes_per_second: f64,
    /// How many times faster the log was replayed than it had been written.
    pub recovery_to_production: f64,
}

/// What a point on virtual cores cost, and on what machine. `cycles` and all that follows it are means per
/// transaction, user aborts included, over the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// Sockets of the machine.
    pub sockets: usize,
    /// Cores of a socket.
    pub cores_per_socket: usize,
    /// Times what the table has for what cores cost each other (1, but for a sweep).
    pub coherence: f64,
    /// The table of costs, as it was used.
    pub costs: BTreeMap<String, u64>,
    /// What the table was calibrated on, and how well it fits.
    pub calibration: String,
    /// Throughput in relation to that of the same protocol on one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_up: Option<f64>,
    /// Accesses to shared memory by all cores, warm-up included.
    pub steps: u64,
    /// Transactions that the means are over.
    pub transactions: u64,
    /// Cycles.
    pub cycles: f64,
    /// Conflicts.
    pub conflicts: f64,
    /// Accesses to shared memory.
    pub accesses: f64,
    /// Of them, read-modify-writes.
    pub rmws: f64,
    /// Accesses to the line of the access before.
    pub same: f64,
    /// Accesses to other lines in the own cache.
    pub hits: f64,
    /// Clean lines from shared caches.
    pub fetches: f64,
    /// Lines from memory.
    pub memory: f64,
    /// Lines that another core had written.
    pub transfers: f64,
    /// Writes to lines of which others had copies.
    pub upgrades: f64,
    /// Of fetches, transfers and upgrades, those between sockets.
    pub far: f64,
    /// Cycles of waiting for lines that were busy.
    pub queueing_cycles: f64,
    /// Cycles of spinning, yielding, sleeping and being parked.
    pub waiting_cycles: f64,
    /// Cycles of work that is no access to shared memory.
    pub work_cycles: f64,
    /// That work by kind: how often.
    pub work: BTreeMap<String, f64>,
    /// Where the cycles of attempts went: in the body, in indexes, in validation and commit, in waiting; what
    /// attempts took that did not commit is all under `abort`.
    #[serde(default)]
    pub phases: BTreeMap<String, f64>,
    /// On how many others a transaction depended, where that was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<DependencyFigures>,
}

/// On how many others a transaction depended; means over those that committed piece by piece, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DependencyFigures {
    /// How many the means are over.
    pub transactions: u64,
    /// Others whose accesses it met while they ran.
    pub direct: f64,
    /// More others, which it depended on through these.
    pub transitive: f64,
}

impl Simulation {
    /// Waiting, of either kind, as a share of the cycles.
    pub fn waiting_share(&self) -> f64 {
        if self.cycles > 0.0 { (self.queueing_cycles + self.waiting_cycles) / self.cycles } else { 0.0 }
    }
}

fn none() -> String {
    "none".into()
}

/// What became of the transactions of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcomes {
    /// How many committed.
    pub committed: u64,
    /// How many decided to abort.
    pub user_aborts: u64,
}

/// Latency of committed transactions in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// Half are faster.
    pub p50: f64,
    /// 95 % are faster.
    pub p95: f64,
    /// 99 % are faster.
    pub p99: f64,
    /// 99.9 % are faster.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

impl Latency {
    /// The percentiles with their names, from the lowest.
    pub fn percentiles(&self) -> [(&'static str, f64); 4] {
        [("p50", self.p50), ("p95", self.p95), ("p99", self.p99), ("p99.9", self.p999)]
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// What was checked.
    pub name: String,
    /// Whether it held.
    pub ok: bool,
    /// The figures that were compared.
    pub detail: String,
}

impl Report {
    /// True if any check of any run failed, the baseline's included.
    pub fn failed(&self) -> bool {
        self.all().any(Measurement::failed)
    }

    /// The results and the baseline.
    pub fn all(&self) -> impl Iterator<Item = &Measurement> {
        self.results.iter().chain(&self.baseline)
    }

    /// Sets every result's throughput in relation to `unprotected` on one thread, where that ran.
    pub fn fill_ratios(&mut self) {
        let tps = |result: &Measurement| {
            (result.label() == "unprotected" && result.threads == 1 && result.throughput_tps > 0.0)
                .then_some(result.throughput_tps)
        };
        let Some(unprotected) = self.all().find_map(tps) else { return };
        for result in self.results.iter_mut().chain(&mut self.baseline) {
            result.ratio_to_unprotected = Some(result.throughput_tps / unprotected);
        }
    }

    /// Whether the cores were virtual.
    pub fn simulated(&self) -> bool {
        self.all().any(|result| result.simulation.is_some())
    }

    /// What `threads` are.
    pub fn unit(&self) -> &'static str {
        if self.simulated() { "cores" } else { "threads" }
    }

    /// For each pair of protocols, whether their order at the largest number of cores depends on what cores
    /// cost each other: a line each, if that was varied.
    pub fn orders(&self) -> Vec<String> {
        let mut factors: Vec<f64> = self.results.iter().map(Measurement::coherence).collect();
        factors.sort_by(f64::total_cmp);
        factors.dedup();
        let mut protocols: Vec<&str> = Vec::new();
        for result in &self.results {
            if !protocols.contains(&result.protocol.as_str()) {
                protocols.push(&result.protocol);
            }
        }
        let mut lines = Vec::new();
        if factors.len() < 2 {
            return lines;
        }
        for (at, first) in protocols.iter().enumerate() {
            for second in &protocols[at + 1..] {
                lines.extend(self.order(first, second, &factors));
            }
        }
        lines
    }

    /// The order of two protocols at the largest number of cores that both ran on.
    fn order(&self, first: &str, second: &str, factors: &[f64]) -> Option<String> {
        let throughput = |protocol: &str, cores: usize, factor: f64| {
            let same = |result: &&Measurement| {
                (result.protocol == protocol && result.threads == cores && result.coherence() == factor)
                    && result.throughput_tps > 0.0
            };
            self.results.iter().find(same).map(|result| result.throughput_tps)
        };
        let ratios_at = |cores: usize| -> Option<Vec<f64>> {
            factors
                .iter()
                .map(|&factor| Some(throughput(first, cores, factor)? / throughput(second, cores, factor)?))
                .collect()
        };
        let threads = self.threads();
        let (cores, ratios) = threads.into_iter().rev().find_map(|cores| Some((cores, ratios_at(cores)?)))?;
        let list: Vec<String> =
            ratios.iter().zip(factors).map(|(ratio, factor)| format!("{ratio:.2} with x{factor}")).collect();
        let clear = |sign: f64| ratios.iter().all(|ratio| (ratio - 1.0) * sign > ORDER_MARGIN);
        let near = ratios.iter().all(|ratio| (ratio - 1.0).abs() <= ORDER_MARGIN);
        let outcome = match () {
            () if clear(1.0) => format!("{first} is ahead whatever cores cost each other"),
            () if clear(-1.0) => format!("{second} is ahead whatever cores cost each other"),
            () if near => "no difference whatever cores cost each other".to_owned(),
            () => "depends on what cores cost each other".to_owned(),
        };
        Some(format!(
            "order of {first} and {second} on {cores} cores: {outcome}; {first} by {second} is {}",
            list.join(", ")
        ))
    }

    /// Sets every result's throughput in relation to that of the same protocol on one core, where that ran.
    pub fn fill_speed_ups(&mut self) {
        let singles: BTreeMap<String, f64> = self
            .results
            .iter()
            .filter(|result| result.threads == 1 && result.throughput_tps > 0.0)
            .map(|result| (result.label(), result.throughput_tps))
            .collect();
        for result in &mut self.results {
            let (single, throughput) = (singles.get(&result.label()).copied(), result.throughput_tps);
            if let Some(simulation) = &mut result.simulation {
                simulation.speed_up = single.map(|single| throughput / single);
            }
        }
    }

    /// The numbers of threads, rising.
    pub fn threads(&self) -> Vec<usize> {
        let mut threads: Vec<usize> = self.results.iter().map(|result| result.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// The protocols in order of appearance, with their durability.
    pub fn protocols(&self) -> Vec<String> {
        let mut protocols: Vec<String> = Vec::new();
        for result in &self.results {
            if !protocols.contains(&result.label()) {
                protocols.push(result.label());
            }
        }
        protocols
    }

    /// The reasons for which any attempt was aborted.
    pub fn reasons(&self) -> Vec<&str> {
        let mut reasons: Vec<&str> = Vec::new();
        for (reason, share) in self.all().flat_map(|result| &result.abort_rate_by_reason) {
            if *share > 0.0 && !reasons.contains(&reason.as_str()) {
                reasons.push(reason);
            }
        }
        reasons.sort_unstable();
        reasons
    }

    /// Adds a note if workers had to share their cores with other programs.
    pub fn note_stolen_time(&mut self) {
        let cores = self.machine.cores;
        let pinned = self.all().filter(|result| result.threads <= cores && result.throughput_tps > 0.0);
        let least = pinned.map(|result| result.core_share).fold(1.0, f64::min);
        if least < CORE_SHARE_GOOD {
            self.notes.push(format!(
                "other programs took up to {} of the workers' time; these figures are too low and vary",
                super::percent(1.0 - least)
            ));
        }
    }
}

/// Throughputs that differ by less are in no order.
const ORDER_MARGIN: f64 = 0.02;

/// A lower share of the cores is worth a note.
const CORE_SHARE_GOOD: f64 = 0.97;

impl Measurement {
    /// True if a check failed or a run broke off.
    pub fn failed(&self) -> bool {
        self.checks.iter().any(|check| !check.ok)
    }

    /// The protocol, with its durability where there is a log, and in a sweep of costs with what they were
    /// multiplied by: `silo`, `silo+epoch`, `silo x0.5`.
    pub fn label(&self) -> String {
        let mut label = match self.durability.as_str() {
            "none" | "" => self.protocol.clone(),
            durability => format!("{}+{durability}", self.protocol),
        };
        if self.coherence() != 1.0 {
            label += &format!(" x{}", self.coherence());
        }
        label
    }

    /// What the costs between cores were multiplied by.
    pub fn coherence(&self) -> f64 {
        self.simulation.as_ref().map_or(1.0, |simulation| simulation.coherence)
    }

    /// How far the runs lie apart, as a share of the median.
    pub fn spread(&self) -> f64 {
        let [low, high] = self.throughput_range_tps;
        if self.throughput_tps > 0.0 { (high - low) / self.throughput_tps } else { 0.0 }
    }

    /// The throughput of the kind that gives TPC-C its name for a figure, `new-order`.
    pub fn new_order_tps(&self) -> Option<f64> {
        let (_, tps) =
            self.kinds_tps.iter().find(|(kind, _)| kind.replace(['_', ' '], "-") == "new-order")?;
        Some(*tps)
    }

    /// Fills the medians and the summary of the checks in from the runs.
    pub fn summarise(&mut self) {
        let good: Vec<&Run> = self.runs.iter().filter(|run| run.error.is_none()).collect();
        let over = |figure: &dyn Fn(&Run) -> f64| median(good.iter().map(|run| figure(run)).collect());
        let share = |part: u64, run: &Run| {
            if run.attempts() == 0 { 0.0 } else { part as f64 / run.attempts() as f64 }
        };
        self.throughput_tps = over(&|run| run.throughput_tps);
        let rates = || good.iter().map(|run| run.throughput_tps);
        self.throughput_range_tps =
            [rates().reduce(f64::min).unwrap_or(0.0), rates().reduce(f64::max).unwrap_or(0.0)];
        self.abort_rate = over(&|run| run.abort_rate);
        self.core_share = over(&|run| run.core_share);
        self.record_bytes = over(&|run| run.record_bytes as f64);
        self.version_bytes = over(&|run| run.version_bytes as f64);
        self.user_abort_rate = over(&|run| share(run.user_aborts, run));
        let Some(first) = good.first() else {
            self.checks = summary(&self.runs);
            return;
        };
        self.abort_rate_by_reason = first
            .conflicts
            .keys()
            .map(|reason| {
                (reason.clone(), over(&|run| share(run.conflicts.get(reason).copied().unwrap_or(0), run)))
            })
            .collect();
        let of_kind = |kind: &String, run: &Run| {
            let committed = run.kinds.get(kind).map_or(0, |outcomes| outcomes.committed);
            if run.seconds > 0.0 { committed as f64 / run.seconds } else { 0.0 }
        };
        self.kinds_tps =
            first.kinds.keys().map(|kind| (kind.clone(), over(&|run| of_kind(kind, run)))).collect();
        let latency = |of: &dyn Fn(&Run) -> Latency| Latency {
            mean: over(&|run| of(run).mean),
            p50: over(&|run| of(run).p50),
            p95: over(&|run| of(run).p95),
            p99: over(&|run| of(run).p99),
            p999: over(&|run| of(run).p999),
            max: over(&|run| of(run).max),
        };
        self.latency_us = latency(&|run| run.latency_us);
        let log = |run: &Run| run.log.unwrap_or_default();
        self.log = first.log.map(|_| LogFigures {
            durable_latency_us: latency(&|run| log(run).durable_latency_us),
            bytes_per_transaction: over(&|run| log(run).bytes_per_transaction),
            mb_per_second: over(&|run| log(run).mb_per_second),
            compression: over(&|run| log(run).compression),
            rounds_per_second: over(&|run| log(run).rounds_per_second),
            recovery_seconds: over(&|run| log(run).recovery_seconds),
            recovery_mb_per_second: over(&|run| log(run).recovery_mb_per_second),
            recovery_writes_per_second: over(&|run| log(run).recovery_writes_per_second),
            recovery_to_production: over(&|run| log(run).recovery_to_production),
        });
        self.checks = summary(&self.runs);
    }
}

impl Run {
    /// A run that broke off.
    pub fn broken(run: usize, error: String) -> Self {
        let check = CheckResult { name: "the run completed".into(), ok: false, detail: error.clone() };
        Self { run, error: Some(error), checks: vec![check], ..Self::default() }
    }

    /// Commits, user aborts and conflicts.
    pub fn attempts(&self) -> u64 {
        self.committed + self.user_aborts + self.conflicts.values().sum::<u64>()
    }
}

/// The middle value; the mean of the two middle ones of an even number; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

/// One entry for each name of a check. It fails if it failed in any run, and tells of those runs.
fn summary(runs: &[Run]) -> Vec<CheckResult> {
    let mut summary: Vec<CheckResult> = Vec::new();
    for (run, check) in runs.iter().flat_map(|run| run.checks.iter().map(move |check| (run, check))) {
        let detail =
            if runs.len() > 1 { format!("run {}: {}", run.run, check.detail) } else { check.detail.clone() };
        match summary.iter_mut().find(|entry| entry.name == check.name) {
            None => summary.push(CheckResult { detail, ..check.clone() }),
            Some(entry) if entry.ok && check.ok => entry.detail = format!("{}; {detail}", entry.detail),
            Some(entry) if entry.ok => *entry = CheckResult { detail, ..check.clone() },
            Some(entry) if !check.ok => entry.detail = format!("{}; {detail}", entry.detail),
            Some(_) => {}
        }
    }
    summary
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with figures that can be told apart.
    pub fn sample() -> Report {
        let protocols = ["silo", "tictoc", "no-wait", "wait-die"];
        let mut results = Vec::new();
        for (at, protocol) in protocols.into_iter().enumerate() {
            for threads in [1, 2] {
                results.push(measurement(
                    protocol,
                    threads,
                    100_000.0 * (threads as f64) - 9_000.0 * at as f64,
                ));
            }
        }
        let baseline = measurement("unprotected", 1, 130_000.0);
        let mut report = Report {
            command: "heddle bench tpcc --protocol silo,tictoc,no-wait,wait-die --threads 1,2".into(),
            machine: crate::machine::describe(),
            results,
            baseline: Some(baseline),
            notes: vec!["a note with <angles> & ampersands".into()],
        };
        report.fill_ratios();
        report
    }

    /// A report as of a simulation with a sweep of costs.
    pub fn simulated() -> Report {
        let mut results = Vec::new();
        for (coherence, ahead) in [(1.0, 1.2), (0.5, 1.5), (2.0, 0.7)] {
            for (protocol, times) in [("silo", ahead), ("tictoc", 1.0)] {
                for cores in [1, 8, 64] {
                    let tps = 90_000.0 * (cores as f64).sqrt() * if cores == 1 { 1.0 } else { times };
                    let mut result = measurement(protocol, cores, tps);
                    result.settings =
                        [("seconds".to_owned(), 0.002), ("epoch_interval".to_owned(), 0.01)].into();
                    result.runs.truncate(1);
                    result.summarise();
                    result.simulation = Some(Simulation {
                        sockets: 1,
                        cores_per_socket: 1024,
                        coherence,
                        costs: [("transfer".to_owned(), 120), ("memory".to_owned(), 200)].into(),
                        calibration: "calibrated on a machine".into(),
                        transactions: 1000,
                        cycles: 20_000.0,
                        transfers: 3.25,
                        waiting_cycles: 5_000.0,
                        ..Simulation::default()
                    });
                    results.push(result);
                }
            }
        }
        let mut report = Report {
            command: "heddle sim tpcc --sweep".into(),
            machine: Machine {
                cpu: "virtual cores of 2600 MHz, 1 socket of 1024".into(),
                cores: 1024,
                memory_gib: 0.0,
                os: "simulated".into(),
                virtual_machine: true,
                huge_pages: String::new(),
                rustc: String::new(),
                target: String::new(),
                profile: String::new(),
                heddle: "0.1.0".into(),
            },
            results,
            baseline: None,
            notes: Vec::new(),
        };
        report.fill_speed_ups();
        report.notes = report.orders();
        report
    }

    fn measurement(protocol: &str, threads: usize, tps: f64) -> Measurement {
        let mut result = Measurement {
            workload: "tpcc".into(),
            protocol: protocol.into(),
            threads,
            seed: 7,
            settings: [("seconds".to_owned(), 5.0), ("warmup".to_owned(), 1.0)].into(),
            parameters: [("warehouses".to_owned(), "1".to_owned())].into(),
            runs: (1..=3).map(|number| run(number, threads, tps * (0.9 + 0.05 * number as f64))).collect(),
            ..Measurement::default()
        };
        result.summarise();
        result
    }

    fn run(number: usize, threads: usize, tps: f64) -> Run {
        let committed = (tps * 5.0) as u64;
        let conflicts: BTreeMap<String, u64> = if threads == 1 {
            [("locked".to_owned(), 0), ("read changed".to_owned(), 0)].into()
        } else {
            [("locked".to_owned(), committed / 30), ("read changed".to_owned(), committed / 9)].into()
        };
        let p50 = 1e6 * threads as f64 / tps * 0.8;
        let aborted: u64 = conflicts.values().sum();
        Run {
            run: number,
            seconds: 5.0,
            committed,
            user_aborts: committed / 200,
            abort_rate: aborted as f64 / (committed + committed / 200 + aborted) as f64,
            conflicts,
            kinds: [(
                "new-order".to_owned(),
                Outcomes { committed: committed / 2, user_aborts: committed / 200 },
            )]
            .into(),
            throughput_tps: tps,
            core_share: 1.0,
            record_bytes: 3 << 20,
            version_bytes: 5 << 10,
            latency_us: Latency {
                mean: p50,
                p50,
                p95: p50 * 2.5,
                p99: p50 * 6.0,
                p999: p50 * 40.0,
                max: 9000.0,
            },
            checks: vec![CheckResult { name: "orders add up".into(), ok: true, detail: "3 = 3".into() }],
            ..Run::default()
        }
    }

    #[test]
    fn a_sweep_tells_what_depends_on_the_costs() {
        let report = simulated();
        assert_eq!(report.notes.len(), 1);
        let expected = "order of silo and tictoc on 64 cores: depends on what cores cost each other; \
                        silo by tictoc is 1.50 with x0.5, 1.20 with x1, 0.70 with x2";
        assert_eq!(report.notes[0], expected);
        let speed_up = |at: usize| report.results[at].simulation.as_ref().unwrap().speed_up.unwrap();
        assert_eq!(speed_up(0), 1.0);
        assert!((speed_up(2) - 9.6).abs() < 0.01, "64 cores of silo: {}", speed_up(2));
        let protocols = report.protocols();
        assert_eq!(protocols, ["silo", "tictoc", "silo x0.5", "tictoc x0.5", "silo x2", "tictoc x2"]);
        let mut one = simulated();
        one.results.retain(|result| result.coherence() == 1.0);
        assert!(one.orders().is_empty());
        one.results.extend(simulated().results);
        one.results
            .iter_mut()
            .filter(|result| result.protocol == "silo")
            .for_each(|result| result.throughput_tps = 1e9);
        assert!(one.orders()[0].contains("silo is ahead whatever"), "{:?}", one.orders());
    }

    #[test]
    fn medians_take_the_middle_run() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 2.5);
        let result = measurement("silo", 1, 100_000.0);
        assert!((result.throughput_tps - 100_000.0).abs() < 1e-6);
        assert!((result.spread() - 0.1).abs() < 1e-6);
        assert_eq!(result.new_order_tps(), Some(50_000.0));
    }

    #[test]
    fn time_that_others_took_is_noted() {
        let mut report = sample();
        let notes = report.notes.len();
        report.note_stolen_time();
        assert_eq!(report.notes.len(), notes);
        report.results[1].core_share = 0.6;
        report.note_stolen_time();
        assert!(report.notes[notes].contains("other programs took up to 40.0 %"), "{:?}", report.notes);
    }

    #[test]
    fn a_check_that_failed_once_fails_and_names_the_run() {
        let mut result = measurement("silo", 1, 100_000.0);
        result.runs[1].checks[0] =
            CheckResult { name: "orders add up".into(), ok: false, detail: "3 != 4".into() };
        result.summarise();
        assert!(result.failed());
        assert_eq!(result.checks.len(), 1);
        assert_eq!(result.checks[0].detail, "run 2: 3 != 4");
    }

    #[test]
    fn a_broken_run_fails_and_leaves_the_medians_alone() {
        let mut result = measurement("silo", 1, 100_000.0);
        result.runs.push(Run::broken(4, "no more sessions".into()));
        result.summarise();
        assert!(result.failed() && (result.throughput_tps - 100_000.0).abs() < 1e-6);
        result.runs = vec![Run::broken(1, "no more sessions".into())];
        result.summarise();
        assert!(result.failed() && result.throughput_tps == 0.0);
    }

    #[test]
    fn the_file_has_its_fields_and_can_be_read_back() {
        let report = sample();
        let text = serde_json::to_string_pretty(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(value["machine"].is_object());
        let result = &value["results"][0];
        for field in ["workload", "protocol", "threads", "parameters", "runs", "throughput_tps", "abort_rate"]
        {
            assert!(!result[field].is_null(), "{field}");
        }
        assert!(result["latency_us"]["p999"].is_number());
        for field in ["name", "ok", "detail"] {
            assert!(!result["checks"][0][field].is_null(), "{field}");
        }
    }
}
