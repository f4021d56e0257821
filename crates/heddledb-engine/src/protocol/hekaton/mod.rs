//! Hekaton's optimistic scheme: several versions, read as of the begin and checked again at the end.
//!
//! **Mechanism** (Larson et al., "High-performance concurrency control mechanisms for main-memory databases",
//! VLDB 2011, §2 and §3). A transaction draws a begin time and, when its body is done, an end time (`times`).
//! It reads of each column group the version that was current at its begin, an old one if need be, and waits
//! for no transaction that runs. A write locks the group at once; if another has it, or has committed a newer
//! version than the begin, the attempt is over: the first writer wins. The end:
//!
//! 1. *prepare*: show the new values, announce it, draw the end time;
//! 2. *validate*: what was read is what is visible at the end time, and no gap that was looked at has
//!    changed;
//! 3. wait for the transactions that it depends on to commit; if one aborts, this one does;
//! 4. *commit*: put the values into the records under the end time, keep what they replace, let the locks go.
//!
//! A transaction that has written nothing needs neither end nor validation: it is as if executed at its
//! begin.
//!
//! **A group's words**: its stamp (`crate::stamp`), its writer (an id, 0, or all ones once sealed), and the
//! image of what the writer is about to install (a link; bit 0: the row will not exist; 0: not shown).
//!
//! ```text
//!   stamp  t        t             t              t|lock       e         e
//!   writer 0 -lock-> id           id             id           id        0
//!   image  0        0  -show->    link           link         link      0
//!                   running       preparing      committed ------------->  ended
//!                     '---- abort ----'-------> writer 0, image 0
//! ```
//!
//! **What is visible at time `t`** (`Local::visible`). The stamp is younger: an old version, from the chain.
//! No writer, or one that runs: the record's own words, since it will end later. A writer that ends after
//! `t`: the record's own words, too. One that ends before `t` and has committed: its image. One that prepares
//! to end before `t`: its image too, *speculatively*. The reader then depends on it (a *commit dependency*).
//! That covers both of the paper's cases, the version that a preparing transaction creates and the one that
//! it ends, because here they are of the same group.
//!
//! **Why waits end.** Dependencies lead from a transaction that reads at some time to one that ends before
//! it: end times fall along them. A transaction waits for others only at its end, or before it gives up, and
//! only for dependencies. A transaction that finds a group while its words change, or a writer between
//! announcing and knowing its end, waits for a few instructions of another, which waits for nothing
//! meanwhile.
//!
//! **Absence.** A placeholder is absent since time 0 and read like any record; a row that was deleted has old
//! versions for transactions that read earlier. A key without an entry was absent at every time that a
//! running transaction may read at: a transaction that commits an insert had entered the record before it
//! drew its end, and a deleted record leaves the index only three epochs later. At the end, gaps must have
//! the versions at which they were looked at: an insert before that end has changed the version before.
//!
//! **Lower levels** ([`Isolation`]). *Snapshot*: nothing is validated. *Repeatable read*: nor is it, and each
//! record is read at the time of its first read, as it is then; the lock on one that was read before is
//! refused if it has changed since. So the transaction's slot says *and later* from the begin on. The paper
//! reads at the begin there, too, and validates.
//!
//! **Epochs.** Times are of the epoch in which they are drawn, and order all conflicts: so epochs of commits
//! do not fall along any dependency.
//!
//! **Old versions.** Every version that is overwritten is kept. It is no longer needed when no transaction
//! reads at a time at which it was current, nor a snapshot at an epoch. Writers look for such versions now
//! and then and take them out (`CUTS_ONE_IN`), so that a chain is as long as there are readers, and a few
//! more. Versions of rows that are not overwritten again go when the epochs have passed, as after snapshots.
//! Blocks are reused when no pinned worker can stand on them. So memory is bounded by what is overwritten
//! within some epochs, or, if it is longer, during the life of the longest transaction; chains are short even
//! then. (Test: `tests/memory.rs`.)
//!
//! **Where we leave the paper:**
//!
//! - *Values are in place.* Its versions are linked into the index, and are whole rows; here a group has its
//!   newest committed version in the record and older ones behind it, as snapshots and the log want them. So
//!   a new version must be shown apart while its writer prepares. Tests: `heddle sim hunt --protocol
//!   hekaton`, and the planted bugs `HekatonPreparingIgnored` and `HekatonDependencyIgnored`.
//! - *What may be overwritten.* The paper lets a transaction write on top of one that prepares; here the lock
//!   is held until the values are in place. That costs aborts, but none of a reader.
//! - *The dependent transaction waits*: it looks at the other's slot; the other has no list of its
//!   dependents. So it notifies nobody, and the number of dependents has no limit.
//! - *Phantoms.* The paper scans again at the end; here the gap's version is compared, as by all protocols
//!   here. An insert that is aborted, or ends later, may so abort a scanner. Conformance: `phantom_*`.
//! - *Reads at the end* compare stamps instead of pointers; a version that is read again at another place has
//!   an equal stamp.
//!
//! Strictly serializable: the end, or the begin of one that writes nothing, lies within the transaction's
//! life, and everything is as if executed there. Not opaque, though all reads are of one moment: a writer
//! whose image was read may yet abort. The price is the one counter (TicToc §6.3).

