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
use crate::words::Words;
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
    pub unsafe fn in_place(
        data: NonNull<AtomicU64>,
        words: usize,
        check: NonNull<AtomicU64>,
        was: u64,
    ) -> Self {
        Self { data, words, check, was, life: PhantomData }
    }

    /// A private copy.
    #[inline(always)]
    pub fn copied(words: &'a mut [u64]) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sight_in_place_stands_until_the_word_that_vouches_changes() {
        let record = [const { AtomicU64::new(0) }; 3];
        record[0].store(7, Ordering::Relaxed);
        record[2].store(20, Ordering::Relaxed);
        let first = NonNull::from(&record).cast();
        // SAFETY: word 1 heads two words of the array, which lives as long as the sight; word 0 is another of it.
        let sight = unsafe { Sight::in_place(first.add(1), 2, first, 7) };
        assert_eq!((sight.word(0), sight.word(1)), (0, 20));
        assert!(sight.stands());
        record[1].store(10, Ordering::Relaxed);
        assert_eq!(sight.word(0), 10, "the words are the record's own");
        record[0].store(8, Ordering::Relaxed);
        assert!(!sight.stands());
    }

    #[test]
    fn a_copy_always_stands() {
        let mut words = [1, 2, 3];
        let sight = Sight::copied(&mut words);
        assert_eq!((sight.word(0), sight.word(2)), (1, 3));
        assert!(sight.stands());
        assert_eq!(words, [1, 2, 3]);
    }

    #[test]
    #[should_panic(expected = "within the words that were asked for")]
    fn a_word_behind_the_end_is_not_read() {
        let mut words = [1, 2, 3];
        Sight::copied(&mut words).word(3);
    }

    /// What Miri is to see: a torn row is looked at while another thread writes it.
    #[test]
    fn a_torn_row_is_seen_to_be_torn() {
        let record = [const { AtomicU64::new(0) }; 5];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for version in 1..50 {
                    // As a writer installs: locked, the words, unlocked.
                    record[0].store(version | 1 << 63, Ordering::Relaxed);
                    fence(Ordering::Release);
                    record[1..].iter().for_each(|word| word.store(version, Ordering::Relaxed));
                    record[0].store(version, Ordering::Release);
                }
            });
            for _ in 0..50 {
                let was = record[0].load(Ordering::Acquire);
                let first = NonNull::from(&record).cast();
                // SAFETY: as above.
                let sight = unsafe { Sight::in_place(first.add(1), 4, first, was) };
                let words: [u64; 4] = std::array::from_fn(|at| sight.word(at));
                if was >> 63 == 0 && sight.stands() {
                    assert_eq!(words, [was; 4]);
                }
            }
        });
    }
}
