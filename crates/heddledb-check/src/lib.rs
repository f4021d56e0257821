//! Is it serializable? Histories, two checkers for them, and the conformance suite.
//!
//! - [`history`]: what transactions saw and did, with a file format;
//! - [`recorder`], [`workload`]: recording one, through the public API, under any protocol;
//! - [`additions`]: what is added to counters, as parts of a history;
//! - [`intended`]: the same steps as intentions of deferring transactions;
//! - [`checker`]: our own checker; [`elle`]: an independent one;
//! - [`beside`]: several of them at once;
//! - `conformance`: what every protocol must pass;
//! - `crash`: what every database with files must keep, wherever its disk fails.
//!
//! The last two are the feature `suites`; the check of what ran on virtual cores goes without them.

#![forbid(unsafe_code)]

pub mod additions;
pub mod beside;
pub mod checker;
#[cfg(feature = "suites")]
pub mod conformance;
#[cfg(feature = "suites")]
pub mod crash;
mod cycles;
pub mod elle;
pub mod history;
pub mod intended;
pub mod programs;
pub mod recorder;
pub mod workload;

/// Both judges on a history, in real time where its header claims so: ours, and `adya`'s.
pub fn judge(history: &history::History) -> (checker::Verdict, elle::Opinion) {
    let strict = history.header.strict;
    (checker::check(history, strict), elle::judge(history, strict))
}
