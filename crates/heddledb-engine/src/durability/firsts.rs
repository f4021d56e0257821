//! What happens to a relation for the first time in a life of the log: that its rows are scanned by so many leading words of their
//! keys, and that a column group is written. It decides what calls must say of themselves in a log of commands.
//!
//! - Who scans keys that have `n` leading words in common says so by a cell of these words; whoever writes a row whose key begins
//!   with them must say so too, or the two are not ordered when the log is replayed. But a writer cannot know all lengths by which
//!   somebody will scan one day.
//! - Who reads a column group that nobody writes need not say so, and most of what calls read is of this kind. But a reader cannot know
//!   what will be written one day.
//!
//! So a first time is *announced* before its commit draws its time, and others look after they have drawn theirs: whoever is later than
//! that commit has seen it. Whoever is earlier may not have, and so that commit is replayed *alone*: behind all that is
//! earlier, and before all that is later. When it has drawn its time, it makes what it announced *known*; who finds that it is known,
//! before it draws a time, is later than a commit that is replayed alone, and need not be.
//!
//! The first call of a life is alone for the same reason: what earlier lives said, they said of themselves.

use crate::sync::{AtomicU32, Ordering};
use crossbeam_utils::CachePadded;

/// Sixteen things that may happen for the first time: announced, and known above [`KNOWN`].
#[derive(Debug, Default)]
pub(super) struct Bits(AtomicU32);

const KNOWN: u32 = 16;

impl Bits {
    /// These are about to happen. True if all of them are known to have happened.
    pub fn announce(&self, set: u32) -> bool {
        // Acquire: pairs with `make_known`, whose caller has drawn its time; ours is drawn later.
        let is_known = self.0.load(Ordering::Acquire) >> KNOWN & set == set;
        if !is_known {
            // Relaxed: the time is drawn after it, with a release that whoever draws a later time acquires.
            self.0.fetch_or(set, Ordering::Relaxed);
        }
        is_known
    }

    /// Who has announced these has drawn its time.
    pub fn make_known(&self, set: u32) {
        // Release: pairs with `announce`.
        self.0.fetch_or(set << KNOWN, Ordering::Release);
    }

    /// What was announced by whoever has drawn an earlier time than the caller, if that has drawn one, and perhaps more.
    pub fn announced(&self) -> u32 {
        // Relaxed: see `announce`.
        self.0.load(Ordering::Relaxed) & ((1 << KNOWN) - 1)
    }
}

/// The first times of a relation.
#[derive(Debug, Default)]
pub(super) struct Firsts(CachePadded<Both>);

#[derive(Debug, Default)]
struct Both {
    lengths: Bits,
    groups: Bits,
}

impl Firsts {
    /// By how many leading words it is scanned.
    pub fn lengths(&self) -> &Bits {
        &self.0.lengths
    }

    /// Which column groups are written.
    pub fn groups(&self) -> &Bits {
        &self.0.groups
    }
}

#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::models::explore;
    use crate::sync::{AtomicU64, thread};
    use std::sync::Arc;

    /// Two announce the same and draw times, and one looks after it has drawn its own: whoever is earlier than that has been seen, and
    /// whoever is later and is not alone has one before it that is, and is later, too.
    #[test]
    fn what_is_not_seen_is_behind_one_that_is_alone() {
        explore(|| {
            let (bits, clock) = (Arc::new(Bits::default()), Arc::new(AtomicU64::new(1)));
            let draw = |clock: &AtomicU64| clock.fetch_add(1, Ordering::SeqCst);
            let commit = move |bits: &Bits, clock: &AtomicU64| {
                let is_alone = !bits.announce(1);
                let time = draw(clock);
                if is_alone {
                    bits.make_known(1);
                }
                (time, is_alone)
            };
            let threads = [(); 2].map(|()| {
                let (bits, clock) = (Arc::clone(&bits), Arc::clone(&clock));
                thread::spawn(move || commit(&bits, &clock))
            });
            let looked = draw(&clock);
            let seen = bits.announced() & 1 == 1;
            let commits = threads.map(|thread| thread.join().expect("it does not panic"));
            for (time, is_alone) in commits {
                assert!(seen || time > looked, "who is earlier is not seen");
                let between = |(other, alone): &(u64, bool)| *alone && looked < *other && *other < time;
                assert!(seen || is_alone || commits.iter().any(between), "nothing is between them");
            }
        });
    }
}
