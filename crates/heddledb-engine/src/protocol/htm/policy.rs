//! What comes after a region that was aborted: another one, or the execution in software.
//!
//! By reason: who met a lock, or whom another core disturbed, tries again, after a pause that gets longer; who had not room
//! enough hardly succeeds another time; without a reason it may have been an interrupt, or a page that is not there, which the
//! execution in software brings in. What waits cannot be in a region. The commit of what is executed in software is tried for itself,
//! as a place of its own. After those the next calls that begin at the same place are
//! executed in software, too, two at first and more where it goes on: the room is less while another program runs on the same core.
//!
//! What others do is forgotten with the call, but not how often: where regions are disturbed much more often than what is
//! executed in software there conflicts, the next calls are executed in software, but for one in some that probes. A region fails with each
//! line that another core wants before it ends: other column groups of the same row, other keys of the same node. In TPC-C with one
//! warehouse that is most of its conflicts, and silo does not have them; in YCSB, whose rows are hot themselves, both conflict alike.
//!
//! So no region is tried for ever, and two that abort each other again and again end in software. What fails there again and again is
//! not this file's: pieces then take turns (`db::attempt::modes::chopping`).

use super::LOCKED;
use crate::kind::{Fallback, Htm as Options, Reach};
use crate::rate::{ALWAYS, Rate};
use crate::sync::htm::Abort;
use crate::sync::{Random, spin};

/// Regions that may meet a lock.
const LOCKS: u32 = 2;
/// Regions that others may disturb.
const CONFLICTS: u32 = 1;
/// Regions that may end without a reason.
const INTERRUPTS: u32 = 2;
/// The most calls in turn that are executed in software because one failed that began at the same place: two at first, and twice
/// as many each time that the next one fails, too.
const SKIPPED_MAX: u32 = 64;
/// Hints of the first pause, and how often it doubles.
const HINTS: u64 = 16;
const DOUBLINGS: u32 = 5;
/// By how much one rate must be above twice another.
const MARGIN: u32 = ALWAYS / 4;
/// Calls at a place that does better in software for each that tries a region there.
const PROBES: u32 = 16;

/// Where a region begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Nothing of a closure.
    pub(super) procedure: Option<u16>,
    /// Of its first access.
    pub(super) site: u16,
    /// It is of all pieces of its call.
    pub(super) joined: bool,
    /// It is for the commit of what was executed in software.
    pub(super) commits: bool,
}

/// What became of the regions of an attempt, or piece.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tries {
    /// Failures by reason.
    locks: u32,
    conflicts: u32,
    interrupts: u32,
    rooms: u32,
    /// They have failed for good.
    software: bool,
}

/// A place at which a region failed because of what it did itself.
struct Skipped {
    place: Place,
    /// How many calls are executed in software whenever one has failed, and how many of them are left.
    calls: u32,
    left: u32,
    /// One was tried since.
    tried: bool,
}

/// A place at which others have disturbed a region.
struct Disturbed {
    place: Place,
    /// Of the regions that were tried there, those that others have disturbed.
    in_regions: Rate,
    /// Of the executions in software, those that ended with a conflict.
    in_software: Rate,
    /// Calls that are executed in software until a region is tried again.
    left: u32,
}

impl Disturbed {
    /// Whether it does better in software: what is optimistic there looks at what was read as the place of a row and a
    /// column group, and at its commit alone, where a region fails with each line that another core wants before it ends.
    fn is_better_in_software(&self) -> bool {
        self.in_regions.0 > 2 * self.in_software.0 + MARGIN
    }
}

/// One worker's.
pub(super) struct Policy {
    tries: Tries,
    place: Place,
    /// Places whose calls are not tried for a while.
    skipped: Vec<Skipped>,
    /// Places where others disturb.
    disturbed: Vec<Disturbed>,
    random: Random,
}

impl Policy {
    pub(super) fn new(worker: usize) -> Self {
        Self {
            tries: Tries::default(),
            place: Place::default(),
            skipped: Vec::new(),
            disturbed: Vec::new(),
            random: Random::new(worker as u64),
        }
    }

