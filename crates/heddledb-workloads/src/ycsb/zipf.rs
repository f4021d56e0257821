//! Zipf-distributed ranks, and a bijection that spreads ranks over keys.
//!
//! The sampler is that of Gray et al., "Quickly generating billion-record synthetic databases"
//! (SIGMOD 1994), as in YCSB and DBx1000: exact for the two most frequent ranks, an approximation
//! by a continuous function for the rest, which makes ranks 3 to 10 too frequent by about one
//! percentage point in all.

use rand::RngExt;
use rand::rngs::SmallRng;

/// Draws ranks 1 to n, rank r with a probability close to r^-theta / zeta_n.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: u64,
    theta: f64,
    zeta_n: f64,
    /// 1 + 2^-theta: below this, z belongs to the first two ranks.
    zeta_2: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// The distribution over `n` ranks with skew `theta`; 0 is uniform. Takes time in proportion
    /// to `n`: about 0.3 s for ten million.
    ///
    /// # Panics
    /// Unless `n` is positive and `theta` is at least 0 and below 1.
    pub fn new(n: u64, theta: f64) -> Self {
        assert!(n > 0, "a Zipf distribution needs a rank");
        assert!((0.0..1.0).contains(&theta), "the sampler is valid for 0 <= theta < 1, not {theta}");
        let zeta_n =
            if theta == 0.0 { n as f64 } else { (1..=n).map(|rank| (rank as f64).powf(-theta)).sum() };
        let zeta_2 = 1.0 + 0.5f64.powf(theta);
        let alpha = 1.0 / (1.0 - theta);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta_2 / zeta_n);
        Self { n, theta, zeta_n, zeta_2, alpha, eta }
    }

    /// The sum of r^-theta over all ranks.
    pub fn zeta(&self) -> f64 {
        self.zeta_n
    }

    /// A rank.
    #[inline]
    pub fn draw(&self, rng: &mut SmallRng) -> u64 {
        if self.theta == 0.0 {
            return rng.random_range(1..=self.n);
        }
        let u: f64 = rng.random();
        let z = u * self.zeta_n;
        if z < 1.0 || self.n == 1 {
            return 1;
        }
        if z < self.zeta_2 {
            return 2;
        }
        let rank = 1 + (self.n as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64;
        rank.min(self.n)
    }
}

/// A bijection of 0..n that puts neighbours far apart: mixing on the next power of two, repeated
/// until the result is below n (less than twice on average).
pub(crate) fn scramble(value: u64, n: u64) -> u64 {
    let bits = (64 - (n - 1).leading_zeros()).max(2);
    let mask = u64::MAX >> (64 - bits);
    let mut x = value;
    loop {
        // Odd multipliers and shifts to the right are bijections on `bits` bits.
        for multiplier in [0x9E37_79B9_7F4A_7C15u64, 0xBF58_476D_1CE4_E5B9] {
            x = x.wrapping_mul(multiplier) & mask;
            x ^= x >> bits.div_ceil(2);
        }
        if x < n {
            return x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    /// Rows, theta, zeta_n, and in percent: hottest key, top 10 keys, top 10 % of the keys.
    /// Computed exactly.
    const TARGETS: [(u64, f64, f64, f64, f64, f64); 9] = [
        (10_000_000, 0.5, 6323.0951, 0.016, 0.08, 31.6),
        (10_000_000, 0.6, 1575.4407, 0.063, 0.28, 39.7),
        (10_000_000, 0.7, 416.8634, 0.240, 0.95, 49.8),
        (10_000_000, 0.8, 121.1568, 0.825, 2.94, 61.7),
        (10_000_000, 0.9, 40.6886, 2.458, 7.92, 74.7),
        (10_000_000, 0.99, 18.0662, 5.535, 16.4, 85.2),
        (1_000_000, 0.8, 74.8071, 1.337, 4.77, 60.9),
        (1_000_000, 0.9, 30.3806, 3.292, 10.6, 73.1),
        (1_000_000, 0.99, 15.3918, 6.497, 19.2, 83.0),
    ];

    /// Tolerances in percentage points: 0.06 for the hottest key (exact in the sampler), 1.2 for
    /// the top 10 (the sampler's own deviation, which is largest in the last line: 20.24 instead
    /// of 19.2), 0.3 for the top tenth.
    #[test]
    fn shares_are_those_of_zipf() {
        for (number, (rows, theta, zeta, hottest, top_ten, top_tenth)) in (0..).zip(TARGETS) {
            let zipf = Zipf::new(rows, theta);
            assert!((zipf.zeta() - zeta).abs() < 1e-4, "zeta {} of {rows} rows at {theta}", zipf.zeta());
            let mut rng = stream(11, number);
            let draws = 1_000_000;
            let (mut first, mut ten, mut tenth) = (0, 0, 0);
            for _ in 0..draws {
                let rank = zipf.draw(&mut rng);
                assert!((1..=rows).contains(&rank));
                first += u32::from(rank == 1);
                ten += u32::from(rank <= 10);
                tenth += u32::from(rank <= rows / 10);
            }
            let percent = |count: u32| 100.0 * f64::from(count) / f64::from(draws);
            let place = format!("{rows} rows, theta {theta}");
            assert!((percent(first) - hottest).abs() < 0.06, "{place}: hottest {}", percent(first));
            assert!((percent(ten) - top_ten).abs() < 1.2, "{place}: top ten {}", percent(ten));
            assert!((percent(tenth) - top_tenth).abs() < 0.3, "{place}: top tenth {}", percent(tenth));
        }
    }

    #[test]
    fn theta_zero_is_uniform() {
        let zipf = Zipf::new(10, 0.0);
        let mut rng = stream(12, 0);
        let mut counts = [0; 11];
        (0..100_000).for_each(|_| counts[zipf.draw(&mut rng) as usize] += 1);
        assert!(counts[1..].iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn few_ranks_are_all_drawn() {
        for n in 1..6 {
            let zipf = Zipf::new(n, 0.9);
            let mut rng = stream(13, n);
            let mut seen = vec![false; n as usize + 1];
            (0..1000).for_each(|_| seen[zipf.draw(&mut rng) as usize] = true);
            assert!(!seen[0] && seen[1..].iter().all(|seen| *seen), "{n}: {seen:?}");
        }
    }

    #[test]
    fn scrambling_is_a_bijection() {
        for n in [1, 2, 3, 4, 10, 1000, 1024, 1025, 65_537] {
            let mut seen = vec![false; n as usize];
            for value in 0..n {
                let image = scramble(value, n) as usize;
                assert!(!std::mem::replace(&mut seen[image], true), "{n}: {image} twice");
            }
        }
        let near = (0..10u64).map(|value| scramble(value, 1_000_000)).collect::<Vec<_>>();
        assert!(near.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 100), "{near:?}");
    }
}
