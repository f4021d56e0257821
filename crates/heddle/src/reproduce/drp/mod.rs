//! Deferred Runtime Pipelining (EuroSys 2019): its evaluation, section 7.
//!
//! Claims are in the paper's words and figures, shortened; what is judged is their order, shape and ratios
//! ([`crate::reproduce::figure`] says by which measure). Where one cannot be as in the paper, a figure whose number
//! ends in `-why` changes one thing.
//!
//! | room | what |
//! |---|---|
//! | `settings` | what the figures have in common |
//! | `overhead` | the array, without contention (7.1) |
//! | `tpcc` | TPC-C beside OCC and IC3 (7.2) |
//! | `factors` | wild transactions, and locks that are held to the end (7.2) |
//! | `stamp` | applications (7.3) |
//! | `threads` | these on this machine's threads |

mod factors;
mod overhead;
mod settings;
mod stamp;
#[cfg(test)]
mod tests;
mod threads;
mod tpcc;

use super::figure::{Figure, Paper, Scope};
use crate::failure::Failure;
use factors::{figure_6, figure_6_why, figure_7, figure_7_why};
use overhead::{figure_1, hot, memory};
use stamp::{eager, figure_8, memory_of_applications};
use tpcc::{
    figure_2a, figure_2b, figure_3_on_sockets, figure_3_why, figure_3a, figure_3b, figure_4, figure_4_why,
    figure_5,
};

/// The paper.
pub const PAPER: Paper = Paper {
    name: "drp",
    title: "Deferred Runtime Pipelining for contentious multicore software transactions",
    about: "Mu, Angel, Shasha; EuroSys 2019; 32 of 60 cores of Intel Xeon E7-4870 v2 on 4 sockets, 256 GB, in STO",
    notes: &[
        "OCC is silo, STO-TL2 is tl2, deferred 2PL is deferred-2pl. DRP's New-Order, Payment and Delivery are deferred, \
         Order-Status and Stock-Level are wild; reads of silo and drp are among the writers, those of ic3 on snapshots.",
        "Orders count from 2 % on; a ratio is the paper's if it is within a factor of 1.5 of it.",
    ],
    figures,
};

fn figures(scope: &Scope) -> Result<Vec<Figure>, Failure> {
    let mut figures = vec![
        figure_1(scope)?,
        memory(scope)?,
        hot(scope)?,
        figure_2a(scope)?,
        figure_2b(scope)?,
        figure_3a(scope)?,
        figure_3_on_sockets("3a-why", scope)?,
        figure_3b(scope)?,
        figure_3_on_sockets("3b-why", scope)?,
        figure_3_why(scope)?,
        figure_4(scope)?,
        figure_4_why(scope)?,
        figure_5(scope)?,
        figure_6(scope)?,
        figure_6_why(scope)?,
        figure_7(scope)?,
        figure_7_why(scope)?,
        figure_8("8a", scope)?,
        figure_8("8b", scope)?,
        memory_of_applications(scope)?,
        eager("8-eager", scope)?,
        eager("8-eager-why", scope)?,
    ];
    figures.extend(threads::figures(scope));
    Ok(figures)
}
