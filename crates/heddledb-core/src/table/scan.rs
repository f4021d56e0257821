//! What to scan: a range of keys, a direction and a limit.

use super::key::{Excess, KeyPrefix, prefix_bounds};
use super::up_to::{Exceeds, check_excess};
use super::{Key, KeyWords, Relation, encode_key};
use crate::error::Misuse;
use std::fmt;
use std::ops::{Bound, RangeBounds};

/// Direction of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Reverse,
}

impl Direction {
    /// The other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
    }
}

/// A range of keys of relation `R`, the direction to go through it, and how far.
///
/// ```
/// use heddledb::{Scan, Table};
/// #[derive(Table, Clone, Copy)]
/// struct Line { #[key] order: u32, #[key] number: u8, amount: i64 }
///
/// let lines_of_seven = Scan::<Line>::prefix((7u32,));
/// let last_three = Scan::<Line>::range((0, 0)..(100, 0)).reverse().limit(3);
/// # let _ = (lines_of_seven, last_three);
/// ```
pub struct Scan<R: Relation> {
    /// Lowest and highest key, both included; `None` when the range is empty.
    #[doc(hidden)]
    pub bounds: Option<(R::Words, R::Words)>,
    #[doc(hidden)]
    pub direction: Direction,
    #[doc(hidden)]
    pub limit: usize,
    after: Option<R::Words>,
    /// Which part of a bound is too long, of a relation where that can be.
    excess: R::Exceeds,
}

impl<R: Relation> Scan<R> {
    #[inline(always)]
    fn over(bounds: Option<(R::Words, R::Words)>, excess: Option<Excess>) -> Self {
        let bounds = bounds.filter(|(low, high)| low <= high);
        let excess = R::Exceeds::of(excess);
        Self { bounds, direction: Direction::Forward, limit: usize::MAX, after: None, excess }
    }

    /// Whether all bounds are keys that the relation can have.
    ///
    /// # Errors
    /// [`Misuse::KeyTooLong`].
    #[doc(hidden)]
    #[inline(always)]
    pub fn check(&self) -> Result<(), Misuse> {
        check_excess::<R>(self.excess.excess())
    }

    /// Every key.
    pub fn all() -> Self {
        Self::over(Some((R::Words::MIN, R::Words::MAX)), None)
    }

    /// The keys within `range`, as with `BTreeMap::range`; an inverted range is empty.
    pub fn range(range: impl RangeBounds<R::Key>) -> Self {
        let low = match range.start_bound() {
            Bound::Included(key) => Some(encode_key(key)),
            Bound::Excluded(key) => encode_key::<_, R::Words>(key).successor(),
            Bound::Unbounded => Some(R::Words::MIN),
        };
        let high = match range.end_bound() {
            Bound::Included(key) => Some(encode_key(key)),
            Bound::Excluded(key) => encode_key::<_, R::Words>(key).predecessor(),
            Bound::Unbounded => Some(R::Words::MAX),
        };
        let excess = |bound: Bound<&R::Key>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.excess(),
            Bound::Unbounded => None,
        };
        Self::over(low.zip(high), excess(range.start_bound()).or(excess(range.end_bound())))
    }

    /// The keys that start with `prefix`: `(a,)` or `(a, b)` for a key `(a, b, c)`.
    pub fn prefix<P: KeyPrefix<R::Key>>(prefix: P) -> Self {
        Self::over(Some(prefix_bounds(&prefix)), prefix.excess())
    }

    /// The keys whose encoding starts with that of `prefix`, whatever its type.
    #[doc(hidden)]
    pub fn encoded_prefix<P: Key>(prefix: &P) -> Self {
        Self::over(Some(prefix_bounds(prefix)), prefix.excess())
    }

    /// Descending keys.
    pub fn reverse(mut self) -> Self {
        self.direction = self.direction.reversed();
        self
    }

    /// At most `rows` rows.
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = rows;
        self
    }

    /// Only keys that come after `key` in the direction of the scan: where it goes on that has come to `key`. Nothing that is
    /// not in the range comes in by it. Of several such keys the last one holds.
    pub fn after(mut self, key: R::Key) -> Self {
        self.after = Some(encode_key(&key));
        self.excess = R::Exceeds::of(self.excess.excess().or(key.excess()));
        self
    }

    /// The same scan, with bounds that say what [`Self::after`] says.
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let (Some(after), Some((low, high))) = (self.after.take(), self.bounds) else { return self };
        let bounds = match self.direction {
            Direction::Forward => after.successor().map(|next| (low.max(next), high)),
            Direction::Reverse => after.predecessor().map(|next| (low, high.min(next))),
        };
        self.bounds = bounds.filter(|(low, high)| low <= high);
        self
    }
}

/// Some rows of a scan, and where the next ones begin: from [`ReadTransaction::page`](crate::ReadTransaction::page).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Page<T, K> {
    /// The rows, in the order of the scan.
    pub rows: Vec<T>,
    /// The key of the last of them, if there are more: `scan.after(key)` goes on there. `None` at the end.
    pub next: Option<K>,
}

impl<R: Relation> Clone for Scan<R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R: Relation> Copy for Scan<R> {}

impl<R: Relation> fmt::Debug for Scan<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan")
            .field("relation", &R::LAYOUT.name)
            .field("bounds", &self.bounds)
            .field("direction", &self.direction)
            .field("limit", &self.limit)
            .field("after", &self.after)
            .finish()
    }
}
