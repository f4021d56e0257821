//! The accessors of a column group: the transactions that have read or written it and have not ended (IC3
//! §3.2).
//!
//! ```text
//!   word 0  stamp    of the committed version (`crate::stamp`); locked while data words change
//!   word 1  access   63 ........ 32   31 ........ 1   0
//!                    value version    changes          latch
//!   word 2  newest   leads to the newest accessor, 0 if there is none
//! ```
//!
//! The list is changed under the latch, and each change counts. The *value version* counts those that give
//! the group another value for the pieces to come: a new writer, a writer that aborts, an install without an
//! accessor. It does not count a writer that commits: what it showed is then in the record, unchanged.
//!
//! **Values stand in the accessors** of their writers. The present value is that of the newest
//! writer, or the committed one. So when a writer aborts, the value before it is the present one again. A
//! transaction that shows a row which it has added itself leaves the row's words in the record: while its
//! stamp says that there is no row, they mean nothing to others.
//!
//! **Committed transactions leave late.** A committed writer's values are in the records before it is out of
//! the lists, and those that waited for it need not wait for that. A writer that commits after it takes it
//! out, with all accessors older than itself: all of them have ended. Else an older value would be the
//! present one.
//!
//! An accessor, newest first in its list:
//!
//! ```text
//!   word 0  the transaction, whether it writes and the row then exists, whether it has read nothing of the
//!           group, whether it will abort because another does; 0 once another took it out
//!        1  the next newer one      2  the next older one
//!        3  of a writer, leads to the group's words as it shows them
//!        4..  those words, if they are not in the record
//! ```
//!
//! A piece reads without the latch: it looks for the newest writer and copies, and what it copied counts only
//! if the access word did not change meanwhile. What it then did is entered under the latch, if the value
//! version is unchanged.
//!
//! Both counts wrap. A copy would be wrongly accepted after exactly 2^31 changes to one list while it was
//! made, a read after 2^32 new values within its piece: either takes hours of nothing else.

use super::slots::Id;
use crate::error::Conflict;
use crate::record::{Part, RecordRef};
use crate::stamp;
use crate::sync::{AtomicU64, Ordering, Wait, fence};

/// Words for each group.
pub(super) const GROUP_WORDS: usize = 3;

const LATCH: u64 = 1;
const CHANGE: u64 = 2;
const VALUE: u32 = 32;
/// Latched for ever: the record has left the index.
const SEALED: u64 = u64::MAX;

/// Words of an accessor; its image may follow.
pub(super) const ACCESSOR_WORDS: usize = 4;
const WHO: usize = 0;
const NEWER: usize = 1;
const OLDER: usize = 2;
const IMAGE: usize = 3;

const WRITES: u64 = 1;
const PRESENT: u64 = 2;
/// It writes without regard to what was there.
const BLIND: u64 = 4;
/// A transaction whose value it has seen aborts, so it will abort.
const DOOMED: u64 = 8;
/// Bits for these flags.
const FLAGS: u32 = 4;

/// The value version in an access word.
#[inline(always)]
pub(super) fn value_of(access: u64) -> u32 {
    (access >> VALUE) as u32
}

/// A column group of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accessed {
    pub record: RecordRef,
    pub group: u8,
}

/// What a transaction does to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It reads.
    Reads,
    /// It writes, and then the row exists or not; without regard to what was there, or after it has read
    /// that.
    Writes { present: bool, blind: bool },
}

/// An accessor in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accessor(Part);

/// Where the present value of a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In the record, under this stamp.
    Committed(u64),
    /// Where a writer shows it.
    Shown { by: Accessor, image: Part },
}

/// A look at a group without its latch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    access: u64,
    pub source: Source,
    pub present: bool,
    /// The transaction that shows the value is marked: it will abort.
    pub doomed: bool,
    /// The transaction that shows it.
    pub by: Option<Id>,
}

impl Look {
    /// The version of the value that was seen.
    pub fn value(&self) -> u32 {
        value_of(self.access)
    }
}

/// A look at what is committed.
#[inline(always)]
fn committed(access: u64, stamp: u64) -> Look {
    Look {
        access,
        source: Source::Committed(stamp),
        present: !stamp::is_absent(stamp),
        doomed: false,
        by: None,
    }
}

impl Accessor {
    /// Prepares one that is in no list, in memory of the worker's own. A writer's `image` has the group's
    /// words.
    #[inline(always)]
    pub fn new(block: Part, id: Id, doing: Doing, image: Part) -> Self {
        let does = match doing {
            Doing::Reads => 0,
            Doing::Writes { present, blind } => {
                WRITES | if present { PRESENT } else { 0 } | if blind { BLIND } else { 0 }
            }
        };
        // Relaxed: published by the latch's release.
        block.word(WHO).store(id.bits() << FLAGS | does, Ordering::Relaxed);
        block.word(IMAGE).store(image.to_link(), Ordering::Relaxed);
        Self(block)
    }

