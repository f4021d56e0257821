//! What calls that are past their turn will still access, and which calls must wait for which because of
//! that.
//!
//! [`Announced`] holds the footprints of all calls. Ranges count as written. Points are found by a hash of
//! relation, key and column group; two that share a bucket only wait more often than they need. Readers share it, and so
//! do those that only add. A writer replaces what its bucket held: calls after the writer wait for it, and it waits for
//! those before.

use super::AccessMode;
use crate::access::Groups;
use crate::error::{Error, Misuse};
use crate::footprint::{Footprint, Usage, bit};
use crate::mutant::{Mutant, planted};
use crate::seam::Access;
use crate::table::{Definition, GroupSet};

/// The turn of a call: of which worker, and its number in the order of all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub worker: usize,
    pub number: u64,
}

/// The column groups that an access is announced with, and how it uses them.
pub(super) fn claims(access: &Access<'_>, mode: AccessMode) -> (GroupSet, Usage) {
    let usage = match mode {
        AccessMode::Reads => Usage::Reads,
        AccessMode::Adds => Usage::Adds,
        AccessMode::Writes | AccessMode::WritesEntries => Usage::Writes,
    };
    // An access that only asks whether a row exists reads what an insertion writes.
    (access.wanted.groups.max(1), usage)
}

/// What a call is told that accesses a key which it had not announced, where that matters.
#[cold]
pub(super) fn unannounced(relation: &'static Definition, key: &[u64]) -> Error {
    Misuse::Unforeseen { table: relation.layout.name, key: format!("{key:x?}") }.into()
}

/// The calls that will access the points of a bucket and have not ended, as far as others must wait for them.
#[derive(Clone, Debug, Default)]
struct Bucket {
    writer: Option<Turn>,
    /// Since the writer: readers, and those that add.
    readers: Vec<Turn>,
    adders: Vec<Turn>,
}

impl Bucket {
    /// A call uses it, too: whom it must let end.
    fn before(&self, usage: Usage) -> impl Iterator<Item = Turn> {
        let readers = if usage == Usage::Reads { &[][..] } else { &self.readers };
        let adders = if usage == Usage::Adds { &[][..] } else { &self.adders };
        self.writer.iter().chain(readers).chain(adders).copied()
    }

    /// It is used by that call; `runs` says who has not ended.
    fn join(&mut self, turn: Turn, usage: Usage, runs: impl Fn(Turn) -> bool) {
        let sharers = match usage {
            Usage::Reads => &mut self.readers,
            Usage::Adds => &mut self.adders,
            Usage::Writes => {
                self.writer = Some(turn);
                self.readers.clear();
                self.adders.clear();
                return;
            }
        };
        if !sharers.contains(&turn) {
            sharers.retain(|sharer| runs(*sharer));
            sharers.push(turn);
        }
    }
}

/// What all calls have announced.
#[derive(Debug)]
pub(super) struct Announced {
    buckets: Box<[Bucket]>,
    /// By worker, its last call that has announced something.
    calls: Box<[(u64, Footprint)]>,
    /// The calls among them that have ranges; those that have ended are dropped now and then.
    scanners: Vec<Turn>,
    /// The relations of these ranges ([`Footprint::wide`]).
    scanned: u64,
}

/// Buckets: a power of two, as some hundred points are announced at a time.
const BUCKETS: u32 = if crate::sync::MODEL { 4 } else { 14 };

impl Announced {
    /// For `workers` workers.
    pub fn new(workers: usize) -> Self {
        Self {
            buckets: if workers == 0 { Box::default() } else { vec![Bucket::default(); 1 << BUCKETS].into() },
            calls: vec![(0, Footprint::default()); workers].into(),
            scanners: Vec::new(),
            scanned: 0,
        }
    }

    fn bucket(&mut self, relation: usize, key: &[u64], group: usize) -> &mut Bucket {
        // Fibonacci hashing, word by word: keys are small numbers mostly.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |hash: u64, word: &u64| (hash.rotate_left(29) ^ word).wrapping_mul(FACTOR);
        let hash = key.iter().fold((relation as u64) << 8 | group as u64, mix);
        &mut self.buckets[(hash.wrapping_mul(FACTOR) >> (64 - BUCKETS)) as usize]
    }

