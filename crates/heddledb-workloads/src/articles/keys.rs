//! How articles and users are chosen.

use crate::ycsb::zipf::{Zipf, scramble};
use heddledb::{Misuse, Result};
use rand::RngExt;
use rand::rngs::SmallRng;
use std::str::FromStr;

/// Which of the articles, and of the users, a transaction is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// All equally likely.
    Uniform,
    /// Zipf-distributed with this exponent, from 0 to below 1. Ranks are spread over the keys, so the comments of
    /// frequent articles are not neighbours.
    Zipf(f64),
    /// As in H-Store: of `n` the one with number `n * y^20`, rounded, for a `y` uniform in [0, 1). Of 100,000 articles
    /// the first one gets 54 % of the accesses, and of 200 users the first one 74 %.
    PowerLaw,
}

impl Keys {
    /// The exponent unless told.
    const THETA: f64 = 0.9;

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf(_) => "zipf",
            Self::PowerLaw => "powerlaw",
        }
    }

    /// The same with that exponent.
    ///
    /// # Errors
    /// [`Misuse::Option`] where there is none.
    pub fn with_theta(self, theta: f64) -> Result<Self> {
        match self {
            Self::Zipf(_) => Ok(Self::Zipf(theta)),
            _ => Err(Misuse::Option(
                "only keys by zipf have an exponent: give --keys zipf with --theta".into(),
            )
            .into()),
        }
    }
}

impl FromStr for Keys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Uniform, Self::Zipf(Self::THETA), Self::PowerLaw]
            .into_iter()
            .find(|keys| keys.name() == text)
            .ok_or_else(|| format!("`{text}` is no way to choose keys; give uniform, zipf or powerlaw"))
    }
}

/// Draws numbers from 0 on.
#[derive(Debug)]
pub(super) enum Chooser {
    /// Any below.
    Uniform(u32),
    /// Ranks.
    Zipf(Zipf, u32),
    /// By a power.
    PowerLaw(u32),
}

impl Chooser {
    /// Draws numbers below `count`. By zipf it takes time in proportion to that.
    pub fn new(keys: Keys, count: u32) -> Self {
        match keys {
            Keys::Uniform => Self::Uniform(count),
            Keys::Zipf(theta) => Self::Zipf(Zipf::new(u64::from(count), theta), count),
            Keys::PowerLaw => Self::PowerLaw(count),
        }
    }

    pub fn draw(&self, rng: &mut SmallRng) -> u32 {
        match self {
            Self::Uniform(count) => rng.random_range(0..*count),
            Self::Zipf(zipf, count) => scramble(zipf.draw(rng) - 1, u64::from(*count)) as u32,
            Self::PowerLaw(count) => {
                let even: f64 = rng.random();
                let number = (f64::from(*count) * even.powi(20)).round() as u32;
                number.min(count - 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    /// In how many of 100,000 draws each number came.
    fn draws(keys: Keys, count: u32) -> Vec<u32> {
        let (chooser, mut rng) = (Chooser::new(keys, count), stream(21, 0));
        let mut counts = vec![0; count as usize];
        (0..100_000).for_each(|_| counts[chooser.draw(&mut rng) as usize] += 1);
        counts
    }

    #[test]
    fn every_key_is_as_likely_if_asked() {
        let counts = draws(Keys::Uniform, 10);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    /// The hottest of 100,000 keys at 0.9 has one over zeta, 4.5 %.
    #[test]
    fn zipf_spreads_what_is_frequent() {
        let counts = draws(Keys::Zipf(0.9), 100_000);
        let mut hottest: Vec<usize> = (0..counts.len()).collect();
        hottest.sort_unstable_by_key(|key| std::cmp::Reverse(counts[*key]));
        assert!((4_300..4_800).contains(&counts[hottest[0]]), "{}", counts[hottest[0]]);
        assert!(hottest[0].abs_diff(hottest[1]) > 10, "{:?}", &hottest[..2]);
    }

    #[test]
    fn the_power_law_is_that_of_h_store() {
        let articles = draws(Keys::PowerLaw, 100_000);
        assert!((53_500..55_500).contains(&articles[0]), "{}", articles[0]);
        let users = draws(Keys::PowerLaw, 200);
        assert!((73_000..75_500).contains(&users[0]), "{}", users[0]);
        assert!(users[199] > 0);
        assert_eq!(draws(Keys::PowerLaw, 1), [100_000]);
    }

    #[test]
    fn keys_read_as_they_print() {
        for keys in [Keys::Uniform, Keys::Zipf(Keys::THETA), Keys::PowerLaw] {
            assert_eq!(keys.name().parse(), Ok(keys));
        }
        assert!("pareto".parse::<Keys>().unwrap_err().contains("give uniform, zipf or powerlaw"));
        assert_eq!(Keys::Zipf(0.9).with_theta(0.5).unwrap(), Keys::Zipf(0.5));
        assert!(Keys::Uniform.with_theta(0.5).is_err());
    }
}
