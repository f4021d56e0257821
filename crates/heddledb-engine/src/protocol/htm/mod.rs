//! Hardware regions as a concurrency control, after DBX-TC, with the two systems that it is compared with.
//!
//! **Mechanism.** A *region* of hardware transactional memory is code whose accesses take effect at once or not at all
//! (`crate::sync::htm`). It begins with the first access of a transaction, or of a piece of a call, and stays open until the
//! commit. What is read in it is not remembered: the hardware watches it, rows and indexes alike, so there is nothing to
//! validate, and no phantom. Writes wait in the write set as under every protocol. At the commit the region
//!
//! 1. looks at each column group that is written, and sets the lock bit of its stamp;
//! 2. reads the epoch, and publishes the commit pin;
//! 3. ends. This is the serialisation point: all that was read is current, and all locks are taken, at one moment.
//!
//! The writes are installed behind it, under these locks, as under [`silo`](super::silo), and the same stores unlock.
//!
//! **One rule for hardware and software.** The lock bit in a stamp keeps everybody away, whatever executes them. A region
//! reads the stamp of each row that it touches, so a lock that is taken in software aborts it, and it aborts itself where it
//! finds one. A transaction that fits in no region is one of Silo's, and its commit may still fit in one: that is a line for each
//! row, while what is read and added before takes many. So there is no lock beside the records'; the paper's
//! systems need one, for all or for each partition ([`Fallback::Global`], [`Fallback::Partition`]), since they write in place.
//!
//! | kind | a region is | what fails |
//! |---|---|---|
//! | `dbx-tc`, `-deferred`, `-lazy` | a piece of a call (`db::attempt::modes::chopping`), or all of it (`modes::joining`); closures whole | is executed in software, and commits as under `dbx` |
//! | `dbx` | the commit: reads are validated in it, and locks taken | commits as under `silo` |
//! | `htm` | a transaction | is executed under one lock, which each region reads |
//! | `htm-partition` | a transaction | is executed under the locks of the partitions in which it writes ([`partitions`]) |
//!
//! **Where we leave the paper.** It installs in the region. Then the region holds all lines that are written, and nothing may
//! be in it that a region cannot do: old versions from an arena, values from a heap, the mutex of the log's buffer. Here it
//! holds a line for each row, and these are done as everywhere. What is paid for that is a second store to the stamp, and that
//! a row is locked for as long as its words are stored. Its table cache is not here. Snapshots of
//! chopped calls rest on the barrier of epochs (`modes::parts`), and so does deferred execution (`modes::shelves`); or on lazy snapshot
//! numbers, with [`Options::lazy_numbers`] (`modes::lazy`, [`late`]).
//!
//! **Aborts.** Of the processor's regions an abort is a jump back to [`begin`](region::begin), with registers and memory as
//! they were: it is never seen here but by its second return. On virtual cores the operation that was under way ends with a
//! conflict, and the attempt, or the piece, is executed again. Everything private then is as after any conflict; what was
//! added to an index never was ([`Protocol::vanished`]). What comes after an abort is in [`policy`].
//!
//! **The epoch** is read inside the region, so that it is the present one when the region ends: who overwrites what was read
//! locks it after that, and reads no earlier epoch. The commit pin is stored in the region too, and seen by whoever advances
//! the epoch once it has ended.
//!
//! Strictly serializable: as under Silo, with the end of the region for its serialisation point.

mod calls;
mod fallback;
mod late;
mod partitions;
mod policy;
mod region;
mod software;
mod tally;

use super::silo::{self, Silo};
use super::{Env, Intent, Protocol, Seal, Shared as SharedState, Sighted, State};
use crate::access::{Groups, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Gap, Seen};
use crate::kind::{Calls, Executor, Fallback, Htm as Options, Reach, Silo as SiloOptions};
use crate::metrics::RegionMetrics;
use crate::mutant::{Mutant, planted};
use crate::record::{ConcurrencyWords, RecordData, RecordRef, data_base};
use crate::stamp;
use crate::sync::{AtomicU64, Ordering, Wait, Work, htm, point, work};
use crate::table::{GroupSet, Layout};
use crossbeam_utils::CachePadded;
use partitions::{Locks, Own};
use policy::{Place, Policy};
use std::sync::Arc;
use tally::Tallies;

