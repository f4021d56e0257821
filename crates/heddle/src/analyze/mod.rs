//! `heddle analyze`: what of a workload may interleave, and what forced the rest together.
//!
//! The analysis itself is the crate `heddledb-analysis`. Its input comes from [`source`]; here are its forms:
//! words ([`words`]), JSON ([`model`]), DOT ([`dot`]), a drawing ([`drawing`]) and a page around it
//! ([`page`]).

mod apps;
mod dot;
pub mod drawing;
mod model;
mod page;
pub mod source;
mod words;

use crate::failure::Failure;
use crate::terminal::terminal_with_colours;
use clap::{Args, ValueEnum};
use heddledb_analysis::{Granularity, Method, Options, analyse, builtin};
use source::{load, select};
use std::fs;
use std::io::{Write, stderr, stdout};
use std::path::{Path, PathBuf};

/// Arguments of `heddle analyze`.
#[derive(Args, Debug)]
pub struct AnalyzeArguments {
    /// A text with transaction types, `-` for the standard input, or the name of one that comes with the
    /// command; a file of such a name is written ./NAME
    #[arg(value_name = "FILE|NAME", required_unless_present_any = ["list", "apps"])]
    source: Option<String>,
    /// Only these types
    #[arg(long, value_name = "TYPE,..", value_delimiter = ',')]
    types: Vec<String>,
    /// What a conflict is about
    #[arg(long, value_enum, default_value_t = Unit::Column)]
    granularity: Unit,
    /// Merge every SC-cycle, as transaction chopping has to, and not only deadlock-prone ones
    #[arg(long)]
    chopping: bool,
    /// Take an addition for a read and a write
    #[arg(long)]
    no_commutative: bool,
    /// Merge what comes before the mark `no_abort`, or all of a type without it: pieces that commit one by
    /// one have nothing to roll back with
    #[arg(long)]
    rollback_safe: bool,
    /// Additions that are marked `deferred` take effect later, unless that could be seen
    #[arg(long)]
    defer: bool,

    /// Ignore causal marks
    #[arg(long)]
    ignore_causal: bool,
    /// Write the analysis as JSON; `-` is the standard output, and the words then go to the error output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the SC-graph for Graphviz
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
    /// Write a page with the SC-graph drawn
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the drawing alone
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// List the texts that come with the command
    #[arg(long, exclusive = true)]
    list: bool,
    /// Redo IC3's study of web applications, as far as their transactions are described
    #[arg(long, exclusive = true)]
    apps: bool,
}

/// What a conflict is about.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unit {
    /// columns
    Column,
    /// column groups, as the text declares them
    Group,
    /// whole tables
    Table,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Each transaction type is cut into pieces. Pieces that may conflict (C-edges) and pieces of one transaction
(S-edges) make the SC-graph. Where its cycles could let transactions wait for each other, pieces are merged;
the cycle that forced it is told. All others may interleave, piece by piece, in the order of ranks.

A text:
  workload shop
  table item  key i_id  cols price stock
  table log   appendonly              # inserted keys are distinct
  txn order weight 45                 # .. readonly: it runs on a snapshot, and takes no part
    read   item cols price
    update item cols stock reads stock
    loop                              # also: if .. else .. end, piece .. end
      insert log
    end
  end
Steps: read, update, add (commutative), insert, delete, scan; then by idx NAME, cols, reads, causal, no_abort,
deferred (of an add), piece N.

Examples:
  heddle analyze tpcc
  heddle analyze shop.txt --html shop.html
  heddle analyze tpcc --types new_order,payment,delivery --no-commutative --json -
  heddle analyze tpce --ignore-causal --dot tpce.dot
  heddle analyze tpcc --chopping
  heddle analyze --list
  heddle analyze --apps

Exit codes: 0 analysed, 1 a file could not be written, 2 unusable arguments or text.";

/// Runs the command.
pub fn analyze(arguments: &AnalyzeArguments) -> Result<bool, Failure> {
    if arguments.list {
        let _ = stdout().write_all(list().as_bytes());
        return Ok(true);
    }
    if arguments.apps {
        let _ = stdout().write_all(apps::table()?.as_bytes());
        return Ok(true);
    }
    let Some(source) = &arguments.source else { return Err(Failure::usage("give a FILE or a NAME")) };
    let (label, workload) = load(source)?;
    let workload = select(workload, &arguments.types)?;
    let analysis = analyse(&workload, &arguments.options());
    let document = model::Document::new(&label, &workload.name, &analysis);

    let to_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    let outputs = [&arguments.json, &arguments.dot, &arguments.html, &arguments.svg];
    if outputs.into_iter().filter(|path| to_stdout(path)).count() > 1 {
        return Err(Failure::usage("only one of --json, --dot, --html and --svg can be `-`"));
    }
    if outputs.into_iter().any(to_stdout) {
        let _ = stderr().write_all(words::tell(&document, terminal_with_colours(&stderr())).as_bytes());
    } else {
        let _ = stdout().write_all(words::tell(&document, terminal_with_colours(&stdout())).as_bytes());
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| Failure::run(format!("the analysis cannot be written as JSON: {error}")))?;
        write(path, &(text + "\n"))?;
    }
    if let Some(path) = &arguments.dot {
        write(path, &dot::graph(&analysis))?;
    }
    if let Some(path) = &arguments.svg {
        write(path, &drawing::drawing(&analysis))?;
    }
    if let Some(path) = &arguments.html {
        write(path, &page::page(&document, &analysis))?;
    }
    Ok(true)
}

impl AnalyzeArguments {
    fn options(&self) -> Options {
        Options {
            granularity: match self.granularity {
                Unit::Column => Granularity::Column,
                Unit::Group => Granularity::Group,
                Unit::Table => Granularity::Table,
            },
            method: if self.chopping { Method::Chopping } else { Method::Ic3 },
            commutative: !self.no_commutative,
            causal: !self.ignore_causal,
            rollback_safe: self.rollback_safe,
            defer: self.defer,
        }
    }
}

fn list() -> String {
    let width = builtin::ALL.iter().map(|one| one.name.len()).max().unwrap_or(0);
    builtin::ALL.iter().map(|one| format!("{:width$}  {}\n", one.name, one.about)).collect()
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        // A reader that went away, such as `head`, is no failure.
        let _ = stdout().write_all(text.as_bytes());
        return Ok(());
    }
    fs::write(path, text)
        .map_err(|error| Failure::run(format!("{} cannot be written: {error}", path.display())))
}
