//! The search: many small simulations of real transactions, each drawn from a seed, and judged.
//!
//! **Problem.** A bug of concurrency needs an interleaving that threads on real cores meet once in hours, or
//! never on the machine at hand; and when it shows, it cannot be shown again.
//!
//! **Mechanism.** A [`Spec`] such as `silo/4711` names a simulation completely: the protocol, and the seed
//! from which a program, a schedule, delays and faults are drawn (`scenario`). It runs on the virtual
//! machine, where a switch is possible before every access to shared memory (`stage`). Its record is held
//! against what is promised (`judge`): invariants, serializability as two checkers see it, and after a crash
//! what was acknowledged. [`hunt`] goes through seeds until one breaks a promise, and then looks for a smaller
//! simulation that does. [`replay`] runs one again and writes down every step.
//!
//! Nothing depends on the machine or on time, so a spec that fails here fails everywhere.
//!
//! **What is found** are bugs in the order of accesses. The simulation is sequentially consistent: a missing
//! fence does not show. A worker that is killed leaves its memory behind for good, some 140 KiB each time, so
//! a process should not kill more than some ten thousands.

mod disk;
mod judge;
mod replay;
mod scenario;
mod stage;

pub use replay::{Options as ReplayOptions, replay};

use heddledb::protocol::Kind;
use heddledb_engine_simulated::sync::simulation::Observer;
use scenario::{Program, Scenario};
use stage::Run;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

/// What may go wrong in a simulation besides the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Faults {
    /// Nothing; short delays at named points.
    #[default]
    None,
    /// Workers, and the one that advances the epoch, stand still for long.
    Stall,
    /// They die, wherever they are. What they hold stays held.
    Kill,
    /// The database has a disk. Workers and the log's own thread die or stand still, the device fails, and in
    /// the end the power is cut.
    Disk,
    /// Procedures are registered and removed while they are called, and somebody may stand still.
    Change,
}

impl Faults {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::None, Self::Stall, Self::Kill, Self::Disk, Self::Change];

    /// The name in a spec; `none` is left out there.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Stall => "stall",
            Self::Kill => "kill",
            Self::Disk => "disk",
            Self::Change => "change",
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|faults| faults.name() == name);
        found.ok_or_else(|| format!("no faults are called `{name}`; choose from {names}"))
    }
}

/// What is left of a simulation: a smaller one drawn from the same seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cut {
    /// The first so many workers.
    pub workers: usize,
    /// Their first so many transactions.
    pub transactions: usize,
    /// The first so many delays and faults.
    pub events: usize,
    /// Added to the seed of the schedule: another order for what is left.
    pub salt: u64,
}

/// Names one simulation: `PROTOCOL/SEED`, `PROTOCOL/FAULTS/SEED`, and with `~WORKERS.TRANSACTIONS.EVENTS.SALT`
/// what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// The protocol.
    pub kind: Kind,
    /// What may go wrong.
    pub faults: Faults,
    /// Everything else is drawn from it.
    pub seed: u64,
    /// What is left of it, if not all.
    pub cut: Option<Cut>,
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.kind)?;
        if self.faults != Faults::None {
            write!(f, "{}/", self.faults)?;
        }
        write!(f, "{}", self.seed)?;
        if let Some(Cut { workers, transactions, events, salt }) = self.cut {
            write!(f, "~{workers}.{transactions}.{events}.{salt}")?;
        }
        Ok(())
    }
}

/// A text that is no spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` names no simulation: {why}; write PROTOCOL/SEED or PROTOCOL/FAULTS/SEED, as in silo/4711 or silo/kill/12"
)]
pub struct BadSpec {
    text: String,
    why: String,
}

impl FromStr for Spec {
    type Err = BadSpec;

    fn from_str(text: &str) -> Result<Self, BadSpec> {
        let bad = |why: String| BadSpec { text: text.to_owned(), why };
        let (kind, faults, rest) = match text.split('/').collect::<Vec<_>>()[..] {
            [kind, seed] => (kind, Faults::None, seed),
            [kind, faults, seed] => (kind, faults.parse().map_err(bad)?, seed),
            _ => return Err(bad("it has not two or three parts".to_owned())),
        };
        let kind: Kind = kind.parse().map_err(|error| bad(format!("{error}")))?;
        let (seed, cut) = match rest.split_once('~') {
            None => (rest, None),
            Some((seed, cut)) => (seed, Some(cut)),
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| bad(format!("`{text}` is no number")));
        let seed = number(seed)?;
        let cut = match cut.map(|cut| cut.split('.').collect::<Vec<_>>()) {
            None => None,
            Some(parts) => match parts[..] {
                [workers, transactions, events, salt] => Some(Cut {
                    workers: number(workers)?.max(1) as usize,
                    transactions: number(transactions)?.max(1) as usize,
                    events: number(events)? as usize,
                    salt: number(salt)?,
                }),
                _ => return Err(bad("what is left of it has not four numbers".to_owned())),
            },
        };
        Ok(Self { kind, faults, seed, cut })
    }
}

