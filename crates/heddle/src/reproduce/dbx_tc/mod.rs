//! DBX-TC (Qian et al. 2015): its evaluation, section 6, and what it finds of regions and of whole transactions in them, section 2.2.
//!
//! Claims are in the paper's words and figures, shortened; what is judged is their order, shape and ratios
//! ([`crate::reproduce::figure`] says by which measure). Where one cannot be as in the paper, a figure whose number ends in `-why`
//! changes one thing.
//!
//! | room | what |
//! |---|---|
//! | `settings` | what the figures have in common |
//! | `footprint` | how much room a region has (2.2) |
//! | `whole` | whole transactions in regions (2.2) |
//! | `working_set` | how much transactions read and write (2.2) |
//! | `graphs` | the chopping graph of TPC-C (6.2) |
//! | `contention` | TPC-C at three levels of contention (6.3) |
//! | `causes` | the same without regions, with less room, with dearer checks; one core |
//! | `snapshots` | read-only transactions, durability, factors (6.4 to 6.6) |
//! | `steps` | 6.4 and 6.6 again: one lock for all, and Payments or New-Orders alone |
//! | `articles` | Articles (6.7) |

mod articles;
mod causes;
mod contention;
mod footprint;
mod graphs;
mod settings;
mod snapshots;
mod steps;
#[cfg(test)]
mod tests;
mod whole;
mod working_set;

use super::figure::{Figure, Paper, Scope};
use crate::failure::Failure;
use articles::{figure_15, figure_15_why};
use causes::{checks, one_core, regions, room};
use contention::{figure_12a, figure_12b, figure_12c, figure_12c_why};
use footprint::{figure_1a, figure_1b};
use graphs::{figure_10, figure_11, figure_11_why};
use snapshots::{figure_13a, figure_14};
use steps::{alone_steps, one_lock};
use whole::{figure_1c, figure_1c_why};
use working_set::table_1;

/// The paper.
pub const PAPER: Paper = Paper {
    name: "dbx-tc",
    title: "Exploiting Hardware Transactional Memory for Efficient In-Memory Transaction Processing",
    about: "Qian, Wang, Guan, Zang, Chen; 2015; 8 hyperthreads of 4 cores of Intel Core i7-4770 at 3.4 GHz, 32 KB L1 data cache",
    notes: &[
        "Silo-2PL is ordered-2pl. The naive use of regions (htm) has TPC-C in the text's order, and transactions that only read in \
         regions too; the others have them on snapshots, and New-Order looks its items up first. DBX-TC itself (dbx-tc-deferred in figures 12, else as it is said \
         there) also leaves an order's rows to pieces of their own, which are entered last.",
        "Regions are those of a model: 64 sets of 8 lines for stores, 1,024 of 16 for loads, but for figures 1a and 1b; the core that asks for a line wins. A region \
         ends once all locks are taken, and what is written is installed behind it, so a region holds one line for each row. Virtual cores \
         are not hyperthreads.",
        "The table cache is not built. What is deferred are Delivery's additions to what customers owe, and Payment's to the sums of its \
         warehouse and its district (figures 11 and 14). Orders count from 2 % on; a ratio is the paper's if it is within a \
         factor of 1.5 of it, a gain if it is two thirds of it or more.",
    ],
    figures,
};

fn figures(scope: &Scope) -> Result<Vec<Figure>, Failure> {
    Ok(vec![
        figure_1a(),
        figure_1b(),
        figure_1c(scope)?,
        figure_1c_why(scope)?,
        table_1(),
        figure_10(),
        figure_11(),
        figure_11_why(),
        figure_12a(scope)?,
        figure_12b(scope)?,
        figure_12c(scope)?,
        figure_12c_why(scope)?,
        one_core(scope)?,
        regions(scope)?,
        checks(scope)?,
        room(scope)?,
        figure_13a(scope)?,
        one_lock(scope)?,
        figure_14(scope)?,
        alone_steps(scope)?,
        figure_15(scope)?,
        figure_15_why(scope)?,
    ])
}
