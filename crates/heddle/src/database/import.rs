//! `heddle import`: rows from text.

use super::open::{Access, open};
use super::text::{Format, read};
use crate::failure::{Failure, chain};
use crate::progress::Progress;
use clap::Args;
use heddledb::Error;
use heddledb::table::dynamic::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::{Path, PathBuf};

/// Arguments of `heddle import`.
#[derive(Args, Debug)]
pub struct ImportArguments {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The table, which is there
    #[arg(long, value_name = "NAME")]
    table: String,
    /// The file; standard input if it is - or not named
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// How rows are written; by the end of the file's name unless told, and CSV otherwise
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Replace rows whose key is there
    #[arg(long)]
    replace: bool,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Reads what `heddle export` writes. All of it is read and checked before the first row is written, so text that is wrong
somewhere changes nothing, and is told with its line and column. Rows are then written in transactions of a
thousand. One whose key is there, or its entry in a unique index, stops it and is named; those of earlier transactions
stay. With --replace a row whose key is there is replaced, and the same file can be imported again.

Examples:
  heddle import bank --table account accounts.csv
  heddle export bank --table account --format jsonl | heddle import copy --table account --format jsonl --replace

Exit codes: 0 all rows are there, 1 a row is wrong or in the way, 2 there is no database or table, or it is open.";

/// Rows of a transaction.
const BATCH: usize = 1000;

/// Runs the command.
pub fn import(arguments: &ImportArguments) -> Result<(), Failure> {
    let ImportArguments { directory, table, file, format, replace } = arguments;
    let (input, told): (Box<dyn BufRead>, String) = match file {
        file if file == Path::new("-") => (Box::new(BufReader::new(stdin())), "standard input".to_owned()),
        file => {
            let unreadable = |error| Failure::usage(format!("{} cannot be read: {error}", file.display()));
            (Box::new(BufReader::new(File::open(file).map_err(unreadable)?)), file.display().to_string())
        }
    };
    let by_name = match file.extension().and_then(|end| end.to_str()) {
        Some("jsonl" | "ndjson" | "json") => Format::Jsonl,
        _ => Format::Csv,
    };
    let opened = open(directory, Access::Write, false)?;
    let table = opened.chosen(std::slice::from_ref(table))?.remove(0);
    let rows = read(format.unwrap_or(by_name), table.definition(), input);
    let rows = rows.map_err(|flaw| Failure::run(format!("{told}: {flaw}; nothing was imported")))?;
    let failed = |error: Error| Failure::run(chain(&error));
    let mut session = opened.db.session().map_err(failed)?;
    let progress = Progress::new(1);
    let bar = progress.phase("writing the rows");
    let mut done = 0;
    for batch in rows.chunks(BATCH) {
        let written = session.run(|tx| {
            for row in batch {
                if *replace {
                    let key = table.definition().relation().key_columns();
                    let key: Vec<Value> = key.iter().map(|part| row[part.ordinal()].clone()).collect();
                    tx.rows(&table)?.delete(&key)?;
                }
                tx.rows(&table)?.insert(row)?;
            }
            Ok(())
        });
        if let Err(error) = written {
            let _ = opened.db.flush();
            return Err(Failure::run(format!(
                "{told}: {}; {done} rows before that transaction are imported",
                chain(&error)
            )));
        }
        done += batch.len();
        bar.share(done as f64 / rows.len() as f64);
    }
    opened.db.flush().map_err(failed)?;
    drop(bar);
    progress.finished(&format!("{}: {done} rows imported", table.definition().name()));
    Ok(())
}
