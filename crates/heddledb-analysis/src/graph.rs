//! The SC-graph: sites, the pieces that they are cut into, and the C-edges between pieces (IC3 §3.1).
//!
//! The graph holds each transaction type once and means it twice. A C-edge between pieces of different types
//! stands for edges between all their instances; a C-edge between pieces of one type, or of a piece with
//! itself, stands for edges between *two* instances of it. S-edges need no list: each leads from a piece to
//! the next of its type.
//!
//! That one copy is enough for merging: a directed cycle of the graph with two instances maps to one here.
//! And one here leads back to one there. Pieces with C-edges stand in vertices that both instances share,
//! or else, where `p` and `q` of one type conflict but neither does so with itself, the two vertices
//! `{p, q'}` and `{p', q}` are on a cycle of their own. Pieces without C-edges lie between such vertices on
//! one instance's S-edges. The tests compare with a second implementation that has both copies.

use crate::analysis::Options;
use crate::footprint::{Footprint, Schema, Units};
use crate::workload::{Access, Step, Workload};
use std::collections::BTreeMap;
use std::ops::Range;

/// A site's place in [`ScGraph::sites`].
pub type SiteId = usize;
/// A piece's place in [`ScGraph::pieces`].
pub type PieceId = usize;

/// Sites, pieces before merging, and C-edges of a workload.
#[derive(Clone, Debug)]
pub struct ScGraph {
    /// The types that take part, in the workload's order.
    pub types: Vec<Type>,
    /// All accesses, those of one type side by side and in its order.
    pub sites: Vec<Site>,
    /// All pieces before merging, those of one type side by side and in its order.
    pub pieces: Vec<Piece>,
    /// The C-edges, in the order of their first and then of their second piece.
    pub edges: Vec<CEdge>,
    /// The tables and their units.
    pub schema: Schema,
    /// For each piece, its C-edges.
    of_piece: Vec<Vec<usize>>,
}

/// A transaction type in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// What it is called.
    pub name: String,
    /// Its share in the mix, as far as anybody said.
    pub weight: Option<u32>,
    /// Its sites.
    pub sites: Range<SiteId>,
    /// Its pieces before merging.
    pub pieces: Range<PieceId>,
}

/// An access of a type.
#[derive(Clone, Debug)]
pub struct Site {
    /// The type's place.
    pub transaction: usize,
    /// The piece, before merging.
    pub piece: PieceId,
    /// What is accessed, and how.
    pub access: Access,
    /// It is executed any number of times.
    pub repeated: bool,
    /// It is executed only if a condition holds.
    pub conditional: bool,
    /// The same in units of conflict.
    pub footprint: Footprint,
    /// It writes, before the commit, what another transaction may access.
    pub exposed: bool,
}

/// A piece before merging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The type's place.
    pub transaction: usize,
    /// Its sites.
    pub sites: Range<SiteId>,
}

/// A C-edge: two pieces, of two transactions, that may conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CEdge {
    /// One piece; not after the other.
    pub from: PieceId,
    /// The other piece, or the same piece in another transaction of its type.
    pub to: PieceId,
    /// The first pair of sites that conflict, one of each piece.
    pub sites: (SiteId, SiteId),
    /// On what: tables, in the order of their names, and their units.
    pub on: Vec<(usize, Units)>,
}

