//! The plots of a simulation: curves over the number of virtual cores, and the costs behind them.

use super::super::model::{Measurement, Report, Simulation};
use super::chart::{Chart, Curve, Point, Spacing};
use super::frame::{escape, section, table};
use super::series::line_legend;
use crate::report::{microseconds, percent, rate};
use heddledb_simulator::simulation::Costs;
use std::fmt::Write;

/// One figure as curves.
struct Figure {
    title: &'static str,
    note: &'static str,
    value: fn(&Measurement, &Simulation) -> f64,
    shown: fn(f64) -> String,
}

const FIGURES: [Figure; 4] = [
    Figure {
        title: "Throughput",
        note: "Committed transactions a second of virtual time, by cores (logarithmic).",
        value: |result, _| result.throughput_tps,
        shown: rate,
    },
    Figure {
        title: "Aborts",
        note: "Conflicts as a share of all attempts (commits, user aborts and conflicts).",
        value: |result, _| result.abort_rate,
        shown: percent,
    },
    Figure {
        title: "Line transfers",
        note: "Cache lines that another core had written, fetched per transaction with all its attempts.",
        value: |_, simulation| simulation.transfers,
        shown: |count| format!("{count:.1}"),
    },
    Figure {
        title: "Waiting",
        note: "The share of a transaction's cycles in which its core waited: for busy lines, and in spins and pauses.",
        value: |_, simulation| simulation.waiting_share(),
        shown: percent,
    },
];

/// The sections with the curves.
pub fn curves(body: &mut String, report: &Report) {
    let mut factors: Vec<f64> = report.results.iter().map(Measurement::coherence).collect();
    factors.sort_by(f64::total_cmp);
    factors.dedup();
    for figure in FIGURES {
        let mut text = line_legend(&names(report), false);
        if let [_] = factors[..] {
            text += &plot(report, &figure, 1.0, true);
        } else {
            text += "<div class=\"pair\">\n";
            for &factor in &factors {
                let _ = writeln!(text, "<div><h3>costs between cores x{factor}</h3>");
                text += &plot(report, &figure, factor, false);
                text += "</div>\n";
            }
            text += "</div>\n";
        }
        section(body, figure.title, figure.note, &text);
    }
}

/// The protocols in order of appearance.
fn names(report: &Report) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for result in &report.results {
        if !names.contains(&result.protocol) {
            names.push(result.protocol.clone());
        }
    }
    names
}

fn plot(report: &Report, figure: &Figure, factor: f64, wide: bool) -> String {
    let values = report.results.iter().filter_map(|result| {
        let simulation = result.simulation.as_ref()?;
        Some((result, (figure.value)(result, simulation)))
    });
    let values: Vec<(&Measurement, f64)> = values.collect();
    let curve = |name: String| {
        let mine = |(result, _): &&(&Measurement, f64)| {
            result.protocol == name
                && result.coherence() == factor
                && !result.runs.iter().any(|run| run.error.is_some())
        };
        let mut points: Vec<&(&Measurement, f64)> = values.iter().filter(mine).collect();
        points.sort_by_key(|(result, _)| result.threads);
        let point = |(result, value): &(&Measurement, f64)| Point {
            x: result.threads as f64,
            y: *value,
            tip: format!("{}\n{}", crate::report::table::name(result), (figure.shown)(*value)),
        };
        Curve { points: points.into_iter().map(point).collect(), name }
    };
    let marks: Vec<f64> = report.threads().into_iter().map(|cores| cores as f64).collect();
    let curves: Vec<Curve> = names(report).into_iter().map(curve).collect();
    let chart = Chart {
        title: &format!("{} by cores", figure.title),
        axis: "virtual cores",
        spacing: Spacing::Logarithmic,
        marks: &marks,
        curves: &curves,
        // One scale for all factors, so that they can be compared.
        top: values.iter().map(|(_, value)| *value).fold(0.0, f64::max),
        shown: figure.shown,
        wide,
    };
    chart.draw()
}

/// What a transaction was made of, and what that cost.
pub fn costs(body: &mut String, report: &Report) {
    let titles = [
        "protocol",
        "cores",
        "window",
        "transactions",
        "cycles",
        "conflicts",
        "accesses",
        "same line",
        "hits",
        "fetches",
        "memory",
        "transfers",
        "upgrades",
        "far",
        "queueing",
        "waiting",
        "work",
    ];
    let rows = report.all().filter_map(|result| {
        let simulation = result.simulation.as_ref()?;
        let mut row = vec![result.label(), result.threads.to_string()];
        row.push(microseconds(result.settings.get("seconds").copied().unwrap_or(0.0) * 1e6));
        row.extend([simulation.transactions.to_string(), rate(simulation.cycles)]);
        row.push(format!("{:.2}", simulation.conflicts));
        let Simulation { accesses, same, hits, fetches, memory, transfers, upgrades, far, .. } = *simulation;
        row.extend([accesses, same, hits].map(|count| format!("{count:.0}")));
        row.extend([fetches, memory, transfers, upgrades, far].map(|count| format!("{count:.1}")));
        let Simulation { queueing_cycles, waiting_cycles, work_cycles, .. } = *simulation;
        row.extend([queueing_cycles, waiting_cycles, work_cycles].map(rate));
        Some(row)
    });
    let note = "Means of a transaction with all its attempts; queueing, waiting and work are in cycles.";
    section(body, "What a transaction was made of", note, &table(&titles, 1, rows));
    let Some(simulation) = report.all().find_map(|result| result.simulation.as_ref()) else { return };
    let meanings = Costs::default().entries();
    let rows = simulation.costs.iter().map(|(name, value)| {
        let about = meanings.iter().find(|(known, ..)| known == name).map_or("", |(_, about, _)| about);
        vec![name.clone(), about.to_owned(), value.to_string()]
    });
    let note = format!("In cycles where not said otherwise; {}.", escape(&simulation.calibration));
    section(body, "Costs", &note, &table(&["entry", "what it is", "value"], 2, rows));
}

#[cfg(test)]
mod tests {
    use super::super::super::model::tests::simulated;
    use crate::report::html::page;

    #[test]
    fn the_page_of_a_simulation_has_its_curves_and_costs_and_no_machine() {
        let page = page(&simulated());
        for word in [
            "Line transfers",
            "Waiting",
            "virtual cores",
            "costs between cores x0.5",
            "silo, 64 cores",
            "A line from memory",
            "calibrated on",
            "What a transaction was made of",
        ] {
            assert!(page.contains(word), "{word} is missing");
        }
        for word in
            ["http:", "https:", "src=", "href=", "NaN", "inf", "rustc", "GiB", "huge pages", "Every run"]
        {
            assert!(!page.contains(word), "{word} is there");
        }
    }

    #[test]
    fn one_number_of_cores_is_drawn_too() {
        let mut report = simulated();
        report.results.retain(|result| result.threads == 64);
        assert!(!page(&report).contains("NaN"));
    }
}
