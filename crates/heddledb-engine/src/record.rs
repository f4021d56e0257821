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
//!
//! **Reach.** A reference does not know how long its block is, and need not trust who indexes it: behind the blocks
//! of every chunk of memory [`BEHIND`] more words are mapped, which nobody touches, and an index of [`REACH`] or more is
//! refused. A wrong index below it reads a word of another block or of those behind, never anything else.

#![allow(unsafe_code)]

use crate::sight::Sight;
use crate::sync::{AtomicU64, IN_PLACE, LINE, MODEL, Ordering, name, prefetch};
use crate::table::{Layout, Span};
use crate::words::Words;
use std::ptr::NonNull;

/// Words of the longest block, and a bound of every index into one: 2 MiB. Values of any length are not in their rows.
pub(crate) const REACH: usize = if MODEL || cfg!(miri) { 1 << 7 } else { 1 << 18 };
/// Words that are mapped behind the blocks of a chunk: within reach of a part that is within reach of a block.
pub(crate) const BEHIND: usize = 2 * REACH;
const _: () = assert!(REACH.is_power_of_two());

/// What the concurrency words in front of a record are, as far as rooms below the protocols must know.
pub trait ConcurrencyWords: Sized {
    /// How many there are for each column group.
    const GROUP_WORDS: usize;
    /// What a trace calls them: as many names.
    const NAMES: &'static [&'static str];

    /// Which of them is the stamp of the group's committed version (`crate::stamp`): locked while its data words change,
    /// absent where the row is, all ones for ever once it is sealed. Who only wants what is committed needs no
    /// other word.
    const STAMP: usize = 0;

    /// Whether a version is kept whenever it is overwritten, for transactions that read at a moment of their own,
    /// and not only where a snapshot may need it.
    const EVERY_VERSION: bool = false;

    /// The word in which a column group has its stamp.
    #[inline(always)]
    fn stamp_word(group: usize) -> usize {
        Shape::of::<Self>().stamp(group)
    }

    /// Whether a transaction has queued to change a column group, though its stamp is not locked.
    #[inline(always)]
    fn is_awaited(_record: RecordRef, _group: usize) -> bool {
        false
    }
}

/// Where the words of a record are, as data: for rooms that know no protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    group_words: usize,
    stamp: usize,
}

impl Shape {
    /// Of a record with these concurrency words.
    #[inline(always)]
    pub const fn of<C: ConcurrencyWords>() -> Self {
        Self { group_words: C::GROUP_WORDS, stamp: C::STAMP }
    }

    /// The word in which a column group has its stamp.
    #[inline(always)]
    pub const fn stamp(self, group: usize) -> usize {
        self.group_words * group + self.stamp
    }

    /// Where the heads of the old versions begin, one per column group.
    #[inline(always)]
    pub const fn heads(self, layout: &Layout) -> usize {
        self.group_words * layout.groups.len()
    }

    /// Where the data begin.
    #[inline(always)]
    pub const fn data(self, layout: &Layout) -> usize {
        (self.group_words + 1) * layout.groups.len()
    }

    /// How many words there are, concurrency words included.
    #[inline(always)]
    pub const fn words(self, layout: &Layout) -> usize {
        self.data(layout) + layout.words
    }
}

/// Where the heads of the old versions in a record with this layout begin, one per column group.
#[inline(always)]
pub(crate) const fn heads_base<C: ConcurrencyWords>(layout: &Layout) -> usize {
    Shape::of::<C>().heads(layout)
}

