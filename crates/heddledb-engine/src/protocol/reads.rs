//! What optimistic protocols remember of their reads: the stamps of records, and (in `gaps`) the versions of gaps.
//!
//! A read copies a record between two equal readings of its stamp and remembers the stamp; nothing shared is
//! written. A commit is valid if each stamp still stands, unlocked by others, and each gap has its version.

use super::Sighted;
use crate::access::Groups;
use crate::epoch::EpochClock;
use crate::error::Conflict;
use crate::mutant::{Mutant, planted};
use crate::record::{ConcurrencyWords, RecordData, RecordRef, data_base};
use crate::stamp;
use crate::sync::{Ordering, Wait, fence};
use crate::table::{GroupSet, Layout};
use std::marker::PhantomData;

/// A group that was read, and its stamp then.
struct Read {
    record: RecordRef,
    stamp: u64,
    group: u8,
    /// The tag that the protocol gave the read.
    tag: u16,
}

/// The groups that an attempt has read; `C` says where their stamps are.
pub(crate) struct ReadSet<C> {
    reads: Vec<Read>,
    words: PhantomData<fn() -> C>,
}

impl<C> Default for ReadSet<C> {
    fn default() -> Self {
        Self { reads: Vec::new(), words: PhantomData }
    }
}

/// Pauses on a locked record before an optimistic attempt gives up. A holder is between its first lock and
/// its last store; beyond the spinning part of [`Wait`] it has most likely lost its processor.
pub(crate) const PAUSES: u32 = 10;

impl<C: ConcurrencyWords> ReadSet<C> {
    #[inline]
    pub fn clear(&mut self) {
        self.reads.clear();
    }

    /// How many groups were read.
    #[inline]
    pub fn len(&self) -> usize {
        self.reads.len()
    }

    /// Whether nothing was read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Forgets all but the first `len` reads.
    pub fn truncate(&mut self, len: usize) {
        self.reads.truncate(len);
    }

    /// Reads column groups of a record as they are committed.
    #[inline(always)]
    pub fn read<R>(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        tag: u16,
        mut copy: impl FnMut(RecordData) -> R,
    ) -> Result<Option<R>, Conflict> {
        loop {
            let first = self.reads.len();
            let value = self.look(record, layout, groups, tag)?.map(&mut copy);
            if self.stand(record, first) {
                return Ok(value);
            }
        }
    }

    /// Reads a column group whose data the caller copies: the read stands if the stamp is then what it was.
    #[inline(always)]
    pub fn sight(&mut self, record: RecordRef, group: usize, tag: u16) -> Result<Sighted, Conflict> {
        if planted(Mutant::SiloStampTakenAfterCopy) {
            return Ok(Sighted::Hidden);
        }
        let was = unlocked_stamp::<C>(record, group)?;
        self.reads.push(Read { record, stamp: was, group: group as u8, tag });
        Ok(if stamp::is_absent(was) {
            Sighted::Absent
        } else {
            Sighted::At { word: C::stamp_word(group), was }
        })
    }

    /// Forgets the last read.
    pub fn unsight(&mut self) {
        self.reads.pop();
    }

    /// The first half of a read, before the copy: `None` if the row does not exist.
    #[inline(always)]
    pub fn look(
        &mut self,
        record: RecordRef,
        layout: &'static Layout,
        groups: GroupSet,
        tag: u16,
    ) -> Result<Option<RecordData>, Conflict> {
        let mut absent = false;
        for group in Groups(groups) {
            let word = unlocked_stamp::<C>(record, group)?;
            absent |= stamp::is_absent(word);
            self.reads.push(Read { record, stamp: word, group: group as u8, tag });
        }
        Ok((!absent).then(|| RecordData::new(record, data_base::<C>(layout))))
    }

    /// The second half: whether what was copied is what was committed. If not, forgets the reads from number
    /// `first` on.
    #[inline(always)]
    pub fn stand(&mut self, record: RecordRef, first: usize) -> bool {
        // Acquire fence, then relaxed loads: if any copied word came from a later writer, so
        // does its lock bit or stamp (pairs with the release fence of the write phase).
        fence(Ordering::Acquire);
        let now = |read: &Read| record.word(C::stamp_word(read.group as usize)).load(Ordering::Relaxed);
        if planted(Mutant::SiloStampTakenAfterCopy) {
            self.reads[first..].iter_mut().for_each(|read| read.stamp = now(read));
        }
        let stands = self.reads[first..].iter().all(|read| now(read) == read.stamp);
        if !stands {
            self.reads.truncate(first);
        }
        stands
    }

    /// A conflict, unless every group still has its stamp and no other transaction has locked it. `own` says
    /// whether this transaction holds the lock of a group.
    #[inline]
    pub fn validate(&self, own: impl FnMut(RecordRef, usize) -> bool) -> Result<(), Conflict> {
        self.validate_from(0, own)
    }

    /// As [`Self::validate`], for the reads from number `first` on.
    #[inline]
    pub fn validate_from(
        &self,
        first: usize,
        mut own: impl FnMut(RecordRef, usize) -> bool,
    ) -> Result<(), Conflict> {
        if planted(Mutant::SiloReadsNotValidated) {
            return Ok(());
        }
        for read in &self.reads[first..] {
            Self::validate_read(read, &mut own)?;
        }
        Ok(())
    }

    /// As [`Self::validate`], where `held` knows of some groups at once that this transaction has locked them, and
    /// found a stamp under the lock. Returns the latest time that was read of the others.
    #[inline(always)]
    pub fn validate_holding(
        &self,
        mut held: impl FnMut(RecordRef, usize, u64) -> bool,
        mut own: impl FnMut(RecordRef, usize) -> bool,
    ) -> Result<u64, Conflict> {
        if planted(Mutant::SiloReadsNotValidated) {
            return Ok(self.newest());
        }
        let mut newest = 0;
        for read in &self.reads {
            if !held(read.record, read.group as usize, read.stamp) {
                Self::validate_read(read, &mut own)?;
                newest = newest.max(stamp::time(read.stamp));
            }
        }
        Ok(newest)
    }

