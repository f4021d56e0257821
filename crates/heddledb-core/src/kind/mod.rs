//! Choosing a protocol, by value or by name.
//!
//! A [`Kind`] names a protocol with its options; options are values of their own ([`Silo`], ..).
//! Either becomes a [`Choice`], which `Builder::protocol` takes.

mod options;
mod regions;

#[cfg(feature = "example")]
pub use options::OneWriter;
pub use options::{
    Allocation, Batching, Calls, Drp, Dta, Execution, Hekaton, Ic3, Interleaving, Locking, Policy, Promises,
    Silo, TicToc, Times, Unprotected,
};
pub use regions::{Executor, Fallback, Htm, Reach};

use crate::isolation::Isolation;
use crate::procedure::Tracking;
use std::fmt;
use std::str::FromStr;

/// Which protocols there are, by the types of their options.
macro_rules! protocols {
    ($($(#[$condition:meta])? $protocol:ident)*) => {
        /// A protocol with its options: what a database is opened under.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Choice {
            $(
                $(#[$condition])?
                #[doc = concat!("[`", stringify!($protocol), "`].")]
                $protocol($protocol),
            )*
        }

        $(
            $(#[$condition])?
            impl From<$protocol> for Choice {
                fn from(options: $protocol) -> Self {
                    Self::$protocol(options)
                }
            }
        )*

        impl Choice {
            /// What the protocol promises under these options.
            pub fn promises(&self) -> &dyn Promises {
                match self { $($(#[$condition])? Self::$protocol(options) => options,)* }
            }
        }
    };
}

protocols! {
    Unprotected Silo TicToc Locking Dta Hekaton Ic3 Drp Htm
    #[cfg(feature = "example")] OneWriter
}

impl Choice {
    /// The name of its kind, where there is one with these options; else the protocol's.
    pub fn name(&self) -> &'static str {
        let kind = Kind::ALL.iter().find(|kind| kind.choice() == *self);
        kind.map_or_else(|| self.promises().name(), |kind| kind.name())
    }
}

impl From<Kind> for Choice {
    fn from(kind: Kind) -> Self {
        kind.choice()
    }
}

/// Names for protocols with options.
macro_rules! registry {
    ($($(#[$condition:meta])? $kind:ident $name:literal $options:expr, $about:literal;)*) => {
        /// A protocol with its options, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$condition])? #[doc = $about] $kind,)*
        }

        impl Kind {
            /// Every kind. Which of them a build can open, its features say.
            pub const ALL: &'static [Self] = &[$($(#[$condition])? Self::$kind),*];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $($(#[$condition])? Self::$kind => $name,)* }
            }

            /// What it is, in one line.
            pub const fn about(self) -> &'static str {
                match self { $($(#[$condition])? Self::$kind => $about,)* }
            }

            /// The protocol and its options.
            pub fn choice(self) -> Choice {
                match self { $($(#[$condition])? Self::$kind => $options.into(),)* }
            }
        }
    };
}

registry! {
    Unprotected "unprotected" Unprotected,
        "no concurrency control, one session: the limit that the others are measured against";
    Silo "silo" Silo::default(),
        "optimistic, commit by read validation (Silo)";
    TicToc "tictoc" TicToc::FULL,
        "optimistic, commit time computed from the data; no-wait validation, preemptive abort (TicToc)";
    TicTocSorted "tictoc-sorted" TicToc::SORTED,
        "TicToc without its two optimisations: write locks taken in key order, with waiting";
    TicTocNoWait "tictoc-no-wait" TicToc::NO_WAIT,
        "TicToc without preemptive abort";
    TicTocOpaque "tictoc-opaque" TicToc::OPAQUE,
        "TicToc whose bodies see one moment only, in an order of real time";
    TicTocHistory "tictoc-history" TicToc::HISTORY,
        "TicToc that keeps the version before in mind (timestamp history)";
    TicTocPacked "tictoc-packed" TicToc::PACKED,
        "TicToc with both times of a version in one word";
    NoWait "no-wait" Locking::with_policy(Policy::NoWait),
        "two-phase locking, abort at once on a lock conflict (NO_WAIT)";
    WaitDie "wait-die" Locking::with_policy(Policy::WaitDie),
        "two-phase locking, the older waits, the younger aborts (WAIT_DIE)";
    DlDetect "dl-detect" Locking::with_policy(Policy::Detect),
        "two-phase locking, conflicts wait, the youngest of a deadlock aborts (DL_DETECT)";
    Ordered2pl "ordered-2pl" Locking::with_policy(Policy::Ordered),
        "two-phase locking, conflicts wait for locks above all that are held, in the order of keys, and abort for others";
    TsAlloc "ts-alloc" Silo::with_allocation(Allocation::Counter),
        "Silo whose commit times are drawn from one counter, as in conventional timestamp ordering (TS_ALLOC)";
    Dta "dta" Dta,
        "optimistic, commit time chosen from the interval that conflicts leave; commits one by one (DTA)";
    Hekaton "hekaton" Hekaton,
        "optimistic on several versions: reads as of the begin, checked again at the end (Hekaton)";
    NestedOcc "nested-occ" Silo::with_calls(Calls::Nested),
        "Silo whose procedures are validated, and executed again, piece by piece (nested OCC)";
    ChoppingOcc "chopping-occ" Silo::with_calls(Calls::Chopped),
        "Silo whose procedures commit piece by piece, merged until that is serializable (transaction chopping)";
    Chopping2pl "chopping-2pl" Locking::with_policy(Policy::WaitDie).chopped(),
        "WAIT_DIE whose procedures commit piece by piece, merged until that is serializable (transaction chopping)";
    DeterministicLazy "deterministic-lazy" Silo::with_calls(Calls::Sequenced),
        "Silo whose procedures take turns to decide, and do at once what they put off (deterministic, with lazy evaluation)";
    Datm "datm" Ic3::DATM,
        "procedures show their writes at once, in any order; who has waited for too long aborts (DATM)";
    Ic3 "ic3" Ic3::FULL,
        "procedures show their writes piece by piece, in an order that static analysis keeps free of cycles (IC3)";
    Ic3Basic "ic3-basic" Ic3::BASIC,
        "IC3 without its three optimisations: optimistic constraint, rendezvous pieces, commutative additions";
    Ic3Optimistic "ic3-optimistic" Ic3::OPTIMISTIC,
        "IC3 with the first of its three optimisations, optimistic constraint, and without the others";
    Ic3NoRendezvous "ic3-no-rendezvous" Ic3::NO_RENDEZVOUS,
        "IC3 without rendezvous pieces: with optimistic constraint and commutative additions";
    Ic3Contended "ic3-contended" Ic3::CONTENDED,
        "IC3 where procedures contend, commit by read validation where they do not";
    Drp "drp" Drp::PIPELINED,
        "writers queue in the order of ranks, commit in the order of the queues, hand over row by row (DRP)";
    DrpOpaque "drp-opaque" Drp::OPAQUE,
        "DRP whose bodies see one moment only: each read checks those before it again";
    Deferred2pl "deferred-2pl" Drp::TWO_PHASE,
        "DRP whose transactions wait for the end of those before them in each queue: two-phase locking in the order of ranks";
    Tl2 "tl2" Silo::TL2,
        "Silo whose bodies see the moment of their begin, by times from one counter (TL2)";
    Dataflow "dataflow" Silo::with_calls(Calls::Graph),
        "procedures tell what they will access, and run after those before them that access the same (DGCC)";
    Dgcc "dgcc" Silo::with_calls(Calls::Batched(Batching::GRAPH)),
        "procedures are gathered into batches, each executed as a graph of who must wait for whom (DGCC)";
    DgccLevels "dgcc-levels" Silo::with_calls(Calls::Batched(Batching::LEVELS)),
        "DGCC whose graphs are executed level by level, as in its Algorithm 2";
    DbxTc "dbx-tc" Htm::CHOPPED,
        "procedures commit piece by piece, each piece in a hardware region where there are such, else as under silo (DBX-TC)";
    DbxTcDeferred "dbx-tc-deferred" Htm::DEFERRING,
        "DBX-TC whose additions take effect at the end of their epoch, where their procedures say that they may";
    DbxTcLazy "dbx-tc-lazy" Htm::LAZY,
        "DBX-TC whose calls have the epoch of their piece that conflicts, and wait for none of an earlier one";
    Dbx "dbx" Htm::COMMITS,
        "Silo whose commits are checked and locked in a hardware region where there are such (DBX)";
    Htm "htm" Htm::WHOLE,
        "whole transactions in hardware regions where there are such, and one lock for those that do not fit";
    HtmPartition "htm-partition" Htm::PARTITIONED,
        "htm with a lock for each partition, which is what begins with the same two bytes of a key";
    #[cfg(feature = "example")]
    OneWriter "one-writer" OneWriter,
        "an example: one transaction at a time";
}

impl Kind {
    /// The most sessions that a database may have under it.
    pub fn sessions_max(self) -> usize {
        self.choice().promises().sessions_max()
    }

    /// Whether its serial order always agrees with real time.
    pub fn strict(self) -> bool {
        self.choice().promises().strict()
    }

    /// Whether whatever a body sees is of one moment, also where its attempt aborts.
    pub fn opaque(self) -> bool {
        self.choice().promises().opaque()
    }

    /// Whether what a deferring transaction writes down is carried out at its commit, and not at once.
    pub fn defers(self) -> bool {
        self.choice().promises().defers()
    }

    /// Whether additions of calls that are marked as deferred take effect only when no call that may see them is under way.
    pub fn puts_off(self) -> bool {
        self.choice().promises().puts_off()
    }

    /// Whether calls that commit in parts are executed as one for as long as that meets hardly anybody.
    pub fn joins_pieces(self) -> bool {
        self.choice().promises().joins_pieces()
    }

    /// Whether a call that commits in parts has the epoch of its piece that conflicts, not that of its begin.
    pub fn numbers_lazily(self) -> bool {
        self.choice().promises().numbers_lazily()
    }

    /// The isolation levels that it offers, the strongest first.
    pub fn levels(self) -> &'static [Isolation] {
        self.choice().promises().levels()
    }

    /// How it executes calls of procedures.
    pub fn execution(self) -> Execution {
        self.choice().promises().execution()
    }

    /// Whether it executes calls of procedures piece by piece.
    pub fn has_pieces(self) -> bool {
        self.execution() != Execution::Whole
    }

    /// Which conflicts between procedures it tracks.
    pub fn tracking(self) -> Tracking {
        self.choice().promises().tracking()
    }

    /// Those that others are only compared with (IC3 §6.4, §6.5; TicToc §5, §6.4, §6.5, appendix). They are
    /// not tuned, and on many cores some hardly commit.
    pub const COMPARATORS: &[Self] = &[
        Self::TicTocNoWait,
        Self::TicTocOpaque,
        Self::TicTocHistory,
        Self::TicTocPacked,
        Self::DlDetect,
        Self::Ordered2pl,
        Self::TsAlloc,
        Self::Tl2,
        Self::Dta,
        Self::NestedOcc,
        Self::ChoppingOcc,
        Self::Chopping2pl,
        Self::DeterministicLazy,
        Self::Datm,
        Self::Ic3Optimistic,
        Self::Ic3NoRendezvous,
        Self::DrpOpaque,
        Self::Deferred2pl,
        Self::DgccLevels,
        Self::DbxTcDeferred,
        Self::DbxTcLazy,
        Self::Dbx,
        Self::Htm,
        Self::HtmPartition,
        #[cfg(feature = "example")]
        Self::OneWriter,
    ];

    /// The others.
    pub fn contenders() -> Vec<Self> {
        Self::ALL.iter().copied().filter(|kind| !Self::COMPARATORS.contains(kind)).collect()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no protocol's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no protocol is called `{name}`; choose from {}", Kind::ALL.iter().map(|k| k.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownKind {
    name: String,
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownKind { name: name.to_owned() })
    }
}
