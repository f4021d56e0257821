//! `heddle backup`: a copy of a directory that no database has open.

use super::open::{Access, OpenedDirectory, open};
use crate::failure::{Failure, chain};
use crate::log::show;
use crate::progress::Progress;
use crate::report::table::paint;
use crate::terminal::terminal_with_colours;
use clap::Args;
use heddledb::Backup;
use serde::Serialize;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

/// Arguments of `heddle backup`.
#[derive(Args, Debug)]
pub struct BackupArguments {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The directory of the copy, which is missing or empty
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// Write at most so many mebibytes a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    mib_per_second: Option<u64>,
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
table types. A database that is open is copied by its program, with `Database::backup`, beside all that it does.

Examples:
  heddle backup bank backups/monday
  heddle backup bank backups/monday --mib-per-second 50
  heddle verify backups/monday

Exit codes: 0 there is a copy, 1 the directory is damaged or the copy failed, 2 there is no database, it is open,
or the place for the copy is not empty.";

/// What was copied.
#[derive(Serialize, Debug)]
struct Copied {
    /// The directory.
    place: String,
    /// The copy.
    to: String,
    /// The last epoch that it holds.
    epoch: u64,
    /// Rows of all tables and indexes.
    rows: u64,
    /// Bytes of its files.
    bytes: u64,
    /// How long it took, without the check of the files.
    seconds: f64,
}

/// Runs the command.
pub fn backup(arguments: &BackupArguments) -> Result<(), Failure> {
    let BackupArguments { directory, to, mib_per_second, accept_copy, json } = arguments;
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
