//! The analysis as JSON. Pieces are numbered from 1 within their type, as people count them.

use heddledb_analysis::analysis::{MergedPiece, TypeAnalysis, Until};
use heddledb_analysis::graph::Site;
use heddledb_analysis::merge::CycleStep;
use heddledb_analysis::study::study;
use heddledb_analysis::{Analysis, Granularity, Method};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// The whole analysis.
#[derive(Debug, Serialize)]
pub struct Document {
    /// The file or name that it is of.
    pub source: String,
    pub workload: String,
    pub options: ChosenOptions,
    pub types: Vec<Type>,
    /// What was merged, in that order.
    pub merges: Vec<Merge>,
    /// C-edges between pieces after merging.
    pub edges: Vec<Edge>,
    /// Types that run on snapshots and take no part.
    pub snapshots: Vec<String>,
    /// Why additions that are marked as deferred must not be, if there is a reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entangled: Option<String>,
    pub counts: Counts,
}

#[derive(Debug, Serialize)]
pub struct ChosenOptions {
    pub granularity: &'static str,
    pub method: &'static str,
    pub commutative: bool,
    pub causal: bool,
    pub rollback_safe: bool,
    pub defer: bool,
}

#[derive(Debug, Serialize)]
pub struct Type {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Its pieces after merging.
    pub pieces: Vec<Piece>,
    /// Its pieces before merging.
    pub before: Vec<PieceBefore>,
    /// User aborts harm nobody until this piece is done; anywhere, if there is none.
    pub first_exposed: Option<usize>,
}

#[derive(Debug, Serialize)]
pub struct Piece {
    pub piece: usize,
    pub sites: Vec<Access>,
    /// It has a C-edge.
    pub conflict: bool,
    pub rank: u32,
    pub rendezvous: Vec<Rendezvous>,
    /// It is on an SC-cycle that merging left.
    pub tracked: bool,
    /// Pieces with the same vertex are joined by C-edges.
    pub vertex: usize,
    /// The pieces before merging that it consists of.
    pub before: Vec<usize>,
    /// The merges that made it.
    pub merges: Vec<usize>,
    pub waits: Vec<Wait>,
}

