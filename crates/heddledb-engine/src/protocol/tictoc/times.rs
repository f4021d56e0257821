//! Where the two times of a column group are kept, `wts` and `rts`: three layouts of one meaning.
//!
//! | layout | words of a group | what for |
//! |---|---|---|
//! | [`TwoWords`] | `tid`, `rts` | the default |
//! | [`WithHistory`] | `tid`, `rts`, the `tid` before | timestamp history (TicToc §5.3) |
//! | [`super::packed::Packed`] | stamp, TS_word | the paper's (§3.6) |
//!
//! A *tid* is a stamp (`crate::stamp`): lock, absent, `wts`.

use super::super::Seal;
use super::super::stamps::seal_stamps;
use crate::record::RecordRef;
use crate::stamp;
use crate::sync::{AtomicU64, Ordering, point};
use crate::table::Layout;
use std::fmt::Debug;

/// A column group of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub(super) record: RecordRef,
    pub(super) group: u8,
}

impl Place {
    #[inline(always)]
    pub(super) fn new(record: RecordRef, group: usize) -> Self {
        Self { record, group: group as u8 }
    }

    #[inline(always)]
    pub(super) fn word(&self, per_group: usize, number: usize) -> &AtomicU64 {
        self.record.word(per_group * self.group as usize + number)
    }
}

/// A layout.
pub trait Times: Debug + Send + Sync + 'static {
    /// Words of a group.
    const WORDS: usize;
    /// Their names.
    const NAMES: &'static [&'static str];
    /// An extension that fails leaves `rts` alone, so what is found there under a lock can be believed.
    const FAILED_EXTENSION_IS_NONE: bool;
    /// An extension may give the version another `wts`.
    const EXTENSION_MAY_MOVE: bool = false;

    /// Whether a group's first word is its tid and nothing else.
    const TID_IS_A_WORD: bool = true;

    /// The group's tid now, and its `rts`, which belongs to it if the tid is the same later. Acquire.
    fn look(at: Place) -> (u64, u64);
    /// The group's tid now. Relaxed.
    fn tid(at: Place) -> u64;
    /// Locks the group, if it has this tid and is not locked. SeqCst: before a load of `rts` that follows.
    fn lock(at: Place, tid: u64) -> bool;
    /// Ends the lock of a group that had this tid.
    fn unlock(at: Place, tid: u64);
    /// The group's `rts`. SeqCst.
    fn rts(at: Place) -> u64;
    /// Raises `rts` to `time` where the group has this tid, and returns the tid and the `rts` that it found.
    /// SeqCst, in this order with the verbs of a writer: either this sees the lock, or the writer sees
    /// `time`.
    fn extend(at: Place, tid: u64, time: u64) -> (u64, u64);
    /// Loads the tid and the `rts`, as [`Self::extend`] would find them, and changes nothing.
    fn found(at: Place) -> (u64, u64);
    /// The data words are about to change. The group is locked.
    fn will_install(at: Place);
    /// Publishes the version of `time`, and unlocks.
    fn install(at: Place, time: u64, present: bool);
    /// The tid of the version before the one with this tid, if it is known and the group has this tid, locked
    /// or not.
    fn predecessor(at: Place, tid: u64) -> Option<u64>;
    /// Whether the layout can represent this time.
    fn holds(time: u64) -> bool;
    /// Makes the words those of a version with this stamp, valid until `rts`; while no other transaction has
    /// the record.
    fn reset(at: Place, stamp: u64, rts: u64);
    /// Seals a record if it is absent and unlocked, `old_enough` holds for each stamp, and then
    /// `has_no_versions` holds.
    fn seal(
        record: RecordRef,
        layout: &'static Layout,
        old_enough: impl Fn(u64) -> bool,
        has_no_versions: impl FnOnce() -> bool,
    ) -> Seal;
}

/// Two words: `tid` and `rts`.
#[derive(Debug)]
pub struct TwoWords;

/// Three: the tid of the version before as well.
#[derive(Debug)]
pub struct WithHistory;

