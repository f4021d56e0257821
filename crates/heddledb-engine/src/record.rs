//! A record: one block of atomic words, its concurrency words in front of its data.
//!
//! ```text
//!   word 0 .. P*G            (P+1)*G                      (P words per group, G groups)
//!   +-----------------------+-------+--------------------------------------------+
//!   | group 0 | .. group G-1| heads | data of group 0 | data of group 1 | ..     |
//!   +-----------------------+-------+--------------------------------------------+
//! ```
//!
//! A head leads to the old versions of its group; see `crate::version`.
//!
//! Each *column group* has its own concurrency words, whose meaning belongs to the protocol
//! (`GROUP_WORDS` of them). Data words are read and written only as relaxed atomics, under
//! whatever the protocol uses to make the copy consistent; a copy that races is torn, never
//! undefined, and is thrown away by the protocol's check.
//!
//! **Type-stable memory.** A block belongs to one table for as long as the database lives: it is
//! recycled for other keys of that table, after its reclamation epoch has passed, and its memory
//! is returned only with the arena. A stale [`RecordRef`] therefore reads words of some record of
//! the same table, which validation rejects; it never reads unmapped memory.

#![allow(unsafe_code)]

use crate::sight::Sight;
use crate::sync::{AtomicU64, IN_PLACE, LINE, Ordering, name, prefetch};
use crate::table::{Layout, Span};
use crate::words::Words;
use std::ptr::NonNull;

/// What the concurrency words in front of a record are, as far as rooms below the protocols must know.
pub trait ConcurrencyWords {
    /// How many there are for each column group.
    const GROUP_WORDS: usize;
    /// What a trace calls them: as many names.
    const NAMES: &'static [&'static str];

    /// The word in which a column group's committed version has its stamp (`crate::stamp`): locked while
    /// its data words change, absent where the row is, all ones for ever once it is sealed. Who only
    /// wants what is committed needs no other word.
    fn stamp_word(group: usize) -> usize;

    /// Whether a version is kept whenever it is overwritten, for transactions that read at a moment of their own,
    /// and not only where a snapshot may need it.
    const EVERY_VERSION: bool = false;

    /// Whether a transaction has queued to change a column group, though its stamp is not locked.
    #[inline(always)]
    fn is_awaited(_record: RecordRef, _group: usize) -> bool {
        false
    }
}

/// Where the heads of the old versions in a record with this layout begin, one per column group.
#[inline(always)]
pub(crate) const fn heads_base<C: ConcurrencyWords>(layout: &Layout) -> usize {
    C::GROUP_WORDS * layout.groups.len()
}

/// Where the data of a record with this layout begin.
#[inline(always)]
pub(crate) const fn data_base<C: ConcurrencyWords>(layout: &Layout) -> usize {
    (C::GROUP_WORDS + 1) * layout.groups.len()
}

/// Tells whoever observes a simulation what the words of the record of `key` are.
pub(crate) fn name_words<C: ConcurrencyWords>(record: RecordRef, layout: &Layout, key: &[u64]) {
    if !cfg!(feature = "simulation") {
        return;
    }
    let row = || format!("{}{key:?}", layout.name);
    let word = |index: usize, what: &dyn Fn() -> String| {
        name(record.as_ptr().wrapping_add(index).cast(), size_of::<u64>(), || {
            format!("{} {}", row(), what())
        });
    };
    let of = |group: usize| match layout.groups.len() {
        1 => String::new(),
        _ => format!(" of group {group}"),
    };
    for (group, columns) in layout.groups.iter().enumerate() {
        for (at, part) in C::NAMES.iter().enumerate() {
            word(C::GROUP_WORDS * group + at, &|| format!("{part}{}", of(group)));
        }
        word(heads_base::<C>(layout) + group, &|| format!("old versions{}", of(group)));
        for at in columns.span.start..columns.span.end {
            word(data_base::<C>(layout) + at, &|| format!("data {at}"));
        }
    }
}

/// A reference to a record's first word. Copy; valid as long as the arena of its database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordRef(NonNull<AtomicU64>);

