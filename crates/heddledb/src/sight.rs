//! Where a row's words are, and whether they still are what was read.
//!
//! Operations of the engine answer with a [`Sight`]: the typed front decodes columns straight from it and then
//! asks whether it [stands](Sight::stands). A protocol that reads in place gives the record's own words and
//! the version word that vouches for them, so that nothing is copied; otherwise the engine gives a private copy,
//! with a check that always holds. One form for both, so that the code that decodes is compiled once.
//!
//! The only unsafe code of the typed front. The words are atomics, read relaxed: a copy that races with a writer
//! is torn, never undefined (see `record`), and is thrown away because the sight does not stand.

use crate::mutant::{Mutant, planted};
use crate::record::Words;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A row as an operation found it. Valid until the next operation of the worker that it came from.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    /// The row's words, from data word 0 on.
    data: NonNull<AtomicU64>,
    /// How many words may be read.
    words: usize,
    /// The word that vouches for them, and what it was.
    check: NonNull<AtomicU64>,
    was: u64,
    life: PhantomData<&'a AtomicU64>,
}

/// What vouches for a private copy.
static ALWAYS: AtomicU64 = AtomicU64::new(0);

impl<'a> Sight<'a> {
    /// Words in a record, for which `check` vouches as long as it is `was`.
    ///
    /// # Safety
    /// `data` heads `words` initialised atomic words; these and `check` stay mapped during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn in_place(
        data: NonNull<AtomicU64>,
        words: usize,
        check: NonNull<AtomicU64>,
        was: u64,
    ) -> Self {
        Self { data, words, check, was, life: PhantomData }
    }

    /// A private copy.
    #[inline(always)]
    pub(crate) fn copied(words: &'a mut [u64]) -> Self {
        let data = NonNull::from(&mut *words).cast();
        Self { data, words: words.len(), check: NonNull::from(&ALWAYS), was: 0, life: PhantomData }
    }

    /// Whether everything that was read from it belongs to one version. If not, it is to be thrown away, and
    /// the operation asked again ([`Worker::get_again`](crate::seam::Worker::get_again)).
    #[inline(always)]
    pub fn stands(&self) -> bool {
        // Acquire fence, then a relaxed load: had a word come from a later writer, so would its lock or stamp
        // (pairs with the release fence of the write phase).
        fence(Ordering::Acquire);
        // SAFETY: by `in_place`, mapped during `'a`; or it is `ALWAYS`.
        let now = unsafe { self.check.as_ref() }.load(Ordering::Relaxed);
        now == self.was || planted(Mutant::SightNotChecked)
    }
}

impl Words for Sight<'_> {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        assert!(index < self.words, "a column lies within the words that were asked for");
        // SAFETY: one of the `words` words, which are initialised and mapped during `'a` (`in_place`), or a
        // private copy's, which nobody else has during `'a`.
        unsafe { self.data.add(index).as_ref() }.load(Ordering::Relaxed)
    }
}
