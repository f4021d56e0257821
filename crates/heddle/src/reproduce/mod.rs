//! `heddle reproduce`: the evaluation of a paper again, figure by figure, with a verdict on each of its
//! claims.
//!
//! A paper is data: its figures with the settings of their points, and its claims with functions that judge
//! them by the results. Points run as those of `heddle sim` and `heddle bench` do, and each setting once,
//! however many figures show it.
//!
//! | room | what |
//! |---|---|
//! | `figure` | papers, figures, claims and verdicts |
//! | `papers` | the register of them |
//! | `dbx_tc`, `dgcc`, `drp`, `ic3`, `tictoc` | the papers |
//! | `settings` | what their figures have in common |
//! | `run` | runs what figures need, and judges |
//! | `table`, `page` | the report in the terminal and as a page |
//! | `arguments` | which figures are wanted |

pub mod arguments;
mod dbx_tc;
mod dgcc;
mod drp;
mod figure;
mod ic3;
mod page;
mod papers;
mod run;
mod settings;
mod table;
mod tictoc;

use crate::failure::Failure;
use crate::machine;
use crate::report::outputs;
use crate::sim::unhurried;
use arguments::ReproduceArguments;
use figure::Scope;
use papers::PAPERS;
use run::Plan;
use std::io::Write;

/// Runs the command. True if every run completed and every check held.
pub fn reproduce(arguments: &ReproduceArguments, command: String) -> Result<bool, Failure> {
    let scope = Scope { quick: arguments.quick, threads: machine::cores().len().max(1) };
    if arguments.list {
        // A reader that went away is no failure.
        let _ = std::io::stdout().write_all(list(&scope)?.as_bytes());
        return Ok(true);
    }
    let paper = arguments.paper()?;
    let figures = arguments.chosen((paper.figures)(&scope)?)?;
    let outputs = arguments.outputs();
    outputs.probe()?;
    let plan = Plan {
        seed: arguments.seed,
        jobs: usize::from(arguments.jobs),
        directory: arguments.dir.clone().unwrap_or_else(std::env::temp_dir),
        quick: arguments.quick,
    };
    let document = run::reproduce(paper, &figures, &plan, unhurried(&command))?;
    outputs::publish(
        &outputs,
        |colours| table::render(&document, colours),
        &document,
        || page::page(&document),
    )?;
    Ok(document.failures().is_empty())
}

/// The papers and their figures, a line each.
fn list(scope: &Scope) -> Result<String, Failure> {
    let mut text = String::new();
    for paper in PAPERS {
        text += &format!("{}: {}\n  {}\n", paper.name, paper.title, paper.about);
        for figure in (paper.figures)(scope)? {
            text += &format!("  {:<16}{} ({})\n", figure.id, figure.title, figure.section);
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::figure::{Axis, Dot, Judgement, Line, Measure, Results, Verdict};
    use super::run::{Document, Found};
    use super::*;
    use crate::report::html::chart::Spacing;
    use std::collections::BTreeSet;

    /// A document of two figures, with every verdict and a failed point.
    pub fn sample() -> Document {
        let judgement = |claim: &str, measured: &str, verdict, reason: &str| Judgement {
            claim: claim.into(),
            measured: measured.into(),
            verdict,
            reason: reason.into(),
        };
        let line = |name: &str, values: [f64; 2]| Line {
            name: name.into(),
            measure: Measure::Throughput,
            points: (1..)
                .zip(values)
                .map(|(x, value)| Dot { x: f64::from(x), value: Some(value), ..Dot::default() })
                .collect(),
        };
        let mut lines = vec![line("a", [1e3, 2e3]), line("b", [2e3, 1e3])];
        lines[1].points[1] =
            Dot { value: None, failed: Some("a check: 1 != 2".into()), ..lines[1].points[1].clone() };
        let drawn = Axis { name: "virtual cores", spacing: Spacing::Logarithmic };
        let curves = Found {
            id: "7a".into(),
            title: "Something by cores".into(),
            section: "§1.2".into(),
            axis: drawn.name.into(),
            drawn,
            results: Results { lines, ..Results::default() },
            table: Vec::new(),
            drawing: String::new(),
            notes: vec!["smaller tables".into()],
            claims: vec![
                judgement("it doubles", "2.0 times", Verdict::Reproduced, ""),
                judgement("so does the other", "0.5 times", Verdict::NotReproduced, "the memory is slow"),
                judgement("in the sun too", "", Verdict::Unreachable, "there is none"),
            ],
        };
        let study = Found {
            id: "table9".into(),
            title: "A <study>".into(),
            results: Results::default(),
            table: vec![vec!["name".into(), "count".into()], vec!["one".into(), "1".into()]],
            claims: Vec::new(),
            ..curves.clone()
        };
        Document {
            command: "heddle reproduce sample".into(),
            paper: "sample".into(),
            title: "A paper".into(),
            about: "by somebody".into(),
            seed: 1,
            virtual_machine: None,
            machine: None,
            notes: Vec::new(),
            figures: vec![curves, study],
        }
    }

    #[test]
    fn figures_are_complete_and_named_once() {
        for quick in [false, true] {
            for paper in PAPERS {
                let figures = (paper.figures)(&Scope { quick, threads: 2 }).unwrap();
                let names: BTreeSet<&str> = figures.iter().map(|figure| figure.id).collect();
                assert_eq!(names.len(), figures.len());
                for figure in &figures {
                    assert!(!figure.claims.is_empty(), "{}", figure.id);
                    // Without results nothing is reproduced, and nobody panics.
                    for claim in &figure.claims {
                        let verdict = claim.judged(&Results::default()).verdict;
                        assert!(
                            matches!(verdict, Verdict::Unreachable | Verdict::NotMeasured),
                            "{}",
                            figure.id
                        );
                    }
                }
            }
        }
    }
}
