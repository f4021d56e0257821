//! Keys: typed outside, fixed-size big-endian words inside.
//!
//! A key is encoded into `N` 64-bit words whose lexicographic order is the key's order, so that an
//! index compares plain numbers and never calls back into user types. The parts of a tuple are
//! packed byte by byte: `(u16, u8, u32)` takes 7 bytes, so one word, and a B+tree over it compares
//! one number per step.

use super::column_value::NANOSECONDS_MAX;
use super::text::Text;
use std::cmp::Reverse;
use std::fmt::Debug;
use std::time::Duration;

/// The words of an encoded key, `[u64; N]`.
pub trait KeyWords: Copy + Ord + Debug + Send + Sync + 'static {
    /// All bits zero: no key is smaller.
    const MIN: Self;
    /// All bits one: no key is larger.
    const MAX: Self;
    /// The words, most significant first.
    fn words(&self) -> &[u64];
    /// The same, to write.
    fn words_mut(&mut self) -> &mut [u64];
    /// The next larger key, `None` after the last.
    fn successor(self) -> Option<Self>;
    /// The next smaller key, `None` before the first.
    fn predecessor(self) -> Option<Self>;
}

impl<const N: usize> KeyWords for [u64; N] {
    const MIN: Self = [0; N];
    const MAX: Self = [u64::MAX; N];

    #[inline(always)]
    fn words(&self) -> &[u64] {
        self
    }

    #[inline(always)]
    fn words_mut(&mut self) -> &mut [u64] {
        self
    }

    fn successor(mut self) -> Option<Self> {
        increment(&mut self).then_some(self)
    }

    fn predecessor(mut self) -> Option<Self> {
        decrement(&mut self).then_some(self)
    }
}

/// Steps to the next larger key; `false` if there is none.
pub(crate) fn increment(words: &mut [u64]) -> bool {
    for word in words.iter_mut().rev() {
        *word = word.wrapping_add(1);
        if *word != 0 {
            return true;
        }
    }
    false
}

/// Steps to the next smaller key; `false` if there is none.
pub(crate) fn decrement(words: &mut [u64]) -> bool {
    for word in words.iter_mut().rev() {
        let borrow = *word == 0;
        *word = word.wrapping_sub(1);
        if !borrow {
            return true;
        }
    }
    false
}

/// Words that hold `bytes` bytes of key.
pub const fn key_words(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

/// Packs big-endian bytes into key words from the most significant end.
pub struct KeyWriter<'a> {
    words: &'a mut [u64],
    bytes: usize,
}

impl<'a> KeyWriter<'a> {
    /// A writer that begins at the first byte of `words`, which are zero.
    #[inline(always)]
    pub(crate) fn new(words: &'a mut [u64]) -> Self {
        Self { words, bytes: 0 }
    }

    /// Appends the low `bytes` (1 to 8) bytes of `value`.
    #[inline(always)]
    pub fn push(&mut self, value: u64, bytes: usize) {
        let (word, used) = (self.bytes / 8, self.bytes % 8);
        let end = used + bytes;
        if end <= 8 {
            self.words[word] |= value << ((8 - end) * 8);
        } else {
            self.words[word] |= value >> ((end - 8) * 8);
            self.words[word + 1] |= value << ((16 - end) * 8);
        }
        self.bytes += bytes;
    }

    /// Appends `bytes` zeros.
    #[inline(always)]
    pub fn push_zeros(&mut self, bytes: usize) {
        self.bytes += bytes;
    }
}

/// Takes big-endian bytes from key words, in the order in which they were pushed.
pub struct KeyReader<'a> {
    words: &'a [u64],
    bytes: usize,
}

impl<'a> KeyReader<'a> {
    /// A reader that begins at the first byte of `words`.
    #[inline(always)]
    pub(crate) fn new(words: &'a [u64]) -> Self {
        Self { words, bytes: 0 }
    }

    /// The next `bytes` (1 to 8) bytes as a number.
    #[inline(always)]
    pub fn pull(&mut self, bytes: usize) -> u64 {
        let (word, used) = (self.bytes / 8, self.bytes % 8);
        let end = used + bytes;
        let raw = if end <= 8 {
            self.words[word] >> ((8 - end) * 8)
        } else {
            (self.words[word] << ((end - 8) * 8)) | (self.words[word + 1] >> ((16 - end) * 8))
        };
        self.bytes += bytes;
        if bytes == 8 { raw } else { raw & ((1 << (bytes * 8)) - 1) }
    }

    /// Passes over `bytes` bytes.
    #[inline(always)]
    pub fn skip(&mut self, bytes: usize) {
        self.bytes += bytes;
    }
}

