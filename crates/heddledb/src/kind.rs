//! Choosing a protocol, by value or by name.
//!
//! A [`Kind`] names a protocol with its options; options are values of their own ([`Silo`](crate::protocol::Silo), ..).
//! Either becomes a [`Choice`], which [`Builder::protocol`](crate::Builder::protocol) takes.

use crate::db;
use crate::error::Result;
use crate::isolation::Isolation;
use crate::procedure::Tracking;
use crate::protocol::dta::Dta;
use crate::protocol::hekaton::Hekaton;
use crate::protocol::ic3::{self, Ic3};
use crate::protocol::locking::Policy;
use crate::protocol::locking::{self, Locking};
use crate::protocol::silo::{self, Silo};
use crate::protocol::tictoc::{self, TicToc};
use crate::protocol::unprotected::Unprotected;
use crate::protocol::{Execution, Pieces, Protocol, State};
use crate::seam::Engine;
use crate::settings::Settings;
use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A protocol with its options: how a database is opened under it.
pub struct Choice {
    open: Box<dyn FnOnce(Settings) -> Result<Arc<dyn Engine>>>,
}

impl Choice {
    /// A protocol with options, under a name.
    fn of<P: Protocol>(name: &'static str, options: P::Options) -> Self {
        Self { open: Box::new(move |settings| db::open::<P>(name, options, settings)) }
    }

    /// Opens a database.
    pub(crate) fn open(self, settings: Settings) -> Result<Arc<dyn Engine>> {
        (self.open)(settings)
    }
}

/// Options by which a protocol is chosen.
macro_rules! by_options {
    ($($options:ty => $protocol:ty;)*) => {$(
        impl From<$options> for Choice {
            fn from(options: $options) -> Self {
                let name = Kind::of_options(&options).map_or(<$protocol as State>::NAME, Kind::name);
                Self::of::<$protocol>(name, options)
            }
        }
    )*};
}
by_options! {
    silo::Options => Silo;
    tictoc::Options => TicToc;
    locking::Options => Locking;
    ic3::Options => Ic3;
}

/// Protocols without options.
macro_rules! by_name {
    ($($protocol:ident)*) => {$(
        impl From<$protocol> for Choice {
            fn from(_: $protocol) -> Self {
                Self::of::<$protocol>(<$protocol as State>::NAME, ())
            }
        }
    )*};
}
by_name!(Dta Hekaton Unprotected);

impl From<Kind> for Choice {
    fn from(kind: Kind) -> Self {
        kind.choice()
    }
}

