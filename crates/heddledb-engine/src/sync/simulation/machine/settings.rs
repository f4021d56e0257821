//! What a simulation is told, and why it may have no result.

use super::super::costs::{Costs, Topology};
use super::super::schedule::{Event, Schedule, Who};
use super::super::trace::Observer;
use crate::sync::Course;

/// Settings of a simulation.
pub struct Settings {
    /// The shape of the machine.
    pub topology: Topology,
    /// What things cost.
    pub costs: Costs,
    /// Which core runs next.
    pub schedule: Schedule,
    /// Delays and faults.
    pub events: Vec<Event>,
    /// After so many accesses a simulation that has not ended is given up.
    pub steps_max: u64,
    /// Bytes of a core's stack.
    pub stack_bytes: usize,
    /// Called with every step.
    pub observer: Option<Observer>,
    /// Called for every transaction that cannot fail any more.
    pub decided: Option<Decided>,
    /// Called with the order of transactions, by protocols that know it.
    pub follower: Option<Follower>,
}

/// Called with a transaction's place among others.
pub type Follower = Box<dyn FnMut(u64, Course)>;

/// Called with the core whose transaction was decided to commit, and the time.
pub type Decided = Box<dyn FnMut(Option<Who>, u64)>;

impl Default for Settings {
    fn default() -> Self {
        Self {
            topology: Topology::default(),
            costs: Costs::default(),
            schedule: Schedule::Clock,
            events: Vec::new(),
            steps_max: u64::MAX,
            stack_bytes: 256 << 10,
            observer: None,
            decided: None,
            follower: None,
        }
    }
}

/// Why a simulation has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No core can go on.
    #[error("nobody can go on after {steps} steps: {waits}")]
    Deadlock {
        /// Accesses so far.
        steps: u64,
        /// Which core waits for what.
        waits: String,
    },
    /// It did not end.
    #[error("no end after {steps} steps: {waits}")]
    Endless {
        /// Accesses so far.
        steps: u64,
        /// Which core waits for what.
        waits: String,
    },
    /// The body panicked.
    #[error("{0}")]
    Panic(String),
}