    pub fn id(self) -> Id {
        Id::from_bits(self.0.word(WHO).load(Ordering::Relaxed) >> FLAGS)
    }

    pub fn writes(self) -> bool {
        self.has(WRITES)
    }

    pub fn shows_present(self) -> bool {
        self.has(PRESENT)
    }

    fn has(self, flag: u64) -> bool {
        self.0.word(WHO).load(Ordering::Relaxed) & flag != 0
    }

    /// The next older one.
    pub fn older(self) -> Option<Self> {
        Part::from_link(self.0.word(OLDER).load(Ordering::Relaxed)).map(Self)
    }

    /// The next newer one. Under the latch.
    fn newer(self) -> Option<Self> {
        Part::from_link(self.0.word(NEWER).load(Ordering::Relaxed)).map(Self)
    }

    /// Whether a later writer took it out of the list. Under the latch.
    fn is_out(self) -> bool {
        self.0.word(WHO).load(Ordering::Relaxed) == 0
    }

    /// The group's words as a writer shows them. Under the latch.
    pub fn image(self) -> Option<Part> {
        Part::from_link(self.0.word(IMAGE).load(Ordering::Relaxed))
    }
}

impl Accessed {
    #[inline(always)]
    pub fn new(record: RecordRef, group: usize) -> Self {
        Self { record, group: group as u8 }
    }

    #[inline(always)]
    pub fn stamp(&self) -> &AtomicU64 {
        self.record.word(GROUP_WORDS * self.group as usize)
    }

    #[inline(always)]
    fn access(&self) -> &AtomicU64 {
        self.record.word(GROUP_WORDS * self.group as usize + 1)
    }

    #[inline(always)]
    fn newest_link(&self) -> &AtomicU64 {
        self.record.word(GROUP_WORDS * self.group as usize + 2)
    }

    /// Makes the group's words those of a version with this stamp and without accessors, while no other
    /// transaction has the record.
    pub fn reset(&self, stamp: u64) {
        // Relaxed: published with the record.
        self.stamp().store(stamp, Ordering::Relaxed);
        self.access().store(0, Ordering::Relaxed);
        self.newest_link().store(0, Ordering::Relaxed);
    }

    /// Looks for the present value. Waits for the latch's holder, which waits for others for a bounded time
    /// only.
    #[inline(always)]
    pub fn look(&self) -> Result<Look, Conflict> {
        // Acquire: as below. Mostly the latch is free.
        let access = self.access().load(Ordering::Acquire);
        let look = (access & LATCH == 0).then(|| self.look_at_committed(access)).flatten();
        look.map_or_else(|| self.look_with_patience(), Ok)
    }

    fn look_with_patience(&self) -> Result<Look, Conflict> {
        let mut wait = Wait::new();
        loop {
            // Acquire: pairs with the release of the last holder, whose accessors we follow.
            let access = self.access().load(Ordering::Acquire);
            if access & LATCH == 0 {
                if let Some(look) = self.look_at(access) {
                    return Ok(look);
                }
            } else if access == SEALED {
                return Err(Conflict::Reclaimed);
            }
            wait.pause();
        }
    }

    /// Looks at the committed value under one access word; `None` if there are accessors, or the record is
    /// being written.
    #[inline(always)]
    fn look_at_committed(&self, access: u64) -> Option<Look> {
        if self.newest_link().load(Ordering::Relaxed) != 0 {
            return None;
        }
        // Acquire: pairs with the release of the version that is about to be copied.
        let stamp = self.stamp().load(Ordering::Acquire);
        let look = committed(access, stamp);
        (!stamp::is_locked(stamp)).then_some(look)
    }

    /// Looks for the present value under one access word; `None` if the list changed under us, or the record
    /// is being written.
    #[inline]
    fn look_at(&self, access: u64) -> Option<Look> {
        let mut at = self.newest();
        if at.is_none() {
            return self.look_at_committed(access);
        }
        while let Some(accessor) = at {
            let writer = accessor.writes().then(|| (accessor.shows_present(), accessor.has(DOOMED)));
            let by = accessor.id();
            let (image, older) = (accessor.image(), accessor.older());
            // What was read of the accessor belongs to this list only if the list is what it was: else the
            // block may have been reused. So no step is taken along a link that is not known to be valid.
            if !self.unchanged(access) {
                return None;
            }
            if let (Some((present, doomed)), Some(image)) = (writer, image) {
                let source = Source::Shown { by: accessor, image };
                return Some(Look { access, source, present, doomed, by: Some(by) });
            }
            at = older;
        }
        let stamp = self.stamp().load(Ordering::Acquire);
        let look = committed(access, stamp);
        (!stamp::is_locked(stamp)).then_some(look)
    }

