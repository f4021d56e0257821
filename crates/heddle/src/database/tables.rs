//! The tables of a directory, defined by what its manifest says of them.

use heddledb::Builder;
use heddledb::internals::BuilderInternals;
use heddledb::internals::log::{Manifest, RelationEntry, Standing};
use heddledb::table::Definition;
use heddledb::table::dynamic::{RelationDefinition, TableDefinition, of_shape};

/// Every table and index that the manifest lists, as far as it can be defined.
pub struct Tables {
    defined: Vec<&'static TableDefinition>,
    /// Those that only their shape is known of.
    others: Vec<&'static Definition>,
    /// Indexes that cannot be compared with their tables, and why.
    pub uncompared: Vec<(String, String)>,
}

impl Tables {
    /// Those that a manifest lists. What is defined lives as long as the process.
    pub fn of(manifest: &Manifest) -> Self {
        let mut tables = Self { defined: Vec::new(), others: Vec::new(), uncompared: Vec::new() };
        let listed = || manifest.relations.iter().filter(|entry| entry.standing != Standing::Removed);
        let is_index_of = |index: &RelationEntry, table: &RelationEntry| {
            index.index_of().is_some_and(|(name, _)| name == table.name)
                && index.table_schema() == Some(&table.schema)
        };
        for table in listed().filter(|entry| entry.index_of().is_none()) {
            let indexes: Vec<&RelationEntry> = listed().filter(|index| is_index_of(index, table)).collect();
            match defined(table, &indexes) {
                Ok(definition) => tables.defined.push(definition),
                Err(why) => {
                    tables.others.push(shape(table));
                    for index in indexes {
                        tables.others.push(shape(index));
                        tables.uncompared.push((index.name.clone(), why.clone()));
                    }
                }
            }
        }
        for index in listed().filter(|entry| entry.index_of().is_some()) {
            if !listed().any(|table| table.index_of().is_none() && is_index_of(index, table)) {
                tables.others.push(shape(index));
                tables
                    .uncompared
                    .push((index.name.clone(), "the manifest does not list its table".to_owned()));
            }
        }
        tables
    }

    /// The same, with trees for all hash tables.
    pub fn with_trees(mut self) -> Self {
        let tree = |schema: &str| schema.strip_suffix("; hash").map(|rest| format!("{rest}; ordered"));
        for table in &mut self.defined {
            let Some(schema) = tree(table.relation().schema()) else { continue };
            let indexes = table.indexes().iter();
            let indexes: Vec<(&str, String)> =
                indexes.filter_map(|index| Some((index.name(), tree(index.relation().schema())?))).collect();
            let indexes: Vec<(&str, &str)> = indexes.iter().map(|(name, text)| (*name, &text[..])).collect();
            *table = TableDefinition::of_schema(table.name(), &schema, &indexes)
                .expect("a tree is defined where a hash table is");
        }
        self
    }

    /// The tables that have definitions.
    pub fn definitions(&self) -> &[&'static TableDefinition] {
        &self.defined
    }

    /// The definition of a table, if it has one.
    pub fn definition(&self, table: &str) -> Option<&'static TableDefinition> {
        self.defined.iter().copied().find(|defined| defined.name() == table)
    }

    /// Names all of them to a builder.
    pub fn declare(&self, builder: Builder) -> Builder {
        let builder = self.defined.iter().fold(builder, |builder, table| builder.define(table, 0));
        self.others.iter().fold(builder, |builder, relation| builder.relation(relation))
    }
}

/// A table with its indexes by their schema texts, if that gives the shapes that are stored.
fn defined(table: &RelationEntry, indexes: &[&RelationEntry]) -> Result<&'static TableDefinition, String> {
    let names: Vec<(&str, &str)> =
        indexes.iter().filter_map(|index| Some((index.index_of()?.1, &index.schema[..]))).collect();
    let definition = TableDefinition::of_schema(&table.name, &table.schema, &names).map_err(|error| {
        match error.misuse() {
            Some(heddledb::Misuse::Definition { why, .. }) => why.clone(),
            _ => error.to_string(),
        }
    })?;
    let is_so = |relation: &RelationDefinition, entry: &RelationEntry| {
        let words = relation.layout().groups.iter().map(|group| group.span.len() as u32);
        relation.key_words() == usize::from(entry.key_words) && words.eq(entry.groups.iter().copied())
    };
    let all = std::iter::once((definition.relation(), table))
        .chain(definition.indexes().iter().map(|index| index.relation()).zip(indexes.iter().copied()));
    match all.into_iter().find(|(relation, entry)| !is_so(relation, entry)) {
        None => Ok(definition),
        Some((_, entry)) => Err(format!(
            "a column of {} has a type of the program's own: its rows have another shape than `{}` says",
            table.name, entry.schema
        )),
    }
}

/// A relation of which only the shape is known.
pub fn shape(entry: &RelationEntry) -> &'static Definition {
    of_shape(&entry.name, &entry.schema, entry.key_words.into(), &entry.groups)
}
