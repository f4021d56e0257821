//! Deadlock-prone SC-cycles, and the merging of pieces that removes them (IC3 §3.3).
//!
//! # Problem
//!
//! A runtime enforces the order in which transactions met by letting later pieces wait. If two types
//! meet on two tables in opposite orders, each may have to wait for the other. Such a cycle leads forward along
//! its S-edges all the way round:
//!
//! ```text
//!   T1  [tab1]--S-->[tab2]           T1.tab1 before T1.tab2, which conflicts with
//!          \ C          / C          T2.tab2 before T2.tab1, which conflicts with
//!           \          /             T1.tab1: a deadlock-prone SC-cycle
//!   T2  [tab2]--S-->[tab1]
//! ```
//!
//! # Mechanism
//!
//! Pieces joined by C-edges are put into one *vertex*; the S-edges then lead from vertex to vertex. While
//! there is a directed cycle, its vertices are contracted to one. In the end the pieces of one
//! transaction in one vertex are one piece. Pieces without C-edges are vertices too, so that one lying
//! between two pieces that have to be merged is merged with them (test: `what_lies_between_is_swallowed`).
//!
//! The cycles are contracted one by one, the shortest through the first vertex first, and each is kept as
//! the reason of what it merged: a [`Cycle`] of steps from site to site, which can be told in words. Which of
//! several cycles is told depends on that order; what is merged does not, because in the end each strongly
//! connected component is one vertex.
//!
//! Optimistic constraint (IC3 §4.1) moves the wait from before a piece's execution to before its commit.
//! The graph is the same; but the dependencies that a piece finds in its own commit bind only from the next piece
//! on, and that is sound only because deadlock-prone cycles were merged here.
//!
//! [`Method::Chopping`] instead removes every SC-cycle, as transaction chopping has to, whose runtime does
//! not wait: pieces of a transaction are merged if they are joined by a path that does not use its own
//! S-edges. Then no type keeps more than one piece with C-edges (DBX-TC theorem 1; test:
//! `chopping_leaves_one_conflict_piece`).

use crate::graph::{PieceId, ScGraph, SiteId};
use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::Range;

/// Which SC-cycles have to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Deadlock-prone ones; the others are left to the runtime (IC3).
    #[default]
    Ic3,
    /// All (transaction chopping).
    Chopping,
}

/// A merging of pieces, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The SC-cycle that forced it.
    pub cycle: Cycle,
    /// What became one piece: pieces before merging, by type.
    pub merged: Vec<Range<PieceId>>,
}

/// An SC-cycle, from site to site; it ends where it began, in the same or another transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Its steps; each begins in the piece where the one before ended.
    pub steps: Vec<CycleStep>,
}

/// A step of an SC-cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleStep {
    /// Along S-edges, within a transaction.
    Sibling {
        /// The site where it begins.
        from: SiteId,
        /// The site where it ends: a later one in a deadlock-prone cycle.
        to: SiteId,
    },
    /// Along a C-edge, to another transaction.
    Conflict {
        /// The site where it begins.
        from: SiteId,
        /// The site that conflicts with it.
        to: SiteId,
        /// The edge's place in [`ScGraph::edges`].
        edge: usize,
    },
    /// Within a piece that an earlier merging made.
    Merged {
        /// The site where it begins.
        from: SiteId,
        /// The site where it ends.
        to: SiteId,
    },
}

/// What merging leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// For each piece before merging, its vertex: the smallest piece in it.
    pub vertex: Vec<PieceId>,
    /// For each piece before merging, whether it is one with the next of its type.
    pub joined: Vec<bool>,
    /// What was merged, in that order.
    pub merges: Vec<Merge>,
}

/// Merges pieces until no SC-cycle of the kind that the method forbids is left.
pub fn merge(graph: &ScGraph, method: Method) -> Merged {
    let pieces = graph.pieces.len();
    let mut state =
        State { graph, vertex: (0..pieces).collect(), joined: vec![false; pieces], merges: Vec::new() };
    for edge in &graph.edges {
        state.contract(&[edge.from, edge.to]);
    }
    if method == Method::Chopping {
        (0..graph.types.len()).for_each(|transaction| state.chop(transaction));
    }
    // What chopping leaves has no directed cycle either, unless a swallowed piece made one.
    while let Some(hops) = state.inner_hop().map(|hop| vec![hop]).or_else(|| state.shortest_cycle()) {
        state.remove(&hops);
    }
    Merged { vertex: state.vertex, joined: state.joined, merges: state.merges }
}

