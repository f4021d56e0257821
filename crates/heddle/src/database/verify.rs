//! `heddle verify`: judges a directory, files and indexes, without the program that wrote it.

use super::open::manifest;
use super::overlay::Overlay;
use super::tables::Tables;
use crate::failure::{Failure, chain};
use crate::log::told::{Examined, Problem};
use crate::log::{Allowed, look, show};
use crate::progress::Progress;
use crate::report::table::{align, empty, lines, paint};
use crate::terminal::terminal_with_colours;
use clap::Args;
use heddledb::internals::BuilderInternals;
use heddledb::internals::log::Standing;
use heddledb::storage::{Disk, ReadOnly};
use heddledb::{CheckReport, Database, Durability, Error, IndexCheck, LogError};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `heddle verify`.
#[derive(Args, Debug)]
pub struct VerifyArguments {
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
Every file is checked as `heddle log verify` does. Then the rows are loaded, as an opening would, and each index
is compared with its table, both ways. Nothing is changed. It needs memory for all rows, and no table types: the
directory says what the columns are. An index of a table with column types that it does not say enough of, as
an option of an option, cannot be compared so, which is told; `Database::check` compares it in that program. Nor can any where
the log holds calls of procedures that are still to be made again: only the program can make them.

Examples:
  heddle verify bank
  heddle verify backups/monday --json

Exit codes: 0 nothing is wrong, 1 something is, 2 there is no database, or it is open.";

/// What was found.
#[derive(Serialize, Debug)]
struct Checked {
    /// The directory.
    place: String,
    /// False where a file is damaged, or an index and its table do not agree.
    whole: bool,
    /// The last epoch that was looked at.
    epoch: u64,
    /// From when to when it can be restored, if its files are whole.
    reach: Option<String>,
    /// Each index.
    indexes: Vec<IndexTold>,
    /// What is damaged or cannot be read. With any, indexes are not compared.
    problems: Vec<Problem>,
}

/// An index and its table.
#[derive(Serialize, Debug)]
struct IndexTold {
    /// The index, behind its table and a dot.
    index: String,
    /// Whether what the files hold of it counts: `whole`, or why it is built at the next opening.
    standing: &'static str,
    /// Whether it was compared with its table.
    compared: bool,
    /// Why it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
    /// Rows of the table.
    rows: u64,
    /// Entries of the index.
    entries: u64,
    /// Rows that have no entry.
    missing: u64,
    /// Entries whose row is not there, or has another entry.
    stray: u64,
    /// Entries that a row should have and that lead to another row.
    wrong: u64,
    /// The first of what is wrong.
    examples: Vec<String>,
}

impl IndexTold {
    fn is_whole(&self) -> bool {
        (self.missing, self.stray, self.wrong) == (0, 0, 0)
    }

