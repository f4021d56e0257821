//! How much room a region of hardware transactional memory has, by trial: which share of regions commit that read or write so many
//! lines, one after another or at random places.

#![allow(unsafe_code)]

use super::{AtomicU64, LINE, Ordering, Random, htm, shared_memory};
use crate::metrics::{RegionMetrics, RegionSource};
use htm::Abort;

/// Words of a line.
const WORDS: usize = LINE / size_of::<u64>();
/// Lines of the array: 4 MiB.
const LINES: usize = 1 << 16;

/// A trial: regions that each touch so many lines of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Each line is written, and otherwise read.
    pub writes: bool,
    /// Each line tells which one is next, at random, and otherwise it is the one behind it.
    pub random: bool,
    /// How many lines a region touches, up to [`Trial::LINES_MAX`].
    pub lines: usize,
    /// How many regions are begun.
    pub regions: u32,
    /// Of the places at random.
    pub seed: u64,
}

impl Trial {
    /// All lines of the array.
    pub const LINES_MAX: usize = LINES;

    /// Begins the regions and counts how they end; none is begun where there are none.
    ///
    /// # Panics
    /// If there are more lines than the array has.
    pub fn run(self) -> RegionMetrics {
        assert!(self.lines <= LINES, "{} lines are more than {LINES}", self.lines);
        let mut metrics = RegionMetrics::default();
        if !htm::is_available() {
            return metrics;
        }
        metrics.source = if htm::MODELLED { RegionSource::Model } else { RegionSource::Processor };
        let mut random = Random::new(self.seed);
        let words = self.array(&mut random);
        for _ in 0..self.regions {
            let start = if self.random { random.below(LINES as u64) as usize } else { 0 };
            // No page and no line is touched for the first time in the region.
            self.touch(&words, start);
            // SAFETY: regions are available, this thread is in none, and `finish` follows. What is stored to in it is in
            // `words`, which outlives it.
            let ended = match unsafe { htm::begin() } {
                Ok(()) => htm::finish(|| self.touch(&words, start)),
                Err(why) => Err(why),
            };
            match ended {
                Ok(()) => metrics.committed += 1,
                Err(Abort::Conflict) => metrics.conflicts += 1,
                Err(Abort::Capacity) => metrics.capacity += 1,
                Err(Abort::Explicit(_)) => metrics.explicit += 1,
                Err(Abort::Interrupt) => metrics.interrupted += 1,
                Err(Abort::Unfriendly) => metrics.unfriendly += 1,
            }
        }
        metrics
    }

    /// An array whose lines are one ring: the first word of each is the number of the next one.
    fn array(self, random: &mut Random) -> Vec<AtomicU64> {
        let mut order: Vec<u64> = (0..LINES as u64).collect();
        if self.random {
            for place in (1..LINES).rev() {
                order.swap(place, random.below(place as u64 + 1) as usize);
            }
        }
        let mut next = vec![0; LINES];
        for (place, line) in order.iter().enumerate() {
            next[*line as usize] = order[(place + 1) % LINES];
        }
        let word = |at: usize| if at.is_multiple_of(WORDS) { next[at / WORDS] } else { 0 };
        let words: Vec<AtomicU64> = (0..LINES * WORDS).map(|at| AtomicU64::new(word(at))).collect();
        shared_memory(words.as_ptr().cast(), size_of_val(&words[..]));
        words
    }

    fn touch(self, words: &[AtomicU64], start: usize) {
        let mut line = start;
        for _ in 0..self.lines {
            // Relaxed: nobody else has them.
            let next = words[line * WORDS].load(Ordering::Relaxed);
            if self.writes {
                words[line * WORDS + 1].store(next, Ordering::Relaxed);
            }
            line = next as usize;
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle", feature = "simulation"))))]
mod tests {
    use super::*;

    #[test]
    fn small_regions_commit_where_there_are_any() {
        let trial = Trial { writes: true, random: false, lines: 4, regions: 1_000, seed: 1 };
        let metrics = trial.run();
        if htm::is_available() {
            assert_eq!(metrics.committed + metrics.aborted(), 1_000);
            assert!(metrics.committed >= 500, "{metrics:?}");
        } else {
            assert_eq!(metrics, RegionMetrics::default());
        }
    }

    #[test]
    fn the_lines_are_one_ring() {
        for random in [false, true] {
            let trial = Trial { writes: false, random, lines: 0, regions: 0, seed: 7 };
            let words = trial.array(&mut Random::new(7));
            let (mut line, mut steps) = (0, 0);
            loop {
                line = words[line * WORDS].load(Ordering::Relaxed) as usize;
                steps += 1;
                if line == 0 {
                    break;
                }
            }
            assert_eq!(steps, LINES);
        }
    }
}
