//! Ordered acquisition: a transaction waits only upwards.
//!
//! **Mechanism.** All locks have a place in one total order: by relation, key, column group. A transaction
//! waits for a lock only if its place is above those of all locks that it holds; otherwise it aborts at once.
//! Along a chain of waits the places rise: a transaction that holds the lock that another waits for, and
//! waits itself, waits for a higher one. So no circle closes, and no search is needed.
//!
//! **What it gives.** Transactions that happen to lock upwards, or that lock no more than one thing, never
//! abort for a lock, as under deadlock detection, and a wait costs nothing but the wait. **What it costs.**
//! Where a transaction comes back down and meets a conflict, it aborts, though most often there was no
//! deadlock; it is NO_WAIT then. An upgrade never waits, since the lock is held already, so read for update
//! what you will update. A descending scan goes down. And age does not protect a transaction that goes down
//! again and again.
//!
//! Of a key the first words count ([`WORDS`]). Two places that are equal in these do not wait for each other:
//! the rule says *above*, so it holds although the order cannot tell them apart.

use crate::mutant::{Mutant, planted};

/// Key words that a place has; TPC-C's keys have at most as many.
const WORDS: usize = 4;

/// Where a record is in the order of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    relation: usize,
    key: [u64; WORDS],
}

/// The highest lock that is held: the place of its record, and its group.
pub(super) type Highest = Option<(Place, usize)>;

/// The places of what an attempt holds.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The place of the record that the attempt accesses next.
    next: Place,
    /// By number of the record among those held.
    places: Vec<Place>,
    highest: Highest,
}

impl Order {
    /// The attempt is about to access the record of that key.
    #[inline]
    pub fn come_to(&mut self, relation: usize, key: &[u64]) {
        let words = key.len().min(WORDS);
        self.next = Place { relation, key: [0; WORDS] };
        self.next.key[..words].copy_from_slice(&key[..words]);
    }

    /// The record has got an entry among those that are held.
    #[inline]
    pub fn push(&mut self) {
        self.places.push(self.next);
    }

    /// A group of a record is locked.
    #[inline]
    pub fn locked(&mut self, number: usize, group: usize) {
        let lock = Some((self.places[number], group));
        if planted(Mutant::OrderOfLastLockOnly) || lock > self.highest {
            self.highest = lock;
        }
    }

    /// The highest lock.
    pub fn highest(&self) -> Highest {
        self.highest
    }

    /// What was locked since is let go.
    pub fn back_to(&mut self, highest: Highest) {
        self.highest = highest;
    }

    /// Whether a group of a record is above all that is locked.
    pub fn is_upwards(&self, number: usize, group: usize) -> bool {
        planted(Mutant::OrderIgnored) || Some((self.places[number], group)) > self.highest
    }

    /// Nothing is held any more.
    #[inline]
    pub fn clear(&mut self) {
        self.places.clear();
        self.highest = None;
    }
}
