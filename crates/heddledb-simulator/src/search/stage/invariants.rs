//! The programs of which it is known what must hold ([`Invariant`]): their tables, a worker's transactions,
//! and the check at the end.

use super::Play;
use crate::search::scenario::{Invariant, TRIES};
use heddledb::internals::random::Random;
use heddledb::{Error, ReadTransaction, Result, Scan, Session, Table, Transaction, Txn};
use heddledb_engine_simulated::sync::yield_now;
use std::ops::ControlFlow;

/// A row of the programs with invariants.
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "account", index(AccountByValue(value)))]
pub(super) struct Account {
    #[key]
    pub(super) key: u64,
    pub(super) value: i64,
    #[group(visits)]
    pub(super) visits: i64,
}

/// Its hashed twin.
#[derive(Table, Clone, Copy, Debug)]
#[table(name = "slot", hash)]
pub(super) struct Slot {
    #[key]
    pub(super) key: u64,
    pub(super) value: i64,
}

impl Play {
    /// Runs `body` until it does not conflict; `None` if it always does.
    fn tries<R>(session: &mut Session, mut body: impl FnMut(&mut Txn) -> Result<R>) -> Result<Option<R>> {
        for _ in 0..TRIES {
            match session.attempt(&mut body) {
                Err(Error::Conflict(_)) => yield_now(),
                outcome => return outcome.map(Some),
            }
        }
        Ok(None)
    }

    /// One transaction of a worker in a program with an invariant.
    pub(super) fn round(
        &self,
        session: &mut Session,
        invariant: Invariant,
        number: usize,
        round: usize,
    ) -> Result<()> {
        let record = &*self.record;
        let mut random = Random::new(self.scenario.seed ^ (number as u64) << 32 ^ (round as u64) << 48);
        let mine = number as u64;
        let committed = match invariant {
            Invariant::Transfers => {
                let (from, to, kind) = (random.below(4), random.below(4), random.below(6));
                if kind < 4 {
                    Self::tries(session, |tx| {
                        tx.update_columns(from, Account::value, |value| *value -= 1)?;
                        tx.update_columns(to, Slot::value, |value| *value += 1)
                    })?
                    .is_some()
                } else {
                    let sum = match kind {
                        4 => Self::tries(session, sum)?,
                        _ => Some(sum(&mut session.snapshot()?)?),
                    };
                    if let Some(other) = sum.filter(|sum| *sum != 80) {
                        let how = if kind == 4 { "transaction" } else { "snapshot" };
                        record.say(format!("a {how} of worker {number} saw the sum {other}, not 80"));
                    }
                    sum.is_some()
                }
            }
            Invariant::Skew => {
                let workers = self.scenario.workers as u64;
                let raised = Self::tries(session, |tx| {
                    let mut others = 0;
                    for key in (0..workers).filter(|key| *key != mine) {
                        others += tx.get_columns(key, Account::value)?.unwrap_or(0);
                    }
                    let own = tx.get_columns(mine, Account::value)?.unwrap_or(0);
                    let new = i64::from(own == 0 && others == 0);
                    if new != own {
                        tx.update_columns(mine, Account::value, |value| *value = new)?;
                    }
                    Ok(new + others)
                })?;
                if let Some(raised @ 2..) = raised {
                    record.say(format!("worker {number} committed with {raised} rows raised"));
                }
                raised.is_some()
            }
            Invariant::Unless => Self::tries(session, |tx| {
                let rows = tx.collect(Scan::<Account>::range(5..12))?;
                match rows.is_empty() {
                    true => tx.insert(Account { key: 5 + mine, value: 1, visits: 0 }),
                    false => Ok(()),
                }
            })?
            .is_some(),
            Invariant::Pairs => Self::tries(session, |tx| match tx.get::<Account>(5)? {
                // An error, not an assertion: an optimistic body may see half a pair, and is then retried
                // instead of heard.
                Some(_) => match tx.delete::<Account>(5)? && tx.delete::<Slot>(5)? {
                    true => Ok(()),
                    false => Err(Error::user("half a pair")),
                },
                None => {
                    tx.insert(Account { key: 5, value: 0, visits: 0 })?;
                    tx.insert(Slot { key: 5, value: 0 })
                }
            })?
            .is_some(),
            Invariant::Ring => {
                let next = (mine + 1) % self.scenario.workers as u64;
                Self::tries(session, |tx| {
                    let value = tx.get_columns(next, Account::value)?.unwrap_or(0);
                    tx.update_columns(mine, Account::value, |old| *old = value + 1)?;
                    tx.get_columns(mine, Account::value).map(|_| ())
                })?
                .is_some()
            }
            Invariant::Index => {
                let (key, value) = (random.below(4), random.below(5) as i64);
                if random.below(2) == 0 {
                    Self::tries(session, |tx| tx.update_columns(key, Account::value, |old| *old = value))?
                        .is_some()
                } else {
                    Self::tries(session, |tx| {
                        let Some(row) = tx.get::<Account>(key)? else { return Ok(()) };
                        let mut found = false;
                        tx.scan_index(
                            Scan::<AccountByValue>::range((row.value, key)..=(row.value, key)),
                            |_, _| {
                                found = true;
                                ControlFlow::Continue(())
                            },
                        )?;
                        // Only a transaction that commits may complain.
                        if found { Ok(()) } else { Err(Error::user(format!("no entry for {row:?}"))) }
                    })?
                    .is_some()
                }
            }
            Invariant::Counters => {
                let key = random.below(2);
                let added = match random.below(3) {
                    0 => Self::tries(session, |tx| {
                        tx.update_columns(key, Account::visits, |visits| *visits += 1)
                    })?,
                    _ => Self::tries(session, |tx| tx.add(Account::visits, key, 1))?,
                };
                if added.is_some() {
                    record.version.set(record.version.get() + 1);
                }
                added.is_some()
            }
        };
        record.commits.set(record.commits.get() + u64::from(committed));
        Ok(())
    }

