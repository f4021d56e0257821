//! The page: the drawing, the types, and why pieces were merged; one file, and nothing fetched from anywhere.

use super::model::{Document, Type};
use super::{drawing, words};
use crate::report::html::frame::{Page, escape, section};
use heddledb_analysis::Analysis;
use std::fmt::Write;

/// A drawing may be wider than a text should be, and than paper is high.
const WIDE: &str = "body { max-width: none; } section > p, section > ol, dl { max-width: 75ch; } table { max-width: 110ch; }\n\
                    tr.none td { color: var(--soft); } ol { padding-left: 1.4rem; } li { margin: .5rem 0; }\n\
                    @page { size: landscape; }\n";

/// The whole page.
pub fn page(document: &Document, analysis: &Analysis) -> String {
    let mut body = String::new();
    let counts = &document.counts;
    let _ = writeln!(
        body,
        "<p>{} types, {} pieces before merging and {} after, {} ranks. {}</p>",
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
        &drawing::framed(analysis),
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
    let (title, conclusion) = (format!("heddle analyze: {}", document.workload), words::conclusion(document));
    let heading = &document.workload;
    Page { title: &title, heading, conclusion: &conclusion, style: WIDE, body: &body }.text()
}

fn table(document: &Document, one: &Type) -> String {
    let mut text = String::from(
        "<div class=\"scroll\"><table>\n<tr><th>piece</th><th>rank</th><th class=\"w\">accesses</th><th class=\"w\">C-edges</th>\
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
    text + "</table></div>\n"
}

#[cfg(test)]
mod tests {
    use super::super::source::parse;
    use super::*;
    use heddledb_analysis::{Options, analyse, builtin};

    fn page_of(name: &str) -> String {
        let text = builtin::find(name).unwrap();
        let analysis = analyse(&parse(name, text.text).unwrap(), &Options::default());
        page(&Document::new(name, name, &analysis), &analysis)
    }

    #[test]
    fn the_page_has_a_conclusion_a_date_and_the_words_of_its_drawing() {
        let page = page_of("tpcc");
        let told = "can interleave with others piece by piece; nothing had to be merged.";
        assert!(page.contains(told) && page.contains("(UTC)"), "{page}");
        for word in ["<dt>raw</dt>", "<dt>rank</dt>", "<dt>rendezvous piece</dt>"] {
            assert_eq!(page.matches(word).count(), 1, "{word}");
        }
        assert!(
            page_of("figure3").contains("1 SC-cycle forced 4 of 6 pieces together."),
            "{}",
            page_of("figure3")
        );
    }

    #[test]
    fn the_drawing_is_scrolled_beside_the_names_of_its_rows() {
        let page = page_of("tpcc");
        let frame = &page[page.find("<div class=\"sc-graph scroll\"").unwrap()..];
        let labels = &frame[..frame.find("<svg xmlns").unwrap()];
        for name in ["new_order", "payment", "delivery"] {
            assert_eq!(labels.matches(&format!(">{name}</text>")).count(), 1, "{name} in\n{labels}");
        }
        assert!(labels.contains("class=\"sc labels\"") && labels.contains("aria-hidden"), "{labels}");
        assert!(
            page.contains(".sc-graph svg.labels { position: sticky; left: 0;"),
            "the names stay in sight"
        );
    }
}
