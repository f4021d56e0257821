//! No concurrency control: the limit that all others are measured against.
//!
//! There is one session only, so nothing races but snapshots and checkpoints, for which stamps are kept.
//! Tables, indexes, the write set and aborts work as under any other protocol; what is missing is exactly
//! what a concurrency control adds.

use super::{Env, Intent, Pieces, Protocol, Seal, Sighted, State};
use crate::access::WriteSet;
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Gap, Seen};
use crate::record::{ConcurrencyWords, RecordData, RecordRef, data_base};
use crate::stamp;
use crate::sync::{Ordering, decided, fence};
use crate::table::{GroupSet, Layout};
use std::sync::Arc;

/// The protocol. Its one word per group holds the stamp of the last writer, for logs and snapshots.
#[derive(Debug)]
pub struct Unprotected;

/// The last commit stamp.
#[derive(Default)]
pub struct Local {
    last: u64,
}

fn state(record: RecordRef, group: usize) -> u64 {
    // Relaxed: one session, one thread at a time, handed over by the session's owner.
    record.word(group).load(Ordering::Relaxed)
}

fn set_all(record: RecordRef, layout: &Layout, word: u64) {
    for group in 0..layout.groups.len() {
        record.word(group).store(word, Ordering::Relaxed);
    }
}

impl ConcurrencyWords for Unprotected {
    const GROUP_WORDS: usize = 1;
    const NAMES: &'static [&'static str] = &["stamp"];
}

impl State for Unprotected {
    type Options = crate::kind::Unprotected;
    type Local = Local;
    type Shared = ();
}

impl Pieces for Unprotected {}

impl Protocol for Unprotected {
    fn local(_: &crate::kind::Unprotected, _: &Arc<()>, _: usize) -> Local {
        Local::default()
    }

    fn begin(_: &mut Local, _: Env<'_>, _: u32) {}

    #[inline(always)]
    fn read<R>(
        _: &mut Local,
        _: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        _: GroupSet,
        _: Intent,
        mut copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        let present = !stamp::is_absent(state(record, 0));
        Ok(present.then(|| copy(RecordData::new(record, data_base::<Self>(layout)))))
    }

    #[inline(always)]
    fn sight(
        _: &mut Local,
        _: Env<'_>,
        record: RecordRef,
        _: &'static Layout,
        group: usize,
        _: Intent,
    ) -> Result<Sighted, Conflict> {
        let was = state(record, group);
        Ok(if stamp::is_absent(was) { Sighted::Absent } else { Sighted::At { word: group, was } })
    }

    fn unsight(_: &mut Local) {
        unreachable!("there is one session")
    }

    fn exists(_: &mut Local, record: RecordRef) -> bool {
        !stamp::is_absent(state(record, 0))
    }

    fn observe_gap(_: &mut Local, _: Seen) {}
    fn own_gap_changed(_: &mut Local, _: Change, _: bool) {}

    fn init_record(record: RecordRef, layout: &'static Layout, _: &Gap) {
        set_all(record, layout, stamp::ABSENT);
    }

    fn commit(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let writes = commit.writes();
        if writes.is_empty() {
            return Ok(local.last);
        }
        let epoch = env.commit_epoch();
        let time = local.last.max(stamp::floor(epoch)) + 1;
        if stamp::epoch(time) > epoch {
            return Err(Conflict::EpochFull);
        }
        local.last = time;
        decided(time);
        for write in writes.writes() {
            for group in write.group_numbers() {
                let word = write.record.word(group);
                word.store(word.load(Ordering::Relaxed) | stamp::LOCK, Ordering::Relaxed);
            }
            // Pairs with the acquire fence of a snapshot's reader.
            fence(Ordering::Release);
            commit.install::<Self>(write, time);
            let stamp = stamp::of(time, write.present);
            // Release: publishes the data to a snapshot's readers.
            write.group_numbers().for_each(|group| write.record.word(group).store(stamp, Ordering::Release));
        }
        Ok(time)
    }

    fn validate(_: &mut Local, _: Env<'_>) -> Result<(), Conflict> {
        Ok(())
    }

    fn abort(_: &mut Local, _: Env<'_>, _: &WriteSet) {}

    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        _: &EpochClock,
        _: &Gap,
        has_no_versions: impl FnOnce() -> bool,
    ) -> Seal {
        if !stamp::is_absent(state(record, 0)) {
            return Seal::Live;
        }
        if !has_no_versions() {
            return Seal::Busy;
        }
        set_all(record, layout, stamp::SEALED);
        Seal::Sealed
    }

    fn restore(record: RecordRef, group: usize, stamp: u64) {
        record.word(group).store(stamp, Ordering::Relaxed);
    }
}
