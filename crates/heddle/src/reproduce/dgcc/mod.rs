//! DGCC (Yao et al. 2015): its evaluation, section 5.
//!
//! Claims are in the paper's words, shortened; it prints plots and no figures, so what is judged is their order and shape
//! ([`crate::reproduce::figure`] says by which measure). Where one cannot be as in the paper, a figure whose number ends in `-why`
//! changes one thing.
//!
//! | room | what |
//! |---|---|
//! | `settings` | what the figures have in common |
//! | `ycsb` | writes, skew, workers, latency (5.1 to 5.4) |
//! | `tpcc` | one warehouse: mixes, latency, sizes of batches (5.2, 5.4, 5.5) |
//! | `causes` | the same with one thing changed |

mod causes;
mod settings;
#[cfg(test)]
mod tests;
mod tpcc;
mod ycsb;

use super::figure::{Figure, Paper, Scope};
use crate::failure::Failure;
use causes::{
    figure_6_work, figure_7a_work, figure_7d_work, figure_8a_long, figure_8b_work, figure_8c_sums,
    figure_9_work, figure_10_long, figure_11_work, figure_12b_queues,
};
use tpcc::{figure_8a, figure_8b, figure_8c, figure_10, figure_12, figure_12_latency};
use ycsb::{figure_6, figure_6_why, figure_7a, figure_7d, figure_9, figure_11};

/// The paper.
pub const PAPER: Paper = Paper {
    name: "dgcc",
    title: "DGCC: A New Dependency Graph based Concurrency Control Protocol for Multicore Database Systems",
    about: "Yao, Agrawal, Chang, Chen, Ooi, Wong, Zhang; 2015; 6 of 24 cores of Intel Xeon at 2.2 GHz",
    notes: &[
        "2PL is dl-detect, OCC is ts-alloc (times from one counter, as in the paper's text), MVCC is hekaton. Each worker has 1,000 \
         transactions queued under every protocol; latency is counted from when they are queued.",
        "What a transaction accesses is told in YCSB, as in the paper, so it is executed in pieces: where two meet, one waits for an access of the \
         other. TPC-C's tell too, by which rows they wait for each other, and else keys at which nobody waits, whose conflicts are found out at the \
         commit. There a vertex is a whole transaction.",
        "YCSB's transactions have 16 accesses of 100,000 records: the paper does not say. Orders count from 2 % on.",
    ],
    figures,
};

fn figures(scope: &Scope) -> Result<Vec<Figure>, Failure> {
    Ok(vec![
        figure_6(scope)?,
        figure_6_why(scope)?,
        figure_6_work(scope)?,
        figure_7a(scope)?,
        figure_7a_work(scope)?,
        figure_7d(scope)?,
        figure_7d_work(scope)?,
        figure_8a(scope)?,
        figure_8a_long(scope)?,
        figure_8b(scope)?,
        figure_8b_work(scope)?,
        figure_8c(scope)?,
        figure_8c_sums(scope)?,
        figure_9(scope)?,
        figure_9_work(scope)?,
        figure_10(scope)?,
        figure_10_long(scope)?,
        figure_11(scope)?,
        figure_11_work(scope)?,
        figure_12(scope)?,
        figure_12_latency(scope)?,
        figure_12b_queues(scope)?,
    ])
}
