//! What is executed in software: reads under the locks of partitions, and commits, in a region if they are to be
//! ([`Reach::Commit`]).

use super::partitions;
use super::region;
use super::{CHANGED, LOCKED, Local, PHANTOM, Runs};
use crate::access::WriteSet;
use crate::commit::Commit;
use crate::error::Conflict;
use crate::kind::{Fallback, Reach};
use crate::mutant::{Mutant, planted};
use crate::protocol::silo::Silo;
use crate::protocol::{Env, Intent, Protocol};
use crate::record::{RecordData, RecordRef};
use crate::stamp;
use crate::sync::{htm, point, work};
use crate::table::{GroupSet, Layout};

impl Local {
    /// Comes to a row, of which it is told what follows by a read or a write.
    #[inline(never)]
    pub(super) fn come_to(&mut self, partition: usize) {
        match self.runs {
            Runs::InRegion => self.partitions.look(&self.shared.partitions, partition),
            Runs::InSoftware => self.partitions.come_to(partition),
            Runs::NotYet => {}
        }
    }

    /// In software: the row that it came to last is to be changed.
    pub(super) fn change(&mut self) -> Result<(), Conflict> {
        let is_locked =
            self.runs != Runs::InSoftware || self.partitions.change(&self.shared.partitions, self.worker);
        if is_locked { Ok(()) } else { Err(Conflict::Locked) }
    }

    /// Reads in software where there are locks of partitions.
    #[inline(never)]
    pub(super) fn read_by_partition<R>(
        &mut self,
        env: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        intent: Intent,
        copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        if intent == Intent::Update {
            self.change()?;
        }
        let first = self.silo.reads();
        let value = Silo::read(&mut self.silo, env, record, layout, groups, intent, copy)?;
        if self.partitions.is_covered() {
            let (newest, looked) = self.silo.forget_reads(first);
            (self.newest, self.looked) = (self.newest.max(newest), self.looked | looked);
        }
        Ok(value)
    }

    /// Before a commit: has to do with the partitions of all that is written, if it had not before.
    pub(super) fn enter_written(&mut self, bits: u8, writes: &WriteSet) -> Result<(), Conflict> {
        for write in writes.writes() {
            let partition = partitions::of(writes.key(write), bits);
            if self.runs == Runs::InRegion {
                self.partitions.look(&self.shared.partitions, partition);
            } else if !self.partitions.take(&self.shared.partitions, partition, self.worker) {
                return Err(Conflict::Locked);
            }
        }
        Ok(())
    }

    /// Whether what is executed in software is to commit in a region: where that has to do with no other lock than the records'.
    pub(super) fn commits_by_region(&self) -> bool {
        self.options.reach == Reach::Commit || self.options.fallback == Fallback::Record
    }

    /// Commits what was executed in software.
    pub(super) fn commit_in_software(
        &mut self,
        env: Env<'_>,
        commit: &mut Commit<'_>,
    ) -> Result<u64, Conflict> {
        if let Some(bits) = self.partition_bits {
            self.enter_written(bits, commit.writes())?;
            self.silo.be_after(self.newest);
        }
        if self.options.reach == Reach::Commit {
            return self.commit_by_region(env, commit);
        }
        if self.commits_by_region() {
            // A conflict that is found there is no reason to try the whole in a region once more.
            let tries = self.policy.begin_commit();
            return self.commit_by_region(env, commit).inspect_err(|_| self.policy.resume(tries));
        }
        let time = Silo::commit(&mut self.silo, env, commit)?;
        let reads_only = commit.writes().is_empty();
        Ok(match self.partition_bits {
            Some(_) if reads_only && self.looked => stamp::floor(env.clock.now()),
            Some(_) if reads_only => time.max(self.newest),
            _ => time,
        })
    }

    /// Commits what was read and written in software, in a region if possible.
    fn commit_by_region(&mut self, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let writes = commit.writes();
        while !writes.is_empty() && self.has_regions() && self.policy.tries() {
            self.policy.pause();
            let silo = &mut self.silo;
            work(silo.checks(writes));
            let early =
                planted(Mutant::HtmValidatedEarly).then(|| silo.validate_locked(env.isolation, writes));
            let locked = region::run(|| {
                let newest_write = silo.lock_in_region(writes);
                match early.unwrap_or_else(|| silo.validate_locked(env.isolation, writes)) {
                    Ok(newest_read) => (newest_read.max(newest_write), env.announce_commit()),
                    Err(conflict) => {
                        abort_for(conflict);
                        (0, 0)
                    }
                }
            });
            match locked {
                Ok((newest, epoch)) => {
                    self.shared.tallies.committed_only(self.worker);
                    point("locked");
                    return self.silo.install_after(newest, epoch, &env, commit);
                }
                Err(why) => {
                    self.silo.forget_locks();
                    self.note_failure(why);
                    if let Some(conflict) = conflict_of(why) {
                        return Err(conflict);
                    }
                }
            }
        }
        if !writes.is_empty() || self.options.reach == Reach::Accesses {
            self.shared.tallies.in_software(self.worker);
        }
        Silo::commit(&mut self.silo, env, commit)
    }
}

/// Aborts the region because of what its validation has found.
fn abort_for(conflict: Conflict) {
    match conflict {
        Conflict::Locked => htm::abort::<LOCKED>(),
        Conflict::Phantom => htm::abort::<PHANTOM>(),
        _ => htm::abort::<CHANGED>(),
    }
}

/// What a validation has found for which the region aborted itself, if another try can find nothing else.
fn conflict_of(why: htm::Abort) -> Option<Conflict> {
    match why {
        htm::Abort::Explicit(CHANGED) => Some(Conflict::ReadChanged),
        htm::Abort::Explicit(PHANTOM) => Some(Conflict::Phantom),
        _ => None,
    }
}
