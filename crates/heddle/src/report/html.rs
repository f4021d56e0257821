//! The page: one file with the plots drawn here as inline SVG, and nothing fetched from anywhere.
//!
//! A protocol has one colour on the whole page, its place in the order of appearance. Colours are
//! variables of the style sheet, so the page is readable on light and on dark. The script only
//! shows the figures of what is pointed at; every figure also stands in a table.

pub mod chart;
mod simulation;

use super::model::{CheckResult, Measurement, Report};
use super::{microseconds, percent, rate};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// How many colours there are; the next series begins again with the first.
const COLOURS: usize = 8;
/// The colour of the first abort reason, so that reasons are not taken for protocols.
const REASONS: usize = 4;

/// The whole page.
pub fn page(report: &Report) -> String {
    let workload = report.all().next().map_or("", |result| &result.workload);
    let mut body = String::new();
    header(&mut body, report, workload);
    if report.simulated() {
        simulation::curves(&mut body, report);
    } else {
        section(&mut body, "Throughput", throughput_note(report), &throughput(report));
    }
    section(
        &mut body,
        "Aborts by reason",
        "Conflicts as a share of all attempts (commits, user aborts and conflicts).",
        &aborts(report),
    );
    section(
        &mut body,
        "Latency",
        "From the first start of a transaction to its commit, retries included; logarithmic.",
        &latency(report),
    );
    section(&mut body, "Figures", figures_note(report), &figures(report));
    if report.simulated() {
        simulation::costs(&mut body, report);
    }
    section(&mut body, "Checks", "", &checks(report));
    if !report.simulated() {
        section(&mut body, "Runs", "", &runs(report));
    }
    section(&mut body, "Set-up", "", &setup(report));
    document(&format!("heddle: {workload}"), &body)
}

/// A page of one file.
pub fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}\
         <div id=\"tip\"></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        title = escape(title),
    )
}

fn header(body: &mut String, report: &Report, workload: &str) {
    let _ = writeln!(body, "<h1>{}</h1>\n<p><code>{}</code></p>", escape(workload), escape(&report.command));
    let machine = &report.machine;
    let _ =
        writeln!(body, "<p>{}, {} cores, {}</p>", escape(&machine.cpu), machine.cores, escape(&machine.os));
    if report.failed() {
        let _ =
            writeln!(body, "<p class=\"bad\">A check failed: these figures mean nothing. See Checks.</p>");
    }
    for note in &report.notes {
        let _ = writeln!(body, "<p>Note: {}</p>", escape(note));
    }
}

/// A section of the page.
pub fn section(body: &mut String, title: &str, note: &str, content: &str) {
    let note = if note.is_empty() { String::new() } else { format!("<p>{note}</p>\n") };
    let _ = writeln!(body, "<section>\n<h2>{title}</h2>\n{note}{content}</section>");
}

// Plots

/// The colour of a series, as a style attribute.
fn colour(at: usize) -> String {
    format!("style=\"--c:var(--s{})\"", at % COLOURS)
}

/// Names with their colours, from colour `first` on.
fn legend(names: &[impl AsRef<str>], first: usize, baseline: bool) -> String {
    let mut text = String::from("<div class=\"legend\">");
    for (at, name) in names.iter().enumerate() {
        let _ = write!(text, "<span {}><i></i>{}</span>", colour(first + at), escape(name.as_ref()));
    }
    if baseline {
        text.push_str("<span><i class=\"dash\"></i>unprotected, 1 thread</span>");
    }
    text + "</div>\n"
}

fn figures_note(report: &Report) -> &'static str {
    if report.simulated() {
        "Ratio: the throughput as a share of that of <code>unprotected</code> on one core."
    } else {
        "Each is the median over the runs. Ratio: the throughput as a share of that of <code>unprotected</code> on one thread."
    }
}

fn throughput_note(report: &Report) -> &'static str {
    if report.threads().len() > 1 {
        "Committed transactions a second by threads; the strokes reach from the slowest run to the fastest."
    } else {
        "Committed transactions a second; the strokes reach from the slowest run to the fastest."
    }
}