impl ScGraph {
    /// The graph of a workload's types, but for those that run on snapshots.
    pub fn new(workload: &Workload, options: &Options) -> Self {
        let schema = Schema::new(workload, options.granularity, options.commutative, options.causal)
            .deferring(options.defer);
        let (mut types, mut sites, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
        for transaction in workload.transactions.iter().filter(|transaction| !transaction.on_snapshot()) {
            let mut cut = Cut::default();
            cut.steps(&transaction.body, Nest::default());
            let (first_site, first_piece) = (sites.len(), pieces.len());
            for of_piece in cut.pieces(options.rollback_safe) {
                let first = sites.len();
                for cut in of_piece {
                    sites.push(Site {
                        transaction: types.len(),
                        piece: pieces.len(),
                        access: cut.access.clone(),
                        repeated: cut.nest.repeated,
                        conditional: cut.nest.conditional,
                        footprint: schema.footprint(cut.access),
                        exposed: false,
                    });
                }
                pieces.push(Piece { transaction: types.len(), sites: first..sites.len() });
            }
            types.push(Type {
                name: transaction.name.clone(),
                weight: transaction.weight,
                sites: first_site..sites.len(),
                pieces: first_piece..pieces.len(),
            });
        }
        let edges = edges(&mut sites, schema.tables());
        let mut of_piece = vec![Vec::new(); pieces.len()];
        for (at, edge) in edges.iter().enumerate() {
            of_piece[edge.from].push(at);
            if edge.to != edge.from {
                of_piece[edge.to].push(at);
            }
        }
        Self { types, sites, pieces, edges, schema, of_piece }
    }

    /// The places of a piece's C-edges.
    pub(crate) fn edge_places(&self, piece: PieceId) -> &[usize] {
        &self.of_piece[piece]
    }

    /// The C-edges of a piece, in their order.
    pub fn edges_of(&self, piece: PieceId) -> impl Iterator<Item = &CEdge> {
        self.of_piece[piece].iter().map(|&edge| &self.edges[edge])
    }

    /// The pieces that a piece has a C-edge to.
    pub fn neighbours(&self, piece: PieceId) -> impl Iterator<Item = PieceId> {
        self.edges_of(piece).map(move |edge| edge.other(piece))
    }

    /// The next piece of the same type: where the S-edge leads.
    pub fn next(&self, piece: PieceId) -> Option<PieceId> {
        let transaction = self.pieces[piece].transaction;
        (piece + 1 < self.types[transaction].pieces.end).then_some(piece + 1)
    }

    /// The tables that sites access, in the order of first access.
    pub fn tables(&self, sites: Range<SiteId>) -> Vec<&str> {
        let mut tables = Vec::new();
        for site in &self.sites[sites] {
            if !tables.contains(&site.access.table.as_str()) {
                tables.push(site.access.table.as_str());
            }
        }
        tables
    }

    /// Where two sites meet, in words: `district (d_next_o_id)`.
    pub fn meeting(&self, one: SiteId, two: SiteId) -> String {
        let (one, two) = (&self.sites[one].footprint, &self.sites[two].footprint);
        let names = self.schema.names(one.table, &one.meets(two)).join(", ");
        format!("{} ({names})", self.schema.table(one.table))
    }

    /// What of one site another would not see, in words, as [`Self::meeting`].
    pub fn put_off(&self, publisher: SiteId, subscriber: SiteId) -> String {
        let (one, two) = (&self.sites[publisher].footprint, &self.sites[subscriber].footprint);
        let names = self.schema.names(one.table, &one.put_off(two)).join(", ");
        format!("{} ({names})", self.schema.table(one.table))
    }
}

impl CEdge {
    /// The piece at the other end.
    pub fn other(&self, piece: PieceId) -> PieceId {
        if self.from == piece { self.to } else { self.from }
    }
}

/// C-edges, by comparing the sites of each table in pairs; and which sites expose what they write.
fn edges(sites: &mut [Site], tables: usize) -> Vec<CEdge> {
    let mut of_table = vec![Vec::new(); tables];
    for (id, site) in sites.iter().enumerate() {
        of_table[site.footprint.table].push(id);
    }
    let mut edges: BTreeMap<(PieceId, PieceId), CEdge> = BTreeMap::new();
    for (table, ids) in of_table.iter().enumerate() {
        for (nth, &one) in ids.iter().enumerate() {
            // From itself on: two transactions of a type may stand at the same site.
            for &two in &ids[nth..] {
                let units = sites[one].footprint.meets(&sites[two].footprint);
                if units.is_empty() {
                    continue;
                }
                sites[one].exposed |= !sites[one].footprint.exposes(&sites[two].footprint).is_empty();
                sites[two].exposed |= !sites[two].footprint.exposes(&sites[one].footprint).is_empty();
                let (from, to) = (sites[one].piece, sites[two].piece);
                let edge = edges.entry((from, to)).or_insert_with(|| CEdge {
                    from,
                    to,
                    sites: (one, two),
                    on: Vec::new(),
                });
                edge.sites = edge.sites.min((one, two));
                match edge.on.iter_mut().find(|(other, _)| *other == table) {
                    Some((_, before)) => before.extend(&units),
                    None => edge.on.push((table, units)),
                }
            }
        }
    }
    edges.into_values().collect()
}

/// Where an access stands.
#[derive(Clone, Copy, Default)]
struct Nest {
    repeated: bool,
    conditional: bool,
    /// The outermost loop or piece by hand.
    block: Option<usize>,
}

struct CutSite<'a> {
    access: &'a Access,
    nest: Nest,
}

/// A body on its way to pieces: its accesses, flat.
#[derive(Default)]
struct Cut<'a> {
    sites: Vec<CutSite<'a>>,
    blocks: usize,
}

impl<'a> Cut<'a> {
    fn steps(&mut self, steps: &'a [Step], nest: Nest) {
        for step in steps {
            match step {
                Step::Access(access) => self.sites.push(CutSite { access, nest }),
                Step::Loop(inner) | Step::Piece(inner) => {
                    let repeated = nest.repeated || matches!(step, Step::Loop(_));
                    self.blocks += 1;
                    let block = nest.block.or(Some(self.blocks));
                    self.steps(inner, Nest { repeated, block, ..nest });
                }
                Step::If { then, otherwise } => {
                    let nest = Nest { conditional: true, ..nest };
                    self.steps(then, nest);
                    self.steps(otherwise, nest);
                }
            }
        }
    }