/// Both of them: of the words of a group the first is `tid`, the second `rts`, and a third one is history.
macro_rules! separate {
    ($layout:ident, $name:literal, $words:literal, $names:expr) => {
        impl Times for $layout {
            const WORDS: usize = $words;
            const NAMES: &'static [&'static str] = $names;
            /// It raises `rts` first and looks at the lock then.
            const FAILED_EXTENSION_IS_NONE: bool = false;

            #[inline(always)]
            fn look(at: Place) -> (u64, u64) {
                // Acquire: pairs with the installing store of the version that is about to be copied.
                let tid = at.word($words, 0).load(Ordering::Acquire);
                // Between two equal readings of tid, so it belongs to that version; a later extension only
                // makes it an understatement (TT13).
                (tid, at.word($words, 1).load(Ordering::Acquire))
            }

            #[inline(always)]
            fn tid(at: Place) -> u64 {
                at.word($words, 0).load(Ordering::Relaxed)
            }

            #[inline(always)]
            fn lock(at: Place, tid: u64) -> bool {
                let (word, locked) = (at.word($words, 0), tid | stamp::LOCK);
                word.compare_exchange(tid, locked, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            }

            #[inline(always)]
            fn unlock(at: Place, tid: u64) {
                at.word($words, 0).store(tid, Ordering::Release);
            }

            #[inline(always)]
            fn rts(at: Place) -> u64 {
                at.word($words, 1).load(Ordering::SeqCst)
            }

            #[inline(always)]
            fn extend(at: Place, _: u64, time: u64) -> (u64, u64) {
                let word = at.word($words, 1);
                let mut rts = word.load(Ordering::SeqCst);
                if rts < time {
                    rts = word.fetch_max(time, Ordering::SeqCst);
                }
                (at.word($words, 0).load(Ordering::SeqCst), rts)
            }

            #[inline(always)]
            fn found(at: Place) -> (u64, u64) {
                let rts = at.word($words, 1).load(Ordering::SeqCst);
                (at.word($words, 0).load(Ordering::SeqCst), rts)
            }

            #[inline(always)]
            fn will_install(_: Place) {}

            #[inline(always)]
            fn install(at: Place, time: u64, present: bool) {
                if $words > 2 {
                    let before = Self::tid(at) & !stamp::LOCK;
                    // Relaxed: published with the tid; a reader that looks for it meanwhile sees that it is
                    // not the one.
                    at.word($words, 2).store(before, Ordering::Relaxed);
                }
                // TT16: rts first, so that no reader sees a version whose rts lies below its wts.
                at.word($words, 1).store(time, Ordering::SeqCst);
                point("between rts and tid");
                at.word($words, 0).store(stamp::of(time, present), Ordering::Release);
            }

            #[inline(always)]
            fn predecessor(at: Place, tid: u64) -> Option<u64> {
                if $words == 2 {
                    return None;
                }
                // Under `tid` it is the version before, or, once the lock's holder installs, `tid` itself,
                // which is not before itself. The second look tells that it was read under `tid`.
                let before = at.word($words, 2).load(Ordering::Acquire);
                let same = at.word($words, 0).load(Ordering::SeqCst) & !stamp::LOCK == tid;
                (same && before != tid).then_some(before)
            }

            #[inline(always)]
            fn holds(_: u64) -> bool {
                true
            }

            fn reset(at: Place, stamp: u64, rts: u64) {
                // Relaxed: later readers learn of the record by a release.
                at.word($words, 1).store(rts, Ordering::Relaxed);
                at.word($words, 0).store(stamp, Ordering::Relaxed);
                if $words > 2 {
                    // No version has the tid of a lock.
                    at.word($words, 2).store(stamp::LOCK, Ordering::Relaxed);
                }
            }

            fn seal(
                record: RecordRef,
                layout: &'static Layout,
                old_enough: impl Fn(u64) -> bool,
                has_no_versions: impl FnOnce() -> bool,
            ) -> Seal {
                seal_stamps(record, layout, $words, old_enough, has_no_versions)
            }
        }
    };
}

separate!(TwoWords, "tictoc", 2, &["stamp", "rts"]);
separate!(WithHistory, "tictoc-history", 3, &["stamp", "rts", "history"]);
