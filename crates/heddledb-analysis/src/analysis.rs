//! The result by type: pieces, ranks, waits, rendezvous pieces, where user aborts are harmless.
//!
//! # Ranks
//!
//! After merging, the vertices of the SC-graph have no directed cycle, so each gets a *rank*: one more than
//! the highest rank from which an S-edge leads to it. All waits of a runtime are then one rule: a piece of
//! rank `k` waits until each transaction that its own depends on has executed a conflict piece of rank `k`
//! or more, or has committed. That never waits longer than IC3's algorithm 1 with the rendezvous pieces of
//! §4.2 (test: `sound` in `tests/naive/main.rs`). Those waits are listed here to be read; a runtime needs the
//! ranks alone. Within a type ranks rise. Pieces without C-edges (*raw*) have a rank that says where they
//! stand; nobody waits for them, and they wait for nobody.
//!
//! # Waits
//!
//! A transaction that depends on another waits before its conflict piece `p`
//!
//! - until the piece that has a C-edge with `p` is done (case 2);
//! - or else, if a later piece `q` has a C-edge with a piece `r` of the other, until `r` is done, the
//!   *rendezvous piece* (§4.2): `r` has a higher rank than `p`;
//! - or else until the other has committed (case 3).
//!
//! It can depend on the other only if an earlier piece has a C-edge with it; where none has, there is
//! no wait to be listed.
//!
//! # User aborts
//!
//! Others may have read what a piece wrote once it is done, so a user abort after that takes them along
//! (IC3 §4.4). Until the first piece that *exposes* a write is done, an abort harms nobody. Additions are
//! deferred to the commit and expose nothing.

use crate::deferral::{Entangled, entangled};
use crate::footprint::Granularity;
use crate::graph::{PieceId, ScGraph, SiteId};
use crate::merge::{Merge, Method, merge};
use crate::workload::Workload;
use std::collections::BTreeSet;
use std::ops::Range;

/// How to analyse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What a conflict is about.
    pub granularity: Granularity,
    /// Which SC-cycles have to go.
    pub method: Method,
    /// Additions commute. If not, one is a read and a write.
    pub commutative: bool,
    /// Accesses marked as causal have no C-edges. If not, the mark is ignored.
    pub causal: bool,
    /// What comes before the first access marked `no_abort` is one piece, and so is all of a type without that
    /// mark: for runtimes whose pieces commit one by one, which have nothing to roll back with later
    /// (transaction chopping).
    pub rollback_safe: bool,
    /// Additions that are marked as deferred take effect later, where [`Analysis::entangled`] finds nothing against it. If
    /// not, the mark is ignored.
    pub defer: bool,
}

/// What an analysis found.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// How it was made.
    pub options: Options,
    /// The graph before merging.
    pub graph: ScGraph,
    /// What was merged, in that order, and why.
    pub merges: Vec<Merge>,
    /// The types, in the workload's order.
    pub types: Vec<TypeAnalysis>,
    /// The vertices, by rank and then by their first piece.
    pub vertices: Vec<Vertex>,
    /// The types that run on snapshots and take no part.
    pub snapshots: Vec<String>,
    /// Why additions that are marked as deferred must not be, if there is a reason.
    pub entangled: Option<Entangled>,
}

/// What an analysis found of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeAnalysis {
    /// What it is called.
    pub name: String,
    /// Its pieces after merging, in order.
    pub pieces: Vec<MergedPiece>,
    /// The first piece that exposes a write, and the site that does. User aborts are harmless until that piece is
    /// done; everywhere, if there is none.
    pub first_exposed: Option<(usize, SiteId)>,
}

/// A piece after merging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedPiece {
    /// The pieces before merging that it consists of.
    pub before: Range<PieceId>,
    /// Its sites.
    pub sites: Range<SiteId>,
    /// Its vertex, a place in [`Analysis::vertices`].
    pub vertex: usize,
    /// The rank of that vertex, from 1.
    pub rank: u32,
    /// It has a C-edge.
    pub conflict: bool,
    /// It is on an SC-cycle that merging left: a runtime has to track what meets here. A conflict piece
    /// whose vertex no type with a second conflict piece touches is serialized by its own atomicity.
    pub tracked: bool,
    /// The merges that made it, places in [`Analysis::merges`].
    pub merges: Vec<usize>,
    /// The rendezvous pieces, by type (IC3 §4.2).
    pub rendezvous: Vec<Rendezvous>,
    /// What it may have to wait for, by type.
    pub waits: Vec<Wait>,
}

