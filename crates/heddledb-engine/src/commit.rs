//! The write phase of a commit: what every protocol does to a record once it may.
//!
//! A protocol decides when a transaction may commit and at what time. What happens then to each written
//! record is common to all: versions that may be needed are kept, the patches are put into the record's
//! words, and the words of the written column groups go to the redo log as they are now.

use crate::access::{Groups, Write, WriteSet};
use crate::arena::Arena;
use crate::durability::{Announced, Append, LoggedWrite, RedoLog, Says};
use crate::heap::Heap;
use crate::mutant::{Mutant, planted};
use crate::record::{ConcurrencyWords, RecordRef, data_base, heads_base};
use crate::snapshot::{Boundaries, LiveView};
use crate::stamp;
use crate::sync::{ASSERTS_LOAD, Ordering, Work, work};
use crate::values::{Outside, Slot};
use crate::version::{self, Version};

/// A version that was overwritten, until it is not needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Superseded {
    /// Its record.
    pub record: RecordRef,
    /// The word of the record that leads to it.
    pub head: u32,
    /// Words of data.
    pub words: u32,
    /// The version.
    pub version: Version,
    /// The epoch that overwrote it.
    pub until: u64,
}

/// What a commit leaves to be reclaimed.
#[derive(Default)]
pub(crate) struct LeftOver {
    /// Versions that it overwrote and that may be needed.
    pub versions: Vec<Superseded>,
    /// Values that it replaced.
    pub values: Vec<Replaced>,
}

/// A value that no row has any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced {
    /// The value.
    pub value: Outside,
    /// The epochs of the commit that installed it, and of the one that replaced it.
    pub from: u64,
    pub until: u64,
}

/// What was made of a row elsewhere than in the write set.
#[derive(Clone, Copy)]
struct Made<'m> {
    key: &'m [u64],
    row: &'m [u64],
}

/// How a commit is logged.
#[derive(Clone, Copy)]
pub(crate) struct Logging<'a> {
    /// The redo log.
    pub log: &'a RedoLog,
    /// The worker that commits.
    pub worker: usize,
    /// What is said of it.
    pub says: Says<'a>,
    /// What was announced of it.
    pub announced: Announced,
}

/// Instead of an epoch: of what is added to, every version of an earlier epoch is kept.
const ADDED: u64 = u64::MAX;

/// What a committing protocol gets: the writes, and the means to install them.
pub struct Commit<'a> {
    writes: &'a WriteSet,
    boundaries: &'a Boundaries,
    heap: &'a Heap,
    arena: &'a mut Arena,
    left: &'a mut LeftOver,
    /// The worker's view of the boundaries.
    live: &'a mut LiveView,
    /// Versions of an epoch below this are kept; asked for at the first install.
    keep_below: Option<u64>,
    log: Option<Logging<'a>>,
    /// The log entry, begun at the first install. A transaction that has got this far commits.
    entry: Option<Append<'a>>,
}

impl<'a> Commit<'a> {
    /// The commit of a write set.
    pub(crate) fn new(
        writes: &'a WriteSet,
        boundaries: &'a Boundaries,
        heap: &'a Heap,
        arena: &'a mut Arena,
        left: &'a mut LeftOver,
        live: &'a mut LiveView,
        log: Option<Logging<'a>>,
    ) -> Self {
        Self { writes, boundaries, heap, arena, left, live, keep_below: None, log, entry: None }
    }

    /// The same, of a call beside which others of the epoch before may be under way: what it adds to is kept as it was in that.
    pub(crate) fn keeping_earlier(self) -> Self {
        Self { keep_below: (!planted(Mutant::RedoVersionNotKept)).then_some(ADDED), ..self }
    }

