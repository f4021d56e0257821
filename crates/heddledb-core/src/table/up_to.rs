//! Values of any length as parts of keys: as many bytes as a table states, and no more.
//!
//! ```text
//!   max bytes                      1 byte
//!  +---------------------+--------+--------+
//!  | the value           | zeros  | length |
//!  +---------------------+--------+--------+
//! ```
//!
//! The zeros make a value sort before those that begin with it, and the length tells apart those that end with zeros
//! themselves. So the order is that of the bytes, and every value comes back.

use super::column_type::LENGTH_BYTES;
use super::key::{Excess, Key, KeyReader, KeyWriter};
use super::text::valid_part;
use super::{ColumnValue, Relation};
use crate::error::Misuse;
use crate::values::Longer;
use std::cmp::{Ordering, Reverse};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Deref;

/// The most that may be stated: the length is one byte, and one more than it stands for all that is longer.
pub(crate) const UP_TO_MAX: usize = 254;

/// A `str` or `[u8]` as a part of a key that has room for `N` bytes of it: what a column of `String` or `Vec<u8>` is in a key,
/// and in the entries of an index, that states `max = N`.
///
/// It is made of any text or bytes, by `into`. Operations refuse a key with one that is longer than `N`, and say so
/// ([`Misuse::KeyTooLong`]); what can be seen of it are its first bytes. Without an allocation, and `Copy`.
///
/// ```
/// use heddledb::{Database, ReadTransaction, Scan, Table, Transaction};
///
/// #[derive(Table, Clone, Debug, PartialEq)]
/// #[table(index(ByCity(city(max = 20))))]
/// struct Customer {
///     #[key(max = 30)]
///     email: String,
///     city: Option<String>,
///     remarks: String,
/// }
///
/// let db = Database::in_memory();
/// let mut session = db.session()?;
/// let ada = Customer { email: "ada@example.org".into(), city: Some("London".into()), remarks: "long ".repeat(100) };
/// session.run(|tx| tx.insert(ada.clone()))?;
/// assert_eq!(session.run(|tx| tx.get::<Customer>("ada@example.org".into()))?, Some(ada.clone()));
/// assert_eq!(session.run(|tx| tx.find::<ByCity>(Some("London".into())))?, Some(ada));
/// let mut emails = Vec::new();
/// session.run(|tx| tx.scan_index(Scan::<ByCity>::all(), |(_, email), _| emails.push(email.to_string())))?;
/// assert_eq!(emails, ["ada@example.org"]);
///
/// let error = session.run(|tx| tx.get::<Customer>("x".repeat(31).into())).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "column email is given 31 bytes, of which the key of customer has room for 30; shorten it, or state more as its `max`"
/// );
/// # Ok::<(), heddledb::Error>(())
/// ```
pub struct UpTo<V: ?Sized, const N: usize> {
    /// The first bytes, filled up with zeros.
    bytes: [u8; N],
    /// Of all of it, also if it is more than `N`.
    length: u32,
    of: PhantomData<fn() -> *const V>,
}

/// `str` or `[u8]`.
pub trait AnyLength: sealed::Sealed + fmt::Debug + 'static {
    /// Its bytes.
    fn bytes(&self) -> &[u8];
    /// As much as is one of these.
    fn of(bytes: &[u8]) -> &Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for str {}
    impl Sealed for [u8] {}
}

impl AnyLength for str {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
    fn of(bytes: &[u8]) -> &Self {
        valid_part(bytes)
    }
}

impl AnyLength for [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn of(bytes: &[u8]) -> &Self {
        bytes
    }
}

impl<V: AnyLength + ?Sized, const N: usize> UpTo<V, N> {
    /// Whether there is room for it in a key.
    pub const fn fits(&self) -> bool {
        self.length as usize <= N
    }

    /// The order of values, and that of their encodings.
    fn ordered(&self) -> (&[u8; N], u32) {
        (&self.bytes, self.length.min(N as u32 + 1))
    }
}

impl<V: AnyLength + ?Sized, const N: usize> From<&V> for UpTo<V, N> {
    fn from(value: &V) -> Self {
        let (mut bytes, value) = ([0; N], value.bytes());
        let kept = value.len().min(N);
        bytes[..kept].copy_from_slice(&value[..kept]);
        Self { bytes, length: u32::try_from(value.len()).unwrap_or(u32::MAX), of: PhantomData }
    }
}

impl<const N: usize> From<&String> for UpTo<str, N> {
    fn from(value: &String) -> Self {
        value.as_str().into()
    }
}

impl<const N: usize> From<String> for UpTo<str, N> {
    fn from(value: String) -> Self {
        value.as_str().into()
    }
}

impl<const N: usize> From<Vec<u8>> for UpTo<[u8], N> {
    fn from(value: Vec<u8>) -> Self {
        value.as_slice().into()
    }
}

impl<const N: usize, const M: usize> From<[u8; M]> for UpTo<[u8], N> {
    fn from(value: [u8; M]) -> Self {
        value.as_slice().into()
    }
}