/// The pieces of a type that vouch for a piece without a direct C-edge to that type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendezvous {
    /// The other type's place.
    pub with: usize,
    /// Its pieces that have a C-edge with a later piece of the type, in order. The first is enough.
    pub pieces: Vec<usize>,
}

/// A wait of a piece for a transaction that its own depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The other transaction's type.
    pub on: usize,
    /// How long.
    pub until: Until,
}

/// How long to wait for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until this piece of it is done, which has a C-edge with the one that waits (case 2).
    Piece(usize),
    /// Until this piece of it is done, which has a C-edge with a later one (§4.2).
    Rendezvous(usize),
    /// Until it has committed (case 3).
    Commit,
}

/// A vertex after merging: pieces that are joined by C-edges, at most one of each type; or a raw piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vertex {
    /// Its rank, from 1.
    pub rank: u32,
    /// Its pieces: type, and place in [`TypeAnalysis::pieces`].
    pub pieces: Vec<(usize, usize)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            granularity: Granularity::default(),
            method: Method::default(),
            commutative: true,
            causal: true,
            rollback_safe: false,
            defer: false,
        }
    }
}

/// Analyses a workload.
pub fn analyse(workload: &Workload, options: &Options) -> Analysis {
    let graph = ScGraph::new(workload, options);
    let merged = merge(&graph, options.method);
    let ranks = ranks(&graph, &merged.vertex, &merged.joined);

    let mut representatives: Vec<PieceId> =
        (0..graph.pieces.len()).filter(|&piece| merged.vertex[piece] == piece).collect();
    representatives.sort_by_key(|&piece| (ranks[piece], piece));
    let mut vertices: Vec<Vertex> = Vec::new();
    let mut places = vec![0; graph.pieces.len()];
    for &piece in &representatives {
        places[piece] = vertices.len();
        vertices.push(Vertex { rank: ranks[piece], pieces: Vec::new() });
    }

    let mut types: Vec<TypeAnalysis> = Vec::new();
    for (transaction, of_type) in graph.types.iter().enumerate() {
        let mut pieces: Vec<MergedPiece> = Vec::new();
        let mut first = of_type.pieces.start;
        for piece in of_type.pieces.clone().filter(|&piece| !merged.joined[piece]) {
            let before = first..piece + 1;
            first = before.end;
            let vertex = places[merged.vertex[piece]];
            vertices[vertex].pieces.push((transaction, pieces.len()));
            let made = |merge: &Merge| merge.merged.iter().any(|run| before.contains(&run.start));
            pieces.push(MergedPiece {
                sites: graph.pieces[before.start].sites.start..graph.pieces[piece].sites.end,
                vertex,
                rank: vertices[vertex].rank,
                conflict: before.clone().any(|piece| graph.edges_of(piece).next().is_some()),
                tracked: false,
                merges: (0..merged.merges.len()).filter(|&at| made(&merged.merges[at])).collect(),
                rendezvous: Vec::new(),
                waits: Vec::new(),
                before,
            });
        }
        let exposes = |piece: &MergedPiece| piece.sites.clone().find(|&site| graph.sites[site].exposed);
        let first_exposed =
            pieces.iter().enumerate().find_map(|(at, piece)| exposes(piece).map(|site| (at, site)));
        types.push(TypeAnalysis { name: of_type.name.clone(), pieces, first_exposed });
    }
    if options.method == Method::Chopping {
        // DBX-TC's theorem 1: a second one is on an SC-cycle with the first, through another instance of its type.
        let most = types.iter().map(TypeAnalysis::conflict_pieces).max();
        assert!(most.unwrap_or(0) <= 1, "chopping left a type two conflict pieces");
    }
    track(&mut types, &vertices);
    wait(&mut types, &graph);

    let snapshots = workload.transactions.iter().filter(|transaction| transaction.on_snapshot());
    let snapshots = snapshots.map(|transaction| transaction.name.clone()).collect();
    let entangled = entangled(&graph);
    Analysis { options: *options, graph, merges: merged.merges, types, vertices, snapshots, entangled }
}

impl Analysis {
    /// The type of that name.
    pub fn of_type(&self, name: &str) -> Option<&TypeAnalysis> {
        self.types.iter().find(|one| one.name == name)
    }

    /// The C-edges between pieces after merging, each once, in order: `(type, piece)` twice, and the edges
    /// before merging that it stands for.
    pub fn edges(&self) -> Vec<[(usize, usize); 2]> {
        let after = self.after();
        let ends = |edge: &crate::graph::CEdge| {
            let mut ends = [after[edge.from], after[edge.to]];
            ends.sort_unstable();
            ends
        };
        let all: BTreeSet<_> = self.graph.edges.iter().map(ends).collect();
        all.into_iter().collect()
    }

