//! Seeded random numbers: one stream for each pair of a seed and a stream number.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Mixes all bits (the finaliser of SplitMix64); a bijection.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The generator of stream `stream` under `seed`.
pub(crate) fn stream(seed: u64, stream: u64) -> SmallRng {
    SmallRng::seed_from_u64(mix(seed) ^ mix(!stream))
}

/// True in `percent` of 100 draws.
pub(crate) fn chance(rng: &mut SmallRng, percent: u32) -> bool {
    percent != 0 && rng.random_range(0..100) < percent
}

/// Puts values into a random order (Fisher and Yates).
pub(crate) fn shuffle<V>(rng: &mut SmallRng, values: &mut [V]) {
    for at in (1..values.len()).rev() {
        values.swap(at, rng.random_range(0..=at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let first = |seed, number| stream(seed, number).random::<u64>();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(2, 1));
        assert_ne!(first(0, 0), first(0, 1));
    }

    #[test]
    fn chances_are_percentages() {
        let mut rng = stream(7, 0);
        let hits = (0..100_000).filter(|_| chance(&mut rng, 15)).count();
        assert!((14_500..15_500).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !chance(&mut rng, 0)));
        assert!((0..1000).all(|_| chance(&mut rng, 100)));
    }
}