mod ending;
mod times;
mod visible;
mod words;

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests;

use super::gaps::GapSet;
use super::images::{Chunks, Images};
use super::{Env, Intent, Isolation, Pieces, Protocol, Seal, Sighted, State};
use crate::access::{Groups, RecordMap, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Gap, Seen};
use crate::mutant::{Mutant, planted};
use crate::record::{ConcurrencyWords, RecordData, RecordRef, data_base, heads_base};
use crate::stamp;
use crate::sync::{Ordering, Suspender, fence, note};
use crate::table::{GroupSet, Layout};
use std::sync::Arc;
use times::{Id, Readers, Times};
use visible::Read;
use words::{NONE, SEALED, image, release, stamp, writer};

/// The protocol. Three words per column group: stamp, writer, image.
#[derive(Debug)]
pub struct Hekaton;

/// What the workers of a database share.
#[derive(Debug)]
pub struct Shared {
    times: Times,
    chunks: Chunks,
}

impl super::Shared for Shared {
    fn new(sessions: usize) -> Self {
        debug_assert!(sessions <= times::SLOTS_MAX, "a slot for each session");
        Self { times: Times::new(sessions), chunks: Chunks::default() }
    }
}

/// One worker's attempt.
pub struct Local {
    shared: Arc<Shared>,
    worker: usize,
    /// The attempt, and its begin time; none before the first.
    id: Id,
    begin: u64,
    /// Under repeatable read, the records that were read, and at which times; else none.
    records: RecordMap,
    times: Vec<u64>,
    /// The attempt has neither ended nor aborted.
    open: bool,
    reads: Vec<Read>,
    gaps: GapSet,
    /// The groups whose writer this attempt is.
    locks: Vec<(RecordRef, u8)>,
    /// The transactions without which it cannot commit.
    dependencies: Vec<Id>,
    /// What it is about to install.
    images: Images,
    /// A row put together from old versions and images.
    row: Images,
    readers: Readers,
    suspender: Option<Suspender>,
}

impl ConcurrencyWords for Hekaton {
    const GROUP_WORDS: usize = 3;
    const NAMES: &'static [&'static str] = &["stamp", "writer", "image"];
    const EVERY_VERSION: bool = true;
}

impl State for Hekaton {
    type Options = crate::kind::Hekaton;
    type Local = Local;
    type Shared = Shared;
}

impl Pieces for Hekaton {}

impl Protocol for Hekaton {
    fn local(_: &crate::kind::Hekaton, shared: &Arc<Shared>, worker: usize) -> Local {
        Local {
            shared: Arc::clone(shared),
            worker,
            id: Id::from_bits(SEALED),
            begin: 0,
            records: RecordMap::default(),
            times: Vec::new(),
            open: false,
            reads: Vec::new(),
            gaps: GapSet::default(),
            locks: Vec::new(),
            dependencies: Vec::new(),
            images: Images::default(),
            row: Images::default(),
            readers: Readers::default(),
            suspender: None,
        }
    }

    fn suspend_by(local: &mut Local, suspender: Option<Suspender>) {
        local.suspender = suspender;
    }

    #[inline]
    fn begin(local: &mut Local, env: Env<'_>, _: u32) {
        local.reads.clear();
        local.gaps.clear();
        local.dependencies.clear();
        local.images.clear();
        local.records.clear();
        local.times.clear();
        // Under repeatable read, at any time from the begin on.
        let and_later = env.isolation == Isolation::RepeatableRead;
        (local.id, local.begin) = local.shared.times.begin(local.worker, env.clock, and_later);
        local.open = true;
        note(|| format!("reads at {:#x}", local.begin));
    }

