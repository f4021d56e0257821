//! The page: each figure's plot beside what the paper says of it; one file, and nothing fetched from
//! anywhere.

use super::figure::{Judgement, Verdict, caption};
use super::run::{Document, Found};
use super::table::{conclusion, grid, numbers, sum};
use crate::report::html::chart::{Chart, Curve, Point};
use crate::report::html::frame::{Page, capital, escape, section, table};
use std::fmt::Write;

const STYLE: &str = ".claims { list-style: none; margin: 0; padding: 0; } .claims li { margin: 0 0 .9rem; }\n\
                     .claims b { font-weight: 600; } .claims .soft { color: var(--soft); }\n";

/// The whole page.
pub fn page(document: &Document) -> String {
    let mut body = String::new();
    let (about, command) = (escape(&document.about), escape(&document.command));
    let _ = writeln!(body, "<p>{about}</p>\n<p><code>{command}</code></p>");
    if let Some(machine) = &document.virtual_machine {
        let _ = writeln!(body, "<p>Here: {}, seed {}</p>", escape(&machine.cpu), document.seed);
    }
    if let Some(machine) = &document.machine {
        let (cpu, os) = (escape(&machine.cpu), escape(&machine.os));
        let _ = writeln!(body, "<p>Here, on threads: {cpu}, {} cores, {os}</p>", machine.cores);
    }
    for failure in document.failures() {
        let _ = writeln!(body, "<p class=\"bad\">Failed: {}</p>", escape(&failure));
    }
    for note in &document.notes {
        let _ = writeln!(body, "<p>Note: {}</p>", escape(note));
    }
    section(&mut body, "Verdicts", &escape(&sum(document)), &overview(document));
    for figure in &document.figures {
        let head = format!("{}: {}", capital(&caption(&figure.id)), figure.title);
        let notes: Vec<String> = figure.notes.iter().map(|note| escape(note)).collect();
        let notes = format!("{}. {}", escape(&figure.section), notes.join(" "));
        section(&mut body, &escape(&head), &notes, &content(figure));
    }
    let (title, conclusion) = (format!("heddle reproduce {}", document.paper), conclusion(document));
    Page { title: &title, heading: &document.title, conclusion: &conclusion, style: STYLE, body: &body }
        .text()
}

/// All claims in a table.
fn overview(document: &Document) -> String {
    let mut text = String::from(
        "<details>\n<summary>All in a table</summary>\n<div class=\"scroll\"><table>\n<tr><th class=\"w\">figure</th>\
         <th class=\"w\">claim</th><th class=\"w\">here</th><th class=\"w\">verdict</th></tr>\n",
    );
    for figure in &document.figures {
        for claim in &figure.claims {
            let _ = writeln!(
                text,
                "<tr><td class=\"w\">{}</td><td class=\"w\">{}</td><td class=\"w\">{}</td><td class=\"w\">{}</td></tr>",
                escape(&figure.id),
                escape(&claim.claim),
                escape(&found(claim)),
                verdict(claim.verdict)
            );
        }
    }
    text + "</table></div>\n</details>\n"
}

/// What was measured, and why it is not as the paper says.
fn found(claim: &Judgement) -> String {
    let parts = [claim.measured.as_str(), &claim.reason];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

fn verdict(verdict: Verdict) -> String {
    let class = match verdict {
        Verdict::Reproduced => "good",
        Verdict::NotReproduced | Verdict::NotMeasured => "bad",
        Verdict::Unreachable => "soft",
    };
    format!("<span class=\"{class}\">{}</span>", verdict.name())
}

/// The plot and the claims side by side, and the values in a table.
fn content(figure: &Found) -> String {
    let plot = plot(figure);
    let claims = claims(figure);
    let mut text = match (plot.is_empty(), figure.drawing.is_empty()) {
        (false, _) => format!("<div class=\"pair\">\n<div>{plot}</div>\n<div>{claims}</div>\n</div>\n"),
        (true, false) => format!("{}\n{claims}", figure.drawing),
        (true, true) => claims,
    };
    let rows = grid(figure);
    if let Some((titles, rows)) = rows.split_first() {
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        let values = table(&titles, 1, rows.iter().cloned());
        text += &if plot.is_empty() {
            values
        } else {
            format!("<details>\n<summary>As a table</summary>\n{values}</details>\n")
        };
    }
    text
}

fn claims(figure: &Found) -> String {
    let mut text = String::from("<ul class=\"claims\">\n");
    for claim in &figure.claims {
        let found = found(claim);
        let colon = if found.is_empty() { "" } else { ": " };
        let _ = writeln!(
            text,
            "<li>{}<br><b>{}</b>{colon}<span class=\"soft\">{}</span></li>",
            escape(&claim.claim),
            verdict(claim.verdict),
            escape(&found)
        );
    }
    text + "</ul>\n"
}

fn plot(figure: &Found) -> String {
    let lines = &figure.results.lines;
    let Some(first) = lines.first() else { return String::new() };
    let curve = |line: &super::figure::Line| {
        let mut dots: Vec<_> = line.points.iter().filter_map(|dot| Some((dot, dot.value?))).collect();
        dots.sort_by(|(first, _), (second, _)| first.x.total_cmp(&second.x));
        let tip = |dot: &super::figure::Dot, value: f64| {
            let aborts = crate::report::percent(dot.abort_rate);
            format!("{}\n{}: {}\n{aborts} aborts", line.name, dot.x, line.measure.shown()(value))
        };
        let point =
            |(dot, value): (&super::figure::Dot, f64)| Point { x: dot.x, y: value, tip: tip(dot, value) };
        Curve { name: line.name.clone(), points: dots.into_iter().map(point).collect() }
    };
    let curves: Vec<Curve> = lines.iter().map(curve).collect();
    let top = curves.iter().flat_map(|curve| &curve.points).map(|point| point.y).fold(0.0, f64::max);
    let marks = numbers(figure);
    let chart = Chart {
        title: &figure.title,
        axis: &figure.axis,
        spacing: figure.drawn.spacing,
        marks: &marks,
        curves: &curves,
        top,
        shown: first.measure.shown(),
        wide: false,
    };
    let name = format!("<h3>{}</h3>\n", escape(first.measure.name()));
    let legend = if marks.len() > 1 { chart.legend() } else { String::new() };
    name + &legend + &chart.draw()
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_page_has_plots_and_verdicts_and_fetches_nothing() {
        let page = page(&sample());
        for word in [
            "<svg",
            "Figure 7a: Something by cores",
            "Table 9: A &lt;study&gt;",
            "it doubles",
            "<span class=\"good\">reproduced</span>",
            "<span class=\"bad\">not reproduced</span>",
            "the memory is slow",
            "smaller tables",
            "3 claims",
            "Of 3 claims 1 is reproduced and 1 is not; 1 cannot be reached here.",
            "(UTC)",
            "<div class=\"scroll\"><table>",
            "Failed: 7a",
        ] {
            assert!(page.contains(word), "{word} is missing in\n{page}");
        }
        for word in ["http:", "https:", "src=", "href=", "url(", "@import", "NaN", "inf"] {
            assert!(!page.contains(word), "{word} is there");
        }
    }
}