impl<V: AnyLength + ?Sized, const N: usize> Deref for UpTo<V, N> {
    type Target = V;
    fn deref(&self) -> &V {
        V::of(&self.bytes[..N.min(self.length as usize)])
    }
}

impl<V: ?Sized, const N: usize> Clone for UpTo<V, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: ?Sized, const N: usize> Copy for UpTo<V, N> {}

impl<V: AnyLength + ?Sized, const N: usize> PartialEq for UpTo<V, N> {
    fn eq(&self, other: &Self) -> bool {
        self.ordered() == other.ordered()
    }
}

impl<V: AnyLength + ?Sized, const N: usize> Eq for UpTo<V, N> {}

impl<V: AnyLength + ?Sized, const N: usize> PartialOrd for UpTo<V, N> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<V: AnyLength + ?Sized, const N: usize> Ord for UpTo<V, N> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ordered().cmp(&other.ordered())
    }
}

impl<V: AnyLength + ?Sized, const N: usize> Hash for UpTo<V, N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ordered().hash(state);
    }
}

impl<V: AnyLength + ?Sized, const N: usize> PartialEq<V> for UpTo<V, N> {
    fn eq(&self, other: &V) -> bool {
        self.fits() && self.bytes() == other.bytes()
    }
}

impl<V: AnyLength + ?Sized, const N: usize> PartialEq<&V> for UpTo<V, N> {
    fn eq(&self, other: &&V) -> bool {
        *self == **other
    }
}

/// As of the value; with `..` behind it if there is more.
impl<V: AnyLength + ?Sized, const N: usize> fmt::Debug for UpTo<V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)?;
        if self.fits() { Ok(()) } else { f.write_str("..") }
    }
}

impl<const N: usize> fmt::Display for UpTo<str, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

/// As a string, or as bytes.
#[cfg(feature = "serde")]
impl<V: AnyLength + serde::Serialize + ?Sized, const N: usize> serde::Serialize for UpTo<V, N> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

/// From an owned string or bytes of any length.
#[cfg(feature = "serde")]
impl<'de, V: AnyLength + ToOwned + ?Sized, const N: usize> serde::Deserialize<'de> for UpTo<V, N>
where
    V::Owned: serde::Deserialize<'de>,
{
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let owned = V::Owned::deserialize(deserializer)?;
        Ok(std::borrow::Borrow::<V>::borrow(&owned).into())
    }
}

impl<V: AnyLength + ?Sized, const N: usize> Key for UpTo<V, N> {
    const BYTES: usize = {
        assert!(N > 0 && N <= UP_TO_MAX, "a key has room for 1 to 254 bytes of a value of any length");
        N + LENGTH_BYTES
    };
    #[inline]
    fn write(&self, out: &mut KeyWriter<'_>) {
        write_value(&self.bytes, self.length as usize, N, out);
    }
    #[inline]
    fn read(input: &mut KeyReader<'_>) -> Self {
        let mut bytes = [0; N];
        let length = read_value(&mut bytes, input) as u32;
        Self { bytes, length, of: PhantomData }
    }
    #[inline(always)]
    fn excess(&self) -> Option<Excess> {
        (!self.fits()).then_some(Excess { part: 0, bytes: self.length as usize })
    }
}

/// Writes a value that has `length` bytes, of which these are the first: `max` bytes, and its length.
pub(crate) fn write_value(value: &[u8], length: usize, max: usize, out: &mut KeyWriter<'_>) {
    let mut rest = value;
    for start in (0..max).step_by(8) {
        let (bytes, mut word) = ((max - start).min(8), [0; 8]);
        let (part, behind) = rest.split_at(rest.len().min(bytes));
        word[..part.len()].copy_from_slice(part);
        rest = behind;
        out.push(u64::from_be_bytes(word) >> ((8 - bytes) * 8), bytes);
    }
    out.push(length.min(max + 1) as u64, LENGTH_BYTES);
}

/// Reads as many bytes as `value` has, and returns how many of them are the value. Any bits are some value.
pub(crate) fn read_value(value: &mut [u8], input: &mut KeyReader<'_>) -> usize {
    for part in value.chunks_mut(8) {
        let (word, bytes) = (input.pull(part.len()), part.len());
        part.copy_from_slice(&word.to_be_bytes()[8 - bytes..]);
    }
    (input.pull(LENGTH_BYTES) as usize).min(value.len() + 1)
}

/// A column type whose values have a place in keys if their length is limited: `String`, `Vec<u8>`, and `Option` and
/// `Reverse` of these. A struct around one that derives [`ColumnValue`] is one too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` takes no `max` in a key",
    label = "its values are all of one length",
    note = "`max` states how many bytes a `String` or a `Vec<u8>` may have in a key; remove it here"
)]
pub trait KeyUpTo<const N: usize>: ColumnValue {
    /// What a value is in a key.
    type Key: Key;
    /// The value as a part of a key.
    fn key_up_to(&self) -> Self::Key;
}

impl<const N: usize> KeyUpTo<N> for String {
    type Key = UpTo<str, N>;
    fn key_up_to(&self) -> Self::Key {
        self.as_str().into()
    }
}

