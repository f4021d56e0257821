//! Both times in one word, as in TicToc §3.6.
//!
//! ```text
//!   word 0  stamp of the version (`crate::stamp`), locked while its data words change
//!   word 1  TS_word    63     62       61 ...... 47   46 ............. 0
//!                      lock   absent   delta = rts - wts   wts
//! ```
//!
//! One load finds both times and one exchange extends them, so extending needs no second look, and an
//! extension that fails changes nothing.
//!
//! **Times** have 30 bits of epoch (four months at a hundred epochs a second) and 17 of sequence: an epoch
//! has 131,072 times; a transaction that needs a later one waits for the next epoch
//! ([`Conflict::EpochFull`](crate::error::Conflict)).
//!
//! **Delta overflows** where `rts` is to lie more than 32,767 after `wts`. Then `wts` moves up with it, as if
//! an equal value had been written then, and a transaction that has read the version under its old `wts`
//! aborts. With the epoch in the high bits (TT7) this happens to each old version that is read by a writer in
//! a new epoch (TT5); therefore this layout is not the default. A transaction that has read a row twice does
//! not abort itself by it (TT4).
//!
//! **Where we leave the paper.** There `wts` is also the time of the version. Snapshots and the log need the
//! true one after `wts` has moved (TT4), hence word 0. `wts` does not wrap (TT6).

use super::super::Seal;
use super::times::{Place, Times};
use crate::record::RecordRef;
use crate::stamp;
use crate::sync::{AtomicU64, Ordering, fence, point};
use crate::table::Layout;

/// The layout.
#[derive(Debug)]
pub struct Packed;

const WORDS: usize = 2;
const WTS_BITS: u32 = 47;
const WTS: u64 = (1 << WTS_BITS) - 1;
const DELTA_MAX: u64 = (1 << 15) - 1;
const SEQUENCE_BITS: u32 = 17;
const SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;
const STATE: u64 = stamp::LOCK | stamp::ABSENT;

/// A time as the word has it.
#[inline(always)]
fn short(time: u64) -> u64 {
    (stamp::epoch(time) << SEQUENCE_BITS) | (time & SEQUENCE)
}

/// The time.
#[inline(always)]
fn long(short: u64) -> u64 {
    stamp::floor(short >> SEQUENCE_BITS) | (short & SEQUENCE)
}

/// The tid and the `rts` of a word.
#[inline(always)]
fn parts(word: u64) -> (u64, u64) {
    if word == stamp::SEALED {
        return (stamp::SEALED, 0);
    }
    let wts = word & WTS;
    let delta = (word >> WTS_BITS) & DELTA_MAX;
    (long(wts) | (word & STATE), long(wts + delta))
}

/// The word of a version that is valid until `rts`; moves `wts` up where the distance is too long.
#[inline(always)]
fn word_of(tid: u64, rts: u64) -> u64 {
    let (wts, rts) = (short(stamp::time(tid)), short(rts));
    let wts = wts.max(rts.saturating_sub(DELTA_MAX));
    (tid & STATE) | (rts.saturating_sub(wts) << WTS_BITS) | wts
}

fn stamp_word(at: &Place) -> &AtomicU64 {
    at.word(WORDS, 0)
}

#[inline(always)]
fn ts_word(at: &Place) -> &AtomicU64 {
    at.word(WORDS, 1)
}

