//! Section 6.2: the chopping graph of TPC-C.

use crate::analyze::drawing;
use crate::failure::Failure;
use crate::reproduce::figure::{Claim, Content, Facts, Figure, Finding, Missing, Results};
use crate::reproduce::settings::CORES;
use heddledb::procedure::{Declaration, workload};
use heddledb_analysis::analysis::TypeAnalysis;
use heddledb_analysis::{Analysis, Granularity, Method, Options, analyse};
use heddledb_workloads::tpcc::delivery::DeliveryByAdds;
use heddledb_workloads::tpcc::items_first::NewOrderOrdersLast;
use heddledb_workloads::tpcc::transactions::{OrderStatus, Payment, StockLevel};

/// The default algorithm, or the paper's refinements of it.
fn chopped(granularity: Granularity, refined: bool) -> Analysis {
    analysed(granularity, refined, refined)
}

/// The same, where the marks of what the program itself orders count, or do not.
fn analysed(granularity: Granularity, refined: bool, causal: bool) -> Analysis {
    let mut readers = [Declaration::of::<OrderStatus>(), Declaration::of::<StockLevel>()];
    readers.iter_mut().for_each(|reader| reader.set_readonly(refined));
    let procedures = [
        Declaration::of::<NewOrderOrdersLast>(),
        Declaration::of::<Payment>(),
        Declaration::of::<DeliveryByAdds>(),
    ];
    let procedures = procedures.into_iter().chain(readers).collect::<Vec<_>>();
    let options = Options {
        granularity,
        method: Method::Chopping,
        rollback_safe: true,
        defer: refined,
        causal,
        ..Options::default()
    };
    analyse(&workload("tpcc", &procedures), &options)
}

/// A type, and the names of its facts.
struct Type {
    /// In the analysis.
    name: &'static str,
    label: &'static str,
    /// All accesses.
    all: &'static str,
    /// Those in the conflicting piece, conflicts being by tables.
    by_tables: &'static str,
    /// The same by column groups.
    by_groups: &'static str,
    /// The same with additions put off and readers on snapshots.
    refined: &'static str,
}

macro_rules! of_type {
    ($name:literal, $label:literal) => {
        Type {
            name: $name,
            label: $label,
            all: concat!($name, ": accesses"),
            by_tables: concat!($name, ": by tables"),
            by_groups: concat!($name, ": by groups"),
            refined: concat!($name, ": refined"),
        }
    };
}

/// Those that write come first.
static TYPES: [Type; 5] = [
    of_type!("new_order_orders_last", "New-Order"),
    of_type!("payment", "Payment"),
    of_type!("delivery_by_adds", "Delivery"),
    of_type!("order_status", "Order-Status"),
    of_type!("stock_level", "Stock-Level"),
];
const WRITERS: usize = 3;

/// Accesses in pieces with C-edges.
fn in_conflict(one: &TypeAnalysis) -> usize {
    one.pieces.iter().filter(|piece| piece.conflict).map(|piece| piece.sites.len()).sum()
}

fn most_pieces(analysis: &Analysis) -> f64 {
    analysis.types.iter().map(TypeAnalysis::conflict_pieces).max().unwrap_or(0) as f64
}

/// The rows of an analysis.
fn rows(facts: &mut Facts, how: &str, analysis: &Analysis) {
    for known in &TYPES {
        let Some(one) = analysis.of_type(known.name) else { continue };
        let conflicts = one.pieces.iter().filter(|piece| piece.conflict);
        let tables: Vec<String> =
            conflicts.map(|piece| analysis.graph.tables(piece.sites.clone()).join("+")).collect();
        let all: usize = one.pieces.iter().map(|piece| piece.sites.len()).sum();
        facts.rows.push(vec![
            known.label.to_owned(),
            how.to_owned(),
            one.pieces.len().to_string(),
            one.conflict_pieces().to_string(),
            format!("{} of {all}", in_conflict(one)),
            tables.join(", "),
        ]);
    }
}

fn titled() -> Facts {
    let titles = vec!["type", "conflicts", "pieces", "with C-edges", "accesses in these", "tables of these"];
    Facts { titles, ..Facts::default() }
}

/// What of the default graphs claims are about.
fn by_default(facts: &mut Facts, by_tables: &Analysis, by_groups: &Analysis) {
    for known in &TYPES {
        let Some(one) = by_tables.of_type(known.name) else { continue };
        let all: usize = one.pieces.iter().map(|piece| piece.sites.len()).sum();
        facts.values.push((known.all, all as f64));
        facts.values.push((known.by_tables, in_conflict(one) as f64));
        let by_groups = by_groups.of_type(known.name).map_or(0, in_conflict);
        facts.values.push((known.by_groups, by_groups as f64));
    }
}

