//! What calls that are past their turn will still access, and which calls must wait for which because of
//! that.
//!
//! [`Announced`] holds what all calls have told, in buckets. Points have those of a hash of relation, key and column group; two that share a
//! bucket only wait more often than they need. Readers share it, and so do those that only add. A writer replaces what its bucket held:
//! calls after the writer wait for it, and it waits for those before. Ranges count as written: they have the buckets of the
//! [grains](super::grains) that they touch, which the points of these grains share.
//!
//! **Several at a time.** The buckets lie in *bands*, each under a lock of its own. A call goes through the bands from the first on, and
//! takes the lock of the next before it lets go of the one that it has: so no call overtakes another, all buckets see the same order of
//! calls, and as many calls announce at a time as there are bands. Numbers are drawn in the first. Who has ended is not asked
//! for meanwhile: a call is told of all that used its buckets last.

use super::AccessMode;
use super::grains::{Grains, hashed};
use crate::access::Groups;
use crate::error::{Error, Misuse};
use crate::footprint::{CLAIM_CYCLES, Footprint, RelationId, Usage};
use crate::mutant::{Mutant, planted};
use crate::seam::Access;
use crate::sync::{AtomicU64, MODEL, Mutex, MutexGuard, Ordering, Work, lock_soon, work};
use crate::table::{Definition, GroupSet};
use crossbeam_utils::CachePadded;
use std::ops::RangeInclusive;

/// The turn of a call: of which worker, and its number in the order of all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub worker: usize,
    pub number: u64,
}

impl Turn {
    /// As one word, which is not zero, since numbers begin with 1.
    fn packed(self) -> u64 {
        self.number << 16 | self.worker as u64
    }

    fn unpacked(word: u64) -> Option<Self> {
        (word != 0).then_some(Self { worker: (word & 0xffff) as usize, number: word >> 16 })
    }
}

/// Says who has not ended.
pub(super) type Runs<'a> = &'a dyn Fn(Turn) -> bool;

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

/// Those that only share a bucket since it had its last writer: readers, and those that add. Some may have ended: they are looked for
/// when a list is full.
#[derive(Debug, Default)]
struct Sharers {
    readers: Vec<Turn>,
    adders: Vec<Turn>,
}

/// The calls that will access the points of a bucket and have not ended, as far as others must wait for them: the last writer, as
/// [`Turn::packed`], and where its sharers are in its band, plus one.
///
/// Both are zero in a bucket that was never used, so a fresh table is memory that nobody has touched.
type Bucket = [u64; 2];

/// Buckets under one lock.
#[derive(Debug, Default)]
struct Band {
    buckets: Vec<Bucket>,
    sharers: Vec<Sharers>,
    /// Those of `sharers` that nobody uses.
    free: Vec<u64>,
    /// In the first band: the number that was drawn last, and the last call that waits for all before it, and all after it for it.
    drawn: u64,
    barrier: Option<Turn>,
}

impl Band {
    fn new(buckets: usize) -> Self {
        Self { buckets: vec![[0; 2]; buckets], ..Self::default() }
    }

    /// A call uses a bucket: whom it must let end.
    fn before(&self, at: usize, usage: Usage) -> impl Iterator<Item = Turn> {
        let [writer, sharers] = self.buckets[at];
        let sharers = (sharers as usize).checked_sub(1).map(|at| &self.sharers[at]);
        let readers = sharers.filter(|_| usage != Usage::Reads).map_or(&[][..], |sharers| &sharers.readers);
        let adders = sharers.filter(|_| usage != Usage::Adds).map_or(&[][..], |sharers| &sharers.adders);
        Turn::unpacked(writer).into_iter().chain(readers.iter().chain(adders).copied())
    }

    /// A bucket is used by that call.
    fn join(&mut self, at: usize, turn: Turn, usage: Usage, runs: Runs<'_>) {
        let [writer, sharers] = &mut self.buckets[at];
        if usage == Usage::Writes {
            *writer = turn.packed();
            if let Some(at) = (std::mem::take(sharers) as usize).checked_sub(1) {
                let Sharers { readers, adders } = &mut self.sharers[at];
                readers.clear();
                adders.clear();
                self.free.push(at as u64 + 1);
            }
            return;
        }
        if *sharers == 0 {
            *sharers = self.free.pop().unwrap_or_else(|| {
                self.sharers.push(Sharers::default());
                self.sharers.len() as u64
            });
        }
        let Sharers { readers, adders } = &mut self.sharers[*sharers as usize - 1];
        let list = if usage == Usage::Reads { readers } else { adders };
        if list.len() == list.capacity() {
            list.retain(|sharer| runs(*sharer));
        }
        list.push(turn);
    }
}