/// The protocol. Its words are those of [`Silo`].
#[derive(Debug)]
pub struct Htm;

/// Codes by which a region aborts itself.
const LOCKED: u8 = 1;
const CHANGED: u8 = 2;
const PHANTOM: u8 = 3;
const NESTED: u8 = 4;

/// Pauses on the lock of a fallback before an attempt gives up, to begin anew.
const PATIENCE: u32 = 48;

/// What the workers share.
pub struct Shared {
    /// Who is executed in software under [`Fallback::Global`]: a worker's number plus one, or 0.
    fallback: CachePadded<AtomicU64>,
    partitions: Locks,
    tallies: Tallies,
}

impl SharedState for Shared {
    fn new(sessions: usize) -> Self {
        let fallback = CachePadded::new(AtomicU64::new(0));
        Self { fallback, partitions: Locks::new(), tallies: Tallies::new(sessions) }
    }
}

/// Waits for a while until a word is as wanted; false if it is not.
fn wait_until(word: &AtomicU64, mut wanted: impl FnMut(u64) -> bool) -> bool {
    let mut wait = Wait::new();
    while !wanted(word.load(Ordering::Relaxed)) {
        if wait.rounds() == PATIENCE {
            return false;
        }
        wait.pause();
    }
    true
}

/// How an attempt is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Runs {
    /// It has not accessed anything.
    #[default]
    NotYet,
    /// In a region that is open.
    InRegion,
    InSoftware,
}

/// One worker's attempt.
pub struct Local {
    /// Its software executor, with the locks and the last time of both.
    silo: silo::Local,
    options: Options,
    /// There are regions, or on virtual cores there can be.
    may_have_regions: bool,
    shared: Arc<Shared>,
    worker: usize,
    policy: Policy,
    /// Where the body is.
    place: Place,
    runs: Runs,
    /// The latest time of what was read and is not remembered.
    newest: u64,
    /// Something of that has no time: an absence.
    looked: bool,
    /// The lock of [`Fallback::Global`] is this worker's.
    holds_fallback: bool,
    /// How often in turn it has waited for that lock in vain.
    turned_away: u32,
    /// The leading bits by which there are locks of partitions, where there are any, and what this attempt has to do with them.
    partition_bits: Option<u8>,
    partitions: Own,
    /// The lock for which its last region has ended itself.
    awaited: Option<usize>,
    vanished: bool,
    /// What it has read in software still stood when its body gave up.
    stood: bool,
}

impl Local {
    /// Whether there are regions for this attempt.
    fn has_regions(&self) -> bool {
        self.may_have_regions && (!htm::MODELLED || htm::is_available())
    }

    /// Ends the region of another attempt that this thread is in, if it is in one: what this attempt did there would be a part of
    /// that one, for which nothing checks it against this. The other is executed again, with this one inside it, and in software
    /// after that.
    #[inline]
    fn end_others_region(&self) {
        if self.has_regions() && region::is_inside() {
            htm::abort::<NESTED>();
        }
    }

    /// Begins a region, or the execution in software.
    #[inline(never)]
    fn start(&mut self) -> Result<(), Conflict> {
        let is_whole = self.options.reach == Reach::Accesses;
        let mut locks = self.options.fallback == Fallback::Global && self.has_regions();
        self.policy.start_at(self.place);
        while is_whole && self.has_regions() && self.policy.tries() {
            // Else all that this one has aborted would come to wait for it in turn, and nobody be in a region any more.
            if locks && !self.fallback_becomes(|held| held == 0)? {
                locks = false;
                break;
            }
            if let Some(partition) = self.awaited.take()
                && !self.shared.partitions.wait_for(partition)
            {
                return Err(Conflict::Locked);
            }
            // After one that was aborted. The engine's own pauses are for whole transactions.
            self.policy.pause();
            match region::begin() {
                Ok(()) => {
                    (self.runs, self.newest, self.looked) = (Runs::InRegion, 0, false);
                    self.partitions.begin();
                    // Relaxed: in the region, so this is what the word is when the region ends.
                    let held = || self.shared.fallback.load(Ordering::Relaxed) != 0;
                    if locks && held() {
                        htm::abort::<LOCKED>();
                    }
                    return Ok(());
                }
                Err(why) => self.note_failure(why),
            }
        }
        if locks {
            self.take_fallback()?;
        }
        if is_whole && !self.commits_by_region() {
            self.shared.tallies.in_software(self.worker);
        }
        self.runs = Runs::InSoftware;
        Ok(())
    }

