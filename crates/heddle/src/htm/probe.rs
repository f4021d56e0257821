//! `heddle htm probe`: which share of regions commit, by how many lines they read or write.

use crate::failure::{Failure, chain};
use crate::report::model::RegionFigures;
use crate::report::outputs::{Outputs, publish};
use crate::report::percent;
use crate::report::table::{align, empty, lines};
use clap::Args;
use heddledb::internals::sync::probe::Trial;
use heddledb::internals::sync::{LINE, htm};
use heddledb_simulator::regions;
use heddledb_simulator::simulation::{Costs, L1};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `heddle htm probe`.
#[derive(Args, Debug)]
pub struct ProbeArguments {
    /// Probe the model that virtual cores have instead of this processor
    #[arg(long)]
    model: bool,
    /// The first-level cache of the model: 8-way, 32 KiB as the paper's processor has it, or 12-way, 48 KiB as recent ones
    /// [default: the room of the table that `heddle sim costs` prints]
    #[arg(long, value_name = "CACHE", requires = "model")]
    l1: Option<L1>,
    /// Regions of each trial [default: 1000, or 20 of the model]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    regions: Option<u32>,
    /// Seed of the places at random
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Write the figures as JSON; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Tells whether this processor executes regions (Intel's RTM): whether it says so, and whether most of a thousand small
ones have taken effect. Then a region reads or writes so many cache lines of an array of 4 MiB, one after another or at
random places, all touched before; the table has the share of regions that commit, and why the others were aborted.

Examples:
  heddle htm probe
  heddle htm probe --regions 10000 --json probe.json
  heddle htm probe --model          # what virtual cores have; the same on any machine
  heddle htm probe --model --l1 12-way

With HEDDLEDB_RTM=on in the environment, dbx-tc, dbx and htm begin regions of the processor where it executes them.

Exit codes: 0 it was told, also if there is no RTM, 1 a file could not be written, 2 unusable arguments.";

/// Lines of a region.
const LINES: [usize; 17] =
    [1, 7, 16, 32, 64, 128, 256, 384, 496, 512, 640, 704, 768, 1_024, 4_096, 16_384, 65_536];
/// What a region does with them, and whether it writes and whether places are at random.
const ACCESSES: [(&str, bool, bool); 4] = [
    ("writes in sequence", true, false),
    ("writes at random", true, true),
    ("reads in sequence", false, false),
    ("reads at random", false, true),
];

/// All that was found.
#[derive(Serialize, Debug)]
struct Document {
    command: String,
    /// Whether there are regions.
    available: bool,
    /// In words.
    told: String,
    seed: u64,
    /// Regions of each trial.
    regions: u32,
    trials: Vec<Found>,
}

/// What came of a trial.
#[derive(Serialize, Debug)]
struct Found {
    accesses: &'static str,
    lines: usize,
    bytes: usize,
    committed_share: f64,
    #[serde(flatten)]
    figures: RegionFigures,
}

/// Probes, and tells.
pub fn probe(arguments: &ProbeArguments, command: String) -> Result<(), Failure> {
    let ProbeArguments { model, seed, .. } = *arguments;
    let outputs = Outputs { json: arguments.json.clone(), html: None };
    outputs.probe()?;
    let available = model || htm::is_available();
    let told = match (model, available) {
        (true, _) => match arguments.l1 {
            None => "the model of virtual cores: regions as its table of costs has them".to_owned(),
            Some(l1) => format!("the model of virtual cores: regions with the room of the {l1} cache"),
        },
        (false, true) => {
            "RTM: this processor executes regions, and most of a thousand small ones took effect".to_owned()
        }
        (false, false) => {
            "no RTM: this processor does not execute regions; all protocols execute transactions in software"
                .to_owned()
        }
    };
    let costs = arguments.l1.map_or(Costs::default(), |l1| l1.of(Costs::default()));
    let regions = arguments.regions.unwrap_or(if model { 20 } else { 1_000 });
    let mut trials = Vec::new();
    if available {
        for (accesses, writes, random) in ACCESSES {
            for lines in LINES {
                let trial = Trial { writes, random, lines, regions, seed };
                trials.push(found(accesses, trial, model.then_some(costs))?);
            }
        }
    }
    let document = Document { command, available, told, seed, regions, trials };
    publish(&outputs, |colours| render(&document, colours), &document, String::new)
}

/// A trial of the model with these costs, or of this processor.
fn found(accesses: &'static str, trial: Trial, model: Option<Costs>) -> Result<Found, Failure> {
    let metrics = match model {
        Some(costs) => regions::run(trial, costs).map_err(|failure| Failure::run(chain(&failure)))?,
        None => trial.run(),
    };
    let figures = RegionFigures::of(metrics);
    Ok(Found {
        accesses,
        lines: trial.lines,
        bytes: trial.lines * LINE,
        committed_share: 1.0 - figures.abort_rate(),
        figures,
    })
}

/// The sentence, and a table for each way of access.
fn render(document: &Document, colours: bool) -> String {
    let mut text = format!("{}\n", document.told);
    for (accesses, ..) in ACCESSES {
        let trials: Vec<&Found> = document.trials.iter().filter(|found| found.accesses == accesses).collect();
        if trials.is_empty() {
            continue;
        }
        let mut table = empty(colours);
        let reasons = RegionFigures::default().aborted().map(|(reason, _)| reason.to_owned());
        let titles = [format!("{accesses}: lines"), "KiB".to_owned(), "committed".to_owned()];
        table.set_header(titles.into_iter().chain(reasons));
        for found in trials {
            let share = |count: u64| percent(count as f64 / found.figures.begun().max(1) as f64);
            let shown = [
                found.lines.to_string(),
                format!("{:.1}", found.bytes as f64 / 1024.0),
                percent(found.committed_share),
            ];
            table.add_row(shown.into_iter().chain(found.figures.aborted().map(|(_, count)| share(count))));
        }
        align(&mut table, 1);
        text += &format!("\n{}", lines(&table));
    }
    text
}
