//! Changes of a directory's schema, before it is opened.
//!
//! **Mechanism.** The directory is loaded as it is stored, by the shapes that its manifest tells. Its rows are written as a
//! checkpoint, those of a table that changes converted on the way, and a new manifest lists that and no log. That is the
//! instant at which the directory has the new schema; before it the old files count, and they are removed after it. So a
//! crash leaves one or the other, and the next opening does what is still to be done.
//!
//! Indexes of tables that change are left out: the opening that follows finds them missing and builds them. Whether that can be
//! done, of these and of all others that it will build, is found out while the rows are written ([`Validation`]), and the directory is
//! refused as it is.

use super::declared::{compare, describe};
use super::parts::{Output, Parts};
use super::recovery::{Opened, Opening};
use super::store::Store;
use super::validate::Validation;
use super::walkers::Walkers;
use crate::epoch::EpochClock;
use crate::error::Result;
use crate::heap::Heap;
use crate::log::{LogError, Manifest, RelationEntry, Standing, lock_storage, remove_unlisted};
use crate::metrics::Recovery;
use crate::migration::{Migration, Outcome, Plan, SchemaChange, declared_tables, stored_tables};
use crate::mutant::{Mutant, planted};
use crate::protocol::Records;
use crate::settings::{LogOptions, Settings};
use crate::storage::{Storage, now_ms};
use crate::table::dynamic::of_shape;
use std::sync::Arc;

/// A directory, and what is to be there.
pub(super) struct Migrating<'a> {
    pub storage: &'a Arc<dyn Storage>,
    pub settings: &'a Settings,
    pub migration: &'a Migration,
    /// The relations that the program declares.
    pub declared: Vec<&'a Store>,
    pub records: &'static Records,
    pub threads: usize,
}

/// What was loaded; dropped in this order, since the rows of the stores are in the memory of the other.
struct Loaded {
    stores: Vec<Store>,
    opened: Opened,
}

