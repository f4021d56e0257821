//! IC3 (SIGMOD 2016): its evaluation, sections 6.2 to 6.11.
//!
//! Claims are in the paper's words and figures, shortened; what is judged is their order, shape and ratios
//! ([`crate::reproduce::figure`] says by which measure). Its 2PL sorts locks and so knows no deadlock; ours
//! are `wait-die` and `no-wait`, and where a claim says 2PL, the better of the two is meant.
//!
//! | room | what |
//! |---|---|
//! | `settings` | what the figures have in common |
//! | `contention` | the microbenchmark (6.2) |
//! | `tpcc` | TPC-C (6.3) |
//! | `graphs` | what needs no run: the SC-graph, the web applications (6.3, 6.11) |
//! | `rivals` | chopping, lazy evaluation, nested OCC, DATM (6.4) |
//! | `optimisations` | what each of them adds (6.5) |
//! | `durability` | the log (6.6) |
//! | `user_aborts` | user aborts and cascades (6.7) |
//! | `tpce` | TPC-E (6.8) |
//! | `online` | types that are added (6.9) |
//! | `dependencies` | on how many others a transaction depends (6.10) |

mod contention;
mod dependencies;
mod durability;
mod graphs;
mod online;
mod optimisations;
mod rivals;
mod settings;
#[cfg(test)]
mod tests;
mod tpcc;
mod tpce;
mod user_aborts;

use super::figure::{Figure, Paper, Scope};
use crate::failure::Failure;
use contention::{figure_12a, figure_12b, lengths};
use dependencies::table_1;
use durability::{figure_18, figure_19};
use graphs::{figure_14, table_2};
use online::figure_22;
use optimisations::{figure_16a, figure_16b};
use rivals::{figure_15a, figure_15b, figure_15c, figure_15d};
use tpcc::{figure_13a, figure_13b};
use tpce::{figure_21a, figure_21b};
use user_aborts::{figure_20a, figure_20b};

/// The paper.
pub const PAPER: Paper = Paper {
    name: "ic3",
    title: "Scaling Multicore Databases via Constrained Parallel Execution (IC3)",
    about: "Wang, Mu, Cui, Yi, Chen, Li; SIGMOD 2016; 64 cores of AMD Opteron on 8 NUMA nodes, 128 GB, on Silo's code",
    notes: &[
        "2PL is wait-die and no-wait, the better of the two where claims are judged; the paper's sorts its locks and so \
         never aborts. OCC is silo.",
        "Orders count from 2 % on; a ratio is the paper's if it is within a factor of 1.5 of it; a curve scales to where \
         it has 95 % of its highest value.",
    ],
    figures,
};

fn figures(scope: &Scope) -> Result<Vec<Figure>, Failure> {
    Ok(vec![
        figure_12a(scope)?,
        figure_12b(scope)?,
        lengths(scope)?,
        figure_13a(scope)?,
        figure_13b(scope)?,
        figure_14(),
        figure_15a(scope)?,
        figure_15b(scope)?,
        figure_15c(scope)?,
        figure_15d(scope)?,
        figure_16a(scope)?,
        figure_16b(scope)?,
        figure_18("18a", scope),
        figure_18("18b", scope),
        figure_19("19a", scope),
        figure_19("19b", scope),
        figure_20a(scope)?,
        figure_20b(scope)?,
        figure_21a(scope)?,
        figure_21b(scope)?,
        figure_22(scope),
        table_1(scope)?,
        table_2(),
    ])
}