    /// A transaction begins, or a piece.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.tries = Tries::default();
    }

    /// What was executed in software is about to commit. If that was for what its regions did themselves, one for the commit alone is
    /// another matter; if it was for what others did, that goes on. Returns what [`Self::resume`] takes, should it have
    /// to be executed again.
    #[inline]
    pub(super) fn begin_commit(&mut self) -> Tries {
        let tries = self.tries;
        if tries.locks <= LOCKS && tries.conflicts <= CONFLICTS {
            self.tries = Tries::default();
        }
        self.place.commits = true;
        tries
    }

    /// It is as before the commit.
    pub(super) fn resume(&mut self, tries: Tries) {
        self.tries = tries;
    }

    /// Whether others have met a region, or it had too little room.
    pub(super) fn is_too_much(&self) -> bool {
        self.tries.locks + self.tries.conflicts + self.tries.rooms > 0
    }

    /// A region, or what is executed instead of one, begins there.
    pub(super) fn start_at(&mut self, place: Place) {
        self.place = place;
    }

    /// Whether to try a region.
    #[inline]
    pub(super) fn tries(&mut self) -> bool {
        !self.tries.software
            && (self.skipped.is_empty() || !self.skips())
            && (self.disturbed.is_empty() || !self.leaves_out())
    }

    /// Whether this is one of the calls that are executed in software because others disturb regions there.
    #[cold]
    fn leaves_out(&mut self) -> bool {
        if self.is_being_tried() {
            return false;
        }
        let place = self.place;
        let Some(disturbed) = self.disturbed.iter_mut().find(|disturbed| disturbed.place == place) else {
            return false;
        };
        if !disturbed.is_better_in_software() {
            return false;
        }
        if disturbed.left == 0 {
            disturbed.left = PROBES;
            return false;
        }
        disturbed.left -= 1;
        // As if others had disturbed it: nor is there a region for its commit.
        self.tries = Tries { software: true, conflicts: CONFLICTS + 1, ..self.tries };
        true
    }

    /// A region has begun before, and was aborted.
    fn is_being_tried(&self) -> bool {
        let Tries { locks, conflicts, interrupts, rooms, .. } = self.tries;
        locks + conflicts + interrupts + rooms > 0
    }

    /// A region that began with the first access has committed.
    #[inline]
    pub(super) fn succeeded(&mut self) {
        if !self.disturbed.is_empty() {
            self.note_region(false);
        }
    }

    /// Counts a region, and says whether it does better in software at its place.
    #[cold]
    fn note_region(&mut self, is_disturbed: bool) -> bool {
        let place = self.place;
        let at = self.disturbed.iter().position(|disturbed| disturbed.place == place);
        let at = match at {
            Some(at) => at,
            None if is_disturbed => {
                self.disturbed.push(Disturbed { place, in_regions: Rate(0), in_software: Rate(0), left: 0 });
                self.disturbed.len() - 1
            }
            None => return false,
        };
        let disturbed = &mut self.disturbed[at];
        disturbed.in_regions.note(is_disturbed);
        disturbed.is_better_in_software()
    }

    /// What was to be a region was executed in software, and has committed, or ended with a conflict.
    #[inline]
    pub(super) fn executed_in_software(&mut self, conflicted: bool) {
        let place = Place { commits: false, ..self.place };
        if let Some(disturbed) = self.disturbed.iter_mut().find(|disturbed| disturbed.place == place) {
            disturbed.in_software.note(conflicted);
        }
    }

    /// Whether this is one of the calls that are not tried, which it then is for good.
    #[cold]
    fn skips(&mut self) -> bool {
        if self.is_being_tried() {
            return false;
        }
        let place = self.place;
        let Some(at) = self.skipped.iter().position(|skipped| skipped.place == place) else { return false };
        let skipped = &mut self.skipped[at];
        if skipped.left > 0 {
            skipped.left -= 1;
            self.tries.software = true;
        } else if std::mem::replace(&mut skipped.tried, true) {
            // The one before succeeded, as there would be calls left again.
            self.skipped.swap_remove(at);
        }
        self.tries.software
    }

    /// The next calls are not to be tried.
    fn skip(&mut self) {
        let place = self.place;
        let at = self.skipped.iter().position(|skipped| skipped.place == place).unwrap_or_else(|| {
            self.skipped.push(Skipped { place, calls: 1, left: 0, tried: false });
            self.skipped.len() - 1
        });
        let skipped = &mut self.skipped[at];
        skipped.calls = (2 * skipped.calls).min(SKIPPED_MAX);
        (skipped.left, skipped.tried) = (skipped.calls, false);
    }

    /// A region was aborted.
    pub(super) fn failed(&mut self, why: Abort, options: &Options) {
        let disturbed = matches!(why, Abort::Conflict | Abort::Explicit(_));
        let counts =
            options.reach == Reach::Accesses && options.fallback == Fallback::Record && !self.place.commits;
        // One without room was not disturbed either: where none ever commits, conflicts would else only add up.
        let is_probe = counts && self.note_region(disturbed);
        let (failures, most) = match why {
            Abort::Explicit(LOCKED) => (&mut self.tries.locks, LOCKS),
            Abort::Conflict | Abort::Explicit(_) => {
                (&mut self.tries.conflicts, if is_probe { 0 } else { CONFLICTS })
            }
            Abort::Capacity => (&mut self.tries.rooms, options.capacity_tries.saturating_sub(1)),
            Abort::Interrupt => (&mut self.tries.interrupts, INTERRUPTS),
            Abort::Unfriendly => (&mut self.tries.interrupts, 0),
        };
        *failures += 1;
        if *failures > most {
            self.tries.software = true;
            // What others do may be over by the next call; what the region itself does is hardly.
            let own = matches!(why, Abort::Capacity | Abort::Interrupt | Abort::Unfriendly);
            if own && options.fallback == Fallback::Record {
                self.skip();
            }
        }
    }

    /// Before a region: waits, if one was aborted before.
    pub(super) fn pause(&mut self) {
        let failures = self.tries.locks + self.tries.conflicts;
        if failures > 0 {
            spin(self.random.below(HINTS << failures.min(DOUBLINGS)));
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::rate::LAST;

    /// How many of the next `calls` at a place are tried, if each that is tried fails, or none does.
    fn tried(policy: &mut Policy, calls: u32, fails: Option<Abort>) -> u32 {
        (0..calls).fold(0, |tried, _| {
            policy.begin();
            policy.start_at(Place::default());
            let first = policy.tries();
            if let Some(why) = fails.filter(|_| first) {
                policy.failed(why, &Options::CHOPPED);
                while policy.tries() {
                    policy.failed(why, &Options::CHOPPED);
                }
            }
            tried + u32::from(first)
        })
    }

    #[test]
    fn what_fails_by_itself_is_tried_less_and_less() {
        for why in [Abort::Capacity, Abort::Interrupt, Abort::Unfriendly] {
            let mut policy = Policy::new(0);
            // The first, and those behind 2, 4, 8, 16, 32, and 64 that are not.
            assert_eq!(tried(&mut policy, 1 + 3 + 5 + 9 + 17 + 33, Some(why)), 6, "{why}");
            assert_eq!(tried(&mut policy, 65 * 4, Some(why)), 4, "{why}");
            // Once it succeeds again, it is tried each time.
            tried(&mut policy, 65, None);
            assert_eq!(tried(&mut policy, 100, None), 100, "{why}");
            assert!(policy.skipped.is_empty());
        }
    }

    /// A piece without room is one whose commit has room, and what becomes of that says nothing of the piece.
    #[test]
    fn a_commit_is_tried_for_itself() {
        let mut policy = Policy::new(0);
        policy.start_at(Place::default());
        policy.failed(Abort::Capacity, &Options::CHOPPED);
        assert!(!policy.tries());
        let tries = policy.begin_commit();
        assert!(policy.tries());
        policy.failed(Abort::Capacity, &Options::CHOPPED);
        assert!(!policy.tries());
        policy.resume(tries);
        assert!(!policy.tries());
        policy.begin();
        while policy.tries() {
            policy.failed(Abort::Conflict, &Options::CHOPPED);
        }
        policy.begin_commit();
        assert!(!policy.tries(), "others disturb its commit as well");
        assert_eq!(
            policy.skipped.iter().map(|skipped| skipped.place.commits).collect::<Vec<_>>(),
            [false, true]
        );
    }

    /// As long as it conflicts in software, too.
    #[test]
    fn what_others_do_is_forgotten_with_the_call() {
        for why in [Abort::Conflict, Abort::Explicit(LOCKED)] {
            let mut policy = Policy::new(0);
            for _ in 0..100 {
                assert_eq!(tried(&mut policy, 1, Some(why)), 1, "{why}");
                policy.executed_in_software(true);
            }
        }
    }

    /// One piece in ten that never has room is disturbed before that shows.
    #[test]
    fn what_has_no_room_is_not_disturbed() {
        let mut policy = Policy::new(0);
        for round in 0..200 {
            let why = if round % 10 == 0 { Abort::Conflict } else { Abort::Capacity };
            policy.begin();
            policy.start_at(Place::default());
            while policy.tries() {
                policy.failed(why, &Options::CHOPPED);
            }
            policy.executed_in_software(false);
            assert!(policy.disturbed.iter().all(|disturbed| !disturbed.is_better_in_software()), "{round}");
        }
    }

    #[test]
    fn what_only_regions_meet_is_executed_in_software() {
        let mut policy = Policy::new(0);
        let mut tried = |calls: u32, fails: Option<Abort>| {
            (0..calls).fold(0, |sum, _| {
                let tried = tried(&mut policy, 1, fails);
                match fails {
                    None if tried > 0 => policy.succeeded(),
                    _ => policy.executed_in_software(false),
                }
                sum + tried
            })
        };
        assert_eq!(tried(1, Some(Abort::Conflict)), 1, "once says little");
        tried(10, Some(Abort::Conflict));
        let rounds = 20;
        assert_eq!(tried(rounds * (PROBES + 1), Some(Abort::Conflict)), rounds, "one in some probes");
        assert!(tried(LAST * 2 * (PROBES + 1), None) > LAST, "those that succeed bring it back");
        assert_eq!(tried(100, None), 100);
    }

    /// What takes a lock beside the records' must not be executed in software more often: that ends all regions.
    #[test]
    fn who_has_a_lock_beside_the_records_tries_each_time() {
        let mut policy = Policy::new(0);
        for _ in 0..100 {
            policy.begin();
            policy.start_at(Place::default());
            assert!(policy.tries());
            policy.failed(Abort::Conflict, &Options::WHOLE);
            assert!(policy.tries(), "and a second time");
            policy.failed(Abort::Conflict, &Options::WHOLE);
            policy.executed_in_software(false);
        }
    }
}
