//! The SC-graph for Graphviz: a cluster for each type, S-edges as arrows, C-edges as lines with their tables.

use super::model::{Document, edges, name};
use super::words;
use heddledb_analysis::Analysis;
use std::fmt::Write;

/// The graph after merging.
pub fn graph(analysis: &Analysis) -> String {
    let document = Document::new("", "", analysis);
    let mut text = String::from("graph sc {\n  rankdir=LR;\n  node [shape=box];\n");
    for (at, one) in document.types.iter().enumerate() {
        let _ = writeln!(text, "  subgraph cluster_{at} {{\n    label={};", quote(&one.name));
        for (place, piece) in one.pieces.iter().enumerate() {
            let sites: Vec<String> = piece.sites.iter().map(words::site).collect();
            let label = format!("{}  rank {}\n{}", piece.piece, piece.rank, sites.join("\n"));
            let style = match (piece.conflict, piece.before.len() > 1) {
                (_, true) => " style=bold peripheries=2",
                (true, false) => " style=bold",
                (false, false) => " style=dashed",
            };
            let _ = writeln!(
                text,
                "    {} [label={}{style}];",
                quote(&name(analysis, (at, place))),
                quote(&label)
            );
        }
        for place in 1..one.pieces.len() {
            let (from, to) = (name(analysis, (at, place - 1)), name(analysis, (at, place)));
            let _ = writeln!(text, "    {} -- {} [dir=forward];", quote(&from), quote(&to));
        }
        text.push_str("  }\n");
    }
    for edge in edges(analysis) {
        let (from, to, about) = (quote(&edge.from), quote(&edge.to), quote(&words::about(&edge)));
        let _ = writeln!(text, "  {from} -- {to} [style=dashed color=red constraint=false label={about}];");
    }
    text + "}\n"
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\l"))
}