impl Migrating<'_> {
    /// Changes the directory where it has to be; returns what was done, and what was found in it.
    ///
    /// # Errors
    /// [`LogError`]; the directory is what it was then.
    pub fn run(&self) -> Result<Option<(SchemaChange, Recovery)>> {
        let storage = &**self.storage;
        // Of an empty directory, and of one that has the schema already, nothing more is read.
        let guard = lock_storage(storage)?;
        let Some(manifest) = Manifest::read(storage)? else { return Ok(None) };
        let plan = self.plan(&manifest);
        if plan.change.is_empty() {
            return Ok(None);
        }
        if !plan.change.is_complete() {
            return Err(LogError::Migration { place: storage.place(), what: plan.change.missing() }.into());
        }
        drop(guard);
        let counts = |entry: &&RelationEntry| entry.standing != Standing::Removed;
        let heap = Arc::new(Heap::new(self.threads));
        let store = |entry: &RelationEntry| {
            let key_words = usize::from(entry.key_words);
            let shape = of_shape(&entry.name, &entry.schema, key_words, &entry.groups);
            Store::new(self.records, shape, 0, Arc::clone(&heap))
        };
        let stores: Vec<_> = manifest.relations.iter().filter(counts).map(store).collect();
        let opening = Opening {
            storage: Arc::clone(self.storage),
            stores: stores.iter().collect(),
            options: LogOptions { files: 0, at_once: false, ..self.settings.log },
            threads: self.threads,
            versions: Vec::new(),
            salvage: self.settings.salvage,
            read_only: true,
            changes: 0,
            tell: self.settings.tell.clone(),
            as_found: true,
        };
        let opened = opening.open()?;
        if opened.calls.is_some() {
            let what = "its log holds calls of procedures, which are to be made again first, with the tables that they know; open it once with \
                        the program that made them, and `Builder::checkpoint_at_close`"
                .to_owned();
            return Err(LogError::Migration { place: storage.place(), what }.into());
        }
        let mut loaded = Loaded { stores, opened };
        // Somebody else may have changed it before the lock was taken again.
        if loaded.opened.files.manifest().relations != manifest.relations {
            return Err(LogError::Locked { place: storage.place() }.into());
        }
        self.write(&plan, loaded.stores.iter().collect(), &loaded.opened)?;
        Ok(Some((plan.change, std::mem::take(&mut loaded.opened.recovery))))
    }

    fn plan(&self, manifest: &Manifest) -> Plan {
        let declared = declared_tables(self.declared.iter().map(|store| store.relation));
        Plan::new(manifest, &declared, self.migration)
    }

    /// Writes all rows as a checkpoint, and makes it what the directory holds, if the program can be given its indexes then.
    fn write(&self, plan: &Plan, stores: Vec<&Store>, opened: &Opened) -> Result<()> {
        let storage = &**self.storage;
        let old = Manifest::read(storage)?.ok_or_else(|| LogError::Locked { place: storage.place() })?;
        let (entries, outputs) = self.relations(plan, &old, &stores);
        // As the opening that follows will see it.
        let place = || storage.place();
        let mut builds = compare(&place, &entries, &self.declared, self.settings.as_found)?.builds;
        if planted(Mutant::SchemaNotValidated) {
            builds.clear();
        }
        let validation = Validation::new(builds, opened.epoch, self.records);
        let observed = outputs.into_iter().zip(&entries).map(|(output, entry)| {
            let observe = validation.observer(&entry.name, output.store.heap());
            Output { observe, ..output }
        });
        // The one in force has the name, but perhaps not durably: a power cut may bring back the one before, and no file
        // that that one lists may be gone.
        old.replace(storage)?;
        remove_unlisted(storage, [Some(&old), None])?;
        let clock = EpochClock::starting_at(self.threads, opened.epoch);
        let parts = Parts {
            storage,
            directory: old.directory,
            number: old.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.number) + 1,
            moment: opened.recovery.durable_epoch,
            epoch: opened.recovery.durable_epoch,
            time: now_ms(storage),
            clock: &clock,
            walkers: &Walkers::new(0, self.threads),
            relations: observed.collect(),
            written: &|_| {},
        };
        if planted(Mutant::MigrationOldFilesRemovedFirst) {
            remove_unlisted(storage, [None, None])?;
        }
        let written = parts.write().and_then(|checkpoint| validation.finish(&place()).map(|()| checkpoint));
        let checkpoint = written.inspect_err(|_| {
            // What cannot be removed now, the next opening removes.
            let _ = remove_unlisted(storage, [Some(&old), None]);
        })?;
        let mut new = Manifest {
            floor: opened.epoch,
            relations: entries,
            checkpoint: Some(checkpoint),
            generations: Vec::new(),
            origin: None,
            changes: old.changes.max(self.migration.count()),
            ..old
        };
        new.break_log();
        new.replace(storage)?;
        remove_unlisted(storage, [Some(&new), None])?;
        Ok(())
    }

    /// The relations of the new manifest, and where their rows come from.
    fn relations<'p>(
        &self,
        plan: &'p Plan,
        old: &Manifest,
        stores: &[&'p Store],
    ) -> (Vec<RelationEntry>, Vec<Output<'p>>) {
        let tables = stored_tables(old);
        let outcome = |table: &str| {
            let at = tables.iter().position(|(name, _)| *name == table);
            at.map(|at| &plan.outcomes[at])
        };
        let (mut entries, mut outputs) = (Vec::new(), Vec::new());
        for entry in &old.relations {
            let table = entry.index_of().map_or(&entry.name[..], |(table, _)| table);
            // An index is taken along if what the files hold of it counts, and its table stays as it is.
            let is_index = entry.index_of().is_some();
            let conversion = match outcome(table) {
                Some(Outcome::Kept) if !is_index || entry.standing == Standing::Whole => None,
                Some(Outcome::Converted(conversion)) if !is_index => Some(&**conversion),
                _ => continue,
            };
            let find = |name: &str, among: &[&'p Store]| {
                among.iter().copied().find(|store| store.layout().name == name)
            };
            let Some(store) = find(&entry.name, stores) else { continue };
            let id = entries.len() as u16;
            entries.push(match conversion {
                None => RelationEntry { id, ..entry.clone() },
                Some(conversion) => {
                    let declared =
                        self.declared.iter().find(|store| store.layout().name == conversion.name());
                    describe(declared.expect("the plan has found it"), id)
                }
            });
            outputs.push(Output { store, id, conversion, observe: None });
        }
        (entries, outputs)
    }
}