/// Where the data of a record with this layout begin.
#[inline(always)]
pub(crate) const fn data_base<C: ConcurrencyWords>(layout: &Layout) -> usize {
    Shape::of::<C>().data(layout)
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
    /// `block` heads an array of at least [`BEHIND`] initialised words that stays mapped until the database is dropped.
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

    /// Word `index` of the block.
    ///
    /// # Panics
    /// If it is out of [reach](REACH).
    #[inline(always)]
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        self.lasting_word(index)
    }

    /// The part of the block that begins at word `index`. Panics as [`RecordRef::word`].
    #[inline(always)]
    pub(crate) fn part(self, index: usize) -> Part {
        check_reach(index);
        // SAFETY: by `new`, twice `REACH` words begin here, and `index` is less than that.
        Part(unsafe { self.0.add(index) })
    }

    /// The block behind the first `words` of this one.
    ///
    /// # Safety
    /// What [`RecordRef::new`] asks holds there: it is in the same chunk, or at the end of it.
    #[inline(always)]
    pub(crate) unsafe fn behind(self, words: usize) -> Self {
        // SAFETY: within the words of the chunk, by the caller's promise.
        Self(unsafe { self.0.add(words) })
    }

    /// Its data, which begin at word `base`, in place; word `check` vouches for them as long as it is `was`.
    #[inline(always)]
    pub(crate) fn sight<'a>(self, base: usize, layout: &Layout, check: usize, was: u64) -> Sight<'a> {
        const { assert!(size_of::<AtomicU64>() == size_of::<u64>() || !IN_PLACE) };
        // All at once, since the bound is a power of two.
        check_reach(base | check | layout.words);
        // SAFETY: by `new`, twice `REACH` words begin here, and both are less than that.
        let (data, check) = unsafe { (self.0.add(base).cast(), self.0.add(check).cast()) };
        // SAFETY: `data` heads `REACH` words and more, thus `layout.words`; all are initialised and stay mapped until
        // the database is dropped, which outlives the worker that the sight is borrowed from. Only where `IN_PLACE`
        // says that the words are the standard library's atomics is this called.
        unsafe { Sight::in_place(data, layout.words, check, was) }
    }

    /// The same, for who holds the database otherwise than by a borrow.
    #[inline(always)]
    pub(crate) fn lasting_word(self, index: usize) -> &'static AtomicU64 {
        check_reach(index);
        // SAFETY: by `new`, twice `REACH` words begin here, all initialised; arenas are dropped with the database, after
        // the last transaction and snapshot, and no reference of this kind is kept outside of one.
        unsafe { &*self.0.as_ptr().add(index) }
    }

    /// The address as a number, to be stored in a word.
    pub(crate) fn to_link(self) -> u64 {
        to_link(self.0)
    }

    /// Turns a stored number back; `None` for 0.
    pub(crate) fn from_link(link: u64) -> Option<Self> {
        from_link(link).map(Self)
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

    /// Asks the processor to fetch the first words. How many lines they have is the same for all records: as many as where
    /// the block begins in the middle of one.
    #[inline(always)]
    pub(crate) fn prefetch_first(&self, words: usize) {
        prefetch(self.0.as_ptr(), (words * size_of::<u64>() + LINE / 2).div_ceil(LINE));
    }
}

/// A part of a record, or of what is shown of one: [`REACH`] words, of which its maker has told which are its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part(NonNull<AtomicU64>);

// SAFETY: as for `RecordRef`.
unsafe impl Send for Part {}
// SAFETY: as for `RecordRef`.
unsafe impl Sync for Part {}

impl From<RecordRef> for Part {
    #[inline(always)]
    fn from(record: RecordRef) -> Self {
        Self(record.0)
    }
}

impl Part {
    /// Word `index` of it, for who holds the database. Panics if that is out of [reach](REACH).
    #[inline(always)]
    pub(crate) fn word(self, index: usize) -> &'static AtomicU64 {
        check_reach(index);
        // SAFETY: made by `RecordRef::part`, so it is less than `REACH` words behind the first of twice as many, or by
        // `from`. They last as `RecordRef::lasting_word` says.
        unsafe { &*self.0.as_ptr().add(index) }
    }

    /// The address as a number, to be stored in a word.
    pub(crate) fn to_link(self) -> u64 {
        to_link(self.0)
    }

    /// Turns a stored number back; `None` for 0.
    pub(crate) fn from_link(link: u64) -> Option<Self> {
        from_link(link).map(Self)
    }
}

