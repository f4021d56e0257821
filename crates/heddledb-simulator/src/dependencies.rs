//! On how many others a transaction depends (IC3 §6.10, table 1).
//!
//! A transaction *directly* depends on those whose accesses it meets while they run; *transitively* on those
//! that these depend on, and so on, as long as they run too. Who has ended when a dependency arises is nobody
//! to wait for, and does not count. Protocols that keep no dependencies tell of none.

use heddledb_engine_simulated::sync::Course;
use heddledb_engine_simulated::sync::simulation::Follower;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The dependencies of all transactions that committed in pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// How many transactions.
    pub transactions: u64,
    /// How many others each of them directly depended on, in sum.
    pub direct: u64,
    /// How many more they depended on through these.
    pub transitive: u64,
}

/// Counts the dependencies of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Census(Rc<RefCell<Counting>>);

#[derive(Debug, Default)]
struct Counting {
    sums: Dependencies,
    /// Those that depend on any and run.
    running: BTreeMap<u64, Before>,
    /// All that have ended.
    ended: BTreeSet<u64>,
}

/// What comes before a transaction.
#[derive(Debug, Default)]
struct Before {
    direct: BTreeSet<u64>,
    /// The direct ones too.
    all: BTreeSet<u64>,
}

impl Census {
    /// What is to be told by the simulation.
    pub fn follower(&self) -> Follower {
        let census = self.clone();
        Box::new(move |transaction, course| census.0.borrow_mut().tell(transaction, course))
    }

    /// What was counted so far.
    pub fn dependencies(&self) -> Dependencies {
        self.0.borrow().sums
    }
}

impl Counting {
    fn tell(&mut self, transaction: u64, course: Course) {
        match course {
            Course::After(other) => self.after(transaction, other),
            Course::Committed => {
                let before = self.running.remove(&transaction).unwrap_or_default();
                self.sums.transactions += 1;
                self.sums.direct += before.direct.len() as u64;
                self.sums.transitive += (before.all.len() - before.direct.len()) as u64;
                self.ended.insert(transaction);
            }
            Course::Aborted => {
                self.running.remove(&transaction);
                self.ended.insert(transaction);
            }
        }
    }

    fn after(&mut self, transaction: u64, other: u64) {
        if self.ended.contains(&other) {
            return;
        }
        let further = self.running.get(&other).into_iter().flat_map(|before| &before.all);
        let mut new: Vec<u64> = further.copied().filter(|further| !self.ended.contains(further)).collect();
        new.push(other);
        let before = self.running.entry(transaction).or_default();
        before.direct.insert(other);
        before.all.extend(&new);
        for before in self.running.values_mut().filter(|before| before.all.contains(&transaction)) {
            before.all.extend(&new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_followed_among_those_that_run() {
        let census = Census::default();
        let mut tell = census.follower();
        let counted = || {
            let Dependencies { transactions, direct, transitive } = census.dependencies();
            (transactions, direct, transitive)
        };
        tell(3, Course::After(2));
        // Three learns of one only now.
        tell(2, Course::After(1));
        tell(2, Course::After(1));
        tell(1, Course::Committed);
        assert_eq!(counted(), (1, 0, 0));
        tell(4, Course::After(3));
        // One has ended: four has three and two before it.
        tell(5, Course::After(1));
        tell(2, Course::Committed);
        tell(3, Course::Committed);
        assert_eq!(counted(), (3, 2, 1));
        tell(5, Course::Aborted);
        tell(4, Course::Committed);
        assert_eq!(counted(), (4, 3, 2));
    }
}
