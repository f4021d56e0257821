//! The tables of a simulation: what a transaction cost on so many virtual cores, and by which table of costs.

use super::super::model::{Measurement, Report, Simulation};
use super::{align, empty, ending, hardware, join, lines, paint, percent, rate, reasons};
use crate::report::microseconds;
use comfy_table::{Attribute, Cell, Color, Table};
use std::fmt::Write;

/// The width of the lines that lists are broken to.
const WIDTH: usize = 110;

/// The report as text: the machine, the figures, aborts by reason, the costs, failed checks, notes.
pub fn render(report: &Report, colours: bool) -> String {
    let mut text = format!("{}\n", report.machine.cpu);
    if let Some(result) = report.all().next() {
        let _ = writeln!(text, "{}: {}", result.workload, join(&result.parameters));
        let epoch = result.settings.get("epoch_interval").copied().unwrap_or(0.0);
        let _ = writeln!(text, "seed {}, an epoch every {}", result.seed, microseconds(epoch * 1e6));
    }
    text.push('\n');
    text += &lines(&figures(report, colours));
    text += &hardware(report, colours);
    if !report.reasons().is_empty() {
        text += "\naborts by reason, as shares of all attempts\n";
        text += &lines(&reasons(report, colours));
    }
    if let Some(simulation) = report.all().find_map(|result| result.simulation.as_ref()) {
        text += "\ncosts, in cycles where `heddle sim costs` says nothing else\n";
        let pairs = simulation.costs.iter().map(|(name, value)| format!("{name} {value}"));
        text += &broken(pairs.collect());
        let _ = writeln!(text, "{}", simulation.calibration);
    }
    text.push('\n');
    text + &ending(report, colours)
}

/// Words with commas between them, in lines of a width.
fn broken(words: Vec<String>) -> String {
    let mut text = String::new();
    let mut line = 0;
    let last = words.len().saturating_sub(1);
    for (at, word) in words.iter().enumerate() {
        if line > 0 && line + word.len() + 2 > WIDTH {
            text.push('\n');
            line = 0;
        }
        let gap = if line > 0 { " " } else { "" };
        let end = if at == last { "\n" } else { "," };
        text += gap;
        text += word;
        text += end;
        line += word.len() + 2;
    }
    text
}

fn figures(report: &Report, colours: bool) -> Table {
    let mut table = empty(colours);
    let titles = [
        "protocol",
        "cores",
        "window",
        "tx/s",
        "speed-up",
        "aborts",
        "cycles/tx",
        "transfers/tx",
        "fetches/tx",
        "queueing",
        "waiting",
        "p50",
        "p99",
        "checks",
    ];
    table.set_header(titles.into_iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for (result, simulation) in report.all().filter_map(|result| Some((result, result.simulation.as_ref()?)))
    {
        table.add_row(row(result, simulation));
    }
    align(&mut table, 1);
    table
}

fn row(result: &Measurement, simulation: &Simulation) -> Vec<Cell> {
    let share = |cycles: f64| percent(if simulation.cycles > 0.0 { cycles / simulation.cycles } else { 0.0 });
    let window = result.settings.get("seconds").copied().unwrap_or(0.0);
    vec![
        Cell::new(result.label()),
        Cell::new(result.threads),
        Cell::new(microseconds(window * 1e6)),
        Cell::new(rate(result.throughput_tps)).add_attribute(Attribute::Bold),
        Cell::new(simulation.speed_up.map_or("-".into(), |times| format!("{times:.2}"))),
        Cell::new(percent(result.abort_rate)),
        Cell::new(rate(simulation.cycles)),
        Cell::new(format!("{:.1}", simulation.transfers)),
        Cell::new(format!("{:.1}", simulation.fetches)),
        Cell::new(share(simulation.queueing_cycles)),
        Cell::new(share(simulation.waiting_cycles)),
        Cell::new(microseconds(result.latency_us.p50)),
        Cell::new(microseconds(result.latency_us.p99)),
        if result.failed() {
            Cell::new(paint("FAILED", "31;1", false)).fg(Color::Red).add_attribute(Attribute::Bold)
        } else {
            Cell::new("ok").fg(Color::Green)
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::super::model::tests::simulated;
    use super::*;

    #[test]
    fn the_table_has_the_figures_of_a_simulation() {
        let mut report = simulated();
        let text = render(&report, false);
        for word in [
            "virtual cores of 2600 MHz",
            "cores",
            "speed-up",
            "transfers/tx",
            "silo x0.5",
            "64",
            "seed 7, an epoch every 10.0 ms",
            "transfer 120",
            "calibrated on",
            "order of silo and tictoc",
            "ok all",
        ] {
            assert!(text.contains(word), "{word} is missing in\n{text}");
        }
        for word in ["GiB,", "rustc", "threads", "\x1b"] {
            assert!(!text.contains(word), "{word:?} is in\n{text}");
        }
        report.results[0].runs[0].checks[0].ok = false;
        report.results[0].summarise();
        assert!(render(&report, false).contains("FAILED silo, 1 core: orders add up"));
    }

    #[test]
    fn lists_are_broken() {
        let text = broken((0..60).map(|number| format!("word {number}")).collect());
        assert!(text.lines().count() > 3 && text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert_eq!(broken(vec!["a".into(), "b".into()]), "a, b\n");
    }
}
