//! What an observer of a simulation is told, and the names of what it sees.

use super::directory::Kind;
use super::schedule::{Fate, Who};
use std::collections::BTreeMap;

/// Is told every step of a simulation.
pub type Observer = Box<dyn FnMut(&Observed)>;

/// A step.
pub struct Observed {
    /// Accesses of all cores so far.
    pub step: u64,
    /// The core's clock, in cycles.
    pub clock: u64,
    /// Which core; `None` is the body of the simulation.
    pub who: Option<Who>,
    /// What.
    pub what: What,
}

/// What happened in a step.
pub enum What {
    /// An access to shared memory.
    Access {
        /// The name of the word: `accounts[5] word 2`, or `word 17` for the seventeenth without a name.
        name: String,
        /// What was done to it.
        kind: Kind,
        /// What it was.
        before: u64,
        /// What it is now.
        after: u64,
    },
    /// The core passed a named point.
    Point(&'static str),
    /// A note of the code.
    Note(String),
    /// The core waits for a mutex, a condition, an end, a write, or time.
    Waits,
    /// Something was ordered to befall it.
    Fate(Fate),
}

/// Names of words by address.
#[derive(Default)]
pub(super) struct Names {
    ranges: BTreeMap<usize, (usize, String)>,
    /// Words without a name, in the order of their first access.
    others: BTreeMap<usize, usize>,
}

impl Names {
    /// Names `bytes` bytes from `start` on.
    pub fn set(&mut self, start: usize, bytes: usize, name: String) {
        self.ranges.insert(start, (bytes, name));
    }

    /// The name of a word.
    pub fn of(&mut self, address: usize) -> String {
        if let Some((start, (bytes, name))) = self.ranges.range(..=address).next_back()
            && address < start + bytes
        {
            return match (address - start) / 8 {
                _ if *bytes <= 8 => name.clone(),
                word => format!("{name} word {word}"),
            };
        }
        let next = self.others.len();
        format!("word {}", self.others.entry(address).or_insert(next))
    }
}
