//! Copies that open: the rows as of one moment, beside running transactions, in a directory of their own.
//!
//! **Mechanism.** The copy's place is locked, and must be empty. A snapshot is taken, and its rows are written to part files
//! as those of a checkpoint are. Last, a manifest lists them: that is the instant at which there is a copy. Until then the place
//! holds files without a manifest, which nobody opens; after a failure they are removed.
//!
//! The moment of a snapshot is no earlier than the call, and a prefix of the serial order, so the copy holds all that was
//! committed before the call and nothing of which it lacks the cause. The log has no part in it: a database in memory can be
//! copied, and one whose log has failed.
//!
//! **A copy that can be continued** follows the log: its manifest says with which generation and round that had closed the copy's
//! epoch. What is committed later is of later epochs, in that generation, which was being written before the moment, or in later
//! ones. A round is written that says so, if there is none yet; where that fails, the copy is one that cannot be continued.

use super::declared::describe;
use super::parts::{Held, Output, Parts, Written, sums};
use super::store::{Store, Stores};
use super::walkers::Walkers;
use crate::backup::{Backup, BackupProgress, BackupReport};
use crate::copies::{Carried, Log, continue_copy, fresh_manifest, open_copy, refuse_unless_empty};
use crate::durability::{Marked, RedoLog};
use crate::epoch::EpochClock;
use crate::error::{Misuse, Result};
use crate::log::{Manifest, Name, Origin, RelationEntry, Standing, again, lock_storage, remove_unlisted};
use crate::mutant::{Mutant, planted};
use crate::snapshot::Boundaries;
use crate::storage::{Storage, now_ms};
use crate::sync::{Mutex, lock, now_ns, sleep};
use std::time::Duration;

/// What a copy needs of a database.
pub(super) struct Source<'a> {
    pub clock: &'a EpochClock,
    pub boundaries: &'a Boundaries,
    pub stores: &'a Stores,
    pub walkers: &'a Walkers,
    /// The log, where there is one; and of a database that is only read, the last epoch that its files hold.
    pub log: Option<(&'a RedoLog, u64)>,
}

impl Source<'_> {
    /// Takes the copy, into a storage that is locked for it.
    pub fn take(&self, backup: &Backup, storage: &dyn Storage) -> Result<BackupReport> {
        let begun = now_ns();
        refuse_unless_empty(storage)?;
        // Before the moment: what is logged later is in this generation, or a later one.
        let from = self.log.filter(|(log, _)| !log.is_read_only()).map(|(log, _)| log.generation());
        let taken = self.write(backup, storage, begun, from).inspect_err(|_| clear(storage))?;
        let mut report = BackupReport::default();
        let checkpoint = taken.checkpoint.expect("a copy is a checkpoint");
        (report.rows, report.bytes) = sums(&checkpoint);
        report.epoch = checkpoint.epoch;
        report.can_continue = taken.origin.is_some();
        report.elapsed = Duration::from_nanos(now_ns() - begun);
        Ok(report)
    }

    /// How far the copy follows the log up to `epoch`, which is that of what is committed now; and the relations by their
    /// numbers there.
    fn origin(&self, epoch: u64, from: Option<u64>) -> Option<(Origin, Vec<RelationEntry>)> {
        let (log, durable) = self.log?;
        if let Some(from) = from {
            // Where the log has failed, the copy saves what it holds.
            let Marked { manifest, generation: through, rounds, time, .. } = log.mark(epoch).ok()?;
            let origin = Origin { directory: manifest.directory, from, through, rounds, time, epoch };
            return Some((origin, manifest.relations));
        }
        let (_, manifest) = log.found();
        let last = manifest.generations.last().filter(|last| last.number >= manifest.log_from);
        let through = last.map_or(manifest.next_generation, |last| last.number);
        let rounds = last.and_then(|last| last.end).map_or(0, |end| end.rounds);
        let origin =
            Origin { directory: manifest.directory, from: through, through, rounds, time: 0, epoch: durable };
        Some((origin, manifest.relations))
    }

    fn write(
        &self,
        backup: &Backup,
        storage: &dyn Storage,
        begun: u64,
        from: Option<u64>,
    ) -> Result<Manifest> {
        let mut manifest = fresh_manifest();
        let held = Held { boundaries: self.boundaries, boundary: self.boundaries.now(self.clock)? };
        let time = now_ms(self.log.map(|(log, _)| log.found().0).as_deref().unwrap_or(storage));
        let linked = self.origin(held.boundary.epoch(), from);
        // What is only read commits nothing: its rows are those as of the last epoch of its files.
        let epoch = linked.as_ref().map_or(held.boundary.epoch(), |(origin, _)| origin.epoch);
        let listed = |store: &Store, number: u16| match &linked {
            None => number,
            Some((_, entries)) => {
                let is_it = |entry: &&RelationEntry| {
                    entry.name == store.layout().name && entry.standing != Standing::Removed
                };
                entries.iter().find(is_it).expect("every relation of a database with files is listed").id
            }
        };
        // Only now: whatever was committed by this moment, in a table made a moment ago too, is in one of these. A later one is
        // empty as of this moment.
        let relations: Vec<Output<'_>> = self
            .stores
            .all()
            .into_iter()
            .zip(0..)
            .map(|(store, id)| Output::of(store, listed(store, id)))
            .collect();
        manifest.changes = self.log.map_or(0, |(log, _)| log.found().1.changes);
        manifest.relations = relations.iter().map(|output| describe(output.store, output.id)).collect();
        let progress = Mutex::new(BackupProgress::default());
        lock(&progress).of_relations = relations.len();
        let written = |written: Written| {
            let told = {
                // Held while it is told, so that nobody is told of less than before.
                let mut progress = lock(&progress);
                match written {
                    Written::Frame { rows, bytes } => {
                        progress.rows += rows;
                        progress.bytes += bytes;
                    }
                    Written::Relation => progress.relations += 1,
                }
                backup.tell(*progress);
                *progress
            };
            keep_pace(backup, begun, told.bytes);
        };
        let parts = Parts {
            storage,
            directory: manifest.directory,
            number: 1,
            moment: held.boundary.epoch(),
            epoch,
            time,
            clock: self.clock,
            walkers: self.walkers,
            relations,
            written: &written,
        };
        if planted(Mutant::BackupManifestFirst) {
            manifest.replace(storage)?;
        }
        let checkpoint = parts.write()?;
        drop(held);
        manifest.floor = checkpoint.epoch + 1;
        manifest.origin = linked.map(|(origin, _)| origin);
        manifest.checkpoint = Some(checkpoint);
        manifest.replace(storage)?;
        Ok(manifest)
    }
}

