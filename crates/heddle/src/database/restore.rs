//! `heddle restore`: a directory as of an earlier moment, made of a copy or of a database that is closed.

use crate::failure::{Failure, chain};
use crate::log::show;
use crate::progress::Progress;
use crate::report::table::paint;
use crate::terminal::terminal_with_colours;
use clap::Args;
use heddledb::internals::copies::instant;
use heddledb::{Error, LogError, Restore};
use serde::Serialize;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::SystemTime;

/// Arguments of `heddle restore`.
#[derive(Args, Debug)]
pub struct RestoreArguments {
    /// The directory of the copy, or of a database that is closed
    #[arg(value_name = "COPY")]
    copy: PathBuf,
    /// The directory to be made, which is missing or empty
    #[arg(value_name = "NEW")]
    to: PathBuf,
    /// As of this moment: 2026-11-24T10:00:00Z, 2026-11-24T11:00:00+01:00
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "epoch")]
    at: Option<SystemTime>,
    /// As of the end of this epoch
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
    /// Print what was restored as JSON
    #[arg(long)]
    json: bool,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Without a moment it is as of the latest commit. `heddle verify COPY` tells the first moment and the last; continue a copy with
`heddle backup --incremental` to move the last one on. With --at it holds nothing that was committed later, and lacks at most
what was committed in the two epochs before, which are 20 milliseconds. The copy stays as it is, and the new directory
is a database of its own. No rows are loaded, and no table types are needed.

Examples:
  heddle restore backups/monday bank-again
  heddle restore backups/monday bank-at-ten --at 2026-11-24T10:00:00Z
  heddle restore backups/monday bank-before --epoch 4711

Exit codes: 0 it is restored, 1 the copy is damaged or writing failed, 2 there is no copy, it is open, it does not reach to
that moment, or the place is not empty.";

/// What was restored.
#[derive(Serialize, Debug)]
struct Restored {
    /// The copy.
    place: String,
    /// The new directory.
    to: String,
    /// The last epoch that it holds.
    epoch: u64,
    /// When that was.
    time: Option<String>,
    /// Commits on top of the rows of the copy's checkpoint.
    transactions: u64,
    /// Bytes of its files.
    bytes: u64,
}

/// A moment as it is written.
fn moment(text: &str) -> Result<SystemTime, String> {
    let parsed = text.parse::<jiff::Timestamp>().and_then(SystemTime::try_from);
    parsed.map_err(|error| {
        format!("{error}; write it with its distance from UTC, like 2026-11-24T10:00:00Z or 2026-11-24T11:00:00+01:00")
    })
}

/// Runs the command.
pub fn restore(arguments: &RestoreArguments) -> Result<(), Failure> {
    let RestoreArguments { copy, to, at, epoch, json } = arguments;
    let mut restore = Restore::from(copy);
    if let Some(at) = at {
        restore = restore.at(*at);
    }
    if let Some(epoch) = epoch {
        restore = restore.epoch(*epoch);
    }
    let progress = Progress::new(1);
    let bar = progress.phase("writing the directory");
    let restore = restore.on_progress(move |told| bar.share(told.bytes as f64 / told.of_bytes.max(1) as f64));
    let report = restore.to(to).map_err(|error| failure(&error))?;
    drop((restore, progress));
    let restored = Restored {
        place: copy.display().to_string(),
        to: to.display().to_string(),
        epoch: report.epoch,
        time: report.time.map(instant),
        transactions: report.transactions,
        bytes: report.bytes,
    };
    let text = match json {
        true => show::json(&restored)?,
        false => {
            let ok = paint("ok", "32;1", terminal_with_colours(&stdout()));
            format!("{ok} {} is restored from {}: {report}\n", restored.to, restored.place)
        }
    };
    // A reader that went away, such as `head`, changes nothing about the directory.
    let _ = stdout().write_all(text.as_bytes());
    Ok(())
}

/// What a failure is: of what was asked for, or of what was found.
pub fn failure(error: &Error) -> Failure {
    let Error::Open(inner) = error else { return Failure::run(chain(error)) };
    match &**inner {
        LogError::NoSuchMoment { .. }
        | LogError::NotEmpty { .. }
        | LogError::NotContinued { .. }
        | LogError::Locked { .. }
        | LogError::CopiedWhileOpen { .. } => Failure::usage(chain(error)),
        LogError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Failure::usage(chain(error))
        }
        _ => Failure::run(chain(error)),
    }
}