    #[inline(always)]
    fn read<R>(
        local: &mut Local,
        env: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        _: Intent,
        mut copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        let time = local.read_time(env, record);
        let first = local.reads.len();
        'again: loop {
            let mut absent = false;
            for group in Groups(groups) {
                let head = heads_base::<Hekaton>(layout) + group;
                let Some(stamp) = local.in_place(record, group, head, time)? else {
                    local.reads.truncate(first);
                    break 'again;
                };
                absent |= stamp::is_absent(stamp);
                local.reads.push(Read { record, stamp, group: group as u8, head: head as u16 });
            }
            let value = (!absent).then(|| copy(RecordData::new(record, data_base::<Hekaton>(layout))));
            // Acquire fence, then relaxed loads: pairs with the release fence of the install.
            fence(Ordering::Acquire);
            let stands = |read: &Read| stamp!(record, read.group).load(Ordering::Relaxed) == read.stamp;
            if local.reads[first..].iter().all(stands) {
                return Ok(value);
            }
            local.reads.truncate(first);
        }
        let row = local.put_together(record, layout, groups, time)?;
        Ok(row.map(|row| copy(RecordData::new(row, 0))))
    }

    #[inline(always)]
    fn sight(
        local: &mut Local,
        env: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        group: usize,
        _: Intent,
    ) -> Result<Sighted, Conflict> {
        let time = local.read_time(env, record);
        let head = heads_base::<Hekaton>(layout) + group;
        let Some(stamp) = local.in_place(record, group, head, time)? else { return Ok(Sighted::Hidden) };
        // An absent row's stamp is compared too: where nothing is copied, by the read that follows.
        if stamp::is_absent(stamp) {
            return Ok(Sighted::Hidden);
        }
        local.reads.push(Read { record, stamp, group: group as u8, head: head as u16 });
        Ok(Sighted::At { word: Self::stamp_word(group), was: stamp })
    }

    fn unsight(local: &mut Local) {
        local.reads.pop();
    }

    #[inline]
    fn exists(_: &mut Local, record: RecordRef) -> bool {
        !stamp::is_absent(stamp!(record, 0).load(Ordering::Relaxed))
    }

    #[inline]
    fn write(
        local: &mut Local,
        env: Env<'_>,
        record: RecordRef,
        _: &'static Layout,
        groups: GroupSet,
        _: usize,
    ) -> Result<(), Conflict> {
        let newest = local.newest_overwritten(env, record);
        for group in Groups(groups) {
            let (word, own) = (writer!(record, group), local.id.bits());
            let writer = word.load(Ordering::Relaxed);
            if writer == own || planted(Mutant::HekatonWriteNotLocked) {
                continue;
            }
            if writer == SEALED {
                return Err(Conflict::Reclaimed);
            }
            // Acquire: the last writer's stamp is seen below. Release: a transaction that finds us here sees
            // our status.
            if writer != NONE
                || word.compare_exchange(NONE, own, Ordering::AcqRel, Ordering::Relaxed).is_err()
            {
                return Err(Conflict::Locked);
            }
            local.locks.push((record, group as u8));
            let stamp = stamp!(record, group).load(Ordering::Relaxed);
            if stamp::time(stamp) > newest && !planted(Mutant::HekatonNewerOverwritten) {
                // The first writer has won.
                return Err(Conflict::ReadChanged);
            }
        }
        Ok(())
    }

    fn writes_taken_back(local: &mut Local, left: &WriteSet) {
        // The commit lets go what it installs, so no other lock may be left. Those of what was taken back came last.
        while let Some((record, group)) = local.locks.last().copied()
            && !left.covers(record, group.into())
        {
            release(record, group.into());
            local.locks.pop();
        }
    }

    #[inline]
    fn observe_gap(local: &mut Local, seen: Seen) {
        local.gaps.push(seen);
    }

    fn own_gap_changed(local: &mut Local, change: Change, sought: bool) {
        local.gaps.follow(change, sought);
    }

    fn init_record(record: RecordRef, layout: &'static Layout, _: &Gap) {
        for group in 0..layout.groups.len() {
            Self::restore(record, group, stamp::ABSENT);
        }
    }

    #[inline]
    fn commit(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        local.commit(env, commit)
    }

    /// What was read is of one moment, the begin; only the transactions that it depends on must have
    /// committed.
    fn validate(local: &mut Local, _: Env<'_>) -> Result<(), Conflict> {
        local.await_dependencies()
    }

    fn abort(local: &mut Local, _: Env<'_>, _: &WriteSet) {
        // Before the locks go: a transaction that finds a group without a writer must not have been told a
        // value of it.
        if std::mem::take(&mut local.open) {
            local.shared.times.end(local.id, false);
        }
        for (record, group) in local.locks.drain(..) {
            release(record, group.into());
        }
    }

    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        clock: &EpochClock,
        _: &Gap,
        has_no_versions: impl FnOnce() -> bool,
    ) -> Seal {
        ending::seal(record, layout, clock, has_no_versions)
    }

    fn restore(record: RecordRef, group: usize, stamp: u64) {
        // Relaxed: later readers learn of the record by a release.
        image!(record, group).store(NONE, Ordering::Relaxed);
        writer!(record, group).store(NONE, Ordering::Relaxed);
        stamp!(record, group).store(stamp, Ordering::Relaxed);
    }
}
