//! Building the graph of a batch: who waits for whom (DGCC §3.2, Algorithm 1).
//!
//! The calls of a batch are linked one by one, in their order. For each unit of conflict, a *cell*, the linker keeps the two
//! last groups of calls that share it: the *open* one, which the next call of the same class joins, and the one *before*, for
//! which all of the open one wait (the paper's dominating set, in which either the last writer or the readers since are).
//! Calls share a cell as readers, or as those that only add; a writer has it alone.
//!
//! What cells are is said in [`cells`](super::cells). Calls that are executed in pieces are linked otherwise
//! ([`pieces`](super::pieces)), and have ended before one begins that is not.

use super::cells::{Cells, Class, Granules};
use super::pieces::{PieceLinker, Pieces};
use crate::footprint::{CLAIM_CYCLES, Footprint};
use crate::mutant::{Mutant, planted};
use crate::sync::{Work, work};

/// No call, no edge, no member.
pub(super) const NONE: u32 = u32::MAX;

/// A group of more members than this is closed with a vertex of its own, which waits for all of them, so that the members of
/// the next group have one edge each.
const GATHERED: u32 = 16;

/// The edges of a graph, and how many each vertex waits for. Its first vertices are the calls.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// By vertex, its last edge.
    first: Vec<u32>,
    edges: Vec<Edge>,
    /// By vertex, how many edges lead to it.
    pub waits: Vec<u32>,
    /// By vertex, the length of the longest path to it.
    pub levels: Vec<u32>,
    calls: u32,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    to: u32,
    /// The edge that was there before.
    next: u32,
}

impl Links {
    fn begin(&mut self, calls: usize) {
        self.calls = calls as u32;
        self.edges.clear();
        self.first.clear();
        self.first.resize(calls, NONE);
        self.waits.clear();
        self.waits.resize(calls, 0);
        self.levels.clear();
        self.levels.resize(calls, 0);
    }

    /// How many edges there are.
    pub fn edges(&self) -> usize {
        self.edges.len()
    }

    /// How many calls wait for others before they begin.
    pub fn waiting(&self) -> usize {
        self.waits[..self.calls as usize].iter().filter(|waits| **waits > 0).count()
    }

    /// The vertices that wait for this one.
    pub fn after(&self, vertex: u32) -> impl Iterator<Item = u32> {
        let edge = |at: u32| self.edges.get(at as usize).copied();
        std::iter::successors(edge(self.first[vertex as usize]), move |last| edge(last.next))
            .map(|edge| edge.to)
    }

    /// A vertex that is no call.
    fn gather(&mut self) -> u32 {
        self.first.push(NONE);
        self.waits.push(0);
        self.levels.push(0);
        (self.first.len() - 1) as u32
    }

    /// `to` waits for `from`. The edges to a vertex are made before those to any later one, so one that is there is the
    /// last.
    fn edge(&mut self, from: u32, to: u32) {
        let last = self.first[from as usize];
        if self.edges.get(last as usize).is_some_and(|edge| edge.to == to) {
            return;
        }
        self.first[from as usize] = self.edges.len() as u32;
        self.edges.push(Edge { to, next: last });
        self.waits[to as usize] += 1;
        let level = self.levels[from as usize] + u32::from(to < self.calls);
        let known = &mut self.levels[to as usize];
        *known = level.max(*known);
    }
}

/// A group of calls: a list of members.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    last: u32,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    vertex: u32,
    /// Who joined before.
    next: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    class: Class,
    open: Group,
    before: Group,
}

const EMPTY: Group = Group { last: NONE, count: 0 };

/// What links batches, one after another. Its memory is kept.
#[derive(Debug, Default)]
pub(super) struct Linker {
    cells: Cells<Cell>,
    members: Vec<Member>,
    granules: Granules,
    pieces: PieceLinker,
}

