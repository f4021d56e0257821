//! The figures of one configuration: the medians over its runs.

use super::driver::{BatchFigures, CallFigures, Driver, OpenFigures};
use super::run::{CheckResult, Latency, LogFigures, Run};
use super::simulation::Simulation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// How many threads executed transactions: workers, or executors of the database.
    pub threads: usize,
    /// What began the transactions, on threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// From when on latency counts, where the driver is told: the start of a transaction, the submission of a call, or its
    /// intended arrival.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub latency_from: String,
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
    /// programs took the rest, or that there are more threads than cores. Clients sleep, too.
    pub core_share: f64,
    /// Bytes of records at the end, those of old versions and of free blocks included.
    #[serde(default)]
    pub record_bytes: f64,
    /// Bytes of old versions at the end, kept for snapshots.
    #[serde(default)]
    pub version_bytes: f64,
    /// From the first start of a transaction to its commit, or from what `latency_from` says, retries included.
    pub latency_us: Latency,
    /// What came of submitted calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallFigures>,
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

fn none() -> String {
    "none".into()
}

impl Measurement {
    /// True if a check failed or a run broke off.
    pub fn failed(&self) -> bool {
        self.checks.iter().any(|check| !check.ok)
    }

    /// Whether clients submitted calls, which executors executed.
    pub fn is_submitted(&self) -> bool {
        self.driver.as_ref().is_some_and(|driver| driver.clients() > 0)
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
        let open = |run: &Run| run.calls.and_then(|calls| calls.open).unwrap_or_default();
        let batches = |run: &Run| run.calls.and_then(|calls| calls.batches).unwrap_or_default();
        self.calls = first.calls.map(|calls| CallFigures {
            open: calls.open.map(|_| OpenFigures {
                arrived: over(&|run| open(run).arrived),
                arrived_per_second: over(&|run| open(run).arrived_per_second),
                ended_per_second: over(&|run| open(run).ended_per_second),
                waiting_begin: over(&|run| open(run).waiting_begin),
                waiting_end: over(&|run| open(run).waiting_end),
                late_us: latency(&|run| open(run).late_us),
            }),
            batches: calls.batches.map(|_| BatchFigures {
                calls: over(&|run| batches(run).calls),
                in_pieces: over(&|run| batches(run).in_pieces),
                edges_per_call: over(&|run| batches(run).edges_per_call),
                waited: over(&|run| batches(run).waited),
                depth: over(&|run| batches(run).depth),
                telling_us: over(&|run| batches(run).telling_us),
                linking_us: over(&|run| batches(run).linking_us),
                executing_us: over(&|run| batches(run).executing_us),
            }),
        });
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
