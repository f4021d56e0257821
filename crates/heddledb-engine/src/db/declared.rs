//! What a program declares, against what a directory holds: which relations are loaded, and which indexes are built.
//!
//! A table must be defined as it is stored. An index is made of its table, so it may come and go with the program: the
//! manifest says of each whether what the files hold of it counts ([`Standing`]).
//!
//! | in the manifest | declared | not declared, or otherwise |
//! |---|---|---|
//! | whole | loaded | removed |
//! | unbuilt: an opening was cut off | built | removed |
//! | unknown: of a format that does not say | built | removed |
//! | removed | built, under another number | passed over |
//! | not there | built; whole if its table is new too | |
//!
//! An enum of a table may have been given more values since: then the manifest gets its new definition before anything is
//! written by it, and a program with the old one is refused from then on.
//!
//! The records of what is removed or to be built are passed over when the files are read. The checkpoint that ends such
//! an opening has none of the former and all of the latter, and leaves out the files with those records.

use super::build::Build;
use super::shares::Relations;
use super::store::Store;
use crate::error::Result;
use crate::log::{LogError, RelationEntry, Standing};
use crate::metrics::{IndexChange, IndexReason};
use crate::mutant::{Mutant, planted};
use crate::table::dynamic::is_same_or_widened;

/// What an opening does about each relation.
pub(super) struct Declared<'a> {
    pub relations: Relations<'a>,
    /// The indexes to be built.
    pub builds: Vec<Build<'a>>,
    /// What becomes of indexes, those of `builds` among them.
    pub changes: Vec<IndexChange>,
}

/// Compares what the files hold with what the program declares. With `as_found` nothing is built or removed.
pub(super) fn compare<'a>(
    place: &dyn Fn() -> String,
    stored: &[RelationEntry],
    declared: &[&'a Store],
    as_found: bool,
) -> Result<Declared<'a>> {
    let mut compared = Comparing {
        place,
        declared,
        as_found,
        out: Declared {
            relations: Relations { stores: Vec::new(), entries: stored.to_vec(), passed_over: Vec::new() },
            builds: Vec::new(),
            changes: Vec::new(),
        },
    };
    for at in 0..stored.len() {
        compared.stored(at)?;
    }
    for store in declared {
        compared.declared(stored, store)?;
    }
    compared.out.changes.sort_by(|a, b| a.name.cmp(&b.name));
    compared.out.changes.dedup_by(|a, b| a.name == b.name);
    Ok(compared.out)
}

struct Comparing<'a, 's> {
    place: &'s dyn Fn() -> String,
    declared: &'s [&'a Store],
    as_found: bool,
    out: Declared<'a>,
}

