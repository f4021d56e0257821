//! What workers counted as the figures of a run, and the check of the counts against each other.

use super::settings::Settings;
use super::worker::{Flow, Tally, latency};
use crate::report::model::{
    BatchFigures, CallFigures, CheckResult, Latency, LogFigures, OpenFigures, Outcomes, Run,
};
use heddledb::{Conflict, Durability, GraphMetrics, LogMetrics, LogicalTime, Metrics, Stats};
use heddledb_workloads::Workload;
use std::time::Duration;

/// What was counted in a run.
pub struct Counts<L> {
    /// By the workers.
    pub tallies: Vec<Tally<L>>,
    /// By the database, where its executors execute what the workers submit.
    pub submitted: Option<Submitted>,
}

/// What a database counted of all its sessions.
#[derive(Clone, Copy)]
pub struct Submitted {
    /// From the first client's start to the last one's end.
    pub commits_ever: u64,
    /// In the window.
    pub stats: Stats,
    /// The batches of the window, where there are any.
    pub graph: Option<GraphMetrics>,
}

impl Submitted {
    /// From what the database told of itself before the clients began, when the window began and ended, and after all.
    pub fn between([start, begin, end, after]: &[Metrics; 4]) -> Self {
        let graph = begin.graph.zip(end.graph).map(|(begin, mut end)| {
            end.batches -= begin.batches;
            end.calls -= begin.calls;
            end.edges -= begin.edges;
            end.in_pieces -= begin.in_pieces;
            end.waited -= begin.waited;
            end.depth -= begin.depth;
            end.telling -= begin.telling;
            end.linking -= begin.linking;
            end.executing -= begin.executing;
            end
        });
        Self {
            commits_ever: after.stats.commits - start.stats.commits,
            stats: end.stats - begin.stats,
            graph,
        }
    }
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
        let counted = self.submitted.map_or(sessions, |submitted| submitted.stats);
        for (at, conflict) in Conflict::ALL.into_iter().enumerate() {
            run.conflicts.insert(conflict.name().to_owned(), counted.conflicts[at]);
        }
        run.throughput_tps = if seconds > 0.0 { run.committed as f64 / seconds } else { 0.0 };
        run.abort_rate = counted.conflicts_total() as f64 / run.attempts().max(1) as f64;
        let mut time = LogicalTime::default();
        tallies.iter().for_each(|tally| time.merge(&tally.time));
        run.ticks = time.ticks();
        run.latency_us = latency(tallies.iter().map(|tally| &tally.latency), &settings.clock);
        let windows: Duration = tallies.iter().map(|tally| tally.end - tally.begin).sum();
        let on_core: Duration = tallies.iter().map(|tally| tally.on_core).sum();
        let in_system: Duration = tallies.iter().map(|tally| tally.in_system).sum();
        run.system_share = (in_system.as_secs_f64() / on_core.as_secs_f64().max(1e-9)).min(1.0);
        run.core_share = (on_core.as_secs_f64() / windows.as_secs_f64().max(1e-9)).min(1.0);
        run.calls = self.submitted.map(|submitted| CallFigures {
            open: self.open(settings, &run),
            batches: submitted.graph.filter(|graph| graph.batches > 0).map(batches),
        });
        if !workload.is_beside() {
            run.checks.push(self.check(&run, sessions));
        }
        run
    }

    /// How calls arrived, in an open loop.
    fn open(&self, settings: &Settings, run: &Run) -> Option<OpenFigures> {
        let flows: Vec<&Flow> =
            self.tallies.iter().map(|tally| tally.flow.as_ref()).collect::<Option<_>>()?;
        let sum = |of: fn(&Flow) -> u64| flows.iter().map(|flow| of(flow)).sum::<u64>() as f64;
        let each_second = |count: f64| if run.seconds > 0.0 { count / run.seconds } else { 0.0 };
        let arrived = sum(|flow| flow.arrived);
        Some(OpenFigures {
            arrived,
            arrived_per_second: each_second(arrived),
            ended_per_second: each_second((run.committed + run.user_aborts) as f64),
            waiting_begin: sum(|flow| flow.waiting_begin),
            waiting_end: sum(|flow| flow.waiting_end),
            late_us: latency(flows.iter().map(|flow| &flow.late), &settings.clock),
        })
    }

    /// The check of the workers' counts against those of sessions or of the database.
    fn check(&self, run: &Run, sessions: Stats) -> CheckResult {
        let sum = |of: fn(&Tally<L>) -> u64| self.tallies.iter().map(of).sum::<u64>();
        let Some(submitted) = self.submitted else {
            let (looks, ahead) = (sum(|tally| tally.looks), sum(|tally| tally.looked_ahead));
            return CheckResult {
                name: "the sessions counted the commits that the workers saw".into(),
                ok: sessions.commits + looks == run.committed + ahead,
                detail: format!(
                    "{} by the sessions, {looks} on snapshots, {} by the workers, {ahead} that looked ahead for them",
                    sessions.commits, run.committed
                ),
            };
        };
        // Not in the window, which begins and ends for each client when it hears of that.
        let (commits, looks) = (sum(|tally| tally.commits_ever), sum(|tally| tally.looks_ever));
        CheckResult {
            name: "the database counted the commits that the clients heard of".into(),
            ok: submitted.commits_ever + looks == commits,
            detail: format!(
                "{} by the database, {looks} on snapshots, {commits} by the clients, warm-up included",
                submitted.commits_ever
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

fn batches(graph: GraphMetrics) -> BatchFigures {
    let (calls, batches) = (graph.calls.max(1) as f64, graph.batches.max(1) as f64);
    let each_us = |time: Duration| time.as_secs_f64() * 1e6 / batches;
    BatchFigures {
        calls: graph.calls as f64 / batches,
        in_pieces: graph.in_pieces as f64 / calls,
        edges_per_call: graph.edges as f64 / calls,
        waited: graph.waited as f64 / calls,
        depth: graph.depth as f64 / batches,
        telling_us: each_us(graph.telling),
        linking_us: each_us(graph.linking),
        executing_us: each_us(graph.executing),
    }
}
