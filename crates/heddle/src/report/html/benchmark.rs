//! The plots of a benchmark: throughput, aborts by reason, latency.

use super::super::model::{Measurement, Report};
use super::plot::{Linear, Logarithmic, Plot, ROW_BAR, bar};
use super::series::{End, Look, bar_legend, end_names, frame, line_legend};
use super::tables::aborts_table;
use crate::report::{microseconds, percent, rate, table};
use std::fmt::Write;

/// The colour of the first abort reason, so that reasons are not taken for protocols.
const REASONS: usize = 4;

/// What the plot of throughput shows.
pub fn throughput_note(report: &Report) -> String {
    let by = if report.threads().len() > 1 { format!(" by {}", report.unit()) } else { String::new() };
    format!("Committed transactions a second{by}; the strokes reach from the slowest run to the fastest.")
}

/// A line for each protocol over the threads, or a bar for each where there is one number of them.
pub fn throughput(report: &Report) -> String {
    let threads = report.threads();
    let protocols = report.protocols();
    let baseline = baseline(report).map(|result| result.throughput_tps);
    let top = report.all().map(|result| result.throughput_range_tps[1]).fold(0.0, f64::max);
    if threads.len() < 2 {
        return throughput_bars(report, baseline, top);
    }
    let plot = frame(1000.0, 360.0, 44.0, &protocols);
    let (low, high) = (threads[0] as f64, threads[threads.len() - 1] as f64);
    let scale = Linear::nice(top);
    let x = |threads: usize| plot.x((threads as f64 - low) / (high - low) * 0.94 + 0.03);
    let y = |value: f64| plot.y(value / scale.top);
    let mut svg = plot.open(&format!("throughput by {}", report.unit()));
    for tick in scale.ticks() {
        plot.gridline(&mut svg, y(tick), &rate(tick));
    }
    for &count in &threads {
        plot.label_below(&mut svg, x(count), &count.to_string());
    }
    plot.axis_name(&mut svg, report.unit());
    if let Some(value) = baseline {
        let at = y(value);
        let _ = writeln!(
            svg,
            "<line class=\"base\" x1=\"{}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
            plot.left,
            plot.width - plot.right
        );
    }
    let mut ends = Vec::new();
    for (at, protocol) in protocols.iter().enumerate() {
        // Side by side, or their strokes would hide each other.
        let aside = (at as f64 - (protocols.len() - 1) as f64 / 2.0) * DODGE;
        let x = |threads: usize| x(threads) + aside;
        let look = Look(at);
        let _ = writeln!(svg, "<g {}>", look.colour());
        let mut points: Vec<&Measurement> =
            report.results.iter().filter(|result| &result.label() == protocol).collect();
        points.sort_by_key(|result| result.threads);
        let path: Vec<(f64, f64)> =
            points.iter().map(|result| (x(result.threads), y(result.throughput_tps))).collect();
        look.line(&mut svg, &path);
        for result in points {
            let (at, [slow, fast]) = (x(result.threads), result.throughput_range_tps);
            let _ = writeln!(
                svg,
                "<line class=\"range\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                y(slow),
                y(fast)
            );
            look.point(&mut svg, at, y(result.throughput_tps), &throughput_tip(result));
        }
        svg.push_str("</g>\n");
        ends.extend(path.last().map(|&(x, y)| End { look, x, y, name: protocol.clone() }));
    }
    end_names(&mut svg, &plot, &ends);
    line_legend(&protocols, baseline.is_some()) + &svg + Plot::CLOSE
}

fn throughput_bars(report: &Report, baseline: Option<f64>, top: f64) -> String {
    let plot = Plot::for_rows(report.results.len());
    let scale = Linear::nice(top);
    let x = |value: f64| plot.x(value / scale.top);
    let mut svg = plot.open("throughput");
    for tick in scale.ticks() {
        plot.upright(&mut svg, x(tick), &rate(tick), "grid");
    }
    for (at, result) in report.results.iter().enumerate() {
        let y = plot.row(at);
        let [slow, fast] = result.throughput_range_tps;
        plot.label_row(&mut svg, y, &result.label());
        let _ = writeln!(svg, "<g {}>", Look(at).colour());
        bar(&mut svg, (plot.left, x(result.throughput_tps)), y, &throughput_tip(result));
        let middle = y + ROW_BAR / 2.0;
        let _ = writeln!(
            svg,
            "<line class=\"range\" style=\"--c:var(--ink)\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/></g>",
            x(slow),
            x(fast)
        );
        plot.value(&mut svg, x(fast.max(result.throughput_tps)), y, &rate(result.throughput_tps));
    }
    if let Some(value) = baseline {
        plot.upright(&mut svg, x(value), "", "base");
    }
    bar_legend(&report.protocols(), 0, baseline.is_some()) + &svg + Plot::CLOSE
}

