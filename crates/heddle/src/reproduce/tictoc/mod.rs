//! TicToc (SIGMOD 2016): its evaluation, section 6.
//!
//! Claims are in the paper's words and figures, shortened; what is judged is their order, shape and ratios
//! ([`crate::reproduce::figure`] says by which measure).
//!
//! | room | what |
//! |---|---|
//! | `settings` | what the figures have in common |
//! | `rivals` | TPC-C and YCSB beside other protocols (6.2, 6.3) |
//! | `optimisations` | what each of them gives (6.4) |
//! | `time` | logical time (6.5, appendix) |
//! | `levels` | isolation levels (6.6) |
//! | `threads` | these figures on this machine's threads |

mod levels;
mod optimisations;
mod rivals;
mod settings;
mod threads;
mod time;

use super::figure::{Figure, Paper, Scope};
use crate::failure::Failure;
use levels::{table_1, table_2};
use optimisations::{figure_9a, figure_9b, figure_9c, figure_10a, figure_10b, figure_10c};
use rivals::{
    figure_4a, figure_4b, figure_5a, figure_5b, figure_6, figure_7a, figure_7b, figure_8a, figure_8b,
};
use time::{figure_11, figure_12};

/// The paper.
pub const PAPER: Paper = Paper {
    name: "tictoc",
    title: "TicToc: Time Traveling Optimistic Concurrency Control",
    about: "Yu, Pavlo, Sanchez, Devadas; SIGMOD 2016; 40 cores of Intel Xeon E7-4850 with two threads each, 128 GB, in \
            DBx1000",
    notes: &[
        "Where the paper has 80 hardware threads on 40 cores, there are 80 virtual cores here, which share nothing but \
         memory.",
        "Orders count from 2 % on; a ratio is the paper's if it is within a factor of 1.5 of it.",
        "TicToc is the kind `tictoc`: all optimisations but timestamp history, which the paper has on and finds to gain \
         nothing; with it, it is `tictoc-history`.",
    ],
    figures,
};

fn figures(scope: &Scope) -> Result<Vec<Figure>, Failure> {
    let mut figures = vec![
        figure_4a(scope)?,
        figure_4b(scope)?,
        figure_5a(scope)?,
        figure_5b(scope)?,
        figure_6(scope)?,
        figure_7a(scope)?,
        figure_7b(scope)?,
        figure_8a(scope)?,
        figure_8b(scope)?,
        figure_9a(scope)?,
        figure_9b(scope)?,
        figure_9c(scope)?,
        figure_10a(scope)?,
        figure_10b(scope)?,
        figure_10c(scope)?,
        figure_11(scope)?,
        table_1(scope)?,
        table_2(scope)?,
        figure_12(scope)?,
    ];
    figures.extend(threads::figures(scope));
    Ok(figures)
}
