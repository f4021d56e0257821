//! The table at the end of a benchmark.

mod simulation;

use super::model::{CheckCount, Machine, Measurement, Report};
use super::regions;
use super::{bytes, microseconds, percent, rate};
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, LineStyle, Table, TableStyle};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// A rule under the titles and nothing else.
const RULES: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// The report as text: what it was measured on, the figures, aborts by reason, failed checks,
/// notes. `colours` asks for escape sequences.
pub fn render(report: &Report, colours: bool) -> String {
    if report.simulated() {
        return simulation::render(report, colours);
    }
    let mut text = machine(&report.machine);
    if let Some(result) = report.all().next() {
        let _ = writeln!(text, "{}: {}", result.workload, join(&result.parameters));
        let runs = match result.runs.len() {
            1 => "one run".to_owned(),
            count => format!("medians of {count} runs"),
        };
        let _ = writeln!(text, "{runs}, seed {}, {}", result.seed, join(&result.settings));
    }
    if let Some(driver) = report.driver() {
        let _ = writeln!(text, "{}\nlatency: {}", driver.words(), driver.latency_words());
    }
    text.push('\n');
    text.push_str(&lines(&figures(report, colours)));
    if report.all().any(Measurement::is_submitted) {
        text.push_str("\nthe calls\n");
        text.push_str(&lines(&calls(report, colours)));
    }
    if report.all().any(|result| result.log.is_some()) {
        text.push_str("\nthe log\n");
        text.push_str(&lines(&logs(report, colours)));
    }
    text.push_str(&hardware(report, colours));
    if !report.reasons().is_empty() {
        text.push_str("\naborts by reason, as shares of all attempts\n");
        text.push_str(&lines(&reasons(report, colours)));
    }
    text.push('\n');
    text + &ending(report, colours)
}

/// Names and values in a line.
fn join(pairs: &BTreeMap<String, impl Display>) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name} {value}")).collect();
    pairs.join(", ")
}