impl Times for Packed {
    const WORDS: usize = WORDS;
    const NAMES: &'static [&'static str] = &["stamp", "TS_word"];
    const FAILED_EXTENSION_IS_NONE: bool = true;
    const TID_IS_A_WORD: bool = false;
    const EXTENSION_MAY_MOVE: bool = true;

    #[inline(always)]
    fn look(at: Place) -> (u64, u64) {
        // Acquire: pairs with the installing store of the version that is about to be copied.
        parts(ts_word(&at).load(Ordering::Acquire))
    }

    #[inline(always)]
    fn tid(at: Place) -> u64 {
        parts(ts_word(&at).load(Ordering::Relaxed)).0
    }

    #[inline]
    fn lock(at: Place, tid: u64) -> bool {
        loop {
            let word = ts_word(&at).load(Ordering::Relaxed);
            if parts(word).0 != tid {
                return false;
            }
            let locked = word | stamp::LOCK;
            if ts_word(&at).compare_exchange(word, locked, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }

    #[inline(always)]
    fn unlock(at: Place, _: u64) {
        // Only the holder changes a locked word.
        let word = ts_word(&at).load(Ordering::Relaxed);
        ts_word(&at).store(word & !stamp::LOCK, Ordering::Release);
    }

    #[inline(always)]
    fn rts(at: Place) -> u64 {
        parts(ts_word(&at).load(Ordering::SeqCst)).1
    }

    #[inline]
    fn extend(at: Place, tid: u64, time: u64) -> (u64, u64) {
        loop {
            // TT2: the value to raise to is computed anew from each word that is loaded.
            let word = ts_word(&at).load(Ordering::SeqCst);
            let (found, rts) = parts(word);
            if found != tid || rts >= time {
                return (found, rts);
            }
            let raised = word_of(tid, time);
            if ts_word(&at).compare_exchange(word, raised, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return (tid, time);
            }
        }
    }

    #[inline(always)]
    fn found(at: Place) -> (u64, u64) {
        parts(ts_word(&at).load(Ordering::SeqCst))
    }

    #[inline(always)]
    fn will_install(at: Place) {
        // A snapshot's reader looks at the stamp alone.
        let word = stamp_word(&at);
        word.store(word.load(Ordering::Relaxed) | stamp::LOCK, Ordering::Relaxed);
        // Pairs with that reader's acquire fence: one that has copied a word stored after it also sees the
        // lock, or the new stamp.
        fence(Ordering::Release);
    }

    #[inline(always)]
    fn install(at: Place, time: u64, present: bool) {
        let tid = stamp::of(time, present);
        stamp_word(&at).store(tid, Ordering::Release);
        point("between stamp and TS_word");
        // SeqCst: after the extensions of the version before.
        ts_word(&at).store(word_of(tid, time), Ordering::SeqCst);
    }

    #[inline(always)]
    fn predecessor(_: Place, _: u64) -> Option<u64> {
        None
    }

    #[inline(always)]
    fn holds(time: u64) -> bool {
        long(short(time)) == time && short(time) <= WTS
    }

    fn reset(at: Place, stamp: u64, rts: u64) {
        // Relaxed: later readers learn of the record by a release.
        stamp_word(&at).store(stamp, Ordering::Relaxed);
        // A stamp of another protocol may be finer than a word can say; then the version begins a little
        // later here.
        let up = |time: u64| if Self::holds(time) { time } else { stamp::floor(stamp::epoch(time) + 1) };
        let tid = up(stamp::time(stamp)) | (stamp & STATE);
        ts_word(&at).store(word_of(tid, up(rts.max(stamp::time(tid)))), Ordering::Relaxed);
    }

    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        old_enough: impl Fn(u64) -> bool,
        has_no_versions: impl FnOnce() -> bool,
    ) -> Seal {
        let places = || (0..layout.groups.len()).map(|group| Place::new(record, group));
        let unlock = |groups: usize| places().take(groups).for_each(|at| Self::unlock(at, 0));
        for at in places() {
            let tid = Self::tid(at);
            let free = !stamp::is_locked(tid) && stamp::is_absent(tid) && old_enough(tid);
            if free && Self::lock(at, tid) {
                continue;
            }
            unlock(at.group.into());
            return if stamp::is_absent(tid) { Seal::Busy } else { Seal::Live };
        }
        if !has_no_versions() {
            unlock(layout.groups.len());
            return Seal::Busy;
        }
        for at in places() {
            stamp_word(&at).store(stamp::SEALED, Ordering::Release);
            ts_word(&at).store(stamp::SEALED, Ordering::Release);
        }
        Seal::Sealed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_both_times() {
        let tid = stamp::of(stamp::floor(9) + 70, false);
        assert_eq!(parts(word_of(tid, stamp::time(tid))), (tid, stamp::time(tid)));
        assert_eq!(parts(word_of(tid, stamp::time(tid) + 5)), (tid, stamp::time(tid) + 5));
        assert_eq!(parts(word_of(tid | stamp::LOCK, stamp::floor(9) + 71)).0, tid | stamp::LOCK);
        assert_eq!(parts(stamp::SEALED), (stamp::SEALED, 0));
    }

    #[test]
    fn delta_overflows_into_wts() {
        let tid = stamp::of(stamp::floor(9) + 70, true);
        let within = stamp::floor(9) + 70 + DELTA_MAX;
        assert_eq!(parts(word_of(tid, within)), (tid, within));
        assert_eq!(parts(word_of(tid, within + 1)), (tid + 1, within + 1));
        let next = stamp::floor(10);
        let (moved, rts) = parts(word_of(tid, next));
        assert_eq!(rts, next);
        assert!(stamp::time(moved) > stamp::time(tid) && stamp::time(moved) < next);
    }

    #[test]
    fn times_that_do_not_fit_are_known() {
        assert!(Packed::holds(stamp::floor(3) + SEQUENCE));
        assert!(!Packed::holds(stamp::floor(3) + SEQUENCE + 1));
        assert!(!Packed::holds(stamp::floor(1 << 30)));
    }
}
