//! The page: one file with the plots drawn here as inline SVG, and nothing fetched from anywhere.
//!
//! A protocol has one look on the whole page, by its place in the order of appearance. Colours are
//! variables of the style sheet, so the page is readable on light and on dark. The script only
//! shows the figures of what is pointed at, and unfolds what is printed; every figure also stands in a table.
//!
//! | room | what |
//! |---|---|
//! | `frame` | what all pages are made of |
//! | `plot` | what plots are drawn with |
//! | `series` | what tells curves apart |
//! | `chart` | one plot of curves |
//! | `benchmark`, `simulation` | the plots of a report |
//! | `tables` | its tables |

mod benchmark;
pub mod chart;
pub mod frame;
mod plot;
mod series;
mod simulation;
mod tables;

use super::conclusion::conclusion;
use super::model::{Driver, Measurement, Report};
use benchmark::{aborts, latency, throughput, throughput_note};
use frame::{Page, capital, escape, section};
use std::fmt::Write;
use tables::{calls, checks, figures, hardware, runs, setup};

/// The whole page.
pub fn page(report: &Report) -> String {
    let workload = report.all().next().map_or("", |result| &result.workload);
    let mut body = String::new();
    header(&mut body, report);
    if report.simulated() {
        simulation::curves(&mut body, report);
    } else {
        section(&mut body, "Throughput", &throughput_note(report), &throughput(report));
    }
    section(
        &mut body,
        "Aborts by reason",
        "Conflicts as a share of all attempts (commits, user aborts and conflicts).",
        &aborts(report),
    );
    let counted = report.driver().unwrap_or(&Driver::Closed).latency_words();
    section(&mut body, "Latency", &capital(&format!("{counted}; logarithmic.")), &latency(report));
    section(&mut body, "Figures", figures_note(report), &figures(report));
    if report.all().any(Measurement::is_submitted) {
        section(&mut body, "Calls", CALLS_NOTE, &calls(report));
    }
    if report.simulated() {
        simulation::costs(&mut body, report);
    }
    let text = hardware(report);
    if !text.is_empty() {
        let note =
            "How they ended, as shares of all, and what was executed in software instead; of the last run.";
        section(&mut body, "Hardware regions", note, &text);
    }
    section(&mut body, "Checks", "", &checks(report));
    if !report.simulated() {
        section(&mut body, "Runs", "", &runs(report));
    }
    section(&mut body, "Set-up", "", &setup(report));
    let (title, conclusion) = (format!("heddle: {workload}"), conclusion(report));
    Page { title: &title, heading: workload, conclusion: &conclusion, style: "", body: &body }.text()
}

const CALLS_NOTE: &str = "Clients submit them, and executors, threads of the database, execute them. Asked: the rate of an open \
    loop; waiting: calls that had arrived and not ended when the window did; late: how long after its arrival a call was submitted.";

fn header(body: &mut String, report: &Report) {
    let _ = writeln!(body, "<p><code>{}</code></p>", escape(&report.command));
    let machine = &report.machine;
    let (cpu, os) = (escape(&machine.cpu), escape(&machine.os));
    let seed = report.all().next().map_or(String::new(), |result| format!(", seed {}", result.seed));
    let _ = writeln!(body, "<p>{cpu}, {} cores, {os}{seed}</p>", machine.cores);
    if let Some(driver) = report.driver() {
        let _ = writeln!(body, "<p>{}</p>", escape(&capital(&driver.words())));
    }
    if report.failed() {
        let _ = writeln!(
            body,
            "<p class=\"bad\">{}: see Checks.</p>",
            capital(&report.check_count().to_string())
        );
    }
    for note in &report.notes {
        let _ = writeln!(body, "<p>Note: {}</p>", escape(note));
    }
}

fn figures_note(report: &Report) -> &'static str {
    if report.simulated() {
        "Ratio: the throughput as a share of that of <code>unprotected</code> on one core."
    } else {
        "Each is the median over the runs. Ratio: the throughput as a share of that of <code>unprotected</code> on one thread."
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Run;
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
        assert!(page.contains("On 2 threads there is no clear winner") && page.contains("(UTC)"));
        assert!(page.contains("seed 7"));
    }

    #[test]
    fn the_page_and_the_terminal_count_the_same_checks() {
        let mut report = sample();
        for told in ["all 27 checks held", "1 of 27 checks failed"] {
            let table = crate::report::table::render(&report, false);
            assert!(table.contains(told), "{told} is missing in\n{table}");
            assert!(page(&report).contains(&capital(told)), "{told}");
            report.results[3].runs[0].checks[0].ok = false;
            report.results[3].summarise();
        }
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
            result.runs.push(Run::broken(1, "out of <memory>".into()));
            result.summarise();
        }
        let page = page(&report);
        assert!(
            page.contains("out of &lt;memory&gt;")
                && page.contains("9 of 9 checks failed, so these figures mean nothing.")
                && !page.contains("NaN")
        );
    }
}