macro_rules! registry {
    ($($(#[$condition:meta])? $kind:ident $name:literal $protocol:ty, $options:expr, $about:literal;)*) => {
        /// A protocol with its options, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$condition])? #[doc = $about] $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$($(#[$condition])? Self::$kind),*];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $($(#[$condition])? Self::$kind => $name,)* }
            }

            /// What it is, in one line.
            pub const fn about(self) -> &'static str {
                match self { $($(#[$condition])? Self::$kind => $about,)* }
            }

            /// The most sessions that a database may have under it.
            pub const fn sessions_max(self) -> usize {
                match self { $($(#[$condition])? Self::$kind => <$protocol as State>::SESSIONS_MAX,)* }
            }

            /// Whether its serial order always agrees with real time.
            pub fn strict(self) -> bool {
                match self { $($(#[$condition])? Self::$kind => <$protocol as Protocol>::strict(&$options),)* }
            }

            /// Whether whatever a body sees is of one moment, also where its attempt aborts.
            pub fn opaque(self) -> bool {
                match self { $($(#[$condition])? Self::$kind => <$protocol as Protocol>::opaque(&$options),)* }
            }

            /// The isolation levels that it offers, the strongest first.
            pub fn levels(self) -> &'static [Isolation] {
                match self { $($(#[$condition])? Self::$kind => <$protocol as Protocol>::levels(&$options),)* }
            }

            /// How it executes calls of procedures.
            pub fn execution(self) -> Execution {
                match self { $($(#[$condition])? Self::$kind => <$protocol as Pieces>::execution(&$options),)* }
            }

            /// Whether it executes calls of procedures piece by piece.
            pub fn has_pieces(self) -> bool {
                self.execution() != Execution::Whole
            }

            /// Which conflicts between procedures it tracks.
            pub fn tracking(self) -> Tracking {
                match self { $($(#[$condition])? Self::$kind => <$protocol as Pieces>::tracking(&$options),)* }
            }

            /// The first that has these options, if there is one.
            fn of_options<O: PartialEq + 'static>(options: &O) -> Option<Self> {
                $(
                    $(#[$condition])?
                    if (&$options as &dyn Any).downcast_ref() == Some(options) {
                        return Some(Self::$kind);
                    }
                )*
                None
            }

            fn choice(self) -> Choice {
                match self { $($(#[$condition])? Self::$kind => Choice::of::<$protocol>($name, $options),)* }
            }
        }
    };
}

registry! {
    Unprotected "unprotected" Unprotected, (),
        "no concurrency control, one session: the limit that the others are measured against";
    Silo "silo" Silo, silo::Options::default(),
        "optimistic, commit by read validation (Silo)";
    TicToc "tictoc" TicToc, tictoc::Options::default(),
        "optimistic, commit time computed from the data; no-wait validation, preemptive abort (TicToc)";
    TicTocSorted "tictoc-sorted" TicToc, tictoc::Options::SORTED,
        "TicToc without its two optimisations: write locks taken in key order, with waiting";
    TicTocNoWait "tictoc-no-wait" TicToc, tictoc::Options::NO_WAIT,
        "TicToc without preemptive abort";
    TicTocOpaque "tictoc-opaque" TicToc, tictoc::Options::OPAQUE,
        "TicToc whose bodies see one moment only, in an order of real time";
    TicTocHistory "tictoc-history" TicToc<tictoc::WithHistory>, tictoc::Options::FULL,
        "TicToc that keeps the version before in mind (timestamp history)";
    TicTocPacked "tictoc-packed" TicToc<tictoc::Packed>, tictoc::Options::FULL,
        "TicToc with both times of a version in one word";
    NoWait "no-wait" Locking, locking::Options::with_policy(Policy::NoWait),
        "two-phase locking, abort at once on a lock conflict (NO_WAIT)";
    WaitDie "wait-die" Locking, locking::Options::with_policy(Policy::WaitDie),
        "two-phase locking, the older waits, the younger aborts (WAIT_DIE)";
    DlDetect "dl-detect" Locking, locking::Options::with_policy(Policy::Detect),
        "two-phase locking, conflicts wait, the youngest of a deadlock aborts (DL_DETECT)";
    Ordered2pl "ordered-2pl" Locking, locking::Options::with_policy(Policy::Ordered),
        "two-phase locking, conflicts wait for locks above all that are held, in the order of keys, and abort for others";
    TsAlloc "ts-alloc" Silo, silo::Options::with_allocation(silo::Allocation::Counter),
        "Silo whose commit times are drawn from one counter, as in conventional timestamp ordering (TS_ALLOC)";
    Dta "dta" Dta, (),
        "optimistic, commit time chosen from the interval that conflicts leave; commits one by one (DTA)";
    Hekaton "hekaton" Hekaton, (),
        "optimistic on several versions: reads as of the begin, checked again at the end (Hekaton)";
    NestedOcc "nested-occ" Silo, silo::Options::with_calls(silo::Calls::Nested),
        "Silo whose procedures are validated, and executed again, piece by piece (nested OCC)";
    ChoppingOcc "chopping-occ" Silo, silo::Options::with_calls(silo::Calls::Chopped),
        "Silo whose procedures commit piece by piece, merged until that is serializable (transaction chopping)";
    Chopping2pl "chopping-2pl" Locking, locking::Options::with_policy(Policy::WaitDie).chopped(),
        "WAIT_DIE whose procedures commit piece by piece, merged until that is serializable (transaction chopping)";
    DeterministicLazy "deterministic-lazy" Silo, silo::Options::with_calls(silo::Calls::Sequenced),
        "Silo whose procedures take turns to decide, and do at once what they put off (deterministic, with lazy evaluation)";
    Datm "datm" Ic3, ic3::Options::DATM,
        "procedures show their writes at once, in any order; who has waited for too long aborts (DATM)";
    Ic3 "ic3" Ic3, ic3::Options::FULL,
        "procedures show their writes piece by piece, in an order that static analysis keeps free of cycles (IC3)";
    Ic3Basic "ic3-basic" Ic3, ic3::Options::BASIC,
        "IC3 without its three optimisations: optimistic constraint, rendezvous pieces, commutative additions";
    Ic3Optimistic "ic3-optimistic" Ic3, ic3::Options { optimistic_constraint: true, ..ic3::Options::BASIC },
        "IC3 with the first of its three optimisations, optimistic constraint, and without the others";
    Ic3NoRendezvous "ic3-no-rendezvous" Ic3, ic3::Options { rendezvous: false, ..ic3::Options::FULL },
        "IC3 without rendezvous pieces: with optimistic constraint and commutative additions";
    Ic3Contended "ic3-contended" Ic3, ic3::Options::CONTENDED,
        "IC3 where procedures contend, commit by read validation where they do not";
    #[cfg(feature = "example")]
    OneWriter "one-writer" crate::protocol::one_writer::OneWriter, (),
        "an example: one transaction at a time";
}

impl Kind {
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
        Self::Dta,
        Self::NestedOcc,
        Self::ChoppingOcc,
        Self::Chopping2pl,
        Self::DeterministicLazy,
        Self::Datm,
        Self::Ic3Optimistic,
        Self::Ic3NoRendezvous,
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
