//! Section 2.2: how much the transactions of TPC-C read and write.

use crate::failure::{Failure, chain};
use crate::reproduce::figure::{Claim, Content, Facts, Figure, Finding, Missing, Results, above, near};
use crate::reproduce::settings::{CORES, SMALL, unusable};
use heddledb::protocol::Kind;
use heddledb_simulator::working_set::{WorkingSet, working_sets};
use heddledb_workloads::tpcc::{Parameters, Tpcc};

/// Transactions of the standard mix: 40 of the rarest types.
const TRANSACTIONS: usize = 1_000;
const SEED: u64 = 1;

/// A type, what it is called in the paper, and what it reads and writes there, in bytes.
struct Row {
    kind: &'static str,
    name: &'static str,
    /// What it reads and writes here, as facts.
    facts: [&'static str; 2],
    paper: [f64; 2],
}

/// The paper's rows.
static ROWS: [Row; 5] = [
    Row {
        kind: "new-order",
        name: "New-Order",
        facts: ["new-order read", "new-order written"],
        paper: [7_864.0, 1_938.0],
    },
    Row {
        kind: "delivery",
        name: "Delivery",
        facts: ["delivery read", "delivery written"],
        paper: [13_567.0, 4_178.0],
    },
    Row {
        kind: "payment",
        name: "Payment",
        facts: ["payment read", "payment written"],
        paper: [2_240.0, 656.0],
    },
    Row {
        kind: "stock-level",
        name: "Stock-Level",
        facts: ["stock-level read", "stock-level written"],
        paper: [40_101.0, 1_341.0],
    },
    Row {
        kind: "order-status",
        name: "Order-Status",
        facts: ["order-status read", "order-status written"],
        paper: [2_241.0, 469.0],
    },
];

fn measure() -> Result<Facts, Failure> {
    let tpcc = Tpcc::new(Parameters { scale: SMALL, ..Parameters::default() }).map_err(unusable)?;
    let sets =
        working_sets(Kind::Htm, tpcc, SEED, TRANSACTIONS).map_err(|broken| Failure::run(chain(&broken)))?;
    let mut facts = Facts {
        titles: vec![
            "type",
            "paper: reads",
            "writes",
            "here: reads",
            "writes",
            "total",
            "of rows",
            "of index nodes",
            "transactions",
        ],
        ..Facts::default()
    };
    for row in &ROWS {
        let set = sets.iter().find(|set| set.kind == row.kind);
        let set: &WorkingSet = set.ok_or_else(|| Failure::run(format!("TPC-C has no type {}", row.kind)))?;
        let (read, written) = (set.mean(set.shared.read), set.mean(set.shared.written));
        let rest = [read, written, set.mean(set.shared.all), set.mean(set.rows.all), set.mean(set.nodes.all)];
        let mut cells = vec![row.name.to_owned()];
        cells.extend(row.paper.iter().chain(&rest).map(|bytes| format!("{bytes:.0}")));
        cells.push(set.transactions.to_string());
        facts.rows.push(cells);
        facts.values.extend(row.facts.into_iter().zip([read, written]));
    }
    Ok(facts)
}

/// What a type reads and writes here.
fn bytes(results: &Results, row: usize) -> Result<[f64; 2], Missing> {
    let [read, written] = ROWS[row].facts;
    Ok([results.fact(read)?, results.fact(written)?])
}

/// Whether both are the paper's.
fn as_in_the_paper(results: &Results, row: usize) -> Result<Finding, Missing> {
    let found = bytes(results, row)?;
    let holds = found.into_iter().zip(ROWS[row].paper).all(|(here, paper)| near(here, paper));
    Ok(Finding::new(holds, format!("{:.0} and {:.0}", found[0], found[1])))
}

/// Whether the order of the types by one of the two is the paper's, and that order here.
fn in_order(results: &Results, which: usize) -> Result<Finding, Missing> {
    let mut here = Vec::new();
    for (at, row) in ROWS.iter().enumerate() {
        here.push((row, bytes(results, at)?[which]));
    }
    // Those that differ in the paper.
    let holds = here.iter().all(|(one, of_one)| {
        let larger = here.iter().filter(|(other, _)| above(one.paper[which], other.paper[which]));
        larger.into_iter().all(|(_, of_other)| above(*of_one, *of_other))
    });
    here.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let told: Vec<String> = here.iter().map(|(row, bytes)| format!("{} {bytes:.0}", row.name)).collect();
    Ok(Finding::new(holds, told.join(", ")))
}

/// Why it is less here.
const LESS: &str = "what a transaction has for itself is not counted, and of a row only the columns that it names are accessed";

/// Table 1.
pub fn table_1() -> Figure {
    Figure {
        id: "table1",
        title: "What the transactions of TPC-C read and write, in bytes",
        section: "§2.2",
        axis: CORES,
        content: Content::Facts(measure),
        notes: vec![
            "Words of shared memory that a transaction of htm comes to from its begin to its end, each counted once for it, on one virtual core: rows \
             with their stamps, entries and nodes of indexes (the first buckets of hash indexes are in the total alone), old versions. What a transaction has for itself (arguments, write set, \
             stack) is not in it; the paper, whose transactions that only read write as well, seems to count that."
                .into(),
            "300 customers a district, 10,000 items, 100 orders a district; 1,000 transactions of the standard mix.".into(),
        ],
        claims: vec![
            Claim::new("New-Order reads 7,864 bytes and writes 1,938.", |results| as_in_the_paper(results, 0)).otherwise(LESS),
            Claim::new("Delivery reads 13,567 bytes and writes 4,178.", |results| as_in_the_paper(results, 1)).otherwise(LESS),
            Claim::new("Payment reads 2,240 bytes and writes 656.", |results| as_in_the_paper(results, 2)).otherwise(LESS),
            Claim::new("Stock-Level reads 40,101 bytes and writes 1,341.", |results| as_in_the_paper(results, 3)).otherwise(LESS),
            Claim::new("Order-Status reads 2,241 bytes and writes 469.", |results| as_in_the_paper(results, 4)).otherwise(LESS),
            Claim::new("Stock-Level reads most, then Delivery, New-Order, and the other two.", |results| in_order(results, 0)),
            Claim::new("Delivery writes most, then New-Order, Stock-Level, Payment, Order-Status.", |results| in_order(results, 1)).otherwise(
                "a New-Order writes whole rows, a Delivery a column or two of each; and what only reads writes nothing but epochs and locks",
            ),
            Claim::new("Each is within what a region may read and write (4 MB and 31 KB).", |results| {
                let mut most = [0.0_f64; 2];
                for row in 0..ROWS.len() {
                    let [read, written] = bytes(results, row)?;
                    most = [most[0].max(read), most[1].max(written)];
                }
                let holds = most[0] <= 4096.0 * 1024.0 && most[1] <= 31.0 * 1024.0;
                Ok(Finding::new(holds, format!("{:.0} and {:.0} at most", most[0], most[1])))
            }),
        ],
    }
}
