//! Text of bounded length, stored in place.

use crate::error::Error;
use std::fmt;

/// UTF-8 text of at most `N` bytes without NUL, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<const N: usize>([u8; N]);

/// A string that does not fit a [`Text`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// Too many bytes.
    #[error("text of {bytes} bytes does not fit a column of {limit}; shorten it or declare Text<{bytes}>")]
    TooLong {
        /// Length of the string.
        bytes: usize,
        /// `N` of the column.
        limit: usize,
    },
    /// The padding byte inside the text.
    #[error("text holds a NUL byte, which pads the column; use [u8; N] for binary data")]
    Nul,
}

/// In a body: a decision to abort.
impl From<TextError> for Error {
    fn from(error: TextError) -> Self {
        Self::user(error)
    }
}

impl<const N: usize> Text<N> {
    /// The empty text.
    pub const EMPTY: Self = Self([0; N]);

    /// Copies `text`.
    ///
    /// # Errors
    /// [`TextError`] when it is longer than `N` bytes or holds a NUL byte.
    pub fn new(text: &str) -> Result<Self, TextError> {
        check_text(text, N)?;
        Ok(Self::truncated(text))
    }

    /// Copies the longest leading part of `text` that fits, up to a NUL byte.
    pub fn truncated(text: &str) -> Self {
        let mut end = text.len().min(N);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let end = text.as_bytes()[..end].iter().position(|b| *b == 0).unwrap_or(end);
        let mut bytes = [0; N];
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        Self(bytes)
    }

    /// The bytes before the padding.
    pub fn as_bytes(&self) -> &[u8] {
        before_padding(&self.0)
    }

    /// The text.
    ///
    /// A copy read by an optimistic transaction may be torn until that transaction commits; where
    /// it is not UTF-8, the valid leading part is returned and the transaction will not commit.
    pub fn as_str(&self) -> &str {
        valid_part(self.as_bytes())
    }

    /// All `N` bytes with the padding.
    pub fn padded(&self) -> &[u8; N] {
        &self.0
    }

    /// The text of `bytes`, padded with zeros.
    pub(crate) fn from_padded(bytes: [u8; N]) -> Self {
        Self(bytes)
    }
}

/// Whether `text` fits a column of `limit` bytes.
pub(crate) fn check_text(text: &str, limit: usize) -> Result<(), TextError> {
    if text.len() > limit {
        return Err(TextError::TooLong { bytes: text.len(), limit });
    }
    if text.contains('\0') {
        return Err(TextError::Nul);
    }
    Ok(())
}

/// The bytes before the padding.
pub(crate) fn before_padding(padded: &[u8]) -> &[u8] {
    let end = padded.iter().position(|byte| *byte == 0).unwrap_or(padded.len());
    &padded[..end]
}

/// The leading part of `bytes` that is UTF-8: all of them, unless they come from a torn copy.
pub(crate) fn valid_part(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const N: usize> TryFrom<&str> for Text<N> {
    type Error = TextError;
    fn try_from(text: &str) -> Result<Self, TextError> {
        Self::new(text)
    }
}

impl<const N: usize> PartialEq<str> for Text<N> {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// As a string, in any format of serde's.
#[cfg(feature = "serde")]
impl<const N: usize> serde::Serialize for Text<N> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// From a string, which must fit.
#[cfg(feature = "serde")]
impl<'de, const N: usize> serde::Deserialize<'de> for Text<N> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fitting<const N: usize>;
        impl<const N: usize> serde::de::Visitor<'_> for Fitting<N> {
            type Value = Text<N>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "text of at most {N} bytes without NUL")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text<N>, E> {
                Text::new(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Fitting)
    }
}