struct State<'a> {
    graph: &'a ScGraph,
    /// The smallest piece of each piece's vertex.
    vertex: Vec<PieceId>,
    joined: Vec<bool>,
    merges: Vec<Merge>,
}

impl State<'_> {
    /// One vertex of all that hold these pieces.
    fn contract(&mut self, pieces: &[PieceId]) {
        let olds: Vec<PieceId> = pieces.iter().map(|&piece| self.vertex[piece]).collect();
        let Some(&new) = olds.iter().min() else { return };
        if olds.iter().any(|&old| old != new) {
            self.vertex.iter_mut().filter(|vertex| olds.contains(vertex)).for_each(|vertex| *vertex = new);
        }
    }

    /// The S-edges that are left: each from a piece to the next.
    fn hops(&self) -> impl Iterator<Item = PieceId> {
        (0..self.joined.len()).filter(|&piece| !self.joined[piece] && self.graph.next(piece).is_some())
    }

    /// The first S-edge that does not leave its vertex: a cycle of one.
    fn inner_hop(&self) -> Option<PieceId> {
        self.hops().find(|&piece| self.vertex[piece] == self.vertex[piece + 1])
    }

    /// The S-edges of the shortest cycle through the first vertex that is on one.
    fn shortest_cycle(&self) -> Option<Vec<PieceId>> {
        let mut out = vec![Vec::new(); self.vertex.len()];
        self.hops().for_each(|hop| out[self.vertex[hop]].push(hop));
        let start = first_on_a_cycle(&self.vertex, &out)?;
        // Breadth first; each vertex knows the S-edge by which it was reached.
        let mut by: Vec<Option<PieceId>> = vec![None; self.vertex.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(vertex) = queue.pop_front() {
            for &hop in &out[vertex] {
                let reached = self.vertex[hop + 1];
                if by[reached].is_none() {
                    by[reached] = Some(hop);
                    queue.push_back(reached);
                }
            }
        }
        let mut hops = vec![by[start]?];
        while self.vertex[hops[hops.len() - 1]] != start {
            hops.push(by[self.vertex[hops[hops.len() - 1]]]?);
        }
        hops.reverse();
        Some(hops)
    }

    /// Contracts a cycle of S-edges, given by the pieces that they leave, and keeps it as a reason.
    fn remove(&mut self, hops: &[PieceId]) {
        let cycle = self.tell(hops);
        self.contract(hops);
        let mut merged: Vec<Range<PieceId>> = Vec::new();
        for &hop in hops {
            if self.joined[hop] {
                continue;
            }
            let run = self.run(hop);
            self.joined[run.start..run.end - 1].fill(true);
            merged.push(run);
        }
        merged.sort_by_key(|run| run.start);
        self.merges.push(Merge { cycle, merged });
    }

    /// The neighbours of a piece that are of its type and in its vertex.
    fn run(&self, piece: PieceId) -> Range<PieceId> {
        let of_type = &self.graph.types[self.graph.pieces[piece].transaction].pieces;
        let inside = |other: &PieceId| self.vertex[*other] == self.vertex[piece];
        let start = (of_type.start..piece).rev().take_while(inside).last().unwrap_or(piece);
        let end = (piece..of_type.end).take_while(inside).last().unwrap_or(piece);
        start..end + 1
    }

    /// A cycle of S-edges, with what leads from the end of each to the begin of the next.
    fn tell(&self, hops: &[PieceId]) -> Cycle {
        // Successive S-edges of one transaction are one step; the first of them is where to begin.
        let follows = |hop: PieceId, next: PieceId| hop + 1 == next && hops.len() > 1;
        let last = hops[hops.len() - 1];
        let begins = (0..hops.len())
            .find(|&at| !follows(if at == 0 { last } else { hops[at - 1] }, hops[at]))
            .unwrap_or(0);
        let mut stretches: Vec<Range<PieceId>> = Vec::new();
        for &hop in hops[begins..].iter().chain(&hops[..begins]) {
            match stretches.last_mut() {
                Some(stretch) if stretch.end == hop => stretch.end = hop + 1,
                _ => stretches.push(hop..hop + 1),
            }
        }
        let mut legs = Vec::new();
        for (at, stretch) in stretches.iter().enumerate() {
            let next = stretches[(at + 1) % stretches.len()].start;
            legs.push(Leg::Sibling(stretch.start, stretch.end));
            legs.extend(self.link(stretch.end, next));
        }
        self.at_sites(&legs)
    }

    /// The shortest way from one piece to another in the same vertex, by C-edges and through merged pieces.
    fn link(&self, from: PieceId, to: PieceId) -> Vec<Leg> {
        let mut by: Vec<Option<Leg>> = vec![None; self.vertex.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(piece) = queue.pop_front() {
            if piece == to {
                break;
            }
            let conflicts = self.graph.of_piece(piece).map(|(edge, to)| Leg::Conflict(piece, to, edge));
            let before = piece.checked_sub(1).filter(|&before| self.joined[before]);
            let after = self.joined[piece].then_some(piece + 1);
            let siblings = before.into_iter().chain(after).map(|to| Leg::Merged(piece, to));
            for leg in conflicts.chain(siblings) {
                let reached = leg.end();
                if reached != from && by[reached].is_none() {
                    by[reached] = Some(leg);
                    queue.push_back(reached);
                }
            }
        }
        walk_back(&by, from, to)
    }

    /// Merges the pieces of a type that are joined by a path without its own S-edges, in one of two
    /// instances (transaction chopping).
    fn chop(&mut self, transaction: usize) {
        let own = self.graph.types[transaction].pieces.clone();
        let mut first = own.start;
        while first < own.end {
            let by = self.without_siblings(first);
            // The cycle is told for the first piece that is reached, and merges all up to the last.
            let reached: Vec<PieceId> = (first + 1..own.end).filter(|&piece| by[piece].is_some()).collect();
            let Some((&next, &last)) = reached.first().zip(reached.last()) else {
                first += 1;
                continue;
            };
            let mut legs = vec![Leg::Sibling(first, next)];
            legs.extend(walk_back(&by, first, next).into_iter().rev().map(Leg::back));
            // The other instance's pieces are numbered behind all pieces.
            let pieces = self.graph.pieces.len();
            let plain = |leg: Leg| match leg {
                Leg::Sibling(from, to) => Leg::Sibling(from % pieces, to % pieces),
                Leg::Conflict(from, to, edge) => Leg::Conflict(from % pieces, to % pieces, edge),
                Leg::Merged(from, to) => Leg::Merged(from % pieces, to % pieces),
            };
            let cycle = self.at_sites(&join_siblings(legs.into_iter().map(plain).collect()));
            self.contract(&(first..=last).collect::<Vec<_>>());
            self.joined[first..last].fill(true);
            self.merges.push(Merge { cycle, merged: std::iter::once(first..last + 1).collect() });
            first = last + 1;
        }
    }

    /// How each piece is reached from a piece of an instance that may not use its own S-edges. The other
    /// instance of its type has the numbers behind all pieces.
    fn without_siblings(&self, first: PieceId) -> Vec<Option<Leg>> {
        let pieces = self.graph.pieces.len();
        let own = &self.graph.types[self.graph.pieces[first].transaction].pieces;
        let mut by: Vec<Option<Leg>> = vec![None; 2 * pieces];
        let mut queue = VecDeque::from([first]);
        while let Some(at) = queue.pop_front() {
            let (piece, other_instance) = (at % pieces, at >= pieces);
            let is_own = own.contains(&piece);
            let mut legs = Vec::new();
            for (edge, to) in self.graph.of_piece(piece) {
                // Between instances of one type an edge changes the instance; between types it may.
                if !(is_own && own.contains(&to)) || other_instance {
                    legs.push(Leg::Conflict(at, to, edge));
                }
                if own.contains(&to) && !other_instance {
                    legs.push(Leg::Conflict(at, to + pieces, edge));
                }
            }
            if !is_own || other_instance {
                let base = at - piece;
                let of_type = &self.graph.types[self.graph.pieces[piece].transaction].pieces;
                let around = [piece.checked_sub(1), Some(piece + 1)];
                let around = around.into_iter().flatten().filter(|other| of_type.contains(other));
                legs.extend(around.map(|other| Leg::Sibling(at, base + other)));
            }
            for leg in legs {
                let reached = leg.end();
                if reached != first && by[reached].is_none() {
                    by[reached] = Some(leg);
                    queue.push_back(reached);
                }
            }
        }
        by
    }

    /// Steps from piece to piece as steps from site to site: those that conflict, where there is a conflict.
    fn at_sites(&self, legs: &[Leg]) -> Cycle {
        let conflicting = |leg: Leg, piece: PieceId| match leg {
            Leg::Conflict(from, _, edge) => {
                let edge = &self.graph.edges[edge];
                let ends = if edge.from == from { edge.sites } else { (edge.sites.1, edge.sites.0) };
                Some(if from == piece { ends.0 } else { ends.1 })
            }
            _ => None,
        };
        let site = |near: Leg, piece: PieceId| {
            conflicting(near, piece).unwrap_or(self.graph.pieces[piece].sites.start)
        };
        let count = legs.len();
        let steps = legs.iter().enumerate().map(|(at, &leg)| {
            let (before, after) = (legs[(at + count - 1) % count], legs[(at + 1) % count]);
            match leg {
                Leg::Sibling(from, to) => {
                    CycleStep::Sibling { from: arrival(self, before, from), to: site(after, to) }
                }
                Leg::Merged(from, to) => {
                    CycleStep::Merged { from: arrival(self, before, from), to: site(after, to) }
                }
                Leg::Conflict(from, _, edge) => {
                    let told = &self.graph.edges[edge];
                    let (one, two) = told.sites;
                    let (from, to) = if told.from == from { (one, two) } else { (two, one) };
                    CycleStep::Conflict { from, to, edge }
                }
            }
        });
        Cycle { steps: steps.collect() }
    }
}

/// The site where a step ends that arrives at a piece.
fn arrival(state: &State<'_>, leg: Leg, piece: PieceId) -> SiteId {
    match leg {
        Leg::Conflict(from, _, edge) => {
            let edge = &state.graph.edges[edge];
            if edge.from == from { edge.sites.1 } else { edge.sites.0 }
        }
        _ => state.graph.pieces[piece].sites.start,
    }
}

/// A step from piece to piece.
#[derive(Clone, Copy, Debug)]
enum Leg {
    Sibling(PieceId, PieceId),
    Conflict(PieceId, PieceId, usize),
    Merged(PieceId, PieceId),
}

impl Leg {
    fn begin(self) -> PieceId {
        match self {
            Leg::Sibling(from, _) | Leg::Conflict(from, _, _) | Leg::Merged(from, _) => from,
        }
    }

    /// The same step the other way.
    fn back(self) -> Self {
        match self {
            Leg::Sibling(from, to) => Leg::Sibling(to, from),
            Leg::Conflict(from, to, edge) => Leg::Conflict(to, from, edge),
            Leg::Merged(from, to) => Leg::Merged(to, from),
        }
    }

    fn end(self) -> PieceId {
        match self {
            Leg::Sibling(_, to) | Leg::Conflict(_, to, _) | Leg::Merged(_, to) => to,
        }
    }
}

/// The way that a search found; empty if the two are the same.
fn walk_back(by: &[Option<Leg>], from: PieceId, to: PieceId) -> Vec<Leg> {
    let mut legs = Vec::new();
    let mut at = to;
    while at != from {
        let Some(leg) = by[at] else { break };
        legs.push(leg);
        at = leg.begin();
    }
    legs.reverse();
    // Steps within one merged piece are one step.
    legs.dedup_by(|next, before| match (*before, *next) {
        (Leg::Merged(from, _), Leg::Merged(_, to)) => {
            *before = Leg::Merged(from, to);
            true
        }
        _ => false,
    });
    legs
}

/// Successive steps along S-edges of one transaction as one.
fn join_siblings(mut legs: Vec<Leg>) -> Vec<Leg> {
    legs.dedup_by(|next, before| match (*before, *next) {
        (Leg::Sibling(from, at), Leg::Sibling(again, to)) if at == again => {
            *before = Leg::Sibling(from, to);
            true
        }
        _ => false,
    });
    legs
}

/// The smallest vertex that is on a directed cycle of at least two: Tarjan's components, without recursion.
fn first_on_a_cycle(vertex: &[PieceId], out: &[Vec<PieceId>]) -> Option<PieceId> {
    const UNSEEN: usize = usize::MAX;
    let (mut order, mut low) = (vec![UNSEEN; vertex.len()], vec![UNSEEN; vertex.len()]);
    let mut on_stack = vec![false; vertex.len()];
    let (mut stack, mut seen, mut first) = (Vec::new(), 0, None);
    for root in (0..vertex.len()).filter(|&piece| vertex[piece] == piece) {
        if order[root] != UNSEEN {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some((at, nth)) = path.pop() {
            if nth == 0 {
                (order[at], low[at], on_stack[at]) = (seen, seen, true);
                seen += 1;
                stack.push(at);
            } else {
                low[at] = low[at].min(low[vertex[out[at][nth - 1] + 1]]);
            }
            let mut nth = nth;
            let mut descend = None;
            while let Some(&hop) = out[at].get(nth) {
                let to = vertex[hop + 1];
                nth += 1;
                if order[to] == UNSEEN {
                    descend = Some(to);
                    break;
                }
                if on_stack[to] {
                    low[at] = low[at].min(order[to]);
                }
            }
            if let Some(to) = descend {
                path.push((at, nth));
                path.push((to, 0));
                continue;
            }
            if low[at] == order[at] {
                let from = stack.iter().rposition(|&one| one == at).unwrap_or(0);
                let component = stack.split_off(from);
                component.iter().for_each(|&one| on_stack[one] = false);
                // Done with: it must not lower anybody any more.
                component.iter().for_each(|&one| low[one] = UNSEEN);
                if component.len() > 1 {
                    first = first.into_iter().chain(component).min();
                }
            }
        }
    }
    first
}

impl ScGraph {
    /// The C-edges of a piece with the pieces at their other ends.
    fn of_piece(&self, piece: PieceId) -> impl Iterator<Item = (usize, PieceId)> {
        self.edge_places(piece).iter().map(move |&edge| (edge, self.edges[edge].other(piece)))
    }

    /// A site in words: `` new_order's `insert order` (line 16) ``.
    pub fn site_in_words(&self, site: SiteId) -> String {
        format!("{}'s {}", self.types[self.sites[site].transaction].name, self.access_in_words(site))
    }

    /// A site's access in words: `` `insert order` (line 16) ``.
    pub fn access_in_words(&self, site: SiteId) -> String {
        let access = &self.sites[site].access;
        let line = if access.line > 0 { format!(" (line {})", access.line) } else { String::new() };
        format!("`{} {}`{line}", access.mode.word(), access.table)
    }
}

impl CycleStep {
    /// The site where it ends.
    pub fn to(&self) -> SiteId {
        match *self {
            Self::Sibling { to, .. } | Self::Conflict { to, .. } | Self::Merged { to, .. } => to,
        }
    }
}

impl Cycle {
    /// The types that take part, in the graph's order.
    pub fn types(&self, graph: &ScGraph) -> Vec<usize> {
        let ends = self.steps.iter().flat_map(|step| match *step {
            CycleStep::Sibling { from, to }
            | CycleStep::Merged { from, to }
            | CycleStep::Conflict { from, to, .. } => [from, to],
        });
        let mut types: Vec<usize> = ends.map(|site| graph.sites[site].transaction).collect();
        types.sort_unstable();
        types.dedup();
        types
    }

    /// The cycle as a sentence.
    pub fn words(&self, graph: &ScGraph) -> String {
        let mut words = String::new();
        // Where the step before ended: a cycle begins along an S-edge.
        let mut arrived = usize::MAX;
        for (at, step) in self.steps.iter().enumerate() {
            let last = at + 1 == self.steps.len();
            match *step {
                CycleStep::Sibling { from, to } => {
                    let order = if from <= to { "comes before" } else { "comes after" };
                    let (one, two) = (graph.site_in_words(from), graph.access_in_words(to));
                    let head = if at == 0 { one } else { format!("there {}", graph.access_in_words(from)) };
                    let _ = write!(words, "{head} {order} {two}");
                }
                CycleStep::Conflict { from, to, .. } => {
                    let (one, two) = (&graph.sites[from], &graph.sites[to]);
                    let whose = if one.transaction == two.transaction {
                        format!(
                            "{} of another {}",
                            graph.access_in_words(to),
                            graph.types[two.transaction].name
                        )
                    } else {
                        graph.site_in_words(to)
                    };
                    if arrived != from {
                        let _ = write!(words, "which is in one piece with {}, ", graph.access_in_words(from));
                    }
                    let _ = write!(words, "which conflicts with {whose} on {}", graph.meeting(from, to));
                }
                CycleStep::Merged { from: _, to } => {
                    let _ = write!(words, "which is already one piece with {}", graph.access_in_words(to));
                }
            }
            arrived = step.to();
            words.push_str(if last {
                ""
            } else {
                match self.steps[at + 1] {
                    CycleStep::Sibling { .. } => "; ",
                    _ => ", ",
                }
            });
        }
        words
    }
}