#[derive(Debug, Serialize)]
pub struct PieceBefore {
    pub piece: usize,
    pub sites: Vec<Access>,
    pub conflict: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct Access {
    pub mode: &'static str,
    pub table: String,
    /// Where it stands in the text.
    pub line: u32,
    pub repeated: bool,
    pub conditional: bool,
    pub causal: bool,
}

#[derive(Debug, Serialize)]
pub struct Rendezvous {
    /// The other type.
    #[serde(rename = "type")]
    pub with: String,
    /// The piece of it that is enough to wait for.
    pub piece: usize,
    /// All that would do.
    pub candidates: Vec<usize>,
}

#[derive(Debug, Serialize)]
pub struct Wait {
    #[serde(rename = "type")]
    pub on: String,
    /// `piece`, `rendezvous` or `commit`.
    pub until: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub piece: Option<usize>,
}

#[derive(Debug, Serialize)]
pub struct Merge {
    pub merge: usize,
    pub merged: Vec<MergedRun>,
    /// The SC-cycle that forced it, as a sentence.
    pub cycle: String,
    pub steps: Vec<Step>,
}

#[derive(Debug, Serialize)]
pub struct MergedRun {
    #[serde(rename = "type")]
    pub of_type: String,
    /// Pieces before merging.
    pub before: Vec<usize>,
}

#[derive(Debug, Serialize)]
pub struct Step {
    /// `sibling`, `conflict` or `merged`.
    pub step: &'static str,
    pub from: End,
    pub to: End,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct End {
    #[serde(rename = "type")]
    pub of_type: String,
    /// A piece before merging.
    pub piece: usize,
    pub access: String,
}

#[derive(Debug, Serialize)]
pub struct Edge {
    pub from: String,
    pub to: String,
    pub on: About,
}

#[derive(Debug, Serialize)]
pub struct Counts {
    pub types: usize,
    pub multi_table: usize,
    pub deadlock_prone: usize,
    pub interleaved: usize,
    pub pieces_before: usize,
    pub pieces: usize,
    pub ranks: u32,
}

impl Document {
    /// The analysis in this form; `source` is where the workload came from.
    pub fn new(source: &str, workload: &str, analysis: &Analysis) -> Self {
        let study = study(analysis);
        Self {
            source: source.into(),
            workload: workload.into(),
            options: ChosenOptions {
                granularity: match analysis.options.granularity {
                    Granularity::Column => "column",
                    Granularity::Group => "group",
                    Granularity::Table => "table",
                },
                method: match analysis.options.method {
                    Method::Ic3 => "ic3",
                    Method::Chopping => "chopping",
                },
                commutative: analysis.options.commutative,
                causal: analysis.options.causal,
                rollback_safe: analysis.options.rollback_safe,
                defer: analysis.options.defer,
            },
            types: (0..analysis.types.len()).map(|at| of_type(analysis, at)).collect(),
            merges: (0..analysis.merges.len()).map(|at| merge(analysis, at)).collect(),
            edges: edges(analysis),
            snapshots: analysis.snapshots.clone(),
            entangled: analysis.entangled.as_ref().map(|entangled| entangled.words(&analysis.graph)),
            counts: Counts {
                types: study.total,
                multi_table: study.multi_table,
                deadlock_prone: study.deadlock_prone,
                interleaved: study.interleaved,
                pieces_before: analysis.graph.pieces.len(),
                pieces: analysis.types.iter().map(|one| one.pieces.len()).sum(),
                ranks: analysis.vertices.iter().map(|vertex| vertex.rank).max().unwrap_or(0),
            },
        }
    }
}

/// What a C-edge is about: tables and their units.
type About = BTreeMap<String, Vec<String>>;

/// C-edges after merging, with what they are about.
pub fn edges(analysis: &Analysis) -> Vec<Edge> {
    let after = analysis.after();
    let mut edges: BTreeMap<[(usize, usize); 2], About> = BTreeMap::new();
    for edge in &analysis.graph.edges {
        let mut ends = [after[edge.from], after[edge.to]];
        ends.sort_unstable();
        let on = edges.entry(ends).or_default();
        for (table, units) in &edge.on {
            let names = on.entry(analysis.graph.schema.table(*table).into()).or_default();
            for unit in analysis.graph.schema.names(*table, units) {
                if !names.iter().any(|name| name == unit) {
                    names.push(unit.into());
                }
            }
        }
    }
    let edge = |([from, to], on): ([(usize, usize); 2], _)| Edge {
        from: name(analysis, from),
        to: name(analysis, to),
        on,
    };
    edges.into_iter().map(edge).collect()
}

fn of_type(analysis: &Analysis, at: usize) -> Type {
    let (one, graph) = (&analysis.types[at], &analysis.graph);
    let before = graph.types[at].pieces.clone();
    let piece_before = |piece: usize| PieceBefore {
        piece: piece - before.start + 1,
        sites: accesses(&graph.sites[graph.pieces[piece].sites.clone()]),
        conflict: graph.edges_of(piece).next().is_some(),
    };
    Type {
        name: one.name.clone(),
        weight: graph.types[at].weight,
        pieces: (0..one.pieces.len()).map(|place| piece(analysis, one, before.start, place)).collect(),
        before: before.clone().map(piece_before).collect(),
        first_exposed: one.first_exposed.map(|(piece, _)| piece + 1),
    }
}

fn piece(analysis: &Analysis, one: &TypeAnalysis, first: usize, place: usize) -> Piece {
    let piece: &MergedPiece = &one.pieces[place];
    let type_name = |at: usize| analysis.types[at].name.clone();
    Piece {
        piece: place + 1,
        sites: accesses(&analysis.graph.sites[piece.sites.clone()]),
        conflict: piece.conflict,
        rank: piece.rank,
        rendezvous: piece
            .rendezvous
            .iter()
            .map(|one| Rendezvous {
                with: type_name(one.with),
                piece: one.pieces[0] + 1,
                candidates: one.pieces.iter().map(|piece| piece + 1).collect(),
            })
            .collect(),
        tracked: piece.tracked,
        vertex: piece.vertex + 1,
        before: numbers(&piece.before, first),
        merges: piece.merges.iter().map(|merge| merge + 1).collect(),
        waits: piece
            .waits
            .iter()
            .map(|wait| {
                let (until, piece) = match wait.until {
                    Until::Piece(piece) => ("piece", Some(piece + 1)),
                    Until::Rendezvous(piece) => ("rendezvous", Some(piece + 1)),
                    Until::Commit => ("commit", None),
                };
                Wait { on: type_name(wait.on), until, piece }
            })
            .collect(),
    }
}

fn numbers(pieces: &Range<usize>, first: usize) -> Vec<usize> {
    pieces.clone().map(|piece| piece - first + 1).collect()
}

fn accesses(sites: &[Site]) -> Vec<Access> {
    let access = |site: &Site| Access {
        mode: site.access.mode.word(),
        table: site.access.table.clone(),
        line: site.access.line,
        repeated: site.repeated,
        conditional: site.conditional,
        causal: site.access.causal,
    };
    sites.iter().map(access).collect()
}

fn merge(analysis: &Analysis, at: usize) -> Merge {
    let (merge, graph) = (&analysis.merges[at], &analysis.graph);
    let first_of = |piece: usize| graph.types[graph.pieces[piece].transaction].pieces.start;
    let end = |site: usize| {
        let (piece, access) = (graph.sites[site].piece, &graph.sites[site].access);
        End {
            of_type: graph.types[graph.sites[site].transaction].name.clone(),
            piece: piece - first_of(piece) + 1,
            access: format!("{} {}", access.mode.word(), access.table),
        }
    };
    let step = |step: &CycleStep| match *step {
        CycleStep::Sibling { from, to } => Step { step: "sibling", from: end(from), to: end(to), on: None },
        CycleStep::Merged { from, to } => Step { step: "merged", from: end(from), to: end(to), on: None },
        CycleStep::Conflict { from, to, .. } => {
            Step { step: "conflict", from: end(from), to: end(to), on: Some(graph.meeting(from, to)) }
        }
    };
    let run = |run: &Range<usize>| MergedRun {
        of_type: graph.types[graph.pieces[run.start].transaction].name.clone(),
        before: numbers(run, first_of(run.start)),
    };
    Merge {
        merge: at + 1,
        merged: merge.merged.iter().map(run).collect(),
        cycle: merge.cycle.words(graph),
        steps: merge.cycle.steps.iter().map(step).collect(),
    }
}

/// A piece after merging, in the form in which all outputs name it: `new_order.3`.
pub fn name(analysis: &Analysis, (of_type, piece): (usize, usize)) -> String {
    format!("{}.{}", analysis.types[of_type].name, piece + 1)
}
