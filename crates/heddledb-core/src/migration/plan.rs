//! From the schemas of a directory and of a program to what becomes of each table.

use super::conversion::{Conversion, Source, widens};
use super::{Change, Migration, SchemaChange, TableChange, To};
use crate::log::{Manifest, Standing};
use crate::table::dynamic::{ColumnDefinition, ColumnType, TableDefinition, is_same_or_widened};
use crate::table::{Definition, Structure};

/// A table by its name and its schema text.
pub type TableSchema<'a> = (&'a str, &'a str);

/// The tables that a manifest lists.
pub fn stored_tables(manifest: &Manifest) -> Vec<TableSchema<'_>> {
    let counts = manifest.relations.iter().filter(|entry| entry.standing != Standing::Removed);
    let tables = counts.filter(|entry| entry.index_of().is_none());
    tables.map(|entry| (&entry.name[..], &entry.schema[..])).collect()
}

/// The tables among relations.
pub fn declared_tables<'a>(relations: impl Iterator<Item = &'static Definition>) -> Vec<TableSchema<'a>> {
    let tables = relations.filter(|relation| relation.role.index().is_none());
    tables.map(|relation| (relation.name(), relation.schema)).collect()
}

/// What becomes of the tables of a directory.
pub struct Plan {
    /// In words.
    pub change: SchemaChange,
    /// Of each stored table, in their order. Where the change is not complete, those of whole tables.
    pub outcomes: Vec<Outcome>,
}

/// What becomes of a table.
pub enum Outcome {
    /// It stays as it is.
    Kept,
    /// Its rows are given up.
    Dropped,
    /// Its rows are converted.
    Converted(Box<Conversion>),
}

impl Plan {
    /// Compares the tables that a manifest lists with those that are declared.
    pub fn new(manifest: &Manifest, declared: &[TableSchema<'_>], migration: &Migration) -> Self {
        let (taken, count) = (manifest.changes, migration.count());
        let left = migration.left(taken);
        let mut plan = Self { change: SchemaChange::default(), outcomes: Vec::new() };
        for (name, schema) in stored_tables(manifest) {
            let mut change = TableChange { table: name.to_owned(), ..TableChange::default() };
            let outcome = outcome(left, name, schema, declared, &mut change);
            plan.outcomes.push(outcome);
            if !change.steps.is_empty() || !change.missing.is_empty() {
                if count > 0 && taken > count {
                    // What else is missing would undo what the later version did.
                    change.missing.clear();
                    change.missing.push(format!(
                        "a later version of the program has changed it: the directory has taken {taken} changes, and this program \
                         has {count}; open it with that version, or, if changes were left out here, say how many, with \
                         `Migration::after`"
                    ));
                } else if taken > 0 && count > 0 && !change.missing.is_empty() {
                    change.missing.push(format!(
                        "what the first {} of the {count} changes say is passed over, since the directory has taken them; say \
                         anew what it needs, behind them, or, if they are others than it has taken, put `.after({taken})` before \
                         them",
                        taken.min(count)
                    ));
                }
                plan.change.tables.push(change);
            }
        }
        plan
    }
}

/// What becomes of a table, by the changes that are left.
fn outcome(
    changes: &[Change],
    stored: &str,
    schema: &str,
    declared: &[TableSchema<'_>],
    change: &mut TableChange,
) -> Outcome {
    // What is said of this table, under the name that it has by then.
    let (mut name, mut said) = (stored, Vec::new());
    for change in changes {
        match change {
            Change::RenameTable { from, to } if from == name => name = to,
            Change::Set { table, .. }
            | Change::Drop { table, .. }
            | Change::Rename { table, .. }
            | Change::DropTable { table }
                if table == name =>
            {
                said.push(change);
            }
            _ => {}
        }
    }
    let Some((_, new)) = declared.iter().find(|(declared, _)| *declared == name) else {
        return match said.iter().any(|said| matches!(said, Change::DropTable { .. })) {
            true => {
                change.steps.push("the table is dropped, with all its rows".to_owned());
                Outcome::Dropped
            }
            false => {
                change.missing.push(format!(
                        "it is not declared; name it with `Builder::table`, or give it up, with `.drop_table({name:?})`"
                    ));
                Outcome::Kept
            }
        };
    };
    if name == stored && is_same_or_widened(schema, new) {
        return Outcome::Kept;
    }
    if name != stored {
        change.steps.push(format!("the table becomes {name}"));
    }
    let mut defined = |schema: &str, of: &str| {
        let definition = TableDefinition::of_schema(name, schema, &[]);
        if definition.is_err() {
            change.missing.push(format!(
                    "{of} schema, `{schema}`, has column types that rows cannot be converted from or to; open the \
                     directory with the program that wrote it, and move the rows to another table"
                ));
        }
        definition.ok()
    };
    let (Some(old), Some(new)) = (defined(schema, "its stored"), defined(new, "its declared")) else {
        return Outcome::Kept;
    };
    convert(name, &said, old, new, change)
}

/// How the rows of a table become those of another.
fn convert(
    table: &str,
    said: &[&Change],
    old: &'static TableDefinition,
    new: &'static TableDefinition,
    change: &mut TableChange,
) -> Outcome {
    // What each old column is called now.
    let mut names: Vec<&str> = old.columns().iter().map(|column| column.name()).collect();
    for said in said {
        if let Change::Rename { from, to, .. } = said
            && !names.contains(&&to[..])
            && let Some(name) = names.iter_mut().find(|name| *name == from)
        {
            *name = to;
        }
    }
    let mut columns = Vec::new();
    for column in new.columns() {
        let at = names.iter().position(|name| *name == column.name());
        let source = source(table, said, column, at.map(|at| &old.columns()[at]), change);
        columns.push(source.unwrap_or(Source::Old { ordinal: 0 }));
    }
    for (column, name) in old.columns().iter().zip(&names) {
        if new.columns().iter().any(|new| new.name() == *name) {
            continue;
        }
        let is_dropped = |said: &&Change| matches!(said, Change::Drop { column, .. } if column == name);
        match said.iter().any(is_dropped) {
                true => change.steps.push(format!("column {} is dropped", column.name())),
                false => change.missing.push(format!(
                    "column {} is not declared; declare it, or say what it is called now, with `.rename({table:?}, {name:?}, \
                     ..)`, or give it up, with `.drop({table:?}, {name:?})`",
                    column.name(),
                )),
            }
    }
    let group = |table: &'static TableDefinition, column: &ColumnDefinition| {
        table.relation().layout().groups[column.group()].name
    };
    for (column, source) in new.columns().iter().zip(&columns) {
        if let Source::Old { ordinal } = source {
            let (was, is) = (group(old, &old.columns()[*ordinal]), group(new, column));
            if was != is {
                change.steps.push(format!("column {} moves from group {was} to {is}", column.name()));
            }
        }
    }
    keys(old, new, &columns, change);
    let structure = |table: &'static TableDefinition| match table.relation().structure() {
        Structure::Ordered => "a tree",
        Structure::Hash => "a hash table",
    };
    if structure(old) != structure(new) {
        change.steps.push(format!("{} becomes {}", structure(old), structure(new)));
    }
    if change.steps.is_empty() && change.missing.is_empty() {
        change.steps.push("the columns are in another order".to_owned());
    }
    Outcome::Converted(Box::new(Conversion { old, new, columns }))
}

