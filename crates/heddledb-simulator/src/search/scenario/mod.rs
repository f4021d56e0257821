//! What one seed stands for: a program, a schedule, and when the epoch advances.
//!
//! Everything is drawn from the seed in one fixed order, so a seed means the same for ever, whatever is cut
//! away from it later. Programs are small on purpose: a bug of concurrency shows with two or three
//! transactions on two or three keys, and of small simulations thousands fit into a second. What varies is
//! what the small size hides: which keys are there, how full a leaf is, who is slow where.

mod putting_off;

pub(super) use putting_off::COUNTERS;

use super::{Cut, Faults};
use heddledb::Priority;
use heddledb::internals::random::Random;
use heddledb::procedure::PlanChange;
use heddledb::protocol::{Execution, Kind};
use heddledb_check::programs::{Placed, Program as Procedure};
use heddledb_check::recorder::{ORDERED, TABLES};
use heddledb_check::workload::{Step, draw_at_once};
use heddledb_engine_simulated::sync::simulation::{Event, Fate, Schedule, When, Who};
use std::fmt;

/// A transaction of a recorded history.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    /// It looks at a snapshot instead of writing.
    pub is_snapshot: bool,
    /// Its commit waits until it is durable; with a disk only.
    pub waits: bool,
    /// It is a call of that procedure type.
    pub call: Option<usize>,
    /// What it does, and at which sites.
    pub steps: Vec<Placed>,
    /// They are intentions of a deferring transaction, but for those of these bits.
    pub deferring: Option<u64>,
    /// It is a call that is submitted, so urgent.
    pub submitted: Option<Priority>,
}

/// The number of the first executor among workers: behind those of the scenario, the epoch's, and the two others that there may be.
pub(super) const FIRST_EXECUTOR: usize = 3;

/// How calls are executed that tell what they will access, and that are submitted where the protocol gathers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Workers that execute what is submitted.
    pub executors: usize,
    /// Calls of a worker that may be under way.
    pub window: usize,
    /// The log says that calls were made, and not what they wrote; with a disk only.
    pub commands: bool,
}

/// What the workers do.
#[derive(Clone, Debug)]
pub(super) enum Program {
    /// Anything, recorded and judged as a history.
    History {
        /// Rows at the start: table and key.
        rows: Vec<(u8, u64)>,
        /// Rows that are inserted and deleted before, so that the tree has sparse leaves.
        passing: Vec<u64>,
        /// Procedure types.
        programs: Vec<Procedure>,
        /// Keys that the last look covers.
        keys: u64,
        /// By worker.
        plans: Vec<Vec<Steps>>,
    },
    /// One with an invariant.
    Invariant(Invariant),
}

/// Programs of which it is known what must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invariant {
    /// Money moves between rows of two tables: the sum stays, also for scans and snapshots.
    Transfers,
    /// Of two rows each worker raises its own if the other is not raised: never both.
    Skew,
    /// Each inserts its row if the range is empty: one appears.
    Unless,
    /// A row of each table come and go together.
    Pairs,
    /// Each sets its row to its neighbour's plus one: not all can have seen a zero.
    Ring,
    /// Values move, and the index with them.
    Index,
    /// Adds commute, and each counts once.
    Counters,
}

impl Invariant {
    const ALL: [Self; 7] =
        [Self::Transfers, Self::Skew, Self::Unless, Self::Pairs, Self::Ring, Self::Index, Self::Counters];
}

/// How the epoch advances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Epochs {
    /// A worker of its own advances it so many times, and lets others run in between or not.
    Worker { advances: u64, yields: bool },
    /// The database's own thread, every so many nanoseconds.
    Service { interval_ns: u64 },
}

/// What a worker of its own changes while the others run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A procedure type: it is removed if it is there, registered if not.
    Type(usize),
    /// Whether a vertex of the plan is tracked.
    Vertex(u16, bool),
}

/// How procedures come and go.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    pub how: PlanChange,
    /// Each after how many pauses.
    pub steps: Vec<(Change, u64)>,
}