/// The checks that failed, how many were made, and the notes.
fn ending(report: &Report, colours: bool) -> String {
    let mut text = String::new();
    for result in report.all().filter(|result| result.failed()) {
        for check in result.checks.iter().filter(|check| !check.ok) {
            let head = paint("FAILED", "31;1", colours);
            let _ = writeln!(text, "{head} {}: {}: {}", name(result), check.name, check.detail);
        }
    }
    let _ = writeln!(text, "{}", verdict(report.check_count(), colours));
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// What it was measured on, in two lines.
pub fn machine(machine: &Machine) -> String {
    let mut text = String::new();
    let guest = if machine.virtual_machine { ", virtual" } else { "" };
    let _ = writeln!(
        text,
        "{}, {} cores{guest}, {} GiB, {}\n{} ({}), huge pages {}",
        machine.cpu,
        machine.cores,
        machine.memory_gib,
        machine.os,
        machine.rustc,
        machine.profile,
        machine.huge_pages
    );
    text
}

/// How many checks were made, and how many failed: the last word of every report.
pub fn verdict(count: CheckCount, colours: bool) -> String {
    let (head, code) = if count.failed > 0 { ("FAILED", "31;1") } else { ("ok", "32;1") };
    format!("{} {count}", paint(head, code, colours))
}

/// Text in a colour, if there are colours.
pub fn paint(text: &str, code: &str, colours: bool) -> String {
    if colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// A result in words.
pub fn name(result: &Measurement) -> String {
    let unit = match () {
        () if result.simulation.is_some() => "core",
        () if result.is_submitted() => "executor",
        () => "thread",
    };
    let many = if result.threads == 1 { "" } else { "s" };
    format!("{}, {} {unit}{many}", result.label(), result.threads)
}

fn figures(report: &Report, colours: bool) -> Table {
    let mut table = empty(colours);
    let new_order = report.all().any(|result| result.new_order_tps().is_some());
    let ratio = report.all().any(|result| result.ratio_to_unprotected.is_some());
    let mut header = vec!["protocol", report.unit(), "tx/s"];
    if new_order {
        header.push("new-order/s");
    }
    header.push("spread");
    if ratio {
        header.push("ratio");
    }
    header.extend(["aborts", "p50", "p95", "p99", "p99.9", "records"]);
    let versions = report.all().any(|result| result.version_bytes > 0.0);
    if versions {
        header.push("old versions");
    }
    header.push("checks");
    table.set_header(header.into_iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for result in report.all() {
        let baseline = report.baseline.as_ref().is_some_and(|baseline| std::ptr::eq(baseline, result));
        let protocol = if baseline { format!("({})", result.label()) } else { result.label() };
        let mut row = vec![
            Cell::new(protocol),
            Cell::new(result.threads),
            Cell::new(rate(result.throughput_tps)).add_attribute(Attribute::Bold),
        ];
        if new_order {
            row.push(Cell::new(result.new_order_tps().map_or("-".into(), rate)));
        }
        row.push(Cell::new(percent(result.spread())));
        if ratio {
            row.push(Cell::new(
                result.ratio_to_unprotected.map_or("-".into(), |ratio| format!("{ratio:.2}")),
            ));
        }
        row.push(Cell::new(percent(result.abort_rate)));
        let latency = result.latency_us.percentiles();
        row.extend(latency.into_iter().map(|(_, value)| Cell::new(microseconds(value))));
        row.push(Cell::new(bytes(result.record_bytes)));
        if versions {
            row.push(Cell::new(bytes(result.version_bytes)));
        }
        row.push(if result.failed() {
            Cell::new("FAILED").fg(Color::Red).add_attribute(Attribute::Bold)
        } else {
            Cell::new("ok").fg(Color::Green)
        });
        table.add_row(row);
    }
    align(&mut table, 1);
    table
}

fn calls(report: &Report, colours: bool) -> Table {
    let mut table = empty(colours);
    let (titles, rows) = submitted(report);
    table.set_header(titles.into_iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    align(&mut table, 1);
    table
}

/// Titles and rows of a table of what came of submitted calls.
pub fn submitted(report: &Report) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let open = report.all().any(|result| result.calls.is_some_and(|calls| calls.open.is_some()));
    let batches = report.all().any(|result| result.calls.is_some_and(|calls| calls.batches.is_some()));
    let mut titles = vec!["protocol", "executors", "clients"];
    if open {
        titles.extend(["asked/s", "arrived/s", "ended/s", "keeps up", "waiting", "late p50", "late p99"]);
    }
    if batches {
        titles.extend([
            "calls/batch",
            "in pieces",
            "edges/call",
            "waited",
            "depth",
            "tell",
            "link",
            "execute",
        ]);
    }
    let rows = report.all().filter_map(|result| {
        let (driver, calls) = (result.driver.as_ref()?, result.calls.unwrap_or_default());
        let mut row = vec![result.label(), result.threads.to_string(), driver.clients().to_string()];
        if let (true, asked) = (open, driver.rate().unwrap_or_default()) {
            let figures = calls.open.unwrap_or_default();
            row.extend([asked, figures.arrived_per_second, figures.ended_per_second].map(rate));
            row.push(if figures.keeps_up() { "yes" } else { "NO" }.to_owned());
            row.push(rate(figures.waiting_end));
            row.extend([figures.late_us.p50, figures.late_us.p99].map(microseconds));
        }
        if batches {
            row.extend(match calls.batches {
                Some(batches) => [
                    format!("{:.1}", batches.calls),
                    percent(batches.in_pieces),
                    format!("{:.2}", batches.edges_per_call),
                    percent(batches.waited),
                    format!("{:.1}", batches.depth),
                    microseconds(batches.telling_us),
                    microseconds(batches.linking_us),
                    microseconds(batches.executing_us),
                ],
                None => ["-"; 8].map(str::to_owned),
            });
        }
        Some(row)
    });
    (titles, rows.collect())
}

fn logs(report: &Report, colours: bool) -> Table {
    let mut table = empty(colours);
    let recovered = report.all().filter_map(|result| result.log).any(|log| log.recovery_seconds > 0.0);
    let mut titles =
        vec!["protocol", report.unit(), "durable p50", "p99", "p99.9", "bytes/tx", "MB/s", "rounds/s"];
    if recovered {
        titles.extend(["recovery", "MB/s", "writes/s", "to production"]);
    }
    table.set_header(titles.into_iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for result in report.all() {
        let Some(log) = result.log else { continue };
        let latency = log.durable_latency_us;
        let mut row = vec![result.label(), result.threads.to_string()];
        row.extend([latency.p50, latency.p99, latency.p999].map(microseconds));
        row.extend([format!("{:.0}", log.bytes_per_transaction), format!("{:.1}", log.mb_per_second)]);
        row.push(rate(log.rounds_per_second));
        if recovered {
            row.extend([
                format!("{:.2} s", log.recovery_seconds),
                format!("{:.0}", log.recovery_mb_per_second),
                rate(log.recovery_writes_per_second),
                format!("{:.1} x", log.recovery_to_production),
            ]);
        }
        table.add_row(row);
    }
    align(&mut table, 1);
    table
}

/// The table of hardware regions, where there are any.
fn hardware(report: &Report, colours: bool) -> String {
    let rows = regions::rows(report);
    if rows.is_empty() {
        return String::new();
    }
    let mut table = empty(colours);
    let titles = regions::titles(report);
    table.set_header(titles.into_iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    rows.into_iter().for_each(|row| _ = table.add_row(row));
    align(&mut table, 2);
    format!("\nhardware regions, and how they ended, as shares of all\n{}", lines(&table))
}

fn reasons(report: &Report, colours: bool) -> Table {
    let mut table = empty(colours);
    let reasons = report.reasons();
    let titles = ["protocol", report.unit(), "aborts"];
    let titles = titles.into_iter().chain(reasons.iter().copied()).chain(["user aborts"]);
    table.set_header(titles.map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for result in report.all() {
        let by_reason = |reason: &&str| result.abort_rate_by_reason.get(*reason).copied().unwrap_or(0.0);
        let mut row = vec![result.label(), result.threads.to_string(), percent(result.abort_rate)];
        row.extend(reasons.iter().map(|reason| percent(by_reason(reason))));
        row.push(percent(result.user_abort_rate));
        table.add_row(row);
    }
    align(&mut table, 1);
    table
}

/// A table without rows. `colours` asks for escape sequences.
pub fn empty(colours: bool) -> Table {
    let mut table = Table::new();
    table.load_style(RULES).set_content_arrangement(ContentArrangement::Disabled);
    if colours {
        table.enforce_styling()
    } else {
        table.force_no_tty()
    };
    table
}

/// Sets every column from `first` on to the right.
pub fn align(table: &mut Table, first: usize) {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// A table as text, without blanks at the ends of lines.
pub fn lines(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::model::{CheckResult, tests::sample};
    use super::*;

    #[test]
    fn the_table_has_every_figure_and_no_colours_unless_asked() {
        let report = sample();
        let text = render(&report, false);
        for word in [
            "silo",
            "(unprotected)",
            "p99.9",
            "wait-die",
            "ratio",
            "new-order/s",
            "read changed",
            "3.00 MiB",
            "5.00 KiB",
            "ok",
        ] {
            assert!(text.contains(word), "{word} is missing in\n{text}");
        }
        assert!(!text.contains('\x1b'), "{text:?}");
        assert!(render(&report, true).contains('\x1b'));
    }

    #[test]
    fn a_failed_check_is_named() {
        let mut report = sample();
        report.results[3].runs[0].checks[0] =
            CheckResult { name: "orders add up".into(), ok: false, detail: "3 != 4".into() };
        report.results[3].summarise();
        let text = render(&report, false);
        assert!(text.contains("FAILED tictoc, 2 threads: orders add up: run 1: 3 != 4"), "{text}");
        assert!(text.contains("FAILED 1 of 27 checks failed") && !text.contains("checks held"), "{text}");
    }
}
