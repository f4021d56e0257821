//! How much of a workload can be interleaved, in the four numbers of IC3's study of web applications
//! (IC3 §6.11, table 2).

use crate::analysis::Analysis;
use std::collections::BTreeSet;

/// The four numbers of a workload, in types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Study {
    /// All types.
    pub total: usize,
    /// Those that access more than one table.
    pub multi_table: usize,
    /// Of these, those on a deadlock-prone SC-cycle that leads over several tables. Without that restriction
    /// everybody counts who reads a row and then writes it back. The paper cannot have meant that: its
    /// Publify, which does so, has none (test: `described_applications_are_analysed`).
    pub deadlock_prone: usize,
    /// Those that keep more than one conflict piece after merging, and so are on an SC-cycle that a
    /// runtime enforces.
    pub interleaved: usize,
}

/// Counts.
pub fn study(analysis: &Analysis) -> Study {
    let graph = &analysis.graph;
    let mut study = Study { total: analysis.types.len() + analysis.snapshots.len(), ..Study::default() };
    for (of_type, one) in graph.types.iter().zip(&analysis.types) {
        let multi_table = graph.tables(of_type.sites.clone()).len() > 1;
        let over_tables = one.pieces.iter().filter(|piece| !piece.merges.is_empty()).any(|piece| {
            let edges = piece.before.clone().flat_map(|before| graph.edges_of(before));
            edges.flat_map(|edge| edge.on.iter().map(|(table, _)| *table)).collect::<BTreeSet<_>>().len() > 1
        });
        study.multi_table += usize::from(multi_table);
        study.deadlock_prone += usize::from(multi_table && over_tables);
        study.interleaved += usize::from(one.conflict_pieces() > 1);
    }
    study
}
