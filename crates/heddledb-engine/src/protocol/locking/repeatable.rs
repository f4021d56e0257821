//! Repeatable read: locks that last for one read, and the versions that were read (TicToc §5.4, §6.6).
//!
//! **Mechanism.** A read lets its shared lock go as soon as it has copied. The attempt keeps the version, by
//! its stamp. When the group is read again, or locked to be written, its stamp must be equal, or the attempt
//! conflicts. Gaps are not validated. Exclusive locks are held to the end, as always.
//!
//! **What is left.** What is read is committed; what is read twice is equal both times; what is written has
//! not changed since it was read, so no update is lost. Not that all reads are of one moment: read skew,
//! write skew and phantoms happen.
//!
//! No two readers of a row ever upgrade against each other here, since neither still holds it.

use super::words::{Held, stamp_word};
use crate::access::Groups;
use crate::error::Conflict;
use crate::stamp;
use crate::sync::Ordering;
use crate::table::{GroupSet, Layout};

/// Nothing was read: no group that can be locked has this stamp.
const NOTHING: u64 = stamp::SEALED;
/// A record has no entry.
const NOWHERE: u32 = u32::MAX;

/// The versions that an attempt has read.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// By number of the record among those held: where its groups' stamps begin.
    starts: Vec<u32>,
    stamps: Vec<u64>,
}

impl Versions {
    /// Groups of a record, which are locked, are read, or only to be written: they must be what they were,
    /// where they were read before.
    pub fn repeat(
        &mut self,
        number: usize,
        held: &Held,
        layout: &Layout,
        groups: GroupSet,
        is_read: bool,
    ) -> Result<(), Conflict> {
        if self.starts.len() <= number {
            self.starts.resize(number + 1, NOWHERE);
        }
        if self.starts[number] == NOWHERE {
            self.starts[number] = self.stamps.len() as u32;
            self.stamps.resize(self.stamps.len() + layout.groups.len(), NOTHING);
        }
        let start = self.starts[number] as usize;
        for group in Groups(groups) {
            // Relaxed: under the lock.
            let now = stamp_word!(held.record, group).load(Ordering::Relaxed);
            let before = &mut self.stamps[start + group];
            if *before == NOTHING {
                if is_read {
                    *before = now;
                }
            } else if *before != now {
                return Err(Conflict::ReadChanged);
            }
        }
        Ok(())
    }

    /// The latest time of a version that was read.
    pub fn newest(&self) -> u64 {
        let read = self.stamps.iter().filter(|stamp| **stamp != NOTHING);
        read.map(|stamp| stamp::time(*stamp)).max().unwrap_or(0)
    }

    /// Forgets all.
    #[inline]
    pub fn clear(&mut self) {
        if !self.starts.is_empty() {
            self.starts.clear();
            self.stamps.clear();
        }
    }
}
