//! What goes wrong, and where.

use heddledb::protocol::Kind;
use heddledb::storage::Fault;
use std::fmt;
use std::str::FromStr;

/// What goes wrong at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The power is cut.
    Cut,
    /// The process is killed; what it wrote stays in the system's memory.
    Kill,
    /// The device reports an error, and the process is killed or the power cut some time later.
    Error,
    /// The device is full, and so on.
    Full,
    /// A write is short. Nothing fails.
    Short,
    /// A signal comes in between. Nothing fails.
    Interrupted,
    /// The power is cut, and what is left is damaged.
    Damage,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Cut, Self::Kill, Self::Error, Self::Full, Self::Short, Self::Interrupted, Self::Damage];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Kill => "kill",
            Self::Error => "error",
            Self::Full => "full",
            Self::Short => "short",
            Self::Interrupted => "interrupted",
            Self::Damage => "damage",
        }
    }

    pub(super) fn fault(self) -> Fault {
        match self {
            Self::Cut | Self::Kill | Self::Damage => Fault::PowerCut,
            Self::Error => Fault::Error,
            Self::Full => Fault::Full,
            Self::Short => Fault::Short,
            Self::Interrupted => Fault::Interrupted,
        }
    }

    /// Whether the database has to cope with it.
    pub(super) fn is_harmless(self) -> bool {
        matches!(self, Self::Short | Self::Interrupted)
    }
}

/// A workload, a failure, and the operation of the disk at which it happens: a family of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The protocol of all its lives; if there is none, each has another.
    pub under: Option<Kind>,
    /// The seed of the workload.
    pub workload: u64,
    /// What goes wrong.
    pub failure: Failure,
    /// At which operation.
    pub at: u64,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kind) = self.under {
            write!(f, "{kind}/")?;
        }
        write!(f, "{}/{}/{}", self.workload, self.failure.name(), self.at)
    }
}

impl FromStr for Spot {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no crash point; write it as WORKLOAD/FAILURE/OPERATION or PROTOCOL/WORKLOAD/FAILURE/OPERATION"
            )
        };
        let (under, [workload, name, at]) = match text.split('/').collect::<Vec<_>>()[..] {
            [workload, name, at] => (None, [workload, name, at]),
            [kind, workload, name, at] => {
                (Some(kind.parse::<Kind>().map_err(|error| error.to_string())?), [workload, name, at])
            }
            _ => return Err(wrong()),
        };
        let number = |text: &str| text.parse().map_err(|_| wrong());
        let failure = Failure::ALL.into_iter().find(|failure| failure.name() == name).ok_or_else(wrong)?;
        Ok(Self { under, workload: number(workload)?, failure, at: number(at)? })
    }
}

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Where.
    pub spot: Spot,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HEDDLE_CRASH={} {}", self.spot, self.what)
    }
}
