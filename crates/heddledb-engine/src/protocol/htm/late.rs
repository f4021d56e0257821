//! Additions that calls make at their end, in the epoch of their piece that conflicts ([`Options::lazy_numbers`](super::Options)).
//!
//! They are made in software, under the locks of Silo. A group to which a call of the next epoch has added already is *late*: its
//! stamp stays one of that epoch, since a snapshot of this one must not take the record's words for its own, and what such a snapshot
//! will see of the group is changed, too (DBX-TC §4, the redo of commutative operations; `Commit::install_late`). Never is a stamp of
//! a later epoch than that: the worker's commit pin lets the epoch be one ahead of it.
//!
//! Nobody overwrites such a group but by additions while calls are under way, and whoever adds to one keeps what was there if that is of an
//! earlier epoch (`Commit::keeping_earlier`); so there is what a snapshot will see, and it is the newest of the old versions.

use crate::commit::Commit;
use crate::error::Conflict;
use crate::protocol::Env;
use crate::protocol::silo::{self, Silo};
use crate::record::ConcurrencyWords;
use crate::stamp;
use crate::sync::{Ordering, Work, decided, fence, point, work};

impl silo::Local {
    /// See [`Protocol::commit_additions`](crate::protocol::Protocol::commit_additions).
    pub(super) fn commit_additions(
        &mut self,
        env: Env<'_>,
        commit: &mut Commit<'_>,
    ) -> Result<u64, Conflict> {
        let writes = commit.writes().writes();
        work(Work::Checks(writes.len()));
        let announced = env.announce_commit();
        let mut stamps = Vec::with_capacity(writes.len());
        for write in writes {
            debug_assert!(write.groups.is_power_of_two(), "a row of a write has one group");
            stamps.push(self.lock(write.record, write.groups.trailing_zeros() as usize, true)?);
        }
        point("locked");
        let epoch = env.announced_epoch(announced);
        let (mut newest, mut newest_late) = (0, 0);
        let mut late = Vec::new();
        for (write, stamp) in writes.iter().zip(stamps) {
            if stamp::epoch(stamp) <= epoch {
                newest = newest.max(stamp::time(stamp));
                continue;
            }
            debug_assert_eq!(stamp::epoch(stamp), epoch + 1, "the epoch goes on without this worker");
            let group = write.groups.trailing_zeros() as usize;
            newest = newest.max(Commit::time_as_of::<Silo>(write, group, epoch));
            newest_late = newest_late.max(stamp::time(stamp));
            late.push(*write);
        }
        let time = newest.max(self.last).max(env.after).max(stamp::floor(epoch)) + 1;
        let late_time = newest_late + 1;
        if stamp::epoch(time) > epoch || stamp::epoch(late_time) > epoch + 1 {
            return Err(Conflict::EpochFull);
        }
        self.last = time;
        decided(time);

        // Release fence, then relaxed data stores: as in Silo's step 4.
        fence(Ordering::Release);
        let is_late = |record| late.iter().any(|write| write.record == record);
        for write in writes {
            let group = write.groups.trailing_zeros() as usize;
            point("install");
            if !late.is_empty() && is_late(write.record) {
                commit.install_late::<Silo>(write, group, time);
                continue;
            }
            commit.install::<Silo>(write, time);
            // Release: publishes the data to readers of this stamp (Acquire).
            write.record.word(Silo::stamp_word(group)).store(stamp::of(time, true), Ordering::Release);
        }
        if !late.is_empty() {
            point("late");
            commit.log_again::<Silo>(&late, late_time);
            for write in &late {
                let group = write.groups.trailing_zeros() as usize;
                // Release: as above.
                let stamp = stamp::of(late_time, true);
                write.record.word(Silo::stamp_word(group)).store(stamp, Ordering::Release);
            }
        }
        self.forget_locks();
        Ok(time)
    }
}
