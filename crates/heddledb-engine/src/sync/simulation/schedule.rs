//! Which core runs next, and what befalls which core.

use crate::sync::Random;

/// How the next core is chosen. Every choice is made again with the same settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// The core whose clock is least: the order in which it would happen. For performance.
    Clock,
    /// Before an access, with odds of one in `odds`, a core drawn at random. For bugs.
    Random {
        /// Of the draws.
        seed: u64,
        /// 1 draws at every access.
        odds: u64,
    },
    /// Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): the core of the highest priority,
    /// drawn at its start; at `changes` moments among the first `steps` accesses the running core's falls
    /// below all. The priority of a waiting core falls, too, or those that it waits for could not run.
    Pct {
        /// Of the draws.
        seed: u64,
        /// Moments at which a priority falls.
        changes: u32,
        /// Over how many accesses they are spread.
        steps: u64,
    },
}

/// A core, by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The worker with this number.
    Worker(usize),
    /// The thread that the engine started as the so-many-th, such as the one that advances the epoch.
    Service(usize),
}

/// When something befalls a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Before its so-many-th access.
    Access(u64),
    /// When it passes the named point for the so-many-th time, counted from 1.
    Point(String, u64),
    /// When it waits for so-many-th time with a time limit, counted from 1.
    Wait(u64),
}

/// What befalls a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stands still for so many cycles. Under [`Schedule::Random`] and [`Schedule::Pct`], where time is
    /// not what orders, until no other core can go on, or that many accesses were made.
    Stall(u64),
    /// It never goes on. What it holds stays held.
    Kill,
}

/// A delay or fault that was ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which core it befalls.
    pub who: Who,
    /// When.
    pub when: When,
    /// What.
    pub fate: Fate,
}

/// A schedule at work.
pub(super) struct Scheduler {
    pub schedule: Schedule,
    random: Random,
    /// Of each core; the greater runs first.
    priorities: Vec<u64>,
    /// Accesses at which a priority falls, the next one last.
    changes: Vec<u64>,
    lowest: u64,
}

impl Scheduler {
    pub fn new(schedule: Schedule) -> Self {
        let seed = match schedule {
            Schedule::Clock => 0,
            Schedule::Random { seed, .. } | Schedule::Pct { seed, .. } => seed,
        };
        let mut random = Random::new(seed);
        let mut changes: Vec<u64> = match schedule {
            Schedule::Pct { changes, steps, .. } => (0..changes).map(|_| random.below(steps)).collect(),
            _ => Vec::new(),
        };
        changes.sort_unstable_by(|a, b| b.cmp(a));
        Self { schedule, random, priorities: Vec::new(), changes, lowest: 1 << 32 }
    }

    /// A core that has just been started.
    pub fn started(&mut self, core: usize) {
        if self.priorities.len() <= core {
            self.priorities.resize(core + 1, 0);
        }
        self.priorities[core] = (1 << 40) + self.random.below(1 << 40);
    }

    /// Whether the running core should let another be chosen before its next access. Not asked under
    /// [`Schedule::Clock`].
    pub fn preempts(&mut self, core: usize, step: u64) -> bool {
        match self.schedule {
            Schedule::Clock => false,
            Schedule::Random { odds, .. } => self.random.below(odds.max(1)) == 0,
            Schedule::Pct { .. } => {
                let mut fell = false;
                while self.changes.last().is_some_and(|at| *at <= step) {
                    self.changes.pop();
                    self.fall(core);
                    fell = true;
                }
                fell
            }
        }
    }

    /// Whether a core that has become ready runs before the one that made it so.
    pub fn prefers(&self, ready: usize, running: usize) -> bool {
        matches!(self.schedule, Schedule::Pct { .. }) && self.priorities[ready] > self.priorities[running]
    }

    /// The running core waits for others.
    pub fn fall(&mut self, core: usize) {
        self.lowest -= 1;
        self.priorities[core] = self.lowest;
    }

    /// One of those that can run, which is not `but` unless that is the only one.
    pub fn choose(&mut self, ready: &[usize], but: Option<usize>) -> usize {
        match self.schedule {
            Schedule::Pct { .. } => {
                *ready.iter().max_by_key(|core| self.priorities[**core]).expect("one is ready")
            }
            _ => {
                let others = ready.iter().filter(|core| Some(**core) != but).count() as u64;
                if others == 0 {
                    return ready[0];
                }
                let at = self.random.below(others) as usize;
                *ready.iter().filter(|core| Some(**core) != but).nth(at).expect("counted above")
            }
        }
    }
}
