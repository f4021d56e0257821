//! Hekaton's optimistic scheme: several versions, read as of the begin and checked again at the end.
//!
//! **Mechanism** (Larson et al., "High-performance concurrency control mechanisms for main-memory databases", VLDB
//! 2011, §2 and §3). A transaction draws a begin time and, when its body is done, an end time (`times`). It reads
//! of each column group the version that was current at its begin, an old one if need be, and waits for no
//! transaction that runs. A write locks the group at once; if another has it, or has committed a newer version than
//! the begin, the attempt is over: the first writer wins. The end:
//!
//! 1. *prepare*: show the new values, announce it, draw the end time;
//! 2. *validate*: what was read is what is visible at the end time, and no gap that was looked at has changed;
//! 3. wait for the transactions that it depends on to commit; if one aborts, so does this;
//! 4. *commit*: put the values into the records under the end time, keep what they replace, let the locks go.
//!
//! Who has written nothing needs neither end nor validation: it is as if executed at its begin.
//!
//! **A group's words**: its stamp (`crate::stamp`), its writer (an id, 0, or all ones once sealed), and the image
//! of what the writer is about to install (a link; bit 0: the row will not exist; 0: not shown).
//!
//! ```text
//!   stamp  t        t             t              t|lock       e         e
//!   writer 0 -lock-> id           id             id           id        0
//!   image  0        0  -show->    link           link         link      0
//!                   running       preparing      committed ------------->  ended
//!                     '---- abort ----'-------> writer 0, image 0
//! ```
//!
//! **What is visible at time `t`** (`Local::visible`). The stamp is younger: an old version, from the chain. No
//! writer, or one that runs: the record's own words, since it will end later. A writer that ends after `t`: the
//! same. One that ends before `t` and has committed: its image. One that prepares to end before `t`: its image too,
//! *speculatively*. The reader then depends on it (a *commit dependency*). That covers both of the paper's cases,
//! the version that a preparing transaction creates and the one that it ends, because here they are of the same
//! group.
//!
//! **Why waits end.** Dependencies lead from a transaction that reads at some time to one that ends before it: end
//! times fall along them. A transaction waits for others only at its end, or before it gives up, and only for
//! dependencies. Who finds a group while its words change, or a writer between announcing and knowing its end,
//! waits for some instructions of another, who waits for nobody then.
//!
//! **Absence.** A placeholder is absent since time 0 and read like any record; a row that was deleted has old
//! versions for whoever reads earlier. A key without an entry was absent at every time that a running transaction
//! may read at: who commits an insert had entered its record before it drew its end, and a deleted record leaves
//! the index only three epochs later. At the end, gaps must have the versions at which they were looked at: who
//! inserts before that end has changed the version before.
//!
//! **Lower levels** ([`Isolation`]). *Snapshot*: nothing is validated. *Repeatable read*: nor is it, and each
//! record is read at the time of its first read, as it is then; the lock on one that was read before is refused if
//! it has changed since. So the transaction's slot says *and later* from the begin on. The paper reads at the begin
//! there, too, and validates.
//!
//! **Epochs.** Times are of the epoch in which they are drawn, and order all conflicts: so epochs of commits do not
//! fall along any dependency (PITFALLS TT7).
//!
//! **Old versions.** Every version that is overwritten is kept. It is no longer needed when no transaction reads at
//! a time at which it was current, nor a snapshot at an epoch. Who overwrites looks for such now and then and takes
//! them out (`CUTS_ONE_IN`), so that a chain is as long as there are readers, and a few more; what writers of other
//! rows left goes when the epochs have passed, as after snapshots. Blocks are used again when nobody pinned can
//! stand on them. So memory is bounded by what is overwritten within some epochs, or, if it is longer, during the
//! life of the longest transaction; chains are short even then. (Test: `tests/memory.rs`.)
//!
//! **Where we leave the paper:**
//!
//! - *Values are in place.* Its versions are linked into the index, and are whole rows; here a group has its newest
//!   committed version in the record and older ones behind it, as snapshots and the log want them. So a new version
//!   must be shown apart while its writer prepares. Tests: `heddle sim hunt --protocol hekaton`, and the planted
//!   bugs `HekatonPreparingIgnored` and `HekatonDependencyIgnored`.
//! - *Who may be overwritten.* The paper lets a transaction write on top of one that prepares; here the lock is
//!   held until the values are in place. That costs aborts, none of a reader's.
//! - *Dependencies are waited for by the one who has them*, who looks at the other's slot; there is no list at the
//!   other. So there is nobody to tell, and no limit on how many.
//! - *Phantoms.* The paper scans again at the end; here the gap's version is compared, as by all protocols here. An
//!   insert that is aborted, or ends later, may so abort a scanner. Conformance: `phantom_*`.
//! - *Reads at the end* compare stamps instead of pointers; a version that is read again at another place is the
//!   same.
//!
//! Strictly serializable: the end, or the begin of who writes nothing, lies within the transaction's life, and
//! everything is as if executed there. Not opaque, though all reads are of one moment: whoever shows it may yet
//! abort. The price is the one counter (TicToc §6.3).