impl Linker {
    /// Makes the graph of calls that access this, but for those that are executed in pieces. Returns how many of the calls are
    /// executed one after another at the most, if they are whole.
    pub fn link<'a>(
        &mut self,
        links: &mut Links,
        (pieces, in_pieces): (&mut Pieces, bool),
        calls: impl Iterator<Item = &'a Footprint> + Clone,
    ) -> usize {
        self.members.clear();
        self.granules.clear();
        let (mut count, mut claims) = (0, 0);
        let (mut some_alone, mut some_sure) = (false, false);
        for call in calls.clone() {
            count += 1;
            claims += call.cells().len();
            some_alone |= call.is_alone();
            some_sure |= call.sure_from().is_some();
            claims += call.points().map(|(_, _, groups, _)| groups.count_ones() as usize + 1).sum::<usize>();
            claims += self.granules.add(call);
        }
        claims += calls.clone().map(|call| self.granules.beside_open(call)).sum::<usize>();
        claims += if some_alone { count } else { 0 };
        links.begin(count);
        work(Work::Cycles(CLAIM_CYCLES * claims as u64));
        pieces.begin(count);
        if some_sure && in_pieces {
            self.pieces.link(pieces, &self.granules, claims, calls.clone());
        }
        self.cells.begin(claims);
        for (call, footprint) in (0..).zip(calls).filter(|(call, _)| !pieces.has(*call)) {
            self.link_call(links, call, footprint, some_alone);
        }
        let depth = links.levels[..count].iter().max().map_or(0, |most| most + 1);
        depth.max(pieces.depth) as usize
    }

    fn link_call(&mut self, links: &mut Links, call: u32, footprint: &Footprint, some_alone: bool) {
        if some_alone {
            let class = if footprint.is_alone() { Class::Alone } else { Class::Reads };
            self.claim(links, call, ALL, class);
        }
        let granules = std::mem::take(&mut self.granules);
        granules.cells(footprint, |_, hash, class| self.claim(links, call, hash, class));
        self.granules = granules;
    }

    /// The call uses a cell.
    fn claim(&mut self, links: &mut Links, call: u32, hash: u64, class: Class) {
        let (at, known) = self.cells.find(hash);
        let Some(mut cell) = known else {
            let open = self.join(EMPTY, call);
            self.cells.set(at, hash, Cell { class, open, before: EMPTY });
            return;
        };
        let Member { vertex: last, next } = self.members[cell.open.last as usize];
        if last == call {
            if cell.class == class {
                return;
            }
            // It uses the cell in two ways: alone.
            cell.class = Class::Alone;
            if next != NONE {
                let others = Group { last: next, count: cell.open.count - 1 };
                cell.before = self.close(links, others);
                cell.open = self.join(EMPTY, call);
            }
        } else if cell.class == class && class.shares() {
            cell.open = self.join(cell.open, call);
            if planted(Mutant::GatheredBeforeDropped) {
                cell.before = EMPTY;
            }
        } else {
            cell.before = self.close(links, cell.open);
            (cell.open, cell.class) = (self.join(EMPTY, call), class);
        }
        self.cells.set(at, hash, cell);
        self.wait(links, cell.before, call);
    }

    fn join(&mut self, group: Group, vertex: u32) -> Group {
        self.members.push(Member { vertex, next: group.last });
        Group { last: (self.members.len() - 1) as u32, count: group.count + 1 }
    }

    /// Nobody joins the group any more.
    fn close(&mut self, links: &mut Links, group: Group) -> Group {
        if group.count <= GATHERED {
            return group;
        }
        let gather = links.gather();
        self.wait(links, group, gather);
        self.join(EMPTY, gather)
    }

    /// `vertex` waits for each of the group.
    fn wait(&self, links: &mut Links, group: Group, vertex: u32) {
        let mut at = group.last;
        while let Some(member) = self.members.get(at as usize) {
            links.edge(member.vertex, vertex);
            at = if planted(Mutant::GatheredSharersForgotten) { NONE } else { member.next };
        }
    }
}

