//! The analysis in words, for the terminal.

use super::model::{Access, Document, Edge, Piece, Type, Wait};
use crate::report::table::paint;
use std::fmt::Write;

/// The whole analysis.
pub fn tell(document: &Document, colours: bool) -> String {
    let mut text = String::new();
    let counts = &document.counts;
    let _ = writeln!(
        text,
        "{}: {}, {} before merging and {} after, {}",
        paint(&document.workload, "1", colours),
        count(document.types.len(), "type"),
        count(counts.pieces_before, "piece"),
        counts.pieces,
        count(counts.ranks as usize, "rank"),
    );
    let options = options(document);
    if !options.is_empty() {
        let _ = writeln!(text, "{options}");
    }
    if let Some(why) = &document.entangled {
        let _ = writeln!(text, "{}: {why}.", paint("not deferred", "1", colours));
    }
    if !document.snapshots.is_empty() {
        let _ = writeln!(text, "on snapshots, left out: {}", document.snapshots.join(", "));
    }
    if document.types.iter().any(|one| one.before.len() != one.pieces.len()) {
        let _ = writeln!(text, "\n{}", paint("Before merging", "1", colours));
        for one in &document.types {
            let _ = writeln!(text, "  {}", one.name);
            for piece in &one.before {
                let mark = if piece.conflict { "C" } else { "r" };
                let _ = writeln!(text, "    {:>3} {mark} {}", piece.piece, sites(&piece.sites));
            }
        }
        let _ =
            writeln!(text, "\n{}", paint("What was merged, and the SC-cycle that forced it", "1", colours));
        for merge in &document.merges {
            let runs: Vec<String> =
                merge.merged.iter().map(|run| format!("{} {}", run.of_type, span(&run.before))).collect();
            let _ = writeln!(text, "  {}. {}:", merge.merge, runs.join(", "));
            let _ = writeln!(text, "     {}.", merge.cycle.replace("; ", ";\n     "));
        }
        let _ = writeln!(text, "\n{}", paint("After merging", "1", colours));
    } else {
        let _ = writeln!(text, "\n{}", paint("Pieces (nothing had to be merged)", "1", colours));
    }
    for one in &document.types {
        tell_type(&mut text, document, one, colours);
    }
    text += "\nC: has C-edges; r: has none, and never waits; *: in a loop; ?: in a branch. A piece waits for the transactions that\n\
             its own depends on, until they have done a piece of its rank or a higher one, or have committed.\n";
    text
}

/// What was asked for besides the default.
pub fn options(document: &Document) -> String {
    let options = &document.options;
    let mut said = Vec::new();
    match options.granularity {
        "group" => said.push("conflicts by column groups"),
        "table" => said.push("conflicts by tables"),
        _ => {}
    }
    if options.method == "chopping" {
        said.push("every SC-cycle is merged (transaction chopping)");
    }
    if !options.commutative {
        said.push("an addition is a read and a write");
    }
    if !options.causal {
        said.push("causal marks are ignored");
    }
    if options.rollback_safe {
        said.push("what comes before `no_abort` is one piece");
    }
    if options.defer {
        said.push("additions marked `deferred` take effect later");
    }
    said.join(", ")
}

/// How much may interleave, and what it took, in a sentence.
pub fn conclusion(document: &Document) -> String {
    let counts = &document.counts;
    let types = count(document.types.len(), "transaction type");
    let merged = match document.merges.len() {
        0 => "nothing had to be merged".to_owned(),
        merges => {
            let before: usize = document
                .types
                .iter()
                .flat_map(|one| &one.pieces)
                .map(|piece| if piece.before.len() > 1 { piece.before.len() } else { 0 })
                .sum();
            let cycles = count(merges, "SC-cycle");
            format!("{cycles} forced {before} of {} together", count(counts.pieces_before, "piece"))
        }
    };
    let interleaved = match counts.interleaved {
        0 => format!("None of {types}"),
        all if all == document.types.len() => format!("All of {types}"),
        some => format!("{some} of {types}"),
    };
    format!("{interleaved} can interleave with others piece by piece; {merged}.")
}

