//! What a call will access, as it told before.
//!
//! A [`Footprint`] is made of *points*, a row's column groups, which are read, added to or written; of *ranges* of keys; and of *open*
//! ranges. Whoever scans a range may write what it finds there. In an open range anything may be done at keys that are not known yet; in an
//! *unordered* range, too, and nobody waits for that.

use crate::log::Cell;
pub(super) use crate::procedure::Usage;
use crate::table::GroupSet;
use std::ops::Range;

/// What linking takes for each use of a cell, measured where batches have 16,000 of them: virtual cores are told, whose cells cost
/// nothing.
pub(super) const CLAIM_CYCLES: u64 = 60;

/// A relation of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RelationId {
    /// Its number in this process, by which the database finds it.
    pub number: u32,
    /// How many relations the database had before it. What is hashed by it is hashed alike in every process, and in one that has
    /// had other databases.
    pub ordinal: u32,
}

/// What tests call the relations of a database that has no other number for them.
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
pub(super) const fn nth(ordinal: u32) -> RelationId {
    RelationId { number: ordinal, ordinal }
}

/// Column groups of a row.
#[derive(Clone, Copy, Debug)]
struct Point {
    relation: RelationId,
    /// Where its key is among the words.
    key: Key,
    groups: GroupSet,
    usage: Usage,
}

/// Keys from one to another, both included.
#[derive(Clone, Copy, Debug)]
struct Keys {
    relation: RelationId,
    low: Key,
    high: Key,
}

#[derive(Clone, Copy, Debug)]
struct Key {
    at: usize,
    len: usize,
}

impl Key {
    fn words(self) -> Range<usize> {
        self.at..self.at + self.len
    }
}

/// What a call will access.
#[derive(Clone, Debug, Default)]
pub(super) struct Footprint {
    words: Vec<u64>,
    points: Vec<Point>,
    ranges: Vec<Keys>,
    open: Vec<Keys>,
    unordered: Vec<Keys>,
    /// What it used, as hashes of a log.
    cells: Vec<Cell>,
    /// It is executed alone.
    alone: bool,
    /// The relations that points are of, one bit for all whose ordinals are alike modulo 64.
    relations: u64,
    /// The position of the point that is likely to be asked for next.
    next: usize,
    /// It is all that the call will access, and from this site on the call does not give up.
    sure_from: Option<u16>,
}

