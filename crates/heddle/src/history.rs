//! `heddle history`: runs the check crate's random transactions under a protocol and records what
//! they saw and did.

use crate::failure::{Failure, chain};
use crate::progress::Progress;
use clap::Args;
use heddledb::protocol::Kind;
use heddledb_check::history::Status;
use heddledb_check::workload::{self, Plan};
use std::fs::File;
use std::io::{BufWriter, stdout};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Arguments of `heddle history`.
#[derive(Args, Debug)]
pub struct HistoryArguments {
    /// The protocol
    #[arg(long, short, value_name = "NAME", default_value = "silo")]
    pub protocol: String,
    /// Committed transactions
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub transactions: u64,
    /// Threads, with a session each
    #[arg(long, short, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: u16,
    /// Seed of the transactions; how threads interleave is up to the machine
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Keys of each of the two tables in use at a time; fewer make more conflicts [default: 12]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub keys: Option<u64>,
    /// Procedure types, drawn from the seed; most transactions are then calls of them
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u16).range(0..=64))]
    pub programs: u16,
    /// Where the history goes; `-` is the standard output
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Examples:
  heddle history --protocol silo --transactions 100000 --threads 2 --seed 7 --out history.jsonl
  heddle check history.jsonl
  heddle history --protocol ic3 --programs 4 --out history.jsonl
  heddle history --protocol tictoc --keys 3 --out - | heddle check -";

/// Runs the command.
pub fn history(arguments: &HistoryArguments) -> Result<(), Failure> {
    if arguments.protocol == "all" {
        return Err(Failure::usage("a history is of one protocol; name it instead of all"));
    }
    let kind: Kind = arguments.protocol.parse().map_err(|error| Failure::usage(format!("{error}")))?;
    let (threads, most) = (usize::from(arguments.threads), kind.sessions_max());
    if threads > most {
        let message = format!("{kind} cannot run on {threads} threads; --threads is at most {most} for it");
        return Err(Failure::usage(message));
    }
    if arguments.transactions < threads as u64 {
        let message = format!(
            "{threads} threads cannot share fewer transactions; give --transactions {threads} or more"
        );
        return Err(Failure::usage(message));
    }
    // Opened first, so that a wrong name is found before the work and not after it.
    let path = arguments.out.display();
    let standard = arguments.out.as_os_str() == "-";
    let file = if standard { None } else { Some(File::create(&arguments.out)) };
    let file = file.transpose().map_err(|error| {
        Failure::usage(format!(
            "--out {path} cannot be written ({error}); name a file in a folder that exists"
        ))
    })?;

    let keys = arguments.keys.unwrap_or(Plan::default().keys);
    let plan = Plan {
        threads,
        transactions: arguments.transactions,
        seed: arguments.seed,
        keys,
        programs: arguments.programs.into(),
        ..Plan::default()
    };
    let progress = Progress::new(1);
    let bar = progress.phase("recording");
    let done = AtomicU64::new(0);
    let recorded = workload::run(kind, &plan, &|more| {
        let sum = done.fetch_add(more, Ordering::Relaxed) + more;
        bar.share(sum as f64 / plan.transactions as f64);
    });
    drop((bar, progress));
    let history = recorded.map_err(|error| Failure::run(chain(&error)))?;
    let written = match file {
        Some(file) => history.write(BufWriter::new(file)),
        None => history.write(stdout().lock()),
    };
    written.map_err(|error| Failure::run(format!("{path} cannot be written: {error}")))?;
    let aborted = history.attempts.iter().filter(|attempt| attempt.status == Status::Aborted).count();
    let committed = history.attempts.len() - aborted;
    let place = if standard { String::new() } else { format!("; wrote {path}") };
    eprintln!("{kind}: {committed} transactions committed, {aborted} attempts aborted{place}");
    Ok(())
}