    /// The calls, among those that are under way according to `runs`, that a call must let end before it
    /// accesses these column groups; appended to `found`.
    pub fn before_point(
        &mut self,
        relation: usize,
        key: &[u64],
        groups: GroupSet,
        usage: Usage,
        runs: impl Fn(Turn) -> bool,
        found: &mut Vec<Turn>,
    ) {
        if planted(Mutant::SequencedPointsIgnored) {
            return;
        }
        for group in Groups(groups) {
            found.extend(self.bucket(relation, key, group).before(usage).filter(|turn| runs(*turn)));
        }
        let meets = |turn: &&Turn| self.calls[turn.worker].1.scans(relation, key, key) && runs(**turn);
        if self.scanned & bit(relation) != 0 && !planted(Mutant::SequencedScansIgnored) {
            found.extend(self.scanners.iter().filter(meets));
        }
    }

    /// The calls that a call must let end before it scans these keys; `writes` says whether it writes what it
    /// finds.
    pub fn before_range(
        &mut self,
        relation: usize,
        low: &[u64],
        high: &[u64],
        writes: bool,
        runs: impl Fn(Turn) -> bool,
        found: &mut Vec<Turn>,
    ) {
        if planted(Mutant::SequencedScansIgnored) {
            return;
        }
        for (worker, (number, footprint)) in self.calls.iter().enumerate() {
            let turn = Turn { worker, number: *number };
            let meets =
                || footprint.touches(relation, low, high, !writes) || footprint.scans(relation, low, high);
            if meets() && runs(turn) {
                found.push(turn);
            }
        }
    }

    /// All calls that are under way.
    pub fn all(&self, runs: impl Fn(Turn) -> bool, found: &mut Vec<Turn>) {
        let turn = |(worker, call): (usize, &(u64, Footprint))| Turn { worker, number: call.0 };
        found.extend(self.calls.iter().enumerate().map(turn).filter(|turn| runs(*turn)));
    }