    /// The accesses by piece. Each is its own but for those of a block, and for all from the first to the
    /// last with the same number; and, if it has to be `rollback_safe`, for all before the first that says that
    /// no abort comes any more.
    fn pieces(&self, rollback_safe: bool) -> Vec<&[CutSite<'a>]> {
        let mut joined: Vec<bool> = self
            .sites
            .windows(2)
            .map(|pair| pair[0].nest.block.is_some() && pair[0].nest.block == pair[1].nest.block)
            .collect();
        let mut first_of: BTreeMap<u32, usize> = BTreeMap::new();
        for (at, site) in self.sites.iter().enumerate() {
            if let Some(number) = site.access.piece {
                let first = *first_of.entry(number).or_insert(at);
                joined[first..at].fill(true);
            }
        }
        if rollback_safe {
            let sure = self.sites.iter().position(|site| site.access.no_abort).unwrap_or(self.sites.len());
            joined.iter_mut().take(sure.saturating_sub(1)).for_each(|joined| *joined = true);
        }
        let ends = (0..self.sites.len()).filter(|&at| !joined.get(at).copied().unwrap_or(false));
        let mut first = 0;
        ends.map(|end| {
            let piece = &self.sites[first..=end];
            first = end + 1;
            piece
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse;

    fn graph(body: &str) -> ScGraph {
        ScGraph::new(&parse(&format!("workload w\n{body}")).unwrap(), &Options::default())
    }

    /// The tables of each piece.
    fn cut(body: &str) -> Vec<String> {
        let graph = graph(&format!("txn t\n{body}\nend"));
        graph.pieces.iter().map(|piece| graph.tables(piece.sites.clone()).join("+")).collect()
    }

    #[test]
    fn every_access_is_a_piece_but_for_blocks() {
        assert_eq!(cut("read a\nread b"), ["a", "b"]);
        assert_eq!(cut("loop\nread a\nread b\nend\nread c"), ["a+b", "c"]);
        assert_eq!(cut("loop\nread a\nend\nloop\nread b\nend"), ["a", "b"]);
        assert_eq!(cut("piece\nread a\nloop\nread b\nend\nread c\nend"), ["a+b+c"]);
        assert_eq!(cut("if\nread a\nloop\nread b\nread c\nend\nelse\nread d\nend"), ["a", "b+c", "d"]);
        assert_eq!(cut("read a piece 1\nread b piece 1\nread c piece 2\nread d"), ["a+b", "c", "d"]);
    }

    #[test]
    fn what_may_be_rolled_back_is_one_piece() {
        let options = Options { rollback_safe: true, ..Options::default() };
        let cut = |body: &str| {
            let workload = parse(&format!("workload w\ntxn t\n{body}\nend")).unwrap();
            let graph = ScGraph::new(&workload, &options);
            graph.pieces.iter().map(|piece| graph.tables(piece.sites.clone()).join("+")).collect::<Vec<_>>()
        };
        assert_eq!(cut("read a\nread b\nread c no_abort\nread d"), ["a+b", "c", "d"]);
        assert_eq!(cut("read a\nread b"), ["a+b"]);
        assert_eq!(cut("read a no_abort\nread b"), ["a", "b"]);
        assert_eq!(cut("read a\nloop\nread b\nread c no_abort\nend\nread d"), ["a+b+c", "d"]);
    }

    #[test]
    fn sites_know_where_they_stand() {
        let graph = graph("txn t\nread a\nloop\nif\nread b\nend\nread c\nend\nend");
        let nests: Vec<_> = graph.sites.iter().map(|site| (site.repeated, site.conditional)).collect();
        assert_eq!(nests, [(false, false), (true, true), (true, false)]);
    }

    #[test]
    fn edges_are_between_two_transactions() {
        let graph =
            graph("txn t\nread a\nupdate a\nread b\nend\ntxn u\nread a\nend\ntxn s readonly\nscan a\nend");
        let edges: Vec<_> = graph.edges.iter().map(|edge| (edge.from, edge.to)).collect();
        // The read and the update of two `t`, two updates of two `t`, and the update with `u`'s read.
        assert_eq!(edges, [(0, 1), (1, 1), (1, 3)]);
        assert_eq!(graph.neighbours(1).collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(graph.meeting(0, 1), "a (every column)");
        assert_eq!((graph.next(1), graph.next(2)), (Some(2), None));
    }
}
