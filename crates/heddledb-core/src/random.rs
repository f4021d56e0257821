//! Small, fast, seeded randomness for back-off. Not for keys, not for secrets.

/// An xorshift64* generator. Same seed, same sequence.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for `seed`; any value is good.
    pub fn new(seed: u64) -> Self {
        // One SplitMix64 step spreads nearby seeds (worker numbers) apart and avoids the zero state.
        let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((z ^ (z >> 31)) | 1)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}