/// What a call that is executed alone uses alone, and all others share.
const ALL: u64 = u64::MAX;

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::footprint::Usage::{self, Adds, Reads, Writes};
    use crate::footprint::{RelationId, nth};
    use crate::sync::Random;

    fn call(fill: impl FnOnce(&mut Footprint)) -> Footprint {
        let mut footprint = Footprint::default();
        fill(&mut footprint);
        footprint
    }

    fn links(calls: &[Footprint]) -> Links {
        let mut links = Links::default();
        Linker::default().link(&mut links, (&mut Pieces::default(), false), calls.iter());
        links
    }

    fn after(links: &Links, vertex: u32) -> Vec<u32> {
        let mut after: Vec<u32> = links.after(vertex).collect();
        after.sort_unstable();
        after
    }

    #[test]
    fn readers_share_and_a_writer_waits_for_them() {
        let of = |usage| move || call(|to| to.add_point(nth(3), &[7], 0b01, usage));
        let (write, read) = (of(Writes), of(Reads));
        let other = call(|to| to.add_point(nth(3), &[7], 0b10, Writes));
        let links = links(&[write(), read(), read(), other, write(), write()]);
        let expected: [&[u32]; 6] = [&[1, 2], &[4], &[4], &[], &[5], &[]];
        (0..6).for_each(|at| assert_eq!(after(&links, at), expected[at as usize], "after {at}"));
        assert_eq!(links.waits, [0, 1, 1, 0, 2, 1]);
        assert_eq!((links.edges(), links.waiting()), (5, 4));
        assert_eq!(links.levels, [0, 1, 1, 0, 2, 3]);
    }

    #[test]
    fn who_adds_waits_for_who_reads() {
        let of = |usage| call(|to| to.add_point(nth(3), &[7], 1, usage));
        let links = links(&[of(Adds), of(Adds), of(Reads), of(Adds), of(Writes)]);
        let expected: [&[u32]; 5] = [&[2], &[2], &[3], &[4], &[]];
        (0..5).for_each(|at| assert_eq!(after(&links, at), expected[at as usize], "after {at}"));
        assert_eq!(links.waits, [0, 0, 2, 1, 1]);
    }

    #[test]
    fn a_call_has_one_edge_to_another_and_none_to_itself() {
        let both = || {
            call(|to| {
                to.add_point(nth(0), &[1], 1, Reads);
                to.add_point(nth(0), &[1], 1, Writes);
                to.add_point(nth(0), &[2], 1, Writes);
                to.add_point(nth(0), &[2], 1, Reads);
                to.add_point(nth(0), &[3], 1, Adds);
                to.add_point(nth(0), &[3], 1, Reads);
            })
        };
        let links = links(&[both(), both()]);
        assert_eq!((after(&links, 0), after(&links, 1)), (vec![1], vec![]));
    }

    #[test]
    fn many_are_gathered() {
        let mut calls: Vec<Footprint> =
            (0..20).map(|_| call(|to| to.add_point(nth(0), &[1], 1, Reads))).collect();
        calls.extend((0..3).map(|_| call(|to| to.add_range(nth(0), &[1], &[1]))));
        let writer = |key| call(move |to| to.add_point(nth(0), &[key], 1, Writes));
        calls.push(writer(1));
        let links = links(&calls);
        let gather = calls.len() as u32;
        assert!((0..20).all(|at| after(&links, at) == [gather]));
        assert!((20..23).all(|at| after(&links, at) == [23]));
        assert_eq!(after(&links, gather), [23]);
        assert_eq!(links.levels[23], 1, "a gathering vertex is no level of its own");
        assert_eq!(links.waiting(), 1, "a gathering vertex is no call");
    }

    #[test]
    fn scans_meet_writes_within_their_granule() {
        let scan =
            |district| call(move |to| to.add_range(nth(5), &[1, district, 0], &[1, district, u64::MAX]));
        let insert = |district| call(move |to| to.add_point(nth(5), &[1, district, 9], 1, Writes));
        let links = links(&[insert(2), insert(2), scan(2), scan(2), insert(3), insert(2), scan(3)]);
        let expected: [&[u32]; 7] = [&[1, 2, 3], &[2, 3, 5], &[5], &[5], &[6], &[], &[]];
        (0..7).for_each(|at| assert_eq!(after(&links, at), expected[at as usize], "after {at}"));
    }

    /// Keys of several parts in one word: a range of one district is no other district's concern.
    #[test]
    fn granules_are_as_many_bits_as_ranges_share() {
        let key = |district: u64, order: u64| [district << 32 | order];
        let scan = |district, first| {
            call(move |to| to.add_range(nth(5), &key(district, first), &key(district, u64::from(u32::MAX))))
        };
        let insert = |district| call(move |to| to.add_point(nth(5), &key(district, 9), 1, Writes));
        let district_by_district = links(&[insert(2), scan(2, 0), insert(3), scan(3, 3), insert(2)]);
        let expected: [&[u32]; 5] = [&[1, 4], &[4], &[3], &[], &[]];
        (0..5)
            .for_each(|at| assert_eq!(after(&district_by_district, at), expected[at as usize], "after {at}"));
        // The widest range counts.
        let both = call(|to| to.add_range(nth(5), &key(2, 0), &key(3, 0)));
        assert_eq!(links(&[insert(2), scan(3, 0), both]).waits, [0, 1, 1]);
        // Ranges of one key, and of all.
        let one = || call(|to| to.add_range(nth(5), &key(2, 9), &key(2, 9)));
        assert_eq!(links(&[insert(2), one(), insert(3), one()]).waits, [0, 1, 0, 1]);
        let all = call(|to| to.add_range(nth(5), &[0], &[u64::MAX]));
        assert_eq!(links(&[insert(2), insert(3), all]).waits, [0, 0, 2]);
    }

    /// What has an open range meets all that access its granule, and nothing else.
    #[test]
    fn an_open_range_is_had_alone() {
        let point = |usage: Usage, list| call(move |to| to.add_point(nth(5), &[list, 9], 1, usage));
        let open = |list| call(move |to| to.add_open(nth(5), &[list, 0], &[list, u64::MAX]));
        let scan = |list| call(move |to| to.add_range(nth(5), &[list, 3], &[list, 4]));
        let beside = call(|to| to.add_point(nth(6), &[2, 9], 1, Writes));
        let links =
            links(&[point(Reads, 2), open(2), point(Adds, 2), scan(2), open(3), beside, open(2), open(2)]);
        let expected: [&[u32]; 8] = [&[1, 2], &[2, 3], &[3, 6], &[6], &[], &[], &[7], &[]];
        (0..8).for_each(|at| assert_eq!(after(&links, at), expected[at as usize], "after {at}"));
    }

    /// What has an unordered range meets nobody there, and makes no granules.
    #[test]
    fn an_unordered_range_keeps_nobody_waiting() {
        let write = |key| call(move |to| to.add_point(nth(5), &[2, key], 1, Writes));
        let look = || call(|to| to.add_unordered(nth(5), &[2, 0], &[2, u64::MAX]));
        let scan = |key| call(move |to| to.add_range(nth(5), &[2, key], &[2, key]));
        let links = links(&[write(1), look(), write(2), look(), scan(1), look(), write(1)]);
        let expected: [&[u32]; 7] = [&[4, 6], &[], &[], &[], &[6], &[], &[]];
        (0..7).for_each(|at| assert_eq!(after(&links, at), expected[at as usize], "after {at}"));
    }

    /// Whether the second must wait for the first.
    fn conflict(one: &Footprint, other: &Footprint) -> bool {
        let points = |one: &Footprint, other: &Footprint| {
            one.points().any(|(relation, key, groups, usage)| {
                other.points().any(|(of, at, others, used)| {
                    let shared = usage == used && usage != Writes;
                    relation == of && key == at && groups & others != 0 && !shared
                })
            })
        };
        let scans = |one: &Footprint, other: &Footprint| {
            one.points().any(|(relation, key, _, usage)| {
                let is_scanned = |(of, low, high): (RelationId, &[u64], &[u64])| {
                    of == relation && low <= key && key <= high
                };
                usage.changes() && other.ranges().any(is_scanned)
            })
        };
        let opens = |one: &Footprint, other: &Footprint| {
            one.open().any(|(relation, low, high)| {
                other.scans(relation, low, high) || other.touches(relation, low, high, false)
            })
        };
        let meet = |one: &Footprint, other: &Footprint| scans(one, other) || opens(one, other);
        points(one, other) || meet(one, other) || meet(other, one)
    }

    /// Whoever conflicts is ordered, and by a path from the first to the second.
    #[test]
    fn conflicts_are_ordered() {
        let mut linker = Linker::default();
        let mut links = Links::default();
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let calls: Vec<Footprint> = (0..40)
                .map(|_| {
                    call(|to| {
                        for _ in 0..random.below(4) {
                            let key = [random.below(2), random.below(5)];
                            let groups = random.below(3) as u32 + 1;
                            let usage = [Reads, Reads, Writes, Adds][random.below(4) as usize];
                            to.add_point(nth(random.below(2) as u32), &key, groups, usage);
                        }
                        if random.below(9) == 0 {
                            let of = random.below(3);
                            to.add_range(nth(0), &[of.min(1), 0], &[of.min(1), random.below(5)]);
                        }
                        if random.below(12) == 0 {
                            let (of, from) = (random.below(2), random.below(4));
                            to.add_open(
                                nth(random.below(2) as u32),
                                &[of, from],
                                &[of, from + random.below(2)],
                            );
                        }
                    })
                })
                .collect();
            linker.link(&mut links, (&mut Pieces::default(), false), calls.iter());
            let vertices = links.first.len();
            let mut waits = vec![0; vertices];
            // By vertex, those before it. Gone through until nothing is new, since gathering vertices have higher numbers than
            // those that wait for them.
            let mut before = vec![0_u128; vertices];
            let mut changed = true;
            while std::mem::take(&mut changed) {
                for from in 0..vertices {
                    for to in links.after(from as u32) {
                        let known = before[to as usize] | before[from] | 1 << from;
                        changed |= known != before[to as usize];
                        before[to as usize] = known;
                    }
                }
            }
            assert!(vertices <= 128);
            (0..vertices).for_each(|from| links.after(from as u32).for_each(|to| waits[to as usize] += 1));
            assert_eq!(waits, links.waits, "seed {seed}");
            let is_before = |first: usize, second: usize| before[second] & 1 << first != 0;
            for second in 0..calls.len() {
                assert!(!is_before(second, second), "seed {seed}: {second} waits for itself");
                for first in 0..second {
                    assert!(!is_before(second, first), "seed {seed}: {first} waits for {second}");
                    if conflict(&calls[first], &calls[second]) {
                        assert!(is_before(first, second), "seed {seed}: {second} does not wait for {first}");
                        assert!(links.levels[first] < links.levels[second], "seed {seed}: {first}, {second}");
                    }
                }
            }
        }
    }
}