/// A line for each protocol over the threads, or a bar for each where there is one number of them.
fn throughput(report: &Report) -> String {
    let threads = report.threads();
    let protocols = report.protocols();
    let baseline = baseline(report).map(|result| result.throughput_tps);
    let top = report.all().map(|result| result.throughput_range_tps[1]).fold(0.0, f64::max);
    if threads.len() < 2 {
        return throughput_bars(report, baseline, top);
    }
    let plot = Plot { width: 1000.0, height: 360.0, left: 64.0, right: 24.0, bottom: 44.0 };
    let (low, high) = (threads[0] as f64, threads[threads.len() - 1] as f64);
    let scale = Linear::nice(top);
    let x = |threads: usize| plot.x((threads as f64 - low) / (high - low) * 0.94 + 0.03);
    let y = |value: f64| plot.y(value / scale.top);
    let mut svg = plot.open("throughput by threads");
    for tick in scale.ticks() {
        plot.gridline(&mut svg, y(tick), &rate(tick));
    }
    for &count in &threads {
        plot.label_below(&mut svg, x(count), &count.to_string());
    }
    plot.axis_name(&mut svg, "threads");
    if let Some(value) = baseline {
        let at = y(value);
        let _ = writeln!(
            svg,
            "<line class=\"base\" x1=\"{}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
            plot.left,
            plot.width - plot.right
        );
    }
    for (at, protocol) in protocols.iter().enumerate() {
        // Side by side, or their strokes would hide each other.
        let aside = (at as f64 - (protocols.len() - 1) as f64 / 2.0) * DODGE;
        let x = |threads: usize| x(threads) + aside;
        let _ = writeln!(svg, "<g {}>", colour(at));
        let mut points: Vec<&Measurement> =
            report.results.iter().filter(|result| &result.label() == protocol).collect();
        points.sort_by_key(|result| result.threads);
        let path: Vec<(f64, f64)> =
            points.iter().map(|result| (x(result.threads), y(result.throughput_tps))).collect();
        polyline(&mut svg, &path);
        for result in points {
            let (at, [slow, fast]) = (x(result.threads), result.throughput_range_tps);
            let _ = writeln!(
                svg,
                "<line class=\"range\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                y(slow),
                y(fast)
            );
            dot(&mut svg, at, y(result.throughput_tps), &throughput_tip(result));
        }
        svg.push_str("</g>\n");
    }
    legend(&protocols, 0, baseline.is_some()) + &svg + "</svg>\n"
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
        let _ = writeln!(svg, "<g {}>", colour(at));
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
    legend(&report.protocols(), 0, baseline.is_some()) + &svg + "</svg>\n"
}

fn throughput_tip(result: &Measurement) -> String {
    let [slow, fast] = result.throughput_range_tps;
    format!(
        "{}, {} tx/s\nruns from {} to {}",
        super::table::name(result),
        rate(result.throughput_tps),
        rate(slow),
        rate(fast)
    )
}

/// A stacked bar for each result, a part for each reason.
fn aborts(report: &Report) -> String {
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
        plot.label_row(&mut svg, y, &super::table::name(result));
        let mut begin = 0.0;
        for (at, reason) in reasons.iter().enumerate() {
            let share = result.abort_rate_by_reason.get(*reason).copied().unwrap_or(0.0);
            if share > 0.0 {
                let _ = writeln!(svg, "<g {}>", colour(REASONS + at));
                let tip = format!("{}\n{reason}: {}", super::table::name(result), percent(share));
                bar(&mut svg, (x(begin), x(begin + share)), y, &tip);
                svg.push_str("</g>\n");
            }
            begin += share;
        }
        plot.value(&mut svg, x(begin), y, &percent(result.abort_rate));
    }
    let text = legend(&reasons, REASONS, false) + &svg + "</svg>\n";
    text + &format!("<details>\n<summary>As a table</summary>\n{}</details>\n", aborts_table(report))
}

/// For each number of threads a plot with a line for each protocol over the percentiles.
fn latency(report: &Report) -> String {
    let protocols = report.protocols();
    let values =
        || report.results.iter().flat_map(|result| result.latency_us.percentiles()).map(|(_, value)| value);
    let positive = || values().filter(|value| *value > 0.0);
    let (Some(low), Some(high)) = (positive().reduce(f64::min), positive().reduce(f64::max)) else {
        return "<p>No transaction committed.</p>\n".into();
    };
    let scale = Logarithmic::around(low, high);
    let mut text = legend(&protocols, 0, false) + "<div class=\"pair\">\n";
    for threads in report.threads() {
        let plot = Plot { width: 490.0, height: 320.0, left: 64.0, right: 16.0, bottom: 28.0 };
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
        for (at, protocol) in protocols.iter().enumerate() {
            let chosen = |result: &&Measurement| result.threads == threads && &result.label() == protocol;
            let Some(result) = report.results.iter().find(chosen) else { continue };
            let points = result.latency_us.percentiles();
            let path: Vec<(f64, f64)> =
                points.iter().enumerate().map(|(at, (_, value))| (x(at), y(value.max(low)))).collect();
            let _ = writeln!(text, "<g {}>", colour(at));
            polyline(&mut text, &path);
            for ((name, value), (x, y)) in points.into_iter().zip(path) {
                let tip = format!("{}\n{name}: {}", super::table::name(result), microseconds(value));
                dot(&mut text, x, y, &tip);
            }
            text.push_str("</g>\n");
        }
        text.push_str("</svg></div>\n");
    }
    text + "</div>\n"
}