/// Where the values of a column come from; `None` if nobody says.
fn source(
    table: &str,
    said: &[&Change],
    column: &'static ColumnDefinition,
    old: Option<&ColumnDefinition>,
    change: &mut TableChange,
) -> Option<Source> {
    let (name, ty) = (column.name(), column.ty());
    let is_set = |said: &&Change| matches!(said, Change::Set { column, .. } if column == name);
    let is_dropped = |said: &&Change| matches!(said, Change::Drop { column, .. } if column == name);
    // What was said last counts.
    let set = said.iter().rposition(is_set);
    // One that was given up and then given a value is another column of that name, as in a directory that took these one by one.
    let is_another = said.iter().rposition(is_dropped).is_some_and(|drop| Some(drop) < set);
    if let Some(old) = old.filter(|old| !is_another && widens(old.ty(), ty)) {
        if old.name() != name {
            change.steps.push(format!("column {} becomes {name}", old.name()));
        }
        if old.ty() != ty {
            change.steps.push(format!("column {name} becomes {ty}, of {}", old.ty()));
        }
        if set.is_some() {
            change.steps.push(format!(
                "column {name} keeps what it holds, since its type has all of that; what `set` or `set_with` says of it is \
                 passed over"
            ));
        }
        return Some(Source::Old { ordinal: old.ordinal() });
    }
    let said = set.map(|at| said[at]);
    let is = match old {
        None => "is new".to_owned(),
        Some(_) if is_another => "is dropped, and new".to_owned(),
        Some(old) => format!("becomes {ty}, of {}", old.ty()),
    };
    match (said, ty) {
        (Some(Change::Set { to, .. }), _) => {
            if let To::Value(value) = to
                && let Err(error) = column.check(value)
            {
                change.missing.push(format!("a value that fits, for {error}"));
            }
            change.steps.push(match to {
                To::Value(value) => format!("column {name} {is}, and {value} in every row"),
                To::Made(_) => format!("column {name} {is}, and made of each row"),
            });
            Some(Source::Said(to.clone()))
        }
        (_, ColumnType::Option(_)) if old.is_none() => {
            change.steps.push(format!("column {name} is new, and null in every row"));
            Some(Source::Said(To::Value(crate::table::dynamic::Value::Null)))
        }
        _ => {
            change.missing.push(format!(
                    "column {name} {is}; say what it holds, with `.set({table:?}, {name:?}, ..)`, or `.set_with(..)`"
                ));
            None
        }
    }
}

/// Tells how the key changes. No two rows may come to have the same: each part of the old key must be in the new one.
fn keys(
    old: &'static TableDefinition,
    new: &'static TableDefinition,
    columns: &[Source],
    change: &mut TableChange,
) {
    let parts = |table: &'static TableDefinition| -> Vec<String> {
        let part = |part: &ColumnDefinition| match part.max() {
            None => part.name().to_owned(),
            Some(max) => format!("{}(max={max})", part.name()),
        };
        table.relation().key_columns().iter().map(part).collect()
    };
    let lengths = |table: &'static TableDefinition| -> Vec<Option<usize>> {
        table.relation().key_columns().iter().map(ColumnDefinition::max).collect()
    };
    let kept: Vec<usize> = new
        .relation()
        .key_columns()
        .iter()
        .filter_map(|part| match &columns[part.ordinal()] {
            Source::Old { ordinal } => Some(*ordinal),
            Source::Said(_) => None,
        })
        .collect();
    let key: Vec<usize> = old.relation().key_columns().iter().map(|part| part.ordinal()).collect();
    if let Some(lost) = key.iter().find(|part| !kept.contains(part)) {
        let name = old.columns()[*lost].name();
        change.missing.push(format!(
            "column {name} is part of the key that is stored, and not of the one that is declared, so that two rows could come \
             to have one key; keep it in the key, with a type that has all its values"
        ));
    } else if kept != key || lengths(old) != lengths(new) {
        let (was, is) = (parts(old).join(", "), parts(new).join(", "));
        change.steps.push(format!("the key becomes {is}, of {was}"));
    }
}
