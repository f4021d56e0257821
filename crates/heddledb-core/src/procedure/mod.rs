//! Procedures: transactions whose accesses are known before they run.
//!
//! A *site* is a place in a procedure's body that calls a table operation. The attribute
//! [`#[procedure]`](macro@crate::procedure) finds the sites of a Rust function, numbers them in the order of
//! the text, says before each access at which of them it is, and gives a type that implements
//! [`Procedure`]. What it declares is a [`Declaration`]: one access of `heddledb_analysis` for each site,
//! with the loops and branches around it. A procedure that is made at run time fills one by hand.
//!
//! [`Checked`] holds a running procedure to its declaration. With the feature `postcard`, `NamedProcedure` writes
//! arguments and results as bytes, for calls by name.

mod announce;
mod check;
mod declare;
#[cfg(feature = "postcard")]
mod named;
mod plan;

pub use announce::{Announcement, Told};
pub use check::Checked;
pub use check::Held;
pub use declare::{Declaration, Site, text, workload};
#[cfg(feature = "postcard")]
pub use named::NamedProcedure;
pub use plan::{Plan, PlanChange, Tracking};
pub use plan::{PlannedSite, PlannedType};

use crate::error::Result;
use crate::transaction::{ReadTransaction, Transaction};

/// A transaction type whose accesses are known before it runs. Made by
/// [`#[procedure]`](macro@crate::procedure).
pub trait Procedure: 'static {
    /// What it is called: `"transfer"`.
    const NAME: &'static str;
    /// How many sites it has, those of called procedures included.
    const SITES: u16;
    /// Its parameters after the transaction: a tuple of several, the type itself of one, `()` of none.
    type Arguments<'a>;
    /// What it returns.
    type Output;
    /// Appends its steps.
    fn declare(declaration: &mut Declaration);
    /// Whether [`Procedure::announce`] tells what a call will access.
    const ANNOUNCES: bool = false;
    /// Tells what a call with these arguments will access.
    fn announce(arguments: &Self::Arguments<'_>, announcement: &mut Announcement<'_>) {
        let _ = (arguments, announcement);
    }
    /// Runs it. The arguments are only borrowed, because a body may be run again.
    ///
    /// # Errors
    /// As [`Transaction`]'s methods, and the procedure's own.
    fn run<T: Transaction>(tx: &mut T, arguments: &Self::Arguments<'_>) -> Result<Self::Output>;
}

/// A procedure that only reads: its first parameter is a `&mut impl ReadTransaction`.
pub trait ReadProcedure: Procedure {
    /// Runs it, in a transaction or on a snapshot.
    ///
    /// # Errors
    /// As [`ReadTransaction`]'s methods, and the procedure's own.
    fn look<T: ReadTransaction>(tx: &mut T, arguments: &Self::Arguments<'_>) -> Result<Self::Output>;
}