mod times;

use super::images::{Chunks, Images};
use super::reads::GapSet;
use super::{Env, Intent, Isolation, Protocol, Seal};
use crate::access::{Groups, RecordMap, Write, WriteSet};
use crate::commit::Commit;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::index::{Change, Gap, Seen};
use crate::mutant::{Mutant, planted};
use crate::record::{ConcurrencyWords, RecordData, RecordRef, data_base, heads_base};
use crate::stamp;
use crate::sync::{Ordering, Suspender, Wait, Work, decided, fence, note, point, wait_until, work};
use crate::table::{GroupSet, Layout};
use crate::version::{self, Version};
use std::sync::Arc;
use times::{Id, Outcome, Progress, Readers, SLOTS_MAX, Times};

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
        Self { times: Times::new(sessions), chunks: Chunks::default() }
    }
}

/// A group that was read, and the stamp of the version.
struct Read {
    record: RecordRef,
    stamp: u64,
    group: u8,
    /// The record's word that leads to the group's old versions.
    head: u16,
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
    /// It has neither ended nor aborted.
    open: bool,
    reads: Vec<Read>,
    gaps: GapSet,
    /// The groups whose writer it is.
    locks: Vec<(RecordRef, u8)>,
    /// Those without whom it cannot commit.
    dependencies: Vec<Id>,
    /// What it is about to install.
    images: Images,
    /// A row put together from old versions and images.
    row: Images,
    readers: Readers,
    suspender: Option<Suspender>,
}

/// Nobody writes, or nothing is shown.
const NONE: u64 = 0;
/// Of an image: the row will not exist.
const WILL_BE_ABSENT: u64 = 1;
/// The writer of a sealed record.
const SEALED: u64 = u64::MAX;

/// One commit in so many cuts the chains that it adds to, chosen by its time: a look at all slots is worth many
/// versions.
const CUTS_ONE_IN: u64 = 8;

/// The stamp of a group.
macro_rules! stamp {
    ($record:expr, $group:expr) => {
        $record.word(3 * $group as usize)
    };
}

/// The writer of a group.
macro_rules! writer {
    ($record:expr, $group:expr) => {
        $record.word(3 * $group as usize + 1)
    };
}

/// The image of a group.
macro_rules! image {
    ($record:expr, $group:expr) => {
        $record.word(3 * $group as usize + 2)
    };
}

/// Where a version's words are.
#[derive(Clone, Copy)]
enum Place {
    /// In the record, for as long as the stamp stands.
    Record,
    /// In an old version; nowhere if the row was absent before all of them.
    Chain(Option<Version>),
    /// In the image of a writer, for as long as it shows it.
    Image { of: Id, link: u64, speculative: bool },
}

/// A version of a group.
struct Found {
    stamp: u64,
    place: Place,
}