    /// The call that has its turn announces what it will access. Appends the calls that it must wait for to
    /// `found`.
    pub fn announce(
        &mut self,
        turn: Turn,
        footprint: &Footprint,
        runs: impl Fn(Turn) -> bool + Copy,
        found: &mut Vec<Turn>,
    ) {
        // A call that has ended need not be awaited, and a call does not wait for itself.
        for (relation, key, groups, usage) in footprint.points() {
            self.before_point(relation, key, groups, usage, runs, found);
        }
        for (relation, low, high) in footprint.ranges().chain(footprint.open()) {
            self.before_range(relation, low, high, true, runs, found);
        }
        for (relation, key, groups, usage) in footprint.points() {
            for group in Groups(groups) {
                self.bucket(relation, key, group).join(turn, usage, runs);
            }
        }
        if footprint.wide() != 0 {
            // Before its footprint takes the place of the worker's last one, which has ended.
            self.scanners.retain(|turn| runs(*turn));
            let wide = |turn: &Turn| self.calls[turn.worker].1.wide();
            self.scanned = self.scanners.iter().map(wide).fold(footprint.wide(), |all, wide| all | wide);
            self.scanners.push(turn);
        }
        let (number, known) = &mut self.calls[turn.worker];
        *number = turn.number;
        known.copy(footprint);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::Usage::{Adds, Reads, Writes};
    use super::*;

    fn turn(number: u64) -> Turn {
        Turn { worker: number as usize, number }
    }

    /// The calls that a call which accesses this must wait for.
    fn announce(announced: &mut Announced, number: u64, fill: impl FnOnce(&mut Footprint)) -> Vec<u64> {
        let mut footprint = Footprint::default();
        fill(&mut footprint);
        let mut found = Vec::new();
        announced.announce(turn(number), &footprint, |other| (1..number).contains(&other.number), &mut found);
        let mut numbers: Vec<u64> = found.into_iter().map(|turn| turn.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    #[test]
    fn writers_wait_for_all_and_readers_for_writers() {
        let mut announced = Announced::new(8);
        let mut point = |number, groups, usage| {
            announce(&mut announced, number, |footprint| footprint.add_point(3, &[7], groups, usage))
        };
        assert_eq!(point(1, 0b01, Writes), []);
        assert_eq!(point(2, 0b01, Reads), [1]);
        assert_eq!(point(3, 0b01, Reads), [1]);
        assert_eq!(point(4, 0b10, Writes), [], "another column group");
        assert_eq!(point(5, 0b11, Writes), [1, 2, 3, 4]);
        assert_eq!(point(6, 0b01, Reads), [5]);
    }

    #[test]
    fn who_adds_lets_others_add() {
        let mut announced = Announced::new(8);
        let mut point = |number, usage| {
            announce(&mut announced, number, |footprint| footprint.add_point(3, &[7], 1, usage))
        };
        assert_eq!(point(1, Writes), []);
        assert_eq!(point(2, Adds), [1]);
        assert_eq!(point(3, Adds), [1]);
        assert_eq!(point(4, Reads), [1, 2, 3]);
        assert_eq!(point(5, Adds), [1, 4]);
        assert_eq!(point(6, Writes), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_row_may_be_read_and_written() {
        let mut announced = Announced::new(4);
        let both = |footprint: &mut Footprint| {
            footprint.add_point(0, &[1], 1, Reads);
            footprint.add_point(0, &[1], 1, Writes);
        };
        assert_eq!(announce(&mut announced, 1, both), []);
        assert_eq!(announce(&mut announced, 2, both), [1]);
    }

    #[test]
    fn ranges_meet_points_and_ranges() {
        let mut announced = Announced::new(8);
        let mut add =
            |number, fill: &dyn Fn(&mut Footprint)| announce(&mut announced, number, |known| fill(known));
        assert_eq!(add(1, &|known| known.add_point(2, &[4, 9], 1, Reads)), []);
        assert_eq!(add(2, &|known| known.add_range(2, &[4, 0], &[4, u64::MAX])), [1]);
        assert_eq!(add(3, &|known| known.add_range(2, &[5, 0], &[5, u64::MAX])), []);
        assert_eq!(add(4, &|known| known.add_range(2, &[4, 3], &[5, 2])), [1, 2, 3]);
        assert_eq!(add(5, &|known| known.add_point(2, &[5, 1], 1, Reads)), [3, 4]);
        assert_eq!(add(6, &|known| known.add_point(66, &[4, 9], 1, Writes)), [], "another relation");
    }

    /// What has an open range meets all that access keys in it, and others that have it; what has ended is forgotten.
    #[test]
    fn open_ranges_meet_points_and_ranges() {
        let mut announced = Announced::new(8);
        let mut add =
            |number, fill: &dyn Fn(&mut Footprint)| announce(&mut announced, number, |known| fill(known));
        assert_eq!(add(1, &|known| known.add_point(2, &[4, 9], 1, Reads)), []);
        assert_eq!(add(2, &|known| known.add_open(2, &[4, 0], &[4, u64::MAX])), [1]);
        assert_eq!(add(3, &|known| known.add_open(2, &[5, 0], &[5, u64::MAX])), []);
        assert_eq!(add(4, &|known| known.add_open(2, &[4, 3], &[4, 9])), [1, 2]);
        assert_eq!(add(5, &|known| known.add_range(2, &[5, 3], &[5, 9])), [3]);
        assert_eq!(add(6, &|known| known.add_point(2, &[4, 2], 1, Reads)), [2]);
        assert_eq!(add(7, &|known| known.add_point(3, &[4, 2], 1, Writes)), [], "another relation");
    }

    #[test]
    fn who_reads_lets_readers_be() {
        let mut announced = Announced::new(4);
        announce(&mut announced, 1, |known| known.add_point(2, &[4], 1, Reads));
        announce(&mut announced, 2, |known| known.add_point(2, &[6], 1, Writes));
        let mut before = |low, high, writes| {
            let mut found = Vec::new();
            announced.before_range(2, &[low], &[high], writes, |turn| turn.number > 0, &mut found);
            found.len()
        };
        assert_eq!((before(3, 5, false), before(3, 5, true), before(3, 6, false)), (0, 1, 1));
    }
}