    /// The stamp of a group, in a region; a conflict, where that has ended it.
    #[inline(always)]
    fn stamp(&mut self, record: RecordRef, group: usize) -> Result<u64, Conflict> {
        // Relaxed: a region sees everything as of one moment.
        let word = record.word(group).load(Ordering::Relaxed);
        if stamp::is_locked(word) && !planted(Mutant::HtmLockIgnored) {
            htm::abort::<LOCKED>();
            return Err(Conflict::Locked);
        }
        self.newest = self.newest.max(stamp::time(word));
        self.looked |= stamp::is_placeholder(word);
        Ok(word)
    }

    /// Reads in a region.
    #[inline(always)]
    fn read_in_region<R>(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        copy: impl FnOnce(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        let mut absent = false;
        for group in Groups(groups) {
            absent |= stamp::is_absent(self.stamp(record, group)?);
        }
        Ok((!absent).then(|| copy(RecordData::new(record, data_base::<Htm>(layout)))))
    }

    /// A region was aborted: notes why, for what comes next.
    #[cold]
    fn note_failure(&mut self, why: htm::Abort) {
        self.shared.tallies.aborted(self.worker, why);
        self.awaited = partitions::awaited(why);
        let why = if self.awaited.is_some() { htm::Abort::Explicit(LOCKED) } else { why };
        self.policy.failed(why, &self.options);
    }

    /// Commits in the region that is open.
    #[inline]
    fn commit_region(&mut self, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let writes = commit.writes();
        work(Work::Checks(writes.writes().len()));
        let ended = htm::finish(|| {
            if writes.is_empty() {
                return (0, 0);
            }
            if let Some(bits) = self.partition_bits {
                // A region ends itself instead of conflicting.
                let _ = self.enter_written(bits, writes);
            }
            (self.silo.lock_in_region(writes), env.announce_commit())
        });
        self.runs = Runs::NotYet;
        match ended {
            Ok((newest_write, epoch)) => {
                self.shared.tallies.committed(self.worker);
                self.policy.succeeded();
                if writes.is_empty() {
                    return Ok(if self.looked { stamp::floor(env.clock.now()) } else { self.newest });
                }
                point("locked");
                let newest = self.newest.max(newest_write);
                self.silo.install_after(newest, epoch, &env, commit)
            }
            Err(why) => {
                self.silo.forget_locks();
                self.vanished = true;
                self.note_failure(why);
                Err(Conflict::Region)
            }
        }
    }
}

impl silo::Local {
    /// Sets the lock bits of all groups that are written, in a region, and returns the latest time of them. Where one is not as
    /// it must be, the region is aborted.
    #[inline(always)]
    fn lock_in_region(&mut self, writes: &WriteSet) -> u64 {
        let mut newest = 0;
        for write in writes.writes() {
            for group in write.group_numbers() {
                // Relaxed: a region takes effect at one moment.
                let word = write.record.word(group).load(Ordering::Relaxed);
                if stamp::is_locked(word) && !planted(Mutant::HtmLockOverLock) {
                    htm::abort::<LOCKED>();
                }
                // A blind write saw the row there, or a placeholder missing.
                if stamp::is_absent(word) == write.was_present && !planted(Mutant::HtmPresenceUnchecked) {
                    htm::abort::<CHANGED>();
                }
                if !planted(Mutant::HtmNotLocked) {
                    write.record.word(group).store(word | stamp::LOCK, Ordering::Relaxed);
                }
                newest = newest.max(stamp::time(word));
                self.hold(write.record, group, word);
            }
        }
        newest
    }
}

impl ConcurrencyWords for Htm {
    const GROUP_WORDS: usize = <Silo as ConcurrencyWords>::GROUP_WORDS;
    const STAMP: usize = <Silo as ConcurrencyWords>::STAMP;
    const NAMES: &'static [&'static str] = <Silo as ConcurrencyWords>::NAMES;
}