/// A type that can be a key or a part of one.
///
/// Its encoding must be injective, of fixed length, and must order like the type does. `#[derive(Key)]` makes a key of an
/// enum without fields and of a struct around a key, beside [`#[derive(ColumnValue)]`](super::ColumnValue): the enum in the
/// order of its numbers, the struct in that of what is in it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key, or a part of one",
    label = "no key type",
    note = "keys are integers, `bool`, `Text<N>`, `[u8; N]`, `Duration`, and `Option`s and tuples of these; for a `String` or a `Vec<u8>` state its longest length, as by `#[key(max = 40)]` or `index(ByName(name(max = 40)))`, for floating point numbers an integer of a small unit; an enum or a newtype of your own derives `Key`"
)]
pub trait Key: Copy + Debug + Send + Sync + 'static {
    /// Bytes of the encoding.
    const BYTES: usize;
    /// Appends the encoding.
    fn write(&self, out: &mut KeyWriter<'_>);
    /// Reads it back.
    fn read(input: &mut KeyReader<'_>) -> Self;
    /// Which part of the key is a value that is longer than there is room for, as only an [`UpTo`](super::UpTo) can be. Such a
    /// key is refused by every operation.
    #[inline(always)]
    fn excess(&self) -> Option<Excess> {
        None
    }
}

/// A part of a key that is longer than there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// The part, counted from 0.
    pub part: usize,
    /// How many bytes it has.
    pub bytes: usize,
}

/// Encodes a key.
#[inline(always)]
pub fn encode_key<K: Key, W: KeyWords>(key: &K) -> W {
    let mut words = W::MIN;
    key.write(&mut KeyWriter::new(words.words_mut()));
    words
}

/// Decodes a key from its words.
#[inline(always)]
pub fn decode_key<K: Key>(words: &[u64]) -> K {
    K::read(&mut KeyReader::new(words))
}

/// The smallest and the largest encoding that starts with `prefix`.
pub(crate) fn prefix_bounds<P: Key, W: KeyWords>(prefix: &P) -> (W, W) {
    let low: W = encode_key(prefix);
    let mut high = low;
    fill_after(high.words_mut(), P::BYTES);
    (low, high)
}

/// Sets all bits behind the first `prefix` bytes.
#[inline(always)]
pub(crate) fn fill_after(words: &mut [u64], prefix: usize) {
    for (index, word) in words.iter_mut().enumerate() {
        *word |= match prefix.saturating_sub(index * 8) {
            0 => u64::MAX,
            bytes @ 1..8 => u64::MAX >> (bytes * 8),
            _ => 0,
        };
    }
}

macro_rules! unsigned_keys {
    ($($t:ty)*) => {$(
        impl Key for $t {
            const BYTES: usize = size_of::<$t>();
            #[inline(always)]
            fn write(&self, out: &mut KeyWriter<'_>) {
                out.push(u64::from(*self), Self::BYTES);
            }
            #[inline(always)]
            fn read(input: &mut KeyReader<'_>) -> Self {
                input.pull(Self::BYTES) as $t
            }
        }
    )*};
}
unsigned_keys!(u8 u16 u32 u64);

macro_rules! signed_keys {
    ($($t:ty as $u:ty)*) => {$(
        impl Key for $t {
            const BYTES: usize = size_of::<$t>();
            #[inline(always)]
            fn write(&self, out: &mut KeyWriter<'_>) {
                // The flipped sign bit makes negative numbers sort below positive ones.
                out.push(u64::from((*self as $u) ^ (1 << (<$u>::BITS - 1))), Self::BYTES);
            }
            #[inline(always)]
            fn read(input: &mut KeyReader<'_>) -> Self {
                ((input.pull(Self::BYTES) as $u) ^ (1 << (<$u>::BITS - 1))) as $t
            }
        }
    )*};
}
signed_keys!(i8 as u8 i16 as u16 i32 as u32 i64 as u64);

impl Key for u128 {
    const BYTES: usize = 16;
    #[inline(always)]
    fn write(&self, out: &mut KeyWriter<'_>) {
        out.push((*self >> 64) as u64, 8);
        out.push(*self as u64, 8);
    }
    #[inline(always)]
    fn read(input: &mut KeyReader<'_>) -> Self {
        u128::from(input.pull(8)) << 64 | u128::from(input.pull(8))
    }
}

impl Key for i128 {
    const BYTES: usize = 16;
    #[inline(always)]
    fn write(&self, out: &mut KeyWriter<'_>) {
        // As for the shorter ones.
        ((*self as u128) ^ (1 << 127)).write(out);
    }
    #[inline(always)]
    fn read(input: &mut KeyReader<'_>) -> Self {
        (u128::read(input) ^ (1 << 127)) as Self
    }
}