    /// For each piece before merging, its type and the place of the piece that it became part of.
    pub fn after(&self) -> Vec<(usize, usize)> {
        after(&self.types, self.graph.pieces.len())
    }
}

impl TypeAnalysis {
    /// How many of its pieces have C-edges.
    pub fn conflict_pieces(&self) -> usize {
        self.pieces.iter().filter(|piece| piece.conflict).count()
    }
}

/// The rank of each vertex that is its own representative: the longest way to it along S-edges.
fn ranks(graph: &ScGraph, vertex: &[PieceId], joined: &[bool]) -> Vec<u32> {
    let hops = || (0..vertex.len()).filter(|&piece| !joined[piece] && graph.next(piece).is_some());
    let mut out = vec![Vec::new(); vertex.len()];
    let mut missing = vec![0usize; vertex.len()];
    for hop in hops() {
        out[vertex[hop]].push(vertex[hop + 1]);
        missing[vertex[hop + 1]] += 1;
    }
    let mut ranks = vec![1; vertex.len()];
    let mut ready: Vec<PieceId> =
        (0..vertex.len()).filter(|&piece| vertex[piece] == piece && missing[piece] == 0).collect();
    let mut done = 0;
    while let Some(at) = ready.pop() {
        done += 1;
        for &next in &out[at] {
            ranks[next] = ranks[next].max(ranks[at] + 1);
            missing[next] -= 1;
            if missing[next] == 0 {
                ready.push(next);
            }
        }
    }
    let vertices = (0..vertex.len()).filter(|&piece| vertex[piece] == piece).count();
    assert_eq!(done, vertices, "merging left a directed cycle");
    ranks
}

/// Marks the conflict pieces that are on an SC-cycle. A type with two conflict pieces `p` and `q` has one
/// through both: `p`, `p`'s neighbour, `p` of another instance, `q` there, `q`'s neighbour, `q`; and it passes
/// through any neighbour of either.
fn track(types: &mut [TypeAnalysis], vertices: &[Vertex]) {
    let several: Vec<bool> = types.iter().map(|one| one.conflict_pieces() > 1).collect();
    for piece in types.iter_mut().flat_map(|one| &mut one.pieces) {
        let touched = vertices[piece.vertex].pieces.iter().any(|&(of_type, _)| several[of_type]);
        piece.tracked = piece.conflict && touched;
    }
}

fn after(types: &[TypeAnalysis], pieces: usize) -> Vec<(usize, usize)> {
    let mut after = vec![(0, 0); pieces];
    for (transaction, one) in types.iter().enumerate() {
        for (at, piece) in one.pieces.iter().enumerate() {
            after[piece.before.clone()].fill((transaction, at));
        }
    }
    after
}

/// Fills in waits and rendezvous pieces.
fn wait(types: &mut [TypeAnalysis], graph: &ScGraph) {
    let after = after(types, graph.pieces.len());
    // For each piece and other type, the piece there that it has a C-edge with. There is one at most: it is
    // in the same vertex.
    let direct: Vec<Vec<Vec<Option<usize>>>> = types
        .iter()
        .map(|one| {
            let partners = |piece: &MergedPiece| {
                let mut partners = vec![None; graph.types.len()];
                for other in piece.before.clone().flat_map(|before| graph.neighbours(before)) {
                    partners[after[other].0] = Some(after[other].1);
                }
                partners
            };
            one.pieces.iter().map(partners).collect()
        })
        .collect();
    for (transaction, one) in types.iter_mut().enumerate() {
        let direct = &direct[transaction];
        for at in (0..one.pieces.len()).filter(|&at| one.pieces[at].conflict).collect::<Vec<_>>() {
            for with in 0..graph.types.len() {
                let pieces: Vec<usize> = direct[at + 1..].iter().filter_map(|later| later[with]).collect();
                let until = match (direct[at][with], pieces.first()) {
                    (Some(piece), _) => Until::Piece(piece),
                    (None, Some(&piece)) => Until::Rendezvous(piece),
                    (None, None) => Until::Commit,
                };
                let piece = &mut one.pieces[at];
                if matches!(until, Until::Rendezvous(_)) {
                    piece.rendezvous.push(Rendezvous { with, pieces });
                }
                if direct[..at].iter().any(|earlier| earlier[with].is_some()) {
                    piece.waits.push(Wait { on: with, until });
                }
            }
        }
    }
}
