//! `heddle backup`: a copy of a directory that no database has open, or what continues one.

use super::open::{Access, OpenedDirectory, open};
use crate::failure::{Failure, chain};
use crate::log::show;
use crate::progress::Progress;
use crate::report::table::paint;
use crate::terminal::terminal_with_colours;
use clap::Args;
use heddledb::Backup;
use heddledb::internals::copies::{Carried, continue_closed};
use heddledb::storage::{Disk, ReadOnly};
use serde::Serialize;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Arguments of `heddle backup`.
#[derive(Args, Debug)]
pub struct BackupArguments {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The directory of the copy, which is missing or empty; with --incremental that of the copy that is there
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// Write at most so many mebibytes a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    mib_per_second: Option<u64>,
    /// Add the log since to the copy that is there, instead of taking a full one
    #[arg(long)]
    incremental: bool,
    /// Copy it even if it was copied file by file while it was open
    #[arg(long)]
    accept_copy: bool,
    /// Print what was copied as JSON
    #[arg(long)]
    json: bool,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Every file is checked, the rows are loaded as an opening would, and written to the copy: the log's commits are in
its rows, and what was deleted is not. The directory stays as it is. It needs memory for all rows, and no
table types. With --incremental the log that the copy lacks is added to it, and no rows are loaded; where the link between the
two is broken, the copy stays as it is, and a full one is due. A database that is open is copied by its program, with `Database::backup`, beside all that it does.

Examples:
  heddle backup bank backups/monday
  heddle backup bank backups/monday --mib-per-second 50
  heddle backup --incremental bank backups/monday
  heddle verify backups/monday

Exit codes: 0 there is a copy, 1 the directory is damaged or the copy failed, 2 there is no database, it is open,
the place for the copy is not empty, or the copy cannot be continued.";

/// What was copied.
#[derive(Serialize, Debug)]
struct Copied {
    /// The directory.
    place: String,
    /// The copy.
    to: String,
    /// The last epoch that it holds.
    epoch: u64,
    /// Rows of all tables and indexes; 0 where a copy was continued.
    rows: u64,
    /// Commits that were added to a copy that was there.
    transactions: u64,
    /// Bytes of its files.
    bytes: u64,
    /// How long it took, without the check of the files.
    seconds: f64,
}

/// Runs the command.
pub fn backup(arguments: &BackupArguments) -> Result<(), Failure> {
    let BackupArguments { directory, to, mib_per_second, incremental, accept_copy, json } = arguments;
    if *incremental {
        return continued(arguments);
    }
    refuse_place(to)?;
    let OpenedDirectory { place, db, .. } = &open(directory, Access::Read, *accept_copy)?;
    let progress = Progress::new(1);
    let bar = progress.phase("writing the copy");
    let copy = Backup::to(to).on_progress(move |told| {
        bar.share(told.relations as f64 / told.of_relations.max(1) as f64);
    });
    let copy = match mib_per_second {
        Some(mebibytes) => copy.bytes_per_second(mebibytes.saturating_mul(1 << 20)),
        None => copy,
    };
    let report = db.backup(copy).map_err(|error| Failure::run(chain(&error)))?;
    drop(progress);
    let copied = Copied {
        place: place.clone(),
        to: to.display().to_string(),
        epoch: report.epoch,
        rows: report.rows,
        transactions: 0,
        bytes: report.bytes,
        seconds: report.elapsed.as_secs_f64(),
    };
    let text = match json {
        true => show::json(&copied)?,
        false => {
            let ok = paint("ok", "32;1", terminal_with_colours(&stdout()));
            format!("{ok} {} is copied to {}: {report}\n", copied.place, copied.to)
        }
    };
    // A reader that went away, such as `head`, changes nothing about the copy.
    let _ = stdout().write_all(text.as_bytes());
    Ok(())
}

/// Continues a copy, files to files.
fn continued(arguments: &BackupArguments) -> Result<(), Failure> {
    let BackupArguments { directory, to, mib_per_second, accept_copy, json, .. } = arguments;
    let begun = Instant::now();
    let unusable = |path: &Path, what: String| Failure::usage(format!("{} {what}", path.display()));
    for path in [directory, to] {
        if !path.is_dir() {
            return Err(unusable(
                path,
                "is no directory; name that of a database and that of its copy".to_owned(),
            ));
        }
    }
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| unusable(&path, format!("cannot be read ({error})"))
    };
    let source = Disk::open_to_read(directory).map_err(unreadable(directory))?;
    let source = ReadOnly::new(Arc::new(source.accept_copy(*accept_copy)));
    let copy = Disk::open(to).map_err(unreadable(to))?;
    let progress = Progress::new(1);
    let bar = progress.phase("adding the log");
    let mut pace = |carried: Carried| {
        bar.message(format!("{} transactions, {} bytes", carried.transactions, carried.bytes));
        if let Some(mebibytes) = mib_per_second {
            let due = Duration::from_secs_f64(carried.bytes as f64 / (mebibytes << 20) as f64);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let continued = continue_closed(&source, &copy, threads, &mut pace)
        .map_err(|error| super::restore::failure(&error.into()))?;
    drop((bar, progress));
    let copied = Copied {
        place: directory.display().to_string(),
        to: to.display().to_string(),
        epoch: continued.epoch,
        rows: 0,
        transactions: continued.carried.transactions,
        bytes: continued.carried.bytes,
        seconds: begun.elapsed().as_secs_f64(),
    };
    let text = match json {
        true => show::json(&copied)?,
        false => {
            let ok = paint("ok", "32;1", terminal_with_colours(&stdout()));
            let Copied { place, to, epoch, transactions, bytes, .. } = &copied;
            format!(
                "{ok} {to} is continued with the log of {place}: {transactions} transactions, {bytes} bytes, as of epoch {epoch}\n"
            )
        }
    };
    // A reader that went away, such as `head`, changes nothing about the copy.
    let _ = stdout().write_all(text.as_bytes());
    Ok(())
}

/// Refuses a place that the copy cannot go to, before anything is loaded.
fn refuse_place(to: &Path) -> Result<(), Failure> {
    let unusable = |what: String| Err(Failure::usage(format!("{} {what}", to.display())));
    match std::fs::read_dir(to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let parent = std::path::absolute(to).ok().and_then(|to| Some(to.parent()?.is_dir()));
            match parent {
                Some(false) => unusable("has no directory to be in; make that first".to_owned()),
                _ => Ok(()),
            }
        }
        Err(error) => unusable(format!("cannot be read: {error}")),
        Ok(entries) => {
            let mut names = entries.flatten().map(|entry| entry.file_name());
            match names.find(|name| name != "LOCK" && name != "lost+found") {
                None => Ok(()),
                Some(found) => unusable(format!(
                    "holds {}, and a backup is made in a directory of its own; name one that is missing or empty",
                    found.display()
                )),
            }
        }
    }
}
