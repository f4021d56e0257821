//! Where the hash index looks for a key: the hash, its bucket, the bucket's memory.

/// The bucket of a hash among `buckets`.
#[inline(always)]
pub(super) fn place(hash: u64, buckets: usize) -> usize {
    let level = buckets.ilog2();
    let index = hash as usize & ((2 << level) - 1);
    if index < buckets { index } else { index & ((1 << level) - 1) }
}

/// The segment of a head, and its place there.
#[inline(always)]
pub(super) fn locate(index: usize, base: u32) -> (usize, usize) {
    if index >> base == 0 {
        return (0, index);
    }
    let top = index.ilog2();
    ((top - base + 1) as usize, index - (1 << top))
}

/// Folded multiplication of each word: every bit of the key reaches the low bits, by which buckets
/// are chosen, whether keys count up in the low bits or pack several columns from the high ones.
/// The golden ratio spreads such lattices as evenly as chance (tested below); other good-looking
/// odd numbers leave half of the buckets empty for some shifts.
#[inline(always)]
pub(super) fn hash<const N: usize>(key: &[u64; N]) -> u64 {
    // Digits of pi: no key hashes to itself.
    let mut state = 0x243F_6A88_85A3_08D3_u64;
    for word in key {
        let product = u128::from(state ^ word) * u128::from(0x9E37_79B9_7F4A_7C15_u64);
        state = (product as u64) ^ (product >> 64) as u64;
    }
    state ^ (state >> 32)
}