impl<'a> Comparing<'a, '_> {
    fn find(&self, name: &str) -> Option<&'a Store> {
        self.declared.iter().copied().find(|store| store.layout().name == name)
    }

    /// Takes a relation of the manifest.
    fn stored(&mut self, at: usize) -> Result<()> {
        let entry = self.out.relations.entries[at].clone();
        if entry.standing == Standing::Removed {
            self.out.relations.passed_over.push(entry.id);
            // An opening that removed it was cut off before its checkpoint.
            if self.find(&entry.name).is_none() && !self.as_found {
                self.out.changes.push(IndexChange::new(&entry.name, IndexReason::Removed));
            }
            return Ok(());
        }
        let store = self.find(&entry.name);
        match store {
            Some(store) if is_alike(store, &entry) => {
                self.out.relations.entries[at].schema = store.relation.schema.to_owned();
                self.alike(at, &entry, store);
                Ok(())
            }
            _ if self.is_removed(&entry) => {
                if planted(Mutant::IndexRemovedKept) && store.is_none() {
                    self.out.relations.passed_over.push(entry.id);
                    return Ok(());
                }
                self.out.relations.entries[at].standing = Standing::Removed;
                self.out.relations.passed_over.push(entry.id);
                if store.is_none() {
                    self.out.changes.push(IndexChange::new(&entry.name, IndexReason::Removed));
                }
                Ok(())
            }
            Some(store) => {
                let declared = store.relation.schema.to_owned();
                let (relation, stored) = (entry.name, entry.schema);
                Err(LogError::Definition { place: (self.place)(), relation, stored, declared }.into())
            }
            None => {
                let (relation, stored) = (entry.name, entry.schema);
                Err(LogError::NotDeclared { place: (self.place)(), relation, stored }.into())
            }
        }
    }

    /// Takes a relation that is declared as it is stored.
    fn alike(&mut self, at: usize, entry: &RelationEntry, store: &'a Store) {
        let reason = match entry.standing {
            Standing::Unknown if !self.as_found => IndexReason::OldFormat,
            Standing::Unbuilt if planted(Mutant::IndexUnbuiltTrusted) => {
                return self.out.relations.put(entry.id, store);
            }
            Standing::Unbuilt => IndexReason::CutOff,
            _ => return self.out.relations.put(entry.id, store),
        };
        self.out.relations.passed_over.push(entry.id);
        if !self.as_found {
            self.build(at, store, reason);
        }
    }

    /// Has an index built, if the program says what it is made of; otherwise it is loaded as it is.
    fn build(&mut self, at: usize, store: &'a Store, reason: IndexReason) {
        let index = store.relation.role.index();
        let table = index.and_then(|index| {
            let number = index.table().number();
            Some((index, self.declared.iter().copied().find(|table| table.number == number)?))
        });
        let entry = &mut self.out.relations.entries[at];
        let Some((role, table)) = table else {
            // A relation that calls itself an index in its definition, and is none.
            entry.standing = Standing::Whole;
            self.out.relations.passed_over.retain(|id| *id != entry.id);
            let id = entry.id;
            return self.out.relations.put(id, store);
        };
        entry.standing = Standing::Unbuilt;
        let change = IndexChange::new(&entry.name, reason);
        self.out.changes.push(change);
        self.out.builds.push(Build { index: store, table, role });
    }

    /// Whether a relation of the manifest that is not declared as it is stored is an index of a table that is.
    fn is_removed(&self, entry: &RelationEntry) -> bool {
        let table = entry.index_of().and_then(|(table, _)| self.find(table));
        let stored = entry.table_schema().unwrap_or_default();
        table.is_some_and(|table| is_same_or_widened(stored, table.relation.schema)) && !self.as_found
    }

    /// Takes a relation that the program declares, if the manifest does not list it.
    fn declared(&mut self, stored: &[RelationEntry], store: &'a Store) -> Result<()> {
        let name = store.layout().name;
        if self.declared.iter().filter(|other| other.layout().name == name).count() > 1 {
            return Err(LogError::TwoOfOneName { relation: name.to_owned() }.into());
        }
        let entries = &mut self.out.relations.entries;
        if entries.iter().any(|entry| entry.name == name && entry.standing != Standing::Removed) {
            return Ok(());
        }
        let id = entries.iter().map(|entry| entry.id + 1).max().unwrap_or(0);
        entries.push(describe(store, id));
        let table = store.relation.role.index().map(|index| index.table().name());
        if table.is_some_and(|table| stored.iter().any(|entry| entry.name == table)) {
            let at = entries.len() - 1;
            self.build(at, store, IndexReason::Added);
        } else {
            self.out.relations.put(id, store);
        }
        Ok(())
    }
}

/// Whether a relation is declared as it is stored, or with more values of enums.
fn is_alike(store: &Store, entry: &RelationEntry) -> bool {
    let declared = describe(store, entry.id);
    is_same_or_widened(&entry.schema, &declared.schema)
        && *entry == RelationEntry { standing: entry.standing, schema: entry.schema.clone(), ..declared }
}

/// A relation as the manifest has it.
pub(super) fn describe(store: &Store, id: u16) -> RelationEntry {
    let layout = store.layout();
    RelationEntry {
        id,
        name: layout.name.to_owned(),
        schema: store.relation.schema.to_owned(),
        key_words: store.relation.key_words as u8,
        groups: layout.groups.iter().map(|group| group.span.len() as u32).collect(),
        standing: Standing::Whole,
    }
}