/// What all calls have announced.
#[derive(Debug)]
pub(super) struct Announced {
    bands: Box<[CachePadded<Mutex<Band>>]>,
    /// The buckets of all bands, and of one, as powers of two.
    bits: u32,
    band_bits: u32,
    /// By worker, the number of its last call that has announced something. Stored and read under the lock of the first band.
    last: Box<[CachePadded<AtomicU64>]>,
    grains: Grains,
}

/// Buckets for each worker, as a power of two: some fifty points are announced by a call, and two that share a bucket may wait for
/// each other.
const WORKER_BITS: u32 = if MODEL { 3 } else { 12 };
/// Buckets, at the least and at the most.
const BITS: RangeInclusive<u32> = if MODEL { 4..=4 } else { 14..=18 };
/// Bands, at the most.
const BAND_BITS: u32 = if MODEL { 1 } else { 3 };

impl Announced {
    /// For `workers` workers.
    pub fn new(workers: usize) -> Self {
        let some = workers.next_power_of_two().ilog2();
        let bits = (WORKER_BITS + some).clamp(*BITS.start(), *BITS.end());
        let bands = if workers == 0 { 0 } else { 1 << some.min(BAND_BITS) };
        let band_bits = bits - some.min(BAND_BITS);
        let band = |_| CachePadded::new(Mutex::new(Band::new(1 << band_bits)));
        Self {
            bands: (0..bands).map(band).collect(),
            bits,
            band_bits,
            last: (0..workers).map(|_| CachePadded::default()).collect(),
            grains: Grains::new(workers > 0),
        }
    }

    fn band(&self, at: usize) -> MutexGuard<'_, Band> {
        lock_soon(&self.bands[at])
    }

    /// The bucket of something that has a hash.
    fn bucket(&self, hash: u64) -> u64 {
        hash >> (64 - self.bits)
    }

    /// Where a bucket is: its band, and its position in it.
    fn place(&self, bucket: u64) -> (usize, usize) {
        ((bucket >> self.band_bits) as usize, bucket as usize & ((1 << self.band_bits) - 1))
    }

    /// The calls that the call which has the turn must let end before it uses that bucket.
    fn before(&self, hash: u64, usage: Usage, runs: Runs<'_>, found: &mut Vec<Turn>) {
        let (band, at) = self.place(self.bucket(hash));
        found.extend(self.band(band).before(at, usage).filter(|turn| runs(*turn)));
    }

    /// The calls, among those that are under way according to `runs`, that the call which has the turn must let end before it
    /// accesses these column groups; appended to `found`.
    pub fn before_point(
        &self,
        relation: RelationId,
        key: &[u64],
        groups: GroupSet,
        usage: Usage,
        runs: Runs<'_>,
        found: &mut Vec<Turn>,
    ) {
        if !planted(Mutant::SequencedPointsIgnored) {
            Groups(groups).for_each(|group| self.before(point(relation, key, group), usage, runs, found));
        }
        if !planted(Mutant::SequencedScansIgnored) {
            self.grains.of_point(relation, key, |hash| self.before(hash, Usage::Reads, runs, found));
        }
    }

    /// The calls that the call which has the turn must let end before it scans these keys.
    pub fn before_range(
        &self,
        relation: RelationId,
        low: &[u64],
        high: &[u64],
        runs: Runs<'_>,
        found: &mut Vec<Turn>,
    ) {
        if planted(Mutant::SequencedScansIgnored) {
            return;
        }
        let before = |hash, usage| self.before(hash, usage, runs, found);
        if !self.grains.of_range(relation, (low, high), before) {
            self.all(runs, found);
        }
    }

    /// All calls that are under way.
    pub fn all(&self, runs: Runs<'_>, found: &mut Vec<Turn>) {
        // Relaxed: under the lock of the first band, or the turn is the caller's.
        let number = |(worker, last): (usize, &CachePadded<AtomicU64>)| Turn {
            worker,
            number: last.load(Ordering::Relaxed),
        };
        found.extend(self.last.iter().enumerate().map(number).filter(|turn| runs(*turn)));
    }

    /// A worker's call announces what it will access, behind all that have and before all that will. Its number in that order is
    /// drawn now, unless it has one. Appends the calls that it must let end to `found`, and some that have ended.
    pub fn announce(
        &self,
        worker: usize,
        number: Option<u64>,
        footprint: &Footprint,
        places: &mut Places,
        runs: Runs<'_>,
        found: &mut Vec<Turn>,
    ) -> Turn {
        let known = self.find(footprint, places);
        let mut band = self.band(0);
        band.drawn = number.unwrap_or(band.drawn + 1);
        let turn = Turn { worker, number: band.drawn };
        if known != Some(self.grains.version()) {
            while self.find(footprint, places).is_none() {
                footprint
                    .ranges()
                    .chain(footprint.open())
                    .for_each(|(of, low, high)| self.grains.widen(of, low, high));
                // Who was placed before has other grains than who comes now.
                band.barrier = Some(turn);
            }
            if band.barrier == Some(turn) {
                self.all(runs, found);
            }
        }
        // Relaxed: see `all`.
        self.last[worker].store(turn.number, Ordering::Relaxed);
        band.barrier = band.barrier.filter(|barrier| runs(*barrier));
        found.extend(band.barrier.filter(|barrier| *barrier != turn));
        let mut at = 0;
        for place in places.iter() {
            let (of, bucket) = self.place(place.bucket());
            while at < of {
                at += 1;
                // Before the band before is let go of: so no call overtakes another.
                let next = self.band(at);
                band = next;
            }
            work(Work::Cycles(CLAIM_CYCLES));
            found.extend(band.before(bucket, place.usage()).filter(|other| *other != turn));
            band.join(bucket, turn, place.usage(), runs);
        }
        turn
    }

    /// Finds the buckets of what a call will access. The version of the grains that they are of; none, where these are too small
    /// for a range.
    fn find(&self, footprint: &Footprint, places: &mut Places) -> Option<u64> {
        let version = self.grains.version();
        places.clear();
        for (relation, key, groups, usage) in footprint.points() {
            if !planted(Mutant::SequencedPointsIgnored) {
                let place = |group| Place::new(self.bucket(point(relation, key, group)), usage);
                places.extend(Groups(groups).map(place));
            }
            let add = |hash| places.push(Place::new(self.bucket(hash), Usage::Reads));
            self.grains.of_point(relation, key, add);
        }
        for (relation, low, high) in footprint.ranges().chain(footprint.open()) {
            if planted(Mutant::SequencedScansIgnored) {
                break;
            }
            let add = |hash, usage| places.push(Place::new(self.bucket(hash), usage));
            if !self.grains.of_range(relation, (low, high), add) {
                return None;
            }
        }
        places.sort_unstable();
        places.dedup();
        Some(version)
    }
}