/// `unprotected` on one thread.
fn baseline(report: &Report) -> Option<&Measurement> {
    report.all().find(|result| result.label() == "unprotected" && result.threads == 1)
}

/// How far the protocols' points at the same number of threads lie apart.
const DODGE: f64 = 4.0;

/// Height of one row of a bar chart, and of the bar in it.
const ROW: f64 = 30.0;
const ROW_BAR: f64 = 18.0;

/// The frame of a plot. `left`, `right`, `bottom` are margins.
struct Plot {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    bottom: f64,
}

impl Plot {
    const TOP: f64 = 10.0;

    /// A frame for `rows` bars that lie.
    fn for_rows(rows: usize) -> Self {
        let height = Self::TOP + rows as f64 * ROW + 26.0;
        Self { width: 1000.0, height, left: 170.0, right: 74.0, bottom: 26.0 }
    }

    fn open(&self, title: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
            self.width,
            self.height,
            escape(title)
        )
    }

    fn x(&self, share: f64) -> f64 {
        self.left + share * (self.width - self.left - self.right)
    }

    fn y(&self, share: f64) -> f64 {
        self.height - self.bottom - share * (self.height - self.bottom - Self::TOP)
    }

    /// The upper edge of the bar in a row.
    fn row(&self, at: usize) -> f64 {
        Self::TOP + at as f64 * ROW + (ROW - ROW_BAR) / 2.0
    }

    fn gridline(&self, svg: &mut String, y: f64, label: &str) {
        let class = if y >= self.height - self.bottom - 0.5 { "axis" } else { "grid" };
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            self.left,
            self.width - self.right,
            self.left - 8.0,
            y + 4.0,
            escape(label)
        );
    }

    fn upright(&self, svg: &mut String, x: f64, label: &str, class: &str) {
        let bottom = self.height - self.bottom;
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            Self::TOP,
            bottom + 18.0,
            escape(label)
        );
    }

    fn label_below(&self, svg: &mut String, x: f64, label: &str) {
        let y = self.height - self.bottom + 18.0;
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", escape(label));
    }

    fn axis_name(&self, svg: &mut String, name: &str) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
            self.x(0.5),
            self.height - 6.0
        );
    }

    fn label_row(&self, svg: &mut String, y: f64, label: &str) {
        let _ = writeln!(
            svg,
            "<text class=\"v\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            self.left - 10.0,
            y + ROW_BAR / 2.0 + 4.0,
            escape(label)
        );
    }

    /// A figure to the right of a bar.
    fn value(&self, svg: &mut String, x: f64, y: f64, label: &str) {
        let y = y + ROW_BAR / 2.0 + 4.0;
        let _ = writeln!(svg, "<text class=\"v\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>", x + 8.0, escape(label));
    }
}

fn bar(svg: &mut String, (begin, end): (f64, f64), y: f64, tip: &str) {
    let _ = writeln!(
        svg,
        "<rect class=\"bar\" x=\"{begin:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{ROW_BAR}\" rx=\"2\" data-tip=\"{}\"/>",
        (end - begin).max(0.5),
        escape(tip)
    );
}

fn dot(svg: &mut String, x: f64, y: f64, tip: &str) {
    let _ = writeln!(
        svg,
        "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>\
         <circle class=\"hit\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"11\" data-tip=\"{}\"/>",
        escape(tip)
    );
}

fn polyline(svg: &mut String, points: &[(f64, f64)]) {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(svg, "<polyline class=\"series\" points=\"{}\"/>", points.join(" "));
}

/// An axis from zero in even steps.
struct Linear {
    top: f64,
    step: f64,
}

impl Linear {
    /// The least axis of four to eight steps of 1, 2 or 5 times a power of ten that holds `top`.
    fn nice(top: f64) -> Self {
        if top <= 0.0 {
            return Self { top: 1.0, step: 1.0 };
        }
        let rough = top / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        Self { top: (top / step).ceil() * step, step }
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = (self.top / self.step).round() as usize;
        let step = self.step;
        (0..=count).map(move |at| at as f64 * step)
    }
}

/// An axis over powers of ten, of whole decades.
struct Logarithmic {
    low: i32,
    high: i32,
}

impl Logarithmic {
    fn around(low: f64, high: f64) -> Self {
        let low = low.log10().floor() as i32;
        Self { low, high: (high.log10().ceil() as i32).max(low + 1) }
    }