const MOST: &str = "conflicting pieces of a type";

fn default_graph() -> Result<Facts, Failure> {
    let (by_tables, by_groups) = (chopped(Granularity::Table, false), chopped(Granularity::Group, false));
    let mut facts = Facts { drawing: drawing::framed(&by_tables), ..titled() };
    rows(&mut facts, "by tables", &by_tables);
    rows(&mut facts, "by column groups", &by_groups);
    by_default(&mut facts, &by_tables, &by_groups);
    facts.values.push((MOST, most_pieces(&by_tables).max(most_pieces(&by_groups))));
    Ok(facts)
}

/// The tables of an order's rows, but for the one by which a Delivery finds it.
const OF_ORDERS: [&str; 2] = ["order", "order_line"];

/// Whether a conflicting piece of a type accesses one of these tables.
fn conflicts_over(analysis: &Analysis, known: &Type, tables: &[&str]) -> bool {
    let pieces = analysis.of_type(known.name).into_iter().flat_map(|one| &one.pieces);
    let conflicts = pieces.filter(|piece| piece.conflict);
    conflicts
        .flat_map(|piece| analysis.graph.tables(piece.sites.clone()))
        .any(|table| tables.contains(&table))
}

fn as_fact(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

const READERS_LEFT: &str = "types that only read in the graph";
const REFUSED: &str = "deferral is refused";
const CUSTOMER: &str = "customer is in Delivery's piece";
/// By type, whether order or order_line is in its conflicting piece.
const ORDERS: [&str; 2] = ["orders are in New-Order's piece", "orders are in Delivery's piece"];

/// Whether those that write orders have their rows in their conflicting pieces, as facts.
fn orders_conflict(analysis: &Analysis) -> [(&'static str, f64); 2] {
    let of = |known| as_fact(conflicts_over(analysis, known, &OF_ORDERS));
    [(ORDERS[0], of(&TYPES[0])), (ORDERS[1], of(&TYPES[2]))]
}

/// As [`refined_graph`], where it is not known that an order's other rows are reached by its row of new_order alone.
fn unmarked_graph() -> Result<Facts, Failure> {
    let unmarked = analysed(Granularity::Group, true, false);
    let mut facts = Facts { drawing: drawing::framed(&unmarked), ..titled() };
    rows(&mut facts, "by column groups", &unmarked);
    facts.values.push((MOST, most_pieces(&unmarked)));
    facts.values.extend(orders_conflict(&unmarked));
    Ok(facts)
}

fn refined_graph() -> Result<Facts, Failure> {
    let refined = chopped(Granularity::Group, true);
    let mut facts = Facts { drawing: drawing::framed(&refined), ..titled() };
    rows(&mut facts, "by column groups", &refined);
    by_default(&mut facts, &chopped(Granularity::Table, false), &chopped(Granularity::Group, false));
    for known in &TYPES[..WRITERS] {
        let conflict = refined.of_type(known.name).map_or(0, in_conflict);
        facts.values.push((known.refined, conflict as f64));
    }
    facts.values.extend([
        (MOST, most_pieces(&refined)),
        (READERS_LEFT, (refined.types.len() - WRITERS) as f64),
        (REFUSED, as_fact(refined.entangled.is_some())),
        (CUSTOMER, as_fact(conflicts_over(&refined, &TYPES[2], &["customer"]))),
    ]);
    facts.values.extend(orders_conflict(&refined));
    Ok(facts)
}

fn at_most_one() -> Claim {
    Claim::new("Each transaction has at most one conflicting piece (theorem 1).", |results| {
        let most = results.fact(MOST)?;
        Ok(Finding::new(most <= 1.0, format!("{most} at most")))
    })
}

/// Accesses in the conflicting piece, of all.
fn told(results: &Results, types: &[Type], of: fn(&Type) -> &'static str) -> Result<String, Missing> {
    let each = types.iter().map(|known| {
        Ok(format!("{} {} of {}", known.label, results.fact(of(known))?, results.fact(known.all)?))
    });
    Ok(each.collect::<Result<Vec<_>, Missing>>()?.join(", "))
}

fn notes(more: &str) -> Vec<String> {
    vec![
        "From the bodies of the procedures, as the engine has them; the paper's drawing is not in its text. New-Order looks its items up first and enters \
             the order's rows last, and Payment and Delivery add to sums unread, which commutes. What comes before a point behind which a type does not give up is one piece."
            .into(),
        more.into(),
    ]
}

/// The graph of the default algorithm.
pub fn figure_10() -> Figure {
    Figure {
        id: "10",
        title: "The chopping graph of TPC-C by the default algorithm",
        section: "§6.2",
        axis: CORES,
        content: Content::Facts(default_graph),
        notes: notes(
            "Drawn with conflicts by tables, as the paper chops; the engine's are by column groups.",
        ),
        claims: vec![
            at_most_one(),
            Claim::new(
                "The default algorithm can chop very few transactions into smaller pieces.",
                |results| {
                    let mut smaller = 0;
                    for known in &TYPES {
                        let share = results.fact(known.by_tables)? / results.fact(known.all)?;
                        smaller += usize::from(share < 0.75);
                    }
                    let told = told(results, &TYPES, |known| known.by_tables)?;
                    Ok(Finding::new(smaller <= 1, format!("accesses in the conflicting piece: {told}")))
                },
            ),
            Claim::new(
                "Our own: conflicts by column groups alone make Payment's and New-Order's smaller.",
                |results| {
                    let mut holds = true;
                    for known in &TYPES[..2] {
                        holds &= results.fact(known.by_groups)? < results.fact(known.by_tables)?;
                    }
                    Ok(Finding::new(holds, told(results, &TYPES, |known| known.by_groups)?))
                },
            ),
        ],
    }
}

/// The graph with all that makes pieces smaller.
pub fn figure_11() -> Figure {
    Figure {
        id: "11",
        title: "The chopping graph of TPC-C in DBX-TC: readers on snapshots, additions put off",
        section: "§6.2",
        axis: CORES,
        content: Content::Facts(refined_graph),
        notes: notes(
            "Conflicts are by column groups, as records are accessed: by tables, what is put off could be seen, since New-Order reads customers, whom \
             Payment changes, and the engine refuses that. Accesses of an order's other rows are marked causal: whoever wants them has come to its row of \
             new_order, or made it, and a Delivery that is too early for them waits.",
        ),
        claims: vec![
            at_most_one(),
            Claim::new(
                "Transactions are chopped into smaller pieces than by the default algorithm.",
                |results| {
                    let mut holds = true;
                    for known in &TYPES[..WRITERS] {
                        holds &= results.fact(known.refined)? < results.fact(known.by_tables)?;
                    }
                    let writers = &TYPES[..WRITERS];
                    let refined = told(results, writers, |known| known.refined)?;
                    let by_groups = told(results, writers, |known| known.by_groups)?;
                    let measured = format!(
                        "accesses in the conflicting piece: {refined}; by default and column groups {by_groups}"
                    );
                    Ok(Finding::new(holds, measured))
                },
            ),
            Claim::new("Transactions that only read can be removed from the graph.", |results| {
                let left = results.fact(READERS_LEFT)?;
                Ok(Finding::new(left == 0.0, format!("{left} of 2 are left")))
            }),
            Claim::new(
                "Delivery's additions to customers' balances can be deferred, and leave its conflicting piece.",
                |results| {
                    let (refused, left) = (results.fact(REFUSED)? > 0.0, results.fact(CUSTOMER)? > 0.0);
                    let measured = match (refused, left) {
                        (true, _) => "it is refused",
                        (false, true) => "they stay in it",
                        (false, false) => "they do",
                    };
                    Ok(Finding::new(!refused && !left, measured))
                },
            ),
            orders_leave(),
        ],
    }
}

fn orders_leave() -> Claim {
    Claim::new("As a by-product, Order and Order-Line leave the conflicting piece (figure 3).", orders_left)
}

fn orders_left(results: &Results) -> Result<Finding, Missing> {
    let [of_new_order, of_delivery] = [results.fact(ORDERS[0])? > 0.0, results.fact(ORDERS[1])? > 0.0];
    let told = |left| if left { "stay" } else { "leave it" };
    let measured = format!("New-Order's {}, Delivery's {}", told(of_new_order), told(of_delivery));
    Ok(Finding::new(!of_new_order && !of_delivery, measured))
}

/// Figure 11 where the analysis is told less.
pub fn figure_11_why() -> Figure {
    Figure {
        id: "11-why",
        title: "The same where no access is marked causal",
        section: "§6.2",
        axis: CORES,
        content: Content::Facts(unmarked_graph),
        notes: notes(
            "New-Order and Delivery both write rows of new_order, order and order_line, and any two tables at which two types meet make an SC-cycle.",
        ),
        claims: vec![
            at_most_one(),
            Claim::new("Our own: then Order and Order-Line stay in both conflicting pieces.", |results| {
                let Finding { holds, measured } = orders_left(results)?;
                Ok(Finding::new(!holds, measured))
            }),
        ],
    }
}