impl Footprint {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.words.clear();
        self.points.clear();
        self.ranges.clear();
        self.open.clear();
        self.unordered.clear();
        self.cells.clear();
        self.alone = false;
        self.relations = 0;
        self.next = 0;
        self.sure_from = None;
    }

    /// It is a call that a log says used those cells.
    pub fn use_cells(&mut self, cells: impl Iterator<Item = Cell>) {
        self.cells.extend(cells);
    }

    /// Nothing is executed beside it.
    pub fn be_alone(&mut self) {
        self.alone = true;
    }

    /// What it used, if a log says so.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Whether nothing is executed beside it.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// The call will access nothing else, and from that site on it does not give up; or that is not known.
    pub fn be_sure_from(&mut self, site: Option<u16>) {
        self.sure_from = site;
    }

    /// From which site on the call does not give up, where it will access nothing else.
    pub fn sure_from(&self) -> Option<u16> {
        self.sure_from
    }

    fn keep(&mut self, key: &[u64]) -> Key {
        let at = self.words.len();
        self.words.extend_from_slice(key);
        Key { at, len: key.len() }
    }

    fn words(&self, key: Key) -> &[u64] {
        &self.words[key.words()]
    }

    /// Announces that the call will use column groups of that row.
    pub fn add_point(&mut self, relation: RelationId, key: &[u64], groups: GroupSet, usage: Usage) {
        let key = self.keep(key);
        self.points.push(Point { relation, key, groups, usage });
        self.relations |= bit(relation);
    }

    /// Announces that the call will scan those keys.
    pub fn add_range(&mut self, relation: RelationId, low: &[u64], high: &[u64]) {
        let keys = self.keep_range(relation, low, high);
        self.ranges.push(keys);
    }

    /// Announces that the call will do anything at some of those keys.
    pub fn add_open(&mut self, relation: RelationId, low: &[u64], high: &[u64]) {
        let keys = self.keep_range(relation, low, high);
        self.open.push(keys);
    }

    /// Announces that the call will do anything at some of those keys, and that nobody waits for that.
    pub fn add_unordered(&mut self, relation: RelationId, low: &[u64], high: &[u64]) {
        let keys = self.keep_range(relation, low, high);
        self.unordered.push(keys);
    }

    fn keep_range(&mut self, relation: RelationId, low: &[u64], high: &[u64]) -> Keys {
        Keys { relation, low: self.keep(low), high: self.keep(high) }
    }

    /// Whether this access to these column groups was announced, but for open and unordered ranges.
    ///
    /// Cheap where accesses come in the order in which they were announced.
    pub fn has_point(&mut self, relation: RelationId, key: &[u64], groups: GroupSet, usage: Usage) -> bool {
        // Whoever scans may write what it finds; but where others may have seen what it did, it tells that, too.
        let is_scanned = self.sure_from.is_none() || usage == Usage::Reads;
        self.find_points(relation, key, groups, usage, |_| ())
            || is_scanned && self.has_range(relation, key, key)
    }

    /// Whether the point at that position allows such an access, of all these column groups.
    pub fn is_point(
        &self,
        at: usize,
        relation: RelationId,
        key: &[u64],
        groups: GroupSet,
        usage: Usage,
    ) -> bool {
        self.points.get(at).is_some_and(|point| {
            point.relation == relation
                && groups & !point.groups == 0
                && point.usage.allows(usage)
                && self.has_key(point, key)
        })
    }

    /// Keys have a word or two, mostly: compared here, word by word, and not by a call of what compares memory.
    #[inline]
    fn has_key(&self, point: &Point, key: &[u64]) -> bool {
        point.key.len == key.len() && self.words(point.key).iter().zip(key).all(|(one, other)| one == other)
    }

    /// Finds the points with which this access was announced, the next ones first, and passes on their positions. False if
    /// there are none for some of the column groups.
    pub fn find_points(
        &mut self,
        relation: RelationId,
        key: &[u64],
        groups: GroupSet,
        usage: Usage,
        mut found: impl FnMut(usize),
    ) -> bool {
        if self.relations & bit(relation) == 0 {
            return false;
        }
        let (mut left, count) = (groups, self.points.len());
        let order = || (self.next..count).chain(0..self.next);
        if let Some(at) = order().find(|at| self.is_point(*at, relation, key, groups, usage)) {
            found(at);
            self.next = at + 1;
            return true;
        }
        for at in order() {
            let point = self.points[at];
            if left & point.groups != 0
                && point.relation == relation
                && point.usage.allows(usage)
                && self.has_key(&point, key)
            {
                found(at);
                left &= !point.groups;
                if left == 0 {
                    self.next = at + 1;
                    return true;
                }
            }
        }
        false
    }

    /// Behind the point that was found last.
    pub fn position(&self) -> usize {
        self.next
    }

    /// The next point that is asked for is likely to be at that position: what was done since is done again.
    pub fn return_to(&mut self, position: usize) {
        self.next = position;
    }

    /// Whether a scan of all these keys was announced, as one range.
    pub fn has_range(&self, relation: RelationId, low: &[u64], high: &[u64]) -> bool {
        self.find_range(relation, low, high).is_some()
    }

    /// The position of a range with all these keys.
    pub fn find_range(&self, relation: RelationId, low: &[u64], high: &[u64]) -> Option<usize> {
        self.ranges.iter().position(|keys| self.has_all(keys, relation, low, high))
    }

    /// Whether all these keys are of one open range, or of one unordered range.
    pub fn is_open(&self, relation: RelationId, low: &[u64], high: &[u64]) -> bool {
        self.open.iter().chain(&self.unordered).any(|keys| self.has_all(keys, relation, low, high))
    }

    fn has_all(&self, keys: &Keys, relation: RelationId, low: &[u64], high: &[u64]) -> bool {
        keys.relation == relation && self.words(keys.low) <= low && high <= self.words(keys.high)
    }

    /// The points: relation, key, column groups, how they are used.
    pub fn points(&self) -> impl ExactSizeIterator<Item = (RelationId, &[u64], GroupSet, Usage)> {
        self.points.iter().map(|point| (point.relation, self.words(point.key), point.groups, point.usage))
    }

    /// The ranges that are not open: relation, lowest and highest key.
    pub fn ranges(&self) -> impl Iterator<Item = (RelationId, &[u64], &[u64])> {
        self.bounds(&self.ranges)
    }

    /// The open ranges.
    pub fn open(&self) -> impl Iterator<Item = (RelationId, &[u64], &[u64])> {
        self.bounds(&self.open)
    }

    fn bounds<'a>(&'a self, ranges: &'a [Keys]) -> impl Iterator<Item = (RelationId, &'a [u64], &'a [u64])> {
        ranges.iter().map(|keys| (keys.relation, self.words(keys.low), self.words(keys.high)))
    }
}

