//! `heddle log`: looks at the directory of a database, and judges it, without the program that wrote it.

mod examine;
mod files;
pub mod show;
pub mod told;

use crate::failure::{Failure, chain};
use crate::progress::Progress;
use crate::terminal::terminal_with_colours;
use clap::{Args, Subcommand};
use examine::{Refusal, bytes_to_read, examine};
use files::ReadOnly;
use heddledb::storage::{CopiedWhileOpen, Disk, Guard, Storage};
use std::io::{self, BufWriter, ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use told::{Examined, Names, See, Told};

/// Arguments of `heddle log`.
#[derive(Args, Debug)]
pub struct LogArguments {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Subcommand, Debug)]
enum LogCommand {
    /// Show what a database's directory holds: manifest, checkpoint, generations, files
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(InspectArguments),
    /// Check a database's directory as an opening would, without changing anything
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArguments),
}

#[derive(Args, Debug)]
struct InspectArguments {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print every transaction too: relations, keys in hex words, column groups
    #[arg(long)]
    transactions: bool,
    /// Print JSON; with --transactions an object a line, the directory's last
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct VerifyArguments {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print everything that was found as JSON
    #[arg(long)]
    json: bool,
    /// Check it even if it was copied file by file while it was open
    #[arg(long)]
    accept_copy: bool,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Both commands only read. They need no table types, and get as far as they can in a damaged directory.

Examples:
  heddle log inspect bank
  heddle log verify bank";

const INSPECT_EXAMPLES: &str = "\
What is damaged is shown too, with exit code 0 all the same: `heddle log verify` judges.
A key is printed as the words that order it: 5 as 0000000000000005, an i64 with its sign bit flipped.

Examples:
  heddle log inspect bank
  heddle log inspect bank --transactions | grep account
  heddle log inspect bank --json

Exit codes: 0 shown, 2 there is no database.";

const VERIFY_EXAMPLES: &str = "\
Every checksum of every file that counts is checked, every round, entry and row. A torn tail is no damage:
it was being written when the writer stopped, and nobody had been told that it is durable.

Examples:
  heddle log verify bank
  heddle log verify bank --json

Exit codes: 0 whole, 1 damaged, 2 there is no database, or it is open.";

/// Runs the command. True unless something is damaged.
pub fn log(arguments: &LogArguments) -> Result<bool, Failure> {
    match &arguments.command {
        LogCommand::Inspect(inspect) => inspected(inspect).map(|()| true),
        LogCommand::Verify(verify) => verified(verify),
    }
}

fn inspected(arguments: &InspectArguments) -> Result<(), Failure> {
    let mut out = BufWriter::new(stdout().lock());
    // A reader that went away, such as `head`, ends the list and nothing else.
    let mut print = |names: &Names, told: &Told<'_>| {
        let line = match arguments.json {
            true => show::transaction_json(names, told),
            false => show::transaction(names, told),
        };
        out.write_all(line.as_bytes()).is_ok()
    };
    let see: See<'_> = if arguments.transactions { Some(&mut print) } else { None };
    let examined = look(&arguments.directory, Allowed { in_use: true, copied: true }, see)?;
    let text = match (arguments.json, arguments.transactions) {
        (true, true) => show::line(&examined),
        (true, false) => show::json(&examined),
        (false, list) => {
            let gap = if list { "\n" } else { "" };
            Ok(format!("{gap}{}", show::directory(&examined, terminal_with_colours(&stdout()))))
        }
    };
    let _ = out.write_all(text?.as_bytes()).and_then(|()| out.flush());
    Ok(())
}

fn verified(arguments: &VerifyArguments) -> Result<bool, Failure> {
    let examined =
        look(&arguments.directory, Allowed { copied: arguments.accept_copy, ..Allowed::default() }, None)?;
    let text = match arguments.json {
        true => show::json(&examined)?,
        false => show::judgement(&examined, terminal_with_colours(&stdout())),
    };
    let _ = stdout().write_all(text.as_bytes());
    Ok(examined.whole)
}

/// Which directories are looked at that others would not open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    /// Those that another database has open.
    pub in_use: bool,
    /// Those that were copied file by file while they were open.
    pub copied: bool,
}

/// Goes through the directory, under a bar on the standard error stream.
///
/// # Errors
/// There is no database, or one that is not allowed.
pub fn look(directory: &Path, allowed: Allowed, see: See<'_>) -> Result<Examined, Failure> {
    let place = directory.display();
    let no_database = || {
        Failure::usage(format!(
            "{place} holds no database; name the directory that was given to `Builder::path`"
        ))
    };
    let unreadable = |error: io::Error| {
        Failure::usage(format!("{place} cannot be read ({error}); name the directory of a database"))
    };
    if !std::fs::metadata(directory).map_err(unreadable)?.is_dir() {
        return Err(Failure::usage(format!("{place} is no directory; name that of a database")));
    }
    let disk = Arc::new(Disk::open_to_read(directory).map_err(unreadable)?.accept_copy(allowed.copied));
    let total = bytes_to_read(&*disk).max(1);
    // Of a list on the same terminal, a bar would be in the way.
    let progress = see.is_none().then(|| Progress::new(1));
    let bar = progress.as_ref().map(|progress| progress.phase("reading"));
    let tell = move |read: u64| {
        if let Some(bar) = &bar {
            bar.share(read as f64 / total as f64);
        }
    };
    let storage = ReadOnly::new(disk, Arc::new(tell));
    let guard: Option<Box<dyn Guard>> = match storage.lock() {
        Ok(guard) => Some(guard),
        Err(error) if error.kind() == ErrorKind::WouldBlock && allowed.in_use => None,
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            return Err(Failure::usage(format!("{place} is open in a database; close that first")));
        }
        Err(error) if error.get_ref().is_some_and(|inner| inner.is::<CopiedWhileOpen>()) => {
            return Err(Failure::usage(format!(
                "{place} was copied while a database had it open, or after that was killed, so its files may be of different \
                 moments; take a backup instead, by `Database::backup`, or by `heddle backup` when it is closed; with --accept-copy it is looked at \
                 all the same"
            )));
        }
        Err(error) => return Err(Failure::usage(format!("{place} cannot be locked ({error})"))),
    };
    let examined = examine(&storage, guard.is_none(), see).map_err(|refusal| match refusal {
        Refusal::NoDatabase => no_database(),
        Refusal::Failed(error) => Failure::usage(chain(&error)),
    });
    drop((storage, progress));
    examined
}