fn tell_type(text: &mut String, document: &Document, one: &Type, colours: bool) {
    let conflict = one.pieces.iter().filter(|piece| piece.conflict).count();
    let _ = writeln!(
        text,
        "  {}: {}, {conflict} with C-edges; {}",
        paint(&one.name, "1", colours),
        count(one.pieces.len(), "piece"),
        abort(one)
    );
    for piece in &one.pieces {
        let mark = if piece.conflict { "C" } else { "r" };
        let _ =
            writeln!(text, "    {:>3} {mark} rank {:<3} {}", piece.piece, piece.rank, sites(&piece.sites));
        for line in edges(document, &format!("{}.{}", one.name, piece.piece)) {
            let _ = writeln!(text, "                    {line}");
        }
        if !piece.waits.is_empty() {
            let waits: Vec<String> = piece.waits.iter().map(wait).collect();
            let _ = writeln!(text, "                    waits for {}", waits.join("; "));
        }
        let unlisted = unlisted(piece);
        if !unlisted.is_empty() {
            let _ = writeln!(text, "                    rendezvous pieces: {}", unlisted.join(", "));
        }
    }
}

/// Where a user abort is harmless.
pub fn abort(one: &Type) -> String {
    match one.first_exposed {
        Some(piece) => format!("a user abort takes nobody along until piece {piece} is done"),
        None => "a user abort takes nobody along".into(),
    }
}

/// The C-edges of a piece, those about the same in a line.
pub fn edges(document: &Document, piece: &str) -> Vec<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for edge in document.edges.iter().filter(|edge| edge.from == piece || edge.to == piece) {
        let other = if edge.from == piece { edge.to.as_str() } else { edge.from.as_str() };
        let about = about(edge);
        match lines.iter_mut().find(|(before, _)| *before == about) {
            Some((_, others)) => others.push(other),
            None => lines.push((about, vec![other])),
        }
    }
    lines.into_iter().map(|(about, others)| format!("C-edge on {about}: {}", others.join(", "))).collect()
}

/// What a C-edge is about: tables and their units.
pub fn about(edge: &Edge) -> String {
    let told = edge.on.iter().map(|(table, units)| format!("{table} ({})", units.join(", ")));
    told.collect::<Vec<_>>().join("; ")
}

/// A wait: for whom, and how long.
pub fn wait(wait: &Wait) -> String {
    match (wait.until, wait.piece) {
        ("piece", Some(piece)) => format!("{}.{piece}", wait.on),
        ("rendezvous", Some(piece)) => format!("{}.{piece} (rendezvous piece)", wait.on),
        _ => format!("the commit of {}", wait.on),
    }
}

/// Rendezvous pieces beyond the one that is waited for.
fn unlisted(piece: &Piece) -> Vec<String> {
    let all = |one: &super::model::Rendezvous| {
        let pieces: Vec<String> =
            one.candidates.iter().map(|piece| format!("{}.{piece}", one.with)).collect();
        pieces.join(" or ")
    };
    piece.rendezvous.iter().map(all).collect()
}

/// Accesses in a line: `scan new_order + delete new_order, in a loop`.
pub fn sites(sites: &[Access]) -> String {
    sites.iter().map(site).collect::<Vec<_>>().join(" + ")
}

/// An access: its words, and a star if it stands in a loop, a question mark in a branch.
pub fn site(site: &Access) -> String {
    let star = if site.repeated { "*" } else { "" };
    let question = if site.conditional { "?" } else { "" };
    let causal = if site.causal { " (causal)" } else { "" };
    format!("{} {}{star}{question}{causal}", site.mode, site.table)
}

fn span(pieces: &[usize]) -> String {
    match pieces {
        [first, .., last] => format!("pieces {first} to {last}"),
        [only] => format!("piece {only}"),
        [] => "no piece".into(),
    }
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