impl Local {
    /// The version of a group that is visible at a time that this transaction has drawn.
    fn visible(&self, record: RecordRef, group: usize, head: usize, time: u64) -> Result<Found, Conflict> {
        let mut wait = Wait::new();
        loop {
            // Acquire: pairs with the publishing store of the version, and of what hangs off it.
            let stamp = stamp!(record, group).load(Ordering::Acquire);
            if stamp == stamp::SEALED {
                return Err(Conflict::Reclaimed);
            }
            if stamp::is_locked(stamp) {
                // Its writer puts words into it, and waits for nobody.
                wait.pause();
                continue;
            }
            if stamp::time(stamp) > time && !planted(Mutant::HekatonReadsNewest) {
                // The version of our time is kept: our slot says that we read at it, and said so before whoever
                // overwrote it drew his end.
                let old = version::as_of(record.word(head), time);
                let stamp = old.map_or(stamp::ABSENT, Version::stamp);
                return Ok(Found { stamp, place: Place::Chain(old) });
            }
            let here = Found { stamp, place: Place::Record };
            // Acquire: pairs with the release that lets the lock go, after which the stamp is another.
            let writer = writer!(record, group).load(Ordering::Acquire);
            if stamp!(record, group).load(Ordering::Relaxed) != stamp {
                continue;
            }
            // If nobody has it now, then whoever takes it draws his end after our time.
            if writer == NONE || writer == self.id.bits() || writer == SEALED {
                return Ok(here);
            }
            let of = Id::from_bits(writer);
            let (end, speculative) = match self.shared.times.progress(of) {
                Progress::Running => return Ok(here),
                Progress::Preparing(_) if planted(Mutant::HekatonPreparingIgnored) => return Ok(here),
                Progress::Preparing(end) => (end, true),
                Progress::Committed(end) => (end, false),
                Progress::Ending => {
                    wait.pause();
                    continue;
                }
                // Aborted, or else the stamp is another by now (acquired with the status).
                Progress::Ended if stamp!(record, group).load(Ordering::Relaxed) == stamp => return Ok(here),
                Progress::Ended => continue,
            };
            if end > time {
                return Ok(here);
            }
            let Some(link) = shown_by(record, group, writer) else {
                // It had nothing to fear when it prepared, so it installs now; or it has just let go.
                wait.pause();
                continue;
            };
            let stamp = stamp::of(end, link & WILL_BE_ABSENT == 0);
            return Ok(Found { stamp, place: Place::Image { of, link, speculative } });
        }
    }

    /// The stamp of a group whose visible version is in the record itself.
    #[inline(always)]
    fn in_place(
        &self,
        record: RecordRef,
        group: usize,
        head: usize,
        time: u64,
    ) -> Result<Option<u64>, Conflict> {
        // Acquire, both: as in `visible`, whose plainest case this is. The stamp is compared after the copy.
        let stamp = stamp!(record, group).load(Ordering::Acquire);
        if !stamp::is_locked(stamp) && stamp::time(stamp) <= time {
            let writer = writer!(record, group).load(Ordering::Acquire);
            if writer == NONE || writer == self.id.bits() {
                return Ok(Some(stamp));
            }
        }
        let found = self.visible(record, group, head, time)?;
        Ok(matches!(found.place, Place::Record).then_some(found.stamp))
    }

    /// Copies the visible versions of groups of a record, wherever each of them is, into one row. `None` if it
    /// is absent.
    #[cold]
    fn put_together(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        time: u64,
    ) -> Result<Option<RecordRef>, Conflict> {
        self.row.clear();
        let row = self.row.take(layout.words, &self.shared.chunks);
        let mut absent = false;
        for group in Groups(groups) {
            let head = heads_base::<Hekaton>(layout) + group;
            let span = layout.groups[group].span;
            let stamp = loop {
                let Found { stamp, place } = self.visible(record, group, head, time)?;
                let copy = |from: RecordRef, at: usize| {
                    for index in 0..span.len() {
                        // Relaxed: checked below, or published with the version.
                        let word = from.word(at + index).load(Ordering::Relaxed);
                        row.word(span.start + index).store(word, Ordering::Relaxed);
                    }
                };
                let stands = match place {
                    _ if stamp::is_absent(stamp) && !matches!(place, Place::Image { .. }) => true,
                    Place::Record => {
                        copy(record, data_base::<Hekaton>(layout) + span.start);
                        // Acquire fence, then a relaxed load: pairs with the release fence of the install.
                        fence(Ordering::Acquire);
                        stamp!(record, group).load(Ordering::Relaxed) == stamp
                    }
                    Place::Chain(old) => {
                        old.into_iter().for_each(|old| copy(old.block(), version::HEADER));
                        true
                    }
                    Place::Image { of, link, speculative } => {
                        if let Some(image) = RecordRef::from_link(link & !WILL_BE_ABSENT) {
                            copy(image, 0);
                        }
                        let shown = self.shared.times.still_shows(of);
                        if shown && speculative {
                            note(|| format!("reads speculatively of {of:?}"));
                            self.dependencies.push(of);
                        }
                        shown
                    }
                };
                if stands {
                    break stamp;
                }
            };
            absent |= stamp::is_absent(stamp);
            self.reads.push(Read { record, stamp, group: group as u8, head: head as u16 });
        }
        Ok((!absent).then_some(row))
    }