/// An address as a number.
fn to_link(words: NonNull<AtomicU64>) -> u64 {
    words.as_ptr().expose_provenance() as u64
}

/// A number as an address; none for 0. Who reads beside others may have read it of memory that was used again since, and gets an address of
/// anything: no word of it is accessed before it is known that the number was whole and [`to_link`]'s.
fn from_link(link: u64) -> Option<NonNull<AtomicU64>> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(link as usize))
}

/// Refuses what is out of reach.
#[inline(always)]
fn check_reach(index: usize) {
    if index >= REACH {
        refuse();
    }
}

#[cold]
#[inline(never)]
fn refuse() -> ! {
    panic!("a word that no record reaches");
}

/// The data words of a record from which column values are decoded, at word offset `base`.
#[derive(Clone, Copy)]
pub struct RecordData {
    record: Part,
    base: usize,
}

impl RecordData {
    /// The data of `record`, whose concurrency words take the first `base` words. Where only a part of a row is
    /// there, from data word `start` on, `base` may be less than zero by as much: it wraps.
    #[inline(always)]
    pub(crate) fn new(record: impl Into<Part>, base: usize) -> Self {
        Self { record: record.into(), base }
    }
}

impl Words for RecordData {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        // Relaxed: the protocol's check around the copy orders it (see the module header).
        self.record.word(self.base.wrapping_add(index)).load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
pub(crate) mod tests {
    use super::*;
    use std::sync::OnceLock;

    /// Record `number` of some in a block that is never freed. Nobody borrows the whole block: Miri would look at each of its
    /// words each time.
    pub(crate) fn record(number: u64) -> RecordRef {
        const RECORDS: usize = 1024;
        static FIRST: OnceLock<RecordRef> = OnceLock::new();
        let first = FIRST.get_or_init(|| {
            let words: Box<[AtomicU64]> = (0..RECORDS + BEHIND).map(|_| AtomicU64::new(0)).collect();
            // SAFETY: `BEHIND` words and more, initialised, and leaked.
            unsafe { RecordRef::new(NonNull::from(Box::leak(words)).cast()) }
        });
        // SAFETY: fewer than `RECORDS` words further there are `BEHIND` words and more.
        unsafe { first.behind(number as usize % RECORDS) }
    }

    fn block() -> RecordRef {
        static BLOCK: OnceLock<Vec<AtomicU64>> = OnceLock::new();
        let words = BLOCK.get_or_init(|| (0..BEHIND).map(|_| AtomicU64::new(7)).collect());
        // SAFETY: as many words as are asked for, initialised, in a static.
        unsafe { RecordRef::new(NonNull::from(&words[..]).cast()) }
    }

    /// What Miri is to see: the last words within reach of a block and of its last part are words.
    #[test]
    fn all_within_reach_is_mapped() {
        let record = block();
        let last = record.part(REACH - 1).word(REACH - 1);
        let data = RecordData::new(record, 1usize.wrapping_neg());
        let sum = [record.word(0), record.word(REACH - 1), last].map(|word| word.load(Ordering::Relaxed));
        assert_eq!((sum, data.word(1)), ([7; 3], 7));
    }

    #[test]
    #[should_panic(expected = "no record reaches")]
    fn a_word_out_of_reach_is_refused() {
        block().word(REACH);
    }

    #[test]
    #[should_panic(expected = "no record reaches")]
    fn a_part_out_of_reach_is_refused() {
        block().part(REACH);
    }

    #[test]
    #[should_panic(expected = "no record reaches")]
    fn a_word_before_a_part_is_refused() {
        RecordData::new(block(), 1usize.wrapping_neg()).word(0);
    }
}