impl<const N: usize> KeyUpTo<N> for Vec<u8> {
    type Key = UpTo<[u8], N>;
    fn key_up_to(&self) -> Self::Key {
        self.as_slice().into()
    }
}

impl<V: KeyUpTo<N>, const N: usize> KeyUpTo<N> for Option<V> {
    type Key = Option<V::Key>;
    fn key_up_to(&self) -> Self::Key {
        self.as_ref().map(V::key_up_to)
    }
}

impl<V: KeyUpTo<N>, const N: usize> KeyUpTo<N> for Reverse<V> {
    type Key = Reverse<V::Key>;
    fn key_up_to(&self) -> Self::Key {
        Reverse(self.0.key_up_to())
    }
}

/// What a scan notes of its bounds: nothing of those of a relation whose keys are all of fixed width.
pub trait Exceeds: Copy + fmt::Debug {
    /// Of a part that is too long, if there is one.
    fn of(excess: Option<Excess>) -> Self;
    /// It.
    fn excess(self) -> Option<Excess>;
}

impl Exceeds for () {
    #[inline(always)]
    fn of(_excess: Option<Excess>) -> Self {}
    #[inline(always)]
    fn excess(self) -> Option<Excess> {
        None
    }
}

impl Exceeds for Option<Excess> {
    fn of(excess: Option<Excess>) -> Self {
        excess
    }
    fn excess(self) -> Option<Excess> {
        self
    }
}

/// Refuses a key, or a leading part of one, that is longer than there is room for.
///
/// # Errors
/// [`Misuse::KeyTooLong`].
#[inline(always)]
pub fn check_key<R: Relation>(key: &impl Key) -> Result<(), Misuse> {
    if const { R::KEY_LIMITS.is_empty() } {
        return Ok(());
    }
    check_excess::<R>(key.excess())
}

/// The same of what is known to be too long, or not.
#[inline(always)]
pub(super) fn check_excess<R: Relation>(excess: Option<Excess>) -> Result<(), Misuse> {
    let Some(Excess { part, bytes }) = excess else { return Ok(()) };
    match R::KEY_LIMITS.iter().find(|limit| limit.part == part) {
        Some(limit) => Err(Longer { limit: *limit, bytes }.into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{decode_key, encode_key};
    use proptest::prelude::*;

    fn encoded<K: Key>(key: &K) -> [u64; 4] {
        encode_key(key)
    }

    proptest! {
        #[test]
        fn texts_are_ordered_and_read_back(a in "[a-c\0ä]{0,9}", b in "[a-c\0ä]{0,9}") {
            let (a, b) = (UpTo::<str, 18>::from(&a[..]), UpTo::<str, 18>::from(&b[..]));
            let (first, second) = (encoded(&(7u8, a, 1u8)), encoded(&(7u8, b, 1u8)));
            prop_assert_eq!(first.cmp(&second), (*a).cmp(&*b));
            prop_assert_eq!(a.cmp(&b), (*a).cmp(&*b));
            prop_assert_eq!(decode_key::<(u8, UpTo<str, 18>, u8)>(&first), (7, a, 1));
            let (first, second) = (encoded(&Reverse(Some(a))), encoded(&Reverse(Some(b))));
            prop_assert_eq!(first.cmp(&second), (*b).cmp(&*a));
            prop_assert_eq!(decode_key::<Reverse<Option<UpTo<str, 18>>>>(&first), Reverse(Some(a)));
        }

        #[test]
        fn bytes_are_ordered_and_read_back(
            a in proptest::collection::vec(0u8..3, 0..11),
            b in proptest::collection::vec(0u8..3, 0..11),
        ) {
            let (left, right) = (UpTo::<[u8], 10>::from(&a[..]), UpTo::<[u8], 10>::from(&b[..]));
            prop_assert_eq!(encoded(&left).cmp(&encoded(&right)), a.cmp(&b));
            prop_assert_eq!(&*decode_key::<UpTo<[u8], 10>>(&encoded(&left)), &a[..]);
        }

        #[test]
        fn any_bits_are_some_value(words: [u64; 4]) {
            let value = decode_key::<UpTo<str, 31>>(&words);
            prop_assert!(value.len() <= 31);
            let _ = format!("{value:?} {value}");
        }
    }

    #[test]
    fn what_is_too_long_is_told_and_is_no_other_key() {
        let long: UpTo<str, 3> = "abcd".into();
        assert!(!long.fits() && UpTo::<str, 3>::from("abc").fits());
        assert_eq!((1u8, Some(long)).excess(), Some(Excess { part: 1, bytes: 4 }));
        assert_eq!((1u8, Some(UpTo::<str, 3>::from("abc")), None::<UpTo<str, 3>>).excess(), None);
        assert_eq!(format!("{long:?} {}", long.len()), "\"abc\".. 3");
        let (just, next) = (UpTo::<str, 3>::from("abc"), UpTo::<str, 3>::from("abd"));
        assert!(encoded(&just) < encoded(&long) && encoded(&long) < encoded(&next));
        assert!(just < long && long < next && long != *"abc" && just == *"abc");
    }
}