/// What goes wrong with the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    /// From which operation on the power is off, or the device fails.
    pub fails_at: Option<(u64, bool)>,
    /// Nanoseconds that an operation takes.
    pub latency_ns: u64,
    /// Draws what survives.
    pub luck: u64,
    /// The process is killed, but the power stays.
    pub keeps_power: bool,
}

/// All of it.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub program: Program,
    pub workers: usize,
    /// Transactions of each worker, at most.
    pub transactions: usize,
    pub schedule: Schedule,
    pub epochs: Epochs,
    pub events: Vec<Event>,
    pub disk: Option<Disk>,
    pub changes: Option<Changes>,
    /// Calls tell what they will access.
    pub told: Option<Told>,
    /// Calls put additions to counters off.
    pub puts_off: bool,
    pub seed: u64,
}

/// Named places of the engine at which a delay may be ordered.
const POINTS: [&str; 13] = [
    "commit",
    "epoch read",
    "locked",
    "validated",
    "install",
    "between rts and tid",
    "child",
    "split",
    "merge",
    "unlink",
    "advance",
    "piece",
    "piece latched",
];
/// Those between pieces.
const PIECE_POINTS: [&str; 2] = ["piece", "piece latched"];
/// Those of the log.
const LOG_POINTS: [&str; 2] = ["round taken", "round durable"];

/// Those of commits that queue for what they write.
const DEFERRING_POINTS: [&str; 6] = ["queued", "passed", "ordered", "certified", "turn", "install"];

/// Those of whoever executes what is submitted.
const GATHERED_POINTS: [&str; 4] = ["commit", "locked", "validated", "install"];

/// Of the histories so many, of eight, have deferring transactions: under protocols that defer, and elsewhere.
const DEFERRING_OF_EIGHT: u64 = 6;
const DEFERRING_OF_EIGHT_ELSEWHERE: u64 = 1;
const DEFERRING_SALT: u64 = 0xD3F3;

/// Of the histories so many, of eight, have calls that tell what they will access, under protocols that ask for it.
const TOLD_OF_EIGHT: u64 = 5;
const TOLD_SALT: u64 = 0x7E11;

/// Tries of a transaction that conflicts.
pub(super) const TRIES: u64 = 12;

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

impl Scenario {
    /// What a seed stands for, and what is left of it after `cut`.
    pub fn draw(seed: u64, faults: Faults, kind: Kind, cut: Option<Cut>) -> Self {
        let mut random = Random::new(Random::new(seed).next_u64() ^ (faults as u64) << 56);
        let random = &mut random;
        let workers = (2 + random.below(5).min(3) as usize).min(kind.sessions_max());
        let transactions = 1 + random.below(4) as usize;
        let history = faults != Faults::None || random.below(4) != 0;
        let program = match history {
            // Under protocols that execute them in pieces, mostly calls.
            true if kind.has_pieces() && (random.below(6) != 0 || faults == Faults::Change) => {
                draw_calls(random, workers, transactions, faults)
            }
            true => draw_history(random, workers, transactions, faults),
            false => Program::Invariant(pick(random, &Invariant::ALL)),
        };
        let schedule = draw_schedule(random);
        let epochs = match random.below(3) {
            0 => Epochs::Service { interval_ns: pick(random, &[100, 300, 1_000, 3_000, 10_000]) },
            _ => Epochs::Worker { advances: random.below(7), yields: random.below(2) == 0 },
        };
        let events = draw_events(random, workers, faults);
        let mut disk = None;
        let mut epochs = epochs;
        if faults == Faults::Disk {
            epochs = Epochs::Service { interval_ns: pick(random, &[300, 1_000, 3_000, 10_000]) };
            disk = Some(Disk {
                fails_at: (random.below(2) == 0).then(|| (random.below(60), random.below(3) == 0)),
                latency_ns: pick(random, &[0, 50, 200, 1_000]),
                luck: random.next_u64(),
                keeps_power: random.below(4) == 0,
            });
        }
        let changes = match &program {
            Program::History { programs, .. } if faults == Faults::Change && !programs.is_empty() => {
                Some(draw_changes(random, programs.len(), kind))
            }
            _ => None,
        };
        let mut all = Self {
            program,
            workers,
            transactions,
            schedule,
            epochs,
            events,
            disk,
            changes,
            told: None,
            puts_off: false,
            seed,
        };
        all.draw_deferring(kind);
        all.draw_told(kind, faults);
        all.draw_putting_off(kind, faults);
        if let Some(cut) = cut {
            all.cut(cut);
        }
        all
    }