    fn share(&self, value: f64) -> f64 {
        (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.low..=self.high).map(|power| 10f64.powi(power))
    }
}

// Tables

fn figures(report: &Report) -> String {
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

fn aborts_table(report: &Report) -> String {
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

/// The checks that failed, and behind a fold those that held.
fn checks(report: &Report) -> String {
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
    let mut text = if failed.is_empty() {
        "<p class=\"good\">Every check held after every run.</p>\n".to_owned()
    } else {
        table(&titles, 5, failed.into_iter())
    };
    let _ = writeln!(
        text,
        "<details>\n<summary>{} that held</summary>\n{}</details>",
        held.len(),
        table(&titles, 5, held.into_iter())
    );
    text
}

fn runs(report: &Report) -> String {
    let rows = report.all().flat_map(|result| {
        result.runs.iter().map(move |run| {
            let mut row = vec![result.label(), result.threads.to_string(), run.run.to_string()];
            row.extend([format!("{:.2} s", run.load_seconds), format!("{:.2} s", run.seconds)]);
            row.extend([run.committed.to_string(), run.user_aborts.to_string()]);
            row.extend([run.conflicts.values().sum::<u64>().to_string(), rate(run.throughput_tps)]);
            row.extend([
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
        "threads",
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

fn setup(report: &Report) -> String {
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

/// A table whose first `words` columns are set to the left.
pub fn table(titles: &[&str], words: usize, rows: impl Iterator<Item = Vec<String>>) -> String {
    let class = |at: usize| if at < words { " class=\"w\"" } else { " class=\"n\"" };
    let mut text = String::from("<table>\n");
    if titles.iter().any(|title| !title.is_empty()) {
        text.push_str("<tr>");
        for (at, title) in titles.iter().enumerate() {
            let _ = write!(text, "<th{}>{}</th>", class(at), escape(title));
        }
        text.push_str("</tr>\n");
    }
    for row in rows {
        text.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let inside = match cell.as_str() {
                OK => "<span class=\"good\">ok</span>".to_owned(),
                FAILED => "<span class=\"bad\">FAILED</span>".to_owned(),
                words => escape(words),
            };
            let _ = write!(text, "<td{}>{inside}</td>", class(at));
        }
        text.push_str("</tr>\n");
    }
    text + "</table>\n"
}

const OK: &str = "ok";
const FAILED: &str = "FAILED";

fn verdict(ok: bool) -> String {
    if ok { OK } else { FAILED }.to_owned()
}

/// Text without letters that mean something to a page.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::sample;
    use super::*;

    #[test]
    fn the_page_shows_every_protocol_and_fetches_nothing() {
        let page = page(&sample());
        for word in
            ["silo", "tictoc", "no-wait", "wait-die", "unprotected", "p99.9", "read changed", "new-order/s"]
        {
            assert!(page.contains(word), "{word} is missing");
        }
        for word in ["http:", "https:", "src=", "href=", "url(", "@import", "//cdn", "NaN", "inf"] {
            assert!(!page.contains(word), "{word} is there");
        }
        assert!(page.contains("a note with &lt;angles&gt; &amp; ampersands"));
    }

    #[test]
    fn one_number_of_threads_is_drawn_as_bars() {
        let mut report = sample();
        report.results.retain(|result| result.threads == 1);
        let page = page(&report);
        assert!(page.contains("class=\"bar\"") && page.contains("No attempt conflicted."));
    }

    #[test]
    fn a_report_of_broken_runs_is_drawn_too() {
        let mut report = sample();
        for result in report.results.iter_mut().chain(&mut report.baseline) {
            *result =
                Measurement { protocol: result.label(), threads: result.threads, ..Measurement::default() };
            result.runs.push(super::super::model::Run::broken(1, "out of <memory>".into()));
            result.summarise();
        }
        let page = page(&report);
        assert!(
            page.contains("out of &lt;memory&gt;")
                && page.contains("A check failed")
                && !page.contains("NaN")
        );
    }

    #[test]
    fn axes_hold_their_values() {
        for top in [0.001, 0.7, 1.0, 3.2, 99.0, 123_456.0] {
            let scale = Linear::nice(top);
            let count = scale.ticks().count();
            assert!(scale.top >= top * 0.999 && (3..=12).contains(&count), "{top}: {} in {count}", scale.top);
        }
        let scale = Logarithmic::around(3.0, 4500.0);
        assert_eq!((scale.low, scale.high), (0, 4));
        assert_eq!(scale.share(100.0), 0.5);
        assert_eq!(Logarithmic::around(10.0, 10.0).high, 2);
    }
}