    /// Waits until the writer before us has installed, which is all that it has left to do. Returns the stamp
    /// then.
    #[cold]
    pub fn wait_for_install(&self) -> u64 {
        let mut wait = Wait::new();
        loop {
            // Acquire: pairs with that writer's release, so that our words come after its words.
            let stamp = self.stamp().load(Ordering::Acquire);
            if !stamp::is_locked(stamp) {
                return stamp;
            }
            wait.pause();
        }
    }

    /// Whether the access word is unchanged, and so everything that was read since is consistent.
    #[inline(always)]
    fn unchanged(&self, access: u64) -> bool {
        // Acquire fence, then relaxed load: had we read a word that a later holder stored, we would see its
        // latch or its release (pairs with the release fence in `latch`).
        fence(Ordering::Acquire);
        self.access().load(Ordering::Relaxed) == access
    }

    /// Whether what was copied since a look is what the look found.
    #[inline(always)]
    pub fn stands(&self, look: &Look) -> bool {
        fence(Ordering::Acquire);
        // Relaxed: ordered by the fence.
        let access = self.access().load(Ordering::Relaxed);
        match look.source {
            // Data words change only under a locked stamp, by a writer that the value version tells of or
            // whose new stamp is another.
            Source::Committed(stamp) => {
                value_of(access) == look.value() && self.stamp().load(Ordering::Relaxed) == stamp
            }
            // The accessor may be reused as soon as it has left the list.
            Source::Shown { .. } => access == look.access,
        }
    }

    /// Whether the value is still that of `value`, as far as one can tell without the latch.
    pub fn still(&self, value: u32) -> bool {
        // SeqCst: after whatever the caller relies on.
        let access = self.access().load(Ordering::SeqCst);
        access != SEALED && value_of(access) == value
    }

    /// As [`Self::still`], for a row that does not exist; also false while a transaction writes the row
    /// without having shown it. As far as one can tell without the latch, which may be the caller's own: another's may be that of a piece
    /// that has shown a row here and let the gap go, and not the row (found by the search: ic3/kill/90075909).
    pub fn still_passes(&self, value: u32, is_own: impl FnOnce() -> bool) -> bool {
        // SeqCst: as above. A writer that has shown the row is in the list; another finds the list empty and
        // locks the stamp.
        let unlocked = !stamp::is_locked(self.stamp().load(Ordering::SeqCst)) || self.newest().is_some();
        let access = self.access().load(Ordering::SeqCst);
        unlocked && access != SEALED && value_of(access) == value && (access & LATCH == 0 || is_own())
    }

    /// Tries to latch the group. Returns the access word before, or `None` if another holds the latch.
    #[inline]
    pub fn try_latch(&self) -> Result<Option<u64>, Conflict> {
        let access = self.access().load(Ordering::Relaxed);
        if access & LATCH != 0 {
            return if access == SEALED { Err(Conflict::Reclaimed) } else { Ok(None) };
        }
        // Acquire: pairs with the last holder's release. SeqCst: in one order with the other latches and with
        // the epoch, as for any lock of a commit.
        let latched =
            self.access().compare_exchange(access, access | LATCH, Ordering::SeqCst, Ordering::Relaxed);
        if latched.is_err() {
            return Ok(None);
        }
        // Pairs with the acquire fences of looks.
        fence(Ordering::Release);
        Ok(Some(access))
    }