    /// Lets closures of some histories defer what they do; drawn apart, so that what else the seed means stays.
    fn draw_deferring(&mut self, kind: Kind) {
        let random = &mut Random::new(self.seed ^ DEFERRING_SALT);
        let odds = if kind.defers() { DEFERRING_OF_EIGHT } else { DEFERRING_OF_EIGHT_ELSEWHERE };
        if random.below(8) >= odds {
            return;
        }
        let Program::History { plans, .. } = &mut self.program else { return };
        let is_closure = |steps: &&mut Steps| !steps.is_snapshot && steps.call.is_none();
        for steps in plans.iter_mut().flatten().filter(is_closure) {
            if random.below(6) != 0 {
                steps.deferring = Some(draw_at_once(random));
            }
        }
        if kind.defers() && random.below(2) == 0 {
            let who = Who::Worker(random.below(self.workers as u64) as usize);
            let when = When::Point(pick(random, &DEFERRING_POINTS).to_owned(), 1 + random.below(4));
            self.events.push(Event { who, when, fate: Fate::Stall(20 << random.below(8)) });
        }
    }

    /// Has calls tell what they will access, and submits them where they are gathered; drawn apart, so that what else the seed means
    /// stays for other protocols. Whoever dies keeps all that come behind the call that it executes: these wait for ever, lawfully.
    fn draw_told(&mut self, kind: Kind, faults: Faults) {
        let random = &mut Random::new(self.seed ^ TOLD_SALT);
        let is_asked = kind.execution().is_announced() && faults != Faults::Change;
        let (has_disk, kills) = (faults == Faults::Disk, matches!(faults, Faults::Kill | Faults::Disk));
        if !is_asked || random.below(8) >= TOLD_OF_EIGHT {
            return;
        }
        let gathers = kind.execution() == Execution::Batched;
        let (keys, odds) = (1 + random.below(4), random.below(5));
        let mut rows = Vec::new();
        for table in 0..TABLES {
            rows.extend((0..keys).filter(|_| random.below(4) < odds).map(|key| (table, key)));
        }
        let types = 1 + random.below(4) as usize;
        let programs: Vec<_> = (0..types).map(|number| Procedure::draw_told(random, number)).collect();
        self.transactions = 1 + random.below(8) as usize;
        let (other_odds, urgent_odds) = (pick(random, &[3, 8, 30]), pick(random, &[2, 5, 1_000]));
        let mut steps = || {
            let of_type = random.below(programs.len() as u64) as usize;
            let (mut steps, other) = (programs[of_type].input(random, 0, keys), random.below(other_odds));
            let is_submitted = gathers && other > 0;
            if !is_submitted {
                // It counts with submitted calls only.
                steps.retain(|(_, step)| !matches!(step, Step::Add(_)));
            }
            let urgency = if random.below(urgent_odds) == 0 { Priority::High } else { Priority::Normal };
            let form = random.below(3);
            Steps {
                is_snapshot: other == 0 && form == 0,
                waits: has_disk && random.below(2) == 0,
                call: (other > 0 || form == 1).then_some(of_type),
                steps,
                deferring: None,
                submitted: is_submitted.then_some(urgency),
            }
        };
        let mut plan = || (0..self.transactions).map(|_| steps()).collect();
        let plans = (0..self.workers).map(|_| plan()).collect();
        let told = Told {
            executors: 1 + random.below(3) as usize,
            window: pick(random, &[1, 2, 4, 8]),
            commands: has_disk && random.below(2) == 0,
        };
        if gathers && random.below(2) == 0 {
            let executor = random.below(told.executors as u64) as usize;
            let who = Who::Worker(self.workers + FIRST_EXECUTOR + executor);
            let when = match random.below(2) {
                0 => When::Access(random.below(600)),
                // Executors lead rounds of the log, too.
                _ if has_disk && random.below(2) == 0 => {
                    When::Point(pick(random, &LOG_POINTS).to_owned(), 1 + random.below(3))
                }
                _ => When::Point(pick(random, &GATHERED_POINTS).to_owned(), 1 + random.below(4)),
            };
            let dies = kills && random.below(3) != 0;
            let fate = if dies { Fate::Kill } else { Fate::Stall(20 << random.below(8)) };
            self.events.push(Event { who, when, fate });
        }
        self.program = Program::History { rows, passing: Vec::new(), programs, keys: keys + 4, plans };
        self.told = Some(told);
    }