/// The buckets that a call will use, in ascending order.
pub(super) type Places = Vec<Place>;

/// A bucket, times four, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u64);

impl Place {
    const USAGES: [Usage; 3] = [Usage::Reads, Usage::Adds, Usage::Writes];

    fn new(bucket: u64, usage: Usage) -> Self {
        Self(bucket << 2 | usage as u64)
    }

    fn bucket(self) -> u64 {
        self.0 >> 2
    }

    fn usage(self) -> Usage {
        Self::USAGES[self.0 as usize & 3]
    }
}

/// The hash of a column group of a row.
fn point(relation: RelationId, key: &[u64], group: usize) -> u64 {
    hashed(u64::from(relation.ordinal) << 8 | group as u64, key.iter().copied())
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::super::sequencer::Sequencer;
    use super::Usage::{Adds, Reads, Writes};
    use super::*;
    use crate::footprint::nth;
    use crate::sync::{Random, lock};

    fn turn(number: u64) -> Turn {
        Turn { worker: number as usize, number }
    }

    /// The calls that a call which accesses this must wait for.
    fn announce(announced: &Announced, number: u64, fill: impl FnOnce(&mut Footprint)) -> Vec<u64> {
        let mut footprint = Footprint::default();
        fill(&mut footprint);
        let mut found = Vec::new();
        let runs = &|other: Turn| (1..=number).contains(&other.number);
        let worker = turn(number).worker;
        announced.announce(worker, Some(number), &footprint, &mut Places::new(), runs, &mut found);
        let mut numbers: Vec<u64> = found.into_iter().map(|turn| turn.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    #[test]
    fn writers_wait_for_all_and_readers_for_writers() {
        let announced = Announced::new(8);
        let point = |number, groups, usage| {
            announce(&announced, number, |footprint| footprint.add_point(nth(3), &[7], groups, usage))
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
        let announced = Announced::new(8);
        let point = |number, usage| {
            announce(&announced, number, |footprint| footprint.add_point(nth(3), &[7], 1, usage))
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
        let announced = Announced::new(4);
        let both = |footprint: &mut Footprint| {
            footprint.add_point(nth(0), &[1], 1, Reads);
            footprint.add_point(nth(0), &[1], 1, Writes);
        };
        assert_eq!(announce(&announced, 1, both), []);
        assert_eq!(announce(&announced, 2, both), [1]);
    }

    #[test]
    fn ranges_meet_points_and_ranges() {
        let announced = Announced::new(8);
        announced.grains.widen(nth(2), &[4, 0], &[4, u64::MAX]);
        let add = |number, fill: &dyn Fn(&mut Footprint)| announce(&announced, number, |known| fill(known));
        assert_eq!(add(1, &|known| known.add_point(nth(2), &[4, 9], 1, Reads)), []);
        assert_eq!(add(2, &|known| known.add_range(nth(2), &[4, 0], &[4, u64::MAX])), [1]);
        assert_eq!(add(3, &|known| known.add_range(nth(2), &[5, 0], &[5, u64::MAX])), []);
        assert_eq!(add(4, &|known| known.add_range(nth(2), &[4, 3], &[5, 2])), [1, 2, 3], "it waits for all");
        assert_eq!(
            add(5, &|known| known.add_point(nth(2), &[5, 1], 1, Reads)),
            [4],
            "which has waited for the third"
        );
        assert_eq!(add(6, &|known| known.add_point(nth(66), &[4, 9], 1, Writes)), [4], "another relation");
    }

    /// What has an open range meets all that access keys in its grains, and others that have it.
    #[test]
    fn open_ranges_meet_points_and_ranges() {
        let announced = Announced::new(8);
        let add = |number, fill: &dyn Fn(&mut Footprint)| announce(&announced, number, |known| fill(known));
        assert_eq!(add(1, &|known| known.add_point(nth(2), &[4, 9], 1, Reads)), []);
        assert_eq!(
            add(2, &|known| known.add_open(nth(2), &[4, 0], &[4, u64::MAX])),
            [1],
            "the first range waits for all"
        );
        assert_eq!(add(3, &|known| known.add_point(nth(3), &[4, 2], 1, Writes)), [2], "and all for it");
        announced.band(0).barrier = None;
        assert_eq!(add(4, &|known| known.add_open(nth(2), &[5, 0], &[5, u64::MAX])), []);
        assert_eq!(add(5, &|known| known.add_open(nth(2), &[4, 3], &[4, 9])), [2]);
        assert_eq!(add(6, &|known| known.add_range(nth(2), &[5, 3], &[5, 9])), [4]);
        assert_eq!(add(7, &|known| known.add_point(nth(2), &[4, 2], 1, Reads)), [5]);
    }

    /// Calls that announce side by side wait for those of lower numbers that they meet, and for nobody else.
    #[test]
    fn calls_do_not_overtake_each_other() {
        const WORKERS: usize = 4;
        const CALLS: u64 = 300;
        let seed = 7;
        println!("seed {seed}");
        let (sequencer, clock) = (Sequencer::new(WORKERS), AtomicU64::new(0));
        let known = Mutex::new(Vec::new());
        let work = |worker| {
            let mut random = Random::new(seed + worker as u64);
            for _ in 0..CALLS {
                let mut footprint = Footprint::default();
                for _ in 0..4 {
                    let usage = [Reads, Adds, Writes][random.below(3) as usize];
                    footprint.add_point(nth(1), &[random.below(30)], 1, usage);
                }
                if random.below(4) == 0 {
                    footprint.add_range(nth(1), &[random.below(30)], &[29]);
                }
                let (mut before, runs) = (Vec::new(), &|turn| sequencer.runs(turn));
                let announced = &sequencer.announced;
                let turn =
                    announced.announce(worker, None, &footprint, &mut Places::new(), runs, &mut before);
                assert!(before.iter().all(|other| other.number < turn.number), "{turn:?}: {before:?}");
                sequencer.await_end(&mut before, None);
                let now = || clock.fetch_add(1, Ordering::SeqCst);
                let begin = now();
                lock(&known).push((turn.number, footprint, begin, now()));
                sequencer.end(turn);
            }
        };
        std::thread::scope(|scope| {
            let work = &work;
            (0..WORKERS).for_each(|worker| drop(scope.spawn(move || work(worker))));
        });
        let known = known.into_inner().expect("no thread has panicked");
        let meet = |one: &Footprint, other: &Footprint| {
            let scans = |one: &Footprint, other: &Footprint| {
                one.ranges()
                    .any(|(of, low, high)| other.touches(of, low, high, false) || other.scans(of, low, high))
            };
            let conflicts = |(_, key, _, usage): (RelationId, &[u64], GroupSet, Usage)| {
                let other = |(_, at, _, used)| key == at && (usage != used || usage == Writes);
                one.points().any(other)
            };
            other.points().any(conflicts) || scans(one, other) || scans(other, one)
        };
        for (number, footprint, begin, _) in &known {
            for (earlier, other, _, end) in known.iter().filter(|(earlier, ..)| earlier < number) {
                assert!(end < begin || !meet(footprint, other), "{number} has not waited for {earlier}");
            }
        }
    }
}