impl State for Htm {
    type Options = Options;
    type Local = Local;
    type Shared = Shared;
}

impl Protocol for Htm {
    const REGIONS: bool = true;

    fn local(options: &Options, shared: &Arc<Shared>, worker: usize) -> Local {
        let calls = if options.chopped { Calls::Chopped } else { Calls::Whole };
        let silo = Silo::local(&SiloOptions::with_calls(calls), &Arc::new(silo::Counter::new(0)), worker);
        // On virtual cores also where none can be begun, as what runs there beside them may meet those that can.
        let takes_regions = match options.executor {
            Executor::Auto => htm::MODELLED || htm::is_asked_for(),
            Executor::Hardware => true,
            Executor::Software => false,
        };
        let may_have_regions = takes_regions && (htm::MODELLED || htm::is_available());
        let partition_bits = match options.fallback {
            Fallback::Partition { leading_bits } if may_have_regions => Some(leading_bits),
            _ => None,
        };
        Local {
            silo,
            options: *options,
            may_have_regions,
            shared: Arc::clone(shared),
            worker,
            policy: Policy::new(worker),
            place: Place::default(),
            runs: Runs::NotYet,
            newest: 0,
            looked: false,
            holds_fallback: false,
            turned_away: 0,
            partition_bits,
            partitions: Own::default(),
            awaited: None,
            vanished: false,
            stood: false,
        }
    }

    #[inline]
    fn begin(local: &mut Local, env: Env<'_>, retry: u32) {
        debug_assert_ne!(local.runs, Runs::InRegion, "a region outlived its attempt");
        local.partitions.begin();
        if local.runs == Runs::InSoftware {
            // The one before did not commit: it has met a conflict, or its body gave up.
            local.policy.executed_in_software(!local.stood);
        }
        local.stood = false;
        (local.runs, local.newest, local.looked) = (Runs::NotYet, 0, false);
        // Who makes attempts himself counts no retries.
        if retry == 0 && !local.vanished {
            local.policy.begin();
            local.awaited = None;
        }
        local.vanished = false;
        Silo::begin(&mut local.silo, env, retry);
    }

    #[inline(always)]
    fn enter(local: &mut Local, _: Env<'_>) -> Result<(), Conflict> {
        if local.runs == Runs::InRegion {
            return Ok(());
        }
        local.end_others_region();
        if local.runs == Runs::NotYet { local.start() } else { Ok(()) }
    }

    #[inline(always)]
    fn in_region(local: &Local) -> bool {
        local.runs == Runs::InRegion
    }

    fn vanished(local: &Local) -> bool {
        local.vanished
    }

    fn regions(shared: &Shared) -> Option<RegionMetrics> {
        Some(shared.tallies.sum())
    }

    #[inline(always)]
    fn read<R>(
        local: &mut Local,
        env: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        intent: Intent,
        copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        match local.runs {
            Runs::InRegion => local.read_in_region(record, layout, groups, copy),
            _ if local.partition_bits.is_some() => {
                local.read_by_partition(env, record, layout, groups, intent, copy)
            }
            _ => Silo::read(&mut local.silo, env, record, layout, groups, intent, copy),
        }
    }

    #[inline(always)]
    fn sight(
        local: &mut Local,
        env: Env<'_>,
        record: RecordRef,
        layout: &'static Layout,
        group: usize,
        intent: Intent,
    ) -> Result<Sighted, Conflict> {
        if local.runs != Runs::InRegion {
            if local.partition_bits.is_some() {
                return Ok(Sighted::Hidden);
            }
            return Silo::sight(&mut local.silo, env, record, layout, group, intent);
        }
        let was = local.stamp(record, group)?;
        Ok(if stamp::is_absent(was) {
            Sighted::Absent
        } else {
            Sighted::At { word: Self::stamp_word(group), was }
        })
    }