    /// Whether a worker may die.
    pub fn has_deaths(&self) -> bool {
        self.events.iter().any(|event| event.fate == Fate::Kill)
    }

    /// Whether anything is ordered to go wrong.
    pub fn faults(&self) -> bool {
        !self.events.is_empty()
    }

    fn cut(&mut self, cut: Cut) {
        self.workers = self.workers.min(cut.workers);
        self.transactions = self.transactions.min(cut.transactions);
        if let Program::History { plans, .. } = &mut self.program {
            plans.truncate(cut.workers);
            plans.iter_mut().for_each(|plan| plan.truncate(cut.transactions));
        }
        self.events.truncate(cut.events);
        if let Schedule::Random { seed, .. } | Schedule::Pct { seed, .. } = &mut self.schedule {
            *seed = seed.wrapping_add(cut.salt);
        }
    }
}

fn draw_changes(random: &mut Random, types: usize, kind: Kind) -> Changes {
    let how = if random.below(4) == 0 { PlanChange::Barrier } else { PlanChange::Transition };
    // Where a plan says what is tracked, and nothing else depends on it.
    let adapts = matches!(kind, Kind::Ic3 | Kind::Ic3Basic | Kind::Ic3Contended);
    let adapt_odds = if adapts { pick(random, &[0, 0, 2, 6]) } else { 0 };
    let step = |random: &mut Random| match random.below(8) < adapt_odds {
        true => Change::Vertex(random.below(6) as u16, random.below(2) == 0),
        false => Change::Type(random.below(types as u64) as usize),
    };
    let steps = (0..1 + random.below(6)).map(|_| (step(random), random.below(4))).collect();
    Changes { how, steps }
}

fn draw_schedule(random: &mut Random) -> Schedule {
    let seed = random.next_u64();
    match random.below(5) {
        0 | 1 => Schedule::Pct {
            seed,
            changes: 1 + random.below(5) as u32,
            steps: pick(random, &[60, 150, 400, 1_000]),
        },
        _ => Schedule::Random { seed, odds: pick(random, &[1, 2, 3, 5, 8, 14, 30, 80]) },
    }
}