/// What the tests of who must wait for whom ask.
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
impl Footprint {
    /// Whether the call has any of these keys in a range, open or not.
    pub fn scans(&self, relation: RelationId, low: &[u64], high: &[u64]) -> bool {
        let meets = |keys: &Keys| {
            keys.relation == relation && self.words(keys.low) <= high && low <= self.words(keys.high)
        };
        self.ranges.iter().chain(&self.open).any(meets)
    }

    /// Whether the call has one of these keys as a point, and one that it changes if that matters.
    pub fn touches(&self, relation: RelationId, low: &[u64], high: &[u64], changes: bool) -> bool {
        let within = |point: &Point| {
            let key = self.words(point.key);
            point.relation == relation && point.usage.changes() >= changes && low <= key && key <= high
        };
        self.points.iter().any(within)
    }
}

/// The bit of a relation, in sets of those whose ordinals are alike modulo 64.
fn bit(relation: RelationId) -> u64 {
    1 << (relation.ordinal % 64)
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::Usage::{Adds, Reads, Writes};
    use super::*;

    /// Accesses that were told several times are found one after the other, also if some of them are made again.
    #[test]
    fn what_is_done_again_is_found_again() {
        let mut known = Footprint::default();
        (0..3).for_each(|_| known.add_point(nth(1), &[2], 1, Writes));
        let find = |known: &mut Footprint| {
            let mut at = None;
            assert!(known.find_points(nth(1), &[2], 1, Writes, |found| at = Some(found)));
            at
        };
        assert_eq!(find(&mut known), Some(0));
        let position = known.position();
        assert_eq!((find(&mut known), find(&mut known)), (Some(1), Some(2)));
        known.return_to(position);
        assert_eq!(find(&mut known), Some(1));
    }

    #[test]
    fn what_was_said_is_known() {
        let mut known = Footprint::default();
        known.add_point(nth(1), &[2], 0b01, Reads);
        known.add_point(nth(1), &[2], 0b10, Writes);
        known.add_point(nth(1), &[4], 0b01, Adds);
        known.add_range(nth(1), &[5], &[8]);
        assert!(known.has_point(nth(1), &[2], 0b11, Reads));
        assert!(known.has_point(nth(1), &[2], 0b10, Writes) && known.has_point(nth(1), &[2], 0b10, Adds));
        assert!(!known.has_point(nth(1), &[2], 0b01, Writes), "it is only read");
        assert!(!known.has_point(nth(1), &[3], 0b01, Reads));
        assert!(
            known.has_point(nth(1), &[4], 0b01, Adds) && !known.has_point(nth(1), &[4], 0b01, Reads),
            "it only adds"
        );
        assert!(known.has_point(nth(1), &[6], 0b11, Writes), "whoever scans may write");
        assert!(known.has_range(nth(1), &[5], &[6]) && !known.has_range(nth(1), &[5], &[9]));
        known.add_open(nth(2), &[5], &[8]);
        assert!(
            known.is_open(nth(2), &[5], &[8])
                && !known.is_open(nth(2), &[5], &[9])
                && !known.is_open(nth(1), &[6], &[6])
        );
        assert!(
            !known.has_point(nth(2), &[6], 1, Reads) && !known.has_range(nth(2), &[6], &[7]),
            "these are told apart"
        );
        assert!(
            known.scans(nth(2), &[8], &[9]) && !known.scans(nth(2), &[9], &[9]),
            "others meet it as a range"
        );
        known.clear();
        assert!(!known.has_point(nth(1), &[2], 0b01, Reads) && !known.scans(nth(2), &[8], &[9]));
    }
}
