//! A second implementation, written to be obvious and slow, against the first on random workload texts.
//!
//! It reads the text itself, keeps sets of column names, builds the SC-graph with two instances of every type as
//! a list of pieces, and enumerates paths: as long as some S-edge can be closed to a cycle by S-edges
//! forward and C-edges either way, the two pieces that it joins become one, and everything begins again.
//!
//! A failure prints the seed and the text. `HEDDLE_SEED=17 cargo test -p heddledb-analysis --test naive` replays one;
//! `HEDDLE_TEXTS` says how many there are.

mod slow;
mod texts;

use heddledb_analysis::analysis::Until;
use heddledb_analysis::deferral::Link;
use heddledb_analysis::merge::CycleStep;
use heddledb_analysis::{Analysis, Method, Options, analyse, text};
use slow::{Naive, read};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use texts::{Random, Shape, generate};

const TEXTS: u64 = 10_000;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs a check on random texts; a panic tells the seed and the text.
fn on_random_texts(shape: &Shape, texts: u64, check: impl Fn(&str)) {
    let seeds = match setting("HEDDLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("HEDDLE_TEXTS").unwrap_or(texts),
    };
    for seed in seeds {
        let text = generate(&mut Random(seed), shape);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&text)));
        if let Err(panic) = outcome {
            eprintln!("replay with HEDDLE_SEED={seed}\n{text}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Pieces by number of accesses, and which conflict, and rendezvous pieces.
fn compare(text: &str, enumerate: bool) -> Analysis {
    let analysis = analyse(&text::parse(text).unwrap(), &Options::default());
    let mut naive = read(text);
    naive.merge(enumerate);
    assert_eq!(analysis.types.len(), naive.types.len());
    for (at, (one, (name, pieces))) in analysis.types.iter().zip(&naive.types).enumerate() {
        assert_eq!(&one.name, name);
        let sizes: Vec<usize> = one.pieces.iter().map(|piece| piece.sites.len()).collect();
        assert_eq!(sizes, pieces.iter().map(Vec::len).collect::<Vec<_>>(), "pieces of {name}");
        for (place, piece) in one.pieces.iter().enumerate() {
            assert_eq!(piece.conflict, naive.conflicts(at, place), "piece {place} of {name}");
            for with in 0..naive.types.len() {
                let found = piece.rendezvous.iter().find(|rendezvous| rendezvous.with == with);
                let found = found.map_or(Vec::new(), |rendezvous| rendezvous.pieces.clone());
                let expected = if piece.conflict { naive.rendezvous(at, place, with) } else { Vec::new() };
                assert_eq!(found, expected, "rendezvous pieces of {name} {place} with {with}");
            }
        }
    }
    analysis
}

/// What holds of every result.
fn sound(analysis: &Analysis) {
    let graph = &analysis.graph;
    for one in &analysis.types {
        for pair in one.pieces.windows(2) {
            assert!(pair[0].rank < pair[1].rank, "ranks rise within a type");
            assert_eq!(pair[0].sites.end, pair[1].sites.start);
        }
        for piece in &one.pieces {
            assert_eq!(piece.before.len() > 1, !piece.merges.is_empty(), "every merge has its reason");
            for rendezvous in &piece.rendezvous {
                let first = &analysis.types[rendezvous.with].pieces[rendezvous.pieces[0]];
                assert!(first.rank > piece.rank, "a rendezvous piece stands behind");
            }
            for wait in &piece.waits {
                // The rule by ranks waits for the same piece, or for an earlier one.
                let others = &analysis.types[wait.on].pieces;
                let by_rank = others.iter().position(|other| other.conflict && other.rank >= piece.rank);
                match wait.until {
                    Until::Piece(other) => {
                        assert_eq!(others[other].vertex, piece.vertex);
                        assert_eq!(by_rank, Some(other));
                    }
                    Until::Rendezvous(other) => assert!(by_rank.is_some_and(|first| first <= other)),
                    Until::Commit => {}
                }
            }
        }
        let first_write =
            one.pieces.iter().position(|piece| piece.sites.clone().any(|site| graph.sites[site].exposed));
        assert_eq!(one.first_exposed.map(|(piece, _)| piece), first_write);
    }
    for edge in analysis.edges() {
        let [one, two] = edge.map(|(of_type, piece)| &analysis.types[of_type].pieces[piece]);
        assert_eq!((one.vertex, one.rank), (two.vertex, two.rank), "C-edges join equal ranks");
    }
    for merge in &analysis.merges {
        assert!(merge.merged.iter().all(|run| run.len() > 1) && !merge.merged.is_empty());
        cycle_is_one(analysis, &merge.cycle.steps);
        assert!(!merge.cycle.words(graph).is_empty());
    }
}

/// Each step of a told cycle leads where it says, forward along S-edges, and the last to the first.
fn cycle_is_one(analysis: &Analysis, steps: &[CycleStep]) {
    let graph = &analysis.graph;
    let piece = |site: usize| graph.sites[site].piece;
    let ends = |step: &CycleStep| match *step {
        CycleStep::Sibling { from, to } | CycleStep::Merged { from, to } => (piece(from), piece(to)),
        CycleStep::Conflict { from, to, .. } => (piece(from), piece(to)),
    };
    for (at, step) in steps.iter().enumerate() {
        let (from, to) = ends(step);
        assert_eq!(to, ends(&steps[(at + 1) % steps.len()]).0, "step {at} of {steps:?}");
        match *step {
            CycleStep::Sibling { from: one, to: two } => {
                assert!(from < to, "an S-edge leads forward");
                assert_eq!(graph.sites[one].transaction, graph.sites[two].transaction);
            }
            CycleStep::Merged { from: one, to: two } => {
                assert_eq!(graph.sites[one].transaction, graph.sites[two].transaction);
            }
            CycleStep::Conflict { from: one, to: two, edge } => {
                assert!(!graph.sites[one].footprint.meets(&graph.sites[two].footprint).is_empty());
                assert!([(from, to), (to, from)].contains(&(graph.edges[edge].from, graph.edges[edge].to)));
            }
        }
    }
    assert!(steps.iter().any(|step| matches!(step, CycleStep::Sibling { .. })));
    assert!(steps.iter().any(|step| matches!(step, CycleStep::Conflict { .. })));
}

const TINY: Shape = Shape { types: 2, steps: 3, tables: 3, ordered: 5 };
const MIDDLING: Shape = Shape { types: 4, steps: 7, tables: 6, ordered: 8 };

#[test]
fn tiny_texts_give_what_enumeration_of_cycles_gives() {
    let (mut merges, mut kept) = (0, 0);
    let counts = std::cell::RefCell::new((&mut merges, &mut kept));
    on_random_texts(&TINY, TEXTS, |text| {
        let analysis = compare(text, true);
        sound(&analysis);
        let mut counts = counts.borrow_mut();
        *counts.0 += usize::from(!analysis.merges.is_empty());
        *counts.1 += usize::from(analysis.types.iter().any(|one| one.conflict_pieces() > 1));
    });
    // The texts are worth something: many merge, and many keep several conflict pieces.
    if setting("HEDDLE_SEED").is_none() && setting("HEDDLE_TEXTS").is_none() {
        assert!(merges > 2_000 && kept > 1_000, "{merges} texts merge, {kept} keep conflict pieces");
    }
}

#[test]
fn larger_texts_give_what_the_closure_gives() {
    on_random_texts(&MIDDLING, TEXTS, |text| sound(&compare(text, false)));
}

#[test]
fn enumeration_and_closure_agree() {
    on_random_texts(&TINY, 1_000, |text| {
        let [mut one, mut two] = [read(text), read(text)];
        one.merge(true);
        two.merge(false);
        let sizes = |naive: &Naive| -> Vec<Vec<usize>> {
            naive.types.iter().map(|(_, pieces)| pieces.iter().map(Vec::len).collect()).collect()
        };
        assert_eq!(sizes(&one), sizes(&two));
    });
}

#[test]
fn merging_what_is_merged_changes_nothing() {
    on_random_texts(&MIDDLING, 1_000, |text| {
        let workload = text::parse(text).unwrap();
        let once = analyse(&workload, &Options::default());
        // The result as declared pieces: each merged piece by hand.
        let mut again = workload.clone();
        again.transactions.retain(|transaction| !transaction.readonly);
        for (transaction, one) in again.transactions.iter_mut().zip(&once.types) {
            let accesses = once.graph.types.iter().find(|of_type| of_type.name == one.name).unwrap();
            let start = accesses.sites.start;
            let flat: Vec<_> = transaction.accesses().into_iter().cloned().collect();
            let piece = |piece: &heddledb_analysis::analysis::MergedPiece| {
                let of_piece = &flat[piece.sites.start - start..piece.sites.end - start];
                let accesses = of_piece.iter().cloned().map(|mut access| {
                    access.piece = None;
                    heddledb_analysis::workload::Step::Access(access)
                });
                heddledb_analysis::workload::Step::Piece(accesses.collect())
            };
            transaction.body = one.pieces.iter().map(piece).collect();
        }
        let twice = analyse(&again, &Options::default());
        assert!(twice.merges.is_empty());
        let shape = |analysis: &Analysis| -> Vec<Vec<(std::ops::Range<usize>, bool)>> {
            let pieces = |one: &heddledb_analysis::analysis::TypeAnalysis| {
                one.pieces.iter().map(|piece| (piece.sites.clone(), piece.conflict)).collect()
            };
            analysis.types.iter().map(pieces).collect()
        };
        assert_eq!(shape(&once), shape(&twice));
    });
}

#[test]
fn adding_a_type_never_splits_a_piece() {
    on_random_texts(&MIDDLING, 1_000, |text| {
        let workload = text::parse(text).unwrap();
        let whole = analyse(&workload, &Options::default());
        let names: Vec<&str> = workload.transactions.iter().map(|one| one.name.as_str()).collect();
        let fewer = analyse(&workload.only(&names[..names.len() - 1]), &Options::default());
        let transition = heddledb_analysis::transition::Transition::between(&fewer, &whole);
        for one in &transition.types {
            let outer: Vec<_> = one.pieces.iter().map(|piece| piece.sites.len()).collect();
            let new = whole.of_type(&one.name).unwrap().pieces.iter().map(|piece| piece.sites.len());
            assert_eq!(outer, new.collect::<Vec<_>>(), "the new graph is the coarser one");
        }
    });
}

#[test]
fn names_and_the_order_of_types_are_irrelevant() {
    on_random_texts(&MIDDLING, 1_000, |text| {
        let workload = text::parse(text).unwrap();
        let plain = analyse(&workload, &Options::default());
        let renamed = text.replace(" tab", " zz_").replace(" t", " u").replace(" x", " column");
        let mut renamed = text::parse(&renamed).unwrap();
        renamed.transactions.reverse();
        let renamed = analyse(&renamed, &Options::default());
        let sizes: BTreeMap<String, Vec<(usize, bool, u32)>> = shapes(&plain);
        let others: BTreeMap<String, Vec<(usize, bool, u32)>> =
            shapes(&renamed).into_iter().map(|(name, shape)| (name.replacen('u', "t", 1), shape)).collect();
        assert_eq!(sizes, others);
    });
}

fn shapes(analysis: &Analysis) -> BTreeMap<String, Vec<(usize, bool, u32)>> {
    let shape = |one: &heddledb_analysis::analysis::TypeAnalysis| {
        let pieces = one.pieces.iter().map(|piece| (piece.sites.len(), piece.conflict, piece.rank)).collect();
        (one.name.clone(), pieces)
    };
    analysis.types.iter().map(shape).collect()
}

/// Theorem 1 of DBX-TC; and chopping is never finer than IC3.
#[test]
fn chopping_keeps_one_conflict_piece() {
    on_random_texts(&MIDDLING, 2_000, |text| {
        let workload = text::parse(text).unwrap();
        let chopped = analyse(&workload, &Options { method: Method::Chopping, ..Options::default() });
        let pipelined = analyse(&workload, &Options::default());
        for (one, other) in chopped.types.iter().zip(&pipelined.types) {
            assert!(one.conflict_pieces() <= 1, "{}", one.name);
            let ends = |one: &heddledb_analysis::analysis::TypeAnalysis| -> BTreeSet<usize> {
                one.pieces.iter().map(|piece| piece.sites.end).collect()
            };
            assert!(ends(one).is_subset(&ends(other)));
        }
        for merge in &chopped.merges {
            assert!(!merge.cycle.words(&chopped.graph).is_empty());
        }
    });
}

/// A way from a publisher to its subscriber is found wherever there is one, and each of its steps begins where the one before ended.
#[test]
fn entangled_types_are_found() {
    let found = [Cell::new(0), Cell::new(0)];
    let shape = Shape { types: 3, steps: 3, tables: 6, ordered: 5 };
    on_random_texts(&shape, 4_000, |text| {
        let marked: Vec<String> = text
            .lines()
            .map(|line| {
                if line.trim_start().starts_with("add") {
                    format!("{line} deferred")
                } else {
                    line.to_owned()
                }
            })
            .collect();
        let workload = text::parse(&marked.join("\n")).unwrap();
        let options = Options { method: Method::Chopping, defer: true, ..Options::default() };
        let analysis = analyse(&workload, &options);
        let graph = &analysis.graph;
        let type_of = |site: usize| graph.sites[site].transaction;
        let sites = || 0..graph.sites.len();
        let put_off: Vec<(usize, usize)> = sites()
            .flat_map(|one| sites().map(move |other| (one, other)))
            .filter(|&(one, other)| {
                !graph.sites[one].footprint.put_off(&graph.sites[other].footprint).is_empty()
            })
            .collect();
        // Every step and every way there is, by the types that it joins.
        let types = graph.types.len();
        let mut joined = vec![vec![false; types]; types];
        (0..types).for_each(|at| joined[at][at] = true);
        for (one, other) in sites().flat_map(|one| sites().map(move |other| (one, other))) {
            if !graph.sites[one].footprint.meets(&graph.sites[other].footprint).is_empty() {
                joined[type_of(one)][type_of(other)] = true;
            }
        }
        put_off.iter().for_each(|&(one, other)| joined[type_of(other)][type_of(one)] = true);
        for by in 0..types {
            for from in 0..types {
                for to in 0..types {
                    joined[from][to] |= joined[from][by] && joined[by][to];
                }
            }
        }
        let due = put_off.iter().any(|&(one, other)| joined[type_of(one)][type_of(other)]);
        assert_eq!(analysis.entangled.is_some(), due);
        let found = &found[usize::from(due)];
        found.set(found.get() + usize::from(!put_off.is_empty()));
        if let Some(entangled) = &analysis.entangled {
            let mut at = type_of(entangled.publisher);
            for link in &entangled.way {
                let (from, to) = match *link {
                    Link::Meets { from, to } => (from, to),
                    Link::Precedes { subscriber, publisher } => (subscriber, publisher),
                };
                assert_eq!(type_of(from), at);
                at = type_of(to);
            }
            assert_eq!(at, type_of(entangled.subscriber));
            assert!(entangled.words(graph).contains("cannot be deferred"));
        }
    });
    assert!(found.iter().all(|found| found.get() > 20), "both come up: {found:?}");
}

/// Hundreds of accesses take milliseconds; the limit is wide, for slow and busy machines.
#[test]
fn hundreds_of_accesses_are_no_matter() {
    let mut random = Random(1);
    let shape = Shape { types: 1, steps: 30, tables: 40, ordered: 10 };
    let types: String = (0..20)
        .map(|at| {
            let one = generate(&mut random, &shape);
            one[one.find("txn").unwrap()..].replacen("txn t0", &format!("txn t{at}"), 1)
        })
        .collect();
    let workload = text::parse(&format!("workload w\n{types}")).unwrap();
    let accesses: usize = workload.transactions.iter().map(|one| one.accesses().len()).sum();
    assert!(accesses > 200, "{accesses}");
    let start = std::time::Instant::now();
    let analysis = analyse(&workload, &Options::default());
    let taken = start.elapsed();
    eprintln!("{accesses} accesses, {} merges: {taken:?}", analysis.merges.len());
    assert!(taken.as_millis() < 500, "{taken:?}");
    assert_eq!(format!("{:?}", analyse(&workload, &Options::default())), format!("{analysis:?}"));
}
