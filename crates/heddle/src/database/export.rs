//! `heddle export`: rows as text.

use super::open::{Access, open};
use super::text::{Format, Writer};
use crate::failure::{Failure, chain};
use crate::progress::Progress;
use clap::Args;
use heddledb::table::dynamic::Value;
use heddledb::{RowScan, RowTable, Snapshot};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write, stdout};
use std::path::PathBuf;

/// Arguments of `heddle export`.
#[derive(Args, Debug)]
pub struct ExportArguments {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Only these tables; all of them unless told
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
    /// How rows are written
    #[arg(long, value_enum, default_value = "csv")]
    format: Format,
    /// A directory that is made for a file of each table; without it, one table goes to standard output
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Export it even if it was copied file by file while it was open
    #[arg(long)]
    accept_copy: bool,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Each table is written in the order of its keys. Every value is read back as the same by
`heddle import`. In CSV nothing is an empty field; where a text may be nothing, an empty text is written as \\, and
a \\ in front is doubled. In JSON Lines numbers are numbers, bytes are strings as 0x00ff.

Examples:
  heddle export bank --table account
  heddle export bank --out bank-today
  heddle export bank --format jsonl --out bank-today

Exit codes: 0 all is written, 1 the directory is damaged or a file cannot be written, 2 there is no database or table,
or it is open.";

/// Rows that are read together.
const PAGE: usize = 1024;

/// Runs the command.
pub fn export(arguments: &ExportArguments) -> Result<(), Failure> {
    let ExportArguments { directory, table, format, out, accept_copy } = arguments;
    let opened = open(directory, Access::ReadInOrder, *accept_copy)?;
    let chosen = opened.chosen(table)?;
    let mut snapshot = opened.db.snapshot().map_err(|error| Failure::run(chain(&error)))?;
    let Some(out) = out else {
        let [table] = &chosen[..] else {
            let names: Vec<&str> = chosen.iter().map(|table| table.definition().name()).collect();
            return Err(Failure::usage(format!(
                "standard output takes one table; choose one with --table, or name a directory with --out ({})",
                names.join(", ")
            )));
        };
        return match write(&mut snapshot, table, *format, stdout().lock()) {
            // A reader that went away, such as `head`, has what it wanted.
            Err(Stopped::Io(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome.map(drop).map_err(|stopped| stopped.failure("standard output")),
        };
    };
    let failed = |error: std::io::Error| Failure::run(format!("{}: {error}", out.display()));
    std::fs::create_dir_all(out).map_err(failed)?;
    let progress = Progress::new(chosen.len());
    for table in chosen {
        let name = table.definition().name();
        if name.contains(['/', '\0']) || name.starts_with('.') {
            return Err(Failure::run(format!(
                "{name:?} cannot be the name of a file; export it alone, with --table"
            )));
        }
        let path = out.join(format!("{name}.{}", format.extension()));
        let file = File::create_new(&path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Failure::run(format!(
                "{} is there already, and is not overwritten; remove it, or choose another directory with --out",
                path.display()
            )),
            _ => Failure::run(format!("{} cannot be made: {error}", path.display())),
        })?;
        let told = path.display().to_string();
        let rows = write(&mut snapshot, &table, *format, BufWriter::new(file));
        let rows = rows.map_err(|stopped| stopped.failure(&told))?;
        progress.finished(&format!("{told}: {rows} rows"));
    }
    Ok(())
}

/// Why writing stopped.
enum Stopped {
    Io(std::io::Error),
    Engine(heddledb::Error),
}

impl Stopped {
    fn failure(self, place: &str) -> Failure {
        match self {
            Self::Io(error) => Failure::run(format!("{place} cannot be written: {error}")),
            Self::Engine(error) => Failure::run(chain(&error)),
        }
    }
}

/// Writes all rows of a table, and returns how many.
fn write(snapshot: &mut Snapshot, table: &RowTable, format: Format, out: impl Write) -> Result<u64, Stopped> {
    let mut writer = Writer::begin(format, table.definition(), out).map_err(Stopped::Io)?;
    let mut count = 0;
    let mut after: Option<Vec<Value>> = None;
    loop {
        let scan = RowScan::all().limit(PAGE);
        let scan = match &after {
            Some(key) => scan.after(key),
            None => scan,
        };
        let page = snapshot.rows(table).page(scan).map_err(Stopped::Engine)?;
        for row in &page.rows {
            writer.row(row).map_err(Stopped::Io)?;
        }
        count += page.rows.len() as u64;
        after = page.next;
        if after.is_none() {
            writer.end().map_err(Stopped::Io)?;
            return Ok(count);
        }
    }
}
