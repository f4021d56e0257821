//! From a workload to text that parses to the same workload, but for the lines that its accesses stand on.

use crate::workload::{Access, Columns, Step, TableKind, Workload};
use std::fmt::Write;

/// Prints a workload.
pub fn print(workload: &Workload) -> String {
    let mut text = format!("workload {}\n", workload.name);
    for table in &workload.tables {
        let _ = write!(text, "table {}", table.name);
        text.push_str(match table.kind {
            TableKind::Ordinary => "",
            TableKind::Static => " static",
            TableKind::AppendOnly => " appendonly",
        });
        names(&mut text, "key", &table.key);
        names(&mut text, "cols", &table.columns);
        for group in &table.groups {
            names(&mut text, &format!("group {}", group.name), &group.columns);
        }
        text.push('\n');
    }
    for transaction in &workload.transactions {
        let _ = write!(text, "\ntxn {}", transaction.name);
        if let Some(weight) = transaction.weight {
            let _ = write!(text, " weight {weight}");
        }
        text.push_str(if transaction.readonly { " readonly\n" } else { "\n" });
        steps(&mut text, &transaction.body, 1);
        text.push_str("end\n");
    }
    text
}

fn names(text: &mut String, keyword: &str, names: &[String]) {
    if !names.is_empty() {
        let _ = write!(text, " {keyword} {}", names.join(" "));
    }
}

fn steps(text: &mut String, body: &[Step], depth: usize) {
    let indent = "  ".repeat(depth);
    for step in body {
        match step {
            Step::Access(one) => {
                text.push_str(&indent);
                access(text, one);
            }
            Step::Loop(inner) | Step::Piece(inner) => {
                let word = if matches!(step, Step::Loop(_)) { "loop" } else { "piece" };
                let _ = writeln!(text, "{indent}{word}");
                steps(text, inner, depth + 1);
                let _ = writeln!(text, "{indent}end");
            }
            Step::If { then, otherwise } => {
                let _ = writeln!(text, "{indent}if");
                steps(text, then, depth + 1);
                if !otherwise.is_empty() {
                    let _ = writeln!(text, "{indent}else");
                    steps(text, otherwise, depth + 1);
                }
                let _ = writeln!(text, "{indent}end");
            }
        }
    }
}

fn access(text: &mut String, access: &Access) {
    let _ = write!(text, "{:<6} {}", access.mode.word(), access.table);
    if let Some(index) = &access.index {
        let _ = write!(text, " by idx {index}");
    }
    if let Columns::Named(columns) = &access.columns {
        names(text, "cols", columns);
    }
    names(text, "reads", &access.reads);
    if access.causal {
        text.push_str(" causal");
    }
    if access.no_abort {
        text.push_str(" no_abort");
    }
    if access.deferred {
        text.push_str(" deferred");
    }
    if let Some(number) = access.piece {
        let _ = write!(text, " piece {number}");
    }
    text.push('\n');
}
