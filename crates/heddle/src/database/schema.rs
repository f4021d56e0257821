//! `heddle schema`: the tables of a directory, and their columns.

use super::tables::Tables;
use crate::failure::{Failure, chain};
use crate::log::show;
use crate::report::table::{empty, lines};
use crate::terminal::terminal_with_colours;
use clap::Args;
use heddledb::internals::log::{Manifest, Standing};
use heddledb::storage::Disk;
use heddledb::table::Structure;
use heddledb::table::dynamic::TableDefinition;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{Write, stdout};
use std::path::PathBuf;

/// Arguments of `heddle schema`.
#[derive(Args, Debug)]
pub struct SchemaArguments {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print the tables as JSON
    #[arg(long)]
    json: bool,
}

/// Examples for `--help`.
pub const EXAMPLES: &str = "\
Reads the manifest and nothing else, also of a database that is open. What a program would change is told by
`Builder::schema_change`, since only the program knows what it declares.

Examples:
  heddle schema bank
  heddle schema bank --json

Exit codes: 0 they are printed, 2 there is no database.";

/// A table.
#[derive(Serialize, Debug)]
struct TableTold {
    table: String,
    /// `tree` or `hash`; nothing where the columns are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
    columns: Vec<ColumnTold>,
    indexes: Vec<IndexTold>,
    /// The text that a program must declare.
    schema: String,
}

#[derive(Serialize, Debug)]
struct ColumnTold {
    column: String,
    r#type: String,
    group: &'static str,
    /// Whether it is a part of the key.
    key: bool,
    /// Of a part of the key that is of any length: how many bytes the key has room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<usize>,
}

#[derive(Serialize, Debug)]
struct IndexTold {
    index: String,
    unique: bool,
    columns: Vec<String>,
    /// Whether what the files hold of it counts.
    standing: &'static str,
}

/// Runs the command.
pub fn schema(arguments: &SchemaArguments) -> Result<(), Failure> {
    let directory = &arguments.directory;
    let place = directory.display();
    let unreadable =
        |error| Failure::usage(format!("{place} cannot be read ({error}); name the directory of a database"));
    let disk = Disk::open_to_read(directory).map_err(unreadable)?;
    let manifest = Manifest::read(&disk).map_err(|error| Failure::usage(chain(&error)))?;
    let Some(manifest) = manifest else {
        return Err(Failure::usage(format!(
            "{place} holds no database; name the directory that was given to `Builder::path`"
        )));
    };
    let told = tables(&manifest);
    let text = match arguments.json {
        true => show::json(&told)?,
        false => words(&told, manifest.changes, terminal_with_colours(&stdout())),
    };
    // A reader that went away, such as `head`, changes nothing.
    let _ = stdout().write_all(text.as_bytes());
    Ok(())
}

fn tables(manifest: &Manifest) -> Vec<TableTold> {
    let known = Tables::of(manifest);
    let entries = || manifest.relations.iter().filter(|entry| entry.standing != Standing::Removed);
    let one = |name: &str, schema: &str| {
        let definition = known.definition(name);
        let indexes = entries().filter_map(|entry| {
            let (table, index) = entry.index_of()?;
            let (words, _) = entry.schema.split_once("; ")?;
            let (kind, columns) = words.split_once("index over ")?;
            (table == name).then(|| IndexTold {
                index: index.to_owned(),
                unique: !kind.is_empty(),
                columns: columns.split(", ").map(str::to_owned).collect(),
                standing: entry.standing.name(),
            })
        });
        TableTold {
            table: name.to_owned(),
            by: definition.map(|definition| match definition.relation().structure() {
                Structure::Ordered => "tree",
                Structure::Hash => "hash",
            }),
            columns: definition.map(columns).unwrap_or_default(),
            indexes: indexes.collect(),
            schema: schema.to_owned(),
        }
    };
    let tables = entries().filter(|entry| entry.index_of().is_none());
    tables.map(|entry| one(&entry.name, &entry.schema)).collect()
}

fn columns(definition: &TableDefinition) -> Vec<ColumnTold> {
    let groups = definition.relation().layout().groups;
    let part = |column: &str| {
        definition
            .relation()
            .key_columns()
            .iter()
            .find(|part| part.name() == column)
            .and_then(|part| part.max())
    };
    let columns = definition.columns().iter().map(|column| ColumnTold {
        column: column.name().to_owned(),
        r#type: column.ty().to_string(),
        group: groups[column.group()].name,
        key: definition.key_columns() >> column.ordinal() & 1 == 1,
        max: part(column.name()),
    });
    columns.collect()
}

fn words(tables: &[TableTold], changes: u64, colours: bool) -> String {
    let mut text = String::new();
    for told in tables {
        let by = told.by.map_or(String::new(), |by| format!(", by a {by}"));
        let _ = writeln!(text, "table {}{by}", told.table);
        if told.columns.is_empty() {
            let _ = writeln!(text, " {}", told.schema);
        } else {
            let mut table = empty(colours);
            table.set_header(["column", "type", "group", ""]);
            for ColumnTold { column, r#type, group, key, max } in &told.columns {
                let key = match (key, max) {
                    (false, _) => String::new(),
                    (true, None) => "key".to_owned(),
                    (true, Some(max)) => format!("key, max = {max}"),
                };
                table.add_row([column.as_str(), r#type, group, &key]);
            }
            text += &lines(&table);
        }
        for IndexTold { index, unique, columns, standing } in &told.indexes {
            let unique = if *unique { "unique " } else { "" };
            let _ = writeln!(text, " {unique}index {index} over {}: {standing}", columns.join(", "));
        }
        text.push('\n');
    }
    if changes > 0 {
        let _ = writeln!(text, "changes of the schema taken: {changes}");
    }
    text
}