impl Key for Duration {
    const BYTES: usize = 12;
    fn write(&self, out: &mut KeyWriter<'_>) {
        (self.as_secs(), self.subsec_nanos()).write(out);
    }
    fn read(input: &mut KeyReader<'_>) -> Self {
        let (seconds, nanoseconds) = <(u64, u32)>::read(input);
        Self::new(seconds, nanoseconds.min(NANOSECONDS_MAX))
    }
}

/// `None` comes before all values. In a unique index it is a value like the others: one row can have it.
impl<K: Key> Key for Option<K> {
    const BYTES: usize = 1 + K::BYTES;
    #[inline(always)]
    fn write(&self, out: &mut KeyWriter<'_>) {
        self.is_some().write(out);
        match self {
            Some(key) => key.write(out),
            None => out.push_zeros(K::BYTES),
        }
    }
    #[inline(always)]
    fn read(input: &mut KeyReader<'_>) -> Self {
        if bool::read(input) {
            return Some(K::read(input));
        }
        input.skip(K::BYTES);
        None
    }
    #[inline(always)]
    fn excess(&self) -> Option<Excess> {
        self.as_ref().and_then(K::excess)
    }
}

impl Key for bool {
    const BYTES: usize = 1;
    fn write(&self, out: &mut KeyWriter<'_>) {
        out.push(u64::from(*self), 1);
    }
    fn read(input: &mut KeyReader<'_>) -> Self {
        input.pull(1) != 0
    }
}

impl<const N: usize> Key for [u8; N] {
    const BYTES: usize = N;
    #[inline(always)]
    fn write(&self, out: &mut KeyWriter<'_>) {
        for byte in self {
            out.push(u64::from(*byte), 1);
        }
    }
    #[inline(always)]
    fn read(input: &mut KeyReader<'_>) -> Self {
        std::array::from_fn(|_| input.pull(1) as u8)
    }
}

impl<const N: usize> Key for Text<N> {
    const BYTES: usize = N;
    #[inline(always)]
    fn write(&self, out: &mut KeyWriter<'_>) {
        self.padded().write(out);
    }
    #[inline(always)]
    fn read(input: &mut KeyReader<'_>) -> Self {
        Self::from_padded(<[u8; N]>::read(input))
    }
}

/// Descending order.
impl<K: Key> Key for Reverse<K> {
    const BYTES: usize = K::BYTES;
    #[inline(always)]
    fn write(&self, out: &mut KeyWriter<'_>) {
        const { assert!(K::BYTES <= 64, "a Reverse key part takes at most 64 bytes") };
        write_reversed(out, K::BYTES, |inner| self.0.write(inner));
    }
    #[inline(always)]
    fn read(input: &mut KeyReader<'_>) -> Self {
        Self(read_reversed(input, K::BYTES, K::read))
    }
    #[inline(always)]
    fn excess(&self) -> Option<Excess> {
        self.0.excess()
    }
}

/// Appends the complement of what `write` writes: `bytes` bytes, at most 64.
#[inline(always)]
pub(crate) fn write_reversed(out: &mut KeyWriter<'_>, bytes: usize, write: impl FnOnce(&mut KeyWriter<'_>)) {
    let mut inner = [0u64; 8];
    write(&mut KeyWriter::new(&mut inner));
    let mut reader = KeyReader::new(&inner);
    for _ in 0..bytes {
        out.push(reader.pull(1) ^ 0xFF, 1);
    }
}

