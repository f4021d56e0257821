//! Isolation levels: what a transaction may see of others.
//!
//! A level is a promise of the transaction that asks for it, whatever the levels of those beside it: a
//! serializable one is serial with respect to all writes, also those of transactions at lower levels. Which
//! protocol offers which is [`Kind::levels`](crate::kind::Kind::levels).
//!
//! | | serializable | snapshot | repeatable read |
//! |---|---|---|---|
//! | reads of what was not committed, or is half written (G0, G1) | no | no | no |
//! | a row read again has another value | no | no | no |
//! | lost update: a row that was read, changed since, is overwritten (P4) | no | no | no |
//! | read skew: two rows of different moments (G-single) | no | no | **yes** |
//! | a range read again has other rows (PMP) | no | no | **yes** |
//! | write skew: two that each read what the other writes (G2) | no | **yes** | **yes** |
//!
//! The names of the anomalies are Adya's; the test `levels` of the conformance suite runs each of them at
//! each level.

use crate::error::{Misuse, Result};
use std::fmt;
use std::str::FromStr;

/// What a transaction may see of others; see the module's table. Levels after TicToc §5.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isolation {
    /// Each row that is read was committed, and is unchanged if it is read again or written.
    RepeatableRead,
    /// All reads are of one moment, and what this transaction writes has not been written by another since.
    Snapshot,
    /// As if transactions ran one after another.
    #[default]
    Serializable,
}

impl Isolation {
    /// Every level, the strongest first.
    pub const ALL: [Self; 3] = [Self::Serializable, Self::Snapshot, Self::RepeatableRead];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Serializable => "serializable",
            Self::Snapshot => "snapshot",
            Self::RepeatableRead => "repeatable-read",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no level's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no isolation level is called `{0}`; choose from serializable, snapshot, repeatable-read")]
pub struct UnknownIsolation(String);

impl FromStr for Isolation {
    type Err = UnknownIsolation;

    fn from_str(name: &str) -> Result<Self, UnknownIsolation> {
        let known = Self::ALL.into_iter().find(|level| level.name() == name);
        known.ok_or_else(|| UnknownIsolation(name.to_owned()))
    }
}

/// Refuses a level that a protocol does not offer.
pub fn offers(protocol: &str, offered: &[Isolation], level: Isolation) -> Result<()> {
    if offered.contains(&level) {
        return Ok(());
    }
    let names: Vec<&str> = offered.iter().map(|level| level.name()).collect();
    let names = names.join(", ");
    let what = format!("{protocol} does not offer the isolation level {level}; it offers {names}");
    Err(Misuse::Option(what).into())
}
