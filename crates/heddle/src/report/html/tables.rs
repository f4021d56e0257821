//! The tables of a report: figures, aborts, checks, runs, set-up.

use super::super::model::{CheckResult, Measurement, Report};
use super::frame::{capital, table, verdict};
use crate::report::table::submitted;
use crate::report::{microseconds, percent, rate, regions};
use std::fmt::Write;

/// The medians of all results.
pub fn figures(report: &Report) -> String {
    let mut titles = vec!["protocol", report.unit(), "tx/s"];
    let new_order = report.all().any(|result| result.new_order_tps().is_some());
    if new_order {
        titles.push("new-order/s");
    }
    titles.extend(["spread", "ratio", "aborts", "mean", "p50", "p95", "p99", "p99.9", "checks"]);
    let rows = report.all().map(|result| {
        let mut row = vec![result.label(), result.threads.to_string(), rate(result.throughput_tps)];
        if new_order {
            row.push(result.new_order_tps().map_or("-".into(), rate));
        }
        row.push(percent(result.spread()));
        row.push(result.ratio_to_unprotected.map_or("-".into(), |ratio| format!("{ratio:.2}")));
        row.push(percent(result.abort_rate));
        row.push(microseconds(result.latency_us.mean));
        row.extend(result.latency_us.percentiles().into_iter().map(|(_, value)| microseconds(value)));
        row.push(verdict(!result.failed()));
        row
    });
    table(&titles, 1, rows)
}

/// What came of submitted calls.
pub fn calls(report: &Report) -> String {
    let (titles, rows) = submitted(report);
    table(&titles, 1, rows.into_iter())
}

/// Aborts by reason.
pub fn aborts_table(report: &Report) -> String {
    let reasons = report.reasons();
    let mut titles = vec!["protocol", report.unit(), "aborts"];
    titles.extend(&reasons);
    titles.push("user aborts");
    let rows = report.all().map(|result| {
        let by_reason = |reason: &&str| result.abort_rate_by_reason.get(*reason).copied().unwrap_or(0.0);
        let mut row = vec![result.label(), result.threads.to_string(), percent(result.abort_rate)];
        row.extend(reasons.iter().map(|reason| percent(by_reason(reason))));
        row.push(percent(result.user_abort_rate));
        row
    });
    table(&titles, 1, rows)
}

/// How hardware regions ended; nothing, where there are none.
pub fn hardware(report: &Report) -> String {
    let rows = regions::rows(report);
    if rows.is_empty() { String::new() } else { table(&regions::titles(report), 2, rows.into_iter()) }
}

/// The checks that failed, and behind a fold those that held.
pub fn checks(report: &Report) -> String {
    let titles = ["protocol", report.unit(), "check", "result", "detail"];
    let rows = |ok: bool| -> Vec<Vec<String>> {
        let checks = report.all().flat_map(|result| result.checks.iter().map(move |check| (result, check)));
        let chosen = checks.filter(|(_, check)| check.ok == ok);
        let row = |(result, check): (&Measurement, &CheckResult)| {
            let threads = result.threads.to_string();
            vec![result.label(), threads, check.name.clone(), verdict(check.ok), check.detail.clone()]
        };
        chosen.map(row).collect()
    };
    let (failed, held) = (rows(false), rows(true));
    let count = report.check_count();
    let class = if count.failed > 0 { "bad" } else { "good" };
    let mut text = format!("<p class=\"{class}\">{}</p>\n", capital(&count.to_string()));
    if !failed.is_empty() {
        text += &table(&titles, 5, failed.into_iter());
    }
    let _ = writeln!(
        text,
        "<details>\n<summary>What held, each check over all runs</summary>\n{}</details>",
        table(&titles, 5, held.into_iter())
    );
    text
}

/// Every run, behind a fold.
pub fn runs(report: &Report) -> String {
    let rows = report.all().flat_map(|result| {
        result.runs.iter().map(move |run| {
            let mut row = vec![result.label(), result.threads.to_string(), run.run.to_string()];
            row.extend([format!("{:.2} s", run.load_seconds), format!("{:.2} s", run.seconds)]);
            row.extend([run.committed.to_string(), run.user_aborts.to_string()]);
            row.extend([run.conflicts.values().sum::<u64>().to_string(), rate(run.throughput_tps)]);
            row.extend([
                percent(run.core_share),
                percent(run.abort_rate),
                microseconds(run.latency_us.p50),
                microseconds(run.latency_us.p999),
            ]);
            row.push(verdict(run.checks.iter().all(|check| check.ok)));
            row
        })
    });
    let titles = [
        "protocol",
        report.unit(),
        "run",
        "loading",
        "window",
        "committed",
        "user aborts",
        "conflicts",
        "tx/s",
        "on core",
        "aborts",
        "p50",
        "p99.9",
        "checks",
    ];
    format!("<details>\n<summary>Every run</summary>\n{}</details>\n", table(&titles, 1, rows))
}

/// The machine, the settings and the parameters.
pub fn setup(report: &Report) -> String {
    let machine = &report.machine;
    let memory = if machine.memory_gib > 0.0 { format!("{} GiB", machine.memory_gib) } else { String::new() };
    let compiler = [machine.rustc.as_str(), &machine.target, &machine.profile];
    let compiler: Vec<&str> = compiler.into_iter().filter(|word| !word.is_empty()).collect();
    let mut rows: Vec<[String; 2]> = vec![
        ["processor".into(), machine.cpu.clone()],
        [
            "cores".into(),
            format!("{}{}", machine.cores, if machine.virtual_machine { ", virtual" } else { "" }),
        ],
        ["memory".into(), memory],
        ["system".into(), machine.os.clone()],
        ["huge pages".into(), machine.huge_pages.clone()],
        ["compiler".into(), compiler.join(", ")],
        ["heddle".into(), machine.heddle.clone()],
    ];
    // A virtual machine has not all of them.
    rows.retain(|[_, value]| !value.is_empty());
    if let Some(result) = report.all().next() {
        rows.push(["seed".into(), result.seed.to_string()]);
        rows.extend(result.settings.iter().map(|(name, value)| [name.clone(), value.to_string()]));
        rows.extend(result.parameters.iter().map(|(name, value)| [name.clone(), value.clone()]));
    }
    table(&["", ""], 2, rows.into_iter().map(Vec::from))
}