    #[inline(always)]
    fn validate_read(read: &Read, mut own: impl FnMut(RecordRef, usize) -> bool) -> Result<(), Conflict> {
        let group = read.group as usize;
        // SeqCst, after the epoch: a transaction that locks it later reads no earlier epoch (X5), so
        // epochs do not fall from a reader to the writer that overwrites what it read.
        let word = read.record.word(C::stamp_word(group)).load(Ordering::SeqCst);
        if word == read.stamp {
            return Ok(());
        }
        if word != read.stamp | stamp::LOCK {
            return Err(Conflict::ReadChanged);
        }
        if !own(read.record, group) && !planted(Mutant::SiloForeignLockIgnored) {
            return Err(Conflict::Locked);
        }
        Ok(())
    }

    /// This attempt has just added a record, and rests on its absence.
    pub fn push_added(&mut self, record: RecordRef) {
        self.reads.push(Read { record, stamp: stamp::ABSENT, group: 0, tag: 0 });
    }

    /// The latest time of what was read from number `first` on.
    #[inline]
    pub fn newest_from(&self, first: usize) -> u64 {
        self.reads[first..].iter().map(|read| stamp::time(read.stamp)).max().unwrap_or(0)
    }

    /// What was read: record, group, stamp.
    pub fn groups(&self) -> impl Iterator<Item = (RecordRef, usize, u64)> {
        self.reads.iter().map(|read| (read.record, read.group as usize, read.stamp))
    }

    /// What repeatable read promises: what is written was not written by another since it was read, and what
    /// was read twice was equal both times. `own` as for [`Self::validate`].
    pub fn validate_repeats(
        &self,
        mut own: impl FnMut(RecordRef, usize) -> bool,
        repeats: &mut Repeats,
    ) -> Result<(), Conflict> {
        for read in self.reads.iter().filter(|read| own(read.record, read.group as usize)) {
            let word = read.record.word(C::stamp_word(read.group as usize)).load(Ordering::Relaxed);
            if word & !stamp::LOCK != read.stamp {
                return Err(Conflict::ReadChanged);
            }
        }
        repeats.check(self.reads.iter().map(|read| (read.record, read.group, read.stamp)))
    }

    /// The tag of the first read that does not stand.
    #[cold]
    pub fn broken(&self) -> Option<u16> {
        let stands = |read: &&Read| {
            let word = read.record.word(C::stamp_word(read.group as usize)).load(Ordering::Relaxed);
            word & !stamp::LOCK == read.stamp
        };
        self.reads.iter().find(|read| !stands(read)).map(|read| read.tag)
    }

    /// The latest time of a version that was read.
    #[inline(always)]
    pub fn newest(&self) -> u64 {
        self.reads.iter().fold(0, |newest, read| newest.max(stamp::time(read.stamp)))
    }

    /// A time of no earlier epoch than anything that was read, or seen without a stamp (`more`): what has none may be as young
    /// as the present epoch. So may the absence at a place of which no row was ever committed, since a row may have been
    /// deleted and reclaimed before.
    #[inline]
    pub fn not_before(&self, more: bool, clock: &EpochClock) -> u64 {
        let (mut newest, mut is_open) = (0, more);
        for read in &self.reads {
            newest = newest.max(stamp::time(read.stamp));
            is_open |= stamp::is_placeholder(read.stamp);
        }
        if is_open { stamp::floor(clock.now()) } else { newest }
    }
}

/// Finds the groups that were read at two versions.
#[derive(Default)]
pub(crate) struct Repeats(Vec<(u64, u8, u64)>);

impl Repeats {
    /// A conflict, if a group was read at two of the stamps.
    pub fn check(&mut self, reads: impl Iterator<Item = (RecordRef, u8, u64)>) -> Result<(), Conflict> {
        self.0.clear();
        self.0.extend(reads.map(|(record, group, stamp)| (record.to_link(), group, stamp)));
        self.0.sort_unstable();
        let same = |pair: &[(u64, u8, u64)]| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1);
        match self.0.windows(2).any(|pair| same(pair) && pair[0].2 != pair[1].2) {
            true => Err(Conflict::ReadChanged),
            false => Ok(()),
        }
    }
}

/// Loads the stamp of a group when it is not locked.
#[inline(always)]
fn unlocked_stamp<C: ConcurrencyWords>(record: RecordRef, group: usize) -> Result<u64, Conflict> {
    let is_awaited = C::is_awaited(record, group);
    // Acquire: pairs with the publishing store of the version that we are about to copy.
    let word = record.word(C::stamp_word(group)).load(Ordering::Acquire);
    if is_awaited || stamp::is_locked(word) { wait_unlocked::<C>(record, group) } else { Ok(word) }
}

/// Waits for the committing writers that hold the lock, or queue for it; bounded, so it is in no cycle.
#[cold]
fn wait_unlocked<C: ConcurrencyWords>(record: RecordRef, group: usize) -> Result<u64, Conflict> {
    let mut wait = Wait::new();
    loop {
        let is_awaited = C::is_awaited(record, group);
        let word = record.word(C::stamp_word(group)).load(Ordering::Acquire);
        if !is_awaited && !stamp::is_locked(word) {
            return Ok(word);
        }
        if word == stamp::SEALED {
            return Err(Conflict::Reclaimed);
        }
        if wait.rounds() >= PAUSES {
            return Err(Conflict::Locked);
        }
        wait.pause();
    }
}