fn throughput_tip(result: &Measurement) -> String {
    let [slow, fast] = result.throughput_range_tps;
    format!(
        "{}, {} tx/s\nruns from {} to {}",
        table::name(result),
        rate(result.throughput_tps),
        rate(slow),
        rate(fast)
    )
}

/// A stacked bar for each result, a part for each reason.
pub fn aborts(report: &Report) -> String {
    let reasons = report.reasons();
    if reasons.is_empty() {
        return "<p>No attempt conflicted.</p>\n".into();
    }
    let plot = Plot::for_rows(report.results.len());
    let top =
        report.results.iter().map(|result| result.abort_rate_by_reason.values().sum()).fold(0.0, f64::max);
    let scale = Linear::nice(top);
    let x = |value: f64| plot.x(value / scale.top);
    let mut svg = plot.open("abort rate by reason");
    for tick in scale.ticks() {
        plot.upright(&mut svg, x(tick), &percent(tick), "grid");
    }
    for (at, result) in report.results.iter().enumerate() {
        let y = plot.row(at);
        plot.label_row(&mut svg, y, &table::name(result));
        let mut begin = 0.0;
        for (at, reason) in reasons.iter().enumerate() {
            let share = result.abort_rate_by_reason.get(*reason).copied().unwrap_or(0.0);
            if share > 0.0 {
                let _ = writeln!(svg, "<g {}>", Look(REASONS + at).colour());
                let tip = format!("{}\n{reason}: {}", table::name(result), percent(share));
                bar(&mut svg, (x(begin), x(begin + share)), y, &tip);
                svg.push_str("</g>\n");
            }
            begin += share;
        }
        plot.value(&mut svg, x(begin), y, &percent(result.abort_rate));
    }
    let text = bar_legend(&reasons, REASONS, false) + &svg + Plot::CLOSE;
    text + &format!("<details>\n<summary>As a table</summary>\n{}</details>\n", aborts_table(report))
}

/// For each number of threads a plot with a line for each protocol over the percentiles.
pub fn latency(report: &Report) -> String {
    let protocols = report.protocols();
    let values =
        || report.results.iter().flat_map(|result| result.latency_us.percentiles()).map(|(_, value)| value);
    let positive = || values().filter(|value| *value > 0.0);
    let (Some(low), Some(high)) = (positive().reduce(f64::min), positive().reduce(f64::max)) else {
        return "<p>No transaction committed.</p>\n".into();
    };
    let scale = Logarithmic::around(low, high);
    let mut text = line_legend(&protocols, false) + "<div class=\"pair\">\n";
    for threads in report.threads() {
        let plot = frame(520.0, 320.0, 28.0, &protocols);
        let y = |value: f64| plot.y(scale.share(value));
        let x = |at: usize| plot.x(at as f64 / 3.0 * 0.9 + 0.05);
        let (one, many) = (report.unit().trim_end_matches('s'), report.unit());
        let title = if threads == 1 { format!("1 {one}") } else { format!("{threads} {many}") };
        let _ = writeln!(text, "<div><h3>{title}</h3>");
        text.push_str(&plot.open(&format!("latency with {title}")));
        for tick in scale.ticks() {
            plot.gridline(&mut text, y(tick), &microseconds(tick));
        }
        for (at, name) in ["p50", "p95", "p99", "p99.9"].into_iter().enumerate() {
            plot.label_below(&mut text, x(at), name);
        }
        let mut ends = Vec::new();
        for (at, protocol) in protocols.iter().enumerate() {
            let chosen = |result: &&Measurement| result.threads == threads && &result.label() == protocol;
            let Some(result) = report.results.iter().find(chosen) else { continue };
            let points = result.latency_us.percentiles();
            let path: Vec<(f64, f64)> =
                points.iter().enumerate().map(|(at, (_, value))| (x(at), y(value.max(low)))).collect();
            let look = Look(at);
            let _ = writeln!(text, "<g {}>", look.colour());
            look.line(&mut text, &path);
            for ((name, value), &(x, y)) in points.into_iter().zip(&path) {
                let tip = format!("{}\n{name}: {}", table::name(result), microseconds(value));
                look.point(&mut text, x, y, &tip);
            }
            text.push_str("</g>\n");
            ends.extend(path.last().map(|&(x, y)| End { look, x, y, name: protocol.clone() }));
        }
        end_names(&mut text, &plot, &ends);
        text.push_str(Plot::CLOSE);
        text.push_str("</div>\n");
    }
    text + "</div>\n"
}

/// `unprotected` on one thread.
fn baseline(report: &Report) -> Option<&Measurement> {
    report.all().find(|result| result.label() == "unprotected" && result.threads == 1)
}

/// How far the protocols' points at the same number of threads lie apart.
const DODGE: f64 = 4.0;