// SAFETY: a RecordRef gives shared access to atomic words only, which are Sync; the arena that
// owns them is shared by all workers through the database's Arc.
unsafe impl Send for RecordRef {}
// SAFETY: as above.
unsafe impl Sync for RecordRef {}

impl RecordRef {
    /// Wraps the first word of a block.
    ///
    /// # Safety
    /// `block` heads an array of initialised words, at least as many as the layout of the table
    /// that the block belongs to, that stays mapped until the database is dropped.
    pub(crate) unsafe fn new(block: NonNull<AtomicU64>) -> Self {
        Self(block)
    }

    /// The pointer that indexes store.
    pub(crate) fn as_ptr(self) -> *mut AtomicU64 {
        self.0.as_ptr()
    }

    /// Turns an index's pointer back; `None` for null.
    ///
    /// # Safety
    /// `pointer` is null or came from [`RecordRef::as_ptr`] in the same database.
    pub(crate) unsafe fn from_ptr(pointer: *mut AtomicU64) -> Option<Self> {
        NonNull::new(pointer).map(Self)
    }

    /// Word `index` of the block. The caller stays within its table's layout.
    #[inline(always)]
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: by `new`, the block holds every word of its table's layout and outlives the
        // database handle through which the caller reached it; callers index by that layout.
        unsafe { &*self.0.as_ptr().add(index) }
    }

    /// The part of the block that begins at word `index`, which is one of its words.
    #[inline(always)]
    pub(crate) fn part(self, index: usize) -> Self {
        // SAFETY: within the block, by the caller's promise.
        Self(unsafe { self.0.add(index) })
    }

    /// Its data, which begin at word `base`, in place; word `check` vouches for them as long as it is `was`.
    #[inline(always)]
    pub(crate) fn sight<'a>(self, base: usize, layout: &Layout, check: usize, was: u64) -> Sight<'a> {
        const { assert!(size_of::<AtomicU64>() == size_of::<u64>() || !IN_PLACE) };
        let data = self.part(base).0.cast();
        let check = self.part(check).0.cast();
        // SAFETY: by `new`, the block holds every word of its table's layout, initialised, and stays mapped until the
        // database is dropped, which outlives the worker that the sight is borrowed from. Only where `IN_PLACE` says
        // that the words are the standard library's atomics is this called.
        unsafe { Sight::in_place(data, layout.words, check, was) }
    }

    /// The same, for who holds the database otherwise than by a borrow.
    #[inline(always)]
    pub(crate) fn lasting_word(self, index: usize) -> &'static AtomicU64 {
        // SAFETY: as for `word`; arenas are dropped with the database, after the last transaction and
        // snapshot, and no reference of this kind is kept outside of one.
        unsafe { &*self.0.as_ptr().add(index) }
    }

    /// The address as a number, to be stored in a word.
    pub(crate) fn to_link(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// Turns a stored number back; `None` for 0.
    pub(crate) fn from_link(link: u64) -> Option<Self> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(link as usize)).map(Self)
    }

    /// A number to hash by; equal for equal references. Never used to order anything.
    #[inline(always)]
    pub(crate) fn identity(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Asks the processor to fetch some words of the record.
    #[inline(always)]
    pub(crate) fn prefetch(&self, words: Span) {
        // A hint: an address outside the record would do no harm.
        let (first, last) =
            (self.0.as_ptr().wrapping_add(words.start), self.0.as_ptr().wrapping_add(words.end));
        prefetch(first, (last.addr() - 1) / LINE - first.addr() / LINE + 1);
    }
}

/// The data words of a record from which column values are decoded, at word offset `base`.
#[derive(Clone, Copy)]
pub struct RecordData {
    record: RecordRef,
    base: usize,
}

impl RecordData {
    /// The data of `record`, whose concurrency words take the first `base` words. Where only a part of a row is
    /// there, from data word `start` on, `base` may be less than zero by as much: it wraps.
    #[inline(always)]
    pub(crate) fn new(record: RecordRef, base: usize) -> Self {
        Self { record, base }
    }
}

impl Words for RecordData {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        // Relaxed: the protocol's check around the copy orders it (see the module header).
        self.record.word(self.base.wrapping_add(index)).load(Ordering::Relaxed)
    }
}