    /// When a record is read: at the begin, or, under repeatable read, when it was read first.
    #[inline(always)]
    fn read_time(&mut self, env: Env<'_>, record: RecordRef) -> u64 {
        if env.isolation == Isolation::RepeatableRead { self.read_first(record) } else { self.begin }
    }

    #[cold]
    fn read_first(&mut self, record: RecordRef) -> u64 {
        if let Some(at) = self.records.get(record) {
            return self.times[at];
        }
        self.records.put(record, self.times.len());
        self.times.push(self.shared.times.now());
        self.times[self.times.len() - 1]
    }

    /// The latest time of a version that this attempt may overwrite.
    #[inline(always)]
    fn newest_overwritten(&self, env: Env<'_>, record: RecordRef) -> u64 {
        match env.isolation {
            Isolation::RepeatableRead => self.records.get(record).map_or(u64::MAX, |at| self.times[at]),
            _ => self.begin,
        }
    }

    /// Whether every group that was read stands at `time`, our end.
    fn validate_reads(&self, time: u64) -> Result<(), Conflict> {
        if planted(Mutant::HekatonReadsNotValidated) {
            return Ok(());
        }
        for read in &self.reads {
            let found = self.visible(read.record, read.group.into(), read.head.into(), time)?;
            // A version that a preparing transaction shows counts as there: if it was read, we depend on it
            // already; if not, our read is over unless it aborts, and the paper does not wait for that either.
            if found.stamp != read.stamp {
                return Err(Conflict::ReadChanged);
            }
        }
        Ok(())
    }

    /// Waits until all are known to have committed without whom this transaction cannot.
    fn await_dependencies(&self) -> Result<(), Conflict> {
        if planted(Mutant::HekatonDependencyIgnored) {
            return Ok(());
        }
        for id in &self.dependencies {
            wait_until(self.suspender.as_ref(), || self.shared.times.outcome(*id) != Outcome::Open);
            if self.shared.times.outcome(*id) == Outcome::Aborted {
                return Err(Conflict::Cascade);
            }
        }
        Ok(())
    }

    /// Shows what the writes will make of their groups, before the end time is drawn.
    fn show(&mut self, writes: &WriteSet) {
        // Release: whoever reads a word of an image, or a link, that is stored here sees that the generation before is
        // over, and who is the writer.
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

    /// Whether it may still abort when it holds its locks: it depends on somebody, or has read what others may write.
    fn may_fail(&self, env: Env<'_>, writes: &WriteSet) -> bool {
        let own = |read: &Read| writes.covers(read.record, read.group.into());
        let validates = || !self.gaps.is_empty() || !self.reads.iter().all(own);
        !self.dependencies.is_empty() || (env.isolation == Isolation::Serializable && validates())
    }

    /// A writer who saw the row there, or missing, without reading it, must have seen right.
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
        // Release fence, then relaxed data stores: who has copied one of them also finds the lock bit or the
        // new stamp (pairs with the acquire fences of readers).
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

    /// The attempt is over.
    fn close(&mut self, committed: bool) {
        self.locks.clear();
        if std::mem::take(&mut self.open) {
            self.shared.times.end(self.id, committed);
        }
    }
}

/// The image that a writer shows of a group, if it is still the writer: it lets go before its status says that it has
/// ended, and the next may show another.
fn shown_by(record: RecordRef, group: usize, writer: u64) -> Option<u64> {
    // Relaxed: published with the writer's status, which the caller has seen.
    let link = image!(record, group).load(Ordering::Relaxed);
    // Acquire fence, then the writer: pairs with the release fence in `show`. Had another shown this, he would be found.
    fence(Ordering::Acquire);
    let same = writer!(record, group).load(Ordering::Relaxed) == writer;
    (same && link != NONE).then_some(link)
}

/// Lets a group go.
fn release(record: RecordRef, group: usize) {
    // Relaxed: published below.
    image!(record, group).store(NONE, Ordering::Relaxed);
    // Release: whoever finds no writer finds the stamp that this one left.
    writer!(record, group).store(NONE, Ordering::Release);
}

impl ConcurrencyWords for Hekaton {
    const GROUP_WORDS: usize = 3;
    const NAMES: &'static [&'static str] = &["stamp", "writer", "image"];
    const EVERY_VERSION: bool = true;

