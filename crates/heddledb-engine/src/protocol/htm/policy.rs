//! What comes after a region that was aborted: another one, or the execution in software.
//!
//! By reason: who met a lock, or whom another core disturbed, tries again, after a pause that gets longer; who had not room
//! enough hardly succeeds another time, nor do the next calls that begin at the same place; without a reason it may have been
//! an interrupt, or a page that is not there, which the execution in software brings in. What waits cannot be in a region.
//!
//! So nothing is tried for ever, and two regions that abort each other again and again end in software.

use super::LOCKED;
use crate::kind::{Fallback, Htm as Options};
use crate::sync::htm::Abort;
use crate::sync::{Random, spin};

/// Regions that may meet a lock.
const LOCKS: u32 = 2;
/// Regions that others may disturb.
const CONFLICTS: u32 = 1;
/// Regions that may end without a reason.
const INTERRUPTS: u32 = 2;
/// So many calls that begin where there was no room are executed in software.
const SKIPPED: u32 = 64;
/// Hints of the first pause, and how often it doubles.
const HINTS: u64 = 16;
const DOUBLINGS: u32 = 5;

/// Where a region begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Nothing of a closure.
    pub(super) procedure: Option<u16>,
    /// Of its first access.
    pub(super) site: u16,
}

/// One worker's.
pub(super) struct Policy {
    /// Failures of this attempt, or piece, by reason.
    locks: u32,
    conflicts: u32,
    interrupts: u32,
    rooms: u32,
    /// It has failed for good.
    software: bool,
    place: Place,
    /// Places at which there was no room, and how many more of their calls are executed in software.
    skipped: Vec<(Place, u32)>,
    random: Random,
}

impl Policy {
    pub(super) fn new(worker: usize) -> Self {
        Self {
            locks: 0,
            conflicts: 0,
            interrupts: 0,
            rooms: 0,
            software: false,
            place: Place::default(),
            skipped: Vec::new(),
            random: Random::new(worker as u64),
        }
    }

    /// A transaction begins, or a piece.
    #[inline]
    pub(super) fn begin(&mut self) {
        (self.locks, self.conflicts, self.interrupts, self.rooms) = (0, 0, 0, 0);
        self.software = false;
    }

    /// A region, or what is executed instead of one, begins there.
    pub(super) fn start_at(&mut self, place: Place) {
        self.place = place;
    }

    /// Whether to try a region.
    #[inline]
    pub(super) fn tries(&mut self) -> bool {
        !self.software && (self.skipped.is_empty() || !self.skips())
    }

    /// Whether this is one of the calls that are not tried, which it then is for good.
    #[cold]
    fn skips(&mut self) -> bool {
        let place = self.place;
        let Some(at) = self.skipped.iter().position(|skipped| skipped.0 == place) else { return false };
        self.software = true;
        self.skipped[at].1 -= 1;
        if self.skipped[at].1 == 0 {
            self.skipped.swap_remove(at);
        }
        true
    }

    /// A region was aborted.
    pub(super) fn failed(&mut self, why: Abort, options: &Options) {
        match why {
            Abort::Explicit(LOCKED) => {
                self.locks += 1;
                self.software |= self.locks > LOCKS;
            }
            Abort::Conflict | Abort::Explicit(_) => {
                self.conflicts += 1;
                self.software |= self.conflicts > CONFLICTS;
            }
            Abort::Capacity => {
                self.rooms += 1;
                if self.rooms >= options.capacity_tries {
                    self.software = true;
                    if options.fallback == Fallback::Record {
                        self.skipped.push((self.place, SKIPPED));
                    }
                }
            }
            Abort::Interrupt => {
                self.interrupts += 1;
                self.software |= self.interrupts > INTERRUPTS;
            }
            Abort::Unfriendly => self.software = true,
        }
    }

    /// Before a region: waits, if one was aborted before.
    pub(super) fn pause(&mut self) {
        let failures = self.locks + self.conflicts;
        if failures > 0 {
            spin(self.random.below(HINTS << failures.min(DOUBLINGS)));
        }
    }
}
