//! Which parts of which transactions may interleave: static analysis by SC-graphs (IC3 §3.1, §3.3).
//!
//! # Problem
//!
//! Two transactions that conflict on several records may still run side by side, if they meet on all of
//! them in the same order. Whether they can is seen before any of them runs, from what their types declare:
//! which tables and columns they access, how, and in what order.
//!
//! # Mechanism
//!
//! A transaction type is cut into *pieces*; a piece executes atomically. In the *SC-graph* each type stands
//! twice. *S-edges* (sibling) join the pieces of one transaction in the order in which they execute,
//! *C-edges* (conflict) join pieces of two transactions that access the same column, one of them writing.
//!
//! ```text
//!   T   [district]--S-->[stock]--S-->[order]            C-edges between equal names:
//!           |              |            |               one vertex each, in the same order
//!   T'  [district]--S-->[stock]--S-->[order]            in both: nothing has to be merged
//! ```
//!
//! A cycle of S- and C-edges (an *SC-cycle*) is where two transactions could be serialized in two
//! orders. A runtime can prevent that by waiting, unless the cycle leads forward along its S-edges all the
//! way round: then each of its transactions would wait for the next. Such cycles are *deadlock-prone*, and
//! the pieces of one transaction on it are merged into one piece ([`merge`]). What is left has no such
//! cycle, so its vertices have a topological *rank*, and whoever waits, waits in the order of ranks.
//!
//! # Rooms
//!
//! - [`workload`]: transaction types as declared accesses;
//! - [`text`]: the same as text, with a parser and a printer;
//! - [`footprint`]: which units of which tables an access reads, writes, and adds to;
//! - [`graph`]: sites, pieces, C-edges;
//! - [`merge`]: deadlock-prone SC-cycles, and the merging that removes them, with its reasons;
//! - [`analysis`]: the result by type: ranks, waits, rendezvous pieces, where user aborts are harmless;
//! - [`deferral`]: whether additions may take effect later, unseen by the calls beside them;
//! - [`transition`]: two analyses side by side, while a runtime changes from one to the other;
//! - [`study`]: how much of a workload can be interleaved, in four numbers;
//! - [`builtin`]: texts that come with the crate.
//!
//! Everything here is a pure function over declared accesses: no threads, no clock, no order of iteration
//! that differs from run to run. Equal input gives equal output, words included.
//!
//! ```
//! use heddledb_analysis::{Options, analyse, text};
//!
//! let text = "
//!     workload transfers
//!     txn pay
//!       update account cols balance reads balance
//!       insert journal
//!     end
//!     txn refund
//!       delete journal
//!       update account cols balance reads balance
//!     end";
//! let workload = text::parse(text).expect("it is well formed");
//! let analysis = analyse(&workload, &Options::default());
//! // They access the two tables in opposite orders, so each becomes a single piece.
//! assert!(analysis.types.iter().all(|one| one.pieces.len() == 1));
//! println!("{}", analysis.merges[0].cycle.words(&analysis.graph));
//! ```

#![forbid(unsafe_code)]

pub mod analysis;
#[cfg(feature = "parser")]
pub mod builtin;
pub mod deferral;
pub mod footprint;
pub mod graph;
pub mod merge;
pub mod study;
pub mod text;
pub mod transition;
pub mod workload;

pub use analysis::{Analysis, Options, analyse};
pub use footprint::Granularity;
pub use merge::Method;
pub use transition::Transition;
pub use workload::Workload;
