//! The steps of recorded transactions as intentions of deferring ones, so that what is put off to the commit is judged
//! as well.
//!
//! What an intention sees is known when it is carried out. So what happens is recorded by steps without a row that
//! take its result: they run right after it, on the session's own thread, under every protocol. They append to a list
//! that this thread keeps for the session ([`Trail`]), because a function of a plan borrows nothing.

use crate::history::{ABSENT, Op, Version};
use crate::recorder::{Hashed, Hashed3, Ordered, Ordered2, Recorder, with_table};
use crate::workload::{Step, pause};
use heddledb::{Deferred, Deferring, DeferringTxn, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;

thread_local! {
    /// What each session of this thread has done in its deferring transaction; on virtual cores all have one thread.
    static DONE: RefCell<BTreeMap<u32, Vec<Op>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Where what a session's deferring transaction does is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Trail(pub u32);

impl Trail {
    fn tell(self, ops: &[Op]) {
        DONE.with_borrow_mut(|done| done.entry(self.0).or_default().extend_from_slice(ops));
    }

    /// What was recorded since this was asked last.
    pub fn take(self) -> Vec<Op> {
        DONE.with_borrow_mut(|done| done.get_mut(&self.0).map(std::mem::take).unwrap_or_default())
    }
}

/// Steps of one deferring transaction.
#[derive(Clone, Copy, Debug)]
pub struct Intended<'a> {
    /// What it does.
    pub steps: &'a [Step],
    /// A bit for each step: whether it is done at once, by an ordinary operation.
    pub at_once: u64,
    /// Where it is recorded.
    pub trail: Trail,
}

impl Intended<'_> {
    /// The body of the transaction; versions are drawn from above `first`, one for each step at most.
    ///
    /// # Errors
    /// Those of the operations; a user abort.
    pub fn run(self, tx: &mut DeferringTxn<'_>, first: Version) -> Result<()> {
        // A body that is executed again does and writes the same.
        self.trail.take();
        for (number, step) in (0..).zip(self.steps) {
            let mut version = first + number;
            if self.at_once >> (number % 64) & 1 == 0 {
                self.intend(tx, *step, version + 1)?;
                continue;
            }
            if let Step::Read(table, key) = *step
                && key % 2 == 0
            {
                let seen = self.look(tx, table, key)?;
                tx.force(seen)?;
                continue;
            }
            let mut ops = Vec::new();
            let outcome = step.run(&mut Recorder::new(tx, &mut ops, &mut version));
            self.trail.tell(&ops);
            outcome?;
        }
        Ok(())
    }

    fn intend(self, tx: &mut DeferringTxn<'_>, step: Step, version: Version) -> Result<()> {
        match step {
            Step::Read(table, key) => self.look(tx, table, key).map(|_| ()),
            Step::Write(table, key) => {
                let seen = self.look(tx, table, key)?;
                self.put(tx, table, key, version, seen)
            }
            Step::Update(table, key) => {
                let is_there = self.change(tx, table, key, version)?;
                tx.ensure(is_there, "there is no such row")
            }
            Step::TryUpdate(table, key) => self.change(tx, table, key, version).map(|_| ()),
            // Under a key that rests on another row.
            Step::Insert(table, key) if key % 2 == 0 => {
                let other = self.look(tx, table ^ 1, key ^ 1)?;
                self.insert_with(tx, table, key, version, other)
            }
            Step::Insert(table, key) => {
                let seen = self.look(tx, table, key)?;
                let is_absent = tx.map(seen, |seen| seen == ABSENT)?;
                tx.ensure(is_absent, "there is such a row")?;
                self.put(tx, table, key, version, seen)
            }
            Step::TryInsert(table, key) | Step::WriteInVain(table, key) => {
                let seen = self.look(tx, table, key)?;
                let is_absent = tx.map(seen, |seen| seen == ABSENT)?;
                tx.when(is_absent, |tx| self.put(tx, table, key, version, seen))
            }
            Step::Upsert(table, key) => self.put_known(tx, table, key, version),
            Step::Overwrite(table, key) => {
                let seen = self.look(tx, table, key)?;
                let is_there = tx.map(seen, |seen| seen != ABSENT)?;
                tx.when(is_there, |tx| self.change(tx, table, key, version).map(|_| ()))
            }
            Step::Delete(table, key) | Step::RemoveInVain(table, key) => {
                let seen = self.look(tx, table, key)?;
                // Depends on another row, too, so that rows wait for each other.
                let other = self.look(tx, table ^ 1, key)?;
                let goes = tx.map((seen, other), |(seen, other)| seen != ABSENT && other % 2 == 0)?;
                tx.when(goes, |tx| self.erase(tx, table, key))
            }
            Step::Remove(table, key) => self.erase(tx, table, key),
            Step::Scan { table, low, high, reverse, limit } => {
                let (mut ops, mut none) = (Vec::new(), 0);
                Recorder::new(tx, &mut ops, &mut none).scan(table, low, high, reverse, limit)?;
                self.trail.tell(&ops);
                Ok(())
            }
            Step::Add(_) | Step::PutOff(..) | Step::Count(_) => {
                unreachable!("only calls add, and what goes with them")
            }
            Step::Pause(hints) => {
                pause(hints);
                Ok(())
            }
            Step::GiveUp => {
                let no = tx.map((), |()| false)?;
                tx.ensure(no, "the workload gives up")
            }
        }
    }

    fn look(self, tx: &mut DeferringTxn<'_>, table: u8, key: u64) -> Result<Deferred<Version>> {
        let seen = with_table!(table, Row => tx.look(key, Row::version)?);
        let trail = self.trail;
        tx.map(seen, move |seen| {
            let seen = seen.unwrap_or(ABSENT);
            trail.tell(&[Op::Read(table, key, seen)]);
            seen
        })
    }

    /// Whether there was a row to change.
    fn change(
        self,
        tx: &mut DeferringTxn<'_>,
        table: u8,
        key: u64,
        version: Version,
    ) -> Result<Deferred<bool>> {
        let replace = move |place: &mut Version, ()| std::mem::replace(place, version);
        let old = with_table!(table, Row => tx.defer(key, Row::version, (), replace)?);
        let trail = self.trail;
        tx.map(old, move |old| {
            match old {
                Some(old) => trail.tell(&[Op::Read(table, key, old), Op::Write(table, key, version)]),
                None => trail.tell(&[Op::Read(table, key, ABSENT)]),
            }
            old.is_some()
        })
    }

    /// Puts a row that is made when it is known what was seen.
    fn put(
        self,
        tx: &mut DeferringTxn<'_>,
        table: u8,
        key: u64,
        version: Version,
        seen: Deferred<Version>,
    ) -> Result<()> {
        let trail = self.trail;
        with_table!(table, Row => tx.put(key, seen, move |_| {
            trail.tell(&[Op::Write(table, key, version)]);
            Row { key, version }
        }))
    }

    /// Inserts a row that is made when it is known what was seen elsewhere.
    fn insert_with(
        self,
        tx: &mut DeferringTxn<'_>,
        table: u8,
        key: u64,
        version: Version,
        other: Deferred<Version>,
    ) -> Result<()> {
        let trail = self.trail;
        with_table!(table, Row => tx.insert_with(other, move |_| {
            trail.tell(&[Op::Read(table, key, ABSENT), Op::Write(table, key, version)]);
            Row { key, version }
        }))
    }

    /// Puts a row that is known, and looks at it.
    fn put_known(self, tx: &mut DeferringTxn<'_>, table: u8, key: u64, version: Version) -> Result<()> {
        let trail = self.trail;
        with_table!(table, Row => {
            tx.put(key, (), move |()| Row { key, version })?;
            let seen = tx.look(key, Row::version)?;
            tx.map(seen, move |seen| {
                let seen = seen.unwrap_or(ABSENT);
                trail.tell(&[Op::Write(table, key, version), Op::Read(table, key, seen)]);
            })?;
        });
        Ok(())
    }

    fn erase(self, tx: &mut DeferringTxn<'_>, table: u8, key: u64) -> Result<()> {
        let was_there = with_table!(table, Row => tx.erase::<Row>(key)?);
        let trail = self.trail;
        tx.map(was_there, move |was_there| {
            trail.tell(&[if was_there { Op::Delete(table, key) } else { Op::Read(table, key, ABSENT) }]);
        })?;
        Ok(())
    }
}
