//! How many calls a batch takes (DGCC §4.1.2, §4.4).

use crate::kind::Batching;

/// The bounds of a size that adapts itself.
const LEAST: usize = 32;
const MOST: usize = 20_000;

/// A batch may be so much slower than the one before, and still the next is larger: most of that is chance.
const TOLERATED: f64 = 0.9;

/// So many batches are queued before they get larger. If all calls that are under way were in one batch, nothing could be built while it
/// is executed.
const QUEUED: usize = 3;

/// The size of the next batch, and what it is adapted to.
#[derive(Debug)]
pub(super) struct Pace {
    size: usize,
    adapts: bool,
    /// For how long a batch may take from when it is cut to its end, in nanoseconds.
    target: u64,
    /// When the last batch ended, and how many calls it had for each nanosecond since the one before.
    ended: u64,
    rate: f64,
}

impl Pace {
    pub fn new(batching: Batching) -> Self {
        let target = u64::from(batching.target_us) * 1_000;
        let size = batching.size.map_or(LEAST, |size| size.get() as usize);
        Self { size, adapts: batching.size.is_none(), target, ended: 0, rate: 0.0 }
    }

    /// The most calls of the next batch.
    pub fn size(&self) -> usize {
        self.size
    }

    /// A batch of so many calls has ended, which was cut at that time; so many are queued.
    ///
    /// Halved where that took too long; doubled while enough are queued that others can be built meanwhile, unless the larger
    /// batches were slower. How long calls were queued before says nothing: where more come than can be executed, small batches only
    /// make the queue longer.
    pub fn ended(&mut self, calls: usize, cut: u64, now: u64, queued: usize) {
        if !self.adapts {
            return;
        }
        let rate = calls as f64 / now.saturating_sub(self.ended).max(1) as f64;
        if now.saturating_sub(cut) > self.target {
            self.size = (self.size / 2).max(LEAST);
        } else if queued >= QUEUED * self.size && calls >= self.size && rate >= self.rate * TOLERATED {
            self.size = (self.size * 2).min(MOST);
        }
        (self.ended, self.rate) = (now, rate);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn grows_while_that_is_faster_and_shrinks_where_it_takes_long() {
        let mut pace = Pace::new(Batching { size: None, target_us: 1_000, ..Batching::GRAPH });
        assert_eq!(pace.size(), 32);
        pace.ended(32, 0, 10_000, 96);
        assert_eq!(pace.size(), 64);
        pace.ended(40, 10_000, 20_000, 1_000);
        assert_eq!(pace.size(), 64, "it was not full");
        pace.ended(64, 20_000, 30_000, 191);
        assert_eq!(pace.size(), 64, "too few are queued");
        pace.ended(64, 30_000, 40_000, 192);
        assert_eq!(pace.size(), 128);
        pace.ended(128, 40_000, 90_000, 1_000);
        assert_eq!(pace.size(), 128, "the larger one was slower");
        pace.ended(128, 90_000, 1_100_000, 1_000);
        assert_eq!(pace.size(), 64, "it has taken more than a millisecond");
        (0..9).for_each(|at| pace.ended(9, 0, 9_000_000 + at, 1_000));
        assert_eq!(pace.size(), 32);
    }

    #[test]
    fn a_fixed_size_stays() {
        let mut pace = Pace::new(Batching { size: std::num::NonZeroU32::new(7), ..Batching::GRAPH });
        pace.ended(7, 0, 1 << 40, 1_000);
        pace.ended(7, 1 << 40, 1 << 40, 1_000);
        assert_eq!(pace.size(), 7);
    }
}