    /// The writes.
    #[inline(always)]
    pub fn writes(&self) -> &'a WriteSet {
        self.writes
    }

    /// Puts a write's data into its record. The protocol is the record's only writer, has decided to
    /// commit at `time`, and has made optimistic readers discard what they copy from now on; it then
    /// publishes the new stamps.
    #[inline(always)]
    pub fn install<C: ConcurrencyWords>(&mut self, write: &Write, time: u64) {
        self.install_from::<C>(write, None, time);
    }

    /// As [`Self::install`], for a write without patches: from the words of the whole row, with its key.
    pub fn install_row<C: ConcurrencyWords>(&mut self, write: &Write, key: &[u64], row: &[u64], time: u64) {
        self.install_from::<C>(write, Some(Made { key, row }), time);
    }

    #[inline(always)]
    fn install_from<C: ConcurrencyWords>(&mut self, write: &Write, made: Option<Made<'_>>, time: u64) {
        let keep_below = *self.keep_below.get_or_insert_with(|| self.boundaries.keep_below());
        let every = C::EVERY_VERSION && !planted(Mutant::HekatonVersionNotKept);
        if (keep_below != 0 || every) && !planted(Mutant::SnapshotVersionNotKept) {
            self.keep::<C>(write, time, keep_below);
        }
        if self.log.is_some() && planted(Mutant::LogImageBeforeInstall) {
            self.log::<C>(write, made, time);
        }
        debug_assert!(
            !ASSERTS_LOAD || stamps::<C>(write).all(|stamp| stamp::time(stamp) < time),
            "a stamp falls"
        );
        if write.layout.slots.is_empty() {
            self.put_words(write, made, data_base::<C>(write.layout));
        } else {
            self.install_values::<C>(write, made, time);
        }
        if self.log.is_some() && !planted(Mutant::LogImageBeforeInstall) {
            self.log::<C>(write, made, time);
        }
    }

    /// Puts a write's data into its record.
    #[inline(always)]
    fn put_words(&self, write: &Write, made: Option<Made<'_>>, base: usize) {
        let Some(Made { row, .. }) = made else { return self.writes.install(write, base) };
        if !write.present {
            return;
        }
        for group in Groups(write.groups) {
            let span = write.layout.groups[group].span;
            work(Work::Words(span.len()));
            for (at, word) in (span.start..span.end).zip(&row[span.start..span.end]) {
                // Relaxed: as patches are applied.
                write.record.word(base + at).store(*word, Ordering::Relaxed);
            }
        }
    }

    /// Installs a write to a row with values that may lie outside of it: those that it brings belong to the row from now
    /// on, and those that they replace are left over.
    #[inline(never)]
    fn install_values<C: ConcurrencyWords>(&mut self, write: &Write, made: Option<Made<'_>>, time: u64) {
        let (base, epoch) = (data_base::<C>(write.layout), stamp::epoch(time));
        let slot = |slot: usize| {
            // Relaxed: we are its only writer.
            let word = |at: usize| write.record.word(base + at).load(Ordering::Relaxed);
            Slot([word(slot), word(slot + 1)]).value()
        };
        let mut before = Vec::new();
        for group in Groups(write.groups) {
            let old = write.record.word(C::stamp_word(group)).load(Ordering::Relaxed) & !stamp::LOCK;
            // What is in the words of an absent row belongs to nobody.
            before.extend(
                write.layout.slots_of(group).map(|at| (at, slot(at).filter(|_| !stamp::is_absent(old)))),
            );
        }
        self.put_words(write, made, base);
        for (at, old) in before {
            let new = slot(at).filter(|_| write.present);
            if let Some(new) = new {
                self.heap.install(new, epoch);
            }
            if let (Some(old), Some(new)) = (old, new)
                && old.bytes == new.bytes
                && planted(Mutant::ValueOverwritten)
            {
                self.heap.overwrite(old, new);
                write.record.word(base + at).store(old.place, Ordering::Relaxed);
                continue;
            }
            if let Some(value) = old.filter(|old| new != Some(*old)) {
                self.left.values.push(Replaced { value, from: self.heap.installed(value), until: epoch });
            }
        }
    }

    /// Takes out of the chains of a write's groups every version that is needed neither by a snapshot nor by
    /// a reader that `reads` knows; `reads` is asked with the times between which a version was current.
    /// After `install` at `time`, still as the record's only writer; `epoch` was read before, and so was
    /// whatever `reads` knows.
    pub(crate) fn cut<C: ConcurrencyWords>(
        &mut self,
        write: &Write,
        time: u64,
        epoch: u64,
        reads: impl Fn(u64, u64) -> bool,
    ) {
        // After the epoch: a snapshot that this misses stands at that epoch or later.
        self.live.refresh(self.boundaries);
        for group in Groups(write.groups) {
            let head = write.record.word(heads_base::<C>(write.layout) + group);
            version::cut(head, time, |from, until| {
                let (first, last) = (stamp::epoch(from), stamp::epoch(until));
                let may_show = first < last && (last > epoch || self.live.needing(first, last).is_some());
                may_show || reads(from, until)
            });
        }
    }

    /// Appends a write to the log.
    fn log<C: ConcurrencyWords>(&mut self, write: &Write, made: Option<Made<'_>>, time: u64) {
        if self.log.is_none() || planted(Mutant::LogDeleteNotLogged) && !write.present {
            return;
        }
        debug_assert!(!ASSERTS_LOAD || stamps::<C>(write).all(stamp::is_locked), "logged without the lock");
        self.append(write, made, time, write.record, data_base::<C>(write.layout));
    }

    /// Appends a write to the log, with the words of a block from `base` on.
    #[inline(always)]
    fn append(&mut self, write: &Write, made: Option<Made<'_>>, time: u64, block: RecordRef, base: usize) {
        let Some(Logging { log, worker, says, announced }) = self.log else { return };
        let entry = self.entry.get_or_insert_with(|| log.append(worker, time, says, announced));
        entry.write(&LoggedWrite {
            record: block,
            base,
            layout: write.layout,
            relation: write.relation as usize,
            key: made.map_or_else(|| self.writes.key(write), |made| made.key),
            groups: write.groups,
            present: write.present,
            heap: self.heap,
        });
    }

    /// Whether the worker's log buffer is so full that the worker should wait for a round.
    pub(crate) fn log_is_long(&self) -> bool {
        self.entry.as_ref().is_some_and(Append::is_long)
    }

    /// Keeps the versions of a record that are about to be overwritten and may be needed.
    #[cold]
    fn keep<C: ConcurrencyWords>(&mut self, write: &Write, time: u64, keep_below: u64) {
        let (record, layout, until) = (write.record, write.layout, stamp::epoch(time));
        let keep_below = match keep_below {
            ADDED if !self.writes.adds(write) => self.boundaries.keep_below(),
            keep_below => keep_below,
        };
        for group in Groups(write.groups) {
            // Relaxed: we are its only writer.
            let old = record.word(C::stamp_word(group)).load(Ordering::Relaxed) & !stamp::LOCK;
            if !C::EVERY_VERSION && stamp::epoch(old) >= until.min(keep_below) {
                continue;
            }
            let head = heads_base::<C>(layout) + group;
            let absent = stamp::is_absent(old);
            if absent && !version::any(record.word(head)) {
                // The end of a chain means absence already.
                continue;
            }
            let span = layout.groups[group].span;
            let words = if absent { 0 } else { span.len() };
            let base = data_base::<C>(layout) + span.start;
            // Relaxed: published by `push`.
            self.push(record, head, words, old, until, |index| {
                record.word(base + index).load(Ordering::Relaxed)
            });
        }
    }

    /// Puts a version of so many words in front of a chain. Returns it.
    fn push(
        &mut self,
        record: RecordRef,
        head: usize,
        words: usize,
        stamp: u64,
        until: u64,
        word: impl Fn(usize) -> u64,
    ) -> Version {
        let version = Version::new(self.arena.version(words), stamp);
        // Relaxed: published by `push`.
        (0..words).for_each(|index| version.word(index).store(word(index), Ordering::Relaxed));
        version::push(record.word(head), version);
        let (head, words) = (head as u32, words as u32);
        self.left.versions.push(Superseded { record, head, words, version, until });
        version
    }

    /// The time of what a snapshot of that epoch sees of a group to which a later one has added, once it is closed.
    pub(crate) fn time_as_of<C: ConcurrencyWords>(write: &Write, group: usize, epoch: u64) -> u64 {
        let head = write.record.word(heads_base::<C>(write.layout) + group);
        version::find(head, epoch).map_or(0, |version| stamp::time(version.stamp()))
    }

    /// As [`Self::install`], for an addition to a group that has a stamp of the next epoch: it is made in the record's words, and in
    /// what a snapshot of its own epoch will see of them, as of which it is logged. `group` is the only one of the write; its stamp
    /// stays one of the next epoch. The worker has a commit pin at the epoch of `time`.
    pub(crate) fn install_late<C: ConcurrencyWords>(&mut self, write: &Write, group: usize, time: u64) {
        let (record, layout, epoch) = (write.record, write.layout, stamp::epoch(time));
        let (head, span) = (heads_base::<C>(layout) + group, layout.groups[group].span);
        self.put_words(write, None, data_base::<C>(layout));
        let seen = version::find(record.word(head), epoch).filter(|seen| !stamp::is_absent(seen.stamp()));
        // Only under a planted bug: whoever added in the next epoch has kept it.
        let Some(mut seen) = seen else { return debug_assert!(cfg!(feature = "mutants"), "nothing is kept") };
        if stamp::epoch(seen.stamp()) < epoch && !planted(Mutant::RedoInOldest) {
            // Snapshots of earlier epochs go on with that one.
            let before = seen;
            seen = self.push(record, head, span.len(), stamp::of(time, true), epoch + 1, |index| {
                // Relaxed: whoever has changed it had the lock that we have.
                before.word(index).load(Ordering::Relaxed)
            });
        }
        if !planted(Mutant::RedoLost) {
            // No snapshot has come to it: its epoch is not closed.
            self.writes.apply(write, span, |word| seen.word(word - span.start));
        }
        if stamp::epoch(seen.stamp()) == epoch {
            seen.set_stamp(stamp::of(time, true));
        }
        if planted(Mutant::RedoNotLogged) {
            return;
        }
        // The words of the version begin where those of the group do.
        let base = Version::WORDS.wrapping_sub(span.start);
        self.append(write, None, time, seen.block(), base);
    }

    /// Logs an addition of [`Self::install_late`] as a part of the epoch to which the record's stamp belongs. After all installs.
    pub(crate) fn log_again<C: ConcurrencyWords>(&mut self, late: &[Write], time: u64) {
        // What is of the earlier epoch is an entry of its own.
        self.entry = None;
        if !planted(Mutant::RedoLogged) {
            late.iter().for_each(|write| self.log::<C>(write, None, time));
        }
    }
}

/// The stamps of the groups of a write, for assertions.
fn stamps<C: ConcurrencyWords>(write: &Write) -> impl Iterator<Item = u64> + '_ {
    // Relaxed: the caller is the record's only writer.
    Groups(write.groups).map(|group| write.record.word(C::stamp_word(group)).load(Ordering::Relaxed))
}