    /// What must hold at the end.
    pub(super) fn check(&self, session: &mut Session, invariant: Invariant) -> Result<()> {
        let record = &*self.record;
        let Some((sum, cells, slots, entries)) = Self::tries(session, |tx| {
            let cells = tx.collect(Scan::<Account>::all())?;
            let slots: Vec<Option<Slot>> = (0..16).map(|key| tx.get::<Slot>(key)).collect::<Result<_>>()?;
            let mut entries = Vec::new();
            tx.scan_index(Scan::<AccountByValue>::all(), |(value, _), key| {
                entries.push((value, key));
                ControlFlow::Continue(())
            })?;
            Ok((sum(tx)?, cells, slots, entries))
        })?
        else {
            record.say("the last look always conflicts, though nobody else is there".to_owned());
            return Ok(());
        };
        let mut by_value: Vec<(i64, u64)> = cells.iter().map(|row| (row.value, row.key)).collect();
        by_value.sort_unstable();
        if by_value != entries {
            record.say(format!("the table says {by_value:?}, its index {entries:?}"));
        }
        match invariant {
            Invariant::Transfers if sum != 80 => record.say(format!("the sum is {sum}, not 80")),
            Invariant::Skew if cells.iter().filter(|row| row.value != 0).count() > 1 => {
                record.say(format!("more than one row is raised: {cells:?}"));
            }
            Invariant::Unless if cells.len() != 1 && record.commits.get() > 0 => {
                record.say(format!("a phantom: {} rows instead of one: {cells:?}", cells.len()));
            }
            Invariant::Pairs if cells.len() != slots.iter().flatten().count() => {
                record.say(format!("half a pair: {cells:?} and {slots:?}"));
            }
            Invariant::Ring
                if self.scenario.workers > 1
                    && cells.iter().all(|row| row.value == 1)
                    && record.commits.get() == self.scenario.workers as u64 =>
            {
                record.say("everyone saw his neighbour's row before it was written".to_owned());
            }
            Invariant::Counters => {
                let (count, added) = (cells.iter().map(|row| row.visits).sum::<i64>(), record.version.get());
                if count != added as i64 {
                    record.say(format!("{added} were added, and {count} are there"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The money in both tables.
fn sum(tx: &mut impl ReadTransaction) -> Result<i64> {
    let mut sum = 0;
    tx.scan(Scan::<Account>::all(), |row| {
        sum += row.value;
        ControlFlow::Continue(())
    })?;
    for key in 0..4 {
        sum += tx.get_columns(key, Slot::value)?.unwrap_or(0);
    }
    Ok(sum)
}
