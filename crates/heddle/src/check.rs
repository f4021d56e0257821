//! `heddle check`: judges a history file.

use crate::failure::Failure;
use crate::report::table::paint;
use crate::terminal::terminal_with_colours;
use clap::Args;
use heddledb_check::checker::{Anomaly, Verdict, check as judge};
use heddledb_check::elle::{self, Opinion};
use heddledb_check::history::{History, Status};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Write, stdin, stdout};
use std::path::{Path, PathBuf};

/// Arguments of `heddle check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// The history, as `heddle history` writes it; `-` is the standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Demand an order that agrees with real time, even if the history's protocol does not claim it
    #[arg(long)]
    pub strict: bool,
    /// Leave out the second opinion, that of the independent checker `adya`
    #[arg(long)]
    pub alone: bool,
    /// Print the judgement as JSON
    #[arg(long)]
    pub json: bool,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
A history of a protocol that claims strict serializability is always judged for it.

Examples:
  heddle history --protocol tictoc --transactions 100000 --threads 2 --out history.jsonl
  heddle check history.jsonl
  heddle check history.jsonl --strict --json

Exit codes: 0 no anomaly, 1 an anomaly was found, 2 the file is no history.";

/// The judgement as JSON.
#[derive(Serialize)]
struct Judgement<'a> {
    ok: bool,
    protocol: &'a str,
    seed: u64,
    strict: bool,
    attempts: usize,
    transactions: usize,
    /// Those that ran while one of another session did.
    concurrent: usize,
    edges: usize,
    ambiguous: usize,
    anomalies: Vec<Told>,
    /// What the independent checker says; absent with `--alone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    second_opinion: Option<SecondOpinion>,
}

/// The independent checker's judgement as JSON.
#[derive(Serialize)]
struct SecondOpinion {
    ok: bool,
    anomalies: Vec<String>,
}

/// An anomaly as JSON.
#[derive(Serialize)]
struct Told {
    class: &'static str,
    explanation: String,
}

/// Runs the command. True if the history is lawful.
pub fn check(arguments: &CheckArguments) -> Result<bool, Failure> {
    let history = read(&arguments.file)?;
    let strict = arguments.strict || history.header.strict;
    let verdict = judge(&history, strict);
    let second = (!arguments.alone).then(|| elle::judge(&history, strict));
    let text = if arguments.json {
        json(&history, strict, &verdict, second.as_ref())?
    } else {
        words(&history, strict, &verdict, second.as_ref(), terminal_with_colours(&stdout()))
    };
    // A reader that went away, such as `head`, changes nothing about the history.
    let _ = stdout().write_all(text.as_bytes());
    Ok(lawful(&verdict, second.as_ref()))
}

/// Whether neither checker found anything.
fn lawful(verdict: &Verdict, second: Option<&Opinion>) -> bool {
    verdict.ok() && second.is_none_or(|opinion| opinion.ok)
}

fn read(path: &Path) -> Result<History, Failure> {
    let history = if path.as_os_str() == "-" {
        History::read(stdin().lock())
    } else {
        let file = File::open(path).map_err(|error| {
            let path = path.display();
            Failure::usage(format!(
                "{path} cannot be read ({error}); name a file that `heddle history` has written"
            ))
        })?;
        History::read(BufReader::new(file))
    };
    history.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

fn json(
    history: &History,
    strict: bool,
    verdict: &Verdict,
    second: Option<&Opinion>,
) -> Result<String, Failure> {
    let told = |anomaly: &Anomaly| Told { class: anomaly.class, explanation: anomaly.explanation.clone() };
    let judgement = Judgement {
        ok: lawful(verdict, second),
        protocol: &history.header.protocol,
        seed: history.header.seed,
        strict,
        attempts: history.attempts.len(),
        transactions: verdict.transactions,
        concurrent: verdict.concurrent,
        edges: verdict.edges,
        ambiguous: verdict.ambiguous,
        anomalies: verdict.anomalies.iter().map(told).collect(),
        second_opinion: second
            .map(|opinion| SecondOpinion { ok: opinion.ok, anomalies: opinion.anomalies.clone() }),
    };
    let text = serde_json::to_string_pretty(&judgement);
    Ok(text.map_err(|error| Failure::run(format!("the judgement cannot be written as JSON: {error}")))?
        + "\n")
}

/// The judgement in words. The steps of a cycle stand on lines of their own.
fn words(
    history: &History,
    strict: bool,
    verdict: &Verdict,
    second: Option<&Opinion>,
    colours: bool,
) -> String {
    let sessions: BTreeSet<u32> = history.attempts.iter().map(|attempt| attempt.session).collect();
    let aborted = history.attempts.iter().filter(|attempt| attempt.status == Status::Aborted).count();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}, seed {}: {} transactions of {} sessions committed, {} of them while another session's ran, \
         {aborted} attempts aborted",
        history.header.protocol,
        history.header.seed,
        verdict.transactions,
        sessions.len(),
        verdict.concurrent
    );
    let order = if strict { "strict serializability" } else { "serializability" };
    let _ = writeln!(
        text,
        "judged for {order}: {} dependencies, {} unclear absences",
        verdict.edges, verdict.ambiguous
    );
    for anomaly in &verdict.anomalies {
        let _ = writeln!(text, "\n{}", paint(anomaly.class, "31;1", colours));
        for step in anomaly.explanation.split("; ") {
            let _ = writeln!(text, "  {step}");
        }
    }
    match second {
        Some(opinion) if opinion.ok => text += "second opinion (adya): no anomaly\n",
        Some(opinion) => {
            let _ = writeln!(text, "second opinion (adya): {}", opinion.anomalies.join(", "));
            let _ = writeln!(text, "  {}", opinion.explanation);
        }
        None => {}
    }
    if lawful(verdict, second) {
        let order = if strict { ", in an order that agrees with real time" } else { "" };
        let _ = writeln!(text, "{} serializable{order}", paint("ok", "32;1", colours));
    } else {
        let count = verdict.anomalies.len();
        let noun = if count == 1 { "anomaly" } else { "anomalies" };
        let _ = writeln!(
            text,
            "\n{} {count} {noun} (at most a few of each kind are told); Tn is on line n + 2 of the file",
            paint("FAILED", "31;1", colours)
        );
    }
    text
}