/// Continues a copy with the log.
pub(super) fn continue_with(
    log: Option<&RedoLog>,
    clock: &EpochClock,
    backup: &Backup,
) -> Result<BackupReport> {
    let begun = now_ns();
    let Some(log) = log else {
        let what = "a database without a log cannot continue a copy; take a full one";
        return Err(Misuse::Option(what.to_owned()).into());
    };
    let copy = open_copy(backup.place(), false)?;
    let _locked = lock_storage(&*copy)?;
    let mut told = |carried: Carried| {
        let mut progress = BackupProgress::default();
        (progress.transactions, progress.bytes) = (carried.transactions, carried.bytes);
        backup.tell(progress);
        keep_pace(backup, begun, carried.bytes);
    };
    let continued = if log.is_read_only() {
        let (storage, _) = log.found();
        let manifest = Manifest::read(&*storage)?.expect("what is opened to be read has a manifest");
        let log = Log { storage: &*storage, manifest: &manifest, written: None, threads: 1 };
        continue_copy(&log, &*copy, &mut told)
    } else {
        let Marked { storage, manifest, generation, rounds, .. } = log.mark(clock.now())?;
        let written = Some((generation, rounds));
        let log = Log { storage: &*storage, manifest: &manifest, written, threads: 1 };
        continue_copy(&log, &*copy, &mut told)
    }?;
    let mut report = BackupReport::default();
    (report.epoch, report.can_continue) = (continued.epoch, true);
    (report.transactions, report.bytes) = (continued.carried.transactions, continued.carried.bytes);
    report.elapsed = Duration::from_nanos(now_ns() - begun);
    Ok(report)
}

/// Waits until so many bytes are not too many for the time since the begin.
fn keep_pace(backup: &Backup, begun: u64, bytes: u64) {
    if let Some(pace) = backup.pace() {
        let due = begun.saturating_add((u128::from(bytes) * 1_000_000_000 / u128::from(pace)) as u64);
        sleep(Duration::from_nanos(due.saturating_sub(now_ns())));
    }
}

/// Removes what was written of a copy that failed, so that another can be taken into the same place. What cannot be removed
/// opens for nobody, for it has no manifest: that is removed first.
fn clear(storage: &dyn Storage) {
    let manifest = Name::Manifest.to_string();
    let _ = again(|| storage.remove(&manifest));
    let _ = remove_unlisted(storage, [None, None]);
}