    fn verdict(&self, colours: bool) -> String {
        match (self.compared, self.is_whole()) {
            (true, true) => paint("ok", "32;1", colours),
            (true, false) => paint("WRONG", "31;1", colours),
            (false, _) => "not compared".to_owned(),
        }
    }
}

/// Runs the command. True unless something is wrong.
pub fn verify(arguments: &VerifyArguments) -> Result<bool, Failure> {
    let directory = &arguments.directory;
    let examined = look(directory, Allowed { copied: arguments.accept_copy, ..Allowed::default() }, None)?;
    let checked = compared(directory, examined)?;
    let text = match arguments.json {
        true => show::json(&checked)?,
        false => words(&checked, terminal_with_colours(&stdout())),
    };
    // A reader that went away, such as `head`, changes nothing about the directory.
    let _ = stdout().write_all(text.as_bytes());
    Ok(checked.whole)
}

/// Compares the indexes of a directory whose files were examined, if these are whole.
fn compared(directory: &Path, examined: Examined) -> Result<Checked, Failure> {
    let Examined { place, problems, durable_epoch: epoch, reach, .. } = examined;
    let mut checked = Checked { place, whole: false, epoch, reach, indexes: Vec::new(), problems };
    if !checked.problems.is_empty() {
        return Ok(checked);
    }
    let disk = Disk::open_to_read(directory)
        .map_err(|error| Failure::run(format!("{} cannot be read any more ({error})", checked.place)))?
        // Whether it is one is judged by now.
        .accept_copy(true);
    let manifest = manifest(directory, &checked.place)?;
    let tables = Tables::of(&manifest);
    let (report, calls) = match report(ReadOnly::new(Arc::new(disk)), &tables) {
        Ok(report) => (report, None),
        Err(Error::Open(error)) if matches!(*error, LogError::ProcedureChanged { .. }) => {
            let why = "its log holds calls that are still to be made again, which only its program can do; `Database::check` compares it \
                       there";
            (CheckReport::default(), Some(why.to_owned()))
        }
        Err(error) => return Err(Failure::run(chain(&error))),
    };
    for entry in &manifest.relations {
        if entry.index_of().is_none() || entry.standing == Standing::Removed {
            continue;
        }
        let found = report.indexes.iter().find(|index| index.index == entry.name);
        let unknown = tables.uncompared.iter().find(|(name, _)| *name == entry.name);
        let why_not = match (unknown, entry.standing) {
            (Some((_, why)), _) => Some(why.clone()),
            (None, Standing::Unbuilt) => Some("the next opening builds it from the rows".to_owned()),
            (None, _) => calls.clone(),
        };
        checked.indexes.push(told(&entry.name, entry.standing, found, why_not));
    }
    checked.indexes.sort_by(|a, b| a.index.cmp(&b.index));
    checked.whole = checked.indexes.iter().all(IndexTold::is_whole);
    Ok(checked)
}

fn told(name: &str, standing: Standing, found: Option<&IndexCheck>, why_not: Option<String>) -> IndexTold {
    let found = found.filter(|_| why_not.is_none());
    let compared = found.is_some();
    let found = found.cloned().unwrap_or_default();
    IndexTold {
        index: name.to_owned(),
        standing: standing.name(),
        compared,
        why_not,
        rows: found.rows,
        entries: found.entries,
        missing: found.missing,
        stray: found.stray,
        wrong: found.wrong,
        examples: found.examples,
    }
}

/// Loads the rows and compares the indexes, under a bar on the standard error stream.
fn report(below: ReadOnly, tables: &Tables) -> heddledb::Result<CheckReport> {
    let progress = Progress::new(1);
    let bar = progress.phase("loading the rows");
    let tell = move |told: heddledb::RecoveryProgress| bar.share(told.done as f64 / told.total.max(1) as f64);
    let builder = Database::builder().manual_epochs().durability(Durability::None).sessions(1);
    let builder = builder.storage(Arc::new(Overlay::new(below))).keep_indexes().on_recovery(tell);
    let db = tables.declare(builder).open()?;
    let report = db.check()?;
    drop((db, progress));
    Ok(report)
}

/// What was found, in words.
fn words(checked: &Checked, colours: bool) -> String {
    let mut text = String::new();
    for problem in &checked.problems {
        let _ = writeln!(text, "{} {}", paint("DAMAGED", "31;1", colours), problem.message);
    }
    if !checked.indexes.is_empty() {
        let mut table = empty(colours);
        table.set_header(["index", "", "rows", "entries", "no entry", "no row", "leads elsewhere"]);
        for index in &checked.indexes {
            let IndexTold { rows, entries, missing, stray, wrong, .. } = index;
            let figures = [rows, entries, missing, stray, wrong];
            let figure = |figure: &u64| if index.compared { figure.to_string() } else { String::new() };
            let cells = [index.index.clone(), index.verdict(colours)];
            table.add_row(cells.into_iter().chain(figures.map(figure)));
        }
        align(&mut table, 2);
        text += &lines(&table);
    }
    for index in &checked.indexes {
        for example in &index.examples {
            let _ = writeln!(text, "{}: {example}", paint("WRONG", "31;1", colours));
        }
        if let Some(why) = &index.why_not {
            let _ = writeln!(text, "note: {} was not compared: {why}", index.index);
        } else if index.standing == Standing::Unknown.name() {
            let _ = writeln!(
                text,
                "note: nobody wrote down whether {} is whole, so the next opening builds it from the rows",
                index.index
            );
        }
    }
    if let Some(reach) = &checked.reach {
        let _ = writeln!(text, "it can be restored to {reach}");
    }
    let (place, epoch) = (&checked.place, checked.epoch);
    let wrong = checked.indexes.iter().filter(|index| !index.is_whole()).count();
    let compared = checked.indexes.iter().filter(|index| index.compared).count();
    let _ = match (checked.problems.len(), wrong) {
        (0, 0) => {
            let ok = paint("ok", "32;1", colours);
            let all = checked.indexes.len();
            writeln!(
                text,
                "{ok} {place} is whole up to epoch {epoch}: its files, and {compared} of {all} indexes compared"
            )
        }
        (0, wrong) => {
            let failed = paint("FAILED", "31;1", colours);
            writeln!(
                text,
                "{failed} {place}: {wrong} of {compared} indexes compared do not agree with their tables"
            )
        }
        (problems, _) => {
            let failed = paint("FAILED", "31;1", colours);
            writeln!(text, "{failed} {place}: {problems} problems in its files; no index was compared")
        }
    };
    text
}
