//! When calls arrive in an open loop: a schedule that is known before the run, whatever becomes of the calls.
//!
//! **Latency counts from here.** A call that cannot be submitted when it arrives, since its client is late or has as many calls
//! in flight as it may, waits meanwhile, and that wait is a part of its latency. A driver that takes the time when it submits
//! leaves these waits out, and just when the database stalls: coordinated omission.
//!
//! Each client has a schedule of its own. Together they arrive as one would: Poisson processes add up to one, and clients
//! whose gaps are all equal begin one after another.

use heddledb::internals::random::Random;
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

/// Calls that arrive, whatever becomes of those before them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Calls in a second, of all clients together.
    pub rate: f64,
    /// The gaps between them.
    pub spacing: Spacing,
}

/// The gaps between arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// Exponentially distributed, from the seed: independent of each other.
    #[default]
    Poisson,
    /// All equal.
    Fixed,
}

impl Spacing {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Fixed => "fixed",
        }
    }
}

impl fmt::Display for Spacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Spacing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Poisson, Self::Fixed];
        all.into_iter().find(|spacing| spacing.name() == text).ok_or_else(|| "give poisson or fixed".into())
    }
}

/// The arrivals of one client's calls, in nanoseconds since its start, rising and without end.
#[derive(Clone, Debug)]
pub struct Schedule {
    at: f64,
    /// The mean gap.
    gap: f64,
    /// Draws the gaps, where they are not all equal.
    random: Option<Random>,
}

impl Schedule {
    /// That of client number `client` of `clients`.
    pub fn new(arrivals: &Arrivals, client: usize, clients: usize, seed: u64) -> Self {
        let between = 1e9 / arrivals.rate;
        let gap = between * clients as f64;
        match arrivals.spacing {
            Spacing::Poisson => {
                // Seeds that follow each other are for runs that have nothing in common, so clients' lie far apart.
                let seed = seed ^ (client as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17);
                Self { at: 0.0, gap, random: Some(Random::new(seed)) }
            }
            Spacing::Fixed => Self { at: between * client as f64 - gap, gap, random: None },
        }
    }
}

impl Iterator for Schedule {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        self.at += match &mut self.random {
            None => self.gap,
            Some(random) => {
                // Above 0 and up to 1, of which the logarithm is finite.
                let share = ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                -share.ln() * self.gap
            }
        };
        Some(self.at)
    }
}

/// The calls of a schedule that have arrived, and were not submitted yet.
pub struct Due {
    schedule: Schedule,
    /// The first arrival that is still to come.
    next: f64,
    waiting: VecDeque<f64>,
}

impl Due {
    /// None has arrived.
    pub fn new(mut schedule: Schedule) -> Self {
        let next = schedule.next().expect("it has no end");
        Self { schedule, next, waiting: VecDeque::new() }
    }

    /// Takes note of all that has arrived by that time. Returns how many these are.
    pub fn advance(&mut self, now: f64) -> u64 {
        let mut count = 0;
        while self.next <= now {
            self.waiting.push_back(self.next);
            self.next = self.schedule.next().expect("it has no end");
            count += 1;
        }
        count
    }

    /// When the first call arrived that was not submitted yet; it is now.
    pub fn take(&mut self) -> Option<f64> {
        self.waiting.pop_front()
    }

    /// How many have arrived and were not submitted yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When the next one arrives.
    pub fn next(&self) -> f64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POISSON: Arrivals = Arrivals { rate: 10_000.0, spacing: Spacing::Poisson };
    const FIXED: Arrivals = Arrivals { rate: 10_000.0, spacing: Spacing::Fixed };

    fn first(arrivals: &Arrivals, client: usize, seed: u64, count: usize) -> Vec<f64> {
        Schedule::new(arrivals, client, 2, seed).take(count).collect()
    }

    #[test]
    fn a_schedule_follows_from_its_seed_and_its_client() {
        let one = first(&POISSON, 0, 7, 100);
        assert_eq!(one, first(&POISSON, 0, 7, 100));
        assert_ne!(one, first(&POISSON, 1, 7, 100));
        assert_ne!(one, first(&POISSON, 0, 8, 100));
        assert!(one.is_sorted() && one[0] > 0.0);
    }

    /// The mean of exponential gaps is their standard deviation; and together the clients have the rate.
    #[test]
    fn gaps_are_exponential() {
        for client in 0..2 {
            let times = first(&POISSON, client, 3, 100_001);
            let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((mean / 200_000.0 - 1.0).abs() < 0.01, "{mean} ns");
            assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{} and {mean} ns", variance.sqrt());
            let long = gaps.iter().filter(|gap| **gap > 2.0 * mean).count() as f64 / gaps.len() as f64;
            assert!((long - (-2.0f64).exp()).abs() < 0.005, "{long}");
        }
    }

    #[test]
    fn equal_gaps_are_shared_out_in_turn() {
        assert_eq!(first(&FIXED, 0, 1, 3), [0.0, 200_000.0, 400_000.0]);
        assert_eq!(first(&FIXED, 1, 1, 3), [100_000.0, 300_000.0, 500_000.0]);
    }

    #[test]
    fn what_has_arrived_waits_until_it_is_taken() {
        let mut due = Due::new(Schedule::new(&FIXED, 1, 2, 1));
        assert_eq!((due.advance(50_000.0), due.take(), due.next()), (0, None, 100_000.0));
        assert_eq!((due.advance(300_000.0), due.waiting()), (2, 2));
        assert_eq!((due.take(), due.take(), due.take()), (Some(100_000.0), Some(300_000.0), None));
        assert_eq!(due.next(), 500_000.0);
    }
}
