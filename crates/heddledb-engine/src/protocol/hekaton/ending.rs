//! The end of a transaction: it shows its writes, prepares, validates, waits for what it depends on, and
//! installs.

use super::times::Outcome;
use super::visible::Read;
use super::words::{NONE, SEALED, WILL_BE_ABSENT, image, release, stamp, writer};
use super::{Hekaton, Local};
use crate::access::{Write, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::mutant::{Mutant, planted};
use crate::protocol::{Env, Isolation, Seal};
use crate::record::{RecordRef, data_base};
use crate::stamp;
use crate::sync::{Ordering, Work, decided, fence, point, wait_out, work};
use crate::table::Layout;

/// One commit in this many, chosen by its time, cuts the chains to which it adds: a look at all slots costs
/// as much as many versions.
const CUTS_ONE_IN: u64 = 8;

impl Local {
    /// Commits, and returns the end time.
    #[inline]
    pub(super) fn commit(&mut self, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let writes = commit.writes();
        work(Work::Checks(self.reads.len() + writes.writes().len()));
        if writes.is_empty() {
            self.await_dependencies()?;
            self.close(true);
            return Ok(self.times.last().map_or(self.begin, |last| self.begin.max(*last)));
        }
        Local::check_presence(writes)?;
        if self.may_fail(env, writes) {
            self.show(writes);
        }
        point("locked");
        let time = self.shared.times.prepare(self.id, self.begin, env.clock);
        if stamp::epoch(time) > env.clock.now() {
            return Err(Conflict::EpochFull);
        }
        if env.isolation == Isolation::Serializable {
            self.validate_reads(time)?;
            if !planted(Mutant::HekatonGapsNotValidated) {
                self.gaps.validate()?;
            }
        }
        self.await_dependencies()?;
        point("validated");
        decided(time);
        self.shared.times.commit(self.id);
        // Scattered, so that every row is sometimes written by a commit that cuts.
        let cut = (time.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).is_multiple_of(CUTS_ONE_IN);
        let cut = cut.then(|| {
            self.shared.times.readers(self.id, &mut self.readers);
            env.clock.now()
        });
        for write in writes.writes() {
            point("install");
            self.install(write, time, cut, commit);
        }
        self.close(true);
        Ok(time)
    }

    /// Waits until all transactions that this one depends on are known to have committed; one that aborts
    /// ends the wait.
    pub(super) fn await_dependencies(&self) -> Result<(), Conflict> {
        if planted(Mutant::HekatonDependencyIgnored) {
            return Ok(());
        }
        for id in &self.dependencies {
            // Not given up: the other prepares already, and ends soon.
            wait_out(self.suspender.as_ref(), || self.shared.times.outcome(*id) != Outcome::Open);
            if self.shared.times.outcome(*id) == Outcome::Aborted {
                return Err(Conflict::Cascade);
            }
        }
        Ok(())
    }

    /// Shows what the writes will make of their groups, before the end time is drawn.
    pub(super) fn show(&mut self, writes: &WriteSet) {
        // Release: a reader of a word of an image, or of a link, that is stored here sees that the generation
        // before is over, and which transaction is the writer now.
        fence(Ordering::Release);
        for write in writes.writes() {
            let (record, layout) = (write.record, write.layout);
            for group in write.group_numbers() {
                let span = layout.groups[group].span;
                let link = if write.present {
                    let shown = self.images.take(span.len(), &self.shared.chunks);
                    if !write.is_full() {
                        let base = data_base::<Hekaton>(layout) + span.start;
                        for index in 0..span.len() {
                            // Relaxed: ours to change, and published with the status.
                            let word = record.word(base + index).load(Ordering::Relaxed);
                            shown.word(index).store(word, Ordering::Relaxed);
                        }
                    }
                    writes.apply(write, span, |index| shown.lasting_word(index - span.start));
                    shown.to_link()
                } else {
                    WILL_BE_ABSENT
                };
                image!(record, group).store(link, Ordering::Relaxed);
            }
        }
    }

    /// Whether the transaction may still abort when it holds its locks: it depends on another, or has read
    /// what others may write.
    fn may_fail(&self, env: Env<'_>, writes: &WriteSet) -> bool {
        let own = |read: &Read| writes.covers(read.record, read.group.into());
        let validates = || !self.gaps.is_empty() || !self.reads.iter().all(own);
        !self.dependencies.is_empty() || (env.isolation == Isolation::Serializable && validates())
    }

    /// Checks, for writes without a read, that the row exists or not, as each write assumed.
    fn check_presence(writes: &WriteSet) -> Result<(), Conflict> {
        for write in writes.writes() {
            for group in write.group_numbers() {
                // Relaxed: under our lock.
                let stamp = stamp!(write.record, group).load(Ordering::Relaxed);
                if stamp::is_absent(stamp) == write.was_present {
                    return Err(Conflict::ReadChanged);
                }
            }
        }
        Ok(())
    }

    /// Puts a write into its record and lets the record go.
    fn install(&self, write: &Write, time: u64, cut: Option<u64>, commit: &mut Commit<'_>) {
        let record = write.record;
        for group in write.group_numbers() {
            let word = stamp!(record, group);
            word.store(word.load(Ordering::Relaxed) | stamp::LOCK, Ordering::Relaxed);
        }
        // Release fence, then relaxed data stores: a reader that has copied one of them also finds the lock
        // bit or the new stamp (pairs with the acquire fences of readers).
        fence(Ordering::Release);
        commit.install::<Hekaton>(write, time);
        for group in write.group_numbers() {
            // Release: publishes the data, and the version before.
            stamp!(record, group).store(stamp::of(time, write.present), Ordering::Release);
        }
        if let Some(epoch) = cut {
            let bug = planted(Mutant::HekatonCutTooMuch);
            commit.cut::<Hekaton>(write, time, epoch, |from, until| !bug && self.readers.need(from, until));
        }
        for group in write.group_numbers() {
            release(record, group);
        }
    }

    /// Ends the attempt.
    fn close(&mut self, committed: bool) {
        self.locks.clear();
        if std::mem::take(&mut self.open) {
            self.shared.times.end(self.id, committed);
        }
    }
}

/// Seals an absent record that has no writer: becomes the writer of all its groups, for ever.
pub(super) fn seal(
    record: RecordRef,
    layout: &'static Layout,
    clock: &EpochClock,
    has_no_versions: impl FnOnce() -> bool,
) -> Seal {
    // Of an epoch gone by, so that the next writer of the row, from a placeholder without a past, ends later.
    let from = clock.commits_from();
    let release = |groups: usize| {
        // Release: as when a writer goes.
        (0..groups).for_each(|group| writer!(record, group).store(NONE, Ordering::Release));
    };
    for group in 0..layout.groups.len() {
        // Acquire: the last writer's stamp.
        let word = writer!(record, group);
        let taken = word.compare_exchange(NONE, SEALED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let stamp = stamp!(record, group).load(Ordering::Relaxed);
        if taken && stamp::is_absent(stamp) && stamp::epoch(stamp) < from {
            continue;
        }
        release(group + usize::from(taken));
        return if stamp::is_absent(stamp) { Seal::Busy } else { Seal::Live };
    }
    if !has_no_versions() {
        release(layout.groups.len());
        return Seal::Busy;
    }
    for group in 0..layout.groups.len() {
        // Release: as when a writer publishes.
        stamp!(record, group).store(stamp::SEALED, Ordering::Release);
    }
    Seal::Sealed
}
