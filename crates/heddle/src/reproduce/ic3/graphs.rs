//! What the static analysis alone shows: the SC-graph of TPC-C (figure 14, section 6.3) and the study of web
//! applications (table 2, section 6.11).

use crate::analyze::drawing;
use crate::analyze::source::parse;
use crate::failure::Failure;
use crate::reproduce::figure::{Claim, Content, Facts, Figure, Finding};
use crate::reproduce::settings::CORES;
use heddledb::procedure::{Declaration, workload};
use heddledb_analysis::study::{Study, study};
use heddledb_analysis::{Options, analyse, builtin};
use heddledb_workloads::tpcc::delivery::Delivery;
use heddledb_workloads::tpcc::transactions::{NewOrder, Payment};

/// The graph itself.
pub fn figure_14() -> Figure {
    Figure {
        id: "14",
        title: "SC-graph of TPC-C's three types that write",
        section: "§6.3",
        axis: CORES,
        content: Content::Facts(sc_graph),
        notes: vec![
            "From the bodies of the procedures, as the engine has them; the paper's drawing is not in its text.".into(),
        ],
        claims: vec![
            Claim::new(
                "Three of the five types take part; the analysis leaves pieces that can be interleaved.",
                |results| {
                    let counts = ["new_order", "payment", "delivery"].map(|name| results.fact(name));
                    let [new_order, payment, delivery] = counts;
                    let (new_order, payment, delivery) = (new_order?, payment?, delivery?);
                    let merges = results.fact("merges")?;
                    let measured = format!(
                        "pieces with C-edges: New-Order {new_order}, Payment {payment}, Delivery {delivery}; {merges} merges"
                    );
                    Ok(Finding::new(new_order > 1.0 && delivery > 1.0, measured))
                },
            ),
            Claim::new(
                "With Delivery's loop in one piece New-Order keeps 3, Payment 1, Delivery 2 (as in code derived from IC3).",
                |results| {
                    let counts = ["fused new_order", "fused payment", "fused delivery"].map(|name| results.fact(name));
                    let [new_order, payment, delivery] = counts;
                    let counts = [new_order?, payment?, delivery?];
                    let measured = format!("New-Order {}, Payment {}, Delivery {}", counts[0], counts[1], counts[2]);
                    Ok(Finding::new(counts == [3.0, 1.0, 2.0], measured))
                },
            ),
        ],
    }
}

fn sc_graph() -> Result<Facts, Failure> {
    let procedures =
        [Declaration::of::<NewOrder>(), Declaration::of::<Payment>(), Declaration::of::<Delivery>()];
    let analysis = analyse(&workload("tpcc", &procedures), &Options::default());
    let text = builtin::find("tpcc-fused").ok_or_else(|| Failure::run("the text tpcc-fused is missing"))?;
    let fused = analyse(&parse(text.name, text.text)?, &Options::default());
    let mut facts = Facts {
        titles: vec!["type", "pieces", "with C-edges", "tables of these"],
        drawing: drawing::framed(&analysis),
        ..Facts::default()
    };
    for (prefix, analysis) in [("", &analysis), ("fused ", &fused)] {
        for one in &analysis.types {
            let conflicts = one.pieces.iter().filter(|piece| piece.conflict);
            let tables: Vec<String> =
                conflicts.map(|piece| analysis.graph.tables(piece.sites.clone()).join("+")).collect();
            let count = one.conflict_pieces();
            let name = ["new_order", "payment", "delivery"].into_iter().find(|name| *name == one.name);
            let Some(name) = name else { continue };
            let label =
                if prefix.is_empty() { name.to_owned() } else { format!("{name}, Delivery's loop in one") };
            facts.rows.push(vec![label, one.pieces.len().to_string(), count.to_string(), tables.join(", ")]);
            let fact = match (prefix, name) {
                ("", name) => name,
                (_, "new_order") => "fused new_order",
                (_, "payment") => "fused payment",
                _ => "fused delivery",
            };
            facts.values.push((fact, count as f64));
        }
    }
    facts.values.push(("merges", analysis.merges.len() as f64));
    Ok(facts)
}

/// Table 2 of IC3.
pub fn table_2() -> Figure {
    let reason = "the paper analysed the applications of October 2015 by hand and published counts alone; the \
                  applications that are described here (`heddle analyze --apps`) are few, and their descriptions follow \
                  callbacks that the paper left out";
    Figure {
        id: "table2",
        title: "Web applications that can profit",
        section: "§6.11",
        axis: CORES,
        content: Content::Facts(applications),
        notes: Vec::new(),
        claims: vec![
            Claim::unreachable(
                "11 of 14 applications have types that access more than one table, and all 11 can profit from IC3.",
                reason,
            ),
            Claim::unreachable(
                "Of Canvas LMS's 46 types 30 access several tables, 12 are on a deadlock-prone SC-cycle, 20 keep several \
                 pieces.",
                reason,
            ),
            Claim::new(
                "Of the described applications those that the paper counts as able to profit are so here too.",
                |results| {
                    let (expected, found) = (results.fact("expected")?, results.fact("found")?);
                    let measured = format!("{found} of {expected}");
                    Ok(Finding::new(found >= expected && expected > 0.0, measured))
                },
            ),
        ],
    }
}

fn applications() -> Result<Facts, Failure> {
    let mut facts = Facts {
        titles: vec![
            "application",
            "domain",
            "types",
            "multi",
            "D-SC",
            "IC3",
            "here: types",
            "multi",
            "D-SC",
            "IC3",
        ],
        ..Facts::default()
    };
    let numbers = |study: &Study| {
        [study.total, study.multi_table, study.deadlock_prone, study.interleaved]
            .map(|count| count.to_string())
    };
    let (mut expected, mut found) = (0, 0);
    for one in builtin::APPLICATIONS {
        let mut row = vec![one.name.to_owned(), one.domain.to_owned()];
        row.extend(numbers(&one.paper));
        match one.described {
            None => row.extend(std::iter::repeat_n("-".to_owned(), 4)),
            Some(description) => {
                let text = builtin::find(description.name)
                    .ok_or_else(|| Failure::run(format!("the text {} is missing", description.name)))?;
                let here = study(&analyse(&parse(text.name, text.text)?, &Options::default()));
                row.extend(numbers(&here));
                if one.paper.interleaved > 0 {
                    expected += 1;
                    found += usize::from(here.interleaved > 0);
                }
            }
        }
        facts.rows.push(row);
    }
    facts.values = vec![("expected", expected as f64), ("found", found as f64)];
    Ok(facts)
}
