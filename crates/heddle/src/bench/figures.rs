//! What workers counted as the figures of a run, and the check of the counts against each other.

use super::settings::Settings;
use super::worker::{Tally, latency};
use crate::report::model::{CheckResult, Latency, LogFigures, Outcomes, Run};
use heddledb::{Conflict, Durability, LogMetrics, LogicalTime, Stats};
use heddledb_workloads::Workload;
use std::time::Duration;

/// What was counted in a run.
pub struct Counts<L> {
    /// By the workers.
    pub tallies: Vec<Tally<L>>,
}

impl<L: Default> Counts<L> {
    /// The figures of run `number`.
    pub fn figures<W: Workload<Ledger = L>>(&self, workload: &W, settings: &Settings, number: usize) -> Run {
        let tallies = &self.tallies;
        let begin = tallies.iter().map(|tally| tally.begin).min();
        let end = tallies.iter().map(|tally| tally.end).max();
        let seconds = begin.zip(end).map_or(0.0, |(begin, end)| end.duration_since(begin).as_secs_f64());
        let mut run = Run { run: number, seconds, ..Run::default() };
        for (at, kind) in workload.kinds().iter().enumerate() {
            let sum = |which: usize| tallies.iter().map(|tally| tally.kinds[at][which]).sum();
            run.kinds.insert((*kind).to_owned(), Outcomes { committed: sum(0), user_aborts: sum(1) });
        }
        run.committed = run.kinds.values().map(|outcomes| outcomes.committed).sum();
        run.user_aborts = run.kinds.values().map(|outcomes| outcomes.user_aborts).sum();
        let mut sessions = Stats::default();
        tallies.iter().for_each(|tally| sessions += tally.stats);
        for (at, conflict) in Conflict::ALL.into_iter().enumerate() {
            run.conflicts.insert(conflict.name().to_owned(), sessions.conflicts[at]);
        }
        run.throughput_tps = if seconds > 0.0 { run.committed as f64 / seconds } else { 0.0 };
        run.abort_rate = sessions.conflicts_total() as f64 / run.attempts().max(1) as f64;
        let mut time = LogicalTime::default();
        tallies.iter().for_each(|tally| time.merge(&tally.time));
        run.ticks = time.ticks();
        run.latency_us = latency(tallies.iter().map(|tally| &tally.latency), &settings.clock);
        let windows: Duration = tallies.iter().map(|tally| tally.end - tally.begin).sum();
        let on_core: Duration = tallies.iter().map(|tally| tally.on_core).sum();
        let in_system: Duration = tallies.iter().map(|tally| tally.in_system).sum();
        run.system_share = (in_system.as_secs_f64() / on_core.as_secs_f64().max(1e-9)).min(1.0);
        run.core_share = (on_core.as_secs_f64() / windows.as_secs_f64().max(1e-9)).min(1.0);
        if !workload.is_beside() {
            run.checks.push(self.check(&run, sessions));
        }
        run
    }

    /// The check of the workers' counts against those of sessions.
    fn check(&self, run: &Run, sessions: Stats) -> CheckResult {
        let looks: u64 = self.tallies.iter().map(|tally| tally.looks).sum();
        CheckResult {
            name: "the sessions counted the commits that the workers saw".into(),
            ok: sessions.commits + looks == run.committed,
            detail: format!(
                "{} by the sessions, {looks} on snapshots, {} by the workers",
                sessions.commits, run.committed
            ),
        }
    }

    /// What the log did from the start of the workers to their end. Warm-up included, so per second of
    /// that.
    pub fn log_figures(
        &self,
        run: &Run,
        settings: &Settings,
        durability: Durability,
        [before, after]: [LogMetrics; 2],
    ) -> LogFigures {
        let seconds = settings.warmup.as_secs_f64() + run.seconds;
        let commits: u64 = self.tallies.iter().map(|tally| tally.commits_ever).sum();
        let bytes = (after.bytes - before.bytes) as f64;
        LogFigures {
            bytes_per_transaction: bytes / commits.max(1) as f64,
            mb_per_second: bytes / seconds / 1e6,
            compression: (after.entry_bytes - before.entry_bytes) as f64 / bytes.max(1.0),
            rounds_per_second: (after.rounds - before.rounds) as f64 / seconds,
            durable_latency_us: match durability {
                Durability::Sync => run.latency_us,
                _ => self.durable_latency(settings),
            },
            ..LogFigures::default()
        }
    }

    fn durable_latency(&self, settings: &Settings) -> Latency {
        latency(self.tallies.iter().map(|tally| &tally.durable), &settings.clock)
    }
}
