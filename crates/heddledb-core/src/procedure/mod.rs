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

pub use announce::{Announcement, Told, Usage};
pub use check::Checked;
pub use check::Held;
pub use declare::{Declaration, Site, text, workload};
#[cfg(feature = "postcard")]
pub use named::{NamedProcedure, decode_arguments, encode_arguments};
pub use plan::{Plan, PlanChange, Tracking};
pub use plan::{PlannedSite, PlannedType};

use crate::error::{Error, Misuse, Result};
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
    /// Of its text and that of the procedures that it calls: another body has another one.
    const FINGERPRINT: u64 = 0;
    /// Whether neither it nor a procedure that it calls says in its text that it does something else each time.
    #[doc(hidden)]
    const REPEATABLE: bool = true;
    /// Its version, if a log may say of its calls that they were made, and not what they wrote: `#[procedure(version = 1)]`.
    const VERSION: Option<u32> = None;
    /// Appends the bytes of arguments, for a log.
    ///
    /// # Errors
    /// [`Misuse::Unencodable`]; [`Misuse::Option`] where it has no version.
    fn encode(arguments: &Self::Arguments<'_>, out: &mut Vec<u8>) -> Result<()> {
        let _ = (arguments, out);
        Err(unversioned(Self::NAME))
    }
    /// The arguments in bytes of a log.
    ///
    /// # Errors
    /// [`Misuse::Undecodable`]; as [`Procedure::encode`].
    fn decode(bytes: &[u8]) -> Result<Self::Arguments<'_>> {
        let _ = bytes;
        Err(unversioned(Self::NAME))
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

#[cold]
fn unversioned(name: &str) -> Error {
    Misuse::Option(format!("procedure {name} has no version, so its calls have no place in a log")).into()
}

/// A procedure's fingerprint: of its own text, and of the procedures that it calls.
#[doc(hidden)]
pub const fn fingerprint(own: u64, called: &[u64]) -> u64 {
    let (mut all, mut at) = (own, 0);
    while at < called.len() {
        all = (all.rotate_left(29) ^ called[at]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        at += 1;
    }
    all
}

/// What versions need: this crate's feature `postcard`, with which it is there for all arguments that implement serde's traits.
#[cfg(not(feature = "postcard"))]
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a procedure with a version is written to a log, which needs the feature `postcard` of `heddledb`"
)]
pub trait FeaturePostcard {}

#[cfg(not(feature = "postcard"))]
#[doc(hidden)]
pub fn encode_arguments<Q: Procedure, T: FeaturePostcard>(_: &T, _: &mut Vec<u8>) -> Result<()> {
    Err(unversioned(Q::NAME))
}

#[cfg(not(feature = "postcard"))]
#[doc(hidden)]
pub fn decode_arguments<Q: Procedure, T: FeaturePostcard>(_: &[u8]) -> Result<T> {
    Err(unversioned(Q::NAME))
}
