//! `heddle sim hunt` and `heddle sim replay`: searches for bugs in simulation, and one of its runs step by step.

use super::blocks::{self, Search};
use crate::arguments::protocols;
use crate::failure::Failure;
use crate::progress::Progress;
use clap::Args;
use heddledb::protocol::Kind;
use heddledb_simulator::search::{self, Faults, ReplayOptions, Spec};
use std::io::{self, BufRead, Write, stdin, stdout};
use std::time::{Duration, Instant};

/// Arguments of `heddle sim hunt`.
#[derive(Args, Debug)]
pub struct HuntArguments {
    /// Protocols, by commas; `all` searches every one that can have two workers
    #[arg(long, short, value_name = "NAME,..", value_delimiter = ',', default_value = "all")]
    pub protocol: Vec<String>,
    /// What goes wrong besides the schedule, by commas: none, stall (workers stand still), kill (they die), disk
    /// (a log on a disk that fails and loses power), change (procedures come and go), all
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', default_value = "all")]
    pub faults: Vec<String>,
    /// The first seed
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Simulations of each protocol under each kind of faults
    #[arg(long, value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u64).range(1..))]
    pub simulations: u64,
    /// Search each for so long instead
    #[arg(long, value_name = "S", value_parser = crate::arguments::seconds, conflicts_with = "simulations")]
    pub seconds: Option<f64>,
    /// Search in this process, and tell it to the one that started it
    #[arg(long, hide = true)]
    pub block: bool,
}

/// Examples for `heddle sim hunt --help`.
pub const HUNT_EXAMPLES: &str = "\
Each seed is a small program of a few workers, a schedule, delays and faults. What happens is held against what
is promised: invariants, serializability as two checkers see it, and after a crash what was acknowledged.
A failure prints a smaller one of its kind, and the command that replays it. All cores search.

Examples:
  heddle sim hunt
  heddle sim hunt --protocol silo,tictoc --faults none,kill --seed 100000 --simulations 50000
  heddle sim hunt --protocol tictoc --faults disk --seconds 600";

/// Arguments of `heddle sim replay`.
#[derive(Args, Debug)]
pub struct ReplayArguments {
    /// The simulation, as a hunt names it: PROTOCOL/SEED or PROTOCOL/FAULTS/SEED
    pub spec: Spec,
    /// From this step on
    #[arg(long, value_name = "STEP")]
    pub from: Option<u64>,
    /// Up to this step
    #[arg(long, value_name = "STEP")]
    pub to: Option<u64>,
    /// Only this worker
    #[arg(long, value_name = "N")]
    pub worker: Option<usize>,
    /// Only words whose names contain this, as in `history_ordered[3]`
    #[arg(long, value_name = "TEXT")]
    pub record: Option<String>,
    /// Words without a name, too
    #[arg(long)]
    pub unnamed: bool,
    /// Stop after each line until Enter is pressed
    #[arg(long)]
    pub step: bool,
}

/// Examples for `heddle sim replay --help`.
pub const REPLAY_EXAMPLES: &str = "\
Examples:
  heddle sim replay silo/4711
  heddle sim replay tictoc/kill/12 --worker 1 --step
  heddle sim replay no-wait/disk/7~2.1.0.5 --record 'history_ordered[3]' --from 400 --to 600";

/// Searches. True if nothing was found.
pub fn hunt(arguments: &HuntArguments) -> Result<bool, Failure> {
    let several: Vec<Kind> = Kind::ALL.iter().copied().filter(|kind| kind.sessions_max() > 1).collect();
    let (kinds, _) = protocols(&arguments.protocol, &several)?;
    let (faults, _) = protocols(&arguments.faults, &Faults::ALL)?;
    let HuntArguments { seed, simulations, seconds, .. } = *arguments;
    if arguments.block {
        let blocks = kinds.iter().flat_map(|kind| faults.iter().map(|faults| (*kind, *faults)));
        for (kind, faults) in blocks {
            blocks::run(kind, faults, seed, simulations)
                .map_err(|error| Failure::run(format!("what was found cannot be told: {error}")))?;
        }
        return Ok(true);
    }
    let budget = seconds.map_or(Ok(simulations), |seconds| Err(Duration::from_secs_f64(seconds)));
    let mut lawful = true;
    let progress = Progress::new(kinds.len() * faults.len());
    for kind in kinds {
        for &faults in &faults {
            let bar = progress.phase(&format!("{kind}, faults: {faults}"));
            let begun = Instant::now();
            let found = blocks::search(Search { kind, faults, seed, budget }, &|done, elapsed| {
                bar.share(match seconds {
                    Some(seconds) => elapsed.as_secs_f64() / seconds,
                    None => done.progress.simulations as f64 / simulations as f64,
                });
            })?;
            drop(bar);
            let done = found.progress;
            progress.finished(&format!(
                "{:14} {:6} {:8} simulations {:10} steps {:8} commits {:6} stuck {:7.1} s  {}",
                kind.name(),
                faults.name(),
                done.simulations,
                done.steps,
                done.commits,
                done.stuck,
                begun.elapsed().as_secs_f64(),
                if found.finding.is_some() { "FOUND a violation" } else { "nothing found" },
            ));
            if let Some((_, finding)) = found.finding {
                lawful = false;
                println!("{finding}");
            }
        }
    }
    Ok(lawful)
}

/// Replays. True if it was lawful.
pub fn replay(arguments: &ReplayArguments) -> Result<bool, Failure> {
    let ReplayArguments { spec, from, to, worker, record, unnamed, step } = arguments;
    let options =
        ReplayOptions { from: *from, to: *to, worker: *worker, record: record.clone(), unnamed: *unnamed };
    let mut lines = Lines { wait: *step };
    match search::replay(*spec, &options, &mut lines) {
        Ok(verdict) => Ok(verdict.violation.is_none()),
        // A reader that went away, such as `head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(Failure::run(format!("the trace cannot be written: {error}"))),
    }
}

/// The standard output, line by line if one wants.
struct Lines {
    wait: bool,
}

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        stdout().write_all(text)?;
        if self.wait && text.ends_with(b"\n") {
            stdout().flush()?;
            // At the end of the input the rest is written at once.
            self.wait = stdin().lock().read_line(&mut String::new())? > 0;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        stdout().flush()
    }
}