/// Gives `read` the complement of the next `bytes` bytes, at most 64.
#[inline(always)]
pub(crate) fn read_reversed<K>(
    input: &mut KeyReader<'_>,
    bytes: usize,
    read: impl FnOnce(&mut KeyReader<'_>) -> K,
) -> K {
    let mut inner = [0u64; 8];
    let mut writer = KeyWriter::new(&mut inner);
    for _ in 0..bytes {
        writer.push(input.pull(1) ^ 0xFF, 1);
    }
    read(&mut KeyReader::new(&inner))
}

/// A leading part of a composite key: `(A,)` and `(A, B)` are prefixes of `(A, B, C)`.
pub trait KeyPrefix<K: Key>: Key {}

macro_rules! tuple_keys {
    ($($name:ident . $index:tt),+) => {
        impl<$($name: Key),+> Key for ($($name,)+) {
            const BYTES: usize = 0 $(+ $name::BYTES)+;
            #[inline(always)]
            fn write(&self, out: &mut KeyWriter<'_>) {
                $(self.$index.write(out);)+
            }
            #[inline(always)]
            fn read(input: &mut KeyReader<'_>) -> Self {
                ($($name::read(input),)+)
            }
            #[inline(always)]
            fn excess(&self) -> Option<Excess> {
                $(if let Some(excess) = self.$index.excess() {
                    return Some(Excess { part: $index, ..excess });
                })+
                None
            }
        }
    };
}
tuple_keys!(A.0);
tuple_keys!(A.0, B.1);
tuple_keys!(A.0, B.1, C.2);
tuple_keys!(A.0, B.1, C.2, D.3);
tuple_keys!(A.0, B.1, C.2, D.3, E.4);
tuple_keys!(A.0, B.1, C.2, D.3, E.4, F.5);
tuple_keys!(A.0, B.1, C.2, D.3, E.4, F.5, G.6);
tuple_keys!(A.0, B.1, C.2, D.3, E.4, F.5, G.6, H.7);

macro_rules! tuple_prefixes {
    ([$($prefix:ident)+] $next:ident $($rest:ident)*) => {
        impl<$($prefix: Key,)+ $next: Key> KeyPrefix<($($prefix,)+ $next,)> for ($($prefix,)+) {}
        tuple_prefixes!(@longer [$($prefix)+] [$next] $($rest)*);
        tuple_prefixes!([$($prefix)+ $next] $($rest)*);
    };
    ([$($prefix:ident)+]) => {};
    (@longer [$($prefix:ident)+] [$($middle:ident)+] $next:ident $($rest:ident)*) => {
        impl<$($prefix: Key,)+ $($middle: Key,)+ $next: Key>
            KeyPrefix<($($prefix,)+ $($middle,)+ $next,)> for ($($prefix,)+) {}
        tuple_prefixes!(@longer [$($prefix)+] [$($middle)+ $next] $($rest)*);
    };
    (@longer [$($prefix:ident)+] [$($middle:ident)+]) => {};
}
tuple_prefixes!([A] B C D E F G H);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round<K: Key + PartialEq, const N: usize>(key: K) -> [u64; N] {
        assert_eq!(N, key_words(K::BYTES));
        let words: [u64; N] = encode_key(&key);
        assert_eq!(decode_key::<K>(&words), key);
        words
    }

    proptest! {
        #[test]
        fn order_is_preserved(a: (u16, i8, u32, i64, u128), b: (u16, i8, u32, i64, u128)) {
            prop_assert_eq!(round::<_, 4>(a).cmp(&round::<_, 4>(b)), a.cmp(&b));
            let (ra, rb) = ((a.0, Reverse(a.3)), (b.0, Reverse(b.3)));
            prop_assert_eq!(round::<_, 2>(ra).cmp(&round::<_, 2>(rb)), ra.cmp(&rb));
        }

        #[test]
        fn none_is_before_all_values(a: (Option<i16>, bool), b: (Option<i16>, bool), c: Option<i128>, d: Option<i128>) {
            prop_assert_eq!(round::<_, 1>(a).cmp(&round::<_, 1>(b)), a.cmp(&b));
            prop_assert_eq!(round::<_, 3>(c).cmp(&round::<_, 3>(d)), c.cmp(&d));
            let (rc, rd) = (Reverse(c), Reverse(d));
            prop_assert_eq!(round::<_, 3>(rc).cmp(&round::<_, 3>(rd)), rc.cmp(&rd));
        }

        #[test]
        fn durations_order_by_their_length(a: Duration, b: Duration) {
            prop_assert_eq!(round::<_, 2>(a).cmp(&round::<_, 2>(b)), a.cmp(&b));
        }

        #[test]
        fn texts_order_like_strings(a in "[a-z]{0,10}", b in "[a-z]{0,10}") {
            let (ta, tb) = (Text::<10>::new(&a).unwrap(), Text::<10>::new(&b).unwrap());
            prop_assert_eq!(round::<_, 2>((7u8, ta)).cmp(&round::<_, 2>((7u8, tb))), a.cmp(&b));
        }

        #[test]
        fn a_prefix_bounds_its_keys(a: (u16, u8), rest: (u32, u64)) {
            let (low, high) = prefix_bounds::<_, [u64; 2]>(&a);
            let key = round::<_, 2>((a.0, a.1, rest.0, rest.1));
            prop_assert!(low <= key && key <= high);
            let next = (a.0, a.1.wrapping_add(1), rest.0, rest.1);
            prop_assert!(!(low..=high).contains(&round::<_, 2>(next)));
        }
    }

    #[test]
    fn neighbours() {
        assert_eq!([1, u64::MAX].successor(), Some([2, 0]));
        assert_eq!([2, 0].predecessor(), Some([1, u64::MAX]));
        assert_eq!([u64::MAX; 2].successor(), None);
        assert_eq!([0; 2].predecessor(), None);
    }
}
