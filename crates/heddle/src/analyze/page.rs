//! The page: the drawing, the types, and why pieces were merged; one file, and nothing fetched from anywhere.

use super::model::{Document, Type};
use super::{drawing, words};
use crate::report::html::frame::escape;
use heddledb_analysis::Analysis;
use std::fmt::Write;

const STYLE: &str = include_str!("../report/html/page.css");
/// A drawing may be wider than a text should be.
const WIDE: &str = "body { max-width: none; } section > p, section > ol { max-width: 75ch; } table { max-width: 110ch; }\n\
                    tr.none td { color: var(--soft); } ol { padding-left: 1.4rem; } li { margin: .5rem 0; }\n";

/// The whole page.
pub fn page(document: &Document, analysis: &Analysis) -> String {
    let mut body = String::new();
    let counts = &document.counts;
    let _ = writeln!(
        body,
        "<h1>{}</h1>\n<p>{} types, {} pieces before merging and {} after, {} ranks. {}</p>",
        escape(&document.workload),
        document.types.len(),
        counts.pieces_before,
        counts.pieces,
        counts.ranks,
        escape(&words::options(document))
    );
    if !document.snapshots.is_empty() {
        let _ = writeln!(body, "<p>On snapshots, left out: {}.</p>", escape(&document.snapshots.join(", ")));
    }
    section(
        &mut body,
        "SC-graph",
        "A row for each transaction type, a column for each rank. Grey arrows are S-edges; coloured lines are C-edges, \
         labelled with their tables; a loop is a C-edge between two transactions of the same type. Dashed boxes have no \
         C-edge and never wait. In a thick box are the pieces that were merged into it. A star stands for a loop, a \
         question mark for a branch. Point at a box or a line for its waits or columns.",
        &drawing::drawing(analysis),
    );
    if !document.merges.is_empty() {
        let mut list = String::from("<ol>\n");
        for merge in &document.merges {
            let runs: Vec<String> = merge
                .merged
                .iter()
                .map(|run| {
                    let pieces: Vec<String> = run.before.iter().map(usize::to_string).collect();
                    format!("{} {}", run.of_type, pieces.join(" + "))
                })
                .collect();
            let _ =
                writeln!(list, "<li><b>{}</b><br>{}.</li>", escape(&runs.join(", ")), escape(&merge.cycle));
        }
        list.push_str("</ol>\n");
        section(
            &mut body,
            "What was merged, and the SC-cycle that forced it",
            "Pieces are numbered as they were before merging.",
            &list,
        );
    }
    for one in &document.types {
        section(&mut body, &escape(&one.name), &escape(&words::abort(one)), &table(document, one));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>heddle analyze: {}</title>\n<style>\n{STYLE}{WIDE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(&document.workload)
    )
}

fn section(body: &mut String, title: &str, note: &str, content: &str) {
    let _ = writeln!(body, "<section>\n<h2>{title}</h2>\n<p>{note}</p>\n{content}</section>");
}

fn table(document: &Document, one: &Type) -> String {
    let mut text = String::from(
        "<table>\n<tr><th>piece</th><th>rank</th><th class=\"w\">accesses</th><th class=\"w\">C-edges</th>\
         <th class=\"w\">waits for</th></tr>\n",
    );
    for piece in &one.pieces {
        let edges = words::edges(document, &format!("{}.{}", one.name, piece.piece));
        let edges: Vec<String> =
            edges.iter().map(|edge| escape(edge.trim_start_matches("C-edge on "))).collect();
        let waits: Vec<String> = piece.waits.iter().map(|wait| escape(&words::wait(wait))).collect();
        let _ = writeln!(
            text,
            "<tr{}><td>{}</td><td>{}</td><td class=\"w\">{}</td><td class=\"w\">{}</td><td class=\"w\">{}</td></tr>",
            if piece.conflict { "" } else { " class=\"none\"" },
            piece.piece,
            piece.rank,
            escape(&words::sites(&piece.sites)),
            edges.join("<br>"),
            waits.join("<br>")
        );
    }
    text + "</table>\n"
}