    #[inline(always)]
    fn stamp_word(group: usize) -> usize {
        3 * group
    }
}

impl Protocol for Hekaton {
    const NAME: &'static str = "hekaton";
    const SESSIONS_MAX: usize = SLOTS_MAX;
    type Options = ();
    type Local = Local;
    type Shared = Shared;

    fn strict((): &()) -> bool {
        true
    }

    fn levels((): &()) -> &'static [Isolation] {
        &Isolation::ALL
    }

    fn local((): &(), shared: &Arc<Shared>, worker: usize) -> Local {
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

    #[inline]
    fn peek(_: &mut Local, record: RecordRef) -> bool {
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
            // Acquire: the last writer's stamp is seen below. Release: our status is, by whoever finds us here.
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

    #[inline]
    fn seen(local: &mut Local, seen: Seen) {
        local.gaps.push(seen);
    }

    fn changed(local: &mut Local, change: Change) {
        local.gaps.follow(change);
    }

    fn place(record: RecordRef, layout: &'static Layout, _: &Gap) {
        for group in 0..layout.groups.len() {
            Self::restore(record, group, stamp::ABSENT);
        }
    }

    #[inline]
    fn commit(local: &mut Local, env: Env<'_>, commit: &mut Commit<'_>) -> Result<u64, Conflict> {
        let writes = commit.writes();
        work(Work::Checks(local.reads.len() + writes.writes().len()));
        if writes.is_empty() {
            local.await_dependencies()?;
            local.close(true);
            return Ok(local.times.last().map_or(local.begin, |last| local.begin.max(*last)));
        }
        Local::check_presence(writes)?;
        if local.may_fail(env, writes) {
            local.show(writes);
        }
        point("locked");
        let time = local.shared.times.prepare(local.id, local.begin, env.clock);
        if stamp::epoch(time) > env.clock.now() {
            return Err(Conflict::EpochFull);
        }
        if env.isolation == Isolation::Serializable {
            local.validate_reads(time)?;
            if !planted(Mutant::HekatonGapsNotValidated) {
                local.gaps.validate()?;
            }
        }
        local.await_dependencies()?;
        point("validated");
        decided(time);
        local.shared.times.commit(local.id);
        // Scattered, so that no row is written by the wrong ones only.
        let cut = (time.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).is_multiple_of(CUTS_ONE_IN);
        let cut = cut.then(|| {
            local.shared.times.readers(local.id, &mut local.readers);
            env.clock.now()
        });
        for write in writes.writes() {
            point("install");
            local.install(write, time, cut, commit);
        }
        local.close(true);
        Ok(time)
    }

    /// What was read is of one moment, the begin; only those that it depends on must have committed.
    fn validate(local: &mut Local, _: Env<'_>) -> Result<(), Conflict> {
        local.await_dependencies()
    }

    fn abort(local: &mut Local, _: Env<'_>, _: &WriteSet) {
        // Before the locks go: who finds one without its writer must not have been told a value of it.
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
        spare: impl FnOnce() -> bool,
    ) -> Seal {
        // Of an epoch gone by, so that whoever writes the row next, from a placeholder without a past, ends later.
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
        if !spare() {
            release(layout.groups.len());
            return Seal::Busy;
        }
        for group in 0..layout.groups.len() {
            // Release: as when a writer publishes.
            stamp!(record, group).store(stamp::SEALED, Ordering::Release);
        }
        Seal::Sealed
    }

    fn restore(record: RecordRef, group: usize, stamp: u64) {
        // Relaxed: whoever looks later was told of the record by a release.
        image!(record, group).store(NONE, Ordering::Relaxed);
        writer!(record, group).store(NONE, Ordering::Relaxed);
        stamp!(record, group).store(stamp, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::arena::Arena;
    use crate::commit::Superseded;
    use crate::protocol::Shared as _;
    use crate::record::Words;
    use crate::snapshot::{Boundaries, LiveView};
    use crate::table::{Group, Span};
    use std::time::Duration;

    static LAYOUT: Layout =
        Layout { name: "one", groups: &[Group { name: "main", span: Span { start: 0, end: 1 } }], words: 1 };

    /// Two records of one word, and what workers share.
    struct World {
        clock: EpochClock,
        boundaries: Boundaries,
        shared: Arc<Shared>,
        records: [RecordRef; 2],
        _arena: Arena,
    }

    /// A worker with an attempt.
    struct Worker<'a> {
        world: &'a World,
        env: Env<'a>,
        local: Local,
        writes: WriteSet,
        arena: Arena,
        superseded: Vec<Superseded>,
        live: LiveView,
    }

    impl World {
        fn new() -> Self {
            let mut arena = Arena::default();
            let gap = Gap::new();
            let records = [(); 2].map(|()| {
                let record = arena.allocate(0, data_base::<Hekaton>(&LAYOUT) + LAYOUT.words);
                Hekaton::place(record, &LAYOUT, &gap);
                record.word(heads_base::<Hekaton>(&LAYOUT)).store(0, Ordering::Relaxed);
                record
            });
            let (clock, boundaries) = (EpochClock::new(4), Boundaries::new(Duration::ZERO));
            let world = Self { clock, boundaries, shared: Arc::new(Shared::new(4)), records, _arena: arena };
            let mut loader = world.worker(3);
            loader.begin();
            (0..2).for_each(|record| loader.write(record, 0, false).unwrap());
            loader.commit().unwrap();
            drop(loader);
            world
        }

        fn worker(&self, number: usize) -> Worker<'_> {
            let isolation = Isolation::Serializable;
            Worker {
                world: self,
                env: Env { clock: &self.clock, worker: number, epoch: None, after: 0, isolation },
                local: Hekaton::local(&(), &self.shared, number),
                writes: WriteSet::default(),
                arena: Arena::default(),
                superseded: Vec::new(),
                live: LiveView::default(),
            }
        }
    }

    impl Worker<'_> {
        fn begin(&mut self) {
            self.writes.clear();
            Hekaton::begin(&mut self.local, self.env, 0);
        }

        fn read(&mut self, record: usize) -> Result<u64, Conflict> {
            let record = self.world.records[record];
            let copy = |data: RecordData| data.word(0);
            let row = Hekaton::read(&mut self.local, self.env, record, &LAYOUT, 1, Intent::Read, copy)?;
            Ok(row.expect("nothing is deleted"))
        }

        fn write(&mut self, record: usize, value: u64, was_present: bool) -> Result<(), Conflict> {
            let record = self.world.records[record];
            Hekaton::write(&mut self.local, self.env, record, &LAYOUT, 1, self.writes.writes().len())?;
            let write = self.writes.start(record, &LAYOUT, 0, &[0], was_present);
            let at = self.writes.reserve(1);
            self.writes.scratch(at, 1).fill(value);
            self.writes.set_full(write, at);
            Ok(())
        }

        fn commit(&mut self) -> Result<u64, Conflict> {
            let boundaries = &self.world.boundaries;
            let mut commit = Commit::new(
                &self.writes,
                boundaries,
                &mut self.arena,
                &mut self.superseded,
                &mut self.live,
                None,
            );
            Hekaton::commit(&mut self.local, self.env, &mut commit)
        }

        /// Goes as far as preparing.
        fn prepare(&mut self) {
            self.local.show(&self.writes);
            self.world.shared.times.prepare(self.local.id, self.local.begin, &self.world.clock);
        }

        fn abort(&mut self) {
            Hekaton::abort(&mut self.local, self.env, &self.writes);
        }
    }

    #[test]
    fn a_chain_is_as_long_as_there_are_readers_and_a_few_more() {
        const WRITES: u64 = 4_000;
        let world = World::new();
        let (mut writer, mut reader) = (world.worker(0), world.worker(1));
        let head = world.records[0].word(heads_base::<Hekaton>(&LAYOUT));
        let mut longest = [0, 0];
        for (reading, longest) in longest.iter_mut().enumerate() {
            if reading == 1 {
                reader.begin();
            }
            for value in 0..WRITES {
                writer.begin();
                writer.write(0, value, true).unwrap();
                writer.commit().unwrap();
                *longest = version::len(head).max(*longest);
            }
        }
        assert_eq!(reader.read(0), Ok(WRITES - 1), "the reader finds what was there at its begin");
        assert!(reader.commit().is_ok());
        // One version in eight writes; a row of no cut for sixteen times as long does not happen here.
        assert!(longest[0] <= 128 && longest[1] <= longest[0] + 1, "{longest:?}");
    }

    #[test]
    fn who_reads_of_a_preparing_transaction_shares_its_end() {
        for commits in [false, true] {
            let world = World::new();
            let (mut writer, mut reader, mut earlier) = (world.worker(0), world.worker(1), world.worker(2));
            earlier.begin();
            writer.begin();
            writer.write(0, 7, true).unwrap();
            writer.prepare();
            reader.begin();
            assert_eq!((reader.read(0), reader.read(1)), (Ok(7), Ok(0)));
            assert_eq!(earlier.read(0), Ok(0), "it ends after this one began");
            assert!(earlier.commit().is_ok(), "so there is nothing to wait for");
            if commits {
                world.shared.times.commit(writer.local.id);
                let mut after = world.worker(2);
                after.begin();
                assert_eq!(after.read(0), Ok(7));
                assert!(after.local.dependencies.is_empty(), "what has committed needs no trust");
                after.abort();
                assert!(reader.commit().is_ok());
            } else {
                writer.abort();
                assert_eq!(Hekaton::validate(&mut reader.local, reader.env), Err(Conflict::Cascade));
                assert_eq!(reader.commit(), Err(Conflict::Cascade));
                reader.abort();
                reader.begin();
                assert_eq!(reader.read(0), Ok(0));
            }
        }
    }

    #[test]
    fn an_image_is_taken_from_nobody_else() {
        let world = World::new();
        let (mut first, mut second) = (world.worker(0), world.worker(1));
        let record = world.records[0];
        let writer = |worker: &Worker<'_>| worker.local.id.bits();
        first.begin();
        first.write(0, 1, true).unwrap();
        assert_eq!(shown_by(record, 0, writer(&first)), None);
        first.prepare();
        assert!(shown_by(record, 0, writer(&first)).is_some());
        // It lets the group go, but has not ended.
        release(record, 0);
        assert_eq!(shown_by(record, 0, writer(&first)), None);
        second.begin();
        second.write(0, 2, true).unwrap();
        second.prepare();
        assert_eq!(shown_by(record, 0, writer(&first)), None, "this is the second's");
        assert!(shown_by(record, 0, writer(&second)).is_some());
    }

    #[test]
    fn the_first_writer_wins() {
        let world = World::new();
        let (mut first, mut second) = (world.worker(0), world.worker(1));
        first.begin();
        second.begin();
        first.write(0, 1, true).unwrap();
        assert_eq!(second.write(0, 2, true), Err(Conflict::Locked));
        second.abort();
        second.begin();
        first.commit().unwrap();
        assert_eq!(second.read(0), Ok(0), "what was there at the begin");
        assert_eq!(second.write(0, 2, true), Err(Conflict::ReadChanged));
        second.abort();
        second.begin();
        assert_eq!(second.read(0), Ok(1));
        second.write(0, 2, true).unwrap();
        assert!(second.commit().is_ok());
    }

    #[test]
    fn what_was_read_must_be_visible_at_the_end() {
        let world = World::new();
        let (mut first, mut second) = (world.worker(0), world.worker(1));
        for worker in [&mut first, &mut second] {
            worker.begin();
            assert_eq!((worker.read(0), worker.read(1)), (Ok(0), Ok(0)));
        }
        first.write(0, 1, true).unwrap();
        second.write(1, 1, true).unwrap();
        // The second prepares while the first does, and its end is the later: it cannot have missed the first.
        first.prepare();
        assert_eq!(second.commit(), Err(Conflict::ReadChanged));
        second.abort();
        first.abort();
    }
}