    /// Latches a group that was never accessed or latched; false if it was.
    #[inline(always)]
    pub fn latch_untouched(&self) -> bool {
        // As in `try_latch`.
        let latched = self.access().compare_exchange(0, LATCH, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        fence(Ordering::Release);
        latched
    }

    /// What the access word was before the latch. Under the latch.
    #[inline(always)]
    pub fn before_latch(&self) -> u64 {
        self.access().load(Ordering::Relaxed) & !LATCH
    }

    /// Latches the group, however long it takes. The holder must not wait for a transaction that waits for
    /// us.
    #[inline(always)]
    pub fn latch(&self) -> Result<u64, Conflict> {
        match self.try_latch() {
            Ok(Some(access)) => Ok(access),
            _ => self.latch_with_patience(),
        }
    }

    #[cold]
    fn latch_with_patience(&self) -> Result<u64, Conflict> {
        let mut wait = Wait::new();
        loop {
            if let Some(access) = self.try_latch()? {
                return Ok(access);
            }
            wait.pause();
        }
    }

    /// Lets the latch go; `access` is the access word before, `new_value` whether the group has another value
    /// now.
    #[inline]
    pub fn unlatch(&self, access: u64, new_value: bool) {
        let changes = (access + CHANGE) & (u64::from(u32::MAX) & !LATCH);
        let value = (access >> VALUE).wrapping_add(u64::from(new_value)) << VALUE;
        // Release: publishes the list.
        self.access().store(value | changes, Ordering::Release);
    }

    /// Lets the latch go where nothing was changed.
    #[inline]
    pub fn unlatch_unchanged(&self, access: u64) {
        self.access().store(access, Ordering::Release);
    }

    /// The newest accessor. Under the latch, or else valid only if the access word does not change.
    #[inline]
    pub fn newest(&self) -> Option<Accessor> {
        Part::from_link(self.newest_link().load(Ordering::Relaxed)).map(Accessor)
    }

    /// Where the present value is. Under the latch.
    #[inline]
    pub fn writer(&self) -> Option<Accessor> {
        let mut at = self.newest();
        while let Some(accessor) = at
            && !accessor.writes()
        {
            at = accessor.older();
        }
        at
    }

    /// Whether the row exists for a piece to come. Under the latch.
    pub fn is_present(&self) -> bool {
        match self.writer() {
            Some(writer) => writer.shows_present(),
            None => !stamp::is_absent(self.stamp().load(Ordering::Relaxed)),
        }
    }

    /// Puts an accessor in front. Under the latch.
    #[inline]
    pub fn enter(&self, accessor: Accessor) {
        let newest = self.newest();
        let link = |accessor: Option<Accessor>| accessor.map_or(0, |accessor| accessor.0.to_link());
        // Relaxed throughout: published by the latch's release.
        accessor.0.word(OLDER).store(link(newest), Ordering::Relaxed);
        accessor.0.word(NEWER).store(0, Ordering::Relaxed);
        if let Some(newest) = newest {
            newest.0.word(NEWER).store(accessor.0.to_link(), Ordering::Relaxed);
        }
        self.newest_link().store(accessor.0.to_link(), Ordering::Relaxed);
    }

    /// Puts an accessor into an empty list. Under the latch.
    #[inline(always)]
    pub fn enter_alone(&self, accessor: Accessor) {
        // Relaxed throughout: as in `enter`.
        accessor.0.word(OLDER).store(0, Ordering::Relaxed);
        accessor.0.word(NEWER).store(0, Ordering::Relaxed);
        self.newest_link().store(accessor.0.to_link(), Ordering::Relaxed);
    }

    /// Takes an accessor out of the list, unless it is out. Under the latch.
    #[inline]
    pub fn withdraw(&self, accessor: Accessor) {
        if accessor.is_out() {
            return;
        }
        let newer = accessor.0.word(NEWER).load(Ordering::Relaxed);
        let older = accessor.0.word(OLDER).load(Ordering::Relaxed);
        match Part::from_link(newer) {
            Some(newer) => newer.word(OLDER).store(older, Ordering::Relaxed),
            None => self.newest_link().store(older, Ordering::Relaxed),
        }
        if let Some(older) = Part::from_link(older) {
            older.word(NEWER).store(newer, Ordering::Relaxed);
        }
    }

    /// The writer aborts: marks every accessor in the list that has seen the writer's value, or what others
    /// have made of it, and calls `found` with each. A marked writer passes the mark on to those behind it.
    /// Under the latch.
    pub fn doom_followers(&self, writer: Accessor, mut found: impl FnMut(Id)) {
        // Relaxed throughout: published by the latch's release.
        let mut newer = writer.newer();
        while let Some(follower) = newer
            && !follower.has(BLIND)
        {
            if follower.has(DOOMED) && follower.writes() {
                break;
            }
            let who = follower.0.word(WHO);
            who.store(who.load(Ordering::Relaxed) | DOOMED, Ordering::Relaxed);
            found(follower.id());
            newer = follower.newer();
        }
    }

    /// Takes all accessors that are older than the given one out of the list. Under the latch.
    #[inline]
    pub fn withdraw_older(&self, accessor: Accessor) {
        let mut at = accessor.older();
        // Relaxed throughout: published by the latch's release.
        accessor.0.word(OLDER).store(0, Ordering::Relaxed);
        while let Some(older) = at {
            at = older.older();
            older.0.word(WHO).store(0, Ordering::Relaxed);
        }
    }

    /// Latched for ever. Under the latch.
    pub fn seal(&self) {
        self.stamp().store(stamp::SEALED, Ordering::Release);
        self.access().store(SEALED, Ordering::Release);
    }
}