    fn unsight(local: &mut Local) {
        if local.runs != Runs::InRegion {
            Silo::unsight(&mut local.silo);
        }
    }

    #[inline(always)]
    fn visit_key(local: &mut Local, _: usize, key: &[u64]) {
        if let Some(bits) = local.partition_bits {
            local.come_to(partitions::of(key, bits));
        }
    }

    #[inline(always)]
    fn write(
        local: &mut Local,
        _: Env<'_>,
        _: RecordRef,
        _: &'static Layout,
        _: GroupSet,
        _: usize,
    ) -> Result<(), Conflict> {
        if local.partition_bits.is_some() { local.change() } else { Ok(()) }
    }

    #[inline]
    fn exists(local: &mut Local, record: RecordRef) -> bool {
        if local.runs == Runs::InRegion {
            // A conflict shows at the end of the region.
            return local.stamp(record, 0).is_ok_and(|stamp| !stamp::is_absent(stamp));
        }
        Silo::exists(&mut local.silo, record)
    }

    #[inline]
    fn observe_gap(local: &mut Local, seen: Seen) {
        match local.runs {
            // Its version was read in the region.
            Runs::InRegion => local.looked = true,
            _ => {
                local.partitions.leave();
                Silo::observe_gap(&mut local.silo, seen);
            }
        }
    }

    #[inline]
    fn own_insert(local: &mut Local, record: RecordRef, layout: &'static Layout, number: usize) -> bool {
        local.runs == Runs::InRegion || Silo::own_insert(&mut local.silo, record, layout, number)
    }

    fn own_gap_changed(local: &mut Local, change: Change, sought: bool) {
        if local.runs != Runs::InRegion {
            Silo::own_gap_changed(&mut local.silo, change, sought);
        }
    }

    fn init_record(record: RecordRef, layout: &'static Layout, gap: &Gap) {
        Silo::init_record(record, layout, gap);
    }

    #[inline]
    fn commit(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let outcome = match local.runs {
            Runs::InRegion => local.commit_region(env, commit),
            _ => {
                local.end_others_region();
                local.commit_in_software(env, commit)
            }
        };
        if outcome.is_ok() {
            if std::mem::take(&mut local.runs) == Runs::InSoftware {
                local.policy.executed_in_software(false);
            }
            local.let_fallback_go();
        }
        outcome
    }

    fn commit_additions(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        local.end_others_region();
        if let Some(bits) = local.partition_bits {
            local.enter_written(bits, commit.writes())?;
        }
        let time = local.silo.commit_additions(env, commit)?;
        local.let_fallback_go();
        Ok(time)
    }

    fn validate(local: &mut Local, env: Env<'_>) -> Result<(), Conflict> {
        match local.runs {
            Runs::InRegion => htm::stands().map_err(|_| Conflict::Region),
            _ => {
                let outcome = Silo::validate(&mut local.silo, env);
                local.stood = outcome.is_ok();
                outcome
            }
        }
    }

    fn abort(local: &mut Local, env: Env<'_>, writes: &WriteSet) {
        if local.runs == Runs::InRegion {
            local.runs = Runs::NotYet;
            // What it has added to indexes is there then, or never was.
            match htm::finish(|| ()) {
                // Nobody has disturbed it: its body gave up.
                Ok(()) => local.policy.succeeded(),
                Err(why) => {
                    local.vanished = true;
                    local.note_failure(why);
                }
            }
        }
        Silo::abort(&mut local.silo, env, writes);
        local.let_fallback_go();
    }

    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        clock: &EpochClock,
        gap: &Gap,
        has_no_versions: impl FnOnce() -> bool,
    ) -> Seal {
        Silo::seal(record, layout, clock, gap, has_no_versions)
    }

    fn restore(record: RecordRef, group: usize, stamp: u64) {
        Silo::restore(record, group, stamp);
    }
}