fn draw_history(random: &mut Random, workers: usize, transactions: usize, faults: Faults) -> Program {
    let (mut rows, mut passing) = (Vec::new(), Vec::new());
    // Mostly few keys; sometimes a tree whose leaf is about to split, or to be merged.
    let (base, keys, ordered_odds) = match random.below(8) {
        6 if faults != Faults::Disk => {
            // Full leaves hold 30 entries.
            let there = 28 + random.below(4);
            rows.extend((0..there).map(|key| (0, key * 2)));
            (random.below(2) * 26 + 2, 34, 6)
        }
        7 if faults != Faults::Disk => {
            // A full leaf and the start of another, then most rows go.
            let (left, right) = (4 + random.below(6), 1 + random.below(5));
            let stays = |key: &u64| *key < left || (30..30 + right).contains(key);
            rows.extend((0..36).filter(stays).map(|key| (0, key)));
            passing.extend((0..36).filter(|key| !stays(key)));
            (0, 36, 6)
        }
        _ => {
            let keys = 1 + random.below(5);
            let odds = random.below(4);
            for table in 0..2 {
                rows.extend((0..keys).filter(|_| random.below(4) < odds).map(|key| (table, key)));
            }
            (0, keys, 4)
        }
    };
    let table = |random: &mut Random| u8::from(random.below(8) >= ordered_odds);
    let small = keys <= 8;
    let step = |random: &mut Random| {
        let key = match small {
            true => random.below(keys),
            // Around the place where something will happen.
            false if random.below(4) != 0 => base + random.below(10),
            false => random.below(keys),
        };
        let table = table(random);
        match random.below(32) {
            0..10 => Step::Read(table, key),
            10..15 => Step::Write(table, key),
            15..17 => Step::Update(table, key),
            17..19 => Step::Insert(table, key),
            19..21 => Step::Upsert(table, key),
            21..23 => Step::Overwrite(table, key),
            23..25 => Step::Delete(table, key),
            25..27 => Step::Remove(table, key),
            27 if random.below(4) == 0 => Step::GiveUp,
            _ => {
                let high = key + random.below(4);
                let limit = if random.below(3) == 0 { 1 + random.below(3) as usize } else { usize::MAX };
                Step::Scan { table: ORDERED, low: key, high, reverse: random.below(2) == 0, limit }
            }
        }
    };
    let length = 1 + random.below(6);
    let snapshot_odds = pick(random, &[3, 7, 20]);
    let mut plans = Vec::new();
    for _ in 0..workers {
        let mut plan = Vec::new();
        for _ in 0..transactions {
            let count = 1 + random.below(length);
            plan.push(Steps {
                is_snapshot: random.below(snapshot_odds) == 0,
                waits: random.below(2) == 0,
                call: None,
                steps: (0..count).map(|_| (0, step(random))).collect(),
                deferring: None,
                submitted: None,
            });
        }
        plans.push(plan);
    }
    let keys = keys.max(base + 10) + 4;
    Program::History { rows, passing, programs: Vec::new(), keys, plans }
}

/// Calls of random procedures, with closures that do the same, and snapshots.
fn draw_calls(random: &mut Random, workers: usize, transactions: usize, faults: Faults) -> Program {
    let (keys, odds) = (1 + random.below(3), random.below(4));
    let mut rows = Vec::new();
    for table in 0..TABLES {
        rows.extend((0..keys).filter(|_| random.below(4) < odds).map(|key| (table, key)));
    }
    let types = match faults {
        Faults::Change => 2 + random.below(3),
        _ => 1 + random.below(4),
    };
    let programs: Vec<_> = (0..types as usize).map(|number| Procedure::draw(random, number)).collect();
    let (closure_odds, snapshot_odds) = (pick(random, &[4, 8, 30]), pick(random, &[7, 20, 60]));
    let mut plans = Vec::new();
    for _ in 0..workers {
        let mut plan = Vec::new();
        for _ in 0..transactions {
            let of_type = random.below(programs.len() as u64) as usize;
            plan.push(Steps {
                is_snapshot: random.below(snapshot_odds) == 0,
                waits: random.below(2) == 0,
                call: (random.below(closure_odds) != 0).then_some(of_type),
                steps: programs[of_type].input(random, 0, keys),
                deferring: None,
                submitted: None,
            });
        }
        plans.push(plan);
    }
    Program::History { rows, passing: Vec::new(), programs, keys: keys + 4, plans }
}

