//! What optimistic protocols remember of absence: the gaps seen, with the versions seen.

use crate::error::Conflict;
use crate::index::{Change, GapRef, Seen};

/// The gaps that an attempt has looked at.
#[derive(Default)]
pub(crate) struct GapSet(Vec<Seen>);

impl GapSet {
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// True where no gap was looked at.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Remembers a look. A gap seen twice is kept at each version: they must all stand.
    #[inline]
    pub fn push(&mut self, seen: Seen) {
        if self.0.last() != Some(&seen) {
            self.0.push(seen);
        }
    }

    /// Moves looks at the version before an own insert to the version after it; where the gap was
    /// split, its new part counts as seen too.
    pub fn follow(&mut self, change: Change) {
        let mut followed = false;
        for seen in &mut self.0 {
            if seen.gap == change.gap && seen.version == change.before {
                seen.version = change.after;
                followed = true;
            }
        }
        if let (true, Some(split)) = (followed, change.split) {
            self.0.push(split);
        }
    }

    /// The gaps.
    pub fn gaps(&self) -> impl Iterator<Item = GapRef> {
        self.0.iter().map(|seen| seen.gap)
    }

    /// A phantom, unless every gap still has its version.
    #[inline]
    pub fn validate(&self) -> Result<(), Conflict> {
        match self.0.iter().all(|seen| seen.gap.version() == seen.version) {
            true => Ok(()),
            false => Err(Conflict::Phantom),
        }
    }
}