/// What one simulation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The promise that it broke.
    pub violation: Option<String>,
    /// Accesses to shared memory.
    pub steps: u64,
    /// Transactions that committed.
    pub commits: u64,
    /// It did not end, since somebody died. Lawful.
    pub stuck: bool,
}

fn scenario(spec: Spec) -> Scenario {
    Scenario::draw(spec.seed, spec.faults, spec.kind, spec.cut)
}

fn play(spec: Spec, observer: Option<Observer>) -> (Rc<Scenario>, Run) {
    let scenario = Rc::new(scenario(spec));
    let run = stage::run(spec.kind, &scenario, observer);
    (scenario, run)
}

fn verdict(spec: Spec, scenario: &Scenario, run: &Run, both: bool) -> Verdict {
    Verdict {
        violation: judge::judge(spec.kind, scenario, run, both),
        steps: run.steps,
        commits: run.record.commits.get(),
        stuck: run.failure.is_some(),
    }
}

/// One history in so many goes to the second checker too.
const SECOND_OPINION: u64 = 16;

/// Runs one simulation and judges it.
pub fn run(spec: Spec) -> Verdict {
    let (scenario, run) = play(spec, None);
    verdict(spec, &scenario, &run, spec.seed.is_multiple_of(SECOND_OPINION))
}

/// How far a hunt has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Simulations that were run.
    pub simulations: u64,
    /// Their accesses to shared memory.
    pub steps: u64,
    /// Their commits.
    pub commits: u64,
    /// Those that did not end, since somebody had died.
    pub stuck: u64,
}

/// A simulation that broke a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The one that was come upon.
    pub spec: Spec,
    /// What it broke.
    pub violation: String,
    /// The smallest that was found to break one, which may be the same.
    pub smallest: Spec,
    /// What that broke.
    pub smallest_violation: String,
}

impl Finding {
    /// The command that replays it.
    pub fn command(&self) -> String {
        format!("heddle sim replay {}", self.smallest)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.spec, self.violation)?;
        if self.smallest != self.spec {
            writeln!(f, "smaller, {}: {}", self.smallest, self.smallest_violation)?;
        }
        write!(f, "replay it with: {}", self.command())
    }
}

/// What a hunt came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was done.
    pub progress: Progress,
    /// The first simulation that broke a promise.
    pub finding: Option<Finding>,
}

/// Runs the simulations of so many seeds, from `from_seed` on, until one breaks a promise.
pub fn hunt(kind: Kind, faults: Faults, from_seed: u64, simulations: u64) -> Outcome {
    // A simulation allocates and frees some hundred kilobytes. An allocator that gives them back to the system
    // each time takes longer than the simulation; one block that is freed teaches it to keep so much.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(KEPT_BYTES)));
    let mut done = Progress::default();
    for seed in (from_seed..).take(simulations as usize) {
        let spec = Spec { kind, faults, seed, cut: None };
        let verdict = run(spec);
        done.simulations += 1;
        done.steps += verdict.steps;
        done.commits += verdict.commits;
        done.stuck += u64::from(verdict.stuck);
        if let Some(violation) = verdict.violation {
            let (smallest, smallest_violation) = shrink(spec, &violation);
            let finding = Finding { spec, violation, smallest, smallest_violation };
            return Outcome { progress: done, finding: Some(finding) };
        }
    }
    Outcome { progress: done, finding: None }
}

/// Memory that the allocator should keep between simulations.
const KEPT_BYTES: usize = 24 << 20;

/// Orders that are tried for each smaller simulation.
const SALTS: u64 = 60;

/// The smallest simulation with the same seed that breaks a promise too.
pub fn shrink(spec: Spec, violation: &str) -> (Spec, String) {
    let whole = scenario(Spec { cut: None, ..spec });
    let most_events = whole.events.len();
    let most = match &whole.program {
        Program::History { plans, .. } => plans.iter().map(Vec::len).max().unwrap_or(1),
        Program::Invariant(_) => whole.transactions,
    };
    let mut sizes = Vec::new();
    for workers in 1..=whole.workers {
        for transactions in 1..=most {
            for events in 0..=most_events {
                sizes.push((workers * transactions, events, workers, transactions));
            }
        }
    }
    sizes.sort_unstable();
    for (_, events, workers, transactions) in sizes {
        for salt in 0..SALTS {
            let smaller = Spec { cut: Some(Cut { workers, transactions, events, salt }), ..spec };
            if let Some(violation) = run(smaller).violation {
                return (smaller, violation);
            }
        }
    }
    (spec, violation.to_owned())
}