fn draw_events(random: &mut Random, workers: usize, faults: Faults) -> Vec<Event> {
    // The epoch's worker is the one behind the others.
    let who = |random: &mut Random| match (faults, random.below(8)) {
        (Faults::Disk, 0 | 1) => Who::Service(0),
        (_, 2) => Who::Worker(workers),
        _ => Who::Worker(random.below(workers as u64) as usize),
    };
    let when = |random: &mut Random, who: Who| match (random.below(4), who) {
        (0, _) => When::Access(random.below(400)),
        (1, Who::Service(_)) => When::Wait(1 + random.below(8)),
        (1, _) if faults == Faults::Disk => When::Wait(1 + random.below(8)),
        // Between its pieces, where the plan changes under it.
        (1 | 2, Who::Worker(worker)) if faults == Faults::Change && worker < workers => {
            When::Point(pick(random, &PIECE_POINTS).to_owned(), 1 + random.below(6))
        }
        (2, _) if faults == Faults::Disk => {
            When::Point(pick(random, &LOG_POINTS).to_owned(), 1 + random.below(3))
        }
        _ => When::Point(pick(random, &POINTS).to_owned(), 1 + random.below(3)),
    };
    let count = match faults {
        Faults::None => random.below(3).saturating_sub(random.below(2)),
        _ => 1 + random.below(3),
    };
    let mut events = Vec::new();
    for _ in 0..count {
        let who = who(random);
        let when = when(random, who);
        let fate = match faults {
            Faults::None => Fate::Stall(20 << random.below(6)),
            Faults::Stall => Fate::Stall(200 << random.below(8)),
            Faults::Change => Fate::Stall(20 << random.below(8)),
            Faults::Kill | Faults::Disk if random.below(3) != 0 => Fate::Kill,
            Faults::Kill | Faults::Disk => Fate::Stall(50 << random.below(8)),
        };
        events.push(Event { who, when, fate });
    }
    events
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.program {
            Program::Invariant(invariant) => {
                writeln!(f, "program:  {invariant:?}, {} workers", self.workers)?;
            }
            Program::History { rows, passing, programs, plans, .. } => {
                let rows: Vec<String> = rows
                    .iter()
                    .map(|(table, key)| {
                        format!("{}{table}:{key}", "oh".as_bytes()[*table as usize % 2] as char)
                    })
                    .collect();
                writeln!(f, "rows:     {}", if rows.is_empty() { "none".into() } else { rows.join(" ") })?;
                if !passing.is_empty() {
                    writeln!(f, "deleted:  {passing:?} of the ordered table")?;
                }
                for (number, program) in programs.iter().enumerate() {
                    writeln!(f, "program {number}: {program}")?;
                }
                for (worker, plan) in plans.iter().enumerate() {
                    for (number, one) in plan.iter().enumerate() {
                        let kind = match one.call {
                            _ if one.is_snapshot => " (snapshot)".to_owned(),
                            Some(of_type) if let Some(urgency) = one.submitted => {
                                format!(" (program {of_type}, submitted, {urgency:?})")
                            }
                            Some(of_type) => format!(" (call of program {of_type})"),
                            None => match one.deferring {
                                Some(0) => " (deferred)".to_owned(),
                                Some(at_once) => format!(" (deferred, but for {:#b})", at_once & 0xFFFF),
                                None => String::new(),
                            },
                        };
                        let steps: Vec<&Step> = one.steps.iter().map(|(_, step)| step).collect();
                        writeln!(f, "worker {worker}, transaction {number}{kind}: {steps:?}")?;
                    }
                }
            }
        }
        writeln!(f, "schedule: {:?}", self.schedule)?;
        writeln!(f, "epochs:   {:?}", self.epochs)?;
        for event in &self.events {
            writeln!(f, "ordered:  {:?} {:?} {:?}", event.who, event.when, event.fate)?;
        }
        if let Some(changes) = &self.changes {
            writeln!(f, "changes:  {changes:?}")?;
        }
        if let Some(told) = &self.told {
            writeln!(f, "calls:    {told:?}")?;
        }
        if let Some(disk) = &self.disk {
            writeln!(f, "disk:     {disk:?}")?;
        }
        Ok(())
    }
}
