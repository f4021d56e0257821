//! Two analyses side by side, while a runtime changes from one to the other (IC3 §4.5).
//!
//! # Problem
//!
//! A new type may force merges in old ones. While some workers still use the old graph and some already the
//! new one, an instance with two pieces and one with a single merged piece would not wait for each other
//! in between, and could be serialized in two orders (IC3 fig. 9).
//!
//! # Mechanism
//!
//! The *transitional SC-graph* nests: a piece of the coarser graph is validated and committed as a whole,
//! but inside it the pieces of the finer graph, its *sub-pieces*, track and wait one by one. When a type is
//! added the new graph is the coarser one; when it is removed, the old one. Types that only one of the two
//! knows do not run meanwhile.

use crate::analysis::Analysis;
use crate::graph::SiteId;
use std::ops::Range;

/// The transitional SC-graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The types that both graphs know, in the order of the new one.
    pub types: Vec<TransitionalType>,
    /// Types that only the new graph knows: they wait until it alone is used.
    pub added: Vec<String>,
    /// Types that only the old graph knows.
    pub removed: Vec<String>,
}

/// A type of the transitional SC-graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitionalType {
    /// What it is called.
    pub name: String,
    /// Its pieces, in order.
    pub pieces: Vec<NestedPiece>,
}

/// A piece with sub-pieces. Sites are numbered from 0 within the type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestedPiece {
    /// What is committed together.
    pub sites: Range<SiteId>,
    /// What tracks and waits one by one.
    pub sub_pieces: Vec<Range<SiteId>>,
}

impl Transition {
    /// The graph to be used while a runtime changes from one analysis to another.
    ///
    /// # Panics
    ///
    /// If a type has different accesses in the two.
    pub fn between(old: &Analysis, new: &Analysis) -> Self {
        let mut types = Vec::new();
        for name in names(new).filter(|name| old.of_type(name).is_some()) {
            let (ends, others) = (ends(old, name), ends(new, name));
            assert_eq!(ends.last(), others.last(), "`{name}` has other accesses than before");
            let outer = ends.iter().filter(|end| others.contains(end));
            let mut first = 0;
            let pieces = outer.map(|&end| {
                let inside = |at: &&SiteId| (first + 1..=end).contains(at);
                let mut inner: Vec<SiteId> = ends.iter().chain(&others).filter(inside).copied().collect();
                inner.sort_unstable();
                inner.dedup();
                let starts = std::iter::once(first).chain(inner.iter().copied());
                let sub_pieces = starts.zip(&inner).map(|(start, &end)| start..end).collect();
                let piece = NestedPiece { sites: first..end, sub_pieces };
                first = end;
                piece
            });
            types.push(TransitionalType { name: name.to_owned(), pieces: pieces.collect() });
        }
        let only = |one: &Analysis, other: &Analysis| {
            names(one).filter(|name| other.of_type(name).is_none()).map(str::to_owned).collect()
        };
        Self { types, added: only(new, old), removed: only(old, new) }
    }

    /// Whether a piece has several sub-pieces. If none has, the two graphs may be used side by side as they
    /// are (IC3 §4.5, the simple case).
    pub fn nests(&self) -> bool {
        self.types.iter().flat_map(|one| &one.pieces).any(|piece| piece.sub_pieces.len() > 1)
    }
}

fn names(analysis: &Analysis) -> impl Iterator<Item = &str> {
    analysis.types.iter().map(|one| one.name.as_str())
}

/// Where the pieces of a type end, in sites from its first.
fn ends(analysis: &Analysis, name: &str) -> Vec<SiteId> {
    let pieces = analysis.of_type(name).map_or(&[][..], |one| &one.pieces);
    let start = pieces.first().map_or(0, |piece| piece.sites.start);
    pieces.iter().map(|piece| piece.sites.end - start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, analyse, text::parse};

    const FORTH: &str = "txn t1\nupdate tab1\nupdate tab2\nread tab3\nend\n";
    const BACK: &str = "txn t2\nupdate tab2\nupdate tab1\nend\n";

    fn analysis(types: &[&str]) -> Analysis {
        let text = format!("workload w\n{}", types.concat());
        analyse(&parse(&text).unwrap(), &Options::default())
    }

    /// IC3 figures 9 and 10: what the new type merges becomes sub-pieces; removal goes the same way back.
    #[test]
    fn merged_pieces_keep_their_sub_pieces() {
        let (old, new) = (analysis(&[FORTH]), analysis(&[FORTH, BACK]));
        for (from, to) in [(&old, &new), (&new, &old)] {
            let transition = Transition::between(from, to);
            assert!(transition.nests());
            assert_eq!(transition.types.len(), 1);
            let pieces = &transition.types[0].pieces;
            assert_eq!(pieces[0], NestedPiece { sites: 0..2, sub_pieces: vec![0..1, 1..2] });
            assert_eq!(pieces[1], NestedPiece { sites: 2..3, sub_pieces: std::iter::once(2..3).collect() });
        }
        assert_eq!(Transition::between(&old, &new).added, ["t2"]);
        assert_eq!(Transition::between(&new, &old).removed, ["t2"]);
    }

    /// IC3 figure 8: the new graph only has more C-edges.
    #[test]
    fn a_supergraph_needs_no_nesting() {
        let reader = "txn t2\nread tab1\nread tab2\nend\n";
        assert!(!Transition::between(&analysis(&[FORTH]), &analysis(&[FORTH, reader])).nests());
    }
}
